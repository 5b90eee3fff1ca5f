"""Fences between the generic and the asynchronous proxy, in compiled code.  PTX ISA, "membar, fence"."""

from __future__ import annotations

from wsemu.machine.lowering import compiled
from wsemu.machine.memory.shadow_cells import join, join_bits
from wsemu.machine.records import warp_at
from wsemu.machine.scalars import load_i64, lowest_bit, store_i64
from wsemu.machine.sync.clocks import begin_interval
from wsemu.machine.sync.events import PROXY_FENCE, log
from wsemu.machine.sync.lane_clocks import async_visible_offset, bits_of, heads, relied_bits, row, separate
from wsemu.model.isa import LANES, PROXIES

PROXY_ALL, PROXY_GLOBAL = PROXIES.index("async"), PROXIES.index("async.global")


PROXY_CTA, PROXY_CLUSTER = PROXIES.index("async.shared::cta"), PROXIES.index("async.shared::cluster")


@compiled
def rely(m, w, lanes, space):
    """Execute `fence.proxy`: make the actions of some lanes, and everything that the lanes have observed, visible to
    the async proxy in a memory space."""
    warp = warp_at(m.warps, w)
    m.relying = 1
    separate(m, w, lanes)
    rest = heads(m, w, lanes)
    while rest:
        own = row(m, LANES * w + lowest_bit(rest))
        rest &= rest - 1
        for u in range(m.warp_count):
            join(own + async_visible_offset(m, space) + 256 * u, own + 256 * u)
        if m.row_bits > 2 * m.agent_bits:
            for u in range(m.agent_bits):
                join_bits(own + relied_bits(m, space) + 256 * u, own + bits_of(m) + 256 * u)
    now = load_i64(warp.clock + 8 * w)
    if m.lockstep:
        lanes = (1 << LANES) - 1
    while lanes:
        store_i64(warp.fenced + 256 * space + 8 * lowest_bit(lanes), now)
        lanes &= lanes - 1


@compiled
def execute(m, w, pc, i, mask):
    if m.clocks == 0:
        return
    kind = i.imm
    log(m, PROXY_FENCE, w, pc, -1, -1, mask, 0)
    if kind in (PROXY_ALL, PROXY_CTA, PROXY_CLUSTER):
        rely(m, w, mask, 0)
    if kind in (PROXY_ALL, PROXY_GLOBAL):
        rely(m, w, mask, 1)
    begin_interval(warp_at(m.warps, w), w)
