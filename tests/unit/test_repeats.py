"""Loops whose registers return to earlier values end the run, and others do not."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wsemu
from tests.properties.wait_programs import draw, judge
from wsemu import cuda
from wsemu.machine import repeats as machine_repeats
from wsemu.machine import slices
from wsemu.reference import repeats

CLOCK = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 m)
{
.reg .pred %p; .reg .b32 %r<2>;
mov.b32 %r0, 0;
LOOP:
mov.u32 %r1, %clock;
xor.b32 %r0, %r0, 1;
and.b32 %r1, %r1, 0;
or.b32 %r1, %r1, %r0;
setp.gt.u32 %p, %r1, 1;
@!%p bra LOOP;
ret;
}
"""
ENGINES = pytest.mark.parametrize("engine", ["vm", "reference"])
ROUND = "registers and memory return to the values of an earlier round"
NOTE = f"a loop has no end: {ROUND}"
BUDGET = 200_000


@cuda.jit
def flips(flag, y):
    i = 0
    while i < 2:
        i ^= 1
    y[0] = i


@cuda.jit
def counts_in_a_circle(flag, y):
    i = cuda.threadIdx.x
    while i >= 0:
        i = (i + 1) & 31
    y[0] = i


@cuda.jit
def some_lanes_flip(flag, y):
    t = cuda.threadIdx.x
    i = t & 1
    if t >= 40:
        while i < 2 + flag[0]:
            i ^= 1
    y[t] = i


@cuda.jit
def counts_up(flag, y):
    i = 0
    while i != -1:
        i += 2
    y[0] = i


@cuda.jit
def flips_and_stores(flag, y):
    i = 0
    while i < 2:
        i ^= 1
        y[0] += 1


@cuda.jit
def another_warp_ends_it(flag, y):
    t = cuda.threadIdx.x
    i = 0
    if t == 0:
        while cuda.atomic.add(flag, 0, 0) == 0:
            i ^= 1
        y[0] = i
    if t == 32:
        for k in range(3_000):
            i = (i * 5 + k) & 1023
        cuda.atomic.exch(flag, 0, i | 1)


@cuda.jit
def answers(flag, y, rounds):
    t = cuda.threadIdx.x
    i = 0
    if t == 0:
        while cuda.atomic.add(flag, 0, 0) == 0:
            i ^= 1
        cuda.atomic.exch(flag, 1, 1)
    if t == 32:
        for k in range(rounds):
            i = (i * 5 + k) & 1023
        cuda.atomic.exch(flag, 0, 1)
        while cuda.atomic.add(flag, 1, 0) == 0:
            i ^= 1
    if t >= 64:
        y[cuda.atomic.add(flag, 2, 1)] = t


@cuda.jit
def searches_a_full_table(flag, y):
    i, t = cuda.threadIdx.x & 15, cuda.threadIdx.x
    while cuda.atomic.cas(y, i, 0, t + 1) != 0:
        i = (i + 1) & 15


@cuda.jit
def adds_nothing(flag, y):
    while cuda.atomic.add(y, 0, 0) != -1 and cuda.atomic.max(y, 1, -5) != -1 and cuda.atomic.or_(y, 2, 0) != -1:
        y[16 + cuda.threadIdx.x] = 0


@cuda.jit
def stores_by_turns(flag, y):
    if cuda.threadIdx.x == 0:
        while y[1] != 5:
            y[0] = 1 - y[0]


@cuda.jit
def meets_a_store_by_turns(flag, y):
    """The first warp stores 0 and 1 by turns; memory is the same after each two rounds."""
    t, i = cuda.threadIdx.x, 0
    if t == 0:
        while cuda.atomic.add(flag, 1, 0) == 0:
            cuda.atomic.exch(flag, 0, 1)
            cuda.atomic.exch(flag, 0, 0)
    if t == 32:
        for k in range(3_000):
            i = (i * 5 + k) & 1023
        while cuda.atomic.add(flag, 0, 0) == 0:
            i ^= 1
        cuda.atomic.exch(flag, 1, i | 1)


@cuda.jit
def flips_until_the_last_cta_ends_it(flag, y):
    if cuda.blockIdx.x + 1 == cuda.gridDim.x:
        cuda.atomic.exch(flag, 1, 1)
    else:
        while cuda.atomic.add(flag, 1, 0) == 0:
            cuda.atomic.exch(flag, 0, 1)
            cuda.atomic.exch(flag, 0, 0)


@cuda.jit
def frees_an_entry_late(flag, y, rounds):
    t, i = cuda.threadIdx.x, 0
    if t == 0:
        while cuda.atomic.cas(flag, i, 0, 1) != 0:
            i ^= 1
        y[0] = 1
    if t == 32:
        for k in range(rounds):
            i = (i * 5 + k) & 1023
        cuda.atomic.exch(flag, 0, 0)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let both engines look soon."""
    monkeypatch.setattr(slices, "SLICE", 1_000)
    monkeypatch.setattr(slices, "SLICES", (1_000,) * 3)
    monkeypatch.setattr(slices, "FIRST_SLICE", 1_000)
    monkeypatch.setattr(machine_repeats, "FIRST", 1_000)
    monkeypatch.setattr(repeats, "FIRST", 1_000)


def check(kernel: Any, engine: Any, budget: int = BUDGET, block: int = 64) -> wsemu.Report:
    arrays = np.zeros(1, np.int32), np.zeros(128, np.int32)
    return wsemu.check(kernel, 1, block, arrays, engine=engine, budget=budget)


@ENGINES
@pytest.mark.parametrize("block", [32, 96])
@pytest.mark.parametrize("kernel", [searches_a_full_table, adds_nothing])
def test_atomics_and_stores_that_leave_memory_as_it_is_end_the_run(kernel: Any, block: int, engine: Any) -> None:
    report = check(kernel, engine, block=block)
    assert report.verdict == "incomplete"
    assert any(NOTE in note for note in report.notes)
    assert report.counters.warp_instructions < BUDGET / 4


@ENGINES
def test_what_one_warp_stores_by_turns_ends_the_run(engine: Any) -> None:
    report = check(stores_by_turns, engine)
    assert any(NOTE in note for note in report.notes)
    assert report.counters.warp_instructions < BUDGET / 4


@ENGINES
def test_what_one_warp_stores_by_turns_may_end_the_loop_of_another(engine: Any) -> None:
    flag = np.zeros(2, np.int32)
    report = wsemu.check(meets_a_store_by_turns, 1, 64, (flag, np.zeros(1, np.int32)), engine=engine, budget=BUDGET)
    assert not any(NOTE in note for note in report.notes)


@ENGINES
def test_a_loop_that_a_later_cta_ends_is_not_called_endless(engine: Any) -> None:
    arguments = np.zeros(2, np.int32), np.zeros(96, np.int32)
    report = wsemu.check(flips_until_the_last_cta_ends_it, 100, 1, arguments, engine=engine, budget=BUDGET)
    assert report.verdict == "incomplete"
    assert not any(NOTE in note for note in report.notes)
    assert any(f"a loop has no end, unless a CTA that has not started ends it: {ROUND}" in n for n in report.notes)


@ENGINES
@pytest.mark.parametrize("rounds", [20, 180, 220, 420, 580, 3_000])
def test_a_store_that_lets_the_cas_of_another_warp_succeed_is_seen(rounds: int, engine: Any) -> None:
    flag, y = np.ones(2, np.int32), np.zeros(1, np.int32)
    report = wsemu.check(frees_an_entry_late, 1, 64, (flag, y, np.int32(rounds)), engine=engine, budget=BUDGET)
    assert y[0] == 1
    assert not any(NOTE in note for note in report.notes)


@ENGINES
@pytest.mark.parametrize("kernel", [flips, counts_in_a_circle, some_lanes_flip])
def test_a_loop_that_repeats_its_registers_ends_the_run(kernel: Any, engine: Any) -> None:
    report = check(kernel, engine)
    assert (report.verdict, report.reasons) == ("incomplete", ["step budget"])
    assert report.counters.warp_instructions < BUDGET / 4
    place = next(note.partition(f": {NOTE}")[0] for note in report.notes if NOTE in note)
    line = Path(__file__).read_text(encoding="utf-8").splitlines()[int(place.rpartition(":")[2]) - 1]
    assert line.split()[0] in ("while", "i")


@ENGINES
@pytest.mark.parametrize("kernel", [counts_up, flips_and_stores])
def test_a_loop_that_changes_something_uses_its_budget(kernel: Any, engine: Any) -> None:
    report = check(kernel, engine, 20_000)
    assert report.verdict != "verified"
    assert not any(NOTE in note for note in report.notes)
    assert report.counters.warp_instructions >= 19_000


@ENGINES
def test_a_loop_that_reads_the_clock_uses_its_budget(engine: Any) -> None:
    report = wsemu.check(wsemu.load_ptx(CLOCK)["k"], 1, 1, (np.zeros(1, np.int32),), engine=engine, budget=20_000)
    assert not any(NOTE in note for note in report.notes)
    assert report.counters.warp_instructions >= 19_000


@ENGINES
def test_a_loop_that_another_warp_ends_runs_to_its_end(engine: Any) -> None:
    flag = np.zeros(1, np.int32)
    report = wsemu.check(another_warp_ends_it, 1, 64, (flag, np.zeros(1, np.int32)), engine=engine, budget=BUDGET)
    assert flag[0]
    assert not any(NOTE in note for note in report.notes)


@ENGINES
@pytest.mark.parametrize("rounds", [180, 220, 420, 580])
def test_a_store_before_the_loop_of_another_warp_is_seen(rounds: int, engine: Any) -> None:
    """The second warp stores while its single steps are executed, after those of the first one."""
    flag, y = np.zeros(3, np.int32), np.zeros(128, np.int32)
    report = wsemu.check(answers, 1, 192, (flag, y, np.int32(rounds)), engine=engine, budget=BUDGET)
    assert flag.tolist() == [1, 1, 128]
    assert not any(NOTE in note for note in report.notes)


@pytest.mark.parametrize("seed", range(4))
def test_loops_that_end_are_not_taken_for_endless(seed: int) -> None:
    source = random.Random(seed)
    for _ in range(40):
        loop = draw(source)
        assert not judge(loop, "vm", 20_000)[2], loop
