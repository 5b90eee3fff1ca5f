"""Lines of text about a replay, after the finding whose schedule was executed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.evidence.readings import format_steps
from wsemu.report.diagnostic import finding_lines, wrap_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wsemu.launch.replay.run import Order, Replay
    from wsemu.model.finding import Finding
    from wsemu.report.diagnostic import Line

_DOES = {"load": "loads", "store": "stores", "atomic": "leaves"}
_ENDS = {"done": "the CTA comes to its end all the same", "trap": "it stops at something that is not modelled"}


def replay_lines(finding: Finding, replay: Replay, width: int) -> Iterator[Line]:
    """Yield the finding with the schedule as it was executed, and the result."""
    executed = {"schedule": format_steps(replay.steps), "schedule_steps": len(replay.steps)}
    yield from finding_lines(finding.model_copy(update=executed), width)
    yield []
    count = len(replay.steps)
    yield [(f"replayed {count} step{'s' * (count > 1)}", "strong"), (":", "")]
    for text in _outcome(finding, replay):
        for line in wrap_text(f"  {text}", width, "    "):
            yield [(line, "")]
    if replay.path:
        yield [("  on the way:", "")]
        for text in format_steps(replay.path):
            yield [(f"    {text}", "")]


def _outcome(finding: Finding, replay: Replay) -> Iterator[str]:
    if replay.orders:
        yield from (_order(order, replay.element) for order in replay.orders)
        values = {(*sorted(f"{m.mark} {m.value}" for m in order.made), order.left) for order in replay.orders}
        same = "the values are the same in both orders, with these arguments: nothing says that they stay so"
        yield same if len(values) == 1 else f"the order decides what `{replay.element}` gives"
        return
    if any(step.lane is not None for step in replay.steps):
        yield from _atomic_order_lines(finding, replay)
        return
    swapped = finding.code == "barrier-recycling"
    if replay.end == "deadlock" and finding.code in replay.codes:
        yield f"run in order, the CTA meets `{finding.code}` there"
    if replay.end == "deadlock":
        yield f"{'continued in order' if swapped else 'run in order'}, the CTA ends in a deadlock:"
        for w in replay.waiting:
            has = f"generation {w.generation} has {w.arrived} of {w.expected}"
            yield f"warp {w.warp} waits at line {w.line}: barrier {w.barrier} {has}"
        yield from (f"warp {w.warp} waits at line {w.line}: {w.place}" for w in replay.phases)
        yield from (f"warp {warp}: its lanes wait for each other" for warp in replay.held)
    elif replay.end == "fault":
        codes = ", ".join(f"`{code}`" for code in dict.fromkeys(replay.codes))
        yield f"the CTA stops in a fault{': ' * bool(codes)}{codes}"
    elif not swapped:
        yield f"run in order, the CTA meets `{finding.code}` there"
    else:
        yield f"continued in order, {_ENDS.get(replay.end, f'it ends: {replay.end}')}, with generations swapped"


def _atomic_order_lines(finding: Finding, replay: Replay) -> Iterator[str]:
    if replay.end == "deadlock":
        yield "in this order of atomics, the launch ends in a deadlock:"
        yield from (f"warp {w.warp} waits at line {w.line} for {w.place}" for w in replay.phases)
    else:
        yield f"in this order of atomics, the launch meets `{finding.code}` there"


def _order(order: Order, element: str) -> str:
    """Return a text such as `(2) before (1): `tile[0]`: (2) loads 1.0, (1) stores 2.0; then it holds 2.0`."""
    parts = [f"{made.mark} {_DOES.get(made.does, made.does)} {made.value}" for made in order.made]
    note = f" (hardware may do that, by showing a store late; here {order.why_not})" if order.why_not else ""
    return (
        f"{order.marks[0]} before {order.marks[1]}: `{element}`: {', '.join(parts)}; then it holds {order.left}{note}"
    )
