"""Decide a grid of symmetric CTAs by running representative ones, which `proof.alike` selects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.launch.running import ran
from wsemu.launch.verdict import EVERY_SCHEDULE
from wsemu.proof.affine import Geometry, Unfit
from wsemu.proof.alike import corners

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wsemu.launch.examined import Examined
    from wsemu.model.bound import Bound

MOST_SHOWN = 12
"""maximum number of CTAs that a note lists"""


def run_corners(bound: Bound, judged: Callable[..., Examined]) -> Examined | str:
    """Run the representative CTAs of a launch.  If they do not prove it, return the reason why all CTAs must run, and
    restore the arrays."""
    try:
        _check(bound)
        shape = bound.configuration
        chosen = corners(bound.program, Geometry(shape.grid, shape.block, shape.dynamic_shared), bound.rows)
    except Unfit as unfit:
        return _all_were_run(_place(bound, unfit) + unfit.why)
    ctas = bound.configuration.ctas
    if len(chosen) >= ctas:
        return _all_were_run("no two CTAs are alike" if ctas > 1 else "there is one")
    run = ran(bound, 1, only=chosen, strict=True)  # equal values that two lanes store may differ for other CTAs
    before = [None if data is None else data.copy() for data in run[2]()]
    same = any(raw.code == "same-value" for raw in run[0].findings)
    found = judged(run=run)
    report = found.report
    if same or report.verdict != "verified" or not report.proof.startswith(EVERY_SCHEDULE):
        _put_back(bound, before)
        return _all_were_run("several lanes store one value" if same else f"those that were tried are {report.verdict}")
    proof = report.proof.replace(EVERY_SCHEDULE, f"{EVERY_SCHEDULE}, by {len(chosen)} of {ctas:,} CTAs", 1)
    listed = ", ".join(f"{cta:,}" for cta in chosen[:MOST_SHOWN]) + ", ..." * (len(chosen) > MOST_SHOWN)
    note = (
        f"CTAs {listed} were run: the other {ctas - len(chosen):,} do the same at places of their own; arrays and "
        "counters have what these did"
    )
    report = report.model_copy(update={"proof": proof, "notes": [*report.notes, note]})
    return found._replace(report=report)


def _check(bound: Bound) -> None:
    """Raise Unfit for a launch to which the method does not apply."""
    configuration, settings = bound.configuration, bound.settings
    if bound.group != (1, 1, 1) or configuration.cluster != (1, 1, 1) or bound.program.cooperative:
        raise Unfit(0, "CTAs that meet are not followed")
    if bound.uninitialized:
        raise Unfit(0, "arrays that nothing has written are not followed")
    if settings.engine != "vm" or settings.cta_order == "descending" or settings.every:
        raise Unfit(0, "that is for the compiled engine, CTAs in order, and without `every`")


def _place(bound: Bound, unfit: Unfit) -> str:
    from wsemu.model.file_names import short

    span = bound.program.spans[bound.program.span_of[unfit.pc]] if unfit.pc else None
    return f"{short(span.file)}:{span.line}: " if span else ""


def _all_were_run(why: str) -> str:
    return f"{why}: all CTAs were run"


def _put_back(bound: Bound, before: Sequence[object]) -> None:
    for (data, writable), kept in zip(bound.segments, before, strict=True):
        if writable and kept is not None:
            data[:] = kept
