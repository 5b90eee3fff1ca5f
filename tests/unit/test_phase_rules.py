"""What one run of a program with mbarriers says of all: each rule in a program that breaks it and in one that holds it.

After the first barrier of these programs the warp with the highest number runs first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.async_kernels import BAR, DATA, ENGINES, Kernel, launch
from wsemu.model.isa import DROP, NOINC, PEEK, RELAXED

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture(params=list(ENGINES))
def engine(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def made(*counts: int) -> Kernel:
    """A kernel with mbarriers of these counts, which all threads know of."""
    k = Kernel()
    k.only(0, lambda: [k.init(n, count) for n, count in enumerate(counts)])
    k.sync()
    return k


def test_r1_an_arrival_that_could_come_a_phase_early(engine: str) -> None:
    k = made(1)
    k.only(32, lambda: k.arrive(0, tag="first"))
    k.only(0, lambda: k.arrive(0, tag="second"))
    ran = launch(k, 64, engine)
    assert (ran.status, ran.codes) == ("done", ["phase-alias", "phase-unobserved"])
    found = ran.finding("phase-alias")
    assert (found.pc, found.warp, found.lanes) == (ran.pc["second"], 0, 1)
    assert (found.other_pc, found.other_warp) == (ran.pc["first"], 1)
    assert found.detail == {"address": BAR, "phase": 1, "rule": 1}


def test_r1_an_arrival_after_a_wait_for_the_phase_before(engine: str) -> None:
    k = made(1)
    k.only(32, lambda: k.arrive(0))
    k.only(0, lambda: (k.wait(0, 0), k.arrive(0)))
    assert launch(k, 64, engine).is_clean()


def test_r1_a_copy_counts_as_its_issue_and_is_known_by_its_wait(engine: str) -> None:
    def program(waits: bool) -> Kernel:
        k = made(1)
        k.only(32, lambda: (k.arrive(0, bytes_=16), k.load(DATA, k.a, 16, 0)))

        def later() -> None:
            if waits:
                k.wait(0, 0)
            k.arrive(0, bytes_=16, tag="later")
            k.load(DATA + 16, k.a, 16, 0, tag="next")
            k.wait(0, 1)

        k.only(0, later)
        return k

    assert launch(program(waits=True), 64, engine).is_clean()
    ran = launch(program(waits=False), 64, engine)
    rules = {(f.pc, f.other_pc) for f in ran.outcome.findings if f.code == "phase-alias"}
    assert {(ran.pc["later"], ran.pc["load"]), (ran.pc["next"], ran.pc["load"])} <= rules


def test_r2_a_wait_that_an_older_phase_could_end(engine: str) -> None:
    k = made(1)
    k.only(32, lambda: (k.arrive(0, tag="zero"), k.wait(0, 0), k.arrive(0)))
    k.only(0, lambda: k.wait(0, 1, tag="early"))
    ran = launch(k, 64, engine)
    assert (ran.status, ran.codes) == ("done", ["phase-alias"])
    found = ran.finding("phase-alias")
    assert (found.pc, found.other_pc) == (ran.pc["early"], ran.pc["zero"])
    assert found.detail == {"address": BAR, "phase": 2, "rule": 2}


def test_r2_holds_where_the_wait_comes_after_the_phase_before(engine: str) -> None:
    k = made(1, 1)
    k.only(32, lambda: (k.arrive(0), k.wait(0, 0), k.wait(1, 0), k.arrive(0)))
    k.only(0, lambda: (k.wait(0, 0), k.arrive(1), k.wait(0, 1)))
    assert launch(k, 64, engine).is_clean()


def test_r2_holds_for_a_peek_as_well(engine: str) -> None:
    """A stale true would skip the wait that follows."""
    k = made(1)
    k.only(32, lambda: (k.arrive(0, tag="zero"), k.wait(0, 0), k.arrive(0)))
    k.only(0, lambda: k.wait(0, 1, PEEK, tag="peek"))
    ran = launch(k, 64, engine)
    assert ran.codes == ["phase-alias"]
    assert (ran.finding("phase-alias").pc, ran.finding("phase-alias").detail["rule"]) == (ran.pc["peek"], 2)


def _late(engine: str, *, ordered: bool) -> list[str]:
    """Warp 0 sees a phase complete; warp 2 completes the next one, after it in this run."""
    k = made(1, 1)
    k.only(64, lambda: (k.arrive(0), k.wait(1, 0), k.wait(0, 0, tag="own"), k.arrive(0, tag="next")))
    k.only(0, lambda: (k.wait(0, 0, tag="late"), k.arrive(1) if ordered else None))
    k.only(32, lambda: None if ordered else k.arrive(1))
    ran = launch(k, 96, engine)
    for found in ran.outcome.findings:
        assert (found.pc, found.other_pc, found.other_warp) == (ran.pc["next"], ran.pc["late"], 0)
        assert found.detail == {"address": BAR, "phase": 1, "rule": 3}
    assert ran.status == "done"
    return ran.codes


def test_r3_a_wait_that_could_miss_its_phase(engine: str) -> None:
    assert _late(engine, ordered=False) == ["phase-alias"]


def test_r3_a_wait_that_the_next_phase_needs(engine: str) -> None:
    assert _late(engine, ordered=True) == []


NOTHING: dict[str, Callable[[Kernel], object]] = {
    "arrive": lambda k: k.arrive(0, 0),
    "expect": lambda k: k.expect(0, 0),
    "come": lambda k: k.come(0, 0),
    "copy": lambda k: k.load(DATA, k.a, 0, 0),
}
"""operations at mbarrier 0 that add no arrival and no byte"""


@pytest.mark.parametrize("what", NOTHING)
def test_r3_adding_nothing_after_a_wait_does_not_hold_the_next_phase_open(engine: str, what: str) -> None:
    k = made(1, 1)
    k.only(64, lambda: (k.arrive(0), k.wait(1, 0), k.wait(0, 0), k.arrive(0, tag="next")))
    k.only(0, lambda: (k.wait(0, 0, tag="late"), NOTHING[what](k)))
    k.only(32, lambda: k.arrive(1))
    ran = launch(k, 96, engine)
    assert (ran.status, ran.codes) == ("done", ["phase-alias"])
    found = ran.finding("phase-alias")
    assert (found.pc, found.other_pc, found.detail["rule"]) == (ran.pc["next"], ran.pc["late"], 3)


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("what", NOTHING)
def test_r1_and_r5_do_not_hold_for_adding_nothing(engine: str, what: str, first: bool) -> None:
    k = made(1)
    k.only(32 if first else 0, lambda: NOTHING[what](k))
    k.only(0 if first else 32, lambda: (k.arrive(0), k.wait(0, 0), k.arrive(0), k.wait(0, 1)))
    assert launch(k, 64, engine).is_clean()


@pytest.mark.parametrize("count", [0, 1])
def test_an_arrival_of_0_orders_no_memory(engine: str, count: int) -> None:
    """The phase can complete before it."""
    k = made(1 + count)
    k.when(k.is_warp(2), lambda: (k.put(DATA, k.tid), k.only(64, lambda: k.arrive(0, count))))
    k.only(32, lambda: k.arrive(0))
    k.only(0, lambda: (k.wait(0, 0), k.out(k.emit("ld.b32", k.at(DATA + 4 * 64)))))
    assert launch(k, 96, engine).codes == ([] if count else ["race"])


def test_a_phase_without_registrants_does_not_complete(engine: str) -> None:
    k = Kernel()
    k.only(0, lambda: (k.init(0, 1), k.arrive(0, 1, DROP), k.wait(0, 0), k.wait(0, 1)))
    assert launch(k, 32, engine).status == "deadlock"


def test_r3_is_judged_lane_by_lane(engine: str) -> None:
    """All lanes wait, and the first one arrives for the warp: nothing says that the others have seen the phase."""

    def program(synced: bool) -> Kernel:
        k = made(1, 1)
        k.only(32, lambda: (k.arrive(0), k.wait(1, 0), k.arrive(0)))

        def consume() -> None:
            k.wait(0, 0)
            if synced:
                k.do("syncwarp", k.c(0), k.c(0), k.c(0xFFFFFFFF))
            k.only(0, lambda: k.arrive(1))

        k.warps(consume)
        return k

    ran = launch(program(synced=False), 64, engine)
    assert ran.codes == ["phase-alias"]
    assert ran.finding("phase-alias").detail["rule"] == 3
    assert launch(program(synced=True), 64, engine).is_clean()


def test_r3_a_wait_after_what_its_own_lane_expected_is_not_before_it(engine: str) -> None:
    k = made(1)

    def body() -> None:
        k.arrive(0)
        k.wait(0, 0, tag="first")
        k.expect(0, 16)
        k.come(0, 16)
        k.wait(0, 0, RELAXED * 0 | 4, tag="second")

    k.only(32, body)
    k.only(0, lambda: k.wait(0, 0, tag="mine"))
    k.sync()
    k.only(0, lambda: k.arrive(0))
    assert launch(k, 64, engine).is_clean()


def test_r4_an_mbarrier_is_made_before_it_is_used(engine: str) -> None:
    k = Kernel()
    k.only(0, lambda: k.init(0, 1))
    k.only(32, lambda: k.arrive(0))
    ran = launch(k, 64, engine)
    assert ran.codes == ["mbarrier-uninitialized"]
    found = ran.finding("mbarrier-uninitialized")
    assert (found.pc, found.other_pc, found.other_warp) == (ran.pc["arrive"], ran.pc["init"], 0)
    assert found.detail == {"address": BAR, "ordered": 1, "dead": 0}


def test_r4_a_wait_does_not_know_the_initialization_by_its_own_phase(engine: str) -> None:
    k = Kernel()
    k.only(0, lambda: (k.init(0, 1), k.arrive(0)))
    k.only(32, lambda: k.wait(0, 0))
    ran = launch(k, 64, engine)
    assert ran.codes == ["mbarrier-uninitialized"]
    assert (ran.finding("mbarrier-uninitialized").pc, ran.finding("mbarrier-uninitialized").warp) == (ran.pc["wait"], 1)


def test_r4_an_mbarrier_is_used_before_it_ends(engine: str) -> None:
    k = made(2)
    k.only(32, lambda: k.arrive(0))
    k.only(0, lambda: k.inval(0))
    ran = launch(k, 64, engine)
    assert ran.codes == ["mbarrier-lifetime"]
    found = ran.finding("mbarrier-lifetime")
    assert (found.pc, found.other_pc) == (ran.pc["inval"], ran.pc["arrive"])
    assert found.detail == {"address": BAR, "phase": 0, "what": 0}
    k = made(2)
    k.only(32, lambda: k.arrive(0))
    k.sync()
    k.only(0, lambda: k.inval(0))
    assert launch(k, 64, engine).is_clean()


@pytest.mark.parametrize("waiter", [True, False])
def test_an_mbarrier_does_not_end_while_others_wait_or_bytes_are_missing(engine: str, waiter: bool) -> None:
    k = made(1)
    k.only(32, lambda: k.wait(0, 0) if waiter else None)
    k.only(0, lambda: (None if waiter else k.expect(0, 16), k.inval(0)))
    ran = launch(k, 64, engine)
    assert ran.status == ("deadlock" if waiter else "done")
    assert {f.detail["what"] for f in ran.outcome.findings} == ({0, 1} if waiter else {1})


def test_r4_an_mbarrier_ends_before_the_next_one_there(engine: str) -> None:
    k = made(1)
    k.only(0, lambda: k.inval(0))
    k.sync()
    k.only(32, lambda: k.init(0, 1))
    assert launch(k, 64, engine).is_clean()
    k = made(1)
    k.only(32, lambda: k.inval(0))
    k.only(0, lambda: k.init(0, 1, tag="again"))
    ran = launch(k, 64, engine)
    assert ran.codes == ["mbarrier-reinit"]
    assert (ran.finding("mbarrier-reinit").pc, ran.finding("mbarrier-reinit").other_pc) == (
        ran.pc["again"], ran.pc["inval"]
    )  # fmt: skip


def test_r5_bytes_that_no_arrival_waits_for(engine: str) -> None:
    k = made(1)
    k.only(32, lambda: (k.expect(0, 16), k.come(0, 16)))
    k.only(0, lambda: k.arrive(0))
    ran = launch(k, 64, engine)
    assert ran.codes == ["uncovered-expectation"]
    found = ran.finding("uncovered-expectation")
    assert (found.pc, found.warp, found.lanes, found.other_pc) == (ran.pc["expect"], 1, 0, -1)
    assert found.detail == {"address": BAR, "phase": 0, "what": 0}


def test_r5_bytes_that_an_arrival_waits_for(engine: str) -> None:
    k = made(1)
    k.only(32, lambda: k.expect(0, 16))
    k.sync()
    k.only(0, lambda: (k.arrive(0), k.come(0, 16)))
    assert launch(k, 64, engine).is_clean()
    k = made(1)
    k.only(32, lambda: (k.expect(0, 16), k.arrive(0), k.come(0, 16)))
    assert launch(k, 64, engine).is_clean()


@pytest.mark.parametrize("covered", [False, True])
def test_r5_the_arrival_of_copies_that_an_arrival_has_to_wait_for(engine: str, covered: bool) -> None:
    k = made(1)
    k.only(32, lambda: (k.do("cp.async.arrive", k.base, tag="plus"), k.arrive(0) if covered else None))
    k.only(0, lambda: None if covered else k.arrive(0))
    ran = launch(k, 64, engine)
    assert ran.codes == ([] if covered else ["uncovered-expectation"])
    if not covered:
        assert ran.finding("uncovered-expectation").detail["what"] == 1


def test_r5_an_arrival_that_comes_with_the_copies_covers_as_well(engine: str) -> None:
    k = made(1)
    k.only(32, lambda: (k.expect(0, 16), k.do("cp.async.arrive", k.base, auxiliary=NOINC), k.come(0, 16)))
    assert launch(k, 64, engine).is_clean()
    k = made(1)
    k.only(32, lambda: (k.do("cp.async.arrive", k.base, auxiliary=NOINC), k.wait(0, 0), k.expect(0, 16)))
    assert launch(k, 64, engine).codes == ["tx-mismatch"]


@pytest.mark.parametrize(("bytes_", "come"), [(32, 0), (32, 16), (0, 16)])
def test_r6_bytes_that_are_missing_or_too_many_at_the_end(engine: str, bytes_: int, come: int) -> None:
    k = made(1)
    k.only(0, lambda: (k.come(0, come, tag="last") if come else None, k.arrive(0, bytes_=bytes_, tag="arrive")))
    ran = launch(k, 64, engine)
    assert ran.codes == ["tx-mismatch"]
    found = ran.finding("tx-mismatch")
    assert found.pc == ran.pc["arrive" if bytes_ else "last"]
    assert found.detail == {"address": BAR, "phase": 0, "bytes": bytes_ - come, "pending": 0}


def test_an_arrival_before_anyone_has_seen_the_phase_before(engine: str) -> None:
    k = made(1)
    k.only(0, lambda: (k.arrive(0, tag="one"), k.arrive(0, tag="two")))
    ran = launch(k, 64, engine)
    assert ran.codes == ["phase-unobserved"]
    found = ran.finding("phase-unobserved")
    assert (found.pc, found.other_pc, found.detail) == (ran.pc["two"], -1, {"address": BAR, "phase": 1})
    k = made(1)
    k.only(0, lambda: (k.arrive(0), k.wait(0, 0), k.arrive(0)))
    assert launch(k, 64, engine).is_clean()


def test_a_wait_takes_what_its_phase_was_given_and_no_other(engine: str) -> None:
    """Warp 1 arrives for phase 0; warp 0 waits for phase 1 alone, to which warp 2 arrived."""
    k = made(1)
    k.only(64, lambda: k.arrive(0))
    k.when(k.is_warp(1), lambda: (k.put(DATA, k.tid), k.wait(0, 0), k.only(32, lambda: k.arrive(0))))
    k.only(0, lambda: (k.wait(0, 1), k.out(k.emit("ld.b32", k.at(DATA + 4 * 32), tag="get"))))
    ran = launch(k, 96, engine)
    assert "race" not in ran.codes  # lane 0 of warp 1 arrived after its store
    k = made(1)
    k.when(k.is_warp(2), lambda: (k.put(DATA, k.tid), k.only(64, lambda: k.arrive(0))))
    k.only(32, lambda: k.arrive(0))
    k.only(0, lambda: (k.wait(0, 1), k.out(k.emit("ld.b32", k.at(DATA + 4 * 64), tag="get"))))
    assert "race" in launch(k, 96, engine).codes


def test_r5_an_expectation_of_size_0_that_may_come_after_all_have_left(engine: str) -> None:
    k = made(1)
    k.only(32, lambda: k.expect(0, 0))
    k.only(0, lambda: k.arrive(0, 1, DROP))
    found = launch(k, 64, engine).finding("uncovered-expectation")
    assert found.detail == {"address": BAR, "phase": 0, "what": 3}
