"""Determine conflicts between the accesses of CTAs that are counted together.

CTAs that synchronize alike perform their plain accesses at the same *positions*.  A position is the part of a warp's
interval that it executes before its CTA stops.  Each CTA has its own accessed locations at a position.  If the same
accesses occur again, they belong to the same position.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wsemu.model.data import NamedTuple, dataclass
from wsemu.model.isa import ADDRESS_WRAPPED, FIRST_ARRAY, LANES, LOCAL, SEGMENT_SHIFT, SHARED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from wsemu.proof.threads import MemoryEffect, Rows

    Clash = Callable[["What", "What"], bool]


class What(NamedTuple):
    """The kind of access to a piece of memory."""

    writes: bool
    atomic: int
    """bytes of an atomic access"""


class Touch(NamedTuple):
    """The access of a lane."""

    lane: int
    address: int
    pc: int


Touches = tuple[Touch, ...]


class _Piece(NamedTuple):
    """A range of bytes, in units of the grain, and the access to it."""

    unit: int
    what: What


@dataclass(slots=True)
class Position:
    """The accesses that each CTA of a group executes at some time."""

    number: int
    warp: int
    lanes: list[int]
    places: Mapping[int, Touches]
    """accesses to each position, by CTA"""
    strong: bool = False
    """true if the access is an ordered access"""


class Positions:
    """The positions of one launch.  `grain` is the common alignment of all accesses, in bytes."""

    def __init__(self, grain: int, effect_of: Callable[[int], MemoryEffect]) -> None:
        self.grain, self.effect_of = grain, effect_of
        self.all: list[Position] = []
        self.numbers: dict[tuple[bool, int, tuple[tuple[int, Touches], ...]], int] = {}
        self.arrays: dict[int, dict[int, dict[What, int]]] = {}
        """position -> piece of an array -> the CTAs that perform each kind of access, as bits"""
        self.own: dict[tuple[int, int], Rows] = {}
        """two positions of one CTA -> which lanes of the later one have not observed which lanes of the earlier one"""
        self.across: dict[int, int] = {}
        """position -> the earlier positions of other CTAs that it has not observed, as bits"""

    def at(self, warp: int, places: Mapping[int, Touches], *, strong: bool = False) -> Position:
        """Return the position with these accesses of CTAs by a warp."""
        key = strong, warp, tuple(sorted(places.items()))
        if key not in self.numbers:
            number = self.numbers[key] = len(self.all)
            lanes = sorted({touch.lane for own in places.values() for touch in own})
            self.all.append(Position(number, warp, lanes, dict(places), strong))
            self.arrays[number] = {}
            for cta, touches in places.items():
                for _, piece in self._pieces(touches, shared=False):
                    there = self.arrays[number].setdefault(piece.unit, {})
                    there[piece.what] = there.get(piece.what, 0) | 1 << cta
        return self.all[self.numbers[key]]

    def note_own(self, later: Position, earlier: Position, unknown: Rows) -> None:
        """Record that one position follows another in a CTA, and which of its lanes (rows) have not observed lanes of
        the other."""
        key = later.number, earlier.number
        self.own[key] = self.own[key] | unknown if key in self.own else unknown

    def touch(self, places: Iterable[tuple[int, int]]) -> bool:
        """Return whether a plain access touches (address, bytes) of arrays."""
        units = {u for start, size in places for u in range(start // self.grain, -(-(start + size) // self.grain))}
        return any(not units.isdisjoint(self.arrays[one.number]) for one in self.all if not one.strong)

    def write(self, arrays: Iterable[int]) -> bool:
        """Return whether a plain access writes to arrays, by their numbers."""
        segments = {number + FIRST_ARRAY for number in arrays}
        return any(
            unit * self.grain >> SEGMENT_SHIFT in segments and any(what.writes for what in done)
            for one in self.all if not one.strong for unit, done in self.arrays[one.number].items()
        )  # fmt: skip

    def race(self) -> bool:
        """Return whether two plain accesses that nothing orders conflict."""
        apart = np.ones((LANES, LANES), bool)
        np.fill_diagonal(apart, val=False)
        plain = [one for one in self.all if not one.strong]
        return (
            any(self._races_within(one, one, apart, _clash) for one in plain)
            or any(self._races_within(*self._pair(key), unknown, _clash) for key, unknown in self.own.items()
                   if not any(one.strong for one in self._pair(key)))
            or any(self._races_across(one.number, other.number, _clash) for one in plain
                   for other in self._beside(one.number) if not other.strong)
        )  # fmt: skip

    def conflicting_pairs(self) -> Iterator[tuple[Position, Position, bool]]:
        """Yield conflicting ordered accesses, in the order of the run, that nothing else orders, and whether they
        belong to two CTAs."""
        for key, unknown in self.own.items():
            one, other = self._pair(key)
            if one.strong and other.strong and self._races_within(one, other, unknown, _interfere):
                yield one, other, False
        for one in self.all:
            for other in self._beside(one.number) if one.strong else ():
                if other.strong and self._races_across(one.number, other.number, _interfere):
                    yield one, other, True

    def _pair(self, key: tuple[int, int]) -> tuple[Position, Position]:
        return self.all[key[0]], self.all[key[1]]

    def _beside(self, number: int) -> list[Position]:
        """Return the positions of other CTAs that a position has not observed."""
        others = self.across.get(number, 0)
        return [other for other in self.all if others >> other.number & 1]

    def _races_across(self, number: int, other: int, clash: Clash) -> bool:
        one, two = self.arrays[number], self.arrays[other]
        if len(one) > len(two):
            one, two = two, one
        return any(unit in two and _conflict(done, two[unit], clash) for unit, done in one.items())

    def _pieces(self, touches: Touches, *, shared: bool) -> Iterator[tuple[int, _Piece]]:
        """Yield (lane, piece) for each access of a CTA."""
        for lane, address, pc in touches:
            segment = (address & ~ADDRESS_WRAPPED) >> SEGMENT_SHIFT
            if segment == LOCAL or (segment == SHARED and not shared):
                continue
            atomic, stores, size = self.effect_of(pc)
            what = What(stores, size if atomic else 0)
            start = address & ~ADDRESS_WRAPPED
            for at in range(start, start + size, self.grain):
                yield lane, _Piece(at // self.grain, what)

    def _races_within(self, later: Position, earlier: Position, unknown: Rows, clash: Clash) -> bool:
        for cta, touches in later.places.items():
            there: dict[int, list[tuple[int, What]]] = {}
            for lane, piece in self._pieces(earlier.places.get(cta, ()), shared=True):
                there.setdefault(piece.unit, []).append((lane, piece.what))
            for lane, piece in self._pieces(touches, shared=True):
                for other, what in there.get(piece.unit, ()):
                    if unknown[lane, other] and clash(piece.what, what):
                        return True
        return False


def _interfere(one: What, other: What) -> bool:
    """Return whether one of two accesses writes."""
    return one.writes or other.writes


def _clash(one: What, other: What) -> bool:
    """Return whether one of two accesses writes, and they are not atomic with each other."""
    return _interfere(one, other) and not (one.atomic and one.atomic == other.atomic)


def _conflict(one: Mapping[What, int], other: Mapping[What, int], clash: Clash) -> bool:
    """Return whether two different CTAs are among those that perform two kinds of access to a piece."""
    return any(
        clash(what, beside) and (ctas != others or ctas & (ctas - 1) != 0)
        for what, ctas in one.items() for beside, others in other.items()
    )  # fmt: skip


def unknown_lanes(rows: Rows, later: Position, earlier: Position, mark: int, *, lockstep: bool) -> Rows | None:
    """Return the lanes of a position that have not observed lanes of an earlier one in the CTA, up to an interval of
    its warp; `rows` has the knowledge of the CTA's threads. None if all have."""
    if later.warp == earlier.warp and lockstep:
        return None
    first, before = later.warp * LANES, earlier.warp * LANES
    found = np.zeros((LANES, LANES), bool)
    of_lanes = rows[np.ix_([first + lane for lane in later.lanes], [before + lane for lane in earlier.lanes])] < mark
    found[np.ix_(later.lanes, earlier.lanes)] = of_lanes
    if later.warp == earlier.warp:
        np.fill_diagonal(found, val=False)
    return found if found.any() else None
