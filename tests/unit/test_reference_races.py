"""What the reference interpreter finds in small kernels: races of warps and lanes, recycled barriers; its trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import wsemu
from wsemu import cuda, ptx
from wsemu.launch.binding import bind
from wsemu.launch.compiled import compile_for_types
from wsemu.model.isa import ATOMIC, NAMES, READ, SEGMENT_SHIFT, SHARED, WRITE
from wsemu.model.outcome import TraceRequest
from wsemu.reference import run as reference
from wsemu.reference.memory import shadow as races

if TYPE_CHECKING:
    from wsemu.model.outcome import Outcome, RawFinding
    from wsemu.model.program import Program

TILE = SHARED << SEGMENT_SHIFT
FULL = 0xFFFFFFFF


def run(
    kernel: Any, block: int, *arguments: Any, grid: int = 1, blank: tuple[str, ...] = (), **options: Any
) -> Outcome:
    """The outcome of a launch; `blank` names the arrays whose contents count as not yet written."""
    made = compile_for_types(kernel, arguments, True)
    rows, memory, bound = bind(made.program, arguments, made.names)
    segments = frozenset(array.segment for array in bound if array.name in blank)
    return reference.run(
        made.program, (grid, 1, 1), (block, 1, 1), rows, memory.segments, uninitialized=segments, **options
    )


def program(kernel: Any, *arguments: Any) -> Program:
    return compile_for_types(kernel, arguments, True).program


def codes(outcome: Outcome) -> list[str]:
    return [finding.code for finding in outcome.findings]


def only(outcome: Outcome) -> RawFinding:
    assert outcome.status == "done"
    (finding,) = outcome.findings
    return finding


def floats(n: int) -> Any:
    return np.zeros(n, np.float32)


def names(kernel: Any, finding: RawFinding, *arguments: Any) -> tuple[str, str]:
    """The operations of the later and the earlier instruction."""
    code = program(kernel, *arguments).code
    return NAMES[code[finding.pc, 0]], NAMES[code[finding.other_pc, 0]]


# -- producer and consumer --------------------------------------------------------------------------------------------


@cuda.jit
def no_empty_barrier(x, y, tiles):
    tile = cuda.shared.array(32, np.float32)
    lane = cuda.threadIdx.x % 32
    if cuda.threadIdx.x >= 32:
        for i in range(tiles):
            tile[lane] = x[i * 32 + lane]
            ptx.bar_arrive(2, 64)
    else:
        total = np.float32(0)
        for _ in range(tiles):
            ptx.bar_sync(2, 64)
            total += tile[lane]
        y[lane] = total


def test_without_an_empty_barrier_there_are_a_race_and_a_recycled_barrier() -> None:
    outcome = run(no_empty_barrier, 64, floats(64), floats(32), 2)
    assert codes(outcome) == ["barrier-recycling", "race"]
    recycled, race = outcome.findings
    assert (recycled.warp, recycled.other_warp, recycled.count) == (1, 0, 1)
    assert recycled.detail == {"barrier": 2, "generation": 0, "interval": 2, "other_interval": 1}
    assert names(no_empty_barrier, race, floats(64), floats(32), 2) == ("ld.b32", "st.b32")
    assert (race.cta, race.warp, race.other_warp, race.lanes, race.count) == (0, 0, 1, FULL, 1)
    assert race.detail == {
        "address": TILE, "kind": READ, "other_kind": WRITE, "size": 4,
        "interval": 2, "other_interval": 2, "other_cta": 0,
    }  # fmt: skip


def test_checks_can_be_left_out() -> None:
    arguments = floats(64), floats(32), 2
    assert codes(run(no_empty_barrier, 64, *arguments, races=False)) == ["barrier-recycling"]
    assert codes(run(no_empty_barrier, 64, *arguments, recycling=False)) == ["race"]


@cuda.jit
def double_buffer(x, y, tiles):
    tile = cuda.shared.array((2, 32), np.float32)
    lane = cuda.threadIdx.x % 32
    if cuda.threadIdx.x >= 32:
        for i in range(tiles):
            if i > 1:
                ptx.bar_sync(3 + i % 2, 64)
            tile[i % 2, lane] = x[i * 32 + lane]
            ptx.bar_arrive(1 + i % 2, 64)
    else:
        total = np.float32(0)
        for i in range(tiles):
            ptx.bar_sync(1 + i % 2, 64)
            total += tile[i % 2, lane]
            if i + 2 < tiles:
                ptx.bar_arrive(3 + i % 2, 64)
        y[lane] = total


def test_full_and_empty_barriers_of_a_double_buffer_are_clean() -> None:
    x, y = np.arange(160, dtype=np.float32), floats(32)
    outcome = run(double_buffer, 64, x, y, 5)
    assert (outcome.status, outcome.findings) == ("done", [])
    assert np.array_equal(y, x.reshape(5, 32).sum(0))


@cuda.jit
def three_warps():
    warp = cuda.threadIdx.x // 32
    if warp == 0:
        ptx.bar_arrive(1, 64)
        ptx.bar_arrive(2, 64)
    elif warp == 1:
        ptx.bar_sync(1, 64)
        ptx.bar_sync(1, 64)
    else:
        ptx.bar_sync(2, 64)
        ptx.bar_arrive(1, 64)


def test_some_path_between_two_generations_is_not_enough() -> None:
    """w0: A(1) A(2) | w1: S(1) S(1) | w2: S(2) A(1): warp 1's first sync may come after warp 2's arrive, to which no
    order leads from it, although warp 0's arrive is."""
    finding = only(run(three_warps, 96))
    assert (finding.code, finding.warp, finding.other_warp, finding.count) == ("barrier-recycling", 2, 1, 1)
    assert finding.detail == {"barrier": 1, "generation": 0, "interval": 2, "other_interval": 1}


@cuda.jit
def arrive_twice():
    if cuda.threadIdx.x < 32:
        ptx.bar_arrive(1, 64)
        ptx.bar_arrive(1, 64)
    else:
        ptx.bar_sync(2, 32)


def test_a_warp_is_ordered_with_itself() -> None:
    assert codes(run(arrive_twice, 64)) == ["all-arrive"]


@cuda.jit
def takes_part_twice():
    warp = cuda.threadIdx.x // 32
    if warp == 0:
        ptx.bar_arrive(1, 96)
        ptx.bar_arrive(2, 64)
        ptx.bar_arrive(1, 96)
    elif warp == 1:
        ptx.bar_sync(1, 96)
    else:
        ptx.bar_sync(2, 64)
        ptx.bar_arrive(1, 96)


def test_the_last_operation_of_a_warp_in_a_generation_counts() -> None:
    found = [f for f in run(takes_part_twice, 96).findings if f.code == "barrier-recycling"]
    assert [(f.warp, f.other_warp, f.detail["other_interval"]) for f in found] == [(2, 0, 3), (2, 1, 1)]


@cuda.jit
def read_after_exit(out):
    tile = cuda.shared.array(64, np.int32)
    t = cuda.threadIdx.x
    tile[t] = t
    if t < 32:
        return
    cuda.syncthreads()
    out[t] = tile[t - 32]


@cuda.jit
def read_after_exit_with_a_count(out):
    tile = cuda.shared.array(64, np.int32)
    t = cuda.threadIdx.x
    tile[t] = t
    if t < 32:
        return
    ptx.bar_sync(1, 32)
    out[t] = tile[t - 32]


def test_an_exit_is_ordered_before_syncthreads() -> None:
    assert run(read_after_exit, 64, np.zeros(64, np.int32)).findings == []
    assert codes(run(read_after_exit_with_a_count, 64, np.zeros(64, np.int32))) == ["race"]


# -- bytes ------------------------------------------------------------------------------------------------------------


@cuda.jit
def wide_store(out):
    tile = cuda.shared.array(130, np.float32)
    t = cuda.threadIdx.x
    if t < 32:
        one = np.float32(1)
        ptx.st_v4(tile, 4 * t, (one, one, one, one))
    elif t == 37:
        out[0] = tile[23]


def test_a_16_byte_store_meets_a_4_byte_load() -> None:
    finding = only(run(wide_store, 64, floats(1), initialised=False))
    assert names(wide_store, finding, floats(1)) == ("ld.b32", "st.v4.b32")
    assert (finding.code, finding.lanes) == ("race", 1 << 5)
    assert (finding.detail["address"], finding.detail["size"]) == (TILE + 92, 4)
    assert (finding.detail["kind"], finding.detail["other_kind"]) == (READ, WRITE)


@cuda.jit
def bytes_of_two_warps(out):
    tile = cuda.shared.array(64, np.int8)
    t = cuda.threadIdx.x
    tile[t % 32 * 2 + t // 32] = t
    cuda.syncthreads()
    out[t] = tile[t]


def test_neighbouring_bytes_do_not_race() -> None:
    assert run(bytes_of_two_warps, 64, np.zeros(64, np.int8)).findings == []


@cuda.jit
def overlapping_views(wide, narrow):
    t = cuda.threadIdx.x
    if t < 32:
        wide[t] = 1
    elif t == 40:
        narrow[13] = 1


def test_arrays_that_overlap_are_one_memory() -> None:
    data = np.zeros(32, np.int64)
    finding = only(run(overlapping_views, 64, data, data.view(np.int16)))
    assert (finding.code, finding.lanes, finding.detail["size"]) == ("race", 1 << 8, 2)
    assert finding.detail["address"] % 256 == 26


@cuda.jit
def half_of_a_wide_word(wide, narrow, out):
    t = cuda.threadIdx.x
    if t < 32:
        narrow[1] = 1
    elif t == 32:
        out[0] = wide[0]


def test_the_first_byte_that_conflicts_is_told() -> None:
    data = np.zeros(4, np.int64)
    finding = only(run(half_of_a_wide_word, 64, data, data.view(np.int32), np.zeros(1, np.int64)))
    assert (finding.code, finding.detail["size"], finding.detail["address"] & 0xFF) == ("race", 8, 4)


@cuda.jit
def read_write_write(x, out):
    t = cuda.threadIdx.x
    if t == 0:
        out[0] = x[0]
    elif t == 32:
        x[0] = 1
    if 32 <= t < 64:
        ptx.bar_arrive(1, 64)
    elif t >= 64:
        ptx.bar_sync(1, 64)
        if t == 64:
            x[0] = 2


def test_a_write_stands_for_all_that_came_before_it() -> None:
    finding = only(run(read_write_write, 96, np.zeros(1, np.int32), np.zeros(1, np.int32)))
    assert (finding.code, finding.warp, finding.other_warp) == ("race", 1, 0)


# -- atomics and CTAs -------------------------------------------------------------------------------------------------


@cuda.jit
def atomic_then(out, kind):
    t = cuda.threadIdx.x
    if t < 32 or kind == 0:
        cuda.atomic.add(out, 0, 1)
    elif t == 32 and kind == 1:
        out[1] = out[0]
    elif t == 32:
        out[0] = 7


@pytest.mark.parametrize(("second", "kinds"), [(0, None), (1, (READ, ATOMIC)), (2, (WRITE, ATOMIC))])
def test_atomics_race_with_plain_accesses_alone(second: int, kinds: tuple[int, int] | None) -> None:
    outcome = run(atomic_then, 64, np.zeros(2, np.int32), second)
    found = [(f.detail["kind"], f.detail["other_kind"]) for f in outcome.findings]
    assert found == ([kinds] if kinds else [])


@cuda.jit
def read_between_atomics(out, result):
    t = cuda.threadIdx.x
    if t == 0:
        cuda.atomic.add(out, 0, 1)
    elif t == 32:
        result[0] = out[1]
        cuda.atomic.add(out, 0, 1)


def test_an_atomic_and_a_read_of_another_word_do_not_race() -> None:
    assert run(read_between_atomics, 64, np.zeros(2, np.int32), np.zeros(1, np.int32)).findings == []


@cuda.jit
def atomic_then_own_read(counter, out):
    t = cuda.threadIdx.x
    if t == 0:
        cuda.atomic.add(counter, 0, 1)
        out[0] = counter[0]
    elif t == 32:
        out[1] = counter[0]


def test_a_read_does_not_stand_for_an_atomic() -> None:
    finding = only(run(atomic_then_own_read, 64, np.zeros(1, np.int32), np.zeros(2, np.int32)))
    assert (finding.code, finding.detail["kind"], finding.detail["other_kind"]) == ("race", READ, ATOMIC)


@cuda.jit
def every_cta_writes(out):
    out[cuda.threadIdx.x] = cuda.blockIdx.x


def test_ctas_are_never_ordered_by_barriers() -> None:
    finding = only(run(every_cta_writes, 64, np.zeros(64, np.int32), grid=3))
    assert (finding.code, finding.cta, finding.warp, finding.other_warp) == ("race", 1, 0, 0)
    assert (finding.detail["other_cta"], finding.count, finding.lanes) == (0, 4, FULL)


@cuda.jit
def shared_of_each_cta(out):
    tile = cuda.shared.array(32, np.int32)
    tile[cuda.threadIdx.x] = cuda.blockIdx.x
    out[cuda.blockIdx.x * 32 + cuda.threadIdx.x] = tile[cuda.threadIdx.x]


def test_ctas_do_not_meet_in_shared_memory() -> None:
    assert run(shared_of_each_cta, 32, np.zeros(96, np.int32), grid=3).findings == []


@cuda.jit
def last_cta_writes(x, out):
    t = cuda.threadIdx.x
    if cuda.blockIdx.x < 2:
        out[cuda.blockIdx.x * 64 + t] = x[t]
    else:
        x[t] = 1


def test_of_earlier_ctas_the_first_read_is_told() -> None:
    finding = only(run(last_cta_writes, 64, np.zeros(64, np.int32), np.zeros(128, np.int32), grid=3))
    assert (finding.cta, finding.detail["other_cta"], finding.count) == (2, 0, 2)


@cuda.jit
def three_ctas(x, out):
    t = cuda.threadIdx.x
    if cuda.blockIdx.x == 0 and t == 0:
        out[0] = x[0]
    elif cuda.blockIdx.x == 1 and t == 0:
        out[1] = x[0] + 1
    elif cuda.blockIdx.x == 2 and t == 0:
        out[2] = x[0] + 2
    elif cuda.blockIdx.x == 2 and t == 32:
        x[0] = 1


def test_of_earlier_ctas_the_first_read_is_kept() -> None:
    outcome = run(three_ctas, 64, np.zeros(1, np.int32), np.zeros(3, np.int32), grid=3)
    assert codes(outcome) == ["race", "race"]
    assert [f.detail["other_cta"] for f in outcome.findings] == [0, 2]


# -- lanes ------------------------------------------------------------------------------------------------------------


@cuda.jit
def neighbour(out, mask):
    tile = cuda.shared.array(33, np.int32)
    t = cuda.threadIdx.x
    tile[t] = t
    tile[32] = 0
    if mask != 0:
        cuda.syncwarp()
    out[t] = tile[t + 1]


def test_a_neighbours_word_needs_a_syncwarp() -> None:
    @cuda.jit
    def rotate(out):
        tile = cuda.shared.array(32, np.int32)
        t = cuda.threadIdx.x
        tile[t] = t
        out[t] = tile[(t + 1) % 32]

    finding = only(run(rotate, 32, np.zeros(32, np.int32)))
    assert (finding.code, finding.lanes, finding.warp, finding.other_warp) == ("intra-warp-race", FULL, 0, 0)
    assert finding.detail == {
        "address": TILE + 4, "kind": READ, "other_kind": WRITE, "size": 4, "interval": 1, "other_interval": 1,
        "other_cta": 0, "other_lane": 1, "other_last": 1,
    }  # fmt: skip
    assert run(rotate, 32, np.zeros(32, np.int32), lockstep=True).findings == []


def test_a_syncwarp_orders_lanes() -> None:
    assert codes(run(neighbour, 32, np.zeros(32, np.int32), 0)) == ["intra-warp-race", "intra-warp-race"]
    assert run(neighbour, 32, np.zeros(32, np.int32), 1).findings == []


@cuda.jit
def halves(out, distance):
    tile = cuda.shared.array(32, np.int32)
    t = cuda.threadIdx.x
    tile[t] = t
    if t < 16:
        cuda.syncwarp(0x0000FFFF)
    else:
        cuda.syncwarp(0xFFFF0000)
    out[t] = tile[t ^ distance]


def test_a_syncwarp_of_some_lanes_orders_those() -> None:
    assert run(halves, 32, np.zeros(32, np.int32), 8).findings == []
    finding = only(run(halves, 32, np.zeros(32, np.int32), 16))
    assert (finding.code, finding.lanes) == ("intra-warp-race", FULL)


@cuda.jit
def passed_on(out):
    """Lane 0 reads and meets lane 1; lane 1 reads, then writes: it knows of both reads."""
    tile = cuda.shared.array(1, np.int32)
    t = cuda.threadIdx.x
    if t == 0:
        out[0] = tile[0]
    if t < 2:
        cuda.syncwarp(0x3)
    if t == 1:
        out[1] = tile[0]
        tile[0] = 5


def test_a_read_that_is_ordered_before_the_next_one_is_forgotten() -> None:
    assert run(passed_on, 32, np.zeros(2, np.int32), initialised=False).findings == []


@cuda.jit
def two_lanes_read(out):
    tile = cuda.shared.array(1, np.int32)
    t = cuda.threadIdx.x
    if t == 9:
        out[0] = tile[0]
    if t == 3:
        out[1] = tile[0]
        tile[0] = 5


def test_the_lanes_that_the_writer_does_not_know_of_are_told() -> None:
    finding = only(run(two_lanes_read, 32, np.zeros(2, np.int32), initialised=False))
    assert (finding.code, finding.lanes) == ("intra-warp-race", 1 << 3)
    assert (finding.detail["other_lane"], finding.detail["other_last"]) == (9, 9)


@cuda.jit
def other_warp_reads_too(x, out):
    t = cuda.threadIdx.x
    if t == 0 or t == 35:
        out[t] = x[0]
    if t == 37:
        x[0] = 1


def test_lanes_are_judged_where_other_warps_have_read_too() -> None:
    outcome = run(other_warp_reads_too, 64, np.zeros(1, np.int32), np.zeros(64, np.int32))
    assert [(f.code, f.warp, f.other_warp) for f in outcome.findings] == [("intra-warp-race", 1, 1), ("race", 1, 0)]


@cuda.jit
def arrive_between(out):
    tile = cuda.shared.array(32, np.int32)
    t = cuda.threadIdx.x
    if t < 32:
        tile[t] = t
        ptx.bar_arrive(1, 64)
        out[t] = tile[31 - t]
    else:
        ptx.bar_sync(1, 64)
        out[t] = tile[t - 32]


def test_an_arrive_orders_no_lanes() -> None:
    finding = only(run(arrive_between, 64, np.zeros(64, np.int32)))
    assert (finding.code, finding.warp) == ("intra-warp-race", 0)
    assert (finding.detail["interval"], finding.detail["other_interval"]) == (2, 1)


@cuda.jit
def one_word(out, values):
    t = cuda.threadIdx.x
    out[t // 2] = values[t]


@pytest.mark.parametrize("lockstep", [False, True])
def test_lanes_of_one_store_write_equal_values(lockstep: bool) -> None:
    values = np.arange(32, dtype=np.int32) // 2
    assert run(one_word, 32, np.zeros(16, np.int32), values, lockstep=lockstep).findings == []
    values[[7, 20]] = 99
    finding = only(run(one_word, 32, np.zeros(16, np.int32), values, lockstep=lockstep))
    assert (finding.code, finding.lanes, finding.other_pc) == ("intra-warp-race", 1 << 6 | 1 << 20, -1)
    assert (finding.detail["other_lane"], finding.detail["other_last"]) == (7, 7)
    assert finding.detail["address"] & 0xFFFF == 12


@cuda.jit
def all_lanes_add(out):
    cuda.atomic.add(out, 0, cuda.threadIdx.x)


def test_lanes_of_one_atomic_do_not_conflict() -> None:
    assert run(all_lanes_add, 64, np.zeros(1, np.int32)).findings == []


# -- uninitialised arrays, trace --------------------------------------------------------------------------------------


@cuda.jit
def read_back(x, y):
    t = cuda.threadIdx.x
    if t < 16:
        x[t] = 1
    y[t] = x[t]


def test_arrays_that_count_as_not_yet_written() -> None:
    arguments = np.zeros(32, np.int32), np.zeros(32, np.int32)
    assert run(read_back, 32, *arguments).findings == []
    assert run(read_back, 32, *arguments, blank=("y",)).findings == []
    finding = only(run(read_back, 32, *arguments, blank=("x",)))
    assert (finding.code, finding.lanes) == ("uninitialized-read", 0xFFFF0000)
    assert run(read_back, 32, *arguments, blank=("x",), initialised=False).findings == []


@cuda.jit
def uses_all(out):
    tile = cuda.shared.array(32, np.int32)
    t = cuda.threadIdx.x
    if t < 32:
        tile[t] = t
        cuda.syncwarp()
        cuda.threadfence()
        ptx.bar_arrive(1, 64)
    else:
        ptx.bar_sync(1, 64)
        cuda.atomic.add(out, t - 30, 1)


def test_a_trace_has_the_operations_in_order() -> None:
    out = np.zeros(64, np.int32)
    outcome = run(uses_all, 64, out, trace=TraceRequest())
    assert outcome.trace is not None
    assert outcome.trace.complete
    found = [(e.kind, e.warp, e.interval, e.place, e.generation) for e in outcome.trace.events]
    segment = next(e.place for e in outcome.trace.events if e.kind == "atomic")
    assert found == [
        ("warp", 0, 1, FULL, -1),
        ("fence.gpu", 0, 2, FULL, -1),
        ("arrive", 0, 3, 1, 0),
        ("exit", 0, 4, -1, -1),
        ("sync", 1, 1, 1, 0),
        ("complete", 1, 0, 1, 0),
        ("atomic", 1, 2, segment, -1),
        ("exit", 1, 2, -1, -1),
    ]
    assert segment & 0xFFFF == 8


def test_a_trace_has_the_accesses_asked_for() -> None:
    arguments = floats(64), floats(32), 2
    code = program(no_empty_barrier, *arguments).code
    wanted = frozenset(pc for pc, op in enumerate(code[:, 0].tolist()) if NAMES[op] == "st.b32")
    outcome = run(no_empty_barrier, 64, *arguments, trace=TraceRequest(wanted))
    assert outcome.trace is not None
    accesses = [(e.warp, e.interval, e.place) for e in outcome.trace.events if e.kind == "access"]
    assert accesses[:2] == [(1, 1, TILE), (1, 2, TILE)]
    assert [warp for warp, _, _ in accesses[2:]] == [0]
    assert run(no_empty_barrier, 64, *arguments).trace is None


def test_a_trace_that_is_full_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(races, "MOST_EVENTS", 3)
    outcome = run(uses_all, 64, np.zeros(64, np.int32), trace=TraceRequest())
    assert outcome.trace is not None
    assert len(outcome.trace.events) == 3
    assert not outcome.trace.complete


def test_findings_are_sorted_by_code_and_place() -> None:
    outcome = run(no_empty_barrier, 64, floats(64), floats(32), 2)
    places = [(f.code, f.pc, f.other_pc) for f in outcome.findings]
    assert places == sorted(places)


@cuda.jit
def read_then_atomic(x):
    thread = cuda.threadIdx.x
    if thread == 0:
        x[1] = x[0]
        cuda.atomic.add(x, 0, 1)
    if thread == 32:
        cuda.atomic.add(x, 0, 1)


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_an_atomic_does_not_stand_for_an_earlier_read(engine):
    report = wsemu.check(read_then_atomic, 1, 64, (np.zeros(64, np.int32),), engine=engine)
    assert [finding.code for finding in report.findings if finding.severity == "error"] == ["race"]


@cuda.jit
def all_but_the_first_lane(x):
    if cuda.threadIdx.x > 0:
        x[cuda.threadIdx.x - 1] = cuda.blockIdx.x


@pytest.mark.parametrize("workers", [1, 2])
def test_ctas_race_where_some_lanes_of_a_warp_store(workers):
    report = wsemu.check(all_but_the_first_lane, 2, 32, (np.zeros(256, np.int32),), workers=workers)
    assert [finding.code for finding in report.findings if finding.severity == "error"] == ["race"]


@cuda.jit
def words_then_bytes(x):
    words, narrow = cuda.shared.array(64, np.int32), cuda.shared.array(64, np.int8)
    thread = cuda.threadIdx.x
    if 30 <= thread < 32:
        words[thread - 30] = 1
    if thread >= 32:
        narrow[thread - 32] = 1
    x[thread] = 1


@cuda.jit
def bytes_alone(x):
    narrow = cuda.shared.array(320, np.int8)
    narrow[cuda.threadIdx.x] = 1
    x[cuda.threadIdx.x] = 1


def test_a_launch_leaves_nothing_to_the_next():
    for kernel in (bytes_alone, words_then_bytes, bytes_alone):
        assert wsemu.check(kernel, 1, 64, (np.zeros(64, np.int32),)).verdict == "verified"


PARTED = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out) {{
  .reg .pred %p<3>; .reg .b32 %r<6>;
  .shared .align 4 .b32 word;
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, 0;
  setp.ge.u32 %p1, %r1, 50;
  @%p1 bra MEET;
  {filler}
  setp.eq.u32 %p2, %r1, 99;
  @%p2 bra LOOP;
MEET:
  bar.sync 0;
LOOP:
  ld.shared.u32 %r3, [word];
  st.shared.u32 [word], %r2;
  add.u32 %r2, %r2, 1;
  setp.lt.u32 %p2, %r2, 40;
  @%p2 bra LOOP;
  ret;
}}
"""


@pytest.mark.parametrize("length", [2, 4, 6])
def test_turns_of_a_warp_that_parts_at_a_barrier(length):
    """Lanes that begin a stretch while others of their warp wait take it off the turn on both engines."""
    kernel = wsemu.load_ptx(PARTED.format(filler="membar.cta;" * length))["k"]
    found = []
    for engine in ("vm", "reference"):
        report = wsemu.check(kernel, 1, 64, [np.zeros(1, np.int32)], engine=engine)
        found.append(sorted((f.code, f.count, [site.text for site in f.sites]) for f in report.findings))
    assert found[0] == found[1]
    assert any(code == "race" for code, *_ in found[0])
