"""Volatile accesses of global memory: relaxed ones, which wait in a loop and order nothing without fences."""

from __future__ import annotations

import numpy as np
import pytest

import wsemu

FENCE = "fence.acq_rel.gpu;"
FLAG = """
.version 8.8
.target sm_90
.address_size 64
.visible .entry k(.param .u64 flag, .param .u64 data, .param .u64 out)
{{
.reg .pred %p<4>;
.reg .b32 %r<8>;
.reg .b64 %rd<8>;
ld.param.u64 %rd1, [flag];
ld.param.u64 %rd2, [data];
ld.param.u64 %rd3, [out];
mov.u32 %r1, %ctaid.x;
mov.u32 %r2, %tid.x;
setp.ne.u32 %p1, %r2, 0;
@%p1 bra $end;
setp.ne.u32 %p2, %r1, 0;
@%p2 bra $wait;
st.global.u32 [%rd2], 7;
{release}
{store}
bra $end;
$wait:
ld.volatile.global.u32 %r3, [%rd1];
setp.eq.u32 %p3, %r3, 0;
@%p3 bra $wait;
{acquire}
ld.global.u32 %r4, [%rd2];
mul.wide.u32 %rd4, %r1, 4;
add.u64 %rd5, %rd3, %rd4;
st.global.u32 [%rd5], %r4;
$end:
ret;
}}
"""
SET = "st.volatile.global.u32 [%rd1], 1;"


@pytest.mark.parametrize(
    ("release", "acquire", "store", "verdict", "code"),
    [
        (FENCE, FENCE, SET, "verified", ""),
        ("", FENCE, SET, "failed", "race"),
        (FENCE, "", SET, "failed", "race"),
        (FENCE, FENCE, "", "incomplete", ""),
    ],
)
def test_a_loop_that_polls_a_volatile_flag_waits(
    release: str, acquire: str, store: str, verdict: str, code: str
) -> None:
    source = FLAG.format(release=release, acquire=acquire, store=store)
    arrays = tuple(np.zeros(4, np.uint32) for _ in range(3))
    found = wsemu.check(wsemu.load_ptx(source)["k"], 3, 32, arrays)
    assert found.verdict == verdict, found.notes
    assert code in {"", *(finding.code for finding in found.findings)}


def test_what_nobody_writes_steers_nothing() -> None:
    source = FLAG.format(release="", acquire="", store="").replace("bra $wait;", "bra $end;")
    source = source.replace("st.global.u32 [%rd2], 7;", "ld.volatile.global.u32 %r3, [%rd1];\n@%p2 bra $end;")
    arrays = tuple(np.ones(4, np.uint32) for _ in range(3))
    assert wsemu.check(wsemu.load_ptx(source)["k"], 3, 32, arrays).verdict == "verified"
