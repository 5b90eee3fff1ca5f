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

import heapq
from typing import TYPE_CHECKING

import numpy as np

from wsemu.model.control_flow import BRA, successors
from wsemu.model.data import NamedTuple
from wsemu.model.isa import FIRST_STORE, N_MEMORY, NAMES, OPERATIONS
from wsemu.proof.taint import ACTIVE, VARYING, Analysis, list_sources
from wsemu.proof.taint_steps import plain_decoder

if TYPE_CHECKING:
    from collections.abc import Iterable

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
    known: dict[int, bool] = program.remember("stores of one value", None, dict)
    if pc not in known:
        known[pc] = _stores_one_value(program, pc)
    return known[pc]


def copies_one_range(program: Program, pc: int) -> bool:
    """Return whether all lanes that execute the bulk store at `pc` together copy the same bytes to the same location,
    in every schedule."""
    steps = [*plain_decoder(program).steps(pc)]
    rows = {row for step in steps for row in (*step.reads, step.address, *step.operands) if row != step.guard}
    return bool(steps) and _find_flow(program).is_uniform(pc, {row for row in rows if row >= 0})


def _stores_one_value(program: Program, pc: int) -> bool:
    flow = _find_flow(program)
    steps = [step for step in plain_decoder(program).steps(pc) if step.kind == "store"]
    values = {row for step in steps for row in step.reads if row not in (step.address, step.guard)}
    return bool(steps) and flow.is_uniform(pc, values)


def _find_flow(program: Program) -> _Flow:
    """Return the flow of a program, from the program's cache."""
    key = "rows that differ"
    if key not in program.derived:
        program.derived[key] = _Flow(program)
    found: _Flow = program.derived[key]
    return found


def may_store_unequal(program: Program, *, lockstep: bool) -> bool:
    """Return whether lanes of a plain store may write values that depend on the order of atomics and are not the
    same in all lanes."""
    return program.remember("unequal stores", lockstep, lambda: _may_store_unequal(program, lockstep))


def _may_store_unequal(program: Program, lockstep: bool) -> bool:
    code = program.code
    sources = list_sources(program, lockstep)
    stores = np.flatnonzero((code[:, 0] >= FIRST_STORE) & (code[:, 0] < N_MEMORY)).tolist() if sources else []
    stores = [pc for pc in stores if not stores_one_value(program, pc)]
    return bool(stores) and bool(Analysis(program, [1] * len(code), sources, None).find_stored(stores))


class _Effect(NamedTuple):
    """The effect of an instruction on the rows that differ; sets of rows are bits."""

    inputs: int
    """The rows that must be equal in all lanes for the result to be equal."""
    varies: bool
    """The result may differ anyway."""
    writes: int
    guarded: bool

    def apply(self, state: int) -> int:
        """Return the rows that may differ afterwards."""
        if self.varies or state & self.inputs:
            return state | self.writes
        return state if self.guarded else state & ~self.writes


class _Flow:
    """Follows rows that may differ, to a fixed point."""

    def __init__(self, program: Program) -> None:
        self.code: list[list[int]] = program.code.tolist()
        self.after = [[to for to in successors(pc, row) if to < len(self.code)] for pc, row in enumerate(self.code)]
        self.has_local = bool(program.local_bytes)
        self.bits: dict[int, int] = {}
        """the bit of each row"""
        steps = [[*plain_decoder(program).steps(pc)] for pc in range(len(self.code))]
        self.effects = [[self._find_effect(step) for step in own] for own in steps]
        self.before = {0: self._join(row for name, row in program.specials.items() if name in _OF_LANES)}
        """instruction -> the rows that may differ between lanes before it"""
        self.mixed: dict[int, int] = {}
        """instruction -> the rows that differ there because lanes come from several sides of a branch"""
        self.parted: set[int] = set()
        """branches whose guard may differ"""
        self._run()

    def is_uniform(self, pc: int, rows: Iterable[int]) -> bool:
        """Return whether rows are equal in all lanes that execute an instruction together."""
        return pc in self.before and not self.before[pc] & self._join(rows)

    def _join(self, rows: Iterable[int]) -> int:
        """Return the bits of rows."""
        found = 0
        for row in rows:
            found |= self.bits.setdefault(row, 1 << len(self.bits))
        return found

    def _run(self) -> None:
        """Follow instructions in program order as long as more rows differ."""
        pending = [0]
        waiting = {0}
        while pending:
            pc = heapq.heappop(pending)
            waiting.discard(pc)
            state = self.before[pc]
            for effect in self.effects[pc]:
                state = effect.apply(state)
            grown = [target for target in self.after[pc] if self._arrive(target, state)]
            if self.code[pc][0] == BRA and pc not in self.parted and state & self._join((self.code[pc][1] >> 1,)):
                self.parted.add(pc)
                grown += self._part(pc)
            for target in grown:
                if target not in waiting:
                    waiting.add(target)
                    heapq.heappush(pending, target)

    def _arrive(self, target: int, state: int) -> bool:
        """Add rows that differ to those before an instruction; return whether there are more now."""
        known = self.before.get(target)
        more = state | self.mixed.get(target, 0) | (known or 0)
        if known == more:
            return False
        self.before[target] = more
        return True

    def _part(self, branch: int) -> list[int]:
        """Let the rows that the sides of a branch write differ at its join; return the joins where more rows do.
        Without a join they differ wherever these sides lead."""
        region = self._find_region(branch)
        written = 0
        for pc in region:
            for effect in self.effects[pc]:
                written |= effect.writes
        join = self.code[branch][5]
        places = [join] if 0 <= join < len(self.code) else [*region]
        for at in places:
            self.mixed[at] = self.mixed.get(at, 0) | written
        return [at for at in places if at in self.before and self._arrive(at, 0)]

    def _find_region(self, branch: int) -> set[int]:
        """Return the instructions between a branch and its join."""
        found, pending = set[int](), [*self.after[branch]]
        while pending:
            pc = pending.pop()
            if pc != self.code[branch][5] and pc not in found:
                found.add(pc)
                pending += self.after[pc]
        return found

    def _find_effect(self, step: Step) -> _Effect:
        """Return the effect of one instruction."""
        inputs = self._find_inputs(step)
        return _Effect(self._join(inputs or ()), inputs is None, self._join(step.writes), bool(step.guard))

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
