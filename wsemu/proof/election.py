"""Find elections: one active lane adds the number of active lanes for all of them.  The sum of these additions does
not depend on which lanes are active together.

    mask = cuda.activemask()
    if cuda.laneid == cuda.ffs(mask) - 1:
        cuda.atomic.add(count, 0, cuda.popc(mask))

Lanes that execute an `activemask` together are a group, and the mask contains the lanes of the group.  The first lane
of each group adds the size of the group.  If all groups add to one location, they add the number of lanes that reached
the `activemask`.  The pattern is an addition in straight-line code after the `activemask`, under a branch or a guard
that only the first lane of the mask passes.  The added number is the number of ones in the mask, and the address is
equal for all threads of the CTA.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.model.control_flow import BRA, JUMPS
from wsemu.model.data import NamedTuple
from wsemu.model.isa import NAMES, OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wsemu.model.program import Program

_UNIFORM = ("shared", "dynamic", *(f"{name}.{axis}" for name in ("ctaid", "ntid", "nctaid") for axis in "xyz"))
_HALF = {"b32": 1 << 31, "b64": 1 << 63}
ADDITIONS = tuple(f"atom.add.{type_}" for type_ in _HALF)
Meaning = tuple[str, int]
"""knowledge of the value in a register row"""
# "This lane" is the lane that holds the value.
#     ("mask", 0)      The mask of active lanes.
#     ("reversed", 0)  The mask with its bits in reverse order.
#     ("first", n)     The number of the first lane in the mask, plus n.
#     ("size", 0)      The number of lanes in the mask.
#     ("lane", 0)      The number of this lane.
#     ("thread", 0)    tid.x.
#     ("elected", 1)   A predicate: this lane is the first one in the mask.
#     ("elected", 0)   A predicate: this lane is not the first one in the mask.
#     ("never", 0)     A predicate that is false in all lanes.
#     ("constant", n)  The number n.
#     ("uniform", 0)   A value that is equal for all threads of the CTA.


class Election(NamedTuple):
    """An addition by the first lane of the active ones."""

    atomic: int
    """pc of the atomic that adds"""
    steered: int
    """pc of the instruction whose guard only one lane passes: a branch, or the atomic itself"""
    region: range
    """pcs of the instructions that only this lane executes"""


def elections(program: Program, active: int, *, lanes_by_x: bool) -> list[Election]:
    """Return the elections by the mask of the `activemask` at a pc.  `lanes_by_x`: a lane is tid.x modulo 32."""
    return list(_Scan(program, lanes_by_x).run(active))


class _Scan:
    """Follows straight-line code, and keeps the meanings of rows in `held`."""

    def __init__(self, program: Program, lanes_by_x: bool) -> None:
        self.code: list[list[int]] = program.code.tolist()
        self.lanes_by_x = lanes_by_x
        self.entered = {row[6] for row in self.code if row[0] in JUMPS}
        self.held: dict[int, Meaning] = {parameter.row: ("uniform", 0) for parameter in program.parameters}
        self.held.update((array.row, ("uniform", 0)) for array in program.constant_arrays)
        self.held.update((row, ("constant", int(value))) for row, type_, value in program.constants if type_[0] == "b")
        for name, row in program.specials.items():
            if name in _UNIFORM:
                self.held[row] = ("uniform", 0)
            elif name in ("laneid", "tid.x"):
                self.held[row] = ("lane" if name == "laneid" else "thread", 0)

    def run(self, active: int) -> Iterable[Election]:
        """Yield the elections after an `activemask`, up to the next point at which control flow joins or leaves."""
        fields = self.code[active]
        if fields[1]:  # with a guard, the other lanes have another mask
            return
        self.held[fields[2]] = ("mask", 0)
        for pc in range(active + 1, len(self.code)):
            fields = self.code[pc]
            name = NAMES[fields[0]]
            kind = OPERATIONS[name].kind
            if pc in self.entered:
                return
            if fields[0] == BRA and fields[5] == fields[6] > pc and self._passes(fields[1] ^ 1):
                yield from self._region(pc, range(pc + 1, fields[6]))
                return
            if kind in ("control", "barrier"):
                return
            if self._adds(name, fields) and self._passes(fields[1]):
                yield Election(pc, pc, range(pc, pc + 1))
            self._assign(name, kind, fields)

    def _region(self, branch: int, region: range) -> list[Election]:
        """Return the elections in code that only one lane executes; none if the code has operations other than
        arithmetic and elections."""
        found = []
        for pc in region:
            fields = self.code[pc]
            name = NAMES[fields[0]]
            kind = OPERATIONS[name].kind
            adds = self._adds(name, fields) and not fields[1]
            if pc in self.entered or not (kind == "alu" or adds):
                return []
            if adds:
                found.append(Election(pc, branch, region))
            self._assign(name, kind, fields)
        return found

    def _passes(self, guard: int) -> bool:
        """Return whether the first lane alone passes a guard."""
        return bool(guard >> 1) and self.held.get(guard >> 1) == ("elected", 1 - (guard & 1))

    def _adds(self, name: str, fields: list[int]) -> bool:
        """Return whether an instruction adds the size of the mask, at one address for all threads."""
        if name not in ADDITIONS or self.held.get(fields[4]) != ("size", 0):
            return False
        return self.held.get(fields[3], ("", 0))[0] in ("uniform", "constant")

    def _assign(self, name: str, kind: str, fields: list[int]) -> None:
        """Update the meanings of rows after an instruction."""
        operation = OPERATIONS[name]
        if kind == "store" or not operation.result:
            return
        held = None
        if kind == "alu" and not fields[1]:
            held = self._meaning(name, [self.held.get(row) for row in fields[3 : 3 + len(operation.operands)]])
        elements = int(name.split(".")[1][1:]) if ".v" in name else 1
        for k in range(elements):
            self.held.pop(fields[2] + 256 * k, None)
        if kind == "warp" and fields[7]:
            self.held.pop(fields[7], None)
        if held is not None:
            self.held[fields[2]] = held

    def _meaning(self, name: str, x: list[Meaning | None]) -> Meaning | None:
        """Return the meaning of an arithmetic result."""
        what = name.split(".")[0]
        if None in x:
            return self._select_meaning(what, x)
        a, b = (x + x)[:2]
        assert a is not None
        assert b is not None
        operation = OPERATIONS[name]
        if what == "mov":
            return a
        if what == "cvt":
            return _convert_meaning(name, a) if operation.result[0] == operation.operands[0][0] == "b" else None
        if what == "not" and a[0] == "elected":
            return "elected", 1 - a[1]
        if what in ("add", "sub") and operation.result in _HALF and a[0] == "first" and b[0] == "constant":
            half = _HALF[operation.result]
            return "first", (a[1] + (b[1] if what == "add" else -b[1]) + half) % (2 * half) - half
        if a[0] in ("mask", "reversed", "thread"):
            return self._combine_bits(what, name, a, b)
        if what == "setp":
            chosen = ("lane", 0), ("first", 0)
            if (a, b) in (chosen, chosen[::-1]) and name.split(".")[1] in ("eq", "ne"):
                return "elected", int(".eq." in name)
            return None
        if all(item is not None and item[0] in ("uniform", "constant") for item in x):
            return "uniform", 0
        return self._select_meaning(what, x)

    def _combine_bits(self, what: str, name: str, a: Meaning, b: Meaning) -> Meaning | None:
        """Return the meaning of an operation on the mask, or on tid.x."""
        if a[0] == "thread":
            return ("lane", 0) if what == "and" and b == ("constant", 31) and self.lanes_by_x else None
        if name.startswith("setp.eq.") and b == ("constant", 0):
            return "never", 0  # a lane is in its own mask
        made: dict[tuple[str, str], Meaning] = {
            ("mask", "ffs"): ("first", 1), ("mask", "brev"): ("reversed", 0), ("mask", "popc"): ("size", 0),
            ("reversed", "popc"): ("size", 0), ("reversed", "clz"): ("first", 0),
        }  # fmt: skip
        return made.get((a[0], what))

    def _select_meaning(self, what: str, x: list[Meaning | None]) -> Meaning | None:
        return x[1] if what == "selp" and x[2] == ("never", 0) else None


def _convert_meaning(name: str, a: Meaning) -> Meaning | None:
    """Return the meaning of an integer after a conversion: a truncated one may lose lanes of a mask, and an extended
    one has them elsewhere, counted from its highest bit."""
    if a[0] in ("constant", "uniform"):
        return "uniform", 0
    _, result, source = name.split(".")
    if result != "b64" or source[1:] != "32":
        return None
    if a[0] in ("mask", "reversed"):
        return a if a[0] == "mask" and source[0] == "u" else None
    return None if a[0] == "first" and a[1] < 0 and source[0] == "u" else a
