"""Log each instruction that a warp executes, with its lanes, so that times can be predicted.

`run_warp_logged` is `scheduler.run_warp`, compiled again with this `log_step`. A machine logs steps if its `warp_entry`
is the address of this function. Other launches run the other code, which costs nothing.
"""

from __future__ import annotations

from types import FunctionType

from wsemu.machine.lowering import compiled
from wsemu.machine.scalars import store_i64
from wsemu.machine.scheduler import run_warp
from wsemu.machine.state import STEP


@compiled
def log_step(m, w, pc, lanes):
    """Log an instruction; when the log is full, only count, and end the trace."""
    n = m.steps_count
    m.steps_count = n + 1
    if n < m.steps_room:
        place = m.steps + STEP * n
        store_i64(place, w << 32 | pc)
        store_i64(place + 8, lanes)
        store_i64(place + 16, m.trace_count)
    elif n == m.steps_room:
        m.trace = 0


run_warp_logged = FunctionType(run_warp.__code__, {**run_warp.__globals__, "log_step": log_step}, run_warp.__name__)
run_warp_logged.__module__ = run_warp.__module__
