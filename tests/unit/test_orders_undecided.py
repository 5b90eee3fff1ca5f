"""Launches of which trying orders of atomics must not say too much."""

from __future__ import annotations

import numpy as np
import pytest

import wsemu
from wsemu import cuda


@cuda.jit
def waits_and_reads(flag, data, out):
    if cuda.blockIdx.x == 0:
        data[0] = 42
        cuda.threadfence()
        cuda.atomic.exch(flag, 0, 1)
    else:
        while cuda.atomic.add(flag, 0, 0) == 0:
            out[1] = data[0] * 0
        cuda.threadfence()
        out[0] = data[0]


@cuda.jit
def two_lanes_wait_for_nobody(flag, data, out):
    while cuda.atomic.add(flag, 0, 0) == 0:
        pass


@cuda.jit
def two_flags_that_nobody_sets(flag, data, out):
    while True:
        if cuda.atomic.add(flag, 0, 0) == 1:
            break
        if cuda.atomic.add(flag, 1, 0) == 1:
            break


@cuda.jit
def lanes_one_after_the_other(flag, data, out):
    i = cuda.threadIdx.x
    if i == 0:
        cuda.atomic.exch(flag, 0, 1)
    if i == 1 and cuda.atomic.add(flag, 0, 0) == 0:
        out[100] = 1


@pytest.mark.parametrize(
    ("kernel", "grid", "block"),
    [
        (waits_and_reads, 2, 1),
        (two_lanes_wait_for_nobody, 1, 2),
        (two_flags_that_nobody_sets, 1, 1),
        (lanes_one_after_the_other, 1, 2),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_it_is_not_verified(kernel, grid, block):
    arrays = tuple(np.zeros(2, np.int32) for _ in range(3))
    assert wsemu.check(kernel, grid, block, arrays, budget=200_000).verdict != "verified"
