"""A session on the reference interpreter: see `session.py`."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np

from wsemu.launch.explore.session import TRYING, Ask, Looking, Moved, Snapshot, bytes_around
from wsemu.launch.explore.spending import Spending
from wsemu.model.grid import Grouping
from wsemu.model.isa import ADDRESS_WRAPPED, ATOMICS, FIRST_ARRAY, LANES, NAMES, SEGMENT_SHIFT, SHARED, SIZE
from wsemu.model.outcome import FENCES, Trace, TraceRequest
from wsemu.proof.liveness import lane_bytes, live_rows
from wsemu.proof.threads import Made
from wsemu.reference.memory.shadow import Options
from wsemu.reference.ordered import OrderedRun
from wsemu.reference.run import Launch

if TYPE_CHECKING:
    from collections.abc import Collection

    from wsemu.model.bound import Bound
    from wsemu.proof.names import Named
    from wsemu.reference.undefined import Undefined


_DROPPED = (*FENCES, "atomic")


def _is_shared(address: int) -> bool:
    return (address & ~ADDRESS_WRAPPED) >> SEGMENT_SHIFT == SHARED


class SlowSession(Spending):
    """A session on the reference interpreter."""

    def __init__(
        self, bound: Bound, ordered: frozenset[int], logged: frozenset[int], looking: Looking = TRYING, *,
        undefined: Undefined | None = None,
    ) -> None:  # fmt: skip
        """`undefined` follows undefined values, for CTAs that are never restored."""
        configuration, chosen = bound.configuration, bound.settings
        self.looking, self.asynchronous = looking, bound.program.asynchronous
        self.program, self.segments = bound.program, bound.segments
        self.initial = [data.copy() for data, _ in bound.segments]
        self.live = live_rows(bound.program)
        self.effort, self.account, self.weight = bound.effort, bound.account, 1.0
        self.named: Named | None = None
        options = Options(
            looking.races, chosen.lockstep, True, "initialised" in chosen.checkers, False, bound.uninitialized,
            TraceRequest(logged), False,
        )  # fmt: skip

        def make() -> Launch:
            launch = Launch(
                bound.program, Grouping(configuration.grid), configuration.block, bound.rows, bound.segments,
                configuration.dynamic_shared, chosen.budget, options,
            )  # fmt: skip
            launch.undefined = undefined
            return launch

        self.run = OrderedRun(make, ordered)
        self.ctas = self.run.total
        self.histories = [b""] * self.ctas
        self.grown = False
        self.rounds: list[int] | None = None
        """If digests omit rounds: the bytes of shared memory that they contain."""
        self.written = [bytes(array.written) if array.written is not None else None for array in self.run.arrays]

    def close(self) -> None:
        """Do nothing, because no memory has to be released."""

    # -- moving -------------------------------------------------------------------------------------------------------
    def start(self) -> list[Moved]:
        self.load_memory((self.initial, self.written))
        self.histories = [b""] * self.ctas
        self.run.start()
        return [self._finish_move(cta, self.run.ctas[cta].run_until_stuck(), ~0) for cta in range(self.ctas)]

    def go(self, ask: Ask) -> Moved:
        wrote = ~(1 << ask.lane) if self._leaves(ask) else ~0
        return self._finish_move(ask.cta, self.run.ctas[ask.cta].run_until_stuck(ask.warp, ask.lane), wrote)

    def _leaves(self, ask: Ask) -> bool:
        """Return whether the requested access is a `cas` that will not write."""
        fields = self.run.ctas[ask.cta].launch.code[ask.pc]
        what, type_ = ATOMICS[NAMES[fields[0]]]
        if what != "cas":
            return False
        values = self.run.ctas[ask.cta].warps[ask.warp].registers.get(fields[4])
        cta, address = ask.place
        offset = address & (1 << SEGMENT_SHIFT) - 1
        number, arrays = (address >> SEGMENT_SHIFT) - FIRST_ARRAY, self.run.arrays
        if cta < 0 and not 0 <= number < len(arrays):
            return False
        data = self.run.ctas[cta].shared.data if cta >= 0 else arrays[number].data
        held = int.from_bytes(data[offset : offset + SIZE[type_]], "little")
        return held != (values[ask.lane] if values else 0)

    def _finish_move(self, cta: int, status: str, wrote: int) -> Moved:
        trace = self.run.trace(cta)
        if self.asynchronous:
            self._tell_history(cta, trace)
        made = []
        for event in trace.events:
            if self.asynchronous and event.kind == "access" and _is_shared(event.place) and not self.looking.tells:
                continue
            if event.kind != "access":
                made.append(Made(event))
                continue
            made.append(Made(event, tuple(trace.lane_addresses(event).items()), wrote))
            wrote = ~0
        return Moved(made, list(self.run.findings(cta)), status if trace.complete else "events")

    def _tell_history(self, cta: int, trace: Trace) -> None:
        """Hash the history of a CTA, which has the same contents as in the VM."""
        told: list[Any] = []
        for event in trace.events:
            if event.kind in _DROPPED or (event.kind == "access" and not _is_shared(event.place)):
                continue
            row = event._replace(cta=0, interval=0, addresses=-1)
            if event.kind == "copy":
                place, source = (at if _is_shared(at) else -1 for at in (event.place, event.generation))
                row = row._replace(place=place, generation=source)
            told.append(row)
            if event.kind == "access":
                told.append(tuple(trace.lane_addresses(event).items()))
        if told:
            made = hashlib.blake2b(self.histories[cta] + repr(told).encode(), digest_size=16)
            self.histories[cta] = made.digest()

    # -- looking ------------------------------------------------------------------------------------------------------
    def asks(self, cta: int) -> list[Ask]:
        own, found = self.run.ctas[cta], []
        for w, pc, lanes in self.run.asks(cta):
            fields = own.launch.code[pc]
            values = own.warps[w].registers.get(fields[3]) or [0] * LANES
            for lane in range(LANES):
                if lanes >> lane & 1:
                    address = (values[lane] + fields[6]) & ~ADDRESS_WRAPPED & (1 << 64) - 1
                    found.append(Ask(cta, w, lane, pc, (cta if address >> SEGMENT_SHIFT == SHARED else -1, address)))
        return found

    def alive(self, cta: int) -> list[tuple[int, int, int]]:
        asks = {w: lanes for w, _, lanes in self.run.asks(cta)}
        return [(w.number, w.alive, asks.get(w.number, 0)) for w in self.run.ctas[cta].warps if w.alive]

    def elsewhere(self, cta: int, warp: int) -> list[int]:
        return self.run.elsewhere(cta, warp)

    def snapshot(self, cta: int, warp: int) -> Snapshot:
        own = self.run.ctas[cta]
        one, widths = own.warps[warp], lane_bytes(self.program)
        block = np.zeros(self.program.register_bytes, np.uint8)
        for row, values in one.registers.items():
            size = widths.get(row) or 8
            block[row : row + size * LANES] = np.array(values, np.dtype(f"u{size}")).view(np.uint8)
        for row, lanes in one.predicates.items():
            block[row : row + 4] = np.array([lanes & 0xFFFFFFFF], np.uint32).view(np.uint8)
        shared = np.frombuffer(bytes(own.shared.data), np.uint8)
        return Snapshot(block, self.run.lanes_by_instruction(cta, warp), shared)

    def waiting_warps(self, cta: int) -> list[tuple[int, int]]:
        asked = {w for w, _, _ in self.run.asks(cta)}
        return [
            (w.number, w.parked[0].pc - 1 if w.waits < 0 and w.parked else w.wait_pc)
            for w in self.run.ctas[cta].warps if w.alive and w.number not in asked
        ]  # fmt: skip

    def operand(self, ask: Ask) -> int:
        fields = self.run.ctas[ask.cta].launch.code[ask.pc]
        values = self.run.ctas[ask.cta].warps[ask.warp].registers.get(fields[4])
        return int(values[ask.lane]) if values else 0

    def write(self, place: tuple[int, int], value: int, size: int) -> None:
        cta, address = place
        offset, number = address & (1 << SEGMENT_SHIFT) - 1, (address >> SEGMENT_SHIFT) - FIRST_ARRAY
        data = self.run.ctas[cta].shared.data if cta >= 0 else self.run.arrays[number].data
        data[offset : offset + size] = value.to_bytes(size, "little")

    def tell_rounds(self, matters: Collection[int]) -> None:
        self.rounds = sorted(matters)

    def executed_instructions(self) -> int:
        return self.run.executed_instructions()

    # -- keeping ------------------------------------------------------------------------------------------------------
    def save(self, cta: int) -> Any:
        return self.run.save(cta), self.histories[cta]

    def load(self, cta: int, saved: Any) -> None:
        self.run.load(cta, saved[0])
        self.histories[cta] = saved[1]

    def state_bytes(self) -> int:
        arrays = sum(data.nbytes for data, writable in self.segments if writable)
        return int(arrays) + (len(self.run.save(0)) if self.ctas else 0)

    def history(self, cta: int) -> bytes:
        return self.histories[cta]

    def suspects(self) -> Any:
        return {}  # each lane is judged at once

    def save_memory(self) -> Any:
        written = [bytes(array.written) if array.written is not None else None for array in self.run.arrays]
        return [data.copy() if writable else data for data, writable in self.segments], written

    def load_memory(self, saved: Any) -> None:
        for (data, writable), kept in zip(self.segments, saved[0], strict=True):
            if writable:
                data[:] = kept
        for array, marks in zip(self.run.arrays, saved[1], strict=True):
            if marks is not None:
                array.written = bytearray(marks)

    def value(self, place: tuple[int, int], memory: Any) -> bytes:
        return bytes_around(place, memory)

    def digest_memory(self) -> bytes:
        hashed = hashlib.blake2b(digest_size=16)
        apart = self.named.places if self.named else {}
        for number, (data, writable) in enumerate(self.segments):
            if writable and number not in apart:
                hashed.update(data)
        for array in self.run.arrays:
            hashed.update(bytes(array.written or b""))
        return hashed.digest()

    def digest(self, cta: int) -> bytes:
        named = self.named
        state = self.run.state(cta, named.live if named else self.live, self.rounds)
        own = [self.segments[n][0][by_cta[cta]].tobytes() for n, by_cta in named.places.items()] if named else []
        if self.asynchronous and state and self.rounds is None:
            state = (*state, self.histories[cta])
        return hashlib.blake2b(repr((own, state)).encode(), digest_size=16).digest()
