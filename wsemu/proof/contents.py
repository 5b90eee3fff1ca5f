"""Determine which arguments' contents cannot affect the behavior of a launch, by the data flow analysis of `taint.py`.

A launch proves something for all contents of an array if no executed instruction behaves differently for other
contents. The proof is an induction over the instructions of each thread: with other contents, the same instructions run
at the same addresses, with the same masks and operands of barriers. Everything that the engines check is then the same;
only values differ.

Each argument is therefore a *source* of the analysis: the contents of an array in its memory, or the value of a scalar
in its row. A source *steers* if it reaches a branch, an exit, the guard of an instruction that is not arithmetic, an
address, a member mask, or an operand of a barrier or of an asynchronous operation. The analysis follows values in
memory for each array as a whole, as it does for atomics.

The analysis of the interleavings of atomics ignores three more uses, which this one includes:

* The lane from which a shuffle reads: if that lane is inactive, the result is undefined.
* The token of a wait, which names the phase.
* A store by which several lanes write one location: it is correct only if all write the same value (`same`).

Detects: whether an argument's contents may change what a launch does, and the first instruction where they do. Does not
detect: that a value such as `x ^ x` is independent of x, or that only some elements of an array steer. In both cases
the result is "this launch only", which is safe.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set

from wsemu.model.data import NamedTuple
from wsemu.model.isa import NAMES, WAITS
from wsemu.model.program import Program
from wsemu.proof.taint import Analysis
from wsemu.proof.taint_steps import Bits, SegmentOf, State, Step

_VALUES, _ADDRESSES = ("value", "bytes"), ("address", "first", "memory")
"""parts of parameters that an analysis follows"""


class Source(NamedTuple):
    """A part of the arguments that may influence the launch: the contents of a memory segment, or a scalar."""

    segment: int = -1
    argument: int = -1
    """number of the argument with the scalar; -1: the source is a segment"""
    component: tuple[int | str, ...] = ()
    """path to the scalar within its argument"""


class Steering(NamedTuple):
    """An executed instruction that may behave differently for another value of a source."""

    pc: int
    what: str
    """the influenced part: branch, exit, address, ..., as in `taint.Tainted`"""


class Contents(Analysis):
    """The analysis of how contents of arrays and values of scalars influence a program."""

    def __init__(
        self, program: Program, executions: Sequence[int], segment_of: SegmentOf, same: Set[int] | None = frozenset()
    ) -> None:
        """Analyze a program. `same` are the stores with which several lanes wrote one value to one location; None if
        they are unknown.
        """
        self.sources = _sources(program, segment_of)
        self._segment_of = segment_of
        self._same = same
        super().__init__(program, executions, range(-len(self.sources), 0), segment_of)

    def _seed(self) -> None:
        regions = self._regions
        for n, source in enumerate(self.sources):
            for row in self._rows(source):
                if source.argument >= 0:
                    regions.entry[row] = regions.entry.get(row, 0) | 1 << n
                else:
                    self._put(regions.mapped.get(row) or regions.entry.get(row, 0), 1 << n)
        self._initial = list(self._memory)
        """the sources in each array at the start: its own contents"""

    def _rows(self, source: Source) -> list[int]:
        """Return the rows with a scalar's value, or with addresses in a segment."""
        parameters = self._program.parameters
        if source.argument >= 0:
            return [p.row for p in parameters if p.part in _VALUES and (p.argument, p.component) == source[1:]]
        return [p.row for p in parameters if p.part in _ADDRESSES and self._segment_of(p.row) == source.segment]

    def _exchange(self, step: Step, bits: Bits, arrays: Bits) -> Bits:
        if step.kind in ("store", "atomic") or (step.kind == "barrier" and step.writes):
            self._put(arrays, bits)
        return bits | (self._contents(self._memory, arrays) if step.kind in ("load", "atomic", "barrier") else 0)

    def _influenced_rows(self, step: Step) -> Iterator[tuple[str, tuple[int, ...]]]:
        yield from super()._influenced_rows(step)
        fields = self._program.code[step.pc].tolist()
        name = NAMES[fields[0]]
        if step.kind == "warp" and name.startswith("shfl."):
            yield "lane of a shuffle", (fields[4],)
        elif step.kind == "async" and name == WAITS[0]:
            yield "token of a wait", (fields[4],)
        elif step.kind == "store" and name.startswith("st.") and (self._same is None or step.pc in self._same):
            yield "one value that several lanes store", step.reads

    def steering(self) -> dict[Source, list[Steering]]:
        """Return each source that steers, with the instructions that it influences, in program order."""
        found: dict[Source, list[Steering]] = {}
        for pc, what, bits in sorted((step.pc, what, bits) for step, what, bits in self._reached_steps()):
            for n, source in enumerate(self.sources):
                if bits >> n & 1:
                    found.setdefault(source, []).append(Steering(pc, what))
        return found

    def _reached_steps(self) -> Iterator[tuple[Step, str, Bits]]:
        for step, state in self._states():
            for what, rows in self._influenced_rows(step):
                if bits := self._any(state, rows):
                    yield step, what, bits
            if bits := self._through_maps(step, state):
                yield step, "tensor map", bits

    def _any(self, state: State, rows: Sequence[int]) -> Bits:
        bits = 0
        for row in rows:
            bits |= state.get(row, 0)
        return bits & self._taint

    def _through_maps(self, step: Step, state: State) -> Bits:
        """Return the sources that reach a tensor map in memory; a map that is an argument has none."""
        fields = self._program.code[step.pc].tolist()
        if not NAMES[fields[0]].startswith("tensor.") or fields[4] in self._regions.mapped:
            return 0
        return self._contents(self._memory, self._regions.touched_regions(state.get(fields[4], 0)))

    def loaded_segments(self) -> frozenset[int]:
        """Return the segments whose initial contents executed instructions may read."""
        arrays = 0
        for step, state in self._states():
            if step.kind in ("load", "atomic"):
                arrays |= self._arrays(step, state)
        read = self._contents(self._initial, arrays)
        return frozenset(source.segment for n, source in enumerate(self.sources) if read >> n & 1)

    def _contents(self, memory: Sequence[Bits], arrays: Bits) -> Bits:
        bits = 0
        for n, held in enumerate(memory, self._regions.first):
            if arrays >> n & 1:
                bits |= held
        return bits


def _sources(program: Program, segment_of: SegmentOf) -> list[Source]:
    """Return the sources in a launch's arguments: segments and scalars."""
    found: dict[Source, None] = {}
    for p in program.parameters:
        if p.part in _VALUES:
            found[Source(-1, p.argument, p.component)] = None
        elif p.part in _ADDRESSES and (segment := segment_of(p.row)) is not None:
            found[Source(segment)] = None
    return list(found)
