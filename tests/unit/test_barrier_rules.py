"""Named barriers: the rules B1 to B14 of docs/semantics.md, each on both engines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wsemu
from wsemu import cuda, ptx

ENGINES = ("vm", "reference")


@pytest.fixture(params=ENGINES)
def run(request: pytest.FixtureRequest) -> Any:
    """Check a kernel of one CTA on one engine."""

    def check(kernel: Any, block: int, *arguments: Any, **options: Any) -> Any:
        return wsemu.check(kernel, 1, block, arguments, engine=request.param, **options)

    return check


def codes(report: Any) -> list[str]:
    return [finding.code for finding in report.findings]


def numbers(n: int) -> Any:
    return np.zeros(n, np.int64)


@cuda.jit
def sync_by(out, barrier, count):
    ptx.bar_sync(barrier, count)
    out[cuda.threadIdx.x] = 1


@pytest.mark.parametrize("barrier", [0, 7, 15])
def test_b1_ids_0_to_15_are_good(run, barrier):
    out = numbers(64)
    assert run(sync_by, 64, out, barrier, 64).verdict == "verified"
    assert out.all()


@pytest.mark.parametrize("barrier", [16, 20, -1])
def test_b1_another_id_is_invalid(run, barrier):
    report = run(sync_by, 64, numbers(64), barrier, 64)
    assert report.verdict == "failed"
    assert codes(report)[0] == "invalid-barrier"
    assert str(barrier) in report.findings[0].message


@pytest.mark.parametrize("count", [48, 100, 0, -32])
def test_b2_a_count_is_a_multiple_of_32(run, count):
    report = run(sync_by, 64, numbers(64), 1, count)
    assert codes(report)[0] == "invalid-barrier"
    assert "multiple of 32" in report.findings[0].message


@cuda.jit
def elected_lane(out):
    t = cuda.threadIdx.x
    if t < 32:
        if t != 5:
            return
        ptx.bar_arrive(1, 64)
    else:
        ptx.bar_sync(1, 64)
        out[t] = 1


def test_b3_an_operation_counts_its_whole_warp(run):
    out = numbers(64)
    assert run(elected_lane, 64, out).verdict == "verified"
    assert out[32:].all()


def test_b3_a_partial_warp_counts_32(run):
    out = numbers(100)
    assert run(sync_by, 100, out, 1, 128).verdict == "verified"
    assert out.all()


@cuda.jit
def arrive_then_store(out):
    t = cuda.threadIdx.x
    if t < 32:
        ptx.bar_arrive(1, 64)
        out[t] = 7
        ptx.bar_arrive(2, 64)
    else:
        ptx.bar_sync(2, 64)
        ptx.bar_sync(1, 64)
        out[t] = out[t - 32]


def test_b4_arrive_does_not_wait(run):
    out = numbers(64)
    assert run(arrive_then_store, 64, out).verdict == "verified"
    assert (out == 7).all()


@cuda.jit
def many_generations(out, n):
    for _ in range(n):
        ptx.bar_sync(3, 64)
    out[cuda.threadIdx.x] = n


def test_b4_completion_resets_the_barrier(run):
    out = numbers(64)
    assert run(many_generations, 64, out, 10).verdict == "verified"
    assert (out == 10).all()


@cuda.jit
def two_counts():
    if cuda.threadIdx.x < 32:
        ptx.bar_sync(1, 64)
    else:
        ptx.bar_sync(1, 96)


def test_b5_one_count_per_generation(run):
    report = run(two_counts, 96)
    assert codes(report)[0] == "count-mismatch"
    lines = {site.line for site in report.findings[0].sites}
    assert len(lines) == 2


@cuda.jit
def arrives_twice(out):
    t = cuda.threadIdx.x
    if t < 32:
        ptx.bar_arrive(1, 96)
        ptx.bar_arrive(1, 96)
    else:
        ptx.bar_sync(1, 96)
        out[t] = 1


def test_b6_a_warp_may_arrive_twice(run):
    out = numbers(64)
    run(arrives_twice, 64, out)
    assert out[32:].all()


@cuda.jit
def exits_then_whole(out):
    t = cuda.threadIdx.x
    if t >= 64:
        return
    cuda.syncthreads()
    out[t] = 1


def test_b7_without_a_count_exited_warps_do_not_count(run):
    out = numbers(64)
    assert run(exits_then_whole, 128, out).verdict == "verified"
    assert out.all()


@cuda.jit
def exits_late(out):
    t = cuda.threadIdx.x
    if t < 32:
        cuda.syncthreads()
        out[t] = 1
    else:
        for k in range(5):
            out[t] = k


def test_b7_a_warp_that_exits_later_releases_those_that_wait(run):
    out = numbers(64)
    assert run(exits_late, 64, out).verdict == "verified"
    assert (out[:32] == 1).all()


@cuda.jit
def exits_with_count():
    if cuda.threadIdx.x >= 32:
        return
    ptx.bar_sync(1, 64)


def test_b8_with_a_count_exited_warps_still_count(run):
    report = run(exits_with_count, 64)
    assert codes(report) == ["deadlock"]
    assert report.findings[0].message == "barrier 1 generation 0 is missing 32 of 64 threads: warp 1 has exited"
    assert "1 of 1 live warps wait; warp 1 has exited" in report.findings[0].notes


@cuda.jit
def three_of_two():
    ptx.bar_sync(1, 64)


def test_b9_surplus_arrivals_open_the_next_generation(run):
    report = run(three_of_two, 96)
    assert set(codes(report)) == {"deadlock", "oversubscribed", "barrier-recycling"}  # whichever warp comes third
    deadlock = next(finding for finding in report.findings if finding.code == "deadlock")
    assert "generation 1 has 32 of 64" in deadlock.sites[0].text


@cuda.jit
def only_arrivals():
    ptx.bar_arrive(1, 64)


def test_b10_arrivals_alone_complete_a_generation(run):
    report = run(only_arrivals, 64)
    assert codes(report) == ["all-arrive"]
    assert report.verdict == "failed"


@cuda.jit
def one_arrival():
    if cuda.threadIdx.x < 32:
        ptx.bar_arrive(1, 64)


def test_b11_arrivals_left_over_are_a_warning(run):
    report = run(one_arrival, 64)
    assert codes(report) == ["dangling-arrive"]
    assert report.verdict == "verified"
    assert report.findings[0].severity == "warning"


@cuda.jit
def half_a_warp(out):
    t = cuda.threadIdx.x
    if t % 32 < 16:
        cuda.syncthreads()
    out[t] = 1


def test_b12_aligned_forms_need_a_converged_warp(run):
    report = run(half_a_warp, 32, numbers(32))
    assert "barrier-divergence" in codes(report)
    assert "lanes 0-15" in report.findings[0].sites[0].text


@cuda.jit
def unaligned_at_two_places(out):
    t = cuda.threadIdx.x
    if t % 2 == 0:
        ptx.barrier_sync(1, 64)
        out[t] = 1
    else:
        ptx.barrier_sync(1, 64)
        out[t] = 2


def test_b12_the_unaligned_form_completes_from_two_places(run):
    out = numbers(64)
    assert run(unaligned_at_two_places, 64, out).verdict == "verified"
    assert (out == [1, 2] * 32).all()


@cuda.jit
def two_places(out, named):
    warp = cuda.threadIdx.x // 32
    if warp == 0:
        for i in range(1):
            ptx.bar_arrive(3 + i, 128)
            if cuda.laneid == 0:
                ptx.barrier_sync(3 + i, 128)
                ptx.barrier_sync(1 + i, 96)
            else:
                ptx.barrier_sync(3 + i, 128)
                ptx.barrier_sync(1 + i, 96)
    elif warp != 2:
        ptx.bar_sync(3, 128)
        ptx.bar_arrive(named, 96)


@pytest.mark.parametrize(("named", "verdict"), [(1, "verified"), (3, "failed")])
def test_b12_lanes_at_two_places_name_the_barrier_by_their_own_registers(run, named, verdict):
    """The last place keeps its number in a register in which lane 0 still has the number of the first barrier."""
    assert run(two_places, 128, numbers(1), named).verdict == verdict


@cuda.jit
def pass_on(x, y):
    tile = cuda.shared.array(32, np.float32)
    t = cuda.threadIdx.x
    if t < 32:
        ptx.bar_sync(1, 64)
        y[t] = tile[31 - t]
    else:
        tile[t - 32] = x[t - 32]
        ptx.bar_arrive(1, 64)


def test_b13_what_precedes_an_arrive_is_seen_after_the_sync(run):
    x, y = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    assert run(pass_on, 64, x, y).verdict == "verified"
    assert (y == x[::-1]).all()


@cuda.jit
def reductions(out):
    t = cuda.threadIdx.x
    out[0, t] = cuda.syncthreads_count(t % 3)
    out[1, t] = cuda.syncthreads_and(int(t < 64))
    out[2, t] = cuda.syncthreads_or(int(t == 40))
    out[3, t] = ptx.bar_red_popc(2, 64, t < 10)
    out[4, t] = ptx.bar_red_and(3, 64, t < 63)
    out[5, t] = ptx.bar_red_or(4, 64, t > 100)


def test_reductions_over_the_threads_of_a_barrier(run):
    out = np.zeros((6, 64), np.int64)
    assert run(reductions, 64, out).verdict == "verified"
    assert [set(row.tolist()) for row in out] == [{42}, {1}, {1}, {10}, {0}, {0}]


@cuda.jit
def asks_for_more(out):
    ptx.bar_sync(1, 160)
    out[cuda.threadIdx.x] = 1


def test_a_count_beyond_the_cta_can_never_be_met(run):
    report = run(asks_for_more, 128, numbers(128))
    assert "oversubscribed" in codes(report)
    assert "160" in next(f.message for f in report.findings if f.code == "oversubscribed")


@cuda.jit
def a_count_met_by_turns(out):
    t = cuda.threadIdx.x
    if t < 32:
        ptx.bar_arrive(1, 96)
        ptx.bar_arrive(1, 96)
    else:
        ptx.bar_sync(1, 96)
        out[t] = 1


def test_a_count_beyond_the_cta_that_warps_meet_by_arriving_twice_is_a_warning(run):
    report = run(a_count_met_by_turns, 64, numbers(64))
    assert {(f.code, f.severity) for f in report.findings} == {("oversubscribed", "warning")}
    assert report.verdict == "verified"
    assert report.findings[0].message == "barrier 1: count 96 is more than the 64 threads of the CTA"


@cuda.jit
def id_from_data(ids):
    ptx.bar_sync(ids[cuda.threadIdx.x], 64)


def test_ids_at_run_time(run):
    assert run(id_from_data, 64, np.full(64, 5)).verdict == "verified"
    report = run(id_from_data, 64, np.arange(64) % 2)
    assert codes(report)[0] == "invalid-barrier"
    assert "differs between the lanes" in report.findings[0].message


# -- what does not go together in a generation -----------------------------------------------------------------------
@cuda.jit
def count_and_none(first):
    w = cuda.threadIdx.x // 32
    if w == first:
        ptx.bar_sync(0)
    elif w < 2:
        ptx.bar_sync(0, 96)


@pytest.mark.parametrize("first", [0, 1])
def test_b5_an_exit_between_operations_with_a_count_and_without_one_is_a_mismatch(run, first):
    """Whichever of the two comes first: the verdict must not hang on how warps are numbered."""
    report = run(count_and_none, 96, first)
    assert codes(report) == ["count-mismatch"]
    assert report.findings[0].message == "barrier 0: one generation mixes operations with and without a count"
    assert report.findings[0].sites[0].text == "warp 2 exits"


@cuda.jit
def arrives_and_exits(out, arriver, writer, reader):
    t = cuda.threadIdx.x
    w, lane = t // 32, t % 32
    if w == arriver:
        ptx.bar_arrive(0, 96)
        return
    if w == writer:
        out[lane] = 5
    cuda.syncthreads()
    if w == reader:
        out[32 + lane] = out[lane]


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)])
def test_b5_an_arrive_with_a_count_and_syncthreads_are_a_mismatch(run, order):
    assert codes(run(arrives_and_exits, 96, numbers(64), *order)) == ["count-mismatch"]


@cuda.jit
def all_wait(out, first):
    t = cuda.threadIdx.x
    out[t] = t
    if t // 32 == first:
        cuda.syncthreads()
    else:
        ptx.bar_sync(0, 96)
    out[96 + t] = out[(t + 32) % 96]


@pytest.mark.parametrize("first", [0, 1, 2])
def test_b5_a_count_of_all_threads_goes_with_none_where_all_wait(run, first):
    assert run(all_wait, 96, numbers(192), first).verdict == "verified"


@cuda.jit
def after_an_exit(first):
    w = cuda.threadIdx.x // 32
    if w == 2:
        return
    if w == first:
        cuda.syncthreads()
    else:
        ptx.bar_sync(0, 96)


@pytest.mark.parametrize("first", [0, 1])
def test_b5_after_an_exit_a_count_of_all_threads_does_not_go_with_none(run, first):
    assert codes(run(after_an_exit, 96, first)) == ["count-mismatch"]


@cuda.jit
def reduction_and_another(kind, first):
    t = cuda.threadIdx.x
    ptx.bar_red_popc(1, 64, True)
    if t // 32 == first:
        ptx.bar_red_popc(1, 64, t < 5)
    elif kind == 0:
        ptx.bar_sync(1, 64)
    elif kind == 1:
        ptx.bar_arrive(1, 64)
    elif kind == 2:
        ptx.bar_red_and(1, 64, True)
    else:
        ptx.bar_red_or(1, 64, True)


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("kind", range(4))
def test_b5_a_reduction_goes_with_the_same_reduction_only(run, kind, first):
    """PTX ISA, "barrier": mixed with sync or arrive on one barrier, red is unpredictable."""
    report = run(reduction_and_another, 64, kind, first)
    assert codes(report) == ["count-mismatch"]
    assert "bar.red.popc" in report.findings[0].message


@cuda.jit
def reductions_in_turn(out):
    t = cuda.threadIdx.x
    ptx.bar_red_popc(1, 64, True)
    ptx.bar_sync(1, 64)
    out[0, t] = ptx.bar_red_popc(1, 64, t < 10)
    out[1, t] = ptx.bar_red_and(1, 64, t < 64)
    out[2, t] = ptx.bar_red_and(1, 64, t < 63)
    out[3, t] = ptx.bar_red_or(1, 64, t == 40)
    out[4, t] = ptx.bar_red_or(1, 64, t > 64)


def test_each_generation_reduces_anew(run):
    out = np.zeros((5, 64), np.int64)
    assert run(reductions_in_turn, 64, out).verdict == "verified"
    assert [set(row.tolist()) for row in out] == [{10}, {1}, {0}, {1}, {0}]


# -- lanes of a warp that come to unaligned barriers apart -----------------------------------------------------------
@cuda.jit
def elected_unaligned_arrive(out, syncs):
    t = cuda.threadIdx.x
    if t == 0:
        ptx.barrier_arrive(1, 64)
    if syncs:
        cuda.syncwarp()
    if t >= 32:
        ptx.bar_sync(1, 64)
    cuda.syncthreads()
    out[t] = 1


@pytest.mark.parametrize(("syncs", "expected"), [(0, "barrier-divergence"), (1, "deadlock")])
def test_b14_an_elected_lane_that_arrives_waits_for_its_warp(run, syncs, expected):
    assert codes(run(elected_unaligned_arrive, 64, numbers(64), syncs)) == [expected]


@cuda.jit
def store_after_elected_arrive(out):
    tile = cuda.shared.array(32, np.int32)
    t = cuda.threadIdx.x
    if t < 32:
        tile[t] = 0
        cuda.syncwarp()
        if t == 0:
            ptx.barrier_arrive(1, 64)
        if t > 0:
            tile[t] = 5
    else:
        ptx.barrier_sync(1, 64)
        out[t - 32] = tile[t - 32]


def test_b4_what_a_warp_stores_after_its_elected_lane_arrived_is_not_given(run):
    assert codes(run(store_after_elected_arrive, 64, numbers(32))) == ["race"]


@cuda.jit
def two_halves_arrive(out, count):
    t = cuda.threadIdx.x
    if t < 16:
        ptx.barrier_arrive(1, count)
    if 16 <= t < 32:
        ptx.barrier_arrive(1, count)
    if t >= 32:
        ptx.bar_sync(1, count)
    out[t] = 1


@pytest.mark.parametrize(("count", "expected"), [(64, set()), (96, {"deadlock", "oversubscribed"})])
def test_b3_b14_two_halves_of_a_warp_that_arrive_one_after_the_other_count_once(run, count, expected):
    assert set(codes(run(two_halves_arrive, 64, numbers(64), count))) == expected


@cuda.jit
def arrives_again(out):
    t = cuda.threadIdx.x
    if t < 32:
        ptx.bar_sync(1, 64)
        ptx.bar_sync(1, 64)
    elif t < 48:
        ptx.barrier_arrive(1, 64)
        ptx.barrier_arrive(1, 64)
    else:
        ptx.barrier_arrive(1, 64)
    out[t] = 1


def test_b14_a_second_arrive_counts_when_the_other_lanes_have_exited(run):
    out = numbers(64)
    assert set(codes(run(arrives_again, 64, out))) <= {"barrier-recycling"}
    assert out.all()


@cuda.jit
def arrives_at_two_barriers(out, number, kind):
    t = cuda.threadIdx.x
    if t < 16:
        ptx.barrier_arrive(1, 64)
    elif t < 32:
        if kind == 0:
            ptx.barrier_arrive(number, 64)
        else:
            ptx.barrier_arrive(1, 32 * number)
    else:
        ptx.bar_sync(1, 64)
    out[t] = 1


@pytest.mark.parametrize("kind", [0, 1])
def test_b14_arrives_of_one_warp_at_two_barriers_or_with_two_counts_diverge(run, kind):
    report = run(arrives_at_two_barriers, 64, numbers(64), 3 if kind else 2, kind)
    found = [finding for finding in report.findings if finding.code == "barrier-divergence"]
    assert [finding.message for finding in found] == ["lanes of a warp wait at two different barrier operations"]
    assert "lanes 16-31 of warp 0" in found[0].sites[0].text
    assert "other lanes of warp 0" in found[0].sites[1].text


@cuda.jit
def together_again(out):
    t = cuda.threadIdx.x
    if t % 2 == 0:
        ptx.barrier_sync(1, 64)
    else:
        ptx.barrier_sync(1, 64)
    cuda.syncthreads()
    if t % 4 < 2:
        if t % 2 == 0:
            ptx.barrier_sync(2, 64)
        else:
            ptx.barrier_sync(2, 64)
    else:
        ptx.barrier_sync(2, 64)
    out[t] = cuda.syncthreads_count(1)


def test_lanes_meet_again_after_unaligned_barriers(run):
    out = numbers(64)
    assert run(together_again, 64, out).verdict == "verified"
    assert (out == 64).all()


@cuda.jit
def halves(out, mine, count, other):
    t = cuda.threadIdx.x
    if t < 16:
        ptx.barrier_sync(mine, count)
    elif t < 32:
        ptx.barrier_sync(1, 64)
    else:
        ptx.barrier_sync(other, 64)
    out[t] = 1


@pytest.mark.parametrize(
    ("mine", "count", "other", "expected"),
    [
        (1, 64, 1, []),
        (2, 64, 1, ["barrier-divergence"]),
        (2, 64, 2, ["barrier-divergence"]),
        (1, 32, 1, ["barrier-divergence"]),
        (99, 64, 1, ["invalid-barrier"]),
        (1, 48, 1, ["invalid-barrier"]),
    ],
)
def test_b12_halves_of_a_warp_at_different_unaligned_barriers(run, mine, count, other, expected):
    assert codes(run(halves, 64, numbers(64), mine, count, other)) == expected


@cuda.jit
def halves_of_two_kinds(kind):
    t = cuda.threadIdx.x
    if t < 16:
        if kind == 0:
            ptx.barrier_arrive(1, 64)
        elif kind == 1:
            ptx.barrier_red_popc(1, 64, True)
        else:
            ptx.bar_sync(1, 64)
    elif t < 32:
        ptx.barrier_sync(1, 64)
    else:
        ptx.barrier_sync(1, 64)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (0, ["barrier-divergence"]),
        (1, ["barrier-divergence"]),
        (2, ["barrier-divergence", "barrier-divergence"]),
    ],
)
def test_b12_halves_of_a_warp_in_different_operations(run, kind, expected):
    report = run(halves_of_two_kinds, 64, kind)
    assert report.verdict == "failed"
    assert sorted(code for code in codes(report) if code != "count-mismatch") == sorted(expected)


@cuda.jit
def popc_of_two_halves(out):
    t = cuda.threadIdx.x
    total = 0
    if t % 32 < 16:
        total = ptx.barrier_red_popc(1, 64, t < 40)
    else:
        total = ptx.barrier_red_popc(1, 64, t != 20)
    every = False
    if t < 7:
        every = ptx.barrier_red_and(1, 64, t == t)
    else:
        every = ptx.barrier_red_and(1, 64, t > 2)
    out[0, t] = total
    out[1, t] = every


def test_the_predicates_of_both_halves_of_a_warp_are_reduced(run):
    out = np.zeros((2, 64), np.int64)
    assert run(popc_of_two_halves, 64, out).verdict == "verified"
    assert set(out[0].tolist()) == {16 + 15 + 8 + 16}
    assert (out[1] == 1).all()


@cuda.jit
def others_wait_at_the_join(out):
    t = cuda.threadIdx.x
    if t == 0:
        ptx.barrier_sync(1, 64)
    if t >= 32:
        ptx.bar_sync(1, 64)
    cuda.syncthreads()
    out[t] = 1


def test_b14_lanes_that_come_to_another_barrier_than_one_at_an_unaligned_sync_diverge(run):
    assert set(codes(run(others_wait_at_the_join, 64, numbers(64)))) == {"barrier-divergence"}


@cuda.jit
def half_then_whole(out):
    t = cuda.threadIdx.x
    if t % 32 < 16:
        cuda.syncthreads()
    cuda.syncthreads()
    out[t] = 1


def test_lanes_at_a_join_wait_for_those_at_an_aligned_barrier(run):
    assert codes(run(half_then_whole, 64, numbers(64))) == ["barrier-divergence"]


# -- B14: an operation by a part of a warp --------------------------------------------------------------------------
@cuda.jit
def half_stores_half_arrives(y, layout):
    tile = cuda.shared.array(32, np.int32)
    t = cuda.threadIdx.x
    lane = t % 32
    if t >= 32:
        if layout == 0:
            if lane < 16:
                tile[lane] = lane
            else:
                ptx.barrier_arrive(1, 64)
        elif layout == 1:
            if lane >= 16:
                ptx.barrier_arrive(1, 64)
            else:
                tile[lane] = lane
        elif layout == 2:
            if lane < 16:
                tile[lane] = lane
                return
            ptx.barrier_arrive(1, 64)
        elif layout == 3:
            tile[lane] = lane
            if lane == 5:
                ptx.barrier_arrive(1, 64)
        elif layout == 4:
            if lane < 16:
                tile[lane] = lane
                return
            ptx.barrier_sync(1, 64)
        else:
            if lane < 16:
                tile[lane] = lane
                return
            ptx.bar_arrive(1, 64)
    else:
        ptx.bar_sync(1, 64)
        if lane < 4:
            y[lane] = tile[lane]


@pytest.mark.parametrize("layout", range(6))
def test_b14_what_other_lanes_of_its_warp_stored_is_not_given_by_an_operation(run, layout):
    report = run(half_stores_half_arrives, 64, numbers(32), layout)
    assert codes(report) == ["race"]
    assert "lanes 0-3 of warp 0" in report.findings[0].sites[0].text
    assert "of warp 1 " in report.findings[0].help
    assert "let all its lanes come there, after line" in report.findings[0].help
    assert ("syncwarp" in report.findings[0].help) == (layout == 3)


@cuda.jit
def half_gives(y, layout):
    tile = cuda.shared.array(32, np.int32)
    t = cuda.threadIdx.x
    lane = t % 32
    if t >= 32:
        tile[lane] = lane
        if layout == 0:
            cuda.syncwarp()
            if lane == 5:
                ptx.barrier_arrive(1, 64)
        elif layout == 1:
            cuda.syncwarp()
            if lane < 16:
                return
            ptx.bar_arrive(1, 64)
        else:
            if cuda.shfl_sync(0xFFFFFFFF, lane, 0) == lane:
                ptx.barrier_sync(1, 64)
    else:
        ptx.bar_sync(1, 64)
        y[lane] = tile[lane]


@pytest.mark.parametrize("layout", range(3))
def test_b14_what_lanes_learnt_by_a_warp_wide_operation_is_given(run, layout):
    y = numbers(32)
    assert run(half_gives, 64, y, layout).verdict == "verified"
    assert (y == range(32)).all()


@cuda.jit
def own_store(y, reads_all):
    tile = cuda.shared.array(32, np.int32)
    t = cuda.threadIdx.x
    lane = t % 32
    if t >= 32:
        tile[lane] = lane
        if lane == 5:
            ptx.barrier_arrive(1, 64)
    else:
        ptx.bar_sync(1, 64)
        if lane == 5 or reads_all:
            y[lane] = tile[lane]


@pytest.mark.parametrize(("reads_all", "expected"), [(0, []), (1, ["race"])])
def test_b14_what_the_lane_itself_stored_is_given(run, reads_all, expected):
    report = run(own_store, 64, numbers(32), reads_all)
    assert codes(report) == expected
    assert not expected or "lanes 0, 1, 2, 3" in report.findings[0].sites[0].text


@cuda.jit
def part_waits(y, meets):
    tile = cuda.shared.array(32, np.int32)
    t = cuda.threadIdx.x
    lane = t % 32
    if t >= 32:
        tile[lane] = lane
        ptx.bar_arrive(1, 64)
        return
    if lane == 0 or meets:
        ptx.barrier_sync(1, 64)
    y[lane] = tile[lane]


@pytest.mark.parametrize(("meets", "expected"), [(0, ["race"]), (1, [])])
def test_b14_a_part_that_syncs_learns_for_itself(run, meets, expected):
    found = codes(run(part_waits, 64, numbers(32), meets))
    assert [code for code in found if code != "uninitialized-read"] == expected


@cuda.jit
def exits_without_count(y, counted):
    tile = cuda.shared.array(32, np.int32)
    t = cuda.threadIdx.x
    lane = t % 32
    if t >= 32 and lane < 16:
        tile[lane] = lane
        return
    if counted:
        ptx.bar_sync(1, 64)
    else:
        cuda.syncthreads()
    if t < 16:
        y[t] = tile[t]


@pytest.mark.parametrize(("counted", "expected"), [(1, ["race"]), (0, [])])
def test_b7_b14_exited_lanes_belong_to_a_barrier_without_a_count_alone(run, counted, expected):
    assert codes(run(exits_without_count, 64, numbers(32), counted)) == expected


@cuda.jit
def arrives_apart(y, count):
    t = cuda.threadIdx.x
    if t >= 32:
        if t % 32 < 16:
            ptx.barrier_arrive(1, count)
        else:
            ptx.barrier_arrive(1, count)
    else:
        ptx.bar_sync(1, count)
        y[t] = 1


@pytest.mark.parametrize(("count", "expected"), [(64, set()), (96, {"deadlock", "oversubscribed"})])
def test_b3_b14_an_arrive_in_each_branch_counts_once(run, count, expected):
    assert set(codes(run(arrives_apart, 64, numbers(32), count))) == expected


@cuda.jit
def gives_from_each_branch(y):
    tile = cuda.shared.array(32, np.int32)
    t = cuda.threadIdx.x
    lane = t % 32
    if t >= 32:
        tile[lane] = lane
        if lane < 16:
            ptx.barrier_arrive(1, 64)
        else:
            ptx.barrier_arrive(1, 64)
    else:
        ptx.bar_sync(1, 64)
        y[lane] = tile[lane]


def test_b14_all_that_stand_there_together_give_what_they_know(run):
    y = numbers(32)
    assert run(gives_from_each_branch, 64, y).verdict == "verified"
    assert (y == range(32)).all()


@cuda.jit
def stands_apart(y, layout):
    t = cuda.threadIdx.x
    lane = t % 32
    if t < 32:
        ptx.bar_sync(1, 64)
    elif layout == 0:
        if lane < 16:
            ptx.barrier_arrive(1, 64)
        cuda.syncwarp()
    elif layout == 1:
        if lane < 16:
            ptx.barrier_arrive(1, 64)
        y[t] = cuda.shfl_sync(0xFFFFFFFF, t, 0)
    elif layout == 2:
        if lane < 16:
            ptx.barrier_arrive(1, 64)
        else:
            cuda.syncwarp()
    elif lane < 16:
        ptx.barrier_sync(1, 64)
    else:
        cuda.syncwarp()


@pytest.mark.parametrize("layout", range(4))
def test_b14_lanes_at_a_barrier_and_at_a_warp_wide_operation_wait_for_each_other(run, layout):
    report = run(stands_apart, 64, numbers(64), layout)
    (found,) = report.findings
    assert (report.verdict, found.code, found.holds_in) == ("failed", "deadlock", "every schedule")
    assert "lanes 0-15 of warp 1 wait at barrier 1 for lanes 16-31, which wait for them at line" in found.message
    assert [site.text for site in found.sites if "lanes 16-31 of warp 1 wait for lanes 0-15" in site.text]
    what = "sync" if layout == 3 else "arrive"
    assert found.help.startswith(f"{what} in all lanes of warp 1")
    moved = "both out of their branches" if layout > 1 else f"the {what} out of the branch"
    assert found.help.endswith(f": move {moved}")
    assert any("a warp is counted once" in note for note in found.notes)


@cuda.jit
def meets_its_half(y):
    t = cuda.threadIdx.x
    lane = t % 32
    if t < 32:
        ptx.bar_sync(1, 64)
    elif lane < 16:
        ptx.barrier_arrive(1, 64)
    else:
        cuda.syncwarp(0xFFFF0000)
        y[t] = cuda.shfl_sync(0xFFFF0000, t, 16)


def test_b14_a_warp_wide_operation_of_the_other_lanes_alone_lets_them_go_on(run):
    assert run(meets_its_half, 64, numbers(64)).verdict == "verified"


@cuda.jit
def stands_apart_beside_a_loop(flag):
    t = cuda.threadIdx.x
    if t < 32:
        while flag[0] == 0:
            pass
    elif t < 48:
        ptx.barrier_arrive(1, 64)
    else:
        cuda.syncwarp()


def test_b14_lanes_that_wait_for_each_other_beside_a_loop_are_told(run):
    report = run(stands_apart_beside_a_loop, 64, numbers(1), budget=2_000)
    assert report.verdict == "incomplete"
    assert "lanes 0-15 of warp 1 wait at barrier 1 for lanes 16-31" in report.notes[0]


@cuda.jit
def polls(flag, first):
    t = cuda.threadIdx.x
    if t >= 32:
        if (t % 32 < 16) == first:
            ptx.barrier_arrive(1, 64)
        else:
            while flag[0] == 0:
                pass
    else:
        ptx.bar_sync(1, 64)
        cuda.atomic.exch(flag, 0, 1)


@pytest.mark.parametrize("first", [False, True])
def test_b14_lanes_that_poll_hold_back_an_arrive_of_their_warp(run, first):
    flag = numbers(1)
    report = run(polls, 64, flag, first, budget=2_000)
    assert report.verdict == "incomplete"
    assert flag[0] == 0
    waits, come = ("0-15", "16-31") if first else ("16-31", "0-15")
    assert f"lanes {waits} of warp 1 wait for lanes {come}, which come to no warp-wide operation" in report.notes[0]


@cuda.jit
def popc_of_a_part(out):
    t = cuda.threadIdx.x
    if t >= 32 and t % 32 < 16:
        return
    out[t] = ptx.bar_red_popc(1, 64, t % 2)


def test_b14_a_reduction_waits_for_lanes_to_exit(run):
    out = numbers(64)
    assert run(popc_of_a_part, 64, out).verdict == "verified"
    assert set(out[:32].tolist()) == {24}
