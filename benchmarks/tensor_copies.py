"""Compare every byte of tensor copies with records of an H100.

    python benchmarks/tensor_copies.py FILE ... [--engine vm|reference] [--every N]

Each file has copies in the format that tests/tensor_kernels.py reads: the fields of a map, coordinates, and the
contents of memory after the copy.  The benchmark performs each copy by a kernel in PTX.  For each file it prints the
numbers of copies and bytes, how many bytes differ, and how many mbarriers were credited with another number of bytes.
The exit code is 1 if there are any, or if a launch is not `verified`.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests import tensor_kernels as kernels


def main() -> int:
    """Compare the copies in the files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--engine", choices=("vm", "reference"), default="vm")
    parser.add_argument("--every", type=int, default=1, help="take one record of so many")
    options = parser.parse_args()
    bad = 0
    for file in options.files:
        started = time.perf_counter()
        taken = kernels.records(file)[:: options.every]
        different = credits_ = unverified = 0
        for record in taken:
            bytes_, report = kernels.differing(record, options.engine)
            different += bytes_
            credits_ += record.mode == kernels.LOAD and record.tx != record.fields.tile_bytes
            unverified += report.verdict != "verified"
        compared = sum(len(record.image) for record in taken)
        print(
            f"{file.name}: {len(taken):,} copies, {compared:,} bytes written: {different:,} differ, {credits_:,} "
            f"credits differ, {unverified:,} launches not verified; {time.perf_counter() - started:.1f} s"
        )
        bad += different + credits_ + unverified
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
