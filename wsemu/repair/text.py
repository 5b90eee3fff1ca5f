"""A source file to be edited: its syntax tree, and its text by byte positions."""

from __future__ import annotations

import ast
from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING, Any

from wsemu.model.cure import Change
from wsemu.model.data import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Function = ast.FunctionDef
_BODIES = ("body", "orelse", "finalbody")


class Piece(NamedTuple):
    """The bytes of a file from `start` to before `end`, and their replacement."""

    start: int
    end: int
    text: str


class Value(NamedTuple):
    """The value of a name at the top of a file."""

    statement: ast.Assign
    node: ast.expr
    """its part of the statement"""


class Text:
    """A file in its original form or after an edit.  Raise SyntaxError if it is not Python."""

    def __init__(self, file: str, source: str, tree: ast.Module | None = None) -> None:
        self.file = file
        self.source = source
        self.data = source.encode()
        self.tree = tree or ast.parse(source)
        self.starts = [0]
        for line in self.data.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        """Return the parent of each node."""
        return {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}

    @cached_property
    def suites(self) -> dict[ast.stmt, list[ast.stmt]]:
        """Return the list of statements that contains each statement."""
        found = {}
        for node in ast.walk(self.tree):
            for name in _BODIES:
                suite = getattr(node, name, None)
                if isinstance(suite, list):
                    found.update(dict.fromkeys((part for part in suite if isinstance(part, ast.stmt)), suite))
        return found

    @cached_property
    def constant_values(self) -> dict[str, Value]:
        """Return the names that exactly one statement, at the top of the file, assigns, with their values."""
        found: dict[str, Value] = {}
        names = (n for n in ast.walk(self.tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
        given = Counter(name.id for name in names)
        for statement in self.tree.body:
            if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
                target, value = statement.targets[0], statement.value
                pairs = [(target, value)]
                if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                    pairs = [*zip(target.elts, value.elts, strict=False)]
                found |= {name.id: Value(statement, node) for name, node in pairs if isinstance(name, ast.Name)}
        return {name: value for name, value in found.items() if given[name] == 1}

    # -- places --------------------------------------------------------------------------------------------------------
    def span(self, node: Any) -> tuple[int, int]:
        """Return the byte range of a node."""
        first, last = self.starts[node.lineno - 1], self.starts[node.end_lineno - 1]
        return first + node.col_offset, last + node.end_col_offset

    def of(self, node: ast.AST) -> str:
        """Return the text of a node."""
        start, end = self.span(node)
        return self.data[start:end].decode()

    def lines(self, node: Any) -> tuple[int, int]:
        """Return the byte range of the whole lines of a statement."""
        return self.starts[node.lineno - 1], self.starts[node.end_lineno]

    def alone(self, statement: Any) -> bool:
        """Return whether a statement has its lines for itself, except for comments."""
        return self.leads(statement) and self.trails(statement)

    def leads(self, statement: Any) -> bool:
        """Return whether a statement is the first on its line, which does not continue the line above."""
        first = self.starts[statement.lineno - 1]
        return not self.indent(statement).strip() and not self.data[:first].endswith((b"\\\n", b"\\\r\n"))

    def trails(self, statement: Any) -> bool:
        """Return whether a statement is the last on its line, except for comments."""
        after = self.data[self.span(statement)[1] : self.lines(statement)[1]].strip()
        return not after or after.startswith(b"#")

    def indent(self, statement: Any) -> str:
        """Return the blanks before a statement."""
        start, _ = self.span(statement)
        return self.data[self.starts[statement.lineno - 1] : start].decode()

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield the ancestors of a node, innermost first."""
        owner = self.parents.get(node)
        while owner is not None:
            yield owner
            owner = self.parents.get(owner)

    def statement(self, node: ast.AST) -> ast.stmt | None:
        """Return the innermost statement that contains a node."""
        found: ast.AST | None = node
        while found is not None and not isinstance(found, ast.stmt):
            found = self.parents.get(found)
        return found

    def functions(self) -> Iterator[Function]:
        """Return all functions, in the order of the tree."""
        return (node for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef))

    def outermost(self, line: int) -> Function | None:
        """Return the outermost function around a line."""
        return next((f for f in self.functions() if f.lineno <= line <= (f.end_lineno or 0)), None)

    def innermost(self, line: int) -> Function | None:
        """Return the innermost function around a line."""
        around = [f for f in self.functions() if f.lineno <= line <= (f.end_lineno or 0)]
        return max(around, key=lambda f: f.lineno, default=None)

    def at(self, line: int) -> ast.stmt | None:
        """Return the innermost statement around a line."""
        found: ast.stmt | None = None
        for node in ast.walk(self.tree):
            if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or 0):
                found = node
        return found

    # -- edits ---------------------------------------------------------------------------------------------------------
    def replace_pieces(self, pieces: Iterable[Piece]) -> str:
        """Return the source with replaced pieces.  Raise ValueError if they overlap."""
        data, before = self.data, len(self.data) + 1
        for piece in sorted(pieces, reverse=True):
            if piece.end > before:
                raise ValueError("two edits of one place")
            before = piece.start
            data = data[: piece.start] + piece.text.encode() + data[piece.end :]
        return data.decode()

    def change(self, piece: Piece) -> Change:
        """Return a piece given by lines and columns."""
        (line, column), (end_line, end_column) = self._place(piece.start), self._place(piece.end)
        return Change(
            file=self.file, line=line, column=column, end_line=end_line, end_column=end_column, text=piece.text
        )

    def _place(self, at: int) -> tuple[int, int]:
        line = next(n for n in range(len(self.starts) - 1, -1, -1) if self.starts[n] <= at)
        return line + 1, at - self.starts[line] + 1
