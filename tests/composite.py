"""Runs the shell steps of a composite GitHub Action as its runner does: expressions, conditions, files for outputs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Values = dict[str, str]


@dataclass(slots=True)
class Ran:
    """What came of an action."""

    code: int = 0
    text: str = ""
    outputs: Values = field(default_factory=dict)
    used: list[str] = field(default_factory=list)
    """actions of others, which are left out"""


def run(action: dict[str, Any], folder: Path, given: Values, scratch: Path, action_path: Path) -> Ran:
    """Run the action in a folder; `scratch` holds the runner's files."""
    unknown = given.keys() - action["inputs"].keys()
    assert not unknown, unknown
    inputs = {name: str(given.get(name, entry.get("default", ""))) for name, entry in action["inputs"].items()}
    ran = Ran()
    outputs: dict[str, Values] = {}
    environment: Values = {}
    for step in action["runs"]["steps"]:
        if not _holds(step.get("if", ""), inputs):
            continue
        if "uses" in step:
            ran.used.append(step["uses"])
            continue
        files = {name: scratch / name.lower() for name in ("GITHUB_OUTPUT", "GITHUB_ENV", "GITHUB_PATH")}
        for file in files.values():
            file.write_text("", encoding="utf-8")
        own = {name: _filled(value, inputs, outputs) for name, value in step.get("env", {}).items()}
        variables = {**os.environ, **environment, **own, **{name: str(file) for name, file in files.items()}}
        variables |= {
            "GITHUB_ACTION_PATH": str(action_path),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }
        assert step["shell"] == "bash"
        script = scratch / "step.sh"
        script.write_text(_filled(step["run"], inputs, outputs), encoding="utf-8")
        command = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", str(script)]
        done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=folder, env=variables)
        outputs[step.get("id", "")] = _pairs(files["GITHUB_OUTPUT"])
        environment |= _pairs(files["GITHUB_ENV"])
        ran.text += done.stdout + done.stderr
        ran.code = done.returncode
        if ran.code:
            break
    ran.outputs = {name: _filled(entry["value"], inputs, outputs) for name, entry in action.get("outputs", {}).items()}
    return ran


def _pairs(file: Path) -> Values:
    return dict(line.split("=", 1) for line in file.read_text(encoding="utf-8").splitlines())


def _filled(text: str, inputs: Values, outputs: dict[str, Values]) -> str:
    """Return the text with `${{ inputs.x }}` and `${{ steps.x.outputs.y }}` replaced."""

    def value(match: re.Match[str]) -> str:
        parts = match[1].split(".")
        if parts[0] == "inputs":
            return inputs[parts[1]]
        assert parts[0] == "steps", match[0]
        return outputs[parts[1]].get(parts[3], "")

    return re.sub(r"\$\{\{ *([\w.-]+) *\}\}", value, str(text))


def _holds(condition: str, inputs: Values) -> bool:
    """Return whether a condition such as `inputs.x == 'y' && inputs.z != ''` holds."""
    for part in filter(None, condition.split(" && ")):
        name, operator, value = part.split(" ")
        if (inputs[name.removeprefix("inputs.")] == value.strip("'")) != (operator == "=="):
            return False
    return True
