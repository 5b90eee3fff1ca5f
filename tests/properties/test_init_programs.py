"""An mbarrier that lanes of one instruction initialize, against enumeration.

`benchmarks/soundness.py --kind inits` does the same for any number of programs.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.properties.init_programs import draw, judged_inits
from wsemu.model.settings import Engine


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_the_verdict_is_what_enumeration_shows(engine: Engine) -> None:
    source = random.Random(f"inits {engine}")
    found = [judged_inits(draw(source), (engine,)) for _ in range(60 if engine == "vm" else 20)]
    assert not any(one.complaints for one in found), "\n".join(str(one) for one in found if one.complaints)


def test_the_programs_are_a_fair_mix() -> None:
    source = random.Random(1)
    found = [judged_inits(draw(source), ()) for _ in range(300)]
    assert sum(one.fails for one in found) > 60
    assert sum(not one.fails and one.same for one in found) > 60
    assert sum(not one.fails and not one.same for one in found) > 15
