"""Checks of the reference interpreter on loads through the read-only cache: each byte's first such load, and first
store.

PTX ISA, "ld.global.nc": the memory that such a load reads must be read-only for the duration of the kernel.  So every
store to it is an error, whichever thread performs it and whatever orders it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.model.isa import FIRST_ARRAY, SEGMENT_SHIFT
from wsemu.model.read_only import Claim, findings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wsemu.model.outcome import RawFinding
    from wsemu.model.program import Program
    from wsemu.reference.memory.bounds import Place
    from wsemu.reference.warp import WarpRun


class ReadOnly:
    """Accesses to each byte of arrays that may be written."""

    def __init__(self, wanted: bool) -> None:
        self.wanted = wanted
        self._accesses: list[Claim] = []
        self._first: tuple[dict[int, tuple[int, int]], ...] = ({}, {})
        """for loads and for stores: address of a byte -> (number of its first access, lane)"""

    def note(self, run: WarpRun, places: Mapping[int, Place], size: int, *, stores: bool, unused: int = 0) -> None:
        """Record an access by lanes, `size` bytes each.  If several lanes access a byte, the lowest lane is recorded.
        A byte whose bit in `unused` is set does not count."""
        if not self.wanted:
            return
        actor = run.cta.number, run.warp.number
        first, number = self._first[stores], len(self._accesses)
        self._accesses.append(Claim(run.group.pc, *actor, 0, run.launch.watch.order.interval(actor)))
        for lane, (segment, at, offset) in sorted(places.items()):
            if at >= FIRST_ARRAY and segment.writable:
                for q in range(size):
                    if not unused >> q & 1:
                        first.setdefault((at << SEGMENT_SHIFT) + offset + q, (number, lane))

    def findings(self, program: Program) -> list[RawFinding]:
        """Return the findings about the accesses so far."""
        loads, stores = self._first
        both = {address: (loads[address], stores[address]) for address in sorted(loads.keys() & stores.keys())}
        lanes = [0] * len(self._accesses)
        for pair in both.values():
            for number, lane in pair:
                lanes[number] |= 1 << lane
        claims = [claim._replace(lanes=mask) for claim, mask in zip(self._accesses, lanes, strict=True)]
        return findings(program, claims, {address: (a, b) for address, ((a, _), (b, _)) in both.items()})
