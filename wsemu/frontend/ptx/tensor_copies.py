"""Copies of tiles that tensor maps describe (PTX ISA 9.7.9.27): `cp.async.bulk.tensor`, `cp.reduce.async.bulk.tensor`,
`cp.async.bulk.prefetch.tensor`, of tile mode.

Other modes (im2col, gather4, scatter4) are not modelled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.frontend.ptx.forms import UnhandledForm, pick_flags
from wsemu.frontend.ptx.memory import full_address
from wsemu.frontend.ptx.syntax import Number, Vector
from wsemu.model.isa import OWN_TILE, PAIR_TILE, TENSOR_REDUCTIONS

if TYPE_CHECKING:
    from wsemu.frontend.assemble.graph import Register
    from wsemu.frontend.ptx.emit import Emitter
    from wsemu.frontend.ptx.forms import Lower
    from wsemu.frontend.ptx.syntax import Operand

Flags = tuple[str, ...]
_RANKS = {f"{rank}d": rank for rank in range(1, 6)}
_STATES = frozenset({"global", "shared", "shared::cta", "shared::cluster"})
_LOADS = {("shared::cta", "global"), ("shared::cluster", "global")}
_STORE = ("global", "shared::cta")
_HINT, _TILE, _GROUP = frozenset({"L2::cache_hint"}), frozenset({"tile"}), frozenset({"bulk_group"})
_CREDITS = frozenset({"mbarrier::complete_tx::bytes"})
_WHATS = frozenset(TENSOR_REDUCTIONS)
_CTA_GROUPS = frozenset({"cta_group::1", "cta_group::2"})


_MULTICAST = frozenset({"multicast::cluster"})


def _ctas(e: Emitter, operand: Operand) -> Register:
    """Return the CTA mask of a multicast as a b32 register."""
    if isinstance(operand, Number):
        return e.constant("b32", int(operand.value) & 0xFFFF)
    return e.resize(e.read(operand, "b16"), 32)


def _parse_rank(flags: Flags) -> int:
    if not flags or flags[0] not in _RANKS:
        raise UnhandledForm
    return _RANKS[flags[0]]


def _spaces(flags: Flags) -> tuple[Flags, Flags]:
    """Return the state spaces among the modifiers after the rank, and the other modifiers."""
    return tuple([f for f in flags[1:] if f in _STATES]), tuple([f for f in flags[1:] if f not in _STATES])


def _tile(e: Emitter, operand: Operand, rank: int) -> tuple[Register, tuple[Register, ...]]:
    """Return the address of the map and the coordinates in `[map, {x, y}]`."""
    if not isinstance(operand, Vector) or len(operand.items) != 2:
        raise e.error(operand.at, "a tensor map and coordinates belong here", "write `[map, {x, y}]`")
    place, coordinates = operand.items
    registers = tuple([e.read(item, "b32") for item in e.elements(coordinates, rank)])
    return full_address(e, place, ""), registers


def _operands(e: Emitter, operands: tuple[Operand, ...], count: int, hint: str) -> tuple[Operand, ...]:
    """Return `count` operands, without a cache policy after them."""
    if len(operands) != count + bool(hint):
        raise UnhandledForm
    if hint:
        e.read(operands[-1], "b64")
    return operands[:count]


def lower_tensor_load(flags: Flags) -> Lower:
    """Lower cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [to], [map, {x, y}],
    [bar], or .global.shared::cta.tile.bulk_group [map, {x, y}], [from]; with .L2::cache_hint, a policy follows."""
    rank = _parse_rank(flags)
    spaces, others = _spaces(flags)
    if spaces == _STORE:
        return _lower_tensor_store(rank, others)
    if spaces not in _LOADS:
        raise UnhandledForm
    _, credits_, many, group, hint = pick_flags(others, _TILE, _CREDITS, _MULTICAST, _CTA_GROUPS, _HINT)
    own = OWN_TILE * (spaces[0] == "shared::cta")
    pair = PAIR_TILE * (group == "cta_group::2")
    if not credits_ or (many and own):
        raise UnhandledForm

    def lower(e: Emitter, operands: tuple[Operand, ...]) -> None:
        to, tile, bar, *mask = _operands(e, operands, 3 + bool(many), hint)
        inside = full_address(e, to, "shared")
        place, coordinates = _tile(e, tile, rank)
        ctas = [_ctas(e, operand) for operand in mask]
        operation = "tensor.multicast" if many else "tensor.load"
        e.effect(
            operation,
            (inside, place, full_address(e, bar, "shared"), *coordinates, *ctas),
            auxiliary=rank | own | pair,
        )

    return lower


def _lower_tensor_store(rank: int, others: Flags) -> Lower:
    _, group, hint = pick_flags(others, _TILE, _GROUP, _HINT)
    if not group:
        raise UnhandledForm
    return _outward("tensor.store", rank, rank, hint)


def lower_tensor_reduce(flags: Flags) -> Lower:
    """Lower cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [map, {x, y}], [from]."""
    rank = _parse_rank(flags)
    spaces, others = _spaces(flags)
    what, _, group, hint = pick_flags(others, _WHATS, _TILE, _GROUP, _HINT)
    if spaces != _STORE or not what or not group:
        raise UnhandledForm
    return _outward("tensor.reduce", rank, rank | TENSOR_REDUCTIONS.index(what) << 3, hint)


def _outward(operation: str, rank: int, auxiliary: int, hint: str) -> Lower:
    def lower(e: Emitter, operands: tuple[Operand, ...]) -> None:
        tile, origin = _operands(e, operands, 2, hint)
        place, coordinates = _tile(e, tile, rank)
        e.effect(operation, (full_address(e, origin, "shared"), place, *coordinates), auxiliary=auxiliary)

    return lower


def lower_tensor_prefetch(flags: Flags) -> Lower:
    """Lower cp.async.bulk.prefetch.tensor.2d.L2.global.tile [map, {x, y}]."""
    rank = _parse_rank(flags)
    spaces, others = _spaces(flags)
    level, _, hint = pick_flags(others, frozenset({"L2"}), _TILE, _HINT)
    if spaces != ("global",) or not level:
        raise UnhandledForm

    def lower(e: Emitter, operands: tuple[Operand, ...]) -> None:
        (tile,) = _operands(e, operands, 1, hint)
        place, coordinates = _tile(e, tile, rank)
        e.effect("tensor.prefetch", (e.constant("b64", 0), place, *coordinates), auxiliary=rank)

    return lower
