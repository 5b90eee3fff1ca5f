"""`wsemu debug FILE`: run a program, stepping through its launches."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from wsemu.app import editor, program
from wsemu.app.chosen import resolve_settings
from wsemu.app.debugger import Debugger
from wsemu.app.exit_codes import USAGE
from wsemu.app.targets import find_target
from wsemu.launch.hooks import adding_hook, around
from wsemu.model.errors import UsageError
from wsemu.report.terminal import Printer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


def run(
    file: Path, arguments: Sequence[str], given: dict[str, Any], options: dict[str, Any], launch: Mapping[str, Any]
) -> int:
    """Run a program and step through its launches; return the exit code of `wsemu run`.

    With `dap`, an editor controls the steps; otherwise a user at a terminal does.
    """
    printer = Printer()
    try:
        target = find_target(file, arguments, launch)
        chosen, known = resolve_settings(file, given)
    except UsageError as error:
        printer.error(error)
        return USAGE
    adapter = editor.standard_stream_adapter() if options.get("dap") else None
    lines = frozenset(options["breakpoints"])
    number = options["launch"]
    counted = [0]

    def is_selected(kernel: Any) -> bool:
        if not known.wants(kernel.__name__) or (adapter is not None and adapter.left):
            return False
        counted[0] += 1
        return number is None or counted[0] == number

    debugger = Debugger(is_selected, options["cta"], options["thread"], lines, "c" if lines else "s")
    with contextlib.ExitStack() as stack:
        if adapter is not None:
            stack.enter_context(adapter.running(debugger))
            printer = Printer()  # created here, because it writes to the current standard output
        stack.enter_context(adding_hook(around, debugger))
        code = program.run(
            target.file, target.arguments, known, quiet=True, printer=printer, limit=chosen.limit, as_ptx=target.is_ptx
        )
    if adapter is not None:
        adapter.report_end(code)
    missing = debugger.describe_missing_lines()
    for sentence in missing:
        printer.error(UsageError(sentence))
    return USAGE if missing else code
