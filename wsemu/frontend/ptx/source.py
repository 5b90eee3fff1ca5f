"""The text of a PTX file: conversion of offsets to lines, and errors with locations."""

from __future__ import annotations

import os
import re
from bisect import bisect_right

from wsemu.model.errors import KernelError
from wsemu.model.input_limits import INPUT_LIMITS
from wsemu.model.program import Span

_ASSEMBLY = re.compile(r"// begin inline asm\n[\s\S]*?// end inline asm")
"""inline assembly, between the comments of compilers"""


class Source:
    """A PTX file's text and path."""

    def __init__(self, text: str, path: str) -> None:
        self.text = text
        self.path = path
        self._starts: list[int] | None = None
        self._assemblies: list[int] | None = None

    def is_inside_assembly(self, at: int) -> bool:
        """Return whether an offset is inside inline assembly and after the first `.loc` there: LLVM adds the line
        numbers within the assembly to that line, and the sum is not a line of the source."""
        edges = self._assemblies
        if edges is None:
            edges = self._assemblies = []
            for found in _ASSEMBLY.finditer(self.text):
                first = self.text.find(".loc", *found.span())
                edges += (first + 1, found.end()) if first >= 0 else ()
        return bisect_right(edges, at) % 2 == 1

    def position(self, at: int) -> tuple[int, int]:
        """Return (line from 1, column from 0) of an offset."""
        starts = self._starts
        if starts is None:
            starts = self._starts = [0]
            at_newline = self.text.find("\n")
            while at_newline >= 0:
                starts.append(at_newline + 1)
                at_newline = self.text.find("\n", at_newline + 1)
        line = bisect_right(starts, at)
        return line, at - starts[line - 1]

    def span(self, at: int, end: int = 0) -> Span:
        """Return the span from an offset to another one, or to the end of its line."""
        line, column = self.position(at)
        if not end:
            end = self.text.find("\n", at)
            end = len(self.text) if end < 0 else end
        last, end_column = self.position(end)
        return Span(self.path, line, column, last, end_column)

    def place(self, at: int) -> str:
        """Return `kernel.ptx:12`, for messages."""
        return f"{os.path.basename(self.path)}:{self.position(at)[0]}"

    def error(self, at: int, message: str, remedy: str = "", end: int = 0) -> KernelError:
        """Return an error at an offset, with its location in the text."""
        return KernelError(message, self.span(at, end), remedy)

    def excess(self, limit: str, count: int, at: int) -> KernelError:
        """Return the error for an input that exceeds a row of INPUT_LIMITS, with its location in the text."""
        row = INPUT_LIMITS[limit]
        return self.error(at, row.excess(count), row.remedy, at + 1)
