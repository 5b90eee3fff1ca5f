"""`cuda.declare_device` and `link=`: functions that are PTX are called by kernels in Python, without Numba-CUDA."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from wsemu import cuda
from wsemu.launch.check import check
from wsemu.model.errors import KernelError, UnsupportedError

ENGINES = pytest.mark.parametrize("engine", ["vm", "reference"])
HEAD = ".version 7.0\n.target sm_70\n.address_size 64\n"
PLUS = """
.visible .func (.param .b32 status) plus42(.param .b64 out, .param .b32 a)
{
    .reg .b32 %r<4>; .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [out];
    ld.param.s32 %r1, [a];
    add.s32 %r2, %r1, 42;
    st.u32 [%rd1], %r2;
    mov.u32 %r3, 0;
    st.param.b32 [status], %r3;
    ret;
}
"""
TOTAL = """
.visible .func (.param .f32 sum) total(.param .b64 p, .param .b32 n)
{
    .reg .b32 %r<5>; .reg .f32 %f<3>; .reg .b64 %rd<3>; .reg .pred %p<3>;
    ld.param.u64 %rd1, [p];
    ld.param.s32 %r1, [n];
    mov.f32 %f1, 0f00000000;
    mov.u32 %r2, 0;
LOOP:
    setp.ge.s32 %p1, %r2, %r1;
    @%p1 bra END;
    ld.f32 %f2, [%rd1];
    add.f32 %f1, %f1, %f2;
    add.s64 %rd1, %rd1, 4;
    add.s32 %r2, %r2, 1;
    bra LOOP;
END:
    st.param.f32 [sum], %f1;
    ret;
}
"""
HALF = """
.visible .func (.param .b64 half) halved(.param .b64 a)
{
    .reg .f64 %d<3>;
    ld.param.f64 %d1, [a];
    mul.f64 %d2, %d1, 0d3FE0000000000000;
    st.param.f64 [half], %d2;
    ret;
}
.visible .func put(.param .b64 p, .param .b32 value)
{
    .reg .b32 %r<2>; .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [p];
    ld.param.u32 %r1, [value];
    st.u8 [%rd1], %r1;
    ret;
}
.visible .func (.param .b32 n) down(.param .b32 a)
{
    .reg .b32 %r<4>; .reg .pred %p<2>;
    .param .b32 x; .param .b32 y;
    ld.param.u32 %r1, [a];
    setp.eq.u32 %p1, %r1, 0;
    @%p1 bra END;
    sub.u32 %r2, %r1, 1;
    st.param.b32 [x], %r2;
    call.uni (y), down, (x);
    ld.param.b32 %r1, [y];
END:
    st.param.b32 [n], %r1;
    ret;
}
"""


def source(*functions: str) -> Any:
    return cuda.PTXSource((HEAD + "".join(functions)).encode())


plus42 = cuda.declare_device("plus42", "int32(int32)")
total = cuda.declare_device("total", "float32(CPointer(float32), int32)", abi="c", link=source(TOTAL))
halved = cuda.declare_device("halved", "float64(float64)", abi="c", link=source(HALF))
put = cuda.declare_device("put", "void(CPointer(uint8), uint8)", abi="c", link=source(HALF))
down = cuda.declare_device("down", "int32(int32)", abi="c", link=source(HALF))
nowhere = cuda.declare_device("nowhere", "int32(int32)", link=source(HALF))


@ENGINES
def test_a_function_has_numbas_conventions_and_is_called_in_loops(engine: Any, tmp_path: Path) -> None:
    file = tmp_path / "plus.ptx"
    file.write_text(HEAD + PLUS)

    @cuda.jit(link=[str(file)])
    def calls(x):
        i = cuda.grid(1)
        for j in range(3):
            x[i] = plus42(x[i]) + j

    x = np.arange(64, dtype=np.int32)
    check(calls, 2, 32, (x,), engine=engine).assert_clean()
    assert (x == np.arange(64) + 3 * 42 + 3).all()


@ENGINES
def test_a_function_of_c_reads_shared_memory_by_a_pointer(engine: Any) -> None:
    @cuda.jit
    def calls(y):
        i = cuda.grid(1)
        tile = cuda.shared.array(32, np.float32)
        tile[i] = i
        cuda.syncthreads()
        if i < 16:
            y[i] = total(tile, i) + halved(i)

    y = np.zeros(32)
    check(calls, 1, 32, (y,), engine=engine).assert_clean()
    assert y[:16].tolist() == [i * (i - 1) / 2 + i / 2 for i in range(16)]


def test_numbers_are_converted_and_nothing_may_be_returned() -> None:
    @cuda.jit
    def calls(x):
        put(x, 300.7)

    x = np.zeros(2, np.uint8)
    check(calls, 1, 1, (x,)).assert_clean()
    assert x.tolist() == [300 & 255, 0]


def test_a_race_in_linked_ptx_is_found_at_its_line() -> None:
    @cuda.jit
    def calls(x):
        put(x, cuda.threadIdx.x)

    report = check(calls, 1, 64, (np.zeros(2, np.uint8),))
    assert report.verdict == "failed"
    assert any("st.u8" in str(finding) or "linked.ptx" in str(finding) for finding in report.findings)


@pytest.mark.parametrize(("function", "why"), [(down, "needs a stack"), (nowhere, "declare_device` is not modelled")])
def test_what_cannot_be_put_in_place_is_not_modelled(function: Any, why: str) -> None:
    @cuda.jit
    def calls(x):
        x[0] = function(3)

    with pytest.raises(UnsupportedError, match=why):
        calls[1, 1](np.zeros(1, np.int32))


def test_a_call_has_the_declared_number_of_arguments() -> None:
    @cuda.jit
    def calls(x):
        x[0] = halved(x[0], 1)

    with pytest.raises(KernelError, match="`halved` takes 1 argument"):
        calls[1, 1](np.zeros(1))


def test_a_signature_that_the_ptx_has_not_is_refused() -> None:
    wrong = cuda.declare_device("halved", "float64(float64, float64)", abi="c", link=source(HALF))

    @cuda.jit
    def calls(x):
        x[0] = wrong(x[0], 1)

    with pytest.raises(UnsupportedError, match="other parameters in its PTX"):
        calls[1, 1](np.zeros(1))
