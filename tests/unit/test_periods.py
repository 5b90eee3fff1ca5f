"""What warps that take turns do to shared memory is judged until it repeats; what comes between is found all the same,
and a launch says what the VM alone says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.unit.test_blocks import in_all_tiers, said
from wsemu import cuda, ptx
from wsemu.machine import slices, vm, workers
from wsemu.machine.memory import shadow_planes
from wsemu.machine.tier import section_tables

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wsemu.machine.vm import Machine

ROUNDS, THREADS, CTAS = 24, 128, 2
NEVER, LATE = -1, 17
(
    NOTHING, STORES_BEFORE, STORES_ELSEWHERE, NO_WAIT, NO_ARRIVAL, LOADS_EARLY, SYNCWARP, SHUFFLE, FENCE, ATOMIC, SOME,
    LEAVES, BEHIND, ALL_MEET, LOADS_UNWRITTEN, ONE_PLACE, SWAPPED, LEFT_OUT, STORES_LATER,
) = range(19)  # fmt: skip


@pytest.fixture(autouse=True)
def _none_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_kept", {})


@pytest.fixture
def followed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How many completions each period had that came again without being judged."""
    found: list[int] = []
    before = vm.Machine.run

    def seen(machine: Machine, *arguments: Any, **options: Any) -> int:
        status = before(machine, *arguments, **options)
        if machine.sections:
            known = machine.sections._known[0]
            found.extend([int(known["every"])] * bool(known["compared"]))
        return status

    monkeypatch.setattr(vm.Machine, "run", seen)
    yield found
    found.clear()


@cuda.jit
def turns(n: Any, y: Any, x: Any, when: Any, what: Any, buffers: Any) -> None:
    """Warps 0 and 1 load what warps 2 and 3 have stored; `what` happens in round `when` of CTA 1."""
    s = cuda.shared.array(32 * 16, np.float32)
    c = cuda.shared.array(2, np.int32)
    t, b = cuda.threadIdx.x, cuda.blockIdx.x
    w, l = t // 32, t % 32  # noqa: E741
    v = np.float32(0)
    if w == 0:
        for q in range(14):
            s[32 * q + l] = q
        if l < 2:
            c[l] = 0
    cuda.syncthreads()
    if w < 2:
        for r in range(buffers):
            ptx.bar_arrive(1 + r, 128)
        for r in range(n):
            now = what if r == when and b == 1 else 0
            k = r % buffers
            if now == 5:
                v += s[64 * k + l]
            ptx.bar_sync(5 + k, 128)
            v += s[64 * k + 32 * w + l] * s[64 * k + 32 * (1 - w) + (l ^ 5)]
            if l % 4 < 2 and now != 17:
                v += s[64 * k + (x[l] * 8 + l) % 32]
            if now == 1:
                s[64 * k + 32 * w + l] = v
            if now == 2:
                s[32 * (10 + w) + l] = v
            if now == 6:
                cuda.syncwarp()
            if now == 7:
                v += cuda.shfl_sync(0xFFFFFFFF, v, 3)
            if now == 8:
                cuda.threadfence_block()
            if now == 9:
                cuda.atomic.add(c, w, 1)
            if now == 10 and l > 9:
                v += s[64 * k + l]
            if now == 14:
                v += s[32 * 15 + l]
            if now == 15:
                s[32 * (10 + w) + l // 2] = l
            if now == 16:
                v += s[64 * k + 32 * w + (31 - l)]
            if now == 11:
                return
            if now != 4:
                ptx.bar_arrive(1 + k, 128)
            v += s[32 * 13 + l]
            if now == 12:
                v += s[64 * k + l]
            if now == 13:
                ptx.bar_sync(9, 128)
        y[b, t] = v
    else:
        for r in range(n):
            now = what if r == when and b == 1 else 0
            k = r % buffers
            if now != 3:
                ptx.bar_sync(1 + k, 128)
            if now == 18:
                s[32 * 13 + l] = r
            s[64 * k + 32 * (w - 2) + l] = r + w
            if l < 8:
                s[32 * (8 + w - 2) + l] = r
            ptx.bar_arrive(5 + k, 128)
            if now == 13:
                ptx.bar_sync(9, 128)
        for r in range(buffers):
            ptx.bar_sync(1 + (n + r) % buffers, 128)


def arguments(when: int, what: int, buffers: int = 1, rounds: int = ROUNDS) -> tuple[Any, ...]:
    return rounds, np.zeros((CTAS, THREADS), np.float32), np.arange(64, dtype=np.int32) % 5, when, what, buffers


def launched(monkeypatch: pytest.MonkeyPatch, *given: Any, **options: Any) -> dict[str, Any]:
    """The report of a launch of `turns`, which is the same in all tiers."""
    result = in_all_tiers(monkeypatch, lambda: said(turns, CTAS, THREADS, arguments(*given), workers=1, **options))
    report: dict[str, Any] = result[0]
    return report


@pytest.mark.parametrize("buffers", [1, 2])
def test_rounds_that_are_as_some_before_are_not_judged(
    buffers: int, followed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where buffers take turns, the same comes again after several completions."""
    report = launched(monkeypatch, NEVER, NOTHING, buffers, 120)
    assert report["verdict"] == "verified"
    assert followed
    assert all((completions > 1) == (buffers > 1) for completions in followed)


@pytest.mark.parametrize("buffers", [1, 2])
@pytest.mark.parametrize(
    ("what", "codes"),
    [
        (STORES_BEFORE, {"race", "intra-warp-race"}),
        (STORES_ELSEWHERE, set()),
        (LOADS_EARLY, {"race"}),
        (SYNCWARP, set()),
        (SHUFFLE, set()),
        (FENCE, set()),
        (ATOMIC, set()),
        (SOME, set()),
        (BEHIND, {"race"}),
        (ALL_MEET, set()),
        (LOADS_UNWRITTEN, {"uninitialized-read"}),
        (ONE_PLACE, {"intra-warp-race"}),
        (SWAPPED, set()),
        (LEFT_OUT, set()),
        (STORES_LATER, {"race"}),
    ],
)
def test_what_comes_between_is_found(
    what: int, codes: set[str], buffers: int, followed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    report = launched(monkeypatch, 111, what, buffers, 120)
    errors = {"race", "uninitialized-read", "intra-warp-race", "deadlock", "barrier-recycling"}
    found = [finding for finding in report["findings"] if finding["code"] in errors]
    assert {finding["code"] for finding in found} == codes
    assert all(site["cta"] == (1, 0, 0) for finding in found for site in finding["sites"])
    assert followed


@pytest.mark.parametrize("what", [NO_WAIT, NO_ARRIVAL, LEAVES])
@pytest.mark.parametrize("when", [2, LATE, ROUNDS - 1])
def test_operations_that_are_left_out_are_missed(what: int, when: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert launched(monkeypatch, when, what)["verdict"] == "failed"


@pytest.mark.parametrize("when", range(0, ROUNDS, 3))
def test_a_race_is_found_in_any_round(when: int, monkeypatch: pytest.MonkeyPatch) -> None:
    report = launched(monkeypatch, when, STORES_BEFORE)
    assert "race" in {finding["code"] for finding in report["findings"]}


@pytest.mark.parametrize(
    ("where", "name", "value"),
    [
        (section_tables, "PERIOD_ACCESSES", 8),
        (section_tables, "PERIOD_CHANGES", 3),
        (section_tables, "MOST_STEPS", 1),
        (section_tables, "LUCK", 1),
        (shadow_planes, "FIRST_MOMENTS", 4),
    ],
)
def test_rooms_may_be_full(where: Any, name: str, value: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(where, name, value)
    for what in (NOTHING, STORES_BEFORE, BEHIND):
        launched(monkeypatch, LATE, what)


@pytest.mark.parametrize(
    "checkers", [[], ["barrier-recycling"], ["race"], ["race", "bank-conflict"], ["uninitialized-read"]]
)
def test_whatever_is_looked_for(checkers: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for what in (NOTHING, STORES_BEFORE, NO_WAIT, LOADS_UNWRITTEN):
        launched(monkeypatch, LATE, what, checkers=checkers)


@pytest.mark.parametrize("budget", [3_000, 3_517, 4_203])
def test_a_budget_that_ends_in_the_midst_of_a_period_leaves_what_was_counted(
    budget: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert launched(monkeypatch, NEVER, NOTHING, 1, 60, budget=budget)["verdict"] == "incomplete"


@pytest.mark.parametrize("slice_", [157, 1_000])
def test_slices_may_end_in_the_midst_of_a_period(slice_: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "SLICES", (slice_,) * 3)
    for what in (NOTHING, STORES_BEFORE, BEHIND):
        launched(monkeypatch, LATE, what)


@cuda.jit
def ordered(n: Any, y: Any, x: Any, when: Any, what: Any, buffers: Any) -> None:
    """Warp 2 loads what warp 0 has stored; in round `when` of CTA 1 the same comes in the same order, without what
    orders it."""
    s = cuda.shared.array(32 * 4, np.float32)
    t, b = cuda.threadIdx.x, cuda.blockIdx.x
    w, l = t // 32, t % 32  # noqa: E741
    v = np.float32(0)
    for r in range(n):
        now = what if r == when and b == 1 else 0
        if w == 0:
            s[l] = r
            if now != 1:
                ptx.bar_arrive(3, 64)
            ptx.bar_sync(1, 96)
        elif w == 1:
            ptx.bar_arrive(4, 64)
            s[64 + l] = r
            if now == 3:
                ptx.bar_arrive(6, 32)
            else:
                ptx.bar_sync(6, 32)
            v += s[64 + (l ^ 1)]
            ptx.bar_sync(1, 96)
        elif w == 2:
            if now == 2:
                ptx.bar_sync(4, 64)
            elif now != 1:
                ptx.bar_sync(3, 64)
            v += s[l]
            if now == 2:
                ptx.bar_sync(3, 64)
            else:
                ptx.bar_sync(4, 64)
            ptx.bar_sync(1, 96)
    y[b, t] = v


@pytest.mark.parametrize(
    ("what", "code"), [(NOTHING, None), (1, "race"), (2, "race"), (3, "intra-warp-race")]
)  # fmt: skip
@pytest.mark.parametrize("when", [2, LATE])
def test_what_orders_accesses_must_come_again_too(
    what: int, code: str | None, when: int, followed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    result = in_all_tiers(monkeypatch, lambda: said(ordered, CTAS, THREADS, arguments(when, what), workers=1))
    assert code is None or code in {finding["code"] for finding in result[0]["findings"]}
    assert followed


@cuda.jit
def collide(n: Any, y: Any, x: Any, when: Any, what: Any, buffers: Any) -> None:
    """Lanes of warp 1 store to one place: the same, but in round `when` of CTA 1, in which warp 0 may do something
    else."""
    s = cuda.shared.array(64, np.int32)
    t, b = cuda.threadIdx.x, cuda.blockIdx.x
    w, l = t // 32, t % 32  # noqa: E741
    v = 0
    s[t % 64] = 0
    cuda.syncthreads()
    if w == 0:
        ptx.bar_arrive(1, 64)
        for r in range(n):
            ptx.bar_sync(2, 64)
            v += s[l]
            if r == when and b == 1 and what == 0:
                cuda.syncwarp()
            ptx.bar_arrive(1, 64)
    elif w == 1:
        for r in range(n):
            ptx.bar_sync(1, 64)
            if l < 20:
                q = l if r == when and b == 1 and what == 1 else r
                for _ in range(l // 2 - l // 2 + 1 + l % 2 - l % 2):  # the VM makes it
                    s[l // 2] = q
            ptx.bar_arrive(2, 64)
        ptx.bar_sync(1, 64)
    y[b, t] = v


@pytest.mark.parametrize("what", [0, 1])
@pytest.mark.parametrize("when", [NEVER, LATE])
def test_what_lanes_store_to_one_place_is_looked_at_each_time(
    what: int, when: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = in_all_tiers(monkeypatch, lambda: said(collide, CTAS, 64, arguments(when, what), workers=1))
    assert {finding["code"] for finding in result[0]["findings"]} >= (
        {"intra-warp-race"} if what and when == LATE else set()
    )


@cuda.jit
def unordered(n: Any, y: Any, x: Any, when: Any, what: Any, buffers: Any) -> None:
    """Lanes of warp 0 load what others of it have stored; in round `when` of CTA 1 nothing is between."""
    s = cuda.shared.array(32, np.int32)
    t, b = cuda.threadIdx.x, cuda.blockIdx.x
    w, l = t // 32, t % 32  # noqa: E741
    v = 0
    for r in range(n):
        now = r == when and b == 1
        if w < 2:
            ptx.bar_sync(1, 64)
        if w == 0:
            s[l] = r
            if not now:
                ptx.bar_sync(2, 64)
            v += s[x[0] + 31 - l]
            for k in range(3):
                v = v * 3 + (v >> k)
        elif w == 1 and not now:
            ptx.bar_arrive(2, 64)
    y[b, t] = v


def test_an_access_before_which_an_operation_is_left_out_is_named(
    followed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is judged when it comes: later its registers hold other numbers."""
    result = in_all_tiers(monkeypatch, lambda: said(unordered, CTAS, THREADS, arguments(LATE, 0), workers=1))
    (found,) = result[0]["findings"]
    assert found["code"] == "intra-warp-race"
    assert "shared `s[x[0] + 31 - l]`" in found["message"]
    assert followed


@cuda.jit
def elsewhere(n: Any, y: Any, x: Any, when: Any, what: Any, buffers: Any) -> None:
    """Warp 1 loads its own row, but for round `when` of CTA 1, in which most lanes load what warp 0 stores."""
    s = cuda.shared.array(32 * 4, np.float32)
    t, b = cuda.threadIdx.x, cuda.blockIdx.x
    w, l = t // 32, t % 32  # noqa: E741
    v = np.float32(0)
    s[t] = t
    cuda.syncthreads()
    for r in range(n):
        if w == 0:
            s[l] = r
        elif w == 1:
            far = x[l] * 0 + (0 if r == when and b == 1 and l else 32)
            if what == 0 or l % 2 == 0:
                v += s[far + l]
        if w < 2:
            ptx.bar_sync(1, 64)
    y[b, t] = v


@pytest.mark.parametrize("what", [0, 1])
@pytest.mark.parametrize("when", [NEVER, LATE])
def test_lanes_behind_the_same_first_one_may_lie_elsewhere(
    what: int, when: int, followed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    result = in_all_tiers(monkeypatch, lambda: said(elsewhere, CTAS, THREADS, arguments(when, what), workers=1))
    assert {finding["code"] for finding in result[0]["findings"]} >= ({"race"} if when == LATE else set())
    assert followed


@cuda.jit
def late_store(n: Any, y: Any, x: Any, when: Any, what: Any, buffers: Any) -> None:
    """Warp 0 stores behind the last round into what the others load in it."""
    s = cuda.shared.array(32 * 4, np.float32)
    t, b = cuda.threadIdx.x, cuda.blockIdx.x
    w, l = t // 32, t % 32  # noqa: E741
    v = np.float32(0)
    if w == 0:
        for r in range(n):
            s[l] = r
            ptx.bar_arrive(1, 128)
            ptx.bar_sync(2, 128)
        s[l] = 1
    else:
        for _ in range(n):
            ptx.bar_sync(1, 128)
            v += s[l]
            ptx.bar_arrive(2, 128)
            v += s[l] if what else np.float32(0)
    y[b, t] = v


@pytest.mark.parametrize("what", [0, 1])
def test_what_follows_the_last_round_is_judged_with_it(
    what: int, followed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    result = in_all_tiers(
        monkeypatch, lambda: said(late_store, CTAS, THREADS, arguments(NEVER, what), workers=1)
    )  # fmt: skip
    assert result[0]["verdict"] == ("failed" if what else "verified")
    assert bool(followed) != bool(what)


@cuda.jit
def rounds_later(n: Any, y: Any, x: Any, when: Any, what: Any, buffers: Any) -> None:
    """Warp 1 loads what warp 0 has stored two rounds before, and warp 0 stores there again when it should not."""
    s = cuda.shared.array(32 * 4, np.float32)
    t, b = cuda.threadIdx.x, cuda.blockIdx.x
    w, l = t // 32, t % 32  # noqa: E741
    v = np.float32(0)
    if w == 0:
        for r in range(n):
            s[32 * (r % 4) + l] = r
            if r == when and b == 1:
                s[32 * ((r + 1) % 4) + l] = r
            ptx.bar_sync(1, 64)
    elif w == 1:
        for r in range(n):
            ptx.bar_sync(1, 64)
            if r > 1:
                v += s[32 * ((r + 2) % 4) + l]
    y[b, t] = v


@pytest.mark.parametrize("when", [NEVER, 100])
def test_a_store_into_what_is_loaded_rounds_later_is_found(
    when: int, followed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def one() -> tuple[Any, ...]:
        return said(rounds_later, CTAS, THREADS, arguments(when, NOTHING, 1, 120), workers=1)

    result = in_all_tiers(monkeypatch, one)
    codes = {finding["code"] for finding in result[0]["findings"]}
    assert ("race" in codes) == (when != NEVER)
    assert followed


def test_machines_are_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def thrice() -> tuple[Any, ...]:
        return tuple(said(turns, CTAS, THREADS, arguments(LATE, what), workers=1) for what in (0, STORES_BEFORE, 0))

    verdicts = [report["verdict"] for report, *_ in in_all_tiers(monkeypatch, thrice)]
    assert verdicts == ["verified", "failed", "verified"]
