"""Expressions of the kernel dialect."""

# mypy: disable-error-code="misc"
# (the methods of each part of `Walker` have the whole of it as self)
from __future__ import annotations

import ast
import enum
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from wsemu.frontend.python import arithmetic, arrays, enumerations, joining, text, views
from wsemu.frontend.python.frames import Unreachable
from wsemu.frontend.python.pruning import jump, mark_value
from wsemu.frontend.python.scalars import (
    FALSE,
    both,
    choose,
    choose_number,
    constant,
    describe,
    either,
    negate,
    scalar_cast,
    truth,
)
from wsemu.frontend.python.syntax import constant_container, fold_constant, is_simple
from wsemu.frontend.python.values import (
    ArrayValue,
    Closure,
    ComplexValue,
    FlatValue,
    PatternValue,
    RangeValue,
    RecordValue,
    Scalar,
    SliceValue,
    Static,
    TupleValue,
    Unread,
    Value,
)
from wsemu.language.numbers import NumberType, boolean, int64
from wsemu.model.data import replace
from wsemu.model.errors import KernelError

if TYPE_CHECKING:
    from wsemu.frontend.python.walker import Walker

UNSUPPORTED: dict[type[ast.AST], tuple[str, str]] = {
    ast.NamedExpr: ("`:=` in a kernel", "assign on a line of its own"),
    ast.List: ("a list in a kernel", "use a tuple, or a `cuda.local.array`"),
    ast.Dict: ("a dict in a kernel", "use a tuple, or arrays"),
    ast.Set: ("a set in a kernel", "use a tuple, or arrays"),
    ast.ListComp: ("a comprehension in a kernel", "write a loop that fills a `cuda.local.array`"),
    ast.SetComp: ("a comprehension in a kernel", "write a loop"),
    ast.DictComp: ("a comprehension in a kernel", "write a loop"),
    ast.GeneratorExp: ("a generator in a kernel", "write a loop"),
    ast.JoinedStr: ("an f-string in a kernel", "print values one by one, or drop it"),
    ast.Starred: ("`*` in a call", "write the items one by one"),
    ast.Yield: ("`yield` in a kernel", "store values into an array"),
    ast.YieldFrom: ("`yield` in a kernel", "store values into an array"),
    ast.Await: ("`await` in a kernel", "call plain functions"),
}
BINARY: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.LShift: "<<", ast.RShift: ">>", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^",
}  # fmt: skip
COMPARE: dict[type[ast.AST], str] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip
UNARY: dict[type[ast.AST], str] = {ast.USub: "-", ast.UAdd: "+", ast.Invert: "~"}


COMPUTED = (ast.BinOp, ast.UnaryOp, ast.Call, ast.IfExp, ast.BoolOp)
"""expressions whose types follow from the types of their parts"""


def as_tuple(value: PatternValue) -> TupleValue:
    """Return a named tuple of the kernel as a tuple."""
    names: tuple[str, ...] = value.cls._fields  # type: ignore[attr-defined]
    return TupleValue(tuple(value.fields[name] for name in names), names)


class Expressions:
    """Methods of `Walker`: one per kind of expression, and the meaning of calls and names."""

    def evaluate(self: Walker, node: ast.expr) -> Value:
        handler = self.expressions.get(type(node))
        if handler is None:
            default = (f"`{type(node).__name__.lower()}` in a kernel", "rewrite it with simpler expressions")
            raise self.unsupported_error(node, *UNSUPPORTED.get(type(node), default))
        try:
            value = handler(self, node)
        except KernelError as error:
            raise self.locate(error, node) from error.__cause__
        if type(value) is Scalar and self.frame.loops and isinstance(node, COMPUTED):
            self.note_type(node, value.type)
        return value

    def note_type(self: Walker, node: ast.expr, type_: NumberType) -> None:
        """Reject an expression in a loop if an earlier walk of the body found another type for it.

        Numba's inference never discards a type: it computes in the first one and converts to a type that covers both.
        """
        if any(loop.unrolled for loop in self.frame.loops):
            return
        key = (node, self.b.stack)
        old = self.types_seen.setdefault(key, type_)
        if old is not type_:
            if arithmetic.unify(old, type_) is not type_:
                what = (
                    f"`{ast.unparse(node)}` is {old} before the types of the loop's variables are known, then {type_}"
                )
                raise self.unsupported_error(node, what, "give its variables one type before the loop")
            self.types_seen[key] = type_

    def condition(self: Walker, node: ast.expr) -> Scalar:
        """Return the truth of an expression; `and`, `or` and `not` need no branches if their operands are simple."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return negate(self.b, self.condition(node.operand))
        if isinstance(node, ast.BoolOp):
            return self.bool_condition(node)
        value = self.evaluate(node)
        self.at(node)
        try:
            return truth(self.b, value)
        except KernelError as error:
            raise self.locate(error, node) from None

    def bool_condition(self: Walker, node: ast.BoolOp) -> Scalar:
        is_and = isinstance(node.op, ast.And)
        result = self.condition(node.values[0])
        for part in node.values[1:]:
            if result.literal is not None:
                if bool(result.literal) != is_and:
                    return result
                result = self.condition(part)
            elif is_simple(part):
                result = (both if is_and else either)(self.b, result, self.condition(part))
            else:
                result = self.short_circuit(result, part, is_and)
        return result

    def short_circuit(self: Walker, left: Scalar, part: ast.expr, is_and: bool) -> Scalar:
        """Return `left and part`, or `left or part`, where `part` is evaluated only if it decides."""
        known = constant(boolean, not is_and)
        arms: tuple[Callable[[], Value], Callable[[], Value]] = (lambda: self.condition(part), lambda: known)
        result = self.either_way(left, *(arms if is_and else arms[::-1]))
        assert isinstance(result, Scalar)
        return result

    def either_way(self: Walker, test: Scalar, then: Callable[[], Value], other: Callable[[], Value]) -> Value:
        """Emit a branch that evaluates one of two sides, and return its value."""
        self.hidden += 1
        name = f" value {self.hidden}"

        def arm(make: Callable[[], Value]) -> Callable[[], None]:
            def walk() -> None:
                start, depth = self.b.block, len(self.b.scopes)
                try:
                    self.env[name] = make()
                except KernelError as error:
                    if not start.dead:
                        raise
                    self.b.unwind(depth)
                    self.b.block, self.reachable = start, True
                    self.env[name] = Unread(error)

            return walk

        self.branch(test, arm(then), arm(other))
        if not self.reachable:
            raise Unreachable
        return joining.used(self.env.pop(name), "the value of the conditional expression")

    # -- leaves -------------------------------------------------------------------------------------------------------
    def get_Constant(self: Walker, node: ast.Constant) -> Value:
        if isinstance(node.value, (bool, int, float, complex)):
            self.at(node)
            return self.host_number(node.value, "this number")
        return Static(node.value)

    def get_Tuple(self: Walker, node: ast.Tuple) -> Value:
        items: list[Value] = []
        for element in node.elts:
            if isinstance(element, ast.Starred):
                items += self.tuple_items(element, self.evaluate(element.value))
            else:
                items.append(self.evaluate(element))
        return TupleValue(tuple(items))

    def get_Lambda(self: Walker, node: ast.Lambda) -> Value:
        return Closure(node, (self.frame, self.env, self.closure_defaults(node.args)))

    def closure_defaults(self: Walker, spec: ast.arguments) -> dict[str, Value]:
        names = [a.arg for a in (*spec.posonlyargs, *spec.args)]
        values = [mark_value(self, d, self.evaluate(d)) for d in spec.defaults]
        found = dict(zip(names[len(names) - len(values) :], values, strict=True))
        for argument, default in zip(spec.kwonlyargs, spec.kw_defaults, strict=True):
            if default is not None:
                found[argument.arg] = self.evaluate(default)
        return found

    # -- operators ----------------------------------------------------------------------------------------------------
    def get_BinOp(self: Walker, node: ast.BinOp) -> Value:
        op = BINARY.get(type(node.op))
        if op is None:
            raise self.unsupported_error(node, "`@` in a kernel", "write the product as loops")
        folded = fold_constant(node)
        if folded is not None:
            self.at(node)
            return self.host_number(folded, "this number")
        left, right = self.evaluate(node.left), self.evaluate(node.right)
        self.at(node)
        if isinstance(left, TupleValue) and isinstance(right, TupleValue) and op == "+":
            return TupleValue((*left.items, *right.items))
        if isinstance(left, ArrayValue) or isinstance(right, ArrayValue):
            which = left if isinstance(left, ArrayValue) else right
            raise self.unsupported_error(
                node, f"arithmetic on the whole {describe(which)}", "index it to work on elements"
            )
        self.check_divisor(op, right)
        return arithmetic.binary(self.b, op, left, right)

    def check_divisor(self: Walker, op: str, divisor: Value) -> None:
        """With `debug`, raise for a division by zero, as Python does."""
        if self.debug and op in ("/", "//", "%") and isinstance(divisor, Scalar):
            zero = arithmetic.compare(self.b, "==", divisor, constant(divisor.type, 0))
            self.fail_where(zero, ZeroDivisionError, "division by zero")

    def get_UnaryOp(self: Walker, node: ast.UnaryOp) -> Value:
        if isinstance(node.op, ast.Not):
            return self.condition(node)
        value = self.evaluate(node.operand)
        self.at(node)
        result = arithmetic.unary(self.b, UNARY[type(node.op)], value)
        if (
            isinstance(value, Scalar)
            and value.is_python_literal
            and isinstance(result, Scalar)
            and result.literal is not None
        ):
            return replace(result, is_python_literal=True)
        return result

    def get_BoolOp(self: Walker, node: ast.BoolOp) -> Value:
        """Return the operand that decides, as Python does."""
        is_and = isinstance(node.op, ast.And)
        result = self.evaluate(node.values[0])
        tested: ast.expr | None = node.values[0]
        for part in node.values[1:]:
            self.at(node)
            test = truth(self.b, result)
            dropped = self.is_own_library() or (tested is not None and jump(self, tested) is not None)
            if test.literal is not None and dropped:
                if bool(test.literal) != is_and:
                    return result
                result, tested = self.evaluate(part), part
                continue
            left, tested = result, None
            take = (lambda p=part: self.evaluate(p), lambda v=left: v)
            result = self.select(test, *(take if is_and else take[::-1]), simple=is_simple(part))
        return result

    def select(
        self: Walker, test: Scalar, then: Callable[[], Value], other: Callable[[], Value], simple: bool
    ) -> Value:
        """Return `then() if test else other()`, by selection if both are simple numbers, otherwise by a branch."""
        if simple:
            x, y = then(), other()
            if isinstance(x, (Scalar, ComplexValue)) and isinstance(y, (Scalar, ComplexValue)):
                type_ = arithmetic.unify(x.type, y.type)
                if type_ is not None:
                    return choose_number(
                        self.b, test, arithmetic.cast(self.b, x, type_), arithmetic.cast(self.b, y, type_)
                    )
        return self.either_way(test, then, other)

    def get_IfExp(self: Walker, node: ast.IfExp) -> Value:
        test = self.condition(node.test)
        side = self.side(node.test, test)
        if side is not None:
            return self.evaluate(node.body if side else node.orelse)
        simple = is_simple(node.body) and is_simple(node.orelse)
        return self.select(test, lambda: self.evaluate(node.body), lambda: self.evaluate(node.orelse), simple)

    def get_Compare(self: Walker, node: ast.Compare) -> Value:
        return self.compare_from(node, 0, self.evaluate(node.left))

    def compare_from(self: Walker, node: ast.Compare, at: int, left: Value) -> Scalar:
        """Return the comparisons of a chain, starting at number `at`; a later operand is evaluated only if all earlier
        comparisons hold."""
        right = self.evaluate(constant_container(node.ops[at], node.comparators[at]))
        self.at(node)
        one = self.compare_one(node, node.ops[at], left, right)
        rest = node.comparators[at + 1 :]
        if not rest or one.literal is False:
            return one
        if one.literal or all(map(is_simple, rest)):
            return both(self.b, one, self.compare_from(node, at + 1, right))
        result = self.either_way(one, lambda: self.compare_from(node, at + 1, right), lambda: constant(boolean, False))
        assert isinstance(result, Scalar)
        return result

    def compare_one(self: Walker, node: ast.Compare, op: ast.cmpop, left: Value, right: Value) -> Scalar:
        if isinstance(op, (ast.Is, ast.IsNot, ast.Eq, ast.NotEq)) and enumerations.common_class([left, right]):
            same_member = arithmetic.compare(self.b, "==", enumerations.place(left), enumerations.place(right))
            return same_member if isinstance(op, (ast.Is, ast.Eq)) else negate(self.b, same_member)
        if isinstance(op, (ast.Is, ast.IsNot)):
            if isinstance(left, Static) and isinstance(right, Static):
                same = left.object is right.object
            elif isinstance(left, Static) or isinstance(right, Static):
                same = False  # at most one of them is None
            elif isinstance(left, (Scalar, ComplexValue)) and isinstance(right, (Scalar, ComplexValue)):
                alike = joining.same_types(left, right)
                equal = arithmetic.compare(self.b, "==", left, right) if alike else FALSE
                return equal if isinstance(op, ast.Is) else negate(self.b, equal)
            else:
                raise self.unsupported_error(node, f"`is` between {describe(left)} and {describe(right)}", "use `==`")
            return constant(boolean, same == isinstance(op, ast.Is))
        if isinstance(op, (ast.In, ast.NotIn)):
            result = constant(boolean, False)
            for item in self.tuple_items(node, right):
                result = either(self.b, result, arithmetic.compare(self.b, "==", left, item))
            return result if isinstance(op, ast.In) else negate(self.b, result)
        if text.is_text(left) and text.is_text(right) and isinstance(op, (ast.Eq, ast.NotEq)):
            same_text = text.equal(self.b, left, right)
            return same_text if isinstance(op, ast.Eq) else negate(self.b, same_text)
        return arithmetic.compare(self.b, COMPARE[type(op)], left, right)

    # -- subscripts ---------------------------------------------------------------------------------------------------
    def get_Subscript(self: Walker, node: ast.Subscript) -> Value:
        container, index = self.evaluate(node.value), self.index(node.slice)
        self.at(node)
        return self.subscript(node, container, index)

    def index(self: Walker, node: ast.expr) -> Value:
        if isinstance(node, ast.Tuple):
            return TupleValue(tuple(self.index(element) for element in node.elts))
        value = self.evaluate(node)
        if isinstance(value, Scalar) and value.type.kind == "f":
            raise self.error(node, f"an index is a {value.type}", "convert it with `int(...)`")
        if isinstance(value, (ArrayValue, PatternValue, Closure)):
            raise self.error(node, f"an index is {describe(value)}", "index with integers or slices")
        return value

    def get_Slice(self: Walker, node: ast.Slice) -> Value:
        parts = []
        for part in (node.lower, node.upper, node.step):
            value = None if part is None else self.evaluate(part)
            if isinstance(value, Static) and value.object is None:
                value = None
            if value is not None and (not isinstance(value, Scalar) or value.type.kind == "f"):
                raise self.error(part, f"a slice bound is {describe(value)}", "use integers")
            parts.append(value)
        return self.checked_slice(SliceValue(*parts))

    def checked_slice(self: Walker, made: SliceValue) -> SliceValue:
        """Return a slice; threads whose step is 0 end."""
        if made.step is not None and made.step.literal is None:
            zero = arithmetic.compare(self.b, "==", made.step, constant(int64, 0))
            self.fail_where(zero, ValueError, "slice step cannot be zero")
        return made

    def subscript(self: Walker, node: ast.expr, container: Value, index: Value) -> Value:
        if isinstance(container, ArrayValue):
            return views.subscript(self.b, container, index)
        if isinstance(container, RecordValue) and isinstance(index, Static) and isinstance(index.object, str):
            return arrays.read(self.b, *arrays.field(self.b, container, index.object), container)
        if isinstance(container, Static) and isinstance(container.object, enum.EnumMeta) and isinstance(index, Static):
            return self.static_attribute(container.object, str(index.object), node)
        if isinstance(container, RecordValue) and isinstance(index, Scalar) and index.literal is not None:
            names = container.dtype.names or ()
            if -len(names) <= index.literal < len(names):
                return arrays.read(self.b, *arrays.field(self.b, container, names[int(index.literal)]), container)
        if isinstance(container, TupleValue):
            return self.tuple_item(node, container, index)
        if isinstance(container, FlatValue):
            number = arrays.as_index(self.b, index, container.array.name)
            return arrays.load(self.b, container.array, views.places(self.b, container.array, number))
        if isinstance(container, PatternValue) and hasattr(container.cls, "_fields"):
            return self.tuple_item(node, as_tuple(container), index)
        raise self.operand_error(node, f"{describe(container)} cannot be indexed", "index arrays and tuples", container)

    def tuple_item(self: Walker, node: ast.expr, container: TupleValue, index: Value) -> Value:
        count = len(container.items)
        if isinstance(index, SliceValue):
            parts = [p for p in (index.start, index.stop, index.step) if p is not None]
            if any(p.literal is None or p.type.kind == "f" for p in parts):
                raise self.error(node, "the bounds of a slice of a tuple must be constant integers", "write literals")
            bounds: list[Any] = [None if p is None else p.literal for p in (index.start, index.stop, index.step)]
            if bounds[2] == 0:
                raise self.error(node, "a slice with a step of 0", "give a step other than 0")
            return TupleValue(container.items[slice(*bounds)])
        if not isinstance(index, Scalar) or index.type.kind == "f":
            raise self.error(node, f"a tuple is indexed with {describe(index)}", "index with an integer")
        if index.literal is not None:
            if not -count <= index.literal < count:
                raise self.error(node, f"index {index.literal} lies outside a tuple of {count}", "index from 0 on")
            return container.items[int(index.literal)]
        index = scalar_cast(self.b, index, int64)
        negative = arithmetic.compare(self.b, "<", index, constant(int64, 0))
        wrapped = arithmetic.binary(self.b, "+", index, constant(int64, count))
        assert isinstance(wrapped, Scalar)
        index = choose(self.b, negative, wrapped, index)
        below = arithmetic.compare(self.b, "<", index, constant(int64, 0))
        outside = either(self.b, below, arithmetic.compare(self.b, ">=", index, constant(int64, count)))
        self.fail_where(outside, IndexError, "tuple index out of range")
        result = container.items[-1]
        for n in reversed(range(count - 1)):
            test = arithmetic.compare(self.b, "==", index, constant(int64, n))
            result = self.select(test, lambda n=n: container.items[n], lambda r=result: r, simple=True)
        return result

    def tuple_items(self: Walker, node: ast.AST, value: Value) -> tuple[Value, ...]:
        """Return the items of a tuple, or of an array whose first extent is constant."""
        if isinstance(value, TupleValue):
            return value.items
        if isinstance(value, PatternValue) and hasattr(value.cls, "_fields"):
            return as_tuple(value).items
        if isinstance(value, ArrayValue) and value.ndim and value.shape[0].literal is not None:
            count = int(value.shape[0].literal)
            return tuple(views.subscript(self.b, value, constant(int64, n)) for n in range(count))
        if isinstance(value, RangeValue) and all(p.literal is not None for p in (value.start, value.stop, value.step)):
            bounds = (int(p.literal or 0) for p in (value.start, value.stop, value.step))
            return tuple(constant(value.start.type, n) for n in range(*bounds))
        if isinstance(value, Static) and isinstance(value.object, tuple):
            return tuple(self.host_value(item, "item") for item in value.object)
        raise self.operand_error(node, f"{describe(value)} cannot be taken apart", "use a tuple", value)

    # -- attributes ---------------------------------------------------------------------------------------------------
    # -- calls ---------------------------------------------------------------------------------------------------------
