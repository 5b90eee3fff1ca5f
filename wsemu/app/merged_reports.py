"""Reports of several programs as one file: SARIF, JUnit's XML, GitLab's Code Quality."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def merge_sarif(outputs: Sequence[tuple[str, str]]) -> str:
    """Return one log with the runs of all programs, each under its own name, because GitHub accepts only one run per
    name."""
    runs: list[dict[str, Any]] = []
    for file, text in outputs:
        name = {"automationDetails": {"id": f"wsemu/{Path(file).as_posix()}/"}}
        runs += [{**run, **name} for run in json.loads(text)["runs"]]
    document = {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": runs}
    return json.dumps(document, indent=2) + "\n"


def merge_junit(outputs: Sequence[tuple[str, str]]) -> str:
    """Return one document with the suites of all programs."""
    merged = ElementTree.Element("testsuites", name="wsemu")
    for _, text in outputs:
        merged.extend(ElementTree.fromstring(text.encode()))
    for count in ("tests", "failures", "errors"):
        merged.set(count, str(sum(int(suite.get(count, "0")) for suite in merged)))
    return ElementTree.tostring(merged, encoding="unicode", xml_declaration=True) + "\n"


def merge_gitlab(outputs: Sequence[tuple[str, str]]) -> str:
    """Return the issues of all programs; an issue of several programs appears once."""
    issues: dict[str, dict[str, Any]] = {}
    for _, text in outputs:
        for issue in json.loads(text):
            issues.setdefault(issue["fingerprint"], issue)
    return json.dumps([*issues.values()], indent=2) + "\n"


MERGERS: dict[str, Callable[[Sequence[tuple[str, str]]], str]] = {
    "sarif": merge_sarif,
    "junit": merge_junit,
    "gitlab": merge_gitlab,
}
"""format of `wsemu check` -> function that merges its outputs"""
