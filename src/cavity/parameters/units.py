"""What a parameter measures, so that learning can read a typical value off the data.

A part of a model lists the units of its parameters in a class attribute, as it lists their transforms:

    class Bump(Kernel):
        _units = {"radius": Unit.LENGTH, "height": Unit.VARIANCE}

Parameters that are not listed are `Unit.GIVEN`. Lengths are in units of the input columns, variances in units of the
function squared. `cavity.learning.guesses` turns units into values.
"""

from __future__ import annotations

from enum import Enum, auto


class Unit(Enum):
    """What a parameter measures.

    Examples
    --------
    >>> from cavity.kernels import SE
    >>> SE(1.0).units["lengthscale"]
    <Unit.LENGTH: 2>
    """

    GIVEN = auto()  #: a number without a size in the data: it is sought around the value given
    LENGTH = auto()  #: a distance along the input columns
    INVERSE_LENGTH = auto()  #: one over a length, of either sign
    INVERSE_SQUARED_LENGTH = auto()  #: one over a squared length
    PERIOD = auto()  #: the length of a cycle along an input column
    FREQUENCY = auto()  #: cycles per unit of an input column, of either sign
    BANDWIDTH = auto()  #: the width of a peak among frequencies
    OFFSET = auto()  #: a squared distance of the data from the origin, in squared length scales
    VARIANCE = auto()  #: a variance of the function
    SHARED_VARIANCE = auto()  #: variances that add up to that of the function
    VARIANCE_BY_ORDER = auto()  #: variances of the interactions of one, two, ... columns
    WHITE_VARIANCE = auto()  #: a variance of noise that belongs to the kernel
    SQUARED_SLOPE = auto()  #: a variance of the function per squared length
    ROOT_VARIANCE = auto()  #: the root of a variance, of the order `degree` of the kernel
    ROOT_SQUARED_SLOPE = auto()  #: the same per squared length
    NOISE_VARIANCE = auto()  #: a variance of the noise
    NOISE_SD = auto()  #: a standard deviation of the noise
    NOISE_RATIO = auto()  #: how much wider the noise of outliers is
    COUNT = auto()  #: a number of events
    LEVEL = auto()  #: a value of the function
    SLOPE = auto()  #: a change of the function per length
    COEFFICIENT = auto()  #: coefficients of the powers 1, 2, ... of each column
