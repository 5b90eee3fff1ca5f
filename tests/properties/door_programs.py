"""Kernels of Numba's dialect by two doors: wsemu's own front end, and the PTX that Numba-CUDA makes of them.

A program is text: variables of every type that are assigned again in loops, branches and device functions, whether
these run or not; casts; operators of mixed types; shared and local arrays, barriers, atomics.  Numbers are small or
unsigned, and fractions binary, so that neither signed overflow, which Numba's compiler takes never to happen, nor the
contraction of products has a say.  Both doors must store the same bits and say the same of the launch.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

import wsemu
from wsemu import cuda
from wsemu.model.errors import KernelError, UnsupportedError, WsemuError
from wsemu.model.settings import Settings, using

THREADS = 64
DTYPES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64".split()
SIGNED, FLOATING = ("int64", "int32", "int16"), ("float64", "float32")
GLOBALS: dict[str, Any] = {"N": 5, "ZERO": 0, "PAIR": (1, 2), "HALF": 0.5, "YES": True, "FOUR": np.int32(4)}
_NEVER = (
    "ZERO",
    "N > 7",
    "1 > 5",
    "PAIR[0] > 3",
    "N + 1 > 20",
    "not N",
    "a.ndim > 1",
    "k > 3",
    "m[0] == 9",
    "0",
    "N in m",
    "N in PAIR",
    "N in (1, 2)",
    "N in [1, 2]",
    "()",
    "not m",
    "N - 5",
    "(N > 9 if t > 3 else N > 8)",
    "9 < N < 20",
    "none",
    "none > 5",
    "never",
    "late",
    "late > 5",
    "(0, 1)[0]",
    "below(3)",
)
_ALWAYS = (
    "N",
    "N > 3",
    "True",
    "PAIR[0] == 1",
    "N + 1 > 2",
    "FOUR > 3",
    "k == 1",
    "m[1] == 2",
    "len(m) == 2",
    "m",
    "1 in m",
    "N not in m",
    "(1,)",
    "N - 4",
    "1 < N < 20",
    "always",
    "late == 0",
)
_FALSE = ("N > 9 and N < 20", "N > 9", "0 if N > 9 else ZERO", "ZERO", "9 < N < 20", "N > 9 or N < 0")
_TRUE = ("N > 9 or N > 3", "early", "N if N > 3 else 0", "True", "1 < N < 20")
_RANGES = (
    "range(3)",
    "range(1)",
    "range(0)",
    "range(N - 3)",
    "range(n)",
    "range(ZERO)",
    "(1, 2, 3)",
    "range(4, 0, -2)",
)
_CASTS = ("int32", "int64", "uint32", "uint8", "int16", "float32", "float64", "uint64")
_VARIABLES = ("u", "v", "w")


class Writer:
    """Writes one program."""

    def __init__(self, source: random.Random) -> None:
        self.source = source
        self.lines: list[str] = []
        self.depth = 1
        self.counters = 0
        self.in_loop = 0
        self.weight = 0

    def pick(self, options: Any) -> Any:
        return self.source.choice(options)

    def chance(self, share: float) -> bool:
        return self.source.random() < share

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        self.line(head)
        self.depth += 1
        yield
        self.depth -= 1

    # -- expressions ---------------------------------------------------------------------------------------------------
    def leaf(self) -> str:
        leaves = "a[t] b[t] c[t] t n N HALF 1.5 2 -3 True PAIR[1] FOUR".split()
        return str(self.pick([*_VARIABLES, *leaves]))

    def expression(self, depth: int = 2) -> str:
        if depth == 0 or self.chance(0.25):
            return self.leaf()
        x, y = self.expression(depth - 1), self.expression(depth - 1)
        kind = self.source.random()
        if kind < 0.45:
            return f"({x} {self.pick('+-*')} {y})"
        if kind < 0.55:
            return f"{self.pick(_CASTS)}(min(max({x}, 0), 100))"
        if kind < 0.62:
            return f"({x} if {self.condition()} else {y})"
        if kind < 0.67:
            return f"({x} {self.pick(('and', 'or'))} {y})"
        if kind < 0.73:
            return f"{self.pick(('pick', 'within', 'inner', 'either'))}({x}, {self.pick(('2', 'n', '9', 'N', 't'))})"
        if kind < 0.79:
            return f"{self.pick(('min', 'max'))}({x}, {y})"
        if kind < 0.84:
            return f"({x} / {self.pick(('2', '4.0', '8'))})"
        if kind < 0.89:
            return f"({x} {self.pick(('//', '%'))} {self.pick(('3', '4', 'FOUR', '2.0'))})"
        if kind < 0.93:
            return f"({x}, {y})[{self.pick('01')}]"
        if kind < 0.97:
            return f"abs({x})"
        return f"(-{x})"

    def condition(self) -> str:
        kind = self.source.random()
        if kind < 0.3:
            return self.pick(_NEVER)  # type: ignore[no-any-return]
        if kind < 0.6:
            return self.pick(_ALWAYS)  # type: ignore[no-any-return]
        if kind < 0.7:
            return f"{self.pick(_NEVER + _ALWAYS)} {self.pick(('and', 'or'))} t > {self.source.randrange(8)}"
        if kind < 0.85:
            return f"t % {self.source.randrange(2, 5)} == {self.source.randrange(2)}"
        return f"{self.leaf()} {self.pick(('<', '>=', '=='))} {self.leaf()}"

    # -- statements ----------------------------------------------------------------------------------------------------
    def suite(self, most: int) -> None:
        for _ in range(self.source.randrange(1, most + 1)):
            self.statement()

    def statement(self) -> None:
        self.weight += 1
        nested = self.depth < 4 and self.weight < 14
        kind = self.source.random()
        name = self.pick(_VARIABLES)
        if kind < 0.32 or not nested:
            self.line(f"{name} = {self.expression()}")
        elif kind < 0.38:
            self.line(f"{name} {self.pick('+-')}= {self.leaf()}")
        elif kind < 0.43:
            self.line(
                f"{name}, {self.pick([x for x in _VARIABLES if x != name])} = {self.expression(1)}, {self.leaf()}"
            )
        elif kind < 0.62:
            self.branch()
        elif kind < 0.80:
            self.loop(self.pick(_RANGES))
        elif kind < 0.88:
            self.count()
        elif kind < 0.92:
            self.match()
        elif kind < 0.96:
            with self.block("while True:"):
                self.suite(2)
                self.line("break")
        else:
            self.line(f"k = {self.pick(('1', '2', 'N', 'k'))}")

    def branch(self) -> None:
        with self.block(f"if {self.condition()}:"):
            self.suite(2)
            if self.in_loop and self.chance(0.25):
                self.line(self.pick(("break", "continue")))
        if self.chance(0.4):
            with self.block("else:"):
                self.suite(2)

    def loop(self, over: str) -> None:
        target = self.pick(("i", "i", "i", "u"))
        self.in_loop += 1
        with self.block(f"for {target} in {over}:"):
            self.suite(3)
        self.in_loop -= 1
        if self.chance(0.2):
            with self.block("else:"):
                self.suite(1)

    def count(self) -> None:
        """Emit a `while` loop with a counter of its own, which a `continue` does not skip."""
        self.counters += 1
        counter = f"c{self.counters}"
        self.line(f"{counter} = {self.pick(('3', '2', '0', 'n', 'N', 't % 3'))}")
        self.in_loop += 1
        with self.block(f"while {counter} > 0:"):
            self.line(f"{counter} -= 1")
            self.suite(2)
        self.in_loop -= 1

    def match(self) -> None:
        with self.block(f"match {self.pick(('N', 'k', 'n', 't % 3'))}:"):
            for number in self.source.sample(range(7), 2):
                with self.block(f"case {number}:"):
                    self.suite(1)
            if self.chance(0.5):
                with self.block("case _:"):
                    self.suite(1)

    def exchange(self) -> None:
        """Emit an exchange through an array that threads share, or one of their own."""
        where, width = self.pick((("shared", THREADS), ("local", 4)))
        self.line(f"s = cuda.{where}.array({width}, np.{self.pick(_CASTS)})")
        self.line(f"s[t % {width}] = min(max({self.leaf()}, 0), 100)")
        if where == "shared" and not self.chance(0.15):
            self.line("cuda.syncthreads()")
        other = "t" if where == "local" else "t + 33"
        self.line(f"x = s[({other}) % {width}]" if where == "shared" else "x = s[t % 4]")
        self.line("w = x")


_HELPERS = """
@cuda.jit(device=True)
def pick(x, n):
    r = x
    for _ in range(2):
        if n > 5:
            r = 1.5
    return r


@cuda.jit(device=True)
def within(x, n):
    if n > 50:
        return 2.5
    return x


@cuda.jit(device=True)
def either(x, n, known=3):
    if known > 4:
        return 0.25
    return x if n is not None else 0.5


"""


class Program(NamedTuple):
    """A kernel's text, and the types of its arrays."""

    text: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    def __str__(self) -> str:
        return f"# arrays a, b, c: {', '.join(self.inputs)}; o, p: {', '.join(self.outputs)}\n{self.text}"


def door_program(source: random.Random) -> Program:
    """Return a random kernel."""
    w = Writer(source)
    w.line("t = cuda.threadIdx.x")
    w.line("k = 1")
    w.line("m = (1, 2)")
    w.line("x = 0")
    if w.chance(0.5):
        w.line("m = PAIR")
    w.line("none, early = 0, N")
    w.line(f"never = {w.pick(_FALSE)}")
    w.line(f"always = {w.pick(_TRUE)}")
    with w.block(w.pick(("for _ in range(3):", "if t > 3:", "for _ in range(n):"))):
        w.line("late = 0")
    with w.block("def below(z):"):
        w.line(f"return z > 9 + {w.pick(('none', 'N', 'ZERO'))}")
    with w.block("def inner(x, n):"):
        with w.block("if n > 5:"):
            w.line("return 1.5")
        w.line("return x")
    for name, start in zip(_VARIABLES, source.sample(["a[t]", "b[t]", "c[t]", "1.5", "0", "t", "n"], 3), strict=True):
        w.line(f"{name} = {start}")
    w.suite(4)
    if w.chance(0.4):
        w.exchange()
        w.suite(2)
    if w.chance(0.2):
        w.line(f"cuda.atomic.add(q, t % 4, {w.pick(('1', 't', 'n', 'N'))})")
    w.line(f"o[t] = {w.pick(_VARIABLES)} + {w.pick(_VARIABLES)} + x")
    w.line(f"p[{w.pick(('t', 't', 't', 't', 't', 't // 2'))}] = {w.pick(_VARIABLES)}")
    body = "\n".join(w.lines)
    inputs = tuple(source.choice(DTYPES) for _ in range(3))
    return Program(
        f"{_HELPERS}def kernel(a, b, c, n, o, p, q):\n{body}\n", inputs, (source.choice(FLOATING), "float64")
    )


def arrays(program: Program) -> tuple[Any, ...]:
    """Return the kernel's arguments: distinct numbers; unsigned ones of 64 bits are large."""
    numbers = np.arange(THREADS)
    made = []
    for place, name in enumerate(program.inputs):
        if name == "bool":
            made.append(numbers % (place + 2) == 0)
        elif name.startswith("float"):
            made.append(((numbers * (place + 3) % 17 - 8) / 4).astype(name))
        elif name == "uint64":
            made.append(np.where(numbers % 3 == 0, np.uint64(2**63 + 5), numbers.astype(np.uint64)).astype(name))
        else:
            made.append((numbers * (place + 5) % 23 - (0 if name[0] == "u" else 11)).astype(name))
    outputs = [np.zeros(THREADS, name) for name in program.outputs]
    return (*made, 3, *outputs, np.zeros(4, np.int64))


def functions(program: Program) -> Any:
    """Return the kernel that a text defines."""
    space: dict[str, Any] = {
        "cuda": cuda, "np": np, **GLOBALS, **{name: getattr(np, name) for name in _CASTS},
    }  # fmt: skip
    exec(compile(program.text, "<door>", "exec"), space)
    for part in ("pick", "within", "either", "kernel"):
        function = getattr(space[part], "py_func", space[part])
        function.__source__ = program.text
    return cuda.jit(space["kernel"])


class Door(NamedTuple):
    """The result of one front end on a program: its bits, verdict and codes, or why it rejects the program."""

    bits: tuple[bytes, ...]
    verdict: str
    codes: tuple[str, ...]
    closed: str = ""
    wrong: bool = False
    """true if it reports an error in the kernel, not that the kernel is unsupported"""
    loads_shared: bool = True
    """false if the compiler removed every load of the array that threads share"""


def _through(launch: Callable[[tuple[Any, ...]], Any], given: tuple[Any, ...]) -> Door:
    report = launch(given)
    if any("it was not run" in note for note in report.notes):
        return Door((), "", (), report.notes[0])
    codes = tuple(sorted({finding.code for finding in report.findings if finding.severity == "error"}))
    bits = tuple(x.tobytes() for x in given if isinstance(x, np.ndarray))
    return Door(bits, report.verdict, codes)


def own_door(program: Program) -> Door:
    """Run a kernel by wsemu's front end."""
    kernel = functions(program)
    try:
        with using(Settings(numba_ptx=False)):
            found = _through(lambda given: wsemu.check(kernel, 1, THREADS, given), arrays(program))
    except UnsupportedError as error:
        return Door((), "", (), str(error))
    except KernelError as error:
        return Door((), "", (), str(error), True)
    return found


def numba_door(program: Program) -> Door:
    """Run a kernel by Numba-CUDA's PTX."""
    from wsemu.backends import offline

    given = arrays(program)
    try:
        made = offline.compile_kernel(functions(program), given)
    except WsemuError:
        raise
    except Exception as error:  # Numba also stops by errors of its passes, such as "liveness info missing for vars"
        return Door((), "", (), str(error) or type(error).__name__, True)
    code = wsemu.load_ptx(made.ptx).only()
    found = _through(lambda arguments: wsemu.check(code, 1, THREADS, offline.pack_arguments(arguments)), given)
    return found._replace(loads_shared="ld.shared" in made.ptx)


class Compared(NamedTuple):
    """The result of one program: `outcome` for counts, `complaint` if the front ends differ."""

    outcome: str
    complaint: str = ""


def _races_in_shared_alone(program: Program, door: Door) -> bool:
    """Return whether a door's errors are races, and only an exchange through the shared array can have them."""
    races = bool(door.codes) and {"race", "intra-warp-race"}.issuperset(door.codes)
    return races and "cuda.shared.array" in program.text and "p[t // 2]" not in program.text


def compare_doors(program: Program) -> Compared:
    """Compare the front ends on one program."""
    own = own_door(program)
    numba = numba_door(program)
    if numba.closed:
        return Compared("Numba refuses")
    if own.closed:
        return Compared("refused", f"refused: {own.closed}" if own.wrong else "")
    if numba.verdict == "verified" and not numba.loads_shared and _races_in_shared_alone(program, own):
        return Compared("Numba removes the racing load")
    if (own.verdict, own.codes) != (numba.verdict, numba.codes):
        return Compared(own.verdict, f"{own.verdict} {own.codes}, Numba's PTX {numba.verdict} {numba.codes}")
    if own.verdict == "verified" and own.bits != numba.bits:
        place = next(n for n, (x, y) in enumerate(zip(own.bits, numba.bits, strict=True)) if x != y)
        return Compared(own.verdict, f"array {place} differs")
    return Compared(own.verdict)
