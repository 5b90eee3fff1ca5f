"""Mutations of a source file, one location at a time: the inverse of the edits that fix kernels.

A mutation replaces the text of one node of the syntax tree, or of a few statements.  In kernels (`kernel_mutations`) it
removes or weakens synchronization, moves it by a statement, and drops conditions and atomics.  It also changes integers
that give positions or counts: indices and slices, the limits of `range`, comparisons, arguments of synchronization
objects, sizes of shared arrays, and assignments of these through a local variable.  In a pattern (`pattern_mutations`),
every integer is changed.  In a program (`program_mutations`), these are the integers of kernels and, on the host, the
parameters of transfer patterns and the shapes of launches.
"""

from __future__ import annotations

import ast
import tokenize
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from wsemu.model.data import dataclass
from wsemu.repair.scene import FENCES, SYNCHRONISES, leaves, synchronises
from wsemu.repair.text import Text
from wsemu.repair.values import PARAMETERS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

KINDS = ("barrier", "id", "count", "stride", "offset", "bound")
"""kinds of mutations of kernels and patterns

barrier      a call that synchronizes is deleted, or a sync becomes an arrive, or an arrive a sync
id, count    the id or count of a barrier, or of the object that contains the barrier, is changed
stride       a factor, a divisor, a step or a distance is changed
offset       an added number or a starting position is changed
bound        the limits of a range, a comparison, a condition or a size are changed"""
OF_KERNELS = (*KINDS, "wait", "fence", "scope", "order", "phase", "atomic", "guard", "swap")
"""kinds of mutations that only kernels have

wait         a call that waits, arrives or commits is deleted: for phases, copies, pipelines
fence        a fence is deleted
scope        the scope of a barrier shrinks from the CTA to the warp, or that of a fence to the CTA
order        a call that synchronizes is exchanged with the statement before or after it
phase        a wait is for another parity, more groups may be in flight, or other byte counts are expected
atomic       an update is no longer atomic
guard        a guarded statement is executed unconditionally
swap         two indices are exchanged"""
SYNCHRONISING = frozenset(("barrier", "wait", "fence", "scope", "order", "atomic"))
"""kinds that only weaken the order of accesses"""

_SYNC = {"bar_sync": "bar_arrive", "bar_arrive": "bar_sync", "barrier_sync": "barrier_arrive"}
_TRANSFERS = {"execute_dma", "wait_xfer_finish"}
"""calls that synchronize and transfer"""
_BARRIERS = (
    {"syncthreads", "syncwarp", "start_async_dma", "wait_for_dma_finish", "wait_for_dma_start", "finish_async_dma"}
    | {"start", "finish"}
    | set(_SYNC)
    | _TRANSFERS
)
_OF_TILES = _TRANSFERS | {"start_async_dma", "wait_for_dma_finish", "buffer"}
"""calls of `Buffers`, whose first arguments are the number of the tile and the number of tiles"""
_PATTERNS = {"CudaDMA", "CudaDMASequential", "CudaDMAStrided", "CudaDMAIndirect", "CudaDMAHalo"}
_BUFFERS = {"Buffers"}
_BOUNDARY: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
}  # fmt: skip
_SWAPPED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.BitXor: ast.BitOr,
    ast.LShift: ast.RShift, ast.RShift: ast.LShift,
}  # fmt: skip
_WARPS = ("threads", "first_dma_thread", "first_compute_thread", "count")
_BYTES = ("stride", "pitch", "bytes", "left", "right", "flank", "row", "corner", "offset")
_NO_NUMBERS = ("pattern", "array", "index", "specialized", "load", "store", "corners", "scatter", "indexed")
_SYMBOLS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//", ast.Mod: "%", ast.BitAnd: "&", ast.BitOr: "|",
    ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
    ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip


@dataclass(frozen=True)
class Mutation:
    """One change of one file."""

    file: Path
    line: int
    kind: str
    """kind of the mutation, from OF_KERNELS"""
    function: str
    """enclosing function: `Copy.locate`, or `` at the top of the file"""
    before: str
    """the source lines around the mutation, as one line"""
    after: str
    start: int
    """bytes of the file that are replaced"""
    end: int
    text: str

    def apply_to(self, source: str) -> str:
        """Return the text of the file with the mutation."""
        data = source.encode()
        return (data[: self.start] + self.text.encode() + data[self.end :]).decode()

    def source(self) -> str:
        """Return the whole file with the mutation, read from its path."""
        return self.apply_to(_read(self.file))

    def __str__(self) -> str:
        return f"{self.file.parent.name}/{self.file.name}:{self.line}: {self.before}  ->  {self.after}"


def _read(path: Path) -> str:
    """Return the text of a Python file, in the encoding that it declares."""
    with tokenize.open(path) as stream:
        return stream.read()


class File:
    """The mutations of a file, in its order."""

    def __init__(self, path: Path, text: Text | None = None) -> None:
        self.path = path
        self.whole = text or Text(str(path), _read(path))
        self.tree, self.owners = self.whole.tree, self.whole.parents
        self.found: dict[tuple[int, int, str], Mutation] = {}
        self.inside = ""

    def text(self, node: ast.AST) -> str:
        return self.whole.of(node)

    def put(self, kind: str, node: Any, text: str) -> None:
        """Record that `text` may replace a node."""
        start, end = self.whole.span(node)
        self.add_at(kind, start, end, text, node.lineno, node.end_lineno)

    def add_at(self, kind: str, start: int, end: int, text: str, line: int, last: int) -> None:
        """Record that `text` may replace these bytes."""
        data = self.whole.data
        if text == data[start:end].decode() or (start, end, text) in self.found:
            return
        above, below = self.whole.starts[line - 1], self.whole.starts[last]
        whole = [data[above:below], data[above:start] + text.encode() + data[end:below]]
        before, after = (" ".join(part.strip() for part in some.decode().splitlines()) for some in whole)
        self.found[start, end, text] = Mutation(self.path, line, kind, self.inside, before, after, start, end, text)

    def mutations(self) -> list[Mutation]:
        return [self.found[key] for key in sorted(self.found)]

    # -- operators -----------------------------------------------------------------------------------------------------
    def more(self, kind: str, node: ast.expr, by: int = 1, signs: str = "+-") -> None:
        """Record `node + by` and `node - by`."""
        for sign in signs:
            if isinstance(node, ast.Constant):
                if type(node.value) is int:
                    self.put(kind, node, str(node.value + by if sign == "+" else node.value - by))
            else:
                self.put(kind, node, f"({self.text(node)} {sign} {by})")

    def barrier_call(self, statement: ast.stmt) -> None:
        """Record the removal of a barrier call, and the exchange of a wait for an arrive or the reverse."""
        if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
            return
        call = statement.value
        name = callee_name(call)
        if name not in _BARRIERS:
            return
        self.put("barrier", statement, "pass")
        if name in _SYNC and len(call.args) > 1 and isinstance(call.func, ast.Attribute):
            self.put("barrier", call.func, self.text(call.func).replace(name, _SYNC[name]))
        # a method of an object; a method of `Buffers` also takes the number of the tile
        if name == "execute_dma" and len(call.args) < 4:
            self.put("barrier", call.func, f"{self.text(call.func)}_no_sync")

    def barrier_arguments(self, call: ast.Call) -> None:
        if callee_name(call) in _SYNC and call.args:
            self.integer("id", call.args[0])
            self.more("id", call.args[0])
            for count in call.args[1:2]:
                self.integer("count", count)
                self.more("count", count, 32)

    def integer(self, kind: str, node: ast.AST) -> None:
        """Record other operators and constants in an integer expression."""
        if isinstance(node, ast.BinOp):
            self.operator(kind, node)
            self.integer(kind, node.left)
            self.integer(kind, node.right)
        elif isinstance(node, ast.UnaryOp):
            if isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant):
                self.put(kind, node, self.text(node.operand))
            self.integer(kind, node.operand)
        elif isinstance(node, ast.Constant) and type(node.value) is int:
            self.more(self.part(kind, node), node)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            self.attribute(kind, node)
        elif isinstance(node, ast.IfExp):
            self.condition(node.test)
            self.integer(kind, node.body)
            self.integer(kind, node.orelse)
        elif isinstance(node, ast.Compare):
            self.comparison(node)
        elif isinstance(node, (ast.Tuple, ast.Starred)):
            for child in ast.iter_child_nodes(node):
                self.integer(kind, child)

    def part(self, kind: str, node: ast.AST) -> str:
        """Record mutations of a part of an expression.  A factor or divisor is a stride and a summand an offset, unless
        the whole expression belongs to a barrier."""
        owner = self.owners.get(node)
        if kind in ("id", "count") or not isinstance(owner, ast.BinOp):
            return kind
        return "stride" if isinstance(owner.op, (ast.Mult, ast.FloorDiv, ast.Mod)) else "offset"

    def operator(self, kind: str, node: ast.BinOp) -> None:
        """Record `a + b` -> `a - b`, `a * b` -> `a * (b + 1)`, `a & b` -> `a | b`."""
        left, right = self.text(node.left), self.text(node.right)
        own = kind if kind in ("id", "count") else "stride"
        if type(node.op) in _SWAPPED:
            own = kind if kind in ("id", "count") else "offset"
            swapped = _SYMBOLS[_SWAPPED[type(node.op)]]
            self.put(own, node, f"({self._parenthesize(node.left)} {swapped} {self._parenthesize(node.right)})")
        elif isinstance(node.op, (ast.Mult, ast.FloorDiv, ast.Mod)) and not isinstance(node.right, ast.Constant):
            symbol = _SYMBOLS[type(node.op)]
            if isinstance(node.op, ast.Mult) and isinstance(node.left, ast.Constant):
                return  # the constant is changed
            if isinstance(node.right, ast.Attribute) and node.right.attr.endswith(_BYTES + _WARPS):
                return  # the attribute is
            left = self._parenthesize(node.left) if isinstance(node.left, ast.BinOp) else left
            self.put(own, node, f"{left} {symbol} ({right} + 1)")

    def _parenthesize(self, node: ast.expr) -> str:
        """Return the text of an operand, in parentheses if it is more than a name."""
        simple = (ast.Name, ast.Constant, ast.Attribute, ast.Call, ast.Subscript)
        return self.text(node) if isinstance(node, simple) else f"({self.text(node)})"

    def attribute(self, kind: str, node: ast.Attribute) -> None:
        """Record `self.src_stride` -> `(self.src_stride + 4)`: a change by bytes, by warps, or by one."""
        assert isinstance(node.value, ast.Name)
        name = node.attr
        if name in _NO_NUMBERS or node.value.id in ("cuda", "np", "ptx") or name.startswith("_"):
            return
        if name.isupper() and node.value.id == "rules":
            return  # the value is changed at its definition
        by = 4 if name.endswith(_BYTES) else 32 if name.endswith(_WARPS) else 1
        if kind not in ("id", "count"):
            kind = "stride" if name.endswith(("stride", "pitch")) else kind if kind != "bound" else "bound"
        self.more(kind, node, by, "+")

    def comparison(self, node: ast.Compare) -> None:
        """Record `a < b` -> `a <= b`, for each operator separately."""
        operands = [node.left, *node.comparators]
        for n, (one, other) in enumerate(pairwise(operands)):
            changed = _BOUNDARY.get(type(node.ops[n]))
            if changed:
                place = ast.copy_location(ast.Pass(), one)
                place.lineno, place.col_offset = one.end_lineno or 0, one.end_col_offset or 0
                place.end_lineno, place.end_col_offset = other.lineno, other.col_offset
                between = self.text(place)
                symbol = _SYMBOLS[type(node.ops[n])]
                if symbol in between:
                    self.put("bound", place, between.replace(symbol, _SYMBOLS[changed]))
        for operand in operands:
            self.integer("bound", operand)

    def condition(self, node: ast.expr) -> None:
        """Record mutations of a test: its comparisons, each side of `and` and `or` alone, and a test that always
        holds."""
        if isinstance(node, ast.BoolOp):
            for value in node.values:
                self.put("bound", node, self.text(value))
                self.condition(value)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            self.condition(node.operand)
        elif isinstance(node, ast.Compare):
            self.comparison(node)
        else:
            self.integer("bound", node)

    def branch(self, node: ast.If | ast.IfExp) -> None:
        """Record a branch that is always taken, or never."""
        if not (isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"):
            self.put("bound", node.test, "True")
            self.put("bound", node.test, "False")

    def loop(self, call: ast.Call) -> None:
        """Record other limits and another step of a `range`."""
        stop = call.args[min(1, len(call.args) - 1)]
        for n, argument in enumerate(call.args):
            kind = "stride" if n == 2 else "bound" if argument is stop else "offset"
            self.integer(kind, argument)
            self.more(kind, argument, signs="+-" if argument is stop else "+")


def callee_name(call: ast.Call) -> str:
    """Return the last name of the called function."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Return all functions with their qualified names, including nested ones."""

    def within(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.FunctionDef]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef):
                yield prefix + child.name, child
                yield from within(child, f"{prefix}{child.name}.")
            elif isinstance(child, ast.ClassDef):
                yield from within(child, f"{prefix}{child.name}.")
            else:
                yield from within(child, prefix)

    return within(tree, "")


# -- patterns ----------------------------------------------------------------------------------------------------------
def pattern_mutations(path: Path) -> list[Mutation]:
    """Return the mutations of a file of `patterns`: all integers of its functions, and its constants."""
    file = File(path)
    for statement in ast.walk(file.tree):
        if isinstance(statement, (ast.Module, ast.ClassDef)):
            for child in statement.body:
                _constant(file, child)
    for name, function in functions(file.tree):
        file.inside = name
        for statement in function.body:
            _record_integers(file, statement)
    return file.mutations()


def _constant(file: File, statement: ast.stmt) -> None:
    """Record mutations of `WARP = 32`, `stages: int = 1`, `alignment: int = field(default=4)`."""
    if isinstance(statement, (ast.Assign, ast.AnnAssign)):
        value = statement.value
        if isinstance(value, ast.Call) and callee_name(value) == "field":
            value = next((k.value for k in value.keywords if k.arg == "default"), value)
        if value is not None and not (isinstance(value, ast.Constant) and value.value is True):
            file.integer("bound", value)


def _record_integers(file: File, node: ast.AST) -> None:
    """Record mutations of all integers in a node, except in messages."""
    if isinstance(node, (ast.JoinedStr, ast.ImportFrom, ast.FunctionDef)):
        return
    if isinstance(node, ast.If):
        file.branch(node)
        file.condition(node.test)
    if isinstance(node, ast.stmt):
        file.barrier_call(node)
    if isinstance(node, ast.Call):
        file.barrier_arguments(node)
        if callee_name(node) == "range":
            file.loop(node)
    if isinstance(node, (ast.BoolOp, ast.IfExp)):
        file.condition(node if isinstance(node, ast.BoolOp) else node.test)
    if isinstance(node, ast.Compare):
        file.comparison(node)
    stored = isinstance(getattr(node, "ctx", None), ast.Store)
    if isinstance(node, (ast.BinOp, ast.UnaryOp, ast.Constant, ast.Attribute)) and not stored:
        file.integer("offset", node)
    for child in ast.iter_child_nodes(node):
        if isinstance(node, ast.AnnAssign) and child is node.annotation:
            continue
        if isinstance(node, ast.Call) and child is node.func:
            child = getattr(child, "value", child)  # in `self.copy().run(...)`: the object of the method
            if not isinstance(child, ast.Call):
                continue
        _record_integers(file, child)


# -- programs ----------------------------------------------------------------------------------------------------------
def program_mutations(path: Path) -> list[Mutation]:
    """Return the mutations of a program: values from which its kernels compute addresses, trip counts and barriers, and
    values that the host passes to them."""
    file = File(path)
    everything = dict(functions(file.tree))
    kernels = {name: node for name, node in everything.items() if _is_kernel(node)}
    places = _index_names(kernels)
    for name, function in kernels.items():
        file.inside = name
        for statement in function.body:
            _kernel(file, statement, places, name)
    for name, node in {"": file.tree, **everything}.items():
        if name in kernels:
            continue
        file.inside = name
        for child in ast.walk(node):
            if isinstance(child, ast.Call) and not _is_nested(file, child, everything, node):
                _parameters(file, child)
                _launch(file, child)
    return file.mutations()


def _is_nested(file: File, node: ast.AST, everything: dict[str, ast.FunctionDef], outer: ast.AST) -> bool:
    """Return whether a node belongs to a function inside `outer`."""
    inner = set(everything.values()) - {outer}
    at: ast.AST | None = file.owners.get(node)
    while at is not None and at is not outer:
        if at in inner:
            return True
        at = file.owners.get(at)
    return False


def _is_kernel(function: ast.FunctionDef) -> bool:
    return any("jit" in ast.unparse(decorator) for decorator in function.decorator_list)


def _index_expressions(node: ast.AST, device: dict[str, set[int]]) -> Iterator[ast.expr]:
    """Yield the expressions below a node that determine a position or a count."""
    for child in ast.walk(node):
        if isinstance(child, ast.Subscript):
            yield from _indices(child.slice)
        elif isinstance(child, ast.Call):
            name = callee_name(child)
            if name == "range":
                yield from child.args
            elif name in _OF_TILES and (name not in _TRANSFERS or len(child.args) > 3):
                yield from child.args[:2]
            elif name.startswith(("ld_", "st_")) and len(child.args) > 1:
                yield from _indices(child.args[1])
            elif name in device:
                yield from (argument for n, argument in enumerate(child.args) if n in device[name])
        elif isinstance(child, ast.Compare):
            yield from (child.left, *child.comparators)


def _indices(node: ast.expr) -> Iterator[ast.expr]:
    for item in node.elts if isinstance(node, ast.Tuple) else [node]:
        if isinstance(item, ast.Slice):
            yield from (part for part in (item.lower, item.upper) if part is not None)
        else:
            yield item


class Places:
    """The variables that are indices: local names of each kernel, and parameters of each by number."""

    def __init__(self) -> None:
        self.names: dict[str, set[str]] = {}
        self.parameters: dict[str, set[int]] = {}
        self.returning: set[str] = set()
        """device functions whose result is an index"""

    def value(self, node: ast.AST, function: str) -> ast.expr | None:
        """Return the index expression of a statement: a local variable's value, or the function's result."""
        if isinstance(node, ast.Assign) and _targets(node) & self.names[function]:
            return node.value
        return node.value if isinstance(node, ast.Return) and function in self.returning else None


def _index_names(kernels: dict[str, ast.FunctionDef]) -> Places:
    """Return the fixed point of: a name is an index if an index is computed from it."""
    places = Places()
    places.names = {name: set() for name in kernels}
    size = -1
    while size != (size := sum(map(len, places.names.values())) + len(places.returning)):
        for name, function in kernels.items():
            own = places.names[name]
            used = list(_index_expressions(function, places.parameters))
            for statement in ast.walk(function):
                value = places.value(statement, name)
                if value is not None:
                    used.append(value)
            for expression in used:
                own |= {child.id for child in _plain_nodes(expression) if isinstance(child, ast.Name)}
                places.returning |= {callee_name(c) for c in _plain_nodes(expression) if isinstance(c, ast.Call)} & set(
                    kernels
                )
            parameters = [argument.arg for argument in function.args.args]
            places.parameters[name] = {n for n, parameter in enumerate(parameters) if parameter in own}
    return places


def _plain_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of an expression, without indexed objects and attributes."""
    yield node
    for child in ast.iter_child_nodes(node):
        if not isinstance(node, (ast.Subscript, ast.Attribute)) and not (
            isinstance(node, ast.Call) and child is node.func
        ):
            yield from _plain_nodes(child)


def _targets(statement: ast.Assign) -> set[str]:
    """Return the names that a statement assigns, without names that it only indexes."""
    nodes = (child for target in statement.targets for child in ast.walk(target))
    return {child.id for child in nodes if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store)}


def _kernel(file: File, statement: ast.stmt, places: Places, name: str) -> None:
    """Record the mutations of a statement of a kernel."""
    for node in ast.walk(statement):
        if isinstance(node, ast.stmt):
            file.barrier_call(node)
        if isinstance(node, (ast.If, ast.IfExp)):
            file.condition(node.test)
        elif (value := places.value(node, name)) is not None:
            file.integer("offset", value)
        elif isinstance(node, ast.Subscript):
            for index in _indices(node.slice):
                file.integer("offset", index)
                file.more("offset", index, signs="+")
        elif isinstance(node, ast.Call):
            _call(file, node, places)


def _call(file: File, call: ast.Call, places: Places) -> None:
    name = callee_name(call)
    file.barrier_arguments(call)
    _parameters(file, call)
    if name == "range":
        file.loop(call)
    elif name.startswith(("ld_", "st_")) and len(call.args) > 1:
        for index in _indices(call.args[1]):
            file.integer("offset", index)
            file.more("offset", index, signs="+")
    elif name == "array" and call.args:  # shared or local: one less
        for size in _indices(call.args[0]):
            if not (isinstance(size, ast.Constant) and size.value in (0, 1)):
                file.more("bound", size, signs="-")
    elif name in _OF_TILES and (name not in _TRANSFERS or len(call.args) > 3):
        for argument in call.args[:2]:
            file.integer("offset", argument)
            file.more("bound", argument, signs="+")
    elif name in places.parameters:
        for n in sorted(places.parameters[name]):
            if n < len(call.args) and not isinstance(call.args[n], ast.Starred):
                file.integer("offset", call.args[n])
                if isinstance(call.args[n], ast.Name):
                    file.more("offset", call.args[n], signs="+")


def _parameters(file: File, call: ast.Call) -> None:
    """Record mutations of the numbers of a transfer pattern: its id, its threads, and its sizes and strides."""
    name = callee_name(call)
    if name in _PATTERNS:
        words = {k.arg: k.value for k in call.keywords}
        alignment = words.get("alignment")
        unit = alignment.value if isinstance(alignment, ast.Constant) and type(alignment.value) is int else 4
        for n, argument in enumerate(call.args):
            kind = "id" if n == 0 else "count" if n < 4 else "stride"
            small = n in ((5, 6, 7) if name == "CudaDMAHalo" else (5,))  # elements, not bytes
            file.more(kind, argument, 1 if n == 0 or small else 32 if n < 4 else unit)
    elif name in _BUFFERS:
        for argument in [*call.args[1:], *(keyword.value for keyword in call.keywords)]:
            file.more("count", argument)
    elif name in ("double", "manual_double") and isinstance(call.func, ast.Attribute):
        other = {"double": "manual_double", "manual_double": "double"}[name]
        file.put("count", call.func, f"{file.text(call.func.value)}.{other}")


def _launch(file: File, call: ast.Call) -> None:
    """Record mutations of `kernel[grid, block](...)`."""
    if isinstance(call.func, ast.Subscript) and isinstance(call.func.slice, ast.Tuple):
        grid, block = call.func.slice.elts[:2]
        for extent in grid.elts if isinstance(grid, ast.Tuple) else [grid]:
            file.more("bound", extent)
        file.more("bound", block, 32)


# -- kernels -----------------------------------------------------------------------------------------------------------
_HINTS = frozenset("nanosleep setmaxnreg_inc setmaxnreg_dec".split())
"""calls whose loss shows in time alone"""
_WEAKER = {
    "syncthreads": "syncwarp", "threadfence": "threadfence_block", "threadfence_system": "threadfence",
}  # fmt: skip
_PLAIN = {"add": "{0} + {1}", "sub": "{0} - {1}", "max": "max({0}, {1})", "min": "min({0}, {1})",
          "and_": "{0} & {1}", "or_": "{0} | {1}", "xor": "{0} ^ {1}", "exch": "{1}"}  # fmt: skip
_PHASES = {"parity": "({} ^ 1)", "groups": "({} + 1)", "bytes": "(2 * {})", "count": "({} + 1)"}
"""replacement for each kind of argument"""


def kernel_mutations(path: Path, text: Text, functions: Iterable[ast.FunctionDef]) -> list[Mutation]:
    """Return the mutations of these functions of a file, which belong to kernels, without functions nested in them."""
    file = File(path, text)
    groups: list[dict[str, ast.FunctionDef]] = []
    for function in functions:  # several may have one name, in several tests
        group = next((known for known in groups if function.name not in known), None)
        if group is None:
            groups.append(group := {})
        group[function.name] = function
    for group in groups:
        _add_group(file, group)
    return file.mutations()


def _add_group(file: File, functions: dict[str, ast.FunctionDef]) -> None:
    places = _index_names(functions)
    for name, function in functions.items():
        file.inside = name
        inner = {n for f in ast.walk(function) if isinstance(f, ast.FunctionDef) and f is not function
                 for n in ast.walk(f)}  # fmt: skip
        for statement in function.body:
            if statement not in inner:
                _kernel(file, statement, places, name)
        for node in ast.walk(function):
            if isinstance(node, ast.stmt) and node is not function and node not in inner:
                _broken(file, node)


def _broken(file: File, statement: ast.stmt) -> None:
    """Record the mutations that only statements of kernels have."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        _synchronising(file, statement, statement.value)
    if isinstance(statement, (ast.Expr, ast.Assign)) and isinstance(statement.value, ast.Call):
        _atomic(file, statement, statement.value)
    if isinstance(statement, ast.While) and _polls(statement.test):
        file.put("wait", statement, "pass")
    if isinstance(statement, ast.If) and not statement.orelse:
        file.put("guard", statement.test, "False" if leaves(statement) else "True")
    for node in _own_nodes(statement):
        if isinstance(node, ast.Call):
            _phases(file, node)
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple) and len(node.slice.elts) == 2:
            one, other = map(file.text, node.slice.elts)
            file.put("swap", node.slice, f"({other}, {one})" if file.text(node.slice)[0] == "(" else f"{other}, {one}")


def _own_nodes(statement: ast.stmt) -> Iterator[ast.AST]:
    """Yield the nodes of a statement, without the nodes of nested statements."""
    pending: list[ast.AST] = [statement]
    while pending:
        node = pending.pop()
        yield node
        pending += [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt)]


def _polls(test: ast.expr) -> bool:
    return any(isinstance(n, ast.Call) and "_wait" in callee_name(n) for n in ast.walk(test))


def _synchronising(file: File, statement: ast.Expr, call: ast.Call) -> None:
    """Record mutations of a synchronizing call: removed, weakened, moved up, moved down."""
    name = callee_name(call)
    is_group = name == "sync" and isinstance(call.func, ast.Attribute)  # of a cooperative group
    if (name not in SYNCHRONISES and not is_group) or name in _HINTS:
        return
    if name not in _BARRIERS:
        file.put("barrier" if is_group else "fence" if name in FENCES else "wait", statement, "pass")
    if name in _WEAKER and isinstance(call.func, ast.Attribute) and not call.args:
        file.put("scope", call.func, f"{file.text(call.func.value)}.{_WEAKER[name]}")
    suite = file.whole.suites[statement]
    at = suite.index(statement)
    for other in (*suite[max(at - 1, 0) : at], *suite[at + 1 : at + 2]):
        if _exchange_matters(file, statement, other):
            first, second = sorted((statement, other), key=lambda s: s.lineno)
            _add_swap(file, first, second)


def _exchange_matters(file: File, statement: ast.stmt, other: ast.stmt) -> bool:
    """Return whether exchanging two statements can matter because the other one contains an operation whose order
    matters."""
    if leaves(other) or synchronises(other) or not (file.whole.alone(statement) and file.whole.alone(other)):
        return False
    if isinstance(other, (ast.Assign, ast.AnnAssign)):
        target = other.targets[0] if isinstance(other, ast.Assign) else other.target
        names = {n.id for n in ast.walk(target) if isinstance(n, ast.Name)}
        if any(isinstance(n, ast.Name) and n.id in names for n in ast.walk(statement)):
            return False  # it needs a value that the other statement computes
    nodes = [*ast.walk(other)]
    declares = any(isinstance(n, ast.Call) and callee_name(n) == "array" for n in nodes)
    return not declares and any(isinstance(n, (ast.Subscript, ast.Call)) for n in nodes)


def _add_swap(file: File, first: ast.stmt, second: ast.stmt) -> None:
    whole = file.whole
    (start, middle), (between, end) = whole.lines(first), whole.lines(second)
    data = whole.data
    last = data[between:end].decode()
    text = last + ("" if last.endswith("\n") else "\n") + data[middle:between].decode() + data[start:middle].decode()
    file.add_at("order", start, end, text, first.lineno, second.end_lineno or second.lineno)


def _atomic(file: File, statement: ast.Expr | ast.Assign, call: ast.Call) -> None:
    """Record a load and a store that replace an atomic."""
    name = callee_name(call)
    if name not in _PLAIN or ".atomic." not in file.text(call.func) or len(call.args) != 3:
        return
    array, index, value = map(file.text, call.args)
    index = index[1:-1] if isinstance(call.args[1], ast.Tuple) and index.startswith("(") else index
    element = f"{array}[{index}]"
    store = f"{element} = {_PLAIN[name].format(element, value)}"
    if isinstance(statement, ast.Assign):
        if not file.whole.alone(statement) or len(statement.targets) != 1:
            return
        indent = file.whole.indent(statement)
        store = f"{file.text(statement.targets[0])} = {element}\n{indent}{store}"
    file.put("atomic", statement, store)


def _phases(file: File, call: ast.Call) -> None:
    """Record other arguments of operations on phases, and of copies."""
    for argument, what in zip(call.args, PARAMETERS.get(callee_name(call), ()), strict=False):
        if what in ("index", "round"):
            file.integer("offset", argument)
        elif what in _PHASES and callee_name(call) not in _SYNC:
            text = file.text(argument)
            if isinstance(argument, ast.Constant) and type(argument.value) is int:
                changed = {"parity": argument.value ^ 1, "bytes": 2 * argument.value}
                file.put("phase", argument, str(changed.get(what, argument.value + 1)))
            else:
                file.put("phase", argument, _PHASES[what].format(text if text.isidentifier() else f"({text})"))
