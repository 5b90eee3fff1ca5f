"""Draws time lines and a picture of banks, as `wsemu trace` does, for these pages: `python docs/pictures/traces.py`.

Writes NAME-light.svg and NAME-dark.svg beside this file; the documentation shows the one that fits its colours.
"""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import wsemu
from wsemu.report.costs_html import bank_figures
from wsemu.report.html import SHEET
from wsemu.report.timeline_svg import Window, timeline_svg

if TYPE_CHECKING:
    from wsemu.launch.timeline import Timeline

HERE = Path(__file__).resolve().parent
PROGRAMS, EXAMPLES = HERE.parent / "programs", HERE.parents[1] / "examples"
THEMES = ("light", "dark")
WIDTH, LABELS = 720, 100
SIZE = re.compile(r'width="([\d.]+)" height="([\d.]+)"')


def ring() -> Timeline:
    """A DMA warp and two buffers, as in the tutorial, with four tiles."""
    kernel = runpy.run_path(str(PROGRAMS / "double.py"))["double"]
    a, x = np.ones((64, 256), np.float32, order="F"), np.arange(256, dtype=np.float32)
    return wsemu.trace(kernel, 1, 96, (a, x, np.zeros(64, np.float32)))


def race() -> Timeline:
    """The kernel of the first hour without its barrier."""
    kernel = runpy.run_path(str(PROGRAMS / "too_soon.py"))["too_soon"]
    return wsemu.trace(kernel, 1, 64, (np.arange(64, dtype=np.float32), np.zeros(64, np.float32)))


def banks() -> Timeline:
    """A walk along the columns of a tile."""
    kernel = runpy.run_path(str(EXAMPLES / "broken" / "column_walk.py"))["column_walk"]
    return wsemu.trace(kernel, 1, 32, (np.ones((32, 32), np.float32), np.zeros(32, np.float32)))


def style(theme: str) -> str:
    """The rules of the page that pictures need, with the colours of a theme."""
    light, _, dark = SHEET.partition("@media (prefers-color-scheme: dark)")
    colours = dict(re.findall(r"(--\w+): (#\w{6})", light))
    if theme == "dark":
        colours |= dict(re.findall(r"(--\w+): (#\w{6})", dark))
    rules = re.findall(r"(?m)^\.wsemu ([^{}]*\{[^{}]*(?:fill|stroke|text-anchor|svg text)[^{}]*\})$", SHEET)
    rules = [rule for rule in rules if "scaleX" not in rule and ":focus" not in rule]
    text = "\n".join(rules).replace(", .wsemu ", ", ").replace("svg text", "text")
    return re.sub(r"var\((--\w+)\)", lambda match: colours[match[1]], text)


def composed(parts: list[str], theme: str, title: str) -> str:
    """Pictures side by side as one."""
    at, height, inner = 0.0, 0.0, []
    for part in parts:
        width, tall = map(float, SIZE.search(part).groups())  # type: ignore[union-attr]
        inner.append(part.replace("<svg", f'<svg x="{at:g}"', 1))
        at, height = at + width, max(height, tall)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {at:g} {height:g}" width="{at:g}" height="{height:g}"'
    text = f'{head} role="img"><title>{title}</title><style>{style(theme)}</style>{"".join(inner)}</svg>\n'
    return re.sub(r' (?:aria-\w+|role|data-step|tabindex)="[^"]*"', "", text).replace(
        "<svg xmlns", '<svg role="img" xmlns', 1
    )


def pictures(theme: str) -> dict[str, str]:
    """Name of a picture -> SVG."""
    made = {}
    for name, line in (("ring", ring()), ("race", race())):
        scale = min(26.0, (WIDTH - LABELS) / line.length)
        drawn = str(timeline_svg(line, Window(0, line.length, scale), linked=False))
        labels, steps = re.findall(r"(?s)<svg.*?</svg>", drawn)
        labels = SIZE.sub(lambda match: f'width="{LABELS}" height="{match[2]}"', labels, count=1)
        made[name] = composed([labels, steps], theme, f"time line of {line.report.kernel}")
    figure = str(bank_figures(banks().banks))
    made["banks"] = composed(re.findall(r"(?s)<svg.*?</svg>", figure)[:1], theme, "which lane wants which bank")
    return made


def main() -> None:
    """Write all of them."""
    for theme in THEMES:
        for name, text in pictures(theme).items():
            (HERE / f"{name}-{theme}.svg").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
