"""A build of the VM that checks itself: `WSEMU_CHECKED=1`.

Before each load and store of compiled code at a host address, it checks that the address belongs to memory that this
process has given to the VM (`state.address_of` registers it). Any other access ends the process with a message. The
build has its own files in the cache, and is several times slower.

Not checked: masked loads and stores of diverged lanes, and functions of the C library.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
import threading
import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

CHECKED = os.environ.get("WSEMU_CHECKED") == "1"
PLACE = 0x6E5A00000000
"""address of the tables, the same in each process, so that cached code can contain it"""
_BUFFERS, ROOM, _FIRST = 16, 1 << 20, 4096


# -- the memory that compiled code may access ------------------------------------------------------------------------
class _Regions:
    """Ranges of memory, in tables that compiled code reads: all ranges, and the writable ones."""

    def __init__(self) -> None:
        self._held: dict[int, tuple[int, int, bool]] = {}
        self._lock = threading.RLock()
        self._turn = self._number = 0
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mmap.restype = ctypes.c_void_p
        libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *(ctypes.c_int,) * 3, ctypes.c_long)
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x100000  # MAP_FIXED_NOREPLACE
        size = _FIRST + _BUFFERS * ROOM
        found = libc.mmap(PLACE, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
        if found != PLACE:
            raise MemoryError("WSEMU_CHECKED: the tables of memory have no place")
        self._known: set[tuple[int, int, bool]] = set()

    def allow(self, low: int, high: int, writable: bool, owner: Any = None) -> None:
        """Add a range that is valid until its owner is gone."""
        region = (low, high, writable)
        with self._lock:
            if high <= low or region in self._known:
                return
            self._number += 1
            number = self._number
            self._held[number] = region
            self._known.add(region)
            self._write()
        if owner is not None:
            weakref.finalize(owner, self._drop, number)

    def _drop(self, number: int) -> None:
        with self._lock:
            region = self._held.pop(number)
            self._known.discard(region)
            self._write()

    def _write(self) -> None:
        self._turn = (self._turn + 1) % _BUFFERS
        start = PLACE + _FIRST + self._turn * ROOM
        for half, regions in enumerate((self._held.values(), [r for r in self._held.values() if r[2]])):
            merged: list[list[int]] = []
            for low, high, _ in sorted(regions):
                if merged and low <= merged[-1][1]:
                    merged[-1][1] = max(merged[-1][1], high)
                else:
                    merged.append([low, high])
            numbers = [len(merged), *(number for pair in merged for number in pair)]
            data = struct.pack(f"<{len(numbers)}q", *numbers)
            ctypes.memmove(start + half * (ROOM // 2), data, len(data))
        ctypes.memmove(PLACE, struct.pack("<q", start), 8)


_regions: _Regions | None = None


def allow(low: int, high: int, *, writable: bool, owner: Any = None) -> None:
    """Let compiled code access a range of memory."""
    global _regions
    if _regions is None:
        _regions = _Regions()
    _regions.allow(low, high, writable, owner)


def allowing(address_of: Callable[[npt.NDArray[Any]], int]) -> Callable[[npt.NDArray[Any]], int]:
    """Return the function that returns the address of an array.

    In a checked build, it also lets compiled code access the memory, as long as the array that owns it exists.
    """
    if not CHECKED:
        return address_of

    def allow_address(array: npt.NDArray[Any]) -> int:
        import numpy as np

        address = address_of(array)
        owner: Any = array
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        allow(address, address + array.nbytes, writable=array.flags.writeable, owner=owner)
        return address

    return allow_address
