"""Run threads with values that are linear in a trip count, to determine their behavior in every launch of a family.

A *family* of launches has one integer argument n = n_0 + g N, N = m, m + 1, ...; all else is as given.  Every register
holds, for each thread, `A + B t + C u`: t is the number of completed iterations of a loop, u the number of remaining
ones, and t + u = N.  Values of another form are unknown.  Threads that take the same branches run together, as one
`Path`, which splits at a branch that divides them.  Each branch must have one direction for all t >= 0 and u >= m;
otherwise `Unfit` names it.

This module neither interleaves threads nor loads values: the behavior of a thread must not depend on other threads,
which the engines show for each run.  So a blocking wait succeeds immediately, and its token is an opaque value.

Reference: PTX ISA for the operations (`isa`); the form is that of linear induction variables (M.  Wolfe, "Beyond
induction variables", PLDI 1992).  No sum is taken to overflow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from wsemu.model.control_flow import EXIT, JOIN, JUMPS, TRAP
from wsemu.model.data import NamedTuple, dataclass, field
from wsemu.model.effects import effects_of
from wsemu.model.isa import (
    BLOCKS,
    LANES,
    LOCAL,
    NAMES,
    OPERATIONS,
    PEEK,
    ROW,
    SEGMENT_SHIFT,
    SHARED,
    access_shape,
    memory_shape,
)  # fmt: skip
from wsemu.model.matrix import vector_counts
from wsemu.model.program import Program

Number = Any
"""an int, or an array with one number per thread"""


class Value(NamedTuple):
    """`a + b t + c u`, in each thread."""

    a: Number
    b: Number = 0
    c: Number = 0

    @property
    def constant(self) -> bool:
        return _is_zero(self.b) and _is_zero(self.c)


def _is_zero(n: Number) -> bool:
    return n == 0 if type(n) is int else not np.any(n)


class Unknown:
    """A value of any other form; `why` is the reason in a word."""

    def __init__(self, why: str) -> None:
        self.why = why


LOADED, COMPUTED, SHUFFLED = Unknown("loaded data"), Unknown("what is computed"), Unknown("other lanes")
TOKEN = Unknown("a token")
"""token of an arrival: only a wait uses it"""
FAR = "how far the loop is"
"""the reason for a branch without one direction: more iterations at its end may have to be treated separately"""
PARITY, PROMISE = "await parity", "promise"
"""kinds of events: a wait for the phase of a parity; an arrival that follows the completion of the thread's copies"""
State = dict[int, Any]
"""value of each row or predicate: Value or Unknown, and for a predicate a bool, an array of bools, or Unknown"""


class Unfit(Exception):
    """A behavior of threads that is not supported for all trip counts.  `final`: no family of launches is supported."""

    def __init__(self, pc: int, why: str, *, final: bool = False) -> None:
        super().__init__(why)
        self.pc, self.why, self.final = pc, why, final


@dataclass(slots=True)
class Event:
    """An access, or an operation that orders accesses, by the threads of a path."""

    pc: int
    threads: npt.NDArray[np.int64]
    kind: str
    """kind of the event: read, write, atomic; barrier; warp; PARITY, PROMISE, or another event of an mbarrier; or the
    name of another asynchronous operation"""
    address: Value | None = None
    size: int = 0
    operands: tuple[Value, ...] = ()
    """operands with influence on control flow: of a barrier id and count, of an mbarrier arrivals and bytes, of a
    warp-wide operation the members, and the lane that a shuffle reads"""


@dataclass(slots=True)
class Path:
    """Threads that have taken the same branches."""

    pc: int
    threads: npt.NDArray[np.int64]
    """linear indices of the threads in the grid"""
    state: State
    events: list[Event] = field(default_factory=list)
    rounds: int = 0
    """number of times that the path has reached the head of its loop"""
    head: int = -1
    ended: bool = False
    history: list[tuple[npt.NDArray[np.int64], State]] = field(default_factory=list)
    """threads and state at earlier heads of the loop"""

    def part(self, mask: npt.NDArray[np.bool_], pc: int) -> Path:
        """Return the part of its threads that continue at pc."""
        state = {row: _part(value, mask) for row, value in self.state.items()}
        return Path(pc, self.threads[mask], state, [*self.events], self.rounds, self.head, False, [*self.history])


def _part(value: Any, mask: npt.NDArray[np.bool_]) -> Any:
    if isinstance(value, Value):
        return Value(*(n[mask] if isinstance(n, np.ndarray) else n for n in value))
    return value[mask] if isinstance(value, np.ndarray) else value


class Geometry(NamedTuple):
    """Grid, block, and dynamic shared memory in bytes."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    dynamic: int

    @property
    def threads(self) -> int:
        """Return the number of threads of a CTA."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def ctas(self) -> int:
        return self.grid[0] * self.grid[1] * self.grid[2]


class Machine:
    """Runs paths of one launch family."""

    def __init__(self, program: Program, geometry: Geometry, rows: Mapping[int, tuple[str, Any]], steps: int) -> None:
        """`rows` are those of the parameters; `steps` is the maximum number of instructions that all paths execute
        together."""
        self.program, self.geometry, self.rows, self.left = program, geometry, rows, steps
        self.code = program.code.tolist()
        self.margin = 1
        """minimum value of `u` that the run assumes"""

    def start(self, given: Mapping[int, Value]) -> Path:
        """Return a path with all threads at the first instruction; `given` rows have these values."""
        g, program = self.geometry, self.program
        index = np.arange(g.ctas * g.threads, dtype=np.int64)
        cta, thread = index // g.threads, index % g.threads
        state: State = {0: True}
        for row, type_, value in program.constants:
            state[row] = _make_form(type_, value)
        for row, (type_, value) in self.rows.items():
            state[row] = _make_form(type_, value)
        specials: dict[str, Number] = {
            "laneid": thread % LANES, "shared": SHARED << SEGMENT_SHIFT, "dynamic_bytes": g.dynamic,
            "dynamic": (SHARED << SEGMENT_SHIFT) + -(-program.shared_bytes // 16) * 16,
            "local": (LOCAL << SEGMENT_SHIFT) + thread % LANES * program.local_bytes,
        }  # fmt: skip
        for axis in range(3):
            specials[f"tid.{'xyz'[axis]}"] = _coordinate(thread, g.block, axis)
            specials[f"ctaid.{'xyz'[axis]}"] = _coordinate(cta, g.grid, axis)
            specials[f"ntid.{'xyz'[axis]}"], specials[f"nctaid.{'xyz'[axis]}"] = g.block[axis], g.grid[axis]
        for name, row in program.specials.items():
            state[row] = Value(specials[name]) if name in specials else COMPUTED
        return Path(0, index, {**state, **given})

    # -- running ---------------------------------------------------------------------------------------------------
    def run(self, path: Path, heads: frozenset[int], rounds: int) -> list[Path]:
        """Run a path until its threads end, or have reached the head of their loop this many times.  `heads` are
        branches that may be the head.  Return the resulting paths."""
        work, done = [path], []
        while work:
            current = work.pop()
            while not current.ended:
                if current.pc in heads and (current.head in (-1, current.pc)):
                    current.head = current.pc
                    current.rounds += 1
                    if current.rounds > rounds:
                        current.rounds -= 1  # it is counted when it continues
                        break
                other = self._step(current)
                if other is not None:
                    work.append(other)
            done.append(current)
        return done

    def _step(self, path: Path) -> Path | None:
        """Execute one instruction.  Return the path that splits off, if any."""
        self.left -= 1
        if self.left < 0:
            raise Unfit(path.pc, "following it takes too many steps")
        pc, fields = path.pc, self.code[path.pc]
        name = NAMES[fields[0]]
        operation = OPERATIONS[name]
        guard = self._guard(path, fields[1])
        if operation.kind == "control":
            return self._control(path, name, fields, guard)
        path.pc += 1
        if operation.kind == "alu":
            value = self._alu(name, [path.state.get(row, COMPUTED) for row in _operands(fields, operation)], fields)
            self._write(path, fields[2], value, guard)
            return None
        if operation.kind == "fence":
            if guard is not True and not operation.operands:  # one with operands orders nothing
                raise Unfit(pc, "a fence is made under a condition")
            return None
        if isinstance(guard, Unknown):
            raise Unfit(pc, f"whether it is executed depends on {guard.why}")
        threads = path.threads if guard is True else path.threads[guard] if guard is not False else path.threads[:0]
        if len(threads):
            self._effect(path, pc, name, fields, guard, threads)
        return None

    def _guard(self, path: Path, field_: int) -> Any:
        if not field_:
            return True
        value = path.state.get(field_ >> 1, COMPUTED)
        if isinstance(value, Unknown) or not field_ & 1:
            return _whole(value)
        return _whole(~value if isinstance(value, np.ndarray) else not value)

    def _control(self, path: Path, name: str, fields: list[int], guard: Any) -> Path | None:
        op = fields[0]
        if op == TRAP:
            raise Unfit(path.pc, "it is not modelled")
        if isinstance(guard, Unknown):
            raise Unfit(path.pc, f"the branch depends on {guard.why}")
        target = fields[6] if op in JUMPS else -1 if op == EXIT else path.pc + 1
        if guard is False or op == JOIN:
            path.pc += 1
            return None
        if guard is True:
            path.pc, path.ended = target, target < 0
            return None
        other = path.part(guard, target)
        other.ended = target < 0
        rest = path.part(~guard, path.pc + 1)
        path.pc, path.threads, path.state, path.events = rest.pc, rest.threads, rest.state, rest.events
        return other

    def _write(self, path: Path, row: int, value: Any, guard: Any) -> None:
        if guard is True:
            path.state[row] = value
        elif guard is not False:
            old = path.state.get(row, COMPUTED)
            path.state[row] = guard if isinstance(guard, Unknown) else _select(guard, value, old)

    # -- what instructions do besides arithmetic -------------------------------------------------------------------
    def _effect(self, path: Path, pc: int, name: str, fields: list[int], guard: Any, threads: Any) -> None:
        operation = OPERATIONS[name]
        kind = operation.kind

        def operand(n: int, what: str) -> Value:
            value = path.state.get(fields[n], COMPUTED)
            if not isinstance(value, Value):
                raise Unfit(pc, f"{what} depends on {value.why if isinstance(value, Unknown) else 'a predicate'}")
            return value if guard is True else _part(value, guard)

        def event(kind_: str, address: Value | None = None, size: int = 0, *operands: Value) -> None:
            path.events.append(Event(pc, threads, kind_, address, size, operands))

        if kind in ("load", "store", "atomic"):
            size = access_shape(name)[1]
            address = operand(3, "the address")
            event({"load": "read", "store": "write"}.get(kind, kind), address._replace(a=address.a + fields[6]), size)
            if kind != "store":
                count = 1 if kind == "atomic" else memory_shape(name)[2]
                for k in range(count):
                    self._write(path, fields[2] + k * ROW, LOADED, guard)
        elif kind == "barrier":
            threads_of = operand(4, "the count of the barrier") if fields[4] else Value(0)
            event("barrier", None, 0, operand(3, "the barrier"), threads_of)
            if operation.result:
                self._write(path, fields[2], LOADED, guard)
        elif kind == "warp":
            self._warp(path, name, fields, guard, threads, operand, event)
        elif kind == "matrix":
            for k in range(vector_counts(name)[0]):
                self._write(path, fields[2] + k * ROW, COMPUTED, guard)
        elif kind == "async":
            self._asynchronous(path, pc, name, fields, guard, operand, event)

    def _warp(
        self, path: Path, name: str, fields: list[int], guard: Any, threads: Any, operand: Any, event: Any
    ) -> None:
        members = None if name == "activemask" else operand(5, "the member mask")
        source = operand(4, "the lane of a shuffle") if name.startswith("shfl.") else None
        event("warp", None, 0, *(value for value in (members, source) if value is not None))
        result: Any = SHUFFLED
        if name == "elect.sync" and guard is True and members is not None and self._are_together(threads, members):
            warp, lane = self._warps(threads)
            first = np.full(int(warp.max()) + 1, LANES, np.int64)
            np.minimum.at(first, warp, lane)
            result = Value(first[warp])
        elif source is not None and name.startswith("shfl.idx") and guard is True:
            value = path.state.get(fields[3], COMPUTED)
            result = self._from_lane(threads, value, source) if fields[6] == LANES - 1 else SHUFFLED
        if name.startswith(("shfl.", "match.all.")) and fields[7]:
            self._write(path, fields[7], SHUFFLED, guard)
        if OPERATIONS[name].result:
            self._write(path, fields[2], result, guard)

    def _from_lane(self, threads: Any, value: Any, source: Value) -> Any:
        """Return the value of lane `source`, if it is known and the same in all warps."""
        if not isinstance(value, Value) or not value.constant or not source.constant or np.ndim(source.a):
            return SHUFFLED
        warp, lane = self._warps(threads)
        found = np.flatnonzero(lane == source.a)
        where = np.full(int(warp.max()) + 1, -1, np.int64)
        where[warp[found]] = found
        if not (where[warp] >= 0).all():  # it went another way
            return SHUFFLED
        return Value(value.a[where[warp]]) if np.ndim(value.a) else value

    def _are_together(self, threads: Any, members: Value) -> bool:
        """Return whether all lanes that a mask names, in each warp of the path, are on this path."""
        if not _is_one(members):
            return False
        warp, lane = self._warps(threads)
        inside = np.flatnonzero(members.a >> lane & 1)
        counts = np.bincount(warp[inside], minlength=int(warp.max()) + 1)[warp]
        within = self.geometry.threads - (warp % -(-self.geometry.threads // LANES)) * LANES
        named = np.array([sum(members.a >> n & 1 for n in range(most)) for most in range(LANES + 1)])
        return bool((counts == named[np.minimum(within, LANES)]).all())

    def _warps(self, threads: Any) -> tuple[Any, Any]:
        """Return the warp of each thread, in the grid, and its lane."""
        cta, thread = threads // self.geometry.threads, threads % self.geometry.threads
        return cta * -(-self.geometry.threads // LANES) + thread // LANES, thread % LANES

    def _asynchronous(
        self, path: Path, pc: int, name: str, fields: list[int], guard: Any, operand: Any, event: Any
    ) -> None:
        row = effects_of(name)
        moves = row.moves
        if row.waits == "phase":
            token = path.state.get(fields[4], COMPUTED)
            if not fields[7] & (BLOCKS | PEEK):
                raise Unfit(pc, "what it does depends on whether a phase is over")
            operands = () if token is TOKEN else (operand(4, "the phase"),)
            event(PARITY if name.endswith(".parity") else row.event, operand(3, "the mbarrier"), 8, *operands)
            self._write(path, fields[2], bool(fields[7] & BLOCKS), guard)
        elif row.meets == "mbarrier" and not row.group:
            counts = len(OPERATIONS[name].operands) - 1
            steering = (operand(4 + n, "an amount") for n in range(counts))
            event(row.event, operand(3, "the mbarrier"), fields[7], *steering)
            if OPERATIONS[name].result:
                self._write(path, fields[2], TOKEN, guard)
        elif row.meets == "mbarrier" and row.group == "cp.async":
            event(PROMISE, operand(3, "the mbarrier"), fields[7])
        elif name.startswith("cp.async.b"):
            bytes_ = _only(operand(5, "the size of the copy"), pc)
            address = operand(3, "the address")
            event("write", address._replace(a=address.a + fields[6]), int(name[10:]) // 8)
            event("read", operand(4, "the address"), bytes_)
        elif moves.unit == "bytes" and moves.writes and not moves.combines and row.reach == "cta":
            bytes_ = _only(operand(5, "the size of the copy"), pc)
            event("write", operand(3, "the address"), bytes_)
            event("read", operand(4, "the address"), bytes_)
            if moves.credits:
                event("credit", operand(6, "the mbarrier"), 0, Value(bytes_))
        elif (
            row.meets == "registers"
            or (row.group in ("cp.async", "bulk") and not moves.unit)
            or (moves.unit == "bytes" and not moves.writes)
        ):
            event(name)
        else:
            raise Unfit(pc, f"`{name.split('.m64')[0]}` is not followed")

    # -- arithmetic ------------------------------------------------------------------------------------------------
    def _alu(self, name: str, values: list[Any], fields: list[int]) -> Any:
        word, _, rest = name.partition(".")
        type_ = rest.split(".")[-1]
        if any(isinstance(value, Unknown) for value in values):
            if word == "mov" and values[0] is TOKEN:
                return TOKEN
            if word in ("and", "or", "selp"):
                return self._partly(word, rest, values)
            return next((v for v in values if v is LOADED), COMPUTED)
        if rest.startswith("f") or type_.startswith("f") or word == "varying":
            return COMPUTED
        if rest.startswith("pred") or (word == "selp" and rest == "pred"):
            return _logic(word, values)
        if word == "setp":
            return self._compare(rest, *values)
        if word == "selp":
            return _select(values[2], values[0], values[1])
        if word == "index":
            return self._index(type_, *values)
        found = self._number(word, rest, values)
        return COMPUTED if found is None else _fit_form(found, name)

    def _partly(self, word: str, rest: str, values: list[Any]) -> Any:
        """Execute an operation with an unknown operand that may not matter."""
        why = next((v for v in values if v is LOADED), COMPUTED)
        known = [v for v in values if not isinstance(v, Unknown)]
        if rest == "pred" and word in ("and", "or"):
            decides = word == "or"
            return decides if any(_whole(v) is decides for v in known) else why
        if word == "selp" and not isinstance(values[2], Unknown):
            return _select(values[2], values[0], values[1])
        return why

    def _number(self, word: str, rest: str, values: list[Value]) -> Value | None:
        """Return the integers of a value, or None if it has another form."""
        type_ = rest.split(".")[-1]
        unsigned = type_[:1] == "u"
        match word:
            case "mov":
                return values[0]
            case "neg":
                return _scale_form(values[0], -1)
            case "add" | "sub":
                x, y = values
                return _sum(x, y if word == "add" else _scale_form(y, -1))
            case "mul" | "mulwide":
                return self._product(*values, unsigned=unsigned)
            case "mad" | "madwide":
                product = self._product(*values[:2], unsigned=unsigned)
                return None if product is None else _sum(product, values[2])
            case "not":
                return _sum(_scale_form(values[0], -1), Value(-1))
            case "shl" if _is_one(values[1]) and 0 <= values[1].a < 63:
                return self._product(values[0], Value(1 << values[1].a))
            case "shr" if _is_one(values[1]) and 0 <= values[1].a < 63:
                return self._quotient(values[0], 1 << values[1].a, unsigned, True)
            case "div" | "floordiv" if _is_one(values[1]):
                return self._quotient(values[0], values[1].a, unsigned, word == "floordiv")
            case "rem" | "floormod" if _is_one(values[1]):
                return self._remainder(values[0], values[1].a, unsigned, word == "floormod")
            case "and" | "or" | "xor":
                return self._bits(word, *values)
            case "min" | "max":
                return self._extreme(word, unsigned, *values)
            case "cvt" if rest.count(".") == 1:
                return self._convert_value(type_, values[0])
        return None

    def _product(self, x: Value, y: Value, *, unsigned: bool = False) -> Value | None:
        if unsigned and not (self._never_negative(x) and self._never_negative(y)):
            return None
        if y.constant:
            return _scale_form(x, y.a)
        return _scale_form(y, x.a) if x.constant else None

    def _quotient(self, x: Value, by: int, unsigned: bool, floor: bool) -> Value | None:
        if by <= 0 or np.any(x.b % by) or np.any(x.c % by):
            return None
        if (unsigned or not floor) and not self._never_negative(x):
            return None
        return Value(x.a // by, x.b // by, x.c // by)

    def _remainder(self, x: Value, by: int, unsigned: bool, floor: bool) -> Value | None:
        if by <= 0 or np.any(x.b % by) or np.any(x.c % by):
            return None
        return None if (unsigned or not floor) and not self._never_negative(x) else Value(x.a % by)

    def _bits(self, word: str, x: Value, y: Value) -> Value | None:
        if x.constant and y.constant:
            return Value({"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}[word](x.a, y.a))
        if x.constant:
            x, y = y, x
        if word == "and" and _is_one(y) and y.a >= 0 and y.a & y.a + 1 == 0:
            return self._remainder(x, y.a + 1, False, True)
        return None

    def _extreme(self, word: str, unsigned: bool, x: Value, y: Value) -> Value | None:
        if unsigned and not (self._never_negative(x) and self._never_negative(y)):
            return None
        smaller = self._compare("lt.s64", x, y)
        if isinstance(smaller, Unknown):
            return None
        found = _select(smaller, x, y) if word == "min" else _select(smaller, y, x)
        return found if isinstance(found, Value) else None

    def _convert_value(self, from_: str, x: Value) -> Value | None:
        if from_[:1] not in "su":
            return None
        if from_[0] == "u" and not self._never_negative(x):
            return Value(x.a & (1 << int(from_[1:])) - 1) if x.constant else None
        return x

    def _index(self, type_: str, index: Value, extent: Value, stride: Value, base: Value) -> Any:
        """Return the address of an element; running the launch shows that it is inside the array."""
        if not (extent.constant and stride.constant):
            return COMPUTED
        if index.constant:
            if type_[0] == "s":
                wrapped = np.where(np.asarray(index.a) < 0, index.a + extent.a, index.a)
                index = Value(wrapped if wrapped.ndim else wrapped.item())
        elif not self._never_negative(index):
            return COMPUTED
        return _sum(_scale_form(index, stride.a), base)

    def _never_negative(self, x: Value) -> bool:
        return _whole(self._is_nonnegative(x)) is True

    def _is_nonnegative(self, x: Value) -> Any:
        grows = (np.asarray(x.b) >= 0) & (np.asarray(x.c) >= 0)
        return grows & (np.asarray(x.a + x.c * self.margin) >= 0)

    def _below_zero(self, x: Value) -> Any:
        falls = (np.asarray(x.b) <= 0) & (np.asarray(x.c) <= 0)
        return falls & (np.asarray(x.a + x.c * self.margin) < 0)

    def _compare(self, rest: str, x: Value, y: Value) -> Any:
        how, type_ = rest.split(".")
        if type_[0] == "u" and not (self._never_negative(x) and self._never_negative(y)):
            if not (x.constant and y.constant):
                return COMPUTED
            mask = (1 << int(type_[1:])) - 1
            x, y = Value(_to_unsigned(x.a, mask)), Value(_to_unsigned(y.a, mask))
        if how in ("gt", "le"):
            x, y, how = y, x, {"gt": "lt", "le": "ge"}[how]
        difference = _sum(x, _scale_form(y, -1))
        if how in ("eq", "ne"):
            same = (np.asarray(difference.a) == 0) & (np.asarray(difference.b) == 0) & (np.asarray(difference.c) == 0)
            less = _sum(difference, Value(-1))
            other = self._below_zero(difference) | self._is_nonnegative(less)
            yes, no = (same, other) if how == "eq" else (other, same)
        else:
            below, above = self._below_zero(difference), self._is_nonnegative(difference)
            yes, no = (below, above) if how == "lt" else (above, below)
        return _whole(yes) if np.all(yes | no) else Unknown(FAR)


# -- numbers -----------------------------------------------------------------------------------------------------------
def _make_form(type_: str, value: Any) -> Any:
    if type_ == "p":
        return bool(value)
    return Value(_to_signed(int(value), type_)) if type_[0] == "b" else COMPUTED


def _to_signed(value: int, type_: str) -> int:
    bits = int(type_[1:])
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value


def _to_unsigned(value: Number, mask: int) -> Number:
    return np.asarray(value, object) & mask if mask >> 62 else value & mask


def _coordinate(index: Number, extents: Sequence[int], axis: int) -> Number:
    x, y, _ = extents
    return (index % x, index // x % y, index // (x * y))[axis]


def _operands(fields: list[int], operation: Any) -> list[int]:
    rows: list[int] = fields[3 : 3 + len(operation.operands)]
    return rows


def _only(value: Value, pc: int) -> int:
    """Return the constant value that is the same for all threads; raise Unfit if there is none."""
    if not value.constant or len({*np.atleast_1d(value.a).tolist()}) != 1:
        raise Unfit(pc, "the size of the copy differs by thread or iteration")
    return int(np.atleast_1d(value.a)[0])


def _is_one(value: Value) -> bool:
    return value.constant and np.ndim(value.a) == 0


def _sum(x: Value, y: Value) -> Value:
    return Value(x.a + y.a, x.b + y.b, x.c + y.c)


def _scale_form(x: Value, by: Number) -> Value:
    return Value(x.a * by, x.b * by, x.c * by)


MOST_GROWTH = 1 << 16
"""maximum growth per iteration of a 32-bit register: a register that grows faster may soon wrap"""


def _fit_form(value: Value, name: str) -> Any:
    """Return a result of at most 32 bits.  A constant wraps; other forms are assumed not to overflow."""
    type_ = OPERATIONS[name].result
    bits = int(type_[1:])
    half = 1 << bits - 1
    if value.constant:
        return Value((value.a + half) % (2 * half) - half) if bits < 64 or isinstance(value.a, int) else value
    if bits == 64:
        return value
    fits = (np.asarray(value.a) >= -half) & (np.asarray(value.a) < half)
    small = (np.abs(np.asarray(value.b)) <= MOST_GROWTH).all()
    return value if bits == 32 and fits.all() and small else COMPUTED


def _whole(value: Any) -> Any:
    """Return a predicate that is equal for all threads as a bool."""
    if isinstance(value, np.ndarray):
        return True if value.all() else False if not value.any() else value
    return bool(value) if isinstance(value, np.bool_) else value


def _logic(word: str, values: list[Any]) -> Any:
    x, *more = values
    match word:
        case "mov":
            return x
        case "not":
            return _whole(np.logical_not(x))
        case "and":
            return _whole(np.logical_and(x, more[0]))
        case "or":
            return _whole(np.logical_or(x, more[0]))
        case "xor":
            return _whole(np.logical_xor(x, more[0]))
        case "andn":
            return _whole(np.logical_and(x, np.logical_not(more[0])))
    return _whole(np.where(more[1], x, more[0]))


def _select(where: Any, x: Any, y: Any) -> Any:
    """Return x if a known predicate holds, otherwise y."""
    where = _whole(where)
    if where is True:
        return x
    if where is False:
        return y
    if isinstance(x, Unknown) or isinstance(y, Unknown):
        return x if isinstance(x, Unknown) else y
    if isinstance(x, Value) and isinstance(y, Value):
        return Value(*(_merge_numbers(where, a, b) for a, b in zip(x, y, strict=True)))
    return _whole(np.where(where, x, y))


def _merge_numbers(where: Any, x: Number, y: Number) -> Number:
    return x if np.ndim(x) == np.ndim(y) == 0 and x == y else np.where(where, x, y)
