"""What `wsemu check`, `run`, `explain` and `doctor` do: from options to an exit code, everything said on the way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from wsemu.model.errors import UsageError
from wsemu.report.terminal import Printer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from wsemu.model.settings import Settings
    from wsemu.report.diagnostic import Style
    from wsemu.report.sink import Sink

FAILED, USAGE, INTERNAL = 1, 2, 4


class Fixing(NamedTuple):
    """What is to be done with edits that are cures."""

    wanted: bool = False
    """print them as a patch"""
    write: bool = False
    """and edit the files, after asking"""


def check(
    file: Path,
    arguments: Sequence[str],
    given: Mapping[str, Any],
    launch: Mapping[str, Any],
    *,
    quiet: bool,
    misplaced: Sequence[str] = (),
    fixing: Fixing | None = None,
) -> int:
    """`wsemu check`, and with `quiet` `wsemu run`: the options `given` go before those of pyproject.toml.

    `launch` are options of the launch of a PTX file, `misplaced` options of wsemu among the arguments of a program.
    """
    from wsemu.app import config
    from wsemu.report.sink import sink

    fixing = fixing or Fixing()
    try:
        arguments = launch_words(file, arguments, launch)
        chosen, settings = config.configured(file, given)
    except UsageError as error:
        with sink(str(given.get("format", "text"))) as printer:
            printer.error(error)
            printer.finish(USAGE)
        return USAGE
    with sink(chosen.format, all_=chosen.all) as printer:
        warn(misplaced, printer)
        options: dict[str, Any] = {"quiet": quiet, "printer": printer, "limit": chosen.limit}
        if fixing.wanted:
            from wsemu.app.fix import Fixes

            options["fixes"] = Fixes()
        code = _saving(chosen.save_witness, file, arguments, settings, options)
        if fixing.wanted:
            options["fixes"].finish(printer, write=fixing.write)
        printer.finish(code)
    return code


def launch_words(file: Path, arguments: Sequence[str], launch: Mapping[str, Any]) -> Sequence[str]:
    """The arguments of a program; of a PTX file the options of its launch.  UsageError where it is not what they
    are for."""
    from wsemu.app.program import is_ptx

    option = f"--{next(iter(launch), '').replace('_', '-')}"
    if not is_ptx(file):
        if launch:
            raise UsageError(f"`{option}` is for PTX files: `{file}` is a program, which launches its kernels itself")
        return arguments
    if arguments:
        raise UsageError(f"`{arguments[0]}` after `{file}`: arguments of a kernel are given as `--arg {arguments[0]}`")
    from wsemu.app.ptx_launch import Options

    given: dict[str, Any] = {name: tuple(value) if name == "arg" else value for name, value in launch.items()}
    return Options(**given).words()


def warn(misplaced: Sequence[str], printer: Sink | None = None) -> None:
    """Say of options of wsemu that stand behind FILE that they go to the program."""
    printer = printer or Printer()
    for option in misplaced:
        printer.text(f"warning: `{option}` after FILE goes to the program: give it before FILE", "warning")


def _saving(folder: str, file: Path, arguments: Sequence[str], settings: Settings, options: dict[str, Any]) -> int:
    """`program.run` with these options, with the witnesses of errors saved in a folder where one is named."""
    from wsemu.app import program

    if not folder:
        return program.run(file, arguments, settings, **options)
    from wsemu.launch.replay.witness_file import Saver

    with Saver(folder, file, arguments) as saver:
        code = USAGE if saver.error else program.run(file, arguments, settings, **options, saver=saver)
    if saver.error:
        said = f"error: witnesses cannot be saved in `{folder}`: {saver.error.strerror}"
        options["printer"].text(said, "error")
    return USAGE if saver.error else code


def explain(code: str | None) -> int:
    """`wsemu explain`: print the page of a finding code, or what codes there are; returns the exit code."""
    from wsemu.app.explain import overview
    from wsemu.checkers.page import page

    printer = Printer()
    try:
        printer.markdown(page(code).text if code else overview())
    except UsageError as error:
        printer.error(error)
        return USAGE
    return 0


def doctor() -> int:
    """`wsemu doctor`: print what wsemu runs with, as it is found out; returns the exit code."""
    from wsemu.app.doctor import examine

    printer, bad = Printer(), False
    styles: dict[str, Style] = {"good": "", "note": "warning", "bad": "error"}
    for item in examine():
        mark = "" if item.state == "good" else f"{item.state}: "
        printer.text(f"{item.name:13} {mark}{item.text}", styles[item.state])
        bad |= item.state == "bad"
    return FAILED if bad else 0


def unexpected(error: Exception) -> int:
    """Say on standard error why a command could not go on, the fault of wsemu or of the system; returns the
    exit code."""
    import os
    import sys
    import traceback

    printer = Printer(sys.stderr)
    if isinstance(error, OSError):  # output that cannot be written, a working folder that is gone
        where = f"`{error.filename}`" if error.filename else "the output"
        printer.text(f"error: {where}: {error.strerror or error}", "error")
        return USAGE
    frame = traceback.extract_tb(error.__traceback__)[-1]
    message = "".join(traceback.format_exception_only(error)).strip()
    printer.text(f"internal error: {message} ({os.path.basename(frame.filename)}:{frame.lineno})", "error")
    printer.text("this is an error of wsemu: please report it with the command and its files")
    return INTERNAL
