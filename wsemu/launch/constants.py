"""Other values for the constants at the top of a file: for launches of edits."""

from __future__ import annotations

import ast
import contextlib
from typing import TYPE_CHECKING, Any

from wsemu.repair.constants import dependent, host_uses

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wsemu.repair.text import Text, Value

_PLAIN = (
    ast.expr_context, ast.operator, ast.unaryop, ast.Constant, ast.Name, ast.Attribute, ast.Tuple, ast.BinOp,
    ast.UnaryOp, ast.Call, ast.keyword,
)  # fmt: skip
_BUILT_IN = (min, max, len, sum, abs)


@contextlib.contextmanager
def rebound(space: dict[str, Any], text: Text, changed: Sequence[tuple[ast.Assign, ast.Assign]]) -> Iterator[None]:
    """Inside the `with` block, give names of a module the values from changed statements at the top of its file, and
    recompute the names that depend on them.  Raise ValueError if the changes involve more than numbers and patterns, or
    affect the host."""
    made, new = text.constant_values, dict(changed)
    other = {name for name, value in made.items() if value.statement in new and _changes(value, new[value.statement])}
    affected = dependent(made, other)
    uses = host_uses(text, affected)
    if uses is None:
        raise ValueError("the host uses it")
    scope = dict(space)
    for statement in dict.fromkeys(made[name].statement for name in made if name in affected):
        run = new.get(statement, statement)
        if not _is_constant_expression(run.value, scope):
            raise ValueError("a value that is no number, and no pattern")
        exec(compile(ast.Module([run], []), text.file, "exec"), scope)
    for use in uses:
        code = compile(ast.Expression(use), text.file, "eval")
        if eval(code, dict(space)) != eval(code, dict(scope)):
            raise ValueError("the host would see another value")
    before = {name: space[name] for name in affected if name in space}
    space.update({name: scope[name] for name in before})
    try:
        yield
    finally:
        space.update(before)


def _changes(value: Value, statement: ast.Assign) -> bool:
    """Return whether a name gets another value by a changed statement."""
    before, now = value.statement.value, statement.value
    if value.node is before or not isinstance(now, ast.Tuple) or not isinstance(before, ast.Tuple):
        return True
    return ast.dump(value.node) != ast.dump(now.elts[before.elts.index(value.node)])


def _is_constant_expression(value: ast.expr, scope: dict[str, Any]) -> bool:
    """Return whether an expression consists of numbers, names, patterns and their attributes."""
    if not all(isinstance(node, _PLAIN) for node in ast.walk(value)):
        return False
    for node in ast.walk(value):
        if isinstance(node, ast.Call):
            called = eval(compile(ast.Expression(node.func), "", "eval"), dict(scope))
            owner = getattr(called, "__self__", called)
            module = str(getattr(owner if isinstance(owner, type) else type(owner), "__module__", ""))
            if called not in _BUILT_IN and not module.startswith("wsemu.patterns"):
                return False
    return True
