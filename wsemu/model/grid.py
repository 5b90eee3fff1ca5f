"""A division of the CTAs of a grid into groups of co-resident CTAs: clusters, or the whole grid."""

from __future__ import annotations

from functools import cached_property

from wsemu.model.data import dataclass

Extent = tuple[int, int, int]


@dataclass(frozen=True)
class Grouping:
    """A grid divided into groups with `shape` CTAs along each axis.  The extents of `shape` divide those of the grid.

    Groups are numbered like clusters (PTX ISA, "%clusterid"), and the CTAs of a group by their rank in it
    ("%cluster_ctarank"), x first.
    """

    grid: Extent
    shape: Extent = (1, 1, 1)

    @cached_property
    def members(self) -> int:
        """Return the number of CTAs of a group."""
        return self.shape[0] * self.shape[1] * self.shape[2]

    @cached_property
    def along(self) -> Extent:
        """Return the number of groups along each axis."""
        x, y, z = (extent // size for extent, size in zip(self.grid, self.shape, strict=True))
        return x, y, z

    @cached_property
    def number(self) -> int:
        """Return the number of groups of the grid."""
        return self.along[0] * self.along[1] * self.along[2]

    def cta(self, group: int, member: int) -> int:
        """Return a CTA by its linear index in the grid."""
        if self.members == 1:
            return group
        at = zip(place(group, self.along), place(member, self.shape), self.shape, strict=True)
        return linear([cluster * size + inside for cluster, inside, size in at], self.grid)

    def of(self, cta: int) -> tuple[int, int]:
        """Return (group, member) for a CTA."""
        if self.members == 1:
            return cta, 0
        at = place(cta, self.grid)
        clusters = [x // size for x, size in zip(at, self.shape, strict=True)]
        inside = [x % size for x, size in zip(at, self.shape, strict=True)]
        return linear(clusters, self.along), linear(inside, self.shape)


def place(index: int, extent: Extent) -> Extent:
    """Return a linear index as an index along each axis."""
    x, y, _ = extent
    return index % x, index // x % y, index // (x * y)


def linear(at: list[int] | Extent, extent: Extent) -> int:
    """Return an index along each axis as a linear index."""
    return at[0] + extent[0] * (at[1] + extent[1] * at[2])


FARTHEST = 24
"""maximum result of `window`.  An address that is 2 to this power bytes away is in no CTA's shared memory, and still
has 32 bits"""


def window(shared_bytes: int, *, asynchronous: bool, columns: bool = False) -> int:
    """Return log2 of the distance, in bytes, between the shared memories of two consecutive CTAs of a group; the
    distance includes a gap.  Matrix descriptors have 18 address bits, and tensor copies repeat their pattern every 10
    bits.  Kernels that use `columns` of tensor memory have the rank in bits 24 and up, like the hardware."""
    if columns:
        return FARTHEST
    return max(18 if asynchronous else 10, (shared_bytes + 127).bit_length())
