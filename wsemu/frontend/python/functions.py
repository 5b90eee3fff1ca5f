"""Calls: functions and methods are inlined by walking their bodies, pattern objects are constructed, library functions
are handled by `library`."""

# mypy: disable-error-code="misc"
# (the methods of each part of `Walker` have the whole of it as self)
from __future__ import annotations

import ast
import inspect
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.frontend.python import declared, elementwise, joining, lifetimes, views
from wsemu.frontend.python.frames import NONE, Frame, Unreachable
from wsemu.frontend.python.joining import Environment
from wsemu.frontend.python.library import lookup as library
from wsemu.frontend.python.overloading import find_overload
from wsemu.frontend.python.pruning import mark_value, unmark_value
from wsemu.frontend.python.recursion import enter_region
from wsemu.frontend.python.scalars import describe
from wsemu.frontend.python.source import find_source
from wsemu.frontend.python.syntax import assigned_names, count_calls
from wsemu.frontend.python.values import (
    ArrayValue,
    Bound,
    Closure,
    ComplexValue,
    Keywords,
    PatternValue,
    Scalar,
    Static,
    TupleValue,
    Value,
)
from wsemu.frontend.python.walk_builtins import BUILTINS
from wsemu.language.markers import Foreign, KernelFunction
from wsemu.language.pattern_objects import has_methods
from wsemu.model.data import replace
from wsemu.model.errors import KernelError
from wsemu.model.own import PATTERNS, is_own
from wsemu.model.program import TOO_DEEP

if TYPE_CHECKING:
    from wsemu.frontend.python.walker import Walker

RECURSION = {0: 64, 1: 64, 2: 10}
"""number of self-calls in a recursive function, or in a group of functions that call each other -> maximum inlining
depth"""
DEEP = 6
"""maximum depth for a function that calls itself at several call sites"""
MOST_WALKED = 10_000
"""maximum number of nested calls that are walked; a call beyond it becomes a trap"""


class Functions:
    """Calls."""

    def get_Call(self: Walker, node: ast.Call) -> Value:
        target, self.target = self.target, ""
        special = self.super_call(node)
        callee = special if special is not None else self.evaluate(node.func)
        args: list[Value] = []
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                args += self.tuple_items(argument, self.evaluate(argument.value))
            else:
                args.append(mark_value(self, argument, self.evaluate(argument)))
        kwargs = {}
        for keyword in node.keywords:
            value = mark_value(self, keyword.value, self.evaluate(keyword.value))
            if keyword.arg is not None:
                kwargs[keyword.arg] = value
            elif isinstance(value, Keywords):  # forwards the keyword arguments of the function
                kwargs |= value.items
            else:
                raise self.unsupported_error(keyword, "`**` in a call", "write the arguments by name")
        self.at(node)
        self.target = target
        return self.call(node, callee, args, kwargs)

    def super_call(self: Walker, node: ast.Call) -> Value | None:
        """Lower `super().method` in a pattern's method."""
        func = node.func
        if not (
            isinstance(func, ast.Attribute)
            and isinstance(func.value, ast.Call)
            and isinstance(func.value.func, ast.Name)
        ):
            return None
        if func.value.func.id != "super" or func.value.args:
            return None
        code, owner = self.frame.code, self.frame.cells.get("__class__")
        receiver = self.env.get(code.co_varnames[0]) if code is not None and code.co_argcount else None
        if receiver is None or owner is None:
            raise self.error(func.value, "`super()` outside a method", "call the parent's method by its class")
        cls = receiver.cls if isinstance(receiver, PatternValue) else type(getattr(receiver, "object", None))
        order = cls.__mro__
        for parent in order[order.index(owner) + 1 :] if owner in order else ():
            if func.attr in vars(parent):
                return Bound(TupleValue((receiver, Static(parent))), func.attr)
        raise self.error(func, f"`super()` has no method `{func.attr}`", "check the spelling")

    def call(self: Walker, node: ast.Call, callee: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
        match callee:
            case Closure():
                return self.walk_closure(callee, args, kwargs, node)
            case Bound():
                return self.call_bound(node, callee, args, kwargs)
            case Static():
                return self.call_static(node, callee.object, args, kwargs)
        raise self.error(node, f"{describe(callee)} is not a function", "call a function, or drop the parentheses")

    def call_bound(self: Walker, node: ast.Call, callee: Bound, args: list[Value], kwargs: dict[str, Value]) -> Value:
        receiver, name = callee.receiver, callee.name
        match receiver:
            case TupleValue(items=(object_, Static() as parent)):
                return self.call_parent(node, object_, parent.object, name, args, kwargs)
            case ArrayValue():
                if kwargs:
                    raise self.error(
                        node, f"`{receiver.name}.{name}` takes no named arguments", "give them by position"
                    )
                if name in views.REDUCTIONS:
                    return library.reduce(self.library_call(name, args, kwargs), receiver, name)
                if name == "fill" and len(args) == 1:
                    self.fill(node, receiver, args[0])
                    return NONE
                return views.method(self.b, receiver, name, args)
            case Scalar() | ComplexValue():
                return library.method(self.library_call(name, args, kwargs), receiver, name)
            case PatternValue():
                return self.call_method(receiver, receiver.cls, name, args, kwargs, node)
            case Static():
                return self.call_method(receiver, type(receiver.object), name, args, kwargs, node)
        raise self.error(node, f"{describe(receiver)} has no method `{name}`", "check the spelling")

    def library_call(self: Walker, name: str, args: list[Value], kwargs: dict[str, Value]) -> library.Call:
        return library.Call(self.b, args, kwargs, self, name)

    def call_static(self: Walker, node: ast.Call, obj: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """Lower a call of a host object: a library function, a device function, a class."""
        if isinstance(obj, Foreign):
            from wsemu.frontend.python.linking import call_foreign  # imported here because few kernels are linked

            made = call_foreign(self, node, obj, args)
            if made is not None:
                return made
            remedy = "it takes Numba-CUDA and its compiler, `pip install 'wsemu[gpu]'`; or check the kernel without it"
            raise self.unsupported_error(node, f"`cuda.{obj.path}` is not modelled", remedy)
        if type(obj) in (FunctionType, BuiltinFunctionType):
            chosen = find_overload(obj, args, kwargs)
            if chosen is not None:
                return self.walk_function(chosen, args, kwargs, node)
        if type(obj) is FunctionType:
            return self.walk_function(obj, args, kwargs, node)
        own = BUILTINS.get(obj) if isinstance(obj, (type, BuiltinFunctionType)) else None
        if own is not None:
            return own(self, node, args, kwargs)
        if isinstance(obj, np.ufunc) and elementwise.is_meant(obj, args):
            return elementwise.call(self, obj, args, node)
        handler = library.find(obj)
        if handler is not None:
            return handler(self.library_call(getattr(obj, "__name__", "function"), args, kwargs))
        function = getattr(obj, "py_func", obj)
        if isinstance(function, FunctionType):
            known = getattr(obj, "declared", ())
            within = lifetimes.find_inlining(self.frame, obj)
            if not known or kwargs:
                return self.walk_function(function, args, kwargs, node, within=within)
            args, type_ = declared.arguments(self.b, known, args, function.__name__)
            return declared.result(self.b, self.walk_function(function, args, kwargs, node, within=within), type_)
        if isinstance(obj, KernelFunction):
            raise self.unsupported_error(node, f"`{obj.name}` is not modelled", "check the kernel without it")
        if isinstance(obj, MethodType) and obj.__name__ == "from_buffer" and type(obj.__self__).__name__ == "FFI":
            return args[0]  # a pointer of cffi to an array
        if isinstance(obj, MethodType):
            return self.walk_function(_unwrap(obj.__func__), [Static(obj.__self__), *args], kwargs, node)
        if isinstance(obj, type) and (
            has_methods(obj) or hasattr(obj, "_fields") or hasattr(obj, "__dataclass_fields__")
        ):
            return self.construct(obj, args, kwargs, node)
        if _is_pattern_instance(obj):
            return self.call_method(Static(obj), type(obj), "__call__", args, kwargs, node)
        name = getattr(obj, "__qualname__", None) or getattr(obj, "__name__", repr(obj))
        module = (getattr(obj, "__module__", "") or "").lstrip("_")  # some Python versions name `io` `_io`
        what = f"`{module}.{name}`" if module and module != "builtins" else f"`{name}`"
        if callable(obj):
            remedy = "call what `wsemu.cuda`, `wsemu.ptx` and `math` have"
            raise self.unsupported_error(node, f"unknown function {what} in a kernel", remedy)
        kind = "module" if isinstance(obj, ModuleType) else type(obj).__name__
        raise self.error(
            node, f"{what} is not a function but a {kind}", "call one of its functions, or drop the parentheses"
        )

    # -- walking in place ---------------------------------------------------------------------------------------------
    def walk_function(
        self: Walker,
        function: FunctionType,
        args: list[Value],
        kwargs: dict[str, Value],
        node: ast.AST | None,
        builds: str = "",
        within: Frame | None = None,
    ) -> Value:
        """Return the value that a host function returns for these arguments, by walking its body in place."""
        code = function.__code__
        self.check_function(function, node)
        source = find_source(function)
        self.check_depth(code)
        cells = {}
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            try:
                cells[name] = cell.cell_contents
            except ValueError:  # the cell is not assigned yet
                continue
        assigned = frozenset((*code.co_varnames, *code.co_cellvars))
        frame = Frame(source, function.__globals__, cells, assigned, code, builds=builds, within=within)
        env = self.bind_arguments(source.node.args, args, kwargs, function.__name__, self.host_defaults(function), node)
        frame.arguments = env = {name: unmark_value(value) for name, value in env.items()}
        return self.enter(frame, dict(env), source.node, node)

    def check_function(self: Walker, function: FunctionType, node: ast.AST | None) -> None:
        """Reject generators and coroutines, which cannot be walked."""
        flags = function.__code__.co_flags
        if flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
            kind = "a generator" if flags & inspect.CO_GENERATOR else "an `async` function"
            remedy = "store values into an array, or return a tuple"
            error = self.unsupported_error(node, f"`{function.__name__}` is {kind}", remedy)
            if error.span is None:
                source = find_source(function)
                error.span = source.span(source.node)
            raise error

    def walk_closure(
        self: Walker, closure: Closure, args: list[Value], kwargs: dict[str, Value], node: ast.AST
    ) -> Value:
        """Walk a call of a function or lambda of the kernel; it sees the current variables of the enclosing
        function."""
        maker, env, defaults = closure.scope
        if maker is self.frame:
            env = self.env
        elif maker in self.frames:
            env = maker.env
        name = getattr(closure.node, "name", "lambda")
        if sum(frame.source.node is closure.node for frame in self.frames) >= RECURSION[1]:
            raise self.unsupported_error(
                node, f"recursion of the nested function `{name}`", "make it a device function of its own"
            )
        source = type(maker.source)(maker.source.file, closure.node)
        assigned = frozenset(assigned_names(closure.node))
        frame = Frame(source, maker.globals, maker.cells, assigned, None, maker, env, within=maker)
        env = self.bind_arguments(closure.node.args, args, kwargs, name, defaults, node)
        return self.enter(frame, env, closure.node, node)

    def enter(
        self: Walker, frame: Frame, env: Environment, body: ast.FunctionDef | ast.Lambda, node: ast.AST | None
    ) -> Value:
        """Walk a body as a call at `node`; return the merged value of its returns."""
        kept_env, kept_stack, kept_span, kept_node = self.env, self.b.stack, self.b.span, self.node
        if node is not None:
            self.at(node)
            self.b.stack = (*self.b.stack, self.b.span)
        if self.frames:
            self.frame.env = kept_env
        self.frames.append(frame)
        self.env = env
        again = self.note_call(frame.code)
        depth = len(self.b.scopes)
        self.b.push()  # values computed after an early return are unknown to the caller
        try:
            if isinstance(body, ast.Lambda):
                self.suite([ast.copy_location(ast.Return(body.body), body.body)])
            else:
                self.suite(body.body)
            if self.reachable:
                frame.returns.append((self.b.block, self.env[frame.builds] if frame.builds else NONE))
            value = lifetimes.end_arrays(self.b, frame, self.merge_returns(frame))
            if again and self.ways is not None:
                self.ways.end()
            return value
        finally:
            self.b.unwind(depth)
            self.frames.pop()
            self.env, self.b.stack, self.b.span, self.node = kept_env, kept_stack, kept_span, kept_node

    def note_call(self: Walker, code: CodeType | None) -> bool:
        """Return whether the call of the top frame, of a recursive function, comes from within these functions."""
        region = self.ways.find_region(code) if self.ways is not None else ()
        if not region or self.ways is None:
            return False
        within = any(frame.code in region for frame in self.frames[:-1])
        self.ways.begin(within=within)
        return within

    def merge_returns(self: Walker, frame: Frame) -> Value:
        """Return the merged value of a function's returns, and continue after them."""
        if not frame.returns:  # every path raises or traps
            self.reachable = False
            if len(self.frames) > 1:
                raise Unreachable
            return NONE
        self.reachable = True
        if len(frame.returns) == 1 and frame.returns[0][0] is self.b.block:
            return frame.returns[0][1]
        env = joining.join(self.b, [(block, {"": value}) for block, value in frame.returns])
        return joining.used(env[""], "the returned value")

    def check_depth(self: Walker, code: CodeType) -> None:
        """Turn a call beyond the maximum recursion depth into a trap."""
        depth = sum(frame.code is code for frame in self.frames)
        if depth == 0:
            return
        enter_region(self.recursive, self._codes_from(code))
        self.recursions += 1
        limit = self._limit(code)
        if depth >= limit or self.recursions > MOST_WALKED:
            if self.b.block.dead:  # end the walk for types
                self.b.finish(self.b.block, "exit")
                self.reachable = False
                raise Unreachable
            traps = self.b.graph.traps
            traps.append(f"{TOO_DEEP} {limit} calls of `{code.co_name}`: not modelled, write a loop")
            self.b.finish(self.b.block, "trap", len(traps) - 1)
            self.reachable = False
            raise Unreachable

    def _limit(self: Walker, code: CodeType) -> int:
        """Return the maximum inlining depth of a function, together with those through which it calls itself."""
        around = self.frames[[frame.code for frame in self.frames].index(code) :]
        names = frozenset(frame.code.co_name for frame in around if frame.code is not None)
        bodies = {id(frame.source.node): frame.source.node for frame in around}
        return RECURSION.get(max(count_calls(body, names) for body in bodies.values()), DEEP)

    def _codes_from(self: Walker, code: CodeType) -> list[CodeType]:
        """Return the functions that are being walked, starting with this one."""
        codes = [frame.code for frame in self.frames if frame.code is not None]
        return codes[codes.index(code) :]

    def host_defaults(self: Walker, function: FunctionType) -> dict[str, Value]:
        """Return the defaults of a host function's parameters."""
        code, values = function.__code__, function.__defaults__ or ()
        names = code.co_varnames[code.co_argcount - len(values) : code.co_argcount]
        found = {name: self.host_value(value, name) for name, value in zip(names, values, strict=True)}
        for name, value in (function.__kwdefaults__ or {}).items():
            found[name] = self.host_value(value, name)
        return {name: drop_literal(value) for name, value in found.items()}

    def bind_arguments(
        self: Walker,
        spec: ast.arguments,
        args: list[Value],
        kwargs: dict[str, Value],
        name: str,
        defaults: dict[str, Value],
        node: ast.AST | None,
    ) -> Environment:
        """Return the initial variables of a function."""
        names = [a.arg for a in (*spec.posonlyargs, *spec.args)]
        keyword_only = [a.arg for a in spec.kwonlyargs]
        env: Environment = dict(zip(names, args, strict=False))

        own = names[:1] in (["self"], ["cls"])  # the caller does not pass `self` or `cls`

        def complain(message: str) -> KernelError:
            listed = ", ".join([*names[own:], *keyword_only])
            return self.error(node, message, f"its parameters are ({listed})" if listed else "call it with `()`")

        if spec.vararg is not None:
            env[spec.vararg.arg] = TupleValue(tuple(args[len(names) :]))
        elif len(args) > len(names):
            if outer := self.forwarded_argument_error(node, surplus=len(args) - len(names)):
                raise outer
            takes, got = len(names) - own, len(args) - own
            raise complain(f"`{name}` takes {takes} argument{'s' * (takes != 1)}, not {got}")
        for key, value in kwargs.items():
            if key in env:
                raise complain(f"`{name}` got `{key}` twice")
            if key in names or key in keyword_only:
                env[key] = value
            elif spec.kwarg is None:
                raise complain(f"`{name}` has no parameter `{key}`")
        if spec.kwarg is not None:
            rest = {key: value for key, value in kwargs.items() if key not in env}
            env[spec.kwarg.arg] = Keywords(rest)
        for key in (*names, *keyword_only):
            if key not in env:
                if key not in defaults:
                    raise self.forwarded_argument_error(node, lacking=key) or complain(
                        f"`{name}` lacks its argument `{key}`"
                    )
                env[key] = defaults[key]
        return env

    def forwarded_argument_error(
        self: Walker, node: ast.AST | None, *, surplus: int = 0, lacking: str = ""
    ) -> KernelError | None:
        """Return the error for the call that the user wrote, if a method of a pattern forwards its wrong arguments as
        `*index`.  Return None if the call at `node` is not of that kind."""
        files = [frame.source.file for frame in self.frames]
        first = next((n for n, file in enumerate(files) if file.startswith(PATTERNS)), 0)
        inside = first and not is_own(files[first - 1]) and files[-1].startswith(PATTERNS)
        if not inside or not isinstance(node, ast.Call):
            return None
        handed = [a.value.id for a in node.args if isinstance(a, ast.Starred) and isinstance(a.value, ast.Name)]
        more = [len(value.items) for value in map(self.env.get, handed) if isinstance(value, TupleValue)]
        if not more or more[0] < surplus:
            return None
        spec = self.frames[first].source.node.args
        names = [a.arg for a in spec.args[1:]] + [lacking] * bool(lacking)
        takes = len(names) + more[0] - surplus
        name = getattr(self.frames[first].source.node, "name", "")
        text = f"lacks `{lacking}`" if lacking else f"takes {takes} argument{'s' * (takes != 1)}, not {takes + surplus}"
        stack = [self.b.graph.spans[number] for number in self.b.stack[:first]]
        remedy = f"its arguments are ({', '.join(names)})"
        return KernelError(f"`{name}` of this pattern {text}", stack[-1], remedy, tuple(stack[:-1]))

    # -- pattern objects ----------------------------------------------------------------------------------------------
    def call_method(
        self: Walker, receiver: Value, cls: type, name: str, args: list[Value], kwargs: dict[str, Value], node: ast.AST
    ) -> Value:
        """Lower a method call of a pattern object, with `self` bound to the object."""
        member = inspect.getattr_static(cls, name, None)
        if isinstance(member, staticmethod):
            return self.walk_function(_unwrap(member.__func__), args, kwargs, node)
        if isinstance(member, classmethod):
            return self.walk_function(_unwrap(member.__func__), [Static(cls), *args], kwargs, node)
        function = _unwrap(member)
        if not isinstance(function, FunctionType):
            what = f"`{cls.__name__}.{name}` is no plain method"
            raise self.unsupported_error(node, what, "define it with `def` in the class")
        return self.walk_function(function, [receiver, *args], kwargs, node)


def drop_literal(value: Value) -> Value:
    """Return a default value whose number is not part of its Numba type."""
    if type(value) is Scalar and value.is_python_literal and value.type.kind != "f":
        return replace(value, is_python_literal=False)
    return value


def _unwrap(function: Any) -> Any:
    """Return the Python function that a decorator wraps."""
    return getattr(function, "py_func", function)


def _is_pattern_instance(obj: Any) -> bool:
    return isinstance(vars(type(obj)).get("__call__"), FunctionType) and not isinstance(obj, type)
