"""Undefined values that strong stores publish, and that no thread reads in the run: another run may read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wsemu.model.data import NamedTuple
from wsemu.model.isa import (
    ADDRESS_WRAPPED,
    AS_STORE,
    ATOMICS,
    FIRST_ARRAY,
    NAMES,
    NO_STORE,
    OPERATIONS,
    SEGMENT_SHIFT,
    SERVED,
    access_shape,
)
from wsemu.model.undefined import SINKS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from wsemu.evidence.places import Places
    from wsemu.model.outcome import Event, RawFinding, Trace, Tracer

Key = tuple[int, int]
"""an instruction, and the CTA that executes it"""
_STORED = frozenset((SINKS.index("store"), SINKS.index("atomic")))


class Unread(NamedTuple):
    """Undefined values that strong stores publish, and that no thread reads in the run."""

    reasons: tuple[str, ...] = ()
    """the reasons for an `incomplete` verdict of the launch"""
    stores: frozenset[Key] = frozenset()
    """the instructions that publish them, with their CTAs"""
    bytes: Mapping[Key, list[tuple[int, int]]] = {}
    """the ends of the bytes that each strong store of these CTAs writes"""

    def find_unread(self, loaded: frozenset[tuple[int, int]]) -> frozenset[Key]:
        """Return the strong stores of these CTAs that store none of the loaded bytes."""
        starts, ends = np.array(sorted(loaded), np.int64).reshape(-1, 2).T
        return frozenset(
            key for key, stored in self.bytes.items()
            if not any(((starts < end) & (start < ends)).any() for start, end in stored)
        )  # fmt: skip


def separate_unread(
    wanted: list[RawFinding], places: Places, trace_of: Tracer
) -> tuple[list[RawFinding], Unread]:  # fmt: skip
    """Return the findings without those of values that no thread reads, and these values.

    A strong store publishes such a value in an array that strong loads access.  In any other array the value is a
    result.
    """
    code = places.program.code.tolist()
    stored = [raw for raw in wanted if _is_published(raw, code)]
    if not stored:
        return wanted, Unread()
    accesses = frozenset(
        pc for pc, fields in enumerate(code) if OPERATIONS[NAMES[fields[0]]].kind in ("load", "store", "atomic")
    )
    trace = trace_of(accesses)
    if not trace.complete:
        return wanted, Unread()
    accessed = _Accessed(trace, code, {_key(raw) for raw in stored})
    unread = [raw for raw in stored if accessed.is_unread(raw)]
    reasons = dict.fromkeys(
        f"{places.where(raw.detail['sink_pc'])}: publishes an undefined value, which no thread reads in this run: "
        "initialize it"
        for raw in unread
    )
    stores = frozenset(map(_key, unread))
    return [raw for raw in wanted if raw not in unread], Unread((*reasons,), stores, accessed.stored)


def _is_published(raw: RawFinding, code: list[list[int]]) -> bool:
    if raw.detail.get("sink") not in _STORED:
        return False
    fields = code[raw.detail["sink_pc"]]
    return NAMES[fields[0]] in ATOMICS and fields[7] & SERVED == AS_STORE


def _key(raw: RawFinding) -> Key:
    return raw.detail["sink_pc"], raw.detail["sink_cta"]


class _Accessed:
    """The bytes that a run loads, and those that some CTAs publish."""

    def __init__(self, trace: Trace, code: list[list[int]], stores: set[Key]) -> None:
        """`stores` are the instructions, with their CTAs."""
        self.stored: dict[Key, list[tuple[int, int]]] = {key: [] for key in stores}
        """the ends of the bytes that each strong store of these CTAs writes"""
        ctas = {cta for _, cta in stores}
        publishes = [NAMES[fields[0]] in ATOMICS and fields[7] & SERVED == AS_STORE for fields in code]
        loaded: list[tuple[int, int]] = []
        self.looked: set[int] = set()
        """the arrays that strong loads access"""
        reads = [_reads(fields) for fields in code]
        for event, place, size in _list_accesses(trace, code):
            if event.cta in ctas and publishes[event.pc]:
                self.stored.setdefault((event.pc, event.cta), []).append((place, place + size))
            if reads[event.pc]:
                loaded.append((place, place + size))
                if code[event.pc][7] & NO_STORE:
                    self.looked.add(place >> SEGMENT_SHIFT)
        self.starts, self.ends = np.array(loaded, np.int64).reshape(-1, 2).T

    def is_unread(self, raw: RawFinding) -> bool:
        """Return whether nothing loads the values that a CTA publishes in an array that strong loads access."""
        at = self.stored[_key(raw)]
        arrays = {start >> SEGMENT_SHIFT for start, _ in at}
        if not arrays or min(arrays) < FIRST_ARRAY or arrays.isdisjoint(self.looked):
            return False
        return not any(((self.starts < end) & (start < self.ends)).any() for start, end in at)


def _reads(fields: list[int]) -> bool:
    name = NAMES[fields[0]]
    return fields[7] & SERVED != AS_STORE if name in ATOMICS else OPERATIONS[name].kind == "load"


def _list_accesses(trace: Trace, code: list[list[int]]) -> Iterator[tuple[Event, int, int]]:
    """Yield each access of a lane, with its first byte and its size."""
    for event in trace.events:
        if event.kind == "access":
            size = access_shape(NAMES[code[event.pc][0]])[1]
            for address in trace.lane_addresses(event).values():
                yield event, address & ~ADDRESS_WRAPPED, size
