"""Warp-wide operations by lanes that their member mask leaves out: an error, and the same values on both engines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import wsemu
from tests.unit.test_ptx_lowering import INDEX, text

if TYPE_CHECKING:
    from wsemu.model.settings import Engine

OPERATIONS = {
    "redux.sync.add.s32 %r8, %r1, {};": "a reduction",
    "redux.sync.and.b32 %r8, %r1, {};": "a reduction of bits",
    "match.any.sync.b32 %r8, %r1, {};": "a match",
    "vote.sync.ballot.b32 %r8, %p1, {};": "a vote",
    "shfl.sync.bfly.b32 %r8, %r1, 1, 31, {};": "a shuffle",
}


@pytest.mark.parametrize("members", ["%r6", "0", "0xFFFF", "%r1"])
@pytest.mark.parametrize("operation", OPERATIONS, ids=OPERATIONS.values())
def test_each_lane_has_a_value(operation: str, members: str) -> None:
    """A result that is not written would show what the register held before."""
    body = f"mul.wide.u32 %rd8, %r1, 77; setp.gt.u64 %p1, %rd8, 999; xor.b32 %r6, %r1, 5; {operation.format(members)}"
    kernel = wsemu.load_ptx(text(f"{INDEX}{body} st.global.u32 [%rd3], %r8;"))["k"]
    left: list[list[int]] = []
    engines: tuple[Engine, ...] = ("vm", "reference")
    for engine in engines:
        out = np.full(32, -1, np.int32)
        report = wsemu.check(kernel, 1, 32, (out,), engine=engine)
        assert "barrier-divergence" in {finding.code for finding in report.findings}
        left.append(out.tolist())
    assert left[0] == left[1]


def test_a_lane_that_takes_no_part_in_a_reduction_keeps_its_own_value() -> None:
    kernel = wsemu.load_ptx(text(INDEX + "redux.sync.add.s32 %r8, %r1, 0xFFFF; st.global.u32 [%rd3], %r8;"))["k"]
    out = np.zeros(32, np.int32)
    wsemu.check(kernel, 1, 32, (out,))
    assert out.tolist() == [120] * 16 + [*range(16, 32)]
