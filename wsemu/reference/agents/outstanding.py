"""Asynchronous operations of a lane that it has not waited for, and the groups that it put them into.

PTX ISA, "cp.async.commit_group", "cp.async.wait_group", "cp.async.bulk.commit_group", "cp.async.bulk.wait_group":
groups are a lane's own, and complete in the order in which they were made.
"""

from __future__ import annotations

from wsemu.model.data import dataclass, field


@dataclass(slots=True)
class Groups:
    """Operations of one kind of a lane, each by its agent's epochs (bits of `Known.agents`)."""

    loose: int = 0
    """operations that belong to no group"""
    groups: list[int] = field(default_factory=list)
    """groups of the thread, oldest first"""
    waited: int = 0
    """operations that were waited for since the last arrival that covered copies"""

    def commit(self) -> None:
        """The loose ones become a group."""
        self.groups.append(self.loose)
        self.loose = 0

    def wait(self, left: int, *, forget: bool = True) -> int:
        """All but the newest `left` groups are waited for; whose epochs these are."""
        done = self.groups[: max(len(self.groups) - left, 0)]
        if forget:
            del self.groups[: len(done)]
            self.waited |= _union(done)
        return _union(done)

    def epochs_to_publish(self) -> int:
        """The epochs that an arrival tells of: of all that were not waited for, or since the last such arrival."""
        agents = _union(self.groups) | self.loose | self.waited
        self.waited = 0
        return agents


def _union(groups: list[int]) -> int:
    agents = 0
    for group in groups:
        agents |= group
    return agents
