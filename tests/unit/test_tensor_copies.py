"""Tensor copies: what an H100 left in memory, both engines alike, what no copy may do, forms in PTX and Python."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

import wsemu
from tests import tensor_kernels as kernels
from wsemu import cuda, ptx
from wsemu.model.tensor_map import ELEMENT_TYPES, TYPE_NAMES, UNIT, MapFields, encode, refusal

RECORDS = kernels.records(Path(__file__).parents[1] / "data" / "tensor-copies.bin.gz")
Engine = Literal["vm", "reference"]
ENGINES: tuple[Engine, ...] = ("vm", "reference")


# -- what the hardware did -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("mode", range(-1, 9))
def test_every_byte_is_as_an_h100_left_it(mode: int) -> None:
    of_mode = [record for record in RECORDS if record.mode == mode]
    assert of_mode or mode == kernels.STORE
    for record in of_mode:
        different, report = kernels.differing(record)
        assert (different, report.verdict) == (0, "verified"), record._replace(image=b"")
        assert mode != kernels.LOAD or record.tx == record.fields.tile_bytes


def test_the_reference_interpreter_leaves_the_same() -> None:
    small = [record for record in RECORDS if record.size < 400]
    for record in small[:: len(small) // 20]:
        assert kernels.differing(record, "reference", 32)[0] == 0, record._replace(image=b"")


# -- both engines ----------------------------------------------------------------------------------------------------
def random_fields(g: random.Random) -> MapFields:
    """A map that the driver takes, of at most 3,000 bytes a tile."""
    while True:
        name, rank = g.choice(TYPE_NAMES), g.randint(1, 5)
        size, interleave = ELEMENT_TYPES[name].bytes, g.choice((0, 0, 0, 1, 2)) if rank > 2 else 0
        unit = 2 * UNIT if interleave == 2 else UNIT
        extents = (g.randint(1, 70), *(g.choice((1, 2, 3, 5, 8, 16)) for _ in range(rank - 1)))
        strides, reach = [], -(-extents[0] * (UNIT * interleave or size) // unit) * unit
        for extent in extents[1:]:
            strides.append(reach)
            reach = reach * extent + unit * (g.random() < 0.2)
        if strides and g.random() < 0.05:
            strides[-1] = 0
        box = (g.choice((16, 32, 64, 128)) // size, *(g.randint(1, 4) for _ in extents[1:]))
        steps = tuple(1 if interleave and g.random() < 0.9 else g.choice((1, 1, 1, 2, 3)) for _ in extents)
        nan = ELEMENT_TYPES[name].floats and g.random() < 0.5
        swizzle = g.randint(0, 3)
        found = MapFields(name, unit * g.randint(0, 3), extents, tuple(strides), box, steps, interleave, swizzle, nan)
        if not refusal(found) and found.tile_bytes < 3000:
            return found


def random_copy(seed: int) -> tuple[kernels.Record, int]:
    """A copy of a tile, now and then one that cannot be made, and how many bytes global memory has."""
    g = random.Random(seed)
    fields = random_fields(g)
    step = 1 if fields.interleave else UNIT // fields.size
    at = [step * g.randint(-2, 4), *(g.randint(-2, extent) for extent in fields.extents[1:])]
    at[0] += g.random() < 0.05
    mode = g.choice((-1, -1, -1, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8))
    if mode != kernels.LOAD and g.random() < 0.9:
        at = [abs(x) for x in at]
    rank = fields.rank if g.random() < 0.97 else g.randint(1, 5)
    coordinates = tuple((at + [0] * 5)[:rank])
    offset = 128 * g.randint(0, 3) if g.random() < 0.95 else 64
    outer = sum((extent - 1) * stride for extent, stride in zip(fields.extents[1:], fields.strides, strict=True))
    need = fields.address + outer + fields.extents[0] * fields.unit
    memory = g.choice((need, need, need + 64, max(need - 40, 64)))
    return kernels.Record(fields, coordinates, mode, offset, 0, 0, 0, b""), memory


@pytest.mark.parametrize("seeds", [range(n, n + 8) for n in range(0, 40, 8)])
def test_both_engines_do_and_say_the_same(seeds: range) -> None:
    for seed in seeds:
        record, size = random_copy(seed)
        seen = []
        for engine in ENGINES:
            held, memory = np.array(kernels.pattern(size)), np.array(kernels.pattern(4096, 7))
            report = kernels.launched(record, held, memory, engine, 32)
            said = [(finding.code, finding.message, finding.count) for finding in report.findings]
            seen.append((report.verdict, report.reasons, said, held.tobytes(), memory.tobytes()))
        assert seen[0] == seen[1], (seed, record)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("mode", [kernels.LOAD, kernels.STORE])
@pytest.mark.parametrize("swizzle", [0, 1])
def test_two_elements_of_4_bits_are_copied_like_a_byte(engine: Engine, mode: int, swizzle: int) -> None:
    bytes_ = MapFields("u8", 0, (32, 8), (48,), (32, 4), (1, 1), 0, swizzle)
    halves = bytes_._replace(type="u4", extents=(64, 8), box=(64, 4))
    left = []
    for fields, first in ((bytes_, 16), (halves, 32)):
        held, memory = np.array(kernels.pattern(384)), np.array(kernels.pattern(4096, 7))
        report = kernels.launched(kernels.Record(fields, (first, 2), mode, 0, 0, 0, 0, b""), held, memory, engine, 32)
        left.append((report.verdict, held.tobytes(), memory.tobytes()))
    assert left[0] == left[1]
    assert left[0][0] == "verified"


@pytest.mark.parametrize("engine", ENGINES)
def test_elements_of_4_bits_begin_at_16_bytes(engine: Engine) -> None:
    said, _ = told(engine, at=(16, 0), type="u4", extents=(64, 8), box=(64, 4))
    assert said[0][0] == "tensor-map"


# -- elements with padding -------------------------------------------------------------------------------------------
PADDED = {"b4x16_p64": 8, "b6x16_p32": 12}
"""bytes of 16 elements in the tensor"""


def padded_fields(type_: str, swizzle: int = 0, **fields: Any) -> MapFields:
    stride = 16 * PADDED[type_]
    return MapFields(type_, 0, (256, 6), (stride,), (128, 4), (1, 1), 0, swizzle)._replace(**fields)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("type_", PADDED)
@pytest.mark.parametrize(("swizzle", "wide"), [(0, False), (3, False), (3, True)])
def test_16_elements_with_padding_are_copied_to_16_bytes(engine: Engine, type_: str, swizzle: int, wide: bool) -> None:
    """As the CUDA driver API describes 16U4_ALIGN16B and 16U6_ALIGN16B, and PTX `.b4x16_p64` and `.b6x16_p32`."""
    size = PADDED[type_]
    fields = padded_fields(type_, swizzle, wide=wide)
    assert fields.tile_bytes == 4 * 8 * size
    held, memory = np.array(kernels.pattern(6 * 16 * size)), np.zeros(1024, np.uint8)
    record = kernels.Record(fields, (128, 4), kernels.LOAD, 0, 0, 0, 0, b"")
    report = kernels.launched(record, held, memory, engine, 32, size)
    assert report.verdict == "verified", report
    expected = np.zeros(1024, np.uint8)
    for row in range(4):
        for n in range(8):
            at = 128 * row + 16 * n
            if swizzle:
                at ^= (at >> 7 & 3) << 5 if wide else (at >> 7 & 7) << 4
            source = held.reshape(6, 16, size)[4 + row, 8 + n] if row < 2 else 0
            expected[at : at + size] = source
    assert memory[:512].tolist() == expected[:512].tolist()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("type_", PADDED)
@pytest.mark.parametrize("swizzle", [0, 3])
@pytest.mark.parametrize("bytes_", [512, 1024])
def test_the_padding_of_16_elements_is_uninitialized_after_a_load(
    engine: Engine, type_: str, swizzle: int, bytes_: int
) -> None:
    """The kernel stores to all shared memory before the load: to the tile alone, or to bytes after it too."""
    record = kernels.Record(padded_fields(type_, swizzle), (128, 2), kernels.LOAD, 0, 0, 0, 0, b"")
    held, said = np.array(kernels.pattern(6 * 16 * PADDED[type_])), []
    for used in (PADDED[type_], PADDED[type_] + 4):
        report = kernels.launched(record, held, np.zeros(bytes_, np.uint8), engine, 32, used)
        said.append((report.verdict, "uninitialized-read" in [finding.code for finding in report.findings]))
    assert said == [("verified", False), ("failed", True)]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("type_", PADDED)
def test_a_store_to_padding_during_a_load_is_a_race(engine: Engine, type_: str) -> None:
    fields = padded_fields(type_)
    text, _ = kernels.text(2, kernels.LOAD, PADDED[type_])
    assert "[%r7];\nCOPIED:" in text
    copy = wsemu.load_ptx(text.replace("[%r7];\nCOPIED:", "[%r7]; st.shared.u32 [%r6+12], %r3;\nCOPIED:")).only()
    memory, held = np.zeros(512, np.uint8), np.array(kernels.pattern(6 * 16 * PADDED[type_]))
    arguments = (wsemu.TensorMap.of(held, fields), memory, 512, 0, fields.tile_bytes, 0, 0, 0, 0, 0)
    report = wsemu.check(copy, 1, 32, arguments, dynamic_shared=512, engine=engine)
    assert "race" in {finding.code for finding in report.findings}


@pytest.mark.parametrize("type_", PADDED)
def test_both_engines_copy_elements_with_padding_alike(type_: str) -> None:
    g = random.Random(type_)
    for _ in range(12):
        rank = g.randint(1, 4)
        extents = (128 * g.randint(1, 2), *(g.randint(1, 4) for _ in range(rank - 1)))
        strides, reach = [], extents[0] * PADDED[type_] // 16
        for extent in extents[1:]:
            strides.append(reach)
            reach *= extent
        box = (128 if g.random() < 0.9 else 64, *(g.randint(1, 3) for _ in extents[1:]))
        steps = (1, *(g.choice((1, 1, 2)) for _ in extents[1:]))
        fields = MapFields(type_, 0, extents, tuple(strides), box, steps, 0, g.choice((0, 3, 3, 1)))
        at = (128 * g.randint(-1, 2) + 64 * (g.random() < 0.1), *(g.randint(-2, extent) for extent in extents[1:]))
        record = kernels.Record(fields, at, kernels.LOAD if g.random() < 0.9 else kernels.STORE, 0, 0, 0, 0, b"")
        used, seen = PADDED[type_] if g.random() < 0.8 else UNIT, []
        for engine in ENGINES:
            held, memory = np.array(kernels.pattern(reach)), np.array(kernels.pattern(4096, 7))
            report = kernels.launched(record, held, memory, engine, 32, used)
            said = [(finding.code, finding.message, finding.count) for finding in report.findings]
            seen.append((report.verdict, report.reasons, said, held.tobytes(), memory.tobytes()))
        assert seen[0] == seen[1], record


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("type_", PADDED)
def test_limits_of_elements_with_padding_are_reported(engine: Engine, type_: str) -> None:
    stride = 16 * PADDED[type_]
    shape: dict[str, Any] = {"type": type_, "extents": (256, 4), "strides": (stride,), "box": (128, 2)}
    said, _ = told(engine, at=(64, 0), **shape)
    assert "not at a multiple of 128 elements" in said[0][1]
    _, report = told(engine, mode=kernels.STORE, **shape)
    assert report.verdict == "incomplete"


# -- what no copy may do ---------------------------------------------------------------------------------------------
PLAIN = MapFields("f32", 0, (20, 8), (96,), (8, 4), (1, 1))


def told(engine: Engine, mode: int = kernels.LOAD, at: tuple[int, ...] = (0, 0), offset: int = 0, **fields: Any) -> Any:
    record = kernels.Record(PLAIN._replace(**fields), at, mode, offset, 0, 0, 0, b"")
    held, memory = np.array(kernels.pattern(768)), np.array(kernels.pattern(1024, 7))
    report = kernels.launched(record, held, memory, engine, 32)
    return [(finding.code, finding.message) for finding in report.findings], report


BAD: dict[str, tuple[dict[str, Any], str, str]] = {
    "t21_inner": ({"at": (1, 0)}, "tensor-map",
                  "a tensor copy that begins at element 1 of the innermost dimension, not at a multiple of 16 bytes"),
    "t21_store": ({"mode": 0, "at": (2, 0)}, "tensor-map",
                  "a tensor store that begins at element 2 of the innermost dimension, not at a multiple of 16 bytes"),
    "t21_negative": ({"mode": 0, "at": (4, -1)}, "tensor-map",
                     "a tensor store at a negative coordinate, -1: only loads may begin outside"),
    "t27": ({"mode": 4}, "tensor-map",
            "a tensor reduction of f32 elements, for which this reduction does not exist"),
    "t29": ({"at": (0, 0, 0)}, "tensor-map",
            "a tensor copy whose number of dimensions differs from that of its tensor map, 2"),
    "t22": ({"offset": 64}, "misaligned", "the tensor copy names `byte 64 of shared memory`, whose address is not"),
    "outside": ({"extents": (20, 9), "at": (0, 5)}, "out-of-bounds", "the tensor copy of 32 bytes reaches outside"),
    "shared_outside": ({"offset": 896, "box": (8, 8)}, "out-of-bounds", "the tensor copy of 256 bytes reaches outside"),
}  # fmt: skip


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", BAD)
def test_a_copy_that_cannot_be(engine: Engine, name: str) -> None:
    arguments, code, message = BAD[name]
    said, report = told(engine, **arguments)
    assert report.verdict == "failed"
    assert said[0][0] == code
    assert said[0][1].startswith(message)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("arguments", [
    {"at": (-4, -2)}, {"at": (1 << 31 - 2, 0)}, {"at": (-(1 << 31), -(1 << 31))}, {"at": (16, 7)},
    {"mode": 0, "at": (16, 6)},
    {"mode": 1, "at": (40, 60)},
])  # fmt: skip
def test_a_tile_outside_is_filled_or_left_out(engine: Engine, arguments: dict[str, Any]) -> None:
    said, report = told(engine, **arguments)
    assert (said, report.verdict) == ([], "verified" if arguments.get("mode") != 1 else report.verdict)


def test_t26_a_store_behind_the_last_row_reaches_outside() -> None:
    said, _ = told("vm", 0, (8, 0), extents=(18, 8), box=(16, 8))
    assert said == []
    held = np.array(kernels.pattern(7 * 96 + 72))
    record = kernels.Record(PLAIN._replace(extents=(18, 8), box=(16, 8)), (8, 0), 0, 0, 0, 0, 0, b"")
    report = kernels.launched(record, held, np.array(kernels.pattern(1024)), "vm", 32)
    assert [finding.code for finding in report.findings] == ["out-of-bounds"]


@pytest.mark.parametrize("engine", ENGINES)
def test_bytes_that_are_no_map(engine: Engine) -> None:
    copy = kernels.kernel(1, kernels.LOAD)
    for data in (bytes(128), b"\xff" * 128):
        y = np.zeros(1024, np.uint8)
        report = wsemu.check(
            copy, 1, 32, (data, y, 1024, 0, 64, *[np.uint32(0)] * 5), dynamic_shared=1024, engine=engine
        )
        assert [finding.code for finding in report.findings] == ["tensor-map"]
        assert report.findings[0].message == "a tensor copy whose tensor map is invalid"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("last", [1, 0x5A5A5A5A])
def test_cute_dsl_writes_the_first_words_of_a_map(engine: Engine, last: int) -> None:
    memory = wsemu.DeviceMemory()
    x = memory.allocate(768)
    memory.write(x, kernels.pattern(768))
    fields = PLAIN._replace(address=x, swizzle=3)
    words = np.frombuffer(encode(fields), np.uint32).copy()
    copy, found = kernels.kernel(2, kernels.LOAD), []
    for _ in range(2):
        y = memory.allocate(1024)
        arguments = (words.tobytes(), y, 1024, 0, fields.tile_bytes, *[np.uint32(0)] * 5)
        report = wsemu.check(copy, 1, 32, arguments, dynamic_shared=1024, engine=engine, memory=memory)
        assert (report.verdict, report.findings) == ("verified", [])
        found.append(memory.read(y, np.uint8, 1024).tobytes())
        words[2] |= 2 | 1 << 21
        words[16:] = last
    assert found[0] == found[1]


# -- kernels in Python -----------------------------------------------------------------------------------------------
@cuda.jit
def doubled(source, target):
    tile = cuda.shared.array((8, 32), np.float32, 128)
    full = cuda.shared.array(1, np.uint64)
    t, row = cuda.threadIdx.x, 8 * cuda.blockIdx.x
    if t == 0:
        ptx.mbarrier_init(full, 0, 1)
        ptx.fence_mbarrier_init()
        ptx.prefetch_tensormap(source)
        ptx.cp_async_bulk_prefetch_tensor(source, (0, row))
    cuda.syncthreads()
    if t == 0:
        ptx.mbarrier_arrive_expect_tx(full, 0, 8 * 32 * 4)
        ptx.cp_async_bulk_tensor_global_to_shared(tile, (0, 0), source, (0, row), full, 0)
    ptx.mbarrier_wait_parity(full, 0, 0)
    for r in range(8):
        tile[r, t] *= 2
    ptx.fence_proxy_async()
    cuda.syncthreads()
    if t == 0:
        ptx.cp_async_bulk_tensor_shared_to_global(target, (0, row), tile, (0, 0))
        ptx.cp_async_bulk_commit_group()
        ptx.cp_async_bulk_wait_group(0)


@cuda.jit
def unfenced(target):
    tile = cuda.shared.array((8, 32), np.float32, 128)
    t = cuda.threadIdx.x
    for r in range(8):
        tile[r, t] = t
    cuda.syncthreads()
    if t == 0:
        ptx.cp_async_bulk_tensor_shared_to_global(target, (0, 0), tile, (0, 0))
        ptx.cp_async_bulk_commit_group()


@cuda.jit
def added(target):
    tile = cuda.shared.array((8, 32), np.uint32, 128)
    t = cuda.threadIdx.x
    for r in range(8):
        tile[r, t] = r
    ptx.fence_proxy_async()
    cuda.syncthreads()
    if t == 0:
        ptx.cp_reduce_async_bulk_tensor_add(target, (0, 0), tile, (0, 0))
        ptx.cp_async_bulk_commit_group()
        ptx.cp_async_bulk_wait_group(0)


@pytest.mark.parametrize("engine", ENGINES)
def test_tiles_in_a_kernel(engine: Engine) -> None:
    x = np.arange(32 * 32, dtype=np.float32).reshape(32, 32)
    y = np.zeros((30, 32), np.float32)
    report = wsemu.check(doubled, 4, 32, (wsemu.TensorMap(x, [8, 32]), wsemu.TensorMap(y, [8, 32])), engine=engine)
    assert report.verdict == "verified"
    assert np.array_equal(y, 2 * x[:30])


def test_what_tiles_bring_is_written() -> None:
    x, y = cuda.device_array((16, 32), np.float32), cuda.device_array((16, 32), np.float32)
    maps = wsemu.TensorMap(x, [8, 32]), wsemu.TensorMap(y, [8, 32])
    assert [finding.code for finding in wsemu.check(doubled, 2, 32, maps).findings] == ["uninitialized-read"]
    z = cuda.device_array((16, 32), np.float32)
    full = wsemu.TensorMap(np.ones((16, 32), np.float32), [8, 32])
    for source, target in ((full, wsemu.TensorMap(z, [8, 32])), (wsemu.TensorMap(z, [8, 32]), full)):
        assert wsemu.check(doubled, 2, 32, (source, target)).verdict == "verified"


@pytest.mark.parametrize("engine", ENGINES)
def test_a_tensor_store_needs_a_fence_and_a_wait(engine: Engine) -> None:
    y = np.zeros((8, 32), np.float32)
    report = wsemu.check(unfenced, 1, 32, (wsemu.TensorMap(y, [8, 32]),), engine=engine)
    assert {finding.code for finding in report.findings} == {"proxy", "store-outlives-cta"}


@pytest.mark.parametrize("engine", ENGINES)
def test_reductions_of_ctas_are_atomic(engine: Engine) -> None:
    y = np.zeros((8, 32), np.uint32)
    report = wsemu.check(added, 3, 32, (wsemu.TensorMap(y, [8, 32]),), engine=engine)
    assert report.errors == []
    assert np.array_equal(y, np.repeat(3 * np.arange(8, dtype=np.uint32)[:, None], 32, 1))


@cuda.jit
def large(target, x, y):
    tile = cuda.shared.array((64, 64), np.float32, 128)
    t = cuda.threadIdx.x
    for r in range(64):
        tile[r, t] = tile[r, t + 32] = r
    cuda.syncthreads()
    if t == 0:
        ptx.cp_async_bulk_tensor_shared_to_global(target, (0, 0), tile, (0, 0))
        ptx.cp_async_bulk_shared_to_global(y, 0, tile, (0, 0), 64 * 64 * 4)
        ptx.cp_async_bulk_commit_group()
    tile[t, t] = 0


def test_there_is_room_for_every_cell_of_a_large_copy() -> None:
    y, z = np.zeros((64, 64), np.float32), np.zeros(4096, np.float32)
    for engine in ENGINES:
        report = wsemu.check(large, 2, 32, (wsemu.TensorMap(y, [64, 64]), z, z), engine=engine)
        assert {finding.code for finding in report.findings} == {"proxy", "race", "store-outlives-cta"}


@cuda.jit
def in_any_order(a, b, x, f, w, r0, c0, r1, c1):
    tile = cuda.shared.array((2, 16, 32), np.float32, 1024)
    full = cuda.shared.array(2, np.uint64)
    t = cuda.threadIdx.x
    if t == 0:
        ptx.mbarrier_init(full, 0, 1)
        ptx.fence_mbarrier_init()
        ptx.mbarrier_init(full, 1, 1)
        ptx.fence_mbarrier_init()
    if f & 1:
        for r in range(16):
            tile[w & 1, r, t % 32] = t
    if f & 2:
        ptx.fence_proxy_async()
    if f & 4:
        x[t, 3] = 1
    cuda.syncthreads()
    if t == 0 or (f & 8 and t == 33):
        s = 0 if t == 0 else 1
        ptx.mbarrier_arrive_expect_tx(full, s, 16 * 16 * 4)
        ptx.cp_async_bulk_tensor_global_to_shared(tile, (w >> 1 & 1, 0, 0), a, (c0, r0), full, s)
    if f & 16:
        ptx.mbarrier_wait_parity(full, 0, 0)
    if f & 32:
        tile[w >> 2 & 1, t % 16, t % 32] = 2
    if f & 64:
        cuda.syncthreads()
    if t == (w >> 3 & 1) * 40:
        if f & 128:
            ptx.cp_reduce_async_bulk_tensor_add(b, (c1, r1), tile, (w >> 4 & 1, 0, 0))
        else:
            ptx.cp_async_bulk_tensor_shared_to_global(b, (c1, r1), tile, (w >> 4 & 1, 0, 0))
        ptx.cp_async_bulk_commit_group()
        if f & 256:
            ptx.cp_async_bulk_wait_group(0)
        else:
            ptx.cp_async_bulk_wait_group_read(0)
    if f & 512:
        x[t, 5] = x[t % 8, 4]
    if f & 1024:
        tile[w >> 5 & 1, 3, t % 32] = 3


@pytest.mark.parametrize("seed", range(6))
def test_both_engines_find_the_same_conflicts(seed: int) -> None:
    g = random.Random(seed)
    what, swizzle, ctas = (g.randrange(2048), g.randrange(64)), g.choice((None, "64B", "128B")), g.choice((1, 1, 2))
    at = g.randint(0, 40), 4 * g.randint(0, 6), g.randint(0, 40), 4 * g.randint(0, 6)
    seen = []
    for engine in ENGINES:
        x = np.arange(64 * 32, dtype=np.float32).reshape(64, 32)
        y = x if seed % 2 else x + 1
        maps = [wsemu.TensorMap(array, [16, 16], swizzle=swizzle) for array in (x, y)]
        report = wsemu.check(in_any_order, ctas, 64, (*maps, x, *what, *at), engine=engine)
        said = [(finding.code, finding.message, finding.count) for finding in report.findings]
        seen.append((report.verdict, said, x.tobytes(), y.tobytes()))
    assert seen[0] == seen[1]


def test_the_map_has_as_many_dimensions_as_the_tile() -> None:
    line = wsemu.TensorMap(np.zeros(64, np.float32), [32])
    with pytest.raises(wsemu.KernelError, match="tensor map `source` has 1 dimensions, the tile 2 coordinates"):
        wsemu.check(doubled, 1, 32, (line, line))


def test_an_array_is_no_tensor_map() -> None:
    with pytest.raises(wsemu.KernelError, match="needs a tensor map, not array `source`"):
        wsemu.check(doubled, 1, 32, (np.zeros((8, 32), np.float32),) * 2)


def test_a_map_begins_at_a_multiple_of_16_bytes() -> None:
    memory = np.zeros(9 * 32, np.float32)
    maps = [wsemu.TensorMap(memory[first : first + 256].reshape(8, 32), [8, 32]) for first in (0, 1)]
    with pytest.raises(wsemu.UsageError, match="its array begins 4 bytes after a multiple of 16"):
        wsemu.check(doubled, 1, 32, tuple(maps))


# -- PTX of nvcc -----------------------------------------------------------------------------------------------------
COMPILED = wsemu.load_ptx(Path(__file__).parents[1] / "ptx" / "tensor_copies.sm_90a.ptx")


@pytest.mark.parametrize("engine", ENGINES)
def test_copies_as_cuda_ptx_spells_them(engine: Engine) -> None:
    x = np.random.default_rng(1).integers(0, 9, (40, 32)).astype(np.float32)
    y, sums = np.zeros_like(x), np.zeros(32, np.float32)
    maps = wsemu.TensorMap(x, [16, 32], swizzle="128B"), wsemu.TensorMap(y, [16, 32])
    report = wsemu.check(COMPILED["through_cuda_ptx"], 3, 32, (*maps, sums), engine=engine)
    assert report.verdict == "verified"
    assert np.array_equal(y, 2 * x)
    assert np.array_equal(sums, x.sum(0))


@pytest.mark.parametrize("engine", ENGINES)
def test_maps_in_a_structure(engine: Engine) -> None:
    x, total = np.arange(3 * 7 * 64, dtype=np.float32).reshape(3, 7, 64), np.zeros((12, 32), np.float32)
    maps = wsemu.TensorMap(x, [1, 16, 32]), wsemu.TensorMap(total, [16, 32])
    parameters = (np.float32(2), *maps, np.int32(3))
    report = wsemu.check(COMPILED["in_a_structure"], 1, 32, (parameters,), dynamic_shared=2048, engine=engine)
    assert report.verdict == "verified"
    assert np.array_equal(total[1:8], 2 * x[:, :, :32].sum(0))
    assert not total[0].any()
    assert not total[8:].any()


@pytest.mark.parametrize("engine", ENGINES)
def test_a_read_before_the_tile_is_there(engine: Engine) -> None:
    map_ = wsemu.TensorMap(np.zeros((16, 32), np.float32), [16, 32])
    report = wsemu.check(COMPILED["without_wait"], 1, 32, (map_, np.zeros(64, np.float32)), engine=engine)
    (finding,) = report.errors
    assert finding.code == "race"
    assert "nothing waits for the tensor copy of warp 0 before this read" in finding.message
    assert finding.help is not None
    assert finding.help.startswith("wait for the phase of its mbarrier")


@pytest.mark.parametrize("engine", ENGINES)
def test_a_map_that_a_kernel_of_nvcc_changes_releases_and_acquires_is_used(engine: Engine) -> None:
    map_ = wsemu.TensorMap(np.zeros((16, 32), np.float32), [16, 32])
    report = wsemu.check(
        COMPILED["replaced"], 1, 32, (np.zeros(16, np.uint64), map_, np.zeros(2048, np.float32)), engine=engine
    )
    assert (report.verdict, report.findings, report.notes) == ("verified", [], [])


_COPIED_MAP = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry copied(.param .align 64 .b8 map[128], .param .u64 other)
{
.reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<9>;
.shared .align 8 .b64 bar[1]; .shared .align 128 .b8 tile[1024];
ld.param.u64 %rd1, [other]; mov.u64 %rd2, map; cvta.param.u64 %rd2, %rd2; mov.u32 %r1, bar; mov.u32 %r2, tile;
mov.u32 %r3, %tid.x; mul.wide.u32 %rd3, %r3, 4; add.u64 %rd4, %rd2, %rd3; add.u64 %rd5, %rd1, %rd3;
ld.u32 %r4, [%rd4]; STORE setp.ne.u32 %p1, %r3, 0;
@!%p1 mbarrier.init.shared.b64 [%r1], 1; fence.mbarrier_init.release.cluster; bar.sync 0;
@%p1 bra WAIT; mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 1024;
cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%r2], [MAP, {0, 0}], [%r1];
WAIT: mbarrier.try_wait.parity.shared.b64 %p3, [%r1], 0; @!%p3 bra WAIT;
AFTER
ret;
}
"""


@pytest.mark.parametrize("engine", ENGINES)
def test_a_map_in_global_memory(engine: Engine) -> None:
    x = np.zeros((8, 32), np.float32)
    map_ = wsemu.TensorMap(x, [8, 32])

    def report(store: str, of: str, after: str = "") -> wsemu.Report:
        text = _COPIED_MAP.replace("STORE", store).replace("MAP", of).replace("AFTER", after)
        return wsemu.check(wsemu.load_ptx(text).only(), 1, 32, (map_, np.zeros(16, np.uint64)), engine=engine)

    assert report("", "%rd2").verdict == "verified"
    changed = report("st.global.u32 [%rd5], %r4;", "%rd1")
    assert [finding.code for finding in changed.findings] == ["tensormap-proxy"]
    assert "but the change of the map was not released" in changed.findings[0].message
    assert [finding.code for finding in report("", "%rd1").findings] == ["tensor-map"]
    later = report("", "%rd2", "st.global.u32 [%rd5], %r4;")
    assert later.verdict == "verified"


POINTED = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 map, .param .u64 out)
{
.reg .pred %p; .reg .b32 %r<6>; .reg .b64 %rd<6>;
.shared .align 128 .b8 tile[128]; .shared .align 8 .b64 bar[1];
ld.param.u64 %rd1, [map]; ld.param.u64 %rd2, [out]; cvta.to.global.u64 %rd2, %rd2;
mov.u32 %r1, %tid.x; mov.u32 %r2, tile; mov.u32 %r3, bar; setp.ne.u32 %p, %r1, 0;
@!%p mbarrier.init.shared.b64 [%r3], 1;
bar.sync 0;
@%p bra WAIT; mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 128;
cp.async.bulk.tensor.1d.shared::cta.global.mbarrier::complete_tx::bytes [%r2], [%rd1, {32}], [%r3];
WAIT: mbarrier.try_wait.parity.shared.b64 %p, [%r3], 0; @!%p bra WAIT;
shl.b32 %r4, %r1, 2; add.u32 %r4, %r4, %r2; ld.shared.u32 %r5, [%r4];
mul.wide.u32 %rd3, %r1, 4; add.u64 %rd3, %rd3, %rd2; st.global.u32 [%rd3], %r5;
ret;
}
"""


@pytest.mark.parametrize("as_list", [False, True])
@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_a_kernel_takes_a_pointer_to_a_map(engine: Any, as_list: bool) -> None:
    """As to one that the host has copied to global memory."""
    x, out = np.arange(64, dtype=np.float32), np.zeros(32, np.float32)
    map_: Any = wsemu.TensorMap(x, [32])
    report = wsemu.check(wsemu.load_ptx(POINTED)["k"], 1, 32, ([map_] if as_list else map_, out), engine=engine)
    assert report.verdict == "verified", report
    assert np.array_equal(out, x[32:])
