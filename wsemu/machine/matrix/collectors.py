"""Collector buffers of `tcgen05.mma`, in compiled code.

A buffer may keep A, or B with `.ws`, for later products. `fill` stores the operand there; `use` and `lastuse` require
that it is still there. The hardware may read memory again, so products are computed from memory here; but memory must
still have the same operand with the same elements (PTX ISA, "tcgen05.mma", `.collector_usage`).
"""

from __future__ import annotations

from wsemu.machine.lowering import compiled
from wsemu.machine.matrix.tensor_operands import shared_word, tensor_word
from wsemu.machine.records import record_finding, tensor_cta_at
from wsemu.model.codes import CODE_NUMBERS
from wsemu.model.tensor_memory import (
    BUFFER_BITS,
    BUFFER_SHIFT,
    COLLECT_BITS,
    COLLECT_SHIFT,
    COLLECTS,
    NO_FILL,
    OTHER_OPERAND,
    OVERWRITTEN,
    WEIGHTS,
)

COLLECTOR = CODE_NUMBERS["collector-without-fill"]
DISCARD, LAST_USE, FILL, USE = (COLLECTS.index(name) for name in ("discard", "lastuse", "fill", "use"))
SUM_BITS = (1 << 44) - 1


@compiled
def add_word(total, word):
    return (total * 31 + word) & SUM_BITS


@compiled
def sum_operand(m, p, of_b, first):
    """Return a checksum of A, or B, in all CTAs of a product."""
    total = 0
    rows = p.n >> p.pair if of_b else p.rows
    for member in range(first, first + 1 + p.pair):
        for row in range(rows):
            for part in range(8 << (of_b and p.sparse)):
                r, t = part >> 2, part & 3
                if of_b:
                    word = shared_word(m, member, p.b, p.turned_b, p.size_b, p.narrow_b, row, r, t)
                elif p.in_columns:
                    word = tensor_word(m, p, member, row, 0, r, t)
                else:
                    word = shared_word(m, member, p.a, p.turned_a, p.size_a, p.narrow_a, row, r, t)
                total = add_word(total, word)
    return total


@compiled
def judge_use(m, p, cta, buffer, w, pc, lane, operand, shape, total):
    """Report a use of a buffer that does not have the operand."""
    what = -1
    if cta.filled[buffer] == 0 or cta.filled_by[buffer] != w:
        what = NO_FILL
    elif cta.filled_with[buffer] != operand or cta.filled_shape[buffer] != shape:
        what = OTHER_OPERAND
    elif cta.filled_sum[buffer] != total:
        what = OVERWRITTEN
    if what >= 0:
        other = -1 if what == NO_FILL else w
        other_pc = -1 if what == NO_FILL else cta.filled[buffer] - 1
        record_finding(
            m.report_entry, m.address, (COLLECTOR, pc, w, 1 << lane, other_pc, other), (what, buffer, 0, 0, 0)
        )


@compiled
def collect(m, p, w, pc, lane, aux, first):
    """Record and check what a product does to a collector buffer."""
    cta = tensor_cta_at(m.tensor_ctas, m.member)
    how = (aux >> COLLECT_SHIFT) & COLLECT_BITS
    of_b = (aux & WEIGHTS) != 0
    buffer = 1 + ((aux >> BUFFER_SHIFT) & BUFFER_BITS) if of_b else 0
    if how <= DISCARD:
        cta.filled[buffer] = 0
        return
    operand = p.b if of_b else p.a
    shape = (
        p.n << 16 | p.turned_b << 8 | p.size_b
        if of_b
        else p.rows << 16 | p.in_columns << 9 | p.turned_a << 8 | p.size_a
    )
    shape |= p.sparse << 32
    total = sum_operand(m, p, of_b, first)
    if how != FILL:
        judge_use(m, p, cta, buffer, w, pc, lane, operand, shape, total)
    if how == FILL:
        cta.filled[buffer] = pc + 1
        cta.filled_by[buffer] = w
        cta.filled_with[buffer] = operand
        cta.filled_shape[buffer] = shape
        cta.filled_sum[buffer] = total
    elif how == LAST_USE:
        cta.filled[buffer] = 0
