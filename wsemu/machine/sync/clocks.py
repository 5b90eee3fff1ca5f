"""Happens-before between warps in compiled code: vector clocks, and the check that no barrier is recycled too early.

The time of a warp is divided into intervals; each operation that releases or acquires ends one. `warp.clock[u]` is the
last interval of warp u that is known to happen before now, and `clock[w]` of warp w itself is its current interval.
Intervals are counted through all CTAs of a launch, and those of the current group begin at `m.base`. So the accesses of
an earlier group to shared memory are always in the past. `happens_before.py` has the definitions, and the
synchronization by atomics and fences.
"""

from __future__ import annotations

from wsemu.machine.lowering import compiled
from wsemu.machine.memory.shadow_cells import ALL, FEW, behind_few, join, put
from wsemu.machine.records import barrier_at, call, cta_at, event_at, machine_at, record_finding, warp_at
from wsemu.machine.scalars import load_i64, lowest_bit, store_i64
from wsemu.machine.state import BARRIERS, EVENT_KINDS
from wsemu.machine.sync.lane_clocks import (
    FULL,
    RECYCLING,
    begin_lanes,
    end_lanes,
    exited_row,
    give_lanes,
    given_row,
    join_lanes,
    join_rows,
    judge_recycling_lanes,
    learn,
    meet_lanes,
    start_lanes,
    there,
)
from wsemu.machine.sync.warp_clocks import join_clock, set_clock
from wsemu.model.isa import LANES

ARRIVED, SYNCED, COMPLETED, EXITED, MET = (EVENT_KINDS.index(k) for k in ("arrive", "sync", "complete", "exit", "warp"))
FENCED, TOUCHED_ATOMIC, TOUCHED = (EVENT_KINDS.index(k) for k in ("fence.cta", "atomic", "access"))
LANES_SHIFT = 8
"""bit of an arrive's or sync's `place` at which the mask of its lanes begins"""


def log_event(address, kind, w, interval, pc, place, generation):
    """Add an event to the trace; other compiled code calls this function by its address."""
    m = machine_at(address, 0)
    if m.trace_count < m.trace_room:
        e = event_at(m.trace, m.trace_count)
        e.kind = kind
        e.cta = m.group
        e.warp = w
        e.interval = interval - m.base
        e.pc = pc
        e.place = place
        e.generation = generation
    m.trace_count += 1
    return 0


@compiled
def start_clocks(m):
    """Reset clocks and barriers at the start of a group."""
    m.base = m.top
    m.by_lanes = 0
    m.agent_low = m.base + 1
    m.agent_next = m.base + 1
    store_i64(m.bases + 8 * (m.group - m.group_first) * m.group_step, m.base)
    for w in range(m.warp_count):
        warp = warp_at(m.warps, w)
        set_clock(m, warp.clock, m.base)
        store_i64(warp.clock + 8 * w, m.base + 1)
        warp.synced = m.base
        warp.partial = 0
    for member in range(m.members):
        cta = cta_at(m.ctas, member)
        set_clock(m, cta.exited, m.base)
        for number in range(BARRIERS):
            b = barrier_at(cta.barriers, number)
            if b.arrived or b.generation:  # the previous group used the barrier
                set_clock(m, b.clock, 0)
                set_clock(m, b.took, 0)
                set_clock(m, b.took_before, 0)
    if m.asynchronous:
        start_lanes(m)


@compiled
def end_clocks(m):
    m.top = max(m.top, m.agent_next)
    for w in range(m.warp_count):
        m.top = max(m.top, load_i64(warp_at(m.warps, w).clock + 8 * w))


@compiled
def begin_interval(warp, w):
    store_i64(warp.clock + 8 * w, load_i64(warp.clock + 8 * w) + 1)


@compiled
def judge_recycling(m, w, pc, number):
    """Check that each operation of the previous generation happens before this one, which could otherwise be counted in
    its place."""
    b = barrier_at(m.barriers, number)
    clock = warp_at(m.warps, w).clock
    for first in range(0, m.warp_count, FEW):
        late = behind_few(clock + 8 * first, b.took_before + 8 * first)
        while late:
            u = first + lowest_bit(late)
            late &= late - 1
            record_finding(
                m.report_entry,
                m.address,
                (RECYCLING, pc, w, 0, load_i64(b.took_before_pc + 8 * u), u),
                (
                    number,
                    b.generation - 1,
                    load_i64(clock + 8 * w) - m.base,
                    load_i64(b.took_before + 8 * u) - m.base,
                    0,
                ),
            )


@compiled
def whole_warp(m, w, lanes, everyone):
    """Return whether an operation's lanes are all lanes of the warp, and the lanes that count.

    If the operation has no thread count, exited lanes count as well, because the barrier does not wait for them (B7).
    """
    whole = there(m, w)
    if everyone:
        lanes |= whole & ~warp_at(m.warps, w).alive
    return lanes == whole, lanes


@compiled
def give(m, w, pc, number, waits, lanes, everyone):
    """Release the clocks of lanes of warp w to the current generation of a barrier (B14)."""
    b = barrier_at(m.barriers, number)
    warp = warp_at(m.warps, w)
    whole, lanes = whole_warp(m, w, lanes, everyone)
    if not whole and m.by_lanes == 0 and m.lockstep == 0:
        begin_lanes(m)
    if m.recycling:
        if m.by_lanes:
            judge_recycling_lanes(m, w, pc, number, lanes)
        elif b.all_met == 0:  # otherwise all warps have observed that generation
            judge_recycling(m, w, pc, number)
    interval = load_i64(warp.clock + 8 * w)
    if m.trace:
        place = number | (FULL if whole else lanes) << LANES_SHIFT
        call(m.trace_entry, m.address, SYNCED if waits else ARRIVED, w, interval, pc, place, b.generation)
    if m.by_lanes:
        give_lanes(m, w, pc, number, lanes)
    store_i64(b.took + 8 * w, interval)
    store_i64(b.took_pc + 8 * w, pc)
    if waits == 0 or not whole or m.by_lanes:
        join_clock(m, b.clock, warp.clock)
    if waits == 0 or not whole:
        begin_interval(warp, w)


@compiled
def take(m, w, number, lanes, everyone):
    """Join into the clocks of lanes of warp w, whose sync is released, the clocks of the generation's operations."""
    warp = warp_at(m.warps, w)
    _, lanes = whole_warp(m, w, lanes, everyone)
    if m.by_lanes:
        learn(m, w, lanes, given_row(m, number))
    else:
        join_clock(m, warp.clock, barrier_at(m.barriers, number).clock)
    meet(m, w, lanes)


@compiled
def take_exits(m, number):
    """Join the clocks of exited warps into a generation without a count, which does not wait for them (B7)."""
    join_clock(m, barrier_at(m.barriers, number).clock, m.exited)
    if m.by_lanes:
        join_rows(m, given_row(m, number), exited_row(m))


@compiled
def give_exit(m, w):
    join_clock(m, m.exited, warp_at(m.warps, w).clock)
    if m.by_lanes:
        join_lanes(m, exited_row(m), w, there(m, w))


@compiled
def renew(m, b):
    """Make the acquired intervals of the current generation those of the previous one, and clear the current ones."""
    before, before_pc = b.took_before, b.took_before_pc
    b.took_before = b.took
    b.took_before_pc = b.took_pc
    b.took = before
    b.took_pc = before_pc
    set_clock(m, before, 0)


@compiled
def end_generation(m, number):
    b = barrier_at(m.barriers, number)
    renew(m, b)
    set_clock(m, b.clock, 0)
    if m.by_lanes:
        end_lanes(m, number)


@compiled
def meet(m, w, mask):
    """Synchronize the lanes of `mask` after a common operation, with exited lanes if the operation names them."""
    warp = warp_at(m.warps, w)
    now = load_i64(warp.clock + 8 * w)
    whole = there(m, w)
    if m.by_lanes:
        meet_lanes(m, w, mask & whole)
    if mask & whole == whole:
        warp.synced = now
        warp.partial = m.by_lanes
    elif m.by_lanes == 0:
        if warp.partial == 0:
            warp.partial = 1
            for q in range(LANES):
                put(warp.lane_clocks + 256 * q, ALL, warp.synced)
        known = warp.lane_clocks + 256 * lowest_bit(mask)
        rest = mask
        while rest:
            lane = lowest_bit(rest)
            join(known, warp.lane_clocks + 256 * lane)
            store_i64(known + 8 * lane, now)
            rest &= rest - 1
        rest = mask & (mask - 1)
        while rest:
            for q in range(LANES):
                store_i64(warp.lane_clocks + 256 * lowest_bit(rest) + 8 * q, load_i64(known + 8 * q))
            rest &= rest - 1
    begin_interval(warp, w)
