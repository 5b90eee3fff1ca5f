"""`deadlock`: warps are left, and none of them can make a step.  The wait-for graph of the warps gives the reason.

Detects: every CTA whose warps have all exited or wait: at named barriers that cannot complete, for phases of mbarriers
(`phase_waits.py`), for registers (`setmaxnreg.py`) or for other objects (`object_waits.py`).  The finding shows where
each warp waits.  For each generation it gives the number of arrived and missing threads, for each phase the number of
missing arrivals and bytes.  It also shows which warps could still deliver them, what these warps wait for, and the
cycle if there is one.  It also detects lanes of a warp that wait for each other (B14, `held_back.py`).  A generation
that surplus arrivals opened (B9) is also reported as `oversubscribed`.
Does not detect: loops that wait for a change in memory (they exhaust the step budget, and the launch is `incomplete`).
A warp counts as able to arrive if its control flow graph contains a path to an arrive, even if the warp would not take
this path.
Reference: Sharma, Bauer, Aiken, "Verification of Producer-Consumer Synchronization in GPU Programs" (PLDI 2015),
section 4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.checkers import held_back, object_waits, phase_waits, setmaxnreg, words
from wsemu.checkers.phase_waits import Ledger
from wsemu.evidence.places import CALLS, INSIDE, lanes_text
from wsemu.model.control_flow import reachable
from wsemu.model.data import dataclass
from wsemu.model.finding import Finding, Site, Step, with_role
from wsemu.model.remedy import Cures

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wsemu.evidence.places import Places
    from wsemu.model.outcome import BarrierState, Tracer, WarpState
    from wsemu.model.settings import Settings

CODES = ("deadlock",)
CURES = {
    "deadlock": Cures(
        460, "argument constant call return delete insert move compare bound split unguard stage index pair guard"
    ),
}
TRACED = True


@dataclass(frozen=True, slots=True)
class Group:
    """Warps that wait at the same instruction for the same barrier, or for the same phase of an mbarrier."""

    warps: tuple[int, ...]
    pc: int
    barrier: int
    """number of the named barrier; -1 for an mbarrier"""
    address: int = -1
    phase: int = -1
    lanes: int = 0
    """waiting lanes, if only a part of a warp waits"""

    def __str__(self) -> str:
        return f"{lanes_text(self.lanes)} of {warps_text(self.warps)}" if self.lanes else warps_text(self.warps)

    @property
    def place(self) -> tuple[int, int]:
        """The barrier or mbarrier on which the group waits."""
        return self.barrier, self.address


def warps_text(warps: tuple[int, ...] | list[int]) -> str:
    """Return `warp 3`, `warps 0-3` or `warps 0, 2-4`."""
    runs: list[list[int]] = []
    for warp in sorted(warps):
        if runs and warp == runs[-1][-1] + 1:
            runs[-1].append(warp)
        else:
            runs.append([warp])
    texts = [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
    return f"warp{'s' * (len(warps) > 1)} {', '.join(texts)}"


def next_operation(places: Places, pc: int, barrier: int) -> int | None:
    """Return the nearest operation after pc that may be on this barrier."""
    ahead = (p for p in reachable(places.program, pc) if p != pc)
    return next((p for p in ahead if places.barrier(p) in (barrier, None)), None)


@dataclass(frozen=True, slots=True)
class _Waits:
    """The wait-for relation of a deadlocked CTA."""

    places: Places
    ledger: Ledger
    states: dict[int, BarrierState]
    groups: list[Group]
    edges: dict[Group, dict[Group, int]]
    """for each group, the groups that could release it, each with the instruction that would"""
    starved: list[Group]
    """groups that the live warps cannot release"""
    cycle: list[Group]

    def starvation(self, group: Group) -> str:
        """Return a text for the missing threads, arrivals or bytes."""
        if group.barrier < 0:
            return _lacking(self, group)
        return _starvation(self.places, group, self.states[group.barrier], self.edges[group])


def examine(places: Places, settings: Settings, trace_of: Tracer) -> list[Finding]:
    """Return the findings of a launch that ended in a deadlock."""
    outcome = places.outcome
    waiting = [w for w in outcome.warps if w.waits >= 0 and w.alive]
    waits = _examine_waits(places, _groups(waiting), trace_of)
    held, registers = held_back.held_warps(places), setmaxnreg.waiting(places)
    sites, notes = [site for warp in held for site in held_back.sites(places, warp)], []
    sites += _register_sites(places, registers) + object_waits.sites(places)
    for warp, pc in [*registers.items(), *((wait.warp, wait.pc) for wait in outcome.object_waits)]:
        sites += places.callers(pc, f"warp {warp}")
    for group in waits.groups:
        sites.append(_waiting_site(waits, group))
        sites += _supplier_sites(places, group, waits.edges[group])
        sites += places.callers(group.pc, str(group))
    if waits.cycle:
        steps = [text for g in waits.cycle for text in (str(g), _what(places, g))]
        notes.append(f"cycle: {' -> '.join([*steps, str(waits.cycle[0])])}")
    if registers:
        sites += setmaxnreg.givers(places)
        notes += [text for text in (setmaxnreg.account(places) or setmaxnreg.budget(places),) if text]
    notes += [held_back.RULE] * bool(held) + [held_back.message(places, warp) for warp in held[1:]]
    told = waits.groups if waits.cycle else waits.starved[:1]
    notes += [text for g in told if g.barrier < 0 for text in _accounts(waits, g)]
    shown = {site.line for site in sites}
    notes += [text for g in told if g.barrier < 0 for text in words.origin_notes(places, g.address, g.pc, shown)]
    notes += [waits.starvation(g) for g in waits.starved[0 if held or registers else 1 :]]
    exited = [w.warp for w in outcome.warps if not w.alive]
    gone = f"; {warps_text(exited)} {_plural('have', exited)} exited" if exited else ""
    stuck = {w.warp for w in (*waiting, *held)} | {w.warp for w in outcome.phase_waits} | {*registers}
    stuck |= {w.warp for w in outcome.object_waits}
    notes.append(f"{len(stuck)} of {len(stuck)} live warps{places.cta_text(outcome.cta)} wait{gone}")
    notes += _elsewhere_waiting(places)
    deadlock = Finding(
        code="deadlock",
        message=held_back.message(places, held[0]) if held else _title(waits, registers),
        sites=sorted(_unique(sites), key=lambda site: (site.text in INSIDE, site.file, site.line, site.column)),
        notes=_unique(notes),
        help=(
            held_back.remedy(places, held[0])
            if held
            else setmaxnreg.remedy(places, next(iter(registers.values())))
            if registers
            else ""
        )
        or next((object_waits.wait_help(wait) for wait in outcome.object_waits if object_waits.leads(wait)), "")
        or _elsewhere(places, [g for g in waits.starved if g.barrier >= 0], waits.states, waits.groups)
        or _help(waits),
        steps=[step for warp in held for step in held_back.steps(places, warp)]
        + [_wait(places, warp, waits.states[warp.waits]) for warp in waiting]
        + _phase_steps(places)
        + object_waits.steps(places),
    )
    return [deadlock, *_surplus(places, waits)]


def _elsewhere_waiting(places: Places) -> list[str]:
    """Return notes on warps that wait in other CTAs of the cluster or grid, three at most."""
    where: dict[str, None] = {}
    for cta, warp, pc in places.outcome.elsewhere if places.outcome.group != (1, 1, 1) else ():
        where[f"{places.who(cta, warp)} waits at {places.where(pc)}"] = None
    left, of = len(where) - 3, places.together
    more = [f"{left} more warps of the {of} wait" if left > 1 else f"1 more warp of the {of} waits"] * (left > 0)
    return [*list(where)[:3], *more]


def _examine_waits(places: Places, barriers: list[Group], trace_of: Tracer) -> _Waits:
    outcome = places.outcome
    groups = [*barriers, *_phase_groups(places)]
    alone = None if places.depends_on_races() else outcome.cta
    trace = trace_of(frozenset(), alone) if len(groups) > len(barriers) else None
    clustered = outcome.group != (1, 1, 1)  # contributions of other CTAs cannot be told apart here
    ledger = Ledger(places, None if clustered else trace, outcome.cta)
    states = {b.barrier: b for b in outcome.barriers}
    edges = {g: _suppliers(places, ledger, g, groups) for g in groups}
    starved = [
        g for g in groups
        if not (edges[g] if g.barrier < 0 else _could_complete(places, g, states[g.barrier], edges[g]))
    ]  # fmt: skip
    starved = [g for g in groups if g.barrier < 0 and ledger.out_of_balance(g.address)] or starved
    cycle = [] if starved else _first_missing(places, _cycle(edges), states)
    return _Waits(places, ledger, states, groups, edges, starved, cycle)


def _phase_groups(places: Places) -> list[Group]:
    """Return the groups of warps, or parts of a warp, that wait at one instruction for one phase."""
    alive = {w.warp: w.alive for w in places.outcome.warps}
    found: dict[tuple[int, int, int, int], list[int]] = {}
    for wait in places.outcome.phase_waits:
        part = 0 if wait.lanes == alive.get(wait.warp, wait.lanes) else wait.lanes
        found.setdefault((wait.pc, wait.address, wait.phase, part), []).append(wait.warp)
    return [
        Group((warp,), pc, -1, address, phase, part) if part else Group(tuple(warps), pc, -1, address, phase)
        for (pc, address, phase, part), warps in found.items()
        for warp in (warps if part else warps[:1])
    ]


def _what(places: Places, group: Group) -> str:
    """Return `barrier 2`, or `` `full[1]` phase 2``."""
    if group.barrier >= 0:
        return f"barrier {group.barrier}"
    name = words.quote_element(places, group.address, group.pc) + phase_waits.buffer(places, group.address)
    return f"{name} phase {group.phase}" if group.phase >= 0 else name


def _register_sites(places: Places, waiting: dict[int, int]) -> list[Site]:
    by_pc: dict[int, list[int]] = {}
    for warp, pc in waiting.items():
        by_pc.setdefault(pc, []).append(warp)
    return [
        places.site(
            pc,
            f"{warps_text(warps)} {_plural('wait', warps)} for {int(places.program.code[pc, 6])} registers per thread",
            cta=places.outcome.cta, warp=warps[0],
        )
        for pc, warps in by_pc.items()
    ]  # fmt: skip


def _phase_steps(places: Places) -> list[Step]:
    """Return the last steps of the warps that wait for phases or registers."""
    cta = places.outcome.cta
    phases = [Group((w.warp,), w.pc, -1, w.address, w.phase) for w in places.outcome.phase_waits]
    found = [
        places.step(g.pc, cta, g.warps[0], "mbarrier.wait", what=_what(places, g).replace("`", ""), mark="waits")
        for g in phases
    ]
    registers = setmaxnreg.waiting(places).items()
    return found + [places.step(pc, cta, warp, "setmaxnreg.inc", mark="waits") for warp, pc in registers]


def _title(waits: _Waits, registers: dict[int, int]) -> str:
    if registers:
        warps, count = [*registers], int(waits.places.program.code[next(iter(registers.values())), 6])
        where = waits.places.cta_text(waits.places.outcome.cta)
        text = f"{warps_text(warps)}{where} {_plural('wait', warps)} for {count} registers per thread"
        text += ", which no warp releases"
        budget = setmaxnreg.budget(waits.places)
        return f"{text}: {budget}" if budget.startswith("needs") else text
    objects = waits.places.outcome.object_waits
    if objects and (not waits.groups or object_waits.leads(objects[0])):
        return object_waits.message(waits.places, objects[0])
    if not waits.groups:
        return f"no warp{waits.places.cta_text(waits.places.outcome.cta)} can continue"
    return _circle(waits.places, waits.cycle) if waits.cycle else waits.starvation(waits.starved[0])


def _lacking(waits: _Waits, group: Group) -> str:
    """Return `` `full[1]`, phase 2: 4,096 bytes missing, 0 arrivals missing: warp 3 has exited``."""
    places, ledger = waits.places, waits.ledger
    name = words.quote_element(places, group.address, group.pc) + phase_waits.buffer(places, group.address)
    phase = f", phase {group.phase}" if group.phase >= 0 else ""
    text = f"{name}{phase}{places.cta_text(places.outcome.cta)}: {ledger.lacks(group.address, group.phase)}"
    if ledger.state(group.address) is None:
        return text
    odd, coming = ledger.out_of_balance(group.address), [w for s in waits.edges[group] for w in s.warps]
    if coming and not odd:
        return f"{text}; {warps_text(coming)} could still {ledger.supply_verb(group.address)}"
    exited = {w.warp for w in places.outcome.warps if not w.alive}
    gone = sorted(ledger.users(group.address) & exited - set(group.warps))
    if gone:
        did = ledger.use_text(group.address, gone)
        return f"{text}; {warps_text(gone)}, which {did} before, {_plural('have', gone)} exited"
    of_cta = " of this CTA" if places.outcome.group != (1, 1, 1) else ""
    return text if odd else f"{text}; no running warp{of_cta} can still {ledger.supply_verb(group.address)}"


def _accounts(waits: _Waits, group: Group) -> list[str]:
    """Return notes on the operations in the phase that a group waits for, in the one before, and on other objects."""
    ledger, address, phase = waits.ledger, group.address, group.phase
    exited = [w.warp for w in waits.places.outcome.warps if not w.alive]
    name = words.quote_element(waits.places, address, group.pc)
    texts = []
    if ledger.complete and (done := ledger.account(address, phase, group.pc)):
        texts.append(f"{name}, phase {phase}: {done}")
    if history := ledger.history(address, phase, group.pc, exited):
        texts.append(f"{name}: {history}")
    state = ledger.state(address)
    if state is not None and state.tx > 0 and (elsewhere := ledger.elsewhere(address, group.pc)):
        texts.append(elsewhere)
    return texts


def _wait(places: Places, warp: WarpState, state: BarrierState) -> Step:
    """Return a warp's last step."""
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


def _suppliers(places: Places, ledger: Ledger, group: Group, groups: list[Group]) -> dict[Group, int]:
    """Return the other groups that may still arrive at the barrier or phase that `group` waits for, each with the
    instruction that would."""
    found = {}
    for other in groups:
        if other.place == group.place:
            continue  # it waits for the same generation
        if group.barrier < 0:
            operation = ledger.next_supply(other.pc, group.address)
        else:
            operation = next_operation(places, other.pc, group.barrier)
        if operation is not None:
            found[other] = operation
    return found


def _plural(verb: str, warps: Sequence[int]) -> str:
    """Return a verb, such as `wait` or `have`, in the form for these warps."""
    return verb if len(warps) != 1 else {"have": "has"}.get(verb, f"{verb}s")


def _count(places: Places, state: BarrierState) -> int:
    """Return the number of threads that a generation needs."""
    return state.expected or 32 * sum(bool(w.alive) for w in places.outcome.warps)


def _who(places: Places, group: Group) -> str:
    """Return `warps 0-3 (compute)`."""
    return with_role(str(group), places.role([group.pc]))


def _waiting_site(waits: _Waits, group: Group) -> Site:
    places, verb = waits.places, "wait" if group.lanes.bit_count() > 1 else _plural("wait", group.warps)
    if group.barrier < 0:
        text = f"{_who(places, group)} {verb} for {_what(places, group)}: "
        text += waits.ledger.lacks(group.address, group.phase)
        return places.site(group.pc, text, cta=places.outcome.cta, warp=group.warps[0])
    state = waits.states[group.barrier]
    count = _count(places, state)
    text = f"{_who(places, group)} {verb}: barrier {state.barrier} generation {state.generation} has {state.arrived}"
    return places.site(
        group.pc, f"{text} of {count}", cta=places.outcome.cta, warp=group.warps[0], role=places.role([group.pc])
    )


def _supplier_sites(places: Places, group: Group, suppliers: dict[Group, int]) -> list[Site]:
    sites = []
    for supplier, pc in suppliers.items():
        there = places.line_text(supplier.pc, pc)
        call = places.line_text(pc, supplier.pc)  # distinguishes two operations on one line
        by = f"with {call}" if call[0] == "`" else "here"
        text = f"{supplier} would release {group} {by}, but {_plural('wait', supplier.warps)} at {there}"
        sites.append(places.site(pc, text, cta=places.outcome.cta, warp=supplier.warps[0], primary=False))
    return sites


def _starvation(places: Places, group: Group, state: BarrierState, suppliers: dict[Group, int]) -> str:
    """Return the missing participants of a generation that the live warps cannot complete."""
    count = _count(places, state)
    text = (
        f"barrier {state.barrier} generation {state.generation} is missing {count - state.arrived} of {count} threads"
    )
    text += f"{places.cta_text(places.outcome.cta)}: "
    absent = [w for w in places.outcome.warps if w.warp not in state.participants]
    lapped = [w for w in absent if w.warp in state.previous]
    after = f" after generation {state.generation - 1}" if lapped else ""
    exited = [w.warp for w in lapped or absent if not w.alive]
    if exited:
        return f"{text}{warps_text(exited)} {_plural('have', exited)} exited{after}"
    coming = [w for s in suppliers for w in s.warps]
    if coming:
        return f"{text}only {warps_text(coming)} can still reach it"
    others = [w.warp for w in lapped or absent]
    if not others:
        return f"{text}all warps of the CTA participate already"
    call = _call(places, group).removesuffix(" of ")
    if call and not after:
        return f"{text}{call} is missing"
    missing = f"did not call {call}" if call else f"never {_plural('arrive', others)}"
    return f"{text}{warps_text(others)} {missing}{after}"


def _could_complete(places: Places, group: Group, state: BarrierState, suppliers: dict[Group, int]) -> bool:
    """Return whether enough live warps may still arrive to complete a generation."""
    coming = 32 * sum(len(supplier.warps) for supplier in suppliers)
    return bool(suppliers) and state.arrived + coming >= _count(places, state)


def _cycle(edges: dict[Group, dict[Group, int]]) -> list[Group]:
    """Return a cycle of the wait-for graph: each group waits for a barrier that the next one could complete."""
    for start in edges:
        path, node = [start], start
        while edges[node]:
            node = next(iter(edges[node]))
            if node in path:
                return path[path.index(node) :]
            path.append(node)
    return []


def _first_missing(places: Places, cycle: list[Group], states: dict[int, BarrierState]) -> list[Group]:
    """Return the cycle, rotated so that the barrier with the earliest generation comes first: its missing threads are
    the cause.

    Among equal generations, the barrier on which a DMA warp waits comes first, because a consumer's first arrive starts
    a pipeline.
    """
    if not cycle:
        return cycle
    order = [
        (states[g.barrier].generation if g.barrier >= 0 else g.phase, places.role([g.pc]) != "DMA", n)
        for n, g in enumerate(cycle)
    ]
    first = min(order)[2]
    return cycle[first:] + cycle[:first]


def _circle(places: Places, cycle: list[Group]) -> str:
    """Return `warp 4 (DMA) waits on barrier 3 for ..., which wait on barrier 2 for warp 4`."""
    first, *others = cycle
    where = places.cta_text(places.outcome.cta)
    text = f"{_who(places, first)}{where} {_plural('wait', first.warps)} on {_what(places, first)} for "
    links = [_who(places, g) + f", which {_plural('wait', g.warps)} on {_what(places, g)} for " for g in others]
    return f"{text}{_call(places, first)}{''.join(links)}{first}"


def _call(places: Places, group: Group) -> str:
    """Return `` `start_async_dma()` of `` if a group waits for that call inside of a transfer pattern, else nothing."""
    other = {"DMA": "compute", "compute": "DMA"}.get(places.role([group.pc]))
    return f"`{CALLS[other][0]}()` of " if other else ""


def _elsewhere(places: Places, starved: Sequence[Group], states: dict[int, BarrierState], groups: list[Group]) -> str:
    """Return the help for a barrier whose missing threads have reached another one, on which no thread waits."""
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
                f"{warps_text(other.participants)} arrived on barrier {other.barrier}, on which no warp waits: use the "
                f"same id on both sides if barrier {state.barrier} is meant"
            )
    return ""


def _help(waits: _Waits) -> str:
    places, cycle, starved = waits.places, waits.cycle, waits.starved
    if not waits.groups:
        others = places.outcome.object_waits
        return object_waits.wait_help(others[0]) if others else "check where the warps wait"
    if not cycle and starved[0].barrier < 0:
        first = starved[0]
        own = [(g.pc, g.address) for g in starved if g.barrier < 0 and waits.ledger.next_supply(g.pc, g.address)]
        parity = phase_waits.first_parity(waits.ledger, own)
        if late := phase_waits.missed_phase_help(waits.ledger, first.address, first.phase, first.pc, first.warps):
            return late
        phases = [(g.pc, g.address, g.phase, g.warps) for g in waits.groups if g.barrier < 0]
        if early := phase_waits.skipped_phase_help(waits.ledger, phases):
            return early
        help_ = phase_waits.phase_help(waits.ledger, first.address, first.phase, first.pc)
        return f"{help_}; {parity}" if parity else help_
    if not cycle and (role := places.role([starved[0].pc])):
        other = "DMA" if role == "compute" else "compute"
        return (
            f"call `{CALLS[other][0]}()` in the {other} warps as often as `{CALLS[other][1]}()` in the {role} warps: "
            "look for a missing call, a loop with fewer iterations, or an early return"
        )
    if not cycle:
        return (
            f"every generation of barrier {starved[0].barrier} needs all its threads: look for a missing arrive or "
            "sync on it, a loop with fewer iterations, or an early return"
        )
    later = ((g, {warp for supplier in waits.edges[g] for warp in supplier.warps}) for g in cycle if g.barrier < 0)
    if short := phase_waits.too_few(waits.ledger, [(g.pc, g.address, g.phase, warps) for g, warps in later]):
        return short
    opening = all(group.barrier < 0 and group.phase == 0 for group in cycle)
    filling = [n for n, group in enumerate(cycle) if opening and phase_waits.precedes_copies(places, group.pc)]
    openers = filling if len(filling) == 1 else [*range(len(cycle))]
    starts = [_start(places, cycle[n], cycle[(n + 1) % len(cycle)]) for n in openers]
    if _call(places, cycle[0]):
        return f"{starts[0]}: it must start without waiting"
    parity = phase_waits.first_parity(waits.ledger, [(g.pc, g.address) for g in cycle if g.barrier < 0])
    return f"one side must start: {', or '.join([parity] if parity else starts)}"


def _start(places: Places, group: Group, supplier: Group) -> str:
    """Return the edit that would let `group` continue."""
    call = _call(places, group).removesuffix(" of ")
    arrive = f"arrive on {_what(places, group)} in {supplier}"
    what = f"call {call} in {supplier}" if call else arrive
    return f"{what} before line {places.line(supplier.pc)}"


def _surplus(places: Places, waits: _Waits) -> list[Finding]:
    """Yield findings by B9: warps beyond the last generation's count opened the next one, which cannot complete."""
    findings = []
    for group in (g for g in waits.groups if g.barrier >= 0):
        state = waits.states[group.barrier]
        late = [w for w in state.participants if w not in state.previous]
        if state.generation == 0 or waits.edges[group] or late != state.participants or not state.expected:
            continue
        users = sorted({*state.participants, *state.previous})
        if len(users) * 32 <= state.expected:
            continue
        message = f"barrier {state.barrier} counts {state.expected} threads, but {len(users) * 32} use it"
        message += places.cta_text(places.outcome.cta).replace(" of ", " in ", 1)
        text = (
            f"{warps_text(late)}: surplus, begins generation {state.generation} with {state.arrived} of "
            f"{state.expected} threads"
        )
        site = places.site(group.pc, text, cta=places.outcome.cta, warp=late[0])
        help_ = f"use the number of participating threads as count: {len(users) * 32}"
        steps = [_wait(places, w, state) for w in places.outcome.warps if w.warp in late and w.waits == group.barrier]
        findings.append(Finding(code="oversubscribed", message=message, sites=[site], help=help_, steps=steps))
    return findings
