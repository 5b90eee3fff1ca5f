"""The search for races in launches with asynchronous operations, which checks each lane and each agent.

For each byte, it keeps the last write, and the reads and atomics since then, each with the agent or the lanes that
performed it.  An access is checked against each conflicting access by the clock of the accessing lane; for an agent, by
the clock of the issuing lane at the issue.  A generic access is visible to a bulk operation only if a proxy fence is
between them (PTX ISA, "Causality order": proxy-preserved base causality order).  A generic read and an asynchronous
read never conflict.  Reductions of bulk operations are atomic only with each other (measured rule T10).

A write empties the list.  A read or an atomic by lanes removes earlier accesses of its kind that one of these lanes has
observed.  An access by an agent removes none, because a thread that has observed the agent need not have observed
earlier accesses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.model.data import NamedTuple
from wsemu.model.isa import ATOMIC, LANES, LOCAL, READ, SEGMENT_SHIFT, SHARED, UNWATCHED, WRITE
from wsemu.model.outcome import RawFinding
from wsemu.proof.happens_before import uncounted_barriers
from wsemu.reference.memory.shadow import EVERYONE, Watch, access_scope
from wsemu.reference.state import list_lanes
from wsemu.reference.sync.thread_clocks import HAS_READ, HAS_WRITTEN, ThreadOrder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from wsemu.model.grid import Grouping
    from wsemu.model.program import Program
    from wsemu.reference.agents.map_fences import Acquired
    from wsemu.reference.memory.bounds import Place
    from wsemu.reference.memory.shadow import Options, Scope
    from wsemu.reference.sync.thread_clocks import Clocks
    from wsemu.reference.warp import WarpRun


class Touch(NamedTuple):
    """An access by lanes of a warp, or by an agent that a lane issued, with `size` bytes for each lane; `width` is that
    of an atomic in bytes."""

    kind: int
    cta: int
    warp: int
    interval: int
    time: int
    pc: int
    size: int
    width: int
    agent: int = -1
    bulk: bool = False
    """true for an access in the asynchronous proxy"""
    scope: Scope = EVERYONE
    loads: bool = False
    """true for an atomic that acts as a load"""

    @property
    def writes(self) -> bool:
        return self.kind == WRITE or (self.kind == ATOMIC and not self.loads)

    def conflicts(self, other: Touch) -> bool:
        """Return whether an order between the two matters: one writes, and they are not atomic with respect to each
        other."""
        if not (self.writes or other.writes):
            return False
        if self.kind == other.kind == ATOMIC:
            if (self.agent < 0) != (other.agent < 0) or self.width != other.width:
                return True
            return not self.scope.meets(other.scope)
        return True

    def covers(self, earlier: Touch) -> bool:
        """Return whether every access that conflicts with an earlier access conflicts with this one as well; neither is
        a write."""
        if self.agent >= 0 or self.kind != earlier.kind:
            return False
        if self.kind == READ:
            return True
        alike = earlier.agent < 0 and self.width == earlier.width and self.loads <= earlier.loads
        return alike and self.scope.covers(earlier.scope)


class Made(NamedTuple):
    """An access and the lanes that performed it; for an agent, the lane that issued it."""

    by: Touch
    lanes: int


class Byte(NamedTuple):
    """The history of a byte: its last write, and the reads and atomics since."""

    write: Made | None = None
    since: tuple[Made, ...] = ()


UNTOUCHED = Byte()


class Conflict(NamedTuple):
    """One lane of an access, and lanes of an earlier access that it must follow but does not."""

    now: Touch
    lane: int
    address: int
    code: str
    earlier: Touch
    lanes: int

    def order(self, groups: Grouping) -> tuple[int, ...]:
        """Return a sort key: of the conflicts with one cause, the one with the lowest key is reported."""
        lowest = (self.lanes & -self.lanes).bit_length() - 1
        earlier = self.earlier
        when = lowest if earlier.agent >= 0 else earlier.interval
        return self.lane, self.address, *groups.of(earlier.cta), earlier.warp, when, lowest


class ThreadWatch(Watch):
    """A `Watch` with clocks for each lane."""

    order: ThreadOrder

    def __init__(
        self, program: Program, options: Options, report: Callable[[RawFinding], None], groups: Grouping, warps: int
    ) -> None:
        """`warps`: number of warps in a CTA."""
        order = ThreadOrder(groups, warps, uncounted_barriers(program), lockstep=options.lockstep)
        super().__init__(program, options, report, groups, order)
        self.order = order
        self._bytes: dict[int, Byte] = {}
        self._shared_bytes: dict[int, Byte] = {}
        self.acquired: dict[int, list[Acquired]] = {}
        """acquires of tensor maps, by address of the map"""

    def start_group(self) -> None:
        self._shared_bytes = {}
        self.acquired = {}

    def end_group(self, group: int) -> None:
        self.order.end(group)

    # -- accesses of lanes --------------------------------------------------------------------------------------------

    def touch(self, run: WarpRun, kind: int, places: dict[int, Place], size: int) -> None:
        self.touch_ranges(run, kind, {lane: (place, size) for lane, place in places.items()}, size)

    def touch_ranges(self, run: WarpRun, kind: int, ranges: dict[int, tuple[Place, int]], unit: int) -> None:
        """Check and record one access of a warp: lane -> (location, bytes).  Each range consists of units of `unit`
        bytes."""
        if not self.options.races:
            return
        lanes_at: dict[int, int] = {}
        sizes: dict[int, int] = {}
        for lane, ((segment, number, offset), size) in ranges.items():
            if number != LOCAL and segment.writable and segment.writable != UNWATCHED:
                for at in range(offset, offset + size, unit):
                    address = (number << SEGMENT_SHIFT) + at
                    lanes_at[address] = lanes_at.get(address, 0) | 1 << lane
                    sizes.setdefault(address, size)
        actor = run.cta.number, run.warp.number
        interval, time = self.order.interval(actor), self.order.time(actor)
        scope, loads = access_scope(run, kind), self.stands_for_load(run, kind)
        found: list[Conflict] = []
        for address, lanes in lanes_at.items():
            now = Touch(kind, *actor, interval, time, run.group.pc, sizes[address], unit, scope=scope, loads=loads)
            found += self._make(now, lanes, range(address, address + unit))
        self.tell(run, run.group.pc, found)

    # -- accesses of agents -------------------------------------------------------------------------------------------

    def touch_as_agent(self, now: Touch, lane: int, addresses: Iterable[int]) -> list[Conflict]:
        """Check and record an access of an agent that a lane issues now; `addresses` are those of its bytes."""
        return self._make(now, 1 << lane, addresses) if self.options.races else []

    def last_write(self, address: int) -> Made | None:
        """Return the last write to a byte outside of shared memory."""
        return self._bytes.get(address, UNTOUCHED).write

    def written_otherwise(self, addresses: Iterable[int]) -> bool:
        """Return whether asynchronous operations or atomics have written to these bytes."""
        bytes_ = [self._bytes.get(at, UNTOUCHED) for at in addresses]
        by_agent = any(byte.write is not None and byte.write.by.agent >= 0 for byte in bytes_)
        return by_agent or any(made.by.kind == ATOMIC for byte in bytes_ for made in byte.since)

    # -- bytes --------------------------------------------------------------------------------------------------------

    def _make(self, now: Touch, lanes: int, addresses: Iterable[int]) -> list[Conflict]:
        """Check and record an access of some lanes to the same bytes."""
        actor = now.cta, now.warp
        clocks = {lane: self.order.clocks(actor, lane) for lane in list_lanes(lanes)}
        found: list[Conflict] = []
        old = new = None
        for address in addresses:
            memory = self._shared_bytes if address >> SEGMENT_SHIFT == SHARED else self._bytes
            state = memory.get(address, UNTOUCHED)
            if state is not old:  # bytes with the same history are checked once
                before = (state.write, *state.since) if state.write else state.since
                for earlier in before:
                    if earlier.by.conflicts(now):
                        found += self._judge(now, clocks, address, earlier, state.since)
                old, new = state, self._history_after(now, lanes, clocks, state)
            assert new is not None
            memory[address] = new
        return found

    def _judge(
        self, now: Touch, clocks: dict[int, Clocks], address: int, earlier: Made, since: tuple[Made, ...]
    ) -> Iterator[Conflict]:
        by = earlier.by
        lone = by.agent < 0 and now.agent < 0 and by.warp == now.warp and by.cta == now.cta
        unordered = "intra-warp-race" if lone else "race"
        for lane, clock in clocks.items():
            if not self.together(by.cta, now.cta):  # CTAs of different groups are unordered
                yield Conflict(now, lane, address, unordered, by, earlier.lanes)
                continue
            unknown = self._unknown(by, earlier.lanes, clock, -1)
            if unknown:
                yield Conflict(now, lane, address, unordered, by, unknown)
            shared = address >> SEGMENT_SHIFT == SHARED
            if (
                now.bulk
                and not by.bulk
                and not (shared and by.kind == now.kind == WRITE and self._is_read_back(since, clock))
            ):
                unfenced = self._unknown(by, earlier.lanes, clock, address >> SEGMENT_SHIFT) & ~unknown
                if unfenced:
                    yield Conflict(now, lane, address, "proxy" if by.writes else "proxy-war", by, unfenced)

    def _is_read_back(self, since: tuple[Made, ...], clock: Clocks) -> bool:
        """Return whether a known read in the generic proxy has returned the value of the last write.  If so, the write
        has been performed in shared memory, and the read is the access that lacks the fence.  Any thread's read counts,
        because no thread caches shared memory."""
        return any(
            made.by.kind == READ and made.by.agent < 0 and not self._unknown(made.by, made.lanes, clock, -1)
            for made in since
        )

    def _history_after(self, now: Touch, lanes: int, clocks: dict[int, Clocks], state: Byte) -> Byte:
        """Return the history of a byte after an access."""
        if now.kind == WRITE:
            return Byte(Made(now, lanes))
        if not state.since:
            return Byte(state.write, (Made(now, lanes),))
        kept = []
        merged = lanes
        for earlier, before in state.since:
            left = before
            if self.together(earlier.cta, now.cta) and now.covers(earlier):
                for clock in clocks.values():
                    left &= self._unknown(earlier, left, clock, -1)
            if earlier == now:  # the same instruction, at the same time
                merged |= left
            elif left:
                kept.append(Made(earlier, left))
        here = [self.together(made.by.cta, now.cta) for made in kept]
        earlier_ = [made for made, own in zip(kept, here, strict=True) if not own]
        own_ = [made for made, own in zip(kept, here, strict=True) if own]
        return Byte(state.write, (*_first_accesses(earlier_), *own_, Made(now, merged)))

    def _unknown(self, by: Touch, lanes: int, clocks: Clocks, fenced: int) -> int:
        """Return the lanes of an earlier access that are not observed.  If `fenced` is a segment, also return those
        that are not visible to the asynchronous proxy there."""
        known = clocks.all if fenced < 0 else clocks.async_visible(fenced)
        if by.agent >= 0:
            return 0 if known.includes_agent(by.agent, HAS_READ if by.kind == READ else HAS_WRITTEN) else lanes
        first, times = self.order.number((by.cta, by.warp)) * LANES, known.lanes
        return sum(1 << lane for lane in list_lanes(lanes) if times[first + lane] < by.time)

    # -- reports ------------------------------------------------------------------------------------------------------

    def tell(self, run: WarpRun, pc: int, found: list[Conflict]) -> None:
        """Report the conflicts of one instruction with every other instruction; conflicts with earlier CTAs are
        separate reports."""
        causes: dict[tuple[bool, str, int], list[Conflict]] = {}
        for conflict in found:
            own = self.together(conflict.earlier.cta, run.cta.number)
            causes.setdefault((own, conflict.code, conflict.earlier.pc), []).append(conflict)
        for (own, _, _), conflicts in sorted(causes.items(), key=lambda cause: cause[0]):
            first = min(conflicts, key=lambda conflict: conflict.order(self.grouping))
            lanes = 0
            for conflict in conflicts:
                lanes |= 1 << conflict.lane
            self._report_conflict(run, pc, first, lanes, own=own)

    def _report_conflict(self, run: WarpRun, pc: int, first: Conflict, lanes: int, *, own: bool) -> None:
        now, earlier = first.now, first.earlier
        detail = {
            "address": first.address, "kind": now.kind, "other_kind": earlier.kind, "size": now.size,
            "interval": now.interval, "other_interval": earlier.interval, "other_cta": earlier.cta,
        }  # fmt: skip
        if own:
            detail["other_lane"] = (first.lanes & -first.lanes).bit_length() - 1
            detail["other_last"] = first.lanes.bit_length() - 1
        detail |= {"async": 1} if now.agent >= 0 else {}
        detail |= {"other_async": 1} if earlier.agent >= 0 else {}
        where = pc, run.cta.number, run.warp.number
        self.report(RawFinding(first.code, *where, lanes, earlier.pc, earlier.warp, detail))


def _first_accesses(earlier: list[Made]) -> list[Made]:
    """Return the first reads and atomics of earlier groups: the first read, the first atomic of each width and scope,
    and the first atomic that acts as a load.

    None of them is ordered before this group's accesses.
    """
    firsts: dict[tuple[int, int, int, bool, bool], Made] = {}
    for made in earlier:
        atomic = made.by.kind == ATOMIC
        kind = made.by.kind, made.by.width * atomic, made.by.scope.named, made.by.loads, made.by.agent >= 0 and atomic
        firsts.setdefault(kind, made)
    return [*firsts.values()]
