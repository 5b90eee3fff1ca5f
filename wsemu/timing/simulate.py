"""The model of a multiprocessor, run on the tables of a stream."""

from __future__ import annotations

import ctypes
import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.machine import build
from wsemu.machine.multiprocessor import layout
from wsemu.machine.multiprocessor.layout import NEVER, TICK
from wsemu.machine.state import address_of
from wsemu.model.data import NamedTuple
from wsemu.model.wait_reasons import REASONS
from wsemu.timing.tables import tails

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt

    from wsemu.timing.constants import Device
    from wsemu.timing.tables import Tables

    Numbers = npt.NDArray[np.int64]

SAMPLES = 400
MOST_SHARE = 1.6
"""maximum rate that one multiprocessor gets from L2 while others are idle, as a multiple of its port's fair share"""
BARRIERS = 16


class Load(NamedTuple):
    """Memory load that a run assumes, or causes."""

    dram: float = 0.4
    l2: float = 0.3

    def is_near(self, other: Load) -> bool:
        return abs(self.dram - other.dram) < 0.01 and abs(self.l2 - other.l2) < 0.02

    def between(self, other: Load) -> Load:
        return Load((self.dram + other.dram) / 2, (self.l2 + other.l2) / 2)


class Phase(NamedTuple):
    """A complete phase of a barrier object, or a complete generation of a named barrier."""

    cta: int
    """number among the co-resident CTAs"""
    barrier: int
    """number of the named barrier; -1 for a barrier object"""
    place: int
    """address of the barrier object, 0 for a named barrier"""
    begin: float
    """start of the phase, in cycles of the model"""
    end: float


class Run(NamedTuple):
    """Result of a run of the model."""

    cycles: float
    is_whole: bool
    """true if all streams were run to their ends"""
    issued: float
    """number of used issue slots"""
    executed: int
    stalls: npt.NDArray[np.float64]
    """stall cycles by (warp, reason)"""
    by_pc: npt.NDArray[np.float64]
    samples: npt.NDArray[np.float64]
    """(cycles, number of items so far)"""
    load: Load
    spans: npt.NDArray[np.void] | None
    phases: tuple[Phase, ...]
    """complete phases and generations in the order of their ends, if waits are listed"""
    is_cut: bool = False
    """true if later waits or phases are not listed"""
    stuck: tuple[int, ...] = ()
    """instructions at which warps wait at the end of a run that did not complete"""


@functools.cache
def _entry() -> Callable[[int], int]:
    build.load_parts(("multiprocessor",))
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(build.address("multiprocessor"))


@functools.cache
def _tails() -> Numbers:
    return tails()


def run(
    made: Tables,
    device: Device,
    *,
    resident: int,
    ctas: int,
    active: int,
    load: Load,
    written: float = 0.0,
    instructions: int,
    merged: float = 1.0,
    spans: int = 0,
) -> Run:
    """Run `ctas` CTAs on one multiprocessor, `resident` at once, while `active` multiprocessors share L2 and DRAM under
    a load.

    `written`: share of the launch's bytes that are written; `merged`: factor of L2's rate for shared tiles; `spans`:
    number of listed waits.
    """
    warps = len(made.streams) - 1
    total = warps * resident
    model = np.zeros(1, layout.MODEL)
    one = model[0]
    objects = max(1, len(made.counts))
    counts = made.counts if len(made.counts) else np.zeros(1, np.int64)
    arrays: dict[str, npt.NDArray[Any]] = {
        "items": made.items, "stretches": made.stretches, "chunks": made.chunks, "streams": made.streams,
        "values": made.values, "counts": counts, "tails": _tails(),
        "next": np.zeros(total, layout.NEXT), "flow": np.zeros(total, layout.FLOW),
        "left": np.zeros(resident, np.int64), "ready": np.zeros((total, made.registers + 1), np.int64),
        "why": np.zeros((total, made.registers + 1), np.int64),
        "barriers": np.zeros(resident * BARRIERS, layout.BARRIER),
        "phases": np.zeros(resident * objects, layout.PHASE), "stalls": np.zeros((total, len(REASONS)), np.int64),
        "by_pc": np.zeros((instructions, len(REASONS)), np.int64), "samples": np.zeros((SAMPLES * 2, 2), np.int64),
        "spans": np.zeros(max(1, spans), layout.SPAN), "periods": np.zeros(max(1, spans), layout.PERIOD),
    }  # fmt: skip
    for name, array in arrays.items():
        one[name] = address_of(array)
    one["warps"], one["resident"], one["ctas"], one["objects"] = warps, resident, ctas, len(made.counts)
    one["registers"], one["seed"], one["span_room"] = made.registers + 1, 12345, spans
    one["sample_every"], one["sample_room"] = max(1, made.executed * resident // SAMPLES), SAMPLES * 2
    for name, cycles in _cycles(device, load, written).items():
        one[name] = round(cycles * TICK)
    for name, rate in _rates(device, active, merged).items():
        one[name] = round(1024 / rate * TICK)
    one["dram_write_share"] = round(1024 * device.dram / device.dram_write)
    _entry()(address_of(model))
    end = max(1.0, int(one["end"]) / TICK)
    waits, periods = int(one["span_count"]), int(one["period_count"])
    next_, flow = arrays["next"], arrays["flow"]
    waiting = np.flatnonzero((next_["when"] == NEVER) & (flow["chunk"] < flow["end"]))
    return Run(
        cycles=end,
        is_whole=int(one["live"]) == 0,
        issued=int(one["issued"]) / TICK,
        executed=int(one["executed"]),
        stalls=arrays["stalls"] / TICK,
        by_pc=arrays["by_pc"] / TICK,
        samples=arrays["samples"][: int(one["sample_count"])] / np.array([TICK, 1]),
        load=Load(
            min(1.0, int(one["dram_bytes"]) / end * active / device.dram),
            min(1.0, int(one["l2_bytes"]) / end * active / (device.l2 * merged)),
        ),
        spans=arrays["spans"][:waits] if spans else None,
        phases=tuple(_phases(arrays["periods"][:periods], made.places)),
        is_cut=spans > 0 and max(waits, periods) == spans,
        stuck=tuple(sorted({int(flow["pc"][w]) for w in waiting})),
    )


def _phases(periods: npt.NDArray[np.void], places: Sequence[int]) -> Iterator[Phase]:
    for cta, number, begin, end in periods.tolist():
        named = number >= layout.BAR_BASE
        barrier, place = (number - layout.BAR_BASE, 0) if named else (-1, places[number])
        yield Phase(cta, barrier, place, begin / TICK, end / TICK)


def _cycles(device: Device, load: Load, written: float) -> dict[str, float]:
    """Return the latencies and rates of the model under a load."""
    mixed = device.load_read + device.load_mixed * min(1.0, 2 * written)
    l2 = device.lat_l2 + device.load_l2 * load.l2
    same = (
        "lsu", "path", "global_access", "shared_latency", "shared_way", "l1_latency", "l2_tail", "dram_tail",
        "l2_slack", "dram_slack", "store_queue", "access_queue", "bar_arrive", "bar_wake", "mbar_wake", "mbar_arrive",
        "mbar_wait", "bulk_issue", "bulk_first", "bulk_next", "bulk_store_latency", "branch", "repeat", "diverge",
        "predicate", "cta_start", "cta_gap", "atomic_latency", "cluster_latency",
    )  # fmt: skip
    return {name: getattr(device, name) for name in same} | {
        "l2_latency": l2,
        "dram_latency": device.lat_dram + mixed * load.dram / (1.15 - load.dram),
        "bulk_latency": device.bulk_latency + l2 - device.lat_l2,
        "tensor_queue": 256.0,
        "tensor_latency": device.wgmma_shared[1],
    }


def _rates(device: Device, active: int, merged: float) -> dict[str, float]:
    """Return the bytes per cycle of one multiprocessor, while `active` ones share the memory."""
    most = device.port * MOST_SHARE

    def share(total: float) -> float:
        return min(most, total / active)

    return {
        "port": device.port, "l2": share(device.l2 * merged), "dram": share(device.dram),
        "l2_write": share(device.l2_write), "dram_write": share(device.dram_write), "bulk_rate": device.bulk_rate,
    }  # fmt: skip
