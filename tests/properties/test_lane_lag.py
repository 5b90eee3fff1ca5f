"""Lanes that lag behind their own instruction, against enumeration: with the lanes of a warp together, and apart.

`benchmarks/soundness.py --kind lag` does the same for as many programs as one has patience for.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.properties.lag_programs import LAG_FAMILIES, judged_lag
from wsemu.model.settings import Engine


@pytest.mark.parametrize("family", LAG_FAMILIES)
@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_the_verdict_is_what_enumeration_shows(family: str, engine: Engine) -> None:
    source = random.Random(f"{family} 1")
    found = [judged_lag(LAG_FAMILIES[family](source), (engine,)) for _ in range(40 if engine == "vm" else 8)]
    assert not any(one.complaints for one in found), "\n".join(str(one) for one in found if one.complaints)


def test_the_programs_are_a_fair_mix() -> None:
    source = random.Random(2)
    found = [judged_lag(LAG_FAMILIES["ring"](source), ()) for _ in range(150)]
    assert sum(one.lags for one in found) > 30
    assert sum(bool(one.together) for one in found) > 30
    assert sum(not one.apart for one in found) > 5
