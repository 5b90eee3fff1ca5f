"""Reuse of the binding of a launch in device memory for equal launches.

A program that launches a kernel a thousand times passes the same few pointers.  As long as the allocations stay as they
are, the launch is bound to the same segments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wsemu.launch.code import Code
from wsemu.launch.heap import holds_blocks
from wsemu.model.data import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from wsemu.model.bound import Bound
    from wsemu.model.device_memory import DeviceMemory
    from wsemu.model.launch_shape import LaunchConfiguration
    from wsemu.model.settings import Settings

MAX_KEPT = 64
"""maximum number of bindings that are kept for one state of the allocations"""


class _Kept(NamedTuple):
    """A binding."""

    arguments: Sequence[Any]
    """the arguments, with views of the memory that they point to"""
    bound: Bound
    """the launch, without its memory: the memory keeps this object"""
    notes: tuple[str, ...]


class Binding:
    """The binding of a launch in a device memory: that of an earlier equal launch, or one that is still to be made."""

    def __init__(
        self, kernel: Code, configuration: LaunchConfiguration, arguments: Sequence[Any], chosen: Settings,
        memory: DeviceMemory,
    ) -> None:  # fmt: skip
        self._kernel, self._memory, self._chosen = kernel, memory, chosen
        plain = all(getattr(value, "is_plain", False) for value in arguments)
        self._key: Hashable = (kernel, configuration, *(value.data for value in arguments)) if plain else None
        self._known = self._find() if plain else None

    def _find(self) -> _Kept | None:
        known: _Kept | None = self._memory.bindings().get(self._key)
        if known is None or known.bound.settings != self._chosen:
            return None
        # variables of the module may have other values now, and then the program is another one
        program = self._kernel.program(known.arguments, self._chosen.fma)
        # another program is needed also if memory now has addresses of blocks that other launches allocated
        return known if program is known.bound.program and not holds_blocks(known.bound) else None

    @property
    def arguments(self) -> Sequence[Any] | None:
        """Return the arguments as an earlier launch had them; None if there was none."""
        return None if self._known is None else self._known.arguments

    @property
    def bound_launch(self) -> tuple[Bound, tuple[str, ...]] | None:
        """Return the bound launch, and the notes of the front end; None if it must be bound."""
        return None if self._known is None else (self._known.bound._replace(memory=self._memory), self._known.notes)

    def keep(self, arguments: Sequence[Any], bound: Bound, notes: tuple[str, ...]) -> None:
        """Keep a binding for equal launches, unless it has memory of its own that may change."""
        if self._key is None or self._known is not None or bound.heap is not None:
            return
        kept = self._memory.bindings()
        if len(kept) < MAX_KEPT and not bound.program.constant_arrays:
            kept[self._key] = _Kept(arguments, bound._replace(memory=None), notes)
