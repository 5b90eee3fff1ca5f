"""Kernels whose verdict was once wrong, on both engines and on one or several workers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wsemu
from wsemu import cuda, ptx
from wsemu.machine.memory import shadow_planes
from wsemu.patterns import CudaDMASequential

WAYS: dict[str, dict[str, Any]] = {
    "one worker": {"workers": 1},
    "two workers": {"workers": 2},
    "reference": {"engine": "reference"},
}
INTRA = "intra-warp-race"


def integers(n: int = 64) -> Any:
    return np.zeros(n, np.int32)


def errors(report: wsemu.Report) -> set[str]:
    return {finding.code for finding in report.findings if finding.severity == "error"}


def verdicts(kernel: Any, block: int, *arguments: Any, grid: int = 1, **options: Any) -> set[str]:
    """The codes of the errors, the same ones however the launch is run."""
    found = []
    for way in WAYS.values():
        copies = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
        found.append(wsemu.check(kernel, grid, block, copies, **way, **options).model_dump(exclude={"seconds"}))
    assert all(report == found[0] for report in found)
    return {finding["code"] for finding in found[0]["findings"] if finding["severity"] == "error"}


# -- what shadow memory remembers -------------------------------------------------------------------------------------
@cuda.jit
def all_but_one_lane(o):
    t = cuda.threadIdx.x
    if t > 0:
        o[t - 1] = cuda.blockIdx.x


@cuda.jit
def last_lane(o):
    if cuda.threadIdx.x == 31:
        o[0] = cuda.blockIdx.x


@pytest.mark.parametrize("kernel", [all_but_one_lane, last_lane])
def test_lanes_that_begin_before_the_array_meet_those_of_another_worker(kernel: Any) -> None:
    assert verdicts(kernel, 32, integers(), grid=2) == {"race"}


@cuda.jit
def words_and_bytes(o):
    words = cuda.shared.array(64, np.int32)
    small = cuda.shared.array(64, np.int8)
    t = cuda.threadIdx.x
    if 30 <= t < 32:
        words[t - 30] = 1
    if t >= 32:
        small[t - 32] = 1
    o[t] = 1


@cuda.jit
def bytes_alone(o):
    small = cuda.shared.array(320, np.int8)
    t = cuda.threadIdx.x
    small[t] = 1
    o[t] = 1


def test_shadow_memory_of_one_launch_is_clean_for_the_next() -> None:
    for _ in range(3):
        for kernel in (words_and_bytes, bytes_alone):
            wsemu.check(kernel, 1, 64, (integers(),)).assert_clean()


@cuda.jit
def everyone_reads_everything(x, n):
    total = np.float32(0)
    for k in range(n):
        total += x[k]
        cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        x[0] = total


def test_sets_with_more_elements_than_sets_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shadow_planes, "MANY_SETS", shadow_planes.FIRST_SETS)
    monkeypatch.setattr(shadow_planes, "ACCESS_SETS", 64)
    wsemu.check(everyone_reads_everything, 1, 1024, (np.ones(4000, np.float32), 4000)).assert_clean()


# -- launches of very many CTAs ---------------------------------------------------------------------------------------
@cuda.jit
def nothing(o):
    pass


HUGE = (2_147_483_647, 65_535, 65_535)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("grid", [20_000_000, HUGE])
def test_the_budget_counts_ctas(way: dict[str, Any], grid: Any) -> None:
    assert wsemu.check(nothing, grid, 32, (integers(),), budget=10_000, **way).verdict == "incomplete"


def test_more_ctas_than_can_be_told_apart_are_refused() -> None:
    with pytest.raises(wsemu.UsageError, match="at most 134,217,728 CTAs may start"):
        wsemu.check(nothing, HUGE, 32, (integers(),), budget=10**18)


PRESSED = """
import _thread, signal, sys, threading
sys.path.insert(0, {folder!r})
import numpy as np, wsemu
from test_soundness_cases import WAYS, nothing

way, done, o = WAYS[{way!r}], threading.Event(), np.zeros(64, np.int32)
wsemu.check(nothing, 1, 32, (o,), **way)
signal.signal(signal.SIGINT, signal.default_int_handler)

def press():  # as people do, until it is heard: in a callback of the garbage collector it is lost
    while not done.wait(0.2):
        _thread.interrupt_main()

presses = threading.Thread(target=press, daemon=True)
presses.start()
try:  # the launch takes seconds
    wsemu.check(nothing, 10_000_000, 32, (o,), budget=400_000_000, **way)
except KeyboardInterrupt:
    done.set()
    print("heard", flush=True)
"""


@pytest.mark.parametrize("way", WAYS)
def test_ctrl_c_gets_through_between_ctas(way: str) -> None:
    """In a process of its own: a signal that comes late must not end the one that runs the tests."""
    program = PRESSED.format(folder=str(Path(__file__).parent), way=way)
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    assert done.stdout == "heard\n", done.stderr


# -- atomics and plain accesses ---------------------------------------------------------------------------------------
@cuda.jit
def atomics_then_plain(o, plain, others):
    w = cuda.threadIdx.x // 32
    if w < 2:
        if cuda.threadIdx.x % 32 == 0:
            cuda.atomic.add(o, 0, 1)
            if w == plain:
                o[0] = 5
    elif others:
        cuda.atomic.add(o, w, 1)


@pytest.mark.parametrize("engine", ["vm", "reference"])
@pytest.mark.parametrize("plain", [0, 1])
@pytest.mark.parametrize(("warps", "others"), [(2, 0), (3, 0), (3, 1)])
def test_what_an_atomic_without_fences_observes_by_luck_orders_nothing(
    engine: Any, plain: int, warps: int, others: int
) -> None:
    """Nothing is done because of what an atomic returned: in another order of the atomics the same accesses race."""
    report = wsemu.check(atomics_then_plain, 1, 32 * warps, (integers(), plain, others), engine=engine)
    assert errors(report) == {"race"}


@cuda.jit
def read_then_atomic(o):
    t = cuda.threadIdx.x
    if t == 0:
        o[1] = o[0]
        cuda.atomic.add(o, 0, 1)
    if t == 32:
        cuda.atomic.add(o, 0, 1)


def test_an_atomic_does_not_stand_for_a_read() -> None:
    assert verdicts(read_then_atomic, 64, integers()) == {"race"}


@cuda.jit
def one_lane_reads_adds_and_stores(o):
    s = cuda.shared.array(32, np.int32)
    t = cuda.threadIdx.x
    s[t] = 0
    o[t] = s[t]
    cuda.atomic.add(s, t, 1)
    s[t] = o[t]


def test_a_lane_knows_its_own_reads_and_atomics() -> None:
    assert verdicts(one_lane_reads_adds_and_stores, 32, integers()) == set()


@cuda.jit
def atomics_then_two_lanes(o):
    s = cuda.shared.array(4, np.int32)
    t = cuda.threadIdx.x
    if t == 0:
        s[0] = 0
    cuda.syncthreads()
    cuda.atomic.add(s, 0, 1)
    cuda.syncthreads()
    if t == 1:
        o[1] = s[0]
    if t == 0:
        s[0] = 7


def test_lanes_are_told_apart_in_a_set_of_accesses() -> None:
    assert verdicts(atomics_then_two_lanes, 32, integers()) == {INTRA}


@cuda.jit
def two_widths(x, y):
    t = cuda.threadIdx.x
    if t == 0:
        cuda.atomic.add(x, 0, 1)
    if t == 32:
        cuda.atomic.add(y, 0, 1)


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_atomics_of_two_widths_race(engine: Any) -> None:
    x = np.zeros(8, np.int64)
    assert errors(wsemu.check(two_widths, 1, 64, (x, x.view(np.int32)), engine=engine)) == {"race"}
    wsemu.check(two_widths, 1, 64, (x, x.view(np.uint64)), engine=engine).assert_clean()


# -- lanes ------------------------------------------------------------------------------------------------------------
@cuda.jit
def unnamed_lane_exits(o, mask):
    s = cuda.shared.array(4, np.int32)
    t = cuda.threadIdx.x
    if t == 31:
        s[0] = 5
        return
    cuda.syncwarp(mask)
    if t == 0:
        o[0] = s[0]


def test_a_lane_that_has_exited_has_met_those_that_name_it() -> None:
    assert verdicts(unnamed_lane_exits, 32, integers(), 0x7FFFFFFF) == {INTRA}
    assert verdicts(unnamed_lane_exits, 32, integers(), 0xFFFFFFFF) == set()


@cuda.jit
def even_lanes(o, writer):
    s = cuda.shared.array(4, np.int32)
    t = cuda.threadIdx.x
    if t == 0:
        s[0] = 5
    cuda.syncwarp()
    if t % 2 == 0:
        o[t] = s[0]
        cuda.syncwarp(0x55555555)
    if t == writer:
        s[0] = 9


def test_a_lane_between_two_others_has_not_read() -> None:
    assert verdicts(even_lanes, 32, integers(), 0) == set()
    assert verdicts(even_lanes, 32, integers(), 4) == set()
    assert verdicts(even_lanes, 32, integers(), 3) == {INTRA}


@cuda.jit
def sum_of_a_warp(o):
    total = cuda.threadIdx.x
    for k in (16, 8, 4, 2, 1):
        total += cuda.shfl_down_sync(0xFFFFFFFF, total, k)
    o[cuda.threadIdx.x] = total


@cuda.jit
def half_reads_the_other(o, exits):
    lane = cuda.threadIdx.x
    if exits and lane >= 16:
        return
    if lane < 16:
        o[lane] = cuda.shfl_xor_sync(0xFFFFFFFF if exits else 0xFFFF, lane, 16)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_shuffle_from_a_lane_that_takes_no_part_is_undefined(way: dict[str, Any]) -> None:
    wsemu.check(sum_of_a_warp, 1, 64, (integers(),), **way).assert_clean()
    report = wsemu.check(sum_of_a_warp, 1, 70, (integers(96),), **way)
    assert report.verdict == "failed"
    (finding,) = report.findings
    assert (finding.code, finding.severity) == ("undefined-shuffle", "error")
    assert "executed by warp 2; lanes 0-5: lane 0 reads lane 16" in finding.sites[0].text
    assert "is stored to `o`: warp 2, lane 0" in finding.sites[1].text
    for exits in (0, 1):
        assert wsemu.check(half_reads_the_other, 1, 32, (integers(), exits), **way).verdict == "failed"


# -- memory -----------------------------------------------------------------------------------------------------------
@cuda.jit
def adds_one(x):
    i = cuda.grid(1)
    x[i] += 1
    if i == 5:
        x[x.size + 3] = 1


@pytest.mark.parametrize("checkers", [["bounds"], ["deadlock"], ["recycling", "bounds"], ["race", "bounds"]])
@pytest.mark.parametrize("workers", [1, 2])
def test_a_launch_that_is_repeated_starts_with_the_same_arrays(checkers: list[str], workers: int) -> None:
    x = integers(128)
    wsemu.check(adds_one, 4, 32, (x,), workers=workers, checkers=checkers)
    assert (x == 1).all()


@cuda.jit
def vector_load(x, o, i):
    a, b, c, d = ptx.ld_v4(x, i)
    o[cuda.threadIdx.x] = a + b + c + d


@cuda.jit
def vector_store_beside(o, i):
    s = cuda.shared.array(6, np.int32)
    u = cuda.shared.array(8, np.int32)
    if cuda.threadIdx.x == 0:
        ptx.st_v4(s, i, (1, 2, 3, 4))
        u[0] = 1
        o[0] = u[0]


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_all_elements_of_a_vector_lie_in_the_array(engine: Any) -> None:
    whole = np.arange(64, dtype=np.float32)

    def check(kernel: Any, *arguments: Any) -> set[str]:
        return errors(wsemu.check(kernel, 1, 32, arguments, engine=engine))

    assert check(vector_load, whole[:6], np.zeros(32, np.float32), 4) == {"out-of-bounds"}
    assert check(vector_load, whole[:8], np.zeros(32, np.float32), 4) == set()
    assert check(vector_store_beside, integers(), 4) == {"out-of-bounds"}
    assert check(vector_store_beside, integers(), 0) == set()


@cuda.jit
def bytes_of_shared(o, i, j):
    s = cuda.shared.array(6, np.int32)
    u = cuda.shared.array(10, np.int32)
    t = cuda.threadIdx.x
    if t < 10:
        s[t % 6] = 1
        u[t] = 2
    cuda.syncthreads()
    if t == 0:
        ptx.st_bytes(s, i, (3, 4))
        o[0] = ptx.ld_bytes(u[2:4], j, 4)[0]
        o[1] = ptx.ld_bytes(s, 20, 4)[0]


@cuda.jit
def bytes_of_local(o, i):
    own = cuda.local.array(3, np.int32)
    other = cuda.local.array(5, np.int32)
    for k in range(3):
        own[k] = 1
    for k in range(5):
        other[k] = 2
    ptx.st_bytes(other, i, (7,))
    o[cuda.threadIdx.x] = other[0] + own[0]


@cuda.jit
def bytes_of_dynamic(o, i):
    s = cuda.shared.array(0, np.int32)
    if cuda.threadIdx.x == 0:
        ptx.st_bytes(s, i, (3, 4))
        o[0] = s[i // 4]


@cuda.jit
def bytes_of_one_of_two(o, x, y, second, i):
    z = x
    for _ in range(2):
        if second:
            z = y
        if cuda.threadIdx.x == 0:
            o[0] = ptx.ld_bytes(z, i, 4)[0]


@cuda.jit
def bytes_of_a_row(o, x, row, i):
    if cuda.threadIdx.x == 0:
        o[0] = ptx.ld_bytes(x[row], i, 4)[0]


OUT = "out-of-bounds"


@pytest.mark.parametrize(
    ("kernel", "arguments", "expected"),
    [
        (bytes_of_shared, (16, 0), set()),
        (bytes_of_shared, (24, 0), {OUT}),
        (bytes_of_shared, (-8, 0), {OUT}),
        (bytes_of_shared, (0, 8), set()),  # behind the view, in the array
        (bytes_of_shared, (0, -8), set()),
        (bytes_of_shared, (0, -12), {OUT}),
        (bytes_of_shared, (0, 32), {OUT}),
        (bytes_of_local, (16,), set()),
        (bytes_of_local, (20,), {OUT}),
        (bytes_of_local, (-4,), {OUT}),
        (bytes_of_dynamic, (56,), set()),
        (bytes_of_dynamic, (64,), {OUT}),
    ],
)
def test_bytes_lie_in_the_array_that_was_declared(kernel: Any, arguments: tuple[int, ...], expected: set[str]) -> None:
    assert verdicts(kernel, 32, integers(), *arguments, dynamic_shared=64) == expected


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_bytes_lie_in_the_array_that_was_passed(engine: Any) -> None:
    whole = np.arange(64, dtype=np.int32)

    def check(kernel: Any, *arguments: Any) -> set[str]:
        return errors(wsemu.check(kernel, 1, 32, (integers(), *arguments), engine=engine))

    x, y = whole[:8], whole[8:24]
    assert check(bytes_of_one_of_two, x, y, 0, 28) == set()
    assert check(bytes_of_one_of_two, x, y, 0, 32) == {OUT}
    assert check(bytes_of_one_of_two, x, y, 1, 60) == set()
    assert check(bytes_of_one_of_two, y, x, 1, 60) == {OUT}
    assert check(bytes_of_one_of_two, x, x[:0], 1, 0) == {OUT}
    backwards, strided = y[::-1], y[::5]
    assert check(bytes_of_one_of_two, backwards, x, 0, -60) == set()
    assert check(bytes_of_one_of_two, backwards, x, 0, 4) == {OUT}
    assert check(bytes_of_one_of_two, backwards, x, 0, -64) == {OUT}
    assert check(bytes_of_one_of_two, strided, x, 0, 60) == set()
    assert check(bytes_of_one_of_two, strided, x, 0, 64) == {OUT}
    rows = y.reshape(4, 4)
    assert check(bytes_of_a_row, rows, 2, -16) == set()
    assert check(bytes_of_a_row, rows, 2, 32) == {OUT}
    assert check(bytes_of_a_row, rows, 4, 0) == {OUT}
    assert check(bytes_of_a_row, rows, -1, 0) == {OUT}, "a computed negative index wraps, and that is told"


def test_what_is_said_of_bytes_outside() -> None:
    report = wsemu.check(bytes_of_local, 1, 32, (integers(), 20))
    (found,) = report.findings
    assert found.message == "store of 4 bytes outside `other`"
    assert "20 bytes after the array's start" in found.sites[0].text
    assert found.help == "check the offset, in bytes, against the array's end"


ROW_OF_64 = CudaDMASequential(0, 32, 32, 32, 64)


@cuda.jit
def transfers(x):
    tile = cuda.shared.array(15, np.int32)
    after = cuda.shared.array(15, np.int32)
    if cuda.threadIdx.x < 15:
        after[cuda.threadIdx.x] = 0
    if ROW_OF_64.owns_this_thread():
        ROW_OF_64.execute_dma_no_sync(x, tile)


def test_what_is_said_of_a_transfer_that_ends_outside() -> None:
    (found,) = wsemu.check(transfers, 1, 64, (integers(),)).findings
    assert found.message == "store of 4 bytes outside `tile`, at byte 60 of 60"
    assert "60 bytes after the array's start" in found.sites[0].text


@cuda.jit
def reshaped(o, n):
    s = cuda.shared.array(6, np.int32)
    u = cuda.shared.array(10, np.int32)
    t = cuda.threadIdx.x
    if t < 10:
        s[t % 6] = 1
        u[t] = 2
    cuda.syncthreads()
    if t < n:
        o[t] = s.reshape(n)[t]


def test_a_reshaped_array_has_no_more_elements() -> None:
    assert verdicts(reshaped, 32, integers(), 6) == set()
    assert verdicts(reshaped, 32, integers(), 8) == {OUT}
    assert verdicts(reshaped, 32, integers(), 0) == set()


@cuda.jit
def reshaped_to_more(o):
    s = cuda.shared.array(6, np.int32)
    s.reshape(2, 4)[0, 0] = 1


def test_reshaping_to_more_elements_is_refused() -> None:
    with pytest.raises(wsemu.KernelError, match=r"`s` of 6 elements is reshaped to 2 x 4"):
        wsemu.check(reshaped_to_more, 1, 32, (integers(),))


@cuda.jit
def first_of_one_to_the_other(x, o):
    t = cuda.threadIdx.x
    o[t + 1] = x[0]


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_a_read_only_view_does_not_forbid_stores_to_the_array(engine: Any) -> None:
    o = np.zeros(64, np.float32)
    x = o[:]
    x.flags.writeable = False
    wsemu.check(first_of_one_to_the_other, 1, 32, (x, o), engine=engine).assert_clean()
    assert errors(wsemu.check(first_of_one_to_the_other, 1, 32, (o[1:], o), engine=engine)) == {INTRA}


# -- what would stop a program in Python ------------------------------------------------------------------------------
@cuda.jit
def asserts(o, limit, bound):
    t = cuda.threadIdx.x
    assert t < limit
    if t > bound:
        raise ValueError
    o[t] = 1


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_an_assertion_that_fails_is_an_error_and_an_exception_a_note(way: dict[str, Any]) -> None:
    def found(*arguments: int) -> tuple[list[str], list[str]]:
        report = wsemu.check(asserts, 1, 64, (integers(), *arguments), **way)
        assert report.verdict == ("failed" if report.findings else "verified")
        notes = [note.partition(": ")[2] for note in report.notes if "raise" in note]
        return [f"{finding.message}: {finding.sites[0].text}" for finding in report.findings], notes

    raises = "warp 0: lane {} raise an exception, and end there, as in Numba's code without `debug`"
    fails = "warp 1 fails an assertion: failed by warp 1, lanes 8-31"
    assert found(64, 64) == ([], [])
    assert found(40, 64) == ([fails], [])
    assert found(64, 30) == ([], [raises.format("31")])
    assert found(40, 20) == ([fails], [raises.replace("lane {}", "lanes 21-31")])
