"""Instructions and arrays in the form that the analysis of `taint.py` uses.

A *step* names the rows and arrays that an instruction reads and writes, and the rows that influence its behavior.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import assert_never

import numpy as np

from wsemu.model.data import NamedTuple
from wsemu.model.effects import effects_of, find_names, find_opcodes
from wsemu.model.isa import (
    ASKED_PHASE,
    LOCAL,
    LOCAL_SHIFT,
    LOOSE,
    MULTICASTS,
    NAMES,
    OFFSET_MASK,
    OPERATIONS,
    ROW,
    SEGMENT_SHIFT,
    SHARED,
    TENSOR_RANK,
    access_shape,
    memory_shape,
)
from wsemu.model.matrix import WGMMA, vector_counts
from wsemu.model.program import Program, SharedArray
from wsemu.model.tensor_map import MAP_BYTES
from wsemu.model.tensor_memory import ALLOC, MULTIPLY, TENSOR_A, move_registers, product_registers
from wsemu.model.tensor_memory import LOAD as TENSOR_LOAD
from wsemu.model.tensor_memory import STORE as TENSOR_STORE
from wsemu.proof.reaching_stores import Reaching

SegmentOf = Callable[[int], "int | None"]
Reached = Mapping[int, Collection[int]]
"""access -> the addresses in shared and local memory that it used in a run: first and last byte of each"""
Bits = int
"""A set of sources and arrays, as bits. The low bits are sources, sorted by instruction: atomics, varying values, masks
of active lanes. The higher bits are arrays."""
State = dict[int, Bits]
"""register row -> the sources and arrays of its value; rows without any are missing"""
UNBOUNDED = 1 << 62
COPIED = -2
"""number of a pseudo row: the values that a copy moves"""
_MAP = -3
"""number of a pseudo row: the contents of a tensor map"""
_ON_COLUMNS = find_opcodes(lambda row: row.moves.unit == "columns")
_COPIES = find_names(lambda row: row.moves.agent and row.moves.unit == "bytes")
_CARRIED = {
    **dict.fromkeys(("mov", "min", "max", "selp", "cvt"), "whole"), **dict.fromkeys(("add", "and", "or", "xor"), "sum"),
    "sub": "less", "mad": "product", "madwide": "product", "index": "whole",
}  # fmt: skip
"""arithmetic operation that may compute an address -> how it does so, as in `Step.carried`"""
_CARRIERS = {"selp": (0, 1), "mad": (2,), "madwide": (2,), "index": (3,)}
"""operation -> the operands that may be the address; other operations may use any operand"""


# -- arrays ----------------------------------------------------------------------------------------------------------
class Region(NamedTuple):
    """Memory that the analysis treats as one: a segment of array arguments, or one array of shared or local memory."""

    space: str
    offset: int = 0
    size: int = 0


class Regions:
    """The arrays of a program, as bits from bit number `first` on."""

    def __init__(self, program: Program, first: int, segment_of: SegmentOf | None) -> None:
        self.first = first
        self.list = [Region("constant"), Region("votes"), Region("global"), Region("unknown")]
        """regions by number. `global` stands for arrays whose addresses are in structures or in memory. `unknown`
        stands for an address that, on some path, is not computed from the address of an array"""
        constant = [array for array in program.constant_arrays if not (array.writable or array.live)]
        self.entry: State = {array.row: 1 << first for array in constant}
        """row of a base address -> its array"""
        self.tables: dict[str, Bits] = {}
        """name of a heap table -> its region; the analysis ignores addresses in tables"""
        for array in program.constant_arrays:
            if array.writable and not array.live:
                is_table = array.heap not in ("", "bytes")
                self.entry[array.row] = self._add(Region("table" if is_table else "global"))
                if is_table:
                    self.tables[array.name] = self.entry[array.row]
        self.bases: dict[int, str] = {}
        """row with the base address of a space -> the space, `shared` or `local`"""
        self.mapped: dict[int, Bits] = {}
        """row of the address of a tensor map -> the array that the map describes"""
        self._arguments(program, segment_of)
        self._declare_regions(program)
        self.everything = ((1 << len(self.list)) - 1 << first) & ~self.votes & ~self.unknown
        self.columns = 0
        """region of tensor memory: no address points to it"""
        if program.opcodes & _ON_COLUMNS:
            self.columns = self._add(Region("columns"))
        self.everything &= ~self.all_of("table")
        self._spaces = (self.all_of("local"), self.all_of("shared", "dynamic"))
        self.entry.update((row, self._whole(space)) for row, space in self.bases.items())
        self.entry.update(
            (row, self.window(int(value))) for row, type_, value in program.constants if type_ == "b64"
            if self.window(int(value))
        )  # fmt: skip
        self._declared_arrays = self.all_of("local", "shared")
        self.merged: Bits = 0
        """arrays of each space in which some access may reach past the end of its array"""
        self.escaped: Bits = 0
        """arrays of each space with an address that was stored or passed to other lanes, where the analysis loses it"""

    @property
    def votes(self) -> Bits:
        """The region of values that barriers with a reduction (`bar.red`) pass between threads."""
        return 2 << self.first

    @property
    def unknown(self) -> Bits:
        """The region of a value that, on some path, may be a number or a loaded value instead of a known address."""
        return 8 << self.first

    @property
    def constant(self) -> Bits:
        """The region that nothing writes: constant arrays, and the bytes of arguments."""
        return 1 << self.first

    def _arguments(self, program: Program, segment_of: SegmentOf | None) -> None:
        segments: dict[int | None, Bits] = {}
        rows = [parameter.row for parameter in program.parameters if parameter.part in ("address", "first")]
        for row in (*rows, *(array.row for array in program.constant_arrays if array.live)):
            segment = None if segment_of is None else segment_of(row)
            if segment not in segments:
                segments[segment] = self._add(Region("global"))
            self.entry[row] = segments[segment]
        for parameter in program.parameters:
            if parameter.part == "memory":  # its bytes never change; if it is a tensor map, it leads to an array
                self.entry[parameter.row] = 1 << self.first
                segment = None if segment_of is None else segment_of(parameter.row)
                if segment is None:
                    self._add(Region("global"))
                elif segment in segments:
                    self.mapped[parameter.row] = segments[segment]
                else:
                    self.mapped[parameter.row] = segments[segment] = self._add(Region("global"))
        if None in segments:  # the unknown segment may be any other
            together = 0
            for bit in segments.values():
                together |= bit
            self.entry.update({row: together for row, bits in self.entry.items() if bits & together})
            self.mapped = {}

    def _declare_regions(self, program: Program) -> None:
        for space, arrays in (("shared", program.shared), ("local", program.locals)):
            for array in arrays:
                self._add(Region(space, array.offset, _bytes(array)))
            if space in program.specials:
                self.bases[program.specials[space]] = space
        if "dynamic" in program.specials:
            self.entry[program.specials["dynamic"]] = self._add(Region("dynamic"))
        self._windows = {SHARED: self._add(Region("shared")), LOCAL: self._add(Region("local"))}
        """segment -> the region of its addresses that are not computed from the address of an array"""

    def _add(self, region: Region) -> Bits:
        self.list.append(region)
        return 1 << self.first + len(self.list) - 1

    def add_stores(self, reaching: Reaching) -> tuple[dict[int, Bits], dict[int, Bits]]:
        """Add a region for each store of a run.  Return the region that each store or atomic writes, and the regions
        that each load or atomic reads."""
        written = {pc for found in reaching.read.values() for pc in found} | reaching.together.keys()
        spaces = {reaching.together.get(pc, pc): "stored" for pc in written | reaching.outlasting}
        spaces |= {reaching.together.get(pc, pc): "global" for pc in reaching.outlasting}
        regions = {first: self._add(Region(space)) for first, space in sorted(spaces.items())}
        places = {pc: regions[reaching.together.get(pc, pc)] for pc in written | reaching.outlasting}
        return places, {pc: _join(places[one] for one in found) for pc, found in reaching.read.items()}

    def all_of(self, *spaces: str) -> Bits:
        return sum(1 << self.first + n for n, region in enumerate(self.list) if region.space in spaces)

    def at(self, space: str, offset: int) -> Bits:
        """Return the array that is declared at a byte offset of shared or local memory."""
        if space == "local":  # without the bits that number the variable
            offset &= (1 << LOCAL_SHIFT) - 1
        for n, region in enumerate(self.list):
            if region.space == space and region.offset <= offset < region.offset + region.size:
                return 1 << self.first + n
        return self._whole(space)

    def regions_at(self, addresses: Iterable[int]) -> Bits:
        """Return the arrays that contain the given addresses."""
        found = 0
        for address in addresses:
            segment, offset = address >> SEGMENT_SHIFT, address & OFFSET_MASK
            dynamic = self.all_of("dynamic") if segment == SHARED else 0
            behind = dynamic and offset >= max((r.offset + r.size for r in self.list if r.space == "shared"), default=0)
            found |= dynamic if behind else self.at("shared" if segment == SHARED else "local", offset)
        return found

    def is_anywhere(self, arrays: Bits) -> bool:
        """Return whether `arrays` has an unknown array of a space with several arrays."""
        pairs = zip(self._spaces, (self._windows[LOCAL], self._windows[SHARED]), strict=True)
        return any(arrays & window and (space & ~window).bit_count() > 1 for space, window in pairs)

    def _whole(self, space: str) -> Bits:
        return self._spaces[space == "shared"]

    def window(self, value: int) -> Bits:
        """Return the space whose segment is in the upper bits of `value`, which is part of an address; 0 if there is
        none.
        """
        return self._windows.get(value + (1 << SEGMENT_SHIFT - 1) >> SEGMENT_SHIFT, 0)

    def escape(self, address: Bits) -> None:
        """Record that an address of these arrays was stored or passed on, where the analysis does not follow it."""
        for space in self._spaces:
            if address & space:
                self.escaped |= space

    def result_bits(self, step: Step, state: State, bits: Bits) -> Bits:
        """Return the sources and regions of an arithmetic result, if its operands together have `bits`.

        A selection returns one of its operands. A sum points to the array of one operand if all other operands are
        numbers. Arrays of shared and local memory are adjacent: there, an added number may lead to another array.
        """
        if step.array >> self.first:
            return bits & ~self.unknown
        if not step.carried:
            return bits | self.unknown
        held = [state.get(row, 0) >> self.first << self.first for row in step.carries]
        sure = [one for one in held if one and not one & self.unknown]
        if step.carried == "whole":
            return bits & ~self.unknown if len(sure) == len(held) else bits | self.unknown
        windows = self._windows[SHARED] | self._windows[LOCAL]
        arrays = [one for one in sure if one & ~windows]
        numbers = [one for one in held if not one or one & ~windows]
        if not (arrays or numbers):  # no known address and no number
            return bits | self.unknown
        if not sure or len(arrays) > 1 or (step.carried == "less" and held[1] & ~windows & ~self.unknown):
            return bits | self.unknown
        bits &= ~self.unknown
        if arrays == numbers and step.carried != "product":
            return bits & (~windows | arrays[0])  # the same address, relative to the space instead of the array
        return bits | self._besides(bits)

    def _besides(self, address: Bits) -> Bits:
        """Return the regions of unknown addresses in the spaces of `address`."""
        spaces = zip(self._spaces, (self._windows[LOCAL], self._windows[SHARED]), strict=True)
        return sum(within for space, within in spaces if address & space)

    def touched_regions(self, address: Bits, window: Bits = 0) -> Bits:
        """Return the arrays that an access may touch.

        `address` has the bits of its address, and `window` the space in which the address is an offset, if any. An
        unknown address was loaded from memory or came from another lane. It can point to shared or local arrays only if
        an address of this space escaped, or if the address is an offset in the space.
        """
        mask = address >> self.first << self.first
        spaces = self._spaces[0] | self._spaces[1]
        if not mask or mask & self.unknown:
            mask = mask & ~self.unknown | (window or self.everything & ~(spaces & ~self.escaped))
        for space, within in zip(self._spaces, (self._windows[LOCAL], self._windows[SHARED]), strict=True):
            if mask & within or mask & space & self.merged:
                mask |= space
        return mask

    def check(self, mask: Bits, reach: int, unit: int) -> None:
        """Merge the arrays of a space if one of them is smaller than the `reach` of an access, or ends within a
        vector."""
        for n, region in enumerate(self.list if mask & self._declared_arrays else (), self.first):
            inside = mask >> n & 1 and region.size
            if inside and (region.size < reach or (region.offset + region.size) % unit):
                self.merged |= self._spaces[region.space == "shared"]


def _join(sets: Iterable[Bits]) -> Bits:
    found = 0
    for bits in sets:
        found |= bits
    return found


def offset_of(immediate: int) -> int:
    """Return the offset in an immediate whose upper bits may name a segment."""
    half = 1 << SEGMENT_SHIFT - 1
    return (immediate + half & 2 * half - 1) - half


def _bytes(array: SharedArray) -> int:
    return int(np.prod(array.shape, dtype=object)) * array.dtype.itemsize


# -- instructions ----------------------------------------------------------------------------------------------------
class Step(NamedTuple):
    """An instruction, or a part of one, in the form that the analysis uses."""

    pc: int
    kind: str
    reads: tuple[int, ...]
    """rows on which the result depends, including the rows of guard and address"""
    writes: tuple[int, ...] = ()
    guard: int = 0
    """row of the guard; 0 if there is none"""
    address: int = -1
    array: Bits = 0
    """the arrays that the step touches, or whose address it computes, if they are known beforehand; for a source, its
    own bit"""
    operands: tuple[int, ...] = ()
    """rows that influence the step's behavior, such as barrier, count and member mask"""
    reach: int = 0
    """number of bytes, from the start of an array, that the step may access"""
    unit: int = 1
    """size of a vector in bytes"""
    window: Bits = 0
    """the space in which the address is an offset, if any"""
    keeps: Bits = -1
    """mask of the bits that the result can have: a predicate, for example, cannot be an address"""
    carries: tuple[int, ...] = ()
    """rows whose address may become the address of the result"""
    carried: str = ""
    """computation of the result from `carries`: one of them (`whole`), their sum (`sum`), the first minus the
    second (`less`), or a product plus one of them (`product`); empty if the result is not an address"""


def segment_pattern(program: Program, segment_of: SegmentOf | None) -> tuple[int | None, ...]:
    """Return which rows of arguments have addresses in the same memory segment: a number for each row, None if its
    segment is unknown.  An analysis depends on no more of `segment_of`."""
    rows = [p.row for p in program.parameters if p.part in ("address", "first", "memory")]
    rows += [array.row for array in program.constant_arrays if array.live]
    numbers: dict[int, int] = {}
    segments = (None if segment_of is None else segment_of(row) for row in rows)
    return tuple(None if one is None else numbers.setdefault(one, len(numbers)) for one in segments)


def find_constants(program: Program, type_: str) -> Mapping[int, int]:
    """Return the values of a program's constant rows of a type."""
    key = f"{type_} constants"
    if key not in program.derived:
        program.derived[key] = {row: int(value) for row, kind, value in program.constants if kind == type_}
    found: Mapping[int, int] = program.derived[key]
    return found


class Decoder:
    """Translates instructions into steps."""

    def __init__(self, program: Program, regions: Regions, bits: Mapping[int, Bits]) -> None:
        self.code = program.code.tolist()
        self.regions = regions
        self.bits = bits
        """instruction that is a source -> its bit"""
        self.taint: Bits = (1 << len(bits)) - 1
        self.tables = {pc: regions.tables[name] for pc, name in enumerate(program.array_of) if name in regions.tables}
        self.constants = find_constants(program, "b64")
        self._plain: dict[int, Step] = program.derived.setdefault("plain steps", {})
        """arithmetic whose step contains neither regions nor sources, which all decoders of a program share"""
        self.constants32 = find_constants(program, "b32")

    def steps(self, pc: int) -> Iterator[Step]:
        """Yield the steps of an instruction; none if it moves no value and nothing can influence it."""
        fields = self.code[pc]
        name = NAMES[fields[0]]
        kind = OPERATIONS[name].kind
        guard = fields[1] >> 1
        guards = (guard,) if guard else ()
        match kind:
            case "alu":
                yield self._plain.get(pc) or self._alu(pc, name, fields, guards)
            case "load" | "store" | "atomic":
                yield self._access(pc, name, kind, fields, guards)
            case "warp":
                yield from self._warp(pc, name, fields, guards)
            case "matrix":
                yield self._matrix(pc, name, fields, guards)
            case "barrier":
                yield self._barrier(pc, name, fields, guards)
            case "control":
                if guard:
                    yield Step(pc, name, guards, guard=guard)
            case "async":
                yield from self._asynchronous(pc, name, fields, guards)
            case "fence":
                reads = (*fields[3 : 3 + len(OPERATIONS[name].operands)], *guards)
                if reads:
                    yield Step(pc, name, reads, guard=guard)
            case _:
                assert_never(kind)

    def _alu(self, pc: int, name: str, fields: list[int], guards: tuple[int, ...]) -> Step:
        operation = OPERATIONS[name]
        reads = (*fields[3 : 3 + len(operation.operands)], *guards)
        guard = guards[0] if guards else 0
        array, reach = 0, 0
        if name.startswith("index."):
            extent, stride = self.constants.get(fields[4], -1), self.constants.get(fields[5], -1)
            reach = extent * stride if extent >= 0 and stride >= 0 else UNBOUNDED
            if fields[6] in self.regions.bases:
                array = self.regions.at(self.regions.bases[fields[6]], 0)
                reads = (fields[3], fields[4], fields[5], *guards)
        elif name == "add.b64" and not guard:
            a, b = fields[3:5] if fields[3] in self.regions.bases else (fields[4], fields[3])
            if a in self.regions.bases and self.constants.get(b, -1) >= 0:
                array, reads = self.regions.at(self.regions.bases[a], self.constants[b]), ()
        elif name.startswith("varying."):
            array = self.bits.get(pc, 0)  # 0 if the analysis looks for racing values only
        keeps = self.taint if operation.result == "p" else -1
        what = name.split(".")[0]
        carried = _CARRIED.get(what, "") if operation.result in ("b32", "b64") else ""
        carriers = _CARRIERS.get(what, range(len(operation.operands)))
        step = Step(
            pc, "alu", reads, (fields[2],), guard, array=array, reach=reach, keeps=keeps,
            carries=tuple(fields[3 + n] for n in carriers), carried=carried,
        )  # fmt: skip
        if not array and keeps == -1 and what != "varying":
            self._plain[pc] = step
        return step

    def _access(self, pc: int, name: str, kind: str, fields: list[int], guards: tuple[int, ...]) -> Step:
        address, immediate = fields[3], offset_of(fields[6])
        size = access_shape(name)[1]
        count = 1 if kind == "atomic" else memory_shape(name)[2]
        rows = tuple(fields[2] + k * ROW for k in range(count))
        operands = {"load": (), "store": rows, "atomic": tuple(fields[4 : 6 if ".cas." in name else 5])}[kind]
        base = self.regions.bases.get(address)
        reach = 0 if base is not None else UNBOUNDED if immediate < 0 else immediate + size
        return Step(
            pc, kind, (address, *operands, *guards), () if kind == "store" else rows, guards[0] if guards else 0,
            address, self.tables.get(pc, 0) if base is None else self.regions.at(base, immediate), reach=reach,
            unit=size if count > 1 else 1, window=self.regions.window(fields[6]), keeps=self.taint,
        )  # fmt: skip

    def _barrier(self, pc: int, name: str, fields: list[int], guards: tuple[int, ...]) -> Step:
        reduces = bool(OPERATIONS[name].result)
        return Step(
            pc, "barrier", (fields[5], *guards) if reduces else guards, (fields[2],) if reduces else (),
            guards[0] if guards else 0, array=self.regions.votes, operands=(fields[3], fields[4]), keeps=self.taint,
        )  # fmt: skip

    def _warp(self, pc: int, name: str, fields: list[int], guards: tuple[int, ...]) -> Iterator[Step]:
        guard = guards[0] if guards else 0
        count = {"shfl": 2, "match": 1, "vote": 1, "redux": 1, "alike": 1}.get(name.split(".")[0], 0)
        values = tuple(fields[3 : 3 + count])
        if values and fields[7]:  # the predicate of shfl depends on the lane only, that of match.all on the values
            yield Step(pc, "alu", (values[-1], *guards), (fields[7],), guard, keeps=self.taint)
        if name == "activemask" and pc in self.bits:
            yield Step(pc, "alu", guards, (fields[2],), guard, array=self.bits[pc], keeps=self.taint)
            yield Step(pc, "warp", guards, guard=guard)
            return
        members = () if name in LOOSE else (fields[5],)
        writes = (fields[2],) if OPERATIONS[name].result else ()
        yield Step(pc, "warp", (*values, *guards), writes, guard, operands=members, keeps=self.taint)

    def _matrix(self, pc: int, name: str, fields: list[int], guards: tuple[int, ...]) -> Step:
        """Return the step of a matrix instruction: values of each lane may reach all lanes."""
        to, *counts = vector_counts(name)
        rows = [(fields[at], count) for at, count in zip((3, 4, 6), counts, strict=False)]
        reads = tuple(row + k * ROW for row, count in rows for k in range(count))
        writes = tuple(fields[2] + k * ROW for k in range(to))
        guard = guards[0] if guards else 0
        return Step(pc, "warp", (*reads, *guards), writes, guard, operands=(fields[5],), keeps=self.taint)

    def _wgmma(self, pc: int, name: str, fields: list[int], guards: tuple[int, ...]) -> Iterator[Step]:
        """Yield the steps of a `wgmma`, which may read all shared memory and the registers of all lanes."""
        guard = guards[0] if guards else 0
        to, of_a, _, _ = vector_counts(name, fields[7])
        in_memory = WGMMA[name].shared
        steering = (fields[4], fields[3]) if in_memory else (fields[4],)
        own = tuple(fields[3] + k * ROW for k in range(in_memory, of_a))
        sums = tuple(fields[5] + k * ROW for k in range(to))
        results = tuple(fields[2] + k * ROW for k in range(to))
        shared = self.regions.all_of("shared", "dynamic")
        for descriptor in steering:
            yield Step(pc, "load", (descriptor, *guards), (COPIED,), 0, descriptor, array=shared, keeps=self.taint)
        reads = (*own, *sums, fields[6], COPIED, *guards)
        yield Step(pc, "alu", reads, results, guard, keeps=self.taint)
        yield Step(pc, "async", guards, guard=guard, operands=(*steering, fields[6]))

    def _asynchronous(self, pc: int, name: str, fields: list[int], guards: tuple[int, ...]) -> Iterator[Step]:
        """Yield the steps of an asynchronous operation.

        A copy is a load and a store. Any other operation has only the operands that influence it. The token of a wait
        is not among them, because the engines check which phase it names.
        """
        guard = guards[0] if guards else 0
        operation, unit = OPERATIONS[name], effects_of(name).moves.unit
        rows = tuple(fields[3 : 3 + len(operation.operands)])
        if name in WGMMA:
            yield from self._wgmma(pc, name, fields, guards)
        elif unit == "columns":
            yield from self._columns(pc, name, fields, guards)
        elif unit == "tile":
            yield from self._tile(pc, name, fields, guards)
        elif name in _COPIES:
            masks = (fields[2],) if name in MULTICASTS else ()
            yield from self._copy(pc, name, (*rows, *masks), guards, self.regions.window(fields[6]))
        elif unit == "value":
            yield from self._send(pc, name, fields, guards)
        elif unit == "zeros":
            window = self.regions.window(fields[6])
            yield Step(
                pc, "store", (rows[0], *guards), (), guard, rows[0], reach=UNBOUNDED, window=window, keeps=self.taint
            )
        elif name == "mbarrier.pending_count":
            count = (fields[2],)
            yield Step(pc, "alu", (rows[0], *guards), count, guard, array=self.bits.get(pc, 0), keeps=self.taint)
        elif name == ASKED_PHASE:  # the test or wait before it has the same operands, and needs them
            yield Step(pc, "alu", guards, (fields[2],), guard, array=self.bits.get(pc, 0), keeps=self.taint)
        elif operation.result:
            waits = name.startswith("mbarrier.wait")
            steering = rows[:1] if name == "mbarrier.wait" else rows
            writes, source = (fields[2],), self.bits.get(pc, 0)
            yield Step(pc, "alu", guards, writes, guard, array=source, keeps=self.taint)
            yield Step(pc, "async", guards if waits else (), guard=guard, operands=steering)
        elif rows or guards:
            yield Step(pc, "async", guards, guard=guard, operands=rows)

    def _columns(self, pc: int, name: str, fields: list[int], guards: tuple[int, ...]) -> Iterator[Step]:
        """Yield the steps of an operation on tensor memory, all of which counts as one array.

        A matrix operand may be anywhere in shared memory.
        """
        guard, columns = guards[0] if guards else 0, self.regions.columns
        if name == ALLOC:
            yield Step(pc, "store", (fields[3], *guards), (), guard, fields[3], reach=4, keeps=self.taint)
            yield Step(pc, "async", guards, guard=guard, operands=(fields[4],))
        elif name == TENSOR_LOAD:
            results = tuple(fields[2] + k * ROW for k in range(move_registers(fields[7])))
            yield Step(pc, "load", guards, results, guard, array=columns, operands=(fields[3],), keeps=self.taint)
        elif name == TENSOR_STORE:
            values = tuple(fields[4] + k * ROW for k in range(move_registers(fields[7])))
            yield Step(
                pc, "store", (*values, *guards), (), guard, array=columns, operands=(fields[3],), keeps=self.taint
            )  # fmt: skip
        else:
            yield from self._tensor_matrices(pc, name, fields, guards)

    def _tensor_matrices(self, pc: int, name: str, fields: list[int], guards: tuple[int, ...]) -> Iterator[Step]:
        """Yield the steps of a matrix multiplication, or of a copy to tensor memory."""
        guard, columns = guards[0] if guards else 0, self.regions.columns
        shared = self.regions.all_of("shared", "dynamic")
        descriptors: tuple[int, ...] = (fields[4],)
        steering: tuple[int, ...] = (fields[3],)
        if name == MULTIPLY:
            held = bool(fields[7] & TENSOR_A)
            descriptors = (fields[4],) if held else (fields[3], fields[4])
            more = range(product_registers(fields[7]))
            steering = (*fields[5:7], *([fields[3]] if held else []), *(fields[2] + k * ROW for k in more))
        for descriptor in descriptors:
            yield Step(pc, "load", (descriptor, *guards), (COPIED,), 0, descriptor, array=shared, keeps=self.taint)
        yield Step(pc, "load", (COPIED, *guards), (COPIED,), 0, array=columns, keeps=self.taint)
        yield Step(
            pc, "store", (COPIED, *guards), (), guard, array=columns, operands=(*steering, *descriptors),
            keeps=self.taint,
        )  # fmt: skip

    def _copy(self, pc: int, name: str, rows: tuple[int, ...], guards: tuple[int, ...], window: Bits) -> Iterator[Step]:
        guard = guards[0] if guards else 0
        to, source, size, *more = rows
        reach = self.constants32.get(size, UNBOUNDED)
        yield Step(pc, "load", (source, *guards), (COPIED,), 0, source, reach=reach, keeps=self.taint)
        kind = "atomic" if effects_of(name).moves.combines else "store"
        yield Step(
            pc, kind, (to, COPIED, *guards), (), guard, to, operands=(size, *more), reach=reach, window=window,
            keeps=self.taint,
        )  # fmt: skip

    def _send(self, pc: int, name: str, fields: list[int], guards: tuple[int, ...]) -> Iterator[Step]:
        """Yield the steps of a store to shared memory that also completes bytes on an mbarrier."""
        to, bar = fields[3:5]
        kind = "atomic" if effects_of(name).moves.combines else "store"
        guard = guards[0] if guards else 0
        yield Step(
            pc, kind, (to, fields[2], *guards), (), guard, to, operands=(bar,), reach=8, keeps=self.taint
        )  # fmt: skip

    def _tile(self, pc: int, name: str, fields: list[int], guards: tuple[int, ...]) -> Iterator[Step]:
        """Yield the steps of a tile copy between global and shared memory.

        If the array of the tensor map is unknown, the copy may access all global memory. The coordinates and the
        addresses of map and mbarrier influence it.
        """
        inside, outside, bar = fields[3], fields[4], fields[5]
        moves = effects_of(name).moves
        steering = (outside, *(fields[2] + k * ROW for k in range(fields[7] & TENSOR_RANK)))
        memory = self.regions.mapped.get(outside) or self.regions.all_of("global")
        guard = guards[0] if guards else 0
        if outside not in self.regions.mapped:  # the launch may have written the map
            yield Step(pc, "load", (outside, *guards), (_MAP,), 0, outside, reach=MAP_BYTES, keeps=self.taint)
            steering = (*steering, _MAP)
        if name in MULTICASTS:
            steering = (*steering, fields[2] + (fields[7] & TENSOR_RANK) * ROW)
        if moves.credits:
            yield Step(pc, "load", guards, (COPIED,), 0, outside, array=memory, operands=steering, keeps=self.taint)
            yield Step(
                pc, "store", (inside, COPIED, *guards), (), guard, inside, operands=(bar,), reach=UNBOUNDED,
                keeps=self.taint,
            )  # fmt: skip
        elif moves.agent:
            kind = "atomic" if moves.combines else "store"
            yield Step(pc, "load", (inside, *guards), (COPIED,), 0, inside, reach=UNBOUNDED, keeps=self.taint)
            yield Step(
                pc, kind, (COPIED, *guards), (), guard, outside, array=memory, operands=steering, keeps=self.taint
            )
        else:
            yield Step(pc, "async", guards, guard=guard, operands=steering)


def plain_decoder(program: Program) -> Decoder:
    """Return the decoder of a program without sources, from the program's cache."""
    found: Decoder | None = program.derived.get("decoder")
    if found is None:
        found = program.derived["decoder"] = Decoder(program, Regions(program, 0, None), {})
    return found
