"""The rules of mbarrier phases that let one run decide for every schedule, in compiled code.

The *registrants* of a phase are the operations that arrive, or that expect or complete bytes. "Precedes" means: comes
earlier in time in every schedule (`lane_clocks.time_offset`). For an init, it means: happens before in memory order.

`R1`  Each registrant of a phase precedes each registrant of the next phase.
`R2`  If a wait observes a phase, then each registrant of the phase before that one precedes the wait.
`R3`  If a wait observed a phase, it precedes a registrant of the next phase, or is one, when that phase completes.
`R4`  The init precedes each use, each use precedes the inval, and the inval precedes the next init.
`R5`  Each expect-tx operation precedes an arrive of its phase, or is part of one.

Besides, an arrive that must not complete its phase precedes some other registrant of the phase.

Only the latest registrant, wait and expect-tx operation of each thread are kept (`joined`, `waited` and `expects` of an
MBARRIER), but every asynchronous operation.
"""

from __future__ import annotations

from wsemu.machine.lowering import compiled, set_bits
from wsemu.machine.memory.shadow_cells import ALL, behind, beyond, join, put, reached, same_key
from wsemu.machine.records import agent_at, instruction_at, record_finding, warp_at
from wsemu.machine.scalars import load_i64, lowest_bit, store_i64
from wsemu.machine.state import ARRIVES
from wsemu.machine.sync.lane_clocks import (
    bits_of,
    clear_given,
    clear_known,
    clear_row,
    has_agent_bit,
    heads,
    lane_relies,
    lane_row,
    row,
    time_bits,
    time_of,
    time_offset,
)
from wsemu.model.codes import CODE_NUMBERS
from wsemu.model.isa import LANES, OPCODE, SEGMENT_SHIFT, SHARED
from wsemu.model.tensor_memory import COMMIT

ORDER = CODE_NUMBERS["commit-order"]
OF_COMMITS = OPCODE[COMMIT]
ALIAS, UNOBSERVED, UNCOVERED, TX, DANGLING, UNINITIALIZED, LIFETIME, RANGE, UNFENCED = (
    CODE_NUMBERS[c]
    for c in (
        "phase-alias",
        "phase-unobserved",
        "uncovered-expectation",
        "tx-mismatch",
        "dangling-phase",
        "mbarrier-uninitialized",
        "mbarrier-lifetime",
        "mbarrier-range",
        "mbarrier-unfenced",
    )
)
ALL_LANES = (1 << LANES) - 1
NONE = 1 << 40
"""greater than the number of any instruction"""


@compiled
def address_of(b):
    return (SHARED << SEGMENT_SHIFT) | b.word << 3


@compiled
def misses(m, w, lane, needed):
    """Return whether a lane has not observed all threads and asynchronous operations in a row."""
    own = lane_row(m, w, lane)
    for u in range(m.warp_count):
        late = behind(own + time_offset(m) + 256 * u, needed + 256 * u)
        if u == w:
            late &= 0 if m.lockstep else ~(1 << lane)
        if late:
            return True
    for q in range(m.agent_bits):  # noqa: SIM110 (a generator does not compile)
        if beyond(needed + bits_of(m) + 256 * q, own + time_bits(m) + 256 * q):
            return True
    return False


@compiled
def missing(m, w, lanes, needed):
    """Return the lanes that have not observed all threads and asynchronous operations in a row."""
    found = 0
    for leader in set_bits(heads(m, w, lanes)):
        own = row(m, LANES * w + leader) + time_offset(m) + 256 * w
        if misses(m, w, leader, needed) or (behind(own, needed + 256 * w) and m.lockstep == 0):
            found = -1
    if found == 0:
        return found
    found = 0
    for lane in set_bits(lanes):
        if misses(m, w, lane, needed):
            found |= 1 << lane
    return found


@compiled
def next_thread(m, late, u, pcs, last, best, who):
    """Return the least instruction above `last` among the last ones of threads `late` of warp u, or `best` if that is
    less; and its thread."""
    for q in set_bits(late):
        at = load_i64(pcs + 256 * u + 8 * q)
        if at > last and at < best:
            best = at
            who = LANES * u + q
    return best, who


@compiled
def next_missed(m, w, lane, needed, pcs, last):
    """Return the least instruction above `last` that a lane has not observed, and its lowest thread."""
    own = lane_row(m, w, lane)
    best = NONE
    who = -1
    for u in range(m.warp_count):
        late = behind(own + time_offset(m) + 256 * u, needed + 256 * u)
        if u == w:
            late &= 0 if m.lockstep else ~(1 << lane)
        best, who = next_thread(m, late, u, pcs, last, best, who)
    for q in range(LANES * m.agent_bits):
        unknown = load_i64(needed + bits_of(m) + 8 * q) & ~load_i64(own + time_bits(m) + 8 * q)
        while unknown:
            number = m.agent_low + 64 * q + lowest_bit(unknown)
            unknown &= unknown - 1
            a = agent_at(m.agents, number - m.base - 1)
            thread = LANES * a.warp + a.lane
            if a.pc > last and (a.pc < best or (a.pc == best and thread < who)):
                best = a.pc
                who = thread
    return best, who


@compiled
def judge_row(m, b, w, pc, lanes, needed, pcs, code, what):
    """Report the operations of a row that do not precede some lanes, each instruction once."""
    bad = missing(m, w, lanes, needed)
    last = -1
    while bad:
        best, who, mask = NONE, -1, 0
        for lane in set_bits(bad):
            at, thread = next_missed(m, w, lane, needed, pcs, last)
            if at < best:
                best = at
                who = thread
                mask = 0
            if at == best:
                who = min(who, thread)
                mask |= 1 << lane
        if best == NONE:
            break
        record_finding(
            m.report_entry,
            m.address,
            (code, pc, w, mask, best, who // LANES),
            (address_of(b), b.phase, what, who % LANES, 0),
        )
        last = best


@compiled
def is_passed(m, w, lane, number):
    """Return whether `number` is the arrive of a commit, and a lane has observed a later commit of the same thread."""
    a = agent_at(m.agents, number - m.base - 1)
    if a.what != ARRIVES or instruction_at(m.code, a.pc).op != OF_COMMITS:
        return False
    for later in range(number + 1, m.agent_next):
        x = agent_at(m.agents, later - m.base - 1)
        same = x.what == ARRIVES and x.warp == a.warp and x.lane == a.lane
        if same and instruction_at(m.code, x.pc).op == OF_COMMITS and has_agent_bit(m, w, lane, later, time_bits(m)):
            return True
    return False


@compiled
def excuse_commits(m, b, w, pc, lane):
    """Report arrives of commits that precede the end of an mbarrier only by a later commit, and forget them."""
    own = lane_row(m, w, lane)
    last = -1
    while True:
        best, who = NONE, -1
        for q in range(LANES * m.agent_bits):
            unknown = load_i64(b.used + bits_of(m) + 8 * q) & ~load_i64(own + time_bits(m) + 8 * q)
            while unknown:
                bit = unknown & -unknown
                unknown &= unknown - 1
                number = m.agent_low + 64 * q + lowest_bit(bit)
                if is_passed(m, w, lane, number):
                    a = agent_at(m.agents, number - m.base - 1)
                    thread = LANES * a.warp + a.lane
                    if a.pc > last and (a.pc < best or (a.pc == best and thread < who)):
                        best = a.pc
                        who = thread
        if best == NONE:
            break
        record_finding(
            m.report_entry, m.address, (ORDER, pc, w, 1 << lane, best, who // LANES),
            (address_of(b), b.phase, 0, who % LANES, 0),
        )  # fmt: skip
        last = best
    for q in range(LANES * m.agent_bits):
        at = b.used + bits_of(m) + 8 * q
        unknown = load_i64(at) & ~load_i64(own + time_bits(m) + 8 * q)
        while unknown:
            bit = unknown & -unknown
            unknown &= unknown - 1
            if is_passed(m, w, lane, m.agent_low + 64 * q + lowest_bit(bit)):
                store_i64(at, load_i64(at) & ~bit)


@compiled
def inits_missed(m, b, known):
    """Return the lanes whose init, of this mbarrier, the clock in a row has not observed."""
    missed = 0
    lanes = b.init_lanes
    while lanes:
        at = 256 * b.init_warp + 8 * lowest_bit(lanes)
        told = b.published and load_i64(known + time_offset(m) + at) >= b.published
        if load_i64(known + at) < b.init_interval and not told:
            missed |= lanes & -lanes
        lanes &= lanes - 1
    return missed


@compiled
def judge_use(m, b, w, pc, lanes):
    """Check R4: the init, by each lane that executed it, precedes a use."""
    unknown = 0
    for leader in set_bits(heads(m, w, lanes)):
        missed = inits_missed(m, b, row(m, LANES * w + leader))
        if missed:
            users = same_key(warp_at(m.warps, w).leaders, ALL, leader) & lanes
            if b.init_warp == w and missed & (missed - 1) == 0:
                users &= ~missed
            unknown |= users
    if b.init_warp == w and m.lockstep:
        return
    if unknown:
        record_finding(
            m.report_entry,
            m.address,
            (UNINITIALIZED, pc, w, unknown, b.init_pc, b.init_warp),
            (address_of(b), 1, 0, 0, 0),
        )


@compiled
def judge_fenced(m, b, w, pc, lane):
    """Check that a fence is between the init and a copy of the async proxy that a lane issues and that completes bytes
    on the mbarrier."""
    for other in set_bits(b.init_lanes):
        if lane_relies(m, w, lane, 0, b.init_warp, other, b.init_interval):
            continue
        if b.published:
            own = b.init_warp == w and (lane == other or m.lockstep)
            if own or load_i64(lane_row(m, w, lane) + time_offset(m) + 256 * b.init_warp + 8 * other) >= b.published:
                continue
        record_finding(
            m.report_entry,
            m.address,
            (UNFENCED, pc, w, 1 << lane, b.init_pc, b.init_warp),
            (address_of(b), 0, 0, 0, 0),
        )
        return


@compiled
def note_use(m, b, w, pc, lanes):
    put(b.used + 256 * w, lanes, time_of(m, w))
    put(b.used_pc + 256 * w, lanes, pc)


@compiled
def judge_registrants(m, b, w, pc, lanes):
    """Check R1 for registrants of the current phase."""
    if b.phase:
        judge_row(m, b, w, pc, lanes, b.joined[1], b.joined_pc[1], ALIAS, 1)


@compiled
def judge_wait(m, b, w, pc, lanes, generation):
    """Check R2 for a wait for the current phase, or for the one before it."""
    if generation < 1:
        return
    if generation == b.phase:
        judge_row(m, b, w, pc, lanes, b.joined[1], b.joined_pc[1], ALIAS, 2)
    elif generation == b.phase - 1:
        judge_row(m, b, w, pc, lanes, b.joined[2], b.joined_pc[2], ALIAS, 2)


@compiled
def judge_observed(m, b, w, pc, lanes):
    """Check that some thread has observed the previous phase before lanes arrive in the current one."""
    if b.phase == 0:
        return
    unseen = 0
    for leader in set_bits(heads(m, w, lanes)):
        own = row(m, LANES * w + leader) + time_offset(m)
        seen = 0
        for u in range(m.warp_count):
            if seen == 0:
                seen = reached(own + 256 * u, b.waited_first + 256 * u)
        if seen == 0:
            unseen |= same_key(warp_at(m.warps, w).leaders, ALL, leader) & lanes
    own_unseen = same_key(b.waited_first + 256 * w, ALL, 0)
    unseen &= own_unseen
    if m.lockstep and own_unseen != ALL_LANES:
        unseen = 0
    if unseen:
        record_finding(
            m.report_entry, m.address, (UNOBSERVED, pc, w, unseen, -1, -1), (address_of(b), b.phase, 0, 0, 0)
        )


@compiled
def join_known(m, to, w, lanes):
    """Join the clocks in time of some lanes, which include these lanes, into times of threads."""
    rest = heads(m, w, lanes)
    while rest:
        own = row(m, LANES * w + lowest_bit(rest))
        rest &= rest - 1
        for u in range(m.warp_count):
            join(to + 256 * u, own + time_offset(m) + 256 * u)
    put(to + 256 * w, ALL_LANES if m.lockstep else lanes, time_of(m, w))


@compiled
def note_registrants(m, b, w, pc, lanes):
    """Record lanes as registrants of the current phase."""
    note_followed(m, b, w, lanes)
    put(b.joined[0] + 256 * w, lanes, time_of(m, w))
    put(b.joined_pc[0] + 256 * w, lanes, pc)
    join_known(m, b.reach, w, lanes)


@compiled
def note_cover(m, b, w, lanes):
    """Record an arrive of lanes: it covers the expect-tx operations that precede it, which this run has all
    executed."""
    if b.expecting:
        join_known(m, b.cover, w, lanes)


@compiled
def note_held(m, b, w, pc, lanes):
    """Record an arrive of lanes that must not complete the current phase."""
    b.holding = 1
    put(b.held + 256 * w, lanes, time_of(m, w))
    put(b.held_pc + 256 * w, lanes, pc)


@compiled
def note_followed(m, b, w, lanes):
    """Record the operations that precede some registrants, if the phase has an arrive that must not complete it."""
    if b.holding == 0:
        return
    rest = heads(m, w, lanes)
    while rest:
        own = row(m, LANES * w + lowest_bit(rest))
        rest &= rest - 1
        for u in range(m.warp_count):
            join(b.followed + 256 * u, own + time_offset(m) + 256 * u)
    put(b.followed + 256 * w, ALL_LANES if m.lockstep else lanes, time_of(m, w) - 1)


@compiled
def judge_held(m, b):
    """Report arrives that must not complete their phase and precede no other registrant: in some schedule they do."""
    last = -1
    while b.holding:
        best, who = NONE, -1
        for u in range(m.warp_count):
            late = behind(b.followed + 256 * u, b.held + 256 * u)
            best, who = next_thread(m, late, u, b.held_pc, last, best, who)
        if best == NONE:
            break
        record_finding(
            m.report_entry,
            m.address,
            (RANGE, best, who // LANES, 0, -1, -1),
            (address_of(b), b.phase, 4, 0, 0),
        )
        last = best


@compiled
def note_expects(m, b, to, pcs, w, pc, lanes):
    b.expecting = 1
    put(to + 256 * w, lanes, time_of(m, w))
    put(pcs + 256 * w, lanes, pc)


@compiled
def note_empties(m, b, w, pc, lanes):
    """Record operations of size 0, which belong to no phase: one could complete after all threads have left."""
    if lanes:
        b.emptied = 1
        b.expecting = 1
        put(b.empties + 256 * w, lanes, time_of(m, w))
        put(b.empties_pc + 256 * w, lanes, pc)


@compiled
def note_wait(m, b, w, pc, lanes):
    """Record that lanes have observed the phase before the current one."""
    now = time_of(m, w)
    put(b.waited + 256 * w, lanes, now)
    put(b.waited_pc + 256 * w, lanes, pc)
    put(b.waited_first + 256 * w, lanes & same_key(b.waited_first + 256 * w, ALL, 0), now)


@compiled
def set_bit(m, to, number):
    """Record in a row that an asynchronous operation has completed; this does not make it visible to its proxy."""
    at = number - m.agent_low
    if at >= 0:
        place, bit = to + bits_of(m) + 8 * (at >> 6), 1 << (at & 63)
        store_i64(place, load_i64(place) | bit)
        place += 256 * m.agent_bits
        store_i64(place, load_i64(place) | bit)


@compiled
def judge_covered(m, b):
    """Check R5 when a phase completes."""
    if b.expecting:
        judge_expects(m, b, b.expects, b.expects_pc, 0)
        judge_expects(m, b, b.pluses, b.pluses_pc, 1)
    if b.emptied and b.expected == 0:
        judge_expects(m, b, b.empties, b.empties_pc, 3)
        forget_empties(m, b)


@compiled
def forget_empties(m, b):
    """Forget the operations of size 0: all have been checked."""
    for u in range(m.warp_count):
        put(b.empties + 256 * u, ALL, 0)
    b.emptied = 0


@compiled
def judge_expects(m, b, expects, pcs, what):
    """Report expect-tx operations that no arrive of their phase follows."""
    last = -1
    while True:
        best, who = NONE, -1
        for u in range(m.warp_count):
            late = behind(b.cover + 256 * u, expects + 256 * u)
            best, who = next_thread(m, late, u, pcs, last, best, who)
        if best == NONE:
            break
        record_finding(
            m.report_entry,
            m.address,
            (UNCOVERED, best, who // LANES, 0, -1, -1),
            (address_of(b), b.phase, what, who % LANES, 0),
        )
        last = best


@compiled
def judge_seen(m, b, w, pc, lanes):
    """Check R3 when a phase completes."""
    last = -1
    while True:
        best, who = NONE, -1
        for u in range(m.warp_count):
            late = behind(b.reach + 256 * u, b.waited + 256 * u)
            best, who = next_thread(m, late, u, b.waited_pc, last, best, who)
        if best == NONE:
            break
        record_finding(
            m.report_entry,
            m.address,
            (ALIAS, pc, w, lanes, best, who // LANES),
            (address_of(b), b.phase, 3, who % LANES, 0),
        )
        last = best


@compiled
def turn_phase(m, b, w, pc, lanes):
    """Complete a phase: check it, and reset the tables for the next one."""
    judge_covered(m, b)
    judge_seen(m, b, w, pc, lanes)
    judge_held(m, b)
    given, before = b.given[0], b.given[1]
    b.given[0] = before
    b.given[1] = given
    clear_given(m, before)
    first, second, third = b.joined[0], b.joined[1], b.joined[2]
    b.joined[0] = third
    b.joined[1] = first
    b.joined[2] = second
    clear_known(m, third)
    first, second, third = b.joined_pc[0], b.joined_pc[1], b.joined_pc[2]
    b.joined_pc[0] = third
    b.joined_pc[1] = first
    b.joined_pc[2] = second
    clear_threads(m, b)


@compiled
def clear_threads(m, b):
    """Clear what was recorded of threads in the current phase."""
    for u in range(m.warp_count):
        put(b.reach + 256 * u, ALL, 0)
        put(b.waited + 256 * u, ALL, 0)
        put(b.waited_first + 256 * u, ALL, 0)
    if b.expecting:
        for u in range(m.warp_count):
            put(b.cover + 256 * u, ALL, 0)
            put(b.expects + 256 * u, ALL, 0)
            put(b.pluses + 256 * u, ALL, 0)
    b.expecting = b.emptied
    if b.holding:
        for u in range(m.warp_count):
            put(b.held + 256 * u, ALL, 0)
            put(b.followed + 256 * u, ALL, 0)
    b.holding = 0


@compiled
def new_phases(m, b):
    """Reset the tables of an mbarrier at its init."""
    for q in range(3):
        if q < 2:
            clear_row(m, b.given[q])
        clear_row(m, b.joined[q])
    clear_row(m, b.used)
    b.expecting = 1  # so that `clear_threads` clears everything
    b.holding = 1
    forget_empties(m, b)
    clear_threads(m, b)


@compiled
def judge_open(m, b):
    """Check R5 and R6 at the CTA's exit: report what the current phase still waits for."""
    if m.clocks and b.pending == 0:
        judge_covered(m, b)
    if b.tx:
        record_finding(
            m.report_entry, m.address, (TX, b.tx_pc, b.tx_warp, 0, -1, -1), (address_of(b), b.phase, b.tx, b.pending, 0)
        )
    elif 0 < b.pending < b.expected:
        record_finding(
            m.report_entry,
            m.address,
            (DANGLING, b.last_pc, b.last_warp, 0, -1, -1),
            (address_of(b), b.phase, b.pending, b.expected, 0),
        )
