"""Undefined values that strong stores publish, and that no thread reads in the run: another run may read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    from collections.abc import Iterator

    from wsemu.evidence.places import Places
    from wsemu.model.outcome import Event, RawFinding, Trace, Tracer

_STORED = frozenset((SINKS.index("store"), SINKS.index("atomic")))


def separate_unread(
    wanted: list[RawFinding], places: Places, trace_of: Tracer
) -> tuple[list[RawFinding], list[str]]:  # fmt: skip
    """Return the findings without those of values that no thread reads, and why these are open.

    A strong store publishes such a value in an array that strong loads access.  In any other array it is a result.
    """
    code = places.program.code.tolist()
    stored = [raw for raw in wanted if _is_published(raw, code)]
    if not stored:
        return wanted, []
    accesses = frozenset(
        pc for pc, fields in enumerate(code) if OPERATIONS[NAMES[fields[0]]].kind in ("load", "store", "atomic")
    )
    trace = trace_of(accesses)
    if not trace.complete:
        return wanted, []
    unread = [raw for raw in stored if _is_unread(raw, code, trace)]
    reasons = dict.fromkeys(
        f"{places.where(raw.detail['sink_pc'])}: publishes an undefined value, which no thread reads in this run"
        for raw in unread
    )
    return [raw for raw in wanted if raw not in unread], [*reasons]


def _is_published(raw: RawFinding, code: list[list[int]]) -> bool:
    if raw.detail.get("sink") not in _STORED:
        return False
    fields = code[raw.detail["sink_pc"]]
    return NAMES[fields[0]] in ATOMICS and fields[7] & SERVED == AS_STORE


def _is_unread(raw: RawFinding, code: list[list[int]], trace: Trace) -> bool:
    pc, of = raw.detail["sink_pc"], (raw.detail["sink_cta"], raw.detail["sink_warp"])
    at = [
        (place, place + size) for event, place, size in _list_accesses(trace, code)
        if event.pc == pc and (event.cta, event.warp) == of
    ]  # fmt: skip
    arrays = {start >> SEGMENT_SHIFT for start, _ in at}
    looked = False
    for event, place, size in _list_accesses(trace, code):
        fields = code[event.pc]
        if NAMES[fields[0]] not in ATOMICS and OPERATIONS[NAMES[fields[0]]].kind != "load":
            continue
        if NAMES[fields[0]] in ATOMICS and fields[7] & SERVED == AS_STORE:
            continue
        if any(start < place + size and place < end for start, end in at):
            return False
        looked |= place >> SEGMENT_SHIFT in arrays and bool(fields[7] & NO_STORE)
    return looked and min(arrays) >= FIRST_ARRAY


def _list_accesses(trace: Trace, code: list[list[int]]) -> Iterator[tuple[Event, int, int]]:
    """Yield each access of a lane, with its first byte and its size."""
    for event in trace.events:
        if event.kind == "access":
            size = access_shape(NAMES[code[event.pc][0]])[1]
            for address in trace.lane_addresses(event).values():
                yield event, address & ~ADDRESS_WRAPPED, size
