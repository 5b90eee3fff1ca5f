"""Lanes of one store that write the same value to one element in this run, but not in every order of the atomics."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wsemu
from wsemu import cuda

ENGINES = pytest.mark.parametrize("engine", ["vm", "reference"])


def sums_by_atomics(x: Any) -> Any:
    s = cuda.shared.array(32, np.float32)
    t = cuda.threadIdx.x
    if t < 32:
        s[t] = 0
    cuda.syncthreads()
    cuda.atomic.add(s, t % 32, x[t // 32])
    cuda.syncthreads()
    return s


@cuda.jit
def stored_by_two_lanes(x: Any, y: Any) -> None:
    s = sums_by_atomics(x)
    t = cuda.threadIdx.x
    if t < 2:
        y[0] = s[t]


@cuda.jit
def stored_in_shared_memory(x: Any, y: Any) -> None:
    s = sums_by_atomics(x)
    left = cuda.shared.array(16, np.float32)
    t = cuda.threadIdx.x
    if t < 32:
        left[t % 16] = s[t]
    cuda.syncthreads()
    if t < 16:
        y[t] = 2 if left[t] != left[t] else 1


@cuda.jit
def stored_one_after_another(x: Any, y: Any) -> None:
    s = sums_by_atomics(x)
    t = cuda.threadIdx.x
    for i in range(2):
        if t < 4 and t % 2 == i:
            y[t % 2] = s[t]
        cuda.syncthreads()


@cuda.jit
def shuffled(x: Any, y: Any) -> None:
    s = sums_by_atomics(x)
    t = cuda.threadIdx.x
    if t < 32:
        other = cuda.shfl_down_sync(-1, s[t], 1)
        if t < 2:
            y[0] = other


@cuda.jit
def chosen_by_lanes(x: Any, y: Any) -> None:
    s = sums_by_atomics(x)
    t = cuda.threadIdx.x
    value = s[0]
    if t % 2:
        value = s[1]
    if t < 2:
        y[0] = value


@cuda.jit
def of_different_rounds(x: Any, y: Any) -> None:
    s = sums_by_atomics(x)
    t = cuda.threadIdx.x
    value = s[0]
    for i in range(t % 2 + 1):
        value = s[i]
    if t < 2:
        y[0] = value


@cuda.jit
def stored_by_atomic_results(x: Any, y: Any) -> None:
    drawn = cuda.shared.array(1, np.int32)
    t = cuda.threadIdx.x
    if t == 0:
        drawn[0] = 0
    cuda.syncthreads()
    old = cuda.atomic.add(drawn, 0, 1)
    if t < 2:
        y[0] = old // 64


@cuda.jit
def stored_at_drawn_places(counter: Any, y: Any) -> None:
    drawn = cuda.shared.array(1, np.int32)
    t = cuda.threadIdx.x
    if t == 0:
        drawn[0] = cuda.atomic.add(counter, 0, 1)
    cuda.syncthreads()
    place = drawn[0]
    if t < 2:
        y[place] = place if t else cuda.blockIdx.x


@cuda.jit
def of_all_lanes(x: Any, y: Any) -> None:
    s = sums_by_atomics(x)
    t = cuda.threadIdx.x
    if t < 32:
        y[0] = s[0] + s[31]


@cuda.jit
def of_a_loop(x: Any, y: Any, n: int) -> None:
    s = sums_by_atomics(x)
    t = cuda.threadIdx.x
    total = np.float32(0)
    for i in range(n):
        total += s[i]
    if t < 32:
        y[cuda.blockIdx.x] = total


@cuda.jit
def of_one_lane(x: Any, y: Any) -> None:
    s = sums_by_atomics(x)
    t = cuda.threadIdx.x
    if t < 32:
        first = cuda.shfl_sync(-1, s[t], 3)
        y[0] = first


@cuda.jit
def voted(x: Any, y: Any) -> None:
    s = sums_by_atomics(x)
    t = cuda.threadIdx.x
    if t < 32:
        y[0] = cuda.ballot_sync(-1, s[t] > 0)


@cuda.jit
def of_whole_numbers(x: Any, y: Any) -> None:
    s = cuda.shared.array(32, np.int32)
    t = cuda.threadIdx.x
    if t < 32:
        s[t] = 0
    cuda.syncthreads()
    cuda.atomic.add(s, t % 32, np.int32(t // 32))
    cuda.syncthreads()
    if t < 2:
        y[0] = s[t]


def checked(kernel: Any, *more: Any, **options: Any) -> Any:
    x, y = np.array([1e20, 1, -1e20], np.float32), np.zeros(32, np.float32)
    return wsemu.check(kernel, 1, 96, (x, y, *more), **options)


@ENGINES
@pytest.mark.parametrize(
    "kernel",
    [
        stored_by_two_lanes, stored_in_shared_memory, stored_one_after_another, shuffled, chosen_by_lanes,
        of_different_rounds, stored_by_atomic_results,
    ],
)  # fmt: skip
def test_equal_values_of_one_order_prove_nothing(kernel: Any, engine: str) -> None:
    report = checked(kernel, engine=engine)
    assert report.verdict == "incomplete"
    assert report.reasons == ["atomics"]
    assert any("lanes of this store write the same value to one element" in note for note in report.notes)


@ENGINES
@pytest.mark.parametrize("kernel", [of_all_lanes, of_one_lane, voted, of_whole_numbers])
def test_values_that_are_equal_in_every_order_are_no_doubt(kernel: Any, engine: str) -> None:
    assert checked(kernel, engine=engine).verdict == "verified"


@ENGINES
def test_a_sum_over_a_loop_is_equal_in_all_lanes(engine: str) -> None:
    assert checked(of_a_loop, np.int32(4), engine=engine).verdict == "verified"


@ENGINES
def test_places_that_atomics_give_out_do_not_make_values_equal(engine: Any) -> None:
    args = np.zeros(1, np.int32), np.zeros(2, np.int32)
    assert wsemu.check(stored_at_drawn_places, 2, 32, args, engine=engine).verdict == "incomplete"


PTX = """
.version 8.6
.target sm_90
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 y) {
    .reg .b32 %r<20>; .reg .b64 %d<20>; .reg .pred %p<8>; .reg .f32 %f<9>;
    .shared .align 16 .f32 s[64];
    .shared .align 16 .f32 z[64];
    ld.param.u64 %d1, [x];
    ld.param.u64 %d2, [y];
    mov.u32 %r1, %tid.x;
    and.b32 %r2, %r1, 31;
    shr.u32 %r3, %r1, 5;
    mov.u32 %r4, s;
    mov.u32 %r5, z;
    mad.lo.u32 %r6, %r2, 8, %r4;
    setp.lt.u32 %p1, %r1, 32;
    @%p1 st.shared.v2.f32 [%r6], {0f00000000, 0f00000000};
    bar.sync 0;
    mad.wide.u32 %d3, %r3, 4, %d1;
    ld.global.f32 %f1, [%d3];
    red.shared.add.f32 [%r6], %f1;
    bar.sync 0;
    setp.lt.u32 %p3, %r1, 2;
    ld.shared.v2.f32 {%f3, %f4}, [%r6];
    STORE
    ret;
}
"""
STORES = {
    "vector": "@%p3 st.global.v2.f32 [%d2], {%f3, %f4};",
    "byte": "cvt.rzi.u32.f32 %r9, %f3; @%p3 st.global.u8 [%d2], %r9;",
    "cluster": "mapa.shared::cluster.u32 %r10, %r5, 0; @%p3 st.shared::cluster.f32 [%r10], %f3;",
    "selection": "setp.gt.f32 %p5, %f3, 0f00000000; selp.b32 %r11, 7, 5, %p5; @%p3 st.global.u32 [%d2], %r11;",
    "match": "mov.b32 %r14, %f3; match.any.sync.b32 %r15, %r14, -1; @%p3 st.global.u32 [%d2], %r15;",
}


@ENGINES
@pytest.mark.parametrize("form", STORES)
def test_each_plain_store_of_ptx_is_followed(form: str, engine: str) -> None:
    kernel = wsemu.load_ptx(PTX.replace("STORE", STORES[form]))["k"]
    assert checked(kernel, engine=engine).verdict == "incomplete"


@ENGINES
def test_the_largest_of_all_lanes_is_one_number(engine: str) -> None:
    store = "mov.b32 %r14, %f3; redux.sync.max.u32 %r15, %r14, -1; @%p3 st.global.u32 [%d2], %r15;"
    assert checked(wsemu.load_ptx(PTX.replace("STORE", store))["k"], engine=engine).verdict == "verified"
