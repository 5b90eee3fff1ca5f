"""Draw the pictures of these pages from real runs: `python docs/pictures/traces.py`.

Time lines and banks are drawn as `wsemu trace` draws them, a hang as `wsemu check` prints it in a terminal.  Each
picture is written as NAME-light.svg and NAME-dark.svg beside this file; pages show the one that fits their colors.
"""

from __future__ import annotations

import contextlib
import re
import runpy
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import wsemu
from wsemu.report.costs_html import bank_figures
from wsemu.report.diagnostic import cause_lines
from wsemu.report.html import SHEET
from wsemu.report.markup import join, tag
from wsemu.report.timeline_svg import Window, timeline_svg

if TYPE_CHECKING:
    from wsemu.launch.timeline import Timeline
    from wsemu.report.diagnostic import Line

HERE = Path(__file__).resolve().parent
PROGRAMS, EXAMPLES = HERE.parent / "programs", HERE.parents[1] / "examples"
THEMES = ("light", "dark")
WIDTH, LABELS = 720, 100
COLUMNS, CELL, LEADING, MARGIN = 98, 7.8, 18, 16
"""width of a terminal in characters; width of a character, height of a line and margin, in pixels"""
FONT = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"
HANG = "examples/broken/both_wait_first.py"
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


def hang() -> list[Line]:
    """Return the report of a deadlock, with the edit that the search for fixes verified."""
    with contextlib.chdir(HERE.parents[1]):
        try:
            runpy.run_path(HANG)
        except wsemu.CheckFailed as failed:
            report = failed.report.helped(60.0)  # seconds, on however busy a machine
        return [[("$ wsemu check ", "frame"), (HANG, "")], *cause_lines(report, report.findings, COLUMNS)][:-1]


def terminal(lines: list[Line], colours: dict[str, str]) -> str:
    """Draw lines of a terminal; each piece keeps its column, whatever font a browser has."""
    styles = dict.fromkeys(("", "explain"), (colours["--text"], "400"))
    styles |= {"frame": (colours["--frame"], "400"), "secondary": (colours["--frame"], "400")}
    styles |= {"strong": (colours["--text"], "600"), "good": (colours["--good"], "600")}
    styles |= dict.fromkeys(("error", "primary"), (colours["--error"], "600"))
    drawn = []
    for row, line in enumerate(lines):
        column = 0
        for text, style in line:
            shown, x = text.strip(), MARGIN + CELL * (column + len(text) - len(text.lstrip()))
            column += len(text)
            if shown:
                fill, weight = styles[style]
                length = f"{CELL * len(shown):g}"
                place = {"x": f"{x:g}", "y": MARGIN + 13 + LEADING * row}
                drawn.append(tag("text", shown, fill=fill, font_weight=weight, textLength=length, **place))
    size = {"width": f"{2 * MARGIN + CELL * COLUMNS:g}", "height": 2 * MARGIN + LEADING * len(lines)}
    frame = tag("rect", fill=colours["--panel"], stroke=colours["--rule"], rx=6, **size)
    title = tag("title", f"wsemu check {HANG}: a deadlock, the four source lines, and an edit that was verified")
    font = {
        "font_family": "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace",
        "font_size": 13,
        "style": "white-space: pre",
    }
    box = f"0 0 {size['width']} {size['height']}"
    contents = join(part for piece in (title, frame, *drawn) for part in ("\n", piece))
    return f"{tag('svg', contents, xmlns='http://www.w3.org/2000/svg', viewBox=box, role='img', **size, **font)}\n"


def palette(theme: str) -> dict[str, str]:
    """Return the colors of a theme by name."""
    light, _, dark = SHEET.partition("body.wsemu")[0].partition("@media (prefers-color-scheme: dark)")
    colours = dict(re.findall(r"(--[\w-]+): (#\w{6})", light))
    if theme == "dark":
        colours |= dict(re.findall(r"(--[\w-]+): (#\w{6})", dark))
    return colours


def style(theme: str) -> str:
    """Return the rules of the page that pictures need, with the colors of a theme."""
    colours = palette(theme)
    rules = re.findall(r"(?m)^\.wsemu ([^{}]*\{[^{}]*(?:fill|stroke|text-anchor|svg text)[^{}]*\})$", SHEET)
    rules = [rule for rule in rules if "scaleX" not in rule and ":focus" not in rule]
    text = "\n".join(rules).replace(", .wsemu ", ", ").replace("svg text", "text")
    return re.sub(r"var\((--[\w-]+)\)", lambda match: colours[match[1]], text)


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
    made = {"hang": terminal(hang(), palette(theme))}
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
