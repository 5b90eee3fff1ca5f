"""`wsemu time FILE`: run a program, and predict how long its launches take on a GPU."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from wsemu.app import program
from wsemu.app.chosen import resolve_settings
from wsemu.app.exit_codes import INCOMPLETE, USAGE
from wsemu.app.targets import find_targets
from wsemu.launch.check import not_run
from wsemu.launch.hooks import adding_hook, around, observers
from wsemu.model.data import NamedTuple
from wsemu.model.errors import UnsupportedError, UsageError, WsemuError
from wsemu.report.terminal import Printer
from wsemu.report.timing import format_prediction

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from wsemu.launch.result import Report
    from wsemu.model.finding import Finding
    from wsemu.model.launch_shape import LaunchConfiguration
    from wsemu.timing.prediction import Prediction


class Wanted(NamedTuple):
    """Options of a prediction and of its output."""

    device: str = "H200"
    registers: int = 0
    cta: int | None = None
    launch: int | None = None
    """counted from 1; None: all"""
    as_json: bool = False
    runs: bool = True
    """run and check the launches as well"""


class _Quiet(Printer):
    """Says what goes wrong with the program, and leaves its reports aside."""

    def report(self, report: Report, shown: Sequence[Finding] | None = None) -> None:
        pass


class _Clock:
    """Predicts each launch before it runs, while its arrays are as they were."""

    def __init__(self, wanted: Wanted, printer: Printer) -> None:
        self.wanted, self.printer = wanted, printer
        self.count = 0
        self.found: list[Prediction] = []
        self.failed = 0

    def __call__(
        self, kernel: Any, configuration: LaunchConfiguration, arguments: Sequence[Any], run: Callable[[], Report]
    ) -> Report:
        self.count += 1
        if self.wanted.launch in (None, self.count):
            self._predict(kernel, configuration, arguments)
        if self.wanted.runs:
            return run()
        report = not_run(kernel, configuration, UnsupportedError("a launch with `--no-run`"))
        for observer in observers:
            observer(report)
        return report

    def _predict(self, kernel: Any, configuration: LaunchConfiguration, arguments: Sequence[Any]) -> None:
        from wsemu.timing.time import predict_launch

        wanted = self.wanted
        try:
            found = predict_launch(
                kernel, configuration, arguments, device=wanted.device, registers=wanted.registers, cta=wanted.cta
            )
        except WsemuError as error:
            self.failed += 1
            self.printer.error(error)
            return
        self.found.append(found)
        if not wanted.as_json:
            for line in format_prediction(found):
                self.printer.text(line)


def run(
    file: Path, arguments: Sequence[str], given: Mapping[str, Any], wanted: Wanted, launch: Mapping[str, Any]
) -> int:
    """Run `file` with the options `given`, or make the `launch` of a PTX file, and print the predictions; returns the
    exit code."""
    from wsemu.timing.constants import device_named

    printer = _Quiet()
    try:
        device_named(wanted.device)
        targets = find_targets(file, arguments, launch)
        _, settings = resolve_settings(file, given)
    except UsageError as error:
        printer.error(error)
        return USAGE
    clock, code = _Clock(wanted, printer), 0
    with adding_hook(around, clock):
        for target in targets:
            ended = program.run(target.file, target.arguments, settings, printer=printer, as_ptx=target.is_ptx)
            code = max(code, ended if wanted.runs or ended != INCOMPLETE else 0)
    if wanted.launch is not None and wanted.launch > clock.count > 0:
        printer.error(UsageError(f"no launch {wanted.launch}: the program made {clock.count}"))
        return USAGE
    if wanted.as_json:
        print(json.dumps([json.loads(found.model_dump_json()) for found in clock.found], indent=2))
    if clock.failed and not code:
        return INCOMPLETE
    return code
