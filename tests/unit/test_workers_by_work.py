"""CTAs are spread over the cores by what a launch does, not by its threads."""

from __future__ import annotations

import threading
from collections import deque

import numpy as np
import pytest

import wsemu
from wsemu import cuda
from wsemu.launch import running
from wsemu.machine import run as machine
from wsemu.machine import slices, vm
from wsemu.machine import state as layout
from wsemu.machine import workers as hands
from wsemu.model.launch_shape import configure
from wsemu.model.settings import Settings


@cuda.jit
def rows(a, x, y):
    row = cuda.grid(1)
    total = np.float32(0)
    for column in range(a.shape[1]):
        total += a[row, column] * x[column]
    y[row] = total


@pytest.fixture(autouse=True)
def four_cores(monkeypatch):
    for module in (machine, hands):
        monkeypatch.setattr(module, "cores", lambda: 4)


def bound(ctas, columns):
    arrays = np.ones((ctas * 32, columns), np.float32), np.ones(columns, np.float32), np.zeros(ctas * 32, np.float32)
    return running.bind_launch(rows, configure(ctas, 32), arrays, Settings())[0]


def test_before_the_first_launch_the_arrays_tell():
    launch = bound(8, 4)
    launch.program.derived.pop("work", None)
    assert running._workers(launch) is None
    large = launch._replace(segments=[(np.empty(running.MUCH_MEMORY, np.uint8), True)])
    assert running._workers(large) == 4
    assert running._workers(large._replace(configuration=configure(1, 32))) is None


def test_then_what_it_did():
    launch = bound(8, 4)
    running.ran(launch, None)
    did = launch.program.derived["work"]
    assert did > 0
    assert running._workers(launch) is None
    launch.program.derived["work"] = running.MUCH_WORK // 8
    assert running._workers(launch) == 4
    launch.program.derived["work"] = did


def test_the_bytes_are_the_same_for_any_number_of_workers():
    results = []
    for workers in (1, 2, 4):
        launch = bound(8, 16)
        outcome, _, _ = running.ran(launch, workers)
        results.append((outcome.warp_instructions, [bytes(data) for data, _ in launch.segments]))
    assert results[0] == results[1] == results[2]


@cuda.jit
def places(x, y, apart):
    """Each CTA writes a stretch of its own; 64 and less apart, neighbours share some of it."""
    i = cuda.blockIdx.x * apart + cuda.threadIdx.x
    x[i] = y[i * 3 % y.size] + cuda.blockIdx.x


def dealt_backwards(groups, workers):
    """Every worker has CTAs from everywhere, the last first, and one of them none."""
    shares: list[deque[tuple[int, int]]] = [deque() for _ in range(workers)]
    for group in range(groups - 1, -1, -1):
        shares[group * 7 % max(1, workers - 1)].append((group, group + 1))
    return shares


@pytest.mark.parametrize("apart", [64, 96, 60, 1, 0])
def test_a_report_is_the_same_whoever_runs_which_ctas(monkeypatch, apart):
    def said(workers):
        x, y = np.zeros(40 * 96, np.int32), np.arange(40 * 96, dtype=np.int32)
        report = wsemu.check(places, 40, 64, (x, y, apart), workers=workers)
        return report.model_dump(exclude={"seconds"}), x.tobytes()

    alone = said(1)
    monkeypatch.setattr(machine, "share_groups", dealt_backwards)
    assert [said(4), said(3), said(4)] == [alone] * 3
    monkeypatch.undo()
    assert said(4) == alone


@cuda.jit
def counts(x):
    for _ in range(50):
        x[cuda.grid(1)] += 1


def test_a_budget_ends_where_one_worker_ends_it():
    """Each of several is within it, all together are not."""

    def said(budget, workers):
        x = np.zeros(16 * 32, np.int32)
        report = wsemu.check(counts, 16, 32, (x,), workers=workers, budget=budget)
        return report.model_dump(exclude={"seconds"}), x.tobytes()

    whole = said(10**9, 1)[0]["counters"]["warp_instructions"]
    for budget in (whole * 3 // 4, whole // 2 + 20, whole - 1):
        alone = said(budget, 1)
        assert alone[0]["verdict"] == "incomplete"
        assert [said(budget, workers) for workers in (2, 4)] == [alone] * 2


def test_a_worker_whose_shadow_memory_is_often_swept_hears_that_it_is_to_stop(monkeypatch):
    made, ran = [], vm.Machine.run

    def kept(self, *arguments, **named):
        made.append(self)
        return ran(self, *arguments, **named)

    monkeypatch.setattr(vm.Machine, "run", kept)
    wsemu.check(counts, 4, 32, (np.zeros(128, np.int32),), workers=1)
    monkeypatch.setattr(made[0], "entry", lambda address: layout.SWEEP, raising=False)
    monkeypatch.setattr(made[0], "_provide", lambda status, planes: True, raising=False)
    stop = threading.Event()
    stop.set()
    assert ran(made[0], 0, 4, 10**9, stop) == layout.BUDGET


@cuda.jit
def tiles(x, y, off, bad_from):
    tile = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    total = np.float32(0)
    shift = off if cuda.blockIdx.x >= bad_from else 0
    for _ in range(8):
        tile[t] = x[cuda.grid(1)]
        cuda.syncthreads()
        for k in range(64):
            total += tile[k + shift]
        cuda.syncthreads()
    y[cuda.grid(1)] = total


@cuda.jit
def outside_and_later_between_lanes(x, y, off, bad_from):
    tile = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    tile[t] = x[cuda.grid(1) - off]
    cuda.syncthreads()
    if cuda.blockIdx.x >= bad_from:
        tile[t] = tile[t ^ 1]
    y[cuda.grid(1)] = tile[t]


@pytest.mark.parametrize("kernel", [tiles, outside_and_later_between_lanes])
@pytest.mark.parametrize("bad_from", [0, 20, 63])
def test_what_several_find_is_told_as_one_finds_it_and_leaves_later_launches_alone(monkeypatch, kernel, bad_from):
    """However the CTAs are shared out, and where a slice ends."""
    monkeypatch.setattr(slices, "FIRST_SLICE", 500)
    monkeypatch.setattr(slices, "SLICES", (2000, 2000, 2000))

    def said(off, workers):
        x, y = np.arange(64 * 64, dtype=np.float32), np.zeros(64 * 64, np.float32)
        report = wsemu.check(kernel, 64, 64, (x, y, off, bad_from), workers=workers)
        return report.model_dump(exclude={"seconds"}), y.tobytes()

    alone = {off: said(off, 1) for off in (0, 1)}
    assert alone[1][0]["verdict"] == "failed"
    for off in (0, 1, 0, 1, 1, 0):
        assert [said(off, workers) for workers in (2, 4)] == [alone[off]] * 2


def test_shares_are_all_groups_once():
    for groups, workers in ((1, 1), (5, 4), (7, 7), (1000, 3)):
        shares = hands.share_groups(groups, workers)
        assert [n for own in shares for share in own for n in range(*share)] == [*range(groups)]
        taken = []
        while share := hands.next_share(shares, 0):
            taken.append(share)
        assert sorted(n for share in taken for n in range(*share)) == [*range(groups)]


def test_an_error_of_one_worker_ends_all():
    stop = threading.Event()

    def fails():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        hands.call_at_once([lambda: 1, fails, lambda: 2], stop)
    assert hands.call_at_once([lambda: 1, lambda: 2, lambda: 3]) == [1, 2, 3]
    with pytest.raises(ZeroDivisionError):
        hands.call_at_once([fails, lambda: stop.wait(60)], stop)
    assert stop.is_set()


def test_where_the_system_has_no_thread_more_those_that_began_are_waited_for(monkeypatch):
    stop, ended = threading.Event(), []
    left = iter([hands._Hand()])
    monkeypatch.setattr(hands, "_hand", lambda: next(left, None) or no_more())

    def no_more():
        raise RuntimeError("can't start new thread")

    with pytest.raises(RuntimeError, match="new thread"):
        hands.call_at_once([lambda: None, lambda: ended.append(stop.wait(60)), lambda: None], stop)
    assert ended == [True]
