"""Patterns of public kernels with atomics: none has errors, and two broken twins of each have."""

from __future__ import annotations

import numpy as np
import pytest

import wsemu
from wsemu import cuda


def sum_of_blocks(broken):
    """Partial sums in shared memory, one atomic for each CTA."""

    @cuda.jit
    def kernel(x, total):
        parts = cuda.shared.array(64, np.int32)
        i = cuda.threadIdx.x
        parts[i] = x[cuda.grid(1)]
        if broken != 1:
            cuda.syncthreads()
        if i == 0:
            own = 0
            for j in range(64):
                own += parts[j]
            if broken == 2:
                total[0] += own
            else:
                cuda.atomic.add(total, 0, own)

    return kernel, (np.ones(128, np.int32), np.zeros(1, np.int32))


def histogram_in_shared_memory(broken):
    """Counts in shared memory, then one addition for each of them."""

    @cuda.jit
    def kernel(x, counts):
        own = cuda.shared.array(8, np.int32)
        i = cuda.threadIdx.x
        if i < 8:
            own[i] = 0
        if broken != 1:
            cuda.syncthreads()
        cuda.atomic.add(own, x[cuda.grid(1)] % 8, 1)
        if broken != 2:
            cuda.syncthreads()
        if i < 8:
            cuda.atomic.add(counts, i, own[i])

    return kernel, (np.arange(128, dtype=np.int32), np.zeros(8, np.int32))


def slots_by_bucket(broken):
    """Each thread takes a slot of its bucket and stores there."""

    @cuda.jit
    def kernel(x, first, y):
        i = cuda.grid(1)
        bucket = x[i] % 4
        if broken == 1:
            slot = first[bucket]
            first[bucket] = slot + 1
        else:
            slot = cuda.atomic.add(first, bucket, 1)
        y[slot // 2 if broken == 2 else slot] = i

    return kernel, (np.arange(128, dtype=np.int32), np.arange(4, dtype=np.int32) * 32, np.zeros(128, np.int32))


def sums_by_few_lanes(broken):
    """Sums of warps, scanned by the lanes that one branch lets pass."""

    @cuda.jit
    def kernel(x, y):
        sums = cuda.shared.array(4, np.int32)
        i = cuda.threadIdx.x
        if i % 32 == 0:
            sums[i // 32] = x[i]
        if broken != 1:
            cuda.syncthreads()
        if i < 4:
            mask = cuda.activemask()
            total = sums[i]
            for step in (1, 2):
                before = cuda.shfl_up_sync(mask, total, step)
                if i >= step:
                    total += before
            sums[i] = total
        if broken != 2:
            cuda.syncthreads()
        y[i] = sums[i // 32]

    return kernel, (np.ones(128, np.int32), np.zeros(128, np.int32))


def table_of_keys(broken):
    """Keys enter a table by compare-and-swap; who enters one stores its value."""

    @cuda.jit
    def kernel(keys, table, values):
        i = cuda.grid(1)
        key = keys[i]
        if broken == 1:
            old = table[key]
            if old == 0:
                table[key] = i + 1
        else:
            old = cuda.atomic.cas(table, key, 0, i + 1)
        if old == 0 or broken == 2:
            values[key] = i

    keys = np.arange(128, dtype=np.int32) % 64
    return kernel, (keys, np.zeros(64, np.int32), np.zeros(64, np.int32))


PATTERNS = (sum_of_blocks, histogram_in_shared_memory, slots_by_bucket, sums_by_few_lanes, table_of_keys)


def judge(pattern, broken):
    kernel, args = pattern(broken)
    threads = 64 if pattern is not sums_by_few_lanes else 128
    return wsemu.check(kernel, len(args[0]) // threads, threads, args)


@pytest.mark.parametrize("pattern", PATTERNS[:-1])
def test_patterns_of_public_kernels_are_verified(pattern):
    report = judge(pattern, 0)
    assert report.verdict == "verified", report.notes


def test_a_table_of_keys_has_no_errors():
    assert not [finding for finding in judge(table_of_keys, 0).findings if finding.severity == "error"]


@pytest.mark.parametrize("broken", [1, 2])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_broken_twins_are_races(pattern, broken):
    report = judge(pattern, broken)
    assert report.verdict == "failed"
    assert {finding.code for finding in report.findings if finding.severity == "error"} & {"race", "intra-warp-race"}
