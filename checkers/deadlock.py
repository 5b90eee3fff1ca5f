"""`deadlock`: no warp can step, and not all have finished; and the wait-for graph behind it.

Detects: every CTA whose warps all wait at named barriers that cannot complete, or have exited; with who waits where,
how many threads each generation has and lacks, which warps could still deliver them and what those wait for, and the
cycle if there is one; and lanes of a warp that wait for each other (B14, `held_back.py`).  A generation that surplus
arrivals opened (B9) is also reported as `oversubscribed`.
Does not detect: waiting in a loop on memory (that ends in the step budget: `incomplete`).  Which warps could still
arrive is read off the control flow, so a branch that a warp would not take counts as possible.
Reference: Sharma, Bauer, Aiken, "Verification of Producer-Consumer Synchronization in GPU Programs" (PLDI 2015),
section 4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wsemu.bytecode import OPCODE, Program
from wsemu.checkers import held_back
from wsemu.finding import Finding, Site, Step
from wsemu.places import CALLS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wsemu.outcome import BarrierState, WarpState
    from wsemu.places import Places

_BRA, _JUMP, _EXIT, _TRAP = (OPCODE[name] for name in ("bra", "jump", "exit", "trap"))


@dataclass(frozen=True, slots=True)
class Group:
    """Warps that wait at the same instruction for the same barrier."""

    warps: tuple[int, ...]
    pc: int
    barrier: int

    def __str__(self) -> str:
        return warps_text(self.warps)


def warps_text(warps: tuple[int, ...] | list[int]) -> str:
    """`warp 3`, `warps 0-3`, `warps 0, 2-4`."""
    runs: list[list[int]] = []
    for warp in sorted(warps):
        if runs and warp == runs[-1][-1] + 1:
            runs[-1].append(warp)
        else:
            runs.append([warp])
    texts = [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
    return f"warp{'s' * (len(warps) > 1)} {', '.join(texts)}"


def reachable(program: Program, pc: int) -> Iterator[int]:
    """Instructions that may run after the one at pc, nearest first."""
    seen, queue = {pc}, [pc]
    for current in queue:
        op, guard, *_, target, _ = program.code[current].tolist()
        following = []
        if op in (_BRA, _JUMP):
            following.append(target)
        if op not in (_JUMP, _TRAP) and not (op == _EXIT and not guard):
            following.insert(0, current + 1)
        for successor in following:
            if successor not in seen:
                seen.add(successor)
                queue.append(successor)
                yield successor


def next_operation(places: Places, pc: int, barrier: int) -> int | None:
    """The nearest operation after pc that may be on this barrier."""
    return next((p for p in reachable(places.program, pc) if places.barrier(p) in (barrier, None)), None)


def explain(places: Places) -> list[Finding]:
    """The findings of a launch that ended in a deadlock."""
    outcome = places.outcome
    waiting = [w for w in outcome.warps if w.waits >= 0 and w.alive]
    groups = _groups(waiting)
    states = {b.barrier: b for b in outcome.barriers}
    edges = {g: _suppliers(places, g, groups) for g in groups}
    starved = [g for g in groups if not _could_complete(places, g, states[g.barrier], edges[g])]
    cycle = [] if starved else _first_missing(places, _cycle(edges), states)
    held = held_back.held_warps(places)
    sites, notes = [site for warp in held for site in held_back.sites(places, warp)], []
    for group in groups:
        sites.append(_waiting_site(places, group, states[group.barrier]))
        sites += _supplier_sites(places, group, edges[group])
    if cycle:
        steps = [text for g in cycle for text in (str(g), f"barrier {g.barrier}")]
        notes.append(f"cycle: {' -> '.join([*steps, str(cycle[0])])}")
    notes += [held_back.RULE] * bool(held) + [held_back.message(places, warp) for warp in held[1:]]
    notes += [_starvation(places, g, states[g.barrier], edges[g]) for g in starved[0 if held else 1 :]]
    exited = [w.warp for w in outcome.warps if not w.alive]
    gone = f"; {warps_text(exited)} {_plural('have', exited)} exited" if exited else ""
    live = len(waiting) + len(held)
    notes.append(f"{live} of {live} live warps{places.in_cta(outcome.cta)} wait{gone}")
    deadlock = Finding(
        code="deadlock",
        message=held_back.message(places, held[0]) if held else _title(places, cycle, starved, states, edges),
        sites=sorted(_unique(sites), key=lambda site: (site.file, site.line, site.column)),
        notes=_unique(notes),
        help=(held_back.remedy(places, held[0]) if held else "")
        or _elsewhere(places, starved, states, groups)
        or _help(places, cycle, starved),
        steps=[step for warp in held for step in held_back.steps(places, warp)]
        + [_wait(places, warp, states[warp.waits]) for warp in waiting],
    )
    return [deadlock, *_surplus(places, groups, states, edges)]


def _title(
    places: Places,
    cycle: list[Group],
    starved: list[Group],
    states: dict[int, BarrierState],
    edges: dict[Group, dict[Group, int]],
) -> str:
    if cycle:
        return _circle(places, cycle)
    return _starvation(places, starved[0], states[starved[0].barrier], edges[starved[0]])


def _wait(places: Places, warp: WarpState, state: BarrierState) -> Step:
    """A warp's last step."""
    return places.step(
        warp.pc, places.outcome.cta, warp.warp, "sync", barrier=state.barrier, generation=state.generation,
        arrived=state.arrived, expected=_count(places, state), mark="waits",
    )  # fmt: skip


def _unique(items: list) -> list:  # type: ignore[type-arg]
    return [item for n, item in enumerate(items) if item not in items[:n]]


def _groups(waiting: list[WarpState]) -> list[Group]:
    places: dict[tuple[int, int], list[int]] = {}
    for warp in waiting:
        places.setdefault((warp.pc, warp.waits), []).append(warp.warp)
    return [Group(tuple(warps), pc, barrier) for (pc, barrier), warps in places.items()]


def _suppliers(places: Places, group: Group, groups: list[Group]) -> dict[Group, int]:
    """Other groups that may still take part in the barrier that `group` waits for, and where they would."""
    found = {}
    for other in groups:
        if other.barrier == group.barrier:
            continue  # it waits for the same generation
        operation = next_operation(places, other.pc, group.barrier)
        if operation is not None:
            found[other] = operation
    return found


def _plural(verb: str, warps: Sequence[int]) -> str:
    """`wait`, `come`, `call` or `have` as said of these warps."""
    return verb if len(warps) != 1 else {"have": "has"}.get(verb, f"{verb}s")


def _count(places: Places, state: BarrierState) -> int:
    """Threads that a generation needs."""
    return state.expected or 32 * sum(bool(w.alive) for w in places.outcome.warps)


def _who(places: Places, group: Group) -> str:
    """`warps 0-3 (compute)`."""
    role = places.role([group.pc])
    return f"{group} ({role})" if role else str(group)


def _waiting_site(places: Places, group: Group, state: BarrierState) -> Site:
    count, verb = _count(places, state), _plural("wait", group.warps)
    text = f"{_who(places, group)} {verb}: barrier {state.barrier} generation {state.generation} has {state.arrived}"
    return places.site(
        group.pc, f"{text} of {count}", cta=places.outcome.cta, warp=group.warps[0], role=places.role([group.pc])
    )


def _supplier_sites(places: Places, group: Group, suppliers: dict[Group, int]) -> list[Site]:
    sites = []
    for supplier, pc in suppliers.items():
        there = f"{places.named(supplier.pc, pc)}, where {supplier} {_plural('wait', supplier.warps)}"
        call = places.named(pc, supplier.pc)  # of the two on one line it is said which
        text = f"{call} " * (call[0] == "`") + f"would release {group}, but follows {there}"
        sites.append(places.site(pc, text, cta=places.outcome.cta, warp=supplier.warps[0], primary=False))
    return sites


def _starvation(places: Places, group: Group, state: BarrierState, suppliers: dict[Group, int]) -> str:
    """Who is missing in a generation that the live warps cannot complete."""
    count = _count(places, state)
    text = f"barrier {state.barrier} generation {state.generation} lacks {count - state.arrived} of {count} threads"
    text += f"{places.in_cta(places.outcome.cta)}: "
    absent = [w for w in places.outcome.warps if w.warp not in state.participants]
    lapped = [w for w in absent if w.warp in state.previous]
    before = f" took part in generation {state.generation - 1} and" if lapped else ""
    exited = [w.warp for w in lapped or absent if not w.alive]
    if exited:
        return f"{text}{warps_text(exited)}{before} {_plural('have', exited)} exited"
    coming = [w for s in suppliers for w in s.warps]
    if coming:
        return f"{text}{warps_text(coming)} alone can still reach it"
    others = [w.warp for w in lapped or absent]
    if not others:
        return f"{text}all warps of the CTA take part already"
    call = _call(places, group).removesuffix(" of ")
    if call and not before:
        return f"{text}{call} is missing"
    missing = f"{_plural('call', others)} no {call} after that" if call else f"never {_plural('come', others)}"
    return f"{text}{warps_text(others)}{before} {missing}"


def _could_complete(places: Places, group: Group, state: BarrierState, suppliers: dict[Group, int]) -> bool:
    """Whether the live warps that may still come are as many as a generation lacks."""
    coming = 32 * sum(len(supplier.warps) for supplier in suppliers)
    return bool(suppliers) and state.arrived + coming >= _count(places, state)


def _cycle(edges: dict[Group, dict[Group, int]]) -> list[Group]:
    """A cycle of the wait-for graph: each waits for a barrier that the next could fill."""
    for start in edges:
        path, node = [start], start
        while edges[node]:
            node = next(iter(edges[node]))
            if node in path:
                return path[path.index(node) :]
            path.append(node)
    return []


def _first_missing(places: Places, cycle: list[Group], states: dict[int, BarrierState]) -> list[Group]:
    """The cycle, turned so that the barrier which is furthest behind comes first: its missing threads are the cause.

    Among equals it is the one that a DMA warp waits on, for a consumer's first arrive opens a pipeline.
    """
    if not cycle:
        return cycle
    order = [(states[g.barrier].generation, places.role([g.pc]) != "DMA", n) for n, g in enumerate(cycle)]
    first = min(order)[2]
    return cycle[first:] + cycle[:first]


def _circle(places: Places, cycle: list[Group]) -> str:
    """`warp 4 (DMA) waits on barrier 3 for ..., which wait on barrier 2 for warp 4`."""
    first, *others = cycle
    where = places.in_cta(places.outcome.cta)
    text = f"{_who(places, first)}{where} {_plural('wait', first.warps)} on barrier {first.barrier} for "
    links = [_who(places, g) + f", which {_plural('wait', g.warps)} on barrier {g.barrier} for " for g in others]
    return f"{text}{_call(places, first)}{''.join(links)}{first}"


def _call(places: Places, group: Group) -> str:
    """`start_async_dma()` of` where a group waits in a transfer pattern for that."""
    other = {"DMA": "compute", "compute": "DMA"}.get(places.role([group.pc]))
    return f"`{CALLS[other][0]}()` of " if other else ""


def _elsewhere(places: Places, starved: Sequence[Group], states: dict[int, BarrierState], groups: list[Group]) -> str:
    """The help where the threads that a barrier lacks have come to another one, on which nobody waits."""
    if not starved:
        return ""
    state, waited = states[starved[0].barrier], {group.barrier for group in groups}
    lacking = _count(places, state) - state.arrived
    for other in states.values():
        if (
            other.barrier not in waited
            and other.arrived >= lacking
            and not {*other.participants} & {*state.participants}
        ):
            return (
                f"{warps_text(other.participants)} came to barrier {other.barrier}, on which nobody waits: give both "
                f"sides the same id, if barrier {state.barrier} was meant"
            )
    return ""


def _help(places: Places, cycle: list[Group], starved: Sequence[Group]) -> str:
    if not cycle and (role := places.role([starved[0].pc])):
        other = "DMA" if role == "compute" else "compute"
        return (
            f"let the {other} warps call `{CALLS[other][0]}()` as often as the {role} warps `{CALLS[other][1]}()`: "
            "look for a missing call, a loop with fewer trips, or a path that returns early"
        )
    if not cycle:
        return (
            f"every generation of barrier {starved[0].barrier} needs all its threads: look for a missing arrive or sync"
            " on it, a loop with fewer trips, or a path that returns early"
        )
    starts = [_start(places, group, cycle[(n + 1) % len(cycle)]) for n, group in enumerate(cycle)]
    sure = _call(places, cycle[0])
    return f"{starts[0]}: it must start without waiting" if sure else f"one side must start: {', or '.join(starts)}"


def _start(places: Places, group: Group, supplier: Group) -> str:
    """What would let `group` go on."""
    call = _call(places, group).removesuffix(" of ")
    what = f"call {call} in {supplier}" if call else f"let {supplier} arrive on barrier {group.barrier}"
    return f"{what} before line {places.line(supplier.pc)}"


def _surplus(
    places: Places, groups: list[Group], states: dict[int, BarrierState], edges: dict[Group, dict[Group, int]]
) -> list[Finding]:
    """B9: warps that had no place in the last generation opened the next one, which nobody can complete."""
    findings = []
    for group in groups:
        state = states[group.barrier]
        late = [w for w in state.participants if w not in state.previous]
        if state.generation == 0 or edges[group] or late != state.participants or not state.expected:
            continue
        users = sorted({*state.participants, *state.previous})
        if len(users) * 32 <= state.expected:
            continue
        message = f"barrier {state.barrier} counts {state.expected} threads, but {len(users) * 32} use it"
        message += places.in_cta(places.outcome.cta).replace(" of ", " in ", 1)
        text = (
            f"{warps_text(late)}: surplus, opens generation {state.generation} with {state.arrived} of {state.expected}"
        )
        site = places.site(group.pc, text, cta=places.outcome.cta, warp=late[0])
        help_ = f"count every thread that takes part: {len(users) * 32}"
        steps = [_wait(places, w, state) for w in places.outcome.warps if w.warp in late and w.waits == group.barrier]
        findings.append(Finding(code="oversubscribed", message=message, sites=[site], help=help_, steps=steps))
    return findings
