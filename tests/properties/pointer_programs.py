"""CUDA C++ kernels that move pointers through memory, bytes and lanes, for several levels of nvcc.

A kernel that only follows its pointers, compares them for equality or leaves them whole is `verified`; one that makes a
number of a pointer at its end, or compares the order of two in different arrays, is `incomplete`, at each level.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

THREADS = 64
HEAD = """
#include <cstdint>
#include <cstring>
struct Item { int *p; long long n; };
struct Three { long long n; int *p; short k[3]; };
static __device__ __noinline__ int *stepped(int *p, int n) { return p + n; }
static __device__ __noinline__ int *picked(Item x, Item y, int n) { return n & 1 ? x.p : y.p; }
"""


class _Pointers:
    """Writes statements, and knows which array each pointer is in."""

    def __init__(self, source: random.Random) -> None:
        self.source = source
        self.lines: list[str] = []
        self.arrays = dict(zip(("p", "q", "r"), ("a", "b", "c"), strict=True))
        self.count = 0
        self.moves: list[Callable[[str], str]] = [
            self._assigned, self._swapped, self._in_an_array, self._in_a_structure, self._in_a_wide_structure,
            self._in_shared_memory, self._in_bytes, self._in_halves, self._in_a_table, self._passed, self._in_words,
            self._beside_numbers, self._in_a_loop,
        ]  # fmt: skip

    def one(self) -> str:
        return self.source.choice("pqr")

    def name(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def move(self) -> None:
        self.lines.append(self.source.choice(self.moves)(self.one()))

    def _assigned(self, p: str) -> str:
        q = self.one()
        self.arrays[p] = self.arrays[q]
        return f"{p} = {q} + {self.source.randrange(3)};"

    def _swapped(self, p: str) -> str:
        q, t = self.one(), self.name("t")
        self.arrays[p], self.arrays[q] = self.arrays[q], self.arrays[p]
        return f"int *{t} = {p}; {p} = {q}; {q} = {t};"

    def _in_an_array(self, p: str) -> str:
        table, at = self.name("l"), self.source.randrange(3)
        self.arrays[p] = self.arrays["pqr"[at]]
        return f"int *{table}[3] = {{p, q, r}}; {p} = {table}[n - {2 - at}];"

    def _in_a_structure(self, p: str) -> str:
        x = self.name("x")
        return f"Item {x}[2] = {{{{{p}, n}}, {{{p}, 7}}}}; {p} = {x}[n & 1].p; u += {x}[n - 1].n;"

    def _in_a_wide_structure(self, p: str) -> str:
        x, y = self.name("x"), self.name("y")
        return f"Three {x}{{n, {p}, {{1, 2, 3}}}}, {y} = {x}; {p} = {y}.p; u += {y}.n + {y}.k[n & 1];"

    def _in_shared_memory(self, p: str) -> str:
        return f"s[t] = {p}; __syncthreads(); {p} = s[(t + {self.source.randrange(64)}) % 64]; __syncthreads();"

    def _in_bytes(self, p: str) -> str:
        c, d = self.name("c"), self.name("d")
        return (
            f"unsigned char {c}[8], {d}[8]; memcpy({c}, &{p}, 8); for (int i = 0; i < 8; ++i) {d}[i] = {c}[i]; "
            f"memcpy(&{p}, {d}, 8);"
        )

    def _in_words(self, p: str) -> str:
        w = self.name("w")
        return f"unsigned {w}[2]; memcpy({w}, &{p}, 8); memcpy(&{p}, {w}, 8);"

    def _in_halves(self, p: str) -> str:
        low, high, k = self.name("m"), self.name("h"), self.source.choice((0, 1, 16))
        return (
            f"unsigned {low} = (uintptr_t){p}, {high} = (uintptr_t){p} >> 32; "
            f"{low} = __shfl_xor_sync(~0u, {low}, {k}); {high} = __shfl_xor_sync(~0u, {high}, {k}); "
            f"{p} = (int *)((uint64_t){high} << 32 | {low});"
        )

    def _in_a_table(self, p: str) -> str:
        return f"table[t] = {p}; {p} = table[t];"

    def _passed(self, p: str) -> str:
        if self.source.random() < 0.5:
            return f"{p} = stepped({p}, n & 1);"
        q = self.one()
        self.arrays[p] = self.arrays[q]
        return f"{p} = picked({{{p}, 1}}, {{{q}, 2}}, n);"

    def _beside_numbers(self, p: str) -> str:
        k, f = self.name("k"), self.name("f")
        return (
            f"int {k}[4]; float {f}[4]; for (int i = 0; i < n + 2; ++i) {k}[i] = i + u, {f}[i] = i; "
            f"u += {k}[t & 3] + (int){f}[n & 3] + *{p};"
        )

    def _in_a_loop(self, p: str) -> str:
        q, t = self.one(), self.name("t")
        self.arrays[p], self.arrays[q] = self.arrays[q], self.arrays[p]
        return f"for (int i = 0; i < n + 1; ++i) {{ int *{t} = {p}; {p} = {q}; {q} = {t}; }}"

    def end(self) -> bool:
        """Write what becomes of the pointers; return whether that depends on where arrays lie."""
        p = self.one()
        others = [q for q in "pqr" if self.arrays[q] != self.arrays[p]]
        holds = [
            f"o[t] = u + *{p};", f"items[t] = Item{{{p}, u}};", f"o[t] = {p} == {self.one()} ? 1 : u;",
            f"Item x; x.p = {p}; x.n = u; memcpy(&items[t], &x, sizeof x);", f"o[t] = {p} ? u : 3;",
        ]  # fmt: skip
        differs = [
            f"o[t] = (int)(uintptr_t){p};", f"o[t] = (uintptr_t){p} % 61;",
            f"unsigned char z[8]; memcpy(z, &{p}, 8); int m = 0; for (int i = 0; i < 8; ++i) m += z[i]; o[t] = m;",
            f"unsigned short z[4]; memcpy(z, &{p}, 8); o[t] = z[t & 3];",
        ]  # fmt: skip
        if others:
            q = self.source.choice(others)
            differs += [f"o[t] = {p} < {q};", f"if ({p} > {q}) o[t] = u; else o[t] = 3;", f"o[t] = {p} - {q};"]
        if len(set(self.arrays.values())) == 3:
            differs.append(
                "int *z[3] = {p, q, r}; for (int i = 0; i < 3; ++i) for (int j = i + 1; j < 3; ++j) "
                "if (z[j] < z[i]) { int *y = z[i]; z[i] = z[j]; z[j] = y; } o[t] = z[0] == p;"
            )
        is_number = self.source.random() < 0.5
        self.lines.append(self.source.choice(differs if is_number else holds))
        return is_number


def pointer_kernel(source: random.Random, name: str) -> tuple[str, bool]:
    """Return the text of a random kernel, and whether it depends on where arrays lie."""
    w = _Pointers(source)
    for _ in range(source.randrange(1, 6)):
        w.move()
    depends = w.end()
    body = "\n".join(f"    {line}" for line in w.lines)
    text = f"""
extern "C" __global__ void {name}(int *a, int *b, int *c, int *o, int **table, Item *items, int n) {{
    int t = threadIdx.x, u = t;
    __shared__ int *s[{THREADS}];
    int *p = a + t, *q = b + t, *r = c + t;
    s[t] = p;
    __syncthreads();
{body}
}}
"""
    return text, depends
