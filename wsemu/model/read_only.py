"""Loads through the read-only cache: the test for programs that use them, and the findings if their bytes are
written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.model.data import NamedTuple
from wsemu.model.isa import ATOMIC, ATOMICS, NAMES, NON_COHERENT, OPERATIONS, READ, WRITE, access_shape
from wsemu.model.outcome import RawFinding

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wsemu.model.program import Program


def loads_read_only(program: Program) -> bool:
    """Return whether a program has loads through the read-only cache."""
    marked = {*program.code[program.code[:, 7] & NON_COHERENT != 0, 0].tolist()}
    return any(OPERATIONS[NAMES[opcode]].kind == "load" for opcode in marked)


class Claim(NamedTuple):
    """The first access of its kind, by a warp, to some bytes.  The fields are those of `machine.state.CLAIM`."""

    pc: int
    cta: int
    warp: int
    lanes: int
    interval: int


def findings(program: Program, claims: Sequence[Claim], claimed: Mapping[int, tuple[int, int]]) -> list[RawFinding]:
    """Return one finding for each pair of a load and a writing instruction.  It reports the first two claims that have
    bytes in common.

    For each byte that was both loaded and written, `claimed` has the numbers of the claims of the load and of the
    store, by address.  Claims are in the order of the run.
    """
    first: dict[tuple[int, int], tuple[int, int, int]] = {}
    count: dict[tuple[int, int], int] = {}
    for address, (load, store) in claimed.items():
        key = claims[load].pc, claims[store].pc
        first[key] = min(first.get(key, (load, store, address)), (load, store, address))
        count[key] = count.get(key, 0) + 1
    return [
        _finding(program, claims[load], claims[store], address, load > store, count[key])
        for key, (load, store, address) in first.items()
    ]


def _finding(program: Program, load: Claim, store: Claim, address: int, later: bool, count: int) -> RawFinding:
    name = NAMES[int(program.code[store.pc, 0])]
    detail = {
        "address": address, "kind": READ, "other_kind": ATOMIC if name in ATOMICS else WRITE,
        "size": access_shape(NAMES[int(program.code[load.pc, 0])])[1], "interval": load.interval,
        "other_interval": store.interval, "other_cta": store.cta, "bytes": count, "later": int(later),
    }  # fmt: skip
    return RawFinding("read-only-written", load.pc, load.cta, load.warp, load.lanes, store.pc, store.warp, detail)
