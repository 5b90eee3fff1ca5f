"""Output of a launch's threads to the host: printed lines, and an exception that a thread raises."""

from __future__ import annotations

import os
import struct
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.launch import hooks
from wsemu.launch.c_format import format_values
from wsemu.model.data import NamedTuple
from wsemu.model.isa import (
    C_ASSERTION,
    C_FORMAT,
    FIRST_ARRAY,
    GRID_TRIGGER,
    GRID_WAIT,
    OFFSET_MASK,
    OPCODE,
    PRINTED,
    RAISES,
    SEGMENT_SHIFT,
    STOPS,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wsemu.model.bound import Bound
    from wsemu.model.outcome import Event, Outcome, Trace, Tracer

_ALL = (1 << 64) - 1
MAX_TEXT = 1 << 16
"""bytes of a string that `%s` prints"""


def show(bound: Bound, trace_of: Tracer) -> None:
    """Write the kernel's output: CTA by CTA in the order of the run, and lane by lane in each warp."""
    program = bound.program
    others = np.isin(program.code[:, 7], (STOPS, GRID_WAIT, GRID_TRIGGER))
    shown = np.flatnonzero((program.code[:, 0] == OPCODE["show"]) & ~others).tolist()
    if not shown:
        return
    trace = trace_of(frozenset(shown))
    wanted = {pc: program.prints[int(program.code[pc, 6]) >> PRINTED] for pc in shown}
    write = hooks.printing[-1] if hooks.printing else sys.stdout.write
    complain = hooks.asserting[-1] if hooks.asserting else sys.stderr.write
    unknown = False
    for printed in _printed_values(trace, wanted):
        if printed.parts[0] == C_ASSERTION:
            complain(_assertion_text(bound, printed))
        elif printed.parts[0] == f"{C_FORMAT}?":
            unknown = True
        elif any(part.startswith(C_FORMAT) for part in printed.parts):
            write(format_values(printed.parts, printed.values, lambda address: _read_text(bound, address)))
        else:
            write(_line(printed.parts, printed.values))
    if unknown:
        print(
            f"wsemu: a `printf` of `{program.name}` computes its format: it prints nothing",
            file=sys.stderr,
        )
    if not trace.complete:
        print("wsemu: more was printed than a trace holds: the rest is left out", file=sys.stderr)


class Printed(NamedTuple):
    """The text and values that one thread prints at once."""

    parts: tuple[str, ...]
    values: list[int]
    cta: int
    thread: int
    """linear index in the CTA"""


def _printed_values(trace: Trace, prints: dict[int, tuple[str, ...]]) -> Iterator[Printed]:
    open_: dict[tuple[int, int], list[Event]] = {}
    for event in trace.events:
        parts = prints.get(event.pc) if event.kind == "access" else None
        if parts is None or event.addresses < 0:
            continue
        events = open_.setdefault((event.cta, event.warp), [])
        events.append(event)
        if len(events) < _count_values(parts):
            continue
        columns = [trace.lane_addresses(one) for one in events]
        for lane in columns[0]:
            yield Printed(parts, [column[lane] & _ALL for column in columns], event.cta, event.warp * 32 + lane)
        events.clear()


def _count_values(parts: tuple[str, ...]) -> int:
    if parts[0] == C_ASSERTION:
        return 1
    return sum(1 + part.count("*") if part.startswith(C_FORMAT) else part in _FORMATS for part in parts)


def _assertion_text(bound: Bound, printed: Printed) -> str:
    """Return the line of a thread whose assertion fails, as CUDA writes it."""
    _, file, function, condition = printed.parts
    shape = bound.configuration
    cta, thread = (_coordinates(n, extent) for n, extent in ((printed.cta, shape.grid), (printed.thread, shape.block)))
    block, lane = (",".join(map(str, place)) for place in (cta, thread))
    where = f"{file}:{printed.values[0]}: {function}: block: [{block}], thread: [{lane}]"
    return f"{where} Assertion `{condition}` failed.\n"


def _read_text(bound: Bound, address: int) -> str:
    """Return the string at an address of global memory, with its contents after the launch."""
    number, offset = (address >> SEGMENT_SHIFT) - FIRST_ARRAY, address & OFFSET_MASK
    if not address:
        return "(null)"
    if not 0 <= number < len(bound.segments):
        return "?"
    data: bytes = bound.segments[number][0].view(np.uint8)[offset : offset + MAX_TEXT].tobytes()
    return data.split(b"\0", 1)[0].decode(errors="replace")


def _line(parts: tuple[str, ...], values: list[int]) -> str:
    left = iter(values)
    return "".join(_FORMATS[part](next(left)) if part in _FORMATS else part.replace("%%", "%") for part in parts)


_FORMATS: dict[str, Any] = {
    "%i": lambda bits: str(bits - (1 << 64) if bits >> 63 else bits),
    "%u": str,
    "%f": lambda bits: f"{struct.unpack('<d', struct.pack('<Q', bits))[0]:f}",
    "%b": lambda bits: str(bool(bits)),
}
"""formats, as `printf` writes them"""


def exception(bound: Bound, outcome: Outcome) -> BaseException | None:
    """Return the exception that the host raises for the first thread that ended by one, in a kernel with `debug=True`.

    It has the type and arguments of the source, after the location and the thread, as Numba-CUDA words it.
    """
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
