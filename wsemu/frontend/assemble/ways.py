"""Record the paths of a warp's lanes through recursive functions, for both front ends.

A path is a 64-bit hash of a thread's calls, in order.  Paths can differ only if a call follows another call that has
ended.
"""

from __future__ import annotations

APART = (
    "lanes of a warp took different ways through a recursion with several calls: a GPU leaves them apart, "
    "so that operations of the warp or the CTA together miss some; make such calls behind the last of these"
)
"""reason for ending the run before an operation that lanes on different paths execute together"""
FACTOR = 0x9E3779B97F4A7C15
"""multiplier of the hash; odd, so that every call still affects the hash"""
