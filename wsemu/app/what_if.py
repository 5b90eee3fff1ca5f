"""`wsemu time FILE --what-if NAME=VALUES`: predict the launches of a program for other values of its constants."""

from __future__ import annotations

import ast
import contextlib
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from wsemu.model.data import NamedTuple
from wsemu.model.errors import UsageError
from wsemu.timing.resolution import format_mark, mark_versions

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wsemu.timing.prediction import Prediction

OF_MODEL = ("ctas", "registers")
"""names of options of the prediction: co-resident CTAs, registers of a thread"""
MOST = 64
"""maximum number of values in one question"""
WITHIN = 0.02
"""versions that are slower than the best one by at most this share count as equal"""
_RANGE = re.compile(r"(\d+)\.\.(\d+)(?::(\d+))?")


class Question(NamedTuple):
    """A name with the values to try."""

    name: str
    values: tuple[int, ...]

    @property
    def is_of_model(self) -> bool:
        """Return whether the name is an option of the prediction rather than a constant of the program."""
        return self.name.lower() in OF_MODEL


class Answer(NamedTuple):
    """The predictions of a program for one value, and the verdict on its launches."""

    value: int
    found: Sequence[Prediction]
    verdict: str
    """empty for launches that were not checked"""


def parse_question(text: str) -> Question:
    """Return the name and values of `NAME=2..6`, `NAME=1,2,4` or `NAME=32..256:32`."""
    name, equals, listed = text.partition("=")
    values: list[int] = []
    for part in filter(None, listed.split(",")):
        span = _RANGE.fullmatch(part.strip())
        if span is not None:
            values += range(int(span[1]), int(span[2]) + 1, int(span[3] or 1) or 1)
        elif part.strip().isdigit():
            values.append(int(part))
        else:
            raise UsageError(f"`--what-if {text}`: `{part}` is not a number or range; write NAME=2..6 or NAME=1,2,4")
    if not (name.strip() and equals and values):
        raise UsageError(f"`--what-if {text}`: write NAME=2..6 or NAME=1,2,4")
    if len(values) > MOST:
        raise UsageError(f"`--what-if {text}`: {len(values):,} values, at most {MOST}")
    return Question(name.strip(), tuple(dict.fromkeys(values)))


@contextlib.contextmanager
def changed_program(file: Path, question: Question, value: int) -> Iterator[Path]:
    """Yield a copy of a program in which a constant has another value; for options of the model, yield the program
    itself."""
    if question.is_of_model:
        yield file
        return
    if file.suffix != ".py":
        raise UsageError(
            f"`--what-if {question.name}`: `{file}` is not Python, so only {' and '.join(OF_MODEL)} can change"
        )
    try:
        original = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read `{file}`: {getattr(error, 'strerror', None) or error}") from None
    text = change_constant(original, question.name, value, str(file))
    folder = Path(tempfile.mkdtemp(prefix="wsemu-"))
    before = [*sys.path]
    try:
        copy = folder / file.name
        copy.write_text(text, encoding="utf-8")
        sys.path.append(str(file.resolve().parent))
        yield copy
    finally:
        sys.path[:] = before
        shutil.rmtree(folder, ignore_errors=True)


def change_constant(text: str, name: str, value: int, file: str) -> str:
    """Return a program with another value of a constant defined at its top level; raise UsageError without such a
    constant."""
    constants = {
        node.targets[0].id: node.value
        for node in ast.parse(text).body
        if isinstance(node, ast.Assign)
        and len(node.targets) == 1
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, int)
    }
    exact = [one for one in constants if one == name] or [one for one in constants if one.lower() == name.lower()]
    if not exact:
        known = ", ".join([*constants, *OF_MODEL])
        raise UsageError(f"`{file}` has no constant `{name}` at its top level: use one of {known}")
    node = constants[exact[0]]
    lines = text.splitlines(keepends=True)
    line = lines[node.lineno - 1].encode()
    changed = line[: node.col_offset] + str(value).encode() + line[node.end_col_offset or 0 :]
    lines[node.lineno - 1] = changed.decode()
    return "".join(lines)


def mark_answers(answers: Sequence[Answer]) -> list[list[str]]:
    """Return for each answer the marks of its launches (`timing.resolution`).  Versions with errors have none."""
    marks = [[""] * len(answer.found) for answer in answers]
    for number in range(max(map(len, marks), default=0)):
        rows = [
            (n, answer, answer.found[number])
            for n, answer in enumerate(answers)
            if number < len(answer.found) and answer.verdict != "failed"
        ]
        best = best_value([(answer, found) for _, answer, found in rows])
        if best is None:
            continue
        times, resolutions = [found.microseconds for *_, found in rows], [found.resolution for *_, found in rows]
        chosen = next(k for k, (_, answer, _) in enumerate(rows) if answer.value == best)
        for (n, *_), mark in zip(rows, mark_versions(times, resolutions, chosen), strict=True):
            marks[n][number] = mark
    return marks


def format_answers(question: Question, answers: Sequence[Answer]) -> Iterator[str]:
    """Yield a table for each launch: a row for each value, with the best one and those equal to it marked."""
    count = max((len(answer.found) for answer in answers), default=0)
    marks = mark_answers(answers)
    for number in range(count):
        rows = [
            (answer, answer.found[number], marks[n][number])
            for n, answer in enumerate(answers)
            if number < len(answer.found)
        ]
        widest = _widest(rows)
        kernel = rows[0][1].kernel
        launch = f"launch {number + 1}, " if count > 1 else ""
        yield f"{launch}{kernel} on {rows[0][1].device}, predicted"
        width = max(len(question.name), 6)
        yield f"  {question.name:>{width}}  {'time':>10}  {'CTAs':>4}  {'check':10}  bound by"
        for answer, found, mark in rows:
            time = f"{found.microseconds:,.1f} us"
            line = f"  {answer.value:>{width}}  {time:>10}  {found.occupancy.ctas:>4}  {answer.verdict or '-':10}  "
            yield f"{line}{found.bound_by}{format_mark(mark, widest)}"
    for answer in answers:
        if not answer.found:
            yield f"  {question.name}={answer.value}: no launch was predicted"


def _widest(rows: Sequence[tuple[Answer, Prediction, str]]) -> float:
    """Return the share within which the marked versions of a table are equal."""
    return max((found.resolution for _, found, mark in rows if mark), default=0.0)


def best_value(rows: Sequence[tuple[Answer, Prediction]]) -> int | None:
    """Return the smallest value whose time is within 2% of the best, among versions without errors."""
    right = [(answer, found) for answer, found in rows if answer.verdict != "failed"]
    if not right:
        return None
    least = min(found.microseconds for _, found in right)
    return min(answer.value for answer, found in right if found.microseconds <= least * (1 + WITHIN))
