"""Lanes of one warp that atomics and fences order, or do not: `intra-warp-race` in the run that is made first."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

import wsemu
from wsemu import cuda
from wsemu.model.isa import OPCODE, WRITE
from wsemu.model.outcome import Event, RawFinding, Trace
from wsemu.proof.lane_edges import lanes_ordered_by_atomics

ENGINES = ("vm", "reference")


@cuda.jit
def lock(data, word, out, fences):
    done = False
    while not done:
        if cuda.atomic.cas(word, 0, 0, 1) == 0:
            if fences & 1:
                cuda.threadfence()
            data[0] += 1
            if fences & 2:
                cuda.threadfence()
            cuda.atomic.exch(word, 0, 0)
            done = True


@cuda.jit
def last_one_reads_all(data, word, out, fences):
    data[cuda.threadIdx.x] = 1
    if fences & 1:
        cuda.threadfence()
    count = cuda.atomic.add(word, 0, 1)
    if fences & 2:
        cuda.threadfence()
    if count == cuda.blockDim.x - 1:
        for i in range(cuda.blockDim.x):
            out[0] += data[i]


@cuda.jit
def last_one_resets(data, word, out, fences):
    if cuda.atomic.add(word, 0, 1) == cuda.blockDim.x - 1:
        word[0] = 0


@cuda.jit
def one_lane_alone_releases(data, word, out, fences):
    i = cuda.threadIdx.x
    data[i] = 1
    if i == 0:
        cuda.threadfence()
    count = cuda.atomic.add(word, 0, 1)
    cuda.threadfence()
    if count == 1:
        out[0] = data[1 - i]


@cuda.jit
def nothing_hangs_on_the_atomic(data, word, out, fences):
    i = cuda.threadIdx.x
    data[i] = 1
    cuda.threadfence()
    cuda.atomic.add(word, 0, 1)
    cuda.threadfence()
    out[i] = data[0]


def checked(kernel: Any, threads: int, fences: int, engine: Any) -> wsemu.Report:
    arrays = [np.zeros(64, np.int32) for _ in range(3)]
    return wsemu.check(kernel, 1, threads, (*arrays, fences), engine=engine)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("kernel", "threads"), [(lock, 2), (lock, 34), (last_one_reads_all, 3), (last_one_resets, 3)])
def test_lanes_that_fences_order_are_no_error(kernel, threads, engine):
    report = checked(kernel, threads, 3, engine)
    assert report.verdict != "failed", report


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("fences", [0, 1, 2])
@pytest.mark.parametrize("kernel", [lock, last_one_reads_all])
def test_a_race_stays_where_a_fence_is_missing(kernel, fences, engine):
    report = checked(kernel, 3, fences, engine)
    assert report.verdict == "failed"
    assert "intra-warp-race" in {finding.code for finding in report.findings}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_race_stays_where_lanes_do_the_same_whatever_an_atomic_returns(engine):
    assert checked(nothing_hangs_on_the_atomic, 32, 3, engine).verdict == "failed"


@pytest.mark.parametrize("engine", ENGINES)
def test_another_order_races_inside_the_warp(engine):
    report = checked(one_lane_alone_releases, 2, 3, engine)
    assert [finding.code for finding in report.findings if finding.severity == "error"] == ["intra-warp-race"]
    assert report.findings[0].holds_in == "some schedules"


# -- who comes to know, event by event --------------------------------------------------------------------------------
FENCE, ADD, STORE = range(3)
"""instructions"""
X, Y, Z = 3 << 40, (3 << 40) + 4, (3 << 40) + 8


class Made:
    """Events of one CTA, with a race of lane 0 of warp 0 with lane 1 of it, the later access in the last interval."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.addresses: list[int] = []
        self.intervals = {0: 1, 1: 1}

    def fence(self, warp: int, lane: int) -> None:
        self._ends(Event("fence.gpu", 0, warp, self.intervals[warp], FENCE, 1 << lane))

    def together(self, warp: int, lanes: int) -> None:
        self._ends(Event("warp", 0, warp, self.intervals[warp], 9, lanes))

    def sync(self, warp: int, lane: int) -> None:
        self._ends(Event("sync", 0, warp, self.intervals[warp], 9, 1, 0, 1 << lane))

    def complete(self) -> None:
        self.events.append(Event("complete", 0, 0, 0, 9, 1, 0))

    def add(self, warp: int, lane: int, place: int) -> None:
        at = len(self.addresses)
        self.events.append(Event("access", 0, warp, self.intervals[warp], ADD, place, -1, 1 << lane, at))
        self.addresses.append(place)

    def ordered(self, since: int = 1) -> bool:
        """`since`: the interval of the earlier access."""
        code = np.zeros((3, 8), np.int64)
        code[:, 0] = OPCODE["fence.gpu"], OPCODE["atom.add.b32"], OPCODE["st.b32"]
        detail = {
            "other_interval": since,
            "interval": self.intervals[0],
            "other_kind": WRITE,
            "other_lane": 0,
            "address": Z,
        }
        raw = RawFinding("intra-warp-race", STORE, 0, 0, 2, STORE, 0, detail)
        trace = Trace(self.events, addresses=self.addresses)
        return lanes_ordered_by_atomics(trace, [raw], cast("Any", SimpleNamespace(code=code))) == [raw]

    def _ends(self, event: Event) -> None:
        self.events.append(event)
        self.intervals[event.warp] += 1


@pytest.mark.parametrize("place", [X, Y])
def test_a_lane_knows_by_a_place_that_both_access(place):
    made = Made()
    made.fence(0, 0)
    made.add(0, 0, X)
    made.add(0, 1, place)
    made.fence(0, 1)
    assert made.ordered() == (place == X)


def test_a_lane_knows_by_way_of_another_warp():
    made = Made()
    made.fence(0, 0)
    made.add(0, 0, X)
    made.add(1, 5, X)
    made.fence(1, 5)
    assert not made.ordered()
    made.add(1, 5, Y)
    made.add(0, 1, Y)
    assert not made.ordered()
    made.fence(0, 1)
    assert made.ordered()


@pytest.mark.parametrize("told", [2, 3])
def test_a_lane_knows_by_lanes_that_meet_the_one_that_acquired(told):
    made = Made()
    made.fence(0, 0)
    made.add(0, 0, X)
    made.add(0, 2, X)
    made.fence(0, 2)
    made.together(0, 1 << told | 1 << 1)
    assert made.ordered() == (told == 2)


@pytest.mark.parametrize("told", [2, 3])
def test_a_lane_knows_by_a_barrier_of_the_one_that_acquired(told):
    made = Made()
    made.fence(0, 0)
    made.add(0, 0, X)
    made.add(1, 2, X)
    made.fence(1, 2)
    made.sync(1, told)
    made.sync(0, 1)
    made.complete()
    assert made.ordered() == (told == 2)


def test_a_fence_before_the_access_does_not_release_it():
    made = Made()
    made.fence(0, 0)
    made.add(0, 0, X)
    made.add(0, 1, X)
    made.fence(0, 1)
    assert made.ordered(since=1)
    assert not made.ordered(since=2)


@cuda.jit
def published(data, flag, out, meet):
    """One lane tells another CTA of what all lanes of its warp have written; one lane there is told."""
    i = cuda.threadIdx.x
    if cuda.blockIdx.x == 0:
        data[i] = i
        cuda.threadfence()
        if meet & 1:
            cuda.syncwarp()
        if i == 0:
            cuda.atomic.exch(flag, 0, 1)
    else:
        if i == 0:
            while cuda.atomic.cas(flag, 0, 1, 1) != 1:
                pass
        cuda.threadfence()
        if meet & 2:
            cuda.syncwarp()
        cuda.threadfence()
        out[i] = data[31 - i]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("meet", "codes"), [(0, ["race"]), (1, ["race"]), (2, ["race"]), (3, [])])
def test_a_lane_that_tells_of_others_has_to_meet_them(meet: int, codes: list[str], engine: Any) -> None:
    """A fence and an atomic order their own thread alone."""
    given = np.zeros(32, np.int32), np.zeros(1, np.int32), np.zeros(32, np.int32), meet
    report = wsemu.check(published, 2, 32, given, engine=engine)
    assert [finding.code for finding in report.findings] == codes
    assert all("cuda.syncwarp()" in (finding.help or "") for finding in report.findings)


def test_lanes_in_lockstep_need_not_meet() -> None:
    given = np.zeros(32, np.int32), np.zeros(1, np.int32), np.zeros(32, np.int32), 0
    assert wsemu.check(published, 2, 32, given, lockstep=True).verdict == "verified"
