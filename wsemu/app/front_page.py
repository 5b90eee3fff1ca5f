"""The output of `wsemu --help`, which is printed before the commands are imported."""

from __future__ import annotations

import os
import sys
import textwrap

SUMMARY = "Find deadlocks, races and memory errors in CUDA kernels, on a CPU."
OPTIONS = {
    "--version": "Print the version and stop.",
    "--install-completion": "Install completion for the current shell.",
    "--show-completion": "Show completion for the current shell, to copy it or customize the installation.",
    "-h, --help": "Show this message and exit.",
}
COMMANDS = {
    "check": "Run FILE and check every launch in it.",
    "run": "Run FILE like `check`, but print only errors.",
    "baseline": "Run FILE and accept its findings of today.",
    "diff": "Compare two reports: findings, costs, predicted times.",
    "crosscheck": "Run FILE on the emulator, then on a GPU, and compare.",
    "replay": "Execute the schedule of a finding step by step.",
    "trace": "Draw what the warps of a CTA did, step by step.",
    "time": "Predict how long launches take on a GPU, and what bounds them.",
    "debug": "Step through the kernels of FILE.",
    "lean": "Report redundant barriers, fences and atomics.",
    "fuzz": "Run many examples of a Hypothesis test.",
    "sweep": "Launch with the sizes at which such programs break.",
    "mutate": "Change the kernels of a test: which bugs would it miss?",
    "explain": "Explain a finding: the bug, the fix, the hardware.",
    "lsp": "Serve an editor: findings, fixes and costs as you save.",
    "doctor": "Print the environment: versions, cache, GPU.",
}
"""command -> its description, in the order of the page"""
_LEAST, _MOST = 50, 78
"""minimum and maximum columns of text"""


def page() -> str:
    """Return the page, in the width of the terminal."""
    width = max(min(_columns() - 2, _MOST), _LEAST)
    summary = textwrap.fill(SUMMARY, width, initial_indent="  ", subsequent_indent="  ")
    rows = [*_rows("Options", OPTIONS, width), "", *_rows("Commands", COMMANDS, width)]
    return "\n".join(["Usage: wsemu [OPTIONS] COMMAND [ARGS]...", "", summary, "", *rows, ""])


def _columns() -> int:
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given):
        return int(given)
    try:
        return os.get_terminal_size(sys.__stdout__.fileno() if sys.__stdout__ else 1).columns
    except (OSError, ValueError):
        return 80


def _rows(title: str, table: dict[str, str], width: int) -> list[str]:
    first = max(map(len, table)) + 4
    rows = [f"{title}:"]
    for name, text in table.items():
        lines = textwrap.wrap(text, width - first)
        rows += [f"  {name}".ljust(first) + lines[0], *(" " * first + line for line in lines[1:])]
    return rows
