"""Every construct of the kernel dialect: both engines give what Python itself computes, thread by thread."""

# ruff: noqa: B007, B905, F821, RUF005 - kernels use what Python has

from __future__ import annotations

import math
import runpy
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
from pydantic import BaseModel, ConfigDict

import wsemu
from wsemu import cuda

THREADS = 64
ENGINES = ("vm", "reference")


class Feature(NamedTuple):
    """A kernel and the arguments that it is launched with."""

    kernel: Any
    arguments: tuple[Any, ...]


FEATURES: dict[str, Feature] = {}


def integers(*shape: int) -> Any:
    """Small int64 numbers of both signs, the same on every run."""
    return np.random.default_rng(7).integers(-40, 40, shape)


def feature(*arguments: Any) -> Callable[[Any], Any]:
    """Enter a kernel whose first argument is an int64 array with an element per thread; `arguments` are the others."""

    def enter(function: Any) -> Any:
        FEATURES[function.__name__] = Feature(cuda.jit(function), (np.zeros(THREADS, np.int64), *arguments))
        return function

    return enter


def simulated(function: Any, thread: int) -> Any:
    """The same function as plain Python, run by one thread; what it calls is rebound too."""
    point = SimpleNamespace(x=thread, y=0, z=0)
    make = SimpleNamespace(array=lambda shape, dtype: np.zeros(shape, dtype))
    stand_in = SimpleNamespace(
        threadIdx=point, blockIdx=SimpleNamespace(x=0), blockDim=SimpleNamespace(x=THREADS),
        gridDim=SimpleNamespace(x=1), grid=lambda n: thread, local=make,
    )  # fmt: skip
    names = dict(function.__globals__)
    names["cuda"] = stand_in
    for name, value in list(names.items()):
        if isinstance(value, wsemu.launch.kernel.Kernel):
            names[name] = FunctionType(
                value.py_func.__code__, names, name, value.py_func.__defaults__, value.py_func.__closure__
            )
            names[name].__kwdefaults__ = value.py_func.__kwdefaults__
    return FunctionType(function.__code__, names, function.__name__, function.__defaults__, function.__closure__)


def run(kernel: Any, arguments: tuple[Any, ...], engine: Any, block: int = THREADS, **options: Any) -> tuple[Any, ...]:
    """The arrays after a launch that has to be verified."""
    copies = tuple(a.copy() if isinstance(a, np.ndarray) else a for a in arguments)
    report = wsemu.check(kernel, 1, block, copies, engine=engine, **options)
    assert report.verdict == "verified", (report.findings, report.notes)
    return copies


# -- control flow ------------------------------------------------------------------------------------------------------
@feature()
def if_elif_else(y):
    i = cuda.threadIdx.x
    if i < 10:
        v = 1
    elif i < 20:
        v = 2
    elif i == 33:
        v = 3
    else:
        v = 4
    y[i] = v


@feature()
def nested_divergent_loops(y):
    i = cuda.threadIdx.x
    total = 0
    for a in range(i % 7):
        if a == 5:
            break
        b = 0
        while b < a + 3:
            b += 1
            if b % 3 == 1:
                continue
            if b * a > 12:
                break
            total += b
        else:
            total += 100
        if total > 500:
            y[i] = -total
            return
        total += a
    else:
        total += 1000
    y[i] = total


@feature()
def for_else(y):
    i = cuda.threadIdx.x
    for k in range(2, i):
        if i % k == 0:
            y[i] = k
            break
    else:
        y[i] = -1


@feature()
def while_else(y):
    i = cuda.threadIdx.x
    n = i
    while n > 3:
        n -= 5
        if n == 11:
            break
    else:
        n += 50
    y[i] = n


@feature()
def while_true(y):
    i = cuda.threadIdx.x
    n = i + 1
    steps = 0
    while True:
        if n == 1:
            break
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    y[i] = steps


@feature()
def early_return(y):
    i = cuda.threadIdx.x
    if i % 3 == 0:
        return
    y[i] = 7
    if i % 3 == 1:
        return
    y[i] += 1


@feature()
def return_in_loop(y):
    i = cuda.threadIdx.x
    for k in range(100):
        if k * k > i:
            y[i] = k
            return
    y[i] = -1


@feature()
def loop_variable_after_loop(y):
    i = cuda.threadIdx.x
    for k in range(i + 1):
        pass
    y[i] = k


@feature()
def loop_variable_reassigned(y):
    i = cuda.threadIdx.x
    total = 0
    for k in range(5):
        k = k * i
        total += k
    y[i] = total + k


@feature(3)
def run_time_step(y, n):
    i = cuda.threadIdx.x
    step = n if i % 2 == 0 else -n
    total = 0
    for k in range(i, 30, step):
        total += k
    y[i] = total


@feature()
def negative_step(y):
    i = cuda.threadIdx.x
    total = 0
    for k in range(i, -1, -4):
        total = total * 3 % 1001 + k
    y[i] = total


@feature()
def zero_trip_loops(y):
    i = cuda.threadIdx.x
    v = 5
    for k in range(0):
        v = k
    for k in range(3, 3):
        v = 9
    for k in range(i - 40):
        v = k
    y[i] = v


@feature()
def empty_range_else(y):
    i = cuda.threadIdx.x
    for _ in range(0):
        y[i] = 1
    else:
        y[i] = 2


@feature()
def nested_breaks(y):
    i = cuda.threadIdx.x
    count = 0
    for a in range(6):
        for b in range(6):
            for c in range(6):
                if a * b * c > i:
                    break
                count += 1
            else:
                continue
            break
        if count > 80:
            break
    y[i] = count


@feature()
def loops_in_sequence(y):
    i = cuda.threadIdx.x
    a = 0
    for k in range(4):
        a += k * i
    for k in range(a % 5):
        a -= k
    while a > 10:
        a -= 7
    y[i] = a


@feature()
def defined_in_both_branches_of_nest(y):
    i = cuda.threadIdx.x
    if i > 5:
        if i > 50:
            v = 1
        else:
            v = i
            if i == 9:
                v = 90
    else:
        v = -i
    y[i] = v


@feature()
def carried_from_later_in_body(y):
    i = cuda.threadIdx.x
    total = 0
    previous = 0
    for k in range(i % 9):
        if k > 0:
            total += previous
        previous = k * k
    y[i] = total + previous


@feature()
def assigned_in_body_only(y):
    i = cuda.threadIdx.x
    total = 0
    for k in range(6):
        if k > 0:
            total += last  # type: ignore[has-type]
        last = k + i
    y[i] = total + last


@feature()
def pass_and_docstring(y):
    """Does little."""
    y[cuda.threadIdx.x] = 1


# -- expressions -------------------------------------------------------------------------------------------------------
@feature()
def chained_comparison(y):
    i = cuda.threadIdx.x
    a = 10 < i <= 20 != i
    b = 3 == i % 4 < 5
    y[i] = a + 2 * b


@feature(integers(THREADS))
def short_circuit(y, x):
    i = cuda.threadIdx.x
    if i + 32 < x.size and x[i + 32] > 0:
        y[i] += 1
    if i + 32 >= x.size or x[i + 32] > 0:
        y[i] += 2
    if not (i > 5 and (i < 9 or x[i] < 0)):
        y[i] += 4


@feature(integers(THREADS))
def and_or_values(y, x):
    i = cuda.threadIdx.x
    a = x[i] and i
    b = x[i] > 0 or i > 30
    c = i % 5 or i % 3 or 77
    d = i % 4 and i % 6 and x[63 - i]
    y[i] = a * 1000 + b * 100 + c + 3 * d


@feature(integers(THREADS))
def conditional_expression(y, x):
    i = cuda.threadIdx.x
    y[i] = (x[i] if x[i] > 0 else -x[i]) + (i if i > 4 else x[0] if i > 2 else 11)


@feature()
def all_integer_operators(y):
    i = cuda.threadIdx.x - 30
    d = i % 7 - 3
    if d == 0:
        d = 2
    y[i + 30] = (i // d) * 1000 + (i % d) * 50 + (i & 13) + (i | 3) + (i ^ d) + (i << 3) + (i >> 2) + ~i + i**2 + -d


@feature()
def in_tuple(y):
    i = cuda.threadIdx.x
    y[i] = (i in (3, 5, 9)) + 2 * (i not in (5, 6))


@feature()
def bools_as_numbers(y):
    i = cuda.threadIdx.x
    flag = i > 3
    count = 0
    for k in range(4):
        count += (k > i) + flag
    y[i] = count + True


# -- tuples ------------------------------------------------------------------------------------------------------------
@feature()
def tuples(y):
    i = cuda.threadIdx.x
    a, (b, c) = i, (2 * i, 3 * i)
    t = (a, b, c)
    a, b = b, a
    u = t + (a,)
    y[i] = t[i % 3] * 100 + u[-1] + len(u) + t[1:][0] + (1 in t)


@feature()
def tuples_carried(y):
    i = cuda.threadIdx.x
    pair = (0, 1)
    for _ in range(i % 12):
        pair = (pair[1], pair[0] + pair[1])
    x, _ = pair
    y[i] = x


@feature()
def tuple_over_branches(y):
    i = cuda.threadIdx.x
    if i > 9:
        t = (i, 5)
    else:
        t = (7, i)
    y[i] = t[0] * t[1]


@feature()
def iterate_tuples(y):
    i = cuda.threadIdx.x
    total = 0
    for n, v in enumerate((5, i, 7)):
        total += n * v
    for a, b in zip((1, 2, 3), (i, 4, i)):
        if b == 9:
            continue
        if a == 3 and i > 40:
            break
        total += a * b
    else:
        total += 10000
    for v in reversed((1, i)):
        total = total * 2 + v
    for n, v in enumerate((i, 3), 5):
        total += n * v
    y[i] = total + sum((i, 2)) + max((i, 30)) + min(i, 12, 40)


@feature()
def fibonacci_swap(y):
    i = cuda.threadIdx.x
    a, b = 0, 1
    for _ in range(i % 20):
        a, b = b, a + b
    y[i] = a


# -- functions ---------------------------------------------------------------------------------------------------------
@cuda.jit(device=True)
def factorial(n):
    if n < 2:
        return 1
    return n * factorial(n - 1)


@cuda.jit(device=True)
def fibonacci(n):
    if n < 2:
        return n
    return fibonacci(n - 1) + fibonacci(n - 2)


@cuda.jit(device=True)
def gcd(a, b):
    return a if b == 0 else gcd(b, a % b)


@cuda.jit(device=True)
def sign(v):
    if v > 0:
        return 1
    if v < 0:
        return -1
    return 0


@cuda.jit(device=True)
def first_divisor(n):
    for k in range(2, n):
        if n % k == 0:
            return k
        if k * k > n:
            break
    return n


def plain(a, b=3, *, c=5):
    return a * b + c


@cuda.jit(device=True)
def many(first, *rest):
    total = first
    for v in rest:
        total = total * 3 + v
    return total


@cuda.jit(device=True)
def two_results(v):
    return v // 5, v % 5


@cuda.jit(device=True)
def store_into(y, i, v):
    if v > 20:
        return
    y[i] += v


@feature()
def recursion(y):
    i = cuda.threadIdx.x
    y[i] = factorial(i % 15) + gcd(i * 6, 84)


@feature()
def tree_recursion(y):
    i = cuda.threadIdx.x
    y[i] = fibonacci(i % 9)


@feature(integers(THREADS))
def several_returns(y, x):
    i = cuda.threadIdx.x
    y[i] = sign(x[i]) + 10 * first_divisor(i)
    store_into(y, i, i)


@feature()
def argument_kinds(y):
    i = cuda.threadIdx.x
    rest = (i, 4)
    y[i] = plain(i) + plain(i, 4) + plain(c=i, a=2) + plain(b=i, a=3, c=1) + many(1, 2, i) + many(i) + many(*rest, 9)


@feature()
def results_unpacked(y):
    i = cuda.threadIdx.x
    q, r = two_results(i)
    y[i] = q * 100 + r + two_results(2 * i)[1]


@feature()
def nested_functions(y):
    i = cuda.threadIdx.x
    scale = 3

    def scaled(v, offset=i):
        w = v * scale
        if w > 30:
            return w - offset
        return w + offset

    square = lambda v: v * v + scale  # noqa: E731

    def twice(f, v):
        return f(f(v))

    y[i] = scaled(i) + square(i) + twice(square, 2) + twice(lambda v: v + i, 1)


FACTOR = 11
TABLE = np.array([[3, 1, 4], [1, 5, 9]], np.int64)
WEIGHTS = (2, 7, 1)


@feature()
def globals_as_constants(y):
    i = cuda.threadIdx.x
    total = 0
    for k in range(3):
        total += TABLE[i % 2, k] * WEIGHTS[k]
    row = TABLE[i & 1]
    y[i] = total * FACTOR + row[2] + TABLE.shape[1] + len(TABLE)


def _closure(factor: int, table: Any) -> Any:
    def over_host_values(y):
        i = cuda.threadIdx.x
        y[i] = factor * i + table[i % 3]

    return over_host_values


feature()(_closure(6, np.array([10, 20, 30])))


@feature()
def matching(y):
    i = cuda.threadIdx.x
    match i % 10:
        case 0:
            v = 5
        case 1 | 2:
            v = 6
        case n if n > 7:
            v = n * 3
        case other:
            v = other
    match i % 3:
        case 1:
            v += 100
    y[i] = v


# -- arrays ------------------------------------------------------------------------------------------------------------
@feature(integers(THREADS))
def slices(y, x):
    i = cuda.threadIdx.x
    a = x[4:40]
    b = x[::-1]
    c = x[10:50:7]
    d = x[-8:]
    e = x[40:8:-5]
    f = x[i:]
    g = x[:-3][::-2]
    y[i] = a[i % 36] + 3 * b[i] + 5 * c[i % 6] + 7 * d[i % 8] + 11 * e[i % 7] + 13 * f[0] + 17 * g[i % 31] + len(f)
    y[i] += len(a) + len(c) + len(e) + len(g) + len(x[50:500]) + len(x[9:3]) + len(x[-100:5]) + len(x[3:9:-1])


@feature(integers(8, 12))
def row_views(y, x):
    i = cuda.threadIdx.x
    row = x[i % 8]
    column = x[:, i % 12]
    block = x[2:6, ::3]
    t = x.T
    last = x[..., -1]
    y[i] = row[i % 12] + 2 * column[i % 8] + 3 * block[i % 4, i % 4] + 5 * t[i % 12, i % 8] + 7 * last[i % 8] + row.size
    y[i] += x.shape[0] * 100 + x.size + block.shape[1] + x.ndim + x[i % 8][i % 12] + x[-1, -2] + t.shape[0]


@feature(integers(THREADS))
def reshaped(y, x):
    i = cuda.threadIdx.x
    m = x.reshape(8, 8)
    n = x.reshape((4, -1))
    y[i] = m[i // 8, i % 8] + 3 * n[i // 16, i % 16] + m.ravel()[63 - i]


@feature(integers(THREADS))
def array_carried(y, x):
    i = cuda.threadIdx.x
    total = 0
    while x.size > 4:
        total = total * 3 % 1001 + x[i % x.size]
        x = x[3:]
    y[i] = total


@feature(integers(THREADS), integers(THREADS) * 3)
def buffers_swapped(y, a, b):
    i = cuda.threadIdx.x
    total = 0
    for _ in range(5):
        total = total * 3 + a[i]
        a, b = b, a
    y[i] = total + b[0]


@feature(integers(THREADS), integers(THREADS) * 5)
def array_over_branches(y, a, b):
    i = cuda.threadIdx.x
    if i % 2:
        c = a
    else:
        c = b[1:]
    d = a if i > 7 else b
    y[i] = c[i // 2] * 100 + d[i]


@feature(integers(THREADS))
def augmented_elements(y, x):
    i = cuda.threadIdx.x
    y[i] = x[i]
    y[i] += 3
    y[i] *= 2
    y[i] -= i
    y[i] //= 3
    y[i] ^= 5
    y[i] <<= 2
    y[i] |= 1
    y[i] %= 97


@feature()
def local_arrays(y):
    i = cuda.threadIdx.x
    a = cuda.local.array(8, np.int64)
    m = cuda.local.array((3, 4), np.int64)
    for k in range(8):
        a[k] = k * i
    for r in range(3):
        for c in range(4):
            m[r, c] = r * 10 + c
    m[1] = 5
    m[2, 1:3] = i
    a[2:6] = m[0]
    total = 0
    for k in range(8):
        total = total * 3 + a[k]
    for r in range(3):
        for c in range(4):
            total += (r + 2 * c) * m[r, c]
    for v in a:
        total += v
    y[i] = total


@feature(integers(THREADS))
def negative_indices(y, x):
    i = cuda.threadIdx.x
    y[i] = x[-1] + x[-2]


@feature()
def tuple_of_shape(y):
    i = cuda.threadIdx.x
    (n,) = y.shape
    y[i] = n + y.shape[0] + y.itemsize + y.nbytes + y.strides[0]


@feature((3, 4), 2.5)
def tuple_argument(y, t, f):
    i = cuda.threadIdx.x
    y[i] = t[0] * i + t[i % 2] + int(f * 4)


# -- pattern objects ---------------------------------------------------------------------------------------------------
class Window(NamedTuple):
    start: int
    length: int

    def at(self, k):
        return self.start + k % self.length


WINDOW = Window(4, 9)


@feature()
def named_tuples(y):
    i = cuda.threadIdx.x
    here = Window(i, 3)
    y[i] = WINDOW.at(i) * 100 + WINDOW.start + here.at(5) + here.length


# -- the tests ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", FEATURES)
def test_equals_python(name: str, engine: str) -> None:
    kernel, arguments = FEATURES[name]
    got = run(kernel, arguments, engine)
    expected = tuple(a.copy() if isinstance(a, np.ndarray) else a for a in arguments)
    for thread in range(THREADS):
        simulated(kernel.py_func, thread)(*expected)
    np.testing.assert_array_equal(got[0], expected[0])


# -- what plain Python does not have -----------------------------------------------------------------------------------
@dataclass(frozen=True)
class Tile:
    """A pattern object: fields, a property, methods."""

    width: int
    scale: float = 2.0

    @property
    def half(self):
        return self.width // 2

    def at(self, x, i):
        return x[i % self.width] * self.scale + self.extra(i)

    def extra(self, i):
        return self.half


class Base:
    """A plain class whose fields `__init__` fills in."""

    def __init__(self, first):
        self.first = first

    def value(self):
        return self.first * 10


class Derived(Base):
    def __init__(self, first, second):
        super().__init__(first)
        if first > 5:
            self.second = second
        else:
            self.second = -second

    def value(self):
        return super().value() + self.second


class Model(BaseModel):
    """A pydantic pattern."""

    model_config = ConfigDict(frozen=True)
    count: int = 4

    def of(self, v):
        return v * self.count


TILE = Tile(8)
MODEL = Model(count=3)
RECORD = np.dtype([("a", np.int32), ("b", np.float64, 3)], align=True)


def uses(pattern, x, i):
    return pattern.at(x, i)


@cuda.jit
def patterns(y, x):
    i = cuda.threadIdx.x
    here = Tile(i + 1, 3.0)
    pair = (TILE, here)
    v = TILE.at(x, i) + uses(here, x, i) + pair[1].half + MODEL.of(i)
    for _ in range(3):
        here = Tile(here.width + 1, 3.0)
    y[i] = v + here.width + Derived(i, 7).value() + Derived(3, 7).value()


@cuda.jit
def records(y, r):
    i = cuda.threadIdx.x
    e = r[i]
    e.b[1] = e["a"] + 0.5
    r[i].a += 2
    r[i]["b"][2] = i
    y[i] = e.a + e["b"][1] + r[i].b[2]


@cuda.jit
def numbers(y, z, h, q, u):
    i = cuda.threadIdx.x
    w = z[i] * z[i] + np.complex64(1j)
    z[i] = w
    h[i] = h[i] * h[i] + np.float16(0.5)
    q[i] = not q[i]
    u[i] = u[i] * 100 + 250
    y[i] = w.real + w.imag


@cuda.jit
def shared_memory(y, x):
    tile = cuda.shared.array((2, 32), np.float32)
    rest = cuda.shared.array(0, np.float32)
    i = cuda.threadIdx.x
    tile[i // 32, i % 32] = x[i]
    rest[i] = x[i] * np.float32(2)
    cuda.syncthreads()
    a, b = tile[0], tile[1]
    total = np.float32(0)
    for _ in range(3):
        total += a[i % 32]
        a, b = b, a
    y[i] = total + rest[63 - i]


@cuda.jit
def atomics_and_warps(y, x):
    i = cuda.threadIdx.x
    cuda.atomic.add(y, 0, x[i])
    v = cuda.shfl_xor_sync(-1, i, 1)
    if cuda.any_sync(-1, v > 60):
        cuda.atomic.max(y, 1, float(v))
    for k in range(i, 256, cuda.blockDim.x):
        if k % 62 == i:
            y[k % 62 + 2] = 1


@cuda.jit
def maybe_unassigned(y, a, b):
    i = cuda.threadIdx.x
    if i > 7:
        c = a
        n = 5
    if i > 7:
        y[i] = c[i] + n
    s = -0.0 if i > 3 else 0.0
    y[i] += math.copysign(1.0, s)


def expected_patterns(y: Any, x: Any) -> None:
    for i in range(THREADS):
        v = x[i % 8] * 2.0 + 4 + x[i % (i + 1)] * 3.0 + (i + 1) // 2 + (i + 1) // 2 + i * 3
        y[i] = v + i + 4 + i * 10 + (7 if i > 5 else -7) + 23


@pytest.mark.parametrize("engine", ENGINES)
def test_pattern_objects(engine: str) -> None:
    x = np.arange(64) * 0.5
    want = np.zeros(64)
    expected_patterns(want, x)
    np.testing.assert_array_equal(run(patterns, (np.zeros(64), x), engine)[0], want)


@pytest.mark.parametrize("engine", ENGINES)
def test_records(engine: str) -> None:
    r = np.zeros(64, RECORD)
    r["a"] = np.arange(64) * 3
    y, after = run(records, (np.zeros(64), r), engine)
    i = np.arange(64)
    np.testing.assert_array_equal(after["a"], 3 * i + 2)
    np.testing.assert_array_equal(after["b"], np.stack((0 * i, 3 * i + 0.5, i), 1))
    np.testing.assert_array_equal(y, 3 * i + 2 + 3 * i + 0.5 + i)


@pytest.mark.parametrize("engine", ENGINES)
def test_narrow_and_complex_numbers(engine: str) -> None:
    i = np.arange(64)
    z = (i + 2j).astype(np.complex64)
    h = (i / 8).astype(np.float16)
    y, w, h2, q, u = run(numbers, (np.zeros(64), z, h, i % 3 == 0, i.astype(np.uint8)), engine)
    np.testing.assert_array_equal(w, (z * z + np.complex64(1j)).astype(np.complex64))
    np.testing.assert_array_equal(h2, h * h + np.float16(0.5))
    np.testing.assert_array_equal(q, i % 3 != 0)
    np.testing.assert_array_equal(u, (i * 100 + 250) % 256)
    np.testing.assert_array_equal(y, w.real + w.imag)


@pytest.mark.parametrize("engine", ENGINES)
def test_shared_memory(engine: str) -> None:
    x = np.arange(64, dtype=np.float32)
    y, _ = run(shared_memory, (np.zeros(64, np.float32), x), engine, dynamic_shared=256)
    i = np.arange(64)
    np.testing.assert_array_equal(y, 2 * (i % 32) + (i % 32 + 32) + 2 * (63 - i))


@pytest.mark.parametrize("engine", ENGINES)
def test_atomics_and_warp_functions(engine: str) -> None:
    y, _ = run(atomics_and_warps, (np.zeros(64), np.ones(64)), engine)
    assert y.tolist() == [64, 63, *[1] * 62]


@pytest.mark.parametrize("engine", ENGINES)
def test_variables_of_one_path(engine: str) -> None:
    y, *_ = run(maybe_unassigned, (np.zeros(64), np.arange(64.0), np.zeros(64)), engine)
    i = np.arange(64)
    np.testing.assert_array_equal(y, np.where(i > 7, i + 5, 0) + np.where(i > 3, -1, 1))


def test_equal_kernels_of_two_files_keep_their_files(tmp_path: Any) -> None:
    source = "from wsemu import cuda\n@cuda.jit\ndef beyond(x):\n    x[cuda.threadIdx.x + 1] = 0\n"
    found = []
    for name in ("one.py", "two.py"):
        file = tmp_path / name
        file.write_text(source)
        kernel = runpy.run_path(str(file))["beyond"]
        found.append(wsemu.check(kernel, 1, 32, (np.zeros(32),)).findings[0].sites[0].file)
    assert found == [str(tmp_path / "one.py"), str(tmp_path / "two.py")]
