"""Lanes that a recursion with several calls leaves apart: no operation of the warp or the CTA behind it is promised."""

from __future__ import annotations

import numpy as np
import pytest

import wsemu
from wsemu import cuda

ENGINES = ("vm", "reference")


@cuda.jit
def fibonacci(n):
    if n < 2:
        return n
    return fibonacci(n - 1) + fibonacci(n - 2)


@cuda.jit
def even(n):
    return 1 if n <= 0 else odd(n - 1) + odd(n - 2)


@cuda.jit
def odd(n):
    return 0 if n <= 0 else even(n - 1)


@cuda.jit
def steps(n):
    if n <= 0:
        return 1
    return (n ^ (3 * steps(n - 1))) % 1001


@cuda.jit
def below(n, width):
    total = 1
    for _ in range(width):
        if n > 0:
            total += below(n - 1, 3 - width)
    return total


@cuda.jit
def looped(y, limit):
    value = below(cuda.threadIdx.x % limit, 1 + cuda.threadIdx.x % limit)
    y[cuda.threadIdx.x] = cuda.shfl_xor_sync(0xFFFFFFFF, value, 1)


@cuda.jit
def shuffled(y, limit):
    value = fibonacci(cuda.threadIdx.x % limit)
    y[cuda.threadIdx.x] = cuda.shfl_xor_sync(0xFFFFFFFF, value, 1)


@cuda.jit
def met(y, limit):
    tile = cuda.shared.array(32, np.int32)
    tile[cuda.threadIdx.x] = even(cuda.threadIdx.x % limit)
    cuda.syncthreads()
    y[cuda.threadIdx.x] = tile[cuda.threadIdx.x ^ 1]


@cuda.jit
def alike(y, limit):
    value = steps(cuda.threadIdx.x % 5) + fibonacci(limit)
    y[cuda.threadIdx.x] = cuda.shfl_xor_sync(0xFFFFFFFF, value, 1)


@cuda.jit
def before(y, limit):
    value = cuda.shfl_xor_sync(0xFFFFFFFF, cuda.threadIdx.x, 1)
    y[cuda.threadIdx.x] = value + fibonacci(cuda.threadIdx.x % limit)


def verdict(kernel, limit, engine):
    report = wsemu.check(kernel, 1, 32, (np.zeros(32, np.int32), limit), engine=engine)
    apart = any("took different ways through a recursion" in note for note in report.notes)
    assert apart == (report.verdict == "incomplete"), report.notes
    return report.verdict


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kernel", [shuffled, met, looped], ids=lambda kernel: kernel.py_func.__name__)
def test_lanes_that_went_different_ways_are_apart(kernel, engine):
    assert verdict(kernel, 5, engine) == "incomplete"
    assert verdict(kernel, 1, engine) == "verified"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kernel", [alike, before], ids=lambda kernel: kernel.py_func.__name__)
def test_lanes_that_went_one_way_or_meet_before_are_not(kernel, engine):
    assert verdict(kernel, 5, engine) == "verified"


@pytest.mark.parametrize("engine", ENGINES)
def test_the_numbers_are_those_of_python(engine):
    y = np.zeros(32, np.int32)
    wsemu.check(alike, 1, 32, (y, 6), engine=engine).assert_clean()
    made = [1]
    for n in range(1, 5):
        made.append((n ^ (3 * made[-1])) % 1001)
    assert y.tolist() == [8 + made[(t ^ 1) % 5] for t in range(32)]


PTX = """.version 8.0
.target sm_90
.address_size 64
.func (.reg .b32 r) tree(.reg .b32 n, .reg .b32 width)
{ .reg .b32 %a<9>; .reg .pred %p;
  mov.u32 %a1, 1; mov.u32 %a2, width;
loop:
  setp.le.s32 %p, %a2, 0; @%p bra done;
  setp.le.s32 %p, n, 0; @%p bra next;
  sub.s32 %a3, n, 1; sub.s32 %a5, 3, width;
  call (%a4), tree, (%a3, %a5);
  add.s32 %a1, %a1, %a4;
next:
  sub.s32 %a2, %a2, 1; bra loop;
done:
  mov.u32 r, %a1; ret; }
.visible .entry k(.param .u64 out, .param .u32 limit)
{ .reg .b32 %r<9>; .reg .b64 %rd<5>; .shared .align 4 .b8 tile[128]; .reg .pred %p;
  mov.u32 %r1, %tid.x; ld.param.u32 %r2, [limit]; rem.u32 %r3, %r1, %r2; add.u32 %r3, %r3, 1;
  call (%r4), tree, (%r3, %r3);
  mov.u32 %r5, tile; shl.b32 %r6, %r1, 2; add.u32 %r5, %r5, %r6;
  st.shared.u32 [%r5], %r4;
  BODY
  ld.param.u64 %rd1, [out]; mul.wide.u32 %rd2, %r1, 4; add.u64 %rd1, %rd1, %rd2; st.global.u32 [%rd1], %r7; ret; }
"""
NEIGHBOUR = "xor.b32 %r8, %r6, 4; mov.u32 %r5, tile; add.u32 %r5, %r5, %r8; ld.shared.u32 %r7, [%r5];"


@pytest.mark.parametrize("engine", ENGINES)
def test_calls_in_each_other_are_no_calls_in_turn(engine):
    """Lanes of width 1 call inside of a call, the others twice in turn: the same call sites, another way."""
    kernel = wsemu.load_ptx(PTX.replace("BODY", f"bar.sync 0; {NEIGHBOUR}"))["k"]
    for limit, expected in ((2, "incomplete"), (1, "verified")):
        assert wsemu.check(kernel, 1, 32, (np.zeros(32, np.int32), limit), engine=engine).verdict == expected


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("operation", ["bar.arrive 1, 64;", "activemask.b32 %r2;", ""])
def test_the_look_at_their_ways_orders_nothing(operation, engine):
    kernel = wsemu.load_ptx(PTX.replace("BODY", f"{operation} {NEIGHBOUR}"))["k"]
    report = wsemu.check(kernel, 1, 32, (np.zeros(32, np.int32), 1), engine=engine)
    assert "intra-warp-race" in {finding.code for finding in report.errors}


TURNS = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out)
{ .reg .b32 %r<4>; .reg .b64 %rd<4>; .reg .pred %p;
  mov.u32 %r1, %tid.x; ld.param.u64 %rd1, [out]; mul.wide.u32 %rd2, %r1, 4; add.u64 %rd2, %rd1, %rd2;
  setp.ne.u32 %p, %r1, 0; @%p bra one; barrier.sync 0;
one:
  setp.ne.u32 %p, %r1, 1; @%p bra two; barrier.sync 0;
two:
  setp.ne.u32 %p, %r1, 2; @%p bra last; barrier.sync 0;
last:
  atom.relaxed.gpu.global.add.u32 %r2, [%rd1+12], 1; st.global.u32 [%rd2], %r2; ret; }
"""


@pytest.mark.parametrize("engine", ENGINES)
def test_lanes_that_meet_nobody_behind_a_barrier_run_in_one_order(engine):
    """Those that went past a join have other regions: who runs first behind them decides what is found first."""
    out = np.zeros(4, np.uint32)
    wsemu.check(wsemu.load_ptx(TURNS)["k"], 1, 3, (out,), engine=engine)
    assert out.tolist() == [2, 1, 0, 3]
