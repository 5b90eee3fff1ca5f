"""What atomics on shared memory cost, on both engines: against an H100's counters, and where nothing is known."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wsemu
from wsemu import cuda
from wsemu.model.arch import ARCHS
from wsemu.model.isa import AS_LOAD, HALVES, LOOP, NARROW_ATOMICS, SERIAL, SERVICE, SWAP, UNCOUNTED
from wsemu.model.memory_cost import wavefronts
from wsemu.report.terminal import render

DATA = Path(__file__).parent.parent / "data" / "h100-shared-atomics.csv"
LANE = np.arange(32)
FULL = 0xFFFFFFFF


def launched(x: Any, dtype: type) -> Any:
    """A kernel whose CTA k lets the lanes of mask[k] do `x` to the elements at[k] of a shared array."""
    one = dtype(1)

    @cuda.jit
    def kernel(at, mask, y):
        tile = cuda.shared.array(2048, dtype)
        lane, k = cuda.threadIdx.x, cuda.blockIdx.x
        if (mask[k] >> lane) & 1:
            x(tile, at[k, lane], one, y, lane)

    return kernel


@cuda.jit(device=True)
def add(tile, at, one, y, lane):
    y[lane] = cuda.atomic.add(tile, at, one)


@cuda.jit(device=True)
def increment(tile, at, one, y, lane):
    cuda.atomic.add(tile, at, 1)


@cuda.jit(device=True)
def swap(tile, at, one, y, lane):
    cuda.atomic.cas(tile, at, 0, 1)


@cuda.jit(device=True)
def exchange(tile, at, one, y, lane):
    cuda.atomic.exch(tile, at, one)


@cuda.jit(device=True)
def smallest(tile, at, one, y, lane):
    cuda.atomic.min(tile, at, one)


MEASURED = {
    "add.u32": (add, np.uint32, SERIAL),
    "increment.u32": (increment, np.uint32, AS_LOAD),
    "cas.u32": (swap, np.uint32, SWAP),
    "exch.u64": (exchange, np.uint64, SERIAL),
    "cas.u64": (swap, np.uint64, SWAP),
    "add.f32": (add, np.float32, LOOP),
    "add.f64": (add, np.float64, LOOP),
}


def rows() -> list[dict[str, str]]:
    with DATA.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def patterns() -> tuple[np.ndarray, np.ndarray]:
    """(element of each lane, active mask) of each measured pattern."""
    found = [(row["element_of_lane_0_to_31"].split(), int(row["active_mask"], 16)) for row in rows()]
    return np.array([at for at, _ in found], np.int64), np.array([mask for _, mask in found], np.int64)


def counters(run, what, dtype, at, mask, **options):
    arguments = (np.atleast_2d(np.asarray(at)), np.atleast_1d(np.asarray(mask)), np.zeros(32, dtype))
    grid = len(arguments[0])
    return run(launched(what, dtype), 32, *arguments, grid=grid, checkers=["bounds"], **options).counters


@pytest.mark.parametrize("name", MEASURED)
def test_an_atomic_takes_the_wavefronts_that_an_h100_counts(name):
    """Loads included, of those that are loops of a load and a compare-and-swap."""
    _, dtype, service = MEASURED[name]
    size = np.dtype(dtype).itemsize
    for row, at, mask in zip(rows(), *patterns(), strict=True):
        offsets = {lane: int(at[lane]) * size for lane in range(32) if mask >> lane & 1}
        assert wavefronts(offsets, size, service, ARCHS["sm_90"].costs)[0] == int(row[name]), row


@pytest.mark.parametrize("name", MEASURED)
def test_the_engines_count_them_in_a_launch(run, name):
    what, dtype, _ = MEASURED[name]
    at, mask = patterns()
    inside = at.max(axis=1) < 2048
    found = counters(run, what, dtype, at[inside], mask[inside])
    measured = np.array([int(row[name]) for row in rows()])
    assert found.shared_atomic_wavefronts == measured[inside].sum()
    assert found.uncounted_atomics == 0


def test_at_best_each_pass_serves_all_its_lanes(run):
    ideal = {"add.u32": 1, "increment.u32": 1, "cas.u32": 2, "exch.u64": 2, "cas.u64": 4, "add.f32": 3, "add.f64": 6}
    for name, wanted in ideal.items():
        what, dtype, _ = MEASURED[name]
        found = counters(run, what, dtype, LANE, FULL)
        assert (found.shared_atomic_wavefronts, found.ideal_shared_atomic_wavefronts) == (wanted, wanted), name
        assert found.bank_conflicts == 0


@pytest.mark.parametrize(("dtype", "arch"), [(np.int64, "sm_90"), (np.float32, "sm_90"), (np.int32, "sm_80")])
def test_what_no_rule_tells_is_said_to_be_uncounted(run, dtype, arch):
    found = counters(run, smallest, dtype, LANE * 0, FULL, arch=arch)
    assert (found.shared_atomic_wavefronts, found.uncounted_atomics) == (0, 1)


def test_an_uncounted_atomic_is_in_the_summary():
    arguments = (LANE[None] * 0, np.array([FULL]), np.zeros(32, np.float32))
    report = wsemu.check(launched(smallest, np.float32), 1, 32, arguments, checkers=["bounds"])
    assert "accesses, 1 shared atomic whose conflicts are not counted" in " ".join(render(report).split())


def test_values_decide_only_where_the_service_is_unknown() -> None:
    unknown = {name for name, service in SERVICE.items() if service == UNCOUNTED}
    assert unknown == {
        *(f"atom.{what}.{s}64" for what in ("min", "max") for s in "su"),
        *(f"atom.{what}.b64" for what in ("and", "or", "xor")),
        *(f"atom.{narrow}" for narrow in NARROW_ATOMICS),
        *(f"atom.{what}.u64" for what in ("inc", "dec")),
        *(f"atom.{what}.f{bits}" for what in ("min", "max", "nanmin", "nanmax") for bits in (32, 64)),
        *HALVES,
    }


# -- findings ---------------------------------------------------------------------------------------------------------


@cuda.jit
def histogram(values, counts):
    bins = cuda.shared.array(64, np.int32)
    t = cuda.threadIdx.x
    bins[t] = 0
    bins[t + 32] = 0
    cuda.syncwarp()
    old = cuda.atomic.add(bins, values[t], 1)
    cuda.syncwarp()
    counts[t] = bins[t] + (old >= 0)


def test_a_histogram_of_one_value_is_told_its_conflicts(run, line):
    report = run(histogram, 32, LANE * 0 + 7, np.zeros(32, np.int64))
    (found,) = [finding for finding in report.findings if finding.code == "bank-conflict"]
    assert found.message == "32-way bank conflict on shared atomic of `bins`"
    assert found.sites[0].line == line(histogram, "cuda.atomic.add")
    assert "request one word of bank 7: atomics are served one lane of a bank at a time" in found.sites[0].text
    assert found.help.startswith("combine the values of a warp first")
    assert report.counters.bank_conflicts == 31


@cuda.jit
def columns(sums, wide):
    tile = cuda.shared.array((32, 32), np.int32)
    t = cuda.threadIdx.x
    for k in range(32):
        tile[k, t] = 0
    cuda.syncwarp()
    old = cuda.atomic.max(tile[t], 3, t)
    sums[t] = old


def test_a_padding_is_told_where_lanes_want_words_of_their_own(run):
    report = run(columns, 32, np.zeros(32, np.int32), 0)
    (found,) = [finding for finding in report.findings if finding.code == "bank-conflict"]
    assert "32 words of bank 3" in found.sites[0].text
    assert "pad the row: `(32, 33)`" in found.help


# -- PTX --------------------------------------------------------------------------------------------------------------

PTX = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out)
{{
  .reg .b32 %r<9>; .reg .b64 %d<9>; .reg .f32 %f<9>;
  .shared .align 8 .b8 tile[512];
  mov.u32 %r1, %tid.x;
  shl.b32 %r2, %r1, 3;
  mov.u32 %r3, tile;
  shr.u32 %r5, %r1, 5;
  add.u32 %r5, %r5, %r3;
  add.u32 %r2, %r2, %r3;
  mov.b64 %d1, 0;
  st.shared.b64 [%r2], %d1;
  bar.warp.sync 0xffffffff;
  {what}
  ld.param.u64 %d2, [out];
  mul.wide.u32 %d3, %r1, 4;
  add.u64 %d2, %d2, %d3;
  st.global.u32 [%d2], %r1;
  ret;
}}
"""


@pytest.mark.parametrize(
    ("what", "cost"),
    [
        # %r5: one word, which the compiler does not know; %r3: one word, which it does
        ("atom.shared.add.u32 %r4, [%r5], 1;", 1),  # counted by the compiler: the result is not used
        ("red.shared.add.u32 [%r5], 1;", 1),
        ("red.shared.add.u32 [%r5], 2;", 32),
        ("atom.shared.add.u32 %r1, [%r5], 1;", 32),  # its result is stored
        ("red.shared.max.s32 [%r2], %r1;", 2),  # eight bytes apart
        ("atom.shared.cas.b32 %r4, [%r3], 0, 1;", 64),
        ("red.shared.add.f32 [%r3], 0f3F800000;", 96),
        ("ld.relaxed.cta.shared.u32 %r4, [%r3];", 1),  # as every load
        ("st.relaxed.cta.shared.u32 [%r2], %r1;", 2),
        ("red.shared.add.u32 [%r3], %r1;", 1),  # summed in the warp
        ("atom.shared.max.s32 %r4, [%r3], %r1;", 1),
        ("red.shared.xor.b32 [%r3], %r1;", 1),
        ("atom.shared.add.u32 %r1, [%r3], 2;", 1),
        ("atom.shared.max.s32 %r1, [%r3], 2;", 32),
        ("red.shared.inc.u32 [%r3], %r1;", 32),
        ("atom.shared.exch.b32 %r4, [%r3], %r1;", 32),
        ("ld.shared.u32 %r6, [%r3]; add.u32 %r6, %r6, %r3; red.shared.add.u32 [%r6], %r1;", 1),
        ("mov.u32 %r6, %ctaid.x; add.u32 %r6, %r6, %r3; red.shared.add.u32 [%r6], %r1;", 1),
    ],
)
def test_ptx_is_counted_alike(run, what, cost):
    kernel = wsemu.load_ptx(PTX.format(what=what))["k"]
    counters = run(kernel, 32, np.zeros(32, np.uint32), checkers=["bounds"]).counters
    assert (counters.shared_atomic_wavefronts, counters.uncounted_atomics) == (cost, 0)


def test_an_add_whose_values_differ_asks_first_and_is_not_counted(run):
    kernel = wsemu.load_ptx(PTX.format(what="atom.shared.add.u32 %r1, [%r3], %r1;"))["k"]
    counters = run(kernel, 32, np.zeros(32, np.uint32), checkers=["bounds"]).counters
    assert (counters.shared_atomic_wavefronts, counters.uncounted_atomics) == (0, 1)


@cuda.jit
def one_word_in_a_loop(n, y):
    total = cuda.shared.array(8, np.int32)
    lane = cuda.threadIdx.x
    if lane < 8:
        total[lane] = 0
    cuda.syncwarp()
    for k in range(n):
        cuda.atomic.add(total, k, lane)
    cuda.syncwarp()
    y[lane] = total[lane % 8]


@cuda.jit
def one_word_in_a_branch(n, y):
    total = cuda.shared.array(8, np.int32)
    lane = cuda.threadIdx.x
    if lane < 8:
        total[lane] = 0
    cuda.syncwarp()
    k = 0
    if lane < 40:
        k = 1
    cuda.atomic.add(total, k, lane)
    cuda.syncwarp()
    y[lane] = total[lane % 8]


@pytest.mark.parametrize(("kernel", "cost"), [(one_word_in_a_loop, 3), (one_word_in_a_branch, 32)])
def test_the_compiler_knows_one_address_by_how_control_comes_to_it(run, kernel, cost):
    counters = run(kernel, 32, 3, np.zeros(32, np.int32)).counters
    assert counters.shared_atomic_wavefronts == cost
