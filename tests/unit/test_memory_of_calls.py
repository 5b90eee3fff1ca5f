"""Variables of a function are uninitialized at each of its calls, although the calls have the same memory."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import wsemu
from wsemu import cuda

ENGINES = ("vm", "reference")
HEAD = ".version 8.0\n.target sm_90\n.address_size 64\n"
ELEMENTS, PERIOD = 3, 5


def calling(function: str, body: str) -> str:
    """The text of a kernel `k(out, n)` after a function."""
    return f"""{HEAD}{function}
    .visible .entry k(.param .u64 out, .param .u32 n)
    {{
        .reg .b64 %o;
        .reg .b32 %n, %i, %r, %s, %t;
        .reg .pred %p;
        ld.param.u64 %o, [out];
        ld.param.u32 %n, [n];
        mov.u32 %s, 0;
        mov.u32 %i, 0;
        {body}
        mov.u32 %t, %tid.x;
        mad.wide.u32 %o, %t, 4, %o;
        st.global.u32 [%o], %s;
        ret;
    }}
    """


IN_LOOP = "L: call (%r), f, (%i); add.u32 %s, %s, %r; add.u32 %i, %i, 1; setp.lt.u32 %p, %i, %n; @%p bra L;"


def find_codes(text: str, n: int, engine: str, block: int = 32) -> set[str]:
    report = wsemu.check(wsemu.load_ptx(text)["k"], 1, block, (np.zeros(64, np.uint32), n), engine=engine)  # type: ignore[arg-type]
    assert report.verdict == ("failed" if report.findings else "verified"), str(report)
    return {finding.code for finding in report.findings}


def drawn_function(drawn: random.Random, space: str) -> tuple[str, set[int]]:
    """A function that stores to some elements and loads some, by the remainder of its argument; and the remainders for
    which it loads an element to which it has not stored."""
    steps, bad, stored = [], set[int](), [set[int]() for _ in range(ELEMENTS)]
    for _ in range(6):
        chosen = {k for k in range(PERIOD) if drawn.random() < 0.6}
        element, loads = drawn.randrange(ELEMENTS), drawn.random() < 0.5
        test = f"shr.u32 %b, {sum(1 << k for k in chosen)}, %m; and.b32 %b, %b, 1; setp.eq.u32 %q, %b, 1;"
        if loads:
            bad |= chosen - stored[element]
            steps.append(f"{test} @%q ld.local.u32 %v, [%x+{4 * element}]; @%q add.u32 %res, %res, %v;")
        else:
            stored[element] |= chosen
            steps.append(f"{test} @%q st.local.u32 [%x+{4 * element}], {element};")
    own = f".local .b32 x[{ELEMENTS}]; mov.u64 %x, x;" if space == "local" else f"alloca.u64 %x, {4 * ELEMENTS};"
    return (
        f"""
    .func (.reg .b32 %res) f(.reg .b32 %in)
    {{
        .reg .b64 %x;
        .reg .b32 %b, %m, %v;
        .reg .pred %q;
        {own}
        mov.u32 %res, 0;
        rem.u32 %m, %in, {PERIOD};
        {" ".join(steps)}
        ret;
    }}""",
        bad,
    )


@pytest.mark.parametrize("space", ["local", "alloca"])
@pytest.mark.parametrize("seed", range(12))
def test_a_call_loads_only_what_it_has_stored(seed: int, space: str) -> None:
    function, bad = drawn_function(random.Random(seed), space)
    for engine, rounds in (("vm", 300), ("vm", 2 * PERIOD), ("reference", 2 * PERIOD)):
        codes = find_codes(calling(function, IN_LOOP), rounds, engine)
        assert codes == ({"uninitialized-read"} if bad else set()), (engine, rounds)


RECURSIVE = """
.func (.reg .b32 %res) f(.reg .b32 %in, .reg .b32 %stores)
{
    .local .b32 x[2];
    .reg .b32 %v, %less;
    .reg .pred %q;
    mov.u32 %res, 0;
    setp.ne.u32 %q, %stores, 0;
    @%q st.local.u32 [x+4], 7;
    setp.eq.u32 %q, %in, 0;
    @%q bra LAST;
    sub.u32 %less, %in, 1;
    call (%res), f, (%less, %stores);
LAST:
    ld.local.u32 %v, [x+4];
    add.u32 %res, %res, %v;
    ret;
}
"""


@pytest.mark.parametrize("engine", ENGINES)
def test_a_recursion_finds_nothing_of_an_earlier_one(engine: str) -> None:
    both = "mov.u32 %t, 1; call (%s), f, (%n, %t); mov.u32 %t, {}; call (%r), f, (%n, %t); add.u32 %s, %s, %r;"
    assert find_codes(calling(RECURSIVE, both.format(1)), 3, engine) == set()
    assert find_codes(calling(RECURSIVE, both.format(0)), 3, engine) == {"uninitialized-read"}


def test_a_value_of_an_earlier_call_that_reaches_nothing_is_a_warning_at_most() -> None:
    unused = """
    .func (.reg .b32 %res) f(.reg .b32 %in)
    {
        .local .b32 x[2];
        .reg .b32 %v;
        .reg .pred %q;
        setp.eq.u32 %q, %in, 0;
        @%q st.local.u32 [x], 1;
        ld.local.u32 %v, [x];
        selp.u32 %res, %v, 5, %q;
        ret;
    }"""
    text = calling(unused, IN_LOOP)
    for engine in ENGINES:
        report = wsemu.check(wsemu.load_ptx(text)["k"], 1, 32, (np.zeros(64, np.uint32), 4), engine=engine)  # type: ignore[arg-type]
        assert report.verdict == "verified"


@cuda.jit(device=True)
def keep(x: Any, i: int) -> Any:
    """Return an element to which only even calls store."""
    own = cuda.local.array(2, np.float32)
    if i % 2 == 0:
        own[1] = x
    return own[1]


@cuda.jit(device=True, inline="always")
def keep_inlined(x: Any, i: int) -> Any:
    """Return an element to which only the first call stores; Numba-CUDA makes it a variable of the caller."""
    own = cuda.local.array(2, np.float32)
    if i == 0:
        own[1] = x
    return own[1]


def calling_in_loop(function: Any) -> Any:
    """Return a kernel that calls a function in each iteration of a loop."""

    @cuda.jit
    def call(out: Any, n: int) -> None:
        total = np.float32(0)
        for i in range(n):
            total += function(out[0], i)
        out[cuda.threadIdx.x] = total

    return call


@cuda.jit
def call_even(out: Any, n: int) -> None:
    total = keep(out[0], 0)
    for i in range(n):
        total += keep(out[0], 2 * i)
    out[cuda.threadIdx.x] = total


@cuda.jit
def call_unrolled(out: Any, n: int) -> None:
    total = np.float32(n)
    for i in range(2):
        total += keep(out[0], i)
    out[cuda.threadIdx.x] = total


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("kernel", "verdict"),
    [
        (calling_in_loop(keep), "failed"),
        (call_unrolled, "failed"),
        (call_even, "verified"),
        (calling_in_loop(keep_inlined), "verified"),
    ],
)
def test_local_arrays_of_device_functions(kernel: Any, verdict: str, engine: Any) -> None:
    report = wsemu.check(kernel, 1, 1, (np.zeros(1, np.float32), 3), engine=engine)
    assert report.verdict == verdict
    assert {finding.code for finding in report.findings if verdict == "failed"} <= {"uninitialized-read"}
