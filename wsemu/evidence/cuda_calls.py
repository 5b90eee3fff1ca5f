"""Find the names of the objects on which `asm` statements of CUDA C++ operate, from the calls that lead to them.

Programs wrap instructions such as `cp.async.bulk` in functions.  The operand of the statement is then a parameter of
the function.  The argument of the call, or of an outer call, is an expression that the reader knows: `s.empty[st]`.
The text is scanned, not parsed.  If it is too complicated, the object has no name.
"""

from __future__ import annotations

import functools
import linecache
import re
from typing import TYPE_CHECKING

from wsemu.model.data import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wsemu.model.program import Span

_HIDDEN = re.compile(
    r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|//[^\n]*|/\*.*?\*/|^[ \t]*#(?:\\\n|[^\n])*', re.S | re.M
)
"""text that declares nothing: literals, comments and directives"""
_HEAD = re.compile(
    r"(?:(?P<name>operator\s*\(\s*\)|[\w~]+)|(?:(?P<variable>\w+)\s*=\s*)?\[[^\[\]]*\])\s*"
    r"\((?P<parameters>(?:[^(){};]|\([^()]*\))*)\)\s*"
    r"(?:const|noexcept|mutable|override|final|->\s*[\w:<>&*\s]+|:\s*[^{};]*|\s)*$"
)
"""a function, or a lambda, before its body"""
_NO_FUNCTION = frozenset(("if", "for", "while", "switch", "catch", "asm", "volatile", "return", "sizeof"))
_PARAMETER = re.compile(r"(\w+)\s*(?:\[[^\]]*\]\s*)*(?:=.*)?$", re.S)
_ASM = re.compile(r"\b(?:asm|__asm__)\b[\s\w]*\(")
_BRANCHES = re.compile(r"\b(?:if|for|while|do|switch|goto|asm)\b|\[")
_MAX_DECLARATIONS = 4
"""statements of a function around an `asm` statement: variables of its operands, and a `return`"""
_CONSTRAINT = re.compile(r'"[^"]*"\s*\(')
_STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
_CAST = re.compile(r"(?:static_cast|reinterpret_cast|const_cast)\s*<(?:[^<>]|<[^<>]*>)*>\s*(?=\()")
_PLAIN_CAST = re.compile(
    r"\(\s*(?:const\s+|volatile\s+|unsigned\s+|void|[\w:]+_t\b|[\w:]+\s*[*&]|int|long|\s|\*)+\)\s*(?=[\w(&*])"
)
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*$")
_LINES_OF_CALL = 12
"""maximum number of lines of a call"""
_LONGEST = 40
"""characters of an expression that is shown"""
OBJECT = re.compile(r"(?:this->)?[A-Za-z_]\w*(?:(?:\.|->|::)\w+|\[[^\[\]]*(?:\[[^\[\]]*\][^\[\]]*)*\])*$")
"""a variable, with members and subscripts"""


class Function(NamedTuple):
    """A function in a C++ source."""

    name: str
    parameters: tuple[str, ...]
    begin: int
    """offset of its head in the text"""
    body: int
    """offset of the brace that opens its body"""
    end: int


class Text:
    """A C++ source: its text, and the same without literals, comments and directives."""

    def __init__(self, whole: str) -> None:
        self.whole = whole
        self.code = _HIDDEN.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), whole)
        self._starts = [0, *(match.end() for match in re.finditer("\n", whole))]

    def offset(self, line: int) -> int:
        """Return the offset of a line; the end of the text if the line does not exist."""
        return self._starts[line - 1] if 0 < line <= len(self._starts) else len(self.whole)

    @functools.cached_property
    def functions(self) -> list[Function]:
        """Return the functions and lambdas; outer ones precede those inside them."""
        found: list[Function] = []
        begun: list[tuple[int, Function | None]] = []
        last = 0
        for match in re.finditer(r"[{};]", self.code):
            at = match.start()
            if match[0] == "{":
                begun.append((at, self._head(last, at)))
            elif match[0] == "}" and begun:
                function = begun.pop()[1]
                if function is not None:
                    found.append(function._replace(end=at))
            if match[0] != ";" or not self._is_parted(last, at):
                last = at + 1
        return sorted(found, key=lambda function: function.body)

    def _is_parted(self, begin: int, end: int) -> bool:
        """Return whether a semicolon separates the parts of a `for`."""
        part = self.code[begin:end]
        return part.count("(") > part.count(")")

    def _head(self, begin: int, brace: int) -> Function | None:
        match = _HEAD.search(self.code, begin, brace)
        name = "" if match is None else match["name"] or match["variable"] or ""
        if match is None or name in _NO_FUNCTION or not (match["name"] or self.code[match.start()] == "[" or name):
            return None
        parameters = []
        for part in split(match["parameters"]):
            named = _PARAMETER.search(part.strip())
            parameters.append(named[1] if named else "")
        return Function(name.replace(" ", ""), tuple(parameters), begin, brace, len(self.code))

    def find_function(self, line: int) -> Function | None:
        """Return the innermost function around a line."""
        begin, end = self.offset(line), self.offset(line + 1)
        around = [f for f in self.functions if f.begin < end and f.end >= begin and self.code[f.begin : end].strip()]
        return around[-1] if around else None

    def statement_of_asm(self, line: int) -> str:
        """Return the `asm` statement that contains a line, or an empty text."""
        first, last = self.offset(line), self.offset(line + 1)
        for match in _ASM.finditer(self.code, max(0, first - 8192), last):
            end = closing(self.code, match.end() - 1)
            if end > first:
                return self.whole[match.start() : end]
        return ""

    def wraps_asm(self, line: int) -> bool:
        """Return whether the function around a line is an `asm` statement, and declarations, and nothing else."""
        function = self.find_function(line)
        if function is None:
            return False
        body = self.code[function.body + 1 : function.end]
        for match in [*_ASM.finditer(body)][::-1]:
            body = body[: match.start()] + body[closing(body, match.end() - 1) :]
        return not _BRANCHES.search(body) and body.count(";") <= _MAX_DECLARATIONS


def read_text(file: str) -> Text:
    """Return the text of a file from `linecache`, or an empty text if it is not available."""
    return _text("".join(linecache.getlines(file)))


_text = functools.lru_cache(maxsize=32)(Text)


class Found(NamedTuple):
    """The expression of an object, with its location."""

    text: str
    """`s.empty[st]`"""
    depth: int
    """number of calls that lead from there to the `asm` statement"""


def find_object(
    frames: Sequence[Span], operation: str, known: str | None, last: bool = False, turn: tuple[int, int] = (0, 0)
) -> Found | None:
    """Return the object of an operation.  `frames` are the spans of the `asm` statement and of the calls around it,
    innermost first; `operation` is the beginning of the instruction.

    The object is the first address of the instruction, or with `last` the last one.  `known` is the name of the array
    that contains it, if that is known.  `turn` is (position, number) of the instruction among those at its location,
    since a line may have several calls, which are executed in order.
    """
    text = read_text(frames[0].file)
    expression = _core(_operand(text.statement_of_asm(frames[0].line), operation, last))
    depth = 0
    while expression:
        function = read_text(frames[depth].file).find_function(frames[depth].line)
        if function is None:
            break
        root = re.split(r"\W", expression.removeprefix("this->"), maxsplit=1)[0]
        expression = _local(read_text(frames[depth].file), function, expression, frames[depth])
        is_parameter = expression in function.parameters
        if depth + 1 == len(frames) or not (is_parameter or _is_member(frames[depth], function, root, expression)):
            break
        position = function.parameters.index(expression) if is_parameter else -1
        expression = _argument(frames[depth + 1], function, position, known, turn)
        depth += 1
    return Found(expression, depth) if OBJECT.match(expression) and len(expression) <= _LONGEST else None


def _operand(statement: str, operation: str, last: bool) -> str:
    """Return the expression of an `asm` statement's operand that is the address in an instruction."""
    template, _, rest = _parts_of_asm(statement)
    match = re.search(rf"{re.escape(operation)}[^;]*", template)
    addresses = re.findall(r"\[\s*%(\d+)", match[0]) if match else []
    if not addresses:
        return ""
    number = int(addresses[-1 if last else 0])
    operands = []
    for constraint in _CONSTRAINT.finditer(rest):
        operands.append(rest[constraint.end() : closing(rest, constraint.end() - 1) - 1])
    return operands[number] if number < len(operands) else ""


def _parts_of_asm(statement: str) -> tuple[str, str, str]:
    """Split an `asm` statement into its instructions, a colon, and its operands."""
    opened = statement.find("(") + 1
    hidden = _HIDDEN.sub(lambda match: " " * len(match[0]), statement)
    colon = hidden.find(":", opened)
    if colon < 0:
        return "", "", ""
    return "".join(_STRING.findall(statement[opened:colon])), ":", statement[colon:]


def _core(expression: str) -> str:
    """Return an expression without casts, conversions of addresses, and `&`."""
    before = None
    while expression != before:
        before = expression
        expression = _CAST.sub("", _PLAIN_CAST.sub("", expression.strip(), 1), 1).strip()
        if expression.startswith("(") and closing(expression, 0) == len(expression):
            expression = expression[1:-1]
        call = re.match(r"[\w:]+\s*(?:<[^<>]*>)?\s*\(", expression)
        if call and closing(expression, call.end() - 1) == len(expression):
            inside = expression[call.end() : -1]
            expression = inside if len([*split(inside)]) == 1 and inside.strip() else expression
        expression = re.sub(r"^[&*]\s*|^this->", "", expression.strip())
    pointer = re.fullmatch(r"([\w.>\-\[\]]+?)\s*\+\s*(\w+)", expression)
    return f"{pointer[1]}[{pointer[2]}]" if pointer else re.sub(r"\s*\n\s*", " ", expression)


def _local(text: Text, function: Function, expression: str, span: Span) -> str:
    """Return the value assigned to a local variable, if it is an object or a parameter; otherwise the expression
    itself."""
    if not _IDENTIFIER.match(expression) or expression in function.parameters:
        return expression
    upto = text.offset(span.line + 1)
    given = re.compile(rf"\b{expression}\s*=\s*([^=;][^;]*);").findall(
        text.code, function.body, max(upto, function.body)
    )
    core = _core(given[-1]) if given else ""
    return core if OBJECT.match(core) else expression


def _is_member(span: Span, function: Function, root: str, expression: str) -> bool:
    """Return whether an expression is a member of the object whose method contains it."""
    if not _IDENTIFIER.match(expression) or root in function.parameters:
        return False
    code = read_text(span.file).code[function.body : function.end]
    return not re.search(rf"(?:[\w>]\s+|[\w>]\s*[*&]\s*){root}\s*(?:[=;\[,({{]|$)", code)


def _argument(span: Span, function: Function, position: int, known: str | None, turn: tuple[int, int]) -> str:
    """Return an argument of a call; for -1, return the object whose method is called."""
    text = read_text(span.file)
    begin = text.offset(span.line) + span.column
    end = text.offset(span.line + _LINES_OF_CALL)
    found: list[str] = []
    name = r"\w+" if function.name in ("operator()", "") else re.escape(function.name)
    for call in re.compile(rf"(?<![\w~]){name}\s*(?:<[^<>;]*>)?\s*\(").finditer(text.code, begin, end):
        if found and text.code.count("\n", begin, call.start()):
            break  # calls on later lines are other statements
        close = closing(text.code, call.end() - 1)
        if position < 0:
            found.append(_receiver(text.code, call.start(), begin))
        else:
            arguments = [*split(text.whole[call.end() : close - 1])]
            found += [_core(arguments[position])] if position < len(arguments) else []
    if len(found) > 1 and known:
        found = [one for one in found if re.search(rf"\b{re.escape(known)}\b", one)] or found
    if len(found) > 1 and turn[1] and not turn[1] % len(found):
        return found[turn[0] % len(found)]
    return found[0] if len({*found}) == 1 else ""


def _receiver(code: str, at: int, begin: int) -> str:
    """Return the object whose method is called, from the offset of the name."""
    match = re.search(r"((?:[\w:]|\.|->|\[[^\[\]]*\])+?)(?:\.|->)\s*$", code[begin:at])
    return match[1].strip() if match else ""


def split(text: str) -> Iterator[str]:
    """Yield the parts of a text between commas that are in no brackets."""
    plain = text.replace("->", "--")
    angles = plain.count("<") == plain.count(">")
    opening, closings = ("([{<", ")]}>") if angles else ("([{", ")]}")
    depth, start = 0, 0
    for at, character in enumerate(plain):
        depth += (character in opening) - (character in closings)
        if character == "," and depth == 0:
            yield text[start:at]
            start = at + 1
    yield text[start:]


def closing(text: str, at: int) -> int:
    """Return the offset after the parenthesis that closes the one at an offset; the end of the text if it is not
    closed."""
    depth = 0
    for place in range(at, len(text)):
        depth += (text[place] == "(") - (text[place] == ")")
        if depth == 0:
            return place + 1
    return len(text)
