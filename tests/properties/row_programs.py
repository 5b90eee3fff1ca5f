"""Random kernels whose warps read and write rows of an array side by side, moved by some elements, or each lane a place
of its own; between some of these accesses some of the warps meet.

Of the cells that an access touches some were last touched by one warp, some by another, in this interval or earlier
ones: whether each of them is known decides, and most programs have a race somewhere.
"""

from __future__ import annotations

import random

from tests.properties.loop_programs import LoopProgram, loaded

__all__ = ["ROWS", "few", "loaded", "place", "program"]

ROWS = 6
"""of 32 elements, in shared memory"""
_TYPES = ("np.int32", "np.int32", "np.int32", "np.int64", "np.int16", "np.uint8")


def _column(draw: random.Random) -> str:
    """Which element of 32 a lane has."""
    return draw.choice(
        ("l", "l", "l", f"(l ^ {draw.randrange(32)})", f"(l * {draw.choice((5, 7, 13))} & 31)", "(31 - l)")
    )


def place(draw: random.Random) -> str:
    """An index of the tile."""
    row = draw.choice(("w", "w", f"(w + {draw.randrange(3)}) % {ROWS - 1}", str(draw.randrange(ROWS - 1)), "r % 3"))
    moved = draw.choice((0, 0, 0, 1, 4, 8, 16, 31))
    return f"32 * ({row}) + {_column(draw)} + {moved}"


def few(draw: random.Random) -> str:
    """An index that several lanes share, or in which some are apart from others."""
    row, wide = draw.randrange(ROWS - 1), draw.choice((2, 4, 8, 16))
    pitch = draw.randrange(1, 12)
    return draw.choice((
        f"32 * {row} + l // 2", f"{32 * row + 5}", f"32 * {row} + l % 8", f"32 * {row} + l + (l // 16) * 9",
        f"{row} + l % {wide} + l // {wide} * {pitch}", f"{row} + (t % {wide}) * {pitch} + (l // {wide} | {row})",
    ))  # fmt: skip


def _access(draw: random.Random) -> list[str]:
    kind = draw.random()
    if kind < 0.12:
        first = f"32 * (w % {ROWS - 4}) + 4 * l"  # four rows
        if draw.random() < 0.5:
            return [f"ptx.st_v4(s, {first}, (v, v, v, v))"]
        return [f"e, f, g, h = ptx.ld_v4(s, {first})", "v += e + f + g + h"]
    index = few(draw) if kind < 0.2 else place(draw)
    if kind > 0.85:
        index = f"b * 64 + {draw.choice(('t', 't', 't + 3', 't ^ 1', '(t ^ 32)'))}"
        return [f"y[{index}] = v" if draw.random() < 0.5 else f"v += y[{index}]"]
    return [f"s[{index}] = {draw.choice(('v', 'r', '7'))}" if draw.random() < 0.45 else f"v += s[{index}]"]


def _meeting(draw: random.Random, warps: int) -> list[str]:
    some = draw.randrange(1, warps + 1)
    if draw.random() < 0.7:
        return ["cuda.syncthreads()"]
    if some == 1:
        return ["cuda.syncwarp()"]
    return [f"if w < {some}:", f"    ptx.bar_sync({draw.randrange(1, 4)}, {32 * some})"]


def _by_some(draw: random.Random, warps: int, lines: list[str]) -> list[str]:
    which = draw.choice(("", "", f"w == {draw.randrange(warps)}", f"w < {draw.randrange(1, warps + 1)}", "w % 2 == 1"))
    return [f"if {which}:", *(f"    {line}" for line in lines)] if which else lines


def program(seed: int) -> LoopProgram:
    """A random program; its arguments are those of `loop_programs`."""
    draw = random.Random(seed)
    warps, type_ = draw.choice((2, 2, 3, 4)), draw.choice(_TYPES)
    vectors = type_ == "np.int32"
    body: list[str] = []
    often = draw.choice((0.3, 0.7, 1.0))
    for _ in range(draw.randrange(4, 10)):
        lines = _access(draw)
        while not vectors and "_v4" in lines[0]:
            lines = _access(draw)
        body += _by_some(draw, warps, lines)
        if draw.random() < often:
            body += ["cuda.syncthreads()"] if often == 1 else _meeting(draw, warps)
    head = [
        f"s = cuda.shared.array({32 * ROWS + 32}, {type_}, 16)",
        "t, b = cuda.threadIdx.x, cuda.blockIdx.x",
        "w, l = t // 32, t % 32",
        "v = 1",
    ]
    if draw.random() < 0.8:  # all of it is written
        head += [
            f"for q in range({ROWS + 1}):",
            "    if w == q % 2:",
            "        s[32 * q + l] = q",
            "cuda.syncthreads()",
        ]
    loop = ["for r in range(n):", *(f"    {line}" for line in body)]
    source = "\n\n@cuda.jit\ndef k(n, x, z, y, m, a):\n" + "".join(
        f"    {line}\n" for line in (*head, *loop, "y[1024 + b * 128 + t] = v")
    )
    return LoopProgram(source, 32 * warps, draw.choice((1, 2)))
