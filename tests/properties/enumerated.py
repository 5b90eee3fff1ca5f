"""Verdicts on generated programs, compared with all that they can do."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from wsemu.launch.result import Report
    from wsemu.model.settings import Engine

State = TypeVar("State")


class JudgedProgram(NamedTuple):
    """A program with the verdicts of engines, and what is wrong with these."""

    program: object
    fails: bool
    verdicts: tuple[str, ...]
    complaints: tuple[str, ...]

    def __str__(self) -> str:
        return f"{'; '.join(self.complaints)}: {self.program}"


def judge_program(
    program: object, check: Callable[[Engine], Report], engines: Iterable[Engine], *, fails: bool, shown: str = ""
) -> JudgedProgram:
    """Compare the verdicts of `check` with the enumeration: `fails`.  A program that fails may be `verified` with a
    finding of the code `shown`."""
    verdicts, complaints = [], []
    for engine in engines:
        report = check(engine)
        verdicts.append(report.verdict)
        if fails and report.verdict == "verified" and all(finding.code != shown for finding in report.findings):
            complaints.append(f"{engine}: missed")
        if not fails and report.verdict == "failed":
            complaints.append(f"{engine}: false alarm")
    return JudgedProgram(program, fails, tuple(verdicts), tuple(complaints))


def always_ends(follow: Mapping[State, Sequence[State]], ends: Iterable[State]) -> bool:
    """Return whether every state leads to one of `ends`.  `follow`: all states, each with those that follow it."""
    before: dict[State, list[State]] = {}
    for state, after in follow.items():
        for one in after:
            before.setdefault(one, []).append(state)
    pending = [*ends]
    leading = {*pending}
    while pending:
        more = {*before.get(pending.pop(), ())} - leading
        leading |= more
        pending += more
    return len(leading) == len(follow)
