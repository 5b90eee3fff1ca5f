"""Machines that are kept for the next launch of their kind, and threads that run them at once."""

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
"""machines that have run, by what the next launch must have in common with theirs"""


_MOST_KEPT = 16
"""maximum kinds of launches that are kept"""


MOST_REMEMBERED = 1 << 17
"""CTAs that a machine may run which is kept: 8 bytes each"""


ROOMS = Rooms()


def leave_machine(machine: Machine) -> None:
    """Keep a machine for the next launch of its kind, or leave its tables to any.

    A machine takes as long to lay out as a small launch takes: what all of its kind have in common is laid out once.
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
    """Let go of the machines of the kind of launches that was made longest ago; False where there is no other."""
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
"""bytes that are worth being copied by several"""


def take_machine(key: Any, number: int) -> Machine | None:
    """A machine that was left by a launch of this kind, that of this worker if it is there."""
    with _keeping:
        known = _kept.get(key) if key else None
        if not known:
            return None
        own = (at for at, machine in enumerate(known) if machine.number == number)
        return known.pop(next(own, -1))


_keeping = threading.Lock()


class _Hand(threading.Thread):
    """A thread that makes calls for launches which are spread over the cores."""

    def __init__(self) -> None:
        super().__init__(name="wsemu", daemon=True)  # idle at the end: launches wait for theirs
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
    """Return the results of calls that run at once; if interrupted, it waits for them after `stop` is set."""
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
    """Groups from first up to, not including, last, for each worker: half of its own, half of the rest, and so on; none
    longer than what a machine has room for, see `run.Launch._ready`."""
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
"""maximum shares of a worker: shares that the slower workers have not begun are run by those that have finished"""


def next_share(shares: list[deque[tuple[int, int]]], number: int) -> tuple[int, int] | None:
    """Return the next share of a worker: the first of its own, then the last, small, of the worker with the most
    left."""
    try:
        if shares[number]:
            return shares[number].popleft()
        return max(shares, key=len).pop()
    except (IndexError, ValueError):  # others were quicker, or have stopped
        return None


def tell_sum(tell: Callable[[int], None], before: int, ran: int) -> None:
    tell(before + ran)
