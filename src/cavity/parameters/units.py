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

    GIVEN = auto()
    """A number without a size in the data: it is sought around the value given."""

    LENGTH = auto()
    """A distance along the input columns."""

    INVERSE_LENGTH = auto()
    """One over a length, of either sign."""

    INVERSE_SQUARED_LENGTH = auto()
    """One over a squared length."""

    PERIOD = auto()
    """The length of a cycle along an input column."""

    FREQUENCY = auto()
    """Cycles per unit of an input column, of either sign."""

    BANDWIDTH = auto()
    """The width of a peak among frequencies."""

    OFFSET = auto()
    """A squared distance of the data from the origin, in squared length scales."""

    VARIANCE = auto()
    """A variance of the function."""

    SHARED_VARIANCE = auto()
    """Variances that add up to that of the function."""

    VARIANCE_BY_ORDER = auto()
    """Variances of the interactions of one, two, ... columns."""

    WHITE_VARIANCE = auto()
    """A variance of noise that belongs to the kernel."""

    SQUARED_SLOPE = auto()
    """A variance of the function per squared length."""

    ROOT_VARIANCE = auto()
    """The root of a variance, of the order `degree` of the kernel."""

    ROOT_SQUARED_SLOPE = auto()
    """The same per squared length."""

    NOISE_VARIANCE = auto()
    """A variance of the noise."""

    NOISE_SD = auto()
    """A standard deviation of the noise."""

    NOISE_RATIO = auto()
    """How much wider the noise of outliers is."""

    COUNT = auto()
    """A number of events."""

    LEVEL = auto()
    """A value of the function."""

    SLOPE = auto()
    """A change of the function per length."""

    COEFFICIENT = auto()
    """Coefficients of the powers 1, 2, ... of each column."""
