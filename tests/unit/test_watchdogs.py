"""Waits for mbarriers that are asked for a while: with a clock, a count, or try after try; those that give up with a
trap, and those that begin anew.  That a trap comes first counts as never reached; whatever else is done about it makes
the wait a poll."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wsemu

TEXT = """.version 8.8
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out)
{
.reg .pred %p<9>; .reg .b32 %r<9>; .reg .b64 %rd<9>;
.shared .align 8 .b64 bar; .shared .align 4 .b8 tile[256];
ld.param.u64 %rd1, [out];
mov.u32 %r1, %tid.x;
mul.wide.u32 %rd2, %r1, 4;
add.s64 %rd1, %rd1, %rd2;
mov.u32 %r2, tile;
mad.lo.s32 %r3, %r1, 4, %r2;
setp.ne.s32 %p1, %r1, 0;
@%p1 bra READY;
mbarrier.init.shared.b64 [bar], 64;
READY:
bar.sync 0;
st.shared.u32 [%r3], %r1;
mbarrier.arrive.shared.b64 _, [bar];
BODY
DONE:
sub.s32 %r3, 252, %r3;
add.s32 %r3, %r3, %r2;
add.s32 %r3, %r3, %r2;
ld.shared.u32 %r4, [%r3];
st.global.u32 [%rd1], %r4;
ret;
}
"""
FIRST_TRY = """mov.u64 %rd3, %clock64;
mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0;
@%p2 bra DONE;
AGAIN:
mov.u64 %rd4, %clock64;
sub.s64 %rd5, %rd4, %rd3;
setp.lt.s64 %p3, %rd5, 1000000;
@%p3 bra ASK;
LATE
ASK:
mbarrier.try_wait.parity.shared.b64 %p4, [bar], 0;
@!%p4 bra AGAIN;
"""
FOR_A_WHILE = """START:
mov.u64 %rd3, %globaltimer;
AGAIN:
mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0;
selp.b32 %r5, 1, 0, %p2;
mov.u64 %rd4, %globaltimer;
sub.s64 %rd5, %rd4, %rd3;
setp.eq.s32 %p3, %r5, 0;
setp.lt.s64 %p4, %rd5, 100;
and.pred %p5, %p3, %p4;
@%p5 bra AGAIN;
"""
BY_DATA = """ASK:
mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0;
@%p2 bra DONE;
setp.gt.u32 %p3, %r6, 3;
@%p3 bra LATE;
COUNTS
bra ASK;
LATE:
trap;
"""
"""gives up by what does not change from try to try"""
COUNTED = "add.u32 %r6, %r6, 1;"
TRY = """mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0;
@%p2 bra DONE;
"""
BODIES = {
    "a trap": (FIRST_TRY.replace("LATE", "trap;"), "verified"),
    "something stored, and a trap": (FIRST_TRY.replace("LATE", "st.global.u32 [%rd1], 7;\ntrap;"), "verified"),
    "on it goes": (FIRST_TRY.replace("LATE", "bra DONE;"), "incomplete"),
    "what is not modelled": (FIRST_TRY.replace("LATE", "discard.global.L2 [%rd1], 128;"), "incomplete"),
    "again and again": (FOR_A_WHILE + "@%p3 bra START;\n", "verified"),
    "once": (FOR_A_WHILE, "failed"),
    "a trap by data": ("mov.u32 %r6, %ntid.x;\n" + BY_DATA.replace("COUNTS", ""), "incomplete"),
    "a trap by a count of tries": ("mov.u32 %r6, 0;\n" + BY_DATA.replace("COUNTS", COUNTED), "verified"),
    "one try and a trap": (TRY + "trap;", "incomplete"),
    "three tries and a trap": (TRY * 3 + "trap;", "verified"),
    "three tries and no wait": (TRY * 3, "failed"),
    "three tries, again and again": (f"AGAIN:\n{TRY * 3}bra AGAIN;", "verified"),
    "some tries, then a loop with pauses": (f"{TRY * 3}AGAIN:\nnanosleep.u32 20;\n{TRY}bra AGAIN;", "verified"),
    "a count beside an unrolled loop": (
        f"mov.u32 %r6, 0;\nAGAIN:\n{TRY * 4}add.u32 %r6, %r6, 4;\nsetp.lt.u32 %p3, %r6, 999;\n@%p3 bra AGAIN;\ntrap;",
        "verified",
    ),
    "a relaxed try second": (TRY + TRY.replace("wait.parity", "wait.parity.relaxed.cta") + "trap;", "incomplete"),
    "something stored between tries": (TRY + "st.global.u32 [%rd1], 7;\n" + TRY + "trap;", "incomplete"),
    "which try it was is stored": ("mov.u32 %r3, 1;\n" + TRY + "mov.u32 %r3, 2;\n" + TRY + "trap;", "incomplete"),
}


@pytest.mark.parametrize("engine", ["vm", "reference"])
@pytest.mark.parametrize("what", BODIES)
def test_what_comes_of_a_wait_that_takes_long(tmp_path: Any, what: str, engine: Any) -> None:
    body, verdict = BODIES[what]
    (tmp_path / "k.ptx").write_text(TEXT.replace("BODY", body))
    out = np.zeros(64, np.int32)
    found = wsemu.check(wsemu.load_ptx(tmp_path / "k.ptx").only(), 1, 64, (out,), engine=engine)
    assert found.verdict == verdict, found.notes
    assert [finding.code for finding in found.findings] == ["race"] * (verdict == "failed")
    if verdict == "verified":
        assert out.tolist() == list(range(63, -1, -1))


@pytest.mark.parametrize("engine", ["vm", "reference"])
@pytest.mark.parametrize(("right", "wrong", "code"), [
    ("[bar], 64", "[bar], 65", "deadlock"),
    ("[bar], 64", "[bar], 63", "over-arrival"),
    ("mbarrier.arrive.shared.b64 _, [bar];", "@%p1 mbarrier.arrive.shared.b64 _, [bar];", "deadlock"),
    ("[bar], 0", "[bar], 1", "race"),
])  # fmt: skip
def test_unrolled_waits_are_judged_as_waits(tmp_path: Any, right: str, wrong: str, code: str, engine: Any) -> None:
    text = TEXT.replace("BODY", TRY * 4 + "trap;")
    assert right in text
    (tmp_path / "k.ptx").write_text(text.replace(right, wrong))
    found = wsemu.check(wsemu.load_ptx(tmp_path / "k.ptx").only(), 1, 64, (np.zeros(64, np.int32),), engine=engine)
    assert code in [finding.code for finding in found.findings], found.notes


def test_a_try_for_the_other_phase_is_another_question(tmp_path: Any) -> None:
    other = TRY.replace("[bar], 0", "[bar], 1")
    (tmp_path / "k.ptx").write_text(TEXT.replace("BODY", TRY + other + "trap;"))
    found = wsemu.check(wsemu.load_ptx(tmp_path / "k.ptx").only(), 1, 64, (np.zeros(64, np.int32),))
    assert found.verdict == "failed"
    assert any("answer of the wait" in note for note in found.notes)
