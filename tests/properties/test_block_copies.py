"""Threads that copy blocks of the heap in bulk: random programs of them against every interleaving."""

from __future__ import annotations

import random

import pytest

from tests.properties.block_copy_programs import (
    ALIGN,
    BOUNDS,
    DEADLOCK,
    OUTLIVES,
    PLACES,
    PROXY,
    RACE,
    SAME,
    STORE_OUTLIVES,
    UNSET,
    WAR,
    copy_program,
    explore,
    judge_copies,
    parse,
)

LOADED = "warps: M0 16; V0+0=1; {}L0+0 16 1 0; {}E12; D0 | Y0; E13"
STORED = "warps: M0 16; X0=2; F; {}0+0 16 0; {}; P0 0; B; B; D0 | B; G0 0; R0+8; B"
HANDED = "lanes: M0 32; V0+16=5; F; P0 0; B; {} | B; G0 0; L0+16 16 1 2; Y2; E12; {}"
TWICE = "warps: M0 32; X0=2; F; O0+0 16 0; {}; X0=6; F; O0+16 16 0; {}; R0+16; D0 | B; Y0"
CASES = {
    LOADED.format("F; ", "Y0; "): set(),
    LOADED.format("", "Y0; "): {PROXY},
    LOADED.format("F; ", ""): {RACE, UNSET},
    STORED.format("O", "K0"): set(),
    STORED.format("O", "Q0"): {RACE, UNSET},
    STORED.format("O", "K1"): {RACE, UNSET, STORE_OUTLIVES},
    STORED.format("V0+0=1; F; A", "K0"): set(),
    STORED.format("V0+0=1; A", "K0"): {PROXY},
    STORED.format("A", "K0"): {UNSET},
    HANDED.format("B; D0", "B"): set(),
    HANDED.format("D0; B", "B"): {RACE, BOUNDS, UNSET},
    HANDED.format("F", "D0"): set(),
    TWICE.format("Q0", "K0").replace(" | B; Y0", " | D0"): set(),
    TWICE.format("F", "K0").replace(" | B; Y0", " | D0"): {RACE},
    TWICE.format("Q0", "K1").replace(" | B; Y0", " | D0"): {RACE, UNSET, STORE_OUTLIVES},
    "warps: M0 32; V0+0=1; V0+16=5; F; L0+0 16 0 0; Y0; E0; L0+16 16 0 1; Y1; E1 | D1": {WAR},
    "lanes: M0 16; X0=2; F; O0+0 16 0; O0+0 16 0; K0; R0+8 | M0 16": {SAME},
    "lanes: M0 16; X0=2; X12=3; F; O0+0 16 0; O0+0 16 1; K0; R0+8 | M0 16": {RACE},
    "warps: M0 16; V0+0=1; F; L0+0 32 0 0 | M0 16; L0+4 16 1 1; Y1": {BOUNDS, ALIGN, OUTLIVES},
    "warps: M0 16; D0; O0+0 16 0; K0 | M0 16777216; L0+0 16 1 0; Y0": {BOUNDS},
    "lanes: M0 16; V0+0=1; B; F; L0+0 16 0 0 | Y0; B": {DEADLOCK},
}
"""program -> what can go wrong in it, and warnings of it"""


@pytest.mark.parametrize("line", CASES)
def test_what_can_go_wrong(line: str) -> None:
    program = parse(line)
    assert str(program) == line
    outlook = explore(program)
    assert outlook.faults | outlook.warnings == CASES[line]
    judged = judge_copies(program, ("vm", "reference"))
    assert not judged.complaint, judged
    assert judged.verdicts == 2 * ("failed" if outlook.faults else "verified",)


@pytest.mark.parametrize("place", PLACES)
def test_random_programs(place: str) -> None:
    source = random.Random(f"block copies {place}")
    for k in range(15):
        program = copy_program(source)._replace(place=place)
        assert parse(str(program)) == program
        judged = judge_copies(program, ("vm", "reference") if k % 3 == 0 else ("vm",))
        assert not judged.complaint, judged
