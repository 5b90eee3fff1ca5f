"""Errors that one order of atomics alone has: they are found, the report has that order, and a witness replays it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import wsemu
from tests.unit import steering_kernels as kernels
from wsemu import cuda
from wsemu.launch.hooks import adding_hook, starting
from wsemu.launch.replay.run import Replay, follow

if TYPE_CHECKING:
    from wsemu.model.bound import Bound
    from wsemu.model.finding import Finding

ENGINES = ("vm", "reference")
ASSERT = "failed-assertion"


def ints(n: int) -> Any:
    return np.zeros(n, np.int32)


def checked(kernel: Any, grid: int, block: int, arguments: Any, engine: Any, **options: Any) -> tuple[Any, Any]:
    """Return the report of a launch, and the launch as it was bound."""
    bound: list[Bound] = []

    def keep(launch: Bound) -> None:
        bound[:] = [launch._replace(segments=[(data.copy(), writable) for data, writable in launch.segments])]

    with adding_hook(starting, keep):
        report = wsemu.check(kernel, grid, block, arguments, engine=engine, **options)
    return report, bound[0]


def replayed(report: wsemu.Report, bound: Bound, finding: Finding) -> Replay:
    witness = report.witness(finding)
    witness.check(bound)
    replay = follow(bound, witness.code, witness.steps)
    assert replay.steps == witness.steps
    return replay


# -- assertions -------------------------------------------------------------------------------------------------------
@cuda.jit
def asserts(size, keys):
    if cuda.atomic.add(size, 0, 0) == 0:
        assert cuda.atomic.add(size, 0, 1) == 0


@cuda.jit
def raises(size, keys):
    if cuda.atomic.add(size, 0, 0) == 0 and cuda.atomic.add(size, 0, 1) != 0:
        raise ValueError


@cuda.jit(debug=True, opt=False)
def asserts_in_debug(size, keys):
    if cuda.atomic.add(size, 0, 0) == 0:
        assert cuda.atomic.add(size, 0, 1) == 0


@cuda.jit
def takes_the_place(size, keys):
    if cuda.atomic.cas(size, 0, 0, 1) == 0:
        assert cuda.atomic.add(keys, 0, 1) == 0


TEXT = """
.version 8.0
.target sm_90
.address_size 64
.extern .func __assertfail(.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e) .noreturn;
.visible .entry k(.param .u64 size, .param .u64 keys)
{{
    .reg .pred %p<3>;
    .reg .b32 %r<4>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [size];
    cvta.to.global.u64 %rd1, %rd1;
    atom.global.add.u32 %r1, [%rd1], 0;
    setp.ne.s32 %p1, %r1, 0;
    @%p1 bra $end;
    atom.global.add.u32 %r2, [%rd1], 1;
    setp.eq.s32 %p2, %r2, 0;
    @%p2 bra $end;
    {0}
$end:
    ret;
}}
"""
FAILS = """{ .param .b64 a; st.param.b64 [a], 0; .param .b32 c; st.param.b32 [c], 1;
    call.uni __assertfail, (a, a, c, a, a); }"""


def ptx(how: str) -> Any:
    return wsemu.load_ptx(TEXT.format(how))["k"]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("grid", "block"), [(2, 1), (2, 32), (3, 1)])
@pytest.mark.parametrize("how", ["assert", "raise", "debug", "__assertfail", "trap"])
def test_an_assertion_that_fails_in_one_order_fails(how: str, grid: int, block: int, engine: Any) -> None:
    python = {"assert": asserts, "raise": raises, "debug": asserts_in_debug}
    kernel = python.get(how) or ptx(FAILS if how == "__assertfail" else "trap;")
    if block > 1 and (how != "assert" or engine != "vm"):
        pytest.skip("one front end and engine do for warps")
    report, bound = checked(kernel, grid, block, (ints(1), ints(1)), engine)
    assert report.verdict == "failed", report.notes
    (finding,) = report.errors
    assert (finding.code, finding.holds_in) == (ASSERT, "some schedules")
    does = {"trap": "executes `trap`", "raise": "raises an exception"}.get(how, "fails an assertion")
    assert finding.message.endswith(does)
    assert ("in this order of atomics" if block == 1 else "in the initial run") in "\n".join(finding.notes)
    assert replayed(report, bound, finding).codes == [ASSERT]


@pytest.mark.parametrize("engine", ENGINES)
def test_an_assertion_that_holds_in_every_order_is_verified(engine: Any) -> None:
    report, _ = checked(takes_the_place, 3, 1, (ints(1), ints(1)), engine)
    assert report.verdict == "verified", report.notes


@cuda.jit
def fails_where_it_starts(size, keys):
    if cuda.atomic.add(size, 0, 1) == 0:
        assert keys[0] == 1
    cuda.atomic.add(keys, 1, 1)


@pytest.mark.parametrize("engine", ENGINES)
def test_an_assertion_that_fails_in_the_initial_run_fails(engine: Any) -> None:
    report, bound = checked(fails_where_it_starts, 2, 1, (ints(1), ints(2)), engine)
    assert (report.verdict, [finding.code for finding in report.errors]) == ("failed", [ASSERT])
    assert replayed(report, bound, report.errors[0]).codes == [ASSERT]


@cuda.jit
def waits_some_rounds(flag, y):
    if cuda.blockIdx.x == 0:
        rounds = 0
        while cuda.atomic.add(flag, 0, 0) == 0:
            rounds += 1
            assert rounds < 100_000
        y[0] = 1
    else:
        cuda.atomic.add(flag, 0, 1)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_watchdog_that_bites_in_the_initial_run_alone_is_no_error(engine: Any) -> None:
    report, _ = checked(waits_some_rounds, 2, 1, (ints(1), ints(1)), engine)
    assert (report.verdict, report.errors) == ("incomplete", [])


@pytest.mark.parametrize("engine", ENGINES)
def test_an_assertion_that_is_not_checked_is_a_note(engine: Any) -> None:
    report, _ = checked(fails_where_it_starts, 2, 1, (ints(1), ints(2)), engine, checkers=["race", "deadlock"])
    assert (report.verdict, report.errors) == ("verified", [])  # whichever number each CTA draws
    assert ["fail an assertion, and end there" in note for note in report.notes] == [True]


# -- other errors -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("name", "parts", "code"), [
    ("stream_k", {"FENCE_AFTER": False}, "race"), ("tile_scheduler", {"SPREAD": 2}, "race"),
    ("stream_k", {"OFF": 1}, "out-of-bounds"), ("ticket_lock", {"OFF": 1}, "deadlock"),
    ("checked_twice", {"UNLOCKS": False}, "deadlock"),
])  # fmt: skip
def test_what_an_order_leads_to_is_replayed(name: str, parts: dict[str, Any], code: str) -> None:
    kernel = kernels.variant(getattr(kernels, name), **parts)
    report, bound = checked(kernel, 3, 64, kernels.arguments(name, 3), "vm")
    finding = next(finding for finding in report.errors if finding.code == code)
    assert all(step.lane is not None for step in finding.steps[:-2])
    replay = replayed(report, bound, finding)
    if code == "race":
        assert [order.marks for order in replay.orders] == [("(1)", "(2)"), ("(2)", "(1)")]
    elif code == "deadlock":
        assert replay.end == "deadlock"
        assert replay.phases
    else:
        assert replay.codes == [code]


@cuda.jit
def lanes_lock(mutex, y):
    while cuda.atomic.cas(mutex, 0, 0, 1) != 0:
        pass
    y[0] += 1


@pytest.mark.parametrize("engine", ENGINES)
def test_an_order_of_lanes_that_run_apart_is_replayed(engine: Any) -> None:
    report, bound = checked(lanes_lock, 1, 2, (ints(1), ints(1)), engine)
    (finding,) = report.errors
    assert finding.code == "deadlock"
    assert replayed(report, bound, finding).end == "deadlock"


WIDTHS = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 x_)
{
  .reg .b32 %i, %t, %c, %v; .reg .b64 %x, %w; .reg .pred %q;
  ld.param.u64 %x, [x_]; mov.u32 %i, %tid.x; mov.u32 %c, %ctaid.x; mov.u32 %t, %ntid.x; mad.lo.u32 %i, %c, %t, %i;
  atom.relaxed.gpu.global.add.u32 %v, [%x], 1;
  setp.eq.u32 %q, %i, 0; @%q bra FIRST;
  red.relaxed.gpu.global.add.u32 [%x + 8], 1; ret;
FIRST:
  setp.eq.u32 %q, %v, 0; @%q ret;
  OTHER
  ret;
}
"""


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("grid", "block", "code"), [(2, 1, "race"), (1, 2, "intra-warp-race")])
@pytest.mark.parametrize(
    "other", ["red.relaxed.gpu.global.add.u64 [%x + 8], 1;", "ld.relaxed.gpu.global.u64 %w, [%x + 8];"]
)
def test_atomics_of_two_widths_race(other: str, grid: int, block: int, code: str, engine: Any) -> None:
    """In the initial order, the first thread does not execute the wider one."""
    kernel = wsemu.load_ptx(WIDTHS.replace("OTHER", other))["k"]
    report, _ = checked(kernel, grid, block, (np.zeros(4, np.uint32),), engine)
    assert code in {error.code for error in report.errors}
    same = wsemu.load_ptx(WIDTHS.replace("OTHER", other.replace("64", "32").replace("%w", "%v")))["k"]
    assert wsemu.check(same, grid, block, (np.zeros(4, np.uint32),), engine=engine).verdict == "verified"
