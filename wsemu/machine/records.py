"""Records of `state` in compiled code, and calls of compiled functions by address."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir

from wsemu.machine.lowering import I64, PLACE, Builder, Record, Value, emitted
from wsemu.machine.state import (
    ACCESS,
    ACQUIRED,
    AGENT,
    BARRIER,
    CHANGE,
    CLAIM,
    CTA,
    ENTRY,
    EVENT,
    FLOW,
    FORESEEN,
    GROUPS,
    INSTRUCTION,
    LANE_ACCESS,
    MACHINE,
    MBARRIER,
    MEMO,
    NOTED,
    PATTERN,
    PERIOD,
    PERMIT,
    PLAN,
    PLAN_DUE,
    PRODUCT,
    RAW,
    SECTION,
    SECTIONS,
    SEGMENT,
    SHAPE,
    SLOT,
    TENSOR_ACCESS,
    TENSOR_CTA,
    VARIABLE,
    WARP,
    WEIGHED,
)

if TYPE_CHECKING:
    import numpy as np


def viewer(dtype: np.dtype[Any]) -> Any:
    """Return `at(address, i)`, which views the i-th record of `dtype` at a host address, to read and write its
    fields."""

    def at(b: Builder, address: Value, i: Value) -> Record:
        return Record(b.inttoptr(b.add(address, b.mul(i, I64(dtype.itemsize))), PLACE), dtype)

    return emitted(at)


variable_at = viewer(VARIABLE)
machine_at, warp_at, barrier_at = viewer(MACHINE), viewer(WARP), viewer(BARRIER)
segment_at, entry_at, instruction_at = viewer(SEGMENT), viewer(ENTRY), viewer(INSTRUCTION)
flow_at, access_at, raw_at = viewer(FLOW), viewer(ACCESS), viewer(RAW)
event_at, memo_at, pattern_at = viewer(EVENT), viewer(MEMO), viewer(PATTERN)
lane_access_at, slot_at = viewer(LANE_ACCESS), viewer(SLOT)
claim_at, cta_at = viewer(CLAIM), viewer(CTA)
acquired_at = viewer(ACQUIRED)
shape_at, weighed_at = viewer(SHAPE), viewer(WEIGHED)
plan_at, plan_due_at, permit_at = viewer(PLAN), viewer(PLAN_DUE), viewer(PERMIT)
sections_at, section_at, foreseen_at, noted_at = (viewer(one) for one in (SECTIONS, SECTION, FORESEEN, NOTED))
period_at, change_at = viewer(PERIOD), viewer(CHANGE)
tensor_cta_at, tensor_access_at, product_at = (viewer(one) for one in (TENSOR_CTA, TENSOR_ACCESS, PRODUCT))
mbarrier_at, agent_at, groups_at = viewer(MBARRIER), viewer(AGENT), viewer(GROUPS)


@emitted
def call(b: Builder, address: Value, *arguments: Value) -> Value:
    """Call the compiled function at a host address with int64 arguments."""
    signature = ir.FunctionType(I64, [I64] * len(arguments))
    return b.call(b.inttoptr(address, signature.as_pointer()), arguments)


@emitted
def record_finding(
    b: Builder, entry: Value, address: Value, what: tuple[Value, ...], detail: tuple[Value, ...]
) -> Value:
    """Call `bounds.enter_finding`: `what` is (code, pc, warp, lanes, other pc, other warp), `detail` five numbers."""
    return call.body(b, entry, address, *what, *detail)
