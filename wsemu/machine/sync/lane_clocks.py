"""One vector clock per lane, from the first barrier operation by part of a warp on.

PTX ISA, "barrier": it orders the memory accesses of the threads that execute it. While all lanes of a warp synchronize
together, one clock per warp is sufficient (`clocks.py`). When only some lanes of a warp execute a barrier operation,
the whole group switches to one clock per lane. `row(m, t)[s]` is the last interval of thread s's warp in which thread t
has observed the actions of thread s. Threads are numbered by warp and lane, 32 to a warp. The clock of a warp then
holds what all its live lanes have observed of all lanes of another warp. Whatever it does not cover is looked up here.

Lanes with equal clocks share the row of their *leader*, which does not contain a lane's own actions. Programs with
asynchronous operations begin with clocks of lanes.  Their rows have these further parts.

* What is visible to the async proxy (`fence.proxy`), in shared memory and in global memory.
* What precedes in time in every schedule, whether or not memory is ordered by it (intervals << 32 | `operations`).
* If tensor maps are acquired: what was released to the tensormap proxy.

Each of the first four parts also has a bit for each asynchronous operation that has completed.

Rows have 32 numbers per warp. First come the rows of the threads. Then each CTA of a group has, for each barrier, the
clock released to its current generation, and the joined clock of the threads that have exited. Last come four rows for
each barrier: the interval that a thread's last operation in the current generation ended, its instruction, and both for
the previous generation.
"""

from __future__ import annotations

from wsemu.machine.lowering import compiled, set_bits
from wsemu.machine.memory.cell_bits import GENERIC
from wsemu.machine.memory.shadow_cells import ALL, at_least, copy, join, join_bits, join_some, least, put, same_key
from wsemu.machine.records import barrier_at, cta_at, record_finding, warp_at
from wsemu.machine.scalars import load_i64, lowest_bit, store_i64
from wsemu.machine.state import BARRIERS, CTA_ROWS, GROUP_ROWS, KEPT_GROUPS
from wsemu.machine.sync.group import enter_cta
from wsemu.machine.sync.warp_clocks import join_waiting, show_agents
from wsemu.model.codes import CODE_NUMBERS
from wsemu.model.isa import LANES

RECYCLING = CODE_NUMBERS["barrier-recycling"]
FULL = (1 << LANES) - 1


@compiled
def there(m, w):
    """Return the lanes that a warp has at its start: the last warp of a CTA may have fewer than 32."""
    return warp_at(m.warps, w).whole


@compiled
def row(m, number):
    return m.known + m.row_bytes * number


@compiled
def lane_row(m, w, lane):
    """Return the row with a lane's clock, which does not contain its own actions."""
    return row(m, LANES * w + load_i64(warp_at(m.warps, w).leaders + 8 * lane))


@compiled
def cta_row(m, member, number):
    """Return a row that belongs to a CTA of the group."""
    return row(m, LANES * m.warp_count + CTA_ROWS * member + number)


@compiled
def cluster_row(m, number):
    """Return a row of the group.

    The first two have what was released to even and odd phases of the cluster's barrier. Then follow two rows for each
    CTA: the threads that accessed its shared memory, and their instructions.
    """
    return row(m, LANES * m.warp_count + CTA_ROWS * m.members + number)


@compiled
def group_row(m, number):
    """Return a row that belongs to a warpgroup, see matrix/warpgroup.py."""
    return cluster_row(m, 2 + 2 * m.members + number)


@compiled
def given_row(m, number):
    return cta_row(m, m.member, number)


@compiled
def exited_row(m):
    return cta_row(m, m.member, BARRIERS)


@compiled
def took_row(m, number, before, pc):
    """Return a row of a barrier's current generation or the previous one: intervals or instructions."""
    return cta_row(m, m.member, BARRIERS + 1 + 4 * number + 2 * before + pc)


@compiled
def async_visible_offset(m, space):
    """Return the offset, in a row, of the intervals that are visible to the async proxy in shared (0) or global (1)
    memory."""
    return 256 * m.warp_count * (1 + space)


@compiled
def released_offset(m, to):
    """Return the offset, in a row, of the intervals that were released to the tensormap proxy: of all CTAs (0), or of
    one CTA by its own thread (1 + its rank)."""
    return 256 * m.warp_count * (4 + to)


@compiled
def time_offset(m):
    """Return the offset, in a row, of the intervals that precede in time in every schedule."""
    return 768 * m.warp_count


@compiled
def bits_of(m):
    """Return the offset, in a row, of the bitmap of asynchronous operations whose completion is observed."""
    return 256 * m.row_vectors


@compiled
def time_bits(m):
    """Return the offset, in a row, of the bitmap of asynchronous operations that completed earlier in time."""
    return 256 * (m.row_vectors + m.agent_bits)


@compiled
def relied_bits(m, space):
    """Return the offset, in a row, of the bitmap of asynchronous operations that are visible to the async proxy, in
    programs with bulk operations."""
    return 256 * (m.row_vectors + m.agent_bits * (2 + space))


@compiled
def inherited_bits(m):
    """Return the offset of the asynchronous operations that a thread had observed when it issued `tcgen05`
    operations."""
    return 256 * (m.row_vectors + m.agent_bits * 4)


@compiled
def published_bits(m):
    """Return the offset of the operations on tensor memory that a `before_thread_sync` or a release has published."""
    return 256 * (m.row_vectors + m.agent_bits * 5)


@compiled
def fenced_bits(m):
    """Return the offset of the operations on tensor memory that an `after_thread_sync` has ordered before later
    ones."""
    return 256 * (m.row_vectors + m.agent_bits * 6)


@compiled
def time_of(m, w):
    """Return the current time of a warp: its interval, and the number of asynchronous operations so far."""
    return load_i64(warp_at(m.warps, w).clock + 8 * w) << 32 | m.operations


@compiled
def spread(m, to, clock):
    """Fill a row from a clock of warps: all lanes of a warp have its interval."""
    for u in range(m.warp_count):
        put(to + 256 * u, ALL, load_i64(clock + 8 * u))


@compiled
def join_rows(m, to, other):
    for u in range(m.warp_count):
        join(to + 256 * u, other + 256 * u)
    if m.relying:
        for u in range(m.warp_count, 3 * m.warp_count):
            join(to + 256 * u, other + 256 * u)
    for u in range(3 * m.warp_count, m.row_vectors):
        join(to + 256 * u, other + 256 * u)
    for u in range(m.row_vectors, m.row_vectors + kept_bits(m)):
        join_bits(to + 256 * u, other + 256 * u)


@compiled
def set_bit(bits, at):
    """Add one asynchronous operation to a bitmap."""
    store_i64(bits + 8 * (at >> 6), load_i64(bits + 8 * (at >> 6)) | 1 << (at & 63))


@compiled
def kept_bits(m):
    """Return the number of groups of bitmaps in a row that may have a bit set."""
    return m.row_bits if m.relying else min(m.row_bits, 2 * m.agent_bits)


@compiled
def copy_row(m, to, other):
    for u in range(m.row_vectors + m.row_bits):
        copy(to + 256 * u, other + 256 * u)


@compiled
def clear_row(m, to):
    for u in range(m.row_vectors + m.row_bits):
        put(to + 256 * u, ALL, 0)


@compiled
def clear_given(m, to):
    """Clear a row to which only releases were added since it was last clear."""
    for u in range(m.warp_count):
        put(to + 256 * u, ALL, 0)
    if m.relying:
        for u in range(m.warp_count, 3 * m.warp_count):
            put(to + 256 * u, ALL, 0)
    for u in range(3 * m.warp_count, m.row_vectors):
        put(to + 256 * u, ALL, 0)
    for u in range(m.row_vectors, m.row_vectors + kept_bits(m)):
        put(to + 256 * u, ALL, 0)


@compiled
def clear_known(m, to):
    """Clear a row that contains only times of threads and asynchronous operations."""
    for u in range(m.warp_count):
        put(to + 256 * u, ALL, 0)
    for u in range(m.row_vectors, m.row_vectors + min(m.row_bits, 2 * m.agent_bits)):
        put(to + 256 * u, ALL, 0)


@compiled
def heads(m, w, lanes):
    """Return the leaders of some lanes."""
    leaders = warp_at(m.warps, w).leaders
    found = 0
    while lanes:
        lane = load_i64(leaders + 8 * lowest_bit(lanes))
        lanes &= ~same_key(leaders, ALL, lane)
        found |= 1 << lane
    return found


@compiled
def separate(m, w, lanes):
    """Give some lanes rows that no other lane shares; in lockstep, all lanes of a warp always share one."""
    if m.lockstep:
        return
    leaders = warp_at(m.warps, w).leaders
    rest = lanes
    while rest:
        leader = load_i64(leaders + 8 * lowest_bit(rest))
        group = same_key(leaders, ALL, leader)
        rest &= ~group
        moved = group & ~lanes
        if moved == 0:
            continue
        if (lanes >> leader) & 1 == 0:
            moved = group & lanes
        to = lowest_bit(moved)
        copy_row(m, row(m, LANES * w + to), row(m, LANES * w + leader))
        put(leaders, moved, to)


@compiled
def begin_lanes(m):
    """Switch the group to one clock per lane, each a copy of its warp's clock, which sufficed until now."""
    m.by_lanes = 1
    m.apart = 1
    for w in range(m.warp_count):
        warp = warp_at(m.warps, w)
        put(warp.leaders, ALL, 0)
        for lane in range(LANES if warp.partial else 1):  # otherwise all have observed the same of each other
            store_i64(warp.leaders + 8 * lane, lane)
            own = row(m, LANES * w + lane)
            spread(m, own, warp.clock)
            put(own + 256 * w, ALL, warp.synced)
            if warp.partial:
                join(own + 256 * w, warp.lane_clocks + 256 * lane)
        warp.partial = 1
    here = m.member
    for member in range(m.members):
        enter_cta(m, member)
        begin_rows(m)
    enter_cta(m, here)


@compiled
def begin_rows(m):
    """Initialize the rows of the current CTA from its clocks of warps."""
    spread(m, exited_row(m), m.exited)
    for number in range(BARRIERS):
        b = barrier_at(m.barriers, number)
        join_waiting(m, number)
        spread(m, given_row(m, number), b.clock)
        spread(m, took_row(m, number, 0, 0), b.took)
        spread(m, took_row(m, number, 0, 1), b.took_pc)
        spread(m, took_row(m, number, 1, 0), b.took_before)
        spread(m, took_row(m, number, 1, 1), b.took_before_pc)


@compiled
def start_lanes(m):
    """Start a group in which each lane has its own clock from the beginning."""
    m.by_lanes = 1
    m.apart = 1
    for w in range(m.warp_count):
        warp = warp_at(m.warps, w)
        put(warp.leaders, ALL, 0)
        put(warp.fenced, ALL, m.base)
        put(warp.fenced + 256, ALL, m.base)
        put(warp.fenced + 512, ALL, m.base)
        put(warp.fenced + 768, ALL, m.base)
        first = row(m, LANES * w)
        for u in range(m.row_vectors):
            put(first + 256 * u, ALL, m.base)
        for u in range(m.row_vectors, m.row_vectors + m.row_bits):
            put(first + 256 * u, ALL, 0)
        show_agents(m, warp.clock, m.base)
        warp.partial = 1
    clear_rows(m)


@compiled
def clear_rows(m):
    """Clear the rows of CTAs and of the group that the previous group has used."""
    for member in range(m.members):
        clear_row(m, cta_row(m, member, BARRIERS))
        for number in range(BARRIERS):
            b = barrier_at(cta_at(m.ctas, member).barriers, number)
            if b.arrived or b.generation:
                clear_row(m, cta_row(m, member, number))
                for k in range(4):
                    clear_row(m, cta_row(m, member, BARRIERS + 1 + 4 * number + k))
    if m.cluster_entry:
        for number in range(2 + 2 * m.members * m.clusters):
            clear_row(m, cluster_row(m, number))
    for number in range(m.group_rows):  # rows of wgmma groups are copied before they are read
        if number % GROUP_ROWS < GROUP_ROWS - KEPT_GROUPS:
            clear_row(m, group_row(m, number))


@compiled
def refresh(m, w):
    """Recompute the clock of a warp: what all its live lanes have observed of all lanes of other warps."""
    warp = warp_at(m.warps, w)
    if warp.alive:
        readers = heads(m, w, warp.alive)
        for u in range(m.warp_count):
            if u == w:
                continue
            lanes = there(m, u)
            least_known = 1 << 60
            rest = readers
            while rest:
                least_known = min(least_known, least(row(m, LANES * w + lowest_bit(rest)) + 256 * u, lanes))
                rest &= rest - 1
            store_i64(warp.clock + 8 * u, max(least_known, load_i64(warp.clock + 8 * u)))
        if m.row_bits:
            refresh_agents(m, w, readers)
    warp.partial = 1


@compiled
def refresh_agents(m, w, readers):
    """Recompute up to which asynchronous operation all lanes of a warp have observed the completion of each."""
    warp = warp_at(m.warps, w)
    last = max(load_i64(warp.clock + 8 * GENERIC), m.agent_low - 1)
    first = last
    while last + 1 < m.agent_next:
        number = last + 1 - m.agent_low
        place = bits_of(m) + 8 * (number >> 6)
        all_know = -1
        rest = readers
        while rest:
            all_know &= load_i64(row(m, LANES * w + lowest_bit(rest)) + place)
            rest &= rest - 1
        if (all_know >> (number & 63)) & 1 == 0:
            break
        last += 1
    if last != first:
        show_agents(m, warp.clock, last)


@compiled
def stamp(m, to, w, lanes):
    """Add the own actions of some lanes of a warp to a row."""
    warp = warp_at(m.warps, w)
    if m.lockstep:
        lanes = FULL
    put(to + 256 * w, lanes, load_i64(warp.clock + 8 * w))
    if m.relying:
        join_some(to + async_visible_offset(m, 0) + 256 * w, warp.fenced, lanes)
        join_some(to + async_visible_offset(m, 1) + 256 * w, warp.fenced + 256, lanes)
    if m.releases:
        join_some(to + released_offset(m, 0) + 256 * w, warp.fenced + 512, lanes)
        join_some(to + released_offset(m, 1 + warp.member) + 256 * w, warp.fenced + 768, lanes)
    if m.proxies:
        put(to + time_offset(m) + 256 * w, lanes, time_of(m, w))


@compiled
def join_lanes(m, to, w, lanes):
    """Join the clocks of some lanes of a warp into a row."""
    rest = heads(m, w, lanes)
    while rest:
        join_rows(m, to, row(m, LANES * w + lowest_bit(rest)))
        rest &= rest - 1
    if m.tensor_fences:
        publish_known(m, to)
    stamp(m, to, w, lanes)


@compiled
def publish_known(m, to):
    """Publish the operations on tensor memory that a row contains."""
    for u in range(m.agent_bits):
        join_bits(to + published_bits(m) + 256 * u, to + bits_of(m) + 256 * u)
        join_bits(to + published_bits(m) + 256 * u, to + fenced_bits(m) + 256 * u)


@compiled
def inherit_known(m, w, lane):
    """Record the asynchronous operations that a lane has observed when it issues an operation on tensor memory."""
    separate(m, w, 1 << lane)
    own = lane_row(m, w, lane)
    for u in range(m.agent_bits):
        join_bits(own + inherited_bits(m) + 256 * u, own + bits_of(m) + 256 * u)


@compiled
def give_inherited(m, to, w, lane):
    """Add to a row what a lane had observed when it issued operations on tensor memory: it completed before they
    began."""
    own = lane_row(m, w, lane)
    for u in range(m.agent_bits):
        join_bits(to + bits_of(m) + 256 * u, own + inherited_bits(m) + 256 * u)
        if m.tensor_fences:
            join_bits(to + published_bits(m) + 256 * u, own + inherited_bits(m) + 256 * u)


@compiled
def give_published(m, to, w, lanes):
    """Add to a row the operations on tensor memory that some lanes have published, and nothing else."""
    rest = heads(m, w, lanes)
    while rest:
        own = row(m, LANES * w + lowest_bit(rest))
        rest &= rest - 1
        for u in range(m.agent_bits):
            join_bits(to + published_bits(m) + 256 * u, own + published_bits(m) + 256 * u)


@compiled
def take_published(m, w, lanes, other):
    """Add the operations on tensor memory that a row has as published to some lanes of a warp, and nothing else."""
    separate(m, w, lanes)
    rest = heads(m, w, lanes)
    while rest:
        own = row(m, LANES * w + lowest_bit(rest))
        rest &= rest - 1
        for u in range(m.agent_bits):
            join_bits(own + published_bits(m) + 256 * u, other + published_bits(m) + 256 * u)


@compiled
def order_tensor_accesses(m, w, lanes, after):
    """Execute a `tcgen05.fence`: order published operations before later ones, or publish the observed operations."""
    separate(m, w, lanes)
    rest = heads(m, w, lanes)
    while rest:
        own = row(m, LANES * w + lowest_bit(rest))
        rest &= rest - 1
        if after == 0:
            publish_known(m, own)
            continue
        for u in range(m.agent_bits):
            join_bits(own + fenced_bits(m) + 256 * u, own + published_bits(m) + 256 * u)


@compiled
def join_times(m, to, other):
    """Join the times of another row into a row."""
    for u in range(m.warp_count):
        join(to + time_offset(m) + 256 * u, other + time_offset(m) + 256 * u)
    for u in range(m.agent_bits):
        join_bits(to + time_bits(m) + 256 * u, other + time_bits(m) + 256 * u)


@compiled
def give_times(m, to, w, lanes):
    """Join the times of some lanes of a warp, which include these lanes, into a row."""
    rest = heads(m, w, lanes)
    while rest:
        join_times(m, to, row(m, LANES * w + lowest_bit(rest)))
        rest &= rest - 1
    put(to + time_offset(m) + 256 * w, FULL if m.lockstep else lanes, time_of(m, w))


@compiled
def converge(m, w, lanes, now):
    """Order each of some lanes of a warp after everything that any of them has done, but only in time."""
    separate(m, w, lanes)
    leaders = heads(m, w, lanes)
    first = row(m, LANES * w + lowest_bit(leaders))
    rest = leaders & (leaders - 1)
    while rest:
        join_times(m, first, row(m, LANES * w + lowest_bit(rest)))
        rest &= rest - 1
    put(first + time_offset(m) + 256 * w, lanes, now)
    rest = leaders & (leaders - 1)
    while rest:
        join_times(m, row(m, LANES * w + lowest_bit(rest)), first)
        rest &= rest - 1


@compiled
def learn_times(m, w, lanes, other):
    """Join the times of a row into those of some lanes of a warp."""
    separate(m, w, lanes)
    rest = heads(m, w, lanes)
    while rest:
        join_times(m, row(m, LANES * w + lowest_bit(rest)), other)
        rest &= rest - 1


@compiled
def learn(m, w, lanes, other):
    """Join a row into the clocks of some lanes of a warp."""
    separate(m, w, lanes)
    rest = heads(m, w, lanes)
    while rest:
        join_rows(m, row(m, LANES * w + lowest_bit(rest)), other)
        rest &= rest - 1
    refresh(m, w)


@compiled
def meet_lanes(m, w, lanes):
    """Join the clocks of some lanes of a warp after a common operation: each has observed what any of them had."""
    separate(m, w, lanes)
    leader = load_i64(warp_at(m.warps, w).leaders + 8 * lowest_bit(lanes))
    join_lanes(m, row(m, LANES * w + leader), w, lanes)
    put(warp_at(m.warps, w).leaders, lanes, leader)
    refresh(m, w)


@compiled
def give_lanes(m, w, pc, number, lanes):
    """Release the clocks of some lanes of a warp to the current generation of a barrier."""
    join_lanes(m, given_row(m, number), w, lanes)
    took, took_pc = took_row(m, number, 0, 0) + 256 * w, took_row(m, number, 0, 1) + 256 * w
    rest = lanes
    while rest:  # an earlier operation of one of these lanes precedes this one, whichever lanes it had
        together = same_key(took, ALL, load_i64(took + 8 * lowest_bit(rest)))
        put(took, together, 0)
        rest &= ~together
    put(took, lanes, load_i64(warp_at(m.warps, w).clock + 8 * w))
    put(took_pc, lanes, pc)


@compiled
def end_lanes(m, number):
    """End the current generation of a barrier: its rows become those of the previous one."""
    for pc in range(2):
        open_, before = took_row(m, number, 0, pc), took_row(m, number, 1, pc)
        for u in range(m.warp_count):
            copy(before + 256 * u, open_ + 256 * u)
            put(open_ + 256 * u, ALL, 0)
    clear_row(m, given_row(m, number))


@compiled
def lane_knows(m, w, lane, u, other, interval):
    """Return whether a lane of warp w has observed the actions of lane `other` of warp u up to an interval."""
    if u == w and (lane == other or m.lockstep):
        return True
    return load_i64(lane_row(m, w, lane) + 256 * u + 8 * other) >= interval


@compiled
def agent_known(m, w, lane, number):
    """Return whether a lane of warp w has observed the completion of an asynchronous operation."""
    at = number - m.agent_low
    if at < 0:
        return True
    if number >= m.agent_next:
        return False
    return (load_i64(lane_row(m, w, lane) + bits_of(m) + 8 * (at >> 6)) >> (at & 63)) & 1 != 0


@compiled
def has_agent_bit(m, w, lane, number, offset):
    """Return whether a bitmap, at an offset in the row of a lane, contains an asynchronous operation."""
    at = number - m.agent_low
    if at < 0:
        return True
    if number >= m.agent_next:
        return False
    return (load_i64(lane_row(m, w, lane) + offset + 8 * (at >> 6)) >> (at & 63)) & 1 != 0


@compiled
def agent_relied(m, w, lane, space, number):
    """Return whether an operation that is asynchronous, but of the generic proxy, is visible in a space to asynchronous
    operations of a lane of warp w."""
    at = number - m.agent_low
    if at < 0:
        return True
    if number >= m.agent_next:
        return False
    bits = lane_row(m, w, lane) + relied_bits(m, space)
    return (load_i64(bits + 8 * (at >> 6)) >> (at & 63)) & 1 != 0


@compiled
def lane_relies(m, w, lane, space, u, other, interval):
    """Return whether the actions of lane `other` of warp u up to an interval are visible, in a space, to asynchronous
    operations of a lane of warp w."""
    own = u == w and (lane == other or m.lockstep)
    if own and load_i64(warp_at(m.warps, w).fenced + 256 * space + 8 * lane) >= interval:
        return True
    return load_i64(lane_row(m, w, lane) + async_visible_offset(m, space) + 256 * u + 8 * other) >= interval


@compiled
def lane_released(m, w, lane, wide, u, other, interval):
    """Return whether a lane of warp w has observed a release to the tensormap proxy of the accesses of lane `other` of
    warp u up to an interval.

    With `wide`, the release is to the proxy of all CTAs; otherwise to that of the own CTA, by a thread of it.
    """
    own = u == w and (lane == other or m.lockstep)
    if own and load_i64(warp_at(m.warps, w).fenced + (512 if wide else 768) + 8 * lane) >= interval:
        return True
    to = 0 if wide else 1 + warp_at(m.warps, w).member
    return load_i64(lane_row(m, w, lane) + released_offset(m, to) + 256 * u + 8 * other) >= interval


@compiled
def lanes_unknown(m, w, lane, u, others, interval):
    """Return the lanes `others` of warp u whose actions up to an interval a lane of warp w has not observed."""
    unknown = 0
    for other in set_bits(others):
        if not lane_knows(m, w, lane, u, other, interval):
            unknown |= 1 << other
    return unknown


@compiled
def operation_known(m, w, lanes, u, others, interval):
    """Return whether one of some lanes of warp w has observed the operation by which others of warp u ended an
    interval."""
    if u == w and (lanes & others or m.lockstep):
        return True
    rest = heads(m, w, lanes)
    while rest:
        if at_least(row(m, LANES * w + lowest_bit(rest)) + 256 * u, interval) & others:
            return True
        rest &= rest - 1
    return False


@compiled
def judge_recycling_lanes(m, w, pc, number, lanes):
    """Check, like `clocks.judge_recycling`, that each operation of the previous generation happens before one of these
    lanes."""
    for u in range(m.warp_count):
        took = took_row(m, number, 1, 0) + 256 * u
        latest, latest_pc = 0, 0
        rest = at_least(took, 1)
        while rest:
            q = lowest_bit(rest)
            interval = load_i64(took + 8 * q)
            others = same_key(took, ALL, interval)
            rest &= ~others
            if interval > latest and not operation_known(m, w, lanes, u, others, interval):
                latest, latest_pc = interval, load_i64(took_row(m, number, 1, 1) + 256 * u + 8 * q)
        if latest:
            record_finding(
                m.report_entry,
                m.address,
                (RECYCLING, pc, w, 0, latest_pc, u),
                (
                    number,
                    barrier_at(m.barriers, number).generation - 1,
                    load_i64(warp_at(m.warps, w).clock + 8 * w) - m.base,
                    latest - m.base,
                    0,
                ),
            )
