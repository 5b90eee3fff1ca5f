"""Calls that must be rejected, each with a text that its message must contain."""

from __future__ import annotations

from dataclasses import (
    dataclass,
    replace,  # `dataclasses.replace` for patterns, which are ordinary dataclasses
)
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from wsemu.campaign.strategies.transfers import indices, parameters
from wsemu.launch.transfer import TransferCase, check_transfer
from wsemu.model.arch import DEFAULT, limits
from wsemu.model.launch_shape import configure
from wsemu.patterns import CudaDMAHalo, CudaDMAIndirect, CudaDMASequential, CudaDMAStrided
from wsemu.patterns.rules import MOST_THREADS, WARP

if TYPE_CHECKING:
    from collections.abc import Callable

    Draw = Callable[[st.SearchStrategy[Any]], Any]
    Fields = dict[str, Any]
    Fault = Callable[[Draw, Fields], tuple[Fields, str]]
    """valid parameters -> the parameters to change, and the message that is then expected"""


@dataclass(frozen=True)
class Invalid:
    """A call with one mistake: `with pytest.raises(UsageError, match=re.escape(wrong.message)): wrong.make()`."""

    call: Any
    """the function that is called: the class of a pattern, `check_transfer`, or the check of a launch's shape"""
    arguments: dict[str, Any]
    message: str
    """part of the text of the UsageError: the parameter, its value and, if it is a single parameter, the remedy"""

    def make(self) -> Any:
        """Make the call."""
        return self.call(**self.arguments)


def _invalid_multiple(draw: Draw, of: int, least: int | None) -> int:
    """Draw a number that is not a multiple of `of`, or a multiple that is less than `least` times `of`."""
    if least is not None and (of == 1 or draw(st.booleans())):
        return int(of * (least - 1 - draw(st.integers(0, 8))))
    return int(of * draw(st.integers(0, 8)) + draw(st.integers(1, of - 1)))


def _wrong_int(draw: Draw, fields: Fields) -> tuple[Fields, str]:
    name = draw(st.sampled_from([name for name, value in fields.items() if type(value) is int]))
    value = draw(st.sampled_from([32.0, "32", None, True]))
    return {name: value}, f"{name} is {value!r}, of type {type(value).__name__}: give an int"


def _wrong_multiple(name: str, kind: str, of: int | str, least: int | None = 1) -> Fault:
    """Make `name` a number that is not a multiple of `of` (a number, or the parameter with that name), or less than
    `least` times `of`."""

    def fault(draw: Draw, fields: Fields) -> tuple[Fields, str]:
        unit = fields[of] if isinstance(of, str) else of
        value = _invalid_multiple(draw, unit, least)
        return {name: value}, f"{name} is {value}: give {kind} {unit}"

    return fault


def _wrong_choice(name: str, values: list[Any], remedy: str) -> Fault:
    """Set `name` to one of some invalid values."""

    def fault(draw: Draw, fields: Fields) -> tuple[Fields, str]:
        value = draw(st.sampled_from(values))
        return {name: value}, f"{name} is {value!r}: give {remedy}"

    return fault


def _wrong_flag(name: str) -> Fault:
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
    _wrong_int,
    _wrong_choice("dma_id", [-1, 8, 9, 100], "0 to 7, two of the 16 named barriers each"),
    _wrong_multiple("dma_threads", _POSITIVE, WARP),
    _wrong_multiple("compute_threads", _POSITIVE, WARP),
    _wrong_multiple("first_dma_thread", "a multiple of", WARP, 0),
    _wrong_multiple("first_compute_thread", "a multiple of", WARP, 0),
    _too_many_dma_threads,
    _too_many_threads,
    _overlapping_roles,
    _wrong_flag("specialized"),
    _wrong_choice("alignment", [-4, 0, 1, 2, 5, 12, 32], "one of 4, 8, 16"),
    _wrong_multiple("bytes_per_thread", _POSITIVE, "alignment", 0),
    _wrong_choice("load", ["wb", "CG", " "], "one of '', 'ca', "),
    _wrong_choice("store", ["ca", "nc", " "], "one of '', 'wb', "),
]
_FAULTS: dict[Any, list[Fault]] = {
    CudaDMASequential: [
        *_COMMON,
        _wrong_multiple("element_bytes", _POSITIVE, 4),
    ],
    CudaDMAStrided: [
        *_COMMON,
        _wrong_multiple("element_bytes", _POSITIVE, 4),
        _wrong_multiple("elements", _POSITIVE, 1),
        _wrong_multiple("src_stride", _ALIGNED, "alignment", None),
        _wrong_multiple("dst_stride", _ALIGNED, "alignment", None),
        _overlapping_rows,
    ],
    CudaDMAIndirect: [
        *_COMMON,
        _wrong_multiple("element_bytes", _POSITIVE, "alignment"),
        _wrong_multiple("elements", _POSITIVE, 1),
        _wrong_multiple("dense_stride", _ALIGNED, "alignment", None),
        _overlapping_gather,
        _wrong_flag("scatter"),
    ],
    CudaDMAHalo: [
        *_COMMON,
        _wrong_choice("element_bytes", [-4, 0, 1, 2, 12, 32], "one of 4, 8, 16"),
        _wrong_multiple("tile_x", _POSITIVE, 1),
        _wrong_multiple("tile_y", _POSITIVE, 1),
        _wrong_choice("radius", [-1, 0, 9, 16], "one of 1, 2, 3, "),
        _wrong_multiple("src_pitch", _ALIGNED, "alignment", None),
        _unaligned_sides,
        _wrong_flag("corners"),
    ],
}


def _unaligned_start(draw: Draw, case: TransferCase) -> tuple[Fields, str]:
    name, alignment = draw(st.sampled_from(["src_offset", "dst_offset"])), case.pattern.alignment
    value = _invalid_multiple(draw, alignment, 0)
    return {name: value}, f"{name} is {value}: give a multiple of alignment, {alignment} bytes"


def _too_large(draw: Draw, case: TransferCase) -> tuple[Fields, str]:
    pattern, size = case.pattern, limits(DEFAULT).shared + 16 * draw(st.integers(0, 64))
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


def _missing_index(draw: Draw, case: TransferCase) -> tuple[Fields, str]:
    return {"index": None}, f"index is missing: give index=, {case.pattern.elements} numbers of elements"


def _invalid(cls: Any) -> st.SearchStrategy[Invalid]:
    indexed = cls is CudaDMAIndirect
    starts: list[Any] = [_unaligned_start, _too_large, *[_too_few_indices, _negative_index, _missing_index] * indexed]

    @st.composite
    def invalid(draw: Draw) -> Invalid:
        fields = parameters(draw, cls, specialized=True)
        fault = draw(st.sampled_from([*_FAULTS[cls], *starts]))
        if fault not in starts:
            changes, message = fault(draw, fields)
            return Invalid(cls, fields | changes, message)
        pattern = cls(**fields)
        case = TransferCase(pattern, indices(draw, pattern.elements, pattern.scatter) if indexed else None)
        changes, message = fault(draw, case)
        return Invalid(check_transfer, {"pattern": replace(case, **changes)}, message)

    return invalid()


def invalid_sequential_transfers() -> st.SearchStrategy[Invalid]:
    """Return transfers of `CudaDMASequential` with one mistake."""
    return _invalid(CudaDMASequential)


def invalid_strided_transfers() -> st.SearchStrategy[Invalid]:
    """Return transfers of `CudaDMAStrided` with one mistake."""
    return _invalid(CudaDMAStrided)


def invalid_indirect_transfers() -> st.SearchStrategy[Invalid]:
    """Return transfers of `CudaDMAIndirect` with one mistake, sometimes in the indices."""
    return _invalid(CudaDMAIndirect)


def invalid_halo_transfers() -> st.SearchStrategy[Invalid]:
    """Return transfers of `CudaDMAHalo` with one mistake."""
    return _invalid(CudaDMAHalo)


def invalid_launches(arch: str = DEFAULT) -> st.SearchStrategy[Invalid]:
    """Return shapes of launches with one mistake."""

    @st.composite
    def invalid(draw: Draw) -> Invalid:
        changes, message = draw(st.sampled_from(_launch_faults(draw(st.integers(1, 8)), arch)))
        return Invalid(configure, {"grid": 1, "block": WARP, "dynamic_shared": 0, **changes, "arch": arch}, message)

    return invalid()


def _launch_faults(n: int, arch: str) -> list[tuple[Fields, str]]:
    """Return invalid shapes of a launch, each with its error; some are only slightly wrong."""
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
