"""Save and restore the arrays of a launch."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wsemu.model.bound import Bound


def copy_arrays(bound: Bound) -> list[Any]:
    """Return copies of all arrays of a launch."""
    return [data.copy() for data, _ in bound.segments]


def put_back(bound: Bound, kept: Sequence[Any]) -> None:
    """Restore the saved contents of the arrays that a launch may write; `None` if nothing was saved."""
    for (data, writable), before in zip(bound.segments, kept, strict=True):
        if writable and before is not None and before is not data:
            data[:] = before


@contextmanager
def arrays_restored(bound: Bound) -> Iterator[None]:
    """Restore the current contents of all arrays at the end of the `with` block."""
    kept = copy_arrays(bound)
    try:
        yield
    finally:
        put_back(bound, kept)
