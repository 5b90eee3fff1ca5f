"""Random kernels of a loop whose trip count is an argument: pipelines of a producer and consumers over named barriers
or mbarriers, right ones and ones with a mistake; accesses that are affine in the iteration and others; reads of data
that steer or do not.

What a kernel does for one trip count may differ from what it does for others: that is what they are for.
"""

from __future__ import annotations

import importlib.util
import random
import sys
from collections.abc import Iterator
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
    """A kernel `k(n, x, z, y, m, a)`, the threads of its CTA, and its CTAs."""

    source: str
    threads: int
    grid: int
    cluster: int = 1
    """CTAs of a cluster"""
    dynamic_shared: int = 0

    def arguments(self, n: int, seed: int = 0, m: int = 3, a: int = 1) -> tuple[Any, ...]:
        """Return arguments for n iterations, m of an inner loop, and a scalar; other seeds give the arrays other
        contents."""
        draw = np.random.default_rng(seed)
        x = draw.integers(0, 4, ROOM * 32 * 4, np.int32) if seed else np.zeros(ROOM * 32 * 4, np.int32)
        z = draw.integers(0, 4, ROOM * 32 * 4, np.int32) if seed else np.zeros(ROOM * 32 * 4, np.int32)
        return n, x, z, np.zeros(ROOM * 32 * 16, np.int32), m, a


def loaded(programs: list[LoopProgram], folder: Path, name: str) -> list[Any]:
    """Return the kernels of some programs, from one module."""
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
    """Return a random program."""
    draw = random.Random(seed)
    return draw.choice((_named, _named, _whole, _mbarriers, _mixed, _mixed))(draw)


def _maybe(draw: random.Random, value: int, chance: float = 0.12) -> int:
    """Return the value, or occasionally a neighbor of it."""
    return max(0, value + draw.choice((-1, 1))) if draw.random() < chance else value


def _kernel(body: list[str]) -> str:
    return "\n\n@cuda.jit\ndef k(n, x, z, y, m, a):\n" + "".join(f"    {line}\n" for line in body)


def _trips(draw: random.Random) -> tuple[str, str]:
    """Return (loop, bound that the body compares with)."""
    return draw.choice((("range(n)", "n"), ("range(n)", "n"), ("range(n)", "n"), ("range(n // 2)", "n // 2")))


def _value(draw: random.Random, offset: str) -> str:
    """Return the value that a producer loads."""
    return draw.choice((
        f"x[k * 32 + lane{offset}]", f"x[k * 32 + lane{offset}] + k", f"x[(k * 32 + lane{offset}) % 64]", "k",
        f"x[z[k * 32 + lane] % 4 + lane{offset}]", f"(x[k * 32 + lane] if z[lane] < 9 else {draw.randint(0, 3)})",
    ))  # fmt: skip


def _result(draw: random.Random, value: str, who: str) -> list[str]:
    """Return the result that a consumer computes from a value."""
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
    """Return a kernel with a producer warp, consumer warps, and two barriers per stage."""
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
    """Return a kernel in which all warps of a CTA use `syncthreads`, with one buffer or several."""
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
    """Return a kernel with a producer warp, a consumer warp, and two mbarriers per stage."""
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


# -- loops of all kinds ------------------------------------------------------------------------------------------------
_HEADS = (
    *3 * ("for k in range(n):",), "for k in range(0, n, 2):", "for k in range(1, n):", "for k in range(who, n, whos):",
    "for k in range(cuda.blockIdx.x, n, cuda.gridDim.x):", "for k in range(n - 1, -1, -1):", "for k in range(n + m):",
    "for k in range(min(n, 9)):", "for k in range(m):", "while k < n:",
)  # fmt: skip
_STAGES = ("k % 2", "k % 3", "stage", "k & 1", "(k + 1) % 2", "0", "k // 2 % 2", "m % 2")
_INDICES = (
    "t",
    "31 - lane",
    "t",
    "(t + 1) % 64",
    "t ^ 1",
    "x[t] % 64",
    "(z[t] & 31) + 32 * warp",
    "t if a > 0 else 63 - t",
)
_VALUES = (
    "x[k * 32 + lane]", "x[t] + k", "s + 1", "(x[t] if z[t] > 0 else k)", "cuda.selp(z[t] > 1, x[t], z[t])", "a * k",
    "cuda.shfl_sync(0xffffffff, s, (lane + 1) % 32)", "cuda.shfl_sync(0xffffffff, x[t], 0)", "x[(k * 64 + t) % 96]",
    "x[z[t] % 8 + t]", "s", "k",
)  # fmt: skip
_PLACES = (
    "(k * whos + who) * 32 + lane", "who * 32 + lane", "(who * 70 + k) * 32 + lane", "k % 3 * 256 + who * 32 + lane",
    "k * 64 + t", "(n - 1 - k) * 256 + who * 32 + lane", "who * 32 + lane + m * 512", "k * 32 + lane",
    "(k * whos + who) * 32 + (x[t] & 31)",
)  # fmt: skip


def _mixed(draw: random.Random) -> LoopProgram:
    """Return a loop of a few random statements: strides, guards, inner loops, stages, selects, masks, shuffles."""
    warps, depth = draw.choice((1, 2, 2)), draw.randint(1, 3)
    head = draw.choice(_HEADS)
    body = [line for _ in range(draw.randint(1, 3)) for line in _statement(draw, warps)]
    if draw.random() < 0.5:
        body += ["stage += 1", f"if stage == {depth}:", "    stage = 0"]
    if head.startswith("while"):
        body.append(f"k += {draw.choice(('1', '1', '2', 'm'))}")
    lines = [
        "tile = cuda.shared.array((4, 64), np.int32)", "t = cuda.threadIdx.x", "lane = t % 32", "warp = t // 32",
        "who = warp + cuda.blockIdx.x * cuda.blockDim.x // 32", "whos = cuda.gridDim.x * cuda.blockDim.x // 32",
        "s = t", "stage = 0", "k = 0", "own = cuda.local.array(8, np.int32)", "for j in range(8):", "    own[j] = j",
        "for j in range(4):", f"    tile[j, t] = j{' + x[t]' * (draw.random() < 0.3)}",
        f"    tile[j, {32 * (2 - warps)} + t] = j", "cuda.syncthreads()",
        head, *(f"    {line}" for line in body),
        "y[10000 + who * 32 + lane] = s",
    ]  # fmt: skip
    return LoopProgram(_kernel(lines), 32 * warps, draw.choice((1, 1, 2, 3)))


def _statement(draw: random.Random, warps: int) -> list[str]:
    stage, index, value, place = (draw.choice(some) for some in (_STAGES, _INDICES, _VALUES, _PLACES))
    other = draw.choice(_STAGES)
    meet = draw.choice(("cuda.syncthreads()", "cuda.syncthreads()", f"ptx.barrier_sync(1 + {stage}, {32 * warps})"))
    return draw.choice((
        [f"tile[{stage}, t] = {value}", meet, f"s += tile[{stage}, {index}]", meet],
        [f"tile[{stage}, t] = {value}", meet, f"s += tile[{other}, {index}]"],
        [f"s += tile[{stage}, {index}]"],
        [f"y[{place}] = {value}"],
        [f"y[{place}] = s * a", meet],
        [f"if k {draw.choice(('>= m', '< 2', '% 3 == 1', '== n - 1', '> a'))}:", f"    y[{place}] = {value}"],
        [f"if k % {draw.choice((2, 3))} == 0:", f"    {meet}"],
        [f"if {draw.choice(('x[t] > 2', 'z[0] > 2', 'a > 3', 'lane < m'))}:", f"    s += {value}"],
        [f"for j in range({draw.choice(('2', 'm', 'k % 3', 'z[t] % 3'))}):", f"    s += {value}", f"    {meet}"],
        [f"for j in range({draw.choice(('3', 'm'))}):", f"    tile[j % 2, t] = {value}", "    cuda.syncwarp()"],
        ["if x[t] > 5:", "    break"],
        [f"own[{draw.choice(('k', 'k % 3', 'stage', 'k & 7', 'min(k, 7)', 'z[t] & 7'))}] = {value}"],
        [f"s += own[{draw.choice(('k', 'k % 4', '7 - stage', '(n - k) & 7'))}]"],
        [f"s += cuda.shfl_{draw.choice(('sync', 'up_sync', 'xor_sync'))}({_mask(draw)}, s, {_lane(draw)})"],
        [f"cuda.syncwarp({_mask(draw)})"],
    ))  # fmt: skip


def _mask(draw: random.Random) -> str:
    """Return the members of a warp-wide operation: all, all and lanes that do not exist, or fewer after some
    iterations."""
    return draw.choice((*2 * ("0xffffffff",), "-1 - (k >> 4)", "0xffffffff - k % 2 * 0", "x[t] - 1"))


def _lane(draw: random.Random) -> str:
    return draw.choice(("k", "k % 32", "(lane + 1) % 32", "31 - stage", "m", "x[t]"))


# -- every "every" tried -----------------------------------------------------------------------------------------------
@dataclass
class Tried:
    """The report on a program, and what contradicts it."""

    verdict: str
    trips: bool
    """true if it was reported to hold for every trip count"""
    contents: tuple[str, ...]
    contradictions: list[str]
    reason: str = ""
    """reason why no more was reported"""
    values: tuple[str, ...] = ()
    """scalars that were reported as free"""


_AT = {"n": 0, "x": 1, "z": 2, "y": 3, "m": 4, "a": 5}
_SCALARS = (-7, 0, 2, 5, 40, 1 << 20)


def tried(program: LoopProgram, kernel: Any, n: int = 6, most: int = 30, fills: int = 3) -> Tried:
    """Compare the scope of a launch with launches of other trip counts, contents and scalars, and of all at once."""

    def launch(changed: dict[str, int], seed: int = 0, *, every: bool = False) -> Any:
        arguments = list(program.arguments(n))
        for name in free if seed else ():
            at = _AT[name]
            if name in "nma":
                arguments[at] = _SCALARS[seed % len(_SCALARS)]
            else:
                arguments[at] = program.arguments(n, seed)[at] if name != "y" else np.full_like(arguments[at], seed)
        for name, value in changed.items():
            arguments[_AT[name]] = value
        return wsemu.check(kernel, program.grid, program.threads, arguments, every=every, budget=200_000)

    free: tuple[str, ...] = ()
    report = launch({}, every=True)
    scope = report.scope
    if scope is None:
        return Tried(report.verdict, False, (), [])
    free = (*scope.contents, *scope.values)
    given = dict(zip("nxzyma", program.arguments(n), strict=True))
    wrong = [what for loop in scope.loops for what in _at_other_trips(loop, given, most, launch)]
    for seed in range(1, 1 + max(fills, len(_SCALARS) * bool(scope.values))) if free else ():
        other = launch({}, seed)
        if other.verdict != "verified":
            wrong.append(f"fill {seed} of {free}: {_words(other)}")
    reason = "" if scope.loops else "; ".join(scope.limits)
    return Tried("verified", bool(scope.loops), tuple(scope.contents), wrong, reason, tuple(scope.values))


def _at_other_trips(loop: str, given: dict[str, Any], most: int, launch: Any) -> Iterator[str]:
    """Yield what contradicts a claim such as `the loop in line 3 (`n` in steps of 2) that the arrays have room
    for`."""
    name, _, rest = loop.partition("(`")[2].partition("`")
    step = int(rest.partition("in steps of ")[2].partition(")")[0].replace(",", "") or 1)
    for value in range(given[name] % step, most + 1, step):
        report = launch({name: value}, value % 4)
        beyond = "room" in rest and {finding.code for finding in report.errors} == {"out-of-bounds"}
        if report.verdict != "verified" and not beyond:
            yield f"{name} = {value}: {_words(report)}"


def _words(report: Any) -> str:
    return f"{report.verdict} {[finding.code for finding in report.findings]} {report.notes}"
