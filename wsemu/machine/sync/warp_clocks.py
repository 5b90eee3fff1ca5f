"""Clocks of the warps of a group, in compiled code: one vector of 32 intervals, or in wide groups several."""

from __future__ import annotations

from wsemu.machine.lowering import compiled
from wsemu.machine.memory.cell_bits import GENERIC, WIDE
from wsemu.machine.memory.shadow_cells import ALL, FEW, join_few, put
from wsemu.machine.records import barrier_at, warp_at
from wsemu.machine.scalars import load_i64
from wsemu.model.isa import LANES


@compiled
def join_clock(m, to, other):
    """Let a clock know the later interval of each warp that there is."""
    for u in range(0, m.warp_count, FEW):
        join_few(to + 8 * u, other + 8 * u)


@compiled
def set_clock(m, to, interval):
    """Let a clock know the same interval of each warp."""
    if WIDE:
        for u in range(0, m.warp_count, LANES):
            put(to + 8 * u, ALL, interval)
    else:
        put(to, ALL, interval)


@compiled
def join_waiting(m, number):
    """Add the knowledge of the warps that wait at a barrier to it: while they wait, they learn nothing new."""
    b = barrier_at(m.barriers, number)
    for u in range(m.first_warp, m.first_warp + m.cta_warps):
        warp = warp_at(m.warps, u)
        if warp.waits == number and load_i64(b.took + 8 * u) == load_i64(warp.clock + 8 * u):
            join_clock(m, b.clock, warp.clock)


@compiled
def show_agents(m, clock, last):
    """Up to this one all lanes of the warp of a clock know of asynchronous operations, of both kinds."""
    set_clock(m, clock + 8 * GENERIC, last)
    set_clock(m, clock + 16 * GENERIC, last)
