"""The stream of a CTA: the instructions that its warps executed, in order, with their effects on memory and barriers.

`follow` runs one CTA on the VM (`machine.run.Launch.steps`); the result is a set of arrays with one element for each
executed instruction of a warp.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wsemu.evidence.places import name_barrier_objects
from wsemu.launch.binding import stored_segments
from wsemu.machine import state as layout
from wsemu.machine.run import Launch
from wsemu.machine.tables import Watch
from wsemu.model.data import NamedTuple
from wsemu.model.errors import UnsupportedError, UsageError
from wsemu.model.grid import Grouping, window
from wsemu.model.isa import NAMES, OPERATIONS, SEGMENT_SHIFT
from wsemu.model.work import APART
from wsemu.timing.clusters import Member, keep_member

if TYPE_CHECKING:
    import numpy.typing as npt

    from wsemu.model.bound import Bound

    Numbers = npt.NDArray[np.int64]

ROOM = 1 << 18
"""number of executed instructions that the model uses; later instructions are assumed to behave like these"""
MOST = 1 << 26
"""maximum number of instructions that a CTA may execute"""
KIND, _, WARP, _, PC, PLACE, GENERATION, LANES, ADDRESSES, AMOUNT = range(10)
"""columns of the array of events"""
_MEMORY = ("load", "store", "atomic")
EVENT = {name: number for number, name in enumerate(layout.EVENT_KINDS)}


class Stream(NamedTuple):
    """Executed instructions of the warps of a CTA, in the order of the run."""

    bound: Bound
    cta: int
    warps: int
    warp: Numbers
    pc: Numbers
    lanes: Numbers
    events: Numbers
    """rows of the VM's event log"""
    step_of: Numbers
    """index of the step of each event, -1: none"""
    addresses: Numbers
    executed: int
    """number of executed instructions, including those after the end of the stream"""
    member: Member | None = None
    """rank of the CTA in its cluster, and size of the cluster; None: it runs alone"""

    def shared_offset(self, address: int) -> int:
        """Return the offset of an address in the shared memory of its own CTA."""
        window = SEGMENT_SHIFT if self.member is None else self.member.window
        return address & (1 << window) - 1

    def barrier_names(self) -> dict[int, str]:
        """Return offset in shared memory -> the name of the barrier object there, for those that the source names."""
        rows = self.events[self.events[:, KIND] == EVENT["init"]]
        return name_barrier_objects(
            self.bound.program, {self.shared_offset(row[PLACE]): row[PC] for row in rows.tolist()}
        )

    @property
    def is_whole(self) -> bool:
        """Return whether the stream contains everything that the CTA executed."""
        return self.executed == len(self.pc)


def follow(bound: Bound, cta: int, room: int = ROOM, *, in_place: bool = False) -> Stream:
    """Run one CTA, on copies of the arrays or `in_place`, and return its stream."""
    program, configuration = bound.program, bound.configuration
    names = [NAMES[row[0]] for row in program.code.tolist()]
    _refuse(bound, names)
    watch = Watch(
        races=False, recycling=False, initialised=False, read_only=False, stored=stored_segments(program, bound.arrays)
    )
    grouping = Grouping(configuration.grid, bound.group)
    launch = Launch(
        program, configuration.grid, configuration.block, bound.rows, bound.segments,
        dynamic_shared=configuration.dynamic_shared, budget=MOST, workers=1, watch=watch, arch=configuration.arch,
        shape=bound.group, clusters=grouping.members > 1,
    )  # fmt: skip
    accesses = frozenset(pc for pc, name in enumerate(names) if OPERATIONS[name].kind in _MEMORY)
    found = launch.steps(accesses, cta, room * grouping.members, in_place=in_place)
    if found.status != layout.DONE:
        raise UsageError(_why_not(bound, cta, found.status, found.total))
    step_of, member = _assign_steps(found.steps, found.events), None
    if grouping.members > 1:
        member = Member(grouping.of(cta)[1], -(-configuration.threads // 32), grouping.members, _window(bound))
        found, step_of = keep_member(found, step_of, member)
    warp, pc = found.steps[:, 0] >> 32, found.steps[:, 0] & 0xFFFFFFFF
    return Stream(
        bound, cta, -(-configuration.threads // 32), warp, pc, found.steps[:, 1], found.events, step_of,
        found.addresses, found.total, member,
    )  # fmt: skip


def first_cta(bound: Bound) -> int:
    """Return the CTA that is followed by default: the second CTA, or the first one of the second cluster."""
    grouping = Grouping(bound.configuration.grid, bound.group)
    return grouping.cta(min(1, grouping.number - 1), 0)


def _window(bound: Bound) -> int:
    """Return log2 of the distance of the shared memories of the CTAs of a cluster, in bytes."""
    program = bound.program
    shared = -(-program.shared_bytes // 16) * 16 + bound.configuration.dynamic_shared
    return window(shared, asynchronous=program.asynchronous, columns=program.uses_columns)


def _refuse(bound: Bound, names: list[str]) -> None:
    program, configuration = bound.program, bound.configuration
    if program.cooperative:
        raise UnsupportedError(
            f"times of cooperative launches are not predicted: `{program.name}` runs all its CTAs at once"
        )
    if program.traps:
        raise UnsupportedError(program.traps[0])
    together = [name for name in names if name.startswith(APART)]
    if together:
        raise UnsupportedError(f"the time of `{together[0]}` is not predicted: it is of several CTAs together")
    if configuration.ctas < 1:
        raise UsageError(f"`{program.name}` has no CTA: there is nothing to predict")


def _why_not(bound: Bound, cta: int, status: int, total: int) -> str:
    name = bound.program.name
    if status == layout.BUDGET:
        return (
            f"CTA {cta} of `{name}` executes more than {MOST:,} warp instructions: give a smaller launch, "
            "in which it waits for no other CTA"
        )
    return f"CTA {cta} of `{name}` does not run to its end ({total:,} warp instructions): check the launch first"


def _assign_steps(steps: Numbers, events: Numbers) -> Numbers:
    """Return the step of each event: the last step of its warp and instruction before it."""
    count = len(steps)
    if not count or not len(events):
        return np.zeros(len(events), np.int64)
    before = np.searchsorted(steps[:, 2], np.arange(len(events)), side="right") - 1
    keys, number = np.unique(steps[:, 0], return_inverse=True)
    places = np.sort(number * count + np.arange(count))
    wanted = events[:, WARP] << 32 | events[:, PC]
    which = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    found = np.searchsorted(places, which * count + before, side="right") - 1
    step = places[np.maximum(found, 0)]
    is_right = (found >= 0) & (step // count == which) & (keys[which] == wanted)
    return np.where(is_right, step % count, -1)
