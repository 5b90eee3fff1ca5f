"""`wsemu explain`: the list of finding codes; their pages are in `checkers`."""

from __future__ import annotations

from wsemu.model.codes import CODES


def overview() -> str:
    """Return all finding codes, with a line for each, as Markdown."""
    lines = (f"- `{code}` ({severity}): {meaning}" for code, (severity, meaning, *_) in CODES.items())
    return "\n".join(["# Finding codes", "", *lines, "", "`wsemu explain CODE` prints a page about one."])
