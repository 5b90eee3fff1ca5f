"""A session on the engine that a launch runs on."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wsemu.launch.explore.session import Looking, Session
    from wsemu.model.bound import Bound


def make_session(
    bound: Bound, ordered: frozenset[int], logged: frozenset[int], looking: Looking | None = None
) -> Session:
    """`ordered` are the instructions that wait, `logged` those whose executions are requested; `looking` names the
    purpose, if it is not to explore interleavings."""
    from wsemu.launch.explore.session import TRYING

    if bound.settings.engine == "reference":
        from wsemu.launch.explore.slow_session import SlowSession

        return SlowSession(bound, ordered, logged, looking or TRYING)
    from wsemu.launch.explore.session import VmSession

    return VmSession(bound, ordered, logged, looking or TRYING)
