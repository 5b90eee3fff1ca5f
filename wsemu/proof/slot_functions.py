"""Decide launches in which numbers returned by atomics determine what each thread accesses.

A *draw* is an atomic on a counter whose result is used, and the result is the *drawn number*.  If all draws from a
counter use the same operation, they return the same numbers in every order, each number once.  A register row is *pure*
if its value is a function of the last number that its thread drew and of values that are uniform in the launch.  If
drawn numbers influence only pure conditions and pure addresses, then the accesses for a number do not depend on the
thread that drew it.  One run therefore performs the accesses of every order: docs/how.md, "Functions of drawn numbers".

A row is not pure after a branch that depends on the thread, if one side of the branch writes the row.  Nor is it pure
if its number was drawn in an earlier iteration of a loop.

Detects: slots like `p ^ 1` or `2 * p + k`, bounds like `if p < n`, counters that decrease or wrap, in arrays and in
shared memory.
Does not detect: drawn numbers that pass through memory or other lanes, draws whose operand differs between threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.model.control_flow import successors
from wsemu.model.data import NamedTuple
from wsemu.model.isa import ADDRESS_WRAPPED, ATOMICS, NAMES, OPERATIONS, SCOPES, SEGMENT_SHIFT, SHARED, access_shape
from wsemu.proof.taint import GUARDED, VARYING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from wsemu.model.outcome import Trace
    from wsemu.model.program import Program
    from wsemu.proof.taint import Analysis
    from wsemu.proof.taint_steps import Step

Draws = frozenset[int]
"""the instructions of draws on which a value depends"""
Pure = dict[int, Draws]
"""row -> the draws on which its value depends; rows that are not pure are missing"""
Thread = tuple[int, int, int]
"""(CTA, warp, lane)"""
Location = tuple[int, int]
"""(CTA if it is in shared memory, otherwise -1; address)"""
_NONE: Draws = frozenset()
_GUARDS = (GUARDED["load"], GUARDED["store"])
_ALONE = ("alu", "load", "store", "control")
"""kinds of operations that a thread performs without other threads"""


class Use(NamedTuple):
    """The instructions that drawn numbers influence."""

    accesses: dict[int, int]
    """instruction of an access -> the draw on which its address depends"""
    draws: frozenset[int]
    """all draws from the counters of these accesses"""
    lonely: dict[int, frozenset[int]]
    """access whose address depends on no draw, but which executes only for some drawn numbers -> the draws of these"""


class SlotFunctions:
    """The pure rows of a program before each executed instruction."""

    def __init__(self, program: Program, analysis: Analysis, executions: list[int], uniform: frozenset[int]) -> None:
        """Analyze a program; `uniform` are rows with one value in the whole launch."""
        self.program, self.analysis = program, analysis
        self.code = program.code.tolist()
        self.names = [NAMES[fields[0]] for fields in self.code]
        self.steps: dict[int, list[Step]] = {}
        for block in analysis._blocks.values():
            for step in block.steps:
                self.steps.setdefault(step.pc, []).append(step)
        self.after = [successors(pc, fields) for pc, fields in enumerate(self.code)]
        self.leading: dict[int, list[int]] = {}
        """instruction -> its predecessors, executed or not"""
        for pc, after in enumerate(self.after):
            for at in after:
                self.leading.setdefault(at, []).append(pc)
        self.controls = [OPERATIONS[name].kind == "control" for name in self.names]
        self.executed = [
            bool(executions[pc]) or (self.controls[pc] and len(after) == 1) for pc, after in enumerate(self.after)
        ]
        self.regions = {
            pc: self._find_region(pc) for pc, after in enumerate(self.after) if len(after) > 1 and self.executed[pc]
        }
        self.written = {pc: self._find_written(region) for pc, region in self.regions.items()}
        self.rounds: dict[int, frozenset[int]] = {}
        self.joined: dict[int, list[int]] = {}
        for pc in self.regions:
            self.joined.setdefault(self.code[pc][5], []).append(pc)
        self.before: dict[int, Pure] = {0: dict.fromkeys(uniform, _NONE)}
        self.guards: dict[int, Draws | None] = {}
        """branch -> the draws on which its guard depends; None if the guard is not pure"""
        self._flow()

    def find_use(self) -> Use | None:
        """Return the instructions that drawn numbers influence; None if one of them also depends on a value that is not
        pure.
        """
        influenced = {t.pc for t in self.analysis.find_tainted if t.what == "address"}
        accesses: dict[int, int] = {}
        lonely: dict[int, Draws] = {}
        for pc, what in sorted({(t.pc, t.what) for t in self.analysis.find_tainted}):
            state = self.before.get(pc, {})
            step = self.steps[pc][0]
            row = step.address if what == "address" else step.guard
            draws = state.get(row)
            if not draws or (step.guard and step.guard not in state):
                return None
            if what == "address":
                if len(draws) > 1 or step.kind not in ("load", "store"):
                    return None
                accesses[pc] = next(iter(draws))
            elif self.controls[pc]:
                region = self._find_influenced(pc)
                if any(OPERATIONS[self.names[at]].kind not in _ALONE for at in region):
                    return None
                found = (at for at in region if OPERATIONS[self.names[at]].kind in ("load", "store"))
                if not all(map(self._is_guard_pure, region)):
                    return None
                lonely |= {at: lonely.get(at, _NONE) | draws for at in found if at not in influenced}
            elif what not in _GUARDS or pc not in influenced:
                return None
        return self._with_draws(accesses, lonely)

    def _with_draws(self, accesses: dict[int, int], lonely: dict[int, Draws]) -> Use | None:
        used = {*accesses.values()} | {pc for found in self.guards.values() for pc in found or ()}
        groups = [group for group in self.analysis.meeting() if group & used]
        draws = frozenset[int]().union(*groups)
        # the used draws must be all draws of their counters: in another order, any of them may return this number
        fits = used == draws and all(len(group) == 1 for group in groups) and all(self._draws(pc) for pc in draws)
        sides = (region for pc, region in self.regions.items() if self.guards.get(pc) is None)
        parted = {pc: found for pc, found in self.guards.items() if found}
        ends = [
            *((pc, draw) for pc, draw in accesses.items()),
            *((pc, d) for pc, found in parted.items() for d in found),
        ]
        crossed = any(pc in region and draw not in region for region in sides for pc, draw in ends)
        return Use(accesses, draws, lonely) if used and fits and not crossed else None

    def _draws(self, pc: int) -> bool:
        what, type_ = ATOMICS[self.names[pc]]
        return what in ("add", "inc", "dec") and type_[0] == "b" and not self.code[pc][7] & SCOPES

    # -- branches -----------------------------------------------------------------------------------------------------
    def _find_region(self, branch: int) -> frozenset[int]:
        """Return the executed instructions between a branch and its join."""
        join, found = self.code[branch][5], set[int]()
        pending = [*self.after[branch]]
        while pending:
            pc = pending.pop()
            if pc == join or pc in found or pc >= len(self.code) or not self.executed[pc]:
                continue
            found.add(pc)
            pending += self.after[pc]
        return frozenset(found)

    def _find_rounds(self, pc: int) -> frozenset[int]:
        """Return the rows written in the loop around a draw: their values differ between the draws of its
        iterations."""
        if pc not in self.rounds:
            after = frozenset(self._find_rest(pc))
            inside = after & frozenset(self._find_leading(pc)) if pc in after else _NONE
            self.rounds[pc] = self._find_written(inside)
        return self.rounds[pc]

    def _find_leading(self, pc: int) -> Iterator[int]:
        """Yield the executed predecessors of an instruction."""
        seen, pending = set[int](), [pc]
        while pending:
            for at in self.leading.get(pending.pop(), ()):
                if at not in seen and self.executed[at]:
                    seen.add(at)
                    yield at
                    pending.append(at)

    def _find_written(self, region: frozenset[int]) -> frozenset[int]:
        return frozenset(row for pc in region for step in self.steps.get(pc, ()) for row in step.writes)

    def _is_guard_pure(self, pc: int) -> bool:
        """Return whether the guard of an instruction is a function of the number that its thread drew."""
        guards = [step.guard for step in self.steps.get(pc, ()) if step.guard]
        return all(row in self.before.get(pc, {}) for row in guards)

    def _may_end(self, pc: int) -> bool:
        """Return whether a thread may end at an instruction."""
        return self.controls[pc] and (not self.after[pc] or (len(self.after[pc]) == 1 and bool(self.code[pc][1] >> 1)))

    def _find_influenced(self, pc: int) -> frozenset[int]:
        """Return the instructions that execute only for one outcome of a branch or an exit."""
        region = self.regions.get(pc)
        if region is None or any(map(self._may_end, region)):
            return frozenset(self._find_rest(pc))
        return region

    def _find_rest(self, pc: int) -> Iterator[int]:
        seen, pending = set[int](), [*self.after[pc]]
        while pending:
            at = pending.pop()
            if at not in seen and at < len(self.code) and self.executed[at]:
                seen.add(at)
                yield at
                pending += self.after[at]

    # -- fixed point --------------------------------------------------------------------------------------------------
    def _flow(self) -> None:
        """Compute the pure rows as a fixed point: a branch that proves impure removes rows at its join, so the flow
        repeats.
        """
        while True:
            guards = dict(self.guards)
            pending = [*self.before]
            while pending:
                pc = pending.pop()
                state = dict(self.before[pc])
                self._join_sides(pc, state)
                for step in self.steps.get(pc, ()):
                    self._run(step, state)
                for target in self.after[pc]:
                    if target < len(self.code) and self.executed[target] and self._arrive(target, state):
                        pending.append(target)
            if guards == self.guards:
                return

    def _arrive(self, target: int, state: Pure) -> bool:
        known = self.before.get(target)
        if known is None:
            self.before[target] = dict(state)
            return True
        joined = {row: draws | state[row] for row, draws in known.items() if row in state}
        if joined == known:
            return False
        self.before[target] = joined
        return True

    def _join_sides(self, pc: int, state: Pure) -> None:
        """Make rows that the sides of a branch write depend on the guard of the branch, where the sides join."""
        for branch in self.joined.get(pc, ()):
            guard = self.guards.get(branch)
            for row in self.written[branch] & state.keys():
                if guard is None:
                    del state[row]
                else:
                    state[row] |= guard

    def _run(self, step: Step, state: Pure) -> None:
        if self.controls[step.pc] and step.guard:
            self._part(step, state)
            return
        result: Draws | None = None
        if step.kind == "atomic" and step.writes:
            rounds = self._find_rounds(step.pc)
            for row in [row for row, draws in state.items() if step.pc in draws or (not draws and row in rounds)]:
                del state[row]
            result = None if step.guard else frozenset({step.pc})
        elif step.kind == "alu" and step.reads and self.names[step.pc] not in VARYING:
            operands = [state.get(row) for row in (*step.reads, *(step.writes if step.guard else ()))]
            if None not in operands:
                result = _NONE.union(*(draws for draws in operands if draws is not None))
        for row in step.writes:
            if result is None:
                state.pop(row, None)
            else:
                state[row] = result

    def _part(self, step: Step, state: Pure) -> None:
        """Record the draws on which a branch or exit depends; if it is impure, drop the rows that it makes impure."""
        guard = state.get(step.guard)
        known = self.guards.get(step.pc, _NONE)
        self.guards[step.pc] = None if guard is None or known is None else known | guard
        if self.guards[step.pc] is None:
            region = self.regions.get(step.pc)
            for row in [row for row, d in state.items() if d and (region is None or d & region)]:
                del state[row]


class Touched:
    """The locations that a run accesses, with the draws on which their addresses depend."""

    def __init__(self) -> None:
        self.counters: dict[Location, tuple[str, int, int]] = {}
        """counter -> operation of its draws, their operand, and its size in bytes"""
        self.owners: dict[Location, set[int]] = {}
        """byte -> the draws for whose numbers it was accessed"""
        self.lonely: dict[Location, set[Thread]] = {}
        """byte -> the threads that accessed it only for some drawn numbers"""
        self.stored: set[Location] = set()
        """bytes of `owners` and `lonely` that were written"""
        self.others: dict[Location, bool] = {}
        """byte of any other access -> whether one of these accesses wrote it"""
        self.stores: dict[int, set[Location]] = {}
        """store -> the bytes of `others` that it wrote"""
        self.paths: dict[int, set[int]] = {}
        """draw -> the accesses that its number executed, among those that not every number executes"""
        self.draws = 0
        self.last: dict[tuple[Thread, int], int] = {}

    def takes(
        self, use: Use, name: str, pc: int, thread: Thread, location: Location, operand: int | None
    ) -> bool:  # fmt: skip
        """Record an access of a lane, and return whether it is consistent with `use`."""
        stores, size = access_shape(name)
        span = [(location[0], at) for at in range(location[1], location[1] + size)]
        if pc in use.draws:
            what = ATOMICS[name][0], operand or 0, size
            self.last[thread, pc] = self.draws
            self.paths[self.draws] = set()
            self.draws += 1
            self.others.update(dict.fromkeys(span, True))
            return operand is not None and operand != 0 and self.counters.setdefault(location, what) == what
        if pc in use.accesses:
            draw = self.last.get((thread, use.accesses[pc]))
            if draw is None:
                return False
            for at in span:
                self.owners.setdefault(at, set()).add(draw)
        elif pc in use.lonely:
            for draw_pc in use.lonely[pc]:
                if (thread, draw_pc) in self.last:
                    self.paths[self.last[thread, draw_pc]].add(pc)
            for at in span:
                self.lonely.setdefault(at, set()).add(thread)
        else:
            writes = stores or OPERATIONS[name].kind == "atomic"
            self.others.update({at: writes or self.others.get(at, False) for at in span})
            if stores:
                self.stores.setdefault(pc, set()).update(span)
            return True
        if stores:
            self.stored.update(span)
        return True

    def find_resets(self) -> list[int]:
        """Return the stores to counters: the numbers that are drawn depend on what they store."""
        counters = {
            (own, at) for (own, start), (_, _, size) in self.counters.items() for at in range(start, start + size)
        }
        return sorted(pc for pc, written in self.stores.items() if not written.isdisjoint(counters))

    def have_one_owner(self) -> bool:
        """Return whether each written location belongs to one drawn number or to one thread."""
        for at in self.stored:
            if at in self.others or len(self.owners.get(at, ())) + len(self.lonely.get(at, ())) > 1:
                return False
        return not any(self.others.get(at) for table in (self.owners, self.lonely) for at in table)


def shows_one_owner(program: Program, use: Use, trace: Trace, operands: Mapping[int, int]) -> Touched | None:
    """Return the locations of a run if each written one has a single owner, otherwise None.

    `operands` maps a draw to its amount.
    """
    code, found = program.code, Touched()
    for event in trace.events:
        if event.kind != "access":
            continue
        name = NAMES[int(code[event.pc, 0])]
        for lane, address in trace.lane_addresses(event).items():
            address &= ~ADDRESS_WRAPPED
            own = event.cta if address >> SEGMENT_SHIFT == SHARED else -1
            thread = event.cta, event.warp, lane
            if not found.takes(use, name, event.pc, thread, (own, address), operands.get(event.pc)):
                return None
    return found if trace.complete and found.have_one_owner() else None
