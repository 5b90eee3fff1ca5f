"""The barrier of a cluster, in compiled code: `barrier.cluster` (PTX ISA 9.7.13.4).

In each phase, a thread arrives, continues, and later waits until all live threads of the cluster have arrived. An
arrive releases its thread's clock, unless it is relaxed; a wait acquires what was released to its phase. The barrier no
longer waits for a thread that has exited, which releases nothing (measured rule L3).
"""

from __future__ import annotations

from wsemu.machine.lowering import compiled
from wsemu.machine.records import record_finding, warp_at
from wsemu.machine.scalars import popcount
from wsemu.machine.state import DONE, STANDS
from wsemu.machine.sync.clocks import begin_interval
from wsemu.machine.sync.events import ARRIVALS, AWAITED, PHASES, log
from wsemu.machine.sync.lane_clocks import clear_row, cluster_row, give_times, join_lanes, learn
from wsemu.model.codes import CODE_NUMBERS
from wsemu.model.isa import (
    CLUSTER_ALIGNED,
    LANES,
    RELAXED,
    opcodes,
)
from wsemu.model.outcome import CLUSTER_PLACE

ARRIVE, WAIT = opcodes("cluster", "arrive", "wait")
MISUSE = CODE_NUMBERS["cluster-barrier"]
TWICE, UNARRIVED, PART = range(3)
"""values of detail[0] in a finding"""
ALL_LANES = (1 << LANES) - 1


@compiled
def report_misuse(m, w, pc, lanes, what):
    if lanes:
        record_finding(m.report_entry, m.address, (MISUSE, pc, w, lanes, -1, -1), (what, 0, 0, 0, 0))


@compiled
def complete_if_met(m, w, pc):
    """Complete the phase if all live threads have arrived, and some are alive."""
    some = 0
    for u in range(m.warp_count):
        warp = warp_at(m.warps, u)
        if warp.alive & ~warp.cluster_arrived:
            return
        some |= warp.cluster_arrived
    if some == 0:
        return
    log(m, PHASES, w, pc, CLUSTER_PLACE, m.cluster_phase, ALL_LANES, 0)
    for u in range(m.warp_count):
        warp = warp_at(m.warps, u)
        warp.cluster_passed = warp.cluster_arrived
        warp.cluster_arrived = 0
    m.cluster_phase += 1
    if m.clocks:
        clear_row(m, cluster_row(m, m.cluster_phase & 1))


@compiled
def arrive(m, warp, w, pc, i, mask):
    if i.aux & CLUSTER_ALIGNED and mask != warp.alive:
        report_misuse(m, w, pc, mask, PART)
    twice = mask & (warp.cluster_arrived | warp.cluster_passed)
    report_misuse(m, w, pc, twice, TWICE)
    lanes = mask & ~twice
    if lanes:
        log(m, ARRIVALS, w, pc, CLUSTER_PLACE, m.cluster_phase, lanes, popcount(lanes))
        if m.clocks:
            given = cluster_row(m, m.cluster_phase & 1)
            if i.aux & RELAXED:
                give_times(m, given, w, lanes)
            else:
                join_lanes(m, given, w, lanes)
        warp.cluster_arrived |= lanes
    if m.clocks and i.aux & RELAXED == 0:
        begin_interval(warp, w)
    complete_if_met(m, w, pc)


@compiled
def accept(m, warp, w, pc, mask):
    """Continue lanes after a wait: join what their phase was given into their clocks."""
    passed = mask & warp.cluster_passed
    if passed:
        log(m, AWAITED, w, pc, CLUSTER_PLACE, m.cluster_phase - 1, passed, 0)
        if m.clocks:
            learn(m, w, passed, cluster_row(m, (m.cluster_phase - 1) & 1))
        warp.cluster_passed &= ~passed
    if m.clocks:
        begin_interval(warp, w)


@compiled
def wait(m, warp, w, pc, i, mask):
    """Execute a wait; return a status, which may be STANDS."""
    if i.aux & CLUSTER_ALIGNED and mask != warp.alive:
        report_misuse(m, w, pc, mask, PART)
    report_misuse(m, w, pc, mask & ~(warp.cluster_arrived | warp.cluster_passed), UNARRIVED)
    if mask & warp.cluster_arrived:
        return STANDS
    accept(m, warp, w, pc, mask)
    return DONE


@compiled
def execute(m, warp, w, pc, i, mask):
    """Execute an operation; return a status, which may be STANDS."""
    if i.op == ARRIVE:
        arrive(m, warp, w, pc, i, mask)
        return DONE
    return wait(m, warp, w, pc, i, mask)


@compiled
def wakes(m, warp, w, pc, mask):
    """Continue the lanes at a wait if their phase is complete, and return whether it is."""
    if mask & warp.cluster_arrived:
        return 0
    accept(m, warp, w, pc, mask)
    return 1
