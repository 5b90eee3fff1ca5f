"""What an access costs, in the reference interpreter: shared wavefronts and global sectors, as measured on Hopper."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from wsemu.bytecode import LANES, LOCAL, SHARED
from wsemu.outcome import AccessCount

if TYPE_CHECKING:
    from wsemu.reference_memory import Place
    from wsemu.reference_warp import WarpRun

BANKS, WORD, SECTOR = 32, 4, 32
"""shared memory: banks, bytes of a word; global memory: bytes of a sector"""


def charge(run: WarpRun, places: dict[int, Place], size: int, kind: str) -> None:
    """Count one access of a warp: `places` of its lanes, bytes a lane, `load`, `store` or `atomic`."""
    if not places:
        return
    count = run.launch.outcome.accesses.setdefault(run.group.pc, AccessCount())
    count.executions += 1
    count.lanes += len(places)
    if kind == "atomic":  # its cost is not modelled
        return
    shared = {lane: offset for lane, (_, number, offset) in places.items() if number == SHARED}
    count.wavefronts += wavefronts(shared, size, kind == "store")
    count.sectors += len(
        {(number, offset // SECTOR) for _, number, offset in places.values() if number not in (SHARED, LOCAL)}
    )


def wavefronts(offsets: dict[int, int], size: int, store: bool) -> int:
    """Per pass the most distinct words in one bank, summed over passes; `offsets` by lane."""
    passes = max(1, size // 8 * 2)  # 4 bytes one pass of 32 lanes, 8 two of 16, 16 four of 8
    if passes > 1 and not store and (_paired(offsets, 1) or _paired(offsets, 2)):
        passes //= 2
    total = 0
    for first in range(0, LANES, LANES // passes):
        lanes = [offset for lane, offset in offsets.items() if first <= lane < first + LANES // passes]
        words = {word for offset in lanes for word in range(offset // WORD, (offset + size - 1) // WORD + 1)}
        total += max(Counter(word % BANKS for word in words).values(), default=0)
    return total


def _paired(offsets: dict[int, int], distance: int) -> bool:
    """Every lane's partner is inactive or has the same address: their loads merge."""
    return all(offsets.get(lane ^ distance, offset) == offset for lane, offset in offsets.items())
