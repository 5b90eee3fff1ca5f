"""Loads and stores of surfaces: `suld.b`, `sust.b` (PTX ISA 9.7.11).

They load and store elements of the surface's array: x counts bytes, y rows, z slices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.frontend.assemble.graph import TRUE, Register
from wsemu.frontend.ptx.forms import UnhandledForm
from wsemu.frontend.ptx.memory import spelling
from wsemu.frontend.ptx.syntax import Vector
from wsemu.frontend.ptx.textures import Described, handle_and_coordinates
from wsemu.model.isa import BY_TEXTURE
from wsemu.model.texture import GEOMETRIES, SURFACE, Word

if TYPE_CHECKING:
    from collections.abc import Callable

    from wsemu.frontend.ptx.emit import Emitter
    from wsemu.frontend.ptx.syntax import Instruction, Operand

_LENGTHS = {"v2": 2, "v4": 4}
_TYPES = {"b8": 8, "b16": 16, "b32": 32, "b64": 64}
_CLAMPS = ("trap", "clamp", "zero")
_CACHES = ("ca", "cg", "cs", "cv", "wb", "wt")


def _form(instruction: Instruction) -> tuple[str, int, int, str]:
    """Return geometry, number of elements, bits per element, and the handling of coordinates outside."""
    kind, geometry, *rest = instruction.modifiers
    if rest and rest[0] in _CACHES:
        rest.pop(0)
    length = _LENGTHS[rest.pop(0)] if rest and rest[0] in _LENGTHS else 1
    if kind != "b" or geometry not in GEOMETRIES or not rest or rest[0] not in _TYPES or len(rest) > 2:
        raise UnhandledForm
    outside = rest[1] if len(rest) == 2 else "trap"
    bits = _TYPES[rest[0]]
    if outside not in _CLAMPS or bits * length > 128:
        raise UnhandledForm
    return geometry, length, bits, outside


class _Place:
    """The location of an access."""

    def __init__(self, e: Emitter, instruction: Instruction, operand: Operand) -> None:
        self.geometry, self.length, self.bits, self.outside = _form(instruction)
        self._e = e
        handle, given = handle_and_coordinates(e, operand)
        self._described = Described(e, handle)
        self._described.admit(SURFACE, self.geometry, f"`{spelling(instruction)}` of an object that is no such surface")
        axes, layered = int(self.geometry[-2]), self.geometry[0] == "a"
        if len(given) < axes + layered:
            raise UnhandledForm
        registers = [e.read(x, "b32") for x in given[: axes + layered]]
        self._limits = self._extents(axes, layered)
        self.inside = self._is_inside(registers)
        chosen = [e.emit("max.s32", e.emit("min.s32", x, limit), e.constant("b32", 0))
                  for x, limit in zip(registers, self._limits, strict=True)]  # fmt: skip
        layer = chosen.pop(0) if layered else None
        inner = self._described.address(tuple(chosen), layer, e.constant("b32", 1))
        self.address = (
            inner
            if self.outside != "trap"
            else e.emit("selp.b64", inner, self._trapping_address(registers), self.inside)
        )

    def _extents(self, axes: int, layered: bool) -> list[Register]:
        """Return the last position along each coordinate."""
        e, described = self._e, self._described
        width = e.emit("mul.b32", described.extent(0), described.word(Word.TEXEL))
        last = [e.emit("sub.b32", width, e.constant("b32", self.length * self.bits // 8))]
        last += [e.emit("sub.b32", described.extent(n), e.constant("b32", 1)) for n in range(1, axes)]
        if layered:
            last.insert(0, e.emit("sub.b32", described.word(Word.LAYERS), e.constant("b32", 1)))
        return last

    def _is_inside(self, registers: list[Register]) -> Register:
        zero = self._e.constant("b32", 0)
        tests = [self._e.emit("setp.le.u32", x, limit) for x, limit in zip(registers, self._limits, strict=True)]
        tests += [self._e.emit("setp.ge.s32", limit, zero) for limit in self._limits]  # a row may be too short
        first, *others = tests
        for other in others:
            first = self._e.emit("and.pred", first, other)
        return first

    def _trapping_address(self, registers: list[Register]) -> Register:
        """Return an address outside of any array, at which the launch traps."""
        e, described = self._e, self._described
        far = e.emit("add.b64", described.pair(Word.ADDRESS), e.constant("b64", 1 << 38))
        return e.emit("add.b64", far, e.emit("cvt.b64.u32", registers[-1]))

    def where(self) -> Register:
        """Return the guard of the access: with `.zero`, an access outside is skipped."""
        e = self._e
        if self.outside != "zero":
            return e.guard
        if e.guard == TRUE:
            return self.inside
        return e.emit("andn.pred" if e.negated else "and.pred", self.inside, e.guard)

    def operation(self, what: str) -> str:
        """Return the operation, such as `ld.v4.b32`."""
        return f"{what}.b{self.bits}" if self.length == 1 else f"{what}.v{self.length}.b{self.bits}"


def load(e: Emitter, instruction: Instruction) -> None:
    """Lower `suld.b.2d.b32.trap {a}, [handle, {x, y}];`."""
    target, source = instruction.operands
    place = _Place(e, instruction, source)
    type_ = f"b{place.bits}"
    made = tuple([e.graph.new(type_) for _ in range(place.length)])
    for register in made:
        e.assign(register, f"mov.{type_}", e.constant(type_, 0))
    kept = e.guard, e.negated
    e.guard, e.negated = place.where(), e.negated and place.outside != "zero"
    e.effect_into(place.operation("ld"), (place.address,), made, auxiliary=BY_TEXTURE)
    e.guard, e.negated = kept
    for item, register in zip(_items(e, target, place.length), made, strict=True):
        e.write_register(item, register)


def store(e: Emitter, instruction: Instruction) -> None:
    """Lower `sust.b.2d.b32.trap [handle, {x, y}], {a};`."""
    target, source = instruction.operands
    place = _Place(e, instruction, target)
    values = tuple([e.read(item, f"b{place.bits}") for item in _items(e, source, place.length)])
    kept = e.guard, e.negated
    e.guard, e.negated = place.where(), e.negated and place.outside != "zero"
    e.effect(place.operation("st"), (place.address, *values), auxiliary=BY_TEXTURE)
    e.guard, e.negated = kept


def _items(e: Emitter, operand: Operand, length: int) -> tuple[Operand, ...]:
    """Return the elements of a vector, which is in braces even if it has only one element."""
    return operand.items if length == 1 and isinstance(operand, Vector) else e.elements(operand, length)


HANDLERS: dict[str, Callable[[Emitter, Instruction], None]] = {"suld": load, "sust": store}
