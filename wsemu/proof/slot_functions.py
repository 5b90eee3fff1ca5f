"""Decide launches in which numbers returned by atomics determine what each thread accesses.

A *draw* is an atomic on a counter whose result is used.  Draws from one counter by one operation return the same
numbers in every order, each number once.  A register row is *pure* if its value is a function of the last number that
its thread drew, and of values that are uniform in the launch.  If numbers influence only pure conditions and addresses,
the accesses for a number do not depend on the thread that draws it.  So one run performs the accesses of all orders:
docs/how.md, "Functions of drawn numbers".

A row is not pure after a branch that depends on the thread if a side of it writes the row, or if the number was drawn
in an earlier round of a loop.

Detects: slots like `p ^ 1` or `2 * p + k`, bounds like `if p < n`, counters that decrease or wrap, in arrays and in
shared memory.
Does not detect: numbers that pass through memory or other lanes, operands that differ by thread.
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
"""The instructions of draws on which a value depends."""
Pure = dict[int, Draws]
"""Row -> the draws on which its value depends; other rows are not pure."""
Thread = tuple[int, int, int]
"""(CTA, warp, lane)."""
Location = tuple[int, int]
"""(CTA of shared memory or -1, address)."""
_NONE: Draws = frozenset()
_GUARDS = (GUARDED["load"], GUARDED["store"])
_ALONE = ("alu", "load", "store", "control")
"""Kinds of operations that a thread performs without others."""


class Use(NamedTuple):
    """The instructions that drawn numbers influence."""

    accesses: dict[int, int]
    """Access -> the draw on which its address depends."""
    draws: frozenset[int]
    """All draws from their counters."""
    lonely: dict[int, frozenset[int]]
    """Access at another address, executed only for some numbers -> the draws of these numbers."""


class SlotFunctions:
    """The pure rows of a program at each instruction that was executed."""

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
        """Instruction -> its executed predecessors."""
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
        """Branch -> the draws on which its guard depends; None: it is not pure."""
        self._flow()

    def find_use(self) -> Use | None:
        """Return the instructions that drawn numbers influence; None if an influenced instruction also depends on
        something else."""
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
        # in another order, another draw of the counter may return this number
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
        """Return the rows that a loop around a draw writes: they differ between the draws of its iterations."""
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
        """Return whether the guard of an instruction depends only on the number of its thread."""
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
        """Run to a fixed point; branches that turn out not to be pure change rows at their joins."""
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
        """Let rows that the sides of branches write depend on the guards of these branches."""
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
        """Record the draws that a branch or an exit depends on; if it is not pure, drop numbers of earlier rounds."""
        guard = state.get(step.guard)
        known = self.guards.get(step.pc, _NONE)
        self.guards[step.pc] = None if guard is None or known is None else known | guard
        if self.guards[step.pc] is None:
            region = self.regions.get(step.pc)
            for row in [row for row, d in state.items() if d and (region is None or d & region)]:
                del state[row]


class Touched:
    """The accessed locations of a run, by the draws on which their addresses depend."""

    def __init__(self) -> None:
        self.counters: dict[Location, tuple[str, int, int]] = {}
        """Counter -> the operation of its draws, their operand, and its size in bytes."""
        self.owners: dict[Location, set[int]] = {}
        """Byte -> the draws for which it was accessed."""
        self.lonely: dict[Location, set[Thread]] = {}
        """Byte -> the threads that accessed it only for some numbers."""
        self.stored: set[Location] = set()
        """Written bytes of `owners` and `lonely`."""
        self.others: dict[Location, bool] = {}
        """Byte of other accesses -> whether one of them wrote."""
        self.paths: dict[int, set[int]] = {}
        """Draw -> the accesses for its number that are not executed for all numbers."""
        self.draws = 0
        self.last: dict[tuple[Thread, int], int] = {}

    def takes(
        self, use: Use, name: str, pc: int, thread: Thread, location: Location, operand: int | None
    ) -> bool:  # fmt: skip
        """Record an access of a lane; return whether it agrees with `use`."""
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
            return True
        if stores:
            self.stored.update(span)
        return True

    def have_one_owner(self) -> bool:
        """Return whether no location is accessed for two numbers, or by two threads, if one of them writes."""
        for at in self.stored:
            if at in self.others or len(self.owners.get(at, ())) + len(self.lonely.get(at, ())) > 1:
                return False
        return not any(self.others.get(at) for table in (self.owners, self.lonely) for at in table)


def shows_one_owner(program: Program, use: Use, trace: Trace, operands: Mapping[int, int]) -> Touched | None:
    """Return the accesses of a run if each location has one owner, otherwise None; `operands` are the amounts of
    draws."""
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
