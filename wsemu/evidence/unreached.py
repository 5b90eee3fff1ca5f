"""Synchronization instructions that a launch never executed, so that it proves nothing about them.

An unrolled loop has copies that a small size does not reach.  A branch that no thread takes may contain a barrier for
which other threads would wait.
"""

from __future__ import annotations

import linecache
from collections import Counter
from typing import TYPE_CHECKING

from wsemu.model.effects import find_opcodes
from wsemu.model.file_names import short
from wsemu.model.finding import Unreached, UnreachedPlace
from wsemu.model.isa import NAMES, WAITS
from wsemu.model.own import PATTERNS, is_own

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wsemu.evidence.places import Places

_CODES = find_opcodes(lambda row: row.orders)
"""operations that order threads, warps or asynchronous operations"""
MAX_PLACES = 20
"""maximum locations in a report"""
_MAX_NAMED = 3
"""maximum locations that a note names"""


def find_unreached(places: Places) -> Unreached | None:
    """Return the synchronization instructions that a completed launch never executed, or None if it executed all of
    them."""
    program, outcome = places.program, places.outcome
    if "synchronization" not in program.derived:
        codes = enumerate(program.code[:, 0].tolist())
        program.derived["synchronization"] = [n for n, code in codes if code in _CODES and not _is_library(places, n)]
    found: list[int] = program.derived["synchronization"]
    if outcome.status != "done" or all(outcome.executions[pc] for pc in found):
        return None
    missed = [*_missed_instructions(places, found)]
    if not missed:
        return None
    copies = Counter(_place(places, pc) for pc in found)
    counts = Counter(_place(places, pc) for pc in missed)
    listed = [
        UnreachedPlace.build(operation=place[0], file=place[1], line=place[2], instructions=count, of=copies[place])
        for place, count in counts.items()
    ]
    return Unreached.build(instructions=len(missed), of=len(found), places=listed[:MAX_PLACES])


def _missed_instructions(places: Places, found: list[int]) -> Iterator[int]:
    """Yield the instructions that no warp executed, but for the retry of a wait whose first try succeeded."""
    executions, before = places.outcome.executions, -1
    for pc in found:
        is_retry = before >= 0 and executions[before] and _place(places, before)[0] == _place(places, pc)[0]
        if not executions[pc] and not (is_retry and _name(places, pc) in WAITS):
            yield pc
        before = pc


def _is_library(places: Places, pc: int) -> bool:
    """Return whether an instruction is of a kernel of wsemu's own, such as that of `cuda.reduce`."""
    file = places.span(pc).file
    return is_own(file) and not file.startswith(PATTERNS)


def _name(places: Places, pc: int) -> str:
    return NAMES[int(places.program.code[pc, 0])]


def _place(places: Places, pc: int) -> tuple[str, str, int]:
    span = places.span(pc)
    return places.operation(pc), span.file, span.line


def unreached_note(unreached: Unreached) -> str:
    """Return the note of a report about unreached synchronization."""
    named = []
    for place in unreached.places[:_MAX_NAMED]:
        copies = ""
        if place.of > 1:
            copies = f", {place.instructions:,} of {place.of:,} copies"
        is_all = "__syncthreads" in linecache.getline(place.file, place.line)
        operation = "__syncthreads()" if is_all else place.operation
        named.append(f"`{operation}` ({short(place.file)}:{place.line}{copies})")
    told = sum(place.instructions for place in unreached.places[:_MAX_NAMED])
    more = f" and {unreached.instructions - told:,} more" if told < unreached.instructions else ""
    verb = "was" if unreached.instructions == 1 else "were"
    return (
        f"{unreached.instructions:,} of {unreached.of:,} synchronization instructions {verb} never executed in this "
        f"launch: {', '.join(named)}{more}"
    )
