"""What bulk copies and reductions do, rule by rule; the numbers are those of rules measured on an H100."""

from __future__ import annotations

import math
import struct

import numpy as np
import pytest

from tests.unit.async_kernels import BAR, DATA, ENGINES, Kernel, launch
from wsemu.model.isa import ONLY_READ, SHARED
from wsemu.model.outcome import PhaseState


@pytest.fixture(params=list(ENGINES))
def engine(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def k() -> Kernel:
    return Kernel()


def loaded(k: Kernel, size: int, expected: int | None = None, source: int = 0, target: int = DATA) -> Kernel:
    """Thread 0 makes an mbarrier, loads, and waits."""
    k.init(0, 1)
    k.arrive(0, bytes_=size if expected is None else expected)
    k.load(target, k.emit("add.b64", k.a, k.c(source, "b64")), size, 0)
    k.wait(0, 0)
    return k


def commit(k: Kernel) -> Kernel:
    k.do("bulk.commit")
    return k


def wait(k: Kernel, left: int = 0, only_read: bool = False) -> Kernel:
    k.do("bulk.wait", immediate=left, auxiliary=ONLY_READ if only_read else 0)
    return k


def fill(k: Kernel, words: list[int], offset: int = DATA) -> Kernel:
    """Words of shared memory, for the asynchronous proxy."""
    for n, word in enumerate(words):
        k.do("st.b32", k.at(offset + 4 * n), k.c(word), tag="fill")
    k.fence()
    return k


@pytest.mark.parametrize("size", [16, 48, 4096])
def test_t1_a_load_copies_and_credits(engine: str, size: int) -> None:
    k = Kernel(shared=DATA + size)
    k.only(0, lambda: (loaded(k, size), k.out(k.emit("ld.b32", k.at(DATA + size - 4)))))
    ran = launch(k, 32, engine)
    assert ran.is_clean()
    assert ran.result()[0] == size // 4 - 1
    assert [(e.kind, e.amount) for e in ran.events("copy", "credit")] == [("copy", size), ("credit", size)]


@pytest.mark.parametrize(("size", "copied"), [(20, 16), (24, 16), (15, 0)])
def test_t1_a_size_is_rounded_down_to_a_multiple_of_16(k: Kernel, engine: str, size: int, copied: int) -> None:
    k.only(0, lambda: (k.init(0, 1), k.arrive(0, bytes_=32), k.load(DATA, k.a, size, 0), k.come(0, 32 - copied)))
    k.only(0, lambda: k.wait(0, 0))
    ran = launch(k, 32, engine)
    assert ran.codes == ["copy-size"]
    assert ran.finding("copy-size").detail == {"bytes": size, "what": 0}


def test_t1_of_0_bytes_nothing_happens(k: Kernel, engine: str) -> None:
    k.only(0, lambda: (k.load(DATA, k.a, 0, 0), k.store(k.b, DATA, 0), commit(k)))
    ran = launch(k, 32, engine)
    assert ran.is_clean()
    assert ran.events("copy", "credit") == []


@pytest.mark.parametrize("side", ["source", "target"])
def test_t2_addresses_are_multiples_of_16_and_the_bytes_are_credited_all_the_same(
    k: Kernel, engine: str, side: str
) -> None:
    source, target = (8, DATA) if side == "source" else (0, DATA + 8)
    k.only(0, lambda: loaded(k, 32, source=source, target=target))
    ran = launch(k, 32, engine)
    assert (ran.status, ran.codes) == ("done", ["misaligned"])
    found = ran.finding("misaligned").detail
    assert (found["alignment"], found["size"], found["segment"]) == (16, 32, 3 if side == "source" else 1)


@pytest.mark.parametrize("side", ["source", "target"])
def test_t2_a_copy_lies_in_its_memory(k: Kernel, engine: str, side: str) -> None:
    source, target = (4 * 4096 - 16, DATA) if side == "source" else (0, 8192 - 16)
    k.only(0, lambda: loaded(k, 32, source=source, target=target))
    ran = launch(k, 32, engine)
    assert (ran.status, ran.codes) == ("done", ["out-of-bounds"])


def test_t2_an_mbarrier_is_a_multiple_of_8(k: Kernel, engine: str) -> None:
    k.only(0, lambda: k.do("bulk.load", k.at(DATA), k.a, k.c(16), k.at(4)))
    ran = launch(k, 32, engine)
    assert (ran.status, ran.codes) == ("fault", ["misaligned"])


@pytest.mark.parametrize(("address", "code"), [(8, ["misaligned"]), (1 << 50, [])])
def test_t2_a_prefetch_does_nothing(k: Kernel, engine: str, address: int, code: list[str]) -> None:
    k.only(0, lambda: k.do("bulk.prefetch", k.c(address, "b64"), k.c(8)))
    assert launch(k, 32, engine).codes == code


def test_t3_an_mbarrier_that_is_none(k: Kernel, engine: str) -> None:
    k.only(0, lambda: k.load(DATA, k.a, 64, 0))
    ran = launch(k, 32, engine)
    assert (ran.status, ran.codes) == ("fault", ["mbarrier-uninitialized"])


def test_each_lane_makes_a_copy_of_its_own(k: Kernel, engine: str) -> None:
    k.only(0, lambda: (k.init(0, 1), k.arrive(0, bytes_=32 * 16)))
    k.sync()
    k.do("bulk.load", k.by_thread(k.at(DATA), 16), k.by_thread(k.a, 16), k.c(16), k.at(0))
    k.wait(0, 0)
    k.out(k.emit("ld.b32", k.by_thread(k.at(DATA), 16)))
    ran = launch(k, 32, engine)
    assert ran.is_clean()
    assert ran.result() == [4 * n for n in range(32)]
    assert [e.lanes for e in ran.events("credit")] == [1 << n for n in range(32)]


def test_t4_groups_are_of_a_thread(k: Kernel, engine: str) -> None:
    k.only(0, lambda: (fill(k, [1, 2, 3, 4]), k.store(k.b, DATA, 16), commit(k)))
    k.only(1, lambda: wait(k))
    ran = launch(k, 32, engine)
    assert ran.codes == ["store-outlives-cta"]
    assert ran.finding("store-outlives-cta").detail == {"address": (SHARED << 40) + DATA, "bytes": 16}


def test_t4_a_store_writes_and_its_group_is_waited_for(k: Kernel, engine: str) -> None:
    def body() -> None:
        fill(k, [1, 2, 3, 4])
        k.store(k.b, DATA, 16)
        commit(k)
        wait(k)
        k.do("st.b32", k.at(DATA), k.emit("ld.b32", k.b))

    k.only(0, body)
    ran = launch(k, 32, engine)
    assert ran.is_clean()
    assert ran.result(threads=5) == [1, 2, 3, 4, 0]


@pytest.mark.parametrize(("mask", "bytes_"), [(0x8001, [0, 15]), (0, []), (0x1FFFF, list(range(16)))])
def test_a_mask_chooses_bytes_of_each_16(k: Kernel, engine: str, mask: int, bytes_: list[int]) -> None:
    def body() -> None:
        fill(k, [0x01010101 * 0xFF] * 8)
        k.store(k.b, DATA, 32, mask)
        commit(k)
        wait(k)

    k.only(0, body)
    ran = launch(k, 32, engine)
    assert ran.is_clean()
    got = b"".join(word.to_bytes(4, "little") for word in ran.result(threads=8))
    assert [n for n, byte in enumerate(got) if byte] == [*bytes_, *(16 + n for n in bytes_)]


def test_bytes_that_a_mask_leaves_out_are_no_access(k: Kernel, engine: str) -> None:
    def body() -> None:
        fill(k, [1, 2, 3, 4])
        k.store(k.b, DATA, 16, 0x000F)
        commit(k)
        k.do("st.b32", k.b, k.c(9), immediate=4)
        k.do("st.b32", k.at(DATA + 8), k.c(9))
        wait(k)

    k.only(0, body)
    ran = launch(k, 32, engine)
    assert ran.is_clean()
    assert ran.result(threads=4) == [1, 9, 0, 0]


@pytest.mark.parametrize("only_read", [True, False])
def test_t6_a_source_is_free_when_it_was_read(k: Kernel, engine: str, only_read: bool) -> None:
    def body() -> None:
        fill(k, [1, 2, 3, 4])
        k.store(k.b, DATA, 16)
        commit(k)
        wait(k, only_read=only_read)
        k.do("st.b32", k.at(DATA), k.c(9))

    k.only(0, body)
    assert launch(k, 32, engine).is_clean()


def test_t6_a_source_is_overwritten_while_it_is_read(k: Kernel, engine: str) -> None:
    def body() -> None:
        fill(k, [1, 2, 3, 4])
        k.store(k.b, DATA, 16)
        commit(k)
        k.do("st.b32", k.at(DATA), k.c(9), tag="again")
        wait(k)

    k.only(0, body)
    ran = launch(k, 32, engine)
    assert ran.codes == ["race"]
    found = ran.finding("race")
    assert (found.pc, found.other_pc, found.detail["other_kind"]) == (ran.pc["again"], ran.pc["store"], 0)


@pytest.mark.parametrize("only_read", [True, False])
def test_what_a_store_wrote_is_there_when_its_group_was_waited_for_as_a_whole(
    k: Kernel, engine: str, only_read: bool
) -> None:
    """Message passing: the flag must not come before the data."""

    def body() -> None:
        fill(k, [1, 2, 3, 4])
        k.store(k.b, DATA, 16)
        commit(k)
        wait(k, only_read=only_read)
        k.do("st.b32", k.at(DATA + 64), k.emit("ld.b32", k.b, tag="back"))

    k.only(0, body)
    ran = launch(k, 32, engine)
    assert ran.codes == (["race"] if only_read else [])


def test_a_wait_leaves_the_newest_groups(k: Kernel, engine: str) -> None:
    def body() -> None:
        fill(k, [1, 2, 3, 4, 5, 6, 7, 8])
        for n in range(2):
            k.store(k.emit("add.b64", k.b, k.c(16 * n, "b64")), DATA + 16 * n, 16, tag=f"store{n}")
            commit(k)
        wait(k, 1)
        k.do("st.b32", k.at(DATA), k.c(9))
        k.do("st.b32", k.at(DATA + 16), k.c(9))
        wait(k, 0)

    k.only(0, body)
    ran = launch(k, 32, engine)
    assert ran.codes == ["race"]
    assert ran.finding("race").other_pc == ran.pc["store1"]


def test_a_store_that_no_group_has_is_waited_for_by_nobody(k: Kernel, engine: str) -> None:
    k.only(0, lambda: (fill(k, [1, 2, 3, 4]), k.store(k.b, DATA, 16), wait(k)))
    assert launch(k, 32, engine).codes == ["store-outlives-cta"]


def test_t8_a_read_before_the_wait_races_with_the_load(k: Kernel, engine: str) -> None:
    k.only(0, lambda: (k.init(0, 1), k.arrive(0, bytes_=16), k.load(DATA, k.a, 16, 0)))
    k.only(0, lambda: (k.out(k.emit("ld.b32", k.at(DATA), tag="get")), k.wait(0, 0)))
    ran = launch(k, 32, engine)
    assert ran.codes == ["race"]
    found = ran.finding("race")
    assert (found.pc, found.other_pc, found.detail["other_async"]) == (ran.pc["get"], ran.pc["load"], 1)


def test_a_load_that_nobody_waits_for(k: Kernel, engine: str) -> None:
    k.only(0, lambda: (k.init(0, 1), k.arrive(0, bytes_=16), k.load(DATA, k.a, 16, 0)))
    ran = launch(k, 32, engine)
    assert ran.codes == ["async-outlives-cta"]
    assert ran.finding("async-outlives-cta").detail == {"address": (SHARED << 40) + DATA, "bytes": 16, "what": 0}


def test_a_load_to_the_bytes_of_its_mbarrier(k: Kernel, engine: str) -> None:
    k.only(0, lambda: loaded(k, 16, target=0))
    ran = launch(k, 32, engine)
    assert ran.codes == ["mbarrier-clobber"]
    assert ran.finding("mbarrier-clobber").detail["asynchronous"] == 1


def test_a_load_may_complete_before_its_bytes_are_expected(k: Kernel, engine: str) -> None:
    k.only(0, lambda: (k.init(0, 1), k.load(DATA, k.a, 16, 0), k.arrive(0, bytes_=16), k.wait(0, 0)))
    assert launch(k, 32, engine).is_clean()


def test_more_bytes_than_are_expected(k: Kernel, engine: str) -> None:
    k.only(0, lambda: loaded(k, 32, expected=16))
    ran = launch(k, 32, engine)
    assert ran.status == "deadlock"
    assert ran.outcome.phases == [PhaseState(BAR, 0, 0, 1, -16, ran.pc["init"])]


def test_a_store_of_memory_that_nobody_wrote(k: Kernel, engine: str) -> None:
    k.only(0, lambda: (k.store(k.b, DATA, 32), commit(k), wait(k)))
    ran = launch(k, 32, engine)
    assert ran.codes == ["uninitialized-read"]
    assert ran.finding("uninitialized-read").detail == {"address": (SHARED << 40) + DATA, "size": 32, "segment": 1}


def test_what_a_load_wrote_is_written(k: Kernel, engine: str) -> None:
    k.only(0, lambda: (loaded(k, 16), k.out(k.emit("ld.b32", k.at(DATA + 12)))))
    assert launch(k, 32, engine).is_clean()


def test_two_ctas_that_store_to_one_place_race(k: Kernel, engine: str) -> None:
    k.only(0, lambda: (fill(k, [1, 2, 3, 4]), k.store(k.b, DATA, 16), commit(k), wait(k)))
    ran = launch(k, 32, engine, grid=2)
    assert ran.codes == ["race"]
    detail = ran.finding("race").detail
    assert (detail["other_cta"], detail["async"], detail["other_async"]) == (0, 1, 1)
    assert "other_lane" not in detail


def test_st_bulk_writes_zeros_as_a_plain_store(k: Kernel, engine: str) -> None:
    def body() -> None:
        k.do("st.b32", k.at(DATA + 4), k.c(7))
        k.do("bulk.zero", k.at(DATA), k.c(32), tag="zero")
        k.out(k.emit("ld.b32", k.at(DATA + 4)))

    k.only(0, body)
    k.only(1, lambda: k.out(k.emit("ld.b32", k.at(DATA + 8), tag="get")))
    ran = launch(k, 32, engine)
    assert ran.codes == ["intra-warp-race"]
    assert (ran.finding("intra-warp-race").other_pc, ran.result()[0]) == (ran.pc["zero"], 0)


# -- reductions -------------------------------------------------------------------------------------------------------
def reduced(engine: str, what: str, type_: str, old: bytes, new: bytes) -> bytes:
    """16 bytes of global memory, combined with 16 of shared memory."""
    k = Kernel()

    def body() -> None:
        for n in range(4):
            k.do("st.b32", k.b, k.c(int.from_bytes(old[4 * n : 4 * n + 4], "little")), immediate=4 * n)
        fill(k, [int.from_bytes(new[4 * n : 4 * n + 4], "little") for n in range(4)])
        k.reduce(what, type_, k.b, DATA, 16)
        commit(k)
        wait(k)

    k.only(0, body)
    ran = launch(k, 32, engine)
    assert ran.is_clean()
    return b"".join(word.to_bytes(4, "little") for word in ran.result(threads=4))


def _integers(engine: str, what: str, type_: str, pairs: list[tuple[int, int]]) -> list[int]:
    code = {"u32": "I", "s32": "i", "b32": "I", "u64": "Q", "s64": "q", "b64": "Q"}[type_]
    count = 16 // struct.calcsize(code)
    pairs = (pairs * 4)[:count]
    old, new = (struct.pack(f"<{count}{code}", *(pair[n] for pair in pairs)) for n in (0, 1))
    return [*struct.unpack(f"<{count}{code}", reduced(engine, what, type_, old, new))]


@pytest.mark.parametrize(
    ("what", "type_", "pairs", "expected"),
    [
        ("add", "u32", [(1, 2), (2**32 - 1, 2), (0, 0), (7, 8)], [3, 1, 0, 15]),
        ("add", "u64", [(2**64 - 1, 2), (1, 2)], [1, 3]),
        ("min", "s32", [(-1, 2), (5, -7), (3, 3), (0, 1)], [-1, -7, 3, 0]),
        ("max", "u32", [(1, 2**31), (5, 4), (3, 3), (0, 1)], [2**31, 5, 3, 1]),
        ("max", "s64", [(-5, -7), (-(2**63), 1)], [-5, 1]),
        ("and", "b32", [(12, 10)], [8] * 4),
        ("or", "b64", [(12, 10)], [14] * 2),
        ("xor", "b32", [(12, 10)], [6] * 4),
        ("inc", "u32", [(3, 5), (5, 5), (6, 5), (0, 0)], [4, 0, 0, 0]),
        ("dec", "u32", [(3, 5), (0, 5), (6, 5), (1, 0)], [2, 5, 5, 0]),
    ],
)
def test_t10_reductions_of_integers(
    engine: str, what: str, type_: str, pairs: list[tuple[int, int]], expected: list[int]
) -> None:
    assert _integers(engine, what, type_, pairs) == expected


@pytest.mark.parametrize(
    ("what", "type_", "pairs", "expected"),
    [
        ("add", "f16", [(0x3C00, 0x3C00), (0x7BFF, 0x7BFF), (1, 1), (0x7E01, 0)], [0x4000, 0x7C00, 2, 0x7FFF]),
        ("add", "f16", [(0x3C00, 0x1000), (0x3C01, 0x1000), (0x8000, 0x8000)], [0x3C00, 0x3C02, 0x8000]),
        ("add", "bf16", [(0x3F80, 0x3F80), (0x7F7F, 0x7F7F), (1, 1), (0x7FC1, 0)], [0x4000, 0x7F80, 2, 0x7FFF]),
        ("add", "bf16", [(0x3F80, 0x3B80), (0x3F81, 0x3B80), (0x3F80, 0xBF80)], [0x3F80, 0x3F82, 0]),
        ("min", "f16", [(0x3C00, 0x7E00), (0x7E00, 0x3C00), (0x7E00, 0x7E01), (0, 0x8000)],
         [0x3C00, 0x3C00, 0x7FFF, 0x8000]),
        ("max", "bf16", [(0x3F80, 0x7FC0), (0xBF80, 0x3F80), (0x7FC0, 0x7FC1), (0x8000, 0)],
         [0x3F80, 0x3F80, 0x7FFF, 0]),
    ],
)  # fmt: skip
def test_t10_reductions_of_halves(
    engine: str, what: str, type_: str, pairs: list[tuple[int, int]], expected: list[int]
) -> None:
    old, new = (struct.pack("<8H", *[pair[n] for pair in pairs], *[0] * (8 - len(pairs))) for n in (0, 1))
    got = struct.unpack("<8H", reduced(engine, what, type_, old, new))
    assert [*got[: len(pairs)]] == expected


def test_t10_sums_of_floats_round_to_nearest_and_keep_subnormals(engine: str) -> None:
    old, new = (
        struct.pack("<4I", 1, 0x7F800000, 0x3F800000, 0x3F800001),
        struct.pack("<4I", 2, 0xFF800000, 0x33800000, 0x33800000),
    )
    got = struct.unpack("<4I", reduced(engine, "add", "f32", old, new))
    assert got == (3, 0x7FFFFFFF, 0x3F800000, 0x3F800002)
    got_f64 = struct.unpack(
        "<2d", reduced(engine, "add", "f64", struct.pack("<2d", 0.1, 1.0), struct.pack("<2d", 0.2, math.inf))
    )
    assert got_f64 == (0.1 + 0.2, math.inf)


def test_t10_sums_of_bf16_are_rounded_once(engine: str) -> None:
    rng = np.random.default_rng(7)
    values = rng.integers(0, 1 << 16, (2, 8), dtype=np.uint16) & 0xBFFF
    wide = [(row.astype(np.uint32) << 16).view(np.float32).astype(np.float64) for row in values]
    exact = wide[0] + wide[1]  # doubles have room for these
    bits = exact.astype(np.float32).view(np.uint32).astype(np.uint64)
    expected = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    got = np.frombuffer(reduced(engine, "add", "bf16", values[0].tobytes(), values[1].tobytes()), np.uint16)
    assert got.tolist() == expected.tolist()


def test_t10_reductions_of_ctas_are_atomic_with_each_other(k: Kernel, engine: str) -> None:
    k.only(0, lambda: (fill(k, [1, 2, 3, 4]), k.reduce("add", "u32", k.b, DATA, 16), commit(k), wait(k)))
    ran = launch(k, 32, engine, grid=3)
    assert ran.is_clean()
    assert ran.result(threads=4) == [3, 6, 9, 12]


@pytest.mark.parametrize("kind", ["atomic", "plain"])
def test_t10_reductions_are_not_atomic_with_what_threads_do(k: Kernel, engine: str, kind: str) -> None:
    k.only(0, lambda: (fill(k, [1, 2, 3, 4]), k.reduce("add", "u32", k.b, DATA, 16), commit(k), wait(k)))
    if kind == "atomic":
        k.only(32, lambda: k.emit("atom.add.b32", k.b, k.c(1)))
    else:
        k.only(32, lambda: k.do("st.b32", k.b, k.c(1)))
    ran = launch(k, 64, engine)
    assert ran.codes == ["race"]
    assert ran.finding("race").detail["other_kind"] == 2


def test_a_reduction_of_another_type_is_another_atomic(k: Kernel, engine: str) -> None:
    def body() -> None:
        fill(k, [1, 2, 3, 4])
        k.reduce("add", "u32", k.b, DATA, 16, tag="narrow")
        k.reduce("add", "u64", k.b, DATA, 16, tag="wide")
        commit(k)
        wait(k)

    k.only(0, body)
    ran = launch(k, 32, engine)
    assert ran.codes == ["race"]
    assert (ran.finding("race").pc, ran.finding("race").other_pc) == (ran.pc["wide"], ran.pc["narrow"])
