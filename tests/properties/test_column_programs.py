"""Verdicts on rings of accumulators in tensor memory agree with all interleavings."""

from __future__ import annotations

import random

import pytest

from tests.properties.column_programs import draw_columns, judge_columns


@pytest.mark.parametrize("seed", range(12))
def test_a_ring_of_slots_agrees_with_its_interleavings(seed: int):
    found = judge_columns(draw_columns(random.Random(seed)), ("vm", "reference") if seed % 4 == 0 else ("vm",))
    assert not found.complaints, found


def test_enumeration_distinguishes_right_rings_from_wrong_ones():
    outcomes = [draw_columns(random.Random(seed)).can_fail() for seed in range(40)]
    assert 8 < sum(map(bool, outcomes)) < 32
