"""Random kernels in which lanes part and meet again a few instructions on: one side or two, which load, store and
compute; conditions of the lane, of data, of the iteration, so that all of a warp, none or some are on a side; indices
that only lie inside for lanes that have them.
"""

from __future__ import annotations

import random

from tests.properties.loop_programs import LoopProgram, loaded
from tests.properties.row_programs import ROWS

__all__ = ["loaded", "program"]

_TYPES = ("np.int32", "np.int32", "np.float32", "np.float32", "np.int64", "np.int16")


def _condition(draw: random.Random) -> str:
    first = draw.randrange(32)
    return draw.choice((
        f"l < {draw.choice((1, 4, 8, 16, 31, 32))}", f"l >= {draw.choice((8, 24, 31))}",
        f"{first} <= l < {draw.randrange(first, 33)}", f"l % {draw.choice((2, 3))} == 0",
        f"t < {draw.choice((20, 40))}", f"l < 8 + r * {draw.choice((0, 4, 8))}", f"x[t] > {draw.randrange(3)}",
        f"w == l // {draw.choice((4, 8))}",
        f"v > {draw.randrange(6)}", "l < n * 8",
    ))  # fmt: skip


def _place(draw: random.Random, *, own: bool) -> str:
    """An index of the tile; `own`: of a row that no other warp touches."""
    if own:
        return f"32 * w + {draw.choice(('l', 'l', '(l + 1) % 32', '(l ^ 1)'))}"
    row = draw.choice(("w", "w", f"(w + {draw.randrange(3)}) % {ROWS - 1}", str(draw.randrange(ROWS - 1)), "r % 3"))
    moved = draw.choice((0, 0, 0, 1, -1, 4, 8, 31))
    column = draw.choice(("l", "l", "l", "l", "(l ^ 1)", "(31 - l)", "l // 2", "5", "l * 4"))
    return f"32 * ({row}) + {column} + {moved}"


def _statement(draw: random.Random, *, own: bool) -> list[str]:
    kind = draw.random()
    if kind < 0.3:
        return [f"s[{'32 * w + l' if own else _place(draw, own=False)}] = {draw.choice(('v', 'r', 'l', '7'))}"]
    if kind < 0.6:
        return [f"v += s[{_place(draw, own=own)}]"]
    place = f"b * 64 + {'t' if own else draw.choice(('t', 't', 't + 3', 't ^ 1', 'l'))}"
    return draw.choice((
        [f"v += x[{draw.choice(('t', 't + r', 't * 2', '3', '16 * x[t] + l'))} % 256]"], [f"y[{place}] = v"],
        [f"v += y[{place}]"], [f"v = v * {draw.randrange(2, 5)} + l"], ["u = v % 7 + r", "v += u"],
        [f"s[32 * {ROWS} + 16 + l] = v"], [f"v += s[32 * {ROWS} + 16 + l]"],
    ))  # fmt: skip


def _branch(draw: random.Random, *, own: bool) -> list[str]:
    side = [line for _ in range(draw.randrange(1, 4)) for line in _statement(draw, own=own)]
    lines = [f"if {_condition(draw)}:", *(f"    {line}" for line in side)]
    if draw.random() < 0.35:
        other = [line for _ in range(draw.randrange(1, 3)) for line in _statement(draw, own=own)]
        lines += ["else:", *(f"    {line}" for line in other)]
    return lines


def program(seed: int) -> LoopProgram:
    """A random program; its arguments are those of `loop_programs`."""
    draw = random.Random(seed)
    warps, often, own = draw.choice((1, 2, 2, 3)), draw.choice((0.4, 1.0, 1.0)), draw.random() < 0.5
    body: list[str] = []
    for _ in range(draw.randrange(2, 7)):
        body += _branch(draw, own=own) if draw.random() < 0.7 else _statement(draw, own=own)
        if own:
            body.append("cuda.syncwarp()")
        if draw.random() < often:
            body.append("cuda.syncthreads()")
    head = [
        f"s = cuda.shared.array({32 * ROWS + 32}, {draw.choice(_TYPES)}, 16)",
        "t, b = cuda.threadIdx.x, cuda.blockIdx.x",
        "w, l = t // 32, t % 32",
        "v = l % 5",
    ]
    if draw.random() < 0.8:  # all of it is written
        head += [f"for q in range({ROWS + 1}):", "    if w == 0:", "        s[32 * q + l] = q", "cuda.syncthreads()"]
    lines = [*head, "for r in range(n):", *(f"    {line}" for line in body), "y[1024 + b * 128 + t] = v"]
    source = "\n\n@cuda.jit\ndef k(n, x, z, y, m, a):\n" + "".join(f"    {line}\n" for line in lines)
    return LoopProgram(source, 32 * warps, 1 if own else draw.choice((1, 2)))
