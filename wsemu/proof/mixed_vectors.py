"""Strong accesses of vectors in programs with others of a different size but elements of the same size.

Such an access and one of an element may meet, and are atomic with each other (`_include` in `proof/threads.py`).  They
conflict although they begin at different addresses, so a location does not identify what they touch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.model.isa import ATOMICS, NAMES, PARTS_SHIFT, access_shape

if TYPE_CHECKING:
    from collections.abc import Container

    from wsemu.model.program import Program

BLOCK = 8
"""maximum bytes of one strong access, which is aligned to its size: accesses to different blocks do not overlap"""


def find_mixed_vectors(program: Program, ordered: Container[int]) -> dict[int, int]:
    """Return the strong accesses of vectors that may overlap an access of another size, each with the number of its
    elements.  `ordered` are the strong accesses."""
    shapes: dict[int, tuple[int, int]] = {}
    for pc, fields in enumerate(program.code.tolist()):
        if pc in ordered and NAMES[fields[0]] in ATOMICS:
            shapes[pc] = access_shape(NAMES[fields[0]])[1], 1 << (fields[7] >> PARTS_SHIFT & 3)
    sizes: dict[int, set[int]] = {}
    for size, parts in shapes.values():
        sizes.setdefault(size // parts, set()).add(size)
    return {pc: parts for pc, (size, parts) in shapes.items() if parts > 1 and len(sizes[size // parts]) > 1}
