"""`numba.cuda.extending`: implementations of the program's functions for kernels, selected by argument types.

`overload` is modeled.  Extensions of Numba's compiler (`intrinsic`, data models, lowering) are only passed on to Numba:
a kernel that needs one falls back to Numba-CUDA's PTX, or is not modeled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wsemu.language import overloads
from wsemu.language.markers import Foreign

if TYPE_CHECKING:
    from collections.abc import Callable


def overload(func: Any, jit_options: Any = None, strict: bool = True, inline: str = "never", **options: Any) -> Any:
    """Register the decorated function, which takes Numba's types and returns the implementation of `func` for them, or
    None."""

    def decorate(chooser: Callable[..., Any]) -> Callable[..., Any]:
        overloads.register(func, chooser)
        return chooser

    return decorate


def register_jitable(*given: Any, **options: Any) -> Any:
    """Return the function unchanged: kernels can call it without registration."""
    return given[0] if given and callable(given[0]) else lambda function: function


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return Foreign(f"extending.{name}")
