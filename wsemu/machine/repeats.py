"""Loops that never end: the warps that can run return to earlier states, and change no memory.

A loop such as `while i < 2: i ^= 1` would use up the whole step budget.  When a group of CTAs has run for long, each of
its warps that can run takes some single steps, and Brent's algorithm compares its states: its registers, and where its
lanes are.  If each returns to an earlier state, and none executes anything in between that changes memory or that may
return another value the next time, the run never ends.  Single steps are part of the run, which continues after them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.machine import slices
from wsemu.machine import state as layout
from wsemu.machine.state import address_of
from wsemu.model.control_flow import keeps_memory

if TYPE_CHECKING:
    from wsemu.machine.vm import Machine

MOST_STEPS = 256
"""stretches of code that each warp executes step by step, the first time; the number doubles each time"""


class Repeats:
    """Looks for such loops in the run of one machine: when a group of CTAs has executed a slice, and each time that its
    number of instructions has doubled."""

    def __init__(self, machine: Machine) -> None:
        self.machine, self.group, self.executed = machine, -1, 0
        self.next, self.most = slices.SLICE, MOST_STEPS
        self.found = False
        """true if the run never ends"""
        self.used = 0
        """warp instructions of the last single steps"""

    def look(self, executed: int, status: int) -> int:
        """Look for such loops if it is time.  A slice of `executed` instructions ended with `status`; return the status
        of the run."""
        state, self.used = self.machine.state[0], 0
        if int(state["group"]) != self.group:
            self.group, self.executed, self.next, self.most = int(state["group"]), 0, slices.SLICE, MOST_STEPS
        self.executed += executed
        if status != layout.BUDGET or not state["running"] or self.executed < self.next:
            return status
        most, self.next, self.most = self.most, 2 * self.next, 2 * self.most
        if self.machine.image.asynchronous:
            return status
        next_warp, blocks = int(state["next_warp"]), int(state["blocks"])
        state["blocks"] = 0
        marks = self.machine.flow["count"].copy()
        warps = [w for w in range(self.machine.warp_count) if self._runs(w)]
        self.found = bool(warps)
        for w in warps:
            status, found = self._returns(w, most)
            self.found &= found
            if not found:
                break
        self.found = self.found and self._keeps_memory(marks)  # a store of one warp may end the loop of another
        state["blocks"] = blocks
        if status == layout.BUDGET:
            state["next_warp"] = next_warp
        return status

    def _runs(self, w: int) -> bool:
        """Return whether a warp can run, or waits for an event that is not followed here."""
        warp = self.machine.warps[w]
        return bool(warp["alive"]) and int(warp["waits"]) in (-1, layout.AWAITS)

    def _returns(self, w: int, most: int) -> tuple[int, bool]:
        """Return the status after single steps of a warp, and whether it returns to an earlier state."""
        seen, length, power = self._state(w), 0, 1
        for _ in range(most):
            status = self._step(w)
            if status != layout.BUDGET or int(self.machine.warps[w]["waits"]) >= 0 or not self._runs(w):
                return status, False
            now, length = self._state(w), length + 1
            if now == seen:
                return status, True
            if length == power:
                seen, length, power = now, 0, 2 * power
        return layout.BUDGET, False

    def _step(self, w: int) -> int:
        """Let a warp execute one stretch of code; return the status."""
        machine, state = self.machine, self.machine.state[0]
        machine.warps[w]["known_at"] = 0
        state["budget"], state["next_warp"], state["progress"] = 0, w, 1
        status = machine.entry(address_of(machine.state))
        self.used -= int(state["budget"])
        return status

    def _state(self, w: int) -> tuple[Any, ...]:
        machine, warp = self.machine, self.machine.warps[w]
        stacks = machine.stacks[w]
        return (
            machine.registers[w].tobytes(),
            warp.tobytes(),
            stacks[0, : int(warp["depth"])].tobytes(),
            stacks[1, : int(warp["parked_count"])].tobytes(),
        )

    def _keeps_memory(self, marks: Any) -> bool:
        """Return whether nothing that was executed since `marks` were counted changes memory, or returns another value
        the next time."""
        flow, program = self.machine.flow, self.machine.program
        starts = np.flatnonzero(flow["count"] != marks).tolist()
        return all(
            keeps_memory(program.code[pc].tolist())
            for start in starts
            for pc in range(start, start + int(flow["length"][start]))
        )
