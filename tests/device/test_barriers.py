"""What the hardware does with named barriers: the rules B1 to B14 of docs/semantics.md, measured.

Kernels that hang come last; each launch is made in a process that is killed when its time is up.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from wsemu import cuda, ptx
from wsemu.backends import gpu_process
from wsemu.kernel import configure

SECONDS = 5.0
DONE, ILLEGAL, HANGS = "done", "illegal instruction", "hangs"


def seen(kernel: Any, block: int, *arguments: Any) -> tuple[str, Any]:
    """How a launch of one CTA ended on the GPU, and its first array."""
    (result,) = gpu_process.run([gpu_process.GpuLaunch(kernel, configure(1, block), arguments)], SECONDS)
    if result.hung:
        return HANGS, None
    if "ILLEGAL_INSTRUCTION" in result.error:
        return ILLEGAL, None
    return result.error or DONE, next(iter(result.arrays.values()), None)


def numbers(n: int) -> Any:
    return np.zeros(n, np.int64)


@cuda.jit
def sync_by(out, barrier, count):
    ptx.bar_sync(barrier, count)
    out[cuda.threadIdx.x] = 1


@pytest.mark.parametrize("barrier", [0, 7, 15, 16, 20])
def test_b1_an_id_beyond_15_raises_nothing(barrier):
    ended, out = seen(sync_by, 64, numbers(64), barrier, 64)
    assert ended == DONE
    assert out.all()


@pytest.mark.parametrize("count", [48, 100])
def test_b2_a_count_that_is_no_multiple_of_32_is_an_illegal_instruction(count):
    assert seen(sync_by, 64, numbers(64), 1, count)[0] == ILLEGAL


@cuda.jit
def elected_lane(out):
    thread = cuda.threadIdx.x
    if thread >= 32:
        if thread == 40:
            ptx.barrier_arrive(1, 64)
    else:
        ptx.barrier_sync(1, 64)
        out[thread] = 1


@cuda.jit
def elected_lane_aligned(out):
    thread = cuda.threadIdx.x
    if thread >= 32:
        if thread == 40:
            ptx.bar_arrive(1, 64)
    else:
        ptx.bar_sync(1, 64)
        out[thread] = 1


@cuda.jit
def half_a_warp(out):
    thread = cuda.threadIdx.x
    if thread >= 48:
        return
    ptx.barrier_sync(1, 64)
    out[thread] = 1


@pytest.mark.parametrize("kernel", [elected_lane, elected_lane_aligned, half_a_warp])
def test_b3_an_operation_counts_its_whole_warp(kernel):
    ended, out = seen(kernel, 64, numbers(64))
    assert ended == DONE
    assert out[:32].all()


@cuda.jit
def ping_pong(out, rounds):
    thread = cuda.threadIdx.x
    total = 0
    for i in range(rounds):
        if thread >= 32:
            ptx.bar_arrive(1, 64)
            ptx.bar_sync(2, 64)
        else:
            ptx.bar_sync(1, 64)
            ptx.bar_arrive(2, 64)
        total += i
    out[thread] = total


def test_b4_arrive_does_not_wait_and_completion_resets():
    ended, out = seen(ping_pong, 64, numbers(64), 1000)
    assert ended == DONE
    assert (out == 499_500).all()


@cuda.jit
def two_counts(out, other):
    thread = cuda.threadIdx.x
    if thread < 32:
        ptx.bar_arrive(1, 96)
    cuda.syncthreads()
    if thread >= 32:
        ptx.bar_arrive(1, other)
    out[thread] = 1


def test_b5_another_count_in_a_generation_is_an_illegal_instruction():
    assert seen(two_counts, 64, numbers(64), 128)[0] == ILLEGAL


@cuda.jit
def arrives_twice(out):
    thread = cuda.threadIdx.x
    if thread >= 32:
        ptx.bar_arrive(1, 96)
        ptx.bar_arrive(1, 96)
    else:
        ptx.bar_sync(1, 96)
        out[thread] = 1


@cuda.jit
def arrives_then_syncs(out):
    ptx.bar_arrive(1, 64)
    ptx.bar_sync(1, 64)
    out[cuda.threadIdx.x] = 1


def test_b6_each_operation_of_a_warp_counts():
    assert seen(arrives_twice, 64, numbers(64))[1][:32].all()
    assert seen(arrives_then_syncs, 32, numbers(32))[1].all()


@cuda.jit
def exited(out, warps, whole, count):
    thread = cuda.threadIdx.x
    if thread >= 32 * warps:
        return
    if whole:
        ptx.bar_sync(1)
    else:
        ptx.bar_sync(1, count)
    out[thread] = 1


def test_b7_exited_warps_no_longer_count_where_no_count_is_given():
    assert seen(exited, 96, numbers(96), 2, True, 96)[1][:64].all()


@cuda.jit
def arrivals_left(out):
    ptx.bar_arrive(1, 96)
    out[cuda.threadIdx.x] = 1


def test_b11_arrivals_left_at_the_end_are_harmless():
    assert seen(arrivals_left, 32, numbers(32))[1].all()


@cuda.jit
def halves_at_two_barriers(out):
    thread = cuda.threadIdx.x
    if thread % 32 < 16:
        out[thread] = 3
        ptx.bar_sync(1, 64)
        out[thread] += 1
    else:
        out[thread + 64] = thread
        ptx.bar_sync(2, 64)
        out[thread + 64] *= 3


@cuda.jit
def predicated_barriers(out):
    thread = cuda.threadIdx.x
    if thread % 32 < 16:
        ptx.bar_sync(1, 64)
    else:
        ptx.bar_sync(2, 64)
    out[thread] = 1


@cuda.jit
def halves_at_two_places(out):
    thread = cuda.threadIdx.x
    if thread % 32 < 16:
        ptx.barrier_sync(1, 64)
    else:
        ptx.barrier_sync(1, 64)
    out[thread] = 1


def test_b12_an_aligned_barrier_needs_the_whole_warp():
    assert seen(halves_at_two_barriers, 64, numbers(128))[0] in (ILLEGAL, HANGS)


def test_b12_without_other_code_in_the_branches_the_compiler_makes_two_predicated_barriers_one_after_the_other():
    assert seen(predicated_barriers, 64, numbers(64))[1].all()


def test_b12_the_other_form_may_be_reached_from_two_places():
    assert seen(halves_at_two_places, 64, numbers(64))[1].all()


@cuda.jit
def hand_over(out, rounds):
    box = cuda.shared.array(32, np.int64)
    thread = cuda.threadIdx.x
    wrong = 0
    for i in range(rounds):
        if thread >= 32:
            box[thread - 32] = i
            ptx.bar_arrive(1, 64)
            ptx.bar_sync(2, 64)
        else:
            ptx.bar_sync(1, 64)
            if box[31 - thread] != i:
                wrong += 1
            ptx.bar_arrive(2, 64)
    out[thread] = wrong


def test_b13_a_sync_sees_what_was_stored_before_the_arrive():
    ended, out = seen(hand_over, 64, numbers(64), 10_000)
    assert ended == DONE
    assert not out.any()


def test_b8_exited_warps_count_where_a_count_is_given():
    assert seen(exited, 64, numbers(64), 1, False, 64)[0] == HANGS


def test_b9_the_third_of_three_waits_on_a_count_of_64():
    assert seen(sync_by, 96, numbers(96), 1, 64)[0] == HANGS


@cuda.jit
def arrivals_alone(out):
    thread = cuda.threadIdx.x
    ptx.bar_arrive(1, 64)
    cuda.syncthreads()
    if thread < 32:
        ptx.bar_sync(1, 64)  # of the next generation: the arrivals completed theirs
    out[thread] = 1


def test_b10_a_generation_of_arrivals_alone_completes():
    assert seen(arrivals_alone, 64, numbers(64))[0] == HANGS


# -- B14 --------------------------------------------------------------------------------------------------------------
@cuda.jit
def poll_beside_arrive(out, flag, polls, form, lanes):
    """A part of warp 1 polls a flag that warp 0 raises once the other part's arrive was counted."""
    thread = cuda.threadIdx.x
    lane = thread % 32
    if thread >= 32:
        if lane < lanes:
            seen = polls
            for i in range(polls):
                if cuda.atomic.add(flag, 0, 0) != 0:
                    seen = i
                    break
            out[thread] = seen
        elif form == 0:
            ptx.barrier_arrive(1, 64)
        else:
            ptx.bar_arrive(1, 64)
    else:
        ptx.bar_sync(1, 64)
        cuda.atomic.exch(flag, 0, 1)
        out[thread] = 1


@cuda.jit
def arrive_beside_poll(out, flag, polls, form, lanes):
    """The same with the branches swapped."""
    thread = cuda.threadIdx.x
    lane = thread % 32
    if thread >= 32:
        if lane >= lanes:
            if form == 0:
                ptx.barrier_arrive(1, 64)
            else:
                ptx.bar_arrive(1, 64)
        else:
            seen = polls
            for i in range(polls):
                if cuda.atomic.add(flag, 0, 0) != 0:
                    seen = i
                    break
            out[thread] = seen
    else:
        ptx.bar_sync(1, 64)
        cuda.atomic.exch(flag, 0, 1)
        out[thread] = 1


@pytest.mark.parametrize("kernel", [poll_beside_arrive, arrive_beside_poll])
@pytest.mark.parametrize("form", [0, 1])
@pytest.mark.parametrize("lanes", [16, 31])
def test_b14_an_arrive_is_not_counted_while_other_lanes_of_its_warp_run(kernel, form, lanes):
    polls = 100_000
    ended, out = seen(kernel, 64, numbers(64), numbers(1), polls, form, lanes)
    assert ended == DONE
    assert (out[32 : 32 + lanes] == polls).all()
    assert out[:32].all()


@cuda.jit
def rest_exits(out, form):
    thread = cuda.threadIdx.x
    if thread >= 32:
        if thread < 48:
            return
        if form == 0:
            ptx.barrier_arrive(1, 64)
        else:
            ptx.bar_arrive(1, 64)
    else:
        ptx.bar_sync(1, 64)
        out[thread] = 1


@pytest.mark.parametrize("form", [0, 1])
def test_b14_an_arrive_is_counted_when_the_rest_has_exited(form):
    ended, out = seen(rest_exits, 64, numbers(64), form)
    assert ended == DONE
    assert out[:32].all()


@cuda.jit
def arrive_in_each_branch(out, count):
    thread = cuda.threadIdx.x
    if thread >= 32:
        if thread % 32 < 16:
            out[thread] = 2
            ptx.barrier_arrive(1, count)
        else:
            out[thread] = 3
            ptx.barrier_arrive(1, count)
    else:
        ptx.bar_sync(1, count)
        out[thread] = 1


def test_b3_b14_an_arrive_in_each_branch_counts_once():
    ended, out = seen(arrive_in_each_branch, 64, numbers(64), 64)
    assert ended == DONE
    assert out[:32].all()


@cuda.jit
def arrives_again(out):
    thread = cuda.threadIdx.x
    if thread < 32:
        ptx.bar_sync(1, 64)
        ptx.bar_sync(1, 64)
        out[thread] = 1
    elif thread < 48:
        ptx.barrier_arrive(1, 64)
        out[thread] = 2
        ptx.barrier_arrive(1, 64)
    else:
        out[thread] = 3
        ptx.barrier_arrive(1, 64)


def test_b14_a_second_arrive_counts_once_the_other_lanes_have_exited():
    ended, out = seen(arrives_again, 64, numbers(64))
    assert ended == DONE
    assert out[:32].all()


@cuda.jit
def arrives_at_two_barriers(out):
    thread = cuda.threadIdx.x
    if thread >= 32:
        if thread % 32 < 16:
            out[thread] = 2
            ptx.barrier_arrive(1, 64)
        else:
            out[thread] = 3
            ptx.barrier_arrive(2, 64)
    else:
        ptx.bar_sync(1, 64)
        out[thread] = 1


def test_b14_arrives_of_one_warp_at_two_barriers_are_an_illegal_instruction():
    assert seen(arrives_at_two_barriers, 64, numbers(64))[0] == ILLEGAL


def test_b3_b14_an_arrive_in_each_branch_does_not_count_twice():
    assert seen(arrive_in_each_branch, 64, numbers(64), 96)[0] == HANGS


@cuda.jit
def arrive_then_meet(out, form):
    thread = cuda.threadIdx.x
    if thread >= 32:
        if thread % 32 < 16:
            ptx.barrier_arrive(1, 64)
        if form == 0:
            cuda.syncwarp()
        else:
            out[thread] = cuda.shfl_sync(0xFFFFFFFF, thread, 0)
    else:
        ptx.bar_sync(1, 64)
        out[thread] = 1


@pytest.mark.parametrize("form", [0, 1])
def test_b14_lanes_at_a_warp_wide_operation_have_not_come(form):
    assert seen(arrive_then_meet, 64, numbers(64), form)[0] == HANGS


@cuda.jit
def arrive_then_another_barrier(out):
    thread = cuda.threadIdx.x
    if thread >= 32:
        if thread == 40:
            ptx.barrier_arrive(1, 64)
        ptx.barrier_sync(2, 32)
    else:
        ptx.bar_sync(1, 64)
    out[thread] = 1


def test_b14_an_elected_arrive_before_a_sync_of_all_on_another_barrier_hangs():
    assert seen(arrive_then_another_barrier, 64, numbers(64))[0] == HANGS


@cuda.jit
def endless_poll(out, flag):
    thread = cuda.threadIdx.x
    if thread >= 32:
        if thread % 32 < 16:
            while cuda.atomic.add(flag, 0, 0) == 0:
                pass
        else:
            ptx.barrier_arrive(1, 64)
    else:
        ptx.bar_sync(1, 64)
        cuda.atomic.exch(flag, 0, 1)
    out[thread] = 1


def test_b14_lanes_that_poll_for_what_follows_the_arrive_hang():
    assert seen(endless_poll, 64, numbers(64), numbers(1))[0] == HANGS
