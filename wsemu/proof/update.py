"""Updates of elements: a load, and a store of a value computed from it to the same address, as in `counts[i] += 1`.

Detects: an address in one register, or in a copy of it. Does not detect: an address that is computed twice, values that
pass through memory or to another lane.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.model.control_flow import successors
from wsemu.model.isa import NAMES
from wsemu.proof.taint_steps import plain_decoder

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wsemu.model.program import Program
    from wsemu.proof.taint_steps import Step

_ADDRESS, _IMMEDIATE = 3, 6
"""fields of an access with its address"""
_Rows = frozenset[int]


def is_update(program: Program, load: int, store: int) -> bool:
    """Return whether a store writes, to the address of a load, a value computed from the loaded value."""
    decoder = plain_decoder(program)
    code = decoder.code
    if code[load][_IMMEDIATE] != code[store][_IMMEDIATE]:
        return False
    loaded = frozenset(row for step in decoder.steps(load) for row in step.writes)
    start = loaded, frozenset({code[load][_ADDRESS]}) - loaded
    before = dict.fromkeys((pc for pc in successors(load, code[load]) if pc < len(code)), start)
    work = list(before)
    while work:
        pc = work.pop()
        values, addresses = before[pc]
        if pc == store and code[pc][_ADDRESS] in addresses and _stores(decoder.steps(pc), values):
            return True
        if pc == load:
            continue
        for step in decoder.steps(pc):
            values, addresses = _after(step, NAMES[code[pc][0]], values, addresses)
        for following in successors(pc, code[pc]):
            known = before.get(following, (frozenset[int](), frozenset[int]()))
            joined = known[0] | values, known[1] | addresses
            if following < len(code) and joined != known:
                before[following] = joined
                work.append(following)
    return False


def _stores(steps: Iterable[Step], values: _Rows) -> bool:
    """Return whether a store writes one of these values; its address and guard do not count."""
    return any(values & (frozenset(step.reads) - {step.address, step.guard}) for step in steps)


def _after(step: Step, name: str, values: _Rows, addresses: _Rows) -> tuple[_Rows, _Rows]:
    """Return the rows that hold the value, and those that hold the address, after a step."""
    written = frozenset(step.writes)
    derived = step.kind == "alu" and bool(values & (frozenset(step.reads) - {step.guard}))
    copied = name.startswith("mov") and bool(addresses & frozenset(step.reads))
    kept = (values, addresses) if step.guard else (values - written, addresses - written)
    return kept[0] | (written if derived else frozenset()), kept[1] | (written if copied else frozenset())
