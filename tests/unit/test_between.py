"""Between launches: the rules of streams and dependent launches against all executions, and files of launches."""

from __future__ import annotations

import ctypes
import re
import runpy
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import wsemu
from tests.commands import wsemu as command
from wsemu import cuda
from wsemu.app.sequence_file import run as run_sequence
from wsemu.between.findings import conflict_finding
from wsemu.between.operations import Access, Ranges, Where
from wsemu.between.order import Event
from wsemu.between.session import Session
from wsemu.launch.hooks import adding_hook, observers

if TYPE_CHECKING:
    from collections.abc import Callable

    from wsemu.between.session import Conflict

BENCHMARK: dict[str, Any] = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "between.py"))


@pytest.mark.parametrize("what", ["compare_host", "compare_chain", "compare_fenced_chain"])
def test_random_programs_are_decided_as_by_all_executions(what: str) -> None:
    found = [BENCHMARK[what](seed) for seed in range(300)]
    assert sum(race for race, *_ in found) > 50
    assert {(missed, false) for _, missed, false in found} == {(False, 0)}


def codes(steps: list[tuple[str, Any]], streams: dict[str, str]) -> list[str]:
    """Return the codes that a list of host actions on one block of 8 bytes has."""
    found: list[Conflict] = []
    session = Session(found.append)
    known = {name: session.order.add_stream(kind, name) for name, kind in streams.items()}  # type: ignore[arg-type]
    known["legacy"] = session.legacy
    session.allocate(0, 8, "pinned", "x")
    event = Event()
    for n, (does, name) in enumerate(steps):
        where, span = Where("f", n), Ranges.single(0, 8)
        if does in ("read", "write"):
            access = [Access(does, span)]  # type: ignore[arg-type]
            if name == "host":
                session.access(span, does, where)  # type: ignore[arg-type]
            else:
                session.launch(known[name], f"launch {n}", where, access)
        elif does == "record":
            session.record(event, known[name])
        elif does == "wait":
            session.wait_event(event, known[name])
        else:
            session.synchronize(known[name])
    return [conflict.code for conflict in found]


def test_an_idle_blocking_stream_does_not_wait_for_the_legacy_stream() -> None:
    steps = [("write", "legacy"), ("sync", "a"), ("read", "host")]
    assert codes(steps, {"a": "blocking"}) == ["host-race"]


def test_an_event_orders_what_was_before_its_record_alone() -> None:
    steps = [("record", "a"), ("write", "a"), ("wait", "b"), ("read", "b")]
    assert codes(steps, {"a": "blocking", "b": "blocking"}) == ["stream-race"]
    steps = [("write", "a"), ("record", "a"), ("wait", "b"), ("read", "b")]
    assert codes(steps, {"a": "blocking", "b": "blocking"}) == []


@pytest.mark.parametrize(("kind", "found"), [("blocking", []), ("nonblocking", ["stream-race"])])
def test_the_legacy_stream_orders_blocking_streams(kind: str, found: list[str]) -> None:
    assert codes([("write", "legacy"), ("read", "a")], {"a": kind}) == found
    assert codes([("write", "a"), ("read", "legacy")], {"a": kind}) == found


@cuda.jit
def fill(x: Any, value: Any) -> None:
    x[cuda.grid(1)] = value


def test_parts_of_an_array_on_two_streams_do_not_conflict() -> None:
    d = cuda.device_array(64, np.float32)
    first, second = cuda.stream(), cuda.stream()
    reports: list[Any] = []
    with adding_hook(observers, reports.append):
        fill[1, 32, first](d[:32], 1)
        fill[1, 32, second](d[32:], 2)
        assert [report.verdict for report in reports] == ["verified"] * 2
        fill[1, 32, second](d[16:48], 3)
    assert [f.code for report in reports for f in report.findings] == ["stream-race"]


def test_a_launch_whose_trace_is_too_long_may_conflict_with_another_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two launches that write to the halves of an array, nothing is known without the trace."""

    @cuda.jit
    def fill_from(x: Any, first: int) -> None:
        x[first + cuda.threadIdx.x] = first

    monkeypatch.setattr("wsemu.machine.run.MAX_EVENTS", 1)
    d = cuda.to_device(np.zeros(128, np.float32))
    first, second = cuda.stream(), cuda.stream()
    reports: list[Any] = []
    with adding_hook(observers, reports.append):
        fill_from[1, 64, first](d, 0)
        fill_from[1, 64, second](d, 64)
    assert [report.verdict for report in reports] == ["verified", "verified", "incomplete"]
    assert "the trace is too long, or ends early, to determine which bytes are accessed" in reports[-1].notes[0]


def test_host_accesses_are_compared_element_by_element() -> None:
    d, h = cuda.to_device(np.ones(64, np.float32)), cuda.pinned_array(64, np.float32)
    stream = cuda.stream()
    reports: list[Any] = []
    with adding_hook(observers, reports.append):
        next(d.split(32)).copy_to_host(h[:32], stream=stream)
        h[32] = 1
        assert not reports
        h[31] = 2
    assert [f.code for report in reports for f in report.findings] == ["host-race"]


def host_reports(change: Callable[[Any, int], None]) -> list[str]:
    """Return the codes of what is reported if the host changes an array to which a copy is in flight."""
    d, h = cuda.to_device(np.ones(64, np.float32)), cuda.pinned_array(64, np.float32)
    stream, address = cuda.stream(), h.ctypes.data
    reports: list[Any] = []
    with adding_hook(observers, reports.append):
        d.copy_to_host(h, stream=stream)
        change(h, address)
        stream.synchronize()
    return [finding.code for report in reports for finding in report.findings]


def test_an_access_of_the_host_is_one_that_a_line_names() -> None:
    def by_name(h: Any, address: int) -> None:
        h[31] = 2

    def by_address(h: Any, address: int) -> None:
        ctypes.memset(address, 0, 4)

    assert host_reports(by_name) == ["host-race"]
    assert host_reports(by_address) == []


def test_threads_of_the_host_count_as_one() -> None:
    """Nothing but the order of this run says that one thread synchronizes before the other one writes."""
    d, h = cuda.to_device(np.ones(64, np.float32)), cuda.pinned_array(64, np.float32)
    stream, copied = cuda.stream(), threading.Event()
    reports: list[Any] = []

    def copy() -> None:
        d.copy_to_host(h, stream=stream)
        stream.synchronize()
        copied.set()

    with adding_hook(observers, reports.append):
        thread = threading.Thread(target=copy)
        thread.start()
        while not copied.is_set():
            pass
        h[31] = 2
        thread.join()
    assert not reports


PTX = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry produce(.param .u64 x) {
    .reg .b64 %a; .reg .b32 %t; .reg .b64 %o;
    ld.param.u64 %a, [x];
    mov.u32 %t, %tid.x;
    mul.wide.u32 %o, %t, 4;
    add.u64 %a, %a, %o;
    st.global.u32 [%a], %t;
    ret;
}
.visible .entry consume(.param .u64 x, .param .u64 y) {
    .reg .b64 %a, %b; .reg .b32 %t; .reg .b64 %o;
    WAIT
    ld.param.u64 %a, [x];
    ld.param.u64 %b, [y];
    mov.u32 %t, %tid.x;
    mul.wide.u32 %o, %t, 4;
    add.u64 %a, %a, %o;
    add.u64 %b, %b, %o;
    ld.global.u32 %t, [%a];
    st.global.u32 [%b], %t;
    ret;
}
"""
SEQUENCE = """
ptx = "k.ptx"
[arrays]
x = "u32[32]:zeros"
y = "u32[32]:zeros"
[[op]]
launch = "produce"
block = 32
args = ["x"]
stream = "s"
[[op]]
launch = "consume"
block = 32
args = ["x", "y"]
stream = "s"
pdl = true
"""


@pytest.mark.parametrize(("wait", "exit_code"), [("", 1), ("griddepcontrol.wait;", 0)])
def test_a_file_of_launches_is_checked(tmp_path: Path, wait: str, exit_code: int) -> None:
    (tmp_path / "k.ptx").write_text(PTX.replace("WAIT", wait), encoding="utf-8")
    (tmp_path / "sequence.toml").write_text(SEQUENCE, encoding="utf-8")
    done = command("check", str(tmp_path / "sequence.toml"))
    assert done.returncode == exit_code, done.stdout
    assert ("error[missing-pdl-wait]" in done.stdout) == bool(exit_code)
    assert ("sequence.toml:12" in done.stdout.replace("\n", "")) == bool(exit_code)


def test_a_sequence_names_what_is_wrong_with_it(tmp_path: Path) -> None:
    file = tmp_path / "sequence.toml"
    file.write_text('[[op]]\nlaunch = "k"\n', encoding="utf-8")
    done = command("check", str(file))
    assert done.returncode == 2
    assert "names no PTX" in done.stdout.replace("\n", " ")


@pytest.mark.parametrize(("op", "message"), [
    ('sink = "s"', "line 11 of `k.toml`: the operation has only sink: name one of launch"),
    ('copy = "x"\ntoo = "y"', "`copy` has no key `too`: to, stream"),
    ('launch = "produce"\nargs = 5', "`args` is 5: give a list"),
    ('launch = "produce"\ngrid = "two"', "`grid` is 'two': give an integer or a list"),
    ("launch = 5", "`launch` is 5: give a string"),
    ('launch = "produce"\nargs = [["x"]]', "an argument is ['x']: give a string"),
    ('memset = "x"\nvalue = "a"', "`value` is 'a': give an integer"),
    ('sync = "t"', "no stream and no event 't'"),
    ('wait = "e"', "no event 'e': add an operation with `record = \"e\"`"),
    ('capture = "g"\nstream = "s"\nmode = "odd"', "capture of mode 'odd': give one of global, thread-local, relaxed"),
    ('read = "z"', "no array 'z': `[arrays]` has x"),
])  # fmt: skip
def test_an_operation_that_is_invalid_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, op: str, message: str
) -> None:
    head = 'ptx = "k.ptx"\n\n[arrays]\nx = "u32[32]:zeros"\n\n[[op]]\nmemset = "x"\nvalue = -1\nstream = "s"\n'
    (tmp_path / "k.ptx").write_text(PTX.replace("WAIT", ""), encoding="utf-8")
    (tmp_path / "k.toml").write_text(f"{head}[[op]]\n{op}\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(wsemu.UsageError, match=re.escape(message)):
        run_sequence(Path("k.toml"))


def test_a_value_of_the_wrong_type_is_named(tmp_path: Path) -> None:
    file = tmp_path / "k.toml"
    for text, message in (
        ("ptx = 3\nop = [3]", "is 3: give a string"),
        ("op = [3]", "the operation is 3: give a table"),
        ("op = " + "[" * 100_000, "is not TOML"),
        ("managed = 'odd'\nop = [3]", "is 'odd': give concurrent or exclusive"),
    ):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(wsemu.UsageError, match=message):
            run_sequence(file)


def test_a_forked_stream_has_to_be_joined() -> None:
    x = np.zeros(32, np.float32)
    sequence = wsemu.Sequence()
    sequence.begin_capture("a", "work")
    sequence.record("fork", stream="a")
    sequence.wait("fork", stream="b")
    sequence.launch(fill, 1, 32, (x, 1), stream="b")
    sequence.end_capture("a", "work")
    messages = [finding.message for report in sequence.reports for finding in report.findings]
    assert [message[-11:] for message in messages] == ["(error 904)"]


@pytest.mark.parametrize(("kind", "freed_by", "severity", "help_"), [
    ("device", "b", "error", "record an event in a after the scale, and let b wait for it before the free"),
    ("device", "", "warning", "synchronize with a before the memory is freed"),
    ("pool", "b", "error", "record an event in a after the scale, and let b wait for it before the free"),
])  # fmt: skip
def test_a_free_in_a_stream_waits_for_nothing(kind: Any, freed_by: str, severity: str, help_: str) -> None:
    found: list[Conflict] = []
    session = Session(found.append)
    streams = {name: session.order.add_stream("nonblocking", name) for name in "ab"}
    block = session.allocate(0, 8, kind, "x")
    session.launch(streams["a"], "scale", Where("f", 1), [Access("write", Ranges.single(0, 8))])
    session.free(block, stream=streams.get(freed_by), where=Where("f", 2))
    (finding,) = map(conflict_finding, found)
    assert (finding.severity, finding.help) == (severity, help_)
    assert any("`cudaFree` waits" in note for note in finding.notes) == (severity == "warning")


def test_memory_that_is_used_after_a_free_is_freed_later() -> None:
    found: list[Conflict] = []
    session = Session(found.append)
    one, two = (session.order.add_stream("nonblocking", name) for name in "ab")
    block = session.allocate(0, 8, "device", "x")
    session.free(block, stream=one)
    session.launch(two, "launch of `scale`", None, [Access("write", Ranges.single(0, 8))])
    (finding,) = map(conflict_finding, found)
    assert finding.help == "free the memory after the launch of `scale`"


def test_the_programs_of_the_device_are_verified() -> None:
    program = Path(__file__).parents[2] / "benchmarks" / "between_device.py"
    done = command("run", str(program), "--runs", "1", "--size", "512")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all results are right, bit for bit" in done.stdout
    assert not any(word in done.stdout + done.stderr for word in ("incomplete", "error["))


@pytest.mark.parametrize("destroyed_first", [True, False])
def test_a_free_in_a_destroyed_stream_is_an_error(destroyed_first: bool) -> None:
    """cupy/cupy#4537."""
    sequence, x = wsemu.Sequence(), np.zeros(64, np.float32)
    sequence.allocate(x, "x", stream="s")
    if destroyed_first:
        sequence.destroy("s")
        with pytest.raises(wsemu.UsageError, match=r"stream 's' was destroyed at line \d+: CUDA returns error 400"):
            sequence.free(x, stream="s")
    else:
        sequence.free(x, stream="s")
        sequence.destroy("s")
        sequence.synchronize()
    with pytest.raises(wsemu.UsageError, match="a default stream cannot be destroyed"):
        sequence.destroy("")
