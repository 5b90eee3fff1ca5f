"""Find behavior and results of a launch that depend on the location of its memory.

An address is the location of an allocation, which differs between launches, plus a distance in it.  The analysis tracks
each value as a sum: `plus` one location, `minus` one location, and a part that depends on no location.  Some properties
of addresses do not depend on the location.  Two addresses in one allocation have the same distance and order in every
launch.  Low bits that the alignment determines are also the same, and so is whether a generic address is null, or an
address equals another one.  Everything else that is computed from an address is a `number` that depends on the
allocation.  A number must not influence control flow or the location of an access to another allocation, and must not
remain in an array of the caller.

An address may be stored and loaded again, moved by copies, split into parts and joined again.  A location in an
allocation is known up to a multiple of the stride of the index (`multiples.py`).  A load yields whatever a store of the
same size may have put at this location, or a part of what a store of another size may have put there.  A part counts as
a number, unless the program joins all parts of the address again.  For shared and local memory, the addresses of the
run (`reached`) replace the stride; they are equal in every schedule.  A number in shared memory counts for the loads
that read it in the run (`reaching`).  If a program stores a whole address in an array
of the caller, and the addressed memory outlives the launch, the address is meant for the host or another launch.  The
address of other memory, or of a function, counts as a number in such an array, unless the launch also loads addresses
from the array and dereferences them.

Detects: branches, exits, guards, operands of barriers and of warp-wide operations, addresses in another allocation, and
values left in arrays of the caller, if they depend on the location of memory.  This memory may be an array of the
caller, a variable of the module, of shared or of local memory, a parameter, or a function.
Does not detect: comparisons of two addresses that were loaded from memory to which the launch did not store them;
addresses in local memory of functions that call themselves.  Bytes of an address are not detected if a loop copies
them, in another order, to an array of the caller.  After a join, it may be unknown which of several allocations an
address is in: a comparison of two such addresses counts as a comparison between allocations.  `frontend.ptx.heap`
watches blocks of the heap while the kernel runs, and `frontend.ptx.ends_of_variables` comparisons with the end of
another allocation, unless one of the two was loaded from memory.
Reference: PTX ISA, "Addresses as Operands"; ISO C++, [expr.rel] 4 (the order of unrelated addresses is unspecified).
"""

from __future__ import annotations

import functools
import heapq
import math
import operator
from typing import TYPE_CHECKING

import numpy as np

from wsemu.model.addresses import (
    ALLOCATED,
    FIRST_FUNCTION,
    HALF_RELATIVE,
    LOOKED_UP,
    RELATIVE,
    SAVED,
    WATCHED,
    WATCHED_GLOBAL,
    WORKSPACE,
    is_function,
)
from wsemu.model.control_flow import STEERS
from wsemu.model.data import NamedTuple
from wsemu.model.effects import find_opcodes
from wsemu.model.isa import (
    ANYWHERE,
    CP_ASYNC,
    FORBIDS_SHIFT,
    IN_SHARED,
    LOCAL,
    LOCAL_SHIFT,
    NAMES,
    OFFSET_MASK,
    OPERATIONS,
    SEGMENT_SHIFT,
    SHARED,
    SIZE,
    access_shape,
    memory_shape,
)
from wsemu.model.shared_operands import IN_SHARED_MEMORY
from wsemu.proof.multiples import Multiples
from wsemu.proof.taint import GUARDED, blocks_of
from wsemu.proof.taint_steps import COPIED, Decoder, Regions, offset_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence

    from wsemu.model.program import Program
    from wsemu.proof.reaching_stores import Reaching
    from wsemu.proof.taint_steps import Bits, Reached, SegmentOf, Step

ALL = 64
"""number of known low bits of a value that depends on no location"""
_ARRAY_BITS, _SHARED_BITS, _PARAMETER_BITS, _BLOCK_BITS = 8, 10, 6, 4
"""number of low address bits that are equal in every launch, for a device allocation, dynamic shared memory, a
parameter and a block of the heap.  Shared memory begins at a multiple of 1,024, after a part for the system"""
_UPPER_BYTES = frozenset(range(_ARRAY_BITS // 8, 8))
"""bytes of an address whose bits may differ between launches"""
_SMALL = frozenset(("shared", "dynamic", "local", "parameter", "constant"))
"""address spaces in which an address has 32 significant bits"""
_RECORDED = frozenset(("shared", "dynamic", "local"))
"""address spaces in which a traced run gives the addresses of an access"""
_ON_COLUMNS = find_opcodes(lambda row: row.moves.unit == "columns")
"""opcodes of all operations that access tensor memory"""
_OUTLIVE = ("global", "variable", "constant", "heap")
"""kinds of memory that exist after the launch"""


class Value(NamedTuple):
    """The value of a register, as far as it concerns locations in memory."""

    plus: Bits = 0
    """allocations whose base address may be added in the value"""
    minus: Bits = 0
    """allocations whose base address may be subtracted in the value"""
    number: Bits = 0
    """allocations on whose location the value depends in any other way"""
    low: int = ALL
    """number of low bits that do not depend on the location of the allocations"""
    at: int = 0
    """an address's distance from the first byte of the allocation, up to a multiple of `step`"""
    step: int = 1
    """stride of the distance in bytes; 0: the distance is known"""
    half: bool = False
    """true for a part of an address; parts that are shuffled or stored may later be joined into the address again"""
    part: int = -1
    """for a part of an address, its lowest byte in the address, if known"""
    loaded: Bits = 0
    """allocations from whose memory the value was loaded; with `ELSEWHERE` among them it may be any address"""

    @property
    def bits(self) -> Bits:
        return self.plus | self.minus | self.number


LEFT = "left address"
"""a whole address that remains in an array of the caller; it does not count as a number in this launch"""
NUMBER = "number as an address"
"""a number that a program uses as an address of shared memory"""
CHOSEN: Bits = 1
"""flag in `number`: a location selects the value from several values"""
ELSEWHERE = 0
"""number that represents all allocations that are not known"""
NOTHING = Value()
"""a number that depends on no location"""
_State = dict[int, Value]
_WINDOW = SHARED << SEGMENT_SHIFT
"""bits that `cvta.shared` adds to an address"""
_MOST_PLACES = 4096
"""maximum number of locations that are tracked for an access; with more, the access may reach any location"""
_MAX_KEPT = 16
"""maximum number of results that are kept for a program"""


class ByPlace(NamedTuple):
    """An executed instruction whose effect depends on the location of memory."""

    pc: int
    what: str
    """dependent use: a branch, an address, and so on; `value`: a value left in memory; LEFT; NUMBER"""
    of: tuple[str, ...]
    """names of the allocations on whose location the effect depends"""


class Placed(NamedTuple):
    """A use of a value that depends on the location of memory."""

    found: list[ByPlace]
    strays: frozenset[int]
    """accesses with several possible locations in shared or local memory: the addresses of the run would give a more
    precise result"""


def depends_on_places(
    program: Program,
    executions: Sequence[int],
    segment_of: Mapping[int, int],
    name_of: Callable[[int], str],
    reached: Reached | None = None,
    reaching: Reaching | None = None,
) -> Placed:
    """Return what depends on where memory lies, by pc.

    `executions`: number of executions of each instruction.  `segment_of`: register row -> segment of the address in it.
    `name_of` returns the name of a segment.  `reached`: for accesses to shared and local memory, the addresses that
    they use in every schedule, if known.  `reaching`: the stores from which loads read in every schedule, if known.
    """
    if not program.shows_addresses:
        return Placed([], frozenset())
    ran = (np.asarray(executions) != 0).tobytes()
    key = ran, tuple(sorted(segment_of.items())), None if reached is None else tuple(sorted(reached))
    of_run = reached is not None or reaching is not None
    kept: dict[Hashable, Placed] = {} if of_run else program.derived.setdefault("places", {})
    if key not in kept:
        analysis = _Analysis(program, ran, segment_of, name_of, reached, reaching)
        placed = analysis.find_placement()
        if placed and (alike := analysis.find_lookalikes()):
            segment_of = {row: segment for row, segment in segment_of.items() if row not in alike}
            analysis = _Analysis(program, ran, segment_of, name_of, reached, reaching)
            placed = analysis.find_placement()
        if len(kept) >= _MAX_KEPT:
            del kept[next(iter(kept))]
        kept[key] = Placed(placed, frozenset(analysis.strays))
    return kept[key]


# -- arithmetic --------------------------------------------------------------------------------------------------------
def _one(bits: Bits) -> bool:
    return not bits & (bits - 1)


def _make_value(plus: Bits, minus: Bits, number: Bits, low: int, loaded: Bits = 0) -> Value:
    if not (plus | minus | number) or low >= ALL:
        return Value(loaded=loaded) if loaded else NOTHING
    return Value(plus, minus, number, max(low, 0), loaded=loaded)


def _join_values(a: Value, b: Value) -> Value:
    """Return a value that covers two values.  A number that does not come from memory adds nothing to the distance."""
    if a == b:
        return a
    low, loaded = min(a.low, b.low), a.loaded | b.loaded
    half, part = a.half or b.half, a.part if a.part == b.part or not b.half else b.part if not a.half else -1
    return Value(a.plus | b.plus, a.minus | b.minus, a.number | b.number, low, *_distance(a, b), half, part, loaded)


def _distance(a: Value, b: Value) -> tuple[int, int]:
    """Return `at` and `step` that cover the distances of two values.  If only one value can be an address, only its
    distance counts."""
    if bool(a.plus) != bool(b.plus):
        known = a if a.plus else b
    elif bool(a.loaded) != bool(b.loaded) and not a.plus:
        known = a if a.loaded else b
    else:
        step = math.gcd(a.step, b.step, a.at - b.at)
        return (a.at % step if step else a.at), step
    return known.at, known.step


def _spread(value: Value, by: int) -> Value:
    """Return an address plus an unknown multiple of `by`."""
    step = math.gcd(value.step, by)
    return value._replace(at=value.at % step if step else value.at, step=step)


def _power(number: int) -> int:
    """Return the largest power of 2 that divides a number; 0 for 0."""
    return number & -number


def _number(*values: Value, low: int = 0) -> Value:
    """Return a number that depends on all locations of some values, except in its `low` lowest bits."""
    return _make_value(0, 0, functools.reduce(operator.or_, (v.bits for v in values), 0), low)


def _choose_values(a: Value, by: Value) -> Value:
    """Return the value `a`, one of several values that `by` selects.  `by` depends on a location, so the result also
    depends on that location."""
    return a._replace(number=a.number | by.bits | CHOSEN, low=0)


def _negate_value(a: Value) -> Value:
    return a._replace(plus=a.minus, minus=a.plus)


def _sum(a: Value, b: Value, multiples: tuple[int, int] = (1, 1)) -> Value:
    """Return a + b.  `multiples` has a known factor of a and one of b."""
    plus, minus, number = a.plus, a.minus, a.number | b.number
    more, less = b.plus, b.minus
    if plus and plus == less and _one(plus):
        plus = less = 0
    if minus and minus == more and _one(minus):
        minus = more = 0
    if (plus and more) or (minus and less):
        return _number(a, b, low=min(a.low, b.low))
    found = _make_value(plus | more, minus | less, number, min(a.low, b.low), a.loaded | b.loaded)
    for address, distance, by in ((a, b, multiples[1]), (b, a, multiples[0])):
        if (address.plus and not distance.plus) or (address.loaded and not (distance.loaded or distance.plus)):
            return _spread(found._replace(at=address.at, step=address.step), by if distance == NOTHING else 1)
    return found


def _as_number(a: Value) -> Value:
    """Return a value as an operand of arithmetic that does not join parts of an address: a part becomes a number."""
    return _number(a, low=a.low) if a.half else a


def _whole(a: Value, b: Value) -> Value:
    """Return the address that two halves form."""
    at, step = _distance(a, b)
    return Value(plus=a.plus, low=min(a.low, b.low), at=at, step=step, loaded=a.loaded | b.loaded)


def _are_halves(a: Value, b: Value) -> bool:
    """Return whether two values are, as far as is known, the two halves of an address."""
    apart = {a.part, b.part} in ({0, 4}, {0, -1}, {4, -1}, {-1})
    return a.half and b.half and a.plus == b.plus and apart


def _is_address(a: Value) -> bool:
    """Return whether the value is an address, null, or a number that depends on no location."""
    return not a.minus and not a.number


def _is_whole(a: Value) -> bool:
    """Return whether a value is a whole 64-bit address."""
    return bool(a.plus) and _is_address(a) and not a.half


_KEEPS_HALVES = frozenset(("mov", "cvt", "or", "shl", "selp", "bfi"))


def _low_zeros(number: int) -> int:
    return (number & -number).bit_length() - 1 if number else ALL


class _Arithmetic:
    """The transfer functions of values, operation by operation."""

    def __init__(self, program: Program, places: _Places, multiples: Multiples) -> None:
        self.multiples = multiples
        self.factors: tuple[int, ...] = ()
        """factor of each operand of the instruction: the operand is a multiple of it"""
        self.watched: Bits = 0
        """allocations for which the kernel itself tests whether the instruction compares an end with a start"""
        self.spaces = [places.of("shared", "dynamic"), places.of("local"), places.outside_windows()]
        """allocations that may adjoin, by the space that they are in; heap blocks have a space between them"""
        self.constants = {row: int(value) for row, type_, value in program.constants if type_ in ("b32", "b64")}
        self.small = places.of(*_SMALL)
        """allocations whose addresses have only 32 significant bits"""
        self.sizes = places.sizes
        self._marks = program.array_of
        self.stray = Value(step=0, loaded=places.numbers)
        """a number that looks like an address of shared memory"""
        self.null = Value(low=ALL - 1)
        """0 as a value that is stored"""
        self.dynamic, self.dynamic_offset = places.dynamic.plus, places.dynamic_offset

    def result(self, pc: int, name: str, fields: Sequence[int], state: _State) -> Value:
        """Return the result of an operation without effects, whatever its guard."""
        operation = OPERATIONS[name]
        rows = fields[3 : 3 + len(operation.operands)]
        values = [state.get(row, NOTHING) for row in rows]
        if any(value.loaded for value in values):  # a loaded value that is used as a float is no address
            both = zip(values, operation.operands, strict=True)
            values = [NOTHING if value.loaded and type_[0] == "f" else value for value, type_ in both]
        kind = name.partition(".")[0]
        if kind == "or" and self.constants.get(rows[1]) == _WINDOW and rows[0] not in self.constants:
            return values[0] if values[0].bits else self.stray
        if not any(value != NOTHING for value in values):
            return NOTHING
        bits = 8 * SIZE.get(operation.result, 8)
        method = getattr(self, f"_evaluate_{kind}", None)
        if method is not None and not operation.result.startswith("f"):
            values = values if kind in _KEEPS_HALVES else [_as_number(value) for value in values]
            self.factors = self.multiples.of(pc)
            mark = self._marks[pc] or ""
            self.watched = self.spaces[-1] if mark.startswith(WATCHED_GLOBAL) else -1 if mark.startswith(WATCHED) else 0
            found: Value = method(name, rows, values, bits)
            return found
        return _number(*values)

    def _evaluate_mov(self, name: str, rows: Sequence[int], values: list[Value], bits: int) -> Value:
        return values[0]

    _evaluate_varying = _evaluate_mov

    def _evaluate_cvt(self, name: str, rows: Sequence[int], values: list[Value], bits: int) -> Value:
        """Return a value that is truncated or extended; truncation to 32 bits keeps only addresses of small spaces."""
        to, source = name.split(".")[1:3]
        (a,) = values
        if source[0] not in "su" or to[0] != "b":
            return _number(a)
        whole = self.small if bits == 32 else 0
        if bits >= int(source[1:]) or (a.plus and not (a.plus | a.minus) & ~whole):
            return a
        if a.low >= bits or a.half:
            return NOTHING if a.low >= bits else a
        if _is_whole(a):
            return a._replace(half=True, part=0)
        return _make_value(a.plus & whole, a.minus & whole, a.number | (a.plus | a.minus) & ~whole, a.low)

    def _evaluate_add(self, name: str, rows: Sequence[int], values: list[Value], bits: int) -> Value:
        for row, value in zip(rows, reversed(values), strict=True):
            if row in self.constants and value != NOTHING:
                return self.move_address(value, self.constants[row], bits)
        return _sum(values[0], values[1], (self.factors[0], self.factors[1]))

    def _evaluate_sub(self, name: str, rows: Sequence[int], values: list[Value], bits: int) -> Value:
        if rows[1] in self.constants and values[0] != NOTHING:
            return self.move_address(values[0], -self.constants[rows[1]], bits)
        return _sum(values[0], _negate_value(values[1]), (self.factors[0], self.factors[1]))

    def move_address(self, value: Value, distance: int, bits: int = 64) -> Value:
        """Return an address plus a constant of `bits` bits; a value that only subtracts an address stays as it is."""
        half = 1 << bits - 1
        distance = (distance + half) % (2 * half) - half
        if not (value.plus or value.loaded):
            return value
        at = value.at + distance
        return value._replace(at=at % value.step if value.step else at)

    def _evaluate_neg(self, name: str, rows: Sequence[int], values: list[Value], bits: int) -> Value:
        return _negate_value(values[0])

    _evaluate_not = _evaluate_neg

    def _evaluate_mul(self, name: str, rows: Sequence[int], values: list[Value], bits: int) -> Value:
        a, b = values
        factor = self.constants.get(rows[1], self.constants.get(rows[0]))
        if factor is None:
            return _number(a, b)
        if factor == 1:
            return a if rows[1] in self.constants else b
        return _number(a, b, low=min(a.low, b.low) + _low_zeros(factor))

    _evaluate_mulwide = _evaluate_mul

    def _evaluate_mad(self, name: str, rows: Sequence[int], values: list[Value], bits: int) -> Value:
        one, other, added = self.factors[:3]
        return _sum(self._evaluate_mul(name, rows, values[:2], bits), values[2], (one * other, added))

    _evaluate_madwide = _evaluate_mad

    def _evaluate_index(self, name: str, rows: Sequence[int], values: list[Value], bits: int) -> Value:
        return _sum(values[3], _number(values[0], low=values[0].low))

    def _evaluate_selp(self, name: str, rows: Sequence[int], values: list[Value], bits: int) -> Value:
        a, b, condition = values
        if name == "selp.pred":
            return _number(*values)
        chosen = _join_values(a, b)
        return _choose_values(chosen, condition) if condition.bits else chosen

    def _evaluate_and(self, name: str, rows: Sequence[int], values: list[Value], bits: int) -> Value:
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
        # `and` subtracts the bits that it clears: the distance to the multiple of a power of 2 below the address
        if high == 1 << bits - zeros or mask == OFFSET_MASK:
            if mask == OFFSET_MASK or not a.bits:
                return a
            low, known = max(a.low, zeros), 1 << min(a.low, zeros)
            first = self._remainder(a)
            below = a._replace(low=low, at=((a.at + first) & -known) - first)
            if a.low >= zeros and a.step % known == 0 and not self._is_mixed(a):  # all cleared bits are known
                return below
            return _spread(below, min(known, _power(first) or known))
        return _number(a, low=max(a.low, zeros))

    def _remainder(self, address: Value) -> int:
        """Return the low bits of an allocation's first address; they are 0 except in dynamic shared memory, which
        follows variables."""
        return self.dynamic_offset % (1 << _SHARED_BITS) if address.plus & self.dynamic else 0

    def _is_mixed(self, address: Value) -> bool:
        """Return whether an address may be in several allocations whose first addresses have different low bits."""
        return address.plus != self.dynamic and bool(self._remainder(address))

    def _evaluate_or(self, name: str, rows: Sequence[int], values: list[Value], bits: int) -> Value:
        a, b = values
        if _are_halves(a, b):
            return _whole(a, b)
        a, b = _as_number(a), _as_number(b)
        if name.endswith("pred") or (a.bits and b.bits):
            return _number(a, b, low=min(a.low, b.low))
        if rows[1] in self.constants and self.constants[rows[1]] > OFFSET_MASK:
            return a
        n = int(not a.bits)
        address, by = (a, b)[n], self.constants.get(rows[1 - n], -1)
        first = address.at + self._remainder(address)
        fits = 0 <= by < 1 << address.low and not first & by and (address.step == 0 or _power(address.step) > by)
        fits = fits and not self._is_mixed(address)
        if fits and name.startswith("or"):
            return address._replace(at=address.at + by)
        return _spread(address, _power(self.factors[1 - n]))

    def _evaluate_xor(self, name: str, rows: Sequence[int], values: list[Value], bits: int) -> Value:
        """Return the result of `xor`: like `or`, except that an address becomes a number if `xor` may change bits that
        the launch does not determine.
        """
        by = self.constants.get(rows[1], self.constants.get(rows[0], 0)) & ((1 << bits) - 1)
        low = min(value.low for value in values)
        if by >> low and (values[0].plus | values[1].plus) & ~self.small:
            return _number(*values, low=low)
        return self._evaluate_or(name, rows, values, bits)

    def _evaluate_shl(self, name: str, rows: Sequence[int], values: list[Value], bits: int) -> Value:
        by = self.constants.get(rows[1])
        if by == 0 or (by == 32 == bits - 32 and values[0].half and values[0].part in (4, -1)):
            return values[0]
        values = [_as_number(value) for value in values]
        return _number(*values, low=0 if by is None else ALL if values[0].low + by >= bits else values[0].low + by)

    def _evaluate_shr(self, name: str, rows: Sequence[int], values: list[Value], bits: int) -> Value:
        by = self.constants.get(rows[1])
        if by and by % 8 == 0 and by < bits == 64 and _is_whole(values[0]):
            return values[0]._replace(half=True, part=by // 8, low=max(values[0].low - by, 0))
        return values[0] if by == 0 else _number(*values, low=0 if by is None else values[0].low - by)

    def _evaluate_bfe(self, name: str, rows: Sequence[int], values: list[Value], bits: int) -> Value:
        at, count = (self.constants.get(row) for row in rows[1:3])
        if at is None or count is None:
            return _number(*values)
        return NOTHING if at + count <= values[0].low else _number(*values, low=values[0].low - at)

    def _evaluate_bfi(self, name: str, rows: Sequence[int], values: list[Value], bits: int) -> Value:
        a, b = values[:2]
        if _are_halves(a, b) and bits == 64 and self.constants.get(rows[2]) == 32:
            return _whole(a, b)
        return _number(*values)

    def _evaluate_rem(self, name: str, rows: Sequence[int], values: list[Value], bits: int) -> Value:
        by = self.constants.get(rows[1], 0)
        fixed = by > 0 and by & (by - 1) == 0 and by.bit_length() - 1 <= values[0].low and name[4] == "u"
        return NOTHING if fixed else _number(*values)

    def _evaluate_min(self, name: str, rows: Sequence[int], values: list[Value], bits: int) -> Value:
        a, b = values
        distance = _sum(a, _negate_value(b))
        return _choose_values(_join_values(a, b), distance) if distance.bits else _join_values(a, b)

    _evaluate_max = _evaluate_min

    def _evaluate_setp(self, name: str, rows: Sequence[int], values: list[Value], bits: int) -> Value:
        """Return the result of a comparison.

        Two outcomes are the same in every launch: whether two addresses are equal, and which of two addresses in one
        allocation is lower.
        """
        a, b = values
        if not _sum(a, _negate_value(b)).bits:
            return NOTHING
        if name.split(".")[1] in ("eq", "ne") and _is_address(a) and _is_address(b):
            others = [v for v in values if not v.plus]
            if others[0].loaded if others else self.are_inside(values, self.watched):
                return NOTHING
        # offset 0 in the window of shared or local memory may be a variable's
        generic = not name.endswith("32") or not (a.plus | b.plus) & self.small
        if generic and any(self.constants.get(row) == 0 for row in rows) and _is_address(a) and _is_address(b):
            return NOTHING
        return _number(a, b)

    def are_inside(self, values: Sequence[Value], watched: Bits = 0) -> bool:
        """Return whether no address is the end of an allocation and possibly the start of another one.  Either none is
        an end, or all are in one allocation, in different spaces, or in allocations `watched` by the kernel.  If the
        size of an allocation is unknown, only its first byte is known to be inside."""
        every = functools.reduce(operator.or_, (value.plus for value in values), 0)
        doubtful = sum(space for space in self.spaces if not _one(every & space)) & ~watched
        return all(
            not value.step and 0 <= value.at < max(self.sizes.get(1 << n, 1), 1)
            for value in values
            for n in range(value.plus.bit_length())
            if value.plus & doubtful & 1 << n
        )

    def uses_relative(self, name: str, values: list[Value], mark: str | None) -> bool:
        """Return whether arithmetic with addresses that may be relative to their state space depends on where the space
        begins.  Unlike a generic address, a relative one may be 0, or equal to a number from memory."""
        a, b = values[:2]
        if not (a.plus | b.plus) & self.small:
            return False
        if a.plus and b.plus:
            return mark == HALF_RELATIVE
        return name.startswith("setp")


# -- allocations -------------------------------------------------------------------------------------------------------
class _Places:
    """The allocations of a program, each a bit."""

    def __init__(self, program: Program, segment_of: Mapping[int, int], name_of: Callable[[int], str]) -> None:
        self.names = [""]
        self.spaces = [""]
        """name and space of each allocation, by its bit; the first bit is `CHOSEN`"""
        self.mapped: _State = {}
        """row of a tensor map's address -> the array that the map describes"""
        self.entry: _State = {}
        """row -> the value that it holds at the start"""
        self.bases: dict[int, str] = {}
        """row -> the space whose first address it holds"""
        self.tables: dict[str | None, int] = {}
        """name of a table of the heap -> its bit; these tables hold no addresses of the program"""
        self.heaps = frozenset(array.name for array in program.constant_arrays if array.heap == "bytes")
        """name of the heap, which contains all blocks"""
        self.dynamic = NOTHING
        """first address of dynamic shared memory"""
        self.dynamic_offset = -(-program.shared_bytes // 16) * 16
        """distance of dynamic shared memory from the first byte of shared memory"""
        self.functions: dict[int, Value] = {}
        """address of a function -> its value"""
        self.block = self._add("a block of the heap", "heap", _BLOCK_BITS)
        """address of any heap block: while the kernel runs, the heap checks whether two addresses are in one block"""
        self.columns = self._add("tensor memory", "tensor", ALL)
        """tensor memory, to which no address leads"""
        self.numbers = self._add("shared memory", "number", ALL).plus
        """flag in `loaded` of numbers that may be used as addresses of shared memory"""
        self.sizes: dict[Bits, int] = {}
        """size in bytes of variables"""
        self._declared: dict[str, list[tuple[int, int, Value]]] = {"shared": [], "local": []}
        self._arguments(program, segment_of, name_of)
        self._variables(program, segment_of)
        self._functions(program)

    def _add(self, name: str, space: str, low: int) -> Value:
        self.names.append(name)
        self.spaces.append(space)
        return Value(plus=1 << len(self.names) - 1, low=low, step=0)

    def outside_windows(self) -> Bits:
        """Return the allocations that are neither in shared nor in local memory, nor blocks of the heap."""
        return ((1 << len(self.names)) - 1) & ~1 & ~self.of("shared", "dynamic", "local", "heap")

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
                segment = segment_of.get(parameter.row)
                if segment is not None:  # the array that a tensor map describes
                    if segment not in segments:
                        segments[segment] = self._add(name_of(segment), "global", _ARRAY_BITS)
                    self.mapped[parameter.row] = segments[segment]._replace(step=1)

    def _variables(self, program: Program, segment_of: Mapping[int, int]) -> None:
        for array in program.constant_arrays:
            if array.heap not in ("", "bytes"):
                self.tables[array.name] = len(self.names)
                self._add(array.name, "table", 0)
            elif not array.live and not array.heap:
                low = _low_zeros(max(array.alignment, array.array.dtype.itemsize))
                self.entry[array.row] = self._add(f"`{array.name}`", "variable" if array.writable else "constant", low)
                self.sizes[self.entry[array.row].plus] = array.array.nbytes
        self.frames = self._add("a frame", "local", 3)
        """memory of `alloca` and of recursive functions"""
        recursive = any(name is not None and name.startswith(SAVED) for name in program.array_of)
        self.untracked = self.frames.plus if recursive else 0
        """allocations whose location no computation turns into a number"""
        for space, arrays in (("shared", program.shared), ("local", program.locals)):
            for one in arrays:
                value = self._add(f"`{one.name}`", space, _low_zeros(max(one.alignment, 1)))
                size = functools.reduce(operator.mul, one.shape, one.dtype.itemsize)
                self.sizes[value.plus] = size
                self._declared[space].append((one.offset, one.offset + size, value))
            if space in program.specials:
                self.bases[program.specials[space]] = space
                self.entry[program.specials[space]] = self.at(space, None)
        if "dynamic" in program.specials:
            self.dynamic = self._add("dynamic shared memory", "dynamic", _SHARED_BITS)
            self.entry[program.specials["dynamic"]] = self.dynamic

    def at(self, space: str, offset: int | None) -> Value:
        """Return the address of the variable at a byte offset in a space, or of any variable if the offset is unknown.

        Local memory without a variable belongs to stack frames.  Dynamic shared memory follows all variables.
        """
        if space == "shared" and offset is not None and offset >= self.dynamic_offset and self.dynamic != NOTHING:
            return self.dynamic._replace(at=offset - self.dynamic_offset)
        if space == "local" and offset is not None:  # without the bits that number the variable
            offset &= (1 << LOCAL_SHIFT) - 1
        for start, end, value in self._declared[space]:
            if offset is not None and start <= offset < max(end, start + 1):
                return value._replace(at=offset - start)
        if space == "local" and (offset is not None or not self._declared[space]):
            return self.frames._replace(at=offset or 0)
        return functools.reduce(_join_values, (value for *_, value in self._declared[space]), NOTHING)._replace(
            at=0, step=1
        )

    def _functions(self, program: Program) -> None:
        rows = [(row, int(value)) for row, type_, value in program.constants if type_ == "b64"]
        for row, value in rows:
            if is_function(value):
                self.entry[row] = self.function(value)
        halves = (WORKSPACE >> 32, WORKSPACE & 0xFFFFFFFF)
        found = [row for row, type_, value in program.constants if type_ == "b32" and int(value) in halves]
        if found:
            workspace = self._add("the workspace of the grid", "workspace", 0)._replace(step=1, half=True)
            self.entry.update(dict.fromkeys(found, workspace))

    def function(self, address: int) -> Value:
        """Return the address of a function."""
        if address not in self.functions:
            self.functions[address] = self._add("a function", "function", 0)
        return self.functions[address]


# -- flow --------------------------------------------------------------------------------------------------------------
class _Field(NamedTuple):
    """Bytes of an allocation that hold an address, or a part of one."""

    at: int
    step: int
    """0: `at` is the distance of the first byte from the allocation's start; otherwise that distance modulo `step`"""
    size: int
    value: Value

    def fits(self, at: int) -> bool:
        """Return whether a part of an address is at its place in an address stored at distance `at`."""
        return self.step % 8 == 0 and (self.at - at - self.value.part) % 8 == 0


class _Source(NamedTuple):
    """The memory from which a copy reads."""

    places: list[int]
    address: Value
    size: int


class _Memory:
    """The values that an allocation may contain."""

    def __init__(self) -> None:
        self.number: Bits = 0
        self.numbers: dict[tuple[int, int], set[int]] = {}
        """(at, size) of the numbers that were stored at known distances, without 0 -> their stores"""
        self._fields: dict[int, dict[tuple[int, int], Value]] = {}
        """size -> (at, step) -> value"""

    def keep(self, field: _Field) -> bool:
        """Add a value to those of a field, and return whether this changes them."""
        of_size = self._fields.setdefault(field.size, {})
        before = of_size.get((field.at, field.step))
        after = field.value if before is None else _join_values(before, field.value)
        of_size[field.at, field.step] = after
        return after != before

    def fields(self) -> Iterator[_Field]:
        for size, of_size in list(self._fields.items()):
            for (at, step), value in list(of_size.items()):
                yield _Field(at, step, size, value)

    def loadable_values(self, at: int, step: int, size: int, *, anywhere: bool) -> Iterator[Value]:
        """Yield the values that a load of `size` bytes may return as a whole; `anywhere`: a field at a known distance
        matches any load.
        """
        for (other, by), value in self._fields.get(size, {}).items():
            apart, common = other - at, math.gcd(step, by)
            if (apart % common == 0 if common else apart == 0) or (anywhere and not by):
                yield value

    def part(self, at: int, step: int, size: int) -> Value:
        """Return what a load may return of addresses that were stored in another size: a part, or an address that all
        its parts form.
        """
        met = list(self._overlapping(at, step, size))
        if not met:
            return NOTHING
        plus = functools.reduce(operator.or_, (field.value.plus for field in met), 0)
        covered = {byte for field in met if not field.step for byte in range(field.at, field.at + field.size)}
        every = bool(step) or any(field.step for field in met) or covered >= {*range(at, at + size)}
        fit = all(field.value.half and (field.value.part < 0 or field.fits(at)) for field in met)
        if size == 8 and every and fit:
            return Value(plus, low=0)
        part = met[0].at - at if len(met) == 1 and not met[0].value.half else 1
        part = -part if part <= 0 and math.gcd(step, met[0].step) % 8 == 0 else -1
        return Value(plus, low=0, half=True, part=part)

    def _overlapping(self, at: int, step: int, size: int) -> Iterator[_Field]:
        for other_size, of_size in self._fields.items():
            for (other, by), value in of_size.items() if other_size != size else ():
                apart, common = other - at, math.gcd(step, by)
                before, after = (apart % common, -apart % common) if common else (apart, -apart)
                if value.plus and (0 <= before < size or 0 <= after < other_size):
                    yield _Field(other, by, other_size, value)


class _Analysis:
    """The flow of addresses through the executed instructions."""

    def __init__(
        self,
        program: Program,
        ran: bytes,
        segment_of: Mapping[int, int],
        name_of: Callable[[int], str],
        reached: Reached | None,
        reaching: Reaching | None,
    ) -> None:
        self._program = program
        self._reaching = reaching
        self._places = _Places(program, segment_of, name_of)
        self._at_numbers = self._places.of(*_RECORDED) & ~self._places.frames.plus
        """allocations in which programs use numbers as addresses; frames of functions have addresses of their own"""
        of_row: SegmentOf = segment_of.get
        regions = Regions(program, 0, of_row)
        self._decoder = Decoder(program, regions, {})
        self._code = self._decoder.code
        self._blocks = blocks_of(program, list(ran), self._decoder)
        multiples = Multiples(program, self._code, self._blocks)
        self._arithmetic = _Arithmetic(program, self._places, multiples)
        self._shared = self._places.of("shared", "dynamic")
        self._reached = {} if reached is None else dict(self._places_of(reached))
        self.strays: set[int] = set()
        """accesses that may reach several locations of one allocation in shared or local memory"""
        self._source = _Source([], NOTHING, 0)
        self._memory: dict[int, _Memory] = {}
        self._saved: dict[tuple[str, int], Value] = {}
        self._followed: Bits = 0
        """allocations from which the launch loads addresses and dereferences, calls, or stores them elsewhere"""
        self._states: dict[int, _State] = {}
        self._grown = False
        self._seed()
        self._states[0] = dict(self._places.entry)
        self._settle([0])

    def _places_of(self, reached: Reached) -> Iterator[tuple[int, list[Value]]]:
        """Yield the addresses that each access used in the run, if they are known and few."""
        for pc, addresses in reached.items():
            name = NAMES[self._code[pc][0]]
            unit, count = memory_shape(name)[1:3] if OPERATIONS[name].kind != "atomic" else (access_shape(name)[1], 1)
            first = sorted(at & OFFSET_MASK for at in addresses if at % (unit * count) == 0)
            spaces = {"local" if at >> SEGMENT_SHIFT == LOCAL else "shared" for at in addresses}
            places = [self._places.at(space, at) for space in spaces for at in first]
            if len(spaces) == 1 and 0 < len(places) <= _MOST_PLACES and not any(place.step for place in places):
                yield pc, places

    def _seed(self) -> None:
        """Record the addresses that variables hold initially."""
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
                self._remember(value.plus.bit_length() - 1, _Field(at, 0, 8, address))

    def _contents(self, place: int) -> _Memory:
        return self._memory.setdefault(place, _Memory())

    def _remember(self, place: int, field: _Field) -> None:
        self._grown |= self._contents(place).keep(field)

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
            after = value if before is None else _join_values(before, value)
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
                kept = _join_values(value, state.get(row, NOTHING))
                kept = _choose_values(kept, Value(number=guard)) if guard else kept
            else:
                kept = value
            if kept != NOTHING:
                state[row] = kept
            else:
                state.pop(row, None)

    def _effect(self, step: Step, state: _State) -> list[Value]:
        """Return the values that an instruction writes to its rows; rows beyond the last value get the last value."""
        fields = self._code[step.pc]
        name = NAMES[fields[0]]
        if OPERATIONS[name].kind == "alu":
            return [self._evaluate_step(step.pc, name, fields, state)]
        if step.kind in ("load", "store", "atomic"):
            return self._evaluate_access(step, state)
        values = [state.get(row, NOTHING) for row in step.reads]
        if name.startswith("shfl") and step.kind == "warp":
            return [functools.reduce(_join_values, values, NOTHING)]
        if name.startswith(("match", "alike")) and all(_is_address(value) for value in values):
            joined = functools.reduce(_join_values, values, NOTHING)
            if _one(joined.plus) or self._arithmetic.are_inside([joined]):
                return [NOTHING]
        return [_number(*values)]

    def _evaluate_step(self, pc: int, name: str, fields: Sequence[int], state: _State) -> Value:
        if self._program.array_of[pc] == ALLOCATED:
            return self._places.block
        if self._program.array_of[pc] == LOOKED_UP:
            self._followed |= functools.reduce(operator.or_, (state.get(row, NOTHING).loaded for row in fields[3:5]))
            chosen = [state.get(row, NOTHING) for row in fields[3:5]] if name.startswith("selp") else []
            addresses = [value._replace(number=0) for value in chosen if value.plus]
            return functools.reduce(_join_values, addresses) if addresses else NOTHING
        mark = (self._program.array_of[pc] or "").removeprefix(WATCHED_GLOBAL).removeprefix(WATCHED)
        if mark in (RELATIVE, HALF_RELATIVE):
            values = [state.get(row, NOTHING) for row in fields[3:5]]
            if self._arithmetic.uses_relative(name, values, mark):
                return _number(*values)
        base = self._places.bases.get(fields[3]) if name == "add.b64" else None
        if base is not None and fields[4] in self._arithmetic.constants:
            return self._places.at(base, self._arithmetic.constants[fields[4]])
        return self._arithmetic.result(pc, name, fields, state)

    # -- memory --------------------------------------------------------------------------------------------------------
    def _field(self, step: Step) -> tuple[int, int]:
        """Return the constant offset and the size of an access; a copy has size 0."""
        fields = self._code[step.pc]
        name = NAMES[fields[0]]
        kind = OPERATIONS[name].kind
        if kind in ("load", "store", "atomic"):
            return offset_of(fields[6]), access_shape(name)[1] if kind == "atomic" else memory_shape(name)[1]
        if name.startswith("async."):
            return 0, SIZE[name.split(".")[2]]
        return offset_of(fields[6]) if name in CP_ASYNC and step.kind == "store" else 0, 0

    def _where(self, step: Step, address: Value) -> list[int]:
        """Return the allocations that an access may reach."""
        table = self._places.tables.get(self._program.array_of[step.pc])
        if table is not None:
            return [table]
        bits = address.plus or address.number
        return [n for n in range(bits.bit_length()) if n and bits >> n & 1] or [ELSEWHERE]

    def _address(self, step: Step, state: _State) -> Value:
        if step.address < 0:
            return self._places.columns._replace(step=1) if self._code[step.pc][0] in _ON_COLUMNS else NOTHING
        base = self._places.bases.get(step.address)
        if base is not None:
            found = self._places.at(base, self._field(step)[0])
            return found._replace(at=found.at - self._field(step)[0])
        if step.array and self._is_tile(step):
            return self._places.mapped.get(step.address) or Value(plus=self._places.of("global", "variable"))
        if step.array and COPIED in step.writes:  # a descriptor of a matrix in shared memory
            return Value(plus=self._places.of("shared", "dynamic"))
        return state.get(step.address, NOTHING)

    def _is_tile(self, step: Step) -> bool:
        """Return whether this is the side of a tensor copy that a tensor map describes."""
        name: str = NAMES[self._code[step.pc][0]]
        return name.startswith("tensor.")

    def _spots(self, step: Step, address: Value) -> list[tuple[list[int], Value]]:
        """Return pairs of the allocations that an access may reach and its address in them."""
        reached = self._reached.get(step.pc)
        if reached is not None:
            return [([found.plus.bit_length() - 1], found) for found in reached]
        places = self._where(step, address)
        if address.step and self._field(step)[1] and any(self._places.spaces[n] in _RECORDED for n in places):
            self.strays.add(step.pc)
        return [(places, self._arithmetic.move_address(address, self._field(step)[0]))]

    def _evaluate_access(self, step: Step, state: _State) -> list[Value]:
        name = self._program.array_of[step.pc]
        if name is not None and name.startswith(SAVED):
            return self._saved_value((name, self._field(step)[0]), step, state)
        address = self._address(step, state)
        self._followed |= address.loaded
        at_numbers = 0 if name in self._places.heaps else self._at_numbers  # blocks are in global memory
        found = []
        for places, to in self._spots(step, address):
            if step.kind == "load" and COPIED in step.writes:
                self._source = _Source(places, to, step.reach)
                found.append([_number(*(field.value for field in self._copied_fields()))])
            elif step.kind in ("load", "atomic"):
                found.append([self._load(step, places, to, n, at_numbers) for n in range(len(step.writes))])
            if step.kind in ("store", "atomic"):
                for field in self._stored_fields(step, state, to):
                    for place in places:
                        self._store(place, field, step.pc)
        return [functools.reduce(_join_values, values) for values in zip(*found, strict=True)]

    def _saved_value(self, where: tuple[str, int], step: Step, state: _State) -> list[Value]:
        """Propagate a register that is saved before a call and restored after it."""
        before = self._saved.get(where, NOTHING)
        if step.kind == "load":
            return [before]
        after = _join_values(before, state.get(step.reads[1], NOTHING))
        self._grown |= after != before
        self._saved[where] = after
        return []

    def _stored_fields(self, step: Step, state: _State, to: Value) -> Iterator[_Field]:
        """Yield the fields that an instruction stores at the address `to`."""
        if COPIED in step.reads:
            for field in self._copied_fields():
                yield self._arriving(field, to, reduced=step.kind == "atomic")
            return
        size = self._field(step)[1]
        keeps = NAMES[self._code[step.pc][0]].split(".")[1] in ("exch", "cas") or step.kind == "store"
        rows = [row for row in step.reads[1:] if row != step.guard] if step.reads[:1] == (step.address,) else step.reads
        for n, row in enumerate(rows):
            value = state.get(row, NOTHING)
            if value == NOTHING and self._arithmetic.constants.get(row) == 0:  # null, in a list of addresses
                value = self._arithmetic.null
            there = self._arithmetic.move_address(to, n * size * (step.kind == "store"))
            yield _Field(there.at, there.step, size, value if keeps else _number(value))

    def _copied_fields(self) -> Iterator[_Field]:
        """Yield the fields that a copy reads; a number has size 0."""
        places, source, size = self._source
        for place in list(self._memory) if ELSEWHERE in places else (*places, ELSEWHERE):
            contents = self._memory.get(place)
            if contents is None:
                continue
            if contents.number:
                yield _Field(0, 1, 0, Value(number=contents.number, low=0))
            for field in contents.fields():
                known = place != ELSEWHERE and not (source.step or field.step)
                if known and not source.at - field.size < field.at < source.at + size:
                    continue
                yield field if field.size <= size else field._replace(value=_number(field.value))

    def _arriving(self, field: _Field, to: Value, *, reduced: bool) -> _Field:
        """Return the field that a copy writes: it keeps its distance from the copy's address, if both addresses are
        known.
        """
        source = self._source.address
        value = _number(field.value) if reduced else field.value
        if not (source.plus and to.plus):
            return _Field(0, field.size or 1, field.size, value)
        step = math.gcd(field.step, source.step, to.step)
        at = field.at - source.at + to.at
        return _Field(at % step if step else at, step, field.size, value)

    def _load(self, step: Step, places: Sequence[int], address: Value, element: int, at_numbers: Bits) -> Value:
        """Return the possible results of a load, for an element of a vector.  At an unknown address, it may read a part
        of an address that is stored in one of the allocations `at_numbers`."""
        size, found = self._field(step)[1], NOTHING
        if size == 8:
            loaded = functools.reduce(operator.or_, (1 << place for place in places))
            found = Value(step=0, loaded=loaded)
        number, numbers = 0, False
        at, stride = address.at + element * size, address.step
        others = () if places[0] in self._places.tables.values() else (ELSEWHERE,)
        for place in list(self._memory) if ELSEWHERE in places else (*places, *others):
            contents = self._memory.get(place)
            if contents is None:
                continue
            number |= contents.number
            numbers |= not stride and self._reads_one(step.pc, contents.numbers.get((at, size), ()))
            anywhere = ELSEWHERE in places and place != ELSEWHERE
            found = functools.reduce(_join_values, contents.loadable_values(at, stride, size, anywhere=anywhere), found)
            if place != ELSEWHERE and (place in places or (anywhere and at_numbers >> place & 1)):
                part = contents.part(at, 1 if anywhere else stride, size)
                if part.plus:
                    found = _join_values(found, part._replace(loaded=1 << place))
        if numbers and found.plus & self._shared:
            found = found._replace(loaded=found.loaded | self._places.numbers)
        return found._replace(number=found.number | number, low=0) if number else found

    def _reads_one(self, load: int, stores: Collection[int]) -> bool:
        """Return whether a load may read from one of some stores.  The order of atomics is not known."""
        if self._reaching is None or self._kind(load) != "load":
            return bool(stores)
        read = self._reaching.read.get(load, frozenset())
        return any(store in read or self._kind(store) != "store" for store in stores)

    def _kind(self, pc: int) -> str:
        return OPERATIONS[NAMES[self._code[pc][0]]].kind

    def _store(self, place: int, field: _Field, pc: int) -> None:
        value, size = field.value, field.size
        if size < 8 and _is_whole(value) and not (size == 4 and self._is_small(value)):
            value = value._replace(half=True, part=0)
        if value.half and size < 8:
            self._remember(place, field._replace(value=value))
            return
        value = _as_number(value)
        number = value.number | value.minus
        if size != 8 and (size != 4 or not self._is_small(value)):  # a part of an address
            number |= value.plus
        elif value.plus:
            self._followed |= value.loaded
            kept = Value(plus=value.plus, low=value.low, at=value.at, step=value.step)
            self._remember(place, field._replace(value=kept))
        contents = self._contents(place)
        if not field.step and not value.bits and value != self._arithmetic.null:
            stores = contents.numbers.setdefault((field.at, size), set())
            self._grown |= pc not in stores
            stores.add(pc)
        if number & ~contents.number:
            contents.number |= number
            self._grown = True

    def _is_small(self, value: Value) -> bool:
        return not value.plus & ~self._arithmetic.small

    # -- influence of memory locations ---------------------------------------------------------------------------------
    def find_placement(self) -> list[ByPlace]:
        """Return the behavior and results that depend on the location of memory."""
        made: dict[tuple[int, str], Bits] = {}
        for step, state in self._steps():
            for what, found in self._influenced_rows(step, state):
                bits = found & ~self._places.untracked
                if bits & ~CHOSEN:
                    made[step.pc, what] = made.get((step.pc, what), 0) | bits
        return [
            ByPlace(pc, what, tuple(dict.fromkeys(n for k, n in enumerate(self._places.names) if k and bits >> k & 1)))
            for (pc, what), bits in sorted(made.items())
        ]

    def find_lookalikes(self) -> frozenset[int]:
        """Return the rows of 8-byte structure members that only look like addresses.

        Their upper bytes happen to name an allocation, because padding between the members of a structure holds
        arbitrary bytes. A member is a lookalike if the launch stores it only to the structure's own memory, and loads
        from there only other bytes than the upper ones.
        """
        rows = {p.row for p in self._program.parameters if p.part == "bytes"} & self._places.entry.keys()
        stored: dict[int, list[tuple[int, int]]] = {row: [] for row in rows}
        loaded: list[tuple[list[int], Value, int]] = []
        for step, state in self._steps():
            used = rows & {*step.reads, *step.operands, step.address}
            if not used and step.kind not in ("load", "atomic"):
                continue
            address = self._address(step, state)
            where, (offset, size) = self._where(step, address), self._field(step)
            if step.kind in ("load", "atomic"):
                loaded.append((where, self._arithmetic.move_address(address, offset), size * max(1, len(step.writes))))
            known = (
                step.kind == "store" and size == 8 and not address.step and len(where) == 1 and ELSEWHERE not in where
            )
            for row in used:
                stored.setdefault(row, []).append((where[0], address.at + offset) if known else (ELSEWHERE, 0))

        def meets(place: int, at: int) -> bool:
            return place == ELSEWHERE or any(
                ELSEWHERE in where or (place in where and (one.step or not size or one.at + size > at + 5 > one.at - 3))
                for where, one, size in loaded
            )

        return frozenset(row for row, there in stored.items() if there and not any(meets(*spot) for spot in there))

    def _steps(self) -> Iterator[tuple[Step, _State]]:
        for start, first in self._states.items():
            state = dict(first)
            for step in self._blocks[start].steps:
                yield step, state
                self._run(step, state)

    def _influenced_rows(self, step: Step, state: _State) -> Iterator[tuple[str, Bits]]:
        if self._is_number(step, state):
            yield NUMBER, self._places.numbers
        if step.kind in STEERS:
            yield STEERS[step.kind], state.get(step.guard, NOTHING).bits
        elif step.guard and step.kind in GUARDED:
            yield GUARDED[step.kind], state.get(step.guard, NOTHING).bits
        if step.address >= 0:
            yield "address", self._beside(self._address(step, state))
        for row in step.operands:
            value = state.get(row, NOTHING)
            if step.kind in ("barrier", "warp"):
                yield "barrier operand" if step.kind == "barrier" else "member mask", value.bits
            elif step.kind == "async" and self._is_short(step.pc, row):
                yield "operand", value.bits
            elif self._code[step.pc][0] in _ON_COLUMNS:
                of_matrix = self._places.of("shared", "dynamic") if row in self._descriptors(step.pc) else 0
                yield "operand", value.bits & ~of_matrix
            else:
                yield "operand", self._beside(value)
        if step.kind in ("store", "atomic") and step.address >= 0:
            number, address = self._placement_in_results(step, state)
            yield "value", number
            yield LEFT, address

    def _is_number(self, step: Step, state: _State) -> bool:
        """Return whether a number may be the address at which an instruction accesses shared memory."""
        if step.kind in ("load", "store", "atomic") and state.get(step.address, NOTHING).loaded & self._places.numbers:
            return True
        return any(
            not value.bits & self._shared or value.loaded & self._places.numbers
            for value in (state.get(row, NOTHING) for row in self._shared_rows(step))
        )

    def _shared_rows(self, step: Step) -> frozenset[int]:
        """Return the rows of an instruction that are addresses in shared memory, or describe matrices there."""
        fields = self._code[step.pc]
        name = NAMES[fields[0]]
        if OPERATIONS[name].kind in ("load", "store", "atomic"):
            own = fields[7] >> FORBIDS_SHIFT & ANYWHERE == ANYWHERE & ~IN_SHARED
            return frozenset({step.address} if own and step.address >= 0 else ())
        describes = step.array and step.address >= 0 and COPIED in step.writes and not self._is_tile(step)
        return frozenset((step.address,) if describes else (fields[3 + n] for n in IN_SHARED_MEMORY.get(name, ())))

    def _is_short(self, pc: int, row: int) -> bool:
        """Return whether an operand has 32 bits: a number, such as a count of bytes, and no address."""
        fields = self._code[pc]
        operands = OPERATIONS[NAMES[fields[0]]].operands
        return {type_ for type_, own in zip(operands, fields[3:], strict=False) if own == row} == {"b32"}

    def _descriptors(self, pc: int) -> frozenset[int]:
        """Return the rows with descriptors of matrices, which are computed from addresses of shared memory."""
        return frozenset(s.address for s in self._decoder.steps(pc) if s.array and COPIED in s.writes)

    def _beside(self, address: Value) -> Bits:
        """Return the allocations whose location influences an access to a different allocation."""
        address = _as_number(address)
        others = address.number | address.minus
        if address.plus and not others & CHOSEN:
            return others & ~address.plus
        return 0 if _one(others) else others

    def _placement_in_results(self, step: Step, state: _State) -> tuple[Bits, Bits]:
        """Return the allocations whose location the final contents of the caller's arrays depend on: as numbers, and as
        addresses.
        """
        callers, outlive = self._places.of("global"), self._places.of(*_OUTLIVE)
        block = self._places.block.plus
        address = self._address(step, state)
        outlasting = [place for place in self._where(step, address) if place == ELSEWHERE or callers >> place & 1]
        again = any(self._followed >> place & 1 for place in (*outlasting, ELSEWHERE))
        number = whole = 0
        for _, _, size, value in self._stored_fields(step, state, address) if outlasting else ():
            is_byte = bool(value.loaded) and size == 1 and value.part < 0  # a loop copies a structure bytewise
            is_byte |= size < 8 and any(self._is_complete(place, value.plus) for place in outlasting)
            number |= value.number | value.minus
            if not is_byte and (size < 8 or not _is_whole(value)):
                number |= value.plus & ~block
            elif not again:
                number |= value.plus & ~outlive
                whole |= value.plus & outlive & ~block
        return number, whole

    def _is_complete(self, place: int, plus: Bits) -> bool:
        """Return whether all parts of an address are stored in an allocation, next to each other."""
        contents = self._memory.get(place)
        fields = () if contents is None else contents.fields()
        parts = [f for f in fields if f.size < 8 and f.value.plus == plus and f.value.part >= 0 and f.fits(0)]
        return {byte for f in parts for byte in range(f.value.part, f.value.part + f.size)} >= _UPPER_BYTES
