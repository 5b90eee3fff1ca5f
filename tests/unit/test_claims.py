"""Threads claim cells by `cas`: each thread is decided alone, whatever it finds in the cells."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import wsemu
from tests.properties.claim_programs import ClaimProgram, draw_claims, judge_claims
from wsemu import cuda
from wsemu.launch.explore import claims

if TYPE_CHECKING:
    from wsemu.model.settings import Engine

ENGINES: tuple[Engine, ...] = ("vm", "reference")
HOW = "whichever thread claims each element"
THREADS, ROOM = 96, 256
i32 = np.int32


@cuda.jit
def insert(keys: Any, table: Any, values: Any, found: Any) -> None:
    i = cuda.grid(1)
    key = keys[i]
    slot = key % ROOM
    while True:
        old = cuda.atomic.cas(table, slot, 0, key)
        if old in (0, key):
            break
        slot = (slot + 1) % ROOM
    if old == 0:
        values[slot] = i
    found[i] = 1


@cuda.jit
def counted(keys: Any, table: Any, values: Any, found: Any) -> None:
    i = cuda.grid(1)
    slot = keys[i] % ROOM
    while cuda.atomic.cas(table, slot, 0, keys[i]) != 0:
        slot = (slot + 1) % ROOM
    cuda.atomic.add(found, 0, 1)


@cuda.jit
def inserted_twice(keys: Any, table: Any, values: Any, found: Any) -> None:
    i = cuda.grid(1)
    for n in range(2):
        key = keys[i] + 1000 * n
        slot = key % ROOM
        while cuda.atomic.cas(table, slot, 0, key) != 0:
            slot = (slot + 1) % ROOM
        values[slot] = i


@cuda.jit
def stored_by_all(keys: Any, table: Any, values: Any, found: Any) -> None:
    i = cuda.grid(1)
    slot = keys[i] % ROOM
    while True:
        old = cuda.atomic.cas(table, slot, 0, keys[i])
        if old in (0, keys[i]):
            break
        slot = (slot + 1) % ROOM
    values[slot] = i


@cuda.jit
def stored_early(keys: Any, table: Any, values: Any, found: Any) -> None:
    i = cuda.grid(1)
    slot = keys[i] % ROOM
    values[slot] = i
    while cuda.atomic.cas(table, slot, 0, keys[i]) != 0:
        slot = (slot + 1) % ROOM
        values[slot] = i


@cuda.jit
def stored_next(keys: Any, table: Any, values: Any, found: Any) -> None:
    i = cuda.grid(1)
    slot = keys[i] % ROOM
    while cuda.atomic.cas(table, slot, 0, keys[i]) != 0:
        slot = (slot + 1) % ROOM
    values[slot] = i
    values[(slot + 1) % ROOM] = i


@cuda.jit
def read_of_another(keys: Any, table: Any, values: Any, found: Any) -> None:
    i = cuda.grid(1)
    slot = keys[i] % ROOM
    while cuda.atomic.cas(table, slot, 0, keys[i]) != 0:
        found[i] += values[slot]
        slot = (slot + 1) % ROOM
    values[slot] = i


@cuda.jit
def freed(keys: Any, table: Any, values: Any, found: Any) -> None:
    i = cuda.grid(1)
    slot = keys[i] % ROOM
    while cuda.atomic.cas(table, slot, 0, keys[i]) != 0:
        slot = (slot + 1) % ROOM
    values[slot] = i
    cuda.atomic.exch(table, slot, 0)


def arguments(*, equal: bool = False) -> tuple[Any, ...]:
    """Return keys of which some collide, and with `equal` some are equal, an empty table, values, and results."""
    keys = np.random.default_rng(2).choice(10_000, THREADS, replace=False).astype(i32) + 1
    keys[40:44] = keys[:4] + (0 if equal else 40 * ROOM)
    return keys, np.zeros(ROOM, i32), np.zeros(ROOM, i32), np.zeros(THREADS, i32)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kernel", [insert, counted])
def test_insertions_are_right_in_every_order(kernel: Any, engine: Engine) -> None:
    report = wsemu.check(kernel, 3, 32, arguments(), engine=engine)
    assert report.verdict == "verified"
    assert HOW in report.proof


def test_equal_keys_may_meet() -> None:
    assert wsemu.check(insert, 3, 32, arguments(equal=True)).verdict == "verified"


def test_a_thread_may_claim_several_cells() -> None:
    keys, table, values, found = arguments()
    assert HOW in wsemu.check(inserted_twice, 1, 24, (keys[:24], table, values, found)).proof


def test_cells_that_an_earlier_launch_claimed_stay() -> None:
    keys, table, values, found = arguments()
    wsemu.check(insert, 1, 48, (keys[:48], table, values, found))
    report = wsemu.check(insert, 1, 48, (keys[48:], table, values, found))
    assert HOW in report.proof
    assert np.count_nonzero(table) == THREADS


@pytest.mark.parametrize("kernel", [stored_by_all, stored_early, stored_next, read_of_another, freed])
def test_values_of_other_threads_are_races(kernel: Any) -> None:
    assert wsemu.check(kernel, 3, 32, arguments(equal=kernel is stored_by_all)).verdict == "failed"


def test_a_race_that_only_another_order_has_is_not_overlooked() -> None:
    # the second key starts in the cell that the first one gets only if the third one comes first
    program = ClaimProgram(
        1, (1, 2, 3), (0, 1, 0), (0, 0, 0), 1, 0, 0, look="", value="next", hit="leave", then="", counter="", scope="",
        same=False,
    )  # fmt: skip
    assert program.can_fail()
    assert judge_claims(program, ENGINES).complaints == ()


def test_lanes_that_find_one_key_together_store_its_value_by_one_instruction() -> None:
    program = ClaimProgram(
        1, (2, 2), (0, 0), (2, 2, 0, 0), 1, 2, 0, look="strong", value="slot", hit="store", then="free", counter="",
        scope="", same=True,
    )  # fmt: skip
    assert judge_claims(program, ENGINES) == (program, True, ("verified", "verified"), ())
    failing = program._replace(same=False)
    assert judge_claims(failing, ENGINES) == (failing, True, ("failed", "failed"), ())


@pytest.mark.parametrize("starts", [(1, 0), (0, 1)])
def test_lanes_that_always_take_the_same_path_store_by_one_instruction(starts: tuple[int, int]) -> None:
    program = ClaimProgram(
        1,
        (2, 5),
        starts,
        (0, 0, 0),
        1,
        0,
        0,
        look="",
        value="one",
        hit="leave",
        then="",
        counter="",
        scope="",
        same=True,
    )
    assert judge_claims(program, ENGINES) == (program, True, ("verified", "verified"), ())
    failing = program._replace(same=False)
    assert judge_claims(failing, ENGINES) == (failing, True, ("failed", "failed"), ())
    later = program._replace(first=(8, 0, 0, 0), starts=(0, 2), limit=2)
    assert judge_claims(later, ENGINES) == (later, True, ("verified", "verified"), ())
    apart = program._replace(starts=(0, 0))
    assert judge_claims(apart, ENGINES).complaints == ()


@pytest.mark.parametrize("limit", ["MOST_STEPS", "MOST_ACCESSES"])
def test_insertions_beyond_a_limit_are_not_decided(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, limit, 10)
    monkeypatch.setattr(claims, "STEPS_OF_THREAD", 0)
    assert wsemu.check(insert, 2, THREADS // 2, arguments()).verdict == "incomplete"


def test_random_programs_agree_with_all_interleavings() -> None:
    source = random.Random("claims")
    judged = [judge_claims(draw_claims(source), ENGINES if k % 8 == 1 else ("vm",)) for k in range(30)]
    assert [str(one) for one in judged if one.complaints] == []
    assert sum(one.verdicts[0] == "verified" for one in judged) > 10
