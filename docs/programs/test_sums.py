"""A kernel of CUDA C++ under pytest, from the PTX that nvcc made of it."""

import numpy as np
import pytest

import wsemu as emulator

KERNEL = emulator.load_ptx("sums.ptx")["sums<true>"]


@pytest.mark.parametrize("tiles", [1, 3])
def test_sums(wsemu, tiles):
    x, y = np.arange(32 * tiles, dtype=np.float32), np.zeros(32, np.float32)
    wsemu.check(KERNEL, 1, 64, (x, y, np.int32(tiles))).assert_clean(bank_ways=1)
    assert np.array_equal(y, x.reshape(tiles, 32).sum(0))
