"""`tcgen05.mma`: its descriptors, the locations of the elements of A, B and D, and the product.

PTX ISA, "Instruction descriptor", "Data Path Layout Organization", "tcgen05.mma".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wsemu.model.data import dataclass
from wsemu.model.isa import ROW
from wsemu.model.outcome import RawFinding
from wsemu.model.tensor_memory import (
    BF16,
    BUFFER_BITS,
    BUFFER_SHIFT,
    BYTES,
    COLLECT_BITS,
    COLLECT_SHIFT,
    COLLECTS,
    F16,
    INTEGERS,
    KIND_BITS,
    KINDS,
    MASKED,
    METADATA_COLUMNS,
    NO_FILL,
    OTHER_OPERAND,
    OVERWRITTEN,
    ROWS_BEFORE_MASKS,
    SCALED,
    SPARSE,
    TENSOR_A,
    TF32,
    VECTOR_BITS,
    VECTOR_SHIFT,
    WEIGHTS,
)
from wsemu.reference.arithmetic import to_signed
from wsemu.reference.matrix.tensor_columns import OPERAND, SUM, Access, Filled, TensorMemory, reach_peer
from wsemu.reference.matrix.tensor_operands import (
    LANE,
    RESERVED,
    SHAPE,
    SPARSITY,
    TYPES,
    Source,
    locate_all,
    read_shared,
)
from wsemu.reference.matrix.tensor_sparse import IN_ONE_COLUMN, INVALID, is_valid, read_metadata, stored_ks
from wsemu.reference.matrix.tensor_sums import (
    add_groups,
    add_integers,
    add_products,
    element_number,
    scale_factor,
)
from wsemu.reference.sync.named_barrier import TrapError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wsemu.model.tensor_memory import Element
    from wsemu.reference.matrix.tensor_columns import Word
    from wsemu.reference.matrix.tensor_sums import Number
    from wsemu.reference.run import Cta
    from wsemu.reference.warp import WarpRun

KIND = "tensor memory"
_E2M1 = BYTES[5]
_RESERVED = {
    **dict.fromkeys(KINDS[:3], (3, 6, 23, 29)), "i8": (6, 23, 29),
    "mxf8f6f4": (0, 1, 3, 6, 24, 25, 26, 31), **dict.fromkeys(KINDS[5:], (0, 1, 3, 6, 12, 15, 16, 24, 25, 26)),
}  # fmt: skip
"""bits of an instruction descriptor that must be 0"""


@dataclass(slots=True)
class Product:
    """One `tcgen05.mma` of a lane."""

    run: WarpRun
    fields: list[int]
    lane: int
    members: list[Cta]

    def __post_init__(self) -> None:
        run, fields, lane = self.run, self.fields, self.lane
        bits = run.read(fields[5], "b32", lane)
        at = run.read(fields[2], "b32", lane)
        self.kind = KINDS[fields[7] & KIND_BITS]
        self.bits, self.auxiliary = bits, fields[7]
        self.n, self.m = (bits >> 17 & 63) * 8, (bits >> 24 & 31) * 16
        self.column, self.at_lane = at & 0xFFFF, at >> 16
        self.in_columns = bool(fields[7] & TENSOR_A)
        self.adds = bool(run.read(fields[6], "p", lane))
        self.a, self.b = run.read(fields[3], "b64", lane), run.read(fields[4], "b64", lane)

    kind: str = ""
    bits: int = 0
    auxiliary: int = 0
    n: int = 0
    m: int = 0
    column: int = 0
    at_lane: int = 0
    in_columns: bool = False
    adds: bool = False
    a: int = 0
    b: int = 0

    # -- properties ---------------------------------------------------------------------------------------------------
    @property
    def has_factors(self) -> bool:
        return KINDS.index(self.kind) >= SCALED

    @property
    def dense(self) -> bool:
        """Return whether elements have 4 bits, two in a byte."""
        return KINDS.index(self.kind) > SCALED

    @property
    def rows(self) -> int:
        """Return the rows of A or D in one CTA."""
        return self.m // len(self.members)

    @property
    def sparse(self) -> bool:
        return bool(self.auxiliary & SPARSE)

    @property
    def metadata(self) -> int:
        """Return the address of the metadata of a sparse A."""
        return self.run.read(self.fields[2] + 3 * ROW, "b32", self.lane)

    @property
    def metadata_columns(self) -> range:
        """Return the columns of metadata that the product reads."""
        first = self.metadata & 0xFFFF
        if self.kind in IN_ONE_COLUMN:
            first += self.bits & 3
            return range(first, first + 1)
        return range(first, first + METADATA_COLUMNS)

    @property
    def is_unmodelled(self) -> bool:
        """Return whether PTX has the layout of the product only in a figure.  So it is if K = 96.  So it is for sparse
        products with fewer than 128 rows in a CTA, and with other columns of metadata than CuTe selects.  So it is if
        rows of B, which have 64 bytes, are swizzled by 32 bytes."""
        if self.dense and self.bits >> 31:
            return True
        if not self.sparse or self.wrong()[0]:
            return False
        selects = self.metadata % 2 == 1 or (self.kind in IN_ONE_COLUMN and self.bits & 3 > 1)
        b = self.source(True)
        return self.rows != 128 or selects or (b.swizzle == 6 and not b.turned)

    @property
    def steps(self) -> int:
        """Return the number of elements along k that A has."""
        return 64 if self.dense else {"f16": 16, "tf32": 8}.get(self.kind, 32)

    @property
    def result(self) -> str:
        if self.kind == "i8":
            return "s32"
        return "f32" if self.has_factors or self.bits >> 4 & 3 else "f16"

    def element(self, of_b: bool) -> Element | str | None:
        """Return the type of A or B; None if the descriptor has no such type."""
        number = self.bits >> (10 if of_b else 7) & (3 if of_b and self.dense else 7)
        if self.kind == "f16":
            return (F16, BF16)[number] if number < 2 else None
        if self.kind == "tf32":
            return TF32 if number == 2 else None
        if self.kind == "i8":
            return INTEGERS[number] if number < 2 else None
        if self.dense:
            return _E2M1 if number == 1 else None
        return BYTES[number] if number < len(BYTES) else None

    def source(self, of_b: bool) -> Source:
        """Return the source of A or B in shared memory."""
        element = self.element(of_b)
        size = 1 if element is None or isinstance(element, str) else element.container // 8
        narrow = 0
        if element is not None and not isinstance(element, str) and not self.dense and element.special == 0:
            narrow = 8 - element.dropped
        rows = self.n // len(self.members) if of_b else self.rows
        turned = bool(self.bits >> (16 if of_b else 15) & 1) and (of_b or not self.in_columns)
        pieces = 4 if of_b and self.sparse else 2
        return Source(self.b if of_b else self.a, range(rows), pieces, turned, size, narrow)

    @property
    def layout(self) -> str:
        """Return the layout, by the letters of PTX."""
        if self.auxiliary & WEIGHTS:
            return {32: "G", 64: "E"}.get(self.m, "D")
        if len(self.members) == 2:
            return ("C" if self.sparse else "B") if self.m == 128 else "A"
        return "F" if self.m == 64 else "D"

    def wrong(self) -> tuple[int, int]:
        """Return (error, descriptor with the error), or (0, 0)."""
        if self.bits >> 2 & 1 != bool(self.auxiliary & SPARSE):
            return SPARSITY, self.bits
        shift = () if self.auxiliary & WEIGHTS or self.has_factors else (30, 31)
        if any(self.bits >> bit & 1 for bit in (*_RESERVED[self.kind], *shift, *self._clear_bits())):
            return RESERVED, self.bits
        if self.sparse and self.kind in ("f8f6f4", "i8") and self.bits & 3:  # both columns are selected
            return RESERVED, self.bits
        if not self._types_go_together():
            return TYPES, self.bits
        if not self._has_shape():
            return SHAPE, self.bits
        if self.at_lane and (self.layout not in ("C", "F") or self.at_lane != 16):
            return LANE, self.bits
        if self.in_columns and self.a >> 16 & 0xFFFF != self.at_lane:  # A must be in the lanes of D
            return LANE, self.bits
        if self.sparse and self.metadata >> 16 != self.at_lane:  # so must metadata
            return LANE, self.bits
        for of_b in (False, True) if not self.in_columns else (True,):
            source = self.source(of_b)
            if found := source.wrong(dense=self.dense):
                return found, source.descriptor
        if self.has_factors and any(self._factor_address(of_b) >> 16 & 0x3FFF for of_b in (False, True)):
            return LANE, self.bits  # CuTe may keep a byte in the two highest bits
        return 0, 0

    def _clear_bits(self) -> list[int]:
        """Return the bits of the descriptor that must be 0 because the first factor is aligned.

        These are the low bits of its position, which is 0 or 2 for two factors, and 0 for four.
        """
        count = self.auxiliary >> VECTOR_SHIFT & VECTOR_BITS if self.has_factors else 0
        return [first + n for first in (4, 29) for n in range(count)]

    def _types_go_together(self) -> bool:
        a, b, d = self.element(False), self.element(True), self.bits >> 4 & 3
        if a is None or b is None:
            return False
        if self.kind == "f16":
            return a == b and (d == 1 or (d == 0 and a == F16))
        return self.has_factors or d == {"tf32": 1, "i8": 2}.get(self.kind, min(d, 1))

    def _has_shape(self) -> bool:
        m, n = self.m, self.n
        if self.auxiliary & WEIGHTS:
            return m in (32, 64, 128) and n in ((64, 128) if self.sparse else (64, 128, 256))
        b = self.source(True)
        turned = b.turned and b.size == 1
        if len(self.members) == 2:
            step = 32 if self.kind == "i8" or turned else 16
            least = 256 if self.sparse and self.has_factors else 128
            return m in (least, 256) and step <= n <= 256 and n % step == 0
        good = m == 128 or (m == 64 and not self.has_factors)
        step = 16 if turned or (self.kind == "i8" and n > 32) else 8
        return good and 8 <= n <= 256 and n % step == 0

    # -- locations ----------------------------------------------------------------------------------------------------
    def place(self, row: int, column: int) -> Word:
        """Return the word of an element of D."""
        n = self.n
        match self.layout:
            case "F":
                return 32 * (row // 16) + row % 16 + self.at_lane, self.column + column
            case "B" | "E":
                return row + 64 * (column >= n // 2), self.column + column % (n // 2)
            case "G":
                return row + 32 * (column // (n // 4)), self.column + column % (n // 4)
            case _:
                return row, self.column + column

    def leaves_out(self, member: int, lane: int) -> bool:
        """Return whether the product does not write a lane of D."""
        if not self.auxiliary & MASKED:
            return False
        row = self.fields[2] + ROW * (ROWS_BEFORE_MASKS + 4 * member + lane // 32)
        return bool(self.run.read(row, "b32", self.lane) >> lane % 32 & 1)

    def _factor_address(self, of_b: bool) -> int:
        return self.run.read(self.fields[2] + ROW * (2 if of_b else 1), "b32", self.lane)

    def factors(self, of_b: bool) -> int:
        """Return the first column of the scale factors."""
        return self._factor_address(of_b) & 0xFFFF

    def factor_columns(self) -> int:
        """Return the number of columns with the factors of B."""
        return -(-(self.n // 2 if self.layout == "B" else self.n) // 32)

    def touched_words(self) -> tuple[list[Word], list[list[Word]]]:
        """Return the words of D, and of each operand in tensor memory."""
        sums = list(dict.fromkeys(self.place(row, c) for row in range(self.rows) for c in range(self.n)))
        operands = []
        if self.in_columns:
            lanes = sorted({lane for lane, _ in sums})
            operands.append([(lane, (self.a & 0xFFFF) + c) for lane in lanes for c in range(8)])
        if self.sparse:
            operands.append([(lane, column) for column in self.metadata_columns for lane in range(128)])
        for of_b in (False, True) if self.has_factors else ():
            count = self.factor_columns() if of_b else 4
            operands.append([(lane, self.factors(of_b) + c) for c in range(count) for lane in range(128)])
        return sums, operands

    def lacks_columns(self, memory: TensorMemory) -> bool:
        """Report columns that the CTA does not own; return whether there are any."""
        run, bit = self.run, 1 << self.lane
        columns = {column for _, column in self.touched_words()[0]}
        if memory.lacks(run, bit, self.column, len(columns)):
            return True
        if self.in_columns and memory.lacks(run, bit, self.a & 0xFFFF, 8):
            return True
        if self.sparse and memory.lacks(run, bit, self.metadata & 0xFFFF, METADATA_COLUMNS):
            return True
        if not self.has_factors:
            return False
        first, second = self.factors(False), self.factors(True)
        return memory.lacks(run, bit, first, 4) or memory.lacks(run, bit, second, self.factor_columns())

    # -- values --------------------------------------------------------------------------------------------------------
    def row_of_a(self, member: Cta, memory: TensorMemory, row: int, column: int) -> list[int] | None:
        """Return the elements of the row of A that a column of D uses; None if part of the row is uninitialized."""
        if not self.in_columns:
            return self._from_shared(self.source(False), member, row)
        lane = self.place(row, column)[0]
        words = [memory.words.get((lane, (self.a & 0xFFFF) + c)) for c in range(8)]
        if None in words:
            return None
        packed = sum((word or 0) << 32 * n for n, word in enumerate(words))
        source = self.source(False)
        if self.dense:
            return [(packed >> 4 * k & 15) << 4 for k in range(64)]
        width, up = 8 * source.size, 2 if source.bits else 0
        return [(packed >> width * k & ((1 << width) - 1)) << up & ((1 << width) - 1) for k in range(self.steps)]

    def _from_shared(self, source: Source, member: Cta, row: int) -> list[int]:
        data, count = source.data(self.run, member), self.steps * source.pieces // 2
        if self.dense:
            chunks = [source.offset(row, 16 * q) for q in range(source.pieces)]
            packed = int.from_bytes(b"".join(bytes(data[at : at + 16]) for at in chunks), "little")
            return [(packed >> 4 * k & 15) << 4 for k in range(count)]
        return [source.element(data, row, k) for k in range(count)]

    def row_metadata(self, memory: TensorMemory, row: int) -> list[int | None]:
        """Return the metadata of the chunks of a row of a sparse A; None for uninitialized ones."""
        return read_metadata(memory.words, self.kind, self.metadata_columns[0], row, 2 * self.steps)

    def column_of_b(self, column: int) -> list[int]:
        part = self.n // len(self.members)
        return self._from_shared(self.source(True), self.members[column // part], column % part)

    def scales(self, memory: TensorMemory, row: int, of_b: bool) -> list[Number] | None:
        """Return the scale factors of a row of A or a column of B; None if a copy of them is uninitialized or differs
        from the others."""
        quarters = range(4)
        if of_b and self.layout == "B":
            half, row = divmod(row, self.n // 2)
            quarters = range(2 * half, 2 * half + 2)
        copies = [memory.words.get((32 * quarter + row % 32, self.factors(of_b) + row // 32)) for quarter in quarters]
        count = 1 << (self.auxiliary >> VECTOR_SHIFT & VECTOR_BITS)
        first = self.bits >> (4 if of_b else 29) & 3
        used = {None if copy is None else copy >> 8 * first & (1 << 8 * count) - 1 for copy in copies}
        word = copies[0]
        if word is None or len(used) > 1:
            return None
        fine = self.dense and not self.bits >> 23 & 1
        return [scale_factor(word >> 8 * (first + j) & 0xFF, fine=fine) for j in range(count)]

    def numbers(self, bits: list[int], of_b: bool) -> list[Number]:
        """Return elements as numbers; a bit of the descriptor negates them."""
        element = self.element(of_b)
        assert element is not None
        assert not isinstance(element, str)
        found = [element_number(one, element) for one in bits]
        if self.bits >> (14 if of_b else 13) & 1:
            found = [one._replace(significand=-one.significand) for one in found]
        return found


def issue_product(run: WarpRun, fields: list[int], lane: int, members: list[Cta]) -> None:
    """Compute a product of a lane immediately."""
    product = Product(run, fields, lane, members)
    if product.is_unmodelled:
        raise TrapError(run.group.pc, run.warp.number)
    what, value = product.wrong()
    if what:
        value -= value >> 63 << 64
        run.cta.finding(
            "tcgen05-descriptor", run.group.pc, run.warp.number, 1 << lane,
            what=what, value=value, kind=KINDS.index(product.kind),
        )  # fmt: skip
        return
    memories: list[TensorMemory] = [member.objects[KIND] for member in members]
    lacking = [product.lacks_columns(memory) for memory in memories]
    sources = [product.source(True), *([] if product.in_columns else [product.source(False)])]
    places = [locate_all(run, member, lane, source) for member in members for source in sources]
    if any(lacking) or None in places:
        return
    agent = run.cta.order.fork(run.cta.number)
    run.cta.objects[KIND].note_issue(run, lane, agent)
    first = run.launch.shared_address(members[0].number) + (product.b & 0x3FFF) * 16
    amount = 32 * product.rows + 16 * product.source(True).pieces * product.n
    run.launch.watch.happen("copy", run.cta.number, run.warp.number, run.group.pc, first, -1, 1 << lane, amount)
    reach_peer(run, 1 << lane, agent, members)
    for memory in memories:
        _touch(product, memory, agent)
    _collect(product, memories)
    good_columns: set[int] = set()
    part = product.n // len(members)
    for n, member in enumerate(members):
        source = product.source(True)
        good = read_shared(run, member, lane, agent, source, source.bits)
        good_columns |= {n * part + column for column in good}
    columns = [product.column_of_b(column) for column in range(product.n)]
    reported = False
    for n, member in enumerate(members):
        good_rows = set(range(product.rows))
        if not product.in_columns:
            source = product.source(False)
            good_rows = read_shared(run, member, lane, agent, source, source.bits)
        if product.sparse:
            good_rows, reported = _judge_metadata(product, memories[n], good_rows, reported=reported)
        _multiply(product, n, memories[n], columns, good_rows, good_columns)


def _touch(product: Product, memory: TensorMemory, agent: int) -> None:
    run, group = product.run, len(product.members)
    order, actor = run.cta.order, (run.cta.number, run.warp.number)
    sums, operands = product.touched_words()
    access = Access(agent, order.number(actor), product.lane, order.time(actor), run.group.pc, OPERAND, group)
    for words in operands:
        memory.touch(run, 1 << product.lane, access, words)
    key = product.column, product.at_lane, product.rows, product.n, ord(product.layout)
    memory.touch(run, 1 << product.lane, access._replace(what=SUM, key=key), sums)


def _collect(product: Product, memories: list[TensorMemory]) -> None:
    """Update the collector buffers, which may keep A, or B with `.ws`, for later products.  A use needs an earlier fill
    that is still valid (PTX ISA, "tcgen05.mma", `.collector_usage`)."""
    run, buffers = product.run, product.run.cta.objects[KIND].buffers
    how = COLLECTS[product.auxiliary >> COLLECT_SHIFT & COLLECT_BITS]
    of_b = bool(product.auxiliary & WEIGHTS)
    buffer = 1 + (product.auxiliary >> BUFFER_SHIFT & BUFFER_BITS) if of_b else 0
    if how in ("", "discard"):
        buffers.pop(buffer, None)
        return
    source, in_columns = product.source(of_b), product.in_columns and not of_b
    elements: list[tuple[int, ...] | None] = []
    for member, memory in zip(product.members, memories, strict=True):
        for row in source.rows:
            found = (
                product.row_of_a(member, memory, row, 0) if in_columns else product._from_shared(source, member, row)
            )
            elements.append(None if found is None else tuple(found))
    operand = (source.descriptor, len(source.rows), source.turned, source.size, in_columns, product.sparse)
    filled = Filled(run.group.pc, run.warp.number, operand, tuple(elements))
    before = buffers.get(buffer)
    if how == "fill":
        buffers[buffer] = filled
        return
    what = -1
    if before is None or before.warp != run.warp.number:
        what = NO_FILL
    elif before.operand != operand:
        what = OTHER_OPERAND
    elif before.elements != filled.elements:
        what = OVERWRITTEN
    if what >= 0:
        pc, warp = (-1, -1) if before is None or what == NO_FILL else (before.pc, before.warp)
        detail = {"what": what, "buffer": buffer}
        where = run.group.pc, run.cta.number, run.warp.number
        run.launch.report(RawFinding("collector-without-fill", *where, 1 << product.lane, pc, warp, detail))
    if how == "lastuse":
        buffers.pop(buffer, None)


def _judge_metadata(product: Product, memory: TensorMemory, rows: set[int], *, reported: bool) -> tuple[set[int], bool]:
    """Return the rows whose metadata are initialized and valid; report the first invalid metadata."""
    good, run = set(rows), product.run
    for row in range(product.rows):
        for bits in product.row_metadata(memory, row):
            if bits is not None and is_valid(product.kind, bits):
                continue
            good.discard(row)
            if bits is not None and not reported:
                run.cta.finding(
                    "tcgen05-descriptor", run.group.pc, run.warp.number, 1 << product.lane,
                    what=INVALID, value=bits, kind=KINDS.index(product.kind),
                )  # fmt: skip
                reported = True
    return good, reported


def _multiply(
    product: Product, member: int, memory: TensorMemory, columns: list[list[int]], good_rows: set[int],
    good_columns: set[int],
) -> None:  # fmt: skip
    made: dict[Word, int | None] = {}
    for row, column in _elements(product):
        place = product.place(row, column)
        if product.leaves_out(member, place[0]):
            continue
        bits = product.row_of_a(product.members[member], memory, row, column)
        before: int | None = memory.words.get(place) if product.adds else 0
        if bits is None or before is None or row not in good_rows or column not in good_columns:
            made[place] = None
        else:
            of_b = columns[column]
            if product.sparse:
                metadata = [one for one in product.row_metadata(memory, row) if one is not None]
                of_b = [of_b[k] for k in stored_ks(product.kind, metadata)]
            made[place] = _sum(product, memory, row, column, bits, of_b, before)
    for place, value in made.items():
        if value is None:
            memory.words.pop(place, None)
        else:
            memory.words[place] = value


def _elements(product: Product) -> Iterator[tuple[int, int]]:
    return ((row, column) for row in range(product.rows) for column in range(product.n))


def _sum(
    product: Product, memory: TensorMemory, row: int, column: int, of_a: list[int], of_b: list[int], before: int
) -> int | None:
    """Return an element of D."""
    if product.kind == "i8":
        types = product.element(False), product.element(True)
        x_values, y_values = [
            [to_signed(one, 8) if type_ == "s8" else one for one in bits]
            for type_, bits in zip(types, (of_a, of_b), strict=True)
        ]
        return add_integers(x_values, y_values, before, clamps=bool(product.bits >> 3 & 1))
    x, y = product.numbers(of_a, False), product.numbers(of_b, True)
    if not product.has_factors:
        return add_products(x, y, before & (0xFFFF if product.result == "f16" else ~0), product.result)
    own, other = product.scales(memory, row, False), product.scales(memory, column, True)
    if own is None or other is None:
        return None
    if product.dense:
        each = [[factors[g * len(factors) // 4] for g in range(4)] for factors in (own, other)]
        return add_groups(x, y, before, *each)
    nan = bool(own[0].kind or other[0].kind)
    return add_products(x, y, before, "f32", own[0].exponent + other[0].exponent, is_nan=nan)
