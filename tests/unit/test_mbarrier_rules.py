"""What an mbarrier does, rule by rule, as a program sees it; the numbers are those of rules measured on an H100."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import wsemu
from tests.unit.async_kernels import BAR, DATA, ENGINES, Kernel, launch
from wsemu.model.isa import BLOCKS, DROP, MOST_COUNT, NO_COMPLETE, PEEK, RELAXED
from wsemu.model.outcome import PhaseState, PhaseWait

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture(params=list(ENGINES))
def engine(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def k() -> Kernel:
    return Kernel()


def high(kernel: Kernel, token: int) -> int:
    return kernel.emit("cvt.b32.s64", kernel.emit("shr.u64", token, kernel.c(32, "b64")))


def test_m1_the_word_after_init_is_as_measured(k: Kernel, engine: str) -> None:
    k.only(0, lambda: (k.init(0, 5), k.out(high(k, k.arrive(0)), 0), k.inval(0), k.out(k.emit("ld.b32", k.at(0)), 1)))
    k.only(0, lambda: k.out(k.emit("ld.b32", k.at(4)), 2))
    ran = launch(k, 32, engine, initialised=False)
    assert ran.is_clean()
    assert ran.result(0)[0] == 0x80000000 - 2048 * 5
    assert ran.result(2)[0] == 0x80000000 - 2048 * 4
    assert ran.result(1)[0] == 0x200000 - 2 * 5


def test_m1_the_word_holds_bytes_and_the_phase(k: Kernel, engine: str) -> None:
    def body() -> None:
        k.init(0, 2)
        k.arrive(0, 2)
        k.wait(0, 0)
        k.expect(0, 48)
        k.out(high(k, k.arrive(0)))
        k.come(0, 48)
        k.arrive(0)

    k.only(0, body)
    ran = launch(k, 32, engine)
    assert ran.is_clean()
    word = 1 << 63 | (-2 & MOST_COUNT) << 43 | (-48 & ((1 << 21) - 1)) << 21 | (-2 & MOST_COUNT) << 1
    assert ran.result()[0] == word >> 32


@pytest.mark.parametrize("count", [0, 1 << 20, (1 << 20) + 1, 0xFFFFFFFF])
def test_m2_init_takes_counts_from_1_to_the_most(k: Kernel, engine: str, count: int) -> None:
    k.only(0, lambda: k.init(0, count))
    ran = launch(k, 32, engine)
    assert (ran.status, ran.codes) == ("fault", ["mbarrier-range"])
    assert ran.finding("mbarrier-range").detail == {"address": BAR, "value": count, "what": 0}


def test_m3_arrivals_complete_a_phase_and_a_count_of_0_changes_nothing(k: Kernel, engine: str) -> None:
    def body() -> None:
        k.init(0, 3)
        k.arrive(0, 0)
        k.arrive(0, 2)
        k.out(k.as_number(k.wait(0, 0, 0)), 0)
        k.arrive(0)
        k.out(k.as_number(k.wait(0, 0, 0)), 1)

    k.only(0, body)
    ran = launch(k, 32, engine)
    assert ran.is_clean()
    assert [ran.result(0)[0], ran.result(1)[0]] == [0, 1]
    assert [(e.generation, e.amount) for e in ran.events("arrive_on")] == [(0, 0), (0, 2), (0, 1)]
    assert [e.generation for e in ran.events("phase")] == [0]


@pytest.mark.parametrize("count", [3, MOST_COUNT])
def test_m4_more_arrivals_than_are_missing_stop_the_launch(k: Kernel, engine: str, count: int) -> None:
    k.only(0, lambda: (k.init(0, 2), k.arrive(0, count)))
    ran = launch(k, 32, engine)
    assert (ran.status, ran.codes) == ("fault", ["over-arrival"])
    found = ran.finding("over-arrival")
    assert found.detail == {"address": BAR, "phase": 0, "pending": 2, "count": count}
    assert (found.pc, found.lanes) == (ran.pc["arrive"], 1)
    assert ran.outcome.fault_pc == ran.pc["arrive"]
    assert ran.outcome.phases == [PhaseState(BAR, 0, 2, 2, 0, ran.pc["init"])]


def test_m5_an_arrival_that_must_not_complete_the_phase_does(k: Kernel, engine: str) -> None:
    k.only(0, lambda: (k.init(0, 1), k.arrive(0, 1, NO_COMPLETE), k.out(k.as_number(k.wait(0, 0, 0)))))
    ran = launch(k, 32, engine)
    assert (ran.status, ran.codes, ran.result()[0]) == ("done", ["mbarrier-range"], 1)
    assert ran.finding("mbarrier-range").detail["what"] == 4


@pytest.mark.parametrize("count", [31, 16, 8, 1])
def test_m6_lanes_of_one_instruction_are_added_up_first(k: Kernel, engine: str, count: int) -> None:
    k.only(0, lambda: k.init(0, count))
    k.sync()
    k.arrive(0)
    ran = launch(k, 32, engine)
    assert (ran.status, ran.codes) == ("fault", ["over-arrival"])
    assert ran.finding("over-arrival").detail["count"] == 32


def test_m6_all_lanes_get_the_token_from_before(k: Kernel, engine: str) -> None:
    k.only(0, lambda: k.init(0, 32))
    k.sync()
    token = k.arrive(0)
    k.out(high(k, token))
    k.wait_token(0, token)
    ran = launch(k, 32, engine)
    assert ran.is_clean()
    assert ran.result() == [0x80000000 - 2048 * 32] * 32


def test_m6_no_complete_counts_one_lane_after_the_other(k: Kernel, engine: str) -> None:
    k.only(0, lambda: k.init(0, 33))
    k.sync()
    token = k.arrive(0, 1, NO_COMPLETE)
    k.out(k.emit("mbarrier.pending_count", token))
    k.sync()
    k.when(k.lanes_below(1), lambda: k.arrive(0))
    ran = launch(k, 32, engine)
    assert ran.is_clean()
    assert ran.result() == list(range(33, 1, -1))


def test_m7_each_active_lane_counts_with_its_own_count(k: Kernel, engine: str) -> None:
    k.only(0, lambda: k.init(0, 5 + sum(range(20))))
    k.sync()
    k.when(k.lanes_below(5), lambda: k.arrive(0), lambda: None)
    k.when(
        k.lanes_below(20),
        lambda: k.emit("mbarrier.arrive", k.base, k.lane, k.c(0)),
        lambda: k.out(k.as_number(k.wait(0, 0, 0)), 1),
    )
    k.out(k.as_number(k.wait(0, 0, 0)))
    ran = launch(k, 32, engine)
    assert ran.is_clean()
    assert ran.result() == [1] * 32


def test_m7_expectations_of_lanes_are_added_up(k: Kernel, engine: str) -> None:
    k.only(0, lambda: k.init(0, 32))
    k.sync()
    k.expect(0, 16)
    k.arrive(0)
    k.out(k.as_number(k.wait(0, 0, 0)), 0)
    k.only(0, lambda: k.come(0, 512))
    k.out(k.as_number(k.wait(0, 0, 0)), 1)
    ran = launch(k, 32, engine)
    assert ran.is_clean()
    assert (ran.result(0)[0], ran.result(1)[0]) == (0, 1)
    assert [e.amount for e in ran.events("expect", "credit")] == [512, 512]


def test_m8_a_drop_lowers_what_later_phases_expect(k: Kernel, engine: str) -> None:
    def body() -> None:
        k.init(0, 3)
        k.arrive(0, 1, DROP)
        k.arrive(0, 2)
        k.wait(0, 0)
        k.arrive(0, 2)
        k.out(k.as_number(k.wait(0, 1)))

    k.only(0, body)
    ran = launch(k, 32, engine)
    assert ran.is_clean()
    assert ran.result()[0] == 1


def test_m8_after_a_drop_to_zero_an_arrival_is_too_many(k: Kernel, engine: str) -> None:
    k.only(0, lambda: (k.init(0, 1), k.arrive(0, 1, DROP, tag="drop"), k.wait(0, 0), k.arrive(0)))
    ran = launch(k, 32, engine)
    assert (ran.status, ran.codes) == ("fault", ["over-arrival"])
    assert ran.outcome.phases == [PhaseState(BAR, 1, 0, 0, 0, ran.pc["init"])]


def test_m9_expected_bytes_can_complete_a_phase(k: Kernel, engine: str) -> None:
    def body() -> None:
        k.init(0, 1)
        k.come(0, 64)
        k.arrive(0)
        k.out(k.as_number(k.wait(0, 0, 0)), 0)
        k.expect(0, 64)
        k.out(k.as_number(k.wait(0, 0, 0)), 1)

    k.only(0, body)
    ran = launch(k, 32, engine)
    assert (ran.status, ran.codes) == ("done", ["uncovered-expectation"])
    assert (ran.result(0)[0], ran.result(1)[0]) == (0, 1)


def test_m9_arrive_expect_tx_expects_before_it_arrives(k: Kernel, engine: str) -> None:
    k.only(0, lambda: (k.init(0, 1), k.arrive(0, bytes_=16), k.out(k.as_number(k.wait(0, 0, 0))), k.come(0, 16)))
    ran = launch(k, 32, engine)
    assert ran.is_clean()
    assert ran.result()[0] == 0
    assert [e.kind for e in ran.events("expect", "arrive_on", "credit", "phase")] == [
        "expect", "arrive_on", "credit", "phase"
    ]  # fmt: skip


@pytest.mark.parametrize(("count", "what"), [(MOST_COUNT + 1, 2), (0xFFFFFFFF, 2)])
def test_m10_an_operation_names_at_most_so_many_bytes(k: Kernel, engine: str, count: int, what: int) -> None:
    k.only(0, lambda: (k.init(0, 1), k.expect(0, count)))
    ran = launch(k, 32, engine)
    assert (ran.status, ran.codes) == ("fault", ["mbarrier-range"])
    assert ran.finding("mbarrier-range").detail == {"address": BAR, "value": count, "what": what}


@pytest.mark.parametrize("sign", [1, -1])
def test_m10_bytes_in_all_have_a_range(k: Kernel, engine: str, sign: int) -> None:
    more = k.expect if sign > 0 else k.come
    k.only(0, lambda: (k.init(0, 1), more(0, MOST_COUNT), more(0, 1)))
    ran = launch(k, 32, engine)
    assert (ran.status, ran.codes) == ("fault", ["mbarrier-range"])
    assert ran.finding("mbarrier-range").detail == {"address": BAR, "value": sign * (MOST_COUNT + 1), "what": 3}


def test_m10_an_arrival_has_at_most_so_many_counts(k: Kernel, engine: str) -> None:
    k.only(0, lambda: (k.init(0, 1), k.arrive(0, MOST_COUNT + 1)))
    ran = launch(k, 32, engine)
    assert (ran.status, ran.codes) == ("fault", ["mbarrier-range"])
    assert ran.finding("mbarrier-range").detail["what"] == 1


@pytest.mark.parametrize(("expected", "come"), [(64, 32), (32, 64)])
def test_m11_other_bytes_than_expected_leave_the_phase_open(k: Kernel, engine: str, expected: int, come: int) -> None:
    k.only(0, lambda: (k.init(0, 1), k.arrive(0, bytes_=expected), k.come(0, come), k.wait(0, 0)))
    ran = launch(k, 32, engine)
    assert ran.status == "deadlock"
    assert ran.outcome.phases == [PhaseState(BAR, 0, 0, 1, expected - come, ran.pc["init"])]
    assert ran.outcome.phase_waits == [PhaseWait(0, 1, ran.pc["wait"], BAR, 0)]
    (warp,) = ran.outcome.warps
    assert (warp.waits, warp.standing) == (-1, ((ran.pc["wait"], 1),))


def test_m12_a_token_tells_what_was_missing(k: Kernel, engine: str) -> None:
    k.only(
        0, lambda: (k.init(0, 7), k.out(k.emit("mbarrier.pending_count", k.arrive(0, 2, NO_COMPLETE))), k.arrive(0, 5))
    )
    k.out(k.emit("mbarrier.pending_count", k.c(0, "b64")), 1)
    ran = launch(k, 32, engine)
    assert ran.is_clean()
    assert (ran.result(0)[0], ran.result(1)[0]) == (7, 1 << 20)


def test_m13_a_token_is_of_its_phase(k: Kernel, engine: str) -> None:
    def body() -> None:
        k.init(0, 1)
        first = k.arrive(0)
        k.out(k.as_number(k.wait_token(0, first, 0)), 0)
        second = k.arrive(0)
        k.out(k.as_number(k.wait_token(0, second, 0)), 1)
        k.out(k.as_number(k.wait_token(0, first, 0, tag="old")), 2)

    k.only(0, body)
    ran = launch(k, 32, engine)
    assert [ran.result(n)[0] for n in range(3)] == [1, 1, 0]
    assert ran.codes == ["phase-alias"]
    found = ran.finding("phase-alias")
    assert (found.pc, found.other_pc) == (ran.pc["old"], -1)
    assert found.detail == {"address": BAR, "phase": 2, "rule": 4}


def test_m13_of_any_other_number_the_highest_bit_counts(k: Kernel, engine: str) -> None:
    k.only(0, lambda: k.init(0, 1))
    k.sync()
    for slot, token in enumerate((0, 1 << 63)):
        k.out(k.as_number(k.wait_token(0, k.c(token, "b64"), 0)), slot)
    ran = launch(k, 32, engine)
    assert (ran.result(0)[0], ran.result(1)[0]) == (0, 1)


@pytest.mark.parametrize(("parity", "answer"), [(0, 0), (1, 1), (2, 0), (3, 1)])
def test_m14_a_parity_counts_by_its_low_bit_and_1_passes_at_once(
    k: Kernel, engine: str, parity: int, answer: int
) -> None:
    k.only(0, lambda: (k.init(0, 1), k.out(k.as_number(k.wait(0, parity, 0)))))
    ran = launch(k, 32, engine)
    assert ran.is_clean()
    assert ran.result()[0] == answer


def test_m15_a_wait_that_blocks_stands_until_the_phase_completes(k: Kernel, engine: str) -> None:
    k.only(0, lambda: k.init(0, 32))
    k.sync()
    k.warps(lambda: k.arrive(0), lambda: k.out(k.as_number(k.wait(0, 0))))  # warp 1 runs first after a barrier
    ran = launch(k, 64, engine)
    assert ran.is_clean()
    assert ran.result(0, 64)[32:] == [1] * 32
    assert ran.outcome.executions[ran.pc["wait"]] == 1
    assert [e.kind for e in ran.events("arrive_on", "phase", "await")] == ["arrive_on", "phase", "await"]


def test_m15_a_wait_that_does_not_block_is_answered_as_things_stand(k: Kernel, engine: str) -> None:
    k.only(0, lambda: k.init(0, 32))
    k.sync()
    k.warps(lambda: k.arrive(0), lambda: k.out(k.as_number(k.wait(0, 0, 0))))  # warp 1 runs first after a barrier
    ran = launch(k, 64, engine)
    assert ran.is_clean()
    assert ran.result(0, 64)[32:] == [0] * 32


def test_a_peek_is_answered_with_false(k: Kernel, engine: str) -> None:
    k.only(0, lambda: (k.init(0, 1), k.arrive(0), k.out(k.as_number(k.wait(0, 0, PEEK)))))
    ran = launch(k, 32, engine)
    assert ran.is_clean()
    assert ran.result()[0] == 0


def test_a_wait_executes_as_soon_as_one_lane_is_answered_with_true(k: Kernel, engine: str) -> None:
    """The others get false, and their loop would try again."""
    k.only(0, lambda: (k.init(0, 1, tag="one"), k.init(1, 1), k.arrive(0)))
    k.sync()
    bar = k.emit("mad.b64", k.emit("cvt.b64.u32", k.emit("and.b32", k.lane, k.c(1))), k.c(8, "b64"), k.base)
    answer = k.emit("mbarrier.wait.parity", bar, k.c(0), auxiliary=BLOCKS)
    k.out(k.as_number(answer))
    ran = launch(k, 32, engine)
    assert ran.status == "done"
    assert ran.result() == [1, 0] * 16


def test_m16_lanes_of_one_warp_can_wait_for_each_other(k: Kernel, engine: str) -> None:
    k.only(0, lambda: k.init(0, 31))
    k.sync()
    k.when(k.lanes_below(1), lambda: k.wait(0, 0), lambda: k.arrive(0))
    k.out(k.c(1))
    assert launch(k, 32, engine).is_clean()
    other = Kernel()
    other.only(0, lambda: other.init(0, 1))
    other.sync()
    other.when(other.lanes_below(1), lambda: other.arrive(0), lambda: other.wait(0, 0))
    assert launch(other, 32, engine).is_clean()


def test_lanes_at_a_join_go_past_it_when_others_of_the_warp_stand_for_them(k: Kernel, engine: str) -> None:
    k.only(0, lambda: k.init(0, 31))
    k.sync()
    k.when(k.lanes_below(1), lambda: k.wait(0, 0))
    k.when(k.lanes_below(1), lambda: None, lambda: k.arrive(0))
    ran = launch(k, 32, engine)
    assert ran.is_clean()


def test_lanes_that_wait_for_nobody_are_a_deadlock(k: Kernel, engine: str) -> None:
    k.only(0, lambda: k.init(0, 2))
    k.sync()
    k.warps(lambda: k.wait(0, 0), lambda: k.only(32, lambda: k.arrive(0)))
    ran = launch(k, 64, engine)
    assert ran.status == "deadlock"
    assert ran.outcome.phase_waits == [PhaseWait(0, 0xFFFFFFFF, ran.pc["wait"], BAR, 0)]
    assert ran.outcome.phases == [PhaseState(BAR, 0, 1, 2, 0, ran.pc["init"])]


def test_a_part_of_a_warp_at_a_barrier_waits_for_lanes_at_an_mbarrier(k: Kernel, engine: str) -> None:
    """B14: these come to the barrier when another warp has let them go."""
    k.only(0, lambda: k.init(0, 1))
    k.sync()

    def first() -> None:
        k.when(k.lanes_below(1), lambda: k.wait(0, 0))
        k.do("bar.sync", k.c(1), k.c(64), auxiliary=1)

    def second() -> None:
        k.only(32, lambda: k.arrive(0))
        k.do("bar.sync", k.c(1), k.c(64), auxiliary=1)

    k.warps(first, second)
    assert launch(k, 64, engine).is_clean()


def test_m17_a_load_of_a_live_mbarrier_sees_what_memory_held(k: Kernel, engine: str) -> None:
    def body() -> None:
        k.do("st.b64", k.base, k.c(77, "b64"))
        k.init(0, 1)
        k.out(k.emit("ld.b32", k.base, tag="peep"))

    k.only(0, body)
    ran = launch(k, 32, engine)
    assert (ran.status, ran.codes, ran.result()[0]) == ("done", ["mbarrier-clobber"], 77)
    found = ran.finding("mbarrier-clobber")
    assert (found.pc, found.lanes) == (ran.pc["peep"], 1)
    assert found.detail == {"address": BAR, "at": BAR, "kind": 0, "size": 4, "asynchronous": 0}


def test_m17_a_store_to_a_live_mbarrier_does_not_change_it(k: Kernel, engine: str) -> None:
    def body() -> None:
        k.init(0, 1)
        k.do("st.b32", k.base, k.c(0), immediate=4, tag="store")
        k.arrive(0)
        k.out(k.as_number(k.wait(0, 0, 0)))

    k.only(0, body)
    ran = launch(k, 32, engine)
    assert (ran.status, ran.codes, ran.result()[0]) == ("done", ["mbarrier-clobber"], 1)
    assert ran.finding("mbarrier-clobber").detail["at"] == BAR + 4


def test_m17_after_inval_an_operation_is_on_no_mbarrier(k: Kernel, engine: str) -> None:
    k.only(0, lambda: (k.init(0, 1), k.inval(0), k.arrive(0)))
    ran = launch(k, 32, engine)
    assert (ran.status, ran.codes) == ("fault", ["mbarrier-uninitialized"])
    found = ran.finding("mbarrier-uninitialized")
    assert (found.pc, found.other_pc) == (ran.pc["arrive"], ran.pc["inval"])
    assert found.detail == {"address": BAR, "ordered": 0, "dead": 1}


@pytest.mark.parametrize("what", ["arrive", "wait", "expect", "inval"])
def test_m18_memory_that_is_no_mbarrier_stops_the_launch(k: Kernel, engine: str, what: str) -> None:
    does = {
        "arrive": lambda: k.arrive(0), "wait": lambda: k.wait(0, 0), "expect": lambda: k.expect(0, 4),
        "inval": lambda: k.inval(0),
    }  # fmt: skip
    k.only(0, does[what])
    ran = launch(k, 32, engine)
    assert (ran.status, ran.codes) == ("fault", ["mbarrier-uninitialized"])
    assert ran.finding("mbarrier-uninitialized").detail == {"address": BAR, "ordered": 0, "dead": 0}


def test_m18_init_of_a_live_mbarrier_makes_a_new_one(k: Kernel, engine: str) -> None:
    k.only(0, lambda: (k.init(0, 2, tag="old"), k.arrive(0), k.init(0, 1), k.arrive(0, tag="last"), k.wait(0, 0)))
    ran = launch(k, 32, engine)
    assert (ran.status, ran.codes) == ("done", ["mbarrier-reinit"])
    found = ran.finding("mbarrier-reinit")
    assert (found.pc, found.other_pc, found.detail) == (ran.pc["init"], ran.pc["old"], {"address": BAR})


def test_init_by_all_lanes_is_one_value(k: Kernel, engine: str) -> None:
    k.init(0, 1)
    ran = launch(k, 32, engine)
    assert ran.codes == ["same-value-init"]
    found = ran.finding("same-value-init")
    assert (found.lanes, found.count, found.pc == found.other_pc) == (0xFFFFFFFE, 1, True)


def test_init_by_lanes_of_other_counts_is_a_second_one(k: Kernel, engine: str) -> None:
    k.do("mbarrier.init", k.base, k.emit("add.b32", k.emit("and.b32", k.lane, k.c(1)), k.c(1)))
    ran = launch(k, 32, engine)
    assert ran.codes == ["mbarrier-reinit", "same-value-init"]
    assert ran.finding("mbarrier-reinit").lanes == 0xAAAAAAAA


def test_init_of_two_warps_is_a_second_one(k: Kernel, engine: str) -> None:
    k.init(0, 1)
    ran = launch(k, 64, engine)
    assert ran.codes == ["mbarrier-reinit", "same-value-init"]


@pytest.mark.parametrize("syncs", [True, False])
def test_a_use_comes_after_each_lane_s_init(k: Kernel, engine: str, syncs: bool) -> None:
    k.init(0, 1)
    if syncs:
        k.do("syncwarp", k.c(0), k.c(0), k.c(0xFFFFFFFF))
    k.only(0, lambda: k.arrive(0))
    ran = launch(k, 32, engine)
    assert ran.codes == (["same-value-init"] if syncs else ["mbarrier-uninitialized", "same-value-init"])
    if not syncs:
        assert ran.finding("mbarrier-uninitialized").lanes == 1


def test_m19_an_address_that_is_no_multiple_of_8(k: Kernel, engine: str) -> None:
    k.only(0, lambda: k.do("mbarrier.init", k.base, k.c(1), immediate=4))
    ran = launch(k, 32, engine)
    assert (ran.status, ran.codes) == ("fault", ["misaligned"])
    assert ran.finding("misaligned").detail == {"address": BAR + 4, "alignment": 8, "size": 8, "segment": 1}


@pytest.mark.parametrize("where", ["global", "beyond"])
def test_m19_an_mbarrier_lies_in_shared_memory(k: Kernel, engine: str, where: str) -> None:
    base = k.a if where == "global" else k.at(1 << 20)
    k.only(0, lambda: k.do("mbarrier.init", base, k.c(1)))
    ran = launch(k, 32, engine)
    assert (ran.status, ran.codes) == ("fault", ["out-of-bounds"])
    assert ran.finding("out-of-bounds").detail["segment"] == (3 if where == "global" else 1)


def test_m21_a_phase_that_is_left_open_is_told(k: Kernel, engine: str) -> None:
    k.only(0, lambda: (k.init(0, 2), k.arrive(0)))
    ran = launch(k, 32, engine)
    assert (ran.status, ran.codes) == ("done", ["dangling-phase"])
    assert ran.finding("dangling-phase").detail == {"address": BAR, "phase": 0, "pending": 1, "expected": 2}


@pytest.mark.parametrize("relaxed", [False, True])
def test_m22_what_came_before_an_arrival_is_seen_after_the_wait(k: Kernel, engine: str, relaxed: bool) -> None:
    k.only(0, lambda: k.init(0, 32))
    k.sync()

    def reader() -> None:
        k.wait(0, 0)
        k.out(k.emit("ld.b32", k.emit("mad.b64", k.emit("cvt.b64.u32", k.lane), k.c(4, "b64"), k.at(DATA)), tag="get"))

    k.warps(lambda: (k.put(DATA, k.tid), k.arrive(0, flags=RELAXED if relaxed else 0)), reader)
    ran = launch(k, 64, engine)
    assert ran.result(0, 64)[32:] == list(range(32))
    if not relaxed:
        assert ran.is_clean()
        return
    assert ran.codes == ["race"]
    found = ran.finding("race")
    assert (found.pc, found.other_pc, found.lanes) == (ran.pc["get"], ran.pc["put"], 0xFFFFFFFF)
    assert (found.detail["other_lane"], found.detail["other_last"]) == (0, 0)


def test_an_arrival_gives_for_its_own_lane_alone(k: Kernel, engine: str) -> None:
    """One elected lane arrives for its warp, without a `syncwarp` before."""
    k.only(0, lambda: k.init(0, 1))
    k.sync()

    def reader() -> None:
        k.wait(0, 0)
        k.out(k.emit("ld.b32", k.emit("mad.b64", k.emit("cvt.b64.u32", k.lane), k.c(4, "b64"), k.at(DATA))))

    k.warps(lambda: (k.put(DATA, k.tid), k.only(0, lambda: k.arrive(0))), reader)
    ran = launch(k, 64, engine)
    assert ran.codes == ["race"]
    assert ran.finding("race").lanes == 0xFFFFFFFE


def test_a_wait_takes_for_its_own_lane_alone(k: Kernel, engine: str) -> None:
    k.only(0, lambda: k.init(0, 32))
    k.sync()

    def reader(synced: bool) -> None:
        k.only(32, lambda: k.wait(0, 0))
        if synced:
            k.do("syncwarp", k.c(0), k.c(0), k.c(0xFFFFFFFF))
        k.out(k.emit("ld.b32", k.emit("mad.b64", k.emit("cvt.b64.u32", k.lane), k.c(4, "b64"), k.at(DATA))))

    k.warps(lambda: (k.put(DATA, k.tid), k.arrive(0)), lambda: reader(synced=False))
    ran = launch(k, 64, engine)
    assert ran.codes == ["race"]
    assert ran.finding("race").lanes == 0xFFFFFFFE
    k = Kernel()
    k.only(0, lambda: k.init(0, 32))
    k.sync()
    k.warps(lambda: (k.put(DATA, k.tid), k.arrive(0)), lambda: reader(synced=True))
    assert launch(k, 64, engine).is_clean()


def test_lanes_of_one_warp_race_where_nothing_orders_them(k: Kernel, engine: str) -> None:
    k.only(0, lambda: k.init(0, 1))
    k.put(DATA, k.tid)
    back = k.emit("sub.b32", k.c(31), k.lane)
    k.out(k.emit("ld.b32", k.emit("mad.b64", k.emit("cvt.b64.u32", back), k.c(4, "b64"), k.at(DATA)), tag="get"))
    ran = launch(k, 32, engine)
    assert ran.codes == ["intra-warp-race"]
    assert ran.finding("intra-warp-race").detail["other_lane"] == 31
    assert launch(k, 32, engine, lockstep=True).is_clean()


def test_the_4097th_live_mbarrier_stops_the_launch(engine: str) -> None:
    k = Kernel(shared=8 * 4097)
    for number in range(129):
        at = k.emit("mad.b64", k.emit("cvt.b64.u32", k.tid), k.c(8, "b64"), k.at(256 * number))
        k.guard = k.lanes_below(1) if number == 128 else k.guard
        k.do("mbarrier.init", at, k.c(1))
    ran = launch(k, 32, engine)
    assert (ran.status, ran.codes) == ("trap", [])


# -- others -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("mask", [0xFFFFFFFF, 0xF0])
def test_l1_elect_names_the_lowest_lane_that_executes_it(k: Kernel, engine: str, mask: int) -> None:
    elected = k.graph.new("b32")

    def elect() -> None:
        from wsemu.frontend.assemble.graph import Instruction

        k.block.instructions.append(Instruction("elect.sync", (elected,), (k.c(0), k.c(0), k.c(mask))))
        k.out(elected)

    four = k.emit("setp.eq.b32", k.emit("and.b32", k.lane, k.c(0xF0)), k.c(0))
    k.when(k.emit("not.pred", four), lambda: None) if mask == 0xFFFFFFFF else None
    inside = k.emit("and.pred", k.emit("setp.ge.u32", k.lane, k.c(4)), k.lanes_below(8))
    if mask == 0xFFFFFFFF:
        elect()
    else:
        k.when(inside, elect)
    ran = launch(k, 32, engine)
    assert ran.codes == []
    assert ran.result() == ([0] * 32 if mask == 0xFFFFFFFF else [0] * 4 + [4] * 4 + [0] * 24)


def of_groups(k: Kernel, *parts: Callable[[], object]) -> None:
    """Warpgroup 0 does the first, warpgroup 1 the second."""
    for number, part in enumerate(parts):
        k.when(k.emit("setp.eq.b32", k.emit("shr.u32", k.tid, k.c(7)), k.c(number)), part)


def test_l2_registers_go_from_those_that_give_to_those_that_ask(k: Kernel, engine: str) -> None:
    of_groups(
        k,
        lambda: (k.do("setmaxnreg.inc", immediate=232, tag="inc"), k.out(k.c(1))),
        lambda: k.do("setmaxnreg.dec", immediate=104),
    )
    ran = launch(k, 256, engine, registers=168)
    assert ran.is_clean()
    assert ran.result()[0] == 1


def test_l2_a_giver_that_exits_does_not_give(k: Kernel, engine: str) -> None:
    k.warps(lambda: k.do("setmaxnreg.inc", immediate=176, tag="inc"), lambda: None)
    ran = launch(k, 64, engine, registers=168)
    assert (ran.status, ran.codes) == ("deadlock", [])
    assert ran.outcome.warps[0].standing == ((ran.pc["inc"], 0xFFFFFFFF),)


@pytest.mark.parametrize("registers", [0, 168])
@pytest.mark.parametrize(("warps", "other"), [(1, -1), (2, 96), (4, -1), (4, 96)])
def test_registers_are_of_a_whole_warpgroup(k: Kernel, engine: str, registers: int, warps: int, other: int) -> None:
    """PTX ISA, "setmaxnreg": the same one by all warps of a warpgroup; what an H100 does is warp by warp (L2)."""
    inside = k.emit("setp.lt.u32", k.tid, k.c(32 * warps))
    otherwise = (lambda: k.do("setmaxnreg.dec", immediate=other)) if other > 0 else None
    k.when(inside, lambda: k.do("setmaxnreg.dec", immediate=104, tag="dec"), otherwise)
    ran = launch(k, 256, engine, registers=registers)
    if warps == 4:
        assert ran.is_clean()
        return
    assert (ran.status, ran.codes) == ("done", ["setmaxnreg"])
    finding = ran.finding("setmaxnreg")
    assert (finding.detail["what"], finding.other_pc >= 0) == (3, other > 0)


@pytest.mark.parametrize("barrier", [False, True])
def test_a_warpgroup_synchronises_between_two_counts_of_registers(k: Kernel, engine: str, barrier: bool) -> None:
    k.do("setmaxnreg.dec", immediate=104)
    if barrier:
        k.sync()
    k.do("setmaxnreg.dec", immediate=96, tag="second")
    ran = launch(k, 128, engine, registers=168)
    assert ran.codes == ([] if barrier else ["setmaxnreg"])
    assert barrier or ran.finding("setmaxnreg").detail == {"count": 96, "what": 4, "present": 104}


@pytest.mark.parametrize("registers", [0, 168])
def test_a_second_count_that_changes_nothing_is_a_warning(k: Kernel, engine: str, registers: int) -> None:
    """As Triton's worker warps do between two partitions."""
    k.do("setmaxnreg.dec", immediate=104)
    k.do("setmaxnreg.dec", immediate=104, tag="second")
    ran = launch(k, 128, engine, registers=registers)
    assert ran.codes == ["setmaxnreg-repeated"]
    assert ran.finding("setmaxnreg-repeated").detail == {"count": 104}


@pytest.mark.parametrize(
    ("name", "count", "what"), [("inc", 20, 0), ("inc", 100, 0), ("dec", 264, 0), ("inc", 160, 1), ("dec", 176, 1)]
)
def test_a_count_of_registers_that_cannot_be(k: Kernel, engine: str, name: str, count: int, what: int) -> None:
    k.do(f"setmaxnreg.{name}", immediate=count)
    ran = launch(k, 32, engine, registers=168)
    assert (ran.status, ran.codes) == ("done", ["setmaxnreg"])
    assert ran.finding("setmaxnreg").detail == {"count": count, "what": what, "present": 168}


def test_registers_are_of_a_whole_warp(k: Kernel, engine: str) -> None:
    k.when(k.lanes_below(8), lambda: k.do("setmaxnreg.dec", immediate=24))
    ran = launch(k, 32, engine)
    assert (ran.status, ran.codes) == ("done", ["setmaxnreg"])
    assert ran.finding("setmaxnreg").detail == {"count": 24, "what": 2, "present": 0}


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_an_mbarrier_in_an_array_is_out_of_bounds_whatever_its_alignment(engine):
    text = """.version 8.0
    .target sm_90
    .address_size 64
    .visible .entry k(.param .u64 p) {
      .reg .b32 %r<2>; .reg .b64 %rd<3>;
      ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x;
      mad.wide.u32 %rd1, %r1, 4, %rd1;
      mbarrier.init.b64 [%rd1], 1;
      ret;
    }"""
    report = wsemu.check(wsemu.load_ptx(text)["k"], 1, 2, [np.zeros(4, np.int64)], engine=engine)
    assert [(finding.code, finding.count) for finding in report.findings] == [("out-of-bounds", 2)]
