"""Breakpoints of `wsemu debug`: lines, their conditions, and texts that are printed instead of stopping."""

from __future__ import annotations

import ast
import os
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.model.data import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wsemu.model.program import Span

_FIELD = re.compile(r"\{([^{}]+)\}")


@dataclass(frozen=True, slots=True)
class Breakpoint:
    """A line at which the selected thread stops."""

    line: int
    file: str = ""
    """real path of its file; empty: any file"""
    condition: str = ""
    """an expression of the kernel's variables; the thread stops only if it is true"""
    log: str = ""
    """text that is printed instead of stopping, with expressions in braces"""

    def __str__(self) -> str:
        return f"{self.line} if {self.condition}" if self.condition else str(self.line)


@dataclass(slots=True)
class Breakpoints:
    """The breakpoints of a session, by file and line."""

    points: dict[tuple[str, int], Breakpoint] = field(default_factory=dict)

    @classmethod
    def at_lines(cls, lines: Iterable[int]) -> Breakpoints:
        """Return a breakpoint for each line, in any file."""
        return cls({("", line): Breakpoint(line) for line in lines})

    def set(self, point: Breakpoint) -> None:
        """Add a breakpoint, or replace the one at its location."""
        self.points[point.file, point.line] = point

    def clear(self, line: int) -> None:
        """Remove the breakpoint at this line in any file."""
        self.points.pop(("", line), None)

    def replace_in_file(self, file: str, points: Iterable[Breakpoint]) -> None:
        """Replace all breakpoints of a file."""
        self.points = {key: point for key, point in self.points.items() if key[0] != file}
        for point in points:
            self.set(point)

    def at(self, span: Span) -> Breakpoint | None:
        """Return the breakpoint at a location, or None."""
        if not self.points:
            return None
        found = self.points.get(("", span.line))
        return found or self.points.get((os.path.realpath(span.file), span.line))

    def __str__(self) -> str:
        return ", ".join(map(str, sorted(self.points.values(), key=lambda point: point.line))) or "none"


def evaluate(text: str, variables: dict[str, Any]) -> Any:
    """Return the value of an expression of the variables; any exception propagates."""
    ast.parse(text.strip(), mode="eval")
    # the user typed the expression, and it runs in the user's own process
    return eval(text.strip(), {"np": np}, variables)


def holds(condition: str, variables: dict[str, Any]) -> bool:
    """Return whether a condition holds.  A condition that cannot be evaluated counts as true, so that the user notices
    the error."""
    try:
        return bool(evaluate(condition, variables))
    except Exception:
        return True


def fill_in_values(text: str, variables: dict[str, Any]) -> str:
    """Return a text in which the expressions in braces are replaced by their values."""
    return _FIELD.sub(lambda found: evaluate_as_text(found[1], variables), text)


def evaluate_as_text(text: str, variables: dict[str, Any]) -> str:
    """Return the value of an expression as text, or its error."""
    try:
        return format_value(evaluate(text, variables))
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def format_value(value: Any) -> str:
    """Return a value as text."""
    return np.array_repr(value) if isinstance(value, np.ndarray) else str(value)


def statement_lines(file: str) -> list[int]:
    """Return the lines of a file at which statements begin, in order; none if the file cannot be read."""
    try:
        with open(file, encoding="utf-8") as text:
            tree = ast.parse(text.read())
    except (OSError, SyntaxError, ValueError):
        return []
    return sorted({node.lineno for node in ast.walk(tree) if isinstance(node, ast.stmt)})
