"""Fast checks of scattered accesses by whole warps whose lanes have the layout of an earlier access by the instruction,
for example two rows of a tile, or a stride.

A PLAN stores the layout of the lanes, the cells of shadow memory that they touch, in order and with the lanes of each,
and the cost of the access. `as_planned` does all that `scheduler.access` does, except the transfer, in one pass over
the cells, if they have equal contents and no conflict. If they do not, or if the layout differs, it does nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir

from wsemu.machine.arithmetic.codegen import I8, I16, I32, I64, Builder, Value, pointer, resize, same, splat
from wsemu.machine.lowering import compiled, emitted
from wsemu.machine.memory.bounds import extent_of
from wsemu.machine.memory.cell_bits import (
    ACTORS,
    ATOMIC_BIT,
    BUT_LANES,
    BUT_WARPS,
    HIGH_SHIFT,
    INTERVAL_SHIFT,
    INTERVALS,
    LANE_BITS,
    LOW_SHIFT,
    MAX_INSTRUCTIONS,
    WARP_SHIFT,
    WARPS,
    WHEN,
)
from wsemu.machine.memory.costs import PATTERN_BYTES, sector_cost, shared_cost
from wsemu.machine.memory.lane_access import (
    ALIKE,
    QUARTERS,
    SCATTERED,
    all_inside,
    keep_steps,
    lane_pattern,
    matches_steps,
    other_banks,
    simple_pattern,
)
from wsemu.machine.memory.readers import forgettable, is_readers, merge_own_reads, takes, together, unknown
from wsemu.machine.memory.shadow import (
    extend_read_set,
    floor_of,
    is_ordered_before,
    note_range,
    now,
    set_clashes,
    touch_side_by_side,
)
from wsemu.machine.memory.shadow_cells import gather, highest_of, lowest_of, scatter
from wsemu.machine.records import access_at, machine_at, pattern_at, plan_at, plan_due_at, segment_at, warp_at
from wsemu.machine.scalars import load_i64, store_i64
from wsemu.machine.state import PLAN, READ_SO_FAR, TRACKED, UNTRACKED
from wsemu.model.isa import FIRST_ARRAY, LANES, LOCAL, LOCAL_SHIFT, ON_STACK, READ, SEGMENT_SHIFT, SHARED, WRITE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FULL = (1 << LANES) - 1
FARTHEST = 1 << 40
PAUSE = 64
"""number of accesses before the next plan if the last one mostly failed, times the square of the number of plans so
far"""
OTHER_WRITE, NOT_OWN_WRITE, OTHER_READ, NOT_OWN_READ, OTHER_MOMENT = 1, 2, 4, 8, 16
OTHER_WARPS = 32
"""bit from which on the result of a scan has the bits in which reads differ: the warps of READERS"""


def _place_of(field: str) -> Any:
    """Return a function for the address of a field of a plan."""
    assert PLAN.fields is not None
    offset = PLAN.fields[field][1]
    return emitted(lambda b, plan: b.add(b.ptrtoint(plan.place, I64), I64(offset)))


plan_steps, plan_pieces, plan_lanes = (_place_of(field) for field in ("steps", "pieces", "lanes"))


# -- cells in pieces ---------------------------------------------------------------------------------------------------


def _each_piece(b: Builder, pieces: Value, lanes: Value, n: Value, cells: int, body: Any) -> list[Value]:
    """Run `body(offset, lanes, sums)`, which returns the next `sums`, for each piece."""
    t = ir.VectorType(I64, 4) if cells > 1 else I64
    before, loop, end = b.block, b.function.append_basic_block("piece"), b.function.append_basic_block("pieces")
    b.branch(loop)
    b.position_at_end(loop)
    j = b.phi(I64)
    sums = [b.phi(t) for _ in range(4)]
    offset = b.load(pointer(b, b.add(pieces, b.shl(j, I64(3))), I64))
    own = b.load(pointer(b, b.add(lanes, b.mul(j, I64(8 * cells))), t), align=8)
    new: list[Value] = body(offset, own, sums)
    onward = b.add(j, I64(1))
    j.add_incoming(I64(0), before)
    j.add_incoming(onward, b.block)
    for one, value in zip(sums, new, strict=True):
        one.add_incoming(ir.Constant(t, [0] * 4 if cells > 1 else 0), before)
        one.add_incoming(value, b.block)
    b.cbranch(b.icmp_signed("<", onward, n), loop, end)
    b.position_at_end(end)
    return new


def _any_bits(b: Builder, v: Value, n: int) -> Value:
    """Return the bits that are set in any of n numbers."""
    if n == 1:
        return v
    found = b.extract_element(v, I32(0))
    for k in range(1, n):
        found = b.or_(found, b.extract_element(v, I32(k)))
    return found


def _scan(cells: int) -> Any:
    def body(
        b: Builder, writes: Value, reads: Value, pieces: Value, lanes: Value, n: Value, written: Value, read: Value
    ) -> Value:
        t = ir.VectorType(I64, 4) if cells > 1 else I64

        def all_of(value: Value) -> Value:
            return splat(b, value, 4) if cells > 1 else value

        def differences(offset: Value, own: Value, sums: list[Value]) -> list[Value]:
            found = []
            for plane, first in ((writes, written), (reads, read)):
                v = b.load(pointer(b, b.add(plane, offset), t), align=8)
                found += [b.xor(v, all_of(first)), b.xor(v, own)]
            return [b.or_(one, new) for one, new in zip(sums, found, strict=True)]

        bits = (WHEN, LANE_BITS, BUT_LANES, LANE_BITS, BUT_WARPS)
        sums = _each_piece(b, pieces, lanes, n, cells, differences)
        result = b.shl(_any_bits(b, sums[2], cells), I64(OTHER_WARPS))
        for k, one in enumerate((*sums, sums[2])):
            whole = ir.IntType(64 * cells)
            masked = b.bitcast(b.and_(one, same(one, bits[k])), whole)
            some = b.icmp_unsigned("!=", masked, ir.Constant(whole, 0))
            result = b.or_(result, b.select(some, I64(1 << k), I64(0)))
        return result

    return emitted(body)


def _add(cells: int) -> Any:
    def body(b: Builder, plane: Value, pieces: Value, lanes: Value, n: Value, bits: Value) -> None:
        def one(offset: Value, own: Value, sums: list[Value]) -> list[Value]:
            place = pointer(b, b.add(plane, offset), own.type)
            more = splat(b, bits, 4) if cells > 1 else bits
            b.store(b.or_(b.load(place, align=8), more), place, align=8)
            return sums

        _each_piece(b, pieces, lanes, n, cells, one)

    return emitted(body)


def _fill(cells: int) -> Any:
    def body(b: Builder, plane: Value, pieces: Value, lanes: Value, n: Value, value: Value, keep: Value) -> None:
        def one(offset: Value, own: Value, sums: list[Value]) -> list[Value]:
            all_of = (lambda v: splat(b, v, 4)) if cells > 1 else (lambda v: v)
            new = b.or_(b.and_(own, all_of(keep)), all_of(value))
            b.store(new, pointer(b, b.add(plane, offset), new.type), align=8)
            return sums

        _each_piece(b, pieces, lanes, n, cells, one)

    return emitted(body)


scan_cells, scan_fours = _scan(1), _scan(4)
"""scan(writes, reads, pieces, lanes, n, written, read): flags for all cells together, OTHER_WRITE and so on: some last
write differs from `written`; some last write is not by the lanes that have the cell now; and likewise for reads"""
add_cells, add_fours = _add(1), _add(4)
"""add(plane, pieces, lanes, n, bits): set these bits in each cell"""
fill_cells, fill_fours = _fill(1), _fill(4)
"""fill(plane, pieces, lanes, n, value, keep): store in each cell `value`, with the cell's own lanes in the bits
`keep`"""


@compiled
def fill(plan, cells, value, keep):
    pieces, lanes = plan_pieces(plan), plan_lanes(plan)
    if plan.wide:
        fill_fours(cells, pieces, lanes, plan.count, value, keep)
    else:
        fill_cells(cells, pieces, lanes, plan.count, value, keep)


@compiled
def add(plan, cells, bits):
    pieces, lanes = plan_pieces(plan), plan_lanes(plan)
    if plan.wide:
        add_fours(cells, pieces, lanes, plan.count, bits)
    else:
        add_cells(cells, pieces, lanes, plan.count, bits)


@compiled
def join_readers(m, w, plan, reads, v, found, kind, base, floor):
    """Update reads that are READERS of one moment for a planned access; return False if that needs a closer look."""
    warps = (v | found >> OTHER_WARPS) & WARPS
    if kind == WRITE:
        if unknown(m, w, v, warps, floor):
            return False
        fill(plan, reads, 0, 0)
        return True
    if takes(m, w, v):
        add(plan, reads, 1 << w)
        return True
    if forgettable(m, w, v, warps, floor):
        fill(plan, reads, base, LANE_BITS)
        return True
    result = merge_own_reads(m, w, v, warps, floor)
    if result:
        fill(plan, reads, result, 0)
    return result != 0


@compiled
def all_ordered_before(m, w, v, floor, by_others):
    """Return whether the access v of all cells is ordered before the current one, lanes included.

    `by_others`: some of these accesses were not by the lane that alone has the cell now.
    """
    if not is_ordered_before(m, w, v, floor):
        return False
    own = (v >> WARP_SHIFT) & ACTORS == w and (v >> INTERVAL_SHIFT) & INTERVALS > warp_at(m.warps, w).synced
    return not own or by_others == 0


@compiled
def touch_planned(m, w, plan, writes, reads, kind, base, floor):
    """Touch the cells of a plan, like `shadow.touch_alike`."""
    written, read = load_i64(writes), load_i64(reads)
    pieces, lanes = plan_pieces(plan), plan_lanes(plan)
    if plan.wide:
        found = scan_fours(writes, reads, pieces, lanes, plan.count, written, read)
    else:
        found = scan_cells(writes, reads, pieces, lanes, plan.count, written, read)
    readers = is_readers(read)
    if found & (OTHER_WRITE | (OTHER_MOMENT if readers else OTHER_READ)):
        return False
    shared = plan.apart ^ 1
    written &= WHEN
    if written and not all_ordered_before(m, w, written, floor, found & NOT_OWN_WRITE | shared):
        return False
    if readers:
        if not join_readers(m, w, plan, reads, read, found, kind, base, floor):
            return False
        if kind == WRITE:
            fill(plan, writes, base, LANE_BITS)
        return True
    read &= BUT_LANES
    if read & ATOMIC_BIT:
        return False
    if kind == WRITE:
        if read:
            if read < 0:
                if set_clashes(m, w, kind, base & (MAX_INSTRUCTIONS - 1), read, floor):
                    return False
            elif not all_ordered_before(m, w, read, floor, found & NOT_OWN_READ | shared):
                return False
            fill(plan, reads, 0, 0)
        fill(plan, writes, base, LANE_BITS)
        return True
    if read:
        if read < 0 or not is_ordered_before(m, w, read, floor):
            result = together(m, w, read) if read > 0 else 0
            if result == 0:
                if m.by_lanes:
                    return False
                result = extend_read_set(m, w, read, base, floor)
            if result:
                fill(plan, reads, result, 0)
                return True
        elif not all_ordered_before(m, w, read, floor, found & NOT_OWN_READ | shared):
            return False
    fill(plan, reads, base, LANE_BITS)
    return True


# -- an access ---------------------------------------------------------------------------------------------------------


_WORDS = {1: (I8, 1), 2: (I16, 1), 4: (I32, 1), 8: (I64, 1), 16: (I64, 2)}
"""type and number of the words of the initialization map for a lane's bytes, by their number"""


def _for_each_size(b: Builder, size: Value, body: Callable[[Any, int], Value]) -> Value:
    """Return `body` applied to the words of the initialization map for `size` bytes of each lane."""
    function = b.function
    end, other = function.append_basic_block("set"), function.append_basic_block("size")
    choice, results = b.switch(size, other), []
    for bytes_, (t, n) in _WORDS.items():
        block = function.append_basic_block(f"set{bytes_}")
        choice.add_case(I64(bytes_), block)
        b.position_at_end(block)
        results.append((body(t, n), b.block))
        b.branch(end)
    b.position_at_end(other)
    b.unreachable()
    b.position_at_end(end)
    result = b.phi(I64)
    for value, block in results:
        result.add_incoming(value, block)
    return result


def _all_set(t: Any) -> Value:
    return ir.Constant(t, int.from_bytes(bytes([1] * 8), "little") & ((1 << t.width) - 1))


def _words(b: Builder, first: Value, steps: Value, t: Any, n: int) -> Iterator[Value]:
    """Yield the positions of all lanes' words in the initialization map."""
    for lane in range(LANES):
        at = b.add(first, b.load(pointer(b, b.add(steps, I64(8 * lane)), I64)))
        for k in range(n):
            yield pointer(b, b.add(at, I64(k * t.width // 8)), t)


@emitted
def some_lane_unset(b: Builder, first: Value, steps: Value, size: Value) -> Value:
    """Return whether some lane has uninitialized bytes, of 1, 2, 4, 8 or 16 at its distance from `first`."""

    def with_words(t: Any, n: int) -> Value:
        found = _all_set(t)
        for word in _words(b, first, steps, t, n):
            found = b.and_(found, b.load(word, align=1))
        return b.zext(b.icmp_unsigned("!=", found, _all_set(t)), I64)

    return _for_each_size(b, size, with_words)


@emitted
def set_lanes(b: Builder, first: Value, steps: Value, size: Value) -> Value:
    """Mark the bytes of all lanes, which share none, as initialized in the map, and return how many were not before."""

    def with_words(t: Any, n: int) -> Value:
        before = t(0)
        for word in _words(b, first, steps, t, n):
            before = b.add(before, b.and_(b.load(word, align=1), _all_set(t)))  # each byte of the sum is at most 64
            b.store(_all_set(t), word, align=1)
        total = I64(0)
        for k in range(t.width // 8):
            total = b.add(total, b.and_(resize(b, b.lshr(before, t(8 * k)), I64, False), I64(255)))
        return b.sub(b.shl(size, I64(LANES.bit_length() - 1)), total)

    return _for_each_size(b, size, with_words)


@compiled
def note_lanes_set(segment, first, steps, size):
    """Mark the bytes of all lanes, which share none, as initialized."""
    segment.unwritten -= set_lanes(first, steps, size)
    if segment.unwritten == 0:
        segment.initialised = 0


@compiled
def dearer(m, row, place, cost):
    """Return whether an execution with this cost must be recorded, see `costs.keep_worst`."""
    kept = pattern_at(m.patterns + PATTERN_BYTES * (2 * row.pattern + (place != SHARED)), 0)
    return not (cost < kept.cost or (cost == kept.cost and m.group * m.members + m.member >= kept.cta))


@compiled
def judged_here(m, segment, grain):
    """Return whether races in a segment are checked with cells of this grain, and one more access fits."""
    if segment.tracked != TRACKED or segment.grain != grain or segment.watched:
        return False
    if m.moment_count > m.moment_room:
        return False
    return m.set_count <= m.set_room and m.element_count <= m.element_room and m.record_count <= m.record_room


@compiled
def part_of(m, number, offset):
    """Return an offset without the number of a variable, the range of memory for the first lane's address, and whether
    the variable may be written."""
    segment = segment_at(m.segments, number)
    if number != LOCAL:
        return offset, 0, segment.bytes, 1
    variable = offset >> LOCAL_SHIFT
    if variable & ON_STACK:  # its extent differs between lanes
        return offset, 0, -1, 0
    begin, extent, writable = extent_of(m, variable, 0)
    return offset & ((1 << LOCAL_SHIFT) - 1), begin, begin + extent, writable


@compiled
def make_planned(m, w, pc, plan, first, log_size, kind):
    """Check and count an access whose lanes have the planned layout; return the first lane's host address, or 0."""
    number = first >> SEGMENT_SHIFT
    if number < SHARED or number >= m.segment_count or min(number, FIRST_ARRAY) != plan.place:
        return 0
    segment = segment_at(m.segments, number)
    offset = first - (number << SEGMENT_SHIFT)
    size = 1 << log_size
    offset, low, end, writable = part_of(m, number, offset)
    if offset + plan.low < low or offset + plan.end > end or offset & (size - 1):
        return 0
    row = access_at(m.accesses, pc)
    if (kind == WRITE and (plan.apart == 0 or writable == 0)) or segment.kind & row.forbids:
        return 0
    cost, ideal = plan.cost, plan.ideal
    if number >= FIRST_ARRAY and plan.boundary != first & 31:
        return 0
    if number == SHARED and (plan.boundary ^ first) & 3:  # another alignment: other lanes share words
        return 0
    if cost > ideal and number != LOCAL and dearer(m, row, number, cost):
        return 0
    unset = segment.initialised and some_lane_unset(segment.initialised + offset, plan_steps(plan), size)
    if unset and kind == READ:
        return 0
    if segment.tracked > (READ_SO_FAR if kind == READ else UNTRACKED):
        if not judged_here(m, segment, plan.grain):
            return 0
        cell = offset >> segment.grain
        base, floor = now(m, w, pc), floor_of(m, number)
        low = plan.low >> segment.grain
        if not note_range(segment, cell + low, (plan.end >> segment.grain) - low):
            return 0
        if not touch_planned(m, w, plan, segment.writes + 8 * cell, segment.reads + 8 * cell, kind, base, floor):
            return 0
    if unset:
        note_lanes_set(segment, segment.initialised + offset, plan_steps(plan), size)
    m.serial += 1
    row.executions += 1
    row.lanes += LANES
    if number == SHARED:
        row.shared += cost
        row.ideal_shared += ideal
    elif number != LOCAL:
        row.sectors += cost
        row.ideal_sectors += ideal
    return segment.host + offset


@compiled
def touch_spread(m, w, pc, segment, place, bias, kind):
    """Touch the cells of scattered lanes, each in its own, like `shadow.touch_alike`."""
    low = (lowest_of(place, FULL, 0) + bias) >> segment.grain
    high = (highest_of(place, FULL, 0) + bias) >> segment.grain
    if not note_range(segment, low, high - low + 1):
        return False
    writes, reads, zero = m.lanes_scratch + 8 * 2 * LANES, m.lanes_scratch + 8 * 3 * LANES, 0
    gather(place, FULL, bias, segment.grain, segment.writes, writes)
    gather(place, FULL, bias, segment.grain, segment.reads, reads)
    if not touch_side_by_side(m, w, writes, reads, kind, now(m, w, pc), floor_of(m, SHARED), zero):
        return False
    scatter(place, FULL, bias, segment.grain, segment.reads, reads)
    if kind == WRITE:
        scatter(place, FULL, bias, segment.grain, segment.writes, writes)
    return True


@compiled
def make_spread(m, w, pc, place, bias, kind):
    """Check and count a typical exchange of elements without bank conflicts, and return the first lane's host address.

    Each lane accesses four bytes of shared memory in a bank of its own. Return 0 for other accesses.
    """
    first = load_i64(place) + bias
    bias -= SHARED << SEGMENT_SHIFT
    segment = segment_at(m.segments, SHARED)
    if first >> SEGMENT_SHIFT != SHARED or not all_inside(place, bias, segment.bytes - 4, 4):
        return 0
    if not other_banks(place, bias) or segment.kind & access_at(m.accesses, pc).forbids:
        return 0
    unset = segment.initialised and some_lane_unset(segment.initialised + bias, place, 4)
    if unset and kind == READ:
        return 0
    judged = segment.tracked > (READ_SO_FAR if kind == READ else UNTRACKED)
    if judged and not (judged_here(m, segment, 2) and touch_spread(m, w, pc, segment, place, bias, kind)):
        return 0
    if unset:
        note_lanes_set(segment, segment.initialised + bias, place, 4)
    m.serial += 1
    row = access_at(m.accesses, pc)
    row.executions += 1
    row.lanes += LANES
    row.shared += 1
    row.ideal_shared += 1
    return segment.host + first - (SHARED << SEGMENT_SHIFT)


def as_planned(address, w, pc, place, bias, shape):
    """Check a scattered access by all lanes, without the transfer, and return the first lane's host address.

    Return 0, and do nothing, if the access is not one of the usual ones. `place` is the host address of the lanes'
    addresses, to which `bias` is added. `shape` has log2 of the bytes of a lane, and from bit 8 on READ or WRITE.
    """
    m = machine_at(address, 0)
    number = access_at(m.accesses, pc).pattern
    first, host = load_i64(place), 0
    if plan_due_at(m.plans_due, number).ready:
        plan = plan_at(m.plans, number)
        if matches_steps(place, first, plan_steps(plan), FULL):
            host = make_planned(m, w, pc, plan, first + bias, shape & 255, shape >> 8)
    if host == 0 and shape & 255 == 2:
        host = make_spread(m, w, pc, place, bias, shape >> 8)
    return host


# -- a plan ------------------------------------------------------------------------------------------------------------


@compiled
def enter_cell(plan, cell, lane):
    """Insert one more cell of a lane among the cells of a plan."""
    cells, lanes = plan_pieces(plan), plan_lanes(plan)
    at = plan.count
    while at and load_i64(cells + 8 * (at - 1)) > cell:
        at -= 1
    if at and load_i64(cells + 8 * (at - 1)) == cell:
        place = lanes + 8 * (at - 1)
        store_i64(place, (load_i64(place) & ~(31 << HIGH_SHIFT)) | lane << HIGH_SHIFT)
        plan.apart = 0
        return
    for j in range(plan.count, at, -1):
        store_i64(cells + 8 * j, load_i64(cells + 8 * (j - 1)))
        store_i64(lanes + 8 * j, load_i64(lanes + 8 * (j - 1)))
    store_i64(cells + 8 * at, cell)
    store_i64(lanes + 8 * at, lane << LOW_SHIFT | lane << HIGH_SHIFT)
    plan.count += 1


@compiled
def gather_pieces(plan):
    """Convert the cells of a plan to pieces."""
    cells = plan_pieces(plan)
    wide = plan.count & 3 == 0
    for j in range(plan.count):
        if j & 3 and load_i64(cells + 8 * j) != load_i64(cells + 8 * (j - 1)) + 1:
            wide = False
    plan.wide = wide
    step = 1
    if wide:
        plan.count >>= 2
        step = 4
    for j in range(plan.count):
        store_i64(cells + 8 * j, 8 * load_i64(cells + 8 * j * step))


@compiled
def lay_out(plan, place, size, grain, stride):
    """Compute the distances of the lanes and their cells; return False if no plan is possible.

    `stride` is the distance from a lane's memory to that of the next lane, or 0 if they share memory.
    """
    first = load_i64(place)
    keep_steps(place, first, plan_steps(plan))
    plan.of = 0
    plan.count = 0
    plan.apart = 1
    plan.low = 0
    plan.end = size
    for lane in range(LANES):
        step = load_i64(place + 8 * lane) - first
        if step & (size - 1) or step > FARTHEST or step < -FARTHEST:
            return False
        plan.low = min(plan.low, step - lane * stride)
        plan.end = max(plan.end, step - lane * stride + size)
        for q in range(size >> grain):
            enter_cell(plan, (step >> grain) + q, lane)
    return True


@compiled
def quarter_patterns(steps, size):
    """Return the common pattern of each group of eight lanes, if they have one."""
    consecutive, alike = 1, 1
    for lane in range(LANES):
        step = load_i64(steps + 8 * lane) - load_i64(steps + 64 * (lane >> 3))
        if step:
            alike = 0
        if step != (lane & 7) * size:
            consecutive = 0
    return QUARTERS if consecutive else ALIKE if alike else SCATTERED


@compiled
def weigh_plan(m, plan, place, bias, number, size, limit, log_size, store):
    """Record the cost of a planned access, as `scheduler.judge` and `costs.weigh` compute it."""
    if number == LOCAL:
        plan.cost = 0
        plan.ideal = 0
        return
    pattern = simple_pattern(place, 0, FULL, log_size)
    if pattern == SCATTERED:
        pattern = lane_pattern(place, 0, FULL, bias, limit - size, size)
    if number == SHARED:
        cost, ideal = shared_cost(m, place, bias, FULL, pattern, size, store)
    else:
        cost, ideal = sector_cost(m, place, bias, FULL, pattern, size)
    plan.cost = cost
    plan.ideal = ideal


@compiled
def lay_plan(m, plan, place, bias, log_size, kind):
    """Make a plan for accesses like the one whose lanes' addresses are at `place`; return False if none is possible."""
    size = 1 << log_size
    first = load_i64(place) + bias
    number = first >> SEGMENT_SHIFT
    if number < SHARED or number >= m.segment_count:
        return False
    segment = segment_at(m.segments, number)
    plan.place = min(number, FIRST_ARRAY)
    plan.grain = segment.grain if segment.tracked == TRACKED else log_size
    if plan.grain < 0 or plan.grain > log_size or log_size > plan.grain + 2:
        return False
    if not lay_out(plan, place, size, plan.grain, m.thread_bytes if number == LOCAL else 0):
        return False
    plan.boundary = first & 31
    plan.how = quarter_patterns(plan_steps(plan), size)
    offset, low, end, _ = part_of(m, number, first - (number << SEGMENT_SHIFT))
    if offset + plan.low < low or offset + plan.end > end or offset & (size - 1):
        return False
    bias -= number << SEGMENT_SHIFT
    weigh_plan(m, plan, place, bias, number, size, segment.bytes, log_size, kind == WRITE)
    gather_pieces(plan)
    return True


def make_plan(address, pc, place, bias, shape):
    """Make a plan from an access that differs from the previous plan. Parameters as in `as_planned`."""
    m = machine_at(address, 0)
    row = access_at(m.accesses, pc)
    plan, due = plan_at(m.plans, row.pattern), plan_due_at(m.plans_due, row.pattern)
    poor = due.ready and 2 * due.misses > row.executions - due.since
    due.since = row.executions
    due.made += 1
    due.misses = -PAUSE * due.made * due.made if poor else 0
    due.ready = 0 if poor else lay_plan(m, plan, place, bias, shape & 255, shape >> 8)
    return 0
