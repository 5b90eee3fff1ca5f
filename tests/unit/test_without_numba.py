"""Numba is an extra: kernels are checked without it, and all that needs it names the extra in one message."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

import wsemu
from wsemu import cuda
from wsemu.host.driver import config
from wsemu.host.takeover import numba_cuda
from wsemu.launch.overloads import argument_type
from wsemu.model.errors import WsemuError
from wsemu.model.numba_library import MISSING, load_numba

if TYPE_CHECKING:
    from collections.abc import Callable


class Absence:
    """A finder for which Numba is not installed."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name == "numba":
            raise ModuleNotFoundError("No module named 'numba'", name=name)


@pytest.fixture(autouse=True)
def without_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "numba"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Absence(), *sys.meta_path])


def double(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = cuda.fma(x[i], 2.0, 0.0)


def test_a_kernel_is_checked() -> None:
    x = np.ones(40, np.float32)
    assert wsemu.check(cuda.jit(double), 2, 32, (x,)).verdict == "verified"
    assert (x == 2).all()


@pytest.mark.parametrize(
    "use",
    [
        lambda: load_numba("numba.core.types"),
        lambda: cuda.jit("void(float32[:])")(double),
        lambda: cuda.literal_unroll,
        lambda: cuda.types.no_such_type,  # type: ignore[attr-defined]
        lambda: cuda.types.float32(cuda.types.float32),
        lambda: config.OPT,
        lambda: argument_type(1.0),
    ],
)
def test_what_needs_numba_names_the_extra(use: Callable[[], object]) -> None:
    with pytest.raises(wsemu.UsageError) as caught:
        use()
    assert str(caught.value) == MISSING


def test_another_missing_module_is_not_numba() -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        load_numba("no_such_module")


PROGRAM = """
import numba
import numpy as np
from numba import cuda, float32

@cuda.jit
def reverse(x):
    tile = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    tile[t] = x[t]
    cuda.syncthreads()
    x[t] = tile[31 - t]

x = np.arange(32, dtype=np.float32)
numba.cuda.jit(reverse.py_func)[1, 32](x)
"""


def test_programs_import_numba() -> None:
    """They get `cuda` and wsemu's own types, and nothing is left afterwards."""
    names: dict[str, object] = {}
    with numba_cuda():
        exec(PROGRAM, names)  # a program of this test
    assert (names["x"] == np.arange(32)[::-1]).all()
    assert "numba" not in sys.modules


@pytest.mark.parametrize(
    "line", ["from numba import njit", "import numba; numba.njit", "from numba.cuda import errors"]
)
def test_programs_that_need_numba_name_the_extra(line: str) -> None:
    with numba_cuda(), pytest.raises(WsemuError, match=r"pip install 'wsemu\[numba\]'"):
        exec(line, {})


def test_programs_can_do_without_numba() -> None:
    with numba_cuda(), pytest.raises(ImportError):
        from numba import njit  # noqa: F401
