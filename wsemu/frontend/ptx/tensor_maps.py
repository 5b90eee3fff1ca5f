"""Tensor maps that a kernel changes (PTX ISA, "tensormap.replace", "tensormap.cp_fenceproxy"): the layout of the fields
is in `model/tensor_map.py`.

The fields are written as ptxas of CUDA 13.0 does.  Words 16 and 18, which the driver derives from others, are not
changed.  The TF32 bit stays set even if the new type is not TF32.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.frontend.ptx.forms import UnhandledForm
from wsemu.frontend.ptx.memory import (
    emit_segment_number,
    full_address,
    space_bits,
    undefined_outside_global,
    undefined_where,
)
from wsemu.frontend.ptx.syntax import Number
from wsemu.model.isa import LOCAL, OF_CTA_ALONE, PROXIES, PUBLISHED, PUBLISHED_IN_CTA
from wsemu.model.tensor_map import MAP_BYTES, MOST_RANK

if TYPE_CHECKING:
    from collections.abc import Callable

    from wsemu.frontend.assemble.graph import Register
    from wsemu.frontend.ptx.emit import Emitter
    from wsemu.frontend.ptx.syntax import Instruction, Operand

_SPACES = {"global": "global", "shared::cta": "shared"}
_STRIDES_IN_BYTES = 8.5
"""first PTX version in which a stride is in bytes; in earlier versions, it is in units of 16 bytes (ptxas of CUDA
12.5)"""
_FLAGS = {"interleave_layout": (11, 2, 3), "swizzle_mode": (13, 2, 4), "fill_mode": (15, 1, 2)}
"""field with an enumerated value -> (first bit in word 2, bits, number of values)"""
_NARROW = {"box_dim": 8, "element_stride": 3}
"""field with a number for each dimension, stored minus 1 -> its bits"""
_LAST_TYPE = 12
"""highest code of `elemtype`; 11 and 12 are TF32"""
_TF32, _WORD_OF_TYPE = 16, 2
_ALL_LANES = 0xFFFFFFFF


def change(e: Emitter, instruction: Instruction) -> None:
    """Lower `tensormap.replace` or `tensormap.cp_fenceproxy`."""
    kind, *modifiers = instruction.modifiers
    if kind == "replace":
        _replace(e, modifiers, instruction.operands)
    elif kind == "cp_fenceproxy":
        _copy(e, modifiers, instruction.operands)
    else:
        raise UnhandledForm


def _replace(e: Emitter, modifiers: list[str], operands: tuple[Operand, ...]) -> None:
    """Lower tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [map], 1, %r1."""
    mode, field, *rest = modifiers
    space = _SPACES[rest.pop(0)] if rest[0] in _SPACES else ""
    if mode != "tile" or rest not in (["b1024", "b32"], ["b1024", "b64"]):
        raise UnhandledForm
    own = space_bits(e, modifiers)
    place = full_address(e, operands[0], space)
    if not space and ".local" in e.module.file.text:
        undefined_where(
            e,
            e.emit("setp.eq.b64", emit_segment_number(e, place, 0), e.constant("b64", LOCAL)),
            "`tensormap.replace` of an address in local memory",
            "PTX: the behavior is undefined if the address is neither in global memory nor in shared memory of the CTA",
            "copy the tensor map to shared or global memory, and change it there",
        )
    if field in _NARROW:
        _extent_of_box(e, place, field, operands, own)
        return
    if field in ("global_dim", "global_stride"):
        at, value = operands[1:]
        if not isinstance(at, Number) or not 0 <= at.value < MOST_RANK - (field == "global_stride"):
            raise UnhandledForm
        (_extent if field == "global_dim" else _stride)(e, place, at.value, value, own)
        return
    (value,) = operands[1:]
    if field == "global_address":
        address = e.read(value, "b64")
        with e.looking_up():  # the address in a map is not used as a number
            word = e.emit("or.b64", address, address)
        e.effect("st.b64", (place, word), auxiliary=own)
    elif field == "rank":
        _write_field(e, place, 2, 4, 3, e.read(value, "b32"), own)
    elif field in _FLAGS and isinstance(value, Number) and 0 <= value.value < _FLAGS[field][2]:
        first, bits, _ = _FLAGS[field]
        _write_field(e, place, 2, first, bits, e.constant("b32", value.value), own)
    elif field == "elemtype" and isinstance(value, Number) and 0 <= value.value <= _LAST_TYPE:
        _type(e, place, value.value, own)
    else:
        raise UnhandledForm


def _write_field(e: Emitter, place: Register, word: int, first: int, bits: int, value: Register, own: int) -> None:
    """Write bits of a word of the map; `own` as in `space_bits`."""
    (old,) = e.effect("ld.b32", (place,), ("b32",), immediate=4 * word, auxiliary=own)
    mask = (1 << bits) - 1
    kept = e.emit("and.b32", old, e.constant("b32", ~(mask << first)))
    part = e.emit("shl.b32", e.emit("and.b32", value, e.constant("b32", mask)), e.constant("b32", first))
    e.effect("st.b32", (place, e.emit("or.b32", kept, part)), immediate=4 * word, auxiliary=own)


def _extent_of_box(e: Emitter, place: Register, field: str, operands: tuple[Operand, ...], own: int) -> None:
    """Write `box_dim` or `element_stride` of a dimension."""
    _, at, value = operands
    if not isinstance(at, Number) or not 0 <= at.value < MOST_RANK:
        raise UnhandledForm
    bits = _NARROW[field]
    one_less = e.emit("sub.b32", e.read(value, "b32"), e.constant("b32", 1))
    if field == "element_stride":
        _write_field(e, place, 13, bits * at.value, bits, one_less, own)
    elif at.value:
        _write_field(e, place, 14, bits * (at.value - 1), bits, one_less, own)
    else:
        _write_field(e, place, 13, 24, bits, one_less, own)


def _type(e: Emitter, place: Register, code: int, own: int) -> None:
    """Write the element type: codes 11 and 12 are f32 and f32.ftz, plus a bit for loads that round to TF32."""
    rounds = code > _LAST_TYPE - 2
    if rounds:
        _write_field(e, place, _WORD_OF_TYPE, _TF32, 1, e.constant("b32", 1), own)
    _write_field(e, place, _WORD_OF_TYPE, 7, 4, e.constant("b32", code - 4 if rounds else code), own)


def _extent(e: Emitter, place: Register, at: int, value: Operand, own: int) -> None:
    one_less = e.emit("sub.b32", e.read(value, "b32"), e.constant("b32", 1))
    e.effect("st.b32", (place, one_less), immediate=4 * (8 + at), auxiliary=own)


def _stride(e: Emitter, place: Register, at: int, value: Operand, own: int) -> None:
    """Write a stride: 36 bits, in units of 16 bytes, of which 32 are in a word of their own."""
    units = e.read(value, "b64")
    if float(e.module.file.version) >= _STRIDES_IN_BYTES:
        units = e.emit("shr.u64", units, e.constant("b64", 4))
    e.effect("st.b32", (place, e.emit("cvt.b32.s64", units)), immediate=4 * (3 + at), auxiliary=own)
    high = e.emit("cvt.b32.s64", e.emit("shr.u64", units, e.constant("b64", 32)))
    _write_field(e, place, 7, 4 * at, 4, high, own)


def _copy(e: Emitter, modifiers: list[str], operands: tuple[Operand, ...]) -> None:
    """Lower tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [to], [from], 128:
    each lane copies a word."""
    to, origin, proxies, order, scope, *how = modifiers
    known = (to, origin, proxies, order) == ("global", "shared::cta", "tensormap::generic", "release")
    size = operands[2] if len(operands) == 3 else None
    whole = isinstance(size, Number) and size.value == MAP_BYTES
    if not known or scope not in ("cta", "cluster", "gpu", "sys") or how != ["sync", "aligned"] or not whole:
        raise UnhandledForm
    all_lanes = e.constant("b32", _ALL_LANES)
    (here,) = e.effect("vote.ballot", (e.constant("p", True), all_lanes), ("b32",))
    undefined_where(
        e,
        e.emit("setp.ne.b32", here, all_lanes),
        "`tensormap.cp_fenceproxy` by a part of a warp",
        "PTX: all threads of the warp execute the same instruction; otherwise the behavior is undefined",
        "execute it by whole warps",
    )
    lane = e.emit("cvt.b64.u32", e.emit("shl.b32", e.special("laneid"), e.constant("b32", 2)))
    source, target = (full_address(e, operands[n], space) for n, space in ((1, "shared"), (0, "global")))
    (word,) = e.effect("ld.b32", (e.emit("add.b64", source, lane),), ("b32",), auxiliary=space_bits(e, (origin,)))
    published = PUBLISHED_IN_CTA if scope == "cta" else PUBLISHED
    e.effect("st.b32", (e.emit("add.b64", target, lane), word), auxiliary=published | space_bits(e, (to,)))
    e.effect("syncwarp", (all_lanes,))


def fence(e: Emitter, kind: str, operands: tuple[Operand, ...]) -> None:
    """Lower fence.proxy.tensormap::generic.release.gpu and fence.proxy.tensormap::generic.acquire.gpu [map], 128."""
    _, order, scope = kind.rsplit(".", 2)
    if len(operands) != 2 * (order == "acquire"):
        raise UnhandledForm
    if operands and not (isinstance(operands[1], Number) and operands[1].value == MAP_BYTES):
        raise UnhandledForm
    places = tuple([full_address(e, operand, "") for operand in operands[:1]])
    for place in places:
        undefined_outside_global(e, place, f"fence.proxy.{kind}")
    if e.reached.copies_tiles:
        e.effect(f"map.{order}", places, auxiliary=OF_CTA_ALONE * (scope == "cta"))
    else:
        e.effect("fence.proxy", immediate=PROXIES.index(kind))


HANDLERS: dict[str, Callable[[Emitter, Instruction], None]] = {"tensormap": change}
