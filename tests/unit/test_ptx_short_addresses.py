"""Addresses of 32 bits of parameters, constants and local variables, as LLVM makes them where it knows them small."""

from __future__ import annotations

import numpy as np
import pytest

import wsemu

TEXT = """
.version 8.0
.target sm_90
.address_size 64
.const .align 4 .b32 table[4] = {10, 20, 30, 40};
.const .align 4 .b32 other[4] = {11, 21, 31, 41};
.visible .entry k(.param .u64 out, .param .align 128 .b8 wide[256], .param .align 4 .b8 narrow[16])
{
.local .align 4 .b8 room[64];
.reg .b32 %r<20>; .reg .b64 %rd<20>;
ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 16; add.u64 %rd1, %rd1, %rd2;
BODY
st.global.v4.b32 [%rd1], {%r10, %r11, %r12, %r13};
ret;
}
"""
BODIES = {
    "constants": "mov.b32 %r2, table; ld.const.b32 %r10, [%r2+4]; mov.u32 %r3, other; add.s32 %r3, %r3, 8;"
    "ld.const.b32 %r11, [%r3]; cvt.u64.u32 %rd3, %r3; cvta.const.u64 %rd4, %rd3; ld.b32 %r12, [%rd4];"
    "mov.u64 %rd5, table; ld.const.b32 %r13, [%rd5];",
    "parameters": "mov.b32 %r2, wide; ld.param.b32 %r10, [%r2+4]; mov.b32 %r3, narrow; ld.param.b32 %r11, [%r3+12];"
    "cvt.u64.u32 %rd3, %r2; cvta.param.u64 %rd4, %rd3; ld.b32 %r12, [%rd4+252]; mov.u64 %rd5, wide;"
    "cvta.param.u64 %rd6, %rd5; ld.b32 %r13, [%rd6];",
    "local": "mov.b32 %r2, room; st.local.b32 [%r2+4], %r1; ld.local.b32 %r10, [%r2+4]; cvt.u64.u32 %rd3, %r2;"
    "cvta.local.u64 %rd4, %rd3; ld.b32 %r11, [%rd4+4]; st.b32 [%rd4+8], 7; ld.local.b32 %r12, [%r2+8];"
    "mov.u64 %rd5, room; ld.local.b32 %r13, [%rd5+4];",
}
WANTED = {"constants": (20, 31, 31, 10), "parameters": (1, 103, 63, 0), "local": (None, None, 7, None)}


@pytest.mark.parametrize("engine", ["vm", "reference"])
@pytest.mark.parametrize("what", BODIES)
def test_a_short_address_leads_to_its_variable(what: str, engine: str) -> None:
    out = np.zeros((32, 4), np.uint32)
    wide, narrow = np.arange(64, dtype=np.uint32).tobytes(), np.arange(100, 104, dtype=np.uint32).tobytes()
    kernel = wsemu.load_ptx(TEXT.replace("BODY", BODIES[what])).only()
    report = wsemu.check(kernel, 1, 32, (out, wide, narrow), engine=engine)  # type: ignore[arg-type]
    assert report.verdict == "verified", report
    for lane, row in enumerate(out.tolist()):
        assert row == [lane if n is None else n for n in WANTED[what]]
