"""`bank-conflict`: lanes of a shared memory access that request different words of one bank, so that the hardware
serves them in turn.

Detects: loads and stores whose wavefronts, summed over all executions, are at least `Thresholds.bank_conflict` times
the wavefronts that the same lanes need without a conflict.  Every execution counts; the worst one is shown.  A padding
is suggested if it removes the conflicts of all recorded accesses to the array.  An atomic serves one lane of a bank at
a time, also if several lanes request one word.
Does not detect: conflicts of atomics on architectures other than sm_90, and of atomics that loop depending on values
(min, max and bit operations of 8 bytes, min and max of floats).  It also misses conflicts that a suggested padding
causes in accesses that had none.
Reference: `model/arch.py` has the rules and their sources; `costs.shared_cost` counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wsemu.checkers.access_pattern import access_counts, costliest_first, mask, offsets_by_lane, stride, tally
from wsemu.evidence.places import Places, lanes_text
from wsemu.model.arch import ARCHS, limits
from wsemu.model.data import dataclass
from wsemu.model.finding import Finding, Site
from wsemu.model.isa import LOOP, SERIAL, SWAP
from wsemu.model.memory_cost import WORD, bank_wants, bank_words, passes, ways
from wsemu.model.program import SharedArray
from wsemu.model.remedy import LAST, Cures

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wsemu.model.arch import CostModel
    from wsemu.model.outcome import AccessCount, Pattern
    from wsemu.model.settings import Settings, Thresholds

CODES = ("bank-conflict",)
CURES = {
    "bank-conflict": Cures(LAST, "pad constant swap index"),
}
MOST_PADDING = 8
"""maximum number of elements of padding tried at the end of a row"""
ONE_COPY_EACH = "combine the values of a warp first (shuffles, `match_any_sync`), or give each warp a copy of its own"


@dataclass(frozen=True, slots=True)
class _Access:
    """The worst execution of an instruction that had conflicts."""

    pc: int
    size: int
    service: int
    offsets: dict[int, int]
    model: CostModel

    def parts(self) -> list[dict[int, int]]:
        return passes(self.offsets, self.size, self.service, self.model)

    def worst(self) -> tuple[int, dict[int, int]]:
        """Return the conflict degree of the worst pass, and the lanes in conflict."""
        return max(((self.ways(part), part) for part in self.parts()), key=lambda pair: pair[0])

    def ways(self, part: dict[int, int]) -> int:
        return ways(part, self.size, self.service, self.model)

    @property
    def singly(self) -> bool:
        """Return whether the access is an atomic that serves one lane of a bank at a time."""
        return self.service in (SERIAL, SWAP, LOOP)

    @property
    def fewest(self) -> int:
        """Return the minimum number of wavefronts per pass for an access of this size, reached if no two words share a
        bank."""
        return 1 + self.model.extra[{8: 1, 16: 2}.get(self.size, 0)]

    def is_free(self, offsets: dict[int, int]) -> bool:
        """Return whether the access has no conflict if its lanes access these offsets."""
        return all(self.ways(part) == self.fewest for part in passes(offsets, self.size, self.service, self.model))


def examine(places: Places, settings: Settings) -> list[Finding]:
    """Return a finding for each access in the source with too many wavefronts, the costliest first."""
    counts = access_counts(places)
    excess = _excess(counts)
    found = costliest_first(_costly_accesses(counts, settings.thresholds), excess)
    return [_finding(places, pc, counts[pc], sum(excess.values())) for pc in found]


def costliest(places: Places, settings: Settings) -> list[Finding]:
    """Return a finding for the access whose worst execution has the highest conflict degree, unless `examine` reports
    an access with this degree."""
    counts = access_counts(places)
    warned = _costly_accesses(counts, settings.thresholds)
    best, most = -1, 0
    patterns = [(pc, count.worst_wavefronts) for pc, count in counts.items() if count.worst_wavefronts is not None]
    for pc, pattern in sorted(patterns, key=lambda pair: (-pair[1].cost, pair[0] not in warned, pair[0])):
        if pattern.cost <= most:  # the conflict degree of one pass is at most the number of wavefronts of all passes
            break
        n, _ = _access(places, pc, pattern).worst()
        if n > most:
            best, most = pc, n
    if best < 0 or best in warned:
        return []
    return [_finding(places, best, counts[best], sum(_excess(counts).values()))]


def _excess(counts: dict[int, AccessCount]) -> dict[int, int]:
    return {pc: count.wavefronts - count.ideal_wavefronts for pc, count in counts.items()}


def _costly_accesses(counts: dict[int, AccessCount], thresholds: Thresholds) -> list[int]:
    """Return the accesses that cost enough for a warning."""
    return [
        pc
        for pc, count in counts.items()
        if count.worst_wavefronts and count.wavefronts >= thresholds.bank_conflict * count.ideal_wavefronts
    ]


def _finding(places: Places, pc: int, count: AccessCount, excess: int) -> Finding:
    pattern = count.worst_wavefronts
    assert pattern is not None
    access = _access(places, pc, pattern)
    array = _array(places, access)
    n, part = access.worst()
    sites = [places.site(pc, _label(access, n, part, places.outcome.arch), cta=pattern.cta), *places.callers(pc)]
    if array is not None and array.span >= 0:
        sites.append(Site.at(places.program.spans[array.span], _stride_text(array, access), primary=False))
    return Finding(
        code="bank-conflict",
        message=f"{n}-way bank conflict on shared {places.verb(pc)} of {places.array_name(pc)}",
        sites=sites,
        notes=[tally("wavefronts", count.executions, count.wavefronts, count.ideal_wavefronts, pattern.cost, excess)],
        help=_help(places, access, array),
        factor=n,
    )


def _access(places: Places, pc: int, pattern: Pattern) -> _Access:
    model = ARCHS[places.outcome.arch].costs
    return _Access(pc, places.size(pc), places.service(pc), offsets_by_lane(pattern), model)


def _array(places: Places, access: _Access) -> SharedArray | None:
    """Return the array that all lanes access.  An array in dynamic shared memory has no elements and no declaration."""
    program = places.program
    for array in program.shared:
        end = array.offset + _elements(array) * array.dtype.itemsize
        if all(array.offset <= at < end for at in access.offsets.values()):
            return array
    name, element = program.array_of[access.pc], program.element_of[access.pc]
    start = -(-program.shared_bytes // 16) * 16
    if program.uses_dynamic_shared and name and element and min(access.offsets.values()) >= start:
        return SharedArray(name, start, (0,), np.dtype(element), -1)
    return None


def _elements(array: SharedArray) -> int:
    return int(np.prod(array.shape, dtype=np.int64))


# -- what is wrong ----------------------------------------------------------------------------------------------------


def _label(access: _Access, n: int, part: dict[int, int], arch: str) -> str:
    """Return `lanes 0-31 touch 32 words of bank 0`, for the busiest bank."""
    banks = bank_words(part, access.size, access.model)
    wants = bank_wants(part, access.size, access.service, access.model)
    most = max(wants.values())
    bank = next(bank for bank, wanted in wants.items() if wanted == most)
    lanes = {lane for lane, at in part.items() if _uses_bank(at, access, bank)}
    if access.singly:
        words = "one word" if len(banks[bank]) == 1 else f"{len(banks[bank])} words"
        who = lanes_text(mask(lanes))
        return f"{who} request {words} of bank {bank}: atomics are served one lane of a bank at a time"
    if most > 1:
        alike = sum(wanted == most for wanted in wants.values())
        text = f"{lanes_text(mask(lanes))} touch {most} words of bank {bank}"
        return text if alike == 1 else f"{text}; {alike} banks alike"
    if access.model.one_broadcast:
        return f"{n} words are each requested by several lanes: {arch} broadcasts one such word per wavefront"
    return f"an access of {access.size} bytes takes {n} wavefronts for each {len(part)} lanes on {arch}"


def _uses_bank(at: int, access: _Access, bank: int) -> bool:
    words = range(at // WORD, (at + access.size - 1) // WORD + 1)
    return any(word % access.model.banks == bank for word in words)


def _stride_text(array: SharedArray, access: _Access) -> str:
    """Return `row stride 32 words = 0 mod 32 banks`, for the declaration of the array."""
    if len(array.shape) > 1:
        length, what = array.shape[-1] * array.dtype.itemsize, "row stride"
    else:
        step = stride(access.offsets)
        if not step:
            return "declared here"
        length, what = abs(step), "neighbouring lanes are"
    banks = access.model.banks
    if length % WORD:
        return f"{what} {length} bytes" + (" apart" if what != "row stride" else "")
    words = length // WORD
    unit = f"{words} word{'s' * (words != 1)}" + (" apart" if what != "row stride" else "")
    return f"{what} {unit} = {words % banks} mod {banks} banks"


# -- what removes it --------------------------------------------------------------------------------------------------


def _help(places: Places, access: _Access, array: SharedArray | None) -> str:
    neighbours = "access neighboring words in neighboring lanes"
    if access.is_free(access.offsets):
        return f"{neighbours} with 4-byte accesses, which need no second wavefront on {places.outcome.arch}"
    if access.singly and any(len(set(part.values())) < len(part) for part in access.parts()):
        return ONE_COPY_EACH
    if array is None:
        return neighbours
    others = [other for other in _conflicting(places, array) if other.pc != access.pc]
    together = [access, *others]
    row = _row(array, access)
    if row == 0:
        return neighbours
    rows = _elements(array) // row + (_elements(array) % row > 0)
    for longer in _longer(places, array, row, together):
        if _fits(places, array, rows * longer) and all(
            _padding_removes_conflict(array, row, longer, one) for one in together
        ):
            lines = sorted({places.line(other.pc) for other in others} - {places.line(access.pc)})
            return _suggestion(array, row, rows, longer, lines)
    return f"{neighbours}; no padding of 1 to {MOST_PADDING} elements a row removes this conflict (tried)"


def _conflicting(places: Places, array: SharedArray) -> Iterator[_Access]:
    for pc, count in places.outcome.accesses.items():
        if count.worst_wavefronts is not None:
            access = _access(places, pc, count.worst_wavefronts)
            if _array(places, access) == array:
                yield access


def _row(array: SharedArray, access: _Access) -> int:
    """Return the length, in elements, of the rows that padding may extend: the last axis, or the distance between
    adjacent lanes; 0 without rows."""
    if len(array.shape) > 1:
        return array.shape[-1]
    length = abs(stride(access.offsets) or 0) // array.dtype.itemsize
    return length if length > 1 else 0


def _longer(places: Places, array: SharedArray, row: int, together: list[_Access]) -> Iterator[int]:
    """Yield the lengths of longer rows in which vector accesses stay aligned.  `together` are the accesses that
    conflict in the array; some go through pointers, and only their addresses show that they access this array."""
    program, size = places.program, array.dtype.itemsize
    named = [places.size(pc) for pc in places.outcome.accesses if program.array_of[pc] == array.name]
    widest = max([*named, *(access.size for access in together)])
    for longer in range(row + 1, row + MOST_PADDING + 1):
        if longer * size % widest == 0 or widest <= size:
            yield longer


def _fits(places: Places, array: SharedArray, elements: int) -> bool:
    """Return whether shared memory is large enough for the array with that many elements."""
    more = (elements - _elements(array)) * array.dtype.itemsize
    return places.program.shared_bytes + more <= limits(places.outcome.arch).static_shared


def _padding_removes_conflict(array: SharedArray, row: int, longer: int, access: _Access) -> bool:
    """Return whether an access has no conflict if rows of `row` elements are `longer`.  For elements shorter than a
    word, also check the access one element further, because its lanes share words differently."""
    size = array.dtype.itemsize
    for shift in range(max(1, WORD // size)):
        moved = {}
        for lane, at in access.offsets.items():
            element, byte = divmod(at - array.offset, size)
            number, column = divmod(element, row)
            end = (column + shift) * size + byte + access.size
            if end > row * size and shift == 0:
                return False  # a vector that continues in the next row
            if end > row * size:
                return True
            moved[lane] = array.offset + (number * longer + column + shift) * size + byte
        if not access.is_free(moved):
            return False
    return True


def _suggestion(array: SharedArray, row: int, rows: int, longer: int, lines: list[int]) -> str:
    what = "this access"
    if lines:
        listed = ", ".join(map(str, lines))
        what += f" and {'that' if len(lines) == 1 else 'those'} on line{'s' * (len(lines) > 1)} {listed}"
    if len(array.shape) > 1:
        shape = f"({', '.join(map(str, (*array.shape[:-1], longer)))})"
        return f"pad the row: `{shape}` makes {what} conflict-free (checked)"
    total = f" (`{rows * longer}` elements in all)" if rows else ""
    return f"use a stride of {longer} elements, not {row}{total}: it makes {what} conflict-free (checked)"
