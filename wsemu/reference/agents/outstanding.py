"""Asynchronous operations that a lane has not waited for, and the groups into which it committed them.

PTX ISA, "cp.async.commit_group", "cp.async.wait_group", "cp.async.bulk.commit_group", "cp.async.bulk.wait_group": each
lane has its own groups, which complete in the order of their commits.
"""

from __future__ import annotations

from wsemu.model.data import dataclass, field


@dataclass(slots=True)
class Groups:
    """A lane's operations of one kind, each as the epochs of its agent (bits of `Known.agents`)."""

    loose: int = 0
    """operations that are in no group"""
    groups: list[int] = field(default_factory=list)
    """groups of the thread, oldest first"""
    waited: int = 0
    """operations that the lane waited for since its last arrival that covered copies"""

    def commit(self) -> None:
        """Put the operations that are not yet in a group into a new group."""
        self.groups.append(self.loose)
        self.loose = 0

    def wait(self, left: int, *, forget: bool = True) -> int:
        """Wait for all groups except the newest `left`; return the epochs of their operations."""
        done = self.groups[: max(len(self.groups) - left, 0)]
        if forget:
            del self.groups[: len(done)]
            self.waited |= _union(done)
        return _union(done)

    def epochs_to_publish(self) -> int:
        """Return the epochs that an arrival publishes: operations that were not waited for, or only since the last such
        arrival."""
        agents = _union(self.groups) | self.loose | self.waited
        self.waited = 0
        return agents


def _union(groups: list[int]) -> int:
    agents = 0
    for group in groups:
        agents |= group
    return agents
