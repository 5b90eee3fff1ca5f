"""Hot stretches of one program as LLVM code: the operations of the VM one after the other, without its loop.

A block runs warps all of whose lanes are there.  Registers stay where the VM has them.  Of a row whose lanes lie in a
known way (`shapes`) its first lane alone is kept up to date; the others are written where control leaves the block.  It
leaves for the VM, before an instruction, wherever it does not know better: where lanes part, where they meet others,
at the end of a warp's turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir

from wsemu.machine.arithmetic.codegen import (
    ELEMENT,
    I1,
    I32,
    I64,
    MASK,
    Builder,
    Value,
    all_zero,
    halves,
    numbers,
    pointer,
    resize,
    splat,
)
from wsemu.machine.arithmetic.families import family_of
from wsemu.machine.arithmetic.floating import NUMBERS
from wsemu.machine.arithmetic.operations import BODIES, PER_LANE
from wsemu.machine.lowering import Compiled, Module, Record, compiled
from wsemu.machine.memory.lane_access import (
    SAME,
    SCATTERED,
    UNIT,
    load_pieces,
    load_side_by_side,
    pieces_of,
    store_pieces,
    store_side_by_side,
    transfer,
)
from wsemu.machine.records import call, flow_at, machine_at, warp_at
from wsemu.machine.scheduler import PAUSE
from wsemu.machine.state import BUDGET, DONE, LOADED, STORED, YIELDED
from wsemu.machine.tier.accesses import HOW, KIND, KNOWN, all_at_one, any_way, noted_lanes, noted_range, side_by_side
from wsemu.machine.tier.shapes import APART, CREDIT, arithmetic, line, same_steps
from wsemu.model.control_flow import changes_flow
from wsemu.model.isa import (
    FIRST_STORE,
    LANES,
    N_ALU,
    N_MEMORY,
    NAMES,
    NON_COHERENT,
    OPCODE,
    OPERATIONS,
    READ,
    ROW,
    SIZE,
    WRITE,
    memory_shape,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from wsemu.machine.tier.shapes import Rows, Shape, State, Steps

BRA, JUMP, JOIN = OPCODE["bra"], OPCODE["jump"], OPCODE["join"]
REFUSED = 8
"""what a stretch loses of its CREDIT where control comes to it with rows that lie otherwise; each other time adds one,
and without any it is left to the VM for the next PAUSE times"""
UNUSED = 0xFFFF
"""in `aux` of a load: the bytes of each lane that it loads for nothing"""
MOST_PIECES = 8
"""of an access whose lanes lie by known steps, that a block has where it is; more are moved by a function apart"""
_INTEGER = {1: I1, 8: ir.IntType(8), 16: ir.IntType(16), 32: I32, 64: I64}


@compiled
def come_to(m, pc):
    """Control has come to pc: 0 to go on, or why the warp stops."""
    flow = flow_at(m.flow, pc)
    flow.count += 1
    flow.lanes += LANES
    m.budget -= flow.length
    m.turn -= flow.length
    if m.turn < 0:
        return np.int64(YIELDED)
    if m.budget < 0:
        return np.int64(BUDGET)
    return np.int64(DONE)


def covers(op: int) -> bool:
    """Whether a block has an operation."""
    return op < N_MEMORY or op in (BRA, JUMP, JOIN)


def leaders(rows: Rows, starts: Iterable[int]) -> list[int]:
    """Where a block may be entered: where the flow of control leads, of `starts`, and behind what it leaves for."""
    found = set()
    for start in starts:
        for pc in range(start, len(rows.code)):
            op = rows.code[pc][0]
            if covers(op) and (pc == start or not covers(rows.code[pc - 1][0])):
                found.add(pc)
            if changes_flow(op):
                break
    return sorted(found)


def _no_nan(b: Builder, v: Value) -> Value:
    """Whether all of 32 floats of 64 bits are numbers: a comparison tells of two at once."""
    low, high = (b.shuffle_vector(v, v, half) for half in halves(LANES // 2))
    return all_zero(b, b.sext(b.fcmp_unordered("uno", low, high), ir.VectorType(I64, LANES // 2)))


class _Kept:
    """Values of rows, as long as they are those of the row."""

    def __init__(self) -> None:
        self.scalars: dict[int, Value] = {}
        self.lanes: dict[int, Value] = {}
        """of predicates that differ by lane"""

    def forget(self, row: int) -> None:
        self.scalars.pop(row, None)
        self.lanes.pop(row, None)


class Block:
    """The function `symbol(address, w)`: a warp from warp.pc on; a status, DONE to go on in the VM at warp.pc."""

    def __init__(
        self, module: Module, rows: Rows, starts: Sequence[int], symbol: str, *, restless: bool = False
    ) -> None:
        """Of the stretches that begin at `starts`; `restless`: it leaves at random instructions, for tests."""
        self.module, self.rows, self.starts, self.restless = module, rows, starts, restless
        self.made = ir.Function(module.ir, ir.FunctionType(I64, [I64, I64]), symbol)
        self.made.attributes.add("nounwind")
        self.address, self.w = self.made.args
        self.b: Builder = ir.IRBuilder(self.made.append_basic_block("entry"))
        self.covered = self._covered()
        self.shaped_writes = frozenset(
            row for pc in self.covered for row, _ in rows.uses[pc].writes if self._state_after(pc).get(row)
        )
        self.read = frozenset(row for pc in self.covered for row, _ in rows.uses[pc].reads)
        self.helpers: dict[tuple[Any, ...], Any] = {}
        self.numbers: dict[Steps, int] = {}
        self.m = machine_at.body(self.b, self.address, I64(0))
        self.warp = warp_at.body(self.b, self._field(self.m, "warps"), self.w)
        self.registers = self._field(self.warp, "registers")
        self.at = {start: self.made.append_basic_block(f"at{start}") for start in starts}
        self.leaves: dict[Any, Any] = {}
        self._enter()
        for start in starts:
            self._stretch(start)

    # -- records

    def _place(self, record: Record, name: str) -> Value:
        assert record.dtype.fields is not None
        offset = record.dtype.fields[name][1]
        place = self.b.gep(record.place, [I64(offset)], inbounds=True)
        return self.b.bitcast(place, I64.as_pointer())

    def _field(self, record: Record, name: str) -> Value:
        return self.b.load(self._place(record, name))

    def _call(self, function: Compiled, *arguments: Any) -> Value:
        """Call a compiled function, of numbers and records."""
        kinds = tuple(one.dtype if isinstance(one, Record) else None for one in arguments)
        plain = [one.place if isinstance(one, Record) else one for one in arguments]
        return self.b.call(self.module.function(function, kinds), plain)

    def _helper(self, key: tuple[Any, ...], count: int, body: Callable[[Builder, Any], Value | None]) -> Any:
        """A function of i64 numbers that stays apart."""
        if key not in self.helpers:
            made = ir.Function(self.module.ir, ir.FunctionType(I64, [I64] * count), ".".join(map(str, key)))
            made.linkage = "internal"
            made.attributes.add("noinline")
            made.attributes.add("nounwind")
            b = ir.IRBuilder(made.append_basic_block("entry"))
            result = body(b, made.args)
            b.ret(I64(0) if result is None else result)
            self.helpers[key] = made
        return self.helpers[key]

    def _apart(self, function: Compiled, constants: tuple[int, ...], *arguments: Value) -> Value:
        """Call a compiled function of these numbers and, last, constants, for which it is made."""

        def body(b: Builder, given: Any) -> Value:
            inner = self.module.function(function, (None,) * (len(given) + len(constants)))
            inner.attributes.add("alwaysinline")
            return b.call(inner, [*given, *(I64(n) for n in constants)])

        key = (function.function.__name__, "of", *constants)
        return self.b.call(self._helper(key, len(arguments), body), arguments)

    # -- what is covered

    def _covered(self) -> list[int]:
        pcs, code = [], self.rows.code
        for start in self.starts:
            for pc in range(start, len(code)):
                if not covers(code[pc][0]) or (pc != start and pc in self.starts):
                    break
                pcs.append(pc)
                if code[pc][0] >= N_MEMORY:
                    break
        return pcs

    def _state_after(self, pc: int) -> State:
        state = self.rows.before[pc]
        return {} if state is None else self.rows.after(pc, state)

    # -- ways in and out

    def _enter(self) -> None:
        """Go to the stretch at warp.pc, if the rows lie as the code there takes them to."""
        b = self.b
        back = self.made.append_basic_block("back")
        known_at = self._field(self.warp, "known_at")
        b.store(I64(0), self._place(self.warp, "known_at"))
        choice = b.switch(self._field(self.warp, "pc"), back)
        for start in self.starts:
            entered = self.made.append_basic_block(f"enter{start}")
            choice.add_case(I64(start), entered)
            b.position_at_end(entered)
            looked_at, fine, refused = (self.made.append_basic_block(name) for name in ("look", "fine", "refused"))
            behind_a_barrier = b.icmp_unsigned("==", known_at, I64(start)) if start else I1(0)
            b.cbranch(behind_a_barrier, self.at[start], looked_at)
            b.position_at_end(looked_at)
            place = pointer(b, b.add(self._field(self.m, "blocks"), I64(8 * start)), I64)
            b.cbranch(self._lie_so(start), fine, refused)
            b.position_at_end(fine)
            credit = b.add(b.load(place), I64(1))
            b.store(b.select(b.icmp_signed(">", credit, I64(CREDIT)), I64(CREDIT), credit), place)
            b.branch(self.at[start])
            b.position_at_end(refused)
            credit = b.sub(b.load(place), I64(REFUSED))
            b.store(b.select(b.icmp_signed(">", credit, I64(0)), credit, I64(-PAUSE)), place)
            b.branch(back)
        b.position_at_end(back)
        b.ret(I64(DONE))

    def _lie_so(self, start: int) -> Value:
        """Whether the rows that matter from a stretch on have the shapes that it takes them to have."""
        b, state, live = self.b, self.rows.before[start] or {}, self.rows.live[start]
        found: dict[Any, Value] = {}
        for row in sorted(live & (self.read | self.shaped_writes)):
            shape = self._shape(state, row)
            if shape is None or row in self.rows.given:
                continue
            place = b.add(self.registers, I64(row))
            if shape.bits == 1:
                word = b.load(pointer(b, place, I32))
                value = b.xor(word, b.ashr(word, I32(31)))
            else:
                t = ir.VectorType(_INTEGER[shape.bits], LANES)
                v = b.load(pointer(b, place, t), align=64)
                first = b.extract_element(v, I32(0))
                value = b.xor(b.sub(v, splat(b, first)), numbers(t.element, shape.steps))
                if shape.twos:
                    rest = b.and_(first, t.element((1 << min(shape.twos, shape.bits)) - 1))
                    found[t.element] = b.or_(found[t.element], rest) if t.element in found else rest
            found[value.type] = b.or_(found[value.type], value) if value.type in found else value
        result = I1(1)
        for value in found.values():
            vector = isinstance(value.type, ir.VectorType)
            result = b.and_(result, all_zero(b, value) if vector else b.icmp_unsigned("==", value, value.type(0)))
        return result

    def _leave(self, pc: int, state: State) -> tuple[Any, Any]:
        """(block, its phi of statuses): where the warp goes on at pc in the VM, or later."""
        live = self.rows.live[pc]
        rows = tuple(
            (row, shape.bits, shape.steps)
            for row, shape in sorted(state.items())
            if shape and row in live and row in self.shaped_writes
        )
        if (pc, rows) not in self.leaves:
            block = self.made.append_basic_block(f"leave{pc}")
            here, self.b = self.b, ir.IRBuilder(block)
            status = self.b.phi(I64)
            for row, bits, steps in rows:
                self._write_out(row, bits, steps)
            self.b.store(I64(pc), self._place(self.warp, "pc"))
            op, guard = self.rows.code[pc][:2]
            if OPERATIONS[NAMES[op]].kind == "barrier" and not guard:  # past a guarded one the VM may go by itself
                self.b.store(I64(pc + 1), self._place(self.warp, "known_at"))
            self.b.ret(status)
            self.b = here
            self.leaves[pc, rows] = block, status
        block, status = self.leaves[pc, rows]
        return block, status

    def _leave_for(self, pc: int, state: State, status: Value) -> None:
        block, phi = self._leave(pc, state)
        phi.add_incoming(status, self.b.block)
        self.b.branch(block)

    def _unless(self, fine: Value, pc: int, state: State) -> None:
        """Leave before pc where something is not as usual."""
        block, phi = self._leave(pc, state)
        onward = self.made.append_basic_block("fine")
        phi.add_incoming(I64(DONE), self.b.block)
        self._usual(self.b.cbranch(fine, onward, block))
        self.b.position_at_end(onward)

    def _usual(self, branch: Any) -> None:
        branch.set_weights([1 << 20, 1])

    def _come_to(self, target: int, state: State) -> None:
        """Control goes to another stretch."""
        b = self.b
        status = self._call(come_to, self.m, I64(target))
        stops, onward = (self.made.append_basic_block(name) for name in ("stops", "onward"))
        self._usual(b.cbranch(b.icmp_unsigned("==", status, I64(DONE)), onward, stops))
        b.position_at_end(stops)
        self._leave_for(target, state, status)
        b.position_at_end(onward)
        self._go(target, state)

    def _go(self, target: int, state: State) -> None:
        """Go on at another stretch, which was counted."""
        if target not in self.at:
            self._leave_for(target, state, I64(DONE))
            return
        there = self.rows.before[target] or {}
        live = self.rows.live[target]
        for row, shape in sorted(state.items()):
            if shape and row in live and row in self.shaped_writes and not same_steps(shape, there.get(row)):
                self._write_out(row, shape.bits, shape.steps)
        self.b.branch(self.at[target])

    def _write_out(self, row: int, bits: int, steps: Steps) -> None:
        """Of a row whose first lane is up to date write the others."""
        if bits == 1:
            return

        def body(b: Builder, given: Any) -> None:
            t = _INTEGER[bits]
            first = b.load(pointer(b, given[0], t))
            vector = ir.VectorType(t, LANES)
            b.store(b.add(splat(b, first), numbers(t, steps)), pointer(b, given[0], vector), align=64)

        helper = self._helper(("write_out", bits, self._number_of(steps)), 1, body)
        self.b.call(helper, [self.b.add(self.registers, I64(row))])

    def _number_of(self, steps: Steps) -> int:
        """What such steps are called here."""
        return self.numbers.setdefault(steps, len(self.numbers))

    # -- rows

    def _shape(self, state: State, row: int) -> Shape | None:
        return self.rows.first[row] if row in self.rows.given else state.get(row)

    def _scalar(self, row: int, type_: str) -> Value:
        """The first lane's value of a row that has a shape."""
        b, t = self.b, I1 if type_ == "p" else ELEMENT[type_]
        if row in self.rows.constants and type_[0] == "b":
            return ir.Constant(t, self.rows.constants[row] & ((1 << t.width) - 1))
        if row not in self.kept.scalars:
            place = b.add(self.registers, I64(row))
            if type_ == "p":
                value = b.icmp_unsigned("!=", b.load(pointer(b, place, I32)), I32(0))
            else:
                value = b.load(pointer(b, place, t))
            self.kept.scalars[row] = value
        return self._as(self.kept.scalars[row], t)

    def _as(self, value: Value, t: Any) -> Value:
        return value if value.type == t else self.b.bitcast(value, t)

    def _vector(self, state: State, row: int, type_: str) -> Value:
        """All lanes of a row."""
        b = self.b
        t = MASK if type_ == "p" else ir.VectorType(ELEMENT[type_], LANES)
        shape = self.rows.shape(state, row, type_)
        if shape is not None:
            scalar = self._scalar(row, type_)
            if shape.alike:
                return splat(b, scalar)
            whole = splat(b, self._as(scalar, _INTEGER[shape.bits]))
            return self._as(b.add(whole, numbers(whole.type.element, shape.steps)), t)
        place = b.add(self.registers, I64(row))
        if type_ != "p":
            return b.load(pointer(b, place, t), align=64)
        if row not in self.kept.lanes:
            self.kept.lanes[row] = b.load(pointer(b, place, I32))
        return b.bitcast(self.kept.lanes[row], MASK)

    def _put_scalar(self, row: int, type_: str, value: Value) -> None:
        b = self.b
        self.kept.forget(row)
        self.kept.scalars[row] = value
        place = b.add(self.registers, I64(row))
        stored = b.sext(value, I32) if type_ == "p" else value
        b.store(stored, pointer(b, place, stored.type))

    def _put_vector(self, row: int, type_: str, value: Value) -> None:
        b = self.b
        self.kept.forget(row)
        place = b.add(self.registers, I64(row))
        if type_ == "p":
            self.kept.lanes[row] = b.bitcast(value, I32)
            b.store(self.kept.lanes[row], pointer(b, place, I32))
        else:
            b.store(value, pointer(b, place, value.type), align=64)

    def _fill_row(self, state: State, row: int) -> None:
        """Have all lanes of a row in their place."""
        shape = state.get(row)
        if shape and row not in self.rows.given:
            self._write_out(row, shape.bits, shape.steps)

    # -- instructions

    def _stretch(self, start: int) -> None:
        """The code from a start up to where control goes elsewhere."""
        rows = self.rows
        self.b.position_at_end(self.at[start])
        self.kept = _Kept()
        state: State = rows.before[start] or {}
        pc = start
        while True:
            op = rows.code[pc][0]
            if not covers(op):
                self._leave_for(pc, state, I64(DONE))
                return
            if op >= N_MEMORY:
                self._control(pc, state)
                return
            if self.restless:
                self._leave_at_random(pc, state)
            (self._arithmetic if op < N_ALU else self._memory)(pc, state)
            state = rows.after(pc, state)
            pc += 1
            if pc in self.at or pc == len(rows.code):
                self._go(pc, state)
                return

    def _leave_at_random(self, pc: int, state: State) -> None:
        """One time in eight."""
        b, place = self.b, self._place(self.m, "restless")
        number = b.add(b.mul(b.load(place), I64(6364136223846793005)), I64(1442695040888963407))
        b.store(number, place)
        self._unless(b.icmp_unsigned("!=", b.lshr(number, I64(61)), I64(0)), pc, state)

    def _condition(self, pc: int, state: State) -> Value | None:
        """The lanes of an instruction: None for all, an i1 for all or none, or 32 of these."""
        guard = self.rows.code[pc][1]
        if not guard:
            return None
        shape = self.rows.shape(state, guard >> 1, "p")
        value = self._scalar(guard >> 1, "p") if shape else self._vector(state, guard >> 1, "p")
        return self.b.not_(value) if guard & 1 else value

    def _control(self, pc: int, state: State) -> None:
        b, row = self.b, self.rows.code[pc]
        op, target = row[0], row[6]
        if op == JOIN:
            self._unless(b.icmp_unsigned("==", self._field(self.warp, "depth"), I64(0)), pc, state)
            self._come_to(pc + 1, state)
            return
        condition = self._condition(pc, state)
        if op == JUMP or condition is None:
            self._come_to(target, state)
            return
        if isinstance(condition.type, ir.VectorType):
            lanes = b.bitcast(condition, I32)
            all_, none = (b.icmp_unsigned("==", lanes, I32(n)) for n in (-1, 0))
            self._unless(b.or_(all_, none), pc, state)
            condition = all_
        taken, passed = (self.made.append_basic_block(name) for name in ("taken", "passed"))
        b.cbranch(condition, taken, passed)
        for block, place in ((taken, target), (passed, pc + 1)):
            b.position_at_end(block)
            self._come_to(place, state)

    def _arithmetic(self, pc: int, state: State) -> None:
        b, row, rows = self.b, self.rows.code[pc], self.rows
        name = NAMES[row[0]]
        operation = OPERATIONS[name]
        operands = [(row[3 + k], t) for k, t in enumerate(operation.operands)]
        shapes = tuple(rows.shape(state, at, t) for at, t in operands)
        shape = arithmetic(name, shapes, tuple(rows.constants.get(at) for at, _ in operands))
        condition = self._condition(pc, state)
        d, t = row[2], operation.result
        if shape and pc not in rows.outside:
            scalars = [self._scalar(at, kind) for at, kind in operands]
            value = self._of_first_lanes(name, scalars, shapes, pc, state)
            if condition is None:
                self._put_scalar(d, t, value)
                return
            after = rows.after(pc, state).get(d)
            if after:
                self._put_scalar(d, t, b.select(condition, value, self._scalar(d, t)))
                return
            value = splat(b, value)
            if not shape.alike:
                value = b.add(value, numbers(value.type.element, shape.steps))
        elif name in PER_LANE or family_of(name) in APART:
            self._by_address(pc, state, operands, condition)
            return
        else:
            vectors = [self._vector(state, at, kind) for at, kind in operands]
            value = self._of_all(name, vectors, pc, state)
        if condition is not None:
            old = self._vector(state, d, t)
            value = b.select(condition, value, self._as(old, value.type))
        self._put_vector(d, t, value)

    def _of_all(self, name: str, vectors: list[Value], pc: int, state: State) -> Value:
        """What an operation gives in all lanes."""
        b, body = self.b, BODIES[name]
        if name.startswith("index.") and pc not in self.rows.outside:
            return self._address(vectors, name, pc, state)
        if OPERATIONS[name].result != "f64" or body not in NUMBERS:
            return body(b, *vectors)
        value = NUMBERS[body](b, *vectors)
        self._unless(_no_nan(b, value), pc, state)
        return value

    def _of_first_lanes(
        self, name: str, scalars: list[Value], shapes: tuple[Shape | None, ...], pc: int, state: State
    ) -> Value:
        """What an operation on rows with shapes gives in the first lane, if the others follow."""
        b = self.b
        shape = shapes[0]
        if name.startswith("index."):
            return self._address(scalars, name, pc, state, _ends(shape))
        if name.startswith("cvt.b64.") and shape and shape.bits == 32 and not shape.low_bits_alone:
            signed = name[8] == "s"
            first = resize(b, scalars[0], I64, signed)
            for step in _ends(shape):
                other = b.add(first, I64(step))
                again = resize(b, b.trunc(other, I32), I64, signed)
                self._unless(b.icmp_unsigned("==", other, again), pc, state)
        return BODIES[name](b, *scalars)

    def _address(self, values: list[Value], name: str, pc: int, state: State, ends: Sequence[int] = ()) -> Value:
        """An address whose index lies inside in each lane; of all lanes, or of the first one, from which the others are
        as far as `ends` at most."""
        b = self.b
        index, extent, step, base = values
        signed = name[6] == "s"
        index = resize(b, index, I64, signed)
        outside = b.icmp_unsigned(">=", index, extent)
        if isinstance(outside.type, ir.VectorType):
            inside = b.icmp_unsigned("==", b.bitcast(outside, I32), I32(0))
        else:
            inside = b.not_(outside)
            if ends:
                small = b.icmp_unsigned("<", extent, I64(1 << 31))  # so that indices of 32 bits do not wrap between
                inside = b.and_(inside, small)
            for end in ends:
                inside = b.and_(inside, b.icmp_unsigned("<", b.add(index, I64(end)), extent))
        self._unless(inside, pc, state)
        return b.add(base, b.mul(index, step))

    def _by_address(self, pc: int, state: State, operands: list[tuple[int, str]], condition: Value | None) -> None:
        """An operation that the VM calls."""
        b, row = self.b, self.rows.code[pc]
        for at, _ in operands:
            self._fill_row(state, at)
        if condition is not None:
            self._fill_row(state, row[2])
        mask = self._lanes(condition)
        families = self._field(self.m, "families")
        entry = b.load(pointer(b, b.add(families, I64(8 * row[0])), I64))
        call.body(b, entry, I64(row[0]), self.registers, *(I64(n) for n in row[2:7]), b.sext(mask, I64))
        self.kept.forget(row[2])

    def _lanes(self, condition: Value | None) -> Value:
        """As an i32."""
        b = self.b
        if condition is None:
            return I32(-1)
        return b.bitcast(condition, I32) if isinstance(condition.type, ir.VectorType) else b.sext(condition, I32)

    # -- memory

    def _memory(self, pc: int, state: State) -> None:
        row = self.rows.code[pc]
        name = NAMES[row[0]]
        store, size, n = memory_shape(name)
        moved = [row[2] + j * ROW for j in range(n)]
        shape = self.rows.shape(state, row[3], "b64")
        condition = self._condition(pc, state)
        if condition is not None and not store:
            for at in moved:  # what lanes keep that load nothing
                self._fill_row(state, at)
        if self._mark(pc) == LOADED and row[7] & UNUSED:
            self._seldom(pc, state, moved, condition)
        elif condition is None and shape and not store and shape.alike:
            self._load_one(pc, state, f"b{8 * size}", moved)
        elif condition is None and shape and shape.steps == line(size * n) and (size * n).bit_count() == 1:
            self._side_by_side(pc, state, store, f"b{8 * size}", moved)
        else:
            self._any_way(pc, state, name, moved, condition)

    def _first(self, pc: int) -> Value:
        row = self.rows.code[pc]
        return self.b.add(self._scalar(row[3], "b64"), I64(row[6]))

    def _ways(self, host: Value) -> tuple[Any, Any, Any]:
        """Blocks: the usual way, the closer look, and where both meet; the builder is in none of them."""
        usual, closer, met = (self.made.append_basic_block(name) for name in ("usual", "closer", "met"))
        self._usual(self.b.cbranch(self.b.icmp_unsigned("!=", host, I64(0)), usual, closer))
        return usual, closer, met

    def _look_closer(self, pc: int, state: State, lanes: Value) -> None:
        """The access as the VM makes it; the block goes on behind it."""
        b = self.b
        use = self.rows.uses[pc]
        for at, _ in use.reads:
            self._fill_row(state, at)
        entry = self._field(self.m, "access_entry")
        status = call.body(b, entry, self.address, self.w, I64(pc), self.registers, b.zext(lanes, I64))
        block, phi = self._leave(pc, state)
        phi.add_incoming(status, b.block)
        onward = self.made.append_basic_block("onward")
        self._usual(b.cbranch(b.icmp_unsigned("==", status, I64(0)), onward, block))
        b.position_at_end(onward)

    def _seldom(self, pc: int, state: State, moved: list[int], condition: Value | None) -> None:
        """An access that the VM makes, always."""
        b, lanes = self.b, self._lanes(condition)
        some, behind = (self.made.append_basic_block(name) for name in ("some", "behind"))
        b.cbranch(b.icmp_unsigned("!=", lanes, I32(0)), some, behind)
        b.position_at_end(some)
        self._look_closer(pc, state, lanes)
        b.branch(behind)
        b.position_at_end(behind)
        for row in moved:
            self.kept.forget(row)

    def _mark(self, pc: int) -> int:
        """What is kept of an access: a load through the read-only cache, or a store, which others may load so; or 0."""
        row = self.rows.code[pc]
        if not self.rows.reads_only or row[0] >= N_MEMORY:
            return 0
        if row[0] >= FIRST_STORE:
            return STORED
        return LOADED if row[7] & NON_COHERENT else 0

    def _note_range(self, pc: int, extent: int) -> None:
        bit = self._mark(pc)
        if bit:
            self._apart(_NOTE_RANGE, (extent, bit), self.address, self._first(pc))

    def _load_one(self, pc: int, state: State, t: str, moved: list[int]) -> None:
        b, size = self.b, SIZE[t]
        log = (size * len(moved)).bit_length() - 1
        host = self._apart(_ALL_AT_ONE, (log,), self.address, self.w, I64(pc), self._first(pc))
        usual, closer, met = self._ways(host)
        b.position_at_end(usual)
        self._note_range(pc, size * len(moved))
        values = [b.load(pointer(b, b.add(host, I64(j * size)), ELEMENT[t]), align=1) for j in range(len(moved))]
        for row, value in zip(moved, values, strict=True):
            b.store(value, pointer(b, b.add(self.registers, I64(row)), value.type))
        b.branch(met)
        b.position_at_end(closer)
        self._look_closer(pc, state, I32(-1))
        others = [b.load(pointer(b, b.add(self.registers, I64(row)), ELEMENT[t])) for row in moved]
        last = b.block
        b.branch(met)
        b.position_at_end(met)
        for row, value, other in zip(moved, values, others, strict=True):
            both = b.phi(value.type)
            both.add_incoming(value, usual)
            both.add_incoming(other, last)
            self.kept.forget(row)
            self.kept.scalars[row] = both

    def _side_by_side(self, pc: int, state: State, store: bool, t: str, moved: list[int]) -> None:
        b, size = self.b, SIZE[t]
        vector = ir.VectorType(ELEMENT[t], LANES)
        log = (size * len(moved)).bit_length() - 1
        parts = [self._vector(state, row, t) for row in moved] if store else []
        kind = WRITE if store else READ
        host = self._apart(_SIDE_BY_SIDE, (log, kind), self.address, self.w, I64(pc), self._first(pc))
        usual, closer, met = self._ways(host)
        b.position_at_end(usual)
        self._note_range(pc, LANES * size * len(moved))
        if store:
            store_side_by_side(b, host, parts)
        else:
            parts = load_side_by_side(b, host, len(moved), ELEMENT[t])
        places = [pointer(b, b.add(self.registers, I64(row)), vector) for row in moved]
        for place, part in zip(places, parts if not store else (), strict=False):
            b.store(part, place, align=64)
        b.branch(met)
        b.position_at_end(closer)
        self._look_closer(pc, state, I32(-1))
        b.branch(met)
        b.position_at_end(met)
        for row in moved if not store else ():
            self.kept.forget(row)

    def _any_way(self, pc: int, state: State, name: str, moved: list[int], condition: Value | None) -> None:
        """An access whose lanes may lie anyhow, or be some of a warp's."""
        b = self.b
        move = self._moved_by_steps(pc, state, name, moved) or self._moved_as_found(pc, state, name)
        lanes = self._lanes(condition)
        behind = self.made.append_basic_block("behind")
        if condition is not None:
            all_, some = (self.made.append_basic_block(part) for part in ("all", "some"))
            none = self.made.append_basic_block("maybe")
            b.cbranch(b.icmp_unsigned("==", lanes, I32(0)), behind, none)
            b.position_at_end(none)
            b.cbranch(b.icmp_unsigned("==", lanes, I32(-1)), all_, some)
            b.position_at_end(some)
            self._look_closer(pc, state, lanes)
            b.branch(behind)
            b.position_at_end(all_)
        move()
        b.branch(behind)
        b.position_at_end(behind)
        if not memory_shape(name)[0]:
            for at in moved:
                self.kept.forget(at)

    def _judged_any_way(self, pc: int, state: State, name: str, place: Value, bias: Value, how: int, move: Any) -> None:
        """Judge an access by all lanes, whose addresses lie at `place`, and `move` what is found to be as usual.  `how`
        these lie, from 1, if they are constants."""
        b = self.b
        store, size, n = memory_shape(name)
        found = I64(0)
        if (size * n).bit_count() == 1:
            shape = (size * n).bit_length() - 1 | (WRITE if store else READ) << KIND | how << KNOWN
            found = self._apart(_ANY_WAY, (shape,), self.address, self.w, I64(pc), place, bias)
        usual, closer, met = self._ways(found)
        b.position_at_end(usual)
        bit = self._mark(pc)
        if bit:
            self._apart(_NOTE_LANES, (size * n, bit), self.address, place, bias)
        move(b.and_(found, I64((1 << HOW) - 1)), b.lshr(found, I64(HOW)))
        b.branch(met)
        b.position_at_end(closer)
        self._look_closer(pc, state, I32(-1))
        b.branch(met)
        b.position_at_end(met)

    def _moved_as_found(self, pc: int, state: State, name: str) -> Callable[[], None]:
        """What makes an access of lanes that lie anyhow."""
        b, row = self.b, self.rows.code[pc]
        for at, _ in self.rows.uses[pc].reads:
            self._fill_row(state, at)
        place = b.add(self.registers, I64(row[3]))

        def body(b: Builder, given: Any) -> None:
            how, registers, d, a, delta = given
            transfer(b, name, how, registers, d, a, delta, I32(-1), quarters=True)

        def move(host: Value, how: Value) -> None:
            delta = b.sub(host, b.load(pointer(b, place, I64)))
            moves = self._helper(("transfer", name), 5, body)
            b.call(moves, [how, self.registers, I64(row[2]), I64(row[3]), delta])

        return lambda: self._judged_any_way(pc, state, name, place, I64(row[6]), 0, move)

    def _moved_by_steps(self, pc: int, state: State, name: str, moved: list[int]) -> Callable[[], None] | None:
        """What makes an access of lanes that lie by known steps; None if they do not."""
        b = self.b
        shape = self.rows.shape(state, self.rows.code[pc][3], "b64")
        store, size, n = memory_shape(name)
        if not shape or n == 3:
            return None
        pieces = pieces_of(shape.steps, size * n, alike=not store)
        many = len(pieces) > MOST_PIECES
        vector = ir.VectorType(ELEMENT[f"b{8 * size}"], LANES)
        parts = []
        if store and many:
            for row in moved:
                self._fill_row(state, row)
        elif store:
            parts = [self._vector(state, row, f"b{8 * size}") for row in moved]
        first = self._first(pc)

        def places(b: Builder, registers: Value, d: Value) -> list[Value]:
            return [pointer(b, b.add(registers, b.add(d, I64(j * ROW))), vector) for j in range(n)]

        def body(b: Builder, given: Any) -> None:
            host, *rest = given
            rows = places(b, *rest)
            if store:
                store_pieces(b, host, [b.load(row, align=64) for row in rows], pieces)
            else:
                for row, part in zip(rows, load_pieces(b, host, n, vector.element, pieces), strict=True):
                    b.store(part, row, align=64)

        def move(host: Value, how: Value) -> None:
            d = I64(moved[0])
            if many:
                helper = self._helper(("transfer", name, "by", self._number_of(shape.steps)), 3, body)
                b.call(helper, [host, self.registers, d])
            elif store:
                store_pieces(b, host, parts, pieces)
            else:
                body(b, (host, self.registers, d))

        how = UNIT if shape.steps == line(size * n) else SAME if shape.alike else SCATTERED
        constants = self._constants(shape.steps)
        return lambda: self._judged_any_way(pc, state, name, constants, first, 1 + how, move)

    def _constants(self, steps: Steps) -> Value:
        """Where such steps lie as numbers."""
        name = f"steps{self._number_of(steps)}"
        made = self.module.ir.globals.get(name)
        if made is None:
            made = ir.GlobalVariable(self.module.ir, ir.ArrayType(I64, LANES), name)
            made.linkage, made.global_constant, made.align = "internal", True, 64
            made.initializer = ir.Constant(made.value_type, list(steps))
        return self.b.ptrtoint(made, I64)


def _ends(shape: Shape | None) -> list[int]:
    """How far lanes are from the first one at most, in both directions."""
    return sorted({min(shape.steps), max(shape.steps)} - {0}) if shape else []


_ALL_AT_ONE, _SIDE_BY_SIDE, _ANY_WAY = compiled(all_at_one), compiled(side_by_side), compiled(any_way)
_NOTE_RANGE, _NOTE_LANES = compiled(noted_range), compiled(noted_lanes)
