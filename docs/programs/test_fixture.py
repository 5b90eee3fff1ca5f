"""What the pytest plugin of wsemu brings."""

import numpy as np
import pytest
from with_patterns import THREADS, VECTOR, with_patterns


@pytest.fixture
def arrays():
    return np.ones((64, 512), np.float32, order="F"), np.arange(512, dtype=np.float32), np.zeros(64, np.float32)


def test_the_product(wsemu, arrays):
    wsemu.check(with_patterns, 1, THREADS, arrays).assert_clean(bank_ways=1, coalescing=0.9)


@pytest.mark.wsemu(arch="sm_80", fail_on=["uncoalesced"])
def test_an_older_card(wsemu, arrays):
    wsemu.launch(with_patterns, 1, THREADS, arrays)


def test_the_transfer(wsemu):
    wsemu.check_transfer(VECTOR).assert_clean()
