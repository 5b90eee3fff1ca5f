"""All launches of the corpus: correct ones in CASES, broken ones in BROKEN."""

from __future__ import annotations

from importlib import import_module

from tests.ptx.expected.broken import BROKEN, marks
from tests.ptx.expected.case import CASES, Case, Out

__all__ = ["BROKEN", "CASES", "Case", "Out", "marks"]

for _theme in (
    "asynchronous", "barriers", "calls", "collective", "integer", "floating", "language", "transfers", "triton",
    "unsupported",
):  # fmt: skip
    import_module(f"tests.ptx.expected.{_theme}")  # each adds its launches to CASES
