"""`wgmma`: a warp's 16 rows of a product with operands in shared memory, which an agent of the warp reads.

PTX ISA, "Asynchronous warpgroup level matrix instructions", "Shared memory matrix layout"; measured rules W1 to W6,
W10, W12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.model.arch import TensorCore
from wsemu.model.isa import FORGETS, LANES, OFFSET_MASK, READ, ROW, SEGMENT_SHIFT, UNFENCED
from wsemu.model.matrix import (
    CLAMPS,
    COLUMNS,
    GROUP_BYTE_BITS,
    GROUP_ROUNDS_ONCE,
    GROUP_SELECTOR_SHIFT,
    NEGATES_A,
    NEGATES_B,
    OLDEST_GROUP,
    ROUNDS_ONCE,
    SATURATES,
    TURNS_A,
    TURNS_B,
    WGMMA,
    Descriptor,
    vector_counts,
)
from wsemu.model.outcome import RawFinding
from wsemu.reference.agents.copy import Issued
from wsemu.reference.matrix import warpgroup
from wsemu.reference.matrix.multiply import ALL_LANES, gather_lanes, selected_ks
from wsemu.reference.matrix.sums import element
from wsemu.reference.memory.bounds import check_written, locate
from wsemu.reference.memory.thread_shadow import ThreadWatch, Touch
from wsemu.reference.state import list_lanes

if TYPE_CHECKING:
    from wsemu.model.matrix import Mma
    from wsemu.reference.memory.bounds import Place
    from wsemu.reference.memory.thread_shadow import Conflict
    from wsemu.reference.run import Cta
    from wsemu.reference.warp import WarpRun

PIECE = 16
"""bytes that are contiguous in shared memory, and are read together"""
ROWS = 16
"""rows of a tile per warp"""
INCOMPLETE, ABSENT, DIFFERENT, UNEQUAL, OUT_OF_STEP = range(5)
"""`what` of a wgmma-divergence finding"""
_HOPPER = TensorCore(25, halves=False, byte_bits=0)
_HOPPER_BYTES = TensorCore(GROUP_BYTE_BITS, halves=False, byte_bits=GROUP_BYTE_BITS)


def fence(run: WarpRun, name: str, fields: list[int], lanes: int) -> None:
    gather_lanes(run, lanes)
    run.cta.grouped[run.warp.number].append(run.group.pc)
    run.cta.registers_of_groups[run.warp.number].unfenced = 0


def commit(run: WarpRun, name: str, fields: list[int], lanes: int) -> bool:
    """Commit, and return whether the warp has to wait for other warps of its warpgroup."""
    gather_lanes(run, lanes)
    run.cta.grouped[run.warp.number].append(run.group.pc)
    cta, warp = run.cta, run.warp.number
    cta.parts_of_groups[warp].commit()
    cta.registers_of_groups[warp].commit()
    return warpgroup.stands(cta, warp)


def wait(run: WarpRun, name: str, fields: list[int], lanes: int) -> None:
    """Let all lanes of the warp wait."""
    gather_lanes(run, lanes)
    run.cta.grouped[run.warp.number].append(run.group.pc)
    cta, warp = run.cta, run.warp.number
    cta.registers_of_groups[warp].wait(fields[6])
    warpgroup.await_groups(run, fields[6])
    run.launch.watch.happen("landed", cta.number, warp, run.group.pc, -1, fields[6], lanes)
    cta.order.begin_interval((cta.number, warp))


# -- registers -------------------------------------------------------------------------------------------------------


class GroupRegisters:
    """Registers of a warp's `wgmma`: registers in flight, which must not be accessed, and registers that no fence
    orders before a `wgmma` that would use them."""

    def __init__(self) -> None:
        self.flying = [0] * (OLDEST_GROUP + 1)
        """registers in flight, indexed by the number of commits since the issue"""
        self.unfenced = 0

    def commit(self) -> None:
        *young, old, oldest = self.flying
        self.flying = [0, *young, old | oldest]

    def wait(self, left: int) -> None:
        self.flying = [under_way if age <= left else 0 for age, under_way in enumerate(self.flying)]


def track(run: WarpRun, name: str, fields: list[int], lanes: int) -> None:
    run.cta.registers_of_groups[run.warp.number].flying[0] |= fields[6]


def touch(run: WarpRun, name: str, fields: list[int], lanes: int) -> None:
    registers = run.cta.registers_of_groups[run.warp.number]
    registers.unfenced = registers.unfenced & ~fields[6] if fields[7] == FORGETS else registers.unfenced | fields[6]


def check(run: WarpRun, name: str, fields: list[int], lanes: int) -> None:
    """Report if the next instruction uses registers of a `wgmma` in flight, or is a `wgmma` whose registers no fence
    has ordered."""
    registers, age = run.cta.registers_of_groups[run.warp.number], fields[7]
    wrong = fields[6] & (registers.unfenced if age == UNFENCED else registers.flying[age])
    if wrong:
        code = "wgmma-unfenced" if age == UNFENCED else "wgmma-register"
        run.cta.finding(code, run.group.pc, run.warp.number, lanes, mark=wrong & -wrong)


# -- operands in shared memory ---------------------------------------------------------------------------------------


def offset_of(d: Descriptor, row: int, k: int, size: int, *, turned: bool) -> int:
    """Return the offset of the element (row of a or column of b, k) of `size` bytes (W12).

    A group of 8 rows is 8 lines; the length of a line in bytes is given by the swizzle.  If `turned`, a line has one k
    and several rows.
    """
    plain = d.swizzle == PIECE
    if turned:
        along = d.swizzle // size
        if plain:
            at = row // 8 * d.stride + k // 8 * d.leading
        else:
            at = row // along * d.leading + k // 8 * d.stride
        at += k % 8 * d.swizzle + row % along * size
    else:
        at = row // 8 * d.stride + row % 8 * d.swizzle
        at += k * size // PIECE * d.leading + k * size % PIECE if plain else k * size
    at += d.start
    if plain:
        return at
    rows = {128: 7, 64: 3, 32: 1}[d.swizzle]
    return at ^ ((at // 128 - d.base & rows) * PIECE)


class _Operand:
    """An operand in shared memory, or a part of its rows."""

    def __init__(self, descriptor: int, part: Mma, rows: range, *, turned: bool, of_b: bool = False) -> None:
        self.descriptor, self.part, self.rows, self.turned = Descriptor.of(descriptor), part, rows, turned
        self.size = part.width // 8
        self.count = 2 * PIECE // self.size << (part.sparse and of_b)

    def pieces(self) -> list[int]:
        """Return the offsets of all pieces of 16 bytes: row by row, or by groups of 8 rows and then by k."""
        d, size = self.descriptor, self.size
        if self.turned:
            return [offset_of(d, row, k, size, turned=True) for row in self.rows[::8] for k in range(self.count)]
        return [
            offset_of(d, row, k, size, turned=False) for row in self.rows for k in range(0, self.count, PIECE // size)
        ]

    def elements(self, data: memoryview | bytearray) -> dict[tuple[int, int], int]:
        """Return (row, k) -> bits of the element."""
        found = {}
        for row in self.rows:
            for k in range(self.count):
                at = offset_of(self.descriptor, row, k, self.size, turned=self.turned)
                found[row, k] = int.from_bytes(data[at : at + self.size], "little")
        return found


def _operand_places(run: WarpRun, lane: int, operands: list[_Operand]) -> list[Place] | None:
    """Return the locations of all pieces of the operands; None, with a finding for each operand that must not be
    read."""
    places: list[Place] = []
    good = True
    for operand in operands:
        for offset in operand.pieces():
            address = run.launch.shared_address(run.cta.number) + offset
            place = locate(run, address, lane, PIECE, writes=False, shared=True)
            if place is None:
                good = False
                break
            places.append(place)
    return places if good else None


def _read(run: WarpRun, lane: int, places: list[Place], first: int) -> None:
    """Read all pieces as an agent of the warp."""
    cta, warp, watch = run.cta, run.warp.number, run.launch.watch
    assert isinstance(watch, ThreadWatch)
    size = PIECE * len(places)
    agent = cta.order.fork(cta.number)
    warpgroup.issue(run, ALL_LANES & run.warp.alive, 3 << 2 * agent)
    cta.issued.append(Issued(run.group.pc, warp, lane, agent, first, size, reads=False))
    watch.happen("copy", cta.number, warp, run.group.pc, first, -1, ALL_LANES, size)
    found: list[Conflict] = []
    time = watch.order.time((cta.number, warp))
    for place in places:
        check_written(run, {lane: place}, PIECE)
        now = Touch(READ, cta.number, warp, 0, time, run.group.pc, PIECE, 0, agent, True)
        address = (place[1] << SEGMENT_SHIFT) + place[2]
        found += watch.touch_as_agent(now, lane, (address + q for q in range(PIECE)))
    watch.tell(run, run.group.pc, found)
    watch.order.tick((cta.number, warp))


# -- values ----------------------------------------------------------------------------------------------------------


def _operands(run: WarpRun, name: str, fields: list[int], lane: int) -> list[_Operand]:
    """Return the operands in shared memory: b, preceded by a if a is in shared memory."""
    part, auxiliary = WGMMA[name].part, fields[7]
    columns, first = 8 * (auxiliary & COLUMNS), ROWS * (run.warp.number % 4)
    b = _Operand(run.read(fields[4], "b64", lane), part, range(columns), turned=bool(auxiliary & TURNS_B), of_b=True)
    if not WGMMA[name].shared:
        return [b]
    rows, turned = range(first, first + ROWS), bool(auxiliary & TURNS_A)
    return [_Operand(run.read(fields[3], "b64", lane), part, rows, turned=turned), b]


def ranges_to_read(run: WarpRun, name: str, fields: list[int], lane: int) -> list[tuple[int, int]]:
    """Return the (address, bytes) that a warp is about to read."""
    start = run.launch.shared_address(run.cta.number)
    return [(start + at, PIECE) for operand in _operands(run, name, fields, lane) for at in operand.pieces()]


def multiply(run: WarpRun, name: str, fields: list[int], lanes: int) -> None:
    """Compute the rows of a warp immediately."""
    gather_lanes(run, lanes)
    part, shared, auxiliary = WGMMA[name].part, WGMMA[name].shared, fields[7]
    lane = list_lanes(lanes)[0]
    columns = 8 * (auxiliary & COLUMNS)
    first = ROWS * (run.warp.number % 4)
    operands = _operands(run, name, fields, lane)
    a, b = operands[0], operands[-1]
    places = _operand_places(run, lane, operands)
    uses = run.read(fields[6], "p", lane)
    in_lanes = [
        (run.read(fields[3], "b64", n) if shared else 0, run.read(fields[4], "b64", n), run.read(fields[6], "p", n))
        for n in list_lanes(lanes)
    ]
    run.cta.multiplied[run.warp.number].append((run.group.pc, *in_lanes[0]))
    run.cta.grouped[run.warp.number].append(run.group.pc)
    if len(set(in_lanes)) > 1:
        run.launch.report(
            RawFinding(
                "wgmma-divergence", run.group.pc, run.cta.number, run.warp.number, ALL_LANES, -1, -1,
                detail={"what": UNEQUAL},
            )
        )  # fmt: skip
    before = _accumulators(run, part, fields[5], columns, zero=not uses and places is not None)
    if places is None:
        _write(run, part, fields[2], before, columns, lanes)
        return
    _read(run, lane, places, run.launch.shared_address(run.cta.number) + b.pieces()[0])
    memory = memoryview(run.cta.shared.data)[run.launch.shared_address(run.cta.number) & OFFSET_MASK :]
    of_a = a.elements(memory) if shared else _register_operand(run, part, fields[3], first)
    of_b = b.elements(memory)
    flip_a, flip_b = ((1 << part.width - 1) * bool(auxiliary & bit) for bit in (NEGATES_A, NEGATES_B))
    tensor = _HOPPER_BYTES if part.width == 8 and part.d in ("f32", "f16") else _HOPPER
    selected = [[*range(b.count)]] * ROWS
    if part.sparse:
        row = fields[3] + (vector_counts(name, auxiliary)[1] - 1) * ROW
        selected = selected_ks(run, part, row, auxiliary >> GROUP_SELECTOR_SHIFT, "b64" if shared else "b32")
    rows_of_a = [tuple(of_a[first + i, k] ^ flip_a for k in range(len(selected[i]))) for i in range(ROWS)]
    columns_of_b = [[of_b[j, k] ^ flip_b for k in range(b.count)] for j in range(columns)]
    result = {
        (i, j): _element(
            part, tensor, rows_of_a[i], tuple(columns_of_b[j][k] for k in selected[i]), before[i, j], auxiliary
        )
        for i in range(ROWS)
        for j in range(columns)
    }
    _write(run, part, fields[2], result, columns, lanes)


def compare_warps(cta: Cta) -> None:
    """Check at the end of a CTA that the four warps of each warpgroup executed the same `wgmma`."""
    count = len(cta.warps)
    for first in range(0, count, 4):
        group = range(first, min(first + 4, count))
        if len(group) < 4:
            alone = next((w for w in group if cta.multiplied[w]), None)
            if alone is not None:
                _report_divergence(cta, alone, -1, INCOMPLETE)
            continue
        for w in group:  # the first one that differs is reported, by its products if these differ
            if cta.multiplied[w] != cta.multiplied[first]:
                _report_divergence(cta, w, first, DIFFERENT)
                break
            if cta.grouped[w] != cta.grouped[first]:
                _report_out_of_step(cta, w, first)
                break


def _report_out_of_step(cta: Cta, warp: int, other: int) -> None:
    """Report warps whose products are equal, but not their fences, commits and waits."""
    multiplied = {entry[0] for w in (warp, other) for entry in cta.multiplied[w]}
    pc, other_pc = (next((pc for pc in reversed(cta.grouped[w]) if pc not in multiplied), -1) for w in (warp, other))
    if pc < 0:
        warp, other, pc, other_pc = other, warp, other_pc, -1
    cta.launch.report(
        RawFinding(
            "wgmma-divergence", pc, cta.number, warp, ALL_LANES, other_pc, other, detail={"what": OUT_OF_STEP},
        )
    )  # fmt: skip


def _report_divergence(cta: Cta, warp: int, other: int, what: int) -> None:
    if not cta.multiplied[warp]:
        warp, other = other, warp
    other_pc = -1
    if other >= 0 and not cta.multiplied[other]:
        what = ABSENT
    elif other >= 0:
        other_pc = cta.multiplied[other][-1][0]
    cta.launch.report(
        RawFinding(
            "wgmma-divergence", cta.multiplied[warp][-1][0], cta.number, warp, ALL_LANES, other_pc, other,
            detail={"what": what},
        )
    )  # fmt: skip


def _element(
    part: Mma, tensor: TensorCore, row: tuple[int, ...], column: tuple[int, ...], before: int, auxiliary: int
) -> int:
    bits = SATURATES * bool(auxiliary & CLAMPS) | ROUNDS_ONCE * bool(auxiliary & GROUP_ROUNDS_ONCE)
    return element(part, tensor, row, column, before, bits, whole=True)


def _register_operand(run: WarpRun, part: Mma, row: int, first: int) -> dict[tuple[int, int], int]:
    """Return `a` from registers, with the layout of mma.sync."""
    found = {}
    for lane in range(LANES):
        g, t = lane >> 2, lane & 3
        for r in range(4):
            value = run.read(row + r * ROW, "b32", lane)
            for n in range(part.parts):
                bits = value >> part.width * n & ((1 << part.width) - 1)
                found[first + g + 8 * (r & 1), part.parts * (4 * (r >> 1) + t) + n] = bits
    return found


def _places(columns: int, lane: int) -> list[tuple[int, int]]:
    """Return the row and column of each accumulator of a lane, in the order of its registers."""
    g, t = lane >> 2, lane & 3
    return [(g + 8 * h, 8 * block + 2 * t + x) for block in range(columns // 8) for h in range(2) for x in range(2)]


def _accumulators(run: WarpRun, part: Mma, row: int, columns: int, *, zero: bool) -> dict[tuple[int, int], int]:
    found = {}
    for lane in range(LANES):
        for number, place in enumerate(_places(columns, lane)):
            if part.d == "f16":
                value = run.read(row + number // 2 * ROW, "b32", lane) >> 16 * (number & 1) & 0xFFFF
            else:
                value = run.read(row + number * ROW, "b32", lane)
            found[place] = 0 if zero else value
    return found


def _write(
    run: WarpRun, part: Mma, row: int, result: dict[tuple[int, int], int], columns: int, lanes: int
) -> None:  # fmt: skip
    for lane in list_lanes(lanes):
        values = [result[place] for place in _places(columns, lane)]
        if part.d == "f16":
            values = [low | high << 16 for low, high in zip(values[::2], values[1::2], strict=True)]
        for number, value in enumerate(values):
            run.write(row + number * ROW, "b32", lane, value)
