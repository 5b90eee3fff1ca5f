"""Matrix instructions: what mma.sync adds up to, by records of hardware and between the engines; moves of matrices."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.matrix_kernels import ALL, random_tiles, run
from wsemu.model.matrix import MMA

OF_PTX = [name for name in ALL if not (MMA[name].m == 8 and MMA[name].a in ("f16", "bf16"))]


@pytest.mark.parametrize("name", OF_PTX)
def test_both_engines_give_the_same_bits(name: str) -> None:
    shape = MMA[name]
    for wild in (True, False):
        a, b, c = random_tiles(shape, 2, seed=len(name), wild=wild)
        fast, slow = (run(shape, a, b, c, engine=engine) for engine in ("vm", "reference"))
        assert np.array_equal(fast, slow)
