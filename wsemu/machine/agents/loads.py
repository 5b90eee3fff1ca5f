"""Copies to shared memory that complete their bytes on an mbarrier, in compiled code.

`copies.py` or `tensor_copy.py`, called by address, perform the copy itself, lane by lane and CTA by CTA. PTX ISA,
"cp.async.bulk", "cp.async.bulk.tensor".
"""

from __future__ import annotations

from wsemu.machine.lowering import compiled, set_bits
from wsemu.machine.memory.window import cast_to
from wsemu.machine.records import call, mbarrier_at, record_finding
from wsemu.machine.scalars import load_i64, load_u32, lowest_bit
from wsemu.machine.state import DONE, UNUSED_SHIFT
from wsemu.machine.sync.cancellation import withholds
from wsemu.machine.sync.events import report_failure
from wsemu.machine.sync.mbarrier import (
    FOREIGN,
    all_live,
    credit,
    find_credited,
    good_addresses,
    word_of,
)
from wsemu.machine.sync.peers import leaves, reach
from wsemu.machine.sync.phases import judge_fenced
from wsemu.model.isa import OFFSET_MASK, OWN_TILE, PAIR_TILE, SEGMENT_SHIFT, SHARED, TENSOR_RANK, opcodes

BULK_LOAD, BULK_SEND, BULK_SEND_REDUCE, BULK_MULTICAST = opcodes("bulk", "load", "send", "send_reduce", "multicast")
TENSOR_LOAD, TENSOR_MULTICAST = opcodes("tensor", "load", "multicast")


@compiled
def credit_goal(m, registers, i, lane):
    """Return the rank of the CTA whose shared memory must have the mbarrier of a lane's copy; -1: any CTA."""
    if i.op == BULK_LOAD and i.aux & 1:
        return m.member
    if i.op == TENSOR_LOAD and (i.aux >> UNUSED_SHIFT) & OWN_TILE:
        return m.member
    to = load_i64(registers + i.a + 8 * lane)
    if i.op == BULK_MULTICAST or to >> SEGMENT_SHIFT != SHARED:
        return -1
    return (to & OFFSET_MASK) >> m.window


@compiled
def is_pair_tile(i):
    """Return whether the mbarrier of a tensor copy may be in the peer of the destination CTA."""
    return i.op in (TENSOR_LOAD, TENSOR_MULTICAST) and (i.aux >> UNUSED_SHIFT) & PAIR_TILE != 0


@compiled
def together(m, w, pc, registers, i, at, lanes):
    """Return whether the mbarriers of lanes are in the destination CTAs of their copies, and report the first that is
    not."""
    rest = lanes
    while rest:
        lane = lowest_bit(rest)
        rest &= rest - 1
        word_, goal = word_of(registers, at, 0, lane), credit_goal(m, registers, i, lane)
        member = word_ >> (m.window - 3)
        if goal < 0 or goal == member or (is_pair_tile(i) and goal ^ 1 == member):
            continue
        alike = 1 << lane
        for other in set_bits(rest):
            same = word_of(registers, at, 0, other) == word_ and credit_goal(m, registers, i, other) == goal
            alike |= same << other
        address = (SHARED << SEGMENT_SHIFT) | word_ << 3
        record_finding(m.report_entry, m.address, (FOREIGN, pc, w, alike, -1, -1), (address, member, goal, 0, 0))
        return False
    return True


@compiled
def names_mbarriers(m, w, pc, registers, i, at, lanes):
    """Return whether lanes name valid words for mbarriers; if only the own CTA's are possible, these must be live."""
    if not good_addresses(m, w, pc, registers, at, 0, lanes):
        return False
    if m.clusters == 0:
        return all_live(m, w, pc, registers, at, 0, lanes)
    return together(m, w, pc, registers, i, at, lanes)


@compiled
def moving(registers, row, mask):
    """Return the lanes whose copy has any bytes."""
    found = 0
    for lane in set_bits(mask):
        if load_u32(registers + row + 4 * lane) & ~15:
            found |= 1 << lane
    return found


@compiled
def copy_goals(m, registers, i, lane):
    """Return the destination CTAs of a lane's copy, as bits; 1 if the address names the only one."""
    if i.op == BULK_MULTICAST:
        return load_u32(registers + i.d + 4 * lane) & 0xFFFF
    if i.op == TENSOR_MULTICAST:
        return load_u32(registers + i.d + 256 * ((i.aux >> UNUSED_SHIFT) & TENSOR_RANK) + 4 * lane) & 0xFFFF
    return 1


@compiled
def multicast_rank(m, registers, i, bars, lane, goal):
    """Return the rank of the CTA whose mbarrier a multicast uses; -1 for other copies.

    It is the destination CTA, or in a pair the CTA with the parity that the mbarrier's address names.
    """
    many = i.op in (BULK_MULTICAST, TENSOR_MULTICAST)
    if not many or m.clusters == 0:
        return -1
    if is_pair_tile(i):
        return goal & ~1 | ((word_of(registers, bars, 0, lane) >> (m.window - 3)) & 1)
    return goal


@compiled
def credits_live(m, w, pc, registers, i, bars, lanes):
    """Return whether all mbarriers of some lanes' copies are live, and report the first one that is not."""
    good = True
    while lanes and good:
        lane = lowest_bit(lanes)
        lanes &= lanes - 1
        goals = copy_goals(m, registers, i, lane)
        while goals and good:
            member = multicast_rank(m, registers, i, bars, lane, lowest_bit(goals))
            goals &= goals - 1
            good = find_credited(m, w, pc, registers, bars, lane, member) >= 0
    return good


@compiled
def load_parts(m, w, pc, registers, i, bars, entry, lanes):
    """Perform copies of lanes to shared memory, lane by lane and CTA by CTA, and return a status.

    The row `bars` names their mbarriers.
    """
    lanes &= ~m.lanes_done
    for lane in set_bits(lanes):
        bit = 1 << lane
        for goal in set_bits(copy_goals(m, registers, i, lane) & ~m.cast_done):
            m.cast = goal if i.op in (BULK_MULTICAST, TENSOR_MULTICAST) else -1
            to = cast_to(m, load_i64(registers + i.a + 8 * lane))
            status = call(entry, m.address, w, pc, bit)
            m.cast = -1
            if status != DONE:
                m.resumes = 1
                return status
            m.cast_done |= 1 << goal
            number = m.agent_next - 1
            if m.clusters and to >> SEGMENT_SHIFT == SHARED:
                reach(m, w, pc, (to & OFFSET_MASK) >> m.window, bit, number, True)
            if i.op in (BULK_SEND, BULK_SEND_REDUCE) and m.clocks:
                leaves(m, w, number)
            at = find_credited(m, w, pc, registers, bars, lane, multicast_rank(m, registers, i, bars, lane, goal))
            if m.init_fences and m.clocks and at >= 0:
                judge_fenced(m, mbarrier_at(m.mbarriers, at), w, pc, lane)
            if not credit(m, w, pc, at, lane, m.credited, number):
                end_parts(m)
                return report_failure(m, w, pc)
        m.lanes_done |= bit
        m.cast_done = 0
    end_parts(m)
    return DONE


@compiled
def end_parts(m):
    m.lanes_done = 0
    m.cast_done = 0
    m.resumes = 0


@compiled
def load_bulk(m, w, pc, registers, i, mask):
    """Execute a bulk load, a send or a multicast, and return a status."""
    if m.withheld and withholds(m, w, pc, registers, mask):
        return DONE
    lanes = moving(registers, i.c, mask)
    if m.resumes == 0:
        m.serial += 1
        m.lanes_done = 0
        call(m.copy_entry, m.address, w, -4 - pc, mask)  # report invalid sizes
        if not names_mbarriers(m, w, pc, registers, i, i.imm, lanes):
            return report_failure(m, w, pc)
        if not credits_live(m, w, pc, registers, i, i.imm, lanes):
            return report_failure(m, w, pc)
    return load_parts(m, w, pc, registers, i, i.imm, m.copy_entry, lanes)


@compiled
def load_tiles(m, w, pc, registers, i, mask):
    """Execute a tensor load or multicast, and return a status."""
    if m.resumes == 0:
        m.serial += 1
        m.lanes_done = 0
        if not names_mbarriers(m, w, pc, registers, i, i.c, mask):
            return report_failure(m, w, pc)
        if not credits_live(m, w, pc, registers, i, i.c, mask):
            return report_failure(m, w, pc)
        status = call(m.tensor_entry, m.address, w, -1 - pc, mask)
        if status != DONE:
            report_failure(m, w, pc)
            return status
    return load_parts(m, w, pc, registers, i, i.c, m.tensor_entry, mask)


@compiled
def move_tiles(m, w, pc, mask):
    """Execute the other tensor copies, which wait for nothing, and return a status."""
    status = call(m.tensor_entry, m.address, w, -1 - pc, mask)
    if status != DONE:
        report_failure(m, w, pc)
        return status
    return call(m.tensor_entry, m.address, w, pc, mask)
