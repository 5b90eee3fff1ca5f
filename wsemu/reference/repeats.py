"""Loops that never end, in the reference interpreter: each warp that can run returns to an earlier state, and so does
memory.

After many instructions of a group, its warps execute some instructions one at a time, and their states are compared by
Brent's algorithm.  A state consists of the contents of the registers and the positions of the lanes.  For a
warp that runs alone, it includes the contents of memory.  If several warps run, none of them may change memory, because
a store might end the loop of another warp.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wsemu.model.control_flow import is_repeatable, may_change_memory
from wsemu.reference.state import chain
from wsemu.reference.warp import WarpRun

if TYPE_CHECKING:
    from wsemu.reference.run import Cta, CtaGroup
    from wsemu.reference.state import Group, Warp

FIRST = 10_000
"""warp instructions of a group before its warps are examined for the first time; the number doubles each time"""
MOST_STEPS = 500
"""instructions that each warp executes one at a time in the first examination"""
MOST_BYTES = 1 << 20
"""bytes of memory above which a loop with stores is not examined"""


class Repeats:
    """Looks for such loops in a group of CTAs."""

    def __init__(self, group: CtaGroup) -> None:
        self.group, self.outcome = group, group.launch.outcome
        self.start = self.outcome.warp_instructions
        self.next, self.most = FIRST, MOST_STEPS

    def are_found(self) -> bool:
        """Return whether the group never ends."""
        done = self.outcome.warp_instructions - self.start
        if done < self.next or self.group.launch.program.asynchronous:
            return False
        most, self.next, self.most = self.most, 2 * self.next, 2 * self.most
        marks = [*self.outcome.executions]
        able = [(cta, warp) for cta in self.group.ctas for warp in cta.warps if WarpRun(cta, warp).able()]
        self.alone, self.stores = len(able) == 1, False
        self.memory = self._copy_memory()
        return bool(able) and all(self._returns(cta, warp, most) for cta, warp in able) and self._is_repeatable(marks)

    def _returns(self, cta: Cta, warp: Warp, most: int) -> bool:
        """Return whether a warp returns to an earlier state."""
        run = WarpRun(cta, warp)
        run.resume()
        seen, length, power = _state(warp), 0, 1
        for _ in range(most):
            if not warp.ready:
                return False
            self.stores |= may_change_memory(self.group.launch.code[warp.ready[-1].pc])
            run.step()
            length += 1
            if not self.alone and not self._keeps_memory():
                return False
            now = _state(warp)
            if now == seen and self._keeps_memory():
                return True
            if length == power:
                seen, length, power = now, 0, 2 * power
                if self.alone:
                    self.memory = self._copy_memory()
        return False

    def _copy_memory(self) -> list[bytes]:
        """Return the contents of shared and local memory and of the writable arrays; an empty list if they are
        too large."""
        launch = self.group.launch
        of_warps = (warp.local for cta in self.group.ctas for warp in cta.warps)
        arrays = (array for array in launch.arrays if array.writable)
        held = [segment.data for segment in (self.group.shared, *of_warps, *arrays)]
        return [bytes(data) for data in held] if sum(map(len, held)) <= MOST_BYTES else []

    def _keeps_memory(self) -> bool:
        """Return whether memory is as it was when it was copied."""
        return not self.stores or (bool(self.memory) and self.memory == self._copy_memory())

    def _is_repeatable(self, marks: list[int]) -> bool:
        """Return whether everything that was executed since `marks` were counted does the same the next time."""
        counts = zip(self.outcome.executions, marks, self.group.launch.code, strict=True)
        return all(is_repeatable(fields) for now, before, fields in counts if now != before)


def _state(warp: Warp) -> tuple[Any, ...]:
    registers = {row: tuple(values) for row, values in warp.registers.items()}
    groups = ([*map(_place, warp.ready)], [*map(_place, warp.parked)])
    return registers, dict(warp.predicates), warp.alive, warp.waits, groups


def _place(group: Group) -> tuple[Any, ...]:
    regions = tuple((region.join, region.lanes, region.waiting) for region in chain(group.region))
    return group.pc, group.lanes, group.midway, regions
