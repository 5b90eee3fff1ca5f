"""Reasons why a warp does not issue, in the words of Nsight Compute.

Three differ: Nsight counts `mbarrier` and `copies` as long scoreboard, and `tensor` as a wait for the tensor cores.
"""

from __future__ import annotations

REASONS = (
    "selected", "wait", "short_scoreboard", "long_scoreboard", "barrier", "mbarrier", "copies", "tensor",
    "mio_throttle", "lg_throttle", "math_pipe_throttle", "not_selected", "branch_resolve",
    "membar",
)  # fmt: skip
AT_BARRIERS = ("barrier", "mbarrier")
FOR_OTHERS = (*AT_BARRIERS, "copies")
"""waits for other warps, or for copies"""
