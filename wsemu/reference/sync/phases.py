"""Rules about mbarrier phases that make one run representative of all schedules (docs: the one-run theorem).

`registrant`  An operation that takes part in a phase: an arrival, an expect-tx operation, or a complete-tx operation
              (for a copy: its agent).  A `cp.async.mbarrier.arrive` counts as two registrants: one at once, and one
              for the later arrival (an agent).
`before`      An operation comes before another one if the lane of the other one has observed it just before; for an
              agent, if the issuing lane has observed it at the issue.

R1  Every registrant of a phase comes before every registrant of the next one.
R2  Every registrant of a phase comes before each wait for the next phase, without what the wait itself acquires.
R3  Every wait that observes a phase complete comes before some registrant of the next phase.
R5  Every expect-tx operation comes before an arrival of its phase, or is part of it.
    The same holds for an operation of size 0, which is in no phase, if all threads leave the mbarrier (arrive_drop):
    after that it would complete a phase.
R6  At the end, no phase has bytes that are missing or too many.

Besides, an arrival that must not complete its phase comes before some other registrant of it: otherwise some schedule
has it as the last one.

If a lane has several operations in a phase, only the latest is kept: the others come before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.model.data import NamedTuple, dataclass, field
from wsemu.model.isa import LANES
from wsemu.model.outcome import RawFinding
from wsemu.reference.sync.thread_clocks import HAS_WRITTEN, Clocks, Known, Mark

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wsemu.reference.run import Cta, CtaGroup, Launch
    from wsemu.reference.sync.mbarrier import Mbarrier

RECYCLE, EARLY, LATE, STALE, FOREIGN = 1, 2, 3, 4, 5
"""`rule` of a phase-alias finding"""
GIVES_NARROW, TAKES_NARROW = 0, 1
"""`what` of a scope finding: the release, or the acquire, is too narrow"""
BYTES, ARRIVAL, MORE, NOTHING = 0, 1, 2, 3
"""`what` of an uncovered-expectation finding.  MORE: the bytes or arrivals that an arrival with `noComplete` expects"""
OF_COMPLETION = 4
"""`what` of an mbarrier-range finding"""
Registrants = dict[tuple[bool, int], Mark]
"""(whether it is an agent, number of the agent or thread) -> its latest operation"""


class At(NamedTuple):
    """An operation at an mbarrier: its instruction, its warp, and the clocks of its lanes."""

    cta: Cta
    pc: int
    warp: int
    clocks: dict[int, Clocks]

    @property
    def known_by_lane(self) -> dict[int, Known]:
        """For each lane, what precedes it in time."""
        return {lane: clocks.came for lane, clocks in self.clocks.items()}

    @property
    def lanes(self) -> int:
        return sum(1 << lane for lane in self.clocks)

    def marks(self) -> list[Mark]:
        """Return the operation as a mark for each lane."""
        actor = self.cta.number, self.warp
        order = self.cta.order
        return [Mark(self.pc, order.number(actor), lane, order.time(actor)) for lane in self.clocks]

    def report(self, code: str, lanes: int, earlier: Mark | None, **detail: int) -> None:
        pc, warp = -1, -1
        _name_lane(self.cta.launch, detail)
        if earlier:
            pc, (cta, warp) = earlier.pc, self.cta.group.actor(earlier.warp)
            detail |= {"other_cta": cta} if cta != self.cta.number else {}
        self.cta.launch.report(RawFinding(code, self.pc, self.cta.number, self.warp, lanes, pc, warp, detail))


def _name_lane(launch: Launch, detail: dict[str, int]) -> None:
    """Remove the lane of the earlier operation from a finding, unless the option is set."""
    if not launch.watch.options.other_lanes:
        detail.pop("other_lane", None)


def mark_key(mark: Mark) -> tuple[bool, int]:
    """Return the agent or thread of a mark."""
    return (True, mark.agent) if mark.agent >= 0 else (False, mark.warp * LANES + mark.lane)


@dataclass(slots=True)
class Phase:
    """A phase of an mbarrier: its registrants, and the threads that observed it complete."""

    number: int
    given: Clocks
    """clocks that the arrivals of the phase released"""
    known: Known
    """observations that all its registrants have in common"""
    covered: Known
    """observations that all its arrivals have in common"""
    followed: Known
    """operations that precede its registrants"""
    registrants: Registrants = field(default_factory=dict)
    expectations: dict[tuple[int, int], Mark] = field(default_factory=dict)
    """(thread, `what`) -> its latest expect-tx operation"""
    seen: dict[int, Mark] = field(default_factory=dict)
    """thread -> its first wait that observed the phase complete"""
    left: dict[int, Mark] = field(default_factory=dict)
    """thread -> its last wait that observed the phase complete"""
    bytes: Mark | None = None
    """its last registrant that specified bytes"""
    last: Mark | None = None
    """last registrant of the phase"""
    far: Mark | None = None
    """an arrival from another CTA that released memory"""


def new_phase(number: int, lanes: int) -> Phase:
    return Phase(number, Clocks(lanes), Known(lanes), Known(lanes), Known(lanes))


# -- registrants ------------------------------------------------------------------------------------------------------


def recycles(at: At, mbarrier: Mbarrier) -> None:
    """Check rule R1 for lanes that are about to register."""
    _missing(at, mbarrier, mbarrier.last, RECYCLE)


def report_unobserved(at: At, mbarrier: Mbarrier) -> None:
    """Report an arrival that follows no wait for the previous phase (PTX ISA, "Phase Completion of the mbarrier
    object": it must follow at least one such wait)."""
    if mbarrier.phase < 1:
        return
    seen = mbarrier.last.seen.values()
    lanes = sum(1 << lane for lane, known in at.known_by_lane.items() if not any(known.of(mark) for mark in seen))
    if lanes:
        at.report("phase-unobserved", lanes, None, address=mbarrier.address, phase=mbarrier.phase)


def register(at: At, mbarrier: Mbarrier, marks: Iterable[Mark], *, arrives: bool = False, names: bool = False) -> None:
    """Record registrants of the current phase: arrivals, or operations that specify bytes."""
    phase = mbarrier.open
    for mark in marks:
        phase.registrants[mark_key(mark)] = phase.last = mark
        phase.bytes = mark if names else phase.bytes
    _follow(at, phase)
    for known in at.known_by_lane.values():
        phase.known.join(known)
        if arrives:
            phase.covered.join(known)


def _follow(at: At, phase: Phase) -> None:
    """Record what precedes these registrants."""
    number, now = at.cta.order.number((at.cta.number, at.warp)), at.cta.order.time((at.cta.number, at.warp))
    for known in at.known_by_lane.values():
        before = Known(len(known.lanes))
        before.assign(known)
        own = before.lanes[number * LANES : (number + 1) * LANES]
        own[own == now] = now - 1
        phase.followed.join(before)


def expect(mbarrier: Mbarrier, marks: Iterable[Mark], what: int) -> None:
    """Record an expect-tx operation, which an arrival of the current phase must follow."""
    for mark in marks:
        mbarrier.open.expectations[mark.warp * LANES + mark.lane, what] = mark


def leave_out(mbarrier: Mbarrier, marks: Iterable[Mark]) -> None:
    """Record operations of size 0, which are in no phase."""
    for mark in marks:
        mbarrier.empties[mark.warp * LANES + mark.lane] = mark


def completes(at: At, mbarrier: Mbarrier) -> None:
    """Check R3 and R5 for the current phase, which completes now."""
    phase = mbarrier.open
    late = [mark for mark in mbarrier.last.left.values() if not phase.known.of(mark)]
    for mark in _first_by_instruction(late):
        at.report(
            "phase-alias",
            at.lanes,
            mark,
            address=mbarrier.address,
            phase=mbarrier.phase,
            rule=LATE,
            other_lane=mark.lane,
        )
    covers(at.cta.group, mbarrier)
    last = [m for (_, of), m in phase.expectations.items() if of == MORE and not phase.followed.of(m)]
    for mark in _first_by_instruction(last):
        detail = {"address": mbarrier.address, "value": mbarrier.phase, "what": OF_COMPLETION}
        _leave(at.cta.group, "mbarrier-range", mark, detail)


def covers(group: CtaGroup, mbarrier: Mbarrier) -> None:
    """Check R5 for the current phase."""
    phase = mbarrier.open
    asked = [(what, [m for (_, of), m in phase.expectations.items() if of == what]) for what in (BYTES, ARRIVAL)]
    if mbarrier.expected == 0:
        asked.append((NOTHING, [*mbarrier.empties.values()]))
        mbarrier.empties.clear()
    for what, marks in asked:
        loose = [m for m in marks if not phase.covered.of(m)]
        for mark in _first_by_instruction(loose):
            detail = {"address": mbarrier.address, "phase": mbarrier.phase, "what": what, "other_lane": mark.lane}
            _leave(group, "uncovered-expectation", mark, detail)


# -- waits ------------------------------------------------------------------------------------------------------------


def early(at: At, mbarrier: Mbarrier, asked: int) -> None:
    """Check R2 for lanes that wait for a phase, or test it."""
    before = mbarrier.before if asked == mbarrier.phase - 1 else mbarrier.last
    if asked >= 1 and before.number == asked - 1:
        _missing(at, mbarrier, before, EARLY)


def sees(mbarrier: Mbarrier, marks: Iterable[Mark]) -> None:
    """Record that lanes observed the last phase complete."""
    mbarrier.seen = mbarrier.last.number
    for mark in marks:
        thread = mark.warp * LANES + mark.lane
        mbarrier.last.seen.setdefault(thread, mark)
        mbarrier.last.left[thread] = mark


# -- life -------------------------------------------------------------------------------------------------------------


def used(at: At, mbarrier: Mbarrier, marks: Iterable[Mark] | None = None) -> None:
    """Check R4: an mbarrier is initialized before its uses, as far as the users have observed.  `marks` are the users
    if they are not these lanes."""
    lanes = sum(1 << lane for lane, clocks in at.clocks.items() if not _initialized_before(mbarrier, clocks))
    if lanes:
        at.report("mbarrier-uninitialized", lanes, mbarrier.made[0], address=mbarrier.address, ordered=1, dead=0)
    for mark in at.marks() if marks is None else marks:
        mbarrier.uses[mark_key(mark)] = mark


def report_unfenced(at: At, mbarrier: Mbarrier) -> None:
    """Report copies of the asynchronous proxy that credit an mbarrier whose initialization is not followed by a fence:
    neither `fence.mbarrier_init` of the initializing thread, nor a proxy fence on the path. The rules are in the CUDA
    Programming Guide, "Using TMA to transfer one-dimensional arrays", and PTX ISA, "fence.mbarrier_init"."""
    lanes = 0
    for lane, clocks in at.clocks.items():
        if not all(clocks.shared.of(made) or _is_published(mbarrier, made, clocks) for made in mbarrier.made):
            lanes |= 1 << lane
    if lanes:
        at.report("mbarrier-unfenced", lanes, mbarrier.made[0], address=mbarrier.address)


def _initialized_before(mbarrier: Mbarrier, clocks: Clocks) -> bool:
    """Return whether a thread with these clocks may use an mbarrier: it has observed the initialization by each
    lane."""
    return all(clocks.all.of(made) or _is_published(mbarrier, made, clocks) for made in mbarrier.made)


def _is_published(mbarrier: Mbarrier, made: Mark, clocks: Clocks) -> bool:
    """Return whether `fence.mbarrier_init`, by a thread that initialized the mbarrier, precedes a thread with these
    clocks."""
    return mbarrier.published > 0 and clocks.came.includes_lane(made.warp, made.lane, mbarrier.published)


def ends(at: At, mbarrier: Mbarrier) -> None:
    """Check R4: an mbarrier is used before it is invalidated."""
    commits = at.cta.mbarriers.commits
    passed = [
        mark for mark in mbarrier.uses.values()
        if all(
            known.of(mark) or any(known.includes_agent(later, HAS_WRITTEN) for later in _list_later(commits, mark))
            for known in at.known_by_lane.values()
        )
    ]  # fmt: skip
    where = {"address": mbarrier.address, "phase": mbarrier.phase}
    for mark, lanes in _unknown(at, passed):
        at.report("commit-order", lanes, mark, **where, other_lane=mark.lane)
    for mark, lanes in _unknown(at, [mark for mark in mbarrier.uses.values() if mark not in passed]):
        at.report("mbarrier-lifetime", lanes, mark, **where, what=0, other_lane=mark.lane)


def _list_later(commits: dict[tuple[int, int], list[int]], mark: Mark) -> list[int]:
    """List the later arrivals by commits of the same thread after one of its commits.  A commit arrives when the
    operations that its thread issued are complete; PTX does not order it after the arrivals of earlier commits."""
    own = commits.get((mark.warp, mark.lane), [])
    return own[own.index(mark.agent) + 1 :] if mark.agent in own else []


def is_left(group: CtaGroup, mbarrier: Mbarrier) -> None:
    """Check R5 and R6 for the phase that is current when the CTAs of a group have ended."""
    phase = mbarrier.open
    if mbarrier.pending == 0:
        covers(group, mbarrier)
    if mbarrier.tx and phase.bytes:
        detail = {
            "address": mbarrier.address, "phase": mbarrier.phase, "bytes": mbarrier.tx, "pending": mbarrier.pending
        }  # fmt: skip
        _leave(group, "tx-mismatch", phase.bytes, detail)
    elif 0 < mbarrier.pending < mbarrier.expected and phase.last:
        detail = {
            "address": mbarrier.address, "phase": mbarrier.phase,
            "pending": mbarrier.pending, "expected": mbarrier.expected,
        }  # fmt: skip
        _leave(group, "dangling-phase", phase.last, detail)


def _leave(group: CtaGroup, code: str, mark: Mark, detail: dict[str, int]) -> None:
    cta, warp = group.actor(mark.warp)
    _name_lane(group.launch, detail)
    group.launch.report(RawFinding(code, mark.pc, cta, warp, 0, detail=detail))


# -- who does not come before -----------------------------------------------------------------------------------------


def _missing(at: At, mbarrier: Mbarrier, phase: Phase, rule: int) -> None:
    """Report the registrants of a phase that do not come before an operation."""
    for mark, lanes in _unknown(at, phase.registrants.values()):
        detail = {"address": mbarrier.address, "phase": mbarrier.phase, "rule": rule, "other_lane": mark.lane}
        at.report("phase-alias", lanes, mark, **detail)


def _unknown(at: At, marks: Iterable[Mark]) -> list[tuple[Mark, int]]:
    """Return, for each instruction with marks that some lanes have not observed, the mark of the lowest warp, and all
    lanes that miss any of its marks."""
    lanes: dict[int, int] = {}
    missed = []
    before = at.known_by_lane
    for mark in marks:
        missing = sum(1 << lane for lane, known in before.items() if not known.of(mark))
        if missing:
            missed.append(mark)
            lanes[mark.pc] = lanes.get(mark.pc, 0) | missing
    return [(mark, lanes[mark.pc]) for mark in _first_by_instruction(missed)]


def _first_by_instruction(marks: Iterable[Mark]) -> list[Mark]:
    """Return, for each instruction, the mark of its lowest thread."""
    found: dict[int, Mark] = {}
    for mark in marks:
        first = found.setdefault(mark.pc, mark)
        if (mark.warp, mark.lane) < (first.warp, first.lane):
            found[mark.pc] = mark
    return list(found.values())
