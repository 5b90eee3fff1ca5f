"""Find the branches that Numba-CUDA drops before it types a function (`dead_branch_prune` of its `core/analysis.py`).

Numba-CUDA examines each jump of Python's bytecode.  A jump has one direction if it tests a constant, or an operation on
two constants.  Constants are numbers of the source, names from outside the function, the number of dimensions of an
argument, and the length of a tuple argument.  A variable is a constant if a single assignment gives it such a value.
Nothing else is computed: `N + 1 > 3`, `math.pi > 4` and `N in (1, 2)` remain branches.  Both sides of a remaining
branch are typed, even if one can never run.  Nested functions are part of the enclosing function.  If a jump in `and`,
`or`, a conditional expression or a chain of comparisons has one direction, the expression reduces to the remaining
operand.
"""

from __future__ import annotations

import ast
import operator
from typing import TYPE_CHECKING, Any

from wsemu.frontend.python.syntax import fold_constant, is_folded, stored_names
from wsemu.frontend.python.values import ArrayValue, Scalar, Static, TupleValue, Value
from wsemu.model.data import NamedTuple, replace

if TYPE_CHECKING:
    from wsemu.frontend.python.frames import Frame
    from wsemu.frontend.python.walker import Walker

_COMPARE: dict[type[ast.cmpop], Any] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Eq: operator.eq,
    ast.NotEq: operator.ne, ast.Is: operator.is_, ast.IsNot: operator.is_not,
    ast.In: lambda a, b: operator.contains(b, a),
}  # fmt: skip
_FOLDED_NOT: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
"""comparisons that Python's compiler merges with a preceding `not`; Numba never drops a branch on `not in`"""
_COMPUTE: dict[type[ast.operator], Any] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.BitAnd: operator.and_, ast.BitOr: operator.or_,
    ast.BitXor: operator.xor, ast.LShift: operator.lshift, ast.RShift: operator.rshift,
}  # fmt: skip
_TESTS = (ast.Compare, ast.Name, ast.BinOp, ast.Call)
"""kinds of conditions that Numba finds in the definition of a variable"""


class Known(NamedTuple):
    """A host object that Numba finds for an expression."""

    object: Any
    plain: bool
    """true if a branch on it alone is dropped, unlike a branch on a parameter that is None"""


def mark_value(w: Walker, node: ast.expr, value: Value) -> Value:
    """Return the value of an expression as a separate variable, which remembers whether Numba finds it."""
    if type(value) is not Scalar or value.literal is None:
        return value
    node = _prune_expression(w, node)
    found = constant_object(w, node)
    fixed = found is not None and found.plain
    return replace(value, fixed=fixed, dropped=not fixed and isinstance(node, _TESTS) and jump(w, node) is not None)


def _prune_expression(w: Walker, node: ast.expr) -> ast.expr:
    """Return an expression without the parts that decided jumps skip."""
    match node:
        case ast.BoolOp(op=op, values=values):
            for part in values[:-1]:
                goes = decide_branch(w, part)
                if goes is None:
                    return node
                if goes is isinstance(op, ast.Or):
                    return _prune_expression(w, part)
            return _prune_expression(w, values[-1])
        case ast.IfExp():
            which = decide_branch(w, node.test)
            return node if which is None else _prune_expression(w, node.body if which else node.orelse)
        case ast.Compare(ops=[_, _, *_]):
            one = node
            for one in _links(node):
                goes = jump(w, one)
                if goes is False:
                    return one
                if goes is None and one is not _links(node)[-1]:
                    return node
            return one
    return node


def _links(node: ast.Compare) -> list[ast.Compare]:
    """Return the comparisons of a chain."""
    sides = [node.left, *node.comparators]
    return [ast.Compare(a, [op], [b]) for a, op, b in zip(sides, node.ops, node.comparators, strict=False)]


def unmark_value(value: Value) -> Value:
    """Return a value as a variable that Numba does not look into, such as a parameter."""
    if type(value) is TupleValue and value.object is not None:
        return replace(value, object=None)
    if type(value) is Scalar and (value.fixed or value.dropped):
        return replace(value, fixed=False, dropped=False)
    return value


def constant_object(w: Walker, node: ast.expr) -> Known | None:
    """Return the object that Numba finds for an expression; None if there is none."""
    match node:
        case ast.Constant():
            return Known(node.value, True)
        case ast.BinOp() | ast.UnaryOp() | ast.Subscript():
            return Known(fold_constant(node), True) if is_folded(node) else None
        case ast.Name():
            return _lookup_name(w, node.id)
        case ast.Attribute(attr="ndim"):
            value = _argument(w, node.value)
            return Known(value.ndim, True) if isinstance(value, ArrayValue) else None
        case ast.Call(func=ast.Name("len"), args=[argument]):
            value = _argument(w, argument)
            return Known(len(value.items), True) if isinstance(value, TupleValue) else None
    return None


def _lookup_name(w: Walker, name: str) -> Known | None:
    """Return the object that a name refers to, in the function or in those around it."""
    found = _variable(w, name)
    if found is not None:
        return None if found[1] is None else _value_knowledge(found[0], found[1])
    for place in (w.frame.cells, w.frame.globals):
        if name in place:
            return Known(place[name], True)
    return None


def _variable(w: Walker, name: str) -> tuple[Frame, Value | None] | None:
    """Return the function, this one or an enclosing one, that has a variable with this name, and what is known of the
    variable's value."""
    frame: Frame | None = w.frame
    env = w.env
    while frame is not None:
        value = _assigned_once(frame, name) or env.get(name)
        if value is not None or name in frame.assigned:
            return frame, value
        env, frame = frame.outer, frame.maker
    return None


def _assigned_once(frame: Frame, name: str) -> Value | None:
    """Return the value of a name that a function assigns only once, if that assignment was walked: Numba looks no
    further."""
    return frame.last.get(name) if stored_names(frame.source.node).get(name) == 1 else None


def _value_knowledge(frame: Frame, value: Value) -> Known | None:
    if type(value) is TupleValue and value.object is not None:
        return Known(value.object, True)
    if type(value) is Scalar and value.fixed:
        return Known(value.literal, True)
    if isinstance(value, Static):
        parameter = any(value is given for given in frame.arguments.values())
        if not parameter or value.object is None:
            return Known(value.object, not parameter)
    return None


def _argument(w: Walker, node: ast.expr) -> Value | None:
    """Return the argument that an expression names, of the function or of an enclosing one."""
    if not isinstance(node, ast.Name):
        return None
    _, value = _variable(w, node.id) or (None, None)
    frame: Frame | None = w.frame
    while frame is not None:
        if frame.maker is None and any(value is given for given in frame.arguments.values()):
            return value
        frame = frame.maker
    return None


def decide_branch(w: Walker, test: ast.expr) -> bool | None:
    """Return the direction of a condition's jumps if Numba drops the other one; None if both sides stay."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=ast.Compare(left, [op], [right])) if type(op) in _FOLDED_NOT:
            return decide_branch(w, ast.Compare(left, [_FOLDED_NOT[type(op)]()], [right]))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            inner = decide_branch(w, operand)
            return None if inner is None else not inner
        case ast.BoolOp(op=op, values=values):
            ends = isinstance(op, ast.Or)
            parts = [decide_branch(w, part) for part in values]
            return ends if ends in parts else None if None in parts else not ends
        case ast.IfExp():
            which = decide_branch(w, test.test)
            if which is not None:
                return decide_branch(w, test.body if which else test.orelse)
            both = decide_branch(w, test.body), decide_branch(w, test.orelse)
            return both[0] if both[0] is both[1] else None
        case ast.Compare():
            found = [jump(w, one) for one in _links(test)]
            return False if False in found else None if None in found else True
    return jump(w, test)


def jump(w: Walker, test: ast.expr) -> bool | None:
    """Return the direction of a single jump, on the value of an expression."""
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        left, right = test.left, test.comparators[0]
        found = fold_comparison(test.ops[0], constant_object(w, left), constant_object(w, right))
        return _with_none(w, test.ops[0], left, right) if found is None else found
    if isinstance(test, ast.BinOp) and not is_folded(test):
        return _fold_operation(
            _COMPUTE.get(type(test.op)), constant_object(w, test.left), constant_object(w, test.right)
        )
    if isinstance(test, ast.Tuple) and all(isinstance(part, ast.Constant) for part in test.elts):
        return bool(test.elts)
    if isinstance(test, ast.Call) and isinstance(test.func, ast.Name) and test.func.id in ("isinstance", "hasattr"):
        value = w.condition(test).literal  # types decide it, so nothing is emitted
        return None if value is None else bool(value)
    _, named = (isinstance(test, ast.Name) and _variable(w, test.id)) or (None, None)
    if isinstance(named, Scalar) and named.dropped:
        return bool(named.literal)
    known = constant_object(w, test)
    if known is None or not known.plain:
        return None
    try:
        return bool(known.object)
    except (TypeError, ValueError):
        return None


def _with_none(w: Walker, op: ast.cmpop, left: ast.expr, right: ast.expr) -> bool | None:
    """Return the result of comparing a literal argument with None, whose type Numba knows."""
    for one, other in ((left, right), (right, left)):
        value = _argument(w, one)
        if isinstance(value, Scalar) and value.is_python_literal and value.type.kind in "iub":
            known = constant_object(w, other)
            if known is not None and known.object is None and isinstance(op, (ast.Is, ast.IsNot, ast.Eq, ast.NotEq)):
                return isinstance(op, (ast.IsNot, ast.NotEq))
    return None


def fold_comparison(op: ast.cmpop, left: Known | None, right: Known | None) -> bool | None:
    """Return the result of comparing two constants."""
    return _fold_operation(_COMPARE.get(type(op)), left, right)


def _fold_operation(function: Any, left: Known | None, right: Known | None) -> bool | None:
    """Return the result of an operation on two constants."""
    if function is None or left is None or right is None:
        return None
    try:
        return bool(function(left.object, right.object))
    except Exception:  # objects of the program may raise anything
        return None
