"""The verdict against enumeration, on as many random programs as asked for.

    python benchmarks/soundness.py [--programs 100000] [--seed 0] [--workers N]

Makes programs of barriers and accesses (tests/properties/programs.py), enumerates the interleavings of each
(explorer.py), and compares wsemu's report with them (agreement.py): the compiled engine runs every program, as data of
one kernel; every tenth also has a kernel of its own, and every twentieth runs in the reference interpreter.  Prints the
programs of each family by what can go wrong in them, and every disagreement.  Exit code 1 if there is one.

The programs depend on the seed alone, not on the number of workers.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import sys
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.properties.agreement import judged
from tests.properties.explorer import FAULTS, Program, notation
from tests.properties.programs import FAMILIES, check_interpreted, smaller

CHUNK = 250
"""programs that a worker takes at a time"""
OWN_KERNEL, REFERENCE = 10, 20
"""one in so many programs gets a kernel of its own, or is run by the reference interpreter as well"""
SHOWN = 20
"""disagreements that are printed in full"""


class Part(NamedTuple):
    """A chunk of one family: which, its seed, and how many programs."""

    family: str
    seed: str
    programs: int


class Result(NamedTuple):
    """What came of a part."""

    family: str
    found: Counter[str]
    """programs by what can go wrong in them; one that can go wrong in two ways counts for both"""
    checks: Counter[str]
    """checks by the way in which wsemu was given the program"""
    complaints: list[str]


def ways(k: int) -> list[str]:
    """How the k-th program of a part is given to wsemu."""
    return ["vm", *["vm, own kernel"] * (k % OWN_KERNEL == 0), *["reference"] * (k % REFERENCE == 1)]


def work(part: Part) -> Result:
    source = random.Random(part.seed)
    result = Result(part.family, Counter(), Counter(), [])
    for k in range(part.programs):
        program = FAMILIES[part.family](source)
        chosen = ways(k)
        found = judged(program, chosen)
        result.found.update(found.outlook.faults)
        result.found["failed" if found.outlook.faults else "verified"] += 1
        result.checks.update(chosen)
        if found.complaints:
            result.complaints.append(f"{found}\n    smaller: {notation(smallest(program, chosen))}")
    return result


def smallest(program: Program, chosen: list[str]) -> Program:
    """A part of the program on which there is a disagreement too."""
    return smaller(program, lambda shorter: bool(judged(shorter, chosen).complaints))


def parts(programs: int, seed: int) -> list[Part]:
    """All that is to be done: each family makes half of the programs."""
    made = []
    for number, family in enumerate(FAMILIES):
        share = (programs + number) // len(FAMILIES)
        for start in range(0, share, CHUNK):
            made.append(Part(family, f"{family} {seed} {start}", min(CHUNK, share - start)))
    return made


def show(family: str, found: Counter[str]) -> None:
    total = found["verified"] + found["failed"]
    share = found["verified"] / total if total else 0.0
    kinds = ", ".join(f"{fault} {found[fault]:,}" for fault in FAULTS)
    print(f"{family:9} {total:>9,} programs: {found['verified']:,} verified ({share:.0%}), {found['failed']:,} failed")
    print(f"{'':9} {'':>9} of those can show: {kinds}")


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare wsemu's verdicts with enumeration of all interleavings.")
    parser.add_argument("--programs", type=int, default=100_000, metavar="N", help="random programs (100000)")
    parser.add_argument("--seed", type=int, default=0, help="of the programs (0)")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, metavar="N", help="processes (all cores)")
    options = parser.parse_args()
    if options.programs < 1 or options.workers < 1:
        parser.error("give 1 or more programs and workers")
    check_interpreted(((), ()))  # the engine is compiled once, before there are workers to do it twice
    started = time.perf_counter()
    found = {family: Counter[str]() for family in FAMILIES}
    checks: Counter[str] = Counter()
    complaints: list[str] = []
    with multiprocessing.get_context("spawn").Pool(options.workers) as pool:
        for result in pool.imap(work, parts(options.programs, options.seed)):
            found[result.family].update(result.found)
            checks.update(result.checks)
            complaints += result.complaints
    seconds = time.perf_counter() - started
    for family, counted in found.items():
        show(family, counted)
    print("checks:", ", ".join(f"{number:,} {way}" for way, number in checks.items()))
    print(f"{len(complaints):,} disagreements in {seconds:.1f} s with {options.workers} workers, seed {options.seed}")
    print("\n".join(complaints[:SHOWN]), end="\n" if complaints else "")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
