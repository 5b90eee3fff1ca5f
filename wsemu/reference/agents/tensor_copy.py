"""`cp.async.bulk.tensor`, `cp.reduce.async.bulk.tensor`: copies of a tile that a tensor map describes, by an agent.

PTX ISA, "Tensors", "cp.async.bulk.tensor", "cp.reduce.async.bulk.tensor"; measured rules T20 to T29.  A tile consists
of rows along dimension 0.  Some bytes of a row may lie outside of the tensor: loads fill them, stores skip them.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NoReturn

from wsemu.model.data import NamedTuple
from wsemu.model.isa import (
    ATOMIC,
    LINE_HALOS,
    LINE_MODE,
    LINE_OFFSETS,
    LONG_LINE_MODE,
    LONG_LINE_PIXELS,
    NAMED_ROWS,
    OFFSET_BITS,
    OFFSET_MASK,
    OWN_TILE,
    PAIR_TILE,
    PIXELS_MODE,
    READ,
    ROW,
    ROWS_MODE,
    SEGMENT_SHIFT,
    SHARED,
    TENSOR_RANK,
    TENSOR_REDUCTIONS,
    TILE_MODE_SHIFT,
    TILE_MODES,
    WRITE,
)
from wsemu.model.tensor_map import (
    CORNER_BITS,
    ELEMENT_TYPES,
    LINE,
    LONG_LINE,
    MAP_ALIGNMENT,
    MAP_BYTES,
    PACKED,
    PADDED,
    PADDED_ROW,
    SHARED_ALIGNMENT,
    UNIT,
    decode,
    refuse_pixels,
)
from wsemu.reference.agents import bulk_copy, map_fences
from wsemu.reference.agents.copy import Issued
from wsemu.reference.agents.reductions import combine_elements, flush_subnormals
from wsemu.reference.arithmetic import to_signed
from wsemu.reference.memory.bounds import find_segment, forget, locate, put
from wsemu.reference.memory.thread_shadow import Conflict, ThreadWatch, Touch
from wsemu.reference.state import list_lanes
from wsemu.reference.sync import mbarrier, peers
from wsemu.reference.sync.named_barrier import StopError, TrapError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wsemu.model.tensor_map import MapFields
    from wsemu.reference.memory.bounds import Place
    from wsemu.reference.warp import WarpRun

NO_MAP, RANK, INNER, NEGATIVE, TYPE, WHOLE_ROW = range(6)
"""`what` of a tensor-map finding"""
_NAN = b"\xf7\x7f"
_INTEGERS = ("u32", "s32", "u64", "s64")
_REDUCES = {
    "add": ("u32", "s32", "u64", "f16", "f32", "f64", "bf16", "f32_ftz", "tf32", "tf32_ftz"),
    "min": (*_INTEGERS, "f16", "bf16"),
    "max": (*_INTEGERS, "f16", "bf16"),
    "inc": ("u32",),
    "dec": ("u32",),
    **dict.fromkeys(("and", "or", "xor"), ("u32", "s32", "u64")),
}
"""T27: reduction -> the element types that it supports"""


class Row(NamedTuple):
    """A row of a tile.  Its start may lie outside of the tensor.  Its address in shared memory is the one before the
    swizzle; its range of bytes in the tensor is from first to last + 1."""

    outside: int
    inside: int
    low: int
    high: int


class Tile(NamedTuple):
    """The tile that a lane's copy transfers."""

    fields: MapFields
    map: Place
    to: int
    """address of the tile in shared memory"""
    rows: tuple[Row, ...]
    start: int
    """address of the tile in the tensor"""
    own: bool
    """true if the tile must be in the CTA's own shared memory"""

    @property
    def size(self) -> int:
        """Return the bytes that its mbarrier counts (T23, T28)."""
        return self.fields.row_bytes * len(self.rows)

    @property
    def span(self) -> int:
        """Return the bytes from the tile's first byte in shared memory to its last; the swizzle may permute the bytes
        of the last line."""
        last = self.rows[-1].inside
        held = self.fields.held_bytes
        units = range(max(0, held - 8 * UNIT), held, UNIT)
        return max(self.swizzle_address(last + q) for q in units) + UNIT - self.to

    def swizzle_address(self, address: int) -> int:
        """Return the address in shared memory of a unit of 16 bytes (T22)."""
        if self.fields.wide:
            return address ^ (address >> 7 & 3) << 5
        return address ^ (address >> 7 & (1 << self.fields.swizzle) - 1) << 4

    def units(self, row: Row) -> Iterator[tuple[int, int]]:
        """Yield the units of a row that are in the tensor: the first byte in the row, and the address in shared
        memory."""
        for q in range(row.low, row.high, UNIT):
            yield q, self.swizzle_address(row.inside + q)

    def padded_pieces(self, row: Row, content: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield the address in shared memory and the bytes of each 16 elements of a row whose type has padding."""
        size = 2 * PADDED[self.fields.type]
        for n in range(PADDED_ROW // UNIT):
            yield self.swizzle_address(row.inside + n * UNIT), content[n * size : (n + 1) * size]

    def shared_runs(self, *, whole: bool) -> Iterator[tuple[int, int]]:
        """Yield (address, bytes) in shared memory: of the whole tile, or of its part in the tensor."""
        if self.fields.type in PADDED:  # a load changes the padding too, and a swizzle only permutes the bytes of a row
            yield self.to, PADDED_ROW * len(self.rows)
            return
        length = self.fields.row_bytes
        apart = self.fields.interleave and self.fields.swizzle
        if whole and self.fields.pitch == length and not apart:
            yield self.to, length * len(self.rows)
            return
        for row in self.rows:
            low, high = (0, length) if whole else (row.low, row.high)
            if low >= high:
                continue
            if not self.fields.swizzle or (high - low == length == self.fields.pitch and not apart):
                yield row.inside + low, high - low
            else:
                yield from ((self.swizzle_address(row.inside + q), UNIT) for q in range(low, high, UNIT))


def load(run: WarpRun, name: str, fields: list[int], lanes: int) -> None:
    """Copy the tile of the map at `b` to shared `a`; the mbarrier at `c` is credited with all bytes of the tile
    (T23)."""
    own, pair = bool(fields[7] & OWN_TILE), bool(fields[7] & PAIR_TILE)
    bulk_copy.check_mbarriers(run, name, fields[3], fields[5], lanes, own=own, pair=pair)
    goals: dict[int, list[int]] = {}
    for lane in list_lanes(lanes):
        masks = fields[2] + (fields[7] & TENSOR_RANK) * ROW
        goals[lane] = bulk_copy.ranks(run, name, masks, lane, fields[3])
        for to in goals[lane]:
            bulk_copy.find_live(run, name, fields[5], lane, to, pair=pair)
    copies = _Copies(run)
    for lane, tile in _tiles(run, fields, lanes, stores=False).items():
        for to in goals[lane]:
            moved = _retarget(tile, to)
            agent = copies.load(lane, moved)
            if to >> SEGMENT_SHIFT == SHARED:
                peers.reach(run, peers.member_rank(run, to & OFFSET_MASK), 1 << lane, agent)
            credited = bulk_copy.find_live(run, name, fields[5], lane, to, pair=pair)
            mbarrier.credit(run, credited, lane, agent, tile.size)
    copies.tell()
    run.cta.order.tick((run.cta.number, run.warp.number))


def _retarget(tile: Tile, to: int) -> Tile:
    """Return the tile at another location in shared memory."""
    rows = tuple(row._replace(inside=row.inside + to - tile.to) for row in tile.rows)
    return tile._replace(to=to, rows=rows)


def store(run: WarpRun, name: str, fields: list[int], lanes: int) -> None:
    """Copy the tile at shared `a` to the tensor of the map at `b`, as an operation of the lane's bulk groups."""
    copies = _Copies(run)
    for lane, tile in _tiles(run, fields, lanes, stores=True).items():
        copies.store(lane, tile)
    copies.tell()
    run.cta.order.tick((run.cta.number, run.warp.number))


def reduce(run: WarpRun, name: str, fields: list[int], lanes: int) -> None:
    """Combine the tile at shared `a` with the tensor, element by element (T27), as an operation of the lane's bulk
    groups."""
    what = TENSOR_REDUCTIONS[fields[7] >> 3 & 7]
    tiles = _tiles(run, fields, lanes, stores=True, what=what)
    copies = _Copies(run)
    for lane, tile in tiles.items():
        copies.store(lane, tile, what)
    copies.tell()
    run.cta.order.tick((run.cta.number, run.warp.number))


def prefetch(run: WarpRun, name: str, fields: list[int], lanes: int) -> None:
    """Check what every copy of the tile requires; a prefetch has no other effect in the emulator."""
    _tiles(run, fields, lanes, stores=False)


# -- tiles -------------------------------------------------------------------------------------------------------------


def _tiles(run: WarpRun, fields: list[int], lanes: int, *, stores: bool, what: str = "") -> dict[int, Tile]:
    """Return the tile of each lane; stop the run if the hardware does (T21, T27, T29)."""
    rank = fields[7] & TENSOR_RANK
    tiles = {}
    for lane in list_lanes(lanes):
        at = [to_signed(run.read(fields[2] + k * ROW, "b32", lane), 32) for k in range(rank)]
        tiles[lane] = _tile(run, fields, lane, at, stores=stores, what=what)
    return tiles


def _find_mode(fields: list[int]) -> int:
    return fields[7] >> TILE_MODE_SHIFT & TILE_MODES


def _named_rank(fields: list[int]) -> int:
    """Return the rank of the map that a copy needs."""
    rows = fields[7] & TENSOR_RANK
    mode = _find_mode(fields)
    return rows - 1 if mode in _LINES else 2 if mode == ROWS_MODE else rows


_LINES = {PIXELS_MODE: 0, LINE_MODE: LINE, LONG_LINE_MODE: LONG_LINE}
"""mode of a copy of pixels -> `Im2col.line` of its map"""


def _is_modelled(decoded: MapFields, mode: int, *, stores: bool) -> bool:
    """Return whether copies in this mode by a map are modelled."""
    if decoded.type in PADDED and (stores or mode != 0):
        return False
    if mode in _LINES:
        if decoded.im2col is None or decoded.im2col.line != _LINES[mode]:
            return False
        return not decoded.interleave and not refuse_pixels(decoded)
    if decoded.im2col is not None:
        return False
    if mode == ROWS_MODE:
        return not decoded.interleave and (decoded.rank != 2 or decoded.box[1] == 1)
    return not (decoded.interleave and max(decoded.steps) > 1)


class _Walk(NamedTuple):
    """The box that pixels of im2col mode lie in, innermost dimension first, and the offsets of a copy."""

    low: tuple[int, ...]
    high: tuple[int, ...]
    offsets: tuple[int, ...]

    @classmethod
    def of(cls, fields: MapFields, joined: int) -> _Walk:
        assert fields.im2col is not None
        bits, count = OFFSET_BITS[fields.rank], fields.rank - 2
        offsets = tuple(joined >> bits * n & (1 << bits) - 1 for n in range(count))
        high = (extent - 1 + up for extent, up in zip(fields.extents[1:], fields.im2col.upper, strict=False))
        return cls(fields.im2col.lower, tuple(high), offsets)

    def is_modelled(self, fields: MapFields, at: Sequence[int]) -> bool:
        """Return whether a copy begins in the box, with offsets that fit into the instruction."""
        inside = all(low <= x <= high for low, x, high in zip(self.low, at[1:], self.high, strict=False))
        return inside and max(self.offsets) < 1 << CORNER_BITS[fields.rank]

    def pixels(self, fields: MapFields, at: Sequence[int]) -> Iterator[tuple[int, ...]]:
        """Yield the pixels of a copy, as coordinates in all dimensions but the channels.  The innermost dimension
        varies fastest; at the end of the box, the next one takes a step."""
        assert fields.im2col is not None
        place = list(at[1 : fields.rank])
        for _ in range(fields.im2col.pixels):
            yield (*(x + offset for x, offset in zip(place, self.offsets, strict=False)), place[-1])
            for n, (low, high) in enumerate(zip(self.low, self.high, strict=True)):
                place[n] += fields.steps[n + 1]
                if place[n] <= high:
                    break
                place[n] = low
            else:
                place[-1] += 1


class _Line(NamedTuple):
    """The pixels of a copy along dimension 1 (im2col::w): PTX ISA, "im2col::w and im2col::w::128 modes"."""

    inner: int
    """number of pixels without the halo"""
    halo: int
    offset: int
    long: bool

    def steps(self, fields: MapFields, first: int) -> Iterator[tuple[int, int]]:
        """Yield the position of each pixel in dimension 1, without the offset, and how many images come before its
        own: at the end of the box, the line continues in the next image."""
        assert fields.im2col is not None
        x, image = first, 0
        for _ in range(self.inner + self.halo):
            yield x, image
            x += fields.steps[1]
            if x > fields.extents[1] - 1 + fields.im2col.upper[0]:
                x, image = fields.im2col.lower[0], image + 1

    def is_modelled(self, fields: MapFields, at: Sequence[int]) -> bool:
        """Return whether a copy does not begin past the box, has a valid offset, and its halo is in the image of the
        last other pixel; PTX ISA has the location of other halos in figures only."""
        assert fields.im2col is not None
        if at[1] > fields.extents[1] - 1 + fields.im2col.upper[0] or self.offset >= LINE_OFFSETS:
            return False
        if self.halo == 0:
            return True
        images = [image for _, image in self.steps(fields, at[1])]
        return not self.long and self.halo < LINE_HALOS and images[self.inner - 1] == images[-1]

    def pixels(self, fields: MapFields, at: Sequence[int]) -> Iterator[tuple[int, ...]]:
        """Yield the pixels of a copy, as coordinates in all dimensions but the channels."""
        last = fields.rank - 1
        for x, image in self.steps(fields, at[1]):
            yield (x + self.offset, *at[2:last], at[last] + image)


def _walk(fields: MapFields, at: Sequence[int], mode: int) -> _Walk | _Line:
    """Return the pixels of a copy, whose offsets follow its coordinates."""
    if mode == PIXELS_MODE:
        return _Walk.of(fields, at[-1])
    assert fields.im2col is not None
    long = mode == LONG_LINE_MODE
    inner = LONG_LINE_PIXELS if long else fields.im2col.pixels
    return _Line(inner, at[-1] & 0xFFFF, at[-1] >> 16 & 0xFFFF, long)


def _tile(run: WarpRun, fields: list[int], lane: int, at: Sequence[int], *, stores: bool, what: str) -> Tile:
    place = locate(
        run, run.read(fields[4], "b64", lane), lane, MAP_BYTES, writes=False, alignment=MAP_ALIGNMENT, shared=False
    )
    if place is None:
        raise StopError("fault", run.group.pc, run.warp.number)
    segment, number, offset = place
    map_address = (number << SEGMENT_SHIFT) + offset
    decoded = decode(bytes(segment.data[offset : offset + MAP_BYTES]))

    def refuse(code: int, value: int) -> NoReturn:
        run.cta.finding(
            "tensor-map", run.group.pc, run.warp.number, 1 << lane, address=map_address, what=code, value=value
        )
        raise StopError("fault", run.group.pc, run.warp.number)

    written = map_fences.written_otherwise(run, map_address)
    if decoded is None and not written:
        refuse(NO_MAP, 0)
    mode = _find_mode(fields)
    if decoded is None or written or not _is_modelled(decoded, mode, stores=stores):
        raise TrapError(run.group.pc, run.warp.number)
    fits = decoded.rank == _named_rank(fields)
    if mode in _LINES and fits and not _walk(decoded, at, mode).is_modelled(decoded, at):
        raise TrapError(run.group.pc, run.warp.number)
    if not fits:
        refuse(RANK, decoded.rank)
    if decoded.type in PADDED and at[0] % PADDED_ROW:
        refuse(WHOLE_ROW, at[0])
    if not decoded.interleave and at[0] * decoded.size % (UNIT << (decoded.type == PACKED)):
        refuse(INNER, at[0])
    least = at[0] if mode in _LINES else min(at)
    if stores and least < 0:
        refuse(NEGATIVE, least)
    if what and decoded.type not in _REDUCES[what]:
        refuse(TYPE, ELEMENT_TYPES[decoded.type].code)
    to = run.read(fields[3], "b64", lane)
    rows = tuple(_rows(decoded, at, to, mode, stores=stores))
    own = stores or bool(fields[7] & OWN_TILE)
    return Tile(decoded, place, to, rows, decoded.address, own)


def _starts(fields: MapFields, at: Sequence[int], mode: int) -> Iterator[tuple[int, ...]]:
    """Yield the positions of the rows of a copy in all dimensions but the innermost one, in the order of their
    addresses in shared memory: dimension 1 varies fastest (T20, T28)."""
    if mode == ROWS_MODE:
        yield from ((y,) for y in at[1 : 1 + NAMED_ROWS])
    elif mode in _LINES:
        yield from _walk(fields, at, mode).pixels(fields, at)
    else:
        outer = [range(count) for count in fields.counts[1:]]
        for index in itertools.product(*reversed(outer)):
            yield tuple(at[d] + i * fields.steps[d] for d, i in enumerate(reversed(index), 1))


def _rows(fields: MapFields, at: Sequence[int], to: int, mode: int, *, stores: bool) -> Iterator[Row]:
    """Yield the rows of a copy."""
    length, end = fields.row_bytes, fields.to_bytes(fields.extents[0])
    if stores:
        end = -(-end // UNIT) * UNIT  # T26
    first = fields.to_bytes(at[0])
    low, high = min(max(-first, 0), length), max(min(end - first, length), 0)
    for n, place in enumerate(_starts(fields, at, mode)):
        address, there = fields.address + first, True
        for d, x in enumerate(place, 1):
            there = there and 0 <= x < fields.extents[d]
            address += x * fields.strides[d - 1]
        yield Row(address, to + n * fields.pitch, low, high if there else low)


def accessed_ranges(
    run: WarpRun, name: str, fields: list[int], lane: int
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Return the (address, bytes) that a lane's copy is about to access in shared memory, and in the tensor; both are
    empty if the copy is invalid."""
    number, offset = divmod(run.read(fields[4], "b64", lane), 1 << SEGMENT_SHIFT)
    segment = find_segment(run, number)
    decoded = decode(bytes(segment.data[offset : offset + MAP_BYTES])) if segment is not None else None
    mode = _find_mode(fields)
    stores = name in ("tensor.store", "tensor.reduce")
    if segment is None or decoded is None or decoded.rank != _named_rank(fields):
        return [], []
    if not _is_modelled(decoded, mode, stores=stores):
        return [], []
    registers = fields[7] & TENSOR_RANK
    at = [to_signed(run.read(fields[2] + k * ROW, "b32", lane), 32) for k in range(registers)]
    to = run.read(fields[3], "b64", lane)
    rows = tuple(_rows(decoded, at, to, mode, stores=stores))
    tile = Tile(decoded, (segment, number, offset), to, rows, decoded.address, own=stores)
    goals = bulk_copy.ranks(run, name, fields[2] + registers * ROW, lane, fields[3])
    inside = [piece for goal in goals for piece in _retarget(tile, goal).shared_runs(whole=not stores)]
    return inside, [(row.outside + row.low, row.high - row.low) for row in rows if row.high > row.low]


# -- copies ------------------------------------------------------------------------------------------------------------


class _Copies:
    """The agents of one instruction, created lane by lane."""

    def __init__(self, run: WarpRun) -> None:
        self._run = run
        self._found: list[Conflict] = []

    def load(self, lane: int, tile: Tile) -> int:
        """Fill the tile as an agent of a lane, if the tile is valid; return the agent."""
        run, fields = self._run, tile.fields
        runs = [(row.outside + row.low, row.high - row.low) for row in tile.rows if row.high > row.low]
        made = self._places(lane, tile, runs, stores=False)
        agent = run.cta.order.fork(run.cta.number)
        if made is None:
            return agent
        target, sources = made
        self._log(lane, tile.to, tile.size)
        self._clobbers(lane, tile, target)
        self._read(lane, agent, tile, sources)
        runs = list(tile.shared_runs(whole=True))
        for address, size in runs:
            self._touch(lane, agent, WRITE, address, size)
        filled: dict[int, bytes] = {}
        held = iter(sources)
        for row in tile.rows:
            source = _content(*next(held)) if row.high > row.low else b""
            if ELEMENT_TYPES[fields.type].rounds:
                source = _round_to_tf32(source)
            filler = _NAN * (fields.row_bytes // 2) if fields.nan else bytes(fields.row_bytes)
            whole = filler[: row.low] + source + filler[row.low + len(source) :]
            if fields.type in PADDED:
                filled.update(tile.padded_pieces(row, whole))
                continue
            for q in range(0, fields.row_bytes, UNIT):
                filled[tile.swizzle_address(row.inside + q)] = whole[q : q + UNIT]
        for address, value in filled.items():
            offset = target[2] + address - tile.to
            put(target[0], offset, value)
            if fields.type in PADDED:
                forget(target[0], offset + len(value), UNIT - len(value))
        run.cta.issued.append(Issued(run.group.pc, run.warp.number, lane, agent, tile.to, tile.size, reads=False))
        return agent

    def store(self, lane: int, tile: Tile, what: str = "") -> None:
        """Store or combine the tile as an agent of a lane, if the tile is valid."""
        run, fields = self._run, tile.fields
        runs = [(row.outside + row.low, row.high - row.low) for row in tile.rows if row.high > row.low]
        made = self._places(lane, tile, runs, stores=True)
        if made is None:
            return
        source, targets = made
        agent = run.cta.order.fork(run.cta.number)
        self._log(lane, tile.start, tile.size)
        self._touch_map(lane, agent, tile)
        inner = [
            ((source[0], source[1], source[2] + address - tile.to), size)
            for address, size in tile.shared_runs(whole=False)
        ]
        self._judge_written(lane, inner)
        for (_, number, offset), size in inner:
            self._touch(lane, agent, READ, (number << SEGMENT_SHIFT) + offset, size)
        width = fields.size if what else 0
        for (_, number, offset), size in targets:
            self._touch(lane, agent, ATOMIC if what else WRITE, (number << SEGMENT_SHIFT) + offset, size, width)
        for place, size in targets:
            run.launch.watch.read_only.note(run, {lane: place}, size, stores=True)
        if what:
            self._judge_written(lane, targets)
        places = iter(targets)
        for row in tile.rows:
            if row.high > row.low:
                value = b"".join(
                    _content((source[0], source[1], source[2] + address - tile.to), UNIT)
                    for _, address in tile.units(row)
                )
                (segment, _, offset), size = next(places)
                if what:
                    value = _combine_elements(what, fields.type, _content((segment, 0, offset), size), value)
                put(segment, offset, value)
        run.cta.bulk[run.warp.number, lane].loose |= 3 << 2 * agent
        moved = tile.size if runs else 0
        run.cta.issued.append(
            Issued(run.group.pc, run.warp.number, lane, agent, tile.to, moved, reads=True, stores=True)
        )

    def tell(self) -> None:
        """Report the conflicts of all these copies."""
        watch = self._run.launch.watch
        assert isinstance(watch, ThreadWatch)
        watch.tell(self._run, self._run.group.pc, self._found)

    def _places(
        self, lane: int, tile: Tile, runs: Sequence[tuple[int, int]], *, stores: bool
    ) -> tuple[Place, list[tuple[Place, int]]] | None:
        """Return the location of the tile in shared memory, and those of its rows in the tensor; None if one of them is
        invalid."""
        own = True if tile.own else None
        inner = locate(self._run, tile.to, lane, tile.span, not stores, SHARED_ALIGNMENT, shared=True, own=own)
        if inner is None:
            return None
        found = []
        for address, size in runs:
            place = locate(self._run, address & (1 << 64) - 1, lane, size, writes=stores, alignment=1, shared=False)
            if place is None:
                return None
            found.append((place, size))
        return inner, found

    def _read(self, lane: int, agent: int, tile: Tile, sources: Sequence[tuple[Place, int]]) -> None:
        self._touch_map(lane, agent, tile)
        self._judge_written(lane, sources)
        for (_, number, offset), size in sources:
            self._touch(lane, agent, READ, (number << SEGMENT_SHIFT) + offset, size)

    def _judge_written(self, lane: int, runs: Sequence[tuple[Place, int]]) -> None:
        """Report the first run of bytes that contains an uninitialized byte."""
        for (segment, number, offset), size in runs:
            if segment.undefined and self._run.launch.undefined is not None:
                self._run.launch.undefined.consume(self._run, lane, segment, offset, size)
            if segment.written is not None and 0 in segment.written[offset : offset + size]:
                self._run.cta.finding(
                    "uninitialized-read", self._run.group.pc, self._run.warp.number, 1 << lane,
                    address=(number << SEGMENT_SHIFT) + offset, size=size, segment=number,
                )  # fmt: skip
                return

    def _touch_map(self, lane: int, agent: int, tile: Tile) -> None:
        """Record that the agent reads the map.  Only the order of this read is checked, because it uses another proxy
        than the copied data."""
        _, number, offset = tile.map
        address = (number << SEGMENT_SHIFT) + offset
        map_fences.judge(self._run, lane, address)
        self._touch(lane, agent, READ, address, MAP_BYTES, bulk=False)

    def _touch(
        self, lane: int, agent: int, kind: int, address: int, size: int, width: int = 0, *, bulk: bool = True
    ) -> None:
        run, watch = self._run, self._run.launch.watch
        assert isinstance(watch, ThreadWatch)
        segment = find_segment(run, address >> SEGMENT_SHIFT)
        if segment is None or not segment.writable:
            return
        time = watch.order.time((run.cta.number, run.warp.number))
        now = Touch(kind, run.cta.number, run.warp.number, 0, time, run.group.pc, size, width, agent, bulk=bulk)
        self._found += watch.touch_as_agent(now, lane, range(address, address + size))

    def _log(self, lane: int, address: int, size: int) -> None:
        run = self._run
        run.launch.watch.happen("copy", run.cta.number, run.warp.number, run.group.pc, address, -1, 1 << lane, size)

    def _clobbers(self, lane: int, tile: Tile, target: Place) -> None:
        """Report the first run of the tile that contains bytes of an mbarrier."""
        mbarriers = self._run.cta.mbarriers
        for address, size in tile.shared_runs(whole=True) if mbarriers.live else ():
            place = target[0], target[1], target[2] + address - tile.to
            if mbarriers.report_clobbered(self._run, WRITE, {lane: (place, size)}, size, 1):
                return


def _content(place: Place, size: int) -> bytes:
    segment, _, offset = place
    return bytes(segment.data[offset : offset + size])


def _round_to_tf32(data: bytes) -> bytes:
    """Round elements to TF32, which has 10 fraction bits, to nearest even; a nan becomes 0x7FFFE000 (T25)."""
    result = b""
    for at in range(0, len(data) // 4 * 4, 4):
        bits = int.from_bytes(data[at : at + 4], "little")
        if bits >> 23 & 0xFF == 0xFF:
            bits = 0x7FFFE000 if bits & 0x7FFFFF else bits
        else:
            bits = bits + 0xFFF + (bits >> 13 & 1) & 0xFFFFE000
        result += bits.to_bytes(4, "little")
    return result


_AS = {"f32_ftz": "f32", "tf32": "f32", "tf32_ftz": "f32"}
"""type of a map -> type in which its elements are combined; types that flush subnormals do so first"""
_BITS = {"u32": "b32", "s32": "b32", "u64": "b64"}


def _combine_elements(what: str, type_: str, old: bytes, new: bytes) -> bytes:
    as_type = _AS.get(type_, type_)
    if what in ("and", "or", "xor"):
        as_type = _BITS[type_]
    if type_.endswith("ftz"):
        old, new = flush_subnormals(old), flush_subnormals(new)
    return combine_elements(what, as_type, old, new)
