"""The cost of a launch that repeats an earlier one, in calls of Python functions, which no load changes."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import wsemu
from wsemu import cuda

MOST = 300
"""calls of a launch of one warp"""


@cuda.jit
def increment(x: Any, y: Any) -> None:
    i = cuda.grid(1)
    if i < x.shape[0]:
        y[i] = x[i] + 1


def test_a_repeated_launch_makes_few_calls() -> None:
    x, y = np.zeros(32, np.float32), np.zeros(32, np.float32)
    calls: list[str] = []

    def note(frame: Any, event: str, _: object) -> None:
        if event == "call":
            calls.append(frame.f_code.co_qualname)

    for _ in range(3):
        wsemu.check(increment, 1, 32, (x, y))
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        report = wsemu.check(increment, 1, 32, (x, y))
    finally:
        sys.setprofile(before)
    assert report.verdict == "verified"
    assert len(calls) <= MOST, f"{len(calls)} calls"
