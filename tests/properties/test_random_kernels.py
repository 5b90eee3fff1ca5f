"""Random kernels: the VM and the reference interpreter store the same bits, count the same and find the same.

A kernel is made of assignments, divergent branches and loops with break and continue, shared and local memory,
shuffles and votes, over integers of every width, floats and bools.  Its loops are bounded and its barriers are reached
by all threads.
"""

from __future__ import annotations

import itertools
import linecache
import math
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import wsemu
from wsemu import cuda

THREADS = 64
INPUTS = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8", "?")
INTEGERS, FLOATS = ("n0", "n1", "n2"), ("r0", "r1")
EDGES = (0, 1, -1, 2, 7, 127, -128, 255, 32767, -32768, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63))
_numbers = itertools.count()


class Writer:
    """Draws one kernel as source text."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.lines: list[str] = []
        self.counters = 0

    def pick(self, *choices: str) -> str:
        chosen: str = self.draw(st.sampled_from(choices))
        return chosen

    def integer(self, depth: int = 2) -> str:
        if depth == 0:
            leaf = self.pick("input", "variable", "literal", "thread")
            if leaf == "input":
                return f"{self.pick('i1', 'i2', 'i4', 'i8', 'u1', 'u2', 'u4', 'u8')}[t]"
            return {
                "variable": self.pick(*INTEGERS),
                "literal": self.pick("0", "1", "2", "3", "5", "31", "-1", "-7", "1000"),
                "thread": self.pick("t", "lane", "cuda.threadIdx.x"),
            }[leaf]
        x, y = self.integer(depth - 1), self.integer(depth - 1)
        shape = self.pick("binary", "binary", "cast", "unary", "choice", "builtin", "float")
        if shape == "binary":
            return f"({x} {self.pick('+', '-', '*', '&', '|', '^', '//', '%')} {y})"
        if shape == "cast":
            return f"np.{self.pick('int8', 'int16', 'int32', 'uint8', 'uint16', 'uint32', 'int64')}({x})"
        if shape == "unary":
            return f"({self.pick('-', '~')}{x})"
        if shape == "choice":
            return f"(np.int64({x}) if {self.condition(depth - 1)} else np.int64({y}))"
        if shape == "builtin":
            name = self.pick("min", "max", "<<", ">>", "abs")
            if name in ("<<", ">>"):
                return f"({x} {name} ({y} & 15))"
            return f"abs({x})" if name == "abs" else f"{name}(np.int64({x}), np.int64({y}))"
        return f"int({self.real(depth - 1)})"

    def real(self, depth: int = 2) -> str:
        if depth == 0:
            return self.pick("f4[t]", "f8[t]", *FLOATS, "np.float32(1.5)", "0.25", "-3.0", "2")
        x, y = self.real(depth - 1), self.real(depth - 1)
        shape = self.pick("binary", "binary", "fma", "cast", "function", "choice", "integer")
        if shape == "binary":
            return f"({x} {self.pick('+', '-', '*', '/')} {y})"
        if shape == "fma":
            return f"({x} * {y} + {self.real(depth - 1)})"
        if shape == "cast":
            return f"np.{self.pick('float32', 'float64')}({x})"
        if shape == "function":
            return self.pick(f"math.sqrt(abs({x}))", f"math.floor({x})", f"min({x}, {y})", f"(-{x})", f"math.sin({x})")
        if shape == "choice":
            return f"({x} if {self.condition(depth - 1)} else {y})"
        return f"float({self.integer(depth - 1)})"

    def condition(self, depth: int = 1) -> str:
        relation = self.pick("<", "<=", "==", "!=", ">", ">=")
        shape = self.pick("integer", "real", "bool", "and", "lane")
        if shape == "integer" or (depth == 0 and shape == "and"):
            return f"{self.integer(0)} {relation} {self.integer(0)}"
        if shape == "real":
            return f"{self.real(0)} {relation} {self.real(0)}"
        if shape == "bool":
            return self.pick("b[t]", "not b[t]")
        if shape == "lane":
            return f"lane {relation} {self.pick('0', '1', '7', '16', '31')}"
        return f"({self.condition(0)} {self.pick('and', 'or')} {self.condition(0)})"

    def put(self, indent: int, text: str) -> None:
        self.lines.append("    " * indent + text)

    def block(self, indent: int, depth: int, loop: bool) -> None:
        for _ in range(int(self.pick("1", "2", "3"))):
            self.statement(indent, depth, loop)

    def statement(self, indent: int, depth: int, loop: bool) -> None:
        kinds = ["integer", "real", "local"]
        if depth:
            kinds += ["if", "for", "while"]
        if loop:
            kinds += ["leave"]
        if indent == 1:
            kinds += ["shared", "shuffle", "vote"]
        kind = self.pick(*kinds)
        if kind == "integer":
            self.put(indent, f"{self.pick(*INTEGERS)} {self.pick('=', '+=', '^=')} np.int64({self.integer()})")
        elif kind == "real":
            self.put(indent, f"{self.pick(*FLOATS)} {self.pick('=', '+=', '*=')} {self.real()}")
        elif kind == "local":
            self.put(indent, f"own[{self.pick(*INTEGERS)} & 3] = {self.real(1)}")
            self.put(indent, f"{self.pick(*FLOATS)} = own[{self.integer(0)} & 3]")
        elif kind == "leave":
            self.put(indent, f"if {self.condition()}:")
            self.put(indent + 1, self.pick("break", "continue"))
        elif kind in ("shared", "shuffle", "vote"):
            self.together(indent, kind)
        else:
            self.nested(indent, depth, loop, kind)

    def together(self, indent: int, kind: str) -> None:
        """What all threads do at once."""
        if kind == "shared":
            self.put(indent, f"tile[t] = {self.integer(1)}")
            self.put(indent, "cuda.syncthreads()")
            self.put(indent, f"{self.pick(*INTEGERS)} = tile[{self.pick('63 - t', 't ^ 5', '(t * 7) & 63')}]")
            self.put(indent, "cuda.syncthreads()")
        elif kind == "shuffle":
            mode = self.pick("shfl_sync", "shfl_up_sync", "shfl_down_sync", "shfl_xor_sync")
            self.put(indent, f"n0 = cuda.{mode}(0xFFFFFFFF, {self.pick(*INTEGERS)}, {self.pick('0', '1', '5', '16')})")
        else:
            self.put(indent, f"n1 = cuda.ballot_sync(0xFFFFFFFF, {self.condition()})")

    def nested(self, indent: int, depth: int, loop: bool, kind: str) -> None:
        if kind == "if":
            self.put(indent, f"if {self.condition()}:")
            self.block(indent + 1, depth - 1, loop)
            if self.pick("else", "") == "else":
                self.put(indent, "else:")
                self.block(indent + 1, depth - 1, loop)
            return
        self.counters += 1
        name = f"c{self.counters}"
        if kind == "for":
            bounds = self.pick("4", "lane & 3", "1, 5, 2", "3, -1, -1", f"{self.pick(*INTEGERS)} & 3")
            self.put(indent, f"for {name} in range({bounds}):")
            self.put(indent + 1, f"n0 += {name}")
        else:
            self.put(indent, f"{name} = 0")
            self.put(indent, f"while {name} < {self.pick('3', '(t & 3)')}:")
            self.put(indent + 1, f"{name} += 1")
        self.block(indent + 1, depth - 1, True)

    def kernel(self) -> str:
        self.put(0, "@cuda.jit")
        self.put(0, f"def kernel({', '.join(INPUTS[:-1])}, b, integers, reals):")
        for line in (
            "t = cuda.threadIdx.x",
            "lane = cuda.laneid",
            "tile = cuda.shared.array(64, np.int64)",
            "own = cuda.local.array(4, np.float64)",
            "own[0] = own[1] = own[2] = own[3] = 0.5",
            *(f"{name} = t + {k}" for k, name in enumerate(INTEGERS)),
            "r0 = f4[t]",
            "r1 = f8[t]",
        ):
            self.put(1, line)
        self.block(1, 2, False)
        self.block(1, 2, False)
        for k, name in enumerate(INTEGERS):
            self.put(1, f"integers[{k}, t] = {name}")
        for k, name in enumerate(FLOATS):
            self.put(1, f"reals[{k}, t] = {name}")
        return "\n".join(self.lines) + "\n"


@st.composite
def sources(draw: Any) -> str:
    return Writer(draw).kernel()


def build(source: str) -> Any:
    """The kernel that the text defines; its source is findable without a file."""
    name = f"<random kernel {next(_numbers)}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    space: dict[str, Any] = {"cuda": cuda, "np": np, "math": math}
    exec(compile(source, name, "exec"), space)
    return space["kernel"]


def inputs(seed: int) -> list[Any]:
    """Arrays of every type: edge values and random ones."""
    rng = np.random.default_rng(seed)
    arrays: list[Any] = []
    for code in INPUTS:
        dtype = np.dtype(code)
        if dtype.kind == "b":
            arrays.append(rng.random(THREADS) < 0.5)
        elif dtype.kind == "f":
            arrays.append((rng.standard_normal(THREADS) * 10.0 ** rng.integers(-3, 4, THREADS)).astype(dtype))
        else:
            low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
            values = rng.integers(low, high, THREADS, dtype=dtype, endpoint=True)
            edges = [e for e in EDGES if low <= e <= high]
            values[: len(edges)] = edges
            values[40:] //= max(1, int(high) // 50)
            arrays.append(values)
    return arrays


def same(a: Any, b: Any) -> bool:
    """Equal bits; nans are alike."""
    if a.dtype.kind == "f":
        nans = np.isnan(a)
        return bool(np.array_equal(nans, np.isnan(b)) and np.array_equal(a[~nans].view("u8"), b[~nans].view("u8")))
    return bool(np.array_equal(a, b))


@settings(max_examples=30, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(source=sources(), seed=st.integers(0, 3))
def test_both_engines_agree(source: str, seed: int) -> None:
    kernel = build(source)
    results = []
    for engine in ("vm", "reference"):
        integers, reals = np.zeros((3, THREADS), np.int64), np.zeros((2, THREADS), np.float64)
        report = wsemu.check(kernel, 1, THREADS, (*inputs(seed), integers, reals), engine=engine)
        counters = report.counters
        found = [(f.code, f.sites[0].line, f.count) for f in report.findings]
        counted = counters.model_dump()
        results.append((integers, reals, report.verdict, found, counted))
    (i1, r1, *rest1), (i2, r2, *rest2) = results
    assert same(i1, i2), source
    assert same(r1, r2), source
    assert rest1 == rest2, source
