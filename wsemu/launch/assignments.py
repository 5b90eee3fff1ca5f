"""Judge a launch for every assignment of the clusters that it cancels (`clusterlaunchcontrol`).

One run decides only one assignment.  `explore/taken_clusters.py` proves a launch for all of them.  Without a proof, the
assignments that `--clc` names are run, and the launch is undecided.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.launch.cancellation import CANCELED, Plan, plan_clusters
from wsemu.launch.running import Expected, ran
from wsemu.launch.same_values import excuse_same_values
from wsemu.launch.used_loads import UNFINISHED, UNWAITED, complete_used_loads, name_later_uses, name_used_loads
from wsemu.launch.verdict import RACES
from wsemu.model.codes import CHECKER_OF, CODES
from wsemu.model.data import NamedTuple, replace
from wsemu.model.effects import PUTS
from wsemu.model.isa import (
    FIRST_ARRAY,
    NAMES,
    OFFSET_MASK,
    OPCODE,
    OPERATIONS,
    REQUEST_CLUSTER,
    SEGMENT_SHIFT,
    UNWATCHED,
)
from wsemu.model.program import RESPONSES
from wsemu.model.settings import ASSIGNMENTS
from wsemu.proof.uniform import copies_one_range

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wsemu.evidence.places import Places
    from wsemu.launch.explore.taken_clusters import TakenClusters
    from wsemu.model.bound import Bound
    from wsemu.model.outcome import Outcome, RawFinding
    from wsemu.model.program import Program
    from wsemu.model.settings import Assignment

OTHER_BITS = 0x5AA5C33C, 0xA55A3CC3
"""other values of the bits of a response that PTX does not define: a positive and a negative number"""
LAG, SAME = "lane-lag", "same-value-store"
MOST_TRIED = 20_000_000
"""warp instructions of a run, for one unit of effort, up to which other assignments are tried"""


class Assigned(NamedTuple):
    """Findings and doubts of runs with other assignments of clusters."""

    findings: Sequence[RawFinding] = ()
    reasons: Sequence[str] = ()
    notes: Sequence[str] = ()
    shown_by: Assignment | None = None
    """an assignment of `--clc` with which the launch ends early"""


def judge_assignments(bound: Bound, outcome: Outcome, initial: Callable[[], list[Any]], places: Places) -> Assigned:
    """Prove the launch for all assignments; without a proof, run it with other assignments."""
    requests = [pc for pc, op in enumerate(bound.program.code[:, 0].tolist()) if op == OPCODE[REQUEST_CLUSTER]]
    requests = [pc for pc in requests if outcome.executions[pc]]
    if not requests or outcome.status != "done":
        return Assigned()
    decoded = [raw.pc for raw in outcome.findings if raw.code == "clc-no-ctaid"]
    if decoded and _depends_on_other_bits(bound, outcome, initial, Expected()):
        what = "`get_first_ctaid` of a failed response is undefined, and the launch depends on its result"
        remedy = "decode a response after `is_canceled`"
        return Assigned(reasons=[f"{places.where(decoded[0])}: {what}: {remedy}"])
    expected = Expected()
    proof = _prove(bound, outcome, initial(), places, expected)
    if not proof.refused:
        if decoded or not _depends_on_other_bits(bound, outcome, initial, expected):
            return Assigned()
        what = "a response is opaque, and the launch depends on bits of it that PTX does not define"
        remedy = "decode it by `clusterlaunchcontrol.query_cancel`"
        return Assigned(reasons=[f"{places.where(requests[0])}: {what}: {remedy}"])
    warned = Assigned()
    if proof.failed is not None:
        start, clusters, found = proof.failed
        taken = ", ".join(map(str, clusters)) or "none"
        warned = Assigned(
            _errors(bound, outcome, found), notes=[f"seen in a run of cluster {start} that takes {taken}"]
        )
        if _fails(warned):
            return warned
    where, tried = places.where(requests[0]), [bound.settings.clc]
    if outcome.warp_instructions <= MOST_TRIED * bound.settings.effort:
        for assignment in ASSIGNMENTS:
            if assignment == bound.settings.clc:
                continue
            other = _run_with(bound, outcome, initial, assignment, where)
            if _fails(other) or other.reasons:
                return other
            warned = other if other.findings else warned
            tried.append(assignment)
    why = f"which clusters a request cancels differs by run, and this is not decided for all of them: {proof.refused}"
    why = f"{where}: {why}; assignments tried: {len(tried)} ({', '.join(tried)}): check a smaller grid"
    return warned._replace(reasons=[why], notes=warned.notes if warned.findings else ())


def _fails(other: Assigned) -> bool:
    """Return whether runs with other assignments have errors, not only warnings."""
    return any(CODES[raw.code].severity == "error" for raw in other.findings)


def _has_lags(outcome: Outcome) -> bool:
    """Return whether the verdict assumes that the lanes of a warp wait together; other runs then make the same
    assumption."""
    return any(raw.code == LAG for raw in outcome.findings)


def _depends_on_other_bits(
    bound: Bound, outcome: Outcome, initial: Callable[[], list[Any]], expected: Expected
) -> bool:
    """Return whether other undefined bits of responses change a launch."""
    return any(_differs_with(bound, outcome, initial(), word, expected) for word in OTHER_BITS)


def _differs_with(bound: Bound, outcome: Outcome, initial: list[Any], word: int, expected: Expected) -> bool:
    """Return whether a word for the undefined bits of all responses changes a launch."""
    segments = [(np.array(data), writable) for data, (_, writable) in zip(initial, bound.segments, strict=True)]
    table = next(array for array in bound.program.constant_arrays if array.made == RESPONSES)
    place = int(bound.rows[table.row][1])
    number = (place >> SEGMENT_SHIFT) - FIRST_ARRAY
    count = bound.configuration.ctas // math.prod(bound.configuration.cluster)
    start = place & OFFSET_MASK
    responses = segments[number][0][start : start + 16 * (count + 1)].view(np.uint32).reshape(-1, 4)
    responses[:, 2] |= np.uint32(word & ~CANCELED)
    responses[:, 3] = word
    responses[count, :2] = word
    budget = outcome.warp_instructions + 10_000
    how: dict[str, Any] = {"budget": budget, "converged": _has_lags(outcome), "expected": expected}
    found, *_ = ran(bound._replace(segments=segments), None, **how)
    same = _same_value_stores(outcome)
    what, otherwise = ((one.status, [*one.executions], _list_others(one, same)) for one in (outcome, found))
    both = enumerate(zip(segments, bound.segments, strict=True))
    return what != otherwise or any(n != number and not np.array_equal(a, b) for n, ((a, _), (b, _)) in both)


def _prove(bound: Bound, outcome: Outcome, initial: list[Any], places: Places, expected: Expected) -> TakenClusters:
    """Try to prove the launch for all assignments."""
    from wsemu.launch.explore.taken_clusters import TakenClusters

    segments = [(data, writable) for data, (_, writable) in zip(initial, bound.segments, strict=True)]
    written = frozenset(n for n, (_, may) in enumerate(segments, FIRST_ARRAY) if may and may != UNWATCHED)
    count = bound.configuration.ctas // math.prod(bound.configuration.cluster)
    on_vm = bound._replace(settings=replace(bound.settings, engine="vm"))

    def judge(start: int, clusters: Sequence[int]) -> Outcome | None:
        chain = [start, *clusters, count]
        successors = dict(pairwise(chain))
        plan = Plan(0, tuple(successors.get(n, count) for n in range(count)))
        copies = [(np.array(data), writable) for data, writable in segments]
        how: dict[str, Any] = {
            "only": (start,), "plan": plan, "converged": _has_lags(outcome), "expected": expected
        }  # fmt: skip
        of_cluster = on_vm._replace(segments=copies)
        run = ran(of_cluster, None, **how)
        name_used_loads(run[0], bound.program)
        name_later_uses(on_vm, run[0], lambda: initial, **how)
        if _same_value_stores(outcome):
            run = excuse_same_values(of_cluster, run, how=how)
        found = run[0]
        return found if found.status != "done" or _errors(bound, outcome, found, settled=False) else None

    program = bound.program
    if any(raw.code == UNWAITED for raw in outcome.findings):  # the verdict assumes that these loads are complete
        program = complete_used_loads(program)
    pairs = sorted(pair for pair in _same_value_stores(outcome) if not _always_agree(bound.program, *pair))
    stores = frozenset(pc for pair in pairs for pc in pair)
    open_ = [pair for pair in pairs if not all(_is_plain(bound.program, pc) for pc in pair)]
    proof = TakenClusters(bound._replace(program=program, segments=segments), written, judge, stores)
    if count > 1 and open_:
        where = " and ".join(dict.fromkeys(map(places.where, open_[0])))
        what = "copies that nothing orders write the same bytes, which are compared for one assignment only"
        proof.refused = f"{what} ({where})"
    else:
        proof.decide()
    return proof


def _same_value_stores(outcome: Outcome) -> set[tuple[int, int]]:
    """Return the pairs of stores that nothing orders and that write the same value in this run: other runs report them
    as races."""
    return {(raw.pc, raw.other_pc) for raw in outcome.findings if raw.code == SAME}


def _is_plain(program: Program, pc: int) -> bool:
    return OPERATIONS[NAMES[int(program.code[pc, 0])]].kind == "store"


def _always_agree(program: Program, pc: int, other: int) -> bool:
    """Return whether two stores that nothing orders are those of lanes of one instruction that copy the same bytes,
    whichever cluster the instruction works for."""
    return pc == other and NAMES[int(program.code[pc, 0])] in PUTS and copies_one_range(program, pc)


def _is_settled(raw: RawFinding, same: set[tuple[int, int]]) -> bool:
    """Return whether a finding is about two stores of the same value."""
    return raw.code in (SAME, *RACES) and (raw.pc, raw.other_pc) in same


def _list_others(outcome: Outcome, same: set[tuple[int, int]]) -> set[tuple[str, int]]:
    """Return the findings that are not about lanes that lag, nor about stores of the same value.  Loads without a wait
    have one code: uses of their registers are not examined again."""
    codes = ((UNWAITED if raw.code == UNFINISHED else raw.code, raw.pc, raw) for raw in outcome.findings)
    return {(code, pc) for code, pc, raw in codes if code != LAG and not _is_settled(raw, same)}


def _errors(bound: Bound, outcome: Outcome, found: Outcome, *, settled: bool = True) -> list[RawFinding]:
    """Return the errors and named warnings of another run that this run does not have.  `settled` excludes those about
    stores of one value."""
    known = {_identify(raw) for raw in outcome.findings}
    codes = [(raw, CODES[raw.code]) for raw in found.findings if raw.code in CODES]
    same = _same_value_stores(outcome) if settled else set()
    wrong = [raw for raw, code in codes if (code.severity == "error" or code.strict) and not _is_settled(raw, same)]
    wanted = [raw for raw in wrong if CHECKER_OF[raw.code] in bound.settings.checkers]
    return [raw for raw in wanted if _identify(raw) not in known]


def _identify(raw: RawFinding) -> tuple[str, int]:
    """Return the code and the instruction of a finding; for a load without a wait, the load, whatever overwrites its
    columns."""
    return raw.code, raw.other_pc if raw.code == UNWAITED else raw.pc


def _run_with(
    bound: Bound, outcome: Outcome, initial: Callable[[], list[Any]], assignment: Assignment, where: str
) -> Assigned:
    """Return the differences of a run with another assignment."""
    segments = [(np.array(data), writable) for data, (_, writable) in zip(initial(), bound.segments, strict=True)]
    plan = plan_clusters(bound.program, bound.configuration, assignment, bound.settings.sms)
    budget = 4 * outcome.warp_instructions + 1_000_000
    how: dict[str, Any] = {"budget": budget, "plan": plan, "converged": _has_lags(outcome)}
    found, *_ = ran(bound._replace(segments=segments), None, **how)
    name_used_loads(found, bound.program)
    name_later_uses(bound, found, initial, **how)
    if errors := _errors(bound, outcome, found):
        return Assigned(errors, notes=[f"seen with --clc {assignment}"])
    if found.status != "done":
        reason = f"{where}: the launch ends as {found.status} with --clc {assignment}: run that to see why"
        return Assigned(reasons=[reason], shown_by=assignment)
    if any(not np.array_equal(a, b) for (a, _), (b, _) in zip(segments, bound.segments, strict=True)):
        what = "what the launch stores depends on which clusters a request cancels"
        around = "store to other locations in each cluster"
        return Assigned(reasons=[f"{where}: {what}: seen with --clc {assignment}: {around}"])
    return Assigned()
