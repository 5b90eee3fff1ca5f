"""Find the expression of an access in a CUDA C++ statement, and the declaration of an array.

Line information locates only statements.  The name of the accessed array identifies the expression in the statement.
If this is ambiguous, findings show the whole statement.
"""

from __future__ import annotations

import linecache
import re
from typing import TYPE_CHECKING

from wsemu.evidence.source_view import CUDA
from wsemu.model.data import NamedTuple
from wsemu.model.isa import NAMES, OPERATIONS
from wsemu.model.program import Span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wsemu.model.program import Program

_ASSIGNED = re.compile(r"\s*(?:=(?!=)|(?P<compound>\+\+|--|(?:<<|>>|[-+*/%&|^])=))")
_FIRST = re.compile(r"(?:\+\+|--)\s*$")
_MEMBER = re.compile(r"\s*(?:\.|->)\s*([A-Za-z_]\w*)(?!\w|\s*[(<])")
_TARGET = re.compile(r"\s*((?:this->)?[A-Za-z_]\w*)(?=\s*(?:\.|->))")
"""start of a statement that assigns to a member"""


class _Place(NamedTuple):
    """`tile[i][j]` in a text."""

    start: int
    end: int
    stored: bool
    loaded: bool


def refine(program: Program) -> None:
    """Narrow the spans of instructions that access arrays to the accessing expression if it is unique, and the spans of
    shared arrays to their declarations."""
    numbers: dict[tuple[Span, tuple[int, ...]], int] = {}
    for number, span in enumerate(program.spans):
        numbers.setdefault((span, program.inner_spans.get(number, ())), number)

    def span_number(span: Span, inner: tuple[int, ...] = ()) -> int:
        if (span, inner) not in numbers:
            numbers[span, inner] = len(program.spans)
            program.spans.append(span)
            if inner:
                program.inner_spans[numbers[span, inner]] = inner
        return numbers[span, inner]

    for pc, name in enumerate(program.array_of):
        span = program.spans[program.span_of[pc]]
        if name is not None and span.file.endswith(CUDA):
            found = _expression(span, name, OPERATIONS[NAMES[int(program.code[pc, 0])]].kind)
            if found is not None:
                program.span_of[pc] = span_number(found, program.inner_spans.get(program.span_of[pc], ()))
    program.shared[:] = [
        array._replace(span=span_number(_declaration(program.spans[array.span], array.name)))
        for array in program.shared
    ]


def _expression(span: Span, name: str, kind: str) -> Span | None:
    """Return the one location within a span that names an element of an array, and loads or stores it."""
    text = linecache.getline(span.file, span.line)
    if not text.isascii() or span.end_line != span.line:
        return None
    wanted = [
        place
        for place in _places(text[: span.end_column], name, span.column)
        if kind == "atomic" or (place.stored if kind == "store" else place.loaded)
    ]
    if not wanted and kind == "store":
        wanted = _find_target(text[: span.end_column], span.column)
    if len({text[place.start : place.end] for place in wanted}) != 1:
        return None
    return span._replace(column=wanted[0].start, end_column=wanted[0].end)


def _places(text: str, name: str, begin: int) -> Iterator[_Place]:
    """Yield the elements and members of a variable in a text."""
    pattern = re.compile(rf"(?<![\w.>])(?:this->)?{re.escape(name)}(?=\s*(?:\[|\.|->))")
    for match in pattern.finditer(text, begin):
        end = _past_postfix(text, match.end())
        if end:
            after = _ASSIGNED.match(text, end)
            both = bool(_FIRST.search(text, begin, match.start())) or (after is not None and bool(after["compound"]))
            yield _Place(match.start(), end, both or after is not None, both or after is None)


def _find_target(text: str, begin: int) -> list[_Place]:
    """Return the member of an object to which a statement assigns, if it is a single assignment.  A pointer or
    reference to the object may have another name."""
    match = _TARGET.match(text, begin)
    end = _past_postfix(text, match.end()) if match else 0
    after = _ASSIGNED.match(text, end) if end else None
    if match is None or after is None or re.search(r"[^=!<>]=(?!=)", text[after.end() :]):
        return []
    return [_Place(match.start(1), end, stored=True, loaded=bool(after["compound"]))]


def _past_postfix(text: str, at: int) -> int:
    """Return the end of the subscripts and members that begin at an index.  Return 0 if there are none, a bracket is
    not closed, or a function is called."""
    end = 0
    while True:
        member = _MEMBER.match(text, at)
        after = member.end() if member else _past_brackets(text, at)
        if not after:
            rest = text[at:].lstrip()
            return 0 if rest.startswith(("[", ".", "->")) else end
        at = end = after


def _past_brackets(text: str, at: int) -> int:
    """Return the end of the subscripts that begin at an index, or 0 if a bracket is not closed."""
    depth = 0
    end = 0
    for place in range(at, len(text)):
        character = text[place]
        depth += (character == "[") - (character == "]")
        if depth == 0 and character == "]":
            end = place + 1
        elif depth == 0 and not character.isspace():
            break
    return end if depth == 0 else 0


def _declaration(function: Span, name: str) -> Span:
    """Return the location of a shared array's declaration, searched from the line of its function on.  Return that line
    if it is not found."""
    lines = linecache.getlines(function.file) if function.file.endswith(CUDA) else []
    pattern = re.compile(rf"__shared__\b.*?\b({re.escape(name)})\s*\[")
    for number, line in enumerate(lines[function.line - 1 :], function.line):
        match = pattern.search(line) if line.isascii() else None
        if match:
            return Span(
                function.file, number, match.start(1), number, _past_brackets(line, match.end(1)) or match.end(1)
            )
    return function
