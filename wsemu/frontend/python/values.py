"""Types and values of a kernel while the front end walks through its source.

A value is the meaning of an expression at compile time.  It is a number in a register, a tuple of values, a view of an
array, or an object that exists only at compile time (a module, a function, a dtype, `None`).  Types are Numba's, by
name.
"""

from __future__ import annotations

from enum import EnumMeta
from typing import Any

import numpy as np

from wsemu.frontend.assemble.graph import Register
from wsemu.language.numbers import NumberType
from wsemu.model.data import NamedTuple, dataclass
from wsemu.model.errors import KernelError


class Value:
    """Base of all values."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Scalar(Value):
    """A number or bool.  `literal` is its value if it is known at compile time (`register` is then None, or created on
    demand)."""

    type: NumberType
    register: Register | None
    literal: int | float | bool | None = None
    is_python_literal: bool = False
    """true for a literal of the source or a host int or float: Numba's Literal[int], which is typed like int64"""
    enumeration: EnumMeta | None = None
    """integer enumeration of which it is a member (`enum.IntEnum`), which `is` also compares"""
    fixed: bool = False
    """true if Numba-CUDA also knows the number when it drops branches (`pruning`)"""
    dropped: bool = False
    """true if Numba-CUDA drops a branch on this comparison of values that it knows"""


@dataclass(frozen=True, slots=True)
class ComplexValue(Value):
    """A complex64 or complex128, as two floats."""

    type: NumberType
    real: Scalar
    imag: Scalar


@dataclass(frozen=True, slots=True)
class TupleValue(Value):
    """A tuple; `names` has the field names of a named tuple."""

    items: tuple[Value, ...]
    names: tuple[str, ...] = ()
    object: tuple[Any, ...] | None = None
    """the host's tuple, if Numba-CUDA knows it when it drops branches (`pruning`)"""


@dataclass(frozen=True, slots=True)
class ArrayValue(Value):
    """A view of an array: element (i, j, ...) is at `address + i * strides[0] + j * strides[1] + ...` bytes.

    `space` is global, shared, local or constant; `name` the source name, for messages.  `writable` is False for
    constants.  `bounds` describe the underlying array, which was declared or passed: the address of its first byte, and
    its size in bytes.
    """

    dtype: np.dtype[Any]
    address: Register
    shape: tuple[Scalar, ...]
    strides: tuple[Scalar, ...]
    name: str
    space: str
    bounds: tuple[Scalar, ...]
    writable: bool = True

    @property
    def ndim(self) -> int:
        return len(self.shape)


@dataclass(frozen=True, slots=True)
class FlatValue(Value):
    """`array.flat`: its elements in row order, with the last index varying fastest."""

    array: ArrayValue


@dataclass(frozen=True, slots=True)
class RecordValue(Value):
    """One element of a structured array: a field is at `address` plus its offset."""

    dtype: np.dtype[Any]
    address: Register
    offset: int
    name: str
    space: str
    writable: bool = True


@dataclass(frozen=True, slots=True)
class TensorMapValue(Value):
    """A tensor map argument: the address of its bytes, and its number of dimensions."""

    address: Register
    rank: int
    name: str


@dataclass(frozen=True, slots=True)
class RangeValue(Value):
    """A range(start, stop, step), whose parts have one integer type."""

    start: Scalar
    stop: Scalar
    step: Scalar


@dataclass(frozen=True, slots=True)
class SliceValue(Value):
    """A start:stop:step in a subscript; a missing part is None."""

    start: Scalar | None
    stop: Scalar | None
    step: Scalar | None


@dataclass(frozen=True, slots=True)
class Static(Value):
    """A Python object known at compile time: module, function, type, dtype, string, None, pattern object, ..."""

    object: Any


@dataclass(frozen=True, slots=True)
class Unread(Value):
    """A variable that Numba types by code that never runs and that the front end does not support: using it is an
    error."""

    error: KernelError


@dataclass(frozen=True, slots=True)
class EnumValue(Value):
    """A member of an enumeration that the launch chooses: `index` is its position among the members."""

    cls: type
    index: Scalar


@dataclass(frozen=True, slots=True)
class TextValue(Value):
    """An element of an array of text: a fixed number of code units of 1 (bytes) or 4 bytes, padded with zeros."""

    dtype: np.dtype[Any]
    address: Register
    offset: int
    name: str


@dataclass(frozen=True, slots=True)
class Bound(Value):
    """A method with its object: `array.view`, `pattern.execute_dma`, `x.real.conjugate`."""

    receiver: Value
    name: str


@dataclass(frozen=True, slots=True)
class Closure(Value):
    """A nested function or lambda with the variables that it sees (name -> Value, by reference to the enclosing
    scope)."""

    node: Any
    scope: Any


@dataclass(frozen=True, slots=True)
class Keywords(Value):
    """The value of a function's `**options`; it can be passed on as `**options`."""

    items: dict[str, Value]


@dataclass(frozen=True, slots=True)
class PatternValue(Value):
    """A pattern object of a kernel: its class and its fields, some of which are run-time values."""

    cls: type
    fields: dict[str, Value]


class TypedVariable(NamedTuple):
    """One assignment of a variable and its inferred type, for comparison with Numba's."""

    name: str
    line: int
    type: str
