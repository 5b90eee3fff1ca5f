"""Launches that atomics steer: a correct kernel of each kind is verified, and what is broken in it is found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import wsemu
from tests.unit import steering_kernels as kernels
from wsemu import cuda, ptx
from wsemu.launch.explore.sessions import make_session
from wsemu.launch.running import bind_launch
from wsemu.model.isa import ATOMICS, NAMES
from wsemu.model.launch_shape import configure
from wsemu.model.settings import Settings

if TYPE_CHECKING:
    pass

RACE, STUCK, OUT = "race", "deadlock", "out-of-bounds"
BROKEN: dict[str, list[tuple[dict[str, Any], str]]] = {
    "last_block": [({"FENCE_BEFORE": False}, RACE), ({"FENCE_AFTER": False}, RACE), ({"OFF": 1}, RACE)],
    "spin_lock": [({"FENCE_BEFORE": False}, RACE), ({"FENCE_AFTER": False}, RACE), ({"UNLOCKS": False}, STUCK)],
    "ticket_lock": [({"FENCE_BEFORE": False}, RACE), ({"UNLOCKS": False}, STUCK), ({"OFF": 1}, STUCK)],
    "work_queue": [({"OFF": 1}, OUT), ({"SPREAD": 2}, RACE)],
    "tile_scheduler": [({"OFF": 1}, OUT), ({"SPREAD": 2}, RACE), ({"SYNCS": False}, RACE)],
    "stream_k": [({"FENCE_BEFORE": False}, RACE), ({"FENCE_AFTER": False}, RACE), ({"OFF": 1}, OUT)],
    "split_k": [({"FENCE_BEFORE": False}, RACE), ({"FENCE_AFTER": False}, RACE), ({"OFF": 1}, STUCK)],
    "look_back": [({"FENCE_BEFORE": False}, RACE), ({"FENCE_AFTER": False}, RACE), ({"OFF": -1}, OUT)],
    "checked_twice": [({"FENCE_BEFORE": False}, RACE), ({"FENCE_AFTER": False}, RACE), ({"UNLOCKS": False}, STUCK)],
}
"""kernel -> what is changed in it, and the code of what is found then"""
CTAS = 3


def report(name: str, ctas: int = CTAS, engine: Any = "vm", **parts: Any) -> wsemu.Report:
    kernel = kernels.variant(getattr(kernels, name), **parts)
    return wsemu.check(kernel, ctas, 64, kernels.arguments(name, ctas), engine=engine)


@pytest.mark.parametrize("name", BROKEN)
def test_a_correct_kernel_is_verified(name: str) -> None:
    found = report(name)
    assert found.verdict == "verified", found.notes
    assert "in all orders of the atomics that steer it" in found.proof


@pytest.mark.parametrize(
    ("name", "parts", "code"), [(name, parts, code) for name, cases in BROKEN.items() for parts, code in cases]
)
def test_what_is_broken_is_found(name: str, parts: dict[str, Any], code: str) -> None:
    found = report(name, **parts)
    assert found.verdict == "failed"
    assert code in {finding.code for finding in found.findings}


@pytest.mark.parametrize(("name", "parts"), [
    ("last_block", {}), ("spin_lock", {}), ("spin_lock", {"UNLOCKS": False}), ("ticket_lock", {"OFF": 1}),
    ("stream_k", {}), ("work_queue", {"SPREAD": 2}), ("look_back", {}), ("split_k", {}),
    ("checked_twice", {"CHECKS_AGAIN": False}),
])  # fmt: skip
def test_both_engines_say_the_same(name: str, parts: dict[str, Any]) -> None:
    untold = {"seconds", "counters"}  # where a run waits for ever, they are those of a part of it
    one, other = (report(name, 2, engine, **parts).model_dump(exclude=untold) for engine in ("vm", "reference"))
    assert one == other


def test_the_result_is_that_of_a_run() -> None:
    arguments = kernels.arguments("stream_k", 2)
    wsemu.check(kernels.variant(kernels.stream_k), 2, 64, arguments)
    assert arguments[-1].tolist() == [1 + t for t in range(64)]
    waits = kernels.arguments("split_k", 3)
    wsemu.check(kernels.variant(kernels.split_k), 3, 64, waits)
    assert waits[-1].tolist() == [6] * 64


def test_a_deadlock_says_who_could_write_there() -> None:
    (finding,) = report("spin_lock", UNLOCKS=False).findings
    assert finding.message == "warp 0 of CTA (1, 0, 0) waits forever for `mutex[0]` to change"
    assert "all others have ended" in "\n".join(finding.notes) or "wait themselves" in "\n".join(finding.notes)
    assert "in this order of atomics" in "\n".join(finding.notes)
    assert "waits for `mutex[0]`, which is 1, to change" in "\n".join(finding.notes)


@cuda.jit
def all_but_one_meet(count, y):
    if cuda.blockIdx.x != 1:
        if cuda.threadIdx.x == 0:
            cuda.threadfence()
            cuda.atomic.add(count, 0, 1)
            while cuda.atomic.add(count, 0, 0) < cuda.gridDim.x:
                pass
            cuda.threadfence()
        cuda.syncthreads()
    y[cuda.grid(1)] = 1


@cuda.jit
def the_second_waits(count, y):
    if cuda.threadIdx.x == 0:
        came = cuda.atomic.add(count, 0, 1)
        if came == 1 and cuda.blockIdx.x == 0:
            while cuda.atomic.add(count, 0, 0) < 7:
                pass


@pytest.mark.parametrize("engine", ["vm", "reference"])
@pytest.mark.parametrize(("kernel", "holds"), [
    (all_but_one_meet, "every schedule"), (the_second_waits, "some schedules"),
])  # fmt: skip
def test_a_deadlock_is_of_every_schedule_where_no_order_ends(kernel: Any, holds: str, engine: Any) -> None:
    found = wsemu.check(kernel, 4, 64, (kernels.ints(1), kernels.ints(256)), engine=engine)
    (finding,) = found.errors
    assert (found.verdict, finding.code, finding.holds_in) == ("failed", STUCK, holds)
    if kernel is all_but_one_meet:
        assert "waits for `count[0]`, which is 3, to change" in finding.notes[0]


@cuda.jit
def nobody_sets(flag, y):
    if cuda.threadIdx.x == 0:
        cuda.atomic.add(flag, 1, 1)
        while cuda.atomic.add(flag, 0, 0) == 0:
            pass


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_a_deadlock_of_few_threads_is_of_every_schedule_too(engine: Any) -> None:
    found = wsemu.check(nobody_sets, 2, 32, (kernels.ints(2), kernels.ints(1)), engine=engine)
    (finding,) = found.errors
    assert (finding.code, finding.holds_in) == (STUCK, "every schedule")


# -- what is left open ------------------------------------------------------------------------------------------------
@cuda.jit
def both_store_and_look(x, y, seen):
    i = cuda.blockIdx.x
    if cuda.threadIdx.x == 0:
        if i == 0:
            cuda.atomic.exch(x, 0, 1)
            seen[0] = cuda.atomic.add(y, 0, 0)
            if seen[0] == 1:
                x[1] = 1
        else:
            cuda.atomic.exch(y, 0, 1)
            seen[1] = cuda.atomic.add(x, 0, 0)
            if seen[1] == 1:
                y[1] = 1


def test_more_than_interleavings_is_not_decided() -> None:
    """Store buffering: both may see nothing, which no order of the four shows."""
    found = wsemu.check(both_store_and_look, 2, 32, (kernels.ints(2), kernels.ints(2), kernels.ints(2)))
    assert found.verdict == "incomplete"
    assert any("observed in another order than they are performed" in note for note in found.notes)


@cuda.jit
def lanes_take_slots(count, y):
    slot = cuda.atomic.add(count, 0, 1)
    if slot < 8:
        y[slot] = 1


@cuda.jit
def who_comes_first_stores_first(turn, x, y, seen):
    if cuda.threadIdx.x == 0:
        if cuda.atomic.add(turn, 0, 1) == 0:
            cuda.threadfence()
            cuda.atomic.exch(x, 0, 1)
            if cuda.atomic.add(y, 0, 0) == 0:
                seen[0] = 1
        else:
            cuda.threadfence()
            cuda.atomic.exch(y, 0, 1)
            if cuda.atomic.add(x, 0, 0) == 0:
                seen[0] = 2


def test_more_than_interleavings_is_not_decided_where_ctas_stand_for_each_other() -> None:
    """The same between two CTAs that begin alike: who does which half is no matter, that two do is."""
    found = wsemu.check(who_comes_first_stores_first, 2, 32, tuple(kernels.ints(1) for _ in range(4)))
    assert found.verdict == "incomplete", found.notes


@cuda.jit
def lanes_leave_their_names(count, y):
    slot, other = cuda.atomic.add(count, 0, 1), cuda.atomic.add(count, 1, 1)
    if other < 8:
        y[slot] = cuda.threadIdx.x


def test_lanes_that_come_in_too_many_orders_are_not_decided() -> None:
    assert wsemu.check(lanes_leave_their_names, 1, 32, (kernels.ints(2), kernels.ints(32))).verdict == "incomplete"


def test_lanes_that_begin_alike_are_one() -> None:
    assert wsemu.check(lanes_take_slots, 1, 12, (kernels.ints(1), kernels.ints(8))).verdict == "verified"


@cuda.jit
def lanes_of_a_warp_pass_a_lock_on(mutex, count):
    while cuda.atomic.cas(mutex, 0, 0, 1) != 0:
        pass
    count[0] += 1
    cuda.atomic.exch(mutex, 0, 0)


def test_lanes_that_wait_for_their_warp_are_not_called_a_deadlock() -> None:
    """The lane that has the lock may stand at the join of the others: on sm_70 and later it goes on."""
    small = wsemu.check(lanes_of_a_warp_pass_a_lock_on, 1, 2, (kernels.ints(1), kernels.ints(1)), budget=200_000)
    assert "deadlock" not in {finding.code for finding in small.findings}
    assert small.verdict != "verified"


def test_lanes_in_lockstep_wait_for_ever_for_one_of_their_warp() -> None:
    """Before sm_70 the lane that has the lock stands where the others have to come, which spin."""
    arguments = kernels.ints(1), kernels.ints(1)
    found = wsemu.check(lanes_of_a_warp_pass_a_lock_on, 1, 4, arguments, lockstep=True, budget=200_000)
    assert found.verdict == "failed"
    assert [finding.code for finding in found.findings] == ["deadlock"]


def test_ctas_that_differ_in_their_number_alone_count_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a fence tells the cluster of a CTA is no difference where no scope is of clusters."""
    monkeypatch.setattr("wsemu.launch.explore.search.MOST_STEPS", 200)
    assert report("checked_twice", 4).verdict == "verified"


@cuda.jit
def fence_of_all_then_one_tells(data, flag, y):
    t = cuda.threadIdx.x
    if cuda.blockIdx.x == 0:
        data[t] = t
        cuda.threadfence()
        cuda.syncthreads()
        if t == 0:
            cuda.atomic.exch(flag, 0, 1)
    else:
        if t == 0:
            while cuda.atomic.add(flag, 0, 0) == 0:
                pass
        cuda.syncthreads()
        cuda.threadfence()
        y[t] = data[t]


def test_sequential_fences_order_what_barriers_bring_to_an_atomic() -> None:
    """The fence of each thread comes before that of the reader: the other way round the flag could not be seen."""
    found = wsemu.check(fence_of_all_then_one_tells, 2, 64, (kernels.ints(64), kernels.ints(1), kernels.ints(64)))
    assert found.verdict == "verified", found.notes


def test_an_array_that_orders_leave_different_is_told() -> None:
    @cuda.jit
    def last_one_stays(x, y):
        if cuda.threadIdx.x == 0 and cuda.atomic.exch(x, 0, cuda.blockIdx.x + 1) == 0:
            y[0] = 1

    found = wsemu.check(last_one_stays, 2, 32, (kernels.ints(1), kernels.ints(1)))
    assert found.verdict == "verified", found.notes
    assert any("2 results are possible" in note for note in found.notes)


def test_a_histogram_is_not_tried_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one run decides costs no more than the run."""
    from wsemu.launch.explore import decide

    def fail(*_: Any, **__: Any) -> None:
        raise AssertionError("orders were tried")

    monkeypatch.setattr(decide, "decide", fail)

    @cuda.jit
    def histogram(x, bins):
        cuda.atomic.add(bins, x[cuda.grid(1)] % 4, 1)

    assert wsemu.check(histogram, 4, 64, (np.arange(256), kernels.ints(4))).verdict == "verified"


# -- more orders than are tried ----------------------------------------------------------------------------------------
@cuda.jit
def first_warp_knows_its_place(out, count):
    """Right in the order of the CTAs alone: the others get their place from lane 0."""
    base = 0
    if cuda.laneid == 0:
        base = cuda.atomic.add(count, 0, 32)
    if cuda.grid(1) >= 32:
        base = cuda.shfl_sync(0xFFFFFFFF, base, 0)
    out[base + cuda.laneid] = cuda.grid(1)


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_an_order_that_fails_is_looked_for_where_not_all_are_tried(engine, monkeypatch):
    monkeypatch.setattr("wsemu.launch.explore.search.MOST_STEPS", 40)
    arguments = np.zeros(264, np.int32), np.zeros(1, np.int32)
    report = wsemu.check(first_warp_knows_its_place, 4, 64, arguments, engine=engine)
    assert report.verdict == "failed"
    assert [finding.code for finding in report.findings] == ["race"]


# -- going back --------------------------------------------------------------------------------------------------------
@cuda.jit
def writes_where_the_count_says(count, y):
    if cuda.threadIdx.x == 0 and cuda.atomic.add(count, 0, 1) == 1:
        y[count.shape[0] + 3] = 1


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_what_was_found_is_found_again_from_where_it_was_put_back_to(engine: Any) -> None:
    """An order is gone twice where there is news: an error on it must not count as known by then."""
    settings = Settings(engine=engine)
    arguments = (kernels.ints(1) + 1, kernels.ints(2))
    bound, _ = bind_launch(writes_where_the_count_says, configure(1, 32), arguments, settings)
    atomic = [pc for pc, fields in enumerate(bound.program.code.tolist()) if NAMES[fields[0]] in ATOMICS]
    session = make_session(bound, frozenset(atomic), frozenset())
    for _ in range(2):
        session.start()
        (ask,) = session.asks(0)
        assert [raw.code for raw in session.go(ask).findings] == ["out-of-bounds"]
    session.close()


@cuda.jit
def reads_what_nobody_wrote(count, y):
    own = cuda.shared.array(2, np.int32)
    warp = cuda.threadIdx.x // 32
    if cuda.laneid == 0:
        cuda.atomic.add(count, 0, 1)
        if warp == 0:
            y[warp] = own[0]
        else:
            y[warp] = own[1]


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_what_a_cta_has_found_is_what_it_found_on_its_way(engine: Any) -> None:
    """One that is put back has found what it had, not what others found in the meantime; nothing is dropped as more
    accesses are let go."""
    bound, _ = bind_launch(reads_what_nobody_wrote, configure(1, 64), (kernels.ints(1), kernels.ints(2)),
                           Settings(engine=engine))  # fmt: skip
    atomic = [pc for pc, fields in enumerate(bound.program.code.tolist()) if NAMES[fields[0]] in ATOMICS]
    session = make_session(bound, frozenset(atomic), frozenset())
    session.start()
    start, memory = session.save(0), session.save_memory()
    by_warp = session.asks(0)

    def gone(saved: Any, warp: int) -> tuple[list[int], Any]:
        session.load(0, saved)
        session.load_memory(memory)
        return [raw.warp for raw in session.go(by_warp[warp]).findings], session.save(0)

    (first, behind_first), (other, _) = gone(start, 0), gone(start, 1)
    assert (first, other) == ([0], [1])
    assert gone(behind_first, 1)[0] == [0, 1]
    assert gone(start, 0)[0] == [0]
    session.close()


@cuda.jit
def left_open_out_of_turn(count: Any, y: Any) -> None:
    """Warp 0 leaves a barrier open if it draws last, which the initial run does not show."""
    t = cuda.threadIdx.x
    ticket = cuda.shfl_sync(0xFFFFFFFF, cuda.atomic.add(count, 0, 1) if t % 32 == 0 else 0, 0)
    if t < 32 and ticket == 1:
        ptx.barrier_arrive(1, 64)
    y[t] = 0


@cuda.jit
def left_open_by_the_last(count: Any, y: Any) -> None:
    """Whoever draws last leaves a barrier open."""
    t = cuda.threadIdx.x
    ticket = cuda.shfl_sync(0xFFFFFFFF, cuda.atomic.add(count, 0, 1) if t % 32 == 0 else 0, 0)
    if ticket == 1:
        ptx.barrier_arrive(1, 64)
    y[t] = 0


@pytest.mark.parametrize("engine", ["vm", "reference"])
@pytest.mark.parametrize("kernel", [left_open_out_of_turn, left_open_by_the_last])
def test_a_warning_of_an_order_is_reported_once_and_is_no_error(kernel: Any, engine: Any) -> None:
    found = wsemu.check(kernel, 1, 64, (np.zeros(1, np.int32), np.zeros(64, np.int32)), engine=engine)
    assert (found.verdict, [finding.code for finding in found.findings]) == ("verified", ["dangling-arrive"])
