"""Effects of undefined values that occur only in some interleavings of atomics."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from wsemu.model.data import replace
from wsemu.model.undefined import ORIGINS, SINKS, Source

if TYPE_CHECKING:
    from collections.abc import Callable

    from wsemu.launch.explore.session import Ask
    from wsemu.model.bound import Bound
    from wsemu.model.outcome import RawFinding
    from wsemu.proof.taint_steps import SegmentOf


def find_idle(bound: Bound, segment_of: SegmentOf) -> Callable[[RawFinding], bool]:
    """Return a predicate that is true for a finding whose undefined value reaches nothing in any interleaving."""

    @functools.cache
    def is_idle(pc: int) -> bool:
        from wsemu.proof.unwritten import Unwritten, only_returns

        if not only_returns(bound.program, pc):
            return False
        program, everything = replace(bound.program, undefined=[]), [1] * len(bound.program.code)
        return Unwritten(program, everything, segment_of, frozenset((pc,))).find_reached() is None

    return lambda raw: raw.code in ORIGINS and is_idle(raw.pc)


def is_followed(bound: Bound, raw: RawFinding) -> bool:
    """Return whether a finding is the origin of an undefined value whose use decides what it is."""
    from wsemu.proof.unwritten import only_returns

    return raw.code in ORIGINS and only_returns(bound.program, raw.pc)


def follow_order(bound: Bound, ordered: frozenset[int], order: tuple[Ask, ...], raw: RawFinding) -> RawFinding | None:
    """Return a finding with the use that its undefined value reaches in one interleaving, or None.  The arrays have
    their initial contents before and after."""
    from wsemu.launch.explore.arrays import arrays_restored
    from wsemu.launch.explore.slow_session import SlowSession
    from wsemu.reference.undefined import Undefined

    undefined = Undefined(bound.program)
    with arrays_restored(bound):
        session = SlowSession(bound, ordered, frozenset(), undefined=undefined)
        session.start()
        for ask in order:
            session.go(ask)
    reach = undefined.find_followed().reached.get(Source(ORIGINS[raw.code], raw.pc))
    if reach is None:
        return None
    detail = {
        "sink": SINKS.index(reach.sink), "sink_pc": reach.pc, "sink_cta": reach.cta, "sink_warp": reach.warp,
        "sink_lane": reach.lane,
    }  # fmt: skip
    return replace(raw, detail=raw.detail | detail)
