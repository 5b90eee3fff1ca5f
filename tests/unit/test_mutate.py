"""Mutants of what tests launch: which are told, which survive, and what is said of these."""

from __future__ import annotations

import ast
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.commands import wsemu as command
from wsemu import cuda, ptx
from wsemu.campaign import mutate_report
from wsemu.campaign.mutate import Bench, Failure, Mutant, Told
from wsemu.campaign.mutate_command import Campaign
from wsemu.campaign.mutate_report import Mutated
from wsemu.campaign.mutate_results import Results
from wsemu.campaign.mutate_trials import Called, run_with_trials
from wsemu.model.errors import UsageError
from wsemu.repair.mutants import OF_KERNELS, kernel_mutations, program_mutations
from wsemu.repair.text import Text

F32 = np.float32


@cuda.jit
def reversed_(x, y, n):
    tile = cuda.shared.array(64, F32)
    t = cuda.threadIdx.x
    if t < n:
        tile[t] = x[t]
    cuda.syncthreads()
    if t < n:
        y[t] = tile[n - 1 - t]
    cuda.syncthreads()


def forty(look):
    """A launch of 40 elements, with this assertion of what it leaves."""

    def launches():
        x, y = np.arange(64, dtype=F32), np.zeros(64, F32)
        reversed_[1, 64](x, y, 40)
        assert look(x, y)

    return launches


def exact(x, y):
    return (y[:40] == x[:40][::-1]).all() and not y[40:].any()


def bench(function, **options: Any) -> Bench:
    return Bench([Called("it", function)], **options)


def told(of: Bench) -> dict[tuple[int, str, str], Told]:
    """(line of the kernel, kind, what stands there then) -> what came of it."""
    first = reversed_.py_func.__code__.co_firstlineno
    return {(m.line - first, m.kind, m.after): of.judge(n) for n, m in enumerate(of.mutants())}


def test_who_tells_is_said():
    found = told(bench(forty(exact)))
    assert found[6, "barrier", "pass"] == Told("check", "intra-warp-race, race", "it")
    assert found[5, "offset", "tile[t] = x[(t + 1)]"].way == "test"
    assert found[5, "offset", "tile[t] = x[(t + 1)]"].why.startswith("AssertionError")
    assert Counter(one.way for one in found.values()).keys() == {"check", "test", "survives"}


def test_what_a_survivor_changes_is_said():
    found = told(bench(forty(lambda x, y: y.any())))
    survivor = found[5, "offset", "tile[t] = x[(t + 1)]"]
    assert (survivor.way, survivor.same) == ("survives", "")
    assert survivor.why == (
        "after `reversed_` `y` differs in 40 of 64 elements: `y[0]` is 40.0, not 39.0, and no assertion looks at it"
    )
    more = found[4, "bound", "if t <= n:"]
    assert (more.same, more.why) == ("", "the results are the same, in 2 warp instructions more")


def test_what_changes_nothing_in_these_launches_is_explained():
    found = told(bench(forty(exact)))
    spare = found[9, "barrier", "pass"]
    assert (spare.way, spare.same) == ("survives", "proof")
    assert "verified in every schedule, with the same results, in 1 launch" in spare.why
    smaller = found[2, "bound", "tile = cuda.shared.array(63, F32)"]
    assert smaller.same == "accesses"


def test_of_the_same_code_nothing_more_is_asked():
    @cuda.jit
    def folded(x):
        x[cuda.threadIdx.x % 32 + 0 * 7] = 1

    found = bench(lambda: folded[1, 32](np.zeros(32, F32)), kinds=["stride"])
    same = {found.judge(n).same for n, m in enumerate(found.mutants()) if "* 8" in m.after or "* 6" in m.after}
    assert same == {"code"}


def test_a_launch_that_does_not_end_is_told():
    @cuda.jit
    def counted(x):
        i = 0
        while i != 4:
            i = i + 1
        x[0] = i

    found = bench(lambda: counted[1, 1](np.zeros(1, np.int32)), kinds=["offset"])
    ways = {m.after: found.judge(n) for n, m in enumerate(found.mutants())}
    assert ways["i = (i - 1)"] == Told("check", "incomplete: step budget", "it")


def test_what_is_refused_is_no_failure_of_the_test():
    @cuda.jit
    def many(x):
        ptx.bar_sync(15, 32)
        x[cuda.threadIdx.x] = 1

    found = bench(lambda: many[1, 32](np.zeros(32, F32)), kinds=["id"])
    assert {found.judge(n).way for n, m in enumerate(found.mutants()) if m.after.endswith("(16, 32)")} <= {
        "check", "error",
    }  # fmt: skip


def test_kinds_and_kernels_choose():
    of = bench(forty(exact), kinds=["barrier"])
    assert {m.kind for m in of.mutants()} == {"barrier"}
    with pytest.raises(
        UsageError, match=r"^no kernel named `other\*` is launched, but `\w+`: there is nothing to mutate$"
    ):
        bench(forty(exact), kernels=["other*"])


def test_a_test_that_fails_as_it_is_has_no_mutants():
    with pytest.raises(UsageError, match=r"it fails as it is \(AssertionError.*\): mutants are of what passes"):
        bench(forty(lambda x, y: False))


def test_the_kernel_is_as_it_was_afterwards():
    of = bench(forty(exact))
    for n in range(len(of.mutations)):
        of.judge(n)
    assert forty(exact)() is None


def test_only_a_trial_that_launches_the_kernel_is_asked():
    ran = []

    class Other:
        name = "other"

        def run(self) -> Failure | None:
            ran.append(1)
            return None

    of = Bench([Other(), Called("it", forty(exact))], kinds=["barrier"])
    of.judge(0)
    assert len(ran) == 1


# -- the mutations -----------------------------------------------------------------------------------------------------
SOURCE = """\
@cuda.jit
def kernel(x, total, bars):
    tile = cuda.shared.array((8, 9), f32)
    if cuda.threadIdx.x == 0:
        ptx.mbarrier_init(bars, 0, 32)
    if x.size < 8:
        return
    cuda.syncthreads()
    tile[i, j] = x[i, j]
    cuda.threadfence()
    for k in range(4):
        ptx.mbarrier_wait_parity(bars, 0, k & 1)
        ptx.cp_async_wait_group(1)
        while not ptx.mbarrier_test_wait(bars, 0, token):
            pass
    old = cuda.atomic.add(total, (0, 1), x[0, 0])
    cuda.atomic.max(total, 0, old)
    warp.sync()
"""


@pytest.fixture(scope="module")
def broken() -> set[tuple[str, str]]:
    text = Text("kernel.py", SOURCE)
    found = kernel_mutations(Path("kernel.py"), text, list(text.functions()))
    for mutation in found:
        ast.parse(mutation.apply_to(SOURCE))
    assert {m.kind for m in found} <= {*OF_KERNELS}
    return {(m.kind, m.after) for m in found}


@pytest.mark.parametrize(("kind", "after"), [
    ("barrier", "pass"), ("scope", "cuda.syncwarp()"), ("scope", "cuda.threadfence_block()"), ("fence", "pass"),
    ("wait", "pass"), ("phase", "ptx.mbarrier_wait_parity(bars, 0, ((k & 1) ^ 1))"),
    ("phase", "ptx.cp_async_wait_group(2)"), ("phase", "ptx.mbarrier_init(bars, 0, 33)"),
    ("atomic", "old = total[0, 1] total[0, 1] = total[0, 1] + x[0, 0]"),
    ("atomic", "total[0] = max(total[0], old)"), ("guard", "if True:"), ("guard", "if False:"),
    ("swap", "tile[j, i] = x[i, j]"), ("order", "tile[i, j] = x[i, j] cuda.syncthreads()"),
    ("bound", "for k in range((4 + 1)):"), ("bound", "if x.size <= 8:"),
])  # fmt: skip
def test_what_is_broken(broken, kind, after):
    names = {after, after.replace("(4 + 1)", "5")}
    assert names & {text for one, text in broken if one == kind}


def test_sources_are_read_in_the_encoding_that_they_declare(tmp_path):
    path = tmp_path / "latin.py"
    path.write_bytes("# coding: latin-1\n# gr\u00f6\u00dfer\nkernel[2, 32](x)\n".encode("latin-1"))
    found = program_mutations(path)
    assert found
    assert all("# gr\u00f6\u00dfer\n" in mutation.source() for mutation in found)


def test_functions_inside_others_are_their_own():
    text = Text(
        "f.py", "def test_it():\n    n = 5\n    @cuda.jit\n    def k(x):\n        x[n] = 1\n    k[n + 1, 32](0)\n"
    )
    inner = [f for f in text.functions() if f.name == "k"]
    assert {m.line for m in kernel_mutations(Path("f.py"), text, inner)} == {5}
    assert text.innermost(5) is inner[0]


# -- campaigns ---------------------------------------------------------------------------------------------------------
def mutants(count: int) -> list[Mutant]:
    return [Mutant("k.py", n, "bound", "k", f"x[{n}]", f"x[{n + 1}]", ["@@", f"-x[{n}]", "+y"]) for n in range(count)]


def test_an_interrupted_campaign_goes_on_where_it_was(tmp_path):
    asked: list[int] = []

    def answers(left):
        for number in left:
            if number == 2 and 2 not in asked:
                asked.append(2)
                raise KeyboardInterrupt
            asked.append(number)
            yield number, Told("check", "race", "t")

    with Results(tmp_path / "r.sqlite") as results:
        results.begin("t", "s")
        first = Mutated("t", mutants(4))
        Campaign(first, range(4), results, lambda state: None).run(answers)
    assert (first.stopped, first.exit_code, [*first.told]) == ("interrupted", 130, [0, 1])
    with Results(tmp_path / "r.sqlite") as results:
        results.begin("t", "s")
        second = Mutated("t", mutants(4))
        Campaign(second, range(4), results, lambda state: None).run(answers)
        results.begin("t", "other sources")
        assert results.known_outcomes() == {}
    assert asked == [0, 1, 2, 2, 3]
    assert (second.resumed, second.exit_code) == (2, 0)


def test_a_file_of_another_command_is_refused(tmp_path):
    (tmp_path / "r.sqlite").write_text("nothing of the kind, and long enough to be looked at" * 40)
    with pytest.raises(UsageError, match="no result file of `wsemu mutate`"):
        Results(tmp_path / "r.sqlite")


def test_survivors_come_with_their_diffs_and_the_sum():
    done = Mutated("t.py::t", mutants(4), {
        0: Told("check", "race"), 1: Told("survives", "why"), 2: Told("survives", "same", same="code"), 3: Told("test"),
    })  # fmt: skip
    text = "\n".join(piece for piece, _ in mutate_report.lines(done))
    assert "survives: k.py:1, in `k` (bound)\n  -x[1]\n  +y\n  why\n" in text
    assert "equivalent: k.py:2, in `k` (bound): same\n  x[2]  ->  x[3]" in text
    assert text.endswith(
        "t.py::t  4 mutants: 2 killed (1 by checks, 1 by tests), 1 equivalent here (1 with the same code), 1 survives"
    )
    assert done.exit_code == 1
    assert [m["way"] for m in mutate_report.document(done)["mutants"]] == ["check", "survives", "survives", "test"]


# -- commands ----------------------------------------------------------------------------------------------------------
TESTS = """\
import numpy as np
import pytest
from numba import cuda

@cuda.jit
def doubled(x, n):
    i = cuda.grid(1)
    if i < n:
        x[i] *= 2

@pytest.fixture
def x():
    return np.ones(64, np.int32)

@pytest.mark.parametrize("n", [40, 64])
def test_doubled(x, n):
    doubled[2, 32](x, n)
    assert (x[:n] == 2).all()

def by_hand():
    doubled[2, 32](np.ones(64, np.int32), 64)
"""


def test_the_command_runs_tests_with_their_fixtures_and_goes_on(tmp_path):
    (tmp_path / "test_doubling.py").write_text(TESTS)
    options = ("mutate", "--jobs", 1, "--kind", "bound", "test_doubling.py::test_doubled")
    done = command(*options, "--format", "json", cwd=tmp_path)
    found = json.loads(done.stdout)
    assert done.returncode == found["exit_code"] == 1, done.stderr
    ways = {m["after"]: (m["way"], m["why"]) for m in found["mutants"]}
    assert ways["if i <= n:"][0] == "survives"
    assert (
        "`doubled` in test_doubling.py::test_doubled[40] `x` differs in 1 of 64 elements: `x[40]` is 2"
        in (ways["if i <= n:"][1])
    )
    again = command(*options, cwd=tmp_path)
    assert "known from before" in again.stdout


@pytest.mark.parametrize(("options", "said"), [
    (["test_doubling.py::nothing"], "has no function `nothing`"),
    (["none.py::test_it"], "does not exist"),
    (["--kind", "many", "test_doubling.py::by_hand"], "no kind of mutants `many`"),
    (["test_doubling.ptx"], "is no Python file"),
])  # fmt: skip
def test_what_cannot_be_mutated_is_said(tmp_path, options, said):
    (tmp_path / "test_doubling.py").write_text(TESTS.replace("from numba import cuda", "from wsemu import cuda"))
    (tmp_path / "test_doubling.ptx").write_text("")
    if "--kind" in options:
        done = command("mutate", *options, cwd=tmp_path)
        assert (done.returncode, said in done.stderr + done.stdout) == (2, True)
        return
    with pytest.raises(UsageError, match=said):
        run_with_trials(str(tmp_path / options[-1]), lambda trials: None)


def test_a_program_is_a_trial(tmp_path):
    text = TESTS.replace("from numba import cuda", "from wsemu import cuda").partition("@pytest.fixture")[0]
    (tmp_path / "program.py").write_text(text + "\nx = np.ones(64, np.int32)\ndoubled[2, 32](x, 64)\nprint(x)\n")
    ways: list[str] = []

    def use(trials):
        of = Bench(trials)
        ways.extend(of.judge(n).way for n in range(len(of.mutations)))

    run_with_trials(str(tmp_path / "program.py"), use)
    assert {"check", "survives"} <= {*ways}
