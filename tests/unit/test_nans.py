"""float64 nans: their bits behind arithmetic, as measured on an H200, on both engines."""

from __future__ import annotations

import numpy as np
import pytest

import wsemu

QUIET, SIGNALLING, NEGATIVE = 0x7FF8000000000000, 0x7FF0000000000001, 0xFFFABCDEF0123456
INFINITE, ONE, MADE = 0x7FF0000000000000, 0x3FF0000000000000, 0xFFF8000000000000
MINUS = 1 << 63
_TEXT = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 out)
{{ .reg .b64 %rd<4>; .reg .f64 %d<5>;
  ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [out];
  ld.global.f64 %d1, [%rd1]; ld.global.f64 %d2, [%rd1+8]; ld.global.f64 %d3, [%rd1+16];
  {operation}
  st.global.f64 [%rd2], %d4; ret; }}
"""
MEASURED = [
    ("add.rn.f64 %d4, %d1, %d2;", (SIGNALLING, ONE), SIGNALLING | QUIET),
    ("add.rn.f64 %d4, %d1, %d2;", (SIGNALLING, NEGATIVE), NEGATIVE),
    ("add.rn.f64 %d4, %d1, %d2;", (INFINITE, INFINITE | MINUS), MADE),
    ("sub.rn.f64 %d4, %d1, %d2;", (ONE, NEGATIVE), NEGATIVE),
    ("sub.rn.f64 %d4, %d1, %d2;", (INFINITE, INFINITE), MADE),
    ("mul.rp.f64 %d4, %d1, %d2;", (QUIET, NEGATIVE), NEGATIVE),
    ("mul.rn.f64 %d4, %d1, %d2;", (0, INFINITE), MADE),
    ("fma.rn.f64 %d4, %d1, %d2, %d3;", (QUIET, ONE, NEGATIVE), NEGATIVE),
    ("fma.rn.f64 %d4, %d1, %d2, %d3;", (QUIET, NEGATIVE, SIGNALLING), NEGATIVE),
    ("fma.rn.f64 %d4, %d1, %d2, %d3;", (0, INFINITE, ONE), MADE),
    ("div.rn.f64 %d4, %d1, %d2;", (NEGATIVE, 0), NEGATIVE),
    ("div.rn.f64 %d4, %d1, %d2;", (0, 0), MADE),
    ("sqrt.rn.f64 %d4, %d1;", (NEGATIVE,), NEGATIVE),
    ("sqrt.rn.f64 %d4, %d1;", (ONE | MINUS,), MADE),
    ("rcp.rn.f64 %d4, %d1;", (SIGNALLING,), SIGNALLING | QUIET),
    ("min.f64 %d4, %d1, %d2;", (QUIET, NEGATIVE), NEGATIVE),
    ("max.f64 %d4, %d1, %d2;", (QUIET, ONE), ONE),
    ("neg.f64 %d4, %d1;", (QUIET,), QUIET),
    ("neg.f64 %d4, %d1;", (ONE,), ONE | MINUS),
    ("abs.f64 %d4, %d1;", (NEGATIVE,), NEGATIVE),
    ("cvt.rzi.f64.f64 %d4, %d1;", (SIGNALLING,), SIGNALLING | QUIET),
    ("copysign.f64 %d4, %d1, %d2;", (ONE, SIGNALLING), SIGNALLING),
]


@pytest.mark.parametrize("engine", ["vm", "reference"])
@pytest.mark.parametrize(("operation", "given", "expected"), MEASURED)
def test_nans_are_those_of_the_hardware(operation: str, given: tuple[int, ...], expected: int, engine: str) -> None:
    x, out = np.array((*given, 0, 0, 0)[:3], np.uint64), np.zeros(1, np.uint64)
    kernel = wsemu.load_ptx(_TEXT.format(operation=operation))["k"]
    wsemu.check(kernel, 1, 1, (x, out), engine=engine).assert_clean()  # type: ignore[arg-type]
    assert hex(out[0]) == hex(expected)


@pytest.mark.parametrize("engine", ["vm", "reference"])
@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize(("old", "added", "expected"), [
    (0xFFFFFFF0, 0x3F800000, 0x7FFFFFFF), (0x3F800000, 0xFF800001, 0x7FFFFFFF), (0x7F800000, 0xFF800000, 0x7FFFFFFF),
])  # fmt: skip
def test_an_atomic_sum_has_the_one_nan_of_f32(old: int, added: int, expected: int, space: str, engine: str) -> None:
    text = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 x)
{ .reg .b64 %rd<3>; .reg .b32 %r<5>; .reg .f32 %f<3>; .shared .b32 s;
  ld.param.u64 %rd1, [x]; ld.global.u32 %r1, [%rd1]; ld.global.f32 %f1, [%rd1+4]; mov.u64 %rd2, s;
  st.shared.u32 [s], %r1; st.global.u32 [%rd1+8], %r1;
  atom.global.add.f32 %f2, [%rd1+8], %f1; atom.shared.add.f32 %f2, [s], %f1;
  ld.shared.u32 %r2, [s]; st.global.u32 [%rd1+12], %r2; ret; }
"""
    x = np.array((old, added, 0, 0), np.uint32)
    wsemu.check(wsemu.load_ptx(text)["k"], 1, 1, (x,), engine=engine)  # type: ignore[arg-type]
    assert hex(x[2 if space == "global" else 3]) == hex(expected)
