"""Kernels in CUDA C++, as nvcc compiled them (`tests/ptx`): results to the bit, verdicts, and where bugs are found."""

from __future__ import annotations

import functools
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import wsemu
from wsemu.model.codes import CODES
from wsemu.report.terminal import render

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.ptx import build
from tests.ptx.expected.launches import BROKEN, CASES, Case, Out, marks

if TYPE_CHECKING:
    from wsemu import Report

FOLDER = Path(__file__).parents[1] / "ptx"
FILES = sorted(FOLDER.glob("*.ptx"))
LAUNCHES = [(case, path) for case in CASES for path in FILES if path.name.partition(".")[0] == case.source]
"""each case with each PTX file that was made of its source"""
ENTRY = re.compile(r"\.entry\s+(\w+)")


@functools.cache
def module(path: Path) -> wsemu.PtxModule:
    """The kernels of a file; parsed once."""
    return wsemu.load_ptx(path)


def launch(case: Case, path: Path, **options: Any) -> tuple[Report, list[Any], list[Any]]:
    """The report, the arguments as they were given, and as the kernel left them."""
    given = case.arguments()
    passed = [a.start.copy() if isinstance(a, Out) else a.copy() if isinstance(a, np.ndarray) else a for a in given]
    kernel = module(path)[case.kernel]
    return wsemu.check(kernel, case.grid, case.block, passed, dynamic_shared=case.shared, **options), given, passed


def said(report: Report) -> str:
    return render(report.model_copy(update={"seconds": 0.0}))


def named(value: object) -> str:
    if isinstance(value, Case):
        return value.kernel.replace(" ", "_")
    return value.name.removesuffix(".ptx") if isinstance(value, Path) else ""


@pytest.mark.parametrize(("case", "path"), LAUNCHES, ids=named)
def test_a_kernel_does_what_the_host_computes(case: Case, path: Path) -> None:
    report, given, passed = launch(case, path)
    assert report.verdict == case.verdict, said(report)
    if case.says:
        notes = [*report.notes, *(note for finding in report.errors for note in finding.notes)]
        assert any(case.says in note for note in notes), said(report)
        return
    for number, (argument, got) in enumerate(zip(given, passed, strict=True)):
        if isinstance(argument, Out):
            assert not argument.difference(got), f"argument {number}: {argument.difference(got)}"
        elif isinstance(argument, np.ndarray):
            assert np.array_equal(argument.view(np.uint8), got.view(np.uint8)), f"argument {number} was written"
    warnings = {finding.code for finding in report.findings}
    assert set(case.warnings) <= warnings, said(report)


def test_a_sine_may_be_off_by_an_absolute_error() -> None:
    (case,) = [case for case in CASES if case.kernel == "fast_library"]
    _, expected = case.arguments()
    near_zero = expected.expected.copy()
    near_zero[34, 3] = -0.0006320048  # of an H200
    assert not expected.difference(near_zero)
    near_zero[34, 3] += 2.0**-20
    assert expected.difference(near_zero)


@pytest.mark.parametrize("case", BROKEN, ids=named)
def test_a_bug_is_found_where_it_is(case: Case) -> None:
    report, _, _ = launch(case, FOLDER / f"{case.source}.sm_90.ptx")
    assert report.verdict == case.verdict, said(report)
    expected = marks(case.source, case.kernel)
    met: set[tuple[int, str]] = set()
    for finding in report.findings:
        places = {(s.line, finding.code) for s in finding.sites if s.primary and Path(s.file).suffix == ".cu"}
        assert finding.severity == "warning" or places & expected, said(report)
        met |= places
    assert expected
    assert expected <= met, said(report)


LONG = {
    "forces", "product_blocked", "product_tiled<double, 16>", "product_tiled<float, 8>", "shortest_paths",
    "matrix_vector", "bitonic_sort", "transpose_tile<float, 1>", "life", "transposed", "escape_time",
    "column_sums<float, 1>", "lock",
}  # fmt: skip
"""take seconds on the reference engine, and have relatives that do not"""


@pytest.mark.parametrize("case", [*(case for case in CASES if case.kernel not in LONG), *BROKEN], ids=named)
def test_both_engines_say_the_same(case: Case) -> None:
    path = FOLDER / f"{case.source}.{build.variants(case.source)[0].suffix}.ptx"
    one, _, left = launch(case, path)
    other, _, right = launch(case, path, engine="reference")
    assert one.model_dump(exclude={"seconds"}) == other.model_dump(exclude={"seconds"})
    if one.verdict != "failed":
        for a, b in zip(left, right, strict=True):
            assert not isinstance(a, np.ndarray) or np.array_equal(a.view(np.uint8), b.view(np.uint8))


# -- the corpus itself -----------------------------------------------------------------------------------------------
def test_every_source_has_its_ptx_and_nothing_else_is_there() -> None:
    expected = {f"{source}.{variant.suffix}.ptx" for source in build.sources() for variant in build.variants(source)}
    assert {path.name for path in FILES} == expected


@pytest.mark.parametrize("path", sorted({path for _, path in LAUNCHES}), ids=named)
def test_every_kernel_has_a_launch(path: Path) -> None:
    source = path.name.partition(".")[0]
    kernels = module(path)
    launched = {kernels[case.kernel].entry.name for case in [*CASES, *BROKEN] if case.source == source}
    assert launched == set(ENTRY.findall(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("path", FILES, ids=named)
def test_files_name_no_folder(path: Path) -> None:
    named = re.findall(r'\.file\s+\d+ "([^"]*)"', path.read_text(encoding="utf-8"))
    assert not [name for name in named if "/" in name]
    assert bool(named) == (".plain" not in path.name)


def test_marks_name_codes() -> None:
    for case in BROKEN:
        assert {code for _, code in marks(case.source, case.kernel)} <= set(CODES)
