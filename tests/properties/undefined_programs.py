"""Random programs of PTX with undefined values, and what these may change: all choices of their bits are enumerated.

Four threads have registers and words of shared memory that nothing writes, and shuffles from lanes that do not exist.
Each such value is masked to one bit at once, so that there are at most 2^12 choices of all of them, which NumPy
computes side by side.  A program's result depends on undefined values if two choices differ in what the threads store
to global memory, or in a predicate that guards a store.

A program of `trees` uses each value that depends on an undefined one once, by operations that keep bits apart: it is
`failed` if and only if its result depends on undefined values.  One of `graphs` may use such a value twice, as in
`x ^ ~x`, or make several bits of one, as a carry and a sign do, where wsemu takes all of them as independent of each
other, and may branch on it: only a program whose result differs has to be `failed`.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import wsemu

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import numpy.typing as npt

    from wsemu.model.settings import Engine

LANES, REGISTERS, PREDICATES, WORDS = 4, 5, 2, 8
MAX_BITS = 12
"""undefined bits of a program whose choices are enumerated"""
UNDEFINED_FAMILIES = ("trees", "graphs")
_HEADER = """.version 8.4
.target sm_90
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 out)
{
    .shared .align 4 .b32 s[8], c[4];
    .reg .pred %p<2>, %q; .reg .f32 %f; .reg .b32 %r<5>, %u<16>, %t, %s, %a, %c; .reg .b64 %x, %o, %at, %w;
    .reg .b16 %h<2>;
    .local .align 4 .b32 own[1];
    mov.u32 %t, %tid.x;
    mov.u32 %s, s;
    mov.u32 %c, c;
    mad.lo.u32 %c, %t, 4, %c;
    ld.param.u64 %x, [x];
    ld.param.u64 %o, [out];
    mul.wide.u32 %at, %t, 4;
    add.u64 %x, %x, %at;
    add.u64 %o, %o, %at;
    setp.eq.u32 %p0, %t, 1;
    setp.lt.u32 %p1, %t, 2;
"""
_OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "and.b32": lambda a, b: a & b,
    "or.b32": lambda a, b: a | b,
    "xor.b32": lambda a, b: a ^ b,
    "add.u32": lambda a, b: a + b,
    "sub.u32": lambda a, b: a - b,
    "mul.lo.u32": lambda a, b: a * b,
    "min.u32": np.minimum,
    "max.s32": lambda a, b: np.maximum(a.view(np.int32), b.view(np.int32)).view(np.uint32),
}
_BITWISE = ("and.b32", "or.b32", "xor.b32")
"""those of which each bit of the result depends on bits of its own"""
_SHIFTS: dict[str, Callable[[Any, int], Any]] = {
    "shl.b32": lambda a, n: a << np.uint32(n),
    "shr.u32": lambda a, n: a >> np.uint32(n),
    "shr.s32": lambda a, n: (a.view(np.int32) >> np.int32(n)).view(np.uint32),
}


def _five(a: Any) -> Any:
    """Return 5 in each place of an array."""
    return (a & np.uint32(0)) | np.uint32(5)


_CHANGES: dict[str, tuple[list[str], Callable[[Any], Any]]] = {
    "halves": (
        ["mov.b32 {{%h0, %h1}}, %r{a};", "mov.b32 %r{to}, {{%h1, %h0}};"],
        lambda a: a >> np.uint32(16) | a << np.uint32(16),
    ),
    "upper half": (["mov.b32 {{_, %h1}}, %r{a};", "cvt.s32.s16 %r{to}, %h1;"], lambda a: _signed(a) >> np.int32(16)),
    "field": (["bfe.s32 %r{to}, %r{a}, 1, 3;"], lambda a: _signed(a << np.uint32(28)) >> np.int32(29)),
    "byte": (["prmt.b32 %r{to}, %r{a}, 0, 0x4443;"], lambda a: a >> np.uint32(24)),
    "extended": (["cvt.s32.s8 %r{to}, %r{a};"], lambda a: _signed(a << np.uint32(24)) >> np.int32(24)),
    "not": (["not.b32 %r{to}, %r{a};"], lambda a: ~a),
    "negative": (["neg.s32 %r{to}, %r{a};"], lambda a: np.uint32(0) - a),
    "wide": (
        ["mul.wide.u32 %w, %r{a}, 16;", "shr.u64 %w, %w, 8;", "cvt.u32.u64 %r{to}, %w;"],
        lambda a: a >> np.uint32(4),
    ),
    "kept": (["st.shared.b32 [%c], %r{a};", "ld.shared.b32 %r{to}, [%c];"], lambda a: a),
    "kept in part": (
        ["st.shared.b32 [%c], 0;", "st.shared.b8 [%c+1], %r{a};", "ld.shared.b32 %r{to}, [%c];"],
        lambda a: (a & np.uint32(0xFF)) << np.uint32(8),
    ),
    "replaced": (["st.shared.b32 [%c], %r{a};", "st.shared.b32 [%c], 5;", "ld.shared.b32 %r{to}, [%c];"], _five),
    "counted": (
        ["st.shared.b32 [%c], %r{a};", "st.shared.b32 [%c], 5;", "atom.shared.add.u32 %r{to}, [%c], 2;"],
        _five,
    ),
    "exchanged": (["st.shared.b32 [%c], %r{a};", "atom.shared.exch.b32 %r{to}, [%c], 2;"], lambda a: a),
    "high": (["mul.hi.u32 %r{to}, %r{a}, 0;"], lambda a: a & np.uint32(0)),
    "own": (["st.local.b32 [own], %r{a};", "ld.local.b32 %r{to}, [own];"], lambda a: a),
    "ones": (
        ["popc.b32 %r{to}, %r{a};"],
        lambda a: sum((a >> np.uint32(n) & np.uint32(1) for n in range(1, 32)), a & np.uint32(1)),
    ),
    "float": (["cvt.rn.f32.u32 %f, %r{a};", "mov.b32 %r{to}, %f;"], lambda a: a.astype(np.float32).view(np.uint32)),
}
"""name -> (PTX, what it computes of a register)"""
_BITWISE_CHANGES = ("halves", "byte", "not", "own", "kept", "kept in part", "replaced", "counted", "exchanged", "high")
_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "setp.eq.u32": lambda a, b: a == b,
    "setp.ne.u32": lambda a, b: a != b,
    "setp.lt.u32": lambda a, b: a < b,
    "setp.ge.s32": lambda a, b: a.view(np.int32) >= b.view(np.int32),
}


class Statement(NamedTuple):
    """One statement: what it does, and its operands."""

    what: str
    arguments: tuple[Any, ...]

    def __str__(self) -> str:
        return " ".join(map(str, (self.what, *self.arguments)))


class UndefinedProgram(NamedTuple):
    """Statements of four threads."""

    statements: tuple[Statement, ...]
    tree: bool

    def __str__(self) -> str:
        return "; ".join(map(str, self.statements))

    def ptx(self) -> str:
        return _HEADER + "\n".join("    " + line for line in self._lines()) + "\n    ret;\n}\n"

    def _lines(self) -> Iterator[str]:
        for n, (what, arguments) in enumerate(self.statements):
            yield from _TEXTS[what](n, *arguments)


def _signed(values: Any) -> Any:
    return values.view(np.int32)


def _text_of_store(n: int, register: int, at: int) -> list[str]:
    return [f"st.global.u32 [%o+{16 * at}], %r{register};"]


_TEXTS: dict[str, Callable[..., list[str]]] = {
    "number": lambda n, to, value: [f"mov.u32 %r{to}, {value};"],
    "input": lambda n, to: [f"ld.global.u32 %r{to}, [%x];"],
    "lane": lambda n, to: [f"mov.u32 %r{to}, %t;"],
    "register": lambda n, to: [f"and.b32 %r{to}, %u{n % 16}, 1;"],
    "load": lambda n, to, shift: [
        *_address(shift), f"ld.shared.u32 %r{to}, [%a];", f"and.b32 %r{to}, %r{to}, 1;", "bar.warp.sync 15;",
    ],
    "shuffle": lambda n, to, of, source: [
        f"shfl.sync.idx.b32 %r{to}, %r{of}, {source}, 31, -1;", f"and.b32 %r{to}, %r{to}, 1;",
    ],
    "binary": lambda n, name, to, a, b: [f"{name} %r{to}, %r{a}, %r{b};"],
    "shift": lambda n, name, to, a, by: [f"{name} %r{to}, %r{a}, {by};"],
    "change": lambda n, name, to, a: [line.format(to=to, a=a) for line in _CHANGES[name][0]],
    "compare": lambda n, name, to, a, b: [f"{name} %p{to}, %r{a}, {b};"],
    "select": lambda n, to, a, b, p: [f"selp.u32 %r{to}, %r{a}, %r{b}, %p{p};"],
    "guarded": lambda n, p, to, a: [f"@%p{p} mov.u32 %r{to}, %r{a};"],
    "butterfly": lambda n, to, a, by: [f"shfl.sync.bfly.b32 %r{to}, %r{a}, {by}, 31, 15;"],
    "ballot": lambda n, to, p: [f"vote.sync.ballot.b32 %r{to}, %p{p}, 15;"],
    "any": lambda n, to, p: [f"vote.sync.any.pred %p{to}, %p{p}, 15;"],
    "keep": lambda n, of: [*_address(0), f"st.shared.u32 [%a], %r{of};", "bar.warp.sync 15;"],
    "if": lambda n, p, to, a: [f"@!%p{p} bra L{n};", f"add.u32 %r{to}, %r{a}, 1;", f"L{n}:"],
    "store": _text_of_store,
    "store if": lambda n, p, register, at: [f"@%p{p} {_text_of_store(n, register, at)[0]}"],
}  # fmt: skip


def _address(shift: int) -> list[str]:
    """The word of a thread, or of one `shift` threads further."""
    return [f"add.u32 %a, %t, {shift};", f"and.b32 %a, %a, {WORDS - 1};", "mad.lo.u32 %a, %a, 4, %s;"]


# -- all choices -----------------------------------------------------------------------------------------------------
class Enumerated:
    """A program under all choices of its undefined bits: each value has a row a choice, and a column a thread."""

    def __init__(self, program: UndefinedProgram, given: npt.NDArray[np.uint32]) -> None:
        self.bits = 0
        """undefined ones so far"""
        self.depends = False
        self._choices = 1
        self._given = given
        lanes = np.arange(LANES, dtype=np.uint32)
        self._registers: list[Any] = [np.zeros((1, LANES), np.uint32) for _ in range(REGISTERS)]
        self._predicates: list[Any] = [(lanes == 1)[None, :], (lanes < 2)[None, :]]
        self._shared: list[Any] = [None] * WORDS
        self._atoms: dict[Any, Any] = {}
        self._count(program)
        for n, statement in enumerate(program.statements):
            self._run(n, *statement)

    def _count(self, program: UndefinedProgram) -> None:
        sources = [s for s in program.statements if s.what in ("register", "load", "shuffle")]
        self._choices = 1 << min(MAX_BITS, LANES * len(sources))
        self._numbers = np.arange(self._choices, dtype=np.uint32)

    def _bit(self, key: Any) -> Any:
        """One undefined bit: a column of all choices."""
        if key not in self._atoms:
            self._atoms[key] = self._numbers >> np.uint32(self.bits) & np.uint32(1)
            self.bits += 1
        return self._atoms[key]

    def _observe(self, values: Any) -> None:
        self.depends |= bool((values != values[:1]).any())

    def _columns(self, columns: Sequence[Any]) -> Any:
        return np.stack([np.broadcast_to(column, (self._choices,)) for column in columns], axis=1)

    def _whole(self, values: Any) -> Any:
        return np.broadcast_to(values, (self._choices, LANES))

    def _run(self, n: int, what: str, arguments: tuple[Any, ...]) -> None:
        r, p = self._registers, self._predicates
        match what, arguments:
            case "number", (to, value):
                r[to] = np.full((1, LANES), value, np.uint32)
            case "input", (to,):
                r[to] = self._given[None, :]
            case "lane", (to,):
                r[to] = np.arange(LANES, dtype=np.uint32)[None, :]
            case "register", (to,):
                r[to] = self._columns([self._bit(("u", n % 16, lane)) for lane in range(LANES)])
            case "load", (to, shift):
                words = [(lane + shift) % WORDS for lane in range(LANES)]
                held = [self._shared[word] for word in words]
                bits = [
                    self._bit(("s", word)) if old is None else old & 1 for word, old in zip(words, held, strict=True)
                ]
                r[to] = self._columns(bits)
            case "shuffle", (to, of, source):
                absent = [self._bit(("f", n, lane)) for lane in range(LANES)] if source >= LANES else None
                r[to] = self._columns(absent or [self._whole(r[of])[:, source] & 1] * LANES)
            case "binary", (name, to, a, b):
                r[to] = _OPERATIONS[name](*np.broadcast_arrays(r[a], r[b]))
            case "shift", (name, to, a, by):
                r[to] = _SHIFTS[name](r[a], by)
            case "change", (name, to, a):
                r[to] = _CHANGES[name][1](r[a]).view(np.uint32)
            case "compare", (name, to, a, b):
                p[to] = _COMPARISONS[name](r[a], np.full((1, 1), b, np.uint32))
            case "select", (to, a, b, by):
                r[to] = np.where(p[by], r[a], r[b])
            case "guarded", (by, to, a):
                r[to] = np.where(p[by], r[a], r[to])
            case "butterfly", (to, a, by):
                r[to] = self._whole(r[a])[:, np.arange(LANES) ^ by]
            case "ballot", (to, by):
                r[to] = self._whole((p[by] * (1 << np.arange(LANES))).sum(axis=1, keepdims=True).astype(np.uint32))
            case "any", (to, by):
                p[to] = self._whole(p[by].any(axis=1, keepdims=True))
            case "keep", (of,):
                self._shared[:LANES] = [self._whole(r[of])[:, lane] for lane in range(LANES)]
            case "if", (by, to, a):
                r[to] = np.where(p[by], r[a] + np.uint32(1), r[to])
            case "store", (register, _):
                self._observe(r[register])
            case "store if", (by, register, _):
                self._observe(p[by])
                self._observe(np.where(p[by], r[register], np.uint32(0)))


# -- random programs ---------------------------------------------------------------------------------------------------
class _Maker:
    """Makes a program, and knows which of its values may depend on undefined ones."""

    def __init__(self, draw: random.Random, *, tree: bool) -> None:
        self.draw, self.tree = draw, tree
        self.statements: list[Statement] = []
        self.unsure = [False] * REGISTERS
        self.unsure_predicates = [False] * PREDICATES
        self.used = [False] * REGISTERS
        """unsure values of which a tree has no use left"""
        self.used_predicates = [False] * PREDICATES
        self.sources = 0
        self.kept = False

    def add(self, what: str, *arguments: Any) -> None:
        self.statements.append(Statement(what, arguments))

    def register(self) -> int:
        """A register to read; a tree reads an unsure one once."""
        if all(self.used):
            self.add("number", 0, 1)
            self.write(0, False)
        known = [n for n in range(REGISTERS) if not self.used[n]]
        found = self.draw.choice(known)
        self.used[found] = self.tree and self.unsure[found]
        return found

    def predicate(self) -> int:
        known = [n for n in range(PREDICATES) if not self.used_predicates[n]]
        found = self.draw.choice(known or [0])
        self.used_predicates[found] = self.tree and self.unsure_predicates[found]
        return found

    def kinds(self, bitwise: Sequence[str], every: Iterable[str], *, unsure: bool) -> Sequence[str]:
        """The operations for operands that may depend on undefined values, or do not."""
        return bitwise if self.tree and unsure else tuple(every)

    def write(self, to: int, unsure: bool) -> None:
        self.unsure[to], self.used[to] = unsure, False

    def source(self) -> None:
        to, draw = self.draw.randrange(REGISTERS), self.draw
        kind = draw.choice(("register", "load", "shuffle"))
        if kind == "load":
            if self.tree and self.kept:
                return
            self.add("load", to, draw.choice((0, 1, 3, 4)))
            self.kept = self.tree
        elif kind == "shuffle":
            own = self.register()
            self.add("shuffle", to, own, draw.choice((4, 5, 9)))
        else:
            self.add("register", to)
        self.sources += 1
        self.write(to, True)

    def step(self) -> None:
        draw = self.draw
        free = [n for n in range(REGISTERS) if not self.used[n]]
        if len(free) < 3:
            to = draw.choice([n for n in range(REGISTERS) if self.used[n]])
            self.add("number", to, draw.choice((0, 1, 6, 0xFFFFFFFF)))
            self.write(to, False)
            return
        kinds = "number input lane binary binary binary change change shift".split()
        kinds += "compare compare select guarded butterfly".split()
        kinds += [] if self.tree else "ballot any keep if".split()
        what, to = draw.choice(kinds), draw.randrange(REGISTERS)
        _STEPS[what](self, to)


def _simple(what: str, *choices: Any) -> Callable[[_Maker, int], None]:
    def step(maker: _Maker, to: int) -> None:
        maker.add(what, to, *([maker.draw.choice(choices)] if choices else []))
        maker.write(to, False)

    return step


def _binary(maker: _Maker, to: int) -> None:
    a, b = maker.register(), maker.register()
    unsure = maker.unsure[a] or maker.unsure[b]
    maker.add("binary", maker.draw.choice(maker.kinds(_BITWISE, _OPERATIONS, unsure=unsure)), to, a, b)
    maker.write(to, unsure)


def _shift(maker: _Maker, to: int) -> None:
    a = maker.register()
    name = maker.draw.choice(maker.kinds(("shl.b32", "shr.u32"), _SHIFTS, unsure=maker.unsure[a]))
    maker.add("shift", name, to, a, maker.draw.choice((1, 2, 31)))
    maker.write(to, maker.unsure[a])


def _change(maker: _Maker, to: int) -> None:
    a = maker.register()
    maker.add("change", maker.draw.choice(maker.kinds(_BITWISE_CHANGES, _CHANGES, unsure=maker.unsure[a])), to, a)
    maker.write(to, maker.unsure[a])


def _compare(maker: _Maker, to: int) -> None:
    a, to = maker.register(), to % PREDICATES
    maker.add("compare", maker.draw.choice(tuple(_COMPARISONS)), to, a, maker.draw.choice((0, 1, 2, 7)))
    maker.unsure_predicates[to], maker.used_predicates[to] = maker.unsure[a], False


def _select(maker: _Maker, to: int) -> None:
    a, b, p = maker.register(), maker.register(), maker.predicate()
    unsure = maker.unsure[a] or maker.unsure[b] or maker.unsure_predicates[p]
    if maker.tree and maker.unsure_predicates[p]:
        return
    maker.add("select", to, a, b, p)
    maker.write(to, unsure)


def _guarded(maker: _Maker, to: int) -> None:
    a, p = maker.register(), maker.predicate()
    if maker.used[to] or (maker.tree and (a == to or maker.unsure_predicates[p])):
        return
    unsure = maker.unsure[a] or maker.unsure[to] or maker.unsure_predicates[p]
    maker.add("guarded", p, to, a)
    maker.write(to, unsure)


def _butterfly(maker: _Maker, to: int) -> None:
    a = maker.register()
    maker.add("butterfly", to, a, maker.draw.choice((1, 2, 3)))
    maker.write(to, maker.unsure[a])


def _ballot(maker: _Maker, to: int) -> None:
    maker.add("ballot", to, maker.predicate())
    maker.write(to, True)


def _any(maker: _Maker, to: int) -> None:
    maker.add("any", to % PREDICATES, maker.predicate())
    maker.unsure_predicates[to % PREDICATES] = True


def _keep(maker: _Maker, to: int) -> None:
    maker.add("keep", maker.register())


def _if(maker: _Maker, to: int) -> None:
    p = maker.predicate()
    if not maker.unsure_predicates[p] or maker.draw.random() < 0.2:
        maker.add("if", p, to, maker.register())
        maker.write(to, True)


_STEPS: dict[str, Callable[[_Maker, int], None]] = {
    "number": _simple("number", 0, 1, 6, 255, 0xFFFFFFFE), "input": _simple("input"), "lane": _simple("lane"),
    "binary": _binary, "shift": _shift, "change": _change, "compare": _compare, "select": _select, "guarded": _guarded,
    "butterfly": _butterfly, "ballot": _ballot, "any": _any, "keep": _keep, "if": _if,
}  # fmt: skip


def undefined_program(draw: random.Random, family: str) -> UndefinedProgram:
    """A random program of a family."""
    maker = _Maker(draw, tree=family == "trees")
    for register in range(REGISTERS):
        maker.add(*draw.choice((("number", register, draw.choice((0, 1, 5))), ("lane", register), ("input", register))))
    for _ in range(draw.choice((1, 2, 2, 3))):
        maker.source()
        for _ in range(draw.randrange(1, 7)):
            maker.step()
    for at in range(draw.choice((1, 1, 2))):
        if draw.random() < 0.25:
            p = maker.predicate()
            maker.add("store if", p, maker.register(), at)
        else:
            maker.add("store", maker.register(), at)
    return UndefinedProgram(tuple(maker.statements), maker.tree)


# -- wsemu against them --------------------------------------------------------------------------------------------
class JudgedUndefined(NamedTuple):
    """What is said of a program, and what is right."""

    program: UndefinedProgram
    verdict: str
    depends: bool
    complaint: str

    def __str__(self) -> str:
        return f"{self.complaint}\n    {self.program}\n{self.program.ptx()}"


GIVEN = np.array([3, 0, 0xFFFFFFFF, 6], np.uint32)


def judged_undefined(program: UndefinedProgram, engine: Engine) -> JudgedUndefined:
    """Compare a verdict with the enumeration of all choices."""
    depends = Enumerated(program, GIVEN).depends
    kernel = wsemu.load_ptx(program.ptx()).only()
    report = wsemu.check(kernel, 1, LANES, (GIVEN.copy(), np.zeros(2 * LANES, np.uint32)), engine=engine)
    right = {"failed"} if depends else {"verified"} if program.tree else {"verified", "failed"}
    told = "differs" if depends else "does not differ"
    complaint = (
        "" if report.verdict in right else f"{report.verdict}, and the result {told}: {[*map(str, report.findings)]}"
    )
    return JudgedUndefined(program, report.verdict, depends, complaint)


def smaller_undefined(program: UndefinedProgram, fails: Callable[[UndefinedProgram], bool]) -> UndefinedProgram:
    """A program without the statements that a disagreement does not need."""
    n = len(program.statements) - 1
    while n >= REGISTERS:
        less = program._replace(statements=program.statements[:n] + program.statements[n + 1 :])
        program = less if fails(less) else program
        n -= 1
    return program
