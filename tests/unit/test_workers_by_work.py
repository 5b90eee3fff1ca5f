"""CTAs are spread over the cores by what a launch does, not by its threads."""

from __future__ import annotations

import numpy as np
import pytest

from wsemu import cuda
from wsemu.launch import running
from wsemu.machine import run as machine
from wsemu.model.launch_shape import configure
from wsemu.model.settings import Settings


@cuda.jit
def rows(a, x, y):
    row = cuda.grid(1)
    total = np.float32(0)
    for column in range(a.shape[1]):
        total += a[row, column] * x[column]
    y[row] = total


@pytest.fixture(autouse=True)
def four_cores(monkeypatch):
    monkeypatch.setattr(machine, "cores", lambda: 4)


def bound(ctas, columns):
    arrays = np.ones((ctas * 32, columns), np.float32), np.ones(columns, np.float32), np.zeros(ctas * 32, np.float32)
    return running.bind_launch(rows, configure(ctas, 32), arrays, Settings())[0]


def test_before_the_first_launch_the_arrays_tell():
    launch = bound(8, 4)
    launch.program.derived.pop("work", None)
    assert running._workers(launch) is None
    large = launch._replace(segments=[(np.empty(running.MUCH_MEMORY, np.uint8), True)])
    assert running._workers(large) == 4
    assert running._workers(large._replace(configuration=configure(1, 32))) is None


def test_then_what_it_did():
    launch = bound(8, 4)
    running.ran(launch, None)
    did = launch.program.derived["work"]
    assert did > 0
    assert running._workers(launch) is None
    launch.program.derived["work"] = running.MUCH_WORK // 8
    assert running._workers(launch) == 4
    launch.program.derived["work"] = did


def test_the_bytes_are_the_same_for_any_number_of_workers():
    results = []
    for workers in (1, 2, 4):
        launch = bound(8, 16)
        outcome, _, _ = running.ran(launch, workers)
        results.append((outcome.warp_instructions, [bytes(data) for data, _ in launch.segments]))
    assert results[0] == results[1] == results[2]
