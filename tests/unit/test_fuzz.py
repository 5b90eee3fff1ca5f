"""`wsemu fuzz`: the same results whatever the number of processes and however often it is killed; what it prints."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st

from tests.commands import Done, wsemu
from wsemu.campaign.falsified import decorator, leaves, parameters
from wsemu.campaign.fuzz import Campaign
from wsemu.campaign.fuzz import command as fuzz_command
from wsemu.campaign.results import Batch, Failure, Outcome, Results
from wsemu.campaign.worker import load as load_test
from wsemu.launch.replay.witness_file import load
from wsemu.model.errors import UsageError
from wsemu.strategies import KernelCase, Launch, kernels_with, launches

if TYPE_CHECKING:
    from collections.abc import Iterator

TESTS = """\
from hypothesis import given, strategies as st

@given(x=st.integers(0, 10**6), y=st.lists(st.integers()))
def test_good(x, y):
    pass

@given(x=st.integers(0, 10**6), y=st.lists(st.integers()))
def test_bad(wsemu, x, y):
    print("noise")
    assert not (x % 31 == 1 and len(y) > 1), "rarely"

@given(x=st.integers(0, 5))
def test_fixture(tmp_path, x):
    pass

def test_plain():
    pass
"""
KERNEL = """\
import numpy as np
from hypothesis import given
from wsemu import check, cuda
from wsemu.strategies import KernelCase, kernels_with

@cuda.jit
def pipeline(x, y, trips):
    tile = cuda.shared.array((2, 32), np.float32)
    lane = cuda.threadIdx.x % 32
    for k in range(trips):
        if cuda.threadIdx.x < 32:
            tile[k % 2, lane] = x[k * 32 + lane]
        if k > 1:                            # the bug: the first two trips have no barrier
            cuda.syncthreads()
        if cuda.threadIdx.x >= 32:
            y[k * 32 + lane] = tile[k % 2, lane]

@given(case=kernels_with(stages=[2]))
def test_pipeline(case):
    x = np.zeros(32 * max(case.trips, 1), np.float32)
    check(pipeline, 1, 64, (x, x.copy(), case.trips)).assert_clean()
"""


NUMBA = """\
import numpy as np
from hypothesis import given, strategies as st
from numba import cuda

@cuda.jit
def add_one(x):
    i = cuda.grid(1)
    if i <= x.size:                          # the bug: `<=`
        x[i] += 1

@given(n=st.integers(1, 100))
def test_any_size(n):
    x = np.zeros(n, np.float32)
    add_one[-(-n // 32), 32](x)
    assert (x == 1).all()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "test_x.py").write_text(TESTS)
    return tmp_path


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "wsemu.cli", "fuzz", *map(str, arguments)]


def fuzz(folder: Path, *arguments: object) -> Done:
    """`wsemu fuzz` in a folder, with one process for the examples unless `--jobs` says otherwise."""
    jobs = () if "--jobs" in arguments else ("--jobs", 1)
    return wsemu("fuzz", *arguments, *jobs, cwd=folder)


def rows(file: Path) -> list[Any]:
    """The result set."""
    with closing(sqlite3.connect(file, isolation_level=None)) as database:
        return database.execute("SELECT first, size, examples, failure FROM batch ORDER BY first, size").fetchall()


BAD = ("test_x.py::test_bad", "--examples", 120, "--batch", 20)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Any], str]:
    """The result set of an undisturbed run of one process, and what it said."""
    folder = tmp_path_factory.mktemp("undisturbed")
    (folder / "test_x.py").write_text(TESTS)
    arguments = command(*BAD, "--jobs", 1, "--results", "one.sqlite")
    done = subprocess.run(arguments, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    found = rows(folder / "one.sqlite")
    assert [row[0] for row in found] == list(range(0, 120, 20))
    assert {row[3] is None for row in found} == {True, False}
    return found, done.stdout


@pytest.fixture
def expected(undisturbed: tuple[list[Any], str]) -> list[Any]:
    return undisturbed[0]


def test_the_results_do_not_depend_on_the_number_of_processes(folder: Path, expected: list[Any]) -> None:
    assert fuzz(folder, *BAD, "--jobs", 2, "--results", "two.sqlite").returncode == 1
    assert rows(folder / "two.sqlite") == expected


def test_killed_and_resumed_it_finds_what_it_finds_undisturbed(folder: Path, expected: list[Any]) -> None:
    file = folder / "killed.sqlite"
    for kept in (0, 3):
        process = subprocess.Popen(command(*BAD, "--jobs", 2, "--results", file), cwd=folder, stdout=subprocess.DEVNULL)
        while process.poll() is None and not (file.is_file() and count(file) > kept):
            time.sleep(0.01)
        process.kill()
        process.wait()
        assert set(rows(file)) <= set(expected)
    assert fuzz(folder, *BAD, "--results", file).returncode == 1
    assert rows(file) == expected


def count(file: Path) -> int:
    """Rows so far; none while the tables are made."""
    try:
        return len(rows(file))
    except sqlite3.OperationalError:
        return 0


def test_interrupted_it_tells_what_is_known(folder: Path) -> None:
    file = folder / "results.sqlite"
    arguments = command("test_x.py::test_good", "--examples", 10**7, "--batch", 20, "--jobs", 1, "--results", file)
    process = subprocess.Popen(arguments, cwd=folder, stdout=subprocess.PIPE, text=True)
    while not (file.is_file() and count(file)):
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted after " in said
    assert "of 10,000,000 examples: the same command goes on from there" in " ".join(said.split())
    assert "no failure in" in said


def test_more_examples_go_on_and_other_sources_begin_anew(folder: Path) -> None:
    assert fuzz(folder, "test_x.py::test_good", "--examples", 40, "--batch", 20).returncode == 0
    done = fuzz(folder, "test_x.py::test_good", "--examples", 60, "--batch", 20)
    assert "40 examples were known from before" in done.stdout
    assert "test_x.py::test_good  no failure in 60 examples, seed 0" in done.stdout
    (folder / "test_x.py").write_text(TESTS + "\n# another version\n")
    done = fuzz(folder, "test_x.py::test_good", "--examples", 20, "--batch", 20)
    assert "results of other versions of the sources do not count" in done.stdout
    assert "known from before" not in done.stdout
    assert [row[0] for row in rows(folder / ".wsemu" / "fuzz" / "test_x-test_good.sqlite")] == [0, 0, 20, 40]
    assert "known from before" in fuzz(folder, "test_x.py::test_good", "--examples", 20, "--batch", 20).stdout
    done = fuzz(folder, "test_x.py::test_good", "--examples", 20, "--batch", 20, "--fresh")
    assert "known from before" not in done.stdout


def test_a_failure_comes_with_parameters_and_the_example_to_keep(undisturbed: tuple[list[Any], str]) -> None:
    said = undisturbed[1]
    assert said.startswith("AssertionError: rarely\n")
    assert " = minimal parameters:\n     x = 1\n     y = [0, 0]\n" in said
    assert " = keep it, above `def test_bad`:\n     @example(x=1, y=[0, 0])\n" in said
    assert "raised in test_x.py:10" in said
    assert "noise" not in said
    assert "Traceback" not in said


def test_a_kernel_fails_with_its_diagnostics(tmp_path: Path) -> None:
    (tmp_path / "test_kernel.py").write_text(KERNEL)
    done = fuzz(tmp_path, "test_kernel.py::test_pipeline", "--examples", 30, "--jobs", 1)
    assert done.returncode == 1
    assert done.stdout.startswith("error[race]: ")
    assert "--> test_kernel.py:1" in done.stdout
    assert "     @example(case=KernelCase(stages=2, trips=1))\n" in done.stdout
    witness = tmp_path / ".wsemu" / "fuzz" / "test_kernel-test_pipeline-1.wsemu.json"
    assert f" = witness: {witness.relative_to(tmp_path)}, for `wsemu.replay(file, kernel, arguments)`" in done.stdout
    assert load(witness).kernel == "pipeline"


def test_kernels_of_plain_numba_run_on_wsemu(tmp_path):
    (tmp_path / "test_x.py").write_text(NUMBA)
    done = fuzz(tmp_path, "test_x.py::test_any_size", "--examples", 10, "--batch", 10)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "error[out-of-bounds]" in done.stdout
    assert "@example(n=1)" in done.stdout


@pytest.mark.parametrize(
    ("test", "message"),
    [
        ("test_x.py", "`test_x.py` is no test: give FILE::function"),
        ("none.py::test_x", "`none.py` does not exist: give FILE::function"),
        ("test_x.py::test_none", "its tests with @given are test_good, test_bad, test_fixture"),
        ("broken.py::test_x", "`broken.py` cannot be imported: ZeroDivisionError: division by zero"),
        ("dies.py::test_x", "`dies.py` cannot be imported: the process that does ended (exit code 3)"),
    ],
)
def test_a_wrong_test_has_a_message_and_exit_code_2(folder: Path, test: str, message: str) -> None:
    (folder / "broken.py").write_text("1 / 0\n")
    (folder / "dies.py").write_text("import os\nos._exit(3)\n")
    done = fuzz(folder, test)
    assert done.returncode == 2
    assert not (folder / ".wsemu").exists()
    assert message in " ".join(done.stdout.split())
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("test_plain", "`test_plain` draws nothing: decorate it with Hypothesis' @given"),
        ("test_fixture", "takes `tmp_path`, which @given does not draw"),
    ],
)
def test_a_process_for_examples_refuses_what_it_cannot_run(
    folder: Path, name: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setitem(sys.modules, "test_x", sys)  # so that it goes away again
    with pytest.raises(UsageError, match=message):
        load_test(folder / "test_x.py", name)


def test_a_test_that_kills_its_process_is_a_failure(folder: Path) -> None:
    (folder / "test_dies.py").write_text(
        "import os\nfrom hypothesis import given, strategies as st\n"
        "@given(st.integers())\ndef test_dies(x):\n    os._exit(7)\n"
    )
    done = fuzz(folder, "test_dies.py::test_dies", "--examples", 10)
    assert done.returncode == 1
    assert "the process that ran the test died (exit code 7)\nexamples 0 to 9, @seed(" in done.stdout


# -- the result file -------------------------------------------------------------------------------------------------
OUTCOME = Outcome(17, Failure("title", "test.py:3", "text", {"x": "1"}, "@example(x=1)", "{}"))


def test_a_result_file_keeps_what_it_is_given(tmp_path: Path) -> None:
    with Results(tmp_path / "deep" / "results.sqlite") as results:
        assert not results.begin("test.py::test", 0, "source")
        results.add(Batch(20, 20), Outcome(20))
        results.add(Batch(0, 20), OUTCOME)
    with Results(tmp_path / "deep" / "results.sqlite") as results:
        assert results.begin("test.py::test", 0, "other source")
        assert results.known_outcomes() == {}
        results.begin("test.py::test", 0, "source")
        assert list(results.known_outcomes().items()) == [(Batch(0, 20), OUTCOME), (Batch(20, 20), Outcome(20))]


def test_what_is_no_result_file_is_refused(tmp_path: Path) -> None:
    text, other, newer = (tmp_path / name for name in ("text", "other", "newer"))
    text.write_text("not a database, but long enough to be taken for the header of one" * 20)
    with closing(sqlite3.connect(other, isolation_level=None)) as database:
        database.execute("CREATE TABLE mine (x)")
    with Results(newer):
        pass
    with closing(sqlite3.connect(newer, isolation_level=None)) as database:
        database.execute("PRAGMA user_version = 2")
    for path, why in ((text, "file is not a database"), (other, "another program's"), (newer, "version 2")):
        before = path.read_bytes()
        with pytest.raises(UsageError, match=rf"is no result file of `wsemu fuzz` \({why}\)"):
            Results(path)
        assert path.read_bytes() == before
    with pytest.raises(UsageError, match="cannot be opened"):
        Results(tmp_path)


DAMAGED = st.text() | st.builds(
    json.dumps,
    st.recursive(
        st.none() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["title", "parameters", "x"]), inner),
    ),
)


@settings(max_examples=25, deadline=None, database=None, derandomize=True)
@given(text=DAMAGED)
def test_a_damaged_row_is_refused(text: str, damaged: Results) -> None:
    damaged._execute("UPDATE batch SET failure = ?", (text,))
    with pytest.raises(UsageError, match="is damaged: remove it"):
        damaged.known_outcomes()


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Results]:
    with Results(tmp_path_factory.mktemp("damaged") / "results.sqlite") as results:
        results.begin("test.py::test", 0, "source")
        results.add(Batch(0, 20), OUTCOME)
        yield results


def test_batches_cover_the_examples_and_their_seeds_differ() -> None:
    campaign = Campaign.of("a/test_x.py::test", 95, 20, 0)
    batches = [*campaign.batches()]
    assert batches == [Batch(0, 20), Batch(20, 20), Batch(40, 20), Batch(60, 20), Batch(80, 15)]
    seeds = {campaign.batch_seed(batch) for batch in batches}
    others = {Campaign.of("a/test_x.py::test", 95, 20, 1).batch_seed(batch) for batch in batches}
    assert len(seeds | others) == 10


# -- the example to keep ---------------------------------------------------------------------------------------------
def noted(*notes: str) -> BaseException:
    error = ValueError()
    for note in notes:
        error.add_note(note)
    return error


@pytest.mark.parametrize("head", ["Falsifying example", "Failing test case", "Falsifying explicit example"])
def test_the_parameters_are_read_from_the_note(head: str) -> None:
    told = "    self=<T object at 0x7f>,\n    x=1,  # or any other generated value\n"
    error = noted("another", f"{head}: test_it(\n{told}    y=[\n        'a,b',\n        2,\n    ],\n)")
    assert parameters(error) == {"self": "<T object >", "x": "1", "y": "[\n        'a,b',\n        2,\n    ]"}
    found = parameters(error, ("x", "y"))
    assert decorator(found) == "@example(\n    x=1,\n    y=[\n        'a,b',\n        2,\n    ],\n)"
    assert decorator(parameters(error)) == ""
    assert decorator({"x": "1", "y": "Case(a=2)"}) == "@example(x=1, y=Case(a=2))"


def test_without_a_note_there_is_nothing_to_keep() -> None:
    assert parameters(noted("something else")) == {}
    assert decorator({}) == ""
    group = BaseExceptionGroup("two", [ValueError(1), BaseExceptionGroup("one", [KeyError(2)])])
    assert [type(error) for error in leaves(group)] == [ValueError, KeyError]


# -- kernels_with ----------------------------------------------------------------------------------------------------
@settings(max_examples=200, deadline=None, database=None, derandomize=True)
@given(case=kernels_with(stages=[1, 3, 4], alignments=[8, 16]))
def test_cases_are_at_the_edges_of_a_pipeline(case: KernelCase) -> None:
    assert case.stages in (1, 3, 4)
    assert case.trips in (0, 1, case.stages - 1, case.stages, case.stages + 1)
    assert case.alignment in (8, 16)
    assert case.offset in range(0, 16, case.alignment)
    assert 1 <= case.grid[0] <= 4
    assert case.block[0] in (32, 64, 96, 128)
    assert eval(repr(case)) == case
    assert case.launch == Launch(case.grid, case.block, 0, case.dynamic_shared)


@pytest.mark.parametrize("trips", [0, 1, 2, 3, 4])
def test_every_edge_is_drawn_and_shrinks_to_the_plainest_launch(trips: int) -> None:
    options = settings(max_examples=2000, database=None, derandomize=True)
    case = find(kernels_with(stages=[3]), lambda case: case.trips == trips, settings=options)
    assert case == KernelCase(stages=3, trips=trips)


def test_shapes_are_the_ones_given() -> None:
    shapes = launches(dimensions=2, ctas=2, threads=64, dynamic_shared=256)
    options = settings(max_examples=2000, database=None, derandomize=True)
    case = find(
        kernels_with(shapes=shapes), lambda case: case.block[1] > 1 and case.dynamic_shared > 0, settings=options
    )
    assert case == KernelCase(block=(1, 2, 1), dynamic_shared=16)


def test_wrong_ranges_are_refused() -> None:
    with pytest.raises(UsageError, match=r"stages is \[0, 2\]: give numbers of buffers, 1 or more"):
        kernels_with(stages=[2, 0])
    with pytest.raises(UsageError, match=r"alignments is \[4, 5\]: give some of 4, 8, 16 bytes"):
        kernels_with(alignments=[4, 5])


def test_without_hypothesis_its_lack_is_said(tmp_path, monkeypatch, capsys):
    (tmp_path / "test_x.py").write_text("def test_x():\n    pass\n", encoding="utf-8")
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    options = {"examples": 1, "batch": 1, "seed": 0}
    assert fuzz_command(f"{tmp_path / 'test_x.py'}::test_x", options, 1, None, fresh=False) == 2
    assert "`wsemu fuzz` needs Hypothesis: pip install hypothesis" in capsys.readouterr().out


PROJECTS = {
    "pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["src"]\n',
    "pytest.ini": "[pytest]\npythonpath = src\n",
    "setup.cfg": "[tool:pytest]\npythonpath = src other\n",
}
"""file of pytest's configuration -> its text"""


@pytest.mark.parametrize("name", PROJECTS)
def test_a_project_of_pytest_is_imported_as_pytest_imports_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / name).write_text(PROJECTS[name])
    (tmp_path / "src" / "own_kernels").mkdir(parents=True)
    (tmp_path / "src" / "own_kernels" / "__init__.py").write_text("LIMIT = 5\n")
    (tmp_path / "conftest.py").write_text("import own_kernels\nown_kernels.LIMIT += 1\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_own.py").write_text(
        "from hypothesis import given, strategies as st\nfrom own_kernels import LIMIT\n\n"
        "@given(x=st.integers(0, LIMIT))\ndef test_limit(x):\n    assert x <= 6\n"
    )
    monkeypatch.setenv("PYTHONPATH", "")
    done = wsemu("fuzz", "--examples", "50", "--jobs", "1", "tests/test_own.py::test_limit", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_configuration_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("pythonpath = src\n")
    (tmp_path / "test_own.py").write_text(TESTS)
    done = wsemu("fuzz", "test_own.py::test_good", cwd=tmp_path)
    assert done.returncode == 2
    assert "pytest.ini` does not hold a configuration of pytest" in " ".join((done.stdout + done.stderr).split())
