"""`transfer-missed`, `transfer-duplicated` and `transfer-spilled`: bytes of the destination that a transfer pattern
does not write, writes twice, or exceeds.

Detects: in a run of `check_transfer`, bytes of the destination that the pattern did not write or filled from the wrong
source offset (missed), and bytes that it wrote more than once (duplicated).  It also detects bytes that it wrote
outside of the destination (spilled), even if the values are equal.
Does not detect: wrong bytes in another kernel that uses the pattern with other arguments: `check` finds races, bounds
and barrier misuse in it, but does not know where its bytes belong.
Reference: CudaDMA's definition of each pattern, `moves()` of its class.  All words of the source are different.  If the
destination is correct and the number of stored bytes equals its size, every byte was written exactly once.  Otherwise,
a replay by the reference interpreter determines which lane stored which byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from wsemu.evidence.places import lanes_text
from wsemu.model.finding import Finding
from wsemu.model.isa import OFFSET_MASK, SEGMENT_SHIFT, SHARED
from wsemu.model.remedy import Cures

if TYPE_CHECKING:
    import numpy.typing as npt

    from wsemu.evidence.places import Places
    from wsemu.model.outcome import Stored


class Run(Protocol):
    """A completed run of a transfer, as `launch.transfer` provides it."""

    job: Any
    """the expected transfer: `image`, `sizes` and `scatter`"""
    dst: npt.NDArray[np.uint8]
    before: npt.NDArray[np.uint8]
    """the bytes of the source before the run"""

    def again(self, plane: int, arch: str) -> Run:
        """Repeat the transfer with a numbered source: each byte of the source holds byte `plane` of the three bytes of
        its own index."""

    def accesses(self, places: Places) -> list[tuple[int, str, int]]:
        """Return (instruction, `load` or `store`, bytes per lane) of the pattern's executed accesses."""

    def copies(self, places: Places) -> list[int]:
        """Return the pattern's asynchronous copies that were executed."""

    def stores(self) -> list[Stored]:
        """Return all stores and asynchronous copies of the pattern, per lane."""


CODES = ("transfer-missed", "transfer-duplicated", "transfer-spilled")
CURES = {
    "transfer-missed": Cures(20),
    "transfer-duplicated": Cures(10),
    "transfer-spilled": Cures(30),
}


def examine(run: Run, places: Places) -> list[Finding]:
    """Return the findings of a completed transfer."""
    job = run.job
    if places.outcome.status != "done":
        return []  # accesses out of bounds were left out, so missing bytes follow from them
    accesses = run.accesses(places)
    image, wanted = job.image(run.before)
    wrong = np.flatnonzero(run.dst != image)
    stored = sum(size * places.outcome.accesses[pc].lanes for pc, kind, size in accesses if kind == "store")
    if run.copies(places):  # copies, whose bytes are not counted
        return _explain(run, places, wrong)
    strays = any(kind == "store" and not _into_destination(run, places, pc) for pc, kind, _ in accesses)
    if not (wrong.size or stored != np.count_nonzero(wanted) or strays):
        return _check_bytes(run, places) if any(size < 4 for *_, size in accesses) else []
    return _explain(run, places, wrong)


def _check_bytes(run: Run, places: Places) -> list[Finding]:
    """Return the findings for a pattern that accesses parts of words.  Three more runs number each byte of the source;
    each run uses one byte of the number."""
    for plane in range(3):
        again = run.again(plane, places.outcome.arch)
        wrong = np.flatnonzero(again.dst != run.job.image(again.before)[0])
        if wrong.size:
            return _explain(run, places, wrong)
    return []


def _into_destination(run: Run, places: Places, pc: int) -> bool:
    """Return whether a store went only to the memory, shared or global, that holds the destination."""
    access = places.outcome.accesses[pc]
    own, other = (access.sectors, access.wavefronts) if run.job.scatter else (access.wavefronts, access.sectors)
    return bool(own) and not other


def _explain(run: Run, places: Places, wrong: np.ndarray) -> list[Finding]:
    """Return at most one finding per code, from the stores of a replay."""
    job = run.job
    wanted = job.image(run.before)[1].astype(bool)
    times = np.zeros(job.sizes[1], np.int64)
    spilled: list[Stored] = []
    again: list[tuple[Stored, int]] = []
    segment = SHARED if not job.scatter else _segment(places, "dst")
    for store in run.stores():
        offset = _offset(run, places, store)
        part = slice(offset, offset + store.size)
        inside = store.address >> SEGMENT_SHIFT == segment and 0 <= offset <= job.sizes[1] - store.size
        if not inside or not wanted[part].all():
            if _is_local(store):
                continue
            spilled.append(store)
        if inside:
            if (times[part] > 0).any() and wanted[part].any():
                again.append((store, offset + int(np.argmax(times[part] > 0))))
            times[part] += 1
    findings = []
    missing = np.flatnonzero(wanted & (times == 0))
    misplaced = np.setdiff1d(wrong[wanted[wrong]], missing)
    if missing.size or misplaced.size:
        findings.append(_missed_finding(run, places, missing, misplaced))
    if again:
        findings.append(_duplicated_finding(run, places, again, int(((times > 1) & wanted).sum())))
    if spilled:
        findings.append(_spilled_finding(run, places, spilled))
    return findings


def _offset(run: Run, places: Places, store: Stored) -> int:
    """Return the byte offset of a store from the start of the destination array.  In shared memory, this array follows
    the pattern's own arrays."""
    aligned = getattr(run.job.pattern, "tile_alignment", 16)
    own = 0 if run.job.scatter else -(-places.program.shared_bytes // aligned) * aligned
    return (store.address & OFFSET_MASK) - own


def _is_local(store: Stored) -> bool:
    from wsemu.model.isa import LOCAL

    return store.address >> SEGMENT_SHIFT == LOCAL


def _segment(places: Places, name: str) -> int:
    return next(array.segment for array in places.arrays if array.name == name)


def _element(run: Run, byte: int) -> str:
    """Return the name of a byte of the destination array, such as `byte 8 of element 3`."""
    at = byte - run.job.first_dst
    for n, (_, b, size) in enumerate(run.job.moves):
        if b <= at < b + size:
            return f"byte {at - b} of element {n}" if len(run.job.moves) > 1 else f"byte {at - b}"
    return f"byte {at}"


def _bytes(count: int) -> str:
    return f"{count:,} byte{'s' * (count != 1)}"


def _missed_finding(run: Run, places: Places, missing: np.ndarray, misplaced: np.ndarray) -> Finding:
    job = run.job
    total = sum(size for _, _, size in job.moves)
    notes = []
    if missing.size:
        message = f"the transfer does not write {_bytes(missing.size)} of the {total:,} of its destination"
        notes.append(f"the first is {_element(run, int(missing[0]))}")
    else:
        message = f"{_bytes(misplaced.size)} of the {total:,} of the destination hold the wrong byte of the source"
    if misplaced.size:
        byte = int(misplaced[0])
        notes.append(f"{_element(run, byte)} holds {_origin(run, byte)}")
    pcs = [pc for pc, kind, _ in run.accesses(places) if kind == "store"]
    label = "the last store of the transfer"
    if not pcs:
        pcs, label = run.copies(places), "the last copy of the transfer"
    site = places.site(pcs[-1], label) if pcs else None
    return Finding(
        code="transfer-missed",
        message=message,
        sites=[site] if site else [],
        notes=[*notes, _transfer_note(run)],
        help=(
            "check how the transfer divides its elements among threads: their number, the end of each, and the "
            "remaining threads"
        ),
        count=int(missing.size + misplaced.size),
    )


def _origin(run: Run, byte: int) -> str:
    """Return the byte of the source that a byte of the destination holds, as far as its word shows it."""
    word = byte // 4 * 4
    number = int(run.dst[word : word + 4].view(np.uint32)[0])
    expected = next((a + byte - run.job.first_dst - b for a, b, size in run.job.moves
                     if b <= byte - run.job.first_dst < b + size), 0)  # fmt: skip
    came = (number - 1) * 4 + byte % 4 - run.job.first_src
    if not 0 < number <= run.job.sizes[0] // 4:
        return f"no byte of the source, instead of byte {expected}"
    return f"byte {came} of the source, instead of byte {expected}"


def _duplicated_finding(run: Run, places: Places, again: Sequence[tuple[Stored, int]], count: int) -> Finding:
    store, byte = again[0]
    label = f"second store, by {_who(store)}"
    return Finding(
        code="transfer-duplicated",
        message=f"the transfer writes {_bytes(count)} of its destination more than once",
        sites=[places.site(store.pc, label, cta=store.cta, warp=store.warp)],
        notes=[f"the first is {_element(run, byte)}", _transfer_note(run)],
        help="assign each element, and each part of it, to one thread; the indices of a scatter must differ",
        count=len(again),
    )


def _spilled_finding(run: Run, places: Places, spilled: Sequence[Stored]) -> Finding:
    store = spilled[0]
    at = _offset(run, places, store) - run.job.first_dst
    label = f"{_bytes(store.size)} stored by {_who(store)}, {at} bytes from the start of the destination"
    return Finding(
        code="transfer-spilled",
        message="the transfer writes bytes outside of its destination",
        sites=[places.site(store.pc, label, cta=store.cta, warp=store.warp)],
        notes=[_transfer_note(run)],
        help="stop at the end of each element: the last full-width access may reach beyond it",
        count=len(spilled),
    )


def _who(store: Stored) -> str:
    return f"warp {store.warp}, {lanes_text(1 << store.lane)}"


def _transfer_note(run: Run) -> str:
    return f"the transfer: {run}"
