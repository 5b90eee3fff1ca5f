"""Random programs that access other memory while they wait, and the same ones with their first rounds unrolled.

The unrolled program is decided without the rule for such rounds: it contains each round as straight code, and ends if
the flag is not set after `ROUNDS` of them.
"""

from __future__ import annotations

import random
from typing import NamedTuple

ROUNDS = 3
"""number of unrolled rounds"""
FENCE, SYNC = "cuda.threadfence()", "cuda.syncthreads()"
HEAD = "from wsemu import cuda\nimport numpy as np\n"


class Program(NamedTuple):
    """A program, and the same one with its rounds unrolled."""

    looping: str
    unrolled: str
    threads: int


def draw_program(source: random.Random) -> Program:
    """Return a program in which CTA 0 writes and sets a flag, and the other CTAs wait for the flag."""
    threads = source.choice((1, 64))
    writes = [*_draw_statements(source, 2), *_maybe(source, FENCE, 0.7), "if t == 0: cuda.atomic.exch(f, 0, 1)"]
    writes += _draw_statements(source, 1)
    ends = source.choice(("got == 1", "got >= 1"))
    body = _draw_round(source, threads)
    after = _draw_statements(source, 2)
    waits = ["while True:", *_indent([*body, f"if {ends}: break"])]
    rounds = ["return"]
    for _ in range(ROUNDS):
        rounds = [*body, f"if not ({ends}):", *_indent(rounds)]
    return Program(_write(writes, [*waits, *after]), _write(writes, [*rounds, *after]), threads)


def _draw_round(source: random.Random, threads: int) -> list[str]:
    """Return a round: a poll by the first thread, whose value the others read from shared memory, and other
    accesses."""
    poll = source.choice(("cuda.atomic.add(f, 0, 0)", "cuda.atomic.cas(f, 0, 1, 1)", "cuda.atomic.max(f, 0, 0)"))
    likely = 0.85
    share = [f"if t == 0: s[0] = {poll}", *_maybe(source, FENCE, 0.7), *_maybe(source, SYNC, likely), "got = s[0]"]
    own = [f"got = {poll}", *_maybe(source, FENCE, 0.7)]
    ask = own if threads == 1 else [*share, *_maybe(source, SYNC, likely)]
    return [*_draw_statements(source, 1), *ask, *_draw_statements(source, 1)]


def _draw_statements(source: random.Random, most: int) -> list[str]:
    """Return some accesses, most of them to memory of the CTA alone."""
    places = ("g[t]", "g[64 + t]", "y[64 * b + t]", "y[64 * b + t]", "s[1 + t]", "s[1 + t]")
    found = []
    for _ in range(source.randint(0, most)):
        place = source.choice(places)
        found.append(source.choice((f"{place} = 1", f"v = {place}")))
    return found


def _maybe(source: random.Random, statement: str, likely: float) -> list[str]:
    return [statement] * (source.random() < likely)


def _indent(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _write(writes: list[str], waits: list[str]) -> str:
    start = ["s = cuda.shared.array(66, np.int32)", "t = cuda.threadIdx.x", "b = cuda.blockIdx.x", "v = 0"]
    start += ["s[1 + t] = 0", "got = 0"]
    body = [*start, "if b == 0:", *_indent(writes), "else:", *_indent(waits), "y[64 * b + t] = v"]
    return "\n".join((HEAD, "@cuda.jit", "def kernel(f, g, y):", *_indent(body), ""))
