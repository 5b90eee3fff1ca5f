"""Describe lanes of a warp that wait for each other forever.  Some wait at a named barrier for all live lanes of the
warp.  The others wait at warp-wide operations whose mask names the lanes at the barrier (B14).  A helper of `deadlock`,
not a checker of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.evidence.places import lanes_text
from wsemu.model.isa import NAMES, OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wsemu.evidence.places import Places
    from wsemu.model.finding import Site, Step
    from wsemu.model.outcome import WarpState

RULE = (
    "a warp is counted once, when all its lanes have exited or wait at the same kind of operation of one barrier (B14)"
)


def held_warps(places: Places) -> list[WarpState]:
    """Return the warps whose lanes all wait, some at barriers, others at warp-wide operations, and none elsewhere."""
    standing = [w for w in places.outcome.warps if w.alive and _union(w.standing) == w.alive]
    return [w for w in standing if all(_separate_parked(places, w)) and not _asynchronous(places, w)]


def _asynchronous(places: Places, warp: WarpState) -> bool:
    """Return whether lanes of a warp wait for a phase or for registers, not for each other."""
    return any(places.verb(pc) == "async" for pc, _ in warp.standing)


def message(places: Places, warp: WarpState) -> str:
    """Return `lanes 0-15 of warp 1 wait at barrier 1 for lanes 16-31, which wait for them at line 12`."""
    waiting, others = _separate_parked(places, warp)
    pc, stands = waiting[0][0], _union(others)
    number = places.barrier(pc)
    barrier = "a barrier" if number is None else f"barrier {number}"
    lanes = _union(waiting)
    who, them = places.who(places.outcome.cta, warp.warp), "it" if lanes.bit_count() == 1 else "them"
    return (
        f"{lanes_text(lanes)} of {who} {_verb(lanes)} at {barrier} for {lanes_text(stands)}, which "
        f"{_verb(stands)} for {them} at {places.near(others[0][0], pc)}"
    )


def sites(places: Places, warp: WarpState) -> Iterator[Site]:
    """Yield the locations at which the lanes wait, those at barriers first."""
    waiting, others = _separate_parked(places, warp)
    who, cta = places.who(places.outcome.cta, warp.warp), places.outcome.cta
    for group, primary in ((waiting, True), (others, False)):
        for pc, lanes in group:
            missing = lanes_text(warp.alive & ~_union(waiting) if primary else _union(waiting))
            text = f"{lanes_text(lanes)} of {who} {_verb(lanes)} for {missing}"
            yield places.site(pc, text, cta=cta, warp=warp.warp, primary=primary)


def steps(places: Places, warp: WarpState) -> list[Step]:
    """Return the last steps of the warp: the waits of its lanes at barriers."""
    waiting, _ = _separate_parked(places, warp)
    return [
        places.step(pc, places.outcome.cta, warp.warp, _does(places, pc), what=lanes_text(lanes), mark="waits")
        for pc, lanes in waiting
    ]


def remedy(places: Places, warp: WarpState) -> str:
    """Return the edit that lets the lanes continue."""
    waiting, others = _separate_parked(places, warp)
    (pc, _), (other, _) = waiting[0], others[0]
    verb, who = _barrier_verb(places, pc), places.who(places.outcome.cta, warp.warp)
    does, what = ("reduce", "reduction") if verb == "red" else (verb, verb)
    if places.is_in_other_branch(pc, other) and not places.is_in_other_branch(other, pc):
        return f"{does} in all lanes of {who}: move the {what} out of the branch"
    moved = ": move both out of their branches" * places.is_in_other_branch(pc, other)
    return f"{does} in all lanes of {who}, and execute {places.near(other, pc)} in all of them, in one order{moved}"


def _does(places: Places, pc: int) -> str:
    """Return the name of a barrier operation in a step: `arrive`, or `sync` for every operation that waits."""
    return "arrive" if _barrier_verb(places, pc) == "arrive" else "sync"


def _barrier_verb(places: Places, pc: int) -> str:
    """Return the name of a barrier operation: `arrive`, `sync` or `red`."""
    return NAMES[int(places.program.code[pc, 0])].removeprefix("bar.").partition(".")[0]


def _separate_parked(places: Places, warp: WarpState) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Return (instruction, lanes) of the lanes that wait at barriers, then of the lanes that wait elsewhere."""
    code = places.program.code
    at_barriers = [s for s in warp.standing if OPERATIONS[NAMES[int(code[s[0], 0])]].kind == "barrier"]
    return at_barriers, [s for s in warp.standing if s not in at_barriers]


def _union(standing: list[tuple[int, int]] | tuple[tuple[int, int], ...]) -> int:
    """Return the lanes of all groups as one mask; no two groups have a lane in common."""
    return sum(lanes for _, lanes in standing)


def _verb(lanes: int) -> str:
    return "waits" if lanes.bit_count() == 1 else "wait"
