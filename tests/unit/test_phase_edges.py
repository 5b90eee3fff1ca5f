"""What explanations know of the order that mbarriers make, and how witnesses with a copy in them are replayed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import wsemu
from tests.unit.async_program import EMPTY, FULL
from tests.unit.async_program import places as program
from wsemu import cuda, ptx
from wsemu.launch.replay.run import Replay, replay
from wsemu.launch.replay.witness_file import Witness
from wsemu.model.isa import RELAXED
from wsemu.model.outcome import Event
from wsemu.proof.phase_edges import PhaseOrder, relaxed_operations

if TYPE_CHECKING:
    from pathlib import Path

ARRIVE, WAIT, QUIET = 0, 1, 2


def order(*events: tuple[Any, int, int, int, int, int]) -> PhaseOrder:
    """The clocks behind some events, (kind, warp, interval, instruction, mbarrier, phase) each."""
    made = PhaseOrder(False, (), {QUIET})
    for kind, warp, interval, pc, place, phase in events:
        made.apply(Event(kind, 0, warp, interval, pc, place, phase))
    return made


def test_what_precedes_an_arrive_is_known_behind_a_wait_for_its_phase() -> None:
    made = order(("arrive_on", 0, 3, ARRIVE, FULL, 1), ("await", 1, 1, WAIT, FULL, 1))
    assert made.before((0, 0, 3), (0, 1))
    assert not made.before((0, 0, 4), (0, 1))


@pytest.mark.parametrize(("place", "phase"), [(FULL, 0), (EMPTY, 1)])
def test_a_wait_takes_what_its_own_phase_was_given_alone(place: int, phase: int) -> None:
    made = order(("arrive_on", 0, 3, ARRIVE, FULL, 1), ("await", 1, 1, WAIT, place, phase))
    assert not made.before((0, 0, 3), (0, 1))


def test_a_relaxed_arrive_gives_nothing_and_a_new_mbarrier_has_nothing() -> None:
    assert not order(("arrive_on", 0, 3, QUIET, FULL, 1), ("await", 1, 1, WAIT, FULL, 1)).before((0, 0, 3), (0, 1))
    anew = order(("arrive_on", 0, 3, ARRIVE, FULL, 0), ("init", 2, 1, 0, FULL, 0), ("await", 1, 1, WAIT, FULL, 0))
    assert not anew.before((0, 0, 3), (0, 1))


def test_relaxed_operations_are_known_by_their_aux(tmp_path: Path) -> None:
    places = program(
        tmp_path, ("mbarrier.arrive", 1), ("mbarrier.arrive", 2, RELAXED), ("mbarrier.expect_tx", 3, RELAXED)
    )
    assert relaxed_operations(places.program) == {1}


# -- replay -----------------------------------------------------------------------------------------------------------
@cuda.jit
def read_too_early(x, y):
    tile = cuda.shared.array(64, np.float32, 16)
    full = cuda.shared.array(1, np.uint64)
    t = cuda.threadIdx.x
    tile[t] = 0
    if t == 0:
        ptx.mbarrier_init(full, 0, 1)
    ptx.fence_proxy_async()
    cuda.syncthreads()
    if t == 0:
        ptx.mbarrier_arrive_expect_tx(full, 0, 256)
        ptx.cp_async_bulk_global_to_shared(tile, 0, x, 0, 256, full, 0)
    if t >= 32:
        y[t] = tile[t]
    ptx.mbarrier_wait_parity(full, 0, 0)


@cuda.jit
def one_byte_row_missing(x, y):
    tile = cuda.shared.array(64, np.float32, 16)
    full = cuda.shared.array(1, np.uint64)
    t = cuda.threadIdx.x
    if t == 0:
        ptx.mbarrier_init(full, 0, 1)
    cuda.syncthreads()
    if t == 0:
        ptx.mbarrier_arrive_expect_tx(full, 0, 256)
        ptx.cp_async_bulk_global_to_shared(tile, 0, x, 0, 240, full, 0)
    ptx.mbarrier_wait_parity(full, 0, 0)
    y[t] = tile[t]


def arrays() -> tuple[Any, Any]:
    return np.ones(64, np.float32), np.zeros(64, np.float32)


def replayed(kernel: Any, code: str) -> Replay:
    report = wsemu.check(kernel, 1, 64, arrays())
    found = next(finding for finding in report.findings if finding.code == code)
    return replay(Witness.of(report, found), kernel, arrays())


def test_a_race_with_a_copy_is_replayed_with_the_values_of_both_orders() -> None:
    done = replayed(read_too_early, "race")
    assert done.element == "tile[32]"
    assert [step.does for step in done.steps if step.mark] == ["load", "bulk.load"]
    assert [next(m.value for m in order.made if m.does == "load") for order in done.orders] == ["0.0", "1.0"]


def test_a_wait_for_bytes_that_never_come_is_replayed() -> None:
    done = replayed(one_byte_row_missing, "deadlock")
    assert done.end == "deadlock"
    assert {(wait.warp, wait.place) for wait in done.phases} == {(0, "full[0] phase 0"), (1, "full[0] phase 0")}
    assert done.held == []
