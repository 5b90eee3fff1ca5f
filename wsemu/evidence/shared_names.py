"""Find the names of mbarriers and tiles in shared memory, as spelled in the CUDA C++ source.

In PTX, an mbarrier in a struct in dynamic shared memory is only an offset.  But the calls that initialize mbarriers
name them: from `mbar_init(&s.empty[i], 4)` and the addresses of its executions follow the names `s.empty[0]` and
`s.empty[1]`.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from wsemu.evidence import cuda_calls
from wsemu.evidence.source_view import CUDA
from wsemu.model.data import NamedTuple
from wsemu.model.effects import effects_of
from wsemu.model.isa import NAMES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from wsemu.model.program import Program, Span

_SUBSCRIPT = re.compile(r"(.*)\[([^\[\]]*(?:\[[^\[\]]*\][^\[\]]*)*)\]([^\[\]]*)$")
"""the last subscript, with the text around it"""
_BYTES = 8
"""size of an mbarrier, in bytes"""


class _Array(NamedTuple):
    """Mbarriers that one expression names, with different values of its subscript."""

    before: str
    """text that precedes the subscript"""
    after: str
    """text that follows the subscript"""
    scalar: bool


class SharedNames:
    """The names of the mbarriers of a launch, and of the tiles that its copies write."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._found: dict[tuple[int, bool], cuda_calls.Found | None] = {}
        self._names: dict[int, str] = {}
        self._known = 0

    def find_object(self, pc: int, *, mbarrier: bool = False) -> cuda_calls.Found | None:
        """Return the source text of the object of an operation: its mbarrier, or the destination of a copy.  With
        `mbarrier`, return the mbarrier of a copy."""
        key = pc, mbarrier
        if key not in self._found:
            self._found[key] = self._find(pc, mbarrier)
        return self._found[key]

    def _find(self, pc: int, mbarrier: bool) -> cuda_calls.Found | None:
        begin = _instruction(NAMES[int(self._program.code[pc, 0])])
        frames = find_frames(self._program, pc)
        if not begin or not frames[0].file.endswith(CUDA):
            return None
        turn = self._find_turn(pc, frames) if begin != ("mbarrier",) or "init" in NAMES[self._code(pc)] else (0, 0)
        for operation in begin:
            found = cuda_calls.find_object(frames, operation, self._program.array_of[pc], mbarrier, turn)
            if found is not None:
                return found
        return None

    def _code(self, pc: int) -> int:
        return int(self._program.code[pc, 0])

    def _find_turn(self, pc: int, frames: Sequence[Span]) -> tuple[int, int]:
        """Return the position of an instruction among those of the same source location, and their number."""
        alike = np.flatnonzero(self._program.code[:, 0] == self._code(pc)).tolist()
        alike = [n for n in alike if find_frames(self._program, n) == frames]
        return alike.index(pc), len(alike)

    def mbarrier(self, address: int, known: Mapping[int, tuple[int, int]]) -> str:
        """Return the name of an mbarrier, or an empty text if the source has none.  `known` has all mbarriers, with the
        instructions that initialized them."""
        if len(known) != self._known:
            self._known, self._names = len(known), self._name(known)
        return self._names.get(address, "")

    def last_part(self, text: str) -> str:
        """Return the variable or member that a name is of: `full` of `s.full[2]`."""
        return re.split(r"\.|->", re.sub(r"\[.*?\]", "", text))[-1]

    def _name(self, known: Mapping[int, tuple[int, int]]) -> dict[int, str]:
        arrays: defaultdict[_Array, list[tuple[int, str]]] = defaultdict(list)
        for address, (pc, _) in sorted(known.items()):
            found = self.find_object(pc)
            if found is not None:
                match = _SUBSCRIPT.match(found.text)
                array = _Array(match[1], match[3], scalar=False) if match else _Array(found.text, "", scalar=True)
                arrays[array].append((address, match[2] if match else ""))
        names: dict[int, str] = {}
        for array, entries in arrays.items():
            names |= _number(array, entries)
        return names


def find_frames(program: Program, pc: int) -> list[Span]:
    """Return the spans of an instruction: its own, then the calls that it was inlined through."""
    number, spans = program.span_of[pc], program.spans
    inner = program.inner_spans.get(number, ())
    return [spans[n] for n in (*reversed(inner), number, *reversed(program.stack_of[pc]))]


def _instruction(name: str) -> Sequence[str]:
    """Return how an operation begins in PTX, if its first address is in shared memory: one on an mbarrier, or a copy
    that brings data.  Other forms of `cp` name global memory first."""
    if name.startswith("mbarrier"):
        return ("mbarrier",)
    moves = effects_of(name).moves
    return ("cp.async",) if moves.agent and (moves.reads, moves.writes) == ("global", "shared") else ()


def _number(array: _Array, entries: Sequence[tuple[int, str]]) -> dict[int, str]:
    """Return names for the mbarriers of an array, or nothing if their addresses are not those of one array."""
    addresses = [address for address, _ in entries]
    if array.scalar:
        return {addresses[0]: array.before} if len(addresses) == 1 else {}
    step = _step(addresses) if array.after else _BYTES
    literals = {address - int(text) * step for address, text in entries if text.isdecimal()}
    first = literals.pop() if len(literals) == 1 else min(addresses)
    if any((address - first) % step or address < first for address in addresses):
        return {}
    return {address: f"{array.before}[{(address - first) // step}]{array.after}" for address in addresses}


def _step(addresses: Iterable[int]) -> int:
    """Return the distance of neighbouring elements: the greatest common divisor of all distances."""
    ordered = sorted(addresses)
    return math.gcd(*(b - a for a, b in itertools.pairwise(ordered))) or _BYTES
