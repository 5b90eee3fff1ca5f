"""For which other launches a verified one speaks: `Scope`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.launch.verdict import EVERY_SCHEDULE
from wsemu.model.finding import Scope
from wsemu.model.outcome import MOST_SAME_VALUES
from wsemu.proof.affine import Geometry, Unfit
from wsemu.proof.contents import Contents
from wsemu.proof.trips import loop_ends, prove

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from wsemu.evidence.places import Places
    from wsemu.launch.result import Report
    from wsemu.model.bound import Bound
    from wsemu.model.outcome import Outcome
    from wsemu.proof.contents import Source, Steering
    from wsemu.proof.trips import Proof


def extended(report: Report, places: Places, bound: Bound, again: Callable[[Bound], tuple[Report, Outcome]]) -> Report:
    """A report with its scope, where it is of a launch that is right in every schedule; its `proof` tells of it.

    `again` runs the launch from the beginning, as it is bound then.
    """
    if report.verdict != "verified" or not report.proof.startswith(EVERY_SCHEDULE):
        return report
    found = scope(places, bound, again)
    said = f"{EVERY_SCHEDULE}, {found}" if str(found) else EVERY_SCHEDULE
    proof = report.proof.replace(EVERY_SCHEDULE, said, 1)
    return report.model_copy(update={"scope": found, "proof": proof, "notes": [*report.notes, *found.limits]})


def scope(places: Places, bound: Bound, again: Callable[[Bound], tuple[Report, Outcome]]) -> Scope:
    """What a verified launch says of others."""
    found = Contents(places.program, places.outcome.executions, places.segment_of.get, _same(places))
    steering, loaded = found.steering(), found.loaded()
    names = {source: _names(source, places, bound.names) for source in found.sources}
    read = [source for source in found.sources if source.argument >= 0 or source.segment in loaded]
    free = [source for source in read if source not in steering and names[source]]
    scalars: dict[str, bool] = {}
    for source in read:
        if source.argument >= 0:
            for name in names[source]:
                scalars[name] = scalars.get(name, True) and source in free
    loops, limits = [], []
    for source, places_ in steering.items():
        if source.argument >= 0:
            said, limit = _trips(source, [at.pc for at in places_], names[source][0], places, bound, again)
            loops += said
            limits += limit
        elif names[source]:
            limits.append(_looks(places_[0], names[source], places))
    return Scope(
        contents=[name for source in free if source.argument < 0 for name in names[source]],
        values=[name for name, is_free in scalars.items() if is_free],
        loops=loops,
        limits=limits,
    )


def _looks(at: Steering, names: Sequence[str], places: Places) -> str:
    contents = f"the {at.what} depends on the contents of `{'`, `'.join(names)}`"
    return f"{places.where(at.pc)}: {contents}: what is shown is shown for these"


# -- trip counts -------------------------------------------------------------------------------------------------------
MOST_THREADS = 1 << 16
"""of a launch whose loops are followed"""
MOST_WORK = 50_000_000
"""warp instructions of the launches that show every trip count"""


def _trips(
    source: Source, steered: Sequence[int], name: str, places: Places, bound: Bound,
    again: Callable[[Bound], tuple[Report, Outcome]],
) -> tuple[list[str], list[str]]:  # fmt: skip
    """Of an argument that steers: the loops that may run any number of times for it, or why that is not shown."""
    program = places.program
    ends = loop_ends(program, sorted({pc for pc in steered if places.outcome.executions[pc]}))
    rows = [p.row for p in program.parameters if (p.argument, p.component) == source[1:] and p.type in ("b32", "b64")]
    if not ends or not rows:
        return [], []
    try:
        proof = _proof(bound, places, rows, ends)
        _run_all(proof, rows, name, places, bound, again)
    except Unfit as unfit:
        lines = _in_lines(places, sorted(set(ends.values())))
        return [], [f"{places.where(unfit.pc)}: {unfit.why}: nothing is shown for other trip counts of {lines}"]
    room = " that the arrays have room for" if proof.moves else ""
    step = proof.launches.step
    steps = f" in steps of {step:,}" if step > 1 else ""
    return [f"{_in_lines(places, proof.ends)} (`{name}`{steps}){room}"], []


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


def _run_all(
    proof: Proof, rows: Sequence[int], name: str, places: Places, bound: Bound,
    again: Callable[[Bound], tuple[Report, Outcome]],
) -> None:  # fmt: skip
    """Run the launches that speak for all; Unfit where one of them is not right, or cannot be made."""
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


def _in_lines(places: Places, ends: Sequence[int]) -> str:
    """`the loop in line 31`, `the loops in lines 9, 15`"""
    lines = sorted({places.line(pc) for pc in ends})
    said = ", ".join(map(str, lines))
    return f"the loop in line {said}" if len(lines) == 1 else f"the loops in lines {said}"


def _same(places: Places) -> frozenset[int] | None:
    """Stores by which several lanes wrote one value to one place; None where some may not have been noted."""
    if len(places.outcome.findings) + len(places.outcome.overflow) >= MOST_SAME_VALUES:
        return None
    return frozenset(raw.pc for raw in places.outcome.findings if raw.code == "same-value")


def _names(source: Source, places: Places, arguments: Sequence[str]) -> list[str]:
    """What the caller calls a source: of a segment, all arrays that lie in it."""
    if source.argument >= 0:
        return [arguments[source.argument]]
    return list(_arrays(source.segment, places, arguments))


def _arrays(segment: int, places: Places, arguments: Sequence[str]) -> Iterator[str]:
    for array in places.arrays:
        root = array.name.partition(".")[0].partition("[")[0]
        if array.segment == segment and root in arguments and not array.name.endswith(".bytes"):
            yield array.name
