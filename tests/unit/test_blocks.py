"""Compiled blocks of programs: a launch says and leaves what the VM alone says and leaves, wherever they are left."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import wsemu
from tests.properties.loop_programs import loaded, program
from wsemu import cuda, ptx
from wsemu.app import program as file_program
from wsemu.launch import running
from wsemu.machine import cache, slices, vm
from wsemu.machine import workers as kept
from wsemu.machine.state import FLOW
from wsemu.machine.tier import hot
from wsemu.machine.tier.shapes import Shape, arithmetic, line, use_of
from wsemu.model.isa import OPCODE, OPERATIONS
from wsemu.model.settings import Settings
from wsemu.reference.arithmetic import semantics


@pytest.fixture(autouse=True)
def _none_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "_kept", {})


def said(kernel: Any, grid: Any, block: Any, arguments: tuple[Any, ...], **options: Any) -> tuple[Any, ...]:
    """All that a launch says and leaves."""
    report = wsemu.check(kernel, grid, block, arguments, **options)
    arrays = tuple(a.tobytes() for a in arguments if isinstance(a, np.ndarray))
    return report.model_copy(update={"seconds": 0.0, "inputs": None}).model_dump(), *arrays


def in_all_tiers(monkeypatch: pytest.MonkeyPatch, one: Any) -> tuple[Any, ...]:
    """What `one()` gives without blocks, which it gives with them, too."""
    monkeypatch.setenv("WSEMU_TIER", "off")
    first: tuple[Any, ...] = one()
    for tier in ("always", "restless"):
        monkeypatch.setenv("WSEMU_TIER", tier)
        kept._kept.clear()
        assert one() == first, tier
    return first


# -- kernels ----------------------------------------------------------------------------------------------------------

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@cuda.jit
def rows_and_columns(a: Any, x: Any, y: Any, n: Any) -> None:
    """Accesses side by side, of one address, of eight lanes each, by a stride; an accumulator; a barrier."""
    tile = cuda.shared.array((8, 33), np.float32)
    t = cuda.threadIdx.x
    total = np.float32(0)
    for k in range(n):
        tile[t // 8 % 8, t % 8] = x[(k + t) % n]
        cuda.syncthreads()
        for j in range(8):
            total += tile[j, t % 8] * a[k, t] + tile[j, 3]
        cuda.syncthreads()
    y[cuda.blockIdx.x, t] = total


@cuda.jit
def parts(x: Any, y: Any, n: Any) -> None:
    """Lanes part in a loop, and go different ways about it."""
    t = cuda.grid(1)
    total = 0
    for k in range(n):
        if (t + k) % 3 == 0:
            total += x[t] // (k + 1)
        elif t % 32 > k:
            total -= k % (t % 5 + 1)
        else:
            continue
        if total > 40:
            break
    y[t] = total


@cuda.jit
def doubles(x: Any, y: Any, n: Any) -> None:
    """Sums and products of floats of 64 bits, some of them nan."""
    t = cuda.grid(1)
    total = x[t]
    for k in range(n):
        total = total * 1.5 + x[k] - x[n - 1 - k] / 3.0
    y[t] = total


@cuda.jit
def outside(x: Any, y: Any, n: Any) -> None:
    """The last indices lie outside."""
    t = cuda.grid(1)
    for k in range(n):
        y[t + k] = x[t] + k


@cuda.jit
def phases(x: Any, y: Any, n: Any, stray: Any) -> None:
    """A warp fills a ring for another one; in the last round it also writes 32 words from `stray` on: the mbarriers lie
    in the first four."""
    full = cuda.shared.array(0, np.uint64)
    words = cuda.shared.array(0, np.float32)
    ring = words[4:]
    t = cuda.threadIdx.x
    if t == 0:
        ptx.mbarrier_init(full, 0, 32)
        ptx.mbarrier_init(full, 1, 32)
    cuda.syncthreads()
    total = np.float32(0)
    for k in range(n):
        if t < 32:
            ring[64 * (k % 2) + t] = x[t] + k
            ring[64 * (k % 2) + 63 - t] = x[t] - k
            if k == n - 1:
                words[stray + t] = x[t]
            ptx.mbarrier_arrive(full, k % 2)
        else:
            ptx.mbarrier_wait_parity(full, k % 2, k // 2 % 2)
            for j in range(32):
                total += ring[64 * (k % 2) + (t ^ j)]
        cuda.syncthreads()
    y[t] = total


@cuda.jit
def exchanges(y: Any, n: Any, stray: Any) -> None:
    """A warp stores 32 words from `stray` on, two lanes the other's each: an mbarrier lies in the first two."""
    full = cuda.shared.array(0, np.uint64)
    words = cuda.shared.array(0, np.int32)
    t = cuda.threadIdx.x
    words[t], words[t + 32] = t, t
    cuda.syncthreads()
    if t == 0:
        ptx.mbarrier_init(full, 0, 32)
    cuda.syncthreads()
    for k in range(n):
        words[stray + (t ^ 1)] = k
        cuda.syncwarp()
    y[t] = words[t + 2]


@cuda.jit
def races(x: Any, y: Any, n: Any) -> None:
    """What a warp stores another one loads, without a barrier."""
    tile = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    total = np.float32(0)
    for k in range(n):
        tile[t] = x[t] + k
        total += tile[63 - t]
    y[cuda.grid(1)] = total


@cuda.jit
def unwritten(x: Any, y: Any, n: Any) -> None:
    """The tile is stored by halves, and loaded as a whole; own arrays too."""
    tile = cuda.shared.array(64, np.float64)
    own = cuda.local.array(4, np.int32)
    t = cuda.threadIdx.x
    total = 0.0
    if t < 32:
        tile[t] = x[t]
    cuda.syncthreads()
    for k in range(n):
        own[k % 4] = k
        total += tile[t] + own[k % 3]
    y[cuda.grid(1)] = total


@cuda.jit
def narrow(x: Any, y: Any, n: Any) -> None:
    """Elements of one byte and of two; counters of 32 bits that wrap."""
    t = cuda.grid(1)
    here = np.uint32(4294967290) + np.uint32(t)
    total = 0
    for k in range(n):
        total += x[(t * 3 + k) % 64] * (here >> np.uint32(k % 7))
        here += np.uint32(1)
    y[t] = total


def numbers(count: int, dtype: Any = np.float32) -> Any:
    return np.random.default_rng(1).integers(-99, 99, count).astype(dtype)


def doubles_with_a_nan() -> Any:
    made = numbers(64, np.float64)
    made[7] = np.nan
    return made


LAUNCHES: dict[str, Any] = {
    "rows_and_columns": (
        rows_and_columns, 2, 64, lambda: (numbers(640).reshape(10, 64), numbers(10), np.zeros((2, 64), np.float32), 10)
    ),
    "parts": (parts, 1, 64, lambda: (numbers(64, np.int64), np.zeros(64, np.int64), 9)),
    "doubles": (doubles, 1, 64, lambda: (doubles_with_a_nan(), np.zeros(64), 9)),
    "outside": (outside, 1, 64, lambda: (numbers(64), np.zeros(70, np.float32), 9)),
    "races": (races, 1, 64, lambda: (numbers(64), np.zeros(64, np.float32), 5)),
    "unwritten": (unwritten, 1, 64, lambda: (numbers(64, np.float64), np.zeros(64), 7)),
    "narrow": (narrow, 1, 64, lambda: (numbers(64, np.int8), np.zeros(64, np.int64), 12)),
    "part of a warp": (parts, 1, 50, lambda: (numbers(64, np.int64), np.zeros(64, np.int64), 9)),
}  # fmt: skip


@pytest.mark.parametrize("name", LAUNCHES)
def test_blocks_do_what_the_vm_does(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, grid, block, arguments = LAUNCHES[name]
    in_all_tiers(monkeypatch, lambda: said(kernel, grid, block, arguments()))


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The addresses of the blocks that machines take up from now on."""
    taken: list[int] = []
    take_up = hot._take_up

    def counted(machine: Any, block: Any) -> None:
        taken.append(block.address)
        take_up(machine, block)

    monkeypatch.setattr(hot, "_take_up", counted)
    return taken


@pytest.mark.parametrize(("stray", "verdict"), [(4, "verified"), (2, "failed")])
def test_programs_of_mbarriers_have_blocks_that_keep_off_these(
    stray: int, verdict: str, monkeypatch: pytest.MonkeyPatch
):
    x = np.arange(64, dtype=np.float32)
    taken = counted(monkeypatch)

    def launch() -> Any:
        return said(phases, 1, 64, (x, np.zeros(64, np.float32), 6, stray), dynamic_shared=16 + 512)

    found = in_all_tiers(monkeypatch, launch)
    assert taken
    assert found[0]["verdict"] == verdict
    if verdict == "failed":
        assert "mbarrier-clobber" in {finding["code"] for finding in found[0]["findings"]}


def test_where_no_races_are_looked_for_accesses_outside_of_blocks_keep_off_mbarriers_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = np.arange(64, dtype=np.float32)

    def launch() -> Any:
        arguments = (x, np.zeros(64, np.float32), 6, 2)
        return said(phases, 1, 64, arguments, dynamic_shared=16 + 512, checkers=["mbarrier"])

    first, *_ = in_all_tiers(monkeypatch, launch)
    assert {finding["code"] for finding in first["findings"]} == {"mbarrier-clobber"}


@pytest.mark.parametrize(("stray", "verdict"), [(2, "verified"), (0, "failed")])
def test_so_do_accesses_whose_lanes_lie_apart(stray: int, verdict: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first, *_ = in_all_tiers(
        monkeypatch, lambda: said(exchanges, 1, 32, (np.zeros(32, np.int32), 30, stray), dynamic_shared=256)
    )
    assert first["verdict"] == verdict
    assert [(finding["code"], finding["count"]) for finding in first["findings"]] == [("mbarrier-clobber", 30)] * (
        verdict == "failed"
    )


def test_so_do_they_in_random_loops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = [program(seed) for seed in range(4)]
    for one, kernel in zip(made, loaded(made, tmp_path, "blocks"), strict=True):
        in_all_tiers(
            monkeypatch, lambda one=one, kernel=kernel: said(kernel, one.grid, one.threads, one.arguments(5, 1))
        )


def test_a_budget_ends_in_a_block_where_it_ends_in_the_vm(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, grid, block, arguments = LAUNCHES["rows_and_columns"]
    first, *_ = in_all_tiers(monkeypatch, lambda: said(kernel, grid, block, arguments(), budget=700))
    assert first["verdict"] == "incomplete"


STORES_FIRST = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 px, .param .u64 py, .param .u32 n)
{
    .reg .pred %p<2>;
    .reg .b32 %r<4>;
    .reg .b64 %rd<4>;
    .reg .f32 %f<3>;
    ld.param.u64 %rd1, [px];
    ld.param.u64 %rd2, [py];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %tid.x;
    mul.wide.u32 %rd3, %r2, 4;
    add.s64 %rd1, %rd1, %rd3;
    add.s64 %rd2, %rd2, %rd3;
    mov.f32 %f2, 0f00000000;
    mov.u32 %r3, 0;
LOOP:
    st.global.f32 [%rd2], %f2;
    ld.global.f32 %f1, [%rd1+64];
    add.f32 %f2, %f2, %f1;
    add.s64 %rd1, %rd1, 128;
    add.s32 %r3, %r3, 1;
    setp.lt.u32 %p1, %r3, %r1;
    @%p1 bra LOOP;
    ret;
}
"""
"""a block may be entered at the store, the first one, for which the host lays cells out; some lanes then load what lies
outside"""


GUARDED_LOADS = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 px, .param .u64 py, .param .u32 n)
{
    .reg .pred %p<3>;
    .reg .b32 %r<8>;
    .reg .b64 %rd<6>;
    ld.param.u64 %rd1, [px];
    ld.param.u64 %rd2, [py];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %tid.x;
    cvt.u64.u32 %rd3, %r2;
    shl.b64 %rd4, %rd3, 2;
    add.s64 %rd2, %rd2, %rd4;
    shl.b64 %rd4, %rd3, 3;
    add.s64 %rd4, %rd1, %rd4;
    mov.u32 %r3, 0;
    mov.u32 %r4, 0;
LOOP:
    add.u32 %r5, %r3, 100;
    add.u32 %r6, %r3, 200;
    ld.global.u32 %r7, [%rd4];
    setp.gt.u32 %p2, %r7, %r3;
    @%p2 ld.global.u32 %r5, [%rd4];
    @%p2 ld.global.nc.v2.u32 {%r6, _}, [%rd4];
    add.u32 %r4, %r4, %r5;
    add.u32 %r4, %r4, %r6;
    add.u32 %r3, %r3, 1;
    setp.lt.u32 %p1, %r3, %r1;
    @%p1 bra LOOP;
    st.global.u32 [%rd2], %r4;
    ret;
}
"""


@pytest.mark.parametrize("some", [False, True])
def test_lanes_that_do_not_load_keep_what_they_have(some: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = wsemu.load_ptx(GUARDED_LOADS)["k"]
    x = np.full(64, 3, np.int32)
    x[: 16 * some] = 5
    in_all_tiers(monkeypatch, lambda: said(kernel, 1, 32, (x, np.zeros(32, np.int32), 8)))


@pytest.mark.parametrize("size", [160, 40])
def test_an_access_that_the_host_was_needed_for_is_made_to_its_end_first(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = wsemu.load_ptx(STORES_FIRST)["k"]
    first, *_ = in_all_tiers(
        monkeypatch, lambda: said(kernel, 1, 32, (numbers(size), np.zeros(40, np.float32), (size + 31) // 32))
    )
    assert {finding["code"] for finding in first["findings"]} == {"out-of-bounds"}


@cuda.jit
def late_race(x: Any, y: Any, n: Any) -> None:
    """Only the third CTA has one."""
    t, b = cuda.threadIdx.x, cuda.blockIdx.x
    tile = cuda.shared.array(64, np.float32)
    total = np.float32(0)
    for k in range(n):
        tile[t] = x[t] + k
        if b == 2:
            total += tile[63 - t]
        cuda.syncthreads()
    y[b * 64 + t] = total


def test_blocks_are_not_used_where_accesses_are_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    first, *_ = in_all_tiers(monkeypatch, lambda: said(late_race, 4, 64, (numbers(64), np.zeros(256, np.float32), 5)))
    assert first["findings"][0]["sites"][0]["text"].endswith("k=0")


ROUND = np.uint64(3 * pow(31, -1, 1 << 64) % (1 << 64))


@cuda.jit
def comes_round(x: Any, y: Any, n: Any) -> None:
    """The first lane's index is 0, the last one's 3; those between lie outside."""
    for _ in range(n):
        y[cuda.threadIdx.x] += x[np.uint64(cuda.threadIdx.x) * ROUND]


def test_indices_that_come_round_are_looked_at_each(monkeypatch: pytest.MonkeyPatch) -> None:
    first, *_ = in_all_tiers(monkeypatch, lambda: said(comes_round, 1, 32, (numbers(64), np.zeros(32, np.float32), 2)))
    assert first["findings"][0]["count"] == 60


@pytest.mark.parametrize("piece", [1, 97, 1000])
def test_slices_change_nothing(piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices are shorter as long as a program may get a block: how many there are must not show."""
    kernel, grid, block, arguments = LAUNCHES["rows_and_columns"]
    monkeypatch.setenv("WSEMU_TIER", "auto")
    for budget in (700, 3000, 1_000_000):
        kept._kept.clear()
        first = said(kernel, grid, block, arguments(), budget=budget)
        kept._kept.clear()
        with monkeypatch.context() as patch:
            patch.setattr(slices, "FIRST_SLICE", piece)
            assert said(kernel, grid, block, arguments(), budget=budget) == first


# -- when there are any -----------------------------------------------------------------------------------------------


def blocks_of(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each machine that runs from now on, whether it has used a block at its end."""
    used: list[bool] = []
    before = vm.Machine.run

    def noted(machine: vm.Machine, *arguments: Any, **options: Any) -> int:
        status = before(machine, *arguments, **options)
        used.append(bool(machine.state[0]["blocks"]))
        return status

    monkeypatch.setattr(vm.Machine, "run", noted)
    return used


def test_only_programs_that_run_long_get_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, grid, block, arguments = LAUNCHES["rows_and_columns"]
    monkeypatch.setenv("WSEMU_TIER", "auto")
    used = blocks_of(monkeypatch)
    said(kernel, grid, block, arguments())
    assert used
    assert not any(used)


@cuda.jit
def long(x: Any, n: Any) -> None:
    t = cuda.grid(1)
    total = 0
    for k in range(n):
        total += k ^ t
    x[t] = total


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs get blocks after a few instructions."""
    monkeypatch.setenv("WSEMU_TIER", "auto")
    monkeypatch.setattr(hot, "HOT", 2000)
    monkeypatch.setattr(hot, "WORTH", 1000)
    monkeypatch.setattr(hot, "SEEN", 1000)
    monkeypatch.setattr(slices, "FIRST_SLICE", 1000)


def longer(n: int) -> tuple[Any, ...]:
    return said(long, 1, 64, (np.zeros(64, np.int64), n))


@pytest.mark.usefixtures("soon")
def test_a_block_is_made_while_the_launch_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    used = blocks_of(monkeypatch)
    first = longer(3000)
    hot.wait_for_blocks()
    assert longer(3000) == first
    assert used[-1]


@pytest.mark.parametrize("foreseeable", [12_000, 1_000_000_000])
@pytest.mark.usefixtures("soon")
def test_a_launch_that_will_take_long_gets_its_block_at_once(foreseeable: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """By what its first CTAs took: the other ones take as long."""
    monkeypatch.setattr(hot, "HOT", 1_000_000_000)
    monkeypatch.setattr(hot, "FORESEEABLE", foreseeable)
    began, heat = list[int](), hot.Heat()

    def make_apart(program: Any, wanted: Any, starts: list[int]) -> None:
        began.append(hot.heat_of(program).instructions)

    monkeypatch.setattr(hot, "_compile_in_thread", make_apart)
    monkeypatch.setattr(hot, "heat_of", lambda _: heat)
    arguments = np.zeros(16 * 64, np.int64), 200
    said(long, 16, 64, arguments, workers=1)  # 16 CTAs of about 2,000 warp instructions
    if foreseeable > 1_000_000:
        assert not began
    else:
        (instructions,) = began
        assert instructions < 6000


@pytest.mark.usefixtures("soon")
def test_a_short_launch_takes_up_no_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would take longer than what it gains."""
    used = blocks_of(monkeypatch)
    for _ in range(2):
        longer(3000)
        hot.wait_for_blocks()
    assert used[-1]
    monkeypatch.setattr(hot, "WORTH", 100_000)
    longer(3000)
    assert not used[-1]
    longer(30_000)
    assert used[-1]


@pytest.mark.usefixtures("soon")
def test_where_the_last_launch_was_long_the_next_one_takes_its_block_up_at_once(monkeypatch: pytest.MonkeyPatch):
    used, taken = blocks_of(monkeypatch), list[int]()
    for _ in range(2):
        longer(3000)
        hot.wait_for_blocks()
    take_up = hot._take_up

    def take_up_then(machine: Any, block: Any) -> None:
        taken.append(machine.work)
        take_up(machine, block)

    monkeypatch.setattr(hot, "_take_up", take_up_then)
    monkeypatch.setattr(hot, "WORTH", 10_000)
    longer(3000)
    monkeypatch.setattr(hot, "LONG", 10_000)
    longer(3000)
    assert all(used[-2:])
    assert taken[0] >= 10_000
    assert taken[1:] == [0]


@pytest.mark.usefixtures("soon")
def test_what_there_is_no_block_for_stays_with_the_vm(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def refused(*arguments: object) -> Any:
        asked.append(arguments)
        raise MemoryError

    monkeypatch.setattr(hot, "_compile_block", refused)
    monkeypatch.setattr(hot, "_key", lambda *_: "not kept")
    heat = hot.Heat()
    monkeypatch.setattr(hot, "heat_of", lambda _: heat)
    used = blocks_of(monkeypatch)
    first = longer(2900)
    hot.wait_for_blocks()
    assert longer(2900) == first
    assert len(asked) == 1
    assert not any(used)


@pytest.mark.skipif(not hasattr(os, "register_at_fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.usefixtures("soon")
def test_a_fork_waits_for_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    done = threading.Event()

    def slowly(*_: object) -> Any:
        time.sleep(0.2)
        done.set()
        raise MemoryError

    monkeypatch.setattr(hot, "_compile_block", slowly)
    monkeypatch.setattr(hot, "_key", lambda *_: "not kept")
    heat = hot.Heat()
    monkeypatch.setattr(hot, "heat_of", lambda _: heat)
    longer(2800)
    child = os.fork()
    if child == 0:
        os._exit(0 if done.is_set() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_block_has_the_stretches_that_took_most_but_no_overlong_ones() -> None:
    flow = np.zeros(7, FLOW)
    flow["length"] = (10, hot.LONGEST, hot.LONGEST + 1, 20, 20, 30, 1)
    flow["count"] = (100, 1000, 1000, 0, 1_000_000, 1_000_000, 0)
    flow["lanes"] = 32 * flow["count"]
    flow["lanes"][4] -= 1
    machine: Any = SimpleNamespace(flow=flow)
    assert hot._hot_starts(machine) == [1, 5]


def test_blocks_that_are_being_made_are_given_up_at_exit(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = threading.Event()

    def made(*_: Any) -> None:
        while True:
            begun.set()
            time.sleep(0.001)

    monkeypatch.setattr(hot, "_compile_or_load", made)
    hot._compile_in_thread(None, None, [])  # type: ignore[arg-type]
    begun.wait()
    hot._stop_making()
    assert all(thread.name != hot.THREAD for thread in threading.enumerate())


@cuda.jit
def unmet(x: Any, y: Any) -> None:
    """No barrier before what the other warp has stored."""
    s = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    y[t] = s[63 - t]


@pytest.mark.parametrize("tier", ["always", "restless"])
def test_edits_that_are_tried_get_no_blocks_before_they_run(tier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    make = hot._compile_or_load

    def noted(*arguments: Any) -> None:
        made.append(arguments[0])
        make(*arguments)

    monkeypatch.setattr(hot, "_compile_or_load", noted)
    monkeypatch.setenv("WSEMU_TIER", tier)
    report = wsemu.check(unmet, 1, 64, (numbers(64), np.zeros(64, np.float32)))
    before = len(made)
    assert before
    cures = report.cures(budget=60)
    assert cures
    assert len(made) == before
    monkeypatch.setenv("WSEMU_TIER", "off")
    with hot.run_once():
        assert hot.resolve_tier() == "off"


@cuda.jit
def by_place(x: Any, y: Any) -> None:
    """How lanes lie hangs on how many threads a CTA has along x."""
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    y[ty, tx] = x[ty, tx] + tx * 100 + ty


def test_ctas_of_as_many_threads_may_lie_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    def one() -> list[Any]:
        shapes = ((64, 1), (8, 8), (2, 32), (64, 1), (8, 8))
        numbered = (np.arange(64, dtype=np.int64).reshape(y, x) for x, y in shapes)
        return [said(by_place, 1, shape, (x, np.zeros_like(x))) for shape, x in zip(shapes, numbered, strict=True)]

    in_all_tiers(monkeypatch, one)


@pytest.mark.parametrize("tier", ["always", "restless"])
def test_of_a_long_program_no_block_is_made_before_it_runs(tier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    monkeypatch.setattr(hot, "_compile_or_load", lambda *arguments: made.append(arguments))
    monkeypatch.setenv("WSEMU_TIER", tier)
    for most, blocks in ((10_000, 1), (10, 0)):
        heat = hot.Heat()
        monkeypatch.setattr(hot, "heat_of", lambda _, heat=heat: heat)
        monkeypatch.setattr(hot, "MOST_WHOLE", most)
        made.clear()
        wsemu.check(unmet, 1, 64, (numbers(64), np.zeros(64, np.float32)), checkers=["bounds"])
        assert len(made) == blocks


def test_an_unknown_tier_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WSEMU_TIER", "sometimes")
    kernel, grid, block, arguments = LAUNCHES["parts"]
    with pytest.raises(wsemu.UsageError, match=r"WSEMU_TIER is 'sometimes': set it to one of auto, off, always"):
        wsemu.check(kernel, grid, block, arguments())


# -- where they are kept ----------------------------------------------------------------------------------------------

PART = ("block_1", "needed", b"\x7fELF" + bytes(300))


def test_blocks_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WSEMU_CACHE_DIR", str(tmp_path / "cache"))
    assert cache.read_block("block_1") is None
    cache.write_block("block_1", PART)
    assert cache.read_block("block_1") == PART
    file = tmp_path / "cache" / "vm-block_1.bin"
    file.write_bytes(file.read_bytes()[:-9])
    assert cache.read_block("block_1") is None


def test_the_oldest_blocks_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WSEMU_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cache, "MOST_BLOCKS", 3)
    for number in range(5):
        cache.write_block(f"block_{number}", PART)
        time.sleep(0.01)
    assert {file.name for file in tmp_path.iterdir()} == {f"vm-block_{number}.bin" for number in (2, 3, 4)}
    monkeypatch.setattr(cache, "BLOCK_BYTES", 500)
    cache.write_block("block_5", PART)
    assert [file.name for file in tmp_path.iterdir()] == ["vm-block_5.bin"]


def test_without_a_folder_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("WSEMU_CACHE_DIR", str(tmp_path / "file"))
    cache.write_block("block_1", PART)
    assert cache.read_block("block_1") is None


# -- shapes -----------------------------------------------------------------------------------------------------------


def along(bits: int, stride: int, twos: int = 0) -> Shape:
    return Shape(bits, line(stride), twos)


def by(bits: int, step: Any, twos: int = 0) -> Shape:
    return Shape(bits, tuple(step(lane) for lane in range(32)), twos)


THREAD = along(32, 1, 5)
"""of `threadIdx.x` where a CTA has one dimension"""


@pytest.mark.parametrize(
    ("name", "shapes", "values", "expected"),
    [
        ("add.b32", [along(32, 1), along(32, 0)], (None, None), along(32, 1)),
        ("add.b64", [along(64, 8), along(64, -8)], (None, None), along(64, 0)),
        ("add.b32", [THREAD, along(32, 0)], (None, 24), along(32, 1, 3)),
        ("sub.b64", [along(64, 0), along(64, 4)], (None, None), along(64, -4)),
        ("mul.b32", [along(32, 1), along(32, 0)], (None, 12), along(32, 12, 2)),
        ("mul.b32", [along(32, 1), along(32, 0)], (None, None), None),
        ("mul.b32", [along(32, 1), along(32, 1)], (None, None), None),
        ("shl.b32", [along(32, 3, 1), along(32, 0)], (None, 4), along(32, 48, 5)),
        ("shl.b32", [along(32, 2), along(32, 0)], (None, 31), along(32, 0, 31)),
        ("shl.b32", [along(32, 2), along(32, 0)], (None, 40), along(32, 0, 31)),
        ("shl.b32", [along(32, 0, 1), along(32, 0)], (None, -1), along(32, 0, 1)),
        ("and.b32", [THREAD, along(32, 0)], (None, 15), by(32, lambda lane: lane % 16, 5)),
        ("and.b32", [along(32, 0), THREAD], (-16, None), by(32, lambda lane: lane // 16 * 16, 5)),
        ("shr.u32", [THREAD, along(32, 0)], (None, 3), by(32, lambda lane: lane // 8, 2)),
        ("shr.s32", [THREAD, along(32, 0)], (None, 5), along(32, 0)),
        ("shr.s32", [THREAD, along(32, 0)], (None, 32), None),
        ("shr.s32", [along(32, 0), THREAD], (32, None), None),
        ("or.b32", [THREAD, along(32, 0)], (None, 4), by(32, lambda lane: lane & ~4, 2)),
        ("xor.b32", [THREAD, along(32, 0)], (None, 5), by(32, lambda lane: (lane ^ 5) - 5)),
        ("and.b32", [along(32, 1), along(32, 0)], (None, 15), None),
        ("and.b32", [along(32, 1, 4), along(32, 0)], (None, 15), None),
        ("and.b32", [THREAD, along(32, 0)], (None, None), None),
        ("and.b32", [along(32, -1, 5), along(32, 0)], (None, 15), None),
        ("mul.f32", [along(32, 0), along(32, 0)], (None, None), along(32, 0)),
        ("add.f32", [along(32, 1), along(32, 0)], (None, None), None),
        ("setp.lt.s32", [along(32, 0), along(32, 0)], (None, None), along(1, 0)),
        ("setp.lt.s32", [along(32, 1), along(32, 0)], (None, None), None),
        ("index.s64", [along(64, 1), *3 * [along(64, 0)]], (None, None, 4, None), along(64, 4)),
        ("index.s64", [*3 * [along(64, 0)], along(64, 8)], (None, None, None, None), along(64, 8)),
        ("add.b32", [None, along(32, 0)], (None, None), None),
        ("mulwide.u32", [THREAD, along(32, 0)], (None, 4), along(64, 4, 7)),
        ("mulwide.s32", [THREAD, along(32, 0)], (None, 0xFFFFFFFC), along(64, -4, 7)),
        ("mulwide.u32", [THREAD, along(32, 0)], (None, -4), along(64, 0xFFFFFFFC, 7)),
        ("madwide.s32", [along(32, 0), THREAD, along(64, 8, 2)], (-3, None, None), along(64, 5, 2)),
        ("mulwide.u32", [THREAD, along(32, 0)], (None, None), None),
        ("mulwide.u16", [THREAD, along(32, 0)], (None, 4), None),
    ],
)  # fmt: skip
def test_shapes_of_results(name: str, shapes: Any, values: Any, expected: Any) -> None:
    assert arithmetic(name, tuple(shapes), values) == expected


@pytest.mark.parametrize(
    "name", ["add.b32", "sub.b32", "mul.b32", "shl.b32", "and.b32", "or.b32", "xor.b32", "shr.s32", "shr.u32"]
)
def test_shapes_are_those_of_the_results(name: str) -> None:
    """Of any numbers that lie like the operands."""
    random = np.random.default_rng(7)
    known = 0
    for _ in range(400):
        twos = int(random.integers(0, 8))
        steps = random.integers(0, 1 << int(random.integers(1, 8)), 32) - int(random.integers(0, 2)) * 3
        shape = Shape(32, (0, *(int(one) for one in steps[1:])), twos)
        constant = int(random.integers(-40, 40))
        shapes, values = [shape, Shape(32, line(0))], [None, constant]
        if random.integers(0, 2) and not name.startswith("sh"):
            shapes, values = shapes[::-1], values[::-1]
        found = arithmetic(name, tuple(shapes), tuple(values))
        if found is None:
            continue
        known += 1
        for first in random.integers(-(1 << 31) >> twos, 1 << 31 - twos, 8):
            lanes = [(int(first) << twos) + step for step in shape.steps]
            numbers = [evaluate(name, [lane if value is None else value for value in values]) for lane in lanes]
            assert [(one - numbers[0]) % (1 << 32) for one in numbers] == [step % (1 << 32) for step in found.steps]
            assert numbers[0] % (1 << min(found.twos, 32)) == 0
    assert known > 20


def evaluate(name: str, operands: list[int]) -> int:
    return int(semantics[name](*(one & 0xFFFFFFFF for one in operands)))


def test_an_instruction_tells_the_rows_that_it_writes() -> None:
    for name, operation in OPERATIONS.items():
        use = use_of([OPCODE[name], 0, 512, 1024, 2048, 0, 0, 0])
        assert (512 in {row for row, _ in use.writes}) == bool(operation.result) or operation.kind in ("load", "store")
    shuffle = use_of([OPCODE["shfl.idx.b32"], 0, 512, 1024, 2048, 4096, 0, 8])
    assert shuffle.writes == ((512, "b32"), (8, "p"))
    assert use_of([OPCODE["mma.m16n8k16.f32.f16.f16.f32"], 0, 512, 1024, 2048, 4096, 0, 0]).writes_from == 512


# -- loads through the read-only cache, indices outside ----------------------------------------------------------------
@cuda.jit
def read_only(x: Any, y: Any, n: Any) -> None:
    t = cuda.threadIdx.x
    total = np.float32(0)
    for k in range(n):
        total += ptx.ld_nc(x, t) + ptx.ld_nc(x, k) + ptx.ld_nc(x, t % 8 * 4 + t // 8)
    y[t] = total


def test_what_is_claimed_in_a_second_run_is_claimed_without_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """With no other checker that run is made by the machine of the first one, which has a block."""

    def launch() -> Any:
        x = numbers(64)
        return said(read_only, 1, 32, (x, x[:32], 6), checkers=["read-only"])

    first, *_ = in_all_tiers(monkeypatch, launch)
    assert [finding["code"] for finding in first["findings"]] == ["read-only-written"]


@pytest.mark.parametrize("overlap", [False, True])
def test_blocks_have_loads_through_the_read_only_cache(overlap: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = counted(monkeypatch)

    def launch() -> Any:
        x = numbers(64)
        return said(read_only, 1, 32, (x, x[:32] if overlap else np.zeros(32, np.float32), 6))

    first, *_ = in_all_tiers(monkeypatch, launch)
    assert len(taken) >= 2
    assert ("read-only-written" in {finding["code"] for finding in first["findings"]}) == overlap


@cuda.jit
def margins(x: Any, y: Any, n: Any, m: Any) -> None:
    """Loads whose addresses are computed before the loop, and lie outside for lanes that do not use them."""
    t, b = cuda.threadIdx.x, cuda.blockIdx.x
    total = np.float32(0)
    for k in range(n):
        if b < m:
            total += x[k, t + 32 * b + 8]
        total += x[k, t + 32 * b]
    y[b * 32 + t] = total


@pytest.mark.parametrize("pieces", [2000, 20_000_000], ids=["slices", "one slice"])
def test_a_block_is_made_anew_where_indices_are_seen_to_lie_outside(
    pieces: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last CTA's do, which comes after the first block was made: the block stops there for the host to look."""
    rows, ctas = 400, 6
    expected = said(margins, ctas, 32, margin_arguments(rows, ctas))
    taken, heat = counted(monkeypatch), hot.Heat()
    monkeypatch.setattr(hot, "heat_of", lambda _: heat)
    monkeypatch.setenv("WSEMU_TIER", "auto")
    monkeypatch.setattr(hot, "HOT", 2000)
    monkeypatch.setattr(hot, "WORTH", 1000)
    monkeypatch.setattr(hot, "SEEN", 1000)
    monkeypatch.setattr(slices, "SLICES", (pieces,) * 3)
    monkeypatch.setattr(slices, "FIRST_SLICE", 2000)
    kept._kept.clear()
    found = []
    for _ in range(3):
        found.append(said(margins, ctas, 32, margin_arguments(rows, ctas)))
        hot.wait_for_blocks()
    assert found == [expected] * 3
    assert len(set(taken)) == 2


def margin_arguments(rows: int, ctas: int) -> Any:
    x = numbers(rows * 32 * ctas).reshape(rows, 32 * ctas)
    return x, np.zeros(32 * ctas, np.float32), rows, ctas - 1


# -- what goes on meanwhile -------------------------------------------------------------------------------------------
@cuda.jit
def endless(x: Any, n: Any) -> None:
    v = x[cuda.threadIdx.x]
    for k in range(n):
        v = v * 3 + k
    x[cuda.threadIdx.x] = v


ENDLESS = """
import numpy as np
from numba import cuda

@cuda.jit
def endless(x, n):
    v = x[cuda.threadIdx.x]
    for k in range(n):
        v = v * 3 + k
    x[cuda.threadIdx.x] = v

endless[1, 32](np.zeros(32, np.int32), 1 << 40)
"""


class Heard(Exception):
    """A signal was."""


@pytest.fixture
def in_a_block(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Any], None]]:
    """Have a signal call something while a block runs that is left only when its turn is over."""
    before = signal.getsignal(signal.SIGALRM)
    take_up = hot._take_up

    def taken(machine: Any, block: Any) -> None:
        take_up(machine, block)
        signal.setitimer(signal.ITIMER_REAL, 0.1)

    monkeypatch.setattr(hot, "_take_up", taken)
    monkeypatch.setenv("WSEMU_TIER", "always")
    kept._kept.clear()

    def on_a_signal(what: Any) -> None:
        signal.signal(signal.SIGALRM, what)

    yield on_a_signal
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def test_a_signal_is_heard_while_a_block_runs(in_a_block: Callable[[Any], None]) -> None:
    """Ctrl-C and the time limit are such ones."""

    def heard(*_: Any) -> None:
        raise Heard

    in_a_block(heard)
    with pytest.raises(Heard):
        wsemu.check(endless, 1, 32, (np.zeros(32, np.int32), 1 << 40), budget=1 << 60)


def test_a_time_limit_ends_a_block(
    in_a_block: Callable[[Any], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "slow.py"
    file.write_text(ENDLESS)
    assert file_program.run(file, [], Settings(budget=1 << 60), time_limit=1000) == 3
    told = capsys.readouterr()
    assert "the time limit of 1000 s is reached in `endless`" in " ".join(told.out.split())


def test_progress_is_told_while_blocks_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WSEMU_TIER", "always")
    kept._kept.clear()
    told: list[tuple[str, int, int]] = []
    monkeypatch.setattr(running, "advancing", [lambda *now: told.append(now)])
    wsemu.check(endless, 40, 32, (np.zeros(32, np.int32), 100_000))
    assert {name for name, *_ in told} == {"endless"}
    assert any(0 < done < total == 40 for _, done, total in told)
