"""Sums of the counters of a launch's machines."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from wsemu.machine.vm import Machine
from wsemu.model.isa import SEGMENT_SHIFT, SHARED
from wsemu.model.outcome import AccessCount, Outcome, Pattern, RawFinding
from wsemu.model.program import Program

if TYPE_CHECKING:
    import numpy.typing as npt


def merge_outcomes(program: Program, machines: list[Machine], outcomes: list[Outcome], budget: int) -> Outcome:
    """Return one outcome, as if the CTAs had run in order: whatever follows a stop is left out.

    `budget` is the number of warp instructions that all CTAs together may execute.
    """
    stopped = next((k for k, o in enumerate(outcomes) if o.status != "done"), len(outcomes) - 1)
    machines, outcomes = machines[: stopped + 1], outcomes[: stopped + 1]
    result = outcomes[-1]
    result.allocations = max(o.allocations[0] for o in outcomes), max(o.allocations[1] for o in outcomes)
    if len(outcomes) > 1:
        known: dict[tuple[str, int, int], RawFinding] = {}
        for finding in (f for o in outcomes for f in o.findings):
            first = known.setdefault((finding.code, finding.pc, finding.other_pc), finding)
            if first is not finding:
                first.count += finding.count
        result.findings = list(known.values())
    _count(program, machines, result)
    if result.warp_instructions > budget and result.status == "done":
        result.status = "budget"
    return result


def _count(program: Program, machines: list[Machine], result: Outcome) -> None:
    """Compute the executions of each instruction from the counts of arrivals at the starts of stretches."""
    n = len(program.code)
    count, lanes = [0] * (n + 1), [0] * (n + 1)
    columns_of = [_sum([m.flow[name] for m in machines]).tolist() for name in ("count", "lanes")]
    for pc, (came, lanes_came, length) in enumerate(zip(*columns_of, machines[0].flow["length"].tolist(), strict=True)):
        if came:
            count[pc] += came
            lanes[pc] += lanes_came
            count[pc + length] -= came
            lanes[pc + length] -= lanes_came
    accesses = np.stack([_sum([m.accesses[name] for m in machines]) for name in COUNTS], axis=1)
    if result.status != "done":
        for pc, mask in machines[-1].unfinished_groups(result.status):
            end = pc + int(machines[-1].flow["length"][pc])
            for total, n_ in ((count, 1), (lanes, mask.bit_count())):
                total[pc] -= n_
                total[end] += n_
    result.executions = [*itertools.accumulate(count[:n])]
    result.warp_instructions = sum(result.executions)
    result.thread_operations = sum(itertools.accumulate(lanes[:n]))
    for pc in accesses[:, 0].nonzero()[0].tolist():
        own = 2 * int(machines[0].accesses["pattern"][pc])
        count_of = result.accesses[pc] = AccessCount(*accesses[pc].tolist())
        count_of.worst_wavefronts, count_of.worst_sectors = _worst(machines, own), _worst(machines, own + 1)


def _sum(tables: list[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
    total: npt.NDArray[np.int64] = tables[0] if len(tables) == 1 else np.sum(tables, axis=0)
    return total


def _worst(machines: list[Machine], number: int) -> Pattern | None:
    """Return the most expensive execution of any machine, of the first CTA that has it; None if there is none."""
    kept = [m.patterns[number] for m in machines if m.patterns["cost"][number]]
    if not kept:
        return None
    worst = max(kept, key=lambda pattern: (int(pattern["cost"]), -int(pattern["cta"])))
    cost, cta, lanes, _ = worst.tolist()
    groups = machines[0].grouping
    cta = groups.cta(*divmod(cta, groups.members))
    addresses = [at if lanes >> lane & 1 else 0 for lane, at in enumerate(worst["addresses"].tolist())]
    segment = max(addresses) >> SEGMENT_SHIFT
    bits = machines[0].window if segment == SHARED and groups.members > 1 else SEGMENT_SHIFT
    offsets = tuple(at & (1 << bits) - 1 for at in addresses)
    return Pattern(cost, cta, segment, lanes, offsets)


COUNTS = ("executions", "lanes", "shared", "ideal_shared", "sectors", "ideal_sectors", "uncounted")
"""fields of `ACCESS` that count, in the order of `AccessCount`"""
