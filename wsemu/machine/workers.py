"""Machines that are kept for the next launch of their kind, and threads that run several at once."""

from __future__ import annotations

import functools
import itertools
import os
import threading
from collections import deque
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from wsemu.machine.memory.shadow_planes import ROOM
from wsemu.machine.tables import Rooms
from wsemu.machine.vm import Machine

if TYPE_CHECKING:
    from collections.abc import Callable

    from wsemu.machine.image import Bytes

_T = TypeVar("_T")


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_kept: dict[Any, list[Machine]] = {}
"""machines that have run, by the properties that the next launch must share with theirs"""


_MOST_KEPT = 16
"""maximum number of kinds of launches whose machines are kept"""


MOST_REMEMBERED = 1 << 17
"""maximum number of CTAs of a kept machine, which needs 8 bytes for each"""


ROOMS = Rooms()


def leave_machine(machine: Machine) -> None:
    """Keep a machine for the next launch of its kind, or return its tables to the pool.

    To lay out a machine takes as long as a small launch, so this is done only once for each kind.
    """
    if machine.key is not None and machine.planes:
        while not ROOM.has(machine.planes.held_bytes()) and _drop_oldest(machine.key):
            pass
    if machine.key is None or not machine.rest():
        machine.close()
        return
    with _keeping:
        known = _kept.pop(machine.key, [])
        _kept[machine.key] = [*known, machine]
        many = len(_kept) > _MOST_KEPT
    if many:
        _drop_oldest(machine.key)


def _drop_oldest(but: Any) -> bool:
    """Drop the machines of the kind of launches that was used longest ago; return False if there is no other kind."""
    with _keeping:
        oldest = next((key for key in _kept if key != but), None)
        machines = _kept.pop(oldest, [])
    for machine in machines:
        machine.close()
    return oldest is not None


def copy_data(data: Bytes, workers: int) -> Bytes:
    """Return a copy of the bytes; several workers share a large one, which takes as long as a launch."""
    if workers == 1 or len(data) < MUCH:
        return data.copy()
    made = np.empty_like(data)
    bounds = [len(data) * k // workers for k in range(workers + 1)]
    parts = [slice(*part) for part in itertools.pairwise(bounds)]
    call_at_once([functools.partial(np.copyto, made[part], data[part]) for part in parts])
    return made


MUCH = 1 << 20
"""minimum number of bytes that several threads copy together"""


def take_machine(key: Any, number: int) -> Machine | None:
    """Return a machine that a launch of this kind left, preferably one of the same worker; None if there is none."""
    with _keeping:
        known = _kept.get(key) if key else None
        if not known:
            return None
        own = (at for at, machine in enumerate(known) if machine.number == number)
        return known.pop(next(own, -1))


_keeping = threading.Lock()


class _Hand(threading.Thread):
    """A thread that executes calls for launches whose CTAs are spread over the cores."""

    def __init__(self) -> None:
        super().__init__(name="wsemu", daemon=True)  # idle at exit: each launch waits for its calls
        self.given: SimpleQueue[tuple[Callable[[], Any], int, SimpleQueue[Any]]] = SimpleQueue()
        self.start()

    def run(self) -> None:
        while True:
            call, number, done = self.given.get()
            result, error = None, None
            try:
                result = call()
            except BaseException as raised:
                error = raised
            _idle.append(self)
            done.put((number, result, error))
            del call, result, error


_idle: list[_Hand] = []
"""workers that wait for a call; each is notified separately, so that all begin at once"""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.clear)


def _hand() -> _Hand:
    try:
        return _idle.pop()
    except IndexError:
        return _Hand()


def call_at_once(calls: list[Callable[[], _T]], stop: threading.Event | None = None) -> list[_T]:
    """Run calls concurrently and return their results; after an interruption, set `stop` and wait for them."""
    done: SimpleQueue[tuple[int, Any, BaseException | None]] = SimpleQueue()
    found, errors, left = {}, [], 0
    try:
        for number, call in enumerate(calls[1:], 1):
            _hand().given.put((call, number, done))
            left += 1
        found[0] = calls[0]()
        while left:
            number, result, error = done.get()
            left -= 1
            found[number] = result
            errors += [error] if error else []
    except BaseException:
        if stop is not None:
            stop.set()
        for _ in range(left):
            done.get()
        raise
    if errors:
        raise errors[0]
    return [found[number] for number in range(len(calls))]


def share_groups(groups: int, workers: int) -> list[deque[tuple[int, int]]]:
    """Return each worker's ranges of groups: half of its own groups, then half of the rest, and so on.

    No range is longer than a machine has room for, see `run.Launch._ready`.
    """
    shares: list[deque[tuple[int, int]]] = []
    for number in range(workers):
        begin, last = groups * number // workers, groups * (number + 1) // workers
        own: deque[tuple[int, int]] = deque()
        while begin < last:
            rest = last - begin
            end = begin + (rest + 1) // 2 if len(own) < MOST_SHARES - 1 else last
            own.append((begin, end))
            begin = end
        shares.append(own)
    return shares


MOST_SHARES = 5
"""maximum number of shares per worker: idle workers take the shares that slower ones have not begun"""


def next_share(shares: list[deque[tuple[int, int]]], number: int) -> tuple[int, int] | None:
    """Return the next share of a worker: its own first one, or otherwise the last, smallest share of the worker with
    most shares left."""
    try:
        if shares[number]:
            return shares[number].popleft()
        return max(shares, key=len).pop()
    except (IndexError, ValueError):  # others were quicker, or have stopped
        return None


def tell_sum(tell: Callable[[int], None], before: int, ran: int) -> None:
    tell(before + ran)
