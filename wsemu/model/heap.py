"""The heap of the device, as the front end and the launch know it: what addresses of blocks are made of."""

from __future__ import annotations

from typing import Literal

from wsemu.model.isa import SEGMENT_SHIFT

Part = Literal["bytes", "owners", "sizes", "threads", "info"]
"""an array of the heap, as `wsemu.frontend.ptx.heap.Heap` has them"""
DTYPES: dict[Part, str] = {"bytes": "u1", "owners": "u4", "sizes": "u8", "threads": "u8", "info": "u8"}
SIZE = 8 << 20
"""bytes of the heap where a program asks for no other size (`cudaLimitMallocHeapSize`)"""
UNIT = 64
"""bytes that memory is given out by; behind each block one is left free"""
GONE = 1 << 63
"""mark in the size of a block: it was freed"""
STEP = 16
"""bytes that one store of `free` covers, and that sizes are rounded up to where they are counted"""
NUMBER = 1 << 15
"""the segment that addresses of blocks name, which no memory has: what does not look for the block leaves memory"""
SERIAL_SHIFT, SERIALS = 32, 256
"""position, in such an address, of the launch that allocated the block; number of launches"""
KIND_SHIFT = 57
"""position of the kind in an address that represents a mistake; the sign bit keeps it out of memory"""
BEYOND, FREED, FREED_ALREADY, NO_BLOCK = range(4)
"""an access outside of a block, or to one that was freed; `free` of one that was freed, or of what is none"""
PART, LIMIT, SERIAL, END = range(4)
"""entries of `info`: bytes of a thread's part, bytes of the heap, first bits of the addresses of blocks, bytes of
memory"""
USED, LIVE, MOST, WORDS = range(4)
"""entries of `threads` for each thread: used bytes of its part, bytes of its blocks, maximum of these"""
OUTGROWN = "the part of the heap's memory that each thread has here is used up"
"""first words of the reason for which a launch ends and runs again with more memory"""


def mistake(address: int) -> tuple[int, int] | None:
    """(which, byte of the heap) of an address that stands for a mistake; None of any other one.

    `address` is signed, or not.
    """
    address &= (1 << 64) - 1
    kind, place = address >> KIND_SHIFT & 3, address & (1 << KIND_SHIFT) - 1
    if not address >> 63 or place >> SEGMENT_SHIFT != NUMBER:
        return None
    return kind, place & (1 << SERIAL_SHIFT) - 1
