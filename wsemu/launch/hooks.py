"""Hooks: functions of the command line, of pytest's plugin, of traces and witnesses, which launches call.

`append` and `adding_hook` add a hook for the launches of all threads, since a program may start threads. `adding_own`
adds a hook only for the launches of its own context, so that two threads can trace at the same time.
"""

from __future__ import annotations

import contextlib
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from wsemu.model.data import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from wsemu.evidence.places import Places
    from wsemu.launch.attempts import Launched
    from wsemu.launch.result import Report
    from wsemu.model.bound import Bound
    from wsemu.model.device_memory import DeviceMemory
    from wsemu.model.errors import WsemuError
    from wsemu.model.launch_shape import LaunchConfiguration
    from wsemu.model.outcome import Tracer


_H = TypeVar("_H", bound="Callable[..., Any]")


@dataclass(frozen=True, slots=True)
class Ready:
    """A launch that is ready to run: calling it runs it."""

    run: Callable[[], Report]
    memory: DeviceMemory | None = None
    """device memory that the launch is in; None: its arrays are those of the arguments"""

    def __call__(self) -> Report:
        return self.run()


class Hooks(Generic[_H]):
    """The hooks of one kind: first those of the process, then those of the current context."""

    def __init__(self, name: str) -> None:
        self._shared: list[_H] = []
        self._own: ContextVar[tuple[_H, ...]] = ContextVar(name, default=())

    def append(self, hook: _H) -> None:
        """Add a hook for all threads."""
        self._shared.append(hook)

    def remove(self, hook: _H) -> None:
        """Remove a hook that `append` added."""
        self._shared.remove(hook)

    @contextlib.contextmanager
    def adding_own(self, hook: _H) -> Iterator[None]:
        """Add a hook for the launches of this context."""
        token = self._own.set((*self._own.get(), hook))
        try:
            yield
        finally:
            self._own.reset(token)

    def __iter__(self) -> Iterator[_H]:
        return iter((*self._shared, *self._own.get()))

    def __len__(self) -> int:
        return len(self._shared) + len(self._own.get())

    def __getitem__(self, index: int) -> _H:
        return (*self._shared, *self._own.get())[index]


@contextlib.contextmanager
def adding_hook(hooks: Hooks[Any], hook: Callable[..., Any]) -> Iterator[None]:
    """Call one more hook for the launches of all threads."""
    hooks.append(hook)
    try:
        yield
    finally:
        hooks.remove(hook)


@contextlib.contextmanager
def adding_hooks(*pairs: tuple[Hooks[Any], Callable[..., Any]]) -> Iterator[None]:
    """Call one more hook of each of these kinds for the launches of all threads."""
    for hooks, hook in pairs:
        hooks.append(hook)
    try:
        yield
    finally:
        for hooks, hook in pairs:
            hooks.remove(hook)


observers: Hooks[Callable[[Report], None]] = Hooks("observers")
"""called with the report of every launch; if there is any observer, a failed launch does not raise"""
undecided: Hooks[Callable[[Report], None]] = Hooks("undecided")
"""called with the report of each `incomplete` launch that no observer receives, instead of printing a line to standard
error"""
refused: Hooks[Callable[[Any, LaunchConfiguration, WsemuError], bool]] = Hooks("refused")
"""called with a launch that is rejected and the reason; if one returns True, the program continues without the
launch"""
starting: Hooks[Callable[[Bound], None]] = Hooks("starting")
"""called with each launch just before it runs"""
expecting: Hooks[Callable[[], Mapping[str, Any]]] = Hooks("expecting")
"""called to get the expected arrays after a launch, by name: an array, or a function that accepts one"""
advancing: Hooks[Callable[[str, int, int], None]] = Hooks("advancing")
"""called repeatedly while a long launch runs, with its kernel's name, the number of finished CTAs, and the number of
CTAs"""
traceable: Hooks[Callable[[Report, Places, Tracer], None]] = Hooks("traceable")
"""called with each checked launch and a function that traces it, before the observers"""
finished: Hooks[Callable[[Bound, Places, Tracer], None]] = Hooks("finished")
"""called with each launch that ran to its end, or is verified, before its report is delivered"""
admitting: Hooks[Callable[[str], bool]] = Hooks("admitting")
"""called with the kernel's name before each launch that would be checked; if one returns False, the launch is not
checked"""
passed_over: dict[str, None] = {}
"""names of kernels that ran unchecked because the settings exclude them"""
keeping: Hooks[Callable[[Report, Launched], None]] = Hooks("keeping")
"""called with each launch of a Python kernel and its `Launched`, which can repeat it; while there are such hooks, the
initial arrays of all launches are kept"""
printing: Hooks[Callable[[str], None]] = Hooks("printing")
"""called with the output of threads, instead of standard output"""
asserting: Hooks[Callable[[str], None]] = Hooks("asserting")
"""called with the messages of failed assertions, instead of standard error"""
around: Hooks[Callable[[Any, LaunchConfiguration, Sequence[Any], Ready], Report]] = Hooks("around")
"""called instead of each launch `kernel[grid, block](...)`, with a `Ready` that runs it; only the last hook is
called"""
declaring: Hooks[Callable[[dict[str, Any]], None]] = Hooks("declaring")
"""called with the options of each `jit`"""
configuring: Hooks[Callable[[LaunchConfiguration], None]] = Hooks("configuring")
"""called with the shape of each `kernel[grid, block]`"""
passing: Hooks[Callable[[Sequence[Any]], None]] = Hooks("passing")
"""called with the arguments of each launch"""
aside: Hooks[Callable[[], AbstractContextManager[None]]] = Hooks("aside")
"""entered while Numba-CUDA itself is needed; inside, its replacements are removed"""
