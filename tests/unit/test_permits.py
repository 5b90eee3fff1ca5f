"""Permits of a block's accesses: what they rest on changes between two executions of one instruction, and a launch
still says what the VM alone says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import wsemu
from tests.unit.test_blocks import in_all_tiers, said
from wsemu import cuda
from wsemu.machine import slices, vm, workers
from wsemu.machine.memory.cell_bits import HIGH_SHIFT, LOW_SHIFT
from wsemu.machine.tier.permits import MOST_PIECES, cells_of
from wsemu.machine.tier.shapes import UNIFORM, line
from wsemu.model.isa import LANES
from wsemu.model.settings import Settings, using

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture(autouse=True)
def _none_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_kept", {})


# -- cells -------------------------------------------------------------------------------------------------------------


@given(
    st.one_of(
        st.integers(-9, 9).map(line),
        st.tuples(st.integers(1, 32), st.integers(-40, 40), st.integers(-40, 40)).map(
            lambda of: tuple(lane // of[0] * of[1] + lane % of[0] * of[2] for lane in range(LANES))
        ),
    ),
    st.sampled_from([1, 2, 4, 8, 16]),
    st.integers(0, 4),
)
def test_cells_have_the_lanes_that_touch_them(steps: Any, size: int, finer: int) -> None:
    grain = max(size.bit_length() - 1 - finer, 0)
    steps = tuple(step * size for step in steps)
    found = cells_of(steps, size, grain)
    lanes: dict[int, list[int]] = {}
    for lane, step in enumerate(steps):
        for byte in range(step, step + size):
            lanes.setdefault(byte >> grain, []).append(lane)
    if found is None:
        assert len(lanes) > MOST_PIECES
        return
    each = len(found.lanes[0])
    cells = {
        piece // 8 + k: own for piece, of in zip(found.pieces, found.lanes, strict=True) for k, own in enumerate(of)
    }
    assert len(cells) == len(found.pieces) * each
    assert cells == {at: min(of) << LOW_SHIFT | max(of) << HIGH_SHIFT for at, of in lanes.items()}
    assert found.apart == all(len(set(of)) == 1 for of in lanes.values())


def test_lanes_between_two_cells_have_none() -> None:
    assert cells_of((0, 2, *(4 * lane for lane in range(2, LANES))), 4, 2) is None
    assert cells_of(UNIFORM, 8, 2) is not None


# -- launches ----------------------------------------------------------------------------------------------------------


@cuda.jit
def partly_written(x: Any, y: Any, n: Any) -> None:
    """All of a tile is written in the first CTA, and less of it in each of the others."""
    tile = cuda.shared.array((40, 33), np.float32)
    t = cuda.threadIdx.x
    total = np.float32(0)
    for k in range(40 - 3 * cuda.blockIdx.x):
        tile[k, t] = x[t]
    cuda.syncthreads()
    for k in range(n):
        total += tile[k, t] + tile[k, 5] + tile[k, 31 - t]
    y[cuda.blockIdx.x, t] = total


@cuda.jit
def own_numbers(x: Any, y: Any, n: Any) -> None:
    """Local arrays: each warp has its own, and some elements that nobody wrote."""
    mine = cuda.local.array(24, np.float32)
    t = cuda.threadIdx.x
    total = np.float32(0)
    for k in range(24 - t // 32):
        mine[k] = x[t] + k
    for _ in range(n):
        for k in range(24):
            total += mine[k]
            mine[k % 20] = total
    y[cuda.blockIdx.x, t] = total


@cuda.jit
def slides(x: Any, y: Any, n: Any) -> None:
    """Rows that begin anywhere in a sector, and leave the array at last."""
    t = cuda.threadIdx.x
    total = np.float32(0)
    for k in range(n):
        total += x[k + t] + x[3 * k] + x[t // 8 * 5 + k]
        y[cuda.blockIdx.x, t] = total
    y[cuda.blockIdx.x, t] = total


@cuda.jit
def at_last_a_race(x: Any, y: Any, n: Any) -> None:
    """Warps read the same rows as often as not; one of them writes one that another reads unordered."""
    tile = cuda.shared.array((32, 64), np.float64)
    t = cuda.threadIdx.x
    total = np.float64(0)
    for k in range(32):
        if t < 64:
            tile[k, t] = x[t]
    cuda.syncthreads()
    for again in range(n):
        for k in range(32):
            total += tile[k, t % 16] + tile[k, t // 32] + tile[k, t % 32]
        cuda.syncwarp()
        if again % 4 == 3:
            cuda.syncthreads()
        if again == n - 1 and t // 32 == 1:
            tile[7, t % 32] = total
    y[cuda.blockIdx.x, t] = total


@cuda.jit
def own_places(x: Any, y: Any, n: Any) -> None:
    """Elements that each lane reads and writes time and again, and one that its neighbour reads between."""
    tile = cuda.shared.array(96, np.float32)
    t = cuda.threadIdx.x
    tile[t] = x[t]
    for k in range(n):
        tile[t] += x[t]
        y[cuda.blockIdx.x, t] = tile[t]
        if k == n - 2:
            tile[t] = tile[t ^ 1]


@cuda.jit
def neighbours(x: Any, y: Any, n: Any) -> None:
    """Lanes read what their neighbours wrote, at last without waiting for them."""
    tile = cuda.shared.array(96, np.float32)
    t = cuda.threadIdx.x
    total = x[t]
    for k in range(n):
        tile[t] = total
        if k < n - 3:
            cuda.syncwarp()
        total += tile[t ^ 1]
        cuda.syncwarp()
    y[cuda.blockIdx.x, t] = total


@cuda.jit
def of_all_ctas(x: Any, y: Any, n: Any) -> None:
    """Each CTA adds to the same rows."""
    t = cuda.threadIdx.x
    for k in range(n):
        y[k % 2, t] += x[t]


@cuda.jit
def ever_finer(x: Any, y: Any, n: Any) -> None:
    """Between two loops of one instruction bytes of the same memory are accessed, of which it has finer cells then."""
    words = cuda.shared.array(0, np.float32)
    octets = cuda.shared.array(0, np.uint8)
    t = cuda.threadIdx.x
    total = np.float32(0)
    for again in range(4):
        for k in range(n):
            words[t + 64 * (k % 2)] = total
            total += words[t + 64 * (k % 2)] + x[t]
        cuda.syncthreads()
        if again == 1:
            octets[t] = 1
        if again < 3:
            cuda.syncthreads()
        else:
            total += words[95 - t]
    y[cuda.blockIdx.x, t] = total


def numbers(count: int, dtype: Any = np.float32) -> Any:
    return np.arange(count, dtype=dtype)


def rows(ctas: int, threads: int, dtype: Any = np.float32) -> Any:
    return np.zeros((ctas, threads), dtype)


LAUNCHES: dict[str, tuple[Any, int, int, Callable[[], tuple[Any, ...]], set[str]]] = {
    "partly_written": (partly_written, 5, 32, lambda: (numbers(32), rows(5, 32), 30), {"uninitialized-read"}),
    "all_written": (partly_written, 3, 32, lambda: (numbers(32), rows(3, 32), 34), set()),
    "own_numbers": (own_numbers, 2, 96, lambda: (numbers(96), rows(2, 96), 5), {"uninitialized-read"}),
    "slides": (slides, 2, 64, lambda: (numbers(150), rows(2, 64), 60), {"out-of-bounds"}),
    "slides_inside": (slides, 2, 64, lambda: (numbers(400), rows(2, 64), 60), set()),
    "at_last_a_race": (
        at_last_a_race, 2, 128, lambda: (numbers(128, np.float64), rows(2, 128, np.float64), 9), {"race"},
    ),
    "neighbours": (neighbours, 2, 96, lambda: (numbers(96), rows(2, 96), 9), {"intra-warp-race"}),
    "of_all_ctas": (of_all_ctas, 3, 64, lambda: (numbers(64), rows(2, 64), 9), {"race"}),
    "ever_finer": (ever_finer, 2, 64, lambda: (numbers(64), rows(2, 64), 7), set()),
    "own_places": (own_places, 2, 96, lambda: (numbers(96), rows(2, 96), 9), {"intra-warp-race"}),
}  # fmt: skip


@pytest.mark.parametrize("piece", [None, 60])
@pytest.mark.parametrize("name", LAUNCHES)
def test_what_permits_rest_on_may_change(name: str, piece: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """`piece`: instructions after which the host has a look."""
    kernel, grid, block, arguments, expected = LAUNCHES[name]
    if piece:
        monkeypatch.setattr(slices, "SLICES", (piece,) * len(slices.SLICES))
    options = {"dynamic_shared": 512} if kernel is ever_finer else {}
    first = in_all_tiers(monkeypatch, lambda: said(kernel, grid, block, arguments(), **options))
    assert {finding["code"] for finding in first[0]["findings"]} & EXPECTED == expected


@cuda.jit
def conflicts(x: Any, y: Any, n: Any) -> None:
    """Each CTA has the same bank conflicts: the first one is told of, whichever ran first."""
    tile = cuda.shared.array(1056, np.float32)
    t = cuda.threadIdx.x
    for k in range(33):
        tile[k * 32 + t] = x[t]
    cuda.syncthreads()
    total = np.float32(0)
    for k in range(n):
        total += tile[t * 2 + k]
    y[cuda.blockIdx.x, t] = total


@pytest.mark.parametrize("checkers", [("bank-conflict",), ("bank-conflict", "race")])
def test_a_permit_is_of_one_group_also_where_there_are_no_clocks(
    checkers: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(cta_order="descending", checkers=frozenset(checkers))

    def one() -> tuple[Any, ...]:
        with using(settings):
            return said(conflicts, 10, 32, (numbers(32), rows(10, 32), 8))

    (finding,) = in_all_tiers(monkeypatch, one)[0]["findings"]
    assert finding["code"] == "bank-conflict"
    assert finding["sites"][0]["cta"] == (0, 0, 0)


EXPECTED = {"uninitialized-read", "out-of-bounds", "race", "intra-warp-race"}

LATE_MBARRIER = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry late(.param .u64 out) {
    .reg .pred %p<4>; .reg .b32 %r<12>; .reg .b64 %a<8>;
    .shared .align 16 .b8 room[1024];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, room;
    shl.b32 %r3, %r1, 2;
    add.u32 %r3, %r2, %r3;
    mov.u32 %r4, 0;
    mov.u32 %r5, 0;
again:
    st.shared.u32 [%r3], %r5;
    st.shared.u32 [%r3+128], %r5;
    setp.ne.u32 %p1, %r4, AT;
    @%p1 bra behind;
    setp.ne.u32 %p2, %r1, 0;
    @%p2 bra met;
    mbarrier.init.shared.b64 [room+PLACE], 1;
met:
    bar.warp.sync 0xffffffff;
behind:
    ld.shared.u32 %r6, [%r3];
    add.u32 %r5, %r5, %r6;
    add.u32 %r4, %r4, 1;
    setp.lt.u32 %p3, %r4, 20;
    @%p3 bra again;
    ld.param.u64 %a1, [out];
    mul.wide.u32 %a2, %r1, 4;
    add.s64 %a1, %a1, %a2;
    st.global.u32 [%a1], %r5;
    ret;
}
"""


@pytest.mark.parametrize(("place", "clobbered"), [(64, True), (200, True), (512, False)])
def test_an_mbarrier_may_begin_where_a_loop_has_permits(
    place: int, clobbered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = LATE_MBARRIER.replace("PLACE", str(place)).replace("AT", "9")
    kernel = wsemu.load_ptx(text)["late"]
    first = in_all_tiers(monkeypatch, lambda: said(kernel, 1, 32, (np.zeros(32, np.uint32),)))
    codes = {finding["code"] for finding in first[0]["findings"]}
    assert ("mbarrier-clobber" in codes) == clobbered


def test_permits_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a loop's accesses have been granted when it is over."""
    granted = []
    before = vm.Machine.run

    def seen(machine: Any, *arguments: Any, **options: Any) -> int:
        status = before(machine, *arguments, **options)
        granted.append(0 if machine.permits is None else int((machine.permits["span"] > 0).sum()))
        return status

    monkeypatch.setattr(vm.Machine, "run", seen)
    monkeypatch.setenv("WSEMU_TIER", "always")
    said(slides, 1, 32, (numbers(400), rows(1, 32), 60))
    assert max(granted) >= 4
    granted.clear()
    monkeypatch.setenv("WSEMU_TIER", "off")
    workers._kept.clear()
    said(slides, 1, 32, (numbers(400), rows(1, 32), 60))
    assert max(granted) == 0
