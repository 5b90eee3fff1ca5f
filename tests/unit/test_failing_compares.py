"""A `cas` that fails writes nothing: beside a read it is a race where some order lets it write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import wsemu
from tests.properties.memory_model import ATOMIC, READ, WRITE, Operation, Thread
from tests.properties.strong_programs import ptx as write_ptx
from wsemu import cuda, ptx
from wsemu.cuda import uint32

if TYPE_CHECKING:
    from wsemu.model.settings import Engine

_RACES = [("failed", {"race"}), ("failed", {"race", "intra-warp-race"}), ("failed", {"intra-warp-race"})]
ENGINES = pytest.mark.parametrize("engine", ["vm", "reference"])


@cuda.jit
def fails(flag: Any, out: Any) -> None:
    """One thread's `cas` never finds what it compares with."""
    t = cuda.threadIdx.x
    if t == 0:
        cuda.atomic.cas(flag, 0, uint32(5), uint32(1))
    if t == 32:
        out[0] = flag[0]


@cuda.jit
def writes(flag: Any, out: Any) -> None:
    """One thread's `cas` writes."""
    t = cuda.threadIdx.x
    if t == 0:
        cuda.atomic.cas(flag, 0, uint32(0), uint32(1))
    if t == 32:
        out[0] = flag[0]


@cuda.jit
def writes_in_another_order(flag: Any, out: Any) -> None:
    """The `cas` of the first warp fails here, and writes if the second one's exchange comes first."""
    t = cuda.threadIdx.x
    if t == 0:
        cuda.atomic.cas(flag, 0, uint32(1), uint32(2))
    if t == 32:
        cuda.atomic.exch(flag, 0, uint32(1))
    if t >= 32:
        ptx.bar_sync(1, 64)
    if t == 64:
        out[0] = flag[0]


@cuda.jit
def observes_what_writes(flag: Any, out: Any) -> None:
    """The `cas` of the second warp fails here; if it is first, the other `cas` observes it before the read."""
    t = cuda.threadIdx.x
    if t == 0:
        cuda.atomic.cas(flag, 0, uint32(0), uint32(1))
        out[0] = flag[0]
    if t == 32:
        cuda.atomic.cas(flag, 0, uint32(0), uint32(1))


@cuda.jit
def fails_beside_lanes(flag: Any, out: Any) -> None:
    """The first lane's `cas` lets those of the others fail."""
    t = cuda.threadIdx.x
    cuda.atomic.cas(flag, 0, uint32(0), uint32(1))
    if t >= 32:
        out[t] = flag[0]


def check(kernel: Any, threads: int, engine: Engine) -> Any:
    return wsemu.check(kernel, 1, threads, (np.zeros(1, np.uint32), np.zeros(96, np.uint32)), engine=engine)


@ENGINES
@pytest.mark.parametrize("kernel", [fails, observes_what_writes])
def test_read_beside_a_cas_that_fails_or_is_observed_is_no_race(kernel: Any, engine: Engine) -> None:
    assert check(kernel, 64, engine).verdict == "verified"


@ENGINES
@pytest.mark.parametrize("kernel", [writes, fails_beside_lanes])
def test_read_beside_a_cas_that_writes_in_some_order_is_a_race(kernel: Any, engine: Engine) -> None:
    report = check(kernel, 96, engine)
    assert (report.verdict, {finding.code for finding in report.errors}) in _RACES


@ENGINES
def test_cas_that_fails_in_this_order_alone_proves_nothing(engine: Engine) -> None:
    assert check(writes_in_another_order, 96, engine).verdict == "incomplete"


@ENGINES
def test_lock_word_read_in_its_critical_section_by_a_vector(engine: Engine) -> None:
    """The owner of a lock loads it with its data; the other thread's `cas` fails meanwhile.  A strong store of a vector
    meets one of an element, which is not modelled."""
    taken = Operation(ATOMIC, "f", 1, "acquire", "gpu", "l", "cas")
    held, lost = ("l", 0, True), ("l", 0, False)
    whole = [Operation(READ, place, guard=held, joined=place != "g") for place in ("x", "y", "f", "g")]
    left = [
        Operation(WRITE, "f", 0, "release", "gpu", guard=lost, joined=True),
        Operation(WRITE, "g", 2, "release", "gpu", guard=lost),
    ]
    rest = [Operation(READ, "x", guard=held), Operation(WRITE, "f", 0, "release", "gpu", guard=held)]
    source, grid, warps = write_ptx((Thread(0, (taken, *whole, *left)), Thread(1, (taken, *rest))))
    kernel = wsemu.load_ptx(source)["k"]
    report = wsemu.check(kernel, grid, 32 * warps, (np.zeros(16, np.uint32),), engine=engine)
    assert (report.verdict, report.errors) == ("incomplete", [])
