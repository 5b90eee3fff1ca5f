"""For which other launches a verified one speaks: `Scope`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.launch.verdict import EVERY_SCHEDULE
from wsemu.model.finding import Scope
from wsemu.model.outcome import MOST_SAME_VALUES
from wsemu.proof.contents import Contents

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wsemu.evidence.places import Places
    from wsemu.launch.result import Report
    from wsemu.proof.contents import Source


def extended(report: Report, places: Places, arguments: Sequence[str]) -> Report:
    """A report with its scope, where it is of a launch that is right in every schedule; its `proof` tells of it."""
    if report.verdict != "verified" or not report.proof.startswith(EVERY_SCHEDULE):
        return report
    found = scope(places, arguments)
    said = f"{EVERY_SCHEDULE}, {found}" if str(found) else EVERY_SCHEDULE
    proof = report.proof.replace(EVERY_SCHEDULE, said, 1)
    return report.model_copy(update={"scope": found, "proof": proof, "notes": [*report.notes, *found.limits]})


def scope(places: Places, arguments: Sequence[str]) -> Scope:
    """What a verified launch says of others; `arguments` are the names of the kernel's."""
    found = Contents(places.program, places.outcome.executions, places.segment_of.get, _same(places))
    steering, loaded = found.first(), found.loaded()
    names = {source: _names(source, places, arguments) for source in found.sources}
    read = [source for source in found.sources if source.argument >= 0 or source.segment in loaded]
    free = [source for source in read if source not in steering and names[source]]
    scalars: dict[str, bool] = {}
    for source in read:
        if source.argument >= 0:
            for name in names[source]:
                scalars[name] = scalars.get(name, True) and source in free
    return Scope(
        contents=[name for source in free if source.argument < 0 for name in names[source]],
        values=[name for name, is_free in scalars.items() if is_free],
        limits=[
            f"{places.where(at.pc)}: the {at.what} depends on the contents of `{'`, `'.join(names[source])}`: what is "
            "shown is shown for these"
            for source, at in steering.items()
            if source.argument < 0 and names[source]
        ],
    )  # fmt: skip


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
