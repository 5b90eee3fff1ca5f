"""Stores of one value that nothing orders, in a launch that a poll influences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wsemu

KERNEL = """
.version 8.8
.target sm_90
.address_size 64
.visible .entry k(.param .u64 memory)
{
.reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<6>;
.shared .align 8 .b8 m[8];
.shared .align 8 .b8 own[256];
ld.param.u64 %rd1, [memory]; mov.u32 %r2, %tid.x; mov.u32 %r4, m; mov.u32 %r5, 7;
setp.eq.u32 %p1, %r2, 0; @%p1 mbarrier.init.shared.b64 [%r4], 1;
bar.sync 0;
@%p1 mbarrier.arrive.shared.b64 _, [%r4];
POLL
STORE
ret;
}
"""
POLL = """
shl.b32 %r3, %r2, 2; mov.u32 %r6, own; add.u32 %r6, %r6, %r3;
mbarrier.test_wait.parity.shared.b64 %p2, [%r4], 0;
@!%p2 bra LATER; st.shared.u32 [%r6], 1; LATER:
"""
CHOOSE = "mbarrier.test_wait.parity.shared.b64 %p2, [%r4], 0; selp.b32 %r5, 7, 8, %p2;"
SAME, OTHER = "st.global.u32 [%rd1], %r5;", "st.global.u32 [%rd1], %r2;"


def codes(poll: str, store: str, engine: Any) -> tuple[str, set[str]]:
    source = KERNEL.replace("POLL", poll).replace("STORE", store)
    report = wsemu.check(wsemu.load_ptx(source)["k"], 1, 64, (np.zeros(1, np.uint32),), engine=engine)
    assert report.verdict != "incomplete" or any("write the same value in this run" in note for note in report.notes)
    return report.verdict, {finding.code for finding in report.findings if finding.severity == "error"}


@pytest.mark.parametrize("engine", ["vm", "reference"])
@pytest.mark.parametrize(("poll", "store", "expected"), [
    ("", SAME, ("verified", set())),
    (POLL, SAME, ("incomplete", set())),
    (CHOOSE, SAME, ("failed", {"race"})),  # the values differ
    ("", OTHER, ("failed", {"race", "intra-warp-race"})),
    (POLL, OTHER, ("failed", {"race", "intra-warp-race"})),
])  # fmt: skip
def test_a_poll_leaves_equal_stores_open(poll: str, store: str, expected: tuple[str, set[str]], engine: str) -> None:
    assert codes(poll, store, engine) == expected
