"""The base object of the transfer patterns: its parameters and its four calls."""

from __future__ import annotations

import re

import numpy as np
import pytest

import wsemu
from wsemu import cuda
from wsemu.model.errors import UsageError
from wsemu.patterns.base import CudaDMA


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ((8, 32, 32, 32), "dma_id is 8: give 0 to 7, two of the 16 named barriers each"),
        ((-1, 32, 32, 32), "dma_id is -1: give 0 to 7"),
        ((0, 33, 32, 32), "dma_threads is 33: give a positive multiple of 32, such as 64"),
        ((0, 0, 32, 32), "dma_threads is 0: give a positive multiple of 32, such as 32"),
        ((0, 32, 100, 32), "compute_threads is 100: give a positive multiple of 32, such as 128"),
        ((0, 32, 32, 40), "first_dma_thread is 40: give a multiple of 32, such as 64"),
        ((0, 32, 32, -32), "first_dma_thread is -32: give a multiple of 32"),
        ((0, 64, 32, 992), "DMA threads 992 to 1055: a CTA has at most 1024; lower first_dma_thread or dma_threads"),
        ((0, 512, 544, 0), "dma_threads 512 and compute_threads 544: a CTA has at most 1024 together"),
        ((0, 32.0, 32, 32), "dma_threads is 32.0, of type float: give an int"),
        ((True, 32, 32, 32), "dma_id is True, of type bool: give an int"),
    ],
)
def test_a_wrong_parameter_is_named_with_its_remedy(parameters, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        CudaDMA(*parameters)


@pytest.mark.parametrize("dma_id", range(8))
@pytest.mark.parametrize("engine", ["vm", "reference"])
def test_the_four_calls_hand_a_buffer_over_and_back(dma_id, engine):
    dma = CudaDMA(dma_id, 64, 32, 32)

    @cuda.jit
    def shift(x, y):
        tile = cuda.shared.array(64, np.int32)
        thread = cuda.threadIdx.x
        if dma.owns_this_thread():
            dma.wait_for_dma_start()
            for first in range(0, x.size, 64):
                tile[thread - 32] = x[first + thread - 32]
                dma.finish_async_dma()
                dma.wait_for_dma_start()
        else:
            dma.start_async_dma()
            for first in range(0, x.size, 64):
                dma.wait_for_dma_finish()
                y[first + thread] = tile[63 - thread]
                y[first + 32 + thread] = tile[31 - thread]
                dma.start_async_dma()

    x = np.arange(256, dtype=np.int32)
    y = np.zeros_like(x)
    report = wsemu.check(shift, 1, 96, (x, y), engine=engine)
    assert (report.verdict, report.findings) == ("verified", [])
    np.testing.assert_array_equal(y, x.reshape(4, 64)[:, ::-1].ravel())


def test_the_barriers_are_those_of_the_c_library():
    """full = 2 dma_id, empty = 2 dma_id + 1, both of all DMA and compute threads."""
    dma = CudaDMA(3, 32, 64, 64)

    @cuda.jit
    def stuck():
        if dma.owns_this_thread():
            dma.wait_for_dma_start()
        else:
            dma.wait_for_dma_finish()

    (finding,) = wsemu.check(stuck, 1, 96).findings
    labels = " / ".join(site.text for site in finding.sites)
    assert "barrier 6 generation 0 has 64 of 96" in labels
    assert "barrier 7 generation 0 has 32 of 96" in labels
