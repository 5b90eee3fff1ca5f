"""The stream of one CTA of a cluster: its own steps, and what the other CTAs do to its barriers.

The CTAs of a cluster are assumed to run alike: an arrival or a copy of another CTA happens when the followed CTA has
executed the same instruction equally often.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wsemu.machine import state as layout
from wsemu.model.data import NamedTuple
from wsemu.model.isa import SEGMENT_SHIFT, SHARED

if TYPE_CHECKING:
    import numpy.typing as npt

    from wsemu.machine.run import Steps

    Numbers = npt.NDArray[np.int64]

CLUSTER_BARRIER = -2
"""address of the cluster's barrier in events"""
EVENT: dict[str, int] = {name: number for number, name in enumerate(layout.EVENT_KINDS)}
KIND, REMOTE, WARP, _, PC, PLACE, GENERATION, LANES, _, AMOUNT = range(10)
"""columns of the array of events; `REMOTE` is 1 for events of the other CTAs, else 0"""
_AT_BARRIERS = ("init", "arrive_on", "expect", "await", "credit")


class Member(NamedTuple):
    """A CTA of a group: its rank, its number of warps, the number of CTAs, and log2 of the distance of their shared
    memories in bytes."""

    rank: int
    warps: int
    members: int
    window: int

    def ranks(self, addresses: Numbers) -> Numbers:
        """Return the ranks of the CTAs that have these addresses of shared memory; -1 for other addresses."""
        shared = (addresses >> SEGMENT_SHIFT) == SHARED
        return np.where(shared, (addresses & ((1 << SEGMENT_SHIFT) - 1)) >> self.window, -1)


def keep_member(found: Steps, step_of: Numbers, member: Member) -> tuple[Steps, Numbers]:
    """Return the log of one CTA of a cluster, and the step of each of its events."""
    warp, pc = found.steps[:, 0] >> 32, found.steps[:, 0] & 0xFFFFFFFF
    sender = warp // member.warps
    own = sender == member.rank
    position = np.cumsum(own) - 1
    mirrored = _mirror(warp % member.warps, pc, sender, member)
    events = found.events.copy()
    has_step = step_of >= 0
    from_other = np.zeros(len(events), bool)
    from_other[has_step] = ~own[step_of[has_step]]
    step = np.where(has_step, mirrored[np.maximum(step_of, 0)], -1)
    at_barrier = np.isin(events[:, KIND], [EVENT[name] for name in _AT_BARRIERS])
    of_cluster = events[:, PLACE] == CLUSTER_BARRIER
    here = of_cluster | (member.ranks(events[:, PLACE]) == member.rank)
    waits = events[:, KIND] == EVENT["await"]
    kept = has_step & (step >= 0) & np.where(at_barrier, here & ~(waits & from_other), ~from_other)
    kept &= _read_once(events, step_of)
    events[:, REMOTE] = from_other
    made, steps = events[kept], position[step[kept]]
    made[:, WARP] %= member.warps
    order = np.argsort(steps, kind="stable")
    made, steps = made[order], steps[order]
    barrier = _barrier_of_cluster(made)
    rows = found.steps[own].copy()
    rows[:, 0] = (warp[own] % member.warps) << 32 | pc[own]
    total = len(rows) if found.total <= len(found.steps) else found.total // member.members
    log = found._replace(steps=rows, events=np.concatenate([barrier, made]), total=total)
    return log, np.concatenate([np.zeros(len(barrier), np.int64), steps])


def _mirror(warp: Numbers, pc: Numbers, sender: Numbers, member: Member) -> Numbers:
    """Return for each step the followed CTA's step of the same warp and instruction with the same execution count; -1
    if there is none."""
    keys = warp << 32 | pc
    all_ = keys * member.members + sender
    order = np.argsort(all_, kind="stable")
    first = np.searchsorted(all_[order], all_[order])
    time = np.empty(len(all_), np.int64)
    time[order] = np.arange(len(all_)) - first
    own = np.flatnonzero(sender == member.rank)
    by_key = own[np.lexsort((time[own], keys[own]))]
    begin = np.searchsorted(keys[by_key], keys, side="left")
    end = np.searchsorted(keys[by_key], keys, side="right")
    places = np.minimum(begin + time, max(0, len(by_key) - 1))
    found: Numbers = np.where(begin + time < end, by_key[places], -1)
    return found


def _read_once(events: Numbers, step_of: Numbers) -> npt.NDArray[np.bool_]:
    """Return false for copies to further CTAs from a source that is read once."""
    keep = np.ones(len(events), bool)
    copies = np.flatnonzero(events[:, KIND] == EVENT["copy"])
    pairs = np.stack([step_of[copies], events[copies, GENERATION], events[copies, LANES]], axis=1)
    _, first = np.unique(pairs, axis=0, return_index=True)
    keep[copies] = False
    keep[copies[first]] = True
    read: npt.NDArray[np.bool_] = keep | (events[:, GENERATION] < 0)
    return read


def _barrier_of_cluster(events: Numbers) -> Numbers:
    """Return the initialization of the cluster's barrier, with its number of arrivals; empty if it is unused."""
    arrivals = events[(events[:, KIND] == EVENT["arrive_on"]) & (events[:, PLACE] == CLUSTER_BARRIER)]
    if not len(arrivals):
        return np.zeros((0, events.shape[1]), np.int64)
    row: Numbers = arrivals[:1].copy()
    row[0, KIND], row[0, REMOTE] = EVENT["init"], 0
    row[0, AMOUNT] = arrivals[arrivals[:, GENERATION] == arrivals[0, GENERATION], AMOUNT].sum()
    return row
