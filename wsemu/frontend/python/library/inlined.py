"""Library functions that are inlined at their calls: those of `written`, and reductions of arrays."""

from __future__ import annotations

import ast
import copy
import functools
import textwrap
from typing import TYPE_CHECKING, Any

from wsemu.frontend.python.frames import Frame
from wsemu.frontend.python.source import Source, find_source
from wsemu.frontend.python.syntax import assigned_names

if TYPE_CHECKING:
    from wsemu.frontend.python.values import Value


def inline_function(call: Any, function: Any, *args: Value) -> Value:
    """Return the value of a function of `written` for these arguments."""
    body = find_source(function).node
    names = function.__code__.co_varnames
    return walk_body(call, body, frozenset(names), function.__globals__, dict(zip(names, args, strict=False)))


def walk_body(call: Any, body: Any, assigned: frozenset[str], space: dict[str, Any], env: dict[str, Value]) -> Value:
    """Return the value of a function body that looks up names in `space`, with these initial variables."""
    walker = call.walker
    node = walker.node
    placed = copy.deepcopy(body)
    for part in ast.walk(placed):
        ast.copy_location(part, node)
    frame = Frame(Source(walker.frame.source.file, placed), space, {}, assigned, None)
    made: Value = walker.enter(frame, env, placed, None)
    return made


@functools.lru_cache(maxsize=256)
def over_elements(text: str, ndim: int) -> tuple[ast.FunctionDef, frozenset[str]]:
    """Return a text of `reductions` as a function of an array with this number of dimensions, and the names of its
    variables."""
    indices = [f"i{axis}" for axis in range(ndim)]
    text = text.replace("{first}", ", ".join("0" for _ in indices) or "()")
    tree = ast.parse("def reduction(x):\n" + textwrap.indent(text, "  "))
    made = _Elements(indices).visit(tree).body[0]
    assert isinstance(made, ast.FunctionDef)
    return made, frozenset(("x", "value", *indices, *assigned_names(made)))


class _Elements(ast.NodeTransformer):
    """Turns loops over `elements` into loops over the dimensions of `x`."""

    def __init__(self, indices: list[str]) -> None:
        self.indices = indices

    def visit_For(self, node: ast.For) -> Any:
        lines = [f"{' ' * n}for {i} in range(x.shape[{n}]):" for n, i in enumerate(self.indices)] or [
            "for _ in range(1):"
        ]
        lines.append(f"{' ' * len(lines)}value = x[{', '.join(self.indices) or '()'}]")
        outer = inner = ast.parse("\n".join(lines)).body[0]
        while isinstance(inner, ast.For) and isinstance(inner.body[0], ast.For):
            inner = inner.body[0]
        assert isinstance(inner, ast.For)
        inner.body += node.body
        return outer
