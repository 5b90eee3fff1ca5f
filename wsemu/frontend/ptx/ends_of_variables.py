"""Let a launch be incomplete if it compares the end of an allocation with the start of another one.

The two are equal only if one allocation follows the other (ISO C++, [expr.eq] 3).  Before a comparison of two addresses
for equality that are computed from different variables or arrays, on every path, their distances are compared with the
sizes.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from pathlib import PurePath
from typing import TYPE_CHECKING, NamedTuple

from wsemu.frontend.assemble.graph import TRUE, Instruction
from wsemu.frontend.ptx.origin_numbers import Origins
from wsemu.frontend.ptx.outliving import list_bits
from wsemu.frontend.ptx.stops import insert_stop
from wsemu.model.addresses import LOOKED_UP, WATCHED, WATCHED_GLOBAL
from wsemu.model.isa import LOCAL_SHIFT, OFFSET_MASK
from wsemu.model.program import Parameter

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from wsemu.frontend.assemble.graph import Block, Graph, Register
    from wsemu.frontend.ptx.syntax import Function

_WHOLE = (1 << 64) - 1
_COMPARED = {"setp.eq.b64": "b64", "setp.ne.b64": "b64", "setp.eq.b32": "b32", "setp.ne.b32": "b32"}
"""comparison -> type of its operands"""


_MAX_PAIRS = 64
"""maximum number of pairs of allocations for which a comparison is tested"""
_Emit = Callable[..., "Register"]


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


class _Choice(NamedTuple):
    """An allocation that an address may be in."""

    room: _Room
    number: int
    """1 + the bit of the allocation; 0 if the value of an address shows whether it is in the allocation"""
    register: Register | None
    """register that holds `number` if the address is in this allocation; None if nothing decides"""


def stop_at_ends(graph: Graph, function: Function, origins: Mapping[Register, str]) -> None:
    """End the run before comparisons of the end of an allocation with the start of another one.  `origins`: registers
    with the address of a variable, and its name."""
    compared = [code for block in graph.blocks for code in block.instructions if code.operation in _COMPARED]
    if not compared:
        return
    rooms = list(_list_rooms(graph, function))
    numbers = {room.name: n for n, room in enumerate(rooms)}
    given = {row: 1 << numbers[name] for row, name in origins.items() if name in numbers}
    given.update((room.base, 1 << n) for n, room in enumerate(rooms) if room.mask == _WHOLE)
    origin = Origins(graph, given)
    watched = [
        (code, _number_choices(origin, code, choices))
        for code in compared
        if _may_differ(*(choices := _choose_rooms(rooms, origin, code)))
    ]
    for code, _ in watched:
        known = origin.is_known(code.operands)
        code.array = WATCHED if known else WATCHED_GLOBAL if _is_by_value(origin, code) else code.array
    origin.insert_code()
    for code, choices in watched:
        block = next(block for block in graph.blocks if any(code is own for own in block.instructions))
        _stop(graph, block, code, choices)


def _is_by_value(origin: Origins, code: Instruction) -> bool:
    """Return whether an operand may be an address that was loaded.  In global memory, no two allocations adjoin here,
    so that its value shows the allocation."""
    return (
        _COMPARED[code.operation] == "b64"
        and origin.passes_addresses
        and not origin.is_known(code.operands)
        and all(origin.held.get(row) or row in origin.received_registers for row in code.operands)
    )


def _may_differ(one: Sequence[_Choice], other: Sequence[_Choice]) -> bool:
    """Return whether addresses may be in different allocations of one state space, and in few enough."""
    return 0 < len(list(_list_pairs(one, other))) <= _MAX_PAIRS


def _list_pairs(one: Sequence[_Choice], other: Sequence[_Choice]) -> Iterator[tuple[int, int]]:
    """Yield the numbers of two allocations that may adjoin."""
    for n, a in enumerate(one):
        yield from ((n, k) for k, b in enumerate(other) if a.room is not b.room and a.room.mask == b.room.mask)


def _choose_rooms(rooms: Sequence[_Room], origin: Origins, code: Instruction) -> list[list[_Choice]]:
    """Return the allocations that each operand may be in."""
    every = range(len(rooms)) if _is_by_value(origin, code) else ()
    in_global = [n for n in every if rooms[n].mask == _WHOLE]
    choices = []
    for operand in code.operands:
        held = [n for n in list_bits(origin.held.get(operand, 0)) if n not in in_global]
        choices.append([_Choice(rooms[n], 0 if n in in_global else n + 1, None) for n in (*held, *in_global)])
    return choices


def _number_choices(origin: Origins, code: Instruction, choices: Sequence[Sequence[_Choice]]) -> list[list[_Choice]]:
    """Return the choices with the registers that decide between them."""
    return [
        [c._replace(register=origin.number_register(operand)) if c.number else c for c in of_operand]
        for operand, of_operand in zip(code.operands, choices, strict=True)
    ]


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


def _touch(emit: _Emit, one: _Room, other: _Room) -> Register:
    """Return the predicate that two arrays of the caller are parts of one, because one begins inside of the other."""
    first, second = (
        emit("setp.le.u64", begins.base, emit("add.b64", ends.base, ends.size), to="p")
        for begins, ends in ((one, other), (other, one))
    )
    return emit("and.pred", first, second, to="p")


def _stop(graph: Graph, block: Block, code: Instruction, choices: Sequence[Sequence[_Choice]]) -> None:
    made: list[Instruction] = []

    def emit(operation: str, *operands: Register, to: str = "b64") -> Register:
        result = graph.new(to)
        made.append(Instruction(operation, (result,), operands, span=code.span, stack=code.stack, array=LOOKED_UP))
        return result

    def join(operation: str, found: Sequence[Register]) -> Register:
        return functools.reduce(lambda a, b: emit(f"{operation}.pred", a, b, to="p"), found)

    is_wide = _COMPARED[code.operation] == "b64"
    operands = [operand if is_wide else emit("cvt.b64.u32", operand) for operand in code.operands]
    chosen = [[_emit_choice(emit, graph, choice) for choice in of_operand] for of_operand in choices]
    tests = [
        [
            tuple(join("and", [*chosen[n][k], test]) for test in _emit_tests(emit, graph, operands[n], choice.room))
            for k, choice in enumerate(of_operand)
        ]
        for n, of_operand in enumerate(choices)
    ]
    meets = []
    for n, k in _list_pairs(*choices):
        (end, start), (other_end, other_start) = tests[0][n], tests[1][k]
        meet = join("or", [join("and", [end, other_start]), join("and", [start, other_end])])
        one, other = choices[0][n].room, choices[1][k].room
        if one.is_argument and other.is_argument:
            meet = join("and", [meet, emit("not.pred", _touch(emit, one, other), to="p")])
        meets.append(meet)
    stops = join("or", meets)
    if code.guard != TRUE:
        guard = emit("not.pred", code.guard, to="p") if code.negated else code.guard
        stops = join("and", [stops, guard])
    span = graph.spans[code.span]
    names = [f"`{name}`" for name in dict.fromkeys(c.room.name for of_operand in choices for c in of_operand)]
    what = f"a comparison of the end of {' or '.join(names)} with the start of {_ANOTHER[len(names) > 2]}"
    graph.traps.append(f"{what}, which are equal only if they adjoin (line {span.line} of {PurePath(span.file).name})")
    number = next(n for n, own in enumerate(block.instructions) if own is code)
    insert_stop(graph, block, number, stops, len(graph.traps) - 1)
    block.instructions += made


_ANOTHER = ("the other one", "another one")


def _emit_choice(emit: _Emit, graph: Graph, choice: _Choice) -> list[Register]:
    """Return the predicates that an address is in an allocation, as the instructions before computed it; none if it
    always is."""
    if choice.register is None:
        return []
    return [emit("setp.eq.b32", choice.register, graph.constant("b32", choice.number), to="p")]


def _emit_tests(emit: _Emit, graph: Graph, operand: Register, room: _Room) -> tuple[Register, Register]:
    """Return the predicates that an address in an allocation is its end, and that it is its start."""
    distance = emit("sub.b64", operand, room.base)
    distance = emit("and.b64", distance, graph.constant("b64", room.mask))
    end = room.size if room.is_argument else graph.constant("b64", room.offset + room.size)
    at_end = emit("setp.eq.b64", distance, end, to="p")
    if room.is_argument:  # the end of an empty array is its start
        at_end = emit("and.pred", at_end, emit("setp.ne.b64", end, graph.constant("b64", 0), to="p"), to="p")
    return at_end, emit("setp.eq.b64", distance, graph.constant("b64", room.offset), to="p")
