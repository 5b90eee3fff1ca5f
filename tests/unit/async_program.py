"""A program of asynchronous operations, built by hand for tests of reports: no front end, no engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.evidence.places import Places
from wsemu.model.bound import BoundArray
from wsemu.model.isa import FIRST_ARRAY, OPCODE, SEGMENT_SHIFT, SHARED
from wsemu.model.outcome import Outcome
from wsemu.model.program import Program, SharedArray, Span

if TYPE_CHECKING:
    from pathlib import Path

FULL = SHARED << SEGMENT_SHIFT
"""address of `full[0]`, one of two mbarriers"""
EMPTY = FULL + 16
"""of `empty[0]`, one of two"""
TILE = FULL + 32
"""of `tile[0]`, of 1,024 float32"""
X = FIRST_ARRAY << SEGMENT_SHIFT
"""of `x[0]`, of 4,096 float32"""


def places(
    folder: Path, *operations: tuple[str, int] | tuple[str, int, int], outcome: Outcome | None = None, **fields: Any
) -> Places:
    """A program of operations, each with its line (and aux), in order; each was executed once."""
    file = folder / "kernel.py"
    file.write_text("\n".join(f"line_{n}()" for n in range(1, 100)), encoding="utf-8")
    code = np.zeros((len(operations), 8), np.int64)
    for pc, (name, _, *aux) in enumerate(operations):
        code[pc, 0], code[pc, 7] = OPCODE[name], aux[0] if aux else 0
    spans = [Span(str(file), line, 0, line, len(f"line_{line}()")) for _, line, *_ in operations]
    words, floats = np.dtype(np.uint64), np.dtype(np.float32)
    shared = [
        SharedArray("full", 0, (2,), words, 0, 8),
        SharedArray("empty", 16, (2,), words, 0, 8),
        SharedArray("tile", 32, (1024,), floats, 0, 16),
    ]
    count = len(operations)
    program = Program(
        "kernel", code, 0, spans=spans, span_of=list(range(count)), stack_of=[()] * count, array_of=[None] * count,
        element_of=[None] * count, shared=shared, shared_bytes=32 + 4096, **fields,
    )  # fmt: skip
    found = outcome or Outcome("done")
    found.executions = found.executions or [1] * count
    x = BoundArray("x", FIRST_ARRAY, 0, (4096,), (4,), floats)
    return Places(program, (1, 1, 1), (128, 1, 1), found, [x])
