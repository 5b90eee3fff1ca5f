"""Asynchronous copies in compiled code: cp.async, cp.async.bulk, cp.reduce.async.bulk, and waits for groups of them.

A copy is performed when it is issued, by an agent (`agents.py`) that forks from its thread there: this is one of the
possible schedules. Copies of cp.async use the generic proxy, bulk copies use the async proxy on both sides. Rules C1 to
C10 and T1 to T10 were measured; PTX ISA, "cp.async", "cp.async.bulk".
"""

from __future__ import annotations

from wsemu.machine.agents.agents import await_groups, commit, enter_group, new_agent, report_outliving, room
from wsemu.machine.agents.ranges import (
    OTHERS,
    OWN,
    host_place,
    judge_some,
    judge_written,
    note_written,
    prepare,
    touch_piece,
    touch_range,
)
from wsemu.machine.agents.reductions import combine_elements, element_bytes
from wsemu.machine.lowering import compiled, set_bits
from wsemu.machine.memory.bounds import MISALIGNED
from wsemu.machine.memory.cell_bits import (
    ATOMIC_BIT,
    BULK,
    GENERIC,
    HIGH_SHIFT,
    INTERVAL_SHIFT,
    LOW_SHIFT,
    WARP_SHIFT,
)
from wsemu.machine.memory.read_only import claim, mark
from wsemu.machine.memory.window import cast_to
from wsemu.machine.records import (
    claim_at,
    instruction_at,
    machine_at,
    record_finding,
    segment_at,
    warp_at,
)
from wsemu.machine.scalars import load_i64, load_u8, load_u32, lowest_bit, popcount, store_i64, store_u8, store_u32
from wsemu.machine.state import COPIES, DONE, EVENT_KINDS, READS_DONE, SENDS, STORED, STORES, UNUSED_SHIFT
from wsemu.machine.sync.clobber import clobbers, objects_live
from wsemu.machine.sync.clocks import begin_interval
from wsemu.machine.sync.events import log
from wsemu.model.codes import CODE_NUMBERS
from wsemu.model.isa import (
    ADDRESS_WRAPPED,
    ALL,
    ATOMIC,
    LANES,
    OFFSET_MASK,
    ONLY_READ,
    READ,
    SEGMENT_SHIFT,
    WRITE,
    opcodes,
)

COMMIT, WAIT, COPY4, COPY8, COPY16 = opcodes("cp.async", "commit", "wait", "b32", "b64", "b128")
LOAD, STORE, REDUCE = opcodes("bulk", "load", "store", "reduce")
BULK_COMMIT, BULK_WAIT, PREFETCH, ZERO = opcodes("bulk", "commit", "wait", "prefetch", "zero")
SEND, SEND_REDUCE, MULTICAST = opcodes("bulk", "send", "send_reduce", "multicast")
COPY_SIZE = CODE_NUMBERS["copy-size"]
COPIED, LANDED, COMMITTED = (EVENT_KINDS.index(kind) for kind in ("copy", "landed", "commit"))
WHOLE = 0xFFFF
"""mask of a bulk store that writes all bytes"""


@compiled
def access_cell(number, actor, lane, pc):
    """Return an access of an agent or a lane in the form of a cell."""
    return number << INTERVAL_SHIFT | actor << WARP_SHIFT | lane << LOW_SHIFT | lane << HIGH_SHIFT | pc


@compiled
def lane_address(registers, row, imm, lane):
    return load_i64(registers + row + 8 * lane) + imm


@compiled
def copy_width(op):
    """Return the bytes that a cp.async writes."""
    return 4 if op == COPY4 else 8 if op == COPY8 else 16


@compiled
def copy_size(registers, i, lane):
    """Return the bytes that a copy reads: the requested number, if it is valid (C1, T1)."""
    size = load_u32(registers + i.c + 4 * lane)
    if i.op > COPY16:
        return size & ~15
    width = copy_width(i.op)
    return size if size <= width else ((size - 1) & (width - 1)) + 1


@compiled
def judge_sizes(m, w, pc, registers, i, mask):
    """Report invalid sizes of a copy."""
    for lane in set_bits(mask):
        size = load_u32(registers + i.c + 4 * lane)
        if size != copy_size(registers, i, lane):
            what = i.op <= COPY16
            bit = 1 << lane
            record_finding(m.report_entry, m.address, (COPY_SIZE, pc, w, bit, -1, -1), (size, what, 0, 0, 0))


@compiled
def move(to, from_, size):
    q = 0
    while q + 8 <= size:
        store_i64(to + q, load_i64(from_ + q))
        q += 8
    while q < size:
        store_u8(to + q, load_u8(from_ + q))
        q += 1


@compiled
def clear(to, size):
    q = 0
    while q + 8 <= size:
        store_i64(to + q, 0)
        q += 8
    while q < size:
        store_u8(to + q, 0)
        q += 1


@compiled
def segment_number(address):
    return (address & ~ADDRESS_WRAPPED) >> SEGMENT_SHIFT


# -- cp.async ----------------------------------------------------------------------------------------------------------


@compiled
def copy_small(m, w, pc, registers, i, mask):
    """Execute `cp.async`, and return a status."""
    width = copy_width(i.op)
    status = room(m, popcount(mask))
    rest = mask
    while rest and status == DONE:  # checked for all lanes before anything is done
        lane = lowest_bit(rest)
        rest &= rest - 1
        to, from_ = lane_address(registers, i.a, i.imm, lane), lane_address(registers, i.b, 0, lane)
        size = copy_size(registers, i, lane)
        if host_place(m, w, pc, lane, to, width, width, True, OWN, False) == 0:
            continue
        if size == 0 or host_place(m, w, pc, lane, from_, size, width, False, False, False):
            status = prepare(m, pc, to, width, True)
            if status == DONE:
                status = prepare(m, pc, from_, size, False)
    if status != DONE:
        return status
    m.serial += 1
    judge_sizes(m, w, pc, registers, i, mask)
    made = 0
    for lane in set_bits(mask):
        made |= copy_lane(m, w, pc, registers, i, lane, width) << lane
    if objects_live(m):
        clobbers(m, w, pc, registers, i.a, i.imm, made, width, 0, WRITE)
    return DONE


@compiled
def copy_lane(m, w, pc, registers, i, lane, width):
    """Execute the `cp.async` of a lane, and return whether it is performed."""
    to, from_ = lane_address(registers, i.a, i.imm, lane), lane_address(registers, i.b, 0, lane)
    size = copy_size(registers, i, lane)
    source = 1
    if size:
        source = host_place(m, w, pc, lane, from_, size, width, False, False, True)
    host = host_place(m, w, pc, lane, to, width, width, True, OWN, True)
    if host == 0 or source == 0:
        return False
    log(
        m, COPIED, w, pc, to & ~ADDRESS_WRAPPED, from_ & ~ADDRESS_WRAPPED if size else -1,
        1 << lane, width,
    )  # fmt: skip
    if size:
        judge_written(m, w, pc, lane, segment_number(from_), from_ & OFFSET_MASK, size)
    if m.clocks:
        number = new_agent(m, w, lane, pc, COPIES, to & ~ADDRESS_WRAPPED, width)
        base = access_cell(number, GENERIC + w, lane, pc)
        touch_range(m, w, lane, pc, from_, size, READ, base, False)
        touch_range(m, w, lane, pc, to, width, WRITE, base, False)
        enter_group(m, w, lane, 0, number)
    note_written(m, segment_number(to), to & OFFSET_MASK, width)
    if size:
        move(host, source, size)
    clear(host + size, width - size)
    return True


# -- bulk copies -------------------------------------------------------------------------------------------------------


@compiled
def sends(i):
    """Return whether a bulk copy goes from the CTA's shared memory to that of another one."""
    return i.op in (SEND, SEND_REDUCE)


@compiled
def copy_goal(i):
    """Return the location in shared memory that a bulk copy is allowed to write."""
    if sends(i):
        return OTHERS
    return OWN if i.aux & 1 else 1


@compiled
def prepare_bulk(m, w, pc, registers, i, lane, shared):
    """Return DONE if a lane's copy can be performed; `shared`: it writes shared memory."""
    to, from_ = cast_to(m, lane_address(registers, i.a, 0, lane)), lane_address(registers, i.b, 0, lane)
    size = copy_size(registers, i, lane)
    goal = copy_goal(i) if shared else 0
    if size == 0 or host_place(m, w, pc, lane, to, size, 16, True, goal, False) == 0:
        return DONE
    start = 0 if shared and not sends(i) else OWN
    if host_place(m, w, pc, lane, from_, size, 16, False, start, False) == 0:
        return DONE
    grain = 0
    if i.op == STORE and load_u32(registers + i.imm + 4 * lane) & WHOLE != WHOLE:
        grain = 1
    status = prepare(m, pc, to | grain, size, True)
    return prepare(m, pc, from_ | grain, size, False) if status == DONE else status


@compiled
def load_lane(m, w, pc, registers, i, lane):
    """Execute the bulk load of a lane, with its completed bytes in `m.credited`, and return a status."""
    status = room(m, 1)
    if status == DONE:
        status = prepare_bulk(m, w, pc, registers, i, lane, True)
    if status != DONE:
        return status
    size = copy_size(registers, i, lane)
    m.credited = size
    if size == 0:
        return DONE
    to, from_ = cast_to(m, lane_address(registers, i.a, 0, lane)), lane_address(registers, i.b, 0, lane)
    source = host_place(m, w, pc, lane, from_, size, 16, False, OWN if sends(i) else 0, True)
    host = host_place(m, w, pc, lane, to, size, 16, True, copy_goal(i), True)
    made = host and source
    number = 0
    if m.clocks:
        left = from_ if sends(i) else to
        what = SENDS if sends(i) else COPIES
        number = new_agent(m, w, lane, pc, what, left & ~ADDRESS_WRAPPED, size if made else 0)
    if not made:
        return DONE
    log(m, COPIED, w, pc, to & ~ADDRESS_WRAPPED, from_ & ~ADDRESS_WRAPPED, 1 << lane, size)
    kind = ATOMIC if i.op == SEND_REDUCE else WRITE
    if objects_live(m):
        moved = to - lane_address(registers, i.a, 0, lane)
        clobbers(m, w, pc, registers, i.a, moved, 1 << lane, size, 0, kind)
    judge_written(m, w, pc, lane, segment_number(from_), from_ & OFFSET_MASK, size)
    if m.clocks:
        base = access_cell(number, BULK + w, lane, pc)
        touch_range(m, w, lane, pc, from_, size, READ, base, True)
        touch_range(m, w, lane, pc, to, size, kind, base | ATOMIC_BIT if i.op == SEND_REDUCE else base, True)
    if i.op == SEND_REDUCE:
        judge_written(m, w, pc, lane, segment_number(to), to & OFFSET_MASK, size)
        reduce(host, source, size, i.aux >> UNUSED_SHIFT)
    else:
        move(host, source, size)
    note_written(m, segment_number(to), to & OFFSET_MASK, size)
    return DONE


@compiled
def store_all(m, w, pc, registers, i, mask):
    """Execute a bulk store or reduction lane by lane, and return a status."""
    status = room(m, 2 * popcount(mask))
    rest = mask
    while rest and status == DONE:
        status = prepare_bulk(m, w, pc, registers, i, lowest_bit(rest), False)
        rest &= rest - 1
    if status != DONE:
        return status
    m.serial += 1
    judge_sizes(m, w, pc, registers, i, mask)
    if m.alone and i.op == STORE:
        mask = one_of_each(m, registers, i, mask)
    for lane in set_bits(mask):
        store_lane(m, w, pc, registers, i, lane)
    return DONE


@compiled
def nth_bit(mask, n):
    """Return the n-th bit of a mask, counted from 1, or its last bit if there are fewer."""
    while n > 1 and mask & (mask - 1):
        mask &= mask - 1
        n -= 1
    return mask & -mask


@compiled
def one_of_each(m, registers, i, mask):
    """Return the lanes that perform a store: one lane for all that store the same bytes to the same location."""
    chosen = 0
    while mask:
        first = lowest_bit(mask)
        group = 0
        rest = mask
        while rest:
            if stores_alike(registers, i, first, lowest_bit(rest)):
                group |= rest & -rest
            rest &= rest - 1
        mask &= ~group
        chosen |= nth_bit(group, m.alone)
    return chosen


@compiled
def stores_alike(registers, i, lane, other):
    same = load_i64(registers + i.a + 8 * lane) == load_i64(registers + i.a + 8 * other)
    same &= load_i64(registers + i.b + 8 * lane) == load_i64(registers + i.b + 8 * other)
    same &= load_u32(registers + i.c + 4 * lane) == load_u32(registers + i.c + 4 * other)
    return same and load_u32(registers + i.imm + 4 * lane) == load_u32(registers + i.imm + 4 * other)


@compiled
def store_lane(m, w, pc, registers, i, lane):
    size = copy_size(registers, i, lane)
    if size == 0:
        return
    to, from_ = lane_address(registers, i.a, 0, lane), lane_address(registers, i.b, 0, lane)
    source = host_place(m, w, pc, lane, from_, size, 16, False, OWN, True)
    host = host_place(m, w, pc, lane, to, size, 16, True, False, True)
    if host == 0 or source == 0:
        return
    log(m, COPIED, w, pc, to & ~ADDRESS_WRAPPED, from_ & ~ADDRESS_WRAPPED, 1 << lane, size)
    bytes_ = WHOLE
    if i.op == STORE:
        bytes_ = load_u32(registers + i.imm + 4 * lane) & WHOLE
    judge_some(m, w, pc, lane, segment_number(from_), from_ & OFFSET_MASK, size, bytes_)
    if m.clocks:
        from_address = from_ & ~ADDRESS_WRAPPED
        reads = new_agent(m, w, lane, pc, READS_DONE, from_address, size)
        writes = new_agent(m, w, lane, pc, STORES, from_address, size if bytes_ else 0)
        base = access_cell(reads, BULK + w, lane, pc)
        if bytes_ == WHOLE:
            touch_range(m, w, lane, pc, from_, size, READ, base, True)
        else:
            touch_some(m, w, lane, pc, from_, size, READ, base, bytes_)
        base = access_cell(writes, BULK + w, lane, pc)
        if i.op == REDUCE:
            touch_range(m, w, lane, pc, to, size, ATOMIC, base | ATOMIC_BIT, True)
        elif bytes_ == WHOLE:
            touch_range(m, w, lane, pc, to, size, WRITE, base, True)
        else:
            touch_some(m, w, lane, pc, to, size, WRITE, base, bytes_)
        enter_group(m, w, lane, 1, writes)
    store_marks(m, w, pc, lane, to, size)
    if i.op == REDUCE:
        judge_written(m, w, pc, lane, segment_number(to), to & OFFSET_MASK, size)
        reduce(host, source, size, i.aux >> UNUSED_SHIFT)
        note_written(m, segment_number(to), to & OFFSET_MASK, size)
    elif bytes_ == WHOLE:
        note_written(m, segment_number(to), to & OFFSET_MASK, size)
        move(host, source, size)
    else:
        for q in range(size):
            if (bytes_ >> (q & 15)) & 1:
                note_written(m, segment_number(to), (to & OFFSET_MASK) + q, 1)
                store_u8(host + q, load_u8(source + q))


@compiled
def store_marks(m, w, pc, lane, to, size):
    """Mark the bytes of a store that may be read through the read-only cache; see `memory/read_only.py`."""
    segment = segment_at(m.segments, segment_number(to))
    if segment.marked == 0:
        return
    offset = to & OFFSET_MASK
    if m.claims == 0:
        mark(segment.marked + offset, size, STORED, 0)
        return
    if segment.claims == 0 or m.claim_count >= m.claim_room:
        return
    found = False
    for q in range(0, size, 16):
        if claim(m, segment, offset + q, 16, STORED, 0):
            found = True
    if found:
        made = claim_at(m.claims, m.claim_count)
        m.claim_count += 1
        made.pc = pc
        made.cta = m.group
        made.warp = w
        made.lanes = 1 << lane
        made.interval = load_i64(warp_at(m.warps, w).clock + 8 * w) - m.base


@compiled
def touch_some(m, w, lane, pc, address, size, kind, base, bytes_):
    """Touch the bytes of a bulk store that writes only some of each 16 bytes."""
    for q in range(size):
        if (bytes_ >> (q & 15)) & 1:
            one = 1
            touch_piece(m, w, lane, pc, address + q, one, kind, base, True, size, one << lane)


@compiled
def reduce(host, source, size, number):
    step = element_bytes(number)
    q = 0
    while q < size:
        if step == 8:
            store_i64(host + q, combine_elements(number, load_i64(host + q), load_i64(source + q)))
        elif step == 4:
            store_u32(host + q, combine_elements(number, load_u32(host + q), load_u32(source + q)))
        else:
            old = load_u8(host + q) | load_u8(host + q + 1) << 8
            new = combine_elements(number, old, load_u8(source + q) | load_u8(source + q + 1) << 8)
            store_u8(host + q, new)
            store_u8(host + q + 1, new >> 8)
        q += step


# -- plain stores, prefetches ------------------------------------------------------------------------------------------


@compiled
def zero_lane(m, w, pc, registers, i, lane, mask, to, size):
    """Check and record the zeros of a lane; among lanes with the same range, the highest one does so for all."""
    group = 0
    for other in set_bits(mask):
        same_size = load_u32(registers + i.b + 4 * other) == size
        if same_size and lane_address(registers, i.a, i.imm, other) == to:
            group |= 1 << other
    high = LANES - 1
    while not (group >> high) & 1:
        high -= 1
    base = load_i64(warp_at(m.warps, w).clock + 8 * w) << INTERVAL_SHIFT | w << WARP_SHIFT | pc
    base |= lowest_bit(group) << LOW_SHIFT | high << HIGH_SHIFT
    judged = group if lane == high else 0
    touch_piece(m, w, lane, pc, to, size, WRITE, base, False, size, judged)


@compiled
def zero_all(m, w, pc, registers, i, mask):
    """Execute `bulk.zero`, a plain store of zeros by each lane, and return a status."""
    status = room(m, 0)
    rest = mask
    while rest and status == DONE:
        lane = lowest_bit(rest)
        rest &= rest - 1
        to, size = lane_address(registers, i.a, i.imm, lane), load_u32(registers + i.b + 4 * lane)
        if host_place(m, w, pc, lane, to, size, 8, True, OWN, False):
            status = prepare(m, pc, to, size, True)
    if status != DONE:
        return status
    m.serial += 1
    all_lanes = mask
    made, length = 0, 0
    for lane in set_bits(mask):
        to, size = lane_address(registers, i.a, i.imm, lane), load_u32(registers + i.b + 4 * lane)
        if size == 0:
            continue
        if size & 7:
            bit = 1 << lane
            record_finding(m.report_entry, m.address, (COPY_SIZE, pc, w, bit, -1, -1), (size, 2, 0, 0, 0))
        host = host_place(m, w, pc, lane, to, size, 8, True, OWN, True)
        if host == 0:
            continue
        if made == 0:
            length = size
        made |= 1 << lane
        log(m, COPIED, w, pc, to & ~ADDRESS_WRAPPED, -1, 1 << lane, size)
        if m.clocks:
            zero_lane(m, w, pc, registers, i, lane, all_lanes, to, size)
        note_written(m, segment_number(to), to & OFFSET_MASK, size)
        clear(host, size)
    if objects_live(m):
        clobbers(m, w, pc, registers, i.a, i.imm, made, length, i.b, WRITE)
    return DONE


@compiled
def prefetch(m, w, pc, registers, i, mask):
    """Execute `bulk.prefetch`, which does nothing but requires a valid address (T2)."""
    for lane in set_bits(mask):
        address = lane_address(registers, i.a, i.imm, lane)
        if address & 15:
            size = load_u32(registers + i.b + 4 * lane)
            bit = 1 << lane
            address &= ~ADDRESS_WRAPPED
            record_finding(
                m.report_entry,
                m.address,
                (MISALIGNED, pc, w, bit, -1, -1),
                (address, 16, size, address >> SEGMENT_SHIFT, 0),
            )


@compiled
def wait_groups(m, w, pc, i, mask):
    """Execute the waits for groups of `cp.async` and of bulk copies."""
    if m.clocks == 0:
        return
    bulk = i.op == BULK_WAIT
    every = i.op == WAIT and i.aux & ALL
    log(m, LANDED, w, pc, -1, 0 if every else i.imm, mask, 0)
    await_groups(m, w, mask, bulk, -1 if every else i.imm, i.op == BULK_WAIT and i.aux & ONLY_READ)
    begin_interval(warp_at(m.warps, w), w)


def copy_operation(address, w, pc, mask):
    """Execute a copy, or a related operation, for the lanes of `mask`, and return a status. Called by address.

    With pc -1, make room for an arrive of each lane. With -2, at the CTA's exit, report operations that nothing waited
    for. With -4 - pc, check the sizes of a copy.
    """
    m = machine_at(address, 0)
    if pc == -1:
        return room(m, popcount(mask))
    if pc == -2:
        report_outliving(m)
        return DONE
    registers = warp_at(m.warps, w).registers
    if pc < 0:
        judge_sizes(m, w, -4 - pc, registers, instruction_at(m.code, -4 - pc), mask)
        return DONE
    i = instruction_at(m.code, pc)
    op = i.op
    if op in (LOAD, SEND, SEND_REDUCE, MULTICAST):
        return load_lane(m, w, pc, registers, i, lowest_bit(mask))
    if op <= COPY16:
        return copy_small(m, w, pc, registers, i, mask)
    if op in (STORE, REDUCE):
        return store_all(m, w, pc, registers, i, mask)
    if op == ZERO:
        return zero_all(m, w, pc, registers, i, mask)
    if op in (COMMIT, BULK_COMMIT):
        commit(m, w, mask, op == BULK_COMMIT)
        log(m, COMMITTED, w, pc, -1, -1, mask, 0)
    elif op in (WAIT, BULK_WAIT):
        wait_groups(m, w, pc, i, mask)
    elif op == PREFETCH:
        prefetch(m, w, pc, registers, i, mask)
    return DONE
