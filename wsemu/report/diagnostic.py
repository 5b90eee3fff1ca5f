"""The form of a diagnostic: findings and errors as lines of styled pieces, with source excerpts.

    error[deadlock]: warp 0 waits on barrier 1 for warp 1, which waits on barrier 2 for warp 0
      --> both_wait_first.py:13:9
       |
    13 |         ptx.bar_sync(3, 64)
       |         ^^^^^^^^^^^^^^^^^^^ warp 1 waits: barrier 3 generation 0 has 32 of 64
       |
       = note: ...
       = run `wsemu explain deadlock` for more

`^` marks a primary site, `-` one that explains it.
"""

from __future__ import annotations

import itertools
import linecache
import os
import textwrap
from collections import Counter
from typing import TYPE_CHECKING, Literal

from wsemu.model.cure import INTERRUPTED, Trials
from wsemu.model.errors import CompileError, KernelError, UnsupportedError
from wsemu.model.file_names import cell
from wsemu.model.finding import BETWEEN, MOST_SHOWN, Site
from wsemu.model.own import is_own

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from wsemu.launch.result import Report
    from wsemu.model.cure import Cure
    from wsemu.model.finding import Finding
    from wsemu.model.program import Span

Style = Literal["", "error", "warning", "good", "strong", "frame", "primary", "secondary", "explain"]
"""`explain` marks the command that prints the page of a code: a terminal links it to that page"""
Line = list[tuple[str, Style]]
"""pieces of one line of output with their styles"""

EXPLAIN = "wsemu explain "
"""the command before its code"""

_MOST_SITES = 12
"""maximum number of sites of one finding that are shown; the others are counted"""


def report_lines(report: Report, width: int, *, all_: bool = False) -> Iterator[Line]:
    """Yield the lines of a report: one finding of each cause in full, then remarks on the launch as a whole."""
    report = report.helped()
    yield from cause_lines(report, report.findings[:MOST_SHOWN], width, all_=all_)
    if len(report.findings) > MOST_SHOWN:
        yield from summary_lines(report, width)
        yield [(f"{len(report.findings) - MOST_SHOWN:,} findings not shown: `report.findings` has them", "warning")]
    elif report.verdict == "incomplete" or not report.findings:
        yield from summary_lines(report, width)
    else:
        for note in report.notes:
            yield from _note("note", note, 0, width)


def cause_lines(report: Report, shown: Sequence[Finding], width: int, *, all_: bool = False) -> Iterator[Line]:
    """Yield the lines of the first findings of a `helped` report, grouped by cause.  The first finding of a cause is
    shown in full, with the edit that fixes it.  The others take one line each; with `all_`, they are shown in full as
    well."""
    trials = report.trials or Trials(groups=[[n] for n in range(len(report.findings))])
    told = False
    for group in trials.groups:
        members = [n for n in group if n < len(shown)]
        for n in members if all_ else members[:1]:
            first = trials.cure is not None and n == group[0] and n in trials.cure.findings and not told
            cures = [c for c in (trials.cure, trials.other) if c and n in c.findings] if first else []
            told |= first
            more = [] if all_ else [report.findings[k] for k in members[1:]]
            yield from finding_lines(report.findings[n], width, cures, more)
            yield []
    if shown and not trials.cures and (trials.tried or trials.stopped):
        yield from _note("note", _failed_trials_text(trials), 0, width)


def find_cures(report: Report, finding: Finding) -> list[Cure]:
    """Return the edits that remove a finding: the best one, and the best one with other results."""
    helped = report.helped()
    trials = helped.trials
    if trials is None:
        return []
    number = next((n for n, other in enumerate(helped.findings) if other is finding), -1)
    return [cure for cure in (trials.cure, trials.other) if cure and number in cure.findings]


def _failed_trials_text(trials: Trials) -> str:
    """Return the note that no edit was a verified fix."""
    if trials.stopped == INTERRUPTED:
        return "the search for an edit that is a cure was interrupted"
    number = "" if trials.stopped else f"{trials.tried:,} "  # which of them the time is enough for differs
    tried = f"none of the {number}edits that were tried is a cure" if trials.tried else "no edit was tried"
    return f"{tried}{f': {trials.stopped}' if trials.stopped else ''}"


_HOLDS_IN = {
    "every schedule": "every schedule",
    "some schedules": "at least one schedule; not proven for every schedule",
}
"""words for the schedules of a finding"""


def finding_lines(
    finding: Finding, width: int, cures: Sequence[Cure] = (), more: Sequence[Finding] = ()
) -> Iterator[Line]:
    """Yield the lines of one finding: title, excerpts, notes, schedule, the schedules in which it holds, help.  `more`
    are other findings with the same cause."""
    yield from _title(f"{finding.severity}[{finding.code}]", finding.severity, finding.message, width)
    shown = finding.sites[:_MOST_SITES]
    gutter = _gutter(shown)
    yield from _excerpts(shown, gutter, width)
    notes = list(finding.notes)
    if len(shown) < len(finding.sites):
        notes.append(f"{len(finding.sites) - len(shown)} more places are not shown")
    if finding.count > 1:
        notes.append(f"seen {finding.count:,} times; this is the first")
    for note in notes:
        yield from _note("note", note, gutter, width)
    help_ = [*_help(finding, cures, gutter, width)]
    if finding.schedule:
        yield from help_
        yield from _schedule(finding, gutter, width)
    if finding.holds_in:
        yield from _note("holds in", _HOLDS_IN[finding.holds_in], gutter, width)
    if not finding.schedule:
        yield from help_
    if more:
        yield from _further_finding_lines(more, gutter, width)
    yield _explanation(finding.code, gutter, width)


def _explanation(code: str, gutter: int, width: int) -> Line:
    """Name the command that prints the page of a code; in a narrow column, print only the command."""
    line: Line = [(f"{'':{gutter}} = ", "frame"), ("run `", ""), (f"{EXPLAIN}{code}", "explain"), ("` for more", "")]
    if sum(len(text) for text, _ in line) > width:
        line[-1] = ("`", "")
    return line


def _help(finding: Finding, cures: Sequence[Cure], gutter: int, width: int) -> Iterator[Line]:
    """Yield the edits that fix a finding, with their diffs, or else the finding's help."""
    for cure in cures:
        yield from _note(*label_cure(cure), gutter, width)
        yield from _diff(cure, gutter)
    if not cures and finding.help:
        yield from _note("hint", finding.help, gutter, width)


def label_cure(cure: Cure) -> tuple[str, str]:
    """Return the label and the text of an edit."""
    than = f", {cure.differs}" if cure.differs else ""
    label = "or, with other results" if cure.differs else "help" if cure.is_proven else "hint"
    proven = "proven: " if cure.is_proven else ""
    return label, f"{proven}{cure.says}{cure.caution}; then {cure.outcome}{than}"


def _diff(cure: Cure, gutter: int) -> Iterator[Line]:
    """Yield the lines of an edit: removed ones with `-`, added ones with `+`."""
    styles: dict[str, Style] = {"+": "good", "-": "error"}
    lines = cure.lines()
    gutter = max(gutter, *(len(str(number)) for _, number, _ in lines)) if lines else gutter
    before = lines[0][1] if lines else 0
    for mark, number, text in lines:
        if number > before + 1:
            yield [("...", "frame")]
        before = number
        sign = mark if mark in styles else "|"
        yield [(f"{number:>{gutter}} {sign} ", "frame"), (clean(text.expandtabs(4)), styles.get(mark, ""))]


def _further_finding_lines(more: Sequence[Finding], gutter: int, width: int) -> Iterator[Line]:
    """Yield a line for each finding with the same cause; findings with equal titles share a line."""
    yield [(f"{'':{gutter}} = ", "frame"), (f"{len(more)} more with the same cause:", "strong")]
    for title, times in Counter(str(finding) for finding in more).items():
        text = f"{'':{gutter + 5}}{title}{f' ({times} findings)' if times > 1 else ''}"
        for line in wrap_text(text, width, " " * (gutter + 9)):
            yield [(line, "")]


def error_lines(error: Exception, width: int) -> Iterator[Line]:
    """Yield the lines for an error in a launch or in a kernel's source, with the source if it is known."""
    unsupported = isinstance(error, UnsupportedError)
    kind: Style = "warning" if unsupported else "error"
    message = error.message if isinstance(error, (KernelError, CompileError)) else str(error)
    yield from _title("unsupported" if unsupported else "error", kind, message, width)
    if isinstance(error, CompileError):
        for line in error.output.split("\n"):
            yield [(clean(line.expandtabs(4)), "")]
    if not isinstance(error, KernelError):
        return
    sites = [] if error.span is None else [Site.at(error.span)]
    inside = error.span is None or is_own(error.span.file)
    sites += [_call_site(call) for call in reversed(error.calls) if inside or not is_own(call.file)]
    gutter = _gutter(sites)
    yield from _excerpts(sites, gutter, width)
    if error.remedy:
        yield from _note("help", error.remedy, gutter, width)


def summary_lines(report: Report, width: int) -> Iterator[Line]:
    """Yield the summary line `sgemv[grid 8, block 288] verified: ...` and a line of numbers; for an incomplete launch,
    also yield the reasons."""
    style: Style = {"verified": "good", "failed": "error", "incomplete": "warning"}[report.verdict]  # type: ignore[assignment]
    launch = clean(f"{report.kernel}[grid {extent(report.grid)}, block {extent(report.block)}]")
    if report.kernel == BETWEEN:
        launch = BETWEEN
    head = f"{launch}  {report.verdict}"
    first, *rest = wrap_text(head + _outcome(report), width, "  ")
    if first.startswith(head):
        yield [(launch, "strong"), ("  ", ""), (report.verdict, style), (first[len(head) :], "")]
    else:  # the launch has a line of its own
        first, *rest = wrap_text(f"  {report.verdict}{_outcome(report)}", width, "  ")
        yield [(launch, "strong")]
        yield [("  ", ""), (report.verdict, style), (first[len(report.verdict) + 2 :], "")]
    figures = [] if report.kernel == BETWEEN else [f"  {', '.join(_figures(report))}"]
    for line in [*rest, *figures]:
        yield [(line, "")]
    for note in report.notes:
        yield from _note("note", note, 1, width)


def plural(count: int, noun: str, ending: str = "s") -> str:
    """Return a text such as `1 launch` or `1,024 launches`."""
    return f"{count:,} {noun}{ending if count != 1 else ''}"


def clean(text: str) -> str:
    """Return `text` without characters that could move a terminal's cursor."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def _outcome(report: Report) -> str:
    errors, warnings = len(report.errors) + report.untold, len(report.warnings)
    parts = [f"{n:,} {word}{'s' * (n > 1)}" for n, word in ((errors, "error"), (warnings, "warning")) if n]
    if report.verdict == "verified":
        parts = [report.proof or "no error found", *parts]
    if report.verdict == "incomplete":
        parts = ["no error seen, nothing proven", *parts]
    if report.suppressed:
        parts.append(f"{len(report.suppressed)} suppressed")
    return f": {', '.join(parts)}"


def _figures(report: Report) -> list[str]:
    counters = report.counters
    figures = [f"{counters.accesses:,} accesses"]
    if counters.bank_conflicts is not None:
        figures.append(f"{counters.bank_conflicts:,} bank conflicts")
    if counters.uncounted_atomics:
        n = counters.uncounted_atomics
        figures.append(f"{n:,} shared atomic{'s' * (n != 1)} whose conflicts are not counted")
    if counters.uncounted_tiles:
        figures.append(f"{counters.uncounted_tiles:,} tensor copies or `wgmma` whose conflicts are not counted")
    if counters.coalesced is not None:
        figures.append(f"{counters.coalesced:.0%} coalesced")
    if report.residency is not None:
        figures.append(str(report.residency))
    return [*figures, f"{report.seconds:.2f} s"]


def extent(size: tuple[int, int, int]) -> str:
    x, y, z = size
    if (y, z) == (1, 1):
        return f"{x:,}"
    return f"{x:,} x {y:,}" if z == 1 else f"{x:,} x {y:,} x {z:,}"


def _title(head: str, style: Style, message: str, width: int) -> Iterator[Line]:
    first, *rest = wrap_text(f"{head}: {message}", width, "  ")
    yield [(first[: len(head)], style), (first[len(head) :], "strong")]
    for line in rest:
        yield [(line, "strong")]


def _note(label: str, text: str, gutter: int, width: int) -> Iterator[Line]:
    """Yield ` = note: text`, wrapped and indented to its first word.  Line breaks in `text` stay."""
    head = f"{'':{gutter}} = {label}: "
    first, *rest = text.splitlines() or [""]
    lines = wrap_text(head + first, width, " " * len(head))
    yield [(lines[0][: gutter + 3], "frame"), (f"{label}:", "strong"), (lines[0][len(head) - 1 :], "")]
    for line in lines[1:]:
        yield [(line, "")]
    for paragraph in rest:
        for line in wrap_text(" " * (gutter + 5) + paragraph.rstrip(), width, " " * len(head)):
            yield [(line, "")]


def _schedule(finding: Finding, gutter: int, width: int) -> Iterator[Line]:
    """Yield ` = schedule (36 of 41 steps hidden):` and the steps, whose alignment is kept."""
    kept, steps = len(finding.schedule), finding.schedule_steps
    hidden = steps - kept
    extent = f" ({hidden:,} of {steps:,} steps hidden)" if hidden > 0 else ""
    yield [(f"{'':{gutter}} = ", "frame"), (f"schedule{extent}:", "strong")]
    indent = " " * (gutter + 5)
    for step in finding.schedule:
        for line in wrap_text(indent + step, width, indent + "      "):
            yield [(line, "")]


def wrap_text(text: str, width: int, indent: str) -> list[str]:
    lines = textwrap.wrap(
        clean(text),
        max(width, len(indent) + 20),
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
        drop_whitespace=True,
        replace_whitespace=False,
    )
    return lines or [""]


def _call_site(call: Span) -> Site:
    return Site.at(call, "called from here", primary=False)


def _gutter(sites: Iterable[Site]) -> int:
    return max((len(str(site.line)) for site in sites), default=1)


def _excerpts(sites: list[Site], gutter: int, width: int) -> Iterator[Line]:
    """Yield the source lines of `sites`, each with its marks, and `...` instead of omitted lines.

    The location in the head is that of the first primary site.  Its file comes first; the other files keep their order.
    """
    head = next((site for site in sites if site.primary), sites[0] if sites else None)
    if head is not None and head.file != sites[0].file:
        sites = sorted(sites, key=lambda site: site.file != head.file)
    empty: Line = [(f"{'':{gutter}} |", "frame")]
    before: Site | None = None
    shown = ""
    for site in sites:
        if before is None or site.file != before.file:
            arrow, place = (":::", site) if before is not None else ("-->", head or site)
            yield [(f"{'':{gutter}}{arrow} ", "frame"), (clean(_location(place)), "")]
            yield empty
        elif not before.line <= site.line <= before.line + 2:
            yield [("...", "frame")]
        if before is None or (site.file, site.line) != (before.file, before.line):
            shown = ""
        room = max(width - gutter - 3, 20)
        source = linecache.getline(site.file, site.line).rstrip("\n\r")
        if source:
            text, start, length = _window(source, site, room)
            if text != shown:  # two sites of a line share it
                yield [(f"{site.line:>{gutter}} | ", "frame"), (text, "")]
            shown = text
            yield from _mark_lines(start, length, site, gutter, room)
        elif site.text:
            yield [(f"{site.line:>{gutter}} | ", "frame"), (clean(site.text), _style(site))]
        before = site
    if sites:
        yield empty


def _location(site: Site) -> str:
    """Return `file:line:column`, relative to the working folder if the file is in it.  Columns count characters."""
    return f"{display_path(site.file)}:{site.line}:{columns(site)[0]}"


def columns(site: Site) -> tuple[int, int]:
    """Return the first column of a site and the first column after it, from 1, in characters."""
    first, last = linecache.getline(site.file, site.line), linecache.getline(site.file, site.end_line)
    return (
        _characters(first, site.column - 1) + 1 if first else site.column,
        _characters(last, site.end_column - 1) + 1 if last else site.end_column,
    )


def display_path(file: str) -> str:
    """Return the real path of the file, relative to the working folder if the file is in it.  For a notebook, return
    the cell's number."""
    if file.startswith("<"):
        return cell(file) or file
    if named := cell(file):
        return named
    path = os.path.realpath(file)
    here = os.path.join(os.path.realpath(os.getcwd()), "")
    return path.removeprefix(here)


def _window(source: str, site: Site, room: int) -> tuple[str, int, int]:
    """Return the source line as shown, and the start and the length of its mark, in terminal cells.

    A line longer than `room` is cut on both sides of the mark.
    """
    first = _characters(source, site.column - 1)
    last = _characters(source, site.end_column - 1) if site.end_line == site.line else len(source.rstrip())
    last = max(last, first + 1)
    shown = clean(source.expandtabs(4))
    head = _clean_line(source[:first])
    mark = max(_cells(_clean_line(source[:last])) - _cells(head), 1)
    if _cells(shown) <= room:
        return shown, _cells(head), mark
    cut = len(head) if _cells(head) + mark > room else 0
    cut -= min(cut, 8)
    text = ("..." + shown[cut:]) if cut else shown
    start = _cells(shown[cut : len(head)]) + (3 if cut else 0)
    text = _first_cells(text, room - 3)
    return text + "...", start, max(min(mark, room - start), 1)


def _mark_lines(start: int, length: int, site: Site, gutter: int, room: int) -> Iterator[Line]:
    """Yield the lines of a mark with its label to its right, or below it if there is not enough room."""
    marks = " " * start + ("^" if site.primary else "-") * length
    text = clean(site.text)
    beside = len(marks) + 1
    if text and beside + min(len(text), 24) <= room:
        first, *rest = textwrap.wrap(text, room - beside)
        lines = [f"{marks} {first}", *(" " * beside + line for line in rest)]
    else:
        indent = " " * min(start, max(room - 40, 0))
        lines = [marks, *textwrap.wrap(text, room, initial_indent=indent, subsequent_indent=indent)]
    for line in lines:
        yield [(f"{'':{gutter}} | ", "frame"), (line, _style(site))]


def _style(site: Site) -> Style:
    return "primary" if site.primary else "secondary"


def _characters(source: str, column: int) -> int:
    """Return the number of characters in the first `column` bytes of `source`."""
    return len(source.encode(errors="replace")[:column].decode(errors="ignore"))


def _clean_line(text: str) -> str:
    return clean(text.expandtabs(4))


def _cells(text: str) -> int:
    """Return the number of terminal cells that `text` occupies."""
    return len(text) if text.isascii() else sum(map(_width, text))


def _width(character: str) -> int:
    import unicodedata  # most text is ASCII

    return 0 if unicodedata.combining(character) else 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _first_cells(text: str, room: int) -> str:
    """Return the longest beginning of `text` that fits into this number of cells."""
    widths = itertools.accumulate(map(_width, text))
    return text[: sum(1 for _ in itertools.takewhile(lambda cells: cells <= room, widths))]
