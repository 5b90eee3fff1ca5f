"""`failed-assertion`: a thread fails an assertion of the kernel, or executes `trap`.

Detects: a C++ `assert` (`__assertfail`), a PTX `trap`, a Python `assert`: in the initial run, and, if atomics influence
the control flow, in every explored interleaving.  In these interleavings it also detects an exception that a Python
kernel raises.
Does not detect: an assertion that only other arguments violate.  With `debug=True` the host raises the exception, as
Numba-CUDA does, without a finding.  If a clock or a loop that counts its iterations leads to the assertion, the launch
is `incomplete`: a watchdog that fires here may not fire on a GPU.
Reference: CUDA C++ Programming Guide, "Assertion"; PTX ISA, "trap".  The engines record the failure when the thread
ends: `note_end` in `machine/scheduler.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.evidence.places import lanes_text
from wsemu.evidence.readings import culprit
from wsemu.model.finding import Finding
from wsemu.model.isa import ABORTS, ASSERTS, RAISES
from wsemu.model.outcome import Detail
from wsemu.model.remedy import Cures

if TYPE_CHECKING:
    from wsemu.evidence.places import Places
    from wsemu.model.outcome import RawFinding

CODES = ("failed-assertion",)
CURES = {
    "failed-assertion": Cures(170),
}
DETAIL = {"failed-assertion": Detail({})}


def explain(raw: RawFinding, places: Places) -> Finding:
    """Return the finding of an assertion that lanes of a warp fail."""
    what, did, note = _WORDS[_kind(raw, places)]
    who = places.who(raw.cta, raw.warp)
    label = f"{did} by {who}, {lanes_text(raw.lanes)}"
    return Finding(
        code=raw.code,
        message=f"{who} {what}",
        sites=[places.site(raw.pc, label, cta=raw.cta, warp=raw.warp), *places.callers(raw.pc)],
        notes=[note],
        count=raw.count,
        steps=[culprit(raw, places)],
    )


def _kind(raw: RawFinding, places: Places) -> str:
    """Return the key in `_WORDS` for an exit or trap."""
    if places.operation(raw.pc) == "trap":
        return "trap"
    ends = int(places.program.code[raw.pc, 7])
    number = ends >> RAISES  # with `debug`
    if number and places.program.raises[number - 1].type is AssertionError:
        return "debug"
    return {ABORTS: "abort", ASSERTS: "assert"}.get(ends, "raise")


_ENDS_LAUNCH = "on a GPU the launch ends with an error here"
_ENDS_THREAD = "the thread ends here, as in Numba's code without `debug`, and the launch continues"
_WORDS = {
    "trap": ("executes `trap`", "executed", _ENDS_LAUNCH),
    "abort": ("fails an assertion", "failed", _ENDS_LAUNCH),
    "assert": ("fails an assertion", "failed", _ENDS_THREAD),
    "debug": (
        "fails an assertion",
        "failed",
        "the thread ends here; with `debug=True` the host then raises the exception",
    ),
    "raise": ("raises an exception", "raised", _ENDS_THREAD),
}
"""message, label and note by what a thread does"""
