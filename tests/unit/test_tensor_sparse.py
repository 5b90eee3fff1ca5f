"""`tcgen05.mma.sp`: products of a sparse A, against NumPy and between the engines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest

import wsemu
from tests.unit.pair_programs import PAIR
from tests.unit.tensor_programs import ISSUE, descriptor, dump, fill, instruction, program, with_descriptors

if TYPE_CHECKING:
    from wsemu.launch.result import Report
    from wsemu.model.settings import Engine

ENGINES: tuple[Engine, ...] = ("vm", "reference")
N = 16
A, B = descriptor(0, 128, 256), descriptor(4096, 128, 512)
"""128 rows of 32 bytes, 16 rows of 64 bytes"""


class Form(NamedTuple):
    kind: str
    bits: int
    """of an element in memory"""
    number: int
    """of the type in the instruction descriptor"""
    more: int = 0
    """other bits of the instruction descriptor"""

    @property
    def k(self) -> int:
        return 512 // self.bits


FORMS = (
    Form("f16", 16, 0, 1 << 4), Form("f16", 16, 0, 1 << 4 | 1), Form("tf32", 32, 2, 1 << 4),
    Form("f8f6f4", 8, 0, 1 << 4), Form("i8", 8, 1, 2 << 4),
    Form("mxf8f6f4.block_scale", 8, 0, 1 << 23), Form("mxf4.block_scale", 4, 1, 1 << 23),
    Form("mxf4nvf4.block_scale.block16", 4, 1),
)  # fmt: skip
E4M3 = {0: 0, 1: 0x38, 2: 0x40, 3: 0x44, -1: 0xB8, -2: 0xC0, -3: 0xC4}
E2M1 = {0: 0, 1: 2, 2: 4, 3: 5, -1: 10, -2: 12, -3: 13}


def pack(form: Form, numbers: Any, width: int) -> Any:
    """Return the bytes of rows of small integers as an operand without swizzle, `width` bytes a row."""
    if form.bits == 16:
        data = numbers.astype(np.float16).view(np.uint8)
    elif form.bits == 32:
        data = numbers.astype(np.float32).view(np.uint8)
    elif form.kind == "i8":
        data = numbers.astype(np.int8).view(np.uint8)
    elif form.bits == 8:
        data = np.vectorize(E4M3.get)(numbers).astype(np.uint8)
    else:
        nibbles = np.vectorize(E2M1.get)(numbers).astype(np.uint8)
        data = nibbles[:, ::2] | nibbles[:, 1::2] << 4
    rows = len(numbers)
    return data.reshape(rows // 8, 8, width // 16, 16).transpose(0, 2, 1, 3).reshape(-1)


def random_metadata(form: Form, generator: Any) -> tuple[Any, Any]:
    """Return the 4 bits of each chunk, and the k of each stored element."""
    size = {32: 2, 4: 8}.get(form.bits, 4)
    chunks = np.arange(form.k // size) * size
    bits = generator.choice([4, 14] if size == 2 else [4, 8, 12, 9, 13, 6, 14], (128, len(chunks)))
    if size == 2:
        return bits, chunks + (bits == 14)
    first, second = chunks + (bits & 3) * (size // 4), chunks + (bits >> 2) * (size // 4)
    ks = [first, first + 1, second, second + 1] if size == 8 else [first, second]
    return bits, np.stack(ks, -1).reshape(128, -1)


def metadata_words(form: Form, bits: Any) -> Any:
    """Return the words [128, 4] of metadata, first those that a selector of 0 selects."""
    words = np.zeros((128, 4), np.uint32)
    column = form.more & 1 if form.bits >= 16 else 0
    for row in range(128):
        for chunk in range(bits.shape[1]):
            one = np.uint32(bits[row, chunk])
            if form.bits < 16:
                words[row, chunk // 8] |= one << np.uint32(4 * (chunk % 8))
            else:
                lane = row % 8 + 8 * (chunk // 4) + row // 16 * 16
                words[lane, column] |= one << np.uint32(4 * (chunk % 4) + 16 * (row // 8 % 2))
    return words


def text_of(form: Form, *, metadata: int = 24, more: int = 0, held: bool = False, weights: bool = False) -> str:
    n, d = (64, 64) if weights else (N, 0)
    scales = "[%r17], [%r18], " if "block" in form.kind else ""
    issued = f"add.u32 %r17, %r11, 16; add.u32 %r18, %r11, 20; add.u32 %r19, %r11, {metadata}; add.u32 %r20, %r11, 28; "
    a = "[%r20]" if held else "%rd6"
    issued += f"add.u32 %r21, %r11, {d}; tcgen05.mma{'.ws' * weights}.sp.cta_group::1.kind::{form.kind} [%r21], "
    issued += f"{a}, %rd7, [%r19], %r15, {scales}%p5;"
    i = form.number << 7 | form.number << 10 | n // 8 << 17 | 8 << 24 | 4 | form.more | more
    parts = with_descriptors(A, B, i), fill(32, 16), ISSUE.format(issued=issued), dump(N, column=d)
    return program(*parts, columns=128, shared=8192 if weights else 6144)


def operands(form: Form, seed: int = 5) -> tuple[Any, Any, Any, Any]:
    """Return shared memory, words from column 16 on, and the exact sums and their factors."""
    generator = np.random.default_rng(seed)
    a, b = generator.integers(-3, 4, (128, form.k // 2)), generator.integers(-3, 4, (N, form.k))
    bits, ks = random_metadata(form, generator)
    source = np.zeros(6144, np.uint8)
    source[:4096] = pack(form, a, 32)
    source[4096 : 4096 + 64 * N] = pack(form, b, 64)
    words = np.zeros((128, 32), np.uint32)
    fine = form.kind.startswith("mxf4nvf4")
    count = 1 if form.bits == 8 else 4 if fine else 2
    quarter = generator.integers(0, 3, (32, 5, 4))
    scale = quarter * 8 + 0x38 if fine else quarter + 127
    if "block" in form.kind:
        packed = np.ascontiguousarray(scale.astype(np.uint8)).view(np.uint32)[..., 0]
        words[:, :5] = np.tile(packed, (4, 1))
    words[:, 8:12] = metadata_words(form, bits)
    each = np.repeat(np.arange(count), form.k // 2 // count)
    rows, columns = np.arange(128), np.arange(N)
    of_a = 2.0 ** quarter[rows % 32, rows // 32][:, each] if "block" in form.kind else np.ones((128, form.k // 2))
    of_b = 2.0 ** quarter[columns, 4][:, each] if "block" in form.kind else np.ones((N, form.k // 2))
    expected = np.einsum("mj,mjn,mj,nj->mn", a, b.T[ks], of_a, of_b)
    return source, words, expected, ks


def launch(text: str, source: Any, words: Any, engine: Engine) -> tuple[Report, Any]:
    result = np.zeros((128, N), np.uint32)
    return wsemu.check(wsemu.load_ptx(text)["k"], 1, 128, (source.copy(), words.copy(), result), engine=engine), result


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("form", FORMS, ids=lambda form: f"{form.kind}-{form.more & 1}")
def test_stored_elements_multiply_the_elements_that_metadata_select(form: Form, engine: Engine):
    source, words, expected, _ = operands(form)
    report, result = launch(text_of(form), source, words, engine)
    assert report.verdict == "verified", report.reasons or [finding.message for finding in report.findings]
    assert np.array_equal(result.view(np.int32 if form.kind == "i8" else np.float32), expected)


@pytest.mark.parametrize("engine", ENGINES)
def test_absent_elements_multiply_nothing(engine: Engine):
    form = FORMS[0]
    source, words, _, ks = operands(form)
    text = text_of(form)
    _, before = launch(text, source, words, engine)
    selected = {int(k) for k in ks[0]}
    at = next(k for k in range(form.k) if k not in selected)
    infinite = source.copy()
    infinite[4096 + at // 8 * 128 + at % 8 * 2 :][:2] = (0, 0x7C)  # column 0 of b
    _, after = launch(text, infinite, words, engine)
    assert after[0, 0] == before[0, 0]
    assert (after[:, 0] != before[:, 0]).any()
    assert np.array_equal(after[:, 1:], before[:, 1:])


@pytest.mark.parametrize("form", FORMS, ids=lambda form: f"{form.kind}-{form.more & 1}")
def test_engines_agree_on_random_bits(form: Form):
    generator = np.random.default_rng(11)
    _, words, *_ = operands(form)
    if form.bits in (16, 32):
        type_ = np.float16 if form.bits == 16 else np.float32
        source = (3 * generator.standard_normal(6144 * 8 // form.bits)).astype(type_).view(np.uint8)
    else:
        source = generator.integers(0, 256, 6144, dtype=np.uint8)
    fast, slow = (launch(text_of(form), source, words, engine)[1] for engine in ENGINES)
    assert np.array_equal(fast, slow)


@pytest.mark.parametrize("engine", ENGINES)
def test_invalid_metadata_are_reported(engine: Engine):
    source, words, *_ = operands(FORMS[0])
    words[5, 8] &= ~np.uint32(15)
    report, _ = launch(text_of(FORMS[0]), source, words, engine)
    assert {finding.code for finding in report.findings if finding.severity == "error"} == {
        "tcgen05-descriptor", "tmem-uninitialized",
    }  # fmt: skip
    found = next(finding for finding in report.findings if finding.code == "tcgen05-descriptor")
    assert "metadata" in found.message


@pytest.mark.parametrize("engine", ENGINES)
def test_uninitialized_metadata_leave_uninitialized_sums(engine: Engine):
    source, words, *_ = operands(FORMS[0])
    report, _ = launch(text_of(FORMS[0], metadata=64), source, words, engine)
    assert {finding.code for finding in report.findings if finding.severity == "error"} == {"tmem-uninitialized"}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("text", [
    text_of(FORMS[0], more=2), text_of(FORMS[0], metadata=25), text_of(FORMS[3], metadata=25),
])  # fmt: skip
def test_other_columns_of_metadata_are_not_decided(text: str, engine: Engine):
    source, words, *_ = operands(FORMS[0])
    report, _ = launch(text, source, words, engine)
    assert (report.verdict, report.reasons) == ("incomplete", ["not modelled"])


@pytest.mark.parametrize("engine", ENGINES)
def test_metadata_may_be_in_the_last_columns_of_an_allocation(engine: Engine):
    form = FORMS[1]
    source, words, expected, _ = operands(form)
    product = "add.u32 %r19, %r11, 30; tcgen05.mma.sp.cta_group::1.kind::f16 [%r11], %rd6, %rd7, [%r19], %r15, %p5;"
    i = instruction(128, N, more=4 | 1)
    text = program(with_descriptors(A, B, i), fill(8, 24), ISSUE.format(issued=product), dump(N), shared=6144)
    last = np.zeros((128, 8), np.uint32)
    last[:, 6:] = words[:, 8:10]
    report, result = launch(text, source, last, engine)
    assert report.verdict == "verified", report
    assert np.array_equal(result.view(np.float32), expected)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("rows", "d", "metadata", "good"), [
    (64, 16, 16, True), (64, 16, 0, False), (64, 0, 16, False), (128, 0, 16, False), (128, 16, 16, False),
])  # fmt: skip
def test_metadata_begin_at_the_lane_of_the_sums(rows: int, d: int, metadata: int, good: bool, engine: Engine):
    """PTX allows lane 16 for products of 64 rows; wsemu does not compute these."""
    source, words, *_ = operands(FORMS[0])
    text = text_of(FORMS[0], metadata=24 + (metadata << 16))
    text = text.replace("add.u32 %r21, %r11, 0;", f"add.u32 %r21, %r11, {d << 16};")
    text = text.replace(f"{instruction(128, N, more=4):#x}", f"{instruction(rows, N, more=4):#x}")
    report, _ = launch(text, source, words, engine)
    assert report.verdict == ("incomplete" if good else "failed"), report
    assert ("tcgen05-descriptor" in {finding.code for finding in report.findings}) is not good


@pytest.mark.parametrize(("form", "more"), [(FORMS[0], 0), (FORMS[3], 0), (FORMS[4], 0), (FORMS[7], 0)])
def test_a_sparse_operand_in_tensor_memory_is_that_in_shared_memory(form: Form, more: int):
    source, words, expected, _ = operands(form)
    rows = source[:4096].reshape(16, 2, 8, 16).transpose(0, 2, 1, 3)
    words[:, 12:20] = np.ascontiguousarray(rows).reshape(128, 32).view(np.uint32)
    for engine in ENGINES:
        report, result = launch(text_of(form, held=True), source, words, engine)
        assert report.verdict == "verified", report
        assert np.array_equal(result.view(np.int32 if form.kind == "i8" else np.float32), expected)


def test_a_transposed_b_is_that_of_numpy():
    form = FORMS[0]
    source, words, expected, _ = operands(form)
    b = source[4096:5120].view(np.float16).reshape(8, 8, 8).transpose(0, 2, 1)
    source[4096:5120] = np.ascontiguousarray(b).view(np.uint8).reshape(-1)
    text = text_of(form, more=1 << 16)
    for engine in ENGINES:
        report, result = launch(text, source, words, engine)
        assert report.verdict == "verified", report
        assert np.array_equal(result.view(np.float32), expected)


@pytest.mark.parametrize("form", FORMS[:5], ids=lambda form: f"{form.kind}-{form.more & 1}")
def test_products_of_weights_may_be_sparse(form: Form):
    source, words, expected, _ = operands(form)
    source = np.concatenate([source, np.zeros(2048, np.uint8)])
    for engine in ENGINES:
        report, result = launch(text_of(form, weights=True), source, words, engine)
        assert report.verdict == "verified", report
        assert np.array_equal(result.view(np.int32 if form.kind == "i8" else np.float32), expected)


FILL = """
  mov.b32 %r18, 0xe4e4e4e4; mov.b32 %r19, 0x4e4e4e4e; setp.eq.u32 %p6, %r30, 0; selp.b32 %r18, %r18, %r19, %p6;
  add.u32 %r17, %r11, 24;
  tcgen05.st.sync.aligned.32x32b.x2.b32 [%r17], {%r18, %r18};
  tcgen05.wait::st.sync.aligned;
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
"""
EDITS = (
    ("0x10040010", "0x10040014"), ("mov.b64 %rd7, 0x401000080100;", "mov.b64 %rd7, 0x402000080100;"),
    ("mma.cta_group::2.kind::f16 [%r11], %rd6, %rd7, %r15",
     "mma.sp.cta_group::2.kind::f16 [%r11], %rd6, %rd7, [%r17], %r15"),
    ("  setp.ne.u32 %p5, %r1, %r1;\n", "  setp.ne.u32 %p5, %r1, %r1;\n" + FILL),
)  # fmt: skip


def pair_product(source: Any) -> Any:
    """Return the product of a pair: chunks have elements 0 and 1, or 2 and 3, in turn; the odd CTA begins with 2."""
    a = np.concatenate([source[4096 * cta :][:2048].reshape(16, 2, 8, 8) for cta in (0, 1)])
    a = a.transpose(0, 2, 1, 3).reshape(256, 16).astype(np.float64)
    b = np.stack([source[4096 * cta + 2048 :][:256].reshape(4, 8, 8) for cta in (0, 1)])
    b = b.transpose(0, 2, 1, 3).reshape(16, 32).astype(np.float64)
    ks = [[4 * n + 2 * ((n + cta) % 2) + x for n in range(8) for x in (0, 1)] for cta in (0, 1)]
    return np.concatenate([a[128 * cta :][:128] @ b[:, ks[cta]].T for cta in (0, 1)])


def pair_text() -> str:
    """Return the text of a pair that multiplies sparse rows of f16."""
    text = PAIR
    for old, new in EDITS:
        assert text.count(old) == 1
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize(("kind", "types"), [("f8f6f4", 0), ("tf32", 2 << 7 | 2 << 10)])
def test_engines_agree_on_random_bits_of_a_pair(kind: str, types: int):
    source = np.random.default_rng(3).integers(0, 256, 16384, dtype=np.uint8)
    text = pair_text().replace("kind::f16", f"kind::{kind}").replace("0x10040014", hex(0x10040014 | types))
    results = []
    for engine in ENGINES:
        results.append(np.zeros((256, 16), np.uint32))
        arguments = source.copy(), results[-1]
        report = wsemu.check(wsemu.load_ptx(text)["k"], 2, 128, arguments, engine=engine, cluster=2)
        assert report.verdict == "verified", report
    assert results[0].any()
    assert np.array_equal(results[0], results[1])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("kept", "codes"), [(True, set()), (False, {"tmem-race"})])
def test_each_cta_of_a_pair_has_its_metadata(kept: bool, codes: set[str], engine: Engine):
    """Without a wait the stores of metadata are not ordered before the product."""
    text = pair_text()
    text = text if kept else text.replace("  tcgen05.wait::st.sync.aligned;\n", "")
    source = np.random.default_rng(4).integers(-2, 3, 8192).astype(np.float16)
    result = np.zeros((256, 16), np.float32)
    arguments = source.copy().view(np.uint8), result
    report = wsemu.check(wsemu.load_ptx(text)["k"], 2, 128, arguments, engine=engine, cluster=2)
    assert {finding.code for finding in report.findings if finding.severity == "error"} == codes
    if kept:
        assert np.array_equal(result, pair_product(source))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("kind", "lane", "good"), [
    ("f16", 0, True), ("f16", 16, True), ("f16", 32, False), ("mxf4.block_scale", 0, False),
])  # fmt: skip
def test_a_pair_multiplies_128_sparse_rows_without_factors_alone(kind: str, lane: int, good: bool, engine: Engine):
    """Lanes 0 and 16 are good for them; wsemu does not compute these products."""
    scales, types = ("[%r18], [%r18], ", 1 << 23 | 1 << 7 | 1 << 10) if "block" in kind else ("", 1 << 4)
    issued = f"add.u32 %r17, %r11, {24 + (lane << 16)}; add.u32 %r18, %r11, 16; add.u32 %r19, %r11, {lane << 16};\n"
    issued += f"  mov.b32 %r15, {types | 2 << 17 | 8 << 24 | 4:#x};\n"
    issued += f"  tcgen05.mma.sp.cta_group::2.kind::{kind} [%r19], %rd6, %rd7, [%r17], %r15, {scales}%p5;"
    dense = "tcgen05.mma.cta_group::2.kind::f16 [%r11], %rd6, %rd7, %r15, %p5;"
    assert dense in PAIR
    arguments = np.zeros(16384, np.uint8), np.zeros((256, 16), np.float32)
    text = PAIR.replace(dense, issued)
    report = wsemu.check(wsemu.load_ptx(text)["k"], 2, 128, arguments, engine=engine, cluster=2)
    assert report.verdict == ("incomplete" if good else "failed"), report
    assert ("tcgen05-descriptor" in {finding.code for finding in report.findings}) is not good
