"""Vector clocks of warps, in compiled code: a vector of 32 intervals, or several in groups with more warps."""

from __future__ import annotations

from wsemu.machine.lowering import compiled
from wsemu.machine.memory.cell_bits import GENERIC, WIDE
from wsemu.machine.memory.shadow_cells import ALL, FEW, join_few, put
from wsemu.machine.records import barrier_at, warp_at
from wsemu.machine.scalars import load_i64
from wsemu.model.isa import LANES


@compiled
def join_clock(m, to, other):
    """Join another clock to a clock: for each warp of the group, keep the later interval."""
    for u in range(0, m.warp_count, FEW):
        join_few(to + 8 * u, other + 8 * u)


@compiled
def set_clock(m, to, interval):
    """Set a clock to one interval for all warps."""
    if WIDE:
        for u in range(0, m.warp_count, LANES):
            put(to + 8 * u, ALL, interval)
    else:
        put(to, ALL, interval)


@compiled
def join_waiting(m, number):
    """Join the clocks of the warps that wait at a barrier into the clock of the barrier.

    This can be done late, because the clock of a waiting warp does not change.
    """
    b = barrier_at(m.barriers, number)
    for u in range(m.first_warp, m.first_warp + m.cta_warps):
        warp = warp_at(m.warps, u)
        if warp.waits == number and load_i64(b.took + 8 * u) == load_i64(warp.clock + 8 * u):
            join_clock(m, b.clock, warp.clock)


@compiled
def show_agents(m, clock, last):
    """Record in a clock that all lanes of its warp have observed the asynchronous operations up to `last`, of both
    proxies."""
    set_clock(m, clock + 8 * GENERIC, last)
    set_clock(m, clock + 16 * GENERIC, last)
