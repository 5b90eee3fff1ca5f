"""Base of the code for a program's hot regions: records of the machine, rows of registers, and the exits.

Registers stay where the VM has them. If the lanes of a row have a known pattern (`shapes`), only the first lane is kept
up to date, and the others are written when control leaves the block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
    numbers,
    pointer,
    splat,
)
from wsemu.machine.checked_code import builder_at_end
from wsemu.machine.lowering import Compiled, Module, Record
from wsemu.machine.records import machine_at, warp_at
from wsemu.machine.state import DONE
from wsemu.machine.tier.section_tables import WARP_SHIFT
from wsemu.model.isa import LANES, NAMES, OPERATIONS, SIZE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wsemu.machine.tier.shapes import Rows, Shape, State, Steps

_BITS = {str(t): 8 * SIZE[name] for name, t in ELEMENT.items()}
_INTEGER = {1: I1, 8: ir.IntType(8), 16: ir.IntType(16), 32: I32, 64: I64}


def place_of(b: Builder, record: Record, name: str) -> Value:
    """Return the location of a record's field: a pointer to an i64."""
    assert record.dtype.fields is not None
    place = b.gep(record.place, [I64(record.dtype.fields[name][1])], inbounds=True)
    return b.bitcast(place, I64.as_pointer())


def field_of(b: Builder, record: Record, name: str) -> Value:
    """Return the value of a record's field."""
    return b.load(place_of(b, record, name))


def _width(vector: Any) -> int:
    """Return the bits of an element of a vector."""
    return _BITS[str(vector.element)]


class Kept:
    """Values of rows in registers of the CPU, while the rows do not change."""

    def __init__(self) -> None:
        self.scalars: dict[int, Value] = {}
        self.lanes: dict[int, Value] = {}
        """predicates with one value per lane"""
        self.vectors: dict[int, Value] = {}
        """values of all lanes, valid until the next call, because a call preserves no vector register of the CPU"""

    def forget(self, row: int) -> None:
        self.scalars.pop(row, None)
        self.lanes.pop(row, None)
        self.vectors.pop(row, None)


class Frame:
    """A function `symbol(address, w)` under construction, which runs a warp from warp.pc on."""

    kept: Kept

    def __init__(self, module: Module, rows: Rows, covered: Sequence[int], symbol: str) -> None:
        """Create the frame for the instructions `covered`."""
        self.module, self.rows = module, rows
        self.made = ir.Function(module.ir, ir.FunctionType(I64, [I64, I64]), symbol)
        self.made.attributes.add("nounwind")
        self.address, self.w = self.made.args
        self.b: Builder = builder_at_end(self.made.append_basic_block("entry"))
        self.shaped_writes = frozenset(
            row for pc in covered for row, _ in rows.uses[pc].writes if self._state_after(pc).get(row)
        )
        self.read = frozenset(row for pc in covered for row, _ in rows.uses[pc].reads)
        self.helpers: dict[tuple[Any, ...], Any] = {}
        self.numbers: dict[Steps, int] = {}
        self.m = machine_at.body(self.b, self.address, I64(0))
        self.warp = warp_at.body(self.b, self._field(self.m, "warps"), self.w)
        self.registers = self._field(self.warp, "registers")
        self.whole_warp = self.b.add(self.b.shl(self.w, I64(WARP_SHIFT)), I64((1 << LANES) - 1))
        """actor bits of a key of `sections`: all lanes of this warp"""
        self.leaves: dict[Any, Any] = {}
        self.whole: set[int] = set()
        """rows with shapes whose other lanes are up to date as well"""
        self.some: Value | None = None
        """mask of the running lanes, an i32; None: all lanes"""
        self.kept_for_others: frozenset[int] = frozenset()
        """rows that lanes need which do not run now"""

    def _state_after(self, pc: int) -> State:
        state = self.rows.before[pc]
        return {} if state is None else self.rows.after(pc, state)

    # -- records

    def _place(self, record: Record, name: str) -> Value:
        return place_of(self.b, record, name)

    def _field(self, record: Record, name: str) -> Value:
        return field_of(self.b, record, name)

    def _call(self, function: Compiled, *arguments: Any) -> Value:
        """Call a compiled function, of numbers and records."""
        kinds = tuple(one.dtype if isinstance(one, Record) else None for one in arguments)
        plain = [one.place if isinstance(one, Record) else one for one in arguments]
        return self.b.call(self.module.function(function, kinds), plain)

    def _helper(self, key: tuple[Any, ...], count: int, body: Callable[[Builder, Any], Value | None]) -> Any:
        """Return a function of i64 numbers that is not inlined, emitting it at the first use."""
        if key not in self.helpers:
            made = ir.Function(self.module.ir, ir.FunctionType(I64, [I64] * count), ".".join(map(str, key)))
            made.linkage = "internal"
            made.attributes.add("noinline")
            made.attributes.add("nounwind")
            b = builder_at_end(made.append_basic_block("entry"))
            result = body(b, made.args)
            b.ret(I64(0) if result is None else result)
            self.helpers[key] = made
        return self.helpers[key]

    def _call_inlined(self, b: Builder, function: Compiled, *arguments: Value) -> Value:
        """Call a compiled function of numbers, inlined."""
        inner = self.module.function(function, (None,) * len(arguments))
        inner.attributes.add("alwaysinline")
        return b.call(inner, arguments)

    def _call_shared(self, b: Builder, function: Compiled, *arguments: Value) -> Value:
        """Call a compiled function of numbers that is not inlined."""
        inner = self.module.function(function, (None,) * len(arguments))
        inner.attributes.add("noinline")
        return b.call(inner, arguments)

    def _apart(self, function: Compiled, constants: tuple[int, ...], *arguments: Value) -> Value:
        """Call a compiled function specialized for constants, which are its last arguments."""

        def body(b: Builder, given: Any) -> Value:
            return self._call_inlined(b, function, *given, *(I64(n) for n in constants))

        key = (function.function.__name__, "of", *constants)
        return self.b.call(self._helper(key, len(arguments), body), arguments)

    # -- required shapes of rows, and exits

    def _shapes_match(self, start: int) -> Value:
        """Return whether the rows that are live at a stretch have the shapes that its code assumes."""
        b, state, live = self.b, self.rows.before[start] or {}, self.rows.live(start)
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
        """Return a block that leaves to the VM at pc, and its phi of statuses."""
        live = self.rows.live(pc) | self.kept_for_others
        rows = tuple(
            (row, shape.bits, shape.steps)
            for row, shape in sorted(state.items())
            if shape and row in live and row in self.shaped_writes and row not in self.whole
        )
        if (pc, rows) not in self.leaves:
            block = self.made.append_basic_block(f"leave{pc}")
            here, self.b = self.b, builder_at_end(block)
            status = self.b.phi(I64)
            for row, bits, steps in rows:
                self._write_out(row, bits, steps)
            self.b.store(I64(pc), self._place(self.warp, "pc"))
            op, guard = self.rows.code[pc][:2]
            if OPERATIONS[NAMES[op]].kind == "barrier" and not guard:  # the VM may pass a guarded barrier by itself
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
        """Leave before pc unless `fine`."""
        block, phi = self._leave(pc, state)
        onward = self.made.append_basic_block("fine")
        phi.add_incoming(I64(DONE), self.b.block)
        self._usual(self.b.cbranch(fine, onward, block))
        self.b.position_at_end(onward)

    def _usual(self, branch: Any) -> None:
        branch.set_weights([1 << 20, 1])

    def _write_out(self, row: int, bits: int, steps: Steps) -> None:
        """Store the other lanes of a row whose first lane is up to date."""
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
        """Return the number of a tuple of steps in this function."""
        return self.numbers.setdefault(steps, len(self.numbers))

    # -- rows

    def _shape(self, state: State, row: int) -> Shape | None:
        return self.rows.first[row] if row in self.rows.given else state.get(row)

    def _scalar(self, row: int, type_: str) -> Value:
        """Return the first lane's value of a row with a shape."""
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
        """Return a row's values in all lanes."""
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
            kept = self.kept.vectors.get(row)
            if kept is None or _width(kept.type) != _width(t):  # inactive lanes may have values of another type
                kept = self.kept.vectors[row] = b.load(pointer(b, place, t), align=64)
            return self._as(kept, t)
        if row not in self.kept.lanes:
            self.kept.lanes[row] = b.load(pointer(b, place, I32))
        return b.bitcast(self.kept.lanes[row], MASK)

    def _put_scalar(self, row: int, type_: str, value: Value) -> None:
        b = self.b
        self.kept.forget(row)
        self.whole.discard(row)
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
            self.kept.vectors[row] = value
            b.store(value, pointer(b, place, value.type), align=64)

    def _fill_row(self, state: State, row: int) -> None:
        """Bring all lanes of a row up to date."""
        shape = state.get(row)
        if shape and row not in self.rows.given and row not in self.whole:
            self._write_out(row, shape.bits, shape.steps)

    def _condition(self, pc: int, state: State) -> Value | None:
        """Return the lanes of an instruction: None for all, an i1 for all or none, or a vector of 32 i1."""
        b, guard = self.b, self.rows.code[pc][1]
        some = None if self.some is None else b.bitcast(self.some, MASK)
        if not guard:
            return some
        shape = self.rows.shape(state, guard >> 1, "p")
        value = self._scalar(guard >> 1, "p") if shape and some is None else self._vector(state, guard >> 1, "p")
        value = b.not_(value) if guard & 1 else value
        return value if some is None else b.and_(value, some)

    def _lanes(self, condition: Value | None) -> Value:
        """Return a condition as an i32 of lanes."""
        b = self.b
        if condition is None:
            return I32(-1)
        return b.bitcast(condition, I32) if isinstance(condition.type, ir.VectorType) else b.sext(condition, I32)
