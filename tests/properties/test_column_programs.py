"""Verdicts on rings of accumulators in tensor memory agree with all interleavings."""

from __future__ import annotations

import random

import pytest

from tests.properties.column_programs import (
    ARRIVE,
    AWAIT,
    COMMIT,
    LOAD,
    MULTIPLY,
    STORE,
    WAIT_LOADS,
    WAIT_STORES,
    ColumnProgram,
    Step,
    draw_columns,
    judge_columns,
)


@pytest.mark.parametrize("seed", range(12))
def test_a_ring_of_slots_agrees_with_its_interleavings(seed: int):
    found = judge_columns(draw_columns(random.Random(seed)), ("vm", "reference") if seed % 4 == 0 else ("vm",))
    assert not found.complaints, found


def test_a_store_from_the_registers_of_a_load_does_not_use_what_was_loaded():
    """The engines' store has the registers of the load, which is read no more."""
    makes = (Step(MULTIPLY, 0), Step(COMMIT, 0), Step(MULTIPLY, 1), Step(COMMIT, 1))
    uses = (
        Step(AWAIT, 0), Step(AWAIT, 1), Step(LOAD, 0), Step(STORE, 1), Step(WAIT_STORES), Step(ARRIVE, 3),
    )  # fmt: skip
    wrong = judge_columns(ColumnProgram((makes, uses), (1, 1, 1, 1), 2), ("vm", "reference"))
    waits = (*uses[:3], Step(WAIT_LOADS), *uses[3:])
    right = judge_columns(ColumnProgram((makes, waits), (1, 1, 1, 1), 2), ("vm", "reference"))
    assert (wrong.fails, wrong.verdicts, wrong.complaints) == (True, ("failed", "failed"), ())
    assert (right.fails, right.verdicts, right.complaints) == (False, ("verified", "verified"), ())


def test_enumeration_distinguishes_right_rings_from_wrong_ones():
    outcomes = [draw_columns(random.Random(seed)).can_fail() for seed in range(40)]
    assert 8 < sum(map(bool, outcomes)) < 32
