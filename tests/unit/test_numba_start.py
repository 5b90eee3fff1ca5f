"""How a program gets wsemu for Numba-CUDA: modules, pytest, processes that it starts, the second way in."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba.core import types

from tests.commands import wsemu
from wsemu import UsageError, cuda, time
from wsemu.backends import numba_cuda
from wsemu.host import takeover
from wsemu.launch import check as launching
from wsemu.launch import hooks
from wsemu.model.settings import Settings, using

pytest_plugins = ["pytester"]
PROGRAM = """
import sys
import numpy as np
from numba import cuda

@cuda.jit
def fill(x):
    x[cuda.grid(1)] = 1

x = np.zeros(4)
fill[1, 4](x)
print(x.sum(), sys.argv[1:], __name__)
"""


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    """What launches import is there before `pytester`, which forgets modules at its end."""
    for name in ("wsemu.host.testing", "wsemu.launch.thread_output", "numba.tests.support", "wsemu.report.terminal"):
        importlib.import_module(name)
    cuda.jit(_plain)[1, 1](np.zeros(1))


def test_run_m_runs_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "some_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text(PROGRAM)
    (package / "part.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    for name in ("some_package.part", "some_package"):
        done = wsemu("run", "-m", name, "a", cwd=tmp_path)
        assert done.stdout.startswith("4.0 ['a'] __main__\n"), done.stdout + done.stderr
        assert done.returncode == 0
    assert "no module `none.such`" in wsemu("run", "-m", "none.such", cwd=tmp_path).stdout


def test_python_m_wsemu_is_the_command_and_its_processes_inherit_it(tmp_path: Path) -> None:
    child = "from numba import cuda\n@cuda.jit\ndef k():\n    print(cuda.grid(1))\nk[1, 2]()"
    file = tmp_path / "program.py"
    file.write_text(
        f"import subprocess, sys\n{PROGRAM}\nsubprocess.run([sys.executable, '-c', {child!r}], check=True)\n"
    )
    command = [sys.executable, "-m", "wsemu", "run", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines())[:2] == ["0", "1"]


def test_pytest_runs_tests_with_wsemu_in_the_place_of_numba_cuda(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("from numba import cuda\nassert cuda.__name__ == 'wsemu.cuda'")
    pytester.makepyfile("def test_it():\n    from numba import cuda\n    assert cuda.__name__ == 'wsemu.cuda'")
    with takeover.numba_cuda():  # what the first import of it brings is not to stay
        pass
    before = {name for name in sys.modules if name.startswith("numba.cuda")}
    assert pytester.runpytest("--wsemu-numba", "-p", "no:cacheprovider").ret == 0
    pytester.makeini("[pytest]\nwsemu_numba = true")
    assert pytester.runpytest("-p", "no:cacheprovider").ret == 0
    assert {name for name in sys.modules if name.startswith("numba.cuda")} == before


SUITE = """
import numpy as np
from numba import cuda
from numba.cuda.testing import CUDATestCase, skip_on_cudasim, skip_unless_cc_60, skip_unless_cudasim, unittest

class Suite(CUDATestCase):
    @skip_on_cudasim("warps")
    @skip_unless_cc_60
    def test_lanes(self):
        @cuda.jit
        def lanes(x):
            i = cuda.grid(1)
            x[i] = cuda.shfl_sync(-1, i, 3)
        x = np.zeros(32)
        lanes[1, 32](x)
        self.assertPreciseEqual(x, np.full(32, 3.0))

    @skip_unless_cudasim("the simulator")
    def test_simulator(self):
        self.fail()
"""


def test_suites_of_numba_cuda_programs_have_their_test_case(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(SUITE)
    pytester.runpytest("--wsemu-numba", "-p", "no:cacheprovider").assert_outcomes(passed=1, skipped=1)


UNDECIDED = """
import numpy as np
import pytest
from numba import cuda

@cuda.jit
def doubled(x):
    x[cuda.grid(1)] *= 2

@pytest.mark.wsemu(budget=3)
def test_undecided():
    doubled[2, 32](np.ones(64))

@pytest.mark.wsemu(budget=3, allow_incomplete=True)
def test_allowed():
    doubled[2, 32](np.ones(64))

def test_verified():
    doubled[2, 32](np.ones(64))
"""


def test_incomplete_launches_of_numba_cuda_programs_fail_their_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(UNDECIDED)
    done = pytester.runpytest("--wsemu-numba", "-p", "no:cacheprovider", "-W", "default")
    done.assert_outcomes(failed=1, passed=2, warnings=1)
    done.stdout.fnmatch_lines(["*doubled*incomplete*", "help: `--wsemu-allow-incomplete`*"])


def test_an_installed_takeover_is_removed() -> None:
    takeover.install()
    try:
        from numba import cuda as taken

        assert taken.__name__ == "wsemu.cuda"
        with takeover.suspending_takeover():
            assert "numba.cuda" not in sys.modules or sys.modules["numba.cuda"].__name__ != "wsemu.cuda"
        from numba import cuda as again

        assert again is taken
    finally:
        takeover.remove()


SECOND_WAY = launching._second_way


@cuda.jit
def stepped(x, n):
    y = None
    if n != 0:
        y = n
    x[cuda.threadIdx.x * y % 8] = 1  # type: ignore[operator]
    if n < 0:
        x[0] = x[6]


@pytest.fixture
def numba_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skips where Numba-CUDA is not installed with its compiler."""
    try:
        numba_cuda.numba_cuda()
    except UsageError as error:
        pytest.skip(str(error))
    monkeypatch.setattr(launching, "_second_way", SECOND_WAY)


@pytest.mark.usefixtures("numba_compiles")
def test_numba_cudas_ptx_is_the_second_way() -> None:
    x = np.zeros(8)
    report = launching.check(stepped, 1, 4, (x, 2))
    assert (report.verdict, x.tolist()) == ("verified", [1, 0] * 4)
    assert report.notes[0].startswith("run from Numba-CUDA's PTX")
    racy = launching.check(stepped, 1, 4, (x, -1))
    assert {site.line for site in racy.errors[0].sites} <= {
        line + stepped.py_func.__code__.co_firstlineno for line in (5, 7)
    }
    with using(Settings(numba_ptx=False)):
        assert launching.check(stepped, 1, 4, (x, 2)).verdict == "incomplete"


@cuda.jit
def converts(x):
    y = None
    if x[0] >= 0:
        y = cuda.types.float32(x[0])
    x[1] = y


@pytest.mark.usefixtures("numba_compiles")
def test_our_own_types_are_numbas_there() -> None:
    x = np.array([0.1, 0.0])
    launching.check(converts, 1, 1, (x,)).assert_clean()
    assert x[1] == np.float32(0.1)


@pytest.mark.usefixtures("numba_compiles")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("*r = x * y;", ""),
        ("*r = x * ;", "the CUDA C++ that is linked does not compile: product(1): error: expected an"),
    ],
    ids=["right", "wrong"],
)
def test_a_kernel_is_linked_with_cuda_cpp(text: str, message: str) -> None:
    source = f'extern "C" __device__ int product(float* r, float x, float y) {{ {text} return 0; }}'
    linked = cuda.CUSource(source, name="product")
    product = cuda.declare_device("product", "float32(float32, float32)", link=linked)

    @cuda.jit
    def squares(r, x):
        i = cuda.grid(1)
        r[i] = product(x[i], x[i])

    x = np.arange(32, dtype=np.float32)
    r = np.zeros_like(x)
    report = launching.check(squares, 1, 32, (r, x))
    if message:
        assert report.verdict == "incomplete"
        assert message in " ".join(report.notes)
    else:
        report.assert_clean()
        assert (r == x * x).all()


@pytest.mark.usefixtures("numba_compiles")
def test_numba_cuda_compiles_what_it_is_asked_for() -> None:
    compiler: Any = cuda
    ptx, result = compiler.compile_ptx(lambda x: x + 1, (types.int32,), device=True)
    assert ".visible .func" in ptx
    assert result is types.int64
    with pytest.raises(UsageError, match=r"`cuda.compile_ptx`, of Numba-CUDA: "):
        compiler.compile_ptx(lambda x: x.nothing, (types.int32,), device=True)


def test_without_numba_cuda_there_is_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert not hasattr(cuda, "compile_ptx")


def test_without_numba_cuda_there_is_no_second_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launching, "_second_way", SECOND_WAY)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    report = launching.check(stepped, 1, 1, (np.zeros(4), 2))
    assert report.verdict == "incomplete"


@pytest.mark.parametrize("missing", ["numba", "numba.core"])
def test_without_numba_a_time_is_predicted(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise UsageError("Numba-CUDA is not installed")

    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.setattr(numba_cuda, "numba_cuda", refuse)  # it may be imported already
    predicted = time(cuda.jit(_plain), 1, 32, (np.zeros(32),))
    assert "Numba-CUDA is not installed" in str(predicted.notes)


class Way:
    """A second way that is always open, to another kernel."""

    def __init__(self) -> None:
        self.kernel = cuda.jit(_plain)
        self.arguments: Any = (np.zeros(4),)


def _plain(x):
    x[0] = 1


def test_a_kernel_that_is_not_read_goes_the_second_way(monkeypatch: pytest.MonkeyPatch) -> None:
    way = Way()
    monkeypatch.setattr(launching, "_second_way", lambda *_: way)
    assert launching.check(stepped, 1, 1, (np.zeros(4), 2)).verdict == "verified"
    assert way.arguments[0][0] == 1
    assert takeover.suspending_takeover in hooks.aside


@cuda.jit("int64(int64)", device=True)
def fib(n):
    if n < 2:
        return n
    return fib(n - 1) + fib(n - 2)


@cuda.jit
def recursive(x):
    i = cuda.grid(1)
    x[i] = fib(i)


FIBS = [0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610]


@pytest.mark.usefixtures("numba_compiles")
def test_recursion_is_as_deep_as_numba_cuda_compiles_it() -> None:
    x = np.zeros(16, np.int64)
    launching.check(recursive, 1, 16, (x,)).assert_clean()
    assert x.tolist() == FIBS


def test_recursion_goes_the_second_way_where_it_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    way = Way()
    monkeypatch.setattr(launching, "_second_way", lambda *_: way)
    assert launching.check(recursive, 1, 1, (np.zeros(4, np.int64),)).verdict == "verified"
    assert way.arguments[0][0] == 1
    monkeypatch.setattr(launching, "_second_way", lambda *_: None)
    x = np.zeros(8, np.int64)
    launching.check(recursive, 1, 8, (x,)).assert_clean()
    assert x.tolist() == FIBS[:8]
    report = launching.check(recursive, 1, 16, (np.zeros(16, np.int64),))
    assert report.verdict == "incomplete"
    assert "recursion deeper than 10 calls of `fib`" in report.notes[0]
