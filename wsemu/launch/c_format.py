"""Text of the conversions of C's `printf`, as a GPU's `printf` writes it."""

from __future__ import annotations

import math
import re
import struct
from typing import TYPE_CHECKING

from wsemu.model.isa import C_FORMAT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_CONVERSION = re.compile(r"%([-+ #0]*)(\*|\d*)(?:\.(\*|\d*))?(hh|h|ll|l|j|z|t|L)?(\w)")
_BITS = {"hh": 8, "h": 16, "": 32}
"""number of bits of an integer for each length modifier; integers with other modifiers have 64"""
_MAX_WIDTH = 999


def format_values(parts: Sequence[str], values: Sequence[int], read_text: Callable[[int], str]) -> str:
    """Return the text of a format's parts with these values, given as bits; `read_text` returns the string at an
    address."""
    left = iter(values)
    return "".join(_convert(part[1:], left, read_text) if part.startswith(C_FORMAT) else part for part in parts)


def _convert(conversion: str, values: Iterator[int], read_text: Callable[[int], str]) -> str:
    found = _CONVERSION.fullmatch(conversion)
    assert found is not None
    flags, width, precision, length, kind = found.groups()
    if width == "*":
        size = _sign_extend(next(values), 32)
        flags, width = ("-" + flags if size < 0 else flags), str(min(abs(size), _MAX_WIDTH))
    if precision == "*":
        digits = _sign_extend(next(values), 32)
        precision = None if digits < 0 else str(min(digits, _MAX_WIDTH))
    bits = next(values)
    precise = "" if precision is None else f".{precision or 0}"
    if kind in "sc":
        text = read_text(bits) if kind == "s" else chr(bits & 0xFF)
        return _pad(text[: int(precision or 0)] if kind == "s" and precision is not None else text, flags, width)
    if kind == "p":
        return _pad(f"{bits:#x}" if bits else "(nil)", flags, width)
    if kind in "aA":
        return _pad(_hexadecimal(bits, kind, flags), flags, width)
    if kind in "eEfFgG":
        (number,) = struct.unpack("<d", struct.pack("<Q", bits))
        if not math.isfinite(number):
            flags = flags.replace("0", "")
        return str(f"%{flags}{width}{precise}{kind}" % number)
    size = _BITS.get(length or "", 64)
    whole = _sign_extend(bits, size) if kind in "di" else bits & (1 << size) - 1
    return _integer(whole, kind, flags, width, precision)


def _integer(whole: int, kind: str, flags: str, width: str, precision: str | None) -> str:
    digits = f"{abs(whole):{ {'i': 'd', 'u': 'd'}.get(kind, kind) }}"
    if precision is not None:
        digits = digits.rjust(int(precision or 0), "0") if whole or int(precision or 0) else ""
    start = "-" if whole < 0 else ("+" if "+" in flags else " " if " " in flags else "") if kind in "di" else ""
    if "#" in flags and kind in "xX" and whole:
        start = f"0{kind}"
    if "#" in flags and kind == "o" and digits[:1] != "0":
        digits = f"0{digits}"
    if "0" in flags and "-" not in flags and precision is None:
        digits = digits.rjust(int(width or 0) - len(start), "0")
    return _pad(start + digits, flags, width)


def _sign_extend(bits: int, size: int) -> int:
    bits &= (1 << size) - 1
    return bits - (1 << size) if bits >> size - 1 else bits


def _pad(text: str, flags: str, width: str) -> str:
    size = int(width or 0)
    return text.ljust(size) if "-" in flags else text.rjust(size)


def _hexadecimal(bits: int, kind: str, flags: str) -> str:
    """Return a float as C writes it in hexadecimal, with all its digits and without zeros at the end."""
    (number,) = struct.unpack("<d", struct.pack("<Q", bits))
    text = re.sub(r"\.?0*p", "p", number.hex()) if math.isfinite(number) else repr(number)
    text = text if text[0] == "-" else ("+" if "+" in flags else "") + text
    return text.upper() if kind == "A" else text
