"""Walks through a kernel once, types known, and emits its graph.

Each name stands for a value; assigning binds a new one, as Numba versions variables.  Where paths meet, versions merge
(`joining`).  A loop is walked with the types its variables have at the entry, and again when the body turns out to widen
them.  Functions that the kernel calls are walked in place.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
from collections.abc import Callable
from types import CodeType, FunctionType, MethodType
from typing import Any

from wsemu.errors import KernelError, UnsupportedError
from wsemu.frontend import joining
from wsemu.frontend.builder import Builder
from wsemu.frontend.expressions import Expressions
from wsemu.frontend.graph import Block
from wsemu.frontend.joining import Edge, Environment
from wsemu.frontend.source import Source, source_of
from wsemu.frontend.statements import Statements
from wsemu.frontend.values import Closure, PatternValue, Static, TupleValue, TypedVariable, Value

NONE = Static(None)
RECURSION = {0: 64, 1: 64, 2: 10}
"""self-calls in a recursive function -> how deep it is walked in place"""


@dataclasses.dataclass(slots=True)
class Loop:
    """An open loop: edges of its `continue` and `break` statements."""

    continues: list[Edge]
    breaks: list[Edge]


@dataclasses.dataclass(slots=True)
class Frame:
    """A function being walked."""

    source: Source
    globals: dict[str, Any]
    cells: dict[str, Any]
    assigned: frozenset[str]
    code: CodeType | None
    returns: list[tuple[Block, Value]]
    outer: Environment | None = None
    """variables of the enclosing function, for a nested one"""
    loops: list[Loop] = dataclasses.field(default_factory=list)
    undefined: set[str] = dataclasses.field(default_factory=set)
    """names read before any assignment that dominates the read"""


class Walker(Statements, Expressions):
    """State shared by statements and expressions: the builder, the environment, the open functions."""

    def __init__(self, builder: Builder) -> None:
        self.b = builder
        self.env: Environment = {}
        self.frames: list[Frame] = []
        self.reachable = True
        self.variables: list[TypedVariable] = []
        self.notes: list[str] = []
        self.allocations: dict[Any, int] = {}
        self.widened: dict[Any, dict[str, Any]] = {}
        self.target = ""
        self.node: ast.AST | None = None
        self.span_numbers: dict[Any, int] = {}
        self.constant_arrays: dict[int, Value] = {}

    @property
    def frame(self) -> Frame:
        return self.frames[-1]

    # -- places ----------------------------------------------------------------------------------------------------------
    def at(self, node: ast.AST) -> None:
        """What is emitted now comes from this node."""
        self.node = node
        key = (self.frame.source.file, node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]
        number = self.span_numbers.get(key)
        if number is None:
            number = self.span_numbers[key] = len(self.b.graph.spans)
            self.b.graph.spans.append(self.frame.source.span(node))
        self.b.span = number

    def locate(self, error: KernelError, node: ast.AST) -> KernelError:
        """The error with its place, if it has none yet."""
        if error.span is None:
            error.span = self.frame.source.span(node)
            error.calls = tuple(self.b.graph.spans[s] for s in self.b.stack)
        return error

    def unsupported(self, node: ast.AST, what: str, remedy: str) -> UnsupportedError:
        return UnsupportedError(what, self.frame.source.span(node), remedy)

    def error(self, node: ast.AST, message: str, remedy: str = "") -> KernelError:
        return KernelError(message, self.frame.source.span(node), remedy)

    def node_key(self) -> Any:
        """Identity of the call being walked, for static allocations: a function called twice has its arrays once."""
        return self.node

    def name_for_array(self, space: str) -> str:
        return self.target or f"{space} array"

    # -- functions ---------------------------------------------------------------------------------------------------------
    def run_kernel(self, function: FunctionType, arguments: list[Value]) -> Value:
        """Walk a kernel and end its graph."""
        result = self.walk_function(function, arguments, {}, None)
        if self.reachable:
            self.b.finish(self.b.block, "exit")
        return result

    def walk_function(self, function: FunctionType, args: list[Value], kwargs: dict[str, Value], node: ast.AST | None) -> Value:
        """The value that a host function returns for these arguments, its body walked in place."""
        source = source_of(function)
        code = function.__code__
        self._check_depth(code, source, node)
        cells = {}
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            try:
                cells[name] = cell.cell_contents
            except ValueError:  # not assigned yet
                continue
        frame = Frame(source, function.__globals__, cells, frozenset(code.co_varnames), code, [])
        env = self._bind(source.node.args, args, kwargs, function.__name__, self._host_defaults(function), node)
        return self._enter(frame, env, source.node, node)

    def walk_closure(self, closure: Closure, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
        """The same for a function or lambda defined inside the kernel."""
        maker, env_outer, defaults = closure.scope
        name = getattr(closure.node, "name", "lambda")
        assigned = frozenset(_assigned(closure.node))
        frame = Frame(maker.source, maker.globals, maker.cells, assigned, None, [], env_outer)
        env = self._bind(closure.node.args, args, kwargs, name, defaults, node)
        return self._enter(frame, env, closure.node, node)

    def _enter(self, frame: Frame, env: Environment, body: ast.AST, node: ast.AST | None) -> Value:
        kept_env, kept_stack, kept_span, kept_node = self.env, self.b.stack, self.b.span, self.node
        if node is not None:
            self.at(node)
            self.b.stack = (*self.b.stack, self.b.span)
        self.frames.append(frame)
        self.env = env
        try:
            if isinstance(body, ast.Lambda):
                frame.returns.append((self.b.block, self.evaluate(body.body)))
                frame.returns[-1] = (self.b.block, frame.returns[-1][1])
                self.reachable = False
            else:
                self.suite(body.body)  # type: ignore[attr-defined]
            if self.reachable:
                frame.returns.append((self.b.block, NONE))
            return self._returned(frame)
        finally:
            self.frames.pop()
            self.env, self.b.stack, self.b.span, self.node = kept_env, kept_stack, kept_span, kept_node

    def _returned(self, frame: Frame) -> Value:
        """The merged value of a function's returns; goes on after them."""
        if not frame.returns:  # every path raises or traps
            self.reachable = False
            return NONE
        self.reachable = True
        if len(frame.returns) == 1 and frame.returns[0][0] is self.b.block:
            return frame.returns[0][1]
        env = joining.join(self.b, [(block, {"": value}) for block, value in frame.returns])
        return joining.used(env[""], "the returned value")

    def _check_depth(self, code: CodeType, source: Source, node: ast.AST | None) -> None:
        depth = sum(frame.code is code for frame in self.frames)
        if depth == 0:
            return
        calls = sum(
            isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == code.co_name for n in ast.walk(source.node)
        )
        limit = RECURSION.get(calls, 6)
        if depth >= limit:
            raise TooDeep(f"recursion deeper than {limit} calls of `{code.co_name}`: not modelled, write a loop")

    def _host_defaults(self, function: FunctionType) -> dict[str, Value]:
        parameters = inspect.signature(function).parameters.values()
        return {p.name: self.host_value(p.default, p.name) for p in parameters if p.default is not p.empty}

    def _bind(
        self,
        spec: ast.arguments,
        args: list[Value],
        kwargs: dict[str, Value],
        name: str,
        defaults: dict[str, Value],
        node: ast.AST | None,
    ) -> Environment:
        names = [a.arg for a in (*spec.posonlyargs, *spec.args)]
        keyword_only = [a.arg for a in spec.kwonlyargs]
        env: Environment = dict(zip(names, args, strict=False))

        def complain(message: str) -> KernelError:
            remedy = f"its parameters are ({', '.join([*names, *keyword_only])})"
            return self.error(node, message, remedy) if node is not None else KernelError(message, remedy=remedy)

        if spec.vararg is not None:
            env[spec.vararg.arg] = TupleValue(tuple(args[len(names) :]))
        elif len(args) > len(names):
            raise complain(f"`{name}` takes {len(names)} arguments, not {len(args)}")
        for key, value in kwargs.items():
            if key not in names and key not in keyword_only:
                raise complain(f"`{name}` has no parameter `{key}`")
            if key in env:
                raise complain(f"`{name}` got `{key}` twice")
            env[key] = value
        for key in (*names, *keyword_only):
            if key not in env:
                if key not in defaults:
                    raise complain(f"`{name}` lacks its argument `{key}`")
                env[key] = defaults[key]
        return env

    # -- calls of pattern methods ------------------------------------------------------------------------------------------
    def call_method(self, receiver: Value, cls: type, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
        """A method of a pattern object, with self = the object."""
        member = inspect.getattr_static(cls, name)
        if isinstance(member, staticmethod):
            return self.walk_function(member.__func__, args, kwargs, node)
        if isinstance(member, classmethod):
            return self.walk_function(member.__func__, [Static(cls), *args], kwargs, node)
        function = getattr(member, "py_func", member)
        if isinstance(function, MethodType):
            function = function.__func__
        if not isinstance(function, FunctionType):
            raise self.error(node, f"`{cls.__name__}.{name}` is no plain method", "define it with `def` in the class")
        return self.walk_function(function, [receiver, *args], kwargs, node)

    def construct(self, cls: type, args: list[Value], kwargs: dict[str, Value], node: ast.AST) -> Value:
        """A pattern object built inside the kernel: on the host if all its fields are known, else field by field."""
        known, host_args, host_kwargs = True, [], {}
        for value in args:
            ok, host = self.to_host(value)
            known &= ok
            host_args.append(host)
        for key, value in kwargs.items():
            ok, host = self.to_host(value)
            known &= ok
            host_kwargs[key] = host
        if known:
            try:
                return Static(cls(*host_args, **host_kwargs))
            except Exception as error:
                raise self.error(node, f"`{cls.__name__}`: {error}") from error
        try:
            bound = inspect.signature(cls).bind(*args, **kwargs)
        except TypeError as error:
            raise self.error(node, f"`{cls.__name__}`: {error}") from error
        bound.apply_defaults()
        fields = {k: v if isinstance(v, Value) else self.host_value(v, k) for k, v in bound.arguments.items()}
        return PatternValue(cls, fields)


class TooDeep(Exception):
    """Recursion beyond the bound: the call becomes a trap."""


def _assigned(node: ast.AST) -> list[str]:
    """Names that a piece of source assigns, nested functions aside."""
    found: list[str] = []

    def visit(n: ast.AST) -> None:
        for child in ast.iter_child_nodes(n):
            if isinstance(child, (ast.FunctionDef, ast.Lambda)):
                if isinstance(child, ast.FunctionDef):
                    found.append(child.name)
                continue
            if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
                found.append(child.id)
            visit(child)

    if isinstance(node, (ast.FunctionDef, ast.Lambda)):
        found.extend(a.arg for a in node.args.args)
    visit(node)
    return list(dict.fromkeys(found))


Handler = Callable[..., Value]
