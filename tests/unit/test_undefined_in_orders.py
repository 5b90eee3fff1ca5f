"""Undefined values that arise in an order of atomics other than the initial one, and strong loads of own bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import wsemu
from tests.unit.test_ptx_lowering import INDEX, text

if TYPE_CHECKING:
    from wsemu.model.settings import Engine

DRAWS = (
    INDEX
    + """.shared .b32 s[32]; mov.u32 %r4, s; mad.lo.u32 %r4, %r1, 4, %r4; mov.u32 %r5, 0;
    setp.ne.u32 %p2, %r1, 0; @%p2 bra A; atom.global.add.u32 %r5, [%rd3], 1;
    A: shfl.sync.idx.b32 %r6, %r5, 0, 31, -1; setp.ne.u32 %p1, %r6, 1;
    mov.u32 %r7, %ctaid.x; setp.ne.or.u32 %p1, %r7, 0, %p1; @%p1 bra L;
    ld.shared.u32 %r8, [%r4]; """
)
"""CTA 0 reads what nothing has written if CTA 1 draws first: in the initial run it does not"""
ENGINES = ("vm", "reference")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("use", "verdict"), [
    ("", "verified"),
    ("shfl.sync.idx.b32 %r9, %r8, 0, 31, -1;", "verified"),
    ("setp.eq.u32 %p3, %r8, 7; vote.sync.any.pred %p4, %p3, -1;", "verified"),
    ("and.b32 %r8, %r8, 0; st.global.u32 [%rd3+256], %r8;", "incomplete"),
    ("st.global.u32 [%rd3+256], %r8;", "failed"),
    ("setp.eq.u32 %p3, %r8, 7; @%p3 st.global.u32 [%rd3+256], %r1;", "failed"),
])  # fmt: skip
def test_a_read_in_another_order_fails_if_its_value_reaches_something(use: str, verdict: str, engine: Engine) -> None:
    kernel = wsemu.load_ptx(text(f"{DRAWS}{use} L: ret;"))["k"]
    report = wsemu.check(kernel, 2, 32, (np.zeros(128, np.int32),), engine=engine)
    assert report.verdict == verdict, report.notes
    assert {finding.code for finding in report.findings} == ({"uninitialized-read"} if verdict == "failed" else set())


OWN = """.shared .b32 s[32]; mov.u32 %r4, s; {} st.relaxed.cta.shared.u32 [%r4], %r1;
    ld.relaxed.cta.shared.u32 %r8, [%r4]; st.global.u32 [%rd3], %r8; ret;"""


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("guard", "verdict"), [("", "verified"), ("setp.lt.u32 %p1, %r1, 32; @%p1", "incomplete")])
def test_a_strong_load_behind_a_store_of_its_own_thread_reads_what_is_written(
    guard: str, verdict: str, engine: Engine
) -> None:
    kernel = wsemu.load_ptx(text(INDEX + OWN.format(guard)))["k"]
    report = wsemu.check(kernel, 1, 64, (np.zeros(64, np.int32),), engine=engine)
    assert (report.verdict, report.findings) == (verdict, []), report.notes
