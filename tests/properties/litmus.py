"""The litmus tests of memory models, in every strength, scope and placement, as programs of `memory_model.py`.

A shape is the accesses of 2 to 4 threads, and an outcome that asks for more order than each place by itself has: what
registers hold in the end.  `-` is where a fence may stand; `W`, `R` and `A` (an atomic `add` of 1) are strong accesses,
which may release and acquire instead; `w` and `r` are plain ones, and `R~` a strong read that does not acquire, as it
only asks which of two writes came last.

An outcome is no error by itself, so `asking` makes it one: each thread that has seen its part of it stores to one
place, by a plain store.  These stores race in just the executions that have the outcome.  What is expected comes from
the shape alone, by `explore`: its outcomes, and its own races.
"""

from __future__ import annotations

import re
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from tests.properties.memory_model import SCOPES, Program, explore, parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Shape(NamedTuple):
    threads: str
    outcome: str = ""
    """`register=value` for each register that matters; empty if plain accesses race by themselves"""


SHAPES = {
    "MP": Shape("W x 1; -; W f 1 | R f -> a; -; R x -> b", "a=1 b=0"),
    "MP data": Shape("w x 1; -; W f 1 | R f -> a; -; ?a=1 r x -> b"),
    "MP reused": Shape("r x -> a; -; W f 1 | R f -> b; -; ?b=1 w x 1"),
    "SB": Shape("W f 1; -; R g -> a | W g 1; -; R f -> b", "a=0 b=0"),
    "LB": Shape("R f -> a; -; W g 1 | R g -> b; -; W f 1", "a=1 b=1"),
    "R": Shape("W f 1; -; W g 1; R~ g -> a | W g 2; -; R f -> b", "a=2 b=0"),
    "S": Shape("W f 2; -; W g 1 | R g -> a; -; W f 1; R~ f -> b", "a=1 b=2"),
    "2+2W": Shape("W f 1; -; W g 2; R~ g -> a | W g 1; -; W f 2; R~ f -> b", "a=1 b=1"),
    "WRC": Shape("W x 1 | R x -> a; -; W f 1 | R f -> b; -; R x -> c", "a=1 b=1 c=0"),
    "WRC data": Shape("w x 1; -; W f 1 | R f -> a; -; ?a=1 W g 1 | R g -> b; -; ?b=1 r x -> c"),
    "ISA2": Shape("W x 1; -; W f 1 | R f -> a; -; W g 1 | R g -> b; -; R x -> c", "a=1 b=1 c=0"),
    "RWC": Shape("W f 1 | R f -> a; -; R g -> b | W g 1; -; R f -> c", "a=1 b=0 c=0"),
    "IRIW": Shape("W f 1 | W g 1 | R f -> a; -; R g -> b | R g -> c; -; R f -> d", "a=1 b=0 c=1 d=0"),
    "CoRR": Shape("W f 1 | R f -> a; -; R f -> b", "a=1 b=0"),
    "CoRR2": Shape("W f 1 | W f 2 | R f -> a; -; R f -> b | R f -> c; -; R f -> d", "a=1 b=2 c=2 d=1"),
    "CoWR": Shape("W f 1; -; R f -> a | W f 2", "a=0"),
    "CoRW": Shape("R f -> a; -; W f 1 | R f -> b; W f 2", "a=1"),
    "CoRW2": Shape("R f -> a; -; W f 1; R~ f -> b | W f 2", "a=2 b=2"),
    "atomics": Shape("A f -> a | A f -> b", "a=0 b=0"),
    "CoWW": Shape("W f 1; -; W f 2 | R f -> a; R f -> b", "a=2 b=1"),
}


class Setting(NamedTuple):
    """The strength of a shape, and the locations of its threads."""

    fence: str
    """`none`, `acq_rel`, `sc`, or `accesses`: these release and acquire"""
    scope: str
    """scope of the fences"""
    accesses: str
    """scope of the accesses; or `volatile` or `weak` for accesses that are strong otherwise"""
    placement: str
    """a key of `PLACEMENTS`"""

    def __str__(self) -> str:
        scopes = self.scope if self.scope == self.accesses else f"{self.scope} in {self.accesses}"
        return f"{self.fence} {scopes} {self.placement}"


FENCES = ("none", "acq_rel", "sc", "accesses")
_ORDERS = {"W": "release", "R": "acquire", "A": "acq_rel"}
PLACEMENTS = {
    "one CTA": "@0 @0 @0 @0", "beside a CTA": "@0 @0 @0 @0", "cluster": "@0/0 @1/0 @0/0 @1/0", "grid": "@0 @1 @2 @3",
}  # fmt: skip
"""for each thread: its CTA, and the cluster of that CTA"""
_BESIDE = {"beside a CTA": ["@1: W s7 1"]}
"""threads of others, which have nothing to do with them"""


def settings() -> Iterator[Setting]:
    """Yield all settings, including fences that are narrower than the accesses."""
    for fence, scope, placement in product(FENCES, SCOPES, PLACEMENTS):
        yield Setting(fence, scope, scope, placement)
        if fence in ("acq_rel", "sc") and scope != "sys":
            yield Setting(fence, scope, "sys", placement)
        if fence != "accesses":
            yield Setting(fence, scope, "volatile", placement)
        if fence == "none" or scope == "gpu":
            yield Setting(fence, scope, "weak", placement)


def _threads(shape: Shape, fence: str, strong: Callable[[str], str]) -> list[str]:
    """Return each thread's operations in the form that `parse` reads; `strong` maps a kind of access to its order and
    scope."""

    def access(match: re.Match[str]) -> str:
        kind, rest = match.groups()
        if kind == "A":
            return f"A add {rest} 1 {strong(kind)}"
        return f"{kind[0].upper()} {rest}{f' {strong(kind)}' if kind[0].isupper() else ''}"

    found = re.sub(r"(R~|[AWRwr]) (\w(?: \d)?)(?=\s*(?:;|\||->|$))", access, shape.threads)
    return [thread.strip() for thread in found.replace("-;", fence).split("|")]


def _set(shape: Shape, setting: Setting) -> list[str]:
    orders = _ORDERS if setting.fence == "accesses" else {}
    fence = f"F {setting.fence} {setting.scope};" if setting.fence in ("acq_rel", "sc") else ""
    scope = setting.accesses

    def strong(kind: str) -> str:
        if scope in ("volatile", "weak"):  # an atomic is neither
            return "relaxed sys" if kind == "A" else scope
        return f"{orders.get(kind, 'relaxed')} {scope}"

    return _threads(shape, fence, strong)


def _placed(threads: list[str], placement: str) -> Program:
    placed = [f"{place}: {thread}" for place, thread in zip(PLACEMENTS[placement].split(), threads, strict=False)]
    return parse(" | ".join(f"P{n}{thread}" for n, thread in enumerate((*placed, *_BESIDE.get(placement, ())))))


def core(shape: Shape, setting: Setting) -> Program:
    """Return the shape alone."""
    return _placed(_set(shape, setting), setting.placement)


def asking(shape: Shape, setting: Setting) -> Program:
    """Return the shape with stores that race if the outcome occurs."""
    return _placed(_asking(_set(shape, setting), shape.outcome), setting.placement)


def _asking(threads: list[str], outcome: str) -> list[str]:
    wanted = outcome.split()
    told = [n for n, thread in enumerate(threads) if _parts(thread, wanted)]
    for n in told:
        threads[n] += _tells(_parts(threads[n], wanted), n)
    if len(told) == 1:
        other = 1 - told[0] if told[0] < 2 else 0
        threads[other] += "; W y 9"
    return threads


def _parts(thread: str, wanted: list[str]) -> list[str]:
    return [part for part in wanted if f"-> {part[0]}" in thread]


def _tells(parts: list[str], n: int) -> str:
    """A store if all parts hold: a guard asks for one, so that the others go through a place of the thread's own."""
    if len(parts) == 1:
        return f"; ?{parts[0]} W y {n + 1}"
    last, first = parts
    return f"; ?{first} W s{n} 1; ?{last} R s{n} -> e; ?e=1 W y {n + 1}"


def may_fail(shape: Shape, setting: Setting) -> bool:
    """Return whether the model allows the outcome, or a race of the shape itself."""
    found = explore(core(shape, setting))
    wanted = {part[0]: int(part[2:]) for part in shape.outcome.split()}
    seen = (dict(pair for thread in outcome.registers for pair in thread) for outcome in found.outcomes)
    return found.racing or any(bool(wanted) and wanted.items() <= registers.items() for registers in seen)
