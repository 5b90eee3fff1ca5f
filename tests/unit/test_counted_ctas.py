"""CTAs that synchronise alike are counted, not named: barriers of a grid made by hand, locks, and what breaks them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wsemu
from tests.unit import steering_kernels
from tests.unit.steering_kernels import ints, variant
from wsemu import cuda
from wsemu.launch.explore import crowds, kin

BEFORE, AFTER, SYNCS, RESETS = True, True, True, True
OFF = 0


def counting(bar: Any, a: Any, b: Any) -> None:
    """Two rounds of a stencil with a barrier between them: a counter that only grows."""
    t, n = cuda.threadIdx.x, cuda.gridDim.x * cuda.blockDim.x
    i = cuda.blockIdx.x * cuda.blockDim.x + t
    b[i] = a[(i + 1) % n]
    if SYNCS:
        cuda.syncthreads()
    if t == 0:
        if BEFORE:
            cuda.threadfence()
        cuda.atomic.add(bar, 0, 1)
        while cuda.atomic.add(bar, 0, 0) < cuda.gridDim.x - OFF:
            pass
        if AFTER:
            cuda.threadfence()
    cuda.syncthreads()
    a[i] = b[(i + 1) % n]


def generations(bar: Any, a: Any, b: Any) -> None:
    """The one that comes last sets the counter back, and begins the next generation."""
    t, n = cuda.threadIdx.x, cuda.gridDim.x * cuda.blockDim.x
    i = cuda.blockIdx.x * cuda.blockDim.x + t
    for s in range(2):
        if s == 0:
            b[i] = a[(i + 1) % n]
        else:
            a[i] = b[(i + 1) % n]
        if SYNCS:
            cuda.syncthreads()
        if t == 0:
            if BEFORE:
                cuda.threadfence()
            came = cuda.atomic.add(bar, 0, 1)
            cuda.threadfence()
            if came == cuda.gridDim.x - 1 - OFF:
                if RESETS:
                    cuda.atomic.exch(bar, 0, 0)
                cuda.threadfence()
                cuda.atomic.add(bar, 1, 1)
            else:
                while cuda.atomic.add(bar, 1, 0) == s:
                    pass
            if AFTER:
                cuda.threadfence()
        cuda.syncthreads()


def flipping(bar: Any, a: Any, b: Any) -> None:
    """The highest bit of a counter changes when all have come, as in `cooperative_groups`."""
    t, n = cuda.threadIdx.x, cuda.gridDim.x * cuda.blockDim.x
    i = cuda.blockIdx.x * cuda.blockDim.x + t
    b[i] = a[(i + 1) % n]
    if SYNCS:
        cuda.syncthreads()
    if t == 0:
        if BEFORE:
            cuda.threadfence()
        mine = 1
        if cuda.blockIdx.x == 0:
            mine = 0x80000000 - (cuda.gridDim.x - 1 - OFF)
        before = cuda.atomic.add(bar, 0, np.uint32(mine))
        while ((before ^ cuda.atomic.add(bar, 0, np.uint32(0))) & 0x80000000) == 0:
            pass
        if AFTER:
            cuda.threadfence()
    cuda.syncthreads()
    a[i] = b[(i + 1) % n]


def locked_by_warps(lock: Any, a: Any, b: Any) -> None:
    """A lane of each warp takes a lock, in a loop with a flag; warps of one CTA meet there, too."""
    if cuda.threadIdx.x % 32 == 0:
        done = False
        while not done:
            if cuda.atomic.cas(lock, 0, 0, 1) == 0:
                if AFTER:
                    cuda.threadfence()
                a[0] += 1
                if BEFORE:
                    cuda.threadfence()
                cuda.atomic.exch(lock, 0, 0)
                done = True


KERNELS: dict[Any, list[dict[str, Any]]] = {
    counting: [{"BEFORE": False}, {"AFTER": False}, {"SYNCS": False}, {"OFF": 1}, {"OFF": -1}],
    generations: [{"BEFORE": False}, {"SYNCS": False}, {"RESETS": False}, {"OFF": 1}],
    flipping: [{"BEFORE": False}, {"AFTER": False}],
    locked_by_warps: [{"BEFORE": False}, {"AFTER": False}],
}
"""kernel -> what breaks it"""


def checked(kernel: Any, ctas: int, threads: int = 64, /, engine: Any = "vm", **parts: Any) -> Any:
    kind = np.uint32 if kernel is flipping else np.int32
    arrays = np.zeros(2, kind), ints(threads * ctas), ints(threads * ctas)
    return wsemu.check(variant(kernel, **parts), ctas, threads, arrays, engine=engine)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.__name__)
def test_ctas_that_synchronise_alike_are_counted(kernel):
    report = checked(kernel, 5, 33)
    assert report.verdict == "verified"
    assert "however many CTAs stand where" in report.proof


@pytest.mark.parametrize(("kernel", "parts"), [(k, p) for k in KERNELS for p in KERNELS[k]],
                         ids=lambda value: getattr(value, "__name__", str(value)))  # fmt: skip
def test_a_broken_barrier_is_found(kernel, parts):
    report = checked(kernel, 2, 33, **parts)
    assert report.verdict == "failed"
    assert {f.code for f in report.findings if f.severity == "error"} <= {"race", "deadlock"}


def test_the_reference_engine_counts_ctas_too(monkeypatch):
    monkeypatch.setattr("wsemu.launch.explore.decide.FEW_STEPS", 4)
    report = checked(locked_by_warps, 2, 2, engine="reference")
    assert report.verdict == "verified"
    assert "however many CTAs stand where" in report.proof


def test_ctas_that_differ_by_their_number_are_counted_apart():
    """The one that adds another number to the counter is a group of its own."""
    found: list[Any] = []
    attempt = crowds.Crowds._attempt

    def noted(self: Any) -> bool:
        found.append([list(group) for group in self.groups])
        return attempt(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(crowds.Crowds, "_attempt", noted)
        assert checked(flipping, 4, 1).verdict == "verified"
    assert found == [[[0], [1, 2, 3]]]


def test_clocks_are_followed_only_after_the_groups_and_states_are_found(monkeypatch):
    """Sixteen CTAs that act in turn are as many groups; each further group once followed all clocks again."""
    steps: list[str] = []
    note_split, go = crowds._SplitError.__init__, kin.Kin.go

    def split(self: Any, groups: Any) -> None:
        steps.append("split")
        note_split(self, groups)

    def gone(self: Any, *more: Any) -> Any:
        steps.append("clocks")
        return go(self, *more)

    monkeypatch.setattr(crowds._SplitError, "__init__", split)
    monkeypatch.setattr(kin.Kin, "go", gone)
    report = wsemu.check(variant(steering_kernels.split_k), 16, 64, steering_kernels.arguments("split_k", 16))
    assert (report.verdict, steps.count("split") > 10) == ("verified", True)
    assert steps == sorted(steps, reverse=True)


def test_ctas_in_too_many_states_are_given_up_before_their_clocks_are_followed(monkeypatch):
    """What 12 CTAs that look back have observed took 5 s to follow."""
    counted: list[bool] = []
    decide = crowds.Crowds.is_proven

    def noted(self: Any) -> bool:
        counted.append(decide(self))
        return counted[-1]

    def fail(*_: Any) -> None:
        raise AssertionError

    monkeypatch.setattr(crowds.Crowds, "is_proven", noted)
    monkeypatch.setattr(kin.Kin, "go", fail)
    report = wsemu.check(variant(steering_kernels.look_back), 12, 64, steering_kernels.arguments("look_back", 12))
    assert (report.verdict, counted) == ("incomplete", [False])


def turns(turn: Any, a: Any, data: Any) -> None:
    """What is read decides, and others write it: nothing is counted."""
    if cuda.threadIdx.x == 0:
        while cuda.atomic.cas(turn, 0, 0, 1) != 0:
            pass
        cuda.threadfence()
        if data[0] < 2:
            data[0] += 1
            a[cuda.blockIdx.x] = 1
        cuda.threadfence()
        cuda.atomic.exch(turn, 0, 0)


def test_what_written_data_decide_is_not_counted():
    report = checked(turns, 3, 1)
    assert "however many CTAs stand where" not in (report.proof or "")
    assert report.verdict == "verified"
