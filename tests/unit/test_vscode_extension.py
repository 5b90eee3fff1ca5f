"""The VS Code extension in `integrations/vscode`: its manifest, and a headless run in Node (`npm test`).

The run takes the place of VS Code: it starts the real server and the real debug adapter.  It needs `npm install` there
before, and is skipped without.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import wsemu
from tests.commands import wsemu as typed
from wsemu.app.language_server import DEBUG

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "integrations" / "vscode"
MANIFEST: dict[str, Any] = json.loads((FOLDER / "package.json").read_text(encoding="utf-8"))
CONTRIBUTES = MANIFEST["contributes"]


def test_the_version_is_that_of_the_package() -> None:
    assert MANIFEST["version"] == wsemu.__version__


def test_no_lock_file_and_no_address_of_a_registry_is_in_the_repository() -> None:
    files = [path for path in FOLDER.rglob("*") if path.is_file() and not {"node_modules", "dist"} & {*path.parts}]
    assert not [path for path in files if "lock" in path.name]
    assert not [path for path in files if "registry." in path.read_text(encoding="utf-8")]


def test_every_command_is_registered() -> None:
    source = (FOLDER / "src" / "extension.ts").read_text(encoding="utf-8")
    registered = set(re.findall(r'registerCommand\("([\w.]+)"', source))
    assert {entry["command"] for entry in CONTRIBUTES["commands"]} | {DEBUG} == registered


def test_the_extension_runs_commands_that_exist() -> None:
    source = (FOLDER / "src" / "extension.ts").read_text(encoding="utf-8")
    assert '["-m", "wsemu", "lsp"]' in source
    assert "Usage: wsemu lsp" in typed("lsp", "--help").stdout
    assert "--dap" in typed("debug", "--help").stdout


def test_the_problem_pattern_is_that_of_the_tasks() -> None:
    tasks = json.loads((FOLDER / "tasks.json").read_text(encoding="utf-8"))["tasks"]
    (pattern,) = tasks[0]["problemMatcher"][0]["pattern"]
    (named,) = CONTRIBUTES["problemPatterns"]
    assert {key: value for key, value in named.items() if key != "name"} == pattern


def test_no_workspace_is_checked_that_nobody_trusts() -> None:
    assert MANIFEST["capabilities"]["untrustedWorkspaces"]["supported"] is False


@pytest.mark.skipif(not (FOLDER / "node_modules").is_dir() or not shutil.which("npm"), reason="needs `npm install`")
def test_the_extension_runs_without_a_window() -> None:
    pytest.importorskip("pygls")
    environment = {**os.environ, "WSEMU_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["npm", "test", "--silent"], check=False, capture_output=True, text=True, cwd=FOLDER, env=environment
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "debug: the adapter stopped in the kernel" in done.stdout
