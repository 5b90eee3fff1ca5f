"""Registers whose value is equal in all lanes that execute an instruction together.

Several lanes of one store may write one element: they are right if they write the same value.  A run compares these
values, but only in its own order of atomics.  In every order they are the same if the value is *uniform*.  Arguments,
numbers of the CTA and votes are uniform.  So are plain loads at a uniform address, and results of uniform operands.

Lanes that execute an instruction together took the same path since the last join.  So a value may differ between lanes
for two reasons: an operand of its computation differs, or a branch whose guard differs chose between two values.  After
the join of such a branch, all rows that its sides write may differ.

Detects: rows that may differ, before each instruction.
Does not detect: equal values of different computations, and values that only the lanes of one element share, as in
`y[t % 16] = s[t % 16]`.  These count as different.
Reference: R.  Karrenberg, S.  Hack, "Improving performance of OpenCL on CPUs", CC 2012 (divergence analysis).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wsemu.model.control_flow import BRA, successors
from wsemu.model.isa import FIRST_STORE, N_MEMORY, NAMES, OPERATIONS
from wsemu.proof.taint import ACTIVE, VARYING, Analysis, list_sources
from wsemu.proof.taint_steps import plain_decoder

if TYPE_CHECKING:
    from wsemu.model.program import Program
    from wsemu.proof.taint_steps import Step

_OF_LANES = ("tid.x", "tid.y", "tid.z", "laneid", "local")
"""special registers that differ between the lanes of a warp"""
_OF_MEMBERS = ("vote.", "redux.", NAMES[ACTIVE])
"""first parts of the names of operations with one result for all lanes that execute them together"""
_WHOLE = 31
"""clamp and segment mask of a shuffle among all lanes of a warp"""


def stores_one_value(program: Program, pc: int) -> bool:
    """Return whether all lanes that execute the store at `pc` together write the same value, in every schedule."""
    key = "rows that differ"
    if key not in program.derived:
        program.derived[key] = _Flow(program).before
    before: dict[int, set[int]] = program.derived[key]
    steps = [step for step in plain_decoder(program).steps(pc) if step.kind == "store"]
    values = {row for step in steps for row in step.reads if row not in (step.address, step.guard)}
    return bool(steps) and pc in before and before[pc].isdisjoint(values)


def may_store_unequal(program: Program, *, lockstep: bool) -> bool:
    """Return whether lanes of a plain store may write values that depend on the order of atomics and are not the
    same in all lanes."""
    key = f"unequal stores, {'lockstep' if lockstep else 'lanes'}"
    if key not in program.derived:
        code = program.code
        sources = list_sources(program, lockstep)
        stores = np.flatnonzero((code[:, 0] >= FIRST_STORE) & (code[:, 0] < N_MEMORY)).tolist() if sources else []
        stores = [pc for pc in stores if not stores_one_value(program, pc)]
        analysis = Analysis(program, [1] * len(code), sources, None) if stores else None
        program.derived[key] = analysis is not None and bool(analysis.find_stored(stores))
    found: bool = program.derived[key]
    return found


class _Flow:
    """Follows rows that may differ, to a fixed point."""

    def __init__(self, program: Program) -> None:
        self.code: list[list[int]] = program.code.tolist()
        self.after = [successors(pc, row) for pc, row in enumerate(self.code)]
        self.steps = [[*plain_decoder(program).steps(pc)] for pc in range(len(self.code))]
        self.has_local = bool(program.local_bytes)
        self.before: dict[int, set[int]] = {0: {row for name, row in program.specials.items() if name in _OF_LANES}}
        """instruction -> the rows that may differ between lanes before it"""
        self.mixed: dict[int, set[int]] = {}
        """instruction -> the rows that differ there because lanes come from several sides of a branch"""
        self._run()

    def _run(self) -> None:
        pending = [0]
        while pending:
            pc = pending.pop()
            state = set(self.before[pc])
            for step in self.steps[pc]:
                self._follow(step, state)
            if self.code[pc][0] == BRA and self.code[pc][1] >> 1 in state:
                pending += self._part(pc)
            for target in self.after[pc]:
                if target < len(self.code) and self._arrive(target, state):
                    pending.append(target)

    def _arrive(self, target: int, state: set[int]) -> bool:
        """Add rows that differ to those before an instruction; return whether there are more now."""
        known = self.before.get(target)
        more = state | self.mixed.get(target, set()) | (known or set())
        if known == more:
            return False
        self.before[target] = more
        return True

    def _part(self, branch: int) -> list[int]:
        """Let the rows that the sides of a branch write differ at its join; return the joins where more rows do.
        Without a join they differ wherever these sides lead."""
        region = self._find_region(branch)
        written = {row for pc in region for step in self.steps[pc] for row in step.writes}
        join = self.code[branch][5]
        places = [join] if 0 <= join < len(self.code) else [*region]
        for at in places:
            self.mixed[at] = self.mixed.get(at, set()) | written
        return [at for at in places if at in self.before and self._arrive(at, set())]

    def _find_region(self, branch: int) -> set[int]:
        """Return the instructions between a branch and its join."""
        found, pending = set[int](), [*self.after[branch]]
        while pending:
            pc = pending.pop()
            if pc != self.code[branch][5] and pc not in found and pc < len(self.code):
                found.add(pc)
                pending += self.after[pc]
        return found

    def _follow(self, step: Step, state: set[int]) -> None:
        """Apply the effect of one instruction."""
        inputs = self._find_inputs(step)
        differs = inputs is None or not state.isdisjoint(inputs)
        for row in step.writes:
            (state.add if differs or (step.guard and row in state) else state.discard)(row)

    def _find_inputs(self, step: Step) -> tuple[int, ...] | None:
        """Return the rows that must be equal in all lanes for the result to be equal; None if it may differ anyway."""
        fields = self.code[step.pc]
        name = NAMES[fields[0]]
        kind = OPERATIONS[name].kind
        if kind == "alu" and name not in VARYING:
            return step.reads
        if kind == "load" and step.address >= 0 and not self.has_local:
            return step.reads
        guards = (step.guard,) if step.guard else ()
        if kind == "warp" and step.kind == "warp" and not fields[7]:
            if name.startswith("shfl.idx.") and fields[6] == _WHOLE:
                return (fields[4], *step.operands, *guards)
            if name.startswith(_OF_MEMBERS):
                return (*step.operands, *guards)
        return None
