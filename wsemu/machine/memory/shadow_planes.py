"""The host's side of shadow memory: the planes of cells, and the sets of accesses to which cells refer.

Compiled code stops when it needs more room: `refine` gives a segment finer cells, for an access that is smaller than
any before it, and `sweep` makes room for sets. The system maps memory of planes only when it is touched, so that unused
cells cost nothing.

Instead of planes, large segments may have windows (`shadow.note_range`), which fit into the CPU's caches. They need no
clearing, and of the accesses of earlier CTAs they keep only the range.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.machine import state as layout
from wsemu.machine.memory.cell_bits import MOMENT_SHIFT, MOMENTS, READERS, SET, SET_NUMBERS, WARP_SHIFT
from wsemu.machine.state import NOWHERE, WINDOW, address_of, sparse_zeros
from wsemu.model.data import NamedTuple
from wsemu.model.isa import FIRST_ARRAY, LANES, SHARED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    Cells = npt.NDArray[np.int64]
    Stretch = tuple[int, int]
    """from the first to behind the last"""
    Suspects = dict[int, "Suspected"]
    """segment -> where lanes of a warp may conflict"""

MARGIN = 64
"""number of cells before and after a plane, because 32 are read at once"""
FIRST_SETS = 1 << 13
MANY_SETS = 1 << 17
ACCESS_SETS = 1 << 10
"""maximum number of sets that one access creates: two for each of 16 bytes of 32 lanes, in cells of one byte"""
FIRST_MOMENTS = 1 << 8
MANY_MOMENTS = 1 << 13
SET_ELEMENTS = 140
"""maximum number of elements of a set: a read and atomics of two widths, for each of 32 warps and for other CTAs; and
41 of asynchronous operations"""
ACCESS_RECORDS = 1 << 14
"""maximum number of records that one access creates: a `wgmma` reads 8,704 bytes"""

WINDOWS_FROM = 1 << 18
"""minimum bytes of a segment with a window: its planes would not fit into the caches"""
KEPT_BYTES = 1 << 25
"""maximum bytes of planes that are kept for the next launch: memory that was touched before is several times faster"""
RESTING_BYTES = 1 << 27
"""maximum touched bytes of planes that stay with their machines between launches: the next launch then finds memory
that the system has already mapped"""


class Pool:
    """Zeroed arrays from earlier launches, by size."""

    def __init__(self) -> None:
        self._free: dict[int, list[Cells]] = {}
        self._bytes = 0
        self._lock = threading.Lock()

    def take(self, n: int) -> Cells:
        """Return n zeros, or up to an eighth more."""
        unit = 1 << max(0, n.bit_length() - 4)
        size = -(-n // unit) * unit
        try:
            cells = self._free[size].pop()
        except (KeyError, IndexError):
            return sparse_zeros(size, np.int64)
        with self._lock:
            self._bytes -= cells.nbytes
        return cells

    def has_room(self, cells: Cells) -> bool:
        return self._bytes + cells.nbytes <= KEPT_BYTES

    def give(self, cells: Cells, low: int, high: int) -> None:
        """Take back an array that was touched from low to high - 1."""
        if self.has_room(cells):
            cells[low:high] = 0
            with self._lock:
                self._free.setdefault(len(cells), []).append(cells)
                self._bytes += cells.nbytes


POOL = Pool()


class Room:
    """The memory that the planes of all machines together keep between launches."""

    def __init__(self, most: int) -> None:
        self._left = most
        self._lock = threading.Lock()

    def take(self, n: int) -> bool:
        """Reserve n bytes, and return whether there was room for them."""
        with self._lock:
            if n > self._left:
                return False
            self._left -= n
            return True

    def give(self, n: int) -> None:
        with self._lock:
            self._left += n

    def has(self, n: int) -> bool:
        return n <= self._left


ROOM = Room(RESTING_BYTES)


class _Resting(NamedTuple):
    """The planes of a segment between two launches of a kind: all their cells are empty."""

    number: int
    size: int
    """size of the segment, in bytes"""
    grain: int
    writes: Cells
    reads: Cells
    marks: npt.NDArray[np.uint8]
    stretches: tuple[Stretch, ...]
    """ranges of cells that any launch has touched"""

    @property
    def held_bytes(self) -> int:
        """Return the bytes that the system has mapped."""
        return 16 * sum(high - low for low, high in self.stretches)

    def leave(self) -> None:
        ROOM.give(self.held_bytes)
        POOL.give(self.writes, 0, 0)
        POOL.give(self.reads, 0, 0)


class Suspected(NamedTuple):
    """The bytes of a segment at which lanes of a warp may conflict."""

    grain: int
    """log2 of the bytes of its cells"""
    marks: npt.NDArray[np.uint8]
    """1 for each of these bytes"""
    parts: Sequence[Stretch] = ()
    """the only ranges that may have marks; empty: the whole segment"""

    def bytes(self) -> Cells:
        """Return the offsets of these bytes."""
        if not self.parts:
            return find_marked(self.marks)
        return np.concatenate([low + find_marked(self.marks[low:high]) for low, high in self.parts])


class _Window(NamedTuple):
    """Cells of a large segment, for one CTA at a time."""

    size: int
    """size of the segment, in bytes"""
    grain: int
    writes: Cells
    reads: Cells
    marks: npt.NDArray[np.uint8]

    def open(self, segment: Any) -> None:
        segment["grain"], segment["start"] = self.grain, NOWHERE
        segment["window_writes"] = address_of(self.writes) + 8 * MARGIN
        segment["window_reads"] = address_of(self.reads) + 8 * MARGIN
        segment["marks"] = address_of(self.marks)


class Planes:
    """Shadow memory of one machine."""

    def __init__(
        self,
        segments: npt.NDArray[Any],
        state: npt.NDArray[Any],
        suspects: Suspects | None = None,
        width: int = 1,
        windowed: bool = False,
        readers: bool = False,
        marks: bool = True,
        parts: Sequence[Stretch] = (),
    ) -> None:
        """Create planes for the segments of a machine.

        `suspects` are the bytes where an earlier run found that lanes may conflict: there, this run checks lanes
        exactly. `width` is the number of warps that may be alive, in units of 32. If `windowed`, large segments have
        windows. `readers`: cells may be READERS. `marks`: this run records suspects. `parts` are the ranges of the
        bytes of shared memory that CTAs have: nothing accesses the gaps between them.
        """
        self.parts = parts
        self.records_suspects = marks
        self.windowed = windowed
        self.windows: dict[int, _Window] = {}
        self.elements_of_set = width * SET_ELEMENTS
        self.segments, self.state = segments, state
        self.writes: dict[int, Cells] = {}
        self.reads: dict[int, Cells] = {}
        self.marks: dict[int, npt.NDArray[np.uint8]] = {}
        self.watched: list[Cells] = []
        self.exact = suspects is not None
        if suspects is not None:
            self._watch(suspects)
        self._resting: list[_Resting] = []
        self._extents: dict[int, tuple[Stretch, ...]] = {}
        """cells of the reused planes that earlier launches have touched"""
        self._left: dict[int, list[Stretch]] = {}
        """cells that earlier CTAs have touched, outside of the range of the current ones: see `move`"""
        self._make_sets(FIRST_SETS, 8 * FIRST_SETS)
        self.moments: npt.NDArray[np.int64] = np.zeros((0, LANES), np.int64)
        if readers:
            self._make_moments(FIRST_MOMENTS)
        self._first_elements = len(self.elements)

    def refine(self, number: int, size: int) -> bool:
        """Give segment `number` cells of `size` bytes, or finer ones than it has, and keep their contents.

        Return False if the segment has a window, whose grain cannot change.
        """
        segment = self.segments[number]
        grain, before = size.bit_length() - 1, int(segment["grain"])
        if self.windowed and number >= FIRST_ARRAY and segment["bytes"] >= WINDOWS_FROM:
            return before < 0 and self._open_window(number, grain)
        n = -(-int(segment["bytes"]) // size) + 2 * MARGIN
        for planes, name in ((self.writes, "writes"), (self.reads, "reads")):
            cells = POOL.take(n)
            if before >= 0:
                old, finer = self.inner(planes[number], number), before - grain
                for low, high in self.touched_cells(number):
                    cells[MARGIN + (low << finer) : MARGIN + (high << finer)] = np.repeat(old[low:high], 1 << finer)
                self._give_back(planes[number], number)
            planes[number] = cells
            segment[name] = address_of(cells) + 8 * MARGIN
        if segment["high"]:
            segment["low"] <<= before - grain
            segment["high"] <<= before - grain
        if number in self._left:
            self._left[number] = [(low << before - grain, high << before - grain) for low, high in self._left[number]]
        segment["grain"] = grain
        if before < 0 and self.records_suspects:
            self.marks[number] = sparse_zeros(int(segment["bytes"]) + MARGIN, np.uint8)
            segment["marks"] = address_of(self.marks[number])
        return True

    def _open_window(self, number: int, grain: int) -> bool:
        segment = self.segments[number]
        marks = np.zeros(int(segment["bytes"]) + MARGIN, np.uint8)
        writes, reads = POOL.take(WINDOW + 2 * MARGIN), POOL.take(WINDOW + 2 * MARGIN)
        window = self.windows[number] = _Window(int(segment["bytes"]), grain, writes, reads, marks)
        window.open(segment)
        self.marks[number] = marks
        self.state[0]["windows"] = 1
        return True

    def suspects(self) -> Suspects:
        """Return the locations at which lanes of a warp may conflict."""
        if not self.state[0]["suspects"]:
            return {}
        parts = {SHARED: self.parts}
        return {
            number: Suspected(int(self.segments[number]["grain"]), marks, parts.get(number, ()))
            for number, marks in self.marks.items()
        }

    def _watch(self, suspects: Suspects) -> None:
        for number, found in suspects.items():
            grain, marks, _ = found
            cells = len(marks) >> grain
            heads = sparse_zeros(cells, np.int64)
            marked = found.bytes() >> grain
            heads[marked[marked < cells]] = 1
            self.watched.append(heads)
            segment = self.segments[number]
            segment["watched"], segment["watched_grain"] = address_of(heads), grain
        self.records = np.zeros(0, layout.LANE_ACCESS)
        self.state[0]["record_count"], self.state[0]["record_free"] = 2, 1
        self._make_records(8 * ACCESS_RECORDS)

    def _make_records(self, n: int) -> None:
        state, records = self.state[0], np.zeros(n, layout.LANE_ACCESS)
        records[: len(self.records)] = self.records
        self.records = records
        state["records"], state["record_room"] = address_of(records), n - ACCESS_RECORDS

    def inner(self, cells: Cells, number: int) -> Cells:
        """Return a plane without its margins."""
        segment = self.segments[number]
        return cells[MARGIN : MARGIN + (int(segment["bytes"]) >> int(segment["grain"]))]

    def _give_back(self, cells: Cells, number: int) -> None:
        if POOL.has_room(cells):
            for low, high in self.touched_cells(number):
                cells[MARGIN + low : MARGIN + high] = 0
            POOL.give(cells, 0, 0)

    def move(self) -> None:
        """Prepare for CTAs that are far from the previous ones: the touched range must not include what is between
        them."""
        for number in (*self.writes, *self.windows):
            self._left[number] = self.touched_cells(number)
            segment = self.segments[number]
            segment["low"], segment["high"] = NOWHERE, 0
            segment["start"], segment["passed"] = NOWHERE, 0

    def touched_cells(self, number: int) -> list[Stretch]:
        """Return the ranges of a segment's cells that a run has touched."""
        segment = self.segments[number]
        high = max(int(segment["high"]), int(segment["passed"]))
        low = int(segment["low"])
        if number in self.windows:
            low = min(low, int(segment["start"]))
        found = [*self._left.get(number, ()), *([(low, high)] if high else [])]
        if number != SHARED or len(self.parts) < 2:
            return found
        grain = int(segment["grain"])
        parts = [(start >> grain, -(-end >> grain)) for start, end in self.parts]
        pairs = [(max(a, start), min(b, end)) for a, b in found for start, end in parts]
        return [(low, high) for low, high in pairs if low < high]

    def rest(self, size: int) -> bool:
        """Return to the state before a run; return False if the sets have grown.

        Planes stay for the next run if all accesses have `size` bytes, because each run then uses the same cells; 0
        means that sizes differ.
        """
        if self.exact or self.capacity != FIRST_SETS or len(self.elements) != self._first_elements:
            return False
        if len(self.moments) > FIRST_MOMENTS:
            return False
        state = self.state[0]
        self._rest_windows(size.bit_length() - 1 if size and not state["suspects"] else -1)
        if size and not state["suspects"]:
            self._rest_planes(size.bit_length() - 1)
        self._leave_planes()
        self._left.clear()
        self.marks.clear()
        self.sets[: int(state["set_count"])] = 0
        self.elements[: int(state["element_count"])] = 0
        self.moments[: int(state["moment_count"])] = 0
        if state["set_count"]:
            self.memo.view(np.int64)[:] = 0
        return True

    def held_bytes(self) -> int:
        """Return the bytes of the planes that the run has touched."""
        return 16 * sum(high - low for number in self.writes for low, high in self.touched_cells(number))

    def _rest_planes(self, grain: int) -> None:
        """Clear planes with cells of this grain, and keep them for `again` if there is room."""
        for number in [number for number in self.writes if self.segments[number]["grain"] == grain]:
            touched = self.touched_cells(number)
            size = int(self.segments[number]["bytes"])
            resting = _Resting(
                number, size, grain, self.writes[number], self.reads[number], self.marks[number],
                _merge_stretches([*touched, *self._extents.pop(number, ())]),
            )  # fmt: skip
            if ROOM.take(resting.held_bytes):
                for low, high in touched:
                    resting.writes[MARGIN + low : MARGIN + high] = 0
                    resting.reads[MARGIN + low : MARGIN + high] = 0
                self._resting.append(resting)
                del self.writes[number], self.reads[number]
        self._extents.clear()

    def _rest_windows(self, grain: int) -> None:
        """Keep windows with cells of this grain, and close the others."""
        for number in [number for number, window in self.windows.items() if window.grain != grain]:
            self._close_window(number)

    def _close_window(self, number: int) -> None:
        window = self.windows.pop(number)
        POOL.give(window.writes, 0, len(window.writes))
        POOL.give(window.reads, 0, len(window.reads))

    def again(self) -> None:
        """Use the kept planes for another run, whose segments have their final sizes."""
        for number in [*self.windows]:
            if self.segments[number]["bytes"] != self.windows[number].size:
                self._close_window(number)
                continue
            self.windows[number].open(self.segments[number])
            self.marks[number] = self.windows[number].marks
            self.state[0]["windows"] = 1
        for resting in self._resting:
            segment = self.segments[resting.number]
            if segment["bytes"] != resting.size:
                resting.leave()
                continue
            ROOM.give(resting.held_bytes)
            number = resting.number
            self._extents[number] = resting.stretches
            self.writes[number], self.reads[number], self.marks[number] = resting.writes, resting.reads, resting.marks
            segment["grain"] = resting.grain
            segment["writes"] = address_of(resting.writes) + 8 * MARGIN
            segment["reads"] = address_of(resting.reads) + 8 * MARGIN
            segment["marks"] = address_of(resting.marks)
        self._resting.clear()

    def _leave_planes(self) -> None:
        for planes in (self.writes, self.reads):
            for number, cells in planes.items():
                self._give_back(cells, number)
            planes.clear()

    def close(self) -> None:
        """Return the memory to the pool."""
        self._leave_planes()
        for number in [*self.windows]:
            self._close_window(number)
        for resting in self._resting:
            resting.leave()
        self._resting.clear()
        state = self.state[0]
        POOL.give(self.sets, 0, int(state["set_count"]))
        POOL.give(self.elements, 0, int(state["element_count"]))
        POOL.give(self.moments.reshape(-1), 0, int(state["moment_count"]) * LANES)
        memo = self.memo.view(np.int64)
        POOL.give(memo, 0, len(memo) if state["set_count"] else 0)

    def _make_sets(self, capacity: int, elements: int) -> None:
        """Make room for this number of sets, and elements of sets, and for the records of one more access."""
        state = self.state[0]
        self.capacity = capacity
        self.sets = POOL.take(capacity)
        self.elements = POOL.take(elements + ACCESS_SETS * self.elements_of_set)
        self.memo = POOL.take(4 * 2 * capacity).view(layout.MEMO)
        state["sets"], state["elements"] = address_of(self.sets), address_of(self.elements)
        state["memo"], state["memo_mask"] = address_of(self.memo), len(self.memo) - 1
        state["set_room"] = capacity - ACCESS_SETS
        state["element_room"] = elements
        state["set_count"] = state["element_count"] = 0

    def _make_moments(self, n: int) -> None:
        """Make room for n moments."""
        state = self.state[0]
        self.moments = POOL.take(n * LANES)[: n * LANES].reshape(n, LANES)
        state["readers"], state["moments"], state["moment_room"] = 1, address_of(self.moments), n - 1

    def _planes_of_reads(self) -> list[Cells]:
        return [*self.reads.values(), *(self._window_reads(number) for number in self.windows)]

    def _sweep_moments(self) -> None:
        """Make room for moments, as `sweep` does for sets."""
        state, before = self.state[0], self.moments
        planes = self._planes_of_reads()
        inside = [_cells_of_kind(cells, READERS) for cells in planes]
        numbers = [cells[at] >> MOMENT_SHIFT & MOMENTS for cells, at in zip(planes, inside, strict=True)]
        live = np.unique(np.concatenate(numbers))
        if len(before) < MANY_MOMENTS or len(live) > len(before) // 2:
            self._make_moments(2 * len(before))
        count = int(state["moment_count"])
        self.moments[: len(live)] = before[live]
        self.moments[len(live) : count] = 0  # even if the array stays: memory that is given back must be zero there
        state["moment_count"] = len(live)
        for cells, at, old in zip(planes, inside, numbers, strict=True):
            cells[at] += (np.searchsorted(live, old) - old) << MOMENT_SHIFT
        self.memo.view(np.int64)[:] = 0  # the cache for cells that were replaced by sets

    def sweep(self) -> None:
        """Make room for sets, by enlarging the table or, beyond a size, by removing sets to which no cell refers.

        Afterwards, at least half of the room for sets and for elements is free.
        """
        state = self.state[0]
        if state["moment_count"] > state["moment_room"]:
            self._sweep_moments()
        wanted = int(state["record_count"] + state["record_needs"])
        if self.exact and wanted > state["record_room"]:
            self._make_records(max(2 * len(self.records), wanted + ACCESS_RECORDS))
        if state["set_count"] <= state["set_room"] and state["element_count"] <= state["element_room"]:
            return
        sets, elements = self.sets[: int(state["set_count"])], self.elements[: int(state["element_count"])]
        room = int(state["element_room"])
        if self.capacity < MANY_SETS and 2 * len(elements) <= 8 * MANY_SETS:
            self._make_sets(2 * self.capacity, max(2 * room, 2 * len(elements)))
            self._put(sets, elements)
            return
        planes = self._planes_of_reads()
        inside = [_cells_of_kind(cells, SET) for cells in planes]
        numbers = [(cells[at] >> WARP_SHIFT) & SET_NUMBERS for cells, at in zip(planes, inside, strict=True)]
        live = np.unique(np.concatenate(numbers)) if numbers else np.zeros(0, np.int64)
        starts, lengths = sets[live] >> 16, sets[live] & 0xFFFF
        ends = np.cumsum(lengths)
        kept = np.repeat(starts - ends + lengths, lengths) + np.arange(int(lengths.sum()))
        self._make_sets(self.capacity * (2 if len(live) > self.capacity // 2 else 1), max(room, 2 * len(kept)))
        self._put((ends - lengths) << 16 | lengths, elements[kept])
        for cells, at, old in zip(planes, inside, numbers, strict=True):
            cells[at] &= ~(SET_NUMBERS << WARP_SHIFT)
            cells[at] |= np.searchsorted(live, old) << WARP_SHIFT

    def _window_reads(self, number: int) -> Cells:
        """Return the cells of reads that the current CTA has in a window."""
        segment = self.segments[number]
        first = MARGIN - int(segment["window"])
        low, high = (int(segment[name]) for name in ("low", "high"))
        return self.windows[number].reads[first + low : first + high] if high else np.zeros(0, np.int64)

    def _put(self, sets: Cells, elements: Cells) -> None:
        self.sets[: len(sets)] = sets
        self.elements[: len(elements)] = elements
        self.state[0]["set_count"], self.state[0]["element_count"] = len(sets), len(elements)

    @property
    def nbytes(self) -> int:
        """Return the bytes of the planes without margins."""
        return sum(self.inner(c, n).nbytes for planes in (self.writes, self.reads) for n, c in planes.items())


def _cells_of_kind(cells: Cells, kind: int) -> Cells:
    """Return the cells that are SET or READERS; these are few, and only they are negative."""
    found = np.flatnonzero(cells < 0)
    chosen: Cells = found[cells[found] & READERS == kind]
    return chosen


def find_marked(marks: npt.NDArray[np.uint8]) -> Cells:
    """Return the indices of the bytes that are not 0, of which there are few."""
    whole = len(marks) & ~7
    words = np.flatnonzero(marks[:whole].view(np.int64))
    inside = (8 * words[:, None] + np.arange(8)).ravel()
    return np.concatenate((inside[marks[inside] != 0], whole + np.flatnonzero(marks[whole:])))


def merge_suspects(found: list[Suspects]) -> Suspects:
    """Return the suspects of several machines that ran different CTAs of a launch."""
    result: Suspects = {}
    for suspects in found:
        for number, one in suspects.items():
            known = result.get(number) or one._replace(marks=sparse_zeros(len(one.marks), np.uint8))
            known.marks[one.bytes()] = 1
            result[number] = known._replace(grain=min(known.grain, one.grain))
    return result


def covers(suspects: Suspects, others: Suspects) -> bool:
    """Return whether suspects include all others."""
    for number, one in others.items():
        found = one.bytes()
        if len(found) and (number not in suspects or not suspects[number].marks[found].all()):
            return False
    return True


def _merge_stretches(stretches: Sequence[Stretch]) -> tuple[Stretch, ...]:
    """Return the cells of the stretches, each once, in order."""
    found: list[Stretch] = []
    for low, high in sorted(stretches):
        if found and low <= found[-1][1]:
            found[-1] = found[-1][0], max(high, found[-1][1])
        else:
            found.append((low, high))
    return tuple(found)


def overlapping(planes: list[Planes], number: int) -> Iterator[tuple[Planes, Planes, int, int]]:
    """Yield pairs of machines that may have touched the same bytes of a segment, with the range of these bytes.

    If the segment has a window, a machine may form a pair with itself, for two separate ranges.
    """
    touched = []
    for p in planes:
        grain = int(p.segments[number]["grain"])
        touched += [
            (low << grain, high << grain, p) for low, high in p.touched_cells(number) if grain >= 0 and low < high
        ]
    touched.sort(key=lambda one: one[:2])
    for k, (_, high, first) in enumerate(touched):
        for low, other_high, second in touched[k + 1 :]:
            if low >= high:
                break
            if first is not second or number in first.windows:
                yield first, second, low, min(high, other_high)


def collide(first: Planes, second: Planes, number: int, low: int, high: int) -> bool:
    """Return whether two machines that ran different CTAs touched one cell of a segment from byte `low` to before
    `high`, and one of them wrote it.

    A window counts as such a cell, because its contents are gone. A launch with atomics runs on one machine, so planes
    of reads contain only plain reads here.
    """
    if number in first.windows or number in second.windows:
        return True
    finest = min(int(p.segments[number]["grain"]) for p in (first, second))
    low, high = low >> finest, -(-high >> finest)
    a, b = (_finest(p, number, first, second) for p in (first, second))
    (a_writes, a_reads), (b_writes, b_reads) = ([plane[low:high] for plane in pair] for pair in (a, b))
    return bool(
        ((a_writes != 0) & ((b_writes != 0) | (b_reads != 0))).any() or ((a_reads != 0) & (b_writes != 0)).any()
    )


def _finest(planes: Planes, number: int, first: Planes, second: Planes) -> tuple[Cells, Cells]:
    finest = min(int(p.segments[number]["grain"]) for p in (first, second))
    if int(planes.segments[number]["grain"]) > finest:
        planes.refine(number, 1 << finest)
    return planes.inner(planes.writes[number], number), planes.inner(planes.reads[number], number)
