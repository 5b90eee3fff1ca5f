"""The code of accesses that have permits (`permits`): one function for each layout of lanes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llvmlite import ir

from wsemu.machine.arithmetic.codegen import I8, I64, Builder, Value, go_on_if, pointer, same
from wsemu.machine.memory.lane_access import SAME, SCATTERED, UNIT
from wsemu.machine.memory.plans import some_lane_unset
from wsemu.machine.records import call, foreseen_at, machine_at, permit_at, segment_at
from wsemu.machine.state import FORESEEN, NOTHING, PERMIT
from wsemu.machine.tier import permits
from wsemu.machine.tier.accesses import HOST, KIND, KNOWN
from wsemu.machine.tier.frame import Frame, field_of, place_of
from wsemu.machine.tier.noted import FULL
from wsemu.machine.tier.section_tables import PC_SHIFT
from wsemu.machine.tier.shapes import UNIFORM, line
from wsemu.model.data import NamedTuple
from wsemu.model.isa import LANES, OFFSET_MASK, READ, SEGMENT_SHIFT, SHARED

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from wsemu.machine.tier.permits import Cells
    from wsemu.machine.tier.shapes import Steps


def lie(steps: Steps, size: int) -> int:
    """Return the pattern of lanes that access `size` bytes each."""
    return UNIT if steps == line(size) else SAME if steps == UNIFORM else SCATTERED


def shape_of(size: int, kind: int, how: int | None) -> int:
    """Return the shape of an access for `accesses.any_way`; `how` is the pattern of its lanes, None if it is
    unknown."""
    return size.bit_length() - 1 | kind << KIND | (0 if how is None else how + 1) << KNOWN


class _Access(NamedTuple):
    """An access by lanes at known distances."""

    steps: Steps
    size: int
    """size of an element in bytes"""
    parts: int
    """number of elements per lane"""
    kind: int

    @property
    def bytes(self) -> int:
        """Return the bytes of a lane."""
        return self.size * self.parts

    @property
    def grains(self) -> tuple[int, ...]:
        """Return the grains of cells for which permits are possible: an element, or words if copies moved elements in
        words."""
        own = self.size.bit_length() - 1
        return (own, own - 1) if self.size == 8 else (own,)

    @property
    def how(self) -> int:
        """Return the pattern of the lanes."""
        return lie(self.steps, self.bytes)

    @property
    def shape(self) -> int:
        """Return the shape of an access for `accesses.any_way`."""
        return shape_of(self.bytes, self.kind, self.how)

    @property
    def extent(self) -> tuple[int, int]:
        """Return the range of the bytes of all lanes, as distances from the first lane's address."""
        return min(self.steps), max(self.steps) + self.bytes


class WithPermits(Frame):
    """A function in which some accesses have permits."""

    def _first(self, pc: int) -> Value:
        """Return the address of the first lane's bytes."""
        row = self.rows.code[pc]
        return self.b.add(self._scalar(row[3], "b64"), I64(row[6]))

    def _access_with_permit(self, pc: int, steps: Steps, size: int, n: int, kind: int) -> Value | None:
        """Return the host address of the first lane's bytes, or 0; None if the access cannot have permits.

        Each lane has n elements of `size` bytes.
        """
        access = _Access(steps, size, n, kind)
        tried = {grain: permits.cells_of(steps, access.bytes, grain) for grain in access.grains}
        cells = {grain: found for grain, found in tried.items() if found and (kind == READ or found.apart)}
        if not cells:
            return None
        key = ("permitted", self._number_of(steps), size, n, kind)
        helper = self._helper(key, 5, lambda b, given: self._check_permits(b, given, cells, access))
        first = self._first(pc)
        arguments = [self.address, self.w, I64(pc), first, self._spot(pc)]
        if not self.rows.meets:
            return self.b.call(helper, arguments)
        return self._as_foreseen(pc, first, access, lambda: self.b.call(helper, arguments))

    def _as_foreseen(self, pc: int, first: Value, access: _Access, otherwise: Callable[[], Value]) -> Value:
        """Return the first lane's host address if an access is the foreseen one (`sections`) and all its bytes are
        initialized; otherwise the result of `otherwise`."""
        b = self.b
        hit, set_, other, done = (self.made.append_basic_block(name) for name in ("hit", "set", "other", "done"))
        place = self._field(self.m, "foreseen")
        one = foreseen_at.body(b, place, I64(0))
        same_key = b.icmp_unsigned("==", self._field(one, "key"), b.add(self.whole_warp, I64(pc << PC_SHIFT)))
        same_first = b.icmp_unsigned("==", self._field(one, "first"), first)
        b.cbranch(b.and_(same_key, same_first), hit, other)
        b.position_at_end(hit)
        shared = segment_at.body(b, self._field(self.m, "segments"), I64(SHARED))
        offset = b.and_(first, I64(OFFSET_MASK))
        written = self._field(shared, "initialised")
        all_written = b.icmp_unsigned("==", written, I64(0))
        n = LANES * access.bytes if access.how == UNIT else access.bytes if access.how == SAME else 0
        if n:
            mapped = self.made.append_basic_block("mapped")
            b.cbranch(all_written, set_, mapped)
            b.position_at_end(mapped)
            b.cbranch(_all_ones(b, b.add(written, offset), n), set_, other)
        else:
            b.cbranch(all_written, set_, other)
        b.position_at_end(set_)
        b.store(b.add(place, I64(FORESEEN.itemsize)), self._place(self.m, "foreseen"))
        host = b.add(self._field(shared, "host"), offset)
        b.branch(done)
        b.position_at_end(other)
        otherwise_host = otherwise()
        last = b.block
        b.branch(done)
        b.position_at_end(done)
        found = b.phi(I64)
        found.add_incoming(host, set_)
        found.add_incoming(otherwise_host, last)
        return found

    def _spot(self, pc: int) -> Value:
        """Return the location of an access's permit."""
        return self.b.add(self._field(self.m, "permits"), I64(PERMIT.itemsize * self.rows.accesses[pc]))

    def _check_permits(self, b: Builder, given: Any, cells: dict[int, Cells], access: _Access) -> Value:
        """Return the function of an access whose first lane has an address; `cells` has the cells for each grain."""
        address, w, pc, first, spot = given
        set_, count, ask, done = (b.function.append_basic_block(name) for name in ("set", "count", "ask", "done"))
        extent = tuple(I64(number) for number in access.extent)
        place = self._constants(b, access.steps)
        if self.rows.meets:
            self._unless_in_section(b, (address, w, pc, place, first, I64(access.shape)))
        permit = permit_at.body(b, spot, I64(0))
        offset = self._call_inlined(b, permits.entered, address, first, spot, *extent)
        go_on_if(b, b.icmp_signed(">=", offset, I64(0)), ask)
        segment = segment_at.body(b, field_of(b, permit, "segment"), I64(0))
        inside = b.add(field_of(b, permit, "start"), offset)
        initialised = field_of(b, segment, "initialised")
        looked_at = b.function.append_basic_block("looked_at")
        b.cbranch(b.icmp_unsigned("==", initialised, I64(0)), set_, looked_at)
        b.position_at_end(looked_at)
        unset = some_lane_unset.body(b, b.add(initialised, inside), place, I64(access.bytes))
        b.cbranch(b.icmp_unsigned("==", unset, I64(0)), set_, ask)
        b.position_at_end(set_)
        self._judge(b, (address, w, pc, spot), offset, cells, access, count, ask)
        b.position_at_end(count)
        made = place_of(b, permit, "count")
        b.store(b.add(b.load(made), I64(1)), made)
        usual = b.add(field_of(b, segment, "host"), inside)
        b.branch(done)
        b.position_at_end(ask)
        constants = (I64(access.shape), *extent, I64(max(cells)), I64(min(cells)))
        other = self._call_shared(b, permits.asked, address, w, pc, place, first, spot, *constants)
        b.branch(done)
        b.position_at_end(done)
        host = b.phi(I64)
        host.add_incoming(usual, count)
        host.add_incoming(other, ask)
        return host

    def _unless_in_section(self, b: Builder, arguments: tuple[Value, ...]) -> None:
        """Return early from a function if `sections` handles the access, which is to shared memory."""
        machine, first = machine_at.body(b, arguments[0], I64(0)), arguments[4]
        noted, onward = (b.function.append_basic_block(name) for name in ("noted", "onward"))
        shared = b.icmp_unsigned("==", b.lshr(first, I64(SEGMENT_SHIFT)), I64(SHARED))
        some = b.icmp_unsigned("!=", field_of(b, machine, "section"), I64(NOTHING))
        b.cbranch(b.and_(some, shared), noted, onward)
        b.position_at_end(noted)
        found = call.body(b, field_of(b, machine, "within_entry"), *arguments, I64(FULL))
        b.ret(b.and_(found, I64(HOST)))
        b.position_at_end(onward)

    def _judge(
        self, b: Builder, who: tuple[Value, ...], offset: Value, cells: dict[int, Cells], access: _Access, count: Any,
        ask: Any,
    ) -> None:  # fmt: skip
        """Check the cells at `offset` bytes of memory from the permit's start, and branch to one of two blocks."""
        address, _, _, spot = who
        permit = permit_at.body(b, spot, I64(0))
        judged = b.function.append_basic_block("judged")
        b.cbranch(b.icmp_unsigned("==", field_of(b, permit, "judged"), I64(0)), count, judged)
        b.position_at_end(judged)
        room = self._call_inlined(b, permits.touched, address, spot, offset, *(I64(number) for number in access.extent))
        go_on_if(b, b.icmp_unsigned("!=", room, I64(0)), ask)
        choice = b.switch(field_of(b, permit, "grain"), ask)
        for grain, of_grain in cells.items():
            block = b.function.append_basic_block(f"grain{grain}")
            choice.add_case(I64(grain), block)
            b.position_at_end(block)
            at = b.shl(b.lshr(offset, I64(grain)), I64(3))
            writes, reads = (b.add(field_of(b, permit, name), at) for name in ("writes", "reads"))
            planes = writes, reads, field_of(b, permit, "floor")
            self._judge_cells(b, who, planes, (grain, of_grain), access, count, ask)

    def _judge_cells(
        self, b: Builder, who: tuple[Value, ...], planes: tuple[Value, ...], cells: tuple[int, Cells], access: _Access,
        count: Any, ask: Any,
    ) -> None:  # fmt: skip
        """Check cells of one grain, of which the first lane's is at a known location, and branch to one of two
        blocks."""
        address, w, pc, _ = who
        (writes, reads, floor), (grain, of_grain), kind = planes, cells, I64(access.kind)
        differ = b.function.append_basic_block("differ")
        if access.how == UNIT:
            log = access.bytes.bit_length() - 1 - grain
            self._judge_one_by_one(b, who, planes, (access.kind, log), differ, count, ask)
        written, read = (b.load(pointer(b, plane, I64)) for plane in (writes, reads))
        found = permits.scan(b, of_grain, writes, reads, written, read)
        what = self._call_shared(b, permits.decided, address, w, written, read, found, floor, kind)
        fill, add, put = (b.function.append_basic_block(name) for name in ("fill", "add", "put"))
        choice = b.switch(what, put)
        for number, block in ((0, differ), (permits.FILL, fill), (permits.ADD, add)):
            choice.add_case(I64(number), block)
        b.position_at_end(fill)
        base = self._call_inlined(b, permits.present, address, w, pc)
        permits.fill(b, of_grain, reads if access.kind == READ else writes, base)
        if access.kind != READ:  # cells that were never read stay memory that the system need not map
            some, none = b.or_(read, found), b.function.append_basic_block("some")
            b.cbranch(b.icmp_unsigned("==", some, I64(0)), count, none)
            b.position_at_end(none)
            permits.put(b, of_grain, reads, I64(0), keep=False)
        b.branch(count)
        b.position_at_end(add)
        permits.put(b, of_grain, reads, b.shl(I64(1), w), keep=True)
        b.branch(count)
        b.position_at_end(put)
        permits.put(b, of_grain, reads, what, keep=False)
        b.branch(count)
        if access.how != UNIT:
            b.position_at_end(differ)
            b.branch(ask)

    def _judge_one_by_one(
        self, b: Builder, who: tuple[Value, ...], at: tuple[Value, ...], how: tuple[int, int], differ: Any, count: Any,
        ask: Any,
    ) -> None:  # fmt: skip
        """Check the cells of contiguous lanes one by one, if they differ now or did so recently.

        The builder continues where they may be equal.
        """
        address, w, pc, spot = who
        place = place_of(b, permit_at.body(b, spot, I64(0)), "mixed")
        again, known, alike = (b.function.append_basic_block(name) for name in ("again", "known", "alike"))
        left = b.load(place)
        b.cbranch(b.icmp_unsigned("==", left, I64(0)), alike, again)
        b.position_at_end(again)
        b.store(b.sub(left, I64(1)), place)
        b.branch(known)
        b.position_at_end(differ)
        b.store(I64(permits.MIXED), place)
        b.branch(known)
        b.position_at_end(known)
        fine = self._call_shared(b, permits.known, address, w, pc, *at, *(I64(number) for number in how))
        b.cbranch(b.icmp_unsigned("!=", fine, I64(0)), count, ask)
        b.position_at_end(alike)

    def _constants(self, b: Builder, steps: Steps) -> Value:
        """Return the location of a constant with these distances."""
        name = f"steps{self._number_of(steps)}"
        made = self.module.ir.globals.get(name)
        if made is None:
            made = ir.GlobalVariable(self.module.ir, ir.ArrayType(I64, LANES), name)
            made.linkage, made.global_constant, made.align = "internal", True, 64
            made.initializer = ir.Constant(made.value_type, list(steps))
        return b.ptrtoint(made, I64)


def _all_ones(b: Builder, place: Value, n: int) -> Value:
    """Return whether each of n bytes is 1."""
    if n == 1:
        return b.icmp_unsigned("!=", b.load(pointer(b, place, I8)), I8(0))
    width = min(n, 64)
    found = None
    for at in range(0, n, width):
        v = b.load(pointer(b, b.add(place, I64(at)), ir.VectorType(I8, width)), align=1)
        found = v if found is None else b.and_(found, v)
    zeros = b.bitcast(b.icmp_unsigned("==", found, same(found, 0)), ir.IntType(width))
    return b.icmp_unsigned("==", zeros, zeros.type(0))
