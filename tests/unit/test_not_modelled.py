"""What the dialect lacks makes its launch incomplete, and the program goes on; what Numba refuses too is an error."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wsemu
from wsemu import KernelError, UnsupportedError, UsageError, cuda
from wsemu.app.program import run
from wsemu.model.settings import Settings


def kernel_of(body: str) -> Any:
    """A kernel that is made of text, without a file."""
    space: dict[str, Any] = {"cuda": cuda, "np": np, "math": math}
    exec(f"def made(x, n):\n    {body}", space)
    return cuda.jit(space["made"])


@cuda.jit
def several(x, n):
    x[0:2] = (1.0, 2.0)


@cuda.jit
def perhaps_none(x, n):
    y = None
    if n > 1:
        y = 2.0
    x[0] = y


@cuda.jit
def copied(x, n):
    x[0] = x.copy()[1]


@cuda.jit
def smallest(x, n):
    x[0] = min(x)


@cuda.jit
def untouched(x, n):
    if n < 0:
        x[0] = n


FLOATS = np.zeros(4)
LACKING = [
    (several, FLOATS, "a tuple of 2 cannot be stored into an array"),
    (perhaps_none, FLOATS, "`y` is "),
    (copied, FLOATS, "array `x` has no attribute `copy`"),
    (smallest, FLOATS, "`min` needs two or more numbers"),
    (kernel_of("x[0] = n"), FLOATS, "the source of `made` in <string> cannot be read"),
]


@pytest.mark.parametrize(("kernel", "x", "message"), LACKING, ids=[message for *_, message in LACKING])
def test_a_launch_that_needs_what_is_not_modelled_is_incomplete(kernel: Any, x: Any, message: str) -> None:
    before = x.copy()
    report = wsemu.check(kernel, 1, 1, (x, 2))
    assert report.verdict == "incomplete"
    assert report.exit_code == 3
    assert len(report.reasons) == 1
    assert report.notes[0].startswith("test_not_modelled.py:")
    assert message in report.notes[0]
    assert "(help: " in report.notes[0]
    assert report.notes[1] == "it was not run: its arrays are as they were"
    assert before.tobytes() == x.tobytes()
    with pytest.raises(wsemu.CheckFailed, match="incomplete"):
        report.assert_clean()


@pytest.mark.parametrize(("kernel", "x"), [(kernel, x) for kernel, x, _ in LACKING[:3]])
def test_such_a_launch_raises_where_nobody_asks_for_a_report(kernel: Any, x: Any) -> None:
    with pytest.raises(UnsupportedError) as found:
        kernel[1, 1](x, 2)
    assert found.value.span is not None


@cuda.jit
def no_such_name(x, n):
    x[0] = nothing_of_this_name  # type: ignore[name-defined]  # noqa: F821


@cuda.jit
def float_index(x, n):
    x[x[0]] = n


@cuda.jit
def none_plus_one(x, n):
    x[0] = None + 1  # type: ignore[operator]


@cuda.jit
def array_of_run_time_size(x, n):
    cuda.shared.array(n, np.float32)


@cuda.jit
def two_ranks(x, n):
    y = x
    if n > 1:
        y = x[0]
    x[0] = y[0]


@pytest.mark.parametrize(
    "kernel", [no_such_name, float_index, none_plus_one, array_of_run_time_size], ids=lambda kernel: kernel.__name__
)
def test_a_kernel_that_numba_refuses_too_is_an_error(kernel: Any) -> None:
    with pytest.raises(KernelError) as found:
        wsemu.check(kernel, 1, 1, (FLOATS, 2))
    assert not isinstance(found.value, UnsupportedError)


@pytest.mark.parametrize("value", [None, [1, 2], np.zeros(2, object)], ids=["None", "list", "objects"])
def test_an_argument_that_numba_refuses_too_is_wrong_usage(value: Any) -> None:
    with pytest.raises(UsageError):
        wsemu.check(untouched, 1, 1, (value, 2))


PROGRAM = """
import numpy as np
from numba import cuda

@cuda.jit
def copied(x, n):
    x[0] = x.copy()[n]

@cuda.jit
def one(x):
    x[0] = 1

x, s = np.zeros(1), np.zeros(1, np.int64)
copied[1, 1](x, 2)
copied[1, 1](s, 0)
one[1, 1](x)
print(x[0], hasattr(cuda, "IpcHandle"))
"""


@pytest.mark.parametrize("quiet", [True, False], ids=["run", "check"])
def test_the_program_goes_on_after_what_is_not_modelled(tmp_path: Path, capsys: Any, quiet: bool) -> None:
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    assert run(file, [], Settings(), quiet=quiet) == 3
    said = capsys.readouterr().out
    assert "1.0 True" in said
    assert "program.py:7:" in said
    assert "2 incomplete (" in said


@pytest.mark.parametrize("statement", ["cuda.IpcHandle(1)", "import numba.cuda.codegen"])
def test_a_name_of_numba_cuda_with_nothing_behind_it_is_not_wrong_usage(
    tmp_path: Path, capsys: Any, statement: str
) -> None:
    file = tmp_path / "program.py"
    file.write_text(f"from numba import cuda\n{statement}\n")
    assert run(file, [], Settings()) == 3
    said = capsys.readouterr().out
    assert said.startswith("unsupported: ")
    assert "program.py:2:" in said
