"""The CTAs of a grid in groups, of which all CTAs are alive at once: clusters, or the whole grid."""

from __future__ import annotations

from functools import cached_property

from wsemu.model.data import dataclass

Extent = tuple[int, int, int]


@dataclass(frozen=True)
class Grouping:
    """A grid, cut into groups of `shape` CTAs along each axis, which divides it.

    Groups are numbered as clusters are (PTX ISA, "%clusterid"), the CTAs of a group by their rank in it
    ("%cluster_ctarank"), x first.
    """

    grid: Extent
    shape: Extent = (1, 1, 1)

    @cached_property
    def members(self) -> int:
        """CTAs of a group."""
        return self.shape[0] * self.shape[1] * self.shape[2]

    @cached_property
    def along(self) -> Extent:
        """Groups along each axis."""
        x, y, z = (extent // size for extent, size in zip(self.grid, self.shape, strict=True))
        return x, y, z

    @cached_property
    def number(self) -> int:
        """Groups of the grid."""
        return self.along[0] * self.along[1] * self.along[2]

    def cta(self, group: int, member: int) -> int:
        """A CTA by its linear index in the grid."""
        if self.members == 1:
            return group
        at = zip(place(group, self.along), place(member, self.shape), self.shape, strict=True)
        return linear([cluster * size + inside for cluster, inside, size in at], self.grid)

    def of(self, cta: int) -> tuple[int, int]:
        """(group, member) of a CTA."""
        if self.members == 1:
            return cta, 0
        at = place(cta, self.grid)
        clusters = [x // size for x, size in zip(at, self.shape, strict=True)]
        inside = [x % size for x, size in zip(at, self.shape, strict=True)]
        return linear(clusters, self.along), linear(inside, self.shape)


def place(index: int, extent: Extent) -> Extent:
    """A linear index along each axis."""
    x, y, _ = extent
    return index % x, index // x % y, index // (x * y)


def linear(at: list[int] | Extent, extent: Extent) -> int:
    """An index along each axis as a linear one."""
    return at[0] + extent[0] * (at[1] + extent[1] * at[2])


FARTHEST = 24
"""the most that `window` gives: an address so many bits on lies in no CTA's shared memory, and has 32 bits"""


def window(shared_bytes: int, *, asynchronous: bool, columns: bool = False) -> int:
    """log2 of the bytes from one CTA's shared memory to the next one's, in a group of several: there is a gap between
    the two.  Matrix descriptors have 18 bits of an address, patterns of tensor copies go by 10; kernels that use
    `columns` of tensor memory take bits 24 and up for the rank, as the hardware has it."""
    if columns:
        return FARTHEST
    return max(18 if asynchronous else 10, (shared_bytes + 127).bit_length())
