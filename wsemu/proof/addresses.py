"""Addresses as numbers: what a launch does, or leaves, that depends on where its memory lies.

An address is the place of an allocation, which one launch does not fix, and a distance in it.  The analysis follows
each value as a sum: `plus` one place, `minus` one, and what depends on none.  So every launch has the same distance of
two addresses in one allocation, the same order of them, the same low bits as far as the alignment goes, and the same
answer to whether an address is null or equals another one.  Everything else that is made of an address is a `number`
that depends on the allocation: it must not decide where control goes or which place of another allocation is accessed,
and must not be left in an array of the caller.

An address may be stored and loaded again: it is one where it is loaded by the size and the constant offset by which it
was stored, as compilers access a field.  A whole one of memory that outlives the launch, stored in an array of the
caller, is left there for the host or another launch; one of memory that does not, or of a function, is a number there,
unless the launch loads addresses from that array that lead somewhere.

Detects: branches, exits, guards, operands of barriers and of warp-wide operations, addresses in another allocation, and
values left in arrays of the caller that depend on where memory lies: arrays of the caller, variables of the module and
of shared and local memory, parameters, functions.
Does not detect: comparisons of two addresses that were loaded from memory that the launch did not store them to; parts
of an address that memory takes apart, where they are loaded by another index than they were stored, or where the launch
stores numbers of that size, too.  Which of several allocations an address is in is not known behind a join: a
comparison of two such addresses counts as one between allocations.
Blocks of the heap are watched as the kernel runs (`frontend.ptx.heap`).
Reference: PTX ISA, "Addresses as Operands"; ISO C++, [expr.rel] 4 (the order of unrelated addresses is unspecified).
"""

from __future__ import annotations

import functools
import heapq
import operator
from typing import TYPE_CHECKING

import numpy as np

from wsemu.model.addresses import ALLOCATED, FIRST_FUNCTION, LOOKED_UP, WORKSPACE, is_function
from wsemu.model.data import NamedTuple
from wsemu.model.isa import LOCAL_SHIFT, NAMES, OFFSET_MASK, OPERATIONS, SIZE, access_shape, memory_shape
from wsemu.proof.taint import GUARDED, blocks_of
from wsemu.proof.taint_steps import Decoder, Regions, offset_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from wsemu.model.program import Program
    from wsemu.proof.taint_steps import Bits, SegmentOf, Step

ALL = 64
"""low bits that are known of a value which depends on no place"""
_ARRAY_BITS, _SHARED_BITS, _PARAMETER_BITS, _BLOCK_BITS = 8, 10, 6, 4
"""low bits of the address of a device allocation that are 0; of dynamic shared memory the low bits that a launch fixes:
the window begins at a multiple of 1,024, behind what the system keeps to itself; of a parameter; of a heap's block"""
_SMALL = frozenset(("shared", "dynamic", "local", "parameter", "constant"))
"""spaces whose addresses have 32 bits that count"""
_OUTLIVE = ("global", "variable", "constant", "heap")
"""those that are there after the launch"""


class Value(NamedTuple):
    """What a register holds, of places in memory."""

    plus: Bits = 0
    """the allocations of which one is added: of an address"""
    minus: Bits = 0
    """those of which one is subtracted"""
    number: Bits = 0
    """those on whose places it depends in any other way"""
    low: int = ALL
    """how many low bits are the same wherever the allocations lie"""
    at: int = 0
    """the constant part of an address's distance"""
    exact: bool = False
    """whether that is all of the distance from the first byte of the allocation"""
    half: bool = False
    """whether it is a part of an address: by lanes exchanged, or in memory, several of them make an address again"""
    loaded: Bits = 0
    """the allocations from whose memory it comes, also `ELSEWHERE`: it may be an address of which nothing is known"""

    @property
    def bits(self) -> Bits:
        return self.plus | self.minus | self.number


LEFT = "left address"
"""an address that is left whole in an array of the caller, which is no number in this launch"""
CHOSEN: Bits = 1
"""in a `number`: a place decides which of several values it is"""
ELSEWHERE = 0
"""stands for an allocation of which nothing is known"""
NOTHING = Value()
"""a number that depends on no place"""
_State = dict[int, Value]


class ByPlace(NamedTuple):
    """An executed instruction that does, or leaves, something else where memory lies elsewhere."""

    pc: int
    what: str
    """what of it: a branch, an address, ... ; `value`: what it leaves in memory; LEFT"""
    of: tuple[str, ...]
    """the allocations"""


def depends_on_places(
    program: Program, executions: Sequence[int], segment_of: Mapping[int, int], name_of: Callable[[int], str]
) -> list[ByPlace]:
    """Return what depends on where memory lies, by pc.

    `executions` counts per instruction; `segment_of` has the segments of rows with addresses, `name_of` their names.
    """
    if not program.shows_addresses:
        return []
    ran = (np.asarray(executions) != 0).tobytes()
    key = ran, tuple(sorted(segment_of.items()))
    known = program.derived.get("places")
    if known is None or known[0] != key:
        known = program.derived["places"] = key, _Analysis(program, ran, segment_of, name_of).found()
    found: list[ByPlace] = known[1]
    return found


# -- arithmetic --------------------------------------------------------------------------------------------------------
def _one(bits: Bits) -> bool:
    return not bits & (bits - 1)


def _made(plus: Bits, minus: Bits, number: Bits, low: int, loaded: Bits = 0) -> Value:
    if not (plus | minus | number) or low >= ALL:
        return Value(loaded=loaded) if loaded else NOTHING
    return Value(plus, minus, number, max(low, 0), loaded=loaded)


def _joined(a: Value, b: Value) -> Value:
    """One or the other; of a number instead of an address nothing is in memory."""
    if a == b:
        return a
    known = a if not b.plus else b
    same = bool(a.plus) != bool(b.plus) or a.at == b.at
    at, exact = known.at if same else 0, known.exact and same
    exact = exact and (bool(a.plus) != bool(b.plus) or (a.plus == b.plus and a.exact))
    low, loaded = min(a.low, b.low), a.loaded | b.loaded
    half = a.half or b.half
    return Value(a.plus | b.plus, a.minus | b.minus, a.number | b.number, low, at, exact, half, loaded)


def _number(*values: Value, low: int = 0) -> Value:
    """What depends on all of these in some way, but for its low bits."""
    return _made(0, 0, functools.reduce(operator.or_, (v.bits for v in values), 0), low)


def _chosen(a: Value, by: Value) -> Value:
    """One of several values, which one depends on a place: as an address it is that of another place, too."""
    return a._replace(number=a.number | by.bits | CHOSEN, low=0)


def _negated(a: Value) -> Value:
    return a._replace(plus=a.minus, minus=a.plus)


def _sum(a: Value, b: Value) -> Value:
    plus, minus, number = a.plus, a.minus, a.number | b.number
    more, less = b.plus, b.minus
    if plus and plus == less and _one(plus):
        plus = less = 0
    if minus and minus == more and _one(minus):
        minus = more = 0
    if (plus and more) or (minus and less):
        return _number(a, b, low=min(a.low, b.low))
    found = _made(plus | more, minus | less, number, min(a.low, b.low), a.loaded | b.loaded)
    return found._replace(at=a.at if a.plus else b.at) if bool(a.plus) != bool(b.plus) else found


def _as_number(a: Value) -> Value:
    """A half of an address, where it is not put together again."""
    return _number(a, low=a.low) if a.half else a


def _whole(a: Value, b: Value) -> Value:
    """An address of its halves."""
    return Value(plus=a.plus, low=min(a.low, b.low), loaded=a.loaded | b.loaded)


def _is_address(a: Value) -> bool:
    """Whether it is an address, null, or a number that depends on no place."""
    return not a.minus and not a.number


def _is_whole(a: Value) -> bool:
    """Whether it is an address of 64 bits."""
    return bool(a.plus) and _is_address(a) and not a.half


_KEEPS_HALVES = frozenset(("mov", "cvt", "or", "shl", "selp", "bfi"))


def _low_zeros(number: int) -> int:
    return (number & -number).bit_length() - 1 if number else ALL


class _Arithmetic:
    """What comes of values, operation by operation."""

    def __init__(self, program: Program, small: Bits) -> None:
        self.constants = {row: int(value) for row, type_, value in program.constants if type_ in ("b32", "b64")}
        self.small = small
        """the allocations whose addresses have 32 bits that count"""

    def result(self, name: str, fields: Sequence[int], state: _State) -> Value:
        """Of an operation without effects, whatever its guard."""
        operation = OPERATIONS[name]
        rows = fields[3 : 3 + len(operation.operands)]
        values = [state.get(row, NOTHING) for row in rows]
        if any(value.loaded for value in values):  # what memory holds at an index is no address where it is a float
            both = zip(values, operation.operands, strict=True)
            values = [NOTHING if value.loaded and type_[0] == "f" else value for value, type_ in both]
        if not any(value != NOTHING for value in values):
            return NOTHING
        kind = name.partition(".")[0]
        bits = 8 * SIZE.get(operation.result, 8)
        method = getattr(self, f"_of_{kind}", None)
        if method is not None and not operation.result.startswith("f"):
            values = values if kind in _KEEPS_HALVES else [_as_number(value) for value in values]
            found: Value = method(name, rows, values, bits)
            return found
        return _number(*values)

    def _of_mov(self, name: str, rows: Sequence[int], values: list[Value], bits: int) -> Value:
        return values[0]

    _of_varying = _of_mov

    def _of_cvt(self, name: str, rows: Sequence[int], values: list[Value], bits: int) -> Value:
        """Cut off or extended; cut to 32 bits, only an address in a small space is still one."""
        to, source = name.split(".")[1:3]
        (a,) = values
        if source[0] not in "su" or to[0] != "b":
            return _number(a)
        whole = self.small if bits == 32 else 0
        if bits >= int(source[1:]) or (a.plus and not (a.plus | a.minus) & ~whole):
            return a
        if a.low >= bits or a.half:
            return NOTHING if a.low >= bits else a
        if bits == 32 and _is_whole(a):
            return a._replace(half=True, exact=False)
        return _made(a.plus & whole, a.minus & whole, a.number | (a.plus | a.minus) & ~whole, a.low)

    def _of_add(self, name: str, rows: Sequence[int], values: list[Value], bits: int) -> Value:
        for row, value in zip(rows, reversed(values), strict=True):
            if row in self.constants and value != NOTHING:
                return self._moved(value, self.constants[row], bits)
        return _sum(*values)

    def _of_sub(self, name: str, rows: Sequence[int], values: list[Value], bits: int) -> Value:
        if rows[1] in self.constants and values[0] != NOTHING:
            return self._moved(values[0], -self.constants[rows[1]], bits)
        return _sum(values[0], _negated(values[1]))

    def _moved(self, value: Value, distance: int, bits: int) -> Value:
        """With a constant added, which is one of so many bits; not of an address that is subtracted."""
        half = 1 << bits - 1
        distance = (distance + half) % (2 * half) - half
        return value._replace(at=value.at + distance) if value.plus or value.loaded else value

    def _of_neg(self, name: str, rows: Sequence[int], values: list[Value], bits: int) -> Value:
        return _negated(values[0])

    _of_not = _of_neg

    def _of_mul(self, name: str, rows: Sequence[int], values: list[Value], bits: int) -> Value:
        a, b = values
        factor = self.constants.get(rows[1], self.constants.get(rows[0]))
        if factor is None:
            return _number(a, b)
        return _sum(a, b) if factor == 1 else _number(a, b, low=min(a.low, b.low) + _low_zeros(factor))

    _of_mulwide = _of_mul

    def _of_mad(self, name: str, rows: Sequence[int], values: list[Value], bits: int) -> Value:
        return _sum(self._of_mul(name, rows, values[:2], bits), values[2])

    _of_madwide = _of_mad

    def _of_index(self, name: str, rows: Sequence[int], values: list[Value], bits: int) -> Value:
        return _sum(values[3], _number(values[0], low=values[0].low))

    def _of_selp(self, name: str, rows: Sequence[int], values: list[Value], bits: int) -> Value:
        a, b, condition = values
        if name == "selp.pred":
            return _number(*values)
        chosen = _joined(a, b)
        return _chosen(chosen, condition) if condition.bits else chosen

    def _of_and(self, name: str, rows: Sequence[int], values: list[Value], bits: int) -> Value:
        a, b = values
        mask = self.constants.get(rows[1], self.constants.get(rows[0]))
        if mask is None or name.endswith("pred"):
            return _number(a, b)
        a = a if rows[1] in self.constants else b
        mask &= (1 << bits) - 1
        if mask >> min(a.low, bits) == 0:
            return NOTHING
        zeros = _low_zeros(mask)
        high = (mask >> zeros) + 1
        if high == 1 << bits - zeros or mask == OFFSET_MASK:  # what is left out is the way to the multiple below it
            if mask == OFFSET_MASK or not a.bits:
                return a
            return a._replace(low=max(a.low, zeros), at=0, exact=False)
        return _number(a, low=max(a.low, zeros))

    def _of_or(self, name: str, rows: Sequence[int], values: list[Value], bits: int) -> Value:
        a, b = values
        if a.half and b.half and a.plus == b.plus:
            return _whole(a, b)
        a, b = _as_number(a), _as_number(b)
        if name.endswith("pred") or (a.bits and b.bits):
            return _number(a, b, low=min(a.low, b.low))
        whole = rows[1] in self.constants and self.constants[rows[1]] > OFFSET_MASK
        return a if whole else (a if a.bits else b)._replace(exact=False)

    def _of_xor(self, name: str, rows: Sequence[int], values: list[Value], bits: int) -> Value:
        """As for `or`; bits of an array's address that a launch does not fix are a number when they are turned."""
        by = self.constants.get(rows[1], self.constants.get(rows[0], 0)) & ((1 << bits) - 1)
        low = min(value.low for value in values)
        if by >> low and (values[0].plus | values[1].plus) & ~self.small:
            return _number(*values, low=low)
        return self._of_or(name, rows, values, bits)

    def _of_shl(self, name: str, rows: Sequence[int], values: list[Value], bits: int) -> Value:
        by = self.constants.get(rows[1])
        if by == 0 or (by == 32 == bits - 32 and values[0].half):
            return values[0]
        values = [_as_number(value) for value in values]
        return _number(*values, low=0 if by is None else ALL if values[0].low + by >= bits else values[0].low + by)

    def _of_shr(self, name: str, rows: Sequence[int], values: list[Value], bits: int) -> Value:
        by = self.constants.get(rows[1])
        if by == 32 == bits - 32 and _is_whole(values[0]):
            return values[0]._replace(half=True, low=values[0].low - by if values[0].low > by else 0, exact=False)
        return values[0] if by == 0 else _number(*values, low=0 if by is None else values[0].low - by)

    def _of_bfe(self, name: str, rows: Sequence[int], values: list[Value], bits: int) -> Value:
        at, count = (self.constants.get(row) for row in rows[1:3])
        if at is None or count is None:
            return _number(*values)
        return NOTHING if at + count <= values[0].low else _number(*values, low=values[0].low - at)

    def _of_bfi(self, name: str, rows: Sequence[int], values: list[Value], bits: int) -> Value:
        a, b = values[:2]
        if a.half and b.half and a.plus == b.plus and bits == 64 and self.constants.get(rows[2]) == 32:
            return _whole(a, b)
        return _number(*values)

    def _of_rem(self, name: str, rows: Sequence[int], values: list[Value], bits: int) -> Value:
        by = self.constants.get(rows[1], 0)
        fixed = by > 0 and by & (by - 1) == 0 and by.bit_length() - 1 <= values[0].low and name[4] == "u"
        return NOTHING if fixed else _number(*values)

    def _of_min(self, name: str, rows: Sequence[int], values: list[Value], bits: int) -> Value:
        a, b = values
        distance = _sum(a, _negated(b))
        return _chosen(_joined(a, b), distance) if distance.bits else _joined(a, b)

    _of_max = _of_min

    def _of_setp(self, name: str, rows: Sequence[int], values: list[Value], bits: int) -> Value:
        """Everybody knows whether two addresses are the same, and which of two in one allocation comes first."""
        a, b = values
        if not _sum(a, _negated(b)).bits:
            return NOTHING
        if name.split(".")[1] in ("eq", "ne") and _is_address(a) and _is_address(b):
            others = [v for v in values if not v.plus]
            if not others or others[0].loaded:
                return NOTHING
        if any(self.constants.get(row) == 0 for row in rows) and _is_address(a) and _is_address(b):
            return NOTHING
        return _number(a, b)


# -- allocations -------------------------------------------------------------------------------------------------------
class _Places:
    """The allocations of a program, each a bit."""

    def __init__(self, program: Program, segment_of: Mapping[int, int], name_of: Callable[[int], str]) -> None:
        self.names = [""]
        self.spaces = [""]
        """the first of both stands for `CHOSEN`"""
        self.entry: _State = {}
        """what rows hold at the start"""
        self.bases: dict[int, str] = {}
        """row -> the space of which it has the first address"""
        self.tables: dict[str | None, int] = {}
        """those of the heap by their names: no address of the program is in them"""
        self.functions: dict[int, Value] = {}
        """address -> of the function there"""
        self.block = self._add("a block of the heap", "heap", _BLOCK_BITS)._replace(exact=False)
        """the address of any: whether two are in one block is watched as the kernel runs"""
        self._declared: dict[str, list[tuple[int, int, Value]]] = {"shared": [], "local": []}
        self._arguments(program, segment_of, name_of)
        self._variables(program, segment_of)
        self._functions(program)

    def _add(self, name: str, space: str, low: int) -> Value:
        self.names.append(name)
        self.spaces.append(space)
        return Value(plus=1 << len(self.names) - 1, low=low, exact=True)

    def of(self, *spaces: str) -> Bits:
        return sum(1 << n for n, space in enumerate(self.spaces) if space in spaces)

    def _arguments(self, program: Program, segment_of: Mapping[int, int], name_of: Callable[[int], str]) -> None:
        segments: dict[int, Value] = {}
        rows = [p.row for p in program.parameters if p.part in ("address", "first", "bytes")]
        for row in (*rows, *(array.row for array in program.constant_arrays if array.live)):
            segment = segment_of.get(row)
            if segment is None:
                continue
            if segment not in segments:
                segments[segment] = self._add(name_of(segment), "global", _ARRAY_BITS)
            self.entry[row] = segments[segment]
        for parameter in program.parameters:
            if parameter.part == "memory":
                self.entry[parameter.row] = self._add("a parameter", "parameter", _PARAMETER_BITS)

    def _variables(self, program: Program, segment_of: Mapping[int, int]) -> None:
        for array in program.constant_arrays:
            if array.heap not in ("", "bytes"):
                self.tables[array.name] = len(self.names)
                self._add(array.name, "table", 0)
            elif not array.live and not array.heap:
                low = _low_zeros(max(array.alignment, array.array.dtype.itemsize))
                self.entry[array.row] = self._add(f"`{array.name}`", "variable" if array.writable else "constant", low)
        for space, arrays in (("shared", program.shared), ("local", program.locals)):
            for one in arrays:
                value = self._add(f"`{one.name}`", space, _low_zeros(max(one.alignment, 1)))
                size = functools.reduce(operator.mul, one.shape, one.dtype.itemsize)
                self._declared[space].append((one.offset, one.offset + size, value))
            if space in program.specials:
                self.bases[program.specials[space]] = space
                self.entry[program.specials[space]] = self.at(space, None)
        if "dynamic" in program.specials:
            self.entry[program.specials["dynamic"]] = self._add("dynamic shared memory", "dynamic", _SHARED_BITS)

    def at(self, space: str, offset: int | None) -> Value:
        """An address of a variable at a byte offset of a space; of any, where that is not known."""
        if space == "local" and offset is not None:  # without the number of the variable
            offset &= (1 << LOCAL_SHIFT) - 1
        for start, end, value in self._declared[space]:
            if offset is not None and start <= offset < max(end, start + 1):
                return value._replace(at=offset - start)
        return functools.reduce(_joined, (value for *_, value in self._declared[space]), NOTHING)._replace(exact=False)

    def _functions(self, program: Program) -> None:
        rows = [(row, int(value)) for row, type_, value in program.constants if type_ == "b64"]
        for row, value in rows:
            if is_function(value):
                self.entry[row] = self.function(value)
        halves = (WORKSPACE >> 32, WORKSPACE & 0xFFFFFFFF)
        found = [row for row, type_, value in program.constants if type_ == "b32" and int(value) in halves]
        if found:
            workspace = self._add("the workspace of the grid", "workspace", 0)._replace(exact=False, half=True)
            self.entry.update(dict.fromkeys(found, workspace))

    def function(self, address: int) -> Value:
        """The address of a function."""
        if address not in self.functions:
            self.functions[address] = self._add("a function", "function", 0)
        return self.functions[address]


# -- flow --------------------------------------------------------------------------------------------------------------
_Field = tuple[str, int, int]
"""which bytes of an allocation: `at` an offset, an offset `by` an address somewhere in it, or `any`; and how many"""


class _Memory:
    """What is known of an allocation's contents."""

    def __init__(self) -> None:
        self.number: Bits = 0
        self.fields: dict[_Field, Value] = {}
        """addresses that are stored there, and parts of them"""
        self.numbers: set[_Field] = set()
        """where numbers are that are smaller than an address"""


class _Analysis:
    """What executed instructions do with addresses."""

    def __init__(
        self, program: Program, ran: bytes, segment_of: Mapping[int, int], name_of: Callable[[int], str]
    ) -> None:
        self._program = program
        self._places = _Places(program, segment_of, name_of)
        of_row: SegmentOf = segment_of.get
        regions = Regions(program, 0, of_row)
        self._decoder = Decoder(program, regions, {})
        self._code = self._decoder.code
        self._blocks = blocks_of(program, list(ran), self._decoder)
        self._arithmetic = _Arithmetic(program, self._places.of(*_SMALL))
        self._memory: dict[int, _Memory] = {}
        self._followed: Bits = 0
        """allocations from which addresses are loaded that lead to memory or a function, or are stored elsewhere"""
        self._states: dict[int, _State] = {}
        self._grown = False
        self._torn = False
        """whether a part of an address seems to be loaded"""
        self._by_parts = False
        """whether such loads count: it must be known where numbers are"""
        self._seed()
        self._states[0] = dict(self._places.entry)
        self._settle([0])
        if self._torn:
            self._by_parts = True
            self._settle(sorted(self._states))

    def _seed(self) -> None:
        """Addresses that stand in variables at the start."""
        for array in self._program.constant_arrays:
            value = self._places.entry.get(array.row)
            if value is None or array.heap or array.array.dtype.hasobject:
                continue
            data = np.ascontiguousarray(array.array).reshape(-1).view(np.uint8)
            words = data[: data.size // 8 * 8].view(np.uint64)
            of_function = words >> np.uint64(32) == FIRST_FUNCTION >> 32
            held = {8 * int(n): self._places.function(int(words[n])) for n in np.flatnonzero(of_function)}
            for at, row, more in array.addresses:
                held[at] = self._places.entry.get(row, NOTHING)._replace(at=more)
            for at, address in held.items():
                self._remember(value.plus.bit_length() - 1, ("at", at, 8), address)
                self._remember(value.plus.bit_length() - 1, ("any", 0, 8), address)

    def _contents(self, place: int) -> _Memory:
        return self._memory.setdefault(place, _Memory())

    def _remember(self, place: int, field: _Field, value: Value) -> None:
        contents = self._contents(place)
        before = contents.fields.get(field)
        after = value if before is None else _joined(before, value)
        if after != before:
            contents.fields[field] = after
            self._grown = True

    def _settle(self, work: list[int]) -> None:
        while work:
            self._grown = False
            self._flow(work)
            work = sorted(s for s in self._states if self._blocks[s].reads_memory) if self._grown else []

    def _flow(self, work: list[int]) -> None:
        pending = set(work)
        heap = sorted(pending)
        while heap:
            start = heapq.heappop(heap)
            pending.discard(start)
            block = self._blocks[start]
            state = dict(self._states[start])
            for step in block.steps:
                self._run(step, state)
            for target in block.successors:
                if self._arrive(target, state) and target not in pending:
                    pending.add(target)
                    heapq.heappush(heap, target)

    def _arrive(self, target: int, state: _State) -> bool:
        known = self._states.get(target)
        if known is None:
            self._states[target] = dict(state)
            return True
        news = False
        for row, value in state.items():
            before = known.get(row)
            after = value if before is None else _joined(before, value)
            if after != before:
                known[row] = after
                news = True
        return news

    def _run(self, step: Step, state: _State) -> None:
        if not step.writes and step.kind not in ("store", "atomic"):
            return
        values = self._effect(step, state)
        for n, row in enumerate(step.writes):
            value = values[min(n, len(values) - 1)]
            if step.guard:
                guard = state.get(step.guard, NOTHING).bits
                kept = _joined(value, state.get(row, NOTHING))
                kept = _chosen(kept, Value(number=guard)) if guard else kept
            else:
                kept = value
            if kept != NOTHING:
                state[row] = kept
            else:
                state.pop(row, None)

    def _effect(self, step: Step, state: _State) -> list[Value]:
        """What an instruction writes to its rows; the last one to all further rows."""
        fields = self._code[step.pc]
        name = NAMES[fields[0]]
        if OPERATIONS[name].kind == "alu":
            return [self._computed(step.pc, name, fields, state)]
        if step.kind in ("load", "store", "atomic"):
            return self._accessed(step, state)
        values = [state.get(row, NOTHING) for row in step.reads]
        if name.startswith("shfl") and step.kind == "warp":
            return [functools.reduce(_joined, values, NOTHING)]
        if name.startswith(("match", "alike")) and all(_is_address(value) for value in values):
            return [NOTHING]
        return [_number(*values)]

    def _computed(self, pc: int, name: str, fields: Sequence[int], state: _State) -> Value:
        if self._program.array_of[pc] == ALLOCATED:
            return self._places.block
        if self._program.array_of[pc] == LOOKED_UP:
            self._followed |= functools.reduce(operator.or_, (state.get(row, NOTHING).loaded for row in fields[3:5]))
            chosen = [state.get(row, NOTHING) for row in fields[3:5]] if name.startswith("selp") else []
            addresses = [value._replace(number=0) for value in chosen if value.plus]
            return functools.reduce(_joined, addresses) if addresses else NOTHING
        base = self._places.bases.get(fields[3]) if name == "add.b64" else None
        if base is not None and fields[4] in self._arithmetic.constants:
            return self._places.at(base, self._arithmetic.constants[fields[4]])
        return self._arithmetic.result(name, fields, state)

    # -- memory --------------------------------------------------------------------------------------------------------
    def _field(self, step: Step) -> tuple[int, int]:
        """Constant offset and size of an access."""
        fields = self._code[step.pc]
        name = NAMES[fields[0]]
        if OPERATIONS[name].kind not in ("load", "store", "atomic"):
            return 0, 0
        return offset_of(fields[6]), access_shape(name)[1] if step.kind == "atomic" else memory_shape(name)[1]

    def _where(self, step: Step, state: _State) -> list[int]:
        """The allocations that an access may go to."""
        table = self._places.tables.get(self._program.array_of[step.pc])
        if table is not None:
            return [table]
        address = self._address(step, state)
        bits = address.plus or address.number
        return [n for n in range(bits.bit_length()) if n and bits >> n & 1] or [ELSEWHERE]

    def _address(self, step: Step, state: _State) -> Value:
        base = self._places.bases.get(step.address)
        if base is not None:
            found = self._places.at(base, self._field(step)[0])
            return found._replace(at=found.at - self._field(step)[0])
        return state.get(step.address, NOTHING)

    def _accessed(self, step: Step, state: _State) -> list[Value]:
        places, (offset, size) = self._where(step, state), self._field(step)
        address = self._address(step, state) if step.address >= 0 else NOTHING
        self._followed |= address.loaded
        found = []
        if step.kind in ("load", "atomic"):
            found = [self._load(places, address, offset + n * size, size) for n in range(len(step.writes))]
        if step.kind in ("store", "atomic"):
            for more, value in self._stored(step, state):
                for place in places:
                    self._store(place, address, more, size, value)
        return found

    def _stored(self, step: Step, state: _State) -> Iterator[tuple[int, Value]]:
        """What an instruction stores at which constant offset."""
        offset, size = self._field(step)
        keeps = NAMES[self._code[step.pc][0]].split(".")[1] in ("exch", "cas") or step.kind == "store"
        rows = [row for row in step.reads[1:] if row != step.guard] if step.reads[:1] == (step.address,) else step.reads
        for n, row in enumerate(rows):
            value = state.get(row, NOTHING)
            yield offset + n * size * (step.kind == "store"), value if keeps else _number(value)

    def _load(self, places: Sequence[int], address: Value, offset: int, size: int) -> Value:
        found = NOTHING
        if size == 8:
            found = Value(loaded=functools.reduce(operator.or_, (1 << place for place in places)))
        number = 0
        at = address.at + offset
        fields: list[_Field] = [("by", at, size), ("at", at, size) if address.exact else ("any", 0, size)]
        others = () if places[0] in self._places.tables.values() else (ELSEWHERE,)
        for place in list(self._memory) if ELSEWHERE in places else (*places, *others):
            contents = self._memory.get(place)
            if contents is None:
                continue
            number |= contents.number
            for kept in (contents.fields[field] for field in fields if field in contents.fields):
                first, found = not found.plus, _joined(found, kept)
                if first:
                    found = found._replace(at=kept.at, exact=kept.exact)
            if places == [place] and (address.exact or self._places.spaces[place] in ("global", "shared", "dynamic")):
                found = _joined(found, self._of_parts(place, at, size))
        return found._replace(number=found.number | number, low=0) if number else found

    def _of_parts(self, place: int, at: int, size: int) -> Value:
        """A part of an address, where a whole one is stored; an address, where parts of one are."""
        contents = self._memory[place]
        kinds = ("at",) if self._places.spaces[place] == "local" else ("at", "by")  # many variables are one array there
        smaller = [(kind, at, size) for kind in ("by", "at")]
        if size < 8 and any(field in contents.numbers for field in smaller):
            return NOTHING
        whole = [(kind, at - back, 8) for kind in kinds for back in range(1 - size, 8)]
        parts = [(kind, at + n, width) for kind in kinds for n in range(8) for width in (1, 2, 4)]
        met = [contents.fields[field] for field in (whole if size < 8 else parts) if field in contents.fields]
        plus = functools.reduce(operator.or_, (value.plus for value in met if size < 8 or value.half), 0)
        if not plus:
            return NOTHING
        self._torn = True
        return Value(plus, low=0, half=size < 8, loaded=1 << place) if self._by_parts else NOTHING

    def _store(self, place: int, address: Value, offset: int, size: int, value: Value) -> None:
        contents = self._contents(place)
        where: _Field = ("at" if address.exact else "by", address.at + offset, size)
        if value.half and size < 8:
            self._remember(place, where, value)
            return
        value = _as_number(value)
        number = value.number | value.minus
        if size < 8 and not value.bits:
            contents.numbers.add(where)
        if size != 8 and (size != 4 or value.plus & ~self._arithmetic.small):  # a part of an address
            number |= value.plus
        elif value.plus:
            self._followed |= value.loaded
            kept = Value(plus=value.plus, low=value.low, at=value.at * value.exact, exact=value.exact)
            self._remember(place, where, kept)
            if address.exact and self._places.spaces[place] != "local":  # where an index leads, too
                self._remember(place, ("any", 0, size), kept)
        if number & ~contents.number:
            contents.number |= number
            self._grown = True

    # -- what must not depend on places ------------------------------------------------------------------------------
    def found(self) -> list[ByPlace]:
        """Return what depends on where memory lies."""
        made: dict[tuple[int, str], Bits] = {}
        for step, state in self._steps():
            for what, bits in self._steered(step, state):
                if bits:
                    made[step.pc, what] = made.get((step.pc, what), 0) | bits
        return [
            ByPlace(pc, what, tuple(dict.fromkeys(n for k, n in enumerate(self._places.names) if k and bits >> k & 1)))
            for (pc, what), bits in sorted(made.items())
        ]

    def _steps(self) -> Iterator[tuple[Step, _State]]:
        for start, first in self._states.items():
            state = dict(first)
            for step in self._blocks[start].steps:
                yield step, state
                self._run(step, state)

    def _steered(self, step: Step, state: _State) -> Iterator[tuple[str, Bits]]:
        if step.kind in ("bra", "exit"):
            yield "branch" if step.kind == "bra" else "exit", state.get(step.guard, NOTHING).bits
        elif step.guard and step.kind in GUARDED:
            yield GUARDED[step.kind], state.get(step.guard, NOTHING).bits
        if step.address >= 0:
            yield "address", self._beside(self._address(step, state))
        for row in step.operands:
            value = state.get(row, NOTHING)
            if step.kind in ("barrier", "warp"):
                yield "barrier operand" if step.kind == "barrier" else "member mask", value.bits
            else:
                yield "operand", self._beside(value)
        if step.kind in ("store", "atomic") and step.address >= 0:
            number, address = self._left(step, state)
            yield "value", number
            yield LEFT, address

    def _beside(self, address: Value) -> Bits:
        """The allocations whose places decide about an access to another one."""
        address = _as_number(address)
        others = address.number | address.minus
        if address.plus and not others & CHOSEN:
            return others & ~address.plus
        return 0 if _one(others) else others

    def _left(self, step: Step, state: _State) -> tuple[Bits, Bits]:
        """The allocations on whose places depends what is left in arrays of the caller: as a number, as an address."""
        callers, outlive = self._places.of("global"), self._places.of(*_OUTLIVE)
        outlasting = [place for place in self._where(step, state) if place == ELSEWHERE or callers >> place & 1]
        again = any(self._followed >> place & 1 for place in (*outlasting, ELSEWHERE))
        number = address = 0
        for _, value in self._stored(step, state) if outlasting else ():
            is_byte = bool(value.loaded) and self._field(step)[1] == 1  # of a structure that a loop copies
            number |= value.number | value.minus
            if not is_byte and (self._field(step)[1] < 8 or not _is_whole(value)):
                number |= value.plus & ~self._places.block.plus
            elif not again:
                number |= value.plus & ~outlive
                address |= value.plus & outlive & ~self._places.block.plus
        return number, address
