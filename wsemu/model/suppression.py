"""A finding that the user accepts."""

from __future__ import annotations

from typing import Literal

from wsemu.model.data import dataclass


@dataclass(frozen=True, slots=True)
class Suppression:
    """The findings that are accepted, with the reason; a field that is None matches any."""

    codes: frozenset[str]
    reason: str
    written: tuple[str, int]
    """location of the suppression: file and line"""
    kind: Literal["source", "configuration"]
    file: str
    """file of the finding's site, absolute; `*` and `?` match"""
    line: int | None = None
    function: str | None = None
    array: str | None = None
