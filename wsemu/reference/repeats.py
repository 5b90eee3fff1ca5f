"""Loops that never end, in the reference interpreter: each warp that can run returns to an earlier state.

After many instructions of a group, its warps execute some instructions one at a time, and their states are compared by
Brent's algorithm.  A state is what the registers hold, and where the lanes are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wsemu.model.control_flow import keeps_memory
from wsemu.reference.state import chain
from wsemu.reference.warp import WarpRun

if TYPE_CHECKING:
    from wsemu.reference.run import Cta, CtaGroup
    from wsemu.reference.state import Group, Warp

FIRST = 10_000
"""warp instructions of a group after which its warps are looked at, the first time; the number doubles each time"""
MOST_STEPS = 500
"""instructions that each warp executes one at a time, the first time"""


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
        found = bool(able) and all(self._returns(cta, warp, most) for cta, warp in able)
        return found and self._keeps_memory(marks)  # a store of one warp may end the loop of another

    def _returns(self, cta: Cta, warp: Warp, most: int) -> bool:
        """Return whether a warp returns to an earlier state."""
        run = WarpRun(cta, warp)
        run.resume()
        seen, length, power = _state(warp), 0, 1
        for _ in range(most):
            if not warp.ready:
                return False
            run.step()
            length += 1
            now = _state(warp)
            if now == seen:
                return True
            if length == power:
                seen, length, power = now, 0, 2 * power
        return False

    def _keeps_memory(self, marks: list[int]) -> bool:
        """Return whether nothing that was executed since `marks` were counted changes memory, or returns another value
        the next time."""
        counts = zip(self.outcome.executions, marks, self.group.launch.code, strict=True)
        return all(keeps_memory(fields) for now, before, fields in counts if now != before)


def _state(warp: Warp) -> tuple[Any, ...]:
    registers = {row: tuple(values) for row, values in warp.registers.items()}
    groups = ([*map(_place, warp.ready)], [*map(_place, warp.parked)])
    return registers, dict(warp.predicates), warp.alive, warp.waits, groups


def _place(group: Group) -> tuple[Any, ...]:
    regions = tuple((region.join, region.lanes, region.waiting) for region in chain(group.region))
    return group.pc, group.lanes, group.midway, regions
