"""The rules that make one run speak for all, as far as mbarriers go (docs: the one-run theorem).

`registrant`  For a phase: an arrival, an expect-tx operation, or a complete-tx operation (for a copy: its agent).
              A `cp.async.mbarrier.arrive` has two: the arrival that is recorded at once and the later one (an agent).
`before`      For an operation: what its lane knows just before it; for an agent, what its lane knows as it issues it.

R1  every registrant of a phase comes before every registrant of the next one.
R2  every registrant of the phase before the one that a wait saw complete comes before what its lane knew ahead of it.
R3  every wait that saw a phase complete comes before some registrant of the next one.
R5  every expectation comes before, or is at, an arrival of its phase.
R6  no phase is left with bytes that are missing or too many.

Besides, an arrival that must not complete its phase comes before some other registrant of it: else there is an order in
which it is the last.

Where several operations of a lane count in a phase, its latest stands for all: the others come before it.
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

RECYCLE, EARLY, LATE, STALE = 1, 2, 3, 4
"""`rule` of a phase-alias finding"""
GIVES_NARROW, TAKES_NARROW = 0, 1
"""`what` of a scope finding"""
BYTES, ARRIVAL, MORE = 0, 1, 2
"""`what` of an uncovered-expectation finding; and what an arrival that must not complete its phase expects"""
OF_COMPLETION = 4
"""`what` of an mbarrier-range finding"""
Registrants = dict[tuple[bool, int], Mark]
"""(is it an agent?, its number or its thread's) -> the latest"""


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
        """It, lane by lane."""
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
    """Leave out the lane of the earlier operation, unless it is asked for."""
    if not launch.watch.options.other_lanes:
        detail.pop("other_lane", None)


def mark_key(mark: Mark) -> tuple[bool, int]:
    """Whom a mark is of."""
    return (True, mark.agent) if mark.agent >= 0 else (False, mark.warp * LANES + mark.lane)


@dataclass(slots=True)
class Phase:
    """A phase of an mbarrier: who took part, and who saw it complete."""

    number: int
    given: Clocks
    """clocks that its arrivals released"""
    known: Known
    """knowledge that its registrants had in common"""
    covered: Known
    """knowledge that its arrivals had in common"""
    followed: Known
    """operations that its registrants follow"""
    registrants: Registrants = field(default_factory=dict)
    expectations: dict[tuple[int, int], Mark] = field(default_factory=dict)
    """(thread, `what`) -> the latest"""
    seen: dict[int, Mark] = field(default_factory=dict)
    """thread -> its first wait that saw the phase complete"""
    left: dict[int, Mark] = field(default_factory=dict)
    """thread -> its last one"""
    bytes: Mark | None = None
    """its last registrant that named bytes"""
    last: Mark | None = None
    """last registrant of the phase"""
    far: Mark | None = None
    """an arrival from another CTA, which gave something"""


def new_phase(number: int, lanes: int) -> Phase:
    return Phase(number, Clocks(lanes), Known(lanes), Known(lanes), Known(lanes))


# -- registrants ------------------------------------------------------------------------------------------------------


def recycles(at: At, mbarrier: Mbarrier) -> None:
    """R1, of lanes that are about to register."""
    _missing(at, mbarrier, mbarrier.last, RECYCLE)


def report_unobserved(at: At, mbarrier: Mbarrier) -> None:
    """An arrival, while no wait that saw the phase before complete comes before it (PTX ISA, "Phase Completion of the
    mbarrier object": at least one has to)."""
    if mbarrier.phase < 1:
        return
    seen = mbarrier.last.seen.values()
    lanes = sum(1 << lane for lane, known in at.known_by_lane.items() if not any(known.of(mark) for mark in seen))
    if lanes:
        at.report("phase-unobserved", lanes, None, address=mbarrier.address, phase=mbarrier.phase)


def register(at: At, mbarrier: Mbarrier, marks: Iterable[Mark], *, arrives: bool = False, names: bool = False) -> None:
    """Enter registrants of the open phase: arrivals, or operations that name bytes."""
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
    """Note what precedes these registrants themselves."""
    number, now = at.cta.order.number((at.cta.number, at.warp)), at.cta.order.time((at.cta.number, at.warp))
    for known in at.known_by_lane.values():
        before = Known(len(known.lanes))
        before.assign(known)
        own = before.lanes[number * LANES : (number + 1) * LANES]
        own[own == now] = now - 1
        phase.followed.join(before)


def expect(mbarrier: Mbarrier, marks: Iterable[Mark], what: int) -> None:
    """Enter what an arrival of the open phase has to wait for."""
    for mark in marks:
        mbarrier.open.expectations[mark.warp * LANES + mark.lane, what] = mark


def completes(at: At, mbarrier: Mbarrier) -> None:
    """R3 and R5, of the open phase, which completes now."""
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
    """R5, of the open phase."""
    phase = mbarrier.open
    for what in (BYTES, ARRIVAL):
        loose = [m for (_, of), m in phase.expectations.items() if of == what and not phase.covered.of(m)]
        for mark in _first_by_instruction(loose):
            detail = {"address": mbarrier.address, "phase": mbarrier.phase, "what": what, "other_lane": mark.lane}
            _leave(group, "uncovered-expectation", mark, detail)


# -- waits ------------------------------------------------------------------------------------------------------------


def early(at: At, mbarrier: Mbarrier, asked: int) -> None:
    """R2, of lanes that wait for a phase, or look at it."""
    before = mbarrier.before if asked == mbarrier.phase - 1 else mbarrier.last
    if asked >= 1 and before.number == asked - 1:
        _missing(at, mbarrier, before, EARLY)


def sees(mbarrier: Mbarrier, marks: Iterable[Mark]) -> None:
    """Lanes saw the last phase complete."""
    mbarrier.seen = mbarrier.last.number
    for mark in marks:
        thread = mark.warp * LANES + mark.lane
        mbarrier.last.seen.setdefault(thread, mark)
        mbarrier.last.left[thread] = mark


# -- life -------------------------------------------------------------------------------------------------------------


def used(at: At, mbarrier: Mbarrier, marks: Iterable[Mark] | None = None) -> None:
    """R4: an mbarrier is made before it is used, which its users have to see; `marks`: who uses it, if not these
    lanes."""
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
    """Return whether who knows this may use an mbarrier: each lane that made it did so before."""
    return all(clocks.all.of(made) or _is_published(mbarrier, made, clocks) for made in mbarrier.made)


def _is_published(mbarrier: Mbarrier, made: Mark, clocks: Clocks) -> bool:
    """Return whether `fence.mbarrier_init` of a thread that made an mbarrier comes before who knows this."""
    return mbarrier.published > 0 and clocks.came.includes_lane(made.warp, made.lane, mbarrier.published)


def ends(at: At, mbarrier: Mbarrier) -> None:
    """R4: an mbarrier is used before it ends."""
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
    """List the arrivals of commits of the same thread after one of them; a commit arrives when what its thread issued
    is over, and PTX does not say that it arrives after earlier commits."""
    own = commits.get((mark.warp, mark.lane), [])
    return own[own.index(mark.agent) + 1 :] if mark.agent in own else []


def is_left(group: CtaGroup, mbarrier: Mbarrier) -> None:
    """R5 and R6, of the phase that is open when the CTAs of a group have ended."""
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
    """For each instruction that some of these are of the one of the lowest warp that some lanes do not know of, and
    all lanes that miss any of them."""
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
