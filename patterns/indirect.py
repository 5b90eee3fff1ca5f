"""Indirect transfers: elements that an array of indices names, gathered to lie in order, or scattered from there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from wsemu import ptx
from wsemu.model.errors import UsageError
from wsemu.patterns import rules
from wsemu.patterns.strided import lanes_per_element
from wsemu.patterns.transfer import Copy, Transfer

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Chosen:
    """One end of a transfer: element n is number `index[n]` if `indexed`, otherwise number n; consecutive numbers are
    `stride` bytes apart."""

    array: Any
    index: Any
    stride: int
    indexed: bool

    def offset(self, element: Any) -> Any:
        """Return the offset of an element from the start of the array, in bytes."""
        return self.index[element] * self.stride if self.indexed else element * self.stride


@dataclass(frozen=True)
class CudaDMAIndirect(Transfer):
    """Gathers `dst[n] = src[index[n]]` or scatters `dst[index[n]] = src[n]`, for `elements` elements.

        dma.execute_dma(src, dst, index)

    `index` is an array of integers in global or shared memory; its numbers count elements of `element_bytes` bytes.
    The indices of a scatter must be distinct.
    """

    element_bytes: int
    """bytes of an element, a positive multiple of alignment"""
    elements: int
    """number of elements, at least 1; as many indices are read"""
    dense_stride: int = 0
    """distance in bytes between elements on the side without indices, a multiple of alignment; 0: element_bytes"""
    scatter: bool = field(default=False, kw_only=True)
    """if False, the indices apply to the source; if True, to the destination"""

    def __post_init__(self) -> None:
        super().__post_init__()
        rules.integers(self, "element_bytes", "elements", "dense_stride")
        rules.flag(self, "scatter")
        rules.multiple(self, "element_bytes", self.alignment, "the alignment")
        rules.multiple(self, "elements", 1)
        rules.stride(self, "dense_stride", self.alignment)
        if self.scatter and self.load == "nc":
            raise UsageError("load is 'nc', but the source of a scatter is shared memory: leave load out")
        if self.dense_stride and self.dense_stride < self.element_bytes and not self.scatter:
            raise UsageError(
                f"dense_stride is {self.dense_stride}, element_bytes {self.element_bytes}: elements would overlap; "
                f"give dense_stride {self.element_bytes} or more"
            )
        object.__setattr__(self, "dense_stride", self.dense_bytes)

    @property
    def to_global(self) -> bool:
        return self.scatter

    @property
    def dense_bytes(self) -> int:
        """Return the bytes from an element to the next if there are no indices."""
        return self.dense_stride if self.dense_stride else self.element_bytes

    def copy(self) -> Any:
        return Copy(self, lanes_per_element(self, self.element_bytes), self.elements, self.element_bytes)

    def source(self, src: Any, index: Any) -> Any:
        stride = self.dense_bytes if self.scatter else self.element_bytes
        return Chosen(src, index, stride, not self.scatter)

    def destination(self, dst: Any, index: Any) -> Any:
        stride = self.element_bytes if self.scatter else self.dense_bytes
        return Chosen(dst, index, stride, self.scatter)

    def copy_in_bulk(self, src: Any, dst: Any, index: Any) -> Any:
        if self.scatter:
            self.scatter_in_bulk(src, dst, index)
        else:
            self.load_in_bulk(src, dst, index)

    def scatter_in_bulk(self, src: Any, dst: Any, index: Any) -> Any:
        """Start a bulk copy of each element to global memory, and wait for the copies.  Only one thread executes
        this."""
        source, destination = self.source(src, index), self.destination(dst, index)
        ptx.fence_proxy_async()  # orders the copies after plain stores to the buffer
        for element in range(self.elements):
            to, origin = destination.offset(element), source.offset(element)
            ptx.cp_async_bulk_shared_to_global_bytes(dst, to, src, origin, self.element_bytes // 16 * 16)
        ptx.cp_async_bulk_commit_group()
        ptx.cp_async_bulk_wait_group(0)

    def moves(self, index: Sequence[int]) -> list[tuple[int, int, int]]:
        """Return (offset in the source, offset in the destination, bytes) of the transfers."""
        found = [(int(k) * self.element_bytes, n * self.dense_bytes) for n, k in enumerate(index[: self.elements])]
        return [(b, a, self.element_bytes) if self.scatter else (a, b, self.element_bytes) for a, b in found]
