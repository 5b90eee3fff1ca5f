"""Matrix instructions: their shapes and types, and how the tensor cores of each architecture add.

Every dense `mma.sync` has one layout of its fragments (PTX ISA, "Matrix fragments for mma").  Let g = lane // 4, t =
lane % 4, and P the elements in a register.  Register r of `a` holds row g + 8 (r % (m / 8)), and the P values of k from
4 P (r / (m / 8)) + P t.  Register r of `b` holds column g, and the P values of k from 4 P r + P t.  Element (row g + 8
h, column 2 t + x) of `c` and `d` is number 2 h + x.

A sparse product (`mma.sp`) has half of the elements of `a`: of each chunk of four k (tf32: of two), the two (one) that
its metadata name by 4 bits.  They are stored like the `a` of a dense product of half the k.

Sums of floats: all products of a block of k, and the accumulator, are truncated to a fixed number of bits below the
largest exponent, added exactly, and rounded once.  They are rounded toward zero to f32, and to nearest even to f16.
Sources: measurements on an H100; for other GPUs arXiv 2512.07004 and 2511.10909.
"""

from __future__ import annotations

from wsemu.model.data import NamedTuple
from wsemu.model.tensor_memory import move_registers


class Format(NamedTuple):
    """A floating-point type of an element: its number of bits and their meaning."""

    bits: int
    exponent: int
    mantissa: int
    bias: int
    dropped: int = 0
    """low bits of a register that are ignored"""
    infinite: int = 1
    """1 if the type has infinities; 0: only a number with all bits set is a nan; 2: there are neither"""


FORMATS = {
    "f16": Format(16, 5, 10, 15),
    "bf16": Format(16, 8, 7, 127),
    "tf32": Format(32, 8, 10, 127, dropped=13),
    "f32": Format(32, 8, 23, 127),
    "e4m3": Format(8, 4, 3, 7, infinite=0),
    "e5m2": Format(8, 5, 2, 15),
    # in the upper bits of a byte
    "e2m3": Format(8, 2, 3, 1, dropped=2, infinite=2),
    "e3m2": Format(8, 3, 2, 3, dropped=2, infinite=2),
    "e2m1": Format(8, 2, 1, 1, dropped=4, infinite=2),
}
INTEGER_BITS = {"s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1}
BYTE_FLOATS = ("e4m3", "e5m2")
NARROW_FLOATS = (*BYTE_FLOATS, "e2m3", "e3m2", "e2m1")


LEAST_TOP = {"f32": -133, "f16": -21}
"""the smallest exponent to which terms are aligned, by accumulator type: 7 below that of its smallest normal number.
If all terms are smaller, they are truncated as if one term had this exponent"""


class Mma(NamedTuple):
    """A matrix multiplication of a warp: d (m x n) = a (m x k) b (k x n) + c."""

    m: int
    n: int
    k: int
    d: str
    a: str
    b: str
    c: str
    combine: str = "mul"
    """operation that combines two elements: mul; or xor or and, whose result counts its set bits"""
    sparse: bool = False
    """true if `a` has half of its elements, and their metadata in the register after its own"""
    kind: str = ""
    """f8f6f4; mxf8f6f4 or mxf4, whose scale factors are in the registers after those of `a` and of `b`"""

    @property
    def name(self) -> str:
        """The name of the operation."""
        how = ".sp" if self.sparse else self.kind and f".{self.kind}"
        shape = f"mma{how}.m{self.m}n{self.n}k{self.k}.{self.d}.{self.a}.{self.b}.{self.c}"
        return shape if self.combine == "mul" else f"{shape}.{self.combine}"

    @property
    def halves(self) -> int:
        """Return the number of blocks of 8 rows."""
        return self.m // 8

    @property
    def width(self) -> int:
        """Return the number of bits of an element in a register; elements of type `b1` count as one element of 32
        bits."""
        if self.a == "f64":
            return 64
        if self.kind == "mxf4":
            return 4
        return 32 if self.a == "b1" else INTEGER_BITS.get(self.a) or FORMATS[self.a].bits

    @property
    def parts(self) -> int:
        """Return the number of elements in a register."""
        return max(32 // self.width, 1)

    @property
    def groups(self) -> int:
        """Return the number of registers of `b`."""
        return self.k // (32 if self.a == "b1" else 1) // (4 * self.parts)

    @property
    def has_factors(self) -> bool:
        """Return whether it has scale factors."""
        return self.kind[:2] == "mx"

    @property
    def groups_of_a(self) -> int:
        """Return the number of registers of `a` for each block of 8 rows."""
        return self.groups >> self.sparse

    @property
    def chunk(self) -> int:
        """Return the size of the chunks of k from which the metadata of a sparse product select half."""
        return 2 if self.width == 32 else 4

    @property
    def providers(self) -> int:
        """Return the number of lanes of four that have metadata of a sparse product: 1, 2 or 4."""
        return self.k // self.chunk * 4 * self.m // 8 // 32

    @property
    def accumulators(self) -> int:
        """Return the number of registers of `c`, and of `d`."""
        return self.halves if self.c == "f16" else 2 * self.halves

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """Return the number of registers of d, a, b and c."""
        of_a = self.halves * self.groups_of_a + (self.sparse or self.has_factors)
        return self.accumulators, of_a, self.groups + self.has_factors, self.accumulators

    @property
    def register(self) -> str:
        """Return the type of its registers."""
        return "b64" if self.a == "f64" else "b32"


def _every() -> list[Mma]:
    floats = [Mma(m, 8, k, acc, "f16", "f16", acc) for acc in ("f32", "f16") for m, k in ((16, 16), (16, 8), (8, 16))]
    floats += [Mma(m, 8, k, "f32", "bf16", "bf16", "f32") for m, k in ((16, 16), (16, 8), (8, 16))]
    floats += [Mma(16, 8, k, "f32", "tf32", "tf32", "f32") for k in (8, 4)]
    floats += [
        Mma(16, 8, k, acc, a, b, acc)
        for acc in ("f32", "f16") for k in (32, 16) for a in BYTE_FLOATS for b in BYTE_FLOATS
    ]  # fmt: skip
    integers = [
        Mma(m, 8, k * per, "s32", a + str(bits), b + str(bits), "s32")
        for bits, per in ((8, 1), (4, 2)) for m, k in ((8, 16), (16, 16), (16, 32)) for a in "su" for b in "su"
    ]  # fmt: skip
    one_bit = [
        Mma(m, 8, k, "s32", "b1", "b1", "s32", how)
        for m, k in ((8, 128), (16, 128), (16, 256)) for how in ("xor", "and")
    ]  # fmt: skip
    doubles = [Mma(m, 8, k, "f64", "f64", "f64", "f64") for m, k in ((8, 4), (16, 4), (16, 8), (16, 16))]
    return [*floats, *integers, *one_bit, *doubles, *_sparse(), *_narrow()]


def _narrow() -> list[Mma]:
    found = [
        Mma(16, 8, 32, d, a, b, d, kind=kind)
        for kind, d in (("f8f6f4", "f32"), ("f8f6f4", "f16"), ("mxf8f6f4", "f32"))
        for a in NARROW_FLOATS for b in NARROW_FLOATS
    ]  # fmt: skip
    return [*found, Mma(16, 8, 64, "f32", "e2m1", "e2m1", "f32", kind="mxf4")]


def _sparse() -> list[Mma]:
    types = [(acc, "f16", "f16", k) for acc in ("f32", "f16") for k in (16, 32)]
    types += [("f32", "bf16", "bf16", k) for k in (16, 32)] + [("f32", "tf32", "tf32", k) for k in (8, 16)]
    types += [("f32", a, b, 64) for a in BYTE_FLOATS for b in BYTE_FLOATS]
    types += [("s32", f"{a}8", f"{b}8", k) for k in (32, 64) for a in "su" for b in "su"]
    return [Mma(16, 8, k, d, a, b, d, sparse=True) for d, a, b, k in types]


MMA = {shape.name: shape for shape in _every()}
"""all operations of this kind; those with f16 and bf16 and m = 8 are parts of a `wmma.mma`"""
SATURATES = 1
"""`aux` of a multiplication of integers whose sum is clamped"""
ROUNDS_ONCE, GROUP_ROUNDS_ONCE = 2, 2048
"""`aux` of a multiplication of floats, and of a `wgmma`, with exact sums: the sum of all products and the accumulator
is rounded once, to nearest even.  No tensor core does this"""
SELECTOR_SHIFT, GROUP_SELECTOR_SHIFT = 2, 12
"""bits of the `aux` of a sparse multiplication, and of a sparse `wgmma`, above which its sparsity selector is"""
FACTORS_SHIFT, LANE_A_SHIFT, LANE_B_SHIFT, BYTE_A_SHIFT, BYTE_B_SHIFT, FINE = 2, 4, 5, 7, 9, 2048
"""fields of the `aux` of a multiplication with scale factors: the logarithm of the factors of a row (2 bits); the pair
of lanes of four with those of `a` (1 bit), and the lane with those of `b` (2 bits); their first bytes (2 bits each);
FINE: they are ue4m3, not ue8m0"""
SPREAD, COLLECT, TURN = "spread", "collect", "turn"
"""operations that move matrices of 8 x 8 16-bit elements between lanes: from rows to fragments like `ldmatrix`, from
fragments to rows like `stmatrix`, and from a fragment to its transpose"""
MOVES = {
    **{f"{what}.x{n}{trans}": (what, n, bool(trans)) for what in (SPREAD, COLLECT) for n in (1, 2, 4)
       for trans in ("", ".trans")},
    "turn": (TURN, 1, True),
}  # fmt: skip
"""(kind, number of matrices, whether transposed) of each operation.  Lane 8 m + r has row r of matrix m in four
registers of 32 bits"""


class Wgmma(NamedTuple):
    """The part of a `wgmma.mma_async` that one warp computes: its 16 rows of d (64 x n) = a (64 x k) b (k x n) + d."""

    part: Mma
    """multiplication for 8 of its columns"""
    shared: bool
    """true if `a` is in shared memory and given by a descriptor, as `b` always is"""

    @property
    def name(self) -> str:
        part = self.part
        kind = "s" if self.shared else "r"
        how = ".sp" if part.sparse else ".and" if part.combine == "and" else ""
        return f"wgmma.{kind}.{part.d}.{part.a}.{part.b}{how}"


def _groups() -> list[Wgmma]:
    types = [(acc, "f16", "f16", 16) for acc in ("f32", "f16")]
    types += [("f32", "bf16", "bf16", 16), ("f32", "tf32", "tf32", 8)]
    types += [(acc, a, b, 32) for acc in ("f32", "f16") for a in BYTE_FLOATS for b in BYTE_FLOATS]
    types += [("s32", f"{a}8", f"{b}8", 32) for a in "su" for b in "su"]
    parts = [Mma(16, 8, k, d, a, b, d) for d, a, b, k in types] + [Mma(16, 8, 256, "s32", "b1", "b1", "s32", "and")]
    parts += [Mma(16, 8, 2 * k, d, a, b, d, sparse=True) for d, a, b, k in types]
    return [Wgmma(part, shared) for part in parts for shared in (False, True)]


WGMMA = {found.name: found for found in _groups()}
COLUMNS, NEGATES_A, NEGATES_B, TURNS_A, TURNS_B, CLAMPS = 63, 64, 128, 256, 512, 1024
"""bits of the aux of a `wgmma`: n / 8; negated a or b; a or b transposed in memory; SATURATES"""
OLDEST_GROUP = 9
"""number of commits beyond which groups of `wgmma` are not distinguished: a `wait_group` with a larger number waits for
none"""
GROUP_BYTE_BITS = 13
"""number of fraction bits below the largest exponent, and of an f32 result, for a `wgmma` of e4m3 and e5m2"""


class Descriptor(NamedTuple):
    """The layout of an operand in shared memory (PTX ISA, "Matrix descriptor format"), in bytes."""

    start: int
    leading: int
    stride: int
    base: int
    swizzle: int
    """bytes of a swizzled row; 16 if rows are not swizzled"""

    @staticmethod
    def of(bits: int) -> Descriptor:
        """Return the descriptor with these 64 bits."""
        start, leading, stride = (16 * (bits >> at & 0x3FFF) for at in (0, 16, 32))
        mode = bits >> 62 & 3
        return Descriptor(start, leading, stride, bits >> 49 & 7, 256 >> mode if mode else 16)


def find_metadata(shape: Mma, selector: int, chunk: int, half: int) -> tuple[int, int]:
    """Return the location of the 4 bits of a chunk, for rows g (half 0) or g + 8: the lane, counted from 4 g, and the
    lowest bit."""
    if shape.width == 8:
        lane = 2 * selector if shape.providers == 2 else 2 * (chunk // 8)
        return lane + half, 4 * (chunk % 8)
    return shape.providers * selector + chunk // 4, 4 * (chunk % 4) + 16 * half


def move_counts(name: str) -> tuple[int, int]:
    """Return the registers of the result and of the operand of an operation of `MOVES`."""
    what, n, _ = MOVES[name]
    return {SPREAD: (n, 4), COLLECT: (4, n), TURN: (1, 1)}[what]


def vector_counts(name: str, auxiliary: int = 0) -> tuple[int, ...]:
    """Return the number of registers of the result and of each operand, for an operation with vectors."""
    if name in TENSOR_MOVES:
        return (move_registers(auxiliary), 1) if name == "tcgen05.ld" else (0, 1, move_registers(auxiliary))
    if name in WGMMA:
        found = WGMMA[name]
        sums = found.part.accumulators * (auxiliary & COLUMNS)
        return sums, (1 if found.shared else 4) + found.part.sparse, 1, sums
    return MMA[name].counts if name in MMA else move_counts(name)


TENSOR_MOVES = ("tcgen05.ld", "tcgen05.st")
VECTORS = frozenset((*MMA, *MOVES, *WGMMA, *TENSOR_MOVES))
"""operations whose operands are vectors of consecutive rows"""
