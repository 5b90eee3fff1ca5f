"""The gallery of bugs: its pages are those that its rows and the programs of the tests give."""

from __future__ import annotations

import re
import runpy
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GALLERY = ROOT / "docs" / "gallery"
BUILD = runpy.run_path(str(GALLERY / "build.py"))


def test_the_pages_are_those_of_the_programs(bless: bool) -> None:
    if bless:
        BUILD["write"]()
    made = BUILD["pages"]()
    assert made.keys() == {file.name for file in GALLERY.glob("*.md")}
    for name, text in made.items():
        assert (GALLERY / name).read_text(encoding="utf-8") == text, "run `python docs/gallery/build.py`"


def test_each_bug_has_a_report_a_cure_and_a_public_source() -> None:
    rows = tomllib.loads((GALLERY / "rows.toml").read_text(encoding="utf-8"))
    assert len(rows) >= 20
    for name, row in rows.items():
        assert all(re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", source) for source in row["sources"]), name
        text = BUILD["pages"]()[f"{name}.md"]
        (report,) = (ROOT / "tests" / "fail").glob(f"*/{name}.expected")
        code = report.parent.name
        assert f"[{code}]" in report.read_text(encoding="utf-8"), name
        assert re.search(r"(?m)^[+-].*\w", text.partition("```diff")[2]), name
