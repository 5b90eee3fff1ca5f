"""A kernel that is given as code of some machine, and its requirements on a launch."""

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
        """Arguments as the launch passes them, checked by number and type; what has been through it stays as it is."""

    def with_pointers(self, arguments: Sequence[Any], memory: DeviceMemory) -> Sequence[Any]:
        """The fitted arguments, with a view of the memory for each number that is passed as a pointer into it."""
        return arguments

    @abc.abstractmethod
    def names(self, arguments: Sequence[Any]) -> tuple[str, ...]:
        """The names of the parameters, of these fitted arguments."""

    @abc.abstractmethod
    def program(self, arguments: Sequence[Any], fma: bool, *, blocks: bool = False) -> Program:
        """The program for fitted arguments; `fma` contracts a * b + c where that is left to the compiler; `blocks`: it
        may be given addresses of blocks of the heap, which it does not allocate."""

    def keep(self, program: Program) -> None:  # noqa: B027 - nothing is kept of most
        """Keep a program that was launched for the next process, if that pays."""

    @abc.abstractmethod
    def admit(self, configuration: LaunchConfiguration) -> None:
        """UsageError for a launch of a shape that the code excludes."""

    def apply_cluster(self, configuration: LaunchConfiguration) -> LaunchConfiguration:
        """Return a launch in the clusters that the code requires."""
        return configuration

    def text(self) -> tuple[str, dict[int, str]] | None:
        """The text of its file, and the files that its lines name by number; None where it is not one file alone."""
        return None

    def with_text(self, text: str) -> Code:
        """Return this kernel of another text."""
        raise NotImplementedError

    def move_arrays(self, move: Callable[[npt.NDArray[Any]], npt.NDArray[Any]]) -> Code:
        """Return this kernel with the arrays of its variables replaced by `move`."""
        return self

    def gpu_entry(self, arguments: Sequence[Any]) -> Entry:
        """Return the entry that a GPU launches with fitted arguments; UsageError if wsemu does not send this code
        there."""
        raise NotImplementedError

    @abc.abstractmethod
    def source(self) -> tuple[str, int, int]:
        """Return the location of the code: file, first and last line."""
