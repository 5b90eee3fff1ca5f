"""Mbarriers of the reference interpreter: objects in shared memory, their phases, and the lanes that wait for them.

PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier"; the numbers M1 to M22 are those of rules
that were measured on an H100.  The state of a live object is not in memory (M17).  Lanes of one instruction at one
object are counted together (M6), except with `noComplete`, which counts lane by lane.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NoReturn

from wsemu.model.data import NamedTuple, dataclass, field
from wsemu.model.isa import (
    BLOCKS,
    DROP,
    EXPECT,
    INIT_STEP,
    MOST_COUNT,
    NARROW,
    NO_COMPLETE,
    NOINC,
    OFFSET_MASK,
    PEEK,
    RELAXED,
    REMOTE,
    SEGMENT_SHIFT,
    SHARED,
    TOKEN_SPAN,
    TOKEN_STEP,
    WAIT_RELAXED,
    WAITS,
)
from wsemu.model.outcome import EventKind, PhaseState, PhaseWait
from wsemu.reference.arithmetic import to_unsigned
from wsemu.reference.memory.bounds import locate
from wsemu.reference.state import Group, Warp, list_lanes
from wsemu.reference.sync import peers, phases
from wsemu.reference.sync.named_barrier import StopError, TrapError
from wsemu.reference.sync.phases import At, Phase, new_phase
from wsemu.reference.sync.thread_clocks import Mark

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wsemu.reference.memory.bounds import Place
    from wsemu.reference.run import Cta, CtaGroup
    from wsemu.reference.warp import WarpRun

SIZE = 8
"""size of an mbarrier in bytes"""
MOST_LIVE = 4096
"""maximum mbarriers of a CTA"""
OF_INIT, OF_ARRIVALS, OF_BYTES, OF_ALL_BYTES, OF_COMPLETION, OF_BYTES_AT_ONCE, OF_ARRIVALS_AT_ONCE = range(7)
"""`what` of an mbarrier-range finding; the last two depend on the order of operations, see `proof.outstanding`"""
FIELD = (1 << 20) - 1


@dataclass(slots=True)
class Mbarrier:
    """A live mbarrier."""

    address: int
    made: tuple[Mark, ...]
    """the initialization, for each lane of the instruction that named the object"""
    pending: int
    expected: int
    open: Phase
    last: Phase
    """the phase that completed last; for a new object, a phase that precedes all others"""
    before: Phase
    phase: int = 0
    tx: int = 0
    uses: phases.Registrants = field(default_factory=dict)
    empties: dict[int, Mark] = field(default_factory=dict)
    """thread -> its last operation of size 0 that was in no phase"""
    seen: int = -1
    """number of the last phase that a wait observed complete"""
    wanted: int = 0
    """bytes expected so far in the current phase"""
    brought: int = 0
    """bytes transferred so far in the current phase"""
    added: int = 0
    """arrivals that `cp.async.mbarrier.arrive` has added to the current phase"""
    earlier: int = 0
    """number of earlier initializations at its address"""
    published: int = 0
    """time at which the initializing threads executed a `fence.mbarrier_init`; 0: they did not execute one"""

    @property
    def word(self) -> int:
        """Return the 64-bit word of the hardware's state (M1), which inval writes to memory."""
        tx = (-self.tx & ((1 << 21) - 1)) << 21
        return (self.phase & 1) << 63 | (-self.pending & FIELD) << 43 | tx | (-self.expected & FIELD) << 1

    @property
    def token(self) -> int:
        """Return the token of an arrival.  Its lower half belongs to the phase, the location of the object, and its
        initialization."""
        own = (1 + (self.address & OFFSET_MASK) // SIZE) * TOKEN_STEP + self.earlier * INIT_STEP
        return self.word >> 32 << 32 | own + self.phase + 1 & 0xFFFFFFFF

    def asked_phase(self, token: int) -> int | None:
        """Return the phase of a token of this object; None for any other number."""
        age = (self.token - token) % (1 << 32)
        phase = self.phase - age
        return phase if age < TOKEN_SPAN and phase & 1 == token >> 63 else None


class Mbarriers:
    """The mbarriers of the CTAs of a group."""

    def __init__(self, group: CtaGroup) -> None:
        self._group = group
        self.live: dict[int, Mbarrier] = {}
        self.dead: dict[int, Mark] = {}
        self.commits: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
        """(warp by its number in the group, lane) -> arrivals of its commits, in order"""
        """address -> its inval"""
        self.initializations: defaultdict[int, int] = defaultdict(int)
        """address -> number of objects that there were so far"""
        self.initialized: dict[int, tuple[int, int]] = {}
        """address -> its last initialization, with the count"""

    def states(self) -> list[PhaseState]:
        """Return the live objects, sorted by address."""
        return [
            PhaseState(b.address, b.phase, b.pending, b.expected, b.tx, b.made[0].pc)
            for _, b in sorted(self.live.items())
        ]

    def report_left(self) -> None:
        """Report what is left when the CTAs of a group have ended."""
        for _, mbarrier in sorted(self.live.items()):
            phases.is_left(self._group, mbarrier)

    def report_clobbered(
        self, run: WarpRun, kind: int, ranges: dict[int, tuple[Place, int]], size: int, by_agent: int
    ) -> bool:
        """Report lanes that access bytes of a live object: lane -> (location, bytes); return whether there are any."""
        found = {lane: hit for lane, (place, length) in ranges.items() if (hit := self._hit(place, length)) is not None}
        if found:
            first = min(found)
            address, at = found[first]
            run.cta.finding(
                "mbarrier-clobber", run.group.pc, run.warp.number, sum(1 << lane for lane in found),
                address=address, at=at, kind=kind, size=size, asynchronous=by_agent,
            )  # fmt: skip
        return bool(found)

    def _hit(self, place: Place, length: int) -> tuple[int, int] | None:
        """Return the lowest live object that overlaps a range, and its first byte there."""
        _, number, offset = place
        if number != SHARED or not self.live:
            return None
        start = (SHARED << SEGMENT_SHIFT) + offset
        first = start // SIZE * SIZE
        hits = [address for address in self.live if first <= address < start + length]
        return (min(hits), max(min(hits), start)) if hits else None


# -- objects of an instruction ----------------------------------------------------------------------------------------


def addresses(
    run: WarpRun, row: int, immediate: int, lanes: int, *, far: bool = False, told: bool = True
) -> dict[int, int]:
    """Return address -> lanes that name it, sorted by the lowest lane of each address (M19).  With `far`, objects of
    other CTAs are allowed; `told` is as in `peers.reach`."""
    found = _lanes_by_address(run, row, immediate, lanes)
    own = run.launch.grouping.of(run.cta.number)[1]
    for address, there in found.items():
        member = peers.member_rank(run, address & OFFSET_MASK)
        if member != own and not far:  # M20
            at_(run, there).report("remote-mbarrier", there, None, address=address, rank=member, goal=-1)
            raise StopError("fault", run.group.pc, run.warp.number)
        if member != own:
            peers.reach(run, member, there, -1, told=told)
    return found


def _lanes_by_address(run: WarpRun, row: int, immediate: int, lanes: int) -> dict[int, int]:
    """Return address -> lanes that name it (M19)."""
    found: dict[int, int] = {}
    bad = False
    for lane in list_lanes(lanes):
        address = to_unsigned(run.read(row, "b64", lane) + immediate, 64)
        place = locate(run, address, lane, SIZE, writes=True, shared=True)
        if place is None:
            bad = True
        else:
            key = (SHARED << SEGMENT_SHIFT) + place[2]
            found[key] = found.get(key, 0) | 1 << lane
    if bad:
        raise StopError("fault", run.group.pc, run.warp.number)
    return found


def targets(
    run: WarpRun, row: int, immediate: int, lanes: int, *, far: bool = False, told: bool = True
) -> list[tuple[Mbarrier, int]]:
    """Return the live mbarriers that lanes name, each with its lanes; stop the run if one of them is not live."""
    found = addresses(run, row, immediate, lanes, far=far, told=told)
    return [(live(run, address, there), there) for address, there in found.items()]


def is_far(run: WarpRun, mbarrier: Mbarrier) -> bool:
    """Return whether an mbarrier belongs to another CTA."""
    return peers.member_rank(run, mbarrier.address & OFFSET_MASK) != run.launch.grouping.of(run.cta.number)[1]


def check(run: WarpRun, row: int, lanes: int) -> dict[int, int]:
    """Return address -> lanes that name it; stop the run if an address is invalid for an mbarrier of this CTA or of
    another one."""
    return _lanes_by_address(run, row, 0, lanes)


def elsewhere(run: WarpRun, lanes: int, address: int, goal: int) -> NoReturn:
    """Stop the run: these lanes copy to the CTA of rank `goal`, but name an mbarrier of a different CTA."""
    member = peers.member_rank(run, address & OFFSET_MASK)
    at_(run, lanes).report("remote-mbarrier", lanes, None, address=address, rank=member, goal=goal)
    raise StopError("fault", run.group.pc, run.warp.number)


def live(run: WarpRun, address: int, lanes: int) -> Mbarrier:
    """Return the mbarrier at an address; stop the run if there is none."""
    mbarriers = run.cta.mbarriers
    if address not in mbarriers.live:
        dead = mbarriers.dead.get(address)
        at_(run, lanes).report(
            "mbarrier-uninitialized", lanes, dead, address=address, ordered=0, dead=int(dead is not None)
        )
        raise StopError("fault", run.group.pc, run.warp.number)
    return mbarriers.live[address]


def at_(run: WarpRun, lanes: int, pc: int | None = None) -> At:
    """Return the position of some lanes, with their clocks."""
    order, warp = run.cta.order, run.warp.number
    clocks = {lane: order.clocks((run.cta.number, warp), lane) for lane in list_lanes(lanes)}
    return At(run.cta, run.group.pc if pc is None else pc, warp, clocks)


def happen(run: WarpRun, kind: EventKind, mbarrier: Mbarrier, lanes: int, amount: int = 0, phase: int = -2) -> None:
    """Record an operation at an mbarrier in the trace."""
    run.launch.watch.happen(
        kind, run.cta.number, run.warp.number, run.group.pc, mbarrier.address,
        mbarrier.phase if phase == -2 else phase, lanes, amount,
    )  # fmt: skip


def _range(run: WarpRun, mbarrier: Mbarrier, lanes: int, value: int, what: int) -> NoReturn:
    at_(run, lanes).report("mbarrier-range", lanes, None, address=mbarrier.address, value=value, what=what)
    raise StopError("fault", run.group.pc, run.warp.number)


def _operands(run: WarpRun, mbarrier: Mbarrier, lanes: int, row: int, what: int) -> dict[int, int]:
    """Return the counts that lanes pass; stop the run if one is out of range."""
    counts = {lane: run.read(row, "b32", lane) for lane in list_lanes(lanes)}
    for count in counts.values():
        if count > MOST_COUNT:
            _range(run, mbarrier, lanes, count, what)
    return counts


# -- life -------------------------------------------------------------------------------------------------------------


def init(run: WarpRun, fields: list[int], lanes: int) -> None:
    """Initialize the objects in turn.  Lanes with the same address and count store the same value, although PTX leaves
    a second init of a live object undefined.  A lane with another count finds the object live, which is an error."""
    found = addresses(run, fields[3], fields[6], lanes)
    of_lane = {lane: address for address, there in found.items() for lane in list_lanes(there)}
    alike: dict[tuple[int, int], int] = {}
    for lane in list_lanes(lanes):
        key = of_lane[lane], run.read(fields[4], "b32", lane)
        alike[key] = alike.get(key, 0) | 1 << lane
    for (address, count), there in alike.items():
        _init(run, address, there, count)


def _init(run: WarpRun, address: int, lanes: int, count: int) -> None:
    cta = run.cta
    at = at_(run, lanes)
    marks = tuple(at.marks())
    first = lanes & -lanes
    old = cta.mbarriers.live.get(address)
    ended = cta.mbarriers.dead.pop(address, None)
    if not 1 <= count <= MOST_COUNT:
        at.report("mbarrier-range", first, None, address=address, value=count, what=OF_INIT)
        raise StopError("fault", at.pc, at.warp)
    if old is not None:
        at.report("mbarrier-reinit", lanes, old.made[0], address=address)
    elif ended is not None:
        unordered = sum(1 << lane for lane, clocks in at.clocks.items() if not clocks.all.of(ended))
        if unordered:
            at.report("mbarrier-reinit", unordered, ended, address=address)
    if lanes != first:
        at.report("same-value-init", lanes & ~first, marks[0], address=address)
    size = cta.order.size(cta.number)
    first_phase, last, before = (new_phase(number, size) for number in (0, -1, -2))
    earlier = cta.mbarriers.initializations[address]
    made = Mbarrier(address, marks, count, count, first_phase, last, before, earlier=earlier)
    cta.mbarriers.live[address] = made
    cta.mbarriers.initializations[address] += 1
    cta.mbarriers.initialized[address] = marks[0].pc, count
    if len(cta.mbarriers.live) > MOST_LIVE:
        raise TrapError(at.pc, at.warp)
    happen(run, "init", made, lanes, count)


def publish(run: WarpRun, lanes: int) -> None:
    """Execute `fence.mbarrier_init`: the mbarriers that these lanes initialized are initialized for every thread that
    follows in time, even without a release (PTX ISA, "fence.mbarrier_init")."""
    order, actor = run.cta.order, (run.cta.number, run.warp.number)
    for mbarrier in run.cta.mbarriers.live.values():
        mine = all(made.warp == order.number(actor) and lanes >> made.lane & 1 for made in mbarrier.made)
        if mine and not mbarrier.published:
            mbarrier.published = order.time(actor)
    order.tick(actor)


def inval(run: WarpRun, fields: list[int], lanes: int) -> None:
    """Invalidate the object; its word is written to memory (M17)."""
    cta = run.cta
    found = addresses(run, fields[3], fields[6], lanes)
    of_lane = {lane: address for address, there in found.items() for lane in list_lanes(there)}
    for lane in list_lanes(lanes):
        mbarrier = live(run, of_lane[lane], 1 << lane)
        at = at_(run, 1 << lane)
        phases.used(at, mbarrier, ())
        phases.ends(at, mbarrier)
        if mbarrier.tx or any(wait.address == mbarrier.address for wait in waiting(cta)):
            at.report(
                "mbarrier-lifetime",
                1 << lane,
                None,
                address=mbarrier.address,
                phase=mbarrier.phase,
                what=1,
                other_lane=-1,
            )
        happen(run, "inval", mbarrier, 1 << lane)
        offset = mbarrier.address - (SHARED << SEGMENT_SHIFT)
        cta.shared.data[offset : offset + SIZE] = mbarrier.word.to_bytes(SIZE, "little")
        (cta.mbarriers.dead[mbarrier.address],) = at.marks()
        del cta.mbarriers.live[mbarrier.address]


# -- arrivals and bytes -----------------------------------------------------------------------------------------------


def arrive(run: WarpRun, fields: list[int], lanes: int) -> None:
    """Execute "mbarrier.arrive" of the PTX ISA, with `arrive_drop` and `expect_tx`."""
    flags = fields[7]
    releases = False
    told = not flags & (RELAXED | NARROW)
    for mbarrier, there in targets(run, fields[3], fields[6], lanes, far=bool(flags & REMOTE), told=told):
        counts = _operands(run, mbarrier, there, fields[4], OF_ARRIVALS)
        if flags & EXPECT:
            wanted = sum(_operands(run, mbarrier, there, fields[5], OF_BYTES).values())
            _change_bytes(run, mbarrier, there, wanted)
            happen(run, "expect", mbarrier, there, wanted)
        adding = sum(1 << lane for lane, count in counts.items() if count)
        happen(run, "arrive_on", mbarrier, adding or there, sum(counts.values()))
        one_by_one = [1 << lane for lane in list_lanes(there)] if flags & NO_COMPLETE else [there]
        for some in one_by_one:
            _arrive(run, fields, mbarrier, {lane: counts[lane] for lane in list_lanes(some)}, some)
        releases = True
    if releases and not flags & RELAXED:
        run.cta.order.begin_interval((run.cta.number, run.warp.number))
    else:
        run.cta.order.tick((run.cta.number, run.warp.number))


def _arrive(run: WarpRun, fields: list[int], mbarrier: Mbarrier, counts: dict[int, int], lanes: int) -> None:
    """Execute the arrivals of lanes that are counted together."""
    flags, count = fields[7], sum(counts.values())
    for lane in counts:
        run.write(fields[2], "b64", lane, mbarrier.token)
    _check_pending(run, mbarrier, lanes, count)
    phases.used(at_(run, lanes), mbarrier)
    adding = sum(1 << lane for lane, number in counts.items() if number or _expects(run, fields, lane))
    adding = _registering(mbarrier, lanes, adding, mbarrier.pending - count)
    phases.leave_out(mbarrier, at_(run, lanes & ~adding).marks())
    if adding:
        _register_arrivals(run, fields, mbarrier, adding)
    if flags & DROP:
        mbarrier.expected -= count
    mbarrier.pending -= count
    if flags & NO_COMPLETE and adding:
        phases.expect(mbarrier, at_(run, adding).marks(), phases.MORE)
    _complete(run, mbarrier, at_(run, lanes))


def _expects(run: WarpRun, fields: list[int], lane: int) -> bool:
    """Return whether a lane's arrival expects bytes."""
    return bool(fields[7] & EXPECT) and run.read(fields[5], "b32", lane) > 0


def _registering(mbarrier: Mbarrier, lanes: int, adding: int, pending: int) -> int:
    """Return the registrants among some lanes.  A lane that adds no arrival and no byte is not a registrant, unless it
    completes a phase that has `pending` arrivals left."""
    return lanes if not adding and not pending and not mbarrier.tx else adding


def _register_arrivals(run: WarpRun, fields: list[int], mbarrier: Mbarrier, lanes: int) -> None:
    """Register arrivals in the current phase, which release what their lanes have observed."""
    cta, flags, at = run.cta, fields[7], at_(run, lanes)
    phases.recycles(at, mbarrier)
    phases.report_unobserved(at, mbarrier)
    phases.register(at, mbarrier, at.marks(), arrives=True, names=bool(flags & EXPECT))
    expecting = [mark for mark in at.marks() if _expects(run, fields, mark.lane)]
    phases.expect(mbarrier, expecting, phases.BYTES)
    far = is_far(run, mbarrier)
    if far and flags & NARROW and not flags & RELAXED:
        at.report("scope", lanes, None, address=mbarrier.address, what=phases.GIVES_NARROW)
    elif far and not flags & RELAXED:
        mbarrier.open.far = at.marks()[0]
    if flags & RELAXED or (far and flags & NARROW):
        _tell_time(run, at, mbarrier)
        for clocks in at.clocks.values() if flags & RELAXED else ():
            mbarrier.open.given.published_tensor |= clocks.published_tensor
    else:
        cta.order.give((cta.number, run.warp.number), lanes, mbarrier.open.given)


def _tell_time(run: WarpRun, at: At, mbarrier: Mbarrier) -> None:
    """Let an operation that releases nothing precede its phase in time: a thread that observes the phase complete
    follows it."""
    for clocks in at.clocks.values():
        mbarrier.open.given.came.join(clocks.came)
    if is_far(run, mbarrier):
        peers.reach_phase(run.cta.group, peers.member_rank(run, mbarrier.address & OFFSET_MASK), mbarrier, at.marks())


def _check_pending(run: WarpRun, mbarrier: Mbarrier, lanes: int, count: int) -> None:
    """Stop the run if more threads arrive than the phase has pending arrivals (M4)."""
    if count > mbarrier.pending:
        at_(run, lanes).report(
            "over-arrival", lanes, None,
            address=mbarrier.address, phase=mbarrier.phase, pending=mbarrier.pending, count=count,
        )  # fmt: skip
        raise StopError("fault", run.group.pc, run.warp.number)


def _change_bytes(run: WarpRun, mbarrier: Mbarrier, lanes: int, change: int) -> None:
    """Increase the number of pending bytes (M10)."""
    mbarrier.tx += change
    if abs(mbarrier.tx) > MOST_COUNT:
        _range(run, mbarrier, lanes, mbarrier.tx, OF_ALL_BYTES)
    mbarrier.wanted += max(change, 0)
    mbarrier.brought -= min(change, 0)
    most = mbarrier.wanted if change > 0 else mbarrier.brought
    if most > MOST_COUNT:
        at_(run, lanes).report(
            "mbarrier-range", lanes, None, address=mbarrier.address, value=most, what=OF_BYTES_AT_ONCE
        )


def _complete(run: WarpRun, mbarrier: Mbarrier, at: At) -> bool:
    """Complete the phase if nothing is pending, and begin the next one (PTX ISA, "Phase Completion"; M9); return
    whether it completes."""
    if mbarrier.pending or mbarrier.tx:
        return False
    phases.completes(at, mbarrier)
    happen(run, "phase", mbarrier, at.lanes)
    mbarrier.before, mbarrier.last = mbarrier.last, mbarrier.open
    mbarrier.phase += 1
    mbarrier.open = new_phase(mbarrier.phase, run.cta.order.size(run.cta.number))
    mbarrier.pending = mbarrier.expected
    mbarrier.wanted = mbarrier.brought = mbarrier.added = 0
    return True


def expect_tx(run: WarpRun, fields: list[int], lanes: int) -> None:
    """Expect more bytes in the current phase (PTX ISA, "mbarrier.expect_tx")."""
    _count_bytes(run, fields, lanes, expects=True)


def complete_tx(run: WarpRun, fields: list[int], lanes: int) -> None:
    """Count bytes as transferred, without a copy (PTX ISA, "mbarrier.complete_tx")."""
    _count_bytes(run, fields, lanes, expects=False)


def _count_bytes(run: WarpRun, fields: list[int], lanes: int, *, expects: bool) -> None:
    """Change the number of bytes that the current phase waits for; neither operation releases memory."""
    for mbarrier, there in targets(run, fields[3], fields[6], lanes, far=bool(fields[7] & REMOTE), told=False):
        counts = _operands(run, mbarrier, there, fields[4], OF_BYTES)
        count = sum(counts.values())
        _change_bytes(run, mbarrier, there, count if expects else -count)
        phases.used(at_(run, there), mbarrier)
        adding = sum(1 << lane for lane, number in counts.items() if number)
        adding = _registering(mbarrier, there, adding, mbarrier.pending)
        phases.leave_out(mbarrier, at_(run, there & ~adding).marks())
        if adding:
            at = at_(run, adding)
            phases.recycles(at, mbarrier)
            phases.register(at, mbarrier, at.marks(), names=True)
            _tell_time(run, at, mbarrier)
            if expects:
                phases.expect(mbarrier, at.marks(), phases.BYTES)
        happen(run, "expect" if expects else "credit", mbarrier, there, count)
        _complete(run, mbarrier, at_(run, there))
    run.cta.order.tick((run.cta.number, run.warp.number))


def credit(run: WarpRun, mbarrier: Mbarrier, lane: int, agent: int, count: int, *, bulk: bool = True) -> None:
    """Count the bytes of a lane's copy as transferred (PTX ISA, "cp.async.bulk", complete-tx).  `bulk` means through
    the asynchronous proxy."""
    _change_bytes(run, mbarrier, 1 << lane, -count)
    at = at_(run, 1 << lane)
    marks = [mark._replace(agent=agent) for mark in at.marks()]
    phases.used(at, mbarrier, marks)
    if bulk and run.launch.watch.options.init_fences:
        phases.report_unfenced(at, mbarrier)
    phases.recycles(at, mbarrier)
    phases.register(at, mbarrier, marks, names=True)
    mbarrier.open.given.complete(3 << 2 * agent, run.cta.order.clocks((run.cta.number, run.warp.number), lane))
    happen(run, "credit", mbarrier, 1 << lane, count)
    _complete(run, mbarrier, at)


def arrive_async(run: WarpRun, fields: list[int], lanes: int) -> None:
    """Let an agent arrive when a lane's copies are complete (PTX ISA, "cp.async.mbarrier.arrive")."""
    cta, counted = run.cta, bool(fields[7] & NOINC)
    for mbarrier, there in targets(run, fields[3], fields[6], lanes):
        if counted:
            _check_pending(run, mbarrier, there, there.bit_count())
        at = at_(run, there)
        at_once = [] if counted else list(at.marks())
        arrivals = [mark._replace(agent=cta.order.fork(cta.number)) for mark in at.marks()]
        phases.used(at, mbarrier, [*at_once, *arrivals])
        phases.recycles(at, mbarrier)
        phases.report_unobserved(at, mbarrier)
        phases.register(at, mbarrier, [*at_once, *arrivals], arrives=counted)
        phases.expect(mbarrier, at_once, phases.ARRIVAL)
        for mark in arrivals:
            landed = cta.copies[run.warp.number, mark.lane].epochs_to_publish() | 3 << 2 * mark.agent
            mbarrier.open.given.complete(landed, cta.order.clocks((cta.number, run.warp.number), mark.lane))
        if not counted:
            _add_arrivals(run, mbarrier, there)
        happen(run, "arrive_on", mbarrier, there, there.bit_count() if counted else 0)
        mbarrier.pending -= there.bit_count() if counted else 0
        _complete(run, mbarrier, at)
    cta.order.tick((cta.number, run.warp.number))


def arrive_when_over(run: WarpRun, address: int, lane: int, agents: int) -> None:
    """Let an agent arrive when operations of a lane with these epochs are complete (PTX ISA, "tcgen05.commit")."""
    cta, bit, mbarrier = run.cta, 1 << lane, live(run, address, 1 << lane)
    at = at_(run, bit)
    if is_far(run, mbarrier):
        peers.reach(run, peers.member_rank(run, address & OFFSET_MASK), bit, -1, told=False)
    _check_pending(run, mbarrier, bit, 1)
    (mark,) = at.marks()
    arrival = mark._replace(agent=cta.order.fork(cta.number))
    for other in cta.group.ctas:
        other.mbarriers.commits[mark.warp, lane].append(arrival.agent)
    phases.used(at, mbarrier, [arrival])
    phases.recycles(at, mbarrier)
    phases.report_unobserved(at, mbarrier)
    phases.register(at, mbarrier, [arrival], arrives=True)
    clocks = cta.order.clocks((cta.number, run.warp.number), lane)
    mbarrier.open.given.complete(agents | 3 << 2 * arrival.agent, clocks)
    mbarrier.open.given.published_tensor |= agents
    happen(run, "arrive_on", mbarrier, bit, 1)
    mbarrier.pending -= 1
    _complete(run, mbarrier, at)


def _add_arrivals(run: WarpRun, mbarrier: Mbarrier, lanes: int) -> None:
    """Increase the pending arrivals of the phase.  PTX specifies arrivals, but an H100 counts each as a byte (C8)."""
    mbarrier.added += lanes.bit_count()
    mbarrier.wanted += lanes.bit_count()
    if mbarrier.expected + mbarrier.added > MOST_COUNT:
        value = mbarrier.expected + mbarrier.added
        at_(run, lanes).report(
            "mbarrier-range", lanes, None, address=mbarrier.address, value=value, what=OF_ARRIVALS_AT_ONCE
        )


# -- waits ------------------------------------------------------------------------------------------------------------


class Answer(NamedTuple):
    """The result of a lane's wait."""

    address: int
    phase: int
    """number of the phase that the lane waits for"""
    yes: bool
    stale: bool = False
    """true if the lane waits for a phase that is too old"""
    foreign: bool = False
    """true if the state is not the result of an arrival at this mbarrier"""


def _answer(run: WarpRun, name: str, fields: list[int], lane: int) -> Answer:
    """Return the result of a wait in the current state (M13, M14)."""
    address = to_unsigned(run.read(fields[3], "b64", lane) + fields[6], 64)
    mbarrier = run.cta.mbarriers.live.get(address)
    if mbarrier is None:
        return Answer(address, -1, yes=False)
    phase, foreign = mbarrier.phase, False
    if name == "mbarrier.wait.parity":
        parity = run.read(fields[4], "b32", lane) & 1
    else:
        token = run.read(fields[4], "b64", lane)
        asked = mbarrier.asked_phase(token)
        if asked is not None:
            return Answer(address, asked, yes=asked == phase - 1, stale=asked < phase - 1)
        parity, foreign = token >> 63, True
    yes = parity != phase & 1
    return Answer(address, phase - yes, yes=yes, foreign=foreign)


def wait(run: WarpRun, name: str, fields: list[int], lanes: int) -> bool:
    """Execute `mbarrier.test_wait` or `mbarrier.try_wait`; return whether the lanes have to wait for a phase."""
    found = targets(run, fields[3], fields[6], lanes)
    answers = {lane: _answer(run, name, fields, lane) for lane in list_lanes(lanes)}
    for mbarrier, there in found:
        at = at_(run, there)
        phases.used(at, mbarrier)
        stale = sum(1 << lane for lane in list_lanes(there) if answers[lane].stale)
        foreign = sum(1 << lane for lane in list_lanes(there) if answers[lane].foreign)
        for wrong, rule in ((stale, phases.STALE), (foreign, phases.FOREIGN)):
            if wrong:
                detail = {"address": mbarrier.address, "phase": mbarrier.phase, "rule": rule, "other_lane": -1}
                at.report("phase-alias", wrong, None, **detail)
        if fields[7] & PEEK:
            _check_observed(run, mbarrier, there, answers)
    if fields[7] & PEEK:
        _write(run, fields, lanes, 0)
        return False
    if fields[7] & BLOCKS and not any(answer.yes for answer in answers.values()):
        return True
    _accept(run, fields, answers, run.group.pc)
    return False


def _check_observed(run: WarpRun, mbarrier: Mbarrier, lanes: int, answers: dict[int, Answer]) -> None:
    """Check rule R2 for lanes that wait for a phase or test it, each for its own phase."""
    asked: dict[int, int] = {}
    for lane in list_lanes(lanes):
        asked[answers[lane].phase] = asked.get(answers[lane].phase, 0) | 1 << lane
    for phase, there in asked.items():
        phases.early(at_(run, there), mbarrier, phase)


def may_go(run: WarpRun, group: Group) -> bool:
    """Return whether the phase that some waiting lane waits for is complete now."""
    fields, name = run.launch.code[group.pc - 1], run.launch.operation_name(group.pc - 1)
    return any(_answer(run, name, fields, lane).yes for lane in list_lanes(group.lanes))


def go(run: WarpRun, group: Group) -> None:
    """Let waiting lanes continue."""
    pc = group.pc - 1
    fields, name = run.launch.code[pc], run.launch.operation_name(pc)
    _accept(run, fields, {lane: _answer(run, name, fields, lane) for lane in list_lanes(group.lanes)}, pc)


def _write(run: WarpRun, fields: list[int], lanes: int, yes: int) -> None:
    for lane in list_lanes(lanes):
        run.write(fields[2], "p", lane, yes >> lane & 1)


def _accept(run: WarpRun, fields: list[int], answers: dict[int, Answer], pc: int) -> None:
    """Write the results of waits; lanes whose wait succeeds acquire what the phase released (PTX ISA,
    "mbarrier.test_wait")."""
    cta, warp = run.cta, run.warp.number
    actor = cta.number, warp
    relaxed = fields[7] & WAIT_RELAXED
    told: dict[int, int] = {}
    for lane, answer in answers.items():
        if answer.yes:
            told[answer.address] = told.get(answer.address, 0) | 1 << lane
    for address, there in told.items():
        mbarrier = cta.mbarriers.live[address]
        phases.early(at_(run, there, pc), mbarrier, mbarrier.last.number)
        if mbarrier.last.far and fields[7] & NARROW and not relaxed:
            at_(run, there, pc).report("scope", there, mbarrier.last.far, address=address, what=phases.TAKES_NARROW)
        if relaxed:
            cta.order.take_time(actor, there, mbarrier.last.given)
        else:
            cta.order.take(actor, there, mbarrier.last.given)
        cta.launch.watch.happen("await", *actor, pc, address, mbarrier.last.number, there)
    if told and not relaxed:
        cta.order.begin_interval(actor)
    else:
        cta.order.tick(actor)
    for address, there in told.items():
        marks = at_(run, there, pc).marks()
        phases.sees(cta.mbarriers.live[address], marks)
        for mark in marks:
            cta.mbarriers.live[address].uses[phases.mark_key(mark)] = mark
        if cta.launch.watch.options.converged:
            cta.order.converge(actor, there)
            cta.order.tick(actor)
    _write(run, fields, sum(1 << lane for lane in answers), sum(1 << lane for lane, a in answers.items() if a.yes))


def pending_count(run: WarpRun, fields: list[int], lanes: int) -> None:
    """Return bits 62 to 43 of a token (M12)."""
    for lane in list_lanes(lanes):
        token = run.read(fields[3], "b64", lane)
        run.write(fields[2], "b32", lane, (1 << 20) - (token >> 43 & FIELD))


def phase(run: WarpRun, fields: list[int], lanes: int) -> None:
    """Write a number that two waits by parity share if they wait for one phase of one object.

    Without an object, the number is 0.
    """
    for lane in list_lanes(lanes):
        answer = _answer(run, "mbarrier.wait.parity", fields, lane)
        mbarriers, number = run.cta.mbarriers, 0
        if answer.address in mbarriers.live:
            made = mbarriers.initializations[answer.address] & 0xFFFFFF
            number = (answer.address >> 3 & 0xFFFF) << 48 | made << 24 | answer.phase + 1 & 0xFFFFFF
        run.write(fields[2], "b64", lane, number)


# -- who waits --------------------------------------------------------------------------------------------------------


def waiting(cta: Cta) -> list[PhaseWait]:
    """Return the lanes that wait for phases, by warp and lane."""
    return [wait for warp in cta.warps for wait in _waiting(cta, warp)]


def _waiting(cta: Cta, warp: Warp) -> Iterable[PhaseWait]:
    found: dict[tuple[int, int, int], int] = {}
    for group in sorted(warp.parked, key=lambda group: group.lanes & -group.lanes):
        name = cta.launch.operation_name(group.pc - 1)
        if name in WAITS:
            for lane in list_lanes(group.lanes):
                answer = _answer(cta.runner(warp), name, cta.launch.code[group.pc - 1], lane)
                key = group.pc - 1, answer.address, answer.phase
                found[key] = found.get(key, 0) | 1 << lane
    return [PhaseWait(warp.number, lanes, *key) for key, lanes in found.items()]
