"""Launches that repeat an earlier one: the same kernel, shape and arguments on the same memory have the same outcome.

Programs repeat a launch to measure its time.  After its second run, the memory before and after a launch is kept, if a
comparison takes less time than another run.  An equal launch on equal memory then has the same result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.model.data import NamedTuple, dataclass

if TYPE_CHECKING:
    from collections.abc import Hashable

    from wsemu.launch.result import Report
    from wsemu.model.bound import Bound
    from wsemu.model.device_memory import Allocation, Bytes, DeviceMemory
    from wsemu.model.outcome import Tracer

MIN_SECONDS = 0.003
"""time of a run below which a launch runs again"""
BYTES_PER_SECOND = 1 << 29
"""number of bytes that may be kept for each second of a run; they are copied once or twice, and compared faster than
this"""
MAX_BYTES = 1 << 29
"""maximum number of bytes that are kept for all launches"""
MAX_KNOWN = 1000
"""maximum number of different launches"""
MAX_MISSES = 2
"""number of times in a row that a launch may find other memory; after that, comparing its memory stops"""
CHUNK = 1 << 20


class Outcome(NamedTuple):
    """The result of a launch that ran to its end."""

    report: Report
    bound: Bound
    places: Any
    tracer: Tracer


State = dict[int, tuple["Bytes", "Bytes | None"]]
"""contents and marks of written bytes of each allocation, by address"""


@dataclass(slots=True)
class _Known:
    """A launch that has run at least once, and took longer than `MIN_SECONDS`."""

    seconds: float = 0.0
    misses: int = 0
    outcome: Outcome | None = None
    before: State | None = None
    changed: dict[int, Bytes] | None = None
    """contents after the launch of the allocations that it changed, by address"""

    def forget(self) -> None:
        """Drop the outcome and the memory."""
        self.outcome = self.before = self.changed = None

    @property
    def bytes(self) -> int:
        """Return the number of bytes that are kept."""
        before = sum(data.nbytes for data, _ in (self.before or {}).values())
        return before + sum(data.nbytes for data in (self.changed or {}).values())


class Repeats:
    """The launches of a process, and the memory before and after each one that may repeat."""

    def __init__(self, memory: DeviceMemory) -> None:
        self._memory = memory
        self._known: dict[Hashable, _Known] = {}
        self._before: State | None = None
        """the memory before the launch that runs now, if its outcome may be kept"""

    def find(self, key: Hashable) -> Outcome | None:
        """Return the outcome of an equal launch on equal memory, and change the memory as that launch did."""
        known = self._get(key)
        if known is None or known.outcome is None or known.before is None:
            return None
        if not self._is_as(known.before):
            known.misses += 1
            known.forget()
            return None
        for address, contents in (known.changed or {}).items():
            self._memory.view(address, count=contents.size)[:] = contents
        known.misses = 0
        return known.outcome

    def begin(self, key: Hashable) -> None:
        """Prepare for a launch that is about to run."""
        known = self._get(key)
        self._before = None
        if known is None or known.misses >= MAX_MISSES or known.seconds < MIN_SECONDS:
            return
        size = sum(one.bytes for one in self._memory)
        if 2 * size <= min(known.seconds * BYTES_PER_SECOND, MAX_BYTES):
            self._before = {one.address: (one.data.copy(), _copy(one.written)) for one in self._memory}

    def end(self, key: Hashable, seconds: float, outcome: Outcome | None) -> None:
        """Record a launch that has run; `outcome` is None if it may not be repeated."""
        before, self._before = self._before, None
        known = self._get(key)
        if known is None:
            if seconds < MIN_SECONDS or outcome is None:
                return
            known = self._known[key] = _Known()
            if len(self._known) > MAX_KNOWN:
                del self._known[next(iter(self._known))]
        known.seconds = seconds
        if outcome is None or before is None or not self._has_marks(before):
            return
        self._make_room()
        known.outcome, known.before = outcome, before
        known.changed = {
            one.address: one.data.copy() for one in self._memory if not _are_equal(one.data, before[one.address][0])
        }

    def _get(self, key: Hashable) -> _Known | None:
        return self._known.get(key) if self._known else None  # the hash of a key takes a while

    def _make_room(self) -> None:
        kept = [known for known in self._known.values() if known.before is not None]
        size = sum(known.bytes for known in kept)
        for known in kept:
            if size <= MAX_BYTES // 2:
                break
            size -= known.bytes
            known.forget()

    def _is_as(self, state: State) -> bool:
        """Return whether memory is as in a state."""
        return self._has_marks(state) and all(_are_equal(one.data, state[one.address][0]) for one in self._memory)

    def _has_marks(self, state: State) -> bool:
        """Return whether memory has the allocations of a state, with the same written bytes."""
        found: list[Allocation] = [*self._memory]
        return len(found) == len(state) and all(
            one.address in state and one.bytes == state[one.address][0].size
            and _are_equal(one.written, state[one.address][1])
            for one in found
        )  # fmt: skip


def _copy(array: Bytes | None) -> Bytes | None:
    return None if array is None else array.copy()


def _are_equal(one: Bytes | None, other: Bytes | None) -> bool:
    """Return whether two arrays of one size have the same bytes; None equals None alone."""
    if one is None or other is None:
        return one is other
    whole = one.size // 8 * 8
    words: tuple[Any, Any] = one[:whole].view(np.uint64), other[:whole].view(np.uint64)
    return bool((one[whole:] == other[whole:]).all()) and all(
        bool((words[0][n : n + CHUNK] == words[1][n : n + CHUNK]).all()) for n in range(0, len(words[0]), CHUNK)
    )
