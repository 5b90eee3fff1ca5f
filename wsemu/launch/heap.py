"""The heap of the device in a launch (`frontend.ptx.heap`): its arrays, and its notes in a report."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.model.data import NamedTuple
from wsemu.model.heap import DTYPES, GONE, MOST, NUMBER, OUTGROWN, SERIAL_SHIFT, SERIALS, STEP, UNIT, WORDS
from wsemu.model.isa import FIRST_ARRAY, SEGMENT_SHIFT

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from wsemu.launch.result import Report
    from wsemu.model.bound import Bound
    from wsemu.model.launch_shape import LaunchConfiguration
    from wsemu.model.outcome import Outcome
    from wsemu.model.program import Program

_FIRST, _LARGER = 1 << 9, 16
"""initial number of bytes of a thread's part of the memory, and the factor by which it grows when exhausted"""
_ROOM = 1 << 30
"""bytes of the memory of all threads, at most"""
_AT_ONCE = 1 << 20
"""words that are looked through together for addresses of blocks"""
_launches = itertools.count(1)
_ends: dict[int, int] = {}
"""bytes of memory of the last launch with these first bits in the addresses of its blocks"""


class Heap(NamedTuple):
    """The device heap of one launch."""

    part: int
    """bytes of each thread's memory"""
    arrays: Mapping[str, npt.NDArray[Any]]

    def segments(self, bound: Bound) -> frozenset[int]:
        """Return the segments of its arrays."""
        rows = [array.row for array in bound.program.constant_arrays if array.heap]
        return frozenset(int(bound.rows[row][1]) >> SEGMENT_SHIFT for row in rows)

    def others(self, bound: Bound) -> list[int]:
        """Return the writable segments that hold arrays of the host."""
        own = self.segments(bound)
        return [n for n, (_, writable) in enumerate(bound.segments) if writable and n + FIRST_ARRAY not in own]

    @property
    def larger(self) -> int:
        """Return the enlarged size of a thread's part; 0 if memory does not suffice."""
        threads = len(self.arrays["threads"]) // WORDS
        part = min(self.part * _LARGER, _ROOM // threads // UNIT * UNIT)
        return part if part > self.part else 0


def launch_heap(program: Program, configuration: LaunchConfiguration, limit: int, part: int = 0) -> Heap | None:
    """Return the heap of a launch, with `limit` bytes and `part` bytes for each thread; None for a kernel without a
    heap."""
    if not any(array.heap for array in program.constant_arrays):
        return None
    threads = configuration.ctas * configuration.threads
    part = part or min(_FIRST, max(_ROOM // threads // UNIT, 1) * UNIT)
    end = UNIT + part * threads
    serial = NUMBER << SEGMENT_SHIFT | next(_launches) % SERIALS << SERIAL_SHIFT
    _ends[serial >> SERIAL_SHIFT] = end
    sizes = {"bytes": end, "owners": -(-end // UNIT), "sizes": -(-end // UNIT), "threads": WORDS * threads}
    arrays = {name: np.zeros(size, DTYPES[name]) for name, size in sizes.items()}  # type: ignore[index]
    return Heap(part, arrays | {"info": np.array([part, limit, serial, end], np.uint64)})


def holds_blocks(bound: Bound) -> bool:
    """Return whether arguments, or the memory to which they lead, contain possible addresses of blocks of earlier
    launches."""
    if not _ends:
        return False
    values = [value for _, value in bound.rows.values() if isinstance(value, (int, np.integer))]
    passed = np.array([int(value) & (1 << 64) - 1 for value in values], np.uint64)
    return any(_has_block(np.asarray(data).view(np.uint8)) for data in (passed, *(data for data, _ in bound.segments)))


def _has_block(data: npt.NDArray[np.uint8]) -> bool:
    words = data[: data.size // 4 * 4].view(np.uint32)
    for start in range(0, words.size, _AT_ONCE):
        part = words[start : start + _AT_ONCE + 1]
        found = np.flatnonzero(part[1:] >> SEGMENT_SHIFT - 32 == NUMBER)
        if any(int(part[n]) < _ends.get(int(part[n + 1]), 0) for n in found):
            return True
    return False


def drop_sectors(bound: Bound, heap: Heap, outcome: Outcome) -> None:
    """Drop the sector counts of accesses to the heap, because the addresses of its blocks on a GPU are unknown."""
    own = heap.segments(bound)
    for count in outcome.accesses.values():
        worst = count.worst_sectors
        if worst is not None and worst.segment in own:
            count.sectors = count.ideal_sectors = 0
            count.worst_sectors = None


def outgrown(bound: Bound, outcome: Outcome) -> bool:
    """Return whether the run ended as a thread's part of the memory was used up."""
    if not outcome.is_trap or bound.heap is None:
        return False
    trap = int(bound.program.code[outcome.fault_pc, 6])
    return trap < len(bound.program.traps) and bound.program.traps[trap].startswith(OUTGROWN)


def add_heap_notes(report: Report, heap: Heap) -> Report:
    """Return the report with notes on the heap."""
    threads = heap.arrays["threads"].reshape(-1, WORDS)
    limit, most = int(heap.arrays["info"][1]), int(threads[:, MOST].sum())
    sizes = heap.arrays["sizes"]
    left = int((-(-sizes[sizes < GONE].astype(np.int64) // STEP) * STEP).sum())
    notes = list(report.notes)
    changed: dict[str, Any] = {}
    if most > limit:
        notes.append(
            f"blocks of up to {most:,} bytes at once, of a heap of {limit:,}: whether `malloc` gives null depends on "
            "the schedule; ask for a larger heap (`--heap`, cudaLimitMallocHeapSize)"
        )
        if report.verdict == "verified":
            changed = {"verdict": "incomplete", "reasons": ["heap"], "proof": ""}
    if left:
        notes.append(f"{left:,} bytes of the heap were not freed")
    return report.model_copy(update={**changed, "notes": notes}) if len(notes) > len(report.notes) else report
