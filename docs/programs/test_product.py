"""Every number of tiles that may trip a pipeline of two; and any transfer."""

import numpy as np
import pytest
from hypothesis import given
from with_patterns import THREADS, TILE, VECTOR, with_patterns

import wsemu
from wsemu.strategies import sequential_transfers


@pytest.mark.parametrize("tiles", [0, 1, 2, 3, 8])
def test_the_product(tiles):
    rng = np.random.default_rng(tiles)
    x = rng.random(tiles * TILE, np.float32)
    a = np.asfortranarray(rng.random((64, tiles * TILE), np.float32))
    y = np.empty(64, np.float32)
    report = wsemu.check(with_patterns, 1, THREADS, (a, x, y), uninitialized=["y"])
    report.assert_clean()
    assert report.counters.bank_conflicts in (0, None)
    np.testing.assert_allclose(y, a @ x, rtol=1e-5)


def test_the_transfer_of_the_tile():
    wsemu.check_transfer(VECTOR).assert_clean()


@given(transfer=sequential_transfers())
def test_any_sequential_transfer(transfer):
    wsemu.check_transfer(transfer).assert_clean()
