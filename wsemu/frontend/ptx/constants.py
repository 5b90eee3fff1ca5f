"""Constant expressions of integers (PTX ISA 4.5.4 to 4.5.6): `-1`, `(3 + 4) * 2`, `WARP_SZ << 1`, `(.s64) x / 8`.

All have 64 bits.  A value that does not fit a signed number is unsigned, and so are operations on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.frontend.ptx.cursor import Cursor
from wsemu.frontend.ptx.syntax import Number
from wsemu.model.input_limits import INPUT_LIMITS

if TYPE_CHECKING:
    from collections.abc import Callable

WARP_SIZE = "WARP_SZ"
_NESTING = INPUT_LIMITS["ptx-nesting"]


def _quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_OPERATORS: dict[str, tuple[int, Callable[[int, int], int]]] = {
    "*": (10, lambda a, b: a * b),
    "/": (10, _quotient),
    "%": (10, lambda a, b: a - b * _quotient(a, b)),
    "+": (9, lambda a, b: a + b),
    "-": (9, lambda a, b: a - b),
    "<<": (8, lambda a, b: a << (b & 63)),
    ">>": (8, lambda a, b: a >> (b & 63)),
    "<": (7, lambda a, b: int(a < b)),
    ">": (7, lambda a, b: int(a > b)),
    "<=": (7, lambda a, b: int(a <= b)),
    ">=": (7, lambda a, b: int(a >= b)),
    "==": (6, lambda a, b: int(a == b)),
    "!=": (6, lambda a, b: int(a != b)),
    "&": (5, lambda a, b: a & b),
    "^": (4, lambda a, b: a ^ b),
    "|": (3, lambda a, b: a | b),
    "&&": (2, lambda a, b: int(bool(a and b))),
    "||": (1, lambda a, b: int(bool(a or b))),
}
"""operator -> its precedence, its function"""
_UNARY: dict[str, Callable[[int], int]] = {
    "-": lambda a: -a, "~": lambda a: ~a, "+": lambda a: a, "!": lambda a: int(not a),
}  # fmt: skip
_CASTS = (".s64", ".u64")
_ANY, _OFFSET = 0, 10
"""lowest precedence of operators that an expression may contain: any operator, or only those within an offset of an
address"""


def _cast(value: int, *, signed: bool) -> int:
    value &= (1 << 64) - 1
    return value - (value >> 63 << 64) if signed else value


def _result(operator: str, left: int, right: int) -> int:
    shifts = operator in ("<<", ">>")
    signed = left < 1 << 63 and (shifts or right < 1 << 63)
    a, b = _cast(left, signed=signed), _cast(right, signed=signed)
    return _cast(_OPERATORS[operator][1](a, b), signed=signed)


class Constants(Cursor):
    """Reads constant expressions."""

    def expression(self, wanted: str = "a number", least: int = _ANY) -> Number:
        """Parse an expression whose operators have at least this precedence, or a single floating-point number."""
        left = self._operand(wanted)
        if left.is_float_bits:
            return left
        while (found := _OPERATORS.get(self.texts[self.i])) is not None and found[0] >= max(least, 1):
            at = self.i
            self.i += 1
            right = self._integer(wanted, found[0] + 1)
            if self.texts[at] in "/%" and not right:
                self.i = at
                self.fail("a divisor other than 0")
            left = Number(_result(self.texts[at], left.value, right), 0, left.at)
        if least == _ANY and self.accept("?"):
            self.deepen()
            yes = self.expression(wanted)
            self.take(":")
            no = self.expression(wanted)
            self.deepen(-1)
            return yes if left.value else no
        return left

    def extent(self, wanted: str) -> int:
        """Return the number of elements of an array."""
        at = self.i
        value = self._integer(wanted, _ANY)
        if value < 0:
            self.i = at
            self.fail(wanted)
        return value

    def offset(self) -> int:
        """Parse `+ 4`, `-8`, `+-256`, `+ 4 * 8`, repeated any number of times, or nothing."""
        total = 0
        while self.texts[self.i] in ("+", "-"):
            sign = -1 if self.texts[self.i] == "-" else 1
            self.i += 1
            total += sign * self._integer("a number of bytes", _OFFSET)
        return total

    def _integer(self, wanted: str, least: int) -> int:
        at = self.i
        number = self.expression(wanted, least)
        if number.is_float_bits:
            self.i = at
            self.fail(wanted)
        return number.value

    def _operand(self, wanted: str) -> Number:
        """Parse a number, a number after signs or casts, or an expression in parentheses."""
        i, at = self.i, self.starts[self.i]
        text = self.texts[i]
        if text == "(":
            self.i += 1
            if (to := self.texts[self.i]) in _CASTS:
                self.i += 1
                self.take(")")
                self.deepen()
                inner = self._operand(wanted)
                self.deepen(-1)
                return Number(_cast(inner.value, signed=to == ".s64"), 0, at)
            self.deepen()
            inner = self.expression(wanted)
            self.deepen(-1)
            self.take(")")
            return Number(inner.value, inner.is_float_bits, at)
        if text == WARP_SIZE:
            self.i += 1
            return Number(32, 0, at)
        if text in _UNARY and not self._is_plain(i + 1):
            self.i += 1
            self.deepen()
            inner = self._operand(wanted)
            self.deepen(-1)
            return Number(_cast(_UNARY[text](inner.value), signed=True), 0, at)
        return self.number(wanted)

    def _is_plain(self, i: int) -> bool:
        """Return whether a literal, possibly after signs, is at a token."""
        end = i + _NESTING.most
        while self.texts[i] in _UNARY and i < end:
            i += 1
        return self.texts[i] not in ("(", WARP_SIZE)
