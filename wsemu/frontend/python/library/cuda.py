"""`wsemu.cuda` in kernels: thread indices, barriers, fences, shuffles, votes, bits.  Types are Numba-CUDA's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wsemu.frontend.python.library.calls import (
    ATTRIBUTES,
    FUNCTIONS,
    NOTHING,
    convert_arguments,
    integer,
    known_integer,
    means,
    result,
    scalar,
)
from wsemu.frontend.python.scalars import choose, compute, constant, register, scalar_cast, truth
from wsemu.frontend.python.values import Scalar, Static, TupleValue, Value
from wsemu.language import cuda_names as cuda
from wsemu.language.numbers import (
    NUMBERS,
    NumberType,
    boolean,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from wsemu.language.promotion import Signature, same
from wsemu.model.isa import ALIGNED

if TYPE_CHECKING:
    from collections.abc import Callable

    from wsemu.language.markers import KernelFunction

_ALL_INTEGERS = (int8, int16, int32, int64, uint8, uint16, uint32, uint64)


# -- thread indices --------------------------------------------------------------------------------------------------

_SPECIAL = {"threadIdx": "tid", "blockIdx": "ctaid", "blockDim": "ntid", "gridDim": "nctaid"}


def _special(name: str) -> Callable[[Any], Value]:
    return lambda b: result(int32, b.special(name))


for _name, _prefix in _SPECIAL.items():
    for _axis in "xyz":
        ATTRIBUTES[getattr(getattr(cuda, _name), _axis)] = _special(f"{_prefix}.{_axis}")
ATTRIBUTES[cuda.laneid] = _special("laneid")
ATTRIBUTES[cuda.warpsize] = lambda _b: Scalar(int32, None, 32)


def _along(call: Any, ndim: Value, name: str, value: Callable[[Any, str], Value]) -> Value:
    """Return one number, or a tuple of `ndim` numbers."""
    count = known_integer(call, ndim, f"the dimension of `{name}`")
    if count not in (1, 2, 3):
        raise call.error(f"`{name}({count})`", "give 1, 2 or 3")
    items = tuple(value(call.b, axis) for axis in "xyz"[:count])
    return items[0] if count == 1 else TupleValue(items)


@means(cuda.grid)
def grid(call: Any, ndim: Value) -> Value:
    return _along(call, ndim, "cuda.grid", _thread_of_grid)


def _thread_of_grid(b: Any, axis: str) -> Value:
    thread = scalar_cast(b, result(int32, b.special(f"tid.{axis}")), int64)
    cta, threads = (result(int32, b.special(f"{name}.{axis}")) for name in ("ctaid", "ntid"))
    return compute(b, "madwide.s32", int64, threads, cta, thread)


@means(cuda.gridsize)
def gridsize(call: Any, ndim: Value) -> Value:
    return _along(call, ndim, "cuda.gridsize", _threads_of_grid)


def _threads_of_grid(b: Any, axis: str) -> Value:
    threads, ctas = (result(int32, b.special(f"{name}.{axis}")) for name in ("ntid", "nctaid"))
    return compute(b, "mulwide.s32", int64, threads, ctas)


# -- barriers and fences ---------------------------------------------------------------------------------------------


@means(cuda.syncthreads)
def syncthreads(call: Any) -> Value:
    call.b.effect("bar.sync", (call.b.constant("b32", 0),), auxiliary=ALIGNED)
    return NOTHING


@means(cuda.cg.this_grid)
def this_grid(call: Any) -> Value:
    return Static(cuda.GRID_GROUP)


@means(cuda.GRID_GROUP.sync)
def sync_grid(call: Any) -> Value:
    """Emit `cudaCGSynchronize`: one thread of each CTA synchronizes with those of the other CTAs, between two barriers
    of the CTA."""
    b = call.b
    zero = b.constant("b32", 0)
    x, y, z = (b.special(f"tid.{axis}") for axis in "xyz")
    first = b.emit("setp.eq.b32", b.emit("or.b32", x, b.emit("or.b32", y, z)), zero)
    b.effect("bar.sync", (zero,))
    for operation in ("grid.arrive", "grid.wait"):
        b.effect(operation, results=("b32",))
        b.block.instructions[-1].guard = first
    b.effect("bar.sync", (zero,))
    return NOTHING


def _reduce(function: KernelFunction, operation: str) -> None:
    @means(function)
    def reduction(call: Any, predicate: Value) -> Value:
        if isinstance(predicate, Scalar) and predicate.type.kind == "b":
            raise call.error(
                f"`{function.name}` of a bool is not part of Numba-CUDA", "write `int(...)` around the predicate"
            )
        holds = truth(call.b, integer(call, predicate, f"`{function.name}`", int32))
        operands = (call.b.constant("b32", 0), register(call.b, holds))
        return scalar_cast(call.b, lower_barrier_reduction(call.b, operation, operands, ALIGNED), int32)


def lower_barrier_reduction(b: Any, operation: str, operands: tuple[int, ...], auxiliary: int) -> Scalar:
    """Lower a `bar.red`; return a count as int32, or a bool."""
    if operation == "bar.red.popc":
        (count,) = b.effect(operation, operands, results=("b32",), auxiliary=auxiliary)
        return result(int32, count)
    (holds,) = b.effect(operation, operands, results=("p",), auxiliary=auxiliary)
    return result(boolean, holds)


_reduce(cuda.syncthreads_count, "bar.red.popc")
_reduce(cuda.syncthreads_and, "bar.red.and")
_reduce(cuda.syncthreads_or, "bar.red.or")


@means(cuda.syncwarp)
def syncwarp(call: Any, mask: Value | None) -> Value:
    members = constant(int32, -1) if mask is None else integer(call, mask, "the mask of `cuda.syncwarp`", int32)
    call.b.effect("syncwarp", (register(call.b, members),))
    return NOTHING


def _fence(function: KernelFunction, operation: str) -> None:
    @means(function)
    def fence(call: Any) -> Value:
        call.b.effect(operation)
        return NOTHING


_fence(cuda.threadfence, "fence.gpu")
_fence(cuda.threadfence_block, "fence.cta")
_fence(cuda.threadfence_system, "fence.sys")


@means(cuda.nanosleep)
def nanosleep(call: Any, ns: Value) -> Value:
    scalar(call, ns, "`cuda.nanosleep`")
    call.b.effect("nanosleep")
    return NOTHING


# -- between lanes ---------------------------------------------------------------------------------------------------


def _mask(call: Any, mask: Value, function: KernelFunction) -> int:
    return register(call.b, integer(call, mask, f"the mask of `{function.name}`", int32))


def _shuffle(function: KernelFunction, mode: str, clamp: int) -> None:
    @means(function)
    def shuffle(call: Any, mask: Value, value: Value, lane: Value) -> Value:
        x = scalar(call, value, f"`{function.name}`")
        if x.type not in (int32, int64, float32, float64):
            wanted = "np.int64" if x.type.bits == 64 else "np.float32" if x.type.kind == "f" else "np.int32"
            raise call.error(
                f"`{function.name}` of a {x.type} is not part of Numba-CUDA", f"write `{wanted}(...)` around it"
            )
        selector = register(call.b, integer(call, lane, f"the lane of `{function.name}`", int32))
        operands = (register(call.b, x), selector, _mask(call, mask, function))
        (value_there,) = call.b.effect(
            f"shfl.{mode}.b{x.type.bits}", operands, results=(x.type.register,), immediate=clamp
        )
        return result(x.type, value_there)


_shuffle(cuda.shfl_sync, "idx", 0x1F)
_shuffle(cuda.shfl_up_sync, "up", 0)
_shuffle(cuda.shfl_down_sync, "down", 0x1F)
_shuffle(cuda.shfl_xor_sync, "bfly", 0x1F)


def _vote(function: KernelFunction, operation: str) -> None:
    @means(function)
    def vote(call: Any, mask: Value, predicate: Value) -> Value:
        x = scalar(call, predicate, f"the predicate of `{function.name}`")
        if x.type.kind not in "biu":
            raise call.error(
                f"the predicate of `{function.name}` is a {x.type}", "give a bool or an integer: compare it"
            )
        operands = (register(call.b, truth(call.b, x)), _mask(call, mask, function))
        type_ = int32 if operation == "vote.ballot" else boolean
        (outcome,) = call.b.effect(operation, operands, results=(type_.register,))
        return result(type_, outcome)


_vote(cuda.all_sync, "vote.all")
_vote(cuda.any_sync, "vote.any")
_vote(cuda.eq_sync, "vote.uni")
_vote(cuda.ballot_sync, "vote.ballot")

_MATCH = tuple(Signature(int32, (int32, t)) for t in (int32, int64, float32, float64))


@means(cuda.match_any_sync)
def match_any(call: Any, mask: Value, value: Value) -> Value:
    _, (members, x) = convert_arguments(call, "cuda.match_any_sync", _MATCH, mask, value)
    operands = (register(call.b, x), register(call.b, members))
    (same_value,) = call.b.effect(f"match.any.b{x.type.bits}", operands, results=("b32",))
    return result(int32, same_value)


@means(cuda.match_all_sync)
def match_all(call: Any, mask: Value, value: Value) -> Value:
    _, (members, x) = convert_arguments(call, "cuda.match_all_sync", _MATCH, mask, value)
    operands = (register(call.b, x), register(call.b, members))
    lanes, holds = call.b.effect(f"match.all.b{x.type.bits}", operands, results=("b32", "p"))
    return TupleValue((result(int32, lanes), result(boolean, holds)))


@means(cuda.activemask)
def activemask(call: Any) -> Value:
    (mask,) = call.b.effect("activemask", results=("b32",))
    return result(uint32, mask)


@means(cuda.lanemask_lt)
def lanemask_lt(call: Any) -> Value:
    lane = result(uint32, call.b.special("laneid"))
    bit = compute(call.b, "shl.b32", uint32, constant(uint32, 1), lane)
    return compute(call.b, "sub.b32", uint32, bit, constant(uint32, 1))


# -- bits and numbers ------------------------------------------------------------------------------------------------


def count_bits(b: Any, operation: str, x: Scalar, to: NumberType) -> Scalar:
    """Return `popc` or `clz` of an integer, as a number of type `to`; integers of 8 and 16 bits are counted in 32."""
    narrow = x.type.bits < 32
    wide = scalar_cast(b, reinterpret_unsigned(b, x), uint32) if narrow else x
    count = compute(b, f"{operation}.b{wide.type.bits}", uint32, wide)
    if operation == "clz" and narrow:
        count = compute(b, "sub.b32", uint32, count, constant(uint32, 32 - x.type.bits))
    return scalar_cast(b, count, to)


def reinterpret_unsigned(b: Any, x: Scalar) -> Scalar:
    """Return the bits of an integer as an unsigned number of the same width."""
    return scalar_cast(b, x, NUMBERS[f"uint{x.type.bits}"])


@means(cuda.popc)
def popc(call: Any, x: Value) -> Value:
    signature, (operand,) = convert_arguments(call, "cuda.popc", same(_ALL_INTEGERS, 1), x)
    return count_bits(call.b, "popc", operand, signature.result)


@means(cuda.clz)
def clz(call: Any, x: Value) -> Value:
    signature, (operand,) = convert_arguments(call, "cuda.clz", same(_ALL_INTEGERS, 1), x)
    return count_bits(call.b, "clz", operand, signature.result)


@means(cuda.ffs)
def ffs(call: Any, x: Value) -> Value:
    _, (operand,) = convert_arguments(call, "cuda.ffs", same(_ALL_INTEGERS, 1, uint32), x)
    if operand.type.bits < 32:
        raise call.error(f"`cuda.ffs` of a {operand.type} is not part of Numba-CUDA", "write `np.int32(...)` around it")
    return compute(call.b, f"ffs.b{operand.type.bits}", uint32, operand)


@means(cuda.brev)
def brev(call: Any, x: Value) -> Value:
    signature, (operand,) = convert_arguments(call, "cuda.brev", same((uint32, uint64), 1), x)
    return compute(call.b, f"brev.b{operand.type.bits}", signature.result, operand)


@means(cuda.selp)
def selp(call: Any, test: Value, a: Value, b: Value) -> Value:
    condition, x, y = (scalar(call, v, "`cuda.selp`") for v in (test, a, b))
    if x.type is not y.type or x.type.kind == "b" or x.type.bits == 8:
        raise call.error(
            f"`cuda.selp` selects between {x.type} and {y.type}", "give two numbers of one type of 16 to 64 bits"
        )
    if condition.type.kind != "b":
        raise call.error(f"the test of `cuda.selp` is a {condition.type}", "give a bool: write a comparison")
    return choose(call.b, condition, x, y)


@means(cuda.fma)
def fma(call: Any, a: Value, b: Value, c: Value) -> Value:
    signature, operands = convert_arguments(call, "cuda.fma", same((float32, float64), 3), a, b, c)
    return compute(call.b, f"fma.{signature.result.register}", signature.result, *operands)


@means(cuda.cbrt)
def cbrt(call: Any, a: Value) -> Value:
    signature, operands = convert_arguments(call, "cuda.cbrt", same((float32, float64), 1), a)
    return compute(call.b, f"cbrt.{signature.result.register}", signature.result, *operands)


# -- vectors ---------------------------------------------------------------------------------------------------------


def _enter_vector(name: str, element: NumberType, count: int) -> None:
    def construct(call: Any) -> Value:
        items: list[Value] = []
        for argument in call.args:
            items.extend(argument.items if isinstance(argument, TupleValue) else (argument,))
        if call.kwargs or len(items) != count:
            raise call.error(f"`cuda.{name}` got {len(items)} numbers", f"give {count}, by position")
        names = tuple("xyzw"[:count])
        return TupleValue(tuple(scalar_cast(call.b, scalar(call, x, f"`cuda.{name}`"), element) for x in items), names)

    FUNCTIONS[cuda.VECTORS[name]] = construct


for _name, (_element, _count) in cuda.VECTOR_TYPES.items():
    _enter_vector(_name, NUMBERS[_element], _count)
