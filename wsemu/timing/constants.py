"""Constants of GPUs: one row for each, in SM cycles except for the fields with other units.

The row of the H200 was measured with microbenchmarks on one device: 132 multiprocessors, 1,980 MHz, driver 580.
Four rings, a third of SAXPY and one GEMM had a part in these: `lat_l2` to `dram_tail`, `WIDE` of `model/work.py` and
`merged`.
"""

from __future__ import annotations

from wsemu.model.data import NamedTuple
from wsemu.model.errors import UsageError

PIPES = ("alu", "fma", "fp64", "special", "convert", "shuffle")
"""pipes of each sub-partition, in the order of the tables"""


class Device(NamedTuple):
    """The constants of a GPU."""

    name: str
    arch: str
    measured: bool
    source: str
    clock: float = 1.98e9
    """Hz"""
    tensor_clock: float = 0.9
    """part of the clock that is left while all tensor cores work"""
    multiprocessors: int = 132
    # of a sub-partition: cycles for which one warp instruction keeps a pipe, and until its result is there
    issue: float = 1.0
    pipes: tuple[float, ...] = (2.0, 1.0, 2.0, 8.0, 2.0, 4.0)
    latencies: tuple[float, ...] = (4.5, 4.1, 8.1, 17.0, 6.0, 24.0)
    mma: float = 6.2
    mma_latency: float = 24.4
    mma_f64: float = 16.1
    mma_f64_latency: float = 26.2
    wgmma_shared: tuple[float, float] = (18.0, 62.0)
    """the least cycles of a product with both operands in shared memory, and its latency beyond N/2"""
    wgmma_registers: tuple[float, float] = (13.0, 52.0)
    # memory of a multiprocessor
    lsu: float = 1.0
    """cycles of one wavefront of shared memory"""
    global_access: float = 1.6
    shared_latency: float = 28.6
    shared_way: float = 2.0
    l1_latency: float = 32.1
    l1: int = 256 * 1024
    """bytes of L1 and shared memory together"""
    port: float = 96.0
    """bytes a cycle between L2 and a multiprocessor"""
    # memory behind it
    l2_bytes: float = 50e6
    lat_l2: float = 262.0
    lat_dram: float = 315.0
    """latency in addition to that of L2"""
    l2: float = 4750.0
    """bytes a cycle of all multiprocessors, as `dram` and the writes"""
    l2_write: float = 2380.0
    dram: float = 2350.0
    dram_write: float = 1790.0
    merged: float = 1.6
    """factor of `l2` for tiles that several CTAs load: requests for one line are merged"""
    load_l2: float = 100.0
    """cycles that L2 is later under full load"""
    load_read: float = 180.0
    load_mixed: float = 320.0
    l2_tail: float = 10.0
    dram_tail: float = 65.0
    l2_slack: float = 100.0
    dram_slack: float = 300.0
    store_queue: float = 400.0
    access_queue: float = 40.0
    atomic_latency: float = 200.0
    # synchronization
    bar_arrive: float = 2.0
    bar_wake: float = 22.0
    mbar_arrive: float = 8.0
    mbar_wake: float = 30.0
    mbar_wait: float = 20.0
    branch: float = 2.0
    # the copy engine
    bulk_issue: float = 16.0
    bulk_first: float = 50.0
    bulk_next: float = 17.0
    bulk_rate: float = 96.0
    bulk_latency: float = 300.0
    bulk_store_latency: float = 60.0
    # launches
    launch: float = 0.9e-6
    """seconds of an empty launch in a graph"""
    cta_launch: float = 0.6e-9
    """seconds for each CTA of the grid"""
    cta_start: float = 400.0
    cta_gap: float = 160.0


H200 = Device(
    "H200", "sm_90", measured=True, source="microbenchmarks on an H200: data/time of this repository's benchmarks"
)
DEVICES: dict[str, Device] = {one.name.lower(): one for one in (H200,)}


def device_named(name: str) -> Device:
    """Return the row of a GPU; UsageError for one that the table lacks."""
    found = DEVICES.get(str(name).lower().replace(" ", "").replace("-", ""))
    if found is None:
        raise UsageError(f"unknown device {name!r}: use one of {', '.join(one.name for one in DEVICES.values())}")
    return found
