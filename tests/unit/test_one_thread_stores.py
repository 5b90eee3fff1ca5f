"""A condition that keeps a store to one thread is tried only if that thread stores whatever the data."""

import numpy as np
import pytest

import wsemu
from wsemu import cuda

F32 = np.float32
PLENTY = 60.0
"""seconds: so that it is the number of edits that ends a search, on any machine"""


@cuda.jit
def flag_of_any(x, found):
    value = x[cuda.threadIdx.x]
    if value > 0:
        found[0] = 1


@cuda.jit
def last_positive(x, found):
    t = cuda.threadIdx.x
    if x[t] > 0:
        found[0] = t


@cuda.jit
def flag_of_the_first_half(x, found):
    t = cuda.threadIdx.x
    if t < x.size // 2:
        found[0] = 1


@cuda.jit
def sum_stored_by_all_lanes(x, found):
    t = cuda.threadIdx.x
    total = x[t] * 0
    if t < x.size // 2:
        found[0] = total


@pytest.mark.parametrize(("kernel", "is_mended"), [
    (flag_of_any, False), (last_positive, False), (flag_of_the_first_half, True),
    (sum_stored_by_all_lanes, True),
])  # fmt: skip
def test_no_thread_stores_for_those_that_data_chooses(kernel, is_mended):
    """The one thread may be none of those: the launch is right for these data alone."""
    cures = wsemu.check(kernel, 1, 128, (np.ones(128, F32), np.zeros(1, F32))).cures(budget=PLENTY)
    assert bool(cures) is is_mended, [cure.says for cure in cures]
    assert all("1 store of `found` in place of 64" in cure.caution for cure in cures)
