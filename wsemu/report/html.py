"""A page about one launch: verdict, time line, findings, costs by line, pictures of bank conflicts.

One file that loads nothing and runs one small script (`zoom`), without which all of it can be read too; for light and
dark, and for windows of 375 pixels and more.  Fragments of it show in notebooks, without the script.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from wsemu.evidence.labels import NO_STEPS, letter
from wsemu.model.finding import MOST_SHOWN
from wsemu.report.costs_html import bank_figures, heat
from wsemu.report.diagnostic import find_cures, finding_lines, summary_lines
from wsemu.report.markup import Markup, join, script, style, tag
from wsemu.report.timeline_svg import MOST_ARROWS, Window, describe_picture, legend, timeline_svg, tools, window
from wsemu.report.zoom import POLICY, SCRIPT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from wsemu.launch.result import Report
    from wsemu.launch.timeline import Timeline
    from wsemu.model.cure import Cure
    from wsemu.model.finding import Finding
    from wsemu.report.diagnostic import Line

COLUMNS, FEW_COLUMNS = 100, 44
"""columns of the findings' text in a wide and in a narrow window"""
_STEP = "A step is one memory access or barrier operation of a warp, made as soon as it may be: steps, not cycles."
_DARK = """
  --page: #14171c; --text: #e1e6ec; --muted: #9aa5b1; --rule: #343c46; --panel: #1c2128;
  --run: #4a7fb5; --wait: #56616e; --arrive: #3fa873; --sync: #8a80ff; --generation: #2c3f55;
  --error: #ff7b72; --warning: #d9a03c; --good: #4ac26b; --frame: #79b8ff; --on: #14171c;
  --needed: #4a7fb5; --excess: #ff8f4d; --hot: #ff6b4a; color-scheme: dark;"""
SHEET = (
    """
.wsemu {
  --page: #ffffff; --text: #1d232b; --muted: #59636e; --rule: #d5dbe1; --panel: #f5f7f9;
  --run: #7fabd9; --wait: #b9c2cb; --arrive: #1f7a4d; --sync: #5a4fcf; --generation: #dbe7f4;
  --error: #b3261e; --warning: #8a5a00; --good: #1a7f37; --frame: #0a58ad; --on: #ffffff;
  --needed: #7fabd9; --excess: #d9480f; --hot: #c92a2a; color-scheme: light;
  background: var(--page); color: var(--text); font: 15px/1.45 system-ui, sans-serif; padding: 1px 20px 20px;
}
@media (prefers-color-scheme: dark) { .wsemu {"""
    + _DARK
    + """ } }
body.wsemu { margin: 0 auto; max-width: 1240px; }
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
.wsemu .run { fill: var(--run); }
.wsemu .wait { fill: var(--wait); }
.wsemu .stop { fill: var(--page); stroke: var(--error); stroke-width: 3; }
.wsemu .stuck { fill: var(--error); }
.wsemu .arrive { fill: var(--arrive); }
.wsemu .sync { fill: var(--sync); }
.wsemu .generation { fill: var(--generation); stroke: var(--rule); }
.wsemu .generation.stuck { fill: var(--error); fill-opacity: 0.35; }
.wsemu .arrow { fill: none; stroke: var(--arrive); stroke-opacity: 0.75; }
.wsemu .tip { fill: var(--arrive); }
.wsemu .marked { fill: none; stroke-width: 2; }
.wsemu .marked.error { stroke: var(--error); }
.wsemu .marked.warning { stroke: var(--warning); }
.wsemu .mark.error { fill: var(--error); }
.wsemu .mark.warning { fill: var(--warning); }
.wsemu .legend span { display: inline-block; margin-right: 18px; color: var(--muted); font-size: 13px; }
.wsemu .legend svg { display: inline-block; vertical-align: middle; }
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
  .wsemu .legend span { display: block; margin: 3px 0; }
}
@media (prefers-reduced-motion: no-preference) { html:has(body.wsemu) { scroll-behavior: smooth; } }
"""
)


def page(timeline: Timeline, first: int | None = None) -> str:
    """The whole page, with the time line from step `first` on."""
    report = timeline.report
    title = f"{report.kernel}: {report.verdict}"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("meta", name="viewport", content="width=device-width"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{title} (wsemu)"),
        style(SHEET),
    )
    body = tag(
        "body",
        tag("h1", report.kernel, " ", _badge(report)),
        _summary(report, linked=True),
        _section("Time line", _timeline(timeline, window(timeline, first), linked=True)),
        _section("Findings", *_first_findings(report, linked=True)),
        _section("Costs by line", heat(timeline.lines)),
        _section("Bank conflicts", bank_figures(timeline.banks)),
        script(SCRIPT),
        class_="wsemu",
    )
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n"


def report_fragment(report: Report) -> str:
    """A report in a notebook: verdict and findings."""
    parts = [_summary(report, linked=False), *(_first_findings(report, linked=False) if report.findings else [])]
    return tag("div", style(SHEET), tag("p", tag("b", report.kernel), " ", _badge(report)), *parts, class_="wsemu")


def timeline_fragment(timeline: Timeline) -> str:
    """A time line in a notebook: the picture, and what its marks are about."""
    report = timeline.report
    head = tag("p", tag("b", report.kernel), " ", _badge(report))
    names = [
        tag("p", tag("b", letter(n)), f" {finding.severity}[{finding.code}]: {finding.message}")
        for n, finding in enumerate(report.findings[:MOST_SHOWN])
    ]
    return tag("div", style(SHEET), head, _timeline(timeline, window(timeline), linked=False), *names, class_="wsemu")


def _section(title: str, *parts: Markup) -> Markup:
    return tag("section", tag("h2", title), *parts)


def _badge(report: Report) -> Markup:
    return tag("span", report.verdict, class_=f"badge {report.verdict}")


def _summary(report: Report, *, linked: bool) -> Markup:
    return _terminal_markup(lambda columns: summary_lines(report, columns), "summary", linked=linked)


def _first_findings(report: Report, *, linked: bool) -> list[Markup]:
    """The first findings, and how many there are more."""
    left = len(report.findings) - MOST_SHOWN
    rest = [tag("p", f"{left:,} findings not shown.", class_="muted")] if left > 0 else []
    return [_findings(report, linked=linked), *rest]


def _findings(report: Report, *, linked: bool) -> Markup:
    """The diagnostics of the first findings; with names for links where there is one page of them."""
    shown = []
    for n, finding in enumerate(report.findings[:MOST_SHOWN]):
        lines = functools.partial(_label_lines, finding, find_cures(report, finding), letter(n))
        text = _terminal_markup(lines, finding.severity, linked=linked)
        name, label = f"finding-{letter(n)}" if linked else None, f"finding {letter(n)}, {finding.code}"
        shown.append(tag("article", text, id=name, aria_label=label, tabindex=-1 if linked else None))
    return join(shown) if shown else tag("p", "none", class_="muted")


def _label_lines(finding: Finding, cures: Sequence[Cure], label: str, columns: int) -> list[Line]:
    first, *rest = finding_lines(finding, columns, cures)
    return [[(f"{label} ", "strong"), *first], *rest]


def _terminal_markup(lines: Callable[[int], Iterable[Line]], class_: str, *, linked: bool) -> Markup:
    """Text of a terminal: on a page once for a wide window and once for a narrow one, of which the style sheet shows
    one; in a notebook, which may be shown without its styles, once."""
    widths = ((COLUMNS, "wide "), (FEW_COLUMNS, "narrow ")) if linked else ((COLUMNS, ""),)
    return join(tag("pre", _styled_markup(lines(columns)), class_=f"{name}{class_}") for columns, name in widths)


def _styled_markup(lines: Iterable[Line]) -> Markup:
    """Lines of a diagnostic with their styles."""
    made = (join(tag("span", text, class_=f"t-{name}") if name else text for text, name in line) for line in lines)
    return join(part for line in made for part in (line, "\n"))


def _timeline(timeline: Timeline, part: Window, *, linked: bool) -> Markup:
    x, y, z = timeline.report.grid
    cta = f"CTA {timeline.index}" + (f" of {x * y * z:,}" if x * y * z > 1 else "")
    drawn = part.end - part.first
    extent = f"{timeline.length:,} steps"
    if drawn < timeline.length:
        extent = f"steps {part.first:,} to {max(part.end - 1, 0):,} of {timeline.length:,}"
    words = [f"{cta}, {extent}.  {_STEP}"]
    if not timeline.length:
        words.append(f"Nothing to draw: {NO_STEPS}.")
    if drawn < timeline.length:
        words.append("The rest is left out of the picture: `--from STEP` moves it, `-o FILE.json` has all.")
    if not timeline.complete:
        words.append("The trace is full: later steps are left out.")
    if len(timeline.edges()) > MOST_ARROWS:
        words.append(f"Only {MOST_ARROWS:,} arrows are drawn.")
    picture = timeline_svg(timeline, part, linked=linked)
    shown = [tools(), picture] if linked else [picture]
    return join([tag("p", "  ".join(words), class_="muted"), *shown, legend(), describe_picture(timeline)])
