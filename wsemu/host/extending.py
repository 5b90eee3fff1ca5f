"""`numba.cuda.extending`: what a function of the program means in kernels, by the types of its arguments.

`overload` is modeled; extensions of Numba's compiler (`intrinsic`, data models, lowering) are kept for it: a kernel
that needs one falls back to Numba-CUDA's PTX, or is not modeled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wsemu.language import overloads
from wsemu.language.markers import Foreign

if TYPE_CHECKING:
    from collections.abc import Callable


def overload(func: Any, jit_options: Any = None, strict: bool = True, inline: str = "never", **options: Any) -> Any:
    """The decorated function gets Numba's types and returns the function that `func` means for them, or None."""

    def decorate(chooser: Callable[..., Any]) -> Callable[..., Any]:
        overloads.register(func, chooser)
        return chooser

    return decorate


def register_jitable(*given: Any, **options: Any) -> Any:
    """Functions are called as they are."""
    return given[0] if given and callable(given[0]) else lambda function: function


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return Foreign(f"extending.{name}")
