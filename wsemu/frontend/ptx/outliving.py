"""Find variables in local memory whose addresses may be in memory that outlives them.

An address may be stored in the variable itself, or in one that ends no later, and loaded again.  Wherever else it is
stored, it may be used after its function has returned.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from wsemu.frontend.ptx.provenance import CARRIES, passed_operands, propagate_provenance
from wsemu.model.isa import OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from wsemu.frontend.assemble.graph import Graph, Instruction, Register

    _Held = Mapping[Register, int]


class Outliving(NamedTuple):
    """The variables, as bits, whose addresses may outlive them in memory, and those whose addresses each register may
    hold."""

    left: int
    held: _Held


def find_outliving(
    graph: Graph,
    given: _Held,
    rooms: Sequence[int],
    find_named: Callable[[Instruction], int],
    unknown: Iterable[Register] = (),
) -> Outliving:
    """Return the variables whose addresses may outlive them.

    `given`: registers with addresses of variables, which are bits.  `rooms`: for each variable, those that may hold its
    address, because they end no later.  `find_named` returns the variable that an access names.  Stores at addresses
    from the registers `unknown` may reach any variable.
    """
    held = propagate_provenance(graph, dict(given))
    places = _propagate_places(graph, given, unknown)
    while True:
        contents, left = _read_stores(graph, held, places, rooms, find_named)
        loaded = dict(held)
        for code in _list_accesses(graph, "load"):
            found = _join(contents[n] for n in list_bits(places.get(code.operands[0], 0) | find_named(code)))
            for result in code.results if found else ():
                loaded[result] = loaded.get(result, 0) | found
        loaded = propagate_provenance(graph, loaded)
        if loaded == held:
            return Outliving(_close(left, contents), held)
        held = loaded


def _propagate_places(graph: Graph, given: _Held, unknown: Iterable[Register]) -> _Held:
    """Return the variables that each register may point to; none for a register that may point elsewhere, or is
    computed from an unknown one."""
    held = propagate_provenance(graph, dict(given))
    lost = propagate_provenance(graph, dict.fromkeys(unknown, 1))
    inside = {register for register in held if not lost.get(register)}
    written = [code for block in graph.blocks for code in block.instructions if not inside.isdisjoint(code.results)]
    times = Counter(result for code in written for result in code.results)
    inside -= {register for register in given if times[register] > 1}
    while True:
        outside = {
            result for code in written for result in code.results
            if result in inside and result not in given and not _stays_inside(code, inside)
        }  # fmt: skip
        if not outside:
            return {register: held[register] for register in inside}
        inside -= outside


def _stays_inside(code: Instruction, inside: set[Register]) -> bool:
    """Return whether the result points into a variable if these registers do: a selection needs it of both values, and
    arithmetic of one operand."""
    if code.operation not in CARRIES:
        return False
    if code.operation.startswith(("mov", "selp")):
        return all(operand in inside for operand in code.operands[: 1 + code.operation.startswith("selp")])
    return any(operand in inside for operand in code.operands)


def _read_stores(
    graph: Graph, held: _Held, places: _Held, rooms: Sequence[int], find_named: Callable[[Instruction], int]
) -> tuple[list[int], int]:
    """Return the variables whose addresses each variable may contain, and those whose addresses are stored
    elsewhere."""
    contents, left = [0] * len(rooms), 0
    for code in (code for block in graph.blocks for code in block.instructions if code.operation not in CARRIES):
        stored = _join(held.get(operand, 0) for operand in passed_operands(code))
        if not stored:
            continue
        is_store = code.operation in OPERATIONS and OPERATIONS[code.operation].kind == "store"
        into = places.get(code.operands[0], 0) | find_named(code) if is_store else 0
        for n in list_bits(stored):
            left |= (not into or into & ~rooms[n] != 0) << n
        for n in list_bits(into):
            contents[n] |= stored
    return contents, left


def _close(left: int, contents: Sequence[int]) -> int:
    """Add the variables whose addresses are in variables of unknown use."""
    while True:
        more = left | _join(contents[n] for n in list_bits(left))
        if more == left:
            return left
        left = more


def _list_accesses(graph: Graph, kind: str) -> Iterator[Instruction]:
    for block in graph.blocks:
        yield from (c for c in block.instructions if c.operation in OPERATIONS and OPERATIONS[c.operation].kind == kind)


def list_bits(bits: int) -> list[int]:
    """Return the numbers of the bits that are set."""
    return [n for n in range(bits.bit_length()) if bits >> n & 1]


def _join(sets: Iterable[int]) -> int:
    found = 0
    for bits in sets:
        found |= bits
    return found
