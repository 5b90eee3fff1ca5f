"""The PTX front end: from PTX text to a `Program`."""

from __future__ import annotations

from wsemu.frontend.ptx.lower import compile_entry
from wsemu.frontend.ptx.module import Entry, Module, Parameter, link, parse, variable_size

__all__ = ["Entry", "Module", "Parameter", "compile_entry", "link", "parse", "variable_size"]
