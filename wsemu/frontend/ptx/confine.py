"""Bounds checks for variables in shared memory.

PTX has one address space for all `__shared__` variables of a kernel, so an index beyond one variable reaches another
one, and the text does not show which variable an access is meant for.  If an address is computed from the address of a
single variable, on every path, and from numbers, the access is meant for that variable.  Before such an access, an
`index` operation compares the address with the variable's extent, as in a kernel in Python: an access outside is
`out-of-bounds`, with its distance from the variable's first byte.

If a kernel has only one variable, nothing is compared, because the variable ends where shared memory does.  Addresses
that may belong to two variables, or may come from elsewhere, such as from memory, are not compared.  Neither are
addresses outside of shared memory: an index there may be computed from addresses, such as the distance of two.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from wsemu.frontend.assemble.graph import TRUE, Instruction
from wsemu.frontend.assemble.simplify import assignments
from wsemu.frontend.ptx.provenance import CARRIES
from wsemu.frontend.ptx.variables import WINDOW
from wsemu.model.addresses import LOOKED_UP
from wsemu.model.isa import CP_ASYNC, OFFSET_MASK, OPERATIONS, SEGMENT_SHIFT, SHARED, access_shape

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from wsemu.frontend.assemble.graph import Block, Graph, Register

Sources = dict["Register", int]
"""register -> bits of the variables from whose address it may be computed, and ELSEWHERE"""
ELSEWHERE = 1
"""a number, or an address of unknown origin"""
_SHORT = OFFSET_MASK
"""32-bit address of shared memory: the offset in the window, as in PTX"""
_WRAP = 1 << 64


_OPEN = 1 << 40
"""more bytes than dynamic shared memory can have, whose size is known only at the launch"""


class _Side(NamedTuple):
    """The shared-memory side of an access: the operand with its address, and its bytes, which may be in a register."""

    operand: int
    size: int
    length: Register | None = None


_BULK = {"bulk.load": (0, 2), "bulk.store": (1, 2), "bulk.reduce": (1, 2), "bulk.zero": (0, 1)}
"""operation -> the operand with its address in shared memory, and the operand with its size in bytes"""
_Known = dict[tuple["Register", int, str], tuple["Register", "Register"]]
"""(address, WINDOW or 0, which is added to it, variable) -> the full address, its distance from the variable's first
byte"""


class _Room(NamedTuple):
    """A variable: its size, and its distance in bytes from a special value, `shared` or `dynamic`."""

    special: str
    offset: int
    size: int


def confine(graph: Graph, origins: Mapping[Register, str], dynamic: Iterable[str]) -> None:
    """Insert an `index` before each access that may leave its variable.

    `origins` are registers that hold the address of a variable, `dynamic` the names of dynamic shared memory.
    """
    if len(graph.shared) + graph.uses_dynamic_shared < 2:
        return
    rooms = _rooms(graph, dynamic)
    names = list(dict.fromkeys(origins.values()))
    given = {register: 2 << names.index(name) for register, name in origins.items()}
    given.update((register, 2 << len(names)) for register in _other_addresses(graph) if register not in given)
    sources = _sources(graph, given)
    fixed = _distances(graph, {register: name for register, name in origins.items() if name in rooms})
    held = {
        register: names[bits.bit_length() - 2]
        for register, bits in sources.items()
        if ELSEWHERE < bits < 2 << len(names) and not bits & (bits - 1) and names[bits.bit_length() - 2] in rooms
    }
    _Confined(graph, rooms, held, fixed).blocks()


def _other_addresses(graph: Graph) -> Iterator[Register]:
    """Yield registers with the addresses of arrays in other memory."""
    yield from graph.constant_arrays
    yield from (register for register, parameter in graph.parameters.items() if parameter.part == "address")


def _rooms(graph: Graph, dynamic: Iterable[str]) -> dict[str, _Room]:
    """Map each name to its variable, without names that several variables share."""
    names = [*(array.name for array in graph.shared), *dynamic]
    rooms = dict.fromkeys(dynamic, _Room("dynamic", 0, _OPEN))
    for array in graph.shared:
        rooms[array.name] = _Room("shared", array.offset, math.prod(array.shape) * array.dtype.itemsize)
    return {name: room for name, room in rooms.items() if names.count(name) == 1}


def _sources(graph: Graph, given: Sources) -> Sources:
    """Return the possible sources of each register, on any path.

    For a sum, only the addresses among its operands count; for a choice, all operands.
    """
    steps = list(_steps(graph))
    made = {result for result, _, _ in steps}
    found = dict(given)
    changed = True
    while changed:
        changed = False
        for result, operands, chosen in steps:
            if result in given:
                continue
            parts = [found.get(r, 0 if r in made else ELSEWHERE) for r in operands]
            bits = _union(parts) if chosen else _sum_addresses(parts)
            before = found.get(result, 0)
            if bits | before != before:
                found[result] = bits | before
                changed = True
    return found


def _union(parts: list[int]) -> int:
    bits = 0
    for part in parts:
        bits |= part
    return bits


def _sum_addresses(parts: list[int]) -> int:
    """Return the sources of a sum of addresses and numbers; 0 while an operand is still unknown."""
    if not all(parts):
        return 0
    addresses = _union(parts) & ~ELSEWHERE
    return addresses | ELSEWHERE if all(part & ELSEWHERE for part in parts) else addresses


def _steps(graph: Graph) -> Iterator[tuple[Register, tuple[Register, ...], bool]]:
    """Yield (result, operands, whether the result is one of the operands)."""
    for block in graph.blocks:
        for phi in block.phis:
            yield phi.result, tuple(phi.incoming.values()), True
        for instruction in block.instructions:
            operation, operands = instruction.operation, instruction.operands
            for result in instruction.results:
                if operation not in CARRIES:
                    yield result, (TRUE,), True
                elif operation.startswith("selp"):
                    yield result, operands[:2], True
                else:
                    yield result, operands, False


_MEMORY = frozenset({"load", "store", "atomic"})
_KEEPS = frozenset({"mov.b32", "mov.b64", "cvt.b32.s64", "cvt.b32.u64", "cvt.b64.s32", "cvt.b64.u32"})
_SIGNS = {"add.b32": 1, "add.b64": 1, "sub.b32": -1, "sub.b64": -1}


def _distances(graph: Graph, given: Mapping[Register, str]) -> dict[Register, int]:
    """Return the distance from the first byte for each register with an address at a known position of a variable."""
    count = assignments(graph.blocks)
    values = {register: value for (_, value), register in graph.constants.items() if isinstance(value, int)}
    found = dict.fromkeys(given, 0)
    for block in graph.blocks:
        for instruction in block.instructions:
            if instruction.guard != TRUE or len(instruction.results) != 1 or count[instruction.results[0]] > 1:
                continue
            (result,), operands = instruction.results, instruction.operands
            if result in found or not operands or operands[0] not in found:
                continue
            distance, operation = found[operands[0]], instruction.operation
            number = values.get(operands[1]) if len(operands) == 2 else None
            window = (operation == "and.b64" and number == _SHORT) or (operation == "or.b64" and number == WINDOW)
            if operation in _KEEPS or window:
                found[result] = distance
            elif operation in _SIGNS and number is not None:
                found[result] = distance + _SIGNS[operation] * number
    return found


class _Confined:
    """The blocks of a graph, into which comparisons are inserted."""

    def __init__(
        self, graph: Graph, rooms: dict[str, _Room], held: dict[Register, str], fixed: dict[Register, int]
    ) -> None:
        self.graph, self.rooms, self.held, self.fixed = graph, rooms, held, fixed
        self.count = assignments(graph.blocks)
        self.first: list[Instruction] = []
        """instructions before all others: the addresses of variables"""
        self.bases: dict[str, Register] = {}
        """register with the address of each variable"""

    def blocks(self) -> None:
        for block in self.graph.blocks:
            self._block(block)
        self.graph.blocks[0].instructions[:0] = self.first

    def _block(self, block: Block) -> None:
        code: list[Instruction] = []
        known: _Known = {}
        for instruction in block.instructions:
            for side in _sides(instruction):
                name = self._name(instruction, side)
                if name is not None and not self._is_surely_inside(instruction, side, self.rooms[name]):
                    self._compare(instruction, side, name, code, known)
            code.append(instruction)
        block.instructions = code

    def _name(self, instruction: Instruction, side: _Side) -> str | None:
        """Return the variable for which an access is meant: its address is computed from it, or names it."""
        address = instruction.operands[side.operand]
        name = self.held.get(address)
        if name is None and instruction.array in self.rooms:
            special = self.rooms[instruction.array].special
            name = instruction.array if self.graph.specials.get(special) == address else None
        return name

    def _is_surely_inside(self, instruction: Instruction, side: _Side, room: _Room) -> bool:
        """Return whether an access is certainly inside."""
        address = instruction.operands[side.operand]
        immediate, _ = _split(instruction.immediate)
        if self.graph.specials.get(room.special) == address:
            distance = immediate - room.offset
        elif address in self.fixed:
            distance = self.fixed[address] + immediate
        else:
            return False
        return side.length is None and 0 <= distance <= room.size - side.size

    def _compare(
        self, instruction: Instruction, side: _Side, name: str, code: list[Instruction], known: _Known
    ) -> None:
        """Insert the comparison, and replace the address of the access by its result."""
        address = instruction.operands[side.operand]
        immediate, window = _split(instruction.immediate)
        span, stack = instruction.span, instruction.stack

        def emit(operation: str, *operands: Register, to: str = "b64") -> Register:
            result = self.graph.new(to)
            code.append(Instruction(operation, (result,), operands, span=span, stack=stack))
            return result

        elsewhere = not window and self._may_be_elsewhere(instruction)
        key = address, window, name
        if key not in known or self.count.get(address, 0) > 1:
            full = emit("add.b64", address, self.graph.constant("b64", window)) if window else address
            known[key] = full, emit("sub.b64", full, self._base(name))
        full, distance = known[key]
        if immediate:
            distance = emit("add.b64", distance, self.graph.constant("b64", immediate % _WRAP))
        extent = self.graph.constant("b64", max(0, self.rooms[name].size - side.size + 1))
        if side.length is not None:
            length = emit("min.u64", emit("cvt.b64.u32", side.length), extent)
            extent = emit("sub.b64", extent, length)
        if elsewhere:
            segment = emit("shr.u64", full, self.graph.constant("b64", SEGMENT_SHIFT))
            code[-1].array = LOOKED_UP
            here = emit("setp.eq.b64", segment, self.graph.constant("b64", SHARED), to="p")
            distance = emit("selp.b64", distance, self.graph.constant("b64", 0), here)
            extent = emit("selp.b64", extent, self.graph.constant("b64", 1), here)
        compared = emit("index.u64", distance, extent, self.graph.constant("b64", 0), full)
        before, after = instruction.operands[: side.operand], instruction.operands[side.operand + 1 :]
        instruction.operands, instruction.immediate = (*before, compared, *after), immediate
        instruction.array = instruction.array or name

    def _may_be_elsewhere(self, instruction: Instruction) -> bool:
        """Return whether an access at a generic address may be in other memory."""
        if instruction.operation not in OPERATIONS or OPERATIONS[instruction.operation].kind not in _MEMORY:
            return False
        return instruction.operands[0] not in self.graph.specials.values()

    def _base(self, name: str) -> Register:
        """Return the address of a variable."""
        found = self.bases.get(name)
        if found is None:
            found = self.bases[name] = self.graph.new("b64")
            room = self.rooms[name]
            distance = self.graph.constant("b64", room.offset)
            self.first.append(Instruction("add.b64", (found,), (self.graph.special(room.special), distance)))
        return found


def _sides(instruction: Instruction) -> tuple[_Side, ...]:
    """Return the accesses of an instruction that are compared."""
    name = instruction.operation
    if name in CP_ASYNC:
        return (_Side(0, CP_ASYNC[name]),)
    if name in _BULK:
        operand, length = _BULK[name]
        return (_Side(operand, 0, instruction.operands[length]),)
    known = name in OPERATIONS and OPERATIONS[name].kind in _MEMORY
    return (_Side(0, access_shape(name)[1]),) if known else ()


def _split(immediate: int) -> tuple[int, int]:
    """Return the offset of an access, and the window bit of its immediate."""
    window = WINDOW if abs(immediate - WINDOW) < abs(immediate) else 0
    return immediate - window, window
