"""Two doors, on as many random kernels as asked for: wsemu's front end, and Numba-CUDA's PTX.

    python benchmarks/doors.py [--programs 3000] [--seed 0] [--workers N]

Makes kernels of Numba's dialect (tests/properties/door_programs.py), runs each from its source and from the PTX that
Numba-CUDA makes of it, and compares bits, verdicts and the codes of errors.  It needs Numba-CUDA with its compiler
(`pip install 'wsemu[gpu]'`), and no GPU.  Prints how many programs had which outcome, and every disagreement.  Exit
code 1 if there is one.

The programs depend on the seed alone, not on the number of workers.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import sys
import time
import warnings
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.properties.door_programs import Compared, compare_doors, door_program
from wsemu.backends import numba_cuda
from wsemu.model.errors import UsageError

CHUNK = 5
"""number of programs that a worker processes at a time"""
SHOWN = 20
"""disagreements that are printed in full"""


def work(seed: str) -> tuple[str, Compared]:
    """Compare the doors on one program."""
    warnings.simplefilter("ignore")
    program = door_program(random.Random(seed))
    return f"seed {seed!r}\n{program}", compare_doors(program)


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare wsemu's front end with Numba-CUDA's PTX on random kernels.")
    parser.add_argument("--programs", type=int, default=3_000, metavar="N", help="random kernels (3000)")
    parser.add_argument("--seed", type=int, default=0, help="of the kernels (0)")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, metavar="N", help="processes (all cores)")
    options = parser.parse_args()
    if options.programs < 1 or options.workers < 1:
        parser.error("give 1 or more programs and workers")
    try:
        numba_cuda.numba_cuda()
    except UsageError as error:
        parser.error(str(error))
    started = time.perf_counter()
    found: Counter[str] = Counter()
    complaints = 0
    seeds = [f"{options.seed} {k}" for k in range(options.programs)]
    with multiprocessing.get_context("spawn").Pool(options.workers) as pool:
        for text, compared in pool.imap(work, seeds, CHUNK):
            found[compared.outcome] += 1
            if compared.complaint:
                complaints += 1
                if complaints <= SHOWN:
                    print(f"{compared.complaint}\n{text}", flush=True)
    print(", ".join(f"{count:,} {outcome}" for outcome, count in found.most_common()))
    print(f"{complaints:,} disagreements in {time.perf_counter() - started:.1f} s with {options.workers} workers")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
