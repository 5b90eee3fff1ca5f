"""Random programs of mbarriers and copies that a counter steers: the verdict against all interleavings."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from tests.properties.phase_explorer import DEADLOCK, RACE
from tests.properties.steered_programs import check_steered, judged_steered, outlook, parse, steered

if TYPE_CHECKING:
    from wsemu.model.settings import Engine

DRAWN = "1 | D(0,0) W(0)?0=0 a(0)?0=0 a(0)?0!0 | w(0,0) R(0)"
"""the thread that draws first fills the tile"""


@pytest.mark.parametrize(("text", "verdict", "faults"), [
    (DRAWN, "verified", set()),
    (DRAWN.replace("a(0)?0!0", "P?0!0"), "verified", set()),
    (f"{DRAWN} || {DRAWN}", "verified", set()),
    (f"{DRAWN} || {DRAWN}".replace("a(0)?0!0", "P?0!0"), "failed", {DEADLOCK}),
    (f"{DRAWN} || {DRAWN}".replace("a(0)?0!0", "a(0)?0!0 W(0)?0=1"), "failed", {RACE}),
    ("1 | D(1,0) R(100)?0=1 || 1 | W(100) D(1,0)", "verified", set()),
    ("1 | D(0,0) R(100)?0=1 || 1 | W(100) D(1,0)", "failed", {RACE}),
    ("1 | D(1,0) R(100)?0=0 || 1 | W(100) D(1,0)", "failed", {RACE}),
])  # fmt: skip
def test_what_numbers_decide_is_enumerated(text: str, verdict: str, faults: set[str]) -> None:
    program = parse(text)
    assert str(program) == text
    assert outlook(program).faults == faults
    assert check_steered(program).verdict == verdict


def test_stores_of_one_value_may_be_a_race_where_atomics_steer() -> None:
    judged = judged_steered(parse("1 1 | n(0) w(1,0) g(0) g(0) n(0) | w(0,0) a(1) w(0,1) D(0,1)"), ("vm", "reference"))
    assert (judged.outlook.faults, judged.outlook.same) == (frozenset(), True)
    assert not judged.complaints, judged


@pytest.mark.parametrize("seed", range(2))
def test_random_programs(seed: int) -> None:
    source = random.Random(f"steered {seed}")
    for k in range(4):
        program = steered(source)
        assert parse(str(program)) == program
        judged = judged_steered(program, ("vm", "reference") if k == 0 else ("vm",))
        assert not judged.complaints, judged


@pytest.mark.parametrize("text", [
    "1 1 1 1 | g(1) D(0,0) i(1) a(1) | D(0,0) p(1,0)?0=0",
    "1 1 1 1 | g(0) i(0) a(0) g(1) D(0,0) i(1) a(1) | p(0,0) D(0,0) R(0) a(2) p(1,0)?0=0 R(1) a(3) W(2) P",
])  # fmt: skip
def test_a_copy_that_no_thread_waits_for_outlives_its_cta_in_both_engines(text: str) -> None:
    judged = judged_steered(parse(text), ("vm", "reference"))
    assert not judged.complaints, judged
    assert {*judged.verdicts} == {"failed"}


DRAWN_IN_TIME = (
    "1 1 1 1 | e(0,16) T(0,0) a(0) e(1,16) T(1,1) a(1) D(0,1) w(2,0)?1=0 e(0,16)?1=0 T(0,0)?1=0 a(0)"
    " | w(0,0) a(2) w(1,0) D(1,0) w(0,1)"
)


@pytest.mark.parametrize("text", [
    DRAWN_IN_TIME,
    "1 1 1 1 | g(0) i(0) a(0) D(1,0) R(0)?0=1 | w(0,0) D(1,0)",
    "1 2 | a(0) p(1,0) a(0) | p(0,0) D(1,1) a(1) | D(1,0) p(0,0)?0=0 a(1) p(0,1)",
])  # fmt: skip
def test_what_the_order_of_atomics_keeps_apart_is_no_error(text: str) -> None:
    judged = judged_steered(parse(text), ("vm", "reference"))
    assert not judged.complaints, judged
    assert not judged.outlook.faults
    assert {*judged.verdicts} == {"incomplete"}


def test_store_that_its_thread_reads_back_before_a_copy_is_a_warning_that_the_verdict_names() -> None:
    text = "1 1 | D(0,0) x(0,16) T(0,0) w(1,0) x(0,16) T(0,0) | D(1,0) w(0,0) W(0)?0=1 R(0) a(1) w(0,1)"
    judged = judged_steered(parse(text), ("vm", "reference"))
    assert not judged.complaints, judged
    assert {*judged.verdicts} == {"verified"}
    assert check_steered(parse(text)).proof.endswith("but 1 proxy-war")


def test_an_earlier_wait_at_the_same_line_keeps_no_phase_apart() -> None:
    judged = judged_steered(parse("1 1 | w(1,1) n(0) w(1,0) | w(0,0) D(1,1) a(1) R(0) a(1)?1=0"), ("vm", "reference"))
    assert not judged.complaints, judged
    assert {*judged.verdicts} == {"failed"}


@pytest.mark.parametrize("text", [
    "1 2 | | D(1,1) a(1)?1=1 | a(1) a(1) D(0,1)",
    "1 2 | | D(1,1) a(1)?1=1 a(1)?1=1 | a(1) e(1,16) T(1,0) D(0,1)",
])  # fmt: skip
def test_arrival_behind_a_number_that_shows_that_a_phase_is_over_fails_in_no_order(text: str) -> None:
    """The phase before has all its arrivals when the number is drawn; a copy of it may still be under way."""
    judged = judged_steered(parse(text), ("vm", "reference"))
    assert not judged.complaints, judged


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_arrival_behind_a_number_drawn_amid_a_phase_may_be_counted_into_it(engine: Engine) -> None:
    assert check_steered(parse("1 2 | | D(1,1) a(1)?1=1 | a(1) D(0,1) a(1)"), engine).verdict == "failed"
