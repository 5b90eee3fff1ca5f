"""Random kernels whose CTAs are symmetric, or nearly: positions that depend on the CTA, guards for some CTAs, strided
loops.

The report of `--corners` on some of their CTAs is compared with a launch of all.
"""

from __future__ import annotations

import random
from typing import Any

import wsemu
from tests.properties.loop_programs import LoopProgram

_PLACES = (
    "who * 32 + lane", "who * 32 + lane", "(who * 3 + k) * 32 + lane", "(k * whos + who) * 32 + lane",
    "who // 2 * 64 + t", "(who % 4) * 32 + lane", "(whos - 1 - who) * 32 + lane", "who * 16 + lane",
    "who * 40 + lane",
    "k * 32 + lane + (cta > 3) * 64 + who * 128", "min(who, 9) * 32 + lane", "t + cta * 64 + k * 2000",
    "who * 32 + lane if cta < 11 else 9000 + who * 32 + lane", "(who ^ 1) * 32 + lane", "(who + 1) * 32 + lane",
    "(who + 6) * 32 + lane", "(who + 6) * 32 + lane", "who * 32 + lane + n * 64", "who * 32 + lane + k * 192",
)  # fmt: skip
_GUARDS = (
    "cta < 9", "cta > 0", "cta % 2 == 0", "(cta + 1) * 64 < n * 100", "t < cta", "cta == 5", "k < cta", "x[t] > 9",
    "t == 0",
)  # fmt: skip
_HEADS = (
    "for k in range(n):", "for k in range(2):", "if True:", "for k in range(cta, n * 9, cuda.gridDim.x):",
    "for k in range(min(cta, 3)):", "if cta < 9:", "if t < 40:",
)  # fmt: skip


def program(seed: int) -> LoopProgram:
    """Return a random program."""
    draw = random.Random(seed)
    body: list[str] = []
    for _ in range(draw.randint(1, 3)):
        lines = _statement(draw)
        body += [f"if {draw.choice(_GUARDS)}:", *(f"    {line}" for line in lines)] if draw.random() < 0.3 else lines
    lines = [
        "tile = cuda.shared.array((4, 64), np.int32)", "t = cuda.threadIdx.x", "lane = t % 32", "warp = t // 32",
        "cta = cuda.blockIdx.x", "who = warp + cta * 2", "whos = cuda.gridDim.x * 2", "s = t", "k = 0",
        "own = cuda.local.array(8, np.int32)", "own[3] = t",
        "tile[0, t] = t", "tile[1, t] = t", "cuda.syncthreads()",
        draw.choice(_HEADS), *(f"    {line}" for line in body),
    ]  # fmt: skip
    source = "\n\n@cuda.jit\ndef k(n, x, z, y, m, a):\n" + "".join(f"    {line}\n" for line in lines)
    return LoopProgram(source, 64, draw.choice((5, 12, 23, 40)))


def _statement(draw: random.Random) -> list[str]:
    place = draw.choice(_PLACES)
    return draw.choice((
        [f"y[{place}] = s"], [f"s += x[{place}]"], [f"s += y[{place}]"], [f"x[{place}] = k"], ["tile[k % 2, t] = s"],
        ["cuda.syncthreads()"], [f"s += tile[k % 2, {draw.choice(('t', '63 - t', '(t + cta) % 64'))}]"],
        ["tile[2, t] = k", "cuda.syncthreads()", "s += tile[2, 63 - t]", "cuda.syncthreads()"],
        [f"own[{draw.choice(('k & 7', 'cta & 7', 'cta', '3'))}] = s"],
        [f"s += cuda.shfl_sync(0xffffffff, s, {draw.choice(('cta', 'cta % 32', '5', 'cta + lane'))})"],
        [f"cuda.syncwarp({draw.choice(('0xffffffff', '-1 - (cta >> 3)', '-1 - (cta & 1) * 0'))})"],
    ))  # fmt: skip


def tried(made: LoopProgram, kernel: Any) -> tuple[str, str]:
    """Return (outcome, contradiction): the program is decided from some CTAs, and by all of them."""
    some, everything = made.arguments(4), made.arguments(4)
    report = wsemu.check(kernel, made.grid, made.threads, some, corners=True, budget=300_000)
    whole = wsemu.check(kernel, made.grid, made.threads, everything, budget=300_000)
    if " CTAs" in report.proof:
        return "decided from some CTAs", "" if whole.verdict == "verified" else f"all CTAs: {whole.verdict} {whole}"
    same = report.verdict == whole.verdict and all(
        (a == b).all() for a, b in zip(some[1:4], everything[1:4], strict=True)
    )
    return f"{whole.verdict}, all CTAs run", "" if same else f"{report.verdict} with corners, {whole.verdict} without"
