"""Accesses through two proxies: where a proxy fence has to lie between a plain access and an asynchronous one.

Measured rules T5 and W13: a bulk store without the fence reads stale bytes, across barriers too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.async_kernels import DATA, ENGINES, Kernel, launch
from wsemu.model.isa import ALL, PROXIES, SHARED

if TYPE_CHECKING:
    from tests.unit.async_kernels import Ran

ADDRESS = (SHARED << 40) + DATA


@pytest.fixture(params=list(ENGINES))
def engine(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def store(k: Kernel, size: int = 16) -> Kernel:
    """A bulk store of the first bytes of the data, and a wait for it."""
    k.store(k.b, DATA, size)
    k.do("bulk.commit")
    return k.do("bulk.wait")


def written_by_a_thread(engine: str, *kinds: str) -> Ran:
    """One thread writes words, fences, and stores them."""
    k = Kernel()

    def body() -> None:
        for n in range(4):
            k.do("st.b32", k.at(DATA + 4 * n), k.c(n), tag=f"put{n}")
        for kind in kinds:
            k.fence(kind)
        store(k)

    k.only(0, body)
    return launch(k, 32, engine)


def test_t5_a_bulk_store_needs_a_fence_after_plain_stores_of_its_own_thread(engine: str) -> None:
    ran = written_by_a_thread(engine)
    assert ran.codes == ["proxy"] * 4
    first = ran.outcome.findings[0]
    assert (first.pc, first.other_pc, first.lanes) == (ran.pc["store"], ran.pc["put0"], 1)
    assert first.detail == {
        "address": ADDRESS, "kind": 0, "other_kind": 1, "size": 16, "interval": 0, "other_interval": 1, "other_cta": 0,
        "other_lane": 0, "other_last": 0, "async": 1,
    }  # fmt: skip


@pytest.mark.parametrize("kind", PROXIES)
def test_t5_which_fences_are_of_shared_memory(engine: str, kind: str) -> None:
    ran = written_by_a_thread(engine, kind)
    fences = kind in ("async", "async.shared::cta", "async.shared::cluster")
    assert ran.codes == ([] if fences else ["proxy"] * 4)
    assert len(ran.events("proxy")) == 1


@pytest.mark.parametrize("where", ["writers", "issuer", "nowhere"])
@pytest.mark.parametrize("through", ["barrier", "mbarrier", "syncwarp"])
def test_t5_the_fence_is_the_writers_or_the_issuers(engine: str, where: str, through: str) -> None:
    """Lanes of a warp write, one stores: of another warp, after a barrier or an mbarrier, or of the same."""
    k = Kernel()
    k.only(0, lambda: k.init(0, 32))
    k.sync()
    issuer = 32 if through == "syncwarp" else 0

    def write() -> None:
        k.do("st.b32", k.emit("mad.b64", k.emit("cvt.b64.u32", k.lane), k.c(4, "b64"), k.at(DATA)), k.c(1), tag="put")
        if where == "writers":
            k.fence()
        if through == "mbarrier":
            k.arrive(0)
        elif through == "syncwarp":
            k.do("syncwarp", k.c(0), k.c(0), k.c(0xFFFFFFFF))

    k.when(k.is_warp(1), write)
    if through == "barrier":
        k.sync()

    def issue() -> None:
        if through == "mbarrier":
            k.wait(0, 0)
        if where == "issuer":
            k.fence()
        store(k, 128)

    k.only(issuer, issue)
    ran = launch(k, 64, engine)
    assert ran.codes == (["proxy"] if where == "nowhere" else [])
    if where == "nowhere":
        found = ran.finding("proxy")
        assert (found.pc, found.other_pc, found.other_warp) == (ran.pc["store"], ran.pc["put"], 1)
        assert (found.detail["other_lane"], found.detail["size"]) == (0, 128)


def test_a_fence_before_the_store_that_it_should_be_of(engine: str) -> None:
    k = Kernel()

    def body() -> None:
        k.do("st.b32", k.at(DATA), k.c(1))
        k.do("st.b64", k.at(DATA + 8), k.c(1, "b64"))
        k.fence()
        k.do("st.b32", k.at(DATA + 4), k.c(1), tag="late")
        store(k)

    k.only(0, body)
    ran = launch(k, 32, engine)
    assert ran.codes == ["proxy"]
    assert ran.finding("proxy").other_pc == ran.pc["late"]


def test_a_fence_is_of_the_lanes_that_execute_it(engine: str) -> None:
    """Lane 1 fences, and hands nothing on: lane 0 stores."""
    k = Kernel()
    k.only(0, lambda: k.do("st.b64", k.at(DATA), k.c(1, "b64"), tag="put"))
    k.only(0, lambda: k.do("st.b64", k.at(DATA + 8), k.c(1, "b64"), tag="put2"))
    k.only(1, k.fence)
    k.only(0, lambda: store(k))
    assert set(launch(k, 32, engine).codes) == {"proxy"}


def test_without_any_order_it_is_a_race(engine: str) -> None:
    k = Kernel()
    k.only(32, lambda: (k.do("st.b32", k.at(DATA), k.c(1), tag="put"), k.fence()))
    k.only(0, lambda: store(k))
    ran = launch(k, 64, engine, initialised=False)
    assert ran.codes == ["race"]


@pytest.mark.parametrize("fenced", [False, True])
def test_a_plain_read_and_then_an_asynchronous_write(engine: str, fenced: bool) -> None:
    """The consumer of a ring reads, and the next load comes: a warning of its own."""
    k = Kernel()
    k.only(0, lambda: (k.init(0, 1), k.init(1, 1), k.arrive(0, bytes_=16), k.load(DATA, k.a, 16, 0, tag="first")))
    k.sync()

    def consume() -> None:
        k.wait(0, 0)
        k.out(k.emit("ld.b32", k.at(DATA), tag="get"))
        if fenced:
            k.fence("async.shared::cta")
        k.arrive(1)

    def again() -> None:
        k.wait(0, 0)
        k.wait(1, 0)
        k.arrive(0, bytes_=16)
        k.load(DATA, k.a, 16, 0, tag="next")
        k.wait(0, 1)

    k.only(32, consume)
    k.only(0, again)
    ran = launch(k, 64, engine)
    assert ran.codes == ([] if fenced else ["proxy-war"])
    if not fenced:
        found = ran.finding("proxy-war")
        assert (found.pc, found.other_pc) == (ran.pc["next"], ran.pc["get"])
        assert (found.detail["kind"], found.detail["other_kind"]) == (1, 0)


def test_a_plain_read_and_an_asynchronous_read_never_conflict(engine: str) -> None:
    k = Kernel()

    def body() -> None:
        k.do("st.b32", k.at(DATA), k.c(1))
        k.do("st.b32", k.at(DATA + 4), k.c(1))
        k.do("st.b64", k.at(DATA + 8), k.c(1, "b64"))
        k.fence()
        k.do("st.b32", k.at(DATA + 64), k.emit("ld.b32", k.at(DATA)))
        store(k)

    k.only(0, body)
    assert launch(k, 32, engine).is_clean()


def test_what_a_load_wrote_needs_no_fence(engine: str) -> None:
    """Its completion is one, for plain accesses; and for asynchronous ones there is nothing to fence."""
    k = Kernel()

    def body() -> None:
        k.init(0, 1)
        k.arrive(0, bytes_=16)
        k.load(DATA, k.a, 16, 0)
        k.wait(0, 0)
        k.out(k.emit("ld.b32", k.at(DATA)), 1)
        store(k)
        k.arrive(0, bytes_=16)
        k.load(DATA + 16, k.a, 16, 0)
        k.wait(0, 1)

    k.only(0, body)
    assert launch(k, 32, engine).is_clean()


@pytest.mark.parametrize("fenced", [False, True])
def test_what_cp_async_wrote_needs_a_fence(engine: str, fenced: bool) -> None:
    """It is of the generic proxy."""
    k = Kernel()

    def body() -> None:
        k.do("cp.async.b128", k.at(DATA), k.a, k.c(16), tag="copy")
        k.do("cp.async.wait", auxiliary=ALL)
        if fenced:
            k.fence()
        store(k)

    k.only(0, body)
    ran = launch(k, 32, engine)
    assert ran.codes == ([] if fenced else ["proxy"])
    if not fenced:
        found = ran.finding("proxy")
        assert (found.other_pc, found.detail["other_async"], found.detail["other_interval"]) == (ran.pc["copy"], 1, 0)


@pytest.mark.parametrize("kind", ["async", "async.global", "async.shared::cta", ""])
def test_t7_global_memory_has_a_fence_of_its_own(engine: str, kind: str) -> None:
    """A plain global store, then a load of its bytes."""
    k = Kernel()

    def body() -> None:
        k.init(0, 1)
        k.do("st.b32", k.a, k.c(9), tag="put")
        if kind:
            k.fence(kind)
        k.arrive(0, bytes_=16)
        k.load(DATA, k.a, 16, 0)
        k.wait(0, 0)

    k.only(0, body)
    assert launch(k, 32, engine).codes == ([] if kind in ("async", "async.global") else ["proxy"])


def test_fences_are_passed_on_through_others(engine: str) -> None:
    """Warp 2 writes and fences; warp 1 hands on; warp 0 stores."""
    k = Kernel()
    k.only(0, lambda: (k.init(0, 1), k.init(1, 1)))
    k.sync()
    k.only(64, lambda: (k.do("bulk.zero", k.at(DATA), k.c(16)), k.fence(), k.arrive(0)))
    k.only(32, lambda: (k.wait(0, 0), k.arrive(1)))
    k.only(0, lambda: (k.wait(1, 0), store(k)))
    assert launch(k, 96, engine).is_clean()


def test_a_load_over_what_was_written_plainly(engine: str) -> None:
    """T8: no harm was seen, and the text asks for the fence."""
    k = Kernel()
    k.only(0, lambda: (k.init(0, 1), k.do("st.b32", k.at(DATA), k.c(1)), k.arrive(0, bytes_=16)))
    k.only(0, lambda: (k.load(DATA, k.a, 16, 0), k.wait(0, 0)))
    ran = launch(k, 32, engine)
    assert ran.codes == ["proxy"]
    assert (ran.finding("proxy").detail["kind"], ran.finding("proxy").detail["other_kind"]) == (1, 1)
