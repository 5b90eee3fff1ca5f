"""What a GPU programmer reads: findings made from raw data and traces, as text."""

from __future__ import annotations

import runpy
from typing import Any

import numpy as np
import pytest

from wsemu.checkers import barrier_misuse, bounds, deadlock, initialised, intra_warp, race, recycling
from wsemu.evidence.places import Places
from wsemu.evidence.source_view import Loop, SourceView, iteration, ordinal
from wsemu.launch.binding import bind
from wsemu.launch.compiled import compile_for_types
from wsemu.model.finding import Finding
from wsemu.model.isa import ATOMIC, NAMES, READ, SEGMENT_SHIFT, SHARED, WRITE
from wsemu.model.outcome import BarrierState, Event, Outcome, RawFinding, Trace, WarpState
from wsemu.model.program import Span
from wsemu.model.settings import Settings
from wsemu.report.terminal import render_finding

TILE = SHARED << SEGMENT_SHIFT
"""address of the first shared array"""
GLOBAL = 3 << SEGMENT_SHIFT
"""address of the first argument that is an array"""
ALL = 0xFFFFFFFF


class Launch:
    """A kernel in a file of its own, compiled for arguments; instructions are found by line and kind."""

    def __init__(self, file: Any, grid: Any = (1, 1, 1), block: Any = (64, 1, 1)) -> None:
        self.file, self.grid, self.block = file, grid, block

    def compile(self, source: str, *arguments: Any, outcome: Outcome | None = None) -> Places:
        self.file.write_text("import numpy as np\nfrom wsemu import cuda, ptx\n" + source, encoding="utf-8")
        kernel = runpy.run_path(str(self.file))["kernel"]
        program, names, _ = compile_for_types(kernel, arguments, True)
        _, _, arrays = bind(program, arguments, names)
        self.places = Places(program, self.grid, self.block, outcome or Outcome("done"), arrays)
        return self.places

    def pc(self, line: int, operation: str = "", column: int | None = None) -> int:
        """The instruction of a line whose name begins so; that of a barrier, load, store or atomic if no name is
        given."""
        wanted = operation or ("bar", "ld", "st", "atom")
        for pc in range(len(self.places.program.code)):
            span = self.places.span(pc)
            name = NAMES[int(self.places.program.code[pc, 0])]
            if span.line == line and name.startswith(wanted) and column in (None, span.column):
                return pc
        raise AssertionError(f"no {operation} on line {line}")

    def arrive(self, warp: int, interval: int, line: int, barrier: int, generation: int) -> Event:
        return Event("arrive", 0, warp, interval, self.pc(line, "bar"), barrier, generation)

    def sync(self, *fields: int) -> Event:
        return self.arrive(*fields)._replace(kind="sync")

    def complete(self, *fields: int) -> Event:
        return self.arrive(*fields)._replace(kind="complete")

    def access(self, warp: int, interval: int, pc: int, address: int = TILE, cta: int = 0) -> Event:
        return Event("access", cta, warp, interval, pc, address)

    def race(
        self, first: tuple[int, int, int, int], second: tuple[int, int, int, int], address: int = TILE, **fields: int
    ) -> RawFinding:
        """A race of accesses (pc, warp, interval, kind), the earlier one first."""
        detail = {
            "address": address, "size": 4, "kind": second[3], "other_kind": first[3], "interval": second[2],
            "other_interval": first[2], "other_cta": 0,
        }  # fmt: skip
        detail |= {name: value for name, value in fields.items() if name in ("other_cta", "other_lane", "other_last")}
        lanes, cta = fields.get("lanes", ALL), fields.get("cta", 0)
        code = "intra-warp-race" if "other_lane" in fields else "race"
        return RawFinding(code, second[0], cta, second[1], lanes, first[0], first[1], detail, fields.get("count", 1))


@pytest.fixture
def launch(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Launch(tmp_path / "kernel.py")


def text(finding: Finding) -> str:
    """The diagnostic, after a round trip through JSON."""
    assert Finding.model_validate_json(finding.model_dump_json()) == finding
    return render_finding(finding) + "\n"


# -- races -----------------------------------------------------------------------------------------------------------
NO_EMPTY_WAIT = """\
@cuda.jit
def kernel(x, y):
    tile = cuda.shared.array(32, np.float32)
    lane = cuda.threadIdx.x % 32
    if cuda.threadIdx.x >= 32:
        for i in range(4):
            tile[lane] = x[i * 32 + lane]
            ptx.bar_arrive(2, 64)
    else:
        total = np.float32(0)
        for i in range(4):
            ptx.bar_sync(2, 64)
            total += tile[lane]
        y[lane] = total
"""


def no_empty_wait(launch: Launch) -> tuple[Places, int, int, Trace]:
    """A producer that does not wait for its consumer: the store, the load, and the trace up to the second store."""
    places = launch.compile(NO_EMPTY_WAIT, np.zeros(128, np.float32), np.zeros(32, np.float32))
    store, load = launch.pc(9, "st"), launch.pc(15, "ld")
    events = [
        launch.sync(0, 1, 14, 2, 0),
        launch.access(1, 1, store), launch.arrive(1, 1, 10, 2, 0), launch.complete(1, 1, 10, 2, 0),
        launch.access(0, 2, load),
        launch.sync(0, 2, 14, 2, 1),
        launch.access(1, 2, store), launch.arrive(1, 2, 10, 2, 1), launch.complete(1, 2, 10, 2, 1),
    ]  # fmt: skip
    return places, store, load, Trace(events)


def test_a_store_before_the_load_is_done(launch):
    places, store, load, trace = no_empty_wait(launch)
    raw = launch.race((load, 0, 2, READ), (store, 1, 2, WRITE), count=3)
    assert (
        text(race.explain(raw, places, trace))
        == """\
error[race]: write-after-read hazard on shared `tile[lane]`
  --> kernel.py:9:13
   |
 9 |             tile[lane] = x[i * 32 + lane]
   |             ^^^^^^^^^^ (2) stored by warp 1, i=1
...
15 |             total += tile[lane]
   |                      ---------- (1) loaded by warp 0, i=0
   |
   = note: 32 lanes, same words as (1), the first at `tile[0]`; nothing orders
           (1) and (2)
   = note: last synchronization warp 1 -> warp 0: barrier 2 generation 0 (line
           10 -> 14); none in the other direction
   = note: after (1), warp 0 syncs on barrier 2 generation 1 (line 14), on which
           warp 1 does not sync
   = note: seen 3 times; this is the first
   = hint: warp 0: arrive on an empty-buffer barrier after line 15; warp 1: sync
           on it before line 9
   = schedule:
       1 warp 0  sync   barrier 2 gen 0  :14  32/64
       2 warp 1  store  tile[lane]       :9   i=0
       3 warp 1  arrive barrier 2 gen 0  :10  64/64 complete
       4 warp 1  store  tile[lane]       :9   i=1  (2)
       5 warp 0  load   tile[lane]       :15  i=0  (1)
   = run `wsemu explain race` for more
"""
    )


def test_a_load_after_the_next_store_needs_an_empty_buffer_too(launch):
    places, store, load, _ = no_empty_wait(launch)
    events = [
        launch.sync(0, 1, 14, 2, 0),
        launch.access(1, 1, store), launch.arrive(1, 1, 10, 2, 0), launch.complete(1, 1, 10, 2, 0),
        launch.access(1, 2, store), launch.arrive(1, 2, 10, 2, 1),
        launch.access(0, 2, load),
    ]  # fmt: skip
    found = race.explain(launch.race((store, 1, 2, WRITE), (load, 0, 2, READ)), places, Trace(events))
    assert found.message == "write-after-read hazard on shared `tile[lane]`"
    assert [site.text for site in found.sites] == ["(2) loaded by warp 0, i=0", "(1) stored by warp 1, i=1"]
    assert found.notes[1:] == [
        "last synchronization warp 1 -> warp 0: barrier 2 generation 0 (line 10 -> 14), before (1)",
        "after (1), warp 1 arrives on barrier 2 generation 1 (line 10), on which warp 0 does not sync",
        "(1) may overwrite the value of an earlier execution of (1) before warp 0 loads it",
    ]
    assert found.help == "warp 0: arrive on an empty-buffer barrier after line 15; warp 1: sync on it before line 9"


def test_without_a_trace_the_two_places_remain(launch):
    places, store, load, trace = no_empty_wait(launch)
    raw = launch.race((load, 0, 2, READ), (store, 1, 2, WRITE))
    found = race.explain(raw, places, None)
    assert [site.text for site in found.sites] == ["(2) stored by warp 1", "(1) loaded by warp 0"]
    assert [site.index for site in found.sites] == ["lane", "lane"]
    assert not found.schedule
    assert race.explain(raw, places, Trace(trace.events[:4], complete=False)) == found


def test_only_the_end_of_a_long_schedule_is_kept(launch):
    places, store, load, _ = no_empty_wait(launch)
    events = []
    for i in range(20):
        events += [launch.access(1, i + 1, store), launch.arrive(1, i + 1, 10, 2, i), launch.sync(0, i + 1, 14, 2, i)]
        events += [launch.complete(0, i + 1, 14, 2, i), launch.access(0, i + 2, load)]
    events.append(launch.access(1, 21, store))
    found = race.explain(launch.race((load, 0, 21, READ), (store, 1, 21, WRITE)), places, Trace(events))
    assert (len(found.schedule), found.schedule_steps) == (8, 40 + 20 + 19 + 2)
    assert found.schedule[-1] == "8 warp 0  load   tile[lane]        :15  i=19  (1)"
    assert "  = schedule (73 of 81 steps hidden):" in text(found)


SYNCTHREADS = """\
@cuda.jit
def kernel(n, x, y):
    tile = cuda.shared.array((2, 64), np.float32)
    t = cuda.threadIdx.x
    for i in range(0, n, 2):
        tile[1, t] = x[t]
        cuda.syncthreads()
        if i > 0:
            y[t] = tile[1, 63 - t]
"""


def test_a_loop_of_syncthreads(launch):
    places = launch.compile(SYNCTHREADS, 4, np.zeros(64, np.float32), np.zeros(64, np.float32))
    store, load = launch.pc(8, "st"), launch.pc(11, "ld")
    events = []
    for i in range(2):
        events += [launch.access(w, i + 1, store, TILE + 256 + 128 * w) for w in (0, 1)]
        events += [launch.sync(w, i + 1, 9, 0, i) for w in (0, 1)] + [launch.complete(1, i + 1, 9, 0, i)]
    events += [launch.access(1, 3, load, TILE + 256), launch.access(0, 3, store, TILE + 256)]
    raw = launch.race((load, 1, 3, READ), (store, 0, 3, WRITE), TILE + 256)
    assert (
        text(race.explain(raw, places, Trace(events)))
        == """\
error[race]: write-after-read hazard on shared `tile[1, t]`
  --> kernel.py:8:9
   |
 8 |         tile[1, t] = x[t]
   |         ^^^^^^^^^^ (2) stored by warp 0, i=4
...
11 |             y[t] = tile[1, 63 - t]
   |                    --------------- (1) loaded by warp 1
   |
   = note: 32 lanes, same words as (1), the first at `tile[1, 0]`; nothing
           orders (1) and (2)
   = note: last synchronization warp 1 -> warp 0: barrier 0 generation 1 (line
           9), before (1)
   = note: warp 1 executes no barrier after (1)
   = hint: add `cuda.syncthreads()` after line 11, where every thread passes,
           before line 8 runs again
   = schedule:
       1 warp 0  store tile[1, t]       :8   i=0
       2 warp 0  sync  barrier 0 gen 0  :9   32/64
       3 warp 1  sync  barrier 0 gen 0  :9   64/64 complete
       4 warp 0  store tile[1, t]       :8   i=2
       5 warp 0  sync  barrier 0 gen 1  :9   32/64
       6 warp 1  sync  barrier 0 gen 1  :9   64/64 complete
       7 warp 0  store tile[1, t]       :8   i=4  (2)
       8 warp 1  load  tile[1, 63 - t]  :11  (1)
   = run `wsemu explain race` for more
"""
    )


STATEMENTS = """\
@cuda.jit
def kernel(x, c):
    t = cuda.threadIdx.x
    x[t] = x[t + 32] + 1
    x[0] += 1
    ptx.st_v4(x, 4 * t, (1.0, 2.0, 3.0, 4.0))
    y = x[127]
    cuda.atomic.add(c, t, 1)
    c[t] = y
"""


def statements(launch: Launch, **options: Any) -> Places:
    launch.grid = options.pop("grid", (1, 1, 1))
    return launch.compile(STATEMENTS, np.zeros(256, np.float32), np.zeros(64, np.int32))


def test_ctas_are_named_where_they_differ(launch):
    places = statements(launch, grid=(2, 2, 1))
    store = launch.pc(6, "st")
    raw = launch.race((store, 0, 1, WRITE), (store, 0, 1, WRITE), GLOBAL + 12, other_cta=0, cta=3, lanes=8)
    events = [launch.access(0, 1, store, GLOBAL), launch.access(0, 1, store, GLOBAL, cta=3)]
    assert (
        text(race.explain(raw, places, Trace(events)))
        == """\
error[race]: write-after-write hazard on global `x[t]`
 --> kernel.py:6:5
  |
6 |     x[t] = x[t + 32] + 1
  |     ^^^^ (2) stored by warp 0 of CTA (1, 1, 0)
  |     ---- (1) stored by warp 0 of CTA (0, 0, 0)
  |
  = note: lane 3, same words as (1): `x[3]`; nothing orders (1) and (2)
  = hint: all CTAs store to the same elements: include `cuda.blockIdx` in the
          index, or store in one CTA only; otherwise use an atomic, or a second
          launch
  = schedule:
      1 CTA (1, 1, 0) warp 0  store x[t]  :6  (2)
      2 CTA (0, 0, 0) warp 0  store x[t]  :6  (1)
  = run `wsemu explain race` for more
"""
    )


def test_help_fits_the_statements(launch):
    places = statements(launch)

    def help_(first: tuple[int, int], second: tuple[int, int]) -> str:
        raw = launch.race((first[0], 0, 1, first[1]), (second[0], 1, 1, second[1]), GLOBAL)
        return race.explain(raw, places).help or ""

    load, store = (launch.pc(6, "ld"), READ), (launch.pc(6, "st"), WRITE)
    assert help_(load, store) == "keep the loaded value in a variable, add `cuda.syncthreads()` and store it after that"
    assert help_(store, store) == "give each warp its own element, store in one warp only, or use an atomic"
    update = [(launch.pc(7, "ld"), READ), (launch.pc(7, "st"), WRITE)]
    assert help_(*update) == "several warps update `x[0]`: use `cuda.atomic`, or do it in one warp only"
    forward = "add `cuda.syncthreads()` after line 6, where every thread passes, before line 9"
    assert help_(store, (launch.pc(9, "ld"), READ)) == forward
    assert help_((launch.pc(9, "ld"), READ), store) == forward  # no loop leads back: the store should come first


def test_widths_that_differ_are_told(launch):
    places = statements(launch)
    raw = launch.race((launch.pc(9, "ld"), 1, 1, READ), (launch.pc(8, "st"), 0, 1, WRITE), GLOBAL + 508, lanes=1 << 31)
    found = race.explain(raw, places)
    assert found.message == "read-after-write hazard on global `x[127]`"
    assert found.notes == [
        "lane 31, a 16-byte store overlaps a 4-byte load: `x[127]`; nothing orders (1) and (2)"
    ]  # fmt: skip


def test_an_atomic_and_a_plain_access(launch):
    places = statements(launch)
    atomic, store = launch.pc(10, "atom"), launch.pc(11, "st")
    raw = launch.race((atomic, 0, 1, ATOMIC), (store, 1, 1, WRITE), GLOBAL + (1 << SEGMENT_SHIFT))
    found = race.explain(raw, places, Trace([launch.access(0, 1, atomic), launch.access(1, 1, store)]))
    assert found.message == "unordered atomic and plain access to global `c[t]`"
    assert [site.text for site in found.sites] == ["(2) stored by warp 1", "(1) updated atomically by warp 0"]
    assert found.notes[1:] == ["no barrier separates them: warp 0 executes none after (1), warp 1 none before (2)"]
    assert found.help == "put a barrier before the store on line 11; or make it atomic, if the order does not matter"


def test_a_flag_without_fences(launch):
    places = statements(launch, grid=(2, 1, 1))
    store, load, flag = launch.pc(6, "st"), launch.pc(9, "ld"), launch.pc(10, "atom")
    events = [launch.access(0, 1, store, GLOBAL), Event("atomic", 0, 0, 1, flag, GLOBAL + 4)]
    events += [Event("atomic", 1, 0, 1, flag, GLOBAL + 4), launch.access(0, 1, load, GLOBAL, cta=1)]
    raw = launch.race((store, 0, 1, WRITE), (load, 0, 1, READ), GLOBAL, cta=1)
    assert (race.explain(raw, places, Trace(events)).help or "").startswith(
        "the atomic on line 10 orders nothing else: put a `cuda.threadfence()` before it and after it"
    )
    assert "nothing orders different CTAs" in (race.explain(raw, places, Trace(events[:1] + events[3:])).help or "")
    fences = [Event("fence.gpu", 0, 0, 1, flag), Event("fence.gpu", 1, 0, 1, flag)]
    for one, side in (
        (events[:1] + fences[:1] + events[1:], "after"),
        (events[:3] + fences[1:] + events[3:], "before"),
    ):
        assert (race.explain(raw, places, Trace(one)).help or "").startswith(
            f"the atomic on line 10 orders nothing else with only one fence: put a `cuda.threadfence()` {side} it, too"
        )


PATTERN = """\
from wsemu.patterns.base import CudaDMA
DMA = CudaDMA(1, 32, 32, 32)


@cuda.jit
def kernel(n, x, y):
    tile = cuda.shared.array(32, np.float32)
    t = cuda.threadIdx.x
    if t < 32:
        DMA.start_async_dma()
        for _ in range(n):
            DMA.wait_for_dma_finish()
            DMA.start_async_dma()
            y[t] = tile[t]
    else:
        DMA.wait_for_dma_start()
        for i in range(n):
            tile[t - 32] = x[i]
            DMA.finish_async_dma()
            DMA.wait_for_dma_start()
"""


def test_warps_of_a_transfer_pattern_have_roles(launch):
    places = launch.compile(PATTERN, 4, np.zeros(64, np.float32), np.zeros(64, np.float32))
    store, load = launch.pc(20, "st"), launch.pc(16, "ld")
    events = [
        launch.arrive(0, 1, 12, 3, 0), launch.sync(1, 1, 18, 3, 0), launch.complete(1, 1, 18, 3, 0),
        launch.sync(0, 2, 14, 2, 0),
        launch.access(1, 2, store), launch.arrive(1, 2, 21, 2, 0), launch.complete(1, 2, 21, 2, 0),
        launch.arrive(0, 3, 15, 3, 1), launch.access(0, 4, load),
        launch.sync(1, 3, 22, 3, 1), launch.complete(1, 3, 22, 3, 1), launch.access(1, 4, store),
    ]  # fmt: skip
    raw = launch.race((load, 0, 4, READ), (store, 1, 4, WRITE))
    assert (
        text(race.explain(raw, places, Trace(events)))
        == """\
error[race]: write-after-read hazard on shared `tile[t - 32]`
  --> kernel.py:20:13
   |
20 |             tile[t - 32] = x[i]
   |             ^^^^^^^^^^^^ (2) stored by warp 1 (DMA), i=1
...
16 |             y[t] = tile[t]
   |                    ------- (1) loaded by warp 0 (compute), 1st iteration
   |
   = note: 32 lanes, same words as (1), the first at `tile[0]`; nothing orders
           (1) and (2)
   = note: last synchronization warp 0 (compute) -> warp 1 (DMA): barrier 3
           generation 1 (line 15 -> 22), before (1)
   = note: warp 0 (compute) executes no barrier after (1)
   = hint: warp 0 (compute): `start_async_dma()` after line 16; warp 1 (DMA):
           `wait_for_dma_start()` before line 20
   = schedule (1 of 9 steps hidden):
       1 warp 1  sync   barrier 3 gen 0  :18  64/64 complete
       2 warp 0  sync   barrier 2 gen 0  :14  32/64
       3 warp 1  store  tile[t - 32]     :20  i=0
       4 warp 1  arrive barrier 2 gen 0  :21  64/64 complete
       5 warp 0  arrive barrier 3 gen 1  :15  32/64
       6 warp 1  sync   barrier 3 gen 1  :22  64/64 complete
       7 warp 1  store  tile[t - 32]     :20  i=1  (2)
       8 warp 0  load   tile[t]          :16  1st iteration  (1)
   = run `wsemu explain race` for more
"""
    )


# -- lanes of a warp -------------------------------------------------------------------------------------------------
LANES = """\
@cuda.jit
def kernel(x, y):
    tile = cuda.shared.array(32, np.float32)
    lane = cuda.threadIdx.x
    tile[lane] = x[lane]
    y[lane] = tile[(lane + 1) % 32]
    y[0] = lane
    tile[lane] = tile[31 - lane] + 1
"""


def test_two_lanes_without_syncwarp(launch):
    places = launch.compile(LANES, np.zeros(32, np.float32), np.zeros(32, np.float32))
    pair = (launch.pc(7, "st"), 0, 1, WRITE), (launch.pc(8, "ld"), 0, 1, READ)
    raw = launch.race(*pair, TILE + 4, other_lane=0, other_last=31)
    assert (
        text(intra_warp.explain(raw, places))
        == """\
error[intra-warp-race]: read-after-write hazard between lanes of a warp on
  shared `tile[(lane + 1) % 32]`
 --> kernel.py:8:15
  |
8 |     y[lane] = tile[(lane + 1) % 32]
  |               ^^^^^^^^^^^^^^^^^^^^^ (2) loaded by lanes 0-31 of warp 0
...
7 |     tile[lane] = x[lane]
  |     ---------- (1) stored by some of lanes 0-31 of warp 0
  |
  = note: 32 lanes, same words as (1), the first at `tile[1]`; no warp-level
          synchronization orders lanes 0-31 and some of lanes 0-31
  = note: lanes of a warp execute independently on sm_70 and later; use
          `--lockstep` (`lockstep=True`) for older GPUs
  = hint: add `cuda.syncwarp()` after line 7, where all lanes meet, before line
          8
  = run `wsemu explain intra-warp-race` for more
"""
    )


def test_one_statement_that_loads_and_stores(launch):
    places = launch.compile(LANES, np.zeros(32, np.float32), np.zeros(32, np.float32))
    pair = (launch.pc(10, "ld"), 0, 1, READ), (launch.pc(10, "st"), 0, 1, WRITE)
    raw = launch.race(*pair, other_lane=31, other_last=31, lanes=1)
    found = intra_warp.explain(raw, places, Trace())
    assert found.sites[1].text == "(1) loaded by lane 31 of warp 0"
    assert found.help == "keep the loaded value in a variable, add `cuda.syncwarp()` and store it after that"


def test_lanes_of_one_store(launch):
    places = launch.compile(LANES, np.zeros(32, np.float32), np.zeros(32, np.float32))
    detail = {"address": GLOBAL + (1 << SEGMENT_SHIFT), "other_lane": 31, "other_last": 31}
    raw = RawFinding("intra-warp-race", launch.pc(9, "st"), 0, 0, ALL >> 1, -1, 0, detail)
    found = intra_warp.explain(raw, places)
    assert found.message == "lanes of one store write different values to global `y[0]`"
    assert found.sites[0].text == "stored by lanes 0-31 of warp 0"
    assert found.notes == ["at `y[0]` lane 31's value stayed; the hardware leaves any of them"]


# -- recycled barriers -----------------------------------------------------------------------------------------------
RECYCLING = """\
@cuda.jit
def kernel(x):
    if cuda.threadIdx.x >= 64:
        ptx.bar_sync(1, 64)
        ptx.bar_arrive(0, 64)
    elif cuda.threadIdx.x >= 32:
        ptx.bar_sync(0, 64)
    else:
        ptx.bar_arrive(0, 64)
        ptx.bar_arrive(1, 64)
        ptx.bar_sync(0, 64)
"""


def test_an_arrive_that_can_take_another_warps_place(launch):
    launch.block = (96, 1, 1)
    places = launch.compile(RECYCLING, np.zeros(1))
    events = [
        launch.arrive(0, 1, 11, 0, 0), launch.arrive(0, 2, 12, 1, 0),
        launch.sync(1, 1, 9, 0, 0), launch.complete(1, 1, 9, 0, 0),
        launch.sync(0, 3, 13, 0, 1),
        launch.sync(2, 1, 6, 1, 0), launch.complete(2, 1, 6, 1, 0),
        launch.arrive(2, 2, 7, 0, 1), launch.complete(2, 2, 7, 0, 1),
    ]  # fmt: skip
    detail = {"barrier": 0, "generation": 0, "interval": 2, "other_interval": 1}
    raw = RawFinding("barrier-recycling", launch.pc(7), 0, 2, 0, launch.pc(9), 1, detail)
    assert (
        text(recycling.explain(raw, places, Trace(events)))
        == """\
error[barrier-recycling]: barrier 0: arrive of generation 1 can be counted into
  generation 0: warp 2 does not wait for warp 1
 --> kernel.py:7:9
  |
7 |         ptx.bar_arrive(0, 64)
  |         ^^^^^^^^^^^^^^^^^^^^^ (2) warp 2 arrives, generation 1
9 |         ptx.bar_sync(0, 64)
  |         ------------------- (1) warp 1 syncs, generation 0
  |
  = note: nothing orders (1) before (2): if warp 1 is late at line 9, the arrive
          of warp 2 on line 7 is counted into generation 0 in its place
  = note: generation 0 then completes without warp 1, whose sync comes too late
  = hint: let warp 2 wait for warp 1 on a second barrier before line 7 (full and
          empty), or alternate between two barrier ids, or sync both warps in
          between
  = schedule (1 of 5 steps hidden):
      1 warp 0  arrive barrier 0 gen 0  :11  32/64
      2 warp 2  sync   barrier 1 gen 0  :6   64/64 complete
      3 warp 2  arrive barrier 0 gen 0  :7   64/64 complete  (2)
      4 warp 1  sync   barrier 0 gen 1  :9   (1) late
  = run `wsemu explain barrier-recycling` for more
"""
    )
    without = recycling.explain(raw, places, Trace(events[:3], complete=False))
    assert without == recycling.explain(raw, places)
    assert not without.schedule


# -- the other checkers ----------------------------------------------------------------------------------------------
def test_a_deadlock_names_its_cta(launch):
    states = [WarpState(0, 0, ALL, 2)], [BarrierState(2, 0, 32, 64, [0])]
    outcome = Outcome("deadlock", cta=5, warps=states[0], barriers=states[1])
    launch.grid = (4, 2, 1)
    places = launch.compile(NO_EMPTY_WAIT, np.zeros(128, np.float32), np.zeros(32, np.float32), outcome=outcome)
    states[0][0].pc = launch.pc(14)
    found = deadlock.examine(places, Settings(), lambda accesses, cta=None: Trace())[0]
    assert (
        found.message
        == "barrier 2 generation 0 is missing 32 of 64 threads of CTA (1, 1, 0): all warps of the CTA participate "
        "already"
    )


MEMORY = """\
@cuda.jit
def kernel(x, y, i, j):
    tile = cuda.shared.array((2, 32), np.float32)
    own = cuda.local.array(4, np.float32)
    k = 4 + i
    y[i, j] = x[j] + own[i] + tile[1, k]
    y[2, j] = x[7]
    a, b, c, d = ptx.ld_v4(x, i)
    y[0, 0] = a + b + c + d
"""


@pytest.mark.parametrize(
    ("line", "column", "index", "label", "help_"),
    [
        (8, 4, 4, "index 4 on axis 0 of shape (4, 8)", "guard the access: `if i < y.shape[0]:`"),
        (8, 4, 9, "index 9 of shape (4, 8)", "guard the access: `if i < y.shape[0] and j < y.shape[1]:`"),
        (8, 4, -5, "index -5 on axis 0 of shape (4, 8)", "guard the access: `if i >= 0:`"),
        (8, 30, 32, "index 32 on axis 1 of shape (2, 32)", "guard the access: `if k < tile.shape[1]:`"),
        (9, 4, 8, "index 8 on axis 1 of shape (4, 8)", "guard the access: `if j < y.shape[1]:`"),
        (9, 14, 7, "index 7 of 6 elements", "use an index below 6, or make the array larger"),
    ],
)
def test_the_axis_at_fault_is_named(launch, line, column, index, label, help_):
    places = launch.compile(MEMORY, np.zeros(6, np.float32), np.zeros((4, 8), np.float32), 1, 1)
    pc = launch.pc(line, ("ld", "st"), column)
    detail = {"index": index, "size": 4, "segment": 0, "bytes": 0, "wrapped": 0, "readonly": 0}
    found = bounds.explain(RawFinding("out-of-bounds", pc, 0, 0, 1, detail=detail), places)
    assert found.message.startswith(f"index {index} lies outside `")
    assert found.sites[0].text.endswith(f"by warp 0, lane 0: {label}")
    assert found.help == help_


def test_a_vector_over_the_end_gets_a_guard_for_its_length(launch):
    places = launch.compile(MEMORY, np.zeros(6, np.float32), np.zeros((4, 8), np.float32), 1, 1)
    detail = {"address": GLOBAL + 16, "size": 16, "segment": 3, "bytes": 24, "wrapped": 0, "readonly": 0}
    found = bounds.explain(RawFinding("out-of-bounds", launch.pc(10, "ld"), 0, 0, 1, detail=detail), places)
    assert found.help == "guard the access: `if i + 4 <= x.shape[0]:`"


def test_unwritten_memory_is_explained_by_its_kind(launch):
    places = launch.compile(MEMORY, np.zeros(6, np.float32), np.zeros((4, 8), np.float32), 1, 1)

    def found(column: int, segment: int) -> Finding:
        detail = {"address": segment << SEGMENT_SHIFT, "size": 4, "segment": segment}
        return initialised.explain(
            RawFinding("uninitialized-read", launch.pc(8, "ld", column), 0, 0, 1, detail=detail), places
        )

    shared, local, array = found(30, 1), found(21, 2), found(14, 3)
    assert "barrier" in (shared.help or "")
    assert local.message == "local `own` is read before it is written"
    assert local.help == "assign `own[0]` in this thread before it is read, on every path that leads here"
    assert array.notes == ["nothing has written to `x` before this launch; its old contents were read here"]
    assert "or fill the array before it" in (array.help or "")


def test_a_launch_of_many_ctas_names_the_one(launch):
    launch.grid = (8, 1, 1)
    places = launch.compile(NO_EMPTY_WAIT, np.zeros(128, np.float32), np.zeros(32, np.float32))
    raw = RawFinding("invalid-barrier", launch.pc(10), 3, 1, detail={"barrier": 2, "count": 48, "kind": 1})
    assert barrier_misuse.explain(raw, places).sites[0].text == "executed by warp 1 of CTA (3, 0, 0)"


# -- what the source says --------------------------------------------------------------------------------------------
LOOPS = """\
N = 4
def kernel(x, n):
    M = N * 2
    for i in range(n):
        a(i)
        for j in range(1, M, 3):
            b(j)
    for k in range(n, 0, -1):
        c(k)
        if k:
            d(k)
    for p in range(5):
        if p:
            break
        e(p)
    for q in (1, 2):
        f(q)
    while n:
        for r in range(2):
            g(r)
    for _ in range(3, 9, N):
        h(0)
    for s in range(4):
        s += 1
        m(s)
    for t in range(-N, x):
        o(t) if t else 0
"""


def loops_at(call: str) -> list[Loop] | None:
    number = next(n for n, line in enumerate(LOOPS.splitlines(), 1) if line.strip().startswith(f"{call}("))
    column = LOOPS.splitlines()[number - 1].index(call)
    return SourceView(LOOPS).loops(Span("", number, column, number, column + 4))


def test_loops_that_decide_the_iteration():
    assert loops_at("a") == [Loop("i", 0, 1, None)]
    assert loops_at("b") == [Loop("i", 0, 1, None), Loop("j", 1, 3, 3)]
    assert loops_at("c") == [Loop("k", None, -1, None)]
    assert loops_at("h") == [Loop("", 3, 4, 2)]
    assert loops_at("m") == [Loop("", 0, 1, 4)]


@pytest.mark.parametrize("call", ["d", "e", "f", "g", "o"])
def test_a_statement_that_need_not_run_once_in_each_iteration(call):
    assert loops_at(call) is None


def test_iterations():
    assert iteration(loops_at("a") or [], 3) == "i=3"
    assert iteration(loops_at("b") or [], 7) == "i=2, j=4"
    assert iteration(loops_at("c") or [], 1) == "2nd iteration"
    assert iteration(loops_at("h") or [], 10) == "11th iteration"
    assert iteration([], 0) == ""
    assert [ordinal(n) for n in (0, 1, 2, 3, 20, 111)] == ["1st", "2nd", "3rd", "4th", "21st", "112th"]


def test_a_source_that_cannot_be_read_says_nothing():
    view = SourceView("def kernel(:")
    span = Span("", 1, 0, 1, 3)
    assert (view.access(span), view.loops(span), view.function(span), view.statement(span)) == ("", None, "", None)
