"""Stores of one value to one place, against enumeration.

`benchmarks/soundness.py --kind values` does the same for any number of programs.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.properties.same_value_programs import draw, judged_values
from wsemu.model.settings import Engine


@pytest.mark.parametrize(("engine", "large"), [("vm", False), ("vm", True), ("reference", False)])
def test_the_verdict_is_what_enumeration_shows(engine: Engine, large: bool) -> None:
    source = random.Random(f"values {engine}")
    found = [judged_values(draw(source), (engine,), large=large) for _ in range(40 if engine == "vm" else 12)]
    assert not any(one.complaints for one in found), "\n".join(str(one) for one in found if one.complaints)


def test_the_programs_are_a_fair_mix() -> None:
    source = random.Random(1)
    found = [judged_values(draw(source), ()).known for _ in range(300)]
    assert sum(not one.good for one in found) > 60
    assert sum(one.good and not one.ordered for one in found) > 20
    assert sum(one.ordered for one in found) > 40
