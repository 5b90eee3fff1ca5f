"""Find uninitialized registers, on all paths of a program, that may reach something observable.

The first run of a launch takes some paths. If atomics decide control flow, another interleaving may take other paths,
on which such a register is read. A long launch is not explored. This analysis follows uninitialized registers through
the instructions that were executed, or that any interleaving may execute, as `taint` follows the results of atomics.

Detects: branches, exits, guards, addresses, operands, atomics and stores to arrays of the caller that may depend on a
register that is uninitialized on some path. Does not detect: that a path cannot be taken (two branches on one condition
count as independent), so it may report too much.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.model.data import NamedTuple
from wsemu.model.isa import ATOMICS, NAMES, NO_STORE, OPERATIONS
from wsemu.proof.taint import Analysis
from wsemu.proof.taint_steps import segment_pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wsemu.model.program import Program
    from wsemu.proof.taint_steps import Bits, SegmentOf, Step


class Use(NamedTuple):
    """An executed instruction, and its possible effects on values from uninitialized registers."""

    pc: int
    steps: list[Step]
    held: set[int]
    """rows that may hold such a value before the instruction"""
    outlives: bool
    """true if it writes, and only to arrays of the launch"""
    enters: bool
    """true if it may write to shared or local memory"""
    leaves: bool
    """true if it may read shared or local memory"""


class Unwritten(Analysis):
    """The influence of uninitialized registers, and of the results of some instructions."""

    def __init__(
        self,
        program: Program,
        executions: Sequence[int],
        segment_of: SegmentOf | None = None,
        others: frozenset[int] = frozenset(),
    ) -> None:
        """Analyze a program; `others` are loads of uninitialized bytes, and shuffles from lanes that do not
        participate."""
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
        none.

        With `values`, only values count that are stored where others can observe them.
        """
        written = self._regions.all_of("global")
        found = [] if values else [(t.pc, t.what) for t in self.find_tainted]
        for step, state in self._states():
            observable = step.kind == "atomic" or (step.kind == "store" and self._arrays(step, state) & written)
            if observable and any(state.get(row, 0) & 1 for row in step.reads):
                found.append((step.pc, "value"))
        return min(found, default=None)


def find_reached(program: Program, segment_of: SegmentOf | None, *, values: bool = False) -> tuple[int, str] | None:
    """Return the first instruction of a program that an uninitialized register may reach on some path, as
    `Unwritten.find_reached` does."""
    return program.remember(
        "unwritten", (segment_pattern(program, segment_of), values),
        lambda: Unwritten(program, [1] * len(program.code), segment_of).find_reached(values=values),
    )  # fmt: skip


def only_returns(program: Program, pc: int) -> bool:
    """Return whether an instruction only returns an undefined value that it reads.  Other atomics also store a sum or
    the like, and copies move the value."""
    name = NAMES[int(program.code[pc, 0])]
    kind = OPERATIONS[name].kind
    if kind == "atomic":
        return ATOMICS[name][0] == "exch" or bool(program.code[pc, 7] & NO_STORE)
    return kind in ("load", "warp")


def find_unwritten_reads(program: Program) -> frozenset[int]:
    """Return the instructions that may read an uninitialized register, or a value computed from one, in any run."""
    if not program.undefined:
        return frozenset()
    found: frozenset[int] | None = program.derived.get("unwritten_reads")
    if found is None:
        uses = Unwritten(program, [1] * len(program.code)).uses()
        found = program.derived["unwritten_reads"] = frozenset(use.pc for use in uses if _reads_held(use))
    return found


def _reads_held(use: Use) -> bool:
    return any(use.held & {*step.reads, *step.operands, step.guard, step.address} for step in use.steps)
