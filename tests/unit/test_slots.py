"""Atomics that give out places: one run speaks for all orders where stores keep to the places that they were given."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wsemu
from wsemu import cuda
from wsemu.launch.explore import decide

ALL = 0xFFFFFFFF
CTAS, SIZE = 4, 256


@cuda.jit
def counting_sort(x, out, count, start):
    i = cuda.grid(1)
    slot = cuda.atomic.add(count, x[i], 1)
    out[start[x[i]] + slot] = i


@cuda.jit
def two_cells_each(x, out, count, start):
    i = cuda.grid(1)
    if x[i] > 1:
        slot = cuda.atomic.add(count, 0, 2)
        out[slot] = i
        out[slot + 1] = x[i]


@cuda.jit
def guarded(x, out, count, start):
    i = cuda.grid(1)
    if x[i] > 1:
        slot = cuda.atomic.add(count, 0, 1)
        if slot < out.shape[0]:
            out[slot] = i


@cuda.jit
def again_and_again(x, out, count, start):
    for k in range(2):
        slot = cuda.atomic.add(count, 0, 1)
        out[slot] = x[cuda.grid(1)] + k


@cuda.jit
def by_warps(x, out, count, start):
    i = cuda.grid(1)
    keep = x[i] > 1
    kept = cuda.ballot_sync(ALL, keep)
    leader = cuda.ffs(kept) - 1
    base = 0
    if cuda.laneid == leader:
        base = cuda.atomic.add(count, 0, cuda.popc(kept))
    base = cuda.shfl_sync(ALL, base, leader)
    if keep:
        out[base + cuda.popc(kept & ((1 << cuda.laneid) - 1))] = i


@cuda.jit
def by_ctas(x, out, count, start):
    first = cuda.shared.array(1, np.int32)
    t = cuda.threadIdx.x
    if t == 0:
        first[0] = cuda.atomic.add(count, 0, 64)
    cuda.syncthreads()
    if x[cuda.grid(1)] > 1:
        out[first[0] + t] = t


@cuda.jit
def half_a_cell(x, out, count, start):
    i = cuda.grid(1)
    slot = cuda.atomic.add(count, x[i], 1)
    out[start[x[i]] + slot // 2] = i


@cuda.jit
def next_one_too(x, out, count, start):
    i = cuda.grid(1)
    if x[i] > 1:
        slot = cuda.atomic.add(count, 0, 2)
        out[slot] = i
        out[slot + 2] = x[i]


@cuda.jit
def a_ring(x, out, count, start):
    out[cuda.atomic.add(count, 0, 1) & 63] = x[cuda.grid(1)]


@cuda.jit
def rank_of_the_lane(x, out, count, start):
    keep = x[cuda.grid(1)] > 1
    kept = cuda.ballot_sync(ALL, keep)
    leader = cuda.ffs(kept) - 1
    base = 0
    if cuda.laneid == leader:
        base = cuda.atomic.add(count, 0, cuda.popc(kept))
    base = cuda.shfl_sync(ALL, base, leader)
    if keep:
        out[base + cuda.laneid] = 1


@cuda.jit
def first_warp_knows_its_place(x, out, count, start):
    i = cuda.grid(1)
    base = 0
    if cuda.laneid == 0:
        base = cuda.atomic.add(count, 0, 32)
    if i >= 32:
        base = cuda.shfl_sync(ALL, base, 0)
    out[base + cuda.laneid] = i


@cuda.jit
def looked_at(x, out, count, start):
    i = cuda.grid(1)
    slot = cuda.atomic.add(count, 0, 1)
    out[slot] = i
    x[i] = out[i]


@cuda.jit
def given_twice(x, out, count, start):
    i = cuda.grid(1)
    slot = cuda.atomic.add(count, x[i] & 1, 1)
    out[slot] = i


@cuda.jit
def given_back_last(x, out, count, start):
    """The last CTA gives back what another order gives out anew."""
    t = cuda.threadIdx.x
    if cuda.blockIdx.x < 3:
        if t == 0:
            slot = cuda.atomic.add(count, 0, 2)
            out[slot] = x[0]
            out[slot + 1] = x[1]
    elif t == 0:
        cuda.atomic.sub(count, 0, 2)


@cuda.jit
def given_back_by_data(x, out, count, start):
    """The same by an amount that is loaded, and a place that other threads are told."""
    first = cuda.shared.array(1, np.int32)
    t = cuda.threadIdx.x
    if t == 0:
        first[0] = cuda.atomic.add(count, 0, -64 if cuda.blockIdx.x == 3 else x[2] * 32)
    cuda.syncthreads()
    if cuda.blockIdx.x < 3:
        out[first[0] + t] = t


RIGHT = [counting_sort, two_cells_each, guarded, again_and_again, by_warps, by_ctas]
WRONG = [half_a_cell, next_one_too, a_ring, rank_of_the_lane, first_warp_knows_its_place, looked_at, given_twice]
GIVEN_BACK = [given_back_last, given_back_by_data]


def report(kernel: Any, engine: Any = "vm") -> wsemu.Report:
    x = (np.arange(SIZE) % 7 % 4).astype(np.int32)
    start = np.cumsum(np.bincount(x, minlength=4)) - np.bincount(x, minlength=4)
    out = np.zeros(2 * SIZE + 8, np.int32)
    return wsemu.check(kernel, CTAS, 64, (x, out, np.zeros(4, np.int32), start.astype(np.int32)), engine=engine)


@pytest.fixture(autouse=True)
def no_orders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decide, "feasible", lambda *_: False)


@pytest.mark.parametrize("kernel", RIGHT, ids=lambda kernel: kernel.__name__)
def test_places_of_their_own_are_decided_by_one_run(kernel: Any) -> None:
    found = report(kernel)
    assert found.verdict == "verified", found.notes
    assert found.proof.endswith("whatever the order in which atomics give out places")


@pytest.mark.parametrize("kernel", WRONG, ids=lambda kernel: kernel.__name__)
def test_other_uses_of_what_is_returned_are_not(kernel: Any) -> None:
    assert report(kernel).verdict != "verified"


@pytest.mark.parametrize("engine", ["vm", "reference"])
@pytest.mark.parametrize("kernel", GIVEN_BACK, ids=lambda kernel: kernel.__name__)
def test_places_that_a_counter_takes_back_are_given_out_again_in_another_order(kernel: Any, engine: str) -> None:
    assert report(kernel, engine).verdict == "incomplete"


@pytest.mark.parametrize("kernel", [guarded, by_warps, first_warp_knows_its_place], ids=lambda k: k.__name__)
def test_both_engines_decide_the_same(kernel: Any) -> None:
    assert report(kernel, "reference").verdict == report(kernel).verdict


def test_a_bound_that_some_pass_is_decided_by_the_numbers() -> None:
    x, out = np.full(SIZE, 2, np.int32), np.zeros(100, np.int32)
    found = wsemu.check(guarded, CTAS, 64, (x, out, np.zeros(4, np.int32), np.zeros(4, np.int32)))
    assert found.verdict == "verified"
