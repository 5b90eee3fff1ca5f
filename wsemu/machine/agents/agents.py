"""Asynchronous operations as actors with their own clocks, in compiled code: numbers, groups, and waits for them.

Each copy of each lane is an *agent*, and so is an arrive that waits for copies. Agents are numbered through all CTAs,
like intervals; an agent that writes global memory has two numbers, the first of them for its reads. The rows of
`lane_clocks.py` have a bit for each agent whose completion is observed, from number `agent_low` on. All threads have
observed the agents with lower numbers.
"""

from __future__ import annotations

from wsemu.machine.lowering import compiled, set_bits
from wsemu.machine.records import agent_at, groups_at, instruction_at, mbarrier_at, record_finding, warp_at
from wsemu.machine.scalars import load_i64, lowest_bit, store_i64
from wsemu.machine.state import (
    BARRIERS,
    COPIES,
    DONE,
    GROW,
    GROW_AGENTS,
    GROW_BITS,
    SENDS,
    STORES,
)
from wsemu.machine.sync.lane_clocks import (
    bits_of,
    cluster_row,
    cta_row,
    group_row,
    heads,
    lane_row,
    refresh,
    row,
    separate,
    set_bit,
    time_bits,
)
from wsemu.model.codes import CODE_NUMBERS
from wsemu.model.isa import LANES, opcodes

(COPY16,) = opcodes("cp.async", "b128")
(ALLOCATE,) = opcodes("tcgen05", "alloc")
OUTLIVES, STORE_OUTLIVES = (CODE_NUMBERS[f"{what}-outlives-cta"] for what in ("async", "store"))


@compiled
def new_agent(m, w, lane, pc, what, address, size):
    """Return the number of a new agent, for which there is room."""
    number = m.agent_next
    m.agent_next += 1
    a = agent_at(m.agents, number - m.base - 1)
    a.pc = pc
    a.warp = w
    a.lane = lane
    a.address = address
    a.bytes = size
    a.what = what
    a.next = 0
    return number


@compiled
def room(m, n):
    """Return DONE if there is room for n agents; an operation calls this first."""
    m.record_needs = 0
    if m.clocks == 0:
        return DONE
    if m.agent_next - m.base - 1 + n > m.agent_room:
        m.wanted = GROW_AGENTS
        return GROW
    if m.agent_next + n - m.agent_low > 64 * LANES * m.agent_bits:
        settle(m)
        if m.agent_next + n - m.agent_low > 64 * LANES * m.agent_bits:
            m.wanted = GROW_BITS
            return GROW
    return DONE


@compiled
def known_words(m):
    """Return the number of words of agents, from the lowest on, that all live lanes have observed."""
    words = (m.agent_next - m.agent_low) >> 6
    q = 0
    while q < words:
        for w in range(m.warp_count):
            warp = warp_at(m.warps, w)
            readers = heads(m, w, warp.alive)
            while readers:
                own = row(m, LANES * w + lowest_bit(readers)) + bits_of(m) + 8 * q
                if load_i64(own) != -1:
                    return q
                if m.row_bits > 2 * m.agent_bits:
                    relied_on = load_i64(own + 512 * m.agent_bits) & load_i64(own + 768 * m.agent_bits)
                    if ~relied_on & small_copies(m, q):
                        return q
                readers &= readers - 1
        if m.members > 1 and missed_at_exit(m, q):
            return q
        q += 1
    return q


@compiled
def missed_at_exit(m, q):
    """Return the agents of a word that a CTA had to observe before its exit, and did not."""
    missed = 0
    for member in range(m.members):
        alive = 0
        for w in range(member * m.cta_warps, (member + 1) * m.cta_warps):
            alive |= warp_at(m.warps, w).alive
        if alive == 0:
            needed = load_i64(cluster_row(m, 2 + 2 * member) + bits_of(m) + 8 * q)
            missed |= needed & ~load_i64(cta_row(m, member, BARRIERS) + time_bits(m) + 8 * q)
    return missed


@compiled
def small_copies(m, q):
    """Return the agents of a word that use the generic proxy."""
    found = 0
    for k in range(64):
        a = agent_at(m.agents, m.agent_low + 64 * q + k - m.base - 1)
        op = instruction_at(m.code, a.pc).op
        if op <= COPY16 or op == ALLOCATE:
            found |= 1 << k
    return found


@compiled
def shift(m, to, words):
    """Remove the lowest agents from a row."""
    n = LANES * m.agent_bits
    bits = to + bits_of(m)
    end = bits + 256 * m.row_bits
    while bits < end:
        for q in range(n - words):
            store_i64(bits + 8 * q, load_i64(bits + 8 * (q + words)))
        for q in range(n - words, n):
            store_i64(bits + 8 * q, 0)
        bits += 8 * n


@compiled
def settle(m):
    """Remove the agents that all live lanes have observed from the rows."""
    words = known_words(m)
    if words == 0:
        return
    for w in range(m.warp_count):
        leaders = heads(m, w, (1 << LANES) - 1)
        while leaders:
            shift(m, row(m, LANES * w + lowest_bit(leaders)), words)
            leaders &= leaders - 1
    for member in range(m.members):
        for number in range(BARRIERS + 1):
            shift(m, cta_row(m, member, number), words)
        shift(m, cluster_row(m, 2 + 2 * member), words)
    shift(m, cluster_row(m, 0), words)
    shift(m, cluster_row(m, 1), words)
    for number in range(m.group_rows):
        shift(m, group_row(m, number), words)
    for number in range(m.mbarrier_count):
        b = mbarrier_at(m.mbarriers, number)
        shift(m, b.given[0], words)
        shift(m, b.given[1], words)
        for q in range(3):
            shift(m, b.joined[q], words)
        shift(m, b.used, words)
    m.agent_low += 64 * words


# -- groups ------------------------------------------------------------------------------------------------------------


@compiled
def group_tables(m, w, lane, bulk):
    """Return the GROUPS of a thread for cp.async, or for bulk operations."""
    return (bulk * m.warp_count + w) * LANES + lane


@compiled
def enter_group(m, w, lane, bulk, number):
    """Add an agent to the group that its thread commits next."""
    g = groups_at(m.groups, group_tables(m, w, lane, bulk))
    a = agent_at(m.agents, number - m.base - 1)
    a.group = g.committed
    if g.last:
        agent_at(m.agents, g.last - m.base - 1).next = number
    if g.first == 0:
        g.first = number
    if g.read == 0:
        g.read = number
    if g.since == 0:
        g.since = number
    g.last = number


@compiled
def commit(m, w, mask, bulk):
    while mask:
        g = groups_at(m.groups, group_tables(m, w, lowest_bit(mask), bulk))
        g.committed += 1
        mask &= mask - 1


@compiled
def know(m, w, lane, number):
    """Record that a lane, which shares its row with no other, has observed the completion of an agent."""
    at = number - m.agent_low
    if at >= 0:
        set_bit(lane_row(m, w, lane) + bits_of(m), at)
        set_bit(lane_row(m, w, lane) + time_bits(m), at)


@compiled
def await_groups(m, w, mask, bulk, left, only_read):
    """Make lanes wait until at most `left` groups are in flight; -1: until no copies are."""
    found = False
    for lane in set_bits(mask):
        g = groups_at(m.groups, group_tables(m, w, lane, bulk))
        end = g.committed - left if left >= 0 else 1 << 60
        number = g.read if only_read else g.first
        apart = False
        while number:
            a = agent_at(m.agents, number - m.base - 1)
            if a.group >= end:
                break
            if not apart:
                separate(m, w, 1 << lane)
                apart = True
                found = True
            if a.what == STORES:
                know(m, w, lane, number - 1)
            if not only_read:
                know(m, w, lane, number)
                if g.read == number:
                    g.read = a.next
            number = a.next
        if only_read:
            g.read = number
        else:
            g.first = number
    if found:
        refresh(m, w)


@compiled
def known_at_exit(m, member, at):
    """Return whether a thread of a CTA had observed the completion of an agent when it exited."""
    exited = cta_row(m, member, BARRIERS) + time_bits(m)
    return (load_i64(exited + 8 * (at >> 6)) >> (at & 63)) & 1 != 0


@compiled
def known_by_some(m, at):
    """Return whether a thread of the group had observed the completion of an agent when it exited."""
    for member in range(m.members):  # noqa: SIM110 (a generator does not compile)
        if known_at_exit(m, member, at):
            return True
    return False


@compiled
def report_outliving(m):
    """Report agents whose completion no thread had observed at its exit.

    If an agent reads shared memory, only threads of that CTA count.
    """
    for number in range(m.base + 1, m.agent_next):
        a = agent_at(m.agents, number - m.base - 1)
        if a.bytes == 0 or (a.what != COPIES and a.what != STORES and a.what != SENDS):
            continue
        judged = number - 1 if a.what == STORES else number
        at = judged - m.agent_low
        if at < 0:
            continue
        known = known_by_some(m, at) if a.what == COPIES else known_at_exit(m, a.warp // m.cta_warps, at)
        if known:
            continue
        record_finding(
            m.report_entry,
            m.address,
            (STORE_OUTLIVES if a.what == STORES else OUTLIVES, a.pc, a.warp, 1 << a.lane, -1, -1),
            (a.address, a.bytes, a.what != COPIES, 0, 0),
        )


@compiled
def start(m):
    """Reset groups of copies and changes of tensor maps at the start of a group of CTAs."""
    m.map_count = 0
    for t in range(m.group_kinds * LANES * m.warp_count):
        g = groups_at(m.groups, t)
        g.first = 0
        g.last = 0
        g.read = 0
        g.since = 0
        g.committed = 0
