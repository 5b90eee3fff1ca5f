"""Grids that are decided from some of their CTAs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wsemu
from tests.properties import cta_programs, ptx_loop_programs
from tests.properties.loop_programs import loaded
from wsemu import cuda

ALL = "all CTAs were run"


def floats(n: int) -> Any:
    return np.ones(n, np.float32)


@cuda.jit
def saxpy(a: Any, x: Any, y: Any) -> None:
    i = cuda.grid(1)
    if i < x.shape[0]:
        y[i] = a * x[i] + y[i]


@cuda.jit
def turned(x: Any, y: Any) -> None:
    tile = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    tile[t] = x[cuda.blockIdx.x * 64 + t]
    cuda.syncthreads()
    y[cuda.blockIdx.x * 64 + t] = tile[63 - t]


@cuda.jit
def strided(n: Any, x: Any, y: Any) -> None:
    for i in range(cuda.grid(1), n, cuda.gridsize(1)):
        y[i] = x[i]


@pytest.mark.parametrize(
    ("kernel", "grid", "arguments"),
    [
        (saxpy, 1 << 14, (2.0, floats((1 << 20) - 70), floats((1 << 20) - 70))),
        (turned, 1 << 14, (floats(1 << 20), floats(1 << 20))),
        (strided, 300, (64 * 1000 + 5, floats(64 * 1000 + 5), floats(64 * 1000 + 5))),
    ],
)
def test_alike_ctas_are_decided_from_few(kernel: Any, grid: int, arguments: tuple[Any, ...]) -> None:
    report = wsemu.check(kernel, grid, 64, arguments, corners=True)
    assert report.verdict == "verified"
    run = int(report.proof.rpartition(" by ")[2].split()[0])
    assert run < 60
    assert report.proof.endswith(f"in every schedule, by {run} of {grid:,} CTAs")
    assert f"were run: the other {grid - run:,} do the same at places of their own" in report.notes[-1]


@cuda.jit
def neighbour(x: Any) -> None:
    i = cuda.grid(1)
    v = x[i + 64]
    x[i] = v


@cuda.jit
def five_ahead(x: Any) -> None:
    i = cuda.grid(1)
    v = x[i + 5 * 64]
    x[i] = v


@cuda.jit
def one_place(x: Any) -> None:
    x[cuda.threadIdx.x] = cuda.blockIdx.x


@cuda.jit
def half_apart(x: Any) -> None:
    x[cuda.blockIdx.x * 32 + cuda.threadIdx.x] = cuda.blockIdx.x


@cuda.jit
def beyond(x: Any) -> None:
    x[cuda.grid(1) + (cuda.blockIdx.x >= 700) * 64] = 1


@pytest.mark.parametrize("kernel", [neighbour, five_ahead, one_place, half_apart, beyond])
def test_what_two_ctas_do_wrong_is_found(kernel: Any) -> None:
    size = 64 * 1000 if kernel is beyond else 64 * 1006
    report = wsemu.check(kernel, 1000, 64, (floats(size),), corners=True)
    alone = wsemu.check(kernel, 1000, 64, (floats(size),))
    assert report.verdict == "failed"
    assert [finding.code for finding in report.errors] == [finding.code for finding in alone.errors]
    assert any(ALL in note for note in report.notes)


@cuda.jit
def by_data(x: Any, y: Any) -> None:
    i = cuda.grid(1)
    if x[i] > 0:
        y[i] = 1


@cuda.jit
def counted(y: Any) -> None:
    cuda.atomic.add(y, cuda.grid(1), 1)


@cuda.jit
def by_turns(y: Any) -> None:
    if cuda.blockIdx.x % 2:
        y[cuda.grid(1)] = 1


@pytest.mark.parametrize(
    ("kernel", "arrays", "why"),
    [
        (by_data, 2, "the branch depends on loaded data"),
        (counted, 1, "atomics in global memory are not followed"),
        (by_turns, 1, "there are more than 64 kinds of CTAs"),
    ],
)
def test_what_cannot_be_shown_is_run_and_says_why(kernel: Any, arrays: int, why: str) -> None:
    given = [floats(64 * 300) for _ in range(arrays)]
    alone = [array.copy() for array in given]
    report = wsemu.check(kernel, 300, 64, given, corners=True)
    assert wsemu.check(kernel, 300, 64, alone).verdict == report.verdict == "verified"
    assert all((one == other).all() for one, other in zip(given, alone, strict=True))
    assert f"{why}: {ALL}" in report.notes[0]
    assert " CTAs" not in report.proof


BRANCHES = """
.version 8.8
.target sm_90
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 y)
{
.reg .pred %p<2>; .reg .b32 %r<6>; .reg .b64 %rd<6>;
ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y];
mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r3, %r2, 64, %r1;
mul.wide.u32 %rd3, %r3, 4; add.u64 %rd4, %rd1, %rd3; add.u64 %rd5, %rd2, %rd3;
ld.global.u32 %r4, [%rd4];
setp.eq.u32 %p1, %r4, 0;
@%p1 bra L;
st.global.u32 [%rd5], 1;
L: ret;
}
"""


def test_why_all_are_run_is_said_with_its_line() -> None:
    """Also of a kernel that has more instructions than places in its source."""
    kernel = wsemu.load_ptx(BRANCHES)["k"]
    report = wsemu.check(kernel, 300, 64, [floats(64 * 300) for _ in range(2)], corners=True)
    line = BRANCHES[: BRANCHES.index("@%p1 bra")].count("\n") + 1
    assert f":{line}: the branch depends on loaded data" in report.notes[0]


@cuda.jit
def mask_of_the_cta(x: Any) -> None:
    """Lane 10 is not in the mask in CTAs 256 to 511."""
    t = cuda.threadIdx.x
    if t not in (0, 10):
        return
    cuda.syncwarp(0x401 + 4 * cuda.blockIdx.x)
    x[cuda.grid(1)] = 1


@cuda.jit
def lane_of_the_cta(x: Any) -> None:
    """Lanes 16 to 31 are not there."""
    x[cuda.grid(1)] = cuda.shfl_sync(0xFFFF, cuda.threadIdx.x, cuda.blockIdx.x)


@pytest.mark.parametrize(
    ("kernel", "grid", "block", "verdict"),
    [(mask_of_the_cta, 600, 32, "failed"), (lane_of_the_cta, 33, 16, "failed")],
)
def test_masks_and_lanes_that_depend_on_the_cta_are_looked_at_in_all(
    kernel: Any, grid: int, block: int, verdict: str
) -> None:
    report = wsemu.check(kernel, grid, block, (floats(grid * block),), corners=True)
    assert report.verdict == verdict
    assert any(ALL in note for note in report.notes)


def test_without_being_asked_all_are_run() -> None:
    x, y = floats(64 * 100), floats(64 * 100)
    report = wsemu.check(saxpy, 100, 64, (2.0, x, y))
    assert not report.notes
    assert (y == 3).all()


def test_what_is_said_from_some_ctas_is_so(tmp_path: Path) -> None:
    programs = [cta_programs.program(seed) for seed in range(12)]
    kernels = loaded(programs, tmp_path, "ctas_of_a_test")
    found = [cta_programs.tried(made, kernel) for made, kernel in zip(programs, kernels, strict=True)]
    assert [wrong for _, wrong in found if wrong] == []
    assert "decided from some CTAs" in {became for became, _ in found}


def test_what_is_said_of_random_ctas_in_ptx_holds(tmp_path):
    programs = [ptx_loop_programs.alike(seed) for seed in range(8)]
    kernels = ptx_loop_programs.loaded(programs, tmp_path, "ctas_of_a_test")
    found = [cta_programs.tried(made, kernel) for made, kernel in zip(programs, kernels, strict=True)]
    assert not [contradiction for _, contradiction in found if contradiction]
    assert any(became == "decided from some CTAs" for became, _ in found)
