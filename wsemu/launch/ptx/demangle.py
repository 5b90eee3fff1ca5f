"""Demangle C++ names (Itanium C++ ABI, section 5.1).

This covers what names of kernels and variables contain: namespaces, templates, all types, literals, packs, lambdas,
local names.  A name with any other part, usually an expression, stays mangled.  ABI tags and return types are omitted.
"""

from __future__ import annotations

import functools

from wsemu.launch.ptx.mangled import BUILTIN, OPERATORS, STANDARD, Characters, UnknownError
from wsemu.model.data import NamedTuple

_SUFFIX = {"unsigned int": "u", "long": "l", "unsigned long": "ul", "long long": "ll", "unsigned long long": "ull"}
"""suffix of a literal of this type"""
_QUALIFIERS = {"r": " restrict", "V": " volatile", "K": " const"}
_LONGEST = 1 << 16
"""characters of a part: substitutions can make a short name very long"""


class Function(NamedTuple):
    """A demangled name."""

    name: str
    """with its namespaces and template arguments"""
    parameters: str | None
    """parameter types such as `float*, int`; None for a name that is not a function"""

    def __str__(self) -> str:
        return self.name if self.parameters is None else f"{self.name}({self.parameters})"


@functools.lru_cache(maxsize=4096)
def demangle(name: str) -> Function:
    """Return the demangled name; the name itself if it is not mangled, or has parts that this module does not cover."""
    if not name.startswith("_Z"):
        return Function(name, None)
    try:
        reader = _Reader(name)
        found = reader.encoding()
        rest = name[reader.at :]
    except (UnknownError, RecursionError):
        return Function(name, None)
    return found if not rest or rest[0] in ".$" else Function(name, None)


def _class(scope: str) -> str:
    """Return the last name of `a<b::c>::d<e>`, without its template arguments."""
    depth, found = 0, ""
    for character in scope:
        depth += (character == "<") - (character == ">")
        found = "" if character == ":" and not depth else found + character
    return found.partition("<")[0]


class _Type(NamedTuple):
    """A type in two halves: the name of a variable of this type is written between them."""

    left: str
    right: str = ""
    function: bool = False

    def __str__(self) -> str:
        return self.left + self.right

    def wrap_type(self, sign: str) -> _Type:
        """Return the type of a pointer or reference to this type, or of a member pointer."""
        if "&" in sign and self.left.endswith("&") and not self.right:  # references collapse: `&` wins
            return _Type(self.left if sign == "&&" else f"{self.left.rstrip('&')}&")
        if not self.right or self.left.endswith(("(*", "(&")):
            return _Type(self.left + sign, self.right)
        return _Type(f"{self.left.rstrip()} ({sign}", f"){self.right}")


class _Reader(Characters):
    """Recursive-descent parser of a mangled name; the methods have the names of the ABI's grammar."""

    def __init__(self, text: str) -> None:
        super().__init__(text, 2)
        self.known: list[_Type] = []
        """types that substitutions refer to"""
        self.arguments: list[str | list[str]] = []
        """arguments of the template, a list for a pack"""
        self.element: int | None = None
        """element of the packs, while an expansion is read"""
        self.length = 0
        """length of the pack in that expansion"""

    def encoding(self) -> Function:
        name, templated = self.name()
        if self.at == len(self.text) or self.text[self.at] in "E.$":
            return Function(name, None)
        last = name.rpartition("::")[2]
        if templated and not last.startswith(("operator ", "~")):
            self.type()  # of the result
        return Function(name, self.parameters())

    def parameters(self) -> str:
        found: list[str] = []
        while self.at < len(self.text) and self.text[self.at] not in "E.$":
            found += self.types()
        return "" if found == ["void"] else ", ".join(found)

    # -- names ---------------------------------------------------------------------------------------------------------

    def name(self) -> tuple[str, bool]:
        """Parse a name.  Return it, and whether it ends with template arguments."""
        match self.peek():
            case "N":
                return self.nested_name()
            case "Z":
                return self.local()
            case "S" if self.peek(2) != "St":
                base = str(self.substitution())
            case _:
                base = self.unscoped_name()
                if self.peek() == "I":
                    self.remember(_Type(base))
        if self.peek() != "I":
            return base, False
        return base + self.template_arguments(own=True), True

    def nested_name(self) -> tuple[str, bool]:
        self.take("N")
        while self.peek() in (*_QUALIFIERS, "R", "O"):
            self.at += 1
        name, templated = "", False
        while not self.skip("E"):
            if self.peek() == "I" and name:
                name, templated = name + self.template_arguments(own=True), True
            elif self.peek() == "S":
                name, templated = str(self.substitution()), False  # not remembered, `St` included
                continue
            elif self.peek() == "T":
                name, templated = str(self.template_parameter()), False
            else:
                part = self.unqualified_name(name)
                name, templated = f"{name}::{part}" if name else part, False
            if self.peek() != "E":
                self.remember(_Type(name))
        return name, templated

    def local(self) -> tuple[str, bool]:
        self.take("Z")
        outer = self.encoding()
        self.take("E")
        if self.skip("s"):
            self.discriminator()
            return f"{outer}::string literal", False
        if self.skip("d"):
            self.number()
            self.take("_")
        name, templated = self.name()
        self.discriminator()
        return f"{outer}::{name}", templated

    def discriminator(self) -> None:
        if self.skip("_"):
            double = self.skip("_")
            self.number()
            if double:
                self.take("_")

    def unscoped_name(self) -> str:
        if self.peek(2) == "St":
            self.at += 2
            return f"std::{self.unqualified_name('std')}"
        return self.unqualified_name("")

    def unqualified_name(self, scope: str) -> str:
        two, one = self.peek(2), self.peek()
        self.skip("L")
        if one.isdigit() or one == "L":
            name = self.source_name()
        elif two in ("Ul", "Ut"):
            name = self.unnamed_type()
        elif one in "CD" and two[1:].isdigit():
            self.at += 2
            name = "~" * (one == "D") + _class(scope)
        elif two == "cv":
            self.at += 2
            name = f"operator {self.type()}"
        elif two in OPERATORS:
            self.at += 2
            name = f"operator{OPERATORS[two]}"
        else:
            raise UnknownError
        while self.skip("B"):
            self.source_name()
        return name

    def source_name(self) -> str:
        length = self.number()
        name = self.text[self.at : self.at + length]
        if not 0 < length == len(name):
            raise UnknownError
        self.at += length
        return "(anonymous namespace)" if name.startswith("_GLOBAL__N_") else name

    def unnamed_type(self) -> str:
        kind = self.peek(2)
        self.at += 2
        what = "unnamed type"
        if kind == "Ul":
            what = f"lambda({self.parameters()})"
            self.take("E")
        count = 1 if self.peek() == "_" else self.number() + 2
        self.take("_")
        return f"{{{what}#{count}}}"

    # -- templates and substitutions -----------------------------------------------------------------------------------

    def template_arguments(self, *, own: bool = False) -> str:
        """Parse `<...>`; with `own`, `T_` refers to these arguments."""
        self.take("I")
        found: list[str | list[str]] = []
        outer = self.arguments
        while not self.skip("E"):
            found.append(self.template_argument())
        self.arguments = found if own else outer
        flat = [text for item in found for text in (item if isinstance(item, list) else [item])]
        return f"<{', '.join(flat)}>"

    def template_argument(self) -> str | list[str]:
        if self.skip("J"):
            items: list[str] = []
            while not self.skip("E"):
                item = self.template_argument()
                items += item if isinstance(item, list) else [item]
            return items
        if self.peek() == "L":
            return self.literal()
        if self.skip("X"):
            if self.peek() != "L":
                raise UnknownError
            value = self.literal()
            self.take("E")
            return value
        found = self.types()
        return found[0] if len(found) == 1 else found

    def literal(self) -> str:
        self.take("L")
        if self.peek(2) == "_Z":
            self.at += 2
            name = str(self.encoding())
            self.take("E")
            return name
        type_ = str(self.type())
        end = self.text.find("E", self.at)
        value = self.text[self.at : end]
        if end < 0:
            raise UnknownError
        self.at = end + 1
        value = f"-{value[1:]}" if value.startswith("n") else value
        if type_ == "bool" and value in ("0", "1"):
            return ("false", "true")[int(value)]
        if type_ == "int" or type_ in _SUFFIX:
            return value + _SUFFIX.get(type_, "")
        return f"({type_}){value}"

    def template_parameter(self) -> _Type:
        self.take("T")
        number = 0 if self.peek() == "_" else self.number() + 1
        self.take("_")
        if number >= len(self.arguments):
            raise UnknownError
        value = self.arguments[number]
        if not isinstance(value, list):
            return _Type(value)
        if self.element is None:
            return _Type(", ".join(value))
        self.length = len(value)
        return _Type(value[self.element] if self.element < len(value) else "")

    def substitution(self) -> _Type:
        self.take("S")
        key = self.peek()
        if key in STANDARD:
            self.at += 1
            return _Type(STANDARD[key])
        end = self.text.find("_", self.at)
        digits = self.text[self.at : end]
        if end < 0 or len(digits) > 4 or not all(c.isdigit() or c.isupper() for c in digits):
            raise UnknownError
        number = int(digits, 36) + 1 if digits else 0
        if number >= len(self.known):
            raise UnknownError
        self.at = end + 1
        return self.known[number]

    def remember(self, type_: _Type) -> _Type:
        if len(type_.left) + len(type_.right) > _LONGEST:
            raise UnknownError
        self.known.append(type_)
        return type_

    # -- types ---------------------------------------------------------------------------------------------------------

    def types(self) -> list[str]:
        """Parse one type, or the types of a pack expansion."""
        if self.peek(2) != "Dp":
            return [str(self.type())]
        self.at += 2
        start, known, outer = self.at, len(self.known), self.element
        found: list[str] = []
        self.length = 1
        while len(found) < max(self.length, 1):
            self.at = start
            del self.known[known:]
            self.element = len(found)
            found.append(str(self.type()))
        self.element = outer
        return found[: self.length]

    def type(self) -> _Type:
        one, two = self.peek(), self.peek(2)
        key = two if two in BUILTIN else one
        if key in BUILTIN:
            self.at += len(key)
            return _Type(BUILTIN[key])
        if one in "PRO":
            self.at += 1
            return self.remember(self.type().wrap_type({"P": "*", "R": "&", "O": "&&"}[one]))
        if one in _QUALIFIERS:
            return self.qualified_type()
        match one:
            case "F":
                return self.remember(self.function())
            case "A":
                return self.remember(self.array())
            case "M":
                return self.remember(self.member_pointer())
            case "T":
                return self.apply_template(self.remember(self.template_parameter()))
            case "S" if two != "St":
                return self.apply_template(self.substitution())
            case "u":
                self.at += 1
                return self.remember(_Type(self.source_name()))
            case "D" | "U":
                return self.extended_type()
        arguments = self.arguments
        name = self.name()[0]
        self.arguments = arguments
        return self.remember(_Type(name))

    def apply_template(self, base: _Type) -> _Type:
        """Parse a template template parameter, or a known template, with its arguments."""
        return self.remember(_Type(f"{base}{self.template_arguments()}")) if self.peek() == "I" else base

    def qualified_type(self) -> _Type:
        words = ""
        while self.peek() in _QUALIFIERS:
            words = _QUALIFIERS[self.peek()] + words
            self.at += 1
        inner = self.type()
        if inner.right and not inner.function and "[" in inner.right:
            return self.remember(_Type(inner.left + words, inner.right))
        return self.remember(_Type(inner.left, inner.right + words) if inner.function else _Type(f"{inner}{words}"))

    def function(self) -> _Type:
        self.take("F")
        self.skip("Y")
        result = self.type()
        parameters = self.parameters()
        self.take("E")
        return _Type(f"{result.left} ", f"({parameters}){result.right}", function=True)

    def array(self) -> _Type:
        self.take("A")
        extent = "" if self.peek() == "_" else str(self.number())
        self.take("_")
        inner = self.type()
        return _Type(inner.left, f"[{extent}]{inner.right}")

    def member_pointer(self) -> _Type:
        self.take("M")
        class_ = self.type()
        return self.type().wrap_type(f" {class_}::*".lstrip())

    def extended_type(self) -> _Type:
        """Parse vectors, `_Float16` and similar types, and qualifiers of a vendor."""
        if self.skip("U"):
            qualifier = self.source_name()
            return self.remember(_Type(f"{self.type()} {qualifier}"))
        two = self.peek(2)
        self.at += 2
        if two == "Dv":
            count = self.number()
            self.take("_")
            return self.remember(_Type(f"{self.type()} __vector({count})"))
        if two == "DF":
            bits = self.number()
            if self.skip("b"):
                return _Type("std::bfloat16_t")
            self.take("_")
            return _Type(f"_Float{bits}")
        if two in ("Do", "Dx"):
            return self.type()
        raise UnknownError
