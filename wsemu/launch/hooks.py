"""Who is called when launches are made: the command line, pytest's plugin, traces, witnesses."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from wsemu.evidence.places import Places
    from wsemu.launch.attempts import Launched
    from wsemu.launch.result import Report
    from wsemu.model.bound import Bound
    from wsemu.model.errors import WsemuError
    from wsemu.model.launch_shape import LaunchConfiguration
    from wsemu.model.outcome import Tracer


@contextlib.contextmanager
def adding_hook(hooks: list[Any], hook: Callable[..., Any]) -> Iterator[None]:
    """Call one more meanwhile."""
    hooks.append(hook)
    try:
        yield
    finally:
        hooks.remove(hook)


observers: list[Callable[[Report], None]] = []
"""called with the report of every launch; while there are any, a failed launch does not raise"""
refused: list[Callable[[Any, LaunchConfiguration, WsemuError], bool]] = []
"""called with a launch that could not be made and why; where one says True the program goes on without the launch"""
starting: list[Callable[[Bound], None]] = []
"""called with each launch just before it runs"""
advancing: list[Callable[[str, int, int], None]] = []
"""called now and then while a long launch runs, with its kernel's name, its CTAs that have run, and how many it has"""
traceable: list[Callable[[Report, Places, Tracer], None]] = []
"""called with each launch that was checked, and with what runs it again for its trace; before the observers"""
finished: list[Callable[[Bound, Places, Tracer], None]] = []
"""called with each launch that ran to its end, before its report is delivered"""
admitting: list[Callable[[str], bool]] = []
"""called with the kernel's name before each launch that is to be checked; if one returns False it runs unchecked"""
passed_over: dict[str, None] = {}
"""names of kernels that ran without being checked, for the settings leave them out"""
keeping: list[Callable[[Report, Launched], None]] = []
"""called with each launch of a Python kernel and with what makes it again; while there are any, that is kept of all"""
printing: list[Callable[[str], None]] = []
"""called with what threads print; while there are any, standard output does not get it"""
around: list[Callable[[Any, LaunchConfiguration, Sequence[Any], Callable[[], Report]], Report]] = []
"""called with each launch `kernel[grid, block](...)` and with what runs it, in its place; the last one counts"""
declaring: list[Callable[[dict[str, Any]], None]] = []
"""called with the options of each `jit`"""
configuring: list[Callable[[LaunchConfiguration], None]] = []
"""called with the shape of each `kernel[grid, block]`"""
passing: list[Callable[[Sequence[Any]], None]] = []
"""called with the arguments of each launch"""
aside: list[Callable[[], AbstractContextManager[None]]] = []
"""entered while Numba-CUDA itself is needed: whoever stands in its place steps aside meanwhile"""
