"""Follow registers that hold an address on one path and a number on another one, while the kernel runs.

An access to shared or local memory at a number is out of bounds, because a GPU may begin these memories at any number.
If a register holds a number on every path, the access is known to be wrong (`reachable_memory.py`).  Otherwise the
register gets two companions: the kinds of memory from whose addresses it was computed, and how many addresses it
contains.  The difference of two addresses contains none, their sum two.  After an operation such as `xor`, the number
of addresses is unknown.  An access goes out of bounds if the register holds no address of the memory that it accesses.
"""

from __future__ import annotations

import functools
import operator
from collections import defaultdict
from typing import TYPE_CHECKING

from wsemu.frontend.assemble.graph import Instruction
from wsemu.frontend.ptx.companions import insert_companions, list_writers, look_up, under_guard
from wsemu.frontend.ptx.provenance import list_descriptors
from wsemu.frontend.ptx.reachable_memory import (
    ACCESSES,
    BASES,
    HAVE_OFFSET,
    NEEDED,
    describe_outside,
    find_kinds,
    replace_operand,
)
from wsemu.frontend.ptx.variables import WINDOW
from wsemu.model.data import NamedTuple
from wsemu.model.grid import FARTHEST
from wsemu.model.isa import (
    ANYWHERE,
    FORBIDS_SHIFT,
    IN_LOCAL,
    IN_SHARED,
    LOCAL,
    OFFSET_MASK,
    OPERATIONS,
    SEGMENT_SHIFT,
    SHARED,
)
from wsemu.model.shared_operands import IN_SHARED_MEMORY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from wsemu.frontend.assemble.graph import Graph, Register
    from wsemu.frontend.ptx.module import Kind

_KINDS = IN_SHARED | IN_LOCAL
"""memory whose addresses look like numbers"""
_UNCOUNTED = 1 << 30
"""flag in the kinds of a register: how many addresses its value contains is unknown"""
_ONE = {IN_SHARED: 1, IN_LOCAL: 40_503}
"""kind of memory -> what one address adds to the count; no sum of a few addresses of one kind counts as an address of
the other kind"""
_SEGMENTS = {IN_SHARED: SHARED, IN_LOCAL: LOCAL}
_MAX_DEPTH = 100
"""maximum instructions between the address of a variable and that of an access for a short proof"""
_MAX_FACTOR = 1 << 10
"""maximum factor by which a count is multiplied"""
_FACTORS: Mapping[str, tuple[int, ...]] = {
    "mov": (1,), "add": (1, 1), "sub": (1, -1), "neg": (-1,), "not": (-1,), "mad": (1,), "madwide": (1,),
}  # fmt: skip
"""operation -> the factors of its operands that are added"""
_MULTIPLY = ("mul", "mulwide", "mad", "madwide", "shl")
"""operations that multiply their first two operands"""
_KEEP_LOW = frozenset("mov selp add sub neg not mul mulwide mad madwide and or xor shl cvt".split())
"""integer operations: the n lowest bits of a result depend on only the n lowest bits of the operands"""
_KEEP_ADDRESSES = ("b64.u32", "b64.s32", "b32.s64")
_ALIGNMENT = 1 << 10
"""no address has its highest bit below this one, the alignment of shared memory"""


class _Use(NamedTuple):
    """An operand that must be an address."""

    number: int
    kinds: int
    """kinds of memory to which it may refer"""
    outside: int
    """replaces the operand where it is a number"""
    generic: bool = False
    """true if a number is harmless unless it looks like an address"""


class _Companions(NamedTuple):
    """The companions of a register."""

    kinds: Register
    """kinds of memory from whose addresses the value was computed"""
    amount: Register
    """number of addresses that the value contains"""


def forbid_numbers(graph: Graph, kinds: Sequence[Kind]) -> None:
    """Move accesses out of bounds in lanes in which the address is a number, if it is an address in other lanes or
    rounds."""
    if graph.specials.keys().isdisjoint(BASES):
        return
    flow = _Flow(graph, kinds)
    if flow.covers_uses():
        return
    mixed = _Mixed(flow, find_kinds(graph, kinds))
    for block in graph.blocks:
        block.instructions[:] = [each for code in block.instructions for each in (*mixed.select_addresses(code), code)]
    mixed.insert_code()


class _Flow:
    """The computation of addresses.  Usually each use has a computation of its address from the
    address of a variable, on every path, a few instructions long.  Then nothing is to be followed."""

    def __init__(self, graph: Graph, kinds: Sequence[Kind]) -> None:
        self.graph, self._kinds = graph, kinds
        self.writers = list_writers(graph)
        self.sources = {graph.specials[name]: kind for name, kind in BASES.items() if name in graph.specials}
        self.window = graph.constants.get(("b64", WINDOW), -1)
        """register with the number that `cvta.shared` adds to an address; -1 if there is none"""
        self._mask = graph.constants.get(("b64", OFFSET_MASK), -1)
        self._numbers = {row: value for (_, value), row in graph.constants.items() if isinstance(value, int)}
        self._proven: dict[tuple[Register, int, bool], bool] = {}
        """(register, kinds of memory, generic) -> whether it always holds such an address, if known or assumed"""
        self._uncounted: set[Register] = set()
        """registers whose values contain no counted address"""

    def covers_uses(self) -> bool:
        """Return whether each operand that must be an address of shared or local memory is proven to be one."""
        return all(
            self.prove(code.operands[use.number], use)
            for block in self.graph.blocks
            for code in block.instructions
            for use in self.list_uses(code)
        )

    def list_uses(self, code: Instruction) -> Iterator[_Use]:
        """Yield the operands that must be addresses of shared or local memory."""
        operation = OPERATIONS.get(code.operation)
        if operation is not None and operation.kind == "alu":
            if code.operation == "or.b64" and code.operands[1] == self.window:  # `cvta.shared`
                yield _Use(0, IN_SHARED, 1 << FARTHEST)
            return
        if operation is not None and operation.kind in ACCESSES:
            excluded = code.auxiliary >> FORBIDS_SHIFT & ANYWHERE
            if excluded in NEEDED:
                yield _Use(0, NEEDED[excluded], -code.immediate)
            elif not excluded and code.array is None:
                yield _Use(0, _KINDS, -code.immediate, generic=True)
        for number in IN_SHARED_MEMORY.get(code.operation, ()):
            yield _Use(number, IN_SHARED, -code.immediate if code.operation.startswith(HAVE_OFFSET) else 0)
        for number in list_descriptors(code):
            yield _Use(number, IN_SHARED, describe_outside(code))

    def list_terms(self, code: Instruction) -> list[tuple[Register, int]]:
        """Return the operands whose addresses a result may contain, and how many times; 0 if that is unknown."""
        if not computes(code):
            return []
        operands = code.operands
        if chooses(code):
            return [(row, 1) for row in operands[:2]]
        name, _, type_ = code.operation.partition(".")
        if name == "and" and any(0 <= self._numbers.get(row, -1) < _ALIGNMENT for row in operands):
            return [(row, 0) for row in operands if row in self._moved_bits]
        if name == "xor" and operands[0] == operands[1]:
            return []
        if (name == "or" and operands[1] == self.window) or (name == "and" and operands[1] == self._mask):
            return [(operands[0], 1)]
        if name == "cvt":
            return [(operands[0], int(type_ in _KEEP_ADDRESSES))]
        factors = _FACTORS.get(name, ()) if type_[:1] != "f" else ()
        if name in _MULTIPLY:
            factors = (*self._list_products(name, operands), *factors)
        return list(zip(operands, factors or (0,) * len(operands), strict=True))

    @functools.cached_property
    def _moved_bits(self) -> set[Register]:
        """The registers in whose low bits may be higher bits of an address, as after a shift to the right."""
        users: defaultdict[Register, list[Register]] = defaultdict(list)
        found: set[Register] = set()
        for result, codes in self.writers.items():
            for code in codes:
                name, _, type_ = code.operation.partition(".")
                if name not in _KEEP_LOW or "f" in type_:
                    found.add(result)
                for operand in code.operands:
                    users[operand].append(result)
        pending = list(found)
        while pending:
            fresh = {*users[pending.pop()]} - found
            found |= fresh
            pending += fresh
        return found

    def _list_products(self, name: str, operands: Sequence[Register]) -> tuple[int, int]:
        """Return the factors of two operands that are multiplied; 0 if unknown."""
        one, other = (self._numbers.get(row, 0) for row in operands[:2])
        if name == "shl":
            one, other = 0, 1 << min(other, 64) if operands[1] in self._numbers else 0
        return other * (0 < other <= _MAX_FACTOR), one * (0 < one <= _MAX_FACTOR)

    def list_sources(self, code: Instruction) -> list[Register]:
        """Return the operands whose addresses the results of an instruction may contain."""
        return [row for row, _ in self.list_terms(code)]

    def list_bearers(self, code: Instruction) -> list[Register]:
        """Return the operands for which a result holds an address if one of them does; if the result is one of the
        operands, each of them."""
        terms = self.list_terms(code)
        if chooses(code):
            return [row for row, _ in terms]
        counted = [row for row, factor in terms if factor and self.counts(row)]
        return [row for row, factor in terms if not factor or (factor == 1 and counted in ([], [row]))]

    def counts(self, register: Register) -> bool:
        """Return whether a value may contain a counted address."""
        seen, pending = {register}, [register]
        while pending:
            row = pending.pop()
            if row in self._uncounted:
                continue
            if row in self.sources:
                return True
            for code in self.writers.get(row, ()):
                for source, factor in self.list_terms(code):
                    if factor and source not in seen:
                        seen.add(source)
                        pending.append(source)
        self._uncounted |= seen
        return False

    def prove(self, register: Register, use: _Use, depth: int = 0) -> bool:
        """Return whether a register always holds an address; in a loop, it is assumed while it is being proven.  A
        generic address may come from memory or a structure as well."""
        if register in self.sources:
            return bool(self.sources[register] & use.kinds)
        key = register, use.kinds, use.generic
        if key in self._proven:
            return self._proven[key]
        writers = self.writers.get(register, ())
        if not writers:
            return use.generic and self._is_in_structure(register)
        if depth > _MAX_DEPTH:
            return False
        known = len(self._proven)
        self._proven[key] = True
        for code in writers:
            if not computes(code) and use.generic:
                continue
            every = all if chooses(code) else any
            bearers = self.list_bearers(code)
            if not every(self.prove(source, use, depth + 1) for source in bearers) or not computes(code):
                for assumed in list(self._proven)[known:]:  # these may rest on the assumption
                    self._proven[assumed] = False
                return False
        return True

    def _is_in_structure(self, register: Register) -> bool:
        """Return whether a register holds a value of the launch that may be an address."""
        parameter = self.graph.parameters.get(register)
        return parameter is not None and parameter.part == "bytes" and self._kinds[parameter.argument] != "number"


class _Mixed:
    """The kinds of memory to which the address in each register may refer, and those to which it always refers."""

    def __init__(self, flow: _Flow, held: Mapping[Register, int]) -> None:
        self._flow, self._graph, self._held = flow, flow.graph, held
        self._always = self._find_known()
        self._followed: dict[Register, _Companions] = {}

    def _find_known(self) -> dict[Register, int]:
        """Return the kinds of memory of which each register holds an address on every path."""
        always = {row: kinds & _KINDS for row, kinds in self._held.items() if kinds & _KINDS}
        uses: dict[Register, set[Register]] = defaultdict(set)
        for register in always:
            for code in self._flow.writers.get(register, ()):
                for operand in code.operands:
                    uses[operand].add(register)
        pending = list(always)
        while pending:
            register = pending.pop()
            kinds = always[register]
            for code in self._flow.writers.get(register, ()):
                kinds &= self._join(code, register, always)
            if kinds != always[register]:
                always[register] = kinds
                pending += uses[register]
        return always

    def _join(self, code: Instruction, result: Register, kinds_of: Mapping[Register, int]) -> int:
        """Return the kinds of a result, given those of the operands."""
        if not computes(code):
            return self._held.get(result, 0)
        join = operator.and_ if chooses(code) else operator.or_
        kinds = [kinds_of.get(source, 0) for source in self._flow.list_bearers(code)]
        return functools.reduce(join, kinds) if kinds else 0

    def select_addresses(self, code: Instruction) -> list[Instruction]:
        """Return the instructions before another one that replace its operands in lanes where they are numbers."""
        made: list[Instruction] = []
        for use in self._flow.list_uses(code):
            address, graph = code.operands[use.number], self._graph
            if not self._is_doubtful(address, use):
                continue
            found = self._emit_test(_Steps(graph, code, made), address, use)
            chosen = graph.new("b64")
            choices = address, graph.constant("b64", use.outside % (1 << 64)), found
            made.append(Instruction("selp.b64", (chosen,), choices, span=code.span, stack=code.stack))
            if computes(code):  # the kinds of its result come from this operand
                self._followed[chosen] = _Companions(graph.new("b32"), graph.new("b32"))
            replace_operand(code, use.number, chosen)
        return made

    def _is_doubtful(self, address: Register, use: _Use) -> bool:
        """Return whether an address may be a number in some lanes."""
        held = self._held.get(address, 0)
        if use.generic:
            return bool(held & _KINDS) and not self._flow.prove(address, use)
        return bool(held & ~self._always.get(address, 0) & use.kinds)

    def _emit_test(self, steps: _Steps, address: Register, use: _Use) -> Register:
        """Return the predicate that a register holds an address to which a use may refer."""
        kinds, count = self._follow(address)
        uncounted = steps.contains(kinds, _UNCOUNTED)
        tests = []
        for kind in _ONE:
            if kind & use.kinds:
                is_one = steps.emit("setp.eq.b32", count, steps.constant(_ONE[kind]), to="p")
                found = steps.emit("or.pred", is_one, uncounted, to="p")
                found = steps.emit("and.pred", found, steps.contains(kinds, kind), to="p")
                tests.append(steps.emit("or.pred", found, steps.lies_outside(address, use, kind), to="p")
                             if use.generic else found)  # fmt: skip
        return functools.reduce(lambda one, other: steps.emit("and.pred", one, other, to="p"), tests)

    def _follow(self, register: Register) -> _Companions:
        """Return the companions of a register."""
        pending = [register]
        while pending:
            row = pending.pop()
            if row not in self._followed and not self._is_fixed(row):
                self._followed[row] = _Companions(self._graph.new("b32"), self._graph.new("b32"))
                pending += [source for code in self._flow.writers[row] for source in self._flow.list_sources(code)]
        return self._name_companions(register)

    def _is_fixed(self, register: Register) -> bool:
        """Return whether the companions of a register are known."""
        kinds = self._held.get(register, 0) & _KINDS
        if not kinds or register in self._flow.sources:
            return True
        return self._always.get(register, 0) == kinds and not self._flow.counts(register)

    def _name_companions(self, register: Register) -> _Companions:
        if register in self._followed:
            return self._followed[register]
        kinds = self._held.get(register, 0) & _KINDS
        if register in self._flow.sources:
            return self._fix(kinds, _ONE[kinds])
        return self._fix(kinds | _UNCOUNTED if kinds else 0, 0)

    def _fix(self, kinds: int, count: int) -> _Companions:
        return _Companions(self._graph.constant("b32", kinds), self._graph.constant("b32", count))

    def insert_code(self) -> None:
        """Compute the companions before each instruction that computes the registers."""
        rows = [row for companions in self._followed.values() for row in companions]
        insert_companions(self._graph, rows, self._list_steps)

    def _list_steps(self, code: Instruction) -> list[Instruction]:
        """Return the instructions that compute the companions of the results of an instruction."""
        made: list[Instruction] = []
        for result in code.results:
            if result in self._followed:
                self._compute(_Steps(self._graph, code, made), result)
        return made

    def _compute(self, steps: _Steps, result: Register) -> None:
        code, companions = steps.at, self._followed[result]
        if chooses(code):
            one, other = (self._name_companions(source) for source in self._flow.list_sources(code))
            for row, a, b in zip(companions, one, other, strict=True):
                steps.made.append(under_guard(code, "selp.b32", row, a, b, code.operands[2]))
            return
        if computes(code):
            found = self._add_up(steps, self._flow.list_terms(code))
        else:
            kinds = self._held.get(result, 0) & _KINDS
            found = self._fix(kinds | _UNCOUNTED if kinds else 0, 0)
        for row, value in zip(companions, found, strict=True):
            steps.made.append(under_guard(code, "mov.b32", row, value))

    def _add_up(self, steps: _Steps, terms: Sequence[tuple[Register, int]]) -> _Companions:
        """Return the companions of a sum of operands."""
        zero = steps.constant(0)
        kinds: list[Register] = []
        counts: list[Register] = []
        for source, factor in terms:
            own, count = self._name_companions(source)
            if own == zero:
                continue
            kinds.append(own if factor else steps.blur(own))
            if factor:
                counts.append(count if factor == 1 else steps.emit("mul.b32", count, steps.constant(factor)))
        if not kinds:
            return _Companions(zero, zero)
        joined = functools.reduce(lambda one, other: steps.emit("or.b32", one, other), kinds)
        if not counts:
            return _Companions(joined, zero)
        count = functools.reduce(lambda one, other: steps.emit("add.b32", one, other), counts)
        return _Companions(joined if len(kinds) == 1 else steps.cancel(joined, count), count)


class _Steps:
    """Instructions that look up the kinds of registers."""

    def __init__(self, graph: Graph, at: Instruction, made: list[Instruction]) -> None:
        self._graph, self.at, self.made = graph, at, made

    def emit(self, operation: str, *operands: Register, to: str = "b32") -> Register:
        result = self._graph.new(to)
        self.made.append(look_up(self.at, operation, result, *operands))
        return result

    def constant(self, value: int, type_: str = "b32") -> Register:
        return self._graph.constant(type_, value % (1 << (32 if type_ == "b32" else 64)))

    def contains(self, kinds: Register, bit: int) -> Register:
        """Return the predicate that a bit is set."""
        return self.emit("setp.ne.b32", self.emit("and.b32", kinds, self.constant(bit)), self.constant(0), to="p")

    def blur(self, kinds: Register) -> Register:
        """Return kinds without a count."""
        none = self.emit("setp.eq.b32", kinds, self.constant(0), to="p")
        return self.emit("selp.b32", kinds, self.emit("or.b32", kinds, self.constant(_UNCOUNTED)), none)

    def cancel(self, kinds: Register, count: Register) -> Register:
        """Return the kinds of a sum; none if it contains no address."""
        nothing = self.emit("setp.eq.b32", count, self.constant(0), to="p")
        counted = self.emit("not.pred", self.contains(kinds, _UNCOUNTED), to="p")
        return self.emit("selp.b32", self.constant(0), kinds, self.emit("and.pred", nothing, counted, to="p"))

    def lies_outside(self, address: Register, use: _Use, kind: int) -> Register:
        """Return the predicate that a generic access goes to another kind of memory."""
        offset = self.constant(-use.outside, "b64")
        place = self.emit("add.b64", address, offset, to="b64") if use.outside else address
        segment = self.emit("shr.u64", place, self.constant(SEGMENT_SHIFT, "b64"), to="b64")
        return self.emit("setp.ne.b64", segment, self.constant(_SEGMENTS[kind], "b64"), to="p")


def computes(code: Instruction) -> bool:
    """Return whether the results of an instruction depend on its operands alone."""
    operation = OPERATIONS.get(code.operation)
    return operation is not None and operation.kind == "alu"


def chooses(code: Instruction) -> bool:
    return code.operation.startswith("selp.")
