"""The PTX front end: from PTX text to a `Program`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wsemu.frontend.ptx.module import Entry, Module, Parameter, link, parse
from wsemu.frontend.ptx.sizes import variable_size

if TYPE_CHECKING:
    from wsemu.frontend.ptx.lower import compile_entry

__all__ = ["Entry", "Module", "Parameter", "compile_entry", "link", "parse", "variable_size"]


def __getattr__(name: str) -> Any:
    if name != "compile_entry":
        raise AttributeError(f"module `{__name__}` has no attribute `{name}`")
    from wsemu.frontend.ptx.lower import compile_entry  # cached programs need no compiler

    return compile_entry
