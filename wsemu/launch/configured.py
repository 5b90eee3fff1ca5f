"""`kernel[grid, block]`: a kernel with the shape of its launches, and the launch in progress."""

from __future__ import annotations

import contextlib
import functools
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from wsemu.launch import hooks
from wsemu.launch.hypothesis_example import leaving_out_launch
from wsemu.model.errors import UsageError, hide_internal_frames

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wsemu.launch.kernel import Launchable
    from wsemu.model.launch_shape import Dimensions, LaunchConfiguration


class ConfiguredLaunch:
    """A kernel with a launch shape; calling it launches the kernel.

    `pre_launch_callbacks` are called with the kernel and this object before each launch, as in Numba-CUDA.  `args` has
    the arguments during a launch, and is None otherwise.
    """

    __slots__ = ("_callbacks", "args", "configuration", "dispatcher", "stream")

    def __init__(self, kernel: Launchable, configuration: LaunchConfiguration, stream: object = 0) -> None:
        self.dispatcher = kernel
        self.configuration = configuration
        self.stream = stream
        self.args: tuple[Any, ...] | None = None
        self._callbacks: list[Callable[[Any, ConfiguredLaunch], object]] | None = None

    @property
    def griddim(self) -> Dimensions:
        """Return the number of CTAs in x, y, z."""
        return self.configuration.grid

    @property
    def blockdim(self) -> Dimensions:
        """Return the number of threads of a CTA in x, y, z."""
        return self.configuration.block

    @property
    def sharedmem(self) -> int:
        """Return the number of bytes of dynamic shared memory of a CTA."""
        return self.configuration.dynamic_shared

    @property
    def pre_launch_callbacks(self) -> list[Callable[[Any, ConfiguredLaunch], object]]:
        """Return the functions that are called before each launch."""
        if self._callbacks is None:
            self._callbacks = []
        return self._callbacks

    @hide_internal_frames
    def __call__(self, /, *arguments: Any, **named: Any) -> None:
        """Launch the kernel with all checks."""
        kernel = self.dispatcher
        if named:
            raise UsageError(
                f"`{kernel.__name__}` was launched with `{next(iter(named))}=`: give arguments by position"
            )
        launch = _load_launch()
        self.args = arguments
        token = _under_way.set(self)
        try:
            for callback in self._callbacks or ():
                callback(kernel, self)
            for record in _records.get(kernel, ()):
                record["config"] = self
            for watch in hooks.passing:
                watch(arguments)
            launch(kernel, self.configuration, arguments)
        finally:
            _under_way.reset(token)
            self.args = None

    def __repr__(self) -> str:
        return f"<{self.dispatcher.__name__}[{self.griddim}, {self.blockdim}]>"


@functools.cache
def _load_launch() -> Callable[..., None]:
    """Return `check.launch`.  It is imported by the first launch: a module that only defines kernels needs no
    engine."""
    with leaving_out_launch():
        from wsemu.launch.check import launch
    return launch


_under_way: ContextVar[ConfiguredLaunch | None] = ContextVar("wsemu_launch", default=None)
_records: dict[Any, list[dict[str, ConfiguredLaunch | None]]] = {}
"""observers of the launches of each kernel"""


def current_launch_config() -> ConfiguredLaunch | None:
    """Return the launch in progress, None outside of launches."""
    return _under_way.get()


def ensure_current_launch_config() -> ConfiguredLaunch:
    """Return the launch in progress; raise RuntimeError outside of launches."""
    found = current_launch_config()
    if found is None:
        raise RuntimeError(
            "no launch is in progress in this thread: call this from a function that runs during a launch"
        )
    return found


@contextlib.contextmanager
def capture_compile_config(dispatcher: Launchable) -> Iterator[dict[str, ConfiguredLaunch | None]]:
    """Return a dictionary whose `"config"` is the configuration of the kernel's last launch inside the `with` block, or
    None before it.

    Each launch inside is recorded; Numba-CUDA only records those that compile.
    """
    record: dict[str, ConfiguredLaunch | None] = {"config": None}
    records = _records.setdefault(dispatcher, [])
    records.append(record)
    try:
        yield record
    finally:
        records.remove(record)
        if not records:
            del _records[dispatcher]
