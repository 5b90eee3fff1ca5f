"""Random kernels whose CTAs do the same to shared memory again and again between barriers of all their warps, but for
what now and then comes between: another access or none, another order, a barrier of some warps, an exchange of lanes,
a fence, an atomic, a warp that exits, a barrier that is left out.
"""

from __future__ import annotations

import random

from tests.properties.loop_programs import LoopProgram, loaded

__all__ = ["loaded", "program"]

ROWS = 9
"""of 32 elements, in each half of the tile"""
_TYPES = ("np.float32", "np.float32", "np.int32", "np.int32", "np.int64", "np.float64", "np.int16")


def _row(draw: random.Random, warps: int) -> str:
    """A row that a warp reads, of those that warps have written."""
    return draw.choice((
        "w", f"(w + {draw.randrange(1, 4)}) % {warps}", f"{warps - 1} - w", str(draw.randrange(warps)),
        f"(w + r) % {warps}", "(w ^ 1)",
    ))  # fmt: skip


def _column(draw: random.Random) -> str:
    return draw.choice(("l", "l", "l", "l", "(31 - l)", "(l ^ w)", "(l ^ 5)", "l // 2 * 2", "7"))


def _store(draw: random.Random, half: str) -> list[str]:
    if draw.random() < 0.15:
        return [f"if {draw.choice(('l < 8', 'l % 2 == 1', 'l > 15'))}:", f"    s[{half} + 32 * w + l] = r"]
    column = draw.choice(("l", "l", "l", "(31 - l)", "(l ^ w)"))
    return [f"s[{half} + 32 * w + {column}] = {draw.choice(('v', 'r', 'l', 'x[t + r]'))}"]


def _load(draw: random.Random, half: str, warps: int) -> list[str]:
    if draw.random() < 0.2:
        return [
            f"if {draw.choice(('l < 4', 'l < 8', 'l < 16', 'l % 2 == 0', 'l > 20', 'l % 8 < 3'))}:",
            f"    v += s[{half} + 32 * {_row(draw, warps)} + l]",
        ]
    return [f"v += s[{half} + 32 * {_row(draw, warps)} + {_column(draw)}]"]


def _event(draw: random.Random, half: str, warps: int) -> list[str]:
    """What happens beside accesses that are as the last time."""
    row, some = draw.randrange(warps + 1), draw.randrange(1, 32)
    return draw.choice((
        [f"v += s[{half} + 32 * {row} + l]"], [f"s[{half} + 32 * {row} + l] = r"],
        [f"if w == {row % warps}:", f"    v += s[{half} + 32 * {draw.randrange(warps)} + l]"],
        [f"if w == {row % warps}:", f"    s[{half} + 32 * {draw.randrange(warps + 1)} + l] = 5"],
        [f"if l < {some}:", f"    v += s[{half} + 32 * w + l]"],
        [f"if l == {some}:", f"    s[{half} + 32 * w + l] = 9"],
        ["cuda.syncwarp()"], ["v += cuda.shfl_sync(0xFFFFFFFF, l, 3)"], ["cuda.threadfence_block()"],
        [f"if w < {max(1, warps - 1)}:", f"    ptx.bar_sync(1, {32 * max(1, warps - 1)})"],
        ["if w == 0:", f"    ptx.barrier_arrive(2, {32 * warps})", "else:", f"    ptx.barrier_sync(2, {32 * warps})"],
        [f"cuda.atomic.add(c, {draw.randrange(2)}, 1)"], ["cuda.syncthreads()"], ["v += y[t]"],
        [f"v += s[{half} + 32 * {ROWS - 1} + l]"], [f"s[{half} + x[t] * 8 + l % 8] = 1"],
        [f"v += s[{half} + 32 * w + (x[t] * 9 + l) % 32]"], [f"v += s[{half} + 32 * w + l + {draw.choice((1, 600))}]"],
        [f"if w == {warps - 1}:", "    break"], [f"if l > {some}:", "    return"],
    ))  # fmt: skip


def _when(draw: random.Random, warps: int) -> str:
    return draw.choice((
        f"r == {draw.randrange(3, 8 * warps)}", f"r % {draw.choice((3, 5, 7))} == 2", f"x[r] == {draw.randrange(4)}",
        f"b == 1 and r == {draw.randrange(2, 9)}", f"b == {draw.randrange(2)}", f"r > {draw.randrange(2, 20)}",
    ))  # fmt: skip


def program(seed: int) -> LoopProgram:
    """A random program; its arguments are those of `loop_programs`."""
    draw = random.Random(seed)
    warps = draw.choice((1, 2, 3, 4))
    half = draw.choice(("0", f"r % 2 * {32 * ROWS}", f"(r + w) % 2 * {32 * ROWS}", "0"))
    body: list[str] = []
    for _ in range(draw.choice((1, 1, 2))):
        missing = draw.random() < 0.1
        stores = [_store(draw, half) for _ in range(draw.choice((1, 1, 2)))]
        for phase in (stores, [_load(draw, half, warps) for _ in range(draw.randrange(1, 5))]):
            for lines in phase:
                body += lines
                if draw.random() < 0.1:
                    body += [f"if {_when(draw, warps)}:", *(f"    {one}" for one in _event(draw, half, warps))]
            if missing and draw.random() < 0.5:
                body += [f"if not ({_when(draw, warps)}):", "    cuda.syncthreads()"]
            else:
                body.append("cuda.syncthreads()")
    if draw.random() < 0.5:
        body.append("y[1024 + (b * 64 + r) * 128 % 3000 + t] = v")
    lines = [
        f"s = cuda.shared.array({64 * ROWS}, {draw.choice(_TYPES)})",
        "c = cuda.shared.array(2, np.int32)",
        "t, b = cuda.threadIdx.x, cuda.blockIdx.x",
        "w, l = t // 32, t % 32",
        "v = l % 5",
        *(["for q in range(n % 5):", "    v += q"] if draw.random() < 0.3 else []),
    ]
    if draw.random() < 0.7:  # all of it is written
        lines += [f"for q in range({2 * ROWS}):", "    if w == 0:", "        s[32 * q + l] = q", "cuda.syncthreads()"]
    lines += [f"for r in range(n * {2 * warps + draw.randrange(3)}):", *(f"    {line}" for line in body)]
    lines += ["y[4096 + b * 128 + t] = v"]
    source = "\n\n@cuda.jit\ndef k(n, x, z, y, m, a):\n" + "".join(f"    {line}\n" for line in lines)
    return LoopProgram(source, 32 * warps, draw.choice((1, 2, 3)))
