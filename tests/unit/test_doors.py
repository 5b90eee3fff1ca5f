"""The comparison of the two doors counts a kernel at which Numba's compiler stops, and names the package it needs."""

from __future__ import annotations

import random
from typing import Any

import pytest

from benchmarks import doors
from tests.properties import door_programs
from tests.properties.door_programs import Door, Program, compare_doors, door_program
from wsemu.backends import numba_cuda, offline
from wsemu.model.errors import UsageError


def test_an_error_inside_of_numba_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: Any) -> Any:
        raise RuntimeError("liveness info missing for vars: {'v.3'}")

    monkeypatch.setattr(offline, "compile_kernel", stop)
    assert compare_doors(door_program(random.Random("0 0"))).outcome == "Numba refuses"


@pytest.mark.parametrize("loads", [False, True])
@pytest.mark.parametrize("store", ["p[t]", "p[t // 2]"])
def test_a_race_of_a_load_that_numba_removes_is_no_disagreement(
    monkeypatch: pytest.MonkeyPatch, store: str, loads: bool
) -> None:
    own, numba = Door((), "failed", ("race",)), Door((), "verified", (), loads_shared=loads)
    monkeypatch.setattr(door_programs, "own_door", lambda _: own)
    monkeypatch.setattr(door_programs, "numba_door", lambda _: numba)
    program = Program(f"s = cuda.shared.array(64, np.uint8)\nx = s[t]\n{store} = x - x\n", (), ())
    assert bool(compare_doors(program).complaint) == (loads or store != "p[t]")


def test_the_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def missing() -> Any:
        raise UsageError("Numba-CUDA is not installed: pip install 'wsemu[gpu]'")

    monkeypatch.setattr(numba_cuda, "numba_cuda", missing)
    monkeypatch.setattr("sys.argv", ["doors.py", "--programs", "1"])
    with pytest.raises(SystemExit) as ended:
        doors.main()
    assert ended.value.code == 2
    assert "Numba-CUDA is not installed: pip install 'wsemu[gpu]'" in capsys.readouterr().err
