"""Loops that wait for what nobody writes end a launch soon, and loops that move on do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wsemu
from wsemu import cuda


@cuda.jit
def lanes_of_a_warp_pass_a_lock_on(mutex, count):
    while cuda.atomic.cas(mutex, 0, 0, 1) != 0:
        pass
    count[0] += 1
    cuda.atomic.exch(mutex, 0, 0)


@cuda.jit
def a_later_cta_writes(flag, y):
    if cuda.blockIdx.x == 0:
        while flag[0] == 0:
            pass
    else:
        flag[0] = 1


@cuda.jit
def one_looks_for_all(flag, y):
    seen = cuda.shared.array(1, np.int32)
    if cuda.blockIdx.x == 0:
        while True:
            if cuda.threadIdx.x == 0:
                seen[0] = cuda.atomic.add(flag, 0, 0)
            cuda.syncthreads()
            value = seen[0]
            cuda.syncthreads()
            if value != 0:
                break
    elif cuda.threadIdx.x == 0:
        cuda.atomic.add(flag, 0, 1)


@pytest.mark.parametrize(
    ("kernel", "grid"), [(lanes_of_a_warp_pass_a_lock_on, 1), (a_later_cta_writes, 2), (one_looks_for_all, 70)]
)
def test_a_loop_that_only_waits_ends_the_run(kernel: Any, grid: int) -> None:
    found = wsemu.check(kernel, grid, 64, (np.zeros(1, np.int32), np.zeros(1, np.int32)))
    assert found.verdict == "incomplete"
    assert any("a loop waits for memory to change" in note for note in found.notes)
    assert found.counters.warp_instructions <= 100_000


@cuda.jit
def counts_its_tries(flag, y):
    tries = 0
    while flag[0] == 0 and tries < 100_000:
        tries += 1
    y[0] = tries


def test_a_loop_that_counts_goes_on() -> None:
    y = np.zeros(1, np.int32)
    assert wsemu.check(counts_its_tries, 1, 1, (np.zeros(1, np.int32), y)).verdict == "verified"
    assert y[0] == 100_000
