"""Operations between co-resident CTAs, in compiled code, like `asynchronous.py`.

Each operation is passed to its module: the barrier of a cluster, the barrier of the grid, stores to another CTA, or the
control of cluster launches.
"""

from __future__ import annotations

from wsemu.machine.agents import sends
from wsemu.machine.agents.loads import load_bulk
from wsemu.machine.lowering import compiled
from wsemu.machine.records import instruction_at, machine_at, warp_at
from wsemu.machine.scalars import lowest_bit, store_i64
from wsemu.machine.state import DONE
from wsemu.machine.sync import cancellation, cluster, grid_barrier
from wsemu.machine.sync.group import enter_cta
from wsemu.machine.sync.peers import report_late

EXECUTES, WAKES, EXITS, ENDS, DELIVERS = range(5)
"""reasons for a call of `between_ctas`"""


@compiled
def deliver(m):
    """Deliver the withheld response: copy it with the registers that its warp had, and return a status."""
    w, pc, mask = m.withheld - 1, m.withheld_pc, m.withheld_mask
    warp = warp_at(m.warps, w)
    if warp.member != m.member:
        enter_cta(m, warp.member)
    registers = warp.registers
    warp.registers = m.withheld_registers
    m.withheld = 0
    i = instruction_at(m.code, pc)
    if m.resumes == 0:
        m.taken = cancellation.successor(m, m.taken)
        store_i64(warp.registers + i.b + 8 * lowest_bit(mask), m.withheld_table + 16 * m.taken)
    status = load_bulk(m, w, pc, warp.registers, i, mask)
    warp.registers = registers
    if m.resumes:  # the host must act first
        m.withheld = w + 1
        m.delivers = 1
    return status


def between_ctas(address, w, pc, mask, why):
    """Execute an operation between CTAs for the lanes of `mask`, and return a status.  Called by address.

    With WAKES, continue the waiting lanes if they can, and return whether they did.  EXITS: some lanes have
    exited.  ENDS: all CTAs of the group have ended.  DELIVERS: deliver the withheld response.
    """
    m = machine_at(address, 0)
    if why == DELIVERS:
        return deliver(m)
    if why == ENDS:
        if m.proxies and m.clusters:  # otherwise rows have no times, and no CTA accesses another CTA's memory
            report_late(m)
        return DONE
    if why == EXITS:
        cluster.complete_if_met(m, w, pc)
        return DONE
    warp = warp_at(m.warps, w)
    i = instruction_at(m.code, pc)
    if i.op in (grid_barrier.GRID_ARRIVE, grid_barrier.GRID_WAIT):
        if why == WAKES:
            return grid_barrier.wakes(m, warp, w, pc, i, mask)
        return grid_barrier.execute(m, warp, w, pc, i, mask)
    if i.op in (cancellation.REQUEST, cancellation.CHECK):
        if why == WAKES:
            return cancellation.wakes(m, warp, w, pc, i, mask)
        return cancellation.execute(m, warp, w, pc, i, mask)
    if why == WAKES:
        return cluster.wakes(m, warp, w, pc, mask)
    if i.op in (cluster.ARRIVE, cluster.WAIT):
        return cluster.execute(m, warp, w, pc, i, mask)
    return sends.execute(m, w, pc, warp.registers, i, mask)
