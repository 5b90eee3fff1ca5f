"""`wsemu debug FILE`: run a program, stepping through its launches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wsemu.app import program
from wsemu.app.chosen import configured
from wsemu.app.debugger import Debugger
from wsemu.app.exit_codes import USAGE
from wsemu.launch.hooks import around, hooked
from wsemu.model.errors import UsageError
from wsemu.report.terminal import Printer

if TYPE_CHECKING:
    from collections.abc import Sequence


def run(file: Any, arguments: Sequence[str], given: dict[str, Any], options: dict[str, Any]) -> int:
    """`wsemu debug`: run a program, stepping through its launches; returns the exit code of `wsemu run`."""
    printer = Printer()
    try:
        chosen, known = configured(file, given)
    except UsageError as error:
        printer.error(error)
        return USAGE
    lines = frozenset(options["breakpoints"])
    number = options["launch"]
    counted = [0]

    def wanted(kernel: Any) -> bool:
        if not known.wants(kernel.__name__):
            return False
        counted[0] += 1
        return number is None or counted[0] == number

    debugger = Debugger(wanted, options["cta"], options["thread"], lines, "c" if lines else "s")
    with hooked(around, debugger):
        return program.run(file, arguments, known, quiet=True, printer=printer, limit=chosen.limit)
