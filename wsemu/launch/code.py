"""A kernel given as code instead of a Python function, such as PTX, and what it requires of a launch."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from wsemu.backends.driver import Entry
    from wsemu.model.device_memory import DeviceMemory
    from wsemu.model.launch_shape import LaunchConfiguration
    from wsemu.model.program import Program


class Code(abc.ABC):
    """The code of a kernel, without a Python function."""

    __name__: str
    notes: tuple[str, ...] = ()
    """notes that each report of the code gets"""
    is_cuda = True
    """true if its source is CUDA C++, which reports then mention"""

    @abc.abstractmethod
    def fit(self, arguments: Sequence[Any]) -> Sequence[Any]:
        """Check arguments by number and type, and return them in the form in which the launch passes them; fitted
        arguments are returned unchanged."""

    def with_pointers(self, arguments: Sequence[Any], memory: DeviceMemory) -> Sequence[Any]:
        """Return the fitted arguments with a view of `memory` instead of each number that is a pointer into it."""
        return arguments

    @abc.abstractmethod
    def names(self, arguments: Sequence[Any]) -> tuple[str, ...]:
        """Return the names of the parameters for these fitted arguments."""

    @property
    def parameter_types(self) -> Sequence[str]:
        """Return the declared types of the parameters; empty if there are none."""
        return ()

    @abc.abstractmethod
    def program(self, arguments: Sequence[Any], fma: bool, *, blocks: bool = False) -> Program:
        """Return the program for fitted arguments.  `fma` contracts a * b + c if the code permits it.  `blocks`:
        addresses of blocks of the heap, which another program allocated, may reach it."""

    def keep(self, program: Program) -> None:  # noqa: B027 - nothing is kept of most
        """Store a launched program for the next process, if that saves time."""

    @abc.abstractmethod
    def admit(self, configuration: LaunchConfiguration) -> None:
        """Raise UsageError if the code excludes the shape of a launch."""

    def apply_cluster(self, configuration: LaunchConfiguration) -> LaunchConfiguration:
        """Return a launch in the clusters that the code requires."""
        return configuration

    def text(self) -> tuple[str, dict[int, str]] | None:
        """Return the text of the kernel's file, and the source files by number; None if it is not a single file."""
        return None

    def with_text(self, text: str) -> Code:
        """Return this kernel with another text of its file."""
        raise NotImplementedError

    def move_arrays(self, move: Callable[[npt.NDArray[Any]], npt.NDArray[Any]]) -> Code:
        """Return this kernel with the arrays of its variables replaced by `move`."""
        return self

    def gpu_entry(self, arguments: Sequence[Any]) -> Entry:
        """Return the entry that a GPU launches with fitted arguments; raise UsageError if wsemu cannot send this code
        to a GPU."""
        raise NotImplementedError

    @abc.abstractmethod
    def source(self) -> tuple[str, int, int]:
        """Return the location of the code: file, first and last line."""
