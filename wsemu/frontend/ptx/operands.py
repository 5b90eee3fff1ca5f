"""Operands of PTX instructions (chapter 6)."""

from __future__ import annotations

from wsemu.frontend.ptx.constants import WARP_SIZE, Constants
from wsemu.frontend.ptx.syntax import Address, Both, Minus, Name, Not, Number, Operand, Sink, Vector
from wsemu.frontend.ptx.tokens import NAME, NUMBER

_CLOSING = {"(": ")", "{": "}"}
_BEGINS = frozenset(("-", "~", "+", "!", "(", WARP_SIZE))
"""tokens besides a number with which a constant expression may begin"""


class Operands(Constants):
    """Reads operands."""

    opcode = ""
    """opcode of the instruction that has these operands"""

    def operand(self) -> Operand:
        i = self.i
        kind, text, at = self.kinds[i], self.texts[i], self.starts[i]
        operand: Operand
        if kind == NAME and text != WARP_SIZE:
            self.i = i + 1
            operand = Sink(at) if text == "_" else Name(text, at)
            following = self.texts[i + 1]
            if following in ("+", "-") and isinstance(operand, Name):
                return Address(operand, self.offset(), at)
        elif text == "[":
            return self._address()
        elif text == "{" or (text == "(" and self.opcode == "call"):
            self.i = i + 1
            items: list[Operand] = []
            self.deepen()
            self.parse_comma_list(lambda: items.append(self.operand()), _CLOSING[text])
            self.deepen(-1)
            return Vector(tuple(items), at)
        elif text == "!" and self.kinds[i + 1] == NAME:
            self.i = i + 2
            return Not(Name(self.texts[i + 1], self.starts[i + 1]), at)
        elif text == "-" and self.kinds[i + 1] == NAME and self.opcode == "vmad":
            self.i = i + 2
            return Minus(Name(self.texts[i + 1], self.starts[i + 1]), at)
        elif kind == NUMBER or text in _BEGINS:
            return self.expression()
        else:
            raise self.unexpected_token("an operand")
        if self.texts[self.i] == "|":
            self.i += 1
            self.deepen()
            other = self.operand()
            self.deepen(-1)
            return Both(operand, other, at)
        return operand

    def _address(self) -> Operand:
        """Parse `[%rd1+16]`, or the list of a texture operand, `[name, {%f1, %f2}]`.  A following `.unified` means that
        the host has the same address, which has no effect here."""
        i = self.i
        at = self.starts[i]
        self.i = i + 1
        base: Name | Number
        if self.kinds[i + 1] == NAME:
            base = Name(self.texts[i + 1], self.starts[i + 1])
            self.i = i + 2
        else:
            base = self.number("a register, a variable or a number")
        address = Address(base, self.offset() if self.texts[self.i] != "]" else 0, at)
        if self.texts[self.i] == ",":
            items: list[Operand] = [address]
            while self.accept(","):
                items.append(self.operand())
            self.take("]")
            return Vector(tuple(items), at)
        if self.texts[self.i] != "]":
            self.fail("`]`")
        self.i += 1
        self.accept(".unified")
        return address
