"""`wsemu explain`: what there is to explain; the pages are those of `checkers`."""

from __future__ import annotations

from wsemu.model.codes import CODES


def overview() -> str:
    """All finding codes with a line each, as Markdown."""
    lines = (f"- `{code}` ({severity}): {meaning}" for code, (severity, meaning, *_) in CODES.items())
    return "\n".join(["# Finding codes", "", *lines, "", "`wsemu explain CODE` prints a page about one."])
