"""Views of arrays in a kernel: subscripts and slices, attributes, other shapes and types."""

from __future__ import annotations

from typing import Any

import numpy as np

from wsemu.frontend.assemble.graph import Register
from wsemu.frontend.python import arithmetic
from wsemu.frontend.python.allocation import host_dtype
from wsemu.frontend.python.arrays import ONE, ZERO, add_offset, as_index, element_address, load, plus, row_major
from wsemu.frontend.python.builder import Builder
from wsemu.frontend.python.scalars import TRUE, both, choose, either, register, scalar_cast
from wsemu.frontend.python.values import (
    ArrayValue,
    Bound,
    FlatValue,
    Scalar,
    SliceValue,
    Static,
    TupleValue,
    Value,
)
from wsemu.language.numbers import int64
from wsemu.model.data import replace
from wsemu.model.errors import KernelError, UnsupportedError


# -- subscripts ------------------------------------------------------------------------------------------------------
def expand_indices(array: ArrayValue, index: Value) -> list[Value]:
    """Return the parts of a subscript, with `...` expanded."""
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
    """Lower `array[index]`: an element, or a view."""
    if array.dtype.names and isinstance(index, Static) and isinstance(index.object, str):
        return _field_view(b, array, index.object)
    items = expand_indices(array, index)
    if len(items) == array.ndim and not any(isinstance(item, SliceValue) for item in items):
        return load(b, array, items)
    return make_view(b, array, items)


def make_view(b: Builder, array: ArrayValue, items: list[Value]) -> ArrayValue:
    """Return the view that integers and slices select."""
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
            address = add_offset(b, *element_address(b, one, [item]))
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
    """Return (start, length, step) of a slice of a dimension, clamped as in Python."""
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
            b, "//", plus(b, distance, Scalar(int64, None, size - 1)), Scalar(int64, None, size)
        )  # type: ignore[assignment]
    empty = arithmetic.compare(b, "<", distance, ZERO)
    return start, choose(b, empty, ZERO, distance), step


def _open_slice(b: Builder, s: SliceValue, extent: Scalar, step: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """Compute start, length and step of a slice whose nonzero step is known only at run time."""
    forward = arithmetic.compare(b, ">", step, ZERO)
    last = _minus(b, extent, ONE)
    low, high = choose(b, forward, ZERO, Scalar(int64, None, -1)), choose(b, forward, extent, last)
    first, end = choose(b, forward, ZERO, last), choose(b, forward, extent, low)
    start = first if s.start is None else _clamp(b, s.start, extent, low, high)
    stop = end if s.stop is None else _clamp(b, s.stop, extent, low, high)
    distance = choose(b, forward, _minus(b, stop, start), _minus(b, start, stop))
    size = choose(b, forward, step, _minus(b, ZERO, step))
    count: Any = arithmetic.binary(b, "//", plus(b, distance, _minus(b, size, ONE)), size)
    return start, choose(b, arithmetic.compare(b, "<", count, ZERO), ZERO, count), step


def _times(b: Builder, x: Scalar, y: Scalar) -> Scalar:
    return arithmetic.binary(b, "*", x, y)  # type: ignore[return-value]


def _minus(b: Builder, x: Scalar, y: Scalar) -> Scalar:
    return arithmetic.binary(b, "-", x, y)  # type: ignore[return-value]


def _clamp(b: Builder, raw: Scalar, extent: Scalar, low: Scalar, high: Scalar) -> Scalar:
    x = scalar_cast(b, as_index(b, raw, "slice"), int64)
    x = choose(b, arithmetic.compare(b, "<", x, ZERO), plus(b, x, extent), x)
    x = choose(b, arithmetic.compare(b, "<", x, low), low, x)
    return choose(b, arithmetic.compare(b, ">", x, high), high, x)


# -- attributes and methods ------------------------------------------------------------------------------------------
def element_count(b: Builder, array: ArrayValue) -> Scalar:
    """Return the number of elements."""
    total = ONE
    for extent in array.shape:
        total = arithmetic.binary(b, "*", total, extent)  # type: ignore[assignment]
    return total


def places(b: Builder, array: ArrayValue, number: Scalar) -> list[Value]:
    """Return the indices of an element, given its number in row order."""
    return indices_of_shape(b, array.shape, number)


def indices_of_shape(b: Builder, shape: tuple[Scalar, ...], number: Scalar) -> list[Value]:
    """Return the indices of element `number` of an array with this shape."""
    found: list[Value] = []
    rest: Any = number
    for extent in reversed(shape[1:]):
        found.insert(0, arithmetic.binary(b, "%", rest, extent))
        rest = arithmetic.binary(b, "//", rest, extent)
    return [rest, *found] if shape else []


METHODS = frozenset(("view", "reshape", "ravel", "transpose", "fill"))


REDUCTIONS = frozenset("sum prod mean var std all any min max argmin argmax".split())
"""methods that reduce all elements"""


def attribute(b: Builder, array: ArrayValue, name: str) -> Value | None:
    """Return an attribute of an array, or None if it has no such attribute."""
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
            return element_count(b, array)
        case "ndim":
            return Scalar(int64, None, array.ndim)
        case "itemsize":
            return item
        case "nbytes":
            return arithmetic.binary(b, "*", element_count(b, array), item)
        case "dtype":
            return Static(array.dtype)
        case "T":
            return transpose(array)
        case "flat":
            return FlatValue(array)
    return None


def _field_view(b: Builder, array: ArrayValue, name: str) -> ArrayValue:
    """Return a view of one field of all records of an array."""
    fields: Any = array.dtype.fields or {}
    if name not in fields:
        raise KernelError(
            f"records of `{array.name}` have no field `{name}`", remedy=f"their fields are {', '.join(fields)}"
        )
    dtype, offset = fields[name][:2]
    made = replace(array, dtype=dtype.base, address=add_offset(b, array.address, offset))
    if dtype.subdtype is None:
        return made
    extents = tuple(Scalar(int64, None, extent) for extent in dtype.shape)
    inner = row_major(b, extents, dtype.base.itemsize)
    return replace(made, shape=(*array.shape, *extents), strides=(*array.strides, *inner))


def _part_view(b: Builder, array: ArrayValue, name: str) -> ArrayValue | None:
    """Return a view of the real or imaginary parts of a complex array; a real array is its own real part."""
    if array.dtype.kind != "c":
        return array if name == "real" else None
    part = np.dtype(f"f{array.dtype.itemsize // 2}")
    return replace(array, dtype=part, address=add_offset(b, array.address, part.itemsize if name == "imag" else 0))


def transpose(array: ArrayValue) -> ArrayValue:
    return replace(array, shape=array.shape[::-1], strides=array.strides[::-1])


def method(b: Builder, array: ArrayValue, name: str, args: list[Value]) -> Value:
    """Lower `array.view(dtype)`, `array.reshape(...)`, `array.ravel()`, `array.transpose()`."""
    if name == "transpose" and not args:
        return transpose(array)
    if name == "view" and len(args) == 1:
        return _view_as_dtype(b, array, args[0])
    if name == "ravel" and not args:
        return _reshape(b, array, (element_count(b, array),))
    if name == "reshape" and args:
        shape = args[0].items if isinstance(args[0], TupleValue) else tuple(args)
        return _reshape(b, array, tuple(scalar_cast(b, as_index(b, x, array.name), int64) for x in shape))
    kind = UnsupportedError if name == "transpose" else KernelError
    raise kind(f"`{array.name}.{name}` with {len(args)} arguments", remedy="index the array, or see NumPy's signature")


def _view_as_dtype(b: Builder, array: ArrayValue, dtype: Value) -> ArrayValue:
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


def _reshape(b: Builder, array: ArrayValue, shape: tuple[Scalar, ...]) -> ArrayValue:
    """Return a view with another shape, by Numba's rules.

    One of the extents may be negative, possibly only at run time: it is then computed from the others.  Only an array
    with contiguous elements can be reshaped.
    """
    size = element_count(b, array)
    is_open = [arithmetic.compare(b, "<", extent, ZERO) for extent in shape]
    known, opened = ONE, ZERO
    for extent, unknown in zip(shape, is_open, strict=True):
        known = _times(b, known, choose(b, unknown, ONE, extent))
        opened = plus(b, opened, choose(b, unknown, ONE, ZERO))
    empty = arithmetic.compare(b, "==", known, ZERO)
    whole: Scalar = arithmetic.binary(b, "//", size, choose(b, empty, ONE, known))  # type: ignore[assignment]
    rest = choose(b, empty, ZERO, whole)
    shape = tuple(choose(b, unknown, rest, extent) for extent, unknown in zip(shape, is_open, strict=True))
    made = replace(array, shape=shape, strides=row_major(b, shape, array.dtype.itemsize))
    fits = arithmetic.compare(b, "==", element_count(b, made), size)
    fits = both(b, fits, arithmetic.compare(b, "<=", opened, ONE))
    return replace(made, address=_fitting(b, array, made, both(b, fits, _is_contiguous(b, array))))


def _is_contiguous(b: Builder, array: ArrayValue) -> Scalar:
    """Return whether the elements are contiguous in row order; the stride of an extent of 1 does not matter."""
    result = TRUE
    for extent, stride, wanted in zip(
        array.shape, array.strides, row_major(b, array.shape, array.dtype.itemsize), strict=True
    ):
        alone = arithmetic.compare(b, "<=", extent, ONE)
        result = both(b, result, either(b, alone, arithmetic.compare(b, "==", stride, wanted)))
    return result


def _fitting(b: Builder, array: ArrayValue, made: ArrayValue, fits: Scalar) -> Register:
    """Return the address of an array, flagged as out of bounds if the array does not have the shape `made`."""
    if fits.literal is None:
        wanted = element_count(b, made)
        room = choose(b, fits, plus(b, wanted, ONE), ZERO)
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
