"""The first cure of a program with one slip computes what was meant, which nobody told the search."""

from __future__ import annotations

import runpy
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from wsemu.launch.hooks import observers

if TYPE_CHECKING:
    from pathlib import Path

    from wsemu import Report

PLENTY = 60.0
"""seconds: so that it is the number of edits that ends a search, on any machine"""
HEAD = """\
import numpy as np
from wsemu import cuda, ptx
rng = np.random.default_rng(5)
f32 = np.float32

"""
PROGRAMS = {
    "blur": """\
N, R = 32, 2

@cuda.jit
def blur(x, y):
    s = cuda.shared.array(N + 2 * R, np.float32)
    t, g = cuda.threadIdx.x, cuda.grid(1)
    s[t + R] = x[g]
    if t < R:
        s[t] = x[g - R] if g >= R else f32(0)
        s[t + N + R] = x[g + N] if g + N < x.size else f32(0)
    cuda.syncthreads()
    y[g] = s[t] + s[t + 1] + s[t + 2] + s[t + 3] + s[t + 4]

x = rng.random(3 * N, dtype=f32)
y = np.zeros_like(x)
blur[3, N](x, y)
""",
    "laplacian": """\
@cuda.jit
def laplacian(a, b):
    j, i = cuda.grid(2)
    if i >= 1 and j >= 1 and i < a.shape[0] - 1 and j < a.shape[1] - 1:
        b[i, j] = a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1] - f32(4) * a[i, j]

a = rng.random((20, 30), dtype=f32)
b = np.zeros_like(a)
laplacian[(2, 3), (16, 8)](a, b)
""",
    "box": """\
T = 8

@cuda.jit
def box(a, b):
    s = cuda.shared.array((T + 2, T + 2), np.float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    k = ty * T + tx
    while k < (T + 2) * (T + 2):
        u = k // (T + 2) - 1
        v = k % (T + 2) - 1
        inside = u >= 0 and u < a.shape[0] and v >= 0 and v < a.shape[1]
        s[k // (T + 2), k % (T + 2)] = a[u, v] if inside else f32(0)
        k += T * T
    cuda.syncthreads()
    if tx < a.shape[1]:
        b[ty, tx] = s[ty, tx] + s[ty + 1, tx + 1] + s[ty + 2, tx + 2]

a = rng.random((8, 5), dtype=f32)
b = np.zeros_like(a)
box[1, (T, T)](a, b)
""",
    "dot": """\
@cuda.jit
def dot(a, x, y):
    t = cuda.threadIdx.x
    lane, row = t % 32, cuda.blockIdx.x * 2 + t // 32
    total = f32(0)
    if row < a.shape[0]:
        for k in range(lane, a.shape[1], 32):
            total += a[row, k] * x[k]
    d = 16
    while d > 0:
        total += cuda.shfl_down_sync(0xFFFFFFFF, total, d)
        d //= 2
    if lane == 0 and row < a.shape[0]:
        y[row] = total

a = rng.random((5, 40), dtype=f32)
x = rng.random(40, dtype=f32)
y = np.zeros(5, f32)
dot[3, 64](a, x, y)
""",
    "sums": """\
@cuda.jit
def sums(x, out):
    part = cuda.shared.array(2, np.float32)
    t = cuda.threadIdx.x
    lane, warp = t % 32, t // 32
    v = x[cuda.grid(1)]
    d = 16
    while d > 0:
        v += cuda.shfl_xor_sync(0xFFFFFFFF, v, d)
        d //= 2
    if lane == 0:
        part[warp] = v
    cuda.syncthreads()
    if t == 0:
        out[cuda.blockIdx.x] = part[0] + part[1]

x = rng.random(192, dtype=f32)
out = np.zeros(3, f32)
sums[3, 64](x, out)
""",
    "bins": """\
BINS = 50

@cuda.jit
def bins(x, out):
    h = cuda.shared.array(BINS, np.int32)
    t = cuda.threadIdx.x
    for b in range(t, BINS, cuda.blockDim.x):
        h[b] = 0
    cuda.syncthreads()
    cuda.atomic.add(h, x[t], 1)
    cuda.syncthreads()
    for b in range(t, BINS, cuda.blockDim.x):
        cuda.atomic.add(out, b, h[b])

x = rng.permutation(BINS).astype(np.int32)[18:]
x[0] = BINS - 1
out = np.zeros(BINS, np.int32)
bins[1, 32](x, out)
""",
    "product": """\
T = 4

@cuda.jit
def product(a, b, c):
    i, j = cuda.threadIdx.y, cuda.threadIdx.x
    total = f32(0)
    for k in range(a.shape[1]):
        total += a[i, k] * b[k, j]
    c[i, j] = total

a = rng.random((4, 6), dtype=f32)
b = rng.random((6, 8), dtype=f32)
c = np.zeros((4, 8), f32)
product[1, (8, 4)](a, b, c)
""",
    "tiled": """\
T = 8

@cuda.jit
def tiled(a, b, c):
    sa = cuda.shared.array((T, T), np.float32)
    sb = cuda.shared.array((T, T), np.float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    x, y = cuda.grid(2)
    total = f32(0)
    for t in range(a.shape[1] // T):
        sa[ty, tx] = a[y, t * T + tx]
        sb[ty, tx] = b[t * T + ty, x]
        cuda.syncthreads()
        for k in range(T):
            total += sa[ty, k] * sb[k, tx]
        cuda.syncthreads()
    c[y, x] = total

a = rng.random((16, 24), dtype=f32)
b = rng.random((24, 32), dtype=f32)
c = np.zeros((16, 32), f32)
tiled[(4, 2), (T, T)](a, b, c)
""",
    "stride": """\
@cuda.jit
def stride(x, y, n):
    for i in range(cuda.grid(1), n, cuda.gridsize(1)):
        y[i] = f32(2) * x[i] + y[i]

x = rng.random(150, dtype=f32)
y = rng.random(150, dtype=f32)
stride[2, 32](x, y, 150)
""",
    "ring": """\
D = 3

@cuda.jit
def ring(x, y, tiles):
    buf = cuda.shared.array((D, 32), np.float32)
    t = cuda.threadIdx.x
    lane = t % 32
    if t < 32:
        for i in range(tiles):
            s = i % D
            if i >= D:
                ptx.bar_sync(1 + D + s, 64)
            buf[s, lane] = x[i * 32 + lane]
            ptx.bar_arrive(1 + s, 64)
    else:
        for i in range(tiles):
            s = i % D
            ptx.bar_sync(1 + s, 64)
            y[i * 32 + lane] = buf[s, 31 - lane]
            if i + D < tiles:
                ptx.bar_arrive(1 + D + s, 64)

x = rng.random(7 * 32, dtype=f32)
y = np.zeros_like(x)
ring[1, 64](x, y, 7)
""",
    "twins": """\
from wsemu.patterns import CudaDMASequential, block_size
N = 32
A = CudaDMASequential(1, 32, N, N, 4 * N)
B = CudaDMASequential(2, 32, N, N + 32, 4 * N)

@cuda.jit
def twins(a, b, out, tiles):
    sa = cuda.shared.array(N, np.float32)
    sb = cuda.shared.array(N, np.float32)
    t = cuda.threadIdx.x
    if t < N:
        total = f32(0)
        A.start_async_dma()
        B.start_async_dma()
        for i in range(tiles):
            A.wait_for_dma_finish()
            B.wait_for_dma_finish()
            total += sa[t] * sb[N - 1 - t]
            if i + 1 < tiles:
                A.start_async_dma()
                B.start_async_dma()
        out[t] = total
    elif A.owns_this_thread():
        for i in range(tiles):
            A.wait_for_dma_start()
            A.execute_dma_no_sync(a[i * N :], sa)
            A.finish_async_dma()
    elif B.owns_this_thread():
        for i in range(tiles):
            B.wait_for_dma_start()
            B.execute_dma_no_sync(b[i * N :], sb)
            B.finish_async_dma()

a = rng.random(4 * N, dtype=f32)
b = rng.random(4 * N, dtype=f32)
out = np.zeros(N, f32)
twins[1, block_size(A, B)](a, b, out, 4)
""",
    "stream": """\
S, N = 3, 32

@cuda.jit
def stream(x, y, tiles):
    buf = cuda.shared.array((S, N), np.float32)
    t = cuda.threadIdx.x
    for i in range(S - 1):
        ptx.cp_async_ca(buf, (i, t), x, i * N + t, 4)
        ptx.cp_async_commit_group()
    for i in range(tiles):
        ptx.cp_async_wait_group(S - 2)
        cuda.syncthreads()
        y[i * N + t] = buf[i % S, N - 1 - t]
        k = i + S - 1
        if k < tiles:
            ptx.cp_async_ca(buf, (k % S, t), x, k * N + t, 4)
        ptx.cp_async_commit_group()

x = rng.random(6 * N, dtype=f32)
y = np.zeros_like(x)
stream[1, N](x, y, 6)
""",
}
SLIPS = [
    ("blur", " if g >= R else f32(0)", ""),  # and not `g + R`, another element
    ("blur", " if g + N < x.size else f32(0)", ""),
    ("blur", "s[t + N + R] =", "s[t + N] ="),
    ("blur", "s[t + 3] + s[t + 4]", "s[t + 3] + s[t + 5]"),
    ("blur", "blur[3, N]", "blur[4, N]"),
    ("laplacian", "i >= 1 and j >= 1 and", "j >= 1 and"),
    ("laplacian", "i < a.shape[0] - 1", "i < a.shape[0]"),
    ("laplacian", "j < a.shape[1] - 1", "j <= a.shape[1] - 1"),
    ("box", "v >= 0 and v < a.shape[1]", "v < a.shape[1]"),
    ("box", "while k", "if k"),
    ("box", "k += T * T", "k += 2 * T * T"),
    ("dot", "0xFFFFFFFF", "0x0000FFFF"),
    ("dot", "if lane == 0 and row < a.shape[0]:", "if lane == 0:"),
    ("dot", "if lane == 0 and row < a.shape[0]:", "if row < a.shape[0]:"),
    ("sums", "part[warp] = v", "part[lane] = v"),
    ("sums", "out[cuda.blockIdx.x] =", "out[0] ="),
    ("bins", "cuda.shared.array(BINS,", "cuda.shared.array(32,"),
    ("bins", "cuda.atomic.add(h, x[t], 1)", "cuda.atomic.add(h, x[t] + 1, 1)"),
    ("product", "range(a.shape[1])", "range(b.shape[1])"),
    ("product", "b[k, j]", "b[k + 1, j]"),  # and not fewer rounds of the loop
    ("tiled", "sb[k, tx]", "sb[k + 1, tx]"),
    ("tiled", "b[t * T + ty, x]", "b[t * T + ty + 1, x]"),
    ("tiled", "a[y, t * T + tx]", "a[y, t * T - tx]"),
    ("tiled", "range(T)", "range(T + 1)"),  # of which the last one was all amiss
    ("dot", "x[k]", "x[k + 1]"),
    ("bins", "h[b])", "h[b + 1])"),
    ("stride", "x[i]", "x[i + 1]"),
    ("ring", "            if i >= D:\n                ptx.bar_sync(1 + D + s, 64)\n", ""),
    ("ring", "i >= D:", "i > D:"),
    ("twins", "            B.wait_for_dma_start()\n", ""),
    ("twins", "            A.finish_async_dma()\n", ""),
    ("stream", "wait_group(S - 2)", "wait_group(S - 1)"),
]


def ran(source: str, folder: Path, name: str) -> tuple[list[Report], dict[str, Any]]:
    """A program's reports, and the arrays that it has at its end."""
    file = folder / f"{name}.py"
    file.write_text(HEAD + source, encoding="utf-8")
    reports: list[Report] = []
    observers.append(reports.append)
    try:
        names = runpy.run_path(str(file))
    finally:
        observers.remove(reports.append)
    return reports, {name: value for name, value in names.items() if isinstance(value, np.ndarray)}


@pytest.mark.parametrize(("program", "right", "slip"), SLIPS)
def test_the_first_cure_of_a_slip_computes_what_was_meant(program, right, slip, tmp_path):
    source = PROGRAMS[program]
    assert right in source
    (good,), meant = ran(source, tmp_path, "right")
    assert not good.errors
    (broken,), _ = ran(source.replace(right, slip, 1), tmp_path, "broken")
    assert broken.errors
    cure = broken.cures(budget=PLENTY)[0]
    applied = cure.applied((tmp_path / "broken.py").read_text(encoding="utf-8"))
    (report,), arrays = ran(applied.removeprefix(HEAD), tmp_path, "cured")
    assert report.verdict == "verified"
    for name, value in meant.items():
        np.testing.assert_allclose(arrays[name], value, rtol=1e-5, err_msg=f"{cure.says}: {name}")
