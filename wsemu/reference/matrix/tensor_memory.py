"""`tcgen05` on the reference engine: allocations, loads, stores, copies, products, commits, waits.

PTX ISA, "TensorCore 5th Generation Family Instructions".  An operation is performed at its issue; the clocks decide
which threads observe its completion.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.model.isa import LANES, ROW, SEGMENT_SHIFT, WRITE
from wsemu.model.outcome import ObjectWait, RawFinding
from wsemu.model.tensor_memory import (
    ALLOC,
    BY_USE,
    COLUMNS,
    CP_SHAPE_BITS,
    DECOMPRESS_SHIFT,
    GRANULE,
    MULTICAST,
    MULTIPLY,
    OF_STORES,
    OFFSET_SHIFT,
    PACKED,
    PAIR,
    ROWS,
    SHAPE_BITS,
    SHAPES,
    move_columns,
    move_registers,
)
from wsemu.model.tensor_memory import STORE as TENSOR_STORE
from wsemu.reference.matrix.multiply import gather_lanes
from wsemu.reference.matrix.tensor_columns import (
    ALLOCATION,
    COPY,
    COPY_ROWS,
    LOAD,
    RELEASE,
    STORE,
    Access,
    Allocation,
    TensorMemory,
    reach_peer,
)
from wsemu.reference.matrix.tensor_operands import Source, locate_all, read_shared
from wsemu.reference.matrix.tensor_product import issue_product
from wsemu.reference.memory.bounds import locate, put
from wsemu.reference.memory.thread_shadow import ThreadWatch, Touch
from wsemu.reference.state import list_lanes
from wsemu.reference.sync import peers
from wsemu.reference.sync.named_barrier import StopError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wsemu.reference.matrix.tensor_columns import Word
    from wsemu.reference.run import Cta
    from wsemu.reference.state import Group
    from wsemu.reference.warp import WarpRun

KIND = "tensor memory"
NOT_OWNED, NOT_FIRST, NOT_ALL = range(3)
"""`what` of a tmem-double-free"""


def cta_columns(cta: Cta) -> TensorMemory:
    """Return the tensor memory of a CTA."""
    found: TensorMemory = cta.objects[KIND]
    return found


def make_access(run: WarpRun, lane: int, agent: int, what: int, group: int, key: tuple[int, ...] = ()) -> Access:
    """Return the access of an asynchronous operation that a lane issues now."""
    order, actor = run.cta.order, (run.cta.number, run.warp.number)
    return Access(agent, order.number(actor), lane, order.time(actor), run.group.pc, what, group, key)


def check_group(run: WarpRun, fields: list[int], lanes: int) -> None:
    """Check that all operations of a kernel have the same cta_group."""
    memory, group = cta_columns(run.cta), 2 if fields[7] & PAIR else 1
    if memory.group is None:
        memory.group = group, run.group.pc, run.warp.number
    elif memory.group[0] != group:
        _report(
            run, "tmem-cta-group-mixed", lanes, memory.group[1], memory.group[2], group=group, before=memory.group[0]
        )  # fmt: skip


def _report(run: WarpRun, code: str, lanes: int, other_pc: int, other_warp: int, **detail: int) -> None:
    finding = RawFinding(code, run.group.pc, run.cta.number, run.warp.number, lanes, other_pc, other_warp, detail)
    run.launch.report(finding)


# -- alloc, dealloc ----------------------------------------------------------------------------------------------------


def allocate(run: WarpRun, name: str, fields: list[int], lanes: int) -> bool:
    """Allocate columns; return whether the warp has to wait until columns are free."""
    gather_lanes(run, lanes)
    check_group(run, fields, lanes)
    memory, columns = cta_columns(run.cta), run.read(fields[4], "b32", list_lanes(lanes)[0])
    reach_peer(run, lanes, -1, participating_ctas(run, fields))
    if not GRANULE <= columns <= COLUMNS or columns.bit_count() != 1:
        run.cta.finding("tmem-columns", run.group.pc, run.warp.number, lanes, columns=columns, frees=0)
        raise StopError("fault", run.group.pc, run.warp.number)
    if memory.relinquished:
        _report(run, "tmem-alloc-after-relinquish", lanes, *memory.relinquished, columns=columns)
    if memory.last and columns > memory.last[0]:
        _report(run, "tmem-grow", lanes, *memory.last[1:], columns=columns, before=memory.last[0])
    memory.last = columns, run.group.pc, run.warp.number
    if not _fits(run.cta, fields, columns):
        return True
    _allocate(run, fields, lanes, run.group.pc)
    return False


def _pair_columns(cta: Cta) -> tuple[TensorMemory, TensorMemory]:
    """Return the tensor memory of the even and of the odd CTA of a pair."""
    rank = cta.launch.grouping.of(cta.number)[1]
    even, odd = (cta.group.ctas[min(rank & ~1 | n, len(cta.group.ctas) - 1)] for n in (0, 1))
    return cta_columns(even), cta_columns(odd)


def _free(taken: set[int], count: int, wanted: int = 0) -> int:
    """Return the first granule of an aligned run that is free, or -1.  The search begins at the run with `wanted`."""
    starts = [*range(0, COLUMNS // GRANULE, count)]
    at = wanted % (COLUMNS // GRANULE) // count
    free = (start for start in starts[at:] + starts[:at] if taken.isdisjoint(range(start, start + count)))
    return next(free, -1)


def _preferred_granule(cta: Cta, count: int, ranks: int) -> int:
    """Return where the search for free granules begins: at a different granule for each CTA, or CTA pair, of a
    group."""
    first = cta.launch.first_granule
    return first and first + count * (cta.launch.grouping.of(cta.number)[1] // ranks)


def _fits(cta: Cta, fields: list[int], columns: int) -> bool:
    count = columns // GRANULE
    if not fields[7] & PAIR:
        return _free(cta_columns(cta).owned_granules(), count) >= 0
    even, odd = _pair_columns(cta)
    if cta.launch.grouping.of(cta.number)[1] & 1:
        return even.offered is not None
    return even.offered is None and _free(even.owned_granules() | odd.owned_granules(), count) >= 0


def _first_granule(cta: Cta, fields: list[int], count: int) -> int:
    """Return the first granule of an allocation."""
    if not fields[7] & PAIR:
        return _free(cta_columns(cta).owned_granules(), count, _preferred_granule(cta, count, 1))
    even, odd = _pair_columns(cta)
    if cta.launch.grouping.of(cta.number)[1] & 1:
        assert even.offered is not None
        start, even.offered = even.offered, None
        return start
    even.offered = _free(even.owned_granules() | odd.owned_granules(), count, _preferred_granule(cta, count, 2))
    return even.offered


def _allocate(run: WarpRun, fields: list[int], lanes: int, pc: int) -> None:
    """Give the columns to the CTA, and store their address."""
    cta, memory, lane = run.cta, cta_columns(run.cta), list_lanes(lanes)[0]
    count = run.read(fields[4], "b32", lane) // GRANULE
    start = _first_granule(cta, fields, count)
    memory.allocations[start] = Allocation(count, pc, run.warp.number)
    memory.requests += 1
    memory.requested += count * GRANULE
    most, columns = run.launch.outcome.allocations
    run.launch.outcome.allocations = max(most, memory.requests), max(columns, memory.requested)
    agent = _fork_known(run)
    inside = range(start * GRANULE, (start + count) * GRANULE)
    for reserved in _reserve(run, fields, agent, {start + n for n in range(count)}):
        reserved.forget(inside.start, len(inside))
        reserved.report_released(run, lanes, inside, ALLOCATION, pc)
        reserved.released = [x for x in reserved.released if x[0].start not in inside and x[0][-1] not in inside]
        access = make_access(run, lane, agent, ALLOCATION, 0)._replace(pc=pc)
        reserved.touch(run, lanes, access, ((at, c) for c in inside for at in range(ROWS)))
    _publish(run, lane, agent, pc, start * GRANULE)
    cta.order.tick((cta.number, run.warp.number))


def _reserve(run: WarpRun, fields: list[int], agent: int, granules: set[int]) -> tuple[TensorMemory, ...]:
    """Return the CTAs whose columns an allocation reserves: the even CTA of a pair does so for both.  The odd one
    observes that this operation of the even one is complete."""
    if not fields[7] & PAIR:
        return (cta_columns(run.cta),)
    even, odd = _pair_columns(run.cta)
    if cta_columns(run.cta) is even:
        even.offer, odd.promised = agent, granules
        return even, odd
    odd.promised = set()
    for lane in list_lanes(run.warp.alive):
        run.cta.order.complete_agents((run.cta.number, run.warp.number), lane, 3 << 2 * even.offer)
    return ()


def _publish(run: WarpRun, lane: int, agent: int, pc: int, column: int) -> None:
    """Store the address of an allocation in shared memory.  All lanes of the warp execute the allocation, so the store
    is in order with their accesses (PTX ISA, "Asynchronous Operations": same-address ordering)."""
    address = run.read(run.launch.code[pc][3], "b64", lane)
    place = locate(run, address, lane, 4, writes=True, shared=True, own=True)
    if place is None:
        return
    watch, actor = run.launch.watch, (run.cta.number, run.warp.number)
    assert isinstance(watch, ThreadWatch)
    now = Touch(WRITE, *actor, watch.order.interval(actor), watch.order.time(actor), pc, 4, 0, agent)
    start = (place[1] << SEGMENT_SHIFT) + place[2]
    found = watch.touch_as_agent(now, lane, range(start, start + 4))
    by_others = [one for one in found if one.earlier.agent >= 0 or (one.earlier.cta, one.earlier.warp) != actor]
    watch.tell(run, pc, by_others)
    put(place[0], place[2], column.to_bytes(4, "little"))


def _fork_known(run: WarpRun) -> int:
    """Create an asynchronous operation that is complete at once, as the lanes of the warp have observed."""
    cta = run.cta
    agent = cta.order.fork(cta.number)
    for lane in list_lanes(run.warp.alive):
        cta.order.complete_agents((cta.number, run.warp.number), lane, 3 << 2 * agent)
    return agent


def may_go(run: WarpRun, group: Group) -> bool:
    """Return whether enough columns are free for a warp that waits at an alloc."""
    fields = run.launch.code[group.pc - 1]
    return _fits(run.cta, fields, run.read(fields[4], "b32", list_lanes(group.lanes)[0]))


def go(run: WarpRun, group: Group) -> None:
    _allocate(run, run.launch.code[group.pc - 1], group.lanes, group.pc - 1)


def release(run: WarpRun, name: str, fields: list[int], lanes: int) -> None:
    gather_lanes(run, lanes)
    check_group(run, fields, lanes)
    cta, memory, lane = run.cta, cta_columns(run.cta), list_lanes(lanes)[0]
    column = run.read(fields[3], "b32", lane) & 0xFFFF
    columns = run.read(fields[4], "b32", lane)
    if not GRANULE <= columns <= COLUMNS or columns.bit_count() != 1 or column + columns > COLUMNS:
        cta.finding("tmem-columns", run.group.pc, run.warp.number, lanes, columns=columns, frees=1)
        raise StopError("fault", run.group.pc, run.warp.number)
    what = _wrong_release(memory, column, columns)
    if what is not None:
        cta.finding(
            "tmem-double-free", run.group.pc, run.warp.number, lanes,
            column=column, columns=columns, what=what, owned=memory.owned_bits(),
        )  # fmt: skip
        if what != NOT_ALL:
            raise StopError("fault", run.group.pc, run.warp.number)
    words = ((at, c) for c in range(column, column + columns) for at in range(ROWS))
    memory.touch(run, lanes, make_access(run, lane, -1, RELEASE, 0), words)
    memory.forget(column, columns)
    memory.release(range(column // GRANULE, (column + columns) // GRANULE))
    agent = _fork_known(run)
    memory.released.append((range(column, column + columns), make_access(run, lane, agent, RELEASE, 0)))
    cta.order.tick((cta.number, run.warp.number))


def _wrong_release(memory: TensorMemory, column: int, columns: int) -> int | None:
    granules = range(column // GRANULE, (column + columns - 1) // GRANULE + 1)
    if not memory.owned_granules().issuperset(granules):
        return NOT_OWNED
    made = memory.allocations.get(granules[0])
    if made is None or column % GRANULE:
        return NOT_FIRST
    return None if made.granules == columns // GRANULE else NOT_ALL


def relinquish(run: WarpRun, name: str, fields: list[int], lanes: int) -> None:
    gather_lanes(run, lanes)
    check_group(run, fields, lanes)
    memory = cta_columns(run.cta)
    memory.relinquished = memory.relinquished or (run.group.pc, run.warp.number)


def report_leaks(cta: Cta) -> None:
    """Report the columns that a CTA has not released at its end."""
    for start, made in sorted(cta_columns(cta).allocations.items()):
        detail = {"column": start * GRANULE, "columns": made.granules * GRANULE}
        cta.launch.report(RawFinding("tmem-leak", made.pc, cta.number, made.warp, (1 << LANES) - 1, detail=detail))


def waits(cta: Cta) -> Iterator[ObjectWait]:
    """Yield the warps that wait at an alloc in a deadlock."""
    for warp in cta.warps:
        for group in warp.parked:
            if cta.launch.operation_name(group.pc - 1) == ALLOC:
                fields = cta.launch.code[group.pc - 1]
                wanted = cta.runner(warp).read(fields[4], "b32", list_lanes(group.lanes)[0])
                free = COLUMNS - GRANULE * len(cta_columns(cta).owned_granules())
                yield ObjectWait(warp.number, group.lanes, group.pc - 1, KIND, -1, free, wanted)


# -- ld, st ------------------------------------------------------------------------------------------------------------


def _word(shape: str, t: int, r: int, first: int, column: int, distance: int, *, packed: bool) -> Word:
    """Return the word of register r of lane t; if registers are packed, the first of its two words."""
    lane, c = {
        "32x32b": (t, r),
        "16x64b": (8 * (t % 2) + t // 4, t // 2 % 2 + 2 * r),
        "16x128b": (t // 4 + 8 * (r % 2), t % 4 + 4 * (r // 2)),
        "16x256b": (t // 4 + 8 * (r // 2 % 2), 2 * (t % 4) + r % 2 + 8 * (r // 4)),
        "16x32bx2": (t % 16, r),
    }[shape]
    half = distance * (t // 16) if shape == "16x32bx2" else 0
    return first + lane, column + (2 * c if packed else c) + half


def move(run: WarpRun, name: str, fields: list[int], lanes: int) -> None:
    """Execute a `ld` or `st` of a warp, in the lanes of its own quarter, whatever lanes the address names."""
    gather_lanes(run, lanes)
    cta, memory, stores = run.cta, cta_columns(run.cta), name == TENSOR_STORE
    auxiliary, lane = fields[7], list_lanes(lanes)[0]
    shape, packed, distance = SHAPES[auxiliary & SHAPE_BITS], bool(auxiliary & PACKED), auxiliary >> OFFSET_SHIFT
    address = run.read(fields[3], "b32", lane)
    column, count, span = address & 0xFFFF, move_registers(auxiliary), move_columns(auxiliary)
    quarter, told, inside = run.warp.number % 4, address >> 21 & 3, address >> 16 & 31
    if told not in (0, quarter):
        cta.finding("tmem-wrong-quarter", run.group.pc, run.warp.number, lanes, quarter=told, own=quarter)
    if inside % (32 if shape in ("32x32b", "16x32bx2") else 16) or address >> 23:
        cta.finding(
            "tmem-misaligned-lane", run.group.pc, run.warp.number, lanes,
            lane=address >> 16, shape=SHAPES.index(shape),
        )  # fmt: skip
        bad = True
    else:
        bad = memory.lacks(run, 1 << lane, column, span)
        if not bad and shape == "16x32bx2":
            bad = memory.lacks(run, 1 << lane, column + distance, span)
    if bad:
        if not stores:
            for t in list_lanes(lanes):
                for r in range(count):
                    run.write(fields[2] + r * ROW, "b32", t, 0)
        return
    first = 32 * quarter + inside
    run.launch.watch.happen("copy", cta.number, run.warp.number, run.group.pc, -1, -1, lanes, 4 * count)
    agent, what = cta.order.fork(cta.number), STORE if stores else LOAD
    memory.moves[run.warp.number, what] |= 3 << 2 * agent
    starts = (column, column + distance) if shape == "16x32bx2" else (column,)
    high = 32 if shape == "32x32b" else 16
    words = ((first + n, start + c) for start in starts for c in range(span) for n in range(high))
    memory.touch(run, lanes, make_access(run, lane, agent, what, 1), words)
    unwritten: list[tuple[int, int, int, int]] = []
    for r in range(count):
        for t in list_lanes(lanes):
            place = _word(shape, t, r, first, column, distance, packed=packed)
            second = place[0], place[1] + 1
            if stores:
                value = run.read(fields[4] + r * ROW, "b32", t)
                memory.words[place] = value & 0xFFFF if packed else value
                if packed:
                    memory.words[second] = value >> 16
                continue
            if place not in memory.words or (packed and second not in memory.words):
                unwritten.append((r, t, *place))
            value = memory.words.get(place, 0)
            if packed:
                value = value & 0xFFFF | (memory.words.get(second, 0) & 0xFFFF) << 16
            run.write(fields[2] + r * ROW, "b32", t, value)
    if unwritten:
        some = sum(1 << t for t in {t for _, t, _, _ in unwritten})
        _, _, at, c = min(unwritten)
        cta.finding("tmem-uninitialized", run.group.pc, run.warp.number, some, column=c, lane=at)
    cta.order.tick((cta.number, run.warp.number))


def wait(run: WarpRun, name: str, fields: list[int], lanes: int) -> None:
    """Wait until the loads, or the stores, of a warp are complete."""
    if not fields[7] & BY_USE:
        gather_lanes(run, lanes)
    cta, warp = run.cta, run.warp.number
    agents = cta_columns(cta).moves.pop((warp, STORE if fields[7] & OF_STORES else LOAD), 0)
    for lane in list_lanes(run.warp.alive):
        cta.order.complete_agents((cta.number, warp), lane, agents)
    run.launch.watch.happen("landed", cta.number, warp, run.group.pc, -1, 0, lanes)
    cta.order.begin_interval((cta.number, warp))


def fence(run: WarpRun, name: str, fields: list[int], lanes: int) -> None:
    """Order operations of other threads across a relaxed synchronization (PTX ISA, "tcgen05.fence")."""
    for lane in list_lanes(lanes):
        clocks = run.cta.order.clocks((run.cta.number, run.warp.number), lane)
        if fields[7] & OF_STORES:
            clocks.fenced_tensor |= clocks.published_tensor
        else:
            clocks.publish_tensor()


# -- cp, mma, commit ---------------------------------------------------------------------------------------------------


def issue(run: WarpRun, name: str, fields: list[int], lanes: int) -> None:
    """Issue an operation for each active lane."""
    check_group(run, fields, lanes)
    if lanes & lanes - 1:
        run.cta.finding("tcgen05-issued-by-many", run.group.pc, run.warp.number, lanes)
    for lane in list_lanes(lanes):
        if name == MULTIPLY:
            issue_product(run, fields, lane, participating_ctas(run, fields))
        else:
            _copy(run, fields, lane)
        run.cta.order.tick((run.cta.number, run.warp.number))


def participating_ctas(run: WarpRun, fields: list[int]) -> list[Cta]:
    """Return the CTAs that an operation uses, the even one first."""
    ctas = run.cta.group.ctas
    if not fields[7] & PAIR:
        return [run.cta]
    rank = run.launch.grouping.of(run.cta.number)[1] & ~1
    return [ctas[rank], ctas[rank + 1]]


def _goals(shape: int, row: int) -> list[int]:
    """Return the destination lanes of a row of a cp."""
    return {
        0: [row],
        1: [32 * row],
        2: [row],
        3: [row, row + 64],
        4: [row, row + 32] if row < 32 else [row + 32, row + 64],
        5: [row, row + 32, row + 64, row + 96],
    }[shape]


def _copy(run: WarpRun, fields: list[int], lane: int) -> None:
    shape, how = fields[7] & CP_SHAPE_BITS, fields[7] >> DECOMPRESS_SHIFT & 3
    to, descriptor = run.read(fields[3], "b32", lane), run.read(fields[4], "b64", lane)
    rows, width = (128, 4, 128, 64, 64, 32)[shape], 8 if shape < 2 else 4
    source = Source(descriptor, range(rows), width // 4)
    wrong = source.wrong(for_copy=True)
    if wrong:
        run.cta.finding(
            "tcgen05-descriptor", run.group.pc, run.warp.number, 1 << lane,
            what=wrong, value=descriptor - (descriptor >> 63 << 64), kind=7,
        )  # fmt: skip
        return
    if to >> 16 > (31 if shape == 1 else 0):
        kind = len(SHAPES) + (shape != 1)
        run.cta.finding(
            "tmem-misaligned-lane", run.group.pc, run.warp.number, 1 << lane, lane=to >> 16, shape=kind
        )  # fmt: skip
        return
    members, column = participating_ctas(run, fields), to & 0xFFFF
    lacking = [cta_columns(cta).lacks(run, 1 << lane, column, width) for cta in members]
    places = {cta.number: locate_all(run, cta, lane, source) for cta in members}
    if any(lacking) or None in places.values():
        return
    cta, group = run.cta, len(members)
    agent = cta.order.fork(cta.number)
    cta_columns(cta).note_issue(run, lane, agent)
    first = run.launch.shared_address(members[0].number) + (descriptor & 0x3FFF) * 16
    run.launch.watch.happen(
        "copy", cta.number, run.warp.number, run.group.pc, first, -1, 1 << lane, 4 * rows * width
    )  # fmt: skip
    access = make_access(run, lane, agent, COPY_ROWS if shape == 1 else COPY, group)
    lowest = to >> 16 & 127 if shape == 1 else 0
    reach_peer(run, 1 << lane, agent, members)
    for member in members:
        memory = cta_columns(member)
        words = [(lowest + at, column + c) for row in range(rows) for at in _goals(shape, row) for c in range(width)]
        memory.touch(run, 1 << lane, access, words)
        good = read_shared(run, member, lane, agent, source, narrow=(0, 6, 4)[how])
        for row in range(rows):
            for c in range(width):
                value = source.word(run, member, row, c, how)
                for at in _goals(shape, row):
                    place = lowest + at, column + c
                    if row in good:
                        memory.words[place] = value
                    else:
                        memory.words.pop(place, None)


def commit_goals(run: WarpRun, fields: list[int], lanes: int) -> Iterator[tuple[int, int, int]]:
    """Yield the arrivals of a commit: the address, the lane, and the operations that must be complete before."""
    for lane in list_lanes(lanes):
        address = run.read(fields[3], "b64", lane)
        goals = [address]
        if fields[7] & MULTICAST:
            mask = run.read(fields[4], "b32", lane) & 0xFFFF
            clusters = run.launch.clusters
            goals = [peers.remote_address(run, address, rank) if clusters else address for rank in list_lanes(mask)]
        agents = cta_columns(run.cta).issued[run.warp.number, lane]
        yield from ((goal, lane, agents) for goal in goals)


MEANINGS = (allocate, release, relinquish, move, move, wait, fence, issue, issue)
"""functions of the operations, in the order of `OPERATIONS`, up to the commit"""
