"""Find guarded writes that overwrite a register for good: lanes that skip the write never read the old value.

An example is `@p mov r, x; @p bra LOOP; ret` where only LOOP reads r: lanes with a false guard return.  The search
starts after the write with the guard assumed false, and evaluates operations whose operands are known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.model.control_flow import EXIT, JUMPS
from wsemu.model.isa import NAMES, OPERATIONS
from wsemu.proof.taint_steps import plain_decoder
from wsemu.reference.arithmetic import semantics
from wsemu.reference.run import encode_register

if TYPE_CHECKING:
    from wsemu.model.program import Program
    from wsemu.proof.taint_steps import Step

MOST_STEPS = 4_000
"""maximum number of instructions that are followed for one write"""
Known = dict[int, int]
"""row of a register -> its known value"""


def find_overwriting(program: Program) -> frozenset[int]:
    """Return the guarded writes after which no lane reads the old values of their registers."""
    if "overwriting" not in program.derived:
        program.derived["overwriting"] = _Search(program).find()
    found: frozenset[int] = program.derived["overwriting"]
    return found


class _Search:
    """The paths from guarded writes."""

    def __init__(self, program: Program) -> None:
        self.code = program.code.tolist()
        self.names = [NAMES[fields[0]] for fields in self.code]
        decoder = plain_decoder(program)
        self.steps: list[list[Step]] = [list(decoder.steps(pc)) for pc in range(len(self.code))]
        self.constants = {
            row: int(bool(value)) if type_ == "p" else encode_register(type_, value)
            for row, type_, value in program.constants
        }

    def find(self) -> frozenset[int]:
        writes = [
            (pc, frozenset(row for step in self.steps[pc] for row in step.writes))
            for pc, fields in enumerate(self.code)
            if fields[1] >> 1
        ]
        return frozenset(pc for pc, rows in writes if rows and self._is_dropped(pc, rows))

    def _is_dropped(self, start: int, rows: frozenset[int]) -> bool:
        """Return whether rows are never read after a write that was skipped."""
        guard = self.code[start][1]
        left: list[tuple[int, frozenset[int], Known]] = [(start + 1, rows, {guard >> 1: guard & 1})]
        seen: set[tuple[int, frozenset[int], frozenset[tuple[int, int]]]] = set()
        while left:
            pc, rows, known = left.pop()
            key = pc, rows, frozenset(known.items())
            if key in seen or pc >= len(self.code) or not rows:
                continue
            seen.add(key)
            if len(seen) > MOST_STEPS:
                return False
            executes = self._executes(pc, known)
            if executes is not False and not rows.isdisjoint(self._reads(pc)):
                return False
            left += self._follow(pc, rows, known, executes)
        return True

    def _executes(self, pc: int, known: Known) -> bool | None:
        """Return whether an instruction is executed; None if that is not known."""
        guard = self.code[pc][1]
        if not guard >> 1:
            return True
        value = known.get(guard >> 1)
        return None if value is None else bool(value) != bool(guard & 1)

    def _reads(self, pc: int) -> set[int]:
        found = {self.code[pc][1] >> 1}
        for step in self.steps[pc]:
            found.update(step.reads, step.operands, (step.address,))
        return found

    def _follow(
        self, pc: int, rows: frozenset[int], known: Known, executes: bool | None
    ) -> list[tuple[int, frozenset[int], Known]]:
        """Return the next instructions, with the rows and values that are known there."""
        fields = self.code[pc]
        if executes is not False:
            written = {row for step in self.steps[pc] for row in step.writes}
            value = self._evaluate(pc, known) if executes else None
            known = {row: held for row, held in known.items() if row not in written}
            if value is not None:
                known[fields[2]] = value
            if executes:
                rows = rows - written
        found = []
        if fields[0] in JUMPS and executes is not False:
            found.append((fields[6], rows, known))
        if not executes or fields[0] not in (*JUMPS, EXIT):
            found.append((pc + 1, rows, known))
        return found

    def _evaluate(self, pc: int, known: Known) -> int | None:
        """Return the result of an arithmetic operation whose operands are known."""
        fields, operation = self.code[pc], OPERATIONS[self.names[pc]]
        if operation.kind != "alu":
            return None
        given = []
        for row in fields[3 : 3 + len(operation.operands)]:
            value = known.get(row, self.constants.get(row))
            if value is None:
                return None
            given.append(value)
        return int(semantics[self.names[pc]](*given))
