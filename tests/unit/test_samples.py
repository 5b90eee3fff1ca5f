"""Where all orders are too many, some are drawn: what fails in these is found, else it is said how many there were."""

from __future__ import annotations

from typing import Any

import pytest

import wsemu
from tests.unit import steering_kernels as kernels
from wsemu import cuda
from wsemu.launch.explore import crowds, search


@cuda.jit
def no_two_orders_leave_the_same(mutex, x, y):
    """CTAs take turns, each of which changes what is left to the next."""
    if cuda.threadIdx.x == 0:
        while cuda.atomic.cas(mutex, 0, 0, 1) != 0:
            pass
        cuda.threadfence()
        x[0] = 3 * x[0] + cuda.blockIdx.x + 1
        cuda.threadfence()
        cuda.atomic.exch(mutex, 0, 0)


@cuda.jit
def wrong_where_the_last_one_is_first(mutex, x, y):
    if cuda.threadIdx.x == 0:
        while cuda.atomic.cas(mutex, 0, 0, 1) != 0:
            pass
        cuda.threadfence()
        if x[0] == 0 and cuda.blockIdx.x == cuda.gridDim.x - 1:
            y[1] = 1
        x[0] = 3 * x[0] + cuda.blockIdx.x + 1
        cuda.threadfence()
        cuda.atomic.exch(mutex, 0, 0)


@cuda.jit
def lanes_take_what_is_there(mutex, x, y):
    """As many as a warp has lanes, and one fewer than they want."""
    slot = cuda.atomic.add(mutex, 0, 1)
    if slot < 31:
        x[0] = slot


def launch(kernel: Any, ctas: int, threads: int, engine: Any = "vm") -> wsemu.Report:
    return wsemu.check(kernel, ctas, threads, tuple(kernels.ints(1) for _ in range(3)), engine=engine)


@pytest.fixture(autouse=True)
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "MOST_STEPS", 200)


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_an_order_that_fails_is_drawn(engine: Any) -> None:
    found = launch(wrong_where_the_last_one_is_first, 6, 32, engine)
    assert found.verdict == "failed", found.notes
    assert [finding.code for finding in found.findings] == ["out-of-bounds"]
    assert "in this order of atomics" in "\n".join(found.findings[0].notes)


def test_how_many_orders_there_are_is_estimated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crowds.Crowds, "is_proven", lambda self: False)  # else they are decided, by counting CTAs
    found = launch(no_two_orders_leave_the_same, 6, 32)
    assert found.verdict == "incomplete"
    (told,) = [note for note in found.notes if "too many to try" in note]
    assert "orders 40 were sampled and none failed, 20 of them by PCT" in told
    estimate = int(told.split("an estimated ")[1].split(" orders")[0].replace(",", ""))
    assert 720 <= estimate < 720**2  # 6! turns, and what of waiting and going on lies between


def test_lanes_in_too_many_orders_are_sampled() -> None:
    found = launch(lanes_take_what_is_there, 1, 32)
    assert found.verdict == "failed", found.notes
    assert {"race", "intra-warp-race"} & {finding.code for finding in found.findings}
