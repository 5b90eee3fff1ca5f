"""A time line as text: a row of steps for each warp, one character a step, and a row for each named barrier and each
mbarrier. A further row of a warp has its asynchronous copies, from their issue until a thread observes their
completion.

            0         10
barrier 1   0--1---
warp 0      s..=s.==
            1   1
               ^A2
warp 1      ==a==a
              1  1
               ^A1
"""

from __future__ import annotations

import itertools
import textwrap
from collections import defaultdict
from typing import TYPE_CHECKING

from wsemu.evidence.labels import NO_STEPS, letter
from wsemu.model.data import NamedTuple
from wsemu.model.finding import MOST_SHOWN
from wsemu.report.diagnostic import clean, display_path, find_cures, label_cure, summary_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from wsemu.launch.timeline import Step, Timeline, Warp
    from wsemu.report.diagnostic import Line, Style

MOST_BLOCKS = 4
"""rows of the picture that lie below each other"""
MOST_LINES = 100
"""maximum number of lines of all blocks, if a single block has fewer"""
_LABEL = 16
"""maximum number of columns of a label next to the picture"""
_SYMBOLS: dict[str, tuple[str, Style]] = {
    "=": ("memory access", ""),
    "*": ("atomic", ""),
    "|": ("fence", ""),
    "~": ("warp-wide operation", ""),
    "a": ("arrive", "good"),
    "s": ("sync", "strong"),
    "m": ("begins, ends or changes an mbarrier", ""),
    "w": ("wait for a phase, or for copies", "strong"),
    "c": ("issues copies", "good"),
    ".": ("waits", "frame"),
    "x": ("waits for ever", "error"),
    "!": ("the run stops", "error"),
}
"""meaning and style of each character that represents a step"""
_CHARACTER = {
    "access": "=", "atomic": "*", "fence": "|", "warp": "~", "arrive": "a", "sync": "s", "stop": "!",
    "arrive_on": "a", "await": "w", "mbarrier": "m", "copy": "c", "landed": "w",
}  # fmt: skip
_DIGITS = "0123456789ABCDEF"


class _Row(NamedTuple):
    """A row of the picture without its label."""

    text: str
    style: Style = ""
    """style of all characters without a style of their own"""
    symbols: bool = False
    """true if the row consists of characters of _SYMBOLS"""


def timeline_lines(timeline: Timeline, width: int, first: int | None = None) -> Iterator[Line]:
    """Yield the lines of a picture of a time line, `width` columns wide, beginning with step `first`.  By default it
    begins with the start, or with the first mark if not everything fits."""
    yield from summary_lines(timeline.report, width)
    yield []
    labels = [f"warp {warp.number}" for warp in timeline.warps] + [warp.role for warp in timeline.warps]
    labels += [_label(timeline, barrier) for barrier in timeline.mbarriers]
    margin = min(max(map(len, [*labels, "barrier 00", "warps 00-00"])), _LABEL) + 2
    columns = max(width - margin, 20)
    start, ends = _window(timeline, columns, first)
    yield from _wrap_line(_extent(timeline, start, ends[-1]), width, "  ", "strong")
    used: set[str] = set()
    for begin, end in zip([start, *ends], ends, strict=False) if timeline.length else ():
        yield []
        for label, row in _block(timeline, begin, end):
            used |= set(row.text) if row.symbols else set()
            yield _line(label, row, margin)
    yield from _legend(timeline, used, width)
    yield from _left_out(timeline, start, ends[-1], width)
    yield from _findings(timeline, start, ends[-1], width)


def _extent(timeline: Timeline, start: int, end: int) -> str:
    """Return the CTA and the range of its steps."""
    cta = f"CTA {timeline.cta}" + ("" if timeline.report.grid[1:] == (1, 1) else f" at {timeline.index}")
    if not timeline.length:
        return f"{cta}, no steps: {NO_STEPS}"
    return f"{cta}, steps {start:,} to {end - 1:,} of {timeline.length:,} (steps, not cycles)"


def _window(timeline: Timeline, columns: int, first: int | None) -> tuple[int, list[int]]:
    """Return the first step, and the step after the end of each block."""
    rows = len({generation.barrier for generation in timeline.generations}) + 2 * len(timeline.warps)
    blocks = max(1, min(MOST_BLOCKS, MOST_LINES // max(rows, 1)))
    columns -= columns % 10
    if first is None:
        marked = timeline.steps[timeline.marks[0].step].at if timeline.marks else 0
        first = 0 if marked < blocks * columns else marked // 10 * 10 - columns // 2 // 10 * 10
    first = min(first, max(timeline.length - 1, 0))
    ends = [min(first + (n + 1) * columns, timeline.length) for n in range(blocks)]
    return first, [end for n, end in enumerate(ends) if n == 0 or end > ends[n - 1]]


def _line(label: str, row: _Row, margin: int) -> Line:
    """Return a row with its label, in pieces of one style each."""
    pieces: Line = [(clean(label)[: margin - 2].ljust(margin), "frame")]
    if not row.symbols:
        return [*pieces, (row.text.rstrip(), row.style)]
    for style, characters in itertools.groupby(row.text.rstrip(), lambda c: _SYMBOLS.get(c, ("", ""))[1]):
        pieces.append(("".join(characters), style))
    return pieces


def _block(timeline: Timeline, begin: int, end: int) -> Iterator[tuple[str, _Row]]:
    yield "", _Row(_axis(begin, end), "frame")
    for barrier in sorted({generation.barrier for generation in timeline.generations}):
        text = _generations(timeline, barrier, begin, end)
        if text.strip():
            yield _label(timeline, barrier), _Row(text)
    steps: dict[int, list[Step]] = {warp.number: [] for warp in timeline.warps}
    for step in timeline.steps:
        steps[step.warp].append(step)
    rows = [(warp, _warp_rows(timeline, warp, steps[warp.number], begin, end)) for warp in timeline.warps]
    for (role, (symbols, *more)), group in itertools.groupby(rows, lambda pair: (pair[0].role, pair[1])):
        numbers = [warp.number for warp, _ in group]
        label = f"warp {numbers[0]}" if len(numbers) == 1 else f"warps {numbers[0]}-{numbers[-1]}"
        yield label, symbols
        for n, row in enumerate(more):
            if row.text.strip() or (role and not n):
                yield "" if n else role, row


def _label(timeline: Timeline, barrier: int) -> str:
    """Return a label such as `barrier 1` or `a full[0]`."""
    name = timeline.name(barrier)
    return f"{timeline.letter(barrier)} {name}" if barrier in timeline.mbarriers else name


def _axis(begin: int, end: int) -> str:
    row = [" "] * (end - begin)
    for step in range(begin + -begin % 10, end, 10):
        _write(row, step - begin, str(step), len(row) + 8)
    return "".join(row)


def _generations(timeline: Timeline, barrier: int, begin: int, end: int) -> str:
    """Draw a generation from its first operation until it is complete, with its number."""
    row = [" "] * (end - begin)
    for generation in timeline.generations:
        if generation.barrier == barrier:
            until = timeline.length if generation.until is None else generation.until
            stuck = generation.until is None and timeline.is_stuck
            for at in range(max(generation.first, begin), min(until, end)):
                row[at - begin] = "x" if stuck else "-"
            text = str(generation.number)
            text = text if len(text) <= until - generation.first else text[-1]
            _write(row, generation.first - begin, text, end - begin)
    return "".join(row)


def _write(row: list[str], at: int, text: str, limit: int) -> None:
    """Write text into a row, which may grow up to a limit."""
    for column, character in enumerate(text, at):
        if 0 <= column < limit:
            row.extend(" " * (column + 1 - len(row)))
            row[column] = character


def _warp_rows(timeline: Timeline, warp: Warp, steps: list[Step], begin: int, end: int) -> tuple[_Row, ...]:
    """Return the rows of a warp: its operations, the numbers of its barriers, and the marks of findings about it."""
    symbols, barriers = [" "] * (end - begin), [" "] * (end - begin)
    for step in steps:
        until = warp.until if step.until is None else step.until
        for at in range(max(step.at, begin), min(until, end)):
            waits = "x" if step.until is None and timeline.is_stuck else "."
            symbols[at - begin] = _CHARACTER[step.kind] if at == step.at else waits
        if step.barrier >= 0 and begin <= step.at < end:
            known = step.barrier in timeline.mbarriers
            barriers[step.at - begin] = timeline.letter(step.barrier) if known else _DIGITS[step.barrier]
    rows = [_Row("".join(symbols), symbols=True), _Row("".join(barriers), "frame")]
    if any(copy.warp == warp.number for copy in timeline.copies):
        rows.append(_Row(_copies(timeline, warp, begin, end)))
    return (*rows, *(_Row(text, "error") for text in _mark_rows(timeline, warp, begin, end)))


def _copies(timeline: Timeline, warp: Warp, begin: int, end: int) -> str:
    """Draw the copies that a warp issued: `<` at the issue, `-` while a copy is in flight, `>` at its last step."""
    row = [" "] * (end - begin)
    mine = [copy for copy in timeline.copies if copy.warp == warp.number]
    for copy in mine:
        until = timeline.length if copy.until is None else copy.until
        for at in range(max(copy.at, begin), min(until, end)):
            row[at - begin] = "-"
    for copy in mine:
        if copy.until is not None and begin < copy.until <= end:
            row[copy.until - 1 - begin] = ">"
        if begin <= copy.at < end:
            row[copy.at - begin] = "<"
    return "".join(row)


def _mark_rows(timeline: Timeline, warp: Warp, begin: int, end: int) -> Iterator[str]:
    marks: defaultdict[int, list[str]] = defaultdict(list)
    for mark in timeline.marks:
        step = timeline.steps[mark.step]
        if step.warp == warp.number and begin <= step.at < end:
            marks[step.at - begin].append(mark.label)
    rows: list[list[str]] = []
    for at, labels in sorted(marks.items()):
        text = f"^{','.join(dict.fromkeys(labels))}"
        row = next((row for row in rows if len(row) <= at), None)
        if row is None:
            rows.append(row := [])
        _write(row, at, text, end - begin + 8)
    return ("".join(row) for row in rows)


# -- what stands below the picture ------------------------------------------------------------------------------------


def _legend(timeline: Timeline, used: set[str], width: int) -> Iterator[Line]:
    meanings = [f"{symbol} {meaning}" for symbol, (meaning, _) in _SYMBOLS.items() if symbol in used]
    if any(9 < step.barrier < 16 for step in timeline.steps):
        meanings.append("A-F barriers 10 to 15")
    if timeline.copies:
        meanings.append("<-> copies until someone has waited for them")
    if timeline.generations:
        meanings.append("below: the barrier")
    if meanings:
        yield []
    yield from _wrap_line("; ".join(meanings), width, "")


def _left_out(timeline: Timeline, start: int, end: int, width: int) -> Iterator[Line]:
    """Yield the limits of the picture."""
    parts = []
    if start or end < timeline.length:
        more = f"`--from {end}` goes on" if end < timeline.length else "`--from 0` shows the start"
        parts.append(f"drawn: {end - start:,} of {timeline.length:,} steps; {more}, `-o FILE.json` has all")
    if not timeline.complete:
        parts.append("the trace is full: later steps are left out")
    for part in parts:
        yield from _wrap_line(part, width, "", "warning")


def _findings(timeline: Timeline, start: int, end: int, width: int) -> Iterator[Line]:
    """Yield a line for each finding, with the operations that are marked for it."""
    findings = timeline.report.findings
    for number, finding in enumerate(findings[:MOST_SHOWN]):
        yield []
        head = f"{letter(number)} {finding.severity}[{finding.code}]: {finding.message}"
        yield from _wrap_line(head, width, "  ", finding.severity)
        marks = [mark for mark in timeline.marks if mark.finding == number]
        for mark in marks:
            step = timeline.steps[mark.step]
            drawn = "" if start <= step.at < end else ", not drawn"
            place = timeline.places[step.pc]
            text = f"{mark.label} warp {step.warp}, step {step.at:,}{drawn}: {timeline.where(step)}"
            yield from _wrap_line(f"  {text}  {display_path(place.file)}:{place.line}", width, "     ")
        if not marks and finding.sites:
            site = finding.sites[0]
            yield from _wrap_line(f"  {display_path(site.file)}:{site.line}", width, "     ")
        for cure in find_cures(timeline.report, finding):
            yield from _wrap_line(f"  {': '.join(label_cure(cure))}", width, "     ")
    if len(findings) > MOST_SHOWN:
        yield []
        yield from _wrap_line(f"{len(findings) - MOST_SHOWN:,} findings not shown", width, "", "warning")


def _wrap_line(text: str, width: int, indent: str, style: Style = "") -> Iterable[Line]:
    lines = textwrap.wrap(
        clean(text), width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False,
        replace_whitespace=False,
    )  # fmt: skip
    return [[(line, style)] for line in lines]
