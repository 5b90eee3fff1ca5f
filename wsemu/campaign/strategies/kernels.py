"""Kernels around a transfer, with the arguments of a launch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from wsemu.campaign.strategies.launches import Launch, launches
from wsemu.language import ptx_names as ptx
from wsemu.launch.transfer import format_call
from wsemu.model.data import dataclass
from wsemu.model.errors import UsageError
from wsemu.model.launch_shape import Dimensions
from wsemu.patterns.rules import WARP

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Draw = Callable[[st.SearchStrategy[Any]], Any]


@dataclass(frozen=True)
class KernelCase:
    """A kernel with a pipeline and its launch; printed as the call that constructs it.

    `kernel[case.launch](x, y, case.trips)`, or `check(kernel, case.grid, case.block, (x, y, case.trips))`.
    """

    stages: int = 1
    """number of buffers of the pipeline"""
    trips: int = 0
    """iterations of the loop that fills and drains the buffers"""
    grid: Dimensions = (1, 1, 1)
    """CTAs in x, y, z"""
    block: Dimensions = (WARP, 1, 1)
    """threads of a CTA in x, y, z"""
    dynamic_shared: int = 0
    """dynamic shared memory of a CTA, in bytes"""
    alignment: int = 4
    """bytes of an access, 4, 8 or 16"""
    offset: int = 0
    """bytes from a 16-byte boundary to where the data begins, a multiple of `alignment`"""

    @property
    def launch(self) -> Launch:
        """Return the configuration for the brackets of a launch."""
        return Launch(self.grid, self.block, 0, self.dynamic_shared)

    def __repr__(self) -> str:
        return format_call(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Print the source of the kernel, for Hypothesis and IPython."""
        printer.text(format_call(self))


def kernels_with(
    *,
    stages: Iterable[int] = (1, 2, 3, 4),
    alignments: Iterable[int] = (4, 8, 16),
    shapes: st.SearchStrategy[Launch] | None = None,
) -> st.SearchStrategy[KernelCase]:
    """Return cases at the limits of a pipeline with one of `stages` buffers: 0, 1, stages - 1, stages and stages + 1
    iterations.

    `alignments` are access sizes in bytes; `shapes` draws grid and block, by default one to four CTAs of one to four
    warps.  Examples shrink toward the fewest stages, no iteration, one CTA of one warp, the first alignment and no
    offset.
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
