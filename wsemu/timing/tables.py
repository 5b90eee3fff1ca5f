"""The tables of the model: stretches of a stream as items, chunks of each warp, values of each execution."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from wsemu.machine.multiprocessor import layout as tables
from wsemu.machine.multiprocessor.layout import TICK
from wsemu.model.data import NamedTuple
from wsemu.timing import schedule, traffic
from wsemu.timing.clusters import REMOTE
from wsemu.timing.code import KIND, NO_PIPE, REASON
from wsemu.timing.stream import AMOUNT, EVENT, GENERATION, PLACE
from wsemu.timing.stream import KIND as EVENT_KIND

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from wsemu.timing.code import Code, Instruction
    from wsemu.timing.stream import Stream
    from wsemu.timing.traffic import Served, Traffic

    Numbers = npt.NDArray[np.int64]

LINES = np.array([1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512, 1024])
"""numbers of memory lines of an access; the slowest line counts, and each number has a row in the table of tails"""
DRAWS = 256
_OF_SPACE: dict[int, dict[str, str]] = {
    traffic.IN_SHARED: {"load": "shared", "store": "shared_store", "atomic": "shared_atomic"},
    traffic.IN_GLOBAL: {"load": "load", "store": "store", "atomic": "atomic"},
    traffic.IN_LOCAL: {"load": "shared", "store": "shared_store", "atomic": "shared_atomic"},
    traffic.INACTIVE: {"load": "plain", "store": "plain", "atomic": "plain"},
    traffic.IN_CLUSTER: {"load": "load", "store": "shared_store", "atomic": "load"},
}
_EVENTS = {
    EVENT["arrive_on"]: "arrive",
    EVENT["expect"]: "expect",
    EVENT["await"]: "await",
    EVENT["credit"]: "bulk_load",
}
_SLOTS = {"bulk_load": 3.0, "await": 2.0}
"""issue slots of the first effect of an asynchronous operation"""
_MEETINGS = (EVENT["arrive"], EVENT["sync"])
_REASON_OF = {
    "shared": "short_scoreboard", "shared_atomic": "short_scoreboard", "load": "long_scoreboard",
    "atomic": "long_scoreboard",
}  # fmt: skip
_AS_ITEM = {"shared_store": "shared", "events": "plain"}
SHIFT = 4
FROM_OTHERS = 256
"""added to the row of tails of a copy that another CTA of the cluster issues"""
FAR = -1
"""row of tails of an access to the shared memory of another CTA"""


class Tables(NamedTuple):
    """Tables of one CTA that the model runs."""

    items: npt.NDArray[np.void]
    stretches: npt.NDArray[np.void]
    chunks: npt.NDArray[np.void]
    streams: Numbers
    """first chunk of each warp"""
    values: npt.NDArray[np.void]
    counts: Numbers
    """number of arrivals per phase of each barrier object"""
    places: tuple[int, ...]
    """addresses of the barrier objects, in the order of `counts`"""
    registers: int
    executed: int
    """number of items that all warps issue"""


class _Builder:
    """Builds the tables; equal stretches are built once."""

    def __init__(self, stream: Stream, code: Code, found: Traffic, served: Served) -> None:
        self.stream, self.code, self.found, self.served = stream, code, found, served
        self.items: list[tuple[object, ...]] = []
        self.stretches: list[tuple[int, int]] = []
        self.known: dict[object, int] = {}
        self.lengths: list[int] = []
        self.values: list[tuple[int, int, int, int]] = []
        """values of steps over which nothing is moved; they follow those of the stretches"""
        self.chunks: list[tuple[int, int]] = []
        self.registers = code.registers
        self.events = self._events_of_steps()
        self.places = sorted(
            {place for events in self.events.values() for kind, place, *_ in events if kind == EVENT["init"]}
        )
        self.number = {place: n for n, place in enumerate(self.places)}
        self.counts = {
            place: amount
            for events in self.events.values()
            for kind, place, _, amount, _ in events
            if kind == EVENT["init"]
        }
        self.needs = self._generation_arrivals()
        self.tails = _tail_rows(served.beyond_l1)

    def _events_of_steps(self) -> dict[int, list[tuple[int, ...]]]:
        """Return for each step the kind, address, generation and amount of its effects on barriers, and whether another
        CTA has them."""
        events = self.stream.events
        wanted = (*_MEETINGS, EVENT["init"], EVENT["copy"], *_EVENTS)
        chosen = np.flatnonzero(np.isin(events[:, EVENT_KIND], wanted) & (self.stream.step_of >= 0))
        found: defaultdict[int, list[tuple[int, ...]]] = defaultdict(list)
        if self.stream.member is None:
            events = events.copy()
            events[:, REMOTE] = 0
        columns = events[chosen][:, [EVENT_KIND, PLACE, GENERATION, AMOUNT, REMOTE]].tolist()
        for step, (kind, place, *rest) in zip(self.stream.step_of[chosen].tolist(), columns, strict=True):
            found[step].append((kind, place & 0xFF if kind in _MEETINGS else place, *rest))
        return found

    def _generation_arrivals(self) -> dict[tuple[int, int], int]:
        """Return the number of arrivals of each generation of a named barrier; a generation that the stream's end cuts
        off gets the number of the others."""
        count: defaultdict[tuple[int, int], int] = defaultdict(int)
        for events in self.events.values():
            for kind, place, generation, *_ in events:
                if kind in _MEETINGS:
                    count[place, generation] += 1
        most: defaultdict[int, int] = defaultdict(int)
        last: defaultdict[int, int] = defaultdict(int)
        for (place, generation), number in count.items():
            most[place] = max(most[place], number)
            last[place] = max(last[place], generation)
        if self.stream.is_whole:
            return dict(count)
        return {key: most[key[0]] if key[1] >= last[key[0]] - 1 else number for key, number in count.items()}

    # -- a warp

    def set_order(self, order: Numbers) -> None:
        """Note what the stretches need of all steps, in the order of the warps."""
        pc, space = self.stream.pc[order], self.found.space[order]
        self.order, self.pcs = order, pc
        self.alone = np.array([one.kind in schedule.ALONE for one in self.code.instructions])[pc]
        self.keys = pc << SHIFT | self.diverging[order] << 3 | space
        chosen = self.valued[pc]
        self.first_values = (1 + np.cumsum(chosen) - chosen).tolist()
        self.stretch_values = self._values(order[chosen])

    def warp(self, first: int, last: int) -> None:
        """Add the chunks of a warp with these steps of the order."""
        pc, alone = self.pcs[first:last], self.alone[first:last]
        turns = np.zeros(len(pc), bool)
        turns[1:] = pc[1:] <= pc[:-1]
        cuts = first + np.flatnonzero(alone | turns)
        cut, back = first, 0
        for at, is_alone, step, before in zip(
            cuts.tolist(),
            self.alone[cuts].tolist(),
            self.order[cuts].tolist(),
            self.pcs[cuts - 1].tolist(),
            strict=True,
        ):
            if is_alone:
                self._close(cut, at)
                self._single(step)
                cut, back = at + 1, 0
            elif before in self.code.kept:
                self._close(cut, at)
                cut, back = at, 0
            elif at > cut:
                back += schedule.TURNS if before in self.code.outer else 1
                if back >= schedule.TURNS or at - cut > schedule.LONGEST // schedule.TURNS:
                    self._close(cut, at)
                    cut, back = at, 0
        self._close(cut, last)

    def _close(self, first: int, last: int) -> None:
        for at in range(first, last, schedule.LONGEST):
            self._stretch(at, min(last, at + schedule.LONGEST))

    def _stretch(self, first: int, last: int) -> None:
        key = self.keys[first:last].tobytes()
        number = self.known.get(key)
        if number is None:
            number = self.known[key] = self._make(self.order[first:last])
        if self.lengths[number]:
            self.chunks.append((number, self.first_values[first]))

    valued: npt.NDArray[np.bool_]
    diverging: Numbers

    def _values(self, steps: Numbers) -> Numbers:
        """Return the values of accesses, a row for each step."""
        served, passes = self.served, self.found.passes[steps]
        rows = np.stack([served.beyond_l1[steps], passes, served.of_dram[steps], self.tails[steps]], axis=1)
        far = self.found.space[steps] == traffic.IN_CLUSTER
        rows[far] = np.stack([0 * passes, passes, 0 * passes, 0 * passes + FAR], axis=1)[far]
        return rows

    def _kind(self, step: int) -> str:
        one = self.code.instructions[int(self.stream.pc[step])]
        if one.kind in ("load", "store", "atomic"):
            return _OF_SPACE[int(self.found.space[step])][one.kind]
        return one.kind

    def _make(self, steps: Numbers) -> int:
        pcs = self.stream.pc[steps].tolist()
        own = [self.code.instructions[pc] for pc in pcs]
        kinds = [self._kind(step) for step in steps.tolist()]
        for n in range(len(kinds) - 1):  # unrolling removes the branches between turns
            if kinds[n] == "branch" and pcs[n + 1] <= pcs[n]:
                kinds[n] = "plain"
        kinds = [
            "diverge" if diverges else kind
            for kind, diverges in zip(kinds, self.diverging[steps].tolist(), strict=True)
        ]
        if pcs[-1] in self.code.kept:
            kinds[-1] = "repeat"
        value, values = 0, []
        for pc in pcs:
            values.append(value if self.valued[pc] else -1)
            value += bool(self.valued[pc])
        made = []
        for placed in schedule.arrange(own, kinds, self.code.registers):
            one, kind = own[placed.at], kinds[placed.at]
            if kind == "none" and not placed.results:
                continue
            self.registers = max(self.registers, *(register + 1 for register in placed.results), 0)
            made.append(_item(one, kind, placed.sources, placed.results, values[placed.at], pcs[placed.at]))
        return self._enter(made)

    def _enter(self, made: Sequence[tuple[object, ...]]) -> int:
        self.stretches.append((len(self.items), len(made)))
        self.lengths.append(len(made))
        self.items += made
        return len(self.stretches) - 1

    # -- synchronization

    def _single(self, step: int) -> None:
        """Add a step over which nothing is moved, such as a synchronization: one item for each of its effects."""
        pc = int(self.stream.pc[step])
        one = self.code.instructions[pc]
        kinds, values = self._effects(step, one)
        key = pc, tuple(kinds)
        number = self.known.get(key)
        if number is None:
            barrier = self._membar(one, pc) if one.membar else []
            sources = (*one.sources[:3], self.code.registers) if barrier else one.sources
            number = self.known[key] = self._enter([*barrier, *(
                _item(one, kind, sources if n == 0 else (), one.results if n == 0 else (), n, pc,
                      cost=_SLOTS.get(kind, one.cost) if n == 0 else 0.0)
                for n, kind in enumerate(kinds)
            )])  # fmt: skip
        self.chunks.append((number, 1 + len(self.stretch_values) + len(self.values)))
        self.values += values

    def _membar(self, one: Instruction, pc: int) -> list[tuple[object, ...]]:
        """Return an item for a memory barrier; the next item waits for its result, in the first additional register."""
        self.registers = max(self.registers, self.code.registers + 1)
        barrier = one._replace(pipe=NO_PIPE, hold=0.0, latency=one.membar, reason=REASON["membar"])
        return [_item(barrier, "plain", (), (self.code.registers,), 0, pc)]

    def _effects(self, step: int, one: Instruction) -> tuple[list[str], list[tuple[int, int, int, int]]]:
        """Return the kinds and values of the items of a step."""
        events = self.events.get(step, ())
        nothing = (["plain"], [(0, 0, 0, 0)])
        if one.kind in ("bar_sync", "bar_arrive"):
            for kind, place, generation, *_ in events:
                if kind in _MEETINGS:
                    return [one.kind], [(place, self.needs[place, generation], 0, 0)]
            return nothing
        if one.kind in ("group_wait", "product_wait"):
            return [one.kind], [(self.code.rows[int(self.stream.pc[step])][6], 0, 0, 0)]
        if one.kind == "product":
            cycles, latency = (int(part * TICK) for part in one.product)
            return [one.kind], [(cycles, latency, 0, 0)]
        if one.kind == "bulk_store":
            size = sum(amount for kind, _, _, amount, _ in events if kind == EVENT["copy"])
            misses = int(self.served.of_dram[step]) or round(size // traffic.SECTOR * (1 - self.served.hits))
            return [one.kind], [(0, size, misses, 0)]
        if one.kind in ("events", "arrive_copies"):
            return self._list_effects(step, one, events) or nothing
        if one.kind in ("atomic", "load", "store"):
            x, y, z, tail = self._values(np.array([step]))[0].tolist()
            return [self._kind(step)], [(x, y, z, tail)]
        return [one.kind], [(0, 0, 0, 0)]

    def _list_effects(
        self, step: int, one: Instruction, events: Sequence[tuple[int, ...]]
    ) -> tuple[list[str], list[tuple[int, int, int, int]]] | None:
        kinds, values = [], []
        left = int(self.served.of_dram[step])
        bytes_ = sum(amount for kind, place, _, amount, _ in events if kind == EVENT["credit"] and place in self.number)
        for kind, place, generation, amount, remote in events:
            if kind not in _EVENTS or place not in self.number:
                continue
            name = _EVENTS[kind]
            if name == "arrive" and one.kind == "arrive_copies":
                name = "arrive_copies"
            x, y, z, tail = self.number[place], amount, 0, 0
            if name == "await":
                y = generation
            elif name == "arrive":
                z = remote
            if name == "bulk_load":
                z = round(left * amount / bytes_) if bytes_ else 0
                tail = int(np.searchsorted(LINES, max(1, amount // traffic.LINE)))
                tail = min(tail, len(LINES) - 1) | remote * FROM_OTHERS
            kinds.append(name)
            values.append((x, y, z, tail))
        return (kinds, values) if kinds else None


def _item(
    one: Instruction,
    kind: str,
    sources: Sequence[int],
    results: Sequence[int],
    value: int,
    pc: int,
    cost: float | None = None,
) -> tuple[object, ...]:
    slots = one.cost if cost is None else cost
    reason = REASON[_REASON_OF[kind]] if kind in _REASON_OF else one.reason
    return (
        KIND[_AS_ITEM.get(kind, kind)], round(slots * TICK), one.pipe, round(one.hold * TICK),
        round(one.latency * TICK), reason, _pad(sources), _pad(results), value, pc,
    )  # fmt: skip


def _pad(registers: Sequence[int]) -> tuple[int, ...]:
    return (*registers, -1, -1, -1, -1)[:4]


def _diverging(stream: Stream, code: Code, order: Numbers) -> Numbers:
    """Return 1 for each step that is a branch of `code.merges` which only some lanes of its warp take."""
    merges = np.isin(stream.pc[order], sorted(code.merges))
    warp, lanes = stream.warp[order], stream.lanes[order]
    found = np.zeros(len(order), np.int64)
    found[order[:-1]] = merges[:-1] & (warp[1:] == warp[:-1]) & (lanes[1:] & lanes[:-1] != lanes[:-1])
    return found


def _tail_rows(sectors: Numbers) -> Numbers:
    rows: Numbers = np.minimum(np.searchsorted(LINES, np.maximum(1, sectors // 4)), len(LINES) - 1)
    return rows


def tails() -> Numbers:
    """Return the delay of the slowest of several lines: a row for each of LINES, in ticks of scale 1."""
    drawn = (np.arange(DRAWS) + 0.5) / DRAWS * 0.998 + 0.001
    rows = [-np.log(1 - drawn ** (1 / lines)) for lines in LINES]
    made: Numbers = np.rint(np.array(rows) * TICK).astype(np.int64)
    return made


def _as_values(of_stretches: Numbers, of_others: Sequence[tuple[int, ...]]) -> npt.NDArray[np.void]:
    """Return the table of values; its first and its last row are zeros."""
    zeros = np.zeros((1, of_stretches.shape[1]), np.int64)
    others = np.array(of_others, np.int64).reshape(-1, of_stretches.shape[1])
    rows = np.concatenate([zeros, of_stretches, others, zeros])
    made = np.zeros(len(rows), tables.VALUE)
    for name, column in zip(tables.VALUE.names or (), rows.T, strict=True):
        made[name] = column
    return made


def tabulate(stream: Stream, code: Code, found: Traffic, served: Served) -> Tables:
    """Return the tables of a stream."""
    builder = _Builder(stream, code, found, served)
    memory = ("load", "store", "atomic", "cp_async", "matrix")
    builder.valued = np.array([one.kind in memory for one in code.instructions])
    for pc, one in enumerate(code.instructions):  # a product always takes the same number of cycles
        if one.kind == "matrix":
            builder.found.passes[stream.pc == pc] = round(one.product[1] * TICK)
            builder.served.beyond_l1[stream.pc == pc] = round(one.product[0] * TICK)
        if one.kind == "shared":  # includes matrix moves between registers and shared memory
            builder.found.passes[stream.pc == pc] = 4
    order = np.argsort(stream.warp, kind="stable")
    bounds = np.searchsorted(stream.warp[order], np.arange(stream.warps + 1))
    builder.diverging = _diverging(stream, code, order)
    builder.set_order(order)
    streams = [0]
    for warp in range(stream.warps):
        builder.warp(int(bounds[warp]), int(bounds[warp + 1]))
        streams.append(len(builder.chunks))
    lengths = np.array(builder.lengths, np.int64)
    chunks = np.array(builder.chunks, tables.CHUNK)
    return Tables(
        np.array(builder.items, tables.ITEM),
        np.array(builder.stretches, tables.STRETCH),
        chunks,
        np.array(streams, np.int64),
        _as_values(builder.stretch_values, builder.values),
        np.array([builder.counts[place] for place in builder.places], np.int64),
        tuple(builder.places),
        builder.registers,
        int(lengths[chunks["stretch"]].sum()),
    )


assert NO_PIPE == tables.PIPES - 1
