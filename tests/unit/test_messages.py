"""CTAs that tell each other something are decided one by one, whatever they read; what is broken there is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wsemu
from tests.unit import steering_kernels as kernels
from wsemu import cuda
from wsemu.launch.explore import messages, search


@cuda.jit(device=True)
def looked_back(status, values, x, mine, before):
    """The sum of what lies before a tile; what it and the tile are is told to those behind."""
    if mine > 0:
        values[mine, 0] = x[mine]
        cuda.threadfence()
        cuda.atomic.exch(status, mine, 1)
    at = mine - 1
    while at >= 0:
        seen = cuda.atomic.add(status, at, 0)
        if seen == 0:
            continue
        cuda.threadfence()
        before += values[at, seen - 1]
        if seen == 2:
            break
        at -= 1
    values[mine, 1] = before + x[mine]
    cuda.threadfence()
    cuda.atomic.exch(status, mine, 2)
    return before


@cuda.jit
def tickets_look_back(status, values, x, y, count):
    """The number of a tile is drawn: who comes first looks back to nobody."""
    tile = cuda.shared.array(1, np.int32)
    if cuda.threadIdx.x == 0:
        tile[0] = cuda.atomic.add(count, 0, 1)
    cuda.syncthreads()
    mine = tile[0]
    if cuda.threadIdx.x == 0:
        before = looked_back(status, values, x, mine, values[0, 0] * 0)
        y[mine] = before + x[mine]


@cuda.jit
def looks_back(status, values, x, y, count):
    if cuda.threadIdx.x == 0:
        mine = cuda.blockIdx.x
        before = looked_back(status, values, x, mine, x[0] * 0)
        y[mine] = before + x[mine]


@cuda.jit
def sums_that_decide(status, values, x, y, count):
    """What is added up in an order that is open tells where to store."""
    if cuda.threadIdx.x == 0:
        mine = cuda.blockIdx.x
        before = looked_back(status, values, x, mine, x[0] * 0)
        if before > 0.5:
            y[mine] = before


@cuda.jit
def each_waits_for_the_other(status, values, x, y, count):
    if cuda.threadIdx.x == 0:
        other = cuda.gridDim.x - 1 - cuda.blockIdx.x
        while cuda.atomic.add(status, other, 0) == 0:
            pass
        cuda.atomic.exch(status, cuda.blockIdx.x, 1)


@cuda.jit
def written_over_behind_the_flag(status, values, x, y, count):
    if cuda.threadIdx.x == 0:
        if cuda.blockIdx.x == 0:
            values[0, 0] = 1
            cuda.threadfence()
            cuda.atomic.exch(status, 0, 1)
            values[0, 0] = 2
        else:
            while cuda.atomic.add(status, 0, 0) == 0:
                pass
            cuda.threadfence()
            y[cuda.blockIdx.x] = values[0, 0]


@cuda.jit
def only_sometimes_told(status, values, x, y, count):
    """CTA 0 tells of its value only if it has seen the flag of CTA 1."""
    if cuda.threadIdx.x == 0:
        if cuda.blockIdx.x == 0:
            if cuda.atomic.add(status, 1, 0) == 1:
                cuda.atomic.exch(status, 0, 1)
        elif cuda.blockIdx.x == 1:
            cuda.atomic.exch(status, 1, 1)
            while cuda.atomic.add(status, 0, 0) == 0:
                pass


@cuda.jit
def released_on_one_way_alone(status, values, x, y, count):
    """CTA 0 sets one flag on two ways, of which one has no fence."""
    if cuda.threadIdx.x == 0:
        if cuda.blockIdx.x == 0:
            values[0, 0] = 1
            if cuda.atomic.add(status, 1, 0) == 1:
                cuda.threadfence()
            cuda.atomic.exch(status, 0, 1)
        elif cuda.blockIdx.x == 1:
            cuda.atomic.exch(status, 1, 1)
        else:
            while cuda.atomic.add(status, 0, 0) == 0:
                pass
            cuda.threadfence()
            y[0] = values[0, 0]


def arguments(ctas: int, values: Any) -> tuple[Any, ...]:
    x = values[:ctas]
    return kernels.ints(ctas), np.zeros((ctas, 2), x.dtype), x, np.zeros(ctas, x.dtype), kernels.ints(1)


WHOLE = np.ones(16, np.int32)
ROUNDED = np.array([1.0, 1e16, -1e16, 1.0, 1.0])


@pytest.fixture
def no_orders(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise AssertionError("orders were tried")

    monkeypatch.setattr(search.Search, "run", fail)


@pytest.fixture
def proven(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """What was said of each launch that came to be looked at."""
    said: list[bool] = []
    prove = messages.Messages.is_proven

    def kept(self: Any) -> bool:
        said.append(prove(self))
        return said[-1]

    monkeypatch.setattr(messages.Messages, "is_proven", kept)
    return said


@pytest.mark.parametrize("engine", ["vm", "reference"])
@pytest.mark.parametrize("kernel", [looks_back, tickets_look_back])
def test_a_look_back_is_decided_by_what_each_cta_reads(kernel: Any, engine: Any, no_orders: None) -> None:
    launch = arguments(8 if engine == "vm" else 3, WHOLE)
    found = wsemu.check(kernel, len(launch[0]), 32, launch, engine=engine)
    assert found.verdict == "verified", found.notes
    assert "for every value that a CTA can read from another" in found.proof
    assert launch[3].tolist() == list(range(1, len(launch[0]) + 1))


def test_sums_that_differ_by_order_are_told(no_orders: None) -> None:
    found = wsemu.check(looks_back, 5, 32, arguments(5, ROUNDED))
    assert found.verdict == "verified", found.notes
    assert [note for note in found.notes if "may depend on the order of atomics" in note]


@pytest.mark.parametrize(
    ("kernel", "code"),
    [(each_waits_for_the_other, "deadlock"), (written_over_behind_the_flag, "race"), (only_sometimes_told, "deadlock"),
     (released_on_one_way_alone, "race")],
)  # fmt: skip
def test_what_is_broken_is_not_proven(kernel: Any, code: str, proven: list[bool]) -> None:
    found = wsemu.check(kernel, 4, 32, arguments(4, WHOLE), budget=200_000)
    assert found.verdict == "failed", found.notes
    assert code in {finding.code for finding in found.findings}
    assert proven
    assert not any(proven)


def test_rounded_sums_that_decide_are_not_proven_so(proven: list[bool]) -> None:
    wsemu.check(sums_that_decide, 4, 32, arguments(4, ROUNDED))
    assert proven == [False]


@pytest.mark.parametrize("parts", [{"FENCE_BEFORE": False}, {"FENCE_AFTER": False}, {"OFF": -1}])
def test_a_broken_look_back_of_eight_is_found(parts: dict[str, Any]) -> None:
    kernel = kernels.variant(kernels.look_back, **parts)
    found = wsemu.check(kernel, 8, 64, kernels.arguments("look_back", 8))
    assert found.verdict == "failed", found.notes
