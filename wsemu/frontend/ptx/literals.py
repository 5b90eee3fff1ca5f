"""Number literals of PTX (4.5)."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from wsemu.frontend.ptx.syntax import Number


def literal(text: str) -> tuple[int, Literal[0, 32, 64]]:
    """Return the value, or the bits, of a literal (4.5)."""
    prefix = text[:2].lower()
    if prefix == "0f":
        return int(text[2:], 16), 32
    if prefix == "0d" and len(text) == 18:
        return int(text[2:], 16), 64
    if prefix == "0x":
        return int(text[2:].rstrip("U"), 16), 0
    if prefix == "0b":
        return int(text[2:].rstrip("U"), 2), 0
    if "." in text or "e" in text or "E" in text:
        return int.from_bytes(struct.pack("<d", float(text)), "little"), 64
    digits = text.rstrip("U")
    octal = len(digits) > 1 and digits[0] == "0" and not set(digits) & set("89")
    return int(digits, 8 if octal else 10), 0


def literal_bits(number: Number, size: int, *, is_float: bool) -> int:
    """Return the bits of a literal for an operand of `size` bits; floating-point numbers are rounded to that size."""
    if number.is_float_bits and number.is_float_bits != size and is_float and size >= 32:
        value = _float(number)
        try:
            return int.from_bytes(struct.pack("<f" if size == 32 else "<d", value), "little")
        except OverflowError:  # out of the range of .f32
            return 0x7F800000 | (0x80000000 if value < 0 else 0)
    if size == 1:
        return int(number.value != 0)
    return number.value & ((1 << size) - 1)


def _float(number: Number) -> float:
    size = number.is_float_bits // 8
    (value,) = struct.unpack("<d" if size == 8 else "<f", number.value.to_bytes(size, "little"))
    return float(value)
