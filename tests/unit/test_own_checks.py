"""An edit is judged by the program's own checks, by a launch file's results, and at neighboring sizes."""

from __future__ import annotations

import ast
import json
import re

import numpy as np
import pytest

import wsemu
from tests.commands import wsemu as command
from wsemu import cuda
from wsemu.app.own_checks import Forbidden, OwnChecks, forbid_changes, has_checks
from wsemu.model import settings

PLENTY = 60.0
"""CPU seconds: the number of edits ends a search, on any machine"""
MIRROR = """\
import numpy as np
from wsemu import cuda

@cuda.jit
def mirror(x, y):
    s = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    y[t] = s[63 - t]

x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
mirror[1, 64](x, y)
"""
PASSES = "assert (y == x[::-1]).all()\n"
FAILS = "assert (y == 2 * x[::-1]).all()\n"
TAIL = """\
import numpy as np
from wsemu import cuda

@cuda.jit
def rows(x, y):
    i = cuda.grid(1)
    y[i] = x[i + 1] - x[i]

x = np.arange(64, dtype=np.float32) ** 2
y = np.zeros(64, np.float32)
rows[2, 32](x, y)
assert y[63] == 7
"""


def shown(tmp_path, text: str) -> str:
    """Return what `wsemu check` prints of a program, in one line."""
    (tmp_path / "program.py").write_text(text)
    return " ".join(command("check", "--fix-budget", "60", "program.py", cwd=tmp_path).stdout.split())


def test_a_fix_says_that_the_checks_of_the_program_pass(tmp_path):
    said = shown(tmp_path, MIRROR + PASSES)
    assert "help: proven: insert `cuda.syncthreads()`" in said
    assert "and the program's own checks pass" in said


def test_a_fix_of_an_order_with_which_the_checks_fail_is_a_hint(tmp_path):
    said = shown(tmp_path, MIRROR + FAILS)
    assert "proven" not in said
    assert "hint: insert `cuda.syncthreads()`" in said
    assert "but the program then fails: `assert (y == 2 * x[::-1]).all()` in line 13" in said


def test_a_fix_of_values_with_which_the_checks_fail_is_rejected(tmp_path):
    said = shown(tmp_path, TAIL)
    assert "help: proven" not in said
    assert "edits that remove the errors fail the program's own checks" in said


def test_a_program_without_checks_is_not_run_again(tmp_path):
    said = shown(tmp_path, MIRROR)
    assert "help: proven: insert `cuda.syncthreads()`" in said
    assert "own checks" not in said


def test_a_program_that_writes_is_not_run_again_to_its_end(tmp_path):
    said = shown(tmp_path, MIRROR + "open('log.txt', 'a').write('once ')\n" + PASSES)
    assert "help: proven: insert `cuda.syncthreads()`" in said
    assert "own checks" not in said
    assert (tmp_path / "log.txt").read_text() == "once "


@pytest.mark.parametrize(
    ("event", "arguments"),
    [("os.remove", ("x",)), ("subprocess.Popen", ("ls",)), ("open", ("results.npy", "w", 0o1))],
)
def test_what_changes_something_elsewhere_is_forbidden(event, arguments):
    with pytest.raises(Forbidden):
        forbid_changes(event, arguments)


def test_what_reads_is_allowed():
    forbid_changes("open", ("data.npy", "r", 0))
    forbid_changes("open", ("/dev/null", "w", 0o1))
    forbid_changes("import", ("os",))


def test_compiled_code_is_kept_meanwhile(tmp_path, monkeypatch):
    """Else the checks of a program are unknown if its edit needs parts of the VM that no process has compiled."""
    own = tmp_path / "code"
    monkeypatch.setenv("WSEMU_CACHE_DIR", str(own))
    own.mkdir(mode=0o700)
    made, kept = str(own / "vm-1.tmp"), str(own / "vm-part.bin")
    for event, arguments in (
        ("os.mkdir", (str(own), 0o700, -1)), ("open", (made, None, 0o302)), ("open", (3, "w", 0o1)),
        ("os.rename", (made, kept, -1, -1)), ("os.remove", (made, -1)),
    ):  # fmt: skip
        forbid_changes(event, arguments)
    elsewhere = str(own / ".." / "results.npy")
    for event, arguments in (("os.rename", (made, elsewhere, -1, -1)), ("os.remove", (elsewhere, -1))):
        with pytest.raises(Forbidden):
            forbid_changes(event, arguments)


def test_a_program_that_python_cannot_parse_has_no_checks(tmp_path):
    file = tmp_path / "program.py"
    file.write_text("x = " + 20_000 * "-" + "1")
    assert OwnChecks.of(file, (), "", settings.Settings()) is None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("assert x", True),
        ("np.testing.assert_allclose(a, b)", True),
        ("sys.exit(bad)", True),
        ("print(np.array_equal(a, b))", True),
        ("print(x)", False),
        ("@cuda.jit\ndef k(x):\n    assert x[0] > 0", False),
    ],
)
def test_checks_of_a_program_are_those_of_its_host_code(text, found):
    assert has_checks(ast.parse(text)) == found


LAUNCH = {"grid": [1], "block": [64], "args": ["f32[64]:arange", "f32[64]:zeros"]}
REVERSE = """\
.version 8.0
.target sm_90
.address_size 64
.visible .entry reverse(.param .u64 x, .param .u64 y)
{
	.reg .b32 %r<6>;
	.reg .f32 %f<3>;
	.reg .b64 %rd<6>;
	.shared .align 4 .b8 s[256];
	ld.param.u64 %rd1, [x];
	ld.param.u64 %rd2, [y];
	mov.u32 %r1, %tid.x;
	mul.wide.u32 %rd3, %r1, 4;
	add.u64 %rd4, %rd1, %rd3;
	ld.global.f32 %f1, [%rd4];
	mov.u32 %r2, s;
	mad.lo.u32 %r3, %r1, 4, %r2;
	st.shared.f32 [%r3], %f1;
	sub.u32 %r4, 63, %r1;
	mad.lo.u32 %r5, %r4, 4, %r2;
	ld.shared.f32 %f2, [%r5];
	add.u64 %rd5, %rd2, %rd3;
	st.global.f32 [%rd5], %f2;
	ret;
}
"""


@pytest.mark.parametrize(("wanted", "words"), [(1, "with the expected results"), (2, "but not with the expected")])
def test_a_fix_says_whether_the_results_are_those_of_the_launch_file(tmp_path, wanted, words):
    (tmp_path / "reverse.ptx").write_text(REVERSE)
    np.save(tmp_path / "y.npy", wanted * np.arange(64, dtype=np.float32)[::-1])
    launch = LAUNCH | {"ptx": "reverse.ptx", "expect": {"y": "f32[64]:y.npy"}}
    (tmp_path / "launch.json").write_text(json.dumps(launch))
    said = " ".join(command("check", "--fix-budget", "60", "launch.json", cwd=tmp_path).stdout.split())
    assert words in said
    assert ("help: proven: insert" in said) == (wanted == 1)


@cuda.jit
def parts(x, y, out):
    memory = cuda.shared.array(96, np.float32)
    t = cuda.threadIdx.x
    memory[t] = x[t]
    memory[32 + t] = y[t]
    cuda.syncthreads()
    out[t] = memory[63 - t] + memory[95 - t]


def test_a_barrier_between_stores_to_overlapping_parts_is_no_fix():
    """Half of the first part is lost in either order."""
    x = np.arange(64, dtype=np.float32)
    report = wsemu.check(parts, 1, 64, (x, x + 100, np.zeros(64, np.float32)))
    assert [finding.code for finding in report.errors] == ["race"]
    assert not any(edit.kind == "insert" for cure in report.cures(budget=PLENTY) for edit in cure.edits)


@cuda.jit
def neighbors(a):
    i = cuda.grid(1)
    if i < a.size - 1:
        a[i] = a[i] + a[i + 1]


def test_no_fix_has_a_thread_read_its_own_element_in_place_of_a_neighbor():
    report = wsemu.check(neighbors, 2, 32, (np.arange(64, dtype=np.float32),))
    assert "race" in {finding.code for finding in report.errors}
    assert not any("in place of `i + 1`" in cure.says for cure in report.cures(budget=PLENTY))


@cuda.jit
def maximum(x, out):
    s = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    h = 32
    while h > 0:
        if s[t + h] > s[t]:
            s[t] = s[t + h]
        cuda.syncthreads()
        h //= 2
    if t == 0:
        out[0] = s[0]


def test_no_fix_loads_less_than_half_of_what_is_loaded_right():
    x = np.random.default_rng(3).permutation(64).astype(np.float32)
    report = wsemu.check(maximum, 1, 64, (x, np.zeros(1, np.float32)))
    assert "race" in {finding.code for finding in report.errors}
    assert not any("`t==0`" in cure.says.replace(" ", "") for cure in report.cures(budget=PLENTY))


@pytest.mark.parametrize(
    ("command_line", "file"),
    [
        ("run", ""),
        ("check", ""),
        ("check --format sarif", ""),
        ("check --format github", ""),
        ("trace", ""),
        ("trace -o picture.html", "picture.html"),
    ],
)
def test_each_form_of_a_report_has_the_fix(tmp_path, monkeypatch, command_line, file):
    monkeypatch.setattr(settings, "FIX_BUDGET", PLENTY)
    (tmp_path / "program.py").write_text(MIRROR)
    words = command_line.split()
    done = command(*words, "program.py", cwd=tmp_path)
    text = (tmp_path / file).read_text() if file else done.stdout
    assert "help: proven: insert `cuda.syncthreads()`" in " ".join(re.sub(r"<[^>]*>", "", text).split())


def test_a_report_in_a_notebook_has_the_fix():
    x = np.arange(64, dtype=np.float32)
    with settings.using(settings.Settings(fix_budget=PLENTY)):
        report = wsemu.check(mirror, 1, 64, (x, np.zeros(64, np.float32)))
        shown = report._repr_html_()
    assert "help:</span> proven: insert `cuda.syncthreads()`" in shown


@cuda.jit
def mirror(x, y):
    s = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    y[t] = s[63 - t]
