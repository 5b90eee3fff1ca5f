"""Arrays that nothing has written are unwritten wherever an argument leads to them, and written behind the launch."""

from __future__ import annotations

import numpy as np
import pytest

import wsemu
from tests.unit.test_textures import fetching
from wsemu import cuda
from wsemu.launch.crosscheck import emulate
from wsemu.model.launch_shape import configure

f32 = np.float32
ENGINES = ("vm", "reference")
_TEXT = """.version 8.0
.target sm_90
.address_size 64
.visible .global .u64 table;
.visible .entry behind(.param .u64 list, .param .u64 out)
{ .reg .b64 %rd<9>; .reg .b32 %r<9>; .reg .f32 %f<2>;
  ld.param.u64 %rd1, [list]; ld.param.u64 %rd2, [out]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 4;
  ld.global.u64 %rd4, [%rd1+8]; add.u64 %rd4, %rd4, %rd3; ld.global.f32 %f1, [%rd4];
  add.u64 %rd2, %rd2, %rd3; st.global.f32 [%rd2], %f1; ret; }
.visible .entry inside(.param .align 8 .b8 given[16], .param .u64 out)
{ .reg .b64 %rd<9>; .reg .b32 %r<9>; .reg .f32 %f<2>;
  ld.param.u64 %rd4, [given+8]; ld.param.u64 %rd2, [out]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 4;
  add.u64 %rd4, %rd4, %rd3; ld.global.f32 %f1, [%rd4];
  add.u64 %rd2, %rd2, %rd3; st.global.f32 [%rd2], %f1; ret; }
.visible .entry variable(.param .u64 out)
{ .reg .b64 %rd<9>; .reg .b32 %r<9>; .reg .f32 %f<2>;
  ld.global.u64 %rd4, [table]; ld.param.u64 %rd2, [out]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 4;
  add.u64 %rd4, %rd4, %rd3; ld.global.f32 %f1, [%rd4];
  add.u64 %rd2, %rd2, %rd3; st.global.f32 [%rd2], %f1; ret; }
"""


@cuda.jit
def of_a_tuple(parts, out):
    i = cuda.threadIdx.x
    out[i] = parts[1][0][i]


@cuda.jit
def of_one(x, out):
    out[cuda.threadIdx.x] = x[cuda.threadIdx.x]


def blank() -> np.ndarray:
    return cuda.device_array(32, f32)


def once(kernel, arguments, engine):
    """The codes of a launch, and of the same once more."""
    given = (*arguments, np.zeros(32, f32))
    return [[f.code for f in wsemu.check(kernel, 1, 32, given, engine=engine).errors] for _ in range(2)]


MISSED = [["uninitialized-read"], []]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kernel", ["behind", "inside"])
def test_in_lists_and_structures(engine, kernel):
    module = wsemu.load_ptx(_TEXT)
    held = [np.zeros(32, f32), blank()]
    assert once(module[kernel], [held if kernel == "behind" else tuple(held)], engine) == MISSED
    held = [blank(), np.zeros(32, f32)]
    assert once(module[kernel], [held if kernel == "behind" else tuple(held)], engine) == [[], []]


@pytest.mark.parametrize("engine", ENGINES)
def test_behind_a_pointer_that_a_variable_holds(engine):
    module = wsemu.load_ptx(_TEXT)
    module.set(table=blank())
    assert once(module["variable"], [], engine) == MISSED


@pytest.mark.parametrize("engine", ENGINES)
def test_in_tuples(engine):
    assert once(of_a_tuple, [(np.zeros(32, f32), (blank(),))], engine) == MISSED
    assert once(of_a_tuple, [(blank(), (np.zeros(32, f32),))], engine) == [[], []]


@pytest.mark.parametrize("engine", ENGINES)
def test_in_textures(engine):
    x = [np.zeros(32, np.int32) for _ in range(3)]
    kernel = fetching("tex.1d.v4.f32.s32", "%r1")
    texels = blank()
    for expected in MISSED:
        out = np.zeros((32, 4), f32)
        report = wsemu.check(kernel, 1, 32, (wsemu.Texture(texels), *x, out), engine=engine)
        assert [finding.code for finding in report.errors] == expected


def test_they_have_the_name_by_which_the_argument_leads_to_them():
    kernel = wsemu.load_ptx(_TEXT)["behind"]
    arguments = ([np.zeros(32, f32), np.zeros(32, f32)], np.zeros(32, f32))
    assert wsemu.check(kernel, 1, 32, arguments, uninitialized=["list[0]"]).verdict == "verified"
    (finding,) = wsemu.check(kernel, 1, 32, arguments, uninitialized=["list[1]"]).errors
    assert finding.code == "uninitialized-read"


def test_what_is_emulated_for_a_gpu_stays_unwritten():
    texels = blank()
    for _ in range(2):
        emulated = emulate(of_one, configure(1, 32), (texels, np.zeros(32, f32)))
        assert [finding.code for finding in emulated.report.errors] == ["uninitialized-read"]
