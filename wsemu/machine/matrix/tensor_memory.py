"""`tcgen05` in compiled code: operations on tensor memory, each an asynchronous operation of its warp or lane.

An operation is performed when it is issued, which is one of the possible schedules. Loads and stores complete at the
next wait of their warp, all others with a commit; `tensor_accesses` checks their order. PTX ISA, "TensorCore 5th
Generation Family Instructions".
"""

from __future__ import annotations

from wsemu.machine.agents.agents import enter_group, group_tables, know, new_agent, room
from wsemu.machine.agents.copies import COPIED, LANDED, access_cell
from wsemu.machine.lowering import compiled, set_bits
from wsemu.machine.matrix.multiply import gather_lanes
from wsemu.machine.matrix.tensor_accesses import (
    COPIES_IN,
    COPIES_ROWS,
    LOADS,
    STORES,
    fork,
    has_room,
    touch,
)
from wsemu.machine.matrix.tensor_multiply import (
    DESCRIPTOR,
    KIND,
    RESERVED,
    RESERVED_BITS,
    SWIZZLE,
    VERSION,
    multiply,
)
from wsemu.machine.matrix.tensor_operands import (
    element_offset,
    is_outside,
    prepare_shared,
    read_operand,
    shared_place,
    swizzle_mode,
    word_index,
)
from wsemu.machine.matrix.tensor_rights import (
    allocate,
    free,
    judge_group,
    judge_leaks,
    may_allocate,
    owns_columns,
    relinquish,
)
from wsemu.machine.matrix.tensor_shapes import ROWS_WRITTEN
from wsemu.machine.memory.cell_bits import BULK
from wsemu.machine.records import (
    agent_at,
    groups_at,
    instruction_at,
    machine_at,
    mbarrier_at,
    record_finding,
    segment_at,
    tensor_cta_at,
    warp_at,
)
from wsemu.machine.scalars import load_i64, load_u8, load_u32, lowest_bit, store_u8, store_u32
from wsemu.machine.state import ARRIVES, DONE, ENDS, STARTS
from wsemu.machine.sync.clocks import begin_interval
from wsemu.machine.sync.events import ARRIVALS, log, note_operand, report_failure
from wsemu.machine.sync.lane_clocks import (
    give_inherited,
    give_times,
    heads,
    inherit_known,
    order_tensor_accesses,
    published_bits,
    refresh,
)
from wsemu.machine.sync.lane_clocks import set_bit as set_agent_bit
from wsemu.machine.sync.mbarrier import (
    complete_if_met,
    enough,
    find_credited,
    good_addresses,
    is_far,
    judge_registering,
    registers_last,
)
from wsemu.machine.sync.peers import reach
from wsemu.machine.sync.phases import (
    address_of,
    join_known,
    judge_observed,
    note_cover,
    note_followed,
    set_bit,
)
from wsemu.model.codes import CODE_NUMBERS
from wsemu.model.isa import LANES, OPCODE, ROW, SHARED
from wsemu.model.tensor_memory import (
    BY_USE,
    CP_SHAPE_BITS,
    DECOMPRESS_SHIFT,
    MULTICAST,
    OF_STORES,
    OFFSET_SHIFT,
    OPERATIONS,
    PACKED,
    PAIR,
    REPEAT_BITS,
    REPEAT_SHIFT,
    SHAPE_BITS,
    SHAPES,
)

ALLOC, DEALLOC, RELINQUISH, LOAD, STORE, WAIT, FENCE, COPY, MULTIPLY, COMMIT = (OPCODE[name] for name in OPERATIONS)
QUARTER, MISALIGNED, MANY, UNWRITTEN = (
    CODE_NUMBERS[name]
    for name in ("tmem-wrong-quarter", "tmem-misaligned-lane", "tcgen05-issued-by-many", "tmem-uninitialized")
)
OF_LOADS_KIND, OF_STORES_KIND = 4, 5
"""kinds of a warp's groups of loads and stores that it has not waited for"""
S32, S64, S128, S256, SPLIT = range(5)
"""shapes of ld and st"""
OF_ROWS, OF_LANES = len(SHAPES), len(SHAPES) + 1
"""`shape` of a finding about a cp: of shape 4x256b; of another shape"""
WHOLE, ROWS4, HALF, TWO_02, TWO_01, FOUR = range(6)
"""shapes of a cp, by their numbers in `aux`"""


def tensor_memory_operation(address, w, pc, mask):
    """Execute an operation for the lanes of `mask`, and return a status, which may be STANDS. Called by address.

    STARTS, ENDS: a group of CTAs starts or ends. With -4 - pc, return whether lanes that wait at an alloc continue.
    """
    m = machine_at(address, 0)
    if pc == STARTS:
        return start(m)
    if pc == ENDS:
        judge_leaks(m)
        return DONE
    warp = warp_at(m.warps, w)
    registers = warp.registers
    if pc < 0:
        i = instruction_at(m.code, -4 - pc)
        if not may_allocate(m, w, registers, i, mask):
            return 0
        allocate(m, w, -4 - pc, registers, i, mask, 1)
        return 1
    i = instruction_at(m.code, pc)
    op = i.op
    if op in (LOAD, STORE):
        return move(m, warp, w, pc, i, mask)
    if op == WAIT:
        if i.aux & BY_USE == 0:
            gather_lanes(m, warp, w, pc, mask)
        await_moves(m, warp, w, pc, i, mask)
        return DONE
    if op in (MULTIPLY, COPY):
        return issue(m, warp, w, pc, i, mask)
    if op == COMMIT:
        return commit(m, w, pc, registers, i, mask)
    if op == ALLOC:
        return allocate(m, w, pc, registers, i, mask, 0)
    if op == DEALLOC:
        return free(m, w, pc, registers, i, mask)
    if op == RELINQUISH:
        return relinquish(m, w, pc, i, mask)
    if m.clocks and m.tensor_fences:
        order_tensor_accesses(m, w, mask, i.aux)
    return DONE


@compiled
def start(m):
    """Reset allocations at the start of a group."""
    m.tensor_count = 0
    m.relying = 1  # so that all bitmaps of rows are joined
    for member in range(m.members):
        cta = tensor_cta_at(m.tensor_ctas, member)
        cta.owned = 0
        cta.starts = 0
        cta.relinquished = 0
        cta.last = 0
        cta.allocations = 0
        cta.columns = 0
        cta.group = 0
        cta.offered = 0
        cta.promised = 0
        for q in range(5):
            cta.filled[q] = 0
    return DONE


# -- ld and st ---------------------------------------------------------------------------------------------------------


@compiled
def tensor_lane(shape, t, r):
    """Return the lane of tensor memory for register r of lane t, relative to the first lane of the access."""
    if shape == S32:
        return t
    if shape == S64:
        return 8 * (t & 1) + (t >> 2)
    if shape == S128:
        return (t >> 2) + 8 * (r & 1)
    if shape == S256:
        return (t >> 2) + 8 * ((r >> 1) & 1)
    return t & 15


@compiled
def tensor_column(shape, t, r, distance):
    """Return the column of tensor memory for register r of lane t, relative to the first column."""
    if shape == S32:
        return r
    if shape == S64:
        return ((t >> 1) & 1) + 2 * r
    if shape == S128:
        return (t & 3) + 4 * (r >> 1)
    if shape == S256:
        return 2 * (t & 3) + (r & 1) + 8 * (r >> 2)
    return r + distance * (t >> 4)


@compiled
def register_count(shape, repeat):
    """Return the registers of a lane in an access."""
    return (4 if shape == S256 else 2 if shape == S128 else 1) << repeat


@compiled
def column_span(shape, repeat):
    """Return the columns of an access that is not packed."""
    return (8 if shape == S256 else 4 if shape == S128 else 2 if shape == S64 else 1) << repeat


@compiled
def is_misplaced(m, w, pc, mask, address, shape, quarter):
    """Report an address with lanes that the warp cannot access, or whose first lane the shape does not allow."""
    told = (address >> 21) & 3
    inside = (address >> 16) & 31
    if told != 0 and told != quarter:
        record_finding(m.report_entry, m.address, (QUARTER, pc, w, mask, -1, -1), (told, quarter, 0, 0, 0))
    aligned = inside == 0 if shape in (S32, SPLIT) else inside & 15 == 0
    if not aligned or address >> 23:
        record_finding(m.report_entry, m.address, (MISALIGNED, pc, w, mask, -1, -1), (address >> 16, shape, 0, 0, 0))
        return True
    return False


@compiled
def move(m, warp, w, pc, i, mask):
    """Execute a ld or st, and return a status."""
    shape, repeat = i.aux & SHAPE_BITS, (i.aux >> REPEAT_SHIFT) & REPEAT_BITS
    packed = (i.aux & PACKED) != 0
    distance = i.aux >> OFFSET_SHIFT
    lane = lowest_bit(mask)
    address = load_u32(warp.registers + i.a + 4 * lane)
    quarter = (w % m.cta_warps) & 3
    span = column_span(shape, repeat) << packed
    stores = i.op == STORE
    status = room(m, 1)
    if status == DONE:
        status = has_room(m)
    if status != DONE:
        return status
    m.serial += 1
    gather_lanes(m, warp, w, pc, mask)
    column = address & 0xFFFF
    good = not is_misplaced(m, w, pc, mask, address, shape, quarter)
    if good:
        good = owns_columns(m, w, pc, lane, warp.member, column, span, True)
    if good and shape == SPLIT:
        good = owns_columns(m, w, pc, lane, warp.member, column + distance, span, True)
    if not good:
        if not stores:
            clear_registers(warp.registers + i.d, register_count(shape, repeat), mask)
        return DONE
    first = 32 * quarter + ((address >> 16) & 31)
    log(m, COPIED, w, pc, -1, -1, mask, 4 * register_count(shape, repeat))
    note_operand(m, distance << 32 | address)
    number = fork(m, w, lane, pc)
    if m.clocks:
        enter_group(m, w, 0, OF_STORES_KIND if stores else OF_LOADS_KIND, number)
    bands = (3 if shape == S32 else 1) << (first >> 4)
    what = STORES if stores else LOADS
    touch(m, w, mask, pc, number, warp.member, what, 1, 0, bands, column, column + span)
    if shape == SPLIT:
        low = column + distance
        touch(m, w, mask, pc, number, warp.member, what, 1, 0, bands, low, low + span)
    if stores:
        store_words(m, warp, i, mask, shape, register_count(shape, repeat), first, column, distance, packed)
    else:
        load_words(m, warp, w, pc, i, mask, shape, register_count(shape, repeat), first, column, distance, packed)
    return DONE


@compiled
def clear_registers(row, count, mask):
    """Set registers to 0 if nothing can be loaded."""
    for r in range(count):
        rest = mask
        while rest:
            store_u32(row + ROW * r + 4 * lowest_bit(rest), 0)
            rest &= rest - 1


@compiled
def store_words(m, warp, i, mask, shape, count, first, column, distance, packed):
    for r in range(count):
        for t in set_bits(mask):
            value = load_u32(warp.registers + i.b + ROW * r + 4 * t)
            lane = first + tensor_lane(shape, t, r)
            if packed:
                c = column + 2 * (tensor_column(shape, t, r, 0)) + distance * (shape == SPLIT and t >> 4)
                put_word(m, warp.member, lane, c, value & 0xFFFF)
                put_word(m, warp.member, lane, c + 1, value >> 16)
            else:
                put_word(m, warp.member, lane, column + tensor_column(shape, t, r, distance), value)


@compiled
def put_word(m, member, lane, column, value):
    at = word_index(member, lane, column)
    store_u32(m.columns + 4 * at, value)
    store_u8(m.columns_written + at, 1)


@compiled
def load_words(m, warp, w, pc, i, mask, shape, count, first, column, distance, packed):
    unwritten = 0
    where = 0
    for r in range(count):
        for t in set_bits(mask):
            lane = first + tensor_lane(shape, t, r)
            if packed:
                c = column + 2 * (tensor_column(shape, t, r, 0)) + distance * (shape == SPLIT and t >> 4)
                at = word_index(warp.member, lane, c)
                value = (load_u32(m.columns + 4 * at) & 0xFFFF) | load_u32(m.columns + 4 * at + 512) << 16
                known = load_u8(m.columns_written + at) & load_u8(m.columns_written + at + 128)
            else:
                c = column + tensor_column(shape, t, r, distance)
                at = word_index(warp.member, lane, c)
                value = load_u32(m.columns + 4 * at)
                known = load_u8(m.columns_written + at)
            if known == 0:
                if unwritten == 0:
                    where = lane << 16 | c
                unwritten |= 1 << t
            store_u32(warp.registers + i.d + ROW * r + 4 * t, value)
    if unwritten:
        record_finding(
            m.report_entry, m.address, (UNWRITTEN, pc, w, unwritten, -1, -1), (where & 0xFFFF, where >> 16, 0, 0, 0)
        )


@compiled
def await_moves(m, warp, w, pc, i, mask):
    """Record that the lanes of a warp have observed the completion of its loads, or stores."""
    if m.clocks == 0:
        return
    log(m, LANDED, w, pc, -1, 0, mask, 0)
    kind = OF_STORES_KIND if i.aux & OF_STORES else OF_LOADS_KIND
    g = groups_at(m.groups, group_tables(m, w, 0, kind))
    number = g.first
    if number:
        while number:
            rows = heads(m, w, warp.alive)
            while rows:
                know(m, w, lowest_bit(rows), number)
                rows &= rows - 1
            number = agent_at(m.agents, number - m.base - 1).next
        g.first = 0
        g.last = 0
        refresh(m, w)
    begin_interval(warp, w)


# -- cp and mma --------------------------------------------------------------------------------------------------------


@compiled
def issue(m, warp, w, pc, i, mask):
    """Issue a cp or mma by each executing lane, and return a status."""
    lanes = mask & ~m.lanes_done if m.resumes else mask
    if m.resumes == 0:
        m.lanes_done = 0
        judge_group(m, w, pc, i, mask)
        if mask & (mask - 1):
            record_finding(m.report_entry, m.address, (MANY, pc, w, mask, -1, -1), (0, 0, 0, 0, 0))
    for lane in set_bits(lanes):
        status = multiply(m, w, pc, warp.registers, i, lane) if i.op == MULTIPLY else copy(m, warp, w, pc, i, lane)
        if status != DONE:
            m.resumes = 1
            return status
        m.lanes_done |= 1 << lane
    m.lanes_done = 0
    m.resumes = 0
    return DONE


@compiled
def rows_of_copy(shape):
    """Return the rows in the source of a cp."""
    if shape == ROWS4:
        return 4
    return 32 if shape == FOUR else 64 if shape in (TWO_02, TWO_01) else 128


@compiled
def target_lane(shape, row, k):
    """Return the lane to which the k-th copy of a row goes."""
    if shape == ROWS4:
        return 32 * row
    if shape == TWO_02:
        return row + 64 * k
    if shape == TWO_01:
        return row + 32 * k if row < 32 else row + 32 + 32 * k
    return row + 32 * k


@compiled
def copy_count(shape):
    return 4 if shape == FOUR else 2 if shape in (TWO_02, TWO_01) else 1


@compiled
def copy(m, warp, w, pc, i, lane):
    """Execute the cp of a lane, and return a status."""
    shape, how = i.aux & CP_SHAPE_BITS, (i.aux >> DECOMPRESS_SHIFT) & 3
    pair = (i.aux & PAIR) != 0
    to = load_u32(warp.registers + i.a + 4 * lane)
    descriptor = load_i64(warp.registers + i.b + 8 * lane)
    first = m.member & ~1 if pair else m.member
    columns = 8 if shape <= ROWS4 else 4
    rows = rows_of_copy(shape)
    wrong = 0
    if (descriptor >> 46) & 7 != 1:
        wrong = VERSION
    elif descriptor & RESERVED_BITS:
        wrong = RESERVED
    elif swizzle_mode(descriptor) in (1, 3, 5, 7):
        wrong = SWIZZLE
    if wrong:
        m.serial += 1
        record_finding(m.report_entry, m.address, (DESCRIPTOR, pc, w, 1 << lane, -1, -1), (wrong, descriptor, 7, 0, 0))
        return DONE
    if to >> 16 > (31 if shape == ROWS4 else 0):
        m.serial += 1
        kind = OF_ROWS if shape == ROWS4 else OF_LANES
        record_finding(m.report_entry, m.address, (MISALIGNED, pc, w, 1 << lane, -1, -1), (to >> 16, kind, 0, 0, 0))
        return DONE
    bad = 0
    for q in range(1 + pair):
        bad |= is_outside_copy(m, w, pc, lane, first + q, descriptor, rows, columns, False)
        bad |= not owns_columns(m, w, pc, lane, first + q, to & 0xFFFF, columns, False)
    if not bad:
        status = room(m, 1)
        if status == DONE:
            status = has_room(m)
        for q in range(1 + pair):
            if status == DONE:
                status = prepare_shared(m, pc, first + q, descriptor)
        if status != DONE:
            return status
    m.serial += 1
    if bad:
        for q in range(1 + pair):
            owns_columns(m, w, pc, lane, first + q, to & 0xFFFF, columns, True)
            is_outside_copy(m, w, pc, lane, first + q, descriptor, rows, columns, True)
        return DONE
    number = fork(m, w, lane, pc)
    base = 0
    if m.clocks:
        inherit_known(m, w, lane)
        base = access_cell(number, BULK + w, lane, pc)
        enter_group(m, w, lane, KIND, number)
    log(m, COPIED, w, pc, shared_place(m, first, (descriptor & 0x3FFF) << 4), -1, 1 << lane, 4 * rows * columns)
    note_operand(m, descriptor ^ to << 14)
    if pair:
        reach(m, w, pc, m.member ^ 1, 1 << lane, number, True)
    for q in range(1 + pair):
        copy_rows(m, w, pc, lane, number, base, first + q, to, descriptor, shape, how, pair)
    return DONE


@compiled
def is_outside_copy(m, w, pc, lane, member, descriptor, rows, columns, report):
    """Return whether a part of the source must not be read."""
    return is_outside(m, w, pc, lane, member, descriptor, 0, 1, columns >> 2, rows, report)


@compiled
def copy_rows(m, w, pc, lane, number, base, member, to, descriptor, shape, how, pair):
    """Copy the rows of a cp in one CTA."""
    rows, columns = rows_of_copy(shape), 8 if shape <= ROWS4 else 4
    bands = 0x55 << ((to >> 20) & 1) if shape == ROWS4 else 0xFF
    column, lowest = to & 0xFFFF, (to >> 16) & 127
    what = COPIES_ROWS if shape == ROWS4 else COPIES_IN
    touch(m, w, 1 << lane, pc, number, member, what, 1 + pair, 0, bands, column, column + columns)
    written = m.columns_scratch + ROWS_WRITTEN
    narrow = 6 if how == 1 else 4 if how == 2 else 0
    read_operand(m, w, pc, lane, number, base, member, descriptor, 0, 1, columns >> 2, narrow, rows, written)
    host = segment_at(m.segments, SHARED).host + (member << m.window)
    for row in range(rows):
        for c in range(columns):
            chunk = host + element_offset(descriptor, 0, 1, row, 16 * (c >> 2))
            value = load_u32(chunk + 4 * (c & 3)) if how == 0 else expand_elements(chunk, how, c & 3)
            for k in range(copy_count(shape)):
                at = word_index(member, target_lane(shape, row, k) + (lowest if shape == ROWS4 else 0), column + c)
                store_u32(m.columns + 4 * at, value)
                store_u8(m.columns_written + at, load_u8(written + row))


@compiled
def expand_elements(chunk, how, t):
    """Return four elements of 6 or 4 bits, each in its own byte, in the format of f8f6f4 in tensor memory."""
    if how == 1:
        bits = load_u8(chunk + 3 * t) | load_u8(chunk + 3 * t + 1) << 8 | load_u8(chunk + 3 * t + 2) << 16
        return (bits & 63) | (bits >> 6 & 63) << 8 | (bits >> 12 & 63) << 16 | (bits >> 18 & 63) << 24
    bits = load_u8(chunk + 2 * t) | load_u8(chunk + 2 * t + 1) << 8
    return ((bits & 15) | (bits >> 4 & 15) << 8 | (bits >> 8 & 15) << 16 | (bits >> 12 & 15) << 24) << 2


# -- commit ------------------------------------------------------------------------------------------------------------


@compiled
def commit(m, w, pc, registers, i, mask):
    """Execute a commit: each lane arrives after the completion of its earlier operations. Return a status."""
    if m.clocks:
        status = room(m, 16 * LANES)
        if status != DONE:
            return status
    m.serial += 1
    judge_group(m, w, pc, i, mask)
    if not good_addresses(m, w, pc, registers, i.a, 0, mask):
        return report_failure(m, w, pc)
    for lane in set_bits(mask):
        goals = 1 << m.member
        if i.aux & MULTICAST:
            goals = load_u32(registers + i.b + 4 * lane) & 0xFFFF
        while goals:
            member = lowest_bit(goals) if i.aux & MULTICAST and m.clusters else -1
            goals &= goals - 1
            at = find_credited(m, w, pc, registers, i.a, lane, member)
            if at < 0 or not arrive(m, w, pc, lane, mbarrier_at(m.mbarriers, at)):
                return report_failure(m, w, pc)
    return DONE


@compiled
def arrive(m, w, pc, lane, b):
    """Arrive on one mbarrier.  Return whether the hardware continues."""
    bit = 1 << lane
    if m.clusters and is_far(m, b):
        reach(m, w, pc, b.word >> (m.window - 3), bit, 0, False)
    if not enough(m, b, w, pc, bit, 1):
        return False
    if m.clocks:
        judge_registering(m, b, w, pc, bit)
        judge_observed(m, b, w, pc, bit)
        note_followed(m, b, w, bit)
        join_known(m, b.reach, w, bit)
        note_cover(m, b, w, bit)
        give_times(m, b.given[0], w, bit)
        give_inherited(m, b.given[0], w, lane)
        g = groups_at(m.groups, group_tables(m, w, lane, KIND))
        number = g.first
        while number:
            set_bit(m, b.given[0], number)
            if m.tensor_fences and number >= m.agent_low:
                set_agent_bit(b.given[0] + published_bits(m), number - m.agent_low)
            number = agent_at(m.agents, number - m.base - 1).next
        while g.first and g.first < m.agent_low and g.first != g.last:
            g.first = agent_at(m.agents, g.first - m.base - 1).next
        number = new_agent(m, w, lane, pc, ARRIVES, 0, 0)
        set_bit(m, b.given[0], number)
        set_bit(m, b.joined[0], number)
        set_bit(m, b.used, number)
    registers_last(b, w, pc)
    log(m, ARRIVALS, w, pc, address_of(b), b.phase, bit, 1)
    b.pending -= 1
    complete_if_met(m, b, w, pc, bit)
    return True
