"""Random kernels with an mbarrier among the rows that their warps read and write, converged or diverged.  Some of these
accesses touch bytes of the mbarrier, while it is live, before, or after."""

from __future__ import annotations

import random

from tests.properties.loop_programs import LoopProgram, loaded
from tests.properties.row_programs import ROWS, few, place

__all__ = ["loaded", "program"]

_WORDS = 32 * ROWS + 32


def _access(draw: random.Random) -> list[str]:
    index = few(draw) if draw.random() < 0.3 else place(draw)
    kind = draw.random()
    if kind < 0.15:
        first = f"4 * l + {4 * draw.randrange(20)}"
        return [f"ptx.st_v4(s, {first}, (v, v, v, v))"] if kind < 0.07 else [f"e, f, g, h = ptx.ld_v4(s, {first})"]
    if kind < 0.25:
        return [f"cuda.atomic.add(s, {index}, 1)"]
    return [f"s[{index}] = {draw.choice(('v', 'r', '7'))}" if kind < 0.6 else f"v += s[{index}]"]


def program(seed: int) -> LoopProgram:
    """Return a random program; its arguments are those of `loop_programs`."""
    draw = random.Random(seed)
    warps, at = draw.choice((1, 2, 2, 3)), draw.choice((0, 3, 20, 60, 97))
    far = draw.random() < 0.4
    body: list[str] = []
    for _ in range(draw.randrange(2, 7)):
        lines = _access(draw)
        if far:  # after the rows around the mbarrier
            lines = [line.replace("s[", f"s[{_WORDS} + ").replace("(s, ", f"(s, {_WORDS} + ") for line in lines]
        which = draw.choice(("", "", f"if w == {draw.randrange(warps)}:", "if l < 9:", "if r == 1:"))
        body += [which, *(f"    {line}" for line in lines)] if which else lines
        if draw.random() < 0.4:
            body.append("cuda.syncthreads()")
    body += [f"ptx.mbarrier_arrive(full, {at})", f"ptx.mbarrier_wait_parity(full, {at}, r & 1)"]
    before = _access(draw) if draw.random() < 0.3 else []
    head = [
        "full = cuda.shared.array(0, np.uint64)",
        "s = cuda.shared.array(0, np.int32)",
        "t, b = cuda.threadIdx.x, cuda.blockIdx.x",
        "w, l = t // 32, t % 32",
        "v, r = 1, 0",
        f"for q in range({2 * ROWS + 2}):",
        f"    if w == q % {warps}:",
        "        s[32 * q + l] = q",
        *before,
        "cuda.syncthreads()",
        "if t == 0:",
        f"    ptx.mbarrier_init(full, {at}, {32 * warps})",
        "cuda.syncthreads()",
    ]
    loop = ["for r in range(n):", *(f"    {line}" for line in body)]
    ends = ["cuda.syncthreads()", "if t == 0:", f"    ptx.mbarrier_inval(full, {at})", "cuda.syncthreads()"]
    tail = [*ends, *_access(draw)] if draw.random() < 0.4 else []
    source = "\n\n@cuda.jit\ndef k(n, x, z, y, m, a):\n" + "".join(
        f"    {line}\n" for line in (*head, *loop, *tail, "y[b * 128 + t] = v")
    )
    return LoopProgram(source, 32 * warps, draw.choice((1, 2)), dynamic_shared=8 * _WORDS)
