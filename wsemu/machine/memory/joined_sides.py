"""The two instructions that a joined store becomes, as bits of their `aux`."""

from __future__ import annotations

EVEN, ODD = 1 << 6, 1 << 7
"""sizes that a joined store of such a turn seems to have: no atomic has as many bytes"""
