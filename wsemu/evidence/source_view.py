"""The source text at a location: the element that an access names, and the loops and branches around it.

Explanations of findings read it from the file of a span, without the front end.  If the file is missing or was edited,
nothing is known or shown.
"""

from __future__ import annotations

import ast
import functools
import linecache
import operator
import re
from typing import TYPE_CHECKING

from wsemu.evidence.cuda_calls import Text
from wsemu.language import cuda_names as cuda
from wsemu.model.data import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wsemu.model.program import Span

_ARITHMETIC: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}
_CONDITIONAL = (ast.If, ast.While, ast.IfExp, ast.BoolOp, ast.Try, ast.Match, ast.comprehension, ast.AsyncFor)
CUDA = (".cu", ".cuh", ".h", ".hpp", ".cpp", ".cc", ".inl")
"""file suffixes of C++ sources"""
_NAME = re.compile(r"\w+(?:\s*(?:\.|->)\s*\w+)*")
"""a variable, or a member of one"""
_MEMBER = re.compile(r"\s*(?:\.|->)\s*\w+")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@dataclass(frozen=True, slots=True)
class Loop:
    """A `for` loop over a `range`.  Values that are not constants in the source are None."""

    name: str
    """the loop variable, or an empty text if the body changes it or it is called `_`"""
    start: int | None = None
    step: int | None = None
    trips: int | None = None


def iteration(loops: list[Loop], execution: int) -> str:
    """Return a text such as `i=2, j=0` for the n-th execution (from 0) of a statement that runs once in each iteration.

    It is empty if the iteration is unknown, or there is no loop.
    """
    values: list[str] = []
    for depth, loop in reversed(list(enumerate(loops))):
        count = execution
        if depth:
            if not loop.trips:
                return ""
            execution, count = divmod(execution, loop.trips)
        if not loop.name or loop.start is None or loop.step is None:
            return f"{ordinal(count)} iteration" if len(loops) == 1 else ""
        values.insert(0, f"{loop.name}={loop.start + count * loop.step}")
    return ", ".join(values)


def ordinal(count: int) -> str:
    """Return `1st` for 0, `2nd` for 1."""
    number = count + 1
    suffix = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{suffix}"


class SourceView:
    """The syntax tree of one file, queried by spans."""

    knows_shapes = True
    """true if arrays know their extents, so that an index can be checked against them"""
    knows_statements = True
    """loops and branches are known"""

    def __init__(self, text: str) -> None:
        self._whole = text
        self.lines = text.split("\n")
        self._values: dict[tuple[str, ast.AST], int | None] = {}

    @functools.cached_property
    def tree(self) -> ast.Module:
        """Return the syntax tree, which is empty for text that is not Python."""
        try:
            return ast.parse(self._whole)
        except (SyntaxError, ValueError, RecursionError):
            return ast.parse("")

    @property
    def has_addresses(self) -> bool:
        """Return whether the source is PTX, or C++ that was compiled to PTX, and not Python."""
        return not self.tree.body

    @functools.cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        """Return the parent of each node."""
        return {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}

    @functools.cached_property
    def _nodes(self) -> dict[tuple[int, int, int | None, int | None], ast.AST]:
        """Return the nodes by their spans.  Parents come before their children, so the innermost node with a span is
        returned for it."""
        return {
            (node.lineno, node.col_offset, node.end_lineno, node.end_col_offset): node
            for node in self.parents
            if isinstance(node, (ast.expr, ast.stmt))
        }

    @functools.cached_property
    def _functions(self) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
        functions = (ast.FunctionDef, ast.AsyncFunctionDef)
        return [node for node in ast.walk(self.tree) if isinstance(node, functions)]  # breadth first

    def has_asm(self, line: int) -> bool:
        """Return whether a line is a part of an `asm` statement."""
        return False

    def wraps_asm(self, line: int) -> bool:
        """Return whether the function around a line is an `asm` statement, and declarations, and nothing else."""
        return False

    def node(self, span: Span) -> ast.AST | None:
        """Return the innermost node that is exactly at a span."""
        return self._nodes.get((span.line, span.column, span.end_line, span.end_column))

    def ancestors(self, span: Span) -> Iterator[ast.AST]:
        """Yield the nodes from the one at a span up to its function."""
        node = self.node(span)
        while node is not None and not isinstance(node, _FUNCTIONS):
            yield node
            node = self.parents.get(node)

    def function(self, span: Span) -> str:
        """Return the name of the function around a span, or an empty text."""
        node = self.node(span)
        while node is not None and not isinstance(node, _FUNCTIONS):
            node = self.parents.get(node)
        return getattr(node, "name", "")

    def outermost(self, line: int) -> tuple[str, int, int] | None:
        """Return the outermost function around a line: its name with that of its class, its first line with decorators,
        and its last line."""
        for node in self._functions:
            first = min(at.lineno for at in (node, *node.decorator_list))
            if first <= line <= (node.end_lineno or first):
                owner = self.parents.get(node)
                name = f"{owner.name}.{node.name}" if isinstance(owner, ast.ClassDef) else node.name
                return name, first, node.end_lineno or first
        return None

    def access(self, span: Span) -> str:
        """Return the element that an access names, such as `tile[s, lane]`, or an empty text if the source has no such
        expression."""
        base, parts = self.indices(span)
        return f"{base}[{', '.join(parts)}]" if parts else ""

    def indices(self, span: Span) -> tuple[str, list[str]]:
        """Return the array that an access names, and its index in each dimension: `tile`, [`s`, `lane`]."""
        node = self.node(span)
        if isinstance(node, ast.Subscript):
            base, index = node.value, node.slice
        elif isinstance(node, ast.Call) and len(node.args) > 1 and _takes_index(node):
            base, index = node.args[:2]
        else:
            return "", []
        parts = index.elts if isinstance(index, ast.Tuple) else [index]
        return self._text(base), [self._text(part) for part in parts]

    def counts_bytes(self, span: Span) -> bool:
        """Return whether an access has a distance in bytes instead of an index: `ptx.ld_bytes`, `ptx.st_bytes`, and all
        of PTX."""
        node = self.node(span)
        return self.has_addresses or (isinstance(node, ast.Call) and _callee_name(node) in ("ld_bytes", "st_bytes"))

    def byte_offset(self, span: Span) -> tuple[str, str]:
        """Return the array that `ptx.ld_bytes` or `ptx.st_bytes` names at a span, and the offset.  Both are empty for
        other accesses."""
        node = self.node(span)
        if not isinstance(node, ast.Call) or len(node.args) < 2:
            return "", ""
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        return (self._text(node.args[0]), self._text(node.args[1])) if name in ("ld_bytes", "st_bytes") else ("", "")

    def text(self, span: Span) -> str:
        """Return the expression at a span as written, or ``."""
        node = self.node(span)
        return self._text(node) if isinstance(node, ast.expr) else ""

    def _text(self, node: ast.expr) -> str:
        if node.lineno != node.end_lineno:
            return ast.unparse(node)
        return self.lines[node.lineno - 1].encode()[node.col_offset : node.end_col_offset].decode()

    def statement(self, span: Span) -> ast.stmt | None:
        """Return the statement around a span."""
        return next((node for node in self.ancestors(span) if isinstance(node, ast.stmt)), None)

    def apart(self, span: Span, other: Span) -> bool:
        """Return whether two locations are in different branches of one `if`."""
        branches = dict(self._branches(other))
        return any(branches.get(node, branch) != branch for node, branch in self._branches(span))

    def is_in_other_branch(self, span: Span, other: Span) -> bool:
        """Return whether a location is in a branch that does not contain another one."""
        return not {*self._branches(span)} <= {*self._branches(other)}

    def leaves(self, span: Span, other: Span) -> bool:
        """Return whether a `return` follows a location, in a branch around it that does not contain another
        location."""
        beside = {*self._branches(other)}
        below: ast.AST | None = None
        inside = {node for node, branch in self._branches(span) if (node, branch) not in beside}
        for node in self.ancestors(span):
            if node in inside and isinstance(node, ast.If):
                block = node.body if below in node.body else node.orelse
                after = block[next(n for n, statement in enumerate(block) if statement is below) + 1 :]
                if any(isinstance(n, ast.Return) for statement in after for n in ast.walk(statement)):
                    return True
            below = node
        return False

    def _branches(self, span: Span) -> Iterator[tuple[ast.AST, bool]]:
        below: ast.AST | None = None
        for node in self.ancestors(span):
            if isinstance(node, ast.If) and below is not node.test and below is not None:
                yield node, below in node.body
            below = node

    def share_a_loop(self, span: Span, other: Span) -> bool:
        """Return whether two locations are in one loop."""
        around = {node for node in self.ancestors(span) if isinstance(node, (ast.For, ast.While))}
        return any(node in around for node in self.ancestors(other))

    def parts(self, between: Span, first: Span, second: Span) -> bool:
        """Return whether every path from `first` to the next run of `second` leads through `between`."""
        around, one, two = (
            [node for node in self.ancestors(span) if isinstance(node, (*_CONDITIONAL, ast.For))]
            for span in (between, first, second)
        )
        if not {*around} <= {*one, *two} or self.apart(between, first) or self.apart(between, second):
            return False
        here, start, end = ((span.line, span.column) for span in (between, first, second))
        if start < end:
            return start < here < end
        loop = next((node for node in one if node in two and isinstance(node, (ast.For, ast.While))), None)
        return loop in around and not end <= here <= start

    def loops(self, span: Span) -> list[Loop] | None:
        """Return the loops around a location, outermost first, or None if it may not run exactly once in each
        iteration."""
        found: list[Loop] = []
        conditional = False
        below: ast.AST | None = None
        for node in self.ancestors(span):
            if isinstance(node, ast.For) and below is not node.iter and below not in node.orelse:
                if conditional or any(isinstance(n, (ast.Break, ast.Continue)) for n in ast.walk(node)):
                    return None
                if not _is_range(node.iter):  # the front end unrolls it
                    return None
                found.insert(0, self._loop(node))
            elif isinstance(node, (ast.While, ast.comprehension)):
                return None
            conditional |= isinstance(node, _CONDITIONAL) and below is not getattr(node, "test", None)
            below = node
        return found if below is not None else None

    def _loop(self, node: ast.For) -> Loop:
        call, target = node.iter, node.target
        name = target.id if isinstance(target, ast.Name) and target.id != "_" else ""
        if any(_sets(n, name) and n is not target for n in ast.walk(node)):
            name = ""
        values = [self._constant(argument, node) for argument in call.args] if isinstance(call, ast.Call) else [None]
        values = [0, *values] if len(values) == 1 else values
        start, stop, step = (*values, 1)[:3]
        trips = None if start is None or stop is None or not step else len(range(start, stop, step))
        return Loop(name, start, step, trips)

    def _constant(self, node: ast.AST, where: ast.AST) -> int | None:
        """Return the value of an expression of integers and of names that the module assigns once."""
        if isinstance(node, ast.Constant):
            return node.value if type(node.value) is int else None
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            value = self._constant(node.operand, where)
            return None if value is None else -value
        if isinstance(node, ast.BinOp):
            left, right = self._constant(node.left, where), self._constant(node.right, where)
            operation = _ARITHMETIC.get(type(node.op))
            return None if left is None or right is None or operation is None else operation(left, right)
        return self._constant_value(node.id, where) if isinstance(node, ast.Name) else None

    def _constant_value(self, name: str, where: ast.AST) -> int | None:
        """Return the value of a name that the function around `where`, or else the module, assigns once at its top
        level."""
        scope = where
        while not isinstance(scope, (*_FUNCTIONS, ast.Module)):
            scope = self.parents[scope]
        if (name, scope) not in self._values:
            self._values[name, scope] = self._set_once(name, scope)
        return self._values[name, scope]

    def _set_once(self, name: str, scope: ast.AST) -> int | None:
        """Return the value of a name that is assigned once in a function or in the module."""
        if isinstance(scope, _FUNCTIONS):
            if any(isinstance(n, ast.arg) and n.arg == name for n in ast.walk(scope)):
                return None
            if not any(_sets(n, name) for n in ast.walk(scope)):
                scope = self.tree
        set_at = [n for n in self._scope(scope) if _sets(n, name)]
        statement = self.parents[set_at[0]] if len(set_at) == 1 else None
        if not isinstance(statement, ast.Assign) or self.parents[statement] is not scope:
            return None
        return self._constant(statement.value, statement)

    def _scope(self, scope: ast.AST) -> Iterator[ast.AST]:
        """Yield the nodes of a function or module, without those of the functions inside it."""
        for child in ast.iter_child_nodes(scope):
            yield child
            if not isinstance(child, _FUNCTIONS):
                yield from self._scope(child)


class CudaView(SourceView):
    """A file in CUDA C++: spans that are expressions are known as such, but statements are not."""

    knows_shapes = False
    knows_statements = False

    def __init__(self, text: str) -> None:
        super().__init__("")
        self.lines = text.split("\n")
        self._scanned = Text(text)

    def has_asm(self, line: int) -> bool:
        """Return whether a line is a part of an `asm` statement."""
        return bool(self._scanned.statement_of_asm(line))

    def wraps_asm(self, line: int) -> bool:
        """Return whether the function around a line is an `asm` statement, and declarations, and nothing else."""
        return self._scanned.wraps_asm(line)

    def indices(self, span: Span) -> tuple[str, list[str]]:
        """Return the array and the indices of an element: `s.tile` and [`i`, `lane`] for `s.tile[i][lane]`."""
        base, parts, _ = _split_element(self._read_span(span))
        return (base, parts) if parts else ("", [])

    def access(self, span: Span) -> str:
        """Return the element or member that a span names, as written."""
        text = self._read_span(span)
        base, parts, whole = _split_element(text)
        if not whole:
            return ""
        if parts:
            return f"{base}[{']['.join(parts)}]"
        return "" if text.isidentifier() else text

    def _read_span(self, span: Span) -> str:
        return self.lines[span.line - 1][span.column : span.end_column] if span.line <= len(self.lines) else ""


def _split_element(text: str) -> tuple[str, list[str], bool]:
    """Split `s.tile[i][lane]` into `s.tile` and the indices after it.  Also return whether the text is exactly an
    element or a member."""
    match = _NAME.match(text)
    if match is None:
        return "", [], False
    parts: list[str] = []
    end = base_end = match.end()
    while end < len(text):
        if member := _MEMBER.match(text, end):
            end, parts, base_end = member.end(), [], member.end()
            continue
        begin = end + len(text[end:]) - len(text[end:].lstrip())
        close = _matching_bracket(text, begin)
        if not close:
            return "", [], False
        parts.append(text[begin + 1 : close].strip())
        end = close + 1
    return text[:base_end], parts, True


def _matching_bracket(text: str, at: int) -> int:
    """Return the index of the bracket that closes the one at an index; 0 if there is none, or it is not closed."""
    depth = 0
    for index in range(at, len(text)):
        depth += (text[index] == "[") - (text[index] == "]")
        if not depth:
            return index if index > at else 0
    return 0


def view(file: str) -> SourceView:
    """Return the view of a file as `linecache` has it; it is empty if the file is not available."""
    return (_cuda if file.endswith(CUDA) else _view)("".join(linecache.getlines(file)))


_view = functools.lru_cache(maxsize=32)(SourceView)
_cuda = functools.lru_cache(maxsize=32)(CudaView)


def _is_range(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and getattr(node.func, "id", "") == "range" and 1 <= len(node.args) <= 3


def _sets(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, (ast.Store, ast.Del))


def _callee_name(call: ast.Call) -> str:
    name: str = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    return name


def _takes_index(call: ast.Call) -> bool:
    """Return whether the first arguments of a call are an array and an index, as in `cuda.atomic.add(hist, bin, 1)` and
    `ptx.ld_v4(x, i)`.  This excludes the byte offset of `ptx.ld_bytes`, and transfers of patterns."""
    name = _callee_name(call)
    return isinstance(call.args[0], ast.Name) and (_is_ptx_access(name) or name in dir(cuda.atomic) or name in _CACHED)


def _is_ptx_access(name: str) -> bool:
    """Return whether a call is an access of `wsemu.ptx` by an index."""
    if not name.startswith(("ld_", "st_")) or name.endswith("_bytes"):
        return False
    from wsemu.language import ptx_names as ptx  # few kernels have them

    return hasattr(ptx, name)


_CACHED = ("ldca", "ldcg", "ldcs", "ldlu", "ldcv", "stcg", "stcs", "stwb", "stwt")
"""`cuda.ldcg(x, i)`, `cuda.stcs(y, i, value)`"""
