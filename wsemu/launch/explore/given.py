"""Whether a launch uses what atomics return to give out places alone: `proof/slots.py`, for one launch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wsemu.model.isa import FIRST_ARRAY, SEGMENT_SHIFT, SHARED
from wsemu.proof import slots

if TYPE_CHECKING:
    from collections.abc import Callable

    from wsemu.evidence.places import Places
    from wsemu.model.bound import Bound
    from wsemu.model.outcome import Tracer
    from wsemu.proof.slots import Place, Range
    from wsemu.proof.taint import Analysis

_OFFSET = (1 << SEGMENT_SHIFT) - 1


class Given:
    """One launch that has run."""

    def __init__(
        self, bound: Bound, places: Places, trace: Tracer, initial: Callable[[], list[Any]], analysis: Analysis
    ) -> None:
        self.bound, self.places, self.trace, self.initial, self.analysis = bound, places, trace, initial, analysis

    def right(self) -> bool:
        """Whether nothing but places of their own depends on the order."""
        if self.bound.program.asynchronous or self.bound.program.unmodelled or self.places.outcome.status != "done":
            return False
        known = self._known()
        found = slots.plan(self.bound.program, self.analysis, known)
        if found is None or not found.near:
            return False
        before = self.initial()
        if any(data is None for data in before):
            return False
        code = self.bound.program.code
        operands = {pc: known[row] for pc in found.counters if (row := int(code[pc, 4])) in known}
        trace = self.trace(slots.accesses(self.bound.program))
        return slots.settled(self.bound.program, found, trace, self._held(before), self._inside, operands)

    def _known(self) -> dict[int, int]:
        """Rows with one number for the whole launch."""
        program, shape = self.bound.program, self.bound.configuration
        rows = {row: value for row, type_, value in program.constants if type_[0] == "b"}
        rows |= {row: value for row, (type_, value) in self.bound.rows.items() if type_[0] == "b"}
        for name, size in (("ntid", shape.block), ("nctaid", shape.grid)):
            for axis, number in zip("xyz", size, strict=True):
                if f"{name}.{axis}" in program.specials:
                    rows[program.specials[f"{name}.{axis}"]] = number
        return {row: int(value) for row, value in rows.items()}

    def _held(self, before: list[Any]) -> Callable[[Place, int], int | None]:
        """What stood at a place before the launch."""

        def held(place: Place, size: int) -> int | None:
            number, offset = (place[1] >> SEGMENT_SHIFT) - FIRST_ARRAY, place[1] & _OFFSET
            if place[0] >= 0 or not 0 <= number < len(before):
                return None
            return int.from_bytes(bytes(before[number][offset : offset + size]), "little")

        return held

    def _inside(self, part: Range) -> bool:
        """Whether bytes belong to one array."""
        segment, start = part.start >> SEGMENT_SHIFT, part.start & _OFFSET
        end = start + part.end - part.start
        if segment == SHARED:
            arrays = [(a.offset, a.offset + a.dtype.itemsize * _elements(a.shape)) for a in self.bound.program.shared]
            return any(first <= start and end <= last for first, last in arrays)
        return any(
            array.segment == segment and array.offset <= start
            and end <= array.offset + array.dtype.itemsize * _elements(array.shape)
            and _dense(array.shape, array.strides, array.dtype.itemsize)
            for array in self.bound.arrays
        )  # fmt: skip


def _elements(shape: tuple[int, ...]) -> int:
    count = 1
    for extent in shape:
        count *= extent
    return count


def _dense(shape: tuple[int, ...], strides: tuple[int, ...], size: int) -> bool:
    """Whether elements lie one after another, in the order of their indices."""
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if stride != size:
            return False
        size *= extent
    return True
