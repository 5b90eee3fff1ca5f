"""Kernels in PTX whose CTAs meet, on the GPU: in clusters, cooperative grids, and by atomics.  The driver compiles
them, and each of 20 launches gives what the emulator gives, bit for bit.  Those in Python are among the programs of
test_agreement.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import wsemu
from tests.unit.test_steering_ptx import CTAS, KERNELS

PTX = Path(__file__).parents[1] / "ptx"
LAUNCHES = 20
THREADS = 64
OPEN = ("sched", "once")
"""what they leave depends on the order of atomics"""


class Case(NamedTuple):
    """A launch."""

    file: str
    kernel: str
    grid: Any
    block: int
    arguments: tuple[Any, ...]
    cluster: Any = None
    """None: as the kernel asks"""
    shared: int = 0

    def __str__(self) -> str:
        return f"{self.kernel}-{self.grid}"


def ints(n: int) -> Any:
    return np.zeros(n, np.int32)


def stencil(ctas: int, steps: int) -> Case:
    x = np.arange(ctas * THREADS, dtype=np.float32)
    return Case("cooperative.sm_90", "stencil", ctas, THREADS, (x, np.zeros_like(x), x.size, steps))


X = np.arange(512, dtype=np.float32)
INPUT = np.random.default_rng(0).integers(0, 16, 256).astype(np.int32)
CASES = [
    Case("clusters.sm_90a", "histogram", 4, 32, (ints(16), np.int32(16), INPUT, np.int32(256)), shared=64),
    Case("clusters.sm_90a", "reduce", 4, 32, (np.zeros(4, np.float32), X), 2),
    Case("clusters.sm_90a", "pass_on", 4, 32, (ints(128), np.arange(128, dtype=np.int32))),
    Case("clusters.sm_90a", "multicast", 4, 32, (np.zeros(128, np.float32), X)),
    Case("clusters.sm_90a", "whereabouts", (4, 2), 32, (np.zeros(64, np.uint32),), (2, 2)),
    stencil(8, 5),
    stencil(64, 3),
    Case("cooperative.sm_90", "split", 16, THREADS, (ints(16 * THREADS), ints(16 * THREADS))),
    Case("cooperative.sm_90", "tiles", 1, THREADS, (ints(THREADS), ints(THREADS))),
    *(Case("steering.sm_90", f"{name}_0", CTAS, THREADS, arguments(CTAS), CTAS if name == "clreduce" else None)
      for name, (arguments, _, _) in KERNELS.items() if name not in OPEN),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_launch_gives_what_the_emulator_gives(case: Case) -> None:
    kernel = wsemu.load_ptx(PTX / f"{case.file}.ptx")[case.kernel]
    given = {"dynamic_shared": case.shared, "cluster": case.cluster, "launches": LAUNCHES}
    wsemu.crosscheck(kernel, case.grid, case.block, case.arguments, **given).assert_same()
