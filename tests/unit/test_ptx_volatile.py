"""Volatile accesses of global memory, and of shared memory that a loop polls: relaxed ones, which wait in a loop and
order nothing without fences."""

from __future__ import annotations

from typing import Any

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
        (FENCE, FENCE, "", "failed", "deadlock"),
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


SHARED_FLAG = """
.version 8.8
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out)
{{
.reg .pred %p<4>;
.reg .b32 %r<8>;
.reg .b64 %rd<8>;
.shared .align 4 .b32 flag;
.shared .align 4 .b32 word;
ld.param.u64 %rd1, [out];
mov.u32 %r1, %tid.x;
setp.ne.u32 %p1, %r1, 0;
@%p1 bra $ready;
st.volatile.shared.u32 [flag], 0;
$ready:
bar.sync 0;
setp.gt.u32 %p2, %r1, 31;
@%p2 bra $other;
@%p1 bra $end;
st.shared.u32 [word], 7;
{release}
{store}
bra.uni $end;
$other:
setp.ne.u32 %p3, %r1, 32;
@%p3 bra $end;
$wait:
nanosleep.u32 20;
ld.volatile.shared.u32 %r3, [flag];
setp.eq.u32 %p3, %r3, 0;
@%p3 bra $wait;
{acquire}
ld.shared.u32 %r4, [word];
st.global.u32 [%rd1], %r4;
$end:
ret;
}}
"""
SET_SHARED, FENCE_CTA = "st.volatile.shared.u32 [flag], 1;", "fence.acq_rel.cta;"


@pytest.mark.parametrize("engine", ["vm", "reference"])
@pytest.mark.parametrize(
    ("release", "acquire", "store", "codes"),
    [
        (FENCE_CTA, FENCE_CTA, SET_SHARED, set()),
        ("", FENCE_CTA, SET_SHARED, {"race"}),
        (FENCE_CTA, "", SET_SHARED, {"race"}),
        (FENCE_CTA, FENCE_CTA, "", {"deadlock"}),
    ],
)
def test_a_loop_may_poll_a_volatile_flag_in_shared_memory(
    engine: Any, release: str, acquire: str, store: str, codes: set[str]
) -> None:
    """PTX ISA, "ld": `ld.volatile` orders memory as `ld.relaxed.sys` does, in shared memory too."""
    out = np.zeros(1, np.uint32)
    kernel = wsemu.load_ptx(SHARED_FLAG.format(release=release, acquire=acquire, store=store))["k"]
    found = wsemu.check(kernel, 1, 64, (out,), engine=engine, budget=4_000)
    assert {finding.code for finding in found.findings} == codes, found.notes
    assert found.verdict == ("failed" if codes else "verified"), found.notes


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_the_loop_may_be_entered_at_the_load(engine: Any) -> None:
    """`while (*flag == 0) __nanosleep(20);` as compilers turn it: the pause first, and a way into the middle."""
    text = SHARED_FLAG.replace("$wait:\nnanosleep.u32 20;\n", "bra.uni $ask;\n$wait:\nnanosleep.u32 20;\n$ask:\n")
    kernel = wsemu.load_ptx(text.format(release=FENCE_CTA, acquire=FENCE_CTA, store=SET_SHARED))["k"]
    found = wsemu.check(kernel, 1, 64, (np.zeros(1, np.uint32),), engine=engine, budget=4_000)
    assert found.verdict == "verified", found.notes


def test_notes_name_volatile_accesses_and_no_opcodes() -> None:
    source = FLAG.format(release="", acquire="", store=SET)
    arrays = tuple(np.zeros(4, np.uint32) for _ in range(3))
    notes = " ".join(wsemu.check(wsemu.load_ptx(source)["k"], 3, 32, arrays).notes)
    assert "depends on what the volatile or atomic load on line" in notes
    assert "which thread's volatile or atomic store comes last depends on the order" in notes
    assert "`or`" not in notes
    assert "`exch`" not in notes


def test_notes_name_atomics_of_cuda() -> None:
    source = FLAG.format(release="", acquire="", store="atom.global.exch.b32 %r5, [%rd1], 1;")
    arrays = tuple(np.zeros(4, np.uint32) for _ in range(3))
    notes = " ".join(wsemu.check(wsemu.load_ptx(source)["k"], 3, 32, arrays).notes)
    assert "`atomicExch`" in notes
