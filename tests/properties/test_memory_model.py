"""The litmus tests of the published model (Lustig et al., ASPLOS 2019; PTX ISA, "Litmus tests") on its enumeration."""

from __future__ import annotations

from itertools import product

import pytest

from tests.properties.memory_model import Outcome, explore, notation, parse

OTHER = {"same CTA": "0", "another CTA": "1"}


def registers(outcome: Outcome) -> dict[str, int]:
    return dict(pair for thread in outcome.registers for pair in thread)


def may_see(line: str, **values: int) -> bool:
    """Whether some execution ends with these registers, or places, holding these values."""
    program = parse(line)
    assert parse(notation(program)) == program
    return any(
        values.items() <= (registers(outcome) | dict(outcome.memory)).items() for outcome in explore(program).outcomes
    )


def covers(scope: str, cta: str) -> bool:
    """Whether a scope includes a thread of that CTA, seen from CTA 0; without clusters each CTA is one of its own."""
    return cta == "0" or scope in ("gpu", "sys")


SCOPES = ("cta", "cluster", "gpu", "sys")


@pytest.mark.parametrize(("order", "scope", "cta"), [*product(("acq_rel", "sc"), SCOPES, "01")])
def test_message_passing_with_fences(order: str, scope: str, cta: str) -> None:
    line = (
        f"P0@0: W x 1; F {order} {scope}; W f 1 relaxed sys | "
        f"P1@{cta}: R f relaxed sys -> a; F {order} {scope}; ?a=1 R x -> b"
    )
    assert may_see(line, a=1, b=1)
    assert may_see(line, a=1, b=0) != covers(scope, cta)
    assert explore(parse(line)).racing != covers(scope, cta)


@pytest.mark.parametrize(("scope", "cta"), [*product(SCOPES, "01")])
def test_message_passing_with_release_and_acquire(scope: str, cta: str) -> None:
    line = f"P0@0: W x 1; W f 1 release {scope} | P1@{cta}: R f acquire {scope} -> a; ?a=1 R x -> b"
    assert may_see(line, a=1, b=0) != covers(scope, cta)
    assert explore(parse(line)).racing != covers(scope, cta)


@pytest.mark.parametrize(
    ("first", "second"),
    [("W f 1 relaxed gpu", "R f acquire gpu -> a"), ("W f 1 release gpu", "R f relaxed gpu -> a"),
     ("W f 1", "R f acquire gpu -> a"), ("W f 1 release gpu", "R f -> a"), ("W f 1 volatile", "R f volatile -> a")],
)  # fmt: skip
def test_message_passing_needs_both_sides(first: str, second: str) -> None:
    line = f"P0@0: W x 1; {first} | P1@1: {second}; ?a=1 R x -> b"
    assert may_see(line, a=1, b=0)
    assert explore(parse(line)).racing


@pytest.mark.parametrize("what", ["add", "exch", "max"])
def test_a_release_reaches_through_atomics_of_others(what: str) -> None:
    """Observation goes through read-modify-writes, relaxed ones too; through a store it does not."""
    added, seen = (1, 2) if what == "add" else (3, 3)
    line = (
        f"P0@0: W x 1; W f 1 release gpu | P1@1: A {what} f {added} relaxed gpu -> c | "
        f"P2@2: R f acquire gpu -> a; ?a={seen} R x -> b"
    )
    if what == "add":
        assert not may_see(line, a=2, b=0)
    else:
        assert not may_see(line, c=1, a=3, b=0)
    stored = "P0@0: W x 1; W f 1 release gpu | P1@1: W f 3 relaxed gpu | P2@2: R f acquire gpu -> a; ?a=3 R x -> b"
    assert may_see(stored, a=3, b=0)


def test_a_later_store_of_the_releasing_thread_releases_too() -> None:
    line = "P0@0: W x 1; W f 1 release gpu; W f 2 relaxed gpu | P1@1: R f acquire gpu -> a; ?a=2 R x -> b"
    assert not may_see(line, a=2, b=0)


@pytest.mark.parametrize(("order", "scope", "cta"), [*product(("none", "acq_rel", "sc"), SCOPES, "01")])
def test_store_buffering(order: str, scope: str, cta: str) -> None:
    """Only `fence.sc` forbids that both see nothing."""
    fence = "" if order == "none" else f"F {order} {scope}; "
    line = (
        f"P0@0: W x 1 relaxed sys; {fence}R y relaxed sys -> a | "
        f"P1@{cta}: W y 1 relaxed sys; {fence}R x relaxed sys -> b"
    )
    assert may_see(line, a=0, b=0) == (order != "sc" or not covers(scope, cta))
    assert not explore(parse(line)).racing


@pytest.mark.parametrize("order", ["acquire", "relaxed"])
def test_load_buffering(order: str) -> None:
    """Allowed, but not out of thin air; release or a fence forbids it."""
    free = f"P0@0: R x {order} gpu -> a; W y 1 {{}} gpu | P1@1: R y {order} gpu -> b; W x 1 {{}} gpu"
    assert may_see(free.format("relaxed", "relaxed"), a=1, b=1)
    assert may_see(free.format("release", "release"), a=1, b=1) == (order == "relaxed")
    assert not may_see(
        "P0@0: R x relaxed gpu -> a; ?a=1 W y 1 relaxed gpu | P1@1: R y relaxed gpu -> b; ?b=1 W x 1 relaxed gpu",
        a=1, b=1,
    )  # fmt: skip


@pytest.mark.parametrize("order", ["relaxed", "volatile"])
def test_coherence(order: str) -> None:
    """Reads of one place by a thread do not go back; writes of a thread stay in order."""
    scope = "" if order == "volatile" else "gpu"
    assert not may_see(
        f"P0@0: W x 1 {order} {scope} | P1@1: R x {order} {scope} -> a; R x {order} {scope} -> b", a=1, b=0
    )
    assert not may_see(f"P0@0: W x 1 {order} {scope}; W x 2 {order} {scope}", x=1)
    assert not may_see(
        f"P0@0: W x 1 {order} {scope} | P1@1: W x 2 {order} {scope} | "
        f"P2@2: R x {order} {scope} -> a; R x {order} {scope} -> b | "
        f"P3@3: R x {order} {scope} -> c; R x {order} {scope} -> d",
        a=1, b=2, c=2, d=1,
    )  # fmt: skip


@pytest.mark.parametrize(("order", "scope"), [("none", "gpu"), ("acq_rel", "gpu"), ("sc", "gpu"), ("sc", "cta")])
def test_independent_reads_of_independent_writes(order: str, scope: str) -> None:
    fence = "" if order == "none" else f"F {order} {scope}; "
    line = (
        "P0@0: W x 1 relaxed gpu | P1@1: W y 1 relaxed gpu | "
        f"P2@2: R x relaxed gpu -> a; {fence}R y relaxed gpu -> b | "
        f"P3@3: R y relaxed gpu -> c; {fence}R x relaxed gpu -> d"
    )
    assert may_see(line, a=1, b=0, c=1, d=0) == ((order, scope) != ("sc", "gpu"))


def test_independent_reads_that_acquire_may_disagree() -> None:
    line = (
        "P0@0: W x 1 release gpu | P1@1: W y 1 release gpu | "
        "P2@2: R x acquire gpu -> a; R y acquire gpu -> b | P3@3: R y acquire gpu -> c; R x acquire gpu -> d"
    )
    assert may_see(line, a=1, b=0, c=1, d=0)


@pytest.mark.parametrize(("scope", "cta", "both"), [("gpu", "1", True), ("cta", "0", True), ("cta", "1", False)])
def test_atomics_are_atomic_within_their_scopes(scope: str, cta: str, both: bool) -> None:
    line = f"P0@0: A add x 1 relaxed {scope} -> a | P1@{cta}: A add x 1 relaxed gpu -> b"
    assert may_see(line, x=2)
    assert may_see(line, x=1) != both
    assert explore(parse(line)).racing != both


def test_a_barrier_is_causality_within_its_cta() -> None:
    line = "P0@0: W x 1; B | P1@0: B; R x -> a"
    assert not may_see(line, a=0)
    assert not explore(parse(line)).racing
    assert explore(parse("P0@0: W x 1; B | P1@1: B; R x -> a")).racing


def test_what_a_read_observes_comes_before_what_follows_it() -> None:
    """Causality begins with observation: the write itself, without a fence; what came before it does not follow."""
    line = "P0@0: A add f 1 relaxed gpu -> c | P1@1: A add f 1 relaxed gpu -> a; ?a=1 W f 7"
    assert not explore(parse(line)).racing
    assert explore(
        parse("P0@0: W x 1; A add f 1 relaxed gpu -> c | P1@1: A add f 1 relaxed gpu -> a; ?a=1 W x 7")
    ).racing


@pytest.mark.parametrize(("writes", "results"), [
    ("W f 1 relaxed & W g 2 relaxed", {(0, 0), (1, 2)}),
    ("W f 1 relaxed; W g 2 relaxed", {(0, 0), (0, 2), (1, 0), (1, 2)}),
])  # fmt: skip
def test_strong_accesses_of_vectors_can_be_one_access(writes: str, results: set[tuple[int, int]]) -> None:
    program = parse(f"P0@0: {writes} | P1@1: R f relaxed -> a & R g relaxed -> b")
    found = {tuple(dict(o.registers[1]).values()) for o in explore(program, vectors_are_one=True).outcomes}
    assert found == results
    assert len(explore(program).outcomes) == 4


@pytest.mark.parametrize("line", [
    "P0@0: W f 1 release & W g 2 release; R g relaxed until 1 | P1@1: R f acquire until 1; W g 1 relaxed",
    "P0@0: W f 1 relaxed & W g 2 relaxed; R g relaxed until 1 | P1@1: R f relaxed until 1; F sc gpu; W g 1 relaxed",
])  # fmt: skip
def test_what_follows_an_element_follows_the_whole_vector(line: str) -> None:
    """The last write of `g` is that of the thread that has read `f`, since a read of `f` observes the whole vector."""
    assert explore(parse(line)).hanging
    assert not explore(parse(line), vectors_are_one=True).hanging


def test_a_vector_that_sees_a_release_sees_what_came_before_it() -> None:
    program = parse("P0@0: W g 2 relaxed; W f 1 release | P1@1: R f acquire -> a & R g acquire -> b")
    found = {tuple(dict(o.registers[1]).values()) for o in explore(program, vectors_are_one=True).outcomes}
    assert found == {(0, 0), (0, 2), (1, 2)}
