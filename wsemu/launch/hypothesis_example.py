"""Launches inside a Hypothesis example: exclude the emulator from Hypothesis's measurements of a test.

Hypothesis has a deadline for each example.  After a failure it traces all executed lines to explain the failure.  The
time and the lines of a launch belong to wsemu and not to the test, and tracing them takes longer than the launch.
"""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

_TRACER = "hypothesis.internal.scrutineer"
"""module that defines the trace function of Hypothesis"""
_TOOL, _TOOL_NAME = 3, "scrutineer"
"""its number and name as a tool of `sys.monitoring`, from Python 3.12 on"""
_TIMES = "_stateful_run_times"
"""attribute of an example with times that do not count toward the deadline, by name"""


def find_context() -> Any:
    """Return the context of the running example; None if there is none."""
    control: Any = sys.modules.get("hypothesis.control")
    return control._current_build_context.value if control else None


def is_shrinking() -> bool:
    """Return whether Hypothesis runs an example that it will not show."""
    context = find_context()
    return context is not None and not getattr(context, "is_final", True)


def leaving_out_launch() -> AbstractContextManager[None]:
    """Suspend the tracing and the deadline of a running Hypothesis example inside the `with` block."""
    context = find_context()
    return _OUTSIDE if context is None else _leaving_out_launch(context)


_OUTSIDE = nullcontext()
"""context of a launch outside of examples"""


@contextmanager
def _leaving_out_launch(context: Any) -> Iterator[None]:
    times = getattr(context.data, _TIMES, None)
    started = time.perf_counter()
    try:
        with _pausing_trace(), _pausing_monitoring():
            yield
    finally:
        if isinstance(times, dict):
            times["execute:wsemu"] = times.get("execute:wsemu", 0.0) + time.perf_counter() - started


@contextmanager
def _pausing_trace() -> Iterator[None]:
    """Pause Hypothesis' trace function, up to Python 3.11."""
    traces = sys.gettrace()
    if type(getattr(traces, "__self__", None)).__module__ != _TRACER:
        yield
        return
    sys.settrace(None)
    try:
        yield
    finally:
        sys.settrace(traces)


@contextmanager
def _pausing_monitoring() -> Iterator[None]:
    """Pause Hypothesis' events, from Python 3.12 on."""
    monitoring: Any = getattr(sys, "monitoring", None)
    if monitoring is None or monitoring.get_tool(_TOOL) != _TOOL_NAME:
        yield
        return
    events = monitoring.get_events(_TOOL)
    monitoring.set_events(_TOOL, 0)
    try:
        yield
    finally:
        monitoring.set_events(_TOOL, events)
