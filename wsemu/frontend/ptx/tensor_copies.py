"""Copies of tiles that tensor maps describe (PTX ISA 9.7.9.27): `cp.async.bulk.tensor`, `cp.reduce.async.bulk.tensor`,
`cp.async.bulk.prefetch.tensor`: of tiles, of four rows (gather4, scatter4), and of pixels (im2col, im2col::w).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.frontend.ptx.forms import UnhandledForm, pick_flags
from wsemu.frontend.ptx.memory import full_address
from wsemu.frontend.ptx.syntax import Number, Vector
from wsemu.model.data import NamedTuple
from wsemu.model.isa import (
    LINE_MODE,
    LONG_LINE_MODE,
    NAMED_ROWS,
    OFFSET_BITS,
    OWN_TILE,
    PAIR_TILE,
    PIXELS_MODE,
    ROWS_MODE,
    TENSOR_REDUCTIONS,
    TILE_MODE_SHIFT,
)

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
_HINT, _GROUP = frozenset({"L2::cache_hint"}), frozenset({"bulk_group"})
_LINES = {"im2col::w": LINE_MODE, "im2col::w::128": LONG_LINE_MODE}
_INWARD = frozenset({"tile", "tile::gather4", "im2col", *_LINES})
_OUTWARD = frozenset({"tile", "tile::scatter4", "im2col_no_offs"})
_CREDITS = frozenset({"mbarrier::complete_tx::bytes"})
_WHATS = frozenset(TENSOR_REDUCTIONS)
_CTA_GROUPS = frozenset({"cta_group::1", "cta_group::2"})


_MULTICAST = frozenset({"multicast::cluster"})


def _ctas(e: Emitter, operand: Operand) -> Register:
    """Return the CTA mask of a multicast as a b32 register."""
    if isinstance(operand, Number):
        return e.constant("b32", int(operand.value) & 0xFFFF)
    return e.resize(e.read(operand, "b16"), 32)


class _Mode(NamedTuple):
    """The mode of a copy, which determines how its operands select the elements to copy."""

    kind: int
    rank: int
    offsets: int = 0
    """number of operands with the offsets by which pixels are shifted; the first one of a line is its halo"""

    @property
    def coordinates(self) -> int:
        return 1 + NAMED_ROWS if self.kind == ROWS_MODE else self.rank

    @property
    def auxiliary(self) -> int:
        return self.coordinates + self.has_pixels | self.kind << TILE_MODE_SHIFT

    @property
    def has_pixels(self) -> bool:
        return self.kind in (PIXELS_MODE, *_LINES.values())


def _mode(rank: int, name: str) -> _Mode:
    if name in ("tile::gather4", "tile::scatter4"):
        if rank != 2:
            raise UnhandledForm
        return _Mode(ROWS_MODE, rank)
    if name.startswith("im2col"):
        if rank < 3:
            raise UnhandledForm
        if name in _LINES:
            return _Mode(_LINES[name], rank, 2)
        return _Mode(PIXELS_MODE, rank, rank - 2 if name == "im2col" else 0)
    return _Mode(0, rank)


def _parse_rank(flags: Flags) -> int:
    if not flags or flags[0] not in _RANKS:
        raise UnhandledForm
    return _RANKS[flags[0]]


def _spaces(flags: Flags) -> tuple[Flags, Flags]:
    """Return the state spaces among the modifiers after the rank, and the other modifiers."""
    return tuple([f for f in flags[1:] if f in _STATES]), tuple([f for f in flags[1:] if f not in _STATES])


def _tile(
    e: Emitter, operand: Operand, mode: _Mode, offsets: Operand | None = None
) -> tuple[Register, tuple[Register, ...]]:
    """Return the address of the map and the coordinates in `[map, {x, y}]`, and the offsets of pixels after them."""
    if not isinstance(operand, Vector) or len(operand.items) != 2:
        raise e.error(operand.at, "a tensor map and coordinates belong here", "write `[map, {x, y}]`")
    place, coordinates = operand.items
    registers = [e.read(item, "b32") for item in e.elements(coordinates, mode.coordinates)]
    if mode.has_pixels:
        registers.append(_join_offsets(e, offsets, mode))
    return full_address(e, place, ""), tuple(registers)


def _join_offsets(e: Emitter, operand: Operand | None, mode: _Mode) -> Register:
    """Return the offsets of pixels in one register, that of W in the low bits; an offset that is too large remains too
    large."""
    joined = e.constant("b32", 0)
    bits = 16 if mode.kind in _LINES.values() else OFFSET_BITS[mode.rank]
    items = e.elements(operand, mode.offsets) if operand is not None else ()
    for n, item in enumerate(items):
        offset = e.emit("cvt.b32.u16", e.read(item, "b16"))
        offset = e.emit("min.u32", offset, e.constant("b32", (1 << bits) - 1))
        joined = e.emit("or.b32", joined, e.emit("shl.b32", offset, e.constant("b32", bits * n)))
    return joined


def _operands(e: Emitter, operands: tuple[Operand, ...], count: int, hint: str) -> tuple[Operand, ...]:
    """Return `count` operands, without a cache policy after them."""
    if len(operands) != count + bool(hint):
        raise UnhandledForm
    if hint:
        e.read(operands[-1], "b64")
    return operands[:count]


def lower_tensor_load(flags: Flags) -> Lower:
    """Lower cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [to], [map, {x, y}],
    [bar], or .global.shared::cta.tile.bulk_group [map, {x, y}], [from]; with .L2::cache_hint, a policy follows.  The
    offsets of pixels follow the mbarrier: {w, h}."""
    rank = _parse_rank(flags)
    spaces, others = _spaces(flags)
    if spaces == _STORE:
        return _lower_tensor_store(rank, others)
    if spaces not in _LOADS:
        raise UnhandledForm
    name, credits_, many, group, hint = pick_flags(others, _INWARD, _CREDITS, _MULTICAST, _CTA_GROUPS, _HINT)
    mode = _mode(rank, name)
    own = OWN_TILE * (spaces[0] == "shared::cta")
    pair = PAIR_TILE * (group == "cta_group::2")
    if not credits_ or (many and own):
        raise UnhandledForm

    def lower(e: Emitter, operands: tuple[Operand, ...]) -> None:
        to, tile, bar, *rest = _operands(e, operands, 3 + bool(mode.offsets) + bool(many), hint)
        inside = full_address(e, to, "shared")
        place, coordinates = _tile(e, tile, mode, rest[0] if mode.offsets else None)
        ctas = [_ctas(e, operand) for operand in rest[bool(mode.offsets) :]]
        operation = "tensor.multicast" if many else "tensor.load"
        e.effect(
            operation,
            (inside, place, full_address(e, bar, "shared"), *coordinates, *ctas),
            auxiliary=mode.auxiliary | own | pair,
        )

    return lower


def _lower_tensor_store(rank: int, others: Flags) -> Lower:
    name, group, hint = pick_flags(others, _OUTWARD, _GROUP, _HINT)
    if not group:
        raise UnhandledForm
    return _store_form("tensor.store", _mode(rank, name), 0, hint)


def lower_tensor_reduce(flags: Flags) -> Lower:
    """Lower cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [map, {x, y}], [from]."""
    rank = _parse_rank(flags)
    spaces, others = _spaces(flags)
    what, name, group, hint = pick_flags(others, _WHATS, _OUTWARD - {"tile::scatter4"}, _GROUP, _HINT)
    if spaces != _STORE or not what or not group:
        raise UnhandledForm
    return _store_form("tensor.reduce", _mode(rank, name), TENSOR_REDUCTIONS.index(what) << 3, hint)


def _store_form(operation: str, mode: _Mode, how: int, hint: str) -> Lower:
    def lower(e: Emitter, operands: tuple[Operand, ...]) -> None:
        tile, origin = _operands(e, operands, 2, hint)
        place, coordinates = _tile(e, tile, mode)
        e.effect(operation, (full_address(e, origin, "shared"), place, *coordinates), auxiliary=mode.auxiliary | how)

    return lower


def lower_tensor_prefetch(flags: Flags) -> Lower:
    """Lower cp.async.bulk.prefetch.tensor.2d.L2.global.tile [map, {x, y}]."""
    rank = _parse_rank(flags)
    spaces, others = _spaces(flags)
    level, name, hint = pick_flags(others, frozenset({"L2"}), _INWARD, _HINT)
    mode = _mode(rank, name)
    if spaces != ("global",) or not level:
        raise UnhandledForm

    def lower(e: Emitter, operands: tuple[Operand, ...]) -> None:
        tile, *offsets = _operands(e, operands, 1 + bool(mode.offsets), hint)
        place, coordinates = _tile(e, tile, mode, *offsets)
        e.effect("tensor.prefetch", (e.constant("b64", 0), place, *coordinates), auxiliary=mode.auxiliary)

    return lower
