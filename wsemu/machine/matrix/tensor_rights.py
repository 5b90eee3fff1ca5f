"""Allocations of tensor memory and their rules, in compiled code.

PTX ISA, "Tensor Memory Allocation and Management Instructions".  Two rules are taken from code that the assembler
generates: an allocation waits until it fits, and takes the first aligned granules; a release of granules that the CTA
does not own traps.
"""

from __future__ import annotations

from wsemu.machine.agents.agents import know, room
from wsemu.machine.agents.copies import access_cell
from wsemu.machine.agents.ranges import OWN, host_place, note_written, prepare, touch_piece
from wsemu.machine.lowering import compiled, set_bits
from wsemu.machine.matrix.multiply import gather_lanes
from wsemu.machine.matrix.tensor_accesses import ALLOCATES, RACE, RELEASES, USES, fork, has_room, touch
from wsemu.machine.matrix.tensor_operands import word_index
from wsemu.machine.memory.cell_bits import GENERIC
from wsemu.machine.records import record_finding, tensor_access_at, tensor_cta_at, warp_at
from wsemu.machine.scalars import load_i64, load_u32, lowest_bit, popcount, store_i64, store_u32
from wsemu.machine.state import DONE, STANDS
from wsemu.machine.sync.events import report_failure
from wsemu.machine.sync.lane_clocks import agent_known, heads
from wsemu.machine.sync.peers import reach
from wsemu.model.codes import CODE_NUMBERS
from wsemu.model.isa import LANES, OFFSET_MASK, SHARED, WRITE
from wsemu.model.tensor_memory import COLUMNS, GRANULE, PAIR

UNALLOCATED, BOUNDS, LEAK, DOUBLE_FREE, AFTER, GROW, MIXED, SIZE = (
    CODE_NUMBERS[f"tmem-{name}"]
    for name in (
        "unallocated",
        "bounds",
        "leak",
        "double-free",
        "alloc-after-relinquish",
        "grow",
        "cta-group-mixed",
        "columns",
    )
)
GRANULES = COLUMNS // GRANULE
NOT_OWNED, NOT_FIRST, NOT_ALL = range(3)
"""`what` of a tmem-double-free: nothing is allocated there; no allocation begins there; the allocation has another
size"""


@compiled
def granules(column, count):
    """Return the granules of some columns, as bits."""
    first, last = column // GRANULE, (column + count - 1) // GRANULE
    return (2 << last) - (1 << first)


@compiled
def owns_columns(m, w, pc, lane, member, column, count, report):
    """Return whether a CTA owns some columns; with `report`, report one reason if not."""
    bit = 1 << lane
    if column + count > COLUMNS:
        if report:
            record_finding(m.report_entry, m.address, (BOUNDS, pc, w, bit, -1, -1), (column, count, 0, 0, 0))
        return False
    cta = tensor_cta_at(m.tensor_ctas, member)
    if granules(column, count) & ~(cta.owned | cta.promised):
        if report and not is_released(m, w, pc, lane, member, column, column + count):
            record_finding(
                m.report_entry, m.address, (UNALLOCATED, pc, w, bit, -1, -1), (column, count, cta.owned, member, 0)
            )
        return False
    return True


@compiled
def is_released(m, w, pc, lane, member, low, high):
    """Report a release of columns that precedes this use without being ordered; return whether there is one."""
    for n in range(m.tensor_count):
        x = tensor_access_at(m.tensor_accesses, n)
        met = x.what == RELEASES and x.member == member and x.low < high and x.high > low
        if met and not agent_known(m, w, lane, x.number):
            record_finding(
                m.report_entry, m.address, (RACE, pc, w, 1 << lane, x.pc, x.warp),
                (max(low, x.low), 0, RELEASES, USES, 0),
            )  # fmt: skip
            return True
    return False


@compiled
def judge_group(m, w, pc, i, mask):
    """Report an operation whose cta_group differs from that of earlier operations of the kernel."""
    cta = tensor_cta_at(m.tensor_ctas, m.member)
    group = 2 if i.aux & PAIR else 1
    if cta.group == 0:
        cta.group = group
        cta.group_pc = pc
        cta.group_warp = w
    elif cta.group != group:
        record_finding(
            m.report_entry, m.address, (MIXED, pc, w, mask, cta.group_pc, cta.group_warp), (group, cta.group, 0, 0, 0)
        )


@compiled
def find_run(owned, count, first):
    """Return the first aligned free granules from `first` on and then from the beginning, or -1."""
    for n in range(GRANULES // count):
        start = (first // count + n) * count % GRANULES
        if owned & ((1 << count) - 1) << start == 0:
            return start
    return -1


@compiled
def first_granule(m, count, index):
    """Return the granule where the search begins for a CTA or pair of a group, by its index there."""
    return (m.tensor_first + count * index) % GRANULES if m.tensor_first else 0


@compiled
def judge_request(m, w, pc, i, mask, columns):
    """Check the rules of an allocation other than whether it fits, and return whether its size is valid."""
    cta = tensor_cta_at(m.tensor_ctas, m.member)
    if columns < GRANULE or columns > COLUMNS or popcount(columns) != 1:
        record_finding(m.report_entry, m.address, (SIZE, pc, w, mask, -1, -1), (columns, 0, 0, 0, 0))
        return False
    if cta.relinquished:
        record_finding(
            m.report_entry, m.address, (AFTER, pc, w, mask, cta.relinquished_pc, cta.relinquished_warp),
            (columns, 0, 0, 0, 0),
        )  # fmt: skip
    if cta.last and columns > cta.last:
        record_finding(
            m.report_entry, m.address, (GROW, pc, w, mask, cta.last_pc, cta.last_warp), (columns, cta.last, 0, 0, 0)
        )
    cta.last = columns
    cta.last_pc = pc
    cta.last_warp = w
    return True


@compiled
def requested_columns(registers, i, mask):
    return load_u32(registers + i.b + 4 * lowest_bit(mask))


@compiled
def may_allocate(m, w, registers, i, mask):
    """Return whether a parked allocation may continue."""
    columns = requested_columns(registers, i, mask)
    member = warp_at(m.warps, w).member
    if i.aux & PAIR:
        return pair_is_ready(m, w, columns)
    return find_run(tensor_cta_at(m.tensor_ctas, member).owned, columns // GRANULE, 0) >= 0


@compiled
def pair_is_ready(m, w, columns):
    """Return whether the allocation of a pair may continue.

    The even CTA waits for granules that are free in both CTAs, and for the odd one to take its last allocation. The odd
    one waits for the even one's answer.
    """
    own = warp_at(m.warps, w).member
    even, odd = tensor_cta_at(m.tensor_ctas, own & ~1), tensor_cta_at(m.tensor_ctas, own | 1)
    if own & 1:
        return even.offered != 0
    return even.offered == 0 and find_run(even.owned | odd.owned, columns // GRANULE, 0) >= 0


@compiled
def allocate(m, w, pc, registers, i, mask, again):
    """Execute an alloc; return a status, which may be STANDS."""
    lane = lowest_bit(mask)
    columns = requested_columns(registers, i, mask)
    to = load_i64(registers + i.a + 8 * lane)
    warp = warp_at(m.warps, w)
    if again == 0:
        status = room(m, 1)
        if status == DONE:
            status = has_room(m)
        if status != DONE:
            return status
        if host_place(m, w, pc, lane, to, 4, 4, True, OWN, False):
            status = prepare(m, pc, to, 4, True)
            if status != DONE:
                return status
        m.serial += 1
        gather_lanes(m, warp, w, pc, mask)
        judge_group(m, w, pc, i, mask)
        if i.aux & PAIR:
            reach(m, w, pc, m.member ^ 1, mask, 0, False)
        if not judge_request(m, w, pc, i, mask, columns):
            return report_failure(m, w, pc)
        if not may_allocate(m, w, registers, i, mask):
            return STANDS
    cta = tensor_cta_at(m.tensor_ctas, warp.member)
    count = columns // GRANULE
    number = fork_known(m, w, pc, mask)
    if i.aux & PAIR:
        start = settle_pair(m, w, pc, mask, count, number)
    else:
        start = find_run(cta.owned, count, first_granule(m, count, warp.member))
        clear_columns(m, w, pc, mask, warp.member, start, count, number)
    give(m, w, pc, cta, start, count)
    publish(m, w, pc, lane, number, to, start * GRANULE)
    return DONE


@compiled
def settle_pair(m, w, pc, mask, count, number):
    """Return the first granule of an allocation of a pair: the even CTA chooses it, reserves it in both, and sends it
    to the odd one, which knows then that it is reserved."""
    own = warp_at(m.warps, w).member
    even, odd = tensor_cta_at(m.tensor_ctas, own & ~1), tensor_cta_at(m.tensor_ctas, own | 1)
    if own & 1:
        start = even.offered - 1
        even.offered = 0
        odd.promised = 0
        if m.clocks:
            rest = heads(m, w, warp_at(m.warps, w).alive)
            while rest:
                know(m, w, lowest_bit(rest), even.offer)
                rest &= rest - 1
        return start
    start = find_run(even.owned | odd.owned, count, first_granule(m, count, own >> 1))
    even.offered = start + 1
    even.offer = number
    odd.promised = ((1 << count) - 1) << start
    for q in range(2):
        clear_columns(m, w, pc, mask, own + q, start, count, number)
    return start


@compiled
def give(m, w, pc, cta, start, count):
    """Allocate granules to a CTA."""
    cta.owned |= ((1 << count) - 1) << start
    cta.starts |= 1 << start
    cta.sizes[start] = count
    cta.pcs[start] = pc
    cta.warps[start] = w
    cta.allocations += 1
    cta.columns += count * GRANULE
    m.most_allocations = max(m.most_allocations, cta.allocations)
    m.most_columns = max(m.most_columns, cta.columns)


@compiled
def clear_columns(m, w, pc, mask, member, start, count, number):
    """Reserve uninitialized granules of a CTA: all uses must be ordered after this, the operation `number`."""
    low, high = start * GRANULE, (start + count) * GRANULE
    for q in range(word_index(member, 0, low) >> 3, word_index(member, 0, high) >> 3):
        store_i64(m.columns_written + 8 * q, 0)
    touch(m, w, mask, pc, number, member, ALLOCATES, 0, 0, 0xFF, low, high)


@compiled
def fork_known(m, w, pc, mask):
    """Create an asynchronous operation that completes immediately: the lanes of the warp have observed that."""
    number = fork(m, w, lowest_bit(mask), pc)
    if m.clocks:
        rest = heads(m, w, warp_at(m.warps, w).alive)
        while rest:
            know(m, w, lowest_bit(rest), number)
            rest &= rest - 1
    return number


@compiled
def publish(m, w, pc, lane, number, to, column):
    """Store the address in shared memory: by the generic proxy, and in order with all lanes of the warp, which execute
    the allocation together (PTX ISA, "Asynchronous Operations": same-address ordering)."""
    host = host_place(m, w, pc, lane, to, 4, 4, True, OWN, True)
    if host == 0:
        return
    if m.clocks:
        apart = m.lockstep
        m.lockstep = 1
        base = access_cell(number, GENERIC + w, lane, pc)
        touch_piece(m, w, lane, pc, to, 4, WRITE, base, False, 4, 1 << lane)
        m.lockstep = apart
    note_written(m, SHARED, to & OFFSET_MASK, 4)
    store_u32(host, column)


@compiled
def free(m, w, pc, registers, i, mask):
    """Execute a dealloc, and return a status."""
    lane = lowest_bit(mask)
    address = load_u32(registers + i.a + 4 * lane)
    columns = load_u32(registers + i.b + 4 * lane)
    status = room(m, 1)
    if status == DONE:
        status = has_room(m)
    if status != DONE:
        return status
    m.serial += 1
    warp = warp_at(m.warps, w)
    gather_lanes(m, warp, w, pc, mask)
    judge_group(m, w, pc, i, mask)
    cta = tensor_cta_at(m.tensor_ctas, m.member)
    column = address & 0xFFFF
    what = -1
    if columns < GRANULE or columns > COLUMNS or popcount(columns) != 1 or column + columns > COLUMNS:
        record_finding(m.report_entry, m.address, (SIZE, pc, w, mask, -1, -1), (columns, 1, 0, 0, 0))
        return report_failure(m, w, pc)
    start, bits = column // GRANULE, granules(column, columns)
    if bits & ~cta.owned:
        what = NOT_OWNED
    elif (cta.starts >> start) & 1 == 0 or column % GRANULE:
        what = NOT_FIRST
    elif cta.sizes[start] != columns // GRANULE:
        what = NOT_ALL
    if what >= 0:
        record_finding(
            m.report_entry, m.address, (DOUBLE_FREE, pc, w, mask, -1, -1), (column, columns, what, cta.owned, 0)
        )
        if what < NOT_ALL:
            return report_failure(m, w, pc)
    member = m.member
    number = fork_known(m, w, pc, mask)
    touch(m, w, mask, pc, number, member, RELEASES, 0, 0, 0xFF, column, column + columns)
    cta.owned &= ~bits
    cta.starts &= ~bits
    return DONE


@compiled
def relinquish(m, w, pc, i, mask):
    """Execute relinquish_alloc_permit, and return a status."""
    m.serial += 1
    gather_lanes(m, warp_at(m.warps, w), w, pc, mask)
    judge_group(m, w, pc, i, mask)
    cta = tensor_cta_at(m.tensor_ctas, m.member)
    if cta.relinquished == 0:
        cta.relinquished = 1
        cta.relinquished_pc = pc
        cta.relinquished_warp = w
    return DONE


@compiled
def judge_leaks(m):
    """Report columns that are still allocated at the end of a group of CTAs."""
    for member in range(m.members):
        cta = tensor_cta_at(m.tensor_ctas, member)
        for start in set_bits(cta.starts):
            record_finding(
                m.report_entry, m.address, (LEAK, cta.pcs[start], cta.warps[start], (1 << LANES) - 1, -1, -1),
                (start * GRANULE, cta.sizes[start] * GRANULE, 0, 0, 0),
            )  # fmt: skip
