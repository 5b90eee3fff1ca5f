"""A kernel that gets the address of a strided array stores to its elements alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wsemu
from wsemu import cuda

TEXT = """
.version 8.8
.target sm_90
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 y, .param .u32 n, .param .u32 step)
{
.reg .b32 %r<9>; .reg .b64 %rd<9>;
ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; ld.param.u32 %r1, [n]; ld.param.u32 %r2, [step];
mov.u32 %r3, %tid.x;
mul.lo.u32 %r3, %r3, %r2; add.u32 %r3, %r3, %r1; mul.wide.u32 %rd3, %r3, 4; add.s64 %rd1, %rd1, %rd3;
ld.global.u32 %r4, [%rd1]; ld.global.u32 %r5, [%rd2]; BODY ret;
}
"""
STORE, ATOMIC = "st.global.u32 [%rd1], 7;", "atom.global.add.u32 %r5, [%rd1], 7;"
engines = pytest.mark.parametrize("engine", ["vm", "reference"])


def _codes(engine: Any, x: Any, y: Any, n: int, step: int, body: str = STORE) -> list[str]:
    kernel = wsemu.load_ptx(TEXT.replace("BODY", body))["k"]
    report = wsemu.check(kernel, 1, 4, (x, y, np.uint32(n), np.uint32(step)), engine=engine)
    return [finding.code for finding in report.findings if finding.severity == "error"]


@engines
@pytest.mark.parametrize("body", [STORE, ATOMIC])
def test_a_store_between_elements_is_out_of_bounds(engine: Any, body: str) -> None:
    whole = np.arange(10, 26, dtype=np.uint32)
    before = whole.copy()
    assert _codes(engine, whole[::2], np.zeros(1, np.uint32), 1, 2, body) == ["out-of-bounds"]
    assert (whole != before).tolist() == [False, True] * 4 + [False] * 8  # as on a GPU
    whole[:] = before
    assert _codes(engine, whole[::2], np.zeros(1, np.uint32), 0, 2, body) == []
    assert (whole != before).tolist() == [True, False] * 4 + [False] * 8
    matrix = np.zeros((5, 6), np.uint32)
    assert _codes(engine, matrix[:, :4], np.zeros(1, np.uint32), 4, 6, body) == ["out-of-bounds"]
    assert _codes(engine, matrix[:, :4], np.zeros(1, np.uint32), 3, 6, body) == []


@engines
def test_loads_of_gaps_and_gaps_that_another_array_has_are_right(engine: Any) -> None:
    whole = np.arange(10, 26, dtype=np.uint32)
    assert _codes(engine, whole[::2], np.zeros(1, np.uint32), 1, 2, "") == []
    for other in (whole[1::2], whole):
        assert "out-of-bounds" not in _codes(engine, whole[::2], other, 1, 2)
    assert _codes(engine, np.zeros((4, 4), np.uint32).T, np.zeros(1, np.uint32), 1, 4) == []


@engines
def test_the_finding_names_the_array(engine: Any) -> None:
    kernel = wsemu.load_ptx(TEXT.replace("BODY", STORE))["k"]
    given = np.zeros(16, np.uint32)[::2], np.zeros(1, np.uint32), np.uint32(1), np.uint32(2)
    (finding,) = wsemu.check(kernel, 1, 4, given, engine=engine).errors
    assert finding.message == "store of 4 bytes between the elements of `x`"
    assert "byte 4 of `x`" in finding.notes[0]


@engines
def test_kernels_in_python_know_the_strides(engine: Any) -> None:
    @cuda.jit
    def doubled(x: Any) -> None:
        x[cuda.threadIdx.x] *= 2

    whole = np.arange(10, 26, dtype=np.uint32)
    wsemu.check(doubled, 1, 8, (whole[::2],), engine=engine).assert_clean()
    assert whole.tolist()[:4] == [20, 11, 24, 13]
