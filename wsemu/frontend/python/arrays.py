"""Arrays in a kernel: indexing, slices, views, loads and stores, shared and local allocation.

An index becomes an address one dimension at a time, by `index` operations chained through their base operand;
dimensions whose index does not change in the loop come first, so that the builder moves them out of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wsemu.frontend.assemble.graph import Register
from wsemu.frontend.python import arithmetic, text
from wsemu.frontend.python.builder import Builder
from wsemu.frontend.python.scalars import TRUE, both, choose, describe, either, part_type, register, scalar_cast
from wsemu.frontend.python.values import (
    ArrayValue,
    Bound,
    ComplexValue,
    FlatValue,
    RecordValue,
    Scalar,
    SliceValue,
    Static,
    TextValue,
    TupleValue,
    Value,
)
from wsemu.language.markers import Foreign
from wsemu.language.numbers import NUMBERS, NumberType, int64
from wsemu.language.promotion import dtype_of, number_type
from wsemu.model.data import replace
from wsemu.model.errors import KernelError, UnsupportedError
from wsemu.model.isa import SEGMENT_SHIFT
from wsemu.model.program import SharedArray

_ELEMENTS = {dtype_of(t): t for t in NUMBERS.values()}
"""the common case of `number_type`"""
ZERO, ONE = Scalar(int64, None, 0), Scalar(int64, None, 1)


def element_type(dtype: np.dtype[Any], name: str) -> NumberType:
    """The number type of an element; KernelError for one that kernels cannot hold."""
    found = _ELEMENTS.get(dtype) or number_type(dtype)
    if found is None:
        kind = UnsupportedError if dtype.kind in "Mm" else KernelError  # which Numba has
        raise kind(
            f"array `{name}` has elements of {dtype}", remedy="use numbers of up to 64 bits, or a record of them"
        )
    return found


def check_elements(dtype: np.dtype[Any], name: str) -> None:
    """KernelError unless the elements are numbers, or records of them."""
    if dtype.subdtype is not None:
        check_elements(dtype.subdtype[0], name)
    elif dtype.fields:
        for field_name, (part, *_) in dtype.fields.items():
            check_elements(part, f"{name}.{field_name}")
    elif dtype.kind not in "SU":
        element_type(dtype, name)


# -- addresses -------------------------------------------------------------------------------------------------------
def as_index(b: Builder, x: Value, name: str) -> Scalar:
    """An integer index, of a type that `index` takes."""
    if not isinstance(x, Scalar):
        raise KernelError(f"array `{name}` is indexed with {describe(x)}", remedy="index with integers or slices")
    if x.type.kind == "f":
        raise KernelError(f"array `{name}` is indexed with a {x.type}", remedy="convert the index with `int(...)`")
    return x if x.type.bits >= 32 and x.type.kind != "b" else scalar_cast(b, x, int64)


def element_address(b: Builder, array: ArrayValue, indices: list[Value]) -> tuple[Register, int]:
    """(address register, byte offset) of the element, or of the sub-array, that the leading indices select."""
    address, immediate = array.address, 0
    dynamic = []
    for axis, raw in enumerate(indices):
        index, extent, stride = as_index(b, raw, array.name), array.shape[axis], array.strides[axis]
        if index.literal is not None and extent.literal is not None and stride.literal is not None:
            position = int(index.literal) + (int(extent.literal) if index.literal < 0 else 0)
            if 0 <= position < extent.literal:
                immediate += position * int(stride.literal)
                continue
        if index.literal is not None and index.literal < 0:  # a literal negative index means the end: nothing to report
            index = arithmetic.binary(b, "+", extent, index)  # type: ignore[assignment]
        dynamic.append((register(b, index), index, extent, stride))
    dynamic.sort(key=lambda item: b.homes.get(item[0], 0))
    for index_register, index, extent, stride in dynamic:
        address = b.emit(
            f"index.{index.type.suffix}", index_register, register(b, extent), register(b, stride), address
        )
    return address, immediate


def moved(b: Builder, address: Register, offset: int) -> Register:
    """An address further on by a constant number of bytes."""
    return b.emit("add.b64", address, b.constant("b64", offset)) if offset else address


def byte_address(b: Builder, array: ArrayValue, distance: Scalar, width: int) -> tuple[Register, int]:
    """(address register, byte offset) of `width` bytes that begin `distance` bytes after the first element: flagged as
    outside where they do not lie in the memory that the array is a view of, with the distance from its first byte."""
    first, size = array.bounds
    if array.address == first.register:
        base, after = array.address, distance
        if distance.literal is not None and size.literal is not None and 0 <= distance.literal <= size.literal - width:
            return base, int(distance.literal)
    else:
        start = b.emit("sub.b64", array.address, register(b, first))
        start = b.emit("and.b64", start, b.constant("b64", (1 << SEGMENT_SHIFT) - 1))  # but for flags of the address
        base, after = b.emit("sub.b64", array.address, start), _plus(b, Scalar(int64, start), distance)
    room = _plus(b, size, Scalar(int64, None, 1 - width))
    room = choose(b, arithmetic.compare(b, "<", room, ZERO), ZERO, room)
    return b.emit("index.u64", register(b, after), register(b, room), b.constant("b64", 1), base), 0


# -- elements --------------------------------------------------------------------------------------------------------
def load(b: Builder, array: ArrayValue, indices: list[Value]) -> Value:
    """The element at as many indices as the array has dimensions."""
    address, offset = element_address(b, array, indices)
    return read(b, array.dtype, address, offset, array)


def store(b: Builder, array: ArrayValue, indices: list[Value], value: Value) -> None:
    """Write an element, converted to the array's type."""
    address, offset = element_address(b, array, indices)
    write(b, array.dtype, address, offset, array, value)


def read(b: Builder, dtype: np.dtype[Any], address: Register, offset: int, source: ArrayValue | RecordValue) -> Value:
    """What lies at an address: a number, a record, or an array inside a record."""
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        strides: list[Scalar] = []
        size = base.itemsize
        for extent in reversed(shape):
            strides.insert(0, Scalar(int64, None, size))
            size *= extent
        extents = tuple(Scalar(int64, None, extent) for extent in shape)
        first = moved(b, address, offset)
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
    """`constant` for a host array that the kernel names, `read-only` for an argument."""
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
    """Store a record or an array inside of one, part by part: all are read before the first is written."""
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
    """(dtype, distance, value) of each number or text of a record that `value` is assigned to."""
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
    """(dtype, address, offset) of a field of a record."""
    fields = record.dtype.fields
    if fields is None or name not in fields:
        raise KernelError(
            f"record `{record.name}` has no field `{name}`",
            remedy=f"its fields are {', '.join(record.dtype.names or ())}",
        )
    dtype, offset = fields[name][:2]
    if offset % dtype.base.alignment:  # as in Numba-CUDA
        raise KernelError(
            f"field `{name}` of record `{record.name}` is a {dtype.base} at byte {offset}, which is not aligned",
            remedy="make the dtype with `np.dtype(..., align=True)`",
        )
    return dtype, record.address, record.offset + offset


# -- subscripts ------------------------------------------------------------------------------------------------------
def indices_of(array: ArrayValue, index: Value) -> list[Value]:
    """The parts of a subscript, `...` spelled out."""
    items = list(index.items) if isinstance(index, TupleValue) else [index]
    dots = [n for n, item in enumerate(items) if isinstance(item, Static) and item.object is Ellipsis]
    if dots:
        missing = array.ndim - (len(items) - 1)
        items[dots[0] : dots[0] + 1] = [SliceValue(None, None, None)] * missing
    if len(items) > array.ndim:
        raise KernelError(
            f"array `{array.name}` has {array.ndim} dimensions, the index {len(items)}", remedy="drop indices"
        )
    return items


def subscript(b: Builder, array: ArrayValue, index: Value) -> Value:
    """`array[index]`: an element, or a view."""
    if array.dtype.names and isinstance(index, Static) and isinstance(index.object, str):
        return _field_view(b, array, index.object)
    items = indices_of(array, index)
    if len(items) == array.ndim and not any(isinstance(item, SliceValue) for item in items):
        return load(b, array, items)
    return view_of(b, array, items)


def view_of(b: Builder, array: ArrayValue, items: list[Value]) -> ArrayValue:
    """The view that integers and slices select."""
    address = array.address
    shape: list[Any] = []
    strides: list[Any] = []
    for axis, item in enumerate(items):
        extent, stride = array.shape[axis], array.strides[axis]
        if isinstance(item, SliceValue):
            start, length, step = slice_bounds(b, item, extent)
            address = _advance(b, address, start, stride)
            shape.append(length)
            strides.append(arithmetic.binary(b, "*", stride, step))
        else:
            one = replace(array, address=address, shape=(extent,), strides=(stride,))
            address = moved(b, *element_address(b, one, [item]))
    rest = slice(len(items), None)
    return replace(
        array,
        address=address,
        shape=(*shape, *array.shape[rest]),
        strides=(*strides, *array.strides[rest]),
    )


def _advance(b: Builder, address: Register, start: Scalar, stride: Scalar) -> Register:
    distance = arithmetic.binary(b, "*", start, stride)
    assert isinstance(distance, Scalar)
    return address if distance.literal == 0 else b.emit("add.b64", address, register(b, distance))


def slice_bounds(b: Builder, s: SliceValue, extent: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """(start, length, step) of a slice of a dimension, as Python clamps it."""
    step = ONE if s.step is None else scalar_cast(b, as_index(b, s.step, "slice"), int64)
    if step.literal is None:
        return _open_slice(b, s, extent, step)
    if step.literal == 0:
        raise KernelError("the step of a slice is 0", remedy="give a step other than 0")
    forward = step.literal > 0
    last = _minus(b, extent, ONE)
    low, high = (ZERO, extent) if forward else (Scalar(int64, None, -1), last)
    start = (ZERO if forward else last) if s.start is None else _clamp(b, s.start, extent, low, high)
    stop = (extent if forward else low) if s.stop is None else _clamp(b, s.stop, extent, low, high)
    distance = _minus(b, stop, start) if forward else _minus(b, start, stop)
    size = abs(int(step.literal))
    if size != 1:
        distance = arithmetic.binary(
            b, "//", _plus(b, distance, Scalar(int64, None, size - 1)), Scalar(int64, None, size)
        )  # type: ignore[assignment]
    empty = arithmetic.compare(b, "<", distance, ZERO)
    return start, choose(b, empty, ZERO, distance), step


def _open_slice(b: Builder, s: SliceValue, extent: Scalar, step: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """The same with a step that is known at run time only, which is not 0."""
    forward = arithmetic.compare(b, ">", step, ZERO)
    last = _minus(b, extent, ONE)
    low, high = choose(b, forward, ZERO, Scalar(int64, None, -1)), choose(b, forward, extent, last)
    first, end = choose(b, forward, ZERO, last), choose(b, forward, extent, low)
    start = first if s.start is None else _clamp(b, s.start, extent, low, high)
    stop = end if s.stop is None else _clamp(b, s.stop, extent, low, high)
    distance = choose(b, forward, _minus(b, stop, start), _minus(b, start, stop))
    size = choose(b, forward, step, _minus(b, ZERO, step))
    count: Any = arithmetic.binary(b, "//", _plus(b, distance, _minus(b, size, ONE)), size)
    return start, choose(b, arithmetic.compare(b, "<", count, ZERO), ZERO, count), step


def _plus(b: Builder, x: Scalar, y: Scalar) -> Scalar:
    return arithmetic.binary(b, "+", x, y)  # type: ignore[return-value]


def _times(b: Builder, x: Scalar, y: Scalar) -> Scalar:
    return arithmetic.binary(b, "*", x, y)  # type: ignore[return-value]


def _minus(b: Builder, x: Scalar, y: Scalar) -> Scalar:
    return arithmetic.binary(b, "-", x, y)  # type: ignore[return-value]


def _clamp(b: Builder, raw: Scalar, extent: Scalar, low: Scalar, high: Scalar) -> Scalar:
    x = scalar_cast(b, as_index(b, raw, "slice"), int64)
    x = choose(b, arithmetic.compare(b, "<", x, ZERO), _plus(b, x, extent), x)
    x = choose(b, arithmetic.compare(b, "<", x, low), low, x)
    return choose(b, arithmetic.compare(b, ">", x, high), high, x)


# -- attributes and methods ------------------------------------------------------------------------------------------
def size_of(b: Builder, array: ArrayValue) -> Scalar:
    """Number of elements."""
    total = ONE
    for extent in array.shape:
        total = arithmetic.binary(b, "*", total, extent)  # type: ignore[assignment]
    return total


def places(b: Builder, array: ArrayValue, number: Scalar) -> list[Value]:
    """The indices of an element by its number in row order."""
    return indices_of_shape(b, array.shape, number)


def indices_of_shape(b: Builder, shape: tuple[Scalar, ...], number: Scalar) -> list[Value]:
    """The indices that element `number` of an array of this shape has."""
    found: list[Value] = []
    rest: Any = number
    for extent in reversed(shape[1:]):
        found.insert(0, arithmetic.binary(b, "%", rest, extent))
        rest = arithmetic.binary(b, "//", rest, extent)
    return [rest, *found] if shape else []


METHODS = frozenset(("view", "reshape", "ravel", "transpose", "fill"))
REDUCTIONS = frozenset("sum prod mean var std all any min max argmin argmax".split())
"""methods that go over all elements"""


def attribute(b: Builder, array: ArrayValue, name: str) -> Value | None:
    """An attribute of an array, or None if it has no such attribute."""
    if name in METHODS or name in REDUCTIONS:
        return Bound(array, name)
    if array.dtype.fields is not None and name in array.dtype.fields:
        return _field_view(b, array, name)
    if name in ("real", "imag") and array.dtype.kind in "biufc":
        return _part_view(b, array, name)
    item = Scalar(int64, None, array.dtype.itemsize)
    match name:
        case "shape":
            return TupleValue(array.shape)
        case "strides":
            return TupleValue(array.strides)
        case "size":
            return size_of(b, array)
        case "ndim":
            return Scalar(int64, None, array.ndim)
        case "itemsize":
            return item
        case "nbytes":
            return arithmetic.binary(b, "*", size_of(b, array), item)
        case "dtype":
            return Static(array.dtype)
        case "T":
            return transposed(array)
        case "flat":
            return FlatValue(array)
    return None


def _field_view(b: Builder, array: ArrayValue, name: str) -> ArrayValue:
    """A field of all records of an array, as a view."""
    fields: Any = array.dtype.fields or {}
    if name not in fields:
        raise KernelError(
            f"records of `{array.name}` have no field `{name}`", remedy=f"their fields are {', '.join(fields)}"
        )
    dtype, offset = fields[name][:2]
    made = replace(array, dtype=dtype.base, address=moved(b, array.address, offset))
    if dtype.subdtype is None:
        return made
    extents = tuple(Scalar(int64, None, extent) for extent in dtype.shape)
    inner = row_major(b, extents, dtype.base.itemsize)
    return replace(made, shape=(*array.shape, *extents), strides=(*array.strides, *inner))


def _part_view(b: Builder, array: ArrayValue, name: str) -> ArrayValue | None:
    """The real or imaginary parts of a complex array, as a view; a real array is its own real part."""
    if array.dtype.kind != "c":
        return array if name == "real" else None
    part = np.dtype(f"f{array.dtype.itemsize // 2}")
    return replace(array, dtype=part, address=moved(b, array.address, part.itemsize if name == "imag" else 0))


def transposed(array: ArrayValue) -> ArrayValue:
    return replace(array, shape=array.shape[::-1], strides=array.strides[::-1])


def method(b: Builder, array: ArrayValue, name: str, args: list[Value]) -> Value:
    """`array.view(dtype)`, `array.reshape(...)`, `array.ravel()`, `array.transpose()`."""
    if name == "transpose" and not args:
        return transposed(array)
    if name == "view" and len(args) == 1:
        return _viewed(b, array, args[0])
    if name == "ravel" and not args:
        return _reshaped(b, array, (size_of(b, array),))
    if name == "reshape" and args:
        shape = args[0].items if isinstance(args[0], TupleValue) else tuple(args)
        return _reshaped(b, array, tuple(scalar_cast(b, as_index(b, x, array.name), int64) for x in shape))
    kind = UnsupportedError if name == "transpose" else KernelError
    raise kind(f"`{array.name}.{name}` with {len(args)} arguments", remedy="index the array, or see NumPy's signature")


def _viewed(b: Builder, array: ArrayValue, dtype: Value) -> ArrayValue:
    made = host_dtype(dtype)
    shape = array.shape
    if made.itemsize != array.dtype.itemsize:
        if not shape or array.strides[-1].literal != array.dtype.itemsize:
            raise KernelError(
                f"`{array.name}.view({made})` changes the element size of an array that is not contiguous",
                remedy="view the whole array, and slice the view",
            )
        old, new = (Scalar(int64, None, d.itemsize) for d in (array.dtype, made))
        last: Scalar = arithmetic.binary(b, "//", arithmetic.binary(b, "*", shape[-1], old), new)  # type: ignore[assignment]
        shape = (*shape[:-1], last)
    strides = (
        array.strides
        if made.itemsize == array.dtype.itemsize
        else (*array.strides[:-1], Scalar(int64, None, made.itemsize))
    )
    return replace(array, dtype=made, shape=shape, strides=strides)


def _reshaped(b: Builder, array: ArrayValue, shape: tuple[Scalar, ...]) -> ArrayValue:
    """The same elements in another shape, as Numba has it: of the extents, which may be known at run time only, one may
    be negative and stands for what is left.  Only an array whose elements lie side by side has another shape."""
    size = size_of(b, array)
    is_open = [arithmetic.compare(b, "<", extent, ZERO) for extent in shape]
    known, opened = ONE, ZERO
    for extent, unknown in zip(shape, is_open, strict=True):
        known = _times(b, known, choose(b, unknown, ONE, extent))
        opened = _plus(b, opened, choose(b, unknown, ONE, ZERO))
    empty = arithmetic.compare(b, "==", known, ZERO)
    whole: Scalar = arithmetic.binary(b, "//", size, choose(b, empty, ONE, known))  # type: ignore[assignment]
    rest = choose(b, empty, ZERO, whole)
    shape = tuple(choose(b, unknown, rest, extent) for extent, unknown in zip(shape, is_open, strict=True))
    made = replace(array, shape=shape, strides=row_major(b, shape, array.dtype.itemsize))
    fits = arithmetic.compare(b, "==", size_of(b, made), size)
    fits = both(b, fits, arithmetic.compare(b, "<=", opened, ONE))
    return replace(made, address=_fitting(b, array, made, both(b, fits, _is_contiguous(b, array))))


def _is_contiguous(b: Builder, array: ArrayValue) -> Scalar:
    """Whether the elements lie side by side, the last index first; an extent of 1 has no step."""
    result = TRUE
    for extent, stride, wanted in zip(
        array.shape, array.strides, row_major(b, array.shape, array.dtype.itemsize), strict=True
    ):
        alone = arithmetic.compare(b, "<=", extent, ONE)
        result = both(b, result, either(b, alone, arithmetic.compare(b, "==", stride, wanted)))
    return result


def _fitting(b: Builder, array: ArrayValue, made: ArrayValue, fits: Scalar) -> Register:
    """The address of an array, flagged as outside where it does not have the shape that is `made` of it."""
    if fits.literal is None:
        wanted = size_of(b, made)
        room = choose(b, fits, _plus(b, wanted, ONE), ZERO)
        return b.emit("index.u64", register(b, wanted), register(b, room), b.constant("b64", 0), array.address)
    if not fits.literal:
        has, gets = (
            " x ".join("?" if x.literal is None else str(x.literal) for x in a.shape) or "1" for a in (array, made)
        )
        raise KernelError(
            f"`{array.name}` of {has} elements is reshaped to {gets}",
            remedy="give a shape of as many elements, with at most one extent of -1, of an array that is contiguous",
        )
    return array.address


def row_major(b: Builder, shape: tuple[Scalar, ...], itemsize: int) -> tuple[Scalar, ...]:
    """Strides in bytes of a C-contiguous array."""
    strides: list[Scalar] = []
    stride = Scalar(int64, None, itemsize)
    for extent in reversed(shape):
        strides.insert(0, stride)
        stride = arithmetic.binary(b, "*", stride, extent)  # type: ignore[assignment]
    return tuple(strides)


# -- allocation ------------------------------------------------------------------------------------------------------
def host_dtype(value: Value) -> np.dtype[Any]:
    """The NumPy dtype that `np.float32`, `numba.float32`, `float` or a record dtype names."""
    if isinstance(value, Static):
        if isinstance(value.object, np.dtype):
            return value.object
        made = number_type(value.object)
        if made is not None:
            return dtype_of(made)
        record = getattr(value.object, "dtype", None)
        if isinstance(record, np.dtype):
            return record
    if isinstance(value, Static) and isinstance(value.object, Foreign):
        raise UnsupportedError(f"`cuda.{value.object.path}` is not modelled", remedy="use another type")
    raise KernelError(f"{describe(value)} is no dtype", remedy="write `np.float32`, `np.int64`, ...")


def allocate(call: Any, space: str, shape: Value, dtype: Value, alignment: Value | None) -> ArrayValue:
    """A shared or local array; shape 0 of shared memory is the launch's dynamic shared memory."""
    b: Builder = call.b
    made = host_dtype(dtype)
    extents = _constant_shape(shape, space)
    align = max(made.alignment, _alignment(alignment) if alignment is not None else 1)
    name = call.walker.name_for_array(space)
    if space == "shared" and extents == (0,):
        b.graph.uses_dynamic_shared = True
        b.graph.dynamic_alignment = max(b.graph.dynamic_alignment, align)
        size = Scalar(int64, b.special("dynamic_bytes"))
        item = Scalar(int64, None, made.itemsize)
        length: Any = arithmetic.binary(b, "//", size, item)
        first = b.special("dynamic")
        return ArrayValue(made, first, (length,), (item,), name, space, (Scalar(int64, first), size))
    calls = b.stack if space == "local" else ()
    key = (call.walker.node_key(), calls, extents, made, align)
    allocation = call.walker.allocations.get(key)
    if allocation is None:
        allocation = call.walker.allocations[key] = _place(b, space, name, extents, made, align)
    address = moved(b, b.special(space), allocation)
    shape_values = tuple(Scalar(int64, None, extent) for extent in extents)
    strides = row_major(b, shape_values, made.itemsize)
    bounds = Scalar(int64, address), Scalar(int64, None, int(np.prod(extents, dtype=object)) * made.itemsize)
    return ArrayValue(made, address, shape_values, strides, name, space, bounds)


def _alignment(value: Value) -> int:
    """What Numba-CUDA takes: a power of two, and whole pointers."""
    given = _constant(value, "the alignment")
    if given % 8 or given & (given - 1) or not given:
        remedy = "give a power of two from 8 on, such as 16"
        raise KernelError(f"the alignment of an array is {given} bytes", remedy=remedy)
    return given


def _place(b: Builder, space: str, name: str, shape: tuple[int, ...], dtype: np.dtype[Any], align: int) -> int:
    graph = b.graph
    used = graph.shared_bytes if space == "shared" else graph.local_bytes
    offset = -(-used // align) * align
    end = offset + int(np.prod(shape, dtype=object)) * dtype.itemsize
    if space == "shared":
        graph.shared_bytes = end
        graph.shared.append(SharedArray(name, offset, shape, dtype, b.span, align))
    else:
        graph.local_bytes = -(-end // 16) * 16
        graph.locals.append(SharedArray(name, offset, shape, dtype, b.span, align))
    return offset


def _constant_shape(shape: Value, space: str) -> tuple[int, ...]:
    items = shape.items if isinstance(shape, TupleValue) else (shape,)
    return tuple(_constant(item, f"the shape of a {space} array") for item in items)


def _constant(value: Value, what: str) -> int:
    if isinstance(value, Scalar) and value.literal is not None and value.type.kind in "iu" and value.literal >= 0:
        return int(value.literal)
    raise KernelError(
        f"{what} must be constant integers",
        remedy="write literals or names defined outside the kernel; a size known only at launch needs "
        "`cuda.shared.array(0, dtype)`",
    )
