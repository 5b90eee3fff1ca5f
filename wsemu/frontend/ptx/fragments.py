"""wmma (PTX ISA 9.7.14).

PTX leaves the layout of its fragments unspecified: here it is the layout of mma.sync, and each lane loads and stores
its own elements.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.frontend.ptx.forms import UnhandledForm
from wsemu.frontend.ptx.fragment_origins import Origin, Use
from wsemu.frontend.ptx.matrix import SHAPE_OF, SHARED, members, multiply_tiles, read_all, targets
from wsemu.frontend.ptx.memory import emit_misaligned_test, lower_address, space_bits, spelling, undefined_where
from wsemu.frontend.ptx.syntax import Number, Sink
from wsemu.model.isa import SIZE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wsemu.frontend.assemble.graph import Instruction as GraphInstruction
    from wsemu.frontend.assemble.graph import Register
    from wsemu.frontend.ptx.emit import Emitter, Handler
    from wsemu.frontend.ptx.syntax import Instruction, Operand


_WHOLE_BYTES = ("m16n16k16", "m8n32k16", "m32n8k16")


_WMMA = {
    **{(shape, type_): shape for type_ in ("f16", "bf16", "s8", "u8") for shape in _WHOLE_BYTES},
    ("m16n16k8", "tf32"): "m16n16k8",
    ("m8n8k4", "f64"): "m8n8k4",
    ("m8n8k32", "s4"): "m8n8k32",
    ("m8n8k32", "u4"): "m8n8k32",
    ("m8n8k128", "b1"): "m8n8k128",
}
"""valid (shape, type of `a`) -> the shape of mma.sync"""


_HALF_REGISTERS = 8
"""registers of an f16 fragment `a` or `b`, enough for every shape"""


class _Shape:
    """A `wmma` as matrix multiplications of blocks of 8 columns."""

    def __init__(self, shape: str, a: str, b: str, c: str, combine: str = "mul") -> None:
        _WMMA[shape, a]
        self.m, self.n, self.k = (int(x) for x in shape[1:].replace("n", " ").replace("k", " ").split())
        rows = 16 if self.m % 16 == 0 else 8
        self.part = SHAPE_OF[f"m{rows}n8k{self.k}", c, a, b, c, combine]
        self.down, self.across = self.m // rows, self.n // 8

    def registers(self, matrix: str) -> int:
        """Return the number of registers of a fragment, as PTX defines it."""
        if matrix in "ab" and self.part.a == "f16":
            return _HALF_REGISTERS
        return self.used(matrix)

    def used(self, matrix: str) -> int:
        _, a, b, c = self.part.counts
        return {"a": a * self.down, "b": b * self.across, "c": c * self.down * self.across}[matrix]


def _find_shape(shape: str, matrix: str, type_: str) -> _Shape:
    """Return a shape with this type of `matrix`, as a load or store names it."""
    if matrix in "ab":
        accumulator = {"f64": "f64"}.get(type_, "f32" if type_ in ("f16", "bf16", "tf32") else "s32")
        return _Shape(shape, type_, type_, accumulator, "xor" if type_ == "b1" else "mul")
    for operands in ("f16", "tf32", "s8", "s4", "b1", "f64"):
        combine = "xor" if operands == "b1" else "mul"
        if (shape, operands) in _WMMA and _shape_exists(shape, operands, type_, combine):
            return _Shape(shape, operands, operands, type_, combine)
    raise UnhandledForm


def _shape_exists(shape: str, operands: str, type_: str, combine: str) -> bool:
    try:
        _Shape(shape, operands, operands, type_, combine)
    except KeyError:
        return False
    return True


class _Elements:
    """Addresses of a lane's elements of a fragment."""

    def __init__(self, e: Emitter, shape: _Shape, matrix: str, layout: str, base: Register, stride: Register) -> None:
        self.e, self.shape, self.matrix, self.base = e, shape, matrix, base
        part = shape.part
        self.bits = {"f16": 16, "f32": 32, "s32": 32, "f64": 64}[part.c] if matrix == "c" else part.width
        if matrix != "c" and part.a == "b1":
            self.bits = 32
        self.along_rows = layout == "row"
        lane = e.special("laneid")
        self.group = e.emit("cvt.b64.u32", e.emit("shr.u32", lane, e.constant("b32", 2)))
        self.quarter = e.emit("cvt.b64.u32", e.emit("and.b32", lane, e.constant("b32", 3)))
        element = 1 if part.a == "b1" and matrix != "c" else self.bits
        self.stride = self._scale_to_bits(e.emit("cvt.b64.u32", stride), element)

    def _scale_to_bits(self, value: Register, bits: int) -> Register:
        """Return a number of elements as a number of bits."""
        return self.e.emit("mul.b64", value, self.e.constant("b64", bits))

    def address(self, of_g: tuple[int, int], of_t: tuple[int, int], g_is_row: bool) -> Register:
        """Return the address of the element with the coordinates g `of_g[0] + of_g[1]`, t `of_t[0] + of_t[1]`;
        `g_is_row` selects which of them is the row."""
        e = self.e
        first = self._line(self.group, *of_g)
        second = self._line(self.quarter, *of_t)
        lines, inner = (first, second) if g_is_row == self.along_rows else (second, first)
        bits = e.emit("mul.b64", lines, self.stride)
        bits = e.emit("add.b64", bits, self._scale_to_bits(inner, self.bits))
        return e.emit("add.b64", self.base, e.emit("shr.u64", bits, e.constant("b64", 3)))

    def _line(self, value: Register, times: int, plus: int) -> Register:
        e = self.e
        scaled = value if times == 1 else e.emit("mul.b64", value, e.constant("b64", times))
        return e.emit("add.b64", scaled, e.constant("b64", plus)) if plus else scaled

    def pieces(self) -> list[list[Register]]:
        """Return, for each register, the addresses of its parts; a single address if the parts are contiguous."""
        part = self.shape.part
        found: list[list[Register]] = []
        if self.matrix == "c":
            per = 2 if part.c == "f16" else 1
            for down in range(self.shape.down):
                for across in range(self.shape.across):
                    for first in range(0, 2 * part.halves, per):
                        parts = [
                            self.address((1, 16 * down + 8 * (n >> 1)), (2, 8 * across + (n & 1)), g_is_row=True)
                            for n in range(first, first + per)
                        ]
                        found.append(parts[:1] if self.along_rows else parts)
            return found
        is_a = self.matrix == "a"
        in_a_row = part.parts == 1 or self.along_rows == is_a
        for block in range(self.shape.down if is_a else self.shape.across):
            for r in range(part.counts[1 if is_a else 2]):
                half, group = (r % part.halves, r // part.halves) if is_a else (0, r)
                line = (1, (16 if is_a else 8) * block + 8 * half)
                ks = [(part.parts, part.parts * 4 * group + x) for x in range(1 if in_a_row else part.parts)]
                found.append([self.address(line, k, g_is_row=is_a) for k in ks])
        return found


def _stride(e: Emitter, shape: _Shape, matrix: str, layout: str, given: list[Operand]) -> Register:
    rows, columns = {"a": (shape.m, shape.k), "b": (shape.k, shape.n), "c": (shape.m, shape.n)}[matrix]
    least = columns if layout == "row" else rows
    if not given:
        return e.constant("b32", least)
    (operand,) = given
    stride = e.read(operand, "b32")
    if not isinstance(operand, Number) or operand.value < least:
        undefined_where(
            e,
            e.emit("setp.lt.u32", stride, e.constant("b32", least)),
            f"`wmma` with a stride below {least}, the length of a {'row' if layout == 'row' else 'column'}",
            "PTX: a stride below the default value results in undefined behavior",
            f"give a stride of {least} or more",
        )
    return stride


_ELEMENT = {8: "uint8", 16: "uint16", 32: "uint32", 64: "float64"}


def _load(e: Emitter, instruction: Instruction) -> None:
    """Lower wmma.load.{a,b,c}.sync.aligned.layout.shape{.space}.type r, [p]{, stride}."""
    match instruction.modifiers:
        case ("load", ("a" | "b" | "c") as matrix, "sync", "aligned", ("row" | "col") as layout, shape, *space, type_):
            found = _find_shape(shape, matrix, type_)
        case _:
            raise UnhandledForm
    destination, source, *given = instruction.operands
    base = _base(e, source, space, _fragment_bytes(found, matrix))
    elements = _Elements(e, found, matrix, layout, base, _stride(e, found, matrix, layout, given))
    own = space_bits(e, space)
    values = [_value(e, addresses, elements.bits, own) for addresses in elements.pieces()]
    origin = Origin(matrix, shape, layout if matrix != "c" else "", type_)
    _produce(e, values, origin)
    count, type_of = found.registers(matrix), found.part.register
    values += [e.constant(type_of, 0)] * (count - len(values))
    _converge(e)
    for item, value in zip(e.elements(destination, count), values, strict=True):
        e.write_register(item, value)


def _produce(e: Emitter, registers: Sequence[Register], origin: Origin) -> None:
    """Note the origin of the registers that an instruction produces."""
    for number, register in enumerate(registers):
        e.fragments[register] = origin._replace(elements=frozenset({number}))


def _fragment_bytes(shape: _Shape, matrix: str) -> int:
    """Return the bytes of a lane's registers of a matrix."""
    return shape.registers(matrix) * SIZE[shape.part.register]


def _converge(e: Emitter) -> None:
    """Require that all lanes execute the instruction."""
    e.effect("turn", (e.constant("b32", 0), members(e)), ("b32",))


def _base(e: Emitter, operand: Operand, space: list[str], bytes_: int) -> Register:
    """Return the address of a matrix whose fragments have this number of bytes."""
    if len(space) > 1 or (space and space[0] not in ("global", *SHARED)):
        raise UnhandledForm
    base, offset, _ = lower_address(e, operand, "shared" if space and space[0] in SHARED else "".join(space))
    base = e.emit("add.b64", base, e.constant("b64", offset)) if offset else base
    (same,) = e.effect("alike.b64", (base, members(e)), ("p",))
    undefined_where(
        e,
        e.emit("not.pred", same),
        "`wmma` by lanes with different addresses",
        "PTX: the behavior is undefined if the threads of the warp do not use the same address and stride",
        "give all lanes the address of the matrix",
    )
    undefined_where(
        e,
        emit_misaligned_test(e, base, bytes_),
        f"`wmma` of a matrix at no multiple of {bytes_} bytes, the size of a lane's fragment",
        "PTX: the matrix starts at a multiple of the size of a fragment; otherwise the behavior is undefined",
        f"align the matrix to {bytes_} bytes",
    )
    return base


def _value(e: Emitter, addresses: list[Register], bits: int, own: int) -> Register:
    """Load a register of a fragment from memory; `own` as in `space_bits`."""
    whole = max(bits, 32)
    if len(addresses) == 1:
        element = _ELEMENT[max(bits, 8)]
        return e.effect(f"ld.b{whole}", (addresses[0],), (f"b{whole}",), auxiliary=own, element=element)[0]
    result = e.constant("b32", 0)
    for n, address in enumerate(addresses):
        (part,) = e.effect(f"ld.b{bits}", (address,), (f"b{bits}",), auxiliary=own, element=_ELEMENT[bits])
        wide = e.emit(f"cvt.b32.u{bits}", part)
        result = e.emit("or.b32", result, e.emit("shl.b32", wide, e.constant("b32", bits * n)))
    return result


def _store(e: Emitter, instruction: Instruction) -> None:
    """Lower wmma.store.d.sync.aligned.layout.shape{.space}.type [p], r{, stride}."""
    match instruction.modifiers:
        case ("store", "d", "sync", "aligned", ("row" | "col") as layout, shape, *space, type_):
            found = _find_shape(shape, "c", type_)
        case _:
            raise UnhandledForm
    destination, source, *given = instruction.operands
    base = _base(e, destination, space, _fragment_bytes(found, "c"))
    elements = _Elements(e, found, "c", layout, base, _stride(e, found, "c", layout, given))
    values = read_all(e, source, found.registers("c"), found.part.register)
    own = space_bits(e, space)
    _converge(e)
    _use(e, e.code[-1], [(values, Origin("c", shape))])
    for addresses, value in zip(elements.pieces(), values, strict=True):
        whole = max(elements.bits, 32)
        if len(addresses) == 1:
            e.effect(f"st.b{whole}", (addresses[0], value), (), auxiliary=own, element=_ELEMENT[elements.bits])
            continue
        for n, address in enumerate(addresses):
            part = e.emit("cvt.b16.s32", e.emit("shr.u32", value, e.constant("b32", 16 * n)))
            e.effect("st.b16", (address, part), (), auxiliary=own, element="uint16")


def _use(e: Emitter, first: GraphInstruction, operands: Sequence[tuple[tuple[Register, ...], Origin]]) -> None:
    """Record that the current instruction, whose first operation is given, uses fragments with these origins."""
    assert e.instruction is not None
    e.fragment_uses.append(Use(first, tuple(operands), spelling(e.instruction), e.source.place(e.instruction.at)))


def _wmma(e: Emitter, instruction: Instruction) -> None:
    """Lower wmma.mma{.op.popc}.sync.aligned.row.col.shape.types{.rn}{.satfinite} d, a, b, c."""
    modifiers = list(instruction.modifiers[1:])
    combine = "mul"
    if modifiers[1] == "popc":
        combine = modifiers[0]
        del modifiers[:2]
    if modifiers[:2] != ["sync", "aligned"] or not {*modifiers[2:4]} <= {"row", "col"}:
        raise UnhandledForm
    shape, *types = modifiers[4:]
    if "rn" in types and "f64" in types:
        types.remove("rn")
    clamped = types[-1] == "satfinite"
    if clamped:
        del types[-1]
    if len(types) == 2:  # of f16
        types = [types[0], "f16", "f16", types[1]]
    d_type, a_type, b_type, c_type = types
    if d_type != c_type or (clamped and (d_type != "s32" or combine != "mul")):
        raise UnhandledForm
    found = _Shape(shape, a_type, b_type, c_type, combine)
    needed = [Origin("a", shape, modifiers[2], a_type), Origin("b", shape, modifiers[3], b_type)]
    _wmma_parts(e, instruction, found, [*needed, Origin("c", shape, "", c_type)], clamped=clamped)


def _wmma_parts(
    e: Emitter, instruction: Instruction, found: _Shape, needed: Sequence[Origin], *, clamped: bool
) -> None:
    d, a, b, c = instruction.operands
    part = found.part
    type_ = part.register
    fragments = [
        read_all(e, operand, found.registers(matrix), type_)
        for operand, matrix in zip((a, b, c), "abc", strict=True)
    ]  # fmt: skip
    results = targets(e, d, found.registers("c"), type_)
    _, of_a, of_b, of_c = part.counts
    used = [registers[: found.used(matrix)] for registers, matrix in zip(fragments, "abc", strict=True)]
    made: list[Register] = []
    first = len(e.code)
    for down in range(found.down):
        for across in range(found.across):
            block = (down * found.across + across) * of_c
            fresh = tuple([e.graph.new(type_) for _ in range(of_c)])
            multiply_tiles(
                e, part, fresh, fragments[0][down * of_a :][:of_a], fragments[1][across * of_b :][:of_b],
                fragments[2][block:][:of_c], clamped=clamped,
            )  # fmt: skip
            made += fresh
    _use(e, e.code[first], list(zip(used, needed, strict=True)))
    _produce(e, made, needed[2])
    for item, register in zip(e.elements(d, len(results)), made, strict=True):
        if type(item) is not Sink:
            e.write_register(item, register)


def wmma(e: Emitter, instruction: Instruction) -> None:
    {"load": _load, "store": _store, "mma": _wmma}[instruction.modifiers[0]](e, instruction)


HANDLERS: dict[str, Handler] = {"wmma": wmma}
