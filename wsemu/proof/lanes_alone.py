"""Find warp-aggregated atomic additions, and replace each of them by one atomic per lane.

Lanes that execute an `activemask` together are a group.  The first lane of the group adds the size of the group to a
counter, and each lane draws a number: the old value of the counter plus the rank of the lane.  Lanes that each add 1,
one after another, draw the same numbers.  In the *program of single lanes*, each lane is a group by itself.  Every
execution of the original program is also an execution of this program, in which lanes wait for each other less often:
docs/how.md, "Lanes that draw together", has the theorem.

Detects: straight-line code after an `activemask` with one branch of the first lane.  If the code selects a part of the
group by `match.any`, the matched value has to determine the address of the atomic.  Instead of its size, the first
lane may add the sum of values of the group (`redux`), and likewise their maximum, minimum or bits, if the result of the
atomic is unused.
Does not detect: combinations by shuffles; groups that are still used after a branch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.model.control_flow import BRA, EXIT, JOIN, JUMP, JUMPS, successors
from wsemu.model.data import replace
from wsemu.model.isa import CONVERGED, LANES, NAMES, OPCODE, OPERATIONS, ROW, SCOPES
from wsemu.model.program import Constant
from wsemu.proof.election import ADDITIONS
from wsemu.proof.liveness import live_rows
from wsemu.proof.taint import VARYING
from wsemu.proof.taint_steps import plain_decoder

if TYPE_CHECKING:
    from collections.abc import Callable

    from wsemu.model.program import Program

_BEFORE = ("alu", "load", "store", "atomic")
ACTIVE = OPCODE["activemask"]
_UNIFORM = ("shared", "dynamic", *(f"{name}.{axis}" for name in ("ctaid", "ntid", "nctaid") for axis in "xyz"))
_WHOLE = 31
"""Clamp and segment mask of a shuffle among all lanes of a warp."""
Meaning = tuple[Any, ...]
"""knowledge of the value in a register row"""
# g is the number of a group.  A group may also be the part of another group that `match.any` selects.  "This lane" is
# the lane that holds the value.  Meanings that refer to a group:
#     ("mask", g)          The mask of its lanes.
#     ("reversed", g)      The mask of its lanes with the bits in reverse order.
#     ("first", g, n)      The number of its first lane, plus n.
#     ("under", g)         The mask of its lanes below this lane.
#     ("size", g, k)       k times the number of its lanes.
#     ("rank", g, k)       k times the number of its lanes below this lane.
#     ("elected", g, yes)  Whether (`yes` true) or not (`yes` false) this lane is its first lane.
#     ("draw", g, k)       The result of the first lane's atomic, which adds k times the size; only in the first lane.
#     ("base", g, k)       The result of the first lane's atomic, in all lanes.
#     ("combined", g, op)  The values of its lanes, combined by `redux` with an operation, such as `max.s32`.
#     ("lost",)            A value that only the first lane has.
# Meanings without a group:
#     ("constant", n)      The number n.
#     ("truth", yes)       A predicate that is true or false in all lanes.
#     ("lane",)            The number of this lane.
#     ("thread",)          tid.x.
#     ("bit",)             The mask of this lane alone.
#     ("below",)           The mask of the lanes below this lane.
#     ("from",)            The mask of this lane and the lanes above it.
#     ("number",)          The number that this lane has drawn.
#     ("value", n)         Any other value, numbered n.
_OF_LANES = frozenset(("constant", "lane", "bit", "below", "from", "thread"))
_OF_GROUPS = frozenset(
    ("mask", "reversed", "first", "under", "size", "rank", "elected", "draw", "base", "combined", "lost")
)


class _OtherwiseError(Exception):
    """A group affects more than the numbers that its lanes draw."""


def make_single(program: Program, *, lanes_by_x: bool) -> Program | None:
    """Return the program of single lanes; None if a group of active lanes affects more than the numbers that it draws.

    `lanes_by_x`: the lane is tid.x modulo 32.
    """
    key = f"single lanes, {lanes_by_x}"
    if key not in program.derived:
        program.derived[key] = _make_single(program, lanes_by_x)
    made: Program | None = program.derived[key]
    return made


def _make_single(program: Program, lanes_by_x: bool) -> Program | None:
    code = program.code.tolist()
    active = [pc for pc, fields in enumerate(code) if fields[0] == ACTIVE and fields[7] != CONVERGED]
    if not active or any(NAMES[fields[0]].startswith("fence.") for fields in code):
        # after a fence, a lane's own atomic would release the earlier writes of this lane; the first lane's does not
        return None
    edits: dict[int, list[int]] = {}
    try:
        for pc in active:
            edits |= _Group(program, lanes_by_x).follow(pc)
    except _OtherwiseError:
        return None
    return _edit(program, edits)


def _edit(program: Program, edits: dict[int, list[int]]) -> Program:
    """Return the program with the edited instructions.  A negative operand row in an edit is a constant (`_name`)."""
    end = -(-program.register_bytes // ROW) * ROW
    code, rows = program.code.tolist(), dict[int, int]()
    lane = program.specials.get("laneid", end)

    def place(row: int) -> int:
        return row if row >= 0 else rows.setdefault(row, end + ROW * (1 + len(rows)))

    for pc, fields in edits.items():
        code[pc] = [*fields[:3], *map(place, fields[3:5]), *fields[5:]]
        if fields[0] == ACTIVE:
            code[pc] = [OPCODE["shl.b32"], 0, fields[2], place(_name(1, "b32")), lane, 0, 0, 0]
    constants = [Constant(row, "b64" if name <= -_WIDE else "b32", -name % _WIDE - 1) for name, row in rows.items()]
    return replace(
        program, code=np.array(code, np.int64), register_bytes=end + ROW * (1 + len(rows)),
        constants=[*program.constants, *constants], specials={**program.specials, "laneid": lane},
    )  # fmt: skip


_WIDE = 1 << 40


def _name(n: int, type_: str) -> int:
    """Return the negative row that stands for a constant."""
    return -1 - n - (_WIDE if type_ == "b64" else 0)


def _move(to: int, row: int, type_: str = "b32") -> list[int]:
    return [OPCODE[f"mov.{type_}"], 0, to, row, 0, 0, 0, 0]


_NOTHING = [OPCODE["nanosleep"], *[0] * 7]


class _Group:
    """The code after one `activemask`."""

    def __init__(self, program: Program, lanes_by_x: bool) -> None:
        self.program, self.code, self.lanes_by_x = program, program.code.tolist(), lanes_by_x
        self.live = live_rows(program)
        self.held: dict[int, Meaning] = {}
        self.sources: list[frozenset[int] | None] = []
        """Value -> the operands of its computation; None if the value is loaded or differs by lane."""
        self.narrow: dict[int, int] = {}
        """Value of 64 bits -> the value of 32 bits that it extends."""
        self.matched: list[int | None] = [None]
        """Group -> the value that its lanes have in common, if they match."""
        self.edits: dict[int, list[int]] = {}
        uniform = [parameter.row for parameter in program.parameters] + [a.row for a in program.constant_arrays]
        for name, row in program.specials.items():
            if name in ("laneid", "tid.x"):
                self.held[row] = ("lane",) if name == "laneid" else ("thread",)
            elif name in _UNIFORM:
                uniform.append(row)
        for row in uniform:
            self.held[row] = self._new(frozenset())
        for row, type_, value in program.constants:
            if type_[0] == "b":
                half = 1 << int(type_[1:]) - 1
                self.held[row] = ("constant", (int(value) + half) % (2 * half) - half)

    def _new(self, sources: frozenset[int] | None) -> Meaning:
        self.sources.append(sources)
        return "value", len(self.sources) - 1

    def follow(self, active: int) -> dict[int, list[int]]:
        """Return the instructions to replace, up to the next point at which control flow joins or leaves."""
        fields = self.code[active]
        if fields[1]:
            raise _OtherwiseError
        start, held = self._find_start(active), self.held
        facts = self._find_facts()
        decoder = plain_decoder(self.program)
        written = {row for pc in facts for step in decoder.steps(pc) for row in step.writes}
        self.held = {row: one for row, one in held.items() if row not in written} | facts.get(start, {})
        for pc in range(start, active):
            if OPERATIONS[NAMES[self.code[pc][0]]].kind in _BEFORE:
                self._step(pc, self.code[pc])
        self.held[fields[2]] = ("mask", 0)
        self.edits[active] = fields
        pc, joins = active + 1, set[int]()
        while pc < len(self.code):
            fields = self.code[pc]
            if self._entries(pc) > (pc in joins):
                break
            if pc in joins and fields[0] == JOIN:
                self.edits[pc] = _NOTHING
                pc += 1
                continue
            if fields[0] == EXIT and self._elects(fields[1] ^ 1) is not None:
                return self._follow_rest(pc, self._elects(fields[1] ^ 1))
            if fields[0] == BRA and self._follow_sides(pc, fields):
                joins.add(fields[5])
                pc = fields[5]
                continue
            kind = OPERATIONS[NAMES[fields[0]]].kind
            if kind in ("control", "barrier", "async", "matrix") or (kind == "warp" and not self._exchange(pc, fields)):
                break
            if kind != "warp":
                self._step(pc, fields)
            pc += 1
        self._check_end(pc)
        return self.edits

    def _find_facts(self) -> dict[int, dict[int, Meaning]]:
        """Return which rows hold numbers and masks of lanes before each instruction, on all paths to it."""
        decoder = plain_decoder(self.program)
        before, pending = {0: dict(self.held)}, [0]
        while pending:
            pc = pending.pop()
            fields = self.code[pc]
            self.held = dict(before[pc])
            if OPERATIONS[NAMES[fields[0]]].kind == "alu":
                self._step(pc, fields)
            else:
                for row in {row for step in decoder.steps(pc) for row in step.writes}:
                    self.held.pop(row, None)
            after = {row: one for row, one in self.held.items() if one[0] in _OF_LANES}
            for target in successors(pc, fields):
                known = before.get(target)
                joined = after if known is None else {row: one for row, one in known.items() if after.get(row) == one}
                if target < len(self.code) and joined != known:
                    before[target] = joined
                    pending.append(target)
        return before

    def _find_start(self, active: int) -> int:
        """Return the first instruction of the straight-line code before an `activemask`."""
        start = active
        while start and not self._entries(start):
            fields = self.code[start - 1]
            kind = OPERATIONS[NAMES[fields[0]]].kind
            if kind not in (*_BEFORE, "control") or (kind == "control" and not fields[1]):
                break
            start -= 1
        return start

    def _entries(self, pc: int) -> int:
        return sum(fields[0] in JUMPS and fields[6] == pc for fields in self.code)

    def _check_end(self, pc: int) -> None:
        """Check that nothing uses a group any more."""
        live = self.live[pc] if pc < len(self.live) else frozenset[int]()
        if any(self.held.get(row, ("",))[0] in _OF_GROUPS for row in live):
            raise _OtherwiseError

    def _elects(self, guard: int) -> int | None:
        """Return the group whose first lane alone passes a guard."""
        held = self.held.get(guard >> 1, ("",)) if guard >> 1 else ("",)
        return held[1] if held[0] == "elected" and held[2] == (not guard & 1) else None

    def _follow_sides(self, pc: int, fields: list[int]) -> bool:
        """Follow both sides of a branch of the first lane; return False if the branch does not select the first lane.

        If the guard holds, control goes to `target`, otherwise to the next instruction.  Both sides meet at `join`.
        """
        join, target = fields[5:7]
        first, other = self._elects(fields[1]), self._elects(fields[1] ^ 1)
        if (first is None and other is None) or not pc < target <= join:
            return False
        last = self.code[target - 1]
        jumps = target < join
        if jumps and (last[0] != JUMP or last[1] or last[6] != join or self._entries(target) > 1):
            raise _OtherwiseError
        on, there = range(pc + 1, target - jumps), range(target, join)
        self.edits[pc] = _NOTHING if first is None else [JUMP, *[0] * 5, target, 0]
        before, drawn = dict(self.held), dict[int, Meaning]()
        for side, group in ((there, first), (on, other)):
            drawn |= self._follow_side(side, group)
            self.held = dict(before)
        self.held |= dict.fromkeys((self.code[at][2] for side in (on, there) for at in side), ("lost",)) | drawn
        return True

    def _follow_rest(self, pc: int, group: int | None) -> dict[int, list[int]]:
        """Follow the code that only the first lane executes, after the others have exited; return the edits."""
        self.edits[pc] = _NOTHING
        ends = (at for at in range(pc + 1, len(self.code)) if self.code[at][0] == EXIT and not self.code[at][1])
        end = next(ends, -1)
        if self._entries(pc + 1) or end < 0:
            raise _OtherwiseError
        self._follow_side(range(pc + 1, end), group)
        return self.edits

    def _follow_side(self, side: range, group: int | None) -> dict[int, Meaning]:
        """Follow arithmetic, and at most one atomic of the first lane of a group.  Return the row with the result of
        the atomic, and the meaning of this row."""
        drawn: list[int] = []
        for n, pc in enumerate(side):
            fields = self.code[pc]
            name = NAMES[fields[0]]
            kind = OPERATIONS[name].kind
            if fields[1] or kind not in ("alu", "atomic") or (n and self._entries(pc)):
                raise _OtherwiseError
            if kind == "alu":
                self._step(pc, fields)
            else:
                drawn.append(fields[2])
                self._draw(pc, name, fields, group)
        if len(drawn) > 1:
            raise _OtherwiseError
        return {row: self.held[row] for row in drawn if self.held[row][0] == "draw"}

    def _draw(self, pc: int, name: str, fields: list[int], group: int | None) -> None:
        """Follow an atomic that the first lane of a group executes."""
        if group is None or fields[7] & SCOPES:
            raise _OtherwiseError
        added, address = self._read_row(fields[4]), self._read_row(fields[3])
        matched = self.matched[group]
        known = frozenset() if matched is None else frozenset({matched})
        alike = address[0] == "constant" or (address[0] == "value" and self._is_function(address[1], known))
        if added[:2] == ("combined", group) and alike:
            self._combine_by_atomic(pc, name, fields, added[2])
            return
        if name not in ADDITIONS or added[:2] != ("size", group) or not added[2] or not alike:
            raise _OtherwiseError
        self.held[fields[2]] = ("draw", group, added[2])
        self.edits[pc] = [fields[0], 0, *fields[2:4], _name(added[2], name[-3:]), *fields[5:]]

    def _combine_by_atomic(self, pc: int, name: str, fields: list[int], what: str) -> None:
        """Follow an atomic that combines a location with the combined values of a group, by the same operation."""
        if name != f"atom.{what}" or fields[2] in self.live[pc + 1]:
            raise _OtherwiseError
        self.held[fields[2]] = ("lost",)
        self.edits[pc] = [fields[0], 0, *fields[2:]]

    def _is_function(self, value: int, known: frozenset[int]) -> bool:
        """Return whether a value is a function of known values: lanes that agree on these agree on it."""
        sources = self.sources[value]
        if value in known:
            return True
        return sources is not None and all(self._is_function(one, known) for one in sources)

    def _read_row(self, row: int) -> Meaning:
        if row not in self.held:
            self.held[row] = self._new(None)
        return self.held[row]

    # -- operations of several lanes ----------------------------------------------------------------------------------
    def _exchange(self, pc: int, fields: list[int]) -> bool:
        """Follow an operation in which the lanes of a group take part; return False for any other instruction."""
        name = NAMES[fields[0]]
        if name == "activemask" and not fields[1]:  # after a branch, lanes may have split into several groups
            return False
        members = self._read_row(fields[5])
        if members[0] != "mask" or fields[1]:
            return False
        unused = fields[2] not in self.live[pc + 1]
        if name == "syncwarp" or (unused and name.startswith("vote.")):
            self.edits[pc] = _NOTHING
            return True
        if fields[7] and fields[7] in self.live[pc + 1]:
            raise _OtherwiseError
        value = self._read_row(fields[3])
        if name.startswith("match.any.") and members[1] == 0 and value[0] == "value":
            self.matched.append(value[1])
            self.held[fields[2]] = ("mask", len(self.matched) - 1)
            self.edits[pc] = _move(fields[2], fields[5])
            return True
        if name.startswith("redux.") and value[0] not in _OF_GROUPS:
            self.held[fields[2]] = ("combined", members[1], name.removeprefix("redux."))
            self.edits[pc] = _move(fields[2], fields[3])
            return True
        if name.startswith("shfl.idx.") and value[0] == "draw" and fields[6] == _WHOLE:
            group, times = value[1:]
            if members[1] not in (0, group) or self._read_row(fields[4]) != ("first", group, 0):
                raise _OtherwiseError
            self.held[fields[2]] = ("base", group, times)
            self.edits[pc] = _move(fields[2], fields[3], name[-3:])
            return True
        raise _OtherwiseError

    # -- operations of one lane ---------------------------------------------------------------------------------------
    def _step(self, pc: int, fields: list[int]) -> None:
        """Follow an instruction that each lane executes for itself."""
        name = NAMES[fields[0]]
        operation = OPERATIONS[name]
        group = self._elects(fields[1])
        if operation.kind == "atomic" and group is not None:
            self._draw(pc, name, fields, group)
            return
        rows = [row for row, type_ in zip(fields[3:7], operation.operands, strict=False) if type_]
        if operation.kind == "store":
            rows += [fields[2] + k * ROW for k in range(_elements(name))]
        meanings = [self._read_row(row) for row in rows]
        if fields[1]:
            meanings += [self._read_row(fields[1] >> 1), self._read_row(fields[2])]
        made = None
        if operation.kind == "alu" and not fields[1]:
            made = self._combine(name, meanings)
        if made is None:
            if any(one[0] in _OF_GROUPS for one in meanings):
                raise _OtherwiseError
            computed = operation.kind == "alu" and not fields[1] and name not in VARYING
            made = self._new(self._find_sources(meanings) if computed else None)
        if operation.kind == "store" or not operation.result:
            return
        if made[0] in ("size", "rank"):
            n = made[2] if made[0] == "size" else 0
            self.edits[pc] = _move(fields[2], _name(n, operation.result), operation.result)
        elif made[0] == "elected":
            self.edits[pc] = [OPCODE["mov.pred" if made[2] else "not.pred"], 0, fields[2], 0, 0, 0, 0, 0]
        for k in range(_elements(name) if operation.kind == "load" else 1):
            self.held[fields[2] + k * ROW] = made if k == 0 else self._new(None)

    def _find_sources(self, meanings: list[Meaning]) -> frozenset[int] | None:
        """Return the values that determine a result; None if it also depends on something else of the lane."""
        found = set[int]()
        for one in meanings:
            if one[0] == "value":
                found.add(one[1])
            elif one[0] != "constant":
                return None
        return frozenset(found)

    def _combine(self, name: str, x: list[Meaning]) -> Meaning | None:
        """Return the meaning of an arithmetic result; None if no rule gives it one."""
        what, type_ = name.split(".")[0], OPERATIONS[name].operands[0]
        if type_[0] == "f":
            return None
        if what == "mov" and name != "mov.pred":
            return x[0]
        if what == "cvt":
            return self._convert(name, x[0])
        if len(x) == 1:
            return _look_at_mask(what, x[0]) if type_ == "b32" or x[0][0] in _OF_GROUPS else None
        if what in _RULES:
            return _RULES[what](name, *x) or (_RULES[what](name, *x[::-1]) if what in _COMMUTE else None)
        if name == "and.b32" and self.lanes_by_x and {x[0], x[1]} == {("thread",), ("constant", 31)}:
            return ("lane",)
        if what == "and" and (type_ == "b32" or not {x[0][0], x[1][0]}.isdisjoint(_OF_GROUPS)):
            return _intersect(*x) or _intersect(*x[::-1])
        return None

    def _convert(self, name: str, a: Meaning) -> Meaning | None:
        _, *types = name.split(".")
        if len(types) != 2 or types[0] not in ("b32", "b64"):
            return None
        to, source = types
        wide = to == "b64" and source[1:] == "32"
        if a[0] == "value" and wide:
            made = self._new(frozenset({a[1]}))
            self.narrow[made[1]] = a[1]
            return made
        if a[0] == "value" and to == "b32" and a[1] in self.narrow:
            return "value", self.narrow[a[1]]
        if a[0] in ("mask", "below"):
            return a if wide and source[0] == "u" else None
        if a[0] in ("first", "lane", "constant"):
            return a if a[-1] == "lane" or 0 <= a[-1] < LANES else None
        return a if a[0] in ("size", "rank") and to in ("b32", "b64") and source[1:] in ("32", "64") else None


def _elements(name: str) -> int:
    vector = name.split(".")[1]
    return int(vector[1:]) if vector[0] == "v" else 1


_MOST_FACTOR = 1 << 16
"""maximum amount that one lane may draw at once"""


def _multiply(a: Meaning, b: Meaning) -> Meaning | None:
    if a[0] not in ("size", "rank") or b[0] != "constant" or not 0 < a[2] * b[1] < _MOST_FACTOR:
        return None
    return a[0], a[1], a[2] * b[1]


def _add(a: Meaning, b: Meaning) -> Meaning | None:
    if a[0] == "first" and b[0] == "constant":
        return ("first", a[1], a[2] + b[1]) if abs(b[1]) < LANES else None
    if a[0] == "base" and b[0] == "rank" and a[1:] == b[1:]:
        return ("number",)
    return ("below",) if a == ("bit",) and b == ("constant", -1) else None


def _add_product(name: str, a: Meaning, b: Meaning, c: Meaning) -> Meaning | None:
    product = _multiply(a, b) or _multiply(b, a)
    return None if product is None else _add(c, product) or _add(product, c)


def _intersect(a: Meaning, b: Meaning) -> Meaning | None:
    if b == ("constant", 0):
        return b
    if b == ("constant", -1) or (b == ("constant", LANES - 1) and a[0] == "first" and a[2] == 0):
        return a
    if a[0] == b[0] == "constant":
        return "constant", a[1] & b[1]
    return ("under", a[1]) if a[0] == "mask" and b == ("below",) else None


def _look_at_mask(what: str, a: Meaning) -> Meaning | None:
    if what == "not" and a[0] == "elected":
        return "elected", a[1], not a[2]
    if what == "not" and a[0] == "constant":
        return "constant", ~a[1]
    made: dict[tuple[str, str], Meaning] = {
        ("mask", "ffs"): ("first", *a[1:], 1), ("mask", "brev"): ("reversed", *a[1:]),
        ("mask", "popc"): ("size", *a[1:], 1), ("reversed", "clz"): ("first", *a[1:], 0),
        ("under", "popc"): ("rank", *a[1:], 1), ("from", "not"): ("below",),
    }  # fmt: skip
    return made.get((a[0], what))


def _compare(name: str, a: Meaning, b: Meaning) -> Meaning | None:
    relation = name.split(".")[1]
    if relation in ("eq", "ne") and (a[0] in ("lane", "constant")):
        a, b = b, a
    zero, equal = b == ("constant", 0), relation == "eq"
    if relation == "le" and a[0] == "first" and a[2] == 0 and b == ("constant", LANES - 1):
        return "truth", True
    if relation not in ("eq", "ne"):
        return None
    if zero and a[0] in ("mask", "reversed"):
        return "truth", not equal  # never zero: each lane belongs to its own group
    if (zero and (a[0] == "under" or (a[0] == "rank" and a[2]))) or (a[0] == "first" and a[2] == 0 and b == ("lane",)):
        return "elected", a[1], equal
    return None


def _shift(name: str, a: Meaning, b: Meaning) -> Meaning | None:
    if b == ("lane",) and name == "shl.b32" and a[0] == "constant":
        return {1: ("bit",), -1: ("from",)}.get(a[1])
    return _multiply(a, ("constant", 1 << b[1])) if b[0] == "constant" and 0 <= b[1] < LANES - 1 else None


def _take_bits(name: str, *x: Meaning) -> Meaning | None:
    if any(one[0] != "constant" for one in x):
        return None
    value, start, size = (one[1] for one in x)
    return ("constant", value >> start & (1 << size) - 1) if value >= 0 <= start and 0 <= size < LANES else None


def _unite(name: str, a: Meaning, b: Meaning) -> Meaning | None:
    if b == ("constant", 0):
        return a
    return ("constant", a[1] | b[1]) if a[0] == b[0] == "constant" else None


_RULES: dict[str, Callable[..., Meaning | None]] = {
    "setp": _compare,
    "andn": lambda name, a, b: ("under", a[1]) if a[0] == "mask" and b == ("from",) else None,
    "or": _unite,
    "shl": _shift,
    "mul": lambda name, a, b: _multiply(a, b),
    "mulwide": lambda name, a, b: _multiply(a, b),
    "add": lambda name, a, b: _add(a, b),
    "sub": lambda name, a, b: _add(a, ("constant", -b[1])) if b[0] == "constant" else None,
    "mad": _add_product,
    "bfe": _take_bits,
    "selp": lambda name, a, b, by: (a if by[1] else b) if by[0] == "truth" else None,
}
_COMMUTE = frozenset(("or", "mul", "mulwide", "add"))
