"""Report misuse of `setmaxnreg`, by which warps release and request registers.

Detects: counts outside 24-256 or not a multiple of 8; a release of more registers than a thread has, or a request for
fewer; execution by part of a warp or of a warpgroup.  It also detects two `setmaxnreg` with no possible synchronization
in between; this is a warning if both have the same count.
Does not detect: a pool that is too small, which is a deadlock; a warpgroup that does not synchronize as a whole between
two `setmaxnreg`.
Reference: PTX ISA, "setmaxnreg"; measured rule L2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.checkers import words
from wsemu.model.outcome import Detail
from wsemu.model.remedy import Cures

if TYPE_CHECKING:
    from wsemu.evidence.places import Places
    from wsemu.model.finding import Finding, Site
    from wsemu.model.outcome import RawFinding

DETAIL = {
    "setmaxnreg": Detail({
        "count": "registers per thread",
        "what": "0: the count, 1: the direction, 2: a part of a warp, 3: warps differ, 4: no synchronization",
        "present": "registers per thread that the warp has",
    }),
    "setmaxnreg-repeated": Detail({"count": "registers per thread"}),
}  # fmt: skip
CODES = tuple(DETAIL)
CURES = {
    "setmaxnreg": Cures(110, "argument constant call move"),
    "setmaxnreg-repeated": Cures(560, "delete"),
}


def explain(raw: RawFinding, places: Places) -> Finding:
    """Return the finding of a register count, or of the threads that execute it."""
    return _explain_repeated(raw, places) if raw.code == "setmaxnreg-repeated" else _misuse(raw, places)


def _explain_repeated(raw: RawFinding, places: Places) -> Finding:
    count = raw.detail["count"]
    return words.finding(
        raw, places,
        f"{places.who(raw.cta, raw.warp)} executes `setmaxnreg` with {count} twice, with no synchronization in between",
        f"{words.who(raw, places)}, {count} registers again",
        "PTX requires all warps of the warpgroup to synchronize between two `setmaxnreg`; this one changes nothing",
        "delete one of them, or synchronize the warpgroup at a barrier in between", f"{count} registers",
    )  # fmt: skip


def _misuse(raw: RawFinding, places: Places) -> Finding:
    d, who = raw.detail, places.who(raw.cta, raw.warp)
    more = words.operation(places, raw.pc).endswith("inc")
    asks = f"{'requests' if more else 'keeps'} {d['count']} registers per thread"
    if d["what"] == 0:
        message = f"`setmaxnreg` does not accept {d['count']} as a register count"
        note, help_ = "", "use a multiple of 8 from 24 to 256"
    elif d["what"] == 1:
        wrong = "fewer than" if more else "more than"
        message = f"{who} {asks}, {wrong} the {d['present']} that it has"
        other = words.spell_instruction(places, raw.pc, f"setmaxnreg.{'dec' if more else 'inc'}", str(d["count"]))
        note = f"it has {d['present']} {_since(places, raw.pc, d['present'])}; PTX leaves this undefined"
        help_ = f"use {other} if that is meant, or a count {'above' if more else 'below'} {d['present']}"
    elif d["what"] == 2:
        message = f"only part of {who} executes `setmaxnreg`"
        note = "all threads of the warp, and all warps of its warpgroup, must execute the same `setmaxnreg`"
        help_ = "move it out of the branch, or branch by whole warpgroups of 128 threads"
    elif d["what"] == 3:
        none = "" if raw.other_pc >= 0 else f", {words.other(raw, places)} executes none"
        message = f"warps of a warpgroup do not execute the same `setmaxnreg`: {who} {asks}{none}"
        note = "all warps of a warpgroup must execute the same `setmaxnreg`"
        help_ = "branch by whole warpgroups of 128 threads, each with one count"
    else:
        message = f"{who} executes a second `setmaxnreg` with no synchronization since its last one"
        note = "all warps of the warpgroup must synchronize between two `setmaxnreg`"
        help_ = "remove one of them, or synchronize the warpgroup at a barrier in between"
    earlier = ""
    if raw.other_pc >= 0:
        earlier = "the one before" if d["what"] == 4 else f"{words.other(raw, places)} executes a different one"
    several = raw.lanes.bit_count() > 1 and words.who(raw, places) != who
    label = asks.replace("requests", "request").replace("keeps", "keep") if several else asks
    return words.finding(raw, places, message, f"{words.who(raw, places)} {label}", note, help_, earlier)


def _since(places: Places, pc: int, present: int) -> str:
    """Return the line at which a warp got this number of registers: `since line 8`."""
    before = [other for other in words.executed_instructions(places, "setmaxnreg.inc", "setmaxnreg.dec")
              if other != pc and _requested_registers(places, other) == present]  # fmt: skip
    if present == places.program.registers or not before:
        return "since the launch"
    return f"since {places.near(before[0], pc)}"


# -- a deadlock on registers ------------------------------------------------------------------------------------------


def waiting(places: Places) -> dict[int, int]:
    """Return the warps that wait for registers in a deadlocked launch, each with the instruction at which it waits."""
    found: dict[int, int] = {}
    for warp in places.outcome.warps:
        stands = [pc for pc, _ in warp.standing] or [warp.pc] * (warp.waits < 0)
        for pc in stands:
            if warp.alive and _is(places, pc, "inc"):
                found[warp.warp] = pc
    return found


def budget(places: Places) -> str:
    """Return `needs 232*2 + 40 registers per thread in its warpgroups, the CTA has 168*2`.  If the launch has enough
    registers, return how many were released and requested.  Return an empty text if the registers at launch are
    unknown, or a warp requests more than once."""
    warps, registers = places.outcome.warps, places.program.registers
    counts = _counts(places)
    others = len(warps) - sum(counts.values())
    if not registers or others < 0 or not _are_known(places):
        return ""
    wants = [(int(places.program.code[pc, 6]), n, pc) for pc, n in sorted(counts.items())]
    wants += [(registers, others, -1)] if others else []
    unit = 4 if all(n % 4 == 0 for _, n, _ in wants) else 1
    of = "warpgroups" if unit == 4 else "warps"
    if sum(count * n for count, n, _ in wants) > registers * len(warps):
        needs = " + ".join(_times(count, n // unit) for count, n, _ in wants)
        return f"needs {needs} registers per thread in its {of}, the CTA has {_times(registers, len(warps) // unit)}"
    given = sum((registers - count) * n for count, n, pc in wants if _is(places, pc, "dec"))
    asked = sum((count - registers) * n for count, n, pc in wants if _is(places, pc, "inc"))
    return (
        f"its {of} request {asked // unit:,} registers per thread more than at launch, and have released "
        f"{given // unit:,} so far: a warp that ends releases none (L2)"
    )


def account(places: Places) -> str:
    """Return `line 15 keeps 40, line 18 requests 240: 232 there would fit`, or an empty text if that is unknown."""
    waits = waiting(places)
    if not budget(places).startswith("needs"):
        return ""
    counts, beside = _counts(places), next(iter(waits.values()))
    texts = [
        f"{places.near(pc, beside)} {'requests' if _is(places, pc, 'inc') else 'keeps'} "
        f"{_requested_registers(places, pc)}"
        for pc in sorted(counts)
    ]
    warps, registers = len(places.outcome.warps), places.program.registers
    asking = sum(n for pc, n in counts.items() if pc in waits.values())
    others = sum(_requested_registers(places, pc) * n for pc, n in counts.items() if pc not in waits.values())
    others += registers * (warps - sum(counts.values()))
    room = (registers * warps - others) // asking // 8 * 8
    fits = f": {room} there would fit" if registers < room and len(set(waits.values())) == 1 else ""
    return f"{', '.join(texts)} registers per thread; each has {registers} at launch{fits}"


def givers(places: Places) -> list[Site]:
    """Return the locations at which warps released registers, if other warps request more than were released."""
    if not budget(places).startswith("needs"):
        return []
    gives = [pc for pc in _counts(places) if _is(places, pc, "dec")]
    return [
        places.site(pc, f"keeps {_requested_registers(places, pc)} registers per thread", primary=False) for pc in gives
    ]


def remedy(places: Places, pc: int) -> str:
    """Return the edit that lets warps continue that wait for registers."""
    give = words.spell_instruction(places, pc, "setmaxnreg.dec", "count")
    return (
        f"release registers in other warpgroups first, with {give}, before they wait or end, or request fewer: all "
        "warpgroups together must not have more registers than at launch"
    )


def _requested_registers(places: Places, pc: int) -> int:
    return int(places.program.code[pc, 6])


def _are_known(places: Places) -> bool:
    """Return whether it is known how many warps of the CTA released registers.  Executions are counted for all CTAs
    that ran together."""
    executions = places.outcome.executions
    gives = [pc for pc in range(len(places.program.code)) if _is(places, pc, "dec") and executions[pc]]
    return _ran_alone(places) or not gives


def _ran_alone(places: Places) -> bool:
    """Return whether only one CTA ran: otherwise, the counts of executions include other CTAs."""
    return places.grid == (1, 1, 1) or places.outcome.executions[0] <= len(places.outcome.warps)


def _counts(places: Places) -> dict[int, int]:
    """Return for each instruction the number of warps of the CTA that have executed it, or wait at it."""
    stuck = waiting(places)
    found = {}
    for pc in range(len(places.program.code)):
        if _is(places, pc, "inc") or _is(places, pc, "dec"):
            executions = places.outcome.executions[pc] if _ran_alone(places) else 0
            found[pc] = max(executions, sum(other == pc for other in stuck.values()))
    return {pc: n for pc, n in found.items() if n}


def _is(places: Places, pc: int, which: str) -> bool:
    return pc >= 0 and words.operation(places, pc) == f"setmaxnreg.{which}"


def _times(count: int, n: int) -> str:
    return f"{count}*{n}" if n > 1 else str(count)
