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
from wsemu.proof.happens_before import Clock, HappensBefore, join, uncounted_barriers

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable

    from wsemu.model.outcome import Event, RawFinding, Trace
    from wsemu.model.program import Program
    from wsemu.proof.happens_before import Epoch

GIVES, TAKES = "arrive_on", "await"
"""kinds of events"""


def relaxed(program: Program) -> frozenset[int]:
    """The operations on mbarriers that give and take nothing."""
    bits = {
        "cluster.arrive": RELAXED,
        "mbarrier.arrive": RELAXED,
        "mbarrier.wait": WAIT_RELAXED,
        "mbarrier.wait.parity": WAIT_RELAXED,
    }
    rows = enumerate(program.code.tolist())
    return frozenset(pc for pc, row in rows if row[7] & bits.get(NAMES[row[0]], 0))


class PhaseOrder(HappensBefore):
    """The clocks of all warps as of `HappensBefore`, with the edges of mbarriers; `relaxed` are operations without."""

    def __init__(
        self,
        atomics: bool,
        uncounted: Container[int] = (),
        relaxed: Container[int] = (),
        cluster_of: Callable[[int], int] = int,
    ) -> None:
        """`cluster_of`: of a CTA; without clusters it is one by itself."""
        super().__init__(atomics, uncounted)
        self._relaxed = relaxed
        self._cluster_of = cluster_of
        self._given: defaultdict[tuple[int, int, int], Clock] = defaultdict(dict)
        """(cluster, mbarrier, phase) -> what it was given"""
        self._rules |= {"arrive_on": self.arrive_on, "await": self.await_, "init": self.init}

    def apply(self, event: Event) -> None:
        """Let one operation happen; the events say in which interval a warp is: an mbarrier ends one, too."""
        actor = event.cta, event.warp
        if event.kind not in ("complete", "phase") and event.interval > self.clock(actor)[actor]:
            self.clock(actor)[actor] = event.interval
        super().apply(event)

    def arrive_on(self, event: Event) -> None:
        if event.pc not in self._relaxed:
            join(self._given[self._phase_of(event)], self.clock((event.cta, event.warp)))

    def await_(self, event: Event) -> None:
        if event.pc not in self._relaxed:
            join(self.clock((event.cta, event.warp)), self._given[self._phase_of(event)])

    def _phase_of(self, event: Event) -> tuple[int, int, int]:
        return self._cluster_of(event.cta), event.place, event.generation

    def init(self, event: Event) -> None:
        """A new mbarrier, also where one was: its phases begin anew."""
        for key in [key for key in self._given if key[:2] == self._phase_of(event)[:2]]:
            del self._given[key]


# -- lives of mbarriers that atomics order ---------------------------------------------------------------------------
_USES = frozenset({"init", "arrive_on", "expect", "await"})
"""operations of threads on an mbarrier"""


def _of_lives(raw: RawFinding) -> bool:
    """Whether a finding is that nothing orders the use of an mbarrier and its end, or its beginning and the use, of
    different warps."""
    if raw.other_warp in (-1, raw.warp):
        return False
    return (raw.code == "mbarrier-lifetime" and raw.detail["what"] == 0) or (
        raw.code == "mbarrier-uninitialized" and raw.detail.get("ordered", 0) == 1
    )


def lives_ordered_by_atomics(trace: Trace, findings: Iterable[RawFinding], program: Program) -> list[RawFinding]:
    """Those of the findings about the life of an mbarrier that atomics and fences contradict, in the run of this trace:
    with them each use comes before its end, and after its beginning.  So a library may count its threads down, and let
    the last one end its barriers."""
    asked = [raw for raw in findings if _of_lives(raw)]
    if not asked or not trace.complete:
        return []
    order = PhaseOrder(True, uncounted_barriers(program), relaxed(program))
    lives: dict[tuple[int, int], list[Epoch]] = {}
    """(CTA, address) -> the uses of the mbarrier there, its beginning first"""
    apart: set[int] = set()
    """operations that something of a life does not come before"""
    for event in trace.events:
        if event.kind in _USES or event.kind == "inval":
            uses = lives.setdefault((event.cta, event.place), [])
            if event.kind == "init":
                uses.clear()
            before = uses if event.kind == "inval" else uses[:1]
            actor = event.cta, event.warp
            if not all(epoch[:2] == actor or order.before(epoch, actor) for epoch in before):
                apart.add(event.pc)
            uses.append((*actor, event.interval))
        order.apply(event)
    return [raw for raw in asked if raw.pc not in apart]
