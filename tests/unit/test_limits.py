"""docs/limits.md: each row has a test (limits_rows.py), and those of rows that no other file tests."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import wsemu
from tests.unit.limits_rows import PAGE, is_there, list_rows, read_table
from wsemu import cuda, ptx
from wsemu.cuda import uint32
from wsemu.launch.explore import claims, crowds, decide, flags, messages, numbers, orders, samples, search, windows
from wsemu.launch.explore.spending import EVENTS, PRICE, STEP
from wsemu.model.outcome import COMPARED

if TYPE_CHECKING:
    from wsemu.model.settings import Engine

ENGINES = pytest.mark.parametrize("engine", ["vm", "reference"])
LISTED = read_table()


def codes(report: wsemu.Report) -> set[str]:
    return {finding.code for finding in report.findings}


# -- the table ---------------------------------------------------------------------------------------------------------
def test_each_row_has_one_test() -> None:
    for row in list_rows():
        found = [about for about in LISTED if row.about.startswith(about)]
        assert len(found) == 1, row


def test_what_is_listed_is_a_row() -> None:
    rows = [row.about for row in list_rows()]
    assert not [about for about in LISTED if not any(row.startswith(about) for row in rows)]


@pytest.mark.parametrize("about", [about for about, test in LISTED.items() if test != "-"])
def test_a_listed_test_exists(about: str) -> None:
    assert is_there(LISTED[about])


# -- rows --------------------------------------------------------------------------------------------------------------
def test_the_units_of_effort_are_those_of_the_page() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for text in (
        f"| {search.MOST_STEPS:,}. ",
        f" it continues up to {search.MOST_STEPS * search.MOST_MORE:,.0f} |",
        f"| {samples.MOST_STEPS:,} including those of the search, but at least {samples.LEAST_STEPS} for sampling; ",
        f"at most {samples.MOST_ORDERS} sampled interleavings |",
        f"| CTAs that only publish values to each other | {messages.MOST_STEPS} accesses |",
        (
            "| [flags](how.md#flags) that have one writer each, that CTAs hand on, or to which CTAs add "
            f"| {flags.MOST_STEPS:,} accesses |"
        ),
        (
            f"| {windows.MOST_RUNS:,} paths (enough for some 50 CTAs that look at 32 predecessors at once), "
            f"{windows.MOST_NODES} states "
        ),
        f"| {claims.MOST_STEPS:,} strong accesses, and two more for each thread; ",
        f"for each thread; {claims.MOST_ACCESSES:,} other accesses |",
        f"do: up to {claims.MOST_THREADS:,} threads.",
        f"| threads that lock or set bits of their numbers | {numbers.MOST_ACCESSES:,} accesses |",
        f"(how.md#bits-of-numbers): up to {numbers.MOST_THREADS:,} threads.",
        f"| {crowds.MOST_MOVES} runs of single CTAs, {crowds.MOST_STATES:,} states, {crowds.MOST_GROUPS} groups ",
    ):
        assert text in page
    assert claims.STEPS_OF_THREAD == 2
    of_orders = orders.ACCOUNT * orders.MOST_OF_ORDERS
    assert f"it has {of_orders / STEP:,.0f} steps for\ninterleavings and " in page
    assert f" and {(orders.ACCOUNT - of_orders) / STEP:,.0f} for other programs." in page
    assert f"once more for each {EVENTS} events." in page
    assert f"uses {PRICE / STEP:,.0f} steps if it reaches its\nlimit." in page
    assert search.MOST_BYTES == crowds.MOST_KEPT == messages.MOST_KEPT == 1 << 30
    assert "| memory of saved states | 1 GiB" in page


@cuda.jit
def meets_by_an_exchange(word: Any, out: Any) -> None:
    """Each CTA leaves its number, and the first one of those that find an even number does more."""
    if cuda.threadIdx.x == 0:
        got = cuda.atomic.exch(word, 0, cuda.blockIdx.x)
        if got % 2 == 0:
            cuda.atomic.exch(word, 0, got + 1)
            out[cuda.blockIdx.x] = got


def test_a_launch_of_many_ctas_that_atomics_steer_is_not_decided() -> None:
    report = wsemu.check(meets_by_an_exchange, 65, 32, (np.zeros(1, np.int32), np.zeros(65, np.int32)))
    assert report.verdict == "incomplete"
    assert any("depends on the result of the atomic" in note for note in report.notes)
    assert f"more than {decide.MOST_CTAS} CTAs or {decide.MOST_THREADS:,} threads" in PAGE.read_text(encoding="utf-8")


@cuda.jit
def compares_a_sum(parts: Any, total: Any, out: Any) -> None:
    """All lanes add to a sum, which decides what they do."""
    cuda.atomic.add(total, 0, parts[cuda.threadIdx.x])
    cuda.syncthreads()
    if total[0] > 1:
        out[cuda.threadIdx.x] = 1


def test_a_floating_point_sum_that_decides_a_branch_is_open() -> None:
    parts = (np.arange(128) * 0.1).astype(np.float32)
    report = wsemu.check(compares_a_sum, 1, 128, (parts, np.zeros(1, np.float32), np.zeros(128, np.int32)))
    assert report.verdict == "incomplete"
    assert "whose rounding differs by schedule (store the parts, and add them in one order)" in repr(report.notes)


@cuda.jit
def fails_late(flag: Any, out: Any, rounds: Any) -> None:
    """One thread's `cas` never finds what it compares with, in a launch of as many rounds."""
    t = cuda.threadIdx.x
    total = 0
    for k in range(rounds):
        total += k
    out[1 + t] = total
    if t == 0:
        cuda.atomic.cas(flag, 0, uint32(5), uint32(1))
    if t == 32:
        out[0] = flag[0]


@pytest.mark.parametrize(("rounds", "verdict"), [(10, "verified"), (2 * COMPARED // 64, "failed")])
def test_a_cas_that_fails_in_a_long_launch_stays_a_race(rounds: int, verdict: str) -> None:
    report = wsemu.check(fails_late, 1, 64, (np.zeros(1, np.uint32), np.zeros(65, np.int64), rounds))
    assert report.verdict == verdict
    assert codes(report) == (set() if verdict == "verified" else {"race"})
    assert f"launches of more than {COMPARED:,} thread instructions" in PAGE.read_text(encoding="utf-8")


@cuda.jit
def polls_plainly(flag: Any, out: Any) -> None:
    while flag[0] == 0:
        pass
    out[cuda.threadIdx.x] = 1


READS_WHILE_IT_WAITS = """.version 8.4
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p)
{
.reg .pred %p; .reg .b32 %r<5>; .reg .b64 %rd<4>;
ld.param.u64 %rd1, [p]; mov.u32 %r1, %ctaid.x;
setp.eq.u32 %p, %r1, 0; @%p bra WRITES;
LOOP: ld.global.u32 %r3, [%rd1+4];
ld.relaxed.gpu.global.u32 %r2, [%rd1];
setp.eq.u32 %p, %r2, 0; @%p bra LOOP;
st.global.u32 [%rd1+8], %r3;
ret;
WRITES: st.relaxed.gpu.global.u32 [%rd1], 1;
ret;
}
"""


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_a_loop_may_access_other_memory_while_it_waits(engine: Any) -> None:
    kernel = wsemu.load_ptx(READS_WHILE_IT_WAITS)["k"]
    assert wsemu.check(kernel, 2, 1, [np.zeros(4, np.uint32)], engine=engine).verdict == "verified"


def test_the_loop_that_waits_may_race_from_one_round_to_the_next() -> None:
    """Another CTA writes in between what a round reads."""
    text = READS_WHILE_IT_WAITS.replace("WRITES: ", "WRITES: st.global.u32 [%rd1+4], 1; fence.acq_rel.gpu;")
    report = wsemu.check(wsemu.load_ptx(text)["k"], 2, 1, [np.zeros(4, np.uint32)])
    assert (report.verdict, {finding.code for finding in report.findings}) == ("failed", {"race"})


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_a_loop_that_accesses_other_memory_while_it_waits_is_not_decided(engine: Any) -> None:
    """In a launch with mbarriers."""
    text = READS_WHILE_IT_WAITS.replace("{\n", "{\n.shared .align 8 .b64 bar; .reg .b32 %b;", 1)
    text = text.replace("WRITES: ", "WRITES: mov.u32 %b, bar; mbarrier.init.shared.b64 [%b], 1;")
    kernel = wsemu.load_ptx(text)["k"]
    report = wsemu.check(kernel, 2, 1, [np.zeros(4, np.uint32)], engine=engine)
    assert report.verdict == "incomplete"
    said = "accesses other memory while it waits: wait in a loop that does nothing but poll"
    assert any(said in note for note in report.notes)


def test_a_plain_poll_of_what_nobody_writes_is_incomplete() -> None:
    report = wsemu.check(polls_plainly, 1, 64, (np.zeros(1, np.int32), np.zeros(64, np.int32)))
    assert report.verdict == "incomplete"
    assert report.counters.warp_instructions <= 100_000


@cuda.jit
def loads_for_nothing(x: Any) -> None:
    """Another thread stores what one loads, and does not use."""
    t = cuda.threadIdx.x
    if t == 0:
        x[0] = 1
    if t == 32:
        x[1] = x[0] * 0


@ENGINES
def test_a_plain_load_whose_value_is_unused_races(engine: Engine) -> None:
    report = wsemu.check(loads_for_nothing, 1, 64, (np.zeros(2, np.int32),), engine=engine)
    assert (report.verdict, codes(report)) == ("failed", {"race"})


@cuda.jit
def passes_by_a_shuffle(out: Any) -> None:
    tile = cuda.shared.array(32, np.int32)
    t = cuda.threadIdx.x
    tile[t] = t
    got = cuda.shfl_sync(0xFFFFFFFF, t, 0)
    out[t] = tile[31 - t] + got


@ENGINES
def test_a_shuffle_orders_memory_among_its_lanes(engine: Engine) -> None:
    report = wsemu.check(passes_by_a_shuffle, 1, 32, (np.zeros(32, np.int32),), engine=engine)
    assert (report.verdict, codes(report)) == ("verified", set())


@cuda.jit
def has_many_mbarriers(count: Any) -> None:
    bars = cuda.shared.array(5_000, np.uint64)
    if cuda.threadIdx.x == 0:
        for k in range(count):
            ptx.mbarrier_init(bars, k, 1)


@pytest.mark.parametrize(("count", "verdict"), [(4_096, "verified"), (4_097, "incomplete")])
def test_more_mbarriers_than_are_followed(count: int, verdict: str) -> None:
    assert wsemu.check(has_many_mbarriers, 1, 32, (count,)).verdict == verdict
    assert "more than 4,096 live mbarriers" in PAGE.read_text(encoding="utf-8")


def test_python_has_no_wgmma() -> None:
    assert not [name for name in dir(ptx) if name.startswith("wgmma")]


TEXT = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 x)
{
.reg .b64 %d<3>; .reg .f32 %f<3>;
ld.param.u64 %d0, [x]; cvta.to.global.u64 %d1, %d0;
mov.b32 %f0, 0x00000001;
atom.global.add.f32 %f1, [%d1], %f0;
atom.add.f32 %f1, [%d0+4], %f0;
ret;
}
"""


@ENGINES
def test_sums_of_subnormals_by_atomics(engine: Engine) -> None:
    """`.global` flushes them to zero, a generic address keeps them."""
    left = np.zeros(2, np.float32)
    wsemu.check(wsemu.load_ptx(TEXT)["k"], 1, 1, (left,), engine=engine)
    assert left.view(np.uint32).tolist() == [0, 1]


@cuda.jit
def wraps(x: Any, out: Any) -> None:
    out[0] = 1 if x[0] + 1 > x[0] else 0
    out[1] = abs(x[0] + 31)
    out[2] = x[0] * 2 // 2


@ENGINES
def test_signed_integers_wrap(engine: Engine) -> None:
    most = np.iinfo(np.int64).max
    out = np.zeros(3, np.int64)
    wsemu.check(wraps, 1, 1, (np.array([most]), out), engine=engine)
    assert out.tolist() == [0, most - 29, -1]
    assert re.search(r"`wsemu` wraps 64-bit signed integers", PAGE.read_text(encoding="utf-8"))


@cuda.jit
def adds_to_words_of_one_bank(y):
    s = cuda.shared.array(32, np.int32)
    i = cuda.threadIdx.x
    s[i] = 0
    cuda.syncwarp()
    cuda.atomic.add(s, i % 2, i)
    cuda.syncwarp()
    y[i] = s[i]


@cuda.jit
def takes_the_larger_of_8_bytes(y):
    s = cuda.shared.array(32, np.uint64)
    i = cuda.threadIdx.x
    s[i] = 0
    cuda.syncwarp()
    cuda.atomic.max(s, i % 2, i)
    cuda.syncwarp()
    y[i] = s[i]


@pytest.mark.parametrize("engine", ["vm", "reference"])
@pytest.mark.parametrize(("kernel", "arch", "uncounted", "wavefronts"), [
    (adds_to_words_of_one_bank, "sm_90", 0, 16),
    (adds_to_words_of_one_bank, "sm_80", 1, 0),
    (takes_the_larger_of_8_bytes, "sm_90", 1, 0),
])  # fmt: skip
def test_bank_conflicts_of_atomics_are_counted_where_they_were_measured(
    kernel: Any, arch: str, uncounted: int, wavefronts: int, engine: Any
) -> None:
    counters = wsemu.check(kernel, 1, 32, [np.zeros(32, np.int32)], arch=arch, engine=engine).counters
    assert (counters.uncounted_atomics, counters.shared_atomic_wavefronts) == (uncounted, wavefronts)
