"""What an mbarrier holds, in every schedule: bytes and arrivals that may be outstanding at once, arrivals without
completion."""

from __future__ import annotations

import numpy as np
import pytest

import wsemu
from wsemu import cuda, ptx
from wsemu.proof.outstanding import _most, _Operation

MOST = (1 << 20) - 1
MANY = 600_000


def checked(kernel, *arguments, block=64):
    """The report of a kernel, the same on both engines."""
    reports = [wsemu.check(kernel, 1, block, arguments, engine=engine) for engine in ("vm", "reference")]
    plain = [report.model_dump(exclude={"seconds", "inputs"}) for report in reports]
    assert plain[0] == plain[1]
    return reports[0]


def codes(report):
    return {finding.code for finding in report.findings}


@cuda.jit
def two_expect(n):
    full = cuda.shared.array(1, np.uint64)
    if cuda.threadIdx.x == 0:
        ptx.mbarrier_init(full, 0, 2)
    cuda.syncthreads()
    if cuda.threadIdx.x % 32 == 0:
        ptx.mbarrier_expect_tx(full, 0, n)
        ptx.mbarrier_complete_tx(full, 0, n)
        ptx.mbarrier_arrive(full, 0)
    ptx.mbarrier_wait_parity(full, 0, 0)


@cuda.jit
def one_after_the_other(n):
    full = cuda.shared.array(2, np.uint64)
    if cuda.threadIdx.x == 0:
        ptx.mbarrier_init(full, 0, 2)
        ptx.mbarrier_init(full, 1, 1)
    cuda.syncthreads()
    if cuda.threadIdx.x % 32 == 0:
        if cuda.threadIdx.x == 32:
            ptx.mbarrier_wait_parity(full, 1, 0)
        ptx.mbarrier_expect_tx(full, 0, n)
        ptx.mbarrier_complete_tx(full, 0, n)
        ptx.mbarrier_arrive(full, 0)
        if cuda.threadIdx.x == 0:
            ptx.mbarrier_arrive(full, 1)
    ptx.mbarrier_wait_parity(full, 0, 0)


@cuda.jit
def completed_first(n):
    full = cuda.shared.array(1, np.uint64)
    if cuda.threadIdx.x == 0:
        ptx.mbarrier_init(full, 0, 2)
    cuda.syncthreads()
    if cuda.threadIdx.x % 32 == 0:
        ptx.mbarrier_complete_tx(full, 0, n)
        ptx.mbarrier_arrive_expect_tx(full, 0, n)
    ptx.mbarrier_wait_parity(full, 0, 0)


def test_bytes_that_some_order_has_outstanding_at_once():
    """Each warp's own are never too many, and in the run they come one after the other."""
    report = checked(two_expect, MANY)
    assert codes(report) == {"mbarrier-range"}
    assert "1,200,000 bytes pending at once" in report.findings[0].message


def test_bytes_that_some_order_has_come_before_they_are_expected():
    assert codes(checked(completed_first, MANY)) == {"mbarrier-range"}


@pytest.mark.parametrize("kernel", [two_expect, completed_first, one_after_the_other])
def test_a_phase_of_which_all_bytes_fit_is_decided(kernel):
    assert checked(kernel, MOST // 2).verdict == "verified"


def test_bytes_that_an_order_keeps_apart_are_not_called_too_many():
    report = checked(one_after_the_other, MANY)
    assert report.verdict == "incomplete"
    assert report.reasons == ["bytes outstanding"]
    assert any("gets 1,200,000 bytes in a phase" in note for note in report.notes)


@cuda.jit
def ordered_arrivals(x, y):
    bar = cuda.shared.array(2, np.uint64)
    if cuda.threadIdx.x == 0:
        ptx.mbarrier_init(bar, 0, 2)
        ptx.mbarrier_init(bar, 1, 1)
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        ptx.mbarrier_arrive_no_complete(bar, 0, 1)
        ptx.mbarrier_arrive(bar, 1)
    if cuda.threadIdx.x == 32:
        ptx.mbarrier_wait_parity(bar, 1, 0)
        ptx.mbarrier_arrive(bar, 0)
    ptx.mbarrier_wait_parity(bar, 0, 0)


@cuda.jit
def unordered_arrivals(x, y):
    bar = cuda.shared.array(1, np.uint64)
    if cuda.threadIdx.x == 0:
        ptx.mbarrier_init(bar, 0, 2)
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        ptx.mbarrier_arrive_no_complete(bar, 0, 1)
    if cuda.threadIdx.x == 32:
        ptx.mbarrier_arrive(bar, 0)
    ptx.mbarrier_wait_parity(bar, 0, 0)


@cuda.jit
def own_arrivals(x, y):
    bar = cuda.shared.array(1, np.uint64)
    if cuda.threadIdx.x == 0:
        ptx.mbarrier_init(bar, 0, 4)
    cuda.syncthreads()
    if cuda.threadIdx.x % 32 == 0:
        ptx.mbarrier_arrive_no_complete(bar, 0, 1)
        ptx.mbarrier_arrive(bar, 0)
    ptx.mbarrier_wait_parity(bar, 0, 0)


def test_an_arrival_without_completion_that_another_one_always_follows():
    x = np.zeros(1, np.float32)
    assert checked(ordered_arrivals, x, x).verdict == "verified"
    assert checked(own_arrivals, x, x).verdict == "verified"


def test_an_arrival_without_completion_that_some_order_has_last():
    x = np.zeros(1, np.float32)
    report = checked(unordered_arrivals, x, x)
    assert codes(report) == {"mbarrier-range"}
    assert "can be the last one" in report.findings[0].message


def test_the_most_that_is_outstanding_is_the_greatest_sum_over_sets_closed_under_before():
    none = frozenset[int]()
    assert _most([_Operation(5, none), _Operation(-5, none), _Operation(7, none)], 1) == 12
    assert _most([_Operation(5, none), _Operation(-5, frozenset({0})), _Operation(7, frozenset({0, 1}))], 1) == 7
    chain = [
        _Operation(5, none),
        _Operation(-3, frozenset({0})),
        _Operation(4, frozenset({0, 1})),
        _Operation(-6, none),
    ]
    assert _most(chain, 1) == 6
    assert _most(chain, -1) == 6
    shared = [_Operation(-4, none), _Operation(3, frozenset({0})), _Operation(3, frozenset({0})), _Operation(-9, none)]
    assert _most(shared, 1) == 2
