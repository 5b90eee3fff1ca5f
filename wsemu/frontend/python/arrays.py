"""Arrays in a kernel: addresses, loads and stores of elements and of fields of records.

An index becomes an address one dimension at a time, by `index` operations chained through their base operand.
Dimensions whose index does not change in the loop come first, so that the builder moves them out of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wsemu.frontend.assemble.graph import Register
from wsemu.frontend.python import arithmetic, text
from wsemu.frontend.python.builder import Builder
from wsemu.frontend.python.scalars import choose, describe, part_type, register, scalar_cast
from wsemu.frontend.python.values import (
    ArrayValue,
    ComplexValue,
    RecordValue,
    Scalar,
    TextValue,
    Value,
)
from wsemu.language.numbers import NUMBERS, NumberType, int64
from wsemu.language.promotion import element_dtype, number_type
from wsemu.model.errors import KernelError, UnsupportedError
from wsemu.model.isa import SEGMENT_SHIFT

_ELEMENTS = {element_dtype(t): t for t in NUMBERS.values()}
"""lookup table for the common dtypes of `number_type`"""
ZERO, ONE = Scalar(int64, None, 0), Scalar(int64, None, 1)


def element_type(dtype: np.dtype[Any], name: str) -> NumberType:
    """Return the number type of an element; raise a KernelError for one that kernels do not support."""
    found = _ELEMENTS.get(dtype) or number_type(dtype)
    if found is None:
        kind = UnsupportedError if dtype.kind in "Mm" else KernelError  # Numba supports dates
        raise kind(
            f"array `{name}` has elements of {dtype}", remedy="use numbers of up to 64 bits, or a record of them"
        )
    return found


def check_elements(dtype: np.dtype[Any], name: str) -> None:
    """Raise a KernelError unless the elements are numbers, or records of numbers."""
    if dtype.subdtype is not None:
        check_elements(dtype.subdtype[0], name)
    elif dtype.fields:
        for field_name, (part, *_) in dtype.fields.items():
            check_elements(part, f"{name}.{field_name}")
    elif dtype.kind not in "SU":
        element_type(dtype, name)


# -- addresses -------------------------------------------------------------------------------------------------------
def as_index(b: Builder, x: Value, name: str) -> Scalar:
    """Return an integer index, in a type that `index` accepts."""
    if not isinstance(x, Scalar):
        raise KernelError(f"array `{name}` is indexed with {describe(x)}", remedy="index with integers or slices")
    if x.type.kind == "f":
        raise KernelError(f"array `{name}` is indexed with a {x.type}", remedy="convert the index with `int(...)`")
    return x if x.type.bits >= 32 and x.type.kind != "b" else scalar_cast(b, x, int64)


def element_address(b: Builder, array: ArrayValue, indices: list[Value]) -> tuple[Register, int]:
    """Return (address register, byte offset) of the element, or of the sub-array, that the leading indices select."""
    address, immediate = array.address, 0
    dynamic = []
    for axis, raw in enumerate(indices):
        index, extent, stride = as_index(b, raw, array.name), array.shape[axis], array.strides[axis]
        if index.literal is not None and extent.literal is not None and stride.literal is not None:
            position = int(index.literal) + (int(extent.literal) if index.literal < 0 else 0)
            if 0 <= position < extent.literal:
                immediate += position * int(stride.literal)
                continue
        # a literal negative index counts from the end, which is not an error
        if index.literal is not None and index.literal < 0:
            index = arithmetic.binary(b, "+", extent, index)  # type: ignore[assignment]
        dynamic.append((register(b, index), index, extent, stride))
    dynamic.sort(key=lambda item: b.homes.get(item[0], 0))
    for index_register, index, extent, stride in dynamic:
        address = b.emit(
            f"index.{index.type.suffix}", index_register, register(b, extent), register(b, stride), address
        )
    return address, immediate


def add_offset(b: Builder, address: Register, offset: int) -> Register:
    """Return an address advanced by a constant number of bytes."""
    return b.emit("add.b64", address, b.constant("b64", offset)) if offset else address


def byte_address(b: Builder, array: ArrayValue, distance: Scalar, width: int) -> tuple[Register, int]:
    """Return (address register, byte offset) of `width` bytes that begin `distance` bytes after the first element. They
    are flagged as outside, with the distance from the first byte, if they are not in the memory that the array is a
    view of."""
    first, size = array.bounds
    if array.address == first.register:
        base, after = array.address, distance
        if distance.literal is not None and size.literal is not None and 0 <= distance.literal <= size.literal - width:
            return base, int(distance.literal)
    else:
        start = b.emit("sub.b64", array.address, register(b, first))
        # without the flags of the address
        start = b.emit("and.b64", start, b.constant("b64", (1 << SEGMENT_SHIFT) - 1))
        base, after = b.emit("sub.b64", array.address, start), plus(b, Scalar(int64, start), distance)
    room = plus(b, size, Scalar(int64, None, 1 - width))
    room = choose(b, arithmetic.compare(b, "<", room, ZERO), ZERO, room)
    return b.emit("index.u64", register(b, after), register(b, room), b.constant("b64", 1), base), 0


# -- elements --------------------------------------------------------------------------------------------------------
def load(b: Builder, array: ArrayValue, indices: list[Value]) -> Value:
    """Return the element at `indices`, one for each dimension of the array."""
    address, offset = element_address(b, array, indices)
    return read(b, array.dtype, address, offset, array)


def store(b: Builder, array: ArrayValue, indices: list[Value], value: Value) -> None:
    """Store a value at `indices`, converted to the array's type."""
    address, offset = element_address(b, array, indices)
    write(b, array.dtype, address, offset, array, value)


def read(b: Builder, dtype: np.dtype[Any], address: Register, offset: int, source: ArrayValue | RecordValue) -> Value:
    """Return the value at an address: a number, a record, or an array inside a record."""
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        strides: list[Scalar] = []
        size = base.itemsize
        for extent in reversed(shape):
            strides.insert(0, Scalar(int64, None, size))
            size *= extent
        extents = tuple(Scalar(int64, None, extent) for extent in shape)
        first = add_offset(b, address, offset)
        bounds = Scalar(int64, first), Scalar(int64, None, size)
        return ArrayValue(base, first, extents, tuple(strides), source.name, source.space, bounds, source.writable)
    if dtype.names is not None:
        return RecordValue(dtype, address, offset, source.name, source.space, source.writable)
    if dtype.kind in "SU":
        return TextValue(dtype, address, offset, source.name)
    type_ = element_type(dtype, source.name)
    if type_.kind == "c":
        part = part_type(type_)
        size = part.bits // 8
        return ComplexValue(type_, *(_read_number(b, part, address, offset + k * size, source) for k in range(2)))
    return _read_number(b, type_, address, offset, source)


def _read_number(
    b: Builder, type_: NumberType, address: Register, offset: int, source: ArrayValue | RecordValue
) -> Scalar:
    kind = "b8" if type_.kind == "b" else type_.register
    (result,) = b.effect(f"ld.b{type_.bits}", (address,), (kind,), offset, array=source.name, element=type_.name)
    if type_.kind == "b":
        result = b.emit("setp.ne.b8", result, b.constant("b8", 0))
    return Scalar(type_, result)


def why_not_writable(target: ArrayValue | RecordValue) -> str:
    """Return `constant` for a host array that the kernel names, `read-only` for an argument."""
    return "constant" if target.space == "constant" else "read-only"


def write(
    b: Builder, dtype: np.dtype[Any], address: Register, offset: int, target: ArrayValue | RecordValue, value: Value
) -> None:
    """Store a value at an address as `dtype`."""
    if not target.writable:
        raise KernelError(
            f"`{target.name}` is {why_not_writable(target)}", remedy="pass a writable array as an argument"
        )
    if dtype.names is not None or dtype.subdtype is not None:
        _write_whole(b, dtype, address, offset, target, value)
        return
    if dtype.kind in "SU":
        text.write(b, dtype, address, offset, target.name, value)
        return
    type_ = element_type(dtype, target.name)
    number = arithmetic.cast(b, value, type_)
    if isinstance(number, ComplexValue):
        size = part_type(type_).bits // 8
        for k, part in enumerate((number.real, number.imag)):
            _write_number(b, part, address, offset + k * size, target)
    else:
        _write_number(b, number, address, offset, target)


def _write_whole(
    b: Builder, dtype: np.dtype[Any], address: Register, offset: int, target: ArrayValue | RecordValue, value: Value
) -> None:
    """Store a record, or an array in a record, part by part: all parts are read before the first is written."""
    parts: list[tuple[np.dtype[Any], int, Value]] = []
    _whole_parts(b, dtype, 0, value, parts, target.name)
    for part, distance, item in parts:
        write(b, part, address, offset + distance, target, item)


def _whole_parts(
    b: Builder,
    dtype: np.dtype[Any],
    distance: int,
    value: Value,
    parts: list[tuple[np.dtype[Any], int, Value]],
    name: str,
) -> None:
    """Collect (dtype, distance, value) of each number or text of a record to which `value` is assigned."""
    if dtype.fields is not None and isinstance(value, RecordValue) and value.dtype.names == dtype.names:
        for field_name in dtype.names or ():
            part, at = dtype.fields[field_name][:2]
            own, source, first = field(b, value, field_name)
            _whole_parts(b, part, distance + at, read(b, own, source, first, value), parts, name)
    elif dtype.subdtype is not None and isinstance(value, (ArrayValue, Scalar, ComplexValue)):
        base, shape = dtype.subdtype
        for n, place in enumerate(np.ndindex(*shape)):
            item: Value = value
            if isinstance(value, ArrayValue):
                item = load(b, value, [Scalar(int64, None, i) for i in place[len(shape) - value.ndim :]])
            _whole_parts(b, base, distance + n * base.itemsize, item, parts, name)
    elif dtype.fields is None and dtype.subdtype is None:
        parts.append((dtype, distance, value))
    else:
        raise UnsupportedError(
            f"{describe(value)} is assigned to a whole record of `{name}`", remedy="assign its fields one by one"
        )


def _write_number(b: Builder, x: Scalar, address: Register, offset: int, target: ArrayValue | RecordValue) -> None:
    value = register(b, x)
    if x.type.kind == "b":
        value = b.emit("selp.b8", b.constant("b8", 1), b.constant("b8", 0), value)
    b.effect(f"st.b{x.type.bits}", (address, value), (), offset, array=target.name, element=x.type.name)


def field(b: Builder, record: RecordValue, name: str) -> tuple[np.dtype[Any], Register, int]:
    """Return (dtype, address, offset) of a field of a record."""
    fields = record.dtype.fields
    if fields is None or name not in fields:
        raise KernelError(
            f"record `{record.name}` has no field `{name}`",
            remedy=f"its fields are {', '.join(record.dtype.names or ())}",
        )
    dtype, offset = fields[name][:2]
    if offset % dtype.base.alignment:  # Numba-CUDA does the same
        raise KernelError(
            f"field `{name}` of record `{record.name}` is a {dtype.base} at byte {offset}, which is not aligned",
            remedy="make the dtype with `np.dtype(..., align=True)`",
        )
    return dtype, record.address, record.offset + offset


def plus(b: Builder, x: Scalar, y: Scalar) -> Scalar:
    return arithmetic.binary(b, "+", x, y)  # type: ignore[return-value]


def row_major(b: Builder, shape: tuple[Scalar, ...], itemsize: int) -> tuple[Scalar, ...]:
    """Return the strides in bytes of a C-contiguous array."""
    strides: list[Scalar] = []
    stride = Scalar(int64, None, itemsize)
    for extent in reversed(shape):
        strides.insert(0, stride)
        stride = arithmetic.binary(b, "*", stride, extent)  # type: ignore[assignment]
    return tuple(strides)
