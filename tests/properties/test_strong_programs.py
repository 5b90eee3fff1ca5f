"""Random programs of strong accesses, fences and flags: the verdict against every execution that the model allows."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import wsemu
from tests.properties.memory_model import explore, notation, parse
from tests.properties.strong_programs import (
    STRONG_FAMILIES,
    counting,
    drawing,
    judged_strong,
    ptx,
    space_for,
    strong_program,
    verdict,
)
from wsemu.launch.explore.crowds import Crowds

PASSING = "P0@0: W x 1; {} | P1@{}: {}; ?a=1 R x"


@pytest.mark.parametrize("cta", [0, 1])
@pytest.mark.parametrize(
    ("sends", "looks"),
    [
        ("F sc gpu; W f 1 relaxed gpu", "R f relaxed gpu -> a; F sc gpu"),
        ("F acq_rel gpu; W f 1 relaxed gpu", "R f relaxed gpu -> a; F acq_rel gpu"),
        ("F sc cta; W f 1 relaxed gpu", "R f relaxed gpu -> a; F sc cta"),
        ("F acq_rel gpu; W f 1 relaxed gpu", "R f relaxed gpu -> a; F acq_rel cta"),
        ("W f 1 release gpu", "R f acquire gpu -> a"),
        ("W f 1 release gpu", "R f relaxed gpu -> a"),
        ("W f 1 relaxed gpu", "R f acquire gpu -> a"),
        ("A exch f 1 release gpu", "A add f 0 acquire gpu -> a"),
        ("A add f 1 acq_rel gpu", "R f acquire sys -> a"),
        ("W g 1 release gpu; W f 1 relaxed gpu", "R f acquire gpu -> a"),
        ("F acq_rel gpu; W g 1 relaxed gpu; W f 1 relaxed gpu", "R f acquire gpu -> a"),
        ("W f 2 release gpu; W f 1 relaxed gpu", "R f acquire gpu -> a"),
        ("F sc gpu; W f 1 relaxed gpu", "R g acquire gpu -> b; R f relaxed gpu -> a"),
    ],
)
def test_message_passing(sends: str, looks: str, cta: int) -> None:
    program = parse(PASSING.format(sends, cta, looks))
    assert verdict(program)[0] == ("failed" if explore(program).racing else "verified")


@pytest.mark.parametrize("line", [
    "P0@0: W x 1; W f 1 release gpu | P1@1: A add f 1 relaxed gpu -> c | P2@2: R f acquire gpu -> a; ?a=2 R x",
    "P0@0: W x 1; W f 1 release | P1@1: R f acquire -> a; ?a=1 W g 1 release | P2@2: R g acquire -> a; ?a=1 R x",
    "P0@0: A add f 1 relaxed gpu -> a; ?a=1 W f 0 | P1@1: A add f 1 relaxed gpu -> b; ?b=1 W f 0",
])  # fmt: skip
@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_order_goes_through_others(line: str, engine: str) -> None:
    program = parse(line)
    assert not explore(program).racing
    assert verdict(program, engine) == ("verified", ())


@pytest.mark.parametrize("looks", ["R f acquire gpu -> a", "R f relaxed gpu -> a; F acq_rel gpu"])
@pytest.mark.parametrize("cta", [0, 1])
@pytest.mark.parametrize("sends", [
    "W f 2 release gpu; W f 1 relaxed gpu",
    "W f 2 release cluster; W f 1 relaxed sys",
    "W f 2 release cta; W f 1 relaxed gpu",
    "F sc gpu; W f 2 relaxed gpu; W f 1 relaxed gpu",
    "F sc gpu; W f 2 release gpu; W f 1 relaxed gpu",
    "W f 2 release gpu; W f 3 relaxed gpu; W f 1 relaxed gpu",
    "W f 2 release gpu; W f 3 release gpu; W f 1 relaxed gpu",
    "W f 2 relaxed gpu; W f 3 release gpu; W f 1 relaxed gpu",
    "A exch f 2 acq_rel gpu; W f 1 relaxed gpu",
    "W g 2 release gpu; W f 1 relaxed gpu",
])  # fmt: skip
def test_a_release_pattern_begins_with_its_own_write(sends: str, cta: int, looks: str) -> None:
    program = parse(f"P0@0: {sends} | P1@{cta}: {looks}; ?a=1 R f")
    found = {verdict(program, engine)[0] for engine in ("vm", "reference")}
    assert found == {"failed" if explore(program).racing else "verified"}


@pytest.mark.parametrize("line", [
    "P0@0: A add g 1 relaxed gpu -> t | P1@1: A add g 1 relaxed gpu -> t; ?t!0 A exch g 5 relaxed cta",
    "P0@0: R x; A exch f 1 relaxed gpu | P1@1: R f relaxed gpu -> b; W y 2; ?b=1 W f 1 relaxed cluster",
    "P0@0: A add g 1 -> t; ?t!0 A cas g 1 acquire cta | P1@1: A add g 1 -> t; ?t!0 A cas g 1 acquire cta",
])  # fmt: skip
@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_a_narrow_access_comes_after_what_its_thread_has_observed(line: str, engine: str) -> None:
    program = parse(line)
    assert not explore(program).racing
    assert verdict(program, engine) == ("verified", ())


@pytest.mark.parametrize("line", [
    "P0@0: A add g 1 relaxed gpu | P1@1: R f relaxed gpu -> t; ?t=0 A exch g 5 relaxed cta",
    "P0@0: A add g 1 relaxed gpu | P1@1: A add g 1 relaxed gpu -> t; ?t!1 A exch g 5 relaxed cta",
    "P0@0: A add g 1 relaxed gpu | P1@1: A add g 1 relaxed cta -> t; ?t!0 A exch g 5 relaxed cta",
])  # fmt: skip
@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_a_narrow_access_races_with_what_its_thread_has_not_observed(line: str, engine: str) -> None:
    program = parse(line)
    assert explore(program).racing
    assert verdict(program, engine) == ("failed", ("race",))


@pytest.mark.parametrize(("first", "second", "races"), [
    ("W g 1 relaxed gpu", "W g 2 relaxed gpu", True),
    ("A add g 1 relaxed gpu", "W g 2 relaxed gpu", True),
    ("W g 1 relaxed gpu", "A add g 1 relaxed gpu", False),
    ("W g 1 relaxed gpu", "W g 2 release gpu", True),
    ("W g 1 release gpu", "W g 2 relaxed gpu", True),
])  # fmt: skip
@pytest.mark.parametrize("engine", ["vm", "reference"])
@pytest.mark.parametrize("then", ["W g 5", "A exch g 5 relaxed cta"])
def test_what_was_stored_over_is_not_observed(first: str, second: str, races: bool, then: str, engine: str) -> None:
    """A store observes nothing: who reads it observes none of the writes before it, not even of its own thread."""
    program = parse(f"P0@0: {first}; {second} | P1@1: R g relaxed gpu -> a; ?a=2 {then}")
    assert explore(program).racing == races
    assert verdict(program, engine)[0] == ("failed" if races else "verified")


@pytest.mark.parametrize("line", [
    "P0@0: W f 1 | P1@1: A add f 1 release gpu -> c; ?c=2 W x 1",
    "P0@0: A add f 1 relaxed gpu -> a; ?a=2 W x 2 | P1@1: R f",
])  # fmt: skip
@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_a_counter_of_one_is_touched_plainly_by_another(line: str, engine: str) -> None:
    program = parse(line)
    assert explore(program).racing
    assert verdict(program, engine) == ("failed", ("race",))


LOCKED = "P0@0: A cas f 1 acquire gpu until 0; {}W x 1; A exch f 0 release gpu | P1@{}: A cas f 1 {} until 0; W x 2"


@pytest.mark.parametrize(("line", "right"), [
    (LOCKED.format("R f; ", 1, "acquire gpu"), False),
    (LOCKED.format("R f; ", 1, "acquire gpu") + "; A exch f 0 release gpu", True),
    (LOCKED.format("R f; ", 1, "relaxed gpu") + "; A exch f 0 release gpu", False),
    (LOCKED.format("R f; ", 0, "acquire cta") + "; A exch f 0 release cta", True),
    (LOCKED.format("W f 1; ", 1, "acquire gpu") + "; A exch f 0 release gpu", False),
    ("P0@0: R f; W f 1 release gpu | P1@1: R f acquire gpu -> a; ?a=1 W f 2", True),
    ("P0@0: W f 0; W f 2 release gpu | P1@1: R f acquire gpu until 2", False),
    ("P0@0: W f 0; W f 2 release gpu | P1@0: R f acquire gpu until 2", False),
    ("P0@0: A add g 1; W f 0; W f 2 release gpu | P1@1: A add g 1; R f acquire gpu until 2", False),
    ("P0@0: R g acquire gpu -> a; W f 0; W f 2 release gpu | P1@1: W g 1 release gpu; R f acquire gpu until 2", False),
])  # fmt: skip
@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_what_acquires_comes_after_plain_accesses_that_it_acquires(line: str, right: bool, engine: str) -> None:
    """The `cas` that takes a lock comes after a plain look at it; one that fails only reads."""
    program = parse(line)
    assert explore(program).wrong != right
    assert verdict(program, engine)[0] == ("verified" if right else "failed")


REREAD = (
    "P0@0: W y 2; A add f 1 release gpu | P1@{0}: R f relaxed gpu until 1; W f 1 relaxed gpu; A add f 1 {1} | "
    "P2@{2}: R f acquire gpu -> a; ?a=2 W y 1"
)
"""the release was read before its value was stored over, and a later access acquires"""


@pytest.mark.parametrize(("ctas", "order", "right"), [
    ((1, 2), "acq_rel gpu", True), ((1, 2), "release gpu", False), ((1, 2), "acquire gpu", False),
    ((0, 0), "acq_rel cta", True), ((1, 1), "acq_rel cta", False),
])  # fmt: skip
@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_an_access_that_acquires_and_releases_hands_on_what_was_read_before_it(
    ctas: tuple[int, int], order: str, right: bool, engine: str
) -> None:
    program = parse(REREAD.format(ctas[0], order, ctas[1]))
    assert explore(program).wrong != right
    assert verdict(program, engine)[0] == ("verified" if right else "failed")


REREAD_IN_A_CTA = (
    "P0@0: W y 2; F sc cta; A add f 1 acq_rel gpu | P1@0: R f relaxed sys -> b; W f 1 relaxed sys; "
    "?b=1 A add f 1 acq_rel cta | P2@0: R f acquire gpu -> b; ?b=2 W y 1 release gpu; R x; A add f 1 relaxed gpu -> c"
)


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_a_narrow_access_hands_on_what_was_read_before_it(engine: str) -> None:
    found = judged_strong(parse(REREAD_IN_A_CTA), engine, "shared")
    assert (found.can, found.complaint, found.codes) == ("is right", "", ())


FAILING = "P0@0: W x 1; A exch f 5 relaxed gpu; A cas f 1 {0} -> c; {1} | P1@{2}: {3}; R x"


@pytest.mark.parametrize("cta", [0, 1])
@pytest.mark.parametrize(("order", "then", "looks", "right"), [
    ("release gpu", "W g 1 relaxed gpu", "R g acquire gpu until 1", False),
    ("release gpu", "W f 1 relaxed gpu", "R f acquire gpu until 1", False),
    ("acq_rel gpu", "A add g 1 relaxed gpu", "R g acquire gpu until 1", False),
    ("release gpu", "W g 1 release gpu", "R g acquire gpu until 1", True),
    ("relaxed gpu; F acq_rel gpu", "W g 1 relaxed gpu", "R g acquire gpu until 1", True),
])  # fmt: skip
@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_a_compare_and_swap_that_fails_releases_nothing(
    order: str, then: str, looks: str, right: bool, cta: int, engine: str
) -> None:
    """Nor does the store that follows it."""
    program = parse(
        FAILING.format(order, then, cta, looks).replace("gpu; F acq_rel gpu -> c", "gpu -> c; F acq_rel gpu")
    )
    assert explore(program).wrong != right
    assert verdict(program, engine)[0] == ("verified" if right else "failed")


TWO_LAST = (
    "P0@0: W x 1; F sc gpu; A add f 1 -> t | P1@1: F sc gpu; A add f 1 -> t | "
    "P2@2: A add {0} 1 -> t; F sc gpu; ?t={1} R x | P3@3: A add {0} 1 -> t; F sc gpu; ?t={1} R x"
)


@pytest.mark.parametrize("line", [
    "P0@0: A add g 1 relaxed gpu -> b; ?b=0 W x 2 | P1@1: A add f 1 acquire gpu -> a; F sc gpu; W x 1",
    "P0@0: A add g 1 relaxed gpu -> b; ?b=0 W x 2; ?b=2 R x acquire gpu | P1@1: A add f 1 acquire gpu -> a; W x 1",
    TWO_LAST.format("g", 1),
    TWO_LAST.format("f", 2),
])  # fmt: skip
@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_the_last_ones_at_two_counters_know_nothing_of_each_other(line: str, engine: str) -> None:
    program = parse(line)
    assert explore(program, up_to_wrong=True).racing
    assert verdict(program, engine)[0] == "failed"


@pytest.mark.parametrize(("line", "right"), [
    ("P0@0/0: W x 1; W f 2 release cluster | P1@1/0: R f acquire cluster until 2; R x", True),
    ("P0@0/0: W x 1; W f 2 release cluster | P1@1/0: R y | P2@2/1: R f acquire cluster until 2; R x", False),
    ("P0@0/0: W x 1; F sc cluster; A add f 2 relaxed gpu | P1@1/0: R f relaxed gpu until 2; F sc cluster; R x", True),
    ("P0@0/0: W x 1; F sc cta; A add f 2 relaxed gpu | P1@1/0: R f relaxed gpu until 2; F sc cluster; R x", False),
    ("P0@0/0: W x 1; W f 2 release gpu | P1@1/0: R f relaxed cluster until 2; F acq_rel cluster; R x", True),
    ("P0@0/0: A add f 1 relaxed cluster -> t | P1@1/0: A add f 1 relaxed cluster -> t; ?t=1 R x", True),
    ("P0@0/0: A add f 1 relaxed cluster -> t | P1@1/0: R y | P2@2/1: A add f 1 relaxed cluster -> t", False),
])  # fmt: skip
@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_scopes_of_clusters(line: str, right: bool, engine: str) -> None:
    program = parse(line)
    assert explore(program).wrong != right
    assert verdict(program, engine)[0] == ("verified" if right else "failed")


@pytest.mark.parametrize(("line", "right"), [
    ("P0@0: W x 1; W f 1 release cta | P1@0: R f acquire cta until 1; R x", True),
    ("P0@0: W f 0; W f 1 release cta | P1@0: R f acquire cta until 1; R x", False),
])  # fmt: skip
@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_messages_in_shared_memory_of_a_launch_without_arrays(line: str, right: bool, engine: str) -> None:
    program = parse(line)
    assert explore(program).wrong != right
    assert verdict(program, engine, "shared")[0] == ("verified" if right else "failed")


ALONE_IN_A_CLUSTER = (
    "P0@0/0: A add f 1 acq_rel gpu -> t | P1@0/0: W s1 1; R f; F acq_rel gpu; A add f 1 relaxed gpu -> t; ?t=1 R s0"
)


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_accesses_on_ways_of_a_cta_are_told_apart(engine: Any) -> None:
    """Two are one where they are lanes of one instruction, and nowhere else: each has a number of its own."""
    program = parse(ALONE_IN_A_CLUSTER)
    assert explore(program).racing
    assert verdict(program, engine, "shared") == ("failed", ("race",))


WITHIN = (
    "P0@0: A add f 1 acq_rel gpu -> a | P1@1: W x 1; {0}A add f 1 relaxed gpu -> c | P2@1: {0}R x; W g 2 relaxed gpu"
)


@pytest.mark.parametrize("barrier", ["", "B; "])
def test_ctas_that_are_counted_are_judged_up_to_their_first_ordered_accesses(
    barrier: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wsemu.launch.explore.decide.FEW_STEPS", 1)
    program = parse(WITHIN.format(barrier))
    assert explore(program).racing == (not barrier)
    assert verdict(program)[0] == ("verified" if barrier else "failed")


@pytest.mark.parametrize(("line", "right"), [
    ("P0@0: A cas f 1 relaxed gpu | P1@1: A add f 1 relaxed gpu; R f", True),
    ("P0@0: A cas f 1 relaxed gpu | P1@1: A add g 1 relaxed gpu; R f", False),
])  # fmt: skip
@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_a_compare_and_swap_that_would_come_later_writes_nothing(line: str, right: bool, engine: Any) -> None:
    program = parse(line)
    assert explore(program).racing != right
    assert verdict(program, engine)[0] == ("verified" if right else "failed")


@pytest.mark.parametrize(("second", "right"), [("?a=1 R f", False), ("?a=1 R f relaxed gpu", True)])
@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_a_plain_read_is_no_strong_one_to_a_later_write(second: str, right: bool, engine: Any) -> None:
    """Who has read plainly and ended leaves another state than who has read by strong accesses alone."""
    program = parse(f"P0@0: R f acquire sys -> a; {second} | P1@1: W f 1 relaxed gpu; W f 2 release gpu")
    assert explore(program).racing != right
    assert verdict(program, engine)[0] == ("verified" if right else "failed")


BESIDE = (
    "P0@0: W x 1 relaxed gpu; {0}W f 1 relaxed gpu; W y 9 | P1@0: R f relaxed gpu -> a; {0}R x relaxed gpu -> b; "
    "?b=0 W s1 1; ?a=1 R s1 -> e; ?e=1 W y 2 | P2@1: W s7 1"
)
"""both write `y` where the flag is seen, and not what was stored before it"""


@pytest.mark.parametrize(("fence", "right"), [("", False), ("F acq_rel cta; ", True)])
@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_threads_of_a_cta_beside_others_are_no_interleaving_without_fences(
    fence: str, right: bool, engine: Any
) -> None:
    program = parse(BESIDE.format(fence))
    assert explore(program).wrong != right
    assert (verdict(program, engine)[0] == "verified") == right


@pytest.mark.parametrize(("scope", "cluster", "said"), [("cluster", 0, "incomplete"), ("cta", 0, "failed")])
def test_one_run_orders_by_acquires_of_a_cluster(scope: str, cluster: int, said: str) -> None:
    """What is not decided for all orders is no race where fences of the cluster order it in one."""
    line = (
        "P0@0/0: W s1 2 relaxed gpu; A exch g 1 release gpu | P1@0/0: A add f 1 relaxed gpu -> t; R g acquire until 1"
    )
    program = parse(f"{line} | P2@1/{cluster}: R g acquire {scope} until 1; A add f 1 relaxed gpu -> t; R s[t]")
    assert explore(program).wrong == (said == "failed")
    assert verdict(program)[0] == said


READS_A_VECTOR = (
    "P0@0/0: W x 1 & W y 1; B | P1@0/0: B; {}W f 1 relaxed gpu & W g 2 relaxed gpu | "
    "P2@1/0: R f acquire gpu -> a & R g acquire gpu -> b; ?a=1 R x weak volatile & ?a=1 R y weak volatile & "
    "?a=1 R f weak volatile & ?a=1 R g weak volatile"
)


@pytest.mark.parametrize(("fence", "said"), [("F acq_rel gpu; ", "verified"), ("", "failed")])
@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_a_strong_vector_is_seen_as_a_whole(fence: str, said: str, engine: str) -> None:
    """The verdict names that it counts on this: PTX promises each element alone."""
    found = judged_strong(parse(READS_A_VECTOR.format(fence)), engine)
    assert (found.complaint, found.verdict, "strong-vector" in found.codes) == ("", said, True)


AS_A_WHOLE = [
    (
        "P0@0: W x 1; F acq_rel gpu; W f 1 relaxed gpu & W g 2 relaxed gpu; R g relaxed gpu until 1; F sc gpu; W x 1"
        " | P1@1: R f relaxed gpu until 1; F acq_rel gpu; R x; A exch g 1 release gpu"
    ),
    (
        "P0@0: W x 1 weak volatile & W y 1 weak volatile; F acq_rel gpu; W f 1 relaxed gpu & W g 2 relaxed gpu; "
        "R g acquire gpu until 1; W x 1 relaxed gpu & W y 1 relaxed gpu"
        " | P1@1: R f relaxed gpu until 1; F acq_rel gpu; R x; F sc gpu; W g 1 relaxed gpu"
    ),
    # one run executes no vector here
    (
        "P0@0: A add f 1 -> t; ?t=1 W x 1 relaxed gpu & ?t=1 W y 2 relaxed gpu; ?t=1 R y relaxed gpu until 1"
        " | P1@1: A add f 1 -> t; ?t=0 R x relaxed gpu until 1; ?t=0 W y 1 relaxed gpu"
    ),
]


@pytest.mark.parametrize("line", AS_A_WHOLE)
@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_a_store_after_one_element_of_a_vector_comes_after_the_others(line: str, engine: Any) -> None:
    """Only of a vector that is one access: the verdict names that, and `strict` does not take it for granted."""
    program = parse(line)
    assert explore(program).hanging
    assert not explore(program, vectors_are_one=True).wrong
    assert verdict(program, engine) == ("verified", ("strong-vector",))
    source, grid, warps = ptx(program)
    report = wsemu.check(
        wsemu.load_ptx(source)["k"], grid, 32 * warps, (np.zeros(16, np.uint32),), engine=engine, strict=True
    )
    assert (report.verdict, {finding.code for finding in report.errors}) == ("failed", {"strong-vector"})
    assert not report.proof


@pytest.mark.parametrize(("line", "said"), [
    ("P0@0: R f relaxed -> b; ?b=0 F acq_rel gpu; A max f 1 | P1@{}: R f acquire -> a; ?a=1 W f 2", "incomplete"),
    ("P0@0: R f acquire -> b; ?b=0 F acq_rel gpu; W f 1 relaxed | P1@{}: R f acquire -> a; ?a=1 W f 2", "incomplete"),
    ("P0@0: R f relaxed -> b; ?b=0 F acq_rel gpu; A exch g 1 | P1@{}: R g acquire -> a; ?a=1 W f 2", "incomplete"),
    ("P0@0: R x -> b; ?b=0 F acq_rel gpu; A exch g 1 | P1@{}: R g acquire -> a; ?a=1 W x 2", "incomplete"),
    ("P0@0: R x -> b; ?b=0 A exch g 1 release; A exch g 1 | P1@{}: R g acquire -> a; ?a=1 W x 2", "incomplete"),
    ("P0@0: R x -> b; ?b=0 A exch g 1 release | P1@{}: R g acquire -> a; ?a=1 W x 2", "verified"),
    ("P0@0: R x -> b; ?b=0 F acq_rel gpu; ?b=0 A exch g 1 | P1@{}: R g acquire -> a; ?a=1 W x 2", "verified"),
    ("P0@0: R x -> b; ?b=0 F sc gpu; F acq_rel gpu; A exch g 1 | P1@{}: R g acquire -> a; ?a=1 W x 2", "verified"),
    ("P0@0: R x -> b; ?b=0 F sc gpu; A exch g 1 release | P1@{}: R g acquire -> a; ?a=1 W x 2", "verified"),
])  # fmt: skip
@pytest.mark.parametrize("cta", [0, 1])
@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_a_read_that_decides_on_a_release_may_see_a_later_write(line: str, said: str, cta: int, engine: Any) -> None:
    program = parse(line.format(cta))
    assert explore(program).racing == (said == "incomplete")
    assert verdict(program, engine) == (said, ())


DRAWS_TWICE = "A add f 1 acq_rel -> t; A add f 1 -> b; ?t=0 F sc gpu; "


@pytest.mark.parametrize(
    "writes", ["?t!1 W y 2", "?t=0 W y 1; ?t=2 W y 2", "?b!1 W y 2; ?b=1 W y 1", "?b=2 R y; ?t=1 W y 1"]
)
@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_a_number_that_one_path_has_drawn_orders_no_ctas(writes: str, engine: Any) -> None:
    """CTAs that begin alike are one state: neither its CTA nor the number of one path there owns what it writes."""
    own = DRAWS_TWICE + writes
    program = parse(f"P0@0: {own} | P1@1: {own}")
    found = explore(program)
    assert found.racing or found.same
    with drawing():
        assert verdict(program, engine) == ("failed", ("race",))


@pytest.mark.parametrize("line", [
    "P0@0: R f | P1@1: A add f 1 acq_rel gpu -> a; ?a=2 R x",
    "P0@0: R x; W f 1; R x & R y | P1@1: A add f 1 acquire gpu -> a; ?a=1 F acq_rel gpu; ?a=1 R x",
    "P0@0: W f 1 weak volatile & W g 2 weak volatile; ?t=1 R s1 | P1@1: W s1 1; A add f 1 acq_rel gpu -> t; ?t=1 R s0",
    "P0@0: W f 1 weak volatile | P1@1: A add f 1 acquire gpu -> a; ?a=1 R x | P2@2: A add f 1 relaxed gpu",
])  # fmt: skip
@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_a_cta_that_draws_no_number_does_not_access_the_counter(line: str, engine: Any) -> None:
    """Nor does any CTA before the first draw, when the counter is not known yet."""
    program = parse(line)
    assert explore(program).racing
    with drawing():
        assert verdict(program, engine) == ("failed", ("race",))


def test_accesses_of_one_thread_to_one_place_come_in_program_order() -> None:
    """An exchange that no interleaving executes races only if the second `cas` is performed before the first."""
    program = parse(
        "P0@0: A cas f 1 acq_rel gpu -> b; A cas f 2 relaxed gpu"
        " | P1@1: R f acquire gpu -> b; ?b=2 A exch f 2 relaxed cluster"
    )
    assert explore(program).racing
    assert not explore(program, places_in_order=True).racing
    assert judged_strong(program).out_of_order


RANKED = """
.version 8.8
.target sm_90
.address_size 64
.visible .entry k(.param .u64 memory)
{
.reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<4>;
ld.param.u64 %rd1, [memory]; mov.u32 %r1, %cluster_ctarank; mov.u32 %r2, %tid.x;
setp.ne.u32 %p1, %r2, 0; @%p1 bra END;
setp.eq.u32 %p1, %r1, 0; @%p1 bra FIRST;
WAIT: ld.acquire.gpu.global.u32 %r3, [%rd1+4]; setp.ne.u32 %p1, %r3, 1; @%p1 bra WAIT;
ld.global.u32 %r4, [%rd1]; bra END;
FIRST: st.global.u32 [%rd1], 5; st.release.gpu.global.u32 [%rd1+4], 1;
END: ret;
}
"""


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_what_ranks_in_a_cluster_decide_is_not_tried_without_them(engine: Any) -> None:
    kernel = wsemu.load_ptx(RANKED)["k"]
    assert wsemu.check(kernel, 2, 32, (np.zeros(8, np.uint32),), cluster=2, engine=engine).verdict == "incomplete"


@pytest.mark.parametrize(("fence", "decided"), [("", False), ("F acq_rel gpu; ", False), ("F sc gpu; ", True)])
def test_store_buffering_is_decided_where_it_cannot_come_about(fence: str, decided: bool) -> None:
    """Where both see nothing, both write the data: with `fence.sc` that cannot be."""
    program = parse(
        f"P0@0: W f 1 relaxed gpu; {fence}R g relaxed gpu -> a; ?a=0 W x 1 | "
        f"P1@1: W g 1 relaxed gpu; {fence}R f relaxed gpu -> b; ?b=0 W x 2"
    )
    assert explore(program).racing != decided
    said, _ = verdict(program)
    assert said == ("verified" if decided else "incomplete")


PAIR = "P0@0: W x 1; {} | P1@1: {}; ?a=2 R x"
SENT, TAKEN = "W f 1 release gpu & W g 2 release gpu", "R f acquire gpu & R g acquire gpu -> a"


@pytest.mark.parametrize(("line", "said"), [
    (PAIR.format(SENT, "R g acquire gpu until 2 -> a"), "incomplete"),
    (PAIR.format("W g 2 release gpu", TAKEN), "incomplete"),
    (PAIR.format(SENT, TAKEN), "verified"),
    (PAIR.format(SENT, "R g -> a"), "failed"),
    (PAIR.format(SENT.replace("release", "relaxed"), TAKEN), "failed"),
    (PAIR.format(SENT.replace("gpu", "cta"), TAKEN), "failed"),
    (PAIR.format(SENT, "W y 1; R g acquire gpu until 2 -> a"), "incomplete"),
    (PAIR.format("W y 2; " + SENT, "W y 1; R g acquire gpu until 2 -> a"), "failed"),
    (PAIR.format(SENT, "R g acquire gpu until 2 -> a; W f 1"), "failed"),
    (LOCKED.format("R y relaxed gpu; R f & R g; R x relaxed gpu & R y relaxed gpu; ", 1, "acquire gpu")
     + "; A exch f 0 release gpu", "verified"),
])  # fmt: skip
@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_strong_accesses_of_vectors(line: str, said: str, engine: Any) -> None:
    """Vectors that meet vectors alone are one access each; one that meets its element is not decided."""
    found = judged_strong(parse(line), engine)
    assert found.found.wrong == (said == "failed")
    assert (found.complaint, found.verdict) == ("", said)


def test_an_atomic_that_meets_the_second_element_of_a_vector_is_in_no_order_with_it() -> None:
    """The vector begins elsewhere, and the first run executes none: P0 may draw its number after the store."""
    program = parse(
        "P0@0: A add g 1 acq_rel sys -> t; ?t=0 W f 1 release sys; ?t!1 W y 2 | P1@1: A add g 1 acq_rel sys -> t; "
        "?t=0 W f 1 release sys & ?t=0 W g 2 release sys; ?t!1 W y 2"
    )
    assert explore(program, vectors_are_one=True).same
    assert verdict(program) == ("incomplete", ())
    unequal = parse(notation(program).replace("?t!1 W y 2 |", "?t!1 W y 1 |"))
    assert explore(unequal, vectors_are_one=True).racing
    assert verdict(unequal) == ("incomplete", ())


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_what_the_widest_scope_has_observed_is_not_what_a_cluster_has(engine: Any) -> None:
    """The thread of P0's cluster may store, or the other one, which P0's fence does not reach."""
    program = parse(
        "P0@0/0: R g relaxed gpu until 2; F acq_rel cluster; R x"
        " | P1@1/0: A add f 1 relaxed gpu -> t; ?t=0 W x 1; F acq_rel cluster; A add g 1 relaxed gpu"
        " | P2@2/1: A add f 1 relaxed gpu -> t; ?t=0 W x 1; F acq_rel gpu; A add g 1 relaxed gpu"
    )
    assert explore(program, up_to_wrong=True).racing
    assert verdict(program, engine) == ("failed", ("race",))


def test_loads_of_two_elements_of_a_vector_are_in_no_order() -> None:
    program = parse(
        "P0@0: A add f 1 -> t; ?t=1 W x 1 relaxed gpu & ?t=1 W y 2 relaxed gpu; ?t=1 W s0 5"
        " | P1@1: A add f 1 -> u; ?u=0 R y relaxed gpu until 2; ?u=0 R x relaxed gpu -> a; ?u=0 W s0 1"
    )
    assert verdict(program)[0] == "incomplete"


def test_more_than_are_looked_at_are_not_called_all() -> None:
    found = explore(parse("P0@0: A add f 1 -> a | P1@1: A add f 1 -> b | P2@2: A add f 1 -> c"), most=100)
    assert not found.whole
    assert not found.known


@pytest.mark.parametrize("family", STRONG_FAMILIES)
@pytest.mark.parametrize("seed", range(2))
def test_random_programs(seed: int, family: str) -> None:
    source = random.Random(f"{family} {seed}")
    for k in range(8):
        program = STRONG_FAMILIES[family](source)
        assert parse(notation(program)) == program
        engine, together = "reference" if k == 0 else "vm", family == "together"
        judged = judged_strong(program, engine, space_for(program, source), together=together)
        assert not judged.complaint, judged


def test_random_programs_whose_ctas_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    proven: list[bool] = []
    proof = Crowds.is_proven

    def noted(self: Crowds) -> bool:
        proven.append(proof(self))
        return proven[-1]

    monkeypatch.setattr(Crowds, "is_proven", noted)
    source = random.Random("counted")
    for k in range(30):
        with counting():
            judged = judged_strong(strong_program(source), "reference" if k % 10 == 0 else "vm")
        assert not judged.complaint, judged
    assert any(proven)


@pytest.mark.parametrize(
    ("line", "can", "said"),
    [
        ("P0@0: A add f 1 relaxed -> t; W x 1 | P1@1: A add f 1 relaxed -> t; W x 1", "stores one value", "verified"),
        ("P0@0: W x 1; W y 1 | P1@1: W x 1; W y 2", "races", "failed"),
        ("P0@0: W x 1 | P1@1: W x 1 relaxed", "races", "failed"),
        ("P0@0: W x 1; R x | P1@1: W x 1", "races", "failed"),
        (
            ("P0@0: A cas f 1 relaxed until 0; F acq_rel gpu; W x 1; F acq_rel gpu; W f 0 relaxed"
            " | P1@1: A cas f 1 relaxed until 0; F acq_rel gpu; W x 1; F acq_rel gpu; W f 0 relaxed"),
            "is right", "verified",
        ),
        (  # a vector is one access, as on a GPU
            ("P0@0: W x 1; F sc gpu; W f 1 relaxed gpu & W g 1 relaxed gpu"
            " | P1@0: W x 1; W f 2 relaxed sys & W g 1 relaxed sys"),
            "stores one value", "verified",
        ),
        (  # nor is a vector that meets an element, which hides nothing of other stores
            ("P0@0: W x 2 & W y 2; W g 1 release gpu"
            " | P1@1: R f acquire gpu -> a; W x 2; W f 1 release gpu & W g 2 release gpu"),
            "stores one value", "incomplete",
        ),
        (  # a `cas` that fails writes nothing
            ("P0@0: A cas f 1 acquire gpu until 0; W x 1 & W y 2; W f 0 release gpu"
            " | P1@0: A cas f 1 acquire gpu until 0; W x 1; R f weak volatile & R g weak volatile;"
            " W f 0 release gpu & W g 2 release gpu"),
            "is right", "incomplete",
        ),
        (
            ("P0@0: W x 2 & W y 2; W g 1 release gpu"
            " | P1@1: R f acquire gpu -> a; W x 1; W f 1 release gpu & W g 2 release gpu"),
            "races", "failed",
        ),
    ],
)  # fmt: skip
@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_weak_stores_of_one_value(line: str, can: str, said: str, engine: str) -> None:
    found = judged_strong(parse(line), engine)
    assert (found.complaint, found.can, found.verdict) == ("", can, said)
    assert ("same-value-store" in found.codes) == (can == "stores one value")
