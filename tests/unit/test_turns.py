"""CTAs that take turns: each waits until a word has its number, and hands it on."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import wsemu
from tests.properties.turn_programs import (
    THREADS,
    WORDS,
    Step,
    check,
    check_by_flags,
    draw_turns,
    flags_come_first,
    judge_turns,
    ptx,
)
from tests.unit.steering_kernels import variant
from wsemu import DeviceMemory, cuda

if TYPE_CHECKING:
    from wsemu.model.settings import Engine

FENCE, BARRIER = True, True


def meet_in_the_loop(turn: Any, total: Any) -> None:
    """A wait as in CUTLASS's semaphore: thread 0 polls, and all threads of the CTA meet in each round of the loop."""
    t = cuda.threadIdx.x
    seen = -1
    while cuda.syncthreads_and(int(seen != cuda.blockIdx.x)):
        if t == 0:
            seen = cuda.atomic.add(turn, 0, 0)
            if FENCE:
                cuda.threadfence()
    total[t] += 1
    if BARRIER:
        cuda.syncthreads()
    if t == 0:
        cuda.threadfence()
        cuda.atomic.exch(turn, 0, cuda.blockIdx.x + 1)


def arguments() -> tuple[Any, Any]:
    return np.zeros(1, np.int32), np.zeros(64, np.int32)


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_a_wait_in_which_all_threads_meet_comes_back_to_its_state(engine: Engine) -> None:
    turn, total = arguments()
    report = wsemu.check(variant(meet_in_the_loop), 2, 64, (turn, total), engine=engine)
    assert (report.verdict, list(total)) == ("verified", [2] * 64)


@pytest.mark.parametrize("part", ["FENCE", "BARRIER"])
def test_turns_without_a_fence_or_a_barrier_race(part: str) -> None:
    report = wsemu.check(variant(meet_in_the_loop, **{part: False}), 2, 64, arguments())
    assert [finding.code for finding in report.findings if finding.severity == "error"] == ["race"]


def take_turn(cta: int, *, looks: bool = True, meets: bool = True) -> list[Step]:
    """Return the steps of a CTA that waits for its number, adds to word 0, and hands the flag on."""
    look = [Step("look", 0, 0, "acquire")] if looks else []
    wait = Step("wait", 0, cta, "acquire", "eq", meets)
    work = [Step("load", kind="other"), Step("store", 0, cta, kind="other")]
    return [*look, wait, Step("barrier"), *work, Step("barrier"), Step("set", 0, cta + 1, "release")]


RIGHT = [take_turn(cta) for cta in range(3)]


@pytest.mark.parametrize("looks", [False, True])
@pytest.mark.parametrize("meets", [False, True])
@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_flags_that_ctas_hand_on_are_decided(engine: Engine, meets: bool, looks: bool) -> None:
    program = [take_turn(cta, looks=looks and meets, meets=meets) for cta in range(3)]
    assert check_by_flags(ptx(program), 3, engine) == ("verified", True)


@pytest.mark.parametrize(("written", "verdict"), [(8, "verified"), (4, "verified"), (0, "failed")])
@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_a_flag_may_lie_in_memory_of_which_a_part_was_never_written(engine: Engine, written: int, verdict: str) -> None:
    """As in a pool of device memory, of which a library clears only the flags; the words need not be written."""
    memory = DeviceMemory()
    flags, words = memory.allocate(8), memory.allocate(4 * WORDS)
    memory.write(flags, np.zeros(written, np.uint8))
    memory.write(words, np.zeros(WORDS, np.uint32))
    with flags_come_first() as decided:
        report = wsemu.check(wsemu.load_ptx(ptx(RIGHT))["k"], 3, THREADS, (flags, words), memory=memory, engine=engine)
    proven = any(one is not None and one.proven for one in decided)
    assert (report.verdict, proven) == (verdict, verdict == "verified")


def change(cta: int, n: int, step: Step | None, *more: Step) -> list[list[Step]]:
    """Return the right program with another step in place of one; None: without it."""
    steps = RIGHT[cta]
    new = [*steps[:n], *([step] if step else []), *more, *steps[n + 1 :]]
    return [*RIGHT[:cta], new, *RIGHT[cta + 1 :]]


LOOK, WAIT, FIRST, LOAD, STORE, LAST, SET = range(7)
"""the steps of a CTA"""


@pytest.mark.parametrize(
    "program",
    [
        change(1, WAIT, Step("wait", 0, 0, "acquire", "eq", meets=True)),  # two CTAs have the first turn
        change(1, WAIT, Step("wait", 0, 0, "acquire", "ge", meets=True)),  # a turn that does not wait
        change(2, WAIT, Step("wait", 0, 1, "acquire", "ge", meets=True)),
        change(1, LOOK, Step("look", 0, 0, "relaxed")),  # the early look acquires nothing
        change(1, LOOK, Step("look", 0, 0, "acquire"), Step("load")),  # an access before the turn
        change(1, LOOK, Step("look", 0, 0, "acquire"), Step("load", 0, 0, kind="other")),
        change(1, WAIT, Step("wait", 0, 1, "relaxed", "eq", meets=True)),
        change(1, SET, Step("set", 0, 2, "relaxed")),  # a turn that is handed on without a release
        change(1, LAST, Step("set", 0, 2, "release")),  # handed on before the others have worked
        change(1, LOAD, Step("load", 0, 0, kind="other"), Step("set", 0, 2, "release")),
        change(0, SET, Step("set", 0, 2, "release")),  # a turn is left out: CTA 1 waits for ever
        change(1, SET, Step("set", 0, 1, "release")),  # the turn comes again
        change(1, SET, None),
        change(0, FIRST, Step("set", 0, 1, "release")),  # handed on before the work
        [*RIGHT[:2], take_turn(1)],  # two CTAs have one turn
    ],
)
def test_turns_that_are_taken_wrongly_are_not_verified(program: list[list[Step]]) -> None:
    verdict, decided = check_by_flags(ptx(program), 3)
    assert (verdict != "verified", decided) == (True, False)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("bra M1_1;", "st.global.u32 [%w+4], 1; bra M1_1;"),  # each round stores
        ("bra M1_1;", "@%z ld.global.u32 %v, [%w]; bra M1_1;"),  # each round loads
        ("N1_1:", "N1_1: @%z st.global.u32 [%w+8], %v;"),  # counts its rounds
        ("mov.u32 %s, -1;\n@!%z bra L1_0;", "mov.u32 %s, 1;\n@!%z bra L1_0;"),  # others do not wait
        ("bar.red.and.pred %q, 0, %p; @!%q bra N1_1;", "bar.red.or.pred %q, 0, %p; @!%q bra N1_1;"),
        ("bar.red.and.pred %q, 0, %p; @!%q bra N1_1;", "@!%p bra N1_1;"),  # no one meets
        ("bra M1_1;", "add.u32 %v, %v, 1; setp.gt.u32 %q, %v, 3; @%q bra N1_1; bra M1_1;"),  # gives up
    ],
)
def test_waits_that_do_more_are_not_decided_by_flags(old: str, new: str) -> None:
    text = ptx(RIGHT)
    assert old in text
    text = text.replace(old, new)
    text = text.replace("mov.u32 %s, 99;", "mov.u32 %s, 99; mov.u32 %v, 0;")
    if "[%w+8], %v" in new:
        text = text.replace("bra M1_1;", "add.u32 %v, %v, 1; bra M1_1;")
    verdict, decided = check_by_flags(text, 3)
    assert not decided
    assert verdict != "verified" or check(text, 3) == "verified"


def test_random_turns_are_decided_as_by_all_orders() -> None:
    source = random.Random(5)
    judged = [judge_turns(draw_turns(source), ("vm",)) for _ in range(25)]
    assert not [one for one in judged if one.complaints]
    assert 3 < sum(one.fails for one in judged) < 22


@pytest.mark.parametrize(("goes_on", "verdict"), [(False, "verified"), (True, "incomplete")])
def test_a_wait_for_a_value_that_comes_again_may_miss_the_last_one(goes_on: bool, verdict: str) -> None:
    """CTA 1 writes 2 between the two values 1 that it waits for, so its second wait reads no earlier value."""
    steps = [
        [Step("set", 0, 1, "release"), Step("wait", 0, 2, "acquire", "eq"), Step("set", 0, 1, "release")],
        [Step("wait", 0, 1, "acquire", "eq"), Step("set", 0, 2, "release"), Step("wait", 0, 1, "acquire", "eq")],
    ]
    if goes_on:
        steps[0].append(Step("set", 0, 5, "release"))
    said, decides = check_by_flags(ptx(steps), 2)
    assert (said, decides) == (verdict, verdict == "verified")


SKIPPED = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 flag_, .param .u64 word_) {
.reg .b64 %f, %w; .reg .b32 %c, %t, %s, %i, %v; .reg .pred %p, %o, %done;
ld.param.u64 %f, [flag_]; ld.param.u64 %w, [word_];
mov.u32 %c, %ctaid.x; mov.u32 %t, %tid.x; mov.u32 %i, 0;
and.b32 %s, %t, 31; setp.ne.u32 %p, %s, 0; @%p exit;
setp.ne.u32 %p, %c, 0; @%p bra SET;
setp.ge.u32 %o, %t, 32; mov.pred %done, 0;
MEET: bar.red.or.pred %p, 0, %done; @%p bra END;
setp.ne.u32 %p, %i, 0; mov.u32 %i, 1; @%o bra OTHER;
@%p bra WAIT;
ld.acquire.gpu.global.u32 %s, [%f];
setp.ne.u32 %p, %s, 1; mov.u32 %s, 0; @%p bra MEET;
bra WORK;
WAIT: ld.acquire.gpu.global.u32 %s, [%f]; setp.ne.u32 %p, %s, 1; @%p bra WAIT;
mov.u32 %s, 0;
WORK: ld.global.u32 %v, [%w]; mov.pred %done, 1; bra MEET;
OTHER: @%p bra MEET;
STORE
bra MEET;
SET: setp.eq.u32 %p, %t, 0; @%p st.release.gpu.global.u32 [%f], 1;
END: ret;
}
"""
"""Between two meetings, warp 1 may store, and warp 0 looks at the flag: if it is set, warp 0 works before the second
meeting."""


@pytest.mark.parametrize(("store", "verdict"), [("st.global.u32 [%w], 5;", "failed"), ("", "verified")])
@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_a_look_may_skip_a_barrier_only_if_no_warp_needs_it(store: str, verdict: str, engine: Engine) -> None:
    said, decides = check_by_flags(SKIPPED.replace("STORE", store), 2, engine)
    assert (said, decides) == (verdict, verdict == "verified")
