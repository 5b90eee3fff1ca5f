"""CTAs that have to run at once: how many a launch needs, how many a GPU holds, what is said where they do not fit."""

from __future__ import annotations

import numpy as np
import pytest

import wsemu
from wsemu import cuda, ptx
from wsemu.model.arch import ARCHS
from wsemu.model.errors import UsageError
from wsemu.model.residency import ctas_per_multiprocessor

ENGINES = pytest.mark.parametrize("engine", ["vm", "reference"])


@cuda.jit
def meets(x):
    cuda.shared.array(16384, np.uint8)[0] = 1
    x[cuda.grid(1)] = 1
    cuda.cg.this_grid().sync()


@cuda.jit
def in_clusters(x):
    x[cuda.grid(1)] = 1
    ptx.cluster_sync()


@cuda.jit
def waits_for_the_next(flags, x):
    """Each CTA but the last one waits for the one after it."""
    if cuda.threadIdx.x == 0:
        b = cuda.blockIdx.x
        if b + 1 < cuda.gridDim.x:
            while cuda.atomic.add(flags, b + 1, 0) == 0:
                pass
        cuda.atomic.add(flags, b, 1)


@cuda.jit
def waits_for_the_one_before(flags, x):
    if cuda.threadIdx.x == 0:
        b = cuda.blockIdx.x
        if b > 0:
            while cuda.atomic.add(flags, b - 1, 0) == 0:
                pass
        cuda.atomic.add(flags, b, 1)


@pytest.mark.parametrize(
    ("arch", "threads", "shared", "registers", "wanted"),
    [
        ("sm_90", 1024, 0, 0, (2, "threads")),
        ("sm_90", 64, 0, 0, (32, "threads")),
        ("sm_90", 32, 0, 0, (32, "CTAs")),
        ("sm_90", 128, 227 * 1024, 0, (1, "shared memory")),
        ("sm_90", 128, 113 * 1024, 0, (2, "shared memory")),
        ("sm_80", 128, 48 * 1024, 0, (3, "shared memory")),
        ("sm_86", 512, 0, 0, (3, "threads")),
        ("sm_90", 384, 0, 168, (1, "registers")),
        ("sm_90", 33, 0, 0, (32, "threads")),
    ],
)
def test_what_a_multiprocessor_holds(arch, threads, shared, registers, wanted):
    assert ctas_per_multiprocessor(arch, threads, shared, registers) == wanted


def test_each_architecture_holds_the_largest_cta():
    for arch, row in ARCHS.items():
        assert ctas_per_multiprocessor(arch, row.limits.threads, row.limits.shared)[0] >= 1


@ENGINES
def test_a_cooperative_launch_needs_its_whole_grid(engine):
    report = wsemu.check(meets, 4, 32, (np.zeros(128, np.float32),), engine=engine)
    needed = report.residency
    assert needed is not None
    assert report.verdict == "verified"
    assert (needed.ctas, needed.of, needed.each, needed.limited_by) == (4, "grid", 13, "shared memory")
    assert (needed.room, needed.fits, needed.known) == (13 * 132, True, False)
    assert str(needed) == "needs 4 CTAs at once"


def test_a_grid_that_does_not_fit_is_refused_as_a_gpu_does():
    x = np.zeros(32 * 32, np.float32)
    with pytest.raises(
        UsageError, match=r"`meets` needs 28 CTAs at once, a whole grid: .* a GPU of 2 holds 26; launch fewer CTAs"
    ):
        wsemu.check(meets, 28, 32, (x,), sms=2)
    assert wsemu.check(meets, 26, 32, (x,), sms=2).verdict == "verified"
    with pytest.raises(UsageError, match="a GPU of 132, the largest there is, holds 1,716"):
        wsemu.check(meets, 1717, 32, (np.zeros(1717 * 32, np.float32),))


def test_a_cluster_needs_its_ctas():
    report = wsemu.check(in_clusters, 8, 32, (np.zeros(256, np.float32),), cluster=4)
    assert report.residency is not None
    assert (report.residency.ctas, report.residency.of) == (4, "cluster")
    assert wsemu.check(in_clusters, 8, 32, (np.zeros(256, np.float32),)).residency is None


@ENGINES
def test_ctas_that_wait_for_each_other_are_counted_by_running(engine):
    options = {"engine": engine}
    report = wsemu.check(waits_for_the_next, 2, 32, (np.zeros(2, np.int32), np.zeros(1)), **options)
    assert report.verdict == "verified"
    assert report.residency is not None
    assert (report.residency.ctas, report.residency.of) == (2, "launch")
    report = wsemu.check(waits_for_the_one_before, 2, 32, (np.zeros(2, np.int32), np.zeros(1)), **options)
    assert report.verdict == "verified"
    assert report.residency is None


def test_a_spin_that_needs_more_ctas_than_fit_is_a_deadlock():
    def spin(sms):
        arguments = np.zeros(4, np.int32), np.zeros(1)
        return wsemu.check(waits_for_the_next, 4, 32, arguments, dynamic_shared=120 * 1024, sms=sms)

    assert spin(4).verdict == "verified"
    report = spin(3)
    assert [finding.code for finding in report.errors] == ["deadlock"]
    assert "that takes a CTA that has no room to begin" in report.errors[0].message
    assert "a multiprocessor of sm_90 holds 1 of them (shared memory), a GPU of 3 holds 3" in report.errors[0].notes[0]


def test_the_number_of_multiprocessors_is_checked():
    with pytest.raises(UsageError, match="sms=-1: give the number of multiprocessors"):
        wsemu.check(in_clusters, 8, 32, (np.zeros(256, np.float32),), sms=-1)
