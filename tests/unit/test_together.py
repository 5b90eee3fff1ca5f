"""Masks of active lanes after a barrier: on its only path, and on one of several."""

from __future__ import annotations

import numpy as np
import pytest

import wsemu
from wsemu import cuda

ENGINES = ("vm", "reference")


@cuda.jit
def after_a_barrier(y):
    i = cuda.threadIdx.x
    cuda.syncthreads()
    if i % 32 < 8:
        y[i] = cuda.activemask()


@cuda.jit
def after_a_join(y):
    i = cuda.threadIdx.x
    cuda.syncthreads()
    if i % 3 == 0:
        y[i] = 1
    y[i + 64] = cuda.activemask()


@cuda.jit
def without_a_barrier(y):
    i = cuda.threadIdx.x
    if i % 32 < 8:
        y[i] = cuda.activemask()


@cuda.jit
def after_the_barrier_of_a_warp(y):
    i = cuda.threadIdx.x
    cuda.syncwarp()
    if i % 32 < 8:
        y[i] = cuda.activemask()


def judge(kernel, **options):
    y = np.zeros(128, np.uint32)
    report = wsemu.check(kernel, 1, 64, (y,), **options)
    return report, y


@pytest.mark.parametrize("engine", ENGINES)
def test_lanes_that_come_from_a_barrier_by_one_path_are_together(engine):
    report, y = judge(after_a_barrier, engine=engine)
    assert report.verdict == "verified", report
    assert set(y) == {0, 255}
    assert "as on hardware; PTX does not promise it" in " ".join(report.notes)


@pytest.mark.parametrize("engine", ENGINES)
def test_strict_takes_no_mask_for_granted(engine):
    report, _ = judge(after_a_barrier, engine=engine, strict=True)
    assert report.verdict == "incomplete", report


@pytest.mark.parametrize("kernel", [after_a_join, without_a_barrier, after_the_barrier_of_a_warp])
def test_other_masks_are_not_known(kernel):
    assert judge(kernel)[0].verdict == "incomplete"
