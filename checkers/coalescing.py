"""`uncoalesced`: global memory accesses whose lanes touch more sectors than their bytes need.

Detects: loads and stores whose sectors of 32 bytes, summed over all executions, are at least `Thresholds.uncoalesced`
times the minimum for the same number of bytes.  Every execution counts; the worst one is shown.  Arrays count as
aligned to 256 bytes, like device allocations, whatever their address in NumPy.
Does not detect: the effect of caches between accesses; costs of atomics, which are not modeled; repeated loads of the
same value.
Reference: `model/arch.py` has the rules and their sources; `costs.sector_cost` counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.checkers.access_pattern import access_counts, costliest_first, offsets_by_lane, stride, tally
from wsemu.evidence.places import Places, lanes_text
from wsemu.model.finding import Finding
from wsemu.model.memory_cost import SECTOR
from wsemu.model.remedy import LAST, Cures

if TYPE_CHECKING:
    from wsemu.model.bound import BoundArray
    from wsemu.model.outcome import AccessCount, Pattern
    from wsemu.model.settings import Settings, Thresholds

CODES = ("uncoalesced",)
CURES = {
    "uncoalesced": Cures(LAST, "swap index"),
}


def examine(places: Places, settings: Settings) -> list[Finding]:
    """Return a finding for each access in the source with too many sectors, the costliest first."""
    counts = access_counts(places)
    excess = _excess(counts)
    found = costliest_first(_costly_accesses(counts, settings.thresholds), excess)
    return [_finding(places, pc, counts[pc], sum(excess.values())) for pc in found]


def costliest(places: Places, settings: Settings) -> list[Finding]:
    """Return a finding for the access with the most excess sectors, unless `examine` reports it."""
    counts = access_counts(places)
    excess = _excess(counts)
    worst = max(excess, key=lambda pc: (excess[pc], -pc), default=-1)
    if worst < 0 or not excess[worst] or worst in _costly_accesses(counts, settings.thresholds):
        return []
    return [_finding(places, worst, counts[worst], sum(excess.values()))]


def _excess(counts: dict[int, AccessCount]) -> dict[int, int]:
    return {pc: count.sectors - count.ideal_sectors for pc, count in counts.items()}


def _costly_accesses(counts: dict[int, AccessCount], thresholds: Thresholds) -> list[int]:
    """Return the accesses that cost enough for a warning."""
    return [
        pc
        for pc, count in counts.items()
        if count.worst_sectors and count.sectors >= thresholds.uncoalesced * count.ideal_sectors
    ]


def _finding(places: Places, pc: int, count: AccessCount, excess: int) -> Finding:
    pattern = count.worst_sectors
    assert pattern is not None
    times = f"{count.sectors / count.ideal_sectors:.1f}".removesuffix(".0")
    return Finding(
        code="uncoalesced",
        message=f"global {places.verb(pc)} of {places.array_name(pc)} moves {times} times the sectors it needs",
        sites=[places.site(pc, _label(places, pc, pattern), cta=pattern.cta), *places.callers(pc)],
        notes=[tally("sectors", count.executions, count.sectors, count.ideal_sectors, pattern.cost, excess)],
        help=_help(places, pc, pattern),
        factor=count.sectors / count.ideal_sectors,
    )


def _label(places: Places, pc: int, pattern: Pattern) -> str:
    """Return a label such as `lanes 0-31 touch 32 sectors, 4,096 bytes apart`."""
    offsets = offsets_by_lane(pattern)
    text = f"{lanes_text(pattern.lanes)} touch {pattern.cost} sectors"
    step = stride(offsets)
    if step and abs(step) > places.size(pc):
        return f"{text}, {abs(step):,} bytes apart"
    if step and abs(step) == places.size(pc) and _begins(pattern) and not _has_gaps(pattern):
        return f"{text}, from byte {_begins(pattern)} of a sector on"
    return text


def _begins(pattern: Pattern) -> int:
    """Return the offset of the first byte in its sector."""
    return min(offsets_by_lane(pattern).values()) % SECTOR


def _has_gaps(pattern: Pattern) -> bool:
    """Return whether inactive lanes lie between active ones."""
    lanes = pattern.lanes // (pattern.lanes & -pattern.lanes)
    return bool(lanes & (lanes + 1))


def _help(places: Places, pc: int, pattern: Pattern) -> str | None:
    size, step = places.size(pc), stride(offsets_by_lane(pattern))
    if step is None and "halo" in places.patterns(pc):
        return (
            "the border next to a row of the tile fills less than a sector: if the tile is loaded too, transfer its "
            "rows together with their borders, by one `CudaDMAStrided`; otherwise, this cost is unavoidable"
        )
    if step is None:
        return "neighboring lanes have no common stride: sort the indices, or stage the data in shared memory"
    if abs(step) > size:
        return _strided_help(places, pc, pattern, abs(step))
    if abs(step) == size and _begins(pattern) and not _has_gaps(pattern):
        return f"start at a multiple of {SECTOR} bytes, which is {SECTOR // size} elements of {size} bytes"
    if abs(step) == size:
        return "inactive lanes leave gaps between the elements: store the needed elements contiguously"
    return None


def _strided_help(places: Places, pc: int, pattern: Pattern, step: int) -> str:
    """Return the help for lanes that run along the wrong axis, or that access only every n-th element."""
    array, size = _array(places, pc, pattern), places.size(pc)
    axes = [] if array is None else [axis for axis, s in enumerate(array.strides) if abs(s) == step]
    inner = None if array is None else min(range(len(array.strides)), key=lambda axis: abs(array.strides[axis]))
    if array is not None and axes and inner not in axes and array.shape[inner or 0] > 1:
        return (
            f"index axis {inner} of `{array.name}` with `threadIdx.x`, because its elements are "
            f"{abs(array.strides[inner or 0])} bytes apart, instead of axis {axes[0]}; or stage a tile in shared "
            "memory"
        )
    text = f"access neighboring elements in neighboring lanes, not every {_ordinal(step // size)} one"
    if step in (2 * size, 4 * size) and step <= 16 and not _has_gaps(pattern):
        text += f"; or, if a lane needs all of them, load {step // size} at once: `ptx.ld_v{step // size}`"
    return text


def _array(places: Places, pc: int, pattern: Pattern) -> BoundArray | None:
    """Return the argument that the source names at an access."""
    name = places.program.array_of[pc]
    return next((a for a in places.arrays if a.segment == pattern.segment and a.name == name), None)


def _ordinal(n: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th") if n % 100 not in (11, 12, 13) else "th"
    return f"{n:,}{ending}"
