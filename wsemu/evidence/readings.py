"""Steps of a launch that show a finding, and their words (`schedule.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wsemu.model.isa import NAMES, step_word

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wsemu.evidence.places import Places
    from wsemu.model.finding import Step
    from wsemu.model.outcome import RawFinding, Trace

from wsemu.evidence.schedule import Witness

_MOST_READINGS = 16
"""maximum number of readings kept of one trace"""


def reading(places: Places, trace: Trace, ctas: Iterable[int]) -> Witness:
    """Return the part of a trace that belongs to some CTAs.  It is computed once for all findings about them."""
    wanted = frozenset(ctas)
    if wanted not in trace.readings:
        if len(trace.readings) == _MOST_READINGS:
            del trace.readings[next(iter(trace.readings))]
        trace.readings[wanted] = Witness(places, trace, wanted)
    found: Witness = trace.readings[wanted]
    return found


def around(places: Places, *ctas: int) -> Iterable[int]:
    """Return the CTAs whose operations belong in a schedule about some CTAs: these CTAs, and, if racing accesses
    influence warps, all CTAs that ran in between."""
    return range(min(ctas), max(ctas) + 1) if places.depends_on_races() else ctas


def culprit(raw: RawFinding, places: Places) -> Step:
    """Return a schedule whose only step is the operation that is wrong by itself.  Running the CTA in order reaches
    it."""
    does = step_word(NAMES[int(places.program.code[raw.pc, 0])])
    place: dict[str, Any] = {}
    if places.verb(raw.pc) == "barrier":
        place = {name: raw.detail.get(name) for name in ("barrier", "generation")}
    elif "address" in raw.detail:
        place = {"what": places.access_text(raw.pc, raw.detail["address"])}
    elif "index" in raw.detail and places.counts_bytes(raw.pc):
        place = {"what": f"byte {raw.detail['index']} of {places.program.array_of[raw.pc]}"}
    return places.step(raw.pc, raw.cta, raw.warp, does, mark="(1)", **place)


def format_steps(steps: list[Step]) -> list[str]:
    """Return the lines of a schedule, numbered and aligned, for the steps that are shown."""
    shown = [step for step in steps if step.shown]
    ctas = len({step.cta for step in shown}) > 1
    rows = [_cells(step, ctas) for step in shown]
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = []
    for number, row in enumerate(rows, 1):
        cells = [text.ljust(width) for text, width in zip(row, widths, strict=True)]
        lines.append(f"{number:>{len(str(len(rows)))}} {cells[0]}  {cells[1]} " + "  ".join(cells[2:]).rstrip())
    return lines


def _cells(step: Step, ctas: bool) -> list[str]:
    """Return the cells of a step: actor, action, object, location, and the rest."""
    who = f"CTA {step.cta} warp {step.warp}" if ctas else f"warp {step.warp}"
    who += "" if step.lane is None else f" lane {step.lane}"
    what = step.what if step.barrier is None else f"barrier {step.barrier}"
    what += "" if step.generation is None else f" gen {step.generation}"
    rest = [step.when, step.mark]
    if step.arrived is not None:
        count = f"{step.arrived}/{step.expected}" if step.expected else f"{step.arrived} arrived"
        rest.insert(0, f"{count} complete" if step.arrived == step.expected else count)
    return [who, step.does, what, f":{step.line}", "  ".join(text for text in rest if text)]
