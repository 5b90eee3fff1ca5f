"""The paths of a warp's lanes through functions that call themselves, which both front ends record.

A path is a number of 64 bits: a hash of a thread's calls, in order.  It matters once a second call follows one that has
ended.
"""

from __future__ import annotations

APART = (
    "lanes of a warp took different ways through a recursion with several calls: a GPU leaves them apart, "
    "so that operations of the warp or the CTA together miss some; make such calls behind the last of these"
)
"""why the run ends before such an operation"""
FACTOR = 0x9E3779B97F4A7C15
"""odd, so that no call is lost from the number of a thread's path"""
