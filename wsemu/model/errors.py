"""Errors that a user can meet.  Each message names the problem, its location, and a remedy."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from wsemu.model.program import Span


_COMMAND = re.compile(r"^(\s*)(?=::[^:])", re.MULTILINE)
"""start of a line that GitHub interprets as a command"""


def printable(text: str) -> str:
    """Return `text` without characters that could move a terminal's cursor, and without commands for CI services.  Its
    lines stay lines."""
    if not text.isprintable():  # a rare case
        text = "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text)
    return inert(text)


def inert(text: str) -> str:
    """Return text in which CI services find no command: no `::error ...` at the start of a line, no `##[error]`
    anywhere."""
    return _COMMAND.sub(r"\1| ", text.replace("##[", "## [")) if "::" in text or "##[" in text else text


class WsemuError(Exception):
    """The base of all errors of this package.  Its text is safe to print on a terminal, whatever names it contains."""

    def __str__(self) -> str:
        return printable(super().__str__())


class UsageError(WsemuError, ValueError):
    """The launch or its arguments are wrong (exit code 2)."""

    __module__ = "wsemu"  # users know the class under the name of this module


class ResultError(WsemuError, AssertionError):
    """A launch left other results than a launch file expects (exit code 1)."""


class CompileError(UsageError):
    """Raised if a compiler rejects CUDA C++ (exit code 2); `output` is the compiler's output."""

    def __init__(self, message: str, output: str) -> None:
        super().__init__(f"{message}\n{output}")
        self.message, self.output = message, output


class MistypedError(UsageError, TypeError):
    """Raised if the number or the types of arguments do not fit; also a TypeError, as in Numba-CUDA."""


class KernelError(WsemuError):
    """The kernel's source cannot be compiled: a construct outside the dialect, a wrong type, an unknown name (exit code
    2).

    `span` is the location, `remedy` a replacement, `calls` the spans of the calls that led there, outermost first.
    """

    __module__ = "wsemu"

    def __init__(self, message: str, span: Span | None = None, remedy: str = "", calls: tuple[Span, ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.span = span
        self.remedy = remedy
        self.calls = calls

    def __str__(self) -> str:
        where = f"{self.span.file}:{self.span.line}:{self.span.column + 1}: " if self.span else ""
        return printable(where + self.message + (f" (help: {self.remedy})" if self.remedy else ""))


class UnsupportedError(KernelError):
    """The source uses something that wsemu does not model (exit code 3: incomplete, never verified)."""

    __module__ = "wsemu"

    @property
    def subject(self) -> str:
        """Return the construct that is not modeled: the code in the message, or else the whole message."""
        found = re.search(r"`([^`]+)`", self.message)
        return found[1] if found else self.message


class MissingName(UnsupportedError, AttributeError):
    """Raised for a name of Numba-CUDA that `wsemu` does not provide; also an AttributeError."""


class MissingModule(UnsupportedError, ModuleNotFoundError):
    """Raised for a module of Numba-CUDA that `wsemu` does not provide; also an ImportError."""


class MissingPackage(UsageError, ModuleNotFoundError):
    """Raised if a package that the program needs is not installed (exit code 2); also an ImportError."""


def check_int(value: object, name: str) -> int:
    """Return a parameter that is an int.  Raise UsageError for anything else, even if it converts to an int."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise UsageError(f"{name} is {value!r}, of type {type(value).__name__}: give an int")
    return value


P = ParamSpec("P")
R = TypeVar("R")


def hide_internal_frames(function: Callable[P, R]) -> Callable[P, R]:
    """Return `function` with tracebacks that end at its call, without the frames inside wsemu."""

    @functools.wraps(function)
    def call(*args: P.args, **named: P.kwargs) -> R:
        __tracebackhide__ = True  # pytest then shows the caller
        try:
            return function(*args, **named)
        except WsemuError as error:
            raise error.with_traceback(None) from None

    return call
