"""Strided transfers: elements at fixed distances, such as the rows of a tile of a matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from wsemu.model.errors import UsageError
from wsemu.patterns import rules
from wsemu.patterns.transfer import Copy, Rows, Transfer


def lanes_per_element(pattern: Any, element_bytes: Any) -> Any:
    """Return how many threads of a pattern work on one element, by CudaDMA's three methods.

    `split`   Elements of up to 32 units of `alignment` bytes: the number of units, rounded up to a power of two, so
              that each warp works on whole elements.
    `full`    Larger elements: as many whole warps as are needed to move an element in one step.
    `big`     Elements for which the pattern has too few warps: all threads, one element after the other.
    """
    units = (element_bytes + pattern.alignment - 1) // pattern.alignment
    in_step = 32 * (pattern.register_bytes // pattern.alignment)  # units that a warp moves in a step
    if units <= 32:
        lanes = 1 + (units > 1) + 2 * (units > 2) + 4 * (units > 4) + 8 * (units > 8) + 16 * (units > 16)
    else:
        lanes = min(32 * ((units + in_step - 1) // in_step), pattern.dma_threads)
    return lanes


@dataclass(frozen=True)
class CudaDMAStrided(Transfer):
    """Transfers `elements` elements of `element_bytes` bytes each (the paper on CudaDMA, section 3.2)."""

    element_bytes: int
    """bytes of an element, a positive multiple of 4"""
    elements: int
    """1 or more"""
    src_stride: int
    """bytes from the start of one element of the source to the start of the next, a multiple of alignment"""
    dst_stride: int
    """distance in bytes between elements of the destination; at least element_bytes, so that elements do not overlap"""

    def __post_init__(self) -> None:
        super().__post_init__()
        rules.integers(self, "element_bytes", "elements", "src_stride", "dst_stride")
        rules.multiple(self, "element_bytes", rules.BULK if self.bulk else 4)
        rules.multiple(self, "elements", 1)
        rules.stride(self, "src_stride", self.alignment)
        rules.stride(self, "dst_stride", self.alignment)
        if self.dst_stride < self.element_bytes and self.elements > 1:
            near = -(-self.element_bytes // self.alignment) * self.alignment
            raise UsageError(
                f"dst_stride is {self.dst_stride}, element_bytes {self.element_bytes}: elements would overlap; "
                f"give dst_stride {near} or more"
            )

    def copy(self) -> Any:
        return Copy(self, lanes_per_element(self, self.element_bytes), self.elements, self.element_bytes)

    def source(self, src: Any) -> Any:
        return Rows(src, self.src_stride)

    def destination(self, dst: Any) -> Any:
        return Rows(dst, self.dst_stride)

    def moves(self) -> list[tuple[int, int, int]]:
        """Return (offset in the source, offset in the destination, bytes) of each element."""
        return [(n * self.src_stride, n * self.dst_stride, self.element_bytes) for n in range(self.elements)]
