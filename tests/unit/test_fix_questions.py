"""Edits that remove the errors of a launch and leave out its work are no fixes; verified launches get no search."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import wsemu
from tests.commands import wsemu as command
from wsemu import cuda
from wsemu.repair import trials

if TYPE_CHECKING:
    from pathlib import Path

PLENTY = 60.0
"""CPU seconds: the number of edits ends a search, on any machine"""
OVERLAP = """\
.version 8.0
.target sm_90
.address_size 64
.visible .entry parts(.param .u64 x, .param .u64 y)
{
	.reg .b32 %r<6>;
	.reg .f64 %f<3>;
	.reg .b64 %rd<6>;
	.shared .align 8 .b8 mem[768];
	ld.param.u64 %rd1, [x];
	ld.param.u64 %rd2, [y];
	mov.u32 %r1, %tid.x;
	mul.wide.u32 %rd3, %r1, 8;
	add.u64 %rd4, %rd1, %rd3;
	ld.global.f64 %f1, [%rd4];
	mov.u32 %r2, mem;
	mad.lo.u32 %r3, %r1, 8, %r2;
	st.shared.f64 [%r3+128], %f1;
	mad.lo.u32 %r4, %r1, 4, %r2;
	st.shared.u32 [%r4], %r1;
	bar.sync 0;
	ld.shared.f64 %f2, [%r3+128];
	add.u64 %rd5, %rd2, %rd3;
	st.global.f64 [%rd5], %f2;
	ret;
}
"""


@cuda.jit(device=True)
def half(a, parity):
    i = cuda.grid(1)
    if i < a.size and i % 2 == parity:
        j = (i + 1) % a.size
        if a[j] > a[i]:
            a[i] = a[j]


@cuda.jit
def checkerboard(a):
    half(a, 0)
    cuda.syncthreads()
    half(a, 1)


def reason(report: wsemu.Report) -> str:
    """Return why a search found no fix."""
    trials = report.helped().trials
    assert trials is not None
    return trials.stopped


def checked_board() -> wsemu.Report:
    a = np.zeros(128, np.float32)
    a[65] = 3
    return wsemu.check(checkerboard, 2, 64, (a,))


def test_a_store_of_an_element_to_itself_is_no_fix():
    """Nor is an edit that removes the race for these contents alone."""
    report = checked_board()
    assert [finding.code for finding in report.errors] == ["race"]
    assert report.cures(budget=PLENTY) == []
    stopped = reason(report)
    assert "edits that remove the errors" in stopped
    assert "other contents of the arrays" in stopped


def test_an_order_of_stores_to_overlapping_parts_is_no_fix(tmp_path: Path):
    file = tmp_path / "parts.ptx"
    file.write_text(OVERLAP, encoding="utf-8")
    x, y = np.arange(64.0), np.zeros(64)
    report = wsemu.check(wsemu.load_ptx(file)["parts"], 1, 64, (x, y))
    assert {finding.code for finding in report.errors} == {"race"}
    assert report.cures(budget=PLENTY) == []
    assert "stores of different data to the same bytes" in reason(report)


@cuda.jit
def result_into_the_source(x, y):
    i = cuda.grid(1)
    if 0 < i < x.size - 1:
        x[i] = (x[i - 1] + x[i + 1]) / 2


def test_an_edit_may_store_to_an_array_that_the_kernel_does_not_use():
    """The search leaves that array as it was."""
    x, y = np.arange(64.0), np.zeros(64)
    report = wsemu.check(result_into_the_source, 2, 32, (x, y))
    fix = report.cures(budget=PLENTY)[0]
    assert (fix.says.partition(" in line")[0], fix.caution) == ("write `y` in place of `x`", "")
    assert not y.any()


@cuda.jit
def strided(x, y):
    tile = cuda.shared.array((32, 32), np.float32)
    t = cuda.threadIdx.x
    for i in range(32):
        tile[t, i] = x[t, i]
    cuda.syncthreads()
    for i in range(32):
        y[i, t] = tile[t, i]


def test_a_verified_launch_gets_a_search_only_on_request(monkeypatch):
    searches: list[object] = []
    real = trials.try_edits

    def counted(*given):
        searches.append(given)
        return real(*given)

    monkeypatch.setattr(trials, "try_edits", counted)
    x = np.ones((32, 32), np.float32)
    report = wsemu.check(strided, 1, 32, (x, np.zeros_like(x)))
    assert (report.verdict, bool(report.warnings)) == ("verified", True)
    assert report.helped().trials is not None
    assert searches == []
    assert report.cures(budget=PLENTY)
    assert len(searches) == 1


SHRINKING = """\
import numpy as np
from hypothesis import given, settings, strategies as st
from wsemu import check, cuda
from wsemu.repair import trials

searches = []
real = trials.try_edits
trials.try_edits = lambda *given: searches.append(given) or real(*given)

@cuda.jit
def swap(x, n):
    i = cuda.threadIdx.x
    if n > 3:
        x[i] = x[cuda.blockDim.x - 1 - i]

@settings(max_examples=30, deadline=None, derandomize=True, database=None)
@given(st.integers(0, 50))
def found(n):
    report = check(swap, 1, 64, (np.zeros(64, np.float32), n))
    assert report.verdict == "verified", str(report.helped().trials)

try:
    found()
except AssertionError:
    print("searches:", len(searches))
"""


def test_no_search_while_hypothesis_shrinks(tmp_path: Path):
    pytest.importorskip("hypothesis")
    file = tmp_path / "shrinks.py"
    file.write_text(SHRINKING, encoding="utf-8")
    done = command("run", "--fix-budget", "0.1", file.name, cwd=tmp_path)
    said = [line for line in done.stdout.splitlines() if line.startswith("searches:")]
    assert said in (["searches: 1"], ["searches: 2"])
