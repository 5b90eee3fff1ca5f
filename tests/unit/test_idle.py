"""Loops that wait for what nobody writes end a launch soon, and loops that move on do not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wsemu
from wsemu import cuda
from wsemu.launch.explore import orders


@cuda.jit
def lanes_of_a_warp_pass_a_lock_on(mutex, count):
    while cuda.atomic.cas(mutex, 0, 0, 1) != 0:
        pass
    count[0] += 1
    cuda.atomic.exch(mutex, 0, 0)


@cuda.jit
def a_later_cta_writes(flag, y):
    if cuda.blockIdx.x == 0:
        while flag[0] == 0:
            pass
    else:
        flag[0] = 1


@cuda.jit
def one_looks_for_all(flag, y):
    seen = cuda.shared.array(1, np.int32)
    if cuda.blockIdx.x == 0:
        while True:
            if cuda.threadIdx.x == 0:
                seen[0] = cuda.atomic.add(flag, 0, 0)
            cuda.syncthreads()
            value = seen[0]
            cuda.syncthreads()
            if value != 0:
                break
    elif cuda.threadIdx.x == 0:
        cuda.atomic.add(flag, 0, 1)


@pytest.mark.parametrize(
    ("kernel", "grid"), [(lanes_of_a_warp_pass_a_lock_on, 1), (a_later_cta_writes, 2), (one_looks_for_all, 70)]
)
def test_a_loop_that_only_waits_ends_the_run(kernel: Any, grid: int) -> None:
    found = wsemu.check(kernel, grid, 64, (np.zeros(1, np.int32), np.zeros(1, np.int32)))
    assert found.verdict == "incomplete"
    assert any("a loop waits for memory to change" in note for note in found.notes)
    assert found.counters.warp_instructions <= 100_000


@cuda.jit
def counts_its_tries(flag, y):
    tries = 0
    while flag[0] == 0 and tries < 100_000:
        tries += 1
    y[0] = tries


def test_a_loop_that_counts_goes_on() -> None:
    y = np.zeros(1, np.int32)
    assert wsemu.check(counts_its_tries, 1, 1, (np.zeros(1, np.int32), y)).verdict == "verified"
    assert y[0] == 100_000


POLLS = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p, .param .u64 q) {{
  .reg .pred %p<3>; .reg .b32 %r<6>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [p]; ld.param.u64 %rd2, [q];
  mov.u32 %r1, %tid.x;
  {before}
LOOP:
  {poll}
  setp.eq.u32 %p2, %r3, 0;
  @%p2 bra LOOP;
  {after}
END:
  ret;
}}
"""
RELAXED = "ld.relaxed.gpu.global.u32 %r3, [%rd1];"
STORED = "st.relaxed.gpu.global.u32 [%rd2], %r3;"
FOR_EVER = {
    "relaxed": ("", RELAXED, STORED),
    "acquire": ("", RELAXED.replace("relaxed", "acquire"), STORED),
    "volatile": ("", "ld.volatile.global.u32 %r3, [%rd1];", STORED),
    "compare and swap": ("", "atom.global.cas.b32 %r3, [%rd1], 1, 2;", STORED),
    "the others have ended": ("setp.ge.u32 %p1, %r1, 32; @%p1 bra END;", RELAXED, STORED),
    "the others wait": ("setp.ge.u32 %p1, %r1, 32; @%p1 bra END;", RELAXED, "END: bar.sync 0; ret; LATE:"),
    "two warps wait for each other": (
        (
            "and.b32 %r2, %r1, 31; setp.ne.u32 %p1, %r2, 0; @%p1 bra END; setp.ne.u32 %p1, %r1, 0;"
            "@%p1 mov.u64 %rd3, %rd1; @%p1 mov.u64 %rd1, %rd2; @%p1 mov.u64 %rd2, %rd3;"
        ),
        RELAXED,
        STORED,
    ),
}


def polling(before: str, poll: str, after: str) -> Any:
    text = POLLS.format(before=before, poll=poll, after=after)
    return wsemu.load_ptx(text.replace("END:\n  ret;", "ret;") if "END:" in after else text)["k"]


@pytest.mark.parametrize(("engine", "block"), [("vm", 1), ("vm", 64), ("reference", 1)])
@pytest.mark.parametrize("parts", FOR_EVER.values(), ids=FOR_EVER)
def test_a_poll_of_what_nobody_writes_waits_for_ever(
    parts: tuple[str, str, str], engine: Any, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(orders, "PATIENCE", 4_000)
    report = wsemu.check(polling(*parts), 1, block, [np.zeros(1, np.uint32), np.zeros(1, np.uint32)], engine=engine)
    assert report.verdict == "failed"
    (finding,) = report.findings
    assert (finding.code, finding.holds_in) == ("deadlock", "every schedule")
    assert "waits forever for `p[0]` to change" in finding.message
    assert finding.sites[0].line == 10
    assert report.counters.warp_instructions <= 4_000


COUNTS = {
    "tries": ("", "add.u32 %r4, %r4, 1;" + RELAXED, "st.global.u32 [%rd2], %r4;"),
    "a sum of what it sees": (
        "",
        RELAXED + "add.u32 %r4, %r4, %r3; add.u32 %r4, %r4, 3;",
        "st.global.u32 [%rd2], %r4;",
    ),
    "counts of counts": ("", "add.u32 %r4, %r4, 1; add.u32 %r5, %r5, %r4;" + RELAXED, "st.global.u32 [%rd2], %r5;"),
}


@pytest.mark.parametrize(("engine", "block"), [("vm", 1), ("vm", 64), ("reference", 1)])
@pytest.mark.parametrize("parts", COUNTS.values(), ids=COUNTS)
def test_a_loop_that_waits_and_counts_ends_the_run(
    parts: tuple[str, str, str], engine: Any, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(orders, "PATIENCE", 4_000)
    report = wsemu.check(
        polling("mov.u32 %r4, 0; mov.u32 %r5, 0;" + parts[0], *parts[1:]), 1, block,
        [np.zeros(1, np.uint32), np.zeros(1, np.uint32)], engine=engine,
    )  # fmt: skip
    assert report.verdict == "incomplete"
    assert any("a loop waits for memory to change" in note for note in report.notes)
    assert report.counters.warp_instructions <= 4_000


@pytest.mark.parametrize("uses", [
    "setp.eq.u32 %p1, %r4, 9000; @%p1 bra END;", "@%p1 bra END; setp.eq.u32 %p1, %r4, 9000;",
    "setp.eq.u32 %p1, %r4, 9000; @%p1 st.global.u32 [%rd1], %r4;",
    "setp.eq.u32 %p1, %r4, 9000; selp.b32 %r5, 1, 0, %p1; atom.global.or.b32 %r3, [%rd1], %r5;",
])  # fmt: skip
def test_a_count_that_ends_the_loop_is_none_of_tries(uses: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orders, "PATIENCE", 4_000)
    kernel = polling("mov.u32 %r4, 0; setp.eq.u32 %p1, %r1, 1;", "add.u32 %r4, %r4, 1;" + RELAXED + uses, "")
    report = wsemu.check(kernel, 1, 1, [np.zeros(1, np.uint32), np.zeros(1, np.uint32)])
    assert report.verdict == "verified"


def test_the_reference_looks_sooner_at_a_loop_that_waits() -> None:
    report = wsemu.check(
        polling("", RELAXED, ""), 1, 1, [np.zeros(1, np.uint32), np.zeros(1, np.uint32)], engine="reference"
    )
    assert report.verdict == "failed"
    assert report.counters.warp_instructions <= orders.SLOW_PATIENCE


def test_a_poll_of_what_is_there_goes_on() -> None:
    report = wsemu.check(polling("", RELAXED, ""), 1, 1024, [np.ones(1, np.uint32), np.zeros(1, np.uint32)])
    assert report.verdict == "verified"


def test_a_loop_that_ends_threads_is_one_that_waits() -> None:
    """Lanes that wait for others of their warp, and leave the kernel from the loop, end the run soon."""
    before = "setp.ne.u32 %p1, %r1, 0; @!%p1 bra LOOP; OTHER: ld.relaxed.gpu.global.u32 %r3, [%rd2];"
    before += "setp.eq.u32 %p2, %r3, 0; @%p2 bra OTHER; st.relaxed.gpu.global.u32 [%rd1], 1; bra END;"
    report = wsemu.check(polling(before, RELAXED, ""), 1, 64, [np.zeros(1, np.uint32), np.zeros(1, np.uint32)])
    assert report.verdict == "failed"
    assert report.counters.warp_instructions <= 100_000


@cuda.jit
def races_and_counts_free_places(places, y):
    i = cuda.grid(1)
    if i % 32 == 0:
        places[15] = i  # two warps store there
    for n in range(200):
        if cuda.atomic.cas(places, n % 8, 0, 1) == 0:
            y[i] += 1
    y[i] += 1


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_a_launch_with_a_race_stores_all_its_results(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program goes on with the arrays."""
    monkeypatch.setattr(orders, "PATIENCE", 1_000)
    y = np.zeros(64, np.int32)
    report = wsemu.check(races_and_counts_free_places, 1, 64, (np.zeros(16, np.int32), y), engine=engine)
    assert report.verdict == "failed"
    assert {finding.code for finding in report.errors} == {"race"}
    assert y.min() == 1
    assert y.sum() == 64 + 8


@cuda.jit
def races_and_waits(flag, y):
    y[0] = cuda.threadIdx.x
    while cuda.atomic.add(flag, 0, 0) == 0:
        pass
    y[1] = 1


def test_a_launch_with_a_race_that_only_waits_ends_soon() -> None:
    y = np.zeros(2, np.int32)
    report = wsemu.check(races_and_waits, 1, 64, (np.zeros(1, np.int32), y))
    assert report.verdict == "failed"
    assert report.counters.warp_instructions <= 100_000
    assert y[1] == 0


@cuda.jit
def stores_again(x, y, n):
    i = 0
    while i < n:
        y[cuda.threadIdx.x] = x[cuda.threadIdx.x]


@cuda.jit
def counts_for_ever(x, y, n):
    i = 0
    while True:
        i += 1
        y[cuda.threadIdx.x] = i


@cuda.jit
def meets_for_ever(x, y, n):
    while n > 0:
        y[cuda.threadIdx.x] = n
        cuda.syncthreads()


@cuda.jit
def leaves_at_once(x, y, n):
    while True:
        y[cuda.threadIdx.x] = n
        if n:
            break


@cuda.jit
def reaches_the_end(x, y, n):
    i = 0
    while True:
        y[i] = n
        i += 1
        if i == 64:
            break


@pytest.mark.parametrize("engine", ["vm", "reference"])
@pytest.mark.parametrize("threads", [32, 64])
@pytest.mark.parametrize("kernel", [stores_again, counts_for_ever])
def test_a_loop_without_an_end_ends_the_run(
    kernel: Any, threads: int, engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(orders, "SLOW_PATIENCE", 1_000)
    y = np.zeros(64, np.int32)
    report = wsemu.check(kernel, 1, threads, (np.zeros(64, np.int32), y, np.int32(1)), engine=engine)
    assert (report.verdict, report.reasons) == ("incomplete", ["step budget"])
    assert report.counters.warp_instructions <= 100_000
    assert any("a loop has no end: every round takes the same path" in note for note in report.notes)


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_a_loop_of_barriers_without_an_end_ends_the_run(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orders, "SLOW_PATIENCE", 1_000)
    x, y = np.zeros(1, np.int32), np.zeros(64, np.int32)
    report = wsemu.check(meets_for_ever, 1, 64, (x, y, np.int32(1)), engine=engine)
    assert report.verdict == "incomplete"
    assert report.counters.warp_instructions <= 100_000


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_a_loop_with_an_end_runs_to_it(engine: Any) -> None:
    x, y = np.zeros(1, np.int32), np.zeros(64, np.int32)
    assert wsemu.check(leaves_at_once, 1, 64, (x, y, np.int32(1)), engine=engine).verdict == "verified"
    assert wsemu.check(reaches_the_end, 1, 1, (x, y, np.int32(1)), engine=engine).verdict == "verified"


@cuda.jit
def some_lanes_wait(flag, y):
    t = cuda.threadIdx.x
    cuda.syncthreads()
    if t % 2 == 0:
        y[t] = 2
        while flag[t] == 0:
            pass


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_the_note_names_the_loop_in_which_some_lanes_wait(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It named the barrier before the loop."""
    monkeypatch.setattr(orders, "SLOW_PATIENCE", 1_000)
    report = wsemu.check(some_lanes_wait, 1, 32, (np.zeros(32, np.int32), np.zeros(32, np.int32)), engine=engine)
    note = next(note for note in report.notes if "a loop waits for memory" in note)
    line = Path(__file__).read_text(encoding="utf-8").splitlines()[int(note.split(":")[1]) - 1]
    assert line.split()[0] in ("while", "pass")
