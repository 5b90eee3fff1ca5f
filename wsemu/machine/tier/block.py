"""Hot regions of one program as LLVM code: the operations of the VM one after another, without the interpreter loop.

A block runs warps whose lanes all exist. Registers stay where the VM has them. If the lanes of a row have a known
pattern (`shapes`), only the first lane is kept up to date, and the others are written when control leaves the block. It
leaves to the VM, before an instruction, whenever it does not cover a case: at divergent branches and synchronization,
and at the end of a warp's turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from llvmlite import ir

from wsemu.machine.arithmetic.codegen import (
    I1,
    I32,
    I64,
    Value,
    llvm,
    pointer,
)
from wsemu.machine.divergence import diverge, pop
from wsemu.machine.lowering import Module, compiled
from wsemu.machine.records import flow_at
from wsemu.machine.scalars import popcount
from wsemu.machine.scheduler import PAUSE, WHOLE
from wsemu.machine.state import BUDGET, DONE, LOOK, YIELDED
from wsemu.machine.tier.arithmetic import Arithmetic
from wsemu.machine.tier.frame import Kept
from wsemu.machine.tier.shapes import CREDIT, same_steps
from wsemu.model.control_flow import BRA, JOIN, JUMP, changes_flow
from wsemu.model.isa import LANES, N_ALU, N_MEMORY

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wsemu.machine.tier.shapes import Rows, State

REFUSED = 8
"""amount by which CREDIT of a stretch decreases if a warp enters it with rows of other shapes; any other entry adds 1,
and without credit the VM runs the stretch for the next PAUSE times"""


@compiled
def come_to(m, pc, lanes):
    """Count that control has reached pc with this number of lanes; return 0 to continue, or why the warp stops."""
    flow = flow_at(m.flow, pc)
    flow.count += 1
    flow.lanes += lanes
    m.budget -= flow.length
    m.turn -= flow.length
    if m.turn < 0:
        return YIELDED
    if m.budget < 0:
        return BUDGET
    return DONE


@compiled
def part(m, warp, pc, join, target, taken):
    """Diverge at a branch that some lanes take, as the VM does, when all lanes are there."""
    diverge(warp, pc, join, target, taken, WHOLE)
    return come_to(m, warp.pc, popcount(warp.mask))


@compiled
def meet(m, warp):
    """Reconverge lanes at a join: continue with all lanes that have arrived."""
    pop(warp)
    return come_to(m, warp.pc, popcount(warp.mask))


def covers(op: int) -> bool:
    """Return whether a block can contain an operation."""
    return op < N_MEMORY or op in (BRA, JUMP, JOIN)


def leaders(rows: Rows, starts: Iterable[int]) -> list[int]:
    """Return the entry points of a block: targets of control flow, of `starts`, and instructions after those for which
    the block leaves."""
    found = set()
    for start in starts:
        for pc in range(start, len(rows.code)):
            op = rows.code[pc][0]
            if covers(op) and (pc == start or not covers(rows.code[pc - 1][0])):
                found.add(pc)
            if changes_flow(op):
                break
    return sorted(found)


def _covered_instructions(rows: Rows, starts: Sequence[int]) -> list[int]:
    """Return the instructions of the stretches that begin at `starts`."""
    pcs, code = [], rows.code
    for start in starts:
        for pc in range(start, len(code)):
            if not covers(code[pc][0]) or (pc != start and pc in starts):
                break
            pcs.append(pc)
            if code[pc][0] >= N_MEMORY:
                break
    sides = [side for pc in pcs if pc in rows.partings for side in rows.partings[pc].sides]
    return [*pcs, *(pc for side in sides for pc in range(side.start, side.end))]


class Block(Arithmetic):
    """The function `symbol(address, w)`: it runs a warp from warp.pc on, and returns DONE if the VM continues at
    warp.pc."""

    def __init__(
        self, module: Module, rows: Rows, starts: Sequence[int], symbol: str, *, restless: bool = False
    ) -> None:
        """Create a block of the stretches at `starts`; with `restless`, which is for tests, it leaves at random
        instructions."""
        super().__init__(module, rows, _covered_instructions(rows, starts), symbol)
        self.starts, self.restless = starts, restless
        self.at = {start: self.made.append_basic_block(f"at{start}") for start in starts}
        self._enter()
        for start in starts:
            self._stretch(start)

    def _enter(self) -> None:
        """Emit the jump to the stretch at warp.pc, if the rows have the shapes that its code assumes."""
        b = self.b
        back, given_up, asks = (self.made.append_basic_block(name) for name in ("back", "given_up", "asks"))
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
            b.cbranch(self._shapes_match(start), fine, refused)
            b.position_at_end(fine)
            credit = b.add(b.load(place), I64(1))
            b.store(b.select(b.icmp_signed(">", credit, I64(CREDIT)), I64(CREDIT), credit), place)
            b.branch(self.at[start])
            b.position_at_end(refused)
            credit = b.sub(b.load(place), I64(REFUSED))
            left = b.icmp_signed(">", credit, I64(0))
            b.store(b.select(left, credit, I64(-PAUSE)), place)
            b.cbranch(left, back, given_up)
        b.position_at_end(given_up)
        looks, place = self._field(self.m, "looks"), self._place(self.m, "looks")
        b.cbranch(b.icmp_signed(">", looks, I64(0)), asks, back)
        b.position_at_end(asks)
        b.store(b.sub(looks, I64(1)), place)
        b.ret(I64(LOOK))
        b.position_at_end(back)
        b.ret(I64(DONE))

    # -- control

    def _stretch(self, start: int) -> None:
        """Emit the code from a start up to the next change of control."""
        rows = self.rows
        self.b.position_at_end(self.at[start])
        self.kept, self.whole = Kept(), set(rows.invariant_rows(start))
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
            self._make(pc, state)
            state = rows.after(pc, state)
            pc += 1
            if pc in self.at or pc == len(rows.code):
                self._go(pc, state)
                return

    def _make(self, pc: int, state: State) -> None:
        """Emit an operation of arithmetic or memory."""
        if self.restless:
            self._leave_at_random(pc, state)
        if self.rows.code[pc][0] < N_ALU:
            self._arithmetic(pc, state)
        else:
            self._memory(pc, state)
            self.kept.vectors.clear()

    def _leave_at_random(self, pc: int, state: State) -> None:
        """Emit code that leaves the block one time in eight."""
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
            if pc in self.rows.partings:
                together, apart = (self.made.append_basic_block(name) for name in ("together", "apart"))
                b.cbranch(b.or_(all_, none), together, apart)
                b.position_at_end(apart)
                self._part(pc, state, lanes)
                b.position_at_end(together)
                self.kept = Kept()  # values that a side computes do not exist if the lanes stay together
            else:
                self._unless(b.or_(all_, none), pc, state)
            condition = all_
        taken, passed = (self.made.append_basic_block(name) for name in ("taken", "passed"))
        b.cbranch(condition, taken, passed)
        for block, place in ((taken, target), (passed, pc + 1)):
            b.position_at_end(block)
            self._come_to(place, state)

    def _come_to(self, target: int, state: State) -> None:
        """Emit the change of control to another stretch."""
        self._unless_stopped(self._call(come_to, self.m, I64(target), I64(LANES)), target, state)
        self._go(target, state)

    def _unless_stopped(self, status: Value, target: int, state: State) -> None:
        """Leave the block if a warp must stop at the instruction that it has reached."""
        b = self.b
        stops, onward = (self.made.append_basic_block(name) for name in ("stops", "onward"))
        self._usual(b.cbranch(b.icmp_unsigned("==", status, I64(DONE)), onward, stops))
        b.position_at_end(stops)
        self._leave_for(target, state, status)
        b.position_at_end(onward)

    def _part(self, pc: int, state: State, lanes: Value) -> None:
        """Emit a divergent branch at pc: both sides, one after the other, and the code after their reconvergence
        point."""
        b, rows = self.b, self.rows
        found, target = rows.partings[pc], rows.code[pc][6]
        self._unless(b.icmp_unsigned("==", self._field(self.warp, "depth"), I64(0)), pc, state)
        taken = b.zext(lanes, I64)
        status = self._call(part, self.m, self.warp, I64(pc), I64(found.join), I64(target), taken)
        self.kept_for_others = frozenset().union(*(rows.live(at) for at in (found.join, pc)))
        for side in found.sides:
            self.some = b.not_(lanes) if side.start == pc + 1 else lanes
            self._unless_stopped(status, side.start, state)
            for at in range(side.start, side.end):
                self._make(at, state)
                state = rows.after_some(at, state)
            if side.end != found.join:
                status = self._call(come_to, self.m, I64(found.join), b.zext(self._count(self.some), I64))
                self._unless_stopped(status, found.join, state)
            status = self._call(meet, self.m, self.warp)
        self.some, self.kept_for_others = None, frozenset()
        self._unless_stopped(status, found.join + 1, state)
        self._go(found.join + 1, state)

    def _count(self, lanes: Value) -> Value:
        """Return the number of these lanes."""
        return llvm(self.b, "llvm.ctpop", I32, lanes)

    def _go(self, target: int, state: State) -> None:
        """Emit the jump to another stretch, which is already counted."""
        if target not in self.at:
            self._leave_for(target, state, I64(DONE))
            return
        there, live, settled = self.rows.before[target] or {}, self.rows.live(target), self.rows.invariant_rows(target)
        for row, shape in sorted(state.items()):
            matters = row in live and row in self.shaped_writes and row not in self.whole
            if shape and matters and (row in settled or not same_steps(shape, there.get(row))):
                self._write_out(row, shape.bits, shape.steps)
        self.b.branch(self.at[target])
