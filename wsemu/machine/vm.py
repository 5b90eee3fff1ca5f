"""One VM: it runs CTAs in slices, and can be reused by the next launch of its kind."""

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
from wsemu.machine.repeats import Repeats
from wsemu.machine.state import address_of
from wsemu.machine.tables import SLOTS, give_back
from wsemu.machine.tier import hot
from wsemu.model.isa import FIRST_ARRAY, N_OPERATIONS
from wsemu.model.outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from wsemu.machine.image import Bytes

REMEMBERED = 1 << 18
"""maximum bytes of a machine's tables; a larger machine is not kept for the next launch of its kind"""


_PARTLY_USED = frozenset({"raw", "slots", "known", "bases", "plans", "plans_due", "stacks", "lane_clocks", "leaders"})
"""tables of a machine that can be reused as they are: a run records what it touches, plans remain valid, and a warp
starts with an empty stack and without clocks of lanes"""


_OF_GROUPS = frozenset({
    "shared", "warps", "barriers", "ctas", "clocks", "warp_clocks", "mbarriers", "mbarrier_index", "agents", "groups",
    "phases", "acquired",
})  # fmt: skip
"""tables of a machine with asynchronous operations that a launch leaves as it finds them: its first group continues
from the last group of the previous launch, as each group does from the one before it"""


_COUNTED_ON = ("top", "operations", "mbarrier_count")
"""counters that such a machine continues from launch to launch, so that older contents of tables precede new ones"""


MOST_OPERATIONS = 1 << 30
"""maximum number of operations that it counts: 32 bits distinguish them"""


LASTING = 1 << 24
"""maximum bytes of these tables; a larger machine is not kept"""


_BY_NUMBER = frozenset({"agents", "phases"})
"""large tables that are zero before the first launch, of which a launch uses the beginning"""


RENEWED = 1 << 21
"""maximum bytes of the tables that `_renew` restores as a whole; a larger machine is not kept after findings"""


_FINDINGS = "findings"
"""key in `Program.derived`: a launch with asynchronous operations had findings"""


def _dropped_array() -> None:
    """Represent a reference to an array that no longer exists."""


def _as_bytes(table: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Return the bytes of a table: NumPy copies and clears records one by one."""
    return table.reshape(-1).view(np.uint8)


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
        """Run the groups from `first` to before `last`, and return the status; `each` receives the number of finished
        groups.

        The run returns to Python between slices, so that Ctrl-C works, and whenever compiled code needs the host.
        """
        state, address = self.state[0], address_of(self.state)
        state["group"], state["group_end"], state["group_step"], state["group_first"] = first, last, step, first
        self.alone = {}
        self.executed = told = 0
        self.repeats = Repeats(self)
        while True:
            if self.tier != "off":
                hot.look(self)
            soon = hot.instructions_until_block(self, slices.FIRST_SLICE) if hot.may_need_block(self) else budget
            piece = self.repeats.shorten(min(budget, slices.SLICES[self.width], soon))
            state["budget"], state["patience"] = piece, slices.PATIENCE
            status = self.entry(address)
            hot.settle(self)
            executed = piece - int(state["budget"])  # with the overdraft: slices end at any instruction
            budget -= executed
            hot.warm(self, executed)
            if budget >= 0 and status != layout.DONE:
                status = self.repeats.look(executed, status)
                budget -= self.repeats.used
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
                or self.repeats.found
                or (stop is not None and stop.is_set())
                or self._intervals_exhausted()
            ):
                self.left, self.status = budget, status
                return status
            if each is not None and self.executed - told >= slices.SLICES[self.width]:
                told = self.executed
                each(abs(int(state["group"]) - first))

    def run_each(self, groups: Sequence[int], budget: int) -> int:
        """Run these groups, which need not be adjacent, in order; return the first status that is not DONE."""
        alone, status = {}, layout.DONE
        for group in groups:
            status = self.run(group, group + 1, budget)
            if self.watch.races or self.watch.recycling:
                alone[group] = int(self.bases[0])
            if status != layout.DONE:
                break
        self.alone = alone
        return status

    def move(self) -> None:
        """Move the range of CTAs that runs next away from the last one."""
        if self.planes:
            self.planes.move()

    def changeable_memory(self) -> list[Bytes]:
        """Return the memory that CTAs may change: shared and local memory, and the writable arrays."""
        return [self.shared, self.local, *(data for data, writable in self._keep if writable)]

    def _provide(self, status: int, planes: Planes) -> bool:
        """Do what compiled code stopped for; return False if windows have no room for it."""
        state = self.state[0]
        if status == layout.SWEEP:
            planes.sweep()
            return True
        size = int(state["wanted"]) or int(self.image.code[state["fault_pc"], 7]) & 255
        done = planes.refine(int(state["fault_warp"]), size)
        state["fault_pc"], state["fault_warp"], state["wanted"] = -1, 0, 0
        return done

    def again(self, rows: Rows, segments: list[tuple[Bytes, bool]]) -> None:
        """Prepare for another launch that differs only in its arguments; `remember` was called before the first run."""
        for row, (type_, value) in rows.items():
            before = self._filled.get(row)
            if value.__class__ is int and before == (type_, value) and before[1].__class__ is int:
                continue  # not for floats: equal ones may differ in their bits
            fill(self._first_registers, row, type_, value)
            self._filled[row] = type_, value
        for number, (data, _) in enumerate(segments):
            if self._known[number]() is data:  # allocations of a device memory persist between launches
                continue
            self._known[number] = weakref.ref(data)
            place = address_of(data), data.nbytes
            if place != self._places[number]:
                self._places[number] = place
                segment = self._first_segments[FIRST_ARRAY + number]
                segment["host"], segment["bytes"] = place
        if self.image.asynchronous:
            self.goes_on = not self._renewed
            counted = [int(self.state[0][name]) for name in _COUNTED_ON]
        self.work = 0
        self.permits = self.sections = None
        for table, first in self._first:
            table[:] = first
        if self.goes_on:
            for name, count in zip(_COUNTED_ON, counted, strict=True):
                self.state[0][name] = count
        self._keep, self._renewed = segments, False
        self.plans_due["since"] = 0
        if self.planes:
            self.planes.again()

    def remember(self) -> bool:
        """Keep the contents of the tables before the first run.

        Return False if the tables are too large, or depend on more than the key of the launch.
        """
        lasting = _PARTLY_USED | _OF_GROUPS if self.image.asynchronous else _PARTLY_USED
        tables = {
            name: table for name, table in vars(self).items() if isinstance(table, np.ndarray) and name not in lasting
        }
        large = sum(table.nbytes for table in tables.values()) > REMEMBERED
        if self.maps or self.marks or large or not self._is_idle():
            return False
        blocks: dict[str, Any] = {name: _as_bytes(table) for name, table in tables.items()}
        firsts = {name: block.copy() for name, block in blocks.items()}
        # views of memory: at each copy, NumPy would release the GIL to other threads, and then wait for it
        self._first = [(memoryview(block), memoryview(firsts[name])) for name, block in blocks.items()]
        self._first_registers = firsts["registers"].reshape(self.registers.shape)
        self._first_segments = firsts["segments"].view(layout.SEGMENT)
        self._filled: dict[int, tuple[str, int | float | bool]] = {}
        self._first_of_groups = self._copy_tables_of_groups()
        self._places = [(0, 0)] * len(self._keep)
        self._known: list[Callable[[], Bytes | None]] = [_dropped_array] * len(self._keep)
        return True

    def _copy_tables_of_groups(self) -> list[tuple[Any, Any]]:
        """Return the tables that `_renew` restores, each with a copy; none if it need not, or may not."""
        if _FINDINGS not in self.program.derived or self.planes is None:
            return []
        tables = [_as_bytes(table) for name, table in vars(self).items() if name in _OF_GROUPS - _BY_NUMBER]
        large = self.known.nbytes + sum(table.nbytes for table in tables) > RENEWED
        return [] if large else [(table, table.copy()) for table in tables]

    def _renew(self) -> bool:
        """Restore all tables after a launch with findings, so that the next one does not continue it.

        Return False if the machine has no copies of the tables.
        """
        self.program.derived[_FINDINGS] = True
        if not self._first_of_groups or self.status != layout.DONE:
            return False
        state = self.state[0]
        for table, first in self._first_of_groups:
            table[:] = first
        for table in (self.known, self.lane_clocks, self.leaders):
            table.fill(0)
        _as_bytes(self.agents[: int(state["top"])]).fill(0)
        self.phases[: len(self.phases) // len(self.mbarriers) * int(state["mbarrier_count"])] = 0
        self._renewed = True
        return True

    def _is_idle(self) -> bool:
        """Return whether the next launch may continue where the previous one ended, if it has asynchronous
        operations."""
        if not self.image.asynchronous:
            return True
        lasting = sum(table.nbytes for name, table in vars(self).items() if name in _OF_GROUPS or name == "known")
        return lasting <= LASTING and not self.program.cooperative and max(self.image.opcodes) < N_OPERATIONS

    def _may_rest(self) -> bool:
        """Return whether the last group ended without errors, and the counters have room for another launch."""
        state = self.state[0]
        if self.status != layout.DONE or state["raw_count"] or state["slot_count"]:
            return False
        return bool(state["operations"] < MOST_OPERATIONS and 2 * state["top"] < state["worn"])

    def ended_well(self) -> bool:
        """Return whether the last run found nothing, and reached its end or the end of its budget."""
        return self.status in (layout.DONE, layout.BUDGET) and not self.state[0]["raw_count"]

    def repeated_outcome(self, budget: int) -> Outcome | None:
        """Return the outcome of the previous launch if this one did the same, otherwise None."""
        if self._told is None or self.state[0]["raw_count"] or (self.planes and self.planes.suspects()):
            return None
        tables, outcome = self._told
        return outcome if tables == self._counter_bytes() and outcome.warp_instructions <= budget else None

    def tell(self, outcome: Outcome) -> None:
        """Record the outcome of a complete launch without findings: another launch with equal counters has the same
        one."""
        self._told = self._counter_bytes(), outcome

    def _counter_bytes(self) -> tuple[bytes, ...]:
        return self.flow.tobytes(), self.accesses.tobytes(), self.patterns.tobytes()

    def rest(self) -> bool:
        """Prepare for `again` after a run; return False if the machine has grown."""
        state, planes = self.state[0], self.planes
        if self.image.asynchronous and not self._may_rest() and not self._renew():
            return False
        if planes and not planes.rest(self.image.access_bytes):
            return False
        self.raw[: int(state["raw_count"])] = 0
        if state["slot_count"]:
            _as_bytes(self.slots).fill(0)
        if state["apart"] and not self.image.asynchronous:
            self.known[:] = 0
        self._keep = []
        return True

    def close(self) -> None:
        """Return the large tables to the pool."""
        state = self.state[0]
        give_back(self.raw, int(state["raw_count"]))
        give_back(self.slots, SLOTS if state["slot_count"] else 0)
        if self.watch.races or self.watch.recycling:
            touched = state["apart"] or self.image.asynchronous
            if not (touched and self.known.nbytes >= layout.SPARSE):  # fresh memory takes less time than to clear it
                POOL.give(self.known, 0, len(self.known) if touched else 0)
        if self.planes:
            self.planes.close()

    def _intervals_exhausted(self) -> bool:
        """Return whether the next slice may exhaust the numbers of intervals; only a budget above the default, or a
        wide group, can do that."""
        state = self.state[0]
        if self.planes is None:
            return False
        return max(int(self.warp_clocks.max()), int(state["top"])) > int(state["worn"])
