"""Types of variables, as Numba-CUDA 0.30 infers them for the same kernels (`_type_annotation.typemap`, recorded)."""

# ruff: noqa: B007, E741, F841, PIE808 - kernels say what they are to be typed for

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from wsemu import cuda
from wsemu.frontend.python.compile import argument_type, compile_kernel

ARGUMENTS = tuple(
    argument_type(value)
    for value in (np.zeros(8, np.float32), 3, *(np.zeros(8, t) for t in ("i4", "u4", "f8", "i1", "u1")))
)
"""x, n, i4, u4, f8, i8, u8 of each kernel"""


def widening(x, n, i4, u4, f8, i8, u8):
    s = np.float32(0)
    for i in range(n):
        s += x[i] * 2
    t = 0
    for j in range(4):
        t += x[j]
    x[0] = s + t


def stays_single(x, n, i4, u4, f8, i8, u8):
    s = np.float32(0)
    for i in range(4):
        s += x[i] * np.float32(2)
    x[0] = s


def nested_widening(x, n, i4, u4, f8, i8, u8):
    a = 0
    b = np.float32(1)
    for i in range(3):
        for j in range(3):
            b = b + a
            a = x[j]
    x[0] = a + b


def ranges(x, n, i4, u4, f8, i8, u8):
    for a in range(i4[0]):
        x[0] = a
    for b in range(u4[0]):
        x[0] = b
    for c in range(i8[0]):
        x[0] = c
    for d in range(u8[0]):
        x[0] = d
    for e in range(0, i4[0]):
        x[0] = e
    for f in range(i4[0], i4[1], i4[2]):
        x[0] = f
    for g in range(10):
        x[0] = g
    for h in range(u4[0], i4[0]):
        x[0] = h


def branches(x, n, i4, u4, f8, i8, u8):
    if n > 3:
        v = x[0]
    else:
        v = 0
    w = v
    c = x[0] if n > 1 else 0
    d = i4[0] if n > 1 else u4[0]
    e = i4[0] if n > 1 else np.float32(1)
    x[0] = w + c + d + e


def one_path(x, n, i4, u4, f8, i8, u8):
    if n > 3:
        v = x[0]
    w = v
    x[0] = w


def tuples(x, n, i4, u4, f8, i8, u8):
    a, b = x[0], n
    p = (0, np.float32(0))
    for i in range(3):
        p = (p[0] + 1, p[1] + x[i])
    q, r = p
    for k, v in enumerate((1, 2)):
        m = k + v
    x[0] = a + b + q + r + m


def swap(x, n, i4, u4, f8, i8, u8):
    a = i4[0]
    b = u4[0]
    for i in range(3):
        a, b = b, a
    x[0] = a + b


def whiles(x, n, i4, u4, f8, i8, u8):
    k = i4[0]
    while k > 0:
        k -= 1
    m = u4[0]
    while m > 0:
        m >>= 1
    f = x[0]
    while f > 1:
        f /= 2
    g = x[0]
    while g > np.float32(1):
        g *= np.float32(0.5)
    x[0] = k + m + f + g


def operations(x, n, i4, u4, f8, i8, u8):
    a = i4[0] + i4[1]
    b = u4[0] * u4[1]
    c = u4[0] + i4[0]
    d = -u4[0]
    e = ~i4[0]
    f = i8[0] + i8[1]
    g = x[0] + i8[0]
    h = x[0] + i4[0]
    i = x[0] / 2
    j = i4[0] / i4[1]
    k = i4[0] // i4[1]
    l = x[0] ** 2
    m = i4[0] > 3
    o = m + m
    p = math.sqrt(x[0])
    q = math.sqrt(n)
    r = abs(i4[0])
    s = min(i4[0], 1)
    t = max(x[0], 0)
    v = int(x[0])
    w = float(i4[0])
    y = x.size
    z = x.shape[0]
    aa = len(x)
    bb = u8[0] << 2
    cc = not n
    dd = n and x[0]
    ee = i4[0] or 5
    ff = 3 < n < 5
    gg = x[1:5][0]
    hh = i4.view(np.float32)[0]
    ii = u8[0] & i8[0]
    jj = round(x[0])
    kk = np.int8(n)
    ll = f8[0] * x[0]
    x[0] = a


def match_(x, n, i4, u4, f8, i8, u8):
    match n:
        case 1:
            v = x[0]
        case 2 | 3:
            v = 2
        case _:
            v = i4[0]
    w = v
    x[0] = w


def thread_(x, n, i4, u4, f8, i8, u8):
    t = cuda.threadIdx.x
    b = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    g = cuda.grid(1)
    lane = cuda.laneid
    gs = cuda.gridsize(1)
    for k in range(cuda.threadIdx.x, 64, cuda.blockDim.x):
        x[k] = k
    for j in range(cuda.threadIdx.x, cuda.blockDim.x, cuda.gridDim.x):
        x[j] = j
    m = cuda.popc(u4[0])
    x[t] = b + g + lane + gs + m


def after_loop(x, n, i4, u4, f8, i8, u8):
    for i in range(n):
        pass
    j = i
    s = 0
    for q in range(3):
        if q > 1:
            s = x[q]
            break
    x[0] = s + j


def breaks(x, n, i4, u4, f8, i8, u8):
    s = i4[0]
    while True:
        s = s * 2
        if s > 100:
            s = x[0]
            break
    x[0] = s


def device_(x, n, i4, u4, f8, i8, u8):
    def f(a, b):
        if a > b:
            return a
        return b

    p = f(x[0], n)
    q = f(i4[0], u4[0])
    r = (lambda v: v * 2)(x[0])
    x[0] = p + q + r


# kernel -> its variables and the types of their versions in Numba
RECORDED = {
    "widening": """
        i: int64
        j: int64
        s: float32 float64
        t: float64 int64
    """,
    "stays_single": """
        i: int64
        s: float32
    """,
    "nested_widening": """
        a: float32 float64 int64
        b: float32 float64
        i: int64
        j: int64
    """,
    "ranges": """
        a: int32
        b: uint64
        c: int32
        d: uint64
        e: int64
        f: int32
        g: int64
        h: int64
    """,
    "branches": """
        c: float64
        d: int64
        e: float64
        v: float32 float64 int64
        w: float64
    """,
    "one_path": """
        v: float32
        w: float32
    """,
    "tuples": """
        a: float32
        b: int64
        i: int64
        k: int64
        m: int64
        q: int64
        r: float32
        v: int64
    """,
    "swap": """
        a: int32 int64
        b: int64 uint32
        i: int64
    """,
    "whiles": """
        f: float32 float64
        g: float32
        k: int32 int64
        m: uint32 uint64
    """,
    "operations": """
        a: int64
        aa: int64
        b: uint64
        bb: uint64
        c: int64
        cc: bool
        d: uint64
        dd: float64
        e: int64
        ee: int64
        f: int64
        ff: bool
        g: float32
        gg: float32
        h: float64
        hh: float32
        i: float64
        ii: int64
        j: float64
        jj: int64
        k: int64
        kk: int8
        l: float32
        ll: float64
        m: bool
        o: int64
        p: float32
        q: float64
        r: int32
        s: int64
        t: float64
        v: int64
        w: float64
        y: int64
        z: int64
    """,
    "match_": """
        v: float32 float64 int32 int64
        w: float64
    """,
    "thread_": """
        b: int64
        g: int64
        gs: int64
        j: int32
        k: int64
        lane: int32
        m: uint32
        t: int32
    """,
    "after_loop": """
        i: int64
        j: int64
        q: int64
        s: float32 float64 int64
    """,
    "breaks": """
        s: float32 int32 int64
    """,
    "device_": """
        p: float32 float64 int64
        q: int32 int64 uint32
        r: float64
    """,
}


@pytest.mark.parametrize("name", RECORDED)
def test_types_are_numbas(name: str) -> None:
    compiled = compile_kernel(globals()[name], ARGUMENTS)
    expected: dict[str, set[str]] = {}
    for line in RECORDED[name].strip().splitlines():
        variable, _, types = line.partition(":")
        expected[variable.strip()] = set(types.split())
    found: dict[str, set[Any]] = {}
    for typed in compiled.variables:
        found.setdefault(typed.name, set()).add(typed.type)
    assert found.keys() == expected.keys()
    for variable_name, types_found in found.items():
        assert types_found <= expected[variable_name], variable_name
