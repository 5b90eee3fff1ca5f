"""Launches: grids and blocks within the limits of an architecture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from wsemu.model.arch import DEFAULT, limits
from wsemu.model.data import NamedTuple
from wsemu.model.errors import UsageError
from wsemu.model.launch_shape import Dimensions, configure
from wsemu.patterns.rules import WARP

if TYPE_CHECKING:
    from collections.abc import Callable

    Draw = Callable[[st.SearchStrategy[Any]], Any]


class Launch(NamedTuple):
    """The shape of a launch: `kernel[launch](x)`, or
    `check(kernel, launch.grid, launch.block, (x,), dynamic_shared=launch.dynamic_shared)`."""

    grid: Dimensions
    """CTAs in x, y, z"""
    block: Dimensions
    """threads of a CTA in x, y, z"""
    stream: int = 0
    dynamic_shared: int = 0
    """dynamic shared memory of a CTA, in bytes"""


def launches(
    *,
    dimensions: int = 3,
    ctas: int = 8,
    threads: int = 1024,
    whole_warps: bool = False,
    dynamic_shared: int = 0,
    arch: str = DEFAULT,
) -> st.SearchStrategy[Launch]:
    """Return launches of up to `ctas` CTAs with up to `threads` threads each, in up to `dimensions` dimensions.

    `whole_warps` makes block.x a multiple of 32; `dynamic_shared` is the maximum of bytes, drawn in multiples of 16.
    Examples shrink toward one CTA of one thread (with `whole_warps`: 32).  Raise UsageError if `arch` does not allow
    these maxima.
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
