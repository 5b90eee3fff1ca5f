"""A function's source as a syntax tree whose lines and columns are those of its file."""

from __future__ import annotations

import ast
import contextlib
import copy
import functools
import inspect
import io
import linecache
import os
import textwrap
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from wsemu.model.errors import UnsupportedError
from wsemu.model.program import Span
from wsemu.model.remembered import Text, remember, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class Source:
    """One function: its tree and its file."""

    __slots__ = ("_spans", "file", "node")

    def __init__(self, file: str, node: ast.FunctionDef | ast.Lambda) -> None:
        self.file = file
        self.node = node
        self._spans: dict[ast.AST, Span] = {}

    def span(self, node: ast.AST) -> Span:
        found = self._spans.get(node)
        if found is None:
            at: Any = node
            end = (at.end_lineno or at.lineno, at.end_col_offset or at.col_offset)
            found = self._spans[node] = Span(self.file, at.lineno, at.col_offset, *end)
        return found


@functools.lru_cache(maxsize=2048)
def _code_source(code: CodeType, name: str) -> Source:
    """Return the source of a code object in the file `name`, which is a key because code objects of two files may be
    equal.

    Only its own lines are parsed, or the whole file if that fails.
    """
    kept = text_of(code)
    if kept is not None:
        found = _find_in_text(kept, code)
        if found is not None:
            return found
    file = os.path.realpath(name) if os.path.exists(name) else name
    tree = _parse_lines(*_own_lines(code))
    node = None if tree is None else _find(tree, code)
    if node is not None:
        return Source(file, node)
    try:
        lines, first = _lines(code)
    except (OSError, TypeError, IndexError) as error:
        raise UnsupportedError(
            f"the source of `{code.co_name}` in {code.co_filename} cannot be read",
            remedy="define it in a file, start the program with `wsemu run`, or set its text as `__source__`",
        ) from error
    for text, start in (("".join(lines), first), ("".join(linecache.getlines(code.co_filename)), 1)):
        tree = _parse_lines(text, start)
        node = None if tree is None else _find(tree, code)
        if node is not None:
            return Source(file, node)
    if code.co_flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        raise UnsupportedError(f"`async def {code.co_name}` in a kernel", remedy="use `def`")
    raise UnsupportedError(
        f"`{code.co_name}` is not found in its own source, {code.co_filename}",
        remedy="define it with `def`, and start again if the file was edited",
    )


def _own_lines(code: CodeType) -> tuple[str, int]:
    """Return the text from a function's first line to the last line with its code, and the number of the first line."""
    linecache.checkcache(code.co_filename)
    lines = linecache.getlines(code.co_filename)
    return "".join(lines[code.co_firstlineno - 1 : _last_line(code)]), code.co_firstlineno


def _last_line(code: CodeType) -> int:
    own = max((end for _, end, _, _ in code.co_positions() if end is not None), default=0)
    return max([own, *(_last_line(inner) for inner in code.co_consts if isinstance(inner, CodeType))])


def _lines(code: CodeType) -> tuple[list[str], int]:
    """Return the lines of a code object's file and the number of its first line, without the search of all modules in
    `inspect`."""
    linecache.checkcache(code.co_filename)
    lines = linecache.getlines(code.co_filename)
    if not lines:
        return inspect.getsourcelines(code)
    first = code.co_firstlineno
    if first > len(lines):
        raise OSError("the file has become shorter")
    return inspect.getblock(lines[first - 1 :]), first


def _parse_lines(text: str, first: int) -> ast.Module | None:
    """Return the tree of some lines of a file, of which the first is line `first`; indented lines are wrapped in an
    `if`."""
    indented = text[:1] in (" ", "\t", "\f")
    before = "\n" * (first - 2) + "if 1:\n" if indented else "\n" * (first - 1)
    try:
        return ast.parse(before + text)
    except SyntaxError:
        return None


def _find(tree: ast.AST, code: CodeType) -> ast.FunctionDef | ast.Lambda | None:
    """Return the node of a code object at its line: the function with its name, or the lambda around its
    instructions."""
    for child in ast.walk(tree):
        if isinstance(child, ast.FunctionDef) and child.name == code.co_name:
            decorated = min((d.lineno for d in child.decorator_list), default=child.lineno)
            if decorated <= code.co_firstlineno <= child.lineno:
                return child
        elif isinstance(child, ast.Lambda) and code.co_name == "<lambda>" and _holds(child, code):
            return child
    return None


def _holds(node: ast.Lambda, code: CodeType) -> bool:
    """Return whether a code object's instructions belong to the body of this lambda."""
    body: Any = node.body
    start, end = (body.lineno, body.col_offset), (body.end_lineno, body.end_col_offset)
    places = [(p[0], p[2]) for p in code.co_positions() if p[0] is not None and p[2] is not None and p[3] != p[2]]
    if not places:  # Python 3.12 has no location for a returned constant
        return isinstance(body, ast.Constant) and node.lineno == code.co_firstlineno and body.value in code.co_consts
    return start <= max(places) < end and start <= min(p for p in places if p != (0, 0))


def _find_in_text(kept: Text, code: CodeType) -> Source | None:
    tree = _parse_lines(kept.text, 1)
    node = None if tree is None else _find(tree, code)
    return None if node is None else Source(kept.file, node)


@functools.lru_cache(maxsize=256)
def _attribute_source(code: CodeType, text: str) -> Source | None:
    """Return the source of a function from its attribute `__source__`, which contains a definition with its name."""
    text = textwrap.dedent(text)
    tree = _parse_lines(text, 1)
    for node in () if tree is None else ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == code.co_name:
            return Source(remember(code, text).file, node)
    return None


Function = ast.FunctionDef | ast.Lambda
_edited: dict[str, _Edited] = {}
"""file -> its functions after an edit"""


def find_source(function: FunctionType) -> Source:
    """Return the source of a function, parsed once for each code object."""
    source = _read_source(function)
    if source.file in _edited:
        return Source(source.file, _edited[source.file].node(source.node))
    return source


def _read_source(function: FunctionType) -> Source:
    """Return the source of a function without edits."""
    code = function.__code__
    text = vars(function).get("__source__")
    given = _attribute_source(code, text) if isinstance(text, str) else None
    if given is not None:
        return given
    try:
        return _code_source(code, code.co_filename)
    except UnsupportedError:
        # true if the loader of the module has the text
        if not linecache.lazycache(code.co_filename, function.__globals__):
            raise
        return _code_source(code, code.co_filename)


class _Edited:
    """The functions of a file that an edit changes in some of its statements."""

    def __init__(
        self,
        changed: dict[tuple[int, int], Function],
        below: int,
        shift: int,
        assigned: Sequence[tuple[ast.Assign, ast.Assign]] = (),
    ) -> None:
        self.changed = changed
        """changed functions, by their lines in the unedited file"""
        self.assigned = assigned
        """assignments at the top of the file, each before and after the edit"""
        self.below, self.shift = below, shift
        """first line that the edit shifts, and the number of lines by which it does"""

    def node(self, before: Function) -> Function:
        """Return a function after the edit."""
        place = before.lineno, before.col_offset
        if place not in self.changed and self.shift and before.lineno >= self.below:
            self.changed[place] = ast.increment_lineno(copy.deepcopy(before), self.shift)
        return self.changed.get(place, before)


@contextlib.contextmanager
def editing_source(file: str, before: ast.Module, text: str) -> Iterator[Sequence[tuple[ast.Assign, ast.Assign]]]:
    """Inside the `with` block, give `file`, whose tree is `before`, the contents `text`.  Yield the assignments at its
    top that the edit changes.  Raise SyntaxError if the text is not Python, and ValueError if it has other functions.
    Code compiled earlier does not change."""
    lines = [*io.StringIO(text)]  # files are split only at line feeds
    made = _parse_changes(before, linecache.getlines(file), lines)
    known = linecache.cache.get(file)
    linecache.cache[file] = (len(text), None, lines, file)
    _edited[file] = made
    try:
        yield made.assigned
    finally:
        del _edited[file]
        linecache.cache.pop(file)
        if known is not None:
            linecache.cache[file] = known


def _parse_changes(before: ast.Module, old: list[str], new: list[str]) -> _Edited:
    """Return the edited functions, for the lines that differ: only the statements around these lines are parsed."""
    same = next(
        (n for n, pair in enumerate(zip(old, new, strict=False)) if pair[0] != pair[1]), min(len(old), len(new))
    )
    most = min(len(old), len(new)) - same
    tail = next((n for n in range(most) if old[-1 - n] != new[-1 - n]), most)
    shift = len(new) - len(old)
    # lines `same` to `len(old) - tail` change: find the statements that contain them
    body = before.body
    starts = [min([s.lineno, *(d.lineno for d in getattr(s, "decorator_list", ()))]) - 1 for s in body]
    touched = [n for n, s in enumerate(body) if starts[n] < len(old) - tail + 1 and (s.end_lineno or 0) >= same]
    if not touched:
        return _Edited({}, same + 1, shift)
    first = starts[touched[0]] if touched[0] else 0
    last = starts[touched[-1] + 1] if touched[-1] + 1 < len(body) else len(old)
    after = ast.parse("\n" * first + "".join(new[first : last + shift]))
    pairs = [
        pair
        for one, other in zip([body[n] for n in touched], after.body, strict=True)
        for pair in zip(_functions(one), _functions(other), strict=True)
    ]
    if any(type(one) is not type(other) for one, other in pairs):
        raise ValueError("an edit of functions")
    assigned = [
        (one, other)
        for one, other in zip([body[n] for n in touched], after.body, strict=True)
        if isinstance(one, ast.Assign) and isinstance(other, ast.Assign) and ast.dump(one) != ast.dump(other)
    ]
    return _Edited({(one.lineno, one.col_offset): other for one, other in pairs}, last + 1, shift, assigned)


def _functions(tree: ast.AST) -> Iterator[Function]:
    """Yield the functions of a tree, always in the same order: outer ones first."""
    return (node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.Lambda)))
