"""Kernels in PTX that copy one tile, and records of what an H100 did with such tiles.

A record has the fields of a map, coordinates, where the tile lies in shared memory, and what was there, or in global
memory, after the copy.  Global memory held `pattern` before, the shared memory of stores a later stretch of it, that of
loads `UNTOUCHED` in all bytes.
"""

from __future__ import annotations

import functools
import gzip
import struct
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

import wsemu
from wsemu.model.isa import TENSOR_REDUCTIONS
from wsemu.model.tensor_map import TYPE_NAMES, UNIT, MapFields

Engine = Literal["vm", "reference"]
Bytes = npt.NDArray[np.uint8]
FIELDS = struct.Struct("<IIQ5Q4Q5I5I4I5iiIiQQQII")
MOST = 20_000
"""bytes of an image that a record keeps"""
GLOBAL, SHARED = 1 << 20, 49_152
"""bytes of memory"""
UNTOUCHED = 0xA5
START = 7_777_777
"""where in `pattern` the shared memory of stores begins"""
LOAD, STORE = -1, 0
"""`mode` of a record; from 1 on they are the reductions"""


class Record(NamedTuple):
    """One copy.  The image begins at `low` of global memory, at 0 of shared memory for a load, and had `size` bytes, of
    which it may lack the last ones; `tx` are the bytes that the mbarrier was credited with."""

    fields: MapFields
    coordinates: tuple[int, ...]
    mode: int
    offset: int
    tx: int
    low: int
    size: int
    image: bytes


def records(path: Path) -> list[Record]:
    """Those of a file."""
    data, at, found = gzip.decompress(path.read_bytes()), 0, []
    while at < len(data):
        v = FIELDS.unpack_from(data, at)
        at += FIELDS.size
        type_, rank, address = v[:3]
        interleave, swizzle, promotion, nan = v[22:26]
        strides, box, steps = v[8 : 7 + rank], v[12 : 12 + rank], v[17 : 17 + rank]
        map_ = MapFields(
            TYPE_NAMES[type_], address, v[3 : 3 + rank], strides, box, steps, interleave, swizzle, bool(nan), promotion
        )
        image = data[at : at + min(v[38], MOST)]
        at += len(image)
        tx = v[36] >> 21 & 0x1FFFFF
        found.append(Record(map_, v[26 : 26 + rank], v[31], v[32], tx, v[37], v[38], image))
    return found


@functools.cache
def pattern(count: int, start: int = 0) -> Bytes:
    """Bytes that no two places have alike."""
    i = np.arange(start, start + count, dtype=np.uint64)
    x = (i >> 2) * 2654435761 & 0xFFFFFFFF
    x ^= x >> 15
    x = x * 2246822519 & 0xFFFFFFFF
    x ^= x >> 13
    x = x * 3266489917 & 0xFFFFFFFF
    x ^= x >> 16
    return (x >> 8 * (i & 3) & 255).astype(np.uint8)


_HEAD = """.version 8.6
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 tile[];
.visible .entry {name}(.param .align 64 .b8 map[128], .param .u64 memory, .param .u32 bytes, .param .u32 offset,
.param .u32 credit, .param .u32 x0, .param .u32 x1, .param .u32 x2, .param .u32 x3, .param .u32 x4)
{{
.reg .pred %p<4>; .reg .b32 %r<20>; .reg .b64 %rd<8>;
.shared .align 8 .b64 bar[1];
ld.param.u64 %rd1, [memory]; ld.param.u32 %r1, [bytes]; ld.param.u32 %r2, [offset]; ld.param.u32 %r3, [credit];
ld.param.u32 %r10, [x0]; ld.param.u32 %r11, [x1]; ld.param.u32 %r12, [x2]; ld.param.u32 %r13, [x3];
ld.param.u32 %r14, [x4];
mov.u64 %rd2, map; cvta.param.u64 %rd2, %rd2;
mov.u32 %r4, %tid.x; mov.u32 %r5, tile; add.u32 %r6, %r5, %r2; mov.u32 %r7, bar;
mov.u32 %r9, %ntid.x; shl.b32 %r9, %r9, 2;
setp.ne.u32 %p2, %r4, 0; shl.b32 %r4, %r4, 2;
"""
_LOAD = (
    _HEAD
    + """
mov.u32 %r8, %r4;
FILL: setp.ge.u32 %p1, %r8, %r1; @%p1 bra FILLED; add.u32 %r16, %r5, %r8; st.shared.u32 [%r16], 0xA5A5A5A5;
add.u32 %r8, %r8, %r9; bra FILL;
FILLED: fence.proxy.async; @!%p2 mbarrier.init.shared.b64 [%r7], 1; fence.mbarrier_init.release.cluster;
bar.sync 0; @%p2 bra COPIED;
mbarrier.arrive.expect_tx.shared.b64 _, [%r7], %r3;
cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r6], [%rd2, {{{at}}}], [%r7];
COPIED: mbarrier.try_wait.parity.shared.b64 %p3, [%r7], 0; @!%p3 bra COPIED;
mov.u32 %r8, %r4;
OUT: setp.ge.u32 %p1, %r8, %r1; @%p1 bra END; {skip}add.u32 %r16, %r5, %r8; ld.shared.u32 %r17, [%r16];
cvt.u64.u32 %rd3, %r8; add.u64 %rd4, %rd1, %rd3; st.global.u32 [%rd4], %r17;
NEXT: add.u32 %r8, %r8, %r9; bra OUT;
END: ret;
}}
"""
)
_STORE = (
    _HEAD
    + """
mov.u32 %r8, %r4;
FILL: setp.ge.u32 %p1, %r8, %r1; @%p1 bra FILLED; add.u32 %r16, %r5, %r8;
cvt.u64.u32 %rd3, %r8; add.u64 %rd4, %rd1, %rd3; ld.global.u32 %r17, [%rd4]; st.shared.u32 [%r16], %r17;
add.u32 %r8, %r8, %r9; bra FILL;
FILLED: fence.proxy.async; bar.sync 0; @%p2 bra END;
{instruction} [%rd2, {{{at}}}], [%r6];
cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
END: ret;
}}
"""
)


def text(rank: int, mode: int, used: int = UNIT) -> tuple[str, str]:
    """The text of the kernel of a record, and its name; a load reads the first `used` of each 16 bytes."""
    at = ", ".join(f"%r{10 + n}" for n in range(rank))
    if mode == LOAD:
        skip = f"and.b32 %r18, %r8, 15; setp.ge.u32 %p0, %r18, {used}; @%p0 bra NEXT; " if used < UNIT else ""
        return _LOAD.format(name="load", rank=rank, at=at, skip=skip), "load"
    space = f"{rank}d.global.shared::cta"
    instruction = f"cp.async.bulk.tensor.{space}.tile.bulk_group"
    if mode:
        what = TENSOR_REDUCTIONS[mode - 1]
        instruction = f"cp.reduce.async.bulk.tensor.{space}.{what}.tile.bulk_group"
    return _STORE.format(name="store", instruction=instruction, at=at), "store"


@functools.cache
def kernel(rank: int, mode: int, used: int = UNIT) -> Any:
    """The kernel of a record: (map, memory, bytes of shared memory, offset of the tile, bytes to wait for, five
    coordinates), with dynamic shared memory."""
    return wsemu.load_ptx(text(rank, mode, used)[0]).only()


def launched(
    record: Record, held: Bytes, memory: Bytes, engine: Engine = "vm", block: int = 128, used: int = UNIT
) -> wsemu.Report:
    """Make the copy of a record; `held` is global memory, `memory` what shared memory becomes, of which a load leaves
    out all but the first `used` of each 16 bytes, or holds before."""
    words = np.array((*record.coordinates, 0, 0, 0, 0)[:5], np.int64).astype(np.uint32)
    map_ = wsemu.TensorMap.of(held, record.fields)
    sizes = len(memory), record.offset, record.fields.tile_bytes
    copy = kernel(len(record.coordinates), record.mode, used)
    return wsemu.check(copy, 1, block, (map_, memory, *sizes, *words), dynamic_shared=len(memory), engine=engine)


def differing(record: Record, engine: Engine = "vm", block: int = 128) -> tuple[int, wsemu.Report]:
    """How many bytes of the memory that a copy writes are not as the hardware left them, and what the launch was
    told."""
    fields, image = record.fields, np.frombuffer(record.image, np.uint8)
    rows = fields.tile_bytes // fields.row_bytes
    end = max(record.offset + rows * fields.pitch, record.size if record.mode == LOAD else 0)
    held, size = np.array(pattern(GLOBAL)), -(-end // 128) * 128
    memory = np.zeros(size, np.uint8) if record.mode == LOAD else np.array(pattern(SHARED, START)[:size])
    report = launched(record, held, memory, engine, block)
    result, low = (memory, 0) if record.mode == LOAD else (held, record.low)
    if record.size > len(image):  # the end of it was not kept
        return int(np.count_nonzero(result[low : low + len(image)] != image)), report
    expected = np.full(size, UNTOUCHED, np.uint8) if record.mode == LOAD else np.array(pattern(GLOBAL))
    expected[low : low + len(image)] = image
    return int(np.count_nonzero(result != expected)), report
