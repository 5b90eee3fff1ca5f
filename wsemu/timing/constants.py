"""Constants of GPUs, one row for each GPU; times are in SM cycles if no unit is given.

The row of the H200 was measured with microbenchmarks on one device: 132 multiprocessors, 1,980 MHz, driver 580.  The
constants from `lat_l2` to `dram_tail`, `merged`, and `WIDE` of `model/work.py` were also fitted to four rings, a third
of the SAXPY measurements and one GEMM.  `branch` and `predicate` are the cycles that ptxas leaves in machine code.
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
    """clock rate of the GPU in Hz"""
    tensor_clock: float = 0.9
    """fraction of the clock rate that remains while all tensor cores work"""
    multiprocessors: int = 132
    # per sub-partition: cycles for which a warp instruction occupies a pipe, and its latency
    issue: float = 1.0
    pipes: tuple[float, ...] = (2.0, 1.0, 2.0, 8.0, 2.0, 4.0)
    latencies: tuple[float, ...] = (4.5, 4.1, 8.1, 17.0, 6.0, 24.0)
    mma: float = 6.2
    mma_latency: float = 24.4
    mma_f64: float = 16.1
    mma_f64_latency: float = 26.2
    wgmma_shared: tuple[float, float] = (18.0, 62.0)
    """minimum cycles of a product with both operands in shared memory, and its latency beyond N/2"""
    wgmma_registers: tuple[float, float] = (13.0, 52.0)
    # memory of a multiprocessor
    lsu: float = 1.0
    """cycles of one wavefront of shared memory"""
    path: float = 2.0
    """cycles of one wavefront on the path of a sub-partition to memory"""
    store: tuple[float, float] = (4.0, 2.0)
    """minimum cycles from a store to the next access of the warp, and additional ones for each stored register"""
    global_access: float = 1.6
    shared_latency: float = 28.6
    shared_way: float = 2.0
    l1_latency: float = 32.1
    l1: int = 256 * 1024
    """total bytes of L1 and shared memory"""
    port: float = 96.0
    """bytes per cycle between L2 and a multiprocessor"""
    # L2 and DRAM
    l2_bytes: float = 50e6
    lat_l2: float = 262.0
    lat_dram: float = 315.0
    """latency in addition to that of L2"""
    l2: float = 4750.0
    """bytes per cycle of all multiprocessors together, like `dram` and the writes"""
    l2_write: float = 2380.0
    dram: float = 2350.0
    dram_write: float = 1790.0
    merged: float = 1.6
    """factor of `l2` for tiles that several CTAs load: requests for one line are merged"""
    load_l2: float = 100.0
    """additional latency of L2 in cycles under full load"""
    load_read: float = 180.0
    load_mixed: float = 320.0
    l2_tail: float = 10.0
    dram_tail: float = 65.0
    l2_slack: float = 100.0
    dram_slack: float = 300.0
    store_queue: float = 400.0
    access_queue: float = 40.0
    atomic_latency: float = 200.0
    membar: float = 600.0
    """cycles until earlier accesses are visible to other CTAs, as a release of cluster scope requires; fitted"""
    cluster_latency: float = 180.0
    """latency between multiprocessors of a cluster in addition to that of shared memory"""
    # synchronization
    bar_arrive: float = 2.0
    bar_wake: float = 22.0
    mbar_arrive: float = 8.0
    mbar_wake: float = 30.0
    mbar_wait: float = 20.0
    branch: float = 5.0
    predicate: float = 8.5
    """latency of a predicate in addition to `latencies`, if a branch depends on it"""
    repeat: float = 40.0
    """cycles of a turn of a loop that synchronizes, in which ptxas often reads addresses again; fitted"""
    diverge: float = 120.0
    """cycles of a branch out of a larger `if`, if only some lanes take it; fitted"""
    # the copy engine
    bulk_issue: float = 8.0
    """minimum cycles of a copy; one warp issues a copy every `bulk_next` cycles, and eight warps together issue one in
    9.8 cycles (`hgemm_bulk`)"""
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


H200 = Device("H200", "sm_90", measured=True, source="microbenchmarks on an H200 (docs/limits.md)")
H100 = H200._replace(
    name="H100",
    measured=False,
    source="NVIDIA H100 Tensor Core GPU Architecture, SXM5: 3.35 TB/s of HBM3; all else as measured on an H200",
    dram=2350.0 * 3.35 / 4.8,
    dram_write=1790.0 * 3.35 / 4.8,
)
A100 = H200._replace(
    name="A100",
    arch="sm_80",
    measured=False,
    source="NVIDIA A100 Tensor Core GPU Architecture (80 GB, SXM4): 108 multiprocessors, 1.41 GHz, 40 MB of L2 at "
    "5,120 bytes a clock, 2.04 TB/s, 192 KB of L1; mma at a quarter of the H200's wgmma rate; latencies as on an H200",
    clock=1.41e9,
    tensor_clock=1.0,
    multiprocessors=108,
    mma=8.0,
    port=64.0,
    l1=192 * 1024,
    l2_bytes=40e6,
    l2=0.8 * 5120,
    l2_write=0.4 * 5120,
    dram=0.93 * 2.039e12 / 1.41e9,
    dram_write=0.85 * 2.039e12 / 1.41e9,
    merged=1.0,
)
RTX4090 = H200._replace(
    name="RTX4090",
    arch="sm_89",
    measured=False,
    source="NVIDIA Ada GPU Architecture: 128 multiprocessors, 2.52 GHz, 72 MB of L2, 1.008 TB/s, 128 KB of L1, fp64 "
    "at 1/64 of fp32; rates of L2 and latencies in cycles as on an H200",
    clock=2.52e9,
    tensor_clock=1.0,
    multiprocessors=128,
    pipes=(2.0, 1.0, 64.0, 8.0, 2.0, 4.0),
    mma=16.0,
    mma_f64=512.0,
    port=64.0,
    l1=128 * 1024,
    l2_bytes=72e6,
    dram=0.93 * 1.008e12 / 2.52e9,
    dram_write=0.85 * 1.008e12 / 2.52e9,
    merged=1.0,
)
B200 = H200._replace(
    name="B200",
    arch="sm_100",
    measured=False,
    source="NVIDIA Blackwell Architecture Technical Brief: 148 multiprocessors, 1.965 GHz, 126 MB of L2, 8 TB/s; a "
    "multiprocessor as that of an H200; tcgen05 and tensor memory are not modeled",
    clock=1.965e9,
    multiprocessors=148,
    l2_bytes=126e6,
    l2=4750.0 * 148 / 132,
    l2_write=2380.0 * 148 / 132,
    dram=0.95 * 8e12 / 1.965e9,
    dram_write=0.72 * 8e12 / 1.965e9,
)
C2050 = H200._replace(
    name="C2050",
    arch="sm_20",
    measured=False,
    source="the papers on CudaDMA (SC11) and DGEMM on Fermi (SC11): 14 multiprocessors, 1.15 GHz, 144 GB/s, 515 "
    "Gflop/s of doubles, one warp instruction a cycle, a wavefront in two; latencies of their tables",
    clock=1.15e9,
    tensor_clock=1.0,
    multiprocessors=14,
    issue=4.0,
    pipes=(4.0, 4.0, 8.0, 32.0, 8.0, 8.0),
    latencies=(18.0, 18.0, 24.0, 40.0, 22.0, 26.0),
    lsu=2.0,
    global_access=4.0,
    shared_latency=26.0,
    l1_latency=80.0,
    l1=64 * 1024,
    port=64.0,
    l2_bytes=768e3,
    lat_l2=332.0,
    lat_dram=270.0,
    l2=14 * 32.0,
    l2_write=14 * 32.0,
    dram=0.85 * 144e9 / 1.15e9,
    dram_write=0.85 * 144e9 / 1.15e9,
    merged=1.0,
    bar_arrive=4.0,
    bar_wake=30.0,
    launch=5e-6,
    cta_launch=0.0,
)
DEVICES: dict[str, Device] = {one.name.lower(): one for one in (H200, H100, A100, RTX4090, B200, C2050)}
"""rows by name; those other than the H200's come from published numbers and were not compared with a device"""


def device_named(name: str) -> Device:
    """Return the row of a GPU; raise UsageError if the table has none."""
    found = DEVICES.get(str(name).lower().replace(" ", "").replace("-", ""))
    if found is None:
        raise UsageError(f"unknown device {name!r}: use one of {', '.join(one.name for one in DEVICES.values())}")
    return found
