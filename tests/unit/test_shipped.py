"""The VM's object code that a wheel brings is used for its own modules and on CPUs of its level, and nowhere else."""

from __future__ import annotations

import ast
import platform
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from wsemu.machine import build, cache, shipped
from wsemu.machine.checked import CHECKED

if TYPE_CHECKING:
    from collections.abc import Iterator

PARTS = ("report_entry", "trace_entry")
needs_baseline = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64" or shipped.baseline() is None,
    reason="no baseline is compiled for this CPU, or no ELF file",
)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file of a package that brings two parts."""
    monkeypatch.setattr(shipped, "FILE", tmp_path / "shipped.bin")
    monkeypatch.setattr(shipped, "ALL_PARTS", PARTS)
    shipped.write(shipped.FILE)
    shipped._table_in_use.cache_clear()
    yield shipped.FILE
    shipped._table_in_use.cache_clear()


@needs_baseline
def test_parts_come_from_the_package(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "read", None)  # the cache is not asked
    made = build._object_code(PARTS)
    assert shipped.is_used()
    assert sorted(made) == sorted(PARTS)
    assert all(code.startswith(b"\x7fELF") for _, _, code in made.values())


@needs_baseline
def test_other_parts_come_from_the_cache(file: Path) -> None:
    assert shipped.read("run") is None
    assert build._object_code(("run", *PARTS)).keys() == {"run", *PARTS}


@needs_baseline
@pytest.mark.parametrize("what", ["cpu", "edited", "torn", "gone", "format"])
def test_nothing_is_taken_that_does_not_fit(file: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    data = file.read_bytes()
    if what == "cpu":
        monkeypatch.setattr(shipped, "_flags", lambda: frozenset({"avx2"}))
    elif what == "edited":
        file.write_bytes(data.replace(b"x86-64-v3 ", b"x86-64-v3 0", 1))
    elif what == "torn":
        file.write_bytes(data[:-9])
    elif what == "gone":
        file.unlink()
    else:
        file.write_bytes(data.replace(b"code 1", b"code 0", 1))
    assert shipped.read("trace_entry") is None
    assert what == "torn" or not shipped.is_used()


@pytest.mark.parametrize(("system", "machine"), shipped.BASELINES)
def test_each_system_has_the_baseline_of_its_wheel(system: str, machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = shipped.BASELINES[system, machine]
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(shipped, "_flags", lambda: found.flags)
    assert shipped.baseline() == (None if CHECKED else found)
    monkeypatch.setattr(shipped, "_flags", frozenset)
    assert not found.flags or shipped.baseline() is None


def test_the_build_knows_the_same_systems() -> None:
    text = (Path(__file__).resolve().parents[2] / "setup.py").read_text(encoding="utf-8")
    line = next(line for line in text.splitlines() if line.startswith("BASELINES = "))
    assert ast.literal_eval(line.removeprefix("BASELINES = ")) == tuple(shipped.BASELINES)


def test_a_checkout_compiles_for_its_own_cpu() -> None:
    assert not shipped.FILE.exists()
