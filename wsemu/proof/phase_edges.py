"""Happens-before with the phases of mbarriers, warp by warp: for explanations of a run.

The engines check each thread with its own clock, a clock for each copy, and two more for the async proxy. Here a warp
is one actor, as in `happens_before`, whose rules apply: an arrive of one lane gives the clock of the whole warp. So
this module determines synchronization edges of a run, and it never denies an order that the engines found.

`arrive_on`   Gives the warp's clock to the current phase of its mbarrier, unless it is relaxed (PTX ISA,
              "mbarrier.arrive").  With atomics, a relaxed arrive gives the clock of the warp's last fence.
`phase`       Ends a phase: what is given from then on belongs to the next phase.
`await`       A successful wait takes what its phase was given.  A relaxed one takes it at the next fence, with atomics.
`credit`      The completion of a copy gives the copy's own accesses, and no clock of its warp (PTX ISA, "Async
              operations").
"""

from __future__ import annotations

import functools
from collections import defaultdict
from typing import TYPE_CHECKING

from wsemu.model.effects import effects_of, find_names
from wsemu.model.isa import (
    NAMES,
    OPERATIONS,
    RELAXED,
    SEGMENT_SHIFT,
    SHARED,
    WAIT_RELAXED,
    WAITS,
    is_cluster_fence,
)
from wsemu.model.outcome import FENCES
from wsemu.proof.happens_before import (
    OF_CLUSTER,
    OF_CTA,
    Asynchronous,
    Clock,
    HappensBefore,
    add_given,
    epochs,
    join,
    uncounted_barriers,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable

    from wsemu.model.outcome import Event, RawFinding, Trace
    from wsemu.model.program import Program
    from wsemu.proof.happens_before import Actor, Epoch

GIVES, TAKES = "arrive_on", "await"
"""kinds of an event's effects"""
EXITS = ("dsmem-after-exit", "dsmem-relaxed-exit")
"""finding codes that concern exits of CTAs"""
_RELAXED = {
    **dict.fromkeys(
        find_names(lambda row: row.event == GIVES and row.meets in ("mbarrier", "cluster") and not row.group), RELAXED
    ),
    **dict.fromkeys(WAITS, WAIT_RELAXED),
}
"""bit of the aux that makes an operation on an mbarrier or a cluster barrier relaxed"""


def relaxed_operations(program: Program) -> frozenset[int]:
    """Return the operations on mbarriers that neither release nor acquire."""
    rows = enumerate(program.code.tolist())
    return frozenset(pc for pc, row in rows if row[7] & _RELAXED.get(NAMES[row[0]], 0))


class PhaseOrder(HappensBefore):
    """The clocks of all warps as in `HappensBefore`, with the synchronization edges of mbarriers.

    `relaxed` are operations without edges.
    """

    def __init__(
        self,
        atomics: bool,
        uncounted: Container[int] = (),
        relaxed: Container[int] = (),
        cluster_of: Callable[[int], int] = int,
        cluster_wide: Container[int] = (),
        reach: int = OF_CTA,
    ) -> None:
        """`reach` is the scope that a fence before a relaxed arrive must have."""
        super().__init__(atomics, uncounted, cluster_of=cluster_of, cluster_wide=cluster_wide)
        self._relaxed, self._reach = relaxed, reach
        self._given: defaultdict[tuple[int, int, int], Clock] = defaultdict(dict)
        """(cluster, mbarrier, phase) -> the clock that it was given"""
        self._rules |= {"arrive_on": self.arrive_on, "await": self.await_, "init": self.init}

    def apply(self, event: Event) -> None:
        """Apply one operation.  Events contain the interval of their warp, because operations on mbarriers end
        intervals as well."""
        actor = event.cta, event.warp
        if event.kind not in ("complete", "phase") and event.interval > self.clock(actor)[actor]:
            self.clock(actor)[actor] = event.interval
        super().apply(event)

    def arrive_on(self, event: Event) -> None:
        actor = event.cta, event.warp
        if event.pc not in self._relaxed:
            join(self._given[self._phase_of(event)], self.released_clock(actor))
        elif self.atomics:
            fenced = self._fenced[actor].get(self._scopes(event.cta)[self._reach], {})
            join(self._given[self._phase_of(event)], fenced)

    def await_(self, event: Event) -> None:
        actor = event.cta, event.warp
        if event.pc not in self._relaxed:
            join(self.clock(actor), self._given[self._phase_of(event)])
        elif self.atomics:
            add_given(self._seen[actor], {self._scopes(event.cta)[OF_CTA]: dict(self._given[self._phase_of(event)])})

    def _phase_of(self, event: Event) -> tuple[int, int, int]:
        return self._cluster_of(event.cta), event.place, event.generation

    def init(self, event: Event) -> None:
        """Restart the phases of an mbarrier at its initialization."""
        for key in [key for key in self._given if key[:2] == self._phase_of(event)[:2]]:
            del self._given[key]


# -- what atomics order ----------------------------------------------------------------------------------------------
def with_atomics(program: Program, cluster_of: Callable[[int], int]) -> PhaseOrder:
    """Return new clocks, with everything that orders a program's operations."""
    reach = OF_CLUSTER if any(effects_of(name).meets == "cluster" for name in _names(program)) else OF_CTA
    return PhaseOrder(
        True, uncounted_barriers(program), relaxed_operations(program), cluster_of, cluster_wide(program), reach
    )


def cluster_wide(program: Program) -> frozenset[int]:
    """Return the fences that reach a whole cluster.  In a cooperative launch, each CTA is a cluster of its own."""
    rows = () if program.cooperative else enumerate(program.code.tolist())
    return frozenset(pc for pc, row in rows if is_cluster_fence(row))


def _names(program: Program) -> set[str]:
    return {NAMES[op] for op in program.code[:, 0].tolist()}


def fences_may_order(program: Program) -> bool:
    """Return whether a program has fences, and strong accesses or relaxed barrier operations that can form patterns
    with them."""
    names = _names(program)
    if any(OPERATIONS[name].kind == "atomic" for name in names):
        return True
    return not names.isdisjoint(FENCES) and bool(relaxed_operations(program))


def asynchronous(program: Program, cluster_of: Callable[[int], int]) -> Asynchronous:
    """Return the orders in a program besides named barriers."""
    with_all = functools.partial(with_atomics, program, cluster_of)
    return Asynchronous(with_all, functools.partial(ends, _promises(program)), begins)


_PROMISES = "cp.async.arrive"
"""operations that arrive at an mbarrier after the copies of their thread have completed"""


def _promises(program: Program) -> frozenset[int]:
    """Return the arrives that happen when copies complete."""
    return frozenset(pc for pc, row in enumerate(program.code.tolist()) if NAMES[row[0]].startswith(_PROMISES))


def ends(promises: Container[int], trace: Trace, raw: RawFinding) -> set[Epoch]:
    """Return the epochs at which warps have observed the completion of a race's copy.

    It is the last copy of its instruction before the later access. Its completion is observed by a wait for the phase
    on which it completed, or in which one of `promises` arrives, or by a wait for its group.
    """
    issuer, address = (raw.detail.get("other_cta", raw.cta), raw.other_warp), raw.detail["address"]
    later = epochs(raw)[1]
    phases: set[tuple[int, int]] = set()
    found: set[Epoch] = set()
    issued = False
    for event in trace.events:
        if "async" not in raw.detail and (event.cta, event.warp) == later[:2] and event.interval > later[2]:
            break
        mine = event.pc == raw.other_pc and (event.cta, event.warp) == issuer
        if mine and event.kind == "copy":
            if _touches(event, address):
                issued, phases, found = True, set(), set()
        elif issued and (
            (mine and event.kind == "credit" and not phases)
            or (event.kind == GIVES and event.pc in promises and (event.cta, event.warp) == issuer)
        ):
            phases.add((event.place, event.generation))
        elif issued:
            told = event.kind == "await" and (event.place, event.generation) in phases
            if told or (event.kind == "landed" and (event.cta, event.warp) == issuer):
                found.add((event.cta, event.warp, event.interval + 1))
    return found


def begins(trace: Trace, raw: RawFinding) -> set[Epoch]:
    """Return the epochs, from the earlier access on, in which the later instruction of a race issued copies of its
    bytes.

    A copy begins with the clock of its issuer.
    """
    earlier = epochs(raw)[0]
    found: set[Epoch] = set()
    for event in trace.events:
        before = (event.cta, event.warp) == earlier[:2] and event.interval < earlier[2]
        if before and "other_async" not in raw.detail:
            found.clear()
        own = event.kind == "copy" and (event.pc, event.cta, event.warp) == (raw.pc, raw.cta, raw.warp)
        if own and _touches(event, raw.detail["address"]):
            found.add((event.cta, event.warp, event.interval))
    return found


def _touches(copy: Event, address: int) -> bool:
    """Return whether a copy writes or reads a byte.  The event of a tensor copy has only its location in shared
    memory."""
    starts = copy.place, copy.generation
    if any(start >= 0 and start <= address < start + copy.amount for start in starts):
        return True
    return copy.generation < 0 and address >> SEGMENT_SHIFT != SHARED


def exits_ordered_by_atomics(
    trace: Trace, findings: Iterable[RawFinding], program: Program, cluster_of: Callable[[int], int]
) -> list[RawFinding]:
    """Return the findings about an early exit of a CTA that atomics and fences refute, in the run of this trace.

    All accesses of other CTAs to its shared memory then precede some operation of it.
    """
    asked = [raw for raw in findings if raw.code in EXITS]
    if not asked or not trace.complete:
        return []
    order = with_atomics(program, cluster_of)
    made: dict[int, set[Epoch]] = {raw.pc: set() for raw in asked}
    actors: set[Actor] = set()
    copies: set[int] = set()
    for event in trace.events:
        actors.add((event.cta, event.warp))
        if event.pc in made and event.kind in ("access", "atomic", "arrive_on", "expect", "credit", "copy"):
            made[event.pc].add((event.cta, event.warp, event.interval))
            copies |= {event.pc} if event.kind == "copy" else set()
        order.apply(event)

    def over(raw: RawFinding, epoch: Epoch) -> bool:
        owner = raw.detail["other_cta"]
        apart = epoch[0] == owner or cluster_of(epoch[0]) != cluster_of(owner)
        return apart or any(order.before(epoch, actor) for actor in actors if actor[0] == owner)

    return [
        raw for raw in asked
        if made[raw.pc] and raw.pc not in copies and all(over(raw, epoch) for epoch in made[raw.pc])
    ]  # fmt: skip


# -- lives of mbarriers that atomics order ---------------------------------------------------------------------------
_USES = frozenset({"init", "arrive_on", "expect", "await"})
"""operations of threads on an mbarrier"""


def _concerns_lifetime(raw: RawFinding) -> bool:
    """Return whether a finding is about an mbarrier's lifetime, and concerns operations of two warps that nothing
    orders."""
    if raw.other_warp in (-1, raw.warp):
        return False
    return (raw.code == "mbarrier-lifetime" and raw.detail["what"] == 0) or (
        raw.code == "mbarrier-uninitialized" and raw.detail.get("ordered", 0) == 1
    )


def lives_ordered_by_atomics(
    trace: Trace, findings: Iterable[RawFinding], program: Program, cluster_of: Callable[[int], int] = int
) -> list[RawFinding]:
    """Return the findings about an mbarrier's lifetime that atomics and fences refute, in the run of this trace.

    With them, each use precedes the invalidation and follows the initialization. A library may thus count its threads,
    and let the last one invalidate its mbarriers.
    """
    asked = [raw for raw in findings if _concerns_lifetime(raw)]
    if not asked or not trace.complete:
        return []
    order = with_atomics(program, cluster_of)
    lives: dict[tuple[int, int], list[Epoch]] = {}
    """(cluster, address) -> the uses in a lifetime of an mbarrier, with its initialization first"""
    apart: set[int] = set()
    """operations that some use of a lifetime does not precede"""
    for event in trace.events:
        if event.kind in _USES or event.kind == "inval":
            uses = lives.setdefault((cluster_of(event.cta), event.place), [])
            if event.kind == "init":
                uses.clear()
            before = uses if event.kind == "inval" else uses[:1]
            actor = event.cta, event.warp
            if not all(epoch[:2] == actor or order.before(epoch, actor) for epoch in before):
                apart.add(event.pc)
            uses.append((*actor, event.interval))
        order.apply(event)
    return [raw for raw in asked if raw.pc not in apart]


# -- phases that atomics order in time -------------------------------------------------------------------------------
PHASE_CODES = frozenset(("phase-alias", "uncovered-expectation"))
"""codes for two operations on an mbarrier that nothing orders in time"""
_EARLY_REGISTRANT, _EARLY, _LATE = 1, 2, 3
"""`rule` of a phase-alias finding"""


class _InTime(PhaseOrder):
    """Clocks of the time of a run: each atomic comes after earlier ones at its location, with or without fences."""

    def __init__(self, uncounted: Container[int], cluster_of: Callable[[int], int]) -> None:
        super().__init__(True, uncounted, cluster_of=cluster_of)
        self._left: defaultdict[tuple[int, int], Clock] = defaultdict(dict)

    def atomic(self, event: Event) -> None:
        shared = event.place >> SEGMENT_SHIFT == SHARED
        left = self._left[self._cluster_of(event.cta) if shared else -1, event.place]
        join(self.clock((event.cta, event.warp)), left)
        join(left, self.clock((event.cta, event.warp)))


def phases_ordered_by_atomics(
    trace: Trace, findings: Iterable[RawFinding], program: Program, cluster_of: Callable[[int], int] = int
) -> list[RawFinding]:
    """Return the findings about phases that the order of the atomics contradicts, in the time of this trace.

    R1 to R5 depend on the order in time, which engines derive from barriers and mbarriers alone.  A thread that draws a
    number from a counter does so after those that drew earlier ones."""
    asked = [raw for raw in findings if raw.code in PHASE_CODES]
    if not asked or not trace.complete:
        return []
    promises = _promises(program)
    logged = {event.pc for event in trace.events}
    order = _InTime(uncounted_barriers(program), cluster_of)
    made: defaultdict[tuple[int, int], list[tuple[Event, Epoch]]] = defaultdict(list)
    """operations so far on each (cluster, mbarrier)"""
    found: list[RawFinding] = []
    for event in trace.events:
        if event.kind in (GIVES, TAKES, "expect", "credit"):
            epoch, place = (event.cta, event.warp, event.interval), (cluster_of(event.cta), event.place)
            known = [one for one, of in made[place] if of[:2] == epoch[:2] or order.before(of, epoch[:2])]
            unknown = [one for one, _ in made[place] if one not in known or one.kind == "credit" or one.pc in promises]
            found += [raw for raw in asked if raw not in found and _contradicts(raw, event, known, unknown, logged)]
            made[place].append((event, epoch))
        order.apply(event)
    return found


def _contradicts(
    raw: RawFinding, event: Event, known: list[Event], unknown: list[Event], logged: Container[int]
) -> bool:
    """Return whether an operation on an mbarrier contradicts a finding.

    It follows the `known` operations. `unknown` are other earlier operations on the mbarrier, and those of copies,
    which happen in their own time.  `logged` are the instructions in the trace: a test that failed is none of them, and
    its thread waits later.
    """
    detail, phase = raw.detail, raw.detail["phase"]
    if event.place != detail["address"]:
        return False
    if raw.code == "uncovered-expectation":
        owner, of = (raw.pc, raw.cta, raw.warp), phase
    else:
        owner, of = (raw.other_pc, detail.get("other_cta", raw.cta), raw.other_warp), event.generation - 1
    named = [one for one in known if one.generation == of and (one.pc, one.cta, one.warp) == owner]
    if raw.code == "uncovered-expectation" or detail["rule"] == _LATE:
        return (event.kind, event.generation) == (GIVES, phase) and bool(named)
    tried = event.kind == TAKES and raw.pc not in logged
    if (event.cta, event.warp) != (raw.cta, raw.warp) or not (tried or event.pc == raw.pc):
        return False
    seen = any(one.kind == TAKES and one.generation == of for one in known)
    others = any(one.kind != TAKES and one.generation == of for one in unknown)
    over = detail["rule"] == _EARLY_REGISTRANT and event.generation == phase and not others
    return seen or over or (detail["rule"] == _EARLY and bool(named))
