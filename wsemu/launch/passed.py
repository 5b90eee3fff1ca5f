"""Keep a few small verified launches of each kernel: an edit that breaks one of them is not a fix.

The engine has the initial contents of a launch's arrays anyway, so keeping them costs nothing more.  For a launch that
resembles a kept one, the cost is one dictionary lookup.
"""

from __future__ import annotations

import sys
import weakref
from typing import TYPE_CHECKING, Any

from wsemu.model.own import is_own

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wsemu.launch.examined import Examined
    from wsemu.model.launch_shape import LaunchConfiguration
    from wsemu.model.program import Program

_MOST = 4
"""launches of a kernel, each of another shape or of other numbers"""
_BYTES = 1 << 20
"""maximum bytes of the arrays of one launch"""
_MADE_AGAIN = 6
"""launches that an edit is tried with"""

_kept: weakref.WeakKeyDictionary[Any, dict[Any, tuple[weakref.ref[Any], dict[str, Any]]]] = weakref.WeakKeyDictionary()
"""for each function or PTX code, the properties of a launch -> a reference to the kernel, and the parts of
`Launched`"""


def keep(
    kernel: Any, arguments: Sequence[Any], uninitialized: tuple[str, ...], captured: list[Any], done: Examined
) -> None:
    """Keep a verified launch if it is small and the first of its kind."""
    known = _kept.setdefault(getattr(kernel, "py_func", kernel), {})
    if len(known) >= _MOST or done.initial is None:
        return
    like = _shape_of_launch(done.bound.configuration, arguments)
    if like in known or sum(data.nbytes for data, _ in done.bound.segments) > _BYTES:
        return
    before, instructions = done.initial(), done.report.counters.warp_instructions
    if all(data is not None for data in before):
        known[like] = weakref.ref(kernel), {
            "arguments": arguments, "uninitialized": uninitialized, "captured": captured, "bound": done.bound,
            "before": before, "instructions": instructions, "site": site(),
        }  # fmt: skip


def find_alike(kernel: Any, configuration: LaunchConfiguration, arguments: Sequence[Any]) -> dict[str, Any] | None:
    """Return the kept parts of a verified launch of this kernel with the same shape and similar arguments, or None."""
    found = _kept.get(getattr(kernel, "py_func", kernel), {}).get(_shape_of_launch(configuration, arguments))
    return None if found is None else found[1]


def _shape_of_launch(configuration: LaunchConfiguration, arguments: Sequence[Any]) -> tuple[Any, ...]:
    return configuration, *map(_similarity_key, arguments)


def _similarity_key(value: Any) -> Any:
    """Return the key by which arguments of launches are compared: arrays by shape and type, numbers by value."""
    if hasattr(value, "shape"):
        return value.shape, getattr(value, "dtype", None)
    return value if isinstance(value, (bool, int, float, complex)) else type(value)


def launches(kernel: Any, wanted: Callable[[Program], bool]) -> list[dict[str, Any]]:
    """Return the parts of `Launched` for the kept launches of this kernel, and of other matching programs from the same
    run of a file; the kernel comes first."""
    own = getattr(kernel, "py_func", kernel)
    space = getattr(own, "__globals__", None)
    alike = [f for f in [*_kept] if f is not own and space is not None and _is_current(f, space)]
    found = [{"kernel": ref(), **parts} for f in (own, *alike) for ref, parts in [*_kept.get(f, {}).values()]]
    return [parts for parts in found if parts["kernel"] and wanted(parts["bound"].program)][:_MADE_AGAIN]


def _is_current(function: Any, space: dict[str, Any]) -> bool:
    """Return whether a function still is the one in the module with these names, or in another imported module."""
    own = getattr(function, "__globals__", None)
    return own is not None and (own is space or getattr(sys.modules.get(own.get("__name__")), "__dict__", None) is own)


def site() -> tuple[str, int] | None:
    """Return the innermost line outside of wsemu, which launches the kernel."""
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        if not is_own(frame.f_code.co_filename):
            return frame.f_code.co_filename, frame.f_lineno
    return None
