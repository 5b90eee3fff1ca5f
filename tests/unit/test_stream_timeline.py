"""The time line of a program's streams, in the terminal, on a page and for Perfetto."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.commands import wsemu

PROGRAM = """import numpy as np
from numba import cuda


@cuda.jit
def fill(x, v):
    x[cuda.grid(1)] = v


@cuda.jit
def scale(x, f):
    x[cuda.grid(1)] *= f


a, b = cuda.stream(), cuda.stream()
d = cuda.device_array(64, np.float32)
h = cuda.pinned_array(64, np.float32)
fill[2, 32, a](d, 3.0)
done = cuda.event()
done.record(a)
done.wait(b)  # fixed
scale[2, 32, b](d, 2.0)
d.copy_to_host(h, stream=b)
b.synchronize()
print(h[0])
"""
RIGHT = """
          0
host           w
stream 1  Lr
stream 2    eLC
"""
WRONG = """
          0
host        w
stream 1  Lr
stream 2  LC
"""


@pytest.fixture(params=["right", "wrong"])
def program(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, bool]:
    """Return a program, and whether it is right."""
    right = request.param == "right"
    file = tmp_path / "program.py"
    file.write_text(PROGRAM if right else re.sub(".*# fixed\n", "", PROGRAM))
    return file, right


def test_the_terminal_shows_which_operations_may_run_at_the_same_time(program: tuple[Path, bool]) -> None:
    file, right = program
    said = wsemu("trace", file.name, cwd=file.parent).stdout
    assert (RIGHT if right else WRONG) in said
    assert ("S1 error[stream-race]" in said) is not right
    copy = next(line for line in said.splitlines() if ": copy" in line)
    assert copy.split() == (
        ["step", "4,", "stream", "2:", "copy", "program.py:23"]
        if right
        else ["step", "1,", "stream", "2:", "copy", "program.py:22", "S2"]
    )


def test_perfetto_has_a_track_for_each_stream(program: tuple[Path, bool]) -> None:
    file, right = program
    wsemu("trace", "-o", "out.json", file.name, cwd=file.parent)
    events = json.loads((file.parent / "out.json").read_text())["traceEvents"]
    rows = [one["args"]["name"] for one in events if one["name"] == "thread_name" and one["pid"] == 1_000_000]
    assert rows == ["host", "stream 1", "stream 2"]
    slices = {one["name"]: one for one in events if one["ph"] == "X" and one["pid"] == 1_000_000}
    assert slices["launch of `scale`"]["ts"] == (3 if right else 0)
    assert ("findings" in slices["launch of `scale`"]["args"]) is not right


def test_a_page_has_a_section_of_streams(program: tuple[Path, bool]) -> None:
    file, right = program
    wsemu("trace", "-o", "out.html", file.name, cwd=file.parent)
    page = (file.parent / "out.html").read_text()
    assert "<h2>Streams</h2>" in page
    assert page.count("<title>launch of") == 2
    assert ('var(--stop)"><title>launch' in page) is not right


def test_a_program_in_the_default_stream_has_no_such_part(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(PROGRAM[: PROGRAM.index("a, b =")] + "fill[2, 32](np.zeros(64, np.float32), 1.0)\n")
    assert "streams" not in wsemu("trace", file.name, cwd=tmp_path).stdout
    wsemu("trace", "-o", "out.html", file.name, cwd=tmp_path)
    assert "<h2>Streams</h2>" not in (tmp_path / "out.html").read_text()
