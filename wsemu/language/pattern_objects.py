"""Host objects that are transfer patterns, or similar: classes whose methods kernels call."""

from __future__ import annotations

import functools
from types import FunctionType
from typing import Any


@functools.lru_cache(maxsize=1024)
def has_methods(cls: Any) -> bool:
    """Return whether a class has plain methods of its own, besides those that named tuples and dataclasses generate."""
    return any(
        isinstance(member, FunctionType) and not name.startswith("_")
        for base in cls.__mro__
        if base not in (object, tuple)
        for name, member in vars(base).items()
        if name not in ("count", "index")
    )
