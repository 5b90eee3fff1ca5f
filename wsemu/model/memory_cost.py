"""The cost of an access: shared wavefronts and global sectors, computed from the addresses of a warp's lanes.

These are plain functions of addresses, so they also give the cost of another layout.  `model/arch.py` has the rules.
The ideal cost is the number of wavefronts of the same lanes without a bank conflict, or the minimum number of sectors
that contain as many bytes.
"""

from __future__ import annotations

from collections import Counter

from wsemu.model.arch import CostModel
from wsemu.model.isa import AS_LOAD, LANES, LOOP, SERIAL, SWAP

WORD, SECTOR = 4, 32
"""bytes of a word of shared memory, and of a sector of global memory"""
Offsets = dict[int, int]
"""byte offset in its segment, or address, for each active lane"""


def wavefronts(offsets: Offsets, size: int, service: int, model: CostModel) -> tuple[int, int]:
    """Return the wavefronts of one shared access of `size` bytes per lane, and the minimum possible.

    An atomic serves one lane of each bank at a time, with one wavefront, or with two if it compares (SWAP).  An atomic
    that the hardware lacks (LOOP) is a loop that loads the old values and swaps the new ones in until no lane is left.
    The count assumes that no other warp intervenes, and that each lane changes its word.  `service`: see `isa.SERVED`.
    """
    if service == LOOP:
        return _loop(offsets, size, model)
    if service in (SERIAL, SWAP):
        parts = passes(offsets, size, service, model)
        return service * sum(ways(part, size, service, model) for part in parts), service * len(parts)
    cost = ideal = 0
    for part in passes(offsets, size, service, model):
        requests = model.requests[_triple(size)]
        cost += ways(part, size, service, model) * requests
        ideal += requests
    return cost, ideal


def _loop(offsets: Offsets, size: int, model: CostModel) -> tuple[int, int]:
    """Return the wavefronts of the loads and of the compare-and-swaps of an atomic that is a loop of both.  In each
    pass, the swap succeeds for the lowest lane of each bank, unless the previous pass changed its word."""
    cost, ideal = 0, wavefronts(offsets, size, AS_LOAD, model)[1] + SWAP * len(passes(offsets, size, SWAP, model))
    left = dict(sorted(offsets.items()))
    while left:
        cost += wavefronts(left, size, AS_LOAD, model)[0]
        changed: dict[int, int] = {}
        for part in passes(left, size, SWAP, model):
            cost += SWAP
            lowest: dict[int, int] = {}
            for lane, at in part.items():
                lowest.setdefault(at // WORD % model.banks, lane)
            changed |= {at: lane for lane in lowest.values() if (at := part[lane]) not in changed}
        left = {lane: at for lane, at in left.items() if lane not in changed.values()}
    return cost, ideal


def passes(offsets: Offsets, size: int, service: int, model: CostModel) -> list[Offsets]:
    """Return the groups of lanes that are served together, without groups that have no active lane."""
    lanes = model.pass_lanes[_triple(size)]
    if (
        size > WORD
        and model.merges
        and service == AS_LOAD
        and (_partners_match(offsets, 1) or _partners_match(offsets, 2))
    ):
        lanes *= 2
    parts = [{n: at for n, at in offsets.items() if n // lanes == k} for k in range(LANES // lanes)]
    return [part for part in parts if part]


def _partners_match(offsets: Offsets, distance: int) -> bool:
    """Return whether every lane's partner is inactive or has the same address, so that their loads merge."""
    return all(offsets.get(lane ^ distance, offset) == offset for lane, offset in offsets.items())


def _triple(size: int) -> int:
    return {16: 2, 8: 1}.get(size, 0)


def ways(part: Offsets, size: int, service: int, model: CostModel) -> int:
    """Return the wavefronts of each request of a pass; 1 means that there is no conflict."""
    if service in (SERIAL, SWAP, LOOP):
        return max(Counter(at // WORD % model.banks for at in part.values()).values())
    extra = model.extra[_triple(size)]
    if model.one_broadcast:
        return len(broadcasts(part, model)) + extra
    return max(len(found) for found in bank_words(part, size, model).values()) + extra


def bank_words(part: Offsets, size: int, model: CostModel) -> dict[int, set[int]]:
    """Return, for each bank, the words that the lanes of a pass request."""
    words = {word for at in part.values() for word in range(at // WORD, (at + size - 1) // WORD + 1)}
    found: dict[int, set[int]] = {bank: set() for bank in sorted({word % model.banks for word in words})}
    for word in words:
        found[word % model.banks].add(word)
    return found


def bank_wants(part: Offsets, size: int, service: int, model: CostModel) -> dict[int, int]:
    """Return, for each bank, the number of requested words.  For an atomic that serves lanes singly, return the number
    of lanes."""
    words = bank_words(part, size, model)
    if service not in (SERIAL, SWAP, LOOP):
        return {bank: len(found) for bank, found in words.items()}
    lanes = [range(at // WORD, (at + size - 1) // WORD + 1) for at in part.values()]
    return {bank: sum(any(word % model.banks == bank for word in wanted) for wanted in lanes) for bank in words}


def broadcasts(part: Offsets, model: CostModel) -> list[set[int]]:
    """Return the lanes that each wavefront serves if it can broadcast one word to all lanes that request it, and give
    one word of each other bank to one lane.  If the hardware has a choice, the word with the most requests comes first,
    then the lowest lane.  For wide accesses, the first words count."""
    steps = []
    left = dict(sorted(part.items()))
    while left:
        word = Counter(at // WORD for at in left.values()).most_common(1)[0][0]
        served = {lane for lane, at in left.items() if at // WORD == word}
        busy = {word % model.banks}
        for lane, at in left.items():
            if at // WORD % model.banks not in busy:
                busy.add(at // WORD % model.banks)
                served.add(lane)
        steps.append(served)
        left = {lane: at for lane, at in left.items() if lane not in served}
    return steps


def sectors(offsets: Offsets, size: int, model: CostModel) -> tuple[int, int]:
    """Return the sectors of one global access of `size` bytes per lane, and the minimum possible; arrays begin at
    256-byte boundaries."""
    if not model.halves:
        moved = len({at // model.line for at in offsets.values()})
        return _sector_count(moved, model), _sector_count(min(moved, -(-len(offsets) * size // model.line)), model)
    cost = ideal = 0
    for half in range(2):
        part = {lane: at for lane, at in offsets.items() if lane // 16 == half}
        cost += sum(last - first for first, last in segments(part, size)) // SECTOR
        ideal += -(-len(part) * size // SECTOR)
    return cost, min(cost, ideal)


def _sector_count(lines: int, model: CostModel) -> int:
    return lines * model.line // SECTOR


def segments(part: Offsets, size: int) -> list[tuple[int, int]]:
    """Return the segments that half a warp moves, from first byte to last + 1.  For each touched segment of 32, 64 or
    128 bytes (depending on the size), this is the smallest half or quarter that contains all requested bytes."""
    whole = {1: 32, 2: 64}.get(size, 128)
    moved = []
    for number in sorted({at // whole for at in part.values()}):
        wanted = [at for at in part.values() if at // whole == number]
        length = whole
        while length > SECTOR and min(wanted) // (length // 2) == (max(wanted) + size - 1) // (length // 2):
            length //= 2
        first = min(wanted) // length * length
        moved.append((first, first + length))
    return moved
