"""Results of atomics are followed from stores to the loads that read from them: words of shared memory may be used for
several values."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import wsemu
from tests.properties.flow_programs import FlowProgram, Step, draw_flows, judge_flows
from wsemu import cuda

if TYPE_CHECKING:
    from wsemu.model.settings import Engine

ENGINES: tuple[Engine, ...] = ("vm", "reference")
BARRIER, FENCE = Step("barrier"), Step("fence")


@cuda.jit
def sums_and_a_ticket(x, count, parts, y, n):
    """Sums of floats and a ticket are in one array whose parts have lengths that the launch chooses."""
    words = cuda.shared.array(0, np.float32)
    t = cuda.threadIdx.x
    if t < n:
        words[t] = 0
    if t == 0:
        words[n] = 0
    cuda.syncthreads()
    cuda.atomic.add(words, t % n, x[t])
    cuda.syncthreads()
    if t == 0:
        parts[0] = words[0]
        words[n] = cuda.atomic.add(count, 0, 1)
    cuda.syncthreads()
    if words[n] == cuda.gridDim.x - 1 and t < n:
        y[t] = words[t]


@pytest.mark.parametrize("engine", ENGINES)
def test_sums_of_floats_next_to_a_ticket_influence_nothing(engine: Engine) -> None:
    arrays = np.ones(64, np.float32), np.zeros(1, np.int32), np.zeros(1, np.float32), np.zeros(4, np.float32)
    report = wsemu.check(sums_and_a_ticket, 1, 64, (*arrays, np.int32(4)), dynamic_shared=20, engine=engine)
    assert report.verdict == "verified"


@cuda.jit
def counts_from_a_sum(x, out):
    """One thread counts from a number that depends on the order of additions."""
    s, count = cuda.shared.array(1, np.float32), cuda.shared.array(1, np.int32)
    if cuda.threadIdx.x == 0:
        s[0] = 0
    cuda.syncthreads()
    cuda.atomic.add(s, 0, x[cuda.threadIdx.x])
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        count[0] = int(s[0])
        if cuda.atomic.add(count, 0, 1) == 3:
            out[0] = 1


@pytest.mark.parametrize("engine", ENGINES)
def test_an_atomic_of_one_thread_returns_what_a_store_left(engine: Engine) -> None:
    arrays = np.full(64, 0.1, np.float32), np.zeros(8, np.int32)
    assert wsemu.check(counts_from_a_sum, 1, 64, arrays, engine=engine).verdict == "incomplete"
    assert wsemu.check(draws_from_a_sum, 1, 64, arrays, engine=engine).verdict == "incomplete"


@cuda.jit
def draws_from_a_sum(x, out):
    """Threads draw numbers from a counter whose first value depends on the order of additions."""
    s, count = cuda.shared.array(1, np.float32), cuda.shared.array(1, np.int32)
    if cuda.threadIdx.x == 0:
        s[0] = 0
    cuda.syncthreads()
    cuda.atomic.add(s, 0, x[cuda.threadIdx.x])
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        count[0] = int(s[0])
    cuda.syncthreads()
    place = cuda.atomic.add(count, 0, 1)
    if place < 8:
        out[place] = 1


TWO_COUNTERS = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 counters_, .param .u64 out_)
{
  .reg .b32 %c, %t, %i; .reg .b64 %a, %o; .reg .pred %p, %q;
  ld.param.u64 %a, [counters_]; ld.param.u64 %o, [out_];
  mov.u32 %c, %ctaid.x; setp.lt.u32 %p, %c, 4;
  mov.u32 %i, %tid.x; setp.ne.u32 %q, %i, 0; @%q exit;
  @%p bra A;
  atom.relaxed.gpu.global.add.u32 %t, [%a + 128], 1;
  bra B;
A: atom.relaxed.gpu.global.add.u32 %t, [%a], 1;
B: setp.ne.u32 %q, %t, 2; @%q exit;
  setp.ne.u32 %q, %c, 0; @%q exit;
  mov.u32 %i, 7; st.global.u32 [%o + 4000000], %i;
  exit;
}
"""


@pytest.mark.parametrize("engine", ENGINES)
def test_numbers_of_two_counters_may_meet_in_one_register(engine: Engine) -> None:
    """CTA 0 fails if it gets the number 2, which it does not in the initial run."""
    arrays = np.zeros(64, np.uint32), np.zeros(64, np.uint32)
    report = wsemu.check(wsemu.load_ptx(TWO_COUNTERS)["k"], 8, 32, arrays, engine=engine)
    assert {finding.code for finding in report.findings} == {"out-of-bounds"}


def last_sum(*, fence: bool = True, barrier: bool = True, end: str = "z", then: tuple[Step, ...] = ()) -> FlowProgram:
    """Return a launch like Triton's: all lanes put a part, and its word then holds the ticket."""
    load = Step("load", "a", to=0)
    after = (load, *then, Step("end", end))
    return FlowProgram(3, (
        Step("put", "a", 1, value=2), BARRIER, Step("store", "z", 1, 0), *((BARRIER,) if barrier else ()),
        Step("ticket", slot=1, value=int(fence)), *((BARRIER,) if barrier else ()),
        Step("test", "a", 1, value=2, then=after),
    ))  # fmt: skip


def judge(program: FlowProgram, engine: Engine) -> Any:
    found = judge_flows(program, (engine,))
    assert found.complaints == ()
    return found.verdicts[0]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_word_may_hold_a_part_and_then_the_ticket(engine: Engine) -> None:
    right = last_sum()
    steps = (Step("put", "o", 1, value=2), *right.steps[1:])
    assert judge(right._replace(steps=steps), engine) == "verified"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "broken", [last_sum(fence=False), last_sum(barrier=False), last_sum(then=(Step("lanes", "a", 3),))], ids=str
)
def test_broken_ones_are_not_verified(broken: FlowProgram, engine: Engine) -> None:
    assert judge(broken, engine) != "verified"


LANES_STORE = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 counter_, .param .u64 words_)
{{
  .reg .b32 %c, %t, %v, %i; .reg .b64 %n, %w, %x; .reg .pred %p, %z; .shared .align 4 .b8 s[8];
  ld.param.u64 %n, [counter_]; ld.param.u64 %w, [words_];
  mov.u32 %c, %ctaid.x; mov.u32 %t, %tid.x; setp.eq.u32 %z, %t, 0; shr.u32 %i, %t, 5;
  mul.wide.u32 %x, %c, 4; add.u64 %x, %w, %x;
  add.u32 %v, %c, 1; setp.ge.u32 %p, %t, 32; @%p bra A; st.shared.u32 [s], %v; A: bar.sync 0;
  @%z ld.shared.u32 %v, [s]; @%z st.global.u32 [%x], %v; bar.sync 0;
  @%z atom.acq_rel.gpu.global.add.u32 %v, [%n], 1; @%z st.shared.u32 [s], %v; bar.sync 0;
  ld.shared.u32 %v, [s]; setp.ne.u32 %p, %v, 2; @%p exit; setp.ge.u32 %p, %t, 32; @%p exit;
  {differ}
  st.shared.u32 [s+4], %i;
  exit;
}}
"""


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("differ", [False, True])
def test_lanes_of_one_store_have_to_write_one_value_in_the_last_cta(differ: bool, engine: Engine) -> None:
    """The lanes differ only if CTA 0 is the last one."""
    text = "setp.eq.u32 %p, %c, 0; @%p mov.u32 %i, %t;" if differ else ""
    arrays = np.zeros(1, np.uint32), np.zeros(3, np.uint32)
    report = wsemu.check(wsemu.load_ptx(LANES_STORE.format(differ=text))["k"], 3, 64, arrays, engine=engine)
    assert (report.verdict == "verified") != differ


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("value", [0, 1, 2, 3])
def test_atomics_of_two_warps_without_a_barrier_happen_in_each_order(value: int, engine: Engine) -> None:
    """The first warp counts after its addition of 1, before or after the second warp adds 2."""
    steps = (
        Step("add", slot=2),
        Step("own", slot=2, to=0),
        BARRIER,
        Step("test", "z", 0, value=value, then=(Step("bad"),)),
    )
    assert judge(FlowProgram(1, steps), engine) == ("failed" if value in (1, 3) else "verified")


def test_programs_agree_with_all_orders() -> None:
    source = random.Random(5)
    judged = [judge_flows(draw_flows(source), ENGINES if k % 8 == 1 else ("vm",)) for k in range(40)]
    assert [complaint for found in judged for complaint in found.complaints] == []
    assert Counter(found.verdicts[0] for found in judged)["verified"] > 10
