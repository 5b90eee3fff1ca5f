"""The accesses of a launch whose orders are tried, and the arrays whose contents may steer it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wsemu.evidence.places import Places
from wsemu.model.isa import ATOMICS, FIRST_ARRAY, NAMES, OPCODE, OPERATIONS, SCOPES
from wsemu.proof import taint
from wsemu.proof.contents import Contents
from wsemu.proof.idle import polls

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wsemu.model.bound import Bound
    from wsemu.model.program import Program

Key = tuple[frozenset[tuple[int, int]], frozenset[int], bool]
ACCESSES = ("load", "store", "atomic")


def find_scopes(bound: Bound) -> int:
    """Return the scopes, narrower than all CTAs, that strong accesses of a launch name."""
    code = bound.program.code
    atomics = np.isin(code[:, 0], [OPCODE[name] for name in ATOMICS])
    return int(np.bitwise_or.reduce(code[atomics, 7], initial=0)) & SCOPES


def find_kinds(bound: Bound, kinds: Iterable[str]) -> list[int]:
    return [pc for pc, op in enumerate(bound.program.code[:, 0].tolist()) if OPERATIONS[NAMES[op]].kind in kinds]


def find_steering(bound: Bound, places: Places) -> frozenset[int]:
    """Return the arrays whose contents may influence control flow or addresses."""
    contents = Contents(bound.program, [1] * len(bound.program.code), places.segment_of.get)
    known = {source.segment - FIRST_ARRAY for source in contents.sources}
    found = {source.segment - FIRST_ARRAY for source in contents.steering()}
    return frozenset(found | set(range(len(bound.segments))) - known)


def find_ordered(bound: Bound, places: Places, atomics: frozenset[int]) -> frozenset[int]:
    """Return the atomics whose order is tried, without two kinds.  The order of atomics that commute and whose
    results are unused does not matter.  Neither does that of strong loads of arrays that nothing writes, unless a run
    ended in loops that wait with them.  A lane in such a loop waits forever if no host and no other launch may write
    there.
    """
    program = bound.program
    alone = places.outcome.waits and bound.memory is None
    known: dict[Key, frozenset[int]] = program.derived.setdefault("ordered accesses", {})
    key = frozenset(places.segment_of.items()), atomics, alone
    if key not in known:
        known[key] = _find_ordered(program, places, atomics, alone=alone)
    return known[key]


def find_data(bound: Bound, places: Places, ordered: frozenset[int]) -> frozenset[int]:
    """Return the strong loads and stores that count as plain ones: see `taint.like_data`."""
    known: dict[Key, frozenset[int]] = bound.program.derived.setdefault("accesses like data", {})
    key = frozenset(places.segment_of.items()), ordered, False
    if key not in known:
        known[key] = taint.like_data(bound.program, ordered, places.segment_of.get)
    return known[key]


def _find_ordered(program: Program, places: Places, atomics: frozenset[int], *, alone: bool) -> frozenset[int]:
    unwritten = taint.read_only(program, places.segment_of.get, atomics)
    idle = {pc for pc in unwritten if not (alone and polls(program, pc))}
    return atomics - taint.commuting_unused(program, atomics, places.segment_of.get) - idle
