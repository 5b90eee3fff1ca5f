"""Products find their operands in collector buffers, or `collector-without-fill` is reported."""

from __future__ import annotations

import random

from tests.properties.collector_programs import draw_collectors, judge_collectors


def test_random_products() -> None:
    source, fails = random.Random("collectors 1"), 0
    for k in range(16):
        found = judge_collectors(draw_collectors(source), ("vm", "reference") if k == 1 else ("vm",))
        assert not found.complaints, str(found)
        fails += found.fails
    assert 2 < fails < 14
