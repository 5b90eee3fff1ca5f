"""Compiled blocks of programs beside the VM alone and a plain Numba loop, in one run on one core; and random programs
in all tiers.

    python benchmarks/blocks.py [--small | --papers] [--only sgemv] [--random 0] [--seed 0]

For each kernel: the CPU time inside the VM of a checked launch without blocks; of the first one with them, whose block
is compiled while it runs if that takes long (`auto`, with an empty cache: its thread's time counted too); of one whose
block is there.  Launches with and without take turns, of each the fastest counts.  `loop` is what a Numba loop of the
same sums takes.  Ratios hold within one run only.

`--random N` runs N random kernels of each kind (loops, accesses by whole warps, what cells may hold, loads through the
read-only cache, mbarriers, lanes that part, CTAs that repeat themselves, warps that take turns) in the tiers `off`,
`always` and `restless`, prints those whose reports or arrays differ, and ends with 1 if there is one.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
sys.path.insert(0, str(Path(__file__).parents[1]))

import wsemu
from wsemu.machine import slices, vm, workers
from wsemu.machine.tier import hot

if TYPE_CHECKING:
    from collections.abc import Callable

RANDOM = np.random.default_rng(1)
SIZES = {"sgemv": 4096, "dgemm": 1024, "saxpy": 1 << 22, "stencil": (512, 256, 32), "fft": 32}
SMALL = {"sgemv": 512, "dgemm": 128, "saxpy": 1 << 18, "stencil": (64, 32, 32), "fft": 2}
PAPERS = {"sgemv": 16384, "dgemm": 2048, "saxpy": 1 << 24, "stencil": (512, 512, 512), "fft": 256}
"""names of the kernels from papers; a launch of them takes up to a minute"""


class Case(NamedTuple):
    """A launch, and a plain loop that computes the same."""

    kernel: Any
    grid: Any
    block: int
    arguments: tuple[Any, ...]
    loop: Callable[[], object] | None = None


def floats(*shape: int) -> Any:
    return RANDOM.standard_normal(shape, np.float32)


def sgemv(n: int, version: str = "both-single") -> Case:
    import sgemv as example
    from numba import njit

    @njit
    def loop(alpha: Any, a: Any, x: Any, y: Any) -> None:
        for j in range(x.size):
            for i in range(y.size):
                y[i] += alpha * a[i, j] * x[j]

    matrix, x, y = np.asfortranarray(floats(n, n)), floats(n), np.zeros(n, np.float32)
    kernel, threads = example.VERSIONS[version]
    alpha = np.float32(0.75)
    return Case(kernel, n // 64, threads, (n, alpha, matrix, x, y), lambda: loop(alpha, matrix, x, y.copy()))


def dgemm(n: int, which: int) -> Case:
    import dgemm as example
    from numba import njit

    @njit
    def loop(a: Any, b: Any, c: Any) -> None:
        for i in range(a.shape[0]):
            for k in range(a.shape[1]):
                for j in range(b.shape[1]):
                    c[i, j] += a[i, k] * b[k, j]

    a, b = (np.asfortranarray(RANDOM.integers(-8, 9, (n, n)).astype(np.float64)) for _ in "ab")
    kernel, threads = example.KERNELS[which]
    side = n // example.BLOCK
    rows, columns = np.ascontiguousarray(a), np.ascontiguousarray(b)
    return Case(kernel, (side, side), threads, example.arguments(a, b), lambda: loop(rows, columns, np.zeros((n, n))))


def saxpy(n: int, which: int) -> Case:
    import saxpy as example
    from numba import njit

    @njit
    def loop(a: Any, x: Any, y: Any) -> None:
        for i in range(x.size):
            y[i] = a * x[i] + y[i]

    kernel, threads = example.KERNELS[which]
    a, x, y = np.float32(2), floats(n), floats(n)
    return Case(kernel, example.GRID, threads, (n, a, x, y, 0), lambda: loop(a, x, y.copy()))


def stencil(points: tuple[int, int, int], which: int) -> Case:
    import stencil as example

    x_points, y_points, z_points = points
    from numba import njit

    r, margin = example.RADIUS, example.MARGIN
    numbers = tuple(float(getattr(example, f"C{k}")) for k in range(r + 1))

    @njit
    def loop(v: Any, out: Any, c: Any) -> None:
        for z in range(out.shape[0]):
            for y in range(out.shape[1]):
                for x in range(out.shape[2]):
                    at = v[z + r, y + r, x + margin] * c[0]
                    for d in range(1, r + 1):
                        at += c[d] * (
                            v[z + r + d, y + r, x + margin] + v[z + r - d, y + r, x + margin]
                            + v[z + r, y + r + d, x + margin] + v[z + r, y + r - d, x + margin]
                            + v[z + r, y + r, x + margin + d] + v[z + r, y + r, x + margin - d]
                        )  # fmt: skip
                    out[z, y, x] = at

    volume = floats(z_points + 2 * r, y_points + 2 * r, x_points + 2 * margin)
    kernel, threads = list(example.versions(volume.strides[1]))[which]
    out = np.zeros((z_points, y_points, x_points), np.float32)
    grid = x_points // example.TILE_X, y_points // example.TILE_Y
    return Case(kernel, grid, threads, (volume, out), lambda: loop(volume, out, numbers))


def fft(batch: int, which: int) -> Case:
    import fft as example

    n = 32768
    x = floats(batch, 2 * n).view(np.complex64)
    kernels, threads = example.versions(n)[list(example.VERSIONS)[which]]
    tiles, radix = x.size // example.TILE, next(iter(example.radices(n)))
    points, result = x.copy().ravel().view(np.float32), np.empty(2 * x.size, np.float32)
    twiddles = example.roots_of_unity(np.outer(np.arange(radix), np.arange(1)), radix)
    roots = example.roots_of_unity(np.arange(radix), radix)
    grid = min(-(-tiles // 2), example.MOST_CTAS)
    return Case(kernels[radix], grid, threads, (n, 1, tiles, points, twiddles, roots, result))


def cases(sizes: dict[str, Any]) -> dict[str, Callable[[], Case]]:
    """Return the cases by name."""
    return {
        "sgemv both": lambda: sgemv(sizes["sgemv"]),
        "sgemv vec": lambda: sgemv(sizes["sgemv"], "vec-single"),
        "dgemm 1": lambda: dgemm(sizes["dgemm"], 0),
        "dgemm 3 dma": lambda: dgemm(sizes["dgemm"], 3),
        "saxpy staged": lambda: saxpy(sizes["saxpy"], 1),
        "saxpy dma": lambda: saxpy(sizes["saxpy"], 3),
        "stencil": lambda: stencil(sizes["stencil"], 0),
        "stencil halo": lambda: stencil(sizes["stencil"], 1),
        "fft": lambda: fft(sizes["fft"], 0),
        "fft dma": lambda: fft(sizes["fft"], 1),
    }


def inside(case: Case, tier: str, *, checkers: tuple[str, ...] | None = None) -> tuple[float, Any]:
    """Return the CPU seconds of this thread inside the VM, and the report."""
    os.environ["WSEMU_TIER"] = tier
    spent, before = 0.0, vm.Machine.run
    in_block.clear()

    def timed(machine: Any, *arguments: Any, **options: Any) -> int:
        nonlocal spent
        start = time.thread_time()
        status = before(machine, *arguments, **options)
        spent += time.thread_time() - start
        in_block.append(bool(machine.state[0]["blocks"]))
        return status

    vm.Machine.run = timed  # type: ignore[method-assign]
    try:
        report = wsemu.check(case.kernel, case.grid, case.block, case.arguments, workers=1, checkers=checkers)
    finally:
        vm.Machine.run = before  # type: ignore[method-assign]
    return spent, report


in_block: list[bool] = []
"""for each machine of the last launch, whether it had a compiled block"""
LAUNCHES = 60
"""maximum number of launches until a program has its block"""
TURNS = 5


def best(call: Callable[[], float], times: int = 3) -> float:
    return min(call() for _ in range(times))


def until_blocks(case: Case) -> None:
    """Launch until a block exists and is used, and no other block is being compiled."""
    for _ in range(LAUNCHES):
        inside(case, "auto")
        if any(in_block) and not hot._makers():
            return
        hot.wait_for_blocks()
    raise SystemExit("no block was made")


def loop_seconds(case: Case) -> float:
    """Return the seconds of the Numba loop; 0 if there is none."""
    if case.loop is None:
        return 0.0
    loop = case.loop

    def once() -> float:
        start = time.thread_time()
        loop()
        return time.thread_time() - start

    once()
    return best(once)


def speed(sizes: dict[str, Any], only: str, most: int) -> bool:
    """Print the table of the kernels whose names begin with `only`, with this number of turns; return whether all
    reports were equal."""
    if not any(name.startswith(only) for name in cases(sizes)):
        raise SystemExit(f"no kernel begins with {only!r}: give --only one of {', '.join(cases(sizes))}")
    print(f"{'kernel':14} {'warp instr.':>12} {'off ms':>9} {'first ms':>9} {'auto ms':>9} {'ratio':>6} {'loop ms':>8} "
          f"{'off/loop':>8} {'auto/loop':>9}")  # fmt: skip
    same = True
    for name, made in cases(sizes).items():
        if not name.startswith(only):
            continue
        case = made()
        inside(case, "off")
        process = time.process_time()
        inside(case, "auto")
        hot.wait_for_blocks()
        first = time.process_time() - process
        until_blocks(case)
        turns = [(inside(case, "off")[0], inside(case, "auto")[0]) for _ in range(most)]
        off, again = (min(times) for times in zip(*turns, strict=True))
        one, other = (inside(case, tier)[1].model_copy(update={"seconds": 0.0}) for tier in ("off", "auto"))
        same &= one.model_dump() == other.model_dump()
        loop = loop_seconds(case)
        ratios = f"{1e3 * loop:8.2f} {off / loop:8.0f} {again / loop:9.0f}" if loop else ""
        print(
            f"{name:14} {one.counters.warp_instructions:12,} {1e3 * off:9.1f} {1e3 * first:9.1f} {1e3 * again:9.1f} "
            f"{off / again:6.2f} {ratios} {other.verdict}",
            flush=True,
        )
    return same


def random_programs(count: int, seed: int, only: str) -> bool:
    """Return whether random loop kernels, and random accesses, do the same in all tiers."""
    from tests.properties import (
        cell_programs,
        clobber_programs,
        loop_programs,
        period_programs,
        read_only_programs,
        row_programs,
        section_programs,
        side_programs,
    )

    def said(kernel: Any, one: Any, n: int, tier: str) -> tuple[Any, ...]:
        os.environ["WSEMU_TIER"] = tier
        workers._kept.clear()
        arguments = one.arguments(n, 1)
        how = {"cluster": one.cluster, "dynamic_shared": one.dynamic_shared}
        report = wsemu.check(kernel, one.grid, one.threads, arguments, **how)
        left = (a.tobytes() for a in arguments if isinstance(a, np.ndarray))
        return report.model_copy(update={"seconds": 0.0}).model_dump(), *left

    fine = True
    kinds = {
        "loop": loop_programs, "row": row_programs, "cell": cell_programs, "read_only": read_only_programs,
        "clobber": clobber_programs, "side": side_programs, "section": section_programs,
        "period": period_programs,
    }  # fmt: skip
    chosen = {name: kind for name, kind in kinds.items() if name.startswith(only)}
    if not chosen:
        raise SystemExit(f"no kind of programs begins with {only!r}: give --only one of {', '.join(kinds)}")
    with tempfile.TemporaryDirectory() as folder:
        for name, kind in chosen.items():
            made = [kind.program(seed + k) for k in range(count)]
            kernels = kind.loaded(made, Path(folder), f"{name}_programs")
            for k, (one, kernel) in enumerate(zip(made, kernels, strict=True)):
                for n in (5, 2):
                    first = said(kernel, one, n, "off")
                    for tier in ("always", "restless"):
                        if said(kernel, one, n, tier) != first:
                            print(f"{name}, seed {seed + k}, n {n}: {tier} differs", flush=True)
                            fine = False
    told = "no difference" if fine else "differences"
    print(f"{len(chosen) * count} random programs, two sizes each, in three tiers: {told}")
    return fine


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0] if __doc__ else "")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--small", action="store_true", help="small sizes")
    size.add_argument("--papers", action="store_true", help="those of the papers, one turn of each")
    parser.add_argument("--only", default="", metavar="NAME", help="the kernels, or kinds, whose names begin so")
    parser.add_argument("--random", type=int, default=0, metavar="N", help="random programs instead of the table")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if given.random:
        return 0 if random_programs(given.random, given.seed, given.only) else 1
    if given.small:
        hot.HOT, hot.SEEN, hot.WORTH, slices.FIRST_SLICE = 200_000, 20_000, 10_000, 10_000
    sizes = SMALL if given.small else PAPERS if given.papers else SIZES
    return 0 if speed(sizes, given.only, 1 if given.papers else TURNS) else 1


if __name__ == "__main__":
    sys.exit(main())
