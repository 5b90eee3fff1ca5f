"""Launches for against.py: each name with a function that prepares the launch, and the number of launches to time
together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import wsemu
from wsemu import cuda

if TYPE_CHECKING:
    from collections.abc import Callable


@cuda.jit
def tiny(x):
    x[cuda.threadIdx.x] = 1


@cuda.jit
def saxpy(a, x, y):
    i = cuda.grid(1)
    if i < x.shape[0]:
        y[i] = a * x[i] + y[i]


@cuda.jit
def stencil(x, y):
    tile = cuda.shared.array(130, np.float32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    tile[t + 1] = x[i]
    if t == 0:
        tile[0] = x[i - 1] if i > 0 else 0
        tile[129] = x[i + 128] if i + 128 < x.shape[0] else 0
    cuda.syncthreads()
    y[i] = tile[t] + tile[t + 1] + tile[t + 2]


@cuda.jit
def sgemv(a, x, y):
    part = cuda.shared.array(128, np.float32)
    t, row = cuda.threadIdx.x, cuda.blockIdx.x
    total = np.float32(0)
    for k in range(t, x.shape[0], 128):
        total += a[row, k] * x[k]
    part[t] = total
    cuda.syncthreads()
    s = 64
    while s > 0:
        if t < s:
            part[t] += part[t + s]
        cuda.syncthreads()
        s //= 2
    if t == 0:
        y[row] = part[0]


PASS = """.version 8.8
.target sm_90
.address_size 64
.visible .entry k(.param .u64 m)
{
.reg .pred %p<2>;
.reg .b32 %r<4>;
.reg .b64 %rd<2>;
ld.param.u64 %rd1, [m];
mov.u32 %r1, %ctaid.x;
mov.u32 %r2, %tid.x;
setp.ne.u32 %p1, %r2, 0;
@%p1 bra $end;
setp.ne.u32 %p1, %r1, 0;
@%p1 bra $takes;
st.global.u32 [%rd1], 1;
FENCE;
atom.relaxed.gpu.global.exch.b32 %r3, [%rd1+4], 1;
bra $end;
$takes:
atom.relaxed.gpu.global.add.u32 %r3, [%rd1+4], 0;
setp.ne.u32 %p1, %r3, 1;
@%p1 bra $takes;
FENCE;
ld.global.u32 %r3, [%rd1];
st.global.u32 [%rd1+8], %r3;
$end:
ret;
}
"""


def of(kernel: Any, grid: int, block: int, *arguments: Any) -> Callable[[], Callable[[], Any]]:
    def begin() -> Callable[[], Any]:
        given = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
        return lambda: wsemu.check(kernel, grid, block, given)

    return begin


def passed(fence: str, ctas: int) -> Callable[[], Callable[[], Any]]:
    def begin() -> Callable[[], Any]:
        kernel = wsemu.load_ptx(PASS.replace("FENCE", fence))["k"]
        return lambda: wsemu.check(kernel, ctas, 32, (np.zeros(4, np.uint32),))

    return begin


def ones(*shape: int) -> Any:
    return np.ones(shape, np.float32)


N = 1 << 16
LAUNCHES = {
    "tiny": (of(tiny, 1, 32, ones(32)), 200),
    "saxpy": (of(saxpy, N // 256, 256, np.float32(2), ones(N), ones(N)), 20),
    "stencil": (of(stencil, N // 128, 128, ones(N), ones(N)), 10),
    "sgemv": (of(sgemv, 64, 128, ones(64, 256), ones(256), ones(64)), 10),
    "message, acq_rel": (passed("fence.acq_rel.gpu", 2), 20),
    "message, sc": (passed("fence.sc.gpu", 2), 20),
    "message, sc, 4 CTAs": (passed("fence.sc.gpu", 4), 20),
}
