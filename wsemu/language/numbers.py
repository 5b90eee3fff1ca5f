"""Number types by Numba's names."""

from __future__ import annotations

from wsemu.model.data import dataclass


@dataclass(frozen=True, slots=True)
class NumberType:
    """A scalar type: kind `b` bool, `i` signed, `u` unsigned, `f` float, `c` complex; `bits` of the whole value."""

    name: str
    kind: str
    bits: int

    @property
    def register(self) -> str:
        """Return the register type that holds it: `p` for bool, `b64` for int64, `f32` for float32 (complex has two
        registers)."""
        if self.kind == "b":
            return "p"
        if self.name == "bfloat16":
            return "b16"
        return f"f{self.bits}" if self.kind == "f" else f"b{self.bits}"

    @property
    def suffix(self) -> str:
        """Return the suffix of typed operations: `s64`, `u32`, `f32`."""
        return {"i": "s", "u": "u", "f": "f", "b": "u"}[self.kind] + str(self.bits)

    def __str__(self) -> str:
        return self.name


boolean = NumberType("bool", "b", 8)
int8, int16, int32, int64 = (NumberType(f"int{n}", "i", n) for n in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (NumberType(f"uint{n}", "u", n) for n in (8, 16, 32, 64))
float16, float32, float64 = (NumberType(f"float{n}", "f", n) for n in (16, 32, 64))
bfloat16 = NumberType("bfloat16", "f", 16)
"""the upper half of a float32; computed in float32 and rounded, like float16"""
fp8_e4m3, fp8_e5m2 = EIGHTS = tuple(NumberType(f"fp8_{form}", "u", 8) for form in ("e4m3", "e5m2"))
"""8-bit floats, represented by their bits: they can be converted, but not computed with"""
complex64, complex128 = (NumberType(f"complex{n}", "c", n) for n in (64, 128))
NUMBERS: dict[str, NumberType] = {
    t.name: t
    for t in (
        boolean, int8, int16, int32, int64, uint8, uint16, uint32, uint64,
        float16, float32, float64, complex64, complex128,
    )
}  # fmt: skip
"""types that NumPy also has"""
HALVES = (float16, bfloat16)
"""float types of 16 bits"""
