"""Device memory with fixed addresses: allocations that outlive launches, at addresses that the caller knows.

An allocation is at the start of a window of 2**40 bytes, so an address consists of a segment and an offset in it, as
everywhere in the machine.  A pointer is the same number in host code, in memory and in a register.  Bytes between two
allocations are not memory.  The host and the emulator share the bytes.  Allocations of an arena share a window and a
segment.  In an arena, the machine checks for each lane of an access whether it is inside an allocation.
"""

from __future__ import annotations

import bisect
import mmap
import operator
import sys
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.model.bound import NO_MEMORY, Allocated, BoundArray
from wsemu.model.data import NamedTuple, dataclass, field, replace
from wsemu.model.errors import UsageError, check_int
from wsemu.model.isa import FIRST_ARRAY, OFFSET_MASK, SEGMENT_SHIFT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    Bytes = npt.NDArray[np.uint8]

FIRST_WINDOW, LOW_WINDOWS, WINDOWS = 16, 128, 1 << 14
"""number of the first window for allocations (launches use the windows before it); number of windows in the 47-bit user
space of x86-64; number of windows in the address space"""
ALIGNMENT = 256
"""alignment of allocations in bytes, and minimum number of free bytes between two allocations of an arena"""
RAW = np.dtype("V1")
"""dtype of bytes whose type is unspecified"""


@dataclass(slots=True)
class Allocation:
    """A contiguous block of device memory."""

    address: int
    bytes: int
    name: str
    data: Bytes
    """the bytes, shared with the host; empty after the memory is freed"""
    written: Bytes | None
    """a 1 for each initialized byte; None if all are"""
    unwritten: int = 0
    """number of bytes that are still uninitialized"""
    hull: list[int] = field(default_factory=lambda: [0, 0])
    """offsets, in bytes, of the first byte that holds a value and of the end of the last one"""
    freed: bool = False

    @property
    def window(self) -> int:
        """Return the number of the window, which is also the number of its segment in a launch."""
        return self.address >> SEGMENT_SHIFT

    @property
    def offset(self) -> int:
        """Return the distance from the start of the window, in bytes."""
        return self.address & OFFSET_MASK

    @property
    def end(self) -> int:
        """Return the address after the last byte."""
        return self.address + self.bytes

    def replicate(self, data: Bytes) -> Allocation:
        """Return a copy with these bytes."""
        written = None if self.written is None else self.written.copy()
        return replace(self, data=NO_MEMORY if self.freed else data, written=written, hull=[*self.hull])


@dataclass(slots=True)
class Window:
    """The allocations of a window: a single one at its start, or those of an arena by address.  Freed allocations are
    included."""

    data: Bytes
    """the bytes of the window, from its start"""
    allocations: list[Allocation]
    covered: Bytes | None = None
    """for an arena, a 1 for each byte of an allocation"""
    written: Bytes | None = None
    """for an arena, a 1 for each initialized byte"""

    def live(self) -> list[Allocation]:
        """Yield the allocations that are not freed."""
        return [one for one in self.allocations if not one.freed]

    def at(self, address: int) -> Allocation | None:
        """Return the last allocation, live or freed, that begins at or before an address."""
        number = bisect.bisect_right(self.allocations, address, key=lambda one: one.address) - 1
        return self.allocations[number] if number >= 0 else None

    def replicate(self, contents: Bytes) -> Window:
        """Return a copy with these bytes as its segment."""
        size = contents.size
        if self.covered is None or self.written is None:
            data = np.array(contents)
            return Window(data, [one.replicate(data) for one in self.allocations])
        data = _sparse_zeros(self.data.size)  # arrays may extend past the last allocation
        data[:size] = contents
        covered, written = self.covered[:size].copy(), self.written[:size].copy()
        made = Window(data, [], covered, written)
        for one in self.allocations:
            part = slice(one.offset, one.offset + one.bytes)
            made.allocations.append(one.replicate(data[part]))
            if one.written is not None:
                made.allocations[-1].written = written[part]
        return made

    def segment(self) -> tuple[Bytes, Any]:
        """Return the bytes, and whether they may be written, in the form that launches use."""
        live = self.live()
        if not live:
            return NO_MEMORY, True
        if self.covered is None or self.written is None:
            one = live[0]
            return one.data, True if one.written is None else Allocated(one.written, hull=one.hull)
        end = live[-1].offset + live[-1].bytes
        written = None if all(one.written is None for one in live) else self.written[:end]
        return self.data[:end], Allocated(written, self.covered[:end])


class Layout(NamedTuple):
    """The allocations in the form that launches use."""

    segments: list[tuple[Bytes, Any]]
    """bytes of each segment from FIRST_ARRAY on, and whether they may be written"""
    arrays: list[BoundArray]
    blank: frozenset[int]
    """segments that contain uninitialized bytes"""


@dataclass(slots=True)
class _Cache:
    """Data derived from the allocations; an entry that is None must be computed again."""

    layout: Layout | None = None
    hosts: list[tuple[int, int, int]] | None = field(default=None)
    """(host address of the first byte, host address after the last byte, window) for each window, sorted"""
    bindings: dict[Any, Any] = field(default_factory=dict)
    """the bindings that `wsemu.launch.binding_again` keeps"""


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
        self._windows: dict[int, Window] = {}
        self._next = FIRST_WINDOW
        self._freed: dict[int, None] = {}
        """windows whose only allocation is freed, in the order of `free`"""
        self._views: list[tuple[weakref.ref[Bytes], str]] = []
        """freed memory that arrays of the host still use, each with the name that it had"""
        self._cache = _Cache()

    def __iter__(self) -> Iterator[Allocation]:
        """Yield the allocations by address, without freed ones."""
        return (one for window in sorted(self._windows) for one in self._windows[window].live())

    # -- allocation ----------------------------------------------------------------------------------------------------
    def allocate(self, size: int, name: str = "", *, arena: int = 0) -> int:
        """Allocate uninitialized bytes, and return their address, a multiple of 256: `cudaMalloc`.

        `arena` is the address of one to allocate in.
        """
        size = _check_size(size)
        if arena:
            window = self._arena(arena)
            return self._enter_in_arena(window, self._find_room(window, size), size, name, written=False)
        address = self._free_window() << SEGMENT_SHIFT
        return self._enter(address, np.zeros(size, np.uint8), name, written=False)

    def place(self, address: int, data: npt.NDArray[Any] | int, name: str = "", *, written: bool = True) -> int:
        """Take memory of the client as an allocation at an address that the client chose, and return the address.

        `data` is a contiguous array of the host's, and the address a multiple of 2**40, from 2**44 to below 2**54; or
        it is a number of bytes, and the address one in an arena.  `written=False`: its contents count as not yet
        written.
        """
        address = _to_int(address)
        if isinstance(data, int):
            window = self._windows.get(address >> SEGMENT_SHIFT)
            if window is None or window.covered is None:
                raise UsageError(f"place: address {address:#x} is in no arena: give an array, or `add_arena` first")
            return self._enter_in_arena(window, address, _check_size(data), name, written)
        self._check_window(address, "place")
        _check_shareable(data)
        self._check_unshared(data, "place")
        return self._enter(address, data.reshape(-1).view(np.uint8), name, written)

    def add_arena(self, address: int, data: npt.NDArray[Any]) -> int:
        """Take memory of the client, in which allocations lie side by side: those of `place` with a number of bytes,
        and of `allocate` with `arena=`.  Return the address, a multiple of 2**40.

        Nothing in an arena is memory of launches but its allocations.  Accesses there are slower than elsewhere.
        """
        address = _to_int(address)
        self._check_window(address, "add_arena")
        _check_shareable(data)
        self._check_unshared(data, "add_arena")
        whole = data.reshape(-1).view(np.uint8)
        covered, written = _sparse_zeros(whole.size), _sparse_zeros(whole.size)
        self._windows[address >> SEGMENT_SHIFT] = Window(whole, [], covered, written)
        self._cache = _Cache()
        return address

    def free(self, address: int) -> None:
        """Free an allocation.  From now on, each access to it is reported as `out-of-bounds`, in freed memory."""
        address = _to_int(address)
        window = self._windows.get(address >> SEGMENT_SHIFT)
        one = window.at(address) if window is not None else None
        if window is None or one is None or one.address != address:
            raise UsageError(f"free: address {address:#x} begins no allocation")
        if one.freed:
            raise UsageError(f"free: address {address:#x}, which was `{one.name}`, is freed already")
        if window.covered is not None:
            window.covered[one.offset : one.offset + one.bytes] = 0
        else:
            self._freed[one.window] = None
            self._views.append((weakref.ref(one.data), one.name))
            window.data = NO_MEMORY
        one.freed, one.data, one.written = True, NO_MEMORY, None
        self._cache = _Cache()

    # -- what the host does --------------------------------------------------------------------------------------------
    def find(self, address: int) -> Allocation | None:
        """Return the allocation that has the byte at an address, or None."""
        window = self._windows.get(address >> SEGMENT_SHIFT)
        one = window.at(address) if window is not None else None
        return one if one is not None and not one.freed and address < one.end else None

    def view(self, address: int, dtype: npt.DTypeLike = np.uint8, count: int | None = None) -> npt.NDArray[Any]:
        """Return an array that shares the bytes of the memory from an address on, with `count` elements or up to the
        end of the allocation.  Passed to a launch, the array stands for that address."""
        one = self._allocation(address, "view")
        given = np.dtype(dtype)
        there = one.data[address - one.address :]
        most = there.size // given.itemsize
        if count is not None and not 0 <= count <= most:
            raise UsageError(f"view: {count:,} elements at {address:#x}: `{one.name}` has {most:,} from there")
        return there[: given.itemsize * (most if count is None else count)].view(given)

    def address_of(self, array: npt.NDArray[Any]) -> int:
        """Return the device address of an array in this memory, such as a `view`."""
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
        """Record that the host has written bytes through a `view` or through its own pointer."""
        if size:
            self._stretch(address, size, "mark_written")
            one = self._allocation(address, "mark_written")
            self._mark(one, address - one.address, size, 1)

    def mark_all_written(self) -> None:
        """Count all bytes as initialized, because it is unknown which bytes a launch that ended early would have
        written."""
        for one in self:
            if one.written is not None:
                self._mark(one, 0, one.bytes, 1)

    # -- for launches --------------------------------------------------------------------------------------------------
    def layout(self) -> Layout:
        """Return the allocations as segments of a launch, with their descriptions."""
        if self._cache.layout is None:
            segments: list[tuple[Bytes, Any]] = [(NO_MEMORY, True)] * (max(self._windows, default=2) - FIRST_ARRAY + 1)
            for number, window in self._windows.items():
                segments[number - FIRST_ARRAY] = window.segment()
            arrays = [BoundArray(one.name, one.window, one.offset, (one.bytes,), (1,), RAW) for one in self]
            blank = frozenset(one.window for one in self if one.written is not None)
            self._cache.layout = Layout(segments, arrays, blank)
        return self._cache.layout

    def bindings(self) -> dict[Any, Any]:
        """Return the bindings of launches that use this `layout`: a dictionary that a change of the layout empties."""
        return self._cache.bindings

    def replicate(self, contents: Sequence[Bytes]) -> DeviceMemory:
        """Return a copy at the same addresses, with these contents of the segments of `layout`."""
        made = DeviceMemory()
        for number, window in self._windows.items():
            made._windows[number] = window.replicate(contents[number - FIRST_ARRAY])
        return made

    def find_counterpart(self, array: npt.NDArray[Any], other: DeviceMemory) -> npt.NDArray[Any]:
        """Return the array at the same address of another memory.  Return an array outside of this memory unchanged."""
        first, end = _host_bounds(array)
        found = self._sharing(first, end)
        if found is None:
            return array
        offset = int(array.ctypes.data) - found[0]
        return np.ndarray(array.shape, array.dtype, other._windows[found[2]].data.data, offset, array.strides)

    def has_segment(self, number: int) -> bool:
        """Return whether a segment of a launch is one of this memory."""
        return number in self._windows

    def is_arena(self, address: int) -> bool:
        """Return whether an address is in the window of an arena."""
        window = self._windows.get(address >> SEGMENT_SHIFT)
        return window is not None and window.covered is not None

    def window_of(self, first: int, end: int) -> tuple[int, int] | None:
        """Return the window and the offset of the host bytes from `first` up to `end`, or None if they are not all in
        one window."""
        found = self._sharing(first, end)
        if found is None or first < found[0] or end > found[1]:
            return None
        return found[2], first - found[0]

    def raw_view(self, address: int) -> npt.NDArray[Any] | None:
        """Return the memory from an address on as an array of untyped bytes, or None if nothing is allocated there."""
        one = self.find(address)
        return None if one is None else one.data[address - one.address :].view(RAW)

    def check_argument(self, array: npt.NDArray[Any], name: str) -> None:
        """Raise UsageError if an array argument of this name is in freed memory, or only partly in this memory."""
        first, end = _host_bounds(array)
        found = self._sharing(first, end)
        if found is not None and not (found[0] <= first and end <= found[1]):
            raise UsageError(
                f"argument `{name}` shares {min(end, found[1]) - max(first, found[0]):,} of its {end - first:,} bytes "
                f"with device memory at {found[2] << SEGMENT_SHIFT:#x}: pass a `view`, or a copy of the array"
            )
        self._views = [(owner, of) for owner, of in self._views if owner() is not None]
        for owner, of in self._views:
            data = owner()
            if data is not None and found is None and np.may_share_memory(data, array):
                raise UsageError(f"argument `{name}` is a view of `{of}`, which was freed")

    def enter_written(self, written: dict[int, Bytes], blank: frozenset[int]) -> None:
        """Record which bytes a launch has written in the windows `blank`, which had uninitialized bytes before.  A
        window that is not in `written` was not tracked."""
        for number in blank & self._windows.keys():
            for one in self._windows[number].live():
                if one.written is None:
                    continue
                now = written.get(number)
                low, high = (0, one.bytes) if now is None else _hull(now[one.offset : one.offset + one.bytes])
                marks = 1 if now is None else now[one.offset + low : one.offset + high]
                self._mark(one, low, high - low, marks)

    def nearest(self, address: int) -> tuple[Allocation, int] | None:
        """Return the live or freed allocation to which an address outside of all allocations most likely belongs, and
        the distance from its start in bytes.  Return None if its window has no allocation."""
        # an allocation also claims addresses before its first byte
        number = address + (1 << SEGMENT_SHIFT - 1) >> SEGMENT_SHIFT
        window = self._windows.get(number)
        if window is None or not window.allocations:
            return None

        def rank(one: Allocation) -> tuple[bool, int, bool]:
            distance = max(one.address - address, address - one.end + 1, 0)
            live_first = one.freed and distance > 0
            return live_first or distance > _NEAR, distance, one.freed

        one = min(window.allocations, key=rank)
        return one, address - one.address

    # -- inside --------------------------------------------------------------------------------------------------------
    def _sharing(self, first: int, end: int) -> tuple[int, int, int] | None:
        """Return the first window that shares host bytes in the range from `first` up to `end`, as (first byte of the
        host, end, window); None if there is none."""
        if self._cache.hosts is None:
            known = ((int(w.data.ctypes.data), w.data.size, number) for number, w in self._windows.items())
            self._cache.hosts = sorted((host, host + size, number) for host, size, number in known if size)
        hosts = self._cache.hosts
        number = bisect.bisect_right(hosts, first, key=lambda one: one[1])
        return hosts[number] if first < end and number < len(hosts) and hosts[number][0] < end else None

    def _check_unshared(self, data: npt.NDArray[Any], what: str) -> None:
        """Raise UsageError for memory of the caller that is device memory already: a byte has only one address."""
        found = self._sharing(*_host_bounds(data))
        if found is not None:
            raise UsageError(
                f"{what}: the array shares bytes with device memory at {found[2] << SEGMENT_SHIFT:#x}: free that "
                "first, or give a copy"
            )

    def _mark(self, one: Allocation, offset: int, size: int, written: Bytes | int) -> None:
        """Record that bytes of an allocation are initialized: those with a 1 in `written`, which begins at an
        offset."""
        if one.written is None or not size:
            return
        marks = one.written[offset : offset + size]
        one.hull[:] = min(offset, one.hull[0]) if one.hull[1] else offset, max(offset + size, one.hull[1])
        before = np.count_nonzero(marks)
        marks |= written
        one.unwritten -= int(np.count_nonzero(marks) - before)
        if not one.unwritten:
            one.written, self._cache = None, _Cache()

    def _check_window(self, address: int, what: str) -> None:
        """Raise UsageError unless a free window begins at an address."""
        number = address >> SEGMENT_SHIFT
        if address & OFFSET_MASK or not FIRST_WINDOW <= number < WINDOWS:
            raise UsageError(f"{what}: address {address:#x}: give a multiple of 2**40 from 2**44 to below 2**54")
        window = self._windows.get(number)
        if window is not None and window.covered is not None:
            raise UsageError(f"{what}: address {address:#x} is that of an arena")
        for one in window.live() if window is not None else ():
            raise UsageError(f"{what}: address {address:#x} is that of `{one.name}`: free it first")

    def _enter(self, address: int, data: Bytes, name: str, written: bool) -> int:
        """Record an allocation that has a window of its own."""
        number = address >> SEGMENT_SHIFT
        self._freed.pop(number, None)
        marks = None if written or not data.size else np.zeros(data.size, np.uint8)
        one = Allocation(address, data.size, name or f"{address:#x}", data, marks, 0 if marks is None else data.size)
        self._windows[number] = Window(data, [one])
        self._cache = _Cache()
        return address

    def _enter_in_arena(self, window: Window, address: int, size: int, name: str, written: bool) -> int:
        """Record an allocation of an arena, and forget freed allocations at its address."""
        assert window.covered is not None
        assert window.written is not None
        start = address & OFFSET_MASK
        part = slice(start, start + size)
        if part.stop > window.data.size:
            raise UsageError(f"{size:,} bytes at byte {start:,} of an arena, which has {window.data.size:,}")
        known = window.allocations
        first = last = bisect.bisect_left(known, address, key=lambda one: one.address)
        first -= first > 0 and known[first - 1].end > address
        while last < len(known) and known[last].address < address + size:
            last += 1
        for one in known[first:last]:
            if not one.freed:
                raise UsageError(f"place: {size:,} bytes at {address:#x} overlap `{one.name}`: free it first")
        window.covered[part], window.written[part] = 1, written
        made = Allocation(address, size, name or f"{address:#x}", window.data[part], None)
        made.written, made.unwritten = (None, 0) if written else (window.written[part], size)
        known[first:last] = [made]
        self._cache = _Cache()
        return address

    def _arena(self, address: int) -> Window:
        """Return the arena at an address.  Raise UsageError if no arena is there."""
        window = self._windows.get(_to_int(address) >> SEGMENT_SHIFT)
        if window is None or window.covered is None:
            raise UsageError(f"arena={address:#x}: no arena is there: `add_arena` first")
        return window

    def _find_room(self, window: Window, size: int) -> int:
        """Return an address for an allocation in an arena: after all allocations if possible, otherwise between live
        ones."""
        number = next(n for n, one in self._windows.items() if one is window)
        base = number << SEGMENT_SHIFT
        top, live = base + window.data.size, window.live()
        last = window.allocations[-1].end if window.allocations else base - ALIGNMENT
        starts = [base, *(_next_place(one.end) for one in live)]
        between = zip(starts, [*(one.address - ALIGNMENT for one in live), top], strict=True)
        for start, end in ((_next_place(last), top), *between):
            if start + size <= end:
                return start
        raise UsageError(f"no room for {size:,} bytes in the arena at {base:#x}, which has {window.data.size:,}")

    def _free_window(self) -> int:
        """Return the number of a free window.  Prefer one that was never used and has 47-bit addresses, then the one
        that was freed first, then any other."""
        while self._next in self._windows:
            self._next += 1
        if self._next >= LOW_WINDOWS and self._freed:
            return next(iter(self._freed))
        if self._next >= WINDOWS:
            raise UsageError(f"more than {len(self._windows):,} allocations: free some, or allocate larger ones")
        self._next += 1
        return self._next - 1

    def _allocation(self, address: int, what: str) -> Allocation:
        one = self.find(_to_int(address))
        if one is None:
            raise UsageError(f"{what}: {self._describe(address)}")
        return one

    def _stretch(self, address: int, size: int, what: str) -> Bytes:
        """Return bytes, all of one allocation."""
        if size == 0:
            return NO_MEMORY
        one = self._allocation(address, what)
        offset = address - one.address
        if not 0 < size <= one.bytes - offset:
            raise UsageError(f"{what}: {size:,} bytes at byte {offset:,} of `{one.name}`, which has {one.bytes:,}")
        return one.data[offset : offset + size]

    def _describe(self, address: int) -> str:
        """Return a phrase that locates an address outside of every allocation."""
        near = self.nearest(address)
        if near is None:
            return f"the address is {address:#x}, in no allocation"
        one, offset = near
        gone = " and is freed" if one.freed else ""
        return f"the address is byte {offset:,} of `{one.name}`, which has {one.bytes:,} bytes{gone}"


_NEAR = 1 << 20
"""bytes from a live allocation within which an address belongs to it rather than to a freed one that is nearer"""
_NO_RESERVE = 0x4000 if sys.platform == "linux" else 0
"""MAP_NORESERVE, a name that `mmap` provides since Python 3.13"""


def _sparse_zeros(size: int) -> Bytes:
    """Return zeros that take memory only after they are written."""
    if not size or not hasattr(mmap, "MAP_PRIVATE"):
        return np.zeros(size, np.uint8)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", _NO_RESERVE)
    return np.frombuffer(mmap.mmap(-1, size, flags), np.uint8)


def _host_bounds(array: npt.NDArray[Any]) -> tuple[int, int]:
    """Return the host address of the first byte of an array, and the address after its last byte.  The two are equal if
    it is empty."""
    if not array.size:
        return 0, 0
    low, high = np.lib.array_utils.byte_bounds(array)
    return low, high


def _hull(written: Bytes) -> tuple[int, int]:
    """Return the position of the first 1, and the position after the last 1; 0 and 0 if all are 0."""
    marks = written.view(np.bool_)
    first = int(marks.argmax()) if marks.size else 0
    if not marks.size or not marks[first]:
        return 0, 0
    return first, marks.size - int(marks[::-1].argmax())


def _next_place(end: int) -> int:
    """Return the first address at which an allocation may begin after one that ends at this address."""
    return -(-(end + ALIGNMENT) // ALIGNMENT) * ALIGNMENT


def _check_shareable(data: object) -> None:
    """Raise UsageError for an object whose memory launches cannot share with the caller."""
    if not isinstance(data, np.ndarray) or not data.flags.c_contiguous or data.dtype.hasobject:
        raise UsageError("place: give a contiguous NumPy array of numbers or records")
    if not data.flags.writeable:
        raise UsageError("place: the array is read-only: launches share its bytes; give a writable one")


def _check_size(size: int) -> int:
    if not 0 < check_int(size, "size") <= OFFSET_MASK:
        raise UsageError(f"size={size}: allocate 1 byte or more, up to 2**40 - 1")
    return int(size)


def _to_int(address: int) -> int:
    """Return an address, which may have a NumPy type, as an int."""
    try:
        return operator.index(address)
    except TypeError:
        raise UsageError(f"address is {address!r}, of type {type(address).__name__}: give an int") from None
