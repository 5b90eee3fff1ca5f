"""One source at several levels of nvcc, on as many random kernels as asked for.

    python benchmarks/levels.py [--programs 400] [--seed 0] [--pointers]

Makes CUDA C++ kernels (tests/properties/level_programs.py), race-free or with a barrier left out, or with `--pointers`
kernels that move pointers, compiles them by nvcc with -O0, -O1, -O3 and -G, and compares verdicts, errors and values.
Needs nvcc, and no GPU.  Prints every disagreement.  Exit code 1 if there is one.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.properties.level_programs import LEVELS, compare_levels, level_program, pointer_program

CHUNK = 40
"""kernels of a file"""


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare what wsemu says of kernels at several levels of nvcc.")
    parser.add_argument("--programs", type=int, default=400, metavar="N", help="random kernels (400)")
    parser.add_argument("--seed", type=int, default=0, help="of the kernels (0)")
    parser.add_argument("--pointers", action="store_true", help="kernels that move pointers")
    options = parser.parse_args()
    make = pointer_program if options.pointers else level_program
    started, complaints, wrong = time.perf_counter(), 0, 0
    for first in range(0, options.programs, CHUNK):
        last = min(first + CHUNK, options.programs)
        kernels = [make(random.Random(f"{options.seed} {k}"), f"k{k}") for k in range(first, last)]
        wrong += sum(kernel.verdict != "verified" for kernel in kernels)
        for complaint in compare_levels(kernels):
            complaints += 1
            print(complaint, flush=True)
    print(f"{options.programs:,} kernels at {', '.join(LEVELS)}, {wrong:,} of them not to be verified")
    print(f"{complaints:,} disagreements in {time.perf_counter() - started:.1f} s, seed {options.seed}")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
