"""Sizes of variables in bytes (PTX ISA 5.2, 5.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wsemu.frontend.ptx.syntax import Variable

TYPE_BYTES = {
    **{f"{kind}{bits}": bits // 8 for kind in "bus" for bits in (8, 16, 32, 64, 128)},
    "f16": 2, "bf16": 2, "f16x2": 4, "bf16x2": 4, "tf32": 4, "f32": 4, "f64": 8,
    "texref": 8, "samplerref": 8, "surfref": 8,
}  # fmt: skip
"""type of a variable -> bytes of an element (5.2)"""


def variable_size(variable: Variable) -> int:
    """Return the bytes of a variable; for an array of open extent, the initializer determines them."""
    count = variable.vector
    for extent in variable.shape:
        count *= extent or len(variable.initial)
    return count * TYPE_BYTES.get(variable.type, 8)
