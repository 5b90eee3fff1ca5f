"""What a finding about some lanes of a warp says is to be done makes the kernel right: each help with the edit."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import wsemu
from wsemu import cuda, ptx

if TYPE_CHECKING:
    from wsemu.launch.kernel import Kernel


def check(kernel: Kernel, block: int) -> Any:
    return wsemu.check(kernel, 1, block, (np.zeros(96, np.int32),))


def told(help_: str, kernel: Kernel) -> str:
    """A help with the lines of a kernel counted from its decorator, 0."""
    first = kernel.py_func.__code__.co_firstlineno
    return re.sub(r"line (\d+)", lambda match: f"line {int(match[1]) - first}", help_)


# -- races beside a barrier operation by a part of a warp -------------------------------------------------------------
@cuda.jit
def other_branch_arrives(y):
    tile = cuda.shared.array(32, np.int32)
    lane = cuda.threadIdx.x % 32
    if cuda.threadIdx.x >= 32:
        if lane < 16:
            tile[lane] = lane
        else:
            ptx.barrier_arrive(1, 64)
    else:
        ptx.bar_sync(1, 64)
        if lane < 16:
            y[lane] = tile[lane]


@cuda.jit
def all_arrive_behind(y):
    tile = cuda.shared.array(32, np.int32)
    lane = cuda.threadIdx.x % 32
    if cuda.threadIdx.x >= 32:
        if lane < 16:
            tile[lane] = lane
        ptx.barrier_arrive(1, 64)
    else:
        ptx.bar_sync(1, 64)
        if lane < 16:
            y[lane] = tile[lane]


@cuda.jit
def returns_before_the_sync(y):
    tile = cuda.shared.array(32, np.int32)
    lane = cuda.threadIdx.x % 32
    if cuda.threadIdx.x >= 32:
        if lane < 16:
            tile[lane] = lane
            return
        ptx.barrier_sync(1, 64)
    else:
        ptx.bar_sync(1, 64)
        if lane < 16:
            y[lane] = tile[lane]


@cuda.jit
def all_sync_behind(y):
    tile = cuda.shared.array(32, np.int32)
    lane = cuda.threadIdx.x % 32
    if cuda.threadIdx.x >= 32:
        if lane < 16:
            tile[lane] = lane
        ptx.barrier_sync(1, 64)
    else:
        ptx.bar_sync(1, 64)
        if lane < 16:
            y[lane] = tile[lane]


@cuda.jit
def one_lane_arrives(y):
    tile = cuda.shared.array(32, np.int32)
    lane = cuda.threadIdx.x % 32
    if cuda.threadIdx.x >= 32:
        tile[lane] = lane
        if lane == 5:
            ptx.barrier_arrive(1, 64)
    else:
        ptx.bar_sync(1, 64)
        y[lane] = tile[lane]


@cuda.jit
def syncwarp_then_one_arrives(y):
    tile = cuda.shared.array(32, np.int32)
    lane = cuda.threadIdx.x % 32
    if cuda.threadIdx.x >= 32:
        tile[lane] = lane
        cuda.syncwarp()
        if lane == 5:
            ptx.barrier_arrive(1, 64)
    else:
        ptx.bar_sync(1, 64)
        y[lane] = tile[lane]


@cuda.jit
def one_lane_waits(y):
    tile = cuda.shared.array(32, np.int32)
    lane = cuda.threadIdx.x % 32
    if cuda.threadIdx.x >= 32:
        tile[lane] = lane
        ptx.bar_arrive(1, 64)
        return
    if lane == 0:
        ptx.barrier_sync(1, 64)
    y[lane] = tile[lane]


@cuda.jit
def others_read_without_waiting(y):
    tile = cuda.shared.array(32, np.int32)
    lane = cuda.threadIdx.x % 32
    if cuda.threadIdx.x >= 32:
        tile[lane] = lane
        ptx.bar_arrive(1, 64)
        return
    if lane == 0:
        ptx.barrier_sync(1, 64)
    else:
        y[lane] = tile[lane]


@cuda.jit
def all_wait(y):
    tile = cuda.shared.array(32, np.int32)
    lane = cuda.threadIdx.x % 32
    if cuda.threadIdx.x >= 32:
        tile[lane] = lane
        ptx.bar_arrive(1, 64)
        return
    ptx.barrier_sync(1, 64)
    y[lane] = tile[lane]


@cuda.jit
def parts_on_both_sides(y):
    tile = cuda.shared.array(32, np.int32)
    lane = cuda.threadIdx.x % 32
    if cuda.threadIdx.x >= 32:
        if lane < 16:
            tile[lane] = lane
        else:
            ptx.barrier_arrive(1, 64)
        return
    if lane == 20:
        ptx.barrier_sync(1, 64)
    elif lane < 16:
        y[lane] = tile[lane]


@cuda.jit
def all_on_both_sides(y):
    tile = cuda.shared.array(32, np.int32)
    lane = cuda.threadIdx.x % 32
    if cuda.threadIdx.x >= 32:
        if lane < 16:
            tile[lane] = lane
        ptx.barrier_arrive(1, 64)
        return
    ptx.barrier_sync(1, 64)
    if lane < 16:
        y[lane] = tile[lane]


@cuda.jit
def through_a_third_warp(y):
    tile = cuda.shared.array(32, np.int32)
    lane = cuda.threadIdx.x % 32
    if cuda.threadIdx.x >= 64:
        tile[lane] = lane
        ptx.bar_arrive(1, 64)
    elif cuda.threadIdx.x >= 32:
        ptx.bar_sync(1, 64)
        ptx.bar_arrive(2, 64)
    else:
        if lane == 0:
            ptx.barrier_sync(2, 64)
        y[lane] = tile[lane]


@cuda.jit
def through_a_third_warp_by_all(y):
    tile = cuda.shared.array(32, np.int32)
    lane = cuda.threadIdx.x % 32
    if cuda.threadIdx.x >= 64:
        tile[lane] = lane
        ptx.bar_arrive(1, 64)
    elif cuda.threadIdx.x >= 32:
        ptx.bar_sync(1, 64)
        ptx.bar_arrive(2, 64)
    else:
        ptx.barrier_sync(2, 64)
        y[lane] = tile[lane]


HALF_ARRIVES = "only lanes 16-31 of warp 1 arrive on line 8: let all its lanes come there, after line 6"
ONE_WAITS = "only lane 0 of warp 0 syncs on line {}: let all its lanes come there, before line {}"
ONE_ARRIVES = (
    "only lane 5 of warp 1 arrives on line 7: let all its lanes come there, after line 5; or add `cuda.syncwarp()` "
    "after line 5"
)


@pytest.mark.parametrize(
    ("kernel", "help_", "edited"),
    [
        (
            other_branch_arrives,
            HALF_ARRIVES,
            [all_arrive_behind],
        ),
        (
            returns_before_the_sync,
            "only lanes 16-31 of warp 1 sync on line 8: let all its lanes come there, after line 6",
            [all_sync_behind],
        ),
        (one_lane_arrives, ONE_ARRIVES, [syncwarp_then_one_arrives]),
        (one_lane_waits, ONE_WAITS.format(9, 10), [all_wait]),
        (others_read_without_waiting, ONE_WAITS.format(9, 11), [all_wait]),
        (
            parts_on_both_sides,
            f"{HALF_ARRIVES}; and {ONE_WAITS.format(11, 13).replace('lane 0', 'lane 20')}",
            [all_on_both_sides],
        ),
        (through_a_third_warp, ONE_WAITS.format(12, 13), [through_a_third_warp_by_all]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)  # fmt: skip
def test_lanes_that_a_barrier_leaves_out_are_asked_to_come_to_it(kernel, help_, edited):
    block = 96 if "third" in kernel.__name__ else 64
    race = next(finding for finding in check(kernel, block).errors if finding.code == "race")
    assert told(race.help, kernel) == help_
    assert [check(other, block).verdict for other in edited] == ["verified"] * len(edited)


# -- lanes that wait for each other -----------------------------------------------------------------------------------
@cuda.jit
def arrive_beside_syncwarp(y):
    lane = cuda.threadIdx.x % 32
    if cuda.threadIdx.x < 32:
        ptx.bar_sync(1, 64)
    elif lane < 16:
        ptx.barrier_arrive(1, 64)
    else:
        cuda.syncwarp()


@cuda.jit
def arrive_and_syncwarp(y):
    if cuda.threadIdx.x < 32:
        ptx.bar_sync(1, 64)
    else:
        ptx.barrier_arrive(1, 64)
        cuda.syncwarp()


@cuda.jit
def arrive_before_syncwarp(y):
    lane = cuda.threadIdx.x % 32
    if cuda.threadIdx.x < 32:
        ptx.bar_sync(1, 64)
    else:
        if lane < 16:
            ptx.barrier_arrive(1, 64)
        cuda.syncwarp()


@pytest.mark.parametrize(
    ("kernel", "help_", "edited"),
    [
        (
            arrive_beside_syncwarp,
            (
                "arrive in all lanes of warp 1, and execute line 8 in all of them, in one order: move both out of "
                "their branches"
            ),
            [arrive_and_syncwarp],
        ),
        (
            arrive_before_syncwarp,
            "arrive in all lanes of warp 1: move the arrive out of the branch",
            [arrive_and_syncwarp],
        ),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_lanes_that_wait_for_each_other_are_let_go_on(kernel, help_, edited):
    (deadlock,) = check(kernel, 64).errors
    assert (deadlock.code, told(deadlock.help, kernel)) == ("deadlock", help_)
    assert [check(other, 64).verdict for other in edited] == ["verified"] * len(edited)


# -- races inside a warp ----------------------------------------------------------------------------------------------
@cuda.jit
def returns_unnamed(y):
    last = cuda.shared.array(1, np.int32)
    t = cuda.threadIdx.x
    if t == 31:
        last[0] = 5
        return
    cuda.syncwarp(0x7FFFFFFF)
    if t == 0:
        y[0] = last[0]


@cuda.jit
def returns_named(y):
    last = cuda.shared.array(1, np.int32)
    t = cuda.threadIdx.x
    if t == 31:
        last[0] = 5
        return
    cuda.syncwarp(0xFFFFFFFF)
    if t == 0:
        y[0] = last[0]


@cuda.jit
def returns_at_once(y):
    last = cuda.shared.array(1, np.int32)
    t = cuda.threadIdx.x
    if t == 31:
        last[0] = 5
        return
    if t == 0:
        y[0] = last[0]


@cuda.jit
def returns_behind(y):
    last = cuda.shared.array(1, np.int32)
    t = cuda.threadIdx.x
    if t == 31:
        last[0] = 5
    cuda.syncwarp()
    if t == 31:
        return
    if t == 0:
        y[0] = last[0]


@cuda.jit
def two_branches(y):
    tile = cuda.shared.array(16, np.int32)
    t = cuda.threadIdx.x
    if t < 16:
        tile[t] = t
    else:
        y[t] = tile[t - 16]


@cuda.jit
def one_behind_the_other(y):
    tile = cuda.shared.array(16, np.int32)
    t = cuda.threadIdx.x
    if t < 16:
        tile[t] = t
    cuda.syncwarp()
    if t >= 16:
        y[t] = tile[t - 16]


@cuda.jit
def reset_beside_its_load(y):
    total = cuda.shared.array(1, np.int32)
    t = cuda.threadIdx.x
    if t == 0:
        total[0] = 7
    cuda.syncwarp()
    if t == 1:
        y[0] = total[0]
    if t == 0:
        total[0] = 0


@cuda.jit
def reset_behind_its_load(y):
    total = cuda.shared.array(1, np.int32)
    t = cuda.threadIdx.x
    if t == 0:
        total[0] = 7
    cuda.syncwarp()
    if t == 1:
        y[0] = total[0]
    cuda.syncwarp()
    if t == 0:
        total[0] = 0


BEHIND = (
    "put line 7 into an `if` of its own after that of line 5, and `cuda.syncwarp()` between the two, where all lanes "
    "meet"
)


@pytest.mark.parametrize(
    ("kernel", "help_", "edited"),
    [
        (returns_unnamed, "include lane 31 in the mask on line 7", returns_named),
        (
            returns_at_once,
            "add `cuda.syncwarp()` after line 5, after its branch, where all lanes meet: none may return before it",
            returns_behind,
        ),
        (
            two_branches,
            BEHIND,
            one_behind_the_other,
        ),
        (
            reset_beside_its_load,
            "add `cuda.syncwarp()` after line 8, after its branch, where all lanes meet, before line 10",
            reset_behind_its_load,
        ),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_lanes_are_told_where_they_can_meet(kernel, help_, edited):
    (race,) = check(kernel, 32).errors
    assert (race.code, told(race.help, kernel)) == ("intra-warp-race", help_)
    assert check(edited, 32).verdict == "verified"
