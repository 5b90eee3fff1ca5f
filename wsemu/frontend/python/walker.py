"""Walk the syntax tree of a kernel once, with known types, and emit its graph.

Each name is bound to a value.  An assignment binds a new version, as in Numba.  Where paths meet, versions are merged
(`joining`).  Functions that the kernel calls are inlined by walking their bodies.  The modules `expressions`, `names`,
`functions`, `construction`, `statements` and `loops` have one method for each kind of node; `Walker` has the state that
they share.
"""

# mypy: disable-error-code="misc"
# (the methods of each part of `Walker` have the whole of it as self)
from __future__ import annotations

import ast
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any, ClassVar

from wsemu.frontend.assemble.graph import Register
from wsemu.frontend.python.builder import Builder
from wsemu.frontend.python.construction import Construction
from wsemu.frontend.python.expressions import Expressions
from wsemu.frontend.python.frames import Frame
from wsemu.frontend.python.functions import Functions
from wsemu.frontend.python.joining import Environment
from wsemu.frontend.python.loops import Loops, Seeds
from wsemu.frontend.python.names import Names
from wsemu.frontend.python.recursion import Ways
from wsemu.frontend.python.scalars import refusal
from wsemu.frontend.python.statements import Statements
from wsemu.frontend.python.values import ArrayValue, TypedVariable, Value
from wsemu.language.numbers import NumberType
from wsemu.model.errors import KernelError, UnsupportedError

PARTS = (Expressions, Names, Functions, Construction, Statements, Loops)


def _handlers(prefix: str) -> dict[type, Callable[..., Any]]:
    """Return the methods by the kind of node in their names."""
    return {
        getattr(ast, name.removeprefix(prefix)): method
        for part in PARTS
        for name, method in vars(part).items()
        if name.startswith(prefix) and hasattr(ast, name.removeprefix(prefix))
    }


class Walker(Expressions, Names, Functions, Construction, Statements, Loops):
    """State of the walk: the builder, the variables, the open functions."""

    expressions: ClassVar[dict[type, Callable[..., Value]]] = _handlers("get_")
    statements: ClassVar[dict[type, Callable[..., None]]] = _handlers("do_")

    def __init__(self, builder: Builder, *, debug: bool = False, stepping: bool = False) -> None:
        self.b = builder
        self.debug = debug
        """true if exceptions reach the host, as with Numba's option `debug`"""
        self.stepping = stepping
        """true if each statement shows its variables to a debugger"""
        self.linked: tuple[Any, ...] = ()
        """files of the option `link=` of `jit`"""
        self.has_ptx = False
        """true if the graph contains a function of the linked files"""
        self.recursive: list[set[CodeType]] = []
        """sets of functions that call each other, found so far"""
        self.recursions = 0
        """number of calls of functions that are being walked"""
        self.ways: Ways | None = None
        """paths of a kernel with recursive functions and warp-wide operations"""
        self.env: Environment = {}
        self.frames: list[Frame] = []
        self.reachable = True
        self.variables: list[TypedVariable] = []
        self.notes: list[str] = []
        self.allocations: dict[Any, int] = {}
        self.seeds: dict[Any, Seeds] = {}
        """loop (assigned names, location, calls around it) -> the types that its variables need at its header"""
        self.types_seen: dict[Any, NumberType] = {}
        """(expression in a loop, calls around it) -> its type in the last walk"""
        self.target: str = ""
        """name of the variable to which the array that is being created will be bound"""
        self.node: ast.AST | None = None
        self.hidden: int = 0
        self.span_numbers: dict[Any, int] = {}
        self.constant_arrays: dict[int, ArrayValue] = {}
        self.captured: dict[int, Register] = {}
        """id of a device array that the kernel captures -> the register of its address"""

    @property
    def frame(self) -> Frame:
        return self.frames[-1]

    def run_kernel(self, function: FunctionType, arguments: list[Value]) -> None:
        """Walk a kernel and end its graph."""
        self.walk_function(function, arguments, {}, None)
        if self.reachable:
            self.b.finish(self.b.block, "exit")

    # -- source locations ---------------------------------------------------------------------------------------------
    def at(self, node: ast.AST) -> None:
        """Attribute the code that is emitted from now on to this node."""
        self.node = node
        number = self.span_numbers.get(node)
        if number is None:
            span = self.frame.source.span(node)
            number = self.span_numbers.get(span)
            if number is None:
                number = self.span_numbers[span] = len(self.b.graph.spans)
                self.b.graph.spans.append(span)
            self.span_numbers[node] = number
        self.b.span = number

    def locate(self, error: KernelError, node: ast.AST | None) -> KernelError:
        """Return the error with its location, if it has none yet."""
        if error.span is None and self.frames and node is not None:
            error.span = self.frame.source.span(node)
            error.calls = tuple(self.b.graph.spans[s] for s in self.b.stack)
        return error

    def unsupported_error(self, node: ast.AST | None, what: str, remedy: str) -> UnsupportedError:
        error = UnsupportedError(what, remedy=remedy)
        self.locate(error, node)
        return error

    def operand_error(self, node: ast.AST | None, message: str, remedy: str, *values: Value) -> KernelError:
        """Return the error for an operation on values of unsupported types, as `scalars.refusal` does."""
        return self.locate(refusal(message, remedy, *values), node)

    def error(self, node: ast.AST | None, message: str, remedy: str = "") -> KernelError:
        return self.locate(KernelError(message, remedy=remedy), node)

    # -- queries of the array helpers ---------------------------------------------------------------------------------
    def node_key(self) -> Any:
        """Return the identity of the current function, for static allocations: two calls of a function share its
        arrays."""
        return self.node

    def name_for_array(self, space: str) -> str:
        return self.target or f"{space} array"
