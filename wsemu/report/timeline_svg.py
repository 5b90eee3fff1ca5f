"""A timeline as SVG: a row for each named barrier and mbarrier with its generations or phases, and a row for each warp
with its actions.  A thin row below a warp shows its asynchronous copies.

The timeline consists of two pictures of equal height, so that the labels stay in place while the steps scroll.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from wsemu.evidence.labels import GIVES, WAITS
from wsemu.model.data import NamedTuple
from wsemu.report.markup import Markup, tag
from wsemu.report.timeline_canvas import mark_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wsemu.launch.timeline import Generation, Mark, Step, Stretch, Timeline

MOST_STEPS = 2_000
"""maximum number of steps that are drawn, beginning with the first"""
MOST_OPERATIONS = 8_000
"""maximum number of operations that are drawn; with more, the picture ends earlier"""
MOST_ARROWS = 4_000
_AXIS, _BARRIER, _WARP, _MARK, _COPY = 30, 20, 34, 19, 10
"""heights of the rows in pixels; a warp has additional rows for marks that would overlap"""
_LABELS = 130
"""width of the labels in pixels"""
_MOST_LISTED = 12
"""accesses of a stretch that its title lists"""


class Window(NamedTuple):
    """The drawn part of a time line: steps from `first` to before `end`, each `scale` pixels wide."""

    first: int
    end: int
    scale: float


def window(timeline: Timeline, first: int | None = None) -> Window:
    """Return the part to draw.  If the part from the start does not contain the first mark, choose one that does."""
    if first is None:
        marked = timeline.steps[timeline.marks[0].step].at if timeline.marks else 0
        first = 0 if marked < MOST_STEPS // 2 else marked - MOST_STEPS // 4
    first = min(first, max(timeline.length - 1, 0))
    starts = sorted(step.at for step in timeline.steps if step.at >= first)
    end = min(first + MOST_STEPS, timeline.length)
    if len(starts) > MOST_OPERATIONS:
        end = min(end, max(starts[MOST_OPERATIONS], first + 1))
    return Window(first, end, max(5.0, min(26.0, 1000 / max(end - first, 1))))


class _Picture:
    """The positions of the picture's elements."""

    def __init__(self, timeline: Timeline, part: Window, linked: bool) -> None:
        self.timeline, self.part, self.linked = timeline, part, linked
        barriers = sorted({generation.barrier for generation in timeline.generations})
        copying = {copy.warp for copy in timeline.copies}
        self.barrier_y = {barrier: _AXIS + n * _BARRIER for n, barrier in enumerate(barriers)}
        self.marks = {warp.number: self._mark_rows(warp.number) for warp in timeline.warps}
        self.warp_y: dict[int, int] = {}
        self.copy_y: dict[int, int] = {}
        self.height = _AXIS + len(barriers) * _BARRIER + 6
        for number, rows in self.marks.items():
            self.warp_y[number] = self.height
            self.height += _WARP + len(rows) * _MARK
            if number in copying:
                self.copy_y[number] = self.height - 4
                self.height += _COPY
        labels = (x + self.mark_width(mark) for rows in self.marks.values() for row in rows for x, mark in row)
        self.width = max([round((part.end - part.first) * part.scale) + 24, *(round(end) + 4 for end in labels)])

    def x(self, step: float) -> float:
        """Return the left edge of a step in pixels.  Steps outside of the window are at its edges."""
        inside = min(max(step, self.part.first), self.part.end)
        return round((inside - self.part.first) * self.part.scale + 2, 1)

    def _mark_rows(self, warp: int) -> list[list[tuple[float, Mark]]]:
        """Return the marks of a warp with their positions, in rows in which no mark hides another."""
        rows: list[list[tuple[float, Mark]]] = []
        steps = self.timeline.steps
        for mark in sorted(self.timeline.marks, key=lambda mark: steps[mark.step].at):
            step = steps[mark.step]
            if step.warp != warp or not self.part.first <= step.at < self.part.end:
                continue
            x = self.x(step.at)
            row = next((row for row in rows if row[-1][0] + self.mark_width(row[-1][1]) + 1 <= x), None)
            if row is None:
                rows.append(row := [])
            row.append((x, mark))
        return rows

    def mark_width(self, mark: Mark) -> int:
        """Return the width of the label of a mark, in pixels."""
        return 7 * len(mark_text(self.timeline, mark)) + 8

    def is_drawn(self, at: int, until: int | None) -> bool:
        return at < self.part.end and (until is None or until > self.part.first)

    # -- labels -------------------------------------------------------------------------------------------------------

    def labels(self) -> Markup:
        rows = [_text(4, 18, "steps", "muted")]
        rows += [_text(4, y + 14, self.timeline.name(barrier), "") for barrier, y in self.barrier_y.items()]
        rows += [_text(46, y + 9, "copies", "muted") for y in self.copy_y.values()]
        for warp in self.timeline.warps:
            y = self.warp_y[warp.number]
            rows.append(_text(4, y + 13, f"warp {warp.number}", ""))
            rows += [_text(4, y + 27, warp.described_role, "muted")] if warp.described_role else []
        return tag("svg", *rows, width=_LABELS, height=self.height, class_="labels", aria_hidden="true")

    # -- the steps ----------------------------------------------------------------------------------------------------

    def steps(self) -> Markup:
        parts = [*self._axis(), *self._generations(), *self._stretches(), *self._operations(), *self._arrows()]
        parts += self._copies()
        marks = list(self._marks())
        name = f"time line of CTA {self.timeline.index}: warps over steps, not cycles; told in words below"
        given = {"width": self.width, "height": self.height, "viewBox": f"0 0 {self.width} {self.height}"}
        given |= {"preserveAspectRatio": "none", "data_step": self.part.scale}
        drawn = tag("g", *parts, aria_hidden="true")
        return tag("svg", drawn, *marks, **given, class_="steps", role="group", aria_label=name)

    def _axis(self) -> Iterator[Markup]:
        every = next(n for n in (1, 2, 5, 10, 20, 50, 100, 200, 500) if n * self.part.scale >= 40)
        for step in range(-(-self.part.first // every) * every, self.part.end, every):
            x = self.x(step)
            yield tag("line", x1=x, x2=x, y1=22, y2=self.height, class_="grid")
            yield _text(x + 2, 18, f"{step:,}", "muted tick")
        for y in self.warp_y.values():
            yield tag("line", x1=0, x2=self.width, y1=y - 3, y2=y - 3, class_="grid")

    def _generations(self) -> Iterator[Markup]:
        for generation in self.timeline.generations:
            if self.is_drawn(generation.first, generation.until):
                yield self._generation(generation)

    def _generation(self, generation: Generation) -> Markup:
        y = self.barrier_y[generation.barrier]
        complete = generation.until is not None
        until = self.part.end if generation.until is None else generation.until
        x, width = self.x(generation.first), self.x(until) - self.x(generation.first)
        counted = self.timeline.generation_text(generation.barrier, generation.number)
        name = f"{self.timeline.name(generation.barrier)} {counted}"
        state = f"complete after step {until - 1}" if complete else "not complete"
        title = f"{name}: {self.timeline.arrived_text(generation)}, {state}"
        number = str(generation.number)
        parts = [
            tag("title", title),
            _box(x, y + 3, width, 14, "generation stuck" if not complete and self.timeline.is_stuck else "generation"),
        ]
        if width >= 7 * len(number) + 2:
            parts.append(_text(x + 3, y + 14, number, ""))
        return tag("g", *parts)

    def _stretches(self) -> Iterator[Markup]:
        for stretch in self.timeline.stretches():
            if self.is_drawn(stretch.at, stretch.until):
                yield tag("g", tag("title", self._list_stretch(stretch)), *self._boxes(stretch))

    def _boxes(self, stretch: Stretch) -> Iterator[Markup]:
        """Yield a box for each run of operations of one group."""
        groups = itertools.groupby(stretch.steps, key=lambda step: self.timeline.places[step.pc].group)
        for group, steps in groups:
            run = [step for step in steps if self.is_drawn(step.at, step.at + 1)]
            if run:
                x = self.x(run[0].at)
                yield _box(x, self.warp_y[stretch.warp] + 4, self.x(run[-1].at + 1) - x, 20, f"of-{group}")

    def _list_stretch(self, stretch: Stretch) -> str:
        """Return the content of a stretch, as its tooltip."""
        counts: dict[str, int] = {}
        for step in stretch.steps:
            place = self.timeline.places[step.pc]
            text = f"{place.text}  line {place.line}"
            counts[text] = counts.get(text, 0) + 1
        lines = [f"{text}{f'  {n} times' if n > 1 else ''}" for text, n in counts.items()]
        rest = [f"and {len(lines) - _MOST_LISTED} more"] if len(lines) > _MOST_LISTED else []
        head = f"warp {stretch.warp}, steps {stretch.at:,} to {stretch.until - 1:,}"
        return "\n".join([head, *lines[:_MOST_LISTED], *rest])

    def _operations(self) -> Iterator[Markup]:
        for step in self.timeline.steps:
            if step.kind in (*GIVES, *WAITS, "stop") and self.is_drawn(step.at, step.until):
                yield self._operation(step)

    def _operation(self, step: Step) -> Markup:
        """Draw an arrive, or a sync with its wait."""
        y, x = self.warp_y[step.warp], self.x(step.at)
        stuck = step.until is None and self.timeline.is_stuck
        until = self.part.end if step.until is None else step.until
        rest = f", waits to step {until - 1:,}" if until > step.at + 1 else ""
        rest = ", waits for ever" if stuck else rest
        line = self.timeline.places[step.pc].line
        title = f"warp {step.warp}, step {step.at:,}: {self.timeline.where(step)}  line {line}{rest}"
        parts: list[Markup] = [tag("title", title)]
        if until > step.at + 1:
            after = self.x(step.at + 1)
            parts.append(_box(after, y + 11, self.x(until) - after, 6, "waiting stuck" if stuck else "waiting"))
        if step.at >= self.part.first:
            group = self.timeline.places[step.pc].group
            parts.append(_box(x, y + 2, max(self.part.scale - 1, 2), 24, f"of-{group}"))
            if 0 <= step.barrier not in self.timeline.mbarriers and self.part.scale >= 7 * len(str(step.barrier)) + 2:
                parts.append(_text(x + self.part.scale / 2 - 0.5, y + 18, str(step.barrier), "number"))
        return tag("g", *parts)

    def _copies(self) -> Iterator[Markup]:
        """Draw copies from their issue until a thread has observed their completion."""
        for copy in self.timeline.copies:
            if self.is_drawn(copy.at, copy.until):
                x, y = self.x(copy.at), self.copy_y[copy.warp]
                until = self.part.end if copy.until is None else copy.until
                place = self.timeline.places[copy.pc]
                over = "nobody waits for them" if copy.until is None else f"over after step {copy.until - 1:,}"
                title = f"{place.text}  line {place.line}: {copy.bytes:,} bytes from step {copy.at:,}, {over}"
                yield tag("g", tag("title", title), _box(x, y + 2, self.x(until) - x, 6, "of-copy"))

    def _arrows(self) -> Iterator[Markup]:
        """Draw an arrow from an operation to the one that it releases, if both are drawn."""
        first, end = self.part.first, self.part.end
        edges = [(a, s) for a, s in self.timeline.edges() if a.at >= first and s.until is not None and s.until <= end]
        for arrive, sync in edges[:MOST_ARROWS]:
            up = self.warp_y[sync.warp] < self.warp_y[arrive.warp]
            x1, y1 = self.x(arrive.at + 0.5), self.warp_y[arrive.warp] + (2 if up else 26)
            x2, y2 = self.x(sync.until or 0), self.warp_y[sync.warp] + (24 if up else 4)
            yield tag("path", d=f"M{x1} {y1}L{x2} {y2}", class_="arrow")
            tip = 4 if up else -4
            yield tag("path", d=f"M{x2} {y2}l-4 {tip}h4z", class_="tip fixed")

    def _marks(self) -> Iterator[Markup]:
        for warp, rows in self.marks.items():
            for n, row in enumerate(rows):
                for x, mark in row:
                    yield self._mark(mark, x, self.warp_y[warp], self.warp_y[warp] + 29 + n * _MARK)

    def _mark(self, mark: Mark, x: float, top: float, y: float) -> Markup:
        """Draw a frame around an operation, and below it a label that links to the finding."""
        finding = self.timeline.report.findings[mark.finding]
        class_, label = f"marked {finding.severity}", mark_text(self.timeline, mark)
        parts = [
            tag("title", f"{label} {finding.severity}[{finding.code}]: {finding.message}"),
            tag("rect", x=x, y=top + 1, width=self.part.scale - 1, height=26, class_=class_),
            tag("line", x1=x, x2=x, y1=top + 27, y2=y + 15, class_=class_),
            tag(
                "g",
                _box(x, y, self.mark_width(mark), 16, f"mark {finding.severity}"),
                _text(x + 4, y + 12, label, "on-mark"),
                class_="fixed",
            ),
        ]
        name = f"finding {label}, step {self.timeline.steps[mark.step].at:,}: {finding.severity} {finding.code}"
        return (
            tag("a", *parts, href=f"#finding-{mark.finding + 1}", aria_label=name) if self.linked else tag("g", *parts)
        )


def timeline_svg(timeline: Timeline, part: Window, *, linked: bool) -> Markup:
    """Return the picture: labels, and next to them the steps, which scroll.  With `linked`, marks link to
    `#finding-1`."""
    picture = _Picture(timeline, part, linked)
    keys = "time line; + and - zoom, 0 shows all of it, arrow keys move it"
    steps = tag("div", picture.steps(), class_="scroll", tabindex=0, role="region", aria_label=keys)
    return tag("div", picture.labels(), steps, class_="timeline")


def _text(x: float, y: float, text: object, class_: str) -> Markup:
    return tag("text", text, x=x, y=y, class_=class_ or None)


def _box(x: float, y: float, width: float, height: float, class_: str) -> Markup:
    return tag("rect", x=x, y=y, width=round(max(width, 1), 1), height=height, rx=2, class_=class_)


def describe_picture(timeline: Timeline) -> Markup:
    """Return a description of the picture for readers who cannot see it: each warp, and each barrier or mbarrier."""
    head = tag("tr", *(tag("th", text, scope="col") for text in ("lane", "steps", "what it does", "how it ends")))
    rows = [*_warps_in_words(timeline), *_objects_in_words(timeline)]
    table = tag("table", head, *(tag("tr", *(tag("td", cell) for cell in row)) for row in rows), class_="words")
    scrolled = tag("div", table, class_="scroll", tabindex=0, role="region", aria_label="the time line in words")
    return tag("details", tag("summary", "The time line in words"), scrolled)


def _warps_in_words(timeline: Timeline) -> Iterator[tuple[str, str, str, str]]:
    for warp in timeline.warps:
        steps = [step for step in timeline.steps if step.warp == warp.number]
        kinds = {"arrives": GIVES, "waits": WAITS}
        counts = {name: sum(step.kind in of for step in steps) for name, of in kinds.items()}
        counts = {"other operations": len(steps) - sum(counts.values()), **counts}
        copied = sum(copy.bytes for copy in timeline.copies if copy.warp == warp.number)
        does = [f"{count:,} {name}" for name, count in counts.items() if count]
        does += [f"{copied:,} bytes copied asynchronously"] if copied else []
        last = next((step for step in reversed(steps) if step.until is None and step.kind in WAITS), None)
        ends = "exits" if warp.exited else "does not come to its end"
        if last is not None and not warp.exited:
            ends = f"{'waits for ever' if timeline.is_stuck else 'waits'}: {timeline.where(last)}"
            ends += f"  line {timeline.places[last.pc].line}"
        name = f"warp {warp.number}" + (f" ({warp.described_role})" if warp.described_role else "")
        yield name, f"0 to {max(warp.until - 1, 0):,}", ", ".join(does) or "nothing", ends


def _objects_in_words(timeline: Timeline) -> Iterator[tuple[str, str, str, str]]:
    for barrier in sorted({generation.barrier for generation in timeline.generations}):
        mine = [generation for generation in timeline.generations if generation.barrier == barrier]
        open_ = [generation for generation in mine if generation.until is None]
        counted = timeline.unit_name(barrier)
        ends = f"{timeline.generation_text(barrier, open_[-1].number)} is not complete" if open_ else "complete"
        last = max(generation.until or timeline.length for generation in mine) - 1
        many = f"{len(mine):,} {counted}{'s' * (len(mine) > 1)}"
        yield timeline.name(barrier), f"{mine[0].first:,} to {last:,}", many, ends
