"""Matrices in shared memory that a descriptor describes, as `tcgen05.mma` and `tcgen05.cp` read them.

PTX ISA, "Shared memory matrix layout", "Shared memory descriptor"; the swizzles are those of `wgmma` (rule W12).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.model.data import dataclass
from wsemu.model.isa import OFFSET_MASK, READ, SEGMENT_SHIFT, SHARED
from wsemu.reference.memory.bounds import locate
from wsemu.reference.memory.thread_shadow import ThreadWatch, Touch
from wsemu.reference.sync import peers

if TYPE_CHECKING:
    from wsemu.reference.memory.bounds import Place
    from wsemu.reference.memory.thread_shadow import Conflict
    from wsemu.reference.run import Cta
    from wsemu.reference.warp import WarpRun

PIECE = 16
VERSION, SWIZZLE, RESERVED, SHAPE, TYPES, SPARSITY, LAYOUT, LANE = range(1, 9)
"""error numbers for the descriptors of an operation"""
_SWIZZLES = {0: (16, 0, 0), 1: (128, 3, 5), 2: (128, 7, 4), 4: (64, 3, 4), 6: (32, 1, 4)}
"""swizzle -> (bytes of a row, mask of the line's address bits that are exclusive-ored, distance by which they are
shifted)"""


@dataclass(frozen=True, slots=True)
class Source:
    """A matrix in shared memory, as rows of pieces of 16 bytes.  If `turned`, consecutive elements of `size` bytes
    belong to different rows."""

    descriptor: int
    rows: range
    pieces: int = 2
    turned: bool = False
    size: int = 1
    bits: int = 0
    """size of an element in bits if it is less than a byte; such elements are in groups of 16 bytes"""

    @property
    def swizzle(self) -> int:
        return self.descriptor >> 61 & 7

    def wrong(self, *, for_copy: bool = False, dense: bool = False) -> int:
        """Return the error in the descriptor, or 0.  `dense` means 4-bit elements without padding."""
        if self.descriptor >> 46 & 7 != 1:
            return VERSION
        if any(self.descriptor >> bit & 1 for bit in (14, 15, 30, 31, *range(52, 61))):
            return RESERVED
        if self.swizzle not in _SWIZZLES or (for_copy and self.swizzle == 1):
            return SWIZZLE
        wide = self.turned and self.size == 4
        if not for_copy and ((self.swizzle == 1) != wide or (self.turned and (self.bits or dense))):
            return LAYOUT
        return 0

    def offset(self, row: int, k: int) -> int:
        """Return the offset of byte k of a row; if `turned`, of element k of a row."""
        d = self.descriptor
        start, leading, stride = (16 * (d >> at & 0x3FFF) for at in (0, 16, 32))
        width, mask, shift = _SWIZZLES[self.swizzle]
        if not self.turned:
            at = row // 8 * stride + row % 8 * width
            at += k // 16 * leading + k % 16 if width == 16 else k
        elif width == 16:
            along = 16 // self.size
            at = row // along * stride + row % along * self.size + k // 8 * leading + k % 8 * 16
        else:
            at = row * self.size // width * leading + row * self.size % width
            lines = 4 if self.swizzle == 1 else 8
            at += k // lines * stride + k % lines * width
        at += start
        return at ^ (at // 128 - (d >> 49 & 7) & mask) << shift

    def places(self) -> list[tuple[int, list[int]]]:
        """Return (offset of a piece of 16 bytes, rows that have a part in it), row after row."""
        if not self.turned:
            return [(self.offset(row, PIECE * q), [row]) for row in self.rows for q in range(self.pieces)]
        along, steps = 16 // self.size, PIECE * self.pieces // self.size
        return [
            (self.offset(first, k), [*range(first, first + along)])
            for first in self.rows[::along]
            for k in range(steps)
        ]

    def data(self, run: WarpRun, member: Cta) -> memoryview:
        """Return the shared memory of a CTA."""
        return memoryview(member.shared.data)[run.launch.shared_address(member.number) & OFFSET_MASK :]

    def element(self, data: memoryview, row: int, k: int) -> int:
        """Return the bits of an element; an element of less than a byte is in the high bits of a byte."""
        if self.bits:
            chunk = self.offset(row, k // 16 * 16)
            packed = int.from_bytes(data[chunk : chunk + 16], "little")
            return (packed >> self.bits * (k % 16) & ((1 << self.bits) - 1)) << 8 - self.bits
        at = self.offset(row, k if self.turned else k * self.size)
        return int.from_bytes(data[at : at + self.size], "little")

    def word(self, run: WarpRun, member: Cta, row: int, c: int, how: int) -> int:
        """Return the word that a cp writes to a column: four bytes, or with `how` four narrow elements in bytes."""
        data = self.data(run, member)
        chunk = self.offset(row, c // 4 * 16)
        if not how:
            return int.from_bytes(data[chunk + c % 4 * 4 : chunk + c % 4 * 4 + 4], "little")
        bits, up = (6, 0) if how == 1 else (4, 2)
        packed = int.from_bytes(data[chunk : chunk + 16], "little") >> bits * 4 * (c % 4)
        return sum((packed >> bits * j & ((1 << bits) - 1)) << up + 8 * j for j in range(4))


def locate_all(run: WarpRun, member: Cta, lane: int, source: Source) -> list[Place] | None:
    """Return the pieces of a matrix; report a part that must not be read, and return None."""
    found: list[Place] = []
    for offset, _ in source.places():
        address = run.launch.shared_address(member.number) + offset
        place = locate(run, address, lane, PIECE, writes=False, shared=True)
        if place is None:
            return None
        found.append(place)
    return found


def read_shared(run: WarpRun, member: Cta, lane: int, agent: int, source: Source, narrow: int = 0) -> set[int]:
    """Read a matrix as an asynchronous operation of a lane; return the rows whose used bytes are all initialized."""
    watch, cta, warp = run.launch.watch, run.cta, run.warp.number
    assert isinstance(watch, ThreadWatch)
    used = 2 * narrow if narrow else PIECE
    good = set(source.rows)
    found: list[Conflict] = []
    time = watch.order.time((cta.number, warp))
    now = Touch(READ, cta.number, warp, 0, time, run.group.pc, PIECE, 0, agent, True)
    written, start = member.shared.written, run.launch.shared_address(member.number)
    for offset, rows in source.places():
        at = (start & OFFSET_MASK) + offset
        if written is not None and not all(written[at : at + used]):
            good.difference_update(rows)
        address = (SHARED << SEGMENT_SHIFT) + at
        found += watch.touch_as_agent(now, lane, range(address, address + PIECE))
    watch.tell(run, run.group.pc, found)
    if member is not cta:
        peers.reach(run, run.launch.grouping.of(member.number)[1], 1 << lane, agent)
    return good
