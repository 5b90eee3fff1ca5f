"""Costs of accesses, as HTML: source lines with their wavefronts and sectors, and the bank that each lane accesses."""

from __future__ import annotations

import linecache
from typing import TYPE_CHECKING

from wsemu.model.isa import LANES
from wsemu.report.diagnostic import display_path
from wsemu.report.markup import Markup, join, tag

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wsemu.evidence.cost_view import BankPicture, LineCost

_AROUND = 2
"""lines without a cost that are shown before and after one that has"""
_CELL, _LEFT, _TOP = 12, 62, 26
"""pixels of a cell of the picture of banks, and of its margins"""


def heat(lines: tuple[LineCost, ...]) -> Markup:
    """Return a table of the source lines with the costs of their accesses."""
    if not lines:
        return tag("p", "no access to shared or global memory", class_="muted")
    files = sorted({line.file for line in lines})
    return join(_table(file, [line for line in lines if line.file == file], lines) for file in files)


def _table(file: str, costs: list[LineCost], all_lines: tuple[LineCost, ...]) -> Markup:
    most = (max(line.wavefronts for line in all_lines), max(line.sectors for line in all_lines))
    by_line = {cost.line: cost for cost in costs}
    head = ["line", "source", "executions", "wavefronts", "sectors"]
    rows = [tag("tr", *(tag("th", text, scope="col") for text in head))]
    before = None
    for number in _shown_lines(sorted(by_line), len(linecache.getlines(file))):
        if before is not None and number > before + 1:
            rows.append(tag("tr", tag("td", "...", class_="number"), tag("td", "", colspan=4)))
        rows.append(_row(file, number, by_line.get(number), most))
        before = number
    caption = tag("caption", display_path(file))
    return tag("div", tag("table", caption, *rows, class_="heat"), class_="scroll", tabindex=0, aria_label="costs")


def _shown_lines(lines: list[int], last: int) -> list[int]:
    """Return the lines with costs and the lines around them, within the file."""
    around = {n for line in lines for n in range(max(line - _AROUND, 1), min(line + _AROUND, last) + 1)}
    return sorted({*lines, *around})


def _row(file: str, number: int, cost: LineCost | None, most: tuple[int, int]) -> Markup:
    source = tag("td", tag("code", linecache.getline(file, number).rstrip().expandtabs(4)), class_="source")
    cells = [tag("td", number, class_="number"), source]
    if cost is None:
        return tag("tr", *cells, tag("td", "", colspan=3))
    cells.append(tag("td", f"{cost.executions:,}", class_="number"))
    cells.append(_bar(cost.wavefronts, cost.ideal_wavefronts, most[0]))
    cells.append(_bar(cost.sectors, cost.ideal_sectors, most[1]))
    return tag("tr", *cells)


def _bar(cost: int, ideal: int, most: int) -> Markup:
    """Return a number with a bar that shows the necessary part and the excess."""
    if not cost:
        return tag("td", "")
    width = 120 * cost / most
    needed = width * min(ideal / cost, 1)
    boxes = [tag("rect", x=0, y=0, width=round(needed, 1), height=10, class_="needed")]
    if cost > ideal:
        boxes.append(tag("rect", x=round(needed, 1), y=0, width=round(width - needed, 1), height=10, class_="excess"))
    text = f"{cost:,}" if cost <= ideal else f"{cost:,}, ideal {ideal:,}"
    bar = tag("svg", *boxes, width=120, height=10, aria_hidden="true")
    return tag("td", bar, " ", tag("span", text), class_="cost")


def bank_figures(banks: tuple[BankPicture, ...]) -> Markup:
    """Return pictures of lanes and banks for each access with conflicts."""
    if not banks:
        return tag("p", "no bank conflicts", class_="muted")
    return tag("div", *(_figure(picture) for picture in banks), class_="banks")


def _figure(picture: BankPicture) -> Markup:
    times = f"{picture.executions:,} execution{'s' * (picture.executions != 1)}"
    caption = tag(
        "figcaption",
        tag("code", picture.text), f"  {display_path(picture.file)}:{picture.line}", tag("br"),
        f"{picture.wavefronts} wavefronts, ideal {picture.ideal}; the worst of {times}, CTA {picture.cta}",
    )  # fmt: skip
    return tag("figure", caption, tag("div", _bank_svg(picture), class_="scroll"))


def _bank_svg(picture: BankPicture) -> Markup:
    width, height = _LEFT + picture.banks * _CELL + 8, _TOP + (LANES + 2) * _CELL + 8
    title = tag("title", f"{picture.text}: which lane wants a word of which bank")
    frame = tag("rect", x=_LEFT, y=_TOP, width=picture.banks * _CELL, height=LANES * _CELL, class_="frame")
    parts = [title, frame, *_bank_axes(picture), *_bank_cells(picture), *_bank_totals(picture)]
    return tag("svg", *parts, width=width, height=height, viewBox=f"0 0 {width} {height}", role="img")


def _bank_axes(picture: BankPicture) -> Iterator[Markup]:
    yield tag("text", "bank", x=4, y=_TOP - 6, class_="muted")
    yield tag("text", "lane", x=4, y=_TOP + 10, class_="muted")
    yield tag("text", "words", x=4, y=_TOP + (LANES + 1) * _CELL + 6, class_="muted")
    for bank in range(0, picture.banks, 4):
        yield tag("text", bank, x=_LEFT + bank * _CELL, y=_TOP - 6)
    for lane in range(0, LANES, 4):
        y = _TOP + lane * _CELL
        yield tag("text", lane, x=_LEFT - 22, y=y + 10)
        yield tag("line", x1=_LEFT, x2=_LEFT + picture.banks * _CELL, y1=y, y2=y, class_="grid")


def _bank_cells(picture: BankPicture) -> Iterator[Markup]:
    for cell in picture.cells:
        x, y = _LEFT + cell.bank * _CELL, _TOP + cell.lane * _CELL
        words = f"{cell.ways} different words of it" if cell.ways > 1 else "no other word of it"
        title = tag("title", f"lane {cell.lane}: word {cell.word}, bank {cell.bank}; the pass wants {words}")
        yield tag("rect", title, x=x + 1, y=y + 1, width=_CELL - 2, height=_CELL - 2, class_=_degree_class(cell.ways))


def _bank_totals(picture: BankPicture) -> Iterator[Markup]:
    """Yield the number of words of each bank that are requested at once."""
    most: dict[int, int] = {}
    for cell in picture.cells:
        most[cell.bank] = max(most.get(cell.bank, 0), cell.ways)
    y = _TOP + (LANES + 1) * _CELL
    for bank, ways in sorted(most.items()):
        title = tag("title", f"bank {bank}: {ways} word{'s' * (ways > 1)} at once")
        x = _LEFT + bank * _CELL
        yield tag("rect", title, x=x + 1, y=y - 4, width=_CELL - 2, height=_CELL - 2, class_=_degree_class(ways))
        if ways > 1 and ways == max(most.values()):
            yield tag("text", ways, x=x + (1 if ways > 9 else 3), y=y + 18, class_="small")


def _degree_class(ways: int) -> str:
    """Return the style class of a cell for the conflict degree of its bank."""
    return f"ways{min((ways - 1).bit_length(), 5)}"
