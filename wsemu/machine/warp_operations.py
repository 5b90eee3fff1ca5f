"""Operations in which the lanes of a warp exchange values: shuffle, match, vote, redux, activemask, syncwarp.

PTX ISA, "shfl.sync", "match.sync", "vote.sync", "redux.sync", "activemask", "bar.warp.sync".  A member mask names the
lanes that participate.  Lanes that execute an operation together may have different masks; the lanes with one mask
exchange values among themselves.  `barrier-divergence` is reported for a live lane that a mask names but that does not
execute the operation with this mask.  It is also reported for an executing lane that its own mask does not name.  A
shuffle that reads an inactive lane gives an undefined value, which is reported as `undefined-shuffle`.
"""

from __future__ import annotations

from wsemu.machine.lowering import compiled, set_bits
from wsemu.machine.records import call, instruction_at, machine_at, record_finding, warp_at
from wsemu.machine.scalars import load_i64, load_u32, lowest_bit, store_i64, store_u32
from wsemu.machine.sync.clocks import MET, meet
from wsemu.model.codes import CODE_NUMBERS
from wsemu.model.isa import LANES, OPCODE, opcodes

DIVERGENCE, UNDEFINED = CODE_NUMBERS["barrier-divergence"], CODE_NUMBERS["undefined-shuffle"]
SHUFFLE = tuple(opcodes("shfl", "idx.b32", "up.b32", "down.b32", "bfly.b32"))
IDX, UP, DOWN, BFLY = SHUFFLE
IDX64, UP64, DOWN64, BFLY64 = opcodes("shfl", "idx.b64", "up.b64", "down.b64", "bfly.b64")
MATCH_ANY, MATCH_ALL, MATCH_ANY64, MATCH_ALL64 = opcodes("match", "any.b32", "all.b32", "any.b64", "all.b64")
VOTE_ALL, VOTE_ANY, VOTE_UNI, BALLOT = opcodes("vote", "all", "any", "uni", "ballot")
ADD, AND, OR, XOR = opcodes("redux", "add.b32", "and.b32", "or.b32", "xor.b32")
MIN_SIGNED, MAX_SIGNED, MIN, MAX = opcodes("redux", "min.s32", "max.s32", "min.u32", "max.u32")
ACTIVEMASK, ELECT, ALIKE = OPCODE["activemask"], OPCODE["elect.sync"], OPCODE["alike.b64"]


@compiled
def read_lane(registers, row, lane, wide):
    return load_i64(registers + row + 8 * lane) if wide else load_u32(registers + row + 4 * lane)


@compiled
def write_lane(registers, row, lane, wide, value):
    if wide:
        store_i64(registers + row + 8 * lane, value)
    else:
        store_u32(registers + row + 4 * lane, value)


@compiled
def write_predicate(registers, row, mask, value):
    store_u32(registers + row, (load_u32(registers + row) & ~mask) | (value & mask))


@compiled
def source_lane(mode, lane, b, segment, clamp):
    """Return the lane that a shuffle reads, and whether it is in range."""
    highest = (lane & segment) | (clamp & ~segment & 31)
    if mode == 1:
        j = lane - b
        good = j >= highest
    elif mode == 2:
        j = lane + b
        good = j <= highest
    elif mode == 3:
        j = lane ^ b
        good = j <= highest
    else:
        j = (lane & segment) | (b & ~segment & 31)
        good = j <= highest
    return (j if good else lane), good


@compiled
def shuffle(m, registers, w, pc, mask, there, missed):
    """Execute a shuffle for the lanes of `mask`.  `there`: lanes that participate.  `missed`: live lanes that the
    member mask names but that are absent; they are already reported."""
    i = instruction_at(m.code, pc)
    wide = i.op >= IDX64
    mode = i.op - (IDX64 if wide else IDX)
    values = m.scratch
    for lane in range(LANES):
        store_i64(values + 8 * lane, read_lane(registers, i.a, lane, wide))
    inside, undefined, source = 0, 0, 0
    for lane in set_bits(mask):
        j, good = source_lane(mode, lane, load_u32(registers + i.b + 4 * lane) & 31, (i.imm >> 8) & 31, i.imm & 31)
        if not (there >> j) & 1:
            if j != lane and not (missed >> j) & 1:
                source = source if undefined else j
                undefined |= 1 << lane
            j = lane  # the value of an absent lane is undefined; this engine gives the reader's own value
        if good:
            inside |= 1 << lane
        write_lane(registers, i.d, lane, wide, load_i64(values + 8 * j))
    if i.aux:
        write_predicate(registers, i.aux, mask, inside)
    if undefined:
        record_finding(m.report_entry, m.address, (UNDEFINED, pc, w, undefined, -1, -1), (source, 0, 0, 0, 0))


@compiled
def match(registers, i, mask, there):
    wide = i.op >= MATCH_ANY64
    every = i.op == MATCH_ALL or i.op == MATCH_ALL64
    first = read_lane(registers, i.a, lowest_bit(there) & 31, wide)
    equal = there != 0
    rest = there
    while rest:
        equal &= read_lane(registers, i.a, lowest_bit(rest), wide) == first
        rest &= rest - 1
    for lane in set_bits(mask):
        if every:
            write_lane(registers, i.d, lane, False, there if equal else 0)
            continue
        peers = 0
        own = read_lane(registers, i.a, lane, wide)
        for other in range(LANES):
            if (there >> other) & 1 and read_lane(registers, i.a, other, wide) == own:
                peers |= 1 << other
        write_lane(registers, i.d, lane, False, peers)
    if every and i.aux:
        write_predicate(registers, i.aux, mask, mask if equal else 0)


@compiled
def alike(registers, i, mask):
    """Write whether all executing lanes have equal values.  Unlike `match`, this operation neither waits for lanes nor
    synchronizes them."""
    first = load_i64(registers + i.a + 8 * lowest_bit(mask))
    equal = True
    rest = mask
    while rest:
        equal &= load_i64(registers + i.a + 8 * lowest_bit(rest)) == first
        rest &= rest - 1
    write_predicate(registers, i.d, mask, mask if equal else 0)


@compiled
def vote(registers, i, mask, there):
    votes = load_u32(registers + i.a) & there
    if i.op == BALLOT:
        rest = mask
        while rest:
            store_u32(registers + i.d + 4 * lowest_bit(rest), votes)
            rest &= rest - 1
        return
    yes = votes == there if i.op == VOTE_ALL else votes != 0
    if i.op == VOTE_UNI:
        yes = votes == there or votes == 0
    write_predicate(registers, i.d, mask, mask if yes else 0)


@compiled
def combine_values(op, x, y):
    """Return the combination of two 32-bit values of a reduction."""
    if op == AND:
        return x & y
    if op == OR:
        return x | y
    if op == XOR:
        return x ^ y
    if op == ADD:
        return (x + y) & 0xFFFFFFFF
    flip = 0x80000000 if op in (MIN_SIGNED, MAX_SIGNED) else 0  # unsigned `<` then orders signed values
    less = (x ^ flip) < (y ^ flip)
    return x if less == (op in (MIN_SIGNED, MIN)) else y


@compiled
def reduce(registers, i, mask, others):
    """Combine the values of the lanes of `mask`.  The lanes of `others` do not participate and keep their own
    values."""
    for lane in set_bits(others):
        store_u32(registers + i.d + 4 * lane, load_u32(registers + i.a + 4 * lane))
    if mask == 0:
        return
    total = load_u32(registers + i.a + 4 * lowest_bit(mask))
    rest = mask & (mask - 1)
    while rest:
        total = combine_values(i.op, total, load_u32(registers + i.a + 4 * lowest_bit(rest)))
        rest &= rest - 1
    rest = mask
    while rest:
        store_u32(registers + i.d + 4 * lowest_bit(rest), total)
        rest &= rest - 1


def warp_operation(address, w, pc, mask):
    """Execute the warp operation at pc for the lanes of `mask`.  Called by address."""
    m = machine_at(address, 0)
    warp = warp_at(m.warps, w)
    i = instruction_at(m.code, pc)
    registers = warp.registers
    if i.op == ACTIVEMASK:
        rest = mask
        while rest:
            store_u32(registers + i.d + 4 * lowest_bit(rest), mask)
            rest &= rest - 1
        return 0
    if i.op == ALIKE:
        alike(registers, i, mask)
        return 0
    rest = mask
    while rest:
        members = load_u32(registers + i.c + 4 * lowest_bit(rest))
        group = same_members(registers, i.c, members, rest)
        rest &= ~group
        exchange(m, warp, w, pc, group, members)
    return 0


@compiled
def names_any(registers, row, mask, lanes):
    """Return whether the member mask of some lane of `mask` names one of `lanes`."""
    rest = mask
    while rest:
        if load_u32(registers + row + 4 * lowest_bit(rest)) & lanes:
            return True
        rest &= rest - 1
    return False


@compiled
def same_members(registers, row, members, mask):
    """Return the lanes of `mask` whose member mask is `members`."""
    group = mask
    rest = mask
    while rest:
        if load_u32(registers + row + 4 * lowest_bit(rest)) != members:
            group &= ~(rest & -rest)
        rest &= rest - 1
    return group


@compiled
def exchange(m, warp, w, pc, mask, members):
    """Execute the operation at pc for the lanes of `mask`, which all have the member mask `members`."""
    i = instruction_at(m.code, pc)
    registers = warp.registers
    if members & warp.alive != mask:
        record_finding(m.report_entry, m.address, (DIVERGENCE, pc, w, mask, -1, -1), (-1, warp.alive, members, 0, 0))
    there = mask & members  # the lanes that participate; the others also get a result
    if there and m.clocks:
        met = mask | (members & ~warp.alive)  # include exited lanes: their earlier accesses are ordered too
        if m.trace:
            call(m.trace_entry, m.address, MET, w, load_i64(warp.clock + 8 * w), pc, met, -1)
        meet(m, w, met)
    if i.op <= BFLY64 and (i.op <= BFLY or i.op >= IDX64):
        shuffle(m, registers, w, pc, mask, there, members & warp.alive & ~mask)
    elif i.op == MATCH_ANY or i.op == MATCH_ALL or i.op == MATCH_ANY64 or i.op == MATCH_ALL64:
        match(registers, i, mask, there)
    elif i.op <= BALLOT:
        vote(registers, i, mask, there)
    elif i.op <= MAX:
        reduce(registers, i, there, mask & ~there)
    elif i.op == ELECT:
        rest = mask
        while rest:
            store_u32(registers + i.d + 4 * lowest_bit(rest), lowest_bit(mask))
            rest &= rest - 1
