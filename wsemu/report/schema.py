"""JSON schemas of the files that wsemu writes for other programs or reads, published with the documentation."""

from __future__ import annotations

from typing import Any

from wsemu.launch.ptx.launch_form import LaunchForm
from wsemu.launch.replay.witness_file import Witness
from wsemu.launch.result import Report
from wsemu.model.version import DOCS
from wsemu.report.json import FORMAT

Json = dict[str, Any]
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schemas() -> dict[str, Json]:
    """Return the schemas, by the name of their file below `schemas/` of the documentation."""
    return {
        f"report-{FORMAT}.json": _report(),
        "launch-1.json": _with_header(
            "launch-1.json", "a launch of a kernel in PTX, for `wsemu check`", _read(LaunchForm)
        ),
        "witness-1.json": _with_header(
            "witness-1.json", "a schedule of a finding, for `wsemu replay`", _model_schema(Witness)
        ),
    }


def _with_header(name: str, title: str, schema: Json) -> Json:
    return {"$schema": DIALECT, "$id": f"{DOCS}schemas/{name}", **schema, "title": title}


def _model_schema(model: Any) -> Json:
    """Return the schema of a model in the form in which wsemu writes it."""
    schema: Json = model.model_json_schema(mode="serialization")
    return schema


def _read(model: Any) -> Json:
    """Return the schema of a model in the form in which wsemu reads it."""
    schema: Json = model.model_json_schema(mode="validation")
    return schema


def _report() -> Json:
    """Return the schema of the document of `--format json`; each report is a `Report` without its time."""
    report = _model_schema(Report)
    definitions = report.pop("$defs")
    del report["properties"]["seconds"]
    report["required"] = [name for name in report["required"] if name != "seconds"] if "required" in report else []
    count = {"type": "integer", "minimum": 0}
    text = {"type": "string"}
    message = {
        "type": "object",
        "properties": {"level": text, "text": text, "file": text, "line": count},
        "required": ["level", "text"],
    }
    verdicts = ("verified", "failed", "incomplete")
    properties: Json = {
        "wsemu": {**text, "description": "the version that wrote it"},
        "format": {"const": FORMAT},
        "exit_code": {"enum": [0, 1, 2, 3, 4, 130]},
        "verdicts": {
            "type": "object", "properties": dict.fromkeys(verdicts, count), "required": [*verdicts],
        },
        "reports": {"type": "array", "items": {"$ref": "#/$defs/Report"}},
        "messages": {"type": "array", "items": message},
    }  # fmt: skip
    document = {
        "type": "object",
        "properties": properties,
        "required": [*properties],
        "additionalProperties": False,
        "$defs": {**definitions, "Report": report},
    }
    return _with_header(f"report-{FORMAT}.json", "what `wsemu check --format json` writes", document)
