"""A function's source as a syntax tree whose lines and columns are those of its file."""

from __future__ import annotations

import ast
import functools
import inspect
import os
import textwrap
from types import CodeType, FunctionType
from typing import Any

from wsemu.bytecode import Span
from wsemu.errors import KernelError


class Source:
    """One function: its tree and the file it stands in."""

    __slots__ = ("file", "node")

    def __init__(self, file: str, node: ast.FunctionDef | ast.Lambda) -> None:
        self.file = file
        self.node = node

    def span(self, node: ast.AST) -> Span:
        at: Any = node
        return Span(self.file, at.lineno, at.col_offset, at.end_lineno or at.lineno, at.end_col_offset or at.col_offset)


@functools.lru_cache(maxsize=2048)
def _of_code(code: CodeType) -> Source:
    file = os.path.realpath(code.co_filename) if os.path.exists(code.co_filename) else code.co_filename
    try:
        lines, first = inspect.getsourcelines(code)
    except (OSError, TypeError) as error:
        raise KernelError(
            f"the source of `{code.co_name}` in {code.co_filename} cannot be read",
            remedy="define kernels in a file, not in an interactive prompt or `exec`",
        ) from error
    text = "".join(lines)
    dedented = textwrap.dedent(text)
    indent = len(lines[0]) - len(lines[0].lstrip()) if lines else 0
    try:
        tree = ast.parse(dedented)
    except SyntaxError as error:
        raise KernelError(f"the source of `{code.co_name}` does not parse: {error.msg}") from error
    node = _find(tree, code, first)
    for child in ast.walk(tree):
        if hasattr(child, "lineno"):
            located: Any = child
            located.lineno += first - 1
            located.end_lineno += first - 1
            located.col_offset += indent
            located.end_col_offset += indent
    return Source(file, node)


def _find(tree: ast.AST, code: CodeType, first: int) -> ast.FunctionDef | ast.Lambda:
    wanted = code.co_name
    for child in ast.walk(tree):
        if wanted == "<lambda>" and isinstance(child, ast.Lambda) and len(child.args.args) == code.co_argcount:
            return child
        if isinstance(child, ast.FunctionDef) and child.name == wanted:
            return child
    raise KernelError(f"`{wanted}` is not found in its own source", remedy="define it with `def`")


def source_of(function: FunctionType) -> Source:
    """The source of a function, parsed once per code object."""
    return _of_code(function.__code__)
