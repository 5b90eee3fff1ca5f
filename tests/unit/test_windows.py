"""Cells of shadow memory that one CTA after the other has find what cells of the whole array find."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wsemu
from tests.properties import cta_programs
from tests.properties.loop_programs import loaded
from wsemu import cuda
from wsemu.machine import run
from wsemu.machine import workers as kept
from wsemu.machine.memory import shadow_planes
from wsemu.machine.state import WINDOW

NEVER = 1 << 60


def _windows_from(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    for module in (run, shadow_planes):
        monkeypatch.setattr(module, "WINDOWS_FROM", size)


@pytest.fixture(autouse=True)
def opened(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The segments for which windows were opened, each time; every array may have one."""
    found: list[int] = []
    plain = shadow_planes._Window.open

    def opening(self: Any, segment: Any) -> None:
        found.append(self.size)
        plain(self, segment)

    monkeypatch.setattr(shadow_planes._Window, "open", opening)
    monkeypatch.setattr(kept, "_kept", {})
    _windows_from(monkeypatch, 1)
    return found


def _told(kernel: Any, grid: int, block: int, arguments: tuple[Any, ...], **options: Any) -> tuple[Any, ...]:
    """All that a launch says and leaves."""
    report = wsemu.check(kernel, grid, block, arguments, **options)
    arrays = (argument for argument in arguments if isinstance(argument, np.ndarray))
    return report.model_copy(update={"seconds": 0.0}).model_dump(), *(array.tobytes() for array in arrays)


def test_random_kernels_are_told_the_same_of(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, opened: list[int]
) -> None:
    made = [cta_programs.program(seed) for seed in range(40)]
    for one, kernel in zip(made, loaded(made, tmp_path, "windows"), strict=True):
        _windows_from(monkeypatch, NEVER)
        options = {"budget": 300_000}
        expected = _told(kernel, one.grid, one.threads, one.arguments(4), **options)
        _windows_from(monkeypatch, 1)
        for workers in (1, 1, 3, 3):
            assert _told(kernel, one.grid, one.threads, one.arguments(4), workers=workers, **options) == expected
    assert opened


@cuda.jit
def places(y: Any, step: int, back: int, far: int) -> None:
    """Each thread stores one element and reads it again; CTAs lie `step` apart, or go back, or reach far."""
    t, cta = cuda.threadIdx.x, cuda.blockIdx.x
    at = (cuda.gridDim.x - 1 - cta if back else cta) * step + t
    y[at] = t
    y[at] += 1
    if far and t == 0:
        y[y.size - 1 - cta] = 7


@cuda.jit
def words_and_bytes(y: Any, z: Any) -> None:
    """Words, then their last bytes; `z` is the same memory."""
    i = cuda.grid(1)
    y[i] = i
    z[4 * i + 3] = 255


APART = [(0, 0, 0), (1, 0, 0), (100, 0, 0), (100, 1, 0), (100, 0, 1), (300, 0, 0)]
BEHIND = {(100, 0, 0), (300, 0, 0)}


@pytest.mark.parametrize("block", [64, 100])
@pytest.mark.parametrize("given", APART)
def test_windows_stay_where_ctas_come_one_behind_the_other(
    given: tuple[int, int, int], block: int, opened: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    grid = 7 + APART.index(given)  # what was learnt of a kernel is kept for its grid and block

    def launch() -> tuple[Any, ...]:
        return _told(places, grid, block, (np.zeros(3 * WINDOW, np.float32), *given))

    here = launch()
    first = len(opened)
    assert launch() == here
    assert first
    assert (len(opened) > first) == (given in BEHIND)
    _windows_from(monkeypatch, NEVER)
    assert launch() == here


def test_a_second_size_of_access_ends_them(opened: list[int]) -> None:
    words = np.zeros(256, np.uint32)
    assert wsemu.check(words_and_bytes, 4, 64, (words, words.view(np.uint8))).verdict == "verified"
    assert len(opened) == 1
    assert (words == np.arange(256) | 255 << 24).all()
