"""CTAs that meet: what each kind of kernel takes to be decided, and whether what is broken in it is found.

Prints a row for each kernel of `tests/unit/steering_kernels.py`, `steering_copies.py` and `steering_groups.py`: verdict
and processor time on `--ctas` CTAs of 64 threads, verdicts of its broken variants, and for those that one counter or
commuting atomics decide the time on 1,000 CTAs.  A right kernel that is not verified, or a broken one that does not
fail, makes the exit code 1.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np

import wsemu
from tests.unit import steering_copies, steering_groups, steering_kernels, test_orders, test_orders_of_groups
from tests.unit.steering_kernels import ints, variant
from tests.unit.test_orders_of_copies import BROKEN as BROKEN_COPIES
from wsemu import cuda

MANY = 1_000
TILES = 6
"""that are drawn"""


def histogram(x: Any, bins: Any) -> None:
    """Counts by atomics whose results nobody uses."""
    cuda.atomic.add(bins, x[cuda.grid(1)] % 16, 1)


def slots(count: Any, x: Any, y: Any) -> None:
    """A histogram whose slots are returned: each value goes to a place of its own."""
    i = cuda.grid(1)
    y[cuda.atomic.add(count, 0, 1)] = x[i]


def compaction(count: Any, x: Any, y: Any) -> None:
    """Positive values, packed: a warp gets as many places as it needs by one atomic."""
    i = cuda.grid(1)
    lane = cuda.threadIdx.x % 32
    keeps = x[i] > 0
    votes = cuda.ballot_sync(0xFFFFFFFF, keeps)
    first = 0
    if lane == 0:
        first = cuda.atomic.add(count, 0, cuda.popc(votes))
    first = cuda.shfl_sync(0xFFFFFFFF, first, 0)
    if keeps:
        y[first + cuda.popc(votes & ((1 << lane) - 1))] = x[i]


COMMUTING = {"histogram": histogram, "slots": slots, "compaction": compaction}


def arguments(name: str, ctas: int) -> tuple[Any, ...]:
    x = np.arange(64 * ctas, dtype=np.int32) % 7 - 2
    return (np.abs(x), ints(16)) if name == "histogram" else (ints(1), x, ints(64 * ctas))


def timed(kernel: Any, ctas: int, given: tuple[Any, ...], **options: Any) -> tuple[str, float]:
    """(verdict, seconds of processor time)"""
    start = time.process_time()
    report = wsemu.check(kernel, ctas, 64, given, **options)
    return report.verdict, time.process_time() - start


def row(name: str, verdict: str, seconds: float, broken: list[str], many: str = "") -> bool:
    print(f"| {name} | {verdict} | {seconds:.2f} | {', '.join(broken) or '-'} | {many or '-'} |", flush=True)
    return verdict == "verified" and set(broken) <= {"failed"} and not many.startswith(("failed", "incomplete"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ctas", type=int, default=8)
    ctas = parser.parse_args().ctas
    wsemu.check(variant(steering_kernels.spin_lock), 2, 64, steering_kernels.arguments("spin_lock", 2))
    print(f"| kernel | verdict | seconds, {ctas} CTAs | broken ones | seconds, {MANY:,} CTAs |\n|---|---|---|---|---|")
    good = True
    for name, cases in test_orders.BROKEN.items():
        kernel = getattr(steering_kernels, name)
        said = timed(variant(kernel), ctas, steering_kernels.arguments(name, ctas))
        broken = [timed(variant(kernel, **p), 3, steering_kernels.arguments(name, 3))[0] for p, _ in cases]
        many = ""
        if name == "last_block":
            verdict, seconds = timed(variant(kernel), MANY, steering_kernels.arguments(name, MANY))
            many = f"{seconds:.2f}" if verdict == "verified" else verdict
        good &= row(name, *said, broken, many)
    for name, kernel in COMMUTING.items():
        said, large = (timed(cuda.jit(kernel), n, arguments(name, n)) for n in (ctas, MANY))
        good &= row(name, *said, [], f"{large[1]:.2f}" if large[0] == "verified" else large[0])
    for name in dict.fromkeys(name for name, _, _ in BROKEN_COPIES):
        kernel = getattr(steering_copies, name)
        said = timed(variant(kernel), ctas, steering_copies.arguments(name, ctas, TILES))
        cases_ = [parts for other, parts, _ in BROKEN_COPIES if other == name]
        broken = [timed(variant(kernel, **p), 2, steering_copies.arguments(name, 2, 2))[0] for p in cases_]
        good &= row(name, *said, broken)
    for name, group in test_orders_of_groups.BROKEN.items():
        kernel, size = getattr(steering_groups, name), steering_groups.CLUSTERS[name]
        options = {"cluster": size} if size else {}
        said = timed(variant(kernel), ctas, steering_groups.arguments(name, ctas), **options)
        broken = [
            timed(variant(kernel, **p), ctas, steering_groups.arguments(name, ctas), **options)[0] for p, _ in group
        ]
        good &= row(name, *said, broken)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
