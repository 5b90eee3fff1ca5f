"""Threads that share memory of the heap: random programs of them against every interleaving."""

from __future__ import annotations

import random

import pytest

from tests.properties.heap_programs import (
    ALIGN,
    BOUNDS,
    PLACES,
    RACE,
    UNSET,
    explore,
    heap_program,
    judged_heap,
    parse,
    recursive_program,
)

HANDED = "M0 8; W0+4=2; P0 0 {} | G0 0 {}; ?0 R0+4; ?0 D0"
MET = "M0 8; W0+4=2; P0 0 weak; B; B; D0 | B; G0 0 weak; R0+4; B"
COUNTED = "M0 8; W0+0=1; P0 0 weak; B; A0+0; {0}C {1}; {0}?t1 D0 | B; G0 0 weak; A0+0; {0}C {1}; {0}?t1 D0"
TOLD = "M0 8; W0+4=0; P0 1 release; W0+0=2; S0+4=1 {} | G0 1 acquire; ?0 L0+4 {}; ?t1 R0+0"
TURNS = "M0 8; W0+4=0; M0 8; P0 1 weak; B; W0+0=2; S0+4=1 {} | B; G0 1 weak; L0+4 {}; ?t1 R0+0"
"""warps take turns elsewhere while undefined values are followed"""
CASES = {
    "warps: M0 8; W0+4=2; R0+4; D0 | M0 4; D0": (set(), 0),
    "ctas: M0 8; W0+4=2; R0+4 | M0 20; D0": (set(), 16),
    "lanes: M0 8; W0+4=2; R0+8; D0 | F": ({BOUNDS}, 0),
    "lanes: M0 8; N1 0-4; R1+0; D0 | F": ({BOUNDS}, 0),
    "warps: M0 16777216; ?0 W0+0=1; D0 | M0 16777216; !0 R0+0": ({BOUNDS}, 0),
    "ctas: M0 8; D0; W0+0=1 | F": ({BOUNDS}, 0),
    "ctas: M0 8; D0; D0 | F": ({BOUNDS}, 0),
    "ctas: M0 8; N1 0+4; D1 | F": ({BOUNDS}, 0),
    "ctas: M0 8; D0; M1 8; R0+0 | F": ({BOUNDS}, 0),
    "lanes: M0 8; R0+0; D0 | F": ({UNSET}, 0),
    "lanes: M0 16; V0+4=1; D0 | F": ({ALIGN}, 0),
    "ctas: " + HANDED.format("release", "acquire"): (set(), None),
    "warps: " + HANDED.format("relaxed", "acquire"): ({RACE}, 0),
    "ctas: " + HANDED.format("release", "relaxed"): ({RACE}, 0),
    "ctas: " + TOLD.format("release", "acquire"): (set(), 16),
    "ctas: M0 8; W0+4=0; P0 1 release; S0+4=1 relaxed | G0 1 acquire; ?0 L0+4 acquire; ?t1 D0": (set(), None),
    "warps: " + TOLD.format("relaxed", "acquire"): ({RACE}, 0),
    "lanes: " + TOLD.format("release", "relaxed"): ({RACE}, 0),
    "warps: " + TURNS.format("relaxed", "relaxed"): ({RACE, UNSET}, 0),
    "warps: " + TURNS.format("release", "acquire"): ({RACE, UNSET}, 0),
    "lanes: " + MET: (set(), 0),
    # in another order of the counter, the atomic stores what it computes from bytes that nobody wrote
    "ctas: C acq_rel | M1 24; C relaxed; ?t0 A1+4": ({UNSET}, 0),
    "warps: C acq_rel | M1 24; C relaxed; ?t0 A1+4": ({UNSET}, 0),
    "warps: C acq_rel | M1 24; W1+4=0; C relaxed; ?t0 A1+4": (set(), 32),
    "warps: " + MET: (set(), 0),
    "warps: " + MET.replace("B; B; D0", "B; D0; B"): ({RACE, BOUNDS}, 0),
    "warps: " + COUNTED.format("", "acq_rel"): (set(), 0),
    "warps: " + COUNTED.format("F; ", "relaxed"): (set(), 0),
    "warps: " + COUNTED.format("", "relaxed"): ({RACE}, 0),
}
"""program -> what can go wrong, bytes that are left"""


@pytest.mark.parametrize("line", CASES)
def test_what_can_go_wrong(line: str) -> None:
    faults, left = CASES[line]
    program = parse(line)
    assert str(program) == line
    outlook = explore(program)
    assert outlook.faults == faults
    assert faults or left is None or {bytes_ for _, bytes_ in outlook.outcomes} == {left}
    judged = judged_heap(program, ("vm", "reference"))
    assert not judged.complaint, judged
    assert judged.verdicts == 2 * ("failed" if faults else "verified",)


@pytest.mark.parametrize("place", PLACES)
def test_random_programs(place: str) -> None:
    source = random.Random(f"heap {place}")
    drawn = 0
    while drawn < 12:
        program = heap_program(source)
        if program.place == place:
            drawn += 1
            assert parse(str(program)) == program
            judged = judged_heap(program, ("vm", "reference"), generic=drawn % 2 == 0)
            assert not judged.complaint, judged


def test_a_load_outside_of_a_block_gives_any_ticket() -> None:
    found = judged_heap(parse("warps: M0 8; P0 1 release; S0+4=1 relaxed | G0 1 acquire; ?0 L0+8 relaxed; ?t1 D0"))
    assert (found.complaint, set(found.outlook.faults)) == ("", {"out-of-bounds", "race"})
    found = judged_heap(parse("ctas: M0 8 | M1 12; L1+0 relaxed"))
    assert (found.complaint, found.verdicts) == ("", ("verified",))


@pytest.mark.parametrize("line", [
    "warps 1 deep: M0 8; W0+4=2; P0 0 weak; B; B; D0 | B; G0 0 weak; R0+4; B",
    "lanes 2 deep: M0 8; W0+4=2; P0 0 weak; B; B; D0 | B; G0 0 weak; R0+4; B",
    "ctas 2 deep: M0 8; W0+4=2; P0 0 release | G0 0 acquire; ?0 R0+4; ?0 D0",
    "ctas 3 deep: M0 8; W0+4=2; P0 0 relaxed | G0 0 acquire; ?0 R0+4; ?0 D0",
    "lanes 1 deep: M0 8; N1 0+4; W1+0=3; R0+4; D1 | M1 12; D1; D1",
    "lanes 3 deep: M0 24; W0+4=2; P0 0 weak; B; D0; B | B; B | B; G0 0 weak; R0+4; B",
    ("lanes 1 deep: M0 12; W0+0=0; P0 0 weak; B; A0+0; C acq_rel; A0+0"
     " | B; G0 0 weak; A0+0; C acq_rel; ?t2 D0 | B; G0 0 weak; A0+0; C acq_rel; ?t2 D0"),
])  # fmt: skip
def test_recursion(line: str) -> None:
    program = parse(line)
    assert str(program) == line
    judged = judged_heap(program, ("vm", "reference"))
    assert not judged.complaint, judged
    assert set(judged.verdicts) == {"failed" if judged.outlook.faults else "verified"}


def test_random_recursive_programs() -> None:
    source = random.Random("recursive heap")
    for k in range(4):
        program = recursive_program(source)
        assert parse(str(program)) == program
        judged = judged_heap(program, ("vm", "reference") if k == 0 else ("vm",), generic=k % 2 == 0)
        assert not judged.complaint, judged


@pytest.mark.parametrize("line", ["L0+4 relaxed; D0; W0+0=2", "W0+4=1; D0; W0+0=2"])
def test_a_ticket_in_a_launch_that_fails_otherwise_may_be_reported(line: str) -> None:
    found = judged_heap(parse(f"warps 2 deep: M0 8; W0+0=1; {line} | M0 4"), ("vm", "reference"))
    assert (found.complaint, found.outlook.faults) == ("", frozenset({BOUNDS}))
    assert (UNSET in found.codes) <= found.outlook.doubtful
