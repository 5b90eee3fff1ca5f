"""Bytes that an asynchronous operation of a warp is about to read and write."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.model.effects import effects_of
from wsemu.model.isa import CP_ASYNC, LANES
from wsemu.model.matrix import WGMMA
from wsemu.reference.agents import bulk_copy, tensor_copy
from wsemu.reference.arithmetic import to_unsigned
from wsemu.reference.matrix import wgmma

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wsemu.reference.warp import WarpRun

Ranges = list[tuple[int, int, int]]
"""(lane, address, bytes)"""


def ranges(run: WarpRun, name: str, fields: Sequence[int], lanes: int) -> tuple[Ranges, Ranges]:
    """Return (ranges that it reads, ranges that it writes), if they are known before it is performed."""
    moves = effects_of(name).moves
    there = [lane for lane in range(LANES) if lanes >> lane & 1]
    if name in WGMMA:
        return [(there[0], at, size) for at, size in wgmma.ranges_to_read(run, name, list(fields), there[0])], []
    reads: Ranges = []
    writes: Ranges = []
    for lane in there:
        if moves.unit == "tile":
            inside, outside = tensor_copy.accessed_ranges(run, name, list(fields), lane)
            of_lane = (inside, outside) if moves.writes == "global" else (outside, inside)
        else:
            of_lane = _byte_ranges(run, name, fields, lane)
        for found, to in zip(of_lane, (reads, writes), strict=True):
            to += [(lane, at, size) for at, size in found if size]
    return reads, writes


Runs = list[tuple[int, int]]


def _byte_ranges(run: WarpRun, name: str, fields: Sequence[int], lane: int) -> tuple[Runs, Runs]:
    """Return (address, bytes) of a lane's copy of bytes, of its asynchronous store, or of its zeros."""
    unit = effects_of(name).moves.unit
    if unit == "value":
        return [], [(run.read(fields[3], "b64", lane), 8 if name.endswith("b64") else 4)]
    if unit == "zeros":
        to = to_unsigned(run.read(fields[3], "b64", lane) + fields[6], 64)
        return [], [(to, run.read(fields[4], "b32", lane))]
    origin = run.read(fields[4], "b64", lane)
    size = run.read(fields[5], "b32", lane)
    if name in CP_ASYNC:
        to = to_unsigned(run.read(fields[3], "b64", lane) + fields[6], 64)
        return [(origin, min(size, CP_ASYNC[name]))], [(to, CP_ASYNC[name])]
    size = size // bulk_copy.UNIT * bulk_copy.UNIT
    goals = bulk_copy.ranks(run, name, fields[2], lane, fields[3])
    return [(origin, size)], [(to, size) for to in goals]
