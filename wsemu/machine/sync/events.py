"""Trace events of synchronization objects and asynchronous operations, in compiled code, and errors that stop a
launch."""

from __future__ import annotations

from wsemu.machine.lowering import compiled
from wsemu.machine.records import call, event_at, warp_at
from wsemu.machine.scalars import load_i64
from wsemu.machine.state import EVENT_KINDS, FAULT

INITS, INVALS, ARRIVALS, EXPECTS, CREDITS, AWAITED, PHASES, PROXY_FENCE = (
    EVENT_KINDS.index(k) for k in ("init", "inval", "arrive_on", "expect", "credit", "await", "phase", "proxy")
)


@compiled
def log(m, kind, w, pc, place, generation, lanes, amount):
    """Add an event to the trace."""
    if m.trace == 0:
        return
    call(m.trace_entry, m.address, kind, w, load_i64(warp_at(m.warps, w).clock + 8 * w), pc, place, generation)
    if m.trace_count <= m.trace_room:
        e = event_at(m.trace, m.trace_count - 1)
        e.lanes = lanes
        e.amount = amount
        e.addresses = -1


@compiled
def note_operand(m, operand):
    """Add to the last event, of a copy, a number that differs for other operands in shared and tensor memory."""
    if m.trace and m.trace_count <= m.trace_room:
        event_at(m.trace, m.trace_count - 1).addresses = operand


@compiled
def report_failure(m, w, pc):
    m.fault_pc = pc
    m.fault_warp = w
    warp_at(m.warps, w).last_pc = pc
    return FAULT
