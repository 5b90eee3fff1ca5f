"""Compare sums of tensor cores with records of hardware: `python benchmarks/tensor_core.py FILE.npz ...`.

A file has, for each operation NAME of `wsemu.model.matrix.MMA`, the bits NAME/a [tiles, m, k], NAME/b [tiles, k, 8],
NAME/c and NAME/d [tiles, m, 8], as in `tests/data/tensor_core.npz`.  The benchmark prints how many sums are equal, and
how long they took; the exit code is 1 if one differs.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.unit.matrix_kernels import run
from wsemu.model.matrix import MMA


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--engine", default="vm", choices=("vm", "reference"))
    options = parser.parse_args()
    differ = 0
    for path in options.files:
        with np.load(path) as file:
            for name in sorted({key.rpartition("/")[0] for key in file}):
                a, b, c, d = (file[f"{name}/{x}"] for x in "abcd")
                start = time.perf_counter()
                same = int((run(MMA[name], a, b, c, engine=options.engine) == d).sum())
                differ += d.size - same
                print(f"{name}: {same:,} of {d.size:,} in {time.perf_counter() - start:.2f} s")
    return int(differ > 0)


if __name__ == "__main__":
    sys.exit(main())
