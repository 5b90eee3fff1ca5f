"""The instructions of `wsemu.ptx` on tensor memory, in Python on both engines: the words of loads and stores, products
of each kind, descriptors, and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import wsemu
from tests.unit.test_matrix_names import compiled
from wsemu import cuda, ptx
from wsemu.language import tensor_names as names
from wsemu.model.errors import KernelError, UsageError
from wsemu.patterns import Pipeline

if TYPE_CHECKING:
    from wsemu.model.settings import Engine

ENGINES = pytest.mark.parametrize("engine", ["vm", "reference"])
FRAME = """
def k(given, found):
    words = cuda.shared.array(1, np.uint32)
    thread = cuda.threadIdx.x
    if thread < 32:
        ptx.tcgen05_alloc(words, 0, 128)
        ptx.tcgen05_relinquish_alloc_permit()
    cuda.syncthreads()
    at = words[0] + (thread // 32 << 21)
BODY
    cuda.syncthreads()
    if thread < 32:
        ptx.tcgen05_dealloc(words[0], 128)
"""


def run(body: str, given: Any, found: Any, engine: Engine = "vm") -> wsemu.Report:
    """Check a kernel with 128 threads and 128 columns of tensor memory at `at`, the lanes of the thread's warp."""
    indented = "\n".join(f"    {line}" for line in body.splitlines())
    return wsemu.check(
        compiled(FRAME.replace("BODY", indented), str(hash(body))), 1, 128, (given, found), engine=engine
    )


@ENGINES
@pytest.mark.parametrize("repeat", names.MOVES)
def test_what_is_stored_is_loaded(repeat: str, engine: Engine) -> None:
    count = names.MOVES[repeat]
    given = np.random.default_rng(count).integers(0, 1 << 32, (128, count), np.uint32)
    found = np.zeros_like(given)
    values = "".join(f"given[thread, {n}], " for n in range(count))
    body = f"ptx.tcgen05_st_32x32b_{repeat}(at, ({values}))\nptx.tcgen05_wait_st()\n"
    body += f"row = ptx.tcgen05_ld_32x32b_{repeat}(at)\nptx.tcgen05_wait_ld()\n"
    body += "\n".join(f"found[thread, {n}] = row[{n}]" for n in range(count))
    assert run(body, given, found, engine).verdict == "verified"
    assert (found == given).all()


@ENGINES
def test_a_descriptor_has_the_bits_of_ptx(engine: Engine) -> None:
    body = """
tile = cuda.shared.array(4096, np.uint8, 1024)
tile[thread] = 1
n = given[0]
found[0], found[1] = ptx.matrix_descriptor(tile, 0, 16, 1024), ptx.matrix_descriptor(tile, n, n, 2 * n, 32)
found[2], found[3] = ptx.matrix_descriptor(tile, 512, 32, 16, 64), ptx.matrix_descriptor(tile, n, 0, 0, 128)
"""
    found = np.zeros(4, np.uint64)
    report = run(body, np.array([256]), found, engine)
    assert {finding.code for finding in report.findings} <= {"same-value-store", "bank-conflict"}
    start = int(found[0]) & 0x3FFF
    assert start % 64 == 0
    bits = [(0, 1, 64, 0), (16, 16, 32, 6), (32, 2, 1, 4), (16, 0, 0, 2)]
    assert [int(x) for x in found] == [
        start + at | leading << 16 | stride << 32 | 1 << 46 | swizzle << 61 for at, leading, stride, swizzle in bits
    ]


def of_kind(kind: str, tmem: bool) -> str:
    """A product of 128 x 16 x 32 bytes whose operands have the layout of 8 x 16 bytes."""
    a = "ptx.tcgen05_st_32x32b_x8(at + 64, (" + "".join(f"given[0, thread, {n}], " for n in range(8)) + "))\n"
    a += "ptx.tcgen05_wait_st()\n"
    stored = "for n in range(8):\n    a[n // 4, thread, n % 4] = given[0, thread, n]\n"
    of_a = "words[0] + 64" if tmem else "ptx.matrix_descriptor(a, 0, 2048, 128)"
    of_b = "ptx.matrix_descriptor(b, 0, 256, 128)"
    d_format = {"i8": 2}.get(kind, 1)
    a_format = {"f16": 0, "tf32": 2, "f8f6f4": 0, "i8": 1}[kind]
    idesc = d_format << 4 | a_format << 7 | a_format << 10 | 16 // 8 << 17 | 128 // 16 << 24
    return f"""
a = cuda.shared.array((2, 128, 4), np.uint32, 128)
b = cuda.shared.array((2, 16, 4), np.uint32, 128)
bars = cuda.shared.array(1, np.uint64)
if thread == 0:
    ptx.mbarrier_init(bars, 0, 1)
    ptx.fence_mbarrier_init()
{a if tmem else stored}
if thread < 16:
    for n in range(8):
        b[n // 4, thread, n % 4] = given[1, thread, n]
ptx.fence_proxy_async_shared_cta()
cuda.syncthreads()
if thread == 0:
    for again in range(2):
        ptx.tcgen05_mma_{kind}{"_tmem" * tmem}(words[0], {of_a}, {of_b}, {idesc}, again > 0)
    ptx.tcgen05_commit(bars, 0)
ptx.mbarrier_wait_parity(bars, 0, 0)
row = ptx.tcgen05_ld_32x32b_x16(at)
ptx.tcgen05_wait_ld()
for n in range(16):
    found[thread, n] = row[n]
"""


def numbers(kind: str, g: Any) -> tuple[Any, Any]:
    """Small numbers of a kind, and their words."""
    count = {"f16": 16, "tf32": 8, "f8f6f4": 32, "i8": 32}[kind]
    values = g.integers(-3, 4, (2, 128, count))
    if kind == "f8f6f4":
        code = {0: 0, 1: 0x38, 2: 0x40, 3: 0x44}  # e4m3
        packed = np.vectorize(lambda x: code[abs(x)] | 0x80 * (x < 0))(values).astype(np.uint8)
    else:
        packed = values.astype({"f16": np.float16, "tf32": np.float32, "i8": np.int8}[kind])
    return values, packed.view(np.uint32)


@ENGINES
@pytest.mark.parametrize("tmem", [False, True])
@pytest.mark.parametrize("kind", names.KINDS)
def test_a_product_of_each_kind_is_right(kind: str, tmem: bool, engine: Engine) -> None:
    values, words = numbers(kind, np.random.default_rng(7))
    found = np.zeros((128, 16), np.uint32)
    report = run(of_kind(kind, tmem), words, found, engine)
    assert report.verdict == "verified", report.findings
    sums = found.view(np.int32 if kind == "i8" else np.float32)
    assert (sums == 2 * (values[0] @ values[1, :16].T)).all()


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ("ptx.tcgen05_alloc(given, 0, 32)", "needs `given` in shared memory"),
        ("ptx.tcgen05_alloc(cuda.shared.array(1, np.float32), 0, 32)", "on array"),
        ("ptx.tcgen05_alloc(words, 0, 48)", "give 32, 64, 128, 256 or 512"),
        ("ptx.tcgen05_dealloc(1.5, 32)", "needs an integer"),
        ("ptx.tcgen05_st_32x32b_x2(at, (1, 2, 3))", "give a tuple of 2 uint32"),
        ("ptx.tcgen05_st_32x32b_x1(at, (1.5,))", "give uint32"),
        ("ptx.matrix_descriptor(words, 8, 16, 16)", "the offset of `ptx.matrix_descriptor` is 8"),
        ("ptx.matrix_descriptor(words, 0, 16, 1 << 18)", "the stride of `ptx.matrix_descriptor` is 262144"),
        ("ptx.matrix_descriptor(words, 0, 16, 16, 96)", "give 0, 32, 64 or 128"),
        ("ptx.matrix_descriptor(given, 0, 16, 16)", "needs `given` in shared memory"),
        ("ptx.tcgen05_commit(words, 0)", "cuda.shared.array(n, np.uint64)"),
    ],
)
def test_a_wrong_operand_is_refused(call: str, told: str) -> None:
    with pytest.raises(KernelError) as caught:
        run(call, np.zeros(1, np.uint32), np.zeros(1, np.uint32))
    assert told in str(caught.value)


def test_columns_that_are_no_power_of_two_are_an_error() -> None:
    """Known ones are refused; others are an error of the launch."""
    text = FRAME.replace("BODY", "    pass")
    with pytest.raises(wsemu.KernelError, match=r"the number of columns of `ptx.tcgen05_alloc` is 96 .*256 or 512"):
        wsemu.check(compiled(text.replace("128", "96"), "known"), 1, 128, (np.zeros(1), np.zeros(1)))
    text = text.replace("128", "given.shape[0]")
    report = wsemu.check(compiled(text, "columns"), 1, 128, (np.zeros(96), np.zeros(1)))
    assert [finding.code for finding in report.findings if finding.severity == "error"] == ["tmem-columns"]


# -- pipelines ---------------------------------------------------------------------------------------------------------
STAGES, ROWS, COLUMNS, STEPS = 2, 128, 16, 5
KIND = 1 << 4 | COLUMNS // 8 << 17 | ROWS // 16 << 24
RINGS = {engine: Pipeline(STAGES, ROWS, 1, engine=engine, consumer="tcgen05") for engine in ("warps", "cp.async")}
SUMS = Pipeline(1, 1, ROWS, engine="tcgen05")


def ring_kernel(engine: str) -> Any:
    """A product of (128, 16 STEPS) and (16, 16 STEPS) halves: 128 threads fill the slices, one multiplies."""
    ring = RINGS[engine]
    copied = engine == "cp.async"

    @cuda.jit
    def slices(a, b, c):
        x = cuda.shared.array((STAGES, 2, ROWS, 8), np.float16, 128)
        y = cuda.shared.array((STAGES, 2, COLUMNS, 8), np.float16, 128)
        bars, done = cuda.shared.array(ring.barriers, np.uint64), cuda.shared.array(SUMS.barriers, np.uint64)
        words = cuda.shared.array(1, np.uint32)
        thread = cuda.threadIdx.x
        if thread < 32:
            ptx.tcgen05_alloc(words, 0, 32)
        ring.start(bars)
        SUMS.start(done)
        if thread < ROWS:
            for i in range(STEPS):
                ring.producer_acquire(bars, i)
                for half in range(2):
                    at = 16 * i + 8 * half
                    if copied:
                        ptx.cp_async_cg(x, (ring.stage(i), half, thread, 0), a, (thread, at), 16)
                        if thread < COLUMNS:
                            ptx.cp_async_cg(y, (ring.stage(i), half, thread, 0), b, (thread, at), 16)
                    else:
                        for n in range(8):
                            x[ring.stage(i), half, thread, n] = a[thread, at + n]
                            if thread < COLUMNS:
                                y[ring.stage(i), half, thread, n] = b[thread, at + n]
                ring.producer_commit(bars, i)
            SUMS.consumer_wait(done, 0)
            row = ptx.tcgen05_ld_32x32b_x16(words[0] + (thread // 32 << 21))
            ptx.tcgen05_wait_ld()
            for n in range(COLUMNS):
                c[thread, n] = row[n].view(np.float32)
        elif thread == ROWS:
            for i in range(STEPS):
                ring.consumer_wait(bars, i)
                of_a = ptx.matrix_descriptor(x, ring.stage(i) * 32 * ROWS, 16 * ROWS, 128)
                of_b = ptx.matrix_descriptor(y, ring.stage(i) * 32 * COLUMNS, 16 * COLUMNS, 128)
                ptx.tcgen05_mma_f16(words[0], of_a, of_b, KIND, i > 0)
                ring.consumer_release(bars, i)
            SUMS.producer_commit(done, 0)
        cuda.syncthreads()
        if thread < 32:
            ptx.tcgen05_dealloc(words[0], 32)

    return slices


@ENGINES
@pytest.mark.parametrize("filled", RINGS)
def test_products_read_what_threads_fill(filled: str, engine: Engine) -> None:
    g = np.random.default_rng(1)
    a, b = (g.integers(-3, 4, (rows, 16 * STEPS)).astype(np.float16) for rows in (ROWS, COLUMNS))
    c = np.zeros((ROWS, COLUMNS), np.float32)
    report = wsemu.check(ring_kernel(filled), 1, 160, (a, b, c), engine=engine)
    assert report.verdict == "verified", report.findings
    assert (c == a.astype(np.float32) @ b.astype(np.float32).T).all()


def test_a_pipeline_of_products_alone_is_refused() -> None:
    with pytest.raises(UsageError, match="engine and consumer are both tcgen05"):
        Pipeline(2, 1, 1, engine="tcgen05", consumer="tcgen05")
    with pytest.raises(UsageError, match="consumer is 'wgmma'"):
        Pipeline(2, 1, 1, consumer="wgmma")


# -- limits ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["tcgen05_cp", "tcgen05_mma_mxf4", "tcgen05_ld_16x64b_x2", "tcgen05_commit_pair"])
def test_other_instructions_have_no_name(name: str) -> None:
    with pytest.raises(AttributeError):
        getattr(ptx, name)


def test_the_end_of_a_matrix_is_not_compared_with_its_array() -> None:
    values, words = numbers("f16", np.random.default_rng(7))
    found = np.zeros((128, 16), np.uint32)
    body = of_kind("f16", False).replace("ptx.matrix_descriptor(b, 0,", "ptx.matrix_descriptor(a, 4096,")
    assert run(body, words, found).verdict == "verified"
    assert (found.view(np.float32) == 2 * (values[0] @ values[1, :16].T)).all()
