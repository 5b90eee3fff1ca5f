"""The predicted waits of warps as Chrome trace JSON, in cycles; https://ui.perfetto.dev opens it.

A CTA of the multiprocessor is a process, and a warp is a thread.  A slice is a wait, or a sequence of instructions that
issue; it shows the source line.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from wsemu.model.wait_reasons import REASONS
from wsemu.report.diagnostic import display_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wsemu.timing.predict import Predicted
    from wsemu.timing.prediction import Prediction

AXIS = "1 us is 1 cycle of the model: predicted, not measured"
CUT = "The list of waits is full: later ones are left out."
TICK = 1024
_Event = dict[str, Any]


def predicted_trace(found: Predicted, prediction: Prediction) -> str:
    """Return the predicted waits as one JSON document."""
    stream = found.stream
    other: dict[str, object] = {
        "kernel": prediction.kernel, "device": prediction.device, "axis": AXIS, "accuracy": prediction.accuracy,
        "microseconds": round(prediction.microseconds, 3), "bound_by": prediction.bound_by,
    }  # fmt: skip
    if found.run.is_cut:
        other["note"] = CUT
    events = [*_tracks(found, stream.warps), *wait_slices(found, stream.warps)]
    return (
        json.dumps({"displayTimeUnit": "ms", "otherData": other, "traceEvents": events}, separators=(",", ":")) + "\n"
    )


def _tracks(found: Predicted, warps: int) -> Iterator[_Event]:
    for cta in range(found.resident):
        name = f"CTA {cta + 1} of {found.resident} on a multiprocessor ({AXIS})"
        yield {"ph": "M", "name": "process_name", "pid": cta, "tid": 0, "args": {"name": name}}
        for warp in range(warps):
            yield {"ph": "M", "name": "thread_name", "pid": cta, "tid": warp, "args": {"name": f"warp {warp}"}}


def wait_slices(found: Predicted, warps: int) -> Iterator[_Event]:
    """Yield the waits, and the issues between two of them as one slice."""
    program = found.stream.bound.program
    open_: dict[int, _Event] = {}
    for warp, pc, reason, begin, end in found.run.spans.tolist() if found.run.spans is not None else ():
        span = program.spans[program.span_of[pc]] if pc < len(program.span_of) else None
        name = "issue" if REASONS[reason] in ("selected", "not_selected", "wait") else REASONS[reason]
        last = open_.get(warp)
        if last is not None and last["name"] == name == "issue":
            last["dur"] = max(last["dur"], end / TICK - last["ts"])
            continue
        if last is not None:
            yield last
        place = {} if span is None else {"line": f"{display_path(span.file)}:{span.line}"}
        open_[warp] = {
            "ph": "X", "name": name, "cat": "predicted", "pid": warp // warps, "tid": warp % warps, "ts": begin / TICK,
            "dur": (end - begin) / TICK, "args": place,
        }  # fmt: skip
    yield from open_.values()
