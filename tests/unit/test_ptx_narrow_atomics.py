"""Strong accesses to 8 and 16 bits, and `atom.cas.b16`: one access each, ordered as wider ones are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wsemu

ENGINES = pytest.mark.parametrize("engine", ["vm", "reference"])
TEXT = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 out)
{
.reg .b16 %h<9>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<4>;
ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [out]; mov.u32 %r1, %tid.x;
BODY
ret;
}
"""
ADD = """
ld.relaxed.gpu.global.b16 %h1, [%rd1+2];
AGAIN: add.u16 %h2, %h1, 3; atom.global.cas.b16 %h3, [%rd1+2], %h1, %h2; setp.ne.u16 %p1, %h3, %h1; mov.u16 %h1, %h3;
@%p1 bra AGAIN;
"""
MESSAGE = """
setp.eq.u32 %p1, %r1, 0; setp.eq.u32 %p3, %r1, 32;
@%p1 st.global.u32 [%rd2], 7; @%p1 st.release.gpu.global.TYPE [%rd1+6], 1;
@!%p3 bra DONE;
WAIT: ld.acquire.gpu.global.TYPE %h1, [%rd1+6]; setp.eq.u16 %p2, %h1, 0; @%p2 bra WAIT;
ld.global.u32 %r2, [%rd2]; st.global.u32 [%rd2+4], %r2;
DONE:
"""


def checked(body: str, engine: str, block: int) -> tuple[wsemu.Report, np.ndarray, np.ndarray]:
    x, out = np.arange(0, 40, 10, dtype=np.uint8).repeat(2), np.zeros(4, np.uint32)
    x[6:] = 0
    kernel = wsemu.load_ptx(TEXT.replace("BODY", body)).only()
    return wsemu.check(kernel, 1, block, (x, out), engine=engine), x, out  # type: ignore[arg-type]


@ENGINES
def test_a_swap_of_16_bits_leaves_its_neighbours(engine: str) -> None:
    report, x, _ = checked(ADD, engine, 2)
    assert not report.errors, report
    assert x.tolist() == [0, 0, 16, 10, 20, 20, 0, 0]


@ENGINES
@pytest.mark.parametrize("type_", ["u8", "b16"])
def test_a_flag_of_a_few_bits_orders_a_message(type_: str, engine: str) -> None:
    report, x, out = checked(MESSAGE.replace("TYPE", type_), engine, 64)
    assert report.verdict == "verified", report
    assert out[1] == 7
    assert x[6] == 1


@pytest.mark.parametrize("word", ["atom.global.exch.b16", "atom.global.or.b16"])
def test_ptx_has_no_other_atomics_of_16_bits(word: str) -> None:
    report, *_ = checked(f"{word} %h1, [%rd1], %h2;", "vm", 32)
    assert report.verdict == "incomplete"
    assert f"`{word}` is not modelled" in str(report.notes)


DESCRIPTOR = """
setp.eq.u32 %p1, %r1, 0; setp.eq.u32 %p3, %r1, 32;
@%p1 st.relaxed.gpu.global.v2.u32 [%rd2], {1, 7};
@!%p3 bra DONE;
WAIT: ld.relaxed.gpu.global.v2.u32 {%r2, %r3}, [%rd2]; setp.eq.u32 %p2, %r2, 0; @%p2 bra WAIT;
st.global.u32 [%rd2+8], %r3;
DONE:
"""


@ENGINES
def test_a_pair_of_words_is_one_access(engine: str) -> None:
    """A status and a value beside it, as CUB's scans hand them over."""
    report, _, out = checked(DESCRIPTOR, engine, 64)
    assert report.verdict == "verified", report
    assert {finding.code for finding in report.findings} == {"strong-vector"}
    assert report.proof.endswith("if a strong access of an aligned vector is one access, but 2 strong-vector")
    assert out.tolist() == [1, 7, 7, 0]


@ENGINES
def test_an_order_in_which_a_pair_is_not_waited_for_is_found(engine: str) -> None:
    body = DESCRIPTOR.replace("@%p2 bra WAIT;", "@%p2 bra DONE;")
    report, *_ = checked(body.replace("[%rd2+8], %r3", "[%rd2+4], %r3"), engine, 64)
    assert report.verdict == "failed", report


@ENGINES
def test_elements_of_a_pair_keep_their_places(engine: str) -> None:
    body = """ld.relaxed.gpu.global.v4.u16 {%h1, %h2, %h3, %h4}, [%rd1]; setp.ne.u32 %p1, %r1, 0; @%p1 bra DONE;
    st.release.gpu.global.v2.u16 [%rd2], {%h4, %h2}; st.global.u16 [%rd2+8], %h1; st.global.u16 [%rd2+10], %h3;
    DONE:"""
    report, x, out = checked(body, engine, 32)
    assert not report.errors, report
    given, stored = x.view(np.uint16), out.view(np.uint16)
    assert stored[[4, 1, 5, 0]].tolist() == given.tolist()


LONG = """
{ .reg .b64 %s<3>;
setp.ne.u32 %p1, %r1, 0; @%p1 bra DONE;
st.relaxed.gpu.global.v2.u64 [%rd2], {5, 6};
ld.acquire.gpu.global.v2.u64 {%s1, %s2}, [%rd2];
st.global.u32 [%rd2+16], %s1; st.global.u32 [%rd2+20], %s2;
ld.relaxed.gpu.global.v4.u32 {%r2, %r3, %r4, %r5}, [%rd2];
st.global.u32 [%rd2+24], %r2; st.global.u32 [%rd2+28], %r4;
DONE: }
"""


def check_long(body: str, engine: Any) -> tuple[wsemu.Report, np.ndarray]:
    out = np.zeros(8, np.uint32)
    kernel = wsemu.load_ptx(TEXT.replace("BODY", body))["k"]
    return wsemu.check(kernel, 1, 32, (np.zeros(4, np.uint32), out), engine=engine), out


@ENGINES
def test_elements_of_128_bits_keep_their_places(engine: str) -> None:
    report, out = check_long(LONG, engine)
    assert report.verdict == "verified", report
    assert out[4:8].tolist() == [5, 6, 5, 6]
    assert any("a vector of 4 elements" in finding.message for finding in report.findings)


@ENGINES
def test_a_vector_of_128_bits_is_aligned_to_16_bytes(engine: str) -> None:
    report, _ = check_long("st.relaxed.gpu.global.v2.u64 [%rd2+8], {5, 6};", engine)
    assert any("at no multiple of 16" in finding.message for finding in report.findings)
    assert report.verdict == "failed"
