"""Run the lanes of a warp on values that have unknown bits.

Such a run covers all values of these bits (ternary simulation: Bryant, "Symbolic Simulation", DAC 1990).  A bit of a
result is known only if all values of the unknown operand bits give the same bit.  Guards, addresses and stored values
must be known; otherwise `AmbiguousError` is raised.

Each lane runs alone up to a load whose value is to be chosen, a barrier, or its end; warp-wide operations wait for
their members.
"""

from __future__ import annotations

import functools
import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.launch.explore.ways import UnfitError
from wsemu.model.control_flow import destinations, successors
from wsemu.model.data import NamedTuple
from wsemu.model.isa import (
    ADDRESS_OUT,
    ADDRESS_WRAPPED,
    AS_STORE,
    ATOMICS,
    FIRST_ARRAY,
    HALVES_OF_VECTOR,
    LANES,
    LOWER_HALF,
    NAMES,
    NO_STORE,
    OFFSET_MASK,
    OPERATIONS,
    ROW,
    SCOPES,
    SEGMENT_SHIFT,
    SERVED,
    SHARED,
    SIZE,
    VECTORS,
    access_shape,
)
from wsemu.proof.liveness import live_rows
from wsemu.proof.unwritten import find_unwritten_reads
from wsemu.reference.arithmetic import semantics
from wsemu.reference.warp_operations import shuffle_source

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from wsemu.launch.explore.session import Snapshot
    from wsemu.model.bound import Bound

MOST_INSTRUCTIONS = 1 << 14
"""The limit of instructions of a run from one choice to the next."""
_MOST_COPIED = 64
"""The limit of instructions that a compiler is taken to have copied."""
Array = Any
Choice = dict[int, tuple[int, ...]]
"""values that the load of each lane may return"""
_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_TRUTH = np.dtype(bool)
_KINDS = {"p": _TRUTH, **{type_: np.dtype(_UNSIGNED[size]) for type_, size in SIZE.items()}}
"""type of the lanes for each type of a register"""
_NONE = {kind: np.zeros(LANES, kind) for kind in _KINDS.values()}
"""No unknown bits."""
_LANES = np.arange(LANES)
ALL_LANES = (1 << LANES) - 1
ELEMENTS = {
    f"{kind}{'' if n == 1 else f'.v{n}'}.b{bits}": (bits // 8, n) for bits, n in VECTORS for kind in ("ld", "st")
}
"""(bytes of an element, elements) of each load and store"""


class AmbiguousError(Exception):
    """Something depends on unknown bits."""


class Value(NamedTuple):
    """A register: the bits of each lane, 0 if unknown, and a mask of the unknown bits.  For predicates both are truth
    values."""

    bits: Array
    unknown: Array

    def is_known(self, lanes: Array) -> bool:
        """Return whether some lanes have no unknown bits."""
        return self.unknown is _NONE[self.unknown.dtype] or not self.unknown[lanes].any()


class Effect(NamedTuple):
    """An access of some lanes."""

    what: str
    pc: int
    lanes: int
    locations: bytes
    values: bytes
    known: bytes
    """The accesses of other lanes that each of these lanes is ordered after."""
    voted: int = 0
    """The lanes that had already voted; 0 if lanes wait for each other at votes."""


@functools.lru_cache(maxsize=4096)
def to_truths(lanes: int) -> Array:
    """Return a mask of lanes as truths."""
    found = np.array([bool(lanes >> lane & 1) for lane in range(LANES)])
    found.setflags(write=False)
    return found


def collect(truths: Array) -> int:
    """Return truths as a mask of lanes."""
    return int.from_bytes(np.packbits(truths, bitorder="little").tobytes(), "little")


def find_vote(name: str) -> str:
    """Return the kind of vote that an operation is, or None if it is not a vote."""
    what, _, mode = name.partition(".")
    return mode if what == "vote" else ""


def make_known(bits: Array) -> Value:
    """Return a value without unknown bits."""
    return Value(bits, _NONE[bits.dtype])


def make_unknown(kind: Any) -> Value:
    """Return a value of which no bit is known."""
    return Value(np.zeros(LANES, kind), ~np.zeros(LANES, kind))


def make_value(values: dict[int, tuple[int, int]], size: int) -> Value:
    """Return a value of `size` bytes with these bits and unknown bits in some lanes."""
    bits, unknown = np.zeros(LANES, _UNSIGNED[size]), np.zeros(LANES, _UNSIGNED[size])
    for lane, value in values.items():
        bits[lane], unknown[lane] = value
    return Value(bits, unknown)


def merge(values: list[int], size: int) -> tuple[int, int]:
    """Return the bits in which some values agree, and the bits in which they differ."""
    differ = functools.reduce(lambda found, value: found | (value ^ values[0]), values, 0)
    return values[0] & ~differ & (1 << 8 * size) - 1, differ


# -- arithmetic -------------------------------------------------------------------------------------------------------
def _find_upper(unknown: Array) -> Array:
    """Return the lowest unknown bit and all above it."""
    return np.where(unknown != 0, ~((unknown & (~unknown + unknown.dtype.type(1))) - unknown.dtype.type(1)), 0).astype(
        unknown.dtype
    )


def _carry(result: Array, *operands: Value) -> Value:
    """Return a sum or product in which no bit depends on higher bits of the operands."""
    if all(one.unknown is _NONE[one.unknown.dtype] for one in operands):
        return make_known(result)
    unknown = _find_upper(functools.reduce(np.bitwise_or, (one.unknown for one in operands)))
    return Value(result & ~unknown, unknown)


def _and(a: Value, b: Value) -> Value:
    zero = (~a.bits & ~a.unknown) | (~b.bits & ~b.unknown)
    return Value(a.bits & b.bits, (a.unknown | b.unknown) & ~zero)


def _or(a: Value, b: Value) -> Value:
    one = a.bits | b.bits
    return Value(one, (a.unknown | b.unknown) & ~one)


def _not(a: Value) -> Value:
    return Value(~a.bits & ~a.unknown, a.unknown)


def _xor(a: Value, b: Value) -> Value:
    unknown = a.unknown | b.unknown
    return Value((a.bits ^ b.bits) & ~unknown, unknown)


def _choose(a: Value, b: Value, by: Value) -> Value:
    """Return `a` if a predicate holds, otherwise `b`."""
    bits: Array = np.where(by.bits, a.bits, b.bits)
    unknown: Array = np.where(by.bits, a.unknown, b.unknown)
    if by.unknown.any():
        either = a.unknown | b.unknown | (a.bits ^ b.bits)
        bits, unknown = np.where(by.unknown, a.bits & ~either, bits), np.where(by.unknown, either, unknown)
    return Value(bits, unknown)


def _equal(a: Value, b: Value) -> Value:
    unknown = a.unknown | b.unknown
    differ = ((a.bits ^ b.bits) & ~unknown) != 0
    return Value(~differ & (unknown == 0), ~differ & (unknown != 0))


def _range(a: Value, signed: bool) -> tuple[Array, Array]:
    """Return the least and the greatest value."""
    bits: Array = a.bits
    unknown: Array = a.unknown
    if signed:
        top = bits.dtype.type(1 << 8 * bits.dtype.itemsize - 1)
        known_top = ~unknown & top
        bits = (bits & ~top) | ((bits ^ top) & known_top)
    return bits, bits | unknown


def _less(a: Value, b: Value, signed: bool, *, strict: bool) -> Value:
    (least, greatest), (other_least, other_greatest) = _range(a, signed), _range(b, signed)
    compare = np.less if strict else np.less_equal
    always, sometimes = compare(greatest, other_least), compare(least, other_greatest)
    return Value(always, sometimes & ~always)


def _shift(a: Value, by: Value, function: Callable[[Array, Array], Array]) -> Value:
    vague = by.unknown != 0
    bits, unknown = function(a.bits, by.bits), function(a.unknown, by.bits)
    everything = ~np.zeros_like(a.bits)
    return Value(np.where(vague, 0, bits & ~unknown).astype(bits.dtype), np.where(vague, everything, unknown))


def _shift_left(a: Array, by: Array) -> Array:
    width = 8 * a.dtype.itemsize
    return np.where(by >= width, 0, a << np.minimum(by, width - 1).astype(a.dtype)).astype(a.dtype)


def _shift_right(a: Array, by: Array) -> Array:
    width = 8 * a.dtype.itemsize
    return np.where(by >= width, 0, a >> np.minimum(by, width - 1).astype(a.dtype)).astype(a.dtype)


def _shift_right_signed(a: Array, by: Array) -> Array:
    width = 8 * a.dtype.itemsize
    signed = a.view(np.dtype(f"i{a.dtype.itemsize}"))
    return (signed >> np.minimum(by, width - 1).astype(signed.dtype)).view(a.dtype)


def _reverse(a: Array) -> Array:
    parts = np.unpackbits(a.view(np.uint8).reshape(LANES, -1), axis=1, bitorder="little")
    return np.packbits(parts[:, ::-1], axis=1, bitorder="little").copy().view(a.dtype).reshape(LANES)


def _zeros_above(a: Array) -> Array:
    """Return the number of zeros above the highest bit that is set."""
    parts = np.unpackbits(a.view(np.uint8).reshape(LANES, -1), axis=1, bitorder="little")[:, ::-1]
    return np.where(parts.any(axis=1), parts.argmax(axis=1), parts.shape[1]).astype(np.uint32)


def _count_leading(a: Value) -> Value:
    result, vague = _zeros_above(a.bits), _zeros_above(a.unknown)
    unknown = np.where(vague < result, ~np.uint32(0), np.uint32(0))
    return Value(np.where(unknown == 0, result, 0).astype(np.uint32), unknown)


def _resize(a: Value, size: int, *, signed: bool) -> Value:
    old, new = a.bits.dtype.itemsize, _UNSIGNED[size]
    if not signed or size <= old:
        return Value(a.bits.astype(new), a.unknown.astype(new))
    wide = np.dtype(f"i{size}")
    narrow = np.dtype(f"i{old}")
    bits, unknown = (one.view(narrow).astype(wide).view(new) for one in a)
    return Value(bits & ~unknown, unknown)


def _wide_product(a: Value, b: Value, signed: bool) -> Value:
    size = 2 * a.bits.dtype.itemsize
    wide = [_resize(one, size, signed=signed) for one in (a, b)]
    return _carry(wide[0].bits * wide[1].bits, *wide)


def _negate(a: Value) -> Value:
    return _carry(~a.bits + a.bits.dtype.type(1), a)


_RELATIONS: dict[str, Callable[[Value, Value, bool], Value]] = {
    "lt": lambda a, b, s: _less(a, b, s, strict=True),
    "le": lambda a, b, s: _less(a, b, s, strict=False),
    "gt": lambda a, b, s: _less(b, a, s, strict=True),
    "ge": lambda a, b, s: _less(b, a, s, strict=False),
}


def _enter() -> dict[str, Callable[..., Value]]:
    """Return the functions that compute with unknown bits; operations without such a function need known values."""
    bitwise: dict[str, Callable[..., Value]] = {
        "mov": lambda a: a, "not": _not, "and": _and, "or": _or, "xor": _xor, "andn": lambda a, b: _and(a, _not(b)),
        "selp": _choose,
    }  # fmt: skip
    found = {f"{name}.{type_}": function for name, function in bitwise.items() for type_ in ("pred", *_KINDS)}
    for n in (8, 16, 32, 64):
        found |= {
            f"neg.b{n}": _negate,
            f"add.b{n}": lambda a, b: _carry(a.bits + b.bits, a, b),
            f"sub.b{n}": lambda a, b: _carry(a.bits - b.bits, a, b),
            f"mul.b{n}": lambda a, b: _carry(a.bits * b.bits, a, b),
            f"mad.b{n}": lambda a, b, c: _carry(a.bits * b.bits + c.bits, a, b, c),
            f"shl.b{n}": lambda a, b: _shift(a, b, _shift_left),
            f"shr.u{n}": lambda a, b: _shift(a, b, _shift_right),
            f"shr.s{n}": lambda a, b: _shift(a, b, _shift_right_signed),
            f"setp.eq.b{n}": _equal, f"setp.ne.b{n}": lambda a, b: _not(_equal(a, b)),
        }  # fmt: skip
        for sign in "su":
            for name, relation in _RELATIONS.items():
                found[f"setp.{name}.{sign}{n}"] = lambda a, b, r=relation, s=sign == "s": r(a, b, s)
            for to in (8, 16, 32, 64):
                found[f"cvt.b{to}.{sign}{n}"] = lambda a, to=to, s=sign == "s": _resize(a, to // 8, signed=s)
            if n < 64:
                found[f"mulwide.{sign}{n}"] = lambda a, b, s=sign == "s": _wide_product(a, b, s)
    for n in (32, 64):
        found[f"brev.b{n}"] = lambda a: Value(_reverse(a.bits), _reverse(a.unknown))
        found[f"clz.b{n}"] = _count_leading
    return {name: function for name, function in found.items() if name in OPERATIONS}


ARITHMETIC = _enter()


def compute(name: str, operands: list[Value], lanes: int) -> Value:
    """Return the result of an arithmetic operation.  Lanes that do not execute it may have any value."""
    function = ARITHMETIC.get(name)
    if function is not None:
        result = function(*operands)
        if all(one.unknown is _NONE[one.unknown.dtype] for one in operands):
            return make_known(result.bits)
        return result
    operation = OPERATIONS[name]
    vague = functools.reduce(np.logical_or, ((one.unknown != 0) for one in operands), np.zeros(LANES, bool))
    truth = operation.result == "p"
    kind = np.dtype(bool) if truth else np.dtype(_UNSIGNED[SIZE[operation.result]])
    bits, unknown = np.zeros(LANES, kind), np.zeros(LANES, kind)
    unknown[vague] = True if truth else ~np.zeros(1, kind)[0]
    for lane in np.flatnonzero(to_truths(lanes) & ~vague).tolist():
        bits[lane] = semantics[name](*(int(one.bits[lane]) for one in operands))
    return Value(bits, unknown)


def find_alike(code: list[list[int]], ordered: frozenset[int]) -> dict[int, int]:
    """Return each load that is a copy of an earlier one, and leads to the same instructions.

    Compilers peel the first round of a loop that polls.
    """
    loads = sorted(pc for pc in ordered if code[pc][7] & NO_STORE)
    found: dict[int, int] = {}
    for n, pc in enumerate(loads):
        copy = next((one for one in loads[:n] if one not in found and _lead_alike(code, one, pc)), None)
        if copy is not None:
            found[pc] = copy
    return found


def _lead_alike(code: list[list[int]], one: int, other: int) -> bool:
    """Return whether two instructions are followed by copies of each other, up to a common one."""
    for _ in range(_MOST_COPIED):
        one, other = (_skip_jumps(code, pc) for pc in (one, other))
        if one == other:
            return True
        if code[one] != code[other] or OPERATIONS[NAMES[code[one][0]]].kind not in ("alu", "atomic"):
            return False
        one, other = one + 1, other + 1
    return False


def _skip_jumps(code: list[list[int]], pc: int) -> int:
    for _ in range(_MOST_COPIED):
        after = successors(pc, code[pc])
        if OPERATIONS[NAMES[code[pc][0]]].kind != "control" or code[pc][1] or len(after) != 1:
            break
        pc = after[0]
    return pc


# -- a warp -----------------------------------------------------------------------------------------------------------
class Plan(NamedTuple):
    """An instruction, decoded."""

    name: str
    kind: str
    guard: int
    negated: bool
    operands: tuple[tuple[int, str], ...]
    """Rows and types."""
    fields: list[int]


class Scratch(NamedTuple):
    """Rows whose contents do not matter before some instructions, although a path leads from there to a use."""

    rows: frozenset[int]
    at: frozenset[int]
    """The instructions."""


class Code:
    """The program of a launch, decoded for all runs."""

    def __init__(self, bound: Bound, ordered: frozenset[int], scratch: Scratch | None = None) -> None:
        """`ordered` are the strong accesses, `scratch` the rows whose contents do not matter."""
        self.bound, self.ordered = bound, ordered
        self.live = live_rows(bound.program)
        if scratch is not None:
            self.live = [rows - scratch.rows if pc in scratch.at else rows for pc, rows in enumerate(self.live)]
        self.fields = bound.program.code.tolist()
        self.alike = find_alike(self.fields, ordered)
        self.unwritten = find_unwritten_reads(bound.program)
        """The instructions that may read a register that nothing has written, or a value computed from one."""
        self.executed = set[int]()
        """The instructions of all runs."""
        loads = frozenset(pc for pc in ordered if self.fields[pc][7] & NO_STORE)
        self.lower = frozenset(pc for pc in loads if self.fields[pc][7] & LOWER_HALF)
        """Loads of the lower half of a vector of 128 bits, which return the half that belongs to the upper one."""
        self.chosen = loads - self.lower
        """Loads whose values are chosen."""
        self._plans: dict[int, Plan] = {}

    def plan(self, pc: int) -> Plan:
        """Return a decoded instruction."""
        found = self._plans.get(pc)
        if found is None:
            fields = self.fields[pc]
            operation = OPERATIONS[NAMES[fields[0]]]
            operands = tuple((row, t) for row, t in zip(fields[3:7], operation.operands, strict=False) if t)
            found = Plan(operation.name, operation.kind, fields[1] >> 1, bool(fields[1] & 1), operands, fields)
            self._plans[pc] = found
            self.executed.add(pc)
        return found


class Word(NamedTuple):
    """The location of a strong access."""

    start: int
    size: int


def find_word(fields: list[int], address: int) -> Word:
    """Return the location of a strong access, which may be the upper half of a vector of 128 bits."""
    size = access_shape(NAMES[fields[0]])[1]
    return Word(address - size, 2 * size) if fields[7] & HALVES_OF_VECTOR else Word(address, size)


class Votes(NamedTuple):
    """The votes whose results name the lanes that continue."""

    members: int = 0
    """The lanes that the first vote names; 0: no lane has voted."""
    voted: int = 0
    going: int = ALL_LANES
    """The lanes whose last vote was yes, or that have not voted."""
    counts: tuple[int, ...] = (0,) * LANES
    """number of votes of each lane"""
    pcs: tuple[int, ...] = ()
    """The instruction of the first vote of each lane, of the second one, and so on."""
    results: tuple[tuple[int, int], ...] = ()
    """Rows that hold the result of the last vote, and the lanes for which they do."""

    def drop(self, row: int, lanes: int) -> Votes:
        """Return the state after a write to a row."""
        left = ((at, held & ~lanes if at == row else held) for at, held in self.results)
        return self._replace(results=tuple((at, held) for at, held in left if held))

    def copy(self, source: int, row: int, lanes: int) -> Votes:
        """Return the state after a copy of a row."""
        held = self.find_result(source) & lanes
        left = self.drop(row, lanes)
        old = left.find_result(row)
        others = tuple((at, mask) for at, mask in left.results if at != row)
        return left._replace(results=tuple(sorted((*others, *([(row, old | held)] if old | held else [])))))

    def find_result(self, row: int) -> int:
        """Return the lanes for which a row holds the result of the last vote."""
        return dict(self.results).get(row, 0)


class Partial:
    """The lanes of a warp."""

    def __init__(self, code: Code, start: Snapshot) -> None:
        self.code = code
        self.base, self.memory = start.registers, start.shared
        self.groups = dict(start.groups)
        """the lanes that are at each instruction"""
        self.values: dict[int, Value] = {}
        """value of each row that was written or read"""
        self.stored: dict[int, int] = {}
        """stored value of each byte, by its address"""
        self.known: Array = np.eye(LANES, dtype=np.uint16)
        """for each lane, the number of accesses of each lane that it is ordered after; 1 stands for the time before the
        run"""
        self.effects: tuple[Effect, ...] = ()
        self.lower: dict[int, tuple[int, int]] = {}
        """Lane -> the lower half of its value, bits and unknown bits, once it has the upper half."""
        self.votes: Votes | None = None
        """The votes whose results name the lanes that continue, if lanes do not wait for each other there."""
        self.decided = False
        """True if some lane decides the next vote."""
        self.steps = 0

    def copy(self) -> Self:
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.groups, other.values, other.stored = dict(self.groups), dict(self.values), dict(self.stored)
        other.steps = 0
        return other

    def loads(self) -> dict[int, int]:
        """Return the load before which each lane waits for a choice."""
        there = ((pc, lanes) for pc, lanes in self.groups.items() if pc in self.code.chosen)
        return {lane: pc for pc, lanes in there for lane in range(LANES) if lanes >> lane & 1}

    def address(self, lane: int, pc: int) -> int:
        """Return the address of a load."""
        at = self._addresses(self.code.plan(pc), 1 << lane)
        return int(at[lane])

    def choose(self, values: dict[int, tuple[int, int]]) -> None:
        """Let these loads return values: by lane, bits and unknown bits."""
        chosen = self.loads()
        for pc in sorted({*chosen.values()}):
            plan, lanes = self.code.plan(pc), self.groups.pop(pc)
            if plan.guard:
                raise UnfitError
            found = {lane: values[lane] for lane, at in chosen.items() if at == pc}
            if plan.fields[7] & HALVES_OF_VECTOR:
                low = (1 << 64) - 1
                self.lower = {**self.lower, **{n: (bits & low, vague & low) for n, (bits, vague) in found.items()}}
                found = {n: (bits >> 64, vague >> 64) for n, (bits, vague) in found.items()}
            self._return(plan, lanes, found)
            self._move(pc + 1, lanes)

    def _return(self, plan: Plan, lanes: int, values: dict[int, tuple[int, int]]) -> None:
        """Write the values that loads return."""
        chosen = {lane: values[lane] for lane in np.flatnonzero(to_truths(lanes)).tolist()}
        self._write(plan.fields[2], make_value(chosen, SIZE[OPERATIONS[plan.name].result]), lanes)

    def follow(self, values: Choice, sizes: dict[int, int]) -> tuple[Partial, Choice | None]:
        """Return the state after loads returned some of several values; `values` has those that each lane may read.

        If the result of an `all` or `any` vote then depends on them, return the state after a vote that some lane
        decides, and the values with which no lane decides, which need another run.  Otherwise the second result is
        None.
        """
        copies = []
        for n in range(max(map(len, values.values()))):
            one = self.copy()
            one.choose({lane: (found[min(n, len(found) - 1)], 0) for lane, found in values.items()})
            one.advance(alone=True)
            copies.append(one)
        left = copies[0]._find_undecided(copies, values)
        child = copies[0]._unite(copies[1:])
        if child is None:
            child, left = self.copy(), None
            child.choose({lane: merge([*found], sizes[lane]) for lane, found in values.items()})
        child.decided = left is not None
        child.advance()
        return child, left

    def _find_undecided(self, copies: list[Partial], values: Choice) -> Choice | None:
        """Return the values with which no lane decides the next vote; None if the vote has one result only, or lanes
        wait at different operations."""
        pcs = {*self.groups}
        mode = find_vote(self.code.plan(min(pcs)).name) if len(pcs) == 1 else ""
        if mode not in ("all", "any") or any({*one.groups} != pcs for one in copies):
            return None
        (pc,) = pcs
        votes = [one._read(one.code.plan(pc).fields[3], "p").bits for one in copies]
        if mode == "all":
            votes = [~one for one in votes]
        lanes = self.groups[pc]
        if self.code.plan(pc).guard or self._members(pc, lanes) & lanes != lanes:
            return None
        if any(votes[0][lane] for lane in range(LANES) if lanes >> lane & 1 and lane not in values):
            return None
        decides = {lane: [bool(votes[n][lane]) for n in range(len(found))] for lane, found in values.items()}
        left = {
            lane: tuple(value for value, one in zip(found, decides[lane], strict=True) if not one)
            for lane, found in values.items()
        }
        return left if left != values and all(left.values()) else None

    def _unite(self, others: list[Partial]) -> Partial | None:
        """Merge several states into one if lanes behaved alike in them; otherwise return None."""
        did = self.groups, self.effects, self.stored
        if any((one.groups, one.effects, one.stored) != did or (one.known != self.known).any() for one in others):
            return None
        for row in {row for one in (self, *others) for row in one.values}:
            found = [one.values[row] for one in (self, *others) if row in one.values]
            kind = found[0].bits.dtype
            if any(value.bits.dtype != kind for value in found):
                return None
            if len(found) <= len(others):
                found.append(self._initial(row, kind))
            unknown = functools.reduce(np.bitwise_or, (v.unknown | (v.bits ^ found[0].bits) for v in found))
            self.values[row] = Value(found[0].bits & ~unknown, unknown) if unknown.any() else make_known(found[0].bits)
        return self

    def advance(self, *, alone: bool = False) -> None:
        """Run until each lane is at a load whose values are not chosen yet, at a barrier, or has ended.  With `alone`,
        also stop at operations of several lanes."""
        while True:
            ready = [pc for pc, lanes in self.groups.items() if not self._is_held(pc, lanes)]
            ready = [pc for pc in ready if not alone or self.code.plan(pc).kind != "warp"]
            if not ready:
                break
            self.steps += 1
            if self.steps > MOST_INSTRUCTIONS:
                raise UnfitError
            self._step(min(ready))
        if not alone and not self.loads() and any(self.code.plan(pc).kind == "warp" for pc in self.groups):
            raise UnfitError

    def key(self) -> bytes:
        """Return a digest of a state: where lanes are, the values that they may still use, and their accesses."""
        return self._hash(unknown=True)

    def end(self) -> bytes:
        """Return the digest of a state without loads to choose for, which must not depend on unknown bits."""
        return self._hash(unknown=False)

    def _hash(self, *, unknown: bool) -> bytes:
        votes = self.votes if unknown or self.votes is None else self.votes[:2]
        state = sorted(self.groups.items()), self.effects, votes
        hashed = hashlib.blake2b(repr(state).encode(), digest_size=16)
        alive = to_truths(functools.reduce(int.__or__, self.groups.values(), 0))
        hashed.update(self.known[alive].tobytes())
        for pc, lanes in sorted(self.groups.items()):
            chosen = to_truths(lanes)
            for row in sorted(self.code.live[pc] & self.values.keys()):
                value = self.values[row]
                if not unknown and not value.is_known(chosen):
                    raise AmbiguousError
                before = self._initial(row, value.bits.dtype)
                if value.is_known(chosen) and np.array_equal(value.bits[chosen], before.bits[chosen]):
                    continue
                hashed.update(b"%d %d" % (pc, row) + value.bits[chosen].tobytes() + value.unknown[chosen].tobytes())
        hashed.update(repr(sorted(self.stored.items())).encode())
        return hashed.digest()

    # -- registers ----------------------------------------------------------------------------------------------------
    def _initial(self, row: int, kind: Any) -> Value:
        if kind == _TRUTH:
            return make_known(to_truths(int(self.base[row : row + 4].view(np.uint32)[0])))
        return make_known(self.base[row : row + kind.itemsize * LANES].view(kind))

    def _read(self, row: int, type_: str) -> Value:
        kind = _KINDS[type_]
        value = self.values.get(row)
        if value is None:
            value = self.values[row] = self._initial(row, kind)
        elif value.bits.dtype != kind:
            raise UnfitError
        return value

    def _write(self, row: int, value: Value, lanes: int) -> None:
        if self.votes is not None and self.votes.results:
            self.votes = self.votes.drop(row, lanes)
        if lanes != ALL_LANES:
            kind = value.bits.dtype
            old = self.values.get(row)
            old = self._initial(row, kind) if old is None else old
            if old.bits.dtype != kind:  # the other lanes' values of another size are overwritten in part
                old = make_unknown(kind)
            chosen, none = to_truths(lanes), _NONE[kind]
            unknown: Array = none
            if value.unknown is not none or old.unknown is not none:
                unknown = np.where(chosen, value.unknown, old.unknown)
            value = Value(np.where(chosen, value.bits, old.bits), unknown)
        self.values[row] = value

    def _addresses(self, plan: Plan, lanes: int) -> Array:
        base = self._read(plan.fields[3], "b64")
        chosen = to_truths(lanes)
        if not base.is_known(chosen):
            raise AmbiguousError
        at = base.bits + np.uint64(plan.fields[6] & (1 << 64) - 1)
        if (at[chosen] & np.uint64(ADDRESS_OUT)).any():
            raise UnfitError
        return at & ~np.uint64(ADDRESS_WRAPPED)

    # -- control ------------------------------------------------------------------------------------------------------
    def _is_held(self, pc: int, lanes: int) -> bool:
        kind = self.code.plan(pc).kind
        if kind == "warp" and self.votes is None:
            others = functools.reduce(int.__or__, self.groups.values()) & ~lanes
            return bool(others and self._members(pc, lanes) & others)
        return kind == "barrier" or pc in self.code.chosen

    def _members(self, pc: int, lanes: int) -> int:
        """Return all members that lanes at a warp-wide operation name, which have to be the same."""
        masks = self._read(self.code.plan(pc).fields[5], "b32")
        chosen = to_truths(lanes)
        if not masks.is_known(chosen):
            raise AmbiguousError
        found = {*masks.bits[chosen].tolist()}
        if len(found) > 1:
            raise UnfitError
        return int(found.pop())

    def _move(self, pc: int, lanes: int) -> None:
        pc = self.code.alike.get(pc, pc)
        if lanes:
            self.groups[pc] = self.groups.get(pc, 0) | lanes

    def _step(self, pc: int) -> None:
        plan, there = self.code.plan(pc), self.groups.pop(pc)
        lanes, vague = there, 0
        if plan.guard:
            guard = self._read(plan.guard, "p")
            guard = _not(guard) if plan.negated else guard
            vague = 0 if guard.unknown is _NONE[_TRUTH] else collect(guard.unknown) & there
            lanes &= collect(guard.bits)
        if plan.kind == "alu":
            if lanes | vague:
                self._compute(plan, lanes, vague)
        elif vague:
            raise AmbiguousError
        elif plan.kind == "control":
            self._part(plan, pc, there, lanes)
            return
        elif lanes:
            self._act(plan, pc, lanes)
        self._move(pc + 1, there)

    def _part(self, plan: Plan, pc: int, there: int, lanes: int) -> None:
        going = destinations(pc, plan.fields)
        if going is None:
            raise UnfitError
        if going[0] >= 0:
            self._move(going[0], lanes)
        self._move(going[1], there & ~lanes)

    # -- the rest -----------------------------------------------------------------------------------------------------
    def _compute(self, plan: Plan, lanes: int, vague: int) -> None:
        operation = OPERATIONS[plan.name]
        operands = [self._read(row, type_) for row, type_ in plan.operands]
        result = compute(plan.name, operands, lanes | vague)
        votes = self.votes
        if vague:
            old = self._read(plan.fields[2], operation.result)
            result = _choose(result, old, Value(to_truths(lanes), to_truths(vague)))
        self._write(plan.fields[2], result, lanes | vague)
        if votes is not None and votes.results and plan.name.startswith("mov."):
            self.votes = votes.copy(plan.fields[3], plan.fields[2], lanes)

    def _act(self, plan: Plan, pc: int, lanes: int) -> None:
        if plan.kind == "load":
            self._load(plan, pc, lanes)
        elif pc in self.code.lower:
            self._return(plan, lanes, self.lower)
        elif plan.kind in ("store", "atomic"):
            self._store(plan, pc, lanes)
        elif plan.kind == "warp":
            self._exchange(plan, pc, lanes)
        elif plan.kind != "fence":
            raise UnfitError

    def _load(self, plan: Plan, pc: int, lanes: int) -> None:
        if plan.name not in ELEMENTS:
            raise UnfitError
        (size, count), at = ELEMENTS[plan.name], self._addresses(plan, lanes)
        kind = _UNSIGNED[size]
        for n in range(count):
            bits = np.zeros(LANES, kind)
            for lane in np.flatnonzero(to_truths(lanes)).tolist():
                bits[lane] = int.from_bytes(self._bytes(int(at[lane]) + n * size, size), "little")
            self._write(plan.fields[2] + n * ROW, make_known(bits), lanes)
        self._note("load", pc, lanes, at, b"")

    def _bytes(self, address: int, size: int) -> bytes:
        segment, offset = address >> SEGMENT_SHIFT, address & OFFSET_MASK
        if segment == SHARED:
            held = self.memory[offset : offset + size].tobytes()
        else:
            number = segment - FIRST_ARRAY
            arrays = self.code.bound.segments
            held = bytes(arrays[number][0][offset : offset + size]) if 0 <= number < len(arrays) else b""
        if len(held) < size:
            raise UnfitError
        return bytes(self.stored.get(address + k, byte) for k, byte in enumerate(held))

    def _store(self, plan: Plan, pc: int, lanes: int) -> None:
        fields, chosen = plan.fields, to_truths(lanes)
        strong = pc in self.code.ordered
        if strong and fields[7] & SCOPES:
            raise UnfitError
        if not strong and plan.name not in ELEMENTS:
            raise UnfitError
        type_ = OPERATIONS[plan.name].result
        size, count = (SIZE[type_], 1) if strong else ELEMENTS[plan.name]
        at = self._addresses(plan, lanes)
        parts = []
        for n in range(count):
            row = fields[4] if strong else fields[2] + n * ROW
            value = self._read(row, type_ if strong else f"b{8 * size}")
            if strong and fields[7] & SERVED != AS_STORE:
                value = self._combine(plan.name, at, value, lanes)
            if not value.is_known(chosen):
                raise AmbiguousError
            parts.append(value.bits[chosen].tobytes())
            for lane in np.flatnonzero(chosen).tolist():
                self._keep(int(at[lane]) + n * size, int(value.bits[lane]).to_bytes(size, "little"))
        if strong:
            kind = _UNSIGNED[size]
            self._write(fields[2], make_unknown(kind), lanes)
        self._note("strong" if strong else "store", pc, lanes, at, b"".join(parts))

    def _combine(self, name: str, at: Array, operand: Value, lanes: int) -> Value:
        """Return the value that an atomic stores at a location that no other thread writes."""
        old = operand.bits.copy()
        for lane in np.flatnonzero(to_truths(lanes)).tolist():
            old[lane] = int.from_bytes(self._bytes(int(at[lane]), old.dtype.itemsize), "little")
        what, type_ = ATOMICS[name]
        return compute(f"{what}.{type_}", [make_known(old), operand], lanes)

    def _keep(self, address: int, value: bytes) -> None:
        if address >> SEGMENT_SHIFT != SHARED and address >> SEGMENT_SHIFT < FIRST_ARRAY:
            raise UnfitError
        self.stored.update({address + k: byte for k, byte in enumerate(value)})

    def _note(self, what: str, pc: int, lanes: int, at: Array, values: bytes) -> None:
        chosen = to_truths(lanes)
        voted = 0 if self.votes is None else self.votes.voted & lanes
        self.effects += (Effect(what, pc, lanes, at[chosen].tobytes(), values, self.known[chosen].tobytes(), voted),)
        self.known = self.known + np.diag(chosen.astype(np.uint16))

    def _meet(self, lanes: int) -> None:
        """Order lanes after everything that any of them is ordered after."""
        chosen = to_truths(lanes)
        most = self.known[chosen].max(axis=0)
        if (self.known[chosen] != most).any():
            self.known = np.where(chosen[:, None], most, self.known)

    def _exchange(self, plan: Plan, pc: int, lanes: int) -> None:
        if self.votes is not None:
            self._leave(plan, pc, lanes, self.votes)
            return
        if lanes & ~self._members(pc, lanes):
            raise UnfitError
        self._meet(lanes)
        what, _, mode = plan.name.partition(".")
        if what == "vote":
            self._vote(mode, plan.fields, lanes)
        elif what == "shfl":
            self._shuffle(mode, plan.fields, lanes)
        elif OPERATIONS[plan.name].result:
            raise UnfitError

    def _leave(self, plan: Plan, pc: int, lanes: int, votes: Votes) -> None:
        """Let lanes leave the vote that decides who continues, and continue without its result.

        The members of the first vote are known; those of each further vote are the result of the vote before.
        """
        masks, yes = self._read(plan.fields[5], "b32"), self._read(plan.fields[3], "p")
        first = lanes & ~votes.voted
        chosen = to_truths(first)
        named = {*masks.bits[chosen].tolist()} | ({votes.members} - {0})
        follows = not lanes & votes.voted & ~votes.find_result(plan.fields[5])
        fits = find_vote(plan.name) == "ballot" and follows and masks.is_known(chosen) and len(named) == 1
        if not fits or lanes & ~votes.going or not yes.is_known(to_truths(lanes)):
            raise UnfitError
        everything = np.full(LANES, ~np.uint32(0))
        self._write(plan.fields[2], Value(np.zeros(LANES, np.uint32), everything), lanes)
        going = votes.going & ~(lanes & ~collect(yes.bits))
        rows = tuple((at, held & ~lanes) for at, held in votes.results if held & ~lanes)
        pcs = votes.pcs
        for count in sorted({votes.counts[lane] for lane in range(LANES) if lanes >> lane & 1}):
            pcs = pcs if count < len(pcs) else (*pcs, pc)
            if pcs[count] != pc:
                raise UnfitError
        counts = tuple(count + (lanes >> lane & 1) for lane, count in enumerate(votes.counts))
        kept = Votes(int(named.pop()), votes.voted | lanes, going, counts, pcs, rows)
        held = kept.find_result(plan.fields[2]) | lanes
        others = tuple((at, mask) for at, mask in rows if at != plan.fields[2])
        self.votes = kept._replace(results=tuple(sorted((*others, (plan.fields[2], held)))))

    def _vote(self, mode: str, fields: list[int], lanes: int) -> None:
        votes = self._read(fields[3], "p")
        yes, vague = collect(votes.bits) & lanes, collect(votes.unknown) & lanes
        no = lanes & ~yes & ~vague
        if mode == "ballot":
            words = (np.full(LANES, found, np.uint32) for found in (yes, vague))
            self._write(fields[2], Value(*words), lanes)
            return
        if mode == "uni":
            raise UnfitError
        decided = self.decided or bool(yes if mode == "any" else no)
        self.decided = False
        doubt = not decided and bool(vague)
        holds = (mode == "any") == decided and not doubt
        self._write(fields[2], Value(np.full(LANES, holds), np.full(LANES, doubt)), lanes)

    def _shuffle(self, mode: str, fields: list[int], lanes: int) -> None:
        way, _, type_ = mode.partition(".")
        value, by = self._read(fields[3], type_), self._read(fields[4], "b32")
        sources, inside = _sources(way, by.bits.tobytes(), fields[6] & 31, fields[6] >> 8 & 31)
        absent = ~to_truths(lanes)[sources] & (sources != _LANES)
        doubt = (by.unknown & np.uint32(31)) != 0
        if (absent & to_truths(lanes) & ~doubt).any():
            raise UnfitError
        bits, unknown = value.bits[sources], value.unknown
        if unknown is not _NONE[unknown.dtype] or doubt.any():
            everything = ~np.zeros(1, unknown.dtype)[0]
            bits, unknown = np.where(doubt, 0, bits).astype(bits.dtype), np.where(doubt, everything, unknown[sources])
        self._write(fields[2], Value(bits, unknown), lanes)
        if fields[7]:
            self._write(fields[7], Value(inside & ~doubt, doubt), lanes)


@functools.lru_cache(maxsize=4096)
def _sources(way: str, by: bytes, clamp: int, segment: int) -> tuple[Array, Array]:
    """Return the lane that each lane reads in a shuffle, and whether the selected one is in range."""
    selected = np.frombuffer(by, np.uint32) & np.uint32(31)
    found = [shuffle_source(way, lane, int(selected[lane]), clamp, segment) for lane in range(LANES)]
    return np.array([source for source, _ in found]), np.array([inside for _, inside in found])
