"""Fixes of findings between launches: waits that are inserted into a host program, and tried by running it again.

For each finding, an edit makes the later operation wait for the earlier one: by an event between their streams, or by a
host wait for the earlier stream or for the device.  A new process runs the edited program.  An edit is kept if the
finding is gone and no new error appears.
"""

from __future__ import annotations

import ast
import difflib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wsemu.app.program_file import read_source
from wsemu.app.pyproject import FILE, find
from wsemu.model.cure import Change, Cure, Edit, lines_of
from wsemu.model.data import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from wsemu.launch.result import Report
    from wsemu.model.finding import Finding

    Errors = Counter[tuple[str, str, str]]
    """kernel, code and message of each error"""

MOST_RUNS = 24
"""maximum number of runs of edited programs"""
SECONDS = 120
"""maximum duration of a run"""
_BY_WAITS = ("stream-race", "host-race", "freed-in-use", "managed-access")
_OF_OUTPUT = frozenset("all baseline certificate format limit save-launches save-witness statistics suppress".split())
"""settings that a run of an edited program does not get: they write files, or leave out findings"""
_PROOF = "the program has no such finding"


class _Statement(NamedTuple):
    """A statement of the program."""

    line: int
    indent: str
    stream: str | None
    """expression of the stream of its operation"""
    inside: bool = False
    """true if waits go to the end of its body"""


def find_order_fix(reports: list[Report], rerun: Rerun) -> Cure | None:
    """Return edits of the program that remove findings between its launches; None if no edit removes one.  A finding in
    a module that the program imports gets no edit, because only the text of the program itself can be replaced."""
    found: list[tuple[str, Finding]] = []
    for report in reports:
        for finding in report.findings:
            place = next((site.file for site in finding.sites if site.primary), "")
            if finding.code in _BY_WAITS and place and rerun.is_of_program(place):
                found.append((place, finding))
    if not found or rerun.file.suffix != ".py" or not rerun.file.is_file():
        return None
    file = found[0][0]
    findings = [finding for place, finding in found if place == file]
    try:
        text = read_source(rerun.file)[0].replace("\r\n", "\n")
        tree = ast.parse(text)
    except (SyntaxError, UnicodeDecodeError):  # the file has changed since it ran
        return None
    before = rerun(text)
    edits: list[Edit] = []
    runs = 0
    for finding in findings:
        if before is None or runs >= MOST_RUNS:
            break
        if not any(code == finding.code and message == finding.message for _, code, message in before):
            continue  # an earlier edit has removed it
        for edit in _edits(finding, file, text, tree, len(edits)):
            runs += 1
            after = rerun(_build_cure(file, text, [*edits, edit]).applied(text))
            if after is not None and not after - before and sum(after.values()) < sum(before.values()):
                edits, before = [*edits, edit], after
                break
    if not edits:
        return None
    return _build_cure(file, text, edits, left=bool(before))


def _build_cure(file: str, text: str, edits: list[Edit], *, left: bool = False) -> Cure:
    """Return the edits as one fix."""
    cure = Cure(file=file, edits=_merge(edits), diff=[], proof=_PROOF if not left else "other findings are left")
    old, new = text.splitlines(), cure.applied(text).splitlines()
    diff = [*difflib.unified_diff(old, new, n=2, lineterm="")][2:]
    return cure.model_copy(update={"diff": diff})


def _merge(edits: list[Edit]) -> list[Edit]:
    """Return a selection of the edits in which no two insert before the same line."""
    merged: dict[tuple[int, int], Edit] = {}
    for edit in edits:
        (change,) = edit.changes
        known = merged.get((change.line, change.column))
        if known is not None:
            (first,) = known.changes
            both = change.model_copy(update={"text": first.text + change.text})
            edit = edit.model_copy(update={"says": f"{known.says}, and {edit.says}", "changes": [both]})
        merged[change.line, change.column] = edit
    return [*merged.values()]


def _edits(finding: Finding, file: str, text: str, tree: ast.Module, number: int) -> Iterator[Edit]:
    """Yield the edits that may order the two operations of a finding, starting with those that wait least."""
    statements: dict[str, _Statement] = {}
    for site in finding.sites:
        if site.file == file and site.text[:3] in ("(1)", "(2)"):
            statement = _find_statement(text, tree, site.line)
            if statement is not None:
                statements.setdefault(site.text[:3], statement)
    module = _cuda_name(tree)
    if "(2)" not in statements or module is None:
        return
    first, second = statements.get("(1)"), statements["(2)"]
    waits: list[list[str]] = []
    if first is not None and first.stream is not None:
        if second.stream is not None and finding.code == "stream-race":
            event = _new_name("ordered", number, text)
            made = [f"{event} = {module}.event()", f"{event}.record({first.stream})", f"{event}.wait({second.stream})"]
            waits.append(made)
        waits.append([f"{first.stream}.synchronize()"])
    waits.append([f"{module}.synchronize()"])
    for lines in waits:
        where = "at the end of the block of" if second.inside else "before"
        yield Edit(
            kind="insert",
            says=f"insert `{'; '.join(lines)}` {where} line {second.line}",
            changes=[_insertion(file, text, second, lines, tree)],
        )


def _new_name(word: str, number: int, text: str) -> str:
    """Return a name, numbered from `number` on, that a text does not contain."""
    name = f"{word}{number or ''}"
    return name if not re.search(rf"\b{name}\b", text) else _new_name(word, number + 1, text)


def _insertion(file: str, text: str, statement: _Statement, lines: list[str], tree: ast.Module) -> Change:
    """Return the insertion of lines before a statement, or at the end of its body."""
    line, indent = statement.line, statement.indent
    if statement.inside:
        block = next(node for node in ast.walk(tree) if isinstance(node, ast.With) and node.lineno == statement.line)
        line, indent = (block.end_lineno or line) + 1, " " * block.body[0].col_offset
    added = "".join(f"{indent}{one}\n" for one in lines)
    if line > len(lines_of(text)) and not text.endswith("\n"):
        added = "\n" + added
    return Change(file=file, line=line, column=1, end_line=line, end_column=1, text=added)


def _find_statement(text: str, tree: ast.Module, line: int) -> _Statement | None:
    """Return the innermost statement of the program that contains a line."""
    found = [
        node for node in ast.walk(tree)
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]  # fmt: skip
    if not found:
        return None
    innermost = max(found, key=lambda node: (node.lineno, -(node.end_lineno or 0)))
    source = lines_of(text)[innermost.lineno - 1]
    indent = source[: len(source) - len(source.lstrip())]
    if source[innermost.col_offset :] != source.lstrip():
        return None  # another statement is in front of it
    return _Statement(innermost.lineno, indent, _find_stream(innermost), isinstance(innermost, ast.With))


def _find_stream(statement: ast.stmt) -> str | None:
    """Return the expression of the stream that a launch or copy of a statement names."""
    for node in ast.walk(statement):
        if not isinstance(node, ast.Call):
            continue
        given = next((word.value for word in node.keywords if word.arg == "stream"), None)
        if given is None and isinstance(node.func, ast.Subscript) and isinstance(node.func.slice, ast.Tuple):
            given = node.func.slice.elts[2] if len(node.func.slice.elts) > 2 else None
        if isinstance(given, (ast.Name, ast.Attribute)) or (
            isinstance(given, ast.Subscript) and isinstance(given.slice, (ast.Name, ast.Constant))
        ):
            return ast.unparse(given)
    return None


def _cuda_name(tree: ast.Module) -> str | None:
    """Return the name by which a program calls the module `cuda`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in ("numba", "wsemu"):
            for name in node.names:
                if name.name == "cuda":
                    return name.asname or name.name
        if isinstance(node, ast.Import):
            for name in node.names:
                if name.name in ("numba.cuda", "wsemu.cuda"):
                    return name.asname or name.name
    return None


class Rerun:
    """Runs edited texts of a program with its settings and arguments, but writes none of its results to files."""

    def __init__(self, file: Path, arguments: Sequence[str], given: Mapping[str, Any]) -> None:
        """`given` are the settings on the command line, with the keys of pyproject.toml."""
        self.file = file
        self._arguments = arguments
        self._given = given

    def is_of_program(self, file: str) -> bool:
        """Return whether a file is the program."""
        return os.path.realpath(file) == os.path.realpath(self.file)

    def __call__(self, text: str) -> Errors | None:
        """Return the errors of a text, None if it did not run to its end."""
        _, encoding = read_source(self.file)
        with tempfile.TemporaryDirectory(prefix="wsemu-") as folder:
            edited = Path(folder) / self.file.name
            edited.write_bytes(text.encode(encoding))
            (Path(folder) / FILE).write_text(_write_table(self._settings()), encoding="utf-8")
            command = [sys.executable, "-m", "wsemu.cli", "check", str(edited), "--", *self._arguments]
            before = os.environ.get("PYTHONPATH")
            paths = os.pathsep.join(filter(None, [str(self.file.resolve().parent), before]))
            try:
                done = subprocess.run(
                    command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS, check=False,
                    env={**os.environ, "PYTHONPATH": paths},
                )  # fmt: skip
                reports = json.loads(done.stdout)["reports"]
            except (subprocess.TimeoutExpired, ValueError, KeyError):
                return None
        if done.returncode not in (0, 1):
            return None
        return Counter(
            (report["kernel"], finding["code"], finding["message"])
            for report in reports
            for finding in report["findings"]
            if finding["severity"] == "error"
        )

    def _settings(self) -> dict[str, Any]:
        """Return the settings of a run."""
        table = {**find(self.file)[1], **self._given}
        return {key: value for key, value in table.items() if key not in _OF_OUTPUT} | {
            "format": "json", "fix-budget": 0
        }  # fmt: skip


def _write_table(table: Mapping[str, Any]) -> str:
    """Return settings as the table of pyproject.toml; strings, numbers and lists are written as in JSON."""
    lines = (f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in table.items())
    return "\n".join(["[tool.wsemu]", *lines, ""])
