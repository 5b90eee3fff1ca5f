"""Verdicts on rings of accumulators in tensor memory agree with all interleavings."""

from __future__ import annotations

import random

import pytest

from tests.properties.column_programs import (
    ARRIVE,
    AWAIT,
    COMMIT,
    COPY,
    DRAW,
    EXPECT,
    FENCE,
    FETCH,
    LOAD,
    MULTIPLY,
    PAIR,
    READ,
    REGION,
    RESPONSE,
    STORE,
    WAIT_LOADS,
    WAIT_STORES,
    WRITE,
    ColumnProgram,
    Step,
    check_columns,
    draw_columns,
    judge_columns,
)


@pytest.mark.parametrize("kind", DRAW)
def test_rings_are_right_before_they_are_changed(kind: str):
    ring, slots, regions = DRAW[kind](random.Random(1))
    program = ColumnProgram(tuple(map(tuple, ring.threads)), tuple(ring.counts), slots, ring.roles, regions)
    found = judge_columns(program, ("vm", "reference"))
    assert (found.fails, found.verdicts, found.complaints) == (False, ("verified", "verified"), ())


@pytest.mark.parametrize("seed", range(16))
def test_a_ring_of_slots_agrees_with_its_interleavings(seed: int):
    found = judge_columns(draw_columns(random.Random(seed)), ("vm", "reference") if seed % 4 == 0 else ("vm",))
    assert not found.complaints, found


def test_a_store_from_the_registers_of_a_load_does_not_use_what_was_loaded():
    """The engines' store has the registers of the load, which is read no more."""
    makes = (Step(MULTIPLY, 0), Step(COMMIT, 0), Step(MULTIPLY, 1), Step(COMMIT, 1))
    uses = (
        Step(AWAIT, 0), Step(AWAIT, 1), Step(LOAD, 0), Step(STORE, 1), Step(WAIT_STORES), Step(ARRIVE, 3),
    )  # fmt: skip
    wrong = judge_columns(ColumnProgram((makes, uses), (1, 1, 1, 1), 2), ("vm", "reference"))
    waits = (*uses[:3], Step(WAIT_LOADS), *uses[3:])
    right = judge_columns(ColumnProgram((makes, waits), (1, 1, 1, 1), 2), ("vm", "reference"))
    assert (wrong.fails, wrong.verdicts, wrong.complaints) == (True, ("failed", "failed"), ())
    assert (right.fails, right.verdicts, right.complaints) == (False, ("verified", "verified"), ())


def test_enumeration_distinguishes_right_rings_from_wrong_ones():
    outcomes = [draw_columns(random.Random(seed)).can_fail() for seed in range(40)]
    assert 8 < sum(map(bool, outcomes)) < 32


def check_both(program: ColumnProgram) -> tuple[bool | None, set[str], tuple[str, ...]]:
    """Return whether a program can fail, the verdicts of both engines, and the errors."""
    found = judge_columns(program, ("vm", "reference"))
    assert not found.complaints, found
    return found.fails, {*found.verdicts}, found.codes


LOADS = (Step(AWAIT, 0), Step(LOAD, 0), Step(WAIT_LOADS))
FILLED = (Step(WRITE, 0), Step(FENCE), Step(ARRIVE, 1))


@pytest.mark.parametrize("regions", ["a", "factors", "metadata"])
@pytest.mark.parametrize("between", [True, False])
def test_a_copy_comes_after_the_product_that_read_what_it_replaces(between: bool, regions: str):
    """The product reads some of the columns that the copy writes."""
    product = (Step(MULTIPLY, 0, 0, REGION),)
    makes = (Step(COPY), *product * between, Step(COPY, 0, 0, 1), *product, Step(COMMIT, 0))
    fails, verdicts, codes = check_both(ColumnProgram((makes, LOADS), (1,), 1, regions=regions))
    if between:
        assert (fails, verdicts) == (False, {"verified"})
    else:
        assert (verdicts, codes) == ({"failed"}, ("tmem-race",))


def test_a_copy_that_nobody_waits_for_may_come_after_the_release():
    first = (Step(COPY), Step(MULTIPLY, 0, 0, REGION), Step(COMMIT, 0), Step(COPY, 0, 0, 1), Step(COMMIT, 1))
    fails, verdicts, codes = check_both(ColumnProgram((first, LOADS), (1, 1), 1))
    assert (fails, verdicts, codes) == (True, {"failed"}, ("tmem-race",))


@pytest.mark.parametrize(("fills", "code"), [
    (FILLED, ""), ((FILLED[0], FILLED[2]), "proxy"), ((FILLED[0], FILLED[2], FILLED[1]), "proxy"),
    ((FILLED[2], *FILLED[:2]), "race"),
])  # fmt: skip
@pytest.mark.parametrize("pair", [False, True])
def test_a_stage_that_is_stored_needs_a_fence(fills: tuple[Step, ...], code: str, pair: bool):
    makes = (Step(AWAIT, 1), Step(MULTIPLY), Step(COMMIT, 0))
    threads = (makes, LOADS, LOADS, fills, fills) if pair else (makes, LOADS, (), fills)
    program = ColumnProgram(threads, (1, 1 + pair), 1, PAIR) if pair else ColumnProgram(threads, (1, 1), 1)
    fails, verdicts, codes = check_both(program)
    assert fails == bool(code)
    assert verdicts == {"failed" if code else "verified"}
    assert code in codes or not code


@pytest.mark.parametrize("early", [False, True])
def test_a_response_is_read_after_its_wait(early: bool):
    asks = (Step(EXPECT, 1, 0, RESPONSE), Step(FETCH, RESPONSE, 0, 1))
    reads = (*LOADS, *((Step(READ, RESPONSE), Step(AWAIT, 1)) if early else (Step(AWAIT, 1), Step(READ, RESPONSE))))
    makes = (Step(MULTIPLY), Step(COMMIT, 0))
    fails, verdicts, codes = check_both(ColumnProgram((makes, reads, (), asks), (1, 1), 1))
    assert (fails, verdicts) == (early, {"failed" if early else "verified"})
    assert ("race" in codes) == early


@pytest.mark.parametrize("waits_for_both", [True, False])
def test_copies_of_the_same_bytes_may_come_in_any_order(waits_for_both: bool):
    """Two bulk copies fill one stage, each with an mbarrier; a product that comes after one of them alone races."""
    fills = (Step(EXPECT, 1), Step(FETCH, 0, 0, 1), Step(EXPECT, 2), Step(FETCH, 0, 0, 2))
    product = (Step(MULTIPLY), Step(COMMIT, 0))
    makes = (Step(AWAIT, 1), Step(AWAIT, 2), *product) if waits_for_both else (Step(AWAIT, 1), *product, Step(AWAIT, 2))
    program = ColumnProgram((makes, LOADS, (), fills), (1, 1, 1), 1)
    fails, verdicts, codes = check_both(program)
    if waits_for_both:
        assert (fails, verdicts, codes) == (False, {"verified"}, ())
        assert "same-value-store" in {finding.code for finding in check_columns(program, "vm").findings}
    else:
        assert (fails, verdicts) == (True, {"failed"})
        assert "race" in codes


def test_lanes_that_lag_do_not_make_a_response_matter():
    """Two tiles in one slot: the parity is read lane by lane, which is a warning, and no difference between runs with
    other undefined bits of the response."""
    makes = (Step(MULTIPLY), Step(COMMIT, 0), Step(AWAIT, 1), Step(MULTIPLY), Step(COMMIT, 0))
    reads = (
        *LOADS,
        Step(ARRIVE, 1),
        Step(AWAIT, 0, 1),
        *LOADS[1:],
        Step(ARRIVE, 1),
        Step(AWAIT, 2),
        Step(READ, RESPONSE),
    )
    asks = (Step(EXPECT, 2, 0, RESPONSE), Step(FETCH, RESPONSE, 0, 2))
    assert check_both(ColumnProgram((makes, reads, reads, asks), (1, 2, 1), 1)) == (False, {"verified"}, ())


def test_phases_that_may_be_exchanged_are_an_error():
    """Two arrivals on an mbarrier of one for which no thread waits: each may meet either phase."""
    uses = (*LOADS, Step(ARRIVE, 1))
    fails, verdicts, codes = check_both(ColumnProgram(((Step(MULTIPLY), Step(COMMIT, 0)), uses, uses), (1, 1), 1))
    assert (fails, verdicts, codes) == (True, {"failed"}, ("phase-alias",))
