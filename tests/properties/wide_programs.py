"""Random programs in groups of many warps, of which theirs are a few: what clocks, masks and cells hold of a warp then
lies in other words, and beyond the first ones of a row.

The kernels are those of the programs, with another beginning: a table tells each warp of a cooperative grid, or of a
cluster, which line it runs, and most run none.  What the programs can do is the same.  Warps are put where a word
begins or ends more often than elsewhere.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import linecache
import random
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy import float32, int32

import wsemu
from tests.properties import cluster_programs, phase_programs, programs
from tests.properties.lane_programs import ROWS, lanes_source
from tests.properties.phase_explorer import MEETINGS, VARIABLES
from tests.properties.phase_programs import KINDS, MBARRIERS
from wsemu import cuda, ptx

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.properties.cluster_programs import Spread
    from tests.properties.explorer import Program
    from tests.properties.lanes import Lanes
    from tests.properties.phase_explorer import Program as PhaseProgram
    from tests.properties.programs import Random
    from wsemu.model.settings import Engine

ENGINES: Final[tuple[Engine, ...]] = ("vm", "reference")
WARPS: Final = (64, 128, 256, 512, 1024)
"""of a group; the reference engine has groups of at most 128"""
MOST_REFERENCE: Final = 128
CTA_WARPS: Final = 32
MOST_RANKS: Final = 8
"""CTAs of a cluster"""
EDGES: Final = (0, 1, 7, 8, 15, 16, 30, 31)
"""of warps in a CTA, and of CTAs, those that are taken more often"""
_numbers = itertools.count()
_LINE: Final = f"lines[{CTA_WARPS} * cuda.blockIdx.x + cuda.threadIdx.x // 32]"
_BEGINNING: Final = "cuda.cg.this_grid().sync()\n    if {0} < 0:\n        return\n"


def _kernel(text: str, space: dict[str, Any]) -> Any:
    """A kernel of this text, which is named last."""
    name = f"<wide program {next(_numbers)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)  # where the front end reads it
    exec(compile(text, name, "exec"), space)
    return space["interpreter"]


def _changed(module: Any, changes: tuple[tuple[str, str], ...]) -> Any:
    """The interpreter of a module with some of its text replaced, each once."""
    text = inspect.getsource(module.interpreter.py_func)
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new, 1)
    return _kernel(text, dict(vars(module)))


@functools.cache
def _barriers() -> Any:
    return _changed(programs, (
        ("interpreter(", "interpreter(lines, "),
        ("w, lane = thread // LANES, thread", f"w, lane = {_LINE}, thread"),
        ("cuda.syncthreads()\n", _BEGINNING.format("w")),
    ))  # fmt: skip


@functools.cache
def _phases() -> Any:
    return _changed(phase_programs, (
        ("interpreter(", "interpreter(lines, "),
        ("warp, lane = cuda.threadIdx.x // 32,", f"warp, lane = {_LINE},"),
        ("cuda.syncthreads()\n", _BEGINNING.format("warp")),
    ))  # fmt: skip


@functools.cache
def _clusters() -> Any:
    """Warps that run no line meet, as often as the others, and leave nothing."""
    return _changed(cluster_programs, (
        ("interpreter(", "interpreter(lines, "),
        ("cuda.threadIdx.x\n", f"cuda.threadIdx.x % 32\n    line = {_LINE}\n"),
        ("if lane == 0:", "if cuda.threadIdx.x == 0:"),
        ("table[rank, step, 0], table[rank, step, 1], table[rank, step, 2]",
         "table[line, step, 0], table[line, step, 1], table[line, step, 2]"),
        ("(1 + rank, ", "(1 + line, "),
        ("    if lane == 0:\n        sink", "    if lane == 0 and line < sink.shape[0] - 1:\n        sink"),
        ("sink[0, rank]", "sink[0, line]"),
    ))  # fmt: skip


def _some(source: Random, count: int, of: int) -> list[int]:
    """Different numbers below `of`, those at the ends of words more often."""
    edges = [n for n in EDGES if n < of]
    chosen: list[int] = []
    while len(chosen) < count:
        n = source.choice(edges) if source.random() < 0.6 else source.randrange(0, of)
        if n not in chosen:
            chosen.append(n)
    return chosen


def _lines(source: Random, threads: int, warps: int) -> Any:
    """Which line each warp runs, all in one CTA: -1 for none."""
    lines = np.full(warps, -1, int32)
    (cta,) = _some(source, 1, warps // CTA_WARPS)
    for line, warp in enumerate(_some(source, threads, CTA_WARPS)):
        lines[CTA_WARPS * cta + warp] = line
    return lines


def check_wide(program: Program, warps: int, source: Random, **options: Any) -> wsemu.Report:
    """The report of a program of barriers whose warps are some of `warps`."""
    code = np.zeros((len(program), max(1, *map(len, program)), 3), int32)
    for w, warp in enumerate(program):
        for k, operation in enumerate(warp):
            code[w, k] = programs.INTERPRETED[operation.kind], programs.named(operation), operation.threads
    length = np.array([len(warp) for warp in program], int32)
    given = _lines(source, len(program), warps), length, code, np.zeros(32 * CTA_WARPS, np.int64)
    return wsemu.check(_barriers(), warps // CTA_WARPS, 32 * CTA_WARPS, given, **options)


def check_wide_phases(program: PhaseProgram, warps: int, source: Random, **options: Any) -> wsemu.Report:
    """The same of a program of mbarriers and copies."""
    counts = np.zeros(MBARRIERS, int32)
    counts[: len(program.counts)] = program.counts
    table = _table(program, len(program.threads))
    sink = np.zeros((1 + len(program.threads), 4 * VARIABLES), float32)
    given = _lines(source, len(program.threads), warps), table, counts, np.ones(4, float32), sink
    return wsemu.check(_phases(), warps // CTA_WARPS, 32 * CTA_WARPS, given, **options)


def check_wide_clusters(spread: Spread, warps: int, source: Random, **options: Any) -> wsemu.Report:
    """The same of one that is spread over the CTAs of a cluster of `warps` warps."""
    program, threads = spread.program, len(spread.program.threads)
    ctas = min(max(warps // CTA_WARPS, threads), MOST_RANKS)
    ranks = _some(source, threads, ctas)
    table = _table(program, threads + 1)
    meets = [step for step in program.threads[0] if step.kind in MEETINGS]
    for k, step in enumerate(meets):
        table[threads, k] = KINDS.index(step.kind), step.place, step.number
    lines = np.full(CTA_WARPS * ctas, threads, int32)
    for line, rank in enumerate(ranks):
        lines[CTA_WARPS * rank + _some(source, 1, CTA_WARPS)[0]] = line
    counts, homes = np.zeros(MBARRIERS, int32), np.zeros(MBARRIERS, int32)
    counts[: len(program.counts)] = program.counts
    homes[: len(spread.homes)] = [ranks[home] for home in spread.homes]
    places = np.array([ranks[place] for place in spread.places], int32)
    sink = np.zeros((1 + threads, 4 * VARIABLES), float32)
    given = lines, table, counts, homes, places, np.ones(4, float32), sink
    return wsemu.check(_clusters(), ctas, 32 * CTA_WARPS, given, cluster=ctas, **options)


def _table(program: PhaseProgram, lines: int) -> Any:
    table = np.zeros((lines, max(1, *map(len, program.threads)), 3), int32)
    for t, steps in enumerate(program.threads):
        for k, step in enumerate(steps):
            table[t, k] = KINDS.index(step.kind), step.place, step.number
    return table


def check_wide_lanes(
    program: Lanes, warps: int, source: Random, mirrored: bool = False, **options: Any
) -> wsemu.Report:
    """The same of a program of lanes, whose CTAs have its warps alone: all but one of them end."""
    ctas = warps // len(program)
    (cta,) = _some(source, 1, ctas)
    text = lanes_source(program, mirrored)
    text = text.replace("def kernel(", "def interpreter(").replace(
        "cuda.syncthreads()\n", f"cuda.cg.this_grid().sync()\n    if cuda.blockIdx.x != {cta}:\n        return\n", 1
    )
    space = {"cuda": cuda, "ptx": ptx, "int8": np.int8, "int32": np.int32, "int64": np.int64}
    threads = 32 * len(program)
    given = (np.zeros(threads, np.int64),)
    return wsemu.check(_kernel(text, space), ctas, threads, given, dynamic_shared=128 * ROWS, **options)


class Wide(NamedTuple):
    """How programs are given to wsemu in a group of `warps`: of one `seed` they are always at the same places."""

    warps: int
    seed: str

    def barriers(self) -> dict[str, Callable[[Program], wsemu.Report]]:
        return {engine: functools.partial(self._barriers, engine) for engine in ENGINES}

    def lanes(self) -> dict[str, Callable[[Lanes], wsemu.Report]]:
        return {
            f"{engine}, {how}": functools.partial(self._lanes, engine, how == "mirrored")
            for engine in ENGINES
            for how in ("lanes", "mirrored")
        }

    def _barriers(self, engine: Engine, program: Program) -> wsemu.Report:
        return check_wide(program, self.warps, self._places(), engine=engine)

    def _lanes(self, engine: Engine, mirrored: bool, program: Lanes) -> wsemu.Report:
        return check_wide_lanes(program, self.warps, self._places(), mirrored, engine=engine)

    def phases(self, program: PhaseProgram, engine: Engine) -> wsemu.Report:
        return check_wide_phases(program, self.warps, self._places(), engine=engine)

    def clusters(self, spread: Spread, engine: Engine) -> wsemu.Report:
        return check_wide_clusters(spread, self.warps, self._places(), engine=engine)

    def _places(self) -> random.Random:
        return random.Random(self.seed)
