"""Bad input gets a message that names the thing, the place and the remedy; what is refused leaves the arrays alone."""

from __future__ import annotations

import numpy as np
import pytest

import wsemu
from tests.commands import wsemu as command
from wsemu import cuda, ptx
from wsemu.launch import examined
from wsemu.machine.memory.shadow_planes import Pool
from wsemu.machine.state import sparse_zeros
from wsemu.model.errors import KernelError, UnsupportedError, UsageError


@cuda.jit
def fill(y, n):
    i = cuda.grid(1)
    if i < n:
        y[i] = 1


@cuda.jit
def float_index(y):
    y[cuda.threadIdx.x / 2] = 1


@cuda.jit
def unknown_function(y):
    y[0] = sorted(y)


@cuda.jit
def unknown_name(y):
    y[0] = nothing_of_that_name  # type: ignore[name-defined]  # noqa: F821


@cuda.jit
def endless(y):
    while True:
        y[0] += 1


@cuda.jit
def barrier_from_data(ids):
    ptx.bar_sync(ids[0], 32)


@cuda.jit
def huge_shared():
    tile = cuda.shared.array(1 << 29, np.float32)
    tile[0] = 1


@cuda.jit
def past_the_end(y):
    y[cuda.threadIdx.x + 1] = 1


ARRAY = np.zeros(32)


@pytest.mark.parametrize(
    ("grid", "block", "args", "words"),
    [
        (1, 1025, (ARRAY, 1), ("block of 1,025 threads", "at most 1,024", "sm_90")),
        (1, (32, 33), (ARRAY, 1), ("1,056 threads", "at most 1,024")),
        (1, (1, 1, 65), (ARRAY, 1), ("block.z is 65", "at most 64")),
        ((1, 70000), 32, (ARRAY, 1), ("grid.y is 70,000", "at most 65,535")),
        (0, 32, (ARRAY, 1), ("grid 0 is empty",)),
        (1.5, 32, (ARRAY, 1), ("grid", "float")),
        (1, "32", (ARRAY, 1), ("block", "str")),
        (1, 32, (ARRAY,), ("`fill` got 1 of 2 arguments", "missing `n`")),
        (1, 32, ARRAY, ("args is an array: give a tuple of the kernel's arguments, `(x,)`",)),
        (1, 32, (ARRAY, 1, 2), ("`fill` takes 2 arguments (y, n), not 3",)),
        (1, 32, ([0.0] * 32, 1), ("argument `y` is a list", "np.asarray")),
        (1, 32, ("text", 1), ("argument `y` is a str",)),
        (1, 32, (None, 1), ("argument `y` is None",)),
        (1, 32, (np.array([None]), 1), ("argument `y` is an array of object",)),
        (1, 32, ARRAY[0], ("args is",)),
    ],
)
def test_a_launch_that_is_refused_says_why(grid, block, args, words):
    before = ARRAY.copy()
    with pytest.raises(UsageError) as refused:
        wsemu.check(fill, grid, block, args)
    for word in words:
        assert word in str(refused.value)
    assert (before == ARRAY).all()


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"arch": "sm_1"}, "unknown arch 'sm_1'"),
        ({"engine": "gpu"}, "no engine 'gpu'"),
        ({"budget": 0}, "budget of 0"),
        ({"budget": "x"}, "budget is 'x', of type str: give an int"),
        ({"budget": True}, "budget is True"),
        ({"workers": 1.5}, "workers is 1.5, of type float"),
        ({"arch": 90}, "unknown arch 90"),
        ({"arch": []}, r"unknown arch \[\]"),
        ({"checkers": [3]}, "no checker 3"),
        ({"fail_on": [None]}, "no finding code None"),
        ({"uninitialized": [4]}, "uninitialized names 4"),
        ({"dynamic_shared": 1 << 20}, "at most 232,448 on sm_90"),
        ({"dynamic_shared": -1}, "give 0 or more"),
    ],
)
def test_an_option_that_is_refused_says_why(options, word):
    with pytest.raises(UsageError, match=word):
        wsemu.check(fill, 1, 32, (np.zeros(32), 1), **options)


def test_too_little_memory_is_told(monkeypatch):
    def exhausted(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(examined, "ran", exhausted)
    with pytest.raises(
        UsageError, match="`fill` with 256 bytes of arrays takes more memory than there is: use smaller"
    ):
        wsemu.check(fill, 1, 32, (np.zeros(32), 1))


def test_too_little_memory_for_the_tables_of_a_launch_is_reported(monkeypatch):
    monkeypatch.setattr(Pool, "take", lambda *_: sparse_zeros(1 << 45, np.int64))  # more than the address space
    with pytest.raises(UsageError, match="takes more memory than there is"):
        wsemu.check(fill, 1, 32, (np.zeros(32), 1))


def test_what_is_no_kernel_is_refused():
    with pytest.raises(UsageError, match="is no kernel"):
        wsemu.check(3, 1, 32, ())  # type: ignore[arg-type, unused-ignore]


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (float_index, ("float64", "int(")),
        (unknown_function, ("sorted",)),
        (unknown_name, ("nothing_of_that_name",)),
    ],
)
def test_a_kernel_that_does_not_compile_says_where(kernel, words):
    y = np.zeros(4)
    with pytest.raises(KernelError) as refused:
        kernel[1, 1](y)
    text = str(refused.value)
    assert all(word in text for word in words)
    assert f"test_bad_input.py:{refused.value.span.line}:" in text  # type: ignore[union-attr, unused-ignore]
    assert not y.any()


def test_unsupported_is_an_error_of_its_own():
    assert issubclass(UnsupportedError, KernelError)


@cuda.jit
def empty():
    pass


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_the_step_budget_ends_a_grid_of_empty_ctas(engine):
    """Each CTA after the first takes 32 on top: a budget of 10,000 is enough for 304 of one instruction."""
    for ctas, verdict in ((304, "verified"), (305, "incomplete"), (2**31 - 1, "incomplete")):
        assert wsemu.check(empty, ctas, 32, (), budget=10_000, engine=engine).verdict == verdict
    report = wsemu.check(empty, (2**31 - 1, 65535, 65535), 32, (), budget=10_000, engine=engine)
    assert report.verdict == "incomplete"


def test_a_grid_that_takes_too_much_memory_is_refused():
    with pytest.raises(wsemu.UsageError, match=r"takes 242\.4 GB to tell CTAs apart.*`budget=`"):
        wsemu.check(empty, (2**31 - 1, 65535, 65535), 32, (), budget=10**12)


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_an_endless_loop_of_a_long_stretch_ends_at_the_step_budget(engine):
    """A stretch longer than a warp's turn uses up turn and budget at once."""
    text = (
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 a)\n{\n.reg .b32 %r<3>;\n"
        f"mov.u32 %r1, %tid.x;\nL:\n{'add.u32 %r1, %r1, %r1;' * 300}\nbra.uni L;\n}}\n"
    )
    report = wsemu.check(wsemu.load_ptx(text)["k"], 1, 64, (np.zeros(4),), budget=5000, engine=engine)
    assert "step budget of 5,000 warp instructions used up" in report.notes[0]


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_an_endless_loop_ends_at_the_step_budget(engine):
    report = wsemu.check(endless, 1, 1, (np.zeros(1),), budget=1000, engine=engine)
    assert report.verdict == "incomplete"
    assert "step budget of 1,000 warp instructions used up" in report.notes[0]


def test_a_barrier_id_from_data_is_checked():
    report = wsemu.check(barrier_from_data, 1, 32, (np.array([99]),))
    assert report.verdict == "failed"
    assert report.findings[0].message == "barrier id 99 is not one of 0-15"


def test_too_much_shared_memory_is_refused():
    with pytest.raises(UsageError, match=r"2,147,483,648 bytes of shared memory \(`tile`\): at most 49,152 on sm_90"):
        wsemu.check(huge_shared, 1, 32, ())


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_an_access_outside_is_left_out_and_said(engine):
    y = np.zeros(8)
    report = wsemu.check(past_the_end, 1, 8, (y,), engine=engine)
    finding = report.findings[0]
    assert (report.verdict, finding.code) == ("failed", "out-of-bounds")
    assert finding.message == "index 8 lies outside `y`"
    assert y.tolist() == [0, 1, 1, 1, 1, 1, 1, 1]


def test_a_failed_launch_says_that_arrays_were_written():
    report = wsemu.check(past_the_end, 1, 8, (np.zeros(8),))
    assert any("they are not valid results" in note for note in report.notes)


def test_a_source_root_has_to_be_a_folder() -> None:
    done = command("check", "--source-root", "nowhere", "examples/saxpy.py")
    assert done.returncode == 2
    assert "nowhere is not a folder: give one that holds the sources of kernels" in " ".join(done.stderr.split())
