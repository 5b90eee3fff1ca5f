"""CTAs that differ in nothing but where their results lie count as one; those that differ in more do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wsemu
from tests.unit import steering_kernels as kernels
from wsemu import cuda
from wsemu.launch.explore import search


def in_turn(mutex: Any, count: Any, y: Any, z: Any) -> None:
    """A lock, and what each CTA leaves under its number."""
    if cuda.threadIdx.x == 0:
        while cuda.atomic.cas(mutex, 0, 0, 1) != 0:
            pass
        cuda.threadfence()
        mine = count[0]
        count[0] = mine + 1
        cuda.threadfence()
        cuda.atomic.exch(mutex, 0, 0)
        ends(mine, y, z)


def ends(mine: Any, y: Any, z: Any) -> None:
    y[cuda.blockIdx.x] = 1


@cuda.jit
def one_of_their_own(mine, y, z):
    y[cuda.blockIdx.x] = 1


@cuda.jit
def whose_turn_it_was(mine, y, z):
    y[cuda.blockIdx.x] = mine


@cuda.jit
def one_for_two(mine, y, z):
    y[cuda.blockIdx.x // 2] = 1


@cuda.jit
def one_is_looked_at(mine, y, z):
    y[cuda.blockIdx.x] = 1
    if mine == 2:
        z[0] = y[0]


@cuda.jit
def one_too_far(mine, y, z):
    y[cuda.blockIdx.x + 1] = 1


@cuda.jit
def the_second_one_goes_wrong(mine, y, z):
    y[cuda.blockIdx.x] = 1
    if cuda.blockIdx.x == 1:
        z[mine] = 1
    elif mine == 2:
        z[1] = 2


def report(ends: Any, ctas: int = 3, engine: Any = "vm") -> wsemu.Report:
    kernel = kernels.variant(in_turn, cuda=cuda, ends=ends)
    return wsemu.check(kernel, ctas, 32, tuple(kernels.ints(n) for n in (1, 1, ctas, 3)), engine=engine)


@pytest.fixture
def by_names(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether CTAs counted as one by the end of each search."""
    seen: list[bool] = []
    run = search.Search.run

    def counted(self: Any) -> Any:
        found = run(self)
        seen.append(self.alike and self.named is not None)
        return found

    monkeypatch.setattr(search.Search, "run", counted)
    return seen


def test_eight_that_check_twice_are_decided(by_names: list[bool]) -> None:
    found = wsemu.check(kernels.variant(kernels.checked_twice), 8, 64, kernels.arguments("checked_twice", 8))
    assert found.verdict == "verified", found.notes
    assert by_names == [True]


def test_sixteen_that_check_twice_are_decided_by_their_counts() -> None:
    found = wsemu.check(kernels.variant(kernels.checked_twice), 16, 64, kernels.arguments("checked_twice", 16))
    assert found.verdict == "verified", found.notes
    assert "however many CTAs stand where" in found.proof


def test_one_of_sixteen_that_keeps_a_lock_is_found() -> None:
    kernel = kernels.variant(kernels.checked_twice, UNLOCKS=False)
    assert wsemu.check(kernel, 16, 64, kernels.arguments("checked_twice", 16)).verdict == "failed"


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_results_that_differ_by_order_are_told(engine: Any, by_names: list[bool]) -> None:
    one, other = report(one_of_their_own, engine=engine), report(whose_turn_it_was, engine=engine)
    assert one.verdict == other.verdict == "verified"
    assert by_names == [True, True]
    assert not [note for note in one.notes if "final contents" in note]
    assert [note for note in other.notes if "which CTA leaves which value is not decided" in note]


@pytest.mark.parametrize(
    ("ends", "code"),
    [(one_for_two, "race"), (one_is_looked_at, "race"), (one_too_far, "out-of-bounds"),
     (the_second_one_goes_wrong, "race")],
)  # fmt: skip
def test_ctas_that_differ_in_more_are_not_one(ends: Any, code: str, by_names: list[bool]) -> None:
    found = report(ends)
    assert found.verdict == "failed"
    assert code in {finding.code for finding in found.findings}
    assert not any(by_names)


def test_what_lies_there_before_tells_ctas_apart(by_names: list[bool]) -> None:
    arguments = kernels.ints(1), kernels.ints(1), np.arange(3, dtype=np.int32), kernels.ints(3)
    kernel = kernels.variant(in_turn, cuda=cuda, ends=one_of_their_own)
    assert wsemu.check(kernel, 3, 32, arguments).verdict == "verified"
    assert by_names == [False]
