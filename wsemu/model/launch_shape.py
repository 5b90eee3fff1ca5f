"""The shape of a launch: grid, block and dynamic shared memory, within the limits of an architecture."""

from __future__ import annotations

import operator
from typing import Any, SupportsIndex

from wsemu.model import settings
from wsemu.model.arch import ARCHS, DEFAULT, WARP, arch_of, limits
from wsemu.model.data import dataclass, replace
from wsemu.model.errors import MistypedError, UsageError

Dimensions = tuple[int, int, int]
Size = SupportsIndex | tuple[SupportsIndex, ...] | list[int]
"""size of a grid or a block: an int, or a tuple of one to three"""
Brackets = (
    tuple[Size, Size]
    | tuple[Size, Size, object]
    | tuple[Size, Size, object, SupportsIndex]
    | tuple[Size, Size, object, SupportsIndex, Size]
)
"""configuration in the brackets of a launch: `grid, block[, stream[, dynamic_shared[, cluster]]]`"""


@dataclass(frozen=True, slots=True)
class LaunchConfiguration:
    """The shape of a launch within the limits of `arch`.  `configure` constructs one."""

    grid: Dimensions
    """CTAs in x, y, z"""
    block: Dimensions
    """threads of a CTA in x, y, z"""
    dynamic_shared: int
    """bytes of dynamic shared memory of a CTA"""
    arch: str
    cluster: Dimensions = (1, 1, 1)
    """CTAs of a cluster in x, y, z"""
    arch_chosen: bool = False
    """true if the user named the architecture"""

    @property
    def threads(self) -> int:
        """Threads of a CTA."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def warps(self) -> int:
        """Warps of a CTA; the last may be partial."""
        return -(-self.threads // WARP)

    @property
    def ctas(self) -> int:
        return self.grid[0] * self.grid[1] * self.grid[2]


def configure(
    grid: Any,
    block: Any,
    stream: object = 0,
    dynamic_shared: Any = 0,
    cluster: Any = None,
    *,
    arch: str | None = None,
) -> LaunchConfiguration:
    """Check the parameters of `kernel[grid, block, stream, dynamic_shared, cluster]`.

    `grid` counts CTAs and `block` threads: an int or a tuple of one to three.  `dynamic_shared` is in bytes.  Launches
    run sequentially, so `stream` has no effect.  `cluster` counts the CTAs of a cluster.  Raise UsageError for a
    parameter beyond the limits of `arch`.
    """
    now = settings.current()
    chosen = arch is not None or now.arch_chosen or now.arch != DEFAULT
    arch = now.arch if arch is None else arch
    limit = limits(arch)
    dimensions = _dimensions(grid, "grid")
    threads = _dimensions(block, "block")
    count = threads[0] * threads[1] * threads[2]
    if count > limit.threads:
        shape = "" if threads[1:] == (1, 1) else f" ({' x '.join(map(str, threads))})"
        raise UsageError(
            f"block of {count:,} threads{shape}: at most {limit.threads:,} on {arch}; "
            "use a smaller block and a larger grid"
        )
    if threads[0] > limit.block[0] or threads[1] > limit.block[1] or threads[2] > limit.block[2]:
        raise UsageError(_too_large("block", threads, limit.block, arch))
    if dimensions[0] > limit.grid[0] or dimensions[1] > limit.grid[1] or dimensions[2] > limit.grid[2]:
        raise UsageError(_too_large("grid", dimensions, limit.grid, arch))
    size = dynamic_shared if type(dynamic_shared) is int else integer(dynamic_shared, "dynamic shared memory")
    if size < 0:
        raise UsageError(f"dynamic shared memory of {size:,} bytes: give 0 or more")
    if size > limit.shared:
        raise UsageError(
            f"{size:,} bytes of dynamic shared memory: at most {limit.shared:,} on {arch}; "
            "lower `dynamic_shared`, of a launch in brackets the fourth number"
        )
    if cluster is None:
        return LaunchConfiguration(dimensions, threads, size, arch, arch_chosen=chosen)
    return with_cluster(LaunchConfiguration(dimensions, threads, size, arch, arch_chosen=chosen), cluster)


def with_cluster(configuration: LaunchConfiguration, cluster: Any) -> LaunchConfiguration:
    """Return the launch with clusters of this shape.  Raise UsageError if the clusters do not divide the grid."""
    shape = _dimensions(cluster, "cluster")
    size, arch = shape[0] * shape[1] * shape[2], configuration.arch
    text = " x ".join(map(str, shape))
    most = arch_of(arch).cluster
    if size > 1 == most:
        raise UsageError(f"cluster of {text} CTAs: there are none on {arch}; give an `arch` from {_with_clusters()} on")
    if size > most:
        others = ", and 8 on every GPU" if most > 8 else ""
        raise UsageError(f"cluster of {text} CTAs: at most {most} on {arch}{others}; use smaller clusters")
    if any(extent % along for extent, along in zip(configuration.grid, shape, strict=True)):
        grid = " x ".join(map(str, configuration.grid))
        raise UsageError(f"a grid of {grid} CTAs is no number of clusters of {text}: make it a multiple in each axis")
    return replace(configuration, cluster=shape)


def _with_clusters() -> str:
    """Return the first architecture that has clusters."""
    return next(row.name for row in ARCHS.values() if row.cluster > 1)


def _dimensions(value: Any, name: str) -> Dimensions:
    """Return three positive ints for an int, or for a tuple or list of one to three."""
    if type(value) is int:  # fast path
        result = (value, 1, 1)
    elif isinstance(value, (tuple, list)):
        if not 1 <= len(value) <= 3:
            raise UsageError(f"{name} {value!r} has {len(value)} dimensions: give one to three")
        x, y, z = (*(integer(extent, name) for extent in value), 1, 1)[:3]
        result = (x, y, z)
    else:
        result = (integer(value, name), 1, 1)
    if result[0] < 1 or result[1] < 1 or result[2] < 1:
        raise UsageError(f"{name} {value!r} is empty: every dimension needs 1 or more")
    return result


def integer(value: Any, name: str) -> int:
    if not isinstance(value, bool):
        try:
            return operator.index(value)
        except TypeError:
            pass
    remedy = "give an int"
    if isinstance(value, float):
        remedy = f"write {int(value)}" if value.is_integer() else "use `//` for a whole quotient"
    raise MistypedError(f"{name} has {value!r}, of type {type(value).__name__}, where an int belongs: {remedy}")


def _too_large(name: str, extents: Dimensions, most: Dimensions, arch: str) -> str:
    axis = next(i for i in range(3) if extents[i] > most[i])
    text = f"{name}.{'xyz'[axis]} is {extents[axis]:,}: at most {most[axis]:,} on {arch}"
    if axis == 0:
        return f"{text}; use {name}.y too, or let a thread do more"
    return f"{text}; put the larger extent on {name}.x"
