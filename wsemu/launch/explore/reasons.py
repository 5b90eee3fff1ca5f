"""The texts for launches that the search does not decide: the access, its line, and a workaround.

`wsemu/launch/explore/nodes.py` lists the reasons, `Result.why`.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from wsemu.launch.explore.samples import DEPTH
from wsemu.launch.explore.search import MOST_LANES
from wsemu.model.data import NamedTuple
from wsemu.model.isa import ATOMICS, NAMES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from wsemu.evidence.places import Places
    from wsemu.launch.explore.nodes import Result

MOST_NAMED = 3
"""maximum number of accesses that a reason names"""


class Undecided(NamedTuple):
    """A text on what is not decided, with `{}` for the accesses and their lines, and a workaround."""

    what: str
    around: str


_FEWER = "check fewer CTAs or threads, or store the result and use it in a later launch"
_ONE_LANE = f"perform it by one lane for its warp, or check blocks of at most {MOST_LANES} threads"

UNDECIDED = {
    "steps": Undecided("the orders of {} are too many to try", _FEWER),
    "lanes": Undecided("lanes of a warp reach {} in more orders than are tried", _ONE_LANE),
    "weak": Undecided(
        "strong accesses to several locations may be observed in another order than they are performed, and such "
        "orders are not tried: {}",
        "put a `cuda.threadfence()` between them",
    ),
    "copies": Undecided(
        "for all orders of atomics, the effect of a copy and another access on one location is not decided: {}",
        "wait for the copy and put a barrier between the two, or give each its own location",
    ),
    "replays": Undecided(
        "a replay of an order of {} ends differently, and nothing is decided",
        "put a barrier between the atomics and the copies or waits",
    ),
    "unclear": Undecided(
        "in some order of atomics, several lanes of one store write one location, and which value stays is not "
        "decided: {}",
        "store it by one lane",
    ),
    "budget": Undecided("an order of {} uses up the step budget", "raise it with `budget=` (`--budget`)"),
    "events": Undecided(
        "after {} come more accesses than are followed", "check fewer threads, or loops of fewer rounds"
    ),
    "trap": Undecided(
        "an order of {} leads to an operation that is not modeled", "replace the operation, or check without its branch"
    ),
    "fault": Undecided("an order of {} leads to a fault whose checker is off", "turn it on"),
    "stack": Undecided("after {}, branches diverge more than 64 levels deep", "nest fewer branches"),
    "room": Undecided(
        "after {} there are more asynchronous operations than are followed", "wait for copies before others begin"
    ),
    "shared": Undecided(
        "in a launch with phases or copies, orders of accesses to shared memory are not tried: {}",
        "move the atomic to global memory, or replace it by a barrier",
    ),
    "rounds": Undecided(
        "the loop around {} accesses other memory while it waits", "wait in a loop that does nothing but poll"
    ),
    "undefined": Undecided(
        "after {}, uninitialized memory is read, whose value has reached nothing yet", "initialize it"
    ),
    "circle": Undecided("threads may loop forever at {}", "limit the rounds, or wait in a loop that only polls"),
    "apart": Undecided(
        "before {}, lanes of a warp may run ahead of others",
        "add a `cuda.syncwarp()` before it, or perform it by one lane",
    ),
}
"""Keys are values of `Result.why`."""

TRIED = frozenset(("steps", "lanes"))
"""reasons after which more effort may help"""


def describe_undecided(result: Result, places: Places, ordered: Iterable[int], effort: int) -> str:
    """Return the reason why a search decides nothing.  `ordered` are its ordered accesses.  They are named if the
    search ended before one was performed, and `effort` is that of the launch."""
    accesses = _list_accesses(result, ordered, places)
    what, around = UNDECIDED[result.why]
    found = [what.format(_name_accesses(accesses, places))]
    if result.why == "steps":
        tried = f"{result.steps:,} ordered accesses in {result.states:,} states were tried and none failed"
        found.append(f"{tried}, {result.left:,} states were left")
    if result.why in TRIED:
        found += _describe_samples(result)
        around += f"; `--effort {10 * effort}` (`effort={10 * effort}`) tries ten times more"
    return f"{places.where(accesses[0])}: {'; '.join(found)}: {around}"


def _list_accesses(result: Result, ordered: Iterable[int], places: Places) -> Sequence[int]:
    """Return the accesses that the reason names: those that the search stored with it, or the most frequent ones on the
    path, or any."""
    if result.at:
        return result.at
    performed = [pc for pc, _ in Counter(ask.pc for ask in result.reached.asks).most_common()]
    if result.why not in TRIED and performed:
        return [result.reached.asks[-1].pc]
    executed = places.outcome.executions
    return performed or sorted(ordered, key=lambda pc: (-_count_executions(executed, pc), pc)) or [0]


def _count_executions(executed: Sequence[int], pc: int) -> int:
    """Return how often an instruction was executed."""
    return executed[pc] if pc < len(executed) else 0


def _name_accesses(accesses: Iterable[int], places: Places) -> str:
    """Return the names of accesses, each with its line."""
    from wsemu.proof.taint import LOAD, STORE, atomic_source_name

    named: dict[str, None] = {}
    for pc in accesses:
        is_atomic = NAMES[int(places.program.code[pc, 0])] in ATOMICS
        name = atomic_source_name(places.program, pc) if is_atomic else "access"
        named[f"{'the ' * (name in (LOAD, STORE, 'access'))}{name} on line {places.line(pc)}"] = None
    first, rest = list(named)[:MOST_NAMED], len(named) - MOST_NAMED
    if rest > 0:
        first.append(f"{rest:,} more")
    return " and ".join((", ".join(first[:-1]), first[-1])) if len(first) > 1 else first[0]


def _describe_samples(result: Result) -> Iterator[str]:
    """Yield how many interleavings were sampled."""
    found = result.sampled
    if found is not None and found.orders:
        yield (
            f"of an estimated {_round_count(found.estimate)} orders {found.orders} were sampled and none failed, "
            f"{found.drawn} of them by PCT: each meets a failure that takes {DEPTH} accesses in a certain order with a "
            f"probability of at least 1 in {_round_count(1 / found.failure_bound)}"
        )


def _round_count(number: float) -> str:
    """Format a number that matters by its order of magnitude only."""
    return f"{round(number):,}" if number < 1e5 else f"{number:.0e}".replace("e+0", "e").replace("e+", "e")
