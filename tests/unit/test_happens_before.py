"""Happens-before, rule by rule, on events made by hand."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import pytest

from wsemu.model.isa import ATOMIC, SEGMENT_SHIFT, SHARED, WRITE
from wsemu.model.outcome import Event, RawFinding, Trace
from wsemu.proof.happens_before import HappensBefore, are_ordered, chain, ordered_by_atomics

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wsemu.model.outcome import EventKind
    from wsemu.proof.happens_before import Epoch

COUNTED, WHOLE = 10, 20
"""instructions: a barrier with a count, and one of the whole CTA"""
FLAG, OTHER = (3 << SEGMENT_SHIFT), (3 << SEGMENT_SHIFT) + 4
IN_SHARED = SHARED << SEGMENT_SHIFT
FULL = 0xFFFFFFFF


class Run:
    """Events with their intervals, as an engine would log them; warps are of CTA 0 unless said."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.intervals: defaultdict[tuple[int, int], int] = defaultdict(lambda: 1)
        self.generations: defaultdict[tuple[int, int], int] = defaultdict(int)
        self.waiting: defaultdict[tuple[int, int], list[int]] = defaultdict(list)

    def log(self, kind: EventKind, warp: int, cta: int, pc: int, place: int, generation: int = -1) -> None:
        interval = 0 if kind == "complete" else self.intervals[cta, warp]
        self.events.append(Event(kind, cta, warp, interval, pc, place, generation))

    def arrive(self, warp: int, barrier: int = 1, cta: int = 0, pc: int = COUNTED) -> None:
        self.log("arrive", warp, cta, pc, barrier, self.generations[cta, barrier])
        self.intervals[cta, warp] += 1

    def sync(self, warp: int, barrier: int = 1, cta: int = 0, pc: int = COUNTED) -> None:
        self.log("sync", warp, cta, pc, barrier, self.generations[cta, barrier])
        self.waiting[cta, barrier].append(warp)

    def complete(self, warp: int, barrier: int = 1, cta: int = 0, pc: int = COUNTED) -> None:
        self.log("complete", warp, cta, pc, barrier, self.generations[cta, barrier])
        self.generations[cta, barrier] += 1
        for sync in self.waiting.pop((cta, barrier), ()):
            self.intervals[cta, sync] += 1

    def exit(self, warp: int, cta: int = 0) -> None:
        self.log("exit", warp, cta, 99, -1)

    def warp(self, warp: int, lanes: int, cta: int = 0) -> None:
        self.log("warp", warp, cta, 30, lanes)
        self.intervals[cta, warp] += 1

    def fence(self, warp: int, cta: int = 0, scope: EventKind = "fence.gpu") -> None:
        self.log(scope, warp, cta, 40, FULL)
        self.intervals[cta, warp] += 1

    def atomic(self, warp: int, cta: int = 0, place: int = FLAG) -> None:
        self.log("atomic", warp, cta, 50, place)

    def pass_on(self, giver: int, taker: int, barrier: int = 1) -> None:
        """The giver arrives, the taker syncs."""
        self.arrive(giver, barrier)
        self.sync(taker, barrier)
        self.complete(taker, barrier)

    def trace(self) -> Trace:
        return Trace(self.events)

    def order(self, atomics: bool = False) -> HappensBefore:
        order = HappensBefore(atomics, {WHOLE})
        for event in self.events:
            assert event.kind == "complete" or event.interval == order.interval((event.cta, event.warp))
            order.apply(event)
        return order


def knows(run: Run, taker: int, giver: int, interval: int = 1, atomics: bool = False) -> bool:
    """Whether the interval of warp `giver` happens before what warp `taker` does now, both in CTA 0."""
    return run.order(atomics).before((0, giver, interval), (0, taker))


# -- barriers ---------------------------------------------------------------------------------------------------------


def test_intervals_begin_with_1_and_end_with_each_operation() -> None:
    run = Run()
    assert run.order().interval((0, 0)) == 1
    run.arrive(0)
    assert run.order().interval((0, 0)) == 2
    run.sync(1)
    assert run.order().interval((0, 1)) == 1  # it waits
    run.complete(1)
    run.warp(1, FULL)
    run.fence(1)
    run.atomic(1)
    run.exit(1)
    assert run.order().interval((0, 1)) == 4


def test_program_order() -> None:
    run = Run()
    run.arrive(0)
    assert knows(run, 0, 0, 1)
    assert knows(run, 0, 0, 2)
    assert not knows(run, 0, 0, 3)


def test_an_arrive_happens_before_what_follows_a_sync() -> None:
    run = Run()
    assert not knows(run, 1, 0)
    run.pass_on(0, 1)
    assert knows(run, 1, 0, 1)
    assert not knows(run, 1, 0, 2)  # what the giver does after its arrive


def test_an_arrive_acquires_nothing() -> None:
    run = Run()
    run.pass_on(0, 1)
    assert not knows(run, 0, 1)


def test_syncs_know_each_other() -> None:
    run = Run()
    run.sync(0)
    run.sync(1)
    run.complete(1)
    assert knows(run, 0, 1)
    assert knows(run, 1, 0)


def test_an_operation_gives_nothing_before_its_generation_completes() -> None:
    run = Run()
    run.arrive(0)
    run.sync(1)
    assert not knows(run, 1, 0)


def test_a_generation_gives_nothing_to_the_next_one() -> None:
    run = Run()
    run.pass_on(0, 1)
    run.pass_on(2, 3)
    assert knows(run, 3, 2)
    assert not knows(run, 3, 0)


def test_barriers_are_told_apart_by_number_and_cta() -> None:
    run = Run()
    run.arrive(0, barrier=1)
    run.sync(1, barrier=2)
    run.complete(1, barrier=2)
    run.sync(1, cta=1)
    run.complete(1, cta=1)
    assert not knows(run, 1, 0)
    assert not run.order().before((0, 0, 1), (1, 1))


def test_order_is_transitive() -> None:
    run = Run()
    run.pass_on(0, 1)
    run.pass_on(1, 2, barrier=2)
    assert knows(run, 2, 0)
    assert not knows(run, 0, 2)


def test_what_is_learned_after_an_arrive_is_not_given_by_it() -> None:
    run = Run()
    run.arrive(1, barrier=2)
    run.pass_on(0, 1)
    run.sync(2, barrier=2)
    run.complete(2, barrier=2)
    assert knows(run, 2, 1)
    assert not knows(run, 2, 0)


def test_an_exit_gives_to_the_whole_cta() -> None:
    run = Run()
    run.exit(0)
    run.sync(1, barrier=0, pc=WHOLE)
    run.complete(1, barrier=0, pc=WHOLE)
    assert knows(run, 1, 0)


def test_an_exit_gives_nothing_to_a_generation_with_a_count() -> None:
    run = Run()
    run.exit(0)
    run.sync(1)
    run.sync(2)
    run.complete(2)
    assert not knows(run, 1, 0)


def test_an_exit_that_completes_a_generation_gives_to_it() -> None:
    run = Run()
    run.sync(1, barrier=0)
    run.exit(0)
    run.complete(0, barrier=0, pc=99)
    assert knows(run, 1, 0)


def test_a_completing_warp_that_lives_is_no_exit() -> None:
    run = Run()
    run.pass_on(1, 0)
    run.exit(0)  # knows warp 1, which goes on
    run.arrive(2)
    run.sync(1)
    run.complete(1)
    assert not knows(run, 1, 0, 2)


# -- lanes ------------------------------------------------------------------------------------------------------------


def test_a_sync_of_all_lanes_orders_them() -> None:
    run = Run()
    assert not run.order().lanes_happen_before((0, 0), 1, 3, 3, lane=4)
    assert run.order().lanes_happen_before((0, 0), 1, 4, 4, lane=4)
    run.warp(0, FULL)
    assert run.order().lanes_happen_before((0, 0), 1, 0, 31, lane=4)
    assert not run.order().lanes_happen_before((0, 0), 2, 3, 3, lane=4)


def test_only_members_are_ordered() -> None:
    run = Run()
    run.warp(0, 0x00FF)
    order = run.order()
    assert order.lanes_happen_before((0, 0), 1, 0, 7, lane=3)
    assert not order.lanes_happen_before((0, 0), 1, 0, 7, lane=8)
    assert not order.lanes_happen_before((0, 0), 1, 0, 8, lane=3)
    assert not order.lanes_happen_before((0, 1), 1, 0, 7, lane=3)  # another warp


def test_lanes_know_what_the_others_knew() -> None:
    run = Run()
    run.warp(0, 0b0011)
    run.warp(0, 0b0110)
    order = run.order()
    assert order.lanes_happen_before((0, 0), 1, 0, 0, lane=2)
    assert not order.lanes_happen_before((0, 0), 2, 0, 0, lane=2)
    assert not order.lanes_happen_before((0, 0), 1, 2, 2, lane=0)


def test_a_released_sync_orders_all_lanes_and_an_arrive_none() -> None:
    run = Run()
    run.pass_on(0, 1)
    assert run.order().lanes_happen_before((0, 1), 1, 0, 31, lane=5)
    assert not run.order().lanes_happen_before((0, 0), 1, 4, 4, lane=5)


def test_all_lanes_of_a_smaller_warp_meet() -> None:
    order = HappensBefore(False)
    order.set_lanes((0, 0), 0xFFFF)
    order.apply(Event("warp", 0, 0, 1, 30, 0xFFFF))
    assert order.lanes_happen_before((0, 0), 1, 0, 31, lane=3)


def test_a_lane_that_an_operation_does_not_name_has_not_met_the_others() -> None:
    order = HappensBefore(False)
    order.apply(Event("warp", 0, 0, 1, 30, 0x7FFFFFFF))
    assert order.lanes_happen_before((0, 0), 1, 0, 30, lane=3)
    assert not order.lanes_happen_before((0, 0), 1, 31, 31, lane=3)


# -- atomics and fences -----------------------------------------------------------------------------------------------


def flag(
    scope: EventKind = "fence.gpu", *, release: bool = True, acquire: bool = True, ctas: tuple[int, int] = (0, 1)
) -> Run:
    """Warp 0 of one CTA writes, fences, raises a flag; warp 1 of another one sees it, fences, reads."""
    run = Run()
    if release:
        run.fence(0, ctas[0], scope)
    run.atomic(0, ctas[0])
    run.atomic(1, ctas[1])
    if acquire:
        run.fence(1, ctas[1], scope)
    return run


def passed(run: Run, ctas: tuple[int, int] = (0, 1), interval: int = 1, atomics: bool = True) -> bool:
    return run.order(atomics).before((ctas[0], 0, interval), (ctas[1], 1))


def test_a_flag_with_fences_on_both_sides_orders_ctas() -> None:
    assert passed(flag())
    assert passed(flag("fence.sys"))
    assert not passed(flag(), interval=2)  # after the fence of the one who gives


def test_a_flag_needs_both_fences() -> None:
    assert not passed(flag(release=False))
    assert not passed(flag(acquire=False))
    assert not passed(flag(release=False, acquire=False))


def test_engines_that_detect_do_not_look_at_atomics() -> None:
    assert not passed(flag(), atomics=False)


def test_a_fence_of_cta_scope_orders_its_cta_alone() -> None:
    assert not passed(flag("fence.cta"))
    assert passed(flag("fence.cta", ctas=(1, 1)), ctas=(1, 1))


def test_both_fences_must_reach_across_ctas() -> None:
    for first, second in (("fence.cta", "fence.gpu"), ("fence.gpu", "fence.cta")):
        run = Run()
        run.fence(0, 0, first)  # type: ignore[arg-type]
        run.atomic(0, 0)
        run.atomic(1, 1)
        run.fence(1, 1, second)  # type: ignore[arg-type]
        assert not passed(run)


def test_the_fence_must_come_after_the_atomic_that_sees_the_flag() -> None:
    run = Run()
    run.fence(0)
    run.atomic(0)
    run.fence(1, 1)
    run.atomic(1, 1)
    assert not passed(run)


def test_an_atomic_before_the_flag_is_raised_sees_nothing() -> None:
    run = Run()
    run.atomic(1, 1)
    run.fence(0)
    run.atomic(0)
    run.fence(1, 1)
    assert not passed(run)


def test_another_location_orders_nothing() -> None:
    run = Run()
    run.fence(0)
    run.atomic(0)
    run.atomic(1, 1, OTHER)
    run.fence(1, 1)
    assert not passed(run)


def test_each_cta_has_its_own_shared_memory() -> None:
    for cta in (0, 1):
        run = Run()
        run.fence(0)
        run.atomic(0, 0, IN_SHARED)
        run.atomic(1, cta, IN_SHARED)
        run.fence(1, cta)
        assert run.order(True).before((0, 0, 1), (cta, 1)) == (cta == 0)


def test_a_release_is_as_of_the_last_fence() -> None:
    run = Run()
    run.fence(0)
    run.warp(0, FULL)
    run.atomic(0)
    run.atomic(1, 1)
    run.fence(1, 1)
    assert passed(run, interval=1)
    assert not passed(run, interval=2)


def test_a_location_keeps_what_earlier_atomics_gave() -> None:
    run = Run()
    for cta in range(3):  # each block counts itself in; the last one sees all
        run.fence(0, cta)
        run.atomic(0, cta)
    run.fence(0, 2)
    order = run.order(True)
    assert order.before((0, 0, 1), (2, 0))
    assert order.before((1, 0, 1), (2, 0))
    assert not order.before((2, 0, 1), (0, 0))


def test_two_warps_of_a_cta_give_to_one_location() -> None:
    run = Run()
    for warp in (0, 1):
        run.fence(warp)
        run.atomic(warp)
    run.atomic(1, 1)
    run.fence(1, 1)
    assert run.order(True).before((0, 0, 1), (1, 1))
    assert run.order(True).before((0, 1, 1), (1, 1))


def test_order_passes_through_barriers_and_flags() -> None:
    run = Run()
    run.pass_on(1, 0)
    run.fence(0)
    run.atomic(0)
    run.atomic(1, 1)
    run.fence(1, 1)
    run.arrive(1, cta=1)
    run.sync(2, cta=1)
    run.complete(2, cta=1)
    assert run.order(True).before((0, 1, 1), (1, 2))


# -- whole traces -----------------------------------------------------------------------------------------------------


def test_many_pairs_in_one_pass() -> None:
    run = flag()
    run.pass_on(3, 4)
    pairs: list[tuple[Epoch, Epoch]] = [
        ((0, 0, 1), (1, 1, 2)),
        ((0, 0, 1), (1, 1, 1)),
        ((0, 3, 1), (0, 4, 2)),
        ((0, 3, 2), (0, 4, 2)),
        ((0, 0, 1), (1, 1, 7)),  # never reached
    ]
    assert are_ordered(run.trace(), pairs) == [True, False, True, False, False]
    assert are_ordered(run.trace(), pairs, atomics=False) == [False, False, True, False, False]


def test_clocks_grow_with_the_questions_and_not_with_the_warps() -> None:
    run = Run()
    for cta in range(50):
        run.fence(0, cta)
        run.atomic(0, cta)
        run.fence(0, cta)
    order = HappensBefore(True)
    assert are_ordered(run.trace(), [((0, 0, 1), (49, 0, 3)), ((7, 0, 3), (49, 0, 3))], order=order) == [True, False]
    assert max(len(order.clock((cta, 0))) for cta in range(50)) <= 3


def test_findings_that_atomics_order() -> None:
    def race(interval: int, other_interval: int, code: str = "race") -> RawFinding:
        detail = {"interval": interval, "other_interval": other_interval, "other_cta": 0}
        return RawFinding(code, 5, 1, 1, 1, 6, 0, detail)

    settled, early, late, lanes = race(2, 1), race(1, 1), race(2, 2), race(2, 1, "intra-warp-race")
    bounds = RawFinding("out-of-bounds", 5, 1, 1)
    assert ordered_by_atomics(flag().trace(), [settled, early, late, lanes, bounds]) == [settled]
    assert ordered_by_atomics(flag(release=False).trace(), [settled]) == []


def reset(trace: Run) -> list[RawFinding]:
    """Those of one race that the atomics order: CTA 0 counts on FLAG, and warp 1 of CTA 1 writes it plainly."""
    detail = {"interval": trace.intervals[1, 1], "other_interval": 1, "other_cta": 0, "other_kind": ATOMIC}
    trace.log("access", 1, 1, 70, FLAG)
    raw = RawFinding("race", 70, 1, 1, 1, 50, 0, detail | {"address": FLAG})
    return ordered_by_atomics(trace.trace(), [raw])


def test_what_an_atomic_saw_comes_before_what_follows_it() -> None:
    run = Run()
    run.atomic(0)
    assert not reset(run)  # nothing told warp 1
    run = Run()
    run.atomic(0)
    run.atomic(1, 1, OTHER)
    assert not reset(run)
    run = Run()
    run.atomic(0)
    run.atomic(1, 1)
    assert reset(run)
    run = Run()
    run.atomic(1, 1)
    run.atomic(0)
    assert not reset(run)  # warp 1 was the earlier one


@pytest.mark.parametrize(("sees", "is_ordered"), [(FLAG, True), (OTHER, False), (None, False)])
def test_an_atomic_of_another_width_is_ordered_by_what_its_warp_saw_before_and_not_by_what_it_sees(
    sees: int | None, is_ordered: bool
) -> None:
    run = Run()
    run.atomic(0)
    if sees is not None:
        run.atomic(1, 1, sees)
    run.log("atomic", 1, 1, 70, FLAG)
    detail = {"interval": 1, "other_interval": 1, "other_cta": 0, "kind": ATOMIC, "other_kind": ATOMIC, "address": FLAG}
    found = ordered_by_atomics(run.trace(), [RawFinding("race", 70, 1, 1, 1, 50, 0, detail)])
    assert bool(found) == is_ordered


def test_what_an_atomic_saw_is_handed_on_by_barriers() -> None:
    run = Run()
    run.atomic(0)
    run.atomic(0, 1)
    assert not reset(run)
    run = Run()
    run.atomic(0)
    run.atomic(0, 1)
    run.arrive(0, cta=1)
    run.sync(1, cta=1)
    run.complete(1, cta=1)
    assert reset(run)


def test_an_atomic_tells_of_no_other_accesses() -> None:
    run = Run()
    run.atomic(0)
    run.atomic(1, 1)
    detail = {"interval": 1, "other_interval": 1, "other_cta": 0, "other_kind": WRITE, "address": OTHER}
    assert not ordered_by_atomics(run.trace(), [RawFinding("race", 70, 1, 1, 1, 60, 0, detail)])


def test_chain_tells_what_there_is_and_what_is_missing() -> None:
    """Warp 1 fills a buffer for warp 0 twice, without waiting until it is empty."""
    run = Run()
    run.arrive(1, barrier=2)
    run.sync(0, barrier=2)
    run.complete(0, barrier=2)  # warp 0 reads in its interval 2, warp 1 writes again in its interval 2
    run.arrive(1, barrier=2)
    run.sync(0, barrier=2)
    run.complete(0, barrier=2)
    found = chain(run.trace(), (0, 0, 2), (0, 1, 2))
    assert found.forth is None
    assert found.back is not None
    assert (found.back.given, found.back.taken) == (run.events[0], run.events[1])
    assert found.following == run.events[4]


def test_chain_tells_the_last_edge_before_the_later_access() -> None:
    run = Run()
    run.pass_on(0, 1)
    run.pass_on(0, 2, barrier=2)
    run.pass_on(2, 1, barrier=3)  # warp 1 learns of warp 0 again, through warp 2
    run.pass_on(0, 1)
    found = chain(run.trace(), (0, 0, 3), (0, 1, 3))
    assert found.forth is not None
    assert found.forth.given == only(e for e in run.events if e.place == 2 and e.kind == "arrive")
    assert found.forth.taken == only(e for e in run.events if e.place == 3 and e.kind == "sync")
    assert found.back is None
    assert found.following is not None
    assert (found.following.kind, found.following.place, found.following.generation) == ("arrive", 1, 1)


def test_chain_tells_edges_of_flags() -> None:
    run = flag(ctas=(0, 0))
    run.fence(0)
    found = chain(run.trace(), (0, 0, 2), (0, 1, 2))
    assert found.forth is not None
    assert (found.forth.given.kind, found.forth.taken.kind) == ("fence.gpu", "fence.gpu")
    assert chain(run.trace(), (0, 0, 2), (0, 1, 2), atomics=False).forth is None


def test_chain_without_any_operation() -> None:
    assert chain(Trace(), (0, 0, 1), (0, 1, 1)) == (None, None, None)


def only(events: Iterable[Event]) -> Event:
    (event,) = events
    return event
