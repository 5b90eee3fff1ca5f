"""Allocation of shared and local arrays in kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from wsemu.frontend.python import arithmetic
from wsemu.frontend.python.arrays import add_offset, row_major
from wsemu.frontend.python.builder import Builder
from wsemu.frontend.python.scalars import constant, describe
from wsemu.frontend.python.values import (
    ArrayValue,
    Scalar,
    Static,
    TupleValue,
    Value,
)
from wsemu.language.markers import Foreign
from wsemu.language.numbers import int64
from wsemu.language.promotion import element_dtype, number_type
from wsemu.model.errors import KernelError, UnsupportedError
from wsemu.model.isa import MOST_LOCAL
from wsemu.model.program import SharedArray


def host_dtype(value: Value) -> np.dtype[Any]:
    """Return the NumPy dtype of `np.float32`, `numba.float32`, `float` or a record dtype."""
    if isinstance(value, Static):
        if isinstance(value.object, np.dtype):
            return value.object
        made = number_type(value.object)
        if made is not None:
            return element_dtype(made)
        record = getattr(value.object, "dtype", None)
        if isinstance(record, np.dtype):
            return record
    if isinstance(value, Static) and isinstance(value.object, Foreign):
        raise UnsupportedError(f"`cuda.{value.object.path}` is not modelled", remedy="use another type")
    raise KernelError(f"{describe(value)} is no dtype", remedy="write `np.float32`, `np.int64`, ...")


def allocate(call: Any, space: str, shape: Value, dtype: Value, alignment: Value | None) -> ArrayValue:
    """Allocate a shared or local array; a shared array of shape 0 is the launch's dynamic shared memory."""
    b: Builder = call.b
    made = host_dtype(dtype)
    extents = _constant_shape(shape, space)
    align = max(made.alignment, _alignment(alignment) if alignment is not None else 1)
    name = call.walker.name_for_array(space)
    if b.block.dead:
        return _never_used(b, space, name, extents, made)
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
    address = add_offset(b, b.special(space), allocation)
    shape_values = tuple(Scalar(int64, None, extent) for extent in extents)
    strides = row_major(b, shape_values, made.itemsize)
    length = int(np.prod(extents, dtype=object)) * made.itemsize
    if space == "local" and length:
        call.walker.frame.home.made[address] = allocation, length
    bounds = Scalar(int64, address), Scalar(int64, None, length)
    return ArrayValue(made, address, shape_values, strides, name, space, bounds)


def _never_used(b: Builder, space: str, name: str, extents: tuple[int, ...], dtype: np.dtype[Any]) -> ArrayValue:
    """Return an array without memory, for code that never runs."""
    nowhere = b.constant("b64", 0)
    shape = tuple(Scalar(int64, None, extent) for extent in extents)
    bounds = Scalar(int64, nowhere), constant(int64, 0)
    return ArrayValue(dtype, nowhere, shape, row_major(b, shape, dtype.itemsize), name, space, bounds)


def _alignment(value: Value) -> int:
    """Return an alignment that Numba-CUDA accepts: a power of two, at least the size of a pointer."""
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
        if graph.local_bytes > MOST_LOCAL:
            what = f"`{name}` makes the thread's local memory {graph.local_bytes:,} bytes"
            raise KernelError(f"{what}: at most {MOST_LOCAL:,}", remedy="make the array smaller, or pass a global one")
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
