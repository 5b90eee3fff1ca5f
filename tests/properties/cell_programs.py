"""Random kernels that mix what cells of shadow memory may hold: accesses by whole warps and by some lanes, of elements
and of vectors, to arrays of other types beside each other, to rows that CTAs share; atomics; reads by many warps;
meetings of all, of some, of those who wait with those who do not; CTAs one by one and side by side, whose last warps
may be short.

`row_programs` has fewer kinds, and more of what lies row by row.
"""

from __future__ import annotations

import random
from typing import NamedTuple

from tests.properties.loop_programs import LoopProgram, loaded
from tests.properties.row_programs import ROWS, few, place

__all__ = ["loaded", "program"]

BYTES = {"np.int32": 4, "np.int64": 8, "np.int16": 2, "np.uint8": 1, "np.float32": 4}
STYLES = ("plain", "plain", "plain", "plain", "short", "cluster", "spread", "copies")
"""`short`: warps of fewer lanes; `cluster`: CTAs that reach each other's shared memory, `spread`: that do not;
`copies`: with cp.async, so that each lane has a clock of its own"""
_NAMES = "efgh"


class _Shape(NamedTuple):
    """The properties of the kernel that is generated."""

    style: str
    warps: int
    arrays: dict[str, str]
    """shared array -> type of its elements"""


def _vector(draw: random.Random, array: str, first: str, n: int) -> list[str]:
    """Return a store or load of n consecutive elements by each lane, starting at this one."""
    if draw.random() < 0.4:
        return [f"ptx.st_v{n}({array}, {first}, ({', '.join(['w'] * n)}))"]
    names = _NAMES[:n]
    return [f"{', '.join(names)} = ptx.ld_v{n}({array}, {first})", f"v += {' + '.join(names)}"]


def _in_shared(draw: random.Random, array: str, type_: str) -> list[str]:
    kind, bytes_ = draw.random(), BYTES[type_]
    if bytes_ >= 4 and kind < 0.25:
        n = draw.choice((2, 4)) if bytes_ == 4 else 2
        row = f"32 * (w % {ROWS - n})"
        first = draw.choice((
            f"{row} + {n} * l", f"{row} + {n} * l", f"{n} * {draw.randrange(20)}",
            f"{n} * (l // {draw.choice((2, 8))})", f"{n} * (31 - l)",
        ))  # fmt: skip
        return _vector(draw, array, f"{first} + {draw.choice((0, 0, n))}", n)
    index = few(draw) if kind < 0.4 else place(draw)
    if type_ == "np.int32" and kind < 0.32:
        return [f"cuda.atomic.{draw.choice(('add', 'max', 'exch'))}({array}, {index}, r)"]
    if draw.random() < 0.45:
        return [f"{array}[{index}] = {draw.choice(('w', 'r', '7'))}"]
    return [f"v += {array}[{index}]"]


def _in_global(draw: random.Random) -> list[str]:
    base, kind = draw.choice(("b * 512", "b * 512", "0")), draw.random()
    if kind < 0.25:
        n = draw.choice((2, 4))
        return _vector(draw, "y", f"{base} + {n} * {draw.choice(('t', 't', 'l', '5', '(t ^ 1)'))} + {n}", n)
    lane = draw.choice(("t", "t", "l", "32 * r + l", "(t ^ 1)", "(t ^ 32)", "t // 2", "3"))
    index = f"{base} + {lane} + {draw.choice((0, 0, 1, 3, 8))}"
    if kind < 0.35:
        return [f"cuda.atomic.add(y, {index}, 1)"]
    if kind < 0.5:
        return [f"v += x[{index}]"]
    return [f"y[{index}] = w" if draw.random() < 0.4 else f"v += y[{index}]"]


def _copy(draw: random.Random, type_: str) -> list[str]:
    waits = draw.choice((["ptx.cp_async_wait_all()"], ["ptx.cp_async_wait_all()", "cuda.syncthreads()"]))
    return ["ptx.cp_async_ca(s, 32 * w + l, x, t, 4)"] if type_ == "np.int32" and draw.random() < 0.4 else waits


def _step(draw: random.Random, shape: _Shape) -> list[str]:
    kind = draw.random()
    if kind < 0.2:
        return _in_global(draw)
    if kind < 0.25:
        return [draw.choice(("own[r % 4] = v", "v += own[r % 4]"))]
    if kind < 0.3:
        halves = "cuda.syncwarp(0xffff if l < 16 else 0xffff0000)"
        return [draw.choice(("v += cuda.shfl_xor_sync(0xffffffff, v, 3)", "cuda.syncwarp()", halves))]
    if shape.style == "copies" and kind < 0.4:
        return _copy(draw, shape.arrays["s"])
    array = "far" if shape.style == "cluster" and kind > 0.85 else draw.choice(list(shape.arrays))
    return _in_shared(draw, array, shape.arrays.get(array, shape.arrays["s"]))


def _meeting(draw: random.Random, shape: _Shape) -> list[str]:
    some, kind = draw.randrange(1, shape.warps + 1), draw.random()
    if shape.style == "cluster" and kind < 0.6:
        return ["ptx.cluster_sync()"]
    if kind < 0.6:
        return ["cuda.syncthreads()"]
    if some == 1:
        return ["cuda.syncwarp()"]
    number = draw.randrange(1, 7)
    if kind < 0.8:
        return [f"if w < {some}:", f"    ptx.bar_sync({number}, {32 * some})"]
    return [
        "if w == 0:",
        f"    ptx.bar_sync({number}, {32 * some})",
        f"elif w < {some}:",
        f"    ptx.bar_arrive({number}, {32 * some})",
    ]


def _by_some(draw: random.Random, shape: _Shape, lines: list[str]) -> list[str]:
    warps = shape.warps
    which = draw.choice((
        "", "", "", f"w == {draw.randrange(warps)}", f"w < {draw.randrange(1, warps + 1)}", "w % 2 == 1",
        f"l < {draw.choice((8, 16, 31))}", "b == 0", f"w == r % {warps}",
    ))  # fmt: skip
    return [f"if {which}:", *(f"    {line}" for line in lines)] if which else lines


def _head(draw: random.Random, shape: _Shape) -> list[str]:
    head = [f"{name} = cuda.shared.array({32 * ROWS + 128}, {type_}, 16)" for name, type_ in shape.arrays.items()]
    head += ["own = cuda.local.array(4, np.int32)", "for i in range(4):", "    own[i] = i"]
    head += ["t, b = cuda.threadIdx.x, cuda.blockIdx.x", "w, l = t // 32, t % 32", "v = 1"]
    if shape.style == "cluster":
        other = draw.choice(("1 - ptx.cluster_ctarank()", "0", "ptx.cluster_ctarank()"))
        head.append(f"far = ptx.mapa(s, {other})")
    if draw.random() < 0.8:  # all of it is initialized
        for name in shape.arrays:
            head += [f"for i in range({ROWS + 4}):", "    if w == i % 2:", f"        {name}[32 * i + l] = i"]
        head.append("ptx.cluster_sync()" if shape.style == "cluster" else "cuda.syncthreads()")
    return head


def program(seed: int) -> LoopProgram:
    """Return a random program; its arguments are those of `loop_programs`."""
    draw = random.Random(seed)
    style = draw.choice(STYLES)
    warps, grid = draw.choice((2, 2, 3, 4, 4, 7)), draw.choice((1, 2, 2, 3))
    if style == "cluster":
        grid = 2
    elif style == "spread":
        warps, grid = draw.choice((4, 17, 20)), draw.choice((2, 4))
    arrays = {"s": draw.choice(list(BYTES))}
    if draw.random() < 0.4:
        arrays["q"] = draw.choice(list(BYTES))
    shape, often = _Shape(style, warps, arrays), draw.choice((0.3, 0.7, 1.0))
    body: list[str] = []
    for _ in range(draw.randrange(4, 12)):
        body += _by_some(draw, shape, _step(draw, shape))
        if draw.random() < often:
            body += ["cuda.syncthreads()"] if often == 1 and style != "cluster" else _meeting(draw, shape)
    lines = [*_head(draw, shape), "for r in range(n):", *(f"    {line}" for line in body)]
    lines.append("y[4096 + b * 1024 + t] = v")
    if style == "cluster":
        lines.append("ptx.cluster_sync()")
    source = "\n\n@cuda.jit\ndef k(n, x, z, y, m, a):\n" + "".join(f"    {line}\n" for line in lines)
    fewer = draw.choice((5, 16)) if style == "short" else 0
    return LoopProgram(source, 32 * warps - fewer, grid, grid if style in ("cluster", "spread") else 1)
