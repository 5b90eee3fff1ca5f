"""Device memory whose addresses the client of a launch knows: allocations that outlive launches.

Each allocation begins a window of 2**40 bytes, so that an address names its segment and an offset there, as it does
everywhere in the machine: a pointer is the same number in host code, in memory and in a register.  What lies between
two allocations is no memory.  The host and the emulator share the bytes.
"""

from __future__ import annotations

import bisect
import operator
import weakref
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from wsemu.model.bound import NO_MEMORY, BoundArray, PartlyWritten
from wsemu.model.data import NamedTuple, dataclass
from wsemu.model.errors import UsageError, check_int
from wsemu.model.isa import FIRST_ARRAY, OFFSET_MASK, SEGMENT_SHIFT

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    Bytes = npt.NDArray[np.uint8]

FIRST_WINDOW, LOW_WINDOWS, WINDOWS = 16, 128, 1 << 14
"""the first window of an allocation: those before are of launches; the number of windows that the user space of x86-64
has, of 47 bits; and the number that addresses have"""
RAW = np.dtype("V1")
"""the type of bytes whose type nobody has specified"""
Kind = Literal["allocated", "placed"]


@dataclass(slots=True)
class Allocation:
    """A stretch of device memory."""

    address: int
    bytes: int
    name: str
    kind: Kind
    """whether `DeviceMemory` chose the address, or the client did"""
    data: Bytes
    """the bytes, shared with the host; none if the memory is freed"""
    written: Bytes | None
    """a 1 for each byte that holds a value; None if all do"""
    freed: bool = False
    owner: weakref.ref[Bytes] | None = None
    """the bytes of freed memory, as long as an array of the host still uses them"""

    @property
    def window(self) -> int:
        """Number of the window, which is that of its segment in a launch."""
        return self.address >> SEGMENT_SHIFT

    @property
    def end(self) -> int:
        """Address after the last byte."""
        return self.address + self.bytes


class Placed(NamedTuple):
    """An address as a distance in an allocation."""

    allocation: Allocation
    offset: int
    """in bytes; negative, or beyond the last one, if the address is outside"""


class Layout(NamedTuple):
    """The allocations as launches have them."""

    segments: list[tuple[Bytes, Any]]
    """from FIRST_ARRAY on: bytes, and whether they may be written"""
    arrays: dict[int, BoundArray]
    """by segment"""
    blank: frozenset[int]
    """segments with unwritten bytes"""


class DeviceMemory:
    """An address space for launches: what the client allocates, with the addresses that it stores and passes.

        memory = wsemu.DeviceMemory()
        x, table = memory.allocate(4 * n), memory.allocate(8)
        memory.write(table, np.uint64(x))
        wsemu.check(kernel, grid, block, (table, n), memory=memory)

    A number that is an address may be passed as a pointer, stored in memory, or be computed by a kernel.  Memory that
    was allocated is unwritten until the host writes it (`write`, `mark_written`) or a launch does; that is kept from
    launch to launch.  An access outside every allocation, or to one that was freed, is `out-of-bounds`.
    """

    def __init__(self) -> None:
        self._live: dict[int, Allocation] = {}
        """window -> the allocation there, in the order of windows"""
        self._freed: dict[int, Allocation] = {}
        """window -> the last one that was there, in the order of `free`"""
        self._next = FIRST_WINDOW
        self._hosts: list[tuple[int, int, int]] | None = None
        """host addresses of the first byte and after the last one, and the window, in order; None: to be made"""
        self._layout: Layout | None = None

    def __iter__(self) -> Iterator[Allocation]:
        """The allocations by address, without those that were freed."""
        return iter(self._live.values())

    def allocate(self, size: int, name: str = "") -> int:
        """Allocate so many unwritten bytes, and return their address, a multiple of 256: `cudaMalloc`."""
        size = _check_size(size)
        return self._enter(self._free_window() << SEGMENT_SHIFT, "allocated", np.zeros(size, np.uint8), name, False)

    def place(self, address: int, data: npt.NDArray[Any], name: str = "", *, written: bool = True) -> int:
        """Take a contiguous array of the host's as device memory at an address that the client chose.

        `written=False`: its contents count as not yet written.  The address begins a window: it is a multiple of 2**40,
        from 2**44 up to, not including, 2**54.
        """
        window = _to_int(address) >> SEGMENT_SHIFT
        if address & OFFSET_MASK or not FIRST_WINDOW <= window < WINDOWS:
            raise UsageError(f"place: address {address:#x}: give a multiple of 2**40 from 2**44 to below 2**54")
        if window in self._live:
            raise UsageError(f"place: address {address:#x} is that of `{self._live[window].name}`: free it first")
        _check_shareable(data)
        return self._enter(address, "placed", data.reshape(-1).view(np.uint8), name, written)

    def free(self, address: int) -> None:
        """Free an allocation: each access from now on is `out-of-bounds`, and reported as one to freed memory."""
        window = _to_int(address) >> SEGMENT_SHIFT
        allocation = self._live.get(window)
        if allocation is None or allocation.address != address:
            gone = self._freed.get(window)
            again = f", which was `{gone.name}`, is freed already" if gone and gone.address == address else ""
            raise UsageError(f"free: address {address:#x}{again or ' begins no allocation'}")
        del self._live[window]
        allocation.freed, allocation.owner = True, weakref.ref(allocation.data)
        allocation.data, allocation.written = NO_MEMORY, None
        self._freed[window] = allocation
        self._hosts = self._layout = None

    def find(self, address: int) -> Allocation | None:
        """Return the allocation that has the byte at an address, or None."""
        allocation = self._live.get(address >> SEGMENT_SHIFT)
        return allocation if allocation is not None and address < allocation.end else None

    def nearest(self, address: int) -> Placed | None:
        """Return the allocation, live or freed, that an address outside of all belongs to most likely, or None."""
        window = address + (1 << SEGMENT_SHIFT - 1) >> SEGMENT_SHIFT  # also one before its first byte
        allocation = self._live.get(window) or self._freed.get(window)
        return Placed(allocation, address - allocation.address) if allocation is not None else None

    def view(self, address: int, dtype: npt.DTypeLike = np.uint8, count: int | None = None) -> npt.NDArray[Any]:
        """Return the memory from an address on as an array that shares its bytes, of `count` elements or up to the end
        of the allocation; passed to a launch, it is that address."""
        allocation = self._allocation(address, "view")
        given = np.dtype(dtype)
        there = allocation.data[address - allocation.address :]
        most = there.size // given.itemsize
        if count is not None and not 0 <= count <= most:
            raise UsageError(f"view: {count:,} elements at {address:#x}: `{allocation.name}` has {most:,} from there")
        return there[: given.itemsize * (most if count is None else count)].view(given)

    def address_of(self, array: npt.NDArray[Any]) -> int:
        """Return the device address of an array that lies in this memory, such as a `view`."""
        first = int(array.ctypes.data)
        found = self.window_of(first, first + 1)
        if found is None:
            raise UsageError("address_of: the array lies outside of this memory: give a `view` of it")
        return (found[0] << SEGMENT_SHIFT) + found[1]

    def write(self, address: int, values: npt.ArrayLike) -> None:
        """Copy the bytes of an array, or of a NumPy number, to an address: `cudaMemcpy` to the device."""
        data = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        self._stretch(address, data.size, "write")[:] = data
        self.mark_written(address, data.size)

    def read(self, address: int, dtype: npt.DTypeLike, count: int) -> npt.NDArray[Any]:
        """Return a copy of `count` elements at an address: `cudaMemcpy` from the device."""
        given = np.dtype(dtype)
        return self._stretch(address, check_int(count, "count") * given.itemsize, "read").copy().view(given)

    def mark_written(self, address: int, size: int) -> None:
        """Declare bytes written that the host has stored to by itself, through a `view` or its own pointer."""
        if size:
            self._stretch(address, size, "mark_written")
            allocation = self._allocation(address, "mark_written")
            if allocation.written is not None:
                offset = address - allocation.address
                allocation.written[offset : offset + size] = 1
                if allocation.written.all():
                    allocation.written = self._layout = None

    # -- for launches --------------------------------------------------------------------------------------------------
    def window_of(self, first: int, end: int) -> tuple[int, int] | None:
        """Return the window and the offset of bytes of the host from `first` to before `end`; None if they are not all
        of one allocation."""
        if self._hosts is None:
            known = ((one.data.ctypes.data, window, one.bytes) for window, one in self._live.items() if one.bytes)
            self._hosts = sorted((int(host), int(host) + size, window) for host, window, size in known)
        at = bisect.bisect_right(self._hosts, first, key=lambda one: one[0]) - 1
        if at < 0 or end > self._hosts[at][1] or first >= self._hosts[at][1]:
            return None
        return self._hosts[at][2], first - self._hosts[at][0]

    def check_freed(self, array: npt.NDArray[Any], name: str) -> None:
        """UsageError for an array, an argument of this name, that lies in memory which was freed."""
        owners = ((one, one.owner()) for one in self._freed.values() if one.owner is not None)
        for one, data in owners:
            if data is not None and np.may_share_memory(data, array):
                raise UsageError(f"argument `{name}` is a view of `{one.name}`, which was freed")

    def layout(self) -> Layout:
        """Return the segments that the allocations are, and their descriptions."""
        if self._layout is None:
            segments: list[tuple[Bytes, Any]] = [(NO_MEMORY, True)] * (
                max(self._live, default=FIRST_ARRAY - 1) - FIRST_ARRAY + 1
            )
            for window, one in self._live.items():
                segments[window - FIRST_ARRAY] = one.data, True if one.written is None else PartlyWritten(one.written)
            arrays = {n: BoundArray(one.name, n, 0, (one.bytes,), (1,), RAW) for n, one in self._live.items()}
            blank = frozenset(n for n, one in self._live.items() if one.written is not None)
            self._layout = Layout(segments, arrays, blank)
        return self._layout

    def raw_view(self, address: int) -> npt.NDArray[Any] | None:
        """Return the memory from an address on as an array of bytes without a type; None if there is none."""
        allocation = self.find(address)
        return None if allocation is None else allocation.data[address - allocation.address :].view(RAW)

    def enter_written(self, written: dict[int, Bytes | None], blank: frozenset[int]) -> None:
        """Note what a launch has written of the windows `blank`, which it began with unwritten bytes in; one that
        `written` lacks was not watched."""
        for window in blank:
            allocation = self._live.get(window)
            if allocation is not None and allocation.written is not None:
                now = written.get(window)
                allocation.written = None if now is None or now.all() else now
                self._layout = None

    def _enter(self, address: int, kind: Kind, data: Bytes, name: str, written: bool) -> int:
        marks = None if written or not data.size else np.zeros(data.size, np.uint8)
        window = address >> SEGMENT_SHIFT
        self._freed.pop(window, None)
        self._live[window] = Allocation(address, data.size, name or f"{address:#x}", kind, data, marks)
        if next(reversed(self._live)) != max(self._live):
            self._live = dict(sorted(self._live.items()))
        self._hosts = self._layout = None
        return address

    def _free_window(self) -> int:
        """Return a window: one that was never used as long as addresses have 47 bits, then the one that was freed
        first, then any."""
        while self._next in self._live:
            self._next += 1
        if self._next >= LOW_WINDOWS and self._freed:
            return next(iter(self._freed))
        if self._next >= WINDOWS:
            raise UsageError(f"more than {len(self._live):,} allocations: free some, or allocate larger ones")
        self._next += 1
        return self._next - 1

    def _allocation(self, address: int, what: str) -> Allocation:
        allocation = self.find(_to_int(address))
        if allocation is None:
            raise UsageError(f"{what}: {self.describe(address)}")
        return allocation

    def _stretch(self, address: int, size: int, what: str) -> Bytes:
        """Return bytes, all of one allocation."""
        if size == 0:
            return np.zeros(0, np.uint8)
        allocation = self._allocation(address, what)
        offset = address - allocation.address
        if not 0 < size <= allocation.bytes - offset:
            raise UsageError(
                f"{what}: {size:,} bytes at byte {offset:,} of `{allocation.name}`, which has {allocation.bytes:,}"
            )
        return allocation.data[offset : offset + size]

    def describe(self, address: int) -> str:
        """Return where an address outside of every allocation is, as a part of a sentence."""
        near = self.nearest(address)
        if near is None:
            return f"the address is {address:#x}, in no allocation"
        gone = " and is freed" if near.allocation.freed else ""
        return (
            f"the address is byte {near.offset:,} of `{near.allocation.name}`, which has {near.allocation.bytes:,} "
            f"bytes{gone}"
        )


def _check_shareable(data: object) -> None:
    """UsageError for what is no memory that launches can share with the client."""
    if not isinstance(data, np.ndarray) or not data.flags.c_contiguous or data.dtype.hasobject:
        raise UsageError("place: give a contiguous NumPy array of numbers or records")
    if not data.flags.writeable:
        raise UsageError("place: the array is read-only: launches share its bytes; give a writable one")


def _check_size(size: int) -> int:
    if not 0 < check_int(size, "size") <= OFFSET_MASK:
        raise UsageError(f"size={size}: allocate 1 byte or more, up to 2**40 - 1")
    return int(size)


def _to_int(address: int) -> int:
    """Return an address as an int, also of NumPy's types."""
    try:
        return operator.index(address)
    except TypeError:
        raise UsageError(f"address is {address!r}, of type {type(address).__name__}: give an int") from None
