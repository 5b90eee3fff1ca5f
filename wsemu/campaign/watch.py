"""Progress of a long operation on standard error: a bar on a terminal, or a line of JSON for each step."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from typing import TYPE_CHECKING, Any

from wsemu.model.data import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

APART = 0.2
"""seconds between two lines of progress"""


class State(NamedTuple):
    """The progress of a campaign."""

    what: str
    """the swept function, or the test"""
    done: int
    total: int
    unit: str
    more: Mapping[str, int] = {}
    """further counts, such as failures"""


@contextlib.contextmanager
def showing_progress(how: str) -> Iterator[Callable[[State], None]]:
    """Provide a function to call after each step.  With `json` it writes lines, with `none` nothing; otherwise it draws
    a bar if standard output is a terminal."""
    if how == "json":
        yield _Lines()
    elif how == "none" or not sys.stdout.isatty():
        yield lambda state: None
    else:
        with _bar() as show:
            yield show


class _Lines:
    """Lines of JSON: `{"what": ..., "done": 3, "total": 48, "unit": "sizes", "failed": 0, "rate": 12.5, "eta": 3.6}`;
    rate in steps a second, eta in seconds."""

    def __init__(self) -> None:
        self._began = self._last = time.monotonic()

    def __call__(self, state: State) -> None:
        now = time.monotonic()
        if now - self._last < APART and state.done < state.total:
            return
        self._last = now
        rate = state.done / max(now - self._began, 1e-9)
        line: dict[str, Any] = {"what": state.what, "done": state.done, "total": state.total, "unit": state.unit}
        line |= {**state.more, "rate": round(rate, 2), "eta": round(max(0, state.total - state.done) / rate, 1)}
        print(json.dumps(line), file=sys.stderr, flush=True)


@contextlib.contextmanager
def _bar() -> Iterator[Callable[[State], None]]:
    from wsemu.report.terminal import Printer, progress_bar

    bar = progress_bar(Printer())
    task = bar.add_task("starting", total=None, failures="")
    with bar:

        def show(state: State) -> None:
            failed = state.more.get("failed", 0)
            text = f"{failed:,} failed" if failed else ""
            bar.update(task, description=state.what, completed=state.done, total=state.total, failures=text)

        yield show
