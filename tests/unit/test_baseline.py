"""`wsemu baseline`, `--baseline`, `--statistics`, `wsemu diff`, `--watch`, and the formats short, junit and gitlab."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pytest

from tests.commands import Done, wsemu
from tests.unit.late_program import KERNELS
from wsemu.app import diff_reports, watch
from wsemu.app.check_process import CheckProcess
from wsemu.app.watch import drop_watch_option

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PROGRAM = f"""{KERNELS}\
x = np.zeros(32, np.float32)
late[1, 64](x, x.copy())
good[1, 32](x)
"""
CURED = PROGRAM.replace("tile[lane] + tile[lane + 32]", "x[lane]")
ROGUE = """
@cuda.jit
def rogue(y):
    y[0] = cuda.threadIdx.x // 32

rogue[1, 64](x)
"""


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Done]:
    """Write PROGRAM, or another text, and run a command on it."""

    def command(*words: str, program: str = PROGRAM) -> Done:
        (tmp_path / "program.py").write_text(program, encoding="utf-8")
        return wsemu(*words, cwd=tmp_path)

    return command


def check(run: Any, *options: str, program: str = PROGRAM) -> Done:
    done: Done = run("check", "--fix-budget", "0", *options, "program.py", program=program)
    return done


# -- the baseline ------------------------------------------------------------------------------------------------------
def test_a_baseline_accepts_the_findings_of_today(run: Any, tmp_path: Path) -> None:
    done = run("baseline", "program.py")
    assert (done.returncode, done.stderr) == (0, "")
    assert "wsemu-baseline.json accepts 2 findings of program.py" in done.stdout
    document = json.loads((tmp_path / "wsemu-baseline.json").read_text())
    assert [entry["code"] for entry in document["findings"]] == ["race", "uninitialized-read"]
    done = check(run, "--baseline", "wsemu-baseline.json")
    assert (done.returncode, "2 suppressed" in done.stdout) == (0, True)
    assert check(run).returncode == 1


def test_options_of_check_write_nothing_and_are_named_on_the_command_line(run: Any, tmp_path: Path) -> None:
    done = run("baseline", "--certificate", "launches.txt", "--save-witness", "witnesses", "program.py")
    note = "note: `wsemu baseline` ignores `--certificate`, `--save-witness`: give it to `wsemu check`"
    assert (done.returncode, " ".join(done.stdout.split()).startswith(note)) == (0, True)
    (tmp_path / "pyproject.toml").write_text('[tool.wsemu]\ncertificate = "launches.txt"\nsave-witness = "witnesses"\n')
    done = run("baseline", "program.py")
    assert (done.returncode, "ignores" in done.stdout) == (0, False)
    assert not (tmp_path / "launches.txt").exists()
    assert not (tmp_path / "witnesses").exists()


def test_run_counts_what_it_suppresses(run: Any) -> None:
    run("baseline", "program.py")
    done = run("run", "--baseline", "wsemu-baseline.json", "program.py")
    assert "2 kernels, 2 launches: 2 verified; 2 findings suppressed" in " ".join(done.stdout.split())
    assert "suppressed" not in run("run", "program.py", program=CURED).stdout


def test_moved_lines_are_not_new(run: Any) -> None:
    run("baseline", "program.py")
    moved = "# one\n\n" + PROGRAM.replace("@cuda.jit\ndef late", "N = 1\n\n\n@cuda.jit\ndef late")
    assert check(run, "--baseline", "wsemu-baseline.json", program=moved).returncode == 0


@pytest.mark.parametrize(
    "program",
    [PROGRAM + ROGUE, PROGRAM.replace("tile[lane] = x[lane]", "tile[lane + 0] = x[lane]")],
    ids=["another kernel", "another text"],
)
def test_a_new_finding_fails(run: Any, program: str) -> None:
    run("baseline", "program.py")
    done = check(run, "--baseline", "wsemu-baseline.json", "--format", "short", program=program)
    assert done.returncode == 1
    assert "error[" in done.stdout


def test_a_second_finding_with_the_same_text_is_new(run: Any, tmp_path: Path) -> None:
    run("baseline", "program.py", program=PROGRAM + ROGUE)
    file = tmp_path / "wsemu-baseline.json"
    entry = next(e for e in json.loads(file.read_text())["findings"] if e["kernel"] == "rogue")
    assert entry["times"] == 1
    twice = PROGRAM + ROGUE.replace("    y[0] = cuda.threadIdx.x // 32\n", "    y[0] = cuda.threadIdx.x // 32\n" * 2)
    done = check(run, "--baseline", file.name, "--format", "json", program=twice)
    (report,) = (r for r in json.loads(done.stdout)["reports"] if r["kernel"] == "rogue")
    assert (report["verdict"], bool(report["findings"])) == ("failed", True)


def test_findings_that_are_gone_are_named_and_other_programs_stay(run: Any, tmp_path: Path) -> None:
    run("baseline", "program.py")
    done = check(run, "--baseline", "wsemu-baseline.json", program=CURED)
    assert done.returncode == 0
    assert "note: 2 findings of wsemu-baseline.json no longer occur: run `wsemu baseline` again" in " ".join(
        done.stdout.split()
    )
    (tmp_path / "other.py").write_text(PROGRAM + ROGUE, encoding="utf-8")
    assert "accepts 3 findings of other.py" in run("baseline", "other.py").stdout
    assert "accepts 0 findings of program.py" in run("baseline", "program.py", program=CURED).stdout
    entries = json.loads((tmp_path / "wsemu-baseline.json").read_text())["findings"]
    assert {entry["program"] for entry in entries} == {"other.py"}


def test_the_configuration_names_the_file_relative_to_itself(run: Any, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.wsemu]\nbaseline = "known.json"\n')
    (tmp_path / "below").mkdir()
    assert "known.json accepts" in run("baseline", "program.py").stdout
    assert (tmp_path / "known.json").is_file()
    assert wsemu("check", "../program.py", cwd=tmp_path / "below").returncode == 0


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (None, "write it by `wsemu baseline --baseline known.json PROGRAM`"),
        ("{", "does not hold a baseline: it is not JSON"),
        ("{}", 'it needs `"baseline": 1`'),
        ('{"baseline": 1, "findings": [{"code": "race"}]}', "finding 1 is not an object with fingerprint"),
    ],
)
def test_a_wrong_baseline_is_named(run: Any, tmp_path: Path, text: str | None, problem: str) -> None:
    if text is not None:
        (tmp_path / "known.json").write_text(text)
    done = check(run, "--baseline", "known.json")
    assert (done.returncode, problem in re.sub(r"\s+", " ", done.stdout)) == (2, True)


# -- formats and statistics --------------------------------------------------------------------------------------------
def test_short_has_a_line_for_each_finding(run: Any) -> None:
    done = check(run, "--format", "short")
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "program.py:12:32: error[uninitialized-read]: shared `tile` is read before it is written (`late`)",
        "program.py:9:9: error[race]: read-after-write hazard on shared `tile[lane]` (`late`)",
        "late[grid 1, block 64]  failed: 2 errors",
        "good[grid 1, block 32]  verified: deadlock-free and race-free in every schedule",
        "2 kernels, 2 launches: 1 verified, 1 failed",
    ]


def test_junit_has_a_case_for_each_launch(run: Any) -> None:
    suites = ElementTree.fromstring(check(run, "--format", "junit", program=PROGRAM + "1 / 0\n").stdout)
    (suite,) = suites
    assert (suite.get("name"), suite.get("tests"), suite.get("failures"), suite.get("errors")) == (
        "program.py", "3", "1", "1",
    )  # fmt: skip
    late, good, program = suite.findall("testcase")
    (failure,) = late
    assert failure.get("type") == "uninitialized-read"
    assert "error[race]" in (failure.text or "")
    assert (list(good), program[0].tag) == ([], "error")


def test_an_incomplete_launch_is_an_error_of_junit_and_an_issue_of_gitlab(run: Any) -> None:
    options = ("--budget", "5")
    suite = ElementTree.fromstring(check(run, "--format", "junit", *options).stdout)
    assert {error.get("type") for error in suite.iter("error")} == {"incomplete"}
    issues = json.loads(check(run, "--format", "gitlab", *options).stdout)
    assert {issue["check_name"] for issue in issues} == {"incomplete"}
    assert {issue["location"]["path"] for issue in issues} == {"program.py"}


def test_gitlab_has_unique_fingerprints_that_survive_moved_lines(run: Any) -> None:
    before, after = (json.loads(check(run, "--format", "gitlab", program=p).stdout) for p in (PROGRAM, "#\n" + PROGRAM))
    for issue in before:
        assert issue.keys() == {"description", "check_name", "fingerprint", "severity", "location"}
        assert issue["severity"] in ("info", "minor", "major", "critical", "blocker")
    prints = [[issue["fingerprint"] for issue in issues] for issues in (before, after)]
    assert prints[0] == prints[1]
    assert len({*prints[0]}) == len(prints[0])
    lines = [[issue["location"]["lines"]["begin"] for issue in issues] for issues in (before, after)]
    assert [line + 1 for line in lines[0]] == lines[1]


def test_statistics_count_by_code(run: Any) -> None:
    said = check(run, "--statistics", "--format", "short", program=PROGRAM + ROGUE).stdout
    assert re.search(r"statistics: 3 findings in 3 launches \(2 failed, 1 verified\)\n +2 +error\[race\]", said)
    assert "(2 kernels)" in said


# -- two reports -------------------------------------------------------------------------------------------------------
@pytest.fixture
def report(run: Any, tmp_path: Path) -> Callable[..., str]:
    """Write a report of a program; return the name of the file."""

    def write(name: str, program: str) -> str:
        (tmp_path / name).write_text(check(run, "--format", "json", program=program).stdout, encoding="utf-8")
        return name

    return write


def test_two_reports_are_compared(run: Any, report: Any) -> None:
    a, b = report("a.json", PROGRAM), report("b.json", "# moved\n" + CURED + ROGUE)
    done = run("diff", a, b)
    assert done.returncode == 1
    assert done.stdout.startswith("findings: 1 new, 2 gone, 0 in both\n  + error[race] at program.py:")
    assert "late[grid 1, block 64]: failed -> verified" in done.stdout
    assert "shared load wavefronts: 2 -> 0\n" in done.stdout
    assert "launches: 2 before, 3 launches after" in done.stdout
    assert run("diff", a, a).stdout == "findings: 0 new, 0 gone, 2 in both\nno difference in 2 launches\n"
    back = run("diff", b, report("c.json", CURED), "--format", "json")
    assert (back.returncode, json.loads(back.stdout)["worse"]) == (0, [])


def test_predicted_times_are_compared(run: Any, tmp_path: Path) -> None:
    times = [{"kernel": "copy", "grid": [1, 1, 1], "block": [64, 1, 1], "microseconds": us} for us in (10.0, 8.0)]
    for name, entry in zip(("a.json", "b.json"), times, strict=True):
        (tmp_path / name).write_text(json.dumps([entry]))
    assert run("diff", "a.json", "b.json").stdout == (
        "predicted times:\n  copy[grid 1, block 64]: 10 us -> 8 us (-20.0 %)\n"
    )


LAUNCH = '{"reports": [{"kernel": "k", "grid": [1, 1, 1], "block": [1, 1, 1], "verdict": "failed", "findings": [], '
TIMES = '[{"kernel": "k", "grid": [1, 1, 1], "block": [1, 1, 1], "microseconds": NaN}]'


@pytest.mark.parametrize(
    "text",
    [
        "{", "{}", "3", '[{"kernel": 1}]', '{"reports": [{}]}', TIMES,
        *(f'{LAUNCH}"counters": {{"warp_instructions": {count}}}}}]}}' for count in ("Infinity", "1e300", "-1")),
    ],
)  # fmt: skip
def test_what_is_no_report_is_named(run: Any, tmp_path: Path, text: str) -> None:
    (tmp_path / "a.json").write_text(text)
    done = run("diff", "a.json", "a.json")
    assert (done.returncode, "`a.json` does not hold" in done.stdout) == (2, True)


def test_files_without_an_end_are_not_read(run: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    done = check(run, "--baseline", "/dev/zero")
    assert (done.returncode, "it is a device" in " ".join(done.stdout.split())) == (2, True)
    monkeypatch.setattr(diff_reports, "LARGEST", 3)
    (tmp_path / "a.json").write_text("    ")
    assert diff_reports.run(tmp_path / "a.json", tmp_path / "a.json", as_json=False) == 2


# -- watching ----------------------------------------------------------------------------------------------------------
def test_the_option_is_not_passed_on_but_a_programs_is() -> None:
    assert drop_watch_option(["check", "--watch", "a.py", "--", "--watch"]) == ["check", "a.py", "--", "--watch"]


def test_a_check_process_names_the_sources_that_it_used(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("import helper\n" + CURED, encoding="utf-8")
    (tmp_path / "helper.py").write_text("N = 1\n", encoding="utf-8")
    with (tmp_path / "out").open("wb") as output:
        process = CheckProcess(["check", "--format", "short", "program.py"], str(tmp_path), output)
        assert process.wait(120) == 0
    used = process.close()
    assert [str((tmp_path / name).resolve()) in used for name in ("program.py", "helper.py")] == [True, True]
    assert "verified" in (tmp_path / "out").read_text()


def test_a_change_starts_another_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The second check is over when the program waits a second time: then the user presses Ctrl+C."""
    file = tmp_path / "program.py"
    file.write_text(CURED, encoding="utf-8")
    waits = 0

    def sleep(_: float) -> None:
        nonlocal waits
        waits += 1
        if waits == 2:
            raise KeyboardInterrupt
        file.write_text(PROGRAM + "# changed\n", encoding="utf-8")

    monkeypatch.chdir(tmp_path)
    assert watch.watch_program(["check", "--watch", "--format", "short", "program.py"], sleep=sleep) == 1
    out, err = capfd.readouterr()
    assert (out.count("late[grid 1, block 64]"), "error[race]" in out) == (2, True)
    assert err.count("changed: checking again") == 1


def test_a_program_writes_files_without_another_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "program.py").write_text(CURED + "open('made.json', 'w').write('{}')\n", encoding="utf-8")

    def sleep(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    assert watch.watch_program(["check", "program.py"], sleep=sleep) == 0
    assert "changed" not in capfd.readouterr().err


def test_a_program_that_does_not_exist_is_not_watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert watch.watch_program(["check", "--watch", "nope.py"]) == 2
    assert "watching" not in capfd.readouterr().err


def test_modules_of_the_start_of_python_are_no_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sitecustomize.py").write_text("", encoding="utf-8")
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.chdir(tmp_path / "empty")
    assert watch.watch_program(["check", "--watch", "nope.py"], sleep=_interrupt) == 2


def _interrupt(_: float) -> None:
    raise AssertionError("a program that does not exist is watched")
