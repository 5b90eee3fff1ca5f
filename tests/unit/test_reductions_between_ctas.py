"""`cp.reduce.async.bulk` from the shared memory of a CTA into that of another one, on both engines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wsemu

TEXT = """
.version 8.4
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out) {
.reg .pred %p<5>; .reg .b32 %r<20>; .reg .b64 %rd<10>;
.shared .align 128 .b8 from[64]; .shared .align 128 .b8 into[64]; .shared .align 8 .b64 bar;
ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; mov.u32 %r2, %cluster_ctarank;
mov.u32 %r3, from; mov.u32 %r4, into; mov.u32 %r5, bar; shl.b32 %r6, %r1, 2;
setp.eq.u32 %p1, %r1, 0; setp.ne.u32 %p2, %r2, 0;
@%p1 mbarrier.init.shared.b64 [%r5], 1;
add.u32 %r7, %r3, %r6; add.u32 %r8, %r4, %r6;
mad.lo.u32 %r9, %r1, 1000003, %r2; st.shared.u32 [%r7], %r9;
mad.lo.u32 %r10, %r1, -7001, 5; st.shared.u32 [%r8], %r10;
fence.proxy.async; barrier.cluster.arrive; barrier.cluster.wait;
mapa.shared::cluster.u32 %r11, %r4, 0; mapa.shared::cluster.u32 %r12, %r5, 0;
@%p2 bra $send;
@%p1 mbarrier.arrive.expect_tx.shared.b64 %rd9, [%r5], EXPECTED;
OTHER
$wait: mbarrier.try_wait.parity.shared.b64 %p3, [%r5], 0; @!%p3 bra $wait;
ld.shared.u32 %r13, [%r8]; cvt.u64.u32 %rd2, %r6; add.u64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r13;
bra $end;
$send: @!%p1 bra $end;
cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.WHAT [%r11], [%r3], 64, [%r12];
$end: barrier.cluster.arrive; barrier.cluster.wait; ret; }
"""


def run(what, engine, ctas=3, other=""):
    text = TEXT.replace("WHAT", what).replace("OTHER", other).replace("EXPECTED", str(64 * (ctas - 1)))
    out = np.zeros(16, np.uint32)
    report = wsemu.check(wsemu.load_ptx(text)["k"], ctas, 16, (out,), cluster=ctas, engine=engine)
    return report, out


t = np.arange(16)
INTO = (t * -7001 + 5).astype(np.int64) & 0xFFFFFFFF
FROM = [t.astype(np.int64) * 1000003 + rank & 0xFFFFFFFF for rank in range(3)]


def signed(a):
    return a.astype(np.uint32).astype(np.int32).astype(np.int64)


def pairs(a):
    return a.astype(np.uint32).view(np.uint64)


def inc(old, limit):
    return np.where(old >= limit, 0, old + 1)


def dec(old, limit):
    return np.where((old == 0) | (old > limit), limit, old - 1)


MEANS: dict[str, Callable[..., Any]] = {
    "add.u32": lambda a, b: a + b,
    "add.s32": lambda a, b: a + b,
    "add.u64": lambda a, b: (pairs(a) + pairs(b)).view(np.uint32),
    "min.u32": np.minimum,
    "max.u32": np.maximum,
    "min.s32": lambda a, b: np.minimum(signed(a), signed(b)),
    "max.s32": lambda a, b: np.maximum(signed(a), signed(b)),
    "and.b32": np.bitwise_and,
    "or.b32": np.bitwise_or,
    "xor.b32": np.bitwise_xor,
    "inc.u32": inc,
    "dec.u32": dec,
}


@pytest.mark.parametrize("what", MEANS)
def test_elements_are_combined_with_what_the_other_cta_has(what):
    ctas = 2 if what in ("inc.u32", "dec.u32") else 3  # of two the order would decide
    wanted = INTO
    for rank in range(1, ctas):
        wanted = MEANS[what](wanted, FROM[rank]).astype(np.int64) & 0xFFFFFFFF
    for engine in ("vm", "reference"):
        report, out = run(what, engine, ctas)
        assert report.verdict == "verified", (report.findings, report.notes)
        assert out.tolist() == wanted.tolist()


@pytest.mark.parametrize("engine", ["vm", "reference"])
@pytest.mark.parametrize("other", ["st.shared.u32 [%r8], 1;", "red.shared.add.u32 [%r8], 1;"])
def test_what_the_generic_proxy_does_beside_a_reduction_races(engine, other):
    report, _ = run("add.u32", engine, other=other)
    assert {f.code for f in report.findings if f.severity == "error"} == {"race"}


@pytest.mark.parametrize("type_", ["s64", "f32", "b32"])
def test_a_type_that_there_is_not_is_refused(type_):
    report, _ = run(f"add.{type_}", "vm")
    assert report.verdict == "incomplete"
