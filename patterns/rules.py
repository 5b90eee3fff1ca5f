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
"""bytes that addresses and sizes of bulk copies are multiples of"""
MOST_OBJECTS = 8
"""two named barriers each, of 16"""


def integers(pattern: object, *names: str) -> None:
    """Ints, and nothing that only looks like one."""
    for name in names:
        check_int(getattr(pattern, name), name)


def multiple(pattern: object, name: str, of: int, why: str = "", *, least: int = 1) -> None:
    """A multiple of `of`, `least` (0 or 1) times that or more."""
    value = getattr(pattern, name)
    if value < least or value % of:
        near = max(-(-value // of), least) * of
        kind = "a positive multiple" if least else "a multiple"
        raise UsageError(f"{name} is {value}: give {kind} of {of}{why and f', {why}'}, such as {near}")


def stride(pattern: object, name: str, alignment: int) -> None:
    """A distance in bytes that keeps addresses aligned; it may be negative."""
    value = getattr(pattern, name)
    if value % alignment:
        near = -(-value // alignment) * alignment
        raise UsageError(f"{name} is {value}: give a multiple of alignment, {alignment} bytes, such as {near}")


def check_choice(pattern: object, name: str, choices: Iterable[Any]) -> None:
    """One of a few values."""
    value = getattr(pattern, name)
    if value not in tuple(choices):
        raise UsageError(f"{name} is {value!r}: give one of {', '.join(map(repr, choices))}")


def flag(pattern: object, name: str) -> None:
    value = getattr(pattern, name)
    if not isinstance(value, bool):
        raise UsageError(f"{name} is {value!r}, of type {type(value).__name__}: give True or False")


def transfers(pattern: object) -> None:
    """A pattern with DMA warps of its own."""
    if not hasattr(pattern, "dma_threads") or not hasattr(pattern, "transfer"):
        raise UsageError(f"pattern is a {type(pattern).__name__}: give a pattern that transfers")
    if not pattern.specialized:  # type: ignore[attr-defined]
        raise UsageError("pattern is not specialized: buffers need DMA warps; use `syncthreads` without them")
