"""A fixed list of transfers, pipelines, constructions and plans, which distinguish a broken pattern from a correct one.

    for trial in trials("strided.py"):
        why = trial.run(patterns)        # `` if all is right, else `checker: race`, `result`, `error: ...`, `cost`

`patterns` is the module `wsemu.patterns`, or a changed copy of it.  A trial refers to patterns by source text, since
their classes belong to that module.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import wsemu
from wsemu import cuda
from wsemu.model import settings
from wsemu.model.errors import UsageError

TILE = 96
"""words of a tile"""
COMPUTE, DMA = 64, 96
MOST_STAGES = 4
STRICT = settings.Settings(budget=400_000, fail_on=frozenset({"dangling-arrive"}))
"""settings of a launch: a limit on warp instructions, several times what the longest launch needs; an arrival that is
left over counts as an error"""


@dataclass(frozen=True)
class Trial:
    """One test: the files of `patterns` that it covers, its name, and its function."""

    about: tuple[str, ...]
    name: str
    run: Callable[[Any], str]


def checked(report: wsemu.Report) -> str:
    """Return why a report shows an error, although the launch should be verified."""
    if report.verdict == "verified":
        return ""
    return f"checker: {report.errors[0].code if report.errors else report.verdict}"


def made(patterns: Any, text: str) -> Any:
    """Return the object that the expression `text` creates, with the names of `patterns`."""
    return eval(text, {**vars(patterns), "ROLES": (1, 64, 64, 64)})  # our own text, below


# -- one transfer ------------------------------------------------------------------------------------------------------
ONCE = """
sequential  CudaDMASequential(*ROLES, 1000)
sequential  CudaDMASequential(*ROLES, 1004, alignment=16)                       src_offset=16
sequential  CudaDMASequential(*ROLES, 20, alignment=8)
sequential  CudaDMASequential(2, 96, 32, 0, 2048, first_compute_thread=96, bytes_per_thread=4)
sequential  CudaDMASequential.unspecialized(96, 1500, alignment=4)
strided     CudaDMAStrided(*ROLES, 52, 9, 64, 80, alignment=16, load="cs", store="cg")
sequential  CudaDMASequential(*ROLES, 68, alignment=16)
strided     CudaDMAStrided(*ROLES, 36, 5, 40, 40, alignment=8)
strided     CudaDMAStrided(*ROLES, 16, 4, -32, 16)
strided     CudaDMAStrided(*ROLES, 16, 4, 0, 16)
strided     CudaDMAStrided(*ROLES, 4, 70, 8, 4)
strided     CudaDMAStrided(*ROLES, 128, 5, 256, 132)
strided     CudaDMAStrided(*ROLES, 132, 5, 256, 132)
strided     CudaDMAStrided(*ROLES, 64, 7, 64, 80, alignment=16, bytes_per_thread=16)
strided     CudaDMAStrided(*ROLES, 1000, 5, 1024, 1008, alignment=8)
strided     CudaDMAStrided(*ROLES, 4000, 3, 4000, 4000, bytes_per_thread=4)     dst_offset=12
strided     CudaDMAStrided(*ROLES, 76, 1, 0, 0, alignment=16)
strided     CudaDMAStrided(3, 96, 64, 64, 260, 6, 264, 264, bytes_per_thread=4)
strided     CudaDMAStrided.unspecialized(64, 44, 6, 48, 64, alignment=16)
strided     CudaDMAStrided(0, 128, 128, 128, 20, 33, 24, 24, alignment=8)
indirect    CudaDMAIndirect(*ROLES, 64, 5, alignment=16)                        index=[4,2,4,0,1,3]
indirect    CudaDMAIndirect(*ROLES, 8, 5, 24, alignment=8)                      index=[4,2,9,0,1]
indirect    CudaDMAIndirect(*ROLES, 1200, 3, 1216, alignment=16)                index=[2,0,1]
indirect    CudaDMAIndirect(*ROLES, 64, 3, scatter=True)                        index=[4,2,0]
indirect    CudaDMAIndirect(*ROLES, 16, 3, 8, alignment=8, scatter=True)        index=[2,1,0]
indirect    CudaDMAIndirect(*ROLES, 16, 70, 20, scatter=True)                   index=[*range(70,140)]
indirect    CudaDMAIndirect.unspecialized(64, 32, 4)                            index=[3,3,0,1]
halo        CudaDMAHalo(*ROLES, 4, 9, 8, 4, 100)
halo        CudaDMAHalo(*ROLES, 4, 1, 1, 1, 32)
halo        CudaDMAHalo(*ROLES, 16, 3, 2, 8, 400, alignment=16, corners=True)
halo        CudaDMAHalo(*ROLES, 8, 40, 3, 2, 512, alignment=16, bytes_per_thread=16)
halo        CudaDMAHalo(*ROLES, 4, 32, 16, 4, 224, alignment=8, corners=True)
halo        CudaDMAHalo.unspecialized(64, 4, 5, 4, 3, 64)
""".strip().splitlines()
"""the file, the pattern, and further arguments of `check_transfer`"""


def once(text: str, two_phase: bool, constants: bool) -> Trial:
    about, pattern, options = parts(text)
    name = f"{pattern} {options}{' in two phases' * two_phase}{' compiled in' * constants}"

    def run(patterns: Any) -> str:
        given = made(patterns, f"dict({options})")
        with settings.using(STRICT):
            report = wsemu.check_transfer(made(patterns, pattern), two_phase=two_phase, constants=constants, **given)
        return checked(report)

    return Trial((f"{about}.py",), name, run)


def parts(text: str) -> tuple[str, str, str]:
    about, rest = text.split(maxsplit=1)
    end = rest.rindex(")") + 1 if rest.endswith(")") else rest.rindex(")  ") + 1 if ")  " in rest else len(rest)
    return about, rest[:end], rest[end:].strip()


# -- many transfers, one after the other -------------------------------------------------------------------------------
def pipeline(buffers: Any, two_phase: bool) -> Any:
    """Return a kernel with the producer loop and the consumer loop of `Buffers`, known at compile time."""

    @cuda.jit
    def kernel(tiles, x, y):
        tile = cuda.shared.array((MOST_STAGES, TILE), np.float32, 16)
        if cuda.threadIdx.x < COMPUTE:
            buffers.start()
            for i in range(tiles):
                buffers.wait_for_dma_finish(i)
                for word in range(cuda.threadIdx.x, TILE, COMPUTE):
                    y[i * TILE + word] = 2 * tile[buffers.buffer(i), TILE - 1 - word]
                buffers.start_async_dma(i, tiles)
        elif buffers.owns_this_thread():
            for i in range(buffers.first_tile(), tiles, buffers.tile_step()):
                source, destination = x[i * TILE :], tile[buffers.buffer(i)]
                if two_phase:
                    registers = cuda.local.array(16, np.uint8, 16)
                    buffers.start_xfer_async(source, registers)
                    buffers.wait_xfer_finish(i, tiles, source, destination, registers)
                else:
                    buffers.execute_dma(i, tiles, source, destination)
            buffers.finish()

    return kernel


def pipeline_of_argument() -> Any:
    """Return the same kernel with the buffers as an argument."""

    @cuda.jit
    def kernel(buffers, tiles, x, y):
        tile = cuda.shared.array((MOST_STAGES, TILE), np.float32, 16)
        if cuda.threadIdx.x < COMPUTE:
            buffers.start()
            for i in range(tiles):
                buffers.wait_for_dma_finish(i)
                for word in range(cuda.threadIdx.x, TILE, COMPUTE):
                    y[i * TILE + word] = 2 * tile[buffers.buffer(i), TILE - 1 - word]
                buffers.start_async_dma(i, tiles)
        elif buffers.owns_this_thread():
            for i in range(buffers.first_tile(), tiles, buffers.tile_step()):
                buffers.execute_dma(i, tiles, x[i * TILE :], tile[buffers.buffer(i)])
            buffers.finish()

    return kernel


def one_by_one(dma: Any, way: str) -> Any:
    """Return a kernel that runs a pattern alone, round after round, in one call or in two phases; or its transfer, with
    the four calls around it."""
    at_once, two_phase = way == "at once", way == "two phases"

    @cuda.jit
    def kernel(tiles, x, y):
        tile = cuda.shared.array(TILE, np.float32, 16)
        if dma.owns_this_thread():
            for i in range(tiles):
                if at_once:
                    dma.execute_dma(x[i * TILE :], tile)
                elif two_phase:
                    registers = cuda.local.array(16, np.uint8, 16)
                    dma.start_xfer_async(x[i * TILE :], registers)
                    dma.wait_xfer_finish(x[i * TILE :], tile, registers)
                else:
                    dma.wait_for_dma_start()
                    dma.execute_dma_no_sync(x[i * TILE :], tile)
                    dma.finish_async_dma()
            dma.wait_for_dma_start()
        else:
            thread = cuda.threadIdx.x - dma.first_compute_thread
            dma.start_async_dma()
            for i in range(tiles):
                dma.wait_for_dma_finish()
                for word in range(thread, TILE, COMPUTE):
                    y[i * TILE + word] = 2 * tile[TILE - 1 - word]
                dma.start_async_dma()

    return kernel


def by_everybody(dma: Any) -> Any:
    """Return a kernel without DMA warps, in which the four calls do nothing."""

    @cuda.jit
    def kernel(tiles, x, y):
        tile = cuda.shared.array(TILE, np.float32, 16)
        dma.start_async_dma()
        for i in range(tiles):
            dma.execute_dma(x[i * TILE :], tile)
            dma.wait_for_dma_finish()
            cuda.syncthreads()
            for word in range(cuda.threadIdx.x, TILE, COMPUTE):
                y[i * TILE + word] = 2 * tile[TILE - 1 - word]
            cuda.syncthreads()

    return kernel


def launched(kernel: Any, threads: int, tiles: int, *first: Any) -> str:
    """Return the outcome of a launch with this number of tiles."""
    x = np.arange(1, tiles * TILE + 1, dtype=np.float32)
    y = np.zeros(max(tiles, 1) * TILE, np.float32)
    x = x if tiles else np.zeros(1, np.float32)
    with settings.using(STRICT):
        report = wsemu.check(kernel, 1, threads, (*first, tiles, x, y))
    right = 2 * x.reshape(tiles, TILE)[:, ::-1].ravel() if tiles else np.zeros_like(y)
    return checked(report) or ("" if (y == right).all() else "result")


BUFFERS = """
Buffers.single({})
Buffers.manual_double({})
Buffers.double({})
Buffers({}, 4, 2)
Buffers({}, 4)
Buffers({}, 3, 3, 3)
Buffers({}, stages=3)
""".strip().splitlines()
FILL = f"CudaDMASequential({{}}, {DMA}, {COMPUTE}, {COMPUTE}, {4 * TILE}, bytes_per_thread=4 * 4)"
TRIPS = (0, 1, 2, 3, 7)


def buffered(text: str, tiles: int, way: str) -> Trial:
    def run(patterns: Any) -> str:
        buffers = made(patterns, text.format(FILL.format(2 if tiles == 7 else 1)))
        threads = patterns.block_size(buffers) + 32  # one more warp, which does not participate
        if way == "argument":
            return launched(pipeline_of_argument(), threads, tiles, buffers)
        return launched(pipeline(buffers, way == "two phases"), threads, tiles)

    return Trial(("buffers.py",), f"{text}, {tiles} tiles, {way}", run)


def in_turn(roles: str, way: str) -> Trial:
    text = f"CudaDMASequential{roles}"

    def run(patterns: Any) -> str:
        dma = made(patterns, text)
        kernel = by_everybody(dma) if way == "everybody" else one_by_one(dma, way)
        return launched(kernel, patterns.block_size(dma), 3)

    return Trial(("base.py", "transfer.py"), f"{text} {way}", run)


# -- constructions and plans -------------------------------------------------------------------------------------------
CONSTRUCTIONS = """
CudaDMA(0, 32, 32, 32)
CudaDMA(7, 32, 992, 992)
CudaDMA(7, 32, 992, 960)
CudaDMA(1, 512, 544, 0, first_compute_thread=512)
CudaDMA(1, 512, 512, 512)
CudaDMA(8, 32, 32, 32)
CudaDMA(-1, 32, 32, 32)
CudaDMA(1, 0, 32, 32)
CudaDMA(1, 33, 32, 64)
CudaDMA(1, 32, 0, 32)
CudaDMA(1, 32, 40, 64)
CudaDMA(1, 32, 32, -32)
CudaDMA(1, 32, 32, 40)
CudaDMA(1, 32, 32, 32, first_compute_thread=-32)
CudaDMA(1, 32, 32, 0, first_compute_thread=8)
CudaDMA(1, 64, 32, 992)
CudaDMA(1, 64, 32, 960)
CudaDMA(1, 64, 64, 32)
CudaDMA(1, 64, 64, 0)
CudaDMA(1, 64, 64, 128, first_compute_thread=64)
CudaDMA(1, 64, 64, 96, first_compute_thread=128)
CudaDMA(1, 64, 64, 32, first_compute_thread=96)
CudaDMA(1, 64, 64, 160, first_compute_thread=96)
CudaDMA(1, 64, 64, 192, first_compute_thread=128)
CudaDMA(1, 32, 32, 0, first_compute_thread=64)
CudaDMA(1, 1.0, 32, 32)
CudaDMA(1, 32, 32, 32, specialized=1)
CudaDMA.unspecialized(64)
CudaDMA.unspecialized(1024)
CudaDMA.unspecialized(1056)
block_size()
block_size(CudaDMA(1, 32, 64, 64))
block_size(CudaDMA(1, 32, 64, 0, first_compute_thread=32))
block_size(CudaDMA(1, 32, 64, 64), CudaDMA(2, 32, 64, 96))
block_size(CudaDMA(1, 32, 64, 96), CudaDMA(2, 32, 64, 64))
block_size(CudaDMA(1, 32, 64, 64), CudaDMA(2, 32, 64, 64))
block_size(CudaDMA(1, 32, 64, 64), CudaDMA(1, 32, 64, 96))
block_size(CudaDMA(1, 64, 64, 64), CudaDMA(2, 64, 64, 96))
block_size(CudaDMA(2, 64, 64, 96), CudaDMA(1, 64, 64, 64))
block_size(CudaDMA(1, 64, 64, 64), CudaDMA(2, 32, 64, 64))
block_size(CudaDMA(1, 64, 64, 64), CudaDMA(2, 32, 64, 128))
block_size(CudaDMA(1, 32, 64, 64), CudaDMA(2, 32, 32, 128, first_compute_thread=64))
block_size(CudaDMA(2, 32, 32, 128, first_compute_thread=64), CudaDMA(1, 32, 64, 64))
block_size(CudaDMA(2, 32, 32, 128, first_compute_thread=96), CudaDMA(1, 32, 64, 64))
block_size(CudaDMA(2, 32, 32, 160, first_compute_thread=128), CudaDMA(1, 64, 64, 64))
block_size(CudaDMA(2, 32, 64, 160, first_compute_thread=96), CudaDMA(1, 64, 64, 64))
block_size(CudaDMA.unspecialized(64), CudaDMA.unspecialized(64))
block_size(CudaDMA.unspecialized(64), CudaDMA(0, 64, 64, 64))
block_size(CudaDMA(0, 64, 64, 64), CudaDMA.unspecialized(64))
block_size(CudaDMA(0, 64, 64, 64), CudaDMA.unspecialized(128))
block_size(CudaDMA.unspecialized(128), CudaDMA(1, 64, 64, 64))
block_size(*(CudaDMA(n, 32, 64, 64) for n in range(8)))
block_size(*(CudaDMA(n % 8, 32, 64, 64) for n in range(9)))
block_size(Buffers.double(CudaDMASequential(1, 32, 64, 64, 64)), CudaDMA(3, 32, 64, 128))
block_size(Buffers.double(CudaDMASequential(1, 32, 64, 64, 64)), CudaDMA(3, 32, 64, 96))
block_size(Buffers.double(CudaDMASequential(1, 32, 64, 64, 64)), CudaDMA(3, 64, 64, 96))
CudaDMASequential(1, 32, 32, 32, 0)
CudaDMASequential(1, 32, 32, 32, 4)
CudaDMASequential(1, 32, 32, 32, 6)
CudaDMASequential(1, 32, 32, 32, 15)
CudaDMASequential(1, 32, 32, 32, 20)
CudaDMASequential(1, 32, 32, 32, -4)
CudaDMASequential(1, 32, 32, 32, 64, alignment=2)
CudaDMASequential(1, 32, 32, 32, 64, alignment=16)
CudaDMASequential(1, 32, 32, 32, 64, alignment=8, bytes_per_thread=12)
CudaDMASequential(1, 32, 32, 32, 64, alignment=8, bytes_per_thread=24)
CudaDMASequential(1, 32, 32, 32, 64, alignment=8, bytes_per_thread=-8)
CudaDMASequential(1, 32, 32, 32, 64, load="wb")
CudaDMASequential(1, 32, 32, 32, 64, store="cs")
CudaDMASequential(1, 32, 32, 32, True)
CudaDMAStrided(1, 32, 32, 32, 6, 4, 16, 16)
CudaDMAStrided(1, 32, 32, 32, 20, 4, 20, 20)
CudaDMAStrided(1, 32, 32, 32, 15, 4, 20, 20)
CudaDMAStrided(1, 32, 32, 32, 20, 0, 20, 20)
CudaDMAStrided(1, 32, 32, 32, 20, 1, 20, 16)
CudaDMAStrided(1, 32, 32, 32, 20, 2, 20, 16)
CudaDMAStrided(1, 32, 32, 32, 20, 3, 20, 16)
CudaDMAStrided(1, 32, 32, 32, 20, 1, 0, 16, alignment=16)
CudaDMAStrided(1, 32, 32, 32, 20, 2, 0, 16, alignment=16)
CudaDMAStrided(1, 32, 32, 32, 36, 2, 0, 32, alignment=8)
CudaDMAStrided(1, 32, 32, 32, 20, 2, 24, 32, alignment=16)
CudaDMAStrided(1, 32, 32, 32, 20, 2, 32, 40, alignment=16)
CudaDMAStrided(1, 32, 32, 32, 20, 2, 40, 32, alignment=8)
CudaDMAIndirect(1, 32, 32, 32, 12, 4, alignment=8)
CudaDMAIndirect(1, 32, 32, 32, 8, 0, alignment=8)
CudaDMAIndirect(1, 32, 32, 32, 8, 1, alignment=8)
CudaDMAIndirect(1, 32, 32, 32, 8, 2, 12, alignment=8)
CudaDMAIndirect(1, 32, 32, 32, 16, 2, 8, alignment=8)
CudaDMAIndirect(1, 32, 32, 32, 16, 2, 16, alignment=8)
CudaDMAIndirect(1, 32, 32, 32, 16, 2, 8, alignment=8, scatter=True)
CudaDMAIndirect(1, 32, 32, 32, 16, 2, scatter=0)
CudaDMAIndirect(1, 32, 32, 32, 16, 2, load="nc")
CudaDMAIndirect(1, 32, 32, 32, 16, 2, load="nc", scatter=True)
CudaDMAIndirect(1, 32, 32, 32, 4, 2, -4)
CudaDMAHalo(1, 32, 32, 32, 4, 8, 8, 4, 64)
CudaDMAHalo(1, 32, 32, 32, 12, 8, 8, 4, 64)
CudaDMAHalo(1, 32, 32, 32, 8, 8, 8, 4, 64)
CudaDMAHalo(1, 32, 32, 32, 16, 8, 8, 4, 64)
CudaDMAHalo(1, 32, 32, 32, 4, 0, 8, 4, 64)
CudaDMAHalo(1, 32, 32, 32, 4, 1, 1, 1, 64)
CudaDMAHalo(1, 32, 32, 32, 4, 8, 0, 4, 64)
CudaDMAHalo(1, 32, 32, 32, 4, 8, 8, 0, 64)
CudaDMAHalo(1, 32, 32, 32, 4, 8, 8, 8, 64)
CudaDMAHalo(1, 32, 32, 32, 4, 8, 8, 9, 64)
CudaDMAHalo(1, 32, 32, 32, 4, 8, 8, 3, 64, alignment=8)
CudaDMAHalo(1, 32, 32, 32, 4, 7, 8, 4, 64, alignment=8)
CudaDMAHalo(1, 32, 32, 32, 4, 8, 8, 4, 68, alignment=8)
CudaDMAHalo(1, 32, 32, 32, 4, 8, 8, 4, 64, corners=1)
CudaDMAIndirect(1, 32, 32, 32, 8, 2, 4)
Buffers(CudaDMA(1, 32, 32, 32))
Buffers(type("Other", (), {"transfer": None})())
Buffers(CudaDMASequential.unspecialized(64, 64))
Buffers(CudaDMASequential(1, 32, 32, 32, 64), 0)
Buffers(CudaDMASequential(1, 32, 32, 32, 64), 1, 0)
Buffers(CudaDMASequential(1, 32, 32, 32, 64), 3, 2)
Buffers(CudaDMASequential(1, 32, 32, 32, 64), 2, 3)
Buffers(CudaDMASequential(1, 32, 32, 32, 64), 4, 2, 2)
Buffers(CudaDMASequential(1, 32, 32, 32, 64), 2, 2, 0)
Buffers(CudaDMASequential(1, 32, 32, 32, 64), 4, 2, 4)
Buffers(CudaDMASequential(1, 32, 32, 32, 64), 3, 3, 3)
Buffers(CudaDMASequential(6, 32, 32, 32, 64), 2, 2)
Buffers(CudaDMASequential(6, 32, 32, 32, 64), 3, 3)
Buffers(CudaDMASequential(1, 32, 32, 960, 64), 2, 2, 2)
Buffers(CudaDMASequential(1, 32, 32, 992, 64), 2, 2, 2)
Buffers.single(CudaDMASequential(1, 32, 32, 32, 64))
Buffers.double(CudaDMASequential(1, 32, 32, 32, 64))
Buffers.double(CudaDMASequential(1, 32, 32, 32, 64)).objects()
Buffers.manual_double(CudaDMASequential(1, 32, 32, 32, 64)).objects()
""".strip().splitlines()
"""expression -> the object, or the error that is raised instead"""

PLANS = """
CudaDMASequential(*ROLES, 4096, alignment=16)
CudaDMASequential(*ROLES, 12, alignment=16)
CudaDMAStrided(*ROLES, 52, 9, 64, 80, alignment=16)
CudaDMAStrided(*ROLES, 4, 70, 8, 4)
CudaDMAStrided(*ROLES, 8, 40, 8, 8)
CudaDMAStrided(*ROLES, 12, 40, 12, 12)
CudaDMAStrided(*ROLES, 16, 40, 16, 16)
CudaDMAStrided(*ROLES, 20, 40, 20, 20)
CudaDMAStrided(*ROLES, 32, 40, 32, 32)
CudaDMAStrided(*ROLES, 36, 40, 36, 36)
CudaDMAStrided(*ROLES, 64, 8, 64, 64)
CudaDMAStrided(*ROLES, 68, 8, 68, 68)
CudaDMAStrided(*ROLES, 128, 8, 128, 128)
CudaDMAStrided(*ROLES, 132, 8, 132, 132)
CudaDMAStrided(*ROLES, 132, 8, 132, 132, bytes_per_thread=4)
CudaDMAStrided(*ROLES, 512, 4, 512, 512)
CudaDMAStrided(*ROLES, 516, 4, 516, 516)
CudaDMAStrided(*ROLES, 1024, 4, 2048, 1024, alignment=16)
CudaDMAStrided(1, 128, 64, 64, 260, 6, 264, 264, bytes_per_thread=4)
CudaDMAStrided(*ROLES, 4000, 3, 4000, 4000, bytes_per_thread=4)
CudaDMAIndirect(*ROLES, 64, 5, alignment=16)
CudaDMAHalo(*ROLES, 4, 32, 16, 4, 224, alignment=16)
CudaDMAHalo(*ROLES, 4, 9, 8, 4, 100, corners=True)
""".strip().splitlines()
"""plans of transfers; they show whether a transfer costs more than before"""

_right: dict[str, str] = {}
"""results of the unchanged patterns: see `learn`"""


def said(patterns: Any, text: str) -> str:
    """Return an object as text, or the error in its place."""
    try:
        result = made(patterns, text)
        return f"{result.plan()}" if text in PLANS else f"{result!r}"
    except UsageError as error:
        return f"UsageError: {error}"


def learn(patterns: Any) -> None:
    """Record the results of these patterns as correct."""
    _right.update((text, said(patterns, text)) for text in CONSTRUCTIONS + PLANS)


def spoken(about: tuple[str, ...], text: str, word: str) -> Trial:
    """Return a trial that compares the text of an object."""

    def run(patterns: Any) -> str:
        found, right = said(patterns, text), _right[text]
        if found == right:
            return ""
        refused = found.startswith("UsageError") or right.startswith("UsageError")
        return "error: another construction is refused, or for another reason" if refused else word

    return Trial(about, text, run)


def trials(file: str) -> list[Trial]:
    """Return all trials: those about a file of `patterns` first, then cheap ones before expensive ones."""
    found = [spoken(("rules.py", "base.py"), text, "result") for text in CONSTRUCTIONS]
    for two_phase in (False, True):
        for constants in (False, True):
            found += [once(text, two_phase, constants) for text in ONCE]
    for way in ("at once", "two phases", "four calls"):
        found += [in_turn(f"(1, 32, 64, 64, {4 * TILE})", way)]
        found += [in_turn(f"(5, 64, 64, 0, {4 * TILE}, first_compute_thread=64, bytes_per_thread=16)", way)]
    found.append(in_turn(f".unspecialized({COMPUTE}, {4 * TILE})", "everybody"))
    for text in BUFFERS:
        for tiles in TRIPS:
            ways = ("constant", "argument", "two phases") if tiles in (2, 7) else ("constant",)
            found += [buffered(text, tiles, way) for way in ways]
    found += [spoken(("strided.py", "transfer.py"), text, "cost") for text in PLANS]
    return sorted(found, key=lambda trial: file not in trial.about)
