"""Edits of PTX that move an instruction out of the branch around it.

A store waits until all threads have loaded: `if (t >= d) x[t] += x[t - d]` gets its barrier between the loads and the
stores.  Each round of a pipeline commits a group of copies, even if the group is empty.
"""

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
_COMMIT = re.compile(r"cp\.async\.commit_group;")
_REGISTER = re.compile(r"%\w+")
_WRITES_NONE = re.compile(r"(?:st|bra|bar|barrier|red|cp|fence|membar)\b")
_STAYS = re.compile(
    r"ld\.(?!global|param|const|local)|(?:atom|red|bar|m?barrier|cp|wgmma|ldmatrix|stmatrix|call|ret|exit|trap)\b"
)
"""instructions that others do not pass: they access shared memory, synchronize, or leave"""
_BARRIERS = {"bar.warp.sync -1;": "__syncwarp()", "bar.sync 0;": "__syncthreads()"}
"""name of each barrier in C++"""
_WITHIN_WARP = "intra-warp-race"
_RACES = frozenset(("race", _WITHIN_WARP))


class Delayed(NamedTuple):
    """An instruction, and the position at which all threads can execute it."""

    place: Place
    at: int
    """first line after the instruction that all threads execute; the instruction's own line if no branch surrounds
    it"""
    predicate: str = ""
    """guard that it gets there: `@!%p1`, or nothing"""
    branch: float = math.inf
    """the branch, as a line of the text"""


def branch_edits(kernel: Kernel) -> Iterator[Scored]:
    """Yield all edits of this module."""
    if _RACES & {*kernel.codes}:
        yield from _store_edits(kernel)
    yield from _commit_edits(kernel)


def _commit_edits(kernel: Kernel) -> Iterator[Scored]:
    """Commit the copies of a round after the branch that surrounds them."""
    groups: dict[object, list[Delayed]] = {}
    for place in kernel.text.places:
        if _COMMIT.match(place.text):
            groups.setdefault(place.spot, []).append(_delay(kernel, place))
    for group in groups.values():
        if any(one.at == one.place.at for one in group):
            continue
        patch = Patch(kernel.text)
        for one in group:
            patch.delete(one.place.at).after(one.at, one.place.text)
        says = f"move `cp.async.commit_group` in {kernel.source.where(group[0].place)} out of the `if` around it"
        yield score_edit(0.1, "move", f"{says}: each round commits a group, even an empty one", patch)


def _store_edits(kernel: Kernel) -> Iterator[Scored]:
    """Put a barrier between the loads and the stores of an update."""
    within_warp = not {*kernel.codes} - {_WITHIN_WARP}
    barriers = _BARRIERS if within_warp else ("bar.sync 0;",)
    for (_, line), delayed in _updates(kernel).items():
        where = ", outside of the `if`" if any(one.at != one.place.at for one in delayed) else ""
        for (rank, barrier), again in itertools.product(enumerate(barriers), (False, True)):
            patch = Patch(kernel.text)
            for one in delayed:
                _perform_later(patch, one, barrier, [barrier] if again else [])
            says = f"load before you store in line {line}, with `{_BARRIERS[barrier]}` in between{where}"
            says += f", and `{_BARRIERS[barrier]}` after it" if again else ""
            yield score_edit(0.5 + 0.5 * rank + (0.3 if again else 0.0), "split", says, patch, 2 if again else 1)


def _perform_later(patch: Patch, delayed: Delayed, barrier: str, last: list[str]) -> None:
    """Move a store after the branch that surrounds it, and put a barrier before the store."""
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


def _delay(kernel: Kernel, wanted: Place) -> Delayed:
    """Return where all threads can execute an instruction: after the only branch that surrounds it, or where it is."""
    labels = {line.strip()[:-1]: at for at, line in enumerate(kernel.text.lines) if is_label(line)}
    jumps = [
        (place, labels[m[1]]) for place in kernel.text.places if (m := _BRANCH.match(place.text)) and m[1] in labels
    ]
    around = [jump for jump in jumps if jump[0].at < wanted.at < jump[1]]
    if around and not wanted.predicate:
        branch, target = around[-1]
        if branch.predicate and _is_alone(jumps, branch, target) and _can_pass(kernel, wanted, branch, target):
            return Delayed(wanted, target, _negate(branch.predicate), branch.at)
    return Delayed(wanted, wanted.at)


def _is_alone(jumps: list[tuple[Place, int]], branch: Place, target: int) -> bool:
    """Return whether all threads reach a branch's target through the branch, and no other jump skips it."""
    for place, to in jumps:
        inside, arrives = branch.at < place.at < target, branch.at < to <= target
        if place is not branch and (inside or arrives) and not (inside and to == target):
            return False
    return True


def _can_pass(kernel: Kernel, wanted: Place, branch: Place, target: int) -> bool:
    """Return whether an instruction means the same at the target of the branch around it."""
    skipped = [place for place in kernel.text.places if branch.at < place.at < target]
    passed = [place for place in skipped if place.at > wanted.at]
    if any(_STAYS.match(p.text) or (_STORE.match(p.text) and p.spot != wanted.spot) for p in passed):
        return False
    read = {*_REGISTER.findall(wanted.text)}
    kept = {*_REGISTER.findall(branch.predicate)}
    return not any(kept & _find_written(p) for p in skipped) and not any(read & _find_written(p) for p in passed)


def _find_written(place: Place) -> set[str]:
    """Return the registers that an instruction writes."""
    if _WRITES_NONE.match(place.text):
        return set()
    operands = place.text.partition(" ")[2].strip()
    first = operands.partition("}")[0] if operands.startswith("{") else operands.partition(",")[0]
    return {*_REGISTER.findall(first)}


def _negate(predicate: str) -> str:
    """Return the guard that selects the other threads."""
    return "@" + predicate[2:] if predicate.startswith("@!") else "@!" + predicate[1:]
