"""Which instructions depend on the order of atomics, and which atomics leave other values in another order."""

from __future__ import annotations

import inspect
from dataclasses import replace

import numpy as np
import pytest

import wsemu
from wsemu import cuda, ptx
from wsemu.launch.binding import bind
from wsemu.launch.compiled import compile_for_types
from wsemu.model.isa import NAMES, SEGMENT_SHIFT
from wsemu.proof.taint import examine, find_tainted, order_dependent
from wsemu.reference import run as reference


class Run:
    """A launch on the reference engine, and what the analysis says about it."""

    def __init__(self, kernel, threads, *arguments, grid=1, bound=True, dynamic_shared=0):
        self.first_line = inspect.getsourcelines(kernel.py_func)[1]
        self.lines = inspect.getsourcelines(kernel.py_func)[0]
        self.program, names, _ = compile_for_types(kernel, arguments, True)
        rows, memory, _ = bind(self.program, arguments, names)
        outcome = reference.run(
            self.program, (grid, 1, 1), (threads, 1, 1), rows, memory.segments, dynamic_shared=dynamic_shared,
            budget=20_000,
        )  # fmt: skip
        segment_of = (lambda row: int(rows[row][1]) >> SEGMENT_SHIFT) if bound else None
        self.tainted = find_tainted(self.program, outcome.executions, segment_of)
        self.notes = order_dependent(self.program, outcome.executions, segment_of)
        self.executions = outcome.executions

    def source(self, pc):
        """The source line of an instruction, without a comment."""
        line = self.program.spans[self.program.span_of[pc]].line
        return self.lines[line - self.first_line].partition("#")[0].strip()

    @property
    def sinks(self):
        """{(source line, what)}"""
        return {(self.source(t.pc), t.what) for t in self.tainted}

    @property
    def whats(self):
        """What is reported, in order."""
        return [t.what for t in self.tainted]

    @property
    def reasons(self):
        """[(source line of the atomic, text)]"""
        return [(self.source(pc), text) for pc, text in self.notes]


def ints(n=64, value=0):
    return np.full(n, value, np.int32)


# -- control and addresses -------------------------------------------------------------------------------------------
@cuda.jit
def spin_lock(lock, total):
    if cuda.threadIdx.x == 0:
        while cuda.atomic.cas(lock, 0, 0, 1) != 0:
            pass
        total[0] += 1
        cuda.threadfence()
        cuda.atomic.exch(lock, 0, 0)


def test_a_spin_lock_taints_the_branch_of_its_loop():
    run = Run(spin_lock, 32, ints(1), ints(1), grid=2)
    assert run.sinks == {("while cuda.atomic.cas(lock, 0, 0, 1) != 0:", "branch")}
    assert run.source(run.tainted[0].source) == "while cuda.atomic.cas(lock, 0, 0, 1) != 0:"


@cuda.jit
def spin_flag(flag, y):
    i = cuda.threadIdx.x
    if i == 0:
        cuda.atomic.exch(flag, 0, 1)
    while cuda.atomic.add(flag, 0, 0) == 0:
        pass
    y[i] = 1


def test_a_spin_wait_taints_its_branch():
    run = Run(spin_flag, 64, ints(1), ints())
    assert run.sinks == {("while cuda.atomic.add(flag, 0, 0) == 0:", "branch")}


@cuda.jit
def work_queue(counter, x, y, n):
    i = cuda.atomic.add(counter, 0, 1)
    while i < n:
        y[i] = x[i]
        i = cuda.atomic.add(counter, 0, 1)


def test_a_work_queue_taints_its_end_and_addresses():
    run = Run(work_queue, 32, ints(1), ints(100, 3), ints(100), 100)
    assert ("y[i] = x[i]", "address") in run.sinks
    assert {what for _, what in run.sinks} == {"exit", "address"}, "the loop ends the thread"
    addresses = [t for t in run.tainted if t.what == "address"]
    assert len(addresses) == 2


def test_instructions_that_were_not_executed_are_not_reported():
    run = Run(work_queue, 32, ints(1), ints(100, 3), ints(100), 0)
    assert "address" not in {what for _, what in run.sinks}
    assert run.tainted


def test_an_atomic_that_was_not_executed_is_no_source():
    @cuda.jit
    def never(counter, y, n):
        i = 0
        if n > 10:
            i = cuda.atomic.add(counter, 0, 1)
        if i == 0:
            y[cuda.threadIdx.x] = 1

    assert Run(never, 32, ints(1), ints(), 11).sinks
    run = Run(never, 32, ints(1), ints(), 3)
    assert run.tainted == []
    assert examine(run.program, run.executions) is None


@cuda.jit
def last_arrival(count, partial, y):
    i = cuda.blockIdx.x
    partial[i] = i
    cuda.threadfence()
    if cuda.atomic.add(count, 0, 1) == cuda.gridDim.x - 1:
        y[0] = partial[0] + partial[1]


def test_the_last_of_the_ctas_is_chosen_by_a_tainted_branch():
    run = Run(last_arrival, 1, ints(1), ints(), ints(1), grid=2)
    assert run.whats == ["branch"]


def test_an_early_return_is_a_tainted_exit():
    @cuda.jit
    def leave(counter, y):
        if cuda.atomic.add(counter, 0, 1) > 5:
            return
        y[cuda.threadIdx.x] = 1
        cuda.syncthreads()
        y[cuda.threadIdx.x] = 2

    run = Run(leave, 32, ints(1), ints())
    assert run.whats == ["exit"]


def test_a_choice_without_a_branch_carries_taint_to_an_address():
    @cuda.jit
    def choose(counter, y):
        old = cuda.atomic.add(counter, 0, 1)
        i = cuda.selp(old > 3, 1, 2)
        y[i] = 5

    assert Run(choose, 1, ints(1), ints()).sinks == {("y[i] = 5", "address")}


def test_taint_carried_around_a_loop():
    @cuda.jit
    def carried(counter, y, n):
        a, b, c = 0, 0, 0
        for k in range(n):
            if c > 100:
                y[k] = 1
            c = b
            b = a
            a = cuda.atomic.add(counter, 0, 1)

    run = Run(carried, 1, ints(1), ints(), 5)
    assert run.whats == ["branch"]


def test_the_side_of_a_branch_that_runs_second_does_not_hide_the_taint_of_the_first():
    @cuda.jit
    def sides(counter, y):
        i = cuda.threadIdx.x
        if i < 16:
            v = cuda.atomic.add(counter, 0, 1)
        else:
            v = i
        y[v] = 1

    assert Run(sides, 32, ints(1), ints()).sinks == {("y[v] = 1", "address")}

    @cuda.jit
    def other_side(counter, y):
        i = cuda.threadIdx.x
        if i < 16:
            v = i
        else:
            v = cuda.atomic.add(counter, 0, 1)
        y[v] = 1

    assert Run(other_side, 32, ints(1), ints()).sinks == {("y[v] = 1", "address")}


def test_lanes_that_waited_at_a_join_nobody_else_came_to():
    @cuda.jit
    def left(counter, x, y):
        i = cuda.threadIdx.x
        old = cuda.atomic.add(counter, 0, 1)
        if i < 16:
            y[i] = 1
            if x[i] > 0:
                return
            y[i + 16] = 3
        y[old] = 1

    run = Run(left, 32, ints(1), ints(64, 1), ints())
    joins = [pc for pc, fields in enumerate(run.program.code.tolist()) if NAMES[fields[0]] == "join"]
    assert [run.executions[pc] for pc in joins] == [0]
    assert run.sinks == {("y[old] = 1", "address")}


# -- clean programs --------------------------------------------------------------------------------------------------
@cuda.jit
def histogram(x, y):
    bins = cuda.shared.array(16, np.int32)
    i = cuda.threadIdx.x
    if i < 16:
        bins[i] = 0
    cuda.syncthreads()
    cuda.atomic.add(bins, x[i] % 16, 1)
    cuda.syncthreads()
    if i < 16 and bins[i] > 2:
        y[bins[i]] = 1


def test_sums_of_integers_are_clean_after_a_barrier():
    run = Run(histogram, 64, ints(64, 3), ints(65))
    assert run.tainted == []
    assert run.notes == []


@pytest.mark.parametrize("name", ["add", "sub", "min", "max", "and_", "or_", "xor"])
def test_integer_operations_commute(name):
    operation = getattr(cuda.atomic, name)

    @cuda.jit
    def reduce(x, total, y):
        i = cuda.threadIdx.x
        operation(total, 0, x[i])
        cuda.syncthreads()
        if total[0] > 5:
            y[i] = total[0]

    run = Run(reduce, 64, ints(64, 7), ints(1), ints())
    assert run.tainted == []
    assert run.notes == []


def test_maximum_whose_result_nobody_uses_is_clean():
    @cuda.jit
    def largest(x, best):
        cuda.atomic.max(best, 0, x[cuda.threadIdx.x])

    run = Run(largest, 64, np.ones(64, np.float32), np.zeros(1, np.float32))
    assert run.tainted == []
    assert run.notes == []


def test_a_program_without_atomics_is_not_looked_at():
    @cuda.jit
    def plain(x):
        x[cuda.threadIdx.x] += 1

    run = Run(plain, 32, ints())
    assert examine(run.program, run.executions) is None
    assert run.tainted == []
    assert run.notes == []


def test_rows_used_again_are_clean():
    @cuda.jit
    def again(counter, x, y):
        i = cuda.threadIdx.x
        total = 0
        for k in range(4):
            y[i] = cuda.atomic.add(counter, 0, 1)
            a = x[i] + k
            b = a * 3
            if b > 4:
                total += b
            c = x[a % 7]
            if c == total:
                x[i + 64] = c

    run = Run(again, 32, ints(1), ints(128, 2), ints())
    results = {int(run.program.code[pc, 2]) for pc in {pc for pc, _ in run.notes}}
    code = run.program.code.tolist()
    rewritten = [pc for pc, fields in enumerate(code) if fields[2] in results]
    assert len(rewritten) > 1, "the allocator gives the atomic's row to another value as well"
    assert run.tainted == []


@pytest.mark.parametrize(("what", "limit"), [("inc", 7), ("dec", 7)])
def test_counting_with_one_limit_commutes(what, limit):
    operation = getattr(cuda.atomic, what)

    @cuda.jit
    def count(counter, y, limit):
        operation(counter, 0, limit)
        cuda.syncthreads()
        if counter[0] > 3:
            y[cuda.threadIdx.x] = 1

    run = Run(count, 64, np.zeros(1, np.uint32), ints(), np.uint32(limit))
    assert run.tainted == []
    assert run.notes == []


def test_one_function_applied_by_all_commutes():
    @cuda.jit
    def same(flag, weight, y):
        cuda.atomic.exch(flag, 0, 1)
        cuda.atomic.add(weight, 0, 0.1)
        cuda.syncthreads()
        if flag[0] == 1 and weight[0] > 1:
            y[cuda.threadIdx.x] = 1

    run = Run(same, 64, ints(1), np.zeros(1, np.float32), ints())
    assert run.tainted == []
    assert run.notes == []


# -- through memory --------------------------------------------------------------------------------------------------
def test_a_result_stored_in_an_array_taints_what_is_loaded_from_it():
    @cuda.jit
    def ranks(counter, rank, y):
        i = cuda.threadIdx.x
        rank[i] = cuda.atomic.add(counter, 0, 1)
        cuda.syncthreads()
        if rank[63 - i] == 7:
            y[0] = i

    run = Run(ranks, 64, ints(1), ints(), ints(1))
    assert run.whats == ["branch"]
    assert [text for _, text in run.reasons] == [
        "the old values that it returns depend on the order, and so does what is left in `rank`"
    ]


def test_a_load_that_stands_before_the_store_it_reads():
    @cuda.jit
    def handed(counter, y):
        rank = cuda.shared.array(64, np.int32)
        i = cuda.threadIdx.x
        if i < 32:
            ptx.bar_sync(1, 64)
            first = rank[i]
            if i > 3:
                y[first] = 1
        else:
            rank[i - 32] = cuda.atomic.add(counter, 0, 1)
            ptx.bar_arrive(1, 64)

    assert Run(handed, 64, ints(1), ints()).sinks == {("y[first] = 1", "address")}


def test_through_shared_memory_too():
    @cuda.jit
    def broadcast(counter, x, y):
        start = cuda.shared.array(1, np.int32)
        other = cuda.shared.array(64, np.int32)
        i = cuda.threadIdx.x
        other[i] = x[i]
        if i == 0:
            start[0] = cuda.atomic.add(counter, 0, 64)
        cuda.syncthreads()
        if other[63 - i] > 0:
            y[start[0] + i] = x[i]

    run = Run(broadcast, 64, ints(1), ints(64, 1), ints())
    assert run.sinks == {("y[start[0] + i] = x[i]", "address")}


def test_through_local_memory_too():
    @cuda.jit
    def private(counter, y):
        kept = cuda.local.array(4, np.int32)
        clean = cuda.local.array(4, np.int32)
        i = cuda.threadIdx.x
        kept[i % 4] = cuda.atomic.add(counter, 0, 1)
        clean[i % 4] = i
        y[clean[i % 4]] = 1
        y[kept[i % 4]] = 2

    assert Run(private, 32, ints(1), ints()).sinks == {("y[kept[i % 4]] = 2", "address")}


def test_through_dynamic_shared_memory_under_two_names():
    @cuda.jit
    def views(counter, y):
        a = cuda.shared.array(0, np.int32)
        b = cuda.shared.array(0, np.uint32)
        i = cuda.threadIdx.x
        a[i] = cuda.atomic.add(counter, 0, 1)
        cuda.syncthreads()
        y[b[i]] = 1

    assert Run(views, 32, ints(1), ints(), dynamic_shared=128).sinks == {("y[b[i]] = 1", "address")}


def test_arrays_are_told_apart_by_what_is_bound_to_them():
    @cuda.jit
    def two(counter, out, x, y):
        i = cuda.threadIdx.x
        out[i] = cuda.atomic.add(counter, 0, 1)
        if x[i + 64] > 0:
            y[i] = 1

    assert Run(two, 32, ints(1), ints(), ints(128, 1), ints()).tainted == []
    assert Run(two, 32, ints(1), ints(), ints(128, 1), ints(), bound=False).whats == ["branch"]
    run = Run(two, 32, ints(1), ints(), ints(128, 1), ints())
    unknown = [p.row for p in run.program.parameters if p.part == "address"][1]
    assert find_tainted(run.program, run.executions, lambda row: None if row == unknown else row)
    assert find_tainted(replace(run.program, parameters=[]), run.executions), (
        "an address from nowhere may be any array's"
    )
    together = ints(128, 1)
    assert Run(two, 32, ints(1), together, together, ints()).whats == ["branch"]


def test_each_element_of_a_vector_is_followed():
    @cuda.jit
    def pairs(counter, x, y):
        kept = cuda.shared.array(64, np.int32)
        i = cuda.threadIdx.x
        ptx.st_v2(kept, 2 * i, (i, cuda.atomic.add(counter, 0, 1)))
        a, b = ptx.ld_v2(kept, 2 * i)
        y[b] = 1
        c, d = ptx.ld_v2(x, 2 * i)
        y[a + c + d] = 1

    run = Run(pairs, 32, ints(1), ints(), ints())
    assert run.sinks == {("y[b] = 1", "address"), ("y[a + c + d] = 1", "address")}


def test_a_view_that_may_reach_into_the_next_array_joins_them():
    @cuda.jit
    def reaches(counter, y, n):
        a = cuda.shared.array(4, np.int32)
        b = cuda.shared.array(8, np.int32)
        b[0] = 1
        a.reshape(n)[cuda.threadIdx.x] = cuda.atomic.add(counter, 0, 1)
        y[b[0]] = 1

    assert Run(reaches, 1, ints(1), ints(), 12).sinks == {("y[b[0]] = 1", "address")}


def test_a_value_stored_at_a_tainted_address_taints_the_array():
    @cuda.jit
    def scatter(counter, x, y, z):
        i = cuda.threadIdx.x
        y[cuda.atomic.add(counter, 0, 1)] = x[i]
        cuda.syncthreads()
        if y[i] > 2:
            z[i] = 1

    run = Run(scatter, 32, ints(1), ints(), ints(), ints())
    assert run.whats == ["address", "branch"]


def test_an_atomic_with_a_tainted_operand_taints_its_array():
    @cuda.jit
    def weigh(counter, total, y):
        i = cuda.threadIdx.x
        cuda.atomic.max(total, 0, cuda.atomic.add(counter, 0, 1) * i)
        cuda.syncthreads()
        if total[0] > 2:
            y[i] = 1

    assert Run(weigh, 32, ints(1), ints(1), ints()).whats == ["branch"]


def test_a_table_of_constants_stays_clean():
    table = np.arange(8, dtype=np.int32)

    @cuda.jit
    def look_up(counter, y):
        i = cuda.threadIdx.x
        y[i] = cuda.atomic.add(counter, 0, 1)
        y[table[i % 8]] = 1

    assert Run(look_up, 1, ints(1), ints()).tainted == []


def test_a_vector_that_may_reach_into_the_next_array_joins_them():
    @cuda.jit
    def reaches(counter, y):
        a = cuda.shared.array(3, np.int32)
        b = cuda.shared.array(8, np.int32)
        b[0] = 1
        old = cuda.atomic.add(counter, 0, 1)
        ptx.st_v2(a, 2, (old, old))
        y[b[0]] = 1

    @cuda.jit
    def stays(counter, y):
        a = cuda.shared.array(4, np.int32)
        b = cuda.shared.array(8, np.int32)
        b[0] = 1
        old = cuda.atomic.add(counter, 0, 1)
        ptx.st_v2(a, 2, (old, old))
        y[b[0]] = 1

    assert Run(reaches, 1, ints(1), ints()).sinks == {("y[b[0]] = 1", "address")}
    assert Run(stays, 1, ints(1), ints()).tainted == []


# -- exchange among lanes and warps ----------------------------------------------------------------------------------
def test_a_warp_aggregated_atomic_taints_the_address_made_of_it():
    @cuda.jit
    def aggregated(counter, x, y):
        lane = cuda.laneid
        votes = cuda.ballot_sync(-1, x[lane] > 0)
        start = 0
        if lane == 0:
            start = cuda.atomic.add(counter, 0, cuda.popc(votes))
        start = cuda.shfl_sync(-1, start, 0)
        if x[lane] > 0:
            y[start + cuda.popc(votes & cuda.lanemask_lt())] = x[lane]

    run = Run(aggregated, 32, ints(1), ints(32, 1), ints())
    assert {what for _, what in run.sinks} == {"address"}
    assert {source.split(" =")[0] for source, _ in run.sinks} == {"y[start + cuda.popc(votes & cuda.lanemask_lt())]"}


def test_votes_about_a_result_are_tainted():
    @cuda.jit
    def decide(counter, x, y):
        high = cuda.atomic.add(counter, 0, 1) > 5
        some, every, same = cuda.any_sync(-1, high), cuda.all_sync(-1, high), cuda.eq_sync(-1, high)
        y[cuda.selp(some, 1, 2)] = 1
        y[cuda.selp(every, 3, 4)] = 1
        y[cuda.selp(same, 5, 6)] = 1
        y[cuda.ballot_sync(-1, high) & 31] = 1
        y[cuda.popc(cuda.ballot_sync(-1, x[9] > 5))] = 1

    assert Run(decide, 1, ints(1), ints(), ints()).whats == ["address"] * 4


def test_matching_results_is_tainted_and_so_is_a_shuffle_from_such_a_lane():
    @cuda.jit
    def matched(counter, y):
        old = cuda.atomic.add(counter, 0, 1)
        y[cuda.match_any_sync(-1, old) & 31] = 1
        _, same = cuda.match_all_sync(-1, old)
        if same:
            y[0] = 1
        y[cuda.shfl_sync(-1, cuda.laneid, old)] = 2

    assert Run(matched, 32, ints(1), ints()).whats == ["address", "branch", "address"]


def test_a_member_mask_made_of_a_result_is_reported():
    @cuda.jit
    def members(counter):
        cuda.syncwarp(cuda.atomic.or_(counter, 0, 1) | -1)

    assert {what for _, what in Run(members, 32, ints(1)).sinks} == {"member mask"}


def test_a_barrier_count_made_of_a_result_is_reported():
    @cuda.jit
    def counted(counter):
        n = cuda.atomic.and_(counter, 0, 0)
        ptx.bar_sync(1 + n, 64)
        ptx.bar_sync(3, 64 + n)

    run = Run(counted, 64, ints(1))
    assert run.sinks == {("ptx.bar_sync(1 + n, 64)", "barrier operand"), ("ptx.bar_sync(3, 64 + n)", "barrier operand")}


def test_what_a_barrier_reduces_reaches_all_that_take_part():
    @cuda.jit
    def reduced(counter, y):
        i = cuda.threadIdx.x
        if i < 32:
            n = ptx.bar_red_popc(1, 64, cuda.atomic.add(counter, 0, 1) > 5)
        else:
            n = ptx.bar_red_popc(1, 64, i > 40)
            if n > 3:
                y[i] = 1

    assert Run(reduced, 64, ints(1), ints()).whats == ["branch"]


def test_a_barrier_that_reduces_clean_values_is_clean():
    @cuda.jit
    def counted(counter, x, y):
        i = cuda.threadIdx.x
        y[i] = cuda.atomic.add(counter, 0, 1)
        if cuda.syncthreads_count(x[i]) > 3:
            y[i] += 1

    assert Run(counted, 64, ints(1), ints(64, 1), ints()).tainted == []


# -- device functions ------------------------------------------------------------------------------------------------
@cuda.jit(device=True)
def take(y):
    return cuda.atomic.add(y, 0, 1)


@cuda.jit
def through_a_function(counter, y):
    y[cuda.threadIdx.x + 1] = take(counter)


def test_a_parameter_of_a_device_function_named_as_another_array_is_kept_apart():
    run = Run(through_a_function, 32, ints(1), ints())
    assert run.tainted == []
    assert len(run.notes) == 1

    @cuda.jit
    def used(counter, y):
        y[take(counter)] = 1

    assert Run(used, 32, ints(1), ints()).sinks == {("y[take(counter)] = 1", "address")}


# -- the values left in memory ---------------------------------------------------------------------------------------
def test_a_result_that_is_only_stored_is_clean_and_noted():
    @cuda.jit
    def ticket(counter, y):
        y[cuda.threadIdx.x] = cuda.atomic.add(counter, 0, 1)

    run = Run(ticket, 32, ints(1), ints())
    assert run.tainted == []
    assert run.reasons == [(
        "y[cuda.threadIdx.x] = cuda.atomic.add(counter, 0, 1)",
        "the old values that it returns depend on the order, and so does what is left in `y`",
    )]  # fmt: skip


def test_sums_of_floats_are_noted_and_taint_what_is_loaded():
    @cuda.jit
    def total(x, sums, y):
        i = cuda.threadIdx.x
        cuda.atomic.add(sums, 0, x[i])
        cuda.syncthreads()
        y[i] = x[i] / sums[0]
        if sums[0] > 1:
            y[i] += 1

    run = Run(total, 64, np.ones(64, np.float32), np.zeros(1, np.float32), np.zeros(64, np.float32))
    assert run.whats == ["branch"]
    assert run.reasons == [(
        "cuda.atomic.add(sums, 0, x[i])",
        "floating-point additions round, so their sum depends on the order, and so does what is left in `sums`, `y`",
    )]  # fmt: skip


def test_a_sum_of_floats_in_shared_memory_is_noted_where_it_reaches_an_array():
    @cuda.jit
    def block_sum(x, y):
        part = cuda.shared.array(1, np.float32)
        i = cuda.threadIdx.x
        if i == 0:
            part[0] = 0
        cuda.syncthreads()
        cuda.atomic.add(part, 0, x[i])
        cuda.syncthreads()
        if i == 0:
            y[cuda.blockIdx.x] = part[0]

    run = Run(block_sum, 64, np.ones(64, np.float32), np.zeros(1, np.float32))
    assert run.tainted == []
    assert [text.rpartition("left in ")[2] for _, text in run.reasons] == ["`y`"]


def test_atomics_of_different_kinds_on_one_array_do_not_commute():
    @cuda.jit
    def mixed(x, total, y):
        i = cuda.threadIdx.x
        cuda.atomic.add(total, 0, x[i])
        cuda.atomic.max(total, 0, x[i])
        cuda.syncthreads()
        if total[0] > 2:
            y[i] = 1

    run = Run(mixed, 64, ints(64, 1), ints(1), ints())
    assert run.whats == ["branch"]
    both = "`cuda.atomic.add` and `cuda.atomic.max`"
    text = f"what {both} on one array make of it depends on the order, and so does what is left in `total`"
    assert [reason for _, reason in run.reasons] == [text, text]


@pytest.mark.parametrize("what", ["exch", "inc", "dec"])
def test_atomics_with_other_operands_in_each_thread_do_not_commute(what):
    operation = getattr(cuda.atomic, what)

    @cuda.jit
    def differing(x, last, y):
        i = cuda.threadIdx.x
        operation(last, 0, x[i])
        cuda.syncthreads()
        if last[0] > 2:
            y[i] = 1

    run = Run(differing, 64, np.arange(64, dtype=np.uint32), np.zeros(1, np.uint32), ints())
    assert run.whats == ["branch"]
    assert [f"`cuda.atomic.{what}`" in text for _, text in run.reasons] == [True]


def test_compare_and_swap_with_other_operands_does_not_commute():
    @cuda.jit
    def first(winner, y):
        i = cuda.threadIdx.x
        cuda.atomic.cas(winner, 0, 0, i + 1)
        cuda.syncthreads()
        y[winner[0]] = 1

    run = Run(first, 64, ints(1), ints(65))
    assert run.sinks == {("y[winner[0]] = 1", "address")}
    assert "`cuda.atomic.cas`" in run.notes[0][1]


def test_the_result_is_the_same_every_time():
    arguments = ints(1), ints(100, 3), ints(100), 100
    first = Run(work_queue, 32, *(a.copy() if isinstance(a, np.ndarray) else a for a in arguments))
    second = Run(work_queue, 32, *(a.copy() if isinstance(a, np.ndarray) else a for a in arguments))
    assert first.tainted == second.tainted
    assert [t.pc for t in first.tainted] == sorted(t.pc for t in first.tainted)


# -- active lanes ----------------------------------------------------------------------------------------------------
@cuda.jit
def counted_together(count, x):
    i = cuda.grid(1)
    if x[i] > 0:
        mask = cuda.activemask()
        if cuda.laneid == cuda.ffs(mask) - 1:
            cuda.atomic.add(count, 0, cuda.popc(mask))


@cuda.jit
def counted_by_thread(count, x):
    mask = cuda.activemask()
    leader = cuda.ffs(mask) - 1
    if cuda.threadIdx.x % 32 != leader:
        return
    cuda.atomic.add(count, 0, cuda.popc(mask))


@cuda.jit
def counted_in_two_places(count, x):
    mask = cuda.activemask()
    if cuda.laneid == cuda.ffs(mask) - 1:
        cuda.atomic.add(count, cuda.threadIdx.x % 2, cuda.popc(mask))


@cuda.jit
def groups_counted(count, x):
    mask = cuda.activemask()
    if cuda.laneid == cuda.ffs(mask) - 1:
        cuda.atomic.add(count, 0, 1)


@cuda.jit
def counted_by_the_second(count, x):
    mask = cuda.activemask()
    if cuda.laneid == cuda.ffs(mask):
        cuda.atomic.add(count, 0, cuda.popc(mask))


@cuda.jit
def leader_stores_too(count, x):
    mask = cuda.activemask()
    if cuda.laneid == cuda.ffs(mask) - 1:
        cuda.atomic.add(count, 0, cuda.popc(mask))
        x[cuda.threadIdx.x] = 1


@cuda.jit
def count_is_read(count, x):
    if cuda.threadIdx.x == 9:
        x[0] = count[0]
    cuda.syncwarp()
    mask = cuda.activemask()
    if cuda.laneid == cuda.ffs(mask) - 1:
        cuda.atomic.add(count, 0, cuda.popc(mask))


@cuda.jit
def leader_told(count, x):
    mask = cuda.activemask()
    me = 0
    if cuda.laneid == cuda.ffs(mask) - 1:
        cuda.atomic.add(count, 0, cuda.popc(mask))
        me = 1
    x[cuda.threadIdx.x] = me


ELECTIONS = [
    (counted_together, True), (counted_by_thread, False), (counted_in_two_places, False), (groups_counted, False),
    (counted_by_the_second, False), (leader_stores_too, False), (count_is_read, True), (leader_told, False),
]  # fmt: skip


@pytest.mark.parametrize(("kernel", "decided"), ELECTIONS, ids=lambda value: getattr(value, "__name__", None))
def test_what_one_active_lane_adds_for_all_is_decided(kernel, decided):
    for engine in ("vm", "reference"):
        report = wsemu.check(kernel, 1, 32, (ints(2), ints(32, 1)), engine=engine)
        assert report.verdict == ("verified" if decided else "incomplete"), report.notes
        assert report.reasons == ([] if decided else ["active lanes"])
        assert not decided or not report.notes


def test_the_lane_is_that_of_the_thread_where_the_block_says_so():
    @cuda.jit
    def modulo(count):
        mask = cuda.activemask()
        if cuda.threadIdx.x % 32 == cuda.ffs(mask) - 1:
            cuda.atomic.add(count, 0, cuda.popc(mask))

    verdicts = [wsemu.check(modulo, 1, block, (ints(1),)).verdict for block in (64, 40, (32, 2), (40, 2))]
    assert verdicts == ["verified", "verified", "verified", "incomplete"]


def test_in_lockstep_the_active_lanes_are_those_that_come_there():
    reports = [wsemu.check(leader_told, 1, 32, (ints(1), ints()), lockstep=mode) for mode in (True, False)]
    assert [report.verdict for report in reports] == ["verified", "incomplete"]


CLOCK_AND_RACE = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 y)
{
    .reg .pred %p<2>;
    .reg .b32 %r<6>;
    .reg .b64 %rd<4>;
    .shared .align 4 .b8 tile[256];
    ld.param.u64 %rd1, [y];
    mov.u64 %rd2, %clock64;
    mov.u32 %r1, %tid.x;
    shl.b32 %r2, %r1, 2;
    mov.u32 %r3, tile;
    add.s32 %r4, %r3, %r2;
    st.shared.u32 [%r4], %r1;
    xor.b32 %r2, %r2, 252;
    add.s32 %r4, %r3, %r2;
    ld.shared.u32 %r5, [%r4];
    setp.lt.s64 %p1, %rd2, 0;
    @%p1 bra END;
    cvta.to.global.u64 %rd1, %rd1;
    mul.wide.u32 %rd3, %r1, 4;
    add.s64 %rd3, %rd1, %rd3;
    st.global.u32 [%rd3], %r5;
END:
    ret;
}
"""


def test_a_clock_beside_a_race_is_no_source_of_what_races():
    """Whether races steer a launch is asked of their accesses alone."""
    report = wsemu.check(wsemu.load_ptx(CLOCK_AND_RACE).only(), 1, 64, (np.zeros(64, np.uint32),))
    assert "race" in [finding.code for finding in report.findings]
