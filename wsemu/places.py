"""Where things are: an instruction in the source, an address in an array, a warp by its role."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.bytecode import FIRST_ARRAY, LOCAL, NAMES, OPERATIONS, SEGMENT_SHIFT, SHARED, Program, SharedArray, Span
from wsemu.finding import Site

if TYPE_CHECKING:
    from wsemu.outcome import Outcome


PATTERNS = os.path.realpath(Path(__file__).with_name("patterns")) + os.sep
"""the folder of the transfer patterns"""


@dataclass(frozen=True, slots=True)
class BoundArray:
    """An array argument as the launch sees it: where it starts in its segment, its layout, its source name."""

    name: str
    segment: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]


@dataclass(slots=True)
class Places:
    """A launch's geometry, for whoever explains a finding."""

    program: Program
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    outcome: Outcome
    arrays: list[BoundArray] = field(default_factory=list)

    def span(self, pc: int) -> Span:
        """Where an instruction was written; for one inside a transfer pattern, where the pattern was called."""
        spans = self.program.spans
        shown = spans[self.program.span_of[pc]]
        for call in reversed(self.program.stack_of[pc]):
            if not shown.file.startswith(PATTERNS):
                break
            shown = spans[call]
        return shown

    def cta(self, number: int) -> tuple[int, int, int]:
        """Coordinates of a CTA's linear index."""
        x, y, _ = self.grid
        return number % x, number // x % y, number // (x * y)

    def site(self, pc: int, text: str, *, cta: int | None = None, warp: int | None = None, **fields: Any) -> Site:
        """The source of an instruction, with what happened there."""
        return Site.at(
            self.span(pc),
            text,
            cta=None if cta is None else self.cta(cta),
            warp=warp,
            array=self.program.array_of[pc],
            **fields,
        )

    def callers(self, pc: int) -> list[Site]:
        """The calls through which an instruction was inlined, outermost first, beyond its own place."""
        shown = self.span(pc)
        spans = [self.program.spans[s] for s in self.program.stack_of[pc]]
        if shown in spans:
            spans = spans[: spans.index(shown)]
        return [Site.at(span, "called from here", primary=False) for span in spans]

    def line(self, pc: int) -> int:
        return self.span(pc).line

    def array_name(self, pc: int) -> str:
        name = self.program.array_of[pc]
        return f"`{name}`" if name else "memory"

    def verb(self, pc: int) -> str:
        """`load`, `store` or `atomic`."""
        return OPERATIONS[NAMES[int(self.program.code[pc, 0])]].kind

    def space(self, segment: int) -> str:
        if segment in (SHARED, LOCAL):
            return "shared" if segment == SHARED else "local"
        return "global"

    def element(self, address: int, pc: int) -> str:
        """An address as `tile[3, 4]`, or as a byte offset where no array is known."""
        segment, offset = (address >> SEGMENT_SHIFT) & 0xFFFF, address & ((1 << SEGMENT_SHIFT) - 1)
        if segment >= FIRST_ARRAY:
            return self._global_element(segment, offset, pc)
        declared = self.program.shared if segment == SHARED else self.program.locals
        if segment == LOCAL and self.program.local_bytes:
            offset %= self.program.local_bytes
        for array in declared:
            index = _position(array, offset)
            if index is not None:
                return f"{array.name}[{', '.join(map(str, index))}]"
        if segment == SHARED and self.program.uses_dynamic_shared:
            offset -= -(-self.program.shared_bytes // 16) * 16
            name, element = self.program.array_of[pc], self.program.element_of[pc]
            if name and element:
                return f"{name}[{offset // np.dtype(element).itemsize}]"
        return f"byte {offset} of {self.space(segment)} memory"

    def _global_element(self, segment: int, offset: int, pc: int) -> str:
        named = self.program.array_of[pc]
        candidates = [a for a in self.arrays if a.segment == segment]
        candidates.sort(key=lambda a: a.name != named)
        for array in candidates:
            index = _unravel(offset - array.offset, array)
            if index is not None:
                return f"{array.name}[{', '.join(map(str, index))}]"
        return f"byte {offset} of {named or 'global memory'}"


def _position(array: SharedArray, offset: int) -> tuple[int, ...] | None:
    element = (offset - array.offset) // array.dtype.itemsize
    if not 0 <= element < int(np.prod(array.shape, dtype=np.int64)):
        return None
    return tuple(int(i) for i in np.unravel_index(element, array.shape))


def _unravel(offset: int, array: BoundArray) -> tuple[int, ...] | None:
    """Indices of the element at a byte offset, by strides from the largest down."""
    index = [0] * len(array.shape)
    for axis in sorted(range(len(array.shape)), key=lambda a: -abs(array.strides[a])):
        if array.strides[axis] > 0:
            index[axis], offset = divmod(offset, array.strides[axis])
    inside = all(0 <= i < extent for i, extent in zip(index, array.shape, strict=True))
    return tuple(index) if inside and 0 <= offset < array.dtype.itemsize else None


def lanes_text(mask: int) -> str:
    """A lane mask as `lane 3`, `lanes 0-31`, `lanes 0, 2, 4, ...`."""
    lanes = [lane for lane in range(32) if mask >> lane & 1]
    if not lanes:
        return "no lane"
    if len(lanes) == 1:
        return f"lane {lanes[0]}"
    if lanes[-1] - lanes[0] == len(lanes) - 1:
        return f"lanes {lanes[0]}-{lanes[-1]}"
    shown = ", ".join(map(str, lanes[:4]))
    return f"lanes {shown}{', ...' if len(lanes) > 4 else ''}"
