"""HTML and SVG text that is escaped in one place: everything that is not a `Markup` is escaped."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_EMPTY = ("meta", "br")
"""elements without an end tag"""


class Markup(str):
    """Text that is HTML already.  Only this module creates it."""

    __slots__ = ()


def escape_markup(text: object) -> Markup:
    """Return `text` as the contents of an element or attribute.  Characters that a page cannot show are replaced."""
    if isinstance(text, Markup):
        return text
    shown = "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in str(text))
    return Markup(html.escape(shown))


def join(parts: Iterable[object]) -> Markup:
    """Return the parts, concatenated."""
    return Markup("".join(escape_markup(part) for part in parts))


def tag(name: str, /, *children: object, **attributes: object) -> Markup:
    """Return an element.  Attributes that are None are omitted; `class_` becomes `class`, `stroke_width` becomes
    `stroke-width`."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape_markup(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _EMPTY:
        return Markup(f"<{name}{given}>")
    return Markup(f"<{name}{given}>{join(children)}</{name}>")


def script(text: str) -> Markup:
    """Return an element with one of wsemu's own scripts."""
    return Markup(f"<script>{text}</script>")


def data_script(text: str) -> Markup:
    """Return JSON as an element that is not executed."""
    return Markup(f'<script type="application/json">{text.replace("<", chr(92) + "u003c")}</script>')


def style(sheet: str) -> Markup:
    """Return an element with one of wsemu's own style sheets."""
    return Markup(f"<style>{sheet}</style>")
