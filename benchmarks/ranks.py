"""Compare what `wsemu` decides for random programs of two ranks with all executions of the PTX memory model.

    python benchmarks/ranks.py --programs 20000 --seconds 3600 --workers 16 --seed 0

A program has two or four CTAs of one thread; half of them run on each of two GPUs.  Each thread has weak stores and
loads of two words, fences, stores to flags, and waits until a flag has a value.  A flag has one writer, whose values
increase.

`missed` counts programs that are `verified` although an execution races or some threads wait forever.  `false` counts
programs that are `failed` although no execution does so, and `open` counts correct programs that are `incomplete`.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import random
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import wsemu

WORDS, FLAGS = 2, 2
SCOPES = ("gpu", "sys")


class Step(NamedTuple):
    """One step of a thread."""

    does: str
    """`load` or `store` of a word, `fence`, `set` or `wait` of a flag"""
    place: int = 0
    value: int = 0
    order: str = ""
    """`relaxed`, or `release` and `acquire`"""
    scope: str = ""


Threads = list[list[Step]]


def random_program(r: random.Random) -> Threads:
    """Return the steps of the threads."""
    count = r.choice((2, 2, 2, 4))
    writers = [r.randrange(count) for _ in range(FLAGS)]
    scope = r.choice(("sys", "sys", "gpu"))
    threads = []
    for thread in range(count):
        steps = [Step(r.choice(("load", "store")), r.randrange(WORDS), thread + 1) for _ in range(r.randint(0, 2))]
        for flag, writer in enumerate(writers):
            sets = [
                Step("set", flag, value, r.choice(("relaxed", "release", "release")), choose_scope(r, scope))
                for value in range(1, r.randint(1, 2) + 1)
            ]
            waits = [
                Step("wait", flag, r.choice((1, 1, 2)), r.choice(("relaxed", "acquire", "acquire")),
                     choose_scope(r, scope))
                for _ in range(r.randint(0, 1))
            ]  # fmt: skip
            for step in sets if writer == thread else waits:
                first = max((n + 1 for n, one in enumerate(steps) if one[:2] == step[:2]), default=0)
                steps.insert(r.randint(first, len(steps)), step)
        for _ in range(r.choice((0, 0, 1, 2))):
            steps.insert(r.randint(0, len(steps)), Step("fence", scope=choose_scope(r, scope)))
        threads.append(steps)
    return threads


def choose_scope(r: random.Random, usual: str) -> str:
    """Return a scope, in most cases the usual one."""
    return usual if r.random() < 0.9 else r.choice(SCOPES)


# -- all executions ----------------------------------------------------------------------------------------------------
Place = tuple[int, int]
"""a thread, and the number of its step"""


class Executions:
    """The executions of a program by the axioms of the PTX memory model."""

    def __init__(self, threads: Threads) -> None:
        self.threads = threads
        self.ends = self._find_ends()
        self.steps = {(t, n): s for t, steps in enumerate(threads) for n, s in enumerate(steps[: self.ends[t]])}

    def _find_ends(self) -> list[int]:
        """Return how far each thread runs: what it waits for does not depend on the execution."""
        ends = [0] * len(self.threads)
        while True:
            before = list(ends)
            values = [0] * FLAGS
            for t, steps in enumerate(self.threads):
                for step in steps[: ends[t]]:
                    if step.does == "set":
                        values[step.place] = max(values[step.place], step.value)
            for t, steps in enumerate(self.threads):
                while ends[t] < len(steps):
                    step = steps[ends[t]]
                    if step.does == "wait" and values[step.place] < step.value:
                        break
                    ends[t] += 1
            if ends == before:
                return ends

    @property
    def hangs(self) -> bool:
        """True if a thread waits forever."""
        return any(end < len(steps) for end, steps in zip(self.ends, self.threads, strict=True))

    def races(self) -> bool:
        """Return whether an execution has a data race."""
        waits = [place for place, step in self.steps.items() if step.does == "wait"]
        sources = [self._sources(self.steps[wait]) for wait in waits]
        return any(self._races_if(dict(zip(waits, chosen, strict=True))) for chosen in itertools.product(*sources))

    def _sources(self, wait: Step) -> list[Place]:
        return [
            place for place, step in self.steps.items()
            if step.does == "set" and step.place == wait.place and step.value >= wait.value
        ]  # fmt: skip

    def _races_if(self, reads: dict[Place, Place]) -> bool:
        order = self._order(reads)
        return self._is_consistent(reads, order) and any(
            self._conflict(one, other) and not self._is_before(one, other, order)
            and not self._is_before(other, one, order)
            for one, other in itertools.combinations(self.steps, 2)
        )  # fmt: skip

    def _is_before(self, one: Place, other: Place, order: set[tuple[Place, Place]]) -> bool:
        """Return whether a step is ordered before another one.  For a wait, it must come before all reads, including
        unsuccessful ones."""
        if self.steps[other].does == "wait":
            return any((one, (other[0], n)) in order for n in range(other[1]))
        return (one, other) in order

    def _is_consistent(self, reads: dict[Place, Place], order: set[tuple[Place, Place]]) -> bool:
        """Return whether no wait reads a value that, by happens-before, was replaced earlier."""
        if any((place, place) in order for place in self.steps):
            return False
        for wait, source in reads.items():
            flag, value = self.steps[source].place, self.steps[source].value
            for place, step in self.steps.items():
                if step.does == "set" and step.place == flag and step.value > value and (place, wait) in order:
                    return False
            if (wait, source) in order:
                return False
            for other, first in reads.items():
                earlier = other[0] == wait[0] and other[1] < wait[1] and self.steps[other].place == flag
                if earlier and self.steps[first].value > value:
                    return False
        return True

    def _order(self, reads: dict[Place, Place]) -> set[tuple[Place, Place]]:
        """Return what happens before what: program order in a thread, and synchronization by what waits read."""
        order = {(a, b) for a in self.steps for b in self.steps if a[0] == b[0] and a[1] < b[1]}
        for wait, source in reads.items():
            if not self._reach_each_other(source, wait):
                continue
            for release in self._releases(source, wait[0]):
                order |= {(release, acquire) for acquire in self._acquires(wait, source[0])}
        while True:
            more = {(a, d) for a, b in order for c, d in order if b == c} - order
            if not more:
                return order
            order |= more

    def _releases(self, source: Place, to: int) -> list[Place]:
        """Return the starts of release patterns for a store that a thread reads: the store itself, or a fence before
        it; also for an earlier store of the same thread to the flag."""
        found = []
        for n in range(source[1] + 1):
            step = self.steps[source[0], n]
            same = step.does == "set" and step.place == self.steps[source].place and step.order == "release"
            if (same or step.does == "fence") and self._reaches(step.scope, source[0], to):
                found.append((source[0], n))
        return found

    def _acquires(self, wait: Place, to: int) -> list[Place]:
        found = []
        if self.steps[wait].order == "acquire" and self._reaches(self.steps[wait].scope, wait[0], to):
            found.append(wait)
        later = (n for n in range(wait[1], self.ends[wait[0]]) if self.steps[wait[0], n].does == "fence")
        return found + [(wait[0], n) for n in later if self._reaches(self.steps[wait[0], n].scope, wait[0], to)]

    def _reaches(self, scope: str, one: int, other: int) -> bool:
        half = len(self.threads) // 2
        return scope == "sys" or one // half == other // half

    def _reach_each_other(self, one: Place, other: Place) -> bool:
        a, b = self.steps[one].scope, self.steps[other].scope
        return self._reaches(a, one[0], other[0]) and self._reaches(b, one[0], other[0])

    def _conflict(self, one: Place, other: Place) -> bool:
        """Return whether two accesses race unless something orders them."""
        a, b = self.steps[one], self.steps[other]
        if one[0] == other[0] or "fence" in (a.does, b.does) or a.place != b.place:
            return False
        if {a.does, b.does} <= {"load", "store"}:
            return "store" in (a.does, b.does)
        return {a.does, b.does} == {"set", "wait"} and not self._reach_each_other(one, other)


# -- wsemu -------------------------------------------------------------------------------------------------------------
HEAD = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 words, .param .u64 flags, .param .u64 out) {
.reg .b64 %w, %f, %o; .reg .b32 %c, %v, %s; .reg .pred %p;
ld.param.u64 %w, [words];
ld.param.u64 %f, [flags];
ld.param.u64 %o, [out];
mov.u32 %c, %ctaid.x;
mov.u32 %s, 0;
"""


def ptx_text(threads: Threads) -> str:
    """Return a kernel whose CTAs execute the threads."""
    lines = [HEAD]
    for thread, steps in enumerate(threads):
        lines.append(f"setp.ne.u32 %p, %c, {thread};\n@%p bra T{thread};")
        lines += [ptx_step(step, f"{thread}_{n}") for n, step in enumerate(steps)]
        lines.append(f"st.global.u32 [%o+{4 * thread}], %s;\nT{thread}:")
    return "\n".join([*lines, "ret;\n}\n"])


def ptx_step(step: Step, label: str) -> str:
    """Return the instructions of a step."""
    if step.does == "fence":
        return f"fence.acq_rel.{step.scope};"
    if step.does == "store":
        return f"st.global.u32 [%w+{4 * step.place}], {step.value};"
    if step.does == "load":
        return f"ld.global.u32 %v, [%w+{4 * step.place}];\nadd.u32 %s, %s, %v;"
    access = f"{step.order}.{step.scope}.global.u32"
    if step.does == "set":
        return f"st.{access} [%f+{4 * step.place}], {step.value};"
    read = f"ld.{access} %v, [%f+{4 * step.place}];"
    return f"W{label}:\n{read}\nsetp.lt.u32 %p, %v, {step.value};\n@%p bra W{label};"


def verdict_of(threads: Threads, engine: Any = "vm") -> str:
    """Return the verdict for a program."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "k.ptx"
        file.write_text(ptx_text(threads))
        words, flags, out = (np.zeros(n, np.uint32) for n in (WORDS, FLAGS, len(threads)))
        kernel = wsemu.load_ptx(file)["k"]
        report = wsemu.check(kernel, len(threads), 1, (words, flags, out), ranks=2, engine=engine, budget=20_000)
    return report.verdict


def compare(seed: int, engine: Any = "vm") -> tuple[bool, str]:
    """Return whether a program is right, and its verdict."""
    threads = random_program(random.Random(seed))
    executions = Executions(threads)
    return not (executions.hangs or executions.races()), verdict_of(threads, engine)


def compare_some(first: int, count: int, end: float) -> list[tuple[int, bool, str]]:
    """Compare consecutive seeds until a time."""
    found = []
    for seed in range(first, first + count):
        if time.time() > end:
            break
        found.append((seed, *compare(seed)))
    return found


def main() -> int:
    """Compare programs; return 1 if a verdict is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=500, metavar="N", help="random programs (500)")
    parser.add_argument("--seconds", type=float, default=300, help="begin no more programs after this long (300)")
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="processes (1)")
    parser.add_argument("--seed", type=int, default=0, help="of the first program (0)")
    given = parser.parse_args()
    if given.programs < 1 or given.workers < 1:
        parser.error("give 1 or more programs and workers")
    compare(given.seed)  # the engine is compiled once, before there are workers to do it twice
    share, end = -(-given.programs // given.workers), time.time() + given.seconds
    with ProcessPoolExecutor(given.workers, multiprocessing.get_context("spawn")) as pool:
        starts = range(0, given.programs, share)
        parts = [pool.submit(compare_some, given.seed + n, min(share, given.programs - n), end) for n in starts]
        found = [one for part in parts for one in part.result()]
    missed = [seed for seed, right, verdict in found if verdict == "verified" and not right]
    false = [seed for seed, right, verdict in found if verdict == "failed" and right]
    left = [seed for seed, right, verdict in found if verdict == "incomplete" and right]
    undecided = sum(verdict == "incomplete" and not right for _, right, verdict in found)
    print(
        f"{len(found):,} programs, {sum(right for _, right, _ in found):,} right; missed {len(missed)} {missed[:5]}, "
        f"false {len(false)} {false[:5]}, open {len(left)} {left[:5]}, wrong and incomplete {undecided}"
    )
    return int(bool(missed or false))


if __name__ == "__main__":
    raise SystemExit(main())
