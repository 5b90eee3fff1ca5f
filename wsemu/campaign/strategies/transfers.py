"""Valid transfers: patterns, their positions in arrays, and their indices."""

from __future__ import annotations

import functools
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from wsemu.language import ptx_names as ptx
from wsemu.launch.transfer import TransferCase, fill, job
from wsemu.model.errors import UsageError
from wsemu.patterns import CudaDMAHalo, CudaDMAIndirect, CudaDMASequential, CudaDMAStrided
from wsemu.patterns.rules import BULK, ENGINES, MOST_OBJECTS, MOST_THREADS, WARP

if TYPE_CHECKING:
    from collections.abc import Callable

    Draw = Callable[[st.SearchStrategy[Any]], Any]
    Fields = dict[str, Any]


MOST_WARPS = 16
"""maximum warps of each role"""
MOST_ELEMENTS = 32
MOST_GAP = 16
"""maximum gap between elements, in units of the alignment"""
MOST_RADIUS, MOST_SIDE = 8, 63
"""maximum number of elements around a tile, and along its sides"""
FLOATS = sorted(max(1, round(abs(NormalDist(256, 256).inv_cdf((k + 0.5) / 1024)))) for k in range(1024))
"""sizes of elements, ascending, with the frequencies of |N(256, 256)|"""


# -- transfers -------------------------------------------------------------------------------------------------------


@functools.cache
def _preload() -> None:
    """Load the engine and the compiler in advance, because Hypothesis applies a deadline to the first example."""
    from wsemu.launch.compiled import compile_for_types
    from wsemu.machine import build as native

    native.load_parts()
    run = fill(job(TransferCase(CudaDMASequential(0, WARP, WARP, WARP, 4))))
    compile_for_types(run.job.kernel, run.arguments(), fma=True)


def _rarely_true(n: int) -> st.SearchStrategy[bool]:
    """Return a strategy that is seldom true, and shrinks to false."""
    return st.sampled_from([False] * (n - 1) + [True])


def _roles(draw: Draw, *, specialized: bool) -> Fields:
    """Draw the threads of a pattern.  The number of choices does not depend on specialization, because Hypothesis
    prefers fewer choices."""
    dma, compute = draw(st.integers(1, MOST_WARPS)), draw(st.integers(1, MOST_WARPS))
    gap = draw(st.integers(0, min(1, MOST_THREADS // WARP - dma - compute)))
    dma_first, dma_id = draw(_rarely_true(8)), draw(st.integers(0, MOST_OBJECTS - 1))
    threads = {"dma_threads": WARP * dma, "compute_threads": WARP * (compute if specialized else dma)}
    if not specialized:
        return {"dma_id": 0, **threads, "first_dma_thread": 0, "specialized": False}
    if dma_first:
        return {"dma_id": dma_id, **threads, "first_dma_thread": 0, "first_compute_thread": WARP * (dma + gap)}
    return {"dma_id": dma_id, **threads, "first_dma_thread": WARP * (compute + gap)}


def _options(draw: Draw, *, scatter: bool = False, engine: str = "warps") -> Fields:
    """Draw the options by which a pattern accesses memory."""
    if engine == "bulk":
        return {"alignment": BULK, "engine": engine}
    alignment = draw(st.sampled_from(sorted(ptx.ACCESS_WIDTHS)))
    if engine != "warps":
        loads = ["", "ca", *["cg"] * (alignment == BULK)]
        return {"alignment": alignment, "engine": engine, "load": draw(st.sampled_from(loads))}
    fields = {"alignment": alignment, "bytes_per_thread": alignment * draw(st.integers(1, 8))}
    if draw(_rarely_true(4)):
        loads = [name for name in ptx.LOAD_QUALIFIERS if not (scatter and name == "nc")]
        fields["load"], fields["store"] = draw(st.sampled_from(loads)), draw(st.sampled_from([*ptx.STORE_QUALIFIERS]))
    return fields


def _round_up(size: int, to: int) -> int:
    return -(-size // to) * to


def _gap(draw: Draw, alignment: int) -> int:
    """Return the bytes between elements."""
    return int(alignment * draw(st.integers(0, MOST_GAP)))


def _source_stride(draw: Draw, tight: int, alignment: int) -> int:
    """Return the bytes from one source element to the next: occasionally negative, or so small that elements
    overlap."""
    if draw(_rarely_true(8)):
        most = tight // alignment + MOST_GAP
        return int(alignment * draw(st.integers(-most, most)))
    return tight + _gap(draw, alignment)


def _sequential(draw: Draw, alignment: int) -> Fields:
    return {"element_bytes": 4 * draw(st.sampled_from(FLOATS))}


def _draw_strided(draw: Draw, alignment: int) -> Fields:
    size, elements = 4 * draw(st.sampled_from(FLOATS)), draw(st.integers(1, MOST_ELEMENTS))
    tight = _round_up(size, alignment)
    return {
        "element_bytes": size,
        "elements": elements,
        "src_stride": _source_stride(draw, tight, alignment),
        "dst_stride": tight + _gap(draw, alignment),
    }


def _indirect(draw: Draw, alignment: int) -> Fields:
    size, elements = _round_up(4 * draw(st.sampled_from(FLOATS)), alignment), draw(st.integers(1, MOST_ELEMENTS))
    dense = {"dense_stride": size + _gap(draw, alignment)} if draw(st.booleans()) else {}
    return {"element_bytes": size, "elements": elements, **dense}


def _halo(draw: Draw, alignment: int) -> Fields:
    element_bytes = draw(st.sampled_from([4, 8, 16]))
    unit = max(1, alignment // element_bytes)
    """sizes are multiples of this number of elements"""
    radius, tile_x = (unit * draw(st.integers(1, most // unit)) for most in (MOST_RADIUS, MOST_SIDE))
    return {
        "element_bytes": element_bytes,
        "tile_x": tile_x,
        "tile_y": draw(st.integers(1, MOST_SIDE)),
        "radius": radius,
        "src_pitch": _source_stride(draw, (tile_x + 2 * radius) * element_bytes, alignment),
        "corners": draw(st.booleans()),
    }


def indices(draw: Draw, elements: int, scatter: bool) -> tuple[int, ...]:
    """Draw indices of elements, occasionally one more than is used; those of a scatter are distinct."""
    count = elements + draw(_rarely_true(8))
    numbers = st.sampled_from(range(2 * MOST_ELEMENTS))
    return tuple(draw(st.lists(numbers, min_size=count, max_size=count, unique=scatter)))


_SIZES: dict[Any, Callable[[Draw, int], Fields]] = {
    CudaDMASequential: _sequential,
    CudaDMAStrided: _draw_strided,
    CudaDMAIndirect: _indirect,
    CudaDMAHalo: _halo,
}


def parameters(draw: Draw, cls: Any, *, specialized: bool, engine: str = "warps") -> Fields:
    """Draw the parameters of a pattern of this class."""
    roles = _roles(draw, specialized=specialized)
    scatter = cls is CudaDMAIndirect and engine != "cp.async" and draw(st.booleans())
    options = _options(draw, scatter=scatter, engine=engine)
    sizes = _SIZES[cls](draw, options["alignment"])
    if engine == "bulk" and cls is not CudaDMAHalo:
        sizes["element_bytes"] = _round_up(sizes["element_bytes"], BULK)
    return {**roles, **sizes, **options, **({"scatter": True} if scatter else {})}


def _transfers(cls: Any, engine: str) -> st.SearchStrategy[TransferCase]:
    if engine not in ENGINES:
        raise UsageError(f"engine is {engine!r}: give one of {', '.join(map(repr, ENGINES))}")

    @st.composite
    def transfers(draw: Draw) -> TransferCase:
        pattern = cls(**parameters(draw, cls, specialized=not draw(_rarely_true(4)), engine=engine))
        indexed = {"index": indices(draw, pattern.elements, pattern.scatter)} if cls is CudaDMAIndirect else {}
        units = st.integers(0, 16 // pattern.alignment - 1)
        return TransferCase(
            pattern,
            **indexed,
            src_offset=pattern.alignment * draw(units),
            dst_offset=pattern.alignment * draw(units),
            two_phase=draw(st.booleans()),
            constants=draw(_rarely_true(16)),
        )

    _preload()
    return transfers()


def sequential_transfers(engine: str = "warps") -> st.SearchStrategy[TransferCase]:
    """Return transfers of `CudaDMASequential`, one element, by this engine."""
    return _transfers(CudaDMASequential, engine)


def strided_transfers(engine: str = "warps") -> st.SearchStrategy[TransferCase]:
    """Return transfers of `CudaDMAStrided`; one source in eight is read backwards, or partly read twice."""
    return _transfers(CudaDMAStrided, engine)


def indirect_transfers(engine: str = "warps") -> st.SearchStrategy[TransferCase]:
    """Return transfers of `CudaDMAIndirect`, gathers and scatters of elements 0 to 63, whose sizes are multiples of the
    alignment."""
    return _transfers(CudaDMAIndirect, engine)


def halo_transfers(engine: str = "warps") -> st.SearchStrategy[TransferCase]:
    """Return transfers of `CudaDMAHalo`, with and without corners."""
    return _transfers(CudaDMAHalo, engine)


# -- launches --------------------------------------------------------------------------------------------------------


# -- what must be refused --------------------------------------------------------------------------------------------


# Mistakes in a transfer of a pattern that is right.


# -- pipelined kernels -----------------------------------------------------------------------------------------------
