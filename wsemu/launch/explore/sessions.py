"""A session on the engine that a launch runs on."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wsemu.launch.explore.session import Looking, Session
    from wsemu.model.bound import Bound


def make_session(
    bound: Bound, ordered: frozenset[int], logged: frozenset[int], looking: Looking | None = None
) -> Session:
    """Return a session.  Lanes stop at the instructions `ordered`; executions of `logged` are recorded.  `looking`
    names the purpose of the session if it is not the exploration of interleavings."""
    from wsemu.launch.explore.session import TRYING

    if bound.settings.engine == "reference":
        from wsemu.launch.explore.slow_session import SlowSession

        return SlowSession(bound, ordered, logged, looking or TRYING)
    from wsemu.launch.explore.session import VmSession

    return VmSession(bound, ordered, logged, looking or TRYING)
