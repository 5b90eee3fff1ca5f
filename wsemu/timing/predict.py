"""Predict the time of a launch: stream, code, traffic, model of a multiprocessor, and extrapolation to the whole
grid."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wsemu.model.data import NamedTuple
from wsemu.model.isa import NAMES
from wsemu.model.residency import ctas_per_multiprocessor
from wsemu.model.work import find_work
from wsemu.timing import simulate
from wsemu.timing.code import Code
from wsemu.timing.simulate import Load
from wsemu.timing.stream import AMOUNT, EVENT, KIND, ROOM, first_cta, follow
from wsemu.timing.tables import tabulate
from wsemu.timing.traffic import IN_SHARED, NOT, kept_in_l2, measure, serve

if TYPE_CHECKING:
    from wsemu.model.bound import Bound
    from wsemu.timing.constants import Device
    from wsemu.timing.simulate import Run
    from wsemu.timing.stream import Stream
    from wsemu.timing.tables import Tables
    from wsemu.timing.traffic import Served, Traffic

TURNS = 7
"""maximum number of runs of the model until the assumed memory load matches the load that the run causes"""
MUCH = 1_500_000
"""items of all CTAs of a multiprocessor above which only some waves are run"""
WAVES = 3
SHARED_PART = 0.7
"""ratio of array bytes to copied bytes below which CTAs count as sharing tiles"""


class Predicted(NamedTuple):
    """A prediction and its intermediate results."""

    stream: Stream
    code: Code
    found: Traffic
    served: Served
    tables: Tables
    run: Run
    ran: int
    """number of CTAs in the model's run"""
    seconds: float
    cycles: float
    clock: float
    resident: int
    """number of co-resident CTAs of a multiprocessor"""
    limited_by: str
    waves: float
    ctas: int
    """number of CTAs on the busiest multiprocessor"""
    active: int
    shared_bytes: int
    registers: int
    tensor: bool


def predict(
    bound: Bound,
    device: Device,
    *,
    registers: int = 0,
    cta: int | None = None,
    room: int = ROOM,
    resident: int | None = None,
    spans: int = 0,
    in_place: bool = False,
) -> Predicted:
    """Return the predicted time of a launch.  `registers` is the number per thread, 0 if unknown.  `resident` is the
    number of co-resident CTAs, if it is not the maximum.  `spans` is the number of listed waits.  With `in_place`, the
    CTA writes to the arrays themselves, not to copies."""
    program, configuration = bound.program, bound.configuration
    grid = configuration.ctas
    stream = follow(bound, first_cta(bound) if cta is None else cta, room, in_place=in_place)
    code = _code(bound, stream, device)
    found = measure(stream, device)
    of_shared = _only_shared(stream, found)
    if of_shared:
        code = _code(bound, stream, device, of_shared)
    registers = registers or program.registers
    shared = -(-program.shared_bytes // 16) * 16 + configuration.dynamic_shared
    fits, limited_by = ctas_per_multiprocessor(device.arch, configuration.threads, shared, registers)
    ctas = -(-grid // device.multiprocessors)
    here = max(1, min(resident or fits, ctas))
    active = min(device.multiprocessors, grid)
    kept = kept_in_l2(found, device)
    reserved = 1024
    l1 = max(8192, (device.l1 - (shared + reserved) * here) // here)
    served = serve(stream, found, l1, kept)
    made = tabulate(stream, code, found, served)
    tensor = any(find_work(NAMES[row[0]]).kind == "product" for row in code.rows)
    total = max(1.0, found.read_bytes + found.written_bytes)
    written = found.written_bytes / total
    merged = device.merged if _reuses(stream) else 1.0
    runs = ctas if stream.is_whole else here
    if stream.is_whole and runs > WAVES * here and made.executed * runs > MUCH:
        runs = WAVES * here + runs % here

    def simulate_load(ctas_: int, load: Load, spans_: int = 0) -> Run:
        return simulate.run(
            made, device, resident=here, ctas=ctas_, active=active, load=load, written=written,
            instructions=len(code.rows), merged=merged, spans=spans_,
        )  # fmt: skip

    load = Load()
    for _ in range(TURNS):
        run = simulate_load(runs, load, spans)
        if run.load.is_near(load):
            break
        load = load.between(run.load)
    cycles = run.cycles
    if stream.is_whole and runs < ctas:
        one = simulate_load(here, load).cycles
        cycles += (ctas - runs) / here * (run.cycles - one) / max(1, (runs - here) / here)
    elif not stream.is_whole:
        cycles = _extend(run, stream, made, here) * ctas / here
    clock = device.clock * (device.tensor_clock if tensor else 1.0)
    seconds = cycles / clock + device.launch + grid * device.cta_launch
    return Predicted(
        stream, code, found, served, made, run, runs, seconds, cycles, clock, here,
        limited_by if here == fits else "the grid", ctas / here, ctas, active, shared, registers, tensor,
    )  # fmt: skip


def _code(bound: Bound, stream: Stream, device: Device, of_shared: frozenset[int] = frozenset()) -> Code:
    """Return the program as machine-like code, computed once for each device."""
    kept = bound.program.derived.setdefault("machine_like", {})
    key = device, of_shared
    if key not in kept:
        kept[key] = Code(bound.program, device, of_shared)
    made: Code = kept[key]
    return made


def _only_shared(stream: Stream, found: Traffic) -> frozenset[int]:
    """Return the instructions whose accesses were all to shared memory."""
    shared = set(np.unique(stream.pc[found.space == IN_SHARED]).tolist())
    others = set(np.unique(stream.pc[(found.space != IN_SHARED) & (found.space != NOT)]).tolist())
    return frozenset(shared - others)


def _reuses(stream: Stream) -> bool:
    """Return whether bulk and tensor copies of several CTAs read the same data: they read more bytes than all arrays
    have."""
    credited = stream.events[stream.events[:, KIND] == EVENT["credit"], AMOUNT].sum()
    copied = float(credited) * stream.executed / max(1, len(stream.pc)) * stream.bound.configuration.ctas
    return bool(copied * SHARED_PART > sum(data.nbytes for data, _ in stream.bound.segments))


def _extend(run: Run, stream: Stream, made: Tables, resident: int) -> float:
    """Return the cycles of whole CTAs, extrapolated by the slope in the middle of their streams, which are only the
    beginning."""
    samples = run.samples
    if len(samples) < 4:
        return run.cycles * stream.executed / max(1, len(stream.pc))
    low = int(len(samples) * 0.35)
    high = min(max(int(len(samples) * 0.85), low + 1), len(samples) - 1)
    rate = (samples[high, 0] - samples[low, 0]) / max(1.0, samples[high, 1] - samples[low, 1])
    whole = stream.executed / max(1, len(stream.pc)) * made.executed * resident
    return float(samples[low, 0] + (whole - samples[low, 1]) * rate)
