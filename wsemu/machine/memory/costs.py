"""Cost of an access, in compiled code: wavefronts of shared memory and sectors of global memory, with the minimum
possible.

The rules are those of `model/arch.py`, which are fields of a machine.  For Hopper they agree exactly with hardware
counters.  `memory_cost.py` defines the same costs; this module computes them efficiently.  An access is the row of its
lanes' addresses (segment and offset) at `place`, plus `bias`.
"""

from __future__ import annotations

from wsemu.machine.lowering import compiled
from wsemu.machine.memory.lane_access import AFFINE, SAME, SCATTERED, UNIT, keep_steps, matches_steps, other_banks
from wsemu.machine.records import machine_at, pattern_at, weighed_at
from wsemu.machine.scalars import load_i64, lowest_bit, popcount, store_i64
from wsemu.machine.state import PATTERN, WEIGHED
from wsemu.model.isa import LANES, LOOP, SERIAL

WEIGHED_BYTES = WEIGHED.itemsize
PATTERN_BYTES, PATTERN_WORDS = PATTERN.itemsize, PATTERN.itemsize // 8
WHOLE = (1 << LANES) - 1
BUCKETS = 32
APART = 8 * BUCKETS * (1 + LANES)
"""offset in scratch memory, after the buckets, of data about an access whose lanes are checked one at a time: 1 if any
lane is performed; the masks of lanes in shared, local and global memory; and, from BUCKETS on, their addresses"""


@compiled
def distinct(m, place, bias, part, shift, banks):
    """Count the distinct numbers address >> shift among the lanes of `part`; return (all, most in one bank).  The low
    bits of a number are its bank."""
    for q in range(BUCKETS):
        store_i64(m.scratch + 8 * q, 0)
    total, most = 0, 0
    while part:
        value = (load_i64(place + 8 * lowest_bit(part)) + bias) >> shift
        part &= part - 1
        bank = value & (banks - 1)
        n = load_i64(m.scratch + 8 * bank)
        bucket = m.scratch + 8 * (BUCKETS + LANES * bank)
        q = 0
        while q < n and load_i64(bucket + 8 * q) != value:
            q += 1
        if q == n:
            store_i64(bucket + 8 * n, value)
            store_i64(m.scratch + 8 * bank, n + 1)
            total += 1
            most = n + 1 if n >= most else most
    return total, most


@compiled
def pairs_share(place, mask, distance):
    """Return whether, for every active lane l, lane l ^ distance is inactive or has the same address."""
    for lane in range(LANES):
        other = lane ^ distance
        both = (mask >> lane) & (mask >> other) & 1
        if both and load_i64(place + 8 * lane) != load_i64(place + 8 * other):
            return False
    return True


@compiled
def lanes_of_word(place, bias, part, word):
    """Return the lanes of `part` that request this word."""
    lanes = 0
    while part:
        lanes |= ((load_i64(place + 8 * lowest_bit(part)) + bias) >> 2 == word) << lowest_bit(part)
        part &= part - 1
    return lanes


@compiled
def steps_of_one_broadcast(m, place, bias, part):
    """Count the steps that serve `part`, if a step serves all lanes of one word and one lane of every other bank.  If
    the hardware may choose, the most requested word goes first, then the lowest lane."""
    steps = 0
    while part:
        steps += 1
        word, most = 0, 0
        rest = part
        while rest:
            candidate = (load_i64(place + 8 * lowest_bit(rest)) + bias) >> 2
            wanted = popcount(lanes_of_word(place, bias, rest, candidate))
            if wanted > most:
                word, most = candidate, wanted
            rest &= rest - 1
        busy = 1 << (word & (m.banks - 1))
        rest = part
        while rest:
            bit = rest & -rest
            other = (load_i64(place + 8 * lowest_bit(rest)) + bias) >> 2
            bank = 1 << (other & (m.banks - 1))
            if other == word or not busy & bank:
                part &= ~bit
                busy |= bank
            rest ^= bit
    return steps


@compiled
def shared_cost(m, place, bias, mask, pattern, size, store):
    """Return (wavefronts, wavefronts without conflicts) of a shared access; the lanes' addresses are at `place`."""
    wide = size >> 3 if size < 16 else 2
    lanes = (m.pass_lanes >> 8 * wide) & 255
    requests = (m.requests >> 8 * wide) & 255
    extra = (m.extra >> 8 * wide) & 255
    if m.merges and wide and not store and (
        pattern == SAME or pairs_share(place, mask, 1) or pairs_share(place, mask, 2)
    ):  # fmt: skip
        lanes <<= 1
    banks = m.banks >> wide  # all accesses are aligned, so a unit of two words occupies a pair of banks
    one = 0
    if pattern == SAME:
        one = 1
    elif size >= 4 and pattern in (UNIT, AFFINE):
        stride = (load_i64(place + 8) - load_i64(place)) >> (2 + wide)
        common = stride & -stride
        if common > banks:
            common = banks
        one = (lanes * common + banks - 1) // banks
    elif size == 4 and lanes == LANES and banks == LANES and mask == WHOLE and other_banks(place, bias):
        one = 1
    cost, ideal = 0, 0
    rest = mask
    while rest:
        part = rest & ((1 << lanes) - 1)
        rest >>= lanes
        if part:
            n = one
            if one == 0 and m.one_broadcast:
                n = steps_of_one_broadcast(m, place, bias, part)
            elif one == 0:
                _, n = distinct(m, place, bias, part, 2 + wide, banks)
            cost += n * requests + extra
            ideal += requests
        place += 8 * lanes
    return cost, ideal


@compiled
def winners(place, bias, part, shift, banks, changed):
    """Return the lanes of `part` that one step of an atomic serves: the lowest lane of each bank.  A lane whose word
    lanes of `changed` have just written is not served, because its old value is outdated."""
    served, busy = 0, 0
    while part:
        lane = part & -part
        part ^= lane
        word = (load_i64(place + 8 * lowest_bit(lane)) + bias) >> shift
        bank = 1 << (word & (banks - 1))
        if busy & bank:
            continue
        busy |= bank
        stale, others = False, changed
        while others and not stale:
            stale = (load_i64(place + 8 * lowest_bit(others)) + bias) >> shift == word
            others &= others - 1
        if not stale:
            served |= lane
    return served


@compiled
def atomic_cost(m, place, bias, mask, size, service):
    """Return (wavefronts, wavefronts without conflicts) of an atomic on shared memory."""
    wide = size >> 3
    lanes = (m.pass_lanes >> 8 * wide) & 255
    shift, banks = 2 + wide, m.banks >> wide
    each = 1 if service == SERIAL else 2
    cost, ideal, first = 0, 0, True
    rest = mask
    while rest:
        if service == LOOP:  # all remaining lanes load the old values first
            load, least = shared_cost(m, place, bias, rest, SCATTERED, size, False)
            cost += load
            if first:
                ideal += least
        served = 0
        for k in range(LANES // lanes):
            part = rest & (((1 << lanes) - 1) << lanes * k)
            if part:
                cost += each
                if first:
                    ideal += each
                served |= winners(place, bias, part, shift, banks, served if service == LOOP else 0)
        rest &= ~served
        first = False
    return cost, ideal


SMALLEST = 0x4442444144412110
"""size, in units of 32 bytes, of the smallest aligned part of 128 bytes that contains a set of units: 4 bits for each
of the 16 sets"""


@compiled
def segment_units(place, bias, part, size):
    """Return the units of 32 bytes in the segments that the lanes of half a warp need, each as small as its lanes
    allow."""
    log_units = size >> 1 if size < 4 else 2
    units = 0
    while part:
        segment = (load_i64(place + 8 * lowest_bit(part)) + bias) >> (5 + log_units)
        wanted = 0
        rest = part
        while rest:
            unit = (load_i64(place + 8 * lowest_bit(rest)) + bias) >> 5
            if unit >> log_units == segment:
                part &= ~(rest & -rest)
                wanted |= 1 << (unit & 3)
            rest &= rest - 1
        units += (SMALLEST >> 4 * wanted) & 15
    return units


@compiled
def sector_cost(m, place, bias, mask, pattern, size):
    """Return (sectors, minimum for this number of bytes) of a global access; arrays are assumed to begin at sector
    boundaries."""
    if m.halves:
        low, high = mask & 0xFFFF, mask >> 16
        cost = segment_units(place, bias, low, size) + segment_units(place + 8 * 16, bias, high, size)
        least = ((popcount(low) * size + 31) >> 5) + ((popcount(high) * size + 31) >> 5)
        return cost, least if least < cost else cost
    n = 0
    if pattern == SAME:
        n = 1
    elif pattern in (UNIT, AFFINE):
        first = load_i64(place) + bias
        last = load_i64(place + 8 * (LANES - 1)) + bias
        if last < first:
            first, last = last, first
        n = (last >> m.line) - (first >> m.line) + 1
        if n > LANES:
            n = LANES
    else:
        n = distinct(m, place, bias, mask, m.line, BUCKETS)[0]
    least = (popcount(mask) * size + (1 << m.line) - 1) >> m.line
    return n << (m.line - 5), (least if least < n else n) << (m.line - 5)


@compiled
def weigh(m, row, place, bias, mask, pattern, size, store, is_shared):
    """Record the cost of a load or store, as `shared_cost` or `sector_cost` compute it.

    Scattered lanes are counted one at a time, unless their relative positions are those of the last such access by this
    instruction.  Positions relative to each other and to sector boundaries suffice, because a loop moves all lanes
    equally.  Banks repeat, so in shared memory only word boundaries matter.
    """
    if pattern != SCATTERED:
        if is_shared:
            return shared_cost(m, place, bias, mask, pattern, size, store)
        return sector_cost(m, place, bias, mask, pattern, size)
    memo = weighed_at(m.weighed, row.pattern)
    steps = m.weighed + WEIGHED_BYTES * row.pattern + WEIGHED_BYTES - 8 * LANES
    first = load_i64(place + 8 * lowest_bit(mask))
    low = 256 + ((first + bias) & 3) if is_shared else (first + bias) & 127
    if memo.mask == mask and memo.low == low and matches_steps(place, first, steps, mask):
        return memo.cost, memo.ideal
    if is_shared:
        cost, ideal = shared_cost(m, place, bias, mask, pattern, size, store)
    else:
        cost, ideal = sector_cost(m, place, bias, mask, pattern, size)
    memo.mask = mask
    memo.low = low
    memo.cost = cost
    memo.ideal = ideal
    keep_steps(place, first, steps)
    return cost, ideal


def packed_atomic_cost(address, place, bias, mask, size, service):
    """Return `atomic_cost` as one number: wavefronts << 32 | wavefronts without conflicts.  Called by address."""
    cost, ideal = atomic_cost(machine_at(address, 0), place, bias, mask, size, service)
    return cost << 32 | ideal


@compiled
def keep_worst(m, row, place, bias, mask, is_global, cost):
    """Record the lanes of an execution with avoidable cost, if no earlier one costs more.

    Among equal costs, record the first execution of the lowest CTA, so that the order of CTAs does not matter.
    """
    cta = m.group * m.members + m.member
    place_kept = m.patterns + PATTERN_BYTES * (2 * row.pattern + is_global)
    kept = pattern_at(place_kept, 0)
    if cost < kept.cost or (cost == kept.cost and cta >= kept.cta):
        return
    kept.cost = cost
    kept.cta = cta
    kept.mask = mask
    addresses = place_kept + 8 * (PATTERN_WORDS - LANES)
    for lane in range(LANES):
        store_i64(addresses + 8 * lane, load_i64(place + 8 * lane) + bias)
