"""Operations between CTAs of a cluster, in kernels: `wsemu.ptx.cluster_*`, `mapa`, and operations on other CTAs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wsemu.frontend.python.library.asynchronous import (
    ONE,
    byte_place,
    element_place,
    integer_register,
    lower_tile_operands,
    mbarrier_place,
)
from wsemu.frontend.python.library.calls import NOTHING, array, integer, means, result
from wsemu.frontend.python.scalars import number, register, scalar_cast
from wsemu.frontend.python.values import ArrayValue, Scalar, Value
from wsemu.language import async_names as names
from wsemu.language.numbers import int32, uint32
from wsemu.language.promotion import number_type
from wsemu.model.data import replace
from wsemu.model.grid import FARTHEST
from wsemu.model.isa import BULK_REDUCTIONS, DROP, EXPECT, NARROW, OFFSET_MASK, RELAXED, REMOTE

if TYPE_CHECKING:
    from wsemu.language.markers import KernelFunction

_NAMES = names.FUNCTIONS
_SHARED = "`ptx.mapa` takes a shared array of the CTA: `cuda.shared.array(...)`"


# -- registers, the barrier ------------------------------------------------------------------------------------------
def _enter_register(name: str) -> None:
    kind, _, axis = name.rpartition("_")
    special = f"{kind}.{axis}" if axis in ("x", "y", "z") else name

    @means(_NAMES[name])
    def read(call: Any) -> Value:
        return result(int32, call.b.special(special))


def _enter_barrier(name: str, *operations: tuple[str, int]) -> None:
    @means(_NAMES[name])
    def meet(call: Any) -> Value:
        for operation, auxiliary in operations:
            call.b.effect(operation, auxiliary=auxiliary)
        return NOTHING


for _name in names.CLUSTER_REGISTERS:
    _enter_register(_name)
_enter_barrier("cluster_arrive", ("cluster.arrive", 0))
_enter_barrier("cluster_arrive_relaxed", ("cluster.arrive", RELAXED))
_enter_barrier("cluster_wait", ("cluster.wait", 0))
_enter_barrier("cluster_sync", ("cluster.arrive", 0), ("cluster.wait", 0))


# -- memory of other CTAs --------------------------------------------------------------------------------------------
@means(_NAMES["mapa"])
def lower_mapa(call: Any, ary: Value, rank: Value) -> Value:
    target = array(call, ary, "`ptx.mapa`")
    if target.space != "shared":
        raise call.error(f"`ptx.mapa` of `{target.name}`, which is in {target.space} memory", _SHARED)
    b = call.b
    window = b.emit("cvt.b64.u32", b.special("window"))
    inside = b.emit("and.b64", target.address, b.constant("b64", OFFSET_MASK))
    to = register(b, scalar_cast(b, integer(call, rank, "the rank of `ptx.mapa`"), uint32))
    # an invalid rank refers to memory after that of the last CTA
    known = b.emit("min.u32", to, b.special("cluster_nctarank"))
    moved = b.emit("sub.b64", b.emit("cvt.b64.u32", known), b.emit("shr.u64", inside, window))
    apart = b.emit("min.u32", b.special("window"), b.constant("b32", FARTHEST))
    by = b.emit("shl.b64", moved, b.emit("cvt.b64.u32", apart))
    start, *rest = target.bounds
    first = Scalar(start.type, b.emit("add.b64", register(b, start), by))
    return replace(target, address=b.emit("add.b64", target.address, by), bounds=(first, *rest))


def _scope_bit(call: Any, function: KernelFunction, scope: Value | None) -> int:
    """Return the flag of a scope in an operation's auxiliary field."""
    name = "cluster" if scope is None else getattr(scope, "object", None)
    if name not in ("cta", "cluster"):
        raise call.error(f"the scope of `{function.name}` is unknown", 'give "cta" or "cluster"')
    return NARROW if name == "cta" else 0


def _enter_arrival(name: str, auxiliary: int) -> None:
    function = _NAMES[name]

    @means(function)
    def arrive(call: Any, bar: Value, index: Value, given: Value | None, scope: Value | None = None) -> Value:
        place, zero = mbarrier_place(call, function, bar, index), call.b.constant("b32", 0)
        if auxiliary & EXPECT:
            assert given is not None
            operands = call.b.constant("b32", 1), integer_register(call, function, "bytes", given)
        else:
            operands = integer_register(call, function, "count", ONE if given is None else given), zero
        bits = auxiliary | REMOTE | _scope_bit(call, function, scope)
        place.effect(call, "mbarrier.arrive", *operands, results=("b64",), auxiliary=bits)
        return NOTHING


def _enter_transaction(what: str) -> None:
    function = _NAMES[f"mbarrier_{what}_cluster"]

    @means(function)
    def transaction(call: Any, bar: Value, index: Value, size: Value) -> Value:
        place = mbarrier_place(call, function, bar, index)
        place.effect(call, f"mbarrier.{what}", integer_register(call, function, "bytes", size), auxiliary=REMOTE)
        return NOTHING


_enter_arrival("mbarrier_arrive_cluster", 0)
_enter_arrival("mbarrier_arrive_drop_cluster", DROP)
_enter_arrival("mbarrier_arrive_expect_tx_cluster", EXPECT)
_enter_transaction("expect_tx")
_enter_transaction("complete_tx")


# -- copies ----------------------------------------------------------------------------------------------------------
def _mask(call: Any, function: KernelFunction, ctas: Value) -> int:
    """Return the register of a mask of CTAs."""
    return register(
        call.b, scalar_cast(call.b, integer(call, ctas, names.operand_text(function.__name__, "ctas")), uint32)
    )


@means(_NAMES["cp_async_bulk_global_to_shared_multicast"])
def load_for_all(
    call: Any, dst: Value, i: Value, src: Value, j: Value, size: Value, bar: Value, k: Value, ctas: Value
) -> Value:
    function = _NAMES["cp_async_bulk_global_to_shared_multicast"]
    to, source = byte_place(call, function, dst, i, "shared", True), byte_place(call, function, src, j, "global", False)
    barrier = mbarrier_place(call, function, bar, k).address(call)
    length, mask = integer_register(call, function, "bytes", size), _mask(call, function, ctas)
    operands = to.address(call), source.address(call), length, barrier, mask
    call.b.effect("bulk.multicast", operands, array=to.array.name, element=str(to.array.dtype))
    return NOTHING


@means(_NAMES["cp_async_bulk_shared_to_cluster"])
def send(call: Any, dst: Value, i: Value, src: Value, j: Value, size: Value, bar: Value, k: Value) -> Value:
    function = _NAMES["cp_async_bulk_shared_to_cluster"]
    to, source = byte_place(call, function, dst, i, "shared", True), byte_place(call, function, src, j, "shared", False)
    barrier = mbarrier_place(call, function, bar, k).address(call)
    operands = to.address(call), source.address(call), integer_register(call, function, "bytes", size), barrier
    call.b.effect("bulk.send", operands, array=to.array.name, element=str(to.array.dtype))
    return NOTHING


@means(_NAMES["cp_async_bulk_tensor_global_to_shared_multicast"])
def load_tile_for_all(
    call: Any, dst: Value, i: Value, tmap: Value, coordinates: Value, bar: Value, k: Value, ctas: Value
) -> Value:
    function = _NAMES["cp_async_bulk_tensor_global_to_shared_multicast"]
    to = byte_place(call, function, dst, i, "shared", True)
    place, at = lower_tile_operands(call, function, tmap, coordinates)
    barrier, mask = mbarrier_place(call, function, bar, k).address(call), _mask(call, function, ctas)
    call.b.effect(
        "tensor.multicast", (to.address(call), place, barrier, *at, mask), auxiliary=len(at), array=to.array.name,
        element=str(to.array.dtype),
    )  # fmt: skip
    return NOTHING


def _value(call: Any, function: KernelFunction, target: ArrayValue, value: Value) -> tuple[int, str]:
    """Return a value as an element of an array, and the type of its register."""
    type_ = number_type(target.dtype)
    if type_ is None or target.dtype.itemsize not in (4, 8):
        raise call.error(
            f"`{function.name}` on array `{target.name}` of {target.dtype}", "it works on numbers of 32 or 64 bits"
        )
    given = number(value, f"the value of `{function.name}`")
    if not isinstance(given, Scalar):
        raise call.error(f"the value of `{function.name}` is complex", "store its parts")
    return register(call.b, scalar_cast(call.b, given, type_)), f"b{8 * target.dtype.itemsize}"


def _enter_send(name: str, what: str) -> None:
    function = _NAMES[name]

    @means(function)
    def send_one(call: Any, dst: Value, i: Value, value: Value, bar: Value, k: Value) -> Value:
        to = element_place(call, function, dst, i, "shared", _SHARED)
        auxiliary, kind = 0, "store"
        if what:
            type_ = names.REDUCTIONS[what].types.get(str(to.array.dtype), "")
            if (what, type_) not in BULK_REDUCTIONS or type_.startswith("f"):
                known = ", ".join(t for t in names.REDUCTIONS[what].types if not t.startswith("float"))
                raise call.error(f"`{function.name}` on an array of {to.array.dtype}", f"it works on {known}")
            auxiliary, kind = BULK_REDUCTIONS.index((what, type_)), "reduce"
        given, bits = _value(call, function, to.array, value)
        barrier = mbarrier_place(call, function, bar, k).address(call)
        call.b.effect(
            f"async.{kind}.{bits}", (to.address(call), barrier, given), auxiliary=auxiliary, array=to.array.name,
            element=str(to.array.dtype),
        )  # fmt: skip
        return NOTHING


_enter_send("st_async", "")
for _name in names.REDUCTIONS:
    _enter_send(f"red_async_{_name}", _name)
