"""Accesses of several threads to the same bytes, of all sizes, against a model of their bytes."""

from __future__ import annotations

import itertools
import random

import pytest

from tests.properties.byte_programs import PLACES, STORE, Access, Conflicts, Program, byte_program, judge_bytes


@pytest.mark.parametrize("place", PLACES)
def test_random_programs(place: str) -> None:
    source = random.Random(f"bytes {place}")
    found = set[Conflicts]()
    for k in range(30):
        judged = judge_bytes(byte_program(source, place), ("vm", "reference") if k % 6 == 0 else ("vm",))
        assert not judged.complaints, judged
        found.add(judged.found)
    assert len(found) >= 2


SHAPES = ((1, 1, 17), (1, 1, 20), (2, 1, 18), (4, 1, 20), (2, 4, 16), (8, 1, 16))
"""(bytes of an element, elements, place) of a store"""


@pytest.mark.parametrize("alike", [False, True])
@pytest.mark.parametrize("shape", [(4, 1, 16), (4, 2, 16), (8, 2, 16)])
def test_stores_of_lanes_of_one_warp_that_overlap_in_part(shape: tuple[int, int, int], alike: bool) -> None:
    """They are a race, unless each byte gets one value."""
    for one, other in itertools.permutations([(*shape,)] * 2 + [*SHAPES], 2):
        lines = (), (Access(STORE, *one, False),), (Access(STORE, *other, False),)
        judged = judge_bytes(Program("lanes", "shared", (lines,), alike), ("vm",))
        assert not judged.complaints, judged
