"""CTAs that take turns: each waits until a word has its number, and hands it on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import wsemu
from tests.unit.steering_kernels import variant
from wsemu import cuda

if TYPE_CHECKING:
    from wsemu.model.settings import Engine

FENCE, BARRIER = True, True


def meet_in_the_loop(turn: Any, total: Any) -> None:
    """A wait as in CUTLASS's semaphore: thread 0 polls, and all threads of the CTA meet in each round of the loop."""
    t = cuda.threadIdx.x
    seen = -1
    while cuda.syncthreads_and(int(seen != cuda.blockIdx.x)):
        if t == 0:
            seen = cuda.atomic.add(turn, 0, 0)
            if FENCE:
                cuda.threadfence()
    total[t] += 1
    if BARRIER:
        cuda.syncthreads()
    if t == 0:
        cuda.threadfence()
        cuda.atomic.exch(turn, 0, cuda.blockIdx.x + 1)


def arguments() -> tuple[Any, Any]:
    return np.zeros(1, np.int32), np.zeros(64, np.int32)


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_a_wait_in_which_all_threads_meet_comes_back_to_its_state(engine: Engine) -> None:
    turn, total = arguments()
    report = wsemu.check(variant(meet_in_the_loop), 2, 64, (turn, total), engine=engine)
    assert (report.verdict, list(total)) == ("verified", [2] * 64)


@pytest.mark.parametrize("part", ["FENCE", "BARRIER"])
def test_turns_without_a_fence_or_a_barrier_race(part: str) -> None:
    report = wsemu.check(variant(meet_in_the_loop, **{part: False}), 2, 64, arguments())
    assert [finding.code for finding in report.findings if finding.severity == "error"] == ["race"]
