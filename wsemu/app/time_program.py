"""`wsemu time FILE`: run a program, and predict how long its launches take on a GPU."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from wsemu.app import program
from wsemu.app.chosen import resolve_settings
from wsemu.app.exit_codes import INCOMPLETE, USAGE
from wsemu.app.targets import find_targets
from wsemu.launch.check import not_run
from wsemu.launch.hooks import adding_hook, around, observers
from wsemu.model.data import NamedTuple
from wsemu.model.errors import UnsupportedError, UsageError, WsemuError
from wsemu.report.terminal import QuietPrinter
from wsemu.report.timing import format_prediction
from wsemu.report.timing_page import predicted_page, text_page
from wsemu.report.timing_trace import predicted_trace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from wsemu.app.program_file import Target
    from wsemu.launch.hooks import Ready
    from wsemu.launch.result import Report
    from wsemu.model.device_memory import DeviceMemory
    from wsemu.model.launch_shape import LaunchConfiguration
    from wsemu.model.settings import Settings
    from wsemu.timing.prediction import Prediction

OUTPUTS = {".html": predicted_page, ".json": predicted_trace}
"""suffix of an output file -> the function that creates its text"""
MOST_SPANS = 200_000
"""maximum number of waits in a trace; later ones are omitted"""


class Wanted(NamedTuple):
    """Options of a prediction and of its output."""

    device: str = "H200"
    registers: int = 0
    cta: int | None = None
    launch: int | None = None
    """number of the launch, from 1; None: all"""
    as_json: bool = False
    runs: bool = True
    """true to run and check the launches as well"""
    resident: int | None = None
    """number of co-resident CTAs of a multiprocessor; None: the maximum"""
    output: Path | None = None
    """file for the predicted waits: a page, or a trace for Perfetto"""
    stalls: int | None = None
    """warp whose stalls by Fermi's latencies are printed"""


class Clock:
    """Predicts each launch before it runs, when its arrays still have their initial contents."""

    def __init__(self, wanted: Wanted, printer: QuietPrinter) -> None:
        self.wanted, self.printer = wanted, printer
        self.count = 0
        self.found: list[Prediction] = []
        self.failed = 0
        self.verdicts: list[str] = []
        self.silent = wanted.as_json

    def __call__(self, kernel: Any, configuration: LaunchConfiguration, arguments: Sequence[Any], run: Ready) -> Report:
        self.count += 1
        if self.wanted.launch in (None, self.count):
            self._predict(kernel, configuration, arguments, run.memory)
        if self.wanted.runs:
            report = run()
            self.verdicts.append(report.verdict)
            return report
        report = not_run(kernel, configuration, UnsupportedError("a launch with `--no-run`"))
        for observer in observers:
            observer(report)
        return report

    def _predict(
        self,
        kernel: Any,
        configuration: LaunchConfiguration,
        arguments: Sequence[Any],
        memory: DeviceMemory | None,
    ) -> None:
        from wsemu.timing.stall_view import format_stalls
        from wsemu.timing.time import examine_launch

        wanted = self.wanted
        spans = MOST_SPANS if wanted.output is not None else 0
        options: dict[str, Any] = {
            "registers": wanted.registers,
            "cta": wanted.cta,
            "resident": wanted.resident,
            "spans": spans,
            "memory": memory,
        }
        try:
            found, run = examine_launch(kernel, configuration, arguments, wanted.device, **options)
            if wanted.output is not None:
                wanted.output.write_text(OUTPUTS[wanted.output.suffix](run, found), encoding="utf-8")
            stalls = [] if wanted.stalls is None else format_stalls(run, wanted.stalls)
        except OSError as error:
            raise UsageError(f"cannot write `{wanted.output}`: {error.strerror or error}") from None
        except WsemuError as error:
            self.failed += 1
            self.printer.error(error)
            return
        self.found.append(found)
        if not self.silent:
            for line in (*format_prediction(found), *stalls):
                self.printer.text(line)


def run(
    file: Path,
    arguments: Sequence[str],
    given: Mapping[str, Any],
    wanted: Wanted,
    launch: Mapping[str, Any],
    what_if: str = "",
) -> int:
    """Run `file`, or the `launch` of a PTX file, and print predictions; return the exit code.

    `given` are options for the program. With `what_if` a table shows predictions for other values."""
    from wsemu.timing.constants import device_named

    printer = QuietPrinter(sys.stderr if wanted.as_json else None)
    try:
        device_named(wanted.device)
        if wanted.output is not None and wanted.output.suffix not in OUTPUTS:
            raise UsageError(f"`{wanted.output}` is neither {' nor '.join(OUTPUTS)}: choose one of these endings")
        targets = find_targets(file, arguments, launch)
        _, settings = resolve_settings(file, given)
    except UsageError as error:
        printer.error(error)
        return USAGE
    if what_if:
        return _answer(targets, settings, wanted, what_if, printer)
    clock = Clock(wanted, printer)
    code = _run_targets(targets, settings, clock)
    if wanted.launch is not None and wanted.launch > clock.count > 0:
        printer.error(UsageError(f"no launch {wanted.launch}: the program made {clock.count}"))
        return USAGE
    if wanted.as_json:
        print(json.dumps([json.loads(found.model_dump_json()) for found in clock.found], indent=2))
    if clock.failed and not code:
        return INCOMPLETE
    return code


def _run_targets(targets: Sequence[Target], settings: Settings, clock: Clock) -> int:
    """Run the programs; return the exit code."""
    code = 0
    with adding_hook(around, clock):
        for one in targets:
            ended = program.run(one.file, one.arguments, settings, printer=clock.printer, as_ptx=one.is_ptx)
            code = max(code, ended if clock.wanted.runs or ended != INCOMPLETE else 0)
    return code


def _write_page(output: Path, page: str) -> None:
    try:
        output.write_text(page, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write `{output}`: {error.strerror or error}") from None


def _answer(targets: Sequence[Target], settings: Settings, wanted: Wanted, text: str, printer: QuietPrinter) -> int:
    """Print a table of predictions for other values of a constant or option; return the exit code."""
    from wsemu.app.what_if import Answer, changed_program, format_answers, mark_answers, parse_question

    answers, code = [], 0
    try:
        question = parse_question(text)
        if wanted.output is not None and wanted.output.suffix != ".html":
            raise UsageError(f"`--what-if` has no time line for `{wanted.output}`: write its table to FILE.html")
        for value in question.values:
            options = wanted._replace(output=None)
            clock = Clock(_with_option(options, question.name.lower(), value), printer)
            clock.silent = True
            for one in targets:
                with changed_program(one.file, question, value) as file:
                    ended = _run_targets([one._replace(file=file)], settings, clock)
                code = max(code, ended if ended == USAGE else 0)
            verdict = max(clock.verdicts, key=_SEVERITY.index, default="")
            answers.append(Answer(value, clock.found, verdict))
        lines = [*format_answers(question, answers)]
        if wanted.output is not None:
            _write_page(wanted.output, text_page(f"what if {text}", lines))
    except UsageError as error:
        printer.error(error)
        return USAGE
    if wanted.as_json:
        rows = [
            {"value": one.value, "verdict": one.verdict, "marks": marks}
            | {"found": [json.loads(found.model_dump_json()) for found in one.found]}
            for one, marks in zip(answers, mark_answers(answers), strict=True)
        ]
        print(json.dumps({"name": question.name, "answers": rows}, indent=2))
    else:
        for line in lines:
            printer.text(line)
    return code


def _with_option(wanted: Wanted, name: str, value: int) -> Wanted:
    """Return the options with one option set to another value, if there is an option with the name."""
    if name == "ctas":
        return wanted._replace(resident=value)
    return wanted._replace(registers=value) if name == "registers" else wanted


_SEVERITY = ("verified", "incomplete", "failed")
