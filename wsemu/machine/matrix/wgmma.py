"""`wgmma.mma_async` in compiled code: its values, and its reads of shared memory as an agent of the warp.

The four warps of a warpgroup must execute the same instructions, which is checked when the CTA exits. Each warp
computes its own 16 rows at the issue, which is one of the possible schedules. It reads shared memory by the async
proxy, at any time from its issue to the wait that covers it, in pieces of 16 bytes. The agent belongs to the lowest
lane. All lanes wait for it, and for the agents of the other three warps (`warpgroup.py`). PTX ISA, "Asynchronous
warpgroup level matrix instructions"; measured rules W1 to W6, W10, W12.
"""

from __future__ import annotations

from wsemu.machine.agents.agents import commit, enter_group, group_tables, know, new_agent, room
from wsemu.machine.agents.copies import COPIED, LANDED, access_cell
from wsemu.machine.agents.ranges import host_place, judge_written, prepare, touch_range
from wsemu.machine.lowering import compiled, set_bits
from wsemu.machine.matrix.multiply import ALL_CHUNKS, gather_lanes, step, take_a, take_b, take_sparse_a
from wsemu.machine.matrix.shapes import METADATA, RAW, SUMS
from wsemu.machine.matrix.tiles import ENDLESS, add_integers, load_sums, store_sums
from wsemu.machine.matrix.warpgroup import all_have_committed, know_group, note_commit, note_issue
from wsemu.machine.memory.cell_bits import BULK
from wsemu.machine.records import (
    agent_at,
    call,
    groups_at,
    instruction_at,
    machine_at,
    record_finding,
    segment_at,
    shape_at,
    warp_at,
)
from wsemu.machine.scalars import load_i64, load_u8, load_u32, lowest_bit, store_i64, store_u32
from wsemu.machine.state import COPIES, DONE, MULTIPLIES_FLOATS, STANDS
from wsemu.machine.sync.clocks import begin_interval
from wsemu.machine.sync.events import log
from wsemu.machine.sync.group import own_shared
from wsemu.machine.sync.lane_clocks import heads, refresh
from wsemu.model.codes import CODE_NUMBERS
from wsemu.model.isa import FIRST_WGMMA, FORGETS, LANES, READ, ROW, SEGMENT_SHIFT, SHARED, UNFENCED, opcodes
from wsemu.model.matrix import (
    CLAMPS,
    COLUMNS,
    GROUP_BYTE_BITS,
    GROUP_ROUNDS_ONCE,
    GROUP_SELECTOR_SHIFT,
    MMA,
    NEGATES_A,
    NEGATES_B,
    OLDEST_GROUP,
    TURNS_A,
    TURNS_B,
)

COMMIT, WAIT, TRACK, TOUCH, CHECK = opcodes("wgmma", "commit", "wait", "track", "touch", "check")
TOUCHED, NOT_FENCED = CODE_NUMBERS["wgmma-register"], CODE_NUMBERS["wgmma-unfenced"]
APART = CODE_NUMBERS["wgmma-divergence"]
INCOMPLETE, ABSENT, DIFFERENT, UNEQUAL, OUT_OF_STEP = range(5)
"""detail[0] of a finding of APART"""
KIND = 2
"""kind of the groups of `wgmma`"""
SHAPES_BEFORE = len(MMA)
MIX = 0x2545F4914F6CDD1D
PIECE = 16
"""number of contiguous bytes of an operand"""


def group_operation(address, w, pc, mask):
    """Execute a `wgmma` operation for the lanes of `mask`, and return a status, which may be STANDS. Called by address.

    With pc -1, when the CTA exits, check what its warps have executed. Without lanes, return whether waiting lanes
    continue.
    """
    m = machine_at(address, 0)
    if pc < 0:
        compare_warps(m)
        return DONE
    warp = warp_at(m.warps, w)
    i = instruction_at(m.code, pc)
    if mask == 0:
        return all_have_committed(m, w)
    if i.op >= FIRST_WGMMA:
        return multiply(m, warp, w, pc, i, mask)
    if i.op == TRACK:
        warp.flying[0] |= i.imm
    elif i.op == TOUCH:
        warp.unfenced = warp.unfenced & ~i.imm if i.aux == FORGETS else warp.unfenced | i.imm
    elif i.op == CHECK:
        check_registers(m, warp, w, pc, i, mask)
    else:
        gather_lanes(m, warp, w, pc, mask)
        order_groups(m, warp, w, pc, i, mask)
        if i.op == COMMIT and not all_have_committed(m, w):
            return STANDS
    return DONE


@compiled
def order_groups(m, warp, w, pc, i, mask):
    """Execute a fence, a commit, or a wait."""
    warp.grouped = (warp.grouped ^ (pc + 1)) * MIX + 1
    warp.grouped_pc = pc
    if i.op == COMMIT:
        warp.flying[OLDEST_GROUP] |= warp.flying[OLDEST_GROUP - 1]
        for age in range(OLDEST_GROUP - 1):
            warp.flying[OLDEST_GROUP - 1 - age] = warp.flying[OLDEST_GROUP - 2 - age]
        warp.flying[0] = 0
        warp.committed += 1
        if m.clocks:
            commit(m, w, 1, KIND)
            note_commit(m, w)
    elif i.op == WAIT:
        for age in range(i.imm + 1, OLDEST_GROUP + 1):
            warp.flying[age] = 0
        if m.clocks:
            await_group(m, warp, w, pc, i.imm, mask)
    else:
        warp.unfenced = 0


@compiled
def check_registers(m, warp, w, pc, i, mask):
    """Check that the next instruction does not use registers of a `wgmma` in flight, and that a fence has ordered its
    own."""
    unfenced = i.aux == UNFENCED
    wrong = i.imm & (warp.unfenced if unfenced else warp.flying[i.aux])
    if wrong:
        code = NOT_FENCED if unfenced else TOUCHED
        record_finding(m.report_entry, m.address, (code, pc, w, mask, -1, -1), (wrong & -wrong, 0, 0, 0, 0))


@compiled
def compare_warps(m):
    """Report, when the CTA exits, warpgroups whose four warps have executed different operations, once for each."""
    told = -1
    for w in range(m.warp_count):
        number = w % m.cta_warps
        first = w - (number & 3)
        own = warp_at(m.warps, w)
        other = warp_at(m.warps, first)
        if told == first:
            continue
        if (number | 3) >= m.cta_warps:
            if own.multiplied:
                report_divergence(m, own.multiplied_pc, w, -1, -1, INCOMPLETE)
                told = first
        elif own.multiplied != other.multiplied:
            if own.multiplied and other.multiplied:
                report_divergence(m, own.multiplied_pc, w, other.multiplied_pc, first, DIFFERENT)
            elif own.multiplied:
                report_divergence(m, own.multiplied_pc, w, -1, first, ABSENT)
            else:
                report_divergence(m, other.multiplied_pc, first, -1, w, ABSENT)
            told = first
        elif own.grouped != other.grouped:
            if own.grouped_pc >= 0:
                report_divergence(m, own.grouped_pc, w, other.grouped_pc, first, OUT_OF_STEP)
            else:
                report_divergence(m, other.grouped_pc, first, -1, w, OUT_OF_STEP)
            told = first


@compiled
def compare_lanes(m, warp, w, pc, i, mask, shared):
    """Report a product whose descriptors, or whose use of the accumulator, differ between lanes."""
    first = lowest_bit(mask)
    used = load_u32(warp.registers + i.imm) & mask
    equal = used == 0 or used == mask
    for lane in set_bits(mask):
        equal &= load_i64(warp.registers + i.b + 8 * lane) == load_i64(warp.registers + i.b + 8 * first)
        if shared:
            equal &= load_i64(warp.registers + i.a + 8 * lane) == load_i64(warp.registers + i.a + 8 * first)
    if not equal:
        report_divergence(m, pc, w, -1, -1, UNEQUAL)


@compiled
def report_divergence(m, pc, w, other_pc, other, what):
    lanes = (1 << LANES) - 1
    record_finding(m.report_entry, m.address, (APART, pc, w, lanes, other_pc, other), (what, 0, 0, 0, 0))


@compiled
def remember(warp, pc, a, b, uses):
    """Record that a warp has executed a `wgmma` with these operands."""
    mixed = warp.multiplied
    mixed = (mixed ^ (pc + 1)) * MIX + 1
    mixed = (mixed ^ a) * MIX + 1
    mixed = (mixed ^ b) * MIX + 1
    warp.multiplied = (mixed ^ uses) * MIX + 1
    warp.multiplied_pc = pc
    warp.grouped = (warp.grouped ^ (pc + 1)) * MIX + 1


@compiled
def await_group(m, warp, w, pc, left, mask):
    """Record that all lanes have observed the agents of all groups but the last `left`, of all warps in the
    warpgroup."""
    log(m, LANDED, w, pc, -1, left, mask, 0)
    g = groups_at(m.groups, group_tables(m, w, 0, KIND))
    end = g.committed - left
    number = g.first
    found = False
    while number:
        a = agent_at(m.agents, number - m.base - 1)
        if a.group >= end:
            break
        rows = heads(m, w, warp.alive)
        while rows:
            know(m, w, lowest_bit(rows), number)
            rows &= rows - 1
        found = True
        number = a.next
    g.first = number
    if found:
        refresh(m, w)
    know_group(m, w, left)
    begin_interval(warp, w)


# -- where operands lie ------------------------------------------------------------------------------------------------


@compiled
def offset_of(descriptor, turned, row, k):
    """Return the offset in shared memory of (row of `a` or column of `b`, byte of k); if `turned`, of (row, k) in
    elements of 2 bytes (W12)."""
    mode = (descriptor >> 62) & 3
    wide = (256 >> mode) if mode else 16
    leading, stride = ((descriptor >> 16) & 0x3FFF) << 4, ((descriptor >> 32) & 0x3FFF) << 4
    at = (descriptor & 0x3FFF) << 4
    if not turned:
        at += (row >> 3) * stride + (row & 7) * wide
        at += k if mode else (k >> 4) * leading + (k & 15)
    elif mode:
        across = wide >> 1
        at += (row // across) * leading + (k >> 3) * stride + (k & 7) * wide + 2 * (row % across)
    else:
        at += (row >> 3) * stride + (k >> 3) * leading + (k & 7) * 16 + 2 * (row & 7)
    if mode:
        base = (descriptor >> 49) & 7
        at ^= (((at >> 7) - base) & ((1 << (4 - mode)) - 1)) << 4
    return at


@compiled
def piece_at(m, descriptor, turned, first, q, deep):
    """Return the address of the q-th 16 bytes of some rows from `first` on, each of 32 * deep bytes."""
    if turned:
        lines = 16 * deep
        at = offset_of(descriptor, turned, first + 8 * (q // lines), q % lines)
    else:
        pieces = 2 * deep
        at = offset_of(descriptor, turned, first + q // pieces, PIECE * (q % pieces))
    return (SHARED << SEGMENT_SHIFT) + own_shared(m) + at


@compiled
def outside(m, w, pc, lane, descriptor, turned, first, rows, deep, report):
    """Return whether any piece of an operand must not be read; with `report`, report the first one."""
    for q in range(2 * rows * deep):
        place = piece_at(m, descriptor, turned, first, q, deep)
        if host_place(m, w, pc, lane, place, PIECE, PIECE, False, True, False) == 0:
            if report:
                host_place(m, w, pc, lane, place, PIECE, PIECE, False, True, True)
            return True
    return False


@compiled
def read_all(m, w, pc, lane, descriptor, turned, first, rows, deep, base):
    """Check and record the reads of an operand."""
    for q in range(2 * rows * deep):
        place = piece_at(m, descriptor, turned, first, q, deep)
        judge_written(m, w, pc, lane, SHARED, place - (SHARED << SEGMENT_SHIFT), PIECE)
        if m.clocks:
            touch_range(m, w, lane, pc, place, PIECE, READ, base, True)


# -- values ------------------------------------------------------------------------------------------------------------


@compiled
def word_of(m, descriptor, turned, row, group, t):
    """Return the elements of a register: those of k from byte 16 * group + 4 * t on."""
    host = segment_at(m.segments, SHARED).host + own_shared(m)
    if not turned:
        return load_u32(host + offset_of(descriptor, turned, row, 16 * group + 4 * t))
    low = host + offset_of(descriptor, turned, row, 8 * group + 2 * t)
    high = host + offset_of(descriptor, turned, row, 8 * group + 2 * t + 1)
    return load_u8(low) | load_u8(low + 1) << 8 | load_u8(high) << 16 | load_u8(high + 1) << 24


@compiled
def signs_of(s):
    """Return the sign bits of a register's elements."""
    return 0x80008000 if s.width == 16 else 0x80808080 if s.width == 8 else 0x80000000


@compiled
def gather_a(m, s, warp, i, descriptor, shared, first):
    """Load the registers of `a` into RAW, in the layout of a multiplication."""
    flip = signs_of(s) if i.aux & NEGATES_A else 0
    for r in range(4):
        for lane in range(LANES):
            if shared:
                row = first + (lane >> 2) + 8 * (r & 1)
                word = word_of(m, descriptor, i.aux & TURNS_A, row, r >> 1, lane & 3)
            else:
                word = load_u32(warp.registers + i.a + ROW * r + 4 * lane)
            store_u32(m.matrix + RAW + ROW * r + 4 * lane, word ^ flip)


@compiled
def gather_b(m, s, i, descriptor, column):
    flip = signs_of(s) if i.aux & NEGATES_B else 0
    for r in range(s.groups):
        for lane in range(LANES):
            word = word_of(m, descriptor, i.aux & TURNS_B, column + (lane >> 2), r, lane & 3)
            store_u32(m.matrix + RAW + 1024 + ROW * r + 4 * lane, word ^ flip)


@compiled
def take_operand_a(m, s, warp, i, shared):
    """Unpack `a` from RAW; return 1 if some element is not finite."""
    if s.chunk == 0:
        return take_a(m, s, m.matrix + RAW, 0)
    metadata = warp.registers + i.a + 4 * ROW
    if shared:  # in a register as wide as the descriptor before it
        metadata = m.matrix + METADATA
        for lane in range(LANES):
            store_u32(metadata + 4 * lane, load_u32(warp.registers + i.a + ROW + 8 * lane))
    selector = (i.aux >> GROUP_SELECTOR_SHIFT) & 1
    return take_sparse_a(m, s, m.matrix + RAW, metadata, selector, ALL_CHUNKS, 0)


@compiled
def multiply(m, warp, w, pc, i, mask):
    """Execute the `wgmma` of a warp, and return a status."""
    lane = lowest_bit(mask)
    columns = 8 * (i.aux & COLUMNS)
    shared = (i.op - FIRST_WGMMA) & 1
    a = load_i64(warp.registers + i.a + 8 * lane) if shared else 0
    b = load_i64(warp.registers + i.b + 8 * lane)
    first = 16 * ((w - m.first_warp) & 3)
    of_a = 16 if shared else 0
    turned_a, turned_b = i.aux & TURNS_A, i.aux & TURNS_B
    s = shape_at(m.matrix_shapes, SHAPES_BEFORE + i.op - FIRST_WGMMA)
    deep = s.groups >> 1
    bad = outside(m, w, pc, lane, a, turned_a, first, of_a, 1, False)
    bad |= outside(m, w, pc, lane, b, turned_b, 0, columns, deep, False)
    start = piece_at(m, b, turned_b, 0, 0, deep)
    if not bad:
        status = room(m, 1)
        if status == DONE:
            status = prepare(m, pc, start, PIECE, False)
        if status != DONE:
            return status
    gather_lanes(m, warp, w, pc, mask)
    m.serial += 1
    registers = 2 if s.bytes == 2 else 4
    uses = (load_u32(warp.registers + i.imm) >> lane) & 1
    remember(warp, pc, a, b, uses)
    compare_lanes(m, warp, w, pc, i, mask, shared)
    if bad:
        outside(m, w, pc, lane, a, turned_a, first, of_a, 1, True)
        outside(m, w, pc, lane, b, turned_b, 0, columns, deep, True)
    else:
        size = 2 * PIECE * (columns * deep + of_a)
        base = 0
        if m.clocks:
            number = new_agent(m, w, lane, pc, COPIES, start, size)
            base = access_cell(number, BULK + w, lane, pc)
            enter_group(m, w, 0, KIND, number)
            note_issue(m, w, number)
        log(m, COPIED, w, pc, start, -1, mask, size)
        read_all(m, w, pc, lane, a, turned_a, first, of_a, 1, base)
        read_all(m, w, pc, lane, b, turned_b, 0, columns, deep, base)
        gather_a(m, s, warp, i, a, shared, first)
    special = 0
    if not bad:
        special = take_operand_a(m, s, warp, i, shared)
    for block in range(columns >> 3):
        place = ROW * registers * block
        if uses or bad:
            load_sums(warp.registers + i.c + place, m.matrix, s.halves, s.bytes)
        else:
            for q in range(64):
                store_i64(m.matrix + SUMS + 8 * q, 0)
        if not bad:
            gather_b(m, s, i, b, 8 * block)
            of_b = special | take_b(m, s, m.matrix + RAW + 1024, 0)
            if s.what == MULTIPLIES_FLOATS and i.aux & GROUP_ROUNDS_ONCE:
                call(m.exact_entry, m.address, SHAPES_BEFORE + i.op - FIRST_WGMMA, of_b & ENDLESS)
            else:
                add_block(m, s, of_b, i.aux & CLAMPS)
        store_sums(warp.registers + i.d + place, m.matrix, s.halves, s.bytes, mask)
    return DONE


@compiled
def add_block(m, s, special, clamped):
    """Add all products of a step of k at once (W1, W5)."""
    half = s.bytes == 2
    if s.what != MULTIPLIES_FLOATS:
        add_integers(m.matrix, m.matrix, s.halves, s.parts, s.groups, s.what - 1, clamped)
        return
    bits = GROUP_BYTE_BITS if s.byte else 25
    fraction = GROUP_BYTE_BITS if s.byte else 23
    step(m, s, 0, s.groups, 0, s.parts, bits, half, fraction, special)
