"""`deadlock`: no warp can step, and not all have finished; and the wait-for graph behind it.

Detects: every CTA whose warps all wait at named barriers that cannot complete, or have exited; with who waits where,
how many threads each generation has and lacks, which warps could still deliver them and what those wait for, and the
cycle if there is one.  A generation that surplus arrivals opened (B9) is also reported as `oversubscribed`.
Does not detect: waiting in a loop on memory (that ends in the step budget: `incomplete`).  Which warps could still
arrive is read off the control flow, so a branch that a warp would not take counts as possible.
Reference: Sharma, Bauer, Aiken, "Verification of Producer-Consumer Synchronization in GPU Programs" (PLDI 2015),
section 4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wsemu.bytecode import NAMES, OPCODE, Program
from wsemu.finding import Finding, Site, Step

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wsemu.outcome import BarrierState, WarpState
    from wsemu.places import Places

_BARRIERS = {OPCODE[name]: name for name in ("bar.sync", "bar.arrive", "bar.red.popc", "bar.red.and", "bar.red.or")}
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
    """`warp 3`, `warps 0-3`, `warps 0, 2`."""
    ordered = sorted(warps)
    if len(ordered) == 1:
        return f"warp {ordered[0]}"
    if ordered[-1] - ordered[0] == len(ordered) - 1:
        return f"warps {ordered[0]}-{ordered[-1]}"
    return f"warps {', '.join(map(str, ordered))}"


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


def barrier_of(program: Program, pc: int) -> int | None:
    """The barrier that the operation at pc names, if that is a constant; -1 if it is no barrier operation."""
    if int(program.code[pc, 0]) not in _BARRIERS:
        return -1
    row = int(program.code[pc, 3])
    return next((int(c.value) for c in program.constants if c.row == row), None)


def next_operation(program: Program, pc: int, barrier: int) -> int | None:
    """The nearest operation after pc that may be on this barrier."""
    return next((p for p in reachable(program, pc) if barrier_of(program, p) in (barrier, None)), None)


def explain(places: Places) -> list[Finding]:
    """The findings of a launch that ended in a deadlock."""
    outcome = places.outcome
    waiting = [w for w in outcome.warps if w.waits >= 0 and w.alive]
    groups = _groups(waiting)
    states = {b.barrier: b for b in outcome.barriers}
    edges = {g: _suppliers(places.program, g, groups) for g in groups}
    sites, notes = [], []
    for group in groups:
        sites.append(_waiting_site(places, group, states[group.barrier]))
        sites += _supplier_sites(places, group, edges[group])
        notes += _missing_note(places, group, states[group.barrier], edges[group])
    starved = {g for g in groups if not _could_complete(places, g, states[g.barrier], edges[g])}
    cycle = _cycle(edges)
    if cycle:
        steps = [text for g in cycle for text in (str(g), f"barrier {g.barrier}")]
        notes.insert(0, f"cycle: {' -> '.join([*steps, str(cycle[0])])}")
    exited = [w.warp for w in outcome.warps if not w.alive]
    if exited:
        notes.append(f"{warps_text(exited)} {_plural('have', exited)} exited")
    deadlock = Finding(
        code="deadlock",
        message=f"{len(waiting)} of {len(waiting)} live warps{places.in_cta(outcome.cta)} wait on named barriers that "
        "cannot complete",
        sites=sorted(_unique(sites), key=lambda site: (site.file, site.line, site.column)),
        notes=_unique(notes),
        help=_help(places, groups, edges, [] if starved else cycle, starved),
        steps=[_wait(places, warp, states[warp.waits]) for warp in waiting],
    )
    return [deadlock, *_surplus(places, groups, states, edges)]


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


def _suppliers(program: Program, group: Group, groups: list[Group]) -> dict[Group, int]:
    """Other groups that may still take part in the barrier that `group` waits for, and where they would."""
    found = {}
    for other in groups:
        if other.barrier == group.barrier:
            continue  # it waits for the same generation
        operation = next_operation(program, other.pc, group.barrier)
        if operation is not None:
            found[other] = operation
    return found


def _plural(verb: str, warps: Sequence[int]) -> str:
    """`wait` or `have` as said of these warps."""
    return verb if len(warps) != 1 else {"wait": "waits", "have": "has"}[verb]


def _count(places: Places, state: BarrierState) -> int:
    """Threads that a generation needs."""
    return state.expected or 32 * sum(bool(w.alive) for w in places.outcome.warps)


def _waiting_site(places: Places, group: Group, state: BarrierState) -> Site:
    count, verb = _count(places, state), _plural("wait", group.warps)
    role = places.role([group.pc])
    who = f"{group} ({role})" if role else str(group)
    text = f"{who} {verb}: barrier {state.barrier} generation {state.generation} has {state.arrived} of {count}"
    return places.site(group.pc, text, cta=places.outcome.cta, warp=group.warps[0], role=role)


def _supplier_sites(places: Places, group: Group, suppliers: dict[Group, int]) -> list[Site]:
    sites = []
    for supplier, pc in suppliers.items():
        there = f"{places.near(supplier.pc, pc)}, where {supplier} {_plural('wait', supplier.warps)}"
        text = f"would release {group}, but follows {there}"
        sites.append(places.site(pc, text, cta=places.outcome.cta, warp=supplier.warps[0], primary=False))
    return sites


def _missing_note(places: Places, group: Group, state: BarrierState, suppliers: dict[Group, int]) -> list[str]:
    """Who is missing in a generation that no live warp can complete."""
    if _could_complete(places, group, state, suppliers):
        return []
    missing = _count(places, state) - state.arrived
    text = f"barrier {state.barrier} generation {state.generation} lacks {missing} threads, and "
    text += f"{warps_text([w for s in suppliers for w in s.warps])} alone" if suppliers else "no live warp"
    text += " can still reach it" if suppliers else " reaches it again"
    exited = [w.warp for w in places.outcome.warps if not w.alive and w.warp not in state.participants]
    lapped = [w for w in exited if w in state.previous and w not in state.participants]
    if lapped:
        text += f": {warps_text(lapped)} took part in generation {state.generation - 1}"
        text += f" and {_plural('have', lapped)} exited"
    elif exited:
        text += f": it waits for warps that have exited ({warps_text(exited)})"
    return [text]


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


def _help(
    places: Places, groups: list[Group], edges: dict[Group, dict[Group, int]], cycle: list[Group], starved: set[Group]
) -> str:
    if cycle:
        supplier, pc = next(iter(edges[cycle[0]].items()))
        name = NAMES[int(places.program.code[pc, 0])].removeprefix("bar.")
        there = f"{places.near(pc, supplier.pc)} before {places.near(supplier.pc, pc)}"
        return f"move the {name} on {there}, or let one side start without waiting"
    first = next((g for g in groups if g in starved), groups[0])
    return (
        f"every generation of barrier {first.barrier} needs all its threads: look for a missing arrive or sync on it,"
        " a loop with fewer trips, or a path that returns early"
    )


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
