"""Matrix operations of a warp, element by element.

PTX ISA, "Matrix multiply-accumulate operation using mma instruction", "ldmatrix", "stmatrix", "movmatrix".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from wsemu.model.arch import ARCHS
from wsemu.model.isa import LANES, ROW
from wsemu.model.matrix import (
    BYTE_A_SHIFT,
    BYTE_B_SHIFT,
    COLLECT,
    FACTORS_SHIFT,
    FINE,
    LANE_A_SHIFT,
    LANE_B_SHIFT,
    MMA,
    MOVES,
    SELECTOR_SHIFT,
    SPREAD,
    find_metadata,
    move_counts,
)
from wsemu.reference.matrix.scaled import scaled_elements
from wsemu.reference.matrix.sums import element
from wsemu.reference.state import list_lanes

if TYPE_CHECKING:
    from wsemu.model.matrix import Mma
    from wsemu.reference.warp import WarpRun

ALL_LANES = (1 << LANES) - 1
Matrix = dict[tuple[int, int], int]
"""(row, column) -> bits"""


class Registers(Protocol):
    """The registers of a warp, or instead of them the masks of their undefined bits."""

    def read(self, row: int, type_: str, lane: int, /) -> int: ...

    def write(self, row: int, type_: str, lane: int, value: int, /) -> None: ...


def execute(run: WarpRun, name: str, fields: list[int], lanes: int) -> None:
    """Execute a matrix operation for some lanes of a warp, which should be all its lanes."""
    gather_lanes(run, lanes)
    if run.launch.undefined is not None:
        run.launch.undefined.multiply(run, name, fields, lanes)
    if name in MOVES:
        move_elements(run, name, fields, lanes)
        return
    shape = MMA[name]
    a, b = _fragment_a(run, shape, fields[3]), _fragment_b(run, shape, fields[4])
    before = _accumulators(run, shape, fields[6])
    tensor = ARCHS[run.launch.outcome.arch].tensor_core
    places = range(shape.k >> shape.sparse) if shape.sparse else sorted({k for _, k in a})
    selected = [[*places]] * shape.m
    if shape.sparse:
        selected = selected_ks(run, shape, fields[3] + (shape.counts[1] - 1) * ROW, fields[7] >> SELECTOR_SHIFT)
    rows = [tuple(a[i, place] for place in places) for i in range(shape.m)]
    if shape.has_factors:
        _write(
            run,
            shape,
            fields[2],
            scaled_elements(shape, rows, b, before, _factors(run, shape, fields), fine=bool(fields[7] & FINE)),
            lanes,
        )
        return
    result = {
        (i, j): element(shape, tensor, rows[i], tuple(b[k, j] for k in selected[i]), before[i, j], fields[7])
        for i in range(shape.m)
        for j in range(shape.n)
    }
    _write(run, shape, fields[2], result, lanes)


def mark_elements(masks: Registers, name: str, fields: list[int], lanes: int) -> None:
    """Write the masks of undefined bits of a product's elements: each element depends on its row, its column, and its
    addend."""
    shape = MMA[name]
    rows = {i for (i, _), mask in _fragment_a(masks, shape, fields[3]).items() if mask}
    if shape.sparse:
        metadata = list_metadata(masks, shape, fields[3] + (shape.counts[1] - 1) * ROW, fields[7] >> SELECTOR_SHIFT)
        rows |= {i for i, chunks in enumerate(metadata) if any(chunks)}
    columns = {j for (_, j), mask in _fragment_b(masks, shape, fields[4]).items() if mask}
    if shape.has_factors:
        of_a, of_b = _factors(masks, shape, fields)
        rows |= {i for i, factors in enumerate(of_a) if any(factors)}
        columns |= {j for j, factors in enumerate(of_b) if any(factors)}
    before = _accumulators(masks, shape, fields[6])
    every = (1 << int(shape.d[1:])) - 1
    result = {place: every if mask or place[0] in rows or place[1] in columns else 0 for place, mask in before.items()}
    _write(masks, shape, fields[2], result, lanes)


def gather_lanes(run: WarpRun, lanes: int) -> None:
    """Require that all live lanes execute the operation; its accesses are ordered as in a shuffle."""
    warp = run.warp
    if lanes != ALL_LANES:
        run.cta.finding(
            "barrier-divergence", run.group.pc, warp.number, lanes, barrier=-1, alive=warp.alive, members=ALL_LANES
        )
    met = lanes | (ALL_LANES & ~warp.alive)  # including the accesses of lanes that have exited
    run.launch.watch.happen("warp", run.cta.number, warp.number, run.group.pc, met)


# -- fragments -------------------------------------------------------------------------------------------------------


def _parts(run: Registers, shape: Mma, row: int, lane: int) -> list[int]:
    """Return the elements that a lane has in a register."""
    value = run.read(row, shape.register, lane)
    return [value >> shape.width * n & ((1 << shape.width) - 1) for n in range(shape.parts)]


def _fragment_a(run: Registers, shape: Mma, first: int) -> Matrix:
    found: Matrix = {}
    for lane in range(LANES):
        g, t = lane >> 2, lane & 3
        for r in range(shape.halves * shape.groups_of_a):
            half, group = r % shape.halves, r // shape.halves
            for n, value in enumerate(_parts(run, shape, first + r * ROW, lane)):
                found[g + 8 * half, shape.parts * (4 * group + t) + n] = value
    return found


def list_metadata(run: Registers, shape: Mma, row: int, selector: int, type_: str = "b32") -> list[list[int]]:
    """Return, for each row of a sparse `a`, the 4 bits of each of its chunks (PTX ISA, "Sparse matrix storage").
    `type_`: that of the register with the metadata."""
    found = []
    for i in range(shape.m):
        half, g = divmod(i, 8)
        places = [find_metadata(shape, selector, chunk, half) for chunk in range(shape.k // shape.chunk)]
        found.append([run.read(row, type_, 4 * g + lane) >> low & 15 for lane, low in places])
    return found


def selected_ks(run: Registers, shape: Mma, row: int, selector: int, type_: str = "b32") -> list[list[int]]:
    """Return, for each row of a sparse `a`, the k of each stored element."""
    found = []
    for chunks in list_metadata(run, shape, row, selector, type_):
        if shape.chunk == 2:  # two indices of halves of elements
            found.append([2 * chunk + (bits >> 1 & 1) for chunk, bits in enumerate(chunks)])
        else:
            found.append([4 * chunk + (bits >> up & 3) for chunk, bits in enumerate(chunks) for up in (0, 2)])
    return found


def _fragment_b(run: Registers, shape: Mma, first: int) -> Matrix:
    found: Matrix = {}
    for lane in range(LANES):
        g, t = lane >> 2, lane & 3
        for r in range(shape.groups):
            for n, value in enumerate(_parts(run, shape, first + r * ROW, lane)):
                found[shape.parts * (4 * r + t) + n, g] = value
    return found


def _factors(run: Registers, shape: Mma, fields: list[int]) -> tuple[list[list[int]], list[list[int]]]:
    """Return the bits of the scale factors of each row of a, and of each column of b (PTX ISA, "Block scaling for
    mma.sync")."""
    aux = fields[7]
    count = 1 << (aux >> FACTORS_SHIFT & 3)
    pair, lane_b = aux >> LANE_A_SHIFT & 1, aux >> LANE_B_SHIFT & 3
    row_a, row_b = (fields[at] + (shape.counts[n] - 1) * ROW for at, n in ((3, 1), (4, 2)))

    def read(row: int, lane: int, first: int) -> list[int]:
        word = run.read(row, "b32", lane)
        return [word >> 8 * (first + n) & 0xFF for n in range(count)]

    of_a = [read(row_a, 4 * (i % 8) + 2 * pair + i // 8, aux >> BYTE_A_SHIFT & 3) for i in range(shape.m)]
    return of_a, [read(row_b, 4 * j + lane_b, aux >> BYTE_B_SHIFT & 3) for j in range(shape.n)]


def _place(shape: Mma, lane: int, number: int) -> tuple[int, int]:
    """Return the row and column of a lane's accumulator."""
    return (lane >> 2) + 8 * (number >> 1), 2 * (lane & 3) + (number & 1)


def _accumulators(run: Registers, shape: Mma, first: int) -> Matrix:
    found: Matrix = {}
    for lane in range(LANES):
        for number in range(2 * shape.halves):
            if shape.c == "f16":
                value = run.read(first + number // 2 * ROW, "b32", lane) >> 16 * (number & 1) & 0xFFFF
            else:
                value = run.read(first + number * ROW, shape.register, lane)
            found[_place(shape, lane, number)] = value
    return found


def _write(run: Registers, shape: Mma, first: int, result: Matrix, lanes: int) -> None:
    for lane in list_lanes(lanes):
        values = [result[_place(shape, lane, number)] for number in range(2 * shape.halves)]
        if shape.d == "f16":
            values = [low | high << 16 for low, high in zip(values[::2], values[1::2], strict=True)]
        for number, value in enumerate(values):
            run.write(first + number * ROW, shape.register, lane, value)


# -- moves -----------------------------------------------------------------------------------------------------------


def move_elements(run: Registers, name: str, fields: list[int], lanes: int) -> None:
    """Move rows of 8 x 8 matrices to fragments, or back. Lane 4 g + t has row g, columns 2 t and 2 t + 1 (transposed,
    column g); lane 8 m + r has row r of matrix m."""
    what, count, turned = MOVES[name]
    results, sources = move_counts(name)
    held = [[run.read(fields[3] + r * ROW, "b32", lane) for lane in range(LANES)] for r in range(sources)]

    def held_element(matrix: int, i: int, j: int) -> int:
        """Return element (i, j) of a matrix from the words in `held`."""
        if what == SPREAD:
            return held[j // 2][8 * matrix + i] >> 16 * (j & 1) & 0xFFFF
        if what == COLLECT and turned:
            i, j = j, i
        return held[matrix][4 * i + j // 2] >> 16 * (j & 1) & 0xFFFF

    for lane in list_lanes(lanes):
        g, t = lane >> 2, lane & 3
        for r in range(results):
            value = 0
            if what == COLLECT:
                if lane >> 3 < count:
                    value = (
                        held_element(lane >> 3, lane & 7, 2 * r) | held_element(lane >> 3, lane & 7, 2 * r + 1) << 16
                    )
            elif turned:
                value = held_element(r, 2 * t, g) | held_element(r, 2 * t + 1, g) << 16
            else:
                value = held_element(r, g, 2 * t) | held_element(r, g, 2 * t + 1) << 16
            run.write(fields[2] + r * ROW, "b32", lane, value)
