"""Happens-before with the phases of mbarriers, warp by warp: for whoever explains a run.

The engines judge thread by thread, with a clock for each copy and two more for the asynchronous proxy.  Here a warp is
one actor, as in `happens_before`, whose rules hold; one lane's arrive gives what its whole warp knows.  So this tells
which edges a run had, and never that something is not ordered where the engines say that it is.

arrive_on   gives to the open phase of its mbarrier, unless it is relaxed (PTX ISA, "mbarrier.arrive").
phase       ends a phase: what is given from then on belongs to the next one.
await       a wait that was answered with true takes what its phase was given, unless it is relaxed.
credit      the end of a copy gives its own accesses, and nothing that its warp knows (PTX ISA, "Async operations").
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from wsemu.model.isa import NAMES, RELAXED, WAIT_RELAXED
from wsemu.proof.happens_before import Clock, HappensBefore, join

if TYPE_CHECKING:
    from collections.abc import Container

    from wsemu.model.outcome import Event
    from wsemu.model.program import Program

GIVES, TAKES = "arrive_on", "await"
"""kinds of events"""


def relaxed(program: Program) -> frozenset[int]:
    """The operations on mbarriers that give and take nothing."""
    bits = {"mbarrier.arrive": RELAXED, "mbarrier.wait": WAIT_RELAXED, "mbarrier.wait.parity": WAIT_RELAXED}
    rows = enumerate(program.code.tolist())
    return frozenset(pc for pc, row in rows if row[7] & bits.get(NAMES[row[0]], 0))


class PhaseOrder(HappensBefore):
    """The clocks of all warps as of `HappensBefore`, with the edges of mbarriers; `relaxed` are operations without."""

    def __init__(self, atomics: bool, uncounted: Container[int] = (), relaxed: Container[int] = ()) -> None:
        super().__init__(atomics, uncounted)
        self._relaxed = relaxed
        self._given: defaultdict[tuple[int, int, int], Clock] = defaultdict(dict)
        """(CTA, mbarrier, phase) -> what it was given"""
        self._rules |= {"arrive_on": self.arrive_on, "await": self.await_, "init": self.init}

    def apply(self, event: Event) -> None:
        """Let one operation happen; the events say in which interval a warp is: an mbarrier ends one, too."""
        actor = event.cta, event.warp
        if event.kind not in ("complete", "phase") and event.interval > self.clock(actor)[actor]:
            self.clock(actor)[actor] = event.interval
        super().apply(event)

    def arrive_on(self, event: Event) -> None:
        if event.pc not in self._relaxed:
            join(self._given[event.cta, event.place, event.generation], self.clock((event.cta, event.warp)))

    def await_(self, event: Event) -> None:
        if event.pc not in self._relaxed:
            join(self.clock((event.cta, event.warp)), self._given[event.cta, event.place, event.generation])

    def init(self, event: Event) -> None:
        """A new mbarrier, also where one was: its phases begin anew."""
        for key in [key for key in self._given if key[:2] == (event.cta, event.place)]:
            del self._given[key]
