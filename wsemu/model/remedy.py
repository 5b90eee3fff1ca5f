"""Declarations of a checker beside its explanations: its rank among causes, and the edits that may fix them."""

from __future__ import annotations

from wsemu.model.data import NamedTuple

LAST = 1_000
"""the rank of what explains nothing, such as a cost"""


class Cures(NamedTuple):
    """The declaration of one code's fixes, as a linter's rule has its fix."""

    rank: int
    """among causes: what explains others has a lower rank, and is shown before them"""
    edits: str = ""
    """kinds of edits (`model.cure.Kind`) that are tried, the likeliest first, with blanks between them"""
    inserts: tuple[str, ...] = ()
    """calls that an edit of a kernel in Python inserts, the likeliest first"""
    ptx: tuple[str, ...] = ()
    """instructions that an edit of PTX inserts"""
