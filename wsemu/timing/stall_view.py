"""Accumulated stalls of one warp, by the latencies of Fermi: the stall model of "Fast Implementation of DGEMM on Fermi
GPU" (SC11), section 4.3.

An instruction stalls until its sources are written (read after write, RAW) and until its results may be overwritten
(write after read, WAR).  The model has one warp and latencies alone: its cycles do not predict a time.
"""

from __future__ import annotations

import linecache
from collections import defaultdict
from typing import TYPE_CHECKING

from wsemu.model.data import NamedTuple
from wsemu.model.errors import UsageError
from wsemu.model.isa import OPERATIONS, access_shape
from wsemu.timing.traffic import IN_SHARED

if TYPE_CHECKING:
    from wsemu.timing.predict import Predicted

ISSUE = 6
"""cycles between two independent instructions of a warp (caption of table 2)"""
SHARED_LOAD = {4: 26, 8: 38, 16: 46}
"""latency of a load from shared memory by the bytes of a lane (table 2)"""
GLOBAL_LOAD, DOUBLE, INTEGER = 332, 24, 18
"""RAW latencies of table 3; the global load hits a cache"""
OVERWRITE = 46
"""WAR latency of accesses to memory (table 3); other instructions have none"""
MOST_LINES = 8


class Stalls(NamedTuple):
    """Stalls of the instructions of one source line."""

    file: str
    line: int
    executed: int
    """number of instructions that the warp executed"""
    raw: int
    """cycles of waiting for sources"""
    war: int
    """cycles of waiting until results may be overwritten"""


def accumulate_stalls(found: Predicted, warp: int) -> list[Stalls]:
    """Return the stalls of a warp, in the order of the source lines; raise UsageError for a warp that the CTA does not
    have."""
    stream = found.stream
    if not 0 <= warp < stream.warps:
        where = f"a CTA of `{stream.bound.program.name}`"
        raise UsageError(f"no warp {warp} in {where}: give a number below {stream.warps}")
    written: dict[int, int] = {}
    read: dict[int, int] = {}
    by_pc: defaultdict[int, list[int]] = defaultdict(lambda: [0, 0, 0])
    now = 0
    chosen = stream.warp == warp
    for pc, space in zip(stream.pc[chosen].tolist(), found.found.space[chosen].tolist(), strict=True):
        one = found.code.instructions[pc]
        ready = max((written.get(register, 0) for register in one.sources), default=0)
        if one.kind == "none":
            written.update(dict.fromkeys(one.results, ready))
            continue
        free = max((read.get(register, 0) for register in one.results), default=0)
        stall = max(ready - now, free - now, 0)
        counts = by_pc[pc]
        counts[0] += 1
        counts[1 if ready >= free else 2] += stall
        begin = now + stall
        now = begin + ISSUE
        written.update(dict.fromkeys(one.results, begin + _latency(one.name, shared=space == IN_SHARED)))
        if OPERATIONS[one.name].kind in ("load", "store", "atomic"):
            read.update(dict.fromkeys(one.sources, begin + OVERWRITE))
    return _sum_lines(found, by_pc)


def _latency(name: str, *, shared: bool) -> int:
    """Return the RAW latency of an instruction in cycles."""
    if OPERATIONS[name].kind in ("load", "atomic"):
        registers = max(4, min(16, access_shape(name)[1]))
        return SHARED_LOAD.get(registers, max(SHARED_LOAD.values())) if shared else GLOBAL_LOAD
    return DOUBLE if name.endswith("f64") else INTEGER


def _sum_lines(found: Predicted, by_pc: dict[int, list[int]]) -> list[Stalls]:
    """Return the sums of the instructions of each source line."""
    program = found.stream.bound.program
    lines: defaultdict[tuple[str, int], list[int]] = defaultdict(lambda: [0, 0, 0])
    for pc, counts in by_pc.items():
        span = program.spans[program.span_of[pc]] if pc < len(program.span_of) else None
        sums = lines[(span.file, span.line) if span is not None else ("", 0)]
        for n, count in enumerate(counts):
            sums[n] += count
    return [Stalls(*line, *counts) for line, counts in sorted(lines.items())]


def format_stalls(found: Predicted, warp: int) -> list[str]:
    """Return the lines with most stalls as text."""
    stalls = accumulate_stalls(found, warp)
    all_ = Stalls("", 0, *(sum(getattr(one, name) for one in stalls) for name in ("executed", "raw", "war")))
    made = [
        f"  stalls of warp {warp} by Fermi's latencies, in cycles of this warp alone; no time of a GPU:",
        f"    {'RAW':>9} {'WAR':>9} {'executed':>9}",
        f"    {all_.raw:9,} {all_.war:9,} {all_.executed:9,}  all",
    ]
    for one in sorted(stalls, key=lambda one: -one.raw - one.war)[:MOST_LINES]:
        text = linecache.getline(one.file, one.line).strip()[:60]
        name = one.file.replace("\\", "/").rpartition("/")[2]
        made.append(f"    {one.raw:9,} {one.war:9,} {one.executed:9,}  {name}:{one.line}  {text}".rstrip())
    return made
