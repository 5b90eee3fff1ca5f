"""Codes of names mangled by the Itanium C++ ABI (section 5.1), and a text that is read from left to right."""

from __future__ import annotations

BUILTIN = {
    "v": "void", "w": "wchar_t", "b": "bool", "c": "char", "a": "signed char", "h": "unsigned char", "s": "short",
    "t": "unsigned short", "i": "int", "j": "unsigned int", "l": "long", "m": "unsigned long", "x": "long long",
    "y": "unsigned long long", "n": "__int128", "o": "unsigned __int128", "f": "float", "d": "double",
    "e": "long double", "g": "__float128", "z": "...", "Dd": "decimal64", "De": "decimal128", "Df": "decimal32",
    "Dh": "half", "Di": "char32_t", "Ds": "char16_t", "Du": "char8_t", "Da": "auto", "Dc": "decltype(auto)",
    "Dn": "decltype(nullptr)",
}  # fmt: skip
STANDARD = {
    "t": "std", "a": "std::allocator", "b": "std::basic_string", "s": "std::string", "i": "std::istream",
    "o": "std::ostream", "d": "std::iostream",
}  # fmt: skip
OPERATORS = {
    "nw": " new", "na": " new[]", "dl": " delete", "da": " delete[]", "ps": "+", "ng": "-", "ad": "&", "de": "*",
    "co": "~", "pl": "+", "mi": "-", "ml": "*", "dv": "/", "rm": "%", "an": "&", "or": "|", "eo": "^", "aS": "=",
    "pL": "+=", "mI": "-=", "mL": "*=", "dV": "/=", "rM": "%=", "aN": "&=", "oR": "|=", "eO": "^=", "ls": "<<",
    "rs": ">>", "lS": "<<=", "rS": ">>=", "eq": "==", "ne": "!=", "lt": "<", "gt": ">", "le": "<=", "ge": ">=",
    "ss": "<=>", "nt": "!", "aa": "&&", "oo": "||", "pp": "++", "mm": "--", "cm": ",", "pm": "->*", "pt": "->",
    "cl": "()", "ix": "[]",
}  # fmt: skip


class UnknownError(Exception):
    """The name has a part that is not read."""


class Characters:
    """A text and how far it was read."""

    def __init__(self, text: str, at: int) -> None:
        self.text = text
        self.at = at

    def peek(self, count: int = 1) -> str:
        """Return the next characters; NUL after the last one."""
        return self.text[self.at : self.at + count] or "\0"

    def skip(self, character: str) -> bool:
        """Return whether the next character is this one, which is passed then."""
        found = self.peek() == character
        self.at += found
        return found

    def take(self, character: str) -> None:
        if not self.skip(character):
            raise UnknownError

    def number(self) -> int:
        start = self.at
        while self.peek().isdigit():
            self.at += 1
        if not 0 < self.at - start < 10:
            raise UnknownError
        return int(self.text[start : self.at])
