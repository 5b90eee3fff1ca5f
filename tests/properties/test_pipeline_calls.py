"""Rings of `Pipeline` of all sizes, right or with one wrong call: what is wrong is never verified."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import wsemu
from wsemu import cuda, ptx
from wsemu.patterns import Pipeline

TILE = 32
"""elements"""
BYTES = 4 * TILE


@dataclass(frozen=True)
class Calls:
    """How often each side calls for a tile, and with what."""

    stages: int
    tiles: int
    warps: int = 1
    """that consume, each lane for itself"""
    counted: int = 0
    """consumers more than there are, or fewer"""
    producers: int = 1
    acquires: int = 1
    commits: int = 1
    bytes: int = BYTES
    waits: int = 1
    releases: int = 1


def ring(calls: Calls) -> Any:
    pipeline = Pipeline(calls.stages, calls.producers, 32 * calls.warps + calls.counted)
    stages, tiles, consumers, size = calls.stages, calls.tiles, 32 * calls.warps, calls.bytes
    acquires, commits, waits, releases = calls.acquires, calls.commits, calls.waits, calls.releases

    @cuda.jit
    def kernel(x, y):
        bars = cuda.shared.array(pipeline.barriers, np.uint64)
        tile = cuda.shared.array((stages, TILE), np.float32, 128)
        thread = cuda.threadIdx.x
        pipeline.start(bars)
        if thread == consumers:
            for i in range(tiles):
                for _ in range(acquires):
                    pipeline.producer_acquire(bars, i)
                to = pipeline.stage(i), 0
                ptx.cp_async_bulk_global_to_shared(tile, to, x, i * TILE, BYTES, bars, pipeline.full(i))
                for _ in range(commits):
                    pipeline.producer_commit(bars, i, size)
        elif thread < consumers:
            for i in range(tiles):
                for _ in range(waits):
                    pipeline.consumer_wait(bars, i)
                y[thread, i] = tile[pipeline.stage(i), thread % TILE]
                for _ in range(releases):
                    pipeline.consumer_release(bars, i)

    return kernel


def verdict(calls: Calls) -> str:
    x, y = np.arange(calls.tiles * TILE, dtype=np.float32), np.zeros((32 * calls.warps, calls.tiles), np.float32)
    report = wsemu.check(ring(calls), 1, 32 * calls.warps + 32, (x, y))
    if report.verdict == "verified":
        assert y.tobytes() == np.tile(x.reshape(-1, TILE).T, (calls.warps, 1)).tobytes()
    else:
        assert report.findings
        assert all(finding.message for finding in report.findings)
    return report.verdict


right = st.builds(Calls, stages=st.integers(1, 5), tiles=st.integers(1, 9), warps=st.integers(1, 3))
"""rings as they are meant, and that acquire or wait twice, which changes nothing"""
MISTAKES = st.one_of(
    st.fixed_dictionaries({"commits": st.sampled_from([0, 2])}),
    st.fixed_dictionaries({"releases": st.sampled_from([0, 2])}),
    st.fixed_dictionaries({"bytes": st.integers(0, 2 * BYTES).filter(lambda n: n != BYTES)}),
    st.fixed_dictionaries({"counted": st.sampled_from([-1, 1, 32])}),
    st.fixed_dictionaries({"producers": st.integers(2, 32)}),
    st.just({"waits": 0}),
    st.just({"acquires": 0}),
)
"""of which a ring that is filled more than twice shows each"""


@settings(max_examples=10, derandomize=True, database=None, deadline=None)
@given(right, st.sampled_from([1, 2]), st.sampled_from([1, 2]))
def test_right_rings_are_verified(calls, acquires, waits):
    assert verdict(replace(calls, acquires=acquires, waits=waits)) == "verified"


@settings(max_examples=20, derandomize=True, database=None, deadline=None)
@given(right, MISTAKES)
def test_a_wrong_call_is_never_verified(calls, mistake):
    assert verdict(replace(calls, tiles=2 * calls.stages + 1, **mistake)) == "failed"
