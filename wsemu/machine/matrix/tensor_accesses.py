"""Order of accesses to tensor memory, in compiled code.

Every access belongs to an asynchronous operation and is a rectangle: bands of 16 lanes, and columns. It must be ordered
after each earlier access that conflicts with it. It is, if its issuer has observed the completion of the other one, or
if the two are a pipelined pair of one warp and one cta_group (PTX ISA, "Pipelined tcgen05 Instructions"). Two writes
are also ordered if a read in between forms such a pair with each. A write that covers an earlier access replaces it: an
access that is ordered after the write is ordered after both.
"""

from __future__ import annotations

from wsemu.machine.agents.agents import new_agent
from wsemu.machine.lowering import compiled, set_bits
from wsemu.machine.records import record_finding, tensor_access_at, warp_at
from wsemu.machine.scalars import load_i64, lowest_bit
from wsemu.machine.state import COLUMNS_TOUCHED, DONE, GROW, GROW_AGENTS
from wsemu.machine.sync.lane_clocks import (
    agent_known,
    fenced_bits,
    has_agent_bit,
    heads,
    lane_knows,
    time_bits,
)
from wsemu.model.codes import CODE_NUMBERS

RACE, UNFINISHED, UNFENCED = (CODE_NUMBERS[name] for name in ("tmem-race", "tmem-read-unfinished", "tcgen05-fence"))
READS_OPERAND, ADDS, COPIES_IN, COPIES_ROWS, LOADS, STORES, ALLOCATES, RELEASES, USES = range(9)
"""classes of accesses: an mma reads A, scale factors or metadata; it reads and writes D; a cp writes, of shape 4x256b;
a ld reads, a st writes; an alloc and a dealloc, which enclose all uses; a use of columns that are released"""
OF_STORE, OF_LOAD = 1, 2
"""`missing` of a finding: the wait that is missing although the issue of the earlier access was observed"""


@compiled
def has_room(m):
    """Return DONE if there is room for the accesses of one operation."""
    if 4 * m.tensor_count + 64 > m.tensor_room:
        drop_known(m)
        if 4 * m.tensor_count + 64 > m.tensor_room:
            m.wanted = GROW_AGENTS
            return GROW
    return DONE


@compiled
def drop(m, n):
    """Remove the n-th access: the last one takes its index."""
    m.tensor_count -= 1
    last, gone = tensor_access_at(m.tensor_accesses, m.tensor_count), tensor_access_at(m.tensor_accesses, n)
    copy_access(gone, last)


@compiled
def copy_access(to, source):
    to.number = source.number
    to.warp = source.warp
    to.lane = source.lane
    to.pc = source.pc
    to.interval = source.interval
    to.member = source.member
    to.what = source.what
    to.group = source.group
    to.key = source.key
    to.bands = source.bands
    to.low = source.low
    to.high = source.high
    to.writes = source.writes


@compiled
def drop_known(m):
    """Remove the accesses whose completion all threads have observed."""
    n = 0
    while n < m.tensor_count:
        if tensor_access_at(m.tensor_accesses, n).number < m.agent_low:
            drop(m, n)
        else:
            n += 1


@compiled
def is_pipelined(x, warp, group, what, key):
    """Return whether an access x and a later one by this warp are a pipelined pair."""
    if x.warp != warp or x.group != group:
        return False
    if x.what == READS_OPERAND:
        return what in (ADDS, COPIES_IN, COPIES_ROWS)
    if x.what == ADDS:
        return what == ADDS and x.key == key
    if x.what in (COPIES_IN, COPIES_ROWS):
        return what == READS_OPERAND
    if x.what == STORES:
        return what in (LOADS, STORES)
    return x.what == LOADS and what == STORES


@compiled
def overlap(x, y):
    return x.member == y.member and x.bands & y.bands != 0 and x.low < y.high and y.low < x.high


@compiled
def is_chained(m, x, w, group, what, key):
    """Return whether a read between the write x and this operation makes a chain of two pipelined pairs.

    The read accesses a word that x wrote last, so it was issued after x.
    """
    for n in range(m.tensor_count):
        part = tensor_access_at(m.tensor_accesses, n)
        if part.number != x.number or part.writes == 0:
            continue
        for k in range(m.tensor_count):
            y = tensor_access_at(m.tensor_accesses, k)
            follows = y.writes == 0 and overlap(part, y) and is_pipelined(x, y.warp, y.group, y.what, y.key)
            if follows and is_pipelined(y, w, group, what, key):
                return True
    return False


@compiled
def unknown_lanes(m, w, lanes, number):
    """Return the lanes that have not observed the completion of an asynchronous operation."""
    unknown = 0
    for lane in set_bits(heads(m, w, lanes)):
        if not agent_known(m, w, lane, number) and not is_fenced(m, w, lane, number):
            unknown |= 1 << lane
    return unknown


@compiled
def is_fenced(m, w, lane, number):
    """Return whether a `tcgen05.fence` has ordered an operation before later ones of a lane."""
    return m.tensor_fences != 0 and has_agent_bit(m, w, lane, number, fenced_bits(m))


@compiled
def lacks_fence(m, w, lanes, x):
    """Return whether an access x completed earlier in time, but only relaxed operations have shown that."""
    if x.what > STORES:
        return False
    rest = unknown_lanes(m, w, lanes, x.number)
    while rest:
        if not has_agent_bit(m, w, lowest_bit(rest), x.number, time_bits(m)):
            return False
        rest &= rest - 1
    return True


@compiled
def missing_wait(m, w, lane, x):
    """Return the missing wait if a lane has observed the issue of x, but not its end."""
    if x.what != LOADS and x.what != STORES:
        return 0
    if x.warp == w or lane_knows(m, w, lane, x.warp, x.lane, x.interval):
        return OF_LOAD if x.what == LOADS else OF_STORE
    return 0


@compiled
def conflicts(m, w, lanes, x, number, member, what, group, key, bands, low, high, writes):
    """Return whether an access by some lanes conflicts with an earlier access x and is not ordered after it."""
    apart = x.bands & bands == 0 or x.low >= high or x.high <= low or x.member != member
    if apart or x.number == number or (writes | x.writes) == 0:
        return False
    if is_pipelined(x, w, group, what, key) or unknown_lanes(m, w, lanes, x.number) == 0:
        return False
    return (writes & x.writes) == 0 or not is_chained(m, x, w, group, what, key)


@compiled
def judge(m, w, lanes, pc, number, member, what, group, key, bands, low, high, writes):
    """Report the conflicting accesses that may not precede this one: for each instruction one, by the lowest warp, in
    the first column."""
    last = -1
    while True:
        best = -1
        for n in range(m.tensor_count):
            x = tensor_access_at(m.tensor_accesses, n)
            if x.pc <= last:
                continue
            if not conflicts(m, w, lanes, x, number, member, what, group, key, bands, low, high, writes):
                continue
            if best < 0 or precedes(x, tensor_access_at(m.tensor_accesses, best), bands, low):
                best = n
        if best < 0:
            break
        tell(m, w, lanes, pc, tensor_access_at(m.tensor_accesses, best), what, bands, low)
        last = tensor_access_at(m.tensor_accesses, best).pc


@compiled
def precedes(x, y, bands, low):
    """Return whether x is reported in preference to y."""
    if x.pc != y.pc:
        return x.pc < y.pc
    if x.warp != y.warp:
        return x.warp < y.warp
    if max(low, x.low) != max(low, y.low):
        return max(low, x.low) < max(low, y.low)
    return lowest_bit(x.bands & bands) < lowest_bit(y.bands & bands)


@compiled
def tell(m, w, lanes, pc, x, what, bands, low):
    """Report a conflicting access that this one may not follow."""
    missing = missing_wait(m, w, lowest_bit(unknown_lanes(m, w, lanes, x.number)), x)
    code = UNFENCED if lacks_fence(m, w, lanes, x) else UNFINISHED if missing == OF_LOAD else RACE
    record_finding(
        m.report_entry,
        m.address,
        (code, pc, w, lanes, x.pc, x.warp),
        (max(low, x.low), 16 * lowest_bit(x.bands & bands), x.what, what, missing),
    )


@compiled
def keep_part(m, x, bands, low, high):
    """Keep the part of an access that a write does not cover as an access of its own."""
    if bands and low < high:
        part = tensor_access_at(m.tensor_accesses, m.tensor_count)
        copy_access(part, x)
        part.bands = bands
        part.low = low
        part.high = high
        m.tensor_count += 1


@compiled
def cover(m, member, bands, low, high):
    """Remove from earlier accesses the words that a write covers."""
    for n in range(m.tensor_count - 1, -1, -1):  # new parts are appended, and not visited again
        x = tensor_access_at(m.tensor_accesses, n)
        if x.member != member or x.bands & bands == 0 or x.low >= high or x.high <= low:
            continue
        inside = x.bands & bands
        keep_part(m, x, x.bands & ~bands, x.low, x.high)
        keep_part(m, x, inside, x.low, min(low, x.high))
        keep_part(m, x, inside, max(high, x.low), x.high)
        drop(m, n)


@compiled
def replaces(m, w, lane, member, what, group, bands, low, high):
    """Return the number of an earlier read of the same words by the same thread, or -1: a wait for the later read
    includes the earlier one."""
    for n in range(m.tensor_count):
        x = tensor_access_at(m.tensor_accesses, n)
        same = x.warp == w and x.lane == lane and x.what == what and x.group == group and x.member == member
        if same and x.bands == bands and x.low == low and x.high == high:
            return n
    return -1


@compiled
def touch(m, w, lanes, pc, number, member, what, group, key, bands, low, high):
    """Check and record an access, if the launch has clocks."""
    if m.clocks == 0:
        return
    writes = what != READS_OPERAND and what != LOADS
    judge(m, w, lanes, pc, number, member, what, group, key, bands, low, high, writes)
    lane = lowest_bit(lanes)
    at = -1
    if writes:
        cover(m, member, bands, low, high)
    else:
        at = replaces(m, w, lane, member, what, group, bands, low, high)
    if at < 0:
        at = m.tensor_count
        m.tensor_count += 1
    x = tensor_access_at(m.tensor_accesses, at)
    x.number = number
    x.warp = w
    x.lane = lane
    x.pc = pc
    x.interval = load_i64(warp_at(m.warps, w).clock + 8 * w)
    x.member = member
    x.what = what
    x.group = group
    x.key = key
    x.bands = bands
    x.low = low
    x.high = high
    x.writes = writes


@compiled
def fork(m, w, lane, pc):
    """Return the number of a new asynchronous operation on tensor memory; 0 in a launch without clocks."""
    if m.clocks == 0:
        return 0
    return new_agent(m, w, lane, pc, COLUMNS_TOUCHED, 0, 0)
