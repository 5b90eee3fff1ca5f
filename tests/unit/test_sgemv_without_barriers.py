"""The SGEMV example without each of its barrier calls in turn: the first two lines of the report name the cause."""

from __future__ import annotations

import importlib.util
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import wsemu

if TYPE_CHECKING:
    from types import ModuleType

SOURCE = (Path(__file__).parents[2] / "examples" / "sgemv.py").read_text()
KERNEL = SOURCE[SOURCE.index("def sgemv(") : SOURCE.index("@cuda.jit(device=True)\ndef load_row(")]
LINES = 2
WIDTH = 80

WITHOUT = {
    # what is taken out, and what stands for it: the words that the first two lines must have
    ("VECTOR.start_async_dma()", "pass", 0): ["deadlock", "barrier 3", "`start_async_dma()` of warps 0-1 (compute)"],
    ("columns.start_async_dma()", "pass", 0): ["deadlock", "barrier 5", "`start_async_dma()` of warps 0-1 (compute)"],
    ("VECTOR.start_async_dma()", "pass", 1): ["deadlock", "barrier 3", "warps 0-1", "did not call `start_async_dma()`"],
    ("columns.start_async_dma()", "pass", 1): [
        "deadlock", "barrier 5", "warps 0-1", "did not call `start_async_dma()`",
    ],
    ("VECTOR.wait_for_dma_finish()", "pass", 0): ["barrier 2", "`wait_for_dma_finish()` is missing"],
    ("columns.wait_for_dma_finish()", "pass", 0): ["barrier 4", "`wait_for_dma_finish()` is missing"],
    ("VECTOR.wait_for_dma_start()", "pass", 0): ["dangling-arrive", "barrier 3", "no matching `wait_for_dma_start()`"],
    ("columns.wait_for_dma_start()", "pass", 0): ["dangling-arrive", "barrier 5", "no matching `wait_for_dma_start()`"],
    ("VECTOR.wait_xfer_finish(", "VECTOR.finish_async_dma(); VECTOR.complete(VECTOR.rank(), ", 0): [
        "barrier 3", "`wait_for_dma_start()` comes too late",
    ],
    ("VECTOR.wait_xfer_finish(", "VECTOR.wait_for_dma_start(); VECTOR.complete(VECTOR.rank(), ", 0): [
        "deadlock", "barrier 2", "`finish_async_dma()`",
    ],
    ("columns.wait_xfer_finish(", "columns.finish_async_dma(); columns.complete(columns.rank(), ", 0): [
        "barrier 5", "`wait_for_dma_start()` comes too late",
    ],
    ("columns.wait_xfer_finish(", "columns.wait_for_dma_start(); columns.complete(columns.rank(), ", 0): [
        "deadlock", "barrier 4", "`finish_async_dma()`",
    ],
}  # fmt: skip


def example(folder: Path, source: str) -> ModuleType:
    file = folder / "sgemv.py"
    file.write_text(source)
    spec = importlib.util.spec_from_file_location("sgemv_without", file)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("call", "instead", "which"), WITHOUT)
def test_the_first_two_lines_name_the_cause(tmp_path: Path, call: str, instead: str, which: int) -> None:
    before, *after = KERNEL.split(call)
    changed = call.join([before, *after[:which]]) + instead + call.join(after[which:])
    module = example(tmp_path, SOURCE.replace(KERNEL, changed))
    finding = run(module).findings[0]
    title = f"{finding.severity}[{finding.code}]: {finding.message}"
    first = " ".join(textwrap.wrap(title, WIDTH, subsequent_indent="  ")[:LINES])
    assert [word for word in WITHOUT[call, instead, which] if word not in " ".join(first.split())] == []


def run(module: ModuleType, n: int = 1024) -> wsemu.Report:
    matrix, x, y = np.ones((n, n), np.float32, order="F"), np.ones(n, np.float32), np.zeros(n, np.float32)
    return wsemu.check(module.sgemv, n // module.COMPUTE_THREADS, module.BLOCK, (n, np.float32(1), matrix, x, y))
