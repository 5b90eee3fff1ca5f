"""The tables of the model of a multiprocessor: items of machine-like code, warps, barriers, constants.

Times are in ticks of 1/1024 cycle, rates in ticks for 1,024 bytes.
"""

from __future__ import annotations

from wsemu.machine.records import viewer
from wsemu.machine.state import record

TICK = 1024
"""ticks in one cycle of the multiprocessor"""
NEVER = 1 << 62
GROUPS = 16
"""groups of copies or products that a warp may have open"""
TOGETHER = 16
"""loads of a warp that may share a scoreboard"""

KINDS = (
    "plain", "none", "branch", "repeat", "diverge", "end", "shared", "shared_atomic", "load", "store", "atomic",
    "cp_async", "arrive", "expect", "arrive_copies", "await", "bulk_load", "bulk_store", "group_close", "group_wait",
    "bar_arrive", "bar_sync", "product", "product_close", "product_wait", "matrix",
)  # fmt: skip
"""effects of items in addition to their use of an issue slot and a pipe; an item `none` uses neither, and its result is
ready with its sources"""
QUARTERS = 4
"""number of sub-partitions of a multiprocessor"""
PIPES = 8
"""pipes of a sub-partition; the last number means no pipe"""

ITEM = record(
    kind=1,
    cost=1,  # ticks of the issue slot
    pipe=1,
    hold=1,  # ticks that it keeps its pipe
    latency=1,  # ticks until its result
    reason=1,  # why a warp waits for its result
    source=4,  # registers, -1: none
    result=4,
    value=1,  # which of its stretch's values it has, -1: none
    pc=1,
)
STRETCH = record(first=1, length=1)  # items
CHUNK = record(stretch=1, values=1)  # of a warp's stream: a stretch, and the first of its values
VALUE = record(x=1, y=1, z=1, tail=1)
NEXT = record(when=1, pipe=1, quarter=1)  # of a warp: when its next item may issue, NEVER while it waits
FLOW = record(
    cta=1,
    chunk=1,
    item=1,
    last=1,  # item after those of the chunk
    values=1,  # first value of the chunk
    begin=1,  # chunks of its stream
    end=1,
    at=1,  # the object that it waits at, -1: none
    phase=1,
    since=1,
    pc=1,  # of the item that waits
    need=1,  # when the sources of the item after a wait are there
    copies=1,  # when the last copy of the open group ends
    closed=1,  # groups of copies
    groups=GROUPS,
    products=1,
    product_closed=1,
    product_groups=GROUPS,
    stored=1,  # when its accesses to shared memory and its stores have read their registers
    loads=1,  # number of its loads since all earlier ones ended
    loaded=1,  # when these end
    together=1,  # when those of them end that share a scoreboard
    sharing=TOGETHER * 4,  # registers of these
)
BARRIER = record(arrived=1, first=1, last=1)
PHASE = record(pending=1, bytes=1, phase=1, when=1, begin=1, done=4)
BAR_BASE = 1 << 32
"""added to the number of a named barrier, to distinguish it from an object with phases"""
SPAN = record(warp=1, pc=1, reason=1, begin=1, end=1)
PERIOD = record(cta=1, number=1, begin=1, end=1)  # a complete phase or generation

MODEL = record(
    warps=1,  # of a CTA
    resident=1,  # CTAs
    ctas=1,  # that the multiprocessor runs, in all
    started=1,
    items=1,  # host addresses of tables
    stretches=1,
    chunks=1,
    streams=1,  # int64[warps + 1]: first chunk of each
    values=1,
    next=1,
    flow=1,
    left=1,  # int64[resident]: warps that have not ended
    registers=1,  # of a warp
    ready=1,  # int64[all warps][registers]
    why=1,
    barriers=1,  # BARRIER[resident][16]
    objects=1,  # barrier objects with phases of a CTA
    counts=1,  # int64[objects]
    phases=1,  # PHASE[resident][objects]
    stalls=1,  # int64[all warps][reasons]
    by_pc=1,  # int64[instructions][reasons]
    tails=1,  # int64[rows][256]: by how many scales a memory access is later than the first, in ticks
    samples=1,  # int64[sample_room][2]: time, items so far
    sample_every=1,
    sample_at=1,  # items at the next sample
    sample_room=1,
    sample_count=1,
    spans=1,  # SPAN[span_room]
    span_room=1,
    span_count=1,
    periods=1,  # PERIOD[span_room]
    period_count=1,
    # of each sub-partition: the warp that can issue first, when, and whether to search for it again
    best=QUARTERS,
    first=QUARTERS,
    changed=QUARTERS,
    # what is free when
    issue_free=QUARTERS,
    pipe_free=QUARTERS * PIPES,
    tensor_free=QUARTERS,
    lsu_free=1,
    path_free=QUARTERS,  # of each sub-partition, to memory
    port_free=1,
    l2_free=1,
    dram_free=1,
    write_free=1,
    copy_free=1,
    barrier_free=1,
    # what the hardware takes
    lsu=1,
    path=1,  # ticks of one wavefront on this path
    global_access=1,
    shared_latency=1,
    shared_way=1,
    l1_latency=1,
    l2_latency=1,
    dram_latency=1,
    atomic_latency=1,
    cluster_latency=1,
    port=1,
    l2=1,
    dram=1,
    l2_write=1,
    dram_write=1,
    dram_write_share=1,  # of 1,024: bytes read that a byte written stands for
    l2_tail=1,
    dram_tail=1,
    l2_slack=1,
    dram_slack=1,
    store_queue=1,
    access_queue=1,
    bar_arrive=1,
    bar_wake=1,
    mbar_wake=1,
    mbar_arrive=1,
    mbar_wait=1,
    bulk_issue=1,
    bulk_next=1,
    bulk_first=1,
    bulk_rate=1,
    bulk_latency=1,
    bulk_store_latency=1,
    branch=1,
    repeat=1,
    diverge=1,
    predicate=1,
    tensor_queue=1,
    tensor_latency=1,
    cta_start=1,
    cta_gap=1,
    # results
    seed=1,
    end=1,
    issued=1,  # ticks of issue slots
    executed=1,  # items
    live=1,
    dram_bytes=1,
    l2_bytes=1,
)

item_at, stretch_at, chunk_at, value_at = (viewer(one) for one in (ITEM, STRETCH, CHUNK, VALUE))
next_at, flow_at, barrier_at, phase_at = (viewer(one) for one in (NEXT, FLOW, BARRIER, PHASE))
span_at, period_at, model_at = viewer(SPAN), viewer(PERIOD), viewer(MODEL)
