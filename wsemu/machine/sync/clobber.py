"""Accesses to the bytes of live mbarriers, in compiled code: `mbarrier-clobber`.

Programs without asynchronous operations run none of this: `access_guarded` stands in for `scheduler.access` in others.
"""

from __future__ import annotations

import numpy as np

from wsemu.machine.lowering import compiled
from wsemu.machine.records import call, instruction_at, machine_at, mbarrier_at, record_finding
from wsemu.machine.scalars import load_i64, lowest_bit
from wsemu.model.codes import CODE_NUMBERS
from wsemu.model.isa import (
    ADDRESS_WRAPPED,
    ATOMIC,
    FIRST_STORE,
    N_CONTROL,
    N_MEMORY,
    OFFSET_MASK,
    OPCODE,
    READ,
    SEGMENT_SHIFT,
    SHARED,
    WRITE,
)

CLOBBER = CODE_NUMBERS["mbarrier-clobber"]
ZERO = OPCODE["bulk.zero"]


@compiled
def touched(m, address, size):
    """The lowest live mbarrier of which a range of bytes has some, from 1; 0: none."""
    if address & ~ADDRESS_WRAPPED & ~OFFSET_MASK != SHARED << SEGMENT_SHIFT or size == 0:
        return np.int64(0)
    offset = address & OFFSET_MASK
    low, high = max(offset >> 3, m.mbarrier_low), min((offset + size - 1) >> 3, m.mbarrier_high)
    for at in range(low, high + 1):
        number = load_i64(m.mbarrier_index + 8 * at)
        if number and mbarrier_at(m.mbarriers, number - 1).live:
            return number
    return np.int64(0)


@compiled
def clobbers(m, w, pc, row, imm, mask, size, kind):
    """Report an access by some lanes, whose addresses lie in a row, to bytes of live mbarriers."""
    lanes = np.int64(0)
    rest = mask
    while rest:
        lane = lowest_bit(rest)
        rest &= rest - 1
        if touched(m, load_i64(row + 8 * lane) + imm, size):
            lanes |= np.int64(1) << lane
    if lanes == 0:
        return
    address = (load_i64(row + 8 * lowest_bit(lanes)) + imm) & ~ADDRESS_WRAPPED
    b = mbarrier_at(m.mbarriers, touched(m, address, size) - 1)
    start = (SHARED << SEGMENT_SHIFT) | b.word << 3
    op = instruction_at(m.code, pc).op
    record_finding(
        m.report_entry,
        m.address,
        (CLOBBER, pc, w, lanes, -1, -1),
        (start, max(start, address), kind, size, np.int64(op >= N_CONTROL and op != ZERO)),
    )


def access_guarded(address, w, pc, registers, mask):
    """Execute the access at pc as `scheduler.access` does; one to bytes of an mbarrier is reported."""
    m = machine_at(address, 0)
    if m.resumes == 0 and m.mbarrier_count:
        i = instruction_at(m.code, pc)
        kind = np.int64(ATOMIC if i.op >= N_MEMORY else WRITE if i.op >= FIRST_STORE else READ)
        clobbers(m, w, pc, registers + i.a, i.imm, mask, i.aux & 255, kind)
    return call(m.guarded_entry, address, w, pc, registers, mask)
