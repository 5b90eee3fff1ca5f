"""Launches whose threads wait for flags of one writer each are decided by one execution, lane by lane."""

from __future__ import annotations

import random
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wsemu
from wsemu.launch.explore import flags

ROOT = Path(__file__).parents[2]
MODULE = ROOT / "tests" / "ptx" / "ranks.sm_90.ptx"
HOW = "whenever each wait sees its flag"
BENCHMARK: dict[str, Any] = runpy.run_path(str(ROOT / "benchmarks" / "ranks.py"))
Step = BENCHMARK["Step"]


def arguments(kernel: str) -> tuple[int, int, tuple[Any, ...]]:
    """Return the grid, the block and the arguments of a launch of both ranks."""
    x, flag = lambda n: np.arange(n, dtype=np.float32), lambda: np.zeros(4, np.uint32)
    match kernel.removesuffix("_wrong"):
        case "one_shot":
            return 4, 16, (x(32), x(32), flag(), flag(), x(32), x(32), 0, 2)
        case "two_shot":
            return 4, 16, (x(64), x(64), x(32), x(32), flag(), flag(), x(64), x(64), 0)
    return 2, 64, (x(192), x(192), flag(), x(192), 0, 3)


@pytest.mark.parametrize("kernel", ["one_shot", "two_shot", "put"])
def test_a_collective_is_verified_and_computes_what_it_should(kernel: str) -> None:
    grid, block, given = arguments(kernel)
    report = wsemu.check(wsemu.load_ptx(MODULE)[kernel], grid, block, given, ranks=2)
    assert (report.verdict, report.proof.endswith(HOW)) == ("verified", True)
    x = np.arange(given[-3 if kernel == "put" else 0].size, dtype=np.float32)
    expected = {"one_shot": 2 * (x + 3), "two_shot": 2 * (x + 1), "put": 2 * x}[kernel]
    result = given[3] if kernel == "put" else given[-2 if kernel == "two_shot" else -3]
    assert np.array_equal(result, expected)


@pytest.mark.parametrize("kernel", ["one_shot_wrong", "two_shot_wrong", "put_wrong"])
def test_a_broken_collective_races(kernel: str) -> None:
    grid, block, given = arguments(kernel)
    report = wsemu.check(wsemu.load_ptx(MODULE)[kernel], grid, block, given, ranks=2)
    assert [finding.code for finding in report.findings] == ["race"]


@pytest.mark.parametrize(("kernel", "verdict"), [("put", "verified"), ("put_wrong", "failed")])
def test_the_reference_engine_decides_alike(kernel: str, verdict: str) -> None:
    grid, block, given = arguments(kernel)
    assert (
        wsemu.check(wsemu.load_ptx(MODULE)[kernel], grid, block, given, ranks=2, engine="reference").verdict == verdict
    )


def lanes_text(threads: list[list[Any]]) -> str:
    """Return a kernel of CTAs of two lanes, which execute the threads."""
    head = BENCHMARK["HEAD"] + "mov.u32 %v, %tid.x;\nmad.lo.u32 %c, %c, 2, %v;\n"
    lines = [head]
    for thread, steps in enumerate(threads):
        lines.append(f"setp.ne.u32 %p, %c, {thread};\n@%p bra T{thread};")
        lines += [BENCHMARK["ptx_step"](step, f"{thread}_{n}") for n, step in enumerate(steps)]
        lines.append(f"st.global.u32 [%o+{4 * thread}], %s;\nT{thread}:")
    return "\n".join([*lines, "ret;\n}\n"])


def check_lanes(threads: list[list[Any]]) -> Any:
    given = tuple(np.zeros(4, np.uint32) for _ in range(3))
    return wsemu.check(wsemu.load_ptx(lanes_text(threads))["k"], 2, 2, given, budget=20_000)


def test_random_programs_of_lanes_are_decided_as_by_all_executions(monkeypatch: pytest.MonkeyPatch) -> None:
    """The method comes first here, so that the search of orders does not decide before it."""
    decided = []

    def first(case: Any) -> Any:
        decided.append(decide_by_flags(case._replace(session=case.session.session)))
        return decided[-1]

    from wsemu.launch.explore import decide
    from wsemu.launch.explore.methods import decide_by_flags

    monkeypatch.setattr(decide, "decide_thread_modularly", first)
    for seed in range(40):
        threads = BENCHMARK["random_program"](random.Random(seed))
        if len(threads) == 2:
            threads = [threads[0], [], threads[1], []]
        threads = [[step._replace(scope="sys") if step.scope else step for step in steps] for steps in threads]
        executions = BENCHMARK["Executions"](threads)
        right = not (executions.hangs or executions.races())
        assert check_lanes(threads).verdict != ("failed" if right else "verified"), seed
    assert sum(said is not None and said.proven for said in decided) > 3


MEETING = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 flag_, .param .u64 x_) {{
.reg .b64 %f, %x; .reg .b32 %c, %t, %v; .reg .pred %p;
ld.param.u64 %f, [flag_];
ld.param.u64 %x, [x_];
mov.u32 %c, %ctaid.x;
mov.u32 %t, %tid.x;
mad.wide.u32 %f, %t, 4, %f;
mad.wide.u32 %x, %t, 4, %x;
setp.ne.u32 %p, %c, 0;
@%p bra R;
st.global.u32 [%x], 7;
st.release.gpu.global.u32 [%f], 1;
st.release.gpu.global.u32 [%f], 2;
ret;
R:
W:
ld.acquire.gpu.global.u32 %v, [%f];
setp.{test}.u32 %p, %v, 1;
@%p bra W;
{more}
ret;
}}
"""
"""8 lanes each wait for a flag of their own that has the values 0, 1 and 2"""


@pytest.mark.parametrize(
    ("test", "more", "proven"),
    [
        ("lt", "ld.global.u32 %v, [%x];", True),
        ("ne", "ld.global.u32 %v, [%x];", False),  # a wait that comes too late does not end
        ("lt", "st.global.u32 [%x+128], %v;", False),  # what it reads is used
    ],
)
def test_a_wait_ends_with_a_value_and_all_later_ones(test: str, more: str, proven: bool) -> None:
    given = (np.zeros(8, np.uint32), np.zeros(64, np.uint32))
    report = wsemu.check(wsemu.load_ptx(MEETING.format(test=test, more=more))["k"], 2, 8, given)
    assert (report.verdict == "verified" and report.proof.endswith(HOW)) == proven


@pytest.mark.parametrize(("second", "verdict"), [(2, "verified"), (3, "failed")])
def test_a_loop_that_is_entered_at_its_end_may_wait_for_another_number(second: int, verdict: str) -> None:
    entered = MEETING.replace("W:", f"mov.u32 %t, 1; bra E; W: mov.u32 %t, {second}; E:").replace("%v, 1", "%v, %t")
    given = (np.zeros(8, np.uint32), np.zeros(64, np.uint32))
    kernel = wsemu.load_ptx(entered.format(test="lt", more=""))["k"]
    assert wsemu.check(kernel, 2, 2, given).verdict == verdict


def test_too_many_steps_decide_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flags, "MOST_STEPS", 10)
    grid, block, given = arguments("two_shot")
    assert wsemu.check(wsemu.load_ptx(MODULE)["two_shot"], grid, block, given, ranks=2).verdict == "incomplete"


PADS = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 pads_) {
.reg .b64 %f, %m, %y; .reg .b32 %c, %t, %v, %i; .reg .pred %p;
ld.param.u64 %f, [pads_];
mov.u32 %c, %ctaid.x;
mov.u32 %t, %tid.x;
mad.lo.u32 %i, %t, 4, %c;
mad.wide.u32 %y, %i, 4, %f;
mad.lo.u32 %i, %c, 4, %t;
mad.wide.u32 %m, %i, 4, %f;
P:
atom.release.sys.global.cas.b32 %v, [%y], 0, 1;
setp.ne.u32 %p, %v, 0;
@%p bra P;
W:
atom.acquire.sys.global.cas.b32 %v, [%m], 1, 0;
setp.ne.u32 %p, %v, 1;
@%p bra W;
ret;
}
"""
"""a barrier of 4 ranks: a lane for each peer sets a pad there, and resets its own when that is set"""


def test_pads_that_are_set_and_reset_are_left_open() -> None:
    report = wsemu.check(wsemu.load_ptx(PADS)["k"], 4, 4, (np.zeros(16, np.uint32),), ranks=4, budget=100_000)
    assert report.verdict == "incomplete"


def test_arrays_are_no_multicast_addresses() -> None:
    text = MEETING.format(test="lt", more="multimem.red.release.sys.global.add.u32 [%x], 1;").replace(".gpu", ".sys")
    given = (np.zeros(8, np.uint32), np.zeros(64, np.uint32))
    report = wsemu.check(wsemu.load_ptx(text)["k"], 2, 8, given, ranks=2)
    assert report.verdict == "incomplete"
