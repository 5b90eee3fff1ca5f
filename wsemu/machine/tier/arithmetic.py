"""Arithmetic of a block: the VM's operations in 32 lanes, or in one lane if shapes determine the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llvmlite import ir

from wsemu.machine.arithmetic.codegen import (
    I32,
    I64,
    Builder,
    Value,
    halves,
    numbers,
    pointer,
    resize,
    splat,
)
from wsemu.machine.arithmetic.families import family_of
from wsemu.machine.arithmetic.floating import NUMBERS
from wsemu.machine.arithmetic.operations import BODIES, PER_LANE
from wsemu.machine.records import call
from wsemu.machine.tier.loads_stores import LoadsAndStores
from wsemu.machine.tier.shapes import APART, arithmetic
from wsemu.model.isa import LANES, NAMES, OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wsemu.machine.tier.shapes import Shape, State

WIDENING = ("cvt.b64.", "mulwide.", "madwide.")
"""operations that extend numbers of 32 bits, by their sign or by 0"""
ALL = I32(-1)
"""mask of all 32 lanes of a warp"""


def _all_numbers(b: Builder, v: Value) -> Value:
    """Return whether all of 32 floats of 64 bits are numbers: a comparison tests two at once."""
    low, high = (b.shuffle_vector(v, v, half) for half in halves(LANES // 2))
    bits = ir.IntType(LANES // 2)
    return b.icmp_unsigned("==", b.bitcast(b.fcmp_unordered("uno", low, high), bits), bits(0))


class Arithmetic(LoadsAndStores):
    """Generator of a function's arithmetic."""

    def _arithmetic(self, pc: int, state: State) -> None:
        b, row, rows = self.b, self.rows.code[pc], self.rows
        name = NAMES[row[0]]
        operation = OPERATIONS[name]
        operands = [(row[3 + k], t) for k, t in enumerate(operation.operands)]
        shapes = tuple(rows.shape(state, at, t) for at, t in operands)
        shape = arithmetic(name, shapes, tuple(rows.constants.get(at) for at, _ in operands))
        condition = self._condition(pc, state)
        d, t = row[2], operation.result
        of_all = name.startswith("index.") and self.some is not None  # inactive lanes may have any index
        if shape and pc not in rows.outside and not (of_all and not shape.alike):
            scalars = [self._scalar(at, kind) for at, kind in operands]
            value = self._apply_to_first(name, scalars, shapes, pc, state)
            if condition is None:
                self._put_scalar(d, t, value)
                return
            after = rows.after(pc, state).get(d)
            if after and self.some is None:
                self._put_scalar(d, t, b.select(condition, value, self._scalar(d, t)))
                return
            value = splat(b, value)
            if not shape.alike:
                value = b.add(value, numbers(value.type.element, shape.steps))
        elif name in PER_LANE or family_of(name) in APART:
            self._call_by_address(pc, state, operands, condition)
            return
        else:
            vectors = [self._vector(state, at, kind) for at, kind in operands]
            value = self._apply_to_all(name, vectors, pc, state, self._lanes(condition))
        if condition is not None:
            old = self._vector(state, d, t)
            value = b.select(condition, value, self._as(old, value.type))
        self._put_vector(d, t, value)

    def _apply_to_all(self, name: str, vectors: list[Value], pc: int, state: State, lanes: Value) -> Value:
        """Emit an operation in all lanes, of which only `lanes` matter, and return its result."""
        b, body = self.b, BODIES[name]
        if name.startswith("index.") and pc not in self.rows.outside:
            return self._address(vectors, name, pc, state, lanes=lanes)
        if OPERATIONS[name].result != "f64" or body not in NUMBERS:
            return body(b, *vectors)
        value = NUMBERS[body](b, *vectors)
        self._unless(_all_numbers(b, value), pc, state)
        return value

    def _apply_to_first(
        self, name: str, scalars: list[Value], shapes: tuple[Shape | None, ...], pc: int, state: State
    ) -> Value:
        """Emit an operation on rows with shapes in the first lane only, if the others follow from it; return its
        result."""
        b = self.b
        if name.startswith("index."):
            return self._address(scalars, name, pc, state, _ends(shapes[0]))
        if name.startswith(WIDENING):
            for scalar, shape in zip(scalars, shapes, strict=True):
                if shape and shape.bits == 32 and not shape.low_bits_alone:
                    self._unless_extended(scalar, _ends(shape), name.endswith("s32"), pc, state)
        return BODIES[name](b, *scalars)

    def _unless_extended(self, first: Value, ends: Sequence[int], signed: bool, pc: int, state: State) -> None:
        """Leave the block if a 32-bit number at one of the distances `ends` from the first lane's number wraps
        around."""
        b = self.b
        first = resize(b, first, I64, signed)
        for step in ends:
            other = b.add(first, I64(step))
            again = resize(b, b.trunc(other, I32), I64, signed)
            self._unless(b.icmp_unsigned("==", other, again), pc, state)

    def _address(
        self,
        values: list[Value],
        name: str,
        pc: int,
        state: State,
        ends: Sequence[int] = (),
        lanes: Value = ALL,
    ) -> Value:
        """Return the address of an index that is valid in all of the given lanes.

        The values are those of all lanes, or of the first lane, from which the others differ by at most `ends`.
        """
        b = self.b
        index, extent, step, base = values
        signed = name[6] == "s"
        index = resize(b, index, I64, signed)
        outside = b.icmp_unsigned(">=", index, extent)
        if isinstance(outside.type, ir.VectorType):
            inside = b.icmp_unsigned("==", b.and_(b.bitcast(outside, I32), lanes), I32(0))
        else:
            inside = b.not_(outside)
            if ends:
                small = b.icmp_unsigned("<", extent, I64(1 << 31))  # so that 32-bit indices between these do not wrap
                inside = b.and_(inside, small)
            for end in ends:
                inside = b.and_(inside, b.icmp_unsigned("<", b.add(index, I64(end)), extent))
        self._unless(inside, pc, state)
        return b.add(base, b.mul(index, step))

    def _call_by_address(self, pc: int, state: State, operands: list[tuple[int, str]], condition: Value | None) -> None:
        """Emit a call of an operation in the VM."""
        b, row = self.b, self.rows.code[pc]
        for at, _ in operands:
            self._fill_row(state, at)
        if condition is not None:
            self._fill_row(state, row[2])
        mask = self._lanes(condition)
        families = self._field(self.m, "families")
        entry = b.load(pointer(b, b.add(families, I64(8 * row[0])), I64))
        call.body(b, entry, I64(row[0]), self.registers, *(I64(n) for n in row[2:7]), b.sext(mask, I64))
        self.kept.vectors.clear()
        self.kept.forget(row[2])


def _ends(shape: Shape | None) -> list[int]:
    """Return the maximum distances of lanes from the first one, in both directions."""
    return sorted({min(shape.steps), max(shape.steps)} - {0}) if shape else []
