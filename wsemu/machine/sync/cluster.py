"""What CTAs alive at once do with each other, in compiled code: the barriers of a cluster and of the grid, and
`st.async`, `red.async`.

`barrier.cluster` (PTX ISA 9.7.13.4): a thread arrives, goes on, and later waits until all live threads of the cluster
have arrived; once a phase.  An arrive gives what its thread knows, unless it is relaxed, a wait takes what was given to
its phase.  Who exits is not waited for any longer, and gives nothing (measured rule L3).
"""

from __future__ import annotations

import numpy as np

from wsemu.machine.agents.agents import new_agent, room
from wsemu.machine.agents.copies import COPIED, cell_of, lane_address, number_of
from wsemu.machine.agents.ranges import OTHERS, host_place, judge_written, note_written, prepare, touch_range
from wsemu.machine.agents.reductions import combined
from wsemu.machine.lowering import compiled
from wsemu.machine.memory.cell_bits import ATOMIC_BIT, GENERIC
from wsemu.machine.records import instruction_at, machine_at, record_finding, warp_at
from wsemu.machine.scalars import load_i64, load_u32, lowest_bit, popcount, store_i64, store_u32
from wsemu.machine.state import COPIES, DONE, STANDS, UNUSED_SHIFT
from wsemu.machine.sync.clobber import clobbers
from wsemu.machine.sync.clocks import begin_interval
from wsemu.machine.sync.grid_barrier import GRID_ARRIVE, GRID_WAIT, grid_operation
from wsemu.machine.sync.lane_clocks import clear_row, cluster_row, give_times, join_lanes, learn
from wsemu.machine.sync.mbarrier import ARRIVALS, AWAITED, PHASES, credit, failed, live_in, log, names_mbarriers
from wsemu.machine.sync.peers import reach, report_late
from wsemu.model.codes import CODE_NUMBERS
from wsemu.model.isa import (
    ADDRESS_WRAPPED,
    ATOMIC,
    CLUSTER_ALIGNED,
    LANES,
    OFFSET_MASK,
    OPCODE,
    RELAXED,
    WRITE,
)
from wsemu.model.outcome import CLUSTER_PLACE

ARRIVE, WAIT = OPCODE["cluster.arrive"], OPCODE["cluster.wait"]
STORE64, REDUCE, REDUCE64 = (OPCODE[f"async.{name}"] for name in ("store.b64", "reduce.b32", "reduce.b64"))
MISUSE = CODE_NUMBERS["cluster-barrier"]
TWICE, UNARRIVED, PART = range(3)
"""detail[0] of a finding"""
EXECUTES, AGAIN, EXITS, ENDS = range(4)
"""what `cluster_operation` is called for"""
ALL_LANES = (1 << LANES) - 1


# -- the barrier -------------------------------------------------------------------------------------------------------


@compiled
def misused(m, w, pc, lanes, what):
    if lanes:
        record_finding(m.report_entry, m.address, (MISUSE, pc, w, lanes, -1, -1), (what, 0, 0, 0, 0))


@compiled
def complete_if_met(m, w, pc):
    """The phase ends when all live threads have arrived, if there are some."""
    some = np.int64(0)
    for u in range(m.warp_count):
        warp = warp_at(m.warps, u)
        if warp.alive & ~warp.cluster_arrived:
            return
        some |= warp.cluster_arrived
    if some == 0:
        return
    log(m, PHASES, w, pc, np.int64(CLUSTER_PLACE), m.cluster_phase, np.int64(ALL_LANES), np.int64(0))
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
        misused(m, w, pc, mask, np.int64(PART))
    twice = mask & (warp.cluster_arrived | warp.cluster_passed)
    misused(m, w, pc, twice, np.int64(TWICE))
    lanes = mask & ~twice
    if lanes:
        log(m, ARRIVALS, w, pc, np.int64(CLUSTER_PLACE), m.cluster_phase, lanes, popcount(lanes))
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
    """Lanes go on, and know what their phase was given."""
    passed = mask & warp.cluster_passed
    if passed:
        log(m, AWAITED, w, pc, np.int64(CLUSTER_PLACE), m.cluster_phase - 1, passed, np.int64(0))
        if m.clocks:
            learn(m, w, passed, cluster_row(m, (m.cluster_phase - 1) & 1))
        warp.cluster_passed &= ~passed
    if m.clocks:
        begin_interval(warp, w)


@compiled
def wait(m, warp, w, pc, i, mask):
    """Status: STANDS, too."""
    if i.aux & CLUSTER_ALIGNED and mask != warp.alive:
        misused(m, w, pc, mask, np.int64(PART))
    misused(m, w, pc, mask & ~(warp.cluster_arrived | warp.cluster_passed), np.int64(UNARRIVED))
    if mask & warp.cluster_arrived:
        return np.int64(STANDS)
    accept(m, warp, w, pc, mask)
    return np.int64(DONE)


# -- values that go to another CTA -------------------------------------------------------------------------------------


@compiled
def goal_of(m, i):
    """Where in shared memory a value has to go."""
    return np.int64(OTHERS if i.op >= REDUCE or m.clusters == 0 else 1)


@compiled
def send_all(m, w, pc, registers, i, mask):
    """st.async, red.async.  Status."""
    size = np.int64(8) if i.op in (STORE64, REDUCE64) else np.int64(4)
    status = room(m, popcount(mask))
    rest = mask
    while rest and status == DONE:  # before anything is done
        to = lane_address(registers, i.a, 0, lowest_bit(rest))
        if host_place(m, w, pc, lowest_bit(rest), to, size, size, True, goal_of(m, i), False):
            status = prepare(m, pc, to, size, True)
        rest &= rest - 1
    if status != DONE:
        return status
    m.serial += 1
    if not names_mbarriers(m, w, pc, registers, i, i.b, mask):
        return failed(m, w, pc)
    rest = mask
    while rest:
        lane = lowest_bit(rest)
        rest &= rest - 1
        if live_in(m, w, pc, registers, i.b, lane, np.int64(-1)) < 0:
            return failed(m, w, pc)
    while mask:
        lane = lowest_bit(mask)
        mask &= mask - 1
        if not send(m, w, pc, registers, i, lane, size):
            return failed(m, w, pc)
    return DONE


@compiled
def send(m, w, pc, registers, i, lane, size):
    """A value of one lane.  Whether the hardware goes on."""
    to = lane_address(registers, i.a, 0, lane)
    host = host_place(m, w, pc, lane, to, size, size, True, goal_of(m, i), True)
    number = np.int64(0)
    bit = np.int64(1) << lane
    if m.clocks:
        place = to & ~ADDRESS_WRAPPED
        number = new_agent(m, w, lane, pc, np.int64(COPIES), place, size if host else np.int64(0))
    if host:
        log(m, np.int64(COPIED), w, pc, to & ~ADDRESS_WRAPPED, np.int64(-1), bit, size)
        if m.mbarrier_count:
            kind = np.int64(ATOMIC if i.op >= REDUCE else WRITE)
            clobbers(m, w, pc, registers, i.a, np.int64(0), bit, size, np.int64(0), kind)
        if i.op >= REDUCE:
            judge_written(m, w, pc, lane, number_of(to), to & OFFSET_MASK, size)
        if m.clocks:
            base = cell_of(number, GENERIC + w, lane, pc)
            if i.op >= REDUCE:
                touch_range(m, w, lane, pc, to, size, np.int64(ATOMIC), base | ATOMIC_BIT, False)
            else:
                touch_range(m, w, lane, pc, to, size, np.int64(WRITE), base, False)
        note_written(m, number_of(to), to & OFFSET_MASK, size)
        if size == 8:
            value = load_i64(registers + i.d + 8 * lane)
            store_i64(host, combined(i.aux >> UNUSED_SHIFT, load_i64(host), value) if i.op >= REDUCE else value)
        else:
            value = load_u32(registers + i.d + 4 * lane)
            store_u32(host, combined(i.aux >> UNUSED_SHIFT, load_u32(host), value) if i.op >= REDUCE else value)
        if m.clusters:
            reach(m, w, pc, (to & OFFSET_MASK) >> m.window, bit, number, True)
    return credit(m, w, pc, live_in(m, w, pc, registers, i.b, lane, np.int64(-1)), lane, size, number)


def cluster_operation(address, w, pc, mask, why):
    """Execute such an operation for the lanes of `mask`: a status.  Called by address.

    AGAIN: whether lanes that stand at a wait go on; they have done so then.  EXITS: some lanes have exited.  ENDS: all
    CTAs of the group have ended.
    """
    m = machine_at(address, 0)
    if why == ENDS:
        if m.proxies and m.clusters:  # without, a row has no times, and nobody reaches another CTA's memory
            report_late(m)
        return np.int64(DONE)
    if why == EXITS:
        complete_if_met(m, w, pc)
        return np.int64(DONE)
    warp = warp_at(m.warps, w)
    i = instruction_at(m.code, pc)
    if i.op in (GRID_ARRIVE, GRID_WAIT):
        return np.int64(grid_operation(m, warp, w, pc, i, mask, why))
    if why == AGAIN:
        if mask & warp.cluster_arrived:
            return np.int64(0)
        accept(m, warp, w, pc, mask)
        return np.int64(1)
    if i.op == ARRIVE:
        arrive(m, warp, w, pc, i, mask)
        return np.int64(DONE)
    if i.op == WAIT:
        return np.int64(wait(m, warp, w, pc, i, mask))
    return np.int64(send_all(m, w, pc, warp.registers, i, mask))
