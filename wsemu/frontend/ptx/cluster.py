"""Operations between CTAs of a cluster (PTX ISA 9.7.9.23, 9.7.9.24, 9.7.13.4): addresses in the shared memory of
another CTA, and the cluster's barrier; `st.async` and `red.async` (9.7.9.12, 9.7.13.7).

The shared memories of a cluster are in one segment, `1 << window` bytes apart; without clusters, each CTA is alone in
its segment, with rank 0.  All ranks beyond the last one are treated alike: their memory would follow that of the last
CTA, so an access there is out of bounds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.frontend.ptx.forms import UnhandledForm, lower_by_form, pick_flags
from wsemu.frontend.ptx.memory import emit_cta_rank, emit_segment_number, full_address, undefined_where
from wsemu.frontend.ptx.syntax import Vector
from wsemu.model.grid import FARTHEST
from wsemu.model.isa import BULK_REDUCTIONS, CLUSTER_ALIGNED, RELAXED, SHARED

if TYPE_CHECKING:
    from wsemu.frontend.ptx.emit import Emitter, Handler
    from wsemu.frontend.ptx.forms import Form, Lower
    from wsemu.frontend.ptx.syntax import Operand

_SPACE = frozenset({"shared::cluster"})
_ADDRESSES = {"u32": "b32", "u64": "b64"}


def map_form(form: Form) -> Lower:
    """Lower mapa{.shared::cluster}.{u32,u64} d, address, rank: the same location in the CTA of that rank."""
    (space,) = pick_flags(form.flags, _SPACE)
    if form.type not in _ADDRESSES or (form.type == "u32" and not space):
        raise UnhandledForm

    def lower(e: Emitter, operands: tuple[Operand, ...]) -> None:
        destination, address, rank = operands
        value, wide = e.read(address, _ADDRESSES[form.type]), form.type == "u64"
        value = value if wide else e.resize(value, 64)
        known = e.emit("min.u32", e.read(rank, "b32"), e.special("cluster_nctarank"))
        moved = e.emit("sub.b64", e.emit("cvt.b64.u32", known), emit_cta_rank(e, value))
        apart = e.emit("min.u32", e.special("window"), e.constant("b32", FARTHEST))
        by = e.emit("shl.b64", moved, e.emit("cvt.b64.u32", apart))
        result = e.emit("add.b64", value, by)
        e.write_register(destination, result if wide else e.emit("cvt.b32.s64", result))

    return lower


def rank_form(form: Form) -> Lower:
    """Lower getctarank{.shared::cluster}.{u32,u64} d, address: the rank of the CTA that contains an address."""
    (space,) = pick_flags(form.flags, _SPACE)
    if form.type not in _ADDRESSES or (form.type == "u32" and not space):
        raise UnhandledForm

    def lower(e: Emitter, operands: tuple[Operand, ...]) -> None:
        destination, address = operands
        value = e.read(address, _ADDRESSES[form.type])
        value = value if form.type == "u64" else e.resize(value, 64)
        found = e.emit("cvt.b32.s64", emit_cta_rank(e, value))
        outside = e.emit("setp.ge.u32", found, e.special("cluster_nctarank"))
        if not space:
            elsewhere = e.emit("setp.ne.b64", emit_segment_number(e, value, 0), e.constant("b64", SHARED))
            outside = e.emit("or.pred", outside, elsewhere)
        undefined_where(
            e,
            outside,
            "`getctarank` of an address that is not in shared memory",
            "PTX: the address is one of the shared memory of a CTA of the cluster",
            "give an address of shared memory",
        )
        e.write_register(destination, found)

    return lower


def barrier_form(modifiers: tuple[str, ...]) -> tuple[str, int] | None:
    """Return the operation and its bits for barrier.cluster.arrive{.release,.relaxed}{.aligned} and
    barrier.cluster.wait{.acquire}{.aligned}; None for any other form."""
    what, *others = modifiers[1:] or ("",)
    orders = {"arrive": {"release", "relaxed"}, "wait": {"acquire"}}.get(what)
    if orders is None or not set(others) <= orders | {"aligned"} or len(orders & set(others)) > 1:
        return None
    return f"cluster.{what}", RELAXED * ("relaxed" in others) | CLUSTER_ALIGNED * ("aligned" in others)


_COMPLETES = frozenset({"mbarrier::complete_tx::bytes"})
_VALUES = {f"{kind}{bits}": f"b{bits}" for kind in "busf" for bits in (32, 64)}


def store_form(form: Form) -> Lower:
    """Lower st.async{.weak}{.shared::cluster}{.mbarrier::complete_tx::bytes}{.v2,.v4}.type [to], value, [bar]."""
    _, _, space, completes, vector = pick_flags(
        form.flags, frozenset({"async"}), frozenset({"weak"}), _SPACE, _COMPLETES, frozenset({"v2", "v4"})
    )
    if form.type not in _VALUES or not completes:
        raise UnhandledForm
    type_ = _VALUES[form.type]
    count = int(vector[1:]) if vector else 1

    def lower(e: Emitter, operands: tuple[Operand, ...]) -> None:
        to, value, bar = operands
        place, told = full_address(e, to, "shared" if space else ""), full_address(e, bar, "shared" if space else "")
        values = e.elements(value, count) if isinstance(value, Vector) else (value,)
        if len(values) != count:
            raise UnhandledForm
        for number, item in enumerate(values):
            at = e.constant("b64", number * int(type_[1:]) // 8)
            target = e.emit("add.b64", place, at) if number else place
            e.effect(f"async.store.{type_}", (target, told, e.read(item, type_)))

    return lower


_WHATS = frozenset(what for what, _ in BULK_REDUCTIONS)


def reduce_form(form: Form) -> Lower:
    """Lower red.async{.relaxed.cluster}{.shared::cluster}{.mbarrier::complete_tx::bytes}.what.type [to], value,
    [bar]."""
    _, order, scope, space, completes, what = pick_flags(
        form.flags, frozenset({"async"}), frozenset({"relaxed"}), frozenset({"cluster"}), _SPACE, _COMPLETES, _WHATS
    )
    combined = what, form.type
    if combined not in BULK_REDUCTIONS or form.type not in _VALUES or bool(order) != bool(scope) or not completes:
        raise UnhandledForm
    type_, number = _VALUES[form.type], BULK_REDUCTIONS.index(combined)

    def lower(e: Emitter, operands: tuple[Operand, ...]) -> None:
        to, value, bar = operands
        where = "shared" if space else ""
        places = full_address(e, to, where), full_address(e, bar, where)
        e.effect(f"async.reduce.{type_}", (*places, e.read(value, type_)), auxiliary=number)

    return lower


HANDLERS: dict[str, Handler] = {"mapa": lower_by_form(map_form), "getctarank": lower_by_form(rank_form)}
SENDS: dict[str, Handler] = {"st": lower_by_form(store_form), "red": lower_by_form(reduce_form)}
"""handlers of instructions whose first modifier is `async`"""
