"""Run mutated PTX through all tiers of the compiled engine and the reference engine.

    python benchmarks/ptx_mutants.py [--mutants 1000] [--seed 0] [--workers N] [--keep FOLDER]

The benchmark mutates kernels of tests/ptx (tests/ptx_mutants.py) and runs the mutants in children of a warm process, 25
in each child, with limits of time and memory for each mutant.  One in 40 also runs as compiled blocks.  It prints how
many ended with which verdict, and each mutant that ended wrongly: by a signal, with a traceback, with changed bytes
outside of an array, or differently on two engines.  The text of such a mutant is kept in a folder, and it runs once
more, alone.  The exit code is 1 if there is one.  The mutants depend only on the seed.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import multiprocessing
import os
import random
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.ptx_mutants import Ending, Mutant, mutants, run_apart, run_in_turn, warm

CHUNK = 25
"""mutants that a worker makes of one seed"""
COMPILED = 40
"""one mutant in this many also runs as compiled blocks"""


def run_chunk(job: tuple[int, int, int]) -> list[tuple[int, str, str, Ending]]:
    """Run the mutants of a seed; yield for each its number, the change, its text if it is wrong, and how it ended."""
    seed, chunk, count = job
    drawn = list(itertools.islice(mutants(random.Random(f"{seed}:{chunk}")), count))
    endings = zip(drawn, run_in_turn(drawn, COMPILED), strict=True)
    return [_result(CHUNK * chunk + n, mutant, ending) for n, (mutant, ending) in enumerate(endings)]


def _result(number: int, mutant: Mutant, ending: Ending) -> tuple[int, str, str, Ending]:
    """Return the result of a mutant.  A wrong one runs once more, alone, to show whether earlier mutants matter."""
    if not ending.wrong:
        return number, mutant.what, "", ending
    alone = run_apart(mutant, COMPILED).wrong
    if alone != ending.wrong:
        ending = ending._replace(wrong=f"{ending.wrong.strip()}\n    alone: {alone.strip() or 'nothing wrong'}")
    return number, mutant.what, mutant.text, ending


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Runs mutated PTX on all engines.")
    parser.add_argument("--mutants", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--keep", type=Path, default=Path("build/ptx_mutants"), help="folder of the failures")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no more after this long")
    return parser.parse_args()


def main() -> int:
    """Run the campaign; return the exit code."""
    options, started = parse_options(), time.monotonic()
    warm()
    gc.freeze()  # a child's collections then copy no page of its parent
    verdicts: Counter[str] = Counter()
    wrong: list[str] = []
    count = 0
    jobs = [
        (options.seed, chunk, min(CHUNK, options.mutants - CHUNK * chunk))
        for chunk in range(-(-options.mutants // CHUNK))
    ]
    with multiprocessing.get_context("fork").Pool(options.workers) as pool:
        for results in pool.imap_unordered(run_chunk, jobs):
            for number, what, text, ending in results:
                count += 1
                verdicts[ending.verdicts.get("off", "none")] += 1
                if ending.wrong:
                    wrong.append(f"{number}: {what}\n    {ending.wrong.strip()}")
                    print(wrong[-1], flush=True)
                    options.keep.mkdir(parents=True, exist_ok=True)
                    (options.keep / f"{options.seed}-{number}.ptx").write_text(text, encoding="utf-8")
            if time.monotonic() - started > options.seconds:
                pool.terminate()
                break
    ends = ", ".join(f"{name} {number:,}" for name, number in verdicts.most_common())
    print(f"{count:,} mutants in {time.monotonic() - started:.0f} s, seed {options.seed}: {ends}; {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
