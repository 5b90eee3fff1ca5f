"""Mistakes in generated programs of threads whose operations have kinds, `B` for a barrier of all threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    import random
    from collections.abc import Callable


class Operation(Protocol):
    """A step of a thread."""

    @property
    def kind(self) -> str: ...


Op = TypeVar("Op", bound=Operation)


def break_program(
    source: random.Random,
    made: list[list[Op]],
    change: Callable[[random.Random, Op], Op],
    draw: Callable[[random.Random], Op],
    *,
    once: str = "",
) -> list[list[Op]]:
    """Return the program with a step removed, repeated, moved or changed; a barrier is removed for all threads.  Steps
    of the kind `once` are only removed or moved."""
    n = source.randrange(len(made))
    ops = list(made[n])
    if not ops:
        return made
    at, how = source.randrange(len(ops)), source.randrange(5)
    op = ops[at]
    if op.kind == once and how > 1:
        how = 0
    if op.kind == "B":
        if how < 2:
            which = sum(o.kind == "B" for o in ops[:at])
            return [without_barrier(own, which) for own in made]
        how = 1
    if how == 0:
        del ops[at]
    elif how == 1 and at + 1 < len(ops):
        ops[at], ops[at + 1] = ops[at + 1], op
    elif how == 2:
        ops.insert(source.randint(at, len(ops)), op)
    elif how == 3:
        ops[at] = change(source, op)
    else:
        ops.insert(at, draw(source))
    return [*made[:n], ops, *made[n + 1 :]]


def without_barrier(ops: list[Op], which: int) -> list[Op]:
    """Return the steps of a thread without one of its barriers, if it has that many."""
    places = [k for k, op in enumerate(ops) if op.kind == "B"]
    return [*ops[: places[which]], *ops[places[which] + 1 :]] if which < len(places) else ops
