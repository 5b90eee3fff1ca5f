"""Compound operations: products and sums of PTX that ptxas may contract, and that the bytecode executes in several
steps.

Each is one instruction until `contract` has processed it; then `assemble` lets the front end replace it by its steps.
"""

from __future__ import annotations

TYPES = {
    "ftz.f32": "b32",
    "f16": "b16",
    "ftz.f16": "b16",
    "bf16": "b16",
    "f16x2": "b32",
    "ftz.f16x2": "b32",
    "bf16x2": "b32",
    "f32x2": "b64",
    "ftz.f32x2": "b64",
}
"""type, with `ftz` if it flushes subnormals -> type of the register"""
COMPOUND = {f"{what}.{t}": row for what in ("mul", "add", "sub", "neg", "fma") for t, row in TYPES.items()}
"""operation -> type of its result"""
