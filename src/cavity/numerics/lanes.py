# mypy: disable-error-code="no-untyped-call,no-untyped-def,untyped-decorator,misc,import-untyped"
"""Eight numbers at a time, for compiled loops over many small problems of the same shape.

A small Cholesky factorization has loops too short for the vector units of a processor. Eight of them side by side have
none that is: entry (i, j) of all eight is one `Lanes` value, and a loop over entries, written as for one matrix, is
vectorized without a remainder. Values live in flat arrays, eight neighbors in memory each.

    a = load(flat, 8 * i)       eight numbers from flat[8 i] on
    store(flat, 8 * i, a * b + c)
    fill(0.5)                   eight times the same

This module loads Numba: import it inside functions.
"""

from __future__ import annotations

import operator
from typing import Any

from llvmlite import ir
from numba import extending, types
from numba.core import cgutils
from numba.extending import models, overload, register_model

intrinsic: Any = extending.intrinsic

WIDTH = 8
"""Numbers in a value: one register of AVX-512, two of AVX2."""

FREE = ("contract",)
"""A product and a sum may be one rounding."""

_vector = ir.VectorType(ir.DoubleType(), WIDTH)


class LanesType(types.Type):
    """Numba's type of a value."""

    def __init__(self) -> None:
        super().__init__(name="Lanes8")


lanes_type = LanesType()


@register_model(LanesType)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _vector)


def _address(context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), _vector.as_pointer())


def _flat(array: Any) -> bool:
    return isinstance(array, types.Array) and array.ndim == 1 and array.layout == "C"


@intrinsic
def load(typing: Any, array: Any, index: Any) -> Any:
    """Eight numbers of a flat array, from an index on."""
    if not _flat(array):
        return None

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, index = arguments
        pointer = _address(context, builder, signature.args[0], array, index)
        return builder.load(pointer, align=8)

    return lanes_type(array, types.intp), generate


@intrinsic
def store(typing: Any, array: Any, index: Any, value: Any) -> Any:
    """Write eight numbers into a flat array, from an index on."""
    if not _flat(array):
        return None

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, index, value = arguments
        builder.store(value, _address(context, builder, signature.args[0], array, index), align=8)
        return context.get_dummy_value()

    return types.void(array, types.intp, lanes_type), generate


@intrinsic
def fill(typing: Any, number: Any) -> Any:
    """Eight times the same number."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        one = builder.insert_element(ir.Constant(_vector, ir.Undefined), arguments[0], cgutils.int32_t(0))
        mask = ir.Constant(ir.VectorType(cgutils.int32_t, WIDTH), [0] * WIDTH)
        return builder.shuffle_vector(one, ir.Constant(_vector, ir.Undefined), mask)

    return lanes_type(types.float64), generate


def _arithmetic(symbol: Any, emit: str) -> None:
    @intrinsic
    def both(typing: Any, a: Any, b: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return getattr(builder, emit)(*arguments, flags=FREE)

        return lanes_type(lanes_type, lanes_type), generate

    @overload(symbol)
    def of_lanes(a, b):  # Numba compares this signature with that of the lambda
        if isinstance(a, LanesType) and isinstance(b, LanesType):
            return lambda a, b: both(a, b)
        return None


for _symbol, _emit in ((operator.add, "fadd"), (operator.sub, "fsub"), (operator.mul, "fmul")):
    _arithmetic(_symbol, _emit)
