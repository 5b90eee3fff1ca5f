"""How much is tried before a launch that atomics steer is `incomplete`: counts, not time, and more on request."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wsemu
from tests.commands import wsemu as typed
from tests.unit import steering_kernels as kernels
from wsemu import cuda, ptx
from wsemu.launch.explore import crowds, draws, orders, samples, search
from wsemu.launch.explore.spending import STEP
from wsemu.model.bound import Account
from wsemu.model.errors import UsageError


@cuda.jit
def takes_slots_of_two_counters(counts, y):
    i, j = cuda.atomic.add(counts, 0, 1), cuda.atomic.add(counts, 1, 1)
    if j < y.shape[0]:
        y[i + j - j] = cuda.grid(1)


def queue(**options: Any) -> wsemu.Report:
    kernel = kernels.variant(kernels.work_queue)
    return wsemu.check(kernel, 4, 64, kernels.arguments("work_queue", 4), **options)


@pytest.fixture
def little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "MOST_STEPS", 12)
    monkeypatch.setattr(crowds.Crowds, "is_proven", lambda self: False)


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_more_effort_decides_more(engine: Any, little: None) -> None:
    few, many = queue(engine=engine), queue(engine=engine, effort=100)
    assert (few.verdict, many.verdict) == ("incomplete", "verified")
    (why,) = [note for note in few.notes if "too many to try" in note]
    assert "`--effort 10` (`effort=10`) tries ten times more" in why


def test_what_is_tried_is_the_same_on_both_engines_and_in_each_run(little: None) -> None:
    notes = [queue(engine=engine).notes for engine in ("vm", "vm", "reference")]
    assert notes[0] == notes[1] == notes[2]


def test_a_search_that_is_resumed_finds_what_one_that_is_not_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crowds.Crowds, "is_proven", lambda self: False)
    whole = queue()
    monkeypatch.setattr("wsemu.launch.explore.decide.FEW_STEPS", 7)
    resumed = queue()
    assert whole.verdict == "verified"
    assert (resumed.verdict, resumed.notes, resumed.proof) == (whole.verdict, whole.notes, whole.proof)


@cuda.jit
def tiles_by_turns(x, y, count, tiles):
    full = cuda.shared.array(1, np.uint64)
    tile = cuda.shared.array(32, np.float32, 16)
    job = cuda.shared.array(1, np.int32)
    t = cuda.threadIdx.x
    if t == 0:
        ptx.mbarrier_init(full, 0, 1)
        ptx.fence_mbarrier_init()
    cuda.syncthreads()
    phase = 0
    while True:
        if t == 0:
            job[0] = cuda.atomic.add(count, 0, 1)
        cuda.syncthreads()
        if job[0] >= tiles:
            break
        if t == 0:
            ptx.fence_proxy_async_shared_cta()
            ptx.mbarrier_arrive_expect_tx(full, 0, 128)
            ptx.cp_async_bulk_global_to_shared(tile, 0, x, 32 * job[0], 128, full, 0)
        ptx.mbarrier_wait_parity(full, 0, phase)
        phase ^= 1
        y[32 * job[0] + t] = tile[t]
        cuda.syncthreads()


@cuda.jit
def rows_by_turns(x, y, count, tiles):
    job = cuda.shared.array(1, np.int32)
    t = cuda.threadIdx.x
    while True:
        if t == 0:
            job[0] = cuda.atomic.add(count, 0, 1)
        cuda.syncthreads()
        i = job[0]
        if i >= tiles:
            break
        y[64 * i + t] = x[64 * i + t]
        cuda.syncthreads()


@pytest.mark.parametrize(
    ("kernel", "threads", "limit", "least"),
    [(rows_by_turns, 64, "WEIGHT", 0.1), (tiles_by_turns, 32, "FEW_THREADS", 0.01)],
)
def test_steps_that_take_longer_count_more(
    kernel: Any, threads: int, limit: str, least: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The more threads, and accesses that they may know of, the fewer steps are tried."""

    def check(**options: Any) -> wsemu.Report:
        x = np.arange(4 * threads, dtype=np.float32)
        return wsemu.check(kernel, 2, threads, (x, np.zeros_like(x), np.zeros(1, np.int32), 4), **options)

    monkeypatch.setattr(draws.Draws, "is_proven", lambda self: False)
    monkeypatch.setattr(crowds.Crowds, "is_proven", lambda self: False)
    assert check().verdict == "verified"
    monkeypatch.setattr(search, limit, least)
    assert check().verdict == "incomplete"
    assert check(effort=10_000).verdict == "verified"


@cuda.jit
def counts_while_it_waits(flag: Any, y: Any) -> None:
    if cuda.blockIdx.x == 0:
        rounds = 0
        while cuda.atomic.add(flag, 0, 0) == 0:
            rounds += 1
        y[0] = rounds
    else:
        cuda.atomic.add(flag, 0, 1)


def test_all_methods_draw_from_one_account(monkeypatch: pytest.MonkeyPatch) -> None:
    """No method decides a loop that counts; the limits of all of them together are more than twice the account."""
    used: list[float] = []
    run = Account.spend

    def spend(self: Account, effort: float) -> None:
        used.append(effort if self.whole is None else 0.0)
        run(self, effort)

    monkeypatch.setattr(Account, "spend", spend)

    def check(**options: Any) -> float:
        used.clear()
        args = np.zeros(1, np.int32), np.zeros(1, np.int32)
        assert wsemu.check(counts_while_it_waits, 2, 1, args, budget=3_000_000, **options).verdict == "incomplete"
        return sum(used)

    samples_ = samples.LEAST_STEPS * STEP
    assert orders.ACCOUNT / 2 < check() < orders.ACCOUNT + samples_
    assert check(effort=2) > orders.ACCOUNT + samples_
    monkeypatch.setattr(orders, "ACCOUNT", orders.ACCOUNT / 10)
    assert check() < orders.ACCOUNT + samples_


def test_lanes_that_all_wait_are_told_of_the_option() -> None:
    report = wsemu.check(takes_slots_of_two_counters, 1, 64, (np.zeros(2, np.int32), np.zeros(64, np.int32)))
    assert report.verdict == "incomplete"
    assert any("`--effort 10`" in note for note in report.notes)


@pytest.mark.parametrize("effort", [0, -1, 1 << 40])
def test_an_effort_out_of_range_is_a_mistake(effort: int) -> None:
    with pytest.raises(UsageError, match="effort"):
        queue(effort=effort)


def test_the_command_has_the_option() -> None:
    done = typed("check", "--effort", "0", "tests/pass/append_if_absent.py")
    assert done.returncode == 2
    assert typed("check", "--effort", "2", "tests/pass/append_if_absent.py").returncode == 0
