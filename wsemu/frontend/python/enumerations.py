"""Members of enumerations in kernels: a member known at compilation is a host object; any other is its position in its
class."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, cast

from wsemu.frontend.python.scalars import constant, literal
from wsemu.frontend.python.values import EnumValue, Scalar, Static, Value
from wsemu.language.numbers import int64

if TYPE_CHECKING:
    from collections.abc import Sequence


def enumeration_class(value: Value) -> type | None:
    """Return the enumeration that a value is a member of; None for any other value."""
    if isinstance(value, EnumValue):
        return value.cls
    if isinstance(value, Static) and isinstance(value.object, enum.Enum):
        return type(value.object)
    return None


def common_class(values: Sequence[Value]) -> type | None:
    """Return the enumeration that all values are members of, or None."""
    first = enumeration_class(values[0])
    return first if all(enumeration_class(value) is first for value in values) else None


def common_integer_class(values: Sequence[Value]) -> enum.EnumMeta | None:
    """Return the integer enumeration that all values are members of, or None."""
    classes = {value.enumeration if isinstance(value, Scalar) else None for value in values}
    return classes.pop() if len(classes) == 1 else None


def place(value: Value) -> Scalar:
    """Return the position of a member in its class."""
    if isinstance(value, EnumValue):
        return value.index
    assert isinstance(value, Static)
    members: list[Any] = [*cast("Any", type(value.object))]
    return constant(int64, members.index(value.object))


def member_values(cls: type) -> list[Value] | None:
    """Return the values of the members if all are numbers, otherwise None."""
    members: list[Any] = [*cast("Any", cls)]
    numbers = all(isinstance(member.value, (bool, int, float)) for member in members)
    return [literal(member.value) for member in members] if numbers else None
