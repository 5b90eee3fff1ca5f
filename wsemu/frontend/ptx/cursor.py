"""A position in the tokens of a PTX file, and the error for an unexpected token."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from wsemu.frontend.ptx.literals import literal
from wsemu.frontend.ptx.syntax import Number
from wsemu.frontend.ptx.tokens import END, NUMBER, tokens
from wsemu.model.input_limits import INPUT_LIMITS

if TYPE_CHECKING:
    from collections.abc import Callable

    from wsemu.frontend.ptx.source import Source
    from wsemu.model.errors import KernelError

_DIGITS, _NESTING = INPUT_LIMITS["ptx-digits"], INPUT_LIMITS["ptx-nesting"]


class Cursor:
    """The tokens, and the number of tokens read."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.kinds, self.texts, self.starts = tokens(source)
        self.i = 0
        self.depth = 0
        """number of braces, parentheses and brackets around the token"""

    def fail(self, wanted: str, remedy: str = "") -> NoReturn:
        """Raise the error for the current, unexpected token."""
        raise self.unexpected_token(wanted, remedy)

    def unexpected_token(self, wanted: str, remedy: str = "") -> KernelError:
        at = self.starts[self.i]
        if self.kinds[self.i] == END:
            return self.source.error(at, f"the text ends where {wanted} belongs", remedy or "is the file cut off?", at)
        found = self.texts[self.i]
        if (
            self.i
            and wanted == "`;`"
            and self.source.position(at)[0] > self.source.position(self.starts[self.i - 1])[0]
        ):
            # the token is missing at the end of the previous line
            end = self.starts[self.i - 1] + len(self.texts[self.i - 1])
            return self.source.error(end, "`;` is missing", remedy or "end the statement with `;`", end + 1)
        return self.source.error(at, f"found `{found}` where {wanted} belongs", remedy, at + len(found))

    def take(self, text: str) -> None:
        """Skip this token, which must be the current one."""
        if self.texts[self.i] != text:
            self.fail(f"`{text}`")
        self.i += 1

    def accept(self, text: str) -> bool:
        """Skip this token if it is the current one; return whether it is."""
        if self.texts[self.i] != text:
            return False
        self.i += 1
        return True

    def word(self, kind: str, wanted: str) -> str:
        """Parse a token of this kind and return its text."""
        if self.kinds[self.i] != kind:
            self.fail(wanted)
        self.i += 1
        return self.texts[self.i - 1]

    def integer(self, wanted: str) -> int:
        """Parse an integer literal."""
        at = self.i
        number = self.number(wanted)
        if number.is_float_bits:
            self.i = at
            self.fail(wanted)
        return number.value

    def size(self, wanted: str) -> int:
        """Parse a nonnegative integer literal."""
        if self.kinds[self.i] != NUMBER:
            self.fail(wanted)
        return self.integer(wanted)

    def number(self, wanted: str = "a number") -> Number:
        """Parse a literal with its sign."""
        at = self.starts[self.i]
        if self.texts[self.i] in ("-", "~", "+", "!"):
            sign = self.texts[self.i]
            self.i += 1
            self.deepen()
            inner = self.number(wanted)
            self.deepen(-1)
            if inner.is_float_bits:
                flip = 1 << inner.is_float_bits - 1 if sign == "-" else 0
                return Number(inner.value ^ flip, inner.is_float_bits, at)
            value = {"-": -inner.value, "~": ~inner.value, "+": inner.value, "!": int(not inner.value)}[sign]
            return Number(value, 0, at)
        text = self.word(NUMBER, wanted)
        if len(text) > _DIGITS.most:
            raise self.excess("ptx-digits", len(text), at)
        value, bits = literal(text)
        return Number(value, bits, at)

    def excess(self, limit: str, count: int, at: int) -> KernelError:
        """Return the error for an input that exceeds a row of INPUT_LIMITS."""
        return self.source.excess(limit, count, at)

    def deepen(self, by: int = 1) -> None:
        """Count braces, parentheses or signs that open; `by` is negative if they close."""
        self.depth += by
        if self.depth > _NESTING.most:
            raise self.excess("ptx-nesting", self.depth, self.starts[self.i])

    def parse_comma_list(self, item: Callable[[], None], close: str) -> None:
        """Parse items separated by commas, up to `close`."""
        if self.accept(close):
            return
        while True:
            item()
            if self.accept(close):
                return
            if not self.accept(","):
                self.fail(f"`,` or `{close}`")
