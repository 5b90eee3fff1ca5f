"""The instruction set, as one table, and the form of a program.

A warp instruction works on 32 lanes.  A register is a *row* of a warp's register block: 256 bytes, lanes packed by the
instruction's type (`b8`..`b64`, `f16`..`f64`).  A predicate is a 32-bit lane mask in a 4-byte slot; slot 0 always holds
all ones.  The bytecode identifies a register by its byte offset in that block.

An instruction is eight int64 (`FIELDS`).  `guard` is `2 * predicate offset + negate` (0: always executed).  Values are
untyped bits; if sign or kind matter for an operation, its name shows them: `s` signed, `u` unsigned, `b` any bits.

Addresses are virtual: `segment << SEGMENT_SHIFT | byte offset`.  `index.*` operations turn an array index into an
address and mark an error in two high bits, so that a memory access needs a single test, and the cause is known if it
fails.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Literal, cast

from wsemu.model.data import NamedTuple
from wsemu.model.matrix import MMA, MOVES, WGMMA

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

LANES = 32
ROW = 256
"""bytes of a register row: 32 lanes of at most 8 bytes"""
SEGMENT_SHIFT = 40
OFFSET_MASK = (1 << SEGMENT_SHIFT) - 1
ADDRESS_OUT = 1 << 62
"""set by `index` if the index is outside its dimension.  The clamped index is then stored above the segment shift:
`ADDRESS_OUT | (index + INDEX_BIAS) << SEGMENT_SHIFT | 1 << (SEGMENT_SHIFT - 1)`, so that the offsets of further
dimensions do not change it"""
INDEX_BIAS = 1 << 20
ADDRESS_WRAPPED = 1 << 61
"""set by `index` when a negative index was wrapped to the end of its dimension, as Numba does"""
SHARED, LOCAL = 1, 2
"""segments of shared memory and of a thread's local memory; the arrays of a launch have the numbers above them"""
FIRST_ARRAY = 3
LOCAL_SHIFT = 24
"""number of bits of a local memory address that are the offset in the warp's local memory.  The bits above them name
the variable from which the address was computed: 0 for the thread's whole memory; `n + 1` for `Program.locals[n]`; or
ON_STACK and the location of a word with the variable's extent, in units of STACK_UNIT"""
MOST_LOCAL = 1 << 19
"""maximum number of bytes of a thread's local memory, as on a GPU"""
ON_STACK = 1 << 15
STACK_UNIT = 16
"""the location of the word with a variable's extent is that many bytes after its first byte; on the stack, the variable
begins there.  The highest 16 bits of the word are the start of the variable in the same units, the next ones the
location of the word, and the lower half is the variable's size in bytes"""
NON_COHERENT = 1 << 16
"""flag in `aux` of a load that may go through the read-only cache, so that no thread may write its bytes during the
launch"""
NO_STORE = 1 << 17
"""flag in `aux` of an atomic that represents a load, and leaves memory unchanged"""
OWN_SHARED = 1 << 18
"""flag in `aux` of an access (1 in `aux` of a `bulk.load`) that is declared to access the CTA's own shared memory"""
OF_CTA, OF_CLUSTER = 1 << 19, 1 << 20
"""flags in `aux` of an atomic whose scope excludes other CTAs, or other clusters"""
SCOPES = OF_CTA | OF_CLUSTER
PUBLISHED, PUBLISHED_IN_CTA = 1 << 21, 1 << 22
"""flags in `aux` of a store that releases its value to the tensormap proxy, of all CTAs or only of its own"""
FRESH = 1 << 24
"""flag in `aux` of a load that bypasses the L1 cache: `.cg`, `.cv` or volatile"""
OF_GPU = FRESH
"""flag in `aux` of an atomic of GPU scope, which excludes other GPUs"""
BY_TEXTURE = 1 << 23
"""flag in `aux` of a load or store that is part of an access to a texture or surface, whose sectors are not counted"""
PARTS_SHIFT = 25
"""position in `aux` of an atomic that is part of a strong access to a vector: log2 of the number of parts"""
LOWER_HALF, UPPER_HALF = PUBLISHED, PUBLISHED_IN_CTA
"""flags in `aux` of an atomic that is half of a strong access to a vector of 128 bits.  A load accesses its upper half
first, a store its lower half"""
HALVES_OF_VECTOR = LOWER_HALF | UPPER_HALF
USES_OLD = 1 << 27
"""flag in `aux` of an exchange whose result is used.  An exchange whose result is unused may be the first write to its
location"""
IN_SHARED, IN_LOCAL, IN_ARRAY, IN_CONSTANT = 1, 2, 4, 8
"""kinds of memory: shared, local, arrays of the launch, and arrays that are read-only"""
ANYWHERE = IN_SHARED | IN_LOCAL | IN_ARRAY | IN_CONSTANT
IN_PIECES = 16
"""additional flag for the kind of an array whose memory consists of allocations, so that each lane of an access is
checked"""
CLOSED = 32
"""additional flag for the kind of memory that has bytes to which stores are not allowed"""
FORBIDS_SHIFT = 28
"""position, in `aux` of an access, of the kinds of memory that it must not reach because its instruction names another
state space.  All kinds are set if its address is computed from numbers alone"""
UNWATCHED = cast("bool", 2)
"""value of a segment's writable flag for memory of the system: it may be written, and races in it are not checked"""
OF_CTA_ALONE = 1
"""`aux` of a `map.release` or `map.acquire` of CTA scope"""
CONVERGED = 1
"""`aux` of an `activemask` among lanes that run in lockstep, whose result is therefore fixed"""
FAILS, ABORTS, ASSERTS = 1, 2, 4
"""values in `aux` of a thread's exit.  FAILS: the thread raises an exception.  ABORTS: it fails a C++ assertion or
executes `trap`, which ends the launch on a GPU.  ASSERTS: it fails a Python assertion, which ends only the thread in
Numba's code"""
ERRORS = ABORTS | ASSERTS
"""flag in `aux` of an exit or trap that is an error by itself"""
RAISES = 8
"""number of bits of this `aux` that hold the position, from 1, of the host's exception in `Program.raises`"""
STOPS = 1
"""`aux` of a `show` for a debugger's stop: its immediate is an index into `Program.stops`"""
GRID_WAIT, GRID_TRIGGER = 2, 3
"""`aux` of a `show` for a `griddepcontrol`: it appears in traces, and has no other effect in its launch"""
C_FORMAT, C_ASSERTION = "\0", "\0assert"
"""start of a part of `Program.prints` that is a conversion of C's `printf`; first part of an assertion, which is
followed by file, function and condition"""
PRINTED = 6
"""number of low bits in the immediate of a `show` that hold the position of the value; the bits above them are the
number of its print"""
ALIGNED = 1
"""`aux` of the barrier operations that need a converged warp"""
CLUSTER_WIDE = 1
"""immediate of a `fence.cta` of cluster scope"""
SEQUENTIAL, BOTH_WAYS, RELEASES, ACQUIRES = range(4)
"""`aux` of a fence: `fence.sc`, like `membar`; `fence.acq_rel`; part of the strong write that follows it; part of the
strong read before it.  The latter two order no other accesses"""
READ, WRITE, ATOMIC = range(3)
"""kind of a memory access"""
RELAXED, NO_COMPLETE, DROP, EXPECT = 1, 2, 4, 8
"""flags in `aux` of `mbarrier.arrive`: it releases nothing; it must not complete the phase; it lowers the number of
arrivals that later phases expect; it first expects bytes"""
TRY, WAIT_RELAXED, BLOCKS, PEEK = 1, 2, 4, 8
"""flags in `aux` of `mbarrier.wait`: it is a `try_wait`; it acquires nothing; it blocks, because it is in a loop that
only repeats it; its result guards only a wait for the same phase, or nothing.  The assembler sets one of the last two
if it applies.  With neither, the result of the wait depends on the schedule"""
NARROW = 16
"""additional flag for both, for an operation that is declared with CTA scope"""
REMOTE = 32
"""flag in `aux` of `mbarrier.arrive`, `expect_tx` and `complete_tx` whose mbarrier may belong to another CTA"""
UNSCOPED = 64
"""flag in `aux` of an `mbarrier.arrive` with REMOTE whose scope is not written.  It releases to the cluster here, but
ptxas compiles it for CTA scope, without a wait for earlier accesses"""
CLUSTER_ALIGNED = 2
"""flag in `aux` of `cluster.arrive` and `cluster.wait`, besides RELAXED: all lanes of the warp execute it"""
NOINC = 1
"""`aux` of a `cp.async.arrive` that the phase's count includes already"""
ALL = 1
"""`aux` of a `cp.async.wait` that also waits for copies in no group"""
ONLY_READ = 1
"""`aux` of a `bulk.wait` that waits only until the sources are read"""
MOST_COUNT = (1 << 20) - 1
"""maximum arrivals that an mbarrier counts, and bytes that one operation on it names (PTX ISA, "mbarrier")"""
TOKEN_STEP = 0x9E3779B1
"""difference of the lower halves of the tokens of mbarriers next to each other; the multiples of 2^32 times the golden
ratio are far apart"""
INIT_STEP = 0x85EBCA6B
"""difference of the lower halves of tokens for one phase of an mbarrier before and after it is initialized again"""
TOKEN_SPAN = 1 << 15
"""phases after which a token no longer counts as one of its mbarrier"""

FIELDS = ("op", "guard", "d", "a", "b", "c", "imm", "aux")
SIZE = {"b8": 1, "b16": 2, "b32": 4, "b64": 8, "f16": 2, "f32": 4, "f64": 8}

Kind = Literal["alu", "load", "store", "atomic", "warp", "matrix", "barrier", "fence", "control", "async"]


class Operation(NamedTuple):
    """One row of the instruction set.

    `result` and `operands` are register types (`p` a predicate, `""` none).  Operands are in the fields a, b, c, imm of
    the instruction, in this order.
    """

    name: str
    kind: Kind
    result: str
    operands: tuple[str, ...]
    meaning: str
    group: str
    """class in the instruction mix of a report"""


OPERATIONS: dict[str, Operation] = {}


def _define(
    names: str,
    over: tuple[dict[str, str], ...],
    result: str,
    operands: str,
    meaning: str,
    kind: Kind = "alu",
    group: str = "",
) -> None:
    """Add every name of `names` to the table for every substitution of `over`.  `{op}` in `meaning` is the bare
    name."""
    for substitution in over:

        def fill_template(text: str, **more: str) -> str:
            return text.format(**substitution, **more) if "{" in text else text  # noqa: B023 - called at once

        types = fill_template(result), tuple(fill_template(operands).split())
        for name in names.split():
            full = fill_template(name)
            said = fill_template(meaning, op=name.split(".")[0])
            OPERATIONS[full] = Operation(full, kind, *types, said, fill_template(group))


_B = tuple({"b": f"b{n}", "n": str(n)} for n in (8, 16, 32, 64))
_I = tuple({"t": f"{s}{n}", "b": f"b{n}", "n": str(n), "s": s} for n in (8, 16, 32, 64) for s in "su")
_I_WIDE = tuple(i for i in _I if i["n"] in ("32", "64"))
_I_DOUBLE = tuple({**i, "w": f"b{2 * int(i['n'])}"} for i in _I if i["n"] != "64")
_F = ({"f": "f32"}, {"f": "f64"})
_INTEGER, _FLOAT, _CONVERT, _PREDICATE = "integer", "{f}", "convert", "predicate"

# -- integers: results wrap at the operation's width ------------------------------------------------------------------
_define("mov.{b}", _B, "{b}", "{b}", "a", group="move")
_define("varying.{b}", _B[2:], "{b}", "{b}", "a; on a GPU another value in each run, as of a clock", group="move")
_define("neg.{b} not.{b}", _B, "{b}", "{b}", "two's complement, one's complement of a", group=_INTEGER)
_define("add.{b} sub.{b} mul.{b}", _B, "{b}", "{b} {b}", "low {n} bits of a {op} b", group=_INTEGER)
_define("and.{b} or.{b} xor.{b}", _B, "{b}", "{b} {b}", "bitwise a {op} b", group=_INTEGER)
_define("mad.{b}", _B, "{b}", "{b} {b} {b}", "low {n} bits of a * b + c", group=_INTEGER)
_define("selp.{b}", _B, "{b}", "{b} {b} p", "a where c, else b", group="move")
_define("shl.{b}", _B, "{b}", "{b} {b}", "a << b; 0 when b >= {n}", group=_INTEGER)
_define("shr.{t}", _I, "{b}", "{b} {b}", "a >> b, filled with the sign (s) or 0 (u); b clamped to {n}", group=_INTEGER)
_define("abs.s{n}", _B, "{b}", "{b}", "|a|; the most negative value stays", group=_INTEGER)
_define("min.{t} max.{t}", _I, "{b}", "{b} {b}", "the smaller, the larger", group=_INTEGER)
_define("div.{t} rem.{t}", _I, "{b}", "{b} {b}", "toward zero; a / 0 and a % 0 are ~0, MIN / -1 = MIN", group=_INTEGER)
_define(
    "floordiv.{t} floormod.{t}",
    _I_WIDE,
    "{b}",
    "{b} {b}",
    "Python's // and %; 0 for a zero divisor and for MIN by -1, as Numba's code gives",
    group=_INTEGER,
)
_define("mulhi.{t}", _I, "{b}", "{b} {b}", "high {n} bits of the product", group=_INTEGER)
_define("mulwide.{t}", _I_DOUBLE, "{w}", "{b} {b}", "whole product", group=_INTEGER)
_define("madwide.{t}", _I_DOUBLE, "{w}", "{b} {b} {w}", "whole product + c", group=_INTEGER)
_define(
    "bfe.{t}",
    _I_WIDE,
    "{b}",
    "{b} b32 b32",
    "bit field of a from bit b, c bits long, extended by sign (s) or 0",
    group=_INTEGER,
)
for _b in ("b32", "b64"):
    _define(
        f"bfi.{_b}", ({},), _b, f"{_b} {_b} b32 b32", "b with the bits from c, imm long, replaced by a", group=_INTEGER
    )
    _define(
        f"popc.{_b} clz.{_b} ffs.{_b}",
        ({},),
        "b32",
        _b,
        "bits set; leading zeros; 1 + lowest set bit, 0 if none",
        group=_INTEGER,
    )
    _define(f"brev.{_b}", ({},), _b, _b, "bits in reverse order", group=_INTEGER)
_define(
    "prmt.b32", ({},), "b32", "b32 b32 b32",
    "byte k is byte (nibble k of c, low 3 bits) of the 8 bytes of a and b, or copies of its sign where the nibble's "
    "high bit is set",
    group=_INTEGER,
)  # fmt: skip
_define("setp.eq.{b} setp.ne.{b}", _B, "p", "{b} {b}", "compare bits", group=_PREDICATE)
_define("setp.lt.{t} setp.le.{t} setp.gt.{t} setp.ge.{t}", _I, "p", "{b} {b}", "compare integers", group=_PREDICATE)
for _to in (8, 16, 32, 64):
    for _from in (8, 16, 32, 64):
        for _s in "su":
            if _to > _from or (_to < _from and _s == "s"):
                _define(
                    f"cvt.b{_to}.{_s}{_from}",
                    ({},),
                    f"b{_to}",
                    f"b{_from}",
                    "extend by sign (s) or 0 (u), or cut off",
                    group=_CONVERT,
                )
_define(
    "index.{t}",
    _I_WIDE,
    "b64",
    "{b} b64 b64 b64",
    "address imm + a * c for index a of extent b and stride c bytes; flags ADDRESS_OUT and ADDRESS_WRAPPED",
    group="address",
)

# -- floating point: round to nearest even, subnormals kept ----------------------------------------------------------
_define("add.{f} sub.{f} mul.{f} div.{f}", _F, "{f}", "{f} {f}", "a {op} b, correctly rounded", group=_FLOAT)
_define("fma.{f}", _F, "{f}", "{f} {f} {f}", "a * b + c with one rounding", group=_FLOAT)
_define("neg.{f} abs.{f}", _F, "{f}", "{f}", "sign flipped, cleared", group=_FLOAT)
_define("sqrt.{f} rcp.{f}", _F, "{f}", "{f}", "square root, 1 / a, correctly rounded", group="special")
DIRECTIONS = {"rz": "toward zero", "rm": "down", "rp": "up"}
for _r, _text in DIRECTIONS.items():
    _define(f"fma.{_r}.{{f}}", _F, "{f}", "{f} {f} {f}", f"a * b + c with one rounding, {_text}", group=_FLOAT)
    _define(f"div.{_r}.{{f}}", _F, "{f}", "{f} {f}", f"a / b, rounded {_text}", group=_FLOAT)
    _define(f"sqrt.{_r}.{{f}}", _F, "{f}", "{f}", f"square root, rounded {_text}", group="special")
_define("ftz.f32", ({},), "f32", "f32", "a; zero of its sign where a is subnormal", group="f32")
_define(
    "min.{f} max.{f}", _F, "{f}", "{f} {f}", "the number, where one operand is not a number; -0 below +0", group=_FLOAT
)
_define("copysign.{f}", _F, "{f}", "{f} {f}", "|a| with the sign of b", group=_FLOAT)
_define("floordiv.{f} floormod.{f}", _F, "{f}", "{f} {f}", "Python's // and % for floats", group="special")
_define("selp.{f}", _F, "{f}", "{f} {f} p", "a where c, else b", group="move")
_define(
    "setp.eq.{f} setp.ne.{f} setp.lt.{f} setp.le.{f} setp.gt.{f} setp.ge.{f}",
    _F, "p", "{f} {f}", "compare; false with a nan", group=_PREDICATE,
)  # fmt: skip
_define(
    "setp.equ.{f} setp.neu.{f} setp.ltu.{f} setp.leu.{f} setp.gtu.{f} setp.geu.{f}",
    _F, "p", "{f} {f}", "compare; true with a nan", group=_PREDICATE,
)  # fmt: skip
UNARY_FUNCTIONS = (
    "sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh exp exp2 expm1 log log2 log10 log1p "
    "erf erfc lgamma tgamma cbrt rsqrt"
).split()
BINARY_FUNCTIONS = "pow atan2 hypot fmod".split()
for _name in UNARY_FUNCTIONS:
    _define(f"{_name}.{{f}}", _F, "{f}", "{f}", "{op}(a), evaluated in double, then rounded to {f}", group="special")
for _name in BINARY_FUNCTIONS:
    _define(
        f"{_name}.{{f}}", _F, "{f}", "{f} {f}", "{op}(a, b), evaluated in double, then rounded to {f}", group="special"
    )
ROUNDINGS = {"rni": "nearest even", "rzi": "toward zero", "rmi": "down", "rpi": "up"}
for _r, _text in ROUNDINGS.items():
    _define(f"cvt.{_r}.{{f}}.{{f}}", _F, "{f}", "{f}", f"to an integral value, {_text}", group=_CONVERT)
_nan = "a nan gives 0, the sign bit alone if either type has 64 bits"
for _r in ("rni", "rzi"):  # the others first round to an integral value
    for _i in _I:
        _name = f"cvt.{_r}.{_i['t']}.{{f}}"
        _define(_name, _F, _i["b"], "{f}", f"to an integer, {ROUNDINGS[_r]}; saturates; {_nan}", group=_CONVERT)
for _i in _I:
    _define(f"cvt.rn.{{f}}.{_i['t']}", _F, "{f}", _i["b"], "integer to float, nearest even", group=_CONVERT)
for _to_f, _from_f in (("f32", "f16"), ("f64", "f16"), ("f16", "f32"), ("f16", "f64"), ("f64", "f32"), ("f32", "f64")):
    _define(f"cvt.{_to_f}.{_from_f}", ({},), _to_f, _from_f, "float to float, nearest even", group=_CONVERT)

# -- predicates ------------------------------------------------------------------------------------------------------
_define("mov.pred not.pred", ({},), "p", "p", "a; not a", group=_PREDICATE)
_define("and.pred or.pred xor.pred andn.pred", ({},), "p", "p p", "a {op} b (andn: a and not b)", group=_PREDICATE)
_define("selp.pred", ({},), "p", "p p p", "a where c, else b", group=_PREDICATE)
N_ALU = len(OPERATIONS)

# -- memory: address in a, constant byte offset in imm; vector elements in consecutive rows from d ---------------------
VECTORS = tuple((bits, n) for bits in (8, 16, 32, 64) for n in (1, 2, 4) if bits * n <= 128)
# the aux of a load: NON_COHERENT, FRESH, and a bit for each of its bytes, bit 0 for the first, that is not used and may
# be uninitialized
for _bits, _n in VECTORS:
    _v = "" if _n == 1 else f".v{_n}"
    _define(f"ld{_v}.b{_bits}", ({},), f"b{_bits}", "b64", f"{_n} x {_bits} bits from address a + imm", "load", "load")
for _bits, _n in VECTORS:
    _v = "" if _n == 1 else f".v{_n}"
    _define(f"st{_v}.b{_bits}", ({},), "", "b64", f"{_n} x {_bits} bits of d to address a + imm", "store", "store")
N_MEMORY = len(OPERATIONS)

# -- atomics: d is the old value, a the address, b the operand, c the new value of cas; aux: how it is served, NO_STORE
ATOMICS: dict[str, tuple[str, str]] = {}
"""(operation, type) of each name"""
for _bits in (32, 64):
    for _what in ("add", "and", "or", "xor", "exch", "cas"):
        ATOMICS[f"atom.{_what}.b{_bits}"] = (_what, f"b{_bits}")
    for _s in "su":
        for _what in ("min", "max"):
            ATOMICS[f"atom.{_what}.{_s}{_bits}"] = (f"{_what}.{_s}", f"b{_bits}")
    for _what in ("inc", "dec"):
        ATOMICS[f"atom.{_what}.u{_bits}"] = (_what, f"b{_bits}")
    for _what in ("add", "min", "max", "nanmin", "nanmax"):
        ATOMICS[f"atom.{_what}.f{_bits}"] = (f"{_what}.f", f"f{_bits}")
HALVES: dict[str, str] = {}
"""element type of atomics on f16 and bf16, and on pairs of them in 32 bits"""
for _half in ("f16", "bf16"):
    for _what in ("add", "min", "max"):
        for _pair in ("", "x2"):
            HALVES[f"atom.{_what}.{_half}{_pair}"] = _half
            ATOMICS[f"atom.{_what}.{_half}{_pair}"] = (f"{_what}.f", "b32" if _pair else "b16")
NARROW_ATOMICS = ("or.b8", "exch.b8", "or.b16", "exch.b16", "cas.b16")
"""strong accesses of PTX to 8 and 16 bits; among PTX's own atomics, only `cas` has 16 bits"""
for _narrow in NARROW_ATOMICS:
    ATOMICS[f"atom.{_narrow}"] = (_narrow.partition(".")[0], _narrow.partition(".")[2])
FLUSHING_ADD = "atom.add.ftz.f32"
"""f32 addition in global memory: it flushes subnormal numbers to zero of their sign, and its nan is 0x7fffffff"""
ATOMICS[FLUSHING_ADD] = ("add.f", "f32")
UNCOUNTED, SERIAL, SWAP, LOOP, AS_LOAD, AS_STORE = range(6)
"""methods by which the hardware serves an access to shared memory, which decide its cost (see
`memory_cost.wavefronts`).  They are stored in the aux of an atomic.  AS_LOAD and AS_STORE are PTX's strong loads and
stores; AS_LOAD is also an increment without a result"""
SERVED = 0xFF
"""bits of an atomic's aux that hold this value; NO_STORE is another bit"""
_NATIVE = "add and or xor exch min.s min.u max.s max.u inc dec".split()


def _service(what: str, type_: str) -> int:
    """Return how the hardware serves an atomic, as far as this does not depend on values."""
    if type_ in ("b8", "b16"):
        return UNCOUNTED
    if what == "cas":
        return SWAP
    if what == "exch" or (type_ == "b32" and what in _NATIVE):
        return SERIAL
    return LOOP if what in ("add", "add.f") else UNCOUNTED


SERVICE = {name: UNCOUNTED if name in HALVES else _service(*of) for name, of in ATOMICS.items()}
for _name, (_what, _type) in ATOMICS.items():
    _define(
        _name, ({},), _type, f"b64 {_type}" + (f" {_type}" if _what == "cas" else ""),
        "read, combine with b, write back; lanes in order; inc/dec wrap at b; a nan on either side of a float min/max "
        "leaves memory alone; nanmin/nanmax replace a nan in memory",
        "atomic", "atomic",
    )  # fmt: skip
N_ATOMIC = len(OPERATIONS)

# -- operations of a whole warp: c is the member mask (b32) -----------------------------------------------------------
for _b in ("b32", "b64"):
    for _mode in ("idx", "up", "down", "bfly"):
        _define(
            f"shfl.{_mode}.{_b}", ({},), _b, f"{_b} b32 b32",
            "a of the lane that b selects; imm = segment mask << 8 | clamp; aux: slot of the in-range predicate or 0",
            "warp", "warp",
        )  # fmt: skip
    _define(
        f"match.any.{_b}", ({},), "b32", f"{_b} b32 b32", "mask of the lanes with the same a (b unused)", "warp", "warp"
    )
    _define(
        f"match.all.{_b}",
        ({},),
        "b32",
        f"{_b} b32 b32",
        "member mask if all a are equal, else 0; aux: predicate slot or 0",
        "warp",
        "warp",
    )
_define(
    "vote.all vote.any vote.uni",
    ({},),
    "p",
    "p b32 b32",
    "over the predicates of the member lanes (b unused)",
    "warp",
    "warp",
)
_define("vote.ballot", ({},), "b32", "p b32 b32", "mask of the member lanes whose a is true (b unused)", "warp", "warp")
for _t in ("add.b32", "and.b32", "or.b32", "xor.b32", "min.s32", "max.s32", "min.u32", "max.u32"):
    _define(f"redux.{_t}", ({},), "b32", "b32 b32 b32", "a of all member lanes combined (b unused)", "warp", "warp")
_define("activemask", ({},), "b32", "", "mask of the lanes that execute this; aux: 0, CONVERGED", "warp", "warp")
_define("syncwarp", ({},), "", "b32 b32 b32", "orders memory among the member lanes c (a, b unused)", "warp", "warp")
_define(
    "elect.sync", ({},), "b32", "b32 b32 b32", "the lowest lane that executes it (a, b unused)", "warp", "warp",
)  # fmt: skip
_define(
    "alike.b64", ({},), "p", "b64 b32 b32", "whether all lanes that execute it have the same a (b, c unused)",
    "warp", "warp",
)  # fmt: skip
LOOSE = frozenset(("activemask", "alike.b64"))
"""operations of any lanes that execute them: they do not wait for other lanes, and order nothing"""

# -- matrices, of a whole warp: c is the member mask, all lanes; every other operand a vector of consecutive rows from
# -- the one that stands there (`matrix.vector_counts`); an accumulator stands in imm
FIRST_MATRIX = len(OPERATIONS)
for _name, _mma in MMA.items():
    _r = _mma.register
    _define(_name, ({},), _r, f"{_r} {_r} b32 {_r}", "a b + accumulator; aux: SATURATES", "matrix", "matrix")
for _name in MOVES:
    _define(_name, ({},), "b32", "b32 b32 b32", "elements a to other lanes (b unused)", "matrix", "matrix")
N_WARP = len(OPERATIONS)

# -- barriers: a = id (b32), b = count in threads (b32; offset 0: the whole CTA), aux = 1 for the aligned forms -------
_define(
    "bar.sync bar.arrive", ({},), "", "b32 b32", "named barrier: wait, or give without waiting", "barrier", "barrier"
)
_define("bar.red.popc", ({},), "b32", "b32 b32 p", "bar.sync; d = how many threads have c", "barrier", "barrier")
_define("bar.red.and bar.red.or", ({},), "p", "b32 b32 p", "bar.sync; d = all / any of c", "barrier", "barrier")

# -- the rest: control and fences -------------------------------------------------------------------------------------
_define(
    "fence.cta fence.gpu fence.sys", ({},), "", "",
    "memory fence of that scope; aux: SEQUENTIAL, BOTH_WAYS, RELEASES, ACQUIRES",
    "fence", "fence",
)  # fmt: skip
_define("nanosleep", ({},), "", "", "no effect here", "fence", "fence")
_define(
    "show", ({},), "", "b64", "a traced run has the bits of a as addresses; imm: of Program.prints", "fence", "print"
)
_define("forget", ({},), "", "b64 b64", "b bytes of local memory at address a become uninitialized", "fence", "memory")
_define("fence.mbarrier_init", ({},), "", "", "of an mbarrier's init for other CTAs; no effect here", "fence", "fence")
PROXIES = (
    *("alias", "async", "async.global", "async.shared::cta", "async.shared::cluster"),
    *(
        f"tensormap::generic.{order}.{scope}"
        for order in ("acquire", "release")
        for scope in ("cta", "cluster", "gpu", "sys")
    ),
    "async::generic.acquire.sync_restrict::shared::cluster.cluster",
    "async::generic.release.sync_restrict::shared::cta.cluster",
)
"""kinds of a fence between the generic proxy and other proxies, as PTX names them (PTX ISA, "membar, fence")"""
_define(
    "fence.proxy", ({},), "", "", "fence of kind PROXIES[imm] between the generic proxy and another", "fence", "fence"
)
# Diverged lanes: a stack of (join, resume, mask) per warp.  Where the guard holds for some lanes only, `bra` pushes
# (c, c + 1, mask) unless the top entry already belongs to join c (never for c = -1), then runs the lanes that fall
# through FIRST and pushes (c, imm, lanes that jump).  A side whose first instruction is the join c itself is not pushed
# or run: it waits there.  `join` at pc takes over resume and mask of the top entry if that belongs to this pc, else
# does nothing.  `exit` ends its lanes and takes entries off the stack until one has live lanes.
_define(
    "bra",
    ({},),
    "",
    "",
    "guard: to imm, else on; lanes that part meet at join c (-1: at exit); fall-through first",
    "control",
    "branch",
)
_define("jump", ({},), "", "", "to imm", "control", "branch")
_define("join", ({},), "", "", "lanes that parted at a branch meet here", "control", "branch")
_define("exit", ({},), "", "", "the thread ends; aux: 0, FAILS, ABORTS or ASSERTS", "control", "branch")
_define(
    "trap", ({},), "", "", "stop: Program.traps[imm] says why; aux: ABORTS, if it is a `trap` of the kernel", "control",
    "branch",
)  # fmt: skip

# -- asynchronous: mbarriers (address in a, constant byte offset in imm), copies, groups of them ----------------------
N_CONTROL = len(OPERATIONS)
for _name, _result, _operands, _meaning in (
    ("mbarrier.init", "", "b64 b32", "an mbarrier at address a, of b arrivals a phase"),
    ("mbarrier.inval", "", "b64", "the mbarrier at address a ends"),
    ("mbarrier.arrive", "b64", "b64 b32 b32", ("b arrivals, after c bytes more with EXPECT; d the token; aux: RELAXED, "
     "NO_COMPLETE, DROP, EXPECT, UNSCOPED")),
    ("mbarrier.expect_tx", "", "b64 b32", "the phase waits for b bytes more"),
    ("mbarrier.complete_tx", "", "b64 b32", "b of these bytes have come"),
    ("mbarrier.wait", "p", "b64 b64", ("whether the phase of token b has completed; aux: TRY, WAIT_RELAXED, BLOCKS, "
     "PEEK")),
    ("mbarrier.wait.parity", "p", "b64 b32", "the same of the phase whose number has the lowest bit of b"),
    ("mbarrier.pending_count", "b32", "b64", "the arrivals that token a says were still missing"),
    ("mbarrier.phase", "b64", "b64 b32", ("which phase of which mbarrier a wait.parity of a and b waits for; 0: of "
     "none")),
    ("cp.async.b32", "", "b64 b64 b32", "copy c bytes from b to shared a + imm, fill up to 4 with zeros"),
    ("cp.async.b64", "", "b64 b64 b32", "the same up to 8"),
    ("cp.async.b128", "", "b64 b64 b32", "the same up to 16"),
    ("cp.async.commit", "", "", "a group of the thread's copies since the last one"),
    ("cp.async.wait", "", "", "until at most imm groups are under way; aux: ALL"),
    ("cp.async.arrive", "", "b64", "the mbarrier's arrival when the thread's copies so far have come; aux: NOINC"),
    ("bulk.load", "", "b64 b64 b32 b64", ("copy c bytes from global b to shared a; the mbarrier at address imm (a "
     "register) is credited with them")),
    ("bulk.store", "", "b64 b64 b32 b32", "copy c bytes from shared b to global a; register imm: which of 16 bytes"),
    ("bulk.reduce", "", "b64 b64 b32", "combine c bytes of shared b with global a; aux: of BULK_REDUCTIONS"),
    ("bulk.commit", "", "", "a group of the thread's bulk stores and reductions since the last one"),
    ("bulk.wait", "", "", "until at most imm groups are under way; aux: ONLY_READ"),
    ("bulk.prefetch", "", "b64 b32", "b bytes from global a; no effect here"),
    ("bulk.zero", "", "b64 b32", "b zero bytes at shared a, as a plain store (st.bulk)"),
    ("tensor.load", "", "b64 b64 b64", ("copy the tile of the tensor map at b to shared a; the mbarrier at c is "
     "credited with it; rows from d: its coordinates, b32, the innermost first; aux: how many")),
    ("tensor.store", "", "b64 b64", "copy the tile at shared a to where the tensor map at b has it; d, aux as above"),
    ("tensor.reduce", "", "b64 b64", ("combine the tile at shared a with that of the tensor map at b; aux: also what, "
     "of TENSOR_REDUCTIONS, << 3")),
    ("tensor.prefetch", "", "b64 b64", "the tile of the tensor map at b (a unused); no effect here"),
    ("map.release", "", "", "changes of tensor maps that the thread knows of may be acquired; aux: OF_CTA_ALONE"),
    ("map.acquire", "", "b64", ("of the tensor map at a the tensormap proxy sees what was released and the thread "
     "knows of; aux as above")),
    ("setmaxnreg.inc", "", "", "the warp asks for imm registers a thread, and waits for them"),
    ("setmaxnreg.dec", "", "", "the warp gives back all but imm registers a thread"),
    ("cluster.arrive", "", "", "arrive at the cluster's barrier; aux: RELAXED, CLUSTER_ALIGNED"),
    ("cluster.wait", "", "", "until all live threads of the cluster have arrived there; aux: CLUSTER_ALIGNED"),
    ("grid.arrive", "b32", "", "the CTA arrives at the grid's barrier; d: bit 31 is the parity of its open phase"),
    ("grid.wait", "b32", "", "until all CTAs of the grid have arrived there; d: bit 31 is that of the next phase"),
    ("bulk.send", "", "b64 b64 b32 b64", ("copy c bytes from shared b of the CTA to shared a of one of its cluster; "
     "the mbarrier at imm, in that one, is credited")),
    ("bulk.send_reduce", "", "b64 b64 b32 b64", "as bulk.send, combining with what is there; aux: of BULK_REDUCTIONS"),
    ("bulk.multicast", "", "b64 b64 b32 b64", ("as bulk.load, to the same place in each CTA of the cluster whose rank "
     "has a bit in d")),
    ("tensor.multicast", "", "b64 b64 b64", "as tensor.load, to each CTA whose rank has a bit in the row behind those"),
    ("async.store.b32", "", "b64 b64", ("store d to shared a of a CTA of the cluster, by an agent; the mbarrier at b, "
     "in that one, is credited with its bytes (st.async)")),
    ("async.store.b64", "", "b64 b64", "the same of 8 bytes"),
    ("async.reduce.b32", "", "b64 b64", "the same, combining d with what is there; aux: of BULK_REDUCTIONS"),
    ("async.reduce.b64", "", "b64 b64", "the same of 8 bytes"),
    ("cluster.request", "b32", "", ("cancel the launch of a cluster: its number, or that of clusters if there is none "
     "(clusterlaunchcontrol.try_cancel)")),
    ("cluster.check", "", "b32", "the response whose third word is a names a canceled cluster"),
    ("tcgen05.alloc", "", "b64 b32", "b columns of tensor memory; their address goes to shared a"),
    ("tcgen05.dealloc", "", "b32 b32", "b columns of tensor memory at address a are free"),
    ("tcgen05.relinquish", "", "", "the CTA allocates no more tensor memory"),
    ("tcgen05.ld", "b32", "b32", "registers from tensor memory a; aux: of `tensor_memory`"),
    ("tcgen05.st", "", "b32 b32", "registers from b on to tensor memory a; aux: as of tcgen05.ld"),
    ("tcgen05.wait", "", "", "until the warp's loads from tensor memory are over; aux OF_STORES: its stores"),
    ("tcgen05.fence", "", "", "orders tcgen05 operations and synchronization: before it; aux OF_STORES: after it"),
    ("tcgen05.cp", "", "b32 b64", "shared memory by descriptor b to tensor memory a; aux: of `tensor_memory`"),
    ("tcgen05.mma", "", "b64 b64 b32 p", ("product of a and b by instruction descriptor c, added where imm is true; "
     "rows from d: address of D, of scale factors of a and b, of metadata, masks; aux: of `tensor_memory`")),
    ("tcgen05.commit", "", "b64 b32", ("an arrival on the mbarrier at shared a when the thread's operations so far "
     "are over; aux: MULTICAST to the CTAs of mask b, PAIR")),
):  # fmt: skip
    _define(_name, ({},), _result, _operands, _meaning, "async", "asynchronous")

FIRST_GROUP_OPERATION = len(OPERATIONS)
UNFENCED = 16
"""aux of a wgmma.check"""
FORGETS = 1
"""aux of a wgmma.touch"""
for _name, _meaning in (
    ("wgmma.fence", "registers before this may be used by a wgmma after it"),
    ("wgmma.commit", "a group of the warp's wgmma since the last one"),
    ("wgmma.wait", "until at most imm groups are under way"),
    ("wgmma.track", "bits of imm: the wgmma before this is under way"),
    ("wgmma.touch", "bits of imm: registers of these wgmma are touched; aux FORGETS: or are not, any more"),
    (
        "wgmma.check",
        (
            "bits of imm: none of these wgmma may be under way, with aux groups committed since; aux "
            "UNFENCED: no register of these may have been touched since the last fence"
        ),
    ),
):
    _define(_name, ({},), "", "", _meaning, "async", "matrix")
FIRST_WGMMA = len(OPERATIONS)
for _name, _wgmma in WGMMA.items():
    _define(
        _name, ({},), "b32", f"{'b64' if _wgmma.shared else 'b32'} b64 b32 p",
        "a warp's rows of a b + accumulator c, or without it where imm is false; b, and a, by a descriptor; aux: "
        "COLUMNS and others of `matrix`",
        "async", "matrix",
    )  # fmt: skip


WAITS = ("mbarrier.wait", "mbarrier.wait.parity")
"""operations that wait for a phase of an mbarrier"""
ASKED_PHASE = "mbarrier.phase"
"""identifies the phase of a wait; only the assembler adds it (`assemble/kept_tests.py`)"""
REQUEST_CLUSTER, CHECK_RESPONSE = "cluster.request", "cluster.check"
"""operations for requests of clusters (`clusterlaunchcontrol`)"""
MULTICASTS = ("bulk.multicast", "tensor.multicast")
TENSOR_RANK = 7
"""bits of the aux of a tensor copy with the number of rows of registers that hold its coordinates"""
TILE_MODE_SHIFT = 8
TILE_MODES = 7
ROWS_MODE, PIXELS_MODE, LINE_MODE, LONG_LINE_MODE = 1, 2, 3, 4
"""higher bits of this aux.  ROWS_MODE: the copy moves four rows of a matrix, each given by its number (gather4,
scatter4).  PIXELS_MODE: it moves pixels (im2col), whose offsets are in a row of registers after the coordinates, with
`OFFSET_BITS` bits each by rank.  LINE_MODE: it moves pixels along dimension 1 only (im2col::w), LONG_LINE_MODE: 128 of
them (im2col::w::128); a row of registers after the coordinates has the halo, and the offset << 16. 0: a tile"""
LONG_LINE_PIXELS = 128
"""pixels of a copy in LONG_LINE_MODE, without its halo"""
LINE_HALOS, LINE_OFFSETS = 512, 32
"""number of valid halos in LINE_MODE, and of valid offsets"""
OFFSET_BITS = (0, 0, 0, 16, 16, 10)
NAMED_ROWS = 4
PAIR_TILE = 64
"""flag for a load whose mbarrier may be in the peer CTA of the tile's CTA (`cta_group::2`)"""
OWN_TILE = 128
"""flag for a load that is declared to have its tile and its mbarrier in the CTA's own shared memory"""
TENSOR_REDUCTIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")
"""PTX ISA, "cp.reduce.async.bulk.tensor" """
_TENSOR_OPERANDS = {f"tensor.{name}": 3 if name == "load" else 2 for name in ("load", "store", "reduce", "prefetch")}
_LEADING_OPERANDS = _TENSOR_OPERANDS | {
    "tensor.multicast": 3,
    "bulk.multicast": 4,
    "tcgen05.mma": 4,
    **{f"async.{name}.b{bits}": 2 for name in ("store", "reduce") for bits in (32, 64)},
}


def first_element(name: str) -> int:
    """Return the position, among the operands of a graph's instruction, of the first operand that needs consecutive
    rows.  Return -1 if there is none, or if these operands are results."""
    return 1 if ".v" in name else _LEADING_OPERANDS.get(name, -1)


def step_word(name: str) -> str:
    """Return the name of an operation in the steps of a schedule: `arrive`, `sync`, `load`, `exit`.  For an
    asynchronous operation, this is its name without the type, such as `mbarrier.wait`."""
    kind = OPERATIONS[name].kind
    if kind == "barrier":
        return "arrive" if name == "bar.arrive" else "sync"
    if kind == "async":
        if name.startswith(("wgmma.r", "wgmma.s")):
            return "wgmma"
        return name.removesuffix(".parity").partition(".b")[0]
    return name if name in ("exit", "trap") else kind


CP_ASYNC = {"cp.async.b32": 4, "cp.async.b64": 8, "cp.async.b128": 16}
"""bytes per lane of each operation"""
BULK_REDUCTIONS = (
    *((what, type_) for what in ("add", "min", "max") for type_ in ("u32", "s32", "u64", "s64")),
    *((what, type_) for what in ("and", "or", "xor") for type_ in ("b32", "b64")),
    *((what, "u32") for what in ("inc", "dec")),
    *(("add", type_) for type_ in ("f16", "bf16", "f32", "f64")),
    *((what, type_) for what in ("min", "max") for type_ in ("f16", "bf16")),
)
"""(what, type of an element), from PTX ISA, "cp.reduce.async.bulk"; the add of s64 is that of u64"""

OPCODE = {name: i for i, name in enumerate(OPERATIONS)}
NAMES = list(OPERATIONS)
FORGET = OPCODE["forget"]
"""operation at the end of variables in local memory, whose next contents are undefined"""
SHOW = OPCODE["show"]
"""operation that prints, or STOPS, or is a `griddepcontrol`"""
N_OPERATIONS = len(OPERATIONS)
"""number of operations in this table; operations that `enter` adds follow them"""
FIRST_STORE = min(number for name, number in OPCODE.items() if name.startswith("st."))
"""number of the first store: loads have lower numbers, stores the numbers up to N_MEMORY"""


def opcodes(family: str, *names: str) -> list[int]:
    """Return the numbers of operations of one family: `family`, a dot, and one of `names`."""
    return [OPCODE[f"{family}.{name}"] for name in names]


def enter(name: str, result: str, operands: str, meaning: str) -> None:
    """Add an operation of kind `async` from a plug-in after all others.  The plug-in must give each engine its
    implementation."""
    if name in OPERATIONS:
        raise ValueError(f"operation {name!r} is entered twice")
    OPCODE[name] = len(NAMES)
    NAMES.append(name)
    _define(name, ({},), result, operands, meaning, "async", "asynchronous")


def leave(name: str) -> None:
    """Remove the operation that was added last."""
    if name != NAMES[-1] or len(NAMES) == N_OPERATIONS:
        raise ValueError(f"operation {name!r} was not entered last")
    del NAMES[-1], OPCODE[name], OPERATIONS[name]


def is_cluster_fence(row: Sequence[int]) -> bool:
    """Return whether an instruction, given by its `row` of fields, is a fence of cluster scope."""
    return row[6] == CLUSTER_WIDE and NAMES[row[0]] == "fence.cta"


def access_numbers(opcodes: Iterable[int]) -> list[int]:
    """Return, for each instruction, the number of loads, stores and atomics up to and including it.  For an access this
    is its own number, from 1."""
    kinds = (OPERATIONS[NAMES[op]].kind if op < N_OPERATIONS else "" for op in opcodes)
    return list(itertools.accumulate(int(kind in ("load", "store", "atomic")) for kind in kinds))


def memory_shape(name: str) -> tuple[bool, int, int]:
    """Return (whether it is a store, bytes of an element, elements of a vector)."""
    parts = name.split(".")
    n = int(parts[1][1:]) if parts[1].startswith("v") else 1
    return parts[0] == "st", int(parts[-1][1:]) // 8, n


def access_shape(name: str) -> tuple[bool, int]:
    """Return (whether it writes, bytes per lane) of a load, store or atomic."""
    if name in ATOMICS:
        return True, SIZE[ATOMICS[name][1]]
    store, size, n = memory_shape(name)
    return store, size * n
