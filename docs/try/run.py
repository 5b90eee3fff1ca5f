"""Run a program in Pyodide, on the reference engine, and pass on its reports as HTML."""

from __future__ import annotations

import linecache
import runpy
import sys
import traceback
from typing import TYPE_CHECKING, Any

from wsemu.launch import tracing
from wsemu.launch.hooks import adding_hook, observers, traceable
from wsemu.model import settings
from wsemu.model.errors import WsemuError
from wsemu.report.html import report_fragment, timeline_fragment

if TYPE_CHECKING:
    from collections.abc import Callable

FILE = "program.py"
FIX_BUDGET = 5.0
"""seconds for trials of fixes"""


def run(source: str, show: Callable[[str], Any]) -> str:
    """Run a program, show the HTML of its reports, and return a summary."""
    with open(FILE, "w", encoding="utf-8") as stream:
        stream.write(source)
    linecache.clearcache()
    verdicts: list[str] = []
    pictures: list[str] = []

    def observe(report: Any) -> None:
        verdicts.append(report.verdict)
        show(report_fragment(report.helped(FIX_BUDGET if report.errors else None)))
        while pictures:
            show(pictures.pop())

    def draw(report: Any, places: Any, tracer: Any) -> None:
        pictures.append(timeline_fragment(tracing.build(report, places, tracer)))

    chosen = settings.Settings(engine="reference", fix_budget=FIX_BUDGET)
    try:
        with settings.using(chosen), adding_hook(observers, observe), adding_hook(traceable, draw):
            runpy.run_path(FILE, run_name="__main__")
    except WsemuError as error:
        print(f"error: {error}", file=sys.stderr)
        return "the program ended with an error"
    except SystemExit:
        pass
    except BaseException:
        traceback.print_exc()
        return "the program raised an exception"
    return _count(verdicts)


def _count(verdicts: list[str]) -> str:
    counts = {verdict: verdicts.count(verdict) for verdict in ("verified", "failed", "incomplete")}
    parts = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    return (
        f"{len(verdicts)} launch{'es' * (len(verdicts) != 1)}: {parts}" if verdicts else "the program launched nothing"
    )
