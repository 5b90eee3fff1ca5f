"""Deadlocks and errors whose cause is what an earlier launch left in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import wsemu
from wsemu import cuda

if TYPE_CHECKING:
    from wsemu.model.settings import Engine


@cuda.jit
def first_one_signals(counter, signal):
    if cuda.atomic.add(counter, 0, 1) == 0:
        cuda.atomic.exch(signal, 0, 1)
    else:
        while cuda.atomic.add(signal, 0, 0) == 0:
            pass


@cuda.jit
def append(count, out, x):
    t = cuda.threadIdx.x
    if x[t] > 0:
        out[cuda.atomic.add(count, 0, 1)] = x[t]


def run_twice(kernel, grid, block, arguments, change, engine: Engine = "vm") -> wsemu.Report:
    assert wsemu.check(kernel, grid, block, arguments, engine=engine).verdict == "verified"
    change(*arguments)
    report = wsemu.check(kernel, grid, block, arguments, engine=engine)
    assert report.verdict == "failed"
    return report


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_a_counter_that_nobody_reset_is_the_cause_of_a_deadlock(engine: Engine) -> None:
    arguments = [np.zeros(1, np.int32), np.zeros(1, np.int32)]
    report = run_twice(first_one_signals, 2, 1, arguments, lambda _, signal: signal.fill(0), engine)
    (finding,) = report.errors
    assert finding.code == "deadlock"
    assert finding.help == "reset `counter` before each launch"
    assert any(note.startswith("`counter[0]` is 2 when this launch begins, and was 0 when") for note in finding.notes)


def test_a_counter_that_runs_on_is_the_cause_of_an_index_out_of_bounds() -> None:
    x = np.array([1, 0, 0, 0], np.float32)
    report = run_twice(append, 1, 4, [np.zeros(1, np.int32), np.zeros(1, np.float32), x], lambda *_: None)
    (finding,) = report.errors
    assert finding.code == "out-of-bounds"
    assert finding.help == "reset `count` before each launch"


def test_arguments_that_make_it_fail_are_no_leftover() -> None:
    def ask_for_more(count, _out, x) -> None:
        count[:] = 0
        x[:] = 1

    arguments = [np.zeros(1, np.int32), np.zeros(1, np.float32), np.array([1, 0, 0, 0], np.float32)]
    report = run_twice(append, 1, 4, arguments, ask_for_more)
    assert not any("reset" in (finding.help or "") for finding in report.errors)
