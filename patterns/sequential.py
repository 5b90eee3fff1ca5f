"""Sequential transfers: bytes that lie side by side, shared out among all DMA threads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from wsemu.patterns import rules
from wsemu.patterns.transfer import Copy, Rows, Transfer


@dataclass(frozen=True)
class CudaDMASequential(Transfer):
    """Transfers `element_bytes` contiguous bytes (the paper, section 3.2)."""

    element_bytes: int
    """a positive multiple of 4"""

    def __post_init__(self) -> None:
        super().__post_init__()
        rules.integers(self, "element_bytes")
        rules.multiple(self, "element_bytes", rules.BULK if self.bulk else 4)

    def copy(self) -> Any:
        return Copy(self, self.dma_threads, 1, self.element_bytes)

    def source(self, src: Any) -> Any:
        return Rows(src, 0)

    def destination(self, dst: Any) -> Any:
        return Rows(dst, 0)

    def parts(self) -> tuple[tuple[str, Copy], ...]:
        return (("sequential", self.copy()),)

    def moves(self) -> list[tuple[int, int, int]]:
        """Return (offset in the source, offset in the destination, bytes) of the transfers."""
        return [(0, 0, self.element_bytes)]
