"""Lanes of one warp that communicate: random programs of a few of them against every interleaving."""

from __future__ import annotations

import random

import pytest

from tests.properties.mate_programs import (
    HANG,
    MASK,
    RACE,
    UNDEFINED,
    Branch,
    Op,
    Program,
    faults,
    judged_mates,
    mate_program,
    recursive_program,
    results,
)

STORE, LOAD = Op("W", 1, 0, 2), Op("R", 1, 1)


def meets(mask: int = 7, kind: str = "Y") -> Op:
    return Op(kind, mask=mask)


@pytest.mark.parametrize(
    ("block", "wrong"),
    [
        ((STORE, meets(), LOAD), set()),
        ((STORE, LOAD), {RACE}),
        ((STORE, meets(3), LOAD), {RACE, MASK}),
        ((STORE, Branch(3, (meets(3),), ()), LOAD), {RACE}),
        ((Branch(1, (meets(3),), (meets(),)),), {HANG}),
        ((Op("S", value=3, mask=7),), {UNDEFINED}),
        ((STORE, Op("K"), LOAD), set()),
        ((Op("X", mask=4), STORE, meets(), Branch(1, (LOAD,), ())), set()),
        ((Op("X", mask=6), Op("S", value=1), meets(kind="B"), Op("X", mask=1)), set()),
        ((Op("X", mask=4), Op("S", value=2), meets(3, "B"), Op("X", mask=1)), {UNDEFINED}),
        (
            (Op("X", mask=4), Branch(1, (Op("S", value=2, mask=5),), ()), Op("S", value=0, mask=3), Op("X", mask=1)),
            {UNDEFINED},
        ),
        (
            (Op("X", mask=4), Branch(1, (Op("S", value=2, mask=5),), ()), Op("S", value=1, mask=3), Op("X", mask=1)),
            set(),
        ),
    ],
)
@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_what_can_go_wrong(block: tuple[Op | Branch, ...], wrong: set[str], engine: str) -> None:
    program = Program(3, block)
    assert wrong <= faults(program)
    judged = judged_mates(program, engine)
    assert not judged.complaint, judged
    assert (judged.verdict == "verified") == (not wrong)


def test_numbers_are_those_of_one_interleaving() -> None:
    assert results(Program(2, (STORE, meets(3), LOAD))) == ([2, 3, 0, 0], [6, 6])


@pytest.mark.parametrize("calls", [(1, 1, 0), (0, 2, 0), (2, 2, 0), (0, 2, 3)])
@pytest.mark.parametrize(
    ("block", "verdict"),
    [((STORE, meets(), LOAD), "verified"), ((STORE, LOAD, meets()), "failed"), ((STORE, Op("F"), LOAD), "failed")],
)
@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_a_function_that_calls_itself_orders_nothing(
    calls: tuple[int, ...], block: tuple[Op, ...], verdict: str, engine: str
) -> None:
    program = Program(3, block, calls=calls)
    judged = judged_mates(program, engine)
    assert not judged.complaint, judged
    if calls[2] == 0 or verdict == "failed":
        assert judged.verdict == verdict


@pytest.mark.parametrize("seed", range(2))
def test_random_programs_in_functions_that_call_themselves(seed: int) -> None:
    source = random.Random(f"recursive {seed}")
    for k in range(20):
        judged = judged_mates(recursive_program(source), "reference" if k % 5 == 0 else "vm")
        assert not judged.complaint, judged


@pytest.mark.parametrize("seed", range(3))
def test_random_programs(seed: int) -> None:
    source = random.Random(f"mates {seed}")
    for k in range(30):
        judged = judged_mates(mate_program(source), "reference" if k % 5 == 0 else "vm")
        assert not judged.complaint, judged


@pytest.mark.parametrize("last", [Op("A", 1, 0), Op("W", 1, 0, 5)], ids=["atomic", "store"])
@pytest.mark.parametrize("engine", ["vm", "reference"])
@pytest.mark.parametrize("first", [(LOAD,), (LOAD, LOAD), (LOAD, LOAD, LOAD)], ids=["once", "twice", "thrice"])
def test_a_load_by_another_lane_does_not_stand_for_earlier_ones(first: tuple[Op, ...], engine: str, last: Op) -> None:
    block = (*(Op(*op) for op in first), Op("F"), Op("R", 1, 0), last)
    judged = judged_mates(Program(2, block), engine)
    assert (judged.codes, judged.complaint) == (("intra-warp-race",), "")
