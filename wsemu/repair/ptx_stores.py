"""Edits that delay stores to shared memory in PTX until all threads have loaded: `x[t] += x[t - d]`."""

from __future__ import annotations

import itertools
import math
import re
from typing import TYPE_CHECKING

from wsemu.model.data import NamedTuple
from wsemu.repair.ptx_kernel import is_label, score_edit
from wsemu.repair.ptx_text import Patch
from wsemu.repair.rings import SYNCHRONIZES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wsemu.repair.ptx_kernel import Kernel, Scored
    from wsemu.repair.ptx_text import Place

_STORE = re.compile(r"st\.(?:volatile\.)?shared\.")
_LOAD = re.compile(r"ld\.(?:volatile\.)?shared\.")
_BRANCH = re.compile(r"bra(?:\.uni)?\s+(\S+);")
_BARRIERS = {"bar.warp.sync -1;": "__syncwarp()", "bar.sync 0;": "__syncthreads()"}
"""barrier -> its name in C++"""
_WITHIN_WARP = "intra-warp-race"
_RACES = frozenset(("race", _WITHIN_WARP))


class Delayed(NamedTuple):
    """A store, and where it can be performed for all threads."""

    store: Place
    at: int
    """first line after the store that all threads execute; the line of the store if no branch surrounds it"""
    predicate: str = ""
    """guard of the delayed store: `@!%p1`, or nothing"""
    branch: float = math.inf
    """the branch, as a line of the text"""


def store_edits(kernel: Kernel) -> Iterator[Scored]:
    """Yield all edits of this module."""
    if not _RACES & {*kernel.codes}:
        return
    within_warp = not {*kernel.codes} - {_WITHIN_WARP}
    barriers = _BARRIERS if within_warp else ("bar.sync 0;",)
    for (_, line), delayed in _updates(kernel).items():
        where = ", outside of the `if`" if any(at != store.at for store, at, *_ in delayed) else ""
        for (rank, barrier), again in itertools.product(enumerate(barriers), (False, True)):
            patch = Patch(kernel.text)
            for one in delayed:
                _perform_later(patch, one, barrier, [barrier] if again else [])
            says = f"load before you store in line {line}, with `{_BARRIERS[barrier]}` in between{where}"
            says += f", and `{_BARRIERS[barrier]}` after it" if again else ""
            yield score_edit(0.5 + 0.5 * rank + (0.3 if again else 0.0), "split", says, patch, 2 if again else 1)


def _perform_later(patch: Patch, delayed: Delayed, barrier: str, last: list[str]) -> None:
    """Move a store out of the branch around it, and put a barrier before it."""
    store, at, predicate, _ = delayed
    if at == store.at:
        patch.before(at, barrier).after(at, *last)
    else:
        patch.delete(store.at).after(at, barrier, f"{predicate} {store.text}", *last)


def _updates(kernel: Kernel) -> dict[tuple[str, int], list[Delayed]]:
    """Return the stores that findings name, and that threads perform after a load from shared memory, by statement.

    The load is of the same statement, or under the same branch.
    """
    found: dict[tuple[str, int], list[Delayed]] = {}
    loaded: Place | None = None
    for place in kernel.text.places:
        if SYNCHRONIZES.match(place.text):
            loaded = None
        if (place.file, place.line) not in kernel.hot:
            continue
        if _LOAD.match(place.text):
            loaded = place
        elif _STORE.match(place.text) and loaded is not None:
            delayed = _delay(kernel, place)
            if place.run == loaded.run or delayed.branch < loaded.at:
                found.setdefault((place.file, place.line), []).append(delayed)
    return found


def _delay(kernel: Kernel, store: Place) -> Delayed:
    """Return where a store can be performed for all threads: after the one branch around it, or in place."""
    labels = {line.strip()[:-1]: at for at, line in enumerate(kernel.text.lines) if is_label(line)}
    for place in reversed([p for p in kernel.text.places if p.at < store.at]):
        branch = _BRANCH.match(place.text)
        target = labels.get(branch[1], -1) if branch else -1
        if target > store.at and place.predicate:
            return Delayed(store, target, _negate(place.predicate), place.at)
        if branch or any(place.at < at < store.at for at in labels.values()):
            break
    return Delayed(store, store.at)


def _negate(predicate: str) -> str:
    """Return the guard that selects the other threads."""
    return "@" + predicate[2:] if predicate.startswith("@!") else "@!" + predicate[1:]
