"""`wsemu.ptx` in kernels: named barriers, and loads and stores of whole vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wsemu.frontend.python import arrays
from wsemu.frontend.python.arithmetic import binary
from wsemu.frontend.python.library.calls import NOTHING, array, integer, known_integer, means, result, scalar
from wsemu.frontend.python.library.cuda import lower_barrier_reduction
from wsemu.frontend.python.library.memory import cache_qualifier, check_global, enter_load, enter_store
from wsemu.frontend.python.scalars import describe, register, scalar_cast, truth
from wsemu.frontend.python.values import ArrayValue, Scalar, TupleValue, Value
from wsemu.language import async_names, matrix_names, tensor_names
from wsemu.language import ptx_names as ptx
from wsemu.language.numbers import NumberType, int32, int64, uint32
from wsemu.language.promotion import number_type
from wsemu.model.isa import ALIGNED, NON_COHERENT

if TYPE_CHECKING:
    from wsemu.language.markers import KernelFunction


def _barrier(call: Any, function: KernelFunction, barrier: Value, count: Value | None) -> tuple[int, ...]:
    """Return the registers of id and count; without a count, the whole CTA takes part."""
    number = integer(call, barrier, f"the barrier of `{function.name}`", int32)
    if count is None:
        return (register(call.b, number),)
    threads = integer(call, count, f"the count of `{function.name}`", int32)
    return register(call.b, number), register(call.b, threads)


def _enter_barrier(prefix: str, auxiliary: int) -> None:
    sync, arrive = ptx.FUNCTIONS[f"{prefix}_sync"], ptx.FUNCTIONS[f"{prefix}_arrive"]

    @means(sync)
    def wait(call: Any, barrier: Value, count: Value | None) -> Value:
        call.b.effect("bar.sync", _barrier(call, sync, barrier, count), auxiliary=auxiliary)
        return NOTHING

    @means(arrive)
    def give(call: Any, barrier: Value, count: Value | None) -> Value:
        if count is None:
            raise call.error(f"`{arrive.name}` needs a count", "give the number of threads, as PTX does")
        call.b.effect("bar.arrive", _barrier(call, arrive, barrier, count), auxiliary=auxiliary)
        return NOTHING

    for what in ("popc", "and", "or"):
        _enter_reduction(ptx.FUNCTIONS[f"{prefix}_red_{what}"], f"bar.red.{what}", auxiliary)


def _enter_reduction(function: KernelFunction, operation: str, auxiliary: int) -> None:
    @means(function)
    def reduction(call: Any, barrier: Value, count: Value | None, predicate: Value) -> Value:
        holds = truth(call.b, scalar(call, predicate, f"the predicate of `{function.name}`"))
        operands = (*_barrier(call, function, barrier, count), register(call.b, holds))
        return lower_barrier_reduction(call.b, operation, operands, auxiliary)


_enter_barrier("bar", ALIGNED)
_enter_barrier("barrier", 0)


# -- vectors ---------------------------------------------------------------------------------------------------------


def _vector(
    call: Any, function: KernelFunction, ary: Value, index: Value, length: int
) -> tuple[ArrayValue, NumberType, Any, int]:
    """Return the array, its element type, and the address of the first element of a vector."""
    target = array(call, ary, f"`{function.name}`")
    type_ = number_type(target.dtype)
    if type_ is None or type_.kind not in "iuf":
        raise call.error(
            f"`{function.name}` on array `{target.name}` of {target.dtype}", "use an array of integers or floats"
        )
    if type_.bits * length > 128:
        raise call.error(
            f"`{function.name}` of {length} {type_}: {type_.bits * length // 8} bytes", "a vector has at most 16"
        )
    indices = list(index.items) if isinstance(index, TupleValue) else [index]
    if len(indices) != target.ndim:
        raise call.error(
            f"`{function.name}`: array `{target.name}` has {target.ndim} dimensions, the index {len(indices)}",
            "give one index for each dimension, as a tuple",
        )
    if target.strides[-1].literal != type_.bits // 8:
        raise call.error(
            f"`{function.name}`: the elements of `{target.name}` do not lie side by side", "use a contiguous array"
        )
    for item in indices:
        integer(call, item, f"the index of `{function.name}`")
    address, offset = arrays.element_address(call.b, target, indices)
    return target, type_, _with_last(call, target, indices[-1], length, address), offset


def _with_last(call: Any, target: ArrayValue, raw: Value, length: int, address: int) -> int:
    """Return the address of a vector, flagged as out of range if its last element is: the dimension may end before the
    memory."""
    index: Any
    index, extent = arrays.as_index(call.b, raw, target.name), target.shape[-1]
    if index.literal is not None and index.literal < 0:
        index = binary(call.b, "+", extent, index)
    last: Any = binary(call.b, "+", index, Scalar(int64, None, length - 1))
    if last.literal is not None and extent.literal is not None and last.literal < extent.literal:
        return address
    operands = (register(call.b, last), register(call.b, extent), call.b.constant("b64", 0), address)
    flagged: int = call.b.emit(f"index.{last.type.suffix}", *operands)
    return flagged


def _enter_load(function: KernelFunction, length: int, auxiliary: int) -> None:
    @means(function)
    def load(call: Any, ary: Value, index: Value) -> Value:
        source, type_, address, offset = _vector(call, function, ary, index, length)
        if auxiliary & NON_COHERENT:
            check_global(call, source, function)
        registers = call.b.effect(
            f"ld.v{length}.b{type_.bits}", (address,), results=(type_.register,) * length, immediate=offset,
            auxiliary=auxiliary, array=source.name, element=str(source.dtype),
        )  # fmt: skip
        return TupleValue(tuple(result(type_, r) for r in registers))


def _enter_store(function: KernelFunction, length: int) -> None:
    @means(function)
    def store(call: Any, ary: Value, index: Value, values: Value) -> Value:
        if not isinstance(values, TupleValue) or len(values.items) != length:
            raise call.error(f"`{function.name}` stores {describe(values)}", f"give a tuple of {length} numbers")
        target, type_, address, offset = _vector(call, function, ary, index, length)
        if not target.writable:
            raise call.error(
                f"`{function.name}` on the constant array `{target.name}`", "pass the array as an argument"
            )
        numbers: list[Scalar] = [
            scalar_cast(call.b, scalar(call, x, f"`{function.name}`"), type_) for x in values.items
        ]
        call.b.effect(
            f"st.v{length}.b{type_.bits}", (address, *(register(call.b, x) for x in numbers)), immediate=offset,
            array=target.name, element=str(target.dtype),
        )  # fmt: skip
        return NOTHING


# -- untyped accesses ------------------------------------------------------------------------------------------------
_LOAD_BYTES, _STORE_BYTES = ptx.FUNCTIONS["ld_bytes"], ptx.FUNCTIONS["st_bytes"]
_WIDTHS = ", ".join(map(str, ptx.ACCESS_WIDTHS))


def _place(
    call: Any, function: KernelFunction, ary: Value, offset: Value, width: int, qualifier: Value | None,
    known: dict[str, str],
) -> tuple[ArrayValue, int, int]:  # fmt: skip
    """Return the array, and address register and constant part of the address of `width` bytes, `offset` bytes after
    its first element."""
    name = "" if qualifier is None else getattr(qualifier, "object", None)
    if not isinstance(name, str) or name not in known:
        said = repr(name) if qualifier is None or isinstance(name, str) else describe(qualifier)
        choices = ", ".join(map(repr, known))
        raise call.error(f"`{function.name}` with the qualifier {said}", f"give one of {choices}, as a constant")
    target = array(call, ary, f"`{function.name}`")
    distance = integer(call, offset, f"the offset of `{function.name}`", int64)
    address, immediate = arrays.byte_address(call.b, target, distance, width)
    return target, address, immediate


@means(_LOAD_BYTES)
def load_bytes(call: Any, ary: Value, offset: Value, width: Value, qualifier: Value | None) -> Value:
    size = known_integer(call, width, f"the width of `{_LOAD_BYTES.name}`")
    if size not in ptx.ACCESS_WIDTHS:
        raise call.error(f"`{_LOAD_BYTES.name}` of {size} bytes", f"one access moves {_WIDTHS} bytes")
    source, address, immediate = _place(call, _LOAD_BYTES, ary, offset, size, qualifier, ptx.LOAD_QUALIFIERS)
    length = size // 4
    auxiliary = cache_qualifier(f"_{getattr(qualifier, 'object', '')}")
    if auxiliary & NON_COHERENT:
        check_global(call, source, _LOAD_BYTES)
    registers = call.b.effect(
        _access("ld", length), (address,), results=(uint32.register,) * length, immediate=immediate,
        auxiliary=auxiliary, array=source.name, element=str(source.dtype),
    )  # fmt: skip
    return TupleValue(tuple(result(uint32, r) for r in registers))


@means(_STORE_BYTES)
def store_bytes(call: Any, ary: Value, offset: Value, words: Value, qualifier: Value | None) -> Value:
    if not isinstance(words, TupleValue) or len(words.items) * 4 not in ptx.ACCESS_WIDTHS:
        raise call.error(f"`{_STORE_BYTES.name}` stores {describe(words)}", "give a tuple of 1, 2 or 4 words")
    width = 4 * len(words.items)
    target, address, immediate = _place(call, _STORE_BYTES, ary, offset, width, qualifier, ptx.STORE_QUALIFIERS)
    if not target.writable:
        raise call.error(
            f"`{_STORE_BYTES.name}` on the constant array `{target.name}`", "pass the array as an argument"
        )
    numbers = [scalar_cast(call.b, scalar(call, x, f"`{_STORE_BYTES.name}`"), uint32) for x in words.items]
    call.b.effect(
        _access("st", len(numbers)), (address, *(register(call.b, x) for x in numbers)), immediate=immediate,
        array=target.name, element=str(target.dtype),
    )  # fmt: skip
    return NOTHING


def _access(operation: str, length: int) -> str:
    return f"{operation}.b32" if length == 1 else f"{operation}.v{length}.b32"


_ELSEWHERE = async_names.FUNCTIONS | matrix_names.FUNCTIONS | tensor_names.FUNCTIONS
for _name, _function in ptx.FUNCTIONS.items():
    if _function in (_LOAD_BYTES, _STORE_BYTES) or _name in _ELSEWHERE:
        continue
    _length = next((n for v, n in ptx.VECTOR_LENGTHS.items() if v and f"_{v}" in _name), 1)
    if _name.startswith("ld"):
        _auxiliary = cache_qualifier(_name)
        if _length > 1:
            _enter_load(_function, _length, _auxiliary)
        else:
            enter_load(_function, _auxiliary)
    elif _name.startswith("st"):
        if _length > 1:
            _enter_store(_function, _length)
        else:
            enter_store(_function)
