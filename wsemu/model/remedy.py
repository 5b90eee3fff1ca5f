"""A checker's declarations for each of its codes: the rank among causes, and the edits that may fix a finding."""

from __future__ import annotations

from wsemu.model.data import NamedTuple

LAST = 1_000
"""rank of a code that never causes other findings, such as a cost"""


class Cures(NamedTuple):
    """The rank and the possible fixes of one code."""

    rank: int
    """rank among causes: codes with a lower rank cause those with a higher one, and are shown first"""
    edits: str = ""
    """kinds of edits (`model.cure.Kind`) that are tried, the likeliest first, separated by blanks"""
    inserts: tuple[str, ...] = ()
    """calls that an edit of a kernel in Python inserts, the likeliest first"""
    ptx: tuple[str, ...] = ()
    """instructions that an edit of PTX inserts"""
