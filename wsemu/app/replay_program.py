"""`wsemu replay WITNESS`: run the program of a witness file up to the launch of the witness, and execute this launch
step by step."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from wsemu.app import program
from wsemu.app.exit_codes import FAILED, INTERNAL, INTERRUPTED, USAGE
from wsemu.app.program_file import Target, is_ptx
from wsemu.launch.hooks import adding_hook, observers, starting
from wsemu.launch.replay.run import BUDGET, Replay, follow
from wsemu.launch.replay.witness_file import Witness, WitnessError, load, program_path
from wsemu.model import settings
from wsemu.model.data import replace
from wsemu.model.errors import UsageError
from wsemu.model.finding import Finding
from wsemu.model.own_files import is_below
from wsemu.report.replay import replay_lines
from wsemu.report.terminal import Printer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wsemu.launch.result import Report
    from wsemu.model.bound import Bound


class _Quiet(Printer):
    """Prints errors of the program, but no reports on its launches."""

    def report(self, report: Report, shown: Sequence[Finding] | None = None) -> None:
        pass


class _Replaying:
    """Waits for the launch of a witness, replays it before it runs, and records its report."""

    def __init__(self, witness: Witness, budget: int) -> None:
        self.witness, self.budget = witness, budget
        self.launches = 0
        self.replay: Replay | None = None
        self.finding: Finding | None = None
        self.error: UsageError | None = None

    def start(self, bound: Bound) -> None:
        self.launches += 1
        if self.launches != self.witness.launch:
            return
        try:
            self.witness.check(bound)
            self.replay = follow(bound, self.witness.code, self.witness.steps, self.budget)
        except UsageError as error:
            self.error = error
            raise program.Enough from None

    def observe(self, report: Report) -> None:
        if self.replay is not None:
            same = (f for f in report.errors if f.code == self.witness.code and f.steps == self.witness.steps)
            self.finding = next(same, None)
            raise program.Enough


def run(path: Path, file: Path | None, budget: int | None) -> int:
    """Replay a witness file, with the program `file` instead of the one that it names; return the exit code."""
    printer = _Quiet()
    try:
        witness = load(path)
        file = program_path(witness, path) if file is None else file
        arguments = _own_arguments(witness, file, path)
        chosen = settings.Settings(arch=witness.arch, fma=witness.inputs.fma, mma=witness.inputs.mma)
        replaying = _Replaying(witness, budget or BUDGET)
        code = _run(replaying, Target(file, arguments, is_ptx(file)), chosen, printer)
        if replaying.error is not None:
            raise replaying.error
        if replaying.replay is None:
            if code in (INTERNAL, INTERRUPTED):
                return code
            raise WitnessError(
                f"`{path}` is of launch {witness.launch} of its program, which made {replaying.launches} this time"
            )
    except UsageError as error:
        printer.error(error)
        return USAGE
    finding = replaying.finding or Finding(code=witness.code, message=witness.message, severity="error")
    printer.lines(replay_lines(finding, replaying.replay, printer.width))
    return FAILED


def _own_arguments(witness: Witness, file: Path, path: Path) -> Sequence[str]:
    """Return the arguments of a witness for its program.

    Files that arguments of PTX name are only read, never written.  They must be below the working folder, the folder of
    the witness or the folder of the program.  Raise UsageError for other files.
    """
    if not is_ptx(file):
        return witness.arguments
    from wsemu.app.ptx_launch import Options
    from wsemu.launch.ptx.nvcc import check_flags

    options, roots = Options.read(witness.arguments), (".", path.parent, file.parent)
    folders = options.arg_folder or ".", options.set_folder or "."
    for name in (*folders, *options.link):
        if not any(os.path.realpath(name) == os.path.realpath(root) or is_below(name, root) for root in roots):
            raise WitnessError(
                f"`{path}` names a file outside of the working folder, its own and the program's, `{name}`: "
                "go to a folder above it"
            )
    flags = tuple(check_flags(one, Path(), f"`{path}`") for one in options.nvcc)
    return replace(options, out="", nvcc=flags, arg_folder=folders[0], set_folder=folders[1]).words()


def _run(replaying: _Replaying, target: Target, chosen: settings.Settings, printer: Printer) -> int:
    """Run the program until the launch was replayed."""
    with (
        contextlib.suppress(program.Enough),
        adding_hook(starting, replaying.start),
        adding_hook(observers, replaying.observe),
    ):
        return program.run(target.file, target.arguments, chosen, quiet=True, printer=printer, as_ptx=target.is_ptx)
    return 0
