"""The device heap: `malloc` and `free`, which `new` and `delete` of C++ call (CUDA C++ Programming Guide, "Dynamic
Global Memory Allocation and Operations").

A block has an address in a segment that does not exist, so that only the lookups emitted here can access it.  Each
access by an address that may be in a block looks up the block.  The result is an offset in the heap's memory, or an
address outside all memory that encodes the error.  Each thread owns a part of that memory, in which its blocks are
consecutive and nothing is allocated twice.  So addresses do not depend on the schedule, and freed blocks stay known.
Accesses to the tables are not checked for races.  A `free` writes to the whole block, so that it races with every
access to the block that does not happen before it.

The numeric value of an address is unspecified.  If a value is computed from one, other than another address of its
block or a comparison with 0 or for equality, the run ends.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import numpy as np

from wsemu.frontend.assemble.graph import TRUE
from wsemu.frontend.ptx.sizes import TYPE_BYTES
from wsemu.frontend.ptx.syntax import Address, Block, Both, Instruction, Name, Number, Vector
from wsemu.frontend.ptx.variables import CallParameter
from wsemu.model.addresses import ALLOCATED
from wsemu.model.data import dataclass
from wsemu.model.heap import (
    BEYOND,
    DTYPES,
    END,
    FREED,
    FREED_ALREADY,
    GONE,
    KIND_SHIFT,
    LIMIT,
    LIVE,
    MOST,
    NO_BLOCK,
    NUMBER,
    OUTGROWN,
    PART,
    SERIAL,
    SERIAL_SHIFT,
    STEP,
    UNIT,
    USED,
    WORDS,
)
from wsemu.model.isa import BY_TEXTURE, SEGMENT_SHIFT
from wsemu.model.program import ConstantArray
from wsemu.model.tensor_map import MAP_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from wsemu.frontend.assemble.graph import Register
    from wsemu.frontend.ptx.emit import Emitter
    from wsemu.frontend.ptx.syntax import Operand, Statement

_UNIT_SHIFT = UNIT.bit_length() - 1
_INSIDE = (1 << SERIAL_SHIFT) - 1
_LENGTHS = {"v2": 2, "v4": 4, "v8": 8}
_ACCESSES = frozenset({"ld", "ldu", "st", "atom", "red"})


@dataclass(slots=True)
class Heap:
    """The arrays of a kernel with a heap, by the registers with their addresses."""

    bytes: Register
    """address of the heap's memory"""
    owners: Register
    """address of a table: for each unit of the heap, the unit at which its block begins, b32"""
    sizes: Register
    """address of a table: for the first unit of each block, the block's bytes, b64"""
    threads: Register
    """address of a table: USED, LIVE and MOST of each thread"""
    info: Register
    """address of a table: PART, LIMIT, SERIAL, END"""


class _Steps:
    """Emits 64-bit arithmetic and table accesses for all lanes."""

    def __init__(self, e: Emitter) -> None:
        self.e = e
        if e.heap_memory is None:
            e.heap_memory = Heap(*(_array(e, part) for part in DTYPES))
        self.heap = e.heap_memory

    def number(self, value: int) -> Register:
        return self.e.constant("b64", value)

    def with_number(self, operation: str, a: Register, value: int) -> Register:
        return self.e.emit(operation, a, self.number(value))

    def load(self, table: Register, index: Register, bits: int = 64) -> Register:
        """Load an element of a table, as 64 bits."""
        e = self.e
        place = e.emit("add.b64", table, self.with_number("mul.b64", index, bits // 8))
        (value,) = e.effect(f"ld.b{bits}", (place,), (f"b{bits}",), auxiliary=BY_TEXTURE, array=self._name(table))
        return e.resize(value, 64)

    def load_info(self, what: int) -> Register:
        """Load a word of `info`."""
        (value,) = self.e.effect("ld.b64", (self.heap.info,), ("b64",), 8 * what, auxiliary=BY_TEXTURE)
        return value

    def store(self, table: Register, index: Register, value: Register) -> None:
        bits = self.e.bits(value)
        place = self.e.emit("add.b64", table, self.with_number("mul.b64", index, bits // 8))
        self.e.effect(f"st.b{bits}", (place, value), auxiliary=BY_TEXTURE, array=self._name(table))

    def _name(self, table: Register) -> str:
        return self.e.graph.constant_arrays[table].name


def _array(e: Emitter, part: str) -> Register:
    register = e.graph.new("b64")
    name = "heap" if part == "bytes" else f"heap.{part}"
    empty = np.zeros(0, DTYPES[part])  # type: ignore[index]
    e.graph.constant_arrays[register] = ConstantArray(0, name, empty, writable=part != "info", heap=part)
    return register


@contextlib.contextmanager
def _emitting_unguarded(e: Emitter) -> Iterator[None]:
    """Emit the code inside without a guard."""
    kept = e.guard, e.negated
    e.guard, e.negated = TRUE, False
    yield
    e.guard, e.negated = kept


def _stop_where(e: Emitter, condition: Register, why: str) -> None:
    """End the run in lanes that execute this instruction and for which a condition is true."""
    if e.guard != TRUE:
        condition = e.emit("andn.pred" if e.negated else "and.pred", condition, e.guard)
    kept = e.guard, e.negated
    e.guard, e.negated = condition, False
    e.stop(why)
    e.guard, e.negated = kept


# -- lookup of blocks --------------------------------------------------------------------------------------------------
@dataclass(slots=True)
class _Asked:
    """The result of looking up an address."""

    of_block: Register
    """true if the address is in the heap's address range"""
    of_other: Register
    """true if another launch allocated the block"""
    inside: Register
    """byte offset in the heap's memory"""
    start: Register
    """unit at which the block begins; 0 without a block"""
    size: Register
    """bytes of the block, with `GONE`"""


def _ask(e: Emitter, address: Register) -> _Asked:
    """Look up the block of an address, without a guard."""
    with e.looking_up():
        return _looked_up(e, address)


def _looked_up(e: Emitter, address: Register) -> _Asked:
    s = _Steps(e)
    of_block = s.with_number("setp.eq.b64", s.with_number("shr.u64", address, SEGMENT_SHIFT), NUMBER)
    serial = s.with_number("and.b64", address, -1 << SERIAL_SHIFT)
    of_other = e.emit("and.pred", of_block, e.emit("setp.ne.b64", serial, s.load_info(SERIAL)))
    inside = s.with_number("and.b64", address, _INSIDE)
    within = e.emit("and.pred", of_block, e.emit("setp.lt.u64", inside, s.load_info(END)))
    unit = e.emit("selp.b64", s.with_number("shr.u64", inside, _UNIT_SHIFT), s.number(0), within)
    start = s.load(s.heap.owners, unit, 32)
    return _Asked(of_block, of_other, inside, start, s.load(s.heap.sizes, start))


def _mistaken(e: Emitter, address: Register, kind: Register) -> Register:
    """Return an address outside of all memory that encodes the error."""
    s = _Steps(e)
    told = e.emit("or.b64", s.with_number("shl.b64", kind, KIND_SHIFT), s.number(1 << 63))
    return e.emit("or.b64", s.with_number("and.b64", address, (1 << KIND_SHIFT) - 1), told)


_FRAGMENT = "a matrix fragment in a block of the heap"
_ELSEWHERE = "a block of the heap that another launch allocated: blocks end here with their launch"


def heap_place(e: Emitter, address: Register, size: Register | None = None) -> Register:
    """Return the location of the data of an address that may be in a block, for the current instruction.  `size`: the
    bytes of a copy there (b32)."""
    s = _Steps(e)
    with _emitting_unguarded(e):
        asked = _ask(e, address)
    _stop_where(e, asked.of_other, _ELSEWHERE)
    if e.instruction is not None and e.instruction.opcode == "wmma":
        _stop_where(e, asked.of_block, _FRAGMENT)
    with _emitting_unguarded(e), e.looking_up():
        end = e.emit("add.b64", s.with_number("shl.b64", asked.start, _UNIT_SHIFT),
                     s.with_number("and.b64", asked.size, GONE - 1))  # fmt: skip
        count = s.number(_bytes(e.instruction)) if size is None else e.resize(size, 64)
        behind = e.emit("add.b64", asked.inside, count)
        good = e.emit("setp.le.u64", behind, e.emit("selp.b64", end, s.number(0), _none(s, asked)))
        freed = s.with_number("setp.ge.u64", asked.size, GONE)
        kind = e.emit("selp.b64", s.number(FREED), s.number(BEYOND), freed)
        good = e.emit("andn.pred", good, freed)
        place = e.emit("add.b64", s.heap.bytes, asked.inside)
        found = e.emit("selp.b64", place, _mistaken(e, address, kind), good)
        return e.emit("selp.b64", found, address, asked.of_block)


def _none(s: _Steps, asked: _Asked) -> Register:
    """Return whether the address belongs to no block."""
    return s.with_number("setp.ne.b64", asked.start, 0)


def _bytes(instruction: Instruction | None) -> int:
    """Return the bytes of an instruction's access: a tensor copy reads its map, and hints count as one byte."""
    if instruction is not None and instruction.opcode == "cp" and "tensor" in instruction.modifiers:
        return MAP_BYTES
    if instruction is None or instruction.opcode not in _ACCESSES:
        return 1
    type_ = next((m for m in reversed(instruction.modifiers) if m in TYPE_BYTES), "b8")
    return TYPE_BYTES[type_] * next((_LENGTHS[m] for m in instruction.modifiers if m in _LENGTHS), 1)


# -- allocation --------------------------------------------------------------------------------------------------------
def allocate(e: Emitter, results: tuple[Operand, ...], arguments: tuple[Operand, ...]) -> None:
    """Lower `malloc`: a block aligned to 64 bytes, or null if it is larger than the whole heap."""
    s = _Steps(e)
    size = _argument(e, arguments)
    _stop_where(e, s.with_number("setp.eq.b64", size, 0), "`malloc` of no bytes, of which is not said what it gives,")
    thread = s.with_number("mul.b64", _thread(e), WORDS)
    used, live, most = (s.load(s.heap.threads, s.with_number("add.b64", thread, word)) for word in (USED, LIVE, MOST))
    fits = e.emit("setp.le.u64", size, s.load_info(LIMIT))
    size = e.emit("selp.b64", size, s.number(0), fits)
    live = e.emit("add.b64", live, s.with_number("and.b64", s.with_number("add.b64", size, STEP - 1), -STEP))
    full = e.emit("setp.gt.u64", live, s.load_info(LIMIT))
    _stop_where(e, full, "the heap is used up: how many blocks it holds until `malloc` gives null is not known;")
    need = s.with_number("and.b64", s.with_number("add.b64", size, 2 * UNIT - 1), -UNIT)
    need = e.emit("selp.b64", need, s.number(0), fits)
    end = e.emit("add.b64", used, need)
    _stop_where(e, e.emit("setp.gt.u64", end, s.load_info(PART)), OUTGROWN)
    begin = e.emit("add.b64", s.with_number("add.b64", e.emit("mul.b64", _thread(e), s.load_info(PART)), UNIT), used)
    _enter(e, s, begin, size, need)
    for word, value in ((USED, end), (LIVE, live), (MOST, e.emit("max.u64", most, live))):
        s.store(s.heap.threads, s.with_number("add.b64", thread, word), value)
    begin = e.emit("or.b64", begin, s.load_info(SERIAL))
    with e.looking_up(ALLOCATED):
        address = e.emit("selp.b64", begin, s.number(0), fits)
    for operand in results:
        found = e.lookup(operand) if isinstance(operand, Name) else None
        if isinstance(found, CallParameter):
            e.effect_into("mov.b64", (address,), (found.store(e, "b64", 0),))


def _enter(e: Emitter, s: _Steps, begin: Register, size: Register, need: Register) -> None:
    """Enter a block into the tables: `size` bytes, for which `need` are reserved."""
    first = s.with_number("shr.u64", begin, _UNIT_SHIFT)
    owner = e.resize(first, 32)
    units = s.with_number("shr.u64", need, _UNIT_SHIFT)
    s.store(s.heap.sizes, first, size)
    for n in _emit_counted_loop(e, units):
        s.store(s.heap.owners, e.emit("add.b64", first, n), owner)


def _emit_counted_loop(e: Emitter, count: Register) -> Iterator[Register]:
    """Emit a loop; the yielded register runs through the numbers below `count`."""
    n = e.graph.new("b64")
    e.assign(n, "mov.b64", e.constant("b64", 0))
    head, body, behind = e.new_block(), e.new_block(), e.new_block()
    e.jump(head)
    e.place(head)
    e.guard, e.negated = e.emit("setp.lt.u64", n, count), False
    e.branch(body, behind)
    e.place(body)
    e.guard = TRUE
    yield n
    e.assign(n, "add.b64", n, e.constant("b64", 1))
    e.jump(head)
    e.place(behind)


def release(e: Emitter, results: tuple[Operand, ...], arguments: tuple[Operand, ...]) -> None:
    """Lower `free` of a block, or of null."""
    s = _Steps(e)
    address = _argument(e, arguments)
    inside, behind = e.new_block(), e.new_block()
    e.guard, e.negated = s.with_number("setp.ne.b64", address, 0), False
    e.branch(inside, behind)
    e.place(inside)
    e.guard = TRUE
    asked = _ask(e, address)
    _stop_where(e, asked.of_other, _ELSEWHERE)
    begins = e.emit("setp.eq.b64", s.with_number("shl.b64", asked.start, _UNIT_SHIFT), asked.inside)
    begins = e.emit("and.pred", e.emit("and.pred", begins, _none(s, asked)), asked.of_block)
    gone = s.with_number("setp.ge.u64", asked.size, GONE)
    good = e.emit("andn.pred", begins, gone)
    freed = e.emit("and.pred", begins, gone)
    kind = e.emit("selp.b64", s.number(FREED_ALREADY), s.number(NO_BLOCK), freed)
    named = e.emit("selp.b64", address, s.number(NUMBER << SEGMENT_SHIFT), asked.of_block)
    e.guard, e.negated = good, True
    e.effect("st.b8", (_mistaken(e, named, kind), e.constant("b8", 0)), auxiliary=BY_TEXTURE)
    e.guard, e.negated = TRUE, False
    size = e.emit("selp.b64", asked.size, s.number(0), good)
    zero = e.constant("b32", 0)
    start = e.emit("add.b64", s.heap.bytes, asked.inside)
    for n in _emit_counted_loop(e, s.with_number("shr.u64", s.with_number("add.b64", size, STEP - 1), 4)):
        place = e.emit("add.b64", start, s.with_number("mul.b64", n, STEP))
        e.effect("st.v4.b32", (place, zero, zero, zero, zero), auxiliary=BY_TEXTURE)
    _leave(e, s, asked, size, good)
    e.jump(behind)
    e.place(behind)


def _leave(e: Emitter, s: _Steps, asked: _Asked, size: Register, good: Register) -> None:
    """Remove a block from the tables; memory that a thread frees in its own part can be allocated again."""
    own = e.emit("mul.b64", _thread(e), s.load_info(PART))
    below = e.emit("sub.b64", s.with_number("sub.b64", asked.inside, UNIT), own)
    mine = e.emit("setp.lt.u64", below, s.load_info(PART))
    given = s.with_number("and.b64", s.with_number("add.b64", size, STEP - 1), -STEP)
    place = s.with_number("add.b64", s.with_number("mul.b64", _thread(e), WORDS), LIVE)
    live = s.load(s.heap.threads, place)
    left = e.emit("sub.b64", live, e.emit("selp.b64", given, s.number(0), mine))
    e.guard = good
    s.store(s.heap.threads, place, left)
    s.store(s.heap.sizes, asked.start, s.with_number("or.b64", size, GONE))
    e.guard = TRUE


def _argument(e: Emitter, arguments: tuple[Operand, ...]) -> Register:
    """Return the single argument of a call, b64."""
    operand = arguments[0]
    found = e.lookup(operand) if isinstance(operand, Name) else None
    if isinstance(found, CallParameter):
        value = found.load(e, "b64", 0)
        assert value is not None
        return value
    return e.read(operand, "b64")


def _thread(e: Emitter) -> Register:
    """Return the number of the thread in the grid."""

    def linear(place: str, size: str) -> Register:
        n = e.constant("b64", 0)
        for axis in "zyx":
            whole = e.emit("cvt.b64.u32", e.special(f"{size}.{axis}"))
            n = e.emit("add.b64", e.emit("mul.b64", n, whole), e.emit("cvt.b64.u32", e.special(f"{place}.{axis}")))
        return n

    threads = e.constant("b64", 1)
    for axis in "xyz":
        threads = e.emit("mul.b64", threads, e.emit("cvt.b64.u32", e.special(f"ntid.{axis}")))
    return e.emit("add.b64", e.emit("mul.b64", linear("ctaid", "nctaid"), threads), linear("tid", "ntid"))


# -- addresses as numbers ----------------------------------------------------------------------------------------------
_NUMERIC = frozenset("shr div rem mul mad xor popc clz brev bfe bfi min max".split())
_ORDERS = frozenset("lt le gt ge lo ls hi hs".split())
_WIDE = frozenset(("b64", "u64", "s64"))
_LOWEST = frozenset("and or xor add sub mov cvt".split())
"""operations on halves whose lowest bits come from the lowest bits of their operands"""
_ALIGNED, _WHOLE = 15, (1 << 64) - 1
"""`malloc` returns multiples of 16"""


def watch(e: Emitter, instruction: Instruction) -> None:
    """End the run if an instruction computes a number from a block's address, because that number is unspecified."""
    opcode, modifiers = instruction.opcode, instruction.modifiers
    if _WIDE.isdisjoint(modifiers[-2:]):
        return
    sources = [operand for operand in instruction.operands[1:] if type(operand) is Name]
    if opcode == "and" and _is_alignment(instruction):
        return
    narrow = opcode == "cvt" and modifiers[-1] in _WIDE and modifiers[-2] not in _WIDE
    if narrow and _is_for_alignment(e, instruction):
        return
    halved = opcode == "mov" and isinstance(instruction.operands[0], Vector) and not _is_carried(e, instruction)
    if opcode in _NUMERIC or narrow or halved or (opcode == "and" and len(sources) == 1):
        for operand in sources:
            _watch_one(e, operand)
    elif opcode == "atom" and "cas" in modifiers:
        for register in _registers(e, sources[:1]):
            with _emitting_unguarded(e):
                gone = _is_freed_address(e, _ask(e, register))
            _stop_where(e, gone, _WHY)
    elif len(sources) == 2 and (opcode == "sub" or opcode in ("setp", "set")):
        _watch_two(e, sources, equal=opcode != "sub" and _ORDERS.isdisjoint(modifiers))


def _is_alignment(instruction: Instruction) -> bool:
    """Return whether an `and` selects only the bits that are 0 in all addresses of `malloc`, or all other bits."""
    masks = [operand.value for operand in instruction.operands[1:] if type(operand) is Number]
    return bool(masks) and masks[0] & (_WHOLE - _ALIGNED) in (0, _WHOLE - _ALIGNED)


def _is_for_alignment(e: Emitter, instruction: Instruction) -> bool:
    """Return whether only such bits of half an address are used."""
    users = _users(e)
    todo, seen = [instruction], set[str]()
    while todo:
        destination = todo.pop().operands[0]
        if type(destination) is not Name:
            return False
        if destination.text in seen:
            continue
        seen.add(destination.text)
        for user in users.get(destination.text, ()):
            if user.opcode not in _LOWEST or user.modifiers[-1:] not in (("b32",), ("u32",), ("s32",)):
                return False
            constant = user.opcode == "and" and next((o for o in user.operands[1:] if type(o) is Number), None)
            if not constant:
                todo.append(user)
            elif constant.value & ~_ALIGNED:
                return False
    return True


def _is_carried(e: Emitter, instruction: Instruction) -> bool:
    """Return whether halves of an address only move between lanes and are joined again."""
    users = _users(e)
    todo, seen = list(_operand_names(instruction.operands[0])), set[str]()
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        for user in users.get(name, ()):
            packs = user.opcode == "mov" and isinstance(user.operands[1], Vector)
            given = [*_operand_names(user.operands[1])] if user.opcode in ("mov", "shfl") else []
            if name not in given or any(name in _operand_names(operand) for operand in user.operands[2:]):
                return False
            if not packs:
                todo += list(_operand_names(user.operands[0]))[:1]
    return True


def _users(e: Emitter) -> dict[str, list[Instruction]]:
    """Return register -> instructions that read it, in the current function."""
    body = e.frames[-1].function.body
    users: dict[str, list[Instruction]] = {}
    for user in _instructions(body.statements if body else ()):
        made = bool(user.operands) and isinstance(user.operands[0], Name | Vector | Both) and user.opcode != "brx"
        for operand in user.operands[made:]:
            for name in _operand_names(operand):
                users.setdefault(name, []).append(user)
    return users


def _instructions(statements: Iterable[Statement]) -> Iterator[Instruction]:
    for statement in statements:
        if isinstance(statement, Instruction):
            yield statement
        elif isinstance(statement, Block):
            yield from _instructions(statement.statements)


def _operand_names(operand: Operand) -> Iterator[str]:
    """Yield the names in an operand."""
    if isinstance(operand, Name):
        yield operand.text
    elif isinstance(operand, Address):
        yield from _operand_names(operand.base)
    elif isinstance(operand, Both):
        yield from _operand_names(operand.first)
    elif isinstance(operand, Vector):
        for item in operand.items:
            yield from _operand_names(item)


def _registers(e: Emitter, operands: list[Name]) -> list[Register]:
    """Return the 64-bit registers among the operands."""
    found = [e.lookup(operand) if any(operand.text in scope for scope in e.names) else None for operand in operands]
    return [register for register in found if isinstance(register, int) and e.bits(register) == 64]


_WHY = "what it gives depends on where in memory blocks of the heap lie,"


def _watch_one(e: Emitter, operand: Name) -> None:
    for register in _registers(e, [operand]):
        with e.looking_up():
            number = e.emit("shr.u64", register, e.constant("b64", SEGMENT_SHIFT))
            watched = e.emit("setp.eq.b64", number, e.constant("b64", NUMBER))
        _stop_where(e, watched, _WHY)


def _is_freed_address(e: Emitter, asked: _Asked) -> Register:
    """Return whether an address is that of a freed block, which a later block may reuse."""
    return e.emit("and.pred", asked.of_block, e.emit("setp.ge.u64", asked.size, e.constant("b64", GONE)))


def _watch_two(e: Emitter, operands: list[Name], *, equal: bool) -> None:
    """End the run if two operands are combined to a number.  With `equal`, the operation only tests whether both are
    equal, which is specified for blocks that exist."""
    registers = _registers(e, operands)
    if len(registers) == 2:
        with _emitting_unguarded(e):
            first, second = (_ask(e, register) for register in registers)
            both = e.emit("and.pred", first.of_block, second.of_block)
            apart = e.emit("and.pred", both, e.emit("setp.ne.b64", first.start, second.start))
            if equal:
                apart = e.emit(
                    "and.pred", apart, e.emit("or.pred", _is_freed_address(e, first), _is_freed_address(e, second))
                )
        _stop_where(e, apart, _WHY)
