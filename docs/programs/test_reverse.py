"""The kernel under pytest: the result of this run, and every schedule."""

import numpy as np
from reverse import reverse


def test_reverse(wsemu):
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    wsemu.check(reverse, 1, 64, (x, y)).assert_clean(bank_ways=1)
    assert np.array_equal(y, x[::-1])
