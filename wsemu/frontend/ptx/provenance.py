"""Which array an access goes to, by name: addresses are followed from where they were computed.

PTX does not say which variable `[%rd7+8]` is in.  An address that was computed from the address of one variable, and
from numbers, is in that variable; where two meet nothing is said.  These names are for reports, and for guesses that
are checked when the kernel runs.  The accesses also tell the elements of variables, which compilers declare as bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wsemu.frontend.graph import Graph
    from wsemu.frontend.ptx.syntax import Function


def name_accesses(graph: Graph, function: Function) -> None:
    """Fill in `array` of every access to memory that is known, and the elements of variables."""
