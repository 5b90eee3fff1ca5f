"""Abstract programs (see explorer.py) and changes that must not change what is said of them.

Each change keeps what the interleavings of a program can show: warps get other numbers, a barrier of the whole CTA
comes before the first or after the last operation of each warp, a barrier that all warps sync on is followed by another
one, loops are unrolled, and the CTAs of a grid that execute different programs change places.  So the verdict stays,
and so do the codes of errors, where no run ends early.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy import int32

import wsemu
from tests.properties.agreement import STOPS
from tests.properties.algorithm import RECYCLING
from tests.properties.explorer import DEADLOCK, LANES, SYNC, Operation, Program, notation
from tests.properties.programs import FAMILIES, INTERPRETED, VARIABLES, check_compiled, check_interpreted, named
from wsemu import cuda, ptx

if TYPE_CHECKING:
    from tests.properties.programs import Random
    from wsemu.model.settings import Engine

SPARE: Final = 14
"""a barrier that no program has"""


@cuda.jit
def by_cta(length, code, out):
    """Execute what the rows of `code` of the CTA's warp say, as `programs.interpreter` does."""
    cells = cuda.shared.array((VARIABLES, LANES), int32)
    thread, cta = cuda.threadIdx.x, cuda.blockIdx.x
    w, lane = thread // LANES, thread % LANES
    total = 0
    if w == 0:
        for v in range(VARIABLES):
            cells[v, lane] = 0
    cuda.syncthreads()
    for k in range(length[cta, w]):
        operation, place = code[cta, w, k, 0], code[cta, w, k, 1]
        if operation == 1:
            ptx.bar_sync(place, code[cta, w, k, 2])
        elif operation == 2:
            ptx.bar_arrive(place, code[cta, w, k, 2])
        elif operation == 3:
            total += cells[place, lane]
        else:
            cells[place, lane] = 256 * w + k + 1
    out[cta, thread] = total


def check_ctas(programs: tuple[Program, ...], **options: Any) -> wsemu.Report:
    """Return the report of a grid whose CTAs execute these programs, which have as many warps each."""
    warps = len(programs[0])
    longest = max(1, *(len(warp) for program in programs for warp in program))
    code = np.zeros((len(programs), warps, longest, 3), np.int32)
    for cta, program in enumerate(programs):
        for w, warp in enumerate(program):
            for k, operation in enumerate(warp):
                code[cta, w, k] = INTERPRETED[operation.kind], named(operation), operation.threads
    length = np.array([[len(warp) for warp in program] for program in programs], np.int32)
    out = np.zeros((len(programs), warps * LANES), np.int64)
    return wsemu.check(by_cta, len(programs), warps * LANES, (length, code, out), **options)


class Variants(NamedTuple):
    """A program, its verdict, and every disagreement with one of its variants, one line each."""

    program: Program
    verdict: str
    complaints: list[str]

    def __str__(self) -> str:
        return "\n".join([notation(self.program), *(f"    {line}" for line in self.complaints)])


def variants(program: Program, random: Random) -> Iterator[tuple[str, Program]]:
    """Yield what was changed, and the changed program."""
    numbers = random.sample(range(len(program)), len(program))
    yield f"warps renumbered {numbers}", tuple(program[n] for n in numbers)
    whole = Operation(SYNC, SPARE, LANES * len(program))
    yield "a barrier of all before the first operation", tuple((whole, *warp) for warp in program)
    yield "a barrier of all behind the last operation", tuple((*warp, whole) for warp in program)
    full = {
        operation.place for warp in program for operation in warp
        if operation.is_barrier and all(
            other.kind == SYNC and other.threads == whole.threads
            for others in program for other in others if other.is_barrier and other.place == operation.place
        )
    }  # fmt: skip
    if full:
        doubled = random.choice(sorted(full))
        yield f"barrier {doubled} twice", tuple(
            tuple(
                one for operation in warp
                for one in (operation, *([whole] if operation.is_barrier and operation.place == doubled else []))
            )
            for warp in program
        )  # fmt: skip


def judged_variants(family: str, random: Random, engine: Engine) -> Variants:
    """Compare the reports of a random program of a family with those of its variants."""
    program = FAMILIES[family](random)
    report = check_interpreted(program, engine=engine)
    complaints: list[str] = []
    for what, changed in variants(program, random):
        complaints += _worse(what, report, check_interpreted(changed, engine=engine))
    complaints += _worse("loops unrolled, a branch for each warp", report, check_compiled(program, engine=engine))
    other = tuple(reversed(program))
    one, two = (check_ctas(pair, engine=engine) for pair in ((program, other), (other, program)))
    complaints += [*_worse("two CTAs instead of one", report, one), *_worse("CTAs in the other order", one, two)]
    return Variants(program, report.verdict, complaints)


def _worse(what: str, before: wsemu.Report, after: wsemu.Report) -> Iterator[str]:
    """Yield what is another than before, though a change keeps what can happen."""
    if before.verdict != after.verdict:
        yield f"{what}: {after.verdict}, and {before.verdict} before"
        return
    codes, others = ({finding.code for finding in report.errors} for report in (before, after))
    # what ends a run hides what comes after it, and of a recycled barrier another run may see other generations
    if codes != others and not (codes | others) & {*STOPS, DEADLOCK, RECYCLING}:
        yield f"{what}: {_listed(others)}, and {_listed(codes)} before"


def _listed(codes: set[str]) -> str:
    return ", ".join(sorted(codes)) or "no error"
