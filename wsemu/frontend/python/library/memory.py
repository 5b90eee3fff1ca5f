"""Memory in kernels: shared, local and constant arrays, atomics, loads and stores with a cache operator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wsemu.frontend.python import allocation, arrays
from wsemu.frontend.python.library.calls import NOTHING, array, integer, means, result, scalar
from wsemu.frontend.python.scalars import compute, register, scalar_cast
from wsemu.frontend.python.values import ArrayValue, Scalar, TupleValue, Value
from wsemu.language import cuda_names as cuda
from wsemu.language.numbers import NumberType, float32, float64, int32, int64, uint32, uint64
from wsemu.language.promotion import number_type
from wsemu.model.isa import FRESH, NON_COHERENT, OPERATIONS

if TYPE_CHECKING:
    from wsemu.language.markers import KernelFunction

_INTEGERS = (int32, uint32, int64, uint64)
_NUMBERS = (*_INTEGERS, float32, float64)


# -- arrays of the kernel --------------------------------------------------------------------------------------------


@means(cuda.shared.array)
def shared_array(call: Any, shape: Value, dtype: Value, alignment: Value | None) -> Value:
    made: Value = allocation.allocate(call, "shared", shape, dtype, alignment)
    return made


@means(cuda.local.array)
def local_array(call: Any, shape: Value, dtype: Value, alignment: Value | None) -> Value:
    made: Value = allocation.allocate(call, "local", shape, dtype, alignment)
    return made


@means(cuda.const.array_like)
def constant_array(call: Any, ndarray: Value) -> Value:
    """Return a host array that a kernel refers to by name; it is in constant memory already."""
    made = array(call, ndarray, "`cuda.const.array_like`")
    if made.space != "constant":
        raise call.error(
            f"`cuda.const.array_like` of `{made.name}`, which is no constant",
            "give a NumPy array defined outside the kernel",
        )
    return made


# -- atomics ---------------------------------------------------------------------------------------------------------


def lower_indices(call: Any, index: Value, what: str) -> list[Value]:
    """Return the indices of one element, an integer or a tuple of numbers, as int64, to which Numba also converts
    floats."""
    if isinstance(index, TupleValue):
        return [scalar_cast(call.b, scalar(call, item, f"the index of {what}"), int64) for item in index.items]
    return [integer(call, index, f"the index of {what}", int64)]


def _element(
    call: Any, function: KernelFunction, ary: Value, allowed: tuple[NumberType, ...]
) -> tuple[ArrayValue, NumberType]:
    target = array(call, ary, f"`{function.name}`")
    type_ = number_type(target.dtype)
    if type_ not in allowed:
        wanted = ", ".join(t.name for t in allowed)
        raise call.error(f"`{function.name}` on array `{target.name}` of {target.dtype}", f"it works on {wanted}")
    if not target.writable:
        raise call.error(f"`{function.name}` on the constant array `{target.name}`", "pass the array as an argument")
    return target, type_


def _atomic(call: Any, operation: str, target: ArrayValue, index: list[Value], *values: Scalar) -> Value:
    """Emit one atomic operation; its result is the old element."""
    if len(index) != target.ndim:
        raise call.error(
            f"array `{target.name}` has {target.ndim} dimensions, the index {len(index)}",
            "give one index for each dimension",
        )
    address, offset = arrays.element_address(call.b, target, index)
    type_ = values[0].type
    operands = (address, *(register(call.b, x) for x in values))
    (old,) = call.b.effect(
        operation, operands, results=(type_.register,), immediate=offset, array=target.name,
        element=str(target.dtype),
    )  # fmt: skip
    return result(type_, old)


def _enter_atomic(function: KernelFunction, what: str, allowed: tuple[NumberType, ...]) -> None:
    @means(function)
    def atomic(call: Any, ary: Value, idx: Value, val: Value) -> Value:
        target, type_ = _element(call, function, ary, allowed)
        value = scalar_cast(call.b, scalar(call, val, f"the value of `{function.name}`"), type_)
        operation = what
        if what == "sub":
            operation = "add"
            value = compute(call.b, f"neg.{type_.register}", type_, value)
        if type_.kind != "f":
            operation = operation.removeprefix("nan")
        by_sign = operation in ("min", "max", "inc", "dec") or type_.kind == "f"
        suffix = type_.suffix if by_sign else f"b{type_.bits}"
        index = lower_indices(call, idx, f"`{function.name}`")
        return _atomic(call, f"atom.{operation}.{suffix}", target, index, value)


for _name in ("add", "sub", "max", "min", "nanmax", "nanmin"):
    _enter_atomic(getattr(cuda.atomic, _name), _name, _NUMBERS)
for _name, _what in {"and_": "and", "or_": "or", "xor": "xor", "exch": "exch"}.items():
    _enter_atomic(getattr(cuda.atomic, _name), _what, _INTEGERS)
for _name in ("inc", "dec"):
    _enter_atomic(getattr(cuda.atomic, _name), _name, (uint32, uint64))


@means(cuda.atomic.cas)
def compare_and_swap_at(call: Any, ary: Value, idx: Value, old: Value, val: Value) -> Value:
    return _swap(call, cuda.atomic.cas, ary, lower_indices(call, idx, "`cuda.atomic.cas`"), old, val)


@means(cuda.atomic.compare_and_swap)
def compare_and_swap(call: Any, ary: Value, old: Value, val: Value) -> Value:
    return _swap(call, cuda.atomic.compare_and_swap, ary, [Scalar(int64, None, 0)], old, val)


def _swap(call: Any, function: KernelFunction, ary: Value, index: list[Value], old: Value, val: Value) -> Value:
    target, type_ = _element(call, function, ary, _INTEGERS)
    expected, value = (scalar_cast(call.b, scalar(call, x, f"`{function.name}`"), type_) for x in (old, val))
    return _atomic(call, f"atom.cas.b{type_.bits}", target, index, expected, value)


# -- accesses with cache operators, which are plain here -------------------------------------------------------------


def enter_load(function: KernelFunction, auxiliary: int = 0) -> None:
    """Enter a load of one element whose cache operator has no effect here, except for what `auxiliary` declares."""

    @means(function)
    def load(call: Any, ary: Value, index: Value) -> Value:
        source = array(call, ary, f"`{function.name}`")
        if auxiliary & NON_COHERENT:
            check_global(call, source, function)
        indices = _integer_indices(call, function, source, index)
        block, start = call.b.block, len(call.b.block.instructions)
        loaded: Value = arrays.load(call.b, source, indices)
        for instruction in block.instructions[start:]:
            if OPERATIONS[instruction.operation].kind == "load":
                instruction.auxiliary |= auxiliary
        return loaded


def check_global(call: Any, source: ArrayValue, function: KernelFunction) -> None:
    """Raise a KernelError for an array that is not in global memory: the read-only cache only serves global memory."""
    if source.space in ("shared", "local"):
        raise call.error(
            f"`{function.name}` of `{source.name}`, which is in {source.space} memory",
            f"write `{source.name}[...]`: the read-only cache is for global memory",
        )


def enter_store(function: KernelFunction) -> None:
    """Enter a store of one element whose cache operator has no effect here."""

    @means(function)
    def store(call: Any, ary: Value, index: Value, value: Value) -> Value:
        target = array(call, ary, f"`{function.name}`")
        arrays.store(call.b, target, _integer_indices(call, function, target, index), value)
        return NOTHING


def _integer_indices(call: Any, function: KernelFunction, source: ArrayValue, index: Value) -> list[Value]:
    """Return the integer indices, one for each dimension of the array."""
    items = list(index.items) if isinstance(index, TupleValue) else [index]
    if len(items) != source.ndim:
        raise call.error(
            f"`{function.name}`: array `{source.name}` has {source.ndim} dimensions, the index {len(items)}",
            "give one index for each dimension, as a tuple",
        )
    return [integer(call, item, f"the index of `{function.name}`") for item in items]


def cache_qualifier(name: str) -> int:
    """Return the bits of a load for the cache operator at the end of a name."""
    return FRESH if name.endswith(("cg", "cv")) else NON_COHERENT if name.endswith("_nc") else 0


for _name in ("ldca", "ldcg", "ldcs", "ldlu", "ldcv"):
    enter_load(getattr(cuda, _name), cache_qualifier(_name))
for _name in ("stcg", "stcs", "stwb", "stwt"):
    enter_store(getattr(cuda, _name))
