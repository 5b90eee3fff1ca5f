"""Replace objects of Numba-CUDA in the namespace of a notebook by wsemu's while `takeover` is active.

A cell may have imported Numba-CUDA, and defined kernels with it, before wsemu was loaded.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from wsemu.host.takeover import has_module, is_replaced
from wsemu.launch.kernel import OPTIONS, Kernel, jit

if TYPE_CHECKING:
    from collections.abc import Iterator


def replace_names(space: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Replace Numba-CUDA's objects in a namespace by wsemu's; return those before and after, by name."""
    if "numba" in sys.modules:
        importlib.import_module("numba.cuda")  # `numba.cuda` is an attribute of the imported `numba`
    pairs = {name: (value, find_replacement(value)) for name, value in space.items() if not name.startswith("_")}
    replaced = {name: pair for name, pair in pairs.items() if pair[0] is not pair[1]}
    space.update({name: after for name, (_, after) in replaced.items()})
    return replaced


def restore_names(space: dict[str, Any], replaced: dict[str, tuple[Any, Any]]) -> None:
    """Undo `replace_names`, except for names that were assigned again."""
    space.update({name: before for name, (before, after) in replaced.items() if space.get(name) is after})


@contextlib.contextmanager
def replacing_names(space: dict[str, Any]) -> Iterator[None]:
    """Inside the `with` block, replace Numba-CUDA's objects in a namespace by wsemu's."""
    replaced = replace_names(space)
    try:
        yield
    finally:
        restore_names(space, replaced)


def find_replacement(value: Any) -> Any:
    """Return wsemu's object for an object of Numba-CUDA; return any other value, or one without a counterpart,
    unchanged."""
    if isinstance(value, ModuleType):
        return _import(value.__name__) or value if is_replaced(value.__name__) else value
    function = getattr(value, "py_func", None) or getattr(value, "fn", None)
    if is_replaced(type(value).__module__) and isinstance(function, FunctionType):
        return _make_kernel(value, function)
    home, name = (getattr(value, attribute, None) for attribute in ("__module__", "__name__"))
    if not isinstance(home, str) or not isinstance(name, str) or not is_replaced(home):
        return value
    return next((getattr(one, name) for one in (_import(home), _import("numba.cuda")) if hasattr(one, name)), value)


def _import(name: str) -> ModuleType | None:
    """Return the module that `takeover` has under a name; None if it has none."""
    with contextlib.suppress(ImportError):
        return importlib.import_module(name) if has_module(name) else None
    return None


def _make_kernel(value: Any, function: FunctionType) -> Kernel:
    """Return wsemu's form of a kernel or device function of Numba-CUDA or of its simulator."""
    given = getattr(value, "targetoptions", {"device": getattr(value, "_device", False)})
    options = {name: option for name, option in given.items() if name in OPTIONS}
    declared = None if getattr(value, "_can_compile", True) else [*value.overloads]
    return jit(declared, **options)(function)
