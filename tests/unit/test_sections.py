"""What a CTA does between two barriers of all its warps is judged once; what comes between is found all the same, and
a launch says what the VM alone says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import wsemu
from tests.unit.test_blocks import in_all_tiers, said
from wsemu import cuda, ptx
from wsemu.machine import workers
from wsemu.machine.memory import shadow_planes
from wsemu.machine.tier import hot, section_tables
from wsemu.model.settings import Settings, using

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from wsemu.machine.vm import Machine
    from wsemu.model.settings import CtaOrder

ROUNDS, THREADS, CTAS = 24, 96, 2


@pytest.fixture(autouse=True)
def _none_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_kept", {})


@pytest.fixture
def machines(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Machine]]:
    """Those that have run blocks."""
    found: list[Machine] = []
    take_up = hot._take_up

    def seen(machine: Machine, block: hot.Placed) -> None:
        take_up(machine, block)
        found.append(machine)

    monkeypatch.setattr(hot, "_take_up", seen)
    yield found
    found.clear()


def met_again(machines: list[Machine]) -> int:
    """How often sections were met again, and not judged."""
    return sum(int(m.sections._sections["used"].sum()) for m in machines if m.sections)


# -- kernels: each round writes rows and reads those of other warps; `when` is the round, or another number, at which
# something else happens in CTA 1


@cuda.jit
def plain(n: Any, y: Any, x: Any, when: Any) -> None:
    s = cuda.shared.array(32 * 4, np.float32)
    t, b = cuda.threadIdx.x, cuda.blockIdx.x
    w, l = t // 32, t % 32  # noqa: E741
    v = np.float32(0)
    for r in range(n):
        s[32 * w + l] = v + r
        cuda.syncthreads()
        v += s[32 * ((w + 1) % 3) + l] * s[32 * w + (l ^ 5)]
        cuda.syncthreads()
    y[b, t] = v


@cuda.jit
def stray_store(n: Any, y: Any, x: Any, when: Any) -> None:
    s = cuda.shared.array(32 * 4, np.float32)
    t, b = cuda.threadIdx.x, cuda.blockIdx.x
    w, l = t // 32, t % 32  # noqa: E741
    v = np.float32(0)
    for r in range(n):
        s[32 * w + l] = v + r
        if r == when and b == 1 and w == 2:
            s[32 + l] = 1
        cuda.syncthreads()
        v += s[32 * ((w + 1) % 3) + l]
        cuda.syncthreads()
    y[b, t] = v


@cuda.jit
def other_place(n: Any, y: Any, x: Any, when: Any) -> None:
    """The rows that a warp reads hang on data; that of x[when] is written at the same time."""
    s = cuda.shared.array(32 * 4, np.float32)
    t, b = cuda.threadIdx.x, cuda.blockIdx.x
    w, l = t // 32, t % 32  # noqa: E741
    v = np.float32(0)
    for r in range(n):
        s[32 * w + l] = v + r
        v += s[32 * w + x[r + 100 * b + l]]
        cuda.syncthreads()
    y[b, t] = v


@cuda.jit
def other_lanes(n: Any, y: Any, x: Any, when: Any) -> None:
    """The first lane reads what it did before, others do not."""
    s = cuda.shared.array(32 * 4, np.float32)
    t, b = cuda.threadIdx.x, cuda.blockIdx.x
    w, l = t // 32, t % 32  # noqa: E741
    v = np.float32(0)
    for r in range(n):
        s[32 * w + l] = v + r
        cuda.syncthreads()
        place = 32 * w + l
        if r == when and b == 1 and l > 16:
            place = 32 * ((w + 1) % 3) + l
        v += s[place]
        s[32 * w + l] = v
        cuda.syncthreads()
    y[b, t] = v


@cuda.jit
def not_written(n: Any, y: Any, x: Any, when: Any) -> None:
    """CTA 1 does not write what all read."""
    s = cuda.shared.array(32 * 4, np.float32)
    t, b = cuda.threadIdx.x, cuda.blockIdx.x
    w, l = t // 32, t % 32  # noqa: E741
    if b != when and w == 0:
        s[96 + l] = 3
    cuda.syncthreads()
    v = np.float32(0)
    for r in range(n):
        s[32 * w + l] = v + r
        cuda.syncthreads()
        v += s[32 * ((w + 1) % 3) + l] + s[96 + l]
        cuda.syncthreads()
    y[b, t] = v


@cuda.jit
def some_wait(n: Any, y: Any, x: Any, when: Any) -> None:
    """A barrier of two warps orders what they do, in the round alone in which it is left out it does not."""
    s = cuda.shared.array(32 * 4, np.float32)
    t, b = cuda.threadIdx.x, cuda.blockIdx.x
    w, l = t // 32, t % 32  # noqa: E741
    v = np.float32(0)
    for r in range(n):
        s[32 * w + l] = v + r
        if w < 2 and not (r == when and b == 1):
            ptx.bar_sync(1, 64)
        if w == 0:
            v += s[32 + l]
        cuda.syncthreads()
    y[b, t] = v


@cuda.jit
def exchanges(n: Any, y: Any, x: Any, when: Any) -> None:
    """Lanes of a warp read what others of it wrote, behind a syncwarp that one round does not have."""
    s = cuda.shared.array(32 * 4, np.float32)
    t, b = cuda.threadIdx.x, cuda.blockIdx.x
    w, l = t // 32, t % 32  # noqa: E741
    v = np.float32(0)
    for r in range(n):
        s[32 * w + l] = v + r
        if not (r == when and b == 1):
            cuda.syncwarp()
        v += s[32 * w + (l + 1) % 32]
        cuda.syncthreads()
    y[b, t] = v


@cuda.jit
def leaves(n: Any, y: Any, x: Any, when: Any) -> None:
    """A warp exits in the midst of the rounds, and nobody waits for it: what it wrote last is read."""
    s = cuda.shared.array(32 * 4, np.float32)
    t, b = cuda.threadIdx.x, cuda.blockIdx.x
    w, l = t // 32, t % 32  # noqa: E741
    v = np.float32(0)
    for r in range(n):
        s[32 * w + l] = v + r
        if r == when and b == 1 and w == 2:
            return
        cuda.syncthreads()
        v += s[32 * ((w + 1) % 3) + l]
        cuda.syncthreads()
    y[b, t] = v


@cuda.jit
def left_out(n: Any, y: Any, x: Any, when: Any) -> None:
    """One barrier is left out, by all."""
    s = cuda.shared.array(32 * 4, np.float32)
    t, b = cuda.threadIdx.x, cuda.blockIdx.x
    w, l = t // 32, t % 32  # noqa: E741
    v = np.float32(0)
    for r in range(n):
        s[32 * w + l] = v + r
        if not (r == when and b == 1):
            cuda.syncthreads()
        v += s[32 * ((w + 1) % 3) + l]
        cuda.syncthreads()
    y[b, t] = v


@cuda.jit
def halves(n: Any, y: Any, x: Any, when: Any) -> None:
    """A branch of some lanes, whose accesses lie side by side; in one round it is of others."""
    s = cuda.shared.array(32 * 4, np.float32)
    t, b = cuda.threadIdx.x, cuda.blockIdx.x
    w, l = t // 32, t % 32  # noqa: E741
    v = np.float32(0)
    for r in range(n):
        some = 12 if r == when and b == 1 else 8
        if l < some:
            s[32 * w + l] = v + r
        cuda.syncthreads()
        if l < 8:
            v += s[32 * ((w + 1) % 3) + l]
        cuda.syncthreads()
    y[b, t] = v


@cuda.jit
def shorter(n: Any, y: Any, x: Any, when: Any) -> None:
    """In one round a load is left out, the last one before a barrier."""
    s = cuda.shared.array(32 * 4, np.float32)
    t, b = cuda.threadIdx.x, cuda.blockIdx.x
    w, l = t // 32, t % 32  # noqa: E741
    v = np.float32(0)
    for r in range(n):
        s[32 * w + l] = v + r
        cuda.syncthreads()
        v += s[32 * w + 31 - l]
        if not (r == when and b == 1):
            v += s[32 * w + l]
        cuda.syncthreads()
    y[b, t] = v


@cuda.jit
def some_apart(n: Any, y: Any, x: Any, when: Any) -> None:
    """Some lanes, which do not lie side by side."""
    s = cuda.shared.array(32 * 4, np.float32)
    t, b = cuda.threadIdx.x, cuda.blockIdx.x
    w, l = t // 32, t % 32  # noqa: E741
    v = np.float32(0)
    for r in range(n):
        s[32 * w + l] = l * 1.5 + r
        cuda.syncthreads()
        if l < 8:
            v += s[32 * ((w + 1) % 3) + l * 3]
        cuda.syncthreads()
    y[b, t] = v


@cuda.jit
def every_second(n: Any, y: Any, x: Any, when: Any) -> None:
    """Every second lane reads; CTA 1 has written the first half of the rows alone, and reads in a later round."""
    s = cuda.shared.array(32 * 4, np.float32)
    t, b = cuda.threadIdx.x, cuda.blockIdx.x
    w, l = t // 32, t % 32  # noqa: E741
    if b == 0 or l < 16:
        s[32 * w + l] = 1
    cuda.syncthreads()
    v = np.float32(0)
    for r in range(n):
        if (r > 1 or b == 0) and l % 2 == 0:
            v += s[32 * w + l]
        cuda.syncthreads()
    y[b, t] = v


@cuda.jit
def written_with_gaps(n: Any, y: Any, x: Any, when: Any) -> None:
    """Every second lane stores, and reads what it stored."""
    s = cuda.shared.array(32 * 4, np.float32)
    t, b = cuda.threadIdx.x, cuda.blockIdx.x
    w, l = t // 32, t % 32  # noqa: E741
    v = np.float32(0)
    for r in range(n):
        if l % 2 == 0:
            s[32 * w + l] = r
        cuda.syncthreads()
    if l % 2 == 0:
        v += s[32 * w + l]
    y[b, t] = v


@cuda.jit
def without_barriers(n: Any, y: Any, x: Any, when: Any) -> None:
    """A warp reads what another one has written, at an index that is data."""
    s = cuda.shared.array(32 * 4, np.float32)
    t, b = cuda.threadIdx.x, cuda.blockIdx.x
    place = x[t + 64 * b]
    s[t] = 1
    y[b, t] = s[place]


@cuda.jit
def beyond(n: Any, y: Any, x: Any, when: Any) -> None:
    """One lane reads beyond the array, in each round."""
    s = cuda.shared.array(96, np.float32)
    t, b = cuda.threadIdx.x, cuda.blockIdx.x
    s[t] = 1
    cuda.syncthreads()
    v = np.float32(0)
    place = x[t] * 5 % 32
    if t == 7:
        place = 100
    for _ in range(n):
        v += s[place]
        cuda.syncthreads()
    y[b, t] = v


def arguments(when: int) -> tuple[Any, ...]:
    return ROUNDS, np.zeros((CTAS, THREADS), np.float32), np.arange(256) % 32, when


NEVER, LATE = -1, 13
PLACES = np.concatenate([np.tile(np.arange(64), 4), np.arange(64) % 32])
"""threads read what they wrote, but for the last CTA's second warp"""


def rows(ctas: int, threads: int) -> np.ndarray[Any, Any]:
    return np.zeros((ctas, threads), np.float32)


REPEATED = (plain, stray_store, not_written, leaves, left_out, halves)


@pytest.mark.parametrize("kernel", REPEATED, ids=lambda kernel: kernel.__name__)
def test_what_is_the_same_is_judged_once(kernel: Any, machines: list[Machine], monkeypatch: pytest.MonkeyPatch) -> None:
    result = in_all_tiers(monkeypatch, lambda: said(kernel, CTAS, THREADS, arguments(NEVER), workers=1))
    assert result[0]["verdict"] == "verified"
    always = [m for m in machines if m.tier == "always"]
    assert met_again(always) > ROUNDS


@pytest.mark.parametrize(
    ("kernel", "code"),
    [
        (stray_store, "race"),
        (other_lanes, "race"),
        (some_wait, "race"),
        (exchanges, "intra-warp-race"),
        (left_out, "race"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_what_comes_between_is_found(
    kernel: Any, code: str, machines: list[Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    result = in_all_tiers(monkeypatch, lambda: said(kernel, CTAS, THREADS, arguments(LATE), workers=1))
    assert [finding["code"] for finding in result[0]["findings"]][:1] == [code]
    fine = in_all_tiers(monkeypatch, lambda: said(kernel, CTAS, THREADS, arguments(NEVER), workers=1))
    assert fine[0]["verdict"] == "verified"


@cuda.jit
def each_round(n: Any, y: Any, x: Any, when: Any) -> None:
    """Two warps write one row in each round, one of them what the other one does."""
    s = cuda.shared.array(32 * 4, np.float32)
    t, b = cuda.threadIdx.x, cuda.blockIdx.x
    w, l = t // 32, t % 32  # noqa: E741
    v = np.float32(0)
    for r in range(n):
        s[32 * (w // 2) + l] = r + w
        cuda.syncthreads()
        v += s[l]
        cuda.syncthreads()
    y[b, t] = v


def test_a_section_with_a_conflict_is_judged_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    result = in_all_tiers(monkeypatch, lambda: said(each_round, CTAS, THREADS, arguments(NEVER), workers=1))
    assert [finding["code"] for finding in result[0]["findings"]] == ["race"]
    assert result[0]["findings"][0]["count"] >= CTAS * ROUNDS


@pytest.mark.parametrize("when", [1, LATE])
def test_an_exit_and_what_some_lanes_do_are_what_they_are_without_blocks(
    when: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kernel in (leaves, halves, plain, some_apart):
        in_all_tiers(monkeypatch, lambda kernel=kernel: said(kernel, CTAS, THREADS, arguments(when), workers=1))
    for threads in (32, THREADS):  # one warp, whose accesses are the last ones
        in_all_tiers(monkeypatch, lambda threads=threads: said(shorter, CTAS, threads, arguments(when), workers=1))


def test_that_bytes_are_written_is_looked_at_in_each_cta(monkeypatch: pytest.MonkeyPatch) -> None:
    result = in_all_tiers(monkeypatch, lambda: said(not_written, CTAS, THREADS, arguments(1), workers=1))
    assert [finding["code"] for finding in result[0]["findings"]] == ["uninitialized-read"]
    assert result[0]["findings"][0]["sites"][0]["cta"] == (1, 0, 0)


@pytest.mark.parametrize(("kernel", "code"), [(every_second, "uninitialized-read"), (written_with_gaps, None)])
def test_bytes_of_lanes_with_gaps_are_those_of_these_lanes(
    kernel: Any, code: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = in_all_tiers(monkeypatch, lambda: said(kernel, CTAS, THREADS, arguments(NEVER), workers=1))
    assert [finding["code"] for finding in result[0]["findings"]] == ([code] if code else [])


def test_programs_without_barriers_have_no_sections(machines: list[Machine], monkeypatch: pytest.MonkeyPatch) -> None:
    result = in_all_tiers(monkeypatch, lambda: said(without_barriers, 5, 64, (1, rows(5, 64), PLACES, 0), workers=1))
    assert [finding["code"] for finding in result[0]["findings"]] == ["race"]
    assert machines
    assert all(not m.state[0]["sections"] for m in machines)


def test_an_access_beyond_an_array_is_reported_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    result = in_all_tiers(monkeypatch, lambda: said(beyond, CTAS, THREADS, arguments(NEVER), workers=1))
    assert [finding["code"] for finding in result[0]["findings"]] == ["out-of-bounds"]
    assert result[0]["findings"][0]["count"] == CTAS * ROUNDS


ELSEWHERE = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry elsewhere(.param .u64 y, .param .u32 n)
{
    .shared .align 4 .b8 tile[256];
    .reg .pred %p<5>;
    .reg .b32 %r<8>;
    .reg .f32 %f<3>;
    .reg .b64 %rd<8>;
    ld.param.u64 %rd1, [y];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %tid.x;
    mov.u32 %r3, %ctaid.x;
    mov.u64 %rd2, tile;
    cvta.shared.u64 %rd3, %rd2;
    mul.wide.u32 %rd4, %r2, 4;
    add.u64 %rd5, %rd3, %rd4;
    add.u64 %rd6, %rd1, %rd4;
    setp.eq.u32 %p1, %r2, 63;
    selp.b64 %rd6, %rd3, %rd6, %p1;
    mov.u32 %r4, 0;
    mov.f32 %f1, 0f3F800000;
LOOP:
    st.f32 [%rd5], %f1;
    setp.lt.u32 %p2, %r2, 32;
    @%p2 bra MEET;
    setp.ne.u32 %p2, %r4, 9;
    @%p2 bra MEET;
    setp.ne.u32 %p2, %r3, 1;
    @%p2 bra MEET;
    ld.f32 %f2, [%rd6];
MEET:
    bar.sync 0;
    add.u32 %r4, %r4, 1;
    setp.lt.u32 %p3, %r4, %r1;
    @%p3 bra LOOP;
    ret;
}
"""
"""in one round the last lane of a warp loads what another warp has stored to shared memory, its others an array"""


def test_lanes_of_one_access_may_be_in_shared_memory_and_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "elsewhere.ptx"
    path.write_text(ELSEWHERE)
    kernel = wsemu.load_ptx(path)["elsewhere"]
    result = in_all_tiers(monkeypatch, lambda: said(kernel, 2, 64, (np.zeros(64, np.float32), 20), workers=1))
    assert [finding["code"] for finding in result[0]["findings"]] == ["race"]


def test_lanes_that_lie_otherwise_behind_the_same_first_one_are_other_accesses(
    machines: list[Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    def once() -> tuple[Any, ...]:
        n, y, x, when = arguments(NEVER)
        x[100 + LATE + 20] = 40 + 32  # of another warp, in CTA 1 alone
        return said(other_place, CTAS, THREADS, (n, y, x, when), workers=1)

    result = in_all_tiers(monkeypatch, once)
    assert result[0]["verdict"] == "failed"


@pytest.mark.parametrize(
    ("where", "name", "value"),
    [
        (section_tables, "MOST_SECTIONS", 1),
        (section_tables, "MOST_ACCESSES", 16),
        (section_tables, "MOST_STEPS", 1),
        (shadow_planes, "FIRST_MOMENTS", 4),
    ],
)
def test_rooms_may_be_full(where: Any, name: str, value: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(where, name, value)
    for kernel in (plain, halves):
        for when in (NEVER, LATE):
            in_all_tiers(
                monkeypatch, lambda kernel=kernel, when=when: said(kernel, CTAS, THREADS, arguments(when), workers=1)
            )
    in_all_tiers(monkeypatch, lambda: said(left_out, CTAS, THREADS, arguments(LATE), workers=1))


@pytest.mark.parametrize(
    "checkers", [[], ["barrier-recycling"], ["race"], ["race", "bank-conflict"], ["uninitialized-read"]]
)
def test_whatever_is_looked_for(checkers: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for kernel, when in ((plain, NEVER), (stray_store, LATE), (left_out, LATE), (not_written, 1)):
        in_all_tiers(
            monkeypatch,
            lambda kernel=kernel, when=when: said(kernel, CTAS, THREADS, arguments(when), workers=1, checkers=checkers),
        )


@pytest.mark.parametrize("budget", [700, 1_201, 1_502])
def test_a_budget_that_ends_in_the_midst_of_a_section_leaves_what_was_counted(
    budget: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = in_all_tiers(monkeypatch, lambda: said(plain, CTAS, THREADS, arguments(NEVER), workers=1, budget=budget))
    assert result[0]["verdict"] == "incomplete"


@cuda.jit
def columns(n: Any, y: Any, x: Any, when: Any) -> None:
    """Lanes read one column: each load costs 32 wavefronts."""
    s = cuda.shared.array(32 * 32, np.float32)
    t, b = cuda.threadIdx.x, cuda.blockIdx.x
    for q in range(11):
        if 96 * q + t < 1024:
            s[96 * q + t] = q
    cuda.syncthreads()
    v = np.float32(0)
    for r in range(n):
        v += s[t % 32 * 32 + r % 4]
        cuda.syncthreads()
    y[b, t] = v


@pytest.mark.parametrize("order", ["ascending", "descending"])
def test_the_worst_execution_of_an_access_is_that_of_the_first_cta(
    order: CtaOrder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def one() -> tuple[Any, ...]:
        with using(Settings(cta_order=order)):
            return said(columns, CTAS, THREADS, arguments(NEVER), workers=1)

    result = in_all_tiers(monkeypatch, one)
    found = next(finding for finding in result[0]["findings"] if finding["code"] == "bank-conflict")
    assert found["sites"][0]["cta"] == (0, 0, 0)
