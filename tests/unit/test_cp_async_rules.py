"""What `cp.async` does, rule by rule; the numbers are those of rules measured on an H100."""

from __future__ import annotations

import pytest

from tests.unit.async_kernels import BAR, DATA, ENGINES, Kernel, launch
from wsemu.model.isa import ALL, NOINC, SHARED


@pytest.fixture(params=list(ENGINES))
def engine(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def k() -> Kernel:
    return Kernel()


def copy(k: Kernel, size: int = 4, count: int | None = None, shift: int = 0, tag: str = "copy") -> Kernel:
    """Each thread copies an element of array `a` to its own place."""
    operands = k.by_thread(k.at(DATA), size), k.by_thread(k.a, size)
    k.do(f"cp.async.b{8 * size}", *operands, k.c(size if count is None else count), immediate=shift, tag=tag)
    return k


def commit(k: Kernel) -> Kernel:
    k.do("cp.async.commit")
    return k


def wait(k: Kernel, left: int = 0, everything: bool = False) -> Kernel:
    k.do("cp.async.wait", immediate=left, auxiliary=ALL if everything else 0)
    return k


@pytest.mark.parametrize("size", [4, 8, 16])
@pytest.mark.parametrize("missing", [0, 1, 3])
def test_c1_fewer_bytes_are_filled_up_with_zeros(k: Kernel, engine: str, size: int, missing: int) -> None:
    k.do("st.b32", k.by_thread(k.at(DATA), size), k.c(-1), immediate=size - 4)
    copy(k, size, size - missing)
    wait(k, everything=True)
    k.out(k.emit("ld.b32", k.by_thread(k.at(DATA), size), immediate=size - 4))
    ran = launch(k, 32, engine)
    assert ran.is_clean()
    words = size // 4
    mask = (1 << 8 * (4 - missing)) - 1
    assert ran.result() == [(words * n + words - 1) & mask for n in range(32)]


def test_c1_of_0_bytes_the_source_is_not_touched(k: Kernel, engine: str) -> None:
    k.do("cp.async.b32", k.by_thread(k.at(DATA)), k.c(1, "b64"), k.c(0))
    wait(k, everything=True)
    k.out(k.get(DATA))
    ran = launch(k, 32, engine)
    assert ran.is_clean()
    assert ran.result() == [0] * 32


@pytest.mark.parametrize(("count", "copied"), [(17, 1), (32, 16), (2**31 - 1, 15)])
def test_c1_more_bytes_than_the_copy_has_count_by_their_rest(k: Kernel, engine: str, count: int, copied: int) -> None:
    k.only(1, lambda: (copy(k, 16, count), wait(k, everything=True)))
    k.only(1, lambda: [k.out(k.emit("ld.b32", k.at(DATA + 16 + 4 * n)), n) for n in range(4)])
    ran = launch(k, 32, engine)
    assert ran.codes == ["copy-size"]
    assert ran.finding("copy-size").detail == {"bytes": count, "what": 1}
    got = b"".join(ran.result(n)[1].to_bytes(4, "little") for n in range(4))
    whole = b"".join(n.to_bytes(4, "little") for n in range(4, 8))
    assert got == whole[:copied] + bytes(16 - copied)


@pytest.mark.parametrize("size", [4, 8, 16])
@pytest.mark.parametrize("side", ["source", "target"])
def test_c2_addresses_are_multiples_of_the_size(k: Kernel, engine: str, size: int, side: str) -> None:
    odd = 1 if side == "source" else 0
    k.only(
        0,
        lambda: k.do(f"cp.async.b{8 * size}", k.at(DATA + 1 - odd), k.emit("add.b64", k.a, k.c(odd, "b64")), k.c(size)),
    )
    ran = launch(k, 32, engine)
    assert ran.codes == ["misaligned"]
    assert ran.finding("misaligned").detail["alignment"] == size


def test_c2_a_null_source_is_out_of_bounds(k: Kernel, engine: str) -> None:
    k.only(0, lambda: k.do("cp.async.b32", k.at(DATA), k.c(0, "b64"), k.c(4)))
    assert launch(k, 32, engine).codes == ["out-of-bounds"]


def test_c3_without_a_wait_a_read_races_with_the_copy(k: Kernel, engine: str) -> None:
    copy(k)
    k.out(k.get(DATA))
    ran = launch(k, 32, engine)
    assert ran.codes == ["async-outlives-cta", "race"]
    found = ran.finding("race")
    assert (found.pc, found.other_pc, found.lanes) == (ran.pc["get"], ran.pc["copy"], 0xFFFFFFFF)
    assert found.detail == {
        "address": (SHARED << 40) + DATA, "kind": 0, "other_kind": 1, "size": 4, "interval": 1, "other_interval": 0,
        "other_cta": 0, "other_lane": 0, "other_last": 0, "other_async": 1,
    }  # fmt: skip
    assert ran.finding("async-outlives-cta").detail == {"address": (SHARED << 40) + DATA, "bytes": 4, "what": 0}
    assert ran.finding("async-outlives-cta").count == 32


def test_c3_a_barrier_alone_does_not_wait_for_the_copies_of_others(k: Kernel, engine: str) -> None:
    def program(waits: bool) -> Kernel:
        k = Kernel()
        copy(k)
        if waits:
            wait(k, everything=True)
        k.sync()
        k.out(k.emit("ld.b32", k.at(DATA)))
        if not waits:
            wait(k, everything=True)
        return k

    assert launch(program(waits=True), 64, engine).is_clean()
    assert launch(program(waits=False), 64, engine).codes == ["race"]


def test_c4_a_wait_is_for_the_own_copies(k: Kernel, engine: str) -> None:
    """The lane that issued waits, others read."""
    copy(k)
    wait(k, everything=True)
    k.out(k.emit("ld.b32", k.at(DATA)))
    ran = launch(k, 32, engine)
    assert ran.codes == ["race"]
    assert ran.finding("race").lanes == 0xFFFFFFFE


def test_c5_a_wait_for_groups_leaves_the_newest(engine: str) -> None:
    def program(left: int) -> Kernel:
        k = Kernel()
        copy(k)
        commit(k)
        operands = k.by_thread(k.at(DATA + 1024)), k.by_thread(k.a)
        k.do("cp.async.b32", *operands, k.c(4), tag="second")
        commit(k)
        wait(k, left)
        k.out(k.get(DATA, tag="one"))
        k.out(k.get(DATA + 1024, tag="two"), 1)
        wait(k, 0)
        return k

    assert launch(program(0), 32, engine).is_clean()
    ran = launch(program(1), 32, engine)
    assert ran.codes == ["race"]
    assert (ran.finding("race").pc, ran.finding("race").other_pc) == (ran.pc["two"], ran.pc["second"])


@pytest.mark.parametrize("everything", [False, True])
def test_c6_copies_that_no_group_has_are_waited_for_by_wait_all_alone(engine: str, everything: bool) -> None:
    k = Kernel()
    copy(k)
    wait(k, 0, everything)
    k.out(k.get(DATA))
    ran = launch(k, 32, engine)
    assert ran.codes == ([] if everything else ["async-outlives-cta", "race"])


def test_c7_a_store_to_the_destination_of_a_copy_under_way(k: Kernel, engine: str) -> None:
    copy(k)
    k.put(DATA, k.c(5))
    wait(k, everything=True)
    ran = launch(k, 32, engine)
    assert ran.codes == ["race"]
    assert (ran.finding("race").pc, ran.finding("race").detail["kind"]) == (ran.pc["put"], 1)


def test_a_store_to_the_source_of_a_copy_under_way(k: Kernel, engine: str) -> None:
    copy(k)
    k.do("st.b32", k.by_thread(k.a), k.c(5), tag="put")
    wait(k, everything=True)
    ran = launch(k, 32, engine)
    assert ran.codes == ["race"]
    assert ran.finding("race").detail["other_kind"] == 0


def test_two_copies_to_one_place_race(k: Kernel, engine: str) -> None:
    copy(k, tag="one")
    copy(k, tag="two")
    wait(k, everything=True)
    ran = launch(k, 32, engine)
    assert ran.codes == ["race"]
    found = ran.finding("race")
    assert (found.pc, found.other_pc, found.count, found.lanes) == (ran.pc["two"], ran.pc["one"], 1, 0xFFFFFFFF)
    assert (found.detail["async"], found.detail["other_async"]) == (1, 1)
    assert (found.detail["interval"], found.detail["other_interval"]) == (0, 0)


def test_a_copy_comes_after_what_its_lane_did_before(k: Kernel, engine: str) -> None:
    k.put(DATA, k.tid)
    copy(k)
    wait(k, everything=True)
    assert launch(k, 32, engine).is_clean()


def test_c8_the_arrival_that_comes_with_the_copies_leaves_the_count_alone(k: Kernel, engine: str) -> None:
    def body() -> None:
        k.init(0, 2)
        k.do("cp.async.arrive", k.base)
        k.out(k.emit("mbarrier.pending_count", k.arrive(0, 2)))

    k.only(0, body)
    ran = launch(k, 32, engine)
    assert ran.is_clean()
    assert ran.result()[0] == 2
    assert [e.amount for e in ran.events("arrive_on")] == [0, 2]


def test_c9_noinc_counts_a_lane_each(k: Kernel, engine: str) -> None:
    k.only(0, lambda: k.init(0, 32))
    k.sync()
    k.do("cp.async.arrive", k.base, auxiliary=NOINC)
    k.out(k.as_number(k.wait(0, 0)))
    ran = launch(k, 32, engine)
    assert ran.is_clean()
    assert ran.result() == [1] * 32
    k = Kernel()
    k.only(0, lambda: k.init(0, 31))
    k.sync()
    k.do("cp.async.arrive", k.base, auxiliary=NOINC)
    ran = launch(k, 32, engine)
    assert (ran.status, ran.codes) == ("fault", ["over-arrival"])


@pytest.mark.parametrize("noinc", [False, True])
def test_c10_who_waits_at_the_mbarrier_sees_the_copies(k: Kernel, engine: str, noinc: bool) -> None:
    k.only(0, lambda: k.init(0, 32))
    k.sync()

    def producer() -> None:
        copy(k)
        k.do("cp.async.arrive", k.base, auxiliary=NOINC if noinc else 0)
        if not noinc:
            k.arrive(0)

    def consumer() -> None:
        k.wait(0, 0)
        k.out(k.emit("ld.b32", k.at(DATA)))

    k.warps(producer, consumer)
    ran = launch(k, 64, engine)
    assert ran.is_clean()


def test_c10_an_mbarrier_that_copies_arrive_at_goes_round(engine: str) -> None:
    """A ring of one stage: full by copies, empty by the consumers."""
    k = Kernel()
    k.only(0, lambda: (k.init(0, 32), k.init(1, 32)))
    k.sync()

    def producer() -> None:
        for n in range(3):
            k.wait(1, 1 - n % 2)
            copy(k)
            k.do("cp.async.arrive", k.base, auxiliary=NOINC)

    def consumer() -> None:
        for n in range(3):
            k.wait(0, n % 2)
            k.out(k.emit("ld.b32", k.at(DATA)))
            k.arrive(1)

    k.warps(producer, consumer)
    assert launch(k, 64, engine).is_clean()


def test_a_copy_to_the_bytes_of_a_live_mbarrier(k: Kernel, engine: str) -> None:
    k.only(0, lambda: (k.init(0, 1), k.do("cp.async.b128", k.base, k.a, k.c(16), tag="copy"), wait(k, everything=True)))
    ran = launch(k, 32, engine)
    assert ran.codes == ["mbarrier-clobber"]
    assert ran.finding("mbarrier-clobber").detail == {
        "address": BAR, "at": BAR, "kind": 1, "size": 16, "asynchronous": 1
    }  # fmt: skip


def test_a_trace_has_the_copies_and_the_waits(k: Kernel, engine: str) -> None:
    k.when(k.lanes_below(2), lambda: (copy(k), commit(k), wait(k, 0)))
    ran = launch(k, 32, engine)
    copies = [(e.lanes, e.place - (SHARED << 40), e.amount, e.interval) for e in ran.events("copy")]
    assert copies == [(1, DATA, 4, 1), (2, DATA + 4, 4, 1)]
    (landed,) = ran.events("landed")
    assert (landed.lanes, landed.generation, landed.interval) == (3, 0, 1)
