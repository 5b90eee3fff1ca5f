"""Semantics of each arithmetic operation: an LLVM body for 32 lanes at once, and the intrinsics that run the bodies.

`BODIES` maps every ALU operation of `isa.OPERATIONS` to a function `(builder, *operands) -> value`. It works on a
vector of 32 lanes, or on one lane if the operation has no vector form (division, library functions). `alu` is the
switch over the operations of the core, and `family` the one over those of another family. Nothing here refers to warps
or programs.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from wsemu.machine.arithmetic.codegen import (
    ELEMENT,
    I32,
    I64,
    RELATIONS,
    Body,
    Builder,
    Value,
    _method,
    lane_loop,
    like,
    llvm,
    load_row,
    nothing,
    pointer,
    resize,
    same,
    store_row,
    switch,
)
from wsemu.machine.arithmetic.conversion import FLOAT_CONVERSIONS, INTRINSIC_ROUNDING, float_to_int
from wsemu.machine.arithmetic.directed_rounding import round_directed
from wsemu.machine.arithmetic.families import CORE, members
from wsemu.machine.arithmetic.floating import (
    _python_divmod,
    canonical,
    flush_subnormal,
    fused_multiply_add,
    library,
    number_min_max,
    square_root,
    unary_intrinsic,
)
from wsemu.machine.arithmetic.integer import (
    count_bits,
    divide,
    extract_field,
    floor_divide,
    high_product,
    index_address,
    insert_field,
    min_max,
    permute_bytes,
    shift_left,
    shift_right,
    wide_product,
)
from wsemu.machine.lowering import Emitted, emitted
from wsemu.machine.records import call
from wsemu.model import isa
from wsemu.model.isa import BINARY_FUNCTIONS, DIRECTIONS, OPERATIONS, SIZE, UNARY_FUNCTIONS

BODIES: dict[str, Body] = dict(FLOAT_CONVERSIONS)
PER_LANE: set[str] = set()


def _integer_bodies() -> None:
    for n in (8, 16, 32, 64):
        t = f"b{n}"
        for name, method in (
            ("mov", ""),
            ("neg", "neg"),
            ("not", "not_"),
            ("add", "add"),
            ("sub", "sub"),
            ("mul", "mul"),
            ("and", "and_"),
            ("or", "or_"),
            ("xor", "xor"),
        ):
            BODIES[f"{name}.{t}"] = _method(method) if method else lambda b, x: x
        BODIES[f"mad.{t}"] = lambda b, x, y, z: b.add(b.mul(x, y), z)
        BODIES[f"selp.{t}"] = lambda b, x, y, p: b.select(p, x, y)
        BODIES[f"shl.{t}"] = shift_left
        BODIES[f"abs.s{n}"] = lambda b, x: b.select(b.icmp_signed("<", x, same(x, 0)), b.neg(x), x)
        for relation in ("eq", "ne"):
            BODIES[f"setp.{relation}.{t}"] = lambda b, x, y, r=RELATIONS[relation]: b.icmp_signed(r, x, y)
        for s in "su":
            _signed_bodies(s, n)
        if n >= 32:
            BODIES[f"varying.{t}"] = lambda b, x: x
            for name in ("popc", "clz", "ffs", "brev"):
                BODIES[f"{name}.{t}"] = count_bits(name)
            BODIES[f"bfi.{t}"] = insert_field


def _signed_bodies(s: str, n: int) -> None:
    t, signed = f"{s}{n}", s == "s"
    BODIES[f"shr.{t}"] = shift_right(signed)
    BODIES[f"min.{t}"], BODIES[f"max.{t}"] = min_max("<", signed), min_max(">", signed)
    for name in ("div", "rem"):
        BODIES[f"{name}.{t}"] = divide(name, signed)
        PER_LANE.add(f"{name}.{t}")
    BODIES[f"mulhi.{t}"] = high_product(signed)
    if n == 64:
        PER_LANE.add(f"mulhi.{t}")
    else:
        BODIES[f"mulwide.{t}"] = wide_product(signed)
        BODIES[f"madwide.{t}"] = lambda b, x, y, z, product=BODIES[f"mulwide.{t}"]: b.add(product(b, x, y), z)
    if n >= 32:
        for what in ("div", "mod"):
            BODIES[f"floor{what}.{t}"] = floor_divide(what, signed)
            PER_LANE.add(f"floor{what}.{t}")
        BODIES[f"bfe.{t}"] = extract_field(signed)
        BODIES[f"index.{t}"] = index_address(signed)
    for relation in ("lt", "le", "gt", "ge"):
        BODIES[f"setp.{relation}.{t}"] = lambda b, x, y, r=RELATIONS[relation], signed=signed: (
            b.icmp_signed if signed else b.icmp_unsigned
        )(r, x, y)
    for m in (8, 16, 32, 64):
        if m > n or (m < n and signed):
            BODIES[f"cvt.b{m}.{t}"] = lambda b, x, m=m, signed=signed: resize(b, x, ir.IntType(m), signed)
    for f in ("f32", "f64"):
        BODIES[f"cvt.rn.{f}.{t}"] = lambda b, x, f=f, signed=signed: (b.sitofp if signed else b.uitofp)(
            x, like(x.type, ELEMENT[f])
        )
        for r in ("rni", "rzi"):
            rounding = "" if r == "rzi" else INTRINSIC_ROUNDING[r]
            BODIES[f"cvt.{r}.{t}.{f}"] = float_to_int(rounding, ir.IntType(n), signed)


_NANS = {
    **dict.fromkeys(("add", "sub", "mul", "min", "max"), (1, 0)),
    "fma": (1, 2, 0),
    "div": (0, 1),
    "sqrt": (0,),
    "rsqrt": (0,),
}
"""operation -> order of its operands: the f64 nan of the first one that is a nan is the result (measured on an H200)"""


def _float_bodies(f: str) -> None:
    for name in ("add", "sub", "mul", "div"):
        BODIES[f"{name}.{f}"] = canonical(_method(f"f{name}"), _NANS[name])
    for what, intrinsic_name in (("fma", "fma"), ("div", "fdiv"), ("sqrt", "sqrt")):
        for direction in DIRECTIONS:
            BODIES[f"{what}.{direction}.{f}"] = canonical(round_directed(intrinsic_name, direction), _NANS[what])
    BODIES[f"fma.{f}"] = canonical(fused_multiply_add, _NANS["fma"])
    BODIES[f"neg.{f}"] = canonical(lambda b, x: b.fneg(x), (0,))
    BODIES[f"abs.{f}"] = canonical(unary_intrinsic("llvm.fabs"), (0,))
    BODIES[f"sqrt.{f}"] = square_root
    BODIES[f"rcp.{f}"] = canonical(lambda b, x: b.fdiv(same(x, 1.0), x), (0,))
    for what, sign in (("min", "<"), ("max", ">")):
        BODIES[f"{what}.{f}"] = canonical(number_min_max(sign), _NANS[what])
    BODIES[f"copysign.{f}"] = lambda b, x, y: llvm(b, "llvm.copysign", x.type, x, y)
    BODIES[f"floordiv.{f}"] = canonical(lambda b, x, y: _python_divmod(b, x, y)[0])
    BODIES[f"floormod.{f}"] = canonical(lambda b, x, y: _python_divmod(b, x, y)[1])
    BODIES[f"selp.{f}"] = lambda b, x, y, p: b.select(p, x, y)
    for relation, sign in RELATIONS.items():
        BODIES[f"setp.{relation}.{f}"] = lambda b, x, y, r=sign: b.fcmp_ordered(r, x, y)
        BODIES[f"setp.{relation}u.{f}"] = lambda b, x, y, r=sign: b.fcmp_unordered(r, x, y)
    for name in (*UNARY_FUNCTIONS, *BINARY_FUNCTIONS):
        BODIES[f"{name}.{f}"] = canonical(library(name), _NANS.get(name, ()))
    for r, rounding in INTRINSIC_ROUNDING.items():
        BODIES[f"cvt.{r}.{f}.{f}"] = canonical(unary_intrinsic(rounding), (0,))
    PER_LANE.update(f"{name}.{f}" for name in (*UNARY_FUNCTIONS, *BINARY_FUNCTIONS, "floordiv", "floormod"))


_integer_bodies()
_float_bodies("f32")
_float_bodies("f64")
BODIES["ftz.f32"] = flush_subnormal
BODIES["prmt.b32"] = permute_bytes
_PREDICATES: dict[str, Body] = {
    "mov": lambda b, x: x,
    "not": lambda b, x: b.not_(x),
    "and": lambda b, x, y: b.and_(x, y),
    "or": lambda b, x, y: b.or_(x, y),
    "xor": lambda b, x, y: b.xor(x, y),
    "andn": lambda b, x, y: b.and_(x, b.not_(y)),
    "selp": lambda b, x, y, p: b.or_(b.and_(p, x), b.and_(b.not_(p), y)),
}
BODIES.update((f"{name}.pred", body) for name, body in _PREDICATES.items())


ALU_NAMES = tuple(name for name, op in OPERATIONS.items() if op.kind == "alu")


def _cases(b: Builder, registers: Value, d: Value, operands: tuple[Value, ...], mask: Value) -> Callable[[str], None]:
    """Return a function that emits one operation on the lanes of `mask`; operands are byte offsets into `registers`."""
    mask = resize(b, mask, I32, False)

    def case(name: str) -> None:
        op, body = OPERATIONS[name], BODIES[name]
        if name not in PER_LANE:
            values = [load_row(b, registers, operands[i], t) for i, t in enumerate(op.operands)]
            store_row(b, registers, d, op.result, body(b, *values), mask)
            return

        def lane_place(offset: Value, t: str, lane: Value) -> Value:
            return pointer(b, b.add(b.add(registers, offset), b.mul(lane, I64(SIZE[t]))), ELEMENT[t])

        def one_lane(lane: Value) -> None:
            values = [b.load(lane_place(operands[i], t, lane)) for i, t in enumerate(op.operands)]
            b.store(body(b, *values), lane_place(d, op.result, lane))

        lane_loop(b, mask, one_lane)

    def index_case(name: str) -> None:
        """Emit the address of an index: a product and a sum if all indices are inside.

        Each side of the branch loads its own operands, so that no vector is live across the branch.
        """
        op = OPERATIONS[name]
        signed = name[6] == "s"

        def load(k: int) -> Value:
            return load_row(b, registers, operands[k], op.operands[k])

        outside = b.icmp_unsigned(">=", resize(b, load(0), I64, signed), load(1))  # true for negative ones as well
        with b.if_else(b.icmp_unsigned("==", b.bitcast(outside, I32), I32(0)), likely=True) as (inside, flagged):
            with inside:
                address = b.add(load(3), b.mul(resize(b, load(0), I64, signed), load(2)))
                store_row(b, registers, d, op.result, address, mask)
            with flagged:
                store_row(b, registers, d, op.result, BODIES[name](b, *(load(k) for k in range(4))), mask)

    return lambda name: index_case(name) if name.startswith("index.") else case(name)


@emitted
def alu(
    b: Builder,
    families: Value,
    opcode: Value,
    registers: Value,
    d: Value,
    a: Value,
    b_: Value,
    c: Value,
    imm: Value,
    mask: Value,
) -> None:
    """Execute one ALU operation in the lanes of `mask`: an operation of the core directly, any other by the address of
    its family, which `families` has for each opcode."""

    def other() -> None:
        entry = b.load(pointer(b, b.add(families, b.shl(opcode, I64(3))), I64))
        call.body(b, entry, opcode, registers, d, a, b_, c, imm, mask)

    switch(b, opcode, members(CORE), _cases(b, registers, d, (a, b_, c, imm), mask), other)


def family(name: str) -> Emitted:
    """Return the entry of a family, which executes only its operations."""

    def entry(
        b: Builder,
        opcode: Value,
        registers: Value,
        d: Value,
        a: Value,
        b_: Value,
        c: Value,
        imm: Value,
        mask: Value,
    ) -> None:
        switch(b, opcode, members(name), _cases(b, registers, d, (a, b_, c, imm), mask), nothing)

    return Emitted(entry)


assert set(BODIES) == set(ALU_NAMES), sorted(set(BODIES) ^ set(ALU_NAMES))
assert len(ALU_NAMES) == isa.N_ALU
