"""A machine that has run a launch is as good as new for the next one of its kind."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wsemu
from tests.properties.cluster_programs import check_spread, clustered
from tests.properties.loop_programs import LoopProgram, loaded, program
from tests.properties.phase_programs import PHASE_FAMILIES, check_program
from wsemu import cuda
from wsemu.machine import vm, workers
from wsemu.machine.memory import shadow_planes


@pytest.fixture(autouse=True)
def _none_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_kept", {})
    monkeypatch.setattr(shadow_planes, "ROOM", room := shadow_planes.Room(shadow_planes.RESTING_BYTES))
    monkeypatch.setattr(workers, "ROOM", room)


def _said(kernel: Any, made: LoopProgram, n: int, seed: int, **options: Any) -> tuple[Any, ...]:
    """All that a launch says and leaves."""
    arguments = made.arguments(n, seed)
    report = wsemu.check(kernel, made.grid, made.threads, arguments, **options)
    return report.model_copy(update={"seconds": 0.0}).model_dump(), *(a.tobytes() for a in arguments[1:4])


@pytest.mark.parametrize(("count", "options"), [(24, {}), (8, {"checkers": []})], ids=["checked", "unchecked"])
def test_launches_on_kept_machines_say_what_first_launches_say(
    tmp_path: Path, count: int, options: dict[str, Any]
) -> None:
    made = [program(seed) for seed in range(count)]
    kernels = loaded(made, tmp_path, "kept")
    sizes = [(n, seed) for seed in (0, 1) for n in (0, 5, 2)]
    for one, kernel in zip(made, kernels, strict=True):
        first = []
        for n, seed in sizes:
            workers._kept.clear()
            first.append(_said(kernel, one, n, seed, **options))
        assert [_said(kernel, one, n, seed, **options) for n, seed in sizes] == first


@cuda.jit
def _moves(x: Any, y: Any, at: int) -> None:
    tile = cuda.shared.array(64, np.float32)
    i = cuda.threadIdx.x
    tile[i] = x[i]
    if at:
        cuda.syncthreads()
    y[i] = tile[63 - i]


def test_a_launch_after_one_with_findings_has_none_of_them() -> None:
    for at, verdict in ((1, "verified"), (0, "failed"), (1, "verified"), (0, "failed"), (1, "verified")):
        x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
        report = wsemu.check(_moves, 1, 64, (x, y, at))
        assert report.verdict == verdict
        assert not at or (y == x[::-1]).all()


def test_arrays_of_other_sizes_have_their_own_bounds() -> None:
    for size in (64, 32, 64):
        x, y = np.ones(size, np.float32), np.zeros(64, np.float32)
        codes = {finding.code for finding in wsemu.check(_moves, 1, 64, (x, y, 1)).errors}
        assert codes == (set() if size == 64 else {"out-of-bounds"})


def test_what_was_said_of_a_launch_is_said_of_the_next_that_does_the_same_and_of_no_other() -> None:
    def told(threads: int, **options: Any) -> Any:
        x, y = np.ones(64, np.float32), np.zeros(64, np.float32)
        return wsemu.check(_moves, 1, threads, (x, y, 1), **options).model_copy(update={"seconds": 0.0})

    first = told(64)
    again = told(64)
    assert again == first
    again.notes.append("somebody's own")
    assert told(64) == first
    assert told(64, checkers=["race"]).proof != first.proof
    assert told(32).counters != first.counters
    x, y = np.ones(128, np.float32)[::2], np.zeros(64, np.float32)
    assert wsemu.check(_moves, 1, 64, (x, y, 1)).counters.global_load_sectors > first.counters.global_load_sectors
    assert told(64) == first


@cuda.jit
def _doubles(x: Any) -> None:
    x[cuda.threadIdx.x] *= 2


def test_machines_are_kept_for_small_launches_and_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_MOST_KEPT", 2)
    for block in (32, 64, 96, 128):
        x = np.ones(128, np.float32)
        wsemu.check(_doubles, 1, block, (x,))
        assert (x[:block] == 2).all()
    assert len(workers._kept) == 2


@cuda.jit
def _neighbours(x: Any, apart: int) -> None:
    i = cuda.grid(1)
    x[i] = 1
    if i + apart < x.shape[0] and i < apart:
        x[i + apart] = 2


def test_shadow_memory_that_stays_with_machines_holds_nothing_of_launches_before() -> None:
    def said(workers: int, apart: int) -> dict[str, Any]:
        x = np.zeros(2048, np.float32)
        report = wsemu.check(_neighbours, 32, 64, (x, apart), workers=workers)
        return report.model_copy(update={"seconds": 0.0, "inputs": None}).model_dump()

    cases = [(workers, apart) for workers in (1, 4, 3) for apart in (0, 1024, 0, 64, 5, 0)]
    first = []
    for case in cases:
        workers._kept.clear()
        first.append(said(*case))
    assert {report["verdict"] for report in first} == {"verified", "failed"}
    workers._kept.clear()
    assert [said(*case) for case in cases] == first


def test_room_for_shadow_memory_that_stays_goes_to_the_last_kinds_of_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shadow_planes, "ROOM", room := shadow_planes.Room(16 * 128))
    monkeypatch.setattr(workers, "ROOM", room)
    for block in (32, 64, 128, 64):
        wsemu.check(_doubles, 1, block, (np.ones(128, np.float32),))
    assert not room.has(16 * 128)
    while workers._drop_oldest(None):
        pass
    assert room.has(16 * 128)


def test_a_machine_that_looks_for_nothing_is_kept_too() -> None:
    for _ in range(2):
        wsemu.check(_doubles, 1, 32, (np.ones(32, np.float32),), checkers=[])
    assert [len(machines) for machines in workers._kept.values()] == [1]


def test_launches_with_mbarriers_go_on_where_the_one_before_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    went_on, plain = [], vm.Machine.again

    def again(self: vm.Machine, *given: Any) -> None:
        went_on.append(self)
        plain(self, *given)

    monkeypatch.setattr(vm.Machine, "again", again)

    def said(make: Any, check: Any, seed: int) -> dict[str, Any]:
        report: wsemu.Report = check(make(random.Random(seed)))
        return report.model_copy(update={"seconds": 0.0}).model_dump()

    makers = [*((make, check_program) for make in PHASE_FAMILIES.values()), (clustered, check_spread)]
    for make, check in makers:
        for seed in range(16):
            on_kept = said(make, check, seed)
            kept = dict(workers._kept)
            workers._kept.clear()
            assert on_kept == said(make, check, seed)
            workers._kept.update(kept)
    assert {machine.image.asynchronous for machine in went_on} == {True}


def test_launches_with_findings_begin_anew_on_the_machine_of_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    renewed, plain = [], vm.Machine._renew

    def renew(self: vm.Machine) -> bool:
        done = plain(self)
        if done:
            renewed.append(self)
            assert not any(getattr(self, name).view(np.uint8).any() for name in ("agents", "phases", "known"))
        return done

    def said(check: Any, made: Any) -> dict[str, Any]:
        report: wsemu.Report = check(made)
        return report.model_copy(update={"seconds": 0.0}).model_dump()

    monkeypatch.setattr(vm.Machine, "_renew", renew)
    makers = [*((make, check_program) for make in PHASE_FAMILIES.values()), (clustered, check_spread)]
    for make, check in makers:
        programs = [make(random.Random(seed)) for seed in range(12)]
        on_kept = [said(check, made) for made in programs for _ in range(2)]
        kept = dict(workers._kept)
        for made, reports in zip(programs, zip(on_kept[::2], on_kept[1::2], strict=True), strict=True):
            workers._kept.clear()
            assert reports == (said(check, made),) * 2
        workers._kept.update(kept)
    assert len(renewed) > 40
