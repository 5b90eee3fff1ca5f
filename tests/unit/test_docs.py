"""The documentation: what it shows is what `wsemu` prints, its programs run, and nothing is missing that belongs there.

    $ command           in a block of README.md or of a page: it is run, and the lines below it are its output; those of
                        one block run in one folder
    [...]               in an output stands for any lines, or none; findings are paragraphs, left out as a whole
    ```python           blocks of a page, put together, are a program that runs in docs/programs; of the README, those
                        that import

Commands of the README run in the checkout, those of a page in a copy of docs/programs.  Times are not compared.
`pytest --bless` writes the outputs of today: of an output with `[...]`, the paragraphs
that begin as before.
"""

from __future__ import annotations

import inspect
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import textwrap
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.commands import Done, python
from tests.commands import wsemu as typed
from wsemu.machine.build import COMPILING
from wsemu.model import settings as launch_settings
from wsemu.model.codes import CHECKERS, CODES

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))
FENCED = re.compile(r"(?ms)^```\w*\n(\$ .*?)^```$")
INDENTED = re.compile(r"(?m)^    \$ .+\n(?:(?:    .*)?\n)*")
COMMAND = re.compile(r"(?m)^\$ (.+)\n((?:(?!\$ ).*\n)*)")
PYTHON = re.compile(r"(?ms)^```python\n(.*?)^```$")
IMPORTING = re.compile(r"(?m)^    (?:import|from) .*\n(?:(?:    .*)?\n)*")
LEFT_OUT = "[...]"
PLUGIN = () if entry_points(group="pytest11", name="wsemu") else ("-p", "wsemu.pytest_plugin")
"""for a checkout that is not installed"""
TIME = re.compile(r"\b\d+\.\d\d ?s\b(?: \(\d+:\d\d:\d\d\))?")


class Transcript(NamedTuple):
    """Commands that a page shows in one block, and what it says that each prints."""

    page: Path
    parts: tuple[tuple[str, str], ...]

    @property
    def folder(self) -> Path:
        """Where the commands run, or what a copy of that has."""
        return DOCS / "programs" if self.page.parent == DOCS else ROOT

    def text(self) -> str:
        """As it stands on the page."""
        indent = "" if self.page.parent == DOCS else "    "
        lines = "".join(f"$ {command}\n{shown}" for command, shown in self.parts).splitlines()
        return "".join(f"{indent}{line}".rstrip() + "\n" for line in lines)

    def __str__(self) -> str:
        return f"{self.page.name}: {self.parts[-1][0]}"


def transcripts(page: Path) -> list[Transcript]:
    text = page.read_text(encoding="utf-8")
    blocks = [match[1] for match in FENCED.finditer(text)]
    if page.parent != DOCS:
        blocks = [textwrap.dedent(match[0]).strip("\n") + "\n" for match in INDENTED.finditer(text)]
    return [Transcript(page, tuple((m[1], m[2]) for m in COMMAND.finditer(block))) for block in blocks]


SHOWN = [transcript for page in (ROOT / "README.md", *PAGES) for transcript in transcripts(page)]


def _pytest(*arguments: str, cwd: Path) -> Done:
    environment = {**os.environ, "NO_COLOR": "1", "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    environment["CI"] = "1"  # Hypothesis sets no deadlines then: a busy machine is no fault of the page
    for variable in ("PYTEST_ADDOPTS", "PYTEST_CURRENT_TEST", "PYTEST_XDIST_WORKER"):
        environment.pop(variable, None)
    command = [sys.executable, "-m", "pytest", *PLUGIN, "-p", "no:cacheprovider", "--wsemu-fix-budget=0", *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, cwd=cwd, env=environment)


def _python(file: str, *arguments: str, cwd: Path) -> Done:
    return python(cwd / file, *arguments, cwd=cwd)


RUN: dict[str, Callable[..., Done]] = {"wsemu": typed, "python": _python, "pytest": _pytest}


def output(command: str, folder: Path, monkeypatch: pytest.MonkeyPatch, *, tried: bool = False) -> str:
    """What a command prints, without what depends on the machine; edits are `tried` where the page shows one."""
    command, _, file = command.partition(" > ")
    name, *arguments = shlex.split(command)
    if tried:
        monkeypatch.setattr(launch_settings, "FIX_BUDGET", 60.0)  # however busy the machine is
    done = RUN[name](*arguments, cwd=folder)
    assert done.stderr.replace(f"{COMPILING}\n", "") == ""
    assert done.returncode in (0, 1, 3), done.stdout
    if file:
        (folder / file).write_text(done.stdout, encoding="utf-8")
    return "" if file else done.stdout


def pattern(shown: str) -> str:
    """A regular expression for the output that a page shows."""
    parts = [re.escape(part) for part in TIME.sub("0.00 s", shown).split(f"{LEFT_OUT}\n")]
    return r"(?:.*\n)*?".join(parts)


def excerpt(shown: str, said: str) -> str:
    """The output, less the paragraphs that are left out of what is shown."""
    if LEFT_OUT not in shown:
        return said
    paragraphs = said.rstrip("\n").split("\n\n")
    titles = [paragraph.partition("\n")[0] for paragraph in paragraphs]
    wanted = set()
    for part in re.split(rf"{re.escape(LEFT_OUT)}\n|\n\n", shown):
        title = part.partition("\n")[0]
        code = title.partition(":")[0]
        renamed = next((other for other in titles if other.startswith(f"{code}:")), title) if code else title
        wanted.add(title if title in titles else renamed)
    made, gap = [], False
    for paragraph, title in zip(paragraphs, titles, strict=True):
        keep = title in wanted
        if keep:
            made.append(f"{LEFT_OUT}\n{paragraph}" if gap else paragraph)
        gap = not keep
    return "\n\n".join([*made, *[LEFT_OUT] * gap]) + "\n"


def blessed(shown: str, said: str) -> str:
    """What to show from now on; times stay as they are."""
    times = iter(TIME.findall(shown))
    return TIME.sub(lambda time: next(times, time[0]), excerpt(shown, said))


@pytest.mark.parametrize("transcript", SHOWN, ids=str)
def test_a_command_prints_what_is_shown(
    transcript: Transcript, tmp_path: Path, bless: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = transcript.folder
    if folder != ROOT:
        folder = shutil.copytree(folder, tmp_path / "programs")
    now = []
    for command, shown in transcript.parts:
        said = output(command, folder, monkeypatch, tried="help: proven" in shown)
        same = re.fullmatch(pattern(shown), TIME.sub("0.00 s", said))
        assert same or bless, f"shown:\n{shown}\nprinted:\n{said}"
        now.append((command, shown if same else blessed(shown, said)))
    if bless:
        page = transcript.page.read_text(encoding="utf-8")
        page = page.replace(transcript.text(), transcript._replace(parts=tuple(now)).text())
        transcript.page.write_text(page, encoding="utf-8")


def program_of(page: Path) -> str:
    """The program that the blocks of a page make."""
    text = page.read_text(encoding="utf-8")
    return "\n".join(PYTHON.findall(text)) or "\n".join(textwrap.dedent(block) for block in IMPORTING.findall(text))


@pytest.mark.parametrize(
    "page", [page for page in (ROOT / "README.md", *PAGES) if program_of(page)], ids=lambda p: p.name
)
def test_the_python_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / f"{page.stem}.py"
    program.write_text(program_of(page), encoding="utf-8")
    monkeypatch.chdir(DOCS / "programs")
    runpy.run_path(str(program))


def test_every_program_is_on_a_page() -> None:
    told = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert [path.name for path in sorted((DOCS / "programs").glob("*.[pc][yu]")) if path.name not in told] == []


def with_all_codes(index: str) -> str:
    """The page of all codes: one that is in no table stands in that of the code before it in the registry."""
    heads = re.split(r"(?m)^(?=## |```\{toctree)", index)
    table_of = {code: n for n, part in enumerate(heads) for code in re.findall(r"(?m)^\| \[`([\w-]+)`\]", part)}
    rows: dict[int, str] = dict.fromkeys(table_of.values(), "")
    at = min(rows)
    for code in (code for codes in CHECKERS.values() for code in codes):
        at = table_of.get(code, at)
        entry = CODES[code]
        rows[at] += f"| [`{code}`]({code}.md) | {entry.severity} | {entry.meaning} |\n"
    for n, lines in rows.items():
        heads[n] = re.sub(r"(?m)(^\| \[`.*\n)+", lambda _, lines=lines: lines, heads[n])
    listed = re.findall(r"(?m)^\| \[`([\w-]+)`\]", "".join(heads))
    heads[-1] = re.sub(r"(?s)(?<=:hidden:\n\n).*(?=```)", "".join(f"{code}\n" for code in listed), heads[-1])
    return "".join(heads)


def test_every_code_has_a_page(bless: bool) -> None:
    """Pages of the site and their index follow from the registry: `--bless` writes them."""
    pages = {f"{code}.md": f"```{{include}} ../../checkers/pages/{code}.md\n```\n" for code in CODES}
    folder = DOCS / "codes"
    pages["index.md"] = with_all_codes((folder / "index.md").read_text(encoding="utf-8"))
    if bless:
        for name, text in pages.items():
            (folder / name).write_text(text, encoding="utf-8")
    assert {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.md")} == pages


def test_every_page_is_in_the_table_of_contents() -> None:
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    entries = set(re.findall(r"(?m)^(?:\w+ <)?([a-z_]+)>?$", index))
    assert {page.stem for page in PAGES} - {"index"} <= entries


def test_every_command_and_option_is_on_its_page() -> None:
    from typer.main import get_command

    from wsemu.app.command_line import app

    page = (DOCS / "commands.md").read_text(encoding="utf-8")
    commands = get_command(app).commands  # type: ignore[attr-defined]
    assert [name for name in commands if f"| `wsemu {name} " not in page and f"| `wsemu {name}`" not in page] == []
    flags = [(option.opts, option.secondary_opts) for option in commands["check"].params if option.opts[0][:2] == "--"]
    assert [opts for opts in flags if not any(f"`{flag}" in page for part in opts for flag in part)] == []


def test_every_public_name_is_in_the_reference() -> None:
    import wsemu

    page = (DOCS / "api.md").read_text(encoding="utf-8")
    assert [name for name in wsemu.__all__ if not re.search(rf"wsemu\.{name}\b", page)] == []


def test_every_parameter_stands_in_the_table_of_the_reference() -> None:
    import wsemu

    page = (DOCS / "api.md").read_text(encoding="utf-8")
    told = set(re.findall(r"`(\w+)`", " ".join(re.findall(r"(?m)^\| (`[^|]*) \|", page))))
    functions = (wsemu.check, wsemu.check_transfer, wsemu.crosscheck, wsemu.trace, wsemu.replay)
    assert {name for function in functions for name in inspect.signature(function).parameters} <= told


def test_links_of_the_readme_work_where_only_the_readme_is() -> None:
    """As on a package index: they are whole, and what they lead to is here."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    names = dict(re.findall(r"(?m)^\[([\w-]+)\]: (\S+)$", text))
    used = re.findall(r"\]\[([\w-]+)\]", re.sub(r"(?m)^    .*$", "", text))
    assert set(used) == names.keys()
    assert not re.search(r"\]\((?!https://)(?!\*)[\w./]+\)", re.sub(r"(?m)^    .*$", "", text))
    for address in names.values():
        path = address.removeprefix("https://github.com/wsemu/wsemu/blob/main/")
        assert (ROOT / path).is_file(), address


def test_pictures_are_those_of_today() -> None:
    drawn = runpy.run_path(str(DOCS / "pictures" / "traces.py"))
    for theme in drawn["THEMES"]:
        for name, made in drawn["pictures"](theme).items():
            file = DOCS / "pictures" / f"{name}-{theme}.svg"
            assert file.read_text(encoding="utf-8") == made, "run `python docs/pictures/traces.py`"


def test_each_word_of_the_glossary_stands_in_its_order() -> None:
    text = (DOCS / "glossary.md").read_text(encoding="utf-8")
    words = re.findall(r"(?m)^([\w ,_-]+)\n  \S", text)
    assert len(words) > 40
    assert [w.casefold() for w in words] == sorted(w.casefold() for w in words)
    assert set(re.findall(r"\{term}`[^<`]*<(\w+)>`", text)) <= {word for entry in words for word in entry.split(", ")}


def test_the_version_is_the_same_everywhere() -> None:
    import wsemu

    assert f"\nversion: {wsemu.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\n## {wsemu.__version__} - " in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
