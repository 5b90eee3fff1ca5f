"""Calls through registers, recursion, memory of the stack."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from tests.ptx.expected.case import Out, case

SOURCE = "calls"
i32 = np.int32
T = np.arange(32, dtype=i32)
FAR = 1 << 20


@case(SOURCE, "virtual_calls", 1, 32)
def virtual_calls() -> list[Any]:
    t = T.astype(np.float32)
    area = np.where(T & 1, t * t * np.float32(3), t + np.float32(3)).astype(np.float32)
    return [Out(area[T ^ 1] + np.where(T & 1, 4, 3).astype(np.float32)), i32(0)]


@case(SOURCE, "tables", 1, 32)
def tables() -> list[Any]:
    first = [T + 5, T - 5, T * 5]
    second = [T * 2, T - 2]
    found = [first[t % 3][t] + 100 * second[t & 1][t] + 3 - 20 for t in T]
    return [Out(np.array(found, i32))]


@case(SOURCE, "nowhere", 1, 32, verdict="incomplete", says="a call through a register that holds the address of no")
def nowhere() -> list[Any]:
    return [Out(T), np.uint64(FAR)]


def fibonacci(n: int) -> int:
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


def ackermann(m: int, n: int) -> int:
    return n + 1 if m == 0 else ackermann(m - 1, 1 if n == 0 else ackermann(m, n - 1))


@case(SOURCE, "recursive", 1, 32)
def recursive() -> list[Any]:
    sums = [fibonacci(t % 9) + 1000 * (t % 2 == 0) + 100000 * ackermann(t % 3, t % 4) for t in range(32)]
    return [Out(np.array(sums, i32))]


@case(SOURCE, "shuffled_apart", 1, 32, verdict="incomplete", says="took different ways through a recursion")
def shuffled_apart() -> list[Any]:
    return [Out(T, T), i32(9)]


@case(SOURCE, "shuffled_apart", 1, 32)
def none_deep() -> list[Any]:
    return [Out((T % 2)[T ^ 1]), i32(2)]


def steps(n: int) -> int:
    return 1 if n == 0 else (n ^ (3 * steps(n - 1))) % 1001


@case(SOURCE, "shuffled_together", 1, 32)
def shuffled_together() -> list[Any]:
    sums = [steps(t % 7) + 10000 * fibonacci(5) for t in range(32)]
    return [Out(np.array(sums, i32)[T ^ 1])]


@case(SOURCE, "divide_and_conquer", 1, 32)
def divide_and_conquer() -> list[Any]:
    x = [int(n) for n in (T * 7 + 3) % 11]

    def halves(first: int, end: int) -> int:
        middle = (first + end) // 2
        return x[first] if end - first == 1 else halves(first, middle) * 3 - halves(middle, end)

    return [np.array(x, i32), Out(np.array([halves(0, t % 7 + 1) * 100 + t % 7 + 1 for t in range(32)], np.int64))]


@case(SOURCE, "permutations", 1, 4)
def permutations() -> list[Any]:
    start = np.zeros((4, 24), i32)
    out = start.copy()
    for t in range(4):
        found: list[int] = []

        def permute(given: list[int], k: int, n: int, found: list[int] = found) -> None:
            own = list(given)
            if k == n:
                found.append(sum(digit * 10 ** (n - 1 - i) for i, digit in enumerate(own[:n])))
            for i in range(k, n):
                own[k], own[i] = own[i], own[k]
                permute(own, k + 1, n)

        permute([1 + t, 2, 3, 4], 0, 2 + t % 3)
        out[t, : len(found)] = found
    return [Out(out, start)]


@case(SOURCE, "trees", 1, 32)
def trees() -> list[Any]:
    def variable(x: int) -> int:
        return x

    def total(x: int) -> int:
        return variable(x) + variable(x + 1)

    def product(x: int) -> int:
        return total(x) * variable(x - 1)

    def square(x: int) -> int:
        return product(x) * product(x - 1)

    def whole(x: int) -> int:
        return square(x) + product(x + 1)

    return [Out(np.array([(whole, square, total, variable)[t & 3](t) for t in range(32)], i32))]


@case(SOURCE, "too_deep", 1, 32)
def deep() -> list[Any]:
    return [Out(np.zeros(32, i32)), i32(-7)]


@case(SOURCE, "too_deep", 1, 32, verdict="incomplete", says="takes more than 16,384 bytes of a thread's stack")
def too_deep() -> list[Any]:
    return [Out(T), i32(0)]


@case(SOURCE, "on_the_stack", 1, 32)
def on_the_stack() -> list[Any]:
    sums = [sum(i * t + k for k, i in itertools.product(range(2), range(3 + t))) for t in range(32)]
    return [Out(np.array(sums, i32)), i32(3)]


@case(SOURCE, "on_the_stack", 1, 32, verdict="incomplete", says="`alloca` takes more than")
def beyond_the_stack() -> list[Any]:
    return [Out(T), i32(FAR)]
