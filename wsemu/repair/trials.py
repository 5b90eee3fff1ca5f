"""Edits of the kernel of a launch, tried: of its source, or of its PTX."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wsemu.repair import ptx, ptx_text, search

if TYPE_CHECKING:
    from wsemu.model.cure import Trials
    from wsemu.repair.search import Launched


def try_edits(report: Any, launched: Launched, seconds: float) -> Trials:
    """Try edits of the kernel of a report, for `seconds`."""
    code = launched.code()
    if code is not None:
        return ptx.search(report, launched, seconds, ptx_text.Text.of(*code))
    return search.search(report, launched, seconds)
