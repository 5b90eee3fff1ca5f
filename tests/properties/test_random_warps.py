"""Random kernels in which lanes diverge around barriers, atomics, warp operations and exits: the VM, on one worker
and on two, and the reference interpreter report the same, finding by finding, and leave the same in the arrays.

Conditions pick lanes, warps and CTAs; operands come from small sets, so that barriers meet and accesses collide.  Most
of these kernels are faulty in some way, and the engines must agree on how; those of the mild kind often are not: their
warps meet as wholes, and mostly at places of their own.
"""

from __future__ import annotations

import itertools
import linecache
import random
from typing import Any

import numpy as np
import pytest

import wsemu
from wsemu import cuda, ptx

WAYS: tuple[dict[str, Any], ...] = ({"workers": 1}, {"workers": 2}, {"engine": "reference"})
LANES = ("lane == 0", "lane == 3", "lane < 16", "lane >= 16", "lane % 2 == 0", "lane < 31", "t % 5 != 0")
WARPS = ("w == 0", "w == 1", "w != 0", "w < 2", "b == 0", "t < n", "o[60] == 0")
MASKS = ("0xFFFFFFFF", "0x0000FFFF", "0xFFFF0000", "0x55555555", "0x00000001", "0x7FFFFFFF", "0xFFFF << (lane & 16)")
_numbers = itertools.count()


class Writer:
    """Draws one kernel as source text."""

    def __init__(self, source: random.Random, mild: bool = False) -> None:
        self.source = source
        self.mild = mild
        self.lines: list[str] = []
        self.loops = 0

    def pick(self, *choices: str) -> str:
        return self.source.choice(choices)

    def put(self, indent: int, text: str) -> None:
        self.lines.append("    " * indent + text)

    def place(self) -> str:
        """Where an access goes."""
        if self.mild and self.source.random() < 0.8:
            return "t"
        return self.pick("0", "1", "lane & 1", "t", "t", "t", "lane", "t ^ 1", "t & 7", "63 - lane", "w")

    def block(self, indent: int, depth: int) -> None:
        for _ in range(self.source.randrange(1, 4)):
            self.statement(indent, depth)

    def statement(self, indent: int, depth: int) -> None:
        kinds = ["access", "access", "barrier", "barrier", "exchange", "atomic", "bytes"]
        kinds += ["if", "if", "if", "for"] * (depth > 0) + ["exit"]
        if self.mild:
            kinds = (
                ["access", "atomic", "bytes"] + ["if", "for"] * (depth > 0) + ["meeting"] * (4 if indent == 1 else 0)
            )
        kind = self.source.choice(kinds)
        if kind in ("if", "exit"):
            self.put(indent, f"if {self.pick(*LANES, *WARPS)}:")
            if kind == "exit":
                self.put(indent + 1, "return")
                return
            self.block(indent + 1, depth - 1)
            if self.source.random() < 0.4:
                self.put(indent, "else:")
                self.block(indent + 1, depth - 1)
        elif kind == "for":
            self.loops += 1
            self.put(indent, f"for k{self.loops} in range({self.pick('2', '3', 'w + 1', 'lane & 1')}):")
            self.block(indent + 1, depth - 1)
        else:
            getattr(self, kind)(indent)

    def meeting(self, indent: int) -> None:
        """Warps meet as wholes, or an elected lane hands over to another warp."""
        match self.source.randrange(5):
            case 0:
                self.put(indent, "cuda.syncthreads()")
            case 1:
                self.put(indent, "if w == 0:")
                self.put(indent + 1, f"if {self.pick(*LANES[:4])}:")
                self.put(indent + 2, "ptx.barrier_arrive(1, 64)")
                self.put(indent, "elif w == 1:")
                self.put(indent + 1, "ptx.barrier_sync(1, 64)")
            case 2:
                self.put(indent, f"if {self.pick(*LANES)}:")
                self.put(indent + 1, f"v += ptx.barrier_red_popc(2, {self.pick('64', '96')}, lane < 7)")
                self.put(indent, "else:")
                self.put(indent + 1, f"v += ptx.barrier_red_popc(2, {self.pick('64', '96')}, t < 40)")
            case 3:
                self.put(indent, "cuda.syncwarp()")
            case _:
                self.put(indent, f"v += cuda.syncthreads_count({self.pick('1', 'lane & 1')})")

    def access(self, indent: int) -> None:
        array = "s" if self.mild else self.pick("s", "s", "o")
        text = self.pick(f"{array}[{self.place()}] = {self.pick('1', 't', 'v')}", f"v += {array}[{self.place()}]")
        self.put(indent, text)

    def bytes(self, indent: int) -> None:
        offset = f"{'4' if self.mild else self.pick('4', '8')} * ({self.place()})"
        self.put(
            indent,
            self.pick(
                f"v += ptx.ld_bytes(s, {offset}, {'4' if self.mild else self.pick('4', '8')})[0]",
                f"ptx.st_bytes(s, {offset}, {'(1,)' if self.mild else '(1, 2)'})",
                f"v += ptx.ld_bytes(s[{'0' if self.mild else '8'}:12], {offset}, 4)[0]",
                "own[lane & 3] = v",
                "v += own[lane & 1]",
            ),
        )

    def atomic(self, indent: int) -> None:
        array = self.pick("s", "s", "o")
        self.put(indent, f"cuda.atomic.{self.pick('add', 'add', 'max', 'exch')}({array}, {self.place()}, 1)")

    def barrier(self, indent: int) -> None:
        number = self.pick("0", "1", "1", "2", "w")
        count = self.pick("32", "64", "64", "96")
        form = self.pick("bar", "barrier")
        self.put(
            indent,
            self.pick(
                "cuda.syncthreads()",
                f"ptx.{form}_sync({number}, {count})",
                f"ptx.{form}_sync({number}, {count})",
                f"ptx.{form}_arrive({number}, {count})",
                f"ptx.{form}_sync({number})",
                f"v += ptx.{form}_red_popc({number}, {count}, lane < 7)",
                f"v += cuda.syncthreads_count({self.pick('1', 'lane & 1')})",
            ),
        )

    def exchange(self, indent: int) -> None:
        mask = self.pick(*MASKS)
        self.put(
            indent,
            self.pick(
                "cuda.syncwarp()",
                "cuda.syncwarp()",
                f"cuda.syncwarp({mask})",
                f"v += cuda.shfl_xor_sync({mask}, v, {self.pick('1', '8', '16')})",
                f"v += cuda.shfl_down_sync({mask}, v, {self.pick('1', '16')})",
                f"v += cuda.ballot_sync({mask}, lane < 5)",
                f"v += cuda.match_any_sync({mask}, lane % 3)",
            ),
        )

    def kernel(self) -> str:
        self.put(0, "@cuda.jit")
        self.put(0, "def kernel(o, n):")
        for line in (
            "t = cuda.threadIdx.x",
            "b = cuda.blockIdx.x",
            "w = t // 32",
            "lane = t % 32",
            "s = cuda.shared.array(96, np.int32)",
            "own = cuda.local.array(4, np.int32)",
            "v = 0",
        ):
            self.put(1, line)
        if self.mild:
            self.put(1, "own[0] = own[1] = own[2] = own[3] = 0")
        if self.mild or self.source.random() < 0.8:
            self.put(1, "s[t] = 0")
            self.put(1, "cuda.syncthreads()")
        self.block(1, 2)
        self.block(1, 2)
        if not self.mild and self.source.random() < 0.5:
            self.put(1, "o[t] = v")
        return "\n".join(self.lines) + "\n"


def build(source: str) -> Any:
    """The kernel that the text defines; its source is findable without a file."""
    name = f"<random warps {next(_numbers)}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    space: dict[str, Any] = {"cuda": cuda, "np": np, "ptx": ptx}
    exec(compile(source, name, "exec"), space)
    return space["kernel"]


def outcomes(source: str, grid: int, block: int) -> list[dict[str, Any]]:
    """What each way of running a kernel reports and leaves."""
    kernel = build(source)
    found = []
    for way in WAYS:
        o = np.zeros(96, np.int32)
        report = wsemu.check(kernel, grid, block, (o, 40), budget=200_000, **way)
        found.append({**report.model_dump(exclude={"seconds"}), "array": o.tolist()})
    return found


def agree(seed: int) -> str:
    """Draw a kernel, compare all ways of running it, and return the verdict."""
    source = random.Random(seed)
    text = Writer(source, mild=source.random() < 0.5).kernel()
    grid, block = source.choice([1, 1, 2, 3]), source.choice([32, 64, 64, 70, 96])
    first, *others = outcomes(text, grid, block)
    for other in others:
        assert other == first, f"seed {seed}, grid {grid}, block {block}\n{text}"
    verdict: str = first["verdict"]
    return verdict


@pytest.mark.parametrize("part", range(2))
def test_all_ways_of_running_agree(part: int) -> None:
    verdicts = [agree(seed) for seed in range(25 * part, 25 * part + 25)]
    assert verdicts.count("verified") >= 3
    assert verdicts.count("failed") >= 10
