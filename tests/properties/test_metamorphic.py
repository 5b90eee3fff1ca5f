"""What must not change a report: the numbers of the warps, the order of the CTAs, the number of threads that run them,
the engine, the hash seed; and what can only make it better: one more barrier for the whole CTA.

The random kernels hand rows of a tile from one role to another over a barrier that each handing-over has for itself,
with the accesses before or after it.  So every schedule has the same generations, each row has at most two users, and
the races and deadlocks are a property of the kernel, not of the schedule that the run happened to take.  The role of a
warp is looked up in an argument: another permutation gives the warps other numbers.
"""

from __future__ import annotations

import itertools
import json
import linecache
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

import wsemu
from wsemu import cuda, ptx
from wsemu.model import settings

ROOT = Path(__file__).parents[2]
ROLES = 3
PERMUTATIONS = list(itertools.permutations(range(ROLES)))
FEW = hypothesis_settings(
    max_examples=15, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), print_blob=False
)
_numbers = itertools.count()


# -- random kernels --------------------------------------------------------------------------------------------------
class Handover(NamedTuple):
    """One role stores a row of the tile and gives a barrier; another one takes the barrier and uses the row."""

    giver: int
    taker: int
    early: bool
    """the giver stores before it gives"""
    late: bool
    """the taker uses the row after it has taken"""
    writes: bool
    """the taker stores, too"""
    both_sync: bool
    complete: bool
    """the giver gives at all; else the taker waits for ever"""


def handovers(complete: st.SearchStrategy[bool]) -> st.SearchStrategy[Handover]:
    pairs = st.permutations(range(ROLES))
    usually = st.sampled_from([True, True, True, True, False])
    return st.builds(
        lambda pair, *rest: Handover(pair[0], pair[1], *rest),
        pairs, usually, usually, st.booleans(), st.booleans(), complete,
    )  # fmt: skip


def segments(complete: st.SearchStrategy[bool]) -> st.SearchStrategy[list[list[Handover]]]:
    """The parts of a kernel; the whole CTA could meet between them."""
    part = st.lists(handovers(complete), min_size=1, max_size=3)
    return st.lists(part, min_size=1, max_size=3)


ALWAYS = st.just(True)
USUALLY = st.sampled_from([True] * 7 + [False])


def lines_of(number: int, handover: Handover) -> dict[int, list[str]]:
    """Role -> what it does in a handing-over; `number` is its row, and its barrier is the one after."""
    barrier = number + 1
    store, use = f"tile[{number}, lane] = {number}", f"total += tile[{number}, lane]"
    if handover.writes:
        use = f"tile[{number}, lane] = total"
    give = [f"ptx.bar_{'sync' if handover.both_sync else 'arrive'}({barrier}, 64)"] if handover.complete else []
    take = f"ptx.bar_sync({barrier}, 64)"
    return {
        handover.giver: [store, *give] if handover.early else [*give, store],
        handover.taker: [take, use] if handover.late else [use, take],
    }


def source(parts: list[list[Handover]], barrier_after: int = -1) -> str:
    """The kernel; every warp of the CTA meets after part `barrier_after`."""
    rows = max(1, sum(map(len, parts)))
    text = [
        "@cuda.jit",
        "def kernel(roles, y):",
        f"    tile = cuda.shared.array(({rows}, 32), np.float32)",
        "    lane = cuda.threadIdx.x % 32",
        "    role = roles[cuda.threadIdx.x // 32]",
        "    total = np.float32(0)",
        f"    for row in range({rows}):",
        "        if role == 0:",
        "            tile[row, lane] = 0",
        "    cuda.syncthreads()",
    ]
    number = 0
    for index, part in enumerate(parts):
        todo: dict[int, list[str]] = {role: ["pass"] for role in range(ROLES)}
        for handover in part:
            for role, lines in lines_of(number, handover).items():
                todo[role] += lines
            number += 1
        for role in range(ROLES):
            text.append(f"    if role == {role}:")
            text += [f"        {line}" for line in todo[role]]
        text.append("    cuda.syncthreads()" if index == barrier_after else "    pass")
    text.append("    y[role * 32 + lane] = total")
    return "\n".join(text) + "\n"


def build(text: str) -> Any:
    """The kernel that the text defines; its source is findable without a file."""
    name = f"<metamorphic kernel {next(_numbers)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    space: dict[str, Any] = {"cuda": cuda, "ptx": ptx, "np": np}
    exec(compile(text, name, "exec"), space)
    return space["kernel"]


def check(kernel: Any, roles: tuple[int, ...] = (0, 1, 2), grid: int = 1, **options: Any) -> wsemu.Report:
    y = np.zeros(grid * ROLES * 32, np.float32)
    return wsemu.check(kernel, grid, ROLES * 32, (np.array(roles, np.int32), y), **options)


Place = tuple[int, int]
"""line and role"""


def by_role(report: wsemu.Report, roles: tuple[int, ...]) -> tuple[str, list[tuple[str, list[Place], int]]]:
    """Verdict and findings, with the roles of warps for their numbers and no order between the sites."""
    found = []
    for finding in report.findings:
        places = {(site.line, roles[site.warp]) for site in finding.sites if site.warp is not None}
        found.append((finding.code, sorted(places), finding.count))
    return report.verdict, sorted(found)


def causes(report: wsemu.Report) -> set[tuple[str, tuple[int, ...]]]:
    return {(f.code, tuple(sorted({site.line for site in f.sites}))) for f in report.findings}


# -- the numbers of the warps ----------------------------------------------------------------------------------------
@FEW
@given(parts=segments(USUALLY), roles=st.sampled_from(PERMUTATIONS[1:]))
def test_renumbering_warps_permutes_the_report(parts: list[list[Handover]], roles: tuple[int, ...]) -> None:
    text = source(parts)
    kernel = build(text)
    assert by_role(check(kernel, roles), roles) == by_role(check(kernel), (0, 1, 2)), text


OPERATIONS = [
    *(f"ptx.bar_{kind}({barrier}, 64)" for kind in ("sync", "arrive") for barrier in (1, 2)),
    *(f"ptx.bar_{kind}(3, 96)" for kind in ("sync", "sync", "arrive")),
    *("y[lane] = 1", "total += y[lane]", "y[32 + lane] = 2", "total += y[32 + lane]"),
]
"""what warps do without a plan: the generations may differ from schedule to schedule"""


def unplanned(todo: list[list[str]]) -> str:
    """A kernel whose roles do these operations."""
    text = ["@cuda.jit", "def kernel(roles, y):", "    lane = cuda.threadIdx.x % 32"]
    text += ["    role = roles[cuda.threadIdx.x // 32]", "    total = np.float32(0)"]
    for role, operations in enumerate(todo):
        text += [f"    if role == {role}:", "        pass", *(f"        {line}" for line in operations)]
    return "\n".join(text) + "\n"


@FEW
@given(todo=st.lists(st.lists(st.sampled_from(OPERATIONS), max_size=4), min_size=ROLES, max_size=ROLES))
def test_renumbering_warps_keeps_the_verdict(todo: list[list[str]]) -> None:
    kernel = build(unplanned(todo))
    verdicts = {roles: check(kernel, roles).verdict for roles in PERMUTATIONS}
    assert len(set(verdicts.values())) == 1, f"{unplanned(todo)}{verdicts}"


# -- one more barrier ------------------------------------------------------------------------------------------------
@FEW
@given(parts=segments(ALWAYS), data=st.data())
def test_a_barrier_of_the_whole_cta_creates_no_finding(parts: list[list[Handover]], data: st.DataObject) -> None:
    after = data.draw(st.integers(0, len(parts) - 1))
    before, now = check(build(source(parts))), check(build(source(parts, after)))
    assert causes(now) <= causes(before), source(parts, after)


# -- how the run is made ---------------------------------------------------------------------------------------------
WAYS: dict[str, tuple[settings.Settings, dict[str, Any]]] = {
    "descending": (settings.Settings(cta_order="descending"), {}),
    "2 threads": (settings.Settings(), {"workers": 2}),
    "3 threads": (settings.Settings(), {"workers": 3}),
    "reference": (settings.Settings(engine="reference"), {}),
}


def data_of(report: wsemu.Report) -> dict[str, Any]:
    return report.model_dump(exclude={"seconds"})


@pytest.mark.parametrize("way", WAYS)
@hypothesis_settings(FEW, max_examples=12)
@given(parts=segments(USUALLY))
def test_the_way_of_the_run_does_not_show(way: str, parts: list[list[Handover]]) -> None:
    kernel = build(source(parts).replace("y[role * 32", "y[cuda.blockIdx.x * 96 + role * 32"))
    chosen, options = WAYS[way]
    before = check(kernel, grid=3)
    with settings.using(chosen):
        assert data_of(check(kernel, grid=3, **options)) == data_of(before)


@cuda.jit
def own_part(x, y):
    tile = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    tile[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    y[cuda.grid(1)] = tile[63 - t]


@cuda.jit
def one_part_for_all(x, y):
    y[cuda.threadIdx.x] = x[cuda.grid(1)]


@cuda.jit
def neighbour_of_the_next(x, y):
    i = cuda.grid(1)
    x[i] += x[(i + 33) % x.shape[0]]
    y[i] = 1


@cuda.jit
def added_up(x, y):
    cuda.atomic.add(y, cuda.threadIdx.x % 8, x[cuda.grid(1)])


@cuda.jit
def added_and_read(x, y):
    if cuda.blockIdx.x % 3 == 1:
        x[cuda.grid(1)] = y[0]
    else:
        cuda.atomic.add(y, 0, 1)


@cuda.jit
def third_cta_waits(x, y):
    t = cuda.threadIdx.x
    y[cuda.grid(1)] = x[t]
    if cuda.blockIdx.x == 2 and t < 32:
        ptx.bar_sync(1, 64)


@cuda.jit
def some_outside(x, y):
    i = cuda.grid(1)
    y[i + cuda.blockIdx.x % 2 * 250] = x[i]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "kernel",
    [own_part, one_part_for_all, neighbour_of_the_next, added_up, added_and_read, third_cta_waits, some_outside],
    ids=lambda kernel: kernel.py_func.__name__,
)
def test_the_way_of_the_run_does_not_show_among_ctas(way: str, kernel: Any) -> None:
    def report(**options: Any) -> dict[str, Any]:
        return data_of(wsemu.check(kernel, 7, 64, (np.ones(448), np.zeros(448)), **options))

    chosen, options = WAYS[way]
    before = report()
    with settings.using(chosen):
        assert report(**options) == before


def test_the_hash_seed_does_not_show() -> None:
    program = (
        "import json, runpy\n"
        "from wsemu.launch.hooks import observers\n"
        "reports = []\n"
        "observers.append(lambda report: reports.append(report.model_dump(mode='json', exclude={'seconds'})))\n"
        f"for name in {NAMES!r}:\n"
        "    runpy.run_path(name, run_name='__main__')\n"
        "print(json.dumps(reports))\n"
    )
    said = []
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
        )
        said.append(done.stdout)
    assert len(json.loads(said[0])) == len(NAMES)
    assert said[0] == said[1]


NAMES = [
    "tests/fail/race/no_empty_wait.py",
    "tests/fail/race/histogram_without_atomics.py",
    "tests/fail/barrier-recycling/two_pipelines_one_id.py",
    "tests/fail/deadlock/empty_work_laps_the_loader.py",
    "tests/fail/bank-conflict/pairs_of_words.py",
    "tests/incomplete/answer_kept_in_memory.py",
]
"""programs with findings of many kinds, for the hash seed"""
