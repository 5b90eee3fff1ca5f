"""A page about one launch: verdict, time line, findings, costs by line, pictures of bank conflicts.

The page is one file that loads nothing.  It runs one script (`page_script`), but is readable without it.  It has light
and dark styles, and fits paper and windows of at least 375 pixels.  Notebooks show fragments of it, without the script.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from wsemu.evidence.labels import GROUPS, NO_STEPS
from wsemu.model.data import NamedTuple
from wsemu.model.finding import MOST_SHOWN
from wsemu.model.version import __version__
from wsemu.report.costs_html import bank_figures, heat
from wsemu.report.diagnostic import extent, find_cures, finding_lines, summary_lines
from wsemu.report.markup import Markup, join, script, style, tag
from wsemu.report.page_script import POLICY, SCRIPT
from wsemu.report.streams import stream_section
from wsemu.report.timeline_canvas import legend, mark_buttons, timeline_canvas
from wsemu.report.timeline_svg import MOST_ARROWS, Window, describe_picture, timeline_svg, window
from wsemu.report.timing import format_prediction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from wsemu.launch.result import Report
    from wsemu.launch.stream_timeline import StreamTimeline
    from wsemu.launch.timeline import Timeline
    from wsemu.report.diagnostic import Line
    from wsemu.timing.prediction import Prediction

COLUMNS, FEW_COLUMNS = 100, 44
"""columns of the findings' text in a wide and in a narrow window"""
_STEP = "A step is one memory access or barrier operation of a warp, made as soon as it may be: steps, not cycles."
_LIGHT_COLORS = """
  --page: #ffffff; --text: #1d232b; --muted: #59636e; --rule: #d5dbe1; --panel: #f5f7f9;
  --load: #38719f; --store: #1d4e7e; --atomic: #a04a0a; --fence: #5f6873; --warp: #5c6f21; --matrix: #962f80;
  --copy: #0b7676; --group: #3d6e80; --object: #7d6608; --arrive: #1f7a4d; --wait: #5a4fcf; --stop: #b3261e;
  --wait-line: #a4aeb9; --stuck: #b3261e; --generation: #dbe7f4; --edge: #1f7a4d;
  --error: #b3261e; --warning: #8a5a00; --good: #1a7f37; --frame: #0a58ad; --on: #ffffff; --run: #7fabd9;
  --needed: #7fabd9; --excess: #d9480f; --hot: #c92a2a; color-scheme: light;"""
_DARK_COLORS = """
  --page: #14171c; --text: #e1e6ec; --muted: #9aa5b1; --rule: #343c46; --panel: #1c2128;
  --load: #6aa5dc; --store: #a9cff5; --atomic: #f0a060; --fence: #9aa5b1; --warp: #b5c46a; --matrix: #e08cc8;
  --copy: #3fc1c1; --group: #8fb8c9; --object: #d6c04a; --arrive: #3fa873; --wait: #8a80ff; --stop: #ff7b72;
  --wait-line: #56616e; --stuck: #ff7b72; --generation: #2c3f55; --edge: #3fa873;
  --error: #ff7b72; --warning: #d9a03c; --good: #4ac26b; --frame: #79b8ff; --on: #14171c; --run: #4a7fb5;
  --needed: #4a7fb5; --excess: #ff8f4d; --hot: #ff6b4a; color-scheme: dark;"""
_OF_GROUPS = "\n".join(
    f".wsemu svg .of-{group} {{ fill: var(--{group}); }}\n.wsemu .key.{group} {{ background: var(--{group}); }}"
    for group in GROUPS
)
SHEET = (
    ".wsemu {"
    + _LIGHT_COLORS
    + """
  background: var(--page); color: var(--text); font: 15px/1.45 system-ui, sans-serif; padding: 1px 20px 20px;
}
@media (prefers-color-scheme: dark) { .wsemu {"""
    + _DARK_COLORS
    + """ } }
body.wsemu { margin: 0 auto; max-width: 2400px; }
.wsemu h1 { font-size: 22px; margin: 18px 0 6px; overflow-wrap: anywhere; }
.wsemu h2 { font-size: 17px; margin: 26px 0 8px; }
.wsemu p { margin: 6px 0; }
.wsemu pre, .wsemu code { font: 13px/1.4 ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; }
.wsemu pre { background: var(--panel); color: var(--text); border-left: 3px solid var(--rule); margin: 0 0 12px;
  padding: 8px 12px; overflow-x: auto; }
.wsemu pre.error { border-color: var(--error); }
.wsemu pre.warning { border-color: var(--warning); }
.wsemu article { scroll-margin-top: 8px; }
.wsemu article:target, .wsemu :focus-visible { outline: 2px solid var(--frame); outline-offset: 1px; }
.wsemu .narrow { display: none; }
.wsemu .tools { align-items: center; display: flex; gap: 6px; margin: 6px 0; }
.wsemu .tools[hidden] { display: none; }
.wsemu .tools button { background: var(--panel); border: 1px solid var(--rule); border-radius: 4px; color: var(--text);
  cursor: pointer; font: inherit; min-height: 32px; min-width: 36px; padding: 2px 10px; }
.wsemu .tools output { color: var(--muted); font-size: 13px; }
.wsemu svg.steps { cursor: grab; }
.wsemu svg.steps text, .wsemu .fixed { transform: scaleX(var(--shrink, 1)); transform-box: fill-box;
  transform-origin: left; }
.wsemu svg.steps text.number { transform-origin: center; }
.wsemu svg.steps .fixed text { transform: none; }
.wsemu svg text.off, .wsemu svg.far text.number, .wsemu svg.far .arrow, .wsemu svg.far .tip { display: none; }
.wsemu svg.steps line, .wsemu svg.steps rect, .wsemu svg.steps path { vector-effect: non-scaling-stroke; }
.wsemu details { margin: 8px 0; }
.wsemu summary { cursor: pointer; }
.wsemu table.words { border-collapse: collapse; font-size: 13px; }
.wsemu .words th, .wsemu .words td { border-bottom: 1px solid var(--rule); padding: 2px 10px; text-align: left;
  vertical-align: top; }
.wsemu .badge { border-radius: 4px; color: var(--on); font-weight: 600; padding: 1px 8px; }
.wsemu .badge.verified { background: var(--good); }
.wsemu .badge.failed { background: var(--error); }
.wsemu .badge.incomplete { background: var(--warning); }
.wsemu .muted { color: var(--muted); fill: var(--muted); }
.wsemu b { font-weight: 600; }
.wsemu .t-error, .wsemu .t-primary { color: var(--error); font-weight: 600; }
.wsemu .t-warning { color: var(--warning); font-weight: 600; }
.wsemu .t-good { color: var(--good); font-weight: 600; }
.wsemu .t-strong { font-weight: 600; }
.wsemu .t-frame, .wsemu .t-secondary { color: var(--frame); }
.wsemu .scroll { flex: 1; overflow-x: auto; min-width: 0; }
.wsemu .timeline { display: flex; border: 1px solid var(--rule); background: var(--page); }
.wsemu .labels { flex: none; border-right: 1px solid var(--rule); }
.wsemu svg { display: block; }
.wsemu svg text { fill: var(--text); font: 12px system-ui, sans-serif; }
.wsemu svg text.muted { fill: var(--muted); }
.wsemu svg text.number, .wsemu svg text.on-mark { fill: var(--on); font-weight: 600; }
.wsemu svg text.number { text-anchor: middle; }
.wsemu svg text.small { font-size: 10px; }
.wsemu .grid { stroke: var(--rule); stroke-width: 1; }
.wsemu .frame { fill: none; stroke: var(--rule); }
.wsemu .waiting { fill: var(--wait-line); }
.wsemu .waiting.stuck { fill: var(--stuck); }
"""
    + _OF_GROUPS
    + """
.wsemu svg .of-stop { fill: var(--page); stroke: var(--error); stroke-width: 3; }
.wsemu .generation { fill: var(--generation); stroke: var(--rule); }
.wsemu .generation.stuck { fill: var(--error); fill-opacity: 0.35; }
.wsemu .arrow { fill: none; stroke: var(--arrive); stroke-opacity: 0.75; }
.wsemu .tip { fill: var(--arrive); }
.wsemu .marked { fill: none; stroke-width: 2; }
.wsemu .marked.error { stroke: var(--error); }
.wsemu .marked.warning { stroke: var(--warning); }
.wsemu .mark.error { fill: var(--error); }
.wsemu .mark.warning { fill: var(--warning); }
.wsemu .live { position: relative; }
.wsemu .live[hidden], .wsemu .jumps[hidden] { display: none; }
.wsemu .live .labels { background: var(--page); max-width: 210px; min-width: 120px; }
.wsemu .row { border-top: 1px solid transparent; box-sizing: border-box; font-size: 13px; line-height: 16px;
  overflow: hidden; padding: 1px 8px; position: relative; text-overflow: ellipsis; white-space: nowrap; }
.wsemu .row.axis { height: 24px; padding-top: 4px; }
.wsemu .row.barrier { height: 22px; padding-top: 2px; }
.wsemu .row.warp { border-color: var(--rule); height: 36px; }
.wsemu .row.warp span { display: block; overflow: hidden; text-overflow: ellipsis; }
.wsemu .row.marks1 { height: 56px; } .wsemu .row.marks2 { height: 76px; } .wsemu .row.marks3 { height: 96px; }
.wsemu .row.copying { height: 52px; } .wsemu .row.marks1.copying { height: 72px; }
.wsemu .row.marks2.copying { height: 92px; } .wsemu .row.marks3.copying { height: 112px; }
.wsemu .row .of-copies { bottom: 0; font-size: 11px; line-height: 13px; position: absolute; right: 8px; }
.wsemu .view { flex: 1; min-width: 0; overflow-x: auto; overflow-y: hidden; }
.wsemu .view canvas { display: block; left: 0; position: sticky; touch-action: pan-x pan-y; }
.wsemu .extent { height: 1px; }
.wsemu .tip { background: var(--text); border-radius: 4px; color: var(--page); font-size: 13px; max-width: 420px;
  padding: 3px 8px; pointer-events: none; position: absolute; z-index: 2; }
.wsemu .detail { min-height: 1.45em; overflow-wrap: anywhere; }
.wsemu .legend span { display: inline-block; margin-right: 18px; color: var(--muted); font-size: 13px; }
.wsemu .key { border-radius: 2px; display: inline-block; height: 11px; margin-right: 6px; vertical-align: -1px;
  width: 17px; }
.wsemu .key.line { height: 5px; vertical-align: 3px; }
.wsemu .key.line.wait { background: var(--wait-line); }
.wsemu .key.stuck { background: var(--stuck); }
.wsemu .key.edge { background: var(--edge); height: 2px; }
.wsemu .key.generation { background: var(--generation); }
.wsemu .key.generation.stuck { background: var(--stuck); }
.wsemu .key.stop, .wsemu .key.marked { background: none; box-shadow: inset 0 0 0 2px var(--error); }
.wsemu .findings { display: grid; gap: 0 24px; grid-template-columns: repeat(auto-fit, minmax(min(100%, 840px), 1fr)); }
.wsemu article { min-width: 0; }
.wsemu h3 { font-size: 15px; margin: 12px 0 4px; }
.wsemu .jumps button { background: var(--panel); border: 1px solid var(--rule); border-radius: 4px; color: var(--text);
  cursor: pointer; font: inherit; font-size: 13px; margin: 0 6px 4px 0; min-height: 28px; padding: 1px 9px; }
.wsemu dl.launch { display: grid; gap: 2px 16px; grid-template-columns: max-content minmax(0, 1fr); margin: 6px 0; }
.wsemu .launch dt { color: var(--muted); }
.wsemu .launch dd { margin: 0; overflow-wrap: anywhere; }
.wsemu table.heat { border-collapse: collapse; font-size: 13px; margin-bottom: 12px; background: none; }
.wsemu .heat caption { color: var(--muted); padding: 2px 0; text-align: left; }
.wsemu .heat tr { background: none; }
.wsemu .heat th { border-bottom: 1px solid var(--rule); font-weight: 600; padding: 2px 10px; text-align: left; }
.wsemu .heat td { padding: 0 10px; text-align: left; white-space: pre; }
.wsemu .heat td.number { color: var(--muted); text-align: right; }
.wsemu .heat td.cost svg { display: inline-block; }
.wsemu .needed { fill: var(--needed); }
.wsemu .excess { fill: var(--excess); }
.wsemu .banks { display: flex; flex-wrap: wrap; gap: 24px; }
.wsemu figure { margin: 0; max-width: 100%; }
.wsemu figcaption { color: var(--muted); font-size: 13px; }
.wsemu figcaption code { color: var(--text); }
.wsemu .ways0 { fill: var(--run); }
.wsemu .ways1 { fill: var(--hot); fill-opacity: 0.45; }
.wsemu .ways2 { fill: var(--hot); fill-opacity: 0.6; }
.wsemu .ways3 { fill: var(--hot); fill-opacity: 0.75; }
.wsemu .ways4 { fill: var(--hot); fill-opacity: 0.88; }
.wsemu .ways5 { fill: var(--hot); }
.wsemu .banks svg { height: auto; max-width: 100%; }
@media (max-width: 700px) {
  .wsemu { padding: 1px 10px 16px; }
  .wsemu .wide { display: none; }
  .wsemu .narrow { display: block; }
  .wsemu pre.summary { white-space: pre-wrap; }
  .wsemu pre { font-size: 12px; padding: 8px; }
  .wsemu .labels { width: 92px; }
  .wsemu .live .labels { min-width: 0; }
  .wsemu dl.launch { grid-template-columns: 1fr; }
  .wsemu .legend span { display: block; margin: 3px 0; }
}
@media print {
  body.wsemu {"""
    + _LIGHT_COLORS
    + """ max-width: none; padding: 0; font-size: 11pt; }
  .wsemu .tools, .wsemu .jumps, .wsemu .tip, .wsemu .detail { display: none; }
  .wsemu pre { white-space: pre-wrap; }
  .wsemu article, .wsemu figure, .wsemu tr, .wsemu .timeline { break-inside: avoid; }
  .wsemu h2, .wsemu h3 { break-after: avoid; }
  .wsemu .findings, .wsemu .banks { display: block; }
  .wsemu * { print-color-adjust: exact; }
}
@media (prefers-reduced-motion: no-preference) { html:has(body.wsemu) { scroll-behavior: smooth; } }
"""
)


class Origin(NamedTuple):
    """The origin of a page."""

    command: str
    date: str
    """date and time of the launch"""


def page(
    timeline: Timeline, first: int | None = None, origin: Origin | None = None, streams: StreamTimeline | None = None
) -> str:
    """Return the whole page, with the time line from step `first` on, and the streams of the program."""
    report = timeline.report
    title = f"{report.kernel}: {report.verdict}"
    body = tag(
        "body",
        tag("h1", report.kernel, " ", _badge(report)),
        _summary(report, linked=True),
        _launch(timeline, origin),
        _section("Time line", _live_timeline(timeline, first)),
        _section("Findings", *_first_findings(report, timeline)),
        stream_section(streams),
        _section("Costs by line", heat(timeline.lines)),
        _section("Bank conflicts", bank_figures(timeline.banks)),
        script(SCRIPT),
        class_="wsemu",
    )
    return whole_page(title, SHEET, body)


def whole_page(title: str, sheet: str, body: Markup) -> str:
    """Return a page with a title, a style sheet and a body; it loads nothing."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("meta", name="viewport", content="width=device-width"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{title} (wsemu)"),
        style(sheet),
    )
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n"


def report_fragment(report: Report) -> str:
    """Return the HTML of a report for a notebook: verdict and findings."""
    parts = [_summary(report, linked=False), *(_first_findings(report) if report.findings else [])]
    return tag("div", style(SHEET), tag("p", tag("b", report.kernel), " ", _badge(report)), *parts, class_="wsemu")


def timeline_fragment(timeline: Timeline) -> str:
    """Return the HTML of a time line for a notebook: the picture, and a list of the findings that it marks."""
    report = timeline.report
    head = tag("p", tag("b", report.kernel), " ", _badge(report))
    names = [
        tag("p", tag("b", n + 1), f" {finding.severity}[{finding.code}]: {finding.message}")
        for n, finding in enumerate(report.findings[:MOST_SHOWN])
    ]
    costs = tag("details", tag("summary", "Costs by line"), heat(timeline.lines), bank_figures(timeline.banks))
    picture = _timeline(timeline, window(timeline), linked=False)
    return tag("div", style(SHEET), head, picture, *names, costs, class_="wsemu")


def prediction_fragment(prediction: Prediction) -> str:
    """Return a predicted time as HTML for a notebook."""
    text = "\n".join(format_prediction(prediction))
    return tag("div", style(SHEET), tag("pre", text), class_="wsemu")


def _section(title: str, *parts: Markup) -> Markup:
    return tag("section", tag("h2", title), *parts)


def _badge(report: Report) -> Markup:
    return tag("span", report.verdict, class_=f"badge {report.verdict}")


def _summary(report: Report, *, linked: bool) -> Markup:
    return _terminal_markup(lambda columns: summary_lines(report, columns), "summary", linked=linked)


def _launch(timeline: Timeline, origin: Origin | None) -> Markup:
    """Return the shape, the arguments and the origin of the launch."""
    report = timeline.report
    extents = (("grid", report.grid), ("block", report.block))
    entries = [(name, " x ".join(f"{n:,}" for n in size)) for name, size in extents]
    entries += [("dynamic shared memory", f"{report.dynamic_shared:,} bytes")] if report.dynamic_shared else []
    entries.append(("architecture", report.arch))
    entries += [(f"argument {name}", value) for name, value in timeline.arguments]
    entries += [("command", origin.command), ("date", origin.date)] if origin else []
    entries.append(("version", f"wsemu {__version__}"))
    listed = (part for name, value in entries for part in (tag("dt", name), tag("dd", tag("code", value))))
    return tag(
        "details",
        tag("summary", f"Launch: {_launch_words(timeline)}"),
        tag("dl", *listed, class_="launch"),
        class_="launch",
    )


def _launch_words(timeline: Timeline) -> str:
    report = timeline.report
    count = len(timeline.arguments)
    arguments = f"{count} argument{'s' * (count != 1)}"
    return f"grid {extent(report.grid)}, block {extent(report.block)}, {report.arch}, {arguments}"


def _live_timeline(timeline: Timeline, first: int | None) -> Markup:
    """Return the timeline that the script draws.  Without the script, the page shows a picture of a part of it."""
    part = window(timeline, first)
    still = tag("noscript", _words(timeline, part), timeline_svg(timeline, part, linked=True))
    return join([
        _words(timeline), still, timeline_canvas(timeline, first), legend(timeline), describe_picture(timeline),
    ])  # fmt: skip


def _first_findings(report: Report, timeline: Timeline | None = None) -> list[Markup]:
    """Return the first findings, and the number of further ones.  On a page they have links to the time line."""
    left = len(report.findings) - MOST_SHOWN
    rest = [tag("p", f"{left:,} findings not shown.", class_="muted")] if left > 0 else []
    shown = [_finding(report, n, timeline) for n in range(min(len(report.findings), MOST_SHOWN))]
    return [tag("div", *shown, class_="findings") if shown else tag("p", "none", class_="muted"), *rest]


def _finding(report: Report, number: int, timeline: Timeline | None) -> Markup:
    finding = report.findings[number]
    lines = functools.partial(finding_lines, finding, cures=find_cures(report, finding))
    text = _terminal_markup(lines, finding.severity, linked=timeline is not None)
    label = f"finding {number + 1}, {finding.code}"
    if timeline is None:
        return tag("article", text, aria_label=label)
    head = tag("h3", f"Finding {number + 1}: {finding.code}")
    parts = [head, mark_buttons(timeline, number), text]
    return tag("article", *parts, id=f"finding-{number + 1}", aria_label=label, tabindex=-1)


def _terminal_markup(lines: Callable[[int], Iterable[Line]], class_: str, *, linked: bool) -> Markup:
    """Return terminal text as HTML.  A page contains it twice, for wide and narrow windows, and the style sheet shows
    one of them.  A notebook contains it once, because it may be shown without the style sheet."""
    widths = ((COLUMNS, "wide "), (FEW_COLUMNS, "narrow ")) if linked else ((COLUMNS, ""),)
    return join(tag("pre", _styled_markup(lines(columns)), class_=f"{name}{class_}") for columns, name in widths)


def _styled_markup(lines: Iterable[Line]) -> Markup:
    """Return the lines of a diagnostic with their styles."""
    made = (join(tag("span", text, class_=f"t-{name}") if name else text for text, name in line) for line in lines)
    return join(part for line in made for part in (line, "\n"))


def _timeline(timeline: Timeline, part: Window, *, linked: bool) -> Markup:
    """Return a picture of a part of a time line, for a notebook."""
    picture = timeline_svg(timeline, part, linked=linked)
    return join([_words(timeline, part), picture, legend(timeline), describe_picture(timeline)])


def _words(timeline: Timeline, part: Window | None = None) -> Markup:
    """Return a text for the extent of the time line, or of the part in a picture."""
    x, y, z = timeline.report.grid
    cta = f"CTA {timeline.index}" + (f" of {x * y * z:,}" if x * y * z > 1 else "")
    is_cut = part is not None and part.end - part.first < timeline.length
    extent = f"{timeline.length:,} steps"
    if part is not None and is_cut:
        extent = f"steps {part.first:,} to {max(part.end - 1, 0):,} of {timeline.length:,}"
    words = [f"{cta}, {extent}.  {_STEP}"]
    if not timeline.length:
        words.append(f"Nothing to draw: {NO_STEPS}.")
    if is_cut:
        words.append("The rest is left out of the picture: `--from STEP` moves it, `-o FILE.json` has all.")
    if not timeline.complete:
        words.append("The trace is full: later steps are left out.")
    if part is not None and len(timeline.edges()) > MOST_ARROWS:
        words.append(f"Only {MOST_ARROWS:,} arrows are drawn.")
    return tag("p", "  ".join(words), class_="muted")
