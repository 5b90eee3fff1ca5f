"""`uninitialized-read` and `undefined-copy`: shared or local memory read before anything wrote it.

Detects: byte by byte, a load or atomic of shared memory that no warp of the CTA has stored to, and of local memory that
this thread has not stored to.  In an array that the launch declares as `uninitialized`, it detects reads of bytes that
no warp of the launch has stored to.  Reads by asynchronous copies are included.  A second run follows the bytes.  If
they reach something observable, that is an error.  If they are only stored to locations that nothing reads, it is an
`undefined-copy`.  If all uses discard them, nothing is reported.  A read that races with a later write to the same
bytes is reported with that race.
Does not detect: reads of other global memory (arguments count as initialised); a store that some other schedule would
order after the read, which is a race.  The result of an atomic exchange is followed only if there is another reason for
the second run, because an exchange may also initialize memory.
Reference: CUDA C++ Programming Guide, "Shared Memory": contents are undefined at the start of a CTA.  The compiled test
is `bounds.track_initialised`; `reference.undefined` finds the uses that the bytes reach.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from wsemu.checkers import observed, words
from wsemu.evidence.places import Places, lanes_text
from wsemu.evidence.readings import culprit, reading
from wsemu.model.data import replace
from wsemu.model.finding import Finding
from wsemu.model.isa import FIRST_ARRAY, LANES, LOCAL, READ
from wsemu.model.outcome import Detail
from wsemu.model.remedy import Cures

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wsemu.evidence.schedule import Witness
    from wsemu.model.finding import Severity
    from wsemu.model.outcome import Event, RawFinding, Trace

CODES = ("uninitialized-read", "undefined-copy")
_READ = {"address": "of the lowest lane's access", "size": "bytes per lane", "segment": "of the memory that is read"}
_UNDECIDED = {"undecided": "1: the launch was followed in part, and the value reached nothing there"}
DETAIL = {"uninitialized-read": Detail(_READ, observed.FIELDS | _UNDECIDED), "undefined-copy": Detail(_READ)}
CURES = {
    "uninitialized-read": Cures(
        300,
        "insert move call compare bound fill index argument constant unguard swap stage pair guard",
        inserts=("syncthreads", "syncwarp"),
        ptx=("bar.sync 0;", "bar.warp.sync -1;"),
    ),
    "undefined-copy": Cures(530, "insert move call compare bound fill index argument constant guard"),
}
TRACED = True


def severity(raw: RawFinding, places: Places) -> Severity | None:
    """Return `warning` for bytes whose effects are unknown."""
    return "warning" if "undecided" in raw.detail else None


def traced(raw: RawFinding, places: Places) -> Iterable[int]:
    """Return the instructions that may write the uninitialized bytes later."""
    return places.writers(raw.pc)


def explain(raw: RawFinding, places: Places, trace: Trace | None = None) -> Finding:
    """Return the finding of a read of uninitialized bytes; a trace shows whether they are written later."""
    space = places.space(raw.detail["segment"])
    element = places.element(raw.detail["address"], raw.pc)
    later = None if trace is None else written_later(raw, places, trace)
    never = "never" if trace is not None and trace.complete and places.outcome.status == "done" else "not yet"
    label = f"`{element}` read by {_reader(raw, places)}{places.who(raw.cta, raw.warp)}, {lanes_text(raw.lanes)}, "
    label += f"{never if later is None else 'not yet'} written"
    note, help_ = _ADVICE[space]
    if raw.code == "undefined-copy":
        return _copy(raw, places, label)
    notes = [note.format(array=_array(raw, places))]
    if later is not None:
        by = places.who(later.cta, later.warp)
        notes.append(f"{by} writes `{element}` on {places.near(later.pc, raw.pc)} only after this read")
    elif space == "shared":
        notes += _stored_by_some(raw, places)
    return Finding(
        code=raw.code,
        severity=severity(raw, places) or "error",
        message=f"{space} {_array(raw, places)} is read before it is written",
        sites=[
            places.site(raw.pc, label, cta=raw.cta, warp=raw.warp),
            *observed.sites(raw, places),
            *places.callers(raw.pc),
        ],
        notes=notes,
        help=help_.format(element=element),
        count=raw.count,
        steps=[culprit(raw, places)],
    )


def _copy(raw: RawFinding, places: Places, label: str) -> Finding:
    """Return the finding of copied uninitialized bytes if nothing reads the copy.  `raw.pc` is the read, `raw.other_pc`
    the store."""
    copied = places.site(raw.other_pc, f"copied to {places.array_name(raw.other_pc)}", cta=raw.cta, warp=raw.warp)
    return Finding(
        code=raw.code,
        message=f"bytes of {_array(raw, places)} that nothing has written are copied",
        sites=[places.site(raw.pc, label, cta=raw.cta, warp=raw.warp), copied, *places.callers(raw.pc)],
        notes=["nothing in this launch uses the copy"],
        help=f"write {_array(raw, places)} before it is read, or copy only what was written",
        count=raw.count,
        steps=[culprit(raw, places)],
    )


def _stored_by_some(raw: RawFinding, places: Places) -> list[str]:
    """Return a note on a store to the array that each thread executes at most once: how many threads executed it."""
    name, outcome = places.program.array_of[raw.pc], places.outcome
    threads, ctas = prod(places.block), prod(places.grid)
    writers = places.writers(raw.pc)
    if len(writers) != 1 or name is None or places.program.array_of[writers[0]] != name:
        return []
    (pc,) = writers
    if places.verb(pc) != "store":
        return []
    lanes, once = outcome.accesses[pc].lanes, outcome.executions[pc] <= ctas * -(-threads // LANES)
    if not once or lanes >= threads * ctas:
        return []
    of = f"{lanes:,} of the {threads * ctas:,} threads"
    return [f"{places.near(pc, raw.pc)}, the only store to `{name}`, is executed by {of}"]


def _reader(raw: RawFinding, places: Places) -> str:
    """Return a text such as `the bulk store issued by ` if an asynchronous copy reads instead of the warp."""
    return f"the {words.noun(places, raw.pc)} issued by " if places.verb(raw.pc) == "async" else ""


def _array(raw: RawFinding, places: Places) -> str:
    """Return the array that is read.  An asynchronous copy names two arrays; the address identifies its source."""
    if places.verb(raw.pc) != "async":
        return places.array_name(raw.pc)
    return f"`{places.element(raw.detail['address'], raw.pc).partition('[')[0]}`"


def fold(findings: list[RawFinding], places: Places, trace: Trace | None) -> list[RawFinding]:
    """Return raw findings without the uninitialized reads that race with the write of the same bytes: the race covers
    them."""
    unwritten = [raw for raw in findings if raw.code == "uninitialized-read"]
    races = [raw for raw in findings if raw.code == "race" and raw.detail["kind"] != READ]
    if trace is None or not races:
        return findings
    written: dict[int, list[RawFinding]] = {}
    for race in races:
        written.setdefault(race.other_pc, []).append(race)
    out, causes = [], []
    for raw in unwritten:
        by = written_later(raw, places, trace) if raw.pc in written else None
        cause = [race for race in written.get(raw.pc, ()) if by is not None and race.pc == by.pc]
        out += [id(raw)] * bool(cause)
        causes += [id(race) for race in cause]
    return [
        replace(raw, detail=raw.detail | {"unwritten": 1}) if id(raw) in causes else raw
        for raw in findings
        if id(raw) not in out
    ]


def written_later(raw: RawFinding, places: Places, trace: Trace) -> Event | None:
    """Return the first write, after an uninitialized read, to the first of the bytes that were read."""
    segment, address = raw.detail["segment"], raw.detail["address"]
    witness = reading(places, trace, range(prod(places.grid)) if segment >= FIRST_ARRAY else (raw.cta,))
    copies = places.verb(raw.pc) == "async"  # the event of a copy has its destination, not the bytes it reads
    executions = witness.executions(raw.cta, raw.warp, raw.pc)
    read = next((n for n in executions if copies or may_be_execution(witness, n, raw)), None)
    if read is None:
        return None
    warps = [raw.warp] if segment == LOCAL else None
    found = (witness.next_to(address, pc, read, warps) for pc in places.writers(raw.pc))
    return witness.events[min(later)] if (later := [n for n in found if n is not None]) else None


def may_be_execution(witness: Witness, position: int, raw: RawFinding) -> bool:
    """Return whether this execution of the read may be the one that the finding reports."""
    return witness.reaches(witness.events[position], raw.detail["address"], raw.lanes & -raw.lanes)


_ADVICE = {
    "shared": (
        "shared memory holds arbitrary values when a CTA starts; 0 was read here",
        "store to `{element}` first, and order that store before this read with a barrier",
    ),
    "local": (
        "local memory is the thread's own and holds arbitrary values at first; 0 was read here",
        "assign `{element}` in this thread before it is read, on every path that leads here",
    ),
    "global": (
        "nothing has written to {array} before this launch; its old contents were read here",
        "store to `{element}` earlier in this launch, or fill the array before it, as `cuda.to_device` does",
    ),
}
"""kind of memory -> note and help"""
