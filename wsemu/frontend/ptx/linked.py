"""A function of PTX that a kernel of another front end calls: its body replaces the call."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from wsemu.frontend.ptx.body import walk
from wsemu.frontend.ptx.emit import REGISTER_TYPES, Emitter, Frame
from wsemu.frontend.ptx.handlers import HANDLERS
from wsemu.frontend.ptx.lower import name_modules
from wsemu.frontend.ptx.reach import Reached, uses_heap
from wsemu.frontend.ptx.ssa import assign_once
from wsemu.frontend.ptx.variables import CallParameter
from wsemu.model.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wsemu.frontend.assemble.graph import Block, Graph, Register
    from wsemu.frontend.ptx.module import Module
    from wsemu.frontend.ptx.syntax import Function, Variable

_COUNTS = ("local_bytes", "shared_bytes", "uses_dynamic_shared", "dynamic_alignment")
"""fields of a graph that are not tables, so that a copy of it has its own"""


def register_types(variables: Sequence[Variable]) -> list[str] | None:
    """Return the types of the registers in which parameters or results are passed; None if some are structures."""
    if any(variable.shape or variable.type not in REGISTER_TYPES for variable in variables):
        return None
    return [REGISTER_TYPES[variable.type] for variable in variables]


def call(
    graph: Graph, home: Module, function: Function, arguments: Sequence[Register], span: int, stack: tuple[int, ...]
) -> tuple[Block, Block, list[Register]]:
    """Return the first block of the function's body, its last block, which is left open, and its results; `arguments`
    have the types of its parameters.  Its declarations become part of the graph.

    Raise UnsupportedError if it needs a stack because it may call itself or allocates stack memory at run time.
    """
    own = copy.copy(graph)
    own.blocks = []
    allocates = uses_heap(home, home.file.functions)  # the kernel may pass heap blocks between the functions
    e = Emitter(own, home, HANDLERS, Reached(home, function, allocates=allocates))
    e.span, e.stack = span, stack
    name_modules(e)
    e.names[0] = e.scopes[home.source.path]
    places = {variable.name: CallParameter(variable) for variable in (*function.parameters, *function.results)}
    for variable, value in zip(function.parameters, arguments, strict=True):
        type_ = REGISTER_TYPES[variable.type]
        e.assign(places[variable.name].store(e, type_, 0), f"mov.{type_}", value)
    e.names.append({**places})
    after = e.new_block()
    e.frames.append(Frame(function, after, (*stack, span)))
    assert function.body is not None
    walk(e, function.body)
    if e.stack_memory is not None or e.workspace:
        raise UnsupportedError(f"`{function.name}` needs a stack: not modelled where a Python kernel calls it")
    e.jump(after)
    e.place(after)
    e.span, e.stack = span, stack
    results = []
    for variable in function.results:
        type_ = REGISTER_TYPES[variable.type]
        made = places[variable.name].load(e, type_, 0)
        assert made is not None
        result = own.new(type_)
        e.assign(result, f"mov.{type_}", made)
        results.append(result)
    last = e.block
    own.blocks[:] = [*e.layout, *e.aside]
    assign_once(own, arguments)
    _append(graph, own)
    return own.blocks[0], last, results


def _append(graph: Graph, own: Graph) -> None:
    """Add the blocks of another graph, which shares the tables, under new numbers."""
    numbers = {block.index: len(graph.blocks) + n for n, block in enumerate(own.blocks)}
    for block in own.blocks:
        block.index = numbers[block.index]
        block.successors = tuple(numbers[index] for index in block.successors)
        for phi in block.phis:
            phi.incoming = {numbers[index]: value for index, value in phi.incoming.items()}
    graph.blocks += own.blocks
    for name in _COUNTS:
        setattr(graph, name, getattr(own, name))
