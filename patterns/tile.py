"""Tiles of matrices by tensor copies: one instruction of one thread copies a whole tile, while a bulk copy copies one
row."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from wsemu import ptx
from wsemu.model.errors import UsageError
from wsemu.patterns import rules
from wsemu.patterns.transfer import Copy, Transfer

if TYPE_CHECKING:
    from wsemu.model.tensor_map import TensorMap

SWIZZLES = {"": 0, "32B": 32, "64B": 64, "128B": 128}
"""number of bytes of a row that a swizzle permutes, by name of the swizzle"""
MOST_ROWS = 256
"""maximum rows of a box"""


@dataclass(frozen=True)
class CudaDMATile(Transfer):
    """Transfers a tile of `rows` rows of `row_bytes` bytes each of a matrix, by a tensor copy (sm_90).

    Kernels get the `wsemu.TensorMap` that `tensor_map` creates for the matrix, and pass it as the source.  The column
    and the row of the tile's first element follow the destination: `execute_dma(tmap, dst, column, row)`, also for a
    `Pipeline`.  Elements outside of the matrix are 0.  The column starts at a multiple of 16 bytes.  In shared memory,
    the rows are contiguous, and the tile starts at a multiple of `tile_alignment`.  `swizzle` permutes their pieces of
    16 bytes, so that pieces of eight rows are in different banks; `placed` returns the position of each.
    """

    rows: int
    """rows of the tile, 1 to 256"""
    row_bytes: int
    """bytes of a row: a multiple of 16; with a swizzle, its width"""
    swizzle: str = field(default="", kw_only=True)
    """empty for none, "32B", "64B" or "128B" """

    def __post_init__(self) -> None:
        object.__setattr__(self, "engine", "bulk")
        super().__post_init__()
        rules.integers(self, "rows", "row_bytes")
        rules.check_choice(self, "swizzle", SWIZZLES)
        rules.multiple(self, "row_bytes", rules.BULK)
        if not 1 <= self.rows <= MOST_ROWS:
            raise UsageError(f"rows is {self.rows}: give 1 to {MOST_ROWS}")
        if self.swizzle and self.row_bytes != SWIZZLES[self.swizzle]:
            raise UsageError(f"row_bytes is {self.row_bytes}: rows with swizzle {self.swizzle!r} have its width")

    @property
    def tile_alignment(self) -> int:
        """Return the alignment in bytes of a tile in shared memory: the period of the swizzle."""
        return 8 * self.row_bytes if self.swizzle else 128

    @property
    def turns(self) -> int:
        """Return the mask of the bits of a piece's number that the swizzle changes."""
        return SWIZZLES[self.swizzle] // 16 - 1 if self.swizzle else 0

    def tensor_map(self, matrix: Any) -> TensorMap:
        """Return the tensor map of a matrix from which this pattern copies tiles: an array of two dimensions, row by
        row."""
        from wsemu.model.tensor_map import TensorMap  # kernels do not need it

        return TensorMap(matrix, [self.rows, self.row_bytes // matrix.itemsize], swizzle=self.swizzle or None)

    def placed(self, row: Any, piece: Any) -> Any:
        """Return the position in its row of the 16 bytes with the number `piece`."""
        return piece ^ (row * self.row_bytes // 128 & self.turns)

    def total_bytes(self) -> Any:
        return self.rows * self.row_bytes

    # -- methods of other DMA engines, which Numba types as well ----------------------------------------------------
    def transfer(self, thread: Any, src: Any, dst: Any, *index: Any) -> Any:
        if thread == 0:
            self.copy_in_bulk(src, dst, *index)

    def start_transfer(self, thread: Any, src: Any, dst: Any, *index: Any) -> Any:
        self.transfer(thread, src, dst, *index)

    def prefetch(self, thread: Any, src: Any, registers: Any, *index: Any) -> Any:
        pass

    def issue_bulk(self, src: Any, dst: Any, bars: Any, k: Any, *index: Any) -> Any:
        ptx.cp_async_bulk_tensor_global_to_shared_bytes(dst, 0, src, index, bars, k)

    def parts(self) -> tuple[tuple[str, Copy], ...]:
        return (("tile", Copy(self, 1, 1, self.rows * self.row_bytes)),)

    def moves(self, pitch: int = 0) -> list[tuple[int, int, int]]:
        """Return (offset in the source, offset in the destination, bytes) of the transfers, for a matrix with `pitch`
        bytes from one row to the next; 0: that of a tile."""
        return [
            (row * (pitch or self.row_bytes) + 16 * n, row * self.row_bytes + 16 * self.placed(row, n), 16)
            for row in range(self.rows)
            for n in range(self.row_bytes // 16)
        ]
