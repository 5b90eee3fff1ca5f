"""Named barriers, as the hardware counts them.

Rules, cited where they are kept (measured on an H200; PTX ISA, "bar, barrier"):

`B1`   16 barriers a CTA, ids 0 to 15.               `B8`   With a count, exited warps still count.
`B2`   A count is a positive multiple of 32.         `B9`   Surplus arrivals open the next generation.
`B3`   An operation counts its whole warp.           `B10`  Arrivals alone complete a generation, without releases.
`B4`   An arrive continues, sync and red wait.       `B11`  Arrivals left at the end are harmless.
`B5`   One count and kind per generation.            `B12`  Aligned forms need a converged warp.
`B6`   A warp may take part twice.                   `B13`  The order of memory is in clocks.py.
`B7`   No count: the CTA's live warps.               `B14`  All live lanes wait there (scheduler.py), and give.
"""

from __future__ import annotations

from wsemu.machine.lowering import compiled
from wsemu.machine.records import barrier_at, call, entry_at, instruction_at, record_finding, warp_at
from wsemu.machine.scalars import equal_u32, load_i64, load_u32, lowest_bit, popcount, store_i64, store_u32
from wsemu.machine.state import (
    BARRIERS,
    BEATS,
    BREAKS,
    CHANGES,
    COUNT_SHIFT,
    GIVES,
    MET,
    MOST_COUNT,
    NOTHING,
    WITH_COUNT,
    WITHOUT_COUNT,
)
from wsemu.machine.sync.clocks import (
    COMPLETED,
    EXITED,
    begin_interval,
    end_generation,
    give,
    give_exit,
    judge_recycling,
    renew,
    take,
    take_exits,
)
from wsemu.machine.sync.warp_clocks import join_clock, join_waiting
from wsemu.model.codes import CODE_NUMBERS
from wsemu.model.isa import LANES, opcodes

ALL_ARRIVE, BARRIER_DIVERGENCE, COUNT_MISMATCH, DANGLING, INVALID, OVERSUBSCRIBED = (
    CODE_NUMBERS[c]
    for c in (
        "all-arrive",
        "barrier-divergence",
        "count-mismatch",
        "dangling-arrive",
        "invalid-barrier",
        "oversubscribed",
    )
)
SYNC, ARRIVE, POPC, EVERY, SOME = opcodes("bar", "sync", "arrive", "red.popc", "red.and", "red.or")
GOES_ON, WAITS, STOPS, ELSE = range(4)
"""effect of an operation on its warp; STOPS: the hardware raises an illegal instruction"""
WHOLE = (1 << LANES) - 1
BAD_ID, BAD_COUNT, ID_DIFFERS = range(3)
"""detail[2] of an invalid-barrier finding"""


@compiled
def uniform(registers, row, mask):
    """Return whether all lanes of `mask` hold the same b32 value."""
    first = load_u32(registers + row + 4 * lowest_bit(mask))
    return equal_u32(registers + row, first) & mask == mask


@compiled
def signed32(x):
    return (x ^ 0x80000000) - 0x80000000


@compiled
def operands(registers, instruction, mask):
    """Return the barrier's number and the thread count of an operation; a count of 0 is the whole CTA."""
    if instruction.imm:
        return instruction.imm & (BARRIERS - 1), (instruction.imm >> COUNT_SHIFT) & (MOST_COUNT - 1)
    at = 4 * lowest_bit(mask)
    number = signed32(load_u32(registers + instruction.a + at))
    count = 0
    if instruction.b:
        count = signed32(load_u32(registers + instruction.b + at))
    return number, count


@compiled
def check_operands(m, w, pc, mask):
    """Return whether the operands of the barrier operation at pc are valid, and report those that are not."""
    instruction = instruction_at(m.code, pc)
    registers = warp_at(m.warps, w).registers
    id_row, count_row = instruction.a, instruction.b
    number, count = operands(registers, instruction, mask)
    wrong = -1
    if number < 0 or number >= BARRIERS:  # B1
        wrong = BAD_ID
    elif count_row and (count <= 0 or count & 31):  # B2
        wrong = BAD_COUNT
    elif instruction.imm:
        wrong = -1
    elif not uniform(registers, id_row, mask) or (count_row and not uniform(registers, count_row, mask)):
        wrong = ID_DIFFERS
    if wrong >= 0:
        record_finding(m.report_entry, m.address, (INVALID, pc, w, mask, -1, -1), (number, count, wrong, 0, 0))
        return False
    if count > m.cta_warps * LANES:
        record_finding(
            m.report_entry,
            m.address,
            (OVERSUBSCRIBED, pc, w, mask, -1, -1),
            (number, count, m.cta_warps * LANES, 0, 0),
        )
    return True


@compiled
def give_predicate(b, registers, row, mask):
    """Add the predicates of some lanes to the reduction of the current generation."""
    p = load_u32(registers + row) & mask
    b.popc += popcount(p)
    if p != mask:
        b.every = 0
    if p != 0:
        b.some = 1


@compiled
def take_result(b, registers, instruction, mask):
    """Write the result of the reduction to the lanes of a released warp."""
    if instruction.op == POPC:
        rest = mask
        while rest:
            store_u32(registers + instruction.d + 4 * lowest_bit(rest), b.popc)
            rest &= rest - 1
    elif instruction.op == EVERY or instruction.op == SOME:
        value = b.every if instruction.op == EVERY else b.some
        old = load_u32(registers + instruction.d)
        store_u32(registers + instruction.d, (old & ~mask) | (mask if value else 0))


@compiled
def release(m, number, b):
    released = 0
    for u in range(m.first_warp, m.first_warp + m.cta_warps):
        warp = warp_at(m.warps, u)
        if warp.waits != number:
            continue
        warp.waits = -1
        if m.clocks:
            take(m, u, number, warp.wait_mask, instruction_at(m.code, warp.wait_pc).b == 0)
        released |= 1 << u
        if warp.parked == 0:
            take_result(b, warp.registers, instruction_at(m.code, warp.wait_pc), warp.wait_mask)
        else:
            for e in range(warp.parked_count):
                entry = entry_at(warp.parked_entries, e)
                take_result(b, warp.registers, instruction_at(m.code, entry.resume - 1), entry.mask)
    if m.beat and m.section:
        call(m.section_entry, m.address, CHANGES, 0, 0, released)


@compiled
def close(b):
    """End the current generation: the next one becomes current."""
    b.last_warps = b.warps
    b.warps = 0
    b.arrived = 0
    b.syncs = 0
    b.expected = 0
    b.generation += 1


@compiled
def complete_if_met(m, number, pc, warp):
    """If the count of the current generation is reached, release the waiting warps and begin the next one (B4)."""
    b = barrier_at(m.barriers, number)
    wanted = b.expected if b.expected else m.live_warps * LANES  # B7
    if b.arrived == 0 or b.arrived < wanted:
        return
    if b.syncs == 0:  # B10
        record_finding(
            m.report_entry,
            m.address,
            (ALL_ARRIVE, pc, warp, 0, b.first_pc, b.first_warp),
            (number, b.generation, b.arrived, 0, 0),
        )
    all_meet = b.syncs == m.cta_warps
    if m.clocks:
        join_waiting(m, number)
        if b.forms & WITHOUT_COUNT:
            take_exits(m, number)
        if m.trace:
            call(m.trace_entry, m.address, COMPLETED, warp, m.base, pc, number, b.generation)
    if m.section and not all_meet and m.beat == 0:
        call(m.section_entry, m.address, BREAKS, 0, 0, 0)
    release(m, number, b)
    if m.clocks:
        end_generation(m, number)
    if m.sections:
        call(m.section_entry, m.address, MET if all_meet else BEATS, number, 0, 0)
    b.all_met = 0
    close(b)


@compiled
def warp_left(m, warp, pc):
    """Update barriers without a count after a warp's exit, since they no longer wait for it (B7); return GOES_ON or
    STOPS."""
    if m.clocks:
        clock = warp_at(m.warps, warp).clock
        give_exit(m, warp)
        if m.trace:
            call(m.trace_entry, m.address, EXITED, warp, load_i64(clock + 8 * warp), pc, -1, -1)
    for number in range(BARRIERS):
        b = barrier_at(m.barriers, number)
        if b.arrived and m.live_warps:
            if mixes(m, b.forms):
                mismatch(m, warp, pc, 0, number, b.expected)
                return STOPS
            if b.expected == 0:
                complete_if_met(m, number, pc, warp)
    return GOES_ON


@compiled
def mixes(m, forms):
    """Return whether a generation mixes operations with and without a count, and an exit could come between them.

    The number of threads for which the barrier waits would then depend on their order. No warp can have exited only if
    all warps of the CTA wait there.
    """
    both = WITH_COUNT | WITHOUT_COUNT
    return forms & both == both and (forms & GIVES != 0 or m.live_warps < m.cta_warps)


@compiled
def mismatch(m, w, pc, mask, number, count):
    """Report an operation whose form differs from the other operations of its generation."""
    b = barrier_at(m.barriers, number)
    whole = m.cta_warps * LANES
    record_finding(
        m.report_entry,
        m.address,
        (COUNT_MISMATCH, pc, w, mask, b.first_pc, b.first_warp),
        (number, b.generation, b.expected or whole, count or whole, b.arrived),
    )


@compiled
def join_generation(m, w, pc, op, number, count, mask):
    """Open a generation or join the current one; return whether the operation matches the others."""
    b = barrier_at(m.barriers, number)
    form = (WITH_COUNT if count else WITHOUT_COUNT) | (GIVES if op == ARRIVE else 0)
    reduces = op if op >= POPC else 0
    if b.arrived == 0:
        b.expected = count
        b.first_pc = pc
        b.first_warp = w
        b.forms = form
        b.reduces = reduces
        b.popc = 0
        b.every = 1
        b.some = 0
        return True
    whole = m.cta_warps * LANES
    b.forms |= form
    if (b.expected or whole) != (count or whole) or b.reduces != reduces or mixes(m, b.forms):  # B5
        mismatch(m, w, pc, mask, number, count)
        return False
    return True


@compiled
def reduce_predicates(m, b, warp, instruction, mask):
    """Add the predicates of a warp's lanes to the reduction; each parked group in `mask` has its own instruction."""
    if warp.parked == 0:
        give_predicate(b, warp.registers, instruction.c, mask)
    for e in range(warp.parked_count):
        entry = entry_at(warp.parked_entries, e)
        if entry.mask & mask:
            give_predicate(b, warp.registers, instruction_at(m.code, entry.resume - 1).c, entry.mask)


@compiled
def take_part(m, w, pc, op, number, count, wait_mask):
    """Count warp w in the current generation of a barrier; its lanes `wait_mask` execute the operation.

    The operands are valid. Return GOES_ON, WAITS or STOPS.
    """
    if not join_generation(m, w, pc, op, number, count, wait_mask):
        return STOPS
    b = barrier_at(m.barriers, number)
    if b.reduces:
        reduce_predicates(m, b, warp_at(m.warps, w), instruction_at(m.code, pc), wait_mask)
    if m.clocks:
        give(m, w, pc, number, op != ARRIVE, wait_mask, count == 0)
    b.arrived += LANES  # B3
    b.warps |= 1 << (w - m.first_warp)
    if op != ARRIVE:
        b.syncs += 1
        warp = warp_at(m.warps, w)
        warp.waits = number
        warp.wait_pc = pc
        warp.wait_mask = wait_mask
    complete_if_met(m, number, pc, w)
    return GOES_ON if op == ARRIVE or warp_at(m.warps, w).waits < 0 else WAITS


@compiled
def all_have_met(m, b):
    """Release all warps of a CTA, which wait at one barrier, and join their clocks: afterwards no thread has observed
    more of a warp than that warp itself."""
    for u in range(m.first_warp, m.first_warp + m.cta_warps):
        other = warp_at(m.warps, u)
        other.waits = -1
        join_clock(m, other.clock, b.took)
        now = load_i64(other.clock + 8 * u)
        other.synced = now
        other.partial = 0
        store_i64(other.clock + 8 * u, now + 1)
    renew(m, b)
    if m.sections:
        call(m.section_entry, m.address, MET, 0, 0, 0)
    b.all_met = 1
    close(b)


@compiled
def alike(registers, i):
    """Return the operands if they are uniform and valid in a whole warp, otherwise -1 as the number."""
    if i.imm == 0 and not (uniform(registers, i.a, WHOLE) and (i.b == 0 or uniform(registers, i.b, WHOLE))):
        return -1, 0
    number, count = operands(registers, i, WHOLE)
    if number < 0 or number >= BARRIERS or count < 0 or (count == 0 and i.b):
        return -1, 0
    return number, count


@compiled
def usual(m, warp, i, count, mask):
    """Return whether a barrier operation is a usual one: all lanes execute it, and nothing has to be recorded beyond
    what `take_whole` records."""
    if (i.op != SYNC and i.op != ARRIVE) or mask & warp.alive != WHOLE:
        return False
    if m.clocks == 0 or m.by_lanes or m.lockstep or m.trace:
        return False
    if count > m.cta_warps * LANES or count & (LANES - 1):
        return False
    alone = m.section == NOTHING or m.beat  # otherwise, the end of the section must be reported first
    if m.live_warps == m.cta_warps:
        return i.op == SYNC or alone
    return count and alone


@compiled
def join_whole(m, warp, w, pc, i, number, count):
    """Count a whole warp in the current generation, or open one; return whether the operation matches the others."""
    b, whole = barrier_at(m.barriers, number), m.cta_warps * LANES
    form = (WITH_COUNT if count else WITHOUT_COUNT) | (GIVES if i.op == ARRIVE else 0)
    if b.arrived == 0:
        b.expected = count
        b.first_pc = pc
        b.first_warp = w
        b.forms = form
        b.reduces = 0
    elif b.reduces or (b.expected or whole) != (count or whole) or mixes(m, b.forms | form):
        return False
    b.forms |= form
    if m.recycling and b.all_met == 0 and b.generation:
        judge_recycling(m, w, pc, number)
    store_i64(b.took + 8 * w, load_i64(warp.clock + 8 * w))
    store_i64(b.took_pc + 8 * w, pc)
    b.arrived += LANES
    b.warps |= 1 << (w - m.first_warp)
    warp.last_pc = pc
    if i.op == ARRIVE:
        join_clock(m, b.clock, warp.clock)
        begin_interval(warp, w)
        if m.beat and m.section:
            call(m.section_entry, m.address, CHANGES, w, pc, 1 << w)
    else:
        b.syncs += 1
        warp.waits = number
        warp.wait_pc = pc
        warp.wait_mask = WHOLE
    return True


@compiled
def take_whole(m, warp, w, pc, i, mask):
    """Execute a usual barrier operation quickly; return ELSE, and do nothing, if it is not `usual`."""
    number, count = alike(warp.registers, i)
    if number < 0 or not usual(m, warp, i, count, mask) or not join_whole(m, warp, w, pc, i, number, count):
        return ELSE
    b = barrier_at(m.barriers, number)
    if b.arrived >= (b.expected or m.cta_warps * LANES):
        if b.syncs == m.cta_warps and m.members == 1:
            all_have_met(m, b)
        else:
            complete_if_met(m, number, pc, w)
    return GOES_ON if i.op == ARRIVE or warp.waits < 0 else WAITS


@compiled
def barrier_operation(m, w, pc, mask, own):
    """Execute the barrier instruction at pc, whose operands are valid, for the lanes `mask` of warp w.

    The lanes `own` are at pc, so their registers have the operands. Others of `mask` may be at another instruction of
    the barrier. Return GOES_ON, WAITS or STOPS.
    """
    instruction = instruction_at(m.code, pc)
    warp = warp_at(m.warps, w)
    number, count = operands(warp.registers, instruction, own)
    if instruction.aux and mask != warp.alive:  # B12; the hardware then counts as in B3
        record_finding(
            m.report_entry, m.address, (BARRIER_DIVERGENCE, pc, w, mask, -1, -1), (number, warp.alive, 0, 0, 0)
        )
    return take_part(m, w, pc, instruction.op, number, count, mask)


@compiled
def report_dangling(m):
    """Report, at the CTA's exit, generations that arrives opened and nothing completed (B11)."""
    for number in range(BARRIERS):
        b = barrier_at(m.barriers, number)
        if b.arrived:
            record_finding(
                m.report_entry,
                m.address,
                (DANGLING, b.first_pc, b.first_warp, 0, -1, -1),
                (number, b.generation, b.arrived, b.expected, 0),
            )


@compiled
def reset(m):
    for number in range(BARRIERS):
        b = barrier_at(m.barriers, number)
        b.expected = 0
        b.arrived = 0
        b.generation = 0
        b.syncs = 0
        b.warps = 0
        b.last_warps = 0
        b.all_met = 0
