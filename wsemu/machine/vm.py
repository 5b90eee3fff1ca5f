"""One VM: it runs CTAs slice by slice, and is made ready for the next launch of its kind."""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.machine import slices
from wsemu.machine import state as layout
from wsemu.machine.image import Rows, fill
from wsemu.machine.memory.shadow_planes import POOL, Planes
from wsemu.machine.readout import Readout
from wsemu.machine.state import address_of
from wsemu.machine.tables import SLOTS, give_back
from wsemu.machine.tier import hot
from wsemu.model.isa import FIRST_ARRAY, N_OPERATIONS
from wsemu.model.outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wsemu.machine.image import Bytes

REMEMBERED = 1 << 18
"""bytes of a machine's tables up to which it is kept for the next launch of its kind"""


_PARTLY_USED = frozenset({"raw", "slots", "known", "bases", "plans", "plans_due", "stacks", "lane_clocks", "leaders"})
"""tables of a machine that are as good as new: a run says what it has touched, plans stay good, and a warp that begins
has an empty stack and no clocks of lanes"""


_OF_GROUPS = frozenset({
    "shared", "warps", "barriers", "ctas", "clocks", "warp_clocks", "mbarriers", "mbarrier_index", "agents", "groups",
    "phases", "acquired",
})  # fmt: skip
"""tables of a machine with asynchronous operations that the first group of a launch finds as the last one of the launch
before has left them, as each group does of those before it"""


_COUNTED_ON = ("top", "operations", "mbarrier_count")
"""counters that such a machine continues from launch to launch: older contents of tables precede them"""


MOST_OPERATIONS = 1 << 30
"""maximum operations that it counts: 32 bits distinguish them"""


LASTING = 1 << 24
"""bytes of its tables up to which it is kept"""


def _dropped_array() -> None:
    """Stand for a reference to an array that is gone."""


class Machine(Readout):
    """One VM with its memory, for a range of CTAs."""

    def run(
        self,
        first: int,
        last: int,
        budget: int,
        stop: threading.Event | None = None,
        step: int = 1,
        each: Callable[[int], None] | None = None,
    ) -> int:
        """Run groups from first up to, not including, last; returns the status.  `each` is told how many have run.

        Looks up between slices, so that Ctrl-C gets through, and gives compiled code what it stops for.
        """
        state, address = self.state[0], address_of(self.state)
        state["group"], state["group_end"], state["group_step"], state["group_first"] = first, last, step, first
        self.alone = {}
        self.executed = told = 0
        while True:
            if self.tier != "off":
                hot.look(self)
            soon = hot.instructions_until_block(self, slices.FIRST_SLICE) if hot.may_need_block(self) else budget
            piece = min(budget, slices.SLICES[self.width], soon)
            state["budget"], state["patience"] = piece, slices.PATIENCE
            status = self.entry(address)
            hot.settle(self)
            executed = piece - int(state["budget"])  # what it has overdrawn, too: slices end anywhere
            budget -= executed
            hot.warm(self, executed)
            if state["unnamed"]:
                return layout.UNNAMED
            if status == layout.LOOK:
                continue
            if status in (layout.REFINE, layout.SWEEP) and self.planes:
                if not self._provide(status, self.planes):
                    state["wanted"] = layout.GROW_WINDOW
                    return layout.GROW
                if stop is not None and stop.is_set():
                    self.left, self.status = budget, layout.BUDGET
                    return layout.BUDGET
            elif (
                status != layout.BUDGET
                or budget < 0
                or (stop is not None and stop.is_set())
                or self._intervals_exhausted()
            ):
                self.left, self.status = budget, status
                return status
            if each is not None and self.executed - told >= slices.SLICES[self.width]:
                told = self.executed
                each(abs(int(state["group"]) - first))

    def run_each(self, groups: Sequence[int], budget: int) -> int:
        """Run these groups, which may lie apart, in their order; the status of the first that does not end well."""
        alone, status = {}, layout.DONE
        for group in groups:
            status = self.run(group, group + 1, budget)
            alone[group] = int(self.bases[0])
            if status != layout.DONE:
                break
        self.alone = alone
        return status

    def move(self) -> None:
        """Move the range of CTAs that it runs next away from the last one."""
        if self.planes:
            self.planes.move()

    def _provide(self, status: int, planes: Planes) -> bool:
        """Do what compiled code stopped for; False where windows have no room for it."""
        state = self.state[0]
        if status == layout.SWEEP:
            planes.sweep()
            return True
        size = int(state["wanted"]) or int(self.image.code[state["fault_pc"], 7]) & 255
        done = planes.refine(int(state["fault_warp"]), size)
        state["fault_pc"], state["fault_warp"], state["wanted"] = -1, 0, 0
        return done

    def again(self, rows: Rows, segments: list[tuple[Bytes, bool]]) -> None:
        """Make it ready for another launch that differs in its arguments alone.  `remember` was called first."""
        for row, (type_, value) in rows.items():
            before = self._filled.get(row)
            if value.__class__ is int and before == (type_, value) and before[1].__class__ is int:
                continue  # floats may be equal and have other bits
            fill(self._first_registers, row, type_, value)
            self._filled[row] = type_, value
        for number, (data, _) in enumerate(segments):
            if self._known[number]() is data:  # as the allocations of a device memory are
                continue
            self._known[number] = weakref.ref(data)
            place = address_of(data), data.nbytes
            if place != self._places[number]:
                self._places[number] = place
                segment = self._first_segments[FIRST_ARRAY + number]
                segment["host"], segment["bytes"] = place
        if self.image.asynchronous:
            self.goes_on = True
            counted = [int(self.state[0][name]) for name in _COUNTED_ON]
        self.work = 0
        self.permits = self.sections = None
        for table, first in self._first:
            table[:] = first
        if self.goes_on:
            for name, count in zip(_COUNTED_ON, counted, strict=True):
                self.state[0][name] = count
        self._keep = segments
        self.plans_due["since"] = 0
        if self.planes:
            self.planes.again()

    def remember(self) -> bool:
        """Keep what its tables hold before it runs; False where they are too large for that to be worth it, or some are
        more than what the key of the launch says."""
        lasting = _PARTLY_USED | _OF_GROUPS if self.image.asynchronous else _PARTLY_USED
        tables = {
            name: table for name, table in vars(self).items() if isinstance(table, np.ndarray) and name not in lasting
        }
        large = sum(table.nbytes for table in tables.values()) > REMEMBERED
        if self.maps or self.marks or large or not self._is_idle():
            return False
        blocks: dict[str, Any] = {name: table.reshape(-1).view(np.uint8) for name, table in tables.items()}
        firsts = {name: block.copy() for name, block in blocks.items()}
        # views of memory: NumPy would let other threads in at each of these copies, and wait for them after it
        self._first = [(memoryview(block), memoryview(firsts[name])) for name, block in blocks.items()]
        self._first_registers = firsts["registers"].reshape(self.registers.shape)
        self._first_segments = firsts["segments"].view(layout.SEGMENT)
        self._filled: dict[int, tuple[str, int | float | bool]] = {}
        self._places = [(0, 0)] * len(self._keep)
        self._known: list[Callable[[], Bytes | None]] = [_dropped_array] * len(self._keep)
        return True

    def _is_idle(self) -> bool:
        """Return whether a launch on it may begin where the one before has ended, if it has asynchronous operations."""
        if not self.image.asynchronous:
            return True
        lasting = sum(table.nbytes for name, table in vars(self).items() if name in _OF_GROUPS or name == "known")
        return lasting <= LASTING and not self.program.cooperative and max(self.image.opcodes) < N_OPERATIONS

    def _may_rest(self) -> bool:
        """Return whether what it goes on with is what a group leaves that has ended well, and leaves room to count."""
        state = self.state[0]
        if self.status != layout.DONE or state["raw_count"] or state["slot_count"]:
            return False
        return bool(state["operations"] < MOST_OPERATIONS and 2 * state["top"] < state["worn"])

    def ended_well(self) -> bool:
        """Return whether its last run found nothing, and came to its end or to that of its budget."""
        return self.status in (layout.DONE, layout.BUDGET) and not self.state[0]["raw_count"]

    def repeated_outcome(self, budget: int) -> Outcome | None:
        """The outcome of the launch before, where this one did the same."""
        if self._told is None or self.state[0]["raw_count"] or (self.planes and self.planes.suspects()):
            return None
        tables, outcome = self._told
        return outcome if tables == self._counter_bytes() and outcome.warp_instructions <= budget else None

    def tell(self, outcome: Outcome) -> None:
        """Remember an outcome without findings of a launch that ran to its end: that of whatever leaves the same."""
        self._told = self._counter_bytes(), outcome

    def _counter_bytes(self) -> tuple[bytes, ...]:
        return self.flow.tobytes(), self.accesses.tobytes(), self.patterns.tobytes()

    def rest(self) -> bool:
        """After a run: be ready for `again`; False where it has grown."""
        state, planes = self.state[0], self.planes
        if self.image.asynchronous and not self._may_rest():
            return False
        if planes and not planes.rest(self.image.access_bytes):
            return False
        self.raw[: int(state["raw_count"])] = 0
        if state["slot_count"]:
            self.slots[:] = 0
        if state["apart"] and not self.image.asynchronous:
            self.known[:] = 0
        self._keep = []
        return True

    def close(self) -> None:
        """Leave the large tables to later launches."""
        state = self.state[0]
        give_back(self.raw, int(state["raw_count"]))
        give_back(self.slots, SLOTS if state["slot_count"] else 0)
        if self.watch.races or self.watch.recycling:
            POOL.give(self.known, 0, len(self.known) if state["apart"] or self.image.asynchronous else 0)
        if self.planes:
            self.planes.close()

    def _intervals_exhausted(self) -> bool:
        """The numbers of intervals may run out in the next slice: only a budget over the default can get there, or a
        wide group."""
        state = self.state[0]
        if self.planes is None:
            return False
        return max(int(self.warp_clocks.max()), int(state["top"])) > int(state["worn"])
