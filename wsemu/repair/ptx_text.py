"""The PTX of a kernel as edits see it: instructions with their source lines, registers, addresses, and loops.

The values of registers are followed through moves, sums and conversions alone: enough for the addresses and numbers
that compilers write for barriers in shared memory.
"""

from __future__ import annotations

import linecache
import os
import re
from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING

from wsemu.model.cure import lines_of
from wsemu.model.data import NamedTuple, dataclass, field
from wsemu.model.program import Span
from wsemu.model.toolkit import is_toolkit_header

if TYPE_CHECKING:
    from collections.abc import Iterable

_LOC = re.compile(r"\s*\.loc\s+(\d+)\s+(\d+)(?:\s+(\d+))?(?:.*\binlined_at\s+(\d+)\s+(\d+)(?:\s+(\d+))?)?")
"""a source location for the following lines, and the location of the call through which they were inlined"""
_NUMBER = re.compile(r"mov\.[bus]32\s+(%\w+),\s*(-?\d+);")
_PREDICATE = re.compile(r"^(@!?%?\w+)\s+")
_BRANCH = re.compile(r"bra(?:\.uni)?\s+(\S+);")
_ASSIGNMENT = re.compile(r"(\w[\w.:]*)\s+(%?[A-Za-z_$]\w*)(?:\|%?\w+)?,\s*(.*);$")
_LITERAL = re.compile(r"-?(?:0[xX][0-9a-fA-F]+|\d+)$")
_TERM = re.compile(r"([\w$%.]+?)(?:\s*\+\s*(-?\d+))?$")
_PASSES = ("mov", "cvta", "cvt", "and", "mapa", "selp", "prmt", "shfl")
"""operations whose result points to the same object as their first operand"""
_OF_HELPER = 3
"""maximum number of lines of a helper: a function whose edits go to its call sites"""
_DEEPEST = 12
"""maximum number of operations through which the value of a register is followed"""


Spot = tuple[int, int, int]
"""number of a file, line and column"""


class Place(NamedTuple):
    """An instruction."""

    at: int
    """line of the text, from 0"""
    text: str
    """the instruction without surrounding blanks, predicate and comment"""
    file: str
    """source file of the statement"""
    line: int
    run: int
    """number of the statement: consecutive instructions of the same line"""
    looped: bool = False
    """true if a branch from below jumps to the instruction"""
    column: int = 0
    predicate: str = ""
    """predicate of the instruction, such as `@%p1`; empty if there is none"""
    spot: Spot = (0, 0, 0)
    """the statement to which the instruction belongs, whether its source is shown or not"""
    frames: tuple[Span, ...] = ()
    """source location of the instruction, and the calls through which it was inlined, innermost first"""


class Address(NamedTuple):
    """The known part of a register's value: a symbol and an offset in bytes, or a number."""

    symbol: str
    offset: int
    varies: bool
    """true if an unknown number is added"""


class Loop(NamedTuple):
    """A loop, by the lines of its first and last instruction."""

    first: int
    last: int


class Text(NamedTuple):
    """The PTX of a kernel."""

    path: str
    lines: list[str]
    places: list[Place]

    @classmethod
    def of(cls, text: str, path: str, first: int, last: int, files: dict[int, str]) -> Text:
        """Return the text of a kernel: the lines of a file from `first` to `last`, counted from 1."""
        lines = lines_of(text)
        chains = _chains(lines, range(first - 1, min(last, len(lines))))
        helpers = _helpers(chains.values())
        backwards = _loop_labels(lines[first - 1 : last])
        places: list[Place] = []
        before, run, label = ("", 0), 0, ""
        for at in range(first - 1, min(last, len(lines))):
            words = lines[at].partition("//")[0].strip()
            if words.endswith(":"):
                label = words[:-1]
            elif words.endswith(";") and words[:1] not in (".", "/", "{", "}"):
                chain = chains.get(at, ())
                file, line, column = _find_shown(chain, helpers, files) or (path, at + 1, 0)
                spot = _statement(chain, helpers, files) or (-1, at + 1, 0)
                run += (file, line) != before
                before = file, line
                guard = _PREDICATE.match(words)
                bare = _PREDICATE.sub("", words)
                looped, predicate = label in backwards, guard[1] if guard else ""
                frames = tuple(Span(files.get(n, ""), row, max(begin - 1, 0), row, begin) for n, row, begin in chain)
                places.append(Place(at, bare, file, line, run, looped, column, predicate, spot, frames))
                label = ""
        known = _numbers(places)
        return cls(path, lines, [_with_numbers(place, known) for place in places])

    def replace_lines(self, changed: dict[int, str]) -> str:
        """Return the file with other text for some lines."""
        return "".join(changed.get(n, line) for n, line in enumerate(self.lines))


def _chains(lines: list[str], kernel: range) -> dict[int, tuple[Spot, ...]]:
    """Return the source location of each line of a kernel, and the calls through which it was inlined, innermost
    first."""
    calls: dict[Spot, Spot] = {}
    found: dict[int, tuple[Spot, ...]] = {}
    here: tuple[Spot, ...] = ()
    assembly = 0
    for at in kernel:
        noted = _LOC.match(lines[at])
        if "// begin inline asm" in lines[at] or "// end inline asm" in lines[at]:
            assembly = int("// begin" in lines[at])
        # within inline assembly, only the first .loc is a source line: LLVM counts the lines of its text on from there
        if assembly and noted is not None:
            assembly += 1
        if noted is None or assembly > 2:
            if here:
                found[at] = here
        elif noted[2] != "0":  # line 0 means that the line is unknown
            spot = int(noted[1]), int(noted[2]), int(noted[3] or 0)
            chain = [spot]
            calls.pop(spot, None)
            if noted[4]:
                calls[spot] = int(noted[4]), int(noted[5]), int(noted[6] or 0)
            while (outer := calls.get(chain[-1])) is not None and outer not in chain:
                chain.append(outer)
            here = tuple(chain)
    return found


def _helpers(chains: Iterable[tuple[Spot, ...]]) -> set[tuple[Spot, ...]]:
    """Return the call chains that end in a call of a short function, whose edits go to the call instead.  If the kernel
    has few lines and only wraps the function that it calls, this function does not count as short."""
    known = [*chains]
    own, called = ({chain[n][:2] for chain in known if len(chain) >= -n} for n in (-1, -2))
    wraps = len(own) <= _OF_HELPER and len(called) > len(own)
    lines: dict[tuple[Spot, ...], set[int]] = {}
    for chain in known:
        for depth in range(len(chain) - 1 - wraps):
            lines.setdefault(chain[depth + 1 :], set()).add(chain[depth][1])
    return {calls for calls, inside in lines.items() if len(inside) <= _OF_HELPER}


def _find_shown(
    chain: tuple[Spot, ...], helpers: set[tuple[Spot, ...]], files: dict[int, str]
) -> tuple[str, int, int] | None:
    """Return the file, line and column of an instruction, outside of short functions and of the toolkit's headers; None
    if its source is not shown."""
    for depth, (number, line, column) in enumerate(chain):
        file, last = files.get(number, ""), depth == len(chain) - 1
        if file and (last or (chain[depth + 1 :] not in helpers and not is_toolkit_header(file))):
            return file, line, column
    return None


def _statement(chain: tuple[Spot, ...], helpers: set[tuple[Spot, ...]], files: dict[int, str]) -> Spot | None:
    """Return the location of an instruction outside helpers, in a source that may be missing."""
    for depth, spot in enumerate(chain):
        if depth == len(chain) - 1 or (chain[depth + 1 :] not in helpers and files.get(spot[0])):
            return spot
    return None


def _loop_labels(lines: list[str]) -> set[str]:
    """Return labels that are the target of a branch below them."""
    known: set[str] = set()
    found: set[str] = set()
    for line in lines:
        words = _PREDICATE.sub("", line.partition("//")[0].strip())
        if words.endswith(":"):
            known.add(words[:-1])
        elif (branch := _BRANCH.match(words)) and branch[1] in known:
            found.add(branch[1])
    return found


def _numbers(places: list[Place]) -> dict[str, str]:
    """Return the registers that one instruction sets to a number, and that no other instruction sets to one."""
    given = [(m[1], m[2]) for place in places if (m := _NUMBER.match(place.text))]
    once = Counter(register for register, _ in given)
    return {register: number for register, number in given if once[register] == 1}


def _with_numbers(place: Place, known: dict[str, str]) -> Place:
    """Return a barrier operation with the numbers that its registers hold."""
    if not place.text.startswith("bar"):
        return place
    return place._replace(text=re.sub(r"%\w+", lambda m: known.get(m[0], m[0]), place.text))


class Registers:
    """The values of registers."""

    def __init__(self, places: Iterable[Place]) -> None:
        self._given: dict[str, list[tuple[str, list[str]]]] = {}
        self._local: dict[str, list[tuple[int, str, list[str]]]] = {}
        """registers that are declared in a `{ }` scope; another scope may reuse the name"""
        for place in places:
            if match := _ASSIGNMENT.match(place.text):
                operands = [part.strip() for part in match[3].split(",")]
                if match[2].startswith("%"):
                    self._given.setdefault(match[2], []).append((match[1], operands))
                else:
                    self._local.setdefault(match[2], []).append((place.at, match[1], operands))
        self._known: dict[str, Address] = {}

    def address(self, operand: str, at: int = 0) -> Address:
        """Return what an operand of line `at` points to: a register, a symbol or a number, perhaps with an offset."""
        for given, operation, operands in reversed(self._local.get(operand.strip("[] "), [])):
            if given < at:
                return self._result(operation, operands, _DEEPEST)
        return self._follow(operand, _DEEPEST)

    def number(self, operand: str) -> int | None:
        """Return the number that an operand holds; None if it is not one constant."""
        found = self.address(operand)
        return None if found.symbol or found.varies else found.offset

    def _follow(self, operand: str, depth: int) -> Address:
        operand = operand.strip("[] ")
        if _LITERAL.match(operand):
            return Address("", int(operand, 0), False)
        match = _TERM.match(operand)
        if match is None or depth == 0:
            return Address("", 0, True)
        name, more = match[1], int(match[2] or 0)
        if name.startswith("%"):
            found = self._register(name, depth)
        else:
            found = Address(name, 0, False)
        return found._replace(offset=found.offset + more)

    def _register(self, name: str, depth: int) -> Address:
        if name in self._known:
            return self._known[name]
        given = self._given.get(name, [])
        self._known[name] = Address("", 0, True)  # for a register that depends on itself
        found = [self._result(*one, depth - 1) for one in given]
        best = next((one for one in found if one.symbol), found[0] if found else Address("", 0, True))
        if len(given) > 1:
            best = best._replace(varies=True)
        self._known[name] = best
        return best

    def _result(self, operation: str, operands: list[str], depth: int) -> Address:
        """Return the value of an operation."""
        kind = operation.partition(".")[0]
        if kind in _PASSES and operands:
            return self._follow(operands[0], depth)
        if kind in ("add", "or", "sub") and len(operands) > 1:
            return _sum(self._follow(operands[0], depth), self._follow(operands[1], depth), kind == "sub")
        if kind == "mad" and len(operands) > 2:
            return self._follow(operands[2], depth)._replace(varies=True)
        return Address("", 0, True)


def _sum(one: Address, other: Address, negated: bool) -> Address:
    """Return the sum of two values, or their difference."""
    sign = -1 if negated else 1
    return Address(one.symbol or other.symbol, one.offset + sign * other.offset, one.varies or other.varies)


def find_loops(text: Text) -> list[Loop]:
    """Return the loops of a kernel, the smallest first.  A loop extends from a label down to the last branch that jumps
    back to it."""
    scopes: list[dict[str, int]] = [{}]
    found: dict[int, Loop] = {}
    first, last = (text.places[0].at, text.places[-1].at) if text.places else (0, -1)
    for at in range(first, last + 1):
        words = _PREDICATE.sub("", text.lines[at].partition("//")[0].strip())
        if words.startswith("{"):
            scopes.append({})
        elif words.startswith("}") and len(scopes) > 1:
            scopes.pop()
        elif words.endswith(":"):
            scopes[-1][words[:-1]] = at
        elif branch := _BRANCH.match(words):
            label = next((scope[branch[1]] for scope in reversed(scopes) if branch[1] in scope), None)
            if label is not None:
                found[label] = Loop(label, at)
    return sorted(found.values(), key=lambda loop: loop.last - loop.first)


@dataclass()
class Patch:
    """An edit of PTX: instructions that precede, follow or replace lines."""

    text: Text
    _before: dict[int, list[str]] = field(default_factory=dict)
    _after: dict[int, list[str]] = field(default_factory=dict)
    _instead: dict[int, str] = field(default_factory=dict)
    _declared: list[str] = field(default_factory=list)

    def before(self, at: int, *instructions: str) -> Patch:
        """Put instructions before a line."""
        self._before.setdefault(at, []).extend(instructions)
        return self

    def after(self, at: int, *instructions: str) -> Patch:
        """Put instructions after a line."""
        self._after.setdefault(at, []).extend(instructions)
        return self

    def replace(self, at: int, instruction: str) -> Patch:
        """Replace an instruction and keep its predicate; the empty instruction deletes the line."""
        line = self.text.lines[at]
        blanks = line[: len(line) - len(line.lstrip())]
        guard = _PREDICATE.match(line.strip())
        self._instead[at] = f"{blanks}{guard[1] + ' ' if guard else ''}{instruction}\n" if instruction else "\n"
        return self

    def delete(self, at: int) -> Patch:
        """Delete a line."""
        self._instead[at] = "\n"
        return self

    def declare(self, *instructions: str) -> Patch:
        """Put declarations and instructions where the kernel begins."""
        self._declared.extend(instructions)
        return self

    def lines(self) -> dict[int, str]:
        """Return the lines that change, with their text."""
        before = dict(self._before)
        if self._declared:
            first = self.text.places[0].at
            before[first] = [*self._declared, *before.get(first, [])]
        return {
            at: "".join(f"\t{what}\n" for what in before.get(at, ()))
            + self._instead.get(at, self.text.lines[at])
            + "".join(f"\t{what}\n" for what in self._after.get(at, ()))
            for at in {*before, *self._after, *self._instead}
        }


class Source:
    """The lines of the sources, as edits name them."""

    def __init__(self, files: set[str]) -> None:
        self._files = files
        """source files that findings name"""

    def where(self, place: Place) -> str:
        """Return a text such as `line 92`, with its file if no finding is in that file."""
        if place.file in self._files:
            return f"line {place.line}"
        return f"line {place.line} of {os.path.basename(place.file)}"

    def statement(self, place: Place) -> str:
        """Return the text of the source line of an instruction, or an empty text."""
        return linecache.getline(place.file, place.line).strip()

    @cached_property
    def files(self) -> set[str]:
        return self._files
