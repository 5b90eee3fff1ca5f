"""The time line of streams as text, as a section of a page, and as tracks for Perfetto."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wsemu.report.diagnostic import clean, display_path
from wsemu.report.markup import Markup, join, tag

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wsemu.launch.stream_timeline import Shown, StreamTimeline
    from wsemu.report.diagnostic import Line

AXIS = "operations of one step may run at the same time"
SYMBOLS = {
    "launch": ("L", "launch"), "copy": ("C", "copy or memset"), "host": ("=", "access by the host"),
    "synchronize": ("w", "the host waits"), "record": ("r", "records an event"), "wait": ("e", "waits for an event"),
    "allocate": ("a", "allocation"), "free": ("f", "free"), "callback": ("h", "host function"),
}  # fmt: skip
"""character and meaning of each kind of operation"""
_OTHER = ("o", "other operation")
_MOST_LISTED = 100
"""maximum number of operations that are listed in the terminal"""
_PROCESS = 1_000_000
"""process number of the streams in Perfetto, larger than those of all CTAs"""
_STEP, _ROW, _LEFT = 26, 24, 150
"""width of a step, height of a row, and width of the labels, in pixels"""


def _symbol(one: Shown) -> tuple[str, str]:
    return SYMBOLS.get(one.does, _OTHER)


def _place(one: Shown) -> str:
    return f"{display_path(one.file)}:{one.line}" if one.line else ""


def _label(finding: int) -> str:
    """Return `S1` for the first finding; findings of the drawn launch have letters instead."""
    return f"S{finding + 1}"


def _marks(one: Shown) -> str:
    return " ".join(_label(n) for n in one.findings)


# -- the terminal ------------------------------------------------------------------------------------------------------
def stream_lines(timeline: StreamTimeline, width: int) -> Iterator[Line]:
    """Yield the rows, and a list of the operations."""
    label = max(len(name) for name in timeline.rows) + 2
    length = timeline.length
    yield []
    yield [(f"streams, steps 0 to {length - 1}: {AXIS}", "")]
    part = max(width - label, 10)
    for first in range(0, length, part):
        last = min(first + part, length)
        yield []
        ruler = "".join(f"{at:<10}" for at in range(first, last, 10))
        yield [(" " * label + ruler.rstrip(), "frame")]
        for number, name in enumerate(timeline.rows):
            cells = [" "] * (last - first)
            for one in timeline.shown:
                if one.row == number and first <= one.at < last:
                    cells[one.at - first] = _symbol(one)[0]
            yield [(f"{clean(name):<{label}}{''.join(cells).rstrip()}", "")]
    yield []
    used = dict.fromkeys(_symbol(one) for one in timeline.shown)
    yield [("; ".join(f"{sign} {meaning}" for sign, meaning in used), "")]
    yield []
    for one in sorted(timeline.shown, key=lambda one: one.at)[:_MOST_LISTED]:
        place = f"  {_place(one)}" if one.line else ""
        marks = f"  {_marks(one)}" if one.findings else ""
        text = f"  step {one.at}, {timeline.rows[one.row]}: {one.name}{place}"
        yield [(clean(text), ""), (marks, "error")]
    more = len(timeline.shown) - _MOST_LISTED
    if more > 0:
        yield [(f"  and {more:,} more", "")]
    if timeline.left_out:
        yield [(f"  {timeline.left_out:,} further operations are left out", "")]
    if timeline.findings:
        yield []
    for n, finding in enumerate(timeline.findings):
        yield [(f"{_label(n)} ", "error"), (f"{finding.severity}[{finding.code}]", "error")]
        yield [(f"  {clean(finding.message)}", "")]


# -- Perfetto ----------------------------------------------------------------------------------------------------------
def stream_events(timeline: StreamTimeline | None) -> list[dict[str, Any]]:
    """Return the events of Chrome's trace format: a thread for the host and for each stream."""
    if timeline is None:
        return []

    def name(kind: str, tid: int, **arguments: object) -> dict[str, Any]:
        return {"ph": "M", "name": kind, "pid": _PROCESS, "tid": tid, "args": arguments}

    events = [name("process_name", 0, name=f"streams (1 us is 1 step: {AXIS})")]
    for tid, row in enumerate(timeline.rows):
        events += [name("thread_name", tid, name=row), name("thread_sort_index", tid, sort_index=tid)]
    for one in sorted(timeline.shown, key=lambda one: (one.at, one.row)):
        told = {"does": _symbol(one)[1]} | ({"source": _place(one)} if one.line else {})
        told |= {"findings": _marks(one)} if one.findings else {}
        events.append(
            {"ph": "X", "name": one.name, "pid": _PROCESS, "tid": one.row, "ts": one.at, "dur": 1, "args": told}
        )
    return events


# -- a page ------------------------------------------------------------------------------------------------------------
def stream_section(timeline: StreamTimeline | None) -> Markup:
    """Return the section of a page, empty without streams."""
    if timeline is None:
        return join(())
    findings = [
        tag("p", tag("b", f"{_label(n)} {finding.severity}[{finding.code}]"), " ", finding.message)
        for n, finding in enumerate(timeline.findings)
    ]
    rest = [tag("p", f"{timeline.left_out:,} further operations are left out.")] if timeline.left_out else []
    return tag(
        "section",
        tag("h2", "Streams"),
        tag("p", f"Each box is an operation; {AXIS}.", class_="muted"),
        tag("div", _picture(timeline), class_="scroll"),
        *findings,
        *rest,
        tag("details", tag("summary", "The streams in words"), tag("div", _table(timeline), class_="scroll")),
    )


def _picture(timeline: StreamTimeline) -> Markup:
    width, height = _LEFT + _STEP * timeline.length + 8, _ROW * len(timeline.rows) + 8
    parts = [tag("text", name, x=4, y=_ROW * n + 16) for n, name in enumerate(timeline.rows)]
    for one in timeline.shown:
        x, y = _LEFT + _STEP * one.at, _ROW * one.row + 2
        group = {"launch": "load", "copy": "copy", "host": "store", "synchronize": "wait"}.get(one.does, "group")
        kind = "stop" if one.findings else group
        title = ", ".join(part for part in (one.name, _place(one), _marks(one)) if part)
        box = tag("rect", tag("title", title), x=x, y=y, width=_STEP - 4, height=_ROW - 6, rx=3, fill=f"var(--{kind})")
        sign = tag("text", _symbol(one)[0], x=x + 8, y=y + 14, fill="var(--on)", class_="on-mark")
        parts += [box, sign]
    said = f"{len(timeline.shown)} operations of {len(timeline.rows)} rows, in {timeline.length} steps"
    return tag("svg", *parts, width=width, height=height, viewBox=f"0 0 {width} {height}", role="img", aria_label=said)


def _table(timeline: StreamTimeline) -> Markup:
    head = tag("tr", *(tag("th", text) for text in ("step", "stream", "operation", "source", "findings")))
    rows = [
        tag("tr", *(tag("td", text) for text in (one.at, timeline.rows[one.row], one.name, _place(one), _marks(one))))
        for one in sorted(timeline.shown, key=lambda one: one.at)
    ]
    return tag("table", head, join(rows), class_="words")
