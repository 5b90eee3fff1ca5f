"""Random PTX kernels of loops, and of CTAs that are alike or nearly, as compilers write them: loops tested at the top,
at the bottom, counted down or unrolled by two, pointers that move by a stride, stages by remainder, by mask or by a
counter that starts anew, phases that are flipped.

Pipelines over named barriers, `bar.sync 0`, mbarriers and `cp.async`, right ones and ones with a mistake; data that
steer or do not.  What is said of them is tried as that of Python kernels is: `loop_programs.tried`, `cta_programs`.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import wsemu
from tests.properties.loop_programs import LoopProgram

Body = Callable[[str], None]
_HEAD = ".version 8.0\n.target sm_90\n.address_size 64\n"
_NAMES = ("n", "x", "z", "y", "m", "a")
_TILE = 4 * 64
"""words of shared memory for stages; mbarriers lie behind them"""


def loaded(programs: list[LoopProgram], folder: Path, name: str) -> list[Any]:
    """The kernels of some programs, from one file."""
    parts = [program.source.replace("entry k(", f"entry k{n}(") for n, program in enumerate(programs)]
    path = folder / f"{name}.ptx"
    path.write_text(_HEAD + "".join(parts), encoding="utf-8")
    module = wsemu.load_ptx(path)
    return [module[f"k{n}"] for n in range(len(programs))]


def program(seed: int) -> LoopProgram:
    """A random program with a loop whose trip count is an argument."""
    draw = random.Random(seed)
    return draw.choice((_named, _whole, _mbarriers, _copies, _mixed, _mixed))(draw)


def alike(seed: int) -> LoopProgram:
    """A random program of many CTAs."""
    draw = random.Random(seed)
    text = _Text(draw)
    text.op("st.shared.u32 [{}], {}", text.tile("0", text.t), text.t)
    text.op("bar.sync 0;")

    def body(k: str) -> None:
        for _ in range(draw.randint(1, 3)):
            text.maybe_guarded(lambda: _by_cta(text, k))

    draw.choice((lambda: text.loop("n", body), lambda: text.loop("n", body), lambda: body("0")))()
    return LoopProgram(text.kernel(), 64, draw.choice((5, 12, 23, 40)))


class _Text:
    """A kernel that is being written: instructions, and how many registers they have."""

    def __init__(self, draw: random.Random, warps: int = 2) -> None:
        self.draw = draw
        self.lines: list[str] = []
        self.numbers = dict.fromkeys(("r", "rd", "p", "L"), 0)
        self.n, self.m, self.a = (self.op(f"ld.param.u32 {{}}, [{name}];", of="r") for name in "nma")
        self.bases = {}
        for name in "xzy":
            pointer = self.op(f"ld.param.u64 {{}}, [{name}];", of="rd")
            self.bases[name] = self.op("cvta.to.global.u64 {}, {};", pointer, of="rd")
        self.t, self.cta, self.grid = (
            self.op(f"mov.u32 {{}}, %{name};", of="r") for name in ("tid.x", "ctaid.x", "nctaid.x")
        )
        self.lane, self.warp = self.i("and.b32", self.t, "31"), self.i("shr.u32", self.t, "5")
        self.who = self.i("mad.lo.s32", self.cta, str(warps), self.warp)
        self.whos = self.i("mul.lo.s32", self.grid, str(warps))
        self.shared = self.op("mov.u32 {}, tile;", of="r")
        self.sum = self.op("mov.u32 {}, {};", self.t, of="r")
        self.stage = ""

    # -- instructions
    def new(self, of: str) -> str:
        self.numbers[of] += 1
        return f"{'$' if of == 'L' else '%'}{of}{self.numbers[of]}"

    def op(self, text: str, *operands: str, of: str = "") -> str:
        """An instruction; with `of` its result is a new register of that kind."""
        made = self.new(of) if of else ""
        self.lines.append(text.format(*((made,) if of else ()), *operands).rstrip(";") + ";")
        return made

    def i(self, name: str, *operands: str) -> str:
        return self.op(f"{name} {{}}, {', '.join(operands)};", of="r")

    def set_(self, relation: str, a: str, b: str) -> str:
        return self.op(f"setp.{relation} {{}}, {a}, {b};", of="p")

    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")

    def address(self, name: str, index: str) -> str:
        """Of an element of an array, one of the ways of compilers."""
        base = self.bases[name]
        if self.draw.random() < 0.7:
            far = self.op(f"mul.wide.{self.draw.choice(('s32', 'u32'))} {{}}, {index}, 4;", of="rd")
            return self.op("add.s64 {}, {}, {};", base, far, of="rd")
        wide = self.op("cvt.s64.s32 {}, {};", index, of="rd")
        far = self.op("shl.b64 {}, {}, 2;", wide, of="rd")
        return self.op("add.s64 {}, {}, {};", far, base, of="rd")

    def load(self, name: str, index: str) -> str:
        return self.op("ld.global.u32 {}, [{}];", self.address(name, index), of="r")

    def store(self, name: str, index: str, value: str) -> None:
        self.op("st.global.u32 [{}], {};", self.address(name, index), value)

    def tile(self, stage: str, index: str) -> str:
        """The address of a word of a stage in shared memory."""
        word = self.i("mad.lo.s32", stage, "64", index) if stage.startswith("%") else index
        at = self.i("shl.b32", word, "2")
        return self.i("add.s32", self.shared, at)

    def meet(self) -> None:
        self.op("bar.sync 0;")

    # -- control
    def guarded(self, predicate: str, body: Callable[[], None]) -> None:
        """A branch around the body."""
        end = self.new("L")
        self.op(f"@!{predicate} bra {end};")
        body()
        self.label(end)

    def maybe_guarded(self, body: Callable[[], None]) -> None:
        if self.draw.random() < 0.7:
            return body()
        left, relation, right = self.draw.choice((
            (self.cta, "lt.u32", "9"), (self.cta, "gt.s32", "0"), (self.t, "lt.u32", self.cta),
            (self.cta, "eq.s32", "5"),
            (self.t, "eq.s32", "0"), (self.i("and.b32", self.cta, "1"), "eq.s32", "0"), (self.lane, "lt.s32", self.m),
            (self.load("x", self.t), "gt.s32", "9"), (self.a, "gt.s32", "3"),
        ))  # fmt: skip
        return self.guarded(self.set_(relation, left, right), body)

    def loop(self, trips: str, body: Body) -> None:
        """Rounds of a body, of which it is told the number."""
        end_of = {"n": self.n, "m": self.m, "n / 2": "", "n + m": ""}
        last = end_of[trips] or (
            self.i("shr.u32", self.n, "1") if trips == "n / 2" else self.i("add.s32", self.n, self.m)
        )
        way = self.draw.choice((_at_top, _at_top, _at_bottom, _at_bottom, _down, _by_two, _to_zero))
        way(self, last, body)

    def of_stage(self, k: str, depth: int) -> str:
        """The stage of a round: a remainder, or of a power of two a mask."""
        if depth == 1:
            return self.i("and.b32", k, "0")
        if depth & (depth - 1) == 0 and self.draw.random() < 0.6:
            return self.i("and.b32", k, str(depth - 1))
        return self.i(self.draw.choice(("rem.u32", "rem.s32")), k, str(depth))

    def parity(self, k: str, depth: int) -> str:
        return self.i("and.b32", self.i("div.u32", k, str(depth)), "1")

    def wait(self, bar: str, parity: str) -> None:
        """A loop that tries an mbarrier until its phase is over."""
        again, done = self.new("L"), self.new("p")
        self.label(again)
        self.op(f"mbarrier.try_wait.parity.shared::cta.b64 {done}, [{bar}], {parity};")
        self.op(f"@!{done} bra {again};")

    def kernel(self) -> str:
        self.op("ret;")
        kinds = {"r": "b32", "rd": "b64", "p": "pred"}
        registers = [f".reg .{kind} %{of}<{self.numbers[of] + 1}>;" for of, kind in kinds.items()]
        parameters = ", ".join(f".param .u{64 if name in 'xzy' else 32} {name}" for name in _NAMES)
        memory = f".shared .align 8 .b8 tile[{4 * _TILE + 64}];"
        inside = "\n".join(f"    {line}" for line in (*registers, memory, *self.lines))
        return f".visible .entry k({parameters})\n{{\n{inside}\n}}\n"


# -- loops as compilers write them -------------------------------------------------------------------------------------
def _counter(text: _Text) -> str:
    return text.op("mov.u32 {}, 0;", of="r")


def _at_top(text: _Text, last: str, body: Body) -> None:
    k, again, end = _counter(text), text.new("L"), text.new("L")
    text.label(again)
    text.op(f"@{text.set_('ge.s32', k, last)} bra {end};")
    body(k)
    text.op(f"add.s32 {k}, {k}, 1;")
    text.op(f"bra {again};")
    text.label(end)


def _at_bottom(text: _Text, last: str, body: Body) -> None:
    k, again, end = _counter(text), text.new("L"), text.new("L")
    text.op(f"@{text.set_('lt.s32', last, '1')} bra {end};")
    text.label(again)
    body(k)
    text.op(f"add.s32 {k}, {k}, 1;")
    text.op(f"@{text.set_(text.draw.choice(('lt.s32', 'ne.s32')), k, last)} bra {again};")
    text.label(end)


def _down(text: _Text, last: str, body: Body) -> None:
    """A second counter that comes down to zero."""
    k, left, again, end = _counter(text), text.i("mov.u32", last), text.new("L"), text.new("L")
    text.op(f"@{text.set_('eq.s32', last, '0')} bra {end};")
    text.label(again)
    body(k)
    text.op(f"add.s32 {k}, {k}, 1;")
    text.op(f"add.s32 {left}, {left}, -1;")
    text.op(f"@{text.set_('ne.s32', left, '0')} bra {again};")
    text.label(end)


def _to_zero(text: _Text, last: str, body: Body) -> None:
    """A counter that comes up from minus the trip count."""
    k, left, again, end = _counter(text), text.i("neg.s32", last), text.new("L"), text.new("L")
    text.op(f"@{text.set_('lt.s32', last, '1')} bra {end};")
    text.label(again)
    body(k)
    text.op(f"add.s32 {k}, {k}, 1;")
    text.op(f"add.s32 {left}, {left}, 1;")
    text.op(f"@{text.set_('ne.s32', left, '0')} bra {again};")
    text.label(end)


def _by_two(text: _Text, last: str, body: Body) -> None:
    """Two rounds at a time, and one more where the trip count is odd."""
    k, again, rest, end = _counter(text), text.new("L"), text.new("L"), text.new("L")
    even = text.i("and.b32", last, "-2")
    text.op(f"@{text.set_('lt.s32', last, '2')} bra {rest};")
    text.label(again)
    body(k)
    body(text.i("add.s32", k, "1"))
    text.op(f"add.s32 {k}, {k}, 2;")
    text.op(f"@{text.set_('lt.s32', k, even)} bra {again};")
    text.label(rest)
    odd = text.i("and.b32", last, "1")
    text.op(f"@{text.set_('eq.s32', odd, '0')} bra {end};")
    body(k)
    text.label(end)


# -- what bodies do ----------------------------------------------------------------------------------------------------
def _value(text: _Text, k: str) -> str:
    """What a round loads or makes."""
    at = text.i("mad.lo.s32", k, "32", text.lane)
    kind = text.draw.choice(("x", "x", "x", "k", "a", "of z", "chosen", "steered"))
    if kind == "x":
        return text.load("x", at)
    if kind == "k":
        return text.i("add.s32", k, "3")
    if kind == "a":
        return text.i("mul.lo.s32", text.a, k)
    if kind == "of z":  # an address that depends on data
        return text.load("x", text.i("add.s32", text.i("and.b32", text.load("z", at), "3"), text.lane))
    if kind == "chosen":
        p = text.set_("gt.s32", text.load("z", text.lane), "1")
        return text.op("selp.b32 {}, {}, {}, {};", text.load("x", at), k, p, of="r")
    made = text.i("mov.u32", k)
    text.guarded(text.set_("lt.s32", text.load("z", text.lane), "9"), lambda: _set(text, made, text.load("x", at)))
    return made


def _set(text: _Text, register: str, value: str) -> None:
    text.op(f"mov.u32 {register}, {value};")


def _result(text: _Text, k: str, value: str) -> None:
    """A consumer stores a value of its own."""
    kind = text.draw.choice(("round", "round", "warp", "two", "far", "back", "shared"))
    who, whos, lane = text.who, text.whos, text.lane
    if kind == "round":
        row = text.i("mad.lo.s32", k, whos, who)
    elif kind == "warp":
        row = who
    elif kind == "two":
        row = text.i("mad.lo.s32", text.i("and.b32", k, "1"), whos, who)
    elif kind == "far":
        row = text.i("mad.lo.s32", who, "70", k)
    elif kind == "back":
        row = text.i("mad.lo.s32", who, "72", text.i("sub.s32", text.n, k))
    else:
        row = text.i("mad.lo.s32", who, text.draw.choice(("0", "1", "20", "12")), k)
    text.store("y", text.i("mad.lo.s32", row, "32", lane), value)


def _slip(draw: random.Random, value: int, chance: float = 0.1) -> int:
    """The value, or now and then one beside it."""
    return max(0, value + draw.choice((-1, 1))) if draw.random() < chance else value


def _trips(draw: random.Random) -> str:
    return draw.choice(("n", "n", "n", "n / 2"))


def _named(draw: random.Random) -> LoopProgram:
    """A producer warp and a consumer warp, two named barriers a stage."""
    text, depth = _Text(draw), draw.randint(1, 3)
    trips, early, late = _trips(draw), _slip(draw, depth), _slip(draw, depth)
    last = text.n if trips == "n" else text.i("shr.u32", text.n, "1")

    def barrier(k: str, first: int, what: str) -> None:
        text.op("barrier.{} {}, 64;", what, text.i("add.s32", text.of_stage(k, depth), str(first)))

    def produce(k: str) -> None:
        text.guarded(text.set_("ge.s32", k, str(early)), lambda: barrier(k, 1 + depth, "sync"))
        text.op("st.shared.u32 [{}], {};", text.tile(text.of_stage(k, depth), text.lane), _value(text, k))
        barrier(k, 1, "arrive")

    def consume(k: str) -> None:
        barrier(k, 1, "sync")
        value = text.op("ld.shared.u32 {}, [{}];", text.tile(text.of_stage(k, depth), text.lane), of="r")
        _result(text, k, value)
        ahead = text.i("add.s32", k, str(late))
        text.guarded(text.set_("lt.s32", ahead, last), lambda: barrier(k, 1 + depth, "arrive"))

    _two_roles(text, trips, produce, consume)
    return LoopProgram(text.kernel(), 64, 1)


def _two_roles(text: _Text, trips: str, produce: Body, consume: Body) -> None:
    other, end = text.new("L"), text.new("L")
    text.op(f"@{text.set_('ne.s32', text.warp, '0')} bra {other};")
    text.loop(trips, produce)
    text.op(f"bra {end};")
    text.label(other)
    text.loop(trips, consume)
    text.label(end)


def _mbarriers(draw: random.Random) -> LoopProgram:
    """A producer warp and a consumer warp, an mbarrier each way a stage; parities by division, or flipped."""
    text, depth = _Text(draw), draw.randint(1, 3)
    flip, gives = "1" if draw.random() < 0.9 else "0", draw.random() > 0.08

    def begin() -> None:
        for n in range(2 * depth):
            text.op(f"mbarrier.init.shared::cta.b64 [tile+{4 * _TILE + 8 * n}], 32;")

    def bar(k: str, first: int) -> str:
        at = text.i("shl.b32", text.of_stage(k, depth), "3")
        return text.i("add.s32", text.shared, text.i("add.s32", at, str(4 * _TILE + 8 * first)))

    def produce(k: str) -> None:
        text.wait(bar(k, depth), text.i("xor.b32", text.parity(k, depth), flip))
        text.op("st.shared.u32 [{}], {};", text.tile(text.of_stage(k, depth), text.lane), _value(text, k))
        text.op("mbarrier.arrive.shared::cta.b64 _, [{}];", bar(k, 0))

    phase = _counter(text) if depth == 1 and draw.random() < 0.5 else ""

    def consume(k: str) -> None:
        text.wait(bar(k, 0), phase or text.parity(k, depth))
        value = text.op("ld.shared.u32 {}, [{}];", text.tile(text.of_stage(k, depth), text.lane), of="r")
        _result(text, k, value)
        if gives:
            text.op("mbarrier.arrive.shared::cta.b64 _, [{}];", bar(k, depth))
        if phase:
            text.op(f"xor.b32 {phase}, {phase}, 1;")

    text.guarded(text.set_("eq.s32", text.t, "0"), begin)
    text.meet()
    _two_roles(text, _trips(draw), produce, consume)
    return LoopProgram(text.kernel(), 64, 1)


def _whole(draw: random.Random) -> LoopProgram:
    """All warps of a CTA and `bar.sync 0`; pointers that move by a stride."""
    text, depth = _Text(draw), draw.randint(1, 3)
    second = draw.random() < (0.8 if depth == 1 else 0.3)
    other = text.i(draw.choice(("xor.b32", "add.s32")), text.t, draw.choice(("0", "31", "63" if depth > 3 else "1")))
    other = text.i("and.b32", other, "63")
    row = text.i("mad.lo.s32", text.who, draw.choice(("2304", "32", "0")), text.lane)
    from_, to = text.address("x", text.t), text.address("y", row)
    step = draw.choice((128, 128, 256, 512))
    counter = _counter(text)

    def body(k: str) -> None:
        stage = counter if draw.random() < 0.4 else text.of_stage(k, depth)
        value = text.op("ld.global.u32 {}, [{}];", from_, of="r") if draw.random() < 0.6 else _value(text, k)
        text.op("st.shared.u32 [{}], {};", text.tile(stage, text.t), value)
        text.meet()
        seen = text.op("ld.shared.u32 {}, [{}];", text.tile(stage, other), of="r")
        text.op(f"add.s32 {text.sum}, {text.sum}, {seen};")
        if draw.random() < 0.6:
            text.op("st.global.u32 [{}], {};", to, text.sum)
        else:
            _result(text, k, text.sum)
        if second:
            text.meet()
        text.op(f"add.s64 {from_}, {from_}, 128;")
        text.op(f"add.s64 {to}, {to}, {step};")
        nothing = text.set_("eq.s32", text.i("add.s32", counter, "1"), str(depth))
        text.op(f"add.s32 {counter}, {counter}, 1;")
        text.op(f"selp.b32 {counter}, 0, {counter}, {nothing};")

    text.loop(_trips(draw), body)
    return LoopProgram(text.kernel(), 64, draw.choice((1, 1, 2)))


def _copies(draw: random.Random) -> LoopProgram:
    """A ring of `cp.async`, some stages ahead."""
    text, depth = _Text(draw), draw.randint(2, 4)
    pending, second = str(_slip(draw, depth - 2)), draw.random() < 0.3

    def copy(k: str) -> None:
        def issue() -> None:
            source = text.address("x", text.i("mad.lo.s32", k, "64", text.t))
            text.op("cp.async.ca.shared.global [{}], [{}], 4;", text.tile(text.of_stage(k, depth), text.t), source)

        text.guarded(text.set_("lt.s32", k, text.n), issue)
        text.op("cp.async.commit_group;")

    def body(k: str) -> None:
        text.op(f"cp.async.wait_group {pending};")
        text.meet()
        seen = text.op(
            "ld.shared.u32 {}, [{}];", text.tile(text.of_stage(k, depth), text.i("xor.b32", text.t, "1")), of="r"
        )
        _result(text, k, seen)
        if second:
            text.meet()
        copy(text.i("add.s32", k, str(depth - 1)))

    for n in range(depth - 1):
        copy(text.op(f"mov.u32 {{}}, {n};", of="r"))
    text.loop("n", body)
    text.op("cp.async.wait_all;")
    return LoopProgram(text.kernel(), 64, 1)


def _mixed(draw: random.Random) -> LoopProgram:
    """A loop of a few random statements."""
    text = _Text(draw)
    for stage in range(4):
        text.op("st.shared.u32 [{}], {};", text.i("add.s32", text.tile("0", text.t), str(256 * stage)), text.t)
    text.meet()

    def body(k: str) -> None:
        for _ in range(draw.randint(1, 3)):
            text.maybe_guarded(lambda: _statement(text, k)) if draw.random() < 0.3 else _statement(text, k)

    text.loop(draw.choice(("n", "n", "n / 2", "n + m", "m")), body)
    text.store("y", text.i("add.s32", text.i("mad.lo.s32", text.who, "32", text.lane), "20000"), text.sum)
    return LoopProgram(text.kernel(), 64, draw.choice((1, 1, 2, 3)))


def _statement(text: _Text, k: str) -> None:
    draw, depth = text.draw, text.draw.randint(1, 4)
    kind = draw.choice(("give", "give", "take", "store", "store", "meet", "sum", "inner", "shuffle"))
    if kind in ("give", "take"):
        stage = text.of_stage(k, depth)
        if kind == "give":
            text.op("st.shared.u32 [{}], {};", text.tile(stage, text.t), _value(text, k))
            text.meet()
        at = draw.choice((text.t, text.i("xor.b32", text.t, "1"), text.i("sub.s32", "63", text.t)))
        seen = text.op("ld.shared.u32 {}, [{}];", text.tile(stage, at), of="r")
        text.op(f"add.s32 {text.sum}, {text.sum}, {seen};")
        if draw.random() < 0.6:
            text.meet()
    elif kind == "store":
        _result(text, k, draw.choice((text.sum, k)))
    elif kind == "meet":
        text.meet()
    elif kind == "sum":
        text.op(f"add.s32 {text.sum}, {text.sum}, {_value(text, k)};")
    elif kind == "shuffle":
        seen = text.op("shfl.sync.bfly.b32 {}, {}, 1, 31, -1;", text.sum, of="r")
        text.op(f"add.s32 {text.sum}, {text.sum}, {seen};")
    else:
        text.loop("m", lambda j: _set(text, text.sum, text.i("mad.lo.s32", text.sum, "3", j)))


# -- CTAs --------------------------------------------------------------------------------------------------------------
def _by_cta(text: _Text, k: str) -> None:
    draw = text.draw
    who, whos, lane, cta = text.who, text.whos, text.lane, text.cta
    of_round = text.i("mad.lo.s32", k, whos, who) if k.startswith("%") else who
    row = draw.choice((
        lambda: who, lambda: of_round, lambda: text.i("mad.lo.s32", who, "3", "0"), lambda: text.i("and.b32", who, "3"),
        lambda: text.i("sub.s32", text.i("sub.s32", whos, "1"), who), lambda: text.i("min.s32", who, "9"),
        lambda: text.i("xor.b32", who, "1"), lambda: text.i("add.s32", who, draw.choice(("1", "6"))),
        lambda: text.i("mad.lo.s32", cta, "4", text.warp), lambda: text.i("shr.u32", who, "1"),
    ))()  # fmt: skip
    place = text.i("mad.lo.s32", row, draw.choice(("32", "32", "32", "16", "40")), lane)
    kind = draw.choice(("y", "y", "x", "of y", "of x", "tile", "meet"))
    if kind == "y":
        text.store("y", place, text.sum)
    elif kind == "x":
        text.store("x", place, text.t)
    elif kind == "meet":
        text.meet()
    elif kind == "tile":
        at = text.tile("0", text.i("and.b32", text.i("add.s32", text.t, draw.choice((cta, "1", "0"))), "63"))
        seen = text.op("ld.shared.u32 {}, [{}];", at, of="r")
        text.op(f"add.s32 {text.sum}, {text.sum}, {seen};")
    else:
        text.op(f"add.s32 {text.sum}, {text.sum}, {text.load(kind[-1], place)};")
