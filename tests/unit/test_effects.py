"""What `model/effects.py` says of an operation is what reports, time lines, replays and analyses say of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import wsemu
from tests.unit.async_program import FULL, TILE, places
from wsemu import KernelError, cuda, ptx
from wsemu.checkers import words
from wsemu.launch import tracing
from wsemu.launch.result import Report
from wsemu.launch.verdict import count
from wsemu.model import effects, isa
from wsemu.model.effects import (
    ASYNCHRONOUS_PROXY,
    BRINGS,
    COMBINES,
    EFFECTS,
    OUTSIDE,
    PUTS,
    Effects,
    effects_of,
    find_names,
)
from wsemu.model.isa import CP_ASYNC, NAMES, OPERATIONS
from wsemu.model.matrix import WGMMA
from wsemu.model.outcome import Event, Trace
from wsemu.reference.asynchronous import FAMILIES

if TYPE_CHECKING:
    from pathlib import Path

    from wsemu.launch.timeline import Timeline

A_WGMMA = next(iter(WGMMA))


def test_every_operation_has_a_row() -> None:
    assert EFFECTS.keys() == OPERATIONS.keys()
    assert effects_of("an operation from outside") is OUTSIDE


def test_a_row_without_a_field_is_an_error() -> None:
    with pytest.raises(TypeError):
        Effects(*EFFECTS["bulk.load"][:-1])  # type: ignore[call-arg]


def test_who_moves_and_who_combines() -> None:
    brings = {"bulk.load", "bulk.send", "bulk.send_reduce", "bulk.multicast", "tensor.load", "tensor.multicast"}
    assert brings | {"async.store", "async.reduce"} == BRINGS
    assert {"bulk.store", "tensor.store"} == PUTS
    reductions = {"bulk.reduce", "bulk.send_reduce", "tensor.reduce", "async.reduce.b32", "async.reduce.b64"}
    assert {NAMES[n] for n in COMBINES} == reductions
    stores = {"bulk.store", "bulk.reduce", "tensor.store", "tensor.reduce"}
    assert {NAMES[n] for n in ASYNCHRONOUS_PROXY} == (brings | stores | WGMMA.keys() | {"tcgen05.cp", "tcgen05.mma"})
    assert find_names(lambda row: row.moves.agent and row.group == "cp.async") == CP_ASYNC.keys()


def test_who_lets_lanes_wait_is_what_the_reference_engine_has_stand() -> None:
    stands = {name for family in FAMILIES.values() for name in family.standing}
    waits = find_names(lambda row: row.waits not in ("", "groups"))
    assert {name for name in waits if OPERATIONS[name].kind == "async"} == stands


def test_what_an_operation_is_called(tmp_path: Path) -> None:
    made = places(tmp_path, ("tensor.multicast", 1), (A_WGMMA, 2), ("bulk.commit", 3), ("ld.b32", 4))
    nouns = [words.noun(made, pc) for pc in range(4)]
    assert nouns == ["multicast tensor copy", "`wgmma`", "commit of bulk copies", "load"]
    assert [words.does(made, pc) for pc in range(2)] == ["copies with", "uses"]


def test_an_operation_from_outside_brings_its_row(tmp_path: Path) -> None:
    row = OUTSIDE._replace(noun="opening", event="arrive_on", meets="mbarrier")
    isa.enter("gate.open", "", "", "a gate opens")
    effects.enter("gate.open", row)
    try:
        with pytest.raises(ValueError, match="has a row"):
            effects.enter("gate.open", row)
        line = drawn(tmp_path, (("gate.open", 1),), event("arrive_on", 0, FULL, 0, 1))
        assert [step.kind for step in line.steps] == ["arrive_on"]
    finally:
        effects.leave("gate.open")
        isa.leave("gate.open")
    with pytest.raises(ValueError, match="was not entered"):
        effects.leave("bulk.load")


@cuda.jit
def sent(x: Any) -> None:
    bar = cuda.shared.array(1, np.uint64)
    if cuda.threadIdx.x == 0:
        ptx.mbarrier_init(bar, 0, 1)
    tile = cuda.shared.array(4, np.int32, 16)
    ptx.st_async(tile, 0, 1, bar, 0)


def test_a_store_that_goes_on_alone_came_with_hopper() -> None:
    with pytest.raises(KernelError, match=r"`st\.async` and `red\.async` need sm_90 or later"):
        wsemu.check(sent, 1, 32, (np.zeros(4, np.float32),), arch="sm_80")


# -- counters ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", [A_WGMMA, "tensor.load", "tensor.multicast", "tensor.store", "tensor.reduce"])
def test_accesses_to_tiles_are_counted_as_such(tmp_path: Path, name: str) -> None:
    made = places(tmp_path, (name, 1), (name, 2), ("bulk.load", 3))
    assert count(made.program, made.outcome).uncounted_tiles == 2


# -- time lines --------------------------------------------------------------------------------------------------------
def drawn(folder: Path, operations: tuple[Any, ...], *events: Event) -> Timeline:
    made = places(folder, *operations)
    report = Report(kernel="k", grid=(1, 1, 1), block=(128, 1, 1), verdict="verified", arch="sm_90", seconds=0)
    return tracing.build(report, made, lambda accesses, cta=None: Trace(list(events)))


def event(kind: Any, pc: int, place: int = -1, phase: int = -1, amount: int = 0) -> Event:
    return Event(kind, 0, 0, 1, pc, place, phase, 1, amount=amount)


def test_a_wgmma_is_a_copy_that_lasts_until_its_wait(tmp_path: Path) -> None:
    operations = (A_WGMMA, 1), ("wgmma.commit", 2), ("wgmma.wait", 3)
    line = drawn(tmp_path, operations, event("copy", 0, TILE, amount=256), event("landed", 2, phase=0))
    assert [step.kind for step in line.steps] == ["copy", "landed"]
    assert not line.mbarriers
    assert [(copy.bytes, copy.until) for copy in line.copies] == [(256, 2)]


def test_a_store_of_zeros_is_an_access_in_a_time_line(tmp_path: Path) -> None:
    line = drawn(tmp_path, (("bulk.zero", 1),), event("copy", 0, TILE, amount=256))
    assert [(step.kind, line.places[step.pc].text) for step in line.steps] == [("access", "store of zeros tile[0]")]
    assert not line.copies


@pytest.mark.parametrize("name", ["bulk.multicast", "tensor.multicast", "async.store.b32", "bulk.send_reduce"])
def test_a_wait_for_groups_ends_no_copy_that_credits_an_mbarrier(tmp_path: Path, name: str) -> None:
    operations = (name, 1), ("bulk.wait", 2)
    events = event("copy", 0, TILE, amount=64), event("credit", 0, FULL, 0, 64), event("landed", 1, phase=0)
    (copy,) = drawn(tmp_path, operations, *events).copies
    assert copy.until is None


# -- who gives memory a value ------------------------------------------------------------------------------------------
def test_what_gives_memory_a_value_whatever_was_there(tmp_path: Path) -> None:
    puts = ("tensor.multicast", "async.store.b32", "bulk.zero", "cp.async.b32", "tensor.store")
    changes = ("tensor.reduce", "bulk.reduce", "bulk.send_reduce", "async.reduce.b32", "bulk.prefetch")
    made = places(tmp_path, ("ld.b32", 1), *((name, 2) for name in (*puts, *changes)))
    assert made.writers(0) == [*range(1, 1 + len(puts))]


# -- cooperative launches ----------------------------------------------------------------------------------------------
@cuda.jit
def spread(x: Any) -> None:
    tile = cuda.shared.array(4, np.float32, 16)
    bar = cuda.shared.array(1, np.uint64)
    if cuda.threadIdx.x == 0:
        ptx.mbarrier_init(bar, 0, 1)
        ptx.mbarrier_arrive_expect_tx(bar, 0, 16)
        ptx.cp_async_bulk_global_to_shared_multicast(tile, 0, x, 0, 16, bar, 0, 1)
        ptx.mbarrier_wait_parity(bar, 0, 0)
    cuda.cg.this_grid().sync()


def test_a_multicast_in_a_cooperative_launch_is_refused() -> None:
    report = wsemu.check(spread, 2, 32, (np.zeros(4, np.float32),))
    assert report.verdict == "incomplete"
    assert "cooperative launches in clusters are not modelled" in report.notes[0]
