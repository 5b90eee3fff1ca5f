"""The table of what PTX leaves undefined, row by row on both engines, and the page that is made of it."""

from __future__ import annotations

import numpy as np
import pytest

import wsemu
from tests.unit.undefined_rows import KINDS, ROOT, Row, rows, text_of
from wsemu.model.codes import CODES
from wsemu.model.errors import WsemuError

ROWS = rows()
WORDS = ("verified", "incomplete", "rejected")
RUN = [row for row in ROWS if row.body]


def answer(row: Row, engine: str) -> tuple[str, tuple[str, ...], int]:
    """The verdict of a row's launch, its finding codes and what it leaves in out[0]."""
    out = np.zeros(1024, np.uint32)
    cluster = row.cluster if row.cluster > 1 else None
    try:
        kernel = wsemu.load_ptx(text_of(row))["k"]
        report = wsemu.check(
            kernel, row.grid or row.cluster, row.block, (out, np.uint32(row.n)),
            engine=engine, cluster=cluster, budget=200_000,  # type: ignore[arg-type]
        )  # fmt: skip
    except WsemuError:
        return "rejected", (), 0
    return report.verdict, tuple(sorted({finding.code for finding in report.findings})), int(out[0])


@pytest.mark.parametrize("row", RUN, ids=[row.name for row in RUN])
def test_a_row_has_its_answer(row: Row) -> None:
    fast, slow = answer(row, "vm"), answer(row, "reference")
    assert fast == slow
    verdict, codes, left = fast
    if row.answer in WORDS:
        assert verdict == row.answer
    else:
        assert row.answer in codes
        assert verdict != "verified"
    if row.value is not None:
        assert left == row.value


@pytest.mark.parametrize("row", [row for row in ROWS if row.shown_by], ids=lambda row: row.name)
def test_a_row_without_a_program_names_one(row: Row) -> None:
    path = ROOT / row.shown_by
    assert path.exists()
    if row.shown_by.startswith("tests/fail/"):
        assert path.parent.name == row.answer
        assert f"expect: {row.answer}" in "".join(p.read_text() for p in path.parent.glob(f"{path.stem}.*"))


def test_the_table_is_whole() -> None:
    for row in ROWS:
        assert row.kind in KINDS
        assert row.answer in (*WORDS, *CODES)
        assert bool(row.body) != bool(row.shown_by)
        # what is undefined behavior, and is run all the same, is said to be
        assert row.here or row.answer != "verified", row.name
    names = [row.name for row in ROWS]
    assert sorted(names) == sorted(set(names))


def page() -> str:
    """`docs/undefined.md`."""
    head = (ROOT / "docs" / "undefined.md").read_text(encoding="utf-8").partition("<!-- rows -->")[0]
    parts = [head + "<!-- rows -->\n\n| section | instruction | if | PTX | wsemu |\n|---|---|---|---|---|\n"]
    for row in sorted(ROWS, key=lambda row: row.section.lower()):
        parts.append(f"| {row.section} | `{row.instruction}` | {row.condition} | {row.kind} | {_said(row)} |\n")
    return "".join(parts)


def _said(row: Row) -> str:
    answer = f"[`{row.answer}`](codes/{row.answer}.md)" if row.answer in CODES else row.answer
    return f"{answer}: {row.here}" if row.here else answer


def test_the_page_is_made_of_the_table(bless: bool) -> None:
    file = ROOT / "docs" / "undefined.md"
    if bless:
        file.write_text(page(), encoding="utf-8")
    assert file.read_text(encoding="utf-8") == page(), "pytest --bless writes it"
