"""A few kernels of benchmarks/doors.py: wsemu's front end and Numba-CUDA's PTX store the same bits."""

from __future__ import annotations

import random

import pytest

from tests.properties.door_programs import compare_doors, door_program
from wsemu.backends import numba_cuda
from wsemu.model.errors import UsageError

try:
    numba_cuda.numba_cuda()
except UsageError as error:
    pytest.skip(str(error), allow_module_level=True)


@pytest.mark.parametrize("k", range(12))
def test_both_doors_agree(k: int) -> None:
    program = door_program(random.Random(f"doors {k}"))
    assert not compare_doors(program).complaint, program
