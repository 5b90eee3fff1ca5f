"""For which other launches a verified one speaks: `Scope`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.launch.verdict import EVERY_SCHEDULE
from wsemu.model.finding import Scope
from wsemu.model.outcome import MOST_SAME_VALUES
from wsemu.proof.affine import Geometry, Unfit
from wsemu.proof.contents import Contents
from wsemu.proof.trips import inner_ends, loop_ends, prove

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from wsemu.evidence.places import Places
    from wsemu.launch.result import Report
    from wsemu.model.bound import Bound
    from wsemu.model.outcome import Outcome
    from wsemu.proof.contents import Source, Steering
    from wsemu.proof.trips import Proof

    Again = Callable[[Bound], tuple[Report, Outcome]]


def add_scope(report: Report, places: Places, bound: Bound, again: Again, *, in_orders: bool = False) -> Report:
    """Return a report with its scope if its launch is correct in every schedule; `proof` describes the scope.

    `again` runs the launch from the beginning with its present bindings.  `in_orders` means that interleavings of
    atomics were explored, whose threads may execute code that the run of `places` does not.
    """
    if report.verdict != "verified" or not report.proof.startswith(EVERY_SCHEDULE):
        return report
    found = scope(places, bound, again, in_orders=in_orders)
    said = f"{EVERY_SCHEDULE}, {found}" if str(found) else EVERY_SCHEDULE
    proof = report.proof.replace(EVERY_SCHEDULE, said, 1)
    return report.model_copy(update={"scope": found, "proof": proof, "notes": [*report.notes, *found.limits]})


def scope(places: Places, bound: Bound, again: Again, *, in_orders: bool = False) -> Scope:
    """Return the launches for which the result of a verified one holds; `in_orders` as in `add_scope`."""
    executed = [1] * len(places.program.code) if in_orders else [*places.outcome.executions]
    found = _contents(places, executed)
    loops: list[str] = []
    limits: list[str] = []
    for source, steered in found.steering().items():
        if source.argument >= 0:
            try:
                loops += _trips(source, [at.pc for at in steered], executed, places, bound, again)
            except _NotShown as error:
                limits.append(str(error))
    if loops:  # they may execute code that this launch does not execute
        found = _contents(places, executed)
    arrays, values, looks = _free(found, places, bound)
    return Scope(contents=arrays, values=values, loops=loops, limits=[*limits, *looks])


def _contents(places: Places, executed: Sequence[int]) -> Contents:
    return Contents(places.program, executed, places.segment_of.get, _same_value_stores(places))


def _free(found: Contents, places: Places, bound: Bound) -> tuple[list[str], list[str], list[str]]:
    """Return the arrays and the scalars that have no influence, and the location at which other arrays have some."""
    steering, loaded = found.steering(), found.loaded_segments()
    arrays, looks = [], []
    scalars: dict[str, bool] = {}
    for source in found.sources:
        names = _names(source, places, bound.names)
        if source.argument >= 0:
            for name in names:
                scalars[name] = scalars.get(name, True) and source not in steering
        elif source in steering and names:
            looks.append(_looks(steering[source][0], names, places))
        elif source.segment in loaded:
            arrays += names
    return arrays, [name for name, is_free in scalars.items() if is_free], looks


def _looks(at: Steering, names: Sequence[str], places: Places) -> str:
    contents = f"the {at.what} depends on the contents of `{'`, `'.join(names)}`"
    return f"{places.where(at.pc)}: {contents}: what is shown is shown for these"


# -- trip counts -------------------------------------------------------------------------------------------------------
MOST_THREADS = 1 << 16
"""maximum threads of a launch whose loops are followed"""
MOST_WORK = 50_000_000
"""warp instructions of the launches that show every trip count"""


class _NotShown(Exception):
    """Why nothing is shown for other trip counts."""


def _trips(
    source: Source, steered: Sequence[int], executed: list[int], places: Places, bound: Bound, again: Again
) -> list[str]:
    """Return the loops that may run any number of times for an argument that influences them; raise _NotShown with the
    reason if that is not shown.

    `executed` also counts the instructions of the launches that prove it.
    """
    program, name = places.program, bound.names[source.argument]
    met = sorted({pc for pc in steered if places.outcome.executions[pc]})
    ends, inner = loop_ends(program, met), [*inner_ends(program, met).values()]
    rows = [p.row for p in program.parameters if (p.argument, p.component) == source[1:] and p.type in ("b32", "b64")]
    if rows and inner and not ends:
        lines = _loops_text(places, inner)
        why = f"{places.where(inner[0])}: the loop runs inside of another one"
        raise _NotShown(f"{why}: nothing is shown for other trip counts of {lines} (`{name}`)")
    if not ends or not rows:
        return []
    try:
        proof = _proof(bound, places, rows, ends)
        _run_all(proof, rows, name, executed, bound, again)
    except Unfit as unfit:
        lines = _loops_text(places, [*ends.values(), *inner])
        said = f"{places.where(unfit.pc)}: {unfit.why}: nothing is shown for other trip counts of {lines}"
        raise _NotShown(said) from None
    room = " that the arrays have room for" if proof.moves else ""
    step = proof.launches.step
    steps = f" in steps of {step:,}" if step > 1 else ""
    return [f"{_loops_text(places, [*proof.ends, *inner])} (`{name}`{steps}){room}"]


def _proof(bound: Bound, places: Places, rows: Sequence[int], ends: dict[int, int]) -> Proof:
    configuration, end = bound.configuration, min(ends.values())
    geometry = Geometry(configuration.grid, configuration.block, configuration.dynamic_shared)
    if geometry.threads * geometry.ctas > MOST_THREADS:
        raise Unfit(end, f"{geometry.threads * geometry.ctas:,} threads are too many to follow")
    if bound.uninitialized:
        raise Unfit(end, "arrays that nothing has written are not followed")
    proof = prove(places.program, geometry, bound.rows, rows, ends)
    now = max(1, abs(int(bound.rows[rows[0]][1])))
    work = places.outcome.warp_instructions * sum(max(n, now) for n in proof.launches) // now
    if work > MOST_WORK:
        raise Unfit(end, f"the {len(proof.launches):,} launches that would show it are too much work")
    return proof


def _run_all(proof: Proof, rows: Sequence[int], name: str, executed: list[int], bound: Bound, again: Again) -> None:
    """Run the launches that represent all others.  Raise Unfit if one of them is incorrect or cannot run."""
    end = proof.ends[0]
    for n in proof.launches:
        given = {row: (bound.rows[row][0], n) for row in rows}
        report, outcome = again(bound._replace(rows={**bound.rows, **given}))
        codes = sorted({finding.code for finding in report.errors})
        if codes == ["out-of-bounds"] and n > int(bound.rows[rows[0]][1]):
            raise Unfit(end, f"the arrays have no room for `{name}` = {n:,}, and {proof.launches[-1]:,} would show it")
        if report.verdict != "verified":
            raise Unfit(
                end, f"with `{name}` = {n:,} the launch is {report.verdict} ({', '.join(codes or report.reasons)})"
            )
        if any(raw.code == "same-value" for raw in outcome.findings):
            raise Unfit(end, "several lanes of one store write one value, which others may not be")
        executed[:] = map(max, executed, outcome.executions)


def _loops_text(places: Places, ends: Sequence[int]) -> str:
    """Return a text such as `the loop in line 31` or `the loops in lines 9, 15`."""
    lines = sorted({places.line(pc) for pc in ends})
    said = ", ".join(map(str, lines))
    return f"the loop in line {said}" if len(lines) == 1 else f"the loops in lines {said}"


def _same_value_stores(places: Places) -> frozenset[int] | None:
    """Return the stores by which several lanes or warps wrote one value to one location; None if some of them may not
    have been recorded."""
    if len(places.outcome.findings) + len(places.outcome.overflow) >= MOST_SAME_VALUES:
        return None
    findings = places.outcome.findings
    by_lanes = {raw.pc for raw in findings if raw.code == "same-value"}
    by_warps = {pc for raw in findings if raw.code == "same-value-store" for pc in (raw.pc, raw.other_pc)}
    return frozenset(by_lanes | by_warps)


def _names(source: Source, places: Places, arguments: Sequence[str]) -> list[str]:
    """Return the caller's names of a source: for a segment, all arrays in it."""
    if source.argument >= 0:
        return [arguments[source.argument]]
    return list(_arrays(source.segment, places, arguments))


def _arrays(segment: int, places: Places, arguments: Sequence[str]) -> Iterator[str]:
    for array in places.arrays:
        root = array.name.partition(".")[0].partition("[")[0]
        if array.segment == segment and root in arguments and not array.name.endswith(".bytes"):
            yield array.name
