"""`cp.async.bulk` and `cp.reduce.async.bulk`: copies that a lane issues, which read and write through the asynchronous
proxy.

PTX ISA, "cp.async.bulk", "cp.reduce.async.bulk", "st.bulk"; measured rules T1 to T10.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.model.isa import ATOMIC, BULK_REDUCTIONS, OFFSET_MASK, ONLY_READ, SEGMENT_SHIFT, SHARED, WRITE
from wsemu.reference.agents.copy import Copies, Issued, Side
from wsemu.reference.agents.reductions import SIZES, combine_elements
from wsemu.reference.arithmetic import to_unsigned
from wsemu.reference.memory.bounds import locate, put
from wsemu.reference.memory.thread_shadow import ThreadWatch
from wsemu.reference.state import list_lanes
from wsemu.reference.sync import mbarrier, peers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wsemu.reference.memory.bounds import Place
    from wsemu.reference.warp import WarpRun

UNIT = 16
"""unit of a bulk copy in bytes: size and addresses must be multiples of it"""
ZEROS = 8
"""unit of `st.bulk` in bytes: size and address must be multiples of it"""
NOT_OF_UNIT, NOT_OF_ZEROS = 0, 2
"""`what` of a copy-size finding"""


def load(run: WarpRun, name: str, fields: list[int], lanes: int) -> None:
    """Copy `c` bytes from global `b`, or from shared `b` of the issuing CTA, to shared `a`.  The mbarrier at `imm` in
    the destination's CTA is credited with the bytes (T11)."""
    sizes = _sizes(run, fields, lanes)
    moving = sum(1 << lane for lane, size in sizes.items() if size)
    check_mbarriers(run, name, fields[3], fields[6], moving, own=name == "bulk.load" and bool(fields[7] & 1))
    for lane in list_lanes(moving):
        for to in ranks(run, name, fields[2], lane, fields[3]):
            find_live(run, name, fields[6], lane, to)
    what, type_ = BULK_REDUCTIONS[fields[7]] if name == "bulk.send_reduce" else ("", "")
    combine = (lambda old, new: combine_elements(what, type_, old, new)) if what else None
    copies = Copies(run, bulk=True, kind=ATOMIC, width=SIZES[type_]) if what else Copies(run, bulk=True)
    for lane in list_lanes(moving):
        for to in ranks(run, name, fields[2], lane, fields[3]):
            _load(run, name, copies, fields, lane, sizes[lane], to, combine)
    copies.tell()
    run.cta.order.tick((run.cta.number, run.warp.number))


def check_mbarriers(
    run: WarpRun, name: str, to: int, row: int, lanes: int, *, own: bool = False, pair: bool = False
) -> None:
    """Stop the run if lanes do not name an mbarrier that their copies may credit.  The mbarrier must be in the CTA of
    the destination (row `to`), or in the issuing CTA if the copy requires that (`own`).  A multicast uses only the
    offset of the mbarrier (PTX ISA, "cp.async.bulk", "cp.async.bulk.tensor", "st.async")."""
    if lanes and not run.launch.clusters:
        mbarrier.targets(run, row, 0, lanes)
    elif lanes:
        found = mbarrier.check(run, row, lanes)
        if name != "bulk.multicast":
            _check_same_cta(run, found, to, lanes, own=own, pair=pair)


def _check_same_cta(run: WarpRun, named: dict[int, int], to: int, lanes: int, *, own: bool, pair: bool) -> None:
    """Stop the run if the mbarrier that a lane names and the destination of its copy are in different CTAs.  `named`
    maps the address of an mbarrier to lanes."""
    here = run.launch.grouping.of(run.cta.number)[1]
    bars = {lane: address for address, there in named.items() for lane in list_lanes(there)}
    goals = {}
    for lane in list_lanes(lanes):
        place = run.read(to, "b64", lane)
        if own or place >> SEGMENT_SHIFT == SHARED:
            goals[lane] = here if own else peers.member_rank(run, place & OFFSET_MASK)
    for lane, goal in goals.items():
        rank = peers.member_rank(run, bars[lane] & OFFSET_MASK)
        if rank != goal and not (pair and rank ^ 1 == goal):
            alike = sum(1 << other for other in goals if (bars[other], goals[other]) == (bars[lane], goal))
            mbarrier.elsewhere(run, alike, bars[lane], goal)


def ranks(run: WarpRun, name: str, masks: int, lane: int, row: int) -> list[int]:
    """Return the destination addresses of a lane's copy: for a multicast, one in each CTA that the mask names."""
    to = run.read(row, "b64", lane)
    if not name.endswith(".multicast"):
        return [to]
    mask = run.read(masks, "b32", lane)
    return [peers.remote_address(run, to, rank) for rank in range(16) if mask >> rank & 1]


def find_live(run: WarpRun, name: str, row: int, lane: int, to: int, *, pair: bool = False) -> mbarrier.Mbarrier:
    """Return the mbarrier that a lane names.  For a multicast, it is at the named offset in the destination's CTA
    (T11).  For a CTA pair (`pair`), it is in the pair of the destination, in the CTA whose rank has the same parity as
    that of the named mbarrier's CTA."""
    address = run.read(row, "b64", lane)
    if name.endswith(".multicast") and run.launch.clusters:
        rank = peers.member_rank(run, to & OFFSET_MASK)
        if pair:
            rank = rank & ~1 | peers.member_rank(run, address & OFFSET_MASK) & 1
        address = peers.remote_address(run, address, rank)
    return mbarrier.live(run, address, 1 << lane)


def _load(
    run: WarpRun,
    name: str,
    copies: Copies,
    fields: list[int],
    lane: int,
    size: int,
    to: int,
    combine: Callable[[bytes, bytes], bytes] | None,
) -> None:
    """Perform one lane's copy to one CTA, or its reduction into the old value there."""
    inside = name.startswith("bulk.send")
    source = _locate(run, fields[4], lane, size, writes=False, shared=inside)
    own = False if inside else True if name == "bulk.load" and fields[7] & 1 else None
    target = locate(run, to, lane, size, writes=True, alignment=UNIT, shared=True, own=own)
    if source and target:
        side = Side(target, size, range(size))
        agent = copies.make(lane, Side(source, size, range(size)), side, combine)
        left = Side(source, size, ()).address if inside else side.address
        run.cta.issued.append(Issued(run.group.pc, run.warp.number, lane, agent, left, size, reads=inside))
    else:  # so that no thread waits for it forever
        agent = run.cta.order.fork(run.cta.number)
    if target:
        peers.reach(run, peers.member_rank(run, target[2]), 1 << lane, agent)
    mbarrier.credit(run, find_live(run, name, fields[6], lane, to), lane, agent, size)


def store_one(run: WarpRun, name: str, fields: list[int], lanes: int) -> None:
    """Perform `st.async` or `red.async`: store or combine a value of each lane at shared `a` of a CTA in the cluster,
    and credit the mbarrier at `b` there with its bytes.  The access is in the generic proxy.  PTX
    ISA: `st.async` is a weak operation and requires a cluster of several CTAs; `red.async` requires a destination in
    another CTA."""
    reduces, size = name.startswith("async.reduce"), 4 if name.endswith("b32") else 8
    what, type_ = BULK_REDUCTIONS[fields[7]] if reduces else ("", "")
    check_mbarriers(run, name, fields[3], fields[4], lanes)
    for lane in list_lanes(lanes):
        find_live(run, name, fields[4], lane, run.read(fields[3], "b64", lane))
    own = False if reduces or not run.launch.clusters else None
    copies = Copies(run, bulk=False, kind=ATOMIC if reduces else WRITE, width=size if reduces else 0)
    for lane in list_lanes(lanes):
        to = run.read(fields[3], "b64", lane)
        target = locate(run, to, lane, size, writes=True, shared=True, own=own)
        value = run.read(fields[2], "b", lane).to_bytes(size, "little")
        if target:
            side = Side(target, size, range(size))
            agent = copies.make(lane, None, side, _combination(what, type_, value))
            run.cta.issued.append(Issued(run.group.pc, run.warp.number, lane, agent, side.address, size, reads=False))
            peers.reach(run, peers.member_rank(run, target[2]), 1 << lane, agent)
        else:
            agent = run.cta.order.fork(run.cta.number)
        mbarrier.credit(run, find_live(run, name, fields[4], lane, to), lane, agent, size, bulk=False)
    copies.tell()
    run.cta.order.tick((run.cta.number, run.warp.number))


def _combination(what: str, type_: str, value: bytes) -> Callable[[bytes, bytes], bytes]:
    """Return the function from the old value at the destination to the new one."""
    return lambda old, _: combine_elements(what, type_, old, value) if what else value


def store(run: WarpRun, name: str, fields: list[int], lanes: int) -> None:
    """Copy `c` bytes from shared `b` to global `a`; the mask in `imm` selects the bytes of each 16 that are written."""
    copies = Copies(run, bulk=True)
    for lane, size in _sizes(run, fields, lanes).items():
        mask = run.read(fields[6], "b32", lane)
        chosen: Sequence[int] = range(size)
        if mask & 0xFFFF != 0xFFFF:
            chosen = [q for q in range(size) if mask >> q % UNIT & 1]
        _copy_out(run, copies, fields, lane, size, chosen)
    copies.tell()
    run.cta.order.tick((run.cta.number, run.warp.number))


def reduce(run: WarpRun, name: str, fields: list[int], lanes: int) -> None:
    """Combine shared `b` with global `a`, element by element (T10)."""
    what, type_ = BULK_REDUCTIONS[fields[7]]
    copies = Copies(run, bulk=True, kind=ATOMIC, width=SIZES[type_])
    for lane, size in _sizes(run, fields, lanes).items():
        _copy_out(run, copies, fields, lane, size, range(size), what, type_)
    copies.tell()
    run.cta.order.tick((run.cta.number, run.warp.number))


def _copy_out(
    run: WarpRun,
    copies: Copies,
    fields: list[int],
    lane: int,
    size: int,
    chosen: Sequence[int],
    what: str = "",
    type_: str = "",
) -> None:
    """Copy one lane's bytes to global memory."""
    if not size:
        return
    source = _locate(run, fields[4], lane, size, writes=False, shared=True)
    target = _locate(run, fields[3], lane, size, writes=True, shared=False)
    if not (source and target):
        return
    read = Side(source, size, chosen)
    combine = (lambda old, new: combine_elements(what, type_, old, new)) if what else None
    agent = copies.make(lane, read, Side(target, size, chosen), combine)
    run.cta.bulk[run.warp.number, lane].loose |= 3 << 2 * agent
    moved = size if len(chosen) else 0
    run.cta.issued.append(
        Issued(run.group.pc, run.warp.number, lane, agent, read.address, moved, reads=True, stores=True)
    )


def _sizes(run: WarpRun, fields: list[int], lanes: int) -> dict[int, int]:
    """Return the bytes of each lane's copy; a size that is not a multiple of the unit is a finding, and is rounded down
    (T1)."""
    sizes = {}
    for lane in list_lanes(lanes):
        size = run.read(fields[5], "b32", lane)
        if size % UNIT:
            run.cta.finding("copy-size", run.group.pc, run.warp.number, 1 << lane, bytes=size, what=NOT_OF_UNIT)
        sizes[lane] = size // UNIT * UNIT
    return sizes


def _locate(run: WarpRun, row: int, lane: int, size: int, *, writes: bool, shared: bool) -> Place | None:
    own = True if shared else None
    return locate(run, run.read(row, "b64", lane), lane, size, writes, alignment=UNIT, shared=shared, own=own)


def commit(run: WarpRun, name: str, fields: list[int], lanes: int) -> None:
    for lane in list_lanes(lanes):
        run.cta.bulk[run.warp.number, lane].commit()
    run.launch.watch.happen("commit", run.cta.number, run.warp.number, run.group.pc, lanes=lanes)


def wait(run: WarpRun, name: str, fields: list[int], lanes: int) -> None:
    """Wait until groups have completed, or until they have read their sources."""
    cta, warp = run.cta, run.warp.number
    only_read = bool(fields[7] & ONLY_READ)
    for lane in list_lanes(lanes):
        done = cta.bulk[warp, lane].wait(fields[6], forget=not only_read)
        cta.order.complete_agents((cta.number, warp), lane, _reads(done) if only_read else done)
    run.launch.watch.happen("landed", cta.number, warp, run.group.pc, -1, fields[6], lanes)
    cta.order.begin_interval((cta.number, warp))


def _reads(agents: int) -> int:
    """Return the bits that mean that a copy has read its source.  Each copy has two bits: source read (the lower one),
    and copy complete."""
    return agents & int("01" * (agents.bit_length() // 2 + 1), 2)


def prefetch(run: WarpRun, name: str, fields: list[int], lanes: int) -> None:
    """Check the address (T2); a prefetch has no other effect here."""
    for lane in list_lanes(lanes):
        address = to_unsigned(run.read(fields[3], "b64", lane) + fields[6], 64)
        size = run.read(fields[4], "b32", lane)
        if address % UNIT:
            run.cta.finding(
                "misaligned", run.group.pc, run.warp.number, 1 << lane,
                address=address, alignment=UNIT, size=size, segment=address >> 40,
            )  # fmt: skip


def zero(run: WarpRun, name: str, fields: list[int], lanes: int) -> None:
    """Store zeros, as a plain store of each lane (PTX ISA, "st.bulk")."""
    ranges: dict[int, tuple[Place, int]] = {}
    for lane in list_lanes(lanes):
        size = run.read(fields[4], "b32", lane)
        address = to_unsigned(run.read(fields[3], "b64", lane) + fields[6], 64)
        place = None
        if size % ZEROS:
            run.cta.finding("copy-size", run.group.pc, run.warp.number, 1 << lane, bytes=size, what=NOT_OF_ZEROS)
        if size:
            place = locate(run, address, lane, size, writes=True, alignment=ZEROS, shared=True, own=True)
        if place:
            ranges[lane] = place, size
    watch = run.launch.watch
    for lane, ((_, number, offset), size) in ranges.items():
        to = (number << SEGMENT_SHIFT) + offset
        watch.happen("copy", run.cta.number, run.warp.number, run.group.pc, to, -1, 1 << lane, size)
    assert isinstance(watch, ThreadWatch)
    watch.touch_ranges(run, WRITE, ranges, 1)
    if ranges and run.cta.mbarriers.live:
        run.cta.mbarriers.report_clobbered(run, WRITE, ranges, next(iter(ranges.values()))[1], 0)
    for (segment, _, offset), size in ranges.values():
        put(segment, offset, bytes(size))
