"""The emulator and a GPU on the same kernels: the examples, the correct programs, 500 generated transfers."""

from __future__ import annotations

import contextlib
import functools
import io
import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from wsemu import strategies
from wsemu.launch import transfer
from wsemu.launch.crosscheck import CrossReport, Emulated, Recorder, compare, emulate
from wsemu.launch.hooks import around
from wsemu.model.launch_shape import configure

ROOT = Path(__file__).parents[2]
PROGRAMS = [
    path
    for folder in ("examples", "tests/pass")
    for path in sorted(ROOT.glob(f"{folder}/*.py"))
    if "load_ptx" not in path.read_text(encoding="utf-8")
]
"""without those whose kernels are PTX already"""
ARGUMENTS = {"sgemv": ["1024", "all"]}
PATTERNS = ("sequential", "strided", "indirect", "halo")
NEWER = {"zeros_without_a_barrier": (10, 0)}
"""programs with instructions that a GPU has from this compute capability on: `st.bulk`"""
TRANSFERS = 125
"""of each pattern"""
LAUNCHES = 20
CHILDREN = max(1, min(8, (os.cpu_count() or 1) // 2))
"""processes that compile and launch side by side"""


def launches_of(path: Path) -> list[Emulated]:
    """What a program launches, emulated; one launch of each kernel."""
    recorder = Recorder()
    around.append(recorder)
    kept = sys.argv, list(sys.path)
    sys.argv, sys.path[:0] = [str(path), *ARGUMENTS.get(path.stem, [])], [str(path.parent)]
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            runpy.run_path(str(path), run_name="__main__")
    finally:
        around.remove(recorder)
        sys.argv, sys.path[:] = kept
    first = {id(launch.kernel): launch for launch in reversed(recorder.emulated)}
    return list(reversed(first.values()))


def cases(pattern: str, count: int) -> list[transfer.TransferCase]:
    """Generated transfers, the same ones each time."""
    found: list[transfer.TransferCase] = []

    @settings(max_examples=count, derandomize=True, database=None, deadline=None)
    @given(getattr(strategies, f"{pattern}_transfers")())
    def draw(case: transfer.TransferCase) -> None:
        found.append(case)

    draw()
    return found[:count]


def transfer_of(case: transfer.TransferCase) -> Emulated:
    run = transfer.fill(transfer.job(case))
    configuration = configure(1, run.job.threads(), 0, run.job.shared_bytes)
    return emulate(run.job.kernel, configuration, run.arguments())


@functools.cache
def _capability() -> tuple[int, ...]:
    """Of the GPU, which this process does not touch: its children do."""
    query = ["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"]
    said = subprocess.run(query, capture_output=True, text=True, check=True).stdout
    return tuple(map(int, said.split()[0].split(".")))


def _is_newer(path: Path) -> bool:
    return path.stem in NEWER and _capability() < NEWER[path.stem]


@pytest.fixture(scope="module")
def programs() -> dict[Path, list[CrossReport]]:
    """All programs, on the GPU together."""
    emulated = {path: launches_of(path) for path in PROGRAMS if not _is_newer(path)}
    reports = iter(compare([e for es in emulated.values() for e in es], launches=LAUNCHES, children=CHILDREN))
    return {path: [next(reports) for _ in es] for path, es in emulated.items()}


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_a_program_leaves_the_same_arrays(path: Path, programs: dict[Path, list[CrossReport]]) -> None:
    if _is_newer(path):
        pytest.skip("this GPU lacks one of its instructions")
    for report in programs[path]:
        report.assert_same()


@pytest.mark.parametrize("pattern", PATTERNS)
def test_generated_transfers_leave_the_same_arrays(pattern: str) -> None:
    drawn = cases(pattern, TRANSFERS)
    reports = compare([transfer_of(case) for case in drawn], launches=2, children=CHILDREN)
    wrong: list[Any] = [(case, report) for case, report in zip(drawn, reports, strict=True) if report.status != "same"]
    assert not wrong, "\n".join(f"{case}\n{report}" for case, report in wrong[:5])
