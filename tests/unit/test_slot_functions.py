"""What a thread does with a drawn number is a function of the number: one run decides."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import wsemu
from tests.properties.slot_programs import SlotProgram, draw_slots, judge_slots
from wsemu import cuda

if TYPE_CHECKING:
    from wsemu.model.settings import Engine

ENGINES: tuple[Engine, ...] = ("vm", "reference")
HOW = "whatever the order in which atomics give out places"
i32, u32 = np.int32, np.uint32
CTAS = 2
TOTAL = 64 * CTAS


@cuda.jit
def bounded(n: Any, y: Any, x: Any) -> None:
    i = cuda.grid(1)
    p = cuda.atomic.add(n, 0, 1)
    if p < 50:
        y[p] = x[i]


@cuda.jit
def ended(n: Any, y: Any, x: Any) -> None:
    p = cuda.atomic.add(n, 0, 1)
    if p >= 50:
        return
    y[p] = 1


@cuda.jit
def swapped(n: Any, y: Any, x: Any) -> None:
    y[cuda.atomic.add(n, 0, 1) ^ 1] = x[cuda.grid(1)]


@cuda.jit
def pairs(n: Any, y: Any, x: Any) -> None:
    i = cuda.grid(1)
    if x[i] > 0:
        p = cuda.atomic.add(n, 0, 1)
        for k in range(2):
            y[2 * p + k] = i


@cuda.jit
def counted_down(n: Any, y: Any, x: Any) -> None:
    y[cuda.atomic.sub(n, 0, 1) + TOTAL - 1] = 1


@cuda.jit
def of_shared_counter(n: Any, y: Any, x: Any) -> None:
    count = cuda.shared.array(1, i32)
    if cuda.threadIdx.x == 0:
        count[0] = 0
    cuda.syncthreads()
    p = cuda.atomic.add(count, 0, 1)
    if p < 50:
        y[cuda.blockIdx.x * 64 + p] = 1


@cuda.jit
def halved(n: Any, y: Any, x: Any) -> None:
    p = cuda.atomic.add(n, 0, 1)
    if p < 50:
        y[p // 2] = cuda.threadIdx.x


@cuda.jit
def loaded_outside(n: Any, y: Any, x: Any) -> None:
    i = cuda.grid(1)
    p = cuda.atomic.add(n, 0, 1)
    if p < 50:
        y[p] = x[i + 2 * TOTAL - 16]


@cuda.jit
def moved_by_thread(n: Any, y: Any, x: Any) -> None:
    p = cuda.atomic.add(n, 0, 1)
    if p < 50:
        y[p + cuda.threadIdx.x] = p


@cuda.jit
def drawn_at_two_lines(n: Any, y: Any, x: Any) -> None:
    if cuda.blockIdx.x == 0:
        if cuda.atomic.add(n, 0, 1) == 0:
            y[0] = 1
    elif cuda.atomic.add(n, 0, 1) == 0:
        y[2 * TOTAL] = 1


@cuda.jit
def moved_by_round(n: Any, y: Any, x: Any) -> None:
    for k in range(2):
        p = cuda.atomic.add(n, 0, 1)
        if p < 50:
            y[p + 60 * k] = 1
        elif p < 70:
            y[p] = 1


def arguments() -> tuple[Any, ...]:
    return np.zeros(1, i32), np.zeros(2 * TOTAL, i32), np.ones(2 * TOTAL, i32)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kernel", [bounded, ended, swapped, pairs, counted_down, of_shared_counter])
def test_functions_of_numbers(kernel: Any, engine: Engine) -> None:
    report = wsemu.check(kernel, CTAS, 64, arguments(), engine=engine)
    assert report.verdict == "verified"
    assert report.proof.endswith(HOW)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kernel", [halved, loaded_outside, moved_by_thread, drawn_at_two_lines, moved_by_round])
def test_wrong_functions_of_numbers(kernel: Any, engine: Engine) -> None:
    report = wsemu.check(kernel, CTAS, 64, arguments(), engine=engine)
    assert report.verdict in (("failed", "incomplete") if kernel in (moved_by_thread, moved_by_round) else ("failed",))


@pytest.mark.parametrize(
    "program",
    [
        SlotProgram(1, 4, "dec", 3, 2, 1, 4, 0, 1, odd=True, early=True, shift=10),
        SlotProgram(2, 2, "add", 2, 1, 0, 4, 1, 2, odd=True, early=False, shift=10),
        SlotProgram(1, 4, "inc", 2, 0, 1, 0, 0, -1, odd=False, early=False, shift=-1),
    ],
)
def test_what_one_run_does_not_show(program: SlotProgram) -> None:
    assert program.can_fail()
    assert not judge_slots(program, ENGINES).complaints


@pytest.mark.parametrize("seed", range(6))
def test_random_functions_of_numbers(seed: int) -> None:
    source = random.Random(seed)
    for _ in range(4):
        found = judge_slots(draw_slots(source), ENGINES)
        assert not found.complaints, str(found)


@cuda.jit
def marked_by_the_first(n: Any, y: Any) -> None:
    if cuda.atomic.add(n, 0, 1) == 0:
        y[cuda.blockIdx.x] = 1


@pytest.mark.parametrize("engine", ENGINES)
def test_a_branch_on_a_number_has_a_note_on_what_is_left(engine: Engine) -> None:
    report = wsemu.check(marked_by_the_first, 3, 1, (np.zeros(1, i32), np.zeros(3, i32)), engine=engine)
    assert (report.verdict, report.proof.endswith(HOW)) == ("verified", True)
    assert any("so may what is left in arrays" in note for note in report.notes), report.notes
