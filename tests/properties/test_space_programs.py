"""Accesses of all sizes through all state spaces, in calls and beyond the ends of variables, on both engines."""

from __future__ import annotations

import random

import pytest

from tests.properties.space_programs import draw_program, expected, outcome, written


@pytest.mark.parametrize("seed", range(24))
def test_accesses_do_what_the_model_says(seed: int) -> None:
    program = draw_program(random.Random(seed))
    wanted = expected(program)
    for engine in ("vm", "reference"):
        codes, values, _ = outcome(program, engine)
        assert codes == [] or set(codes) == {"out-of-bounds"}, (engine, written(program))
        assert bool(codes) == (wanted is None), (engine, written(program))
        assert wanted is None or values == wanted, (engine, written(program))
