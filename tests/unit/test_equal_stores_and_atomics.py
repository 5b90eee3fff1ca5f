"""Stores of one value that nothing orders, in a launch whose atomics order other accesses in some interleavings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import wsemu
from wsemu import cuda, ptx
from wsemu.cuda import int32

if TYPE_CHECKING:
    from wsemu.model.settings import Engine

ENGINES = pytest.mark.parametrize("engine", ["vm", "reference"])


def codes(kernel: Any, engine: Engine, *arguments: Any) -> tuple[str, set[str]]:
    report = wsemu.check(kernel, 1, 128, (np.zeros(2, np.int32), np.zeros(2, np.int32), *arguments), engine=engine)
    return report.verdict, {finding.code for finding in report.errors}


@cuda.jit
def exchanges(words: Any, counters: Any, others: Any, waits: int) -> None:
    """The store of warp 2 follows the exchange of warp 0 if warp 0 is the first to count, or if they meet."""
    warp, lane = cuda.threadIdx.x // 32, cuda.threadIdx.x % 32
    if warp == 0:
        if lane == 0:
            cuda.atomic.exch(words, 0, int32(5))
            cuda.threadfence()
            cuda.atomic.add(counters, 0, int32(1))
            cuda.threadfence()
        ptx.barrier_sync(1, 64)
        if waits:
            ptx.barrier_sync(2, 64)
        if lane == 0:
            words[0] = int32(1)
    elif warp == 1:
        ptx.barrier_sync(1, 64)
    elif warp == 2:
        if waits:
            ptx.barrier_sync(2, 64)
        if lane == 0:
            cuda.threadfence()
            cuda.atomic.add(counters, 0, int32(1))
            cuda.threadfence()
            cuda.atomic.exch(others, 0, int32(1))
            words[0] = int32(1)
    elif lane == 0:
        cuda.atomic.exch(others, 0, int32(2))


@ENGINES
@pytest.mark.parametrize(("waits", "expected"), [(0, ("failed", {"race"})), (1, ("verified", set()))])
def test_each_store_of_one_value_must_follow_the_accesses_before_the_others(
    waits: int, expected: tuple[str, set[str]], engine: Engine
) -> None:
    assert codes(exchanges, engine, np.zeros(1, np.int32), waits) == expected


@cuda.jit
def stores_what_it_draws(words: Any, counters: Any, drawn: int) -> None:
    """Warp 1 draws 1 in the first run, and 0 in another one: then its last store has another value than warp 0's."""
    warp, lane = cuda.threadIdx.x // 32, cuda.threadIdx.x % 32
    if lane == 0 and warp < 2:
        number = cuda.atomic.add(counters, 0, 1)
        words[0] = 1
        if warp == 1 and drawn:
            words[0] = number


@ENGINES
@pytest.mark.parametrize(("drawn", "expected"), [(1, ("failed", {"race"})), (0, ("verified", set()))])
def test_a_drawn_number_that_equals_a_stored_one_here_is_another_value(
    drawn: int, expected: tuple[str, set[str]], engine: Engine
) -> None:
    assert codes(stores_what_it_draws, engine, drawn) == expected
