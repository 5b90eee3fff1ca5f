"""The verdict against enumeration: `verified` exactly when no interleaving of a random program shows a fault.

explorer.py enumerates, programs.py makes the programs and their kernels, algorithm.py is the checkers' algorithm alone,
agreement.py compares.  lanes.py, lane_control.py, lane_explorer.py and lane_programs.py are the same for warps that
diverge, exits, reductions, loops and atomics.  `benchmarks/soundness.py` does the same for any number of programs.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.properties.agreement import LANE_WAYS, WAYS, impossible, judged, judged_lanes
from tests.properties.explorer import Outlook, Program, notation, outlook, parse
from tests.properties.lane_explorer import lane_outlook
from tests.properties.lane_programs import LANE_FAMILIES
from tests.properties.lanes import lanes_notation, parse_lanes
from tests.properties.programs import FAMILIES, programs
from wsemu.launch.explore import samples

SOME_PATH = "w0: A(0,64) A(1,64) | w1: S(0,64) S(0,64) | w2: S(1,64) A(0,64)"
"""can deadlock, though some chain of operations leads from each generation of barrier 0 to the next: all pairs count"""
RING = "w0: A(1,64) S(0,64) R(0) A(1,64) S(0,64) R(0) | w1: S(1,64) W(0) A(0,64) S(1,64) W(0) A(0,64)"
"""one buffer, two tiles, with the empty buffer given first"""
EXAMPLES = {
    "nothing": ("w0: | w1:", "verified"),
    "every pair of two generations counts": (SOME_PATH, "failed"),
    "a ring with a full and an empty barrier": (RING, "verified"),
    "the producer laps the consumer": ("w0: W(0) A(0,64) W(0) A(0,64) | w1: S(0,64) R(0) S(0,64) R(0)", "failed"),
    "an arrive acquires nothing": ("w0: S(0,64) R(0) | w1: A(0,64) W(0)", "failed"),
    "an arrive releases": ("w0: S(0,64) R(0) | w1: W(0) A(0,64)", "verified"),
    "arrivals left over are harmless": ("w0: S(0,64) A(0,64) | w1: S(0,64)", "verified"),
    "left-over arrivals of either warp": ("w0: A(0,64) S(0,64) | w1: S(0,64) | w2: A(0,64)", "failed"),
    "a barrier of one warp": ("w0: S(0,32) W(0) S(0,32) | w1: R(1)", "verified"),
    "one warp takes part twice": ("w0: A(0,96) S(0,96) W(0) | w1: W(0) A(0,96) | w2:", "verified"),
    "race after the last barrier": ("w0: S(0,64) W(2) | w1: S(0,64) R(2)", "failed"),
    "two generations with other counts": ("w0: S(0,64) S(0,32) | w1: S(0,64)", "verified"),
    "the first operation fixes the count": ("w0: S(0,64) | w1: S(0,32) S(0,64)", "failed"),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_verdict_of_examples(name: str) -> None:
    line, verdict = EXAMPLES[name]
    found = judged(parse(line), WAYS)
    assert not found.complaints, str(found)
    assert bool(found.outlook.faults) == (verdict == "failed")


@settings(
    max_examples=50,
    deadline=None,
    derandomize=True,
    database=None,
    print_blob=False,
    suppress_health_check=list(HealthCheck),
)
@given(program=programs())
@example(program=parse(SOME_PATH))
@example(program=parse(RING))
def test_the_verdict_is_what_enumeration_shows(program: Program) -> None:
    found = judged(program, ("vm", "vm, own kernel"))
    assert not found.complaints, str(found)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_reference_interpreter_agrees_with_enumeration(family: str) -> None:
    source = random.Random(3)
    found = [judged(FAMILIES[family](source), ("reference",)) for _ in range(30)]
    assert not any(one.complaints for one in found), "\n".join(str(one) for one in found if one.complaints)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_algorithm_agrees_with_enumeration(family: str) -> None:
    """And the programs are a fair mix: many correct ones, and many of each fault."""
    source = random.Random(1)
    found = [judged(FAMILIES[family](source), ()) for _ in range(1000)]
    assert not any(one.complaints for one in found), "\n".join(str(one) for one in found if one.complaints)
    correct = sum(not one.outlook.faults for one in found)
    assert correct > 130
    for fault in ("deadlock", "count-mismatch", "all-arrive", "generations", "race"):
        assert sum(fault in one.outlook.faults for one in found) > 30, fault


LANE_EXAMPLES = {
    "lanes that store while the others arrive": ("w0: if low { W(0) } else { a(1,64) } | w1: s(1,64) R(0)", "failed"),
    "lanes that store and return": ("w0: if low { W(0) X } a(1,64) | w1: s(1,64) R(0)", "failed"),
    "told to the others before": ("w0: W(0) Y if one { a(1,64) } | w1: S(1,64) R(0)", "verified"),
    "not told to the others": ("w0: W(0) if one { a(1,64) } | w1: S(1,64) R(0)", "failed"),
    "told by lanes that then return": ("w0: W(0) Y if low { X } a(1,64) | w1: S(1,64) R(0)", "verified"),
    "a sync from two places": ("w0: W(0) if low { s(1,64) } else { s(1,64) } | w1: S(1,64) R(0)", "verified"),
    "two syncs of one warp": ("w0: if low { s(1,64) } else { s(2,64) } | w1: S(1,64) S(2,64)", "failed"),
    "what a part of a warp learns": ("w0: W(0) A(1,64) | w1: if low { s(1,64) } else { X } R(0)", "verified"),
    "other places of the row": ("w0: W(0) R(0,back)", "failed"),
    "other places, in order": ("w0: W(0) Y R(0,back)", "verified"),
    "bytes that do not overlap": ("w0: W(0,byte) | w1: if high { W(0,last) }", "verified"),
    "bytes that overlap": ("w0: W(0,byte) | w1: if low { W(0,last) }", "failed"),
    "a warp that returns": ("w0: W(0) X | w1: S(0) R(0)", "verified"),
    "a warp that returns, with a count": ("w0: W(0) X | w1: S(1,64) R(0)", "failed"),
    "with a count and without": ("w0: S(0) | w1: S(0,96) | w2: X", "failed"),
    "a result steers": ("w0: steer P(0,0,1) 14 { W(0) } else { X } S(0) | w1: P(0,0,1) S(0) R(0)", "verified"),
    "a result steers to a deadlock": ("w0: steer P(0,0,1) 14 { X } S(0,64) | w1: P(0,0,1) S(0,64)", "failed"),
    "lanes that exit without coming": ("w0: if one { Y X } R(0) | w1:", "verified"),
    "lanes that exit before the others come": ("w0: if one { s(1,32) Y } | w1:", "verified"),
    "lanes that left the loop and exited": ("w0: loop 1 rest { a(1+k,64) Y } | w1:", "verified"),
    "an aligned barrier after the others' exit": ("w0: if one { S(1,32) X } R(0) | w1:", "verified"),
    "lanes that pass by": ("w0: if one { Y } | w1:", "failed"),
    "lanes that pass by an aligned barrier": ("w0: if one { S(1,32) } | w1:", "failed"),
    "lanes that pass by while others are at a barrier": (
        "w0: if low { if one { s(1,32) } else { Y } } | w1:",
        "failed",
    ),
    "lanes that come to the same from further on": ("w0: if one { s(1,32) Y } s(1,32) | w1:", "verified"),
    "lanes that wait for each other": ("w0: if one { s(1,32) Y } s(1,32) s(1,32) | w1:", "failed"),
    "a store that lanes execute together": ("w0: if low { W(0) } W(2,pair) | w1:", "verified"),
    "a store that lanes execute apart": ("w0: if low { s(1,32) } W(2,pair) | w1:", "verified"),
    "a store that lanes execute apart, read too early": ("w0: if low { s(1,32) } W(2,pair) R(2,back) | w1:", "failed"),
    "two stores that lanes execute apart": (
        "w0: if low { s(1,32) W(2,pair) } else { W(2,pair) } | w1:",
        "failed",
    ),
    "the last iteration of some lanes": ("w0: loop 1 high { if rest { y } } | w1:", "verified"),
    "two buffers": ("w0: loop 2 { W(0+k) S(1+k,64) } | w1: loop 2 { S(1+k,64) R(0+k) }", "verified"),
    "one buffer": ("w0: loop 2 { W(0) S(1,64) } | w1: loop 2 { S(1,64) R(0) }", "failed"),
    "lanes with one more": ("w0: loop 2 low { s(1,64) } | w1: loop 3 { S(1,64) }", "verified"),
    "atomics of two warps": ("w0: C(0) | w1: C(0)", "verified"),
    "an atomic and a read": ("w0: C(0) | w1: C(0) R(0)", "failed"),
    "an atomic steers": ("w0: if one { chance 5 { W(0) } } | w1: C(5,first)", "incomplete"),
}


@pytest.mark.parametrize("name", LANE_EXAMPLES)
def test_the_verdict_of_examples_with_lanes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples, "MOST_ORDERS", 2)  # of those that are not all tried, which decides nothing
    line, verdict = LANE_EXAMPLES[name]
    found = judged_lanes(parse_lanes(line), LANE_WAYS)
    assert not found.complaints, str(found)
    assert found.outlook.verdicts == ({verdict, "verified"} if found.outlook.open else {verdict})


def test_exploration_goes_on_after_a_divergence() -> None:
    can = lane_outlook(parse_lanes("w0: s(1,64) | w1: if one { } else { V } | w2: S(1,96)"))
    assert can.faults == {"barrier-divergence", "count-mismatch"}
    assert can.always_ends_in("count-mismatch")


def test_interleavings_that_end_in_a_divergence_end_in_no_deadlock() -> None:
    can = lane_outlook(parse_lanes("w0: if one { S(1,32) } else { Y } | w1:"))
    assert can.faults == {"barrier-divergence"}
    assert not can.always_ends_in("deadlock")
    can = lane_outlook(parse_lanes("w0: if one { S(1,32) } else { Y } | w1: A(2,64) | w2: A(2,96)"))
    assert can.faults == {"barrier-divergence", "count-mismatch"}
    assert not can.always_ends_in("count-mismatch")


HIDES = "w0: if one { W(0,first) X } W(0,first) a(1,64) | w1: s(1,64) R(0,first)"


def test_a_store_hides_what_it_replaces_only_from_those_that_it_is_ordered_with() -> None:
    """The lane that exits races with the read, which may find the other lanes' store instead."""
    assert lane_outlook(parse_lanes(HIDES)).hidden == {"race"}
    assert not lane_outlook(parse_lanes(HIDES.replace("X", "W(1) X") + " R(1)")).hidden
    assert not lane_outlook(parse_lanes("w0: if one { W(0,first) X } W(0,first) | w1: R(0,first)")).hidden
    assert not judged_lanes(parse_lanes(HIDES), LANE_WAYS).complaints


@pytest.mark.parametrize(
    ("errors", "faults", "complaints"),
    [
        ({"race"}, {"race"}, 0),
        ({"intra-warp-race"}, {"intra-warp-race", "race"}, 1),
        ({"intra-warp-race", "race"}, {"intra-warp-race"}, 1),
        ({"race"}, {"barrier-divergence", "race"}, 1),
        ({"barrier-divergence"}, {"race"}, 1),
        ({"barrier-divergence"}, {"barrier-divergence", "race"}, 0),
        ({"barrier-divergence", "deadlock"}, {"barrier-divergence"}, 1),
        ({"count-mismatch"}, {"barrier-divergence"}, 1),
        ({"barrier-recycling"}, {"race"}, 1),
    ],
)
def test_what_a_run_finds_and_what_it_misses_is_judged(errors: set[str], faults: set[str], complaints: int) -> None:
    assert len(impossible(errors, Outlook(frozenset(faults), False, frozenset()))) == complaints


@pytest.mark.parametrize("family", LANE_FAMILIES)
def test_the_verdict_is_what_enumeration_of_lanes_shows(family: str) -> None:
    """A condition may have its branches in either order; the notation of a divergent warp is read as it is written."""
    source = random.Random(5)
    made = [LANE_FAMILIES[family](source) for _ in range(6)]
    assert [parse_lanes(lanes_notation(program)) for program in made] == made
    found = [judged_lanes(program, ("vm, lanes", "vm, mirrored")) for program in made]
    found += [judged_lanes(program, ("reference, mirrored",)) for program in made[:2]]
    assert not any(one.complaints for one in found), "\n".join(str(one) for one in found if one.complaints)


@pytest.mark.parametrize("family", FAMILIES)
def test_both_enumerations_agree_on_warps_that_stay_together(family: str) -> None:
    """One by the accesses that can be adjacent, the other by what happens before what in one execution, which need not
    show all where executions differ."""
    source = random.Random(4)
    for _ in range(20):
        program = FAMILIES[family](source)
        one, other = outlook(program), lane_outlook(parse_lanes(notation(program)))
        differ = one.faults & {"generations", "count-mismatch"}
        assert one.faults - other.faults <= ({"race"} if differ else set()), notation(program)
        assert other.faults <= one.faults, notation(program)


@pytest.mark.parametrize("family", LANE_FAMILIES)
def test_programs_of_lanes_are_a_fair_mix(family: str) -> None:
    source = random.Random(1)
    found = [lane_outlook(LANE_FAMILIES[family](source)) for _ in range(80)]
    assert sum("verified" in one.verdicts for one in found) > 10
    assert sum("failed" in one.verdicts for one in found) > 10
    for fault in ("deadlock", "race"):
        assert any(fault in one.faults for one in found), fault
