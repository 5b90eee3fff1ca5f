"""Run the streams of warps on one multiprocessor: when each item issues, and what it waits for.

A warp issues in order. An item waits for its sources (the scoreboard), for the issue slot of its sub-partition, for its
pipe and, if it accesses memory, for the queues of the memory system. L2 and DRAM are servers with this multiprocessor's
share of their rates, and a latency with a tail. Named barriers and phases count exactly. The constants come from
`timing/constants.py`.
"""

from __future__ import annotations

from wsemu.machine.lowering import compiled
from wsemu.machine.multiprocessor.layout import (
    BAR_BASE,
    GROUPS,
    KINDS,
    NEVER,
    PIPES,
    QUARTERS,
    TOGETHER,
    barrier_at,
    chunk_at,
    flow_at,
    item_at,
    model_at,
    next_at,
    period_at,
    phase_at,
    span_at,
    stretch_at,
    value_at,
)
from wsemu.machine.scalars import load_i64, store_i64
from wsemu.model.wait_reasons import REASONS

(
    PLAIN, NONE, BRANCH, REPEAT, DIVERGE, EXIT, ON_SHARED, SHARED_ATOMIC, LOAD, STORE, ATOMIC, CP_ASYNC, ARRIVE,
    EXPECT, ARRIVE_COPIES, AWAIT, BULK_LOAD, BULK_STORE, GROUP_CLOSE, GROUP_WAIT, BAR_ARRIVE,
    BAR_SYNC, PRODUCT, PRODUCT_CLOSE, PRODUCT_WAIT, MATRIX,
) = range(len(KINDS))  # fmt: skip
(
    SELECTED, WAIT, SHORT, LONG, AT_BARRIER, AT_MBARRIER, COPIES, TENSOR, MIO, LG, MATH_PIPE, NOT_SELECTED, RESOLVE,
    MEMBAR,
) = range(len(REASONS))  # fmt: skip
N_REASONS = len(REASONS)
LEAST_WAIT = 2 * 1024
"""ticks after an issue in which a warp is not ready for another one, and thus not `not_selected`"""
BARRIERS = 16
OWN_SCOREBOARDS = 3
"""loads of a stretch that have a scoreboard of their own: ptxas has six, and uses two for other purposes"""
TAILS = 256
FROM_OTHERS, FAR = 256, -1
"""marks in the rows of tails: copies that other CTAs of a cluster issue, and accesses to their shared memory"""
DONE_PHASES = 3
"""mask of the phases whose ends are kept"""


@compiled
def note(m, w, pc, reason, begin, end):
    """Account for a time in which a warp did not issue the item of an instruction."""
    if end <= begin:
        return
    place = m.stalls + 8 * (w * N_REASONS + reason)
    store_i64(place, load_i64(place) + end - begin)
    place = m.by_pc + 8 * (pc * N_REASONS + reason)
    store_i64(place, load_i64(place) + end - begin)
    if m.span_count < m.span_room:
        span = span_at(m.spans, m.span_count)
        span.warp = w
        span.pc = pc
        span.reason = reason
        span.begin = begin
        span.end = end
        m.span_count += 1


@compiled
def note_period(m, cta, number, begin, end):
    """List a complete phase or generation."""
    if m.period_count < m.span_room:
        period = period_at(m.periods, m.period_count)
        period.cta = cta
        period.number = number
        period.begin = begin
        period.end = end
        m.period_count += 1


@compiled
def draw(m, row):
    """Return how late one access of a row is, in ticks of scale 1."""
    m.seed = (m.seed * 1103515245 + 12345) & 0x7FFFFFFF
    return load_i64(m.tails + 8 * (row * TAILS + ((m.seed >> 12) & (TAILS - 1))))


@compiled
def begin_chunk(m, flow):
    """Set the items and values of a warp to those of its chunk; after the last chunk, change nothing."""
    if flow.chunk < flow.end:
        chunk = chunk_at(m.chunks, flow.chunk)
        stretch = stretch_at(m.stretches, chunk.stretch)
        flow.values = chunk.values
        flow.item = stretch.first
        flow.last = stretch.first + stretch.length


@compiled
def choose(m):
    """Return the warp that can issue first, and when; -1: none can.

    The first warp of each sub-partition is kept until a time of the sub-partition or of one of its warps changes.  Of
    warps that can issue at once, the one with the lowest number is first.
    """
    best, first = -1, NEVER
    for quarter in range(QUARTERS):
        if m.changed[quarter]:
            search_quarter(m, quarter)
        w, t = m.best[quarter], m.first[quarter]
        if w >= 0 and (t < first or (t == first and w < best)):
            best = w
            first = t
    return best, first


@compiled
def search_quarter(m, quarter):
    """Find the warp of a sub-partition that can issue first."""
    best, first = -1, NEVER
    issue_free = m.issue_free[quarter]
    for cta in range(m.resident):
        for w in range(cta * m.warps + quarter, (cta + 1) * m.warps, QUARTERS):
            one = next_at(m.next, w)
            t = max(one.when, max(issue_free, m.pipe_free[quarter * PIPES + one.pipe]))
            if t < first:
                best = w
                first = t
    m.best[quarter] = best
    m.first[quarter] = first
    m.changed[quarter] = 0


@compiled
def fetch(m, s, sectors, misses, row):
    """Return when sectors arrive that L1 does not have; `misses` of them are in DRAM."""
    late = draw(m, row)
    size = sectors * 32
    m.port_free = max(m.port_free, s) + (size * m.port >> 10)
    m.l2_free = max(m.l2_free, s) + (size * m.l2 >> 10)
    m.l2_bytes += size
    done = max(max(m.l2_free - m.l2_slack, m.port_free), s) + m.l2_latency + (m.l2_tail * late >> 10)
    if misses:
        m.dram_free = max(m.dram_free, s) + (misses * 32 * m.dram >> 10)
        m.dram_bytes += misses * 32
        come = max(m.dram_free - m.dram_slack, max(m.port_free, s)) + m.l2_latency + m.dram_latency
        done = max(done, come + (m.dram_tail * late >> 10))
    return done


@compiled
def send(m, s, size, misses):
    """Return when the write queues have taken `size` bytes, of which `misses` sectors go to DRAM."""
    m.write_free = max(m.write_free, s) + (size * m.l2_write >> 10)
    m.l2_bytes += size
    if misses == 0:
        return m.write_free
    m.dram_free = max(m.dram_free, s) + (misses * 32 * m.dram_write >> 10)
    m.dram_bytes += misses * 32 * m.dram_write_share >> 10
    return max(m.write_free, m.dram_free)


@compiled
def access(m, flow, quarter, kind, least, v, t):
    """Access memory; return when the result is ready, and when the warp may continue.

    `least` is the time until the next access of the warp, if no other one delays it.  A sub-partition has a path to
    memory of half the rate of the multiprocessor.
    """
    s = max(max(t, flow.stored), max(m.lsu_free, m.path_free[quarter]))
    after = max(t, s - m.access_queue)
    done = t
    if kind in (ON_SHARED, SHARED_ATOMIC):
        m.lsu_free = s + m.lsu * v.y
        m.path_free[quarter] = s + m.path * v.y
        flow.stored = max(m.path_free[quarter], s + least)
        done = s + m.shared_latency + m.shared_way * (v.y - (kind == ON_SHARED))
    elif kind == STORE:
        m.lsu_free = s + m.lsu * max(v.y, (v.x + 3) >> 2)
        m.path_free[quarter] = s + m.path * v.y
        flow.stored = max(m.path_free[quarter], s + least)
        through = send(m, s, v.x * 32, v.z)
        after = max(after, through - m.store_queue)
    else:
        m.lsu_free = s + max(m.lsu * v.y, m.global_access)
        m.path_free[quarter] = s + max(m.lsu * v.y, m.global_access) * 2
        done = s + m.l1_latency
        if v.tail == FAR:
            done = s + m.shared_latency + m.cluster_latency + m.shared_way * (v.y - 1)
        elif v.x:
            done = fetch(m, s, v.x, v.z, v.tail)
        if kind == ATOMIC:
            done += m.atomic_latency
        if kind == CP_ASYNC:
            flow.copies = max(flow.copies, done)
    return done, after


@compiled
def share_scoreboard(m, w, flow, item, t, done):
    """Return when the result of a load is ready.  The first open loads of a warp have scoreboards of their own; later
    ones share one, and are ready together when the last of them ends."""
    if t >= flow.loaded:
        flow.loads = 0
        flow.together = 0
    flow.loads += 1
    n = flow.loads - 1 - OWN_SCOREBOARDS
    if n >= 0:
        done = max(done, flow.together)
        flow.together = done
        for k in range(4):
            flow.sharing[(n & (TOGETHER - 1)) * 4 + k] = item.result[k]
        for k in range(min(n, TOGETHER) * 4):
            r = flow.sharing[k]
            if r >= 0:
                place = 8 * (w * m.registers + r)
                if load_i64(m.ready + place) > t:
                    store_i64(m.ready + place, done)
    flow.loaded = max(flow.loaded, done)
    return done


@compiled
def meet(m, w, cta, kind, v, t, pc):
    """Arrive at a named barrier, and release its waits after the last arrival; return when the warp may continue."""
    s = max(t, m.barrier_free)
    m.barrier_free = s + m.bar_arrive
    b = barrier_at(m.barriers, cta * BARRIERS + v.x)
    if b.arrived == 0:
        b.first = s
    b.arrived += 1
    b.last = max(b.last, s)
    if kind == BAR_SYNC:
        flow = flow_at(m.flow, w)
        flow.at = BAR_BASE + v.x
        flow.since = t
        flow.need = 0
        flow.pc = pc
    if b.arrived < v.y:
        return NEVER if kind == BAR_SYNC else t
    go = b.last + m.bar_wake
    note_period(m, cta, BAR_BASE + v.x, b.first, b.last)
    b.arrived = 0
    b.last = 0
    release(m, cta, BAR_BASE + v.x, NEVER, go, AT_BARRIER)
    if kind == BAR_SYNC:
        return go
    return t


@compiled
def release(m, cta, at, phase, go, reason):
    """End the waits of a CTA's warps at an object."""
    for v in range(cta * m.warps, cta * m.warps + m.warps):
        flow = flow_at(m.flow, v)
        if flow.at == at and flow.phase <= phase:
            flow.at = -1
            end = go if reason == AT_BARRIER else max(go, flow.since + m.mbar_wait)
            note(m, v, flow.pc, reason, flow.since, end)
            note(m, v, flow.pc, WAIT, end, flow.need)
            one = next_at(m.next, v)
            one.when = max(end, flow.need)
            m.changed[one.quarter] = 1


@compiled
def count_arrival(m, flow, cta, kind, v, t):
    """Count arrivals and expected bytes of the open phase."""
    phase = phase_at(m.phases, cta * m.objects + v.x)
    when = t + m.mbar_arrive + v.z * m.cluster_latency
    if kind == EXPECT:
        phase.bytes += v.y
    else:
        phase.pending -= v.y
        if kind == ARRIVE_COPIES:
            when = max(when, flow.copies)
    complete(m, cta, v.x, when)


@compiled
def credit(m, cta, v, t):
    """Copy to shared memory, and credit the bytes to the open phase."""
    s = max(t, m.copy_free)
    m.copy_free = s + max(m.bulk_issue, v.y * m.bulk_rate >> 10)
    late = draw(m, v.tail & (FROM_OTHERS - 1))
    m.port_free = max(m.port_free, s) + (v.y * m.port >> 10)
    if v.tail < FROM_OTHERS:
        m.l2_free = max(m.l2_free, s) + (v.y * m.l2 >> 10)
        m.l2_bytes += v.y
    when = max(max(m.l2_free - m.l2_slack, m.port_free), m.copy_free) + m.bulk_latency + (m.l2_tail * late >> 10)
    if v.z:
        m.dram_free = max(m.dram_free, s) + (v.z * 32 * m.dram >> 10)
        m.dram_bytes += v.z * 32
        come = max(m.dram_free - m.dram_slack, m.copy_free) + m.bulk_latency + m.dram_latency
        when = max(when, come + (m.dram_tail * late >> 10))
    phase_at(m.phases, cta * m.objects + v.x).bytes -= v.y
    complete(m, cta, v.x, when)


@compiled
def complete(m, cta, number, when):
    """Note the time of an arrival in the open phase; end the phase after the last one."""
    phase = phase_at(m.phases, cta * m.objects + number)
    phase.when = max(phase.when, when)
    if phase.pending > 0 or phase.bytes != 0:
        return
    end = phase.when
    phase.done[phase.phase & DONE_PHASES] = end
    ended = phase.phase
    phase.phase = ended + 1
    phase.pending = load_i64(m.counts + 8 * number)
    phase.when = 0
    note_period(m, cta, number, phase.begin, end)
    phase.begin = end
    release(m, cta, number, ended, end + m.mbar_wake, AT_MBARRIER)


@compiled
def join_loads(m, w, t):
    """Let the open loads of a warp be ready together, when the last of them ends: a wait for a phase is a loop, and
    loads that are open at a loop share a scoreboard."""
    last = 0
    for r in range(m.registers):
        place = 8 * (w * m.registers + r)
        if load_i64(m.why + place) == LONG:
            last = max(last, load_i64(m.ready + place))
    for r in range(m.registers):
        place = 8 * (w * m.registers + r)
        if load_i64(m.why + place) == LONG and load_i64(m.ready + place) > t:
            store_i64(m.ready + place, last)


@compiled
def wait_for_phase(m, w, cta, v, t, pc):
    """Return when a wait for a phase ends; NEVER while the phase is open."""
    join_loads(m, w, t)
    phase = phase_at(m.phases, cta * m.objects + v.x)
    if v.y >= phase.phase:
        flow = flow_at(m.flow, w)
        flow.at = v.x
        flow.phase = v.y
        flow.since = t
        flow.pc = pc
        return NEVER
    end = t + m.mbar_wait
    if v.y >= 0 and v.y >= phase.phase - DONE_PHASES - 1:
        end = max(end, phase.done[v.y & DONE_PHASES] + m.mbar_wake)
    note(m, w, pc, AT_MBARRIER, t + m.mbar_wait, end)
    return end


@compiled
def count_group(m, w, flow, kind, v, t, after, pc):
    """Close a group of copies or products, or wait until few enough are open."""
    if kind == GROUP_CLOSE:
        flow.groups[flow.closed & (GROUPS - 1)] = flow.copies
        flow.closed += 1
        return after
    if kind == PRODUCT_CLOSE:
        flow.product_groups[flow.product_closed & (GROUPS - 1)] = flow.products
        flow.product_closed += 1
        return after
    end = after
    if kind == GROUP_WAIT and flow.closed > v.x:
        end = max(after, flow.groups[(flow.closed - 1 - v.x) & (GROUPS - 1)])
        note(m, w, pc, COPIES, after, end)
    if kind == PRODUCT_WAIT and flow.product_closed > v.x:
        end = max(after, flow.product_groups[(flow.product_closed - 1 - v.x) & (GROUPS - 1)])
        note(m, w, pc, TENSOR, after, end)
    return end


@compiled
def multiply(m, flow, quarter, kind, v, t):
    """Use the tensor core of a sub-partition; return when the result is ready, and when the warp may continue."""
    s = max(t, m.tensor_free[quarter])
    m.tensor_free[quarter] = s + v.x
    if kind == MATRIX:
        return s + v.y, s
    flow.products = max(flow.products, s + v.x + m.tensor_latency)
    return t, max(t, s - m.tensor_queue)


@compiled
def sources_ready(m, w, item, since):
    """Return when the sources of an item are ready, and the reason why not earlier."""
    ready, why, late = since, WAIT, 0
    if item.kind in (BRANCH, REPEAT, DIVERGE):
        late = m.predicate
    for k in range(4):
        r = item.source[k]
        if r >= 0:
            place = 8 * (w * m.registers + r)
            if load_i64(m.ready + place) + late > ready:
                ready = load_i64(m.ready + place) + late
                why = load_i64(m.why + place)
    return ready, why


@compiled
def start_stream(m, w, when):
    """Start a warp at the beginning of its stream."""
    flow = flow_at(m.flow, w)
    local = w % m.warps
    flow.begin = load_i64(m.streams + 8 * local)
    flow.end = load_i64(m.streams + 8 * local + 8)
    flow.chunk = flow.begin
    flow.cta = w // m.warps
    flow.at = -1
    flow.phase = -1
    flow.need = 0
    flow.copies = 0
    flow.closed = 0
    flow.products = 0
    flow.product_closed = 0
    flow.stored = 0
    flow.loads = 0
    flow.loaded = 0
    flow.together = 0
    for r in range(m.registers):
        store_i64(m.ready + 8 * (w * m.registers + r), 0)
    one = next_at(m.next, w)
    one.quarter = local % QUARTERS
    one.pipe = PIPES - 1
    one.when = when
    m.changed[one.quarter] = 1
    if flow.chunk < flow.end:
        begin_chunk(m, flow)
        one.pipe = item_at(m.items, flow.item).pipe


@compiled
def start_cta(m, cta, when):
    """Start a CTA."""
    m.started += 1
    store_i64(m.left + 8 * cta, m.warps)
    for b in range(BARRIERS):
        barrier_at(m.barriers, cta * BARRIERS + b).arrived = 0
        barrier_at(m.barriers, cta * BARRIERS + b).last = 0
    for k in range(m.objects):
        phase = phase_at(m.phases, cta * m.objects + k)
        phase.pending = load_i64(m.counts + 8 * k)
        phase.bytes = 0
        phase.phase = 0
        phase.when = 0
        phase.begin = when
    m.live += m.warps
    for w in range(cta * m.warps, cta * m.warps + m.warps):
        start_stream(m, w, when)


@compiled
def end_warp(m, w, when):
    """End a warp; after the last one of its CTA, start another CTA."""
    cta = w // m.warps
    next_at(m.next, w).when = NEVER
    flow_at(m.flow, w).at = -1
    m.end = max(m.end, when)
    m.live -= 1
    left = load_i64(m.left + 8 * cta) - 1
    store_i64(m.left + 8 * cta, left)
    if left == 0 and m.started < m.ctas:
        start_cta(m, cta, when + m.cta_start)


@compiled
def effect(m, w, flow, item, v, t, after):
    """Perform the effect of an item; return when its result is ready, when the warp may continue (NEVER: at a release),
    and the reason why not earlier."""
    kind, cta = item.kind, flow.cta
    done, held = t + item.latency, WAIT
    if item.reason == MEMBAR:
        done = max(t, flow.products) + item.latency
    if kind <= EXIT:
        if kind == BRANCH:
            after = t + m.branch
        elif kind == DIVERGE:
            after = t + m.diverge
        elif kind == REPEAT:
            after = max(t + m.branch, flow.stored) + m.repeat
        if kind in (BRANCH, DIVERGE, REPEAT):
            held = RESOLVE
        return done, after, held
    if kind <= CP_ASYNC:
        done, free = access(m, flow, next_at(m.next, w).quarter, kind, item.hold, v, t)
        held = MIO if kind <= SHARED_ATOMIC else LG
        return done, max(after, free), held
    behind = max(t, flow.stored)
    if kind <= ARRIVE_COPIES:
        count_arrival(m, flow, cta, kind, v, behind)
    elif kind == AWAIT:
        after = wait_for_phase(m, w, cta, v, t, item.pc)
        held = -1
    elif kind == BULK_LOAD:
        credit(m, cta, v, t)
        after = max(after, t + (m.bulk_first if item.cost else m.bulk_next))
    elif kind == BULK_STORE:
        s = max(t, m.copy_free)
        m.copy_free = s + max(m.bulk_issue, v.y * m.bulk_rate >> 10)
        through = send(m, s, v.y, v.z)
        flow.copies = max(flow.copies, max(through, m.copy_free) + m.bulk_store_latency)
    elif kind in (BAR_ARRIVE, BAR_SYNC):
        after = max(after, meet(m, w, cta, kind, v, behind, item.pc))
        held = -1
    elif kind in (PRODUCT, MATRIX):
        done, free = multiply(m, flow, next_at(m.next, w).quarter, kind, v, t)
        after = max(after, free)
        held = MATH_PIPE
    else:
        after = count_group(m, w, flow, kind, v, t, after, item.pc)
        held = -1
    return done, after, held


@compiled
def issue(m, w, t):
    """Issue the next item of a warp at time `t`."""
    flow, one = flow_at(m.flow, w), next_at(m.next, w)
    item = item_at(m.items, flow.item)
    m.changed[one.quarter] = 1
    free = max(one.when, m.issue_free[one.quarter])
    fixed = min(free, one.when + LEAST_WAIT)
    note(m, w, item.pc, WAIT, one.when, fixed)
    note(m, w, item.pc, NOT_SELECTED, fixed, free)
    note(m, w, item.pc, MATH_PIPE, free, t)
    v = value_at(m.values, flow.values + max(item.value, 0))
    m.executed += 1
    if m.executed == m.sample_at and m.sample_count < m.sample_room:
        m.sample_at += m.sample_every
        store_i64(m.samples + 16 * m.sample_count, t)
        store_i64(m.samples + 16 * m.sample_count + 8, m.executed)
        m.sample_count += 1
    flow.item += 1
    if flow.item == flow.last:
        flow.chunk += 1
        begin_chunk(m, flow)
    if item.cost:
        m.issue_free[one.quarter] = t + item.cost
        m.issued += item.cost
        note(m, w, item.pc, SELECTED, t, t + item.cost)
        m.pipe_free[one.quarter * PIPES + item.pipe] = t + item.hold
    m.pipe_free[one.quarter * PIPES + PIPES - 1] = 0
    begun = t + item.cost
    done, after, held = effect(m, w, flow, item, v, t, begun)
    if held >= 0 and after != NEVER:
        note(m, w, item.pc, held, begun, after)
    reason = item.reason
    if item.kind == LOAD:
        done = share_scoreboard(m, w, flow, item, t, done)
    if item.kind == NONE:
        done, reason = sources_ready(m, w, item, t)
    for k in range(4):
        r = item.result[k]
        if r >= 0:
            store_i64(m.ready + 8 * (w * m.registers + r), done)
            store_i64(m.why + 8 * (w * m.registers + r), reason)
    advance(m, w, flow, one, t, after)


@compiled
def advance(m, w, flow, one, t, after):
    """Determine when the warp can issue its next item."""
    if flow.chunk == flow.end:
        if after == NEVER:
            after = t
        end_warp(m, w, after)
        return
    item = item_at(m.items, flow.item)
    one.pipe = item.pipe
    if item.kind == NONE:
        ready, why = max(after, t), WAIT
        if after == NEVER:
            ready = t
    else:
        ready, why = sources_ready(m, w, item, t if after == NEVER else after)
    if after == NEVER:
        flow.need = ready
        one.when = NEVER
        return
    note(m, w, item.pc, why, after, ready)
    one.when = ready


def run(address):
    """Run the model at a host address until all streams have ended, or every warp waits."""
    m = model_at(address, 0)
    m.sample_at = m.sample_every
    for quarter in range(QUARTERS):
        m.changed[quarter] = 1
    for cta in range(m.resident):
        start_cta(m, cta, m.cta_start + cta * m.cta_gap)
    while m.live > 0:
        w, t = choose(m)
        if w < 0:
            break
        issue(m, w, t)
    return 0
