"""Integers, control flow, calls, sorts, whole algorithms."""

from __future__ import annotations

import heapq
import zlib
from itertools import product
from typing import Any

import numpy as np

from tests.ptx.expected.barriers import integers
from tests.ptx.expected.case import Out, case

i32 = np.int32
i64 = np.int64
u32 = np.uint32
u64 = np.uint64
WORD = (1 << 32) - 1
LONG = (1 << 64) - 1


def signed(value: int, bits: int) -> int:
    """The bits of a number read as two's complement."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value


def quotient(a: int, b: int) -> int:
    """a / b as C divides: cut towards zero."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def reverse(value: int, bits: int) -> int:
    return int(f"{value:0{bits}b}"[::-1], 2)


def array(rows: Any, dtype: Any) -> Any:
    """Python integers of any size, cut to the width of an unsigned type."""
    flat = [int(v) & (1 << 8 * np.dtype(dtype).itemsize) - 1 for row in rows for v in row]
    return np.array(flat, dtype).reshape(len(rows), -1)


# -- integers.cu -----------------------------------------------------------------------------------------------------
EDGES_64 = [0, 1, 2, 63, 1 << 31, 1 << 32, (1 << 63) - 1, 1 << 63, LONG, 0x123456789ABCDEF0]
EDGES_32 = [0, 1, 7, 31, 0x7FFFFFFF, 0x80000000, WORD, 0x00FFFFFF, 0xDEADBEEF]


def _wide(p: int, q: int) -> list[int]:
    sp, sq = signed(p, 64), signed(q, 64)
    shift = q & 63
    division = [p // q, p % q, quotient(sp, sq), sp - sq * quotient(sp, sq)] if q else [1, 2, 3, 4]
    return [
        *(p + q, p - q, p * q, p * q >> 64, sp * sq >> 64),
        *division,
        *(p << shift, p >> shift, sp >> shift),
        *(p.bit_count(), 64 - p.bit_length(), (p & -p).bit_length(), reverse(p, 64)),
        *(min(sp, sq), max(p, q), (p & q) | (~p ^ q), 1 if sp < sq else 2 if p > q else 3),
    ]


@case("integers", "wide_operations", 1, 128)
def wide_operations() -> list[Any]:
    pairs = list(product(EDGES_64, EDGES_64))
    a, b = (np.array(v, u64) for v in zip(*pairs, strict=True))
    return [a, b, Out(array([_wide(p, q) for p, q in pairs], u64)), i32(100)]


def _permuted(p: int, q: int, selector: int) -> int:
    data = (q << 32 | p).to_bytes(8, "little")
    return int.from_bytes(bytes(data[selector >> 4 * k & 7] for k in range(4)), "little")


def _word(p: int, q: int) -> list[int]:
    sp, sq = signed(p, 32), signed(q, 32)
    overflow = p == 0x80000000 and q == WORD
    low = [signed(v << 8, 32) >> 8 for v in (p, q)]
    return [
        *(p * q + 3, p * q >> 32, sp * sq >> 32, p // q if q else 0, p % q if q else 0),
        *(quotient(sp, sq) if q and not overflow else 0, sp - 7 * quotient(sp, 7), quotient(sp, -10)),
        *((q << 32 | p) << 9 >> 32, (q << 32 | p) >> (p & 31), reverse(p, 32), 32 - p.bit_length()),
        *((p ^ q).bit_count(), (p & -p).bit_length(), _permuted(p, q, 0x3715)),
        *(abs(sp - sq) + 5, abs(p - q) + 6, low[0] * low[1], (p & 0xFFFFFF) * (q & 0xFFFFFF)),
        *(abs(sp), (sp + sq) >> 1, (p + q + 1) >> 1, (p & q) ^ (p | 0x55555555) ^ q, min(sp, sq) - max(p, q)),
    ]


@case("integers", "word_operations", 2, 64)
def word_operations() -> list[Any]:
    pairs = list(product(EDGES_32, EDGES_32))
    a, b = (np.array(v, u32) for v in zip(*pairs, strict=True))
    return [a, b, Out(array([_word(p, q) for p, q in pairs], u32)), i32(81)]


@case("integers", "narrow", 1, 64)
def narrow() -> list[Any]:
    a = integers(70, 64, high=127, dtype=np.int8) * np.int8(2) - np.int8(100)
    b = integers(71, 64, high=1 << 16, dtype=np.uint16)
    p, q = a.astype(i64), b.astype(i64)
    c, d = (p * 3 - q).astype(np.int8), ((q << 3) | (p & 7)).astype(np.uint16)
    e = (p * b.view(np.int16)).astype(np.int16) >> 2
    return [a, b, Out(c), Out(d), Out(e)]


@case("integers", "modular_power", 1, 64)
def modular_power() -> list[Any]:
    base, exponent = integers(72, 64, high=1 << 40, dtype=u64), integers(73, 64, high=5000, dtype=u32)
    modulus = (1 << 31) - 1
    y = [pow(int(b), int(e), modulus) for b, e in zip(base, exponent, strict=True)]
    return [base, exponent, Out(np.array(y, u64)), u64(modulus)]


@case("integers", "products_128", 1, 100)
def products_128() -> list[Any]:
    pairs = list(product(EDGES_64, EDGES_64))
    rows = []
    for p, q in pairs:
        value = p * q + (q << 64 | p) - 12345 & (1 << 128) - 1
        value = (value << 5 | value >> 123) & (1 << 128) - 1
        rows.append([value & LONG, value >> 64])
    a, b = (np.array(v, u64) for v in zip(*pairs, strict=True))
    return [a, b, Out(array(rows, u64))]


@case("integers", "long_sums", 1, 32)
def long_sums() -> list[Any]:
    a, b = (integers(seed, 32, 4, high=1 << 32, dtype=u32) for seed in (74, 75))
    a[:8, 1:] = WORD
    b[:8, 0], b[:8, 1:] = ~a[:8, 0] + u32(1), 0
    both = [[int.from_bytes(row.tobytes(), "little") for row in v] for v in (a, b)]
    sums = [[p + q >> 32 * k for k in range(4)] for p, q in zip(*both, strict=True)]
    differences = [[p - q >> 32 * k for k in range(4)] for p, q in zip(*both, strict=True)]
    return [a, b, Out(array(sums, u32)), Out(array(differences, u32))]


@case("integers", "binary_gcd", 1, 64)
def binary_gcd() -> list[Any]:
    a, b = (integers(seed, 64, high=1 << 20, dtype=u64) * u64(12) for seed in (76, 77))
    a[3], b[5], a[7], b[7] = 0, 0, 1 << 63, 3 << 60
    return [a, b, Out(np.gcd(a, b))]


@case("integers", "checksums", 1, 32)
def checksums() -> list[Any]:
    text = integers(78, 32, 64, high=256, dtype=np.uint8)
    length = np.arange(32, dtype=i32) * 2 + 1
    crc, fnv = [], []
    for row, n in zip(text, length, strict=True):
        crc.append(zlib.crc32(row[:n].tobytes()))
        f = 0xCBF29CE484222325
        for byte in row[:n].tolist():
            f = (f ^ byte) * 0x100000001B3 & LONG
        fnv.append(f)
    return [text, length, Out(np.array(crc, u32)), Out(np.array(fnv, u64))]


@case("integers", "random_numbers", 2, 32)
def random_numbers() -> list[Any]:
    states, numbers = [], []
    for i in range(64):
        s, last = 42 + 0x9E3779B97F4A7C15 * (i + 1) & LONG, 0
        for _ in range(5):
            s ^= s >> 12
            s ^= s << 25 & LONG
            s ^= s >> 27
            last = ((s * 0x2545F4914F6CDD1D & LONG) >> 32) * 1000 >> 32
        states.append(s)
        numbers.append(last)
    return [u64(42), Out(np.array(states, u64)), Out(np.array(numbers, u32)), i32(5)]


# -- control.cu ------------------------------------------------------------------------------------------------------
def _nested(start: int) -> int:
    total = 0
    for i in range(20):
        if (i + start) % 5 == 0:
            continue
        for j in range(i, start + 1):
            if j & 3 == 3:
                continue
            total += i * j
            if total > 5000:
                return total
        if total % 11 == 7:
            break
    return total


@case("control", "nested_loops", 1, 64)
def nested_loops() -> list[Any]:
    x = integers(80, 64, high=60)
    return [x, Out(np.array([_nested(v) for v in x.tolist()], i32))]


def _collatz(value: int) -> int:
    steps = 0
    while value != 1:
        value = 3 * value + 1 if value % 2 else value // 2
        steps += 1
    return steps


@case("control", "collatz", 2, 64)
def collatz() -> list[Any]:
    x = np.arange(1, 101, dtype=u32)
    return [x, Out(np.array([_collatz(v) for v in x.tolist()], u32)), i32(100)]


def _switch(value: int) -> int:
    case = value & 15
    if case in (1, 2):
        return (100 + 5) * 2 if case == 1 else 200
    if case in (5, 6, 7):
        result = value >> 1 if case == 5 else 100
        return (result ^ 0x55 if case < 7 else result) - 1
    others = {
        0: value, 3: -value, 4: value << 3, 8: value * value, 9: value - 13 * quotient(value, 13),
        10: 100 + sum(range(value)), 11: ~value,
    }  # fmt: skip
    return others.get(case, 1000 - value)


@case("control", "dense_switch", 1, 96)
def dense_switch() -> list[Any]:
    x = np.arange(96, dtype=i32) - 32
    return [x, Out(np.array([_switch(v) for v in x.tolist()], i32))]


def _words(text: bytes) -> tuple[int, int]:
    state, words, numbers = "", 0, 0
    for c in text.decode():
        kind = "w" if c.islower() else "n" if c.isdigit() else ""
        if state == "" and kind:
            state = kind
            words, numbers = words + (kind == "w"), numbers + (kind == "n")
        elif state == "w":
            state = "w" if kind else ""
        elif state == "n" and kind == "w":
            state, words, numbers = "w", words + 1, numbers - 1
        elif state == "n":
            state = kind
    return words, numbers


@case("control", "state_machine", 1, 32)
def state_machine() -> list[Any]:
    letters = np.frombuffer(b"ab1 2. c-", np.uint8)
    text = letters[integers(81, 32, 24, high=9)]
    words, numbers = zip(*[_words(row.tobytes()) for row in text], strict=True)
    return [text.view(np.int8), Out(np.array(words, i32)), Out(np.array(numbers, i32)), i32(24)]


def _two_entries(value: int, limit: int) -> int:
    rounds, top = 0, not value & 1
    while True:
        if top:
            value, rounds = value + 3, rounds + 100
            if value > limit:
                break
        value, rounds, top = value * 2 - 1, rounds + 1, True
        if value >= limit:
            break
    return value * 1000 + rounds


@case("control", "two_entries", 1, 64)
def two_entries() -> list[Any]:
    x = np.arange(64, dtype=i32)
    return [x, Out(np.array([_two_entries(v, 200) for v in x.tolist()], i32)), i32(200)]


def _divisor(value: int) -> int:
    if value < 2:
        return -1
    for k in range(2, value):
        if k * k > value:
            break
        if value % k == 0:
            return k if k > 5 else k * 10
    return 0


@case("control", "early_returns", 3, 64)
def early_returns() -> list[Any]:
    x = np.arange(150, dtype=i32) - 10
    return [x, Out(np.array([_divisor(v) for v in x.tolist()], i32)), i32(150)]


@case("control", "short_circuit", 1, 32)
def short_circuit() -> list[Any]:
    x, bound = integers(82, 32, high=100), integers(83, 32, high=32)
    bound[20:] = 1 << 28  # never read
    y = []
    for i in range(32):
        both = bool(i < 20 and x[bound[i]] > 50)
        first = bool(i % 3 == 0 or x[i] < 30)
        either = bool(first or x[i] == 99)
        y.append(both * 4 + either * 2 + (both + (not first)) * 8 + (both != either))
    return [x, bound, Out(np.array(y, i32))]


@case("control", "lower_bound", 1, 64)
def lower_bound() -> list[Any]:
    x, wanted = np.sort(integers(84, 100)), integers(85, 64)
    return [x, i32(100), wanted, Out(np.searchsorted(x, wanted).astype(i32))]


@case("control", "tree_walk", 1, 32)
def tree_walk() -> list[Any]:
    nodes = np.arange(64, dtype=i32)
    left, right = (np.where(2 * nodes + k < 64, 2 * nodes + k, -1).astype(i32) for k in (1, 2))
    value = integers(86, 64)

    def order(node: int) -> list[int]:
        return [] if node < 0 else [node, *order(int(left[node])), *order(int(right[node]))]

    y = [sum(int(value[node]) * k for k, node in enumerate(order(root), 1)) for root in range(32)]
    return [left, right, value, nodes[:32], Out(np.array(y, i32))]


# -- functions.cu ----------------------------------------------------------------------------------------------------
def _collapse(a: int, b: int) -> int:
    return signed(a * 31 + (b ^ 0x1234), 32)


@case("functions", "calls", 1, 64)
def calls() -> list[Any]:
    x = integers(90, 64) - 500
    rows = []
    for i, v in enumerate(x.tolist()):
        value = _collapse(v, i)
        if value & 1:
            value = _collapse(value, -i)
        rows.append(sorted((value, v)))
    return [x, Out(np.array(rows, i32))]


@case("functions", "deep_calls", 1, 32)
def deep_calls() -> list[Any]:
    x = integers(91, 32)

    def twice(value: int) -> int:
        return 2 * value + _collapse(signed(value, 32), 1)

    lane = np.arange(32)
    z = x * 0.25 * np.where(lane & 1, -1, 1) * np.where(lane & 2, -1, 1)
    return [x, Out(np.array([twice(twice(v) - i) for i, v in enumerate(x.tolist())], i64)), Out(z)]


@case("functions", "quotients", 1, 64)
def quotients() -> list[Any]:
    a, b = integers(92, 64) - 500, integers(93, 64, high=9) - 4
    y = [
        quotient(p, q) * 100 + p - q * quotient(p, q) if q else -101
        for p, q in zip(a.tolist(), b.tolist(), strict=True)
    ]
    return [a, b, Out(np.array(y, i32))]


@case("functions", "any_memory", 1, 64)
def any_memory() -> list[Any]:
    x = integers(94, 64)
    tile = x + 1
    y = []
    for t in range(64):
        own = x[t] * (np.arange(4) + t % 2)
        first = (x[t // 4 :][:4], tile[t // 4 :][:4], own)[t % 3]
        y.append(first.sum() + tile[t % 8 :][: t % 5].sum())
    return [x, Out(np.array(y, i32))]


@case("functions", "primes", 2, 64)
def primes() -> list[Any]:
    x = integers(95, 2, 64, high=400, dtype=u32)
    sieve = [n > 1 and all(n % k for k in range(2, n)) for n in range(410)]
    found = np.array([sum(sieve[int(v) : int(v) + i % 7]) for i, v in enumerate(x.reshape(-1))], i32)
    return [x, Out(found), Out((found.reshape(2, 64) > 0).sum(1, dtype=i32))]


@case("functions", "barrier_in_function", 1, 96)
def barrier_in_function() -> list[Any]:
    x = integers(96, 96)
    y = x
    for step in (1, 3, 9, 27):
        y = y + np.roll(y, -step)
    return [x, Out(y)]


# -- sorting.cu ------------------------------------------------------------------------------------------------------
@case("sorting", "bitonic_sort", 1, 64)
def bitonic_sort() -> list[Any]:
    key = np.random.default_rng(100).permutation(128).astype(i32) * 3
    value = integers(101, 128, dtype=np.int16)
    order = np.argsort(key)
    return [key, value, Out(key[order]), Out(value[order])]


def _odd_even(x: Any) -> list[Any]:
    now, rounds, changed = x.copy(), 0, True
    while changed:
        changed, rounds = False, rounds + 1
        for phase in (0, 1):
            for i in range(phase, len(x) - 1, 2):
                if now[i + 1] < now[i]:
                    now[[i, i + 1]] = now[[i + 1, i]]
                    changed = True
    return [Out(np.sort(x), x), i32(len(x)), Out(np.array([rounds], i32))]


@case("sorting", "odd_even_sort<float>", 1, 32)
def odd_even_f32() -> list[Any]:
    return _odd_even(np.random.default_rng(102).standard_normal(45, dtype=np.float32))


@case("sorting", "odd_even_sort<long long>", 1, 32)
def odd_even_i64() -> list[Any]:
    return _odd_even(np.random.default_rng(103).integers(-(1 << 62), 1 << 62, 30))


@case("sorting", "radix_sort", 1, 128)
def radix_sort() -> list[Any]:
    x = integers(104, 128, dtype=u32)
    return [x, Out(np.sort(x)), i32(10)]


@case("sorting", "rank_sort", 1, 64, shared=50 * 8)
def rank_sort() -> list[Any]:
    x = np.random.default_rng(105).integers(0, 30, 50).astype(np.float64)
    return [x, Out(np.sort(x)), i32(50)]


# -- programs.cu -----------------------------------------------------------------------------------------------------
@case("programs", "life", (2, 3), (32, 8))
def life() -> list[Any]:
    x = integers(110, 24, 64, high=2, dtype=np.uint8)
    around = sum((np.roll(x, k, (0, 1)) for k in product((-1, 0, 1), repeat=2)), np.zeros_like(x))
    return [x, Out(((around == 3) | (x.astype(bool) & (around == 4))).astype(np.uint8)), i32(64), i32(24)]


@case("programs", "edit_distance", 1, 32, shared=3 * 21 * 4)
def edit_distance() -> list[Any]:
    a, b = (integers(seed, 20, high=4, dtype=np.int8) + np.int8(97) for seed in (111, 112))
    row = list(range(21))
    for i in range(1, 21):
        old, row = row, [i]
        for j in range(1, 21):
            row.append(min(old[j] + 1, row[-1] + 1, old[j - 1] + int(a[i - 1] != b[j - 1])))
    return [a, b, i32(20), Out(np.array(row[-1:], i32))]


@case("programs", "shortest_paths", 2, (16, 16))
def shortest_paths() -> list[Any]:
    graph = integers(113, 2, 16, 16, high=400)
    graph[graph > 120] = 1 << 20
    length = graph.copy()
    for k in range(16):
        length = np.minimum(length, length[:, :, k, None] + length[:, None, k])
    return [Out(length, graph), i32(16)]


@case("programs", "levels", 1, 64)
def levels() -> list[Any]:
    rng = np.random.default_rng(114)
    edges: list[set[int]] = [set() for _ in range(50)]
    for a, b in rng.integers(0, 48, (60, 2)).tolist():
        edges[a].add(b)
        edges[b].add(a)
    level, front = {0: 0}, [(0, 0)]
    while front:
        depth, node = heapq.heappop(front)
        for other in edges[node] - level.keys():
            level[other] = depth + 1
            heapq.heappush(front, (depth + 1, other))
    start = np.cumsum([0, *map(len, edges)], dtype=i32)
    edge = np.array([b for out in edges for b in sorted(out)], i32)
    return [start, edge, Out(np.array([level.get(k, -1) for k in range(64)], i32)), i32(50)]


@case("programs", "walsh_hadamard", 1, 64)
def walsh_hadamard() -> list[Any]:
    x = integers(115, 128)
    k = np.arange(128)
    signs = np.array([[(-1) ** (int(a) & int(b)).bit_count() for a in k] for b in k])
    return [x, Out((signs @ x).astype(i32))]


@case("programs", "queens", 1, 32)
def queens() -> list[Any]:
    def count(rows: tuple[int, ...]) -> int:
        if any(abs(a - b) in (0, d) for i, a in enumerate(rows) for d, b in enumerate(rows[i + 1 :], 1)):
            return 0
        return 1 if len(rows) == 6 else sum(count((*rows, c)) for c in range(6))

    ways = [count((first,)) if first < 6 else -1 for first in range(32)]
    return [i32(6), Out(np.array(ways, i32), -1)]


# -- fences.cu -------------------------------------------------------------------------------------------------------
@case("fences", "last_block", 3, 64)
def last_block() -> list[Any]:
    x = integers(120, 3, 64) - 500
    part = (x > 0).sum(1, dtype=i32)
    return [x, Out(part), Out(np.array([part.sum()], i32))]


@case("fences", "message", 2, 32)
def message() -> list[Any]:
    return [Out(np.array([1], i32), 0), Out(np.array([42], i32)), Out(np.array([43], i32))]


@case("fences", "lock", 2, 96)
def lock() -> list[Any]:
    return [Out(np.array([0], i32), 0), Out(np.array([6], i32), 0)]


@case("fences", "fences_only", 2, 64)
def fences_only() -> list[Any]:
    x = integers(121, 128)
    return [x, Out((x + 1) * 2 - 3)]
