"""What the threads of a launch tell the host: lines that they print, an exception that one of them raises."""

from __future__ import annotations

import os
import struct
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.launch import hooks
from wsemu.model.isa import GRID_TRIGGER, GRID_WAIT, OPCODE, PRINTED, RAISES, STOPS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wsemu.model.bound import Bound
    from wsemu.model.outcome import Event, Outcome, Trace, Tracer
    from wsemu.model.program import Program

_ALL = (1 << 64) - 1


def show(program: Program, trace_of: Tracer) -> None:
    """Write what the kernel prints: CTA after CTA, in the order of the run, the lanes of a warp one after the other."""
    others = np.isin(program.code[:, 7], (STOPS, GRID_WAIT, GRID_TRIGGER))
    shown = np.flatnonzero((program.code[:, 0] == OPCODE["show"]) & ~others).tolist()
    if not shown:
        return
    trace = trace_of(frozenset(shown))
    wanted = {pc: program.prints[int(program.code[pc, 6]) >> PRINTED] for pc in shown}
    write = hooks.printing[-1] if hooks.printing else sys.stdout.write
    for line in _lines(trace, wanted):
        write(line)
    if not trace.complete:
        print("wsemu: more was printed than a trace holds: the rest is left out", file=sys.stderr)


def _lines(trace: Trace, prints: dict[int, tuple[str, ...]]) -> Iterator[str]:
    open_: dict[tuple[int, int], list[Event]] = {}
    for event in trace.events:
        parts = prints.get(event.pc) if event.kind == "access" else None
        if parts is None or event.addresses < 0:
            continue
        events = open_.setdefault((event.cta, event.warp), [])
        events.append(event)
        if len(events) < sum(part in _FORMATS for part in parts):
            continue
        columns = [trace.lane_addresses(one) for one in events]
        for lane in columns[0]:
            yield _line(parts, [column[lane] & _ALL for column in columns])
        events.clear()


def _line(parts: tuple[str, ...], values: list[int]) -> str:
    left = iter(values)
    return "".join(_FORMATS[part](next(left)) if part in _FORMATS else part.replace("%%", "%") for part in parts)


_FORMATS: dict[str, Any] = {
    "%i": lambda bits: str(bits - (1 << 64) if bits >> 63 else bits),
    "%u": str,
    "%f": lambda bits: f"{struct.unpack('<d', struct.pack('<Q', bits))[0]:f}",
    "%b": lambda bits: str(bool(bits)),
}
"""as `printf` writes them"""


def exception(bound: Bound, outcome: Outcome) -> BaseException | None:
    """What the host raises for the first thread that ended by an exception of a kernel with `debug=True`: of the
    type and with the arguments of the source, after the place and the thread, as Numba-CUDA words it."""
    program = bound.program
    raised = [
        raw for raw in outcome.findings
        if raw.code == "raised-exception" and int(program.code[raw.pc, 7]) >> RAISES
    ]  # fmt: skip
    if not raised:
        return None
    first = min(raised, key=lambda raw: (raw.cta, raw.warp, raw.lanes & -raw.lanes))
    made = program.raises[(int(program.code[first.pc, 7]) >> RAISES) - 1]
    span = program.spans[program.span_of[first.pc]]
    lane = (first.lanes & -first.lanes).bit_length() - 1
    thread = _coordinates(first.warp * 32 + lane, bound.configuration.block)
    cta = _coordinates(first.cta, bound.configuration.grid)
    place = f"In function {made.function!r}, file {os.path.abspath(span.file)}, line {span.line}, "
    text = f"{place}tid={thread[::-1]} ctaid={cta[::-1]}"
    if made.arguments:
        return made.type(f"{text}: {made.arguments[0]}", *made.arguments[1:])
    return made.type(text)


def _coordinates(index: int, shape: tuple[int, int, int]) -> list[int]:
    return [index % shape[0], index // shape[0] % shape[1], index // (shape[0] * shape[1])]
