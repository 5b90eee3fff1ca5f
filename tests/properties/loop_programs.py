"""Random kernels of a loop whose trip count is an argument: pipelines of a producer and consumers over named barriers
or mbarriers, right ones and ones with a mistake; accesses that are affine in the iteration and others; reads of data
that steer or do not.

What a kernel does for one trip count may differ from what it does for others: that is what they are for.
"""

from __future__ import annotations

import importlib.util
import random
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import wsemu

ROOM = 72
"""iterations that the arrays have room for"""
_HEAD = '''"""Made by `loop_programs`."""
import numpy as np

import wsemu
from wsemu import cuda, ptx
'''


@dataclass(frozen=True)
class LoopProgram:
    """A kernel `k(n, x, z, y)` and the threads of its CTA."""

    source: str
    threads: int
    grid: int

    def arguments(self, n: int, seed: int = 0) -> tuple[Any, ...]:
        """For n iterations; other seeds fill the arrays otherwise."""
        draw = np.random.default_rng(seed)
        x = draw.integers(0, 4, ROOM * 32 * 4, np.int32) if seed else np.zeros(ROOM * 32 * 4, np.int32)
        z = draw.integers(0, 4, ROOM * 32 * 4, np.int32) if seed else np.zeros(ROOM * 32 * 4, np.int32)
        return n, x, z, np.zeros(ROOM * 32 * 16, np.int32)


def loaded(programs: list[LoopProgram], folder: Path, name: str) -> list[Any]:
    """The kernels of some programs, from one module."""
    parts = [program.source.replace("def k(", f"def k{n}(") for n, program in enumerate(programs)]
    path = folder / f"{name}.py"
    path.write_text(_HEAD + "".join(parts), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module: ModuleType = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return [getattr(module, f"k{n}") for n in range(len(programs))]


def program(seed: int) -> LoopProgram:
    """A random program."""
    draw = random.Random(seed)
    return draw.choice((_named, _named, _whole, _mbarriers))(draw)


def _maybe(draw: random.Random, value: int, chance: float = 0.12) -> int:
    """The value, or now and then one beside it."""
    return max(0, value + draw.choice((-1, 1))) if draw.random() < chance else value


def _kernel(body: list[str]) -> str:
    return "\n\n@cuda.jit\ndef k(n, x, z, y):\n" + "".join(f"    {line}\n" for line in body)


def _trips(draw: random.Random) -> tuple[str, str]:
    """(loop, bound that the body compares with)"""
    return draw.choice((("range(n)", "n"), ("range(n)", "n"), ("range(n)", "n"), ("range(n // 2)", "n // 2")))


def _value(draw: random.Random, offset: str) -> str:
    """What a producer loads."""
    return draw.choice((
        f"x[k * 32 + lane{offset}]", f"x[k * 32 + lane{offset}] + k", f"x[(k * 32 + lane{offset}) % 64]", "k",
        f"x[z[k * 32 + lane] % 4 + lane{offset}]", f"(x[k * 32 + lane] if z[lane] < 9 else {draw.randint(0, 3)})",
    ))  # fmt: skip


def _result(draw: random.Random, value: str, who: str) -> list[str]:
    """What a consumer does with a value."""
    place = draw.choice((
        f"(k * {who}s + {who}) * 32 + lane", f"(k * {who}s + {who}) * 32 + lane", f"{who} * 32 + lane",
        f"(k % 2 * {who}s + {who}) * 32 + lane", f"({who} * 70 + k) * 32 + lane",
        f"k * 32 + lane + {draw.choice((0, 32, 640, 32 * 12))} * {who}",
        f"(n - 1 - k) * 32 + lane + {who} * 2304",
    ))  # fmt: skip
    if draw.random() < 0.1:
        return [f"if {value} >= 0:", f"    y[{place}] = k"]
    return [f"y[{place}] = {value}"]


def _named(draw: random.Random) -> LoopProgram:
    """A producer warp, consumer warps, two barriers a stage."""
    depth, consumers = draw.randint(1, 4), draw.randint(1, 2)
    trips, bound = _trips(draw)
    count = 32 * (1 + consumers)
    full = f"ptx.barrier_sync(1 + k % {depth}, {count})"
    ready = f"ptx.barrier_arrive(1 + k % {depth}, {count})"
    wait_empty = f"ptx.barrier_sync({1 + depth} + k % {_maybe(draw, depth, 0.04) or 1}, {count})"
    give_empty = f"ptx.barrier_arrive({1 + depth} + k % {depth}, {count})"
    stage = f"k % {max(1, _maybe(draw, depth, 0.05))}"
    late, lane = draw.random() < 0.1, draw.choice(("lane", "31 - lane"))
    lines = [
        f"tile = cuda.shared.array(({depth + 1}, 32), np.int32)",
        "lane = cuda.threadIdx.x % 32", "warp = cuda.threadIdx.x // 32", "who = warp - 1", f"whos = {consumers}",
        "if warp == 0:",
        f"    for k in {trips}:",
        f"        if k >= {_maybe(draw, depth)}:",
        f"            {wait_empty}",
        *([f"        {ready}"] if late else []),
        f"        tile[{stage}, lane] = {_value(draw, '')}",
        *([] if late else [f"        {ready}"]),
        "else:",
        f"    for k in {trips}:",
        f"        {full}",
        *(f"        {line}" for line in _result(draw, f"tile[k % {depth}, {lane}]", "who")),
        f"        if k + {_maybe(draw, depth)} < {bound}:",
        f"            {give_empty}",
    ]  # fmt: skip
    return LoopProgram(_kernel(lines), count, 1)


def _whole(draw: random.Random) -> LoopProgram:
    """All warps of a CTA, `syncthreads`, one buffer or several."""
    depth, warps = draw.randint(1, 3), draw.randint(1, 3)
    trips, _ = _trips(draw)
    second = draw.random() < (0.8 if depth == 1 else 0.3)
    lines = [
        f"tile = cuda.shared.array(({depth}, {warps}, 32), np.int32)",
        "lane = cuda.threadIdx.x % 32", "warp = cuda.threadIdx.x // 32",
        "who = warp + cuda.blockIdx.x * cuda.blockDim.x // 32", "whos = cuda.gridDim.x * cuda.blockDim.x // 32",
        *(["s = 0"] if draw.random() < 0.5 else ["s = x[lane]"]),
        f"for k in {trips}:",
        f"    tile[k % {depth}, warp, lane] = {_value(draw, ' + who * 32')}",
        "    cuda.syncthreads()",
        f"    s += tile[k % {depth}, {draw.choice(('warp', f'(warp + 1) % {warps}'))}, 31 - lane]",
        *(f"    {line}" for line in _result(draw, "s", "who")),
        *(["    cuda.syncthreads()"] if second else []),
    ]  # fmt: skip
    if draw.random() < 0.4:
        lines.append(draw.choice(("y[9000 + who * 32 + lane] = s", "y[n * 32 + 4000 + lane] = s")))
    return LoopProgram(_kernel(lines), 32 * warps, draw.choice((1, 1, 2)))


def _mbarriers(draw: random.Random) -> LoopProgram:
    """A producer warp and a consumer warp, an mbarrier each way a stage."""
    depth = draw.randint(1, 3)
    trips, _ = _trips(draw)
    at = depth if draw.random() < 0.85 else max(1, _maybe(draw, depth, 1))
    flip = 1 if draw.random() < 0.9 else 0
    lines = [
        f"tile = cuda.shared.array(({depth + 1}, 32), np.int32)",
        f"full = cuda.shared.array({depth}, np.uint64)", f"empty = cuda.shared.array({depth}, np.uint64)",
        "lane = cuda.threadIdx.x % 32", "warp = cuda.threadIdx.x // 32", "who = 0", "whos = 1",
        "if cuda.threadIdx.x == 0:",
        f"    for s in range({depth}):",
        "        ptx.mbarrier_init(full, s, 32)", "        ptx.mbarrier_init(empty, s, 32)",
        "cuda.syncthreads()",
        "if warp == 0:",
        f"    for k in {trips}:",
        f"        ptx.mbarrier_wait_parity(empty, k % {depth}, (k // {depth} & 1) ^ {flip})",
        f"        tile[k % {at}, lane] = {_value(draw, '')}",
        f"        ptx.mbarrier_arrive(full, k % {depth})",
        "else:",
        f"    for k in {trips}:",
        f"        ptx.mbarrier_wait_parity(full, k % {depth}, k // {depth} & 1)",
        *(f"        {line}" for line in _result(draw, f"tile[k % {depth}, lane]", "who")),
        *([] if draw.random() < 0.08 else [f"        ptx.mbarrier_arrive(empty, k % {depth})"]),
    ]  # fmt: skip
    return LoopProgram(_kernel(lines), 64, 1)


# -- every "every" tried -----------------------------------------------------------------------------------------------
@dataclass
class Tried:
    """What was said of a program, and what contradicts it."""

    verdict: str
    trips: bool
    """whether it was said to hold for every trip count"""
    contents: tuple[str, ...]
    contradictions: list[str]
    reason: str = ""
    """why no more was said"""


def tried(program: LoopProgram, kernel: Any, n: int = 6, most: int = 30, fills: int = 3) -> Tried:
    """The scope of a launch, compared with launches of other trip counts and contents."""

    def launch(n: int, seed: int = 0, only: tuple[str, ...] = (), every: bool = False) -> Any:
        arguments = list(program.arguments(n))
        for at, name in ((1, "x"), (2, "z"), (3, "y")):
            if name in only:
                arguments[at] = program.arguments(n, seed)[at] if name != "y" else np.full_like(arguments[at], seed)
        return wsemu.check(kernel, program.grid, program.threads, arguments, every=every, budget=200_000)

    report = launch(n, every=True)
    scope = report.scope
    if scope is None:
        return Tried(report.verdict, False, (), [])
    wrong = [
        f"{m} iterations: {report.verdict} {[finding.code for finding in report.findings]}"
        for m in range(most + 1) if scope.loops and (report := launch(m)).verdict != "verified"
    ]  # fmt: skip
    free = tuple(scope.contents)
    wrong += [
        f"contents {seed} of {free}: {report.verdict} {[finding.code for finding in report.findings]}"
        for seed in range(1, fills + 1) if free and (report := launch(n, seed, free)).verdict != "verified"
    ]  # fmt: skip
    return Tried("verified", bool(scope.loops), free, wrong, "" if scope.loops else "; ".join(scope.limits))
