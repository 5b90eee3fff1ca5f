"""Instructions that an architecture does not have are refused, with their place."""

from __future__ import annotations

import re

import numpy as np
import pytest

import wsemu
from wsemu import KernelError, cuda, ptx


@cuda.jit
def copied(x):
    tile = cuda.shared.array(4, np.float32, 16)
    if cuda.threadIdx.x == 0:
        ptx.cp_async_ca(tile, 0, x, 0, 16)
        ptx.cp_async_wait_all()


@cuda.jit
def counted(x):
    bar = cuda.shared.array(1, np.uint64)
    if cuda.threadIdx.x == 0:
        ptx.mbarrier_init(bar, 0, 1)
        ptx.mbarrier_arrive(bar, 0)


@cuda.jit
def expecting(x):
    bar = cuda.shared.array(1, np.uint64)
    if cuda.threadIdx.x == 0:
        ptx.mbarrier_init(bar, 0, 1)
        ptx.mbarrier_arrive_expect_tx(bar, 0, 0)


@cuda.jit
def elected(x):
    if ptx.elect_sync(0xFFFFFFFF):
        x[0] = 1


@cuda.jit
def stored(x):
    ptx.fence_proxy_async()


@pytest.mark.parametrize(
    ("kernel", "since", "what"),
    [
        (copied, "sm_80", "`cp.async` needs"),
        (counted, "sm_80", "mbarriers need"),
        (expecting, "sm_90", "expectations of bytes need"),
        (elected, "sm_90", "`elect.sync` needs"),
        (stored, "sm_90", "`fence.proxy.async` needs"),
    ],
)
def test_an_instruction_of_a_later_architecture(kernel, since, what):
    before = {"sm_80": "sm_75", "sm_90": "sm_89"}[since]
    message = f"{what} {since} or later, and this launch is for {before}"
    with pytest.raises(KernelError, match=re.escape(message)) as told:
        wsemu.check(kernel, 1, 32, (np.zeros(4, np.float32),), arch=before)
    assert told.value.span is not None
    assert wsemu.check(kernel, 1, 32, (np.zeros(4, np.float32),), arch=since).verdict == "verified"


def test_what_is_old_enough_is_not_asked():
    @cuda.jit
    def shuffled(x):
        x[cuda.threadIdx.x] = cuda.shfl_sync(0xFFFFFFFF, x[cuda.threadIdx.x], 0)

    assert wsemu.check(shuffled, 1, 32, (np.zeros(32, np.float32),), arch="sm_20").verdict == "verified"


@cuda.jit
def met(x):
    ptx.cluster_sync()


def test_clusters_came_with_hopper():
    with pytest.raises(KernelError, match="barriers of clusters need sm_90 or later, and this launch is for sm_80"):
        wsemu.check(met, 1, 32, (np.zeros(4, np.float32),), arch="sm_80")
    assert wsemu.check(met, 1, 32, (np.zeros(4, np.float32),), arch="sm_90").verdict == "verified"


def test_st_bulk_needs_sm_100_where_an_architecture_is_named():
    def kernel(out):
        tile = cuda.shared.array(4, np.float32)
        if cuda.threadIdx.x == 0:
            ptx.st_bulk(tile, 0, 16)
        cuda.syncthreads()
        out[cuda.threadIdx.x] = tile[cuda.threadIdx.x]

    out = np.ones(4, np.float32)
    assert wsemu.check(kernel, 1, 4, (out,)).verdict == "verified"
    with pytest.raises(KernelError, match="need sm_100 or later, and this launch is for sm_90") as raised:
        wsemu.check(kernel, 1, 4, (out,), arch="sm_90")
    assert "such as `--arch sm_100`" in str(raised.value)
