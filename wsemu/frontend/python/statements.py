"""Statements of the kernel dialect, except loops."""

# mypy: disable-error-code="misc"
# (`self` in the methods of this mixin is the complete `Walker`)
from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from wsemu.frontend.assemble.graph import Block
from wsemu.frontend.python import arithmetic, arrays, joining, lifetimes, stepping, text, views
from wsemu.frontend.python.expressions import BINARY
from wsemu.frontend.python.frames import NONE, Unreachable
from wsemu.frontend.python.joining import Edge
from wsemu.frontend.python.pruning import (
    Known,
    constant_object,
    decide_branch,
    fold_comparison,
    mark_value,
    unmark_value,
)
from wsemu.frontend.python.scalars import both, constant, describe, either, register
from wsemu.frontend.python.syntax import (
    assigned_names,
    assignment_targets,
    collect_names,
    gives_no_types,
    is_folded,
    stored_names,
)
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
    TextValue,
    TupleValue,
    TypedVariable,
    Unread,
    Value,
)
from wsemu.language.numbers import boolean, int64
from wsemu.model.data import replace
from wsemu.model.errors import KernelError
from wsemu.model.isa import ASSERTS, FAILS, RAISES
from wsemu.model.own import PATTERNS
from wsemu.model.program import Raised

if TYPE_CHECKING:
    from wsemu.frontend.python.walker import Walker

UNSUPPORTED: dict[type[ast.AST], tuple[str, str]] = {
    ast.Try: ("`try` in a kernel", "test for the condition with `if`"),
    ast.With: ("`with` in a kernel", "write its calls one by one"),
    ast.Import: ("`import` in a kernel", "import outside the kernel"),
    ast.ImportFrom: ("`import` in a kernel", "import outside the kernel"),
    ast.ClassDef: ("a class in a kernel", "define it outside the kernel"),
    ast.Delete: ("`del` in a kernel", "drop the statement: names need no deleting"),
    ast.Nonlocal: ("`nonlocal` in a kernel", "return the value instead"),
    ast.AsyncFor: ("`async for` in a kernel", "use `for`"),
    ast.AsyncWith: ("`async with` in a kernel", "write its calls one by one"),
    ast.AsyncFunctionDef: ("`async def` in a kernel", "use `def`"),
}


def fits(w: Walker, pattern: ast.pattern, subject: Known | None) -> bool | None:
    """Return whether a pattern of `match` fits, if Numba decides this at compile time and so drops a branch; None if
    Numba keeps the branches."""
    match pattern:
        case ast.MatchValue():
            return fold_comparison(ast.Eq(), subject, constant_object(w, pattern.value))
        case ast.MatchOr():
            parts = [fits(w, part, subject) for part in pattern.patterns]
            return True if True in parts else None if None in parts else False
        case ast.MatchAs():
            return True if pattern.pattern is None else fits(w, pattern.pattern, subject)
    return None


class Statements:
    """Methods of `Walker`: one for each kind of statement."""

    def suite(self: Walker, body: list[ast.stmt]) -> None:
        """Walk statements in order, up to the first that is unreachable."""
        depth, loops = len(self.b.scopes), len(self.frame.loops)
        for statement in body:
            if not self.reachable:
                return
            try:
                self.statement(statement)
            except Unreachable:
                self.b.unwind(depth)
                del self.frame.loops[loops:]
                self.reachable = False

    def statement(self: Walker, node: ast.stmt) -> None:
        handler = self.statements.get(type(node))
        if handler is None:
            default = (f"`{type(node).__name__.lower()}` in a kernel", "rewrite it with simpler statements")
            raise self.unsupported_error(node, *UNSUPPORTED.get(type(node), default))
        self.at(node)
        if self.stepping and (self.frame.code is not None or self.frame.maker is not None):
            stepping.stop(self)
        start, env, depth, loops = self.b.block, self.env, len(self.b.scopes), len(self.frame.loops)
        if start.dead and gives_no_types(node) and self.frame.source.file.startswith(PATTERNS):
            return  # Numba accepts wsemu's own patterns
        try:
            handler(self, node)
        except KernelError as error:
            located = self.locate(error, self.node or node)
            if not start.dead:
                raise located from error.__cause__
            self.b.unwind(depth)
            del self.frame.loops[loops:]
            self.env = dict(env)
            self.leave_unread(node, located)

    def leave_unread(self: Walker, node: ast.stmt, error: KernelError) -> None:
        """Continue after a statement that never runs and that is not modeled: the variables that it assigns have no
        type."""
        unread = Unread(error)
        self.b.block, self.reachable = self.b.dead_end(), True
        self.env.update(dict.fromkeys(assignment_targets(node), unread))
        frame = self.frame
        kinds = {type(part) for part in ast.walk(node)}
        if ast.Return in kinds and len(self.frames) > 1:
            frame.returns.append((self.b.dead_end(), unread))
        if frame.loops and ast.Break in kinds:
            frame.loops[-1].breaks.append((self.b.dead_end(), dict(self.env)))
        if frame.loops and ast.Continue in kinds:
            frame.loops[-1].continues.append((self.b.dead_end(), dict(self.env)))

    # -- simple statements --------------------------------------------------------------------------------------------
    def do_Pass(self: Walker, node: ast.Pass) -> None:
        pass

    def do_Expr(self: Walker, node: ast.Expr) -> None:
        if not (isinstance(node.value, ast.Constant) and isinstance(node.value.value, (str, type(Ellipsis)))):
            self.evaluate(node.value)

    def do_Assign(self: Walker, node: ast.Assign) -> None:
        first = node.targets[0]
        if (
            isinstance(first, ast.Tuple)
            and isinstance(node.value, ast.Tuple)
            and len(first.elts) == len(node.value.elts)
        ):
            named = [
                self.evaluate_named(target, value) for target, value in zip(first.elts, node.value.elts, strict=True)
            ]
            if not all(isinstance(value, ast.Constant) or is_folded(value) for value in node.value.elts):
                named = [mark_value(self, value, made) for value, made in zip(node.value.elts, named, strict=True)]
            if not any(isinstance(value, ast.Starred) for value in node.value.elts):
                for target, item in zip(first.elts, named, strict=True):
                    self.assign(target, item, keep=True)
                for other in node.targets[1:]:
                    self.assign(other, TupleValue(tuple(named)))
                return
        value = mark_value(self, node.value, self.evaluate_named(first, node.value))
        storable = (Scalar, ComplexValue, ArrayValue, RecordValue, TextValue)
        if isinstance(first, ast.Subscript) and not isinstance(value, storable) and not text.is_text(value):
            what = f"{describe(value)} cannot be stored into an array"
            if isinstance(value, TupleValue):  # assigned to a slice or a record
                raise self.unsupported_error(node.value, what, "store numbers, one by one")
            raise self.operand_error(node.value, what, "give a number", value)
        for target in node.targets:
            self.assign(target, value, keep=True)

    def evaluate_named(self: Walker, target: ast.expr, node: ast.expr) -> Value:
        """Return the value of an expression; an array that it creates is named after the target."""
        self.target = target.id if isinstance(target, ast.Name) else ""
        value = self.evaluate(node)
        self.target = ""
        return value

    def do_AnnAssign(self: Walker, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.assign(
                node.target, mark_value(self, node.value, self.evaluate_named(node.target, node.value)), keep=True
            )

    def do_AugAssign(self: Walker, node: ast.AugAssign) -> None:
        op = BINARY.get(type(node.op))
        if op is None:
            raise self.unsupported_error(node, "`@=` in a kernel", "write the product as loops")
        match node.target:
            case ast.Name() as name:
                old = self.read_name(name, name.id)
                self.assign(name, self.operate(node, op, old, self.evaluate(node.value)))
            case ast.Subscript() as item:
                container, index = self.evaluate(item.value), self.index(item.slice)
                self.at(item)
                old = self.subscript(item, container, index)
                if isinstance(old, ArrayValue):
                    raise self.unsupported_error(item, f"`{op}=` on a whole array or slice", "loop over its elements")
                value = self.operate(node, op, old, self.evaluate(node.value))
                self.at(item)
                self.store_item(item, container, index, value)
            case ast.Attribute() as field:
                record = self.evaluate(field.value)
                self.at(field)
                old_field = self.attribute(record, field.attr, field)
                if old_field is None:
                    raise self.error(field, f"{describe(record)} has no attribute `{field.attr}`", "check the spelling")
                value = self.operate(node, op, old_field, self.evaluate(node.value))
                self.store_field(field, record, value)

    def operate(self: Walker, node: ast.AugAssign, op: str, old: Value, value: Value) -> Value:
        self.at(node)
        if isinstance(old, TupleValue) and isinstance(value, TupleValue) and op == "+":
            return TupleValue((*old.items, *value.items))
        self.check_divisor(op, value)
        return arithmetic.binary(self.b, op, old, value)

    def do_Return(self: Walker, node: ast.Return) -> None:
        value = NONE if node.value is None else self.evaluate(node.value)
        frame = self.frame
        if len(self.frames) == 1 and value is not NONE and not (isinstance(value, Static) and value.object is None):
            raise self.error(node.value or node, "a kernel returns a value", "store results in an array argument")
        if isinstance(value, ArrayValue) and lifetimes.is_own(frame, value):
            what = f"`{getattr(frame.source.node, 'name', 'lambda')}` returns its local array `{value.name}`"
            raise self.error(node, f"{what}, which ends with it", "pass the array in as an argument")
        if len(self.frames) == 1:  # a kernel's return ends the thread at once
            self.b.finish(self.b.block, "exit")
        else:
            frame.returns.append((self.b.block, self.env[frame.builds] if frame.builds else value))
        self.reachable = False

    def do_Assert(self: Walker, node: ast.Assert) -> None:
        """End the threads for which the assertion fails, as Numba compiles it without `debug`."""
        condition = self.condition(node.test)
        if condition.literal:
            return
        if condition.literal is False and self.side(node.test, condition) is not None:
            self.end_thread(self.failing(AssertionError, node.msg))
            return
        start, env = self.b.block, self.env
        failed = self.b.open()
        self.b.finish(failed, "exit", trap=self.failing(AssertionError, node.msg))
        after = self.b.open()
        after.dead = start.dead or condition.literal is not None
        self.b.branch(start, register(self.b, condition), after, failed)
        self.env = dict(env)

    def do_Raise(self: Walker, node: ast.Raise) -> None:
        """End the thread; with `debug`, the host raises the exception (otherwise Numba's code only returns)."""
        self.end_thread(self.raising(node.exc) if self.debug and node.exc is not None else FAILS)

    def end_thread(self: Walker, how: int) -> None:
        self.b.finish(self.b.block, "exit", trap=how)
        self.reachable = False

    def failing(self: Walker, kind: type[BaseException], message: ast.expr | None = None, text: str = "") -> int:
        """Return the `aux` of the exit of a thread that fails with an exception of this kind."""
        if not self.debug:
            return ASSERTS if kind is AssertionError else FAILS
        arguments: tuple[Any, ...] = (text,) if text else ()
        if message is not None:
            known, said = self.to_host(self.evaluate(message))
            arguments = (said,) if known else ()
        name = getattr(self.frame.source.node, "name", "<lambda>")
        raises = self.b.graph.raises
        raises.append(Raised(kind, arguments, name))
        return FAILS | len(raises) << RAISES

    def raising(self: Walker, node: ast.expr) -> int:
        """Return how a thread ends at a `raise` of a class, or of a call of a class with constant arguments."""
        callee = node.func if isinstance(node, ast.Call) else node
        known, kind = self.to_host(self.evaluate(callee))
        if not known or not isinstance(kind, type) or not issubclass(kind, BaseException):
            raise self.unsupported_error(
                node, "this `raise` in a kernel", "raise an exception's class, or a call of it"
            )
        hosts = [self.to_host(self.evaluate(argument)) for argument in getattr(node, "args", ())]
        how = self.failing(kind)
        raises = self.b.graph.raises
        raises[-1] = raises[-1]._replace(arguments=tuple(said for known, said in hosts if known))
        return how

    def fail_where(self: Walker, condition: Scalar, kind: type[BaseException], text: str) -> None:
        """End with an exception the threads for which a condition holds; the other threads continue."""
        if condition.literal is False:
            return
        start, env = self.b.block, self.env
        failed = self.b.open()
        self.b.finish(failed, "exit", trap=self.failing(kind, text=text))
        after = self.b.open()
        self.b.branch(start, register(self.b, condition), failed, after)
        self.env = dict(env)

    def do_FunctionDef(self: Walker, node: ast.FunctionDef) -> None:
        if node.decorator_list:
            raise self.unsupported_error(
                node.decorator_list[0], "a decorator in a kernel", "define the function outside the kernel"
            )
        defaults = self.closure_defaults(node.args)
        self.env[node.name] = Closure(node, (self.frame, self.env, defaults))

    # -- assignment ---------------------------------------------------------------------------------------------------
    def assign(self: Walker, target: ast.expr, value: Value, *, keep: bool = False) -> None:
        """Bind a name, store an element, or unpack a value.  With `keep`, a literal keeps the marks that record whether
        Numba also knows its value when it drops branches."""
        match target:
            case ast.Name():
                if type(value) is Scalar and value.literal is not None:  # copied: values are compared by identity
                    value = replace(value) if keep else unmark_value(replace(value))
                self.env[target.id] = self.frame.last[target.id] = joining.used(value, target.id)
                if isinstance(value, (Scalar, ComplexValue)):
                    self.variables.append(TypedVariable(target.id, target.lineno, value.type.name))
            case ast.Tuple() | ast.List():
                self.unpack(target, value)
            case ast.Subscript():
                container, index = self.evaluate(target.value), self.index(target.slice)
                self.at(target)
                self.store_item(target, container, index, value)
            case ast.Attribute():
                self.store_field(target, self.evaluate(target.value), value)
            case _:
                raise self.unsupported_error(
                    target, "this assignment target in a kernel", "assign to names and elements"
                )

    def unpack(self: Walker, target: ast.Tuple | ast.List, value: Value) -> None:
        for element in target.elts:
            if isinstance(element, ast.Starred):
                raise self.unsupported_error(element, "`*` in an assignment", "name each item, or index the tuple")
        items = self.as_many(target, value)
        if len(items) != len(target.elts):
            raise self.error(
                target, f"{len(items)} values for {len(target.elts)} names", "give as many names as values"
            )
        for element, item in zip(target.elts, items, strict=True):
            self.assign(element, item)

    def as_many(self: Walker, target: ast.Tuple | ast.List, value: Value) -> tuple[Value, ...]:
        """Return the items of an unpacked value; for an array whose extent the launch determines, one for each name."""
        if not isinstance(value, ArrayValue) or not value.ndim or value.shape[0].literal is not None:
            return self.tuple_items(target, value)
        count = len(target.elts)
        wrong = arithmetic.compare(self.b, "!=", value.shape[0], constant(int64, count))
        self.fail_where(wrong, ValueError, "unpacking of an array of another size")
        return tuple(views.subscript(self.b, value, constant(int64, n)) for n in range(count))

    def do_Global(self: Walker, node: ast.Global) -> None:
        """Do nothing, if the name is only read."""
        assigned = [name for name in node.names if name in assigned_names(self.frame.source.node)]
        if assigned:
            raise self.unsupported_error(node, "`global` in a kernel", "pass an array, and store into it")

    def store_item(self: Walker, node: ast.expr, container: Value, index: Value, value: Value) -> None:
        if isinstance(container, RecordValue) and isinstance(index, Static) and isinstance(index.object, str):
            dtype, address, offset = arrays.field(self.b, container, index.object)
            arrays.write(self.b, dtype, address, offset, container, value)
            return
        if isinstance(container, FlatValue):
            place = views.places(self.b, container.array, arrays.as_index(self.b, index, container.array.name))
            arrays.store(self.b, container.array, place, value)
            return
        if not isinstance(container, ArrayValue):
            raise self.error(node, f"{describe(container)} has no elements to assign", "use an array")
        if not container.writable:
            why = arrays.why_not_writable(container)
            raise self.error(node, f"`{container.name}` is {why}", "pass a writable array as an argument")
        items = views.expand_indices(container, index)
        if len(items) == container.ndim and not any(isinstance(item, SliceValue) for item in items):
            arrays.store(self.b, container, items, value)
        else:
            self.fill(node, views.make_view(self.b, container, items), value)

    def store_field(self: Walker, target: ast.Attribute, record: Value, value: Value) -> None:
        """Lower `record.field = value`, or an assignment to a field of the object that an `__init__` fills in."""
        match record:
            case RecordValue():
                self.at(target)
                dtype, address, offset = arrays.field(self.b, record, target.attr)
                self.at(target)
                arrays.write(self.b, dtype, address, offset, record, value)
            case PatternValue() if isinstance(target.value, ast.Name) and target.value.id == self.frame.builds:
                self.env[target.value.id] = PatternValue(record.cls, {**record.fields, target.attr: value})
            case PatternValue():
                raise self.error(target, f"a {record.cls.__name__} cannot be changed", "build another one")
            case _:
                what = f"{describe(record)} has no attribute that a kernel may assign"
                raise self.error(target, what, "assign to an array element")

    def fill(self: Walker, node: ast.expr, view: ArrayValue, value: Value) -> None:
        """Lower `view[...] = value`: store a number in every element, or an array element by element."""

        def one(indices: list[Value]) -> None:
            element = value
            if isinstance(value, ArrayValue):
                element = arrays.load(self.b, value, indices[len(indices) - value.ndim :])
            arrays.store(self.b, view, indices, element)

        def nest(axis: int, indices: list[Value]) -> None:
            if axis == view.ndim:
                one(indices)
            else:
                span = RangeValue(constant(int64, 0), view.shape[axis], constant(int64, 1))
                self.lower_range_loop(node, span, lambda i: nest(axis + 1, [*indices, i]), (), [])

        if isinstance(value, ArrayValue) and value.ndim > view.ndim:
            raise self.error(node, f"`{value.name}` has more dimensions than what it is assigned to", "index it")
        nest(0, [])

    # -- branches -----------------------------------------------------------------------------------------------------
    def do_If(self: Walker, node: ast.If) -> None:
        condition = self.condition(node.test)
        side = self.side(node.test, condition)
        if side is not None:
            self.suite(node.body if side else node.orelse)
            self.forget_merged(node)
            return
        self.branch(
            condition, lambda: self.suite(node.body), (lambda: self.suite(node.orelse)) if node.orelse else None
        )

    def forget_merged(self: Walker, node: ast.If | ast.While) -> None:
        """After a branch that Numba drops late, because it tests a variable with several assignments, treat the
        variables that its arms assign as unknown: their merged values still exist."""
        stores = stored_names(self.frame.source.node)
        if any(stores.get(name, 0) > 1 for name in collect_names(node.test)):
            for name in assignment_targets(node):
                if name in self.env:
                    self.env[name] = unmark_value(self.env[name])

    def branch(self: Walker, condition: Scalar, then: Callable[[], None], other: Callable[[], None] | None) -> None:
        """Walk two arms, and continue where they meet; if the condition is known, walk one of them only for its
        types."""
        start, env = self.b.block, self.env
        known = condition.literal
        if known is not None:
            other = other or (lambda: None)
        predicate = register(self.b, condition)
        place = self.b.span, self.b.stack
        edges: list[Edge] = []

        def arm(walk: Callable[[], None], side: bool) -> Block:
            block = self.b.open()
            block.dead = start.dead or (known is not None and bool(known) is not side)
            self.b.push()
            self.env = dict(env)
            self.reachable = True
            depth = len(self.b.scopes)
            try:
                walk()
            except Unreachable:
                self.b.unwind(depth)
                self.reachable = False
            if self.reachable:
                edges.append((self.b.block, self.env))
            self.b.pop()
            return block

        taken = arm(then, True)
        if other is not None:
            not_taken = arm(other, False)
            self.b.branch(start, predicate, taken, not_taken)
            start.span, start.stack = place
        else:
            start.end = "bra"
            edges.append((start, env))
        self.reachable = bool(edges)
        if not edges:
            return
        self.env = joining.join(self.b, edges)
        if other is None:
            self.b.branch(start, predicate, taken, self.b.block)
            start.span, start.stack = place

    def do_Match(self: Walker, node: ast.Match) -> None:
        subject = mark_value(self, node.subject, self.evaluate(node.subject))
        self.match_cases(subject, constant_object(self, node.subject), node.cases)

    def match_cases(self: Walker, subject: Value, found: Known | None, cases: list[ast.match_case]) -> None:
        """Walk the first case; the other cases are in the other arm of its branch."""
        if not cases:
            return
        case, rest = cases[0], cases[1:]
        self.at(case.pattern)
        condition = self.pattern(case.pattern, subject)
        parts = [fits(self, case.pattern, found)]
        if case.guard is not None:
            condition = both(self.b, condition, self.condition(case.guard))
            parts.append(decide_branch(self, case.guard))
        is_kept = None in parts and False not in parts and not self.is_own_library()
        if condition.literal is None or is_kept:
            self.branch(condition, lambda: self.suite(case.body), lambda: self.match_cases(subject, found, rest))
        elif condition.literal:
            self.suite(case.body)
        else:
            self.match_cases(subject, found, rest)

    def pattern(self: Walker, pattern: ast.pattern, subject: Value) -> Scalar:
        match pattern:
            case ast.MatchValue():
                return arithmetic.compare(self.b, "==", subject, self.evaluate(pattern.value))
            case ast.MatchOr():
                result = self.pattern(pattern.patterns[0], subject)
                for other in pattern.patterns[1:]:
                    result = either(self.b, result, self.pattern(other, subject))
                return result
            case ast.MatchAs():
                inner = constant(boolean, True) if pattern.pattern is None else self.pattern(pattern.pattern, subject)
                if pattern.name is not None:
                    self.env[pattern.name] = subject
                return inner
        raise self.unsupported_error(pattern, "this pattern of `match`", "match on numbers, `|` and `_`")

    # -- loops --------------------------------------------------------------------------------------------------------
