"""Find phases that only a lagging lane can miss: one that executes a converged instruction later than the other lanes
do.

The rules of phases apply to each lane, since PTX lets the lanes of a warp execute an instruction at different times.
If only these rules are broken, the launch runs again with the lanes of each operation on a phase treated as one.  If
all rules hold in that run, each was broken only by such a lane, and the code is `lane-lag`.  Clocks decide nothing in a
run, so the second run takes the same steps.  Only at a join that lanes would pass without a waiting lane does it stop:
lanes treated as one are stuck there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wsemu.launch.running import ran
from wsemu.model.codes import CODES
from wsemu.model.data import replace

if TYPE_CHECKING:
    from wsemu.launch.running import Ran
    from wsemu.model.bound import Bound
    from wsemu.model.outcome import RawFinding, Tracer

RULES = {"phase-alias": 0, "phase-unobserved": 5, "uncovered-expectation": 6}
"""value of `rule` in a lane-lag for each code that depends on the order in time; 0: a rule of its own"""
APART = ("async-outlives-cta",)
"""errors that no phase decides"""


def separate_lags(bound: Bound, run: Ran) -> Ran:
    """Return a run whose findings distinguish lanes that lag from warps that do."""
    outcome, trace, initial = run
    lagging = [raw for raw in outcome.findings if raw.code in RULES]
    others = [raw for raw in outcome.findings if raw.code not in RULES]
    failed = outcome.status != "done" or any(_is_error(raw) and raw.code not in APART for raw in others)
    if not lagging or failed or bound.settings.lockstep or not {"phase", "lane-lag"} <= bound.settings.checkers:
        return run
    before = initial()
    if any(kept is None for kept in before):
        return run
    segments = [(np.array(data), writable) for data, (_, writable) in zip(before, bound.segments, strict=True)]
    again = ran(bound._replace(segments=segments), 1, bound.settings.budget, converged=True)[0]
    if again.status != outcome.status or again.executions != outcome.executions:
        return run
    left = {_cause(raw): raw for raw in again.findings if raw.code in RULES}
    lags = [_lag(raw) for raw in lagging if _cause(raw) not in left]
    if left and _are_late_alone([*left.values()], lags, trace):
        late, left = {raw.pc for raw in left.values()}, {}
        lags = [replace(raw, detail=raw.detail | {"unobserved": 1}) if raw.pc in late else raw for raw in lags]
    # the warp itself is late: report it instead of a lane that lags as well
    if any(_is_error(raw) for raw in left.values()):
        findings = [left.get(_cause(raw), raw) for raw in outcome.findings]
        return replace(outcome, findings=findings), trace, initial
    stays = [raw for raw in lagging if _cause(raw) in left]
    findings = sorted([*others, *lags, *stays], key=lambda raw: (raw.code, raw.pc, raw.other_pc))
    return replace(outcome, findings=findings), trace, initial


def _are_late_alone(left: list[RawFinding], lags: list[RawFinding], trace: Tracer) -> bool:
    """Return whether the only remaining arrivals are lagging ones, and every phase before them is observed.  Since the
    other rules hold, these arrivals precede the next completion in every schedule, even if the instruction's other
    lanes do not."""
    if any(raw.code != "phase-unobserved" for raw in left) or not {raw.pc for raw in left} <= {raw.pc for raw in lags}:
        return False
    events = trace(frozenset())
    arrived = {(e.place, e.generation - 1) for e in events.events if e.kind == "arrive_on" and e.generation > 0}
    seen = {(e.place, e.generation) for e in events.events if e.kind == "await"}
    return events.complete and arrived <= seen


def _is_error(raw: RawFinding) -> bool:
    return raw.code in CODES and CODES[raw.code].severity == "error"


def _cause(raw: RawFinding) -> tuple[str, int, int]:
    return raw.code, raw.pc, raw.other_pc


def _lag(raw: RawFinding) -> RawFinding:
    """Return the finding for a rule that holds if lanes are taken together."""
    detail = {name: raw.detail[name] for name in ("address", "phase")}
    detail |= {name: raw.detail[name] for name in ("other_cta",) if name in raw.detail}
    rule = RULES[raw.code] or raw.detail["rule"]
    return replace(raw, code="lane-lag", detail=detail | {"rule": rule, "other_lane": raw.detail.get("other_lane", -1)})
