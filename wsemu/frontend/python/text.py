"""Text in arrays (dtypes `S` and `U`): assignment from constants and other elements, comparison, and length."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wsemu.frontend.python import arithmetic
from wsemu.frontend.python.scalars import TRUE, both, choose, constant, describe, register, scalar_cast
from wsemu.frontend.python.values import Scalar, Static, TextValue, Value
from wsemu.language.numbers import NUMBERS, NumberType, int64
from wsemu.model.errors import KernelError, UnsupportedError

if TYPE_CHECKING:
    import numpy as np

    from wsemu.frontend.assemble.graph import Register
    from wsemu.frontend.python.builder import Builder

MOST = 256
"""maximum code units of an element, each of which gets its own instructions"""


def is_text(value: Value) -> bool:
    return isinstance(value, TextValue) or (isinstance(value, Static) and isinstance(value.object, (str, bytes)))


def code_unit_type(dtype: np.dtype[Any]) -> NumberType:
    """Return the type of a code unit."""
    return NUMBERS["uint8" if dtype.kind == "S" else "uint32"]


def code_unit_count(dtype: np.dtype[Any], name: str) -> int:
    count = dtype.itemsize // (code_unit_type(dtype).bits // 8)
    if count > MOST:
        raise UnsupportedError(f"`{name}` has text of {count} characters", remedy=f"use {MOST} or fewer")
    return count


def units(b: Builder, value: Value, count: int) -> list[Scalar]:
    """Return the first `count` code units of a text as numbers, zeros after its end."""
    if isinstance(value, TextValue):
        type_ = code_unit_type(value.dtype)
        own = min(code_unit_count(value.dtype, value.name), count)
        made = []
        for n in range(own):
            (loaded,) = b.effect(
                f"ld.b{type_.bits}", (value.address,), (type_.register,), value.offset + n * type_.bits // 8,
                array=value.name, element=type_.name,
            )  # fmt: skip
            made.append(scalar_cast(b, Scalar(type_, loaded), int64))
    elif isinstance(value, Static) and isinstance(value.object, (str, bytes)):
        codes = value.object if isinstance(value.object, bytes) else map(ord, value.object)
        made = [constant(int64, code) for code in codes][:count]
    else:
        raise KernelError(
            f"{describe(value)} is no text", remedy="assign a constant text, or an element of another array"
        )
    return made + [constant(int64, 0)] * (count - len(made))


def write(b: Builder, dtype: np.dtype[Any], address: Register, offset: int, name: str, value: Value) -> None:
    """Store a text as an element; a text that is too long is truncated, as in NumPy."""
    type_ = code_unit_type(dtype)
    for n, unit in enumerate(units(b, value, code_unit_count(dtype, name))):
        b.effect(
            f"st.b{type_.bits}", (address, register(b, scalar_cast(b, unit, type_))), (), offset + n * type_.bits // 8,
            array=name, element=type_.name,
        )  # fmt: skip


def _length_known(value: Value) -> int:
    if isinstance(value, TextValue):
        return code_unit_count(value.dtype, value.name)
    assert isinstance(value, Static)
    return len(value.object)


def equal(b: Builder, left: Value, right: Value) -> Scalar:
    """Return whether two texts are equal; both may be constants."""
    count = max(_length_known(left), _length_known(right))
    result = TRUE
    for x, y in zip(units(b, left, count), units(b, right, count), strict=True):
        result = both(b, result, arithmetic.compare(b, "==", x, y))
    return result


def length(b: Builder, value: TextValue) -> Scalar:
    """Return the number of characters before the zeros at the end."""
    result = constant(int64, 0)
    for n, unit in enumerate(units(b, value, code_unit_count(value.dtype, value.name)), 1):
        used = arithmetic.compare(b, "!=", unit, constant(int64, 0))
        result = choose(b, used, constant(int64, n), result)
    return result
