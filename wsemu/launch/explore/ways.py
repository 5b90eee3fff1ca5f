"""One CTA on one of its paths: the knowledge of its threads, and what the CTA publishes (`messages.py`)."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.model.data import NamedTuple, dataclass, field
from wsemu.model.isa import (
    ADDRESS_WRAPPED,
    FIRST_ARRAY,
    LANES,
    LOCAL,
    OFFSET_MASK,
    SCOPES,
    SEGMENT_SHIFT,
    SHARED,
)
from wsemu.proof.threads import Knowledge, memory_effect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wsemu.launch.explore.session import Ask
    from wsemu.model.bound import Bound
    from wsemu.proof.threads import Made, Place, Race, Rows


MOST_MESSAGES = 1_024


class UnfitError(Exception):
    """The launch does not fit this method."""


class _Wrote(NamedTuple):
    """Bytes that a thread has written."""

    start: int
    """position in the concatenated arrays"""
    size: int
    thread: int
    mark: int


class Own(Knowledge):
    """The knowledge of the threads of one CTA: of each other, and of messages."""

    def of(self, cta: int, flat: Callable[[int], int], reads: dict[bytes, set[tuple[int, int]]]) -> None:
        """Represent a CTA that has not begun.

        `flat` returns the position of an address in the concatenated arrays.  `reads` collects the bytes that all paths
        read: known messages -> (start, size).
        """
        self.rows = {cta: np.zeros((self.of_cta, self.total + MOST_MESSAGES), np.int32)}
        self.width = self.total + MOST_MESSAGES
        self.flat, self.reads = flat, reads
        self.wrote: tuple[_Wrote, ...] = ()
        self.unordered: tuple[tuple[int, int], ...] = ()
        """locations of atomics whose order is not explored"""

    def messages(self, rows: Any) -> Any:
        """Return the known messages of a row, or of rows."""
        return np.packbits(rows[..., self.total : self.total + MOST_MESSAGES] > 0, axis=-1)

    def _access(self, made: Made, number: int) -> Iterator[Race]:
        event = made.event
        atomic, store, size = memory_effect(self.code[event.pc], data=event.pc in self.data)
        for lane, address in made.addresses:
            if is_own(address):
                continue
            start, own = self.flat(address), event.warp * LANES + lane
            if atomic:
                if self.code[event.pc][7] & SCOPES:
                    raise UnfitError
                self.unordered += ((start, size),) if event.pc not in self.ordered else ()
            elif store:
                self.wrote += (_Wrote(start, size, event.cta * self.of_cta + own, event.interval),)
            else:
                known = self.messages(self.rows[event.cta][own]).tobytes()
                self.reads.setdefault(known, set()).add((start, size))
        yield from super()._access(made, number)

    def released_bytes(self, row: Rows) -> frozenset[tuple[int, int]]:
        """Return the bytes, as (start, size), that a CTA has written and whose write a thread with this row has
        observed."""
        return frozenset((w.start, w.size) for w in self.wrote if row[w.thread] >= w.mark)

    def digest(self, cta: int) -> bytes:
        """Return a digest of the knowledge that matters to a CTA."""
        if cta not in self.living():
            return b""
        names, rows = self.cta_rows(cta)
        hashed = hashlib.blake2b(self.key(), digest_size=16)
        hashed.update(repr((names, [w[:2] for w in self.wrote])).encode())
        hashed.update(self.messages(rows).tobytes())
        if self.wrote:
            threads, marks = [w.thread for w in self.wrote], [w.mark for w in self.wrote]
            hashed.update(np.packbits(rows[:, threads] >= np.array(marks)).tobytes())
        return hashed.digest()


@dataclass(slots=True)
class State:
    """The state of a CTA on one of its paths."""

    cta: int
    saved: Any
    image: Any
    """image of memory, with the CTA's own writes"""
    digest: bytes
    status: str
    asks: list[Ask]
    knowledge: Own
    number: int
    """number of events so far"""
    after: set[bytes] = field(default_factory=set)
    """keys of states that it leads to"""
    moves: dict[tuple[Ask, bytes], bool] = field(default_factory=dict)
    """for each (access, value that it reads), whether it leads to another state"""

    def key(self) -> bytes:
        arrays = [data.tobytes() for data in self.image]
        parts = (b"%d" % self.cta, self.digest, *arrays, self.knowledge.digest(self.cta))
        return hashlib.blake2b(b"|".join(parts), digest_size=16).digest()


@dataclass(slots=True)
class Message:
    """A value that a CTA may write at a location of ordered accesses."""

    place: Place
    value: bytes
    writer: int
    number: int
    variants: set[tuple[bytes, frozenset[tuple[int, int]]]] = field(default_factory=set)
    """for each path to this write, the messages that the writer had observed and the bytes that it released"""


def is_own(address: int) -> bool:
    """Return whether an address is in shared or local memory."""
    return (address & ~ADDRESS_WRAPPED) >> SEGMENT_SHIFT in (SHARED, LOCAL)


def check_written(bound: Bound, start: int, size: int) -> None:
    """Check that bytes of an array were written before the launch."""
    number, offset = (start >> SEGMENT_SHIFT) - FIRST_ARRAY, start & OFFSET_MASK
    written = getattr(bound.segments[number][1], "written", None)
    if written is not None:
        if not written[offset : offset + size].all():
            raise UnfitError
    elif number + FIRST_ARRAY in bound.uninitialized:
        raise UnfitError
