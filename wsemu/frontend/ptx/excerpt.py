"""Find the text of a C++ source that a `.loc` refers to: the directive has a line and a column, but no end.

nvcc names the beginning of a statement, of a condition, or of an expression within one.  The text meant ends with the
statement, with the parenthesis that closes the one around it, or with the line, whichever comes first.
"""

from __future__ import annotations

import linecache
import re

from wsemu.model.program import Span

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|//.*|/\*.*?(?:\*/|$)|.')
"""a literal, a comment, or a character"""
_SHIFTED = re.compile(r"\b__(?:device|global|host|forceinline|noinline)__\b")
"""text that nvcc replaces before it counts columns, which shifts later columns"""
_WITHIN = re.compile(r"\w\w")
"""the middle of a word, where no construct begins"""
_DEEPER, _BACK = "([", ")]"


def loc_span(path: str, line: int, column: int) -> Span:
    """Return the span of `.loc FILE line column`, column counted from 1; column 0 is the whole line (PTX ISA
    11.5.3)."""
    text = linecache.getline(path, line).rstrip("\r\n")
    first = column - 1
    if 0 <= first < len(text):  # Numba gives column 1
        first += len(text[first:]) - len(text[first:].lstrip())
    if not 1 <= column <= len(text) or _SHIFTED.search(text, 0, first) or _WITHIN.match(text, max(first - 1, 0)):
        first = len(text) - len(text.lstrip())
        body = text.find("{") + 1
        if column >= 1 and text[body:].strip(" }"):  # a function in one line
            first = body + len(text[body:]) - len(text[body:].lstrip())
    first += len(text[first:]) - len(text[first:].lstrip())  # Numba always gives column 1
    last = first + _extent(text[first:])
    begin, end = (len(text[:place].encode(errors="replace")) for place in (first, last))
    return Span(path, line, begin, line, max(end, begin + 1))


def _extent(text: str) -> int:
    """Return the number of characters of the rest of a line that belong to the construct."""
    depth, end = 0, 0
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token.startswith(("//", "/*", "#")):
            break
        if token in _BACK:
            depth -= 1
            if depth < 0:
                break
        elif token in _DEEPER:
            depth += 1
        elif depth == 0 and token in ";{":
            break
        if not token.isspace():
            end = match.end()
    return end
