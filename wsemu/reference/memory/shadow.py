"""Checks of the reference interpreter: races, recycled barriers, and the trace of a run.

For each byte of shared and global memory: the last plain write, and the reads and atomics since.  An access is checked
against each conflicting access (one of the two writes, and not both are atomic) by `HappensBefore`, and then recorded.
A new read replaces earlier reads that happen before it, and a new atomic replaces such atomics of the same width: a
later access that follows the new one follows both.  A read never replaces an atomic, nor an atomic a read, because they
conflict with different accesses.

All lanes of one access are checked against the same state; two lanes of one store conflict if their values differ.
Conflicts between lanes of one warp are found in `lane_order.py`.  Reference: Flanagan, Freund, "FastTrack: Efficient
and Precise Dynamic Race Detection" (PLDI 2009), section 3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from wsemu.model.data import NamedTuple, dataclass
from wsemu.model.isa import (
    ATOMIC,
    LOCAL,
    NO_STORE,
    OF_CLUSTER,
    OF_CTA,
    READ,
    SCOPES,
    SEGMENT_SHIFT,
    SHARED,
    UNWATCHED,
    WRITE,
)
from wsemu.model.outcome import ALL_LANES, Event, EventKind, RawFinding, Stored, Trace
from wsemu.model.read_only import loads_read_only
from wsemu.proof.happens_before import HappensBefore, uncounted_barriers
from wsemu.reference.arithmetic import to_signed
from wsemu.reference.memory.lane_order import Conflict as LaneConflict
from wsemu.reference.memory.lane_order import LaneOrder
from wsemu.reference.memory.read_only import ReadOnly
from wsemu.reference.state import list_lanes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wsemu.model.grid import Grouping
    from wsemu.model.outcome import TraceRequest
    from wsemu.model.program import Program
    from wsemu.reference.memory.bounds import Place
    from wsemu.reference.sync.named_barrier import Barrier, Participant
    from wsemu.reference.warp import WarpRun

MOST_EVENTS = 1_000_000
"""maximum events of a trace"""


class Scope(NamedTuple):
    """The scope of an atomic (PTX ISA, "Scope"): the threads of its CTA, of its cluster, or all threads."""

    named: int
    """OF_CTA, OF_CLUSTER or 0"""
    cta: int
    cluster: int

    def includes(self, other: Scope) -> bool:
        if self.named == OF_CTA:
            return self.cta == other.cta
        return self.named != OF_CLUSTER or self.cluster == other.cluster

    def meets(self, other: Scope) -> bool:
        """Return whether each scope includes the thread of the other one (PTX ISA, "Morally strong operations")."""
        return self.includes(other) and other.includes(self)

    def covers(self, other: Scope) -> bool:
        """Return whether any scope that does not meet the other one does not meet this one either."""
        return self.named == other.named and (not self.named or self.cta == other.cta)


EVERYONE = Scope(0, -1, -1)
"""scope of an access that is not an atomic of lanes"""


class Access(NamedTuple):
    """An access of a warp to a byte, `size` bytes a lane."""

    kind: int
    cta: int
    warp: int
    interval: int
    pc: int
    size: int
    scope: Scope = EVERYONE
    loads: bool = False
    """true for an atomic that acts as a load"""

    @property
    def actor(self) -> tuple[int, int]:
        return self.cta, self.warp

    @property
    def writes(self) -> bool:
        return self.kind == WRITE or (self.kind == ATOMIC and not self.loads)

    def conflicts(self, other: Access) -> bool:
        """Return whether an order between the two matters: one writes, and they are not atomic with respect to each
        other."""
        if not (self.writes or other.writes):
            return False
        atomic = self.kind == other.kind == ATOMIC
        return not atomic or self.size != other.size or not self.scope.meets(other.scope)

    def covers(self, earlier: Access) -> bool:
        """Return whether every access that conflicts with an earlier access conflicts with this one as well; neither is
        a plain write."""
        if self.kind != earlier.kind or self.kind == READ:
            return self.kind == earlier.kind
        return self.size == earlier.size and self.scope.covers(earlier.scope) and self.loads <= earlier.loads


class Byte(NamedTuple):
    """The history of a byte: its last plain write, and the reads and atomics since."""

    write: Access | None = None
    since: tuple[Access, ...] = ()


UNTOUCHED = Byte()


class Judged(NamedTuple):
    """The result of checking an access to a byte: the earlier accesses that it must follow but does not, and the new
    history of the byte."""

    before: Byte
    disordered: list[Access]
    after: Byte


class Conflict(NamedTuple):
    """One lane of an access, and an earlier access that conflicts with it; the first one in order is reported."""

    lane: int
    address: int
    earlier_cta: int
    earlier_warp: int
    earlier: Access


@dataclass(frozen=True, slots=True)
class Options:
    """The options of `reference.run` that select findings."""

    races: bool = True
    lockstep: bool = False
    recycling: bool = True
    initialised: bool = True
    read_only: bool = True
    uninitialized: frozenset[int] = frozenset()
    trace: TraceRequest | None = None
    strict: bool = False
    converged: bool = False
    values: bool = False
    init_fences: bool = False
    other_lanes: bool = False


class Order(Protocol):
    """The happens-before order: `HappensBefore`, or `ThreadOrder` if there are asynchronous operations."""

    def apply(self, event: Event) -> None: ...
    def interval(self, actor: tuple[int, int]) -> int: ...
    def set_lanes(self, actor: tuple[int, int], lanes: int) -> None: ...
    def has_lane_clocks(self, cta: int, lanes: int = ALL_LANES) -> bool: ...
    def before(self, epoch: tuple[int, int, int], actor: tuple[int, int]) -> bool: ...
    def lane_happens_before(
        self, actor: tuple[int, int], interval: int, lane: int, later: tuple[int, int], later_lane: int
    ) -> bool: ...


class Watch:
    """The order of a launch's operations so far, its trace, and the accesses to its memory."""

    def __init__(
        self,
        program: Program,
        options: Options,
        report: Callable[[RawFinding], None],
        groups: Grouping,
        order: Order | None = None,
    ) -> None:
        self.options = options
        self.grouping = groups
        self.order: Order = order or HappensBefore(False, uncounted_barriers(program), lockstep=options.lockstep)
        self._addresses: list[int] = []
        self.trace = Trace(addresses=self._addresses) if options.trace else None
        self.report = report
        self._arrays: dict[int, Byte] = {}
        self._shared: dict[int, Byte] = {}
        self._lanes = LaneOrder(self.order)
        self.read_only = ReadOnly(options.read_only and loads_read_only(program))

    def start_group(self) -> None:
        """Start a group of CTAs, which have their own shared memories."""
        self._shared = {}
        self._lanes.start_group()

    def end_group(self, group: int) -> None:
        """End a group of CTAs."""

    def together(self, cta: int, other: int) -> bool:
        """Return whether two CTAs are in one group."""
        return cta == other or self.grouping.of(cta)[0] == self.grouping.of(other)[0]

    # -- operations ---------------------------------------------------------------------------------------------------

    def happen(
        self,
        kind: EventKind,
        cta: int,
        warp: int,
        pc: int,
        place: int = -1,
        generation: int = -1,
        lanes: int = ALL_LANES,
        amount: int = 0,
    ) -> None:
        """Record an operation; it ends the current interval of its warp, or is part of it."""
        interval = 0 if kind == "complete" else self.order.interval((cta, warp))
        event = Event(kind, cta, warp, interval, pc, place, generation, lanes, amount=amount)
        self.order.apply(event)
        self._log(event)

    def _log(self, event: Event) -> None:
        if self.trace is None:
            return
        if len(self.trace.events) < MOST_EVENTS:
            self.trace.events.append(event)
        else:
            self.trace.complete = False

    def executes(self, run: WarpRun, kind: int, addresses: dict[int, int]) -> None:
        """Record that a warp performs an access: lane -> bits of the address, the lowest lane first."""
        pc, where = run.group.pc, (run.cta.number, run.warp.number)
        if kind == ATOMIC:
            self.happen("atomic", *where, pc, to_signed(next(iter(addresses.values())), 64))
        if self.trace is not None and self.options.trace is not None and pc in self.options.trace.accesses:
            told = [to_signed(address, 64) for address in addresses.values()]
            event = Event("access", *where, self.order.interval(where), pc, told[0])
            lanes = sum(1 << lane for lane in addresses)
            self._log(event._replace(lanes=lanes, addresses=len(self._addresses)))
            if self.trace.complete:
                self._addresses += told

    def joins(self, cta: int, now: Participant, barrier: Barrier) -> None:
        """Check an operation of a warp that is about to join the current generation of a barrier.  Each operation of
        the previous generation must happen before it; otherwise the new one can be counted in the previous
        generation."""
        if not self.options.recycling:
            return
        last = {p.warp: p for p in barrier.before if not p.followed and not self._happens_before(cta, p, now)}
        for u, earlier in sorted(last.items()):
            detail = {
                "barrier": barrier.number, "generation": barrier.generation - 1,
                "interval": now.interval, "other_interval": earlier.interval,
            }  # fmt: skip
            self.report(RawFinding("barrier-recycling", now.pc, cta, now.warp, 0, earlier.pc, u, detail))

    def _happens_before(self, cta: int, earlier: Participant, now: Participant) -> bool:
        """Return whether one barrier operation happens before another: some lane of the later one has observed some
        lane of the earlier one."""
        actors = (cta, earlier.warp), (cta, now.warp)
        if not self.order.has_lane_clocks(cta, now.lanes):
            return self.order.before((*actors[0], earlier.interval), actors[1])
        return any(
            self.order.lane_happens_before(actors[0], earlier.interval, one, actors[1], other)
            for one in list_lanes(earlier.lanes)
            for other in list_lanes(now.lanes)
        )

    # -- accesses -----------------------------------------------------------------------------------------------------

    def touch(self, run: WarpRun, kind: int, places: dict[int, Place], size: int) -> None:
        """Check and record one access of a warp: lane -> location, `size` bytes per lane."""
        if not self.options.races:
            return
        lanes_at: dict[int, int] = {}
        for lane, (segment, number, offset) in places.items():
            if number != LOCAL and segment.writable and segment.writable != UNWATCHED:
                address = (number << SEGMENT_SHIFT) + offset
                lanes_at[address] = lanes_at.get(address, 0) | 1 << lane
        if not lanes_at:
            return
        actor = run.cta.number, run.warp.number
        loads = self.stands_for_load(run, kind)
        now = Access(kind, *actor, self.order.interval(actor), run.group.pc, size, access_scope(run, kind), loads)
        found: list[Conflict] = []
        among: list[LaneConflict] = []
        judged: dict[int, Judged] = {}
        for address, lanes in lanes_at.items():  # accesses have one size: two of them share all bytes or none
            found += self._touch_bytes(now, lanes, address, judged)
            if not self.options.lockstep:
                among += self._lanes.touch(now, lanes, address)
        for pc in dict.fromkeys(conflict.earlier.pc for conflict in found):
            self._report_conflicts(now, [conflict for conflict in found if conflict.earlier.pc == pc])
        for pc, own in dict.fromkeys((conflict.earlier.pc, conflict.earlier.actor == actor) for conflict in among):
            self._tell_lanes(now, [c for c in among if c.earlier.pc == pc and (c.earlier.actor == actor) == own])

    def stands_for_load(self, run: WarpRun, kind: int) -> bool:
        """Return whether the current access of a warp is an atomic that does not change memory."""
        return kind == ATOMIC and bool(run.launch.code[run.group.pc][7] & NO_STORE)

    def _touch_bytes(self, now: Access, lanes: int, address: int, judged: dict[int, Judged]) -> list[Conflict]:
        """Check and record an access of some lanes to the same bytes; bytes with the same history are `judged` once."""
        memory = self._shared if address >> SEGMENT_SHIFT == SHARED else self._arrays
        found: list[Conflict] = []
        old = None
        for byte in range(address, address + now.size):
            state = memory.get(byte, UNTOUCHED)
            if state is not old:
                old = state
                if id(state) not in judged:
                    judged[id(state)] = Judged(
                        state, self._unordered_accesses(now, state), self._add_access(now, state)
                    )
                made = judged[id(state)]
                found += [Conflict(lane, byte, e.cta, e.warp, e) for e in made.disordered for lane in list_lanes(lanes)]
            memory[byte] = made.after
        return found

    def _unordered_accesses(self, now: Access, state: Byte) -> list[Access]:
        """Return the earlier accesses to a byte that an access must follow but does not.  If lanes have clocks of their
        own, `LaneOrder` decides instead."""
        return [
            e
            for e in conflicting(now, state)
            if not self._is_ordered_earlier(e, now) and not (e.cta == now.cta and self.order.has_lane_clocks(now.cta))
        ]

    def _is_ordered_earlier(self, earlier: Access, now: Access) -> bool:
        return self.order.before((earlier.cta, earlier.warp, earlier.interval), now.actor)

    def _add_access(self, now: Access, state: Byte) -> Byte:
        """Return the history of a byte after an access."""
        if now.kind == WRITE:
            return Byte(now)
        if not state.since:
            return Byte(state.write, (now,))
        kept = [e for e in state.since if not self._is_ordered_earlier(e, now) or not now.covers(e)]
        here = [self.together(e.cta, now.cta) for e in kept]
        earlier = [e for e, own in zip(kept, here, strict=True) if not own]
        return Byte(
            state.write, (*_first_accesses(earlier), *(e for e, own in zip(kept, here, strict=True) if own), now)
        )

    def _report_conflicts(self, now: Access, conflicts: list[Conflict]) -> None:
        """Report the conflicts of one access with another instruction of other warps."""
        first = min(conflicts)
        self._report("race", now, first.earlier, first.address, _mask(conflicts), {})

    def _tell_lanes(self, now: Access, conflicts: list[LaneConflict]) -> None:
        """Report the conflicts of one access, lane by lane, with another instruction of this warp or of others."""
        first = min(conflicts)
        lanes = {
            "other_lane": (first.lanes & -first.lanes).bit_length() - 1,
            "other_last": first.lanes.bit_length() - 1,
        }
        code = "intra-warp-race" if first.earlier.actor == now.actor else "race"
        self._report(code, now, first.earlier, first.address, _mask(conflicts), lanes)

    def _report(
        self, code: str, now: Access, earlier: Access, address: int, lanes: int, others: dict[str, int]
    ) -> None:
        detail = {
            "address": address, "kind": now.kind, "other_kind": earlier.kind, "size": now.size,
            "interval": now.interval, "other_interval": earlier.interval, "other_cta": earlier.cta, **others,
        }  # fmt: skip
        self.report(RawFinding(code, now.pc, now.cta, now.warp, lanes, earlier.pc, earlier.warp, detail))

    def _log_stores(self, run: WarpRun, places: dict[int, Place], values: dict[int, bytes]) -> None:
        if self.trace is None or self.options.trace is None or not self.options.trace.stores:
            return
        where = run.group.pc, run.cta.number, run.warp.number
        self.trace.stores += [
            Stored(*where, lane, (number << SEGMENT_SHIFT) + offset, len(values[lane]))
            for lane, (_, number, offset) in places.items()
        ]

    def stores(self, run: WarpRun, places: dict[int, Place], values: dict[int, bytes]) -> None:
        """Report two lanes of one store that write different values to the same bytes; the bytes of the highest lane
        remain."""
        self._log_stores(run, places, values)
        if not self.options.races:
            return
        shared = {lane: p for lane, p in places.items() if p[1] != LOCAL}
        stays = {(number, offset): lane for lane, (_, number, offset) in shared.items()}
        differ = {
            lane: stays[number, offset]
            for lane, (_, number, offset) in shared.items()
            if values[lane] != values[stays[number, offset]]
        }
        same = [p for lane, p in shared.items() if lane not in differ]
        if self.options.strict and len({(number, offset) for _, number, offset in same}) < len(same):
            self.report(RawFinding("same-value", run.group.pc, run.cta.number, run.warp.number))
        if not differ:
            return
        lane = min(differ)
        _, number, offset = places[lane]
        now = self.order.interval((run.cta.number, run.warp.number))
        detail = {
            "address": (number << SEGMENT_SHIFT) + offset, "kind": WRITE, "other_kind": WRITE,
            "size": len(values[lane]), "interval": now, "other_interval": now, "other_cta": run.cta.number,
            "other_lane": differ[lane], "other_last": differ[lane],
        }  # fmt: skip
        lanes = sum(1 << lane for lane in differ)
        where = run.group.pc, run.cta.number, run.warp.number
        self.report(RawFinding("intra-warp-race", *where, lanes, -1, run.warp.number, detail))


def conflicting(now: Access, state: Byte) -> list[Access]:
    """Return the earlier accesses to a byte that an access must follow."""
    since = [e for e in state.since if e.conflicts(now)]
    return [state.write, *since] if state.write else since


def _mask(conflicts: Sequence[Conflict | LaneConflict]) -> int:
    """Return the lanes of some conflicts."""
    lanes = 0
    for conflict in conflicts:
        lanes |= 1 << conflict.lane
    return lanes


def access_scope(run: WarpRun, kind: int) -> Scope:
    """Return the scope of the current access of a warp."""
    if kind != ATOMIC:
        return EVERYONE
    cta = run.cta.number
    cluster = run.launch.grouping.of(cta)[0] if run.launch.clusters else cta
    return Scope(run.launch.code[run.group.pc][7] & SCOPES, cta, cluster)


def _first_accesses(earlier: list[Access]) -> list[Access]:
    """Return, from the accesses of earlier groups, the first read, the first atomic of each width and scope, and the
    first atomic that acts as a load.  None of them is ordered before this group's accesses."""
    kinds = [(e.kind, (e.size, e.scope.named, e.loads) if e.kind == ATOMIC else None) for e in earlier]
    firsts = dict(zip(reversed(kinds), reversed(earlier), strict=True))
    return [e for e in earlier if e in firsts.values()]
