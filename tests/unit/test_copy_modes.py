"""Tensor copies that name four rows (gather4, scatter4) or pixels (im2col), in both engines, against a list of rows.

An H200 agrees with the walk of pixels in 2,000 random loads.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import wsemu
from wsemu.model.tensor_map import Im2col, MapFields, TensorMap, refuse_pixels

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


def unswizzle(words: Any, fields: MapFields) -> Any:
    """The words of a tile as rows."""
    assert fields.im2col is not None
    found = []
    for row in range(fields.im2col.pixels):
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
    assert (unswizzle(out, fields) == walk(array, fields, at, offsets)).all()


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


@ENGINES
def test_a_map_of_another_mode_is_not_modelled(engine: Engine):
    map_ = TensorMap(np.zeros((4, 4, 8), np.uint32), (1, 1, 8))
    copy = "mov.u16 %h0, 0; cp.async.bulk.tensor.3d.shared::cta.global.im2col.mbarrier::complete_tx::bytes"
    _, report = load(f"{copy} [%r2], [%rd2, {{0, 0, 0}}], [%r3], {{%h0}};", 32, map_, engine)
    assert report.verdict == "incomplete"
