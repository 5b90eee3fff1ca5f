"""Named barriers of the reference interpreter.  The documentation has a table of the rules B1 to B14.

A warp takes part as a whole (B3): `count_warp` is called once for each operation of a warp, whichever lanes execute it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from wsemu.model.data import dataclass, field
from wsemu.model.isa import LANES
from wsemu.model.outcome import ALL_LANES, RawFinding, Status
from wsemu.reference.arithmetic import to_signed
from wsemu.reference.state import list_lanes

if TYPE_CHECKING:
    from wsemu.reference.run import Cta
    from wsemu.reference.state import Group, Warp
    from wsemu.reference.warp import WarpRun

BARRIERS = 16
ARRIVE = "bar.arrive"
"""the operation that does not wait"""
BAD_ID, BAD_COUNT, LANES_DIFFER = 0, 1, 2
"""detail `kind` of an invalid-barrier finding"""


class StopError(Exception):
    """The launch cannot continue: the hardware would report an illegal instruction, or trap."""

    def __init__(self, status: Status, pc: int, warp: int) -> None:
        super().__init__(status)
        self.status = status
        self.pc = pc
        self.warp = warp


class TrapError(StopError):
    """The launch reached a `trap`, or an operation that is not modeled."""

    def __init__(self, pc: int, warp: int) -> None:
        super().__init__("trap", pc, warp)


@dataclass(slots=True)
class Participant:
    """One operation of the current generation: its warp, its instruction, whether it waits; for `bar.red` its votes."""

    warp: int
    pc: int
    waits: bool
    interval: int
    """interval of its warp that the operation ends"""
    lanes: int
    """lanes whose accesses the operation orders: those that execute it (B14)"""
    followed: bool = False
    """true if one of its lanes participates again in this generation"""
    votes: int | None = None
    voters: int = 0


@dataclass(slots=True)
class Barrier:
    """A named barrier; `expected` threads, 0 for the whole CTA."""

    number: int
    generation: int = 0
    arrived: int = 0
    expected: int = 0
    forms: set[str] = field(default_factory=set)
    """forms of the operations in the current generation: `counted`, `whole` (without a count), `gives` (an arrive)"""
    reduction: str = ""
    """the `bar.red` operation of the current generation, or empty"""
    participants: list[Participant] = field(default_factory=list)
    before: list[Participant] = field(default_factory=list)
    """participants of the previous generation"""

    @property
    def warps(self) -> list[int]:
        """Return the warps that take part in the current generation."""
        return sorted({participant.warp for participant in self.participants})

    @property
    def previous(self) -> list[int]:
        """Return the warps that took part in the previous generation."""
        return sorted({participant.warp for participant in self.before})


def count_warp(run: WarpRun, pc: int, lanes: int, named: tuple[int, int]) -> None:
    """Count a warp into a barrier; some of its lanes execute the operation at `pc`, which names the valid (barrier,
    count).  If the operation waits (B4), these lanes are parked already."""
    cta, warp = run.cta, run.warp
    name, (number, count) = run.launch.operation_name(pc), named
    barrier = cta.barriers[number]
    _join_generation(cta, barrier, name, count, (pc, warp.number, lanes))
    waits = name != ARRIVE
    watch = cta.launch.watch
    gives = lanes if count else lanes | (warp.whole & ~warp.alive)  # B7: exited lanes count
    gives = ALL_LANES if gives == warp.whole else gives
    participant = Participant(warp.number, pc, waits, watch.order.interval((cta.number, warp.number)), gives)
    watch.joins(cta.number, participant, barrier)
    watch.happen("sync" if waits else "arrive", cta.number, warp.number, pc, number, barrier.generation, gives)
    for earlier in barrier.participants:
        earlier.followed |= earlier.warp == warp.number and bool(earlier.lanes & gives)
    if name.startswith("bar.red"):
        for group in (g for g in warp.parked if g.lanes & lanes):
            row = cta.launch.code[group.pc - 1][5]
            participant.votes = (participant.votes or 0) | warp.predicates.get(row, 0) & group.lanes
            participant.voters |= group.lanes
    barrier.participants.append(participant)
    barrier.arrived += LANES  # B3
    if participant.waits:
        warp.waits, warp.wait_pc, warp.wait_lanes = number, pc, lanes
    _complete(cta, barrier, pc, warp)


def _join_generation(cta: Cta, barrier: Barrier, name: str, count: int, where: tuple[int, int, int]) -> None:
    """Begin a generation, or join the current one if the operation matches the others in it (B5)."""
    whole = len(cta.warps) * LANES
    reduction = name if name.startswith("bar.red") else ""
    if not barrier.arrived:
        barrier.expected, barrier.reduction, barrier.forms = count, reduction, set()
    barrier.forms |= {"counted" if count else "whole"} | ({"gives"} if name == ARRIVE else set())
    if barrier.arrived and (
        (barrier.expected or whole) != (count or whole) or barrier.reduction != reduction or exits_matter(cta, barrier)
    ):
        mismatch(cta, barrier, count, *where)


def exits_matter(cta: Cta, barrier: Barrier) -> bool:
    """Return whether the current generation mixes operations with and without a count, so that an exit of a warp may
    change the number of threads it expects.  If all warps of the CTA wait there, none of them can have exited."""
    return {"counted", "whole"} <= barrier.forms and ("gives" in barrier.forms or cta.live_warps < len(cta.warps))


def mismatch(cta: Cta, barrier: Barrier, count: int, pc: int, warp: int, lanes: int) -> NoReturn:
    """Report an operation that does not match the others of its generation, and stop."""
    first, whole = barrier.participants[0], len(cta.warps) * LANES
    detail = {
        "barrier": barrier.number, "generation": barrier.generation, "expected": barrier.expected or whole,
        "count": count or whole, "arrived": barrier.arrived,
    }  # fmt: skip
    cta.launch.report(RawFinding("count-mismatch", pc, cta.number, warp, lanes, first.pc, first.warp, detail))
    raise StopError("fault", pc, warp)


def operands(run: WarpRun, fields: list[int], lanes: int) -> tuple[int, int]:
    """Return (barrier, count in threads or 0 for the whole CTA) of the lowest of some lanes."""
    lane = list_lanes(lanes)[0]
    number = to_signed(run.read(fields[3], "b32", lane), 32)
    return number, to_signed(run.read(fields[4], "b32", lane), 32) if fields[4] else 0


def check_operands(run: WarpRun, fields: list[int], pc: int, lanes: int) -> None:
    """Report an invalid barrier number or count (B1, B2)."""
    cta, warp = run.cta, run.warp
    there = [lane for lane in range(LANES) if lanes >> lane & 1]
    numbers = [to_signed(run.read(fields[3], "b32", lane), 32) for lane in there]
    counts = [to_signed(run.read(fields[4], "b32", lane), 32) if fields[4] else 0 for lane in there]
    number, count = numbers[0], counts[0]

    def invalid(kind: int) -> NoReturn:
        cta.finding("invalid-barrier", pc, warp.number, lanes, barrier=number, count=count, kind=kind)
        raise StopError("fault", pc, warp.number)

    if not 0 <= number < BARRIERS:
        invalid(BAD_ID)
    if fields[4] and (count <= 0 or count % LANES):
        invalid(BAD_COUNT)
    if len(set(numbers)) > 1 or len(set(counts)) > 1:
        invalid(LANES_DIFFER)
    threads = len(cta.warps) * LANES
    if count > threads:
        cta.finding("oversubscribed", pc, warp.number, lanes, barrier=number, count=count, threads=threads)


def _resume_lanes(warp: Warp) -> None:
    """Resume the lanes that waited at the barrier, the first group first."""
    warp.waits = -1
    warp.make_ready([group for group in warp.parked if group.lanes & warp.wait_lanes])
    warp.parked = [group for group in warp.parked if not group.lanes & warp.wait_lanes]


def _complete(cta: Cta, barrier: Barrier, pc: int, warp: Warp) -> None:
    """Close the generation when its count is met, and reset for the next one at once (B4)."""
    wanted = barrier.expected or cta.live_warps * LANES  # B7, B8
    if not barrier.arrived or barrier.arrived < wanted:
        return
    if not any(p.waits for p in barrier.participants):  # B10
        first = barrier.participants[0]
        cta.launch.report(
            RawFinding(
                "all-arrive", pc, cta.number, warp.number, 0, first.pc, first.warp,
                {"barrier": barrier.number, "generation": barrier.generation, "arrived": barrier.arrived},
            )
        )  # fmt: skip
    cta.launch.watch.happen("complete", cta.number, warp.number, pc, barrier.number, barrier.generation)
    votes = [p for p in barrier.participants if p.votes is not None]
    for other in cta.warps:
        if other.waits == barrier.number:
            for group in other.parked:
                _give_result(cta, other, group, votes)
            _resume_lanes(other)
    barrier.before = barrier.participants
    barrier.generation += 1
    barrier.arrived = barrier.expected = 0
    barrier.participants = []


def _give_result(cta: Cta, warp: Warp, group: Group, votes: list[Participant]) -> None:
    """Write the result of `bar.red` into the lanes of a group that is released."""
    fields = cta.launch.code[group.pc - 1]
    name = cta.launch.operation_name(group.pc - 1)
    if not name.startswith("bar.red"):
        return
    reduction = name.rpartition(".")[2]
    if reduction == "popc":
        total = sum((p.votes or 0).bit_count() for p in votes)
        row = warp.registers.setdefault(fields[2], [0] * LANES)
        for lane in range(LANES):
            if group.lanes >> lane & 1:
                row[lane] = total
        return
    answer = all(p.votes == p.voters for p in votes) if reduction == "and" else any(p.votes for p in votes)
    old = warp.predicates.get(fields[2], 0)
    warp.predicates[fields[2]] = old | group.lanes if answer else old & ~group.lanes


def warp_exits(cta: Cta, warp: Warp, pc: int) -> None:
    """Record the end of a warp: barriers without a count no longer wait for it (B7), barriers with a count do (B8)."""
    cta.launch.watch.happen("exit", cta.number, warp.number, pc)
    if cta.live_warps:
        for barrier in cta.barriers:
            if barrier.arrived and exits_matter(cta, barrier):
                mismatch(cta, barrier, barrier.expected, pc, warp.number, 0)
            if barrier.arrived and not barrier.expected:
                _complete(cta, barrier, pc, warp)


def report_dangling(cta: Cta) -> None:
    """Report, at the CTA's end, arrivals for which no warp waited (B11)."""
    for barrier in cta.barriers:
        if barrier.arrived:
            first = barrier.participants[0]
            cta.finding(
                "dangling-arrive", first.pc, first.warp, 0, barrier=barrier.number, generation=barrier.generation,
                arrived=barrier.arrived, expected=barrier.expected,
            )  # fmt: skip
