"""Operations between co-resident CTAs, in compiled code: each goes to the barrier of a cluster, to that of the grid, or
to the agent that sends values to another CTA, as in `asynchronous.py`.
"""

from __future__ import annotations

import numpy as np

from wsemu.machine.agents import sends
from wsemu.machine.records import instruction_at, machine_at, warp_at
from wsemu.machine.state import DONE
from wsemu.machine.sync import cluster, grid_barrier
from wsemu.machine.sync.peers import report_late

EXECUTES, WAKES, EXITS, ENDS = range(4)
"""reason for a call of `between_ctas`"""


def between_ctas(address, w, pc, mask, why):
    """Execute such an operation for the lanes of `mask`: a status.  Called by address.

    WAKES: whether lanes that stand at a wait go on; they have done so then.  EXITS: some lanes have exited.  ENDS: all
    CTAs of the group have ended.
    """
    m = machine_at(address, 0)
    if why == ENDS:
        if m.proxies and m.clusters:  # without, a row has no times, and nobody reaches another CTA's memory
            report_late(m)
        return np.int64(DONE)
    if why == EXITS:
        cluster.complete_if_met(m, w, pc)
        return np.int64(DONE)
    warp = warp_at(m.warps, w)
    i = instruction_at(m.code, pc)
    if i.op in (grid_barrier.GRID_ARRIVE, grid_barrier.GRID_WAIT):
        if why == WAKES:
            return np.int64(grid_barrier.wakes(m, warp, w, pc, i, mask))
        return np.int64(grid_barrier.execute(m, warp, w, pc, i, mask))
    if why == WAKES:
        return np.int64(cluster.wakes(m, warp, w, pc, mask))
    if i.op in (cluster.ARRIVE, cluster.WAIT):
        return np.int64(cluster.execute(m, warp, w, pc, i, mask))
    return np.int64(sends.execute(m, w, pc, warp.registers, i, mask))
