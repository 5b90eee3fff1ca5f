"""`python -m wsemu.app.each [OPTIONS] FILE...`: `wsemu check OPTIONS FILE` for each file, as hooks and CI ask for it.

Files that name no kernel (`cuda.jit`) are passed over.  Ends with the worst exit code: 4, 2, 1, 3, 0; with
`--allow-incomplete` 3 counts as 0.  `--sarif FILE` writes one SARIF file in place of text, with a run for each program.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

WORST = (0, 3, 1, 2, 4)
"""exit codes, ascending"""
_KERNEL = re.compile(r"\bcuda\b(?s:.*)\bjit\b|\bload_ptx\b")


def split(words: list[str]) -> tuple[list[str], list[str]]:
    """Options and files: files are the words from the first on that is one, or behind `--`."""
    if "--" in words:
        at = words.index("--")
        return words[:at], words[at + 1 :]
    first = next((n for n, word in enumerate(words) if not word.startswith("-") and Path(word).is_file()), len(words))
    return words[:first], words[first:]


def has_kernels(file: str) -> bool:
    """Whether the text of a program names a kernel; what cannot be read is for `wsemu check` to say."""
    try:
        return bool(_KERNEL.search(Path(file).read_text(encoding="utf-8", errors="replace")))
    except OSError:
        return True


def run(options: list[str], file: str, *, captured: bool) -> tuple[int, str]:
    """The exit code of `wsemu check`, and what it wrote where that is `captured`."""
    command = [sys.executable, "-m", "wsemu.cli", "check", *options, file]
    sys.stdout.flush()
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE if captured else None, encoding="utf-8")
    return (done.returncode if done.returncode in WORST else 4), done.stdout or ""


def main(words: list[str]) -> int:
    """Check each file; returns the worst exit code."""
    options, files = split(words)
    allow, sarif = "--allow-incomplete" in options, _taken(options, "--sarif")
    options = [option for option in options if option != "--allow-incomplete"]
    if sarif:
        options += ["--format", "sarif"]
    codes, runs = [0], []
    for file in filter(has_kernels, files):
        code, text = run(options, file, captured=bool(sarif))
        codes.append(0 if allow and code == 3 else code)
        if text:
            runs += [_named(made, file) for made in json.loads(text)["runs"]]
    if sarif:
        document = {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": runs}
        Path(sarif).write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    return max(codes, key=WORST.index)


def _taken(options: list[str], name: str) -> str:
    """The value of an option, which is taken out."""
    if name not in options:
        return ""
    at = options.index(name)
    value = options[at + 1] if at + 1 < len(options) else ""
    del options[at : at + 2]
    return value


def _named(run: dict[str, Any], file: str) -> dict[str, Any]:
    """A run under a name of its own: GitHub takes one of each name."""
    return {**run, "automationDetails": {"id": f"wsemu/{Path(file).as_posix()}/"}}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
