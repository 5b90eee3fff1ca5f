"""What `wsemu check`, `run`, `explain` and `doctor` do: from options to an exit code, everything said on the way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wsemu.errors import UsageError
from wsemu.report.terminal import Printer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from wsemu.report.diagnostic import Style
    from wsemu.report.sink import Sink
    from wsemu.settings import Settings

FAILED, USAGE = 1, 2


def check(
    file: Path, arguments: Sequence[str], given: Mapping[str, Any], *, quiet: bool, misplaced: Sequence[str] = ()
) -> int:
    """`wsemu check`, and with `quiet` `wsemu run`: the options `given` go before those of pyproject.toml.

    `misplaced` are options of wsemu among the arguments, which are the program's.
    """
    from wsemu import config
    from wsemu.report.sink import sink

    try:
        chosen, settings = config.configured(file, given)
    except UsageError as error:
        with sink(str(given.get("format", "text"))) as printer:
            printer.error(error)
            printer.finish(USAGE)
        return USAGE
    with sink(chosen.format) as printer:
        warn(misplaced, printer)
        options: dict[str, Any] = {"quiet": quiet, "printer": printer, "limit": chosen.limit}
        code = _saving(chosen.save_witness, file, arguments, settings, options)
        printer.finish(code)
    return code


def warn(misplaced: Sequence[str], printer: Sink | None = None) -> None:
    """Say of options of wsemu that stand behind FILE that they go to the program."""
    printer = printer or Printer()
    for option in misplaced:
        printer.text(f"warning: `{option}` after FILE goes to the program: give it before FILE", "warning")


def _saving(folder: str, file: Path, arguments: Sequence[str], settings: Settings, options: dict[str, Any]) -> int:
    """`program.run` with these options, with the witnesses of errors saved in a folder where one is named."""
    from wsemu import program

    if not folder:
        return program.run(file, arguments, settings, **options)
    from wsemu.witness_file import Saver

    with Saver(folder, file, arguments) as saver:
        code = USAGE if saver.error else program.run(file, arguments, settings, **options, saver=saver)
    if saver.error:
        said = f"error: witnesses cannot be saved in `{folder}`: {saver.error.strerror}"
        options["printer"].text(said, "error")
    return USAGE if saver.error else code


def explain(code: str | None) -> int:
    """`wsemu explain`: print the page of a finding code, or what codes there are; returns the exit code."""
    from wsemu import explain as pages

    printer = Printer()
    try:
        printer.markdown(pages.page(code).text if code else pages.overview())
    except UsageError as error:
        printer.error(error)
        return USAGE
    return 0


def doctor() -> int:
    """`wsemu doctor`: print what wsemu runs with, as it is found out; returns the exit code."""
    from wsemu.doctor import examine

    printer, bad = Printer(), False
    styles: dict[str, Style] = {"good": "", "note": "warning", "bad": "error"}
    for item in examine():
        mark = "" if item.state == "good" else f"{item.state}: "
        printer.text(f"{item.name:13} {mark}{item.text}", styles[item.state])
        bad |= item.state == "bad"
    return FAILED if bad else 0
