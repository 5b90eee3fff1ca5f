"""Lanes that lag behind their own instruction, against enumeration: with the lanes of a warp together, and apart.

`benchmarks/soundness.py --kind lag` does the same for any number of programs.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.properties.lag_programs import ARRIVE, DEADLOCK, LAG_FAMILIES, WAIT, Program, Step, judged_lag
from wsemu.model.settings import Engine


def program(*counts: int, one: str, other: str) -> Program:
    """A program as text: of each step `a` or `w`, and of each lane `mbarrier parity`, or `.`."""
    return Program(counts, (tuple(map(_step, one.split(", "))), tuple(map(_step, other.split(", ")))))


def _step(text: str) -> Step:
    kind, *lanes = text.split()
    what = tuple(None if lane == "." else (int(lane[0]), int(lane[1])) for lane in lanes)
    return Step(WAIT if kind == "w" else ARRIVE, what)


HOLD_BACK = {
    "waits for two phases": program(1, 1, 1, one="a 00 ., w 10 ., a 00 .", other="w . 00, w 21 10, a 10 ."),
    "waits for two mbarriers": program(
        1, 1, 1, one="a 00 ., w . 10, w 00 11, a 00 .", other="w 00 ., a 10 ., w 01 ., a 10 ."
    ),
    "one lane waits": program(1, 2, 1, one="w . 10, a 00 ., w 10 10, a 00 .", other="w . 00, a 10 10, w . 01, a 10 10"),
    "the other one arrives": program(1, 3, 1, one="w 10 10, a 10 ., w 11 ., a 10 10", other="a . 10, a 10 10, a 10 ."),
}
"""what lanes apart fail by, and lanes together by a lane that waits for what the lane behind it does: an error"""


@pytest.mark.parametrize("engine", ["vm", "reference"])
@pytest.mark.parametrize("name", HOLD_BACK)
def test_a_lane_that_waits_for_what_follows_its_warp_s_next_step(name: str, engine: Engine) -> None:
    found = judged_lag(HOLD_BACK[name], (engine,))
    assert DEADLOCK in found.together
    assert found.apart
    assert not found.complaints


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
