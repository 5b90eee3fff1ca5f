"""Test the transfer patterns on random transfers.

    python benchmarks/patterns.py [--examples 20000] [--seed 0] [--reference 20] [--workers N]

The benchmark generates transfers of each pattern (`wsemu.strategies`) and runs them with `check_transfer`.  It prints
how many are verified, the time of one whose code was compiled earlier and of one whose code was not, and how many agree
with the reference interpreter.  Of the transfers that are not verified, or on which the engines disagree, it prints the
shortest, ready for `@example(...)`; the exit code is 1 if there is one.

The transfers depend only on the seed and their number.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import statistics
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))
from hypothesis import HealthCheck, Phase, given, seed, settings

from wsemu import TransferCase, check_transfer, strategies
from wsemu.frontend.python import compile as frontend
from wsemu.machine import build as native

STRATEGIES = {
    "sequential": strategies.sequential_transfers,
    "strided": strategies.strided_transfers,
    "indirect": strategies.indirect_transfers,
    "halo": strategies.halo_transfers,
}
SHOWN = 5
"""maximum number of transfers of each pattern that are printed if something is wrong"""


class Part(NamedTuple):
    """The transfers of one pattern."""

    name: str
    examples: int
    seed: int
    reference: int


class Result(NamedTuple):
    """What came of a part."""

    name: str
    unchanged: list[float]
    """CPU seconds of each `check_transfer` whose code was there"""
    compiled: list[float]
    """seconds of the transfers that had to be compiled first"""
    constants: int
    """number of those transfers whose pattern is a constant"""
    largest: int
    """bytes of shared memory"""
    wrong: list[str]
    """transfers that are not verified"""
    agreed: int
    """transfers on which the reference interpreter counts and finds the same"""
    differ: list[str]
    seconds: float
    peak: int
    """MB of the process"""


class Compilations:
    """Counts the compilations of kernels from here on."""

    def __init__(self) -> None:
        self.count = 0
        self.compile = frontend.compile_kernel
        frontend.compile_kernel = self

    def __call__(self, *given: Any, **options: Any) -> Any:
        self.count += 1
        return self.compile(*given, **options)


def work(part: Part) -> Result:
    started = time.perf_counter()
    compilations = Compilations()
    unchanged: list[float] = []
    anew: list[float] = []
    constants = largest = agreed = 0
    wrong: list[str] = []
    differ: list[str] = []

    @seed(part.seed)
    @settings(
        max_examples=part.examples,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(transfer=STRATEGIES[part.name]())
    def run(transfer: TransferCase) -> None:
        nonlocal constants, largest, agreed
        before, began = compilations.count, time.process_time()
        report = check_transfer(transfer)
        seconds = time.process_time() - began
        (unchanged if compilations.count == before else anew).append(seconds)
        constants += transfer.constants and compilations.count > before
        largest = max(largest, report.dynamic_shared)
        if report.verdict != "verified":
            wrong.append(repr(transfer))
        if agreed + len(differ) < part.reference:
            other = check_transfer(transfer, engine="reference")
            if (other.verdict, other.counters, other.findings) == (report.verdict, report.counters, report.findings):
                agreed += 1
            else:
                differ.append(repr(transfer))

    run()
    seconds, peak = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    return Result(part.name, unchanged, anew, constants, largest, wrong, agreed, differ, seconds, peak)


def figures(seconds: list[float]) -> str:
    """Return the median, mean and a high quantile, in milliseconds."""
    if not seconds:
        return "none"
    last = sorted(seconds)[int(0.99 * len(seconds))]
    return " ".join(f"{1e3 * value:7.2f}" for value in (statistics.median(seconds), statistics.mean(seconds), last))


def show(result: Result) -> None:
    total = len(result.unchanged) + len(result.compiled)
    agreement = f"{result.agreed} of {result.agreed + len(result.differ)}"
    print(
        f"{result.name:10} {total:>6,} transfers: {total - len(result.wrong):,} verified; the reference agrees on "
        f"{agreement}; up to {result.largest:,} bytes of shared memory; {result.seconds:.0f} s, {result.peak:,} MB"
    )
    print(f"{'':10} {len(result.unchanged):>6,} code unchanged  {figures(result.unchanged)}")
    print(
        f"{'':10} {len(result.compiled):>6,} compiled first  {figures(result.compiled)}   "
        f"({result.constants:,} of them with a pattern of constants)"
    )
    for title, cases in (("not verified", result.wrong), ("the engines disagree", result.differ)):
        for case in sorted(cases, key=len)[:SHOWN]:
            print(f"    {title}: {case}")


def main() -> int:
    parser = argparse.ArgumentParser(description="Check random transfers of every pattern.")
    parser.add_argument("--examples", type=int, default=20_000, metavar="N", help="transfers of a pattern (20000)")
    parser.add_argument("--seed", type=int, default=0, help="of the transfers (0)")
    parser.add_argument("--reference", type=int, default=20, metavar="N", help="of those on both engines (20)")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, metavar="N", help="processes (all cores)")
    options = parser.parse_args()
    if options.examples < 1 or options.workers < 1:
        parser.error("give 1 or more examples and workers")
    native.load_parts()  # once, before there are workers to do it twice
    parts = [Part(name, options.examples, options.seed, options.reference) for name in STRATEGIES]
    print(f"{'CPU ms of a check_transfer':>32} {'median':>8} {'mean':>7} {'99%':>7}")
    clean = True
    with multiprocessing.get_context("spawn").Pool(options.workers) as pool:
        for result in pool.imap(work, parts):
            show(result)
            clean = clean and not (result.wrong or result.differ)
    return 0 if clean else 1


if __name__ == "__main__":
    sys.exit(main())
