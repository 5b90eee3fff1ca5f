"""The VM: a compiled scheduler that runs warps over the operations of `operations.py`.

`run` takes the host address of a `MACHINE` and runs its groups of CTAs until all have ended or something stops it. A
warp runs until it waits or ends, and then the next warp runs. The order of the warps does not affect the verdict,
because one run decides for every schedule.

At a divergent branch, the warp pushes one entry for the reconvergence point (`join`) and one for the lanes that jump,
and continues with the lanes that fall through. When lanes reach the `join` on top of the stack, the entry below it
continues.
"""

from __future__ import annotations

from wsemu.machine.arithmetic.operations import alu
from wsemu.machine.divergence import behind, diverge, go_past, go_past_some, meets, park, pop, push, sort_parked, unpark
from wsemu.machine.lowering import compiled, emitted, inlined, outlined
from wsemu.machine.memory.bounds import careful_lane, extent_of, forget_bytes, track_initialised
from wsemu.machine.memory.costs import APART, BUCKETS, keep_worst, weigh
from wsemu.machine.memory.lane_access import (
    BAD,
    SAME,
    SCATTERED,
    UNIT,
    lane_pattern,
    lanes_in_segment,
    lanes_inside,
    lanes_with,
    load_store,
    move_lanes,
    own_pattern,
    set_lanes,
    set_offsets,
    simple_pattern,
)
from wsemu.machine.records import (
    access_at,
    call,
    cta_at,
    entry_at,
    event_at,
    flow_at,
    instruction_at,
    machine_at,
    plan_due_at,
    record_finding,
    segment_at,
    warp_at,
)
from wsemu.machine.scalars import load_i64, load_u8, load_u32, lowest_bit, popcount, store_i64, store_u8, store_u32
from wsemu.machine.state import (
    AWAITS,
    BREAKS,
    BUDGET,
    DEADLOCK,
    DONE,
    EVENT_KINDS,
    FAULT,
    HELD,
    MADE,
    MAKES,
    MIDWAY,
    NOWHERE,
    READ_SO_FAR,
    REFINE,
    SCRIPTED,
    STACK,
    STACK_OVERFLOW,
    STANDS,
    STARTS,
    TRAP,
    UNTRACKED,
    UNUSED_SHIFT,
    YIELDED,
)
from wsemu.machine.sync.clocks import TOUCHED, TOUCHED_ATOMIC, begin_interval, end_clocks, start_clocks
from wsemu.machine.sync.group import enter_cta
from wsemu.machine.sync.named_barrier import (
    GOES_ON,
    WAITS,
    barrier_operation,
    check_operands,
    operands,
    report_dangling,
    reset,
    take_whole,
    warp_left,
)
from wsemu.machine.sync.named_barrier import STOPS as BARRIER_STOPS
from wsemu.machine.warp_operations import ACTIVEMASK, ALIKE, DIVERGENCE, names_any
from wsemu.model.codes import CODE_NUMBERS
from wsemu.model.control_flow import BRA, CTA_COST, EXIT, JOIN, JUMP, TURN
from wsemu.model.control_flow import TRAP as TRAP_OP
from wsemu.model.isa import (
    AS_LOAD,
    AS_STORE,
    ERRORS,
    FIRST_ARRAY,
    FIRST_MATRIX,
    FORGET,
    LANES,
    LOCAL,
    LOCAL_SHIFT,
    N_ALU,
    N_ATOMIC,
    N_CONTROL,
    N_MEMORY,
    N_WARP,
    NO_STORE,
    OFFSET_MASK,
    ON_STACK,
    OPCODE,
    READ,
    SEGMENT_SHIFT,
    SERVED,
    SHARED,
    SHOW,
    UNCOUNTED,
    USES_OLD,
    WRITE,
    opcodes,
)
from wsemu.model.outcome import FENCES

FAILED, RAISED = CODE_NUMBERS["failed-assertion"], CODE_NUMBERS["raised-exception"]
FIRST_BARRIER, LAST_BARRIER, ARRIVE = opcodes("bar", "sync", "red.or", "arrive")
FIRST_FENCE, _, LAST_FENCE = (OPCODE[name] for name in FENCES)
PROXY, INIT_FENCE = opcodes("fence", "proxy", "mbarrier_init")
OFTEN = 8
"""a plan is made after this number of accesses without one, times the square of the number of plans made so far"""
PAUSE = 64
"""number of times that the VM runs the code itself after a block rejected its rows, before it tries the block again"""
WHOLE = (1 << LANES) - 1
EXITS, ENDS, DELIVERS = 2, 3, 4
"""see sync/cluster.py"""
FIRST_FENCE_EVENT = EVENT_KINDS.index(FENCES[0])


@compiled
def exchanges(op):
    """Return whether an operation is an exchange: if its result is unused, it may initialize memory."""
    return (op - EXCHANGE) * (op - EXCHANGE64) * (op - EXCHANGE8) * (op - EXCHANGE16) == 0


@compiled
def place_lanes(m, w, pc, registers, i, mask, size, n, writes):
    """Store the difference of host and virtual address of each lane of an access; 0 if the lane's access is an error.

    The valid lanes of one segment are checked together, and all other lanes one at a time. A load that is an error
    returns 0.
    """
    deltas = m.lanes_scratch + DELTAS
    rest = mask
    while rest:
        lane = lowest_bit(rest)
        number = (load_i64(registers + i.a + 8 * lane) + i.imm) >> SEGMENT_SHIFT
        group = lanes_allowed(m, access_at(m.accesses, pc), registers, i, rest, number, size)
        if group:
            set_lanes(deltas, group, segment_at(m.segments, number).host - (number << SEGMENT_SHIFT))
            rest &= ~group
            continue
        rest &= rest - 1
        delta = careful_lane(m, pc, w, load_i64(registers + i.a + 8 * lane) + i.imm, lane, size, writes)
        store_i64(deltas + 8 * lane, delta)
        if delta == 0 and i.op < N_MEMORY and not writes:
            clear_lane(registers, i.d, lane, size // n, n)


@compiled
def lanes_allowed(m, row, registers, i, rest, number, size):
    """Return the lanes of `rest` that access a segment without an error, if that does not depend on the lane."""
    if number < SHARED or number >= m.segment_count or number == LOCAL:
        return 0
    segment = segment_at(m.segments, number)
    limit = segment.bytes - size
    if segment.kind & row.forbids or limit < 0:
        return 0
    return lanes_inside(registers, i.a, rest, i.imm - (number << SEGMENT_SHIFT), limit, size)


@compiled
def alike(m, registers, i, rest, lane):
    """Return the lanes of `rest` that access the same segment as `lane`, with the same result of `place_lanes`."""
    deltas = m.lanes_scratch + DELTAS
    delta = load_i64(deltas + 8 * lane)
    number = ((load_i64(registers + i.a + 8 * lane) + i.imm) >> SEGMENT_SHIFT) & 0xFFFF
    group = lanes_with(deltas, rest, delta)
    if delta:
        group = lanes_in_segment(registers, i.a, group, i.imm, number)
    return group, delta, number


@compiled
def keep_offsets(m, registers, a, bias, number, group):
    """Record the offsets of some lanes for `charge_separately`."""
    apart = m.scratch + APART
    lanes = apart + 8 * (number if number <= LOCAL else FIRST_ARRAY)
    store_i64(lanes, load_i64(lanes) | group)
    set_offsets(apart + 8 * BUCKETS, group, registers, a, bias, number << SEGMENT_SHIFT)


@compiled
def clear_lane(registers, d, lane, size, n):
    """Set the result of a lane's load to 0, because the load is an error."""
    for j in range(n):
        for q in range(size):
            store_u8(registers + d + 256 * j + lane * size + q, 0)


@compiled
def charge(m, row, place, bias, mask, pattern, size, number, op, service):
    """Count an access of any pattern and its cost.

    The lanes' addresses are at `place`. The cost of atomics in global memory is not modeled.
    """
    row.lanes += popcount(mask)
    if number == LOCAL or (op >= N_MEMORY and number != SHARED) or m.remote:
        return
    if op >= N_MEMORY and (m.atomics == 0 or service == UNCOUNTED):
        row.uncounted += 1
        return
    if number == SHARED:
        store = service == AS_STORE if op >= N_MEMORY else op >= FIRST_STORE
        if op >= N_MEMORY and service < AS_LOAD:
            both = call(m.atomic_cost_entry, m.address, place, bias, mask, size, service)
            cost, ideal = both >> 32, both & 0xFFFFFFFF
        else:
            cost, ideal = weigh(m, row, place, bias, mask, pattern, size, store, True)
        row.shared += cost
        row.ideal_shared += ideal
    else:
        cost, ideal = weigh(m, row, place, bias, mask, pattern, size, op >= FIRST_STORE, False)
        row.sectors += cost
        row.ideal_sectors += ideal
    if cost > ideal:
        keep_worst(m, row, place, bias, mask, number != SHARED, cost)


@compiled
def charge_separately(m, row, size, op, service):
    """Count the cost of an access whose lanes were checked one by one; see `costs.APART`."""
    apart = m.scratch + APART
    for number in range(SHARED, FIRST_ARRAY + 1):
        mask = load_i64(apart + 8 * number)
        if mask:
            charge(m, row, apart + 8 * BUCKETS, 0, mask, SCATTERED, size, number, op, service)
            store_i64(apart, 1)
    row.executions += load_i64(apart)


DELTAS = 8 * 2 * LANES
"""offset of the results of `place_lanes` in the scratch of 128 numbers; shadow.py uses the rest"""
USED = USES_OLD << UNUSED_SHIFT
UNSTORED = NO_STORE << UNUSED_SHIFT
EXCHANGE, EXCHANGE64, EXCHANGE8, EXCHANGE16 = opcodes("atom.exch", "b32", "b64", "b8", "b16")
FIRST_STORE = min(number for name, number in OPCODE.items() if name.startswith("st."))


@compiled
def judge(registers, a, mask, offset, limit, size, log_size):
    """Return the pattern of an access's lanes in a segment of `limit` bytes; SCATTERED if that needs a closer look.

    For all other patterns, the offset of the first lane decides for all lanes.
    """
    pattern = simple_pattern(registers, a, mask, log_size)
    extent = size << 5 if pattern == UNIT else size
    if pattern != SCATTERED and (offset < 0 or offset > limit - extent or offset & (size - 1)):
        return BAD
    return pattern


@compiled
def log_lanes(m, registers, a, imm, mask):
    """Add the addresses of an access's lanes to the last event of the trace."""
    e = event_at(m.trace, m.trace_count - 1)
    e.lanes = mask
    e.addresses = m.trace_used
    while mask:
        store_i64(m.trace_addresses + 8 * m.trace_used, load_i64(registers + a + 8 * lowest_bit(mask)) + imm)
        m.trace_used += 1
        mask &= mask - 1


@compiled
def log_access(m, w, pc, registers, a, imm, mask, op):
    """Record an atomic, or an access that the trace requests, in the trace."""
    place = load_i64(registers + a + 8 * lowest_bit(mask)) + imm
    interval = load_i64(warp_at(m.warps, w).clock + 8 * w)
    if op >= N_MEMORY:
        call(m.trace_entry, m.address, TOUCHED_ATOMIC, w, interval, pc, place, -1)
    if load_u8(m.trace_pcs + pc):
        call(m.trace_entry, m.address, TOUCHED, w, interval, pc, place, -1)
        if m.trace_count <= m.trace_room:
            log_lanes(m, registers, a, imm, mask)


@compiled
def judged_as_one(m, row, segment, registers, i, mask, first, size):
    """Return the pattern of an access's lanes in the segment of the first lane, as `judge` does.

    Return also the offset in the segment minus the lane's register. BAD: each lane must be checked.
    """
    number = first >> SEGMENT_SHIFT
    pattern, bias = BAD, 0
    if number >= SHARED and number < m.segment_count and segment.kind & row.forbids == 0:
        bias = i.imm - (number << SEGMENT_SHIFT)
        log_size = (i.aux >> 16) & 255
        if number == LOCAL:
            variable = (first & OFFSET_MASK) >> LOCAL_SHIFT
            bias -= variable << LOCAL_SHIFT
            return BAD if variable & ON_STACK else SCATTERED, bias
        pattern = judge(registers, i.a, mask, first + bias - i.imm, segment.bytes, size, log_size)
    return pattern, bias


@compiled
def pattern_in_local(m, registers, i, mask, first, size):
    """Return the pattern of an access to local memory; BAD if each lane must be checked."""
    variable = (first & OFFSET_MASK) >> LOCAL_SHIFT
    begin, extent, writable = extent_of(m, variable, 0)
    if extent < size or (i.op >= FIRST_STORE and writable == 0):
        return BAD
    begin += (LOCAL << SEGMENT_SHIFT) + (variable << LOCAL_SHIFT)
    return own_pattern(registers, i.a, mask, i.imm, begin, extent - size, m.thread_bytes, size)


@inlined
def looked_at_closer(m, segment, registers, i, mask, first, bias, size):
    """Return the pattern of an access's lanes if `judge` returned SCATTERED; BAD if each lane must be checked."""
    if first >> SEGMENT_SHIFT == LOCAL:
        return pattern_in_local(m, registers, i, mask, first, size)
    limit = segment.bytes - size
    return lane_pattern(registers, i.a, mask, bias, limit, size) if limit >= 0 else BAD


@compiled
def count(m, row, registers, i, first, lanes, how, size, number):
    """Count an access of lanes to one segment: the usual cases here, which cost the minimum, others by `charge`."""
    row.executions += 1
    if i.op < m.shortcuts and (first & 31 == 0 or number <= LOCAL if how == UNIT else how == SAME and size <= 4):
        row.lanes += popcount(lanes)
        if number == SHARED:
            row.shared += (size + 3) >> 2
            row.ideal_shared += (size + 3) >> 2
        elif number != LOCAL:
            cost = size if how == UNIT else 1
            row.sectors += cost
            row.ideal_sectors += cost
    else:
        service = (i.aux >> UNUSED_SHIFT) & SERVED
        charge(m, row, registers + i.a, i.imm, lanes, how, size, number, i.op, service)


@compiled
def shape_of(i):
    """Return the shape of a load or store, in the form of memory/plans.py."""
    return (i.aux >> 16) & 255 | (WRITE if i.op >= FIRST_STORE else READ) << 8


@compiled
def access_planned(m, w, pc, registers, i):
    """Check a scattered access by its plan, without transferring data, and return the first lane's host address.

    Return 0 if no plan fits. After enough such accesses, make a plan for the next one.
    """
    due = plan_due_at(m.plans_due, access_at(m.accesses, pc).pattern)
    place, shape = registers + i.a, shape_of(i)
    if due.ready or shape & 255 == 2:
        host = call(m.planned_entry, m.address, w, pc, place, i.imm, shape)
        if host:
            return host
    due.misses += 1
    if due.misses > OFTEN * (1 + due.made * due.made):
        call(m.plan_entry, m.address, pc, place, i.imm, shape)
    return 0


@inlined
def note_lanes(m, w, pc, registers, i, segment, number, bias, group, how, size, writes, told):
    """Check and record what lanes do to a segment; return 0, or the action that the host must take first."""
    if told != ONE_MORE and segment.tracked > (UNTRACKED if writes else READ_SO_FAR):
        status = call(m.shadow_entry, m.address, w, pc, registers, bias, group, how, number)
        if status:
            return status
    if segment.initialised:
        reads = not writes or (i.op >= N_MEMORY and (i.aux & USED != 0 or not exchanges(i.op)))
        marks = writes and not (i.op >= N_MEMORY and i.aux & UNSTORED != 0)
        track_initialised(m, pc, w, number, registers, i.a, bias, group, how, size, marks, reads)
    return 0


TELL, ONE_MORE = 1, 2
"""results of `tell_sections` for an access to shared memory"""


@compiled
def tell_sections(m, w, pc, segment, registers, i, mask, pattern, bias, first):
    """Report an access to the sections, if any are recorded or compared.

    Return TELL for an access to shared memory that must be reported again after it; ONE_MORE if an earlier section
    implies the result of checking it; otherwise 0.
    """
    if pattern == SCATTERED:
        pattern = looked_at_closer(m, segment, registers, i, mask, first, bias, i.aux & 255)
    if first >> SEGMENT_SHIFT != SHARED and pattern != BAD:
        return 0
    what = MAKES if pattern != BAD and i.op < N_MEMORY else BREAKS
    return ONE_MORE if call(m.section_entry, m.address, what, w, pc, mask) else TELL


@outlined
def access_each(m, w, pc, registers, i, mask, told):
    """Execute an access whose lanes are checked one by one: they access several segments, or some are wrong.

    Return 0, or the action that the host must take first.
    """
    size, n, writes = i.aux & 255, (i.aux >> 8) & 255, i.op >= FIRST_STORE
    rest = mask & ~m.lanes_done
    if m.resumes == 0:
        m.serial += 1
        place_lanes(m, w, pc, registers, i, mask, size, n, writes)
        for q in range(FIRST_ARRAY + 1):
            store_i64(m.scratch + APART + 8 * q, 0)
    m.resumes = 0
    m.lanes_done = 0
    while rest:
        group, delta, number = alike(m, registers, i, rest, lowest_bit(rest))
        if delta:
            segment = segment_at(m.segments, number)
            bias = i.imm + delta - segment.host
            how = SCATTERED
            status = note_lanes(m, w, pc, registers, i, segment, number, bias, group, how, size, writes, told)
            if status:
                m.lanes_done = mask & ~rest
                m.resumes = 1
                return status
            keep_offsets(m, registers, i.a, bias, number, group)
            if i.op < N_MEMORY:
                move_lanes(i.op, registers, i.d, i.a, i.imm + delta, group)
            else:
                call(m.atomic_entry, i.op, registers, i.d, i.a, i.b, i.c, i.imm + delta, group)
        rest &= ~group
    charge_separately(m, access_at(m.accesses, pc), size, i.op, (i.aux >> UNUSED_SHIFT) & SERVED)
    return 0


def access(address, w, pc, registers, mask):
    """Execute the load, store or atomic at pc for the lanes of `mask`."""
    m = machine_at(address, 0)
    i = instruction_at(m.code, pc)
    row = access_at(m.accesses, pc)
    op, a, imm = i.op, i.a, i.imm
    size = i.aux & 255  # bytes per lane
    if m.trace:
        log_access(m, w, pc, registers, a, imm, mask, op)
    first = load_i64(registers + a + 8 * lowest_bit(mask)) + imm
    number = first >> SEGMENT_SHIFT
    segment = segment_at(m.segments, number)
    pattern, bias = judged_as_one(m, row, segment, registers, i, mask, first, size)
    noted = 0
    if m.section:
        noted = tell_sections(m, w, pc, segment, registers, i, mask, pattern, bias, first)
    host = 0
    if pattern == SCATTERED:
        if mask == WHOLE and op < m.planned and m.resumes + m.remote + m.trace == 0 and noted != ONE_MORE:
            host = access_planned(m, w, pc, registers, i)
        if host == 0:
            pattern = looked_at_closer(m, segment, registers, i, mask, first, bias, size)
    if pattern == BAD or m.lanes_done:  # several segments, out of bounds, misaligned, or wrapped
        status = access_each(m, w, pc, registers, i, mask, noted)
        if status:
            return status
    else:
        delta = host - first + imm
        if host == 0:
            m.serial += m.resumes == 0
            m.resumes = 0
            delta = segment.host + bias
            writes = op >= FIRST_STORE
            status = note_lanes(m, w, pc, registers, i, segment, number, bias, mask, pattern, size, writes, noted)
            if status:
                m.resumes = 1
                return status
            count(m, row, registers, i, first, mask, pattern, size, number)
        if op < N_MEMORY:
            load_store(op, pattern, registers, i.d, a, delta, mask)
        else:
            call(m.atomic_entry, op, registers, i.d, a, i.b, i.c, delta, mask)
    if noted:
        call(m.section_entry, address, MADE, w, pc, mask)
    return 0


@compiled
def account(m, pc, active):
    """Count that control reached pc with `active` lanes; return False if the warp's turn or the step budget is over."""
    flow = flow_at(m.flow, pc)
    flow.count += 1
    flow.lanes += active
    m.budget -= flow.length
    m.turn -= flow.length
    return m.budget >= 0 and m.turn >= 0


@compiled
def account_group(m, warp):
    """Count the stretch of code that other lanes of the warp begin now."""
    if warp.midway == 0:
        account(m, warp.pc, popcount(warp.mask))


@compiled
def report_divergence(m, warp, w, pc, mask, other_pc):
    """Report that lanes execute a barrier while other lanes of the warp are at the one at `other_pc`, or elsewhere
    (-1)."""
    number, _ = operands(warp.registers, instruction_at(m.code, pc), mask)
    other = w if other_pc >= 0 else -1
    record_finding(m.report_entry, m.address, (DIVERGENCE, pc, w, mask, other_pc, other), (number, warp.alive, 0, 0, 0))


@compiled
def fault(m, w, pc):
    m.fault_pc = pc
    m.fault_warp = w
    return FAULT


@compiled
def execute_barrier(m, warp, w, pc, mask):
    """Execute a barrier instruction.

    Return YIELDED, FAULT, or DONE if the warp continues at warp.pc with warp.mask.
    """
    warp.last_pc = pc
    if not check_operands(m, w, pc, mask):
        return fault(m, w, pc)
    if mask != warp.alive:  # B14: the other lanes must execute the same operation, or exit
        return stand(m, warp, w, pc, mask)
    result = barrier_operation(m, w, pc, mask, mask)
    if result == BARRIER_STOPS:
        return fault(m, w, pc)
    return YIELDED if result == WAITS else DONE


@compiled
def stand(m, warp, w, pc, mask):
    """Park part of a warp at the operation at pc while its other lanes run; return a status like `execute_barrier`."""
    if warp.mask != mask:  # guarded instruction: the remaining lanes continue at pc + 1
        push(warp, MIDWAY, pc + 1, warp.mask & ~mask)
        after = flow_at(m.flow, pc + 1)
        after.count += 1  # the code after it is executed twice
    park(warp, pc, mask)
    warp.mask = 0
    status = DONE
    if not pop(warp):
        status = resolve_parked(m, warp, w)
    if status == DONE:
        account_group(m, warp)
    return status


@compiled
def lanes_parked_with(m, warp, e):
    """Return the lanes that execute the operation of parked group e together: those parked there with the same
    operands."""
    entry = entry_at(warp.parked_entries, e)
    i = instruction_at(m.code, entry.resume - 1)
    mask = 0
    for f in range(warp.parked_count):
        other = entry_at(warp.parked_entries, f)
        if other.resume == entry.resume and (i.op < N_WARP or same_operands(warp, i, entry.mask, i, other.mask)):
            mask |= other.mask
    return mask


@compiled
def same_operands(warp, i, mask, other, other_mask):
    """Return whether two barrier operations of a warp have the same barrier and thread count."""
    number, count = operands(warp.registers, i, mask)
    other_number, other_count = operands(warp.registers, other, other_mask)
    return number == other_number and count == other_count


@compiled
def resolve_parked(m, warp, w):
    """Resolve a warp without runnable lanes, some of which are parked.

    First, lanes at warp-wide operations run if they do not miss lanes at barriers. Then, if all lanes are at barriers,
    the warp is counted. Return a status like `execute_barrier`.
    """
    warp.mask = 0
    sort_parked(warp)
    if m.asynchronous:
        apart = apart_lanes(m, warp)
        if apart:
            return wait_divergent(m, warp, w, apart)
    waits_for_all = False
    for e in range(warp.parked_count):
        i = instruction_at(m.code, entry_at(warp.parked_entries, e).resume - 1)
        waits_for_all |= i.op >= N_WARP and i.aux == 0
    if waits_for_all:
        missing = go_past(warp)
        if warp.mask:
            leave(m, warp, w, missing)
            return DONE
    at_barriers = barrier_lanes(m, warp)
    held = held_back(m, warp, at_barriers)
    if warp.parked & ~held:
        exchange_divergent(m, warp, w, warp.parked & ~held)
        return DONE
    if held != at_barriers:
        return hold(m, warp, w)
    return count_all(m, warp, w)


@compiled
def apart_lanes(m, warp):
    """Return the lanes of a warp that wait at an mbarrier, or for registers."""
    lanes = 0
    for e in range(warp.parked_count):
        entry = entry_at(warp.parked_entries, e)
        if instruction_at(m.code, entry.resume - 1).op >= N_CONTROL:
            lanes |= entry.mask
    return lanes


@compiled
def wait_divergent(m, warp, w, apart):
    """Resolve a warp without runnable lanes, some of which wait at mbarriers.

    Lanes whose wait ends continue, or lanes at warp-wide operations that miss no lane; otherwise the warp waits. Return
    a status like `execute_barrier`.
    """
    lanes = call(m.async_entry, m.address, w, -1, 0)
    if lanes:
        unpark(m, warp, lanes)
        return DONE
    held = held_back(m, warp, barrier_lanes(m, warp) | behind(warp, apart))
    if warp.parked & ~held:
        exchange_divergent(m, warp, w, warp.parked & ~held)
        return DONE
    warp.waits = AWAITS
    return YIELDED


@compiled
def release_joins(m, w):
    """Let lanes at a join continue without the parked lanes, because the CTA cannot continue otherwise.

    Do nothing if lanes count as converged. Return a status.
    """
    if m.converged:
        return YIELDED
    warp = warp_at(m.warps, w)
    missing = go_past_some(warp, apart_lanes(m, warp))
    if warp.mask == 0:
        return YIELDED
    warp.waits = -1
    leave(m, warp, w, missing)
    account_group(m, warp)
    return DONE


@compiled
def barrier_lanes(m, warp):
    """Return the lanes of a warp that wait at a barrier."""
    lanes = 0
    for e in range(warp.parked_count):
        entry = entry_at(warp.parked_entries, e)
        if instruction_at(m.code, entry.resume - 1).op >= N_WARP:
            lanes |= entry.mask
    return lanes


@compiled
def held_back(m, warp, lanes):
    """Return `lanes`, and all lanes at warp-wide operations whose member mask has one of the returned lanes."""
    more = True
    while more:
        more = False
        for e in range(warp.parked_count):
            entry = entry_at(warp.parked_entries, e)
            i = instruction_at(m.code, entry.resume - 1)
            if entry.mask & lanes == 0 and i.op < N_WARP and names_any(warp.registers, i.c, entry.mask, lanes):
                lanes |= entry.mask
                more = True
    return lanes


@compiled
def exchange_divergent(m, warp, w, lanes):
    """Execute the warp-wide operations of the given lanes, each with the lanes that are parked at it."""
    done = 0
    for e in range(warp.parked_count):
        entry = entry_at(warp.parked_entries, e)
        if entry.mask & lanes & ~done:
            mask = lanes_parked_with(m, warp, e) & lanes
            done |= mask
            pc = entry.resume - 1
            called = m.matrix_entry if instruction_at(m.code, pc).op >= FIRST_MATRIX else m.exchange_entry
            call(called, m.address, w, pc, mask)
    unpark(m, warp, done)


@compiled
def hold(m, warp, w):
    """Handle lanes at barriers that wait for lanes at warp-wide operations, which wait for them in turn (B14)."""
    at = -1
    for e in range(warp.parked_count):
        entry = entry_at(warp.parked_entries, e)
        i = instruction_at(m.code, entry.resume - 1)
        if i.op >= N_WARP and i.aux:
            at = entry.resume - 1
            report_divergence(m, warp, w, at, entry.mask, -1)
    if at >= 0:
        return fault(m, w, at)
    warp.waits = HELD
    return YIELDED


@compiled
def leave(m, warp, w, missing):
    """Report the aligned and warp-wide operations at which the lanes `missing` wait for lanes that continue from a join
    without them."""
    for e in range(warp.parked_count):
        entry = entry_at(warp.parked_entries, e)
        pc = entry.resume - 1
        i = instruction_at(m.code, pc)
        if entry.mask & missing == 0:
            continue
        if i.op < N_WARP:
            members = load_u32(warp.registers + i.c + 4 * lowest_bit(entry.mask))
            if members & warp.mask:
                record_finding(
                    m.report_entry,
                    m.address,
                    (DIVERGENCE, pc, w, entry.mask, -1, -1),
                    (-1, warp.alive, members, 0, 0),
                )
        elif i.op < N_CONTROL and i.aux:
            report_divergence(m, warp, w, pc, entry.mask, -1)


@compiled
def count_all(m, warp, w):
    """Count a warp at a barrier once, if all its live lanes are parked at one operation.

    All must be at barriers. If they have diverged, some must be at a join and others at an aligned barrier (B12, B14).
    """
    first = entry_at(warp.parked_entries, 0)
    lanes = warp.parked
    one = lanes_parked_with(m, warp, 0) == lanes
    pc = first.resume - 1
    own = first.mask
    i = instruction_at(m.code, pc)
    if i.aux and not one:
        report_divergence(m, warp, w, pc, first.mask, -1)
    for e in range(1, warp.parked_count if not one else 0):
        entry = entry_at(warp.parked_entries, e)
        pc = entry.resume - 1
        own = entry.mask
        other = instruction_at(m.code, pc)
        same = i.op == other.op and same_operands(warp, i, first.mask, other, entry.mask)
        if i.aux or other.aux or not same:
            report_divergence(m, warp, w, pc, entry.mask, first.resume - 1)
            return fault(m, w, pc)
    result = barrier_operation(m, w, pc, lanes, own)
    if result == BARRIER_STOPS:
        return fault(m, w, pc)
    if result == WAITS:
        warp.mask = 0
        return YIELDED
    unpark(m, warp, lanes)
    return DONE


@compiled
def begin_turn(m, warp):
    """Prepare the machine for a turn of this warp."""
    if warp.mask == 0:  # its lanes were parked at a barrier in parts, and are released
        unpark(m, warp, warp.wait_mask)
    if m.turn < 0:
        m.turn = TURN
    local = segment_at(m.segments, LOCAL)
    local.host = warp.local_host
    local.initialised = warp.local_initialised
    local.unwritten = warp.local_unwritten if m.blocks else 1 << 62


@compiled
def end_turn(m, warp):
    """Save the initialization state of the warp's local memory at the end of its turn.

    Only machines with blocks do so: blocks find out that all local memory is initialized, and other machines may be
    reset to an earlier state.
    """
    if m.blocks:
        local = segment_at(m.segments, LOCAL)
        warp.local_initialised = local.initialised
        warp.local_unwritten = local.unwritten


@compiled
def note_end(m, w, pc, how, lanes):
    """Record that lanes end by an error of their own; `how` is the `aux` of the exit or trap."""
    if how and lanes:
        code = FAILED if how & ERRORS else RAISED
        record_finding(m.report_entry, m.address, (code, pc, w, lanes, -1, -1), (0, 0, 0, 0, 0))


@compiled
def exit_lanes(m, warp, w, pc, how, lanes):
    """End some lanes of a warp; `how` is the `aux` of their exit."""
    note_end(m, w, pc, how, lanes)
    warp.alive &= ~lanes
    warp.last_pc = pc
    if m.cluster_entry and lanes:
        call(m.cluster_entry, m.address, w, pc, lanes, EXITS)


@compiled
def execute_asynchronous(m, warp, w, pc, lanes):
    """Execute an asynchronous operation, or one that orders these; return a status like `execute_barrier`.

    warp.pc is after it, unless the host must act first.
    """
    status = call(m.async_entry, m.address, w, pc, lanes)
    if status == STANDS:
        status = call(m.collective_entry, m.address, w, pc, lanes)
    if status != DONE and status >= REFINE and status < YIELDED:
        warp.pc = pc
    return status


@compiled
def run_block(m, warp, w, pc, mask):
    """Run the compiled block at the current position, and return a status; warp.pc is where the warp continues.

    An access for which the host was needed is completed by the VM, which has begun it.
    """
    warp.pc = pc
    warp.mask = mask
    place = m.blocks + 8 * pc
    credit = load_i64(place)
    if mask != WHOLE or m.resumes or credit <= 0:
        warp.known_at = 0
        if credit < 0:
            store_i64(place, 1 if credit == -1 else credit + 1)
        return DONE
    return call(m.block_entry, m.address, w)


@emitted
def log_step(b, m, w, pc, lanes):
    """Do nothing; `steps.py` compiles `run_warp` with a function of this name that logs each instruction."""


@compiled
def stop(warp, pc, mask, status):
    """Store where a warp continues, and return the status of its run."""
    warp.pc = pc
    warp.mask = mask
    return status


@inlined
def branch(m, warp, pc, i, x, mask):
    """Make the lanes `x` of a warp jump while the others fall through.

    Return DONE or STACK_OVERFLOW, and where the warp continues with which lanes.
    """
    if x == 0:
        return DONE, pc + 1, mask
    if x == mask:
        return DONE, i.imm, mask
    if warp.depth + 2 > STACK:
        m.fault_pc = pc
        return STACK_OVERFLOW, pc, mask
    diverge(warp, pc, i.c, i.imm, x, mask)
    return DONE, warp.pc, warp.mask


@compiled
def synchronize(m, warp, w, pc, i, x):
    """Execute a barrier or an asynchronous operation; return DONE if the warp continues at warp.pc."""
    status = DONE
    if i.op <= LAST_BARRIER:
        result = take_whole(m, warp, w, pc, i, x)
        if result == WAITS:
            return YIELDED
        if result != GOES_ON:
            status = call(m.collective_entry, m.address, w, pc, x)
    else:
        status = execute_asynchronous(m, warp, w, pc, x)
    if status == DONE and m.blocks:
        status = run_block(m, warp, w, warp.pc, warp.mask)
    return status


@compiled
def trap(m, w, pc, i, x):
    """End the launch at a trap."""
    note_end(m, w, pc, i.aux, x)
    m.fault_pc = pc
    m.fault_warp = w
    return TRAP


@inlined
def resume_warp(m, warp, w):
    """Begin the turn of a warp, with its compiled block if there is one; return a status."""
    begin_turn(m, warp)
    return run_block(m, warp, w, warp.pc, warp.mask) if m.blocks else DONE


@inlined
def active_lanes(registers, i, mask):
    """Return the lanes of `mask` that execute an instruction: all, or those whose guard holds."""
    return mask & (load_u32(registers + (i.guard >> 1)) ^ -(i.guard & 1)) if i.guard else mask


@inlined
def meet_or_fence(m, warp, w, pc, i, mask, x):
    """Execute a barrier, a fence, an exchange between lanes or an asynchronous operation.

    Return a status like `execute_barrier`.
    """
    warp.pc = pc + 1
    warp.mask = mask
    op = i.op
    if op <= LAST_BARRIER or op >= N_CONTROL or (op in (PROXY, INIT_FENCE) and m.asynchronous):
        return synchronize(m, warp, w, pc, i, x)
    # a fence has effects on checks only
    if (m.clocks and op <= LAST_FENCE) or (m.trace and op == SHOW) or op == FORGET:
        call(m.collective_entry, m.address, w, pc, x)
    return DONE


def run_warp(address, w):
    """Run one warp until it waits or ends (YIELDED), or until the machine must stop."""
    m = machine_at(address, 0)
    warp = warp_at(m.warps, w)
    registers = warp.registers
    code = m.code
    families = m.families
    status = resume_warp(m, warp, w)
    if status != DONE:
        return status
    pc = warp.pc
    mask = warp.mask
    while True:
        i = instruction_at(code, pc)
        op = i.op
        x = active_lanes(registers, i, mask)
        log_step(m, w, pc, x)
        if op < N_ALU:
            alu(families, op, registers, i.d, i.a, i.b, i.c, i.imm, x)
            pc += 1
            continue
        if op < N_ATOMIC:
            if x:
                status = call(m.access_entry, address, w, pc, registers, x)
                if status:
                    return stop(warp, pc, mask, status)
            pc += 1
            continue
        if op == BRA:
            status, pc, mask = branch(m, warp, pc, i, x, mask)
            if status != DONE:
                return status
        elif op == JUMP:
            pc = i.imm
        elif op in (JOIN, EXIT):
            if op == EXIT:
                exit_lanes(m, warp, w, pc, i.aux, x)
                mask &= ~x
            if (op == EXIT and mask) or (op == JOIN and not meets(warp, pc, mask)):
                pc += 1
            else:
                status = DONE if pop(warp) else call(m.collective_entry, address, w, pc, x)
                if status != DONE:
                    return status
                pc = warp.pc
                mask = warp.mask
                if warp.midway:
                    continue
        elif op == TRAP_OP:
            return trap(m, w, pc, i, x)
        else:
            if x:
                status = meet_or_fence(m, warp, w, pc, i, mask, x)
                if status != DONE:
                    return status
                mask = warp.mask
                pc = warp.pc
            else:
                pc += 1
            continue
        if not account(m, pc, popcount(mask)):
            return stop(warp, pc, mask, YIELDED if m.turn < 0 else BUDGET)
        if m.blocks:
            status = run_block(m, warp, w, pc, mask)
            if status != DONE:
                return status
            pc = warp.pc
            mask = warp.mask


@compiled
def meets_all(m, pc, mask):
    """Return whether a whole warp waits at a barrier where all other warps of the CTA may wait: until they do, no clock
    changes."""
    op = instruction_at(m.code, pc).op
    waits = op >= FIRST_BARRIER and op <= LAST_BARRIER and op != ARRIVE
    return waits and mask == WHOLE and m.live_warps == m.cta_warps


def collective(address, w, pc, mask):
    """Execute an operation of a whole warp that is rare: exchange lanes, synchronize, exit.

    Return a status like `execute_barrier`.
    """
    m = machine_at(address, 0)
    if m.section and (pc < 0 or not meets_all(m, pc, mask)):
        call(m.section_entry, address, BREAKS, w, pc, mask)
    if pc < 0:
        return release_joins(m, w)
    warp = warp_at(m.warps, w)
    i = instruction_at(m.code, pc)
    op = i.op
    if op >= N_CONTROL:
        warp.last_pc = pc
        return stand(m, warp, w, pc, mask)
    if op < N_WARP:
        loose = op in (ACTIVEMASK, ALIKE)
        if mask != warp.alive and not loose and names_any(warp.registers, i.c, mask, warp.alive & ~mask):
            warp.last_pc = pc
            return stand(m, warp, w, pc, mask)
        call(m.matrix_entry if op >= FIRST_MATRIX else m.exchange_entry, address, w, pc, mask)
        return DONE
    if op <= LAST_BARRIER:
        return execute_barrier(m, warp, w, pc, mask)
    if op <= LAST_FENCE:
        if m.trace:
            kind = FIRST_FENCE_EVENT + op - FIRST_FENCE
            call(m.trace_entry, address, kind, w, load_i64(warp.clock + 8 * w), pc, mask, -1)
        begin_interval(warp, w)
        return DONE
    if op == FORGET:
        forget_bytes(m, warp, i.a, i.b, mask)
        return DONE
    if op == SHOW:
        log_access(m, w, pc, warp.registers, i.a, 0, mask, 0)
        return DONE
    if warp.alive:  # its other lanes are all parked
        return resolve_parked(m, warp, w)
    m.live_warps -= 1
    m.group_live -= 1
    if warp_left(m, w, pc) == BARRIER_STOPS:
        return fault(m, w, pc)
    return YIELDED


@compiled
def start_group(m):
    """Reset warps, barriers and shared memory for the CTAs of group number m.group."""
    if m.clocks:
        start_clocks(m)
    if m.asynchronous:
        call(m.async_entry, m.address, 0, -3, 0)
    m.group_live = m.warp_count
    m.cluster_phase = 0
    m.grid_phase = 0
    m.grid_arrived = 0
    m.next_warp = 0
    m.progress = 0
    m.running = 1
    m.patience -= 4 + m.warp_count + (m.members * m.shared_bytes + m.warp_count * m.local_bytes) // 64
    m.budget -= CTA_COST * (m.members - (m.group == m.group_first))
    if m.shared_bytes and m.shared_initialised:
        shared = segment_at(m.segments, SHARED)
        shared.initialised = m.shared_initialised
        shared.unwritten = shared.bytes
    if m.windows:
        leave_windows(m)
    for member in range(m.members):
        if member != m.member:
            enter_cta(m, member)
        cta_at(m.ctas, member).met = 0
        start_cta(m)
    if m.sections:
        call(m.section_entry, m.address, STARTS, 0, 0, 0)
    m.turn = -1


@compiled
def leave_windows(m):
    """Keep the ranges that the previous CTA accessed in windows of shadow cells, because the next CTA uses the same
    windows."""
    for number in range(FIRST_ARRAY, m.segment_count):
        segment = segment_at(m.segments, number)
        if segment.window_writes and segment.high:
            segment.start = min(segment.start, segment.low)
            segment.passed = max(segment.passed, segment.high)
            segment.low = NOWHERE
            segment.high = 0


@compiled
def start_cta(m):
    """Reset warps, barriers and shared memory for the current CTA."""
    reset(m)
    m.live_warps = m.cta_warps
    m.pool = 0
    shared = m.member << m.window
    for q in range(m.shared_bytes >> 3):
        store_i64(m.shared_host + shared + 8 * q, 0)
        if m.shared_initialised:
            store_i64(m.shared_initialised + shared + 8 * q, 0)
    if m.shared_initialised:
        for q in range(m.given_low, m.given_high):
            store_i64(m.shared_initialised + shared + 8 * q, -1)
    for w in range(m.first_warp, m.first_warp + m.cta_warps):
        start_warp(m, warp_at(m.warps, w))
    group, member = m.group, m.member
    for axis in range(3):
        cluster, place = group, member
        if axis < 2 and group:
            cluster = group % m.groups_along[axis]
            group //= m.groups_along[axis]
        if m.members > 1:
            if axis < 2:
                place = member % m.shape[axis]
                member //= m.shape[axis]
            tell_all(m, m.cta_rows[axis], cluster * m.shape[axis] + place)
        else:
            tell_all(m, m.cta_rows[axis], cluster)
        tell_all(m, m.cluster_rows[axis], cluster)


@compiled
def start_warp(m, warp):
    """Reset a warp to its start."""
    warp.alive = warp.whole
    warp.mask = warp.alive
    warp.pc = 0
    warp.depth = 0
    warp.waits = -1
    warp.parked = 0
    warp.parked_count = 0
    warp.last_pc = -1
    warp.known_at = 0
    warp.cluster_arrived = 0
    warp.cluster_passed = 0
    if m.local_bytes:
        warp.local_initialised = warp.local_map
        warp.local_unwritten = segment_at(m.segments, LOCAL).bytes
        for q in range(m.local_bytes >> 3):
            store_i64(warp.local_host + 8 * q, 0)
            if warp.local_initialised:
                store_i64(warp.local_initialised + 8 * q, 0)
    account(m, 0, popcount(warp.whole))


@compiled
def tell_all(m, row, value):
    """Set a row of all threads of the current CTA to a number."""
    if row >= 0:
        for w in range(m.first_warp, m.first_warp + m.cta_warps):
            for lane in range(LANES):
                store_u32(warp_at(m.warps, w).registers + row + 4 * lane, value)


@compiled
def wakes(m, warp, w):
    """Continue a waiting warp if the wait of some of its lanes has ended, and return whether it has."""
    lanes = call(m.async_entry, m.address, w, -1, 0)
    if lanes == 0:
        return False
    warp.waits = -1
    unpark(m, warp, lanes)
    return True


@compiled
def somebody_passes(m):
    """Make lanes of the lowest possible warp continue from a join, because no warp can continue otherwise; return
    whether any did."""
    for w in range(m.warp_count):
        if warp_at(m.warps, w).alive and warp_at(m.warps, w).waits == SCRIPTED:  # the host may resume it
            return False
    for w in range(m.warp_count):
        warp = warp_at(m.warps, w)
        if warp.alive == 0 or warp.waits != AWAITS:
            continue
        enter_cta(m, warp.member)
        if call(m.collective_entry, m.address, w, -1, 0) == DONE:
            return True
    return False


@compiled
def next_warp(m):
    """Return the next warp of the round that can run, and make its CTA current; -1 if none can."""
    while True:
        if m.next_warp == m.warp_count:
            if m.progress == 0 and not (m.asynchronous and somebody_passes(m)):
                return -1
            m.progress = 0
            m.next_warp = 0
            continue
        w = m.next_warp
        warp = warp_at(m.warps, w)
        if warp.alive:
            if warp.member != m.member:
                enter_cta(m, warp.member)
            if warp.waits < 0 or (warp.waits == AWAITS and wakes(m, warp, w)):
                return w
        m.next_warp += 1


@compiled
def end_group(m):
    """Report what the exited warps of a group left open, and advance to the next group."""
    for member in range(m.members):
        if member != m.member:
            enter_cta(m, member)
        report_dangling(m)
    if m.asynchronous:
        call(m.async_entry, m.address, 0, -2, 0)
    if m.cluster_entry:
        call(m.cluster_entry, m.address, 0, 0, 0, ENDS)
    if m.clocks:
        end_clocks(m)
    m.running = 0
    m.group += m.group_step


@compiled
def run_groups(m):
    """Run groups until something stops the machine, and return the reason."""
    while True:
        if m.running == 0:
            if m.group == m.group_end:
                return DONE
            if m.budget < 0 or m.patience < 0 or m.top > m.worn:
                return BUDGET
            start_group(m)
        while m.group_live > 0:
            w = next_warp(m)
            if w < 0:
                return DEADLOCK
            m.progress = 1
            status = call(m.warp_entry, m.address, w)
            end_turn(m, warp_at(m.warps, w))
            if status != YIELDED:
                return status
            m.turn = -1
            m.next_warp += 1
            if m.budget < 0 and warp_at(m.warps, w).waits < 0 and warp_at(m.warps, w).alive:  # its turn ended first
                return BUDGET
        end_group(m)


def run(address):
    """Run the machine at a host address until it stops."""
    m = machine_at(address, 0)
    if m.delivers:
        m.delivers = 0
        status = call(m.cluster_entry, address, 0, 0, 0, DELIVERS)
        if status != DONE:
            return status
    status = run_groups(m)
    if m.section:
        call(m.section_entry, address, BREAKS, 0, 0, 0)
    return status
