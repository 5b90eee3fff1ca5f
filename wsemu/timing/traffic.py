"""Memory traffic of a CTA's traced instructions: wavefronts of shared memory, sectors beyond L1, sectors of DRAM."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wsemu.model.arch import ARCHS
from wsemu.model.data import NamedTuple, dataclass, field
from wsemu.model.isa import (
    AS_LOAD,
    AS_STORE,
    FIRST_ARRAY,
    FRESH,
    LOCAL,
    NAMES,
    OFFSET_MASK,
    OPERATIONS,
    SEGMENT_SHIFT,
    SERIAL,
    SHARED,
    access_shape,
)
from wsemu.model.memory_cost import wavefronts
from wsemu.timing.stream import ADDRESSES, AMOUNT, EVENT, GENERATION, KIND, LANES, PC, PLACE

if TYPE_CHECKING:
    import numpy.typing as npt

    from wsemu.model.arch import CostModel
    from wsemu.timing.constants import Device
    from wsemu.timing.stream import Stream

    Numbers = npt.NDArray[np.int64]

SECTOR, LINE = 32, 128
"""bytes of a sector and of a line of memory"""
NOT, IN_SHARED, IN_GLOBAL, IN_LOCAL, INACTIVE, IN_CLUSTER = range(6)
"""memory spaces of the accesses of a stream; `IN_CLUSTER` is the shared memory of another CTA"""
LOADS, STORES, ATOMICS, COPIES, BULK = range(5)
"""kinds of accesses to a sector"""
ALWAYS_KEPT, NEVER_KEPT = 1.6, 2.6
"""footprints, as multiples of the size of L2: below the first, the next launch finds all its data in L2; above the
second, it finds none"""


WRITTEN = 4.0
"""weight of written bytes in a footprint: rings that write 26 of 52 MB find no data in an L2 of 50 MB; fitted to the
fresh measurements that are not held out for testing"""
BULK_READ = 1.6
"""weight of the bytes that bulk copies read, fitted likewise: of 104 MB they find nothing in L2"""


@dataclass(slots=True)
class Traffic:
    """Memory space and cost of the access of each step."""

    space: Numbers
    passes: Numbers
    """wavefronts of shared memory, or lines of global memory"""
    step: Numbers
    """step of each sector that is accessed"""
    sector: Numbers
    by: Numbers
    """kind of the access to each of these sectors"""
    bypass: npt.NDArray[np.bool_]
    """true for accesses that bypass L1"""
    read_bytes: float = 0.0
    """bytes that all CTAs read together"""
    bulk_bytes: float = 0.0
    """bytes of these that bulk copies read"""
    written_bytes: float = 0.0
    chance: dict[int, float] = field(default_factory=dict)
    """segment -> share of the sectors that a CTA reads and that no earlier CTA has read"""


class _Pattern(NamedTuple):
    cost: int
    sectors: Numbers
    lines: int


def measure(stream: Stream, device: Device) -> Traffic:
    """Return what the accesses of a stream cost, before caches."""
    count = len(stream.pc)
    space, passes = np.zeros(count, np.int64), np.ones(count, np.int64)
    found = _Sectors()
    _add_plain_accesses(stream, ARCHS[device.arch].costs, space, passes, found)
    _copies(stream, passes, found)
    step, sector, by = found.concatenate()
    order = np.argsort(step, kind="stable")
    made = Traffic(space, passes, step[order], sector[order], by[order], np.zeros(0, bool))
    code = stream.bound.program.code
    loads = np.array([OPERATIONS[NAMES[number]].kind == "load" for number in code[:, 0].tolist()], bool)
    flags = loads & (code[:, 7] & FRESH != 0)
    made.bypass = flags[stream.pc[made.step]] if len(made.step) else made.bypass
    _footprints(stream, made)
    return made


class _Sectors:
    """Sectors, collected in parts."""

    def __init__(self) -> None:
        self._parts: list[tuple[Numbers, Numbers, Numbers]] = []

    def add(self, step: Numbers, sector: Numbers, by: int) -> None:
        self._parts.append((step, sector, np.full(len(step), by, np.int64)))

    def concatenate(self) -> tuple[Numbers, Numbers, Numbers]:
        if not self._parts:
            none = np.zeros(0, np.int64)
            return none, none, none
        step, sector, by = (np.concatenate([part[n] for part in self._parts]) for n in range(3))
        return step, sector, by


_BY_KIND = {"load": LOADS, "store": STORES, "atomic": ATOMICS}
_SERVICE = {"load": AS_LOAD, "store": AS_STORE, "atomic": SERIAL}


def _add_plain_accesses(stream: Stream, model: CostModel, space: Numbers, passes: Numbers, found: _Sectors) -> None:
    """Add the sectors of loads, stores and atomics."""
    names = [NAMES[row[0]] for row in stream.bound.program.code.tolist()]
    kinds = [OPERATIONS[name].kind for name in names]
    memory = np.array([kind in _BY_KIND for kind in kinds])
    space[memory[stream.pc]] = INACTIVE
    chosen = np.flatnonzero((stream.events[:, KIND] == EVENT["access"]) & (stream.step_of >= 0))
    events, steps = stream.events[chosen], stream.step_of[chosen]
    patterns: dict[tuple[int, int, bytes], _Pattern] = {}
    listed: dict[int, list[tuple[int, int, _Pattern]]] = {LOADS: [], STORES: [], ATOMICS: []}
    addresses = stream.addresses
    for step, pc, lanes, at in zip(
        steps.tolist(), events[:, PC].tolist(), events[:, LANES].tolist(), events[:, ADDRESSES].tolist(), strict=True
    ):
        own = addresses[at : at + lanes.bit_count()]
        first = int(own[0]) if len(own) else 0
        segment = (first & ((1 << 61) - 1)) >> SEGMENT_SHIFT
        if segment == LOCAL or not len(own):
            space[step] = IN_LOCAL if len(own) else INACTIVE
            continue
        base = first & -LINE
        key = pc, lanes, (own - base).tobytes()
        pattern = patterns.get(key)
        if pattern is None:
            pattern = patterns[key] = _pattern(own - base, lanes, names[pc], kinds[pc], segment, model)
        if segment == SHARED:
            far = stream.member is not None and int(stream.member.ranks(own[:1])[0]) != stream.member.rank
            space[step], passes[step] = IN_CLUSTER if far else IN_SHARED, pattern.cost
        else:
            space[step], passes[step] = IN_GLOBAL, max(1, pattern.lines, len(pattern.sectors) // 4)
            listed[_BY_KIND[kinds[pc]]].append((step, base // SECTOR, pattern))
    for by, accesses in listed.items():
        if accesses:
            counts = [len(pattern.sectors) for _, _, pattern in accesses]
            own = np.concatenate([pattern.sectors for _, _, pattern in accesses])
            found.add(
                np.repeat(np.array([step for step, _, _ in accesses]), counts),
                np.repeat(np.array([base for _, base, _ in accesses]), counts) + own,
                by,
            )


def _pattern(offsets: Numbers, lanes: int, name: str, kind: str, segment: int, model: CostModel) -> _Pattern:
    """Return the sectors of one access, and its cost in shared memory."""
    size = access_shape(name)[1]
    active = [lane for lane in range(32) if lanes >> lane & 1]
    if segment == SHARED:
        cost = wavefronts(dict(zip(active, offsets.tolist(), strict=True)), size, _SERVICE[kind], model)[0]
        return _Pattern(max(1, cost), np.zeros(0, np.int64), 0)
    sectors = np.unique(np.concatenate([offsets // SECTOR, (offsets + size - 1) // SECTOR]))
    return _Pattern(0, sectors, len(np.unique(sectors // (LINE // SECTOR))))


def _copies(stream: Stream, passes: Numbers, found: _Sectors) -> None:
    """Add the reads of asynchronous copies: `cp.async` by sectors, bulk copies as ranges."""
    events = stream.events
    chosen = np.flatnonzero((events[:, KIND] == EVENT["copy"]) & (stream.step_of >= 0))
    source, size, step = events[chosen, GENERATION], events[chosen, AMOUNT], stream.step_of[chosen]
    target = events[chosen, PLACE]
    is_array = (source >> SEGMENT_SHIFT) >= FIRST_ARRAY
    names = [NAMES[row[0]] for row in stream.bound.program.code.tolist()]
    small = np.array([name.startswith("cp.async") for name in names])[events[chosen, PC]]
    lanes = is_array & small
    if lanes.any():
        pairs = np.unique(np.stack([step[lanes], source[lanes] // SECTOR], axis=1), axis=0)
        found.add(pairs[:, 0], pairs[:, 1], COPIES)
        passes[np.unique(pairs[:, 0])] = np.maximum(1, np.unique(pairs[:, 0], return_counts=True)[1] // 4)
    _ranges(is_array & ~small, source, size, step, found, BULK)
    is_store = ((source >> SEGMENT_SHIFT) == SHARED) & ((target >> SEGMENT_SHIFT) >= FIRST_ARRAY)
    _ranges(is_store, target, size, step, found, STORES)


def _ranges(
    chosen: npt.NDArray[np.bool_], begin: Numbers, size: Numbers, step: Numbers, found: _Sectors, by: int
) -> None:
    """Add the sectors of ranges of arrays."""
    chosen = chosen & (size > 0)
    if chosen.any():
        first, counts = begin[chosen] // SECTOR, -(-size[chosen] // SECTOR)
        inside = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        found.add(np.repeat(step[chosen], counts), np.repeat(first, counts) + inside, by)


def _footprints(stream: Stream, made: Traffic) -> None:
    """Add the bytes that the whole launch reads and writes, array by array, and the fraction that each CTA is the first
    to read."""
    ctas = stream.bound.configuration.ctas
    scale = stream.executed / max(1, len(stream.pc))
    sizes = {n: data.nbytes for n, (data, _) in enumerate(stream.bound.segments, FIRST_ARRAY)}
    segment = made.sector >> (SEGMENT_SHIFT - 5)
    reads = made.by != STORES
    for number in np.unique(segment).tolist():
        here = segment == number
        most = sizes.get(number, OFFSET_MASK)
        own = len(np.unique(made.sector[here & reads])) * SECTOR * scale
        if own:
            read = min(float(most), own * ctas)
            made.read_bytes += read
            made.bulk_bytes += read if (made.by[here & reads] == BULK).all() else 0.0
            made.chance[number] = read / (own * ctas)
        made.written_bytes += min(float(most), len(np.unique(made.sector[here & ~reads])) * SECTOR * scale * ctas)


class Served(NamedTuple):
    """Sectors of each step that miss L1, and sectors that are read from or written to DRAM."""

    beyond_l1: Numbers
    of_dram: Numbers
    hits: float
    """share of the footprint that stays in L2 from one launch to the next"""


def serve(stream: Stream, made: Traffic, l1: int, kept: float) -> Served:
    """Return where all sectors are served, for an L1 of `l1` bytes and an L2 that keeps a share of the footprint."""
    count = len(stream.pc)
    position = np.arange(len(made.sector))
    order = np.argsort(made.sector, kind="stable")
    ordered = made.sector[order]
    same = np.zeros(len(order), bool)
    same[1:] = ordered[1:] == ordered[:-1]
    since = np.full(len(order), 1 << 60)
    since[order[1:]] = position[order[1:]] - position[order[:-1]]
    again = np.zeros(len(order), bool)
    again[order] = same
    hit = again & (since <= l1 // SECTOR) & (made.by == LOADS) & ~made.bypass
    reads = np.isin(made.by, (LOADS, COPIES, BULK))
    first = ~again
    chance = np.zeros(len(order))
    segment = made.sector >> (SEGMENT_SHIFT - 5)
    for number, part in made.chance.items():
        chance[segment == number] = part
    missed = ~hit
    weight = np.where(reads, np.where(first, chance, 0.0), 1.0) * (1 - kept) * missed
    total = np.concatenate([[0.0], np.cumsum(weight)])
    whole = np.floor(total + 1e-9)
    beyond = np.bincount(made.step, missed, count).astype(np.int64)
    dram = np.bincount(made.step, whole[1:] - whole[:-1], count).astype(np.int64)
    return Served(beyond, dram, kept)


def kept_in_l2(made: Traffic, device: Device) -> float:
    """Return the share of a launch's footprint that is still in L2 when the launch is repeated."""
    footprint = made.read_bytes + max((BULK_READ - 1) * made.bulk_bytes, WRITTEN * made.written_bytes)
    least, most = device.l2_bytes * ALWAYS_KEPT, device.l2_bytes * NEVER_KEPT
    return min(1.0, max(0.0, (most - footprint) / (most - least)))
