"""Implementation of `wsemu check`, `run`, `explain` and `doctor`: from options to output and an exit code."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wsemu.app.exit_codes import FAILED, INCOMPLETE, INTERNAL, INTERRUPTED, USAGE, rank
from wsemu.app.selection import Selection
from wsemu.model.data import NamedTuple
from wsemu.model.errors import UsageError
from wsemu.report.diagnostic import display_path
from wsemu.report.terminal import Printer, QuietPrinter, internal_error

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from wsemu.app.certificates import Certificates
    from wsemu.app.chosen import Chosen
    from wsemu.app.program_file import Target
    from wsemu.model.settings import Settings
    from wsemu.report.diagnostic import Style
    from wsemu.report.sink import Sink
    from wsemu.report.statistics import Statistics


class Fixing(NamedTuple):
    """Options for verified fixes."""

    wanted: bool = False
    """true to print verified fixes as a patch"""
    write: bool = False
    """true to edit the files as well, after the user confirms"""


def check(
    file: Path,
    arguments: Sequence[str],
    given: Mapping[str, Any],
    launch: Mapping[str, Any],
    *,
    quiet: bool,
    module: bool = False,
    fixing: Fixing | None = None,
    progress: str = "bar",
    accept: bool = False,
) -> int:
    """Run `wsemu check`, or with `quiet` `wsemu run`; return the exit code.  Options in `given` override those of
    pyproject.toml.

    `launch` are options of the launch of a PTX file.
    With `module`, `file` is the name of a module, as for `python -m`.
    With `accept` (`wsemu baseline`), the findings become the baseline, and none is shown.
    """
    from wsemu.app.chosen import resolve_settings
    from wsemu.app.targets import find_targets
    from wsemu.report.sink import sink

    name = str(file) if module else ""
    fixing = fixing or Fixing()
    try:
        if module:
            file = source_of_module(name)
        targets = find_targets(file, arguments, launch)
        chosen, settings = resolve_settings(file, given, baseline=not accept)
    except UsageError as error:
        with sink(str(given.get("format", "text")), program=str(file)) as printer:
            printer.error(error)
            printer.finish(USAGE)
        return USAGE
    if accept:
        _note_unused_options(given)
        return _accept(file, targets, chosen, settings, module=name)
    with sink(chosen.format, all_=chosen.all, program=str(file)) as printer, _counting(chosen) as statistics:
        options: dict[str, Any] = {
            "quiet": quiet,
            "printer": printer,
            "limit": chosen.limit,
            "time_limit": chosen.time_limit,
            "progress": progress,
            "module": name,
            "selection": Selection.of(chosen),
        }
        if fixing.wanted:
            from wsemu.app.fix import Fixes
            from wsemu.app.order_fixes import Rerun

            options["fixes"] = Fixes(rerun=None if module or name else Rerun(file, arguments, given))
        try:
            with _using_baseline(file, settings, printer), _certifying(chosen, printer) as certificates:
                code = _run_targets(targets, chosen.save_witness, settings, options)
                code = 0 if settings.allow_incomplete and code == INCOMPLETE else code
            if certificates is not None:
                code = max(code, certificates.exit_code, key=rank)
            _report_sources(targets)
            if fixing.wanted and code != INTERRUPTED:
                options["fixes"].finish(printer, code, write=fixing.write)
        except KeyboardInterrupt:  # raised between launches, or while edits are tried
            printer.text("interrupted", "warning")
            code = INTERRUPTED
        for line in statistics.lines() if statistics is not None else ():
            printer.text(line)
        printer.finish(code)
    return code


@contextlib.contextmanager
def _using_baseline(file: Path, settings: Settings, printer: Sink) -> Iterator[None]:
    """Use the baseline inside the block; at the end, report accepted findings that no longer occur."""
    if settings.baseline is None:
        yield
        return
    from wsemu.app.baseline import BaselineUse
    from wsemu.launch.hooks import adding_hook, observers

    use = BaselineUse(settings.baseline)
    with adding_hook(observers, use.observe):
        yield
    text = use.stale_text(display_path(str(file)).replace(os.sep, "/"), settings.checkers)
    if text:
        printer.text(f"note: {text}", "strong")


@contextlib.contextmanager
def _certifying(chosen: Chosen, printer: Sink) -> Iterator[Certificates | None]:
    """Write the certificates of the launches inside the block, if requested."""
    if not chosen.certificate:
        yield None
        return
    from wsemu.app.certificates import Certificates

    with Certificates(chosen.certificate, printer) as certificates:
        yield certificates


def _report_sources(targets: Sequence[Target]) -> None:
    """Write the sources of the programs if the process of `--watch` requests them."""
    from wsemu.app.check_process import SOURCES, write_sources
    from wsemu.app.pyproject import find

    if SOURCES in os.environ:
        configurations = [find(target.file)[0] for target in targets]
        write_sources([*(str(target.file) for target in targets), *map(str, filter(None, configurations))])


@contextlib.contextmanager
def _counting(chosen: Chosen) -> Iterator[Statistics | None]:
    """Count the findings of the launches inside the block, if requested."""
    if not chosen.statistics:
        yield None
        return
    from wsemu.launch.hooks import adding_hook, observers, refused
    from wsemu.report.statistics import Statistics

    counts = Statistics()
    with adding_hook(observers, counts.observe), adding_hook(refused, counts.refuse):
        yield counts


_OF_CHECK = ("all", "certificate", "format", "limit", "save-witness", "statistics")
"""options that `wsemu baseline` accepts but has no use for, since it neither shows nor saves launches"""


def _note_unused_options(given: Mapping[str, Any]) -> None:
    """Report options on the command line of `wsemu baseline` that only `wsemu check` uses.  Options in the project's
    configuration are meant for `check` and are not reported."""
    unused = [f"`--{name}`" for name in _OF_CHECK if name in given]
    if unused:
        Printer().text(f"note: `wsemu baseline` ignores {', '.join(unused)}: give it to `wsemu check`", "warning")


def _accept(file: Path, targets: Sequence[Target], chosen: Chosen, settings: Settings, *, module: str) -> int:
    """Write the findings of the launches into the baseline; return the exit code."""
    import dataclasses

    from wsemu.app.baseline import FILE, Gathering, write_baseline
    from wsemu.launch.hooks import adding_hook, observers

    found = Gathering(display_path(str(file)).replace(os.sep, "/"))
    settings = dataclasses.replace(settings, fix_budget=0.0)
    options: dict[str, Any] = {"quiet": False, "printer": QuietPrinter(), "progress": "none"}
    options |= {"time_limit": chosen.time_limit, "module": module, "selection": Selection.of(chosen)}
    printer = Printer()
    try:
        with adding_hook(observers, found.observe):
            code = _run_targets(targets, "", settings, options)
        if code in (USAGE, INTERNAL, INTERRUPTED):
            return code
        write_baseline(chosen.baseline or FILE, found, printer)
    except UsageError as error:
        printer.error(error)
        return USAGE
    except KeyboardInterrupt:
        printer.text("interrupted", "warning")
        return INTERRUPTED
    return 0


def _run_targets(targets: Sequence[Target], witnesses: str, settings: Settings, options: dict[str, Any]) -> int:
    """Run all targets until one is interrupted; return the common exit code."""
    code = 0
    for one in targets:
        code = max(code, _saving(witnesses, one, settings, options), key=rank)
        if code == INTERRUPTED:
            break
    return code


def source_of_module(name: str) -> Path:
    """Return the file that `python -m name` runs; raise UsageError if there is none."""
    import importlib.util
    import os
    import sys
    from pathlib import Path

    sys.path.insert(0, os.getcwd())
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{name}.__main__")
    except (ImportError, ValueError) as error:
        raise UsageError(f"no module `{name}` ({error}): give the name that `python -m` takes") from None
    finally:
        del sys.path[0]
    if spec is None or not spec.origin or not spec.origin.endswith(".py"):
        raise UsageError(f"no module `{name}` with a source to run: give the name that `python -m` takes")
    return Path(spec.origin)


def _saving(folder: str, target: Target, settings: Settings, options: dict[str, Any]) -> int:
    """Run a program with these options; save the witnesses of errors if `folder` names a folder."""
    from wsemu.app import program

    file, arguments, is_ptx, flags = target
    options = {**options, "as_ptx": is_ptx, "flags": flags}
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
    """Run `wsemu explain`: print the page of a finding code, or the list of codes; return the exit code."""
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
    """Run `wsemu doctor`: print the properties of the installation one by one; return the exit code."""
    from wsemu.app.doctor import examine

    printer, bad = Printer(), False
    styles: dict[str, Style] = {"good": "", "note": "warning", "bad": "error"}
    for item in examine():
        mark = "" if item.state == "good" else f"{item.state}: "
        printer.text(f"{item.name:13} {mark}{item.text}", styles[item.state])
        bad |= item.state == "bad"
    return FAILED if bad else 0


def report_unexpected_error(error: Exception) -> int:
    """Report, on standard error, an error of wsemu or of the system that ended a command; return the exit code."""
    import sys
    import traceback

    printer = Printer(sys.stderr)
    if isinstance(error, OSError):  # for example, unwritable output or a deleted working folder
        where = f"`{error.filename}`" if error.filename else "the output"
        printer.text(f"error: {where}: {error.strerror or error}", "error")
        return USAGE
    frame = traceback.extract_tb(error.__traceback__)[-1]
    internal_error(printer, error, frame, ": please report it with the command and its files")
    return INTERNAL
