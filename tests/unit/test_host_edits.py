"""Edits of what the host says: a launch with another grid, block or argument that is verified is offered."""

from __future__ import annotations

import re

import pytest

from tests.commands import wsemu as command

HEAD = """\
import numpy as np
from wsemu import cuda, ptx
from wsemu import check

"""
KERNELS = """\
@cuda.jit
def negated(x, y):
    i = cuda.grid(1)
    y[i] = -x[i]

@cuda.jit
def handed_over(x, y):
    s = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    if t < 64:
        s[t] = x[t]
        ptx.bar_arrive(1, 128)
    else:
        ptx.bar_sync(1, 128)
        y[t - 64] = s[t - 64]

@cuda.jit
def doubled(x, y, n):
    i = cuda.grid(1)
    if i < n:
        y[i] = 2 * x[i]

@cuda.jit
def turned(a, b):
    i, j = cuda.grid(2)
    b[i, j] = a[i, j]

threads, n = 64, 250
x, y = np.ones(256, np.float32), np.zeros(256, np.float32)
u, v = np.ones(n, np.float32), np.zeros(n, np.float32)
a = np.ones((32, 16), np.float32)
"""
SLIPS = {
    "a CTA too many": (
        "blocks = x.size // threads + 1\nnegated[blocks, threads](x, y)\n",
        "write `(x.size + threads - 1) // threads`, 4, in place of `blocks`",
    ),
    "threads in the place of CTAs": ("negated[threads, 4](x[:64], y[:64])\n", "write `16` in place of `threads`"),
    "a block too small": ("handed_over[1, 96](x[:64], y[:64])\n", "write `128` in place of `96`"),
    "a number too large": ("doubled[4, 64](u, v, n + 1)\n", "write `u.size`, 250, in place of `n + 1`"),
    "a result too small": (
        "w = np.zeros(n - 2, np.float32)\ndoubled[4, 64](u, w, n)\n",
        "make `w`, which line 37 hands over, with 250 elements in place of 248",
    ),
    "x for y": ("turned[(2, 4), (8, 8)](a, np.zeros_like(a))\n", "exchange x and y of the grid"),
    "by a function": ("check(handed_over, 1, 96, (x[:64], y[:64]))\n", "write `128` in place of `96`"),
}


@pytest.mark.parametrize("name", SLIPS)
def test_a_slip_of_the_host_is_mended_where_it_launches(name, tmp_path):
    launch, cure = SLIPS[name]
    file = tmp_path / "program.py"
    file.write_text(HEAD + KERNELS + launch)
    said = command("check", "--fix-budget", 60, "program.py", cwd=tmp_path).stdout
    assert f"help: proven: {cure}" in re.sub(r"\n\s+", " ", said)
    printed = command("check", "--fix-budget", 60, "--fix", "program.py", cwd=tmp_path).stdout
    if "make `" in cure:
        assert "no patch of `program.py`: make `w`" in re.sub(r"\n\s+", " ", printed)
        return
    hunks = printed[printed.index("@@") :].splitlines()
    (old,), (new,) = ([line[1:] for line in hunks if line.startswith(mark)] for mark in "-+")
    file.write_text(file.read_text().replace(old, new))
    assert command("check", "program.py", cwd=tmp_path).returncode == 0


def test_a_launch_that_covers_its_arrays_stays_as_it_is(tmp_path):
    """Of 250 elements four CTAs of 64 threads are as many as are needed: the kernel lacks its condition."""
    (tmp_path / "program.py").write_text(HEAD + KERNELS + "negated[4, 64](u, v)\n")
    said = re.sub(r"\n\s+", " ", command("check", "--fix-budget", 60, "program.py", cwd=tmp_path).stdout)
    assert "help: proven: put `if i < y.shape[0]:` around" in said
    assert "where the kernel is launched" not in said
