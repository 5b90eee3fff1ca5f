"""Random tensor maps for `device_bits.py`: the contents of memory after a copy by each map, and the bytes of the
map."""

from __future__ import annotations

import ctypes
import random
import time
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from tests import tensor_kernels as kernels
from tests.tensor_kernels import GLOBAL, LOAD, SHARED, START, Record, pattern
from wsemu.model.isa import TENSOR_REDUCTIONS
from wsemu.model.tensor_map import BITS, ELEMENT_TYPES, TYPE_NAMES, UNIT, MapFields, encode, refusal

if TYPE_CHECKING:
    from benchmarks.device_bits import Gpu

_ADDED = ("u32", "s32", "u64", "f16", "bf16", "f32", "f64", "tf32", "f32_ftz", "tf32_ftz")
_ORDERED = ("u32", "s32", "u64", "s64", "f16", "bf16")
_REDUCED = {
    "add": _ADDED, "min": _ORDERED, "max": _ORDERED,
    "inc": ("u32",), "dec": ("u32",), "and": ("u32", "s32", "u64"), "or": ("u32", "s32", "u64"),
    "xor": ("u32", "s32", "u64"),
}  # fmt: skip
_MOST_TILE = 16_384
_LOADED = [type_ for type_ in TYPE_NAMES if type_ not in BITS]
"""element types of loads and stores: those whose elements fill whole bytes"""


def drawn(seed: int) -> Record:
    """Return a copy of a random tile, without its image."""
    generator = random.Random(seed)
    while True:
        found = _drawn(generator)
        if found is not None:
            return found


def _drawn(generator: random.Random) -> Record | None:
    way = generator.random()
    mode = LOAD if way < 0.8 else 0 if way < 0.9 else generator.randrange(1, len(TENSOR_REDUCTIONS) + 1)
    types = _LOADED if mode <= 0 else _REDUCED[TENSOR_REDUCTIONS[mode - 1]]
    type_ = generator.choice(types)
    size = ELEMENT_TYPES[type_].bytes
    interleave = generator.choice((0, 0, 0, 0, 1, 2)) if mode <= 0 else 0
    rank = generator.randrange(3 if interleave else 1, 6)
    swizzle = 1 if interleave == 2 else 0 if interleave else generator.choice((0, 0, 1, 2, 3))
    extents = tuple(_extent(generator, rank, n) for n in range(rank))
    strides = _strides(generator, extents, size, interleave, apart=mode != LOAD)
    box = _box(generator, rank, size, swizzle, interleave)
    steps = tuple(1 if interleave else generator.choice((1, 1, 1, 2, 3, 8)) for _ in range(rank))
    nan = ELEMENT_TYPES[type_].floats and generator.random() < 0.3
    reach = 32 * (extents[0] if interleave else 0) + extents[0] * size
    reach += sum((extent - 1) * stride for extent, stride in zip(extents[1:], strides, strict=True))
    fields = MapFields(type_, 0, extents, strides, box, steps, interleave, swizzle, nan, generator.randrange(4))
    rows = fields.tile_bytes // max(fields.row_bytes, 1)
    if reach + 64 > GLOBAL or rows * fields.pitch > _MOST_TILE or refusal(fields):
        return None
    alignment = 32 if interleave == 2 else UNIT
    fields = fields._replace(address=generator.randrange((GLOBAL - reach - 64) // alignment + 1) * alignment)
    coordinates = _coordinates(generator, fields, mode)
    offset = 128 * generator.randrange(12)
    end = offset + rows * fields.pitch + 256
    return Record(fields, coordinates, mode, offset, 0, 0, end, b"")


def _extent(generator: random.Random, rank: int, n: int) -> int:
    if n == 0:
        return generator.choice((generator.randrange(1, 40), generator.randrange(1, 600), 16, 64, 128))
    return generator.randrange(1, (5000, 200, 40, 12)[rank - 2])


def _strides(
    generator: random.Random, extents: tuple[int, ...], size: int, interleave: int, *, apart: bool
) -> tuple[int, ...]:  # fmt: skip
    """Return the strides from dimension 1 on: those of stores keep rows separate, those of loads need not."""
    unit = 32 if interleave == 2 else UNIT
    strides, span = [], extents[0] * (UNIT * interleave or size)
    for extent in extents[1:]:
        stride = -(-span // unit) * unit + unit * generator.choice((0, 0, 1, 3))
        if not apart and generator.random() < 0.1:
            stride = unit * generator.randrange(40)
        strides.append(stride)
        span = stride * extent if apart else max(span, stride * extent)
    return tuple(strides)


def _box(generator: random.Random, rank: int, size: int, swizzle: int, interleave: int) -> tuple[int, ...]:
    most = UNIT << swizzle if swizzle and not interleave else 1024
    inner = min(256, generator.choice((UNIT, most, UNIT * generator.randrange(1, max(2, most // UNIT + 1)))) // size)
    return (inner, *(generator.choice((1, 2, generator.randrange(1, 33), 8)) for _ in range(rank - 1)))


def _coordinates(generator: random.Random, fields: MapFields, mode: int) -> tuple[int, ...]:
    found = []
    for n, (extent, box) in enumerate(zip(fields.extents, fields.box, strict=True)):
        way = generator.random()
        if way < 0.5:
            at = generator.randrange(extent)
        elif way < 0.9:
            at = generator.randrange(-box, extent + box)
        else:
            at = generator.choice((-(1 << 31), (1 << 31) - 1 - box, 1 << 20, -(1 << 20), extent))
        if n == 0 and not fields.interleave:
            at -= at % (UNIT // fields.size)
        found.append(at if mode == LOAD else max(at, 0))
    return tuple(found)


def _memory(record: Record) -> tuple[Any, Any]:
    """Return global memory before the copy, and shared memory before or after it."""
    size = -(-record.size // 128) * 128
    before = np.zeros(size, np.uint8) if record.mode == LOAD else np.array(pattern(SHARED, START)[:size])
    return np.array(pattern(GLOBAL)), before


class Copies:
    """Makes copies on a GPU, of drawn numbers."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self.held, self.tile = gpu.room(GLOBAL), gpu.room(SHARED)
        self.functions: dict[tuple[int, int], Any] = {}

    def address(self, fields: MapFields) -> MapFields:
        return fields._replace(address=fields.address + self.held)

    def made(self, drawn_: Record, map_: Any) -> int:
        """Return the checksum of memory after a copy."""
        rank = len(drawn_.coordinates)
        if (rank, drawn_.mode) not in self.functions:
            text, name = kernels.text(rank, drawn_.mode)
            self.functions[rank, drawn_.mode] = self.gpu.function(text, name)
        memory, shared = _memory(drawn_)
        self.gpu.put(self.held, memory)
        self.gpu.put(self.tile, shared)
        words = (*drawn_.coordinates, 0, 0, 0, 0)[:5]
        numbers = (len(shared), drawn_.offset, drawn_.fields.tile_bytes, *(word & 0xFFFFFFFF for word in words))
        parameters = [map_, ctypes.c_uint64(self.tile), *(ctypes.c_uint32(n) for n in numbers)]
        self.gpu.launch(self.functions[rank, drawn_.mode], 1, 128, len(shared), parameters)
        result, at = (shared, self.tile) if drawn_.mode == LOAD else (memory, self.held)
        self.gpu.get(result, at)
        return zlib.crc32(result.tobytes())


def record(gpu: Gpu, count: int) -> Any:
    """Return the checksums of memory after each copy on a GPU."""
    started, copies = time.perf_counter(), Copies(gpu)
    found, other = [], 0
    for seed in range(count):
        drawn_ = drawn(seed)
        fields = copies.address(drawn_.fields)
        map_ = encoded(gpu, fields)
        other += bytes(map_) != encode(fields)
        found.append(copies.made(drawn_, map_))
    print(f"{count} tensor copies, {other} maps encoded otherwise, {time.perf_counter() - started:.1f} s", flush=True)
    return np.array(found, np.uint32)


def unread(gpu: Gpu, sums: Any) -> None:
    """Find the parts of a map that a GPU ignores.  Print how many copies leave other bytes with maps whose words 16 and
    18 are from other maps, as after `tensormap.replace`, and with maps that have the bit of TF32 and another type."""
    copies = Copies(gpu)
    for what in ("words 16 and 18 of another map", "the bit of TF32 with another type"):
        differ = []
        for seed, checksum in enumerate(sums):
            drawn_ = drawn(seed)
            map_ = encoded(gpu, copies.address(drawn_.fields))
            words = (ctypes.c_uint32 * 32).from_buffer(map_)
            if what[0] == "w":
                other = np.frombuffer(encode(drawn(seed + 1).fields), np.uint32)
                words[16], words[18] = int(other[16]), int(other[18])
            elif drawn_.fields.type.startswith(("f32", "tf32")):
                continue
            else:
                words[2] |= 1 << 16
            try:
                differ += [(drawn_.fields.type, drawn_.mode)] * int(copies.made(drawn_, map_) != checksum)
            except OSError as error:
                print(f"{what}: copy {seed}: {error}")
                return
        print(f"{what}: {len(differ)} of {len(sums)} copies differ {sorted(set(differ))}", flush=True)


def encoded(gpu: Gpu, fields: MapFields) -> Any:
    """Return the map that the driver encodes, at a multiple of 64."""
    raw = (ctypes.c_uint8 * 192)()
    start = -ctypes.addressof(raw) % 64
    map_ = (ctypes.c_uint8 * 128).from_buffer(raw, start)
    rank = fields.rank

    def array(kind: Any, values: Any) -> Any:
        return (kind * 5)(*values)

    gpu.done(
        gpu.driver.cuTensorMapEncodeTiled(
            map_, ctypes.c_int(TYPE_NAMES.index(fields.type)), ctypes.c_uint32(rank), ctypes.c_void_p(fields.address),
            array(ctypes.c_uint64, fields.extents), array(ctypes.c_uint64, fields.strides),
            array(ctypes.c_uint32, fields.box), array(ctypes.c_uint32, fields.steps), ctypes.c_int(fields.interleave),
            ctypes.c_int(fields.swizzle), ctypes.c_int(fields.promotion), ctypes.c_int(int(fields.nan)),
        )
    )  # fmt: skip
    return map_


def compare(theirs: Any) -> int:
    """Perform the same copies on the emulator; return the number of copies that leave other bytes."""
    started, differ = time.perf_counter(), []
    for seed, checksum in enumerate(theirs):
        drawn_ = drawn(seed)
        held, memory = _memory(drawn_)
        report = kernels.launched(drawn_, held, memory)
        result = memory if drawn_.mode == LOAD else held
        if report.verdict != "verified" or zlib.crc32(result.tobytes()) != checksum:
            differ.append(seed)
    count, seconds = len(theirs), time.perf_counter() - started
    print(f"| tensor copies | {count:,} | {len(differ)} differ {differ[:10]} | {seconds:.1f} s |")
    return len(differ)
