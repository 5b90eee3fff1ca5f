"""Instrument a program so that it tracks undefined registers: each register that may be undefined gets a *mask*.

`reference.undefined` tracks undefined values in an interpreter, which takes seconds where compiled code takes
milliseconds. Most registers that some path leaves uninitialized could reach only a few instructions, and in fact reach
none of them, because every path that uses them initializes them first. `make_shadow_program` returns the program with
additional instructions. For each row that `unwritten` finds, they compute the mask of its undefined bits, and end the
run in a `trap` if such a bit reaches something observable. Any engine can run this program.

The masks are those of `reference.definedness`, or have more bits. So a run without such a trap shows that nothing
observable is reached. A trap shows the opposite only if the rules on the path to it are exact (`Sink.sure`). They are
not if the value was copied to memory, or passed through an operation without an exact rule here. (J. Seward, N.
Nethercote, "Using Valgrind to detect undefined value errors with bit-precision", USENIX 2005.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np

from wsemu.model.control_flow import STEERS
from wsemu.model.data import NamedTuple, dataclass, replace
from wsemu.model.isa import (
    ABORTS,
    AS_LOAD,
    AS_STORE,
    ATOMICS,
    CP_ASYNC,
    FIELDS,
    LANES,
    LOCAL,
    LOCAL_SHIFT,
    MULTICASTS,
    NAMES,
    NO_STORE,
    OPCODE,
    OPERATIONS,
    ROW,
    SEGMENT_SHIFT,
    SERVED,
    SHARED,
    SIZE,
    STOPS,
    TENSOR_RANK,
    memory_shape,
)
from wsemu.model.matrix import MOVES, WGMMA, move_counts, vector_counts
from wsemu.model.program import Constant
from wsemu.model.undefined import Source
from wsemu.proof.unwritten import Unwritten, Use

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from wsemu.model.outcome import Outcome
    from wsemu.model.program import Program
    from wsemu.model.undefined import Sink as Kind
    from wsemu.proof.taint_steps import SegmentOf

T = TypeVar("T")
_ALL = (1 << 64) - 1
_IMM, _C = FIELDS.index("imm"), FIELDS.index("c")
_MOVED: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(("mov", "varying", "brev"), ()), **dict.fromkeys(("shl", "shr"), (1,)), "bfe": (1, 2),
    "bfi": (2, 3), "prmt": (2,),
}  # fmt: skip
"""for operations that move bits, the operands that determine the positions"""


class Sink(NamedTuple):
    """A use at which the run ends, because an undefined value reaches it."""

    kind: Kind
    pc: int
    """pc of the instruction in the original program"""
    sure: bool
    """true if the value is certainly undefined and observable"""


@dataclass(slots=True)
class Shadowed:
    """An instrumented program, and its relation to the original program."""

    program: Program
    own: list[int]
    """position of each instruction of the original program"""
    sinks: dict[int, Sink]
    """trap -> the use that it reports"""
    gates: dict[Source, int]
    """tracked source -> the constant that is its mask: all bits, or 0 to ignore the source"""
    covered: frozenset[int]
    """instructions of the original program in which values are tracked"""
    others: frozenset[int]
    """instructions whose undefined results are tracked"""
    exact: bool
    """true if no mask has more bits than are undefined"""
    beside: int
    """distance in bytes from shared memory to the masks of its contents; 0 if these are not tracked"""
    scratch: frozenset[int]
    """rows that hold nothing before an instruction of the original program"""

    def for_source(self, source: Source) -> Program:
        """Return the program that tracks the values of one source only."""
        off = {gate for other, gate in self.gates.items() if other != source}
        constants = [c._replace(value=0) if c.row in off else c for c in self.program.constants]
        return replace(self.program, constants=constants)

    def leaves_out(self, outcome: Outcome) -> bool:
        """Return whether a run cannot be relied on, because its warps were scheduled differently.

        Either it executed instructions in which values are not tracked, or undefined values arose at other instructions
        than the expected ones.
        """
        if any(outcome.executions[at] and pc not in self.covered for pc, at in enumerate(self.own)):
            return True
        arose = {raw.pc for raw in outcome.findings if raw.code in ("uninitialized-read", "undefined-shuffle")}
        followed = {pc for pc, at in enumerate(self.own) if at in arose and self._follows(at)}
        return followed != self.others

    def _follows(self, at: int) -> bool:
        """Return whether the result of an instruction is tracked: not if it is asynchronous."""
        return OPERATIONS[NAMES[int(self.program.code[at, 0])]].kind != "async"


def make_shadow_program(
    program: Program,
    executions: Sequence[int],
    segment_of: SegmentOf | None,
    others: frozenset[int] = frozenset(),
    maps: Mapping[int, int] | None = None,
    beside: int = 0,
    unread: frozenset[tuple[int, int]] = frozenset(),
    *,
    ends_at_votes: bool = False,
) -> Shadowed:
    """Return a program that tracks its undefined registers through the executed instructions.

    It also tracks the undefined results of instructions in `others`: loads of uninitialized bytes, shuffles from
    inactive lanes. `maps` has, for a segment, the array that shows which of its bytes are initialized. `beside` is the
    distance in bytes from shared memory to the masks of its bytes, or 0 if copies in it are not tracked. `unread` are
    strong stores, with their CTAs (`ctaid.x`), whose values nothing reads. With `ends_at_votes`, an undefined value
    ends the run if a lane votes by it, so that the program has no votes of its own.
    """
    written = _Writer(program, executions, segment_of, others, maps or {}, beside, unread, ends_at_votes)
    return written.write_program()


class _Writer:
    """Writes the code of a program with the computation of its masks."""

    def __init__(
        self,
        program: Program,
        executions: Sequence[int],
        segment_of: SegmentOf | None,
        others: frozenset[int],
        maps: Mapping[int, int],
        beside: int,
        unread: frozenset[tuple[int, int]],
        ends_at_votes: bool,
    ) -> None:
        self.unread: dict[int, list[int]] = {}
        for at, cta in sorted(unread):
            self.unread.setdefault(at, []).append(cta)
        self.program, self.executions, self.others, self.maps = program, executions, others, maps
        self.beside, self.ends_at_votes = beside, ends_at_votes
        self.enters: set[int] = set()
        """instructions that may write to shared memory, which has masks of its own"""
        self.leaves: set[int] = set()
        """instructions that may read shared memory"""
        self.combines: set[int] = set()
        """atomics that may access shared memory"""
        self.unfollowed: set[int] = set()
        """accesses to shared memory for which such masks are not updated"""
        analysis = Unwritten(program, executions, segment_of, others)
        self.before: dict[int, set[int]] = {}
        """instruction -> the rows that it uses and that may be undefined before it"""
        self.results: dict[int, tuple[int, ...]] = {}
        self.in_arrays: set[int] = set()
        """stores that access only arrays of the launch"""
        self.code_before = program.code.tolist()
        self.pc = 0
        tainted: set[int] = set()
        self.exact = True
        for use in analysis.uses():
            pc, fields = use.pc, self.code_before[use.pc]
            named = {row for step in use.steps for row in (*step.reads, *step.operands, step.address)}
            named.update(row for _, rows, _ in self._steering(NAMES[fields[0]], fields) for row in rows)
            if used := {row for row in named & use.held if row > 0}:
                self.before[pc] = used
                tainted |= used
            self.results[pc] = tuple(row for step in use.steps for row in step.writes)
            if use.outlives:
                self.in_arrays.add(pc)
            if beside:
                self._note_memory(use, NAMES[fields[0]], fields)
        self.end = -(-program.register_bytes // ROW) * ROW
        self.masks = {row: self._row() for row in sorted(tainted)}
        """row -> the row of its mask"""
        self.predicates = self._row()
        self.gates: dict[Source, int] = {}
        self.specials: dict[str, int] = {}
        """rows of special registers that the original program does not have"""
        self.constants: dict[tuple[int, str], int] = {}
        self.spare = [self._row() for _ in range(7)]
        self.kept = self._row()
        """rows for masks that must survive the next rule"""
        self.code: list[list[int]] = []
        self.origin: list[int] = []
        self.sinks: dict[int, Sink] = {}

    def write_program(self) -> Shadowed:
        own, starts, flow = [], [], []
        for pc, fields in enumerate(self.code_before):
            self.pc = pc
            starts.append(len(self.code))
            if self.executions[pc]:
                self._follow(fields)
            own.append(len(self.code))
            name = NAMES[fields[0]]
            if name in ("bra", "jump"):
                flow.append(len(self.code))
            self._append(list(fields))
        starts.append(len(self.code))
        for at in flow:
            fields = self.code[at]
            fields[_IMM] = starts[fields[_IMM]]
            if NAMES[fields[0]] == "bra" and fields[_C] >= 0:
                fields[_C] = starts[fields[_C]]
        covered = frozenset(pc for pc, count in enumerate(self.executions) if count and pc not in self.unfollowed)
        self.gates |= {Source("register", row): self.masks[row] for row in self._registers()}
        found = self._program(), own, self._sinks(), self.gates, covered, self.others, self.exact, self.beside
        return Shadowed(*found, self._scratch())

    def _scratch(self) -> frozenset[int]:
        return frozenset((*self.spare, self.kept, *(self._predicate(n) for n in range(ROW // 4))))

    def _registers(self) -> list[int]:
        return [row for row, *_ in self.program.undefined if row in self.masks]

    def _sinks(self) -> dict[int, Sink]:
        """Return the uses at which the run may end; none is `sure` unless all rules are exact."""
        return self.sinks if self.exact else {at: sink._replace(sure=False) for at, sink in self.sinks.items()}

    def _program(self) -> Program:
        program = self.program
        types = {row: type_ for row, type_, _ in program.undefined}
        constants = [
            *program.constants,
            *(Constant(row, type_, value) for (value, type_), row in self.constants.items()),
            *(Constant(self.masks[row], "b64", _ones(types[row])) for row in self._registers()),
            *(Constant(gate, "b64", _ALL) for source, gate in self.gates.items() if source.kind != "register"),
        ]
        specials = program.specials | self.specials
        return replace(
            program, code=np.array(self.code, np.int64).reshape(-1, len(FIELDS)), register_bytes=self.end,
            constants=constants, undefined=[], traps=[*program.traps, ""],
            span_of=self._relocate_table(program.span_of),
            stack_of=self._relocate_table(program.stack_of), array_of=self._relocate_table(program.array_of),
            element_of=self._relocate_table(program.element_of),
            specials=specials,
        )  # fmt: skip

    def _relocate_table(self, table: list[T]) -> list[T]:
        """Return a table by instruction, extended to the instructions of the new program."""
        return [table[pc] for pc in self.origin] if table else []

    # -- code ---------------------------------------------------------------------------------------------------------
    def _row(self) -> int:
        self.end += ROW
        return self.end - ROW

    def _append(self, fields: list[int]) -> None:
        self.code.append(fields)
        self.origin.append(self.pc)

    def _emit(self, name: str, to: int, *operands: int, guard: int = 0, auxiliary: int = 0) -> int:
        given = (*operands, 0, 0, 0, 0)[:4]
        self._append([OPCODE[name], guard, to, *given, auxiliary])
        return to

    def _constant(self, value: int, type_: str = "b64") -> int:
        if (value, type_) not in self.constants:
            self.constants[value, type_] = self._row()
        return self.constants[value, type_]

    def _predicate(self, n: int) -> int:
        return self.predicates + 4 * n

    def _special(self, name: str) -> int:
        """Return the row of a special register."""
        if name in self.program.specials:
            return self.program.specials[name]
        if name not in self.specials:
            self.specials[name] = self._row()
        return self.specials[name]

    def _mask(self, row: int) -> int:
        """Return the row of the mask of an operand."""
        return self.masks[row] if row in self.before.get(self.pc, ()) else self._constant(0)

    # -- instructions -------------------------------------------------------------------------------------------------
    def _follow(self, fields: list[int]) -> None:
        used = self.before.get(self.pc, set())
        results = [row for row in self.results.get(self.pc, ()) if row in self.masks]
        name = NAMES[fields[0]]
        operation = OPERATIONS[name]
        if self.pc in self.enters:
            self._keep(name, fields)
        if self.pc in self.combines:
            self._stop_at_copy(name, fields)
        if not used and not results:
            return
        guard = fields[1] >> 1
        if guard in used and operation.kind != "alu":
            self._check(STEERS.get(name, "guard"), [guard], 0)
        for kind, rows, sure in self._steering(name, fields):
            if kind == "store" and self.pc in self.enters:  # its mask is stored as well
                continue
            self._check(kind, [row for row in rows if row in used], fields[1], sure=sure)
        votes = name.startswith("vote") and fields[3] in used
        if votes and self.ends_at_votes:
            self._check("branch", fields[3:4], fields[1], sure=False)
        if not results:
            return
        operands = [row for row in fields[3 : 3 + len(operation.operands)] if row in used]
        match operation.kind:
            case "alu" if operands or guard in used:
                self._compute(name, fields, results[0])
            case "warp" if name.startswith("shfl"):
                self._shuffle(name, fields, used)
            case "warp" if votes and not self.ends_at_votes:
                self._vote(name, fields)
            case "warp" if name.startswith("redux") and fields[3] in used:
                self._reduce(name, fields)
            case "async" if name in WGMMA:
                self._accumulate(name, fields)
            case "matrix" if name in MOVES and used - {guard, fields[5]}:
                self._move(name, fields)
            case "warp" | "matrix" if used - {guard, fields[5]} and not votes:
                self._exchange(used - {guard, fields[5]}, fields, results)
            case "load" | "atomic" if self.pc in self.others:
                self._load(name, fields)
            case _:
                for row in results:
                    self._emit("mov.b64", self.masks[row], self._constant(0), guard=fields[1])
        if self.pc in self.leaves:
            self._load_copies(name, fields)

    def _check(self, kind: Kind, rows: Sequence[int], guard: int, *, sure: bool = True) -> None:
        """End the run if one of some rows is undefined in a lane that executes the instruction."""
        if not rows:
            return
        found = self._any([self.masks[row] for row in rows])
        if guard and guard >> 1 not in rows:
            self._emit("and.pred", found, found, self._negate_guard(guard))
        for cta in self.unread.get(self.pc, ()) if kind == "atomic" else ():
            other = self._emit("setp.ne.b32", self._predicate(1), self._special("ctaid.x"), self._constant(cta, "b32"))
            self._emit("and.pred", found, found, other)
        self._stop(kind, found, sure=sure)

    def _stop(self, kind: Kind, found: int, *, sure: bool) -> None:
        """End the run in the lanes for which a predicate is true."""
        at = len(self.code)
        self._append([OPCODE["bra"], 2 * found + 1, 0, 0, 0, -1, at + 2, 0])
        self.sinks[at + 1] = Sink(kind, self.pc, sure)
        self._append([OPCODE["trap"], 0, 0, 0, 0, 0, len(self.program.traps), ABORTS])

    def _negate_guard(self, guard: int) -> int:
        """Return a row with the predicate of a guard, negated if the guard is."""
        row = guard >> 1
        return self._emit("not.pred", self._predicate(1), row) if guard & 1 else row

    def _steering(self, name: str, fields: list[int]) -> Iterator[tuple[Kind, Sequence[int], bool]]:
        """Yield the operands that must be defined, and whether it is observable if they are not."""
        operation = OPERATIONS[name]
        rows = [row for row, _ in zip(fields[3:7], operation.operands, strict=False)]
        match operation.kind:
            case "load":
                yield "address", fields[3:4], True
            case "store":
                yield "address", fields[3:4], True
                values = [fields[2] + k * ROW for k in range(memory_shape(name)[2])]
                yield "store", values, self.pc in self.in_arrays
            case "atomic":
                yield "address", fields[3:4], True
                stores = fields[7] & SERVED == AS_STORE
                if not (fields[7] & SERVED == AS_LOAD and fields[7] & NO_STORE):
                    yield "atomic", fields[4 : 6 if ATOMICS[name][0] == "cas" else 5], not stores
            case "warp" | "matrix" if operation.operands:
                yield "member mask", fields[5:6], True
            case "barrier":
                yield "barrier operand", rows, True
            case "async" if name in WGMMA:
                yield "operand", (fields[4], fields[6], *([fields[3]] if WGMMA[name].shared else [])), True
            case "async":
                if name.startswith("tensor."):
                    count = (fields[7] & TENSOR_RANK) + (name in MULTICASTS)
                    rows += range(fields[2], fields[2] + count * ROW, ROW)
                elif name in MULTICASTS or name.startswith("async."):
                    rows.append(fields[2])
                yield "operand", rows, True
            case "fence" if name == "show" and fields[7] != STOPS:
                yield "print", fields[3:4], True
            case _:
                return

    def _compute(self, name: str, fields: list[int], result: int) -> None:
        """Write the mask of an arithmetic result."""
        operation = OPERATIONS[name]
        operands = fields[3 : 3 + len(operation.operands)]
        masks = [self._mask(row) for row in operands]
        to = self._rule(name, operands, masks)
        guard = self._mask(fields[1] >> 1)
        if guard == self._constant(0):
            self._emit("mov.b64", self.masks[result], to, guard=fields[1])
            return
        to = self._emit("mov.b64", self.kept, to)  # a guarded write: also bits in which the two values differ
        new = self._emit(name, self.spare[0] if operation.result != "p" else self._predicate(0), *operands)
        new, old = (
            self._value(operation.result, row, self.spare[1 + n]) for n, row in enumerate((new, fields[2]))
        )  # fmt: skip
        either = self._emit("xor.b64", self.spare[3], new, old)
        for mask in (to, self.masks[result]):
            self._emit("or.b64", either, either, mask)
        self._emit("mov.b64", self.masks[result], to, guard=fields[1])
        self._emit("mov.b64", self.masks[result], either, guard=2 * self._any([guard]))

    def _rule(self, name: str, operands: list[int], masks: list[int]) -> int:
        """Return the row of a result's mask: the one of `reference.definedness`, or one with more bits."""
        what, *types = name.split(".")
        operation = OPERATIONS[name]
        floats = any(type_[0] == "f" for type_ in (*operation.operands, operation.result))
        defined = self._constant(0)
        if what in ("xor", "sub") and not floats and operands[0] == operands[1]:
            return defined
        if what in ("mov", "not", "varying"):
            return masks[0]
        if what == "selp":
            return self._shadow_select(operation.operands[0], operands, masks)
        if floats:
            self.exact = self.exact and what not in ("neg", "abs", "copysign")
            return self._whole(operation.result, masks)
        controls = _MOVED.get(what, ()) if what in _MOVED or (what == "cvt" and len(types) == 2) else None
        if controls is not None:
            return self._shadow_move(name, controls, operands, masks)
        if what in ("and", "or", "xor", "andn"):
            return self._bitwise(what, operation.result, operands, masks)
        if what in ("add", "sub"):
            return self._sum(what, operation.result, operands, masks)
        if what == "neg":
            zero = self._constant(0, operation.result)
            return self._sum("sub", operation.result, [zero, *operands], [defined, *masks])
        if what in ("mul", "mad", "mulwide", "madwide"):
            return self._product(operation.operands[0], operation.result, operands, masks)
        if what == "mulhi":
            return self._high_of_product(operation.result, operands, masks)
        if what == "setp":
            return self._shadow_compare(types, operands, masks)
        if what in ("min", "max"):
            return self._extreme(what, types[0], operands, masks)
        return self._whole(operation.result, masks)

    def _whole(self, type_: str, masks: Sequence[int]) -> int:
        """Return the mask of a result that is completely undefined if any bit of an operand is."""
        some = self._any(masks)
        return self._emit("selp.b64", self.spare[0], self._constant(_ones(type_)), self._constant(0), some)

    def _any(self, masks: Sequence[int]) -> int:
        """Return the predicate of whether one of some masks has a bit."""
        mask = masks[0]
        for other in masks[1:]:
            mask = self._emit("or.b64", self.spare[0], mask, other)
        return self._emit("setp.ne.b64", self._predicate(0), mask, self._constant(0))

    def _value(self, type_: str, row: int, to: int) -> int:
        """Return an operand as 64 bits."""
        if type_ == "p":
            return self._emit("selp.b64", to, self._constant(1), self._constant(0), row)
        bits = 8 * SIZE[type_]
        return row if bits == 64 else self._emit(f"cvt.b64.u{bits}", to, row)

    def _cut(self, type_: str, row: int, to: int) -> int:
        """Return 64 bits as a register of a type."""
        if type_ == "p":
            return self._emit("setp.ne.b64", self._predicate(1), row, self._constant(0))
        bits = 8 * SIZE[type_]
        return row if bits == 64 else self._emit(f"cvt.b{bits}.s64", to, row)

    def _shadow_select(self, type_: str, operands: list[int], masks: list[int]) -> int:
        a, b, choice = masks
        chosen = self._emit("selp.b64", self.spare[0], a, b, operands[2])
        if choice == self._constant(0):
            return chosen
        x, y = (self._value(type_, row, self.spare[1 + n]) for n, row in enumerate(operands[:2]))
        either = self._emit("xor.b64", self.spare[3], x, y)
        for mask in (a, b):
            self._emit("or.b64", either, either, mask)
        unsure = self._emit("setp.ne.b64", self._predicate(0), choice, self._constant(0))
        return self._emit("selp.b64", self.spare[0], either, chosen, unsure)

    def _shadow_move(self, name: str, controls: tuple[int, ...], operands: list[int], masks: list[int]) -> int:
        """Return the masks' bits, moved as the operation moves the operands' bits; all bits, if a position is
        undefined."""
        operation = OPERATIONS[name]
        given = [
            row if n in controls else self._cut(type_, mask, self.spare[n])
            for n, (row, mask, type_) in enumerate(zip(operands, masks, operation.operands, strict=True))
        ]
        moved = self._value(operation.result, self._emit(name, self.spare[4], *given), self.spare[5])
        unsure = [masks[n] for n in controls if masks[n] != self._constant(0)]
        if not unsure:
            return moved
        every = self._constant(_ones(operation.result))
        return self._emit("selp.b64", self.spare[0], every, moved, self._any(unsure))

    def _bitwise(self, what: str, type_: str, operands: list[int], masks: list[int]) -> int:
        of_a, of_b = masks
        both = self._emit("or.b64", self.spare[0], of_a, of_b)
        if what == "xor":
            return both
        a, b = (self._value(type_, row, self.spare[1 + n]) for n, row in enumerate(operands))
        if what == "or":
            a = self._emit("not.b64", self.spare[1], a)
        if what in ("or", "andn"):
            b = self._emit("not.b64", self.spare[2], b)
        # a bit is undefined unless the other operand decides it, by a defined bit that is not neutral
        for value, mask in ((a, of_a), (b, of_b)):
            neutral = self._emit("or.b64", self.spare[3], value, mask)
            self._emit("and.b64", both, both, neutral)
        return self._emit("and.b64", both, both, self._constant(_ones(type_)))

    def _sum(self, what: str, type_: str, operands: list[int], masks: list[int]) -> int:
        a, b = (self._value(type_, row, self.spare[n]) for n, row in enumerate(operands))
        least_a, most_a = self._range(a, masks[0], self.spare[2], self.spare[4])
        least_b, most_b = self._range(b, masks[1], self.spare[3], self.spare[5])
        if what == "sub":
            least_b, most_b = most_b, least_b
        low = self._emit(f"{what}.b64", self.spare[2], least_a, least_b)
        high = self._emit(f"{what}.b64", self.spare[4], most_a, most_b)
        changes = self._emit("xor.b64", self.spare[2], low, high)
        for mask in masks:
            self._emit("or.b64", changes, changes, mask)
        return self._emit("and.b64", changes, changes, self._constant(_ones(type_)))

    def _product(self, factor_type: str, type_: str, operands: list[int], masks: list[int]) -> int:
        """Return all bits of a product that may be undefined: from the product of two lowest bits on.

        These are the lowest undefined bit of one factor, and the lowest bit of the other factor that may be set.
        """
        a, b = (self._value(factor_type, row, self.spare[n]) for n, row in enumerate(operands[:2]))
        lowest = self._constant(0)
        for n, (mask, other, of_other) in enumerate(((masks[0], b, masks[1]), (masks[1], a, masks[0]))):
            may_be = self._lowest(self._emit("or.b64", self.spare[4], other, of_other), self.spare[4])
            product = self._emit("mul.b64", self.spare[2 + n], self._lowest(mask, self.spare[5]), may_be)
            lowest = self._emit("or.b64", product, product, lowest)
        for mask in masks[2:]:
            self._emit("or.b64", lowest, lowest, mask)
        upward = self._emit("neg.b64", lowest, self._lowest(lowest, self.spare[4]))
        return self._emit("and.b64", upward, upward, self._constant(_ones(type_)))

    def _high_of_product(self, type_: str, operands: list[int], masks: list[int]) -> int:
        """Return all bits if one factor may be undefined and the other one may be nonzero."""
        no, differs = self._constant(0), self._predicate(2)
        a, b = (self._value(type_, row, self.spare[n]) for n, row in enumerate(operands))
        for n, (mask, other, of_other) in enumerate(((masks[0], b, masks[1]), (masks[1], a, masks[0]))):
            may_differ = self._emit("setp.ne.b64", self._predicate(0), mask, no)
            may_be = self._emit("or.b64", self.spare[2], other, of_other)
            some = self._emit("setp.ne.b64", self._predicate(1), may_be, no)
            both = self._emit("and.pred", self._predicate(1), may_differ, some)
            self._emit("or.pred" if n else "mov.pred", differs, *((differs, both) if n else (both,)))
        return self._emit("selp.b64", self.spare[0], self._constant(_ones(type_)), no, differs)

    def _lowest(self, mask: int, to: int) -> int:
        """Return the lowest bit of a mask; `to` may be its row."""
        negated = self._emit("neg.b64", self.spare[6], mask)
        return self._emit("and.b64", to, mask, negated)

    def _range(self, value: int, mask: int, least: int, most: int) -> tuple[int, int]:
        """Return the least and the greatest unsigned number that a value may be."""
        others = self._emit("not.b64", least, mask)
        self._emit("and.b64", least, value, others)
        return least, self._emit("or.b64", most, value, mask)

    def _shadow_compare(self, types: list[str], operands: list[int], masks: list[int]) -> int:
        how, type_ = types
        bits = int(type_[1:])
        a, b = (self._value(f"b{bits}", row, self.spare[n]) for n, row in enumerate(operands))
        no = self._constant(0)
        if how in ("eq", "ne"):
            unsure = self._emit("or.b64", self.spare[2], *masks)
            some = self._emit("setp.ne.b64", self._predicate(0), unsure, no)
            sure = self._emit("not.b64", self.spare[2], unsure)
            differ = self._emit("xor.b64", self.spare[0], a, b)
            self._emit("and.b64", differ, differ, sure)
            open_ = self._emit("setp.eq.b64", self._predicate(1), differ, no)
            self._emit("and.pred", some, some, open_)
            return self._emit("selp.b64", self.spare[0], self._constant(1), no, some)
        (least_a, most_a), (least_b, most_b) = self._ranges(type_, a, b, masks)
        first = "lt" if how in ("lt", "ge") else "le"  # the relation that holds for all values, or for none
        always = self._emit(f"setp.{first}.u64", self._predicate(0), most_a, least_b)
        possible = self._emit(f"setp.{first}.u64", self._predicate(1), least_a, most_b)
        self._emit("andn.pred", possible, possible, always)
        return self._emit("selp.b64", self.spare[0], self._constant(1), no, possible)

    def _extreme(self, what: str, type_: str, operands: list[int], masks: list[int]) -> int:
        """Return the mask of the operand that is certainly the smaller, or larger, one; otherwise all bits."""
        bits = int(type_[1:])
        a, b = (self._value(f"b{bits}", row, self.spare[n]) for n, row in enumerate(operands))
        (least_a, most_a), (least_b, most_b) = self._ranges(type_, a, b, masks)
        below = self._emit("setp.le.u64", self._predicate(1), most_a, least_b)
        above = self._emit("setp.le.u64", self._predicate(2), most_b, least_a)
        first, second = masks if what == "min" else masks[::-1]
        chosen = self._emit("selp.b64", self.spare[0], second, self._whole(f"b{bits}", masks), above)
        return self._emit("selp.b64", chosen, first, chosen, below)

    def _ranges(self, type_: str, a: int, b: int, masks: Sequence[int]) -> tuple[tuple[int, int], tuple[int, int]]:
        """Return the least and the greatest number that each operand may be, by the order of its type."""
        if type_[0] == "s":  # with an inverted sign bit, signed order equals unsigned order
            sign = self._constant(1 << int(type_[1:]) - 1)
            a, b = self._emit("xor.b64", self.spare[0], a, sign), self._emit("xor.b64", self.spare[1], b, sign)
        of_a = self._range(a, masks[0], self.spare[2], self.spare[4])
        return of_a, self._range(b, masks[1], self.spare[3], self.spare[5])

    # -- memory -------------------------------------------------------------------------------------------------------
    def _load(self, name: str, fields: list[int]) -> None:
        """Write the masks of the result of a load or an atomic: the bits of uninitialized bytes."""
        size, count = (SIZE[ATOMICS[name][1]], 1) if name in ATOMICS else memory_shape(name)[1:]
        unused = 0 if name in ATOMICS else fields[7]
        gate = self.gates[Source("load", self.pc)] = self._row()
        place = self._emit("add.b64", self.spare[0], fields[3], self._constant(fields[6] & _ALL))
        segment = self._emit("shr.u64", self.spare[1], place, self._constant(SEGMENT_SHIFT))
        ones = self._constant(_ones("b64") // 255 & (1 << 8 * size) - 1)
        for k in range(count):
            row = fields[2] + k * ROW
            if row not in self.masks:
                continue
            mask = self._emit("mov.b64", self.spare[2], ones)
            for number, array in self.maps.items():
                there = self._emit("setp.eq.b64", self._predicate(0), segment, self._constant(number))
                if fields[1]:
                    self._emit("and.pred", there, there, self._negate_guard(fields[1]))
                at = self._map_address(place, number, array)
                self._append([OPCODE[f"ld.b{8 * size}"], 2 * there, self.spare[4], at, 0, 0, k * size, 0])
                value = self._value(f"b{8 * size}", self.spare[4], self.spare[5])
                self._emit("mov.b64", mask, value, guard=2 * there)
            self._emit("xor.b64", mask, mask, ones)
            self._emit("mul.b64", mask, mask, self._constant(255))
            used = sum(255 << 8 * q for q in range(size) if not unused >> k * size + q & 1)
            self._emit("and.b64", mask, mask, self._constant(used))
            self._emit("and.b64", mask, mask, gate)
            self._emit("mov.b64", self.masks[row], mask, guard=fields[1])

    def _note_memory(self, use: Use, name: str, fields: list[int]) -> None:
        """Record an instruction that may move values into or out of shared memory."""
        kind = OPERATIONS[name].kind
        if not (use.enters or use.leaves):
            return
        if kind == "store" or name in CP_ASYNC:
            self.enters.add(use.pc)
        elif kind == "load":
            self.leaves.add(use.pc)
        elif kind == "atomic":
            self.combines.add(use.pc)
        elif kind == "async" and not use.leaves:  # it writes defined values, so old masks have too many bits
            self.exact = False
        else:
            self.unfollowed.add(use.pc)

    def _locate_in_shared(self, fields: list[int]) -> tuple[int, int]:
        """Return the address that an instruction accesses, and the predicate of the lanes that access shared memory."""
        place = self._emit("add.b64", self.spare[0], fields[3], self._constant(fields[6] & _ALL))
        segment = self._emit("shr.u64", self.spare[1], place, self._constant(SEGMENT_SHIFT))
        inside = self._emit("setp.eq.b64", self._predicate(4), segment, self._constant(SHARED))
        if fields[1]:
            self._emit("and.pred", inside, inside, self._negate_guard(fields[1]))
        return place, inside

    def _keep(self, name: str, fields: list[int]) -> None:
        """Store the masks of values that are stored in shared memory; end the run if an undefined value is stored
        elsewhere."""
        size, count = (4, CP_ASYNC[name] // 4) if name in CP_ASYNC else memory_shape(name)[1:]
        place, inside = self._locate_in_shared(fields)
        masks = [self._constant(0)] * count if name in CP_ASYNC else [
            self._mask(fields[2] + k * ROW) for k in range(count)
        ]  # fmt: skip
        for k, mask in enumerate(masks):
            narrow = self._cut(f"b{8 * size}", mask, self.spare[2])
            self._append([OPCODE[f"st.b{8 * size}"], 2 * inside, narrow, place, 0, 0, self.beside + k * size, 0])
        undefined = [mask for mask in masks if mask != self._constant(0)]
        if undefined:
            found = self._any(undefined)
            self._emit("andn.pred", found, found, inside)
            if fields[1]:
                self._emit("and.pred", found, found, self._negate_guard(fields[1]))
            self._stop("store", found, sure=self.pc in self.in_arrays)

    def _stop_at_copy(self, name: str, fields: list[int]) -> None:
        """End the run if an atomic accesses an undefined value in shared memory.

        Otherwise its result is defined. So is the value that it writes, because an undefined operand ends the run too.
        """
        place, inside = self._locate_in_shared(fields)
        bits = 8 * SIZE[ATOMICS[name][1]]
        self._append([OPCODE[f"ld.b{bits}"], 2 * inside, self.spare[2], place, 0, 0, self.beside, 0])
        found = self._any([self._value(f"b{bits}", self.spare[2], self.spare[3])])
        self._emit("and.pred", found, found, inside)
        self._stop("atomic", found, sure=False)

    def _load_copies(self, name: str, fields: list[int]) -> None:
        """Add the masks of shared memory to those of loaded values."""
        _, size, count = memory_shape(name)
        place, inside = self._locate_in_shared(fields)
        for k in range(count):
            row = fields[2] + k * ROW
            if row not in self.masks:
                continue
            at = [OPCODE[f"ld.b{8 * size}"], 2 * inside, self.spare[2], place, 0, 0, self.beside + k * size, 0]
            self._append(at)
            mask = self._value(f"b{8 * size}", self.spare[2], self.spare[3])
            used = sum(255 << 8 * q for q in range(size) if not fields[7] >> k * size + q & 1)
            mask = self._emit("and.b64", self.spare[3], mask, self._constant(used))
            self._emit("or.b64", self.masks[row], self.masks[row], mask, guard=2 * inside)

    def _map_address(self, place: int, number: int, array: int) -> int:
        """Return the address of the entry, in the map of a segment, of a location in the segment."""
        if number != LOCAL:
            return self._emit("add.b64", self.spare[3], place, self._constant(array - number << SEGMENT_SHIFT))
        inside = self._emit("and.b64", self.spare[3], place, self._constant((1 << LOCAL_SHIFT) - 1))
        self._emit("add.b64", inside, inside, self._special("local_map"))
        return self._emit("add.b64", inside, inside, self._constant(array << SEGMENT_SHIFT))

    # -- lanes --------------------------------------------------------------------------------------------------------
    def _shuffle(self, name: str, fields: list[int], used: set[int]) -> None:
        """Write the masks of a shuffle: those of the lanes that are read."""
        mode = name.split(".")[1]
        choice = self._mask(fields[4])
        if fields[2] in self.masks:
            mask = self._mask(fields[3])
            moved = list(fields)
            moved[0], moved[2], moved[3], moved[7] = OPCODE[f"shfl.{mode}.b64"], self.spare[1], mask, 0
            if fields[3] in used:
                self._append(moved)
                mask = self.spare[1]
            if fields[4] in used:
                whole = self._whole(OPERATIONS[name].result, [choice])
                mask = self._emit("or.b64", self.spare[1], mask, whole)
            if self.pc in self.others:
                mask = self._absent(name, fields, mask)
            self._emit("mov.b64", self.masks[fields[2]], mask, guard=fields[1])
        if fields[7] and fields[7] in self.masks:
            unsure = self._whole("p", [choice]) if fields[4] in used else self._constant(0)
            self._emit("mov.b64", self.masks[fields[7]], unsure, guard=fields[1])

    def _absent(self, name: str, fields: list[int], mask: int) -> int:
        """Return the mask of a shuffle's result: all bits in the lanes that read a lane which does not participate."""
        mode, lane, a, b = name.split(".")[1], self._special("laneid"), self.spare[2], self.spare[3]
        inside, absent = self._predicate(1), self._predicate(2)
        for_all = self._emit("setp.eq.b64", self._predicate(0), self._constant(0), self._constant(0))
        there = list(fields)
        there[0], there[2], there[3], there[6], there[7] = OPCODE["vote.ballot"], a, for_all, 0, 0
        self._append(there)
        asked = list(fields)
        asked[0], asked[2], asked[3], asked[7] = OPCODE[f"shfl.{mode}.b32"], b, lane, inside
        self._append(asked)
        self._emit("and.b32", b, fields[4], self._constant(LANES - 1, "b32"))
        segment = fields[6] >> 8 & LANES - 1
        match mode:
            case "idx":
                self._emit("and.b32", b, b, self._constant(LANES - 1 & ~segment, "b32"))
                own = self._emit("and.b32", self.spare[4], lane, self._constant(segment, "b32"))
                self._emit("or.b32", b, b, own)
            case "bfly":
                self._emit("xor.b32", b, lane, b)
            case _:
                self._emit("sub.b32" if mode == "up" else "add.b32", b, lane, b)
        self._emit("shr.u32", a, a, b)
        self._emit("and.b32", a, a, self._constant(1, "b32"))
        self._emit("setp.eq.b32", absent, a, self._constant(0, "b32"))
        self._emit("and.pred", absent, absent, inside)
        gate = self.gates[Source("shuffle", self.pc)] = self._row()
        whole = self._emit("and.b64", self.spare[0], gate, self._constant(_ones(OPERATIONS[name].result)))
        return self._emit("selp.b64", whole, whole, mask, absent)

    def _vote(self, name: str, fields: list[int]) -> None:
        """Write the mask of a vote: the lanes with undefined values, unless other lanes decide the vote."""
        value, result, unsure = fields[3], self.masks[fields[2]], self._any([self.masks[fields[3]]])
        if name == "vote.ballot":
            ballot = list(fields)
            ballot[2], ballot[3] = self.spare[0], unsure
            self._append(ballot)
            self._emit("mov.b64", result, self._value("b32", self.spare[0], self.spare[1]), guard=fields[1])
            return
        true = self._emit("andn.pred", self._predicate(1), value, unsure)
        no_false = self._emit("or.pred", self._predicate(2), value, unsure)
        for how, predicate in (("any", true), ("all", no_false), ("any", unsure)):
            self._append([OPCODE[f"vote.{how}"], fields[1], predicate, predicate, *fields[4:]])
        decided = {"any": true, "all": self._emit("not.pred", self._predicate(3), no_false)}.get(name[5:])
        if decided is None:
            decided = self._emit("andn.pred", self._predicate(3), true, no_false)
        self._emit("andn.pred", unsure, unsure, decided)
        mask = self._emit("selp.b64", self.spare[0], self._constant(1), self._constant(0), unsure)
        self._emit("mov.b64", result, mask, guard=fields[1])

    def _reduce(self, name: str, fields: list[int]) -> None:
        """Write the mask of a reduction: bits that one lane decides are defined."""
        what = name.split(".")[1]
        mask = self.masks[fields[3]]
        undefined = self._over_lanes("or", self._cut("b32", mask, self.spare[0]), fields, self.spare[1])
        if what in ("and", "or"):
            if what == "and":
                open_ = self._emit("or.b32", self.spare[2], fields[3], self.spare[0])
            else:
                open_ = self._emit("not.b32", self.spare[2], self.spare[0])
                self._emit("and.b32", open_, open_, fields[3])
                self._emit("not.b32", open_, open_)
            undecided = self._over_lanes("and", open_, fields, self.spare[3])
            self._emit("and.b32", undefined, undefined, undecided)
        whole = self._value("b32", undefined, self.spare[0])
        if what not in ("and", "or", "xor"):
            whole = self._whole("b32", [whole])
        self._emit("mov.b64", self.masks[fields[2]], whole, guard=fields[1])

    def _over_lanes(self, what: str, row: int, fields: list[int], to: int) -> int:
        """Return the combination of a register over the lanes of an instruction."""
        self._append([OPCODE[f"redux.{what}.b32"], fields[1], to, row, *fields[4:]])
        return to

    def _exchange(self, used: set[int], fields: list[int], results: Sequence[int]) -> None:
        """Write the masks of results that depend on all lanes: all bits, if one bit of a participating lane is
        undefined."""
        if NAMES[fields[0]] == "alike.b64":
            self._differ(fields, results[0])
            return
        self.exact = self.exact and NAMES[fields[0]].startswith("match")
        found = self._vote_masks([self.masks[row] for row in sorted(used)], fields[1], fields[5])
        for row in results:
            mask = self._emit("selp.b64", self.spare[0], self._constant(_ALL), self._constant(0), found)
            self._emit("mov.b64", self.masks[row], mask, guard=fields[1])

    def _differ(self, fields: list[int], result: int) -> None:
        """Write the mask of a comparison between the executing lanes: undefined if a value of one of them is."""
        unsure = self._any([self.masks[fields[3]]])
        own = self._emit("selp.b64", self.spare[0], self._constant(1), self._constant(0), unsure)
        same = list(fields)
        same[2], same[3] = self._predicate(1), own
        self._append(same)  # it compares whether a lane's value is undefined: for some lanes, or for all
        defined = self._emit("andn.pred", self._predicate(1), self._predicate(1), unsure)
        mask = self._emit("selp.b64", self.spare[0], self._constant(0), self._constant(1), defined)
        self._emit("mov.b64", self.masks[result], mask, guard=fields[1])

    def _move(self, name: str, fields: list[int]) -> None:
        """Move the masks of elements to other lanes as the operation moves the elements."""
        to, given = move_counts(name)
        rows = [self._row() for _ in range(to + given)]
        for k, row in enumerate(rows[to:]):
            self._cut("b32", self._mask(fields[3] + k * ROW), row)
        moved = list(fields)
        moved[2], moved[3] = rows[0], rows[to]
        self._append(moved)
        for k, row in enumerate(rows[:to]):
            if (result := fields[2] + k * ROW) in self.masks:
                mask = self._value("b32", row, self.spare[0])
                self._emit("mov.b64", self.masks[result], mask, guard=fields[1])

    def _vote_masks(self, masks: Sequence[int], guard: int, members: int) -> int:
        """Return the predicate of whether one of some masks has a bit in any lane."""
        found = self._predicate(1)
        self._append([OPCODE["vote.any"], guard, found, self._any(masks), self._constant(0), members, 0, 0])
        return found

    def _accumulate(self, name: str, fields: list[int]) -> None:
        """Write the masks of a `wgmma`: those of its accumulators if it uses them, and all bits if another register is
        undefined."""
        to, of_a, *_ = vector_counts(name, fields[7])
        own = [fields[3] + k * ROW for k in range(WGMMA[name].shared, of_a)]
        given = [self.masks[row] for row in own if row in self.before.get(self.pc, ())]
        whole = self._constant(0)
        if given:
            found = self._vote_masks(given, 0, self._constant((1 << LANES) - 1, "b32"))
            whole = self._emit("selp.b64", self.spare[1], self._constant((1 << LANES) - 1), self._constant(0), found)
        for k in range(to):
            result = fields[2] + k * ROW
            if result not in self.masks:
                continue
            mask = self._mask(fields[5] + k * ROW)
            if mask != self._constant(0):
                mask = self._emit("selp.b64", self.spare[0], mask, self._constant(0), fields[6])
            if given:
                mask = self._emit("or.b64", self.spare[0], mask, whole)
            self._emit("mov.b64", self.masks[result], mask, guard=fields[1])


def _ones(type_: str) -> int:
    return 1 if type_ == "p" else (1 << 8 * SIZE[type_]) - 1
