"""Hypothesis strategies: transfers and launches that are valid, and calls that must be refused.

    from hypothesis import given
    from wsemu import check_transfer
    from wsemu.strategies import strided_transfers

    @given(transfer=strided_transfers())
    def test_any_stride(transfer):
        check_transfer(transfer).assert_clean()

    sequential_transfers  strided_transfers  indirect_transfers  halo_transfers    a `TransferCase` each
    launches                                                                       a `Launch`: `kernel[launch](x)`
    kernels_with                                                                   a `KernelCase`: of a pipelined kernel
    invalid_...                                                                    an `Invalid`: what must be refused

Nothing is drawn that has to be thrown away.  Examples shrink toward one warp that transfers and one that computes, one
element of four bytes, no offsets and no gaps.

    DMA warps, compute warps   1 to 16 each, in either order, now and then with a warp between them; or one role for all
    alignment                  4, 8 or 16 bytes; bytes_per_thread 1 to 8 times that
    elements                   1 to 32 of about |N(256, 256)| floats (at most 1,100), up to 16 units apart
    offsets                    0 to 3 floats from a 16-byte boundary, as far as the alignment allows
    halo                       radius 1 to 8, tiles of 1 to 63 by 1 to 63 elements of 4, 8 or 16 bytes
    the rest                   one phase and two, with cache operators or without, now and then as constants

So a transfer has room in the shared memory of sm_80 and sm_90 (the largest takes 148,864 bytes).  A pattern whose
numbers are constants, and a combination of options that has not been seen yet, is compiled: some 15 to 30 ms, which
other examples do not take.

Reference: the tests of the CudaDMA library, whose ranges these are, and what they leave out.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, NamedTuple

from wsemu.language import ptx_names as ptx
from wsemu.launch.transfer import TransferCase, check_transfer, fill, job, spelled
from wsemu.model.errors import UsageError
from wsemu.model.launch_shape import Dimensions, configure
from wsemu.model.limits import limits
from wsemu.patterns import CudaDMAHalo, CudaDMAIndirect, CudaDMASequential, CudaDMAStrided
from wsemu.patterns.rules import MOST_OBJECTS, MOST_THREADS, WARP

try:
    from hypothesis import strategies as st
except ImportError as error:
    raise UsageError("`wsemu.strategies` needs Hypothesis, which is not installed: `pip install hypothesis`") from error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Draw = Callable[[st.SearchStrategy[Any]], Any]
    Fields = dict[str, Any]
    Fault = Callable[[Draw, Fields], tuple[Fields, str]]
    """valid parameters -> those to change, and the message that is due then"""

__all__ = [
    "Invalid",
    "KernelCase",
    "Launch",
    "TransferCase",
    "halo_transfers",
    "indirect_transfers",
    "invalid_halo_transfers",
    "invalid_indirect_transfers",
    "invalid_launches",
    "invalid_sequential_transfers",
    "invalid_strided_transfers",
    "kernels_with",
    "launches",
    "sequential_transfers",
    "strided_transfers",
]

MOST_WARPS = 16
"""of each role"""
MOST_ELEMENTS = 32
MOST_GAP = 16
"""units of alignment between elements"""
MOST_RADIUS, MOST_SIDE = 8, 63
"""elements around a tile, and of its sides"""
FLOATS = sorted(max(1, round(abs(NormalDist(256, 256).inv_cdf((k + 0.5) / 1024)))) for k in range(1024))
"""sizes of elements, the smallest first, each as often as |N(256, 256)| takes it"""


@functools.cache
def _ready() -> None:
    """Load the engine and the compiler now, not in the first example, whose deadline Hypothesis watches."""
    from wsemu.launch.check import compiled
    from wsemu.machine import build as native

    native.compiled()
    run = fill(job(TransferCase(CudaDMASequential(0, WARP, WARP, WARP, 4))))
    compiled(run.job.kernel, run.arguments(), fma=True)


def _one_in(n: int) -> st.SearchStrategy[bool]:
    """Seldom true, and false where that will do."""
    return st.sampled_from([False] * (n - 1) + [True])


# -- transfers -------------------------------------------------------------------------------------------------------
def _roles(draw: Draw, *, specialized: bool) -> Fields:
    """The threads of a pattern.  As many choices are made without specialization: fewer would count as simpler."""
    dma, compute = draw(st.integers(1, MOST_WARPS)), draw(st.integers(1, MOST_WARPS))
    gap = draw(st.integers(0, min(1, MOST_THREADS // WARP - dma - compute)))
    dma_first, dma_id = draw(_one_in(8)), draw(st.integers(0, MOST_OBJECTS - 1))
    threads = {"dma_threads": WARP * dma, "compute_threads": WARP * (compute if specialized else dma)}
    if not specialized:
        return {"dma_id": 0, **threads, "first_dma_thread": 0, "specialized": False}
    if dma_first:
        return {"dma_id": dma_id, **threads, "first_dma_thread": 0, "first_compute_thread": WARP * (dma + gap)}
    return {"dma_id": dma_id, **threads, "first_dma_thread": WARP * (compute + gap)}


def _options(draw: Draw, *, scatter: bool = False) -> Fields:
    """How a pattern accesses memory."""
    alignment = draw(st.sampled_from(sorted(ptx.ACCESS_WIDTHS)))
    fields = {"alignment": alignment, "bytes_per_thread": alignment * draw(st.integers(1, 8))}
    if draw(_one_in(4)):
        loads = [name for name in ptx.LOAD_QUALIFIERS if not (scatter and name == "nc")]
        fields["load"], fields["store"] = draw(st.sampled_from(loads)), draw(st.sampled_from([*ptx.STORE_QUALIFIERS]))
    return fields


def _up(size: int, to: int) -> int:
    return -(-size // to) * to


def _gap(draw: Draw, alignment: int) -> int:
    """Bytes between elements."""
    return int(alignment * draw(st.integers(0, MOST_GAP)))


def _source_stride(draw: Draw, tight: int, alignment: int) -> int:
    """Bytes from an element of the source to the next: now and then backwards, or so that elements overlap."""
    if draw(_one_in(8)):
        most = tight // alignment + MOST_GAP
        return int(alignment * draw(st.integers(-most, most)))
    return tight + _gap(draw, alignment)


def _sequential(draw: Draw, alignment: int) -> Fields:
    return {"element_bytes": 4 * draw(st.sampled_from(FLOATS))}


def _strided(draw: Draw, alignment: int) -> Fields:
    size, elements = 4 * draw(st.sampled_from(FLOATS)), draw(st.integers(1, MOST_ELEMENTS))
    tight = _up(size, alignment)
    return {
        "element_bytes": size,
        "elements": elements,
        "src_stride": _source_stride(draw, tight, alignment),
        "dst_stride": tight + _gap(draw, alignment),
    }


def _indirect(draw: Draw, alignment: int) -> Fields:
    size, elements = _up(4 * draw(st.sampled_from(FLOATS)), alignment), draw(st.integers(1, MOST_ELEMENTS))
    dense = {"dense_stride": size + _gap(draw, alignment)} if draw(st.booleans()) else {}
    return {"element_bytes": size, "elements": elements, **dense}


def _halo(draw: Draw, alignment: int) -> Fields:
    element_bytes = draw(st.sampled_from([4, 8, 16]))
    unit = max(1, alignment // element_bytes)
    """elements that sizes are multiples of"""
    radius, tile_x = (unit * draw(st.integers(1, most // unit)) for most in (MOST_RADIUS, MOST_SIDE))
    return {
        "element_bytes": element_bytes,
        "tile_x": tile_x,
        "tile_y": draw(st.integers(1, MOST_SIDE)),
        "radius": radius,
        "src_pitch": _source_stride(draw, (tile_x + 2 * radius) * element_bytes, alignment),
        "corners": draw(st.booleans()),
    }


def _indices(draw: Draw, elements: int, scatter: bool) -> tuple[int, ...]:
    """Indices of elements, with one more than are used now and then; those of a scatter differ."""
    count = elements + draw(_one_in(8))
    numbers = st.sampled_from(range(2 * MOST_ELEMENTS))
    return tuple(draw(st.lists(numbers, min_size=count, max_size=count, unique=scatter)))


_SIZES: dict[Any, Callable[[Draw, int], Fields]] = {
    CudaDMASequential: _sequential,
    CudaDMAStrided: _strided,
    CudaDMAIndirect: _indirect,
    CudaDMAHalo: _halo,
}


def _fields(draw: Draw, cls: Any, *, specialized: bool) -> Fields:
    """The parameters of a pattern of this class."""
    roles = _roles(draw, specialized=specialized)
    scatter = cls is CudaDMAIndirect and draw(st.booleans())
    options = _options(draw, scatter=scatter)
    sizes = _SIZES[cls](draw, options["alignment"])
    return {**roles, **sizes, **options, **({"scatter": True} if scatter else {})}


def _transfers(cls: Any) -> st.SearchStrategy[TransferCase]:
    @st.composite
    def transfers(draw: Draw) -> TransferCase:
        pattern = cls(**_fields(draw, cls, specialized=not draw(_one_in(4))))
        indexed = {"index": _indices(draw, pattern.elements, pattern.scatter)} if cls is CudaDMAIndirect else {}
        units = st.integers(0, 16 // pattern.alignment - 1)
        return TransferCase(
            pattern,
            **indexed,
            src_offset=pattern.alignment * draw(units),
            dst_offset=pattern.alignment * draw(units),
            two_phase=draw(st.booleans()),
            constants=draw(_one_in(16)),
        )

    _ready()
    return transfers()


def sequential_transfers() -> st.SearchStrategy[TransferCase]:
    """Transfers of `CudaDMASequential`: one element."""
    return _transfers(CudaDMASequential)


def strided_transfers() -> st.SearchStrategy[TransferCase]:
    """Transfers of `CudaDMAStrided`; one source in eight is read backwards, or some of it twice."""
    return _transfers(CudaDMAStrided)


def indirect_transfers() -> st.SearchStrategy[TransferCase]:
    """Transfers of `CudaDMAIndirect`, gathers and scatters of elements 0 to 63, whose sizes are multiples of the
    alignment."""
    return _transfers(CudaDMAIndirect)


def halo_transfers() -> st.SearchStrategy[TransferCase]:
    """Transfers of `CudaDMAHalo`, with and without corners."""
    return _transfers(CudaDMAHalo)


# -- launches --------------------------------------------------------------------------------------------------------
class Launch(NamedTuple):
    """The shape of a launch: `kernel[launch](x)`, or `check(kernel, launch.grid, launch.block, (x,),
    dynamic_shared=launch.dynamic_shared)`."""

    grid: Dimensions
    """CTAs in x, y, z"""
    block: Dimensions
    """threads of a CTA in x, y, z"""
    stream: int = 0
    dynamic_shared: int = 0
    """bytes of a CTA"""


def launches(
    *,
    dimensions: int = 3,
    ctas: int = 8,
    threads: int = 1024,
    whole_warps: bool = False,
    dynamic_shared: int = 0,
    arch: str = "sm_90",
) -> st.SearchStrategy[Launch]:
    """Launches of up to `ctas` CTAs and `threads` threads in each, in up to `dimensions` dimensions.

    `whole_warps` makes block.x a multiple of 32; `dynamic_shared` is the most bytes of it, drawn in multiples of 16.
    Shrinks toward one CTA of one thread (with `whole_warps`: 32).  UsageError where `arch` has no room for that much.
    """
    configure(ctas, threads, 0, dynamic_shared, arch=arch)
    unit = WARP if whole_warps else 1
    if not 1 <= dimensions <= 3 or threads < unit:
        raise UsageError(f"dimensions is {dimensions}, threads {threads}: give 1 to 3, and {unit} or more")

    def extents(draw: Draw, most: int, limit: Dimensions, unit: int) -> Dimensions:
        sizes = [1, 1, 1]
        for axis in reversed(range(dimensions)):
            step = unit if axis == 0 else 1
            room = min(limit[axis], most // (sizes[1] * sizes[2]))
            if axis:
                room = min(room // unit, 8)
            sizes[axis] = step * draw(st.integers(1, room // step))
        x, y, z = sizes
        return x, y, z

    @st.composite
    def shapes(draw: Draw) -> Launch:
        block = extents(draw, threads, limits(arch).block, unit)
        grid = extents(draw, ctas, limits(arch).grid, 1)
        return Launch(grid, block, 0, 16 * draw(st.integers(0, dynamic_shared // 16)))

    return shapes()


# -- what must be refused --------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Invalid:
    """A call with one mistake: `with pytest.raises(UsageError, match=re.escape(wrong.message)): wrong.make()`."""

    call: Any
    """what is called: the class of a pattern, `check_transfer`, or what checks the shape of a launch"""
    arguments: dict[str, Any]
    message: str
    """part of the text of the UsageError: the parameter, its value and the remedy, where it is one parameter"""

    def make(self) -> Any:
        """Make the call."""
        return self.call(**self.arguments)


def _outside(draw: Draw, of: int, least: int | None) -> int:
    """No multiple of `of`, or one below `least` times that."""
    if least is not None and (of == 1 or draw(st.booleans())):
        return int(of * (least - 1 - draw(st.integers(0, 8))))
    return int(of * draw(st.integers(0, 8)) + draw(st.integers(1, of - 1)))


def _no_int(draw: Draw, fields: Fields) -> tuple[Fields, str]:
    name = draw(st.sampled_from([name for name, value in fields.items() if type(value) is int]))
    value = draw(st.sampled_from([32.0, "32", None, True]))
    return {name: value}, f"{name} is {value!r}, of type {type(value).__name__}: give an int"


def _no_multiple(name: str, kind: str, of: int | str, least: int | None = 1) -> Fault:
    """`name` is no multiple of a number, or of the parameter that `of` names, or less than `least` times that."""

    def fault(draw: Draw, fields: Fields) -> tuple[Fields, str]:
        unit = fields[of] if isinstance(of, str) else of
        value = _outside(draw, unit, least)
        return {name: value}, f"{name} is {value}: give {kind} {unit}"

    return fault


def _none_of(name: str, values: list[Any], remedy: str) -> Fault:
    """`name` is one of some wrong values."""

    def fault(draw: Draw, fields: Fields) -> tuple[Fields, str]:
        value = draw(st.sampled_from(values))
        return {name: value}, f"{name} is {value!r}: give {remedy}"

    return fault


def _no_flag(name: str) -> Fault:
    def fault(draw: Draw, fields: Fields) -> tuple[Fields, str]:
        value = draw(st.sampled_from([1, 0, None]))
        return {name: value}, f"{name} is {value!r}, of type {type(value).__name__}: give True or False"

    return fault


def _too_many_dma_threads(draw: Draw, fields: Fields) -> tuple[Fields, str]:
    first = MOST_THREADS - fields["dma_threads"] + WARP * draw(st.integers(1, 8))
    return {"first_dma_thread": first}, f"DMA threads {first} to {first + fields['dma_threads'] - 1}: a CTA has at most"


def _too_many_threads(draw: Draw, fields: Fields) -> tuple[Fields, str]:
    dma, compute = (MOST_THREADS // 2 + WARP * draw(st.integers(k, 8)) for k in (0, 1))
    changes = {"dma_threads": dma, "compute_threads": compute, "first_dma_thread": 0}
    return changes, f"dma_threads {dma} and compute_threads {compute}: a CTA has at most {MOST_THREADS} together"


def _overlapping_roles(draw: Draw, fields: Fields) -> tuple[Fields, str]:
    last = fields["dma_threads"] - 1
    first = WARP * draw(st.integers(0, last // WARP))
    changes = {"first_dma_thread": 0, "first_compute_thread": first}
    return changes, f"DMA threads 0 to {last} overlap the compute threads {first} to "


def _overlapping_rows(draw: Draw, fields: Fields) -> tuple[Fields, str]:
    value = fields["alignment"] * draw(st.integers(-8, 0))
    changes = {"dst_stride": value, "elements": max(2, fields["elements"])}
    return changes, f"dst_stride is {value}, element_bytes {fields['element_bytes']}: elements would overlap"


def _overlapping_gather(draw: Draw, fields: Fields) -> tuple[Fields, str]:
    value = fields["alignment"] * draw(st.integers(1, 8))
    size = value + fields["alignment"] * draw(st.integers(1, 8))
    changes = {"dense_stride": value, "element_bytes": size, "scatter": False}
    return changes, f"dense_stride is {value}, element_bytes {size}: elements would overlap"


def _unaligned_sides(draw: Draw, fields: Fields) -> tuple[Fields, str]:
    odd = 2 * draw(st.integers(0, 3)) + 1
    name = draw(st.sampled_from(["radius", "tile_x"]))
    sides = {"radius": 4, "tile_x": 4, name: odd}
    changes = {"alignment": 16, "bytes_per_thread": 16, "element_bytes": 4, "src_pitch": 256, **sides}
    return changes, f"{name} is {odd}, {4 * odd} bytes: not a multiple of alignment, 16 bytes; give alignment=4"


_POSITIVE = "a positive multiple of"
_ALIGNED = "a multiple of alignment,"
_COMMON = [
    _no_int,
    _none_of("dma_id", [-1, 8, 9, 100], "0 to 7, two of the 16 named barriers each"),
    _no_multiple("dma_threads", _POSITIVE, WARP),
    _no_multiple("compute_threads", _POSITIVE, WARP),
    _no_multiple("first_dma_thread", "a multiple of", WARP, 0),
    _no_multiple("first_compute_thread", "a multiple of", WARP, 0),
    _too_many_dma_threads,
    _too_many_threads,
    _overlapping_roles,
    _no_flag("specialized"),
    _none_of("alignment", [-4, 0, 1, 2, 5, 12, 32], "one of 4, 8, 16"),
    _no_multiple("bytes_per_thread", _POSITIVE, "alignment", 0),
    _none_of("load", ["wb", "CG", " "], "one of '', 'ca', "),
    _none_of("store", ["ca", "nc", " "], "one of '', 'wb', "),
]
_FAULTS: dict[Any, list[Fault]] = {
    CudaDMASequential: [
        *_COMMON,
        _no_multiple("element_bytes", _POSITIVE, 4),
    ],
    CudaDMAStrided: [
        *_COMMON,
        _no_multiple("element_bytes", _POSITIVE, 4),
        _no_multiple("elements", _POSITIVE, 1),
        _no_multiple("src_stride", _ALIGNED, "alignment", None),
        _no_multiple("dst_stride", _ALIGNED, "alignment", None),
        _overlapping_rows,
    ],
    CudaDMAIndirect: [
        *_COMMON,
        _no_multiple("element_bytes", _POSITIVE, "alignment"),
        _no_multiple("elements", _POSITIVE, 1),
        _no_multiple("dense_stride", _ALIGNED, "alignment", None),
        _overlapping_gather,
        _no_flag("scatter"),
    ],
    CudaDMAHalo: [
        *_COMMON,
        _none_of("element_bytes", [-4, 0, 1, 2, 12, 32], "one of 4, 8, 16"),
        _no_multiple("tile_x", _POSITIVE, 1),
        _no_multiple("tile_y", _POSITIVE, 1),
        _none_of("radius", [-1, 0, 9, 16], "one of 1, 2, 3, "),
        _no_multiple("src_pitch", _ALIGNED, "alignment", None),
        _unaligned_sides,
        _no_flag("corners"),
    ],
}


# Mistakes in a transfer of a pattern that is right.
def _unaligned_start(draw: Draw, case: TransferCase) -> tuple[Fields, str]:
    name, alignment = draw(st.sampled_from(["src_offset", "dst_offset"])), case.pattern.alignment
    value = _outside(draw, alignment, 0)
    return {name: value}, f"{name} is {value}: give a multiple of alignment, {alignment} bytes"


def _too_large(draw: Draw, case: TransferCase) -> tuple[Fields, str]:
    pattern, size = case.pattern, limits("sm_90").shared + 16 * draw(st.integers(0, 64))
    if isinstance(pattern, CudaDMAHalo):
        grown = {"tile_x": size // pattern.element_bytes, "tile_y": 1}
    else:
        grown = {name: size for name in ("element_bytes", "dst_stride", "dense_stride") if hasattr(pattern, name)}
    return {"pattern": replace(pattern, **grown)}, " around it: at most "


def _too_few_indices(draw: Draw, case: TransferCase) -> tuple[Fields, str]:
    more = len(case.index) + draw(st.integers(1, 8))
    pattern = replace(case.pattern, elements=more)
    return {"pattern": pattern}, f"index has {len(case.index)} numbers: give one for each of the {more} elements"


def _negative_index(draw: Draw, case: TransferCase) -> tuple[Fields, str]:
    value = -draw(st.integers(1, 8))
    return {"index": (value, *case.index[1:])}, f"index has {value}: give numbers of elements, from 0"


def _no_index(draw: Draw, case: TransferCase) -> tuple[Fields, str]:
    return {"index": None}, f"index is missing: give index=, {case.pattern.elements} numbers of elements"


def _invalid(cls: Any) -> st.SearchStrategy[Invalid]:
    indexed = cls is CudaDMAIndirect
    starts: list[Any] = [_unaligned_start, _too_large, *[_too_few_indices, _negative_index, _no_index] * indexed]

    @st.composite
    def invalid(draw: Draw) -> Invalid:
        fields = _fields(draw, cls, specialized=True)
        fault = draw(st.sampled_from([*_FAULTS[cls], *starts]))
        if fault not in starts:
            changes, message = fault(draw, fields)
            return Invalid(cls, fields | changes, message)
        pattern = cls(**fields)
        case = TransferCase(pattern, _indices(draw, pattern.elements, pattern.scatter) if indexed else None)
        changes, message = fault(draw, case)
        return Invalid(check_transfer, {"pattern": replace(case, **changes)}, message)

    return invalid()


def invalid_sequential_transfers() -> st.SearchStrategy[Invalid]:
    """Transfers of `CudaDMASequential` with one mistake."""
    return _invalid(CudaDMASequential)


def invalid_strided_transfers() -> st.SearchStrategy[Invalid]:
    """Transfers of `CudaDMAStrided` with one mistake."""
    return _invalid(CudaDMAStrided)


def invalid_indirect_transfers() -> st.SearchStrategy[Invalid]:
    """Transfers of `CudaDMAIndirect` with one mistake, some of them in the indices."""
    return _invalid(CudaDMAIndirect)


def invalid_halo_transfers() -> st.SearchStrategy[Invalid]:
    """Transfers of `CudaDMAHalo` with one mistake."""
    return _invalid(CudaDMAHalo)


def invalid_launches(arch: str = "sm_90") -> st.SearchStrategy[Invalid]:
    """Shapes of launches with one mistake."""

    @st.composite
    def invalid(draw: Draw) -> Invalid:
        changes, message = draw(st.sampled_from(_launch_faults(draw(st.integers(1, 8)), arch)))
        return Invalid(configure, {"grid": 1, "block": WARP, "dynamic_shared": 0, **changes, "arch": arch}, message)

    return invalid()


def _launch_faults(n: int, arch: str) -> list[tuple[Fields, str]]:
    """What may be wrong with the shape of a launch, by a little or more."""
    most = limits(arch)
    y, z, ctas, size = most.threads // n + 1, most.block[2] + n, most.grid[2] + n, most.shared + n
    return [
        ({"block": (n, y)}, f"block of {n * y:,} threads ({n} x {y} x 1): at most {most.threads:,} on {arch}"),
        ({"block": (1, 1, z)}, f"block.z is {z}: at most {most.block[2]} on {arch}"),
        ({"grid": (1, 1, ctas)}, f"grid.z is {ctas:,}: at most {most.grid[2]:,} on {arch}"),
        ({"block": (n, 0)}, f"block ({n}, 0) is empty: every dimension needs 1 or more"),
        ({"grid": -n}, f"grid {-n} is empty: every dimension needs 1 or more"),
        ({"grid": (n, 1, 1, 1)}, f"grid ({n}, 1, 1, 1) has 4 dimensions: give one to three"),
        ({"block": float(n)}, f"block has {float(n)}, of type float, where an int belongs: write {n}"),
        ({"dynamic_shared": -n}, f"dynamic shared memory of {-n} bytes: give 0 or more"),
        ({"dynamic_shared": size}, f"{size:,} bytes of dynamic shared memory: at most {most.shared:,} on {arch}"),
    ]


# -- pipelined kernels -----------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class KernelCase:
    """How a kernel with a pipeline is made and launched; as text the call that makes it.

    `kernel[case.launch](x, y, case.trips)`, or `check(kernel, case.grid, case.block, (x, y, case.trips))`.
    """

    stages: int = 1
    """buffers of the pipeline"""
    trips: int = 0
    """of the loop that fills and drains them"""
    grid: Dimensions = (1, 1, 1)
    """CTAs in x, y, z"""
    block: Dimensions = (WARP, 1, 1)
    """threads of a CTA in x, y, z"""
    dynamic_shared: int = 0
    """bytes of a CTA"""
    alignment: int = 4
    """bytes of an access, 4, 8 or 16"""
    offset: int = 0
    """bytes from a 16-byte boundary to where the data begins, a multiple of `alignment`"""

    @property
    def launch(self) -> Launch:
        """What stands in the brackets of a launch."""
        return Launch(self.grid, self.block, 0, self.dynamic_shared)

    def __repr__(self) -> str:
        return spelled(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """The same for Hypothesis and IPython."""
        printer.text(spelled(self))


def kernels_with(
    *,
    stages: Iterable[int] = (1, 2, 3, 4),
    alignments: Iterable[int] = (4, 8, 16),
    shapes: st.SearchStrategy[Launch] | None = None,
) -> st.SearchStrategy[KernelCase]:
    """Cases at the edges of a pipeline with one of `stages` buffers: 0, 1, stages - 1, stages and stages + 1 trips.

    `alignments` are bytes of an access; `shapes` draws grid and block, if not one to four CTAs of one to four warps.
    Shrinks toward the fewest stages, no trip, one CTA of one warp, the first alignment and no offset.
    """
    buffers, widths = sorted(set(stages)), list(dict.fromkeys(alignments))
    if not buffers or buffers[0] < 1:
        raise UsageError(f"stages is {buffers}: give numbers of buffers, 1 or more")
    wrong = [width for width in widths if width not in ptx.ACCESS_WIDTHS]
    if wrong or not widths:
        raise UsageError(f"alignments is {widths}: give some of {', '.join(map(str, sorted(ptx.ACCESS_WIDTHS)))} bytes")
    drawn = launches(dimensions=1, ctas=4, threads=4 * WARP, whole_warps=True) if shapes is None else shapes

    @st.composite
    def cases(draw: Draw) -> KernelCase:
        count, width = draw(st.sampled_from(buffers)), draw(st.sampled_from(widths))
        trips = draw(st.sampled_from(sorted({0, 1, count - 1, count, count + 1})))
        shape: Launch = draw(drawn)
        offset = width * draw(st.integers(0, 16 // width - 1))
        return KernelCase(count, trips, shape.grid, shape.block, shape.dynamic_shared, width, offset)

    return cases()
