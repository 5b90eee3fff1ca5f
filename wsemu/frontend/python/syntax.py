"""Facts about pieces of source that do not depend on types, found once per node of the (cached) syntax tree."""

from __future__ import annotations

import ast
import dis
import functools
import warnings

SIMPLE = (
    ast.Name, ast.Constant, ast.BinOp, ast.UnaryOp, ast.Compare, ast.BoolOp, ast.Attribute, ast.IfExp,
    ast.operator, ast.unaryop, ast.cmpop, ast.boolop, ast.expr_context,
)  # fmt: skip
"""expressions without side effects or loads, if their parts are such expressions"""
FACTS = 1 << 14
"""maximum number of nodes whose facts are cached"""


@functools.lru_cache(maxsize=FACTS)
def is_simple(node: ast.expr) -> bool:
    """Return whether an expression can be evaluated without harm even if its value is not needed."""
    return all(isinstance(part, SIMPLE) for part in ast.walk(node))


@functools.lru_cache(maxsize=FACTS)
def _is_constant(node: ast.expr) -> bool:
    """Return whether an expression consists only of numbers."""
    if isinstance(node, ast.BinOp):
        return _is_constant(node.left) and _is_constant(node.right)
    if isinstance(node, ast.UnaryOp):
        return _is_constant(node.operand)
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Tuple):
        return _is_constant(node.slice) and all(map(_is_constant, node.value.elts))
    return isinstance(node, ast.Constant) and isinstance(node.value, (int, float, complex))


def fold_constant(node: ast.expr) -> int | float | complex | None:
    """Return the number to which Python's compiler folds an expression before Numba sees it: `2 ** -1` is 0.5, and
    `2**64 - 1` fits.  Return None for an expression that it does not fold, such as a division by 0."""
    if not _is_constant(node):
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        code = compile(ast.Expression(node), "<constant>", "eval")
    steps = [step for step in dis.get_instructions(code) if step.opname != "RESUME"]
    if not steps[0].opname.endswith("_CONST") or len(steps) > 2:
        return None
    value: int | float | complex = steps[0].argval
    return value


@functools.lru_cache(maxsize=FACTS)
def constant_container(op: ast.cmpop, node: ast.expr) -> ast.expr:
    """Return the tuple that Python's compiler creates from a list of constants after `in`."""
    if isinstance(op, (ast.In, ast.NotIn)) and isinstance(node, ast.List) and all(map(_is_constant, node.elts)):
        return ast.copy_location(ast.Tuple(node.elts, ast.Load()), node)
    return node


@functools.lru_cache(maxsize=FACTS)
def is_folded(node: ast.expr) -> bool:
    """Return whether Python's compiler folds an expression to a number."""
    return fold_constant(node) is not None


@functools.lru_cache(maxsize=FACTS)
def assigned_names(node: ast.AST) -> tuple[str, ...]:
    """Return the names that a loop or a function assigns, in order of appearance, without those in nested functions."""
    if isinstance(node, (ast.For, ast.While)):
        parts: list[ast.AST] = [*node.body, node.target if isinstance(node, ast.For) else node.test]
    else:
        parts = list(ast.iter_child_nodes(node))
    found: list[str] = []
    for part in parts:
        _collect(part, found)
    return tuple(dict.fromkeys(found))


@functools.lru_cache(maxsize=FACTS)
def assignment_targets(statement: ast.stmt) -> tuple[str, ...]:
    """Return the names that a statement of any kind assigns."""
    found: list[str] = []
    _collect(statement, found)
    return tuple(dict.fromkeys(found))


def _collect(node: ast.AST, found: list[str]) -> None:
    match node:
        case ast.FunctionDef():
            found.append(node.name)
            return
        case ast.Lambda():
            return
        case ast.Name(ctx=ast.Store()):
            found.append(node.id)
        case ast.arg():
            found.append(node.arg)
        case ast.MatchAs(name=str()) | ast.MatchStar(name=str()):
            found.append(str(node.name))
    for child in ast.iter_child_nodes(node):
        _collect(child, found)


@functools.lru_cache(maxsize=FACTS)
def gives_no_types(statement: ast.stmt) -> bool:
    """Return whether a statement that never runs is without influence: it assigns no variable, and control does not
    leave the surrounding statements there."""
    leaves = (ast.Return, ast.Break, ast.Continue, ast.Raise, ast.Assert, ast.Delete)
    return not assignment_targets(statement) and not any(isinstance(part, leaves) for part in ast.walk(statement))


@functools.lru_cache(maxsize=FACTS)
def read_outside(function: ast.AST, loop: ast.AST) -> frozenset[str]:
    """Return the names that a function reads outside of one of its loops."""
    found: set[str] = set()
    pending = [function]
    while pending:
        for part in ast.iter_child_nodes(pending.pop()):
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load):
                found.add(part.id)
            if part is not loop:
                pending.append(part)
    return frozenset(found)


@functools.lru_cache(maxsize=FACTS)
def collect_names(node: ast.AST) -> frozenset[str]:
    """Return all names in a piece of source."""
    return frozenset(part.id for part in ast.walk(node) if isinstance(part, ast.Name))


@functools.lru_cache(maxsize=FACTS)
def stored_names(function: ast.AST) -> dict[str, int]:
    """Return name -> number of assignments in a function."""
    found: list[str] = []
    for statement in ast.iter_child_nodes(function):
        _collect(statement, found)
    return {name: found.count(name) for name in found}


@functools.lru_cache(maxsize=FACTS)
def has_continue(loop: ast.For | ast.While) -> bool:
    """Return whether a loop has a `continue` that is not in a nested loop."""
    pending: list[ast.AST] = [*loop.body]
    while pending:
        part = pending.pop()
        if isinstance(part, ast.Continue):
            return True
        if isinstance(part, (ast.For, ast.While)):
            pending += part.orelse
        elif not isinstance(part, (ast.FunctionDef, ast.Lambda)):
            pending += ast.iter_child_nodes(part)
    return False


_WALKS = 3
"""maximum walks through the body of a loop until the types of its variables are known"""


@functools.lru_cache(maxsize=FACTS)
def count_calls(node: ast.AST, names: frozenset[str]) -> int:
    """Return the number of calls of functions or methods by these names in a piece of source; a call in a loop counts
    as often as the loop may be walked."""

    def count(inner: ast.AST, times: int) -> int:
        func = inner.func if isinstance(inner, ast.Call) else None
        own = (isinstance(func, ast.Name) and func.id in names) or (
            isinstance(func, ast.Attribute) and func.attr in names
        )
        times = _WALKS if isinstance(inner, (ast.For, ast.While)) else times
        return times * own + sum(count(child, times) for child in ast.iter_child_nodes(inner))

    return count(node, 1)
