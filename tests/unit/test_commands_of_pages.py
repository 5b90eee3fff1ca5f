"""Every command of every page: it runs, or it is marked, and its options exist.

    $ command                  `test_docs.py` runs it and compares its output
    command                    in a block: it runs, in a copy of docs/programs (those of the README in the checkout)
    command  # needs a GPU     it is not run: NEEDS has the reasons; `data/commands_not_run.txt` lists them (`--bless`)
    pip install ...            not run either; its extras exist
    `wsemu command --option`   in a sentence: the parser knows the command and its options

Options of commands that are not run, and of those in sentences, go through the parser of the command.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.commands import python
from tests.commands import wsemu as typed
from wsemu.app import command_line  # noqa: F401 - declares the commands
from wsemu.app.declared import declared_commands
from wsemu.app.each import split

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
LIST = ROOT / "tests" / "data" / "commands_not_run.txt"
PAGES = [
    ROOT / "README.md",
    *sorted(p for p in DOCS.rglob("*.md") if p.parent.name != "codes"),
    *sorted((ROOT / "checkers" / "pages").glob("*.md")),
]
NEEDS = ("Coq", "a GPU", "a cluster", "a network", "npm", "nvcc", "VS Code", "your files", "your shell")
PROGRAMS = (
    "wsemu python python3 pytest pip pipx uvx npm npx code cmake ctest nvcc make dask srun export cd docker conda git"
).split()
MARK = re.compile(r"  # needs ([^:]+)(?:: .*)?$")
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]


class Shown(NamedTuple):
    """A command in a block of a page."""

    page: str
    line: int
    text: str
    needs: str
    """what keeps it from being run; empty: nothing"""

    def __str__(self) -> str:
        return f"{self.page}: {self.text}"


def commands_in_blocks() -> list[Shown]:
    """The commands in blocks of text, shell or YAML, without those that `test_docs.py` runs."""
    found = []
    for page in PAGES:
        fence: str | None = None
        for number, line in enumerate(page.read_text(encoding="utf-8").split("\n"), 1):
            if match := re.match(r"\s*```(\S*)", line):
                fence = match[1] if fence is None else None
                continue
            if fence in ("", "text", "yaml", "sh") or (fence is None and line.startswith("    ")):
                found += [*_command(page, number, line)]
    return found


def _command(page: Path, number: int, line: str) -> list[Shown]:
    text = re.sub(r"^\s*(?:- )?(?:run: )?", "", line)
    mark = MARK.search(text)
    command = text[: mark.start()] if mark else text
    first = re.sub(r"^(?:[A-Z_]+=(?:\"[^\"]*\"|\S+) )+", "", command).split(" ")[0]
    if first not in PROGRAMS:
        return []
    return [Shown(page.relative_to(ROOT).as_posix(), number, command.rstrip(), mark[1] if mark else "")]


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Options such as `--tier` set variables when they are read."""
    monkeypatch.setattr(os, "environ", os.environ.copy())


SHOWN = commands_in_blocks()
INSTALLS = ("pip install", "python -m venv")
THESE_TESTS = "pytest"
"""the command of the README that runs all tests, this one included"""


def parts(command: str) -> list[str]:
    """The commands between `&&`, without installations, redirections and what handles an exit code."""
    found = (re.split(r" > | \|\| | &$", part)[0].strip() for part in command.split(" && "))
    return [part for part in found if not part.startswith(INSTALLS) and part != THESE_TESTS]


ELSEWHERE = {"docs/cmake.md": "test_cmake_builds_and_checks_without_a_gpu"}
"""page -> test in `test_integrations.py` that runs its commands"""
RUN = [shown for shown in SHOWN if not shown.needs and parts(shown.text) and shown.page not in ELSEWHERE]


@pytest.mark.parametrize("shown", RUN, ids=str)
def test_a_command_without_a_mark_runs(shown: Shown, tmp_path: Path) -> None:
    folder = ROOT if shown.page == "README.md" else shutil.copytree(DOCS / "programs", tmp_path / "programs")
    for part in parts(shown.text):
        name, *words = shlex.split(part)
        done = typed(*words, cwd=folder) if name == "wsemu" else python(folder / words[0], *words[1:], cwd=folder)
        assert name in ("wsemu", "python")
        assert done.returncode in (0, 1, 3), done.stdout + done.stderr


def test_the_reasons_are_known_and_the_list_is_that_of_today(bless: bool) -> None:
    marked = [shown for shown in SHOWN if shown.needs]
    assert {shown.needs for shown in marked} <= set(NEEDS)
    text = "".join(f"{shown.page}: needs {shown.needs}: {shown.text}\n" for shown in marked)
    if bless:
        LIST.write_text(text, encoding="utf-8")
    assert LIST.read_text(encoding="utf-8") == text, "run `pytest --bless` on this test"


@pytest.mark.parametrize("shown", [s for s in SHOWN if s.needs and re.search(r"\bwsemu\b", s.text)], ids=str)
def test_options_of_a_marked_command_exist(shown: Shown) -> None:
    for part in parts(shown.text):
        words = shlex.split(re.sub(r"\$\{\{[^}]*\}\}|\$\([^)]*\)", "1", part))
        if words[:3] == [words[0], "-m", "wsemu.app.each"]:
            own = [word for word in words if word in ("--allow-incomplete", "--allow-no-kernels")]
            words = shlex.split(re.sub(r"--(sarif|junit|gitlab)[ =]\S+", "", shlex.join(words)))
            options, files = split([word for word in words[3:] if word not in own])
            assert files
            parse(["check", *options, "FILE"])
        elif words[0] == "wsemu" or words[:3] == ["python", "-m", "wsemu"]:
            parse(words[words.index("wsemu") + 1 :])


IN_SENTENCES = sorted(
    {
        (page.relative_to(ROOT).as_posix(), span.replace("\\|", "|"))
        for page in PAGES
        for text in [re.sub(r"(?ms)^```.*?^```|^    .*?$", "", page.read_text(encoding="utf-8"))]
        for span in re.findall(r"`(wsemu [a-z-][^`]*)`", text.replace("\n", " "))
    }
)


@pytest.mark.parametrize(("page", "text"), IN_SENTENCES)
def test_a_command_in_a_sentence_exists(page: str, text: str) -> None:
    parse(shlex.split(text)[1:])


def parse(words: list[str]) -> None:
    """Read a command and its options; a sentence may leave out the operand."""
    if words[0] in ("--version", "--help", "--install-completion", "--show-completion", "COMMAND"):
        return
    command = declared_commands()[words[0]]
    for added in ([], ["FILE"], ["FILE", "FILE"]):
        try:
            with command.make_context(words[0], [*words[1:], *added]):
                return
        except Exception as error:
            if type(error).__name__ != "MissingParameter":
                raise
    pytest.fail(f"`{' '.join(words)}` lacks more than its operands")


def test_extras_of_installations_exist() -> None:
    for shown in SHOWN:
        for names in re.findall(r"(?:wsemu|\.)\[([\w,]+)\]", shown.text):
            assert set(names.split(",")) <= EXTRAS.keys(), shown


def test_this_finds_commands() -> None:
    integrations = (ROOT / "tests" / "unit" / "test_integrations.py").read_text(encoding="utf-8")
    assert all(f"def {test}(" in integrations for test in ELSEWHERE.values())
    assert len(SHOWN) > 50
    assert len(IN_SENTENCES) > 60
    assert {shown.text for shown in RUN} >= {"wsemu doctor", "pip install -e . && wsemu check examples/sgemv.py"}


def test_an_option_that_does_not_exist_is_an_error() -> None:
    for words in (["check", "--formt", "json"], ["time", "--device"], ["explain", "race", "--all"]):
        with pytest.raises(Exception, match=r"(?i)no such option|requires an argument"):
            parse(words)
    with pytest.raises(KeyError):
        parse(["chek"])
