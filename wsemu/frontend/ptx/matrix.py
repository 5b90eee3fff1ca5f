"""Matrix instructions of a warp (PTX ISA 9.7.14): mma.sync, ldmatrix, stmatrix, movmatrix.

`ldmatrix` is a load of 16 bytes by each lane that supplies an address, followed by an exchange between lanes;
`stmatrix` is the reverse.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.frontend.assemble.graph import TRUE
from wsemu.frontend.ptx.copies import integer_constant
from wsemu.frontend.ptx.forms import UnhandledForm, pick_flags
from wsemu.frontend.ptx.memory import lower_address, refuse_unless_shared, space_bits, undefined_where
from wsemu.frontend.ptx.syntax import Number
from wsemu.model.matrix import (
    BYTE_A_SHIFT,
    BYTE_B_SHIFT,
    BYTE_FLOATS,
    FACTORS_SHIFT,
    FINE,
    LANE_A_SHIFT,
    LANE_B_SHIFT,
    MMA,
    SATURATES,
    SELECTOR_SHIFT,
    Mma,
    move_counts,
)

if TYPE_CHECKING:
    from wsemu.frontend.assemble.graph import Register
    from wsemu.frontend.ptx.emit import Emitter, Handler
    from wsemu.frontend.ptx.syntax import Instruction, Operand

_ALL = 0xFFFFFFFF
SHARED = ("shared", "shared::cta")


def members(e: Emitter) -> Register:
    return e.constant("b32", _ALL)


def read_all(e: Emitter, operand: Operand, count: int, type_: str) -> tuple[Register, ...]:
    return tuple([e.read(item, type_) for item in e.elements(operand, count)])


def targets(e: Emitter, operand: Operand, count: int, type_: str) -> tuple[Register, ...]:
    return tuple([e.target(item, type_) for item in e.elements(operand, count)])


def write_all(e: Emitter, operand: Operand, registers: tuple[Register, ...]) -> None:
    for item, register in zip(e.elements(operand, len(registers)), registers, strict=True):
        e.write_register(item, register)


# -- mma.sync --------------------------------------------------------------------------------------------------------
SHAPE_OF = {(f"m{s.m}n{s.n}k{s.k}", s.d, s.a, s.b, s.c, s.combine): s for s in MMA.values() if not (s.sparse or s.kind)}
_SPARSE_OF = {(f"m{s.m}n{s.n}k{s.k}", s.d, s.a, s.b, s.c): s for s in MMA.values() if s.sparse}
_NARROW_OF = {(s.kind, f"m{s.m}n{s.n}k{s.k}", s.d, s.a, s.b, s.c): s for s in MMA.values() if s.kind}
_FACTORS = {"scale_vec::1X": 0, "scale_vec::2X": 1, "scale_vec::4X": 2}
_SCALED = {
    "mxf8f6f4": (("scale_vec::1X", "ue8m0"),),
    "mxf4": (("scale_vec::2X", "ue8m0"),),
    "mxf4nvf4": (("scale_vec::2X", "ue8m0"), ("scale_vec::4X", "ue8m0"), ("scale_vec::4X", "ue4m3")),
}
"""kind -> number and type of the scale factors of a row; the first is the default"""
_PARTS_OF_WMMA = {"f16", "bf16"}


def multiply(e: Emitter, instruction: Instruction) -> None:
    """Lower mma.sync.aligned.shape.row.col{.satfinite}.d.a.b.c{.xor,.and}{.popc} d, a, b, c; ptxas also accepts
    `.satfinite` after the types."""
    if any(modifier.startswith("kind::") for modifier in instruction.modifiers):
        _multiply_narrow(e, instruction)
        return
    match instruction.modifiers:
        case ("sync", "aligned", shape, "row", "col", *rest):
            pass
        case (("sp" | "sp::ordered_metadata") as kind, "sync", "aligned", shape, "row", "col", *rest):
            _multiply_sparse(e, instruction, shape, rest, ordered=kind != "sp")
            return
        case _:
            raise UnhandledForm
    clamped = "satfinite" in (rest[0], rest[-1])
    if clamped:
        rest.remove("satfinite")
    types, how = tuple(rest[:4]), tuple(rest[4:])
    if how not in ((), ("xor", "popc"), ("and", "popc")) or len(types) != 4:
        raise UnhandledForm
    found = SHAPE_OF[(shape, *types, how[0] if how else "mul")]
    if (clamped and (found.combine != "mul" or found.d != "s32")) or (found.m == 8 and found.a in _PARTS_OF_WMMA):
        raise UnhandledForm
    d, a, b, c = instruction.operands
    counts, type_ = found.counts, found.register
    sources = [read_all(e, operand, n, type_) for operand, n in zip((a, b, c), counts[1:], strict=True)]
    results = targets(e, d, counts[0], type_)
    multiply_tiles(e, found, results, *sources, clamped=clamped)
    write_all(e, d, results)


def _multiply_narrow(e: Emitter, instruction: Instruction) -> None:
    """Lower mma.sync.aligned.kind::mxf8f6f4{.block_scale{.scale_vec::1X}}.shape.row.col.d.a.b.c{.stype} d, a, b, c{,
    factors of a, {byte, lanes}, factors of b, {byte, lane}}; ptxas also accepts the kind after `.col`."""
    modifiers = list(instruction.modifiers)
    kind, scaled, vector = (
        [m for m in modifiers if m.startswith(start)] for start in ("kind::", "block_scale", "scale_vec::")
    )
    rest = [m for m in modifiers if m not in (*kind, *scaled, *vector)]
    sync, aligned, shape, row, column, *types = rest
    if (sync, aligned, row, column) != ("sync", "aligned", "row", "col") or len(kind) > 1:
        raise UnhandledForm
    name = kind[0].removeprefix("kind::")
    auxiliary = 0
    factors: list[Register] = []
    if scaled:
        given = (vector[0] if vector else _SCALED[name][0][0], types.pop())
        if given not in _SCALED[name] or (not vector and name == "mxf4nvf4"):
            raise UnhandledForm
        count = _FACTORS[given[0]]
        auxiliary = count << FACTORS_SHIFT | FINE * (given[1] == "ue4m3")
        factors, places = _read_factors(e, instruction.operands[4:], count)
        auxiliary |= places
    elif name != "f8f6f4":
        raise UnhandledForm
    found = _NARROW_OF["mxf4" if name == "mxf4nvf4" else name, shape, *types]  # type: ignore[index]
    d, a, b, c = instruction.operands[:4]
    of_a, of_b, of_c = (
        read_all(e, operand, n - found.has_factors * (operand is not c), "b32")
        for operand, n in zip((a, b, c), found.counts[1:], strict=True)
    )
    if found.kind != "mxf4":
        of_a, of_b = _move_up(e, of_a, found.a), _move_up(e, of_b, found.b)
    results = targets(e, d, found.counts[0], "b32")
    operands = (*of_a, *factors[:1], *of_b, *factors[1:], *of_c, members(e))
    e.effect_into(found.name, operands, results, auxiliary=auxiliary)
    write_all(e, d, results)


def _read_factors(e: Emitter, operands: tuple[Operand, ...], count: int) -> tuple[list[Register], int]:
    """Return the registers with scale factors, and the fields of the aux that name their lanes and bytes."""
    of_a, places_a, of_b, places_b = operands
    places = [place for pair in (places_a, places_b) for place in e.elements(pair, 2)]
    factors = [*read_all(e, of_a, 1, "b32"), *read_all(e, of_b, 1, "b32")]  # in braces or not
    if not all(isinstance(place, Number) for place in places):
        return _select_factors(e, factors, [e.read(place, "b16") for place in places], count), 0
    byte_a, lanes_a, byte_b, lane_b = map(integer_constant, places)
    valid = range(0, 4, 1 << count)
    if byte_a not in valid or byte_b not in valid or lanes_a not in (0, 1) or not 0 <= lane_b < 4:
        raise UnhandledForm
    fields = byte_a << BYTE_A_SHIFT | byte_b << BYTE_B_SHIFT | lanes_a << LANE_A_SHIFT | lane_b << LANE_B_SHIFT
    return factors, fields


def _select_factors(e: Emitter, factors: list[Register], places: list[Register], count: int) -> list[Register]:
    """Move the factors that registers select, {byte, lanes} for each matrix, to where an instruction that selects byte
    0 of the first lanes reads them."""

    def number(value: int) -> Register:
        return e.constant("b32", value)

    lane = e.special("laneid")
    moved: list[Register] = []
    for factor, byte, provider, together in zip(factors, places[::2], places[1::2], (2, 1), strict=True):
        byte, provider = e.emit("cvt.b32.u16", byte), e.emit("cvt.b32.u16", provider)
        _check_places(e, byte, 4 - (1 << count), provider, 4 // together - 1)
        own = e.emit("and.b32", lane, number(0x1C | together - 1))
        source = e.emit("or.b32", own, e.emit("mul.b32", provider, number(together)))
        word = e.emit("shr.u32", factor, e.emit("shl.b32", byte, number(3)))
        moved += e.effect("shfl.idx.b32", (word, source, members(e)), ("b32",), 31)
    _check_agreement(e, places)  # of lanes that the shuffles have brought together
    return moved


def _check_agreement(e: Emitter, places: list[Register]) -> None:
    """Emit a test that all lanes select the same factors."""
    chosen = e.constant("b64", 0)
    for place in places:
        higher = e.emit("mul.b64", chosen, e.constant("b64", 1 << 16))
        chosen = e.emit("or.b64", higher, e.emit("cvt.b64.u16", place))
    (same,) = e.effect("alike.b64", (chosen, members(e)), ("p",))
    undefined_where(
        e, e.emit("not.pred", same), "scaled matrix multiply by lanes with different selectors of scale factors",
        "PTX: one byte and one lane, or pair of lanes, of a group of four provide the factors of a matrix",
        "give all lanes of the warp the same selectors",
    )  # fmt: skip


def _check_places(e: Emitter, byte: Register, bytes_: int, provider: Register, most: int) -> None:
    """Emit a test of the selectors of the factors of one matrix; the bits of `bytes_` are those of valid bytes."""
    outside = e.emit("and.b32", byte, e.constant("b32", ~bytes_ & _ALL))
    wrong = e.emit("setp.ne.b32", outside, e.constant("b32", 0))
    beyond = e.emit("setp.gt.u32", provider, e.constant("b32", most))
    undefined_where(
        e, e.emit("or.pred", wrong, beyond), "scaled matrix multiply with invalid selectors of scale factors",
        "PTX: another value of byte-id or thread-id is undefined behavior",
        "select a byte and lanes that the table of selectors lists",
    )  # fmt: skip


def _move_up(e: Emitter, registers: tuple[Register, ...], type_: str) -> tuple[Register, ...]:
    """Return registers with elements of fewer than 8 bits moved to the upper bits of their bytes."""
    if type_ in BYTE_FLOATS:
        return registers
    two, kept = e.constant("b32", 2), e.constant("b32", 0xFCFCFCFC)
    return tuple([e.emit("and.b32", e.emit("shl.b32", register, two), kept) for register in registers])


def _multiply_sparse(e: Emitter, instruction: Instruction, shape: str, rest: list[str], *, ordered: bool) -> None:
    """Lower mma.sp{::ordered_metadata}.sync.aligned.shape.row.col{.satfinite}.d.a.b.c d, a, b, c, metadata,
    selector."""
    clamped = "satfinite" in (rest[0], rest[-1])
    if clamped:
        rest.remove("satfinite")
    found = _SPARSE_OF[(shape, *rest)]  # type: ignore[index]
    if clamped and found.d != "s32":
        raise UnhandledForm
    d, a, b, c, metadata, selector = instruction.operands
    bits, chosen = e.read(metadata, "b32"), integer_constant(selector)
    check_metadata(e, found, bits, chosen, ordered=ordered)
    of_a = (*read_all(e, a, found.counts[1] - 1, "b32"), bits)
    of_b, of_c = (read_all(e, operand, n, "b32") for operand, n in zip((b, c), found.counts[2:], strict=True))
    results = targets(e, d, found.counts[0], "b32")
    auxiliary = SATURATES * clamped | chosen << SELECTOR_SHIFT
    e.effect_into(found.name, (*of_a, *of_b, *of_c, members(e)), results, auxiliary=auxiliary)
    write_all(e, d, results)


_NIBBLES = 0x11111111


def check_metadata(e: Emitter, shape: Mma, bits: Register, selector: int, *, ordered: bool) -> None:
    """Emit a test of the metadata that a lane provides, and reject a selector that selects no lanes."""
    if not 0 <= selector < 4 // shape.providers:
        raise UnhandledForm
    note = "PTX: the two indices of a chunk of four are different, in ascending order with `::ordered_metadata`"
    if shape.chunk == 2:
        rest = e.emit("xor.b32", bits, e.constant("b32", 4 * _NIBBLES))  # 0b0100 becomes 0, 0b1110 becomes 0b1010
        other = e.emit("and.b32", rest, e.constant("b32", 5 * _NIBBLES))
        unequal = e.emit("and.b32", e.emit("xor.b32", rest, _shift_right(e, rest, 2)), e.constant("b32", 2 * _NIBBLES))
        wrong = e.emit("setp.ne.b32", e.emit("or.b32", other, unequal), e.constant("b32", 0))
        note = "PTX: the metadata of a chunk of two `.tf32` are 0b0100 or 0b1110"
    else:
        low = e.emit("and.b32", bits, e.constant("b32", 3 * _NIBBLES))
        high = e.emit("and.b32", _shift_right(e, bits, 2), e.constant("b32", 3 * _NIBBLES))
        if ordered:  # bit 2 of 4 + high - low - 1
            up = e.emit("or.b32", high, e.constant("b32", 4 * _NIBBLES))
            some = e.emit("sub.b32", e.emit("sub.b32", up, low), e.constant("b32", _NIBBLES))
            mask = 4 * _NIBBLES
        else:
            differ = e.emit("xor.b32", low, high)
            some, mask = e.emit("or.b32", differ, _shift_right(e, differ, 1)), _NIBBLES
        kept = e.emit("and.b32", some, e.constant("b32", mask))
        wrong = e.emit("setp.ne.b32", kept, e.constant("b32", mask))
    if shape.providers < 4:
        number = e.emit("and.b32", e.special("laneid"), e.constant("b32", 3))
        if shape.providers == 2:
            number = _shift_right(e, number, 1)
        provides = e.emit("setp.eq.b32", number, e.constant("b32", selector))
        wrong = e.emit("and.pred", wrong, provides)
    undefined_where(
        e, wrong, "sparse matrix multiply with invalid metadata", note,
        "give each chunk the positions of its stored elements",
    )  # fmt: skip


def _shift_right(e: Emitter, value: Register, count: int) -> Register:
    return e.emit("shr.u32", value, e.constant("b32", count))


def multiply_tiles(
    e: Emitter,
    shape: Mma,
    results: tuple[Register, ...],
    a: tuple[Register, ...],
    b: tuple[Register, ...],
    c: tuple[Register, ...],
    *,
    clamped: bool,
) -> None:
    e.effect_into(shape.name, (*a, *b, *c, members(e)), results, auxiliary=SATURATES * clamped)


# -- ldmatrix, stmatrix, movmatrix -------------------------------------------------------------------------------------
_NUMBERS = {"x1": 1, "x2": 2, "x4": 4}


def _parse_matrix_shape(modifiers: tuple[str, ...]) -> tuple[int, str, str]:
    """Return (matrices, `.trans` or nothing, state space) of sync.aligned.m8n8.x4{.trans}{.shared}.b16, in which ptxas
    also accepts the shape after the number."""
    if modifiers[:2] != ("sync", "aligned"):
        raise UnhandledForm
    shape, number, trans, space, type_ = pick_flags(
        modifiers[2:], frozenset({"m8n8"}), frozenset(_NUMBERS), frozenset({"trans"}), frozenset(SHARED),
        frozenset({"b16"}),
    )  # fmt: skip
    if not (shape and number and type_) or modifiers[-1] != "b16":
        raise UnhandledForm
    return _NUMBERS[number], f".{trans}" if trans else "", "shared" if space else ""


class _Lanes:
    """Code that only the lanes which supply the address of a row execute, under the guard."""

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
    """Lower ldmatrix.sync.aligned.m8n8.num{.trans}{.shared}.b16 r, [row]."""
    count, trans, space = _parse_matrix_shape(instruction.modifiers)
    destination, source = instruction.operands
    address, offset, array = lower_address(e, source, space)
    with _Lanes(e, count):
        refuse_unless_shared(e, instruction, address, offset)
        own = space_bits(e, SHARED)
        rows = e.effect("ld.v4.b32", (address,), ("b32",) * 4, offset, own, array=array, element="uint16")
    results = targets(e, destination, count, "b32")
    e.effect_into(f"spread.x{count}{trans}", (*rows, members(e)), results)
    write_all(e, destination, results)


def store_matrix(e: Emitter, instruction: Instruction) -> None:
    """Lower stmatrix.sync.aligned.m8n8.num{.trans}{.shared}.b16 [row], r."""
    count, trans, space = _parse_matrix_shape(instruction.modifiers)
    destination, source = instruction.operands
    address, offset, array = lower_address(e, destination, space)
    name = f"collect.x{count}{trans}"
    values = read_all(e, source, count, "b32")
    rows = e.effect(name, (*values, members(e)), ("b32",) * move_counts(name)[0])
    with _Lanes(e, count):
        refuse_unless_shared(e, instruction, address, offset)
        own = space_bits(e, SHARED)
        e.effect("st.v4.b32", (address, *rows), (), offset, own, array=array, element="uint16")


def move_matrix(e: Emitter, instruction: Instruction) -> None:
    """Lower movmatrix.sync.aligned.m8n8.trans.b16 d, a."""
    if instruction.modifiers != ("sync", "aligned", "m8n8", "trans", "b16"):
        raise UnhandledForm
    destination, source = instruction.operands
    (result,) = e.effect("turn", (e.read(source, "b32"), members(e)), ("b32",))
    e.write_register(destination, result)


HANDLERS: dict[str, Handler] = {
    "mma": multiply,
    "ldmatrix": load_matrix,
    "stmatrix": store_matrix,
    "movmatrix": move_matrix,
}
