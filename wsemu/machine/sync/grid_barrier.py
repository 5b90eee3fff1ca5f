"""The barrier of a grid of co-resident CTAs, in compiled code, as `cooperative_groups::this_grid().sync()` uses it.

In each phase, one thread of each CTA arrives, continues, and later waits until one thread of every CTA has arrived. An
arrive releases its thread's clock; a wait acquires what was released to its phase. An exit does not replace an arrive:
the barrier counts to the number of CTAs in the launch (cooperative_groups/details/sync.h: a counter in memory, bit 31
of which flips).
"""

from __future__ import annotations

from wsemu.machine.lowering import compiled
from wsemu.machine.records import cta_at, record_finding
from wsemu.machine.scalars import lowest_bit, popcount, store_u32
from wsemu.machine.state import DONE, STANDS
from wsemu.machine.sync.clocks import begin_interval
from wsemu.machine.sync.events import ARRIVALS, AWAITED, PHASES, log
from wsemu.machine.sync.lane_clocks import clear_row, cluster_row, join_lanes, learn
from wsemu.model.codes import CODE_NUMBERS
from wsemu.model.isa import LANES, opcodes
from wsemu.model.outcome import GRID_PLACE

GRID_ARRIVE, GRID_WAIT = opcodes("grid", "arrive", "wait")
MISUSE = CODE_NUMBERS["cluster-barrier"]
TWICE, UNARRIVED = 3, 4
"""values of detail[0] in a finding"""
ALL_LANES = (1 << LANES) - 1


@compiled
def report_misuse(m, w, pc, lanes, what):
    if lanes:
        record_finding(m.report_entry, m.address, (MISUSE, pc, w, lanes, -1, -1), (what, 0, 0, 0, 0))


@compiled
def tell_parity(warp, i, lanes, phase):
    """Write the parity of a phase to bit 31 of the result."""
    while lanes:
        store_u32(warp.registers + i.d + 4 * lowest_bit(lanes), (phase & 1) << 31)
        lanes &= lanes - 1


@compiled
def arrive(m, warp, w, pc, i, mask):
    cta = cta_at(m.ctas, warp.member)
    tell_parity(warp, i, mask, m.grid_phase)
    lanes = 0 if cta.met > m.grid_phase else 1 << lowest_bit(mask)
    report_misuse(m, w, pc, mask & ~lanes, TWICE)
    if lanes:
        log(m, ARRIVALS, w, pc, GRID_PLACE, m.grid_phase, lanes, 1)
        if m.clocks:
            join_lanes(m, cluster_row(m, m.grid_phase & 1), w, lanes)
        cta.met = m.grid_phase + 1
        m.grid_arrived += 1
    if m.clocks:
        begin_interval(warp, w)
    if m.grid_arrived == m.members:
        log(m, PHASES, w, pc, GRID_PLACE, m.grid_phase, ALL_LANES, 0)
        m.grid_phase += 1
        m.grid_arrived = 0
        if m.clocks:
            clear_row(m, cluster_row(m, m.grid_phase & 1))


@compiled
def accept(m, warp, w, pc, i, mask):
    """Continue lanes after a wait: join what the last phase of their CTA was given into their clocks."""
    phase = cta_at(m.ctas, warp.member).met - 1
    tell_parity(warp, i, mask, phase + 1)
    if phase >= 0:
        log(m, AWAITED, w, pc, GRID_PLACE, phase, mask, popcount(mask))
        if m.clocks:
            learn(m, w, mask, cluster_row(m, phase & 1))
    if m.clocks:
        begin_interval(warp, w)


@compiled
def execute(m, warp, w, pc, i, mask):
    """Execute an operation; return a status, which may be STANDS."""
    if i.op == GRID_ARRIVE:
        arrive(m, warp, w, pc, i, mask)
        return DONE
    met = cta_at(m.ctas, warp.member).met
    if met == 0:
        report_misuse(m, w, pc, mask, UNARRIVED)
    if met > m.grid_phase:
        return STANDS
    accept(m, warp, w, pc, i, mask)
    return DONE


@compiled
def wakes(m, warp, w, pc, i, mask):
    """Continue the lanes at a wait if their phase is complete, and return whether it is."""
    if cta_at(m.ctas, warp.member).met > m.grid_phase:
        return 0
    accept(m, warp, w, pc, i, mask)
    return 1
