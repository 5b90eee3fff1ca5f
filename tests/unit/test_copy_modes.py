"""Tensor copies of four rows (gather4, scatter4) or of pixels (im2col, im2col::w), in both engines, against lists.

An H200 agrees with the walk of pixels in 2,000 random loads.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest

import wsemu
from wsemu.model.tensor_map import LINE, LONG_LINE, Im2col, MapFields, TensorMap, refuse_pixels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wsemu.model.settings import Engine

ENGINES = pytest.mark.parametrize("engine", ["vm", "reference"])
HEAD = """
.version 8.7
.target sm_100a
.address_size 64
.visible .entry k(.param .align 64 .b8 map[128], .param .u64 out)
{
  .reg .pred %p<3>; .reg .b16 %h<8>; .reg .b32 %r<16>; .reg .b64 %rd<8>;
  .shared .align 1024 .b8 tile[16384];
  .shared .align 8 .b64 bar;
  ld.param.u64 %rd1, [out];
  mov.b64 %rd2, map; cvta.param.u64 %rd2, %rd2;
  mov.u32 %r1, %tid.x; mov.u32 %r2, tile; mov.u32 %r3, bar;
  setp.ne.u32 %p1, %r1, 0;
"""
LOAD = """
  @%p1 bra READY;
  mbarrier.init.shared::cta.b64 [%r3], 1;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], BYTES;
  COPY
READY:
  bar.sync 0;
WAIT:
  mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0;
  @!%p2 bra WAIT;
LOOP:
  shl.b32 %r4, %r1, 2;
  setp.ge.u32 %p2, %r4, BYTES;
  @%p2 bra DONE;
  add.u32 %r5, %r2, %r4;
  ld.shared.b32 %r6, [%r5];
  cvt.u64.u32 %rd3, %r4; add.u64 %rd3, %rd1, %rd3;
  st.global.b32 [%rd3], %r6;
  add.u32 %r1, %r1, 64;
  bra LOOP;
DONE:
  ret;
}
"""
STORE = """
  mov.u32 %r4, %r1;
FILL:
  setp.ge.u32 %p2, %r4, 256;
  @%p2 bra FILLED;
  mad.lo.u32 %r5, %r4, 4, %r2;
  add.u32 %r6, %r4, 1000;
  st.shared.b32 [%r5], %r6;
  add.u32 %r4, %r4, 64;
  bra FILL;
FILLED:
  fence.proxy.async.shared::cta;
  bar.sync 0;
  @%p1 bra DONE;
  COPY
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group 0;
DONE:
  ret;
}
"""


def load(copy: str, bytes_: int, map_: TensorMap, engine: Engine) -> tuple[Any, wsemu.Report]:
    """Return the words that a copy leaves in shared memory."""
    text = HEAD + LOAD.replace("BYTES", str(bytes_)).replace("COPY", copy)
    out = np.zeros(bytes_ // 4, np.uint32)
    report = wsemu.check(wsemu.load_ptx(text)["k"], 1, 64, (map_, out), engine=engine)
    return out, report


def listed(numbers: Sequence[object]) -> str:
    return "{" + ", ".join(map(str, numbers)) + "}"


@ENGINES
@pytest.mark.parametrize("seed", range(4))
def test_four_rows_are_copied(seed: int, engine: Engine):
    g = random.Random(seed)
    array = np.arange(1, 24 * 40 + 1, dtype=np.uint32).reshape(24, 40)
    width = g.choice((8, 16, 32))
    map_ = TensorMap(array, (1, width))
    x, rows = 4 * g.randint(-1, 9), [g.choice((-1, 24, *range(24))) for _ in range(4)]
    copy = (
        "cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes "
        f"[%r2], [%rd2, {listed([x, *rows])}], [%r3];"
    )
    out, report = load(copy, 16 * width, map_, engine)
    assert report.verdict == "verified", report.notes
    inside = [[0 <= y < 24 and 0 <= x + n < 40 for n in range(width)] for y in rows]
    wanted = [
        [array[y, x + n] if there else 0 for n, there in enumerate(some)] for y, some in zip(rows, inside, strict=True)
    ]
    assert out.reshape(4, width).tolist() == np.array(wanted).tolist()


@ENGINES
def test_four_rows_are_stored(engine: Engine):
    array = np.zeros((24, 40), np.uint32)
    map_ = TensorMap(array, (1, 16))
    rows = [3, 24, 9, 0]
    copy = f"cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group [%rd2, {listed([32, *rows])}], [%r2];"
    text = HEAD + STORE.replace("COPY", copy)
    report = wsemu.check(wsemu.load_ptx(text)["k"], 1, 64, (map_, np.zeros(1, np.uint32)), engine=engine)
    assert report.verdict == "verified", report.notes
    wanted = np.zeros((24, 40), np.uint32)
    for n, y in enumerate(rows):
        if y < 24:
            wanted[y, 32:40] = 1000 + 16 * n + np.arange(8)
    assert (array == wanted).all()


@ENGINES
def test_rows_that_are_stored_twice_are_a_race(engine: Engine):
    array = np.zeros((24, 40), np.uint32)
    first, second = (
        f"cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group [%rd2, {listed([0, *rows])}], [%r2];"
        for rows in ((1, 2, 3, 4), (8, 9, 2, 11))
    )
    text = HEAD + STORE.replace("COPY", first + second)
    report = wsemu.check(
        wsemu.load_ptx(text)["k"], 1, 64, (TensorMap(array, (1, 16)), np.zeros(1, np.uint32)), engine=engine
    )
    assert [finding.code for finding in report.findings] == ["race"]


@ENGINES
@pytest.mark.parametrize(("operand", "box", "told"), [
    ("{0, 0, 0, 0, -1}", (1, 16), "tensor-map"), ("{0, 0, 0, 0, 0}", (2, 16), ""),
])  # fmt: skip
def test_a_store_of_rows_that_cannot_be_made(operand: str, box: tuple[int, int], told: str, engine: Engine):
    copy = f"cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group [%rd2, {operand}], [%r2];"
    map_ = TensorMap(np.zeros((24, 40), np.uint32), box)
    text = HEAD + STORE.replace("COPY", copy)
    report = wsemu.check(wsemu.load_ptx(text)["k"], 1, 64, (map_, np.zeros(1, np.uint32)), engine=engine)
    assert [finding.code for finding in report.findings] == [told] * bool(told)
    assert report.verdict == ("failed" if told else "incomplete")


@ENGINES
@pytest.mark.parametrize("wide", [False, True])
def test_a_swizzle_may_move_32_bytes_at_once(wide: bool, engine: Engine):
    array = np.arange(64 * 32, dtype=np.uint32).reshape(64, 32)
    fields = TensorMap(array, (16, 32), swizzle="128B").fields._replace(wide=wide)
    copy = "cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%r2], [%rd2, {0, 3}], [%r3];"
    out, report = load(copy, 2048, TensorMap.of(array, fields), engine)
    assert report.verdict == "verified", report.notes
    at = np.arange(512) * 4
    moved = at ^ ((at >> 7 & 3) << 5 if wide else (at >> 7 & 7) << 4)
    assert (out[moved // 4] == array[3:19].ravel()).all()


# -- pixels ------------------------------------------------------------------------------------------------------------


def random_pixels(g: random.Random) -> tuple[MapFields, list[int], list[int]]:
    """A map of im2col mode of words, and coordinates and offsets of a copy."""
    while True:
        rank = g.randint(3, 5)
        spatial = rank - 2
        extents = [4 * g.randint(1, 4), *(g.randint(1, 6) for _ in range(spatial)), g.randint(1, 3)]
        strides, reach = [], 4
        for extent in extents[:-1]:
            reach *= extent
            strides.append(reach)
        steps = (1, *(g.choice((1, 1, 2, 3)) for _ in range(spatial)), 1)
        lower, upper = (tuple(g.randint(-2, 1) for _ in range(spatial)) for _ in range(2))
        im2col = Im2col(lower, upper, 4 * g.randint(1, extents[0] // 4), g.randint(1, 24))
        swizzle = {8: 1, 16: 2}.get(im2col.channels, 0) * g.randint(0, 1)
        fields = MapFields("u32", 0, tuple(extents), tuple(strides), (), steps, 0, swizzle, im2col=im2col)
        if refuse_pixels(fields):
            continue
        at = [4 * g.randint(-1, extents[0] // 4)]
        for low, high, extent, step in zip(lower, upper, extents[1:], steps[1:], strict=False):
            at.append(g.choice(range(low, extent + high, step)))
        return fields, [*at, g.randint(-1, extents[-1])], [g.randint(0, 3) for _ in range(spatial)]


def walk(array: Any, fields: MapFields, at: list[int], offsets: list[int]) -> Any:
    """The words of the pixels, one after the other."""
    assert fields.im2col is not None
    place, found = at[1:], []
    for _ in range(fields.im2col.pixels):
        index = [*(x + offset for x, offset in zip(place, offsets, strict=False)), place[-1]]
        inside = all(0 <= x < extent for x, extent in zip(index, fields.extents[1:], strict=True))
        channels = range(at[0], at[0] + fields.im2col.channels)
        found.append([array[(*index[::-1], c)] if inside and 0 <= c < fields.extents[0] else 0 for c in channels])
        for n, (low, high) in enumerate(zip(fields.im2col.lower, fields.im2col.upper, strict=True)):
            place[n] += fields.steps[n + 1]
            if place[n] <= fields.extents[n + 1] - 1 + high:
                break
            place[n] = low
        else:
            place[-1] += 1
    return np.array(found, np.uint32)


def unswizzle(words: Any, fields: MapFields, rows: int) -> Any:
    """The words of a tile as rows."""
    assert fields.im2col is not None
    found = []
    for row in range(rows):
        line = []
        for n in range(fields.im2col.channels):
            address = row * fields.pitch + 4 * n
            address ^= (address >> 7 & (1 << fields.swizzle) - 1) << 4
            line.append(words[address // 4])
        found.append(line)
    return np.array(found, np.uint32)


@ENGINES
@pytest.mark.parametrize("seed", range(24))
def test_pixels_are_those_of_the_walk(seed: int, engine: Engine):
    fields, at, offsets = random_pixels(random.Random(seed))
    array = np.arange(1, np.prod(fields.extents) + 1, dtype=np.uint32).reshape(fields.extents[::-1])
    halves = "".join(f"mov.u16 %h{n}, {offset}; " for n, offset in enumerate(offsets))
    copy = (
        f"{halves}cp.async.bulk.tensor.{fields.rank}d.shared::cta.global.im2col.mbarrier::complete_tx::bytes "
        f"[%r2], [%rd2, {listed(at)}], [%r3], {listed([f'%h{n}' for n in range(len(offsets))])};"
    )
    assert fields.im2col is not None
    size = fields.row_bytes * fields.im2col.pixels
    out, report = load(copy, size, TensorMap.of(array, fields), engine)
    assert report.verdict == "verified", report.notes
    assert (unswizzle(out, fields, fields.im2col.pixels) == walk(array, fields, at, offsets)).all()


@ENGINES
def test_pixels_are_stored(engine: Engine):
    fields = MapFields("u32", 0, (8, 5, 4, 2), (32, 160, 640), (), (1, 1, 1, 1), im2col=Im2col((0, 0), (0, 0), 8, 12))
    array = np.zeros((2, 4, 5, 8), np.uint32)
    copy = "cp.async.bulk.tensor.4d.global.shared::cta.im2col_no_offs.bulk_group [%rd2, {0, 3, 3, 1}], [%r2];"
    text = HEAD + STORE.replace("COPY", copy)
    map_ = TensorMap.of(array, fields)
    report = wsemu.check(wsemu.load_ptx(text)["k"], 1, 64, (map_, np.zeros(1, np.uint32)), engine=engine)
    assert report.verdict == "verified", report.notes
    wanted = np.zeros((40, 8), np.uint32)
    wanted[38:] = 1000 + np.arange(16).reshape(2, 8)
    assert (array.reshape(40, 8) == wanted).all()


@ENGINES
@pytest.mark.parametrize("operand", [
    "[%rd2, {0, -2, 0, 0}], [%r3], {%h0, %h0}", "[%rd2, {0, 0, 4, 0}], [%r3], {%h0, %h0}",
    "[%rd2, {0, 0, 0, 0}], [%r3], {%h1, %h0}", "[%rd2, {0, 0, 0, 0}], [%r3], {%h0, %h1}",
])  # fmt: skip
def test_pixels_outside_of_the_box_are_not_modelled(operand: str, engine: Engine):
    fields = MapFields("u32", 0, (8, 5, 4, 2), (32, 160, 640), (), (1, 1, 1, 1), im2col=Im2col((-1, 0), (0, 0), 8, 12))
    copy = "mov.u16 %h0, 0; mov.u16 %h1, 256;"
    copy += f"cp.async.bulk.tensor.4d.shared::cta.global.im2col.mbarrier::complete_tx::bytes [%r2], {operand};"
    _, report = load(copy, 384, TensorMap.of(np.zeros((2, 4, 5, 8), np.uint32), fields), engine)
    assert report.verdict == "incomplete"


# -- lines of pixels ---------------------------------------------------------------------------------------------------


class Line(NamedTuple):
    """A copy of pixels along one dimension."""

    fields: MapFields
    at: list[int]
    halo: int
    offset: int

    @property
    def pixels(self) -> int:
        assert self.fields.im2col is not None
        return (128 if self.fields.im2col.line == LONG_LINE else self.fields.im2col.pixels) + self.halo

    def walk(self) -> list[tuple[int, ...]]:
        """The coordinates of the pixels, of the halo last."""
        assert self.fields.im2col is not None
        low, high = (corner[0] for corner in (self.fields.im2col.lower, self.fields.im2col.upper))
        x, *between, image = self.at[1:]
        found: list[tuple[int, ...]] = []
        while len(found) < self.pixels:
            found.append((x + self.offset, *between, image))
            x += self.fields.steps[1]
            if x > self.fields.extents[1] - 1 + high:
                x, image = low, image + 1
        return found

    def copy(self) -> str:
        mode = "im2col::w::128" if self.fields.im2col and self.fields.im2col.line == LONG_LINE else "im2col::w"
        return (
            f"mov.u16 %h0, {self.halo}; mov.u16 %h1, {self.offset}; "
            f"cp.async.bulk.tensor.{self.fields.rank}d.shared::cta.global.{mode}.mbarrier::complete_tx::bytes "
            f"[%r2], [%rd2, {listed(self.at)}], [%r3], {{%h0, %h1}};"
        )

    def load(self, engine: Engine) -> tuple[Any, Any, wsemu.Report]:
        """Return the rows that the copy leaves in shared memory, and those that it should."""
        array = np.arange(1, np.prod(self.fields.extents) + 1, dtype=np.uint32).reshape(self.fields.extents[::-1])
        out, report = load(self.copy(), self.fields.row_bytes * self.pixels, TensorMap.of(array, self.fields), engine)
        rows = []
        for place in self.walk():
            inside = all(0 <= x < extent for x, extent in zip(place, self.fields.extents[1:], strict=True))
            channels = range(self.at[0], self.at[0] + self.fields.row_bytes // 4)
            rows.append(
                [array[(*place[::-1], c)] if inside and 0 <= c < self.fields.extents[0] else 0 for c in channels]
            )
        return unswizzle(out, self.fields, self.pixels), np.array(rows, np.uint32), report


def random_line(g: random.Random, line: int) -> Line:
    """A copy whose halo is in the image of the last other pixel."""
    while True:
        rank = g.randint(3, 5)
        swizzle = g.choice((2, 3))
        channels = 4 << swizzle
        extents = (channels + 4 * g.randint(-1, 2), g.randint(3, 9), *(g.randint(1, 3) for _ in range(rank - 2)))
        strides = tuple(4 * int(np.prod(extents[: n + 1])) for n in range(rank - 1))
        steps = (1, g.randint(1, 3), *(1,) * (rank - 2))
        im2col = Im2col((g.randint(-2, 1),), (g.randint(-1, 1),), channels, g.randint(1, 24), line)
        fields = MapFields("u32", 0, extents, strides, (), steps, 0, swizzle, im2col=im2col)
        if refuse_pixels(fields):
            continue
        first = g.randint(im2col.lower[0] - 2, extents[1] - 1 + im2col.upper[0])
        at = [4 * g.randint(-1, 1), first, *(g.randint(-1, e) for e in extents[2:-1]), g.randint(-1, extents[-1])]
        halo = g.randint(0, 3) if line == LINE else 0
        found = Line(fields, at, halo, g.randint(0, 3))
        if found.walk()[-1][-1] == found.walk()[-1 - halo][-1]:
            return found


@ENGINES
@pytest.mark.parametrize("seed", range(16))
@pytest.mark.parametrize("line", [LINE, LONG_LINE])
def test_pixels_of_a_line_are_those_of_the_walk(line: int, seed: int, engine: Engine):
    out, wanted, report = random_line(random.Random(seed), line).load(engine)
    assert report.verdict == "verified", report.notes
    assert (out == wanted).all()


def line_map(line: int = LINE, pixels: int = 10) -> MapFields:
    """A map of 4 images of 3 x 9 pixels of 16 words."""
    im2col = Im2col((0,), (0,), 16, pixels, line)
    return MapFields("u32", 0, (16, 9, 3, 4), (64, 576, 1728), (), (1, 1, 1, 1), 0, 2, im2col=im2col)


@ENGINES
@pytest.mark.parametrize(("first", "halo", "offset", "verdict"), [
    (0, 8, 0, "verified"), (-3, 0, 31, "verified"), (0, 9, 0, "incomplete"), (9, 0, 0, "incomplete"),
    (0, 512, 0, "incomplete"), (0, 0, 32, "incomplete"),
])  # fmt: skip
def test_lines_that_are_modelled(first: int, halo: int, offset: int, verdict: str, engine: Engine):
    """A halo that continues in another image is not, nor is a line that begins past its box."""
    _, _, report = Line(line_map(), [0, first, 1, 0], halo, offset).load(engine)
    assert report.verdict == verdict


@ENGINES
@pytest.mark.parametrize(("fields", "halo", "mode"), [
    (line_map(LONG_LINE), 1, "im2col::w::128"), (line_map(LONG_LINE), 0, "im2col::w"),
    (line_map(LINE, 128), 0, "im2col::w::128"), (line_map()._replace(swizzle=0), 0, "im2col::w"),
])  # fmt: skip
def test_halos_of_long_lines_and_maps_of_another_mode_are_not_modelled(
    fields: MapFields, halo: int, mode: str, engine: Engine
):
    copy = Line(fields, [0, 0, 0, 0], halo, 0).copy().replace("im2col::w::128", "im2col::w")
    array = np.zeros((4, 3, 9, 16), np.uint32)
    _, report = load(copy.replace("im2col::w", mode), 8192, TensorMap.of(array, fields), engine)
    assert report.verdict == "incomplete"


@ENGINES
def test_a_map_of_another_mode_is_not_modelled(engine: Engine):
    map_ = TensorMap(np.zeros((4, 4, 8), np.uint32), (1, 1, 8))
    copy = "mov.u16 %h0, 0; cp.async.bulk.tensor.3d.shared::cta.global.im2col.mbarrier::complete_tx::bytes"
    _, report = load(f"{copy} [%r2], [%rd2, {{0, 0, 0}}], [%r3], {{%h0}};", 32, map_, engine)
    assert report.verdict == "incomplete"
