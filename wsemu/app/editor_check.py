"""`python -m wsemu.app.editor_check COSTS FILE`: the check that the language server runs in a separate process.

Its standard output is the document of `wsemu check --format json`.  The file COSTS gets the cost of the accesses of
each line.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from wsemu.app import commands
from wsemu.evidence.cost_view import LineCost, line_costs
from wsemu.launch.hooks import adding_hook, traceable

if TYPE_CHECKING:
    from collections.abc import Callable

    from wsemu.evidence.places import Places
    from wsemu.launch.result import Report
    from wsemu.model.outcome import Tracer


class Costs:
    """The costs of the lines of all launches."""

    def __init__(self) -> None:
        self.lines: dict[tuple[str, int], LineCost] = {}

    def add_launch(self, report: Report, places: Places, tracer: Tracer | Callable[..., object]) -> None:
        """Add the lines of a launch."""
        del report, tracer
        for cost in line_costs(places):
            key = os.path.realpath(cost.file), cost.line
            before = self.lines.get(key)
            sums = [a + b for a, b in zip(before[2:], cost[2:], strict=True)] if before else cost[2:]
            self.lines[key] = LineCost(*key, *sums)


def main(costs_file: str, file: str) -> int:
    """Check a file; return the exit code of `wsemu check`."""
    costs = Costs()
    with adding_hook(traceable, costs.add_launch):
        code = commands.check(Path(file), [], {"format": "json"}, {}, quiet=False, progress="none")
    Path(costs_file).write_text(json.dumps([*costs.lines.values()]), encoding="utf-8")
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
