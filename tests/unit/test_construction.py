"""Pattern objects that a kernel makes, and calls of patterns with the wrong arguments."""

from __future__ import annotations

import traceback
from typing import Any

import numpy as np
import pytest

import wsemu
from wsemu import cuda
from wsemu.frontend.python import trial
from wsemu.model.errors import KernelError, UsageError
from wsemu.patterns import CudaDMAHalo, CudaDMAIndirect, CudaDMASequential, CudaDMAStrided

GATHER = CudaDMAIndirect(1, 32, 32, 32, 16, 4)
SIDE_BY_SIDE = CudaDMASequential(1, 32, 32, 32, 128)


@cuda.jit
def unspecialized(x, y, threads):
    tile = cuda.shared.array(64, np.float32)
    dma = CudaDMASequential.unspecialized(threads, 256, alignment=16)
    dma.execute_dma_no_sync(x, tile)
    cuda.syncthreads()
    y[cuda.threadIdx.x] = tile[63 - cuda.threadIdx.x]


@cuda.jit
def unspecialized_constant(x, y, _):
    tile = cuda.shared.array(64, np.float32)
    dma = CudaDMASequential.unspecialized(64, 256, alignment=16)
    dma.execute_dma_no_sync(x, tile)
    cuda.syncthreads()
    y[cuda.threadIdx.x] = tile[63 - cuda.threadIdx.x]


@pytest.mark.parametrize("kernel", [unspecialized, unspecialized_constant])
def test_unspecialized_in_a_kernel(run, kernel: Any) -> None:
    x = np.arange(64, dtype=np.float32)
    y = np.zeros_like(x)
    run(kernel, 64, x, y, 64).assert_clean()
    assert (y == x[::-1]).all()


def unknown_field(n):
    CudaDMAStrided(1, 32, 32, 32, 128, 2, n, 128, aligment=4)  # type: ignore[call-arg]


def too_many_fields(n):
    CudaDMASequential(1, 32, 32, 32, 128, 3)  # type: ignore[call-arg]


def known_field(n):
    CudaDMAStrided(1, 33, 64, 64, 128, 2, 4 * n, 128)


def known_option(n):
    CudaDMAStrided(1, 32, n, n, 128, 2, 4 * n, 128, alignment=5)


def one_of_two(n):
    CudaDMAStrided(1, 32, 64, 64, 128, 2, n, 64)


def in_constants(n):
    CudaDMASequential(1, 32, 64, 32, 128)


@pytest.mark.parametrize(
    ("body", "message", "remedy"),
    [
        (unknown_field, "no field `aligment`", "did you mean `alignment`? its fields are dma_id, "),
        (too_many_fields, "6 arguments by position, for 5 fields", "its fields are dma_id, "),
        (known_field, "dma_threads is 33", "give a positive multiple of 32, such as 64"),
        (known_option, "alignment is 5", "give one of 4, 8, 16"),
        (one_of_two, "dst_stride is 64, element_bytes 128", "elements would overlap; give dst_stride 128 or more"),
        (in_constants, "DMA threads 32 to 63 overlap the compute threads 0 to 63", "give first_dma_thread=64, or "),
    ],
)
def test_fields_that_a_pattern_refuses(body: Any, message: str, remedy: str) -> None:
    with pytest.raises(KernelError) as caught:
        wsemu.check(cuda.jit(body), 1, 96, (16,))
    assert message in caught.value.message
    assert caught.value.remedy.startswith(remedy)
    assert caught.value.span is not None
    assert caught.value.span.line == body.__code__.co_firstlineno + 1


def test_fields_that_may_do_are_not_refused() -> None:
    unknown = ("dma_threads", "first_dma_thread", "src_pitch")
    known = {**vars(CudaDMAHalo(1, 32, 32, 32, 4, 8, 8, 1, 64)), "alignment": 4}
    for name in unknown:
        del known[name]
    assert trial.refusal(CudaDMAHalo, known, unknown) is None
    error = trial.refusal(CudaDMAHalo, {**known, "radius": 9}, unknown)
    assert str(error).startswith("radius is 9: give one of 1, 2,")


def surplus(x, y):
    SIDE_BY_SIDE.execute_dma(x, y, x)


def no_index(x, y):
    GATHER.execute_dma(x, y)


def no_destination(x, y):
    GATHER.execute_dma(x)  # type: ignore[call-arg]


def no_parameter(x, y):
    GATHER.start_async_dma(x)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("body", "message", "remedy"),
    [
        (surplus, "`execute_dma` of this pattern takes 2 arguments, not 3", "its arguments are (src, dst)"),
        (no_index, "`execute_dma` of this pattern lacks `index`", "its arguments are (src, dst, index)"),
        (no_destination, "`execute_dma` lacks its argument `dst`", "its parameters are (src, dst)"),
        (no_parameter, "`start_async_dma` takes 0 arguments, not 1", "call it with `()`"),
    ],
)
def test_wrong_arguments_are_told_of_the_call_as_it_is_written(body: Any, message: str, remedy: str) -> None:
    x = np.zeros(64, np.float32)
    with pytest.raises(KernelError) as caught:
        wsemu.check(cuda.jit(body), 1, 64, (x, x))
    error = caught.value
    assert (error.message, error.remedy) == (message, remedy)
    assert error.span is not None
    assert (error.span.file, error.span.line) == (__file__, body.__code__.co_firstlineno + 1)


@pytest.mark.parametrize(
    "call",
    [
        lambda: cuda.jit(no_index)[1, 64](np.zeros(4), np.zeros(4)),
        lambda: cuda.jit(no_index)[1, 2048],
        lambda: wsemu.check(cuda.jit(no_index), 1, 64),
        lambda: wsemu.check_transfer(3),
    ],
)
def test_a_traceback_ends_where_wsemu_was_called(call: Any) -> None:
    with pytest.raises((KernelError, UsageError)) as caught:
        call()
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert [frame.filename for frame in frames].count(__file__) == len(frames) - 1
    assert caught.value.__suppress_context__
