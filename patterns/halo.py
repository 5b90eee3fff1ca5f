"""Halo transfers: the border around a two-dimensional tile."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from wsemu.model.errors import UsageError
from wsemu.patterns import rules
from wsemu.patterns.strided import lanes_per_element
from wsemu.patterns.transfer import Copy, Transfer

_ELEMENT_BYTES = (4, 8, 16)
_MOST_RADIUS = 8


@dataclass(frozen=True)
class RowsAround:
    """`radius` rows above a tile of `rows` rows, then `radius` rows below it; offsets count from the tile's origin."""

    array: Any
    pitch: int
    radius: int
    rows: int
    left: int
    """number of bytes to the left of the origin at which the rows begin"""

    def offset(self, element: Any) -> Any:
        return (element - self.radius + (element >= self.radius) * self.rows) * self.pitch - self.left


@dataclass(frozen=True)
class Flanks:
    """The columns on both sides of each row of a tile, in turn: `left` bytes before the origin and `right` bytes after
    it.

    Left and right parts alternate, because both flanks of a few rows are spread over more banks than one flank of twice
    their number.
    """

    array: Any
    pitch: int
    left: int
    right: int

    def offset(self, element: Any) -> Any:
        return element // 2 * self.pitch - self.left + element % 2 * (self.left + self.right)


@dataclass(frozen=True)
class CudaDMAHalo(Transfer):
    """Transfers the border of `radius` elements around a tile, with or without its corners (the paper, section 6.2).

    `src` and `dst` begin at the tile's origin, its first element inside the border: `grid[y:, x:]`, and `tile[radius:,
    radius:]` of a tile with `radius` more rows and columns on each side.  The rows above and below are transferred
    first; `start_xfer_async` loads from them in advance.
    """

    element_bytes: int
    """bytes of an element: 4, 8 or 16"""
    tile_x: int
    """elements of a row of the tile, without the border"""
    tile_y: int
    """rows of the tile, without the border"""
    radius: int
    """1 to 8 elements"""
    src_pitch: int
    """bytes from one row of the source to the next, a multiple of alignment"""
    corners: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        rules.integers(self, "element_bytes", "tile_x", "tile_y", "radius", "src_pitch")
        rules.flag(self, "corners")
        rules.check_choice(self, "element_bytes", _ELEMENT_BYTES)
        for name in ("tile_x", "tile_y"):
            rules.multiple(self, name, 1)
        rules.check_choice(self, "radius", range(1, _MOST_RADIUS + 1))
        rules.stride(self, "src_pitch", self.alignment)
        for name, elements in (("radius", self.radius), ("tile_x", self.tile_x)):
            if elements * self.element_bytes % self.alignment:
                fits = max(a for a in _ELEMENT_BYTES if elements * self.element_bytes % a == 0)
                raise UsageError(
                    f"{name} is {elements}, {elements * self.element_bytes} bytes: not a multiple of alignment, "
                    f"{self.alignment} bytes; give alignment={fits}"
                )

    @property
    def flank(self) -> int:
        """Return the number of bytes of the border on one side of a row of the tile."""
        return self.radius * self.element_bytes

    @property
    def row(self) -> int:
        """Return the number of bytes of a row of the tile, without the border."""
        return self.tile_x * self.element_bytes

    @property
    def corner(self) -> int:
        """Return the bytes by which the rows above and below begin to the left of the tile: a corner's width, or 0."""
        return self.flank if self.corners else 0

    @property
    def dst_pitch(self) -> int:
        """Return the distance in bytes from one row of the destination to the next."""
        return self.row + 2 * self.flank

    def part(self, elements: Any, element_bytes: Any) -> Any:
        return Copy(self, lanes_per_element(self, element_bytes), elements, element_bytes)

    def rows_copy(self) -> Any:
        return self.part(2 * self.radius, self.row + 2 * self.corner)

    def rows_of(self, array: Any, pitch: Any) -> Any:
        return RowsAround(array, pitch, self.radius, self.tile_y, self.corner)

    def flanks_copy(self) -> Any:
        return self.part(2 * self.tile_y, self.flank)

    def flanks_of(self, array: Any, pitch: Any) -> Any:
        """Return the columns on both sides of the tile."""
        return Flanks(array, pitch, self.flank, self.row)

    def total_bytes(self) -> Any:
        rows, flanks = self.rows_copy(), self.flanks_copy()
        return rows.elements * rows.element_bytes + flanks.elements * flanks.element_bytes

    def issue(self, thread: Any, src: Any, dst: Any) -> Any:
        pitch, to = self.src_pitch, self.dst_pitch
        self.rows_copy().issue(thread, self.rows_of(src, pitch), self.rows_of(dst, to))
        self.flanks_copy().issue(thread, self.flanks_of(src, pitch), self.flanks_of(dst, to))

    def issue_bulk(self, src: Any, dst: Any, bars: Any, k: Any) -> Any:
        pitch, to = self.src_pitch, self.dst_pitch
        self.rows_copy().issue_bulk(self.rows_of(src, pitch), self.rows_of(dst, to), bars, k)
        self.flanks_copy().issue_bulk(self.flanks_of(src, pitch), self.flanks_of(dst, to), bars, k)

    def flanks_through_registers(self, thread: Any, src: Any, dst: Any, registers: Any) -> Any:
        source, destination = self.flanks_of(src, self.src_pitch), self.flanks_of(dst, self.dst_pitch)
        self.flanks_copy().run(thread, source, destination, registers)

    def through_registers(self, thread: Any, src: Any, dst: Any, registers: Any) -> Any:
        source, destination = self.rows_of(src, self.src_pitch), self.rows_of(dst, self.dst_pitch)
        self.rows_copy().run(thread, source, destination, registers)
        self.flanks_through_registers(thread, src, dst, registers)

    def load_first(self, thread: Any, src: Any, registers: Any) -> Any:
        self.rows_copy().load_step(0, thread, self.rows_of(src, self.src_pitch), registers)

    def store_first(self, thread: Any, src: Any, dst: Any, registers: Any) -> Any:
        source, destination = self.rows_of(src, self.src_pitch), self.rows_of(dst, self.dst_pitch)
        self.rows_copy().complete(thread, source, destination, registers)
        self.flanks_through_registers(thread, src, dst, registers)

    def parts(self) -> tuple[tuple[str, Copy], ...]:
        rows, flanks = self.rows_copy(), self.flanks_copy()
        return ((f"rows: {rows.way()}", rows), (f"flanks: {flanks.way()}", flanks))

    def moves(self) -> list[tuple[int, int, int]]:
        """Return (offset in the source, offset in the destination, bytes) of each run, counted from the two origins."""
        x, size = -self.corner, self.row + 2 * self.corner
        outside = [y for y in range(-self.radius, self.tile_y + self.radius) if not 0 <= y < self.tile_y]
        found = [(y, x, size) for y in outside]
        for y in range(self.tile_y):
            found += [(y, -self.flank, self.flank), (y, self.row, self.flank)]
        return [(y * self.src_pitch + x, y * self.dst_pitch + x, size) for y, x, size in found]
