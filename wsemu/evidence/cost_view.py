"""Costs of memory accesses by source line, and the bank that each lane accesses: data for reports.

Reference: `model/arch.py` has the rules; the counts are those of the checked run, over all its CTAs.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from wsemu.model.arch import ARCHS
from wsemu.model.data import NamedTuple
from wsemu.model.isa import SEGMENT_SHIFT
from wsemu.model.memory_cost import WORD, bank_wants, passes, wavefronts

if TYPE_CHECKING:
    from wsemu.evidence.places import Places
    from wsemu.model.outcome import Pattern

MOST_PICTURES = 12
"""maximum number of bank pictures; the cheapest accesses beyond that get none"""


class LineCost(NamedTuple):
    """The cost of the accesses of one source line.  An ideal is the minimum possible cost."""

    file: str
    line: int
    executions: int
    """number of executions by warps"""
    wavefronts: int
    ideal_wavefronts: int
    sectors: int
    ideal_sectors: int


class Cell(NamedTuple):
    """A lane that requests a word of a bank."""

    lane: int
    bank: int
    word: int
    """counted from the start of shared memory"""
    ways: int
    """number of different words of this bank that are requested in one pass; for an atomic, the number of requesting
    lanes"""


class BankPicture(NamedTuple):
    """The worst execution of a shared access that had conflicts."""

    text: str
    """`load tile[lane, k]`"""
    file: str
    line: int
    cta: int
    wavefronts: int
    ideal: int
    executions: int
    banks: int
    """number of banks of this architecture"""
    cells: tuple[Cell, ...]


def line_costs(places: Places) -> list[LineCost]:
    """Return the lines with accesses to shared or global memory, ordered by file and line."""
    found: defaultdict[tuple[str, int], list[int]] = defaultdict(lambda: [0] * 5)
    for pc, count in places.outcome.accesses.items():
        if not (count.wavefronts or count.sectors):
            continue
        span = places.span(pc)
        costs = (count.executions, count.wavefronts, count.ideal_wavefronts, count.sectors, count.ideal_sectors)
        total = found[span.file, span.line]
        total[:] = [a + b for a, b in zip(total, costs, strict=True)]
    return [LineCost(file, line, *costs) for (file, line), costs in sorted(found.items())]


def bank_pictures(places: Places) -> list[BankPicture]:
    """Return a picture of each shared access that took more wavefronts than necessary, the largest excess first."""
    counts = places.outcome.accesses
    conflicts = {pc: pattern for pc, count in counts.items() if (pattern := count.worst_wavefronts) is not None}
    excess = {pc: counts[pc].wavefronts - counts[pc].ideal_wavefronts for pc in conflicts}
    order = sorted(conflicts, key=lambda pc: (-excess[pc], pc))
    return [_picture(places, pc, conflicts[pc]) for pc in order[:MOST_PICTURES]]


def _picture(places: Places, pc: int, pattern: Pattern) -> BankPicture:
    model = ARCHS[places.outcome.arch].costs
    size, count, span = places.size(pc), places.outcome.accesses[pc], places.span(pc)
    offsets = {lane: at for lane, at in enumerate(pattern.offsets) if pattern.lanes >> lane & 1}
    service = places.service(pc)
    cells = []
    for part in passes(offsets, size, service, model):
        wanted = bank_wants(part, size, service, model)
        for lane, at in part.items():
            for word in range(at // WORD, (at + size - 1) // WORD + 1):
                bank = word % model.banks
                cells.append(Cell(lane, bank, word, wanted[bank]))
    first = (pattern.segment << SEGMENT_SHIFT) + pattern.offsets[cells[0].lane]
    text = f"{places.verb(pc)} {places.access_text(pc, first)}"
    _, ideal = wavefronts(offsets, size, service, model)
    return BankPicture(
        text, span.file, span.line, pattern.cta, pattern.cost, ideal, count.executions, model.banks, tuple(cells)
    )
