"""Draws the floors of wsemu and who imports whom, from the imports of the code: `python docs/pictures/house.py`.

Writes house-light.svg and house-dark.svg beside this file; the documentation shows the one that fits its colours.
"""

from __future__ import annotations

import ast
import functools
import itertools
from pathlib import Path
from xml.sax.saxutils import escape

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FLOORS = (
    ("doors",),
    ("app", "campaign", "host"),
    ("native",),
    ("report", "timing", "launch"),
    ("checkers", "", "repair"),
    ("evidence", "between", "backends"),
    ("frontend", "machine", "reference"),
    ("language", "proof"),
    ("model",),
)
"""from the top; a folder imports those below it; an empty name keeps its place free"""
TRIP = ("frontend", "machine", "launch", "checkers", "report")
"""the way of a kernel"""
COLOURS = {
    "light": {
        "paper": "none",
        "ink": "#1f2328",
        "box": "#ffffff",
        "rule": "#8c959f",
        "thin": "#afb8c1",
        "trip": "#0969da",
    },
    "dark": {
        "paper": "none",
        "ink": "#e6edf3",
        "box": "#161b22",
        "rule": "#6e7681",
        "thin": "#484f58",
        "trip": "#58a6ff",
    },
}
WIDTH, BOX, HEIGHT, STEP = 720, 128, 36, 84


def folder_of(path: Path) -> str:
    """The folder that a module belongs to, by the name it has in the picture."""
    parts = path.relative_to(ROOT).parts
    if parts[0] != "wsemu":
        return parts[0]
    return parts[1] if len(parts) > 2 else "doors"


def modules() -> list[Path]:
    """All modules of wsemu and its checkers."""
    found = [p for p in (ROOT / "wsemu").rglob("*.py") if not any(q.is_symlink() for q in p.parents)]
    return sorted([*found, *(ROOT / "checkers").rglob("*.py")])


@functools.cache
def imported(path: Path) -> set[str]:
    """The folders that a module imports from."""
    found = set()
    pending: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.expr):  # no statement lies in one
            continue
        pending += ast.iter_child_nodes(node)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("wsemu."):
            found.add((node.module or "").split(".")[1])
    return found


def arrows() -> set[tuple[str, str]]:
    """(folder, a folder that it imports)."""
    drawn = {*centres()}
    pairs = {(folder_of(path), other) for path in modules() for other in imported(path)}
    return {(a, b) for a, b in pairs if a != b and {a, b} <= drawn}


def centres() -> dict[str, tuple[float, float]]:
    """Where the box of each folder has its middle."""
    places = {}
    for row, floor in enumerate(FLOORS):
        for n, name in enumerate(floor):
            places[name] = (WIDTH * (n + 1) / (len(floor) + 1), 30.0 + STEP * row)
    places.pop("", None)
    return places


def line(start: tuple[float, float], end: tuple[float, float], colour: str, width: float, mark: str) -> str:
    """A curve from the edge of a box to the nearest edge of another."""
    (x1, y1), (x2, y2) = start, end
    if y1 == y2:  # of one floor: from side to side
        side = BOX / 2 if x2 > x1 else -BOX / 2
        x1, x2 = x1 + side, x2 - side
    else:
        side = HEIGHT / 2 if y2 > y1 else -HEIGHT / 2
        y1, y2 = y1 + side, y2 - side
    middle = (y1 + y2) / 2
    return (
        f'<path d="M{x1:.0f} {y1:.0f} C{x1:.0f} {middle:.0f} {x2:.0f} {middle:.0f} {x2:.0f} {y2:.0f}" fill="none" '
        f'stroke="{colour}" stroke-width="{width}" marker-end="url(#{mark})"/>'
    )


def head(name: str, colour: str, size: int) -> str:
    """The head of an arrow."""
    return (
        f'<marker id="{name}" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="{size}" markerHeight="{size}" '
        'orient="auto">'
        f'<path d="M0 0L8 4L0 8z" fill="{colour}"/></marker>'
    )


def picture(theme: str) -> str:
    """The drawing as SVG."""
    colour, places = COLOURS[theme], centres()
    height = STEP * len(FLOORS) - 20
    thin = [line(places[a], places[b], colour["thin"], 1, "thin") for a, b in sorted(arrows())]
    trip = [line(places[a], places[b], colour["trip"], 3, "trip") for a, b in itertools.pairwise(TRIP)]
    boxes = []
    for name, (x, y) in places.items():
        edge = colour["trip"] if name in TRIP else colour["rule"]
        boxes.append(
            f'<rect x="{x - BOX / 2:.0f}" y="{y - HEIGHT / 2:.0f}" width="{BOX}" height="{HEIGHT}" rx="6" '
            f'fill="{colour["box"]}" stroke="{edge}" stroke-width="{2 if name in TRIP else 1}"/>'
            f'<text x="{x:.0f}" y="{y + 5:.0f}" text-anchor="middle" font-family="sans-serif" font-size="15" '
            f'fill="{colour["ink"]}">{escape(name)}</text>'
        )
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        "<title>The floors of wsemu, who imports whom, and the way of a kernel</title>",
        f"<defs>{head('thin', colour['thin'], 7)}{head('trip', colour['trip'], 4)}</defs>",
        *thin, *trip, *boxes, "</svg>", "",
    ])  # fmt: skip


def main() -> None:
    for theme in COLOURS:
        (HERE / f"house-{theme}.svg").write_text(picture(theme), encoding="utf-8")


if __name__ == "__main__":
    main()
