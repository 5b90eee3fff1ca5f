"""Describe a run of the model: bounds, waits by role and by line, accuracy."""

from __future__ import annotations

import linecache
import zlib
from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from wsemu.model.arch import ARCHS
from wsemu.model.data import NamedTuple
from wsemu.model.isa import LANES
from wsemu.model.wait_reasons import AT_BARRIERS, FOR_OTHERS, REASONS
from wsemu.model.work import is_copy
from wsemu.timing import constants
from wsemu.timing.prediction import Occupancy, Prediction, Waits
from wsemu.timing.resolution import RESOLUTION, RINGS, UNKNOWN, classify_launch
from wsemu.timing.stream import EVENT, PC, PLACE
from wsemu.timing.stream import KIND as EVENT_KIND
from wsemu.timing.traffic import IN_SHARED

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from wsemu.timing.constants import Device
    from wsemu.timing.predict import Predicted

VERSION = 6
"""version of the model: it changes with each rule that changes predicted times"""
BUSY = 0.8
"""utilization of a resource from which on it bounds a launch"""
FEW = 0.01
"""reasons with a smaller share are omitted"""
MOST_LINES = 8
MAX_NAMED = 4
"""maximum number of barriers that are named"""
SHORT_LAUNCH = 5e-6
"""launches up to this many seconds take 10 to 25% longer than predicted"""
SELECTED, NOT_SELECTED = REASONS.index("selected"), REASONS.index("not_selected")
NOT_MODELED = (
    "what ptxas changes: unrolling, predication, hoisting, uniform registers, spills",
    "placement of addresses in L2 and DRAM; reuse in L2 of a part of an array",
    "clocks under power limits, TLB misses, the instruction cache",
    "contention of atomics, and waits that spin on memory",
)
OF_CLUSTERS = ("CTAs of a cluster that do different work, and contention between multiprocessors of a cluster",)


class Kind(NamedTuple):
    """A kind of launch, with the accuracy of its predictions."""

    name: str
    within: float
    """maximum error of 9 out of 10 launches"""


RING = Kind("rings and pipelines", 0.15)
KERNEL = Kind("whole kernels", 0.35)
UNMEASURED = Kind("GPUs that were not measured", 1.0)
WITHOUT_PTX = Kind("Python kernels without Numba-CUDA's PTX", 1.5)


def describe(found: Predicted, device: Device, kind: Kind | None = None, notes: Sequence[str] = ()) -> Prediction:
    """Return a prediction in words and numbers."""
    stream = found.stream
    configuration = stream.bound.configuration
    class_ = classify_launch(found)
    rows = kind or (RING if class_ == RINGS else KERNEL)
    chosen = rows if device.measured else UNMEASURED
    resolution = RESOLUTION[class_ if chosen in (RING, KERNEL) else UNKNOWN]
    time = found.seconds * 1e6
    low, high = time / (1 + chosen.within), time * (1 + chosen.within)
    use = _use(found, device)
    roles = _roles(found)
    warps = -(-configuration.threads // LANES)
    return Prediction.build(
        kernel=stream.bound.program.name,
        grid=configuration.grid,
        block=configuration.block,
        device=device.name,
        measured_constants=device.measured,
        source=device.source,
        microseconds=time,
        low=low,
        high=high * (1.25 if found.seconds < SHORT_LAUNCH else 1.0),
        resolution=resolution,
        cycles=found.cycles,
        bound_by=_find_bound(found, use),
        use=use,
        occupancy=Occupancy.build(
            ctas=found.resident,
            warps=found.resident * warps,
            most_warps=ARCHS[device.arch].multiprocessor.threads // LANES,
            limited_by=found.limited_by,
            waves=found.waves,
            shared_bytes=found.shared_bytes,
            registers=found.registers,
        ),
        reasons=_parts(found.run.stalls.sum(axis=0)),
        roles=roles,
        lines=_lines(found),
        dram_bytes=_dram_bytes(found),
        hidden=_find_hidden(found, roles),
        accuracy=_accuracy(device, chosen),
        not_modeled=[*NOT_MODELED, *OF_CLUSTERS[: stream.member is not None]],
        notes=[*notes, *_notes(found)],
        version=f"{VERSION}-{zlib.crc32(repr(device).encode()):08x}",
    )


def _accuracy(device: Device, kind: Kind) -> str:
    if not device.measured:
        return f"predicted for a {device.name} from published constants: unmeasured"
    if kind is WITHOUT_PTX:
        return f"rough: predicted for an {device.name} from wsemu's code, without PTX of Numba-CUDA"
    return f"predicted for an {device.name}: {kind.name} are within {kind.within:.0%} in 9 of 10 launches"


def _notes(found: Predicted) -> list[str]:
    notes = []
    if found.registers == 0:
        notes.append("registers are unknown (`registers=`): occupancy is that of threads and shared memory")
    if not found.stream.is_whole:
        part = len(found.stream.pc) / found.stream.executed
        notes.append(f"made from the first {part:.0%} of the instructions of a CTA")
    elif not found.run.is_whole:
        notes.append("warps of the model wait for each other: the time is that up to there")
    if found.seconds < SHORT_LAUNCH:
        notes.append("launches below 5 us take 10 to 25% longer than predicted")
    return notes


# -- bounds -----------------------------------------------------------------------------------------------------------


def _use(found: Predicted, device: Device) -> dict[str, float]:
    """Return the utilization of each resource while the multiprocessor works."""
    run, stream = found.run, found.stream
    cycles, ctas = run.cycles, found.ran
    counts = np.bincount(stream.pc, minlength=len(found.code.instructions)) * ctas
    use = {"DRAM": run.load.dram, "L2": run.load.l2, "issue": run.issued / 4 / cycles}
    use["shared memory"] = float(found.found.passes[found.found.space == IN_SHARED].sum()) * ctas * device.lsu / cycles
    tensor = sum(one.product[0] * counts[pc] for pc, one in enumerate(found.code.instructions))
    use["tensor cores"] = float(tensor) / 4 / cycles
    for number, name in enumerate(constants.PIPES):
        hold = sum(one.hold * counts[pc] for pc, one in enumerate(found.code.instructions) if one.pipe == number)
        use[f"{name} pipe"] = float(hold) / 4 / cycles
    return {name: round(min(1.0, part), 3) for name, part in use.items() if part >= FEW / 2}


def _find_bound(found: Predicted, use: dict[str, float]) -> str:
    """Return what bounds the launch."""
    name = max(use, key=lambda one: use[one], default="")
    if name and use[name] >= BUSY:
        return name
    waits = found.run.stalls.sum(axis=0)
    waits[[SELECTED, NOT_SELECTED]] = 0
    reason = REASONS[int(np.argmax(waits))]
    which = _longest_wait_barrier(found, reason)
    return f"latency: {reason}{which}"


def _longest_wait_barrier(found: Predicted, reason: str) -> str:
    """Return the barriers of the wait that takes longest: their numbers, or the names of barrier objects."""
    if reason not in AT_BARRIERS:
        return ""
    pc = int(np.argmax(found.run.by_pc[:, REASONS.index(reason)]))
    events = found.stream.events
    wanted = EVENT["sync"] if reason == "barrier" else EVENT["await"]
    places = events[(events[:, PC] == pc) & (events[:, EVENT_KIND] == wanted), PLACE]
    if reason == "barrier":
        numbers = sorted({int(place) & 0xFF for place in places})
        return f" {', '.join(map(str, numbers))}" if 0 < len(numbers) <= MAX_NAMED else "s"
    offsets = sorted({found.stream.shared_offset(int(place)) for place in places})
    names = found.stream.barrier_names() if len(offsets) <= MAX_NAMED else {}
    return f" {', '.join(names[offset] for offset in offsets)}" if names.keys() >= {*offsets} != set() else ""


# -- waits ------------------------------------------------------------------------------------------------------------


def _parts(waits: npt.NDArray[np.float64]) -> dict[str, float]:
    """Return reason -> its share, the largest first."""
    total = max(1.0, float(waits.sum()))
    order = np.argsort(-waits, kind="stable")
    return {REASONS[n]: round(float(waits[n]) / total, 3) for n in order if waits[n] >= FEW * total}


def _roles(found: Predicted) -> list[Waits]:
    """Return the waits by role; warps that executed the same instructions have the same role."""
    stream, stalls = found.stream, found.run.stalls
    all_ = max(1.0, float(stalls.sum()))
    executed: defaultdict[frozenset[int], list[int]] = defaultdict(list)
    for warp in range(stream.warps):
        executed[frozenset(np.unique(stream.pc[stream.warp == warp]).tolist())].append(warp)
    roles: list[tuple[set[int], list[int]]] = []
    for pcs, warps in executed.items():
        for known, members in roles:
            if len(known & pcs) >= 0.7 * len(known | pcs):
                members += warps
                break
        else:
            roles.append((set(pcs), list(warps)))
    made = []
    for _, warps in roles:
        rows = [cta * stream.warps + warp for cta in range(found.resident) for warp in warps]
        waits = stalls[rows].sum(axis=0)
        made.append(Waits.build(reasons=_parts(waits), share=round(float(waits.sum()) / all_, 3), warps=sorted(warps)))
    return sorted(made, key=lambda role: role.warps)


def _lines(found: Predicted) -> list[Waits]:
    """Return the source lines at which most time is spent, without time in which other warps issue."""
    program = found.stream.bound.program
    by_line: defaultdict[tuple[str, int], npt.NDArray[np.float64]] = defaultdict(lambda: np.zeros(len(REASONS)))
    for pc in np.flatnonzero(found.run.by_pc.sum(axis=1)).tolist():
        span = program.spans[program.span_of[pc]] if pc < len(program.span_of) else None
        if span is not None:
            by_line[span.file, span.line] += found.run.by_pc[pc]
    total = max(1.0, float(found.run.by_pc.sum()))
    most = sorted(by_line.items(), key=lambda item: -float(item[1].sum()))[:MOST_LINES]
    return [
        Waits.build(
            reasons=_parts(waits), share=round(float(waits.sum()) / total, 3), file=file, line=line,
            text=linecache.getline(file, line).strip(),
        )
        for (file, line), waits in most
        if waits.sum() >= FEW * total
    ]  # fmt: skip


def _dram_bytes(found: Predicted) -> float:
    ctas = found.stream.bound.configuration.ctas
    scale = found.stream.executed / max(1, len(found.stream.pc))
    return float(found.served.of_dram.sum()) * 32 * scale * ctas


def _find_hidden(found: Predicted, roles: Sequence[Waits]) -> float | None:
    """Return the share of time in which warps without copies of their own do not wait at barriers; None if no warp has
    copies."""
    stream = found.stream
    copies = {pc for pc, one in enumerate(found.code.instructions) if is_copy(one.name)}
    loads = set(np.unique(stream.pc[found.served.beyond_l1 > 0]).tolist()) & {
        pc for pc, one in enumerate(found.code.instructions) if one.kind == "load"
    }
    copying = set(np.unique(stream.warp[np.isin(stream.pc, [*(copies | loads)])]).tolist())
    rest = [role for role in roles if not copying & {*role.warps}]
    if not rest or not copying:
        return None
    waits = sum(role.share * sum(role.reasons.get(reason, 0.0) for reason in FOR_OTHERS) for role in rest)
    return round(1 - waits / max(FEW, sum(role.share for role in rest)), 3)
