"""CTAs that synchronize: how long each kind of kernel takes to decide, and whether wsemu finds what is broken in it.

Prints a row for each kernel of `tests/unit/steering_kernels.py`, `steering_places.py`, `steering_copies.py` and
`steering_groups.py`: the verdict and processor time on `--ctas` CTAs of 64 threads, and the verdicts of its broken
variants.  For kernels that one counter or commuting atomics decide, it also prints the time on 1,000 CTAs.  The exit
code is 1 if a correct kernel is not verified, or a broken one does not fail.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import wsemu
from tests.unit import (
    steering_copies,
    steering_groups,
    steering_kernels,
    steering_places,
    test_orders,
    test_orders_of_groups,
)
from tests.unit.steering_kernels import variant
from tests.unit.test_orders_of_copies import BROKEN as BROKEN_COPIES

MANY = 1_000
TILES = 6
"""number of tiles that are drawn"""


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
    for name, cases in steering_places.BROKEN.items():
        kernel = getattr(steering_places, name)
        said, large = (timed(variant(kernel), n, steering_places.arguments(name, n)) for n in (ctas, MANY))
        broken = [timed(variant(kernel, **p), ctas, steering_places.arguments(name, ctas))[0] for p, _ in cases]
        good &= row(name, *said, broken, f"{large[1]:.2f}" if large[0] == "verified" else large[0])
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
