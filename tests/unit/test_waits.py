"""Which waits for a phase block, which only peek, and which poll."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import wsemu
from wsemu.frontend.assemble.encode import assemble
from wsemu.frontend.assemble.graph import TRUE, Graph, Instruction
from wsemu.model.isa import ABORTS, BLOCKS, NAMES, PEEK, TRY, WAIT_RELAXED
from wsemu.proof.taint_steps import Decoder

if TYPE_CHECKING:
    from wsemu.frontend.assemble.graph import Block, Register


class Kernel:
    """A kernel built block by block; block 0 comes first."""

    def __init__(self, blocks: int) -> None:
        self.graph = Graph("test")
        self.b = [self.graph.block() for _ in range(blocks)]
        self.bar = self.graph.constant("b64", 1 << 40)
        self.phase = self.graph.constant("b32", 0)

    def put(
        self, block: int, operation: str, *operands: Register, result: str = "", guard: Register = TRUE
    ) -> Register:
        made = self.graph.new(result) if result else 0
        self.b[block].instructions.append(
            Instruction(
                operation, (made,) if result else (), operands, guard=guard, auxiliary=TRY * ("wait" in operation)
            )
        )
        return made

    def assign(self, block: int, operation: str, register: Register, *operands: Register) -> None:
        self.b[block].instructions.append(Instruction(operation, (register,), operands))

    def wait(self, block: int, bar: Register | None = None, phase: Register | None = None) -> Register:
        return self.put(block, "mbarrier.wait.parity", bar or self.bar, phase or self.phase, result="p")

    def branch(self, block: int, predicate: Register, taken: int, other: int) -> None:
        self.b[block].successors, self.b[block].predicate, self.b[block].end = (taken, other), predicate, "bra"

    def jump(self, block: int, to: int) -> None:
        self.b[block].successors = (to,)

    def end(self, block: int, trap: int = 0) -> Block:
        self.b[block].end, self.b[block].trap = "exit", trap
        return self.b[block]

    def new(self, type_: str, value: int) -> Register:
        """A register that is assigned more than once."""
        register = self.graph.new(type_)
        self.assign(0, f"mov.{type_}", register, self.graph.constant(type_, value))
        return register

    def marks(self) -> list[int]:
        code = assemble(self.graph).code
        return [int(row[7]) & (BLOCKS | PEEK) for row in code if NAMES[row[0]].startswith("mbarrier.wait")]


def loop() -> tuple[Kernel, Register]:
    """Block 1 tries until it may go on to block 2."""
    k = Kernel(3)
    k.jump(0, 1)
    answer = k.wait(1)
    k.branch(1, answer, 2, 1)
    k.end(2)
    return k, answer


def count(k: Kernel) -> Register:
    """A counter of the tries."""
    tries = k.new("b32", 0)
    k.assign(1, "add.b32", tries, tries, k.graph.constant("b32", 1))
    return tries


def test_a_loop_that_only_tries_again_blocks() -> None:
    assert loop()[0].marks() == [BLOCKS]


def test_the_answer_may_go_through_registers() -> None:
    k, answer = loop()
    one, zero = k.graph.constant("b32", 1), k.graph.constant("b32", 0)
    number = k.put(1, "selp.b32", one, zero, answer, result="b32")
    again = k.put(1, "setp.eq.b32", number, zero, result="p")
    k.branch(1, again, 1, 2)
    assert k.marks() == [BLOCKS]


def test_a_pause_and_a_counter_that_dies_do_no_harm() -> None:
    k, _ = loop()
    count(k)
    k.put(1, "nanosleep")
    assert k.marks() == [BLOCKS]


def test_a_counter_that_is_used_behind_the_loop_makes_it_poll() -> None:
    k, _ = loop()
    k.put(2, "st.b32", k.bar, count(k))
    assert k.marks() == [0]


def test_what_is_made_anew_in_each_round_may_be_used_behind_the_loop() -> None:
    k, answer = loop()
    zero, one = (k.graph.constant("b32", n) for n in (0, 1))
    k.put(2, "st.b32", k.bar, k.put(1, "selp.b32", one, zero, answer, result="b32"))
    assert k.marks() == [BLOCKS]


def alone(heard: str) -> Kernel:
    """A question whose answer goes to `heard`: arithmetic, another lane, memory, or a branch."""
    k = Kernel(3)
    one, zero = k.graph.constant("b32", 1), k.graph.constant("b32", 0)
    number = k.put(0, "selp.b32", one, zero, k.wait(0), result="b32")
    if heard == "lanes":
        number = k.put(0, "vote.ballot", k.put(0, "setp.eq.b32", number, one, result="p"), one, result="b32")
    known = k.put(0, "setp.eq.b32", number, one, result="p")
    if heard == "memory":
        k.put(0, "st.b32", k.bar, number)
    k.jump(0, 1)
    if heard == "branch":
        k.branch(0, known, 1, 2)
        k.put(1, "st.b32", k.bar, one)
    k.jump(1, 2)
    k.end(2)
    return k


@pytest.mark.parametrize(("heard", "mark"), [("arithmetic", PEEK), ("lanes", PEEK), ("memory", 0), ("branch", 0)])
def test_who_does_not_look_at_the_answer_gets_a_no(heard: str, mark: int) -> None:
    assert alone(heard).marks() == [mark]


@pytest.mark.parametrize("operation", ["add.b64", "sub.b64"])
def test_another_question_in_each_round_polls(operation: str) -> None:
    k = Kernel(3)
    bar = k.new("b64", 1 << 40)
    k.jump(0, 1)
    answer = k.wait(1, bar)
    k.assign(1, operation, bar, bar, k.graph.constant("b64", 8))
    k.branch(1, answer, 2, 1)
    k.end(2)
    assert k.marks() == [0]


def test_an_address_that_is_computed_in_each_round_is_the_same_question() -> None:
    k = Kernel(3)
    k.jump(0, 1)
    base = k.graph.special("shared")
    bar = k.put(1, "add.b64", base, k.graph.constant("b64", 8), result="b64")
    k.branch(1, k.wait(1, bar), 2, 1)
    k.end(2)
    assert k.marks() == [BLOCKS]


def test_a_watchdog_that_traps_is_never_reached() -> None:
    k = Kernel(5)
    tries = k.new("b32", 0)
    k.jump(0, 1)
    k.branch(1, k.wait(1), 2, 3)
    k.assign(3, "add.b32", tries, tries, k.graph.constant("b32", 1))
    k.branch(3, k.put(3, "setp.eq.b32", tries, k.graph.constant("b32", 1000), result="p"), 4, 1)
    k.end(4, ABORTS)
    k.end(2)
    assert k.marks() == [BLOCKS]


def test_giving_up_after_some_tries_polls() -> None:
    k = Kernel(4)
    tries = k.new("b32", 0)
    k.jump(0, 1)
    k.branch(1, k.wait(1), 2, 3)
    k.assign(3, "add.b32", tries, tries, k.graph.constant("b32", 1))
    k.branch(3, k.put(3, "setp.eq.b32", tries, k.graph.constant("b32", 1000), result="p"), 2, 1)
    k.end(2)
    assert k.marks() == [0]


@pytest.mark.parametrize("work", ["st.b32", "bar.sync"])
def test_work_between_the_tries_polls(work: str) -> None:
    k, _ = loop()
    k.put(1, work, *((k.bar, k.phase) if work == "st.b32" else (k.phase,)))
    assert k.marks() == [0]


def peek(phase: int = 0, work: str = "") -> list[int]:
    """`if not try(bar, 0): [work]; wait(bar, phase)`."""
    k = Kernel(4)
    k.branch(0, k.wait(0), 3, 1)
    if work:
        k.put(1, work, k.bar, k.phase)
    k.jump(1, 2)
    k.branch(2, k.wait(2, phase=k.graph.constant("b32", phase)), 3, 2)
    k.put(3, "st.b32", k.bar, k.phase)
    k.end(3)
    return k.marks()


def test_a_try_that_only_guards_a_wait_for_the_same_peeks() -> None:
    assert peek() == [PEEK, BLOCKS]


def test_a_try_before_a_wait_for_another_phase_polls() -> None:
    assert peek(phase=1) == [0, BLOCKS]


def test_a_try_that_guards_more_than_a_wait_polls() -> None:
    assert peek(work="st.b32") == [0, BLOCKS]


def test_a_peek_may_be_kept_in_a_register_while_other_work_is_done() -> None:
    k = Kernel(4)
    answer = k.wait(0)
    token = k.put(0, "selp.b32", k.graph.constant("b32", 1), k.graph.constant("b32", 0), answer, result="b32")
    k.jump(0, 1)
    k.put(1, "st.b32", k.bar, k.phase)
    k.branch(1, k.put(1, "setp.eq.b32", token, k.graph.constant("b32", 1), result="p"), 3, 2)
    k.branch(2, k.wait(2), 3, 2)
    k.end(3)
    assert k.marks() == [PEEK, BLOCKS]


def test_a_value_that_is_used_twice_over_and_over_is_followed_beside_a_peek() -> None:
    """Its expression has 2^200 parts."""
    k = Kernel(4)
    answer, value = k.wait(0), k.graph.special("laneid")
    for _ in range(200):
        value = k.put(0, "mul.b32", value, value, result="b32")
    k.put(0, "st.b32", k.bar, value)
    k.jump(0, 1)
    k.branch(1, answer, 3, 2)
    k.branch(2, k.wait(2), 3, 2)
    k.put(3, "st.b32", k.bar, value)
    k.end(3)
    assert k.marks() == [PEEK, BLOCKS]


def test_a_peek_may_guard_a_wait_before_the_end_of_the_thread() -> None:
    """Each side ends in a block of its own."""
    k = Kernel(4)
    k.branch(0, k.wait(0), 3, 1)
    k.branch(1, k.wait(1), 2, 1)
    k.end(2)
    k.end(3)
    assert k.marks() == [PEEK, BLOCKS]


def test_one_side_of_a_peek_that_stores_before_the_end_polls() -> None:
    k = Kernel(4)
    k.branch(0, k.wait(0), 3, 1)
    k.branch(1, k.wait(1), 2, 1)
    k.put(2, "st.b32", k.bar, k.phase)
    k.end(2)
    k.end(3)
    assert k.marks() == [0, BLOCKS]


def test_the_answer_of_a_peek_may_be_kept_while_another_wait_blocks() -> None:
    k = Kernel(5)
    answer, other = k.wait(0), k.graph.constant("b64", 2 << 40)
    token = k.put(0, "selp.b32", k.graph.constant("b32", 1), k.graph.constant("b32", 0), answer, result="b32")
    k.jump(0, 1)
    k.branch(1, k.wait(1, other), 2, 1)
    k.branch(2, k.put(2, "setp.eq.b32", token, k.graph.constant("b32", 1), result="p"), 4, 3)
    k.branch(3, k.wait(3), 4, 3)
    k.put(4, "st.b32", k.bar, k.phase)
    k.end(4)
    assert k.marks() == [PEEK, BLOCKS, BLOCKS]


@pytest.mark.parametrize(("added", "mark"), [(8, PEEK), (16, 0)])
def test_a_peek_and_its_wait_may_come_to_their_address_by_other_ways(added: int, mark: int) -> None:
    """As code of CuTe DSL has it: `try [%r1+8]`, and `add %r2, %r1, 8; wait [%r2]`."""
    k = Kernel(3)
    base = k.put(0, "ld.b32", k.bar, result="b32")
    answer = k.wait(0, bar=k.put(0, "cvt.b64.s32", base, result="b64"))
    k.b[0].instructions[-1].immediate = 8
    k.branch(0, answer, 2, 1)
    there = k.put(1, "add.b32", base, k.graph.constant("b32", added), result="b32")
    k.branch(1, k.wait(1, bar=k.put(1, "cvt.b64.s32", there, result="b64")), 2, 1)
    k.end(2)
    assert k.marks() == [mark, BLOCKS]


def test_an_answer_that_is_stored_polls() -> None:
    k = Kernel(1)
    k.put(0, "st.b32", k.bar, k.put(0, "selp.b32", k.phase, k.phase, k.wait(0), result="b32"))
    one = k.graph.constant("b32", 1)
    k.put(0, "st.b32", k.bar, k.put(0, "selp.b32", one, k.phase, k.wait(0), result="b32"))
    k.end(0)
    assert k.marks() == [0, 0]


@pytest.mark.parametrize(("tried", "waited", "marks"), [(0, WAIT_RELAXED, PEEK), (WAIT_RELAXED, 0, 0)])
def test_a_relaxed_try_does_not_stand_for_a_wait_that_acquires(tried: int, waited: int, marks: int) -> None:
    k = Kernel(3)
    k.branch(0, k.wait(0), 2, 1)
    k.branch(1, k.wait(1), 2, 1)
    k.put(2, "st.b32", k.bar, k.phase)
    k.end(2)
    for block, bit in ((0, tried), (1, waited)):
        instruction = next(i for i in k.b[block].instructions if "wait" in i.operation)
        k.b[block].instructions[-1] = dataclasses.replace(instruction, auxiliary=instruction.auxiliary | bit)
    assert k.marks() == [marks, BLOCKS]


def test_a_program_is_decoded_once_for_all_of_its_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Decoder] = []
    start = Decoder.__init__

    def counted(self: Decoder, *arguments: Any) -> None:
        made.append(self)
        start(self, *arguments)

    monkeypatch.setattr(Decoder, "__init__", counted)
    counts = []
    for loops in (4, 12):
        polling = "".join(
            f"P{k}: add.u32 %r1, %r1, 1; ld.volatile.global.u32 %r2, [%rd1]; setp.ne.u32 %p1, %r2, 0; @%p1 bra P{k};\n"
            for k in range(loops)
        )
        kernel = wsemu.load_ptx(f"""
            .version 8.0
            .target sm_90
            .address_size 64
            .visible .entry k(.param .u64 o)
            {{
            .reg .b32 %r<3>; .reg .b64 %rd<2>; .reg .pred %p<2>;
            ld.param.u64 %rd1, [o];
            mov.u32 %r1, 0;
            {polling} st.global.u32 [%rd1+8], %r1;
            ret;
            }}""").only()
        made.clear()
        assert wsemu.check(kernel, 1, 1, (np.zeros(4, np.int32),)).verdict == "verified"
        counts.append(len(made))
    assert counts[0] == counts[1]
