"""The predicted waits of warps as a page: a row for each warp with its stall reasons, and one for each barrier with its
phases, over cycles.

The page is one file that loads nothing.  It has the styles of the page of a checked launch (`html`).
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from wsemu.model.wait_reasons import AT_BARRIERS, REASONS
from wsemu.report.html import SHEET, whole_page
from wsemu.report.markup import Markup, join, tag
from wsemu.report.timing import format_prediction
from wsemu.report.timing_trace import AXIS, CUT, wait_slices
from wsemu.timing.clusters import CLUSTER_BARRIER

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from wsemu.timing.predict import Predicted
    from wsemu.timing.prediction import Prediction
    from wsemu.timing.simulate import Phase
    from wsemu.timing.stream import Stream

COLORS = {"issue": "good"} | dict(
    zip(
        REASONS,
        (
            "good", "muted", "group", "load", "wait", "object", "copy", "matrix", "atomic", "store", "warp",
            "generation", "fence", "error",
        ),
        strict=True,
    )
)  # fmt: skip
"""stall reason -> its color in the style sheet of pages"""
MAX_WIDTH, MAX_BOXES = 12_000, 20_000
"""maximum width of the picture in pixels, and number of its boxes"""
_ROW, _AXIS, _LABELS = 22, 26, 190
"""heights of a row and of the axis, and width of the labels, in pixels"""
_COLORS = "\n".join(
    f".wsemu svg .why-{reason} {{ fill: var(--{color}); }}\n.wsemu .key.why-{reason} {{ background: var(--{color}); }}"
    for reason, color in COLORS.items()
)
_Box = tuple[float, float, str, str]
"""begin and end in cycles, class, and text"""


def predicted_page(found: Predicted, prediction: Prediction) -> str:
    """Return the predicted waits as a page."""
    title = f"{prediction.kernel} on {prediction.device}, predicted"
    summary = tag("pre", "\n".join(format_prediction(prediction)), class_="summary")
    rows = _rows(found)
    parts = [tag("h2", "Time line"), *([tag("p", CUT)] if found.run.is_cut else ()), _timeline(rows)]
    body = tag("body", tag("h1", title), summary, *parts, class_="wsemu")
    return whole_page(title, SHEET + _COLORS, body)


def text_page(title: str, lines: Iterable[str]) -> str:
    """Return a page with lines of text, such as a table of versions."""
    body = tag("body", tag("h1", title), tag("pre", "\n".join(lines), class_="summary"), class_="wsemu")
    return whole_page(title, SHEET, body)


def _rows(found: Predicted) -> dict[str, list[_Box]]:
    """Return name -> the boxes of each row: barriers first, then warps."""
    warps, names = found.stream.warps, found.stream.barrier_names()
    rows: dict[str, list[_Box]] = {}
    for phase in sorted(found.run.phases, key=lambda one: (one.cta, one.barrier, one.place, one.begin)):
        row = rows.setdefault(_row_name(found, phase.cta, _barrier_name(found.stream, phase, names)), [])
        unit = f"{'generation' if phase.barrier >= 0 else 'phase'} (no. {len(row) + 1} of this row)"
        row.append((phase.begin, phase.end, "generation", unit))
    for cta, warp in itertools.product(range(found.resident), range(warps)):
        rows[_row_name(found, cta, f"warp {warp}")] = []
    for one in wait_slices(found, warps):
        box = (one["ts"], one["ts"] + one["dur"], f"why-{one['name']}", f"{one['name']} {one['args'].get('line', '')}")
        rows[_row_name(found, one["pid"], f"warp {one['tid']}")].append(box)
    return rows


def _barrier_name(stream: Stream, phase: Phase, names: Mapping[int, str]) -> str:
    if phase.barrier >= 0:
        return f"barrier {phase.barrier}"
    if phase.place == CLUSTER_BARRIER:
        return "cluster barrier"
    offset = stream.shared_offset(phase.place)
    return names.get(offset, f"{AT_BARRIERS[1]} at {offset:#x}")


def _row_name(found: Predicted, cta: int, name: str) -> str:
    return name if found.resident == 1 else f"CTA {cta + 1}: {name}"


def _timeline(rows: dict[str, list[_Box]]) -> Markup:
    """Return the picture with its legend and a text for its extent."""
    length = max((end for boxes in rows.values() for _, end, _, _ in boxes), default=1.0)
    scale = min(MAX_WIDTH / length, 4.0)
    boxes = _boxes(rows, scale)
    drawn = list(itertools.islice(boxes, MAX_BOXES))
    words = f"{length:,.0f} cycles, {scale:.2g} pixels each.  {AXIS.partition(': ')[2].capitalize()}."
    words += "  Waits shorter than a pixel are left out." if scale < 1 else ""
    words += f"  Only {MAX_BOXES:,} boxes are drawn: `-o FILE.json` has all." if next(boxes, None) else ""
    height, width = _AXIS + _ROW * len(rows), length * scale + 8
    labels = [tag("text", name, x=8, y=_AXIS + _ROW * n + 15) for n, name in enumerate(rows)]
    left = tag("div", tag("svg", *labels, width=_LABELS, height=height), class_="labels")
    picture = tag("svg", *_axis(length, scale, height), *drawn, width=round(width), height=height)
    name = "time line: barriers and warps over cycles"
    scrolled = tag("div", picture, class_="scroll", tabindex=0, role="region", aria_label=name)
    figure = tag("div", left, scrolled, class_="timeline")
    return join([tag("p", words, class_="muted"), figure, _legend(rows), _shares(rows)])


def _axis(length: float, scale: float, height: int) -> Iterator[Markup]:
    every = next(n for n in (m * 10**e for e in range(1, 15) for m in (1, 2, 5)) if n * scale >= 80)
    for cycle in range(0, int(length) + 1, every):
        x = round(cycle * scale, 1)
        yield tag("line", x1=x, x2=x, y1=20, y2=height, class_="grid")
        yield tag("text", f"{cycle:,}", x=x + 3, y=14, class_="muted")


def _boxes(rows: dict[str, list[_Box]], scale: float) -> Iterator[Markup]:
    """Yield the boxes in the order of time, without those that end less than a pixel after the one before."""
    last = dict.fromkeys(rows, -1.0)
    listed = ((box, row, n) for n, (row, boxes) in enumerate(rows.items()) for box in boxes)
    for (begin, end, class_, text), row, n in sorted(listed, key=lambda one: one[0][:2]):
        x, until = begin * scale, end * scale
        if until < last[row] + 1:
            continue
        last[row] = until
        title = tag("title", f"{row}: {text}, cycles {begin:,.0f} to {end:,.0f}")
        width = round(max(until - x, 1), 1)
        yield tag("rect", title, x=round(x, 1), y=_AXIS + _ROW * n + 3, width=width, height=_ROW - 6, class_=class_)


def _legend(rows: dict[str, list[_Box]]) -> Markup:
    used = {class_ for boxes in rows.values() for _, _, class_, _ in boxes}
    entries = [(f"why-{reason}", reason.replace("_", " ")) for reason in COLORS if f"why-{reason}" in used]
    entries += [("generation", "generation or phase")] if "generation" in used else []
    shown = (tag("span", tag("i", class_=f"key {class_}", aria_hidden="true"), name) for class_, name in entries)
    return tag("p", *shown, class_="legend")


def _shares(rows: dict[str, list[_Box]]) -> Markup:
    """Return a table of the rows in words, for readers who cannot see the picture."""
    head = tag("tr", tag("th", "row", scope="col"), tag("th", "cycles", scope="col"))
    body = (tag("tr", tag("td", name), tag("td", _sums(boxes))) for name, boxes in rows.items())
    table = tag("table", head, *body, class_="words")
    return tag("details", tag("summary", "The time line in words"), table)


def _sums(boxes: Iterable[_Box]) -> str:
    sums: dict[str, float] = {}
    count = 0
    for begin, end, class_, _ in boxes:
        reason = class_.removeprefix("why-").replace("_", " ")
        sums[reason] = sums.get(reason, 0.0) + end - begin
        count += class_ == "generation"
    if count:
        return f"{count:,} complete"
    return ", ".join(f"{reason} {cycles:,.0f}" for reason, cycles in sorted(sums.items(), key=lambda one: -one[1]))
