"""Describe lanes that wait forever at a synchronization object that `deadlock` does not describe itself: its present
state, and what it needs to complete.  A helper of `deadlock`, not a checker of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.evidence.places import lanes_text
from wsemu.model.isa import step_word
from wsemu.model.outcome import WARPGROUP

if TYPE_CHECKING:
    from wsemu.evidence.places import Places
    from wsemu.model.finding import Site, Step
    from wsemu.model.outcome import ObjectWait


def leads(wait: ObjectWait) -> bool:
    """Return whether this wait shows the cause of the deadlock better than the waits for barriers and phases."""
    return bool(wait.missing) or wait.kind == WARPGROUP


def message(places: Places, wait: ObjectWait) -> str:
    """Return a message such as `warp 1 waits for latch 0, which has 1 of 2`."""
    if wait.missing:
        counted = f"at which {wait.arrived} of {wait.expected} CTAs have arrived"
        return f"{_who(places, wait)} for {object_name(wait)}, {counted}: {_missing(places, wait)}"
    if wait.kind == WARPGROUP:
        come = f"{wait.arrived} of its {wait.expected} warps have reached it"
        return f"{_who(places, wait)} at `wgmma.commit_group` for the warpgroup: {come}"
    return f"{_who(places, wait)} for {object_name(wait)}, which has {wait.arrived} of {wait.expected}"


def _missing(places: Places, wait: ObjectWait) -> str:
    """Return `CTA (2,0,0) has ended`, for at most three of the missing CTAs."""
    alive = {cta for cta, _, _ in places.outcome.elsewhere} | {places.outcome.cta}
    told = [f"{places.cta(cta)} {'does not reach it' if cta in alive else 'has ended'}" for cta in wait.missing[:3]]
    more = f" and {len(wait.missing) - 3:,} more" if len(wait.missing) > 3 else ""
    return ", ".join(told) + more


def object_name(wait: ObjectWait) -> str:
    return f"the {wait.kind}" if wait.place < 0 else f"{wait.kind} {wait.place}"


def wait_help(wait: ObjectWait) -> str:
    """Return the help for a wait."""
    if wait.missing:
        return "make every CTA of the launch execute each `sync` of the grid, including its thread 0, before it ends"
    if wait.kind == WARPGROUP:
        return "execute it in all four warps of the warpgroup, before they wait for each other in another way"
    return (
        f"look for the missing arrivals at {object_name(wait)}: {wait.expected - wait.arrived} more, before the wait "
        "or in parallel with it"
    )


def sites(places: Places) -> list[Site]:
    cta = places.outcome.cta
    return [places.site(w.pc, message(places, w), cta=cta, warp=w.warp) for w in places.outcome.object_waits]


def steps(places: Places) -> list[Step]:
    """Return the last steps of the waiting threads."""
    return [
        places.step(
            w.pc, places.outcome.cta, w.warp, step_word(places.operation(w.pc)),
            what=object_name(w), mark="waits",
        )
        for w in places.outcome.object_waits
    ]  # fmt: skip


def _who(places: Places, wait: ObjectWait) -> str:
    alive = next(w.alive for w in places.outcome.warps if w.warp == wait.warp)
    who = places.who(places.outcome.cta, wait.warp)
    if wait.lanes == alive:
        return f"{who} waits"
    return f"{lanes_text(wait.lanes)} of {who} wait{'s' * (wait.lanes.bit_count() == 1)}"
