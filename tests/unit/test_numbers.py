"""Threads draw numbers, and lock bits for them: each thread is decided alone, with each number."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import wsemu
from tests.properties.bit_programs import BitProgram, draw_bits, judge_bits
from wsemu import cuda
from wsemu.launch.explore import numbers

if TYPE_CHECKING:
    from wsemu.model.settings import Engine

ENGINES: tuple[Engine, ...] = ("vm", "reference")
HOW = "whichever number each thread draws"
i32, u32 = np.int32, np.uint32


@cuda.jit(device=True)
def store(p: Any, value: Any, data: Any, locks: Any, occupied: Any) -> None:
    """Store an element as a push to a vector does: under a lock, if no other element is there."""
    bit = u32(1) << u32(p & 31)
    pushed = 0
    while pushed == 0:
        cuda.threadfence()
        if cuda.atomic.or_(locks, p >> 5, bit) & bit == 0:
            cuda.threadfence()
            if cuda.atomic.or_(occupied, p >> 5, u32(0)) & bit == 0:
                data[p] = value
                cuda.threadfence()
                cuda.atomic.or_(occupied, p >> 5, bit)
                pushed = 1
            cuda.threadfence()
            cuda.atomic.and_(locks, p >> 5, ~bit)


@cuda.jit
def push(data: Any, locks: Any, occupied: Any, counters: Any) -> None:
    p = cuda.atomic.add(counters, 0, 1)
    if p < data.shape[0]:
        store(p, cuda.grid(1), data, locks, occupied)


@cuda.jit
def push_to_both_ends(data: Any, locks: Any, occupied: Any, counters: Any) -> None:
    i, last = cuda.grid(1), u32(data.shape[0] - 1)
    if cuda.atomic.add(counters, 0, 1) < data.shape[0]:
        p = cuda.atomic.inc(counters, 1, last) if i & 1 else cuda.atomic.dec(counters, 2, last)
        if not i & 1:
            p = last if p == 0 else p - u32(1)
        store(i32(p), i, data, locks, occupied)


@cuda.jit
def store_at_own_number(data: Any, locks: Any, occupied: Any, counters: Any) -> None:
    i = cuda.grid(1)
    store(i, i, data, locks, occupied)
    cuda.atomic.add(counters, 0, 1)


@cuda.jit
def push_two_to_one_slot(data: Any, locks: Any, occupied: Any, counters: Any) -> None:
    p = cuda.atomic.add(counters, 0, 1)
    store(p >> 1, cuda.grid(1), data, locks, occupied)


@cuda.jit
def push_twice(data: Any, locks: Any, occupied: Any, counters: Any) -> None:
    for _ in range(2):
        store(cuda.atomic.add(counters, 0, 1), cuda.grid(1), data, locks, occupied)


@cuda.jit
def push_beside_the_lock(data: Any, locks: Any, occupied: Any, counters: Any) -> None:
    p = cuda.atomic.add(counters, 0, 1)
    store(p, cuda.grid(1), data, locks, occupied)
    data[p + 1] = p


@cuda.jit
def push_at_another_number(data: Any, locks: Any, occupied: Any, counters: Any) -> None:
    p = cuda.atomic.add(counters, 0, 1)
    store(p & 63 if p < 64 else 0, cuda.grid(1), data, locks, occupied)


@cuda.jit
def push_with_plain_unlock(data: Any, locks: Any, occupied: Any, counters: Any) -> None:
    p = cuda.atomic.add(counters, 0, 1)
    store(p, cuda.grid(1), data, locks, occupied)
    locks[p >> 5] = u32(0)


@cuda.jit
def push_and_read_all_bits(data: Any, locks: Any, occupied: Any, counters: Any) -> None:
    p = cuda.atomic.add(counters, 0, 1)
    store(p, cuda.grid(1), data, locks, occupied)
    if cuda.atomic.or_(occupied, p >> 5, u32(0)) == u32(0xFFFFFFFF):
        data[0] = 1


def arguments(threads: int = 64, *, first: int = 0) -> tuple[Any, ...]:
    words = threads // 32 + 1
    return np.zeros(threads, i32), np.zeros(words, u32), np.zeros(words, u32), np.array([first, 0, 0], u32)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kernel", [push, push_to_both_ends, store_at_own_number])
def test_pushes_are_right_in_every_order(kernel: Any, engine: Engine) -> None:
    given = arguments()
    report = wsemu.check(kernel, 2, 32, given, engine=engine)
    assert report.verdict == "verified", report
    assert HOW in report.proof
    assert sorted(given[0].tolist()) == [*range(64)]
    assert any("which thread draws which number" in note for note in report.notes) == (
        kernel is not store_at_own_number
    )


@pytest.mark.parametrize(
    "kernel",
    [
        push_two_to_one_slot, push_twice, push_beside_the_lock, push_at_another_number, push_with_plain_unlock,
        push_and_read_all_bits,
    ],
)  # fmt: skip
def test_bits_and_slots_that_threads_share_are_not_decided(kernel: Any) -> None:
    report = wsemu.check(kernel, 3, 32, arguments(96, first=0), budget=200_000)
    assert report.verdict != "verified"
    assert HOW not in report.proof


def test_numbers_beyond_the_array_are_not_decided() -> None:
    data, *rest = arguments(64)
    assert wsemu.check(push_and_read_all_bits, 2, 32, (data[:60], *rest)).verdict != "verified"


def test_a_lock_that_is_taken_before_the_launch_is_not_decided() -> None:
    data, locks, *rest = arguments(64)
    locks[0] = 4
    assert wsemu.check(push, 2, 32, (data, locks, *rest), budget=200_000).verdict != "verified"


STORED = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 data_, .param .u64 locks_, .param .u64 counter_)
{
  .reg .b32 %i, %p, %b, %v; .reg .b64 %d, %k, %n, %a, %z; .reg .pred %q;
  ld.param.u64 %d, [data_]; ld.param.u64 %k, [locks_]; ld.param.u64 %n, [counter_];
  mov.u32 %i, %tid.x; mul.wide.u32 %z, %i, 4; add.u64 %z, %z, %d;
  // before
  atom.relaxed.gpu.global.add.u32 %p, [%n], 1; shl.b32 %b, 1, %p; mul.wide.u32 %a, %p, 4; add.u64 %a, %a, %d;
LOCK:
  atom.relaxed.gpu.global.or.b32 %v, [%k], %b; and.b32 %v, %v, %b; setp.ne.u32 %q, %v, 0; @%q bra LOCK;
  // after
  setp.eq.u32 %q, %v, 7; setp.ne.and.u32 %q, %p, %i, %q; @%q st.global.u32 [%d + 4096], %p;
  not.b32 %v, %b; atom.relaxed.gpu.global.and.b32 %v, [%k], %v;
}
"""
"""A thread stores outside the array if it finds 7, and has drawn another number than its own."""


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("load", ["ld", "ld.relaxed.gpu", "ld.acquire.gpu", "ld.volatile"])
@pytest.mark.parametrize(("before", "store", "at"), [("", "a", "a"), ("z + 128", "", "z + 128")])
def test_loads_of_all_kinds_return_what_their_thread_stored(
    before: str, store: str, at: str, load: str, engine: Engine
) -> None:
    def write(place: str) -> str:
        return f"st.global.u32 [%{place}], 7;" if place else ""

    after = f"{write(store)} {load}.global.u32 %v, [%{at}];"
    text = STORED.replace("// before", write(before)).replace("// after", after)
    given = np.zeros(64, u32), np.zeros(1, u32), np.zeros(1, u32)
    assert wsemu.check(wsemu.load_ptx(text)["k"], 1, 2, given, engine=engine).verdict != "verified"
    right = text.replace("setp.ne.and.u32 %q, %p, %i, %q;", "setp.ne.u32 %q, 0, 0;")
    assert wsemu.check(wsemu.load_ptx(right)["k"], 1, 2, given, engine=engine).verdict == "verified"


def test_pushes_beyond_a_limit_are_not_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numbers, "MOST_ACCESSES", 100)
    assert wsemu.check(push, 2, 32, arguments()).verdict == "incomplete"


def test_a_bit_that_a_thread_changes_and_another_number_tests_is_found() -> None:
    # the thread with number 1 finds its slot occupied if the one with number 0 has stored, and then waits for ever
    program = BitProgram(
        1, 2, 3, 0, 0, 0, draw="add", slot="half", lock="bit", occupied=True, full=False, at="thread", load="",
        order="weak", steer="", when="", unlock="bit",
    )  # fmt: skip
    assert program.can_fail()
    assert judge_bits(program, ENGINES).complaints == ()


def test_random_programs_agree_with_all_interleavings() -> None:
    source = random.Random("bits")
    judged = [judge_bits(draw_bits(source), ENGINES if k % 8 == 1 else ("vm",)) for k in range(30)]
    assert [str(one) for one in judged if one.complaints] == []
    assert sum(one.verdicts[0] == "verified" for one in judged) > 8
