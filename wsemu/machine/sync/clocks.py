"""Happens-before between warps in compiled code: vector clocks, and the rule that no barrier is recycled too early.

A warp's time is cut into intervals; each operation that gives or takes ends one.  `warp.clock[u]` is the last
interval of warp u that is known to happen before now; `clock[w]` of warp w itself is its present interval.  Intervals
are counted on through all CTAs of a launch (`m.base` is where this CTA's begin), so that what an earlier CTA did to
shared memory is always in the past.  The definitions, and the edges of atomics and fences, are in `happens_before.py`.
"""

from __future__ import annotations

import numpy as np

from wsemu.machine.memory.shadow_cells import behind, join, put
from wsemu.machine.records import barrier_at, call7, compiled, event_at, machine_at, record_finding, warp_at
from wsemu.machine.scalars import load_i64, lowest_bit, store_i64
from wsemu.machine.state import BARRIERS, EVENT_KINDS
from wsemu.model.codes import CODE_NUMBERS
from wsemu.model.isa import LANES

RECYCLING = CODE_NUMBERS["barrier-recycling"]
ARRIVED, SYNCED, COMPLETED, EXITED, MET = (EVENT_KINDS.index(k) for k in ("arrive", "sync", "complete", "exit", "warp"))
FENCED, TOUCHED_ATOMIC, TOUCHED = (EVENT_KINDS.index(k) for k in ("fence.cta", "atomic", "access"))
ALL = -1
"""mask of 32 places"""
FULL = (1 << LANES) - 1


def log_event(address, kind, w, interval, pc, place, generation):
    """Add an event to the trace.  Called by address."""
    m = machine_at(address, 0)
    if m.trace_count < m.trace_room:
        e = event_at(m.trace, m.trace_count)
        e.kind = kind
        e.cta = m.cta
        e.warp = w
        e.interval = interval - m.base
        e.pc = pc
        e.place = place
        e.generation = generation
    m.trace_count += 1
    return np.int64(0)


@compiled
def start_clocks(m):
    """A CTA begins: nothing is known, and barriers are as new."""
    m.base = m.top
    store_i64(m.bases + 8 * (m.cta - m.cta_first) * m.cta_step, m.base)
    put(m.exited, ALL, m.base)
    for w in range(m.warp_count):
        warp = warp_at(m.warps, w)
        put(warp.clock, ALL, m.base)
        store_i64(warp.clock + 8 * w, m.base + 1)
        warp.synced = m.base
        warp.partial = 0
    for number in range(BARRIERS):
        b = barrier_at(m.barriers, number)
        if b.arrived or b.generation:  # used in the CTA before
            put(b.clock, ALL, 0)
            put(b.took, ALL, 0)
            put(b.took_before, ALL, 0)


@compiled
def end_clocks(m):
    for w in range(m.warp_count):
        m.top = max(m.top, load_i64(warp_at(m.warps, w).clock + 8 * w))


@compiled
def begin_interval(warp, w):
    store_i64(warp.clock + 8 * w, load_i64(warp.clock + 8 * w) + 1)


@compiled
def judge_recycling(m, w, pc, number):
    """Each operation of the generation before must happen before this one; else it can be counted in its place."""
    b = barrier_at(m.barriers, number)
    clock = warp_at(m.warps, w).clock
    late = behind(clock, b.took_before)
    while late:
        u = lowest_bit(late)
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
def give(m, w, pc, number, waits):
    """Warp w takes part in the open generation of a barrier: what it knows goes there."""
    b = barrier_at(m.barriers, number)
    warp = warp_at(m.warps, w)
    if m.recycling:
        judge_recycling(m, w, pc, number)
    interval = load_i64(warp.clock + 8 * w)
    if m.trace:
        call7(m.trace_entry, m.address, SYNCED if waits else ARRIVED, w, interval, pc, number, b.generation)
    join(b.clock, warp.clock)
    store_i64(b.took + 8 * w, interval)
    store_i64(b.took_pc + 8 * w, pc)
    if waits == 0:
        begin_interval(warp, w)


@compiled
def take(m, w, number):
    """A sync of warp w is released: it knows what all operations of the generation gave."""
    warp = warp_at(m.warps, w)
    join(warp.clock, barrier_at(m.barriers, number).clock)
    warp.synced = load_i64(warp.clock + 8 * w)
    warp.partial = 0
    begin_interval(warp, w)


@compiled
def end_generation(m, number):
    b = barrier_at(m.barriers, number)
    before, before_pc = b.took_before, b.took_before_pc
    b.took_before = b.took
    b.took_before_pc = b.took_pc
    b.took = before
    b.took_pc = before_pc
    put(before, ALL, 0)
    put(b.clock, ALL, 0)


@compiled
def lanes_meet(m, w, mask):
    """The lanes of `mask` have executed a warp-wide operation together: each knows what any of them knew.  Lanes that
    have exited are among them if the operation names them."""
    warp = warp_at(m.warps, w)
    now = load_i64(warp.clock + 8 * w)
    there = m.block_threads - LANES * w  # the last warp may be smaller
    if mask == FULL or (there < LANES and (mask + 1) & ((np.int64(1) << there) - 1) == 0):
        warp.synced = now
        warp.partial = 0
    else:
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
