"""Operations of the reference interpreter in which the lanes of a warp exchange values.

PTX ISA, "shfl.sync", "match.sync", "vote.sync", "redux.sync", "activemask", "bar.warp.sync".
"""

from __future__ import annotations

import functools
import operator
from typing import TYPE_CHECKING

from wsemu.model.isa import LANES, LOOSE
from wsemu.reference.arithmetic import to_signed, to_unsigned
from wsemu.reference.state import list_lanes

if TYPE_CHECKING:
    from collections.abc import Callable

    from wsemu.reference.warp import WarpRun


def exchange(run: WarpRun, name: str, fields: list[int], lanes: int) -> None:
    what, undefined = name.split(".")[0], run.launch.undefined
    if undefined is not None and what not in _EXCHANGE and what != "syncwarp":
        undefined.other(run, fields, lanes, compares=what == "alike")
    if what in _OF_ACTIVE_LANES:
        _OF_ACTIVE_LANES[what](run, fields, lanes)
        return
    groups: dict[int, int] = {}
    for lane in list_lanes(lanes):
        members = run.read(fields[5], "b32", lane)
        groups[members] = groups.get(members, 0) | 1 << lane
    for members, group in groups.items():
        _exchange_among(run, name, fields, group, members)
    if what == "elect":  # L1
        for lane in list_lanes(lanes):
            run.write(fields[2], "b32", lane, list_lanes(lanes)[0])


def names_absent(run: WarpRun, name: str, fields: list[int], lanes: int) -> bool:
    """Return whether the member mask of some lane names a live lane that does not execute the operation."""
    masks = (run.read(fields[5], "b32", lane) for lane in list_lanes(lanes))
    return name not in LOOSE and any(members & run.warp.alive & ~lanes for members in masks)


def _exchange_among(run: WarpRun, name: str, fields: list[int], lanes: int, members: int) -> None:
    """Exchange values among lanes with the same member mask."""
    if members & run.warp.alive != lanes:
        run.cta.finding(
            "barrier-divergence", run.group.pc, run.warp.number, lanes,
            barrier=-1, alive=run.warp.alive, members=members,
        )  # fmt: skip
    there = lanes & members
    if there:
        met = lanes | (members & ~run.warp.alive)  # including exited lanes
        run.launch.watch.happen("warp", run.cta.number, run.warp.number, run.group.pc, met)
    what, _, mode = name.partition(".")
    if what in _EXCHANGE:
        _EXCHANGE[what](run, mode.partition(".")[0], name.rpartition(".")[2], fields, lanes, there, members)


def _write_active_mask(run: WarpRun, fields: list[int], lanes: int) -> None:
    for lane in list_lanes(lanes):
        run.write(fields[2], "b32", lane, lanes)


def _compare_values(run: WarpRun, fields: list[int], lanes: int) -> None:
    alike = len({run.read(fields[3], "b64", lane) for lane in list_lanes(lanes)}) == 1
    for lane in list_lanes(lanes):
        run.write(fields[2], "p", lane, alike)


_OF_ACTIVE_LANES = {"activemask": _write_active_mask, "alike": _compare_values}
"""operations without a member mask"""


def shuffle(run: WarpRun, mode: str, type_: str, fields: list[int], lanes: int, there: int, members: int) -> None:
    values = [run.read(fields[3], type_, lane) for lane in range(LANES)]
    missed = members & run.warp.alive & ~lanes  # which is reported already
    undefined: dict[int, int] = {}
    sources: dict[int, int] = {}
    for lane in list_lanes(lanes):
        clamp, segment = fields[6] & 31, fields[6] >> 8 & 31
        source, inside = shuffle_source(mode, lane, run.read(fields[4], "b32", lane) & 31, clamp, segment)
        if not there >> source & 1:
            if source != lane and not missed >> source & 1:
                undefined[lane] = source
            source = lane
        sources[lane] = source
        run.write(fields[2], type_, lane, values[source])
        if fields[7]:
            run.write(fields[7], "p", lane, inside)
    if run.launch.undefined is not None:
        run.launch.undefined.shuffle(run, type_, fields, sources, undefined)
    if undefined:
        reading = sum(1 << lane for lane in undefined)
        source = undefined[min(undefined)]
        run.cta.finding("undefined-shuffle", run.group.pc, run.warp.number, reading, source=source)


def match(run: WarpRun, mode: str, type_: str, fields: list[int], lanes: int, there: int, members: int) -> None:
    if run.launch.undefined is not None:
        run.launch.undefined.match(run, fields, lanes, there)
    values = {lane: run.read(fields[3], type_, lane) for lane in list_lanes(there)}
    equal = len(set(values.values())) == 1
    for lane in list_lanes(lanes):
        own = run.read(fields[3], type_, lane)
        if mode == "any":
            run.write(fields[2], "b32", lane, sum(1 << k for k, value in values.items() if value == own))
        else:
            run.write(fields[2], "b32", lane, there if equal else 0)
            if fields[7]:
                run.write(fields[7], "p", lane, equal)


def vote(run: WarpRun, mode: str, type_: str, fields: list[int], lanes: int, there: int, members: int) -> None:
    if run.launch.undefined is not None:
        run.launch.undefined.vote(run, mode, fields, lanes, there)
    votes = run.warp.predicates.get(fields[3], 0) & there
    answers = {"all": votes == there, "any": votes != 0, "uni": votes in (0, there), "ballot": votes}
    for lane in list_lanes(lanes):
        run.write(fields[2], "b32" if mode == "ballot" else "p", lane, answers[mode])


def reduction(run: WarpRun, mode: str, type_: str, fields: list[int], lanes: int, there: int, members: int) -> None:
    if run.launch.undefined is not None:
        run.launch.undefined.reduction(run, mode, fields, there)
    values = [run.read(fields[3], "b32", lane) for lane in list_lanes(there)]
    # a lane that does not participate, which is reported elsewhere, keeps its own value
    for lane in list_lanes(lanes & ~there):
        run.write(fields[2], "b32", lane, run.read(fields[3], "b32", lane))
    if not values:
        return
    if type_[0] == "s":
        total = {"min": min, "max": max}[mode](to_signed(value, 32) for value in values)
    else:
        total = functools.reduce(_COMBINE[mode], values)
    for lane in list_lanes(there):
        run.write(fields[2], "b32", lane, to_unsigned(total, 32))


_COMBINE: dict[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "min": min,
    "max": max,
}


def shuffle_source(mode: str, lane: int, b: int, clamp: int, segment: int) -> tuple[int, bool]:
    """Return (lane to read, whether the selected lane was in range), as the PTX ISA specifies in "shfl.sync"."""
    first = lane & segment
    last = first | clamp & ~segment
    selected = {"up": lane - b, "down": lane + b, "bfly": lane ^ b, "idx": first | b & ~segment}[mode]
    inside = selected >= last if mode == "up" else selected <= last
    return (selected if inside else lane), inside


_EXCHANGE: dict[str, Callable[[WarpRun, str, str, list[int], int, int, int], None]] = {
    "shfl": shuffle,
    "match": match,
    "vote": vote,
    "redux": reduction,
}
