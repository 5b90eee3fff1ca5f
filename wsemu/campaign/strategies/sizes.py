"""Sizes at which loops, tiles and pipelines break."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st

from wsemu.campaign.sizes import Reading, edges
from wsemu.model.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable


def sizes(
    *, tile: int | Iterable[int] = (), depth: int | Iterable[int] = (), compared: Iterable[int] = (), most: int = 4096
) -> st.SearchStrategy[int]:
    """Return sizes up to `most`: 0, 1, primes, multiples of tiles and depths with their neighbors on both sides, and
    the numbers with which the kernel compares; one in four is arbitrary.

    Examples shrink toward 0.  Raise UsageError if a tile or depth is below 1, or `most` is below 0.
    """
    tiles, depths = _to_set(tile), _to_set(depth)
    if most < 0 or any(n < 1 for n in tiles | depths):
        raise UsageError(f"tile is {tile}, depth {depth}, most {most}: give 1 or more, and most 0 or more")
    found = edges(Reading({*compared}, tiles, depths), most)
    return st.one_of(*[st.sampled_from(found)] * 3, st.integers(0, most))


def _to_set(given: int | Iterable[int]) -> set[int]:
    return {given} if isinstance(given, int) else {*given}
