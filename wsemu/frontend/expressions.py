"""Expressions of the kernel dialect."""

from __future__ import annotations

import ast
import builtins
import dataclasses
import enum
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.bytecode import ConstantArray
from wsemu.errors import KernelError
from wsemu.frontend import arithmetic, arrays, joining, library
from wsemu.frontend.scalars import both, choose_number, constant, describe, either, literal, negate, register, truth
from wsemu.frontend.values import (
    ArrayValue,
    Bound,
    Closure,
    ComplexValue,
    PatternValue,
    RangeValue,
    RecordValue,
    Scalar,
    SliceValue,
    Static,
    TupleValue,
    Value,
    boolean,
    int32,
    int64,
    uint64,
)

if TYPE_CHECKING:
    from wsemu.frontend.walker import Walker

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
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**", ast.LShift: "<<",
    ast.RShift: ">>", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^",
}  # fmt: skip
COMPARE: dict[type[ast.AST], str] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip
UNARY: dict[type[ast.AST], str] = {ast.USub: "-", ast.UAdd: "+", ast.Invert: "~"}
SIMPLE = (ast.Name, ast.Constant, ast.BinOp, ast.UnaryOp, ast.Compare, ast.BoolOp, ast.Attribute, ast.IfExp)
"""expressions without effects or loads, if their parts are such"""


def is_simple(node: ast.expr) -> bool:
    """Evaluating it where its value is not needed does no harm."""
    return all(isinstance(n, (*SIMPLE, ast.operator, ast.unaryop, ast.cmpop, ast.boolop, ast.expr_context)) for n in ast.walk(node))


class Expressions:
    """One method per expression, and what calls and names mean."""

    def evaluate(self: Walker, node: ast.expr) -> Value:
        handler: Callable[[Any], Value] | None = getattr(self, f"get_{type(node).__name__}", None)
        if handler is None:
            what, remedy = UNSUPPORTED.get(type(node), (f"`{type(node).__name__}` in a kernel", "rewrite it with simpler expressions"))
            raise self.unsupported(node, what, remedy)
        try:
            return handler(node)
        except KernelError as error:
            raise self.locate(error, node) from error.__cause__

    def condition(self: Walker, node: ast.expr) -> Scalar:
        """The truth of an expression; `and`, `or` and `not` without branches where the parts are simple."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return negate(self.b, self.condition(node.operand))
        if isinstance(node, ast.BoolOp):
            return self.bool_condition(node)
        value = self.evaluate(node)
        self.at(node)
        return truth(self.b, value)

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
        known = constant(boolean, not is_and)
        found: list[Value] = []

        def right() -> None:
            self.env[" condition"] = self.condition(part)

        def skip() -> None:
            self.env[" condition"] = known

        self.branch(left, right if is_and else skip, skip if is_and else right)
        found.append(self.env.pop(" condition"))
        result = found[0]
        assert isinstance(result, Scalar)
        return result

    # -- leaves --------------------------------------------------------------------------------------------------------------
    def get_Constant(self: Walker, node: ast.Constant) -> Value:
        if isinstance(node.value, (bool, int, float, complex)):
            return literal(node.value)
        return Static(node.value)

    def get_Name(self: Walker, node: ast.Name) -> Value:
        return self.read_name(node, node.id)

    def read_name(self: Walker, node: ast.AST, name: str) -> Value:
        found = self.env.get(name)
        if found is not None:
            return joining.used(found, name)
        frame = self.frame
        if name in frame.assigned:
            if frame.outer is None or name not in frame.outer:
                if frame.loops:  # assigned further down in the loop's body: known when it is walked again
                    frame.undefined.add(name)
                    return literal(0)
                raise self.error(node, f"`{name}` is used before it is assigned", "assign it first")
        if frame.outer is not None and name in frame.outer:
            return joining.used(frame.outer[name], name)
        for place in (frame.cells, frame.globals, vars(builtins)):
            if name in place:
                return self.host_value(place[name], name)
        raise self.error(node, f"unknown name `{name}`", "define it before the kernel is launched, or check the spelling")

    def host_value(self: Walker, value: Any, name: str) -> Value:
        """A host object that a kernel names: numbers and arrays become constants."""
        if isinstance(value, enum.Enum) and not isinstance(value, int):
            return Static(value)
        if isinstance(value, (bool, int, float, complex, np.generic)) and not isinstance(value, (np.str_, np.bytes_, np.void)):
            return literal(value)
        if isinstance(value, np.ndarray):
            return self.constant_array(value, name)
        if isinstance(value, tuple) and library.find(value) is None:
            names = tuple(getattr(value, "_fields", ()))
            if not names or not _has_methods(type(value)):
                return TupleValue(tuple(self.host_value(item, f"{name}[{n}]") for n, item in enumerate(value)), names)
        made = library.value_of(self.b, library.canonical(value))
        return Static(value) if made is None else made

    def constant_array(self: Walker, array: Any, name: str) -> Value:
        found = self.constant_arrays.get(id(array))
        if found is None:
            data = np.ascontiguousarray(array)
            register_ = self.b.graph.new("b64")
            self.b.graph.constant_arrays[register_] = ConstantArray(0, name, data)
            shape = tuple(Scalar(int64, None, extent) for extent in data.shape)
            strides = arrays.row_major(self.b, shape, data.dtype.itemsize)
            found = ArrayValue(data.dtype, register_, shape, strides, name, "constant", False)
            self.constant_arrays[id(array)] = found
        return found

    def get_Tuple(self: Walker, node: ast.Tuple) -> Value:
        items: list[Value] = []
        for element in node.elts:
            if isinstance(element, ast.Starred):
                items += self.items_of(element, self.evaluate(element.value))
            else:
                items.append(self.evaluate(element))
        return TupleValue(tuple(items))

    def get_Lambda(self: Walker, node: ast.Lambda) -> Value:
        return Closure(node, (self.frame, self.env, self.closure_defaults(node.args)))

    def closure_defaults(self: Walker, spec: ast.arguments) -> dict[str, Value]:
        names = [a.arg for a in (*spec.posonlyargs, *spec.args)]
        values = [self.evaluate(d) for d in spec.defaults]
        found = dict(zip(names[len(names) - len(values) :], values, strict=True))
        for argument, default in zip(spec.kwonlyargs, spec.kw_defaults, strict=True):
            if default is not None:
                found[argument.arg] = self.evaluate(default)
        return found

    # -- operators -----------------------------------------------------------------------------------------------------------
    def get_BinOp(self: Walker, node: ast.BinOp) -> Value:
        op = BINARY.get(type(node.op))
        if op is None:
            raise self.unsupported(node, "`@` in a kernel", "write the product as loops")
        left, right = self.evaluate(node.left), self.evaluate(node.right)
        self.at(node)
        if isinstance(left, TupleValue) and isinstance(right, TupleValue) and op == "+":
            return TupleValue((*left.items, *right.items))
        if isinstance(left, ArrayValue) or isinstance(right, ArrayValue):
            which = left if isinstance(left, ArrayValue) else right
            raise self.unsupported(node, f"arithmetic on the whole {describe(which)}", "index it to work on elements")
        return arithmetic.binary(self.b, op, left, right)

    def get_UnaryOp(self: Walker, node: ast.UnaryOp) -> Value:
        if isinstance(node.op, ast.Not):
            return self.condition(node)
        value = self.evaluate(node.operand)
        self.at(node)
        result = arithmetic.unary(self.b, UNARY[type(node.op)], value)
        if isinstance(value, Scalar) and value.is_python_literal and isinstance(result, Scalar) and result.literal is not None:
            return dataclasses.replace(result, is_python_literal=True)
        return result

    def get_BoolOp(self: Walker, node: ast.BoolOp) -> Value:
        """The deciding operand itself, as Python has it."""
        is_and = isinstance(node.op, ast.And)
        result = self.evaluate(node.values[0])
        for part in node.values[1:]:
            test = truth(self.b, result)
            if test.literal is not None:
                if bool(test.literal) != is_and:
                    return result
                result = self.evaluate(part)
                continue
            left = result
            take = (lambda p=part: self.evaluate(p), lambda v=left: v)
            result = self.select(test, *(take if is_and else take[::-1]), simple=is_simple(part))
        return result

    def select(
        self: Walker, test: Scalar, then: Callable[[], Value], other: Callable[[], Value], simple: bool
    ) -> Value:
        """`then() if test else other()`, by selection if both are simple numbers, else by a branch."""
        if simple:
            x, y = then(), other()
            if isinstance(x, (Scalar, ComplexValue)) and isinstance(y, (Scalar, ComplexValue)):
                type_ = arithmetic.unify(x.type, y.type)
                if type_ is not None:
                    return choose_number(self.b, test, arithmetic.cast(self.b, x, type_), arithmetic.cast(self.b, y, type_))

        def arm(make: Callable[[], Value]) -> Callable[[], None]:
            def walk() -> None:
                self.env[" value"] = make()

            return walk

        self.branch(test, arm(then), arm(other))
        return joining.used(self.env.pop(" value"), "the value of the conditional expression")

    def get_IfExp(self: Walker, node: ast.IfExp) -> Value:
        test = self.condition(node.test)
        if test.literal is not None:
            return self.evaluate(node.body if test.literal else node.orelse)
        simple = is_simple(node.body) and is_simple(node.orelse)
        return self.select(test, lambda: self.evaluate(node.body), lambda: self.evaluate(node.orelse), simple)

    def get_Compare(self: Walker, node: ast.Compare) -> Value:
        left = self.evaluate(node.left)
        result: Scalar | None = None
        for op, right_node in zip(node.ops, node.comparators, strict=True):
            right = self.evaluate(right_node)
            self.at(node)
            one = self.compare_one(node, op, left, right)
            result = one if result is None else both(self.b, result, one)
            left = right
        assert result is not None
        return result

    def compare_one(self: Walker, node: ast.Compare, op: ast.cmpop, left: Value, right: Value) -> Scalar:
        if isinstance(op, (ast.Is, ast.IsNot)):
            if isinstance(left, Static) and isinstance(right, Static):
                same = left.object is right.object
            elif isinstance(left, Static) or isinstance(right, Static):
                same = False  # only one of them can be None
            else:
                raise self.unsupported(node, "`is` between numbers", "use `==`")
            return constant(boolean, same == isinstance(op, ast.Is))
        if isinstance(op, (ast.In, ast.NotIn)):
            result = constant(boolean, False)
            for item in self.items_of(node, right):
                result = either(self.b, result, arithmetic.compare(self.b, "==", left, item))
            return result if isinstance(op, ast.In) else negate(self.b, result)
        return arithmetic.compare(self.b, COMPARE[type(op)], left, right)

    # -- subscripts ----------------------------------------------------------------------------------------------------------
    def get_Subscript(self: Walker, node: ast.Subscript) -> Value:
        container, index = self.evaluate(node.value), self.index(node.slice)
        self.at(node)
        return self.subscript(node, container, index)

    def index(self: Walker, node: ast.expr) -> Value:
        if isinstance(node, ast.Tuple):
            return TupleValue(tuple(self.index(element) for element in node.elts))
        return self.evaluate(node)

    def get_Slice(self: Walker, node: ast.Slice) -> Value:
        parts = []
        for part in (node.lower, node.upper, node.step):
            value = None if part is None else self.evaluate(part)
            if isinstance(value, Static) and value.object is None:
                value = None
            if value is not None and not isinstance(value, Scalar):
                raise self.error(node, f"a slice bound is {describe(value)}", "use integers")
            parts.append(value)
        return SliceValue(*parts)

    def subscript(self: Walker, node: ast.expr, container: Value, index: Value) -> Value:
        if isinstance(container, ArrayValue):
            return arrays.subscript(self.b, container, index)
        if isinstance(container, RecordValue) and isinstance(index, Static) and isinstance(index.object, str):
            return arrays.read(self.b, *arrays.field(self.b, container, index.object), container)
        if isinstance(container, TupleValue):
            return self.tuple_item(node, container, index)
        raise self.error(node, f"{describe(container)} cannot be indexed", "index arrays and tuples")

    def tuple_item(self: Walker, node: ast.expr, container: TupleValue, index: Value) -> Value:
        count = len(container.items)
        if isinstance(index, SliceValue):
            bounds = [None if p is None else p.literal for p in (index.start, index.stop, index.step)]
            return TupleValue(container.items[slice(*bounds)])
        if not isinstance(index, Scalar) or index.type.kind == "f":
            raise self.error(node, f"a tuple is indexed with {describe(index)}", "index with an integer")
        if index.literal is not None:
            if not -count <= index.literal < count:
                raise self.error(node, f"index {index.literal} lies outside a tuple of {count}")
            return container.items[int(index.literal)]
        result = container.items[-1]
        for n in reversed(range(count - 1)):
            test = arithmetic.compare(self.b, "==", index, constant(int64, n))
            result = self.select(test, lambda n=n: container.items[n], lambda r=result: r, simple=True)  # type: ignore[misc]
        return result

    def items_of(self: Walker, node: ast.AST, value: Value) -> tuple[Value, ...]:
        """The items of a tuple, or of an array whose first extent is a constant."""
        if isinstance(value, TupleValue):
            return value.items
        if isinstance(value, ArrayValue) and value.ndim and value.shape[0].literal is not None:
            count = int(value.shape[0].literal)
            return tuple(arrays.subscript(self.b, value, constant(int64, n)) for n in range(count))
        if isinstance(value, RangeValue) and all(p.literal is not None for p in (value.start, value.stop, value.step)):
            bounds = (int(p.literal or 0) for p in (value.start, value.stop, value.step))
            return tuple(constant(value.start.type, n) for n in range(*bounds))
        if isinstance(value, Static) and isinstance(value.object, tuple):
            return tuple(self.host_value(item, "item") for item in value.object)
        raise self.error(node, f"{describe(value)} cannot be taken apart", "use a tuple")

    # -- attributes ----------------------------------------------------------------------------------------------------------
    def get_Attribute(self: Walker, node: ast.Attribute) -> Value:
        value = self.evaluate(node.value)
        self.at(node)
        found = self.attribute(value, node.attr, node)
        if found is None:
            raise self.error(node, f"{describe(value)} has no attribute `{node.attr}`")
        return found

    def attribute(self: Walker, value: Value, name: str, node: ast.AST) -> Value | None:
        match value:
            case Static():
                return self.static_attribute(value.object, name, node)
            case ArrayValue():
                return arrays.attribute(self.b, value, name)
            case RecordValue():
                return arrays.read(self.b, *arrays.field(self.b, value, name), value)
            case TupleValue() if name in value.names:
                return value.items[value.names.index(name)]
            case PatternValue():
                return self.pattern_attribute(value, name)
            case Scalar() | ComplexValue():
                if name in library.METHODS:
                    return Bound(value, name)
                return library.attribute(self.b, value, name)
        return None

    def static_attribute(self: Walker, obj: Any, name: str, node: ast.AST) -> Value | None:
        obj = library.canonical(obj)
        if _is_pattern(obj) and not isinstance(getattr(type(obj), name, None), property) and callable(getattr(type(obj), name, None)):
            return Bound(Static(obj), name)
        try:
            member = getattr(obj, name)
        except AttributeError as error:
            text = str(error) if str(error).startswith("`") else f"`{getattr(obj, '__name__', type(obj).__name__)}` has no attribute `{name}`"
            raise self.error(node, text, "check the spelling") from error
        return self.host_value(member, name)

    def pattern_attribute(self: Walker, value: PatternValue, name: str) -> Value | None:
        if name in value.fields:
            return value.fields[name]
        member = getattr(value.cls, name, None)
        if isinstance(member, property):
            assert isinstance(member.fget, FunctionType)
            return self.walk_function(member.fget, [value], {}, self.node)
        if callable(member):
            return Bound(value, name)
        return None if member is None else self.host_value(member, name)

    # -- calls ---------------------------------------------------------------------------------------------------------------
    def get_Call(self: Walker, node: ast.Call) -> Value:
        special = self.super_call(node)
        callee = special if special is not None else self.evaluate(node.func)
        args: list[Value] = []
        target, self.target = self.target, ""
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                args += self.items_of(argument, self.evaluate(argument.value))
            else:
                args.append(self.evaluate(argument))
        kwargs = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                raise self.unsupported(node, "`**` in a call", "write the arguments by name")
            kwargs[keyword.arg] = self.evaluate(keyword.value)
        self.at(node)
        self.target = target
        return self.call(node, callee, args, kwargs)

    def super_call(self: Walker, node: ast.Call) -> Value | None:
        """`super().method` in a pattern's method."""
        func = node.func
        if not (isinstance(func, ast.Attribute) and isinstance(func.value, ast.Call) and isinstance(func.value.func, ast.Name)):
            return None
        if func.value.func.id != "super" or func.value.args:
            return None
        receiver, owner = self.env.get("self"), self.frame.cells.get("__class__")
        if receiver is None or owner is None:
            return None
        cls = receiver.cls if isinstance(receiver, PatternValue) else type(getattr(receiver, "object", None))
        order = cls.__mro__
        for parent in order[order.index(owner) + 1 :]:
            if func.attr in vars(parent):
                return Bound(TupleValue((receiver, Static(parent))), f"super {func.attr}")
        raise self.error(node, f"`super()` has no method `{func.attr}`")

    def call(self: Walker, node: ast.Call, callee: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
        from wsemu.frontend.walker import TooDeep

        try:
            match callee:
                case Closure():
                    return self.walk_closure(callee, args, kwargs, node)
                case Bound():
                    return self.call_bound(node, callee, args, kwargs)
                case Static():
                    return self.call_static(node, callee.object, args, kwargs)
        except TooDeep as error:
            self.b.graph.traps.append(str(error))
            self.b.finish(self.b.block, "trap", len(self.b.graph.traps) - 1)
            self.reachable = False
            self.b.open()
            return Unreached()
        raise self.error(node, f"{describe(callee)} is not a function")

    def call_bound(self: Walker, node: ast.Call, callee: Bound, args: list[Value], kwargs: dict[str, Value]) -> Value:
        receiver = callee.receiver
        if callee.name.startswith("super ") and isinstance(receiver, TupleValue):
            object_, parent = receiver.items
            assert isinstance(parent, Static)
            return self.call_method(object_, parent.object, callee.name[6:], args, kwargs, node)
        if isinstance(receiver, ArrayValue):
            return arrays.method(self.b, receiver, callee.name, args)
        if isinstance(receiver, (Scalar, ComplexValue)):
            return library.method(self.library_call(callee.name, args, kwargs), receiver, callee.name)
        cls = receiver.cls if isinstance(receiver, PatternValue) else type(receiver.object)  # type: ignore[attr-defined]
        return self.call_method(receiver, cls, callee.name, args, kwargs, node)

    def library_call(self: Walker, name: str, args: list[Value], kwargs: dict[str, Value]) -> library.Call:
        return library.Call(self.b, args, kwargs, arrays, self, name)

    def call_static(self: Walker, node: ast.Call, obj: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
        own = OWN.get(obj) if _hashable(obj) else None
        if own is not None:
            return own(self, node, args, kwargs)
        handler = library.find(obj)
        if handler is not None:
            return handler(self.library_call(getattr(obj, "__name__", "function"), args, kwargs))
        function = getattr(obj, "py_func", obj)
        if isinstance(function, FunctionType):
            return self.walk_function(function, args, kwargs, node)
        if isinstance(obj, type):
            return self.construct(obj, args, kwargs, node)
        name = getattr(obj, "__qualname__", None) or getattr(obj, "__name__", repr(obj))
        module = getattr(obj, "__module__", "") or ""
        what = f"`{module}.{name}`" if module and module != "builtins" else f"`{name}`"
        if isinstance(obj, (BuiltinFunctionType, ModuleType)) or callable(obj):
            raise self.unsupported(node, f"unknown function {what} in a kernel", "call what `wsemu.cuda`, `wsemu.ptx` and `math` have")
        raise self.error(node, f"{what} is not a function")

    def to_host(self: Walker, value: Value) -> tuple[bool, Any]:
        """(known at compile time?, the host object) of a value."""
        if isinstance(value, Static):
            return True, value.object
        if isinstance(value, Scalar) and value.literal is not None:
            return True, value.literal if value.is_python_literal or value.type.kind in "biu" else np.dtype(value.type.name).type(value.literal)
        if isinstance(value, TupleValue):
            parts = [self.to_host(item) for item in value.items]
            return all(ok for ok, _ in parts), tuple(host for _, host in parts)
        return False, None


class Unreached(Value):
    """What a call that never returns gives."""

    __slots__ = ()


def _hashable(obj: Any) -> bool:
    try:
        hash(obj)
    except TypeError:
        return False
    return True


def _has_methods(cls: type) -> bool:
    """A class with plain methods of its own, other than what named tuples and dataclasses generate."""
    return any(
        isinstance(m, FunctionType) and not n.startswith("_") for base in cls.__mro__ for n, m in vars(base).items()
        if base not in (object, tuple) and n not in ("count", "index")
    )  # fmt: skip


def _is_pattern(obj: Any) -> bool:
    return not isinstance(obj, (type, ModuleType, FunctionType, BuiltinFunctionType)) and not hasattr(obj, "py_func") and _has_methods(type(obj))


# -- builtins that work on the walk itself -------------------------------------------------------------------------------------
def _range(w: Walker, node: ast.Call, args: list[Value], kwargs: dict[str, Value]) -> Value:
    if kwargs or not 1 <= len(args) <= 3:
        raise w.error(node, f"`range` got {len(args)} arguments", "give stop, or start and stop, or start, stop and step")
    numbers = []
    for value in args:
        if not isinstance(value, Scalar) or value.type.kind not in "iub":
            raise w.error(node, f"`range` of {describe(value)}", "convert it with `int(...)`")
        numbers.append(value)
    types = {v.type for v in numbers}
    if types == {int32}:
        type_ = int32
    elif all(t.kind == "u" for t in types):
        type_ = uint64
    else:
        type_ = int64
    cast = [arithmetic.cast(w.b, v, type_) for v in numbers]
    zero, one = constant(type_, 0), constant(type_, 1)
    start, stop = (zero, cast[0]) if len(cast) == 1 else (cast[0], cast[1])
    step = cast[2] if len(cast) == 3 else one
    if isinstance(step, Scalar) and step.literal == 0:
        raise w.error(node, "`range` with a step of 0", "give a step other than 0")
    return RangeValue(start, stop, step)  # type: ignore[arg-type]


def _len(w: Walker, node: ast.Call, args: list[Value], kwargs: dict[str, Value]) -> Value:
    if len(args) == 1 and isinstance(args[0], ArrayValue) and args[0].ndim:
        return args[0].shape[0]
    if len(args) == 1:
        return constant(int64, len(w.items_of(node, args[0])))
    raise w.error(node, f"`len` got {len(args)} arguments")


def _enumerate(w: Walker, node: ast.Call, args: list[Value], kwargs: dict[str, Value]) -> Value:
    start = args[1] if len(args) > 1 else kwargs.get("start", literal(0))
    items = w.items_of(node, args[0])
    numbers = (arithmetic.binary(w.b, "+", start, literal(n)) for n in range(len(items)))
    return TupleValue(tuple(TupleValue((n, item)) for n, item in zip(numbers, items, strict=True)))


def _zip(w: Walker, node: ast.Call, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return TupleValue(tuple(TupleValue(tuple(items)) for items in zip(*(w.items_of(node, a) for a in args), strict=False)))


def _tuple(w: Walker, node: ast.Call, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return TupleValue(w.items_of(node, args[0]) if args else ())


def _reversed(w: Walker, node: ast.Call, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return TupleValue(w.items_of(node, args[0])[::-1])


def _print(w: Walker, node: ast.Call, args: list[Value], kwargs: dict[str, Value]) -> Value:
    span = w.frame.source.span(node)
    note = f"`print` at {span.file}:{span.line} has no effect here"
    if note not in w.notes:
        w.notes.append(note)
    return Static(None)


def _isinstance(w: Walker, node: ast.Call, args: list[Value], kwargs: dict[str, Value]) -> Value:
    known, host = w.to_host(args[0])
    ok, types = w.to_host(args[1]) if len(args) == 2 else (False, None)
    if not ok:
        raise w.error(node, "`isinstance` of unknown types", "give classes known outside the kernel")
    if known:
        return constant(boolean, isinstance(host, types))
    if isinstance(args[0], PatternValue):
        return constant(boolean, issubclass(args[0].cls, types))
    kinds: dict[str, type] = {"i": int, "u": int, "f": float, "b": bool, "c": complex}
    wanted = types if isinstance(types, tuple) else (types,)
    if isinstance(args[0], (Scalar, ComplexValue)):
        return constant(boolean, kinds[args[0].type.kind] in wanted)
    return constant(boolean, isinstance(args[0], TupleValue) and tuple in wanted)


OWN: dict[Any, Callable[..., Value]] = {
    range: _range, len: _len, enumerate: _enumerate, zip: _zip, tuple: _tuple, reversed: _reversed, print: _print, isinstance: _isinstance,
}  # fmt: skip
"""builtins whose meaning needs the walker; the others are in `library`"""

assert register is not None
