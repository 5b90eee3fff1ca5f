"""Lanes of a warp that wait for each other: with `--lockstep` they hang, from sm_70 on all of them make progress."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wsemu
from wsemu import cuda


@cuda.jit
def in_turns(lock, x):
    """The spelling that lanes in lockstep survive: who has taken the lock gives it back in the same round."""
    done = False
    while not done:
        if cuda.atomic.cas(lock, 0, 0, 1) == 0:
            cuda.threadfence()
            x[0] += 1
            cuda.threadfence()
            cuda.atomic.exch(lock, 0, 0)
            done = True


@cuda.jit
def spins(lock, x):
    """Lanes that have the lock leave a loop in which the others of their warp stay."""
    while cuda.atomic.cas(lock, 0, 0, 1) != 0:
        pass
    cuda.threadfence()
    x[0] += 1
    cuda.threadfence()
    cuda.atomic.exch(lock, 0, 0)


@cuda.jit
def told(flag, x):
    """A lane waits for another one of its warp, which comes behind it."""
    if cuda.threadIdx.x == 0:
        while cuda.atomic.add(flag, 0, 0) == 0:
            pass
        cuda.threadfence()
        x[1] = x[0]
    else:
        x[0] = 7
        cuda.threadfence()
        cuda.atomic.exch(flag, 0, 1)


@cuda.jit
def unfenced(lock, x):
    while cuda.atomic.cas(lock, 0, 0, 1) != 0:
        pass
    x[0] += 1
    cuda.atomic.exch(lock, 0, 0)


@cuda.jit
def never_given_back(lock, x):
    while cuda.atomic.cas(lock, 0, 0, 1) != 0:
        pass
    cuda.threadfence()
    x[0] += 1


@cuda.jit
def met_before_it_is_given_back(lock, x):
    while cuda.atomic.cas(lock, 0, 0, 1) != 0:
        pass
    cuda.threadfence()
    x[0] += 1
    cuda.syncwarp()
    cuda.threadfence()
    cuda.atomic.exch(lock, 0, 0)


PTX = """.version 8.8
.target sm_90
.address_size 64
.visible .entry k(.param .u64 lock, .param .u64 x)
{{
.reg .pred %p<3>;
.reg .b32 %r<4>;
.reg .b64 %rd<3>;
ld.param.u64 %rd1, [lock];
ld.param.u64 %rd2, [x];
{take}
ld.global.u32 %r2, [%rd2];
add.u32 %r2, %r2, 1;
st.global.u32 [%rd2], %r2;
{give}
ret;
}}
"""
TAKE = "$spin:\natom.acquire.gpu.global.cas.b32 %r1, [%rd1], 0, 1;\nsetp.ne.u32 %p1, %r1, 0;\n@%p1 bra $spin;"
GIVE = "st.release.gpu.global.u32 [%rd1], 0;"


def checked(kernel: Any, threads: int = 3, ctas: int = 1, **options: Any) -> tuple[wsemu.Report, Any]:
    """The report of a launch, and what is left in `x`."""
    arrays = np.zeros(2, np.int32), np.zeros(2, np.int32)
    return wsemu.check(kernel, ctas, threads, arrays, **options), arrays[1]


def codes(report: wsemu.Report) -> set[str]:
    return {finding.code for finding in report.findings}


@pytest.mark.parametrize("kernel", [in_turns, spins])
@pytest.mark.parametrize(("threads", "ctas"), [(3, 1), (2, 2)])
def test_a_lock_among_lanes_is_right_where_each_makes_progress(kernel: Any, threads: int, ctas: int) -> None:
    report, x = checked(kernel, threads, ctas)
    assert (report.verdict, int(x[0])) == ("verified", threads * ctas), report.notes


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_before_sm_70_no_lane_is_promised_progress(engine: Any) -> None:
    report, _ = checked(spins, 2, arch="sm_20", engine=engine)
    assert report.verdict == "incomplete", report.notes


def test_a_flag_among_lanes_is_right_where_each_makes_progress() -> None:
    report, x = checked(told, 2)
    assert (report.verdict, x.tolist()) == ("verified", [7, 7]), report.notes


def test_both_engines_run_threads_apart() -> None:
    untold = {"seconds", "counters"}
    one, other = (checked(in_turns, 2, engine=e)[0].model_dump(exclude=untold) for e in ("vm", "reference"))
    assert one == other


@pytest.mark.parametrize("threads", [2, 32])
def test_lanes_in_lockstep_that_spin_for_one_of_them_hang(threads: int) -> None:
    arrays = np.zeros(2, np.int32), np.zeros(2, np.int32)
    report = wsemu.check(spins, 1, threads, arrays, lockstep=True)
    assert codes(report) == {"deadlock"}, report.notes
    assert checked(in_turns, 2, lockstep=True)[0].verdict == "verified"


@pytest.mark.parametrize(("kernel", "code"), [
    (unfenced, "intra-warp-race"), (never_given_back, "deadlock"),
])  # fmt: skip
def test_what_is_wrong_among_lanes_is_found(kernel: Any, code: str) -> None:
    report, _ = checked(kernel, 2)
    assert codes(report) == {code}, report.notes


def test_warps_race_where_lanes_of_each_take_a_lock_without_fences() -> None:
    report = wsemu.check(unfenced, 2, 1, (np.zeros(2, np.int32), np.zeros(2, np.int32)))
    assert "race" in codes(report)


def test_lanes_that_meet_with_the_lock_held_are_not_taken_apart() -> None:
    """The lane that has it waits for the others, which wait for it."""
    assert checked(met_before_it_is_given_back, 2)[0].verdict != "verified"


@pytest.mark.parametrize(("take", "give", "wanted"), [
    (TAKE, GIVE, "verified"), (TAKE.replace("acquire", "relaxed"), GIVE, "failed"),
    (TAKE, GIVE.replace("release", "relaxed"), "failed"), (TAKE, "", "failed"),
])  # fmt: skip
def test_locks_in_ptx(take: str, give: str, wanted: str) -> None:
    kernel = wsemu.load_ptx(PTX.format(take=take, give=give))["k"]
    report, x = checked(kernel)
    assert report.verdict == wanted, report.notes
    assert wanted == "failed" or x[0] == 3
    assert codes(checked(kernel, lockstep=True)[0]) == {"deadlock"}


def test_a_warp_takes_a_lock_lane_by_lane() -> None:
    x = np.zeros(2, np.int32)
    report = wsemu.check(spins, 1, 12, (np.zeros(2, np.int32), x))
    assert (report.verdict, int(x[0])) == ("verified", 12), report.notes
