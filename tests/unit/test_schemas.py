"""The published JSON schemas are those of today, and what wsemu writes fits them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.commands import wsemu
from wsemu.model.codes import CODES
from wsemu.model.version import DOCS
from wsemu.report import sarif
from wsemu.report.json import FORMAT
from wsemu.report.schema import schemas

jsonschema = pytest.importorskip("jsonschema")
ROOT = Path(__file__).resolve().parents[2]
SCHEMAS = schemas()


def fits(document: Any, name: str) -> None:
    jsonschema.Draft202012Validator(SCHEMAS[name]).validate(document)


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_published_schema_is_that_of_today(name, bless):
    jsonschema.Draft202012Validator.check_schema(SCHEMAS[name])
    path = ROOT / "docs" / "extra" / "schemas" / name
    made = json.dumps(SCHEMAS[name], indent=1) + "\n"
    if bless:
        path.write_text(made, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == made, "run `pytest --bless tests/unit/test_schemas.py`"


@pytest.mark.parametrize("program", ["examples/broken/no_empty_wait.py", "examples/sgemv.py", "no_such_program.py"])
def test_what_is_written_fits(program, tmp_path):
    done = wsemu("check", "--format", "json", "--save-witness", str(tmp_path), program, cwd=ROOT)
    fits(json.loads(done.stdout), f"report-{FORMAT}.json")
    for witness in tmp_path.iterdir():
        fits(json.loads(witness.read_text(encoding="utf-8")), "witness-1.json")
    assert bool([*tmp_path.iterdir()]) == (done.returncode == 1)


def test_a_schema_refuses_what_is_none():
    with pytest.raises(jsonschema.ValidationError):
        fits({"wsemu": "0.1.0"}, f"report-{FORMAT}.json")


def test_each_rule_of_sarif_leads_to_its_page():
    for code in CODES:
        uri = sarif._rule(code)["helpUri"]
        assert uri.startswith(DOCS)
        assert (ROOT / "docs" / uri.removeprefix(DOCS)).with_suffix(".md").exists()
