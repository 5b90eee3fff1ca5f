"""Select representative CTAs of a large grid: if these are correct, so are all others.

The threads of CTA `low + t` are followed symbolically, with t unknown in 0 .. span (`affine.py`).  Every register has
the form `a + b t`, and every branch must have one direction for all t.  If it does not, the range of CTAs, called a
*piece*, is halved and both halves are tried.  If even a piece of one CTA cannot be followed, or if a loaded value
decides a branch, `Unfit` has the reason.  All CTAs of a piece:

* Take the same paths, with the same operands of barriers and the same locations in shared memory.  So a property that
  holds within one CTA holds within all.
* Access an array at locations that move by a constant stride from CTA to CTA.  If the locations of the first, second
  and last CTA are aligned and within the array, so are all others.  These three CTAs are run.

Arithmetic excludes races between CTAs.  If an array is written, then all accesses to it, in all pieces, must move
by the same stride B: CTA c accesses `a + B c`.  Accesses `a' + B c'` and `a'' + B c''` meet only if a' and a'' have the
same remainder modulo B, and their quotients differ by c'' - c'.  So if one of them writes, the difference of the
quotients must not be in 1 .. number of CTAs - 1.

Not supported: grids of more than one dimension, clusters, cooperative launches, atomics in global memory, uninitialized
arrays, and everything that `affine.py` does not support.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from wsemu.model.data import NamedTuple
from wsemu.model.isa import LOCAL, OPERATIONS, SEGMENT_SHIFT, SHARED
from wsemu.model.program import Program
from wsemu.proof.affine import COMPUTED, LOADED, SHUFFLED, Event, Geometry, Machine, State, Unfit, Value

STEPS = 400_000
"""maximum number of instructions on all followed paths together"""
MOST_PIECES = 64
MOST_CELLS = 1 << 22
"""maximum number of memory units that are compared"""
_ACCESSES = ("read", "write", "atomic")


class Piece(NamedTuple):
    """A range of symmetric CTAs, with the events of their threads."""

    low: int
    high: int
    events: list[Event]


def corners(program: Program, geometry: Geometry, rows: Mapping[int, tuple[str, Any]]) -> tuple[int, ...]:
    """Return the CTAs that represent all others of a one-dimensional grid; raise Unfit if none do."""
    if geometry.grid[1:] != (1, 1):
        raise Unfit(0, "the grid has more than one dimension")
    machine = _Machine(program, geometry, rows)
    pieces: list[Piece] = []
    work = [(0, geometry.grid[0] - 1)]
    while work:
        low, high = work.pop()
        try:
            pieces.append(Piece(low, high, machine.follow(low, high)))
        except Unfit as unfit:
            if low == high or unfit.final or LOADED.why in unfit.why or SHUFFLED.why in unfit.why:
                raise
            middle = (low + high) // 2
            work += [(middle + 1, high), (low, middle)]
        if len(pieces) + len(work) > MOST_PIECES:
            raise Unfit(0, f"there are more than {MOST_PIECES} kinds of CTAs")
    _check_disjoint(pieces, geometry.grid[0])
    return tuple(sorted({cta for p in pieces for cta in (p.low, min(p.low + 1, p.high), p.high)}))


class _Machine(Machine):
    """Follows the threads of CTA low + t symbolically, for all t at once."""

    def __init__(self, program: Program, geometry: Geometry, rows: Mapping[int, tuple[str, Any]]) -> None:
        super().__init__(program, geometry._replace(grid=(1, 1, 1)), rows, STEPS)
        self.ctas = geometry.grid[0]
        self.span = 0

    def follow(self, low: int, high: int) -> list[Event]:
        """Return the events of the threads of CTAs `low` to `high`, inclusive."""
        self.span = high - low
        specials = self.program.specials
        given: State = {}
        if "ctaid.x" in specials:
            given[specials["ctaid.x"]] = Value(low, 1) if self.span else Value(low)
        if "nctaid.x" in specials:
            given[specials["nctaid.x"]] = Value(self.ctas)
        events = [event for path in self.run(self.start(given), frozenset(), 0) for event in path.events]
        for event in events:
            self._check(event)
        return events

    def _check(self, event: Event) -> None:
        """Raise Unfit if the event differs between CTAs in more than its location in an array."""
        if any(not operand.constant for operand in event.operands):
            raise Unfit(event.pc, "what a barrier gets depends on the CTA")
        if event.address is None:
            return
        first = np.asarray(event.address.a)
        segment, last = first >> SEGMENT_SHIFT, first + np.asarray(event.address.b) * self.span >> SEGMENT_SHIFT
        if np.any(segment != last):
            raise Unfit(event.pc, "the address leaves its array")
        own = (segment == SHARED) | (segment == LOCAL)
        if np.any(own) and not event.address.constant:
            raise Unfit(event.pc, "the place in shared memory depends on the CTA")
        if not np.all(own) and event.kind not in ("read", "write"):
            raise Unfit(event.pc, "atomics in global memory are not followed", final=True)

    # -- signs: t is in 0 .. span, and no second unknown exists --------------------------------------------------------
    def _is_nonnegative(self, x: Value) -> Any:
        return (np.asarray(x.a) >= 0) & (np.asarray(x.a + x.b * self.span) >= 0)

    def _below_zero(self, x: Value) -> Any:
        return (np.asarray(x.a) < 0) & (np.asarray(x.a + x.b * self.span) < 0)

    def _alu(self, name: str, values: list[Any], fields: list[int]) -> Any:
        found = super()._alu(name, values, fields)
        if not isinstance(found, Value) or found.constant:
            return found
        half = 1 << int(OPERATIONS[name].result[1:]) - 1
        last = np.asarray(found.a + found.b * self.span)
        return found if np.all((last >= -half) & (last < half)) else COMPUTED


# -- between CTAs ------------------------------------------------------------------------------------------------------
class _Access(NamedTuple):
    pc: int
    places: Any
    """addresses, one per thread, for CTA 0 of the piece's numbering"""
    stride: int
    size: int
    writes: bool
    piece: Piece


def _check_disjoint(pieces: Sequence[Piece], ctas: int) -> None:
    """Raise Unfit if two CTAs may access one location of an array and one of them writes it."""
    found: defaultdict[int, list[_Access]] = defaultdict(list)
    for piece in pieces:
        for event in piece.events:
            if event.kind in _ACCESSES and event.address is not None:
                for segment, access in _accesses(piece, event, event.address):
                    found[segment].append(access)
    for segment, accesses in found.items():
        if segment not in (SHARED, LOCAL) and any(access.writes for access in accesses):
            _check_array(accesses, ctas)


def _accesses(piece: Piece, event: Event, address: Value) -> list[tuple[int, _Access]]:
    places = np.broadcast_to(np.asarray(address.a), event.threads.shape)
    strides = np.broadcast_to(np.asarray(address.b), event.threads.shape)
    segments = places >> SEGMENT_SHIFT
    made = []
    for segment in np.unique(segments).tolist():
        for stride in np.unique(strides[segments == segment]).tolist():
            chosen = places[(segments == segment) & (strides == stride)]
            made.append((segment, _Access(event.pc, chosen, stride, event.size, event.kind != "read", piece)))
    return made


def _check_array(accesses: Sequence[_Access], ctas: int) -> None:
    strides = {access.stride for access in accesses if access.piece.high > access.piece.low}
    pc = next(access.pc for access in accesses if access.writes)
    if len(strides) != 1:
        why = "accesses to one array move by different strides" if strides else "no two CTAs that write it are alike"
        raise Unfit(pc, why, final=True)
    (by,) = strides
    if not by:
        raise Unfit(pc, "all CTAs access one place of an array that is written", final=True)
    bases = [access.places - by * access.piece.low for access in accesses]
    unit = math.gcd(by, *(access.size for access in accesses))
    for base in bases:
        unit = math.gcd(unit, *np.unique(base % unit).tolist())
    if sum(len(a.places) * (a.size // unit) for a in accesses) > MOST_CELLS:
        raise Unfit(pc, "there are too many accesses to compare", final=True)
    cells, writes = [], []
    for access, base in zip(accesses, bases, strict=True):
        own = (base[:, None] // unit + np.arange(access.size // unit)).ravel()
        cells.append(own)
        writes.append(np.full(len(own), access.writes))
    if _meet(np.concatenate(cells), np.concatenate(writes), abs(by) // unit, ctas):
        raise Unfit(pc, "CTAs may access one place of an array that one of them writes", final=True)


def _meet(cells: Any, writes: Any, by: int, ctas: int) -> bool:
    """Return whether two CTAs may access one cell: the remainders are equal and the quotients differ by less than
    `ctas`.
    """
    written = np.unique(cells[writes] % by)
    inside = np.isin(cells % by, written)
    remainder, quotient = cells[inside] % by, cells[inside] // by
    order = np.lexsort((quotient, remainder))
    remainder, quotient = remainder[order], quotient[order]
    apart = np.diff(quotient)
    return bool(np.any((np.diff(remainder) == 0) & (apart > 0) & (apart < ctas)))
