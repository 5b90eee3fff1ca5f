"""Progress of `wsemu fuzz`: a progress bar on a terminal, and the failures with what to save of them."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from wsemu.campaign.watch import State, showing_progress
from wsemu.report.diagnostic import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path
    from typing import Self

    from wsemu.campaign.fuzz import Progress
    from wsemu.campaign.results import Batch, Failure
    from wsemu.report.terminal import Printer


class Bar:
    """The progress bar of a campaign; it shows nothing if output is not a terminal."""

    def __init__(self, printer: Printer, total: int) -> None:
        self._printer, self._total = printer, total
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Self:
        if self._printer.stream.isatty():
            from wsemu.report.terminal import progress_bar

            self._bar = progress_bar(self._printer)
            self._task = self._bar.add_task("starting", total=self._total, failures="")
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, progress: Progress) -> None:
        """Implement `fuzz.Watcher`."""
        if self._bar is None:
            return
        failures = len(progress.kinds())
        text = plural(failures, "failure") if failures else ""
        self._bar.update(self._task, description="fuzzing", completed=progress.finished_examples, failures=text)


@contextlib.contextmanager
def watcher(printer: Printer, total: int, how: str) -> Iterator[Bar | Lines]:
    """Provide the display of a campaign's progress: see `watch.showing_progress`."""
    if how == "bar":
        with Bar(printer, total) as bar:
            yield bar
    else:
        with showing_progress(how) as show:
            yield Lines(show)


class Lines:
    """Passes on the progress of a campaign; implements `fuzz.Watcher`."""

    def __init__(self, show: Callable[[State], None]) -> None:
        self._show = show

    def show(self, progress: Progress) -> None:
        campaign, failed = progress.campaign, {"failed": len(progress.kinds())}
        self._show(State(campaign.name, progress.finished_examples, campaign.examples, "examples", failed))


def tell(printer: Printer, progress: Progress, file: Path, witnesses: Mapping[tuple[str, str], Path]) -> None:
    """Print the failures, each with its smallest example and the file of its witness, and the totals."""
    groups = progress.kinds()
    for kind, found in groups.items():
        printer.text("\n".join(_failure_lines(found, progress.campaign.name, witnesses.get(kind))))
        printer.text("")
    campaign = progress.campaign
    if progress.changed:
        printer.text("results of other versions of the sources do not count", "warning")
    if progress.resumed:
        printer.text(f"{progress.resumed:,} examples were known from before")
    if progress.interrupted:
        extent = f"{progress.finished_examples:,} of {campaign.examples:,} examples"
        printer.text(f"interrupted after {extent}: the same command goes on from there", "warning")
    said = plural(len(groups), "failure") if groups else "no failure"
    examples = f"{progress.finished_examples:,} example{'s' * (progress.finished_examples != 1)}"
    style = "error" if groups else "good" if not progress.interrupted else "warning"
    printer.text(f"{campaign.name}  {said} in {examples}, seed {campaign.seed}", style)  # type: ignore[arg-type]
    printer.text(f"results: {file}")


def _failure_lines(found: list[tuple[Batch, Failure]], test: str, witness: Path | None) -> list[str]:
    failure = found[0][1]
    lines = failure.text.splitlines()
    if failure.place:
        lines.append(f" = note: raised in {failure.place}")
    if failure.parameters:
        lines += [" = minimal parameters:"]
        lines += [f"     {name} = {_indent(value)}" for name, value in failure.parameters.items()]
    if failure.example:
        lines += [f" = keep it, above `def {test.rpartition('::')[2]}`:", f"     {_indent(failure.example)}"]
    if witness is not None:
        lines.append(f" = witness: {witness}, for `wsemu.replay(file, kernel, arguments)`")
    if len(found) > 1:
        lines.append(f" = note: found {len(found)} times; this is the smallest")
    return lines


def _indent(text: str) -> str:
    return text.replace("\n", "\n     ")
