"""A predicted time as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.report.diagnostic import display_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from wsemu.timing.prediction import Prediction, Waits

SHOWN = 4
"""largest number of reasons on a line"""


def format_prediction(found: Prediction) -> Iterator[str]:
    """Yield the lines of a prediction."""
    held = found.occupancy
    span = f"{micro(found.low)} to {micro(found.high)}"
    launch = f"{found.kernel} <<<{shape(found.grid)}, {shape(found.block)}>>>"
    yield f"{launch}: {micro(found.microseconds)} on {article(found.device)} {found.device} ({span})"
    yield f"  bound by   {found.bound_by}"
    if found.use:
        yield f"  in use     {parts(found.use)}"
    waves = f"{held.waves:.3g} wave{'s' * (held.waves != 1)}"
    yield (
        f"  occupancy  {held.ctas} CTA{'s' * (held.ctas != 1)} a multiprocessor, "
        f"{held.warps} of {held.most_warps} warps, limited by {held.limited_by}; {waves}"
    )
    if found.hidden is not None:
        yield f"  copies     {found.hidden:.0%} of the time of warps that compute passes without a wait for copies"
    yield f"  warps      {parts(found.reasons)}"
    for role in found.roles if len(found.roles) > 1 else ():
        yield f"    {numbers(role.warps):9}{parts(role.reasons)}"
    if found.lines:
        yield "  lines"
    for line in found.lines:
        yield f"    {line.share:4.0%}  {place(line)}  {parts(line.reasons, 2)}"
    yield f"  {found.accuracy}"
    for note in found.notes:
        yield f"  note: {note}"
    yield "  not modeled:"
    for text in found.not_modeled:
        yield f"    {text}"


def article(name: str) -> str:
    """Return the article of a GPU's name."""
    return "an" if name[0] in "AHRaeiou" else "a"


def shape(extent: tuple[int, ...]) -> str:
    """Return an extent as text, without trailing dimensions of 1."""
    kept = list(extent)
    while len(kept) > 1 and kept[-1] == 1:
        kept.pop()
    return " x ".join(map(str, kept))


def micro(time: float) -> str:
    """Return microseconds with three digits."""
    return f"{time:,.0f} us" if time >= 100 else f"{time:.3g} us"


def parts(found: Mapping[str, float], most: int = SHOWN) -> str:
    """Return the names and percentages of the largest parts, as text."""
    largest = sorted(found.items(), key=lambda item: -item[1])[:most]
    return ", ".join(f"{name.replace('_', ' ')} {part:.0%}" for name, part in largest if part >= 0.005)


def numbers(warps: list[int]) -> str:
    """Return the numbers of warps as text, with ranges: `0-3,7`."""
    ranges: list[list[int]] = []
    for warp in warps:
        if ranges and ranges[-1][1] == warp - 1:
            ranges[-1][1] = warp
        else:
            ranges.append([warp, warp])
    return ",".join(f"{first}-{last}" if last > first else f"{first}" for first, last in ranges)


def place(line: Waits) -> str:
    """Return the location and the text of a source line."""
    text = f"  {line.text}" if line.text else ""
    return f"{display_path(line.file)}:{line.line}{text[:60]}"
