"""`tcgen05`: values and findings are the same on both engines, for each kind, shape and layout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import wsemu
from tests.unit.pair_programs import PAIR
from tests.unit.tensor_programs import ISSUE, descriptor, dump, fill, instruction, program, with_descriptors
from wsemu.launch import same_values

if TYPE_CHECKING:
    from wsemu.launch.result import Report
    from wsemu.model.settings import Engine

A, B = descriptor(0, 128, 256), descriptor(4096, 128, 256)
"""128 rows of 32 bytes, without a swizzle"""


def results(text: str, source: Any, words: Any, count: int) -> Any:
    """Return what a program leaves, the same on both engines, which verify it."""
    found = []
    for engine in ("vm", "reference"):
        result = np.zeros((128, count), np.uint32)
        arguments = source.copy(), words.copy(), result
        report = wsemu.check(wsemu.load_ptx(text)["k"], 1, 128, arguments, engine=engine)
        assert report.verdict == "verified", report.reasons or [finding.message for finding in report.findings]
        found.append(result)
    assert (found[0] == found[1]).all()
    return found[0]


def random_bytes(kind: str, count: int) -> Any:
    generator = np.random.default_rng(7)
    if kind in ("f16", "tf32"):
        type_ = np.float16 if kind == "f16" else np.float32
        return (4 * generator.standard_normal(count // np.dtype(type_).itemsize)).astype(type_).view(np.uint8)
    return generator.integers(0, 256, count, dtype=np.uint8)


def multiply(kind: str, a: str = "%rd6", uses: str = "%p5", mask: str = "") -> str:
    return f"tcgen05.mma.cta_group::1.kind::{kind} [%r11], {a}, %rd7, %r15, {mask}{uses};"


NOTHING = np.zeros((128, 8), np.uint32)


def test_a_product_of_halves_is_that_of_numpy():
    matrix = random_bytes("f16", 8192)
    body = ISSUE.format(issued=multiply("f16"))
    found = results(program(with_descriptors(A, B, instruction(128, 16)), body, dump(16)), matrix, NOTHING, 16)

    def rows(start: int, count: int) -> Any:
        core = matrix.view(np.float16)[start // 2 :][: count * 16].reshape(count // 8, 2, 8, 8)
        return core.transpose(0, 2, 1, 3).reshape(count, 16).astype(np.float64)

    expected = rows(0, 128) @ rows(4096, 16).T
    assert np.allclose(found.view(np.float32), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("used", "reasons"), [(False, []), (True, ["addresses"])])
def test_an_address_in_local_memory_is_no_operand_of_a_product(used: bool, reasons: list[str]):
    """As `printf` has the pointers that it prints.  The twin adds a bit of the address to a column."""
    text = program(with_descriptors(A, B, instruction(128, 16)), ISSUE.format(issued=multiply("f16")), dump(16))
    keep = "  .local .align 8 .b8 kept[8];\n  st.local.u64 [kept], %rd3;\n"
    use = "  ld.local.b32 %r13, [kept];\n  shr.b32 %r13, %r13, 31;\n  add.u32 %r11, %r11, %r13;\n"
    text = text.replace("  mov.u32 %r2, slot;", keep + "  mov.u32 %r2, slot;")
    text = text.replace("  ld.shared.b32 %r11, [%r2];\n", "  ld.shared.b32 %r11, [%r2];\n" + use * used)
    arguments = random_bytes("f16", 8192), NOTHING, np.zeros((128, 16), np.uint32)
    report = wsemu.check(wsemu.load_ptx(text)["k"], 1, 128, arguments)
    assert report.verdict == ("incomplete" if used else "verified"), report.findings
    assert report.reasons == reasons


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_a_column_that_is_computed_from_a_shared_address_is_not_decided(engine: Engine):
    """Only descriptors are computed from addresses of shared memory, which begins elsewhere on a GPU."""
    text = program(with_descriptors(A, B, instruction(128, 16)), ISSUE.format(issued=multiply("f16")), dump(16))
    use = "  mov.u32 %r13, slot;\n  shr.b32 %r13, %r13, 31;\n  add.u32 %r11, %r11, %r13;\n"
    text = text.replace("  ld.shared.b32 %r11, [%r2];\n", "  ld.shared.b32 %r11, [%r2];\n" + use)
    arguments = random_bytes("f16", 8192), NOTHING, np.zeros((128, 16), np.uint32)
    report = wsemu.check(wsemu.load_ptx(text)["k"], 1, 128, arguments, engine=engine)
    assert (report.verdict, report.reasons) == ("incomplete", ["addresses"])


@pytest.mark.parametrize(
    ("kind", "types"),
    [
        ("f16", (0, 0, 1)), ("f16", (0, 0, 0)), ("f16", (1, 1, 1)), ("tf32", (2, 2, 1)), ("i8", (0, 1, 2)),
        ("f8f6f4", (0, 1, 1)), ("f8f6f4", (3, 4, 1)), ("f8f6f4", (5, 5, 0)),
    ],
)  # fmt: skip
def test_products_of_each_kind_agree(kind: str, types: tuple[int, int, int]):
    a, b, d = types
    twice = multiply(kind) + "\n  " + multiply(kind, uses="%p6")
    text = program(
        with_descriptors(A, B, instruction(128, 8, d=d, a=a, b=b)), ISSUE.format(issued=twice), dump(8)
    )  # fmt: skip
    assert results(text, random_bytes(kind, 8192), NOTHING, 8).any()


@pytest.mark.parametrize("sums", [0.0, -0.0, 3.0, 2.0**-20, 2.0**22 - 600, 2.0**24 - 3, np.inf, np.nan])
@pytest.mark.parametrize(("kind", "type_"), [("f16", np.float16), ("tf32", np.float32)])
def test_products_of_small_integers_agree(kind: str, type_: type, sums: float):
    """They are added without rounding, if accumulators allow it."""
    matrix: Any = np.random.default_rng(3).integers(-4, 5, 8192 // np.dtype(type_).itemsize).astype(type_)
    matrix[: len(matrix) // 8] = 0
    words = np.full((128, 8), sums, np.float32)
    words[::2] *= -1
    of_type = 2 if kind == "tf32" else 0
    text = program(
        with_descriptors(A, B, instruction(128, 8, a=of_type, b=of_type)), fill(8, 0),
        ISSUE.format(issued=multiply(kind, uses="%p6")), dump(8),
    )  # fmt: skip
    found = results(text, matrix.view(np.uint8), words.view(np.uint32), 8)
    assert len({*found.ravel().tolist()}) > 5 or not np.isfinite(sums)


@pytest.mark.parametrize("swizzle", [0, 2, 4, 6])
@pytest.mark.parametrize("turned", [False, True])
def test_swizzles_agree(swizzle: int, turned: bool):
    width = {0: 32, 2: 128, 4: 64, 6: 32}[swizzle]
    if turned:
        a, b = descriptor(0, 1024, 2048, swizzle), descriptor(16384, 1024, 512 if swizzle == 0 else 2048, swizzle)
    else:
        a, b = descriptor(0, 128, 8 * width, swizzle), descriptor(16384, 128, 8 * width, swizzle)
    i = instruction(128, 16, more=3 << 15 if turned else 0)
    text = program(with_descriptors(a, b, i), ISSUE.format(issued=multiply("f16")), dump(16), shared=32768)
    assert results(text, random_bytes("f16", 32768), NOTHING, 16).any()


def test_64_rows_lie_in_16_of_each_32_lanes():
    body = ISSUE.format(issued=multiply("f16"))
    text = program(with_descriptors(A, B, instruction(64, 8)), body, dump(4, shape="16x256b", repeat=1))
    assert results(text, random_bytes("f16", 8192), NOTHING, 4).all()


@pytest.mark.parametrize(("kind", "a"), [("f16", 0), ("f8f6f4", 5), ("f8f6f4", 3), ("i8", 1)])
def test_an_operand_in_tensor_memory_agrees(kind: str, a: int):
    i = instruction(128, 8, a=a, b=0, d=2 if kind == "i8" else 1)
    body = ISSUE.format(issued="add.u32 %r17, %r11, 16; " + multiply(kind, a="[%r17]"))
    words = random_bytes(kind, 4096).view(np.uint32).reshape(128, 8)
    text = program(with_descriptors(A, B, i), fill(8, 16), body, dump(8))
    assert results(text, random_bytes(kind, 8192), words, 8).any()


def test_lanes_that_a_mask_names_are_not_written():
    issued = "mov.b32 %r20, -1; mov.b32 %r21, 0; " + multiply("f16", mask="{%r20, %r21, %r21, %r21}, ")
    words = np.full((128, 8), 17, np.uint32)
    text = program(
        with_descriptors(A, B, instruction(128, 8)), fill(8, 0), ISSUE.format(issued=issued), dump(8)
    )  # fmt: skip
    found = results(text, random_bytes("f16", 8192), words, 8)
    assert (found[:32] == 17).all()
    assert (found[32:] != 17).all()


@pytest.mark.parametrize(
    ("shape", "repeat", "count"),
    [("32x32b", 4, 4), ("16x64b", 4, 4), ("16x128b", 2, 4), ("16x256b", 2, 8), ("16x32bx2", 4, 4)],
)
@pytest.mark.parametrize("packed", ["", ".pack::16b"])
def test_loads_of_each_shape_agree(shape: str, repeat: int, count: int, packed: str):
    words = random_bytes("", 128 * 128).view(np.uint32).reshape(128, 32)
    distance = ", 8" if shape == "16x32bx2" else ""
    text = program(fill(32, 0), dump(count, shape=shape, repeat=repeat, packed=packed, distance=distance))
    assert results(text, random_bytes("", 8192), words, count).any()


@pytest.mark.parametrize(
    "shape",
    ["128x256b", "128x128b", "32x128b.warpx4", "64x128b.warpx2::02_13", "64x128b.warpx2::01_23",
     "128x256b.b8x16.b6x16_p32", "128x256b.b8x16.b4x16_p64", "warpx4.32x128b", "warpx2::01_23.64x128b"],
)  # fmt: skip
def test_copies_of_each_shape_agree(shape: str):
    columns = 8 if "256b" in shape else 4
    source = descriptor(0, 128, 256 if columns == 8 else 128)
    body = ISSUE.format(issued=f"tcgen05.cp.cta_group::1.{shape} [%r11], %rd6;")
    text = program(with_descriptors(source, B, 0), body, dump(columns))
    assert results(text, random_bytes("", 8192), NOTHING, columns).any()


@pytest.mark.parametrize(
    ("kind", "types", "more"),
    [("mxf8f6f4", 0, 1 << 23), ("mxf8f6f4", 5, 1 << 23 | 2 << 29 | 1 << 4), ("mxf4", 1, 1 << 23),
     ("mxf4nvf4.block_scale.block16", 1, 0), ("mxf4nvf4.block_scale.block32", 1, 1 << 23)],
)  # fmt: skip
def test_products_with_scale_factors_agree(kind: str, types: int, more: int):
    full = kind if "block" in kind else f"{kind}.block_scale"
    issued = "add.u32 %r17, %r11, 16; add.u32 %r18, %r11, 20; "
    issued += f"tcgen05.mma.cta_group::1.kind::{full} [%r11], %rd6, %rd7, %r15, [%r17], [%r18], %p5;"
    i = types << 7 | types << 10 | 1 << 17 | 8 << 24 | more
    quarter = np.random.default_rng(3).integers(*((120, 136) if more else (30, 80)), (32, 32)).astype(np.uint8)
    factors = np.tile(quarter, (4, 1))
    text = program(with_descriptors(A, B, i), fill(8, 16), ISSUE.format(issued=issued), dump(8))
    assert results(text, random_bytes("", 8192), factors.copy().view(np.uint32), 8).any()


FACTORS_OF_4_BITS = "tcgen05.mma.cta_group::1.kind::{} [%r11], %rd6, %rd7, %r15, [%r17], [%r18], %p5;"


def find_codes(text: str, engine: Engine, *, grid: int = 1, shared: int = 8192) -> set[str]:
    """Return the errors of a program."""
    arguments = random_bytes("", shared), np.zeros((128, 32), np.uint32), np.zeros((128, 8), np.uint32)
    report = wsemu.check(wsemu.load_ptx(text)["k"], grid, 128, arguments, engine=engine)
    return {finding.code for finding in report.findings if finding.severity == "error"}


def scaled(form: str, more: int, fills: str) -> str:
    """Return a program of a product of 4-bit elements with factors at columns 16 and 20."""
    issued = "add.u32 %r17, %r11, 16; add.u32 %r18, %r11, 20; " + FACTORS_OF_4_BITS.format(form)
    i = 1 << 7 | 1 << 10 | 1 << 17 | 8 << 24 | more
    return program(fills, with_descriptors(A, B, i), ISSUE.format(issued=issued), dump(8))


@pytest.mark.parametrize("engine", ["vm", "reference"])
@pytest.mark.parametrize(
    ("form", "more", "good"),
    [("mxf4.block_scale", 1 << 23 | 2 << 29 | 2 << 4, True), ("mxf4.block_scale", 1 << 23 | 1 << 29, False),
     ("mxf4.block_scale", 1 << 23 | 3 << 4, False), ("mxf4nvf4.block_scale.block16", 2 << 29, False),
     ("mxf4nvf4.block_scale.block16", 1 << 4, False), ("mxf4nvf4.block_scale.block32", 1 << 23 | 1 << 4, False)],
)  # fmt: skip
def test_factors_begin_at_a_byte_that_has_room_for_all(form: str, more: int, good: bool, engine: Engine):
    assert ("tcgen05-descriptor" not in find_codes(scaled(form, more, fill(8, 16)), engine)) == good


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_each_quarter_of_lanes_has_a_copy_of_the_factors(engine: Engine):
    one = "  @!%p1 bra FILLED;\n" + fill(8, 16).replace("bar.sync 0;", "") + "FILLED:\n  bar.sync 0;\n"
    assert find_codes(scaled("mxf4.block_scale", 1 << 23, one), engine) == {"tmem-uninitialized"}


@pytest.mark.parametrize("engine", ["vm", "reference"])
@pytest.mark.parametrize(("lane", "codes"), [(0, set()), (31, set()), (32, {"tmem-misaligned-lane"}),
                                             (127, {"tmem-misaligned-lane"})])  # fmt: skip
def test_rows_of_a_copy_stay_within_the_lanes(lane: int, codes: set[str], engine: Engine):
    issued = f"add.u32 %r13, %r11, {lane << 16 | 24}; tcgen05.cp.cta_group::1.4x256b [%r13], %rd6;"
    text = program(fill(32, 0), with_descriptors(A, B, 0), ISSUE.format(issued=issued), dump(8))
    assert find_codes(text, engine) == codes


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_products_of_other_layouts_are_no_pipelined_pair(engine: Engine):
    first = multiply("f16")
    second = first.replace("mma.", "mma.ws.")
    text = program(
        with_descriptors(A, B, instruction(64, 64)), ISSUE.format(issued=first + second), dump(8), columns=64
    )  # fmt: skip
    assert find_codes(text, engine) == {"tmem-race"}


@pytest.mark.parametrize(("rows", "columns"), [(32, 16), (64, 32), (128, 64)])
def test_products_of_weights_agree(rows: int, columns: int):
    issued = "tcgen05.mma.ws.cta_group::1.kind::f16 [%r11], %rd6, %rd7, %r15, %p5;"
    text = program(
        with_descriptors(A, B, instruction(rows, 64)), ISSUE.format(issued=issued), dump(columns), columns=64
    )  # fmt: skip
    assert results(text, random_bytes("f16", 8192), NOTHING, columns).any()


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_a_zero_column_mask_of_zero_selects_no_column(engine: Engine):
    plain = "tcgen05.mma.ws.cta_group::1.kind::f16 [%r11], %rd6, %rd7, %r15, %p5;"
    found = []
    for issued in (plain, plain.replace("%p5;", "%p5, 0;")):
        text = program(with_descriptors(A, B, instruction(64, 64)), ISSUE.format(issued=issued), dump(32), columns=64)
        arguments = random_bytes("f16", 8192), NOTHING.copy(), np.zeros((128, 32), np.uint32)
        report = wsemu.check(wsemu.load_ptx(text)["k"], 1, 128, arguments, engine=engine)
        assert report.verdict == "verified", str(report)
        found.append(arguments[2])
    assert found[0].any()
    assert (found[0] == found[1]).all()


COMMIT = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r4];"
RUN = program(with_descriptors(A, B, instruction(128, 8)), ISSUE.format(issued=multiply("f16")), dump(8))
MMA = multiply("f16")


@pytest.mark.parametrize(
    ("old", "new", "codes"),
    [
        (COMMIT, "mbarrier.arrive.shared::cta.b64 _, [%r4];", {"tmem-race"}),
        (MMA + "\n  " + COMMIT, COMMIT + "\n  " + MMA, {"tmem-race"}),
        (MMA, MMA + "\n  setp.eq.u32 %p5, %r1, %r1;\n  " + MMA, set()),
        (MMA, MMA + "\n  mov.b32 %r15, 0x4020010;\n  " + MMA, {"tmem-race"}),
        ("  tcgen05.wait::ld.sync.aligned;\n", "", set()),  # all registers are used: a warning
        ("  tcgen05.wait::ld.sync.aligned;\n", "  bar.sync 0;\n", set()),  # and so behind a first barrier
        ("  tcgen05.wait::ld.sync.aligned;\n", "  mov.b32 %v7, 0;\n", {"tmem-read-unfinished"}),
        ("  bar.sync 0;\n  @!%p1 bra END;", "  @!%p1 bra END;", {"tmem-race"}),
        ("  fence.proxy.async.shared::cta;\n", "", {"proxy"}),
        ("[%r14];", "[%r14+504];", {"tmem-unallocated"}),
        ("setp.ne.u32 %p5, %r1, %r1;", "setp.eq.u32 %p5, %r1, %r1;", {"tmem-uninitialized"}),
        (COMMIT, COMMIT + "\n  st.shared.b32 [%r3], %r15;", {"race"}),
    ],
)
def test_an_edit_is_found_by_both_engines(old: str, new: str, codes: set[str]):
    assert old in RUN
    for engine in ("vm", "reference"):
        arguments = random_bytes("f16", 8192), NOTHING.copy(), np.zeros((128, 8), np.uint32)
        report = wsemu.check(wsemu.load_ptx(RUN.replace(old, new, 1))["k"], 1, 128, arguments, engine=engine)
        assert {finding.code for finding in report.findings if finding.severity == "error"} == codes, engine


@pytest.mark.parametrize(
    "instruction",
    ["tcgen05.shift.cta_group::1.down [%r11];",
     "tcgen05.mma.cta_group::1.kind::f16 [%r11], %rd6, %rd7, %r15, %p5, 3;",
     "tcgen05.mma.ws.cta_group::1.kind::f16 [%r11], %rd6, %rd7, %r15, %p5, %rd8;"],
)  # fmt: skip
def test_what_is_not_modelled_is_never_verified(instruction: str):
    arguments = random_bytes("f16", 8192), NOTHING.copy(), np.zeros((128, 8), np.uint32)
    report = wsemu.check(wsemu.load_ptx(RUN.replace(MMA, instruction))["k"], 1, 128, arguments)
    assert report.verdict == "incomplete"


@pytest.mark.parametrize("engine", ["vm", "reference"])
@pytest.mark.parametrize("kind", ["mxf4.block_scale", "mxf4nvf4.block_scale.block16"])
def test_products_of_96_elements_are_not_modelled(kind: str, engine: Engine):
    mma = f"tcgen05.mma.cta_group::1.kind::{kind} [%r11], %rd6, %rd7, %r15, [%r11+16], [%r11+24], %p5;"
    shape = 1 << 31 | 128 // 16 << 24 | 1 << 23 | 8 // 8 << 17 | 1 << 10 | 1 << 7
    arguments = random_bytes("f16", 8192), NOTHING.copy(), np.zeros((128, 8), np.uint32)
    text = RUN.replace(MMA, f"mov.b32 %r15, {shape:#x};\n  {mma}")
    report = wsemu.check(wsemu.load_ptx(text)["k"], 1, 128, arguments, engine=engine)
    assert report.verdict == "incomplete"
    assert "tcgen05.mma" in str(report.notes)


@pytest.mark.parametrize("engine", ["vm", "reference"])
@pytest.mark.parametrize(("grid", "cluster", "columns", "verdict"), [
    (1, 1, 512, "verified"),
    (3, 1, 512, "verified"),
    (2, 2, 256, "verified"),
    (2, 2, 512, "incomplete"),
])  # fmt: skip
def test_columns_of_several_ctas_on_a_multiprocessor(
    grid: int, cluster: int, columns: int, verdict: str, engine: Engine
):
    text = program(with_descriptors(A, B, instruction(128, 8)), ISSUE.format(issued=MMA), columns=columns)
    permit = "\n  tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\nALLOCATED:"
    text = text.replace("\nALLOCATED:", permit)
    arguments = random_bytes("f16", 8192), NOTHING.copy(), np.zeros((128, 8), np.uint32)
    report = wsemu.check(wsemu.load_ptx(text)["k"], grid, 128, arguments, engine=engine, cluster=cluster)
    assert report.verdict == verdict, report.notes
    assert ("tensor memory" in report.reasons) == (verdict == "incomplete")


ALLOCATES = """
.version 8.7
.target sm_100a
.address_size 64
.visible .entry k()
{
  .shared .align 4 .b32 slot[2];
  .reg .b32 %r<8>; .reg .pred %p<2>;
  mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x;
  setp.gt.u32 %p1, %r2, LAST;
  @%p1 bra END;
  mov.u32 %r4, slot; shr.u32 %r3, %r1, 5; shl.b32 %r5, %r3, 2; add.u32 %r4, %r4, %r5;
  tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r4], 256;
  bar.warp.sync 0xffffffff;
  ld.shared.b32 %r6, [%r4];
  bar.sync 0;
  tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r6, 256;
END:
  ret;
}
"""


@pytest.mark.parametrize("engine", ["vm", "reference"])
@pytest.mark.parametrize(
    ("threads", "last", "verdict"), [(64, 1, "incomplete"), (32, 3, "verified"), (32, 1, "verified")]
)
def test_two_ctas_that_allocate_twice_may_wait_for_each_other(threads: int, last: int, verdict: str, engine: Engine):
    """The other two allocate nothing, so that a CTA allocates once on average."""
    kernel = wsemu.load_ptx(ALLOCATES.replace("LAST", str(last)))["k"]
    assert wsemu.check(kernel, 4, threads, (), engine=engine).verdict == verdict


RELEASES = """
.version 8.7
.target sm_100a
.address_size 64
.visible .entry k()
{
  .shared .align 4 .b32 slot;
  .reg .b32 %r<8>;
  mov.u32 %r1, slot;
  tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], FIRST;
  bar.warp.sync 0xffffffff;
  ld.shared.b32 %r2, [%r1];
  bar.warp.sync 0xffffffff;
  tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 32;
  tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r2, 64;
  add.u32 %r3, %r2, 96;
  tcgen05.st.sync.aligned.32x32b.x1.b32 [%r3], {%r2};
  tcgen05.wait::st.sync.aligned;
  ret;
}
"""


@pytest.mark.parametrize("engine", ["vm", "reference"])
@pytest.mark.parametrize(("first", "codes"), [(128, {"tmem-double-free", "tmem-leak"}),
                                              (32, {"tmem-double-free", "tmem-unallocated"})])  # fmt: skip
def test_a_release_of_other_columns_releases_these_columns(first: int, codes: set[str], engine: Engine):
    report = wsemu.check(wsemu.load_ptx(RELEASES.replace("FIRST", str(first)))["k"], 1, 32, (), engine=engine)
    assert {finding.code for finding in report.findings if finding.severity == "error"} == codes


# -- pairs of CTAs -----------------------------------------------------------------------------------------------------

MEETING = "  barrier.cluster.arrive.aligned;\n  barrier.cluster.wait.aligned;\n"
PAIR_COMMIT = "commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%r4], %h1;"
ONE_COMMIT = "commit.cta_group::2.mbarrier::arrive::one.shared::cluster.b64 [%r4];"


def check_pair(text: str, engine: Engine) -> tuple[Report, Any, Any]:
    source = random_bytes("f16", 16384)
    result = np.zeros((256, 16), np.float32)
    arguments = source.copy(), result
    return wsemu.check(wsemu.load_ptx(text)["k"], 2, 128, arguments, engine=engine, cluster=2), source, result


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_a_pair_multiplies_the_halves_of_both_ctas(engine: Engine):
    report, source, result = check_pair(PAIR, engine)
    assert report.verdict == "verified"

    def rows(cta: int, start: int, count: int) -> Any:
        core = source.view(np.float16)[8192 * cta // 2 + start // 2 :][: count * 16].reshape(count // 8, 2, 8, 8)
        return core.transpose(0, 2, 1, 3).reshape(count, 16).astype(np.float64)

    a = np.concatenate([rows(cta, 0, 128) for cta in (0, 1)])
    b = np.concatenate([rows(cta, 4096, 8) for cta in (0, 1)])
    assert np.allclose(result, a @ b.T, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("engine", ["vm", "reference"])
@pytest.mark.parametrize(
    ("old", "new", "number", "codes"),
    [
        (MEETING, "", 0, {"dsmem-before-start"}),
        (MEETING, "  bar.sync 0;\n", 1, {"race"}),
        ("@!%p7 bra WAIT;\n  tcgen05", "@!%p2 bra WAIT;\n  setp.eq.u32 %p3, %r30, 0;\n  @%p3 tcgen05", 0,
         {"phase-alias", "deadlock"}),
        (PAIR_COMMIT, ONE_COMMIT, 0, {"deadlock"}),
        ("  fence.proxy.async.shared::cta;\n", "", 0, {"proxy"}),
        ("relinquish_alloc_permit.cta_group::2", "relinquish_alloc_permit.cta_group::1", 0, {"tmem-cta-group-mixed"}),
        ("  tcgen05.wait::ld.sync.aligned;\n", "", 0, set()),
        ("  tcgen05.wait::ld.sync.aligned;\n", MEETING, 0, set()),
        ("  tcgen05.wait::ld.sync.aligned;\n", "  mov.b32 %v15, 0;\n", 0, {"tmem-read-unfinished"}),
        ("  @!%p4 bra WAIT;\n", "", 0, {"tmem-race", "tmem-uninitialized", "dsmem-after-exit"}),
        ("  @!%p1 bra END;\n", "  setp.eq.u32 %p3, %r30, 0;\n  and.pred %p1, %p1, %p3;\n  @!%p1 bra END;\n", 0,
         {"tmem-leak"}),
    ],
)  # fmt: skip
def test_an_edit_of_a_pair_is_found(old: str, new: str, number: int, codes: set[str], engine: Engine):
    parts = PAIR.split(old)
    assert len(parts) > number + 1
    report, _, _ = check_pair(old.join(parts[: number + 1]) + new + old.join(parts[number + 1 :]), engine)
    assert {finding.code for finding in report.findings if finding.severity == "error"} == codes


ALLOCATION = """  tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%r2], 32;
  tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;
"""
LATE = f"""  setp.ne.u32 %p6, %r30, 0; and.pred %p6, %p6, %p1;
  @!%p6 bra TAKEN;
{ALLOCATION}TAKEN:
  bar.sync 0;
"""


@pytest.mark.parametrize("engine", ["vm", "reference"])
@pytest.mark.parametrize("ordered", [True, False])
def test_the_even_cta_of_a_pair_allocates_the_columns_of_both(engine: Engine, ordered: bool):
    """The product may precede the allocation of the odd CTA, whose own uses must follow it."""
    early = "  setp.eq.u32 %p6, %r30, 0; and.pred %p6, %p6, %p1;\n  @!%p6 bra ALLOCATED;\n"
    late = LATE if ordered else LATE.replace("  bar.sync 0;\n", "")
    text = PAIR.replace("  @!%p1 bra ALLOCATED;\n", early)
    text = text.replace("  ld.shared.b32 %r11", late + "  ld.shared.b32 %r11")
    report, _, result = check_pair(text, engine)
    assert ALLOCATION in PAIR
    assert (report.verdict == "verified") is ordered, report.findings
    if ordered:
        assert result.any(1).all()


PAIR_FACTORS = f"""
  add.u32 %r17, %r11, 40; add.u32 %r18, %r11, 48; mov.b32 %r19, 127;
  setp.gt.u32 %p3, %r1, 63; selp.b32 %r20, 128, 127, %p3;
  tcgen05.st.sync.aligned.32x32b.x4.b32 [%r17], {{%r19, %r19, %r19, %r19}};
  tcgen05.st.sync.aligned.32x32b.x1.b32 [%r18], {{%r20}};
  tcgen05.wait::st.sync.aligned;
{MEETING}  @!%p7 bra WAIT;
"""


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_factors_of_a_pair_lie_below_their_half_of_the_columns(engine: Engine):
    """Both halves of B are alike, and the factors of the second are twice as large."""
    text = PAIR.replace("  @!%p7 bra WAIT;\n", PAIR_FACTORS).replace("0x10040010", hex(1 << 23 | 8 << 17 | 8 << 24))
    text = text.replace("[%r2], 32", "[%r2], 64").replace("%r11, 32", "%r11, 64")
    text = text.replace("kind::f16", "kind::mxf8f6f4.block_scale").replace("%r15, %p5", "%r15, [%r17], [%r18], %p5")
    source = np.tile(np.random.default_rng(2).choice(np.array([0x38, 0x40, 0xB8], np.uint8), 8192), 2)
    result = np.zeros((256, 16), np.float32)
    report = wsemu.check(wsemu.load_ptx(text)["k"], 2, 128, (source, result), engine=engine, cluster=2)
    assert report.verdict == "verified", report.findings
    assert result[:64].any()
    assert (result[64:128] == 2 * result[:64]).all()


def test_a_pair_needs_a_cluster():
    with pytest.raises(wsemu.UsageError, match="even number of CTAs"):
        wsemu.check(wsemu.load_ptx(PAIR)["k"], 2, 128, (np.zeros(16384, np.uint8), np.zeros((256, 16), np.float32)))


# -- fences ------------------------------------------------------------------------------------------------------------

WAIT = "mbarrier.try_wait.parity.shared::cta.b64"
RELAXED = "mbarrier.try_wait.parity.relaxed.cta.shared::cta.b64"


@pytest.mark.parametrize("engine", ["vm", "reference"])
@pytest.mark.parametrize("strict", [False, True])
def test_a_relaxed_wait_needs_a_fence(strict: bool, engine: Engine):
    arguments = random_bytes("f16", 8192), NOTHING.copy(), np.zeros((128, 8), np.uint32)
    relaxed = RUN.replace(WAIT, RELAXED)
    report = wsemu.check(wsemu.load_ptx(relaxed)["k"], 1, 128, arguments, engine=engine, strict=strict)
    assert (report.verdict == "failed") == strict
    assert {finding.code for finding in report.findings} >= {"tcgen05-fence"}
    fenced = relaxed.replace("  tcgen05.ld", "  tcgen05.fence::after_thread_sync;\n  tcgen05.ld")
    assert wsemu.check(wsemu.load_ptx(fenced)["k"], 1, 128, arguments, engine=engine, strict=True).verdict == "verified"


SHAPES_OF_ALL_LANES = (
    "128x256b", "128x128b", "64x128b.warpx2::02_13", "64x128b.warpx2::01_23", "32x128b.warpx4",
)  # fmt: skip


@pytest.mark.parametrize("engine", ["vm", "reference"])
@pytest.mark.parametrize("shape", SHAPES_OF_ALL_LANES)
def test_a_copy_to_all_lanes_names_lane_0(shape: str, engine: Engine):
    issued = f"add.u32 %r13, %r11, {16 << 16}; tcgen05.cp.cta_group::1.{shape} [%r13], %rd6;"
    text = program(fill(32, 0), with_descriptors(A, B, 0), ISSUE.format(issued=issued), dump(8))
    assert find_codes(text, engine) == {"tmem-misaligned-lane"}


@pytest.mark.parametrize("engine", ["vm", "reference"])
@pytest.mark.parametrize(("rows", "d", "a", "good"), [
    (128, 0, 0, True), (64, 16, 16, True), (64, 16, 0, False), (64, 0, 16, False), (128, 0, 32, False),
    (128, 32, 32, False), (64, 48, 48, False), (64, 80, 80, False),
])  # fmt: skip
def test_operands_in_tensor_memory_begin_at_their_lanes(rows: int, d: int, a: int, good: bool, engine: Engine):
    issued = f"add.u32 %r17, %r11, {16 + (a << 16)}; add.u32 %r18, %r11, {d << 16}; "
    issued += "tcgen05.mma.cta_group::1.kind::f16 [%r18], [%r17], %rd7, %r15, %p5;"
    text = program(fill(32, 0), with_descriptors(A, B, instruction(rows, 8)), ISSUE.format(issued=issued))
    assert find_codes(text, engine) == (set() if good else {"tcgen05-descriptor"})


@pytest.mark.parametrize("engine", ["vm", "reference"])
@pytest.mark.parametrize(("lane", "good"), [(0, True), (1 << 14, True), (16, False), (32, False)])
def test_factors_begin_at_lane_0(lane: int, good: bool, engine: Engine):
    """CuTe keeps a number of a byte in the two highest bits of an address of factors."""
    text = scaled("mxf4.block_scale", 1 << 23, fill(8, 16)).replace(
        "add.u32 %r18, %r11, 20;", f"add.u32 %r18, %r11, {20 + (lane << 16)};"
    )
    assert ("tcgen05-descriptor" not in find_codes(text, engine)) == good


@pytest.mark.parametrize("engine", ["vm", "reference"])
@pytest.mark.parametrize(("kind", "types", "columns", "good"), [
    ("f8f6f4", 1 << 4, 8, False), ("f8f6f4", 1 << 4, 16, True), ("f8f6f4", 1 << 4, 24, False),
    ("i8", 2 << 4, 8, False), ("i8", 2 << 4, 16, True), ("f16", 1 << 4, 8, True),
])  # fmt: skip
def test_a_transposed_b_of_bytes_has_a_multiple_of_16_columns(
    kind: str, types: int, columns: int, good: bool, engine: Engine
):
    i = types | 1 << 16 | columns // 8 << 17 | 8 << 24
    text = program(with_descriptors(A, B, i), ISSUE.format(issued=multiply(kind)))
    assert find_codes(text, engine) == (set() if good else {"tcgen05-descriptor"})


@pytest.mark.parametrize("engine", ["vm", "reference"])
@pytest.mark.parametrize("bit", [14, 31, 48, 52, 60])
def test_reserved_bits_of_a_descriptor_are_0(bit: int, engine: Engine):
    a = A | 1 << bit
    text = program(with_descriptors(a, B, instruction(128, 8)), ISSUE.format(issued=MMA), dump(8))
    assert "tcgen05-descriptor" in find_codes(text, engine)
    text = program(with_descriptors(a, B, 0), ISSUE.format(issued="tcgen05.cp.cta_group::1.128x256b [%r11], %rd6;"))
    assert "tcgen05-descriptor" in find_codes(text, engine)


@pytest.mark.parametrize("engine", ["vm", "reference"])
@pytest.mark.parametrize(("old", "new", "codes"), [
    ("  bar.warp.sync 0xffffffff;\n", "", set()),
    ("  ld.shared.b32 %r6, [%r4];\n  bar.sync 0;\n", "  ld.shared.b32 %r6, [slot];\n  bar.sync 0;\n",
     {"tmem-address-unpublished"}),
    ("  mov.u32 %r4, slot;", "  mov.u32 %r4, slot; ld.shared.b32 %r6, [slot+4];", {"race"}),
])  # fmt: skip
def test_lanes_of_the_warp_that_allocates_read_the_address(old: str, new: str, codes: set[str], engine: Engine):
    """The store of an allocation is in order with the accesses of all lanes of its warp (PTX ISA 9.7.16.6.1)."""
    text = ALLOCATES.replace("LAST", "3")
    assert old in text
    report = wsemu.check(wsemu.load_ptx(text.replace(old, new))["k"], 1, 64, (), engine=engine)
    assert {finding.code for finding in report.findings if finding.severity == "error"} >= codes
    assert codes or report.verdict == "verified"


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_a_warp_allocates_twice_with_one_slot(engine: Engine):
    """Lanes read the slot before the second allocation stores there; what one lane stored there it may overwrite."""
    text = RELEASES.replace("  bar.warp.sync 0xffffffff;\n", "").replace("FIRST", "64")
    report = wsemu.check(wsemu.load_ptx(text)["k"], 1, 32, (), engine=engine)
    assert not {finding.code for finding in report.findings} & {"race", "intra-warp-race", "tmem-address-unpublished"}


# -- loads without a wait ----------------------------------------------------------------------------------------------

OVERWRITES = """
  @!%p1 bra STORED;
  {store}
  tcgen05.wait::st.sync.aligned;
STORED:
  bar.sync 0;
  @%p6 bra USED;
  tcgen05.ld.sync.aligned.32x32b.x2.b32 {{%v0, %v1}}, [%r11];
  {used}
USED:
  bar.sync 0;
  @!%p1 bra OVER;
  {store}
  tcgen05.wait::st.sync.aligned;
OVER:
"""


LOW_AND_HIGH = """setp.lt.u32 %p7, %r1, 136;
  @%p7 bra LOW;
  st.global.v2.b32 [%rd3], {%v0, %v1};
  bra USED;
LOW:
  st.global.v2.b32 [%rd3+8], {%v0, %v1};"""


FAILED_ASSERTION = (
    ".extern .func __assertfail(.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e) .noreturn;\n"
)
CALLS_IT = "{ .param .b64 a; .param .b32 c; call.uni __assertfail, (a, a, c, a, a); }"
ASSERTS = f"""setp.gt.u32 %p7, %r1, 4096;
  @!%p7 bra HOLDS;
  {CALLS_IT}
HOLDS:
  st.global.v2.b32 [%rd3], {{%v0, %v1}};"""


BEHIND_A_LOOP = """mov.u32 %r6, 0;
AGAIN:
  bar.sync 1, 32;
  st.global.v2.b32 [%rd3], {%v0, %v1};
  tcgen05.ld.sync.aligned.32x32b.x2.b32 {%v0, %v1}, [%r11];
  add.u32 %r6, %r6, 1;
  setp.lt.u32 %p7, %r6, 3;
  @%p7 bra AGAIN;
  bar.sync 1, 32;
  st.global.v2.b32 [%rd3+8], {%v0, %v1};"""


@pytest.mark.parametrize("engine", ["vm", "reference"])
@pytest.mark.parametrize(("used", "code"), [
    ("add.u32 %v0, %v0, %v1; st.global.b32 [%rd3], %v0;", "tmem-read-unwaited"),
    (ASSERTS, "tmem-read-unwaited"),
    (ASSERTS.replace(CALLS_IT, "ret;"), "tmem-read-unwaited"),
    ("st.global.v2.b32 [%rd3], {%v0, %v1};", "tmem-read-unwaited"),
    ("add.u32 %v0, %v0, 1; st.global.b32 [%rd3], %v0;", "tmem-read-unfinished"),
    ("add.u32 %v0, %v0, %v1; bar.sync 1, 32; st.global.b32 [%rd3], %v0;", "tmem-read-unwaited"),
    ("add.u32 %v0, %v0, %v1; @%p7 bra USED; st.global.b32 [%rd3], %v0;", "tmem-read-unfinished"),
    ("mul.lo.u32 %v1, %v1, 7; st.global.v2.b32 [%rd3], {%v0, %v1};", "tmem-read-unwaited"),
    ("mov.b64 %rd3, {%v0, %v1};", "tmem-read-unfinished"),
    ("{ .local .align 8 .b8 kept[8]; st.local.v2.b32 [kept], {%v0, %v1}; }", "tmem-read-unfinished"),
    ("@%p6 st.global.v2.b32 [%rd3], {%v0, %v1};", "tmem-read-unfinished"),
    ("bar.sync 1, 32; st.global.v2.b32 [%rd3], {%v0, %v1};", "tmem-read-unwaited"),
    ("bar.sync 1, 32; bar.sync 1, 32; st.global.b32 [%rd3], %v0;", "tmem-read-unfinished"),
    (BEHIND_A_LOOP, "tmem-read-unwaited"),
    (BEHIND_A_LOOP.replace("3], {%v0, %v1}", "3], {%v1, %v1}"), "tmem-read-unfinished"),
    (BEHIND_A_LOOP.replace("8], {%v0, %v1}", "8], {%v1, %v1}"), "tmem-read-unfinished"),
    ("setp.lt.u32 %p7, %r1, 136; @%p7 bra USED; st.global.v2.b32 [%rd3], {%v0, %v1};", "tmem-read-unfinished"),
    (LOW_AND_HIGH, "tmem-read-unwaited"),
    ("mov.u32 %v0, %r1; st.global.v2.b32 [%rd3], {%v0, %v1};", "tmem-read-unfinished"),
    ("add.u32 %v0, %r1, 1; add.u32 %v1, %v0, %v1; st.global.b32 [%rd3], %v0;", "tmem-read-unfinished"),
    ("xor.b32 %v0, %v0, %v0; st.global.v2.b32 [%rd3], {%v0, %v1};", "tmem-read-unfinished"),
    ("mul.lo.u32 %v1, 0, %v1; bar.sync 1, 32; st.global.v2.b32 [%rd3], {%v0, %v1};", "tmem-read-unfinished"),
    ("setp.lt.u32 %p7, %r1, 136; @%p7 mov.u32 %v0, 1; st.global.v2.b32 [%rd3], {%v0, %v1};", "tmem-read-unwaited"),
])  # fmt: skip
def test_a_load_ends_by_a_wait_or_by_the_use_of_all_its_registers(used: str, code: str, engine: Engine):
    """The warp that loads has the quarter of the one that stores; both run on."""
    store = "tcgen05.st.sync.aligned.32x32b.x2.b32 [%r11], {%r1, %r1};"
    body = OVERWRITES.format(store=store, used=used)
    text = program("  setp.lt.u32 %p6, %r1, 128;\n" + body).replace(".visible", FAILED_ASSERTION + ".visible", 1)
    arguments = random_bytes("", 8192), np.zeros((160, 8), np.uint32), np.zeros((160, 8), np.uint32)
    report = wsemu.check(wsemu.load_ptx(text)["k"], 1, 160, arguments, engine=engine)
    assert {finding.code for finding in report.findings} & {"tmem-read-unwaited", "tmem-read-unfinished"} == {code}


STORED_BY_ALL = """
  @!%p1 bra STORED;
  tcgen05.st.sync.aligned.32x32b.x1.b32 [%r11], {%r1};
  tcgen05.wait::st.sync.aligned;
  tcgen05.ld.sync.aligned.32x32b.x1.b32 {%v0}, [%r11];
  shl.b32 %r5, %r1, 2;
  add.u32 %r5, %r5, %r3;
  st.shared.b32 [%r5], %v0;
  fence.proxy.async.shared::cta;
  bar.warp.sync 0xffffffff;
  cp.async.bulk.global.shared::cta.bulk_group [%rd3], [%r3], 128;
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group 0;
STORED:
  bar.sync 0;
"""


def test_lanes_store_one_value_beside_a_load_without_a_wait(monkeypatch: pytest.MonkeyPatch):
    """CuTe DSL's epilogues: each of the 32 lanes issues the same copy, and no `tcgen05.wait::ld` is there."""
    monkeypatch.setattr(same_values, "MOST", 0)
    arguments = random_bytes("", 8192), np.zeros(4, np.uint32), np.zeros(32, np.uint32)
    report = wsemu.check(wsemu.load_ptx(program(STORED_BY_ALL))["k"], 1, 128, arguments, engine="vm")
    assert (arguments[2] == np.arange(32)).all()
    assert {finding.code for finding in report.findings} == {"same-value-store", "tmem-read-unwaited"}


# -- R12: allocations that may wait for ever ---------------------------------------------------------------------------

WAITS_FOR_OTHERS = "  barrier.cluster.arrive.aligned;\n  barrier.cluster.wait.aligned;\n"


@pytest.mark.parametrize("engine", ["vm", "reference"])
@pytest.mark.parametrize(("columns", "permit", "cluster", "verdict", "reason"), [
    (32, True, 2, "verified", ""),
    (32, False, 1, "verified", ""),
    (32, False, 2, "incomplete", "keep the permit"),
    (512, True, 2, "incomplete", "CTAs wait for each other"),
])  # fmt: skip
def test_ctas_that_wait_for_each_other_give_up_the_permit(
    columns: int, permit: bool, cluster: int, verdict: str, reason: str, engine: Engine
):
    text = program(WAITS_FOR_OTHERS if cluster > 1 else "", columns=columns)
    if permit:
        text = text.replace(
            "\nALLOCATED:", "\n  tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\nALLOCATED:"
        )
    arguments = random_bytes("", 8192), NOTHING.copy(), NOTHING.copy()
    report = wsemu.check(wsemu.load_ptx(text)["k"], 4, 128, arguments, engine=engine, cluster=cluster)
    assert report.verdict == verdict, report.notes
    assert reason in str(report.notes)


@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_a_cta_that_asks_for_more_columns_than_are_left_waits_for_itself(engine: Engine):
    text = ALLOCATES.replace("LAST", "3").replace("256", "512")
    report = wsemu.check(wsemu.load_ptx(text)["k"], 1, 64, (), engine=engine)
    assert {finding.code for finding in report.findings if finding.severity == "error"} == {"deadlock"}


@pytest.mark.parametrize(("swizzle", "leading", "stride", "size"), [(0, 128, 256, 4096), (2, 16, 1024, 16384)])
def test_an_operand_ends_where_shared_memory_ends(swizzle: int, leading: int, stride: int, size: int) -> None:
    found = []
    for behind in (0, 16, 32, 128, 1024):
        a = descriptor(behind, leading, stride, swizzle)
        b = descriptor(0, 128, 256)
        made = with_descriptors(a, b, instruction(128, 16))
        text = program(made, fill(8, 0), ISSUE.format(issued=multiply("f16")), shared=size)
        codes = find_codes(text, "vm", shared=size)
        assert codes == find_codes(text, "reference", shared=size), behind
        found.append("out-of-bounds" in codes)
    assert not found[0]
    assert found[-1]


_LOW = "and.b32 %r16, %r3, 0x3ffff; shr.u32 %r16, %r16, 4; "
_GENERIC = "cvt.u64.u32 %rd8, %r3; cvta.shared.u64 %rd8, %rd8; cvta.to.shared.u64 %rd8, %rd8; cvt.u32.u64 %r16, %rd8; "
MADE_DESCRIPTORS = {
    "or of the fields": f"{_LOW} cvt.u64.u32 %rd8, %r16; or.b64 %rd8, %rd8, {A:#x};",
    "two halves": f"{_LOW} or.b32 %r16, %r16, {A & 0xFFFFFFFF:#x}; mov.b64 %rd8, {{%r16, {A >> 32}}};",
    "a bit field": f"cvt.u64.u32 %rd8, %r3; shr.u64 %rd8, %rd8, 4; bfi.b64 %rd8, %rd8, {A:#x}, 0, 14;",
    "a generic address": (
        f"{_GENERIC} bfe.u32 %r16, %r16, 4, 14; cvt.u64.u32 %rd8, %r16; or.b64 %rd8, %rd8, {A:#x};"
    ),
    "a step from the matrix before": (
        f"{_LOW} cvt.u64.u32 %rd8, %r16; or.b64 %rd8, %rd8, {A:#x}; add.s64 %rd8, %rd8, 2; add.s64 %rd8, %rd8, -2;"
    ),
    "another lane": (
        f"{_LOW} shfl.sync.idx.b32 %r16, %r16, 0, 31, -1; cvt.u64.u32 %rd8, %r16; or.b64 %rd8, %rd8, {A:#x};"
    ),
    "memory": (
        f"{_LOW} cvt.u64.u32 %rd8, %r16; or.b64 %rd8, %rd8, {A:#x}; .local .b64 kept[2]; st.local.b64 [kept], %rd8;"
        "ld.local.b64 %rd8, [kept];"
    ),
}  # fmt: skip
NUMBERS = {
    "a number": f"mov.b64 %rd8, {A | 0x40:#x};",
    "a number from memory": f"ld.global.b32 %r16, [%rd2]; cvt.u64.u32 %rd8, %r16; or.b64 %rd8, %rd8, {A | 0x40:#x};",
    "a number of the thread": f"cvt.u64.u32 %rd8, %r1; or.b64 %rd8, %rd8, {A | 0x40:#x};",
}
READERS = {
    "a": multiply("f16", "%rd8"),
    "b": multiply("f16").replace("%rd7", "%rd8"),
    "b, where a is in tensor memory": multiply("f16", "[%r11]").replace("%rd7", "%rd8"),
    "a copy": "tcgen05.cp.cta_group::1.128x256b [%r11], %rd8;",
}


def answer_of_descriptor(made: str, reader: str, engine: Engine) -> Report:
    """The report of a launch in which a tensor core reads shared memory at the descriptor %rd8."""
    text = with_descriptors(A, B, instruction(128, 16)) + made
    body = program(text, fill(8, 0), ISSUE.format(issued=READERS[reader]), dump(8))
    arguments = random_bytes("f16", 8192), NOTHING.copy(), np.zeros((128, 8), np.uint32)
    return wsemu.check(wsemu.load_ptx(body)["k"], 1, 128, arguments, engine=engine)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("made", MADE_DESCRIPTORS)
def test_descriptors_are_computed_from_addresses(made: str, reader: str) -> None:
    for engine in ("vm", "reference"):
        report = answer_of_descriptor(MADE_DESCRIPTORS[made], reader, engine)
        assert report.verdict == "verified", report.reasons or [finding.message for finding in report.findings]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("made", NUMBERS)
def test_a_descriptor_that_is_a_number_is_outside_of_shared_memory(made: str, reader: str) -> None:
    for engine in ("vm", "reference"):
        report = answer_of_descriptor(NUMBERS[made], reader, engine)
        assert report.verdict == "failed"
        assert "out-of-bounds" in {finding.code for finding in report.findings}
