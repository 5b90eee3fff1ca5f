"""setmaxnreg in compiled code: registers that warps give to their CTA's pool, and take from it (L2)."""

from __future__ import annotations

import numpy as np

from wsemu.machine.lowering import compiled
from wsemu.machine.records import record_finding
from wsemu.model.codes import CODE_NUMBERS
from wsemu.model.isa import OPCODE

INC, DEC = OPCODE["setmaxnreg.inc"], OPCODE["setmaxnreg.dec"]
MISUSE = CODE_NUMBERS["setmaxnreg"]
BAD_COUNT, DIRECTION, PART = range(3)
"""detail[1] of a finding"""


@compiled
def judge_count(m, warp, w, pc, i, mask):
    """Whether a warp may ask for, or keep, so many registers; what is wrong is reported."""
    wrong = np.int64(-1)
    if i.imm < 24 or i.imm > 256 or i.imm & 7:
        wrong = np.int64(BAD_COUNT)
    elif mask != warp.alive:
        wrong = np.int64(PART)
    elif warp.held and (i.imm < warp.held if i.op == INC else i.imm > warp.held):
        wrong = np.int64(DIRECTION)
    if wrong >= 0:
        record_finding(m.report_entry, m.address, (MISUSE, pc, w, mask, -1, -1), (i.imm, wrong, warp.held, 0, 0))
        return False
    return warp.held != 0


@compiled
def give_back(m, warp, w, pc, i, mask):
    if judge_count(m, warp, w, pc, i, mask):
        m.pool += warp.held - i.imm
        warp.held = i.imm


@compiled
def pool_has(m, warp, i):
    return i.imm - warp.held <= m.pool


@compiled
def take_registers(m, warp, i):
    m.pool -= i.imm - warp.held
    warp.held = i.imm


@compiled
def ask(m, warp, w, pc, i, mask):
    """Take registers; whether the warp has to wait for them."""
    if not judge_count(m, warp, w, pc, i, mask):
        return False
    if not pool_has(m, warp, i):
        return True
    take_registers(m, warp, i)
    return False
