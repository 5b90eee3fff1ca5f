"""`wsemu debug`: stepping through a launch, variables by their names, and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.commands import wsemu
from wsemu import cuda
from wsemu.app.debugger import Debugger, linear
from wsemu.launch.hooks import around
from wsemu.model.errors import UsageError


@cuda.jit(device=True)
def twice(v):
    w = v * 2
    return w  # noqa: RET504 - a stop of its own


@cuda.jit
def sums(x, y, pair):
    i = cuda.grid(1)
    tile = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    tile[t] = x[i]
    cuda.syncthreads()
    total = 0.0
    for j in range(3):
        total += twice(tile[(t + j) % 64])
    z = complex(total, 1.0)
    y[i] = z.real


FIRST = sums.py_func.__code__.co_firstlineno
LOOP = FIRST + 9


def session(commands: str, **options: Any) -> list[str]:
    """What the debugger says to these commands, separated by semicolons."""
    said: list[str] = []
    words = iter(commands.split(";"))

    def read() -> str:
        try:
            return next(words)
        except StopIteration:
            raise EOFError from None

    debugger = Debugger(lambda _: True, read=read, write=said.append, **options)
    x, y = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    around.append(debugger)
    try:
        sums[2, 64](x, y, (1, 2.5))
    finally:
        around.remove(debugger)
    assert y[:3].tolist() == [6, 12, 18]  # the launch itself follows the session
    return said


def test_the_first_stop_is_the_first_statement() -> None:
    assert session("q") == [f"test_debugger.py:{FIRST + 2} sums, thread 0 of CTA 0", "->     i = cuda.grid(1)"]


def test_next_stays_in_the_function_and_step_goes_into_calls() -> None:
    places = [line.split()[0] for line in session("n;" * 7 + "q", breakpoints=frozenset()) if line.startswith("test_")]
    lines = [int(place.partition(":")[2]) - FIRST for place in places]
    assert lines == [2, 3, 4, 5, 6, 7, 8, 9]
    into = session("s;vars;q", breakpoints=frozenset({LOOP}), waits="c")
    assert "twice, thread 0 of CTA 0" in into[2]
    assert "v = 0.0" in into


def test_variables_have_their_names_and_values() -> None:
    said = session(
        "c;p total, j, t;p tile[:3];p pair;p y[:32].sum();p nothing;q", waits="c", breakpoints=frozenset({LOOP})
    )
    values = [line for line in said if not line.startswith(("test_", "->"))]
    assert values[:4] == [
        "(np.float64(0.0), np.int64(1), np.int32(0))", "array([0., 1., 2.], dtype=float32)",
        "(np.int64(1), np.float64(2.5))", "0.0",
    ]  # fmt: skip
    assert values[4].startswith("NameError")


def test_back_is_the_stop_before() -> None:
    said = session("c;c;back;back;back;p total, j;q", waits="c", breakpoints=frozenset({LOOP}))
    places = [line.split()[0].partition(":")[2] for line in said if line.startswith("test_")]
    assert [int(place) - FIRST for place in places[:3]] == [9, 9, 9]
    assert places[3] != places[2]  # in the function that the loop calls


def test_another_thread_and_cta() -> None:
    said = session("c;thread 5 1;c;p i, t, total;q", waits="c", breakpoints=frozenset({LOOP}))
    assert "thread 5 of CTA 1" in said[4]
    assert said[-1] == "(np.int64(69), np.int32(5), np.float64(0.0))"


def test_breakpoints_are_set_listed_and_cleared() -> None:
    said = session(f"b {LOOP};b;c;clear {LOOP};b;c")
    assert f"breakpoints: {LOOP}" in said
    assert "breakpoints: none" in said
    assert said[-1] == "sums has ended"


def test_a_line_without_code_names_the_nearest_ones() -> None:
    said = session("b 9999;b;q")
    assert any(f"no code of a kernel is at line 9999: the nearest line with code: {LOOP + 2}" in one for one in said)
    assert "breakpoints: none" in said


def test_a_breakpoint_has_a_condition() -> None:
    said = session(f"b {LOOP} if j == 2 and total > 5;b;c;p j;q", thread="2")
    assert f"breakpoints: {LOOP} if j == 2 and total > 5" in said
    assert said[-1] == "2"


def test_out_goes_on_to_the_caller() -> None:
    said = session("s;o;q", waits="c", breakpoints=frozenset({LOOP}))
    assert [line.split()[1] for line in said if line.startswith("test_")] == ["sums,", "twice,", "sums,"]


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("x", "no command `x`"),
        ("b y", "give the number of a line"),
        ("thread 64", "does not exist"),
        ("thread", "give a thread"),
    ],
)
def test_wrong_commands_get_an_answer(command: str, answer: str) -> None:
    assert answer in session(f"{command};q")[2]


def test_indices_are_numbers_or_coordinates() -> None:
    assert linear("1,2,0", (4, 4, 1), "thread") == 9
    with pytest.raises(UsageError, match="CTA 4 does not exist"):
        linear("4", (4, 1, 1), "CTA")


PROGRAM = """
import numpy as np
from numba import cuda

@cuda.jit
def fill(x):
    i = cuda.grid(1)
    if i == 3:
        breakpoint()
    x[i] = i

x = np.zeros(4)
fill[1, 4](x)
print(x.sum())
"""


def test_the_command_and_breakpoint_in_a_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    answers = iter(["p i", "c"] * 2)
    monkeypatch.setattr("builtins.input", lambda _: next(answers))
    done = wsemu("debug", "--thread", "2", "--break", "10", file)
    assert (done.returncode, done.stderr) == (0, "")
    assert "program.py:10 fill, thread 2 of CTA 0" in done.stdout
    assert "\n2\n" in done.stdout
    assert "6.0" in done.stdout
    assert wsemu("check", file).returncode == 0


def test_a_line_of_the_command_without_code_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    done = wsemu("debug", "--break", "999", file)
    assert done.returncode == 2
    assert "no code of a kernel is at line 999: the nearest line with code: 10" in done.stdout
