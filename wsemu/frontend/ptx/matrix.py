"""Matrix instructions of a warp (PTX ISA 9.7.14): mma.sync, ldmatrix, stmatrix, movmatrix, wmma, and wgmma.

`ldmatrix` is a load of 16 bytes by each lane that gives an address, and an exchange between lanes; `stmatrix` the
reverse.  The fragments of `wmma` are opaque: here they are those of mma.sync, and each lane loads and stores its own
elements.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from wsemu.frontend.assemble.graph import TRUE
from wsemu.frontend.ptx.copies import constant_of
from wsemu.frontend.ptx.forms import UnhandledForm, picked
from wsemu.frontend.ptx.memory import address_of, own_shared, refuse_unless_shared
from wsemu.frontend.ptx.syntax import Number, Sink, Vector
from wsemu.model.matrix import (
    CLAMPS,
    MMA,
    NEGATES_A,
    NEGATES_B,
    SATURATES,
    TURNS_A,
    TURNS_B,
    WGMMA,
    Mma,
    move_counts,
    vector_counts,
)

if TYPE_CHECKING:
    from wsemu.frontend.assemble.graph import Register
    from wsemu.frontend.ptx.emit import Emitter, Handler
    from wsemu.frontend.ptx.syntax import Instruction, Operand

_ALL = 0xFFFFFFFF
_SHARED = ("shared", "shared::cta")


def _members(e: Emitter) -> Register:
    return e.constant("b32", _ALL)


def _read_all(e: Emitter, operand: Operand, count: int, type_: str) -> tuple[Register, ...]:
    return tuple([e.read(item, type_) for item in e.elements(operand, count)])


def _targets(e: Emitter, operand: Operand, count: int, type_: str) -> tuple[Register, ...]:
    return tuple([e.target(item, type_) for item in e.elements(operand, count)])


def _write_all(e: Emitter, operand: Operand, registers: tuple[Register, ...]) -> None:
    for item, register in zip(e.elements(operand, len(registers)), registers, strict=True):
        e.write_register(item, register)


# -- mma.sync --------------------------------------------------------------------------------------------------------
_SHAPE_OF = {(f"m{s.m}n{s.n}k{s.k}", s.d, s.a, s.b, s.c, s.combine): s for s in MMA.values()}
_PARTS_OF_WMMA = {"f16", "bf16"}


def multiply(e: Emitter, instruction: Instruction) -> None:
    """mma.sync.aligned.shape.row.col{.satfinite}.d.a.b.c{.xor,.and}{.popc} d, a, b, c; ptxas takes `.satfinite` behind
    the types, too"""
    match instruction.modifiers:
        case ("sync", "aligned", shape, "row", "col", *rest):
            pass
        case _:
            raise UnhandledForm
    clamped = "satfinite" in (rest[0], rest[-1])
    if clamped:
        rest.remove("satfinite")
    types, how = tuple(rest[:4]), tuple(rest[4:])
    if how not in ((), ("xor", "popc"), ("and", "popc")) or len(types) != 4:
        raise UnhandledForm
    found = _SHAPE_OF[(shape, *types, how[0] if how else "mul")]
    if (clamped and (found.combine != "mul" or found.d != "s32")) or (found.m == 8 and found.a in _PARTS_OF_WMMA):
        raise UnhandledForm
    d, a, b, c = instruction.operands
    counts, type_ = found.counts, found.register
    sources = [_read_all(e, operand, n, type_) for operand, n in zip((a, b, c), counts[1:], strict=True)]
    results = _targets(e, d, counts[0], type_)
    _multiply(e, found, results, *sources, clamped=clamped)
    _write_all(e, d, results)


def _multiply(
    e: Emitter,
    shape: Mma,
    results: tuple[Register, ...],
    a: tuple[Register, ...],
    b: tuple[Register, ...],
    c: tuple[Register, ...],
    *,
    clamped: bool,
) -> None:
    e.effect_into(shape.name, (*a, *b, *c, _members(e)), results, auxiliary=SATURATES * clamped)


# -- ldmatrix, stmatrix, movmatrix -------------------------------------------------------------------------------------
_NUMBERS = {"x1": 1, "x2": 2, "x4": 4}


def _rows_of(modifiers: tuple[str, ...]) -> tuple[int, str, str]:
    """(matrices, `.trans` or nothing, state space) of sync.aligned.m8n8.x4{.trans}{.shared}.b16, in which ptxas takes
    the shape behind the number, too."""
    if modifiers[:2] != ("sync", "aligned"):
        raise UnhandledForm
    shape, number, trans, space, type_ = picked(
        modifiers[2:], frozenset({"m8n8"}), frozenset(_NUMBERS), frozenset({"trans"}), frozenset(_SHARED),
        frozenset({"b16"}),
    )  # fmt: skip
    if not (shape and number and type_) or modifiers[-1] != "b16":
        raise UnhandledForm
    return _NUMBERS[number], f".{trans}" if trans else "", "shared" if space else ""


class _Lanes:
    """What is done under the guard by the lanes alone that give the address of a row."""

    def __init__(self, e: Emitter, count: int) -> None:
        self.e, self.kept = e, (e.guard, e.negated)
        self.guard = self.kept
        if count < 4:
            some = e.emit("setp.lt.u32", e.special("laneid"), e.constant("b32", 8 * count))
            if e.guard != TRUE:
                some = e.emit("andn.pred" if e.negated else "and.pred", some, e.guard)
            self.guard = some, False

    def __enter__(self) -> None:
        self.e.guard, self.e.negated = self.guard

    def __exit__(self, *_: object) -> None:
        self.e.guard, self.e.negated = self.kept


def load_matrix(e: Emitter, instruction: Instruction) -> None:
    """ldmatrix.sync.aligned.m8n8.num{.trans}{.shared}.b16 r, [row]"""
    count, trans, space = _rows_of(instruction.modifiers)
    destination, source = instruction.operands
    address, offset, array = address_of(e, source, space)
    with _Lanes(e, count):
        refuse_unless_shared(e, instruction, address, offset)
        own = own_shared(e, _SHARED)
        rows = e.effect("ld.v4.b32", (address,), ("b32",) * 4, offset, own, array=array, element="uint16")
    results = _targets(e, destination, count, "b32")
    e.effect_into(f"spread.x{count}{trans}", (*rows, _members(e)), results)
    _write_all(e, destination, results)


def store_matrix(e: Emitter, instruction: Instruction) -> None:
    """stmatrix.sync.aligned.m8n8.num{.trans}{.shared}.b16 [row], r"""
    count, trans, space = _rows_of(instruction.modifiers)
    destination, source = instruction.operands
    address, offset, array = address_of(e, destination, space)
    name = f"collect.x{count}{trans}"
    values = _read_all(e, source, count, "b32")
    rows = e.effect(name, (*values, _members(e)), ("b32",) * move_counts(name)[0])
    with _Lanes(e, count):
        refuse_unless_shared(e, instruction, address, offset)
        own = own_shared(e, _SHARED)
        e.effect("st.v4.b32", (address, *rows), (), offset, own, array=array, element="uint16")


def move_matrix(e: Emitter, instruction: Instruction) -> None:
    """movmatrix.sync.aligned.m8n8.trans.b16 d, a"""
    if instruction.modifiers != ("sync", "aligned", "m8n8", "trans", "b16"):
        raise UnhandledForm
    destination, source = instruction.operands
    (result,) = e.effect("turn", (e.read(source, "b32"), _members(e)), ("b32",))
    e.write_register(destination, result)


# -- wmma ------------------------------------------------------------------------------------------------------------
_WHOLE_BYTES = ("m16n16k16", "m8n32k16", "m32n8k16")
_WMMA = {
    **{(shape, type_): shape for type_ in ("f16", "bf16", "s8", "u8") for shape in _WHOLE_BYTES},
    ("m16n16k8", "tf32"): "m16n16k8",
    ("m8n8k4", "f64"): "m8n8k4",
    ("m8n8k32", "s4"): "m8n8k32",
    ("m8n8k32", "u4"): "m8n8k32",
    ("m8n8k128", "b1"): "m8n8k128",
}
"""(shape, type of `a`) that there is"""
_HALF_REGISTERS = 8
"""of a fragment `a` or `b` of f16, of any shape: more than are needed"""


class _Shape:
    """A `wmma` as blocks of multiplications of 8 columns."""

    def __init__(self, shape: str, a: str, b: str, c: str, combine: str = "mul") -> None:
        _WMMA[shape, a]
        self.m, self.n, self.k = (int(x) for x in shape[1:].replace("n", " ").replace("k", " ").split())
        rows = 16 if self.m % 16 == 0 else 8
        self.part = _SHAPE_OF[f"m{rows}n8k{self.k}", c, a, b, c, combine]
        self.down, self.across = self.m // rows, self.n // 8

    def registers(self, matrix: str) -> int:
        """Of a fragment, as the text of PTX has it."""
        if matrix in "ab" and self.part.a == "f16":
            return _HALF_REGISTERS
        return self.used(matrix)

    def used(self, matrix: str) -> int:
        _, a, b, c = self.part.counts
        return {"a": a * self.down, "b": b * self.across, "c": c * self.down * self.across}[matrix]


def _shape_for(shape: str, matrix: str, type_: str) -> _Shape:
    """A shape with this type of `matrix`, as a load or store names it."""
    if matrix in "ab":
        accumulator = {"f64": "f64"}.get(type_, "f32" if type_ in ("f16", "bf16", "tf32") else "s32")
        return _Shape(shape, type_, type_, accumulator, "xor" if type_ == "b1" else "mul")
    for operands in ("f16", "tf32", "s8", "s4", "b1", "f64"):
        combine = "xor" if operands == "b1" else "mul"
        if (shape, operands) in _WMMA and _has(shape, operands, type_, combine):
            return _Shape(shape, operands, operands, type_, combine)
    raise UnhandledForm


def _has(shape: str, operands: str, type_: str, combine: str) -> bool:
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
        self.stride = self._scaled(e.emit("cvt.b64.u32", stride), element)

    def _scaled(self, value: Register, bits: int) -> Register:
        """Elements of so many bits, in bits."""
        return self.e.emit("mul.b64", value, self.e.constant("b64", bits))

    def address(self, of_g: tuple[int, int], of_t: tuple[int, int], g_is_row: bool) -> Register:
        """Of the element with the coordinates g of_g[0] + of_g[1], t of_t[0] + of_t[1]; which of them is the row."""
        e = self.e
        first = self._line(self.group, *of_g)
        second = self._line(self.quarter, *of_t)
        lines, inner = (first, second) if g_is_row == self.along_rows else (second, first)
        bits = e.emit("mul.b64", lines, self.stride)
        bits = e.emit("add.b64", bits, self._scaled(inner, self.bits))
        return e.emit("add.b64", self.base, e.emit("shr.u64", bits, e.constant("b64", 3)))

    def _line(self, value: Register, times: int, plus: int) -> Register:
        e = self.e
        scaled = value if times == 1 else e.emit("mul.b64", value, e.constant("b64", times))
        return e.emit("add.b64", scaled, e.constant("b64", plus)) if plus else scaled

    def pieces(self) -> list[list[Register]]:
        """For each register the addresses of its parts, one where they lie in a row."""
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
    if given:
        (operand,) = given
        return e.read(operand, "b32")
    rows, columns = {"a": (shape.m, shape.k), "b": (shape.k, shape.n), "c": (shape.m, shape.n)}[matrix]
    return e.constant("b32", columns if layout == "row" else rows)


_ELEMENT = {8: "uint8", 16: "uint16", 32: "uint32", 64: "float64"}


def _load(e: Emitter, instruction: Instruction) -> None:
    """wmma.load.{a,b,c}.sync.aligned.layout.shape{.space}.type r, [p]{, stride}"""
    match instruction.modifiers:
        case ("load", ("a" | "b" | "c") as matrix, "sync", "aligned", ("row" | "col") as layout, shape, *space, type_):
            found = _shape_for(shape, matrix, type_)
        case _:
            raise UnhandledForm
    destination, source, *given = instruction.operands
    base = _base(e, source, space)
    elements = _Elements(e, found, matrix, layout, base, _stride(e, found, matrix, layout, given))
    own = own_shared(e, space)
    values = [_value(e, addresses, elements.bits, own) for addresses in elements.pieces()]
    count, type_of = found.registers(matrix), found.part.register
    values += [e.constant(type_of, 0)] * (count - len(values))
    _converge(e)
    for item, value in zip(e.elements(destination, count), values, strict=True):
        e.write_register(item, value)


def _converge(e: Emitter) -> None:
    """All lanes must be here."""
    e.effect("turn", (e.constant("b32", 0), _members(e)), ("b32",))


def _base(e: Emitter, operand: Operand, space: list[str]) -> Register:
    """Address of a matrix."""
    if len(space) > 1 or (space and space[0] not in ("global", *_SHARED)):
        raise UnhandledForm
    base, offset, _ = address_of(e, operand, "shared" if space and space[0] in _SHARED else "".join(space))
    return e.emit("add.b64", base, e.constant("b64", offset)) if offset else base


def _value(e: Emitter, addresses: list[Register], bits: int, own: int) -> Register:
    """A register of a fragment from memory; `own` as of `own_shared`."""
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
    """wmma.store.d.sync.aligned.layout.shape{.space}.type [p], r{, stride}"""
    match instruction.modifiers:
        case ("store", "d", "sync", "aligned", ("row" | "col") as layout, shape, *space, type_):
            found = _shape_for(shape, "c", type_)
        case _:
            raise UnhandledForm
    destination, source, *given = instruction.operands
    base = _base(e, destination, space)
    elements = _Elements(e, found, "c", layout, base, _stride(e, found, "c", layout, given))
    values = _read_all(e, source, found.registers("c"), found.part.register)
    own = own_shared(e, space)
    _converge(e)
    for addresses, value in zip(elements.pieces(), values, strict=True):
        whole = max(elements.bits, 32)
        if len(addresses) == 1:
            e.effect(f"st.b{whole}", (addresses[0], value), (), auxiliary=own, element=_ELEMENT[elements.bits])
            continue
        for n, address in enumerate(addresses):
            part = e.emit("cvt.b16.s32", e.emit("shr.u32", value, e.constant("b32", 16 * n)))
            e.effect("st.b16", (address, part), (), auxiliary=own, element="uint16")


def _wmma(e: Emitter, instruction: Instruction) -> None:
    """wmma.mma{.op.popc}.sync.aligned.row.col.shape.types{.rn}{.satfinite} d, a, b, c"""
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
    _wmma_parts(e, instruction, found, clamped=clamped)


def _wmma_parts(e: Emitter, instruction: Instruction, found: _Shape, *, clamped: bool) -> None:
    d, a, b, c = instruction.operands
    part = found.part
    type_ = part.register
    fragments = [
        _read_all(e, operand, found.registers(matrix), type_)
        for operand, matrix in zip((a, b, c), "abc", strict=True)
    ]  # fmt: skip
    results = _targets(e, d, found.registers("c"), type_)
    _, of_a, of_b, of_c = part.counts
    made: list[Register] = []
    for down in range(found.down):
        for across in range(found.across):
            block = (down * found.across + across) * of_c
            fresh = tuple([e.graph.new(type_) for _ in range(of_c)])
            _multiply(
                e, part, fresh, fragments[0][down * of_a :][:of_a], fragments[1][across * of_b :][:of_b],
                fragments[2][block:][:of_c], clamped=clamped,
            )  # fmt: skip
            made += fresh
    for item, register in zip(e.elements(d, len(results)), made, strict=True):
        if type(item) is not Sink:
            e.write_register(item, register)


def wmma(e: Emitter, instruction: Instruction) -> None:
    {"load": _load, "store": _store, "mma": _wmma}[instruction.modifiers[0]](e, instruction)


# -- wgmma -----------------------------------------------------------------------------------------------------------
_OF_TYPES = {
    (f"k{found.part.k}", found.part.d, found.part.a, found.part.b, found.part.combine, found.shared): found
    for found in WGMMA.values()
}
_ONES = {"s8", "u8", "b1"}
"""types whose number of columns is coarser, and without scales"""
_TURNED = {"f16", "bf16"}
"""types that may lie either way in shared memory"""


def _columns(shape: str, type_: str) -> tuple[int, str]:
    """(n, `k16`) of m64n128k16."""
    found = re.fullmatch(r"m64n(\d+)(k\d+)", shape)
    n = int(found[1]) if found else 0
    if found is None or n % 8 or not 8 <= n <= 256 or (type_ in _ONES and n > 32 and n % 16) or str(n) != found[1]:
        raise UnhandledForm
    return n, found[2]


def _group_multiply(e: Emitter, modifiers: tuple[str, ...], operands: tuple[Operand, ...]) -> None:
    """wgmma.mma_async.sync.aligned.shape{.satfinite}.d.a.b{.and.popc} d, a, b, scale-d{, scales{, turns}}"""
    shape, *rest = modifiers
    clamped = rest[0] == "satfinite"
    d_type, a_type, b_type, *how = rest[clamped:]
    if tuple(how) not in ((), ("and", "popc")) or (clamped and d_type != "s32"):
        raise UnhandledForm
    n, k = _columns(shape, a_type)
    d, a, b, *more = operands
    shared = type(a) is not Vector
    found = _OF_TYPES[k, d_type, a_type, b_type, how[0] if how else "mul", shared]
    uses, auxiliary = _flags(e, a_type, more, shared=shared)
    auxiliary |= n // 8 | CLAMPS * clamped
    count = vector_counts(found.name, auxiliary)[0]
    of_a = (e.read(a, "b64"),) if shared else _read_all(e, a, 4, "b32")
    sums = _read_all(e, d, count, "b32")
    results = _targets(e, d, count, "b32")
    e.effect_into(found.name, (*of_a, e.read(b, "b64"), *sums, uses), results, auxiliary=auxiliary)
    _write_all(e, d, results)


def _flags(e: Emitter, type_: str, more: list[Operand], *, shared: bool) -> tuple[Register, int]:
    """Whether the accumulator is used; signs and layouts as aux."""
    uses, *constants = more
    used = e.constant("p", bool(uses.value)) if isinstance(uses, Number) else e.read(uses, "p")
    values = [constant_of(constant) for constant in constants]
    turns = 1 + shared if type_ in _TURNED else 0
    if len(values) != (0 if type_ in _ONES else 2 + turns):
        raise UnhandledForm
    auxiliary = 0
    for value, bit in zip(values[:2], (NEGATES_A, NEGATES_B), strict=False):
        auxiliary |= bit * {1: False, -1: True}[_signed(value)]
    for value, bit in zip(values[2:], (TURNS_A, TURNS_B) if shared else (TURNS_B,), strict=False):
        auxiliary |= bit * {0: False, 1: True}[value]
    return used, auxiliary


def _signed(value: int) -> int:
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def group(e: Emitter, instruction: Instruction) -> None:
    match instruction.modifiers:
        case ("mma_async", "sync", "aligned", *rest):
            _group_multiply(e, tuple(rest), instruction.operands)
        case ("fence", "sync", "aligned"):
            () = instruction.operands
            e.effect("wgmma.fence")
        case ("commit_group", "sync", "aligned"):
            () = instruction.operands
            e.effect("wgmma.commit")
        case ("wait_group", "sync", "aligned"):
            (number,) = instruction.operands
            e.effect("wgmma.wait", immediate=constant_of(number))
        case _:
            raise UnhandledForm


HANDLERS: dict[str, Handler] = {
    "wgmma": group,
    "mma": multiply,
    "ldmatrix": load_matrix,
    "stmatrix": store_matrix,
    "movmatrix": move_matrix,
    "wmma": wmma,
}
