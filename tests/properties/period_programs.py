"""Random kernels some of whose warps store into buffers what others load, in rounds that barriers of some warps order:
each round is as the one before, but for what now and then comes between, and where an operation is left out or comes
too early.
"""

from __future__ import annotations

import random

from tests.properties.loop_programs import LoopProgram, loaded

__all__ = ["loaded", "program"]

ROWS = 6
"""of 32 elements in a buffer"""
_TYPES = ("np.float32", "np.float32", "np.int32", "np.int64", "np.int16")


def _column(draw: random.Random) -> str:
    return draw.choice(("l", "l", "l", "l", "(31 - l)", "(l ^ 5)", "l // 2 * 2", "7", "(x[l] + l) % 32"))


def _load(draw: random.Random, buffer: str, rows: int) -> list[str]:
    row = draw.choice(
        (f"w % {rows}", f"(w + {draw.randrange(4)}) % {rows}", str(draw.randrange(rows)), f"(w + r) % {rows}")
    )
    load = f"v += s[{buffer} + 32 * ({row}) + {_column(draw)}]"
    if draw.random() < 0.2:
        return [f"if {draw.choice(('l < 8', 'l % 2 == 0', 'l > 20', 'l == 3'))}:", f"    {load}"]
    return [load]


def _store(draw: random.Random, buffer: str, row: str) -> list[str]:
    """Into a row of this warp's own."""
    column = draw.choice(("l", "l", "l", "(31 - l)", "(l ^ 3)", "(x[1] + l) % 32"))
    store = f"s[{buffer} + 32 * ({row}) + {column}] = {draw.choice(('v', 'r', 'l', 'x[t + r]'))}"
    if draw.random() < 0.2:
        return [f"if {draw.choice(('l < 8', 'l % 2 == 1', 'l > 15'))}:", f"    {store}"]
    return [store]


def _event(draw: random.Random, buffer: str, own: list[str], threads: int) -> list[str]:
    """What happens beside what is as the last time."""
    row, some = draw.randrange(ROWS + 1), draw.randrange(1, 32)
    return draw.choice((
        own, own, [f"v += s[{buffer} + 32 * {row} + l]"], [f"s[{buffer} + 32 * {row} + l] = r"],
        [f"v += s[{32 * ROWS} - {buffer} + 32 * {row} + l]"], [f"if l < {some}:", f"    v += s[{buffer} + l]"],
        [f"if l == {some}:", f"    s[{buffer} + 32 * {row} + l] = 9"], ["cuda.syncwarp()"],
        [f"cuda.syncwarp({draw.choice((0xFFFFFFFF, 0xFFFF))})"] if draw.random() < 0.3 else ["cuda.syncwarp()"],
        ["v += cuda.shfl_sync(0xFFFFFFFF, l, 3)"], ["cuda.threadfence_block()"], ["cuda.atomic.add(c, w % 2, 1)"],
        ["v += y[t]"], [f"v += s[{buffer} + 32 * {ROWS - 1} + l + {draw.choice((1, 600))}]"],
        [f"ptx.barrier_arrive(9, {threads})"], ["break"], [f"if l > {some}:", "    return"], ["return"],
    ))  # fmt: skip


def _when(draw: random.Random) -> str:
    return draw.choice((
        f"r == {draw.randrange(3, 24)}", f"r == {draw.randrange(8, 16)}", f"r % {draw.choice((3, 5, 7))} == 2",
        f"b == 1 and r == {draw.randrange(2, 20)}", f"b == {draw.randrange(2)}", f"r > {draw.randrange(6, 24)}",
        f"w == {draw.randrange(3)} and r == {draw.randrange(9, 20)}", f"r > {draw.randrange(6, 20)} and w == 1",
    ))  # fmt: skip


def _with_events(draw: random.Random, lines: list[str], buffer: str, threads: int, often: float) -> list[str]:
    """Lines of a round, some with what happens now and then, or left out then."""
    if draw.random() >= often:
        return lines
    if draw.random() < 0.3:
        return [f"if not ({_when(draw)}):", *(f"    {line}" for line in lines)]
    event = [f"if {_when(draw)}:", *(f"    {line}" for line in _event(draw, buffer, lines, threads))]
    return draw.choice(([*event, *lines], [*lines, *event]))


def _round(draw: random.Random, steps: list[list[str]], buffer: str, threads: int, often: float) -> list[str]:
    if draw.random() < 0.1:  # an operation too early, or too late
        k = draw.randrange(len(steps) - 1)
        steps[k], steps[k + 1] = steps[k + 1], steps[k]
    return [line for step in steps for line in _with_events(draw, step, buffer, threads, often)]


def program(seed: int) -> LoopProgram:
    """A random program; its arguments are those of `loop_programs`."""
    draw = random.Random(seed)
    loading, storing = draw.choice(((1, 1), (2, 1), (1, 2), (2, 2), (3, 1), (2, 1)))
    buffers, threads = draw.choice((1, 1, 2)), 32 * (loading + storing)
    often = draw.choice((0.0, 0.05, 0.15))
    buffer = f"r % {buffers} * {32 * ROWS}" if buffers > 1 else "0"
    empty, full = (f"{k} + 2 * (r % {buffers})" if buffers > 1 else str(k) for k in (1, 2))
    each = draw.randrange(1, 4)
    rows = each * storing
    sync, arrive = (f"ptx.{draw.choice(('bar', 'barrier'))}_{name}" for name in ("sync", "arrive"))
    loads = [_load(draw, buffer, rows) for _ in range(draw.randrange(1, 5))]
    stores = [_store(draw, buffer, f"w - {loading} + {storing * k}") for k in range(each)]
    for_full, for_empty = [f"{sync}({full}, {threads})"], [f"{sync}({empty}, {threads})"]
    if draw.random() < 0.2:  # those that load order themselves, too
        loads.insert(draw.randrange(len(loads) + 1), [f"{sync}(5, {32 * loading})"])
    write = [["y[1024 + (b * 64 + r) * 128 % 3000 + t] = v"]] if draw.random() < 0.4 else []
    consumer = _round(
        draw, [for_full, *loads, *write, [f"{arrive}({empty}, {threads})"]], buffer, threads, often
    )  # fmt: skip
    producer = _round(draw, [for_empty, *stores, [f"{arrive}({full}, {threads})"]], buffer, threads, often)
    rounds = f"n * {draw.randrange(6, 12)}"
    lines = [
        f"s = cuda.shared.array({64 * ROWS}, {draw.choice(_TYPES)})",
        "c = cuda.shared.array(2, np.int32)",
        "t, b = cuda.threadIdx.x, cuda.blockIdx.x",
        "w, l = t // 32, t % 32",
        "v = l % 5",
    ]
    if draw.random() < 0.8:  # all of it is written
        lines += [f"for q in range({2 * ROWS}):", "    if w == 0:", "        s[32 * q + l] = q", "cuda.syncthreads()"]
    lines += [
        f"if w < {loading}:",
        f"    for r in range({buffers}):",
        f"        {arrive}({empty}, {threads})",
        f"    for r in range({rounds}):",
        *(f"        {line}" for line in consumer),
        "else:",
        f"    for r in range({rounds}):",
        *(f"        {line}" for line in producer),
        f"    for r in range({buffers}):",
        f"        {sync}({empty}, {threads})",
    ]
    if draw.random() < 0.3:
        lines.append("cuda.syncthreads()")
    lines += ["y[4096 + b * 128 + t] = v"]
    source = "\n\n@cuda.jit\ndef k(n, x, z, y, m, a):\n" + "".join(f"    {line}\n" for line in lines)
    return LoopProgram(source, threads, draw.choice((1, 2, 3)))
