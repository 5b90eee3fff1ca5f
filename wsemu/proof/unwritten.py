"""Registers that nothing has written, on all paths of a program: where they may reach something observable.

The first run of a launch that atomics steer takes some paths; another order of these takes others, where such a
register may be read.  A long launch is not followed.  This analysis follows such values through the instructions that
are executed, or that any order may execute, as `taint` follows the results of atomics.

Detects: branches, exits, guards, addresses, operands, atomics and stores to arrays of the caller that may depend on a
register which no instruction has written on some path.
Does not detect: which of these paths exist (two branches on one condition count as independent); it errs on the side
of a report.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.model.data import NamedTuple
from wsemu.proof.taint import Analysis

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wsemu.model.program import Program
    from wsemu.proof.taint_steps import Bits, SegmentOf, Step


class Use(NamedTuple):
    """An executed instruction, and what it may do with values that nothing has written."""

    pc: int
    steps: list[Step]
    held: set[int]
    """the rows that such a value may be in before it"""
    outlives: bool
    """it writes, and only to arrays of the launch"""
    enters: bool
    """it may write to shared or local memory"""
    leaves: bool
    """it may read shared or local memory"""


class Unwritten(Analysis):
    """The influence of uninitialized registers, and of the results of some instructions."""

    def __init__(
        self,
        program: Program,
        executions: Sequence[int],
        segment_of: SegmentOf | None = None,
        others: frozenset[int] = frozenset(),
    ) -> None:
        """`others`: instructions that load bytes which nothing has written, or shuffle from lanes that take no part."""
        self._others = others
        super().__init__(program, executions, [-1], segment_of)

    def _exchange(self, step: Step, bits: Bits, arrays: Bits) -> Bits:
        return super()._exchange(step, bits, arrays) | (
            step.kind in ("load", "atomic", "warp") and step.pc in self._others
        )

    def _seed(self) -> None:
        for row, *_ in self._program.undefined:
            self._regions.entry[row] = self._regions.entry.get(row, 0) | 1

    def uses(self) -> Iterator[Use]:
        """Yield every executed instruction."""
        inside = self._regions.all_of("shared", "dynamic") | self._regions.all_of("local")
        written = self._regions.all_of("global")
        starts = sorted(self._blocks)
        for start, end in zip(starts, [*starts[1:], len(self._program.code)], strict=True):
            block = self._blocks[start]
            state = dict(block.state or {})
            held = {row for row, bits in state.items() if bits & 1}
            at: dict[int, list[Step]] = {}
            for step in block.steps:
                at.setdefault(step.pc, []).append(step)
            for pc in range(start, end):
                steps = at.get(pc, [])
                stored = [self._arrays(step, state) for step in steps if step.kind in ("store", "atomic")]
                loaded = [self._arrays(step, state) for step in steps if step.kind in ("load", "atomic")]
                outlives = bool(stored) and not any(arrays & ~written for arrays in stored)
                enters, leaves = (any(arrays & inside for arrays in each) for each in (stored, loaded))
                yield Use(pc, steps, held, outlives, enters, leaves)
                for step in steps:
                    self._run(step, state)
                    for row in step.writes:
                        (held.add if state.get(row, 0) & 1 else held.discard)(row)

    def find_reached(self, *, values: bool = False) -> tuple[int, str] | None:
        """Return the first instruction that an uninitialized register may reach, and its use there; None if there is
        none.  `values`: only as a value that is stored where others can see it."""
        written = self._regions.all_of("global")
        found = [] if values else [(t.pc, t.what) for t in self.find_tainted]
        for step, state in self._states():
            observable = step.kind == "atomic" or (step.kind == "store" and self._arrays(step, state) & written)
            if observable and any(state.get(row, 0) & 1 for row in step.reads):
                found.append((step.pc, "value"))
        return min(found, default=None)


def find_unwritten_reads(program: Program) -> frozenset[int]:
    """Return the instructions that may read, in any run, a register that nothing has written, or a value computed from
    one."""
    if not program.undefined:
        return frozenset()
    found: frozenset[int] | None = program.derived.get("unwritten_reads")
    if found is None:
        uses = Unwritten(program, [1] * len(program.code)).uses()
        found = program.derived["unwritten_reads"] = frozenset(use.pc for use in uses if _reads_held(use))
    return found


def _reads_held(use: Use) -> bool:
    return any(use.held & {*step.reads, *step.operands, step.guard, step.address} for step in use.steps)
