"""Let a launch be incomplete if it compares the end of an allocation with the start of another one.

The two are equal only if one allocation follows the other (ISO C++, [expr.eq] 3).  Before a comparison of two addresses
for equality that are computed from different variables or arrays, on every path, their distances are compared with the
sizes.
"""

from __future__ import annotations

import math
from pathlib import PurePath
from typing import TYPE_CHECKING, NamedTuple

from wsemu.frontend.assemble.graph import TRUE, Instruction
from wsemu.frontend.ptx.provenance import propagate_provenance
from wsemu.frontend.ptx.stops import insert_stop
from wsemu.model.addresses import LOOKED_UP
from wsemu.model.isa import LOCAL_SHIFT, OFFSET_MASK
from wsemu.model.program import Parameter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from wsemu.frontend.assemble.graph import Block, Graph, Register
    from wsemu.frontend.ptx.syntax import Function

_WHOLE = (1 << 64) - 1
_COMPARED = {"setp.eq.b64": "b64", "setp.ne.b64": "b64", "setp.eq.b32": "b32", "setp.ne.b32": "b32"}
"""comparison -> type of its operands"""


class _Room(NamedTuple):
    """An allocation: the register with an address in it, the distance of its first byte from there, and its size."""

    name: str
    base: Register
    offset: int
    size: int
    """bytes, or the register with them"""
    mask: int
    """the bits of the distance that count, whatever the form of an address"""
    is_argument: bool = False
    """true if `size` is a register"""


def stop_at_ends(graph: Graph, function: Function, origins: Mapping[Register, str]) -> None:
    """End the run before comparisons of the end of an allocation with the start of another one.  `origins`: registers
    with the address of a variable, and its name."""
    compared = [code for block in graph.blocks for code in block.instructions if code.operation in _COMPARED]
    if not compared:
        return
    rooms = {room.name: room for room in _list_rooms(graph, function)}
    bits = {name: 1 << n for n, name in enumerate(rooms)}
    given = {row: bits[name] for row, name in origins.items() if name in bits}
    given.update((room.base, bits[room.name]) for room in rooms.values() if room.mask == _WHOLE)
    held = propagate_provenance(graph, dict(given))
    held = propagate_provenance(graph, given, _list_distances(graph, held))
    found = {bit: rooms[name] for name, bit in bits.items()}
    for code in compared:
        one, other = (found.get(held.get(operand, 0)) for operand in code.operands)
        if one is not None and other is not None and one is not other:
            block = next(block for block in graph.blocks if any(code is own for own in block.instructions))
            _stop(graph, block, code, one, other)


def _list_distances(graph: Graph, held: Mapping[Register, int]) -> set[int]:
    """Return the identities of the instructions that subtract an address from another one."""
    codes = (code for block in graph.blocks for code in block.instructions if code.operation.startswith("sub."))
    return {id(code) for code in codes if all(held.get(operand) for operand in code.operands)}


def _list_rooms(graph: Graph, function: Function) -> Iterator[_Room]:
    """Yield the allocations with a name of their own."""
    for special, arrays, mask in (
        ("shared", graph.shared, OFFSET_MASK), ("local", graph.locals, (1 << LOCAL_SHIFT) - 1),
    ):  # fmt: skip
        names = [array.name for array in arrays]
        for array in arrays:
            size = math.prod(array.shape) * array.dtype.itemsize
            if size and names.count(array.name) == 1 and special in graph.specials:
                yield _Room(array.name, graph.specials[special], array.offset, size, mask)
    for register, constant in graph.constant_arrays.items():
        if not constant.heap:
            yield _Room(constant.name, register, 0, constant.array.nbytes, _WHOLE)
    for register, parameter in list(graph.parameters.items()):
        if parameter.part == "address" and not parameter.component:
            name = function.parameters[parameter.argument].name
            yield _Room(name, register, 0, _add_size(graph, parameter), _WHOLE, is_argument=True)


def _add_size(graph: Graph, parameter: Parameter) -> Register:
    """Return the register with the size of an array of the caller."""
    for register, other in graph.parameters.items():
        if other.part == "size" and other.argument == parameter.argument:
            return register
    register = graph.new("b64")
    graph.parameters[register] = Parameter(0, "b64", parameter.argument, (), "size", 0)
    return register


def _touch(emit: Callable[..., Register], one: _Room, other: _Room) -> Register:
    """Return the predicate that two arrays of the caller are parts of one, because one begins inside of the other."""
    first, second = (
        emit("setp.le.u64", begins.base, emit("add.b64", ends.base, ends.size), to="p")
        for begins, ends in ((one, other), (other, one))
    )
    return emit("and.pred", first, second, to="p")


def _stop(graph: Graph, block: Block, code: Instruction, one: _Room, other: _Room) -> None:
    made: list[Instruction] = []

    def emit(operation: str, *operands: Register, to: str = "b64") -> Register:
        result = graph.new(to)
        made.append(Instruction(operation, (result,), operands, span=code.span, stack=code.stack, array=LOOKED_UP))
        return result

    ends, starts = [], []
    for operand, room in zip(code.operands, (one, other), strict=True):
        wide = operand if _COMPARED[code.operation] == "b64" else emit("cvt.b64.u32", operand)
        distance = emit("sub.b64", wide, room.base)
        distance = emit("and.b64", distance, graph.constant("b64", room.mask))
        end = room.size if room.is_argument else graph.constant("b64", room.offset + room.size)
        at_end = emit("setp.eq.b64", distance, end, to="p")
        if room.is_argument:  # the end of an empty array is its start
            at_end = emit("and.pred", at_end, emit("setp.ne.b64", end, graph.constant("b64", 0), to="p"), to="p")
        ends.append(at_end)
        starts.append(emit("setp.eq.b64", distance, graph.constant("b64", room.offset), to="p"))
    meets = emit("and.pred", ends[0], starts[1], to="p")
    meets = emit("or.pred", meets, emit("and.pred", ends[1], starts[0], to="p"), to="p")
    if one.is_argument and other.is_argument:
        meets = emit("and.pred", meets, emit("not.pred", _touch(emit, one, other), to="p"), to="p")
    if code.guard != TRUE:
        guard = emit("not.pred", code.guard, to="p") if code.negated else code.guard
        meets = emit("and.pred", meets, guard, to="p")
    span = graph.spans[code.span]
    what = f"a comparison of the end of `{one.name}` or `{other.name}` with the start of the other one"
    graph.traps.append(f"{what}, which are equal only if they adjoin (line {span.line} of {PurePath(span.file).name})")
    number = next(n for n, own in enumerate(block.instructions) if own is code)
    insert_stop(graph, block, number, meets, len(graph.traps) - 1)
    block.instructions += made
