"""Rules for the parameters of a pattern: each rule names the parameter and a valid value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wsemu.model.errors import UsageError, check_int

if TYPE_CHECKING:
    from collections.abc import Iterable

WARP = 32
MOST_THREADS = 1024
"""maximum threads of a CTA"""
ENGINES = ("warps", "cp.async", "bulk")
"""methods of moving bytes: loads and stores of the DMA threads, copies of 4 to 16 bytes that bypass their registers, or
copies of whole elements that one thread starts"""
BULK = 16
"""unit, in bytes, of addresses and sizes of bulk copies"""
MOST_OBJECTS = 8
"""maximum number of objects: each has two of the 16 named barriers"""


def integers(pattern: object, *names: str) -> None:
    """Require ints; bools and floats are rejected."""
    for name in names:
        check_int(getattr(pattern, name), name)


def multiple(pattern: object, name: str, of: int, why: str = "", *, least: int = 1) -> None:
    """Require a multiple of `of` that is at least `least` (0 or 1) times `of`."""
    value = getattr(pattern, name)
    if value < least or value % of:
        near = max(-(-value // of), least) * of
        kind = "a positive multiple" if least else "a multiple"
        raise UsageError(f"{name} is {value}: give {kind} of {of}{why and f', {why}'}, such as {near}")


def stride(pattern: object, name: str, alignment: int) -> None:
    """Require a distance in bytes that keeps addresses aligned; it may be negative."""
    value = getattr(pattern, name)
    if value % alignment:
        near = -(-value // alignment) * alignment
        raise UsageError(f"{name} is {value}: give a multiple of alignment, {alignment} bytes, such as {near}")


def check_choice(pattern: object, name: str, choices: Iterable[Any]) -> None:
    """Require one of a few values."""
    value = getattr(pattern, name)
    if value not in tuple(choices):
        raise UsageError(f"{name} is {value!r}: give one of {', '.join(map(repr, choices))}")


def flag(pattern: object, name: str) -> None:
    value = getattr(pattern, name)
    if not isinstance(value, bool):
        raise UsageError(f"{name} is {value!r}, of type {type(value).__name__}: give True or False")


def transfers(pattern: object) -> None:
    """Require a pattern with its own DMA warps."""
    if not hasattr(pattern, "dma_threads") or not hasattr(pattern, "transfer"):
        raise UsageError(f"pattern is a {type(pattern).__name__}: give a pattern that transfers")
    if not pattern.specialized:  # type: ignore[attr-defined]
        raise UsageError("pattern is not specialized: buffers need DMA warps; use `syncthreads` without them")
