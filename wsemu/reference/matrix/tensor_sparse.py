"""Metadata of the sparse A of `tcgen05.mma.sp`.

PTX ISA, "Sparse Matrices": each chunk of four elements of a row has two that are stored, and their positions are two
indices of 2 bits.  Chunks of tf32 have two elements, of which one is stored; those of 4-bit elements have four pairs,
of which two are stored.  PTX shows the positions of metadata in figures, which CuTe writes as layouts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.model.tensor_memory import METADATA, METADATA_OF_PAIRS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wsemu.reference.matrix.tensor_columns import Word

INVALID = 9
"""error number for metadata that PTX does not define"""
IN_ONE_COLUMN = ("f16", "tf32")
"""kinds whose metadata are in one column, which the sparsity selector selects from two"""


def chunk_elements(kind: str) -> int:
    """Return the number of elements of a chunk."""
    return {"tf32": 2, "mxf4": 8, "mxf4nvf4": 8}.get(kind, 4)


def metadata_bit(kind: str, row: int, k: int) -> tuple[int, int, int]:
    """Return (lane, column from the first one, lowest bit) of the metadata of the chunk that begins at k."""
    if kind not in IN_ONE_COLUMN:
        bit = k // 2 if kind in ("mxf4", "mxf4nvf4") else k
        return row, bit // 32, bit % 32
    along = 8 if kind == "tf32" else 16
    low, part, high = row % 8, row // 8 % 2, row // 16
    inner, outer = k % along, k // along
    return low + 8 * outer + 16 * high, 0, inner * 16 // along + 16 * part


def read_metadata(words: Mapping[Word, int], kind: str, column: int, row: int, count: int) -> list[int | None]:
    """Return the metadata of the chunks of a row of `count` elements; None for uninitialized ones."""
    found: list[int | None] = []
    for k in range(0, count, chunk_elements(kind)):
        lane, distance, bit = metadata_bit(kind, row, k)
        word = words.get((lane, column + distance))
        found.append(None if word is None else word >> bit & 15)
    return found


def is_valid(kind: str, bits: int) -> bool:
    return bits in (METADATA_OF_PAIRS if kind == "tf32" else METADATA)


def stored_ks(kind: str, metadata: list[int]) -> list[int]:
    """Return the k of each stored element of a row."""
    size, ks = chunk_elements(kind), list[int]()
    for n, bits in enumerate(metadata):
        first, second = bits & 3, bits >> 2
        if kind == "tf32":
            ks.append(size * n + (bits == METADATA_OF_PAIRS[1]))
        elif size == 8:
            ks += [size * n + 2 * pair + x for pair in (first, second) for x in (0, 1)]
        else:
            ks += [size * n + first, size * n + second]
    return ks
