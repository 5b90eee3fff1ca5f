"""What each lane knows of each lane of its CTA, from where a part of a warp first meets a barrier.

PTX ISA, "barrier": it orders the memory accesses of the threads that execute it.  While all lanes of a warp do, one
clock a warp says it all (`clocks.py`).  The first barrier operation of a CTA that some lanes alone execute switches to
one clock a lane: `row(m, t)[s]` is the last interval of thread s's warp of which thread t knows what thread s did.
Threads are numbered by warp and lane, 32 to a warp.  The clock of a warp then holds what all its live lanes know of all
lanes of the other: what it says is so, and what it does not say is looked up here.

Rows, of 32 numbers a warp: those of the threads; then of each barrier what its open generation was given, of the
threads that have exited what they knew, and of each barrier the interval that a thread's last operation in the open
generation ended, its instruction, and both for the generation before.
"""

from __future__ import annotations

import numpy as np

from wsemu.bytecode import LANES
from wsemu.cells import join, put
from wsemu.codes import CODE_NUMBERS
from wsemu.layout import BARRIERS
from wsemu.machine import barrier_at, compiled, record_finding, warp_at
from wsemu.operations import load_i64, lowest_bit, store_i64

RECYCLING = CODE_NUMBERS["barrier-recycling"]
ALL = -1
FULL = (1 << LANES) - 1


@compiled
def there(m, w):
    """The lanes that a warp has at its start: the last one of a CTA may be smaller."""
    return (np.int64(1) << min(LANES, m.block_threads - LANES * w)) - 1


@compiled
def row(m, number):
    return m.known + 256 * m.warp_count * number


@compiled
def given_row(m, number):
    return row(m, LANES * m.warp_count + number)


@compiled
def exited_row(m):
    return row(m, LANES * m.warp_count + BARRIERS)


@compiled
def took_row(m, number, before, pc):
    """Of the open generation of a barrier or the one before: intervals or instructions."""
    return row(m, LANES * m.warp_count + BARRIERS + 1 + 4 * number + 2 * before + pc)


@compiled
def spread(m, to, clock):
    """Let a row know of each lane what a clock of warps knows of its warp."""
    for u in range(m.warp_count):
        put(to + 256 * u, ALL, load_i64(clock + 8 * u))


@compiled
def join_rows(m, to, other):
    for u in range(m.warp_count):
        join(to + 256 * u, other + 256 * u)


@compiled
def begin_lanes(m):
    """From now on, in this CTA, each lane has a clock of its own: until now its warp's was as good."""
    m.by_lanes = 1
    m.apart = 1
    for w in range(m.warp_count):
        warp = warp_at(m.warps, w)
        for lane in range(LANES):
            own = row(m, LANES * w + lane)
            spread(m, own, warp.clock)
            put(own + 256 * w, ALL, warp.synced)
            if warp.partial:
                join(own + 256 * w, warp.lane_clocks + 256 * lane)
        mirror(m, w)
    spread(m, exited_row(m), m.exited)
    for number in range(BARRIERS):
        b = barrier_at(m.barriers, number)
        spread(m, given_row(m, number), b.clock)
        spread(m, took_row(m, number, 0, 0), b.took)
        spread(m, took_row(m, number, 0, 1), b.took_pc)
        spread(m, took_row(m, number, 1, 0), b.took_before)
        spread(m, took_row(m, number, 1, 1), b.took_before_pc)


@compiled
def mirror(m, w):
    """What the lanes of a warp know of each other, for those who look there."""
    warp = warp_at(m.warps, w)
    warp.partial = 1
    for lane in range(LANES):
        to, own = warp.lane_clocks + 256 * lane, row(m, LANES * w + lane) + 256 * w
        for q in range(LANES):
            store_i64(to + 8 * q, load_i64(own + 8 * q))


@compiled
def refresh(m, w):
    """The clock of a warp: what all its live lanes know of all lanes of the others."""
    warp = warp_at(m.warps, w)
    for u in range(m.warp_count):
        if u == w:
            continue
        lanes = there(m, u)
        least = np.int64(1) << 60
        readers = warp.alive
        while readers:
            known = row(m, LANES * w + lowest_bit(readers)) + 256 * u
            readers &= readers - 1
            rest = lanes
            while rest:
                least = min(least, load_i64(known + 8 * lowest_bit(rest)))
                rest &= rest - 1
        if warp.alive:
            store_i64(warp.clock + 8 * u, max(least, load_i64(warp.clock + 8 * u)))
    mirror(m, w)


@compiled
def stamp(m, w, lanes):
    """Each of some lanes knows what it has done itself."""
    now = load_i64(warp_at(m.warps, w).clock + 8 * w)
    while lanes:
        lane = lowest_bit(lanes)
        lanes &= lanes - 1
        store_i64(row(m, LANES * w + lane) + 256 * w + 8 * lane, now)


@compiled
def join_lanes(m, to, w, lanes):
    """Let a row know what some lanes of a warp know."""
    stamp(m, w, lanes)
    while lanes:
        join_rows(m, to, row(m, LANES * w + lowest_bit(lanes)))
        lanes &= lanes - 1


@compiled
def learn(m, w, lanes, other):
    """Let some lanes of a warp know what a row knows."""
    while lanes:
        join_rows(m, row(m, LANES * w + lowest_bit(lanes)), other)
        lanes &= lanes - 1
    refresh(m, w)


@compiled
def meet_lanes(m, w, lanes):
    """Some lanes of a warp have done something together: each knows what any of them knew."""
    first = row(m, LANES * w + lowest_bit(lanes))
    join_lanes(m, first, w, lanes)
    learn(m, w, lanes, first)


@compiled
def give_lanes(m, w, pc, number, lanes):
    """Some lanes of a warp take part in the open generation of a barrier."""
    join_lanes(m, given_row(m, number), w, lanes)
    took, took_pc = took_row(m, number, 0, 0) + 256 * w, took_row(m, number, 0, 1) + 256 * w
    rest = lanes
    while rest:  # an operation of one of these lanes before comes before this one, whichever lanes it had
        old = load_i64(took + 8 * lowest_bit(rest))
        rest &= rest - 1
        for q in range(LANES):
            if load_i64(took + 8 * q) == old:
                store_i64(took + 8 * q, 0)
    put(took, lanes, load_i64(warp_at(m.warps, w).clock + 8 * w))
    put(took_pc, lanes, pc)


@compiled
def end_lanes(m, number):
    """A generation ends."""
    for pc in range(2):
        open_, before = took_row(m, number, 0, pc), took_row(m, number, 1, pc)
        for q in range(LANES * m.warp_count):
            store_i64(before + 8 * q, load_i64(open_ + 8 * q))
            store_i64(open_ + 8 * q, 0)
    for u in range(m.warp_count):
        put(given_row(m, number) + 256 * u, ALL, 0)


@compiled
def lane_knows(m, w, lane, u, other, interval):
    """Whether a lane of warp w knows what lane `other` of warp u did up to an interval."""
    if u == w and lane == other:
        return True
    return load_i64(row(m, LANES * w + lane) + 256 * u + 8 * other) >= interval


@compiled
def lanes_unknown(m, w, lane, u, others, interval):
    """Those of the lanes `others` of warp u of whose doing up to an interval a lane of warp w does not know."""
    unknown = np.int64(0)
    while others:
        other = lowest_bit(others)
        others &= others - 1
        if not lane_knows(m, w, lane, u, other, interval):
            unknown |= np.int64(1) << other
    return unknown


@compiled
def operation_known(m, w, lanes, u, took, interval):
    """Whether one of some lanes of warp w comes after the operation that ended this interval of warp u."""
    for q in range(LANES):
        if load_i64(took + 8 * q) == interval:
            rest = lanes
            while rest:
                if lane_knows(m, w, lowest_bit(rest), u, q, interval):
                    return True
                rest &= rest - 1
    return False


@compiled
def judge_recycling_lanes(m, w, pc, number, lanes):
    """As `clocks.judge_recycling`: each operation of the generation before comes before one of these lanes."""
    for u in range(m.warp_count):
        took = took_row(m, number, 1, 0) + 256 * u
        latest, latest_pc = np.int64(0), np.int64(0)
        for q in range(LANES):
            interval = load_i64(took + 8 * q)
            if interval > latest and not operation_known(m, w, lanes, u, took, interval):
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
