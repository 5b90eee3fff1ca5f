"""Which lanes load what was never written, where lanes lie apart: for elements of every size, on both engines."""

from __future__ import annotations

import numpy as np
import pytest

from wsemu import cuda, ptx
from wsemu.launch.binding import bind
from wsemu.launch.compiled import compile_for_types
from wsemu.machine import run as execution
from wsemu.reference import run as reference

LANE = np.arange(32)


def of(dtype):
    @cuda.jit
    def stores_and_loads(place, written, y):
        tile = cuda.shared.array(256, dtype)
        t = cuda.threadIdx.x
        if (written >> t) & 1:
            tile[place[t]] = 1
        cuda.syncthreads()
        y[t] = tile[place[t]]

    return stores_and_loads


of_1, of_2, of_4, of_8 = (of(dtype) for dtype in (np.int8, np.int16, np.float32, np.float64))


@cuda.jit
def of_16(place, written, y):
    tile = cuda.shared.array(1024, np.float32)
    t = cuda.threadIdx.x
    one = np.float32(1)
    if (written >> t) & 1:
        ptx.st_v4(tile, 4 * place[t], (one, one, one, one))
    else:
        tile[4 * place[t] + 1] = one
    cuda.syncthreads()
    a, b, c, d = ptx.ld_v4(tile, 4 * place[t])
    y[t] = a + b + c + d


def findings(engine, kernel, arguments):
    program, names, _ = compile_for_types(kernel, arguments, True)
    rows, memory, _ = bind(program, arguments, names)
    shape = (program, (1, 1, 1), (32, 1, 1), rows, memory.segments)
    return [(f.code, f.lanes, f.detail) for f in engine.run(*shape).findings]


@pytest.mark.parametrize("kernel", [of_1, of_2, of_4, of_8, of_16])
@pytest.mark.parametrize("written", [0xFFF0FFEF, 0xFFFFFFFF, 0])
def test_the_lanes_that_load_what_nobody_wrote_are_named(kernel, written):
    arguments = (LANE * 7 % 256, written, np.zeros(32))
    vm, other = (findings(engine, kernel, arguments) for engine in (execution, reference))
    assert vm == other
    assert [lanes for _, lanes, _ in vm] == [~written & 0xFFFFFFFF] * (written != 0xFFFFFFFF)
