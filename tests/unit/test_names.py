"""Names of files and kernels, and reasons, that would speak: to a terminal, to GitHub, to a page, to a reader of SARIF
or JUnit.  Here they go through whole commands; `test_formats.py` has every field of a report."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

import pytest

from wsemu.app import commands, trace_program
from wsemu.model.errors import KernelError, UsageError, WsemuError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytest_plugins = ["pytester"]

NAMES = {
    "terminal": "\x1b[2J\x1b]0;title\x07\x9b2J",
    "lines": "a\n::error::b\r##[error]c",
    "github": "%0A::error file=x::y,z",
    "html": "\"'><script>alert(1)<b>&amp;",
    "markdown": "[x](javascript:alert(1)) ![y](z) `q` | r",
    "bidirectional": "\u202efdp\u2066",
}
PROGRAM = """\
import numpy as np
from wsemu import cuda

@cuda.jit
def kernel(x, y):
    y[0] = x[cuda.threadIdx.x]  # wsemu: ignore[intra-warp-race] {reason}
    y[1] = 1

kernel.__name__ = kernel.py_func.__name__ = {name!r}
kernel[1, 64](np.arange(64), np.zeros(64, np.int64))
{more}
"""


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return NAMES[request.param]


@pytest.fixture
def said(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    """said(format, more) is what `wsemu check` prints of a program full of the name, which ends with `more`."""
    monkeypatch.chdir(tmp_path)

    def check(format_: str, more: str = "") -> str:
        file = tmp_path / f"{name.replace('/', '_')}.py"
        file.write_text(PROGRAM.format(reason=re.sub(r"[\r\n]", " ", name), name=name, more=more), newline="")
        entry = f'code = "deadlock"\nfile = "*"\nreason = {json.dumps(name)}\n'
        (tmp_path / "pyproject.toml").write_text(f"[[tool.wsemu.suppress]]\n{entry}")
        code = commands.check(file, [], {"format": format_}, {}, quiet=False)
        out = capsys.readouterr().out
        assert code == 1
        assert out
        return out

    return check


def tame(text: str) -> bool:
    return all(character.isprintable() or character == "\n" for character in text)


ENDS = ["raise ValueError(__file__ + kernel.__name__)", "kernel[1, 1]()"]


@pytest.mark.parametrize("more", ENDS)
def test_text_moves_no_cursor(said: Callable[..., str], more: str) -> None:
    assert tame(said("text", more))


@pytest.mark.parametrize("more", ENDS)
def test_annotations_are_ours_alone(said: Callable[..., str], more: str) -> None:
    text = said("github", more)
    assert tame(text)
    command = re.compile(r"::(error|warning) ((file|line|endLine|col|endColumn|title)=[^:,]*,?)+::[^\r\n]*")
    lines = text.split("\n")
    assert any(line.startswith("::error ") for line in lines)
    for line in lines:
        if line.lstrip().startswith(("::", "##[")):
            assert command.fullmatch(line), line
            assert not re.search(r"%(?!25|0A|0D|3A|2C)", line), line


def strings(document: Any) -> list[str]:
    """All strings of a document, its keys included."""
    if isinstance(document, dict):
        return [text for key, value in document.items() for text in (key, *strings(value))]
    if isinstance(document, list):
        return [text for item in document for text in strings(item)]
    return [document] if isinstance(document, str) else []


def messages(document: Any) -> list[str]:
    """The texts of all messages of a SARIF log, in which `[name](place)` is a link."""
    if isinstance(document, list):
        return [text for item in document for text in messages(item)]
    if not isinstance(document, dict):
        return []
    own = [document["message"]["text"]] if "message" in document else []
    return own + [text for value in document.values() for text in messages(value)]


@pytest.mark.parametrize("format_", ["json", "sarif"])
@pytest.mark.parametrize("more", ENDS)
def test_documents_are_ascii_without_html(said: Callable[..., str], format_: str, more: str) -> None:
    text = said(format_, more)
    assert tame(text)
    assert text.isascii()
    assert not set("<>&") & set(text)
    assert json.loads(text)["wsemu" if format_ == "json" else "runs"]


def test_messages_of_sarif_have_no_links(said: Callable[..., str]) -> None:
    run = json.loads(said("sarif", ENDS[0]))["runs"][0]
    assert run["results"]
    assert all(tame(text) for text in strings(run))
    assert not [text for text in messages(run) if "](" in text]
    for result in run["results"]:
        uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        assert re.fullmatch(r"[\w.%/~-]+", uri, re.ASCII)


class Page(HTMLParser):
    """The elements and attributes of a page, and its text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {key for key, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data


def page_of(file: Path, tmp_path: Path) -> Page:
    output = tmp_path / "made.html"
    trace_program.run(file, [], {}, trace_program.Wanted(output=output), {})
    text = output.read_text(encoding="utf-8")
    assert tame(text)
    page = Page()
    page.feed(text)
    return page


def test_pages_have_no_elements_from_names(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    plain, file = tmp_path / "plain.py", tmp_path / f"{name.replace('/', '_')}.py"
    plain.write_text(PROGRAM.format(reason="known", name="kernel", more=""))
    file.write_text(PROGRAM.format(reason=re.sub(r"[\r\n]", " ", name), name=name, more=""), newline="")
    made, usual = page_of(file, tmp_path), page_of(plain, tmp_path)
    assert (made.tags, made.attributes) == (usual.tags, usual.attributes)
    assert "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in name[:4]) in made.text
    assert tame(capsys.readouterr().out)


def test_junit_has_no_control_characters(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        "import numpy as np\nimport pytest\nfrom wsemu import cuda\n\n"
        "@cuda.jit\ndef kernel(x):\n    x[0] = cuda.threadIdx.x\n\n"
        f"NAMES = {list(NAMES.values())!r}\n"
        "@pytest.mark.parametrize('number', range(len(NAMES)))\n"
        "@pytest.mark.parametrize('arguments', [(np.zeros(1),), ()])\n"
        "def test_it(wsemu, number, arguments):\n"
        "    kernel.__name__ = kernel.py_func.__name__ = NAMES[number]\n"
        "    wsemu.launch(kernel, 1, 64, arguments)\n"
    )
    installed = any(entry.value == "wsemu.pytest_plugin" for entry in entry_points(group="pytest11"))
    plugin = () if installed else ("-p", "wsemu.pytest_plugin")
    done = pytester.runpytest_inprocess(*plugin, "--junitxml=junit.xml", "-p", "no:cacheprovider", "--tb=short")
    done.assert_outcomes(failed=2 * len(NAMES))
    text = (pytester.path / "junit.xml").read_text(encoding="utf-8")
    assert tame(text)
    assert "#x1B" not in text  # what pytest makes of it
    suite = ElementTree.fromstring(text)
    assert {element.tag for element in suite.iter()} <= {
        "testsuites", "testsuite", "testcase", "failure", "properties", "property", "system-out",
    }  # fmt: skip


@pytest.mark.parametrize("error", [WsemuError, UsageError, KernelError])
def test_errors_are_fit_for_a_terminal(name: str, error: type[WsemuError]) -> None:
    assert tame(str(error(f"kernel `{name}`\nis wrong")))
    assert str(error("two\nlines")) == "two\nlines"
