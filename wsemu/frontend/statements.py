"""Statements of the kernel dialect."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from wsemu.errors import KernelError
from wsemu.frontend import arithmetic, arrays, joining
from wsemu.frontend.graph import Block
from wsemu.frontend.joining import Edge, Environment
from wsemu.frontend.promotion import unify
from wsemu.frontend.scalars import both, constant, describe, either, register, scalar_cast, truth
from wsemu.frontend.values import (
    ArrayValue,
    Closure,
    ComplexValue,
    RangeValue,
    RecordValue,
    Scalar,
    SliceValue,
    Static,
    TupleValue,
    TypedVariable,
    Value,
    int64,
)

if TYPE_CHECKING:
    from wsemu.frontend.walker import Walker

UNSUPPORTED: dict[type[ast.AST], tuple[str, str]] = {
    ast.Try: ("`try` in a kernel", "test for the condition with `if`"),
    ast.With: ("`with` in a kernel", "write its calls one by one"),
    ast.Import: ("`import` in a kernel", "import outside the kernel"),
    ast.ImportFrom: ("`import` in a kernel", "import outside the kernel"),
    ast.ClassDef: ("a class in a kernel", "define it outside the kernel"),
    ast.Delete: ("`del` in a kernel", "drop the statement: names need no deleting"),
    ast.Global: ("`global` in a kernel", "pass an array, and store into it"),
    ast.Nonlocal: ("`nonlocal` in a kernel", "return the value instead"),
    ast.AsyncFor: ("`async for` in a kernel", "use `for`"),
    ast.AsyncWith: ("`async with` in a kernel", "write its calls one by one"),
    ast.AsyncFunctionDef: ("`async def` in a kernel", "use `def`"),
}
OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**", ast.LShift: "<<",
    ast.RShift: ">>", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^",
}  # fmt: skip


class Widen(Exception):
    """The body of a loop widened a variable: walk it again."""


class Statements:
    """One method per statement."""

    def suite(self: Walker, body: list[ast.stmt]) -> None:
        for statement in body:
            if not self.reachable:
                return
            self.statement(statement)

    def statement(self: Walker, node: ast.stmt) -> None:
        handler: Callable[[Any], None] | None = getattr(self, f"do_{type(node).__name__}", None)
        if handler is None:
            what, remedy = UNSUPPORTED.get(type(node), (f"`{type(node).__name__}` in a kernel", "rewrite it with simpler statements"))
            raise self.unsupported(node, what, remedy)
        self.at(node)
        try:
            handler(node)
        except KernelError as error:
            raise self.locate(error, self.node or node) from error.__cause__

    # -- simple statements ---------------------------------------------------------------------------------------------------
    def do_Pass(self: Walker, node: ast.Pass) -> None:
        pass

    def do_Expr(self: Walker, node: ast.Expr) -> None:
        if not (isinstance(node.value, ast.Constant) and isinstance(node.value.value, (str, type(Ellipsis)))):
            self.evaluate(node.value)

    def do_Assign(self: Walker, node: ast.Assign) -> None:
        first = node.targets[0]
        self.target = first.id if isinstance(first, ast.Name) else ""
        value = self.evaluate(node.value)
        self.target = ""
        for target in node.targets:
            self.assign(target, value)

    def do_AnnAssign(self: Walker, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.target = node.target.id if isinstance(node.target, ast.Name) else ""
            value = self.evaluate(node.value)
            self.target = ""
            self.assign(node.target, value)

    def do_AugAssign(self: Walker, node: ast.AugAssign) -> None:
        op = OPERATORS.get(type(node.op))
        if op is None:
            raise self.unsupported(node, "this operator in a kernel", "use +, -, *, /, //, %, **, <<, >>, &, | or ^")
        if isinstance(node.target, ast.Name):
            value = arithmetic.binary(self.b, op, self.read_name(node.target, node.target.id), self.evaluate(node.value))
            self.assign(node.target, value)
        elif isinstance(node.target, ast.Subscript):
            container, index = self.evaluate(node.target.value), self.index(node.target.slice)
            self.at(node.target)
            old = self.subscript(node.target, container, index)
            if isinstance(old, ArrayValue):
                raise self.unsupported(node, "`+=` on a whole array or slice", "loop over its elements")
            value = arithmetic.binary(self.b, op, old, self.evaluate(node.value))
            self.at(node.target)
            self.store_item(node.target, container, index, value)
        else:
            old = self.evaluate(node.target)
            self.assign(node.target, arithmetic.binary(self.b, op, old, self.evaluate(node.value)))

    def do_Return(self: Walker, node: ast.Return) -> None:
        value = Static(None) if node.value is None else self.evaluate(node.value)
        self.frame.returns.append((self.b.block, value))
        self.reachable = False

    def do_Break(self: Walker, node: ast.Break) -> None:
        self.frame.loops[-1].breaks.append((self.b.block, self.env))
        self.reachable = False

    def do_Continue(self: Walker, node: ast.Continue) -> None:
        self.frame.loops[-1].continues.append((self.b.block, self.env))
        self.reachable = False

    def do_Assert(self: Walker, node: ast.Assert) -> None:
        """A thread that fails an assertion ends, as Numba compiles it without `debug`."""
        condition = self.condition(node.test)
        if condition.literal is not None:
            if not condition.literal:
                self.do_Raise(node)
            return
        start, env = self.b.block, self.env
        failed = self.b.open()
        self.b.finish(failed, "exit")
        after = self.b.open()
        self.b.branch(start, register(self.b, condition), after, failed)
        self.env = dict(env)

    def do_Raise(self: Walker, node: ast.stmt) -> None:
        self.b.finish(self.b.block, "exit")
        self.reachable = False

    def do_FunctionDef(self: Walker, node: ast.FunctionDef) -> None:
        defaults = self.closure_defaults(node.args)
        self.env[node.name] = Closure(node, (self.frame, self.env, defaults))

    # -- assignment ----------------------------------------------------------------------------------------------------------
    def assign(self: Walker, target: ast.expr, value: Value) -> None:
        """Bind a name, store an element, or unpack."""
        match target:
            case ast.Name():
                self.env[target.id] = joining.used(value, target.id)
                if isinstance(value, (Scalar, ComplexValue)):
                    self.variables.append(TypedVariable(target.id, target.lineno, value.type.name))
            case ast.Tuple() | ast.List():
                self.unpack(target, value)
            case ast.Subscript():
                container, index = self.evaluate(target.value), self.index(target.slice)
                self.at(target)
                self.store_item(target, container, index, value)
            case ast.Attribute():
                self.store_field(target, value)
            case _:
                raise self.unsupported(target, "this assignment target in a kernel", "assign to names and elements")

    def unpack(self: Walker, target: ast.Tuple | ast.List, value: Value) -> None:
        for element in target.elts:
            if isinstance(element, ast.Starred):
                raise self.unsupported(element, "`*` in an assignment", "name each item, or index the tuple")
        items = self.items_of(target, value)
        if len(items) != len(target.elts):
            raise self.error(target, f"{len(items)} values for {len(target.elts)} names")
        for element, item in zip(target.elts, items, strict=True):
            self.assign(element, item)

    def store_item(self: Walker, node: ast.expr, container: Value, index: Value, value: Value) -> None:
        if isinstance(container, RecordValue) and isinstance(index, Static) and isinstance(index.object, str):
            dtype, address, offset = arrays.field(self.b, container, index.object)
            arrays.write(self.b, dtype, address, offset, container, value)
            return
        if not isinstance(container, ArrayValue):
            raise self.error(node, f"{describe(container)} has no elements to assign", "use an array")
        items = arrays.indices_of(container, index)
        if len(items) == container.ndim and not any(isinstance(item, SliceValue) for item in items):
            arrays.store(self.b, container, items, value)
        else:
            self.fill(node, arrays.view_of(self.b, container, items), value)

    def store_field(self: Walker, target: ast.Attribute, value: Value) -> None:
        record = self.evaluate(target.value)
        if not isinstance(record, RecordValue):
            raise self.error(target, f"{describe(record)} has no attribute that a kernel may assign", "assign to an array element")
        dtype, address, offset = arrays.field(self.b, record, target.attr)
        self.at(target)
        arrays.write(self.b, dtype, address, offset, record, value)

    def fill(self: Walker, node: ast.expr, view: ArrayValue, value: Value) -> None:
        """`view[...] = value`: a number into every element, or an array element by element."""

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
                self.counted(node, span, lambda i: nest(axis + 1, [*indices, i]), [], None, False)

        if isinstance(value, ArrayValue) and value.ndim > view.ndim:
            raise self.error(node, f"`{value.name}` has more dimensions than what it is assigned to")
        nest(0, [])

    # -- branches ------------------------------------------------------------------------------------------------------------
    def do_If(self: Walker, node: ast.If) -> None:
        condition = self.condition(node.test)
        if condition.literal is not None:
            self.suite(node.body if condition.literal else node.orelse)
            return
        self.branch(condition, lambda: self.suite(node.body), (lambda: self.suite(node.orelse)) if node.orelse else None)

    def branch(self: Walker, condition: Scalar, then: Callable[[], None], other: Callable[[], None] | None) -> None:
        """Walk two arms and go on where they meet."""
        start, env = self.b.block, self.env
        predicate = register(self.b, condition)
        edges: list[Edge] = []

        def arm(walk: Callable[[], None]) -> Block:
            block = self.b.open()
            self.b.push()
            self.env = dict(env)
            self.reachable = True
            walk()
            if self.reachable:
                edges.append((self.b.block, self.env))
            self.b.pop()
            return block

        taken = arm(then)
        if other is not None:
            not_taken = arm(other)
            self.b.branch(start, predicate, taken, not_taken)
        else:
            start.end = "bra"
            edges.append((start, env))
        self.reachable = bool(edges)
        if not edges:
            return
        self.env = joining.join(self.b, edges)
        if other is None:
            self.b.branch(start, predicate, taken, self.b.block)

    def do_Match(self: Walker, node: ast.Match) -> None:
        subject = self.evaluate(node.subject)
        self.match_cases(node, subject, list(node.cases))

    def match_cases(self: Walker, node: ast.Match, subject: Value, cases: list[ast.match_case]) -> None:
        if not cases:
            return
        case, rest = cases[0], cases[1:]
        condition = self.pattern(case.pattern, subject)
        if case.guard is not None:
            condition = both(self.b, condition, self.condition(case.guard))
        if condition.literal is not None:
            if condition.literal:
                self.suite(case.body)
            else:
                self.match_cases(node, subject, rest)
            return
        self.branch(condition, lambda: self.suite(case.body), lambda: self.match_cases(node, subject, rest))

    def pattern(self: Walker, pattern: ast.pattern, subject: Value) -> Scalar:
        match pattern:
            case ast.MatchValue():
                return arithmetic.compare(self.b, "==", subject, self.evaluate(pattern.value))
            case ast.MatchOr():
                result = self.pattern(pattern.patterns[0], subject)
                for other in pattern.patterns[1:]:
                    result = either(self.b, result, self.pattern(other, subject))
                return result
            case ast.MatchAs(pattern=None):
                if pattern.name is not None:
                    self.env[pattern.name] = subject
                return truth(self.b, constant(int64, 1))
        raise self.unsupported(pattern, "this pattern of `match`", "match on numbers, `|` and `_`")

    # -- loops ---------------------------------------------------------------------------------------------------------------
    def do_While(self: Walker, node: ast.While) -> None:
        self.loop(node, node.body, node.orelse, lambda: self.while_once(node))

    def loop(self: Walker, node: ast.AST, body: list[ast.stmt], orelse: list[ast.stmt], once: Callable[[], list[Edge]]) -> None:
        """Walk a loop until its types hold, then its else clause; go on after it."""
        from wsemu.frontend.walker import Loop

        frame = self.frame
        graph = self.b.graph
        start, env, mark = self.b.block, self.env, len(graph.blocks)
        shared = (len(graph.shared), len(graph.locals), len(self.variables), len(graph.traps))
        returns = len(frame.returns)
        while True:
            frame.loops.append(Loop([], []))
            depth = len(self.b.scopes)
            try:
                exits = once()
                break
            except Widen:
                while len(self.b.scopes) > depth:
                    self.b.pop()
                del graph.blocks[mark:], frame.returns[returns:]
                del self.variables[shared[2] :], graph.traps[shared[3] :]
                self.b.block, self.env, self.reachable = start, dict(env), True
                start.end, start.successors = "jump", ()
            finally:
                done = frame.loops.pop()
        breaks = done.breaks
        if orelse and exits:
            self.meet(exits)
            self.suite(orelse)
            exits = [(self.b.block, self.env)] if self.reachable else []
        self.meet([*exits, *breaks])

    def meet(self: Walker, edges: list[Edge]) -> None:
        """Go on where these edges meet; conditional exits get their target now."""
        self.reachable = bool(edges)
        if not edges:
            return
        self.env = joining.join(self.b, edges)
        for source, _ in edges:
            if source.end == "bra" and source.successors[1] == -1:
                source.successors = (source.successors[0], self.b.block.index)

    def header(
        self: Walker, node: ast.AST, names: list[str]
    ) -> tuple[Block, Block, dict[str, joining.Carried], dict[str, Any]]:
        """Open a loop's first block: phis for the names that its body assigns."""
        source, env = self.b.block, self.env
        block = self.b.open()
        self.b.jump(source, block)
        self.b.push(source)
        wider = self.widened.setdefault((id(node), self.b.stack), {})
        carried = {}
        self.env = dict(env)
        for name in names:
            if name not in env and name in wider:
                self.env[name] = constant(wider[name], 0)
            if name in self.env:
                carried[name] = joining.carry(self.b, block, source, self.env[name], wider.get(name))
                self.env[name] = carried[name].value
        return block, source, carried, wider

    def back(self: Walker, header: Block, carried: dict[str, joining.Carried], wider: dict[str, Any], names: list[str]) -> None:
        """Close the loop from the present block: fill in the phis, or ask for another walk with wider types."""
        again = False
        for name in names:
            value = self.env.get(name)
            if name not in carried:
                if value is not None and name in self.frame.undefined and isinstance(value, Scalar):
                    wider[name] = value.type
                    self.frame.undefined.discard(name)
                    again = True
                continue
            again |= self.widens(name, carried[name].value, value, wider)
        if again:
            raise Widen
        for name, entry in carried.items():
            now = joining.leaves(self.env[name])
            for (made, type_), leaf in zip(entry.phis, now, strict=True):
                if type_ is not None and isinstance(leaf, Scalar):
                    leaf = register(self.b, scalar_cast(self.b, leaf, type_))
                made.incoming[self.b.block.index] = leaf

    def widens(self: Walker, name: str, assumed: Value, now: Value | None, wider: dict[str, Any]) -> bool:
        """Whether the body gives a variable a wider type than was assumed; the new one is remembered."""
        if now is None or now == assumed:
            return False
        if isinstance(assumed, (Scalar, ComplexValue)) and isinstance(now, (Scalar, ComplexValue)):
            type_ = unify(assumed.type, now.type)
            if type_ is None:
                raise KernelError(f"`{name}` is {assumed.type} before the loop and {now.type} after its body", remedy="convert to one type")
            if type_ != assumed.type:
                wider[name] = type_
                return True
            return False
        if isinstance(assumed, TupleValue) and isinstance(now, TupleValue) and len(assumed.items) == len(now.items):
            found = False
            for a, v in zip(assumed.items, now.items, strict=True):
                if isinstance(a, Scalar) and isinstance(v, Scalar) and unify(a.type, v.type) != a.type:
                    wider[name] = unify(a.type, v.type)
                    found = True
            return found
        if not joining.same_shape(assumed, now):
            self.env[name] = joining.Ambiguous(assumed, now)
            raise KernelError(
                f"`{name}` is {describe(assumed)} before the loop and {describe(now)} after its body", remedy="use two names"
            )
        return False

    def while_once(self: Walker, node: ast.While) -> list[Edge]:
        from wsemu.frontend.walker import _assigned

        names = _assigned(ast.Module(body=[*node.body, ast.Expr(node.test)], type_ignores=[]))
        block, _, carried, wider = self.header(node, names)
        self.at(node.test)
        condition = self.condition(node.test)
        exits: list[Edge] = []
        test, env = self.b.block, self.env
        if condition.literal is None:
            body = self.b.open()
            test.end, test.predicate, test.successors = "bra", register(self.b, condition), (body.index, -1)
            test.span, test.stack = self.b.span, self.b.stack
            exits.append((test, env))
            self.env = dict(env)
        elif not condition.literal:
            self.b.pop()
            return [(test, env)]
        self.b.push()
        self.suite(node.body)
        if self.reachable:
            self.frame.loops[-1].continues.append((self.b.block, self.env))
        self.b.pop()
        self.latch(block, carried, wider, names)
        self.b.pop()
        self.reachable = True
        return exits

    def latch(self: Walker, block: Block, carried: dict[str, joining.Carried], wider: dict[str, Any], names: list[str]) -> bool:
        """Where all ways back to the header meet; False if there is none."""
        continues = self.frame.loops[-1].continues
        if not continues:
            return False
        self.reachable = True
        if len(continues) == 1:
            self.b.block, self.env = continues[0]
        else:
            self.env = joining.join(self.b, continues)
        self.back(block, carried, wider, names)
        self.b.jump(self.b.block, block)
        return True

    def do_For(self: Walker, node: ast.For) -> None:
        from wsemu.frontend.walker import _assigned

        iterable = self.evaluate(node.iter)
        if isinstance(iterable, RangeValue):
            names = _assigned(ast.Module(body=[*node.body], type_ignores=[]))
            names += [n for n in _assigned(ast.Expr(node.target)) if n not in names]  # type: ignore[arg-type]
            self.counted(node, iterable, lambda i: self.for_body(node, i), names, node, True)
        elif isinstance(iterable, ArrayValue) and iterable.ndim >= 1:
            array = iterable
            names = _assigned(ast.Module(body=[*node.body], type_ignores=[]))
            names += [n for n in _assigned(ast.Expr(node.target)) if n not in names]  # type: ignore[arg-type]
            span = RangeValue(constant(int64, 0), array.shape[0], constant(int64, 1))
            self.counted(node, span, lambda i: self.for_body(node, arrays.subscript(self.b, array, i)), names, node, True)
        else:
            self.unrolled(node, self.items_of(node.iter, iterable))

    def for_body(self: Walker, node: ast.For, item: Value) -> None:
        self.assign(node.target, item)
        self.suite(node.body)

    def unrolled(self: Walker, node: ast.For, items: tuple[Value, ...]) -> None:
        """A loop over a tuple: its body once for each item."""
        from wsemu.frontend.walker import Loop

        breaks: list[Edge] = []
        for item in items:
            if not self.reachable:
                break
            self.frame.loops.append(Loop([], []))
            self.for_body(node, item)
            done = self.frame.loops.pop()
            edges = [*done.continues, *([(self.b.block, self.env)] if self.reachable else [])]
            breaks += done.breaks
            self.reachable = bool(edges)
            if done.continues:
                self.env = joining.join(self.b, edges)
        if self.reachable and node.orelse:
            self.suite(node.orelse)
        if breaks:
            edges = [*breaks, *([(self.b.block, self.env)] if self.reachable else [])]
            self.reachable = True
            self.env = joining.join(self.b, edges)

    def counted(
        self: Walker,
        node: ast.AST,
        span: RangeValue,
        body: Callable[[Scalar], None],
        names: list[str],
        loop: ast.For | None,
        scoped: bool,
    ) -> None:
        """A loop over a range, tested at its end; a guard before it if it may run zero times."""
        first = self.in_range(span, span.start)
        if first.literal is not None and not first.literal:
            if loop is not None:
                self.suite(loop.orelse)
            return
        orelse = loop.orelse if loop is not None else []
        self.loop(node, [], orelse, lambda: self.counted_once(node, span, body, names, first))

    def in_range(self: Walker, span: RangeValue, counter: Scalar) -> Scalar:
        """Whether the counter has not reached the end."""
        up = arithmetic.compare(self.b, "<", counter, span.stop)
        if span.step.literal is not None:
            return up if span.step.literal > 0 else arithmetic.compare(self.b, ">", counter, span.stop)
        rising = arithmetic.compare(self.b, ">", span.step, constant(span.step.type, 0))
        falling = arithmetic.compare(self.b, "<", span.step, constant(span.step.type, 0))
        down = arithmetic.compare(self.b, ">", counter, span.stop)
        return either(self.b, both(self.b, rising, up), both(self.b, falling, down))

    def counted_once(
        self: Walker, node: ast.AST, span: RangeValue, body: Callable[[Scalar], None], names: list[str], first: Scalar
    ) -> list[Edge]:
        exits: list[Edge] = []
        if first.literal is None:
            guard, env = self.b.block, self.env
            preheader = self.b.open()
            guard.end, guard.predicate, guard.successors = "bra", register(self.b, first), (preheader.index, -1)
            guard.span, guard.stack = self.b.span, self.b.stack
            exits.append((guard, env))
            self.env = dict(env)
        self.b.push()  # the preheader runs only where the guard holds
        place = self.b.span
        block, source, carried, wider = self.header(node, names)
        type_ = span.start.type
        counter_phi = joining.carry(self.b, block, source, Scalar(type_, register(self.b, span.start)), None)
        counter = counter_phi.value
        assert isinstance(counter, Scalar)
        self.b.push()
        body(counter)
        if self.reachable:
            self.frame.loops[-1].continues.append((self.b.block, self.env))
        self.b.pop()
        self.close_counted(span, block, carried, wider, names, counter_phi, place, exits)
        self.b.pop()
        self.b.pop()
        self.reachable = True
        return exits

    def close_counted(
        self: Walker,
        span: RangeValue,
        block: Block,
        carried: dict[str, joining.Carried],
        wider: dict[str, Any],
        names: list[str],
        counter_phi: joining.Carried,
        place: int,
        exits: list[Edge],
    ) -> None:
        """Count on, and go back while the counter is in range."""
        continues = self.frame.loops[-1].continues
        if not continues:
            return
        self.reachable = True
        if len(continues) == 1:
            self.b.block, self.env = continues[0]
        else:
            self.env = joining.join(self.b, continues)
        self.b.span = place
        counter = counter_phi.value
        assert isinstance(counter, Scalar)
        operation = f"add.{counter.type.register}"
        following = Scalar(counter.type, self.b.emit(operation, register(self.b, counter), register(self.b, span.step)))
        self.back(block, carried, wider, names)
        made, _ = counter_phi.phis[0]
        made.incoming[self.b.block.index] = register(self.b, following)
        more = self.in_range(span, following)
        latch = self.b.block
        latch.end, latch.predicate, latch.successors = "bra", register(self.b, more), (block.index, -1)
        latch.span, latch.stack = self.b.span, self.b.stack
        exits.append((latch, self.env))


__all__ = ["Environment", "Statements"]
