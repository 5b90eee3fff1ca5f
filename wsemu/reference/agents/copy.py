"""The common part of asynchronous copies.

A copy is performed when it is issued, by an agent that is created there: this is one legal schedule.  Clocks decide
whether other schedules give the same result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.model.data import NamedTuple, dataclass
from wsemu.model.isa import READ, SEGMENT_SHIFT, WRITE
from wsemu.model.outcome import RawFinding
from wsemu.reference.memory.bounds import check_written, put
from wsemu.reference.memory.thread_shadow import Conflict, ThreadWatch, Touch
from wsemu.reference.sync.thread_clocks import HAS_READ, HAS_WRITTEN

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wsemu.reference.memory.bounds import Place
    from wsemu.reference.run import CtaGroup
    from wsemu.reference.warp import WarpRun


class Side(NamedTuple):
    """One side of a copy: address, size in bytes, and the bytes that are copied, counted from the first."""

    place: Place
    size: int
    bytes: Sequence[int]

    @property
    def address(self) -> int:
        return (self.place[1] << SEGMENT_SHIFT) + self.place[2]


@dataclass(slots=True)
class Issued:
    """An issued copy, kept until the CTA ends."""

    pc: int
    warp: int
    lane: int
    agent: int
    address: int
    bytes: int
    reads: bool
    """true if waits cover the read of the source, which is at the address in the shared memory of its CTA; false if
    they cover the write"""
    stores: bool = False
    """true if the copy writes global memory, which outlives the CTA"""


class Copies:
    """The agents of one instruction, created lane by lane."""

    def __init__(self, run: WarpRun, *, bulk: bool, kind: int = WRITE, width: int = 0) -> None:
        self._run = run
        self._bulk = bulk
        self._kind, self._width = kind, width
        self._found: list[Conflict] = []
        self._read: dict[int, tuple[Place, int]] = {}
        self._written: dict[int, tuple[Place, int]] = {}

    def make(
        self, lane: int, source: Side | None, target: Side, combine: Callable[[bytes, bytes], bytes] | None = None
    ) -> int:
        """Copy or combine as an agent of a lane, and return the agent.  A source of None is not read."""
        run = self._run
        agent = run.cta.order.fork(run.cta.number)
        held = b""
        if source is not None:
            self._touch(lane, agent, READ, source)
            check_written(run, {lane: source.place}, source.size, _unused_mask(source))
            held = _content(source)
        self._touch(lane, agent, self._kind, target)
        if self._kind != WRITE:
            check_written(run, {lane: target.place}, target.size)
        self._written[lane] = target.place, target.size
        run.launch.watch.read_only.note(run, {lane: target.place}, target.size, stores=True)
        value = held + bytes(target.size - len(held))
        if combine:
            value = combine(_content(target), value)
        if len(target.bytes) == target.size:
            put(target.place[0], target.place[2], value)
            return self._log(lane, agent, source, target)
        for q in target.bytes:
            put(target.place[0], target.place[2] + q, value[q : q + 1])
        return self._log(lane, agent, source, target)

    def _log(self, lane: int, agent: int, source: Side | None, target: Side) -> int:
        run, read = self._run, -1 if source is None else source.address
        run.launch.watch.happen(
            "copy", run.cta.number, run.warp.number, run.group.pc, target.address, read, 1 << lane, target.size
        )
        return agent

    def _touch(self, lane: int, agent: int, kind: int, side: Side) -> None:
        run, watch = self._run, self._run.launch.watch
        assert isinstance(watch, ThreadWatch)
        segment, number, offset = side.place
        if segment.writable:
            time = watch.order.time((run.cta.number, run.warp.number))
            now = Touch(
                kind, run.cta.number, run.warp.number, 0, time, run.group.pc, side.size, self._width, agent, self._bulk
            )
            first = (number << SEGMENT_SHIFT) + offset
            self._found += watch.touch_as_agent(now, lane, (first + q for q in side.bytes))

    def tell(self) -> None:
        """Report the conflicts of all these copies."""
        run, watch = self._run, self._run.launch.watch
        assert isinstance(watch, ThreadWatch)
        watch.tell(run, run.group.pc, self._found)
        sizes = [size for _, size in self._written.values()]
        if sizes and (objects := run.cta.live_objects):
            objects.report_clobbered(run, self._kind, self._written, sizes[0], 1)


def _unused_mask(side: Side) -> int:
    """Return a mask of the bytes that are not copied."""
    return sum(1 << q for q in set(range(side.size)) - set(side.bytes)) if len(side.bytes) < side.size else 0


def _content(side: Side) -> bytes:
    segment, _, offset = side.place
    return bytes(segment.data[offset : offset + side.size])


def report_outliving(group: CtaGroup) -> None:
    """Report the copies that no thread of a group of CTAs had observed complete when the group ended, in the order of
    issue.  For copies that read shared memory, only threads of the same CTA count, because the source ends with that
    CTA."""
    every = [(issued.agent, issued, cta) for cta in group.ctas for issued in cta.issued]
    ended = {cta.number: cta.order.join_exited(cta.number).came for cta in group.ctas} if every else {}
    for _, issued, cta in sorted(every, key=lambda item: item[0]):
        what = HAS_READ if issued.reads else HAS_WRITTEN
        asked = [ended[cta.number]] if issued.reads else ended.values()
        if issued.bytes and not any(known.includes_agent(issued.agent, what) for known in asked):
            code, detail = "store-outlives-cta", {"address": issued.address, "bytes": issued.bytes}
            if not issued.stores:
                code, detail = "async-outlives-cta", detail | {"what": int(issued.reads)}
            cta.launch.report(RawFinding(code, issued.pc, cta.number, issued.warp, 1 << issued.lane, detail=detail))
