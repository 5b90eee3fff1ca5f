"""Kernels that atomics steer, in the spellings of CUDA C++: what is missing in their twins is found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wsemu
from tests.unit.steering_kernels import ints

PTX = Path(__file__).parents[1] / "ptx" / "steering.sm_90.ptx"
CTAS = 2


def numbers(n: int) -> Any:
    return np.arange(n, dtype=np.int32) % 7 - 2


def reduction(n: int) -> tuple[Any, ...]:
    return numbers(64 * n), ints(n), ints(1), ints(1)


def lock(n: int) -> tuple[Any, ...]:
    return ints(1), ints(1)


def lock_of_ctas(n: int) -> tuple[Any, ...]:
    return ints(2), ints(64)


def fix_up(n: int) -> tuple[Any, ...]:
    return ints(1), ints(64 * n), ints(64)


RACE, STUCK = "race", "deadlock"
KERNELS: dict[str, tuple[Any, str, str]] = {
    "red_wrap": (reduction, RACE, RACE),
    "red_asm": (reduction, RACE, RACE),
    "spin_exch": (lock, RACE, RACE),
    "spin_vol": (lock, RACE, RACE),
    "spin_ttas": (lock, RACE, RACE),
    "spin_asm": (lock_of_ctas, RACE, RACE),
    "ticket_vol": (lock_of_ctas, RACE, RACE),
    "ticket_ref": (lock_of_ctas, RACE, STUCK),
    "ticket_cta": (lock_of_ctas, RACE, RACE),
    "lb_plain": (lambda n: (ints(n), ints(n), ints(n), numbers(n), ints(n)), RACE, RACE),
    "fixup": (fix_up, RACE, RACE),
    "fixup2": (fix_up, RACE, RACE),
    "once": (lambda n: (ints(1), ints(1), ints(n)), RACE, RACE),
    "sched": (lambda n: (ints(1), numbers(64 * (n + 2)), ints(64 * (n + 2)), n + 2), "intra-warp-race", RACE),
    "clreduce": (lambda n: (numbers(64 * n), ints(n)), "dsmem-before-start", "dsmem-after-exit"),
    "semaphore": (lambda n: (ints(1), ints(64)), RACE, RACE),
    "gsync": (lambda n: (ints(64 * n), ints(64 * n)), RACE, STUCK),
}
"""kernel -> what it is launched with, and a code of what is found in its two twins"""


@pytest.fixture(scope="module")
def module() -> Any:
    return wsemu.load_ptx(PTX)


def report(module: Any, name: str, number: int, ctas: int = CTAS, **options: Any) -> wsemu.Report:
    return wsemu.check(module[f"{name}_{number}"], ctas, 64, KERNELS[name][0](ctas), **options)


@pytest.mark.parametrize("name", KERNELS)
def test_a_correct_kernel_is_verified(module: Any, name: str) -> None:
    found = report(module, name, 0)
    assert found.verdict == "verified", found.notes


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("name", KERNELS)
def test_what_is_missing_is_found(module: Any, name: str, number: int) -> None:
    found = report(module, name, number)
    assert found.verdict == "failed", found.notes
    assert KERNELS[name][number] in {finding.code for finding in found.findings}


@pytest.mark.parametrize(("name", "number"), [("red_wrap", 0), ("spin_ttas", 1), ("semaphore", 2), ("fixup", 0)])
def test_both_engines_say_the_same(module: Any, name: str, number: int) -> None:
    untold = {"seconds", "counters"}
    one, other = (report(module, name, number, engine=e).model_dump(exclude=untold) for e in ("vm", "reference"))
    assert one == other


def test_whichever_cta_of_many_comes_last() -> None:
    found = report(wsemu.load_ptx(PTX), "red_wrap", 0, 40)
    assert found.verdict == "verified"
    assert found.proof.endswith("whichever CTA comes last")
