"""Functions around an `asm` statement in C++: what is said of an instruction names the line that calls them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import wsemu
from wsemu.launch.ptx.module import load_ptx
from wsemu.report.terminal import render

if TYPE_CHECKING:
    from pathlib import Path

SOURCE = """\
struct Gate {
  int id;
  __device__ void wait(int n) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(n) : "memory"); }
  __device__ void arrive(int n) { asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(n) : "memory"); }
};
__device__ void stage(Gate gate) { gate.wait(64); }
extern "C" __global__ void gated(int *x) {
  Gate full{1}, empty{2};
  if (threadIdx.x < 32) {
    stage(full);
    x[threadIdx.x] = 1;
    empty.arrive(64);
  } else {
    stage(empty);
    full.arrive(64);
  }
}
"""
PTX = """\
.version 9.0
.target sm_90
.address_size 64
.visible .entry gated(.param .u64 gated_param_0)
{
.reg .pred %p<2>;
.reg .b32 %r<10>;
.reg .b64 %rd<5>;
.loc 1 7 0
ld.param.u64 %rd1, [gated_param_0];
.loc 1 9 3
mov.u32 %r1, %tid.x;
setp.lt.u32 %p1, %r1, 32;
@%p1 bra $L__BB0_2;
bra.uni $L__BB0_1;
$L__BB0_2:
cvta.to.global.u64 %rd2, %rd1;
.loc 1 10 5
.loc 1 6 36, function_name $L__info_string0, inlined_at 1 10 5
.loc 1 3 33, function_name $L__info_string1, inlined_at 1 6 36
mov.u32 %r6, 1;
mov.u32 %r9, 64;
bar.sync %r6, %r9;
.loc 1 11 5
mul.wide.u32 %rd3, %r1, 4;
add.s64 %rd4, %rd2, %rd3;
st.global.u32 [%rd4], %r6;
.loc 1 12 5
.loc 1 4 35, function_name $L__info_string2, inlined_at 1 12 5
mov.u32 %r8, 2;
bar.arrive %r8, %r9;
bra.uni $L__BB0_3;
$L__BB0_1:
.loc 1 14 5
.loc 1 6 36, function_name $L__info_string0, inlined_at 1 14 5
.loc 1 3 33, function_name $L__info_string1, inlined_at 1 6 36
mov.u32 %r2, 2;
mov.u32 %r5, 64;
bar.sync %r2, %r5;
.loc 1 15 5
.loc 1 4 35, function_name $L__info_string2, inlined_at 1 15 5
mov.u32 %r4, 1;
bar.arrive %r4, %r5;
$L__BB0_3:
.loc 1 17 1
ret;
}
.file 1 "FILE"
"""


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_a_deadlock_names_who_calls_the_wrappers(tmp_path: Path, engine: Any) -> None:
    (tmp_path / "gated.cu").write_text(SOURCE)
    (tmp_path / "gated.ptx").write_text(PTX.replace("FILE", (tmp_path / "gated.cu").as_posix()))
    kernel = load_ptx(tmp_path / "gated.ptx")["gated"]
    report = wsemu.check(kernel, 1, 64, (np.zeros(64, np.int32),), engine=engine)
    (finding,) = report.findings
    assert finding.code == "deadlock"
    assert {(site.line, site.text, site.primary) for site in finding.sites} == {
        (3, "the instruction itself", False),
        (6, "warp 0 waits: barrier 1 generation 0 has 32 of 64", True),
        (6, "warp 1 waits: barrier 2 generation 0 has 32 of 64", True),
        (10, "warp 0 comes from here", False),
        (14, "warp 1 comes from here", False),
        (12, "warp 0 would release warp 1 here, but waits at line 6", False),
        (15, "warp 1 would release warp 0 here, but waits at line 6", False),
    }
    assert "gated.cu:6:" in render(report).split("\n")[2]


@wsemu.cuda.jit(device=True)
def meets(barrier):
    wsemu.ptx.bar_sync(barrier, 64)


@wsemu.cuda.jit
def crossed(x):
    if wsemu.cuda.threadIdx.x < 32:
        meets(1)
        meets(2)
    else:
        meets(2)
        meets(1)
    x[wsemu.cuda.threadIdx.x] = 1


def test_a_deadlock_in_a_device_function_names_the_calls() -> None:
    report = wsemu.check(crossed, 1, 64, (np.zeros(64, np.int32),))
    (finding,) = report.findings
    first = crossed.py_func.__code__.co_firstlineno
    calls = {site.line - first: site.text for site in finding.sites if "comes from here" in site.text}
    assert calls == {3: "warp 0 comes from here", 6: "warp 1 comes from here"}
