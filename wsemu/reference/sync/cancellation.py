"""`clusterlaunchcontrol`: a cluster takes over the work of another one that has not started.

PTX ISA, "clusterlaunchcontrol.try_cancel": each cluster is canceled at most once; after a CTA has observed that a
request failed, its next request is undefined behavior.  Here a table decides which cluster a request cancels: the
successor of the cluster that was canceled last.  The response is written by a copy (`agents/bulk_copy.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.reference.state import list_lanes

if TYPE_CHECKING:
    from wsemu.reference.run import CtaGroup
    from wsemu.reference.warp import WarpRun

KIND = "launch of clusters"
HAS_WRITTEN = 1
"""epoch of an asynchronous operation that has written"""


class Cancellation:
    """The clusters whose work a cluster has taken over, and the response that refused a request."""

    def __init__(self, group: CtaGroup) -> None:
        self.group = group
        self.last = group.number
        self.refusal: int | None = None

    def take(self) -> int:
        """Cancel the next cluster and return its number, or the number of clusters if none is left."""
        launch = self.group.launch
        count = launch.grouping.number
        if self.last < count:
            self.last = launch.successors[self.last] if launch.successors else count
        return self.last


def request(run: WarpRun, name: str, fields: list[int], lanes: int) -> None:
    """Give each lane the number of a canceled cluster, or the number of clusters if none is left."""
    own, cta, actor = run.cta.group.cancellation, run.cta, (run.cta.number, run.warp.number)
    again = 0
    for lane in list_lanes(lanes):
        if own.refusal is not None and cta.order.clocks(actor, lane).came.includes_agent(own.refusal, HAS_WRITTEN):
            again |= 1 << lane
        number = own.take()
        if number == run.launch.grouping.number and own.refusal is None:
            own.refusal = cta.order.next_agent(cta.number)  # the agent that writes the response
        run.write(fields[2], "b32", lane, number)
    if again:
        cta.finding("clc-after-failure", run.group.pc, run.warp.number, again)


def check(run: WarpRun, name: str, fields: list[int], lanes: int) -> None:
    """Report a use of the CTA number in the response of a failed request."""
    refused = sum(1 << lane for lane in list_lanes(lanes) if not run.read(fields[3], "b32", lane) & 1)
    if refused:
        run.cta.finding("clc-no-ctaid", run.group.pc, run.warp.number, refused)
