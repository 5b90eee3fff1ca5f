"""Fetches from textures: `tex`, `tld4`, `txq` (PTX ISA 9.7.10; CUDA C++ Programming Guide, "Texture Fetching").

A handle is the address of a description (`model/texture.py`), which is read at each fetch, as are the texels.  The
loads require bytes that no thread writes during the launch, as texture caches do.  Coordinates and filters are lowered
to arithmetic of the bytecode, without branches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from wsemu.frontend.assemble.graph import TRUE
from wsemu.frontend.ptx.forms import UnhandledForm
from wsemu.frontend.ptx.memory import refuse_where, spelling
from wsemu.frontend.ptx.syntax import Address, Vector
from wsemu.frontend.ptx.texture_filter import corner_weights, filter_channel
from wsemu.model.isa import BY_TEXTURE, NON_COHERENT
from wsemu.model.texture import (
    BORDER,
    CLAMP,
    FLOATS,
    GEOMETRIES,
    HALF,
    INTEGERS,
    MIRROR,
    SIGNED,
    SNORM,
    SURFACE,
    UNORM,
    WRAP,
    Word,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from wsemu.frontend.assemble.graph import Register
    from wsemu.frontend.ptx.emit import Emitter
    from wsemu.frontend.ptx.syntax import Instruction, Operand

CHANNELS = 4
LEVELS = frozenset({"base", "level", "grad"})
"""mipmap modes; each texture has one level here"""
_SIZES = {1: "ld.b8", 2: "ld.b16", 4: "ld.b32", 8: "ld.v2.b32", 16: "ld.v4.b32"}
"""bytes of a texel -> load operation"""


class Described:
    """The description of a texture or surface, loaded from a handle."""

    def __init__(self, e: Emitter, handle: Register) -> None:
        self._e, self._handle = e, handle
        self._quads: dict[int, tuple[Register, ...]] = {}

    def word(self, word: Word, more: int = 0) -> Register:
        """Return a word of the description, b32."""
        quad, place = divmod(word + more, 4)
        if quad not in self._quads:
            types = ("b32",) * 4
            found = self._e.effect("ld.v4.b32", (self._handle,), types, 16 * quad, NON_COHERENT | BY_TEXTURE)
            self._quads[quad] = found
        return self._quads[quad][place]

    def pair(self, word: Word) -> Register:
        """Return two words as b64."""
        e = self._e
        high = e.emit("shl.b64", e.emit("cvt.b64.u32", self.word(word, 1)), e.constant("b64", 32))
        return e.emit("or.b64", e.emit("cvt.b64.u32", self.word(word)), high)

    def extent(self, axis: int) -> Register:
        """Return the number of texels along x, y or z."""
        return self.word(Word.WIDTH, axis)

    def admit(self, kind: int, geometry: str, what: str) -> None:
        """End the run if the handle refers to anything but this kind and geometry."""
        e = self._e
        other = e.emit("setp.ne.b32", self.word(Word.KIND), e.constant("b32", kind))
        shape = e.constant("b32", GEOMETRIES.index(geometry))
        wrong = e.emit("or.pred", other, e.emit("setp.ne.b32", self.word(Word.SHAPE), shape))
        refuse_where(e, wrong, what)

    def equals(self, word: Word, value: int, more: int = 0) -> Register:
        """Return whether a word has this value."""
        return self._e.emit("setp.eq.b32", self.word(word, more), self._e.constant("b32", value))

    def address(self, place: tuple[Register, ...], layer: Register | None, unit: Register) -> Register:
        """Return the address of the element at x (in units of `unit` bytes), y, z (b32), in a layer."""
        e = self._e
        address = e.emit("add.b64", self.pair(Word.ADDRESS), self._product(place[0], e.emit("cvt.b64.u32", unit)))
        if len(place) > 1:
            address = e.emit("add.b64", address, self._product(place[1], self.pair(Word.ROW)))
        outer = layer if layer is not None else place[2] if len(place) > 2 else None
        if outer is not None:
            address = e.emit("add.b64", address, self._product(outer, self.pair(Word.SLICE)))
        return address

    def _product(self, count: Register, step: Register) -> Register:
        e = self._e
        return e.emit("mul.b64", e.emit("cvt.b64.u32", count), step)


def handle_and_coordinates(e: Emitter, operand: Operand) -> tuple[Register, tuple[Operand, ...]]:
    """Return the parts of `[%rd1, {%f1, %f2}]`."""
    if not isinstance(operand, Vector) or not isinstance(operand.items[0], Address) or len(operand.items) != 2:
        raise UnhandledForm
    where = operand.items[1]
    items = where.items if isinstance(where, Vector) else (where,)
    return e.read(operand.items[0], "b64"), items


def layer_and_rest(
    e: Emitter, geometry: str, given: tuple[Operand, ...], described: Described
) -> tuple[Register | None, tuple[Operand, ...]]:
    """Return the layer, clamped to the existing ones, and the operands of the other coordinates."""
    axes = int(geometry[-2])
    layered = geometry[0] == "a"
    wanted = axes + layered
    if len(given) < wanted:
        raise UnhandledForm
    layer = None
    if layered:
        last = e.emit("sub.b32", described.word(Word.LAYERS), e.constant("b32", 1))
        layer = e.emit("min.u32", e.read(given[0], "b32"), last)
    return layer, given[layered:wanted]


# -- coordinates -------------------------------------------------------------------------------------------------------
class Along(NamedTuple):
    """A coordinate along one dimension, resolved to a texel, the next texel for the linear filter, and its weight."""

    texels: tuple[Register, Register]
    inside: tuple[Register, Register]
    """predicates: whether the two are texels, not the border"""
    weight: Register
    """weight of the second corner, in 256ths"""


def _along(e: Emitter, described: Described, axis: int, x: Register, linear: Register, gathers: bool = False) -> Along:
    """Resolve a coordinate in f32; with `gathers`, for the four texels of a cell that may be outside."""
    place = _scale_to_512ths(e, described, axis, x)
    half = e.emit("shr.s64", e.emit("add.b64", place, e.constant("b64", 1)), e.constant("b64", 1))
    half = e.emit("sub.b64", half, e.constant("b64", 128))  # in 256ths, relative to the center of the first texel
    if not gathers:
        half = e.emit("selp.b64", _between(e, described, axis, half), half, described.equals(Word.MODE, CLAMP, axis))
    cell = e.emit("shr.s64", half, e.constant("b64", 8))
    nearest = e.emit("shr.s64", place, e.constant("b64", 9))
    first = e.emit("cvt.b32.s64", e.emit("selp.b64", cell, nearest, linear))
    weight = e.emit("cvt.b32.s64", e.emit("and.b64", half, e.constant("b64", 255)))
    return _texel_pair(e, described, axis, first, e.emit("selp.b32", weight, e.constant("b32", 0), linear))


def _between(e: Emitter, described: Described, axis: int, half: Register) -> Register:
    """Return a position between the centers of the first and the last texel, in 256ths."""
    last = e.emit("sub.b64", e.emit("cvt.b64.u32", described.extent(axis)), e.constant("b64", 1))
    above = e.emit("max.s64", half, e.constant("b64", 0))
    return e.emit("min.s64", above, e.emit("shl.b64", last, e.constant("b64", 8)))


_WHOLE = 21
"""fraction bits that a normalized coordinate keeps (measured)"""


def _scale_to_512ths(e: Emitter, described: Described, axis: int, x: Register) -> Register:
    """Return a coordinate in 512ths of a texel, rounded down, b64; a coordinate far outside stays far outside.

    A normalized coordinate is truncated to 21 fraction bits before it is scaled.  If it repeats, only its position
    within two repetitions matters.  A nan is 0, and so is an infinity that repeats (measured).
    """
    normalized = e.emit("setp.ne.b32", described.word(Word.NORMALIZED), e.constant("b32", 0))
    wraps, mirrors = (described.equals(Word.MODE, mode, axis) for mode in (WRAP, MIRROR))
    flushed = e.emit("ftz.f32", x)
    number = e.emit("selp.b32", flushed, e.constant("b32", 0), e.emit("setp.eq.f32", x, x))
    unit = _select_constant(e, normalized, float(1 << _WHOLE), 512.0)
    units = e.emit("cvt.rmi.f64.f64", e.emit("mul.f64", e.emit("cvt.f64.f32", number), unit))
    most = _select_constant(e, normalized, float(2 << _WHOLE), float(1 << 39))
    least = _select_constant(e, normalized, -float(2 << _WHOLE), -float(1 << 39))
    within = e.emit("min.f64", e.emit("max.f64", units, least), most)
    period = _float64_constant(e, float(2 << _WHOLE))
    times = e.emit("cvt.rmi.f64.f64", e.emit("div.f64", units, period))
    rest = e.emit("sub.f64", units, e.emit("mul.f64", times, period))
    rest = e.emit("selp.b64", rest, _float64_constant(e, 0.0), e.emit("setp.eq.f64", rest, rest))
    repeated = e.emit("selp.b64", rest, within, e.emit("or.pred", wraps, mirrors))
    whole = e.emit("cvt.rzi.s64.f64", repeated)
    texels = e.emit("mul.b64", whole, e.emit("cvt.b64.u32", described.extent(axis)))
    return e.emit("selp.b64", e.emit("shr.s64", texels, e.constant("b64", _WHOLE - 9)), whole, normalized)


def _float64_constant(e: Emitter, value: float) -> Register:
    return e.constant("b64", int(np.float64(value).view(np.uint64)))


def _select_constant(e: Emitter, condition: Register, value: float, other: float) -> Register:
    return e.emit("selp.b64", _float64_constant(e, value), _float64_constant(e, other), condition)


def _texel_pair(e: Emitter, described: Described, axis: int, first: Register, weight: Register) -> Along:
    """Resolve a texel's number and the next one, which may be outside."""
    extent = described.extent(axis)
    wraps, mirrors, border = (described.equals(Word.MODE, mode, axis) for mode in (WRAP, MIRROR, BORDER))
    zero, one = e.constant("b32", 0), e.constant("b32", 1)
    last = e.emit("sub.b32", extent, one)
    twice = e.emit("add.b32", extent, extent)
    texels, inside = [], []
    for index in (first, e.emit("add.b32", first, one)):
        clamped = e.emit("min.s32", e.emit("max.s32", index, zero), last)
        texel = e.emit("selp.b32", e.emit("floormod.s32", index, extent), clamped, wraps)
        there = e.emit("floormod.s32", index, twice)
        back = e.emit("sub.b32", e.emit("sub.b32", twice, one), there)
        mirrored = e.emit("min.s32", there, back)
        texels.append(e.emit("selp.b32", mirrored, texel, mirrors))
        out = e.emit("setp.ge.u32", index, extent)
        inside.append(e.emit("not.pred", e.emit("and.pred", border, out)))
    return Along((texels[0], texels[1]), (inside[0], inside[1]), weight)


def _whole(e: Emitter, described: Described, axis: int, index: Register) -> Along:
    """Resolve an integer coordinate: in any mode, a texel outside does not exist (`tex1Dfetch`; for more dimensions,
    measured)."""
    extent = described.extent(axis)
    inside = e.emit("setp.lt.u32", index, extent)
    return Along((e.emit("selp.b32", index, e.constant("b32", 0), inside),) * 2, (inside,) * 2, e.constant("b32", 0))


# -- texels ------------------------------------------------------------------------------------------------------------
def _raw(e: Emitter, described: Described, address: Register, where: Register) -> list[Register]:
    """Return the 16 bytes of a texel, with zeros after its end and in lanes for which `where` is false."""
    words = [e.graph.new("b32") for _ in range(CHANNELS)]
    for word in words:
        e.assign(word, "mov.b32", e.constant("b32", 0))
    for size, operation in _SIZES.items():
        given = _apply_guard(e, e.emit("and.pred", where, described.equals(Word.TEXEL, size)))
        count = max(size // 4, 1)
        type_ = "b32" if size >= 4 else f"b{8 * size}"
        with_guard = e.guard, e.negated
        e.guard, e.negated = given, False
        parts = e.effect(operation, (address,), (type_,) * count, 0, NON_COHERENT | BY_TEXTURE)
        for word, part in zip(words, parts, strict=False):
            e.effect_into("mov.b32" if size >= 4 else f"cvt.b32.u{8 * size}", (part,), (word,))
        e.guard, e.negated = with_guard
    return words


def _apply_guard(e: Emitter, condition: Register) -> Register:
    """Return a condition combined with the guard of the instruction."""
    if e.guard == TRUE:
        return condition
    return e.emit("andn.pred" if e.negated else "and.pred", condition, e.guard)


def _channel(e: Emitter, described: Described, words: list[Register], channel: int) -> Register:
    """Return the 32 bits that a fetch returns for a channel."""
    eight, sixteen = (described.equals(Word.BITS, bits) for bits in (8, 16))
    byte = e.emit("bfe.u32", words[0], e.constant("b32", 8 * channel), e.constant("b32", 8))
    short = e.emit("bfe.u32", words[channel // 2], e.constant("b32", 16 * (channel % 2)), e.constant("b32", 16))
    raw = e.emit("selp.b32", short, words[channel], sixteen)
    raw = e.emit("selp.b32", byte, raw, eight)
    above = e.emit("sub.b32", e.constant("b32", 32), described.word(Word.BITS))
    signed = e.emit("shr.s32", e.emit("shl.b32", raw, above), above)
    result = raw
    made = {
        SIGNED: signed,
        UNORM: _part(e, e.emit("cvt.rn.f32.u32", raw), eight, 255, 65535),
        SNORM: _part(e, e.emit("cvt.rn.f32.s32", signed), eight, 127, 32767),
        HALF: e.emit("cvt.f32.f16", e.emit("cvt.b16.s32", raw)),
    }  # fmt: skip
    for number, value in made.items():
        result = e.emit("selp.b32", value, result, described.equals(Word.READ, number))
    return result


def _part(e: Emitter, number: Register, eight: Register, of_byte: int, of_short: int) -> Register:
    """Return a number divided by the largest number of its type."""
    largest = [e.emit("cvt.rn.f32.u32", e.constant("b32", n)) for n in (of_byte, of_short)]
    return e.emit("div.f32", number, e.emit("selp.b32", *largest, eight))


class _Fetch:
    """One fetch: its coordinates, its layer, and its border mode."""

    def __init__(
        self, e: Emitter, described: Described, along: list[Along], layer: Register | None, has_border: bool = True
    ) -> None:
        """With `has_border`, texels outside have the border color; otherwise they are zeros."""
        self._e, self._described, self._along, self._layer = e, described, along, layer
        self._has_border = has_border

    def texel(self, corner: tuple[int, ...], where: Register) -> list[Register]:
        """Return the channels of a corner, read if `where` holds; outside, those of the border."""
        e, described = self._e, self._described
        inside = self.inside(corner)
        place = tuple(along.texels[n] for along, n in zip(self._along, corner, strict=True))
        address = described.address(place, self._layer, described.word(Word.TEXEL))
        words = _raw(e, described, address, e.emit("and.pred", inside, where))
        found = [_channel(e, described, words, channel) for channel in range(CHANNELS)]
        border = [e.constant("b32", 0)] * CHANNELS
        if self._has_border:
            border = [described.word(Word.BORDER, channel) for channel in range(CHANNELS)]
        return [e.emit("selp.b32", x, other, inside) for x, other in zip(found, border, strict=True)]

    def inside(self, corner: tuple[int, ...]) -> Register:
        """Return whether a corner is inside of the border."""
        first, *others = (along.inside[n] for along, n in zip(self._along, corner, strict=True))
        for other in others:
            first = self._e.emit("and.pred", first, other)
        return first

    def point(self) -> list[Register]:
        """Return the channels of the nearest texel."""
        return [self.clamp_level(x) for x in self._nearest()]

    def _nearest(self) -> list[Register]:
        return self.texel((0,) * len(self._along), self._e.constant("p", 1))

    def clamp_level(self, x: Register) -> Register:
        """Map the smallest integer to -1, the value of the next larger one; the filter still distinguishes the two."""
        e = self._e
        cut = e.emit("max.f32", x, e.constant("b32", 0xBF800000))
        return e.emit("selp.b32", cut, x, self._described.equals(Word.READ, SNORM))

    def filter_texels(self, linear: Register) -> list[Register]:
        """Return the filtered channels; those of the nearest texel if the filter is not linear."""
        e = self._e
        corners = corner_weights(e, [along.weight for along in self._along])
        nearest = self._nearest()
        texels = {
            corner: self.texel(corner, e.emit("and.pred", linear, weight.counts)) if any(corner) else nearest
            for corner, weight in corners.items()
        }
        found = []
        for channel, point in enumerate(nearest):
            given = {corner: texels[corner][channel] for corner in corners}
            made = filter_channel(e, self._described, corners, given)
            found.append(e.emit("selp.b32", made, self.clamp_level(point), linear))
        return found


# -- instructions ------------------------------------------------------------------------------------------------------
def fetch(e: Emitter, instruction: Instruction) -> None:
    """Lower `tex.2d.v4.f32.f32 {a, b, c, d}, [handle, {x, y}];`."""
    modifiers = list(instruction.modifiers)
    level = modifiers.pop(0) if modifiers[:1] and modifiers[0] in LEVELS else ""
    if len(modifiers) != 4 or modifiers[0] not in GEOMETRIES or modifiers[1] != "v4":
        raise UnhandledForm
    geometry, _, type_, of_coordinates = modifiers
    if type_ not in ("u32", "s32", "f32") or of_coordinates not in ("s32", "f32"):
        raise UnhandledForm
    if len(instruction.operands) != 2 + {"level": 1, "grad": 2}.get(level, 0):
        raise UnhandledForm  # offsets, or a depth comparison
    handle, given = handle_and_coordinates(e, instruction.operands[1])
    described = Described(e, handle)
    what = f"`{spelling(instruction)}` of an object that is no such texture"
    described.admit(FLOATS if type_ == "f32" else INTEGERS, geometry, what)
    layer, places = layer_and_rest(e, geometry, given, described)
    linear = e.emit("setp.ne.b32", described.word(Word.LINEAR), e.constant("b32", 0))
    if of_coordinates == "s32":
        whole = [_whole(e, described, n, e.read(x, "b32")) for n, x in enumerate(places)]
        found = _Fetch(e, described, whole, layer, has_border=False).point()
    else:
        along = [_along(e, described, n, e.read(x, "f32"), linear) for n, x in enumerate(places)]
        reading = _Fetch(e, described, along, layer)
        found = reading.filter_texels(linear) if type_ == "f32" else reading.point()
    for target, value in zip(e.elements(instruction.operands[0], CHANNELS), found, strict=True):
        e.write_register(target, value)


_GATHERED = ((0, 1), (1, 1), (1, 0), (0, 0))
"""corners in the order of the result (PTX ISA, "tld4")"""


def gather(e: Emitter, instruction: Instruction) -> None:
    """Lower `tld4.r.2d.v4.f32.f32 {a, b, c, d}, [handle, {x, y}];`: one channel of the four texels of the linear
    filter."""
    modifiers = list(instruction.modifiers)
    if modifiers[:-2] not in [[c, g, "v4"] for c in "rgba" for g in ("2d", "a2d")] or modifiers[-1] != "f32":
        raise UnhandledForm
    channel, geometry, _, type_, _ = modifiers
    if type_ not in ("u32", "s32", "f32") or len(instruction.operands) != 2:
        raise UnhandledForm
    handle, given = handle_and_coordinates(e, instruction.operands[1])
    described = Described(e, handle)
    what = f"`{spelling(instruction)}` of an object that is no such texture"
    described.admit(FLOATS if type_ == "f32" else INTEGERS, geometry, what)
    layer, places = layer_and_rest(e, geometry, given, described)
    always = e.constant("p", 1)
    along = [_along(e, described, n, e.read(x, "f32"), always, gathers=True) for n, x in enumerate(places)]
    reading = _Fetch(e, described, along, layer)
    targets = e.elements(instruction.operands[0], CHANNELS)
    found = [reading.texel(corner, always)["rgba".index(channel)] for corner in _GATHERED]
    found = [reading.clamp_level(x) for x in found]
    for target, value in zip(targets, found, strict=True):
        e.write_register(target, value)


_ASKED = {"width": Word.WIDTH, "height": Word.HEIGHT, "depth": Word.DEPTH, "array_size": Word.LAYERS,
          "normalized_coords": Word.NORMALIZED}  # fmt: skip


def query(e: Emitter, instruction: Instruction) -> None:
    """Lower `txq.width.b32 size, [handle];` and `suq`."""
    if len(instruction.modifiers) != 2 or instruction.modifiers[1] != "b32" or len(instruction.operands) != 2:
        raise UnhandledForm
    asked, place = _ASKED.get(instruction.modifiers[0]), instruction.operands[1]
    if asked is None or not isinstance(place, Address):
        raise UnhandledForm
    described = Described(e, e.read(place, "b64"))
    wanted = (SURFACE,) if instruction.opcode == "suq" else (FLOATS, INTEGERS)
    right = [described.equals(Word.KIND, kind) for kind in wanted]
    other = e.emit("not.pred", right[0] if len(right) == 1 else e.emit("or.pred", *right))
    refuse_where(e, other, f"`{spelling(instruction)}` of another handle")
    e.write_register(instruction.operands[0], described.word(asked))


HANDLERS: dict[str, Callable[[Emitter, Instruction], None]] = {
    "tex": fetch, "tld4": gather, "txq": query, "suq": query,
}  # fmt: skip
