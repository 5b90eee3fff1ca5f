"""Loops that end, and loops that return to an earlier state, have the verdict that their execution shows."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.properties.wait_programs import Loop, Step, draw, execute, judge
from wsemu.launch.explore import orders

if TYPE_CHECKING:
    from wsemu.model.settings import Engine

BUDGET = 8_000


@pytest.mark.parametrize(("engine", "count"), [("vm", 100), ("reference", 20)])
def test_random_loops(engine: Engine, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orders, "PATIENCE", 1_000)
    source, seen = random.Random(f"{engine} 1"), Counter[tuple[bool | None, str]]()
    for _ in range(count):
        loop = draw(source)
        known, verdict, wrong = judge(loop, engine, BUDGET)
        assert not wrong, f"{wrong}\n{loop}"
        seen[known.ends, verdict] += 1
    assert min(seen[True, "verified"], seen[False, "incomplete"]) > count // 10


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_what_a_guarded_load_leaves_is_written(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A guarded strong load in a loop was wrongly reported to read an uninitialized register."""
    monkeypatch.setattr(orders, "PATIENCE", 1_000)
    steps = (Step("exch", 0, 1, 2, when=0), Step("strong", 0, 2, 2, when=0))
    loop = Loop((3, 3, 0, 0), (2, 3, 2), steps, "ge", 0, 3)
    assert judge(loop, engine, BUDGET) == (execute(loop), "verified", "")


def test_the_model_sees_a_state_that_comes_again() -> None:
    polls = Loop((0, 0, 0, 0), (0, 0, 0), (Step("strong", 0),), "ne", 0, 0)
    counts = polls._replace(steps=(*polls.steps, Step("add", 1, 1, number=1)))
    assert execute(polls).ends is False
    assert execute(counts).ends is False
    assert execute(counts._replace(steps=(*counts.steps, Step("store", of=1, word=1)))).ends is None
    assert execute(polls._replace(words=(1, 0, 0))) == (True, (1, 0, 0))
