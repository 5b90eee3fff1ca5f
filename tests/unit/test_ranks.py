"""Launches whose CTAs run on several GPUs: scopes, flags, and random programs compared with all executions."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wsemu
from tests.commands import wsemu as command
from wsemu import cuda
from wsemu.host.recorder import recorder
from wsemu.launch.hooks import adding_hook, observers
from wsemu.proof.robust import EVERYWHERE, Pair, Strong, Waits, weak

BENCHMARK: dict[str, Any] = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "ranks.py"))
Step = BENCHMARK["Step"]


def message(release: str, acquire: str, reader: int, count: int = 4) -> list[list[Any]]:
    """Return a program in which CTA 0 hands a word over to another CTA."""
    threads: list[list[Any]] = [[] for _ in range(count)]
    threads[0] = [Step("store", 0, 7), Step("set", 0, 1, "release", release)]
    threads[reader] = [Step("wait", 0, 1, "acquire", acquire), Step("load", 0)]
    return threads


@pytest.mark.parametrize("engine", ["vm", "reference"])
@pytest.mark.parametrize(
    ("release", "acquire", "reader", "verdict"),
    [
        ("sys", "sys", 2, "verified"), ("gpu", "sys", 2, "failed"), ("sys", "gpu", 3, "failed"),
        ("gpu", "gpu", 2, "failed"), ("gpu", "gpu", 1, "verified"),
    ],
)  # fmt: skip
def test_gpu_scope_reaches_the_ctas_of_one_rank(
    release: str, acquire: str, reader: int, verdict: str, engine: str
) -> None:
    assert BENCHMARK["verdict_of"](message(release, acquire, reader), engine) == verdict


def test_flags_of_both_ranks_are_no_store_buffering() -> None:
    threads = [
        [Step("store", t, 1), Step("set", t, 1, "release", "sys"), Step("wait", 1 - t, 1, "acquire", "sys"),
         Step("load", 1 - t)]
        for t in range(2)
    ]  # fmt: skip
    assert BENCHMARK["verdict_of"](threads) == "verified"


def test_random_programs_are_decided_as_by_all_executions() -> None:
    found = [BENCHMARK["compare"](seed) for seed in range(60)]
    assert sum(right for right, _ in found) > 15
    assert not [verdict for right, verdict in found if verdict == ("failed" if right else "verified")]


def test_a_wait_that_failed_with_all_earlier_values_misses_no_store() -> None:
    def access(thread: int, place: int, number: int, *, writes: bool) -> Strong:
        return Strong(thread, (-1, place), not writes, writes, number, number)

    sets = [access(t, t, 0, writes=True) for t in range(2)]
    reads = [access(t, 1 - t, 1, writes=False) for t in range(2)]
    pairs = [Pair(sets[t], reads[t], EVERYWHERE, EVERYWHERE, 0) for t in range(2)]
    assert weak(pairs, [*sets, *reads]) is not None
    waits = Waits()
    for t in range(2):
        waits.note(reads[t], None, b"", in_vain=True)
        waits.note(reads[t], sets[1 - t], b"", in_vain=False)
    assert weak(pairs, [*sets, *reads], misses=waits.misses([*sets, *reads])) is None
    for read in reads:
        waits.note(read, sets[1 - read.thread], b"other", in_vain=False)  # the wait has not failed in this state
    assert weak(pairs, [*sets, *reads], misses=waits.misses([*sets, *reads])) is not None


@cuda.jit
def hand_over(word: Any, flag: Any, out: Any) -> None:
    if cuda.blockIdx.x == 0:
        word[0] = 7
        cuda.threadfence()
        cuda.atomic.exch(flag, 0, 1)
    else:
        while cuda.atomic.add(flag, 0, 0) == 0:
            pass
        cuda.threadfence()
        out[0] = word[0]


def test_a_fence_of_gpu_scope_does_not_order_two_ranks() -> None:
    arrays = [np.zeros(1, np.int32) for _ in range(3)]
    assert wsemu.check(hand_over, 2, 1, arrays).verdict == "verified"
    report = wsemu.check(hand_over, 2, 1, [np.zeros(1, np.int32) for _ in range(3)], ranks=2)
    assert [finding.code for finding in report.findings] == ["race"]


def test_a_grid_needs_an_equal_share_for_each_rank(tmp_path: Path) -> None:
    arrays = [np.zeros(1, np.int32) for _ in range(3)]
    with pytest.raises(wsemu.UsageError, match="no equal share for each GPU"):
        wsemu.check(hand_over, 3, 1, arrays, ranks=2)
    with pytest.raises(wsemu.UsageError, match="clusters cannot be divided"):
        wsemu.check(hand_over, 4, 1, arrays, ranks=2, cluster=2)
    file = tmp_path / "k.ptx"
    file.write_text(BENCHMARK["ptx_text"](message("gpu", "gpu", 1, 2)))
    launch = ("check", file, "--grid", 2, "--block", 1, *("--arg", "u32[4]:zeros") * 3)
    assert command(*launch).returncode == 0
    done = command(*launch, "--ranks", 2)
    assert done.returncode == 1
    assert "error[scope]" in done.stdout


@cuda.jit
def fill(x: Any, value: Any) -> None:
    x[cuda.grid(1)] = value


def device_codes(program: Any) -> set[str]:
    """Return the codes of findings between the launches of a program."""
    reports: list[Any] = []
    recorder.reset()
    with adding_hook(observers, reports.append):
        program()
    recorder.reset()
    return {finding.code for report in reports for finding in report.findings}


def test_default_streams_of_two_devices_do_not_order_each_other() -> None:
    def run(between: Any) -> None:
        d = cuda.device_array(64, np.float32)
        fill[2, 32](d, 1)
        between()
        with cuda.gpus[1]:
            assert cuda.get_current_device().id == 1
            fill[2, 32](d, 2)
        assert cuda.get_current_device().id == 0

    def wait_there() -> None:
        with cuda.gpus[1]:
            cuda.synchronize()

    def pass_event() -> None:
        event = cuda.event()
        event.record()
        with cuda.gpus[1]:
            event.wait()

    assert device_codes(lambda: run(lambda: None)) == {"stream-race"}
    assert device_codes(lambda: run(wait_there)) == {"stream-race"}
    assert device_codes(lambda: run(cuda.synchronize)) == set()
    assert device_codes(lambda: run(pass_event)) == set()


def test_a_device_is_current_until_another_one_is_selected() -> None:
    def run() -> None:
        assert cuda.select_device(1) is cuda.gpus[1]
        assert cuda.current_context().can_access_peer(0)
        d, stream = cuda.device_array(64, np.float32), cuda.stream()
        fill[2, 32, stream](d, 1)
        fill[2, 32](d, 2)
        cuda.select_device(0)
        fill[2, 32](d, 3)

    assert device_codes(run) == {"stream-race"}
    assert cuda.get_current_device().id == 0


GUARDED = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 data, .param .u64 flag, .param .u64 x, .param .u64 out) {
.reg .b64 %d, %f, %x, %o; .reg .b32 %c, %v, %a; .reg .pred %p;
ld.param.u64 %d, [data];
ld.param.u64 %f, [flag];
ld.param.u64 %x, [x];
ld.param.u64 %o, [out];
mov.u32 %c, %ctaid.x;
setp.ne.u32 %p, %c, 0;
@%p bra R;
st.global.u32 [%d], 7;
st.release.gpu.global.u32 [%f], 1;
st.relaxed.gpu.global.u32 [%x], 1;
ret;
R:
ld.relaxed.gpu.global.u32 %a, [%x];
xor.b32 %a, %a, 1;
W:
ld.acquire.gpu.global.u32 %v, [%f];
setp.lt.u32 %p, %v, %a;
@%p bra W;
ld.global.u32 %v, [%d];
st.global.u32 [%o], %v;
ret;
}
"""
"""a kernel that skips its wait if it sees `x`: the flag may then still be 0 for the reader, and `data` is not
ordered"""


def test_a_wait_has_to_fail_in_each_state_in_which_it_ends(tmp_path: Path) -> None:
    file = tmp_path / "k.ptx"
    file.write_text(GUARDED)
    report = wsemu.check(wsemu.load_ptx(file)["k"], 2, 1, [np.zeros(1, np.uint32) for _ in range(4)])
    assert report.verdict == "incomplete", report.findings


def test_workers_share_the_programs() -> None:
    script = Path(__file__).parents[2] / "benchmarks" / "ranks.py"
    command = [sys.executable, str(script), "--programs", "5", "--workers", "2", "--seed", "5"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("5 programs, ")


MESSAGE = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 w_, .param .u64 y_)
{{
  .reg .b32 %t, %v; .reg .b64 %w, %y; .reg .pred %q;
  ld.param.u64 %w, [w_]; ld.param.u64 %y, [y_];
  mov.u32 %t, %ctaid.x;
  setp.eq.u32 %q, %t, 0; @%q bra WRITER;
  setp.ne.u32 %q, %t, 1; @%q exit;
POLL:
  ld.acquire.{scope}.global.u32 %v, [%w];
  setp.eq.u32 %q, %v, 0; @%q bra POLL;
  ld.global.u32 %v, [%w+4];
  st.global.u32 [%y], %v;
  exit;
WRITER:
  st.global.u32 [%w+4], 5;
  st.release.{scope}.global.u32 [%w], 1;
  exit;
}}
"""
MEETING = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 w_, .param .u64 y_)
{
  .reg .b32 %t, %v; .reg .b64 %w, %y; .reg .pred %q;
  ld.param.u64 %w, [w_]; ld.param.u64 %y, [y_];
  mov.u32 %t, %ctaid.x; setp.eq.u32 %q, %t, 0;
  @%q st.global.u32 [%w], 1;
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
  setp.eq.u32 %q, %t, 1;
  @%q ld.global.u32 %v, [%w];
  @%q st.global.u32 [%y], %v;
  exit;
}
"""


def check_ptx(text: str, ctas: int, ranks: int) -> Any:
    arrays = (np.zeros(2, np.uint32), np.zeros(2, np.uint32))
    return wsemu.check(wsemu.load_ptx(text)["k"], ctas, 1, arrays, ranks=ranks)


@pytest.mark.parametrize(("scope", "verdict"), [("cluster", "failed"), ("gpu", "verified")])
def test_cluster_scope_does_not_reach_the_ctas_of_a_rank(scope: str, verdict: str) -> None:
    assert check_ptx(MESSAGE.format(scope=scope), 4, 2).verdict == verdict


def test_ctas_of_a_rank_are_no_cluster() -> None:
    assert check_ptx(MEETING, 4, 2).verdict == "incomplete"


def test_a_hint_names_no_barrier_of_clusters() -> None:
    @cuda.jit
    def collides(flag: Any) -> None:
        if cuda.blockIdx.x == 0:
            cuda.atomic.add(flag, 0, 1)
        else:
            flag[0] = 0

    (finding,) = wsemu.check(collides, 2, 1, (np.zeros(1, np.int32),), ranks=2).findings
    assert finding.code == "race"
    assert "cluster" not in (finding.help or "")


def test_the_barrier_of_a_grid_does_not_reach_other_gpus() -> None:
    @cuda.jit
    def meets(x: Any, y: Any) -> None:
        x[cuda.blockIdx.x] = 1
        cuda.cg.this_grid().sync()
        y[cuda.blockIdx.x] = x[1 - cuda.blockIdx.x]

    arrays = (np.zeros(2, np.int32), np.zeros(2, np.int32))
    assert wsemu.check(meets, 2, 1, arrays).verdict == "verified"
    assert wsemu.check(meets, 2, 1, arrays, ranks=2).verdict == "incomplete"


def test_atomics_of_python_get_a_note_on_their_scope() -> None:
    @cuda.jit
    def counted(count: Any) -> None:
        cuda.atomic.add(count, 0, 1)

    given = (np.zeros(1, np.int32),)
    noted = wsemu.check(counted, 2, 32, given, ranks=2)
    assert any("`.gpu` scope" in note for note in noted.notes)
    assert not wsemu.check(counted, 2, 32, given).notes
