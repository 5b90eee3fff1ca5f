"""Edits of conditions: a comparison by one, another bound or one bound more, the array whose extent bounds an index."""

from __future__ import annotations

import ast
import re
from itertools import pairwise
from typing import TYPE_CHECKING

from wsemu.repair.text import Piece
from wsemu.repair.values import names_in_text, smaller, step_expressions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wsemu.model.cure import Kind
    from wsemu.repair.scene import Candidate, Scene

_BOUNDARY: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
}  # fmt: skip
_SYMBOLS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip
_EXTENT = re.compile(r"\b(\w+)\.(?:shape\[\d\]|size)")
_OUTWARD = 2
"""`if`s around an access whose conditions may lack a bound"""


def edits(scene: Scene) -> Iterator[Candidate]:
    """Yield all edits of this module."""
    yield from comparisons(scene)
    yield from exchange_edits(scene)
    yield from completion_edits(scene)
    yield from extents(scene)
    yield from repetition_edits(scene)


def conditions(scene: Scene) -> list[ast.expr]:
    """Return the conditions: tests of branches, loops and conditional expressions, and comparisons that have a name."""
    found: list[ast.expr] = []
    for function in scene.functions:
        for node in ast.walk(function):
            if isinstance(node, (ast.If, ast.While, ast.IfExp)):
                found.append(node.test)
            elif isinstance(node, ast.Assign) and isinstance(node.value, (ast.Compare, ast.BoolOp)):
                found.append(node.value)
    return found


# -- a comparison ------------------------------------------------------------------------------------------------------
def comparisons(scene: Scene) -> Iterator[Candidate]:
    """Yield edits that use another comparison operator, change an operand by one, or drop a part of a condition."""
    for test in conditions(scene):
        for node in ast.walk(test):
            if isinstance(node, ast.Compare):
                yield from _comparison(scene, node)
        if isinstance(test, ast.Compare) and "%" in scene.text.of(test.left) and isinstance(test.left, ast.BinOp):
            new = f"{scene.text.of(test.left.left)} {_SYMBOLS.get(type(test.ops[0]), '==')} "
            made = scene.replacement("compare", test, new + scene.text.of(test.comparators[0]), 1.0)
            if made:
                yield made
        if isinstance(test, ast.BoolOp):
            for rank, value in enumerate(test.values):
                made = scene.replacement("compare", test, scene.text.of(value), 1.0 + rank)
                if made:
                    yield made


def _comparison(scene: Scene, node: ast.Compare) -> Iterator[Candidate]:
    operands = [node.left, *node.comparators]
    for n, (_, other) in enumerate(pairwise(operands)):
        symbol, changed = _SYMBOLS.get(type(node.ops[n])), _BOUNDARY.get(type(node.ops[n]))
        if symbol and changed:
            parts = [scene.text.of(part) for part in operands]
            before = scene.text.of(node)
            at = before.find(symbol, len(parts[0]) if n == 0 else 0)
            new = before[:at] + changed + before[at + len(symbol) :]
            number = isinstance(other, ast.Constant) and symbol in ("<", ">")  # `t < 3`, not `t <= 2`
            made = scene.replacement("compare", node, new, 1.0 if number else 0.5)
            if made:
                yield made._replace(odd=int(changed in ("!=", "==")))
        simpler = smaller(scene, other, only_less=True)
        for rank, new in enumerate(
            dict.fromkeys([*simpler, *step_expressions(scene, other, 1), *smaller(scene, other)])
        ):
            made = scene.replacement("compare", other, new, 0.7 + 0.2 * rank)
            if made:
                yield made._replace(odd=int(new not in simpler))


def exchange_edits(scene: Scene) -> Iterator[Candidate]:
    """Yield edits that use the condition of another `if` about some of the same names."""
    tests = [s.test for s in scene.statements if isinstance(s, ast.If)]
    texts = [*dict.fromkeys(scene.text.of(test) for test in tests)]
    for test in tests:
        own = names_in_text(scene.text.of(test)) - {*scene.modules.values()}
        others = [text for text in texts if names_in_text(text) & own]
        for rank, other in enumerate(others):
            made = scene.replacement("compare", test, other, 1.0 + 0.3 * rank)
            if made:
                yield made._replace(odd=int(not names_in_text(other) >= own))


# -- bounds that are missing, or are of another array ------------------------------------------------------------------
def completion_edits(scene: Scene) -> Iterator[Candidate]:
    """Yield edits that add to a condition the bound that an access outside of its array lacks."""
    if "out-of-bounds" not in scene.codes:
        return
    for statement in scene.hot:
        accesses = [
            n for n in ast.walk(_head(statement)) if isinstance(n, ast.Subscript) and is_named_by_findings(scene, n)
        ]
        for test, kind in _surrounding_conditions(scene, statement, accesses):
            had = scene.text.of(test)
            text = f"({had})" if isinstance(test, ast.IfExp) or " or " in had else had
            for rank, more in enumerate(_missing(scene, accesses)):
                if all(part in had for part in more):
                    continue
                new = f"{text} and {' and '.join(part for part in more if part not in had)}"
                near = -2.0 - scene.distance(test) + 0.1 * rank - (2.0 if kind == "compare" else 0.0)
                if made := scene.replacement(kind, test, new, near):
                    yield made


def is_named_by_findings(scene: Scene, node: ast.Subscript) -> bool:
    """Return whether a subscript is of an array that findings name."""
    name = scene.text.of(node.value)
    return isinstance(node.value, ast.Name) and (f"`{name}`" in scene.said or f"`{name}[" in scene.said)


def _head(statement: ast.stmt) -> ast.AST:
    """Return the part that a statement computes itself, without the statements in it."""
    if isinstance(statement, (ast.If, ast.While)):
        return statement.test
    return statement.iter if isinstance(statement, ast.For) else statement


def _surrounding_conditions(
    scene: Scene, statement: ast.stmt, accesses: list[ast.Subscript]
) -> Iterator[tuple[ast.expr, Kind]]:
    """Yield the conditions that decide about the accesses of a statement, or about the statement."""
    for node in ast.walk(statement):
        if isinstance(node, ast.IfExp) and any(access in ast.walk(node.body) for access in accesses):
            yield _resolve_condition(scene, node.test), "compare"
    depth = 0
    inner: ast.AST = statement
    for owner in scene.text.ancestors(statement):
        if isinstance(owner, ast.If) and inner in owner.body and depth < _OUTWARD:
            depth += 1
            yield _resolve_condition(scene, owner.test), "compare" if owner.orelse else "guard"
        inner = owner


def _resolve_condition(scene: Scene, test: ast.expr) -> ast.expr:
    """Return the comparison that a name in a condition refers to."""
    for statement in scene.statements if isinstance(test, ast.Name) else ():
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=(ast.Compare() | ast.BoolOp()) as value):
                if isinstance(test, ast.Name) and name == test.id:
                    return value
    return test


def _missing(scene: Scene, accesses: list[ast.Subscript]) -> list[list[str]]:
    """Return the bounds of indices: each one alone, and all bounds of one side together."""
    low: dict[str, None] = {}
    high: dict[str, None] = {}
    for access in accesses:
        parts = access.slice.elts if isinstance(access.slice, ast.Tuple) else [access.slice]
        for axis, part in enumerate(parts):
            text = scene.text.of(part)
            if isinstance(part, (ast.Constant, ast.Slice)):
                continue
            high[f"{text} < {scene.text.of(access.value)}.shape[{axis}]"] = None
            low[f"{text} >= 0"] = None
    below = "wraps" in scene.said or "negative" in scene.said
    minus = [text for text in low if "-" in text] or [*low]
    single = [[text] for text in ([*minus, *high] if below else [*high, *minus])]
    sides = [side for side in (minus if below else [], [*high], [*minus, *high]) if len(side) > 1]
    return [*single, *sides]


def extents(scene: Scene) -> Iterator[Candidate]:
    """Yield edits that use the extent of the accessed array if a loop or condition uses that of another array."""
    if "out-of-bounds" not in scene.codes:
        return
    accesses = [
        n
        for s in scene.hot
        for n in ast.walk(_head(s))
        if isinstance(n, ast.Subscript) and is_named_by_findings(scene, n)
    ]
    wanted: dict[str, None] = {}
    for access in accesses:
        parts = access.slice.elts if isinstance(access.slice, ast.Tuple) else [access.slice]
        wanted |= {f"{scene.text.of(access.value)}.shape[{axis}]": None for axis in range(len(parts))}
    arrays = dict.fromkeys(scene.text.of(access.value) for access in accesses)
    for test in conditions(scene):
        old = scene.text.of(test)
        for other in {m[1] for m in _EXTENT.finditer(old)}:
            for rank, array in enumerate(arrays):
                new = re.sub(rf"\b{other}\.(?=shape\b|size\b)", f"{array}.", old)
                if made := scene.replacement("compare", test, new, 0.2 + 0.2 * rank):
                    yield made
    for call in scene.calls_named("range"):
        stop = call.args[min(1, len(call.args) - 1)]
        if _EXTENT.fullmatch(scene.text.of(stop)):
            for rank, new in enumerate(wanted):
                if made := scene.replacement("bound", stop, new, 0.1 * rank - scene.distance(stop)):
                    same = new.partition(".")[0] == scene.text.of(stop).partition(".")[0]  # indices may be exchanged
                    yield made._replace(odd=int(same))


def repetition_edits(scene: Scene) -> Iterator[Candidate]:
    """Yield edits that turn an `if` into a loop if its body ends by advancing a compared variable."""
    if "uninitialized-read" not in scene.codes:
        return
    for statement in scene.statements:
        match statement:
            case ast.If(body=[_, *_, ast.AugAssign(target=ast.Name(id=name))], orelse=[]):
                if name in names_in_text(scene.text.of(statement.test)):
                    start, _ = scene.text.span(statement)
                    says = f"write `while` in place of `if` in line {statement.lineno}"
                    yield scene.candidate("compare", says, [Piece(start, start + 2, "while")], -2.0)


def has_several_bounds(scene: Scene, statement: ast.stmt) -> bool:
    """Return whether an `if` around a statement has several bounds of indices: one more belongs there, and no other
    value."""
    for owner in scene.text.ancestors(statement):
        if isinstance(owner, ast.If):
            test = _resolve_condition(scene, owner.test)
            if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
                return all(isinstance(value, ast.Compare) for value in test.values)
    return False


def idiom(scene: Scene, array: str) -> bool:
    """Return whether the kernel has an expression that loads an element of an array, or has another value if the index
    is outside of it."""
    found = (n for f in scene.functions for n in ast.walk(f) if isinstance(n, ast.IfExp))
    return any(scene.text.of(n.body).startswith((f"{array}[",)) for n in found)
