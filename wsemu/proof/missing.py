"""Find missing fences that cause no failure on known GPUs, because the accesses bypass the caches.

`threadFenceReduction` of CUDA's samples has a fence before the counter's atomic, but none after it: the last CTA reads
the results of the others by volatile loads.  The memory model guarantees nothing there, and a plain load may hit an old
line in the cache of its multiprocessor.  Loads that are volatile, strong, `.cg` or `.cv` read L2, which the writer's
fence has updated.  So if such a read races only because a fence is missing, the race is *excused*: a warning reports it
and names the fence.

If both accesses are strong, the missing fence may be the writer's.  PTX does not call this a race, but allows the later
access to come first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from wsemu.model.isa import FRESH, LANES, NAMES, NO_STORE, OPERATIONS, READ
from wsemu.proof.threads import Excused, Imagined, Knowledge

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from wsemu.model.program import Program
    from wsemu.proof.threads import Made, Race


def is_fresh(program: Program, pc: int) -> bool:
    """Return whether an instruction is a load that bypasses the cache of its multiprocessor."""
    operation, auxiliary = OPERATIONS[NAMES[int(program.code[pc, 0])]], int(program.code[pc, 7])
    return bool(auxiliary & (NO_STORE if operation.kind == "atomic" else FRESH * (operation.kind == "load")))


class Lenient(Knowledge):
    """The clocks of threads, and two more versions of them with imagined fences: a race in only the first is
    excused."""

    def __init__(self, program: Program, *rest: Any, **options: Any) -> None:
        super().__init__(program, *rest, **options)
        strong = range(len(program.code))
        acquiring, fenced = Imagined(strong), Imagined(strong, strong)
        self.others = tuple(Knowledge(program, *rest, imagined=i, **options) for i in (acquiring, fenced))

    def copy(self) -> Self:
        made = super().copy()
        made.others = tuple(other.copy() for other in self.others)
        return made

    def apply(self, cta: int, made: Iterable[Made], first: int) -> Iterator[Race]:
        made = list(made)
        races = list(super().apply(cta, made, first))
        kept: list[set[object]] = []
        for other in self.others:
            other.apart = self.apart
            kept.append({_name(race) for race in other.apply(cta, made, first)})
        for race in races:
            key = race.earlier.pc, race.later.pc
            if not self._is_excused(race, kept):
                yield race
            elif key not in self.shared.excused:
                self.shared.excused[key] = Excused(race, found=_name(race) not in kept[0])

    def _is_excused(self, race: Race, kept: Sequence[set[object]]) -> bool:
        both = race.earlier.pc in self.data and race.later.pc in self.data
        fresh = race.later.kind == READ and is_fresh(self.program, race.later.pc)
        return (fresh or both) and not race.earlier.agent and _name(race) not in kept[both]

    def key(self, alike: Sequence[bytes] | None = None) -> bytes:
        return b"".join((super().key(alike), *(other.key(alike) for other in self.others)))


def _name(race: Race) -> object:
    """Return the features that distinguish a race in one interleaving; symmetric CTAs may have exchanged the numbers of
    threads."""
    earlier, later = race.earlier, race.later
    lanes = earlier.thread % LANES, later.thread % LANES
    return *lanes, earlier.number, earlier.pc, later.number, race.address


def missing(
    begin: Callable[[Imagined], Knowledge], race: Race, made: Sequence[Made], strong: Iterable[int]
) -> tuple[int, int] | None:
    """Return the strong read after which a fence would order a race, and the strong write before which a fence would,
    each -1 if not needed.  A single fence is preferred.  Return None if no two such fences suffice."""
    at = set(strong)
    accesses = [(n, one.event) for n, one in enumerate(made) if one.event.kind == "access" and one.event.pc in at]
    owners = made[race.later.number].event.cta, made[race.earlier.number].event.cta
    seen = [e.pc for n, e in accesses if e.cta == owners[0] and n < race.later.number]
    given = [e.pc for n, e in accesses if e.cta == owners[1] and n > race.earlier.number]
    reads, writes = [-1, *dict.fromkeys(reversed(seen))], [-1, *dict.fromkeys(given)]  # those nearest to the race first
    pairs = [(behind, before) for behind in reads for before in writes if behind >= 0 or before >= 0]
    for behind, before in sorted(pairs, key=lambda pair: min(pair) >= 0):
        if not _races(begin, Imagined((behind,), (before,)), race, made):
            return behind, before
    return None


def _races(begin: Callable[[Imagined], Knowledge], imagined: Imagined, race: Race, made: Sequence[Made]) -> bool:
    """Return whether two accesses race on a path, with imagined fences."""
    while True:
        known = begin(imagined)
        known.shared.grown = False
        found = {_name(one) for n, m in enumerate(made) for one in known.apply(m.event.cta, [m], n)}
        if _name(race) in found:
            return True
        if not known.shared.grown:
            return False
