"""Loops: `while`, `for` over ranges and arrays, `for` over tuples.

A loop's body is walked with the types that variables have at its entry.  If the body turns out to widen a variable, or
to assign one that it reads earlier, the emitted code is dropped, and the body is walked again with the new types.
"""

# mypy: disable-error-code="misc"
from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from wsemu.frontend.assemble.graph import Block
from wsemu.frontend.python import arithmetic, joining, pruning
from wsemu.frontend.python.frames import Loop, Widen
from wsemu.frontend.python.joining import Carried, Edge, Environment
from wsemu.frontend.python.pruning import decide_branch
from wsemu.frontend.python.scalars import both, constant, either, register, scalar_cast
from wsemu.frontend.python.syntax import assigned_names, collect_names, has_continue, read_outside
from wsemu.frontend.python.values import ArrayValue, FlatValue, RangeValue, Scalar, Unread, Value
from wsemu.frontend.python.walk_builtins import Stepped, make_stepped
from wsemu.language.numbers import int64
from wsemu.model.data import dataclass

if TYPE_CHECKING:
    from wsemu.frontend.python.walker import Walker

Seeds = dict[str, Value]
"""variable -> a value of the type that it needs at the loop's header, found by an earlier walk"""


class Header:
    """A loop's first block, and the variables it carries."""

    __slots__ = ("block", "carried", "names", "seeds")

    def __init__(self, block: Block, names: tuple[str, ...], seeds: Seeds) -> None:
        self.block = block
        self.names = names
        self.seeds = seeds
        self.carried: dict[str, Carried] = {}


@dataclass(slots=True)
class Tested:
    """The test of a `while` loop."""

    peeled: bool
    """true if the loop is known to be entered, as in Numba"""
    at_end: bool = False
    """true if the test is walked at the loop's end as well, as Python compiles it, because variables have other types
    there"""


class Loops:
    """Methods of `Walker` for loops, `break` and `continue`."""

    def do_Break(self: Walker, node: ast.Break) -> None:
        self.frame.loops[-1].breaks.append((self.b.block, self.env))
        self.reachable = False

    def do_Continue(self: Walker, node: ast.Continue) -> None:
        self.frame.loops[-1].continues.append((self.b.block, self.env))
        self.reachable = False

    def do_While(self: Walker, node: ast.While) -> None:
        names = assigned_names(node)
        enters = self.enters(node, names)
        if enters is False:
            self.suite(node.orelse)
            self.forget_merged(node)
            return
        tested = Tested(peeled=bool(enters))
        self.loop(names, node.orelse, lambda: self.while_once(node, names, tested))

    def enters(self: Walker, node: ast.While, names: tuple[str, ...]) -> bool | None:
        """Return whether a loop is known to be entered, as in Numba: Python's compiler tests once before the loop and
        at its end.

        A `continue` goes back to the first test.
        """
        if self.is_own_library() or (has_continue(node) and collect_names(node.test) & set(names)):
            return None
        return decide_branch(self, node.test)

    def do_For(self: Walker, node: ast.For) -> None:
        iterable = self.evaluate(node.iter)
        names = assigned_names(node)
        self.at(node.iter)
        match iterable:
            case RangeValue():
                self.lower_range_loop(node, iterable, lambda i: self.for_body(node, i), names, node.orelse)
            case ArrayValue() | FlatValue() | Stepped():
                items = make_stepped(self, node.iter, iterable)
                span = RangeValue(constant(int64, 0), items.count, constant(int64, 1))

                def body(i: Scalar) -> None:
                    self.at(node.iter)
                    self.for_body(node, items.item(i))

                self.lower_range_loop(node, span, body, names, node.orelse)
            case _:
                self.unroll_loop(node, self.tuple_items(node.iter, iterable))

    def for_body(self: Walker, node: ast.For, item: Value) -> None:
        self.assign(node.target, item)
        self.suite(node.body)

    # -- the common frame ---------------------------------------------------------------------------------------------
    def loop(self: Walker, names: tuple[str, ...], orelse: list[ast.stmt], once: Callable[[], list[Edge]]) -> None:
        """Walk a loop until its types hold, then its else clause; continue after it."""
        frame, graph = self.frame, self.b.graph
        start, env, mark, depth = self.b.block, self.env, len(graph.blocks), len(self.b.scopes)
        lists = (frame.returns, self.variables, graph.traps, frame.loops)
        lengths = [len(entries) for entries in lists]
        while True:
            done = Loop(names)
            frame.loops.append(done)
            try:
                exits = once()
                break
            except Widen:
                self.b.unwind(depth)
                del graph.blocks[mark:]
                for entries, length in zip(lists, lengths, strict=True):
                    del entries[length:]  # type: ignore[attr-defined]
                self.b.block, self.env, self.reachable = start, dict(env), True
                start.end, start.successors = "jump", ()
        frame.loops.pop()
        if orelse and exits:
            self.meet(exits)
            self.b.push()  # a `break` skips it
            self.suite(orelse)
            self.b.pop()
            exits = [(self.b.block, self.env)] if self.reachable else []
        self.meet([*exits, *done.breaks])

    def meet(self: Walker, edges: list[Edge]) -> None:
        """Continue in a new block, which becomes the target of these edges."""
        self.reachable = bool(edges)
        if not edges:
            return
        self.env = joining.join(self.b, edges)
        for source, _ in edges:
            if source.end == "bra" and source.successors[1] == -1:
                source.successors = (source.successors[0], self.b.block.index)

    def leave(self: Walker, predicate: Scalar, target: Block) -> Edge:
        """End the current block: branch to `target` if the predicate holds, otherwise out of the loop."""
        block = self.b.block
        block.end, block.predicate, block.successors = "bra", register(self.b, predicate), (target.index, -1)
        block.span, block.stack = self.b.span, self.b.stack
        return block, self.env

    def header(self: Walker, names: tuple[str, ...]) -> Header:
        """Open a loop's first block: phis for the names that its body assigns."""
        source, env = self.b.block, self.env
        block = self.b.open()
        self.b.jump(source, block)
        self.b.push(source)
        header = Header(block, names, self.seeds.setdefault((names, self.b.span, self.b.stack), {}))
        self.env = dict(env)
        for name in names:
            seed = header.seeds.get(name)
            value = env.get(name)
            if value is None and seed is not None:
                value = joining.blank(self.b, seed)
            if value is not None:
                made = header.carried[name] = joining.carry(self.b, block, source, value, seed)
                self.env[name] = made.value
                if name not in env or id(value) in self.b.partial:
                    self.b.partial[id(made.value)] = name, made.value
        return header

    # -- back edges ---------------------------------------------------------------------------------------------------
    def latch(self: Walker) -> bool:
        """Continue where all paths back to the header meet; return False if there is none."""
        if self.reachable:
            self.frame.loops[-1].continues.append((self.b.block, self.env))
        self.b.pop()
        continues = self.frame.loops[-1].continues
        if continues:
            self.reachable = True
            if len(continues) == 1:
                self.b.block, self.env = continues[0]
            else:
                self.env = joining.join(self.b, continues)
        return bool(continues)

    def back(self: Walker, header: Header) -> None:
        """Close the loop from the current block: complete the phis, or request another walk."""
        self.find_undefined(header)
        wider = [self.widens(name, entry.value, header.seeds) for name, entry in header.carried.items()]
        if any(wider):
            raise Widen
        for name, entry in header.carried.items():
            if isinstance(entry.value, (joining.Ambiguous, Unread)):  # the value has no type, and nothing is carried
                continue
            for (made, type_), leaf in zip(entry.phis, joining.leaves(self.env[name]), strict=True):
                if type_ is not None and isinstance(leaf, Scalar):
                    leaf = register(self.b, scalar_cast(self.b, leaf, type_))
                made.incoming[self.b.block.index] = leaf

    def find_undefined(self: Walker, header: Header) -> None:
        """Let names that the body reads before their assignment be carried from the next walk on, starting at zero.

        The types that this walk found for other variables are guesses, and are dropped.
        """
        found = {
            name: self.env[name]
            for name in header.names
            if name in self.frame.undefined and name not in header.carried and name in self.env
        }
        if not found:
            return
        for seeds in self.seeds.values():
            if not seeds.keys() & self.frame.undefined:
                seeds.clear()
        self.types_seen.clear()
        header.seeds.update(found)
        raise Widen

    def widens(self: Walker, name: str, assumed: Value, seeds: Seeds) -> bool:
        """Return whether the body gives a variable a wider type than was assumed; the new one is remembered."""
        now = self.env[name]
        if now is assumed or isinstance(assumed, (joining.Ambiguous, Unread)):
            return False
        wide = joining.widest(assumed, now) or joining.Ambiguous(assumed, now)
        if joining.same_types(wide, assumed):
            return False
        seeds[name] = wide
        return True

    # -- while --------------------------------------------------------------------------------------------------------
    def while_once(self: Walker, node: ast.While, names: tuple[str, ...], tested: Tested) -> list[Edge]:
        """Walk a `while` loop once, and return the edges that leave it because its condition fails."""
        self.at(node.test)
        if tested.at_end:
            return self.while_to_its_end(node, names)
        # the loop's header is its exit, so the phis of these variables are there
        later = read_outside(self.frame.source.node, node)
        self.frame.undefined.update(name for name in names if name in later and name not in self.env)
        header = self.header(names)
        condition = self.condition(node.test)
        exits: list[Edge] = []
        side = self.side(node.test, condition)
        if side is None:
            exits.append(self.enter_body(condition))
        elif not side:
            self.b.pop()
            return [(self.b.block, self.env)]
        self.b.push()
        self.suite(node.body)
        if self.latch():
            if tested.peeled and exits and self.narrows(header):
                tested.at_end = True
                raise Widen
            self.back(header)
            self.b.jump(self.b.block, header.block)
        self.b.pop()
        self.reachable = True
        return exits

    def enter_body(self: Walker, condition: Scalar) -> Edge:
        """Continue in the body of a loop if its condition holds, and return the edge that leaves the loop."""
        if condition.literal:
            env, self.env = self.env, dict(self.env)
            return self.b.dead_end(), env
        test, env = self.b.block, self.env
        body = self.b.open()
        body.dead = test.dead or condition.literal is not None
        self.b.block = test
        left = self.leave(condition, body)
        self.b.block, self.env = body, dict(env)
        return left

    def narrows(self: Walker, header: Header) -> bool:
        """Return whether a variable has another type at the end of a loop's body than at its beginning."""
        return any(not joining.alike(entry.value, self.env[name]) for name, entry in header.carried.items())

    def while_to_its_end(self: Walker, node: ast.While, names: tuple[str, ...]) -> list[Edge]:
        """Lower a loop that is known to be entered and is left only at its end, with the types at its end."""
        header = self.header(names)
        exits: list[Edge] = []
        self.b.push()
        self.suite(node.body)
        if self.latch():
            self.at(node.test)
            condition = self.condition(node.test)
            env = dict(self.env)
            self.back(header)
            exits.append((self.leave(condition, header.block)[0], env))
        self.b.pop()
        self.reachable = True
        return exits

    # -- for ----------------------------------------------------------------------------------------------------------
    def unroll_loop(self: Walker, node: ast.For, items: tuple[Value, ...]) -> None:
        """Lower a loop over a tuple: its body once for each item."""
        self.loop((), node.orelse, lambda: self.unrolled_once(node, items))

    def unrolled_once(self: Walker, node: ast.For, items: tuple[Value, ...]) -> list[Edge]:
        """Walk a loop over a tuple once, with the same types of variables at the start of each iteration, and return
        its exits."""
        self.at(node.iter)
        names = tuple(name for name in assigned_names(node) if name not in collect_names(node.target))
        seeds = self.seeds.setdefault((names, self.b.span, self.b.stack), {})
        before, self.env = self.env, dict(self.env)
        loop = self.frame.loops[-1]
        for item in items:
            self.hold(names, seeds)
            held = dict(self.env)
            done = Loop((), unrolled=True)
            self.frame.loops.append(done)
            self.b.push()  # values after a `continue` or `break` are unknown in the next iteration
            self.for_body(node, item)
            self.b.pop()
            self.frame.loops.pop()
            edges = [*done.continues, *([(self.b.block, self.env)] if self.reachable else [])]
            loop.breaks += done.breaks
            self.reachable = bool(edges)
            if not edges:
                return []
            if done.continues:
                self.env = joining.join(self.b, edges)
            if self.outgrows(names, held, seeds):
                raise Widen
        return [(self.b.block, self.env), (self.b.dead_end(), before)]

    def outgrows(self: Walker, names: tuple[str, ...], held: Environment, seeds: Seeds) -> bool:
        """Return whether an iteration widens the types of variables, and remember the wider types."""
        wider = False
        for name in names:
            old = held.get(name)
            if old is None or isinstance(old, (joining.Ambiguous, Unread)):
                continue
            wide = joining.widest(old, self.env[name]) or joining.Ambiguous(old, self.env[name])
            if not joining.alike(wide, old):
                seeds[name] = wide
                wider = True
        return wider

    def hold(self: Walker, names: tuple[str, ...], seeds: Seeds) -> None:
        """Give variables the types that an earlier walk needs."""
        for name in names:
            value, seed = self.env.get(name), seeds.get(name)
            if value is not None and seed is not None:
                try:
                    self.env[name] = pruning.unmark_value(joining.typed_as(self.b, value, seed))
                except joining.NoCommonType:
                    self.env[name] = joining.Ambiguous(value, seed)
            elif value is not None:
                self.env[name] = pruning.unmark_value(value)

    def lower_range_loop(
        self: Walker,
        node: ast.AST,
        span: RangeValue,
        body: Callable[[Scalar], None],
        names: tuple[str, ...],
        orelse: list[ast.stmt],
    ) -> None:
        """Lower a loop over a range, tested at its end, with a guard before it if it may run zero times."""
        first = self.has_iterations_left(span, span.start)
        place = self.b.span
        self.loop(names, orelse, lambda: self.counted_once(span, body, names, first, place))

    def has_iterations_left(self: Walker, span: RangeValue, counter: Scalar) -> Scalar:
        """Return whether the counter has not reached the end."""
        up = arithmetic.compare(self.b, "<", counter, span.stop)
        if span.step.literal is not None:
            return up if span.step.literal > 0 else arithmetic.compare(self.b, ">", counter, span.stop)
        rising = arithmetic.compare(self.b, ">", span.step, constant(span.step.type, 0))
        falling = arithmetic.compare(self.b, "<", span.step, constant(span.step.type, 0))
        down = arithmetic.compare(self.b, ">", counter, span.stop)
        return either(self.b, both(self.b, rising, up), both(self.b, falling, down))

    def counted_once(
        self: Walker,
        span: RangeValue,
        body: Callable[[Scalar], None],
        names: tuple[str, ...],
        first: Scalar,
        place: int,
    ) -> list[Edge]:
        """Walk a loop over a range once, and return the edges that leave it at the end of the range."""
        self.b.span = place
        exits = [self.enter_body(first)]
        self.b.push()  # the preheader runs only if the guard holds
        source = self.b.block
        header = self.header(names)
        counter_phi = joining.carry(self.b, header.block, source, span.start, None)
        counter = counter_phi.value
        assert isinstance(counter, Scalar)
        self.b.push()
        body(counter)
        if self.latch():
            self.b.span = place
            operands = (register(self.b, counter), register(self.b, span.step))
            following = Scalar(counter.type, self.b.emit(f"add.{counter.type.register}", *operands))
            self.back(header)
            made, _ = counter_phi.phis[0]
            made.incoming[self.b.block.index] = register(self.b, following)
            exits.append(self.leave(self.has_iterations_left(span, following), header.block))
        self.b.pop()
        self.b.pop()
        self.reachable = True
        return exits
