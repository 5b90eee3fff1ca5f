"""An access whose lanes lie as planned does what any access does: same bytes, findings, counts and traces."""

from __future__ import annotations

import numpy as np
import pytest

import wsemu
from wsemu import cuda, ptx
from wsemu.launch.binding import bind
from wsemu.launch.compiled import compile_for_types
from wsemu.machine import run as execution
from wsemu.machine import vm

BLOCK = 64
TURNS = 6
SOON = 1 << 40
"""misses after which the next one makes a plan"""


@cuda.jit
def halves(a, y):
    """Two rows of 16 lanes, one number for 16 lanes, as a product of matrices has them."""
    rows = cuda.shared.array((4, 16), np.float64)
    columns = cuda.shared.array((4, 4), np.float64)
    t = cuda.threadIdx.x
    total = 0.0
    for k in range(TURNS):
        rows[t // 16, t % 16] = a[k, t]
        if t < 16:
            columns[t // 4, t % 4] = a[k, t]
        cuda.syncthreads()
        for j in range(4):
            total += rows[j, t % 16] * columns[j, t // 16]
        cuda.syncthreads()
    y[t] = total


@cuda.jit
def wide(a, y):
    """Accesses of 16 bytes over cells of 8, two lanes on each; a permutation that is read and written in place."""
    tile = cuda.shared.array((4, 32), np.float64, 16)
    t = cuda.threadIdx.x
    for k in range(TURNS):
        tile[t // 32, t % 32 ^ k] = a[k, t]
        tile[t // 32 + 2, t % 32 ^ k] = a[k, t]
        cuda.syncthreads()
        one, other = ptx.ld_v2(tile, (t // 16, t % 16 * 2))
        cuda.syncthreads()
        ptx.st_v2(tile, (t // 16, (t % 16 ^ 3) * 2), (other, one))
        y[t ^ 5] += one
        cuda.syncthreads()
    y[t] += tile[0, t % 32]


@cuda.jit
def races(a, y):
    """Strides that move over each other, among warps and within one, and memory that nobody has written."""
    tile = cuda.shared.array(3 * BLOCK, np.float64)
    t = cuda.threadIdx.x
    for k in range(TURNS):
        tile[2 * t + k % 2] = a[k, t]
        y[t] += tile[(3 * t + k) % (2 * BLOCK)] + tile[t % 7 + BLOCK]
        if k == 3:
            cuda.syncthreads()
    y[t] += tile[3 * BLOCK - 1 - t]


@cuda.jit
def leaves_its_array(a, y):
    """A pattern that moves out of bounds, of the array and of the tile, and stores of several lanes to one place."""
    tile = cuda.shared.array(BLOCK + 16, np.float64)
    t = cuda.threadIdx.x
    for k in range(TURNS):
        tile[t % 16 + t // 16 * 16 + 4 * k] = a[k, t]
        cuda.syncthreads()
        y[t] += tile[(t ^ 1) + 4 * k]
        y[t // 2 * 2 + 24 - 2 * k] = a[k, 0]
        cuda.syncthreads()


@cuda.jit
def narrow(a, y):
    """Bytes, over cells of a byte; the boundary of sectors moves."""
    part = cuda.shared.array(4 * BLOCK, np.uint8)
    t = cuda.threadIdx.x
    for k in range(TURNS):
        part[4 * (t ^ k) + k % 4] = t + k
        cuda.syncthreads()
        y[t] += part[4 * (t ^ k ^ 1) + k % 4] + a[k, (t ^ 1) % (BLOCK - 8) + k]
        cuda.syncthreads()


@cuda.jit
def bytes_of_words(a, y):
    """Bytes two by two, which move by one: how many words lanes share is not the same then."""
    part = cuda.shared.array(8 * BLOCK + 8, np.uint8)
    t = cuda.threadIdx.x
    for k in range(8):
        part[8 * t + k] = t + k
    cuda.syncthreads()
    for k in range(TURNS):
        y[t] += part[(t >> 1) * 8 + (t & 1) + (k >= TURNS // 2)]
        cuda.syncthreads()


def outcome(kernel, monkeypatch, *, plans):
    """What a launch leaves behind, with plans made as soon as lanes lie apart or with none; and how many were made."""
    fill, made = vm.Machine._fill_costs, []

    def filled(machine, arch):
        fill(machine, arch)
        machine.plans_due["misses"] = SOON
        machine.state["planned"] = machine.state["planned"] if plans else 0
        made.append(machine.plans_due)

    rng = np.random.default_rng(1)
    arguments = rng.random((TURNS, BLOCK)), np.zeros(BLOCK)
    program, names, _ = compile_for_types(kernel, arguments, True)
    rows, memory, _ = bind(program, arguments, names)
    launch = execution.Launch(program, (2, 1, 1), (BLOCK, 1, 1), rows, memory.segments)
    with monkeypatch.context() as patch:
        patch.setattr(vm.Machine, "_fill_costs", filled)
        patch.setattr(execution, "take_machine", lambda *_: None)
        result = launch.run()
        trace = launch.trace(frozenset(range(len(program.code))))
    return (repr(result), [bytes(data) for data, _ in memory.segments], repr(trace.events)), made[0]["made"].sum()


KERNELS = (halves, wide, races, leaves_its_array, narrow, bytes_of_words)


@pytest.mark.parametrize("kernel", KERNELS)
def test_accesses_as_planned_do_what_others_do(kernel, monkeypatch):
    expected, none = outcome(kernel, monkeypatch, plans=False)
    found, some = outcome(kernel, monkeypatch, plans=True)
    assert found == expected
    assert not none
    assert some


@pytest.mark.parametrize("kernel", KERNELS)
def test_accesses_as_planned_do_what_the_reference_does(kernel, monkeypatch):
    fill = vm.Machine._fill_costs

    def filled(machine, arch):
        fill(machine, arch)
        machine.plans_due["misses"] = SOON

    monkeypatch.setattr(vm.Machine, "_fill_costs", filled)
    monkeypatch.setattr(execution, "take_machine", lambda *_: None)
    reports = []
    for engine in ("vm", "reference"):
        y = np.zeros(BLOCK)
        report = wsemu.check(kernel, 2, BLOCK, (np.random.default_rng(1).random((TURNS, BLOCK)), y), engine=engine)
        reports.append((report.verdict, [(f.code, f.message) for f in report.findings], report.counters, y.tolist()))
    assert reports[0] == reports[1]
