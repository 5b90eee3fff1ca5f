"""`@overload`: implementations of functions for kernels, registered by programs and selected by the types of the
arguments.

A program registers them with `numba.cuda.extending`, which wsemu provides, or with `numba.extending`, whose registry is
read.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

OWN: dict[int, tuple[Any, list[Callable[..., Any]]]] = {}
"""id of a function -> the function, and its choosers, each of which selects an implementation by types"""
_numbas: dict[int, list[Callable[..., Any]]] = {}
_seen = 0


def register(function: Any, chooser: Callable[..., Any]) -> None:
    """Register another chooser of a function."""
    OWN.setdefault(id(function), (function, []))[1].append(chooser)


def of(function: Any) -> list[Callable[..., Any]]:
    """Return the choosers of a function, which select an implementation by the Numba types of its arguments; none for
    most functions."""
    own = OWN.get(id(function))
    return (own[1] if own else []) + _numba_overloads(function)


def _numba_overloads(function: Any) -> list[Callable[..., Any]]:
    """Return the overloads in Numba's registry that programs have added; Numba's own overloads are excluded."""
    global _seen
    templates = sys.modules.get("numba.core.typing.templates")
    if templates is None:
        return []
    entries = templates.builtin_registry.globals
    for value, type_ in entries[_seen:]:
        for template in getattr(type_, "templates", ()):
            chooser = getattr(template, "_overload_func", None)
            if chooser is not None and not (chooser.__module__ or "numba.").startswith("numba."):
                _numbas.setdefault(id(value), []).append(chooser)
    _seen = len(entries)
    return _numbas.get(id(function), [])
