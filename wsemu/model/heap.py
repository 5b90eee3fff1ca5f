"""Layout of the device heap (`malloc` in kernels), shared by the front end and the launch: addresses of blocks, and the
arrays that describe them."""

from __future__ import annotations

from typing import Literal

from wsemu.model.isa import SEGMENT_SHIFT

Part = Literal["bytes", "owners", "sizes", "threads", "info"]
"""names of the arrays of the heap; see `wsemu.frontend.ptx.heap.Heap`"""
DTYPES: dict[Part, str] = {"bytes": "u1", "owners": "u4", "sizes": "u8", "threads": "u8", "info": "u8"}
SIZE = 8 << 20
"""default size of the heap, in bytes (`cudaLimitMallocHeapSize`)"""
UNIT = 64
"""unit of allocation, in bytes; one unit after each block stays free"""
GONE = 1 << 63
"""flag in the size of a block that was freed"""
STEP = 16
"""bytes that one store of `free` covers; counted sizes are rounded up to it"""
NUMBER = 1 << 15
"""segment number in addresses of blocks.  It has no memory, so an access that does not look up the block is out of
bounds"""
SERIAL_SHIFT, SERIALS = 32, 256
"""position of the launch number in an address of a block (the launch that allocated it); number of possible launch
numbers"""
KIND_SHIFT = 57
"""position of the kind in an address that represents a mistake; the sign bit keeps such an address out of memory"""
BEYOND, FREED, FREED_ALREADY, NO_BLOCK = range(4)
"""mistakes: an access outside of a block, an access to a freed block, `free` of a freed block, `free` of another
address"""
PART, LIMIT, SERIAL, END = range(4)
"""entries of `info`: bytes of a thread's part, bytes of the heap, first bits of the addresses of blocks, bytes of
memory"""
USED, LIVE, MOST, WORDS = range(4)
"""entries of `threads` for each thread: used bytes of its part, bytes of its blocks, maximum of these"""
OUTGROWN = "the part of the heap's memory that each thread has here is used up"
"""first words of the reason for which a launch ends and runs again with more memory"""


def mistake(address: int) -> tuple[int, int] | None:
    """Return (kind, byte of the heap) of an address that represents a mistake; None for any other address.

    `address` may be signed or unsigned.
    """
    address &= (1 << 64) - 1
    kind, place = address >> KIND_SHIFT & 3, address & (1 << KIND_SHIFT) - 1
    if not address >> 63 or place >> SEGMENT_SHIFT != NUMBER:
        return None
    return kind, place & (1 << SERIAL_SHIFT) - 1
