"""Loops that never end: the warps that can run return to earlier states, and so does memory.

A loop such as `while i < 2: i ^= 1` would use up the whole step budget.  When a group of CTAs has run for long, each of
its warps that can run takes some single steps, and Brent's algorithm compares its states: its registers, and where its
lanes are.  The run never ends if each returns to an earlier state, and executes nothing in between that may return
another value the next time.  If several warps can run, no step of any of them may change memory, because this may end
the loop of another one; what a warp that runs alone changes is part of its state.  A `cas` that fails changes nothing,
nor does a store of the value that is already there.  Single steps are part of the run, which continues after them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.machine import state as layout
from wsemu.machine.state import address_of
from wsemu.model.control_flow import is_repeatable, may_change_memory
from wsemu.model.isa import ATOMICS, NAMES

if TYPE_CHECKING:
    import numpy.typing as npt

    from wsemu.machine.vm import Machine

FIRST = 4_000_000
"""warp instructions of a group before its warps are examined for the first time; the number doubles each time"""
MOST_STEPS = 128
"""stretches of code that each warp executes step by step in the first examination; the number doubles each time"""
MOST_IN_VAIN = 16_384
"""likewise if it executes atomics, and memory stays as it is: it may search for a free entry in a full table"""
MOST_BYTES = 1 << 25
"""bytes of shared and local memory and of writable arrays above which a loop with stores is not examined"""
MOST_COMPARED = 1 << 28
"""bytes of memory that are copied and compared for the steps of one warp, at most"""
_STORES, _SWAPS, _SEVERAL, _VARIES = 1, 2, 3, 4
"""effects of a stretch of code: a store may change memory; an atomic may; several instructions may, so that memory may
be another one in between; or it may do something else if it is repeated"""


class Repeats:
    """Looks for such loops in the run of one machine: after FIRST instructions of a group of CTAs, and each time that
    their number has doubled."""

    def __init__(self, machine: Machine) -> None:
        self.machine, self.group, self.executed = machine, -1, 0
        self.next, self.most = FIRST, MOST_STEPS
        self.found = False
        """true if the run never ends"""
        self.used = 0
        """warp instructions of the last single steps"""

    def shorten(self, piece: int) -> int:
        """Return the length of the next slice: a loop is examined if a slice ends with its instructions."""
        return 1 if self.executed >= self.next else piece

    def look(self, executed: int, status: int) -> int:
        """Look for such loops if it is time.  A slice of `executed` instructions ended with `status`; return the status
        of the run."""
        state, self.used = self.machine.state[0], 0
        if int(state["group"]) != self.group:
            self.group, self.executed, self.next, self.most = int(state["group"]), 0, FIRST, MOST_STEPS
        self.executed += executed
        if status != layout.BUDGET or not state["running"] or self.executed < self.next:
            return status
        most, self.next, self.most = self.most, 2 * self.next, 2 * self.most
        if self.machine.image.asynchronous:
            return status
        next_warp, blocks = int(state["next_warp"]), int(state["blocks"])
        state["blocks"] = 0
        self.effects, self.counts = _find_effects(self.machine), self.machine.flow["count"]
        self.watched = np.flatnonzero(self.effects)
        warps = [w for w in range(self.machine.warp_count) if self._runs(w)]
        self.alone, self.found, self.stores, self.swaps = len(warps) == 1, bool(warps), False, False
        self.memory = _Memory(self.machine)
        for w in warps:
            status, found = self._returns(w, most)
            self.found &= found
            if not found:
                break
        self.found = self.found and (self.alone or self._keeps_memory())  # other machines may run CTAs as well
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
        self.memory.left = MOST_COMPARED
        seen, length, power = self._state(w), 0, 1
        warp = self.machine.warps[w]
        for n in range(max(most, MOST_IN_VAIN)):
            if n == most and not (self.swaps and self._keeps_memory()):
                break
            status, effects = self._step(w)
            self.stores, self.swaps = self.stores or effects > 0, self.swaps or effects >= _SWAPS
            if status != layout.BUDGET or int(warp["waits"]) >= 0 or not self._runs(w) or effects == _VARIES:
                return status, False
            if effects and not self.alone and (effects == _SEVERAL or not self._keeps_memory()):
                return status, False
            now, length = self._state(w), length + 1
            if now == seen and (not self.alone or self._keeps_memory()):
                return status, True
            if length == power:
                seen, length, power = now, 0, 2 * power
                if self.alone:
                    self.memory.keep()
        return layout.BUDGET, False

    def _step(self, w: int) -> tuple[int, int]:
        """Let a warp execute one stretch of code; return the status, and the effects of its instructions."""
        machine, state, warp = self.machine, self.machine.state[0], self.machine.warps[w]
        counts = self.counts[self.watched]
        rest = int(self.effects[warp["pc"]]) if warp["midway"] else 0  # of a stretch that is counted already
        warp["known_at"] = 0
        state["budget"], state["next_warp"], state["progress"] = 0, w, 1
        status = machine.entry(address_of(machine.state))
        while status in (layout.REFINE, layout.SWEEP) and machine.planes and machine._provide(status, machine.planes):
            status = machine.entry(address_of(machine.state))  # the budget of the step is not used up
        self.used -= int(state["budget"])
        executed = self.counts[self.watched] != counts
        return status, max(rest, int(self.effects[self.watched[executed]].max(initial=0)) if executed.any() else 0)

    def _keeps_memory(self) -> bool:
        """Return whether memory is as it was when it was copied."""
        return not self.stores or self.memory.is_kept()

    def _state(self, w: int) -> tuple[Any, ...]:
        machine, warp = self.machine, self.machine.warps[w]
        stacks = machine.stacks[w]
        return (
            machine.registers[w].tobytes(),
            warp.tobytes(),
            stacks[0, : int(warp["depth"])].tobytes(),
            stacks[1, : int(warp["parked_count"])].tobytes(),
        )


class _Memory:
    """The memory that the CTAs of a machine may change, and a copy of it."""

    def __init__(self, machine: Machine) -> None:
        self.blocks = machine.changeable_memory()
        self.bytes = sum(block.nbytes for block in self.blocks)
        self.left = MOST_COMPARED
        """bytes that may still be copied and compared"""
        self.copies: list[npt.NDArray[np.uint8]] = []
        self.keep()

    def keep(self) -> None:
        """Copy the memory again."""
        may = self.bytes <= MOST_BYTES and self._spend()
        self.copies = [block.copy() for block in self.blocks] if may else []

    def is_kept(self) -> bool:
        """Return whether memory is as it was when it was copied; False if that takes too long."""
        pairs = zip(self.copies, self.blocks, strict=False)
        return bool(self.copies) and self._spend() and all(np.array_equal(copy, block) for copy, block in pairs)

    def _spend(self) -> bool:
        self.left -= self.bytes
        return self.left >= 0


def _find_effects(machine: Machine) -> npt.NDArray[np.uint8]:
    """Return the effects of each stretch of code, by its first instruction."""
    code = machine.program.code.tolist()
    effects = [_find_effect(row) for row in code]
    lengths = machine.flow["length"]
    for pc in range(len(code) - 2, -1, -1):
        if lengths[pc] > 1:
            both = _SEVERAL if effects[pc] and effects[pc + 1] else 0
            effects[pc] = max(effects[pc], effects[pc + 1], both)
    return np.array([*effects, *[0] * (len(lengths) - len(effects))], np.uint8)


def _find_effect(fields: list[int]) -> int:
    if not is_repeatable(fields):
        return _VARIES
    if not may_change_memory(fields):
        return 0
    return _SWAPS if NAMES[fields[0]] in ATOMICS else _STORES
