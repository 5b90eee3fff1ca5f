"""Accesses of all sizes through all state spaces, in calls and beyond the ends of variables, on both engines."""

from __future__ import annotations

import random

import pytest

from tests.properties.space_programs import draw_program, judge_spaces


@pytest.mark.parametrize("seed", range(24))
def test_accesses_do_what_the_model_says(seed: int) -> None:
    complaint, _ = judge_spaces(draw_program(random.Random(seed)), ("vm", "reference"))
    assert not complaint
