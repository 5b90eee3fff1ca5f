"""The pytest plugin, as the tests of another project use it."""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import wsemu
from wsemu import CheckFailed, cuda
from wsemu.model.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

    Run = Callable[..., pytest.RunResult]

pytest_plugins = ["pytester"]

KERNELS = """
import numpy as np
import pytest
from wsemu import check, check_transfer, cuda

@cuda.jit
def copy_tile(src, dst):
    tile = cuda.shared.array((32, 32), np.float32)
    lane = cuda.threadIdx.x
    for k in range(32):
        tile[lane, k] = src[k, lane]
    cuda.syncwarp()
    for k in range(32):
        dst[k, lane] = tile[lane, k]

@cuda.jit
def reverse(x):
    tile = cuda.shared.array(64, np.float32)
    i = cuda.threadIdx.x
    tile[i] = x[i]
    x[i] = tile[63 - i]

@cuda.jit
def double(x):
    x[cuda.grid(1)] *= 2

def squares():
    return np.zeros((32, 32), np.float32), np.zeros((32, 32), np.float32)

def numbers():
    return np.arange(64, dtype=np.float32)
"""


class _Modules:
    """A plugin that keeps what a run in this process has imported: NumPy cannot be imported twice."""

    def __init__(self) -> None:
        self.found: dict[str, ModuleType] = {}

    def pytest_unconfigure(self) -> None:
        self.found.update(sys.modules)
        self.found.pop("test_it", None)

    def keep(self) -> None:
        for name, module in self.found.items():
            sys.modules.setdefault(name, module)


@pytest.fixture
def modules() -> Iterator[_Modules]:
    """To be set up before `pytester`, which forgets modules at its end."""
    made = _Modules()
    yield made
    made.keep()


@pytest.fixture
def run(modules: _Modules, pytester: pytest.Pytester) -> Callable[..., pytest.RunResult]:
    """run(tests, *options): pytest on a file of tests that begins with KERNELS, in this process or in one of its
    own."""
    installed = any(entry.value == "wsemu.pytest_plugin" for entry in entry_points(group="pytest11"))

    def make(tests: str, *options: str, kernels: str = KERNELS, process: bool = False) -> pytest.RunResult:
        pytester.makepyfile(test_it=kernels + tests)
        plugin = () if installed else ("-p", "wsemu.pytest_plugin")
        given = (*plugin, "-p", "no:cacheprovider", *options)
        if process:
            return pytester.runpytest_subprocess(*given)
        done = pytester.runpytest_inprocess(*given, plugins=[modules])
        modules.keep()
        return done

    return make


# -- the journeys ----------------------------------------------------------------------------------------------------
def test_a_conflict_fails_with_its_diagnostic(run: Run) -> None:
    done = run("def test_copy(wsemu):\n    wsemu.check(copy_tile, 1, 32, squares()).assert_clean(bank_ways=1)\n")
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines([
        ">       wsemu.check(copy_tile, 1, 32, squares()).assert_clean(bank_ways=1)",
        "E*CheckFailed: error[[]bank-conflict[]]: 32-way bank conflict on shared store of `tile`",
        "E*--> test_it.py:10:9",
        "E*= note: `bank_ways=1` is asked for",
        "E*= hint: pad the row: `(32, 33)` makes this access*",
        "test_it.py:*: CheckFailed",
    ])  # fmt: skip
    done.stdout.no_fnmatch_line("*wsemu/*.py:*: *")  # the traceback ends in the test


def test_what_is_clean_passes(run: Run) -> None:
    done = run(
        """
def test_double(wsemu):
    x = numbers()
    report = wsemu.launch(double, 2, 32, (x,))
    assert report.verdict == "verified"
    assert (x == 2 * numbers()).all()
    wsemu.check(double, 2, 32, (x,)).assert_clean(bank_ways=1, coalescing=1.0)
""",
        process=True,
    )
    done.assert_outcomes(passed=1)


@pytest.mark.parametrize("call", ["wsemu.launch(reverse, 1, 64, (numbers(),))", "reverse[1, 64](numbers())"])
def test_a_launch_fails_where_it_is_made(run: Run, call: str) -> None:
    done = run(f"def test_reverse(wsemu):\n    {call}\n")
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(
        [">   *" + call.replace("[", "[[]"), "E*CheckFailed: error[[]race[]]: read-after-write hazard*"]
    )
    done.stdout.no_fnmatch_line("*wsemu/*.py:*: *")


def test_any_stride(run: Run) -> None:
    done = run("""
from hypothesis import given, settings
from wsemu.strategies import strided_transfers

@settings(max_examples=20, deadline=None, database=None, derandomize=True)
@given(transfer=strided_transfers())
def test_any_stride(transfer):
    check_transfer(transfer).assert_clean()

@settings(max_examples=20, deadline=None, database=None, derandomize=True)
@given(transfer=strided_transfers())
def test_with_the_fixture(wsemu, transfer):
    wsemu.check_transfer(transfer).assert_clean()
""")
    done.assert_outcomes(passed=2)


def test_a_failing_example_comes_with_the_line_that_keeps_it(run: Run) -> None:
    done = run("""
from hypothesis import given, settings, strategies as st

@settings(max_examples=50, deadline=None, database=None, derandomize=True)
@given(n=st.integers(0, 100))
def test_many(wsemu, n):
    if n > 7:
        wsemu.launch(reverse, 1, 64, (numbers(),))
""")
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["E*error[[]race[]]: *", "*- wsemu: keep this example -*", "@example(n=8)"])


def test_junit_has_the_diagnostic(run: Run, pytester: pytest.Pytester) -> None:
    run("def test_reverse(wsemu):\n    wsemu.launch(reverse, 1, 64, (numbers(),))\n", "--junitxml=junit.xml")
    tree = ElementTree.parse(pytester.path / "junit.xml")
    failure = tree.find(".//failure")
    assert failure is not None
    assert failure.text is not None
    assert "error[race]: read-after-write hazard on shared `tile[63 - i]`" in failure.text
    assert "= hint: add `cuda.syncthreads()` after line" in failure.text
    noted = tree.find(".//testcase/properties/property[@name='wsemu']")
    assert noted is not None
    assert noted.get("value") == "race"


def test_processes_of_xdist(run: Run) -> None:
    tests = "\n".join(f"def test_{n}(wsemu):\n    wsemu.launch(double, 2, 32, (numbers(),))" for n in range(4))
    done = run(tests + "\ndef test_bad(wsemu):\n    wsemu.launch(reverse, 1, 64, (numbers(),))\n", "-n", "2")
    done.assert_outcomes(passed=4, failed=1)
    done.stdout.fnmatch_lines(["E*error[[]race[]]: read-after-write hazard*"])


# -- settings --------------------------------------------------------------------------------------------------------
SETTINGS = """
from wsemu.model.settings import current
def test_it():
    chosen = current()
    print("settings", chosen.arch, chosen.lockstep, chosen.budget, "race" in chosen.checkers, *chosen.fail_on)
"""


def test_settings_come_from_the_marker_the_command_line_ini_and_pyproject(run: Run, pytester: pytest.Pytester) -> None:
    def said(*options: str, marker: str = "") -> str:
        done = run(SETTINGS.replace("def test", f"{marker}\ndef test"), "-s", *options)
        done.assert_outcomes(passed=1)
        return next(line for line in done.outlines if "settings " in line).partition("settings ")[2].strip()

    assert said() == "sm_90 False 1000000000 True"
    pytester.makepyprojecttoml('[tool.wsemu]\narch = "sm_80"\nlockstep = true\nskip = ["race"]\n')
    assert said() == "sm_80 True 1000000000 False"
    pytester.makeini("[pytest]\nwsemu_arch = sm_75\nwsemu_budget = 7000\nwsemu_fail_on = bank-conflict\n")
    assert said() == "sm_75 True 7000 False bank-conflict"
    options = ("--wsemu-arch", "sm_70", "--no-wsemu-lockstep", "--wsemu-skip", "bounds")
    assert said(*options) == "sm_70 False 7000 True bank-conflict"
    marker = '@__import__("pytest").mark.wsemu(arch="sm_86", lockstep=True, fail_on=[])'
    assert said(*options, "--strict-markers", marker=marker) == "sm_86 True 7000 True"


@pytest.mark.parametrize(
    ("marker", "message"),
    [
        ("arch='sm_1'", "the marker wsemu: `arch`: unknown arch 'sm_1': use one of *"),
        ("skip='race'", 'the marker wsemu: `skip` is "race": give a list'),
        ("arhc='sm_80'", "the marker wsemu has no setting arhc: give name=value of arch, *"),
        ("'sm_80'", "the marker wsemu has no setting 'sm_80': give name=value of arch, *"),
    ],
)
def test_a_wrong_marker_is_an_error_of_its_test(run: Run, marker: str, message: str) -> None:
    done = run(f"@pytest.mark.wsemu({marker})\ndef test_it():\n    pass\n\ndef test_other():\n    pass\n")
    done.assert_outcomes(passed=1, errors=1)
    done.stdout.fnmatch_lines([message])
    done.stdout.no_fnmatch_line("*During handling*")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--wsemu-arch", "sm_1"), "*wsemu's options of pytest: `arch`: unknown arch 'sm_1': *"),
        (("--wsemu-budget", "many"), "*wsemu_budget: invalid literal for int*"),
        (("-o", "wsemu_fma=perhaps"), "*invalid truth value 'perhaps'*"),
        (("--wsemu-skip", "rase"), "*`skip`: no checker 'rase': one of *"),
    ],
)
def test_wrong_options_end_the_run_at_its_start(run: Run, options: tuple[str, ...], message: str) -> None:
    done = run("def test_it():\n    pass\n", *options)
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines([message])
    assert "Traceback" not in done.stderr.str()


# -- what it costs ---------------------------------------------------------------------------------------------------
def test_the_plugin_imports_nothing_heavy() -> None:
    code = "import json, sys; import pytest; before = {*sys.modules}; import wsemu.pytest_plugin; "
    code += "print(json.dumps(sorted({*sys.modules} - before)))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert json.loads(done.stdout) == ["wsemu", "wsemu.pytest_plugin"]


def test_a_project_without_kernels_loads_the_plugin_alone(run: Run, pytester: pytest.Pytester) -> None:
    pytester.makepyprojecttoml('[project]\nname = "other"\nversion = "1"\ndependencies = ["wsemu>=0.1"]\n')
    own = "n for n in sorted(sys.modules) if n.split('.')[0] == 'wsemu'"
    tests = f"import sys\ndef test_it():\n    print('loaded', *({own}))\n"
    done = run(f"{tests}    assert 0\n", "-p", "no:hypothesispytest", kernels="", process=True)
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["loaded wsemu wsemu.pytest_plugin"])


# -- assert_clean ----------------------------------------------------------------------------------------------------
@cuda.jit
def strided(x, y, step):
    tile = cuda.shared.array(1024, np.float32)
    lane = cuda.threadIdx.x
    for _ in range(7):
        tile[lane] = x[lane]
    cuda.syncwarp()
    tile[lane * step] = x[lane + 1]
    cuda.syncwarp()
    y[lane] = tile[lane * step]


def launched(step: int, **options: object) -> wsemu.Report:
    x = np.zeros(40, np.float32)
    return wsemu.check(strided, 1, 32, (x, np.zeros(32, np.float32), step), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("step", [1, 2, 4, 32])
def test_bank_ways_is_the_worst_of_any_access(step: int) -> None:
    report = launched(step)
    assert report.bank_ways == step
    report.assert_clean(bank_ways=step)
    if step > 1:
        with pytest.raises(CheckFailed, match=rf"error\[bank-conflict\]: {step}-way bank conflict"):
            report.assert_clean(bank_ways=step - 1)
    assert report.verdict == "verified"
    assert wsemu.Report.model_validate_json(report.model_dump_json()) == report


def test_a_cost_below_the_warnings_is_shown_where_a_limit_asks_for_it() -> None:
    report = launched(1)
    share = report.counters.coalesced
    assert share is not None
    assert 0.9 < share < 1
    assert report.findings == []
    report.assert_clean(coalescing=share)
    with pytest.raises(CheckFailed) as failed:
        report.assert_clean(bank_ways=1, coalescing=1)
    text = str(failed.value)
    assert text.startswith("error[uncoalesced]: global load of `x` moves 1.2 times the sectors it needs\n")
    assert f"{share:.4g} of this launch's sectors are needed: `coalescing=1` is" in " ".join(text.split())
    assert failed.value.report.verdict == "failed"


def test_an_incomplete_launch_is_not_clean() -> None:
    report = launched(1, budget=3)
    with pytest.raises(CheckFailed, match="incomplete"):
        report.assert_clean()


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"bank_ways": 0}, "bank_ways is 0: give the worst bank conflict allowed, 1 for none"),
        ({"bank_ways": 1.5}, "bank_ways is 1.5: "),
        ({"coalescing": 90}, "coalescing is 90: give the share of sectors that must be needed, 0 to 1"),
        ({"coalescing": "all"}, "coalescing is 'all': "),
    ],
)
def test_a_wrong_limit_is_refused(limits: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        launched(1).assert_clean(**limits)  # type: ignore[arg-type]


def test_a_limit_on_what_is_not_looked_for_is_refused() -> None:
    report = launched(2, checkers=["race"])
    report.assert_clean()
    for limits in ({"bank_ways": 1}, {"coalescing": 1.0}):
        with pytest.raises(UsageError, match="is off: look for it too"):
            report.assert_clean(**limits)


def test_mutants_of_what_a_session_launches(run: Run) -> None:
    """What came of them is kept: the second session has nothing to try."""
    tests = """
@cuda.jit
def doubled(x, n):
    i = cuda.grid(1)
    if i < n:
        x[i] *= 2

def test_all():
    x = np.ones(64, np.int32)
    doubled[2, 32](x, 64)
    assert (x == 2).all()

def test_some():
    x = np.ones(64, np.int32)
    doubled[2, 32](x, 40)
    assert (x[:40] == 2).all()
"""
    done = run(tests, "--wsemu-mutate", "--wsemu-mutate-kind=bound")
    said = ["survives: *in `doubled` (bound)", "*+ *if i <= n:", "2 tests  1 mutant: 0 killed, 1 survives"]
    done.stdout.fnmatch_lines(said)
    assert done.ret == 1
    again = run(tests, "--wsemu-mutate", "--wsemu-mutate-kind=bound")
    again.stdout.fnmatch_lines(["*known from before"])


# -- sessions on the driver ------------------------------------------------------------------------------------------
STUB = """
import wsemu.pytest_plugin

launched, state = [], {"error": 0}

def launch(code, *, error=0, verdict="failed"):
    if state["error"]:
        raise RuntimeError("an earlier launch failed")
    launched.append([verdict, "add", f"error[{code}]: of a launch"])
    state["error"] = error

def take():
    taken = launched[:]
    launched.clear()
    return taken

wsemu.pytest_plugin._take_reports = take
wsemu.pytest_plugin._clear_error = lambda: state.update(error=0)
"""
ON_DRIVER = """
import unittest
import pytest
from conftest import launch

def test_passes_but_for_its_launch():
    launch("race")

def test_with_an_assertion():
    launch("deadlock", error=702)
    assert 1 == 2

def test_right():
    assert True

def test_with_an_error_of_cuda():
    launch("out-of-bounds", error=700)
    launch("never")

@pytest.fixture
def made():
    launch("misaligned", error=716)

def test_with_a_fixture(made):
    pass

def test_right_afterwards():
    assert True

def test_skips():
    launch("setmaxnreg")
    pytest.skip("no tensor cores")

@pytest.mark.xfail
def test_known():
    launch("copy-size")

class TestCase(unittest.TestCase):
    def test_of_unittest(self):
        launch("intra-warp-race")
        self.assertEqual(1, 2)
"""


def test_reports_of_launches_belong_to_the_test_that_made_them(
    run: Run, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WSEMU_SERVER", "a stub")
    pytester.makeconftest(STUB)
    done = run("", "--wsemu-cuda", "--junitxml=found.xml", kernels=ON_DRIVER, process=True)
    done.assert_outcomes(failed=5, errors=1, passed=2, xfailed=1)
    cases = ElementTree.parse(pytester.path / "found.xml").getroot().iter("testcase")
    found = {case.get("name"): "".join(case.itertext()) for case in cases}
    codes = {
        "test_passes_but_for_its_launch": "race", "test_with_an_assertion": "deadlock", "test_right": "",
        "test_with_an_error_of_cuda": "out-of-bounds", "test_with_a_fixture": "misaligned",
        "test_right_afterwards": "", "test_skips": "setmaxnreg", "test_of_unittest": "intra-warp-race",
    }  # fmt: skip
    for name, code in codes.items():
        assert [part.partition("]")[0] for part in found[name].split("error[")[1:]] == [code] * bool(code), name
    assert "assert 1 == 2" in found["test_with_an_assertion"]
    assert "an earlier launch failed" in found["test_with_an_error_of_cuda"]
    done.stdout.fnmatch_lines(["*wsemu: launches of this test*", "error[[]deadlock[]]: of a launch"])


def test_launches_at_import_fail_their_file(
    run: Run, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WSEMU_SERVER", "a stub")
    pytester.makeconftest(STUB)
    pytester.makepyfile(test_then="def test_right():\n    pass\n")
    tests = "from conftest import launch\nlaunch('race')\n\ndef test_it():\n    pass\n"
    done = run("", "--wsemu-cuda", "--continue-on-collection-errors", kernels=tests, process=True)
    done.assert_outcomes(errors=1, passed=1)
    done.stdout.fnmatch_lines(["*ERROR collecting test_it.py*", "error[[]race[]]: of a launch"])


UNDECIDED_ON_DRIVER = """
import pytest
from conftest import launch

def test_undecided():
    launch("step budget", verdict="incomplete")

@pytest.mark.wsemu(allow_incomplete=True)
def test_allowed():
    launch("step budget", verdict="incomplete")

@pytest.mark.wsemu(allow_incomplete=True)
def test_allowed_but_failed():
    launch("step budget", verdict="incomplete")
    launch("race")
"""


@pytest.mark.parametrize(
    ("ini", "options", "outcomes"),
    [
        ("", ("--wsemu-cuda",), {"failed": 2, "passed": 1}),
        ("wsemu_cuda = true", (), {"failed": 2, "passed": 1}),
        ("", ("--wsemu-cuda", "--wsemu-allow-incomplete"), {"failed": 1, "passed": 2}),
        ("wsemu_cuda = true\nwsemu_allow_incomplete = true", (), {"failed": 1, "passed": 2}),
    ],
)
def test_incomplete_launches_fail_their_test_unless_allowed(
    run: Run, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, ini: str, options: tuple[str, ...],
    outcomes: dict[str, int],
) -> None:  # fmt: skip
    monkeypatch.setenv("WSEMU_SERVER", "a stub")
    pytester.makeconftest(STUB)
    pytester.makeini(f"[pytest]\n{ini}")
    done = run("", *options, kernels=UNDECIDED_ON_DRIVER, process=True)
    done.assert_outcomes(**outcomes, warnings=outcomes["passed"] + 1)
    done.stdout.fnmatch_lines(["error[[]race[]]: of a launch", "*UserWarning: a launch of `add` is incomplete"])
    if outcomes["failed"] == 2:
        done.stdout.fnmatch_lines(
            ["*[[]step budget[]]*", "help: `--wsemu-allow-incomplete` makes an incomplete launch*"]
        )


def test_a_session_option_overrides_the_configuration(
    run: Run, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WSEMU_SERVER", "a stub")
    pytester.makeconftest(STUB)
    pytester.makeini("[pytest]\nwsemu_cuda = true")
    run("", "--no-wsemu-cuda", kernels=UNDECIDED_ON_DRIVER, process=True).assert_outcomes(passed=3)


def test_reports_beyond_the_buffer_fail_their_test(monkeypatch: pytest.MonkeyPatch) -> None:
    import ctypes

    from wsemu import pytest_plugin

    class Library:
        @staticmethod
        def wsemu_take_reports(text: Any, room: int) -> int:
            return room + 1

    monkeypatch.setattr(ctypes, "CDLL", lambda _: Library)
    ((verdict, _, report),) = pytest_plugin._take_reports()
    assert verdict == "failed"
    assert "cannot be shown" in report
