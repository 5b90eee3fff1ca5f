"""CTAs that arrive at one counter: which of them comes last is tried, and not in which order they all come."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wsemu
from tests.unit import steering_kernels as kernels
from wsemu import cuda
from wsemu.launch.explore import decide

FENCE_BEFORE, FENCE_AFTER = True, True
WIDE = True
OFF = 0


def by_ticket(x: Any, partial: Any, count: Any, y: Any) -> None:
    """The number itself goes through shared memory, all threads add up."""
    sums, ticket = cuda.shared.array(64, np.int32), cuda.shared.array(1, np.int32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    total = 0
    while i < x.shape[0]:
        total += x[i]
        i += cuda.gridsize(1)
    sums[t] = total
    cuda.syncthreads()
    if t == 0:
        total = 0
        for k in range(64):
            total += sums[k]
        partial[cuda.blockIdx.x] = total
        if FENCE_BEFORE and WIDE:
            cuda.threadfence()
        elif FENCE_BEFORE:
            cuda.threadfence_block()
        ticket[0] = cuda.atomic.inc(count, 0, cuda.gridDim.x - 1 - OFF)
    cuda.syncthreads()
    if ticket[0] == cuda.gridDim.x - 1 - OFF:
        if FENCE_AFTER:
            cuda.threadfence()
        total = 0
        for k in range(t, cuda.gridDim.x, 64):
            total += partial[k]
        sums[t] = total
        cuda.syncthreads()
        if t == 0:
            total = 0
            for k in range(64):
                total += sums[k]
            y[0] = total


def early_ones_store(x: Any, partial: Any, count: Any, y: Any) -> None:
    """Who is not the last stores where the last one reads."""
    if cuda.threadIdx.x == 0:
        partial[cuda.blockIdx.x] = 1
        cuda.threadfence()
        last = cuda.atomic.add(count, 0, 1) == cuda.gridDim.x - 1
        cuda.threadfence()
        if last:
            y[0] = partial[0]
        else:
            partial[cuda.blockIdx.x] = 2


def more_than_the_last(x: Any, partial: Any, count: Any, y: Any) -> None:
    if cuda.threadIdx.x == 0:
        partial[cuda.blockIdx.x] = 1
        cuda.threadfence()
        late = cuda.atomic.add(count, 0, 1) >= cuda.gridDim.x - 2
        cuda.threadfence()
        if late:
            y[0] = partial[0]


def by_its_number(x: Any, partial: Any, count: Any, y: Any) -> None:
    if cuda.threadIdx.x == 0:
        place = cuda.atomic.add(count, 0, 1)
        if place == cuda.gridDim.x - 1:
            y[0] = partial[place & 1]
        partial[(place >> 1) & 1] = 1


@pytest.fixture(autouse=True)
def no_orders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decide, "small", lambda *_: False)


def report(function: Any, ctas: int = 5, engine: Any = "vm", **parts: Any) -> wsemu.Report:
    kernel = kernels.variant(function, **{**function.__globals__, **parts})
    arguments = np.arange(4 * ctas, dtype=np.int32), *(np.zeros(n, np.uint32) for n in (max(ctas, 8), 1, 1))
    return wsemu.check(kernel, ctas, 64, arguments, engine=engine)


@pytest.mark.parametrize("function", [by_ticket, kernels.last_block], ids=lambda f: f.__name__)
@pytest.mark.parametrize("ctas", [1, 5, 40])
def test_a_reduction_by_the_last_cta_is_decided_by_who_is_last(function: Any, ctas: int) -> None:
    found = report(function, ctas)
    assert found.verdict == "verified", found.notes
    if ctas > 1:
        assert found.proof.endswith("in all orders of the atomics that steer it: whichever CTA comes last")


@pytest.mark.parametrize(
    "parts", [{"FENCE_BEFORE": False}, {"FENCE_AFTER": False}, {"OFF": 1}], ids=lambda parts: "".join(parts)
)
@pytest.mark.parametrize("function", [by_ticket, kernels.last_block], ids=lambda f: f.__name__)
def test_what_is_broken_is_not(function: Any, parts: dict[str, Any]) -> None:
    assert report(function, **parts).verdict == "failed"


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_a_fence_of_the_cta_alone_tells_the_last_one_nothing(engine: Any) -> None:
    found = report(by_ticket, 2, engine, WIDE=False)
    assert (found.verdict, {f.code for f in found.findings}) == ("failed", {"race"})


LAST = """
.version 8.8
.target sm_90
.address_size 64
.visible .entry k(.param .u64 memory, .param .u64 count)
{
.reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<6>;
ld.param.u64 %rd1, [memory]; ld.param.u64 %rd2, [count]; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x;
setp.ne.u32 %p1, %r2, 0; @%p1 bra END;
mul.wide.u32 %rd3, %r1, 4; add.s64 %rd3, %rd1, %rd3; st.global.u32 [%rd3], 5;
FENCE
atom.relaxed.gpu.global.add.u32 %r3, [%rd2], 1;
FENCE
setp.ne.u32 %p1, %r3, 3; @%p1 bra END;
ld.global.u32 %r4, [%rd1]; ld.global.u32 %r5, [%rd1+4]; ld.global.u32 %r6, [%rd1+8]; add.u32 %r4, %r4, %r5;
add.u32 %r4, %r4, %r6; st.global.u32 [%rd1+16], %r4;
END: ret;
}
"""


@pytest.mark.parametrize("order", ["sc", "acq_rel"])
@pytest.mark.parametrize(("scope", "cluster", "verdict"), [
    ("cta", None, "failed"), ("cluster", None, "failed"), ("gpu", None, "verified"), ("cta", 4, "failed"),
    ("cluster", 2, "failed"), ("cluster", 4, "verified"),
])  # fmt: skip
@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_fences_have_to_reach_the_ctas_that_arrive(
    order: str, scope: str, cluster: int | None, verdict: str, engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    kernel = wsemu.load_ptx(LAST.replace("FENCE", f"fence.{order}.{scope};"))["k"]
    arguments = np.zeros(8, np.uint32), np.zeros(1, np.uint32)
    assert wsemu.check(kernel, 4, 32, arguments, cluster=cluster, engine=engine).verdict == verdict


@pytest.mark.parametrize("function", [early_ones_store, more_than_the_last, by_its_number], ids=lambda f: f.__name__)
def test_other_uses_of_a_counter_are_not(function: Any) -> None:
    assert report(function).verdict != "verified"


def test_both_engines_decide_the_same() -> None:
    assert report(by_ticket, 3, "reference").proof == report(by_ticket, 3).proof


@cuda.jit
def counts_down_from_its_number(x: Any, partial: Any, count: Any, y: Any) -> None:
    if cuda.threadIdx.x == 0:
        at = cuda.atomic.add(count, 0, 1)
        while at > 0:
            at -= 1
        y[0] = at


def test_a_bound_that_moves_round_after_round_is_given_up() -> None:
    """What is known of the result of an atomic ends, however long a loop counts with it."""
    arguments = kernels.arguments("last_block", 2)
    assert wsemu.check(counts_down_from_its_number, 2, 32, arguments).verdict == "failed"
