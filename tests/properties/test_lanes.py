"""Random accesses of lanes to a few words of shared memory, among `syncwarp` and `syncthreads`: the verdict is that of
clocks of all 64 threads, and both engines say the same.

Reads, writes and atomics of two widths meet on few words, by whole warps, ranges, scattered or single lanes: so that a
word has several earlier accesses, of several lanes and warps, most of the time.
"""

from __future__ import annotations

import random
from typing import Any, Final, NamedTuple

import numpy as np
import pytest

import wsemu
from wsemu import cuda

BARRIER, READ, WRITE, ATOMIC, WIDE, MEET = range(6)
THREADS: Final = 64
WORDS: Final = 4


class Step(NamedTuple):
    """What the lanes `mask` of a warp do; `own`: each on a word of its own, after the first one's."""

    kind: int
    warp: int = 0
    mask: int = 0
    word: int = 0
    own: int = 0


@cuda.jit
def runs(steps, out):
    words = cuda.shared.array(72, np.int32)
    pairs = words.view(np.int64)
    t = cuda.threadIdx.x
    w, lane = t // 32, t % 32
    words[t] = 0
    if t < 8:
        words[64 + t] = 0
    cuda.syncthreads()
    total = 0
    for k in range(steps.shape[0]):
        kind = steps[k, 0]
        place = steps[k, 3] + steps[k, 4] * lane
        if kind == 0:
            cuda.syncthreads()
        elif w == steps[k, 1] and (steps[k, 2] >> lane) & 1 != 0:
            if kind == 1:
                total += words[place]
            elif kind == 2:
                words[place] = 7
            elif kind == 3:
                cuda.atomic.add(words, place, 1)
            elif kind == 4:
                cuda.atomic.add(pairs, place // 2, 1)
            else:
                cuda.syncwarp(steps[k, 2])
    out[t] = total


def drawn(source: random.Random) -> list[Step]:
    """Few steps: longer programs nearly always have a race."""
    kinds = [READ, READ, WRITE, ATOMIC, ATOMIC, WIDE, MEET, MEET, MEET, BARRIER]
    accessors = source.choice([1, 2])
    made = []
    for _ in range(source.randrange(2, 9)):
        kind = source.choice(kinds)
        word = source.randrange(WORDS) if source.random() < 0.3 else 0
        own = int(kind in (READ, WRITE, ATOMIC) and source.random() < 0.25)
        made.append(Step(kind, source.randrange(accessors), _mask(source), word, own))
    return made


def _mask(source: random.Random) -> int:
    first = source.randrange(4)
    return source.choice(
        [
            0xFFFFFFFF,
            1 << first,
            1 << first,
            (1 << source.randrange(first + 1, 6)) - (1 << first),
            source.randrange(1, 16),
        ]
    )


def touched(step: Step, lane: int) -> set[int]:
    word = step.word + step.own * lane
    return {word // 2 * 2, word // 2 * 2 + 1} if step.kind == WIDE else {word}


def expected(steps: list[Step]) -> tuple[set[str], set[str]]:
    """The codes of all conflicts that nothing orders, by vector clocks of threads; those of two stores apart: all store
    one value."""
    clocks = [[0] * THREADS for _ in range(THREADS)]
    done: dict[int, list[tuple[int, int, Step]]] = {}
    codes, stores = set[str](), set[str]()
    now = 1
    for step in steps:
        threads = [32 * step.warp + lane for lane in range(32) if step.mask >> lane & 1]
        if step.kind in (BARRIER, MEET):
            met = range(THREADS) if step.kind == BARRIER else threads
            joined = [max(column) for column in zip(*(clocks[t] for t in met), strict=True)]
            for t in met:
                joined[t] = now
            for t in met:
                clocks[t] = list(joined)
            now += 1
            continue
        for t in threads:
            for word in touched(step, t % 32):
                for other, when, earlier in done.get(word, ()):
                    plain = WRITE in (step.kind, earlier.kind) or (
                        step.kind != earlier.kind and (step.kind, earlier.kind) != (READ, READ)
                    )
                    if plain and other != t and earlier is not step and clocks[t][other] < when:
                        both = stores if step.kind == earlier.kind == WRITE else codes
                        both.add("race" if other // 32 != t // 32 else "intra-warp-race")
        for t in threads:
            for word in touched(step, t % 32):
                done.setdefault(word, []).append((t, now, step))
    return codes, stores


def check(steps: list[Step], **options: Any) -> wsemu.Report:
    return wsemu.check(runs, 1, THREADS, (np.array(steps, np.int64), np.zeros(THREADS, np.int64)), **options)


def errors(report: wsemu.Report) -> set[str]:
    return {finding.code for finding in report.findings if finding.severity == "error"}


@pytest.mark.parametrize("seed", range(4))
def test_lanes_are_judged_as_threads_are(seed: int) -> None:
    source = random.Random(seed)
    mixed = [0, 0]
    for _ in range(50):
        steps = drawn(source)
        codes, stores = expected(steps)
        report = check(steps, engine="vm")
        found = errors(report)
        assert bool(found) == bool(codes), (steps, found, codes)
        assert found <= codes | stores, (steps, found, codes)
        if not codes:
            warned = any(finding.code == "same-value-store" for finding in report.findings)
            assert warned == bool(stores), steps
        mixed[bool(codes)] += 1
    assert min(mixed) > 10


@pytest.mark.parametrize("seed", range(2))
def test_both_engines_say_the_same_of_lanes(seed: int) -> None:
    source = random.Random(100 + seed)
    for _ in range(12):
        steps = drawn(source)
        reports = [check(steps, engine=engine).model_dump(exclude={"seconds"}) for engine in ("vm", "reference")]
        assert reports[0] == reports[1], steps
