"""Edits of source whose lines hold several statements, end otherwise, or are not UTF-8: they can be made as they are
told."""

from __future__ import annotations

import pytest

from tests.commands import wsemu as command

PLENTY = 60.0
"""seconds: so that it is the number of edits that ends a search, on any machine"""
HEAD = """import numpy as np
from wsemu import cuda, ptx

@cuda.jit
"""
TAIL = """
k[1, 64](np.ones(64, np.float32), np.zeros(64, np.float32))
"""
SHARED = "s = cuda.shared.array(64, np.float32); t = cuda.threadIdx.x"
KERNELS = {
    "two on a line": (
        f"def k(x, y):\n    {SHARED}\n    s[t] = x[t]; y[t] = s[63 - t]  # all; of it",
        "insert `cuda.syncthreads()` before `y[t] = s[63 - t]` in line 7",
        "    s[t] = x[t]; cuda.syncthreads(); y[t] = s[63 - t]  # all; of it",
    ),
    "all on the line of the function": (
        f"def k(x, y): {SHARED}; s[t] = x[t]; y[t] = s[63 - t]",
        "insert `cuda.syncthreads()` before `y[t] = s[63 - t]` in line 5",
        f"def k(x, y): {SHARED}; s[t] = x[t]; cuda.syncthreads(); y[t] = s[63 - t]",
    ),
    "a loop on a line": (
        f"def k(x, y):\n    {SHARED}\n    for i in range(3): s[t] = x[t] + i; cuda.syncthreads(); y[t] += s[63 - t]",
        "insert `cuda.syncthreads()` after `y[t] += s[63 - t]` in line 7",
        "    for i in range(3): s[t] = x[t] + i; cuda.syncthreads(); y[t] += s[63 - t]; cuda.syncthreads()",
    ),
    "a line that goes on": (
        f"def k(x, y):\n    {SHARED}\n    s[t] = x[t]; \\\n    y[t] = s[63 - t]",
        "insert `cuda.syncthreads()` before `y[t] = s[63 - t]` in line 8",
        "    cuda.syncthreads(); y[t] = s[63 - t]",
    ),
    "two, and the next line": (
        f"def k(x, y):\n    {SHARED}\n    z = 1; s[t] = x[t]\n    y[t] = s[63 - t]; z = 2",
        "insert `cuda.syncthreads()` before line 8",
        "    cuda.syncthreads()",
    ),
    "a form feed": (
        f"def k(x, y):\n    {SHARED}\n    s[t] = x[t]  # \f; of it\n    y[t] = s[63 - t]",
        "insert `cuda.syncthreads()` before line 8",
        "    cuda.syncthreads()",
    ),
}


def written(folder, monkeypatch, text, encoding="utf-8", newline="\n"):
    """What `--write` makes of a program, and what it says."""
    file = folder / "program.py"
    file.write_bytes(text.replace("\n", newline).encode(encoding))
    monkeypatch.setattr("builtins.input", lambda: "y")
    done = command("check", "--fix-budget", PLENTY, "--write", "program.py", cwd=folder)
    return file.read_bytes(), done.stdout


@pytest.mark.parametrize("kernel", KERNELS)
def test_an_edit_is_told_and_made_where_the_line_has_room_for_it(kernel, tmp_path, monkeypatch):
    body, says, line = KERNELS[kernel]
    data, said = written(tmp_path, monkeypatch, HEAD + body + TAIL)
    assert f"edited `program.py`: {says}\n" in said
    assert line in data.decode().split("\n")
    assert command("check", "program.py", cwd=tmp_path).returncode == 0


@pytest.mark.parametrize(("encoding", "newline"), [("utf-8", "\r\n"), ("utf-8-sig", "\n"), ("latin-1", "\r\n")])
def test_a_file_keeps_its_ends_of_lines_and_its_encoding(encoding, newline, tmp_path, monkeypatch):
    body = f"def k(x, y):\n    {SHARED}\n    s[t] = x[t]  # für\n    y[t] = s[63 - t]"
    source = f"# -*- coding: {encoding.removesuffix('-sig')} -*-\n" + HEAD + body + TAIL
    data, _ = written(tmp_path, monkeypatch, source, encoding, newline)
    wanted = source.replace("    y[t]", "    cuda.syncthreads()\n    y[t]")
    assert data == wanted.replace("\n", newline).encode(encoding)
