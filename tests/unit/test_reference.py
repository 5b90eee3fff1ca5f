"""The reference interpreter: barriers by rule, memory, divergence, warp operations, and edge values of arithmetic."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pytest

from wsemu.frontend.assemble.encode import assemble
from wsemu.frontend.assemble.graph import TRUE, Graph, Instruction, Register
from wsemu.machine import run as execution
from wsemu.model.isa import ADDRESS_OUT, ADDRESS_WRAPPED, LANES, OPERATIONS, SEGMENT_SHIFT
from wsemu.model.program import Parameter, SharedArray, Span
from wsemu.reference import run as reference
from wsemu.reference.arithmetic import from_float, round_to_nearest, semantics, to_float
from wsemu.reference.memory.atomics import atomics

if TYPE_CHECKING:
    from collections.abc import Callable

    from wsemu.model.outcome import Outcome

FULL = 0xFFFFFFFF


class Kernel:
    """A graph under construction: straight-line code with ifs, and an output of one b32 per thread and slot."""

    def __init__(self) -> None:
        self.graph = Graph("test", spans=[Span("test.py", 1, 0, 1, 0)])
        self.block = self.graph.block()
        self.tid = self.graph.special("tid.x")
        base = self.graph.new("b64")
        self.graph.parameters[base] = Parameter(0, "b64", 0, (), "address", 0)
        self.out = base
        self.own = self.emit("mad.b64", self.emit("cvt.b64.u32", self.tid), self.c(4, "b64"), base)

    def c(self, value: int | float, type_: str = "b32") -> Register:
        return self.graph.constant(type_, value)

    def emit(self, operation: str, *operands: Register, **more: int) -> Register:
        result = self.graph.new(OPERATIONS[operation].result)
        self.block.instructions.append(Instruction(operation, (result,), operands, **more))  # type: ignore[arg-type]
        return result

    def do(self, operation: str, *operands: Register, **more: int) -> None:
        self.block.instructions.append(Instruction(operation, (), operands, **more))  # type: ignore[arg-type]

    def put(self, value: Register, slot: int = 0) -> None:
        self.do("st.b32", self.own, value, immediate=4 * slot * 256)

    def when(
        self, predicate: Register, arm: Callable[[], object], otherwise: Callable[[], object] | None = None
    ) -> None:
        """if predicate: arm() else: otherwise()"""
        before, first = self.block, self.graph.block()
        second = self.graph.block() if otherwise else None
        after = None
        before.end, before.predicate = "bra", predicate
        ends = []
        for block, body in ((first, arm), (second, otherwise)):
            if block is not None and body is not None:
                self.block = block
                body()
                ends.append(self.block)
        after = self.graph.block()
        before.successors = (first.index, (second or after).index)
        for block in ends:
            if block.end != "exit":
                block.successors = (after.index,)
        self.block = after

    def leave(self) -> None:
        self.block.end = "exit"

    def warp_is(self, *numbers: int) -> Register:
        warp = self.emit("shr.u32", self.tid, self.c(5))
        result = self.emit("setp.eq.b32", warp, self.c(numbers[0]))
        for number in numbers[1:]:
            result = self.emit("or.pred", result, self.emit("setp.eq.b32", warp, self.c(number)))
        return result

    def lane_below(self, n: int) -> Register:
        return self.emit("setp.lt.u32", self.emit("and.b32", self.tid, self.c(31)), self.c(n))

    def barrier(self, what: str, number: int, count: int | None = None, aligned: int = 1) -> None:
        operands = (self.c(number),) if count is None else (self.c(number), self.c(count))
        self.do(f"bar.{what}", *operands, auxiliary=aligned)

    def run(self, threads: int = 64, engine: Callable[..., Outcome] = reference.run, budget: int = 100_000) -> Outcome:
        self.memory = np.zeros(4 * 256, np.uint32)
        self.block.end = "exit"
        self.program = assemble(self.graph)
        rows: reference.Rows = {p.row: ("b64", 3 << SEGMENT_SHIFT) for p in self.program.parameters}
        segments = [(self.memory.view(np.uint8), True)]
        return engine(self.program, (1, 1, 1), (threads, 1, 1), rows, segments, budget=budget)

    def result(self, slot: int = 0, threads: int = 64) -> list[int]:
        return [int(value) for value in self.memory[256 * slot : 256 * slot + threads]]


def codes(outcome: Outcome) -> list[str]:
    return [finding.code for finding in outcome.findings]


@pytest.fixture
def k() -> Kernel:
    return Kernel()


# -- named barriers, by rule --------------------------------------------------------------------------------------
@pytest.mark.parametrize("number", [16, -1, 1 << 20])
def test_b1_ids_run_from_0_to_15(k: Kernel, number: int) -> None:
    k.barrier("sync", number, 64)
    outcome = k.run()
    assert (outcome.status, codes(outcome)) == ("fault", ["invalid-barrier"])
    assert outcome.findings[0].detail == {"barrier": number, "count": 64, "kind": 0}


@pytest.mark.parametrize("count", [48, 100, 0, -32])
def test_b2_a_count_is_a_positive_multiple_of_32(k: Kernel, count: int) -> None:
    k.barrier("sync", 1, count)
    outcome = k.run()
    assert (outcome.status, codes(outcome)) == ("fault", ["invalid-barrier"])


def test_b3_one_elected_lane_counts_its_whole_warp(k: Kernel) -> None:
    k.when(
        k.warp_is(0),
        lambda: k.when(k.lane_below(1), lambda: k.barrier("arrive", 1, 64)),
        lambda: k.barrier("sync", 1, 64),
    )
    outcome = k.run()
    assert outcome.status == "done"
    assert codes(outcome) == ["barrier-divergence"]
    assert outcome.findings[0].lanes == 1


def test_b3_half_a_warp_counts_whole_when_the_rest_has_exited(k: Kernel) -> None:
    k.when(k.lane_below(16), k.leave)
    k.barrier("sync", 1, 64)
    outcome = k.run()
    assert (outcome.status, codes(outcome)) == ("done", [])


def test_b4_arrive_does_not_wait_and_completion_resets(k: Kernel) -> None:
    def producer() -> None:
        for _ in range(2):
            k.barrier("arrive", 2, 64)
            k.barrier("sync", 3, 64)

    def consumer() -> None:
        for _ in range(2):
            k.barrier("sync", 2, 64)
            k.barrier("arrive", 3, 64)

    k.when(k.warp_is(0), producer, consumer)
    outcome = k.run()
    assert (outcome.status, codes(outcome)) == ("done", [])


def test_b5_one_count_per_generation(k: Kernel) -> None:
    k.when(k.warp_is(0), lambda: k.barrier("arrive", 1, 64), lambda: k.barrier("sync", 1, 96))
    outcome = k.run(96)
    assert (outcome.status, codes(outcome)) == ("fault", ["count-mismatch"])
    finding = outcome.findings[0]
    assert (finding.warp, finding.other_warp) == (1, 0)
    assert finding.detail == {"barrier": 1, "generation": 0, "expected": 64, "count": 96, "arrived": 32}


def test_b6_a_warp_may_take_part_twice(k: Kernel) -> None:
    def twice() -> None:
        k.barrier("arrive", 1, 64)
        k.barrier("sync", 1, 64)

    k.when(k.warp_is(0), twice)
    outcome = k.run()
    assert (outcome.status, codes(outcome)) == ("done", [])


def test_b7_without_a_count_exited_warps_do_not_count(k: Kernel) -> None:
    k.when(k.warp_is(1), k.leave)
    k.barrier("sync", 0)
    assert k.run(96).status == "done"


def test_b8_with_a_count_exited_warps_still_count(k: Kernel) -> None:
    k.when(k.warp_is(1), k.leave)
    k.barrier("sync", 0, 96)
    outcome = k.run(96)
    assert outcome.status == "deadlock"
    assert [(w.waits, w.alive) for w in outcome.warps] == [(0, FULL), (-1, 0), (0, FULL)]
    assert [(b.barrier, b.arrived, b.expected, b.participants) for b in outcome.barriers] == [(0, 64, 96, [0, 2])]


def test_b9_surplus_arrivals_open_the_next_generation(k: Kernel) -> None:
    k.barrier("sync", 1, 64)
    outcome = k.run(96)
    assert outcome.status == "deadlock"
    assert [w.waits for w in outcome.warps] == [-1, -1, 1]
    assert (outcome.barriers[0].generation, outcome.barriers[0].arrived) == (1, 32)


def test_b10_arrivals_alone_complete_a_generation(k: Kernel) -> None:
    k.barrier("arrive", 1, 64)
    outcome = k.run()
    assert (outcome.status, codes(outcome)) == ("done", ["all-arrive"])
    assert (outcome.findings[0].warp, outcome.findings[0].other_warp) == (1, 0)


def test_b11_arrivals_left_at_the_end_are_harmless(k: Kernel) -> None:
    k.when(k.warp_is(0), lambda: k.barrier("arrive", 1, 64))
    outcome = k.run()
    assert (outcome.status, codes(outcome)) == ("done", ["dangling-arrive"])


def test_b12_two_halves_at_two_barriers_stop_the_launch(k: Kernel) -> None:
    k.when(k.lane_below(16), lambda: k.barrier("sync", 1, 64), lambda: k.barrier("sync", 2, 64))
    outcome = k.run()
    assert outcome.status == "fault"
    assert codes(outcome) == ["barrier-divergence", "barrier-divergence"]
    assert outcome.findings[1].other_pc >= 0


def test_b12_unaligned_barriers_at_two_places_complete(k: Kernel) -> None:
    k.when(k.lane_below(16), lambda: k.barrier("sync", 1, 64, aligned=0), lambda: k.barrier("sync", 1, 64, aligned=0))
    k.put(k.c(7))
    outcome = k.run()
    assert (outcome.status, codes(outcome)) == ("done", [])
    assert k.result() == [7] * 64


def test_b14_lanes_that_wait_at_the_join_go_on_without_those_at_an_unaligned_barrier(k: Kernel) -> None:
    k.when(k.lane_below(16), lambda: k.barrier("sync", 1, 64, aligned=0))
    k.put(k.c(7))
    outcome = k.run()
    assert (outcome.status, codes(outcome)) == ("done", [])
    assert k.result() == [7] * 64


def test_a_count_above_the_cta_is_oversubscribed(k: Kernel) -> None:
    k.barrier("sync", 1, 128)
    outcome = k.run(40)
    assert (outcome.status, codes(outcome)) == ("deadlock", ["oversubscribed"])
    assert outcome.findings[0].detail == {"barrier": 1, "count": 128, "threads": 64}


def test_reductions_count_the_threads_that_take_part(k: Kernel) -> None:
    low = k.emit("setp.lt.u32", k.tid, k.c(40))
    k.put(k.emit("bar.red.popc", k.c(0), low, auxiliary=1))
    for slot, what in ((1, "and"), (2, "or")):
        answer = k.emit(f"bar.red.{what}", k.c(0), low, auxiliary=1)
        k.put(k.emit("selp.b32", k.c(1), k.c(2), answer), slot)
    assert k.run(50).status == "done"
    assert k.result(0, 50) == [40] * 50
    assert k.result(1, 50) == [2] * 50
    assert k.result(2, 50) == [1] * 50


def test_a_loop_ends_at_the_budget(k: Kernel) -> None:
    head = k.graph.block()
    k.block.successors = head.successors = (1,)
    head.instructions.append(Instruction("fence.cta"))
    k.block = k.graph.block()
    outcome = k.run(budget=1000)
    assert outcome.status == "budget"
    assert outcome.warp_instructions == 1000


# -- memory -------------------------------------------------------------------------------------------------------
def test_an_access_outside_its_array_is_reported_and_suppressed(k: Kernel) -> None:
    k.do("st.b32", k.own, k.tid, immediate=4 * 1000)
    k.put(k.emit("ld.b32", k.own, immediate=4096), 1)
    outcome = k.run()
    assert codes(outcome) == ["out-of-bounds", "out-of-bounds"]
    first = outcome.findings[0]
    assert (first.lanes, first.count) == (1 << 24, 40)
    assert first.detail == {
        "size": 4, "segment": 3, "bytes": 4096, "wrapped": 0, "readonly": 0, "address": (3 << SEGMENT_SHIFT) + 4096,
    }  # fmt: skip
    assert k.result(1) == [0] * 64
    assert k.memory[1000:].tolist() == list(range(24))


@pytest.mark.parametrize(
    ("index", "place", "detail"),
    [(5, None, {"index": 5}), (-5, None, {"index": -5}), (-1, 3, {"wrapped": 1}), (3, 3, None)],
)
def test_indices_outside_are_told_and_negative_ones_wrap(
    k: Kernel, index: int, place: int | None, detail: dict[str, int] | None
) -> None:
    address = k.emit("index.s64", k.c(index, "b64"), k.c(4, "b64"), k.c(4, "b64"), k.out)
    k.do("st.b32", address, k.c(9))
    outcome = k.run(1)
    assert codes(outcome) == (["out-of-bounds"] if detail else [])
    if detail:
        assert detail.items() <= outcome.findings[0].detail.items()
    assert np.flatnonzero(k.memory).tolist() == ([] if place is None else [place])


def test_misaligned_vectors_are_left_out(k: Kernel) -> None:
    k.do("st.v2.b32", k.own, k.tid, k.tid)
    outcome = k.run(32)
    assert codes(outcome) == ["misaligned"]
    assert outcome.findings[0].count == 16
    assert k.result(0, 4) == [0, 0, 2, 2]


def test_read_only_segments_refuse_stores(k: Kernel) -> None:
    k.put(k.tid)
    program = assemble(k.graph)
    rows: reference.Rows = {p.row: ("b64", 3 << SEGMENT_SHIFT) for p in program.parameters}
    memory = np.zeros(1024, np.uint8)
    outcome = reference.run(program, (1, 1, 1), (32, 1, 1), rows, [(memory, False)])
    assert codes(outcome) == ["out-of-bounds"]
    assert outcome.findings[0].detail["readonly"] == 1
    assert not memory.any()


def test_shared_bytes_are_read_only_after_they_were_written(k: Kernel) -> None:
    k.graph.shared.append(SharedArray("tile", 0, (64,), np.dtype("u4"), 0))
    k.graph.shared_bytes = 256
    own = k.emit("mad.b64", k.emit("cvt.b64.u32", k.tid), k.c(4, "b64"), k.graph.special("shared"))
    k.do("st.b16", own, k.emit("cvt.b16.s32", k.tid))
    k.put(k.emit("cvt.b32.u16", k.emit("ld.b16", own)))
    k.put(k.emit("ld.b32", own), 1)
    outcome = k.run()
    assert codes(outcome) == ["uninitialized-read"]
    assert (outcome.findings[0].lanes, outcome.findings[0].count) == (FULL, 2)
    assert k.result() == list(range(64))


def test_local_memory_belongs_to_the_thread(k: Kernel) -> None:
    k.graph.local_bytes = 8
    own = k.graph.special("local")
    k.do("st.b32", own, k.tid)
    k.put(k.emit("ld.b32", own))
    k.put(k.emit("ld.b32", own, immediate=4), 1)
    outcome = k.run()
    assert k.result() == list(range(64))
    assert codes(outcome) == ["uninitialized-read"]


def test_one_access_may_reach_several_segments(k: Kernel) -> None:
    k.graph.shared_bytes = 128
    k.do("st.b32", k.graph.special("shared"), k.c(7))
    place = k.emit("selp.b64", k.graph.special("shared"), k.own, k.lane_below(1))
    k.put(k.emit("ld.b32", place), 1)
    assert {finding.code for finding in k.run(32).findings} == {"intra-warp-race"}  # all lanes stored what one loads
    assert k.result(1, 32) == [7] + [0] * 31


def test_atomics_run_in_lane_order(k: Kernel) -> None:
    k.put(k.emit("atom.add.b32", k.out, k.c(1), immediate=4 * 512))
    assert k.run(64).status == "done"
    assert k.result() == list(range(64))
    assert k.memory[512] == 64


# -- lanes among themselves ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("mode", "b", "immediate", "expected"),
    [
        ("idx", 3, 31, [3] * 32),
        ("up", 1, 0, [0, *range(31)]),
        ("down", 1, 31, [*range(1, 32), 31]),
        ("bfly", 1, 31, [lane ^ 1 for lane in range(32)]),
        ("idx", 1, 24 << 8 | 31, [lane // 8 * 8 + 1 for lane in range(32)]),
        ("down", 2, 24 << 8 | 31, [lane + 2 if lane % 8 < 6 else lane for lane in range(32)]),
    ],
)
def test_shuffles_select_lanes_as_ptx_says(k: Kernel, mode: str, b: int, immediate: int, expected: list[int]) -> None:
    k.put(k.emit(f"shfl.{mode}.b32", k.tid, k.c(b), k.c(FULL), immediate=immediate))
    k.run(32)
    assert k.result(0, 32) == expected


def test_a_shuffle_from_an_absent_lane_gives_the_own_value(k: Kernel) -> None:
    k.when(k.lane_below(8), lambda: k.put(k.emit("shfl.idx.b32", k.tid, k.c(20), k.c(0xFF), immediate=31)))
    (found,) = k.run(32).findings
    assert (found.code, found.lanes, found.detail) == ("undefined-shuffle", 0xFF, {"source": 20})
    assert k.result(0, 8) == list(range(8))


def test_votes_and_matches(k: Kernel) -> None:
    low = k.lane_below(5)
    k.put(k.emit("vote.ballot", low, k.c(0), k.c(FULL)))
    k.put(k.emit("match.any.b32", k.emit("shr.u32", k.tid, k.c(4)), k.c(0), k.c(FULL)), 1)
    k.put(k.emit("match.all.b32", k.c(3), k.c(0), k.c(FULL)), 2)
    k.put(k.emit("selp.b32", k.c(1), k.c(0), k.emit("vote.any", low, k.c(0), k.c(FULL))), 3)
    assert codes(k.run(32)) == []
    assert k.result(0, 32) == [0b11111] * 32
    assert k.result(1, 32) == [0xFFFF] * 16 + [0xFFFF0000] * 16
    assert k.result(2, 32) == [FULL] * 32
    assert k.result(3, 32) == [1] * 32


def test_a_member_that_is_not_there_is_reported(k: Kernel) -> None:
    k.when(k.lane_below(8), lambda: k.do("syncwarp", k.c(FULL)))
    outcome = k.run(32)
    assert codes(outcome) == ["barrier-divergence"]
    assert outcome.findings[0].detail == {"barrier": -1, "alive": FULL, "members": FULL}


def test_lanes_meet_again_behind_nested_ifs(k: Kernel) -> None:
    k.when(
        k.lane_below(16),
        lambda: k.when(k.lane_below(8), lambda: k.put(k.emit("activemask"), 0), lambda: k.put(k.emit("activemask"), 1)),
    )
    k.put(k.emit("activemask"), 2)
    k.run(32)
    assert k.result(0, 8) == [0xFF] * 8
    assert k.result(1, 16)[8:] == [0xFF00] * 8
    assert k.result(2, 32) == [FULL] * 32


# -- arithmetic ---------------------------------------------------------------------------------------------------
F32 = {name: from_float(value, "f32") for name, value in {
    "0": 0.0, "-0": -0.0, "1": 1.0, "-1": -1.0, "inf": math.inf, "-inf": -math.inf, "nan": math.nan,
    "tiny": 2.0**-149, "max": 3.4028234663852886e38, "2.5": 2.5, "-2.5": -2.5, "1e10": 1e10,
}.items()}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "operands", "result"),
    [
        ("shl.b32", (1, 32), 0),
        ("shl.b8", (0x81, 1), 2),
        ("shr.s32", (0x80000000, 99), FULL),
        ("shr.u32", (0x80000000, 32), 0),
        ("div.s32", (0x80000000, FULL), 0x80000000),
        ("div.u32", (7, 0), FULL),
        ("rem.s32", (7, 0), FULL),
        ("rem.s32", (FULL - 6, 4), FULL - 2),
        ("floordiv.s32", (FULL - 6, 4), FULL - 1),
        ("floordiv.s64", (1 << 63, (1 << 64) - 1), 0),
        ("floormod.s32", (FULL - 6, 4), 1),
        ("floormod.s32", (5, 0), 0),
        ("mulhi.s32", (FULL, FULL), 0),
        ("mulhi.u32", (FULL, FULL), FULL - 1),
        ("mulwide.s8", (0xFF, 0x80), 128),
        ("abs.s32", (0x80000000,), 0x80000000),
        ("bfe.s32", (0xF0, 4, 4), FULL),
        ("bfe.u32", (0xF0, 4, 0), 0),
        ("bfi.b32", (0xFF, 0, 28, 8), 0xF0000000),
        ("clz.b64", (1,), 63),
        ("ffs.b32", (0,), 0),
        ("brev.b32", (1,), 0x80000000),
        ("cvt.b64.s8", (0x80,), (1 << 64) - 128),
        ("add.f32", (F32["max"], F32["max"]), F32["inf"]),
        ("mul.f32", (F32["tiny"], F32["-0"]), F32["-0"]),
        ("div.f32", (F32["-1"], F32["0"]), F32["-inf"]),
        ("rcp.f32", (F32["-0"],), F32["-inf"]),
        ("sqrt.f32", (F32["-0"],), F32["-0"]),
        ("min.f32", (F32["nan"], F32["1"]), F32["1"]),
        ("min.f32", (F32["0"], F32["-0"]), F32["-0"]),
        ("max.f32", (F32["-0"], F32["0"]), F32["0"]),
        ("fma.f32", (F32["1"], F32["-1"], F32["1"]), F32["0"]),
        ("fma.f32", (F32["0"], F32["-1"], F32["-0"]), F32["-0"]),
        ("fma.f32", (F32["max"], F32["max"], F32["-inf"]), F32["-inf"]),
        ("fma.f32", (F32["tiny"], F32["tiny"], F32["-1"]), F32["-1"]),
        ("setp.lt.f32", (F32["nan"], F32["1"]), False),
        ("setp.ne.f32", (F32["nan"], F32["1"]), False),
        ("setp.ltu.f32", (F32["nan"], F32["1"]), True),
        ("setp.eq.f32", (F32["0"], F32["-0"]), True),
        ("cvt.rni.s32.f32", (F32["2.5"],), 2),
        ("cvt.rzi.s32.f32", (F32["-2.5"],), FULL - 1),
        ("cvt.rzi.s32.f32", (F32["1e10"],), 0x7FFFFFFF),
        ("cvt.rzi.u8.f32", (F32["inf"],), 255),
        ("cvt.rzi.s64.f32", (F32["nan"],), 1 << 63),
        ("cvt.rpi.f32.f32", (from_float(-0.5, "f32"),), F32["-0"]),
        ("cvt.rn.f32.s64", ((1 << 64) - (1 << 24) - 1,), from_float(-(2.0**24), "f32")),
        ("cvt.f16.f64", (from_float(65519.99, "f64"),), from_float(65504.0, "f16")),
        ("cvt.f16.f64", (from_float(65520.0, "f64"),), from_float(math.inf, "f16")),
        ("cvt.f16.f32", (from_float(2.0**-25, "f32"),), 0),
        ("log.f32", (F32["0"],), F32["-inf"]),
        ("exp.f32", (from_float(100.0, "f32"),), F32["inf"]),
        ("rsqrt.f32", (F32["-0"],), F32["-inf"]),
        ("pow.f32", (F32["-0"], F32["-1"]), F32["-inf"]),
        ("floordiv.f32", (F32["-1"], F32["inf"]), F32["-1"]),
        ("index.s32", (2, 4, 8, 1000), 1016),
        ("index.s32", (FULL, 4, 8, 1000), ADDRESS_WRAPPED | 1024),
        ("andn.pred", (True, False), True),
    ],
)  # fmt: skip
def test_edge_values(name: str, operands: tuple[int, ...], result: int) -> None:
    assert semantics[name](*operands) == result


@pytest.mark.parametrize("name", ["sqrt", "log", "acos", "lgamma", "tgamma", "sin", "fmod", "pow", "rsqrt", "atanh"])
def test_functions_outside_their_domain_give_what_c_gives(name: str) -> None:
    operands = {"fmod": (1.0, 0.0), "pow": (-2.0, 0.5), "lgamma": (-1.0,), "sin": (math.inf,)}.get(name, (-2.0,))
    value = to_float(semantics[f"{name}.f64"](*(from_float(v, "f64") for v in operands)), "f64")
    assert math.isinf(value) if name == "lgamma" else math.isnan(value)


def test_an_index_outside_stays_told_through_further_dimensions() -> None:
    outside = semantics["index.s64"](70, 64, 4, 3 << SEGMENT_SHIFT)
    assert outside & ADDRESS_OUT
    assert semantics["index.s64"](99, 2, 4, outside) == outside


def test_every_arithmetic_operation_and_atomic_has_a_meaning() -> None:
    assert list(semantics) == [name for name, operation in OPERATIONS.items() if operation.kind == "alu"]
    assert list(atomics) == [name for name, operation in OPERATIONS.items() if operation.kind == "atomic"]


def test_rounding_agrees_with_numpy() -> None:
    rng = random.Random(1)
    for _ in range(2000):
        value = rng.uniform(-1, 1) * 2.0 ** rng.randint(-160, 130)
        with np.errstate(over="ignore"):
            assert to_float(from_float(value, "f32"), "f32") == float(np.float32(value))
            assert to_float(from_float(value, "f16"), "f16") == float(np.float16(value))
        assert round_to_nearest(Fraction(value), "f64") == value


@pytest.mark.parametrize(("what", "old", "operand", "new"), [
    ("inc.u32", 5, 5, 0), ("inc.u32", 4, 5, 5), ("dec.u32", 0, 5, 5), ("dec.u32", 9, 5, 5), ("dec.u32", 3, 5, 2),
    ("min.s32", FULL, 1, FULL), ("min.u32", FULL, 1, 1), ("exch.b64", 1, 2, 2),
    ("max.f32", F32["1"], F32["-1"], F32["1"]), ("max.f32", F32["nan"], F32["1"], F32["nan"]),
    ("min.f32", F32["1"], F32["nan"], F32["1"]), ("nanmax.f32", F32["nan"], F32["1"], F32["1"]),
    ("nanmin.f32", F32["1"], F32["nan"], F32["1"]), ("max.f32", F32["-0"], F32["0"], F32["-0"]),
    ("nanmin.f32", F32["0"], F32["-0"], F32["0"]), ("add.f32", F32["1"], F32["-1"], F32["0"]),
])  # fmt: skip
def test_atomics_combine(what: str, old: int, operand: int, new: int) -> None:
    assert atomics[f"atom.{what}"](old, operand, 0) == new


def test_compare_and_swap() -> None:
    assert atomics["atom.cas.b32"](1, 1, 9) == 9
    assert atomics["atom.cas.b32"](2, 1, 9) == 2


# -- against the VM -----------------------------------------------------------------------------------------------
def random_barriers(seed: int) -> Kernel:
    """Up to four warps, each with a few operations on two or three named barriers, some wrong."""
    rng, k = random.Random(seed), Kernel()
    warps = rng.randint(1, 4)
    counts = [32 * rng.randint(1, warps) for _ in range(3)]
    for warp in range(warps):

        def body() -> None:
            for _ in range(rng.randint(0, 4)):
                number = rng.randrange(3)
                count: int | None = counts[number]
                if rng.random() < 0.1:
                    count = rng.choice([None, 32 * rng.randint(1, warps + 1)])
                if rng.random() < 0.05:
                    k.leave()
                    return
                k.barrier(rng.choice(["sync", "sync", "arrive"]), number, count)

        k.when(k.warp_is(warp), body)
    k.threads = 32 * warps  # type: ignore[attr-defined]
    return k


@pytest.mark.parametrize("seed", range(100))
def test_the_vm_finds_the_same_in_random_barrier_programs(seed: int) -> None:
    first, second = random_barriers(seed), random_barriers(seed)
    mine = first.run(first.threads)  # type: ignore[attr-defined]
    vms = second.run(second.threads, execution.run)  # type: ignore[attr-defined]
    assert (mine.status, mine.findings) == (vms.status, vms.findings)
    assert mine.cta == vms.cta
    if mine.status == "fault":
        assert (mine.fault_pc, mine.fault_warp) == (vms.fault_pc, vms.fault_warp)
    assert mine.barriers == vms.barriers
    if mine.status == "deadlock":
        assert mine.warps == vms.warps
    if mine.status == "done":
        assert mine.executions == vms.executions


assert TRUE == 0
assert LANES == 32
