"""How far a long launch is."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import wsemu
from wsemu import cuda
from wsemu.app import advance
from wsemu.launch.hooks import adding_hook, advancing
from wsemu.machine import slices


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advance, "PATIENCE", 0.0)
    monkeypatch.setattr(advance, "APART", 0.0)
    monkeypatch.setattr(slices, "SLICES", (400, 400, 400))


@cuda.jit
def _counts(x: Any) -> None:
    i = cuda.grid(1)
    for _ in range(20):
        x[i] += 1


@pytest.mark.parametrize("workers", [1, 2])
def test_a_launch_tells_between_slices_how_many_ctas_have_run(workers: int) -> None:
    told: list[tuple[str, int, int]] = []
    with adding_hook(advancing, lambda *state: told.append(state)):
        report = wsemu.check(_counts, 24, 64, (np.zeros(24 * 64, np.int32),), workers=workers)
    assert report.verdict == "verified"
    assert {(name, total) for name, _, total in told} == {("_counts", 24)}
    counts = [done for _, done, _ in told]
    assert counts == sorted(counts)
    assert 0 <= counts[0] < counts[-1] <= 24


def test_lines_of_json_tell_rate_and_what_is_left(capsys: pytest.CaptureFixture[str]) -> None:
    shown = advance.Advance("json")
    shown("sgemv", 3, 12)
    line = json.loads(capsys.readouterr().err)
    assert {"what": "sgemv", "done": 3, "total": 12, "unit": "CTAs"}.items() <= line.items()
    assert line["rate"] > 0
    assert str(shown) == " (3 of 12 CTAs)"
    shown.begin()
    assert str(shown) == ""


def test_a_line_of_a_terminal_is_written_anew_and_cleared(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    shown = advance.Advance()
    shown("sgemv", 1_000, 4_000)
    text = capsys.readouterr().err
    assert text.startswith("\rsgemv: 1,000 of 4,000 CTAs, ")
    shown.end()
    assert capsys.readouterr().err == "\r" + " " * (len(text) - 1) + "\r"


def test_where_there_is_no_terminal_nothing_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    shown = advance.Advance()
    shown("sgemv", 3, 12)
    shown.end()
    assert capsys.readouterr().err == ""
