"""Both engines say the same of random programs with asynchronous operations: outcome, findings, memory, trace."""

from __future__ import annotations

import pytest

from tests.properties.async_programs import differences

SEEDS = range(0, 72, 12)
"""the first of a dozen each"""


@pytest.mark.parametrize("first", SEEDS)
def test_the_engines_agree_on_asynchronous_programs(first: int) -> None:
    assert {seed: found for seed in range(first, first + 12) if (found := differences(seed))} == {}
