"""Decide whether undefined registers reach nothing, whatever published values the loads of a launch return.

The method of `windows.py` also decides the instrumented program of `proof.shadow_program`, which computes the masks of
undefined bits and ends in a trap if such a bit reaches something observable.  If each CTA of it performs the
same actions whatever its loads return, no schedule has such a trap.  docs/how.md, "Undefined registers of other paths",
has the theorem.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.launch.explore.accesses import ACCESSES, find_kinds
from wsemu.launch.explore.arrays import arrays_restored, put_back
from wsemu.launch.explore.partial import Scratch
from wsemu.launch.explore.sessions import make_session
from wsemu.launch.explore.windows import Windows
from wsemu.launch.undefined import instrument
from wsemu.model.isa import SEGMENT_SHIFT

if TYPE_CHECKING:
    from wsemu.model.bound import Bound
    from wsemu.model.outcome import Outcome

Key = tuple[int, int]
"""an instruction, and the CTA that executes it"""


def reach_nothing(bound: Bound, windows: Windows, outcome: Outcome) -> bool:
    """Return whether undefined registers reach nothing in any schedule of a launch that `windows` has decided.

    `outcome` belongs to the initial run.  Values may be undefined that strong stores publish and no path loads.
    """
    if bound.configuration.grid[0] != bound.configuration.ctas:
        return False
    made = instrument(bound, _find_unread(windows))
    if made is None:
        return False
    launch, shadowed = made
    executed = windows.plans.executed | {pc for pc, count in enumerate(outcome.executions) if count}
    if not executed <= shadowed.covered:
        return False
    own, scratch = shadowed.own, Scratch(shadowed.scratch, frozenset(shadowed.own))
    ordered, data = (frozenset(own[pc] for pc in pcs) for pcs in (windows.ordered, windows.data))
    with arrays_restored(bound):
        put_back(bound, windows.initial)
        session = make_session(launch, ordered, frozenset(find_kinds(launch, ACCESSES)))
        try:
            return Windows(launch, session, ordered, data, lambda raw: True, scratch).is_proven()
        finally:
            session.close()


def _find_unread(windows: Windows) -> frozenset[Key]:
    """Return the strong stores, with their CTAs, whose values no path loads, in arrays that strong loads access."""
    looked = {start >> SEGMENT_SHIFT for start, _ in windows.loaded}
    return frozenset(
        (pc, cta) for (pc, cta), stored in windows.stored.items()
        if pc in windows.plans.unwritten
        and all(
            at >> SEGMENT_SHIFT in looked
            and not any(start < at + size and at < end for start, end in windows.loaded)
            for at, size in stored
        )
    )  # fmt: skip
