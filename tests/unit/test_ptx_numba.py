"""Every kernel of the project by two ways: its source through the Python front end, the PTX that Numba-CUDA makes of
it through the PTX front end.  Results have the same bits, verdicts and findings are the same, and so are the memory
counters, but where the compiler loads once what the source loads twice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wsemu
from tests.unit.test_gpu_compile import PROGRAMS, launches_of
from wsemu.backends import offline

COUNTERS = (
    "accesses shared_load_wavefronts shared_store_wavefronts ideal_shared_load_wavefronts global_load_sectors "
    "global_store_sectors ideal_global_load_sectors barrier_operations"
).split()
MERGED = {
    "pairs_of_words", "shuffles_order_lanes", "vector_store_over_a_neighbour", "vec_single", "vec_double", "vec_manual",
    "both_double", "both_manual",
}  # fmt: skip
"""kernels that load an element twice, and their PTX once"""


def passed(value: Any) -> list[Any]:
    """An argument as Numba passes it: an array as two owners, size, bytes of an element, address, shape, strides."""
    if isinstance(value, np.ndarray):
        return [0, 0, value.size, value.itemsize, value, *value.shape, *value.strides]
    if isinstance(value, (tuple, list)):
        return [part for item in value for part in passed(item)]
    return [int(value) if isinstance(value, (bool, np.bool_)) else value]


def check_launch(launch: Any) -> None:
    """The launch again, from PTX."""
    before = [value.copy() if isinstance(value, np.ndarray) else value for value in launch.before]
    kernel = wsemu.load_ptx(offline.compile_kernel(launch.kernel, launch.before).ptx).only()
    shape = launch.configuration
    arguments = [part for value in before for part in passed(value)]
    report = wsemu.check(
        kernel, shape.grid, shape.block, arguments, dynamic_shared=shape.dynamic_shared, arch=shape.arch
    )
    for value, after in zip(before, launch.after, strict=True):
        assert not isinstance(value, np.ndarray) or value.tobytes() == after.tobytes()
    assert report.verdict == launch.report.verdict, report.reasons
    assert {f.code for f in report.findings} == {f.code for f in launch.report.findings}
    for name in COUNTERS:
        ours, theirs = getattr(report.counters, name), getattr(launch.report.counters, name)
        assert ours <= theirs if launch.kernel.__name__ in MERGED else ours == theirs, name


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_a_kernel_and_its_ptx_do_the_same(path):
    for launch in launches_of(path):
        check_launch(launch)
