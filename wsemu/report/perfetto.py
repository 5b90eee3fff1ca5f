"""A time line as Chrome trace JSON, which https://ui.perfetto.dev opens.  The CTA is a process.  Each warp, each named
barrier and each mbarrier is a thread, and so are the asynchronous copies of a warp (several threads if they overlap).
Slices are the accesses between barrier operations, the barrier operations with their waits, the generations and phases,
and the copies.  Flow arrows lead from each arrive to each sync, or wait, that it releases.

A step is drawn as a microsecond; the names of the tracks state that the axis has steps, not cycles.
Reference: "Trace Event Format" (Google, 2016), events of phase X, s, f, i and M.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from wsemu.evidence.labels import GIVES, WAITS, letter
from wsemu.model.finding import MOST_SHOWN, with_role
from wsemu.report.diagnostic import display_path
from wsemu.report.streams import stream_events

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wsemu.launch.stream_timeline import StreamTimeline
    from wsemu.launch.timeline import Copy, Generation, Step, Timeline

AXIS = "1 us is 1 step: steps, not cycles"
_BARRIERS = 1000
"""thread number of barrier 0: larger than those of all warps"""
_MBARRIERS, _COPIES = 1100, 10_000_000
"""thread number of the first mbarrier, and of the first copies"""
_Event = dict[str, Any]


def chrome_trace(timeline: Timeline, streams: StreamTimeline | None = None) -> str:
    """Return the time line as a JSON document, with the streams of the program.  Equal ones have equal documents."""
    events = [*_slices(timeline), *_flows(timeline), *_marks(timeline)]
    events.sort(key=lambda event: (event["ts"], -event.get("dur", 0), event["tid"]))
    report = timeline.report
    other = {
        "kernel": report.kernel,
        "grid": list(report.grid),
        "block": list(report.block),
        "arch": report.arch,
        "verdict": report.verdict,
        "axis": AXIS,
        "complete": timeline.complete,
        "findings": [
            f"{letter(n)} {f.severity}[{f.code}]: {f.message}" for n, f in enumerate(report.findings[:MOST_SHOWN])
        ],
    }
    traced = [*_names(timeline), *events, *stream_events(streams)]
    document = {"displayTimeUnit": "ms", "otherData": other, "traceEvents": traced}
    return json.dumps(document, separators=(",", ":")) + "\n"


def _names(timeline: Timeline) -> Iterator[_Event]:
    """Yield the names and the order of the tracks."""
    pid = timeline.cta

    def name(kind: str, tid: int, **arguments: object) -> _Event:
        return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": arguments}

    yield name("process_name", 0, name=f"{timeline.report.kernel} CTA {timeline.index} ({AXIS})")
    for warp in timeline.warps:
        yield name("thread_name", warp.number, name=with_role(f"warp {warp.number}", warp.role))
        yield name("thread_sort_index", warp.number, sort_index=warp.number)
    for tid, (warp_number, _) in enumerate(_copy_rows(timeline), _COPIES):
        yield name("thread_name", tid, name=f"copies of warp {warp_number}")
        yield name("thread_sort_index", tid, sort_index=warp_number)
    for barrier in sorted({generation.barrier for generation in timeline.generations}):
        tid = _thread(timeline, barrier)
        yield name("thread_name", tid, name=timeline.name(barrier))
        yield name("thread_sort_index", tid, sort_index=tid)


def _thread(timeline: Timeline, barrier: int) -> int:
    """Return the thread number of a barrier or an mbarrier."""
    if barrier in timeline.mbarriers:
        return _MBARRIERS + [*timeline.mbarriers].index(barrier)
    return _BARRIERS + barrier


def _slice(timeline: Timeline, tid: int, title: str, at: int, until: int, **arguments: object) -> _Event:
    event = {"ph": "X", "name": title, "pid": timeline.cta, "tid": tid, "ts": at, "dur": until - at}
    return event | ({"args": arguments} if arguments else {})


def _slices(timeline: Timeline) -> Iterator[_Event]:
    for stretch in timeline.stretches():
        lines = sorted({timeline.places[step.pc].line for step in stretch.steps})
        extent = f"line {lines[0]}" if len(lines) == 1 else f"lines {lines[0]}-{lines[-1]}"
        yield _slice(timeline, stretch.warp, extent, stretch.at, stretch.until, operations=len(stretch.steps))
        for step in stretch.steps:
            yield _operation(timeline, step, step.at + 1)
    for step, until in _barrier_operations(timeline):
        yield _operation(timeline, step, until)
        if until > step.at + 1:
            title = "waits for ever" if step.until is None and timeline.is_stuck else "waits"
            yield _slice(timeline, step.warp, title, step.at + 1, until)
    for step in timeline.steps:
        if step.kind == "stop":
            yield _operation(timeline, step, step.at + 1)
    for generation in timeline.generations:
        yield _generation(timeline, generation)
    for tid, (_, row) in enumerate(_copy_rows(timeline), _COPIES):
        for copy, until in row:
            title = timeline.places[copy.pc].text + ("" if copy.until is not None else ": nobody waits for it")
            yield _slice(timeline, tid, title, copy.at, until, bytes=copy.bytes)


def _copy_rows(timeline: Timeline) -> list[tuple[int, list[tuple[Copy, int]]]]:
    """Return (warp, copies with their ends) for each row: no two copies in a row overlap, so a warp may need several
    rows."""
    rows: list[tuple[int, list[tuple[Copy, int]]]] = []
    for copy in sorted(timeline.copies, key=lambda copy: (copy.warp, copy.at)):
        until = max(timeline.length if copy.until is None else copy.until, copy.at + 1)
        row = next((row for warp, row in rows if warp == copy.warp and row[-1][1] <= copy.at), None)
        if row is None:
            row = []
            rows.append((copy.warp, row))
        row.append((copy, until))
    return rows


def _barrier_operations(timeline: Timeline) -> Iterator[tuple[Step, int]]:
    """Yield the arrives and syncs with their ends.  A wait ends early if other lanes of the warp continue."""
    following: dict[int, int] = {warp.number: warp.until for warp in timeline.warps}
    for step in reversed(timeline.steps):
        if step.kind in (*GIVES, *WAITS):
            until = following[step.warp] if step.until is None else step.until
            yield step, max(min(until, following[step.warp]), step.at + 1)
        following[step.warp] = step.at


def _operation(timeline: Timeline, step: Step, until: int) -> _Event:
    place = timeline.places[step.pc]
    where = f"{display_path(place.file)}:{place.line}"
    return _slice(timeline, step.warp, timeline.where(step), step.at, until, source=where)


def _generation(timeline: Timeline, generation: Generation) -> _Event:
    complete = generation.until is not None
    until = timeline.length if generation.until is None else generation.until
    counted = timeline.generation_text(generation.barrier, generation.number)
    title = counted + ("" if complete else ": not complete")
    tid = _thread(timeline, generation.barrier)
    came = {"threads_arrived": generation.arrived_threads}
    if generation.barrier in timeline.mbarriers:
        came = {"arrivals": generation.arrivals, "bytes": generation.bytes}
    return _slice(timeline, tid, title, generation.first, until, **came)


def _flows(timeline: Timeline) -> Iterator[_Event]:
    """Yield arrows from inside an arrive to the end of the sync's slice."""
    ends = dict(_barrier_operations(timeline))
    for number, (arrive, sync) in enumerate(timeline.edges()):
        common = {"name": timeline.name(arrive.barrier), "cat": "barrier", "id": number, "pid": timeline.cta}
        yield {"ph": "s", "tid": arrive.warp, "ts": arrive.at + 0.25, **common}
        yield {"ph": "f", "bp": "e", "tid": sync.warp, "ts": ends[sync] - 0.25, **common}


def _marks(timeline: Timeline) -> Iterator[_Event]:
    for mark in timeline.marks:
        step, finding = timeline.steps[mark.step], timeline.report.findings[mark.finding]
        yield {
            "ph": "i", "s": "t", "name": f"{mark.label} {finding.severity}[{finding.code}]: {finding.message}",
            "pid": timeline.cta, "tid": step.warp, "ts": step.at,
        }  # fmt: skip
