"""What other tools take from this repository, run as they run it: the GitHub Action, the pre-commit hook, VS Code's
tasks, the conda recipe."""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pytest

from tests.commands import wsemu
from tests.composite import run as run_action
from wsemu.app import each
from wsemu.machine import shipped
from wsemu.model.version import __version__

if TYPE_CHECKING:
    from tests.composite import Ran

yaml = pytest.importorskip("yaml")
ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
BROKEN, GOOD = ROOT / "examples" / "broken" / "no_empty_wait.py", ROOT / "docs" / "programs" / "plain.py"


def loaded(file: str) -> Any:
    return yaml.safe_load((ROOT / file).read_text(encoding="utf-8"))


@pytest.fixture
def project(tmp_path):
    """A user's repository, with a program that is right, one that is wrong, and one without kernels."""
    folder = tmp_path / "project"
    (folder / "kernels").mkdir(parents=True)
    shutil.copy(GOOD, folder / "kernels" / "good.py")
    shutil.copy(BROKEN, folder / "kernels" / "wrong.py")
    (folder / "setup.py").write_text("raise SystemExit('not a kernel')\n")
    (folder / "pyproject.toml").write_text("[tool.wsemu]\nfix-budget = 0\n")
    return folder


def action(project: Path, **given: str) -> Ran:
    named = {name.replace("_", "-"): value for name, value in given.items()}
    return run_action(loaded("action.yml"), project, {"install": "false", **named}, project.parent, ROOT)


def test_one_file_has_the_launches_and_findings_of_all_programs(project):
    words = ["--junit", "all.xml", "--gitlab=all.json", "kernels/*.py", "setup.py"]
    done = subprocess.run(
        [sys.executable, "-m", "wsemu.app.each", *words], check=False, capture_output=True, text=True, cwd=project,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert done.stdout.splitlines()[:2] == [
        "kernels/wrong.py: failed (exit code 1)",
        "1 of 2 programs did not pass: see `all.xml`",
    ]
    suites = ElementTree.parse(project / "all.xml").getroot()
    assert [suite.get("name") for suite in suites] == ["kernels/good.py", "kernels/wrong.py"]
    assert (suites.get("tests"), suites.get("failures"), suites.get("errors")) == ("2", "1", "0")
    issues = json.loads((project / "all.json").read_text(encoding="utf-8"))
    assert {issue["location"]["path"] for issue in issues} == {"kernels/wrong.py"}
    assert len({issue["fingerprint"] for issue in issues}) == len(issues)


def test_the_action_annotates_what_is_wrong(project):
    ran = action(project, files="kernels/*.py setup.py")
    assert ran.code == 1
    assert ran.outputs == {"exit-code": "1"}
    assert "::error file=kernels/wrong.py,line=" in ran.text
    assert "verified" in ran.text
    assert ran.used == []


def test_the_action_passes_what_is_right_and_takes_options(project):
    assert action(project, files="nothing/*.py").code == 2
    ran = action(project, files="kernels/good.py", options="--budget 5")
    assert ran.outputs == {"exit-code": "3"}
    assert action(project, files="kernels/good.py", options="--budget 5", allow_incomplete="true").code == 0


def test_the_action_writes_one_sarif_file_with_a_run_for_each_program(project):
    ran = action(project, files="kernels/*.py", sarif="wsemu.sarif")
    assert ran.code == 1
    runs = json.loads((project / "wsemu.sarif").read_text(encoding="utf-8"))["runs"]
    names = [run["automationDetails"]["id"] for run in runs]
    assert names == ["wsemu/kernels/good.py/", "wsemu/kernels/wrong.py/"]
    assert [bool(run["results"]) for run in runs] == [False, True]


def test_the_action_installs_what_it_is_part_of():
    steps = loaded("action.yml")["runs"]["steps"]
    (install,) = (step for step in steps if "pip install" in step.get("run", ""))
    assert '"$GITHUB_ACTION_PATH"' in install["run"]
    assert all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", step["uses"]) for step in steps if "uses" in step)


def test_the_action_saves_machine_code_before_a_program_runs_and_never_after():
    steps = loaded("action.yml")["runs"]["steps"]
    used = [step.get("uses", "").partition("@")[0] for step in steps]
    check = next(n for n, step in enumerate(steps) if step.get("id") == "check")
    assert "actions/cache" not in used
    assert used.index("actions/cache/restore") < used.index("actions/cache/save") < check
    assert check == len(steps) - 1


def hook(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """As pre-commit runs a hook: its entry, its arguments and the names of staged files, in the root."""
    (entry,) = loaded(".pre-commit-hooks.yaml")
    command = [*shlex.split(entry["entry"]), *entry.get("args", []), *words]
    assert (command[0], entry["language"], entry["require_serial"]) == ("python", "python", True)
    return subprocess.run([sys.executable, *command[1:]], check=False, capture_output=True, text=True, cwd=cwd)


def test_the_hook_checks_the_files_that_are_named_and_have_kernels(project):
    done = hook("kernels/good.py", "kernels/wrong.py", "setup.py", cwd=project)
    assert done.returncode == 1
    assert "error[race]" in done.stdout
    assert "not a kernel" not in done.stdout + done.stderr
    assert hook("--fail-on", "bank-conflict", "setup.py", cwd=project).returncode == 0


@pytest.mark.parametrize(
    ("codes", "worst"), [([0, 3], 3), ([3, 1], 1), ([1, 2], 2), ([2, 4, 0], 4), ([0], 0), ([], 2), ([-9, 0], 4)]
)
def test_the_worst_exit_code_counts(codes, worst, monkeypatch, tmp_path):
    files = [tmp_path / f"{n}.py" for n in range(len(codes))]
    for file in files:
        file.write_text("@cuda.jit")
    left = iter(codes)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], next(left)))
    assert each.main(["--", *map(str, files)]) == worst


RECIPES = [
    (page.name, yaml.safe_load(textwrap.dedent(block)))
    for page in sorted((ROOT / "docs").glob("*.md"))
    for block in re.findall(r"(?s)```yaml\n(.*?)```", page.read_text(encoding="utf-8"))
]


def steps(recipe: Any) -> list[Any]:
    if isinstance(recipe, list):
        return recipe
    return [step for job in recipe.get("jobs", {}).values() for step in job["steps"]]


def test_recipes_name_inputs_and_hooks_that_exist():
    inputs, hooks = loaded("action.yml")["inputs"], {entry["id"] for entry in loaded(".pre-commit-hooks.yaml")}
    ours = [step for _, recipe in RECIPES for step in steps(recipe) if step.get("uses", "").startswith("wsemu/wsemu@")]
    assert len(ours) == 4
    for step in ours:
        assert step["with"].keys() <= inputs.keys()
        assert "files" in step["with"]
    named = [repo for _, recipe in RECIPES if "repos" in recipe for repo in recipe["repos"]]
    assert len(named) == 2
    assert {hook["id"] for repo in named for hook in repo["hooks"]} == hooks
    tags = {step["uses"].partition("@")[2] for step in ours} | {repo["rev"] for repo in named}
    assert tags == {f"v{__version__}"}


def test_the_recipe_for_gitlab_runs(project):
    (recipe,) = (recipe["kernels"] for _, recipe in RECIPES if "kernels" in recipe)
    install, command = recipe["script"]
    assert install == "pip install wsemu"
    path = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    (project / "kernels" / "wrong.py").unlink()
    subprocess.run(["bash", "-euc", command], check=True, cwd=project, env=path, capture_output=True)


@pytest.mark.skipif(not (shutil.which("nvcc") and shutil.which("cmake")), reason="no CMake or nvcc here")
def test_cmake_builds_and_checks_without_a_gpu(tmp_path):
    for name in ("CMakeLists.txt", "sums.cu"):
        shutil.copy(ROOT / "docs" / "programs" / name, tmp_path)
    page = (ROOT / "docs" / "cmake.md").read_text(encoding="utf-8")
    commands = re.findall(r"(?m)^    ((?:cmake|ctest) .*)$", page)
    assert len(commands) == 3
    path = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    for command in commands:
        done = subprocess.run(shlex.split(command), check=False, cwd=tmp_path, env=path, capture_output=True, text=True)
        assert not done.returncode, done.stdout + done.stderr
    assert "100% tests passed" in done.stdout

    source = tmp_path / "sums.cu"
    source.write_text(source.read_text(encoding="utf-8").replace("bar_sync(FULL);", ";"), encoding="utf-8")
    for command in commands[1:]:
        done = subprocess.run(shlex.split(command), check=False, cwd=tmp_path, env=path, capture_output=True, text=True)
    assert done.returncode
    assert "sum += tile[lane];" in done.stdout, "findings show the PTX"


def matchers() -> list[list[dict[str, Any]]]:
    (task, _) = json.loads((ROOT / "integrations" / "vscode" / "tasks.json").read_text(encoding="utf-8"))["tasks"]
    return [matcher["pattern"] for matcher in task["problemMatcher"]]


def matched(text: str) -> set[tuple[str, str, str]]:
    """(file, line, message) of what VS Code takes out of an output: each pattern fits one of consecutive lines."""
    lines, found = text.splitlines(), set()
    for patterns in matchers():
        for start in range(len(lines) - len(patterns) + 1):
            hits = [re.search(p["regexp"], line) for p, line in zip(patterns, lines[start:], strict=False)]
            if all(hits):
                groups = {
                    name: hit[number] for p, hit in zip(patterns, hits, strict=True) if hit
                    for name, number in p.items() if isinstance(number, int)
                }  # fmt: skip
                found.add((groups["file"], groups["line"], groups["message"]))
    return found


@pytest.mark.parametrize("name", ["no_empty_wait", "both_wait_first", "column_walk"])
def test_vs_code_finds_every_diagnostic(name):
    """A finding is one line, however long its title is: no terminal wraps what a task reads."""
    file = ROOT / "examples" / "broken" / f"{name}.py"
    reports = json.loads(wsemu("check", "--format", "json", "--fix-budget", "0", file, cwd=ROOT).stdout)["reports"]
    expected = {
        (site["file"], str(site["line"]), f"{finding['message']} (`{report['kernel']}`)")
        for report in reports for finding in report["findings"]
        for site in [next(site for site in finding["sites"] if site["primary"])]
    }  # fmt: skip
    assert expected
    assert matched(wsemu("check", "--format", "short", "--fix-budget", "0", file, cwd=ROOT).stdout) == expected


def test_vs_code_finds_what_does_not_compile(tmp_path):
    program = tmp_path / "wrong.py"
    program.write_text("from wsemu import cuda\n\n@cuda.jit\ndef k(x):\n    x[0] = nothing\n\nk[1, 32](0)\n")
    assert {line for _, line, _ in matched(wsemu("check", "--format", "short", str(program)).stdout)} == {"5"}


def test_the_tasks_run_commands_that_exist():
    tasks = json.loads((ROOT / "integrations" / "vscode" / "tasks.json").read_text(encoding="utf-8"))["tasks"]
    for task in tasks:
        assert task["args"][:2] == ["-m", "wsemu.cli"]
        assert f"wsemu {task['args'][2]}" in wsemu(task["args"][2], "--help").stdout


@pytest.mark.parametrize("file", sorted((ROOT / ".github" / "workflows").glob("*.yml")), ids=lambda file: file.name)
def test_actions_are_pinned_to_commits(file):
    used = re.findall(r"uses: (\S+)(.*)", file.read_text(encoding="utf-8"))
    assert used
    for action, comment in used:
        assert re.fullmatch(r"[\w-]+/[\w/-]+@[0-9a-f]{40}", action), action
        assert re.fullmatch(r" # v[\d.]+", comment), (action, comment)


def test_a_release_has_a_wheel_for_each_system_with_object_code():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["cibuildwheel"]
    systems = {("linux", "x86_64"): "manylinux_x86_64", ("linux", "aarch64"): "manylinux_aarch64",
               ("darwin", "arm64"): "macosx_arm64", ("win32", "AMD64"): "win_amd64"}  # fmt: skip
    assert systems.keys() == shipped.BASELINES.keys()
    assert settings["build"] == [f"cp311-{name}" for name in systems.values()]
    workflow = (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
    assert "runner: [ubuntu-24.04, ubuntu-24.04-arm, macos-15, windows-2025]" in workflow
    assert "if: startsWith(github.ref, 'refs/tags/v')" in workflow.partition("  publish:")[2]


def test_the_conda_recipe_wants_what_the_package_wants():
    text = (ROOT / "integrations" / "conda" / "meta.yaml").read_text(encoding="utf-8")
    text = re.sub(r"(?m)^\{%.*%\}$", "", text).replace("{{ version }}", "0").replace("{{ PYTHON }}", "python")
    recipe = yaml.safe_load(text)
    wanted = {re.sub(r"(?=[<>])", " ", name) for name in PROJECT["dependencies"]}
    assert {*recipe["requirements"]["run"]} == {*wanted, f"python {PROJECT['requires-python']}"}
    assert recipe["build"]["entry_points"] == [f"{name} = {target}" for name, target in PROJECT["scripts"].items()]
    assert recipe["about"]["doc_url"] == PROJECT["urls"]["Documentation"]
    assert f'version = "{__version__}"' in (ROOT / "integrations" / "conda" / "meta.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no file is given"),
        (["--"], "no file is given"),
        (["--fail-on", "bank-conflict"], "no file is given"),
        (["nothing.py"], "does not exist"),
        (["--limit", "3", "nothing.py"], "does not exist"),
        (["kernels/good.py", "nothing.py"], "does not exist"),
        (["none/**/*.py"], "no file matches `none/**/*.py`"),
        (["kernels/good.py", "none/*.py"], "no file matches `none/*.py`"),
        (["setup.py"], "no file names a kernel"),
        (["--sarif", "x.sarif", "setup.py"], "no file names a kernel"),
        (["launches"], "has no launch files"),
        (["none.ptx"], "does not exist"),
        (["none.json"], "cannot be read"),
    ],
)
def test_a_check_of_nothing_does_not_pass(project, words, said):
    (project / "launches").mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "wsemu.app.each", *words], check=False, capture_output=True, text=True, cwd=project
    )
    assert (done.returncode, said in " ".join((done.stdout + done.stderr).split())) == (2, True)


def test_a_report_that_cannot_be_written_is_wrong_usage_before_a_program_runs(project, capsys, monkeypatch):
    monkeypatch.chdir(project)
    monkeypatch.setattr(each, "run", lambda *_, **__: pytest.fail("a program was checked"))
    for file, reason in (("no/such/all.xml", "does not exist"), ("kernels", "Is a directory")):
        assert each.main(["--junit", file, "kernels/good.py"]) == 2
        assert reason in capsys.readouterr().err


def test_a_report_on_a_full_disk_is_wrong_usage(project, capsys, monkeypatch):
    monkeypatch.chdir(project)
    monkeypatch.setattr(each, "run", lambda *_, **__: (0, '<testsuites name="wsemu"/>'))
    monkeypatch.setattr(Path, "write_text", _raise_full)
    assert each.main(["--junit", "all.xml", "kernels/good.py"]) == 2
    assert "cannot write `all.xml`: No space left on device" in capsys.readouterr().err


def _raise_full(*_, **__):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


PROGRAMS = {
    "softmax": "import torch\nimport triton\n",
    "tl": "    from triton import language as tl\n",
    "total": "import cupy as cp\n",
    "core": "from cuda.core import Device\n",
    "main": "import torch\nfrom kernels import add\nadd(torch.ones(3, device='cuda'))\n",
    "extension": "from torch.utils.cpp_extension import load\n",
    "imports_module": "from kernels import matrix\nmatrix.run()\n",
    "imports_name": "import helpers\nhelpers.run()\n",
}
MODULES = {
    "kernels/__init__": "",
    "kernels/matrix": "from .tiles import product\n",
    "kernels/tiles": "from numba import cuda\n@cuda.jit\ndef product(x):\n    pass\n",
    "helpers": "import kernels.tiles\n",
    "kernels/plain": "import helpers_of_others\n",
}
SKIPPED = {
    "plain": "import numpy\n",
    "train": "import torch\nprint(torch.ones(3))\n",
    "named": "import triton_like\n",
    "imports_plain": "import kernels.plain\n",
}


def test_each_checks_programs_on_the_driver_and_names_what_it_skips(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kernels").mkdir()
    for name, text in {**PROGRAMS, **SKIPPED, **MODULES}.items():
        (tmp_path / f"{name}.py").write_text(text)
    checked = []

    def run(_, file, **__):
        checked.append(file)
        return 3, ""

    monkeypatch.setattr(each, "run", run)
    assert each.main(["*.py"]) == 3
    assert checked == sorted(f"{name}.py" for name in (*PROGRAMS, "helpers"))
    notes = capsys.readouterr().err.splitlines()
    assert notes == [f"note: `{name}.py` is skipped: it names no kernel" for name in sorted(SKIPPED)]


def test_each_prints_its_help(capsys):
    assert each.main(["--help"]) == 0
    assert "--junit FILE" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["good.py", "--arch"], "option '--arch' requires an argument"),
        (["good.py", "--arch="], "option '--arch' requires an argument"),
        (["good.py", "--sarif"], "option '--sarif' requires an argument"),
        (["good.py", "--sarif="], "option '--sarif' requires an argument"),
        (["good.py", "--sarif", "--strict"], "option '--sarif' requires an argument"),
        (["good.py", "--sarif", "good.py"], "`good.py` is an input"),
        (["--sarif", "good.py"], "`good.py` is an input"),
    ],
)
def test_options_without_a_value_are_wrong_usage(project, words, said):
    shutil.copy(GOOD, project / "good.py")
    done = subprocess.run(
        [sys.executable, "-m", "wsemu.app.each", *words], check=False, capture_output=True, text=True, cwd=project
    )
    assert (done.returncode, said in " ".join(done.stderr.split())) == (2, True), done.stderr
    assert (project / "good.py").read_bytes() == GOOD.read_bytes()


def test_files_of_any_name_are_files(project):
    shutil.copy(BROKEN, project / "--strict.py")
    shutil.copy(GOOD, project / "[a].py")
    for words in (["--", "--strict.py"], ["./--strict.py"], ["*.py"], ["--limit", "9", "--", "--strict.py", "[a].py"]):
        done = subprocess.run(
            [sys.executable, "-m", "wsemu.app.each", *words], check=False, capture_output=True, text=True, cwd=project
        )
        assert (done.returncode, "error[race]" in done.stdout) == (1, True), done.stdout + done.stderr


def test_launch_files_and_ptx_are_checked(project):
    shutil.copy(ROOT / "docs" / "programs" / "sums.ptx", project / "kernels")
    launch = {"ptx": "sums.ptx", "entry": "sums<true>", "grid": [1], "block": [64]}
    (project / "kernels" / "a.json").write_text(
        json.dumps(launch | {"args": ["f32[3,32]:ones", "f32[32]:empty", "i32:3"]})
    )
    for words in (["kernels/a.json", "--format", "json"], ["--format=json", "kernels"], ["kernels/*.json"]):
        done = subprocess.run(
            [sys.executable, "-m", "wsemu.app.each", *words], check=False, capture_output=True, text=True, cwd=project
        )
        assert done.returncode in (0, 1), done.stdout + done.stderr
        assert "sums" in done.stdout


def test_each_notes_modules_that_launch_nothing(tmp_path):
    (tmp_path / "kernels.py").write_text("from wsemu import cuda\n@cuda.jit\ndef one(x):\n    x[0] = 1\n")
    launching = "import numpy as np\nfrom kernels import one\n# cuda.jit\none[1, 1](np.zeros(1))\n"
    (tmp_path / "main.py").write_text(launching)

    def run(*words: str) -> tuple[int, str, str]:
        done = subprocess.run(
            [sys.executable, "-m", "wsemu.app.each", *words], check=False, capture_output=True, text=True, cwd=tmp_path
        )
        return done.returncode, done.stdout, done.stderr

    note = "note: `kernels.py` launched no kernel: nothing was checked\n"
    code, out, _ = run("kernels.py", "main.py")
    assert (code, note in out) == (0, True)
    code, _, errors = run("--junit", "all.xml", "kernels.py", "main.py")
    assert (code, errors) == (0, note)
    code, _, errors = run("kernels.py")
    assert (code, "error: no file launches a kernel, so nothing was checked" in errors) == (2, True)
    assert run("--allow-no-kernels", "kernels.py")[0] == 0
