"""Run the litmus tests of memory models, in every strength, scope and placement, with wsemu and with the axioms of PTX.

    python benchmarks/litmus.py [--workers N] [--shape NAME]...

Each shape of tests/properties/litmus.py is a launch in each of its settings.  By shape and fence, the table has the
number of settings in which the model allows the outcome of the shape, and the number in which it forbids the outcome.
If it is allowed, wsemu has to fail, or be `incomplete` if no interleaving shows it; if it is forbidden, wsemu has to
verify.  The exit code is 1 if wsemu disagrees.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.properties.litmus import FENCES, SHAPES, Setting, asking, may_fail, settings
from tests.properties.strong_programs import verdict


def judged(case: tuple[str, Setting]) -> tuple[bool, str]:
    """Return whether the model allows it, and the verdict of wsemu."""
    name, setting = case
    return may_fail(SHAPES[name], setting), verdict(asking(SHAPES[name], setting))[0]


def complaint(allowed: bool, said: str) -> str:
    if allowed:
        return "missed" if said == "verified" else ""
    return {"failed": "false alarm", "incomplete": "undecided"}.get(said, "")


def show(found: dict[tuple[str, str], Counter[tuple[bool, str]]]) -> None:
    print(f"{'':10} {'allowed, of these failed | forbidden, of these verified':^80}")
    print(f"{'':10} " + " ".join(f"{fence:^20}" for fence in FENCES))
    for name in dict.fromkeys(name for name, _ in found):
        cells = []
        for fence in FENCES:
            counted = found[name, fence]
            allowed, forbidden = (sum(n for (can, _), n in counted.items() if can == may) for may in (True, False))
            cells.append(f"{allowed:3} {counted[True, 'failed']:3} | {forbidden:3} {counted[False, 'verified']:3}")
        print(f"{name:10} " + " ".join(f"{cell:^20}" for cell in cells))


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare litmus tests with the axioms of the PTX memory model.")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, metavar="N", help="processes (all cores)")
    parser.add_argument("--shape", action="append", choices=SHAPES, help="one of them (all)")
    options = parser.parse_args()
    cases = [(name, setting) for name in options.shape or SHAPES for setting in settings()]
    judged(cases[0])  # the engine is compiled once, before there are workers to do it twice
    started = time.perf_counter()
    found: dict[tuple[str, str], Counter[tuple[bool, str]]] = {
        (name, fence): Counter() for name, _ in cases for fence in FENCES
    }
    complaints = []
    with multiprocessing.get_context("spawn").Pool(options.workers) as pool:
        for (name, setting), (allowed, said) in zip(cases, pool.imap(judged, cases, chunksize=8), strict=True):
            found[name, setting.fence][allowed, said] += 1
            if complaint(allowed, said):
                complaints.append(f"{complaint(allowed, said)}: {name}, {setting}")
    show(found)
    seconds = time.perf_counter() - started
    print(
        f"{len(cases):,} launches, {len(complaints):,} disagreements in {seconds:.1f} s with {options.workers} workers"
    )
    print("\n".join(complaints), end="\n" if complaints else "")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
