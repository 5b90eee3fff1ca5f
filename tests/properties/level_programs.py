"""CUDA C++ kernels that nvcc compiles at several levels: the verdict, the errors and the values must not depend on it.

A kernel computes in unsigned integers and binary fractions, so that no level has a choice, and hands numbers on through
shared memory between barriers, in loops, too.  It is race-free by construction, or one barrier between a store and
the loads of other threads is left out.  Other kernels move pointers (`pointer_programs.py`).
"""

from __future__ import annotations

import random
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

import wsemu
from tests.properties.pointer_programs import HEAD, pointer_kernel

THREADS = 64
LEVELS = {"-O0": ["-Xcicc", "-O0"], "-O1": ["-Xcicc", "-O1"], "-O3": [], "-G": ["-G"]}
RACES = {"race", "intra-warp-race"}
_HEAD = """
static __device__ unsigned grown(unsigned x, int n) {
    unsigned r = x;
    for (int i = 0; i < n; i++) r = r * 3u + (unsigned)i;
    return r;
}
static __device__ __noinline__ float halved(float x, unsigned n) { return (n & 1u) ? x * 0.5f : x + 1.0f; }
static __device__ unsigned picked(const unsigned *from, unsigned n) { return from[n & 3u]; }
"""


class Kernel(NamedTuple):
    """One kernel: its text, and whether a barrier is left out, or pointers become numbers."""

    name: str
    text: str
    racy: bool = False
    moves: bool = False
    """whether it moves pointers"""
    depends: bool = False
    """whether it depends on where arrays are located"""

    @property
    def verdict(self) -> str:
        return "failed" if self.racy else "incomplete" if self.depends else "verified"


class _Writer:
    def __init__(self, source: random.Random) -> None:
        self.source = source
        self.lines: list[str] = []
        self.barriers: list[int] = []
        """lines of barriers between a store and the loads of others"""

    def number(self) -> str:
        return self.source.choice(["u", "v", "a[t]", "(unsigned)t", "7u", "l[t & 3]", "grown(u, 2)", "picked(l, v)"])

    def statement(self, depth: int) -> None:
        pad, pick = "    " * (depth + 1), self.source.choice
        kind = self.source.random()
        if kind < 0.3:
            self.lines.append(f"{pad}{pick('uv')} = {self.number()} {pick(('+', '-', '*', '^', '&'))} {self.number()};")
        elif kind < 0.4:
            self.lines.append(f"{pad}w = {pick(('halved(w, u)', 'w + 0.25f', 'w * 2.0f - 1.0f', 'b[t] + w'))};")
        elif kind < 0.5:
            self.lines.append(f"{pad}l[{self.number()} & 3u] = {self.number()};")
        elif kind < 0.6:
            self.lines.append(f"{pad}atomicAdd(&q[{self.number()} & 3u], {self.number()} & 7u);")
        elif kind < 0.7 and depth < 2:
            self.lines.append(f"{pad}if ({self.number()} % 3u == 0u) u += {self.number()}; else v = {self.number()};")
        elif kind < 0.85 and depth < 2:
            self.lines.append(f"{pad}for (int i{depth} = 0; i{depth} < {pick(('n', '2', '3'))}; i{depth}++) {{")
            for _ in range(self.source.randrange(1, 3)):
                self.statement(depth + 1)
            self.lines.append(f"{pad}}}")
        else:
            self.exchange(pad)

    def exchange(self, pad: str) -> None:
        """Emit an exchange: each thread stores a number, and loads that of another.  The result depends on each loaded
        number, so that no level removes the load."""
        array, value = self.source.choice((("s", "u"), ("h", "w")))
        place = f"(t + {self.source.randrange(1, THREADS)}) % {THREADS}"
        self.lines.append(f"{pad}{array}[t] = {value};")
        self.barriers.append(len(self.lines))
        load = f"{pad}{value} = {array}[{place}];{' e = e * 3u + u;' if value == 'u' else ''}"
        self.lines += [f"{pad}__syncthreads();", load, f"{pad}__syncthreads();"]


def level_program(source: random.Random, name: str) -> Kernel:
    """Return a random kernel."""
    w = _Writer(source)
    for _ in range(source.randrange(2, 6)):
        w.statement(0)
    w.exchange("    ")
    racy = source.random() < 0.4
    if racy:
        del w.lines[source.choice(w.barriers)]
    body = "\n".join(w.lines)
    text = f"""
extern "C" __global__ void {name}(const unsigned *a, const float *b, unsigned *o, float *p, unsigned *q, int n) {{
    int t = threadIdx.x;
    __shared__ unsigned s[{THREADS}];
    __shared__ float h[{THREADS}];
    unsigned l[4] = {{1u, 2u, 3u, 4u}}, u = a[t], v = 5u, e = 0u;
    float w = b[t];
{body}
    o[t] = u + v + l[t & 3] + e;
    p[t] = w;
}}
"""
    return Kernel(name, text, racy)


def pointer_program(source: random.Random, name: str) -> Kernel:
    """Return a random kernel that moves pointers."""
    text, depends = pointer_kernel(source, name)
    return Kernel(name, text, moves=True, depends=depends)


def compile_at(kernels: list[Kernel], options: list[str]) -> wsemu.PtxModule:
    """Return the kernels' PTX with options of nvcc."""
    with tempfile.TemporaryDirectory() as folder:
        source, ptx = Path(folder) / "kernels.cu", Path(folder) / "kernels.ptx"
        source.write_text(HEAD + _HEAD + "".join(kernel.text for kernel in kernels), encoding="utf-8")
        command = ["nvcc", "-ptx", "-arch=sm_90", *options, str(source), "-o", str(ptx)]
        subprocess.run(command, check=True, capture_output=True, timeout=300)
        return wsemu.load_ptx(ptx.read_text(encoding="utf-8"))


class Said(NamedTuple):
    """The report on a kernel at one level, and the contents that it leaves."""

    verdict: str
    codes: tuple[str, ...]
    bits: tuple[bytes, ...]


def said_of(kernel: wsemu.PtxKernel, *, moves: bool = False) -> Said:
    """Run a kernel; `moves` means that it moves pointers."""
    numbers = np.arange(THREADS)
    if moves:
        arrays = [numbers.astype(np.int32).repeat(4) * k for k in range(3)]
        out = np.zeros(THREADS, np.int32)
        given = *arrays, out, np.zeros(THREADS, np.uint64), np.zeros(2 * THREADS, np.uint64), np.int32(2)
        report = wsemu.check(kernel, 1, THREADS, given)
        codes = tuple(sorted({finding.code for finding in report.findings if finding.severity == "error"}))
        return Said(report.verdict, (*codes, *report.reasons), (out.tobytes(),) if report.verdict == "verified" else ())
    outputs = np.zeros(THREADS, np.uint32), np.zeros(THREADS, np.float32), np.zeros(4, np.uint32)
    given = (numbers * 7 % 23).astype(np.uint32), (numbers % 9 / 4).astype(np.float32)
    report = wsemu.check(kernel, 1, THREADS, (*given, *outputs, 2))
    codes = tuple(sorted({finding.code for finding in report.findings if finding.severity == "error"}))
    return Said(report.verdict, codes, tuple(x.tobytes() for x in outputs) if report.verdict == "verified" else ())


def compare_levels(kernels: list[Kernel]) -> list[str]:
    """Return where the levels differ, or are wrong about a race."""
    modules = {level: compile_at(kernels, options) for level, options in LEVELS.items()}
    complaints = []
    for kernel in kernels:
        found = {level: said_of(module[kernel.name], moves=kernel.moves) for level, module in modules.items()}
        right = all(bool(RACES & {*said.codes}) == kernel.racy for said in found.values())
        right &= all(said.verdict == kernel.verdict for said in found.values())
        if len(set(found.values())) > 1 or not right:
            lines = [f"  {level}: {said.verdict} {said.codes} {hash(said.bits):x}" for level, said in found.items()]
            complaints.append("\n".join([f"{kernel.name} (expected: {kernel.verdict})", *lines, kernel.text]))
    return complaints
