"""A function's source as a syntax tree whose lines and columns are those of its file."""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import os
from types import CodeType, FunctionType
from typing import Any

from wsemu.model.errors import UnsupportedError
from wsemu.model.program import Span


class Source:
    """One function: its tree and the file it stands in."""

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
def _of_code(code: CodeType, name: str) -> Source:
    """The source of a code object in the file `name`; code objects that differ by their file alone are equal.

    Only its own lines are parsed; the whole file where they do not stand alone.
    """
    file = os.path.realpath(name) if os.path.exists(name) else name
    try:
        lines, first = inspect.getsourcelines(code)
    except (OSError, TypeError, IndexError) as error:
        raise UnsupportedError(
            f"the source of `{code.co_name}` in {code.co_filename} cannot be read",
            remedy="define kernels in a file, not in an interactive prompt or `exec`",
        ) from error
    for text, start in (("".join(lines), first), ("".join(linecache.getlines(code.co_filename)), 1)):
        tree = _parsed(text, start)
        node = None if tree is None else _find(tree, code)
        if node is not None:
            return Source(file, node)
    if code.co_flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        raise UnsupportedError(f"`async def {code.co_name}` in a kernel", remedy="use `def`")
    raise UnsupportedError(
        f"`{code.co_name}` is not found in its own source, {code.co_filename}",
        remedy="define it with `def`, and start again if the file was edited",
    )


def _parsed(text: str, first: int) -> ast.Module | None:
    """The tree of some lines of a file, the first of them at line `first`; indented ones are put into an `if`."""
    indented = text[:1].isspace()
    try:
        tree = ast.parse("if 1:\n" + text if indented else text)
    except SyntaxError:
        return None
    shift = first - 1 - indented
    return ast.increment_lineno(tree, shift) if shift else tree


def _find(tree: ast.AST, code: CodeType) -> ast.FunctionDef | ast.Lambda | None:
    """The node of a code object: the function of its name, or the lambda around its instructions, at its line."""
    for child in ast.walk(tree):
        if isinstance(child, ast.FunctionDef) and child.name == code.co_name:
            decorated = min((d.lineno for d in child.decorator_list), default=child.lineno)
            if decorated <= code.co_firstlineno <= child.lineno:
                return child
        elif isinstance(child, ast.Lambda) and code.co_name == "<lambda>" and _holds(child, code):
            return child
    return None


def _holds(node: ast.Lambda, code: CodeType) -> bool:
    """Whether a code object's instructions stand in the body of this lambda."""
    body: Any = node.body
    start, end = (body.lineno, body.col_offset), (body.end_lineno, body.end_col_offset)
    places = [(p[0], p[2]) for p in code.co_positions() if p[0] is not None and p[2] is not None and p[3] != p[2]]
    if not places:  # Python 3.12 gives a constant that is returned no place
        return isinstance(body, ast.Constant) and node.lineno == code.co_firstlineno and body.value in code.co_consts
    return start <= max(places) < end and start <= min(p for p in places if p != (0, 0))


def source_of(function: FunctionType) -> Source:
    """The source of a function, parsed once per code object."""
    return _of_code(function.__code__, function.__code__.co_filename)
