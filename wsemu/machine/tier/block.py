"""Hot stretches of one program as LLVM code: the operations of the VM one after the other, without its loop.

A block runs warps all of whose lanes are there.  Registers stay where the VM has them.  Of a row whose lanes lie in a
known way (`shapes`) its first lane alone is kept up to date; the others are written where control leaves the block.  It
leaves for the VM, before an instruction, wherever it does not know better: where lanes part, where they meet others,
at the end of a warp's turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from llvmlite import ir

from wsemu.machine.arithmetic.codegen import (
    I1,
    I32,
    I64,
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
from wsemu.machine.lowering import Module, compiled
from wsemu.machine.records import call, flow_at
from wsemu.machine.scheduler import PAUSE
from wsemu.machine.state import BUDGET, DONE, YIELDED
from wsemu.machine.tier.frame import Kept
from wsemu.machine.tier.loads_stores import LoadsAndStores
from wsemu.machine.tier.shapes import APART, CREDIT, arithmetic, same_steps
from wsemu.model.control_flow import changes_flow
from wsemu.model.isa import LANES, N_ALU, N_MEMORY, NAMES, OPCODE, OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wsemu.machine.tier.shapes import Rows, Shape, State

WIDENING = ("cvt.b64.", "mulwide.", "madwide.")
"""operations that extend numbers of 32 bits, by sign or 0"""
BRA, JUMP, JOIN = OPCODE["bra"], OPCODE["jump"], OPCODE["join"]
REFUSED = 8
"""what a stretch loses of its CREDIT where control comes to it with rows that lie otherwise; each other time adds one,
and without any it is left to the VM for the next PAUSE times"""


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


def _covered(rows: Rows, starts: Sequence[int]) -> list[int]:
    """The instructions of the stretches that begin at these."""
    pcs, code = [], rows.code
    for start in starts:
        for pc in range(start, len(code)):
            if not covers(code[pc][0]) or (pc != start and pc in starts):
                break
            pcs.append(pc)
            if code[pc][0] >= N_MEMORY:
                break
    return pcs


def _no_nan(b: Builder, v: Value) -> Value:
    """Whether all of 32 floats of 64 bits are numbers: a comparison tells of two at once."""
    low, high = (b.shuffle_vector(v, v, half) for half in halves(LANES // 2))
    return all_zero(b, b.sext(b.fcmp_unordered("uno", low, high), ir.VectorType(I64, LANES // 2)))


class Block(LoadsAndStores):
    """The function `symbol(address, w)`: a warp from warp.pc on; a status, DONE to go on in the VM at warp.pc."""

    def __init__(
        self, module: Module, rows: Rows, starts: Sequence[int], symbol: str, *, restless: bool = False
    ) -> None:
        """Of the stretches that begin at `starts`; `restless`: it leaves at random instructions, for tests."""
        super().__init__(module, rows, _covered(rows, starts), symbol)
        self.starts, self.restless = starts, restless
        self.at = {start: self.made.append_basic_block(f"at{start}") for start in starts}
        self._enter()
        for start in starts:
            self._stretch(start)

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

    # -- control

    def _stretch(self, start: int) -> None:
        """The code from a start up to where control goes elsewhere."""
        rows = self.rows
        self.b.position_at_end(self.at[start])
        self.kept = Kept()
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

    # -- arithmetic

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
        if name.startswith("index."):
            return self._address(scalars, name, pc, state, _ends(shapes[0]))
        if name.startswith(WIDENING):
            for scalar, shape in zip(scalars, shapes, strict=True):
                if shape and shape.bits == 32 and not shape.low_bits_alone:
                    self._unless_extended(scalar, _ends(shape), name.endswith("s32"), pc, state)
        return BODIES[name](b, *scalars)

    def _unless_extended(self, first: Value, ends: Sequence[int], signed: bool, pc: int, state: State) -> None:
        """Leave where a number of 32 bits, as far from the first one as `ends` at most, comes round."""
        b = self.b
        first = resize(b, first, I64, signed)
        for step in ends:
            other = b.add(first, I64(step))
            again = resize(b, b.trunc(other, I32), I64, signed)
            self._unless(b.icmp_unsigned("==", other, again), pc, state)

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


def _ends(shape: Shape | None) -> list[int]:
    """How far lanes are from the first one at most, in both directions."""
    return sorted({min(shape.steps), max(shape.steps)} - {0}) if shape else []
