"""In which schedules a deadlock holds, where accesses race beside it."""

from __future__ import annotations

import numpy as np
import pytest

import wsemu
from wsemu import cuda, ptx


@cuda.jit
def races_and_hangs(x, y, layout):
    tile = cuda.shared.array(64, np.int32)
    t = cuda.threadIdx.x
    tile[t] = 0
    cuda.syncthreads()
    if t < 32:
        tile[t] = 1
    seen = tile[t % 32]
    if t >= 32:
        if layout == 0:
            y[t] = seen
        elif layout == 1:
            if seen > 7:
                ptx.bar_arrive(1, 64)
        elif layout == 2:
            y[x[seen]] = 5
        else:
            seen = tile[t % 32]
            y[t] = seen
    else:
        ptx.bar_sync(1, 64)


@cuda.jit
def is_read_twice(y):
    """The race of the first load is told by the second one, which comes later in the same place."""
    tile = cuda.shared.array(64, np.int32)
    t = cuda.threadIdx.x
    tile[t] = 0
    cuda.syncthreads()
    if t >= 32:
        first = tile[t - 32]
        y[t] = tile[t - 32]
        if first > 7:
            ptx.bar_arrive(1, 64)
    else:
        tile[t] = 1
        ptx.bar_sync(1, 64)


@pytest.mark.parametrize(
    ("layout", "holds_in"), [(0, "every schedule"), (1, "some schedules"), (2, "some schedules"), (3, "every schedule")]
)
@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_a_deadlock_beside_a_race_holds_everywhere_unless_what_races_decides_where_warps_go(layout, holds_in, engine):
    x, y = np.zeros(64, np.int32), np.zeros(64, np.int32)
    report = wsemu.check(races_and_hangs, 1, 64, (x, y, layout), engine=engine)
    found = {finding.code: finding.holds_in for finding in report.errors}
    assert found["race"] == "every schedule"
    assert found["deadlock"] == holds_in


def test_another_access_to_the_racing_array_may_decide_where_warps_go():
    report = wsemu.check(is_read_twice, 1, 64, (np.zeros(64, np.int32),))
    assert {finding.holds_in for finding in report.errors if finding.code == "deadlock"} == {"some schedules"}
