"""Random programs that use numbers and addresses as addresses, against an oracle.

`benchmarks/soundness.py --kind addresses` does the same for any number of programs.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest

from tests.properties.address_programs import AddressProgram, Statement, draw_addresses, judge_addresses
from wsemu.model.settings import Engine

CASES = {
    "an old address in the same call": ((Statement("use and leave", 0, 1, 0),), True),
    "an old address in a recursive function": (
        (Statement("leave deep", 0, 1, 0), Statement("use deep", 0, 1, 0)), True,
    ),
    "an address of the kernel in a recursive function": (
        (Statement("own", 0, 1, 8), Statement("keep", 0, 1, 0), Statement("use deep", 0, 1, 0)), False,
    ),
    "a number beside a stored address": (
        (
            Statement("shared", 0, 0, 8), Statement("keep", 0, 0, 0), Statement("number", 1, 0, 16),
            Statement("keep", 1, 1, 0), Statement("load", 2, 1, 0), Statement("store in shared", 2, 0, 0),
        ),
        True,
    ),
}  # fmt: skip
"""statements, all of which are executed twice -> whether an access is wrong"""


@pytest.mark.parametrize("name", CASES)
def test_what_is_wrong(name: str) -> None:
    statements, wrong = CASES[name]
    found = judge_addresses(AddressProgram(statements, 0), ("vm", "reference"))
    assert found.fails == wrong
    assert not found.complaints, str(found)
    assert wrong or set(found.verdicts) == {"verified"}


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_verdicts_are_those_of_the_oracle(engine: Engine) -> None:
    source = random.Random(f"addresses {engine}")
    found = [judge_addresses(draw_addresses(source), (engine,)) for _ in range(60)]
    assert not [str(one) for one in found if one.complaints]
    counted = Counter(one.verdicts[0] for one in found)
    assert counted["verified"] > 5
    assert counted["failed"] > 10
