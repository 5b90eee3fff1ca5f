"""Results of tests of a phase that are kept until they decide on a wait."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wsemu

HEAD = """
.version 8.8
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out, .param .u32 rounds)
{
.reg .pred %p<9>; .reg .b32 %r<30>; .reg .b64 %rd<6>;
.shared .align 8 .b8 m[64];
.shared .align 8 .b8 data[64];
ld.param.u64 %rd1, [out]; ld.param.u32 %r9, [rounds];
mov.u32 %r2, %tid.x; mov.u32 %r4, m; mov.u32 %r5, data; mov.u32 %r6, 7;
setp.eq.u32 %p1, %r2, 0; setp.eq.u32 %p2, %r2, 32;
"""
ONE_MBARRIER = (
    HEAD
    + """
@%p1 mbarrier.init.shared.b64 [%r4], 1;
bar.sync 0;
@%p1 bra ONE;
@%p2 bra TWO;
ret;
ONE:
mbarrier.try_wait.parity.shared.b64 %p3, [%r4], 0;
W0: mbarrier.try_wait.parity.shared.b64 %p4, [%r4], 0; @!%p4 bra W0;
mbarrier.arrive.shared.b64 _, [%r4];
W1: mbarrier.try_wait.parity.shared.b64 %p4, [%r4], 1; @!%p4 bra W1;
bar.arrive 1, 64;
@%p3 bra NEXT;
W2: mbarrier.try_wait.parity.shared.b64 %p4, [%r4], 0; @!%p4 bra W2;
NEXT:
ld.shared.u32 %r7, [%r5]; st.global.u32 [%rd1], %r7;
ret;
TWO:
mbarrier.arrive.shared.b64 _, [%r4];
W3: mbarrier.try_wait.parity.shared.b64 %p4, [%r4], 1; @!%p4 bra W3;
bar.sync 1, 64;
st.shared.u32 [%r5], %r6;
mbarrier.arrive.shared.b64 _, [%r4];
ret;
}
"""
)
"""warp 1 arrives in phase 0, which warp 0 may see complete; its wait is for phase 2, which orders the data"""
RING = (
    HEAD
    + """
setp.gt.u32 %p7, %r2, 3;
shl.b32 %r10, %r2, 3; add.u32 %r10, %r4, %r10;
@!%p7 mbarrier.init.shared.b64 [%r10], 1;
bar.sync 0;
@%p1 bra CONSUMER;
@%p2 bra PRODUCER;
ret;
CONSUMER:
mov.u32 %r11, 0; mov.u32 %r12, 0; mov.u32 %r13, 0; mov.u32 %r20, 0;
neg.s32 %r14, %r9;
mbarrier.try_wait.parity.shared.b64 %p3, [%r4], 0;
setp.lt.s32 %p4, %r9, 1; @%p4 bra DONE;
ROUND:
add.s32 %r15, %r13, 1;
shl.b32 %r16, %r11, 3; add.s32 %r17, %r4, %r16; add.s32 %r18, %r5, %r16;
@%p3 bra HAVE;
AGAIN: mbarrier.try_wait.parity.shared.b64 %p5, [WAITED], %r12; @!%p5 bra AGAIN;
HAVE:
ld.shared.u32 %r19, [%r18]; add.u32 %r20, %r20, %r19;
mbarrier.arrive.shared.b64 _, [%r17+16];
add.s32 %r11, %r11, 1; setp.eq.s32 %p6, %r11, 2;
selp.b32 %r11, 0, %r11, %p6; selp.b32 %r21, 1, 0, %p6; xor.b32 %r12, %r12, %r21;
setp.le.s32 %p4, %r9, %r15; @%p4 bra SKIP;
shl.b32 %r16, %r11, 3; add.s32 %r22, %r4, %r16;
mbarrier.try_wait.parity.shared.b64 %p3, [TESTED], %r12;
SKIP:
add.s32 %r14, %r14, 1; setp.ne.s32 %p4, %r14, 0; mov.u32 %r13, %r15;
@%p4 bra ROUND;
DONE:
st.global.u32 [%rd1], %r20;
ret;
PRODUCER:
mov.u32 %r11, 0; mov.u32 %r12, 1; mov.u32 %r13, 0;
FILL:
setp.ge.s32 %p4, %r13, %r9; @%p4 bra END;
shl.b32 %r16, %r11, 3; add.s32 %r17, %r4, %r16; add.s32 %r18, %r5, %r16;
FREE: mbarrier.try_wait.parity.shared.b64 %p5, [%r17+16], %r12; @!%p5 bra FREE;
st.shared.u32 [%r18], %r13;
mbarrier.arrive.shared.b64 _, [%r17];
add.s32 %r11, %r11, 1; setp.eq.s32 %p6, %r11, 2;
selp.b32 %r11, 0, %r11, %p6; selp.b32 %r21, 1, 0, %p6; xor.b32 %r12, %r12, %r21;
add.s32 %r13, %r13, 1; bra FILL;
END:
ret;
}
"""
)
"""a ring of two slots; one counter ends the loop of the consumer, another decides whether the next slot is tested"""


def run(source: str, rounds: int, engine: Any) -> tuple[wsemu.Report, int]:
    out = np.zeros(1, np.uint32)
    return wsemu.check(wsemu.load_ptx(source)["k"], 1, 64, (out, np.int32(rounds)), engine=engine), int(out[0])


def ring(tested: str = "%r22", waited: str = "%r17") -> str:
    return RING.replace("TESTED", tested).replace("WAITED", waited)


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_a_kept_result_does_not_replace_a_wait_for_a_later_phase_of_the_same_parity(engine: str) -> None:
    report, _ = run(ONE_MBARRIER, 0, engine)
    assert report.verdict == "incomplete"
    assert "the result of the test on line 20 decides on a wait for another phase" in report.notes[0]


@pytest.mark.parametrize("engine", ["vm", "reference"])
@pytest.mark.parametrize("rounds", [0, 1, 2, 5, 9])
def test_a_ring_that_tests_the_next_slot_is_decided(rounds: int, engine: str) -> None:
    report, total = run(ring(), rounds, engine)
    assert report.verdict == "verified", str(report)
    assert total == sum(range(rounds))


@pytest.mark.parametrize("engine", ["vm", "reference"])
@pytest.mark.parametrize("wrong", [{"tested": "%r17"}, {"tested": "%r4"}, {"tested": "%r22+16"}])
def test_a_ring_that_tests_another_slot_is_not_verified(wrong: dict[str, str], engine: str) -> None:
    assert run(ring(**wrong), 5, engine)[0].verdict == "incomplete"


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_a_later_mbarrier_at_the_tested_place_is_another_one(engine: str) -> None:
    """The first mbarrier's phase 0 may be complete at the test; the wait is for phase 0 of the second one."""
    one, two = "bar.arrive 1, 64;", "bar.sync 1, 64;"
    source = ONE_MBARRIER.replace(
        one, "bar.sync 1, 64; mbarrier.inval.shared.b64 [%r4]; bar.sync 2, 64; bar.sync 3, 64;"
    )
    source = source.replace(
        f"{two}\nst", "bar.sync 1, 64; bar.sync 2, 64; mbarrier.init.shared.b64 [%r4], 1; bar.sync 3, 64;\nst"
    )
    report, _ = run(source, 0, engine)
    assert report.verdict == "incomplete", str(report)
    assert "decides on a wait for another phase" in report.notes[0]


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_a_guarded_wait_without_an_mbarrier_is_reported_by_itself(engine: str) -> None:
    report, _ = run(ring(waited="%r17+40"), 5, engine)
    assert report.verdict == "failed"
    assert {finding.code for finding in report.findings if finding.severity == "error"} == {"mbarrier-uninitialized"}
