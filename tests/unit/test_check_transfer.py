"""`check_transfer`: what a transfer did to every byte, with patterns that are right and patterns that are not."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import wsemu
from wsemu import cuda, ptx
from wsemu.model.errors import UsageError
from wsemu.patterns import (
    Buffers,
    CudaDMA,
    CudaDMACustom,
    CudaDMAHalo,
    CudaDMAIndirect,
    CudaDMASequential,
    CudaDMAStrided,
    CudaDMATile,
)

ROLES = (1, 64, 64, 64)
WORDS = 100


@dataclass(frozen=True)
class Words(CudaDMACustom):
    """A transfer of WORDS words, right or wrong in one way."""

    words: int = WORDS
    shift: int = 0
    beyond: int = 0
    twice: int = 0

    def transfer(self, thread, src, dst):
        for word in range(thread, self.words + self.beyond, self.dma_threads):
            dst[word] = src[word + self.shift]
        if thread < self.twice:
            dst[thread] = src[thread]

    def moves(self):
        return [(0, 0, 4 * WORDS)]


@dataclass(frozen=True)
class Bytes(CudaDMACustom):
    """Byte by byte; `step` reads every byte of a word from its first one."""

    step: int = 1

    def transfer(self, thread, src, dst):
        a, b = src.view(np.uint8), dst.view(np.uint8)
        for byte in range(thread, 4 * WORDS, self.dma_threads):
            b[byte] = a[byte // self.step * self.step]

    def moves(self):
        return [(0, 0, 4 * WORDS)]


CORRECT: dict[str, tuple[Any, dict[str, Any]]] = {
    "sequential": (CudaDMASequential(*ROLES, 1000), {}),
    "sequential, 16 bytes": (CudaDMASequential(*ROLES, 1004, alignment=16), {"src_offset": 16}),
    "split": (CudaDMAStrided(*ROLES, 52, 9, 64, 80, alignment=16, load="cs", store="cg"), {}),
    "full": (CudaDMAStrided(*ROLES, 1000, 5, 1024, 1008, alignment=8), {}),
    "big": (CudaDMAStrided(*ROLES, 4000, 3, 4000, 4000, bytes_per_thread=4), {"dst_offset": 12}),
    "rows backwards": (CudaDMAStrided(*ROLES, 16, 4, -32, 16), {}),
    "one row again and again": (CudaDMAStrided(*ROLES, 16, 4, 0, 16), {}),
    "gather": (CudaDMAIndirect(*ROLES, 64, 5, alignment=16), {"index": [4, 2, 4, 0, 1]}),
    "gather with gaps": (CudaDMAIndirect(*ROLES, 8, 5, 24, alignment=8), {"index": np.arange(9, 0, -2).astype("u1")}),
    "scatter": (CudaDMAIndirect(*ROLES, 64, 3, scatter=True), {"index": [4, 2, 0]}),
    "halo": (CudaDMAHalo(*ROLES, 4, 9, 8, 4, 100), {}),
    "halo with corners": (CudaDMAHalo(*ROLES, 16, 3, 2, 8, 400, alignment=16, corners=True), {}),
    "tile": (CudaDMATile(*ROLES, 5, 48), {"src_offset": 16, "dst_offset": 128}),
    "tile, 32B": (CudaDMATile(*ROLES, 5, 32, swizzle="32B"), {}),
    "tile, 64B": (CudaDMATile(*ROLES, 12, 64, swizzle="64B"), {"dst_offset": 512}),
    "tile, 128B": (CudaDMATile(*ROLES, 16, 128, swizzle="128B"), {}),
    "words": (Words(*ROLES), {}),
    "bytes": (Bytes(*ROLES), {}),
}


@pytest.mark.parametrize("name", CORRECT)
@pytest.mark.parametrize("phases", [1, 2])
@pytest.mark.parametrize("constants", [False, True])
def test_a_correct_transfer_is_verified(name, phases, constants):
    pattern, options = CORRECT[name]
    two = phases == 2 and not isinstance(pattern, CudaDMACustom)
    report = wsemu.check_transfer(pattern, two_phase=two, constants=constants, **options)
    assert report.verdict == "verified", report.findings


@pytest.mark.parametrize("name", CORRECT)
def test_the_reference_interpreter_agrees(name):
    pattern, options = CORRECT[name]
    report = wsemu.check_transfer(pattern, engine="reference", **options)
    assert report.verdict == "verified", report.findings


@dataclass(frozen=True)
class Shifted(CudaDMATile):
    """A tile from the next 16 bytes of its rows."""

    def issue_bulk(self, src, dst, bars, k, *index):
        column, row = index
        ptx.cp_async_bulk_tensor_global_to_shared_bytes(dst, 0, src, (column + 4, row), bars, k)


@dataclass(frozen=True)
class Straight(CudaDMATile):
    """It says that pieces do not change places."""

    def placed(self, row, piece):
        return piece


WRONG = {
    "a tile from the next column": (Shifted(*ROLES, 4, 32), {"transfer-missed"}),
    "a swizzle that nobody meant": (Straight(*ROLES, 8, 128, swizzle="128B"), {"transfer-missed"}),
    "a word short": (Words(*ROLES, words=WORDS - 1), {"transfer-missed"}),
    "from the next word": (Words(*ROLES, shift=1), {"transfer-missed"}),
    "two words beyond": (Words(*ROLES, beyond=2), {"transfer-spilled"}),
    "three words twice": (Words(*ROLES, twice=3), {"transfer-duplicated"}),
    "short and twice": (Words(*ROLES, words=WORDS - 3, twice=3), {"transfer-missed", "transfer-duplicated"}),
    "the first byte of each word": (Bytes(*ROLES, step=4), {"transfer-missed"}),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_transfer_is_told(name):
    pattern, codes = WRONG[name]
    report = wsemu.check_transfer(pattern)
    found = {finding.code for finding in report.errors} - {"race", "intra-warp-race"}
    assert report.verdict == "failed"
    assert found == codes, report.findings


def test_bytes_that_only_their_number_tells_apart():
    """Each byte comes from the one 256 words before or after, whose low bytes are the same."""

    @dataclass(frozen=True)
    class Swapped(CudaDMACustom):
        def transfer(self, thread, src, dst):
            a, b = src.view(np.uint8), dst.view(np.uint8)
            for byte in range(thread, 4 * 512, self.dma_threads):
                b[byte] = a[(byte + 1024 * (byte % 4 == 0)) % 2048]

        def moves(self):
            return [(0, 0, 4 * 512)]

    report = wsemu.check_transfer(Swapped(*ROLES))
    assert [finding.code for finding in report.errors] == ["transfer-missed"]


def test_indices_that_a_scatter_has_twice():
    report = wsemu.check_transfer(CudaDMAIndirect(*ROLES, 64, 3, scatter=True), index=[4, 2, 4])
    assert "transfer-duplicated" in {finding.code for finding in report.errors}


def test_the_finding_names_the_place_and_the_byte():
    report = wsemu.check_transfer(Words(*ROLES, words=WORDS - 1))
    (finding,) = report.errors
    assert finding.message == "the transfer does not write 4 bytes of the 400 of its destination"
    assert "the first is byte 396" in finding.notes
    assert finding.sites[0].file == __file__
    (finding,) = wsemu.check_transfer(Words(*ROLES, shift=1)).errors
    assert "byte 0 holds byte 4 of the source, instead of byte 0" in finding.notes


@pytest.mark.parametrize(
    ("pattern", "options", "message"),
    [
        (CudaDMA(*ROLES), {}, "CudaDMA does not say what it transfers: write `moves()`"),
        (Words(*ROLES), {"two_phase": True}, "Words has no two phases"),
        (CudaDMASequential(*ROLES, 64, alignment=8), {"src_offset": 4}, "src_offset is 4: give a multiple of"),
        (CudaDMAIndirect(*ROLES, 64, 3), {"index": [1, 2]}, "index has 2 numbers: give one for each of the 3 elements"),
        (CudaDMAIndirect(*ROLES, 64, 3), {"index": [0.5] * 3}, "index is of float64"),
        (CudaDMAIndirect(*ROLES, 64, 3), {"index": [-1, 0, 1]}, "index has -1"),
        (CudaDMAIndirect(*ROLES, 64, 3), {}, "index is missing"),
        (CudaDMASequential(*ROLES, 64), {"index": [1]}, "index is given, but CudaDMASequential takes none"),
        (Buffers(CudaDMASequential(*ROLES, 64)), {}, "Buffers fill buffers by turns: give the pattern itself"),
        (CudaDMASequential(*ROLES, 1 << 20), {}, "bytes of shared memory, 128 of them around it: at most"),
    ],
)
def test_what_cannot_be_run_is_refused(pattern, options, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        wsemu.check_transfer(pattern, **options)


@dataclass(frozen=True)
class Scale:
    """No transfer, but an object with a method for kernels."""

    factor: int
    offset: float

    def of(self, x):
        return self.factor * x + self.offset


@cuda.jit
def scaled(scale, x):
    x[cuda.threadIdx.x] = scale.of(x[cuda.threadIdx.x])


def test_the_positional_fields_of_a_pattern_argument_are_values():
    from wsemu.launch.compiled import compile_for_types

    x = np.arange(32, dtype=np.float64)
    programs = set()
    for factor, offset in ((2, 0.5), (3, 1.5)):
        y = x.copy()
        scaled[1, 32](Scale(factor, offset), y)
        assert (y == factor * x + offset).all()
        programs.add(id(compile_for_types(scaled, (Scale(factor, offset), y), True).program))
    assert len(programs) == 1


@cuda.jit
def built_inside(elements, element_bytes, src_stride, src, dst):
    dma = CudaDMAStrided(1, 32, 32, 32, element_bytes, elements, src_stride, element_bytes, alignment=8)
    tile = cuda.shared.array(256, np.uint32, 16)
    if dma.owns_this_thread():
        dma.execute_dma(src, tile)
    else:
        dma.start_async_dma()
        dma.wait_for_dma_finish()
        for word in range(cuda.threadIdx.x, elements * element_bytes // 4, 32):
            dst[word] = tile[word]


def test_a_pattern_built_inside_a_kernel_from_run_time_values():
    src = np.arange(1024, dtype=np.uint32)
    dst = np.zeros(256, np.uint32)
    report = wsemu.check(built_inside, 1, 64, (5, 24, 48, src, dst))
    report.assert_clean()
    assert (dst[:30] == src[:60].reshape(5, 12)[:, :6].ravel()).all()


@cuda.jit
def gathers_by_shared_indices(src, index, dst):
    tile = cuda.shared.array(32, np.float32, 16)
    chosen = cuda.shared.array(8, np.int32)
    thread = cuda.threadIdx.x
    if thread < 8:
        chosen[thread] = index[thread]
    cuda.syncthreads()
    if GATHER.owns_this_thread():
        GATHER.execute_dma(src, tile, chosen)
    else:
        GATHER.start_async_dma()
        GATHER.wait_for_dma_finish()
        dst[thread] = tile[thread]


GATHER = CudaDMAIndirect(1, 32, 32, 32, 16, 8, alignment=16)


def test_indices_in_shared_memory():
    src, dst = np.arange(256, dtype=np.float32), np.zeros(32, np.float32)
    index = np.array([60, 3, 3, 0, 63, 1, 2, 5], np.int32)
    wsemu.check(gathers_by_shared_indices, 1, 64, (src, index, dst)).assert_clean()
    assert (dst == src.reshape(64, 4)[index].ravel()).all()


@pytest.mark.parametrize("width", [4, 8, 16])
def test_untyped_accesses_move_bits(width):
    @cuda.jit
    def copy(x, y):
        byte = cuda.threadIdx.x * width
        ptx.st_bytes(y, byte, ptx.ld_bytes(x, byte, width, "cs"), "wt")

    x = np.frombuffer(np.random.default_rng(1).bytes(32 * width), np.float32).copy()
    y = np.zeros_like(x)
    report = wsemu.check(copy, 1, 32, (x, y))
    report.assert_clean()
    assert x.tobytes() == y.tobytes()
    assert report.counters.global_load_sectors == width


def test_plan_tells_ways_steps_and_costs():
    plan = CudaDMAStrided(*ROLES, 1024, 4, 2048, 1024, alignment=16).plan()
    assert plan.parts[0]["way"] == "full"
    assert (plan.steps, plan.sectors, plan.ideal_sectors, plan.wavefronts) == (1, 128, 128, 32)
    assert plan.loads == {16: 8} == plan.stores
    assert CudaDMAStrided(*ROLES, 4000, 3, 4000, 4000, bytes_per_thread=4).plan().parts[0]["way"] == "big"
    text = str(CudaDMAHalo(*ROLES, 4, 32, 8, 4, 224).plan())
    assert "rows: split" in text
    assert "flanks: split" in text


class Wordy(CudaDMACustom):
    def transfer(self, thread, src, dst):
        dst[thread + 1000] = src[thread]

    def moves(self):
        return [(0, 0, 128)]


@pytest.mark.parametrize(
    ("moves", "said"),
    [(lambda _: None, "moves() gives a NoneType: give a list"), (lambda _: [128], "moves() has 128: give (offset in")],
)
def test_moves_of_another_form_are_refused(moves, said):
    pattern = type("Other", (Wordy,), {"moves": moves})(1, 32, 32, 32)
    with pytest.raises(UsageError) as caught:
        wsemu.check_transfer(pattern)
    assert str(caught.value).startswith(said)


def test_a_class_is_no_pattern():
    with pytest.raises(UsageError, match=r"`Wordy` is a class: give an object of it, `Wordy\(...\)`"):
        wsemu.check_transfer(Wordy)


def test_a_finding_shows_the_users_lines_alone():
    found = wsemu.check_transfer(Wordy(1, 32, 32, 32)).errors[0]
    assert {site.file for site in found.sites} == {__file__}
