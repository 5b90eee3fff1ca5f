"""Which branches Numba-CUDA drops before it types a function (`dead_branch_prune` of its `core/analysis.py`).

It looks at each jump that Python's compiler made.  A jump goes one way if it tests a constant, or if it compares two:
numbers of the source, names from outside the function, variables that one assignment gives such a value on every path,
the dimensions of an argument, the length of one that is a tuple.  It computes nothing and looks into nothing:
`N + 1 > 3`, `math.pi > 4` and `N in (1, 2)` stay branches.  Both sides of a branch that stays are typed, whether they
can run or not.  Nested functions are part of their maker.
"""

from __future__ import annotations

import ast
import operator
from typing import TYPE_CHECKING, Any

from wsemu.frontend.python.syntax import constant_of, is_folded
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
"""comparisons whose negation Python's compiler makes one comparison of; Numba never drops a branch on `not in`"""
_TESTS = (ast.Compare, ast.Name)
"""conditions that Numba finds behind a variable"""


class Known(NamedTuple):
    """A host object that Numba finds for an expression."""

    object: Any
    plain: bool
    """whether a branch on it alone is dropped: not on a parameter that is given None"""


def marked(w: Walker, node: ast.expr, value: Value) -> Value:
    """The value of an expression as a variable of its own, which remembers whether Numba finds it."""
    if type(value) is not Scalar or value.literal is None:
        return value
    found = constant_object(w, node)
    fixed = found is not None and found.plain
    return replace(value, fixed=fixed, dropped=not fixed and isinstance(node, _TESTS) and jump(w, node) is not None)


def unmarked(value: Value) -> Value:
    """A value as a variable of its own that Numba does not look behind, such as a parameter."""
    if type(value) is Scalar and (value.fixed or value.dropped):
        return replace(value, fixed=False, dropped=False)
    return value


def constant_object(w: Walker, node: ast.expr) -> Known | None:
    """What Numba finds for an expression; None if nothing."""
    match node:
        case ast.Constant():
            return Known(node.value, True)
        case ast.BinOp() | ast.UnaryOp():
            return Known(constant_of(node), True) if is_folded(node) else None
        case ast.Name():
            return _named(w, node.id)
        case ast.Attribute(attr="ndim"):
            value = _argument(w, node.value)
            return Known(value.ndim, True) if isinstance(value, ArrayValue) else None
        case ast.Call(func=ast.Name("len"), args=[argument]):
            value = _argument(w, argument)
            return Known(len(value.items), True) if isinstance(value, TupleValue) else None
    return None


def _named(w: Walker, name: str) -> Known | None:
    """What a name stands for, in the function or in those around it."""
    frame: Frame | None = w.frame
    env = w.env
    while frame is not None:
        value = env.get(name)
        if value is not None:
            return _of_value(frame, value)
        if name in frame.assigned:
            return None
        if frame.maker is None:
            break
        env, frame = frame.outer, frame.maker
    for place in (w.frame.cells, w.frame.globals):
        if name in place:
            return Known(place[name], True)
    return None


def _of_value(frame: Frame, value: Value) -> Known | None:
    if type(value) is Scalar and value.fixed:
        return Known(value.literal, True)
    if isinstance(value, Static):
        parameter = any(value is given for given in frame.arguments.values())
        if not parameter or value.object is None:
            return Known(value.object, not parameter)
    return None


def _argument(w: Walker, node: ast.expr) -> Value | None:
    """The argument that an expression is, of the function or of one around it."""
    if not isinstance(node, ast.Name):
        return None
    value = w.env.get(node.id)
    frame: Frame | None = w.frame
    while frame is not None:
        if frame.maker is None and any(value is given for given in frame.arguments.values()):
            return value
        frame = frame.maker
    return None


def decided(w: Walker, test: ast.expr) -> bool | None:
    """How the jumps on a condition go if Numba drops those that go the other way; None if both sides stay."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=ast.Compare(left, [op], [right])) if type(op) in _FOLDED_NOT:
            return decided(w, ast.Compare(left, [_FOLDED_NOT[type(op)]()], [right]))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            inner = decided(w, operand)
            return None if inner is None else not inner
        case ast.BoolOp(op=op, values=values):
            ends = isinstance(op, ast.Or)
            parts = [decided(w, part) for part in values]
            return ends if ends in parts else None if None in parts else not ends
        case ast.IfExp():
            which = decided(w, test.test)
            if which is not None:
                return decided(w, test.body if which else test.orelse)
            both = decided(w, test.body), decided(w, test.orelse)
            return both[0] if both[0] is both[1] else None
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            sides = [left, *comparators]
            found = [jump(w, ast.Compare(a, [op], [b])) for a, op, b in zip(sides, ops, comparators, strict=False)]
            return False if False in found else None if None in found else True
    return jump(w, test)


def jump(w: Walker, test: ast.expr) -> bool | None:
    """The same for a single jump, on the value of an expression."""
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        left, right = test.left, test.comparators[0]
        found = compared(test.ops[0], constant_object(w, left), constant_object(w, right))
        return _with_none(w, test.ops[0], left, right) if found is None else found
    if isinstance(test, ast.Call) and isinstance(test.func, ast.Name) and test.func.id in ("isinstance", "hasattr"):
        value = w.condition(test).literal  # decided by types: nothing is emitted
        return None if value is None else bool(value)
    named = w.env.get(test.id) if isinstance(test, ast.Name) else None
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
    """The same for the comparison of a literal argument with None: Numba knows its type."""
    for one, other in ((left, right), (right, left)):
        value = _argument(w, one)
        if isinstance(value, Scalar) and value.is_python_literal and value.type.kind in "iub":
            known = constant_object(w, other)
            if known is not None and known.object is None and isinstance(op, (ast.Is, ast.IsNot, ast.Eq, ast.NotEq)):
                return isinstance(op, (ast.IsNot, ast.NotEq))
    return None


def compared(op: ast.cmpop, left: Known | None, right: Known | None) -> bool | None:
    """The same for the comparison of two constants."""
    function = _COMPARE.get(type(op))
    if function is None or left is None or right is None:
        return None
    try:
        return bool(function(left.object, right.object))
    except Exception:  # of whatever objects a program has
        return None
