"""tcgen05: tensor memory, and matrix operations on it (PTX ISA 9.7.16).

Not modeled: `shift`, `ashift`, `alloc.exclusive`, reductions of `ld`, scale-input-d, zero-column masks except 0, and
all instructions of sm_107.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.frontend.ptx.copies import cta_mask, integer_constant
from wsemu.frontend.ptx.forms import UnhandledForm, pick_flags
from wsemu.frontend.ptx.matrix import read_all, targets, write_all
from wsemu.frontend.ptx.memory import full_address
from wsemu.frontend.ptx.syntax import Address, Number, Vector
from wsemu.model.tensor_memory import (
    BUFFER_SHIFT,
    COLLECT_SHIFT,
    COLLECTS,
    CP_SHAPES,
    DECOMPRESS_SHIFT,
    DECOMPRESSIONS,
    KINDS,
    MASKED,
    MOST_REGISTERS,
    MULTICAST,
    OF_STORES,
    OFFSET_SHIFT,
    PACKED,
    PAIR,
    REPEAT_SHIFT,
    SCALED,
    SHAPES,
    SPARSE,
    TENSOR_A,
    VECTOR_SHIFT,
    WEIGHTS,
    move_registers,
)

if TYPE_CHECKING:
    from wsemu.frontend.assemble.graph import Register
    from wsemu.frontend.ptx.emit import Emitter, Handler
    from wsemu.frontend.ptx.syntax import Instruction, Operand

Flags = tuple[str, ...]
_WHOLE = ("sync", "aligned")
_GROUPS = {"cta_group::1": 0, "cta_group::2": PAIR}
_SHARED = frozenset({"shared::cta", "shared::cluster"})
_REPEATS = {f"x{1 << n}": n for n in range(8)}


def _place(e: Emitter, operand: Operand) -> Register:
    """Return the address in tensor memory of `[%r1+8]`."""
    if not isinstance(operand, Address):
        raise e.error(operand.at, "an address in tensor memory belongs here", "write it in brackets: `[%r1]`")
    base = e.read(operand.base, "b32")
    return e.emit("add.b32", base, e.constant("b32", operand.offset)) if operand.offset else base


def _alloc(e: Emitter, flags: Flags, operands: tuple[Operand, ...]) -> None:
    """Lower alloc.cta_group::1.sync.aligned{.shared::cta}.b32 [to], columns."""
    group, *rest = flags
    space = rest[2:-1]
    if tuple(rest[:2]) != _WHOLE or rest[-1] != "b32" or space not in ([], ["shared::cta"]):
        raise UnhandledForm
    to, columns = operands
    where = full_address(e, to, "shared" if space else "")
    e.effect("tcgen05.alloc", (where, e.read(columns, "b32")), auxiliary=_GROUPS[group])


def _dealloc(e: Emitter, flags: Flags, operands: tuple[Operand, ...]) -> None:
    """Lower dealloc.cta_group::1.sync.aligned.b32 address, columns."""
    group, *rest = flags
    if tuple(rest) != (*_WHOLE, "b32"):
        raise UnhandledForm
    at, columns = operands
    e.effect("tcgen05.dealloc", (e.read(at, "b32"), e.read(columns, "b32")), auxiliary=_GROUPS[group])


def _relinquish(e: Emitter, flags: Flags, operands: tuple[Operand, ...]) -> None:
    () = operands
    group, *rest = flags
    if tuple(rest) != _WHOLE:
        raise UnhandledForm
    e.effect("tcgen05.relinquish", auxiliary=_GROUPS[group])


# -- ld, st, wait ------------------------------------------------------------------------------------------------------


def _move_auxiliary(flags: Flags, packing: str) -> int:
    """Return the aux of a ld or st such as sync.aligned.32x32b.x4{.pack::16b}.b32."""
    whole, (shape, repeat, *packed, type_) = flags[:2], flags[2:]
    if whole != _WHOLE or type_ != "b32" or packed not in ([], [packing]):
        raise UnhandledForm
    auxiliary = SHAPES.index(shape) | _REPEATS[repeat] << REPEAT_SHIFT | PACKED * bool(packed)
    if move_registers(auxiliary) > MOST_REGISTERS:
        raise UnhandledForm
    return auxiliary


def _split(auxiliary: int, distance: list[Operand]) -> int:
    """Return the aux bits of the distance between the halves of 16x32bx2; other shapes have none."""
    if len(distance) != (SHAPES[auxiliary & 7] == "16x32bx2"):
        raise UnhandledForm
    return sum(integer_constant(operand) << OFFSET_SHIFT for operand in distance)


def _load(e: Emitter, flags: Flags, operands: tuple[Operand, ...]) -> None:
    auxiliary = _move_auxiliary(flags, "pack::16b")
    to, at, *distance = operands
    auxiliary |= _split(auxiliary, distance)
    results = targets(e, to, move_registers(auxiliary), "b32")
    e.effect_into("tcgen05.ld", (_place(e, at),), results, auxiliary=auxiliary)
    write_all(e, to, results)


def _store(e: Emitter, flags: Flags, operands: tuple[Operand, ...]) -> None:
    auxiliary = _move_auxiliary(flags, "unpack::16b")
    at, *distance, source = operands
    auxiliary |= _split(auxiliary, distance)
    values = read_all(e, source, move_registers(auxiliary), "b32")
    e.effect("tcgen05.st", (_place(e, at), *values), auxiliary=auxiliary)


def _wait(stores: int) -> _Form:
    def lower(e: Emitter, flags: Flags, operands: tuple[Operand, ...]) -> None:
        () = operands
        if flags != _WHOLE:
            raise UnhandledForm
        e.effect("tcgen05.wait", auxiliary=stores)

    return lower


def _fence(after: int) -> _Form:
    def lower(e: Emitter, flags: Flags, operands: tuple[Operand, ...]) -> None:
        () = operands
        () = flags
        e.effect("tcgen05.fence", auxiliary=after)

    return lower


# -- cp, commit --------------------------------------------------------------------------------------------------------

_CP = {
    **{frozenset({shape}): n for n, shape in enumerate(CP_SHAPES[:3])},
    frozenset({"64x128b", "warpx2::02_13"}): 3,
    frozenset({"64x128b", "warpx2::01_23"}): 4,
    frozenset({"32x128b", "warpx4"}): 5,
}
"""numbers of shapes and multicasts: `ptxas` accepts them in any order, and Triton writes the multicast first"""


def _copy(e: Emitter, flags: Flags, operands: tuple[Operand, ...]) -> None:
    """Lower cp.cta_group::1.32x128b.warpx4{.b8x16.b4x16_p64} [to], descriptor."""
    group, *rest = flags
    packed = ""
    if "b8x16" in rest:
        at = rest.index("b8x16")
        packed = rest[at + 1]
        rest = [*rest[:at], *rest[at + 2 :]]
    to, source = operands
    auxiliary = _CP[frozenset(rest)] | _GROUPS[group] | DECOMPRESSIONS.index(packed) << DECOMPRESS_SHIFT
    e.effect("tcgen05.cp", (_place(e, to), e.read(source, "b64")), auxiliary=auxiliary)


def _commit(e: Emitter, flags: Flags, operands: tuple[Operand, ...]) -> None:
    """Lower commit.cta_group::1.mbarrier::arrive::one{.shared::cluster}{.multicast::cluster}.b64 [bar]{, ctas}."""
    group, *rest = flags
    one, space, many, type_ = pick_flags(
        tuple(rest), frozenset({"mbarrier::arrive::one"}), _SHARED, frozenset({"multicast::cluster"}),
        frozenset({"b64"}),
    )  # fmt: skip
    bar, *mask = operands
    if not one or not type_ or len(mask) != bool(many):
        raise UnhandledForm
    ctas = cta_mask(e, mask[0]) if mask else e.constant("b32", 0)
    where = full_address(e, bar, "shared" if space else "")
    e.effect("tcgen05.commit", (where, ctas), auxiliary=_GROUPS[group] | MULTICAST * bool(many))


# -- mma ---------------------------------------------------------------------------------------------------------------

_VECTORS = {"scale_vec::1X": 0, "scale_vec::2X": 1, "scale_vec::4X": 2, "block16": 2}


def _factor_count(kind: str, named: str) -> int:
    """Return log2 of the scale factors of a row (PTX ISA, "tcgen05.mma", table of `.scale_vectorsize`)."""
    allowed = {"mxf8f6f4": (0,), "mxf4": (1,), "mxf4nvf4": (1, 2)}[kind]
    if not named and len(allowed) > 1:
        raise UnhandledForm
    found = allowed[0] if named in ("", "block32") else _VECTORS[named]
    if found not in allowed or (named == "block16" and kind != "mxf4nvf4"):
        raise UnhandledForm
    return found


def _collector_auxiliary(flag: str, buffers: tuple[str, ...]) -> int:
    """Return the aux of `collector::a::fill`, or of `collector::b1::use` where there are several buffers."""
    if not flag:
        return 0
    _, buffer, use = flag.split("::")
    return COLLECTS.index(use) << COLLECT_SHIFT | buffers.index(buffer) << BUFFER_SHIFT


def _multiply(e: Emitter, flags: Flags, operands: tuple[Operand, ...]) -> None:
    """Lower mma{.ws}{.sp}.cta_group::1.kind::f16{.block_scale{.block32}}{.collector::a::use} [d], a, b, {[m],} i, ...,
    p."""
    weights = flags[:1] == ("ws",)
    sparse = flags[weights : weights + 1] == ("sp",)
    group, kind, *rest = flags[weights + sparse :]
    number = KINDS.index(kind.removeprefix("kind::"))
    scaled, vector, *collected = pick_flags(
        tuple(rest), frozenset({"block_scale"}), frozenset({*_VECTORS, "block32"}),
        frozenset(flag for flag in rest if flag.startswith("collector::")),
    )  # fmt: skip
    if bool(scaled) != (number >= SCALED) or (vector and not scaled) or (weights and scaled):
        raise UnhandledForm
    if weights and _GROUPS[group]:
        raise UnhandledForm
    auxiliary = _GROUPS[group] | number | WEIGHTS * weights | SPARSE * sparse
    auxiliary |= _collector_auxiliary(collected[0], ("b0", "b1", "b2", "b3") if weights else ("a",))
    if scaled:
        auxiliary |= _factor_count(KINDS[number], vector) << VECTOR_SHIFT
    d, a, b, *metadata = operands[: 3 + sparse]
    i, *more = operands[3 + sparse :]
    auxiliary |= TENSOR_A * isinstance(a, Address)
    factors, more = (more[:2], more[2:]) if scaled else ([], more)
    masks: list[Register] = []
    if more and isinstance(more[0], Vector):
        masks = list(read_all(e, more[0], 8 if _GROUPS[group] else 4, "b32"))
        auxiliary |= MASKED
        more = more[1:]
    uses, *last = more
    if weights and len(last) == 1 and isinstance(last[0], Number) and not last[0].value:
        last = []  # a zero-column mask that selects no column
    if last:  # scale-input-d, or a zero-column mask
        raise UnhandledForm
    _emit_multiply(e, auxiliary, (d, a, b, i, uses), factors, metadata, masks)


def _emit_multiply(
    e: Emitter,
    auxiliary: int,
    operands: tuple[Operand, Operand, Operand, Operand, Operand],
    factors: list[Operand],
    metadata: list[Operand],
    masks: list[Register],
) -> None:
    d, a, b, i, uses = operands
    of_a = e.resize(_place(e, a), 64) if auxiliary & TENSOR_A else e.read(a, "b64")
    used = e.constant("p", bool(uses.value)) if isinstance(uses, Number) else e.read(uses, "p")
    nothing = e.constant("b32", 0)
    scales = [_place(e, factor) for factor in factors] or [nothing, nothing]
    selected = _place(e, metadata[0]) if metadata else nothing
    rows = (_place(e, d), *scales, selected, *masks) if factors or metadata or masks else (_place(e, d),)
    e.effect("tcgen05.mma", (of_a, e.read(b, "b64"), e.read(i, "b32"), used, *rows), auxiliary=auxiliary)


# -- all ---------------------------------------------------------------------------------------------------------------

if TYPE_CHECKING:
    from collections.abc import Callable

    _Form = Callable[[Emitter, Flags, tuple[Operand, ...]], None]
_FORMS: dict[str, _Form] = {
    "alloc": _alloc,
    "dealloc": _dealloc,
    "relinquish_alloc_permit": _relinquish,
    "ld": _load,
    "st": _store,
    "wait::ld": _wait(0),
    "wait::st": _wait(OF_STORES),
    "fence::before_thread_sync": _fence(0),
    "fence::after_thread_sync": _fence(OF_STORES),
    "cp": _copy,
    "commit": _commit,
    "mma": _multiply,
}


def tensor_memory(e: Emitter, instruction: Instruction) -> None:
    word, *flags = instruction.modifiers
    form = _FORMS.get(word)
    if form is None:
        e.emit_unsupported()
        return
    form(e, tuple(flags), instruction.operands)


HANDLERS: dict[str, Handler] = {"tcgen05": tensor_memory}
