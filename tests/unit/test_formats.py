"""`--format`, `--kernel`, `--limit`, `wsemu doctor`, and names that would speak to a terminal."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import jsonschema
import pytest

from tests.commands import Done, wsemu
from tests.unit.late_program import KERNELS
from wsemu.app import doctor
from wsemu.app.config import FORMATS
from wsemu.launch.result import Report
from wsemu.machine import cache, shipped
from wsemu.model import settings
from wsemu.model.errors import KernelError
from wsemu.model.finding import Finding, Site, Step, Suppressed
from wsemu.native.compiler import find_platform_problem
from wsemu.report import collected, github, gitlab, junit, sarif, short
from wsemu.report import json as json_report
from wsemu.report.terminal import Printer

if TYPE_CHECKING:
    from collections.abc import Callable

SCHEMA = json.loads(Path(__file__).parents[1].joinpath("data", "sarif-2.1.0-part.json").read_text(encoding="utf-8"))
PROGRAM = f"""import sys
{KERNELS}\
@cuda.jit
def tries(x):
    try:
        x[0] = 1
    except ValueError:
        pass

x = np.zeros(32, np.float32)
print("the program speaks")
late[1, 64](x, x.copy())
good[1, 32](x)
print("sum", int(x.sum()), sys.argv[1:])
"""


@pytest.fixture
def check(tmp_path):
    """Run `wsemu check`, or another command, on PROGRAM with more lines, or on another program."""

    def run(*options: str, program: str = PROGRAM, more: str = "", command: str = "check", arguments: Any = ()) -> Done:
        (tmp_path / "program.py").write_text(program + more, encoding="utf-8")
        return wsemu(command, *options, "program.py", *arguments, cwd=tmp_path)

    return run


def valid(log: dict[str, Any]) -> dict[str, Any]:
    """The run of a SARIF log that is valid."""
    checker = jsonschema.validators.validator_for(SCHEMA)
    checker.check_schema(SCHEMA)
    checker(SCHEMA).validate(log)
    (run,) = log["runs"]
    result: dict[str, Any] = run
    return result


# -- the formats -------------------------------------------------------------------------------------------------------
def test_json_has_all_reports_and_nothing_else(check):
    done = check("--format", "json", more="tries[1, 1](x)\n")
    document = json.loads(done.stdout)
    assert done.returncode == document["exit_code"] == 1
    assert document["verdicts"] == {"verified": 1, "failed": 1, "incomplete": 1}
    reports = [Report.model_validate(report) for report in document["reports"]]
    assert [report.kernel for report in reports] == ["late", "good", "tries"]
    assert {site.file for report in reports for finding in report.findings for site in finding.sites} == {"program.py"}
    assert [message["level"] for message in document["messages"]] == ["warning", "warning", "note"]
    assert "the program speaks\nsum 32 []\n" in done.stderr
    assert "seconds" not in done.stdout
    assert done.stdout == check("--format", "json", more="tries[1, 1](x)\n").stdout


def test_sarif_is_valid(check):
    done = check("--format", "sarif", more="tries[1, 1](x)\n")
    run = valid(json.loads(done.stdout))
    assert done.returncode == run["invocations"][0]["exitCode"] == 1
    by_code = {result["ruleId"]: result for result in run["results"]}
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["race", "uninitialized-read"]
    assert [rule["defaultConfiguration"]["level"] for rule in run["tool"]["driver"]["rules"]] == ["error", "error"]
    place = by_code["race"]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "program.py", "uriBaseId": "SRCROOT"}
    assert place["region"]["startLine"] in (10, 13)
    levels = [note["level"] for note in run["invocations"][0]["toolExecutionNotifications"]]
    assert "warning" in levels
    assert "the program speaks" not in done.stdout


def test_sarif_has_a_thread_flow_for_each_warp(check):
    run = valid(json.loads(check("--format", "sarif").stdout))
    (flow,) = next(result for result in run["results"] if result["ruleId"] == "race")["codeFlows"]
    assert sorted(thread["id"] for thread in flow["threadFlows"]) == ["warp 0", "warp 1"]
    steps = [step for thread in flow["threadFlows"] for step in thread["locations"]]
    assert sorted(step["executionOrder"] for step in steps) == list(range(1, len(steps) + 1))
    assert {step["location"]["physicalLocation"]["region"]["startLine"] for step in steps} >= {10, 13}


def test_fingerprints_survive_moved_lines(check):
    def prints(program: str) -> list[str]:
        run = valid(json.loads(check("--format", "sarif", program=program).stdout))
        return [result["partialFingerprints"]["wsemu/v1"] for result in run["results"]]

    before = prints(PROGRAM)
    assert len(set(before)) == len(before) == 2
    moved = "# a comment\n\n" + PROGRAM.replace("    lane = cuda", "    # another one\n    lane = cuda")
    assert prints(moved) == before
    other = PROGRAM.replace("tile[lane] + tile[lane + 32]", "2 * tile[31 - lane] + tile[63 - lane]")
    assert not set(prints(other)) & set(before)


def test_github_gets_commands(check):
    done = check("--format", "github", more="tries[1, 1](x)\nlate(x)\n")
    commands = [line for line in done.stdout.splitlines() if line.startswith("::")]
    assert done.returncode == 1
    assert re.match(
        r"::error file=program.py,line=1[03],endLine=1[03],col=\d+,endColumn=\d+,title=race%3A ", commands[1]
    )
    assert "title=uninitialized-read%3A " in commands[0]  # which explains the race
    assert "%0A   = hint: " in commands[1]
    assert any(line.startswith("::warning file=program.py,line=22,title=wsemu::") for line in commands)
    assert any("called without a launch configuration" in line for line in commands)
    assert "good[grid 1, block 32]  verified: " in done.stdout
    assert "the program speaks" not in done.stdout


READERS: dict[str, Callable[[str], object]] = {
    "github": lambda text: "::error file=program.py,line=" in text,
    "gitlab": json.loads,
    "json": json.loads,
    "junit": lambda text: list(ElementTree.fromstring(text)),
    "sarif": lambda text: valid(json.loads(text)),
    "short": lambda text: text.startswith("program.py:"),
}
"""format -> what is true of a whole document, or raises"""


def test_each_format_but_text_has_a_reader():
    assert {"text", *READERS} == {*FORMATS}


@pytest.mark.parametrize("format_", READERS)
def test_a_document_is_whole_whatever_happens(check, format_):
    for more, code in (("1 / 0\n", 1), ("sys.exit('stop')\n", 1), ("late[1, 2000](x, x)\n", 1)):
        done = check("--format", format_, more=more)
        assert done.returncode == code
        assert "Traceback" not in done.stderr
        assert READERS[format_](done.stdout)
        assert format_ != "json" or json.loads(done.stdout)["exit_code"] == code
    done = check("--format", format_, "--only", "rase")
    assert done.returncode == 2
    assert "no checker 'rase'" in done.stdout


def test_what_a_program_starts_does_not_write_into_the_document(tmp_path):
    more = "import subprocess\nsubprocess.run([sys.executable, '-c', 'print(1)'])\n"
    (tmp_path / "program.py").write_text(PROGRAM + more)
    command = [sys.executable, "-m", "wsemu.cli", "check", "--format", "json", "program.py"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert json.loads(done.stdout)["exit_code"] == 1
    assert "\n1\n" in done.stderr


# -- what is checked and shown -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("format_", ["junit", "gitlab"])
def test_the_text_of_a_failure_has_the_proven_fix(format_):
    file = Path(__file__).resolve().parents[2] / "docs" / "programs" / "too_soon.py"
    text = wsemu("check", "--fix-budget", "60", "--format", format_, file).stdout
    assert "help: proven: insert `cuda.syncthreads()` before line 13" in " ".join(text.split())


def test_kernel_leaves_the_others_unchecked(check):
    done = check("--kernel", "goo?")
    assert done.returncode == 0
    assert "late" not in done.stdout
    assert "good[grid 1, block 32]  verified" in done.stdout
    assert "sum 32" in done.stdout
    assert check("--kernel", "goo?", "--kernel", "late").returncode == 1


def test_a_kernel_that_nobody_launches_is_told(check):
    done = check("--kernel", "god")
    assert done.returncode == 2
    assert "launched no kernel named `god`, but `late`, `good`" in done.stdout


def test_a_kernel_left_out_that_hangs_is_not_hidden(check):
    more = "@cuda.jit\ndef hangs():\n    if cuda.threadIdx.x < 32:\n        ptx.bar_sync(1, 64)\nhangs[1, 64]()\n"
    done = check("--kernel", "good", more=more)
    assert done.returncode == 3
    assert "hangs[grid 1, block 64]  incomplete" in done.stdout


def test_limit_shows_some_and_counts_all(check):
    done = check("--limit", "1")
    assert done.returncode == 1
    assert done.stdout.count("error[") == 1
    assert "late[grid 1, block 64]  failed: 2 errors" in done.stdout
    assert "1 finding not shown: raise `--limit`" in done.stdout
    document = json.loads(check("--limit", "0", "--format", "json").stdout)
    assert document["exit_code"] == 1
    reports = [Report.model_validate(report) for report in document["reports"]]
    assert [(len(report.findings), report.left_out, report.verdict) for report in reports] == [
        (0, 2, "failed"),
        (0, 0, "verified"),
    ]


def test_an_unused_suppression_is_told_once(check):
    kernel = "@cuda.jit\ndef quiet(x):\n    x[0] = 1  # wsemu: ignore[deadlock] no reason\n"
    more = f"{kernel}\nfor _ in range(3):\n    quiet[1, 1](x)\n"
    done = check(more=more)
    assert done.stdout.count("the suppression of deadlock matches nothing: remove it") == 1
    assert re.search(r"^warning: program.py:\d+: the suppression", done.stdout, re.MULTILINE)


@pytest.mark.parametrize("command", ["check", "run"])
def test_options_may_be_anywhere(check, command):
    done = check(command=command, arguments=["--arch", "sm_1", "--unknown", "-h"])
    assert (done.returncode, "unknown arch 'sm_1'" in done.stdout) == (2, True)
    words = ["--arch=sm_70", "7", "--lockstep", "--unknown", "-h", "--grid", "4", "--", "--arch", "sm_1", "--"]
    said = check(command=command, arguments=words).stdout
    assert "sum 32 ['7', '--unknown', '-h', '--grid', '4', '--arch', 'sm_1', '--']" in said


# -- names that would speak --------------------------------------------------------------------------------------------
HOSTILE = "\x1b[31m<b>\x07\u202e%0A::error::,\r\n\x9b2J&\x7f"
FINDING = Finding(
    code="race",
    message=f"hazard on `{HOSTILE}`",
    sites=[
        Site(file=f"/tmp/{HOSTILE}.py", line=1, column=1, end_column=2, warp=1, text=HOSTILE, array=HOSTILE),
        Site(file=f"<{HOSTILE}>", line=1, column=1, end_column=2, warp=0, text=HOSTILE, primary=False),
    ],
    notes=[HOSTILE],
    help=HOSTILE,
    schedule=[HOSTILE],
    steps=[Step(cta=(0, 0, 0), warp=0, does=HOSTILE, instruction=0, line=1, what=HOSTILE, when=HOSTILE)],
)  # fmt: skip
REPORT = Report(
    kernel=HOSTILE,
    grid=(1, 1, 1),
    block=(32, 1, 1),
    verdict="failed",
    findings=[FINDING],
    suppressed=[Suppressed(finding=FINDING, reason=HOSTILE, file=HOSTILE, line=1, kind="source")],
    notes=[HOSTILE],
)
UNDECIDED = REPORT.model_copy(update={"verdict": "incomplete", "findings": [], "reasons": [HOSTILE]})


def said(format_: str) -> str:
    """Everything hostile in a format."""
    stream = io.StringIO()
    sinks: dict[str, Any] = {
        "text": lambda: Printer(stream),
        "github": lambda: github.Commands(stream),
        "json": lambda: collected.Collector(stream, json_report.document),
        "sarif": lambda: collected.Collector(stream, sarif.document),
        "short": lambda: short.Short(stream),
        "junit": lambda: collected.Collector(stream, junit.document, program=HOSTILE),
        "gitlab": lambda: collected.Collector(stream, gitlab.document, program=HOSTILE),
    }
    sink = sinks[format_]()
    sink.report(REPORT)
    sink.report(UNDECIDED, [])
    sink.error(KernelError(HOSTILE, remedy=HOSTILE))
    sink.text(f"::error::{HOSTILE}")
    sink.text(f"  ##[error]{HOSTILE}", "warning")
    sink.notice(HOSTILE, HOSTILE, 1)
    sink.finish(1)
    return stream.getvalue()


@pytest.mark.parametrize("format_", FORMATS)
def test_names_do_not_speak_to_a_terminal(format_):
    text = said(format_)
    assert text
    assert all(character.isprintable() or character == "\n" for character in text)


@pytest.mark.parametrize("format_", ["json", "sarif", "gitlab"])
def test_names_are_no_html(format_):
    text = said(format_)
    assert text.isascii()
    assert not set("<>&") & set(text)
    assert json.loads(text)


def test_hostile_names_are_valid_sarif():
    valid(json.loads(said("sarif")))


def test_names_are_no_commands_for_github():
    command = re.compile(r"::(error|warning) ((file|line|endLine|col|endColumn|title)=[^:,]*,?)+::[^\r\n]*")
    lines = said("github").splitlines()
    commands = [line for line in lines if line.lstrip().startswith(("::", "##["))]
    assert len(commands) == 5
    for line in commands:
        assert command.fullmatch(line), line
        assert re.search(r"%(?!25|0A|0D|3A|2C)", line) is None


# -- doctor ------------------------------------------------------------------------------------------------------------
def test_doctor_says_what_there_is(capsys):
    items = {item.name: item for item in doctor.examine()}
    assert {"wsemu", "Python", "numpy", "numba", "VM", "cache", "blocks", "GPU", "configuration", "terminal"} <= set(
        items
    )
    assert items["VM"].state == "good"
    assert {item.state for item in items.values()} <= {"good", "note"}


def test_doctor_tells_what_is_wrong(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(doctor, "NEEDED", ("numpy", "no-such-package"))
    (tmp_path / "pyproject.toml").write_text("[tool.wsemu]\nbudgt = 1\n")
    items = {item.name: item for item in doctor.examine()}
    assert items["no-such-package"] == doctor.Item("bad", "no-such-package", "not installed")
    assert items["configuration"].state == "bad"
    assert "did you mean `budget`?" in items["configuration"].text


@pytest.mark.parametrize(
    ("line", "state", "text"),
    [
        ("cuda: Optional[str] = '13.0'", "note", "2.9 for CUDA 13.0, which does not run: install the CPU wheel: pip"),
        ("cuda: Optional[str] = None", "good", "2.9, which `wsemu run file.py` runs"),
    ],
)
def test_doctor_names_the_wheel_in_place_of_a_cuda_build_of_torch(tmp_path, monkeypatch, line, state, text):
    if find_platform_problem():
        pytest.skip("needs the driver's platform")
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("")
    (tmp_path / "torch" / "version.py").write_text(f"{line}\nhip: Optional[str] = None\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(doctor, "_version", lambda name: "2.9" if name == "torch" else "")
    (item,) = [item for item in doctor._clients() if item.name == "torch"]
    assert item.state == state
    assert item.text.startswith(text)


def test_a_run_with_a_cuda_build_of_torch_names_the_wheel(tmp_path):
    start = Path(doctor.__file__).parents[1] / "native" / "start"
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("from torch import version\n")
    (tmp_path / "torch" / "version.py").write_text("cuda, hip = '13.0', None\n")
    environment = {**os.environ, "WSEMU_SERVER": "a stub", "PYTHONPATH": os.pathsep.join(map(str, (start, tmp_path)))}
    command = [sys.executable, "-c", "import torch"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    assert done.stderr.startswith("wsemu: this is torch's CUDA build, whose operators on `cuda` do not run: install ")


def test_doctor_tells_of_a_cache_folder_that_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    below = [tmp_path / "file", *(place for place in (Path("/proc"),) if place.is_dir())]  # where root may, but cannot
    for folder in (place / "cache" for place in below):
        monkeypatch.setenv("WSEMU_CACHE_DIR", str(folder))
        text = f"{folder} cannot be written: set WSEMU_CACHE_DIR to a folder that can be written"
        assert doctor._cache() == doctor.Item("bad", "cache", text)
    monkeypatch.setenv("WSEMU_CACHE_DIR", str(tmp_path / "not" / "yet"))
    assert doctor._cache().state == ("good" if shipped.is_used() else "note")  # wheels bring the VM's code
    assert not (tmp_path / "not").exists()


def test_doctor_counts_the_blocks_that_are_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("WSEMU_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("WSEMU_TIER", "")
    assert doctor._blocks() == doctor.Item("good", "blocks", "0 of at most 256 (0 of 67,108,864 bytes)")
    for number in range(3):
        cache.write_block(f"block_{number}", ("symbol", "", bytes(1000)))
    size = sum(file.stat().st_size for file in (tmp_path / "cache").iterdir())
    assert size > 3000
    text = f"3 of at most 256 ({size:,} of 67,108,864 bytes)"
    assert doctor._blocks() == doctor.Item("good", "blocks", text)
    monkeypatch.setenv("WSEMU_TIER", "off")
    assert doctor._blocks() == doctor.Item("good", "blocks", f"{text}; WSEMU_TIER is off")
    monkeypatch.setenv("WSEMU_TIER", "often")
    (item,) = (item for item in doctor.examine() if item.name == "blocks")
    assert item.state == "bad"
    assert "WSEMU_TIER is 'often'" in item.text


def test_every_setting_can_be_written_in_a_file():
    """`Settings` has what `Configuration` sets, what only a test of wsemu sets, and what is derived: `arch_chosen`,
    whether a file or option has `arch`."""
    own = {"checkers", "kernels", "suppressions", "thresholds", "cta_order", "arch_chosen"}
    from wsemu.app.config import Configuration

    assert set(settings.Settings.__dataclass_fields__) - own <= set(Configuration.model_fields)


REPEATED = """\
import numpy as np
from wsemu import cuda

@cuda.jit
def good(x):
    x[cuda.threadIdx.x] = 1

@cuda.jit
def bad(x):
    x[0] = cuda.threadIdx.x

for _ in range(2):
    good[1, 32](np.zeros(32, np.float32))
    bad[1, 64](np.zeros(32, np.float32))
"""


def test_junit_of_a_run_has_a_test_case_for_each_launch(tmp_path):
    (tmp_path / "program.py").write_text(REPEATED)
    done = wsemu("run", "--format", "junit", "--fix-budget", 0, "program.py", cwd=tmp_path)
    suite = ElementTree.fromstring(done.stdout)[0]
    cases = suite.findall("testcase")
    assert (done.returncode, suite.get("tests"), suite.get("failures")) == (1, "4", "2")
    assert [(case.get("classname"), [one.tag for one in case]) for case in cases] == [
        ("good", []), ("bad", ["failure"]), ("good", []), ("bad", ["failure"]),
    ]  # fmt: skip
    assert cases[3][0].get("message") == "intra-warp-race, race: in an earlier test case, or beyond `--limit`"
