"""Reductions, scans, transposes, histograms, what lanes tell each other."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ptx.expected.arithmetic import fma, fma_64
from tests.ptx.expected.barriers import integers, random
from tests.ptx.expected.case import Out, case

f32 = np.float32
i32 = np.int32
u32 = np.uint32
LANES = np.arange(32)


def tree(values: Any) -> Any:
    """Sums of the last axis, halves added to each other until one is left."""
    while values.shape[-1] > 1:
        half = values.shape[-1] // 2
        values = values[..., :half] + values[..., half:]
    return values[..., 0]


# -- reduction.cu ----------------------------------------------------------------------------------------------------
@case("reduction", "tree_sum", 3, 256)
def tree_sum() -> list[Any]:
    x = random(20, 700)
    padded = np.zeros(768, f32)
    padded[:700] = x
    return [x, Out(tree(padded.reshape(3, 256))), i32(700)]


@case("reduction", "shuffle_sum", 2, 96)
def shuffle_sum() -> list[Any]:
    x = random(21, 1000)
    padded = np.zeros((6, 192), f32)
    padded.reshape(-1)[:1000] = x
    sums = np.zeros(192, f32)
    for row in padded:
        sums = sums + row
    warps = np.zeros((2, 32), f32)
    warps[:, :3] = tree(sums.reshape(2, 3, 32))
    return [x, Out(tree(warps)), i32(1000)]


@case("reduction", "butterfly_max", 1, 64)
def butterfly_max() -> list[Any]:
    x = integers(22, 64) - 500
    return [x, Out(np.repeat(x.reshape(8, 8).max(1), 8))]


@case("reduction", "atomic_sums", 3, 64)
def atomic_sums() -> list[Any]:
    x = integers(23, 150, high=1 << 20)
    wide = np.array([x.astype(np.uint64).sum() << np.uint64(20)], np.uint64)
    bits = [np.bitwise_xor.reduce(x), np.bitwise_or.reduce(x & 0x0F0F), np.bitwise_and.reduce(x | 0xFF), x.max()]
    return [
        x,
        Out(np.array([x.sum()], i32), 0),
        Out(np.array([x.min()], u32), 0xFFFFFFFF),
        Out(wide, 0),
        Out(np.array(bits, u32), np.array([0, 0, 0xFFFFFFFF, 0x80000000], u32)),
        i32(150),
    ]


@case("reduction", "argmin", 2, 64)
def argmin() -> list[Any]:
    x = integers(24, 300, high=50, dtype=u32)
    return [x, Out(np.full(2, int(x.min()) << 32 | int(x.argmin()), np.uint64)), i32(300)]


@case("reduction", "dot", 1, 64, shared=64 * 8)
def dot() -> list[Any]:
    rng = np.random.default_rng(25)
    x, y = rng.standard_normal(200), rng.standard_normal(200)
    sums = np.zeros(64)
    for first in range(0, 200, 64):
        n = len(x[first : first + 64])
        sums[:n] = fma_64(x[first : first + n], y[first : first + n], sums[:n])
    return [x, y, Out(np.array([tree(sums)])), i32(200)]


@case("reduction", "counting_barriers", 3, 96)
def counting_barriers() -> list[Any]:
    x = integers(26, 3, 96)
    x[1, 50] = 1200
    x[2, 7] = 77
    x[:2][x[:2] == 77] = 78
    rows = [((row % 2 == 0).sum(), (row < 1000).all(), (row == 77).any()) for row in x]
    return [x, Out(np.array(rows, i32))]


@case("reduction", "moments", 2, 32)
def moments() -> list[Any]:
    x = random(27, 2, 32)
    count, mean, squares = np.ones((2, 32), f32), x, np.zeros((2, 32), f32)
    for offset in (1, 2, 4, 8, 16):
        down = np.where(LANES + offset < 32, LANES + offset, LANES)
        other = count[:, down], mean[:, down], squares[:, down]
        total = count + other[0]
        delta = other[1] - mean
        share = other[0] / total
        squares = fma(delta * delta * count, share, squares + other[2])
        mean = fma(delta, share, mean)
        count = total
    return [x, Out(np.stack([mean[:, 0], squares[:, 0] / count[:, 0]], 1))]


# -- scan.cu ---------------------------------------------------------------------------------------------------------
@case("scan", "inclusive_scan", 2, 128)
def inclusive_scan() -> list[Any]:
    x = integers(30, 2, 128) - 300
    return [x, Out(np.cumsum(x, 1, dtype=i32))]


@case("scan", "exclusive_scan", 1, 64, shared=512)
def exclusive_scan() -> list[Any]:
    x = integers(31, 128, high=1 << 30, dtype=u32)
    sums = np.cumsum(x, dtype=u32)
    return [x, Out(sums - x), Out(sums[-1:])]


def _warp_scan(values: Any) -> Any:
    """Inclusive sums of the last axis in the order of shuffles."""
    step = 1
    while step < 32:
        left = np.zeros_like(values)
        left[..., step:] = values[..., :-step]
        values = np.where(np.arange(32) >= step, values + left, values)
        step *= 2
    return values


def _block_scan(x: Any) -> list[Any]:
    values = _warp_scan(x.reshape(-1, 32))
    sums = np.zeros(32, x.dtype)
    sums[: len(values)] = values[:, -1]
    sums = _warp_scan(sums)
    values[1:] += sums[: len(values) - 1, None]
    return [x, Out(values.reshape(-1))]


@case("scan", "block_scan<float>", 1, 160)
def block_scan_f32() -> list[Any]:
    return _block_scan(random(32, 160))


@case("scan", "block_scan<long long>", 1, 96)
def block_scan_i64() -> list[Any]:
    return _block_scan(np.random.default_rng(33).integers(-(1 << 60), 1 << 60, 96))


@case("scan", "block_scan<double>", 1, 256)
def block_scan_f64() -> list[Any]:
    return _block_scan(np.random.default_rng(34).standard_normal(256))


@case("scan", "segmented_scan", 1, 64)
def segmented_scan() -> list[Any]:
    rng = np.random.default_rng(35)
    x = np.stack([rng.random(64) < 0.2, rng.integers(0, 100, 64)], 1).astype(i32)
    y: list[int] = []
    for t, (head, value) in enumerate(x.tolist()):
        y.append(value if head or t % 32 == 0 else y[-1] + value)
    return [x, Out(np.array(y, i32))]


@case("scan", "compact", 1, 256)
def compact() -> list[Any]:
    x = integers(36, 256)
    kept = x[x % 2 == 1]
    y = np.full(256, -1, i32)
    y[: len(kept)] = kept
    return [x, Out(y, -1), Out(np.array([len(kept)], i32))]


# -- transpose.cu ----------------------------------------------------------------------------------------------------
@case("transpose", "transpose_naive", (2, 2), (32, 8), warnings=("uncoalesced",))
def transpose_naive() -> list[Any]:
    x = random(40, 50, 60)
    return [x, Out(x.T), i32(60), i32(50)]


@case("transpose", "transpose_tile<float, 0>", (2, 2), (32, 8), warnings=("bank-conflict",))
def transpose_tile() -> list[Any]:
    x = random(41, 64, 64)
    return [x, Out(x.T), i32(64), i32(64)]


@case("transpose", "transpose_tile<float, 1>", (2, 3), (32, 8))
def transpose_padded() -> list[Any]:
    x = random(42, 96, 64)
    return [x, Out(x.T), i32(64), i32(96)]


@case("transpose", "transpose_tile<double, 1>", (2, 1), (32, 8))
def transpose_double() -> list[Any]:
    x = np.random.default_rng(43).standard_normal((32, 64))
    return [x, Out(x.T), i32(64), i32(32)]


@case("transpose", "transpose_tile<unsigned char, 4>", (1, 2), (32, 8))
def transpose_bytes() -> list[Any]:
    x = integers(44, 64, 32, high=256, dtype=np.uint8)
    return [x, Out(x.T), i32(32), i32(64)]


@case("transpose", "transpose_swizzled", 1, (32, 8))
def transpose_swizzled() -> list[Any]:
    x = integers(45, 32, 32)
    return [x, Out(x.T)]


@case("transpose", "transpose_registers", (1, 2), (8, 4))
def transpose_registers() -> list[Any]:
    x = random(46, 32, 32)
    return [x, Out(x.T), i32(32)]


# -- histogram.cu ----------------------------------------------------------------------------------------------------
@case("histogram", "shared_bins", 2, 128)
def shared_bins() -> list[Any]:
    x = integers(50, 1000, high=256, dtype=np.uint8)
    return [x, Out(np.bincount(x, minlength=256).astype(u32), 0), i32(1000)]


@case("histogram", "private_bins", 1, 64)
def private_bins() -> list[Any]:
    x = integers(51, 900, high=256, dtype=np.uint8)
    return [x, Out(np.bincount(x >> 4, minlength=16).astype(i32)), i32(900)]


@case("histogram", "weighted", 2, 64)
def weighted() -> list[Any]:
    key = integers(52, 128, dtype=u32)
    weight = np.random.default_rng(53).integers(-(1 << 62), 1 << 62, 128)
    sums, largest = np.zeros(8, np.int64), np.full(8, np.iinfo(np.int64).min)
    np.add.at(sums, key % 8, weight)
    np.maximum.at(largest, key % 8, weight)
    return [key, weight, Out(sums.view(np.uint64), 0), Out(largest, np.iinfo(np.int64).min)]


@case("histogram", "matched", 2, 96)
def matched() -> list[Any]:
    key = integers(54, 192, high=7, dtype=u32)
    return [key, Out(np.bincount(key, minlength=7).astype(u32), 0)]


@case("histogram", "float_sums", 2, 64)
def float_sums() -> list[Any]:
    x = integers(55, 100).astype(f32) / f32(4)
    return [x, Out(np.array([x[:64].sum(), x[64:].sum()], f32)), Out(np.array([x.sum()], np.float64), 0), i32(100)]


@case("histogram", "swap_max", 1, 96, verdict="incomplete")
def swap_max() -> list[Any]:
    x = np.abs(random(56, 96))
    return [x, Out(x.max().reshape(1).view(u32), 0)]


# -- warps.cu --------------------------------------------------------------------------------------------------------
@case("warps", "shuffles", 1, 32)
def shuffles() -> list[Any]:
    x = integers(60, 32)
    up = np.where(LANES % 16 >= 3, LANES - 3, LANES)
    down = np.where(LANES + 7 < 32, LANES + 7, LANES)
    chosen = LANES // 16 * 16 + x[::-1] % 32 % 16
    sources = [(LANES * 5 + 3) % 32, LANES // 8 * 8 + 2, up, down, LANES ^ 21, chosen]
    return [x, Out(np.stack([x[k] for k in sources], 1))]


@case("warps", "wide_shuffles", 1, 32)
def wide_shuffles() -> list[Any]:
    x = np.random.default_rng(61).standard_normal(32)
    k = np.random.default_rng(62).integers(-(1 << 62), 1 << 62, 32)
    down, up = np.where(LANES + 4 < 32, LANES + 4, LANES), np.maximum(LANES - 1, 0)
    return [x, k, Out(x[LANES ^ 1] - x[down]), Out(k[up] ^ k[9])]


def _mask(lanes: Any) -> int:
    return sum(1 << int(lane) for lane in lanes)


@case("warps", "votes", 1, 64, verdict="incomplete")  # it stores which lanes are active
def votes() -> list[Any]:
    x = integers(63, 2, 32, high=9)
    x[1, 11:13] = 9, 12
    y = np.zeros((2, 32, 8), u32)
    third = LANES[::3]
    for warp, values in enumerate(x):
        for lane, value in enumerate(values):
            out = y[warp, lane]
            out[0] = _mask(LANES[values > 4])
            out[1] = int((values == 9).any()) + 2 * int((values < 9).all())
            out[2] = _mask(LANES[values == value])
            out[3] = 0xFFFFFFFE if (values // 10 == value // 10).all() else 0
            if lane % 3 == 0:
                out[4] = _mask(third[values[third] % 2 == 1])
                out[5] = _mask(third[values[third] & 3 == value & 3])
                out[6] = _mask(third)
            out[7] = (1 << lane) - 1
    return [x, Out(y)]


@case("warps", "warp_reductions", 1, 32)
def warp_reductions() -> list[Any]:
    x = integers(64, 32) - 500
    y = np.zeros((32, 3), i32)
    y[:] = x.sum(), x.min(), 0
    y[:12, 2] = x[:12].max()
    z = np.zeros((32, 3), i32)
    z[:] = np.bitwise_and.reduce(x), np.bitwise_or.reduce(x), np.bitwise_xor.reduce(x)
    return [x, Out(y), Out(z.view(u32))]


@case("warps", "warp_exchange", 1, 128)
def warp_exchange() -> list[Any]:
    x = random(65, 4, 32)
    y = x
    for _ in range(3):
        y = fma(f32(0.25), np.roll(y, 1, 1), f32(0.75) * np.roll(y, -1, 1))
    return [x, Out(y), i32(3)]


@case("warps", "warp_tree", 1, 64)
def warp_tree() -> list[Any]:
    x = integers(66, 2, 32)
    own = x.copy()
    for half in (16, 8, 4, 2, 1):
        own[:, :half] += own[:, half : 2 * half]
    return [x, Out(own[:, :1] - own)]


@case("warps", "warp_sort", 1, 96)
def warp_sort() -> list[Any]:
    x = integers(67, 3, 32, high=1 << 32, dtype=u32)
    return [x, Out(np.sort(x, 1))]


@case("warps", "half_warps", 1, 32)
def half_warps() -> list[Any]:
    x = integers(68, 32)
    return [x, Out(np.repeat(np.array([x[:16].sum(), -x[16:].sum()], i32), 16))]


@case("warps", "aggregated", 2, 64, verdict="incomplete")  # by which lanes are active
def aggregated() -> list[Any]:
    x = integers(69, 4, 32) - 400
    count = (x > 0).sum(1, dtype=i32)[:, None]
    return [x, Out(np.where(x > 0, count, -1), -1), Out(np.array([(x > 0).sum()], u32), 0)]
