"""The time line of a page: labels of its rows as text, and a canvas that the page's script draws from data.

The data is JSON in the page: all steps of the CTA, so that a long launch can be seen as a whole and in detail.  Readers
without the script get the picture of `timeline_svg`.
"""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

from wsemu.evidence.labels import GROUPS
from wsemu.report.diagnostic import display_path
from wsemu.report.markup import Markup, data_script, join, tag

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wsemu.launch.timeline import Generation, Mark, Timeline, Warp

MAX_MARK_ROWS = 3
"""rows of labels of findings below a warp"""
NONE = -1
"""a step without an end, a barrier or a generation"""


def timeline_canvas(timeline: Timeline, first: int | None) -> Markup:
    """Return the buttons, the labels and the canvas of a time line, with its data."""
    copying = {copy.warp for copy in timeline.copies}
    rows = [tag("div", "steps", class_="row axis muted")]
    rows += [_barrier_row(timeline.name(barrier)) for barrier in _barriers(timeline)]
    rows += [_warp_row(warp, _mark_rows(timeline, warp.number), warp.number in copying) for warp in timeline.warps]
    labels = tag("div", *rows, class_="labels")
    name = f"time line of CTA {timeline.index}: warps over steps; arrow keys, plus, minus and 0 move it"
    canvas = tag("canvas", aria_hidden="true")
    view = tag("div", canvas, tag("div", "", class_="extent"), class_="view", tabindex=0, role="group", aria_label=name)
    data = data_script(json.dumps(timeline_data(timeline, first), separators=(",", ":"), allow_nan=False))
    tip = tag("div", class_="tip", hidden="")
    status = tag("p", class_="detail muted", role="status", aria_live="polite")
    figure = tag("div", labels, view, tip, class_="timeline live", hidden="")
    return join([_tools(bool(timeline.marks)), figure, status, data])


def timeline_data(timeline: Timeline, first: int | None = None) -> dict[str, Any]:
    """Return a time line for the script.  Steps are numbers in one list, seven for each step."""
    warp_rows = {warp.number: n for n, warp in enumerate(timeline.warps)}
    barrier_rows = {barrier: n for n, barrier in enumerate(_barriers(timeline))}
    places = {pc: n for n, pc in enumerate(timeline.places)}
    groups = {group: n for n, group in enumerate(GROUPS)}
    steps: list[int] = []
    for step in timeline.steps:
        until = NONE if step.until is None else step.until
        group = groups[timeline.places[step.pc].group]
        row = barrier_rows.get(step.barrier, NONE)
        steps += (warp_rows[step.warp], step.at, until, group, places[step.pc], row, step.generation)
    return {
        "length": timeline.length,
        "first": first,
        "stuck": timeline.is_stuck,
        "groups": [*GROUPS],
        "warps": [f"warp {warp.number}" for warp in timeline.warps],
        "barriers": [timeline.name(barrier) for barrier in barrier_rows],
        "units": [timeline.unit_name(barrier) for barrier in barrier_rows],
        "texts": [[p.text, f"{display_path(p.file)}:{p.line}"] for p in timeline.places.values()],
        "steps": steps,
        "generations": [_generation(timeline, g, barrier_rows[g.barrier]) for g in timeline.generations],
        "copies": [
            [warp_rows[copy.warp], copy.at, NONE if copy.until is None else copy.until, places[copy.pc], copy.bytes]
            for copy in timeline.copies
        ],
        "marks": [[mark.finding, mark.part, mark.step] for mark in timeline.marks],
        "findings": [[f.severity, f.code, f.message] for f in timeline.report.findings],
    }


def legend(timeline: Timeline) -> Markup:
    """Return the legend of a time line, without groups that do not occur."""
    used = {place.group for place in timeline.places.values()}
    entries = [(f"box {group}", name) for group, name in GROUPS.items() if group in used]
    waiting = [step for step in timeline.steps if step.until is None or step.until > step.at + 1]
    if any(step.until is not None or not timeline.is_stuck for step in waiting):
        entries.append(("line wait", "waiting"))
    if timeline.is_stuck:
        entries.append(("line stuck", "waits for ever"))
    if timeline.copies:
        entries.append(("line copy", "copies in flight"))
    if timeline.generations:
        entries.append(("box generation", "generation or phase, from its first operation on"))
    if timeline.is_stuck and any(generation.until is None for generation in timeline.generations):
        entries.append(("box generation stuck", "never complete"))
    if timeline.edges():
        entries.append(("line edge", "an arrival releases a wait"))
    if timeline.marks:
        entries.append(("box marked", "operation of a finding"))
    shown = (tag("span", tag("i", class_=f"key {class_}", aria_hidden="true"), name) for class_, name in entries)
    return tag("p", *shown, class_="legend")


def mark_text(timeline: Timeline, mark: Mark) -> str:
    """Return a text such as `2 race (1)`: number and code of a finding, and which of its operations this is."""
    part = f" ({mark.part})" if mark.part else ""
    return f"{mark.finding + 1} {timeline.report.findings[mark.finding].code}{part}"


def mark_buttons(timeline: Timeline, finding: int) -> Markup:
    """Return a button for each operation of a finding, which shows it in the time line."""
    made = []
    for number, mark in enumerate(timeline.marks):
        if mark.finding == finding:
            step = timeline.steps[mark.step]
            part = f"({mark.part}) " if mark.part else ""
            text = f"{part}warp {step.warp}, step {step.at:,}"
            label = f"show {text} of finding {finding + 1} in the time line"
            made.append(tag("button", text, type="button", data_mark=number, aria_label=label))
    return tag("p", "In the time line: ", *made, class_="jumps", hidden="") if made else Markup("")


def _barriers(timeline: Timeline) -> list[int]:
    return sorted({generation.barrier for generation in timeline.generations})


def _barrier_row(name: str) -> Markup:
    return tag("div", name, class_="row barrier", title=name)


def _warp_row(warp: Warp, marks: int, copies: bool) -> Markup:
    role = warp.described_role
    parts = [tag("span", f"warp {warp.number}"), *([tag("span", role, class_="muted", title=role)] if role else [])]
    parts += [tag("span", "copies", class_="muted of-copies")] if copies else []
    return tag("div", *parts, class_=f"row warp marks{marks}{' copying' * copies}")


def _mark_rows(timeline: Timeline, warp: int) -> int:
    return min(sum(timeline.steps[mark.step].warp == warp for mark in timeline.marks), MAX_MARK_ROWS)


def _generation(timeline: Timeline, generation: Generation, row: int) -> list[Any]:
    until = NONE if generation.until is None else generation.until
    return [row, generation.number, generation.first, until, timeline.arrived_text(generation)]


def _tools(has_marks: bool) -> Markup:
    buttons: Iterable[tuple[str, str, str]] = (
        ("0", "all", "show all steps"),
        ("-", "\N{MINUS SIGN}", "zoom out"),
        ("+", "+", "zoom in"),
    )
    if has_marks:
        hops = (("p", "\N{LEFTWARDS ARROW} finding", "show the operation of a finding before"),
                ("n", "finding \N{RIGHTWARDS ARROW}", "show the next operation of a finding"))  # fmt: skip
        buttons = itertools.chain(buttons, hops)
    made = [tag("button", text, type="button", value=key, aria_label=name, title=name) for key, text, name in buttons]
    return tag("p", *made, tag("output", ""), class_="tools", hidden="")
