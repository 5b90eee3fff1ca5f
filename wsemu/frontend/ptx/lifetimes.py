"""The end of variables in local memory with the inlined function that declares them.

An address of such a variable is invalid once the function has returned (PTX ISA, "Local State Space").  Usually no
address outlives its function: none is stored, and none reaches a register of the caller.  If one may, then the variable
has a word with its extent, like a variable on the stack.  The word is 0 after the return, and an access by one of the
addresses, which name the word, is out of bounds.

A function that is called in a loop gets the same memory again, whose contents are undefined (ISO C++, [basic.indet]).
Then the words are elsewhere, one for each call, so that an address from an earlier call names a word that is 0.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, NamedTuple

from wsemu.frontend.assemble.flow import repeated_blocks
from wsemu.frontend.assemble.graph import Instruction
from wsemu.frontend.ptx.outliving import find_outliving, list_bits
from wsemu.frontend.ptx.sizes import variable_size
from wsemu.frontend.ptx.stops import insert_stop
from wsemu.frontend.ptx.variables import ONLY_LOCAL, encode_extent
from wsemu.model.addresses import LOOKED_UP
from wsemu.model.isa import LOCAL_SHIFT, ON_STACK, STACK_UNIT

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from wsemu.frontend.assemble.graph import Block, Graph, Register
    from wsemu.frontend.ptx.variables import LocalPlace


MAX_NAMES = 2048
"""maximum calls with a variable whose address may be used after its function has returned, for each thread"""
_TOO_MANY = f"more than {MAX_NAMES:,} calls of functions whose variables have addresses in other memory"


class Lifetime(NamedTuple):
    """An inlined call of a function with variables in local memory."""

    registers: range
    """the registers that were created for the function"""
    after: Block
    """the block in which the caller continues"""
    variables: list[LocalPlace]


def end_variables(graph: Graph, lifetimes: Sequence[Lifetime]) -> None:
    """End the variables of functions where these functions return: the next call finds uninitialized memory."""
    repeated = repeated_blocks(graph.blocks) if any(life.variables for life in lifetimes) else set()
    for life in lifetimes:
        if life.after.index in repeated:
            life.after.instructions[:0] = [
                code for place in life.variables for code in _forget(graph, place, life.after)
            ]
    _end_addresses(graph, lifetimes, repeated)


def _forget(graph: Graph, place: LocalPlace, after: Block) -> Iterator[Instruction]:
    address = graph.new("b64")
    yield _look_up(after, "add.b64", address, graph.special("local"), graph.constant("b64", place.offset))
    size = graph.constant("b64", variable_size(place.variable))
    yield Instruction("forget", (), (address, size), span=after.span, stack=after.stack)


def _end_addresses(graph: Graph, lifetimes: Sequence[Lifetime], repeated: Collection[int]) -> None:
    """End the variables whose addresses may outlive their functions."""
    places = [(life, place) for life in lifetimes for place in life.variables if place.named and _has_room(place)]
    if not places:
        return
    left = _find_left(graph, places)
    again = [place for n, (life, place) in enumerate(places) if left >> n & 1 and life.after.index in repeated]
    names = _Names(graph, again) if again else None
    for n, (life, place) in enumerate(places):
        if left >> n & 1:
            _end(graph, life, place, names if place in again else None)


def _find_left(graph: Graph, places: Sequence[tuple[Lifetime, LocalPlace]]) -> int:
    """Return the variables, as bits, whose addresses may be in memory or in a register of another function when they
    end."""
    given = {code.results[0]: 1 << n for n, (_, place) in enumerate(places) for code in place.named}
    rooms = [sum(_is_within(inner, life) << n for n, (inner, _) in enumerate(places)) for life, _ in places]
    local = graph.special("local")

    def find_named(code: Instruction) -> int:
        if code.operands[0] != local:
            return 0
        at = code.immediate & (1 << LOCAL_SHIFT) - 1
        return sum((0 <= at - p.offset < variable_size(p.variable)) << n for n, (_, p) in enumerate(places))

    left, held = find_outliving(graph, given, rooms, find_named)
    for register, bits in held.items():
        for n in list_bits(bits & ~left):
            left |= (register not in places[n][0].registers) << n
    return left


def _is_within(inner: Lifetime, outer: Lifetime) -> bool:
    """Return whether a function is called, and returns, while another one runs."""
    return inner.registers.start >= outer.registers.start and inner.registers.stop <= outer.registers.stop


def _has_room(place: LocalPlace) -> bool:
    """Return whether an address can name the variable by its offset."""
    return place.number > 0 and place.offset // STACK_UNIT < ON_STACK


class _Names:
    """Names of the variables of functions that are called in loops: each call has names that no call before it had.
    A name is the location of the word with the variable's extent, in units."""

    def __init__(self, graph: Graph, places: Sequence[LocalPlace]) -> None:
        self._graph = graph
        self._unused = graph.new("b64")
        """distance of the first unused name from the start of the thread's memory"""
        self._of = {id(place): graph.new("b64") for place in places}
        first = (-(-graph.local_bytes // STACK_UNIT) + 1) * STACK_UNIT
        self._end = first + (len(places) + MAX_NAMES) * STACK_UNIT
        graph.local_bytes = self._end
        graph.blocks[0].instructions[:0] = [
            Instruction("mov.b64", (row,), (graph.constant("b64", first + n * STACK_UNIT),))
            for n, row in enumerate((*self._of.values(), self._unused))
        ]

    def enter(self, place: LocalPlace, code: Instruction) -> list[Instruction]:
        """Return the instructions that store the extent of a variable and compute its address, instead of `code`."""
        new, constant, name = self._graph.new, self._graph.constant, self._of[id(place)]
        word, extent, upper, start = (new("b64") for _ in range(4))
        unit = constant("b64", (1 << 32) // STACK_UNIT)
        shift = constant("b64", (1 << LOCAL_SHIFT) // STACK_UNIT)
        base, whole = code.operands[0], constant("b64", encode_extent(place.offset, variable_size(place.variable), 0))
        return [
            _look_up(code, "add.b64", word, base, name),
            _look_up(code, "mad.b64", extent, name, unit, whole),
            Instruction("st.b64", (), (word, extent), -STACK_UNIT, ONLY_LOCAL, span=code.span, stack=code.stack),
            _look_up(code, "mad.b64", upper, name, shift, constant("b64", ON_STACK << LOCAL_SHIFT)),
            _compute(code, "add.b64", start, base, constant("b64", place.offset)),
            _compute(code, "add.b64", code.results[0], start, upper),
        ]

    def leave(self, place: LocalPlace, after: Block) -> None:
        """End the variable where its function returns, and take another name for the next call."""
        graph, name = self._graph, self._of[id(place)]
        word, none = graph.new("b64"), graph.new("p")
        zero, unit = graph.constant("b64", 0), graph.constant("b64", STACK_UNIT)
        code = [
            _look_up(after, "add.b64", word, graph.special("local"), name),
            Instruction("st.b64", (), (word, zero), -STACK_UNIT, ONLY_LOCAL, span=after.span, stack=after.stack),
            _compute(after, "mov.b64", name, self._unused),
            _compute(after, "add.b64", self._unused, self._unused, unit),
            _compute(after, "setp.ge.u64", none, self._unused, graph.constant("b64", self._end)),
        ]
        span = graph.spans[place.named[0].span]
        graph.traps.append(f"{_TOO_MANY} (line {span.line} of {PurePath(span.file).name})")
        insert_stop(graph, after, 0, none, len(graph.traps) - 1)
        after.instructions[:0] = code


def _compute(at: Instruction | Block, operation: str, result: Register, *operands: Register) -> Instruction:
    return Instruction(operation, (result,), operands, span=at.span, stack=at.stack)


def _look_up(at: Instruction | Block, operation: str, result: Register, *operands: Register) -> Instruction:
    """Return arithmetic whose result does not depend on where memory is located."""
    return Instruction(operation, (result,), operands, span=at.span, stack=at.stack, array=LOOKED_UP)


def _end(graph: Graph, life: Lifetime, place: LocalPlace, names: _Names | None) -> None:
    """Store the extent of a variable with each computation of its address, and 0 after the return."""
    at = {id(code) for code in place.named}
    for block in graph.blocks:
        for number in reversed(range(len(block.instructions))):
            code = block.instructions[number]
            if id(code) in at:
                entered = names.enter(place, code) if names is not None else _enter(graph, place, code)
                block.instructions[number : number + 1] = entered
    if names is not None:
        names.leave(place, life.after)
    else:
        life.after.instructions.insert(0, _store(graph, place, graph.constant("b64", 0), life.after))


def _enter(graph: Graph, place: LocalPlace, code: Instruction) -> list[Instruction]:
    unit = place.offset // STACK_UNIT
    code.operands = (code.operands[0], graph.constant("b64", place.offset + (ON_STACK + unit << LOCAL_SHIFT)))
    extent = graph.constant("b64", encode_extent(place.offset, variable_size(place.variable), place.offset))
    return [code, _store(graph, place, extent, code)]


def _store(graph: Graph, place: LocalPlace, value: Register, at: Instruction | Block) -> Instruction:
    base, before = graph.special("local"), place.offset - STACK_UNIT
    return Instruction("st.b64", (), (base, value), before, ONLY_LOCAL, span=at.span, stack=at.stack)
