"""The latch of the tests in compiled code.  Its memory: how many have come to each, then a row of clocks for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wsemu.machine import outside
from wsemu.machine.lowering import compiled
from wsemu.machine.records import instruction_at, machine_at, warp_at
from wsemu.machine.scalars import load_i64, popcount, store_i64
from wsemu.machine.state import DONE, EVENT_KINDS, STANDS
from wsemu.machine.sync.clocks import begin_interval
from wsemu.machine.sync.events import log
from wsemu.machine.sync.lane_clocks import join_lanes, learn
from wsemu.model.outcome import ObjectWait

if TYPE_CHECKING:
    from wsemu.machine.outside import Numbers

COUNT, LATCHES = 2, 4
COUNT_DOWN, WAIT = "latch.count_down", "latch.wait"
ARRIVES, AWAITED, COMPLETES = (EVENT_KINDS.index(kind) for kind in ("arrive_on", "await", "phase"))


def enter() -> None:
    entries = {COUNT_DOWN: count_down, WAIT: wait}
    outside.enter(outside.Family("latch", entries, LATCHES, LATCHES, waits_for))


def leave() -> None:
    outside.leave("latch")


@compiled
def given(m, memory, number):
    """The row of what a latch was given."""
    return memory + 8 * LATCHES + m.row_bytes * number


def count_down(address, w, pc, mask, memory, again):
    m = machine_at(address, 0)
    number = instruction_at(m.code, pc).imm
    before = load_i64(memory + 8 * number)
    after = before + popcount(mask)
    store_i64(memory + 8 * number, after)
    log(m, ARRIVES, w, pc, number, np.int64(0), mask, popcount(mask))
    if m.clocks:
        join_lanes(m, given(m, memory, number), w, mask)
    if before < COUNT and after >= COUNT:
        log(m, COMPLETES, w, pc, number, np.int64(0), mask, np.int64(0))
    if m.clocks:
        begin_interval(warp_at(m.warps, w), w)
    return np.int64(DONE)


def wait(address, w, pc, mask, memory, again):
    m = machine_at(address, 0)
    number = instruction_at(m.code, pc).imm
    if load_i64(memory + 8 * number) < COUNT:
        return np.int64(0 if again else STANDS)
    log(m, AWAITED, w, pc, number, np.int64(0), mask, np.int64(0))
    if m.clocks:
        learn(m, w, mask, given(m, memory, number))
        begin_interval(warp_at(m.warps, w), w)
    return np.int64(again)


def waits_for(memory: Numbers, row: list[int], warp: int, pc: int, lanes: int) -> ObjectWait:
    number = row[6]
    return ObjectWait(warp, lanes, pc, "latch", number, int(memory[number]), COUNT)
