"""Synchronization that a launch never executed is in its report, and changes no verdict; what a suppressed cost and a
cost warning change."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import wsemu
from tests.commands import wsemu as command
from wsemu import cuda, ptx

ENGINES = pytest.mark.parametrize("engine", ["vm", "reference"])


@cuda.jit
def rounds(x, n):
    for _ in range(n):
        cuda.syncthreads()
        x[cuda.threadIdx.x] += 1
    if n > 2:
        ptx.bar_sync(1, 64)
        cuda.threadfence()
        cuda.syncwarp()


def note(report: Any) -> str:
    return next((note for note in report.notes if "never executed" in note), "")


@ENGINES
def test_barriers_and_fences_that_no_warp_executes_are_named(engine: Any) -> None:
    first = rounds.py_func.__code__.co_firstlineno
    for n, missed in ((0, [3, 6, 7, 8]), (2, [6, 7, 8]), (3, [])):
        report = wsemu.check(rounds, 1, 64, (np.zeros(64, np.int32), n), engine=engine)
        assert report.verdict == "verified"
        if not missed:
            assert (report.unreached, note(report)) == (None, "")
            continue
        assert report.unreached is not None
        assert [place.line for place in report.unreached.places] == [first + line for line in missed]
        assert (report.unreached.instructions, report.unreached.of) == (len(missed), 4)
        assert note(report).startswith(f"{len(missed)} of 4 synchronization instructions were never executed")
        assert f"(test_unreached.py:{first + missed[0]})" in note(report)
        found = json.loads(report.model_dump_json())["unreached"]
        assert found["places"][0]["instructions"] == found["places"][0]["of"] == 1
        assert type(report).model_validate_json(report.model_dump_json()).unreached == report.unreached


UNROLLED = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry unrolled(.param .u64 x, .param .u32 n)
{
.reg .b32 %r<9>; .reg .b64 %d<4>; .reg .pred %p, %q;
.shared .align 8 .b64 full;
mov.u32 %r0, %tid.x; ld.param.u32 %r1, [n];
setp.eq.u32 %q, %r0, 0;
@%q mbarrier.init.shared.b64 [full], 1;
bar.sync 0;
setp.lt.u32 %p, %r1, 4;
@%p bra rest;
bar.sync 0;
bar.sync 0;
rest:
bar.sync 0;
@%q mbarrier.arrive.shared.b64 _, [full];
again:
mbarrier.try_wait.parity.shared.b64 %p, [full], 0;
@!%p bra again;
ret;
}
"""


@ENGINES
def test_copies_of_an_unrolled_loop_that_a_small_size_skips_are_counted(engine: Any) -> None:
    kernel = wsemu.load_ptx(UNROLLED).only()
    small = wsemu.check(kernel, 1, 64, (np.zeros(64, np.int32), 3), engine=engine)
    assert small.verdict == "verified"
    assert small.unreached is not None
    assert [place.operation for place in small.unreached.places] == ["bar.sync", "bar.sync"]
    large = wsemu.check(kernel, 1, 64, (np.zeros(64, np.int32), 4), engine=engine)
    assert (large.verdict, large.unreached) == ("verified", None)


def test_a_launch_that_fails_or_stops_says_nothing_of_it() -> None:
    @cuda.jit
    def stuck(x):
        if cuda.threadIdx.x < 32:
            ptx.bar_sync(1, 64)
        else:
            ptx.bar_sync(2, 64)
        cuda.syncthreads()

    report = wsemu.check(stuck, 1, 64, (np.zeros(1),))
    assert (report.verdict, note(report), report.unreached) == ("failed", "", None)


COSTLY = """
import numpy as np
from numba import cuda
@cuda.jit
def costly(x, y):
    y[cuda.threadIdx.x] = x[cuda.threadIdx.x * 17]{comment}
    {racing}
costly[1, 64](np.zeros(64 * 17, np.float32), np.zeros(64, np.float32))
"""


@pytest.mark.parametrize("options", [[], ["--fail-on", "uncoalesced"]])
def test_a_suppressed_cost_says_nothing_of_schedules(tmp_path: Any, options: list[str]) -> None:
    file = tmp_path / "costly.py"
    file.write_text(COSTLY.format(comment="  # wsemu: ignore[uncoalesced] small", racing="pass"), encoding="utf-8")
    done = command("check", *options, file)
    assert done.returncode == 0, done.stdout
    assert "verified: deadlock-free and race-free in every schedule, 1 suppressed" in " ".join(done.stdout.split())


def test_run_shows_help_beside_a_warning_of_cost(tmp_path: Any) -> None:
    file = tmp_path / "costly.py"
    racing = "y[0] = cuda.threadIdx.x"
    file.write_text(COSTLY.format(comment="", racing=racing), encoding="utf-8")
    shown = command("run", "--fix-budget", "30", file).stdout
    assert "help: proven: " in shown
    assert "uncoalesced" not in shown
    assert "no edit was tried" not in shown
    report = wsemu.check(rounds, 1, 64, (np.zeros(64, np.int32), 1))
    assert report.of_errors().helped().findings == []


def test_barriers_of_a_kernel_of_the_library_are_not_named(tmp_path: Any) -> None:
    file = tmp_path / "total.py"
    file.write_text(
        "import numpy as np\nfrom numba import cuda\nassert cuda.reduce(lambda a, b: a + b)(np.arange(10.0)) == 45\n"
    )
    done = command("check", file)
    assert done.returncode == 0
    assert "verified" in done.stdout
    assert "never executed" not in done.stdout
