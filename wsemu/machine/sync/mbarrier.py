"""Operations on mbarriers in compiled code, and the lanes that wait for a phase.

The state of an mbarrier is not in memory, as on the hardware (M17): a table holds it by the 8-byte word of shared
memory. Lanes of one instruction at one mbarrier act as one (M6). A wait that blocks parks its lanes (`divergence.park`)
until one of them succeeds. Rules M1 to M22 were measured; PTX ISA, "mbarrier". `phases.py` checks the phases by the
clocks of the operations.
"""

from __future__ import annotations

from wsemu.machine.agents.agents import new_agent
from wsemu.machine.lowering import compiled, set_bits
from wsemu.machine.memory.bounds import OUT_OF_BOUNDS, careful_lane
from wsemu.machine.memory.shadow_cells import same_key
from wsemu.machine.memory.window import is_in_window
from wsemu.machine.records import (
    agent_at,
    call,
    groups_at,
    mbarrier_at,
    record_finding,
    segment_at,
    warp_at,
)
from wsemu.machine.scalars import (
    above_u32,
    equal_u32,
    load_i64,
    load_u32,
    lowest_bit,
    odd_u32,
    popcount,
    store_i64,
    store_u32,
    total_u32,
)
from wsemu.machine.state import (
    ARRIVES,
    DONE,
    GROW,
    GROW_MBARRIERS,
    OUTSIDE,
    STANDS,
    TRAP,
)
from wsemu.machine.sync.clocks import begin_interval
from wsemu.machine.sync.events import (
    ARRIVALS,
    AWAITED,
    CREDITS,
    EXPECTS,
    INITS,
    INVALS,
    PHASES,
    log,
    report_failure,
)
from wsemu.machine.sync.lane_clocks import (
    converge,
    give_published,
    give_times,
    join_lanes,
    learn,
    learn_times,
    row,
    take_published,
    time_of,
)
from wsemu.machine.sync.peers import reach, reach_phase, see_phase
from wsemu.machine.sync.phases import (
    LIFETIME,
    UNINITIALIZED,
    address_of,
    excuse_commits,
    join_known,
    judge_observed,
    judge_open,
    judge_registrants,
    judge_row,
    judge_use,
    judge_wait,
    new_phases,
    note_cover,
    note_empties,
    note_expects,
    note_followed,
    note_held,
    note_registrants,
    note_use,
    note_wait,
    set_bit,
    turn_phase,
)
from wsemu.model.codes import CODE_NUMBERS
from wsemu.model.isa import (
    ADDRESS_WRAPPED,
    BLOCKS,
    DROP,
    EXPECT,
    FIRST_ARRAY,
    INIT_STEP,
    LANES,
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
    opcodes,
)

INIT, INVAL, ARRIVE, EXPECT_TX, COMPLETE_TX, WAIT, WAIT_PARITY, PENDING_COUNT, PHASE = opcodes(
    "mbarrier", "init", "inval", "arrive", "expect_tx", "complete_tx", "wait", "wait.parity", "pending_count", "phase"
)
(ASYNC_ARRIVE,) = opcodes("cp.async", "arrive")
REINIT, RANGE, OVER_ARRIVAL, SAME_INIT = (
    CODE_NUMBERS[c] for c in ("mbarrier-reinit", "mbarrier-range", "over-arrival", "same-value-init")
)
ALIAS, SCOPE, FOREIGN = (CODE_NUMBERS[c] for c in ("phase-alias", "scope", "remote-mbarrier"))
LOW = 0xFFFFFFFF
MOST_LIVE = 4096
"""maximum number of live mbarriers in a CTA"""


# -- which mbarrier ----------------------------------------------------------------------------------------------------


@compiled
def word_of(registers, a, imm, lane):
    """Return the number of the 8-byte word of shared memory at a valid address."""
    return ((load_i64(registers + a + 8 * lane) + imm) & ~ADDRESS_WRAPPED & OFFSET_MASK) >> 3


@compiled
def good_addresses(m, w, pc, registers, a, imm, mask):
    """Return whether these lanes address words of shared memory (M19), and report those that do not."""
    good = True
    while mask:
        lane = lowest_bit(mask)
        address = load_i64(registers + a + 8 * lane) + imm
        offset = address - (SHARED << SEGMENT_SHIFT)
        if offset >= 0 and offset + 8 <= segment_at(m.segments, SHARED).bytes and not is_in_window(m, offset, 8):
            mask &= mask - 1
            record_finding(
                m.report_entry,
                m.address,
                (OUT_OF_BOUNDS, pc, w, 1 << lane, -1, -1),
                (address, OUTSIDE, 8, SHARED, m.shared_limit),
            )
            good = False
            continue
        if offset & 7 == 0 and offset >= 0 and offset + 8 <= segment_at(m.segments, SHARED).bytes:
            mask &= ~same_key(registers + a, -1, address - imm)
            continue
        mask &= mask - 1
        number = (address & ~ADDRESS_WRAPPED) >> SEGMENT_SHIFT
        in_array = number >= FIRST_ARRAY and number < m.segment_count
        if not in_array and careful_lane(m, pc, w, address, lane, 8, False) == 0:
            good = False
            continue
        address &= ~ADDRESS_WRAPPED
        if number != SHARED:
            record_finding(
                m.report_entry,
                m.address,
                (OUT_OF_BOUNDS, pc, w, 1 << lane, -1, -1),
                (address, OUTSIDE, 8, number, segment_at(m.segments, number).bytes),
            )
            good = False
    return good


@compiled
def same_word(registers, a, imm, mask):
    """Return the lanes of `mask` that address the same word as the lowest lane; all addresses are valid."""
    first = load_i64(registers + a + 8 * lowest_bit(mask)) & OFFSET_MASK
    return same_key(registers + a, OFFSET_MASK, first) & mask


@compiled
def find_mbarrier(m, word):
    """Return the number, from 1, of the mbarrier that is or was at a word; 0: none."""
    return load_i64(m.mbarrier_index + 8 * word)


@compiled
def all_live(m, w, pc, registers, a, imm, mask):
    """Return whether each of these words has a live mbarrier, and report the first one that has none."""
    while mask:
        group = same_word(registers, a, imm, mask)
        word = word_of(registers, a, imm, lowest_bit(mask))
        number = find_mbarrier(m, word)
        live, other_pc, other_warp, dead = 0, -1, -1, 0
        if number:
            b = mbarrier_at(m.mbarriers, number - 1)
            live = b.live
            if live == 0:
                other_pc = b.inval_pc
                other_warp = b.inval_warp
                dead = 1
        if live == 0:
            record_finding(
                m.report_entry,
                m.address,
                (UNINITIALIZED, pc, w, group, other_pc, other_warp),
                ((SHARED << SEGMENT_SHIFT) | word << 3, 0, dead, 0, 0),
            )
            return False
        mask &= ~group
    return True


# -- what it holds -----------------------------------------------------------------------------------------------------


@compiled
def word(b):
    """Return the 64 bits that the hardware stores for an mbarrier (M1)."""
    low = (-b.tx & 0x1FFFFF) << 21 | (-b.expected & 0xFFFFF) << 1
    return (b.phase & 1) << 63 | (-b.pending & 0xFFFFF) << 43 | low


@compiled
def lower_half(b):
    """Return the lower half of a token of the current phase, which distinguishes mbarriers by their locations and
    initializations."""
    return (b.phase + 1 + (b.initializations - 1) * INIT_STEP + (b.word + 1) * TOKEN_STEP) & LOW


@compiled
def token_age(b, token):
    """Return how many phases ago an mbarrier gave a token; TOKEN_SPAN or more if it did not."""
    age = (lower_half(b) - token) & LOW
    if age < TOKEN_SPAN and (token >> 63 & 1) != (b.phase - age) & 1:
        return TOKEN_SPAN
    return age


@compiled
def out_of_range(m, b, w, pc, mask, value, what):
    record_finding(m.report_entry, m.address, (RANGE, pc, w, mask, -1, -1), (address_of(b), value, what, 0, 0))


@compiled
def complete_if_met(m, b, w, pc, lanes):
    """Complete the current phase if no arrivals and no bytes are pending (M3, M9), and return whether it is."""
    if b.pending or b.tx:
        return False
    if m.clocks:
        turn_phase(m, b, w, pc, lanes)
    log(m, PHASES, w, pc, address_of(b), b.phase, lanes, 0)
    b.phase += 1
    b.pending = b.expected
    b.wanted = 0
    b.brought = 0
    b.added = 0
    b.far_before_pc = b.far_pc
    b.far_before_warp = b.far_warp
    b.far_pc = -1
    b.tx_pc = -1
    b.last_pc = -1
    return True


@compiled
def registers_bytes(b, w, pc):
    b.tx_pc = pc
    b.tx_warp = w


@compiled
def registers_last(b, w, pc):
    b.last_pc = pc
    b.last_warp = w


# -- init and inval ----------------------------------------------------------------------------------------------------


@compiled
def begin(m, w, pc, registers, i, mask):
    """Execute `mbarrier.init`, and return a status.

    Lanes with the same location and count act as one; lanes with another count find a live mbarrier.
    """
    while mask:
        lane = lowest_bit(mask)
        at = word_of(registers, i.a, i.imm, lane)
        count = load_u32(registers + i.b + 4 * lane)
        lanes = same_word(registers, i.a, i.imm, mask) & equal_u32(registers + i.b, count)
        mask &= ~lanes
        address = (SHARED << SEGMENT_SHIFT) | at << 3
        if count == 0 or count > MOST_COUNT:
            bit = 1 << lane
            record_finding(m.report_entry, m.address, (RANGE, pc, w, bit, -1, -1), (address, count, 0, 0, 0))
            return report_failure(m, w, pc)
        number = find_mbarrier(m, at)
        if number == 0:
            m.mbarrier_count += 1
            number = m.mbarrier_count
            store_i64(m.mbarrier_index + 8 * at, number)
            mbarrier_at(m.mbarriers, number - 1).initializations = 0
            m.mbarrier_low = min(m.mbarrier_low, at)
            m.mbarrier_high = max(m.mbarrier_high, at)
        else:
            judge_reinit(m, mbarrier_at(m.mbarriers, number - 1), w, pc, lanes, address)
        if lanes & (lanes - 1):
            record_finding(
                m.report_entry, m.address, (SAME_INIT, pc, w, lanes & (lanes - 1), pc, w), (address, 0, 0, 0, 0)
            )
        b = mbarrier_at(m.mbarriers, number - 1)
        m.mbarriers_live += 1 - b.live
        b.live = 1
        b.initializations += 1
        b.word = at
        b.phase = 0
        b.pending = count
        b.expected = count
        b.tx = 0
        b.wanted = 0
        b.brought = 0
        b.added = 0
        b.tx_pc = -1
        b.last_pc = -1
        b.init_pc = pc
        b.init_warp = w
        b.init_lanes = lanes
        b.published = 0
        b.far_pc = -1
        b.far_before_pc = -1
        if m.clocks:
            b.init_interval = load_i64(warp_at(m.warps, w).clock + 8 * w)
            new_phases(m, b)
        if m.mbarriers_live > MOST_LIVE:
            report_failure(m, w, pc)
            return TRAP
        log(m, INITS, w, pc, address, 0, lanes, count)
    return DONE


@compiled
def publish(m, w, lanes):
    """Execute `fence.mbarrier_init`: publish the mbarriers that these lanes initialized to all later threads, even if
    only time orders them."""
    for number in range(m.mbarrier_count):
        b = mbarrier_at(m.mbarriers, number)
        if b.live and b.init_warp == w and b.init_lanes & ~lanes == 0 and b.published == 0 and m.clocks:
            b.published = time_of(m, w)


@compiled
def judge_reinit(m, b, w, pc, lanes, address):
    """Report an init at a word that has a live mbarrier, or had one without synchronization since."""
    other, other_warp = b.init_pc, b.init_warp
    again = lanes
    if b.live == 0:
        again = 0
        while lanes and m.clocks:
            lane = lowest_bit(lanes)
            lanes &= lanes - 1
            if not knows(m, w, lane, b.inval_warp, b.inval_lane, b.inval_interval):
                again |= 1 << lane
        other = b.inval_pc
        other_warp = b.inval_warp
    if again:
        record_finding(m.report_entry, m.address, (REINIT, pc, w, again, other, other_warp), (address, 0, 0, 0, 0))


@compiled
def knows(m, w, lane, u, other, interval):
    if u == w and (lane == other or m.lockstep):
        return True
    leader = load_i64(warp_at(m.warps, w).leaders + 8 * lane)
    return load_i64(row(m, LANES * w + leader) + 256 * u + 8 * other) >= interval


@compiled
def invalidate(m, w, pc, registers, i, mask):
    """Execute `mbarrier.inval`, and return a status."""
    for lane in set_bits(mask):
        bit = 1 << lane
        if not all_live(m, w, pc, registers, i.a, i.imm, bit):
            return report_failure(m, w, pc)
        b = mbarrier_at(m.mbarriers, find_mbarrier(m, word_of(registers, i.a, i.imm, lane)) - 1)
        if m.clocks:
            judge_use(m, b, w, pc, bit)
            excuse_commits(m, b, w, pc, lane)
            judge_row(m, b, w, pc, bit, b.used, b.used_pc, LIFETIME, 0)
            b.inval_interval = load_i64(warp_at(m.warps, w).clock + 8 * w)
        if b.waiters or b.tx:
            record_finding(
                m.report_entry, m.address, (LIFETIME, pc, w, bit, -1, -1), (address_of(b), b.phase, 1, -1, 0)
            )
        store_i64(segment_at(m.segments, SHARED).host + 8 * b.word, word(b))
        log(m, INVALS, w, pc, address_of(b), b.phase, bit, 0)
        b.live = 0
        m.mbarriers_live -= 1
        b.inval_pc = pc
        b.inval_warp = w
        b.inval_lane = lane
    return DONE


# -- arrivals and bytes ------------------------------------------------------------------------------------------------


@compiled
def write_tokens(registers, d, lanes, token):
    while lanes:
        store_i64(registers + d + 8 * lowest_bit(lanes), token)
        lanes &= lanes - 1


@compiled
def judge_registering(m, b, w, pc, lanes):
    """Check rules R1 and R4 for lanes that register in the current phase."""
    judge_use(m, b, w, pc, lanes)
    judge_registrants(m, b, w, pc, lanes)


@compiled
def registering(b, lanes, adding, pending):
    """Return the lanes that register in the current phase: those whose operand is not 0.

    If no operand is, but the operation completes the phase, which has `pending` arrivals left, then all lanes register.
    """
    if adding == 0 and pending == 0 and b.tx == 0:
        return lanes
    return adding


@compiled
def check_range(m, b, w, pc, registers, source, lanes, what):
    """Return whether the b32 operand of each lane fits into an mbarrier."""
    bad = above_u32(registers + source, MOST_COUNT) & lanes
    if bad:
        lane = lowest_bit(bad)
        out_of_range(m, b, w, pc, lanes & -(1 << lane), load_u32(registers + source + 4 * lane), what)
    return bad == 0


@compiled
def add_bytes(m, b, w, pc, lanes, change):
    """Add to the pending bytes, and return whether an mbarrier can hold their number (M10)."""
    b.tx += change
    if b.tx > MOST_COUNT or b.tx < -MOST_COUNT:
        out_of_range(m, b, w, pc, lanes, b.tx, 3)
        return False
    if change > 0:
        b.wanted += change
    else:
        b.brought -= change
    most = b.wanted if change > 0 else b.brought
    if most > MOST_COUNT:  # the order decides whether they are pending at the same time: proof/outstanding.py
        out_of_range(m, b, w, pc, lanes, most, 5)
    return True


@compiled
def enough(m, b, w, pc, lanes, count):
    """Return whether at most the pending number of threads arrives (M4)."""
    if count > b.pending:
        record_finding(
            m.report_entry,
            m.address,
            (OVER_ARRIVAL, pc, w, lanes, -1, -1),
            (address_of(b), b.phase, b.pending, count, 0),
        )
        return False
    return True


@compiled
def arrive_all(m, b, w, pc, registers, i, lanes):
    """Execute an arrive of some lanes at one mbarrier, and return whether the hardware continues."""
    if not check_range(m, b, w, pc, registers, i.b, lanes, 1):
        return False
    if i.aux & EXPECT:
        if not check_range(m, b, w, pc, registers, i.c, lanes, 2):
            return False
        expected = total_u32(registers + i.c, lanes)
        if not add_bytes(m, b, w, pc, lanes, expected):
            return False
        log(m, EXPECTS, w, pc, address_of(b), b.phase, lanes, expected)
    count = total_u32(registers + i.b, lanes)
    log(
        m,
        ARRIVALS,
        w,
        pc,
        address_of(b),
        b.phase,
        above_u32(registers + i.b, 0) & lanes if count else lanes,
        count,
    )
    while lanes:
        some = lanes
        if i.aux & NO_COMPLETE:
            some = lanes & -lanes
        lanes &= ~some
        if not arrive(m, b, w, pc, registers, i, some):
            return False
    return True


@compiled
def arrive(m, b, w, pc, registers, i, lanes):
    """Arrive once for all of some lanes, and return whether the hardware continues."""
    count = total_u32(registers + i.b, lanes)
    if i.d:
        write_tokens(registers, i.d, lanes, (word(b) & ~LOW) | lower_half(b))
    if not enough(m, b, w, pc, lanes, count):
        return False
    adding = above_u32(registers + i.b, 0) & lanes
    if i.aux & EXPECT:
        adding |= above_u32(registers + i.c, 0) & lanes
    adding = registering(b, lanes, adding, b.pending - count)
    if m.clocks:
        judge_use(m, b, w, pc, lanes)
        note_use(m, b, w, pc, lanes)
        note_empties(m, b, w, pc, lanes & ~adding)
    if adding:
        note_arrivals(m, b, w, pc, i, adding)
    if i.aux & DROP:
        b.expected -= count
    b.pending -= count
    if i.aux & NO_COMPLETE and m.clocks and adding:
        note_held(m, b, w, pc, adding)
    if complete_if_met(m, b, w, pc, lanes) and i.aux & NO_COMPLETE and m.clocks == 0:
        out_of_range(m, b, w, pc, lanes, b.phase - 1, 4)
    return True


@compiled
def note_arrivals(m, b, w, pc, i, lanes):
    """Register lanes whose arrive has a count above 0 in the current phase, and release their clocks to it."""
    if m.clocks:
        judge_registrants(m, b, w, pc, lanes)
        judge_observed(m, b, w, pc, lanes)
        note_registrants(m, b, w, pc, lanes)
        note_cover(m, b, w, lanes)
    far = m.members > 1 and is_far(m, b)
    narrow = far and i.aux & NARROW and i.aux & RELAXED == 0
    if narrow:
        record_finding(m.report_entry, m.address, (SCOPE, pc, w, lanes, -1, -1), (address_of(b), 0, 0, 0, 0))
    elif far and i.aux & RELAXED == 0:
        b.far_pc = pc
        b.far_warp = w
    if m.clocks:
        if i.aux & RELAXED or narrow:
            give_times(m, b.given[0], w, lanes)
            if m.tensor_fences and i.aux & RELAXED:
                give_published(m, b.given[0], w, lanes)
            if far:
                reach_phase(m, w, pc, b.word >> (m.window - 3), lanes)
        else:
            join_lanes(m, b.given[0], w, lanes)
    registers_last(b, w, pc)
    if i.aux & EXPECT:
        registers_bytes(b, w, pc)


@compiled
def change_bytes(m, b, w, pc, registers, i, lanes, sign):
    """Execute expect_tx (sign 1) or complete_tx (-1), and return whether the hardware continues."""
    if not check_range(m, b, w, pc, registers, i.b, lanes, 2):
        return False
    amount = total_u32(registers + i.b, lanes)
    if not add_bytes(m, b, w, pc, lanes, sign * amount):
        return False
    adding = registering(b, lanes, above_u32(registers + i.b, 0) & lanes, b.pending)
    if m.clocks:
        judge_use(m, b, w, pc, lanes)
        note_use(m, b, w, pc, lanes)
        note_empties(m, b, w, pc, lanes & ~adding)
        if adding:
            judge_registrants(m, b, w, pc, adding)
            note_registrants(m, b, w, pc, adding)
            give_times(m, b.given[0], w, adding)
            if m.members > 1 and is_far(m, b):
                reach_phase(m, w, pc, b.word >> (m.window - 3), adding)
            if sign > 0:
                note_expects(m, b, b.expects, b.expects_pc, w, pc, adding)
    if adding:
        registers_last(b, w, pc)
        registers_bytes(b, w, pc)
    log(m, EXPECTS if sign > 0 else CREDITS, w, pc, address_of(b), b.phase, lanes, amount)
    complete_if_met(m, b, w, pc, lanes)
    return True


@compiled
def is_far(m, b):
    """Return whether an mbarrier belongs to another CTA."""
    return b.word >> (m.window - 3) != m.member


@compiled
def own_alone(m, w, pc, registers, i, mask, far):
    """Return whether an operation may access the mbarriers of its lanes: those of the CTA, or with `far` also others of
    the cluster (M20)."""
    if m.clusters == 0:
        return True
    while mask:
        group = same_word(registers, i.a, i.imm, mask)
        mask &= ~group
        word_ = word_of(registers, i.a, i.imm, lowest_bit(group))
        member = word_ >> (m.window - 3)
        if member == m.member:
            continue
        if not far:
            address = (SHARED << SEGMENT_SHIFT) | word_ << 3
            record_finding(m.report_entry, m.address, (FOREIGN, pc, w, group, -1, -1), (address, member, -1, 0, 0))
            return False
        reach(m, w, pc, member, group, 0, i.op == ARRIVE and i.aux & (RELAXED | NARROW) == 0)
    return True


@compiled
def register(m, w, pc, registers, i, mask):
    """Execute mbarrier.arrive, expect_tx, complete_tx or cp.async.arrive, and return a status."""
    if not all_live(m, w, pc, registers, i.a, i.imm, mask):
        return report_failure(m, w, pc)
    while mask:
        group = same_word(registers, i.a, i.imm, mask)
        mask &= ~group
        b = mbarrier_at(m.mbarriers, find_mbarrier(m, word_of(registers, i.a, i.imm, lowest_bit(group))) - 1)
        goes_on = True
        if i.op == ARRIVE:
            goes_on = arrive_all(m, b, w, pc, registers, i, group)
        elif i.op == EXPECT_TX:
            goes_on = change_bytes(m, b, w, pc, registers, i, group, 1)
        elif i.op == COMPLETE_TX:
            goes_on = change_bytes(m, b, w, pc, registers, i, group, -1)
        else:
            goes_on = arrive_later(m, b, w, pc, i, group)
        if not goes_on:
            return report_failure(m, w, pc)
    if m.clocks and i.op == ARRIVE and i.aux & RELAXED == 0:
        begin_interval(warp_at(m.warps, w), w)
    return DONE


@compiled
def arrive_later(m, b, w, pc, i, lanes):
    """Arrive for lanes after the completion of their copies, which have completed (C8, C9).

    Return whether the hardware continues.
    """
    count = popcount(lanes) if i.aux & NOINC else 0
    if not enough(m, b, w, pc, lanes, count):
        return False
    if i.aux & NOINC == 0:  # the pending count increases; an H100 adds this together with the bytes (C8)
        b.added += popcount(lanes)
        b.wanted += popcount(lanes)
        if b.expected + b.added > MOST_COUNT:
            out_of_range(m, b, w, pc, lanes, b.expected + b.added, 6)
    if m.clocks:
        judge_registering(m, b, w, pc, lanes)
        judge_observed(m, b, w, pc, lanes)
        if i.aux & NOINC:
            note_followed(m, b, w, lanes)
            join_known(m, b.reach, w, lanes)
            note_cover(m, b, w, lanes)
        else:
            note_use(m, b, w, pc, lanes)
            note_registrants(m, b, w, pc, lanes)
            note_expects(m, b, b.pluses, b.pluses_pc, w, pc, lanes)
        give_times(m, b.given[0], w, lanes)
        for lane in set_bits(lanes):
            give_copies(m, b, w, lane)
            number = new_agent(m, w, lane, pc, ARRIVES, 0, 0)
            set_bit(m, b.given[0], number)
            set_bit(m, b.joined[0], number)
            set_bit(m, b.used, number)
    registers_last(b, w, pc)
    log(m, ARRIVALS, w, pc, address_of(b), b.phase, lanes, count)
    b.pending -= count
    complete_if_met(m, b, w, pc, lanes)
    return True


@compiled
def give_copies(m, b, w, lane):
    """Release copies of a lane to the current phase: those that it has not waited for, and those that it issued since
    its last arrive of this kind."""
    g = groups_at(m.groups, LANES * w + lane)
    number = g.since
    while number:
        set_bit(m, b.given[0], number)
        number = agent_at(m.agents, number - m.base - 1).next
    g.since = g.first


@compiled
def find_credited(m, w, pc, registers, at, lane, member):
    """Return the number, from 0, of the live mbarrier on which a lane's copy completes its bytes; report a missing one,
    and return -1.

    The mbarrier is at the location that the copy names. For a multicast, it is in the destination CTA (T11), which has
    the rank `member`.
    """
    word_ = word_of(registers, at, 0, lane)
    number = 0
    if member >= 0:
        bits = m.window - 3
        word_ = (word_ & ((1 << bits) - 1)) | member << bits
        if member < m.members:
            number = find_mbarrier(m, word_)
    else:
        number = find_mbarrier(m, word_)
    dead, other_pc, other_warp = 0, -1, -1
    if number:
        b = mbarrier_at(m.mbarriers, number - 1)
        if b.live:
            return number - 1
        dead, other_pc, other_warp = 1, b.inval_pc, b.inval_warp
    record_finding(
        m.report_entry,
        m.address,
        (UNINITIALIZED, pc, w, 1 << lane, other_pc, other_warp),
        ((SHARED << SEGMENT_SHIFT) | word_ << 3, 0, dead, 0, 0),
    )
    return -1


@compiled
def credit(m, w, pc, at, lane, amount, number):
    """Complete bytes of an asynchronous operation on mbarrier number `at`; return whether the hardware continues."""
    bit = 1 << lane
    b = mbarrier_at(m.mbarriers, at)
    if not add_bytes(m, b, w, pc, bit, -amount):
        return False
    if m.clocks:
        judge_registering(m, b, w, pc, bit)
        note_followed(m, b, w, bit)
        join_known(m, b.reach, w, bit)
        give_times(m, b.given[0], w, bit)
        set_bit(m, b.given[0], number)
        set_bit(m, b.joined[0], number)
        set_bit(m, b.used, number)
    registers_last(b, w, pc)
    registers_bytes(b, w, pc)
    log(m, CREDITS, w, pc, address_of(b), b.phase, bit, amount)
    complete_if_met(m, b, w, pc, bit)
    return True


# -- waits -------------------------------------------------------------------------------------------------------------


@compiled
def answer(m, registers, i, lane):
    """Return the result of a lane's wait, the phase that it waits for, and the number of its mbarrier from 1."""
    number = find_mbarrier(m, word_of(registers, i.a, i.imm, lane))
    b = mbarrier_at(m.mbarriers, number - 1)
    if b.live == 0:
        return 0, -1, number
    odd = 0
    if i.op == WAIT:
        token = load_i64(registers + i.b + 8 * lane)
        age = token_age(b, token)
        if age < TOKEN_SPAN:
            return age == 1, b.phase - age, number
        odd = (token >> 63) & 1
    else:
        odd = load_u32(registers + i.b + 4 * lane) & 1
    done = odd != b.phase & 1
    return done, b.phase - done, number


@compiled
def answered_lanes(m, registers, i, mask):
    """Return the lanes whose wait succeeds."""
    true = 0
    while mask:
        group = same_word(registers, i.a, i.imm, mask)
        mask &= ~group
        b = mbarrier_at(m.mbarriers, find_mbarrier(m, word_of(registers, i.a, i.imm, lowest_bit(group))) - 1)
        if i.op == WAIT_PARITY:
            odd = odd_u32(registers + i.b) & group
            if b.live:
                true |= group & ~odd if b.phase & 1 else odd
            continue
        for lane in set_bits(group):
            yes, _, _ = answer(m, registers, i, lane)
            true |= yes << lane
    return true


@compiled
def alike(m, registers, i, mask):
    """Return the lanes of `mask` that wait for the same phase of the same mbarrier as the lowest one."""
    group = 0
    _, phase, number = answer(m, registers, i, lowest_bit(mask))
    while mask:
        lane = lowest_bit(mask)
        _, other_phase, other_number = answer(m, registers, i, lane)
        if other_number == number and other_phase == phase:
            group |= 1 << lane
        mask &= mask - 1
    return group


@compiled
def judge_asked(m, w, pc, registers, i, mask):
    """Check R2 for the phases that some lanes wait for."""
    if i.op == WAIT_PARITY and same_word(registers, i.a, i.imm, mask) == mask:
        odd = odd_u32(registers + i.b) & mask
        if odd == 0 or odd == mask:
            _, phase, number = answer(m, registers, i, lowest_bit(mask))
            judge_wait(m, mbarrier_at(m.mbarriers, number - 1), w, pc, mask, phase)
            return
    while mask:
        group = alike(m, registers, i, mask)
        _, phase, number = answer(m, registers, i, lowest_bit(mask))
        judge_wait(m, mbarrier_at(m.mbarriers, number - 1), w, pc, group, phase)
        mask &= ~group


@compiled
def write_answer(registers, d, mask, true):
    if d:
        store_u32(registers + d, (load_u32(registers + d) & ~mask) | (true & mask))


@compiled
def end_wait(m, w, pc, registers, i, mask, true):
    """End a wait: the lanes `true` of `mask` have observed the completion of their phase."""
    write_answer(registers, i.d, mask, true)
    if true == 0:
        return
    if m.clocks:
        judge_asked(m, w, pc, registers, i, true)
    rest = true
    while rest:
        group = same_word(registers, i.a, i.imm, rest)
        rest &= ~group
        b = mbarrier_at(m.mbarriers, find_mbarrier(m, word_of(registers, i.a, i.imm, lowest_bit(group))) - 1)
        log(m, AWAITED, w, pc, address_of(b), b.phase - 1, group, 0)
        if b.far_before_pc >= 0 and i.aux & NARROW and i.aux & WAIT_RELAXED == 0:
            record_finding(
                m.report_entry,
                m.address,
                (SCOPE, pc, w, group, b.far_before_pc, b.far_before_warp),
                (address_of(b), 1, 0, 0, 0),
            )
        if m.clocks:
            if m.clusters:
                see_phase(m, b)
            note_wait(m, b, w, pc, group)
            note_use(m, b, w, pc, group)
            if i.aux & WAIT_RELAXED:
                learn_times(m, w, group, b.given[1])
                if m.tensor_fences:
                    take_published(m, w, group, b.given[1])
            else:
                learn(m, w, group, b.given[1])
            if m.converged:
                converge(m, w, group, time_of(m, w))
    if m.clocks and i.aux & WAIT_RELAXED == 0:
        begin_interval(warp_at(m.warps, w), w)


@compiled
def judge_tokens(m, w, pc, registers, i, mask):
    """Report tokens of phases before the previous one, and of other mbarriers: the hardware compares one bit (M13)."""
    rest = mask if i.op == WAIT else 0
    while rest:
        group = same_word(registers, i.a, i.imm, rest)
        rest &= ~group
        b = mbarrier_at(m.mbarriers, find_mbarrier(m, word_of(registers, i.a, i.imm, lowest_bit(group))) - 1)
        old, foreign = 0, 0
        for lane in set_bits(group):
            age = token_age(b, load_i64(registers + i.b + 8 * lane))
            if age >= TOKEN_SPAN:
                foreign |= 1 << lane
            elif age > 1:
                old |= 1 << lane
        if old:
            record_finding(m.report_entry, m.address, (ALIAS, pc, w, old, -1, -1), (address_of(b), b.phase, 4, -1, 0))
        if foreign:
            record_finding(
                m.report_entry, m.address, (ALIAS, pc, w, foreign, -1, -1), (address_of(b), b.phase, 5, -1, 0)
            )


@compiled
def wait(m, w, pc, registers, i, mask):
    """Execute a wait; return a status, which may be STANDS."""
    if not all_live(m, w, pc, registers, i.a, i.imm, mask):
        return report_failure(m, w, pc)
    rest = mask
    while rest:
        group = same_word(registers, i.a, i.imm, rest)
        rest &= ~group
        b = mbarrier_at(m.mbarriers, find_mbarrier(m, word_of(registers, i.a, i.imm, lowest_bit(group))) - 1)
        if m.clocks:
            judge_use(m, b, w, pc, group)
            note_use(m, b, w, pc, group)
    judge_tokens(m, w, pc, registers, i, mask)
    if i.aux & PEEK:
        write_answer(registers, i.d, mask, 0)
        if m.clocks:
            judge_asked(m, w, pc, registers, i, mask)
        return DONE
    true = answered_lanes(m, registers, i, mask)
    if true == 0 and i.aux & BLOCKS:
        count_waiters(m, registers, i, mask, 1)
        return STANDS
    end_wait(m, w, pc, registers, i, mask, true)
    return DONE


@compiled
def count_waiters(m, registers, i, mask, by):
    while mask:
        group = same_word(registers, i.a, i.imm, mask)
        b = mbarrier_at(m.mbarriers, find_mbarrier(m, word_of(registers, i.a, i.imm, lowest_bit(group))) - 1)
        b.waiters += by * popcount(group)
        mask &= ~group


# -- the rest ----------------------------------------------------------------------------------------------------------


@compiled
def count_pending(registers, i, mask):
    """Execute `mbarrier.pending_count` (M12)."""
    for lane in set_bits(mask):
        token = load_i64(registers + i.a + 8 * lane)
        store_u32(registers + i.d + 4 * lane, (1 << 20) - ((token >> 43) & 0xFFFFF))


@compiled
def identify_phase(m, registers, i, mask):
    """Execute `mbarrier.phase`: write a number that two waits share if they wait for one phase of one mbarrier.

    Without an mbarrier, the number is 0.
    """
    for lane in set_bits(mask):
        number = find_mbarrier(m, word_of(registers, i.a, i.imm, lane))
        found = 0
        if number:
            b = mbarrier_at(m.mbarriers, number - 1)
            if b.live:
                odd = load_u32(registers + i.b + 4 * lane) & 1
                done = odd != b.phase & 1
                found = number << 48 | (b.initializations & 0xFFFFFF) << 24 | (b.phase - done) & 0xFFFFFF
        store_i64(registers + i.d + 8 * lane, found)


@compiled
def execute(m, w, pc, registers, i, mask):
    """Execute an operation of some lanes; return a status, which may be STANDS."""
    if i.op == PENDING_COUNT:
        count_pending(registers, i, mask)
        return DONE
    if i.op == INIT and m.mbarrier_count + LANES > m.mbarrier_room:
        m.wanted = GROW_MBARRIERS
        return GROW
    if i.op == ASYNC_ARRIVE and m.clocks:
        status = call(m.copy_entry, m.address, w, -1, mask)  # room for their arrivals
        if status != DONE:
            return status
    if not good_addresses(m, w, pc, registers, i.a, i.imm, mask):
        return report_failure(m, w, pc)
    far = i.op in (ARRIVE, EXPECT_TX, COMPLETE_TX) and i.aux & REMOTE
    if not own_alone(m, w, pc, registers, i, mask, far):
        return report_failure(m, w, pc)
    if i.op == INIT:
        return begin(m, w, pc, registers, i, mask)
    if i.op == INVAL:
        return invalidate(m, w, pc, registers, i, mask)
    if i.op in (WAIT, WAIT_PARITY):
        return wait(m, w, pc, registers, i, mask)
    if i.op == PHASE:
        identify_phase(m, registers, i, mask)
        return DONE
    if m.converged:  # the current time is later than the one that `reach` used
        converge(m, w, mask, time_of(m, w))
    return register(m, w, pc, registers, i, mask)


@compiled
def wakes(m, w, pc, registers, i, mask):
    """Continue lanes at a wait if one of them succeeds, and return whether it does."""
    true = answered_lanes(m, registers, i, mask)
    if true == 0:
        return False
    count_waiters(m, registers, i, mask, -1)
    end_wait(m, w, pc, registers, i, mask, true)
    return True


@compiled
def start(m):
    """Remove all mbarriers at the start of a group."""
    for number in range(m.mbarrier_count):
        b = mbarrier_at(m.mbarriers, number)
        store_i64(m.mbarrier_index + 8 * b.word, 0)
        b.live = 0
        b.waiters = 0
    m.mbarrier_count = 0
    m.mbarriers_live = 0
    m.mbarrier_low = 1 << 40
    m.mbarrier_high = -1


@compiled
def end(m):
    """Report mbarriers with a pending phase at a CTA's exit, in the order of their addresses."""
    last = -1
    while True:
        word_ = 1 << 40
        found = -1
        for number in range(m.mbarrier_count):
            b = mbarrier_at(m.mbarriers, number)
            if b.live and b.word > last and b.word < word_:
                word_ = b.word
                found = number
        if found < 0:
            break
        judge_open(m, mbarrier_at(m.mbarriers, found))
        last = word_
