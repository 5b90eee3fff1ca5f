"""Programs that are wrong: kernels of random syntax, kernels of ours with their syntax tree changed, odd launches."""

from __future__ import annotations

import ast
import random
from pathlib import Path

from wsemu import cuda, ptx

ROOT = Path(__file__).parents[1]
SOURCES = sorted(
    path
    for pattern in ("examples/broken/*.py", "tests/pass/*.py", "tests/fail/*/*.py", "tests/incomplete/*.py")
    for path in ROOT.glob(pattern)
)
"""programs whose kernels are changed: small ones"""
_HEAD = """\
import math
import operator
import numpy as np
from wsemu import cuda, ptx

SIZE, PAIR, NAME, NOTHING = 8, (4, np.float32), "text", None
TABLE = np.arange(8, dtype=np.float32)

"""
_FUNCTIONS = [
    *(f"cuda.{name}" for name in dir(cuda) if not name.startswith("_")),
    *(f"cuda.atomic.{name}" for name in ("add", "sub", "max", "cas", "exch", "compare_and_swap", "nothing")),
    *(f"cuda.{part}.array" for part in ("shared", "local", "const")),
    *(f"ptx.{name}" for name in dir(ptx) if not name.startswith("_")),
    *(f"math.{name}" for name in ("sqrt", "exp", "floor", "pow", "fma", "isnan", "gcd", "pi")),
    *(f"np.{name}" for name in "float32 int64 uint8 bool_ complex64 float16 sqrt minimum zeros array dot pi".split()),
    *"int float bool complex abs min max range len sum pow round divmod print zip enumerate sorted".split(),
    *"tuple list map helper kernel type isinstance getattr str slice open super exec operator.add".split(),
]
_NAMES = "x y n f i j k tile acc lane SIZE PAIR NAME NOTHING TABLE cuda ptx np math helper unknown".split()
_TARGETS = "x y n i j k tile acc lane SIZE helper cuda".split()
_INDICES = (
    "cuda.threadIdx.x cuda.threadIdx cuda.blockIdx.y cuda.blockDim.x cuda.gridDim cuda.warpsize cuda.laneid".split()
)
CONSTANTS = (
    "0 1 2 3 7 31 32 33 64 -1 -2 1.5 0.0 -0.0 1e400 1e-320 1j 2**31 2**63 2**64 2**200 10**30 -(2**63) 0xffffffff True "
    "False None ... 'text' b'bytes' '' '\\x1b[2J' '<b>' '%0A::error::' () [] {} (1,2) [1,2,3] {1:2} {1} np.nan np.inf"
).split()
_BINARY = "+ - * / // % ** << >> & | ^ @".split()
_COMPARE = [*"< <= == != > >= is in".split(), "not in", "is not"]
_TIDY = "i j k n f acc lane cuda.threadIdx.x cuda.blockIdx.x 0 1 2 7 31 32 64 -1 1.5 2**31 3.0 True".split()
_NUMBERS = "0 1 2 31 32 33".split()
_LAUNCHES = "1,32 1,64 2,96 1,1 4,33".split()
_ODD_LAUNCHES = (
    "0,32 1,0 -1,32 1,1025 1,2**31 2**31-1,1024 2**31,1 2**70,1 (2**31-1,65535,65535),1024 (1,2,3),(4,4,2) (1,2,3,4),1 "
    "(),1 1.0,32 1,32.5 None,1 1,None '1',1 [1,2],[3] 1,(1024,1,1),0,10**9 1,32,0,232448 1,32,None,-1 1,32,0,'8' 1 "
    "1,32,0,0,0 True,True np.int64(1),np.uint8(32) 1,(32,32,2) x,y ...,... slice(1),1 1e400,1 float('nan'),1"
).split()
_ARRAYS = [
    "np.arange(64, dtype=np.float32)", "np.zeros(32)", "np.zeros((8, 8), np.int32)", "np.zeros(64, np.int64)",
]  # fmt: skip
_ODD = [
    "np.zeros(0)", "np.zeros((0, 5), np.float32)", "np.zeros(())", "np.zeros((1,) * 12)", "np.zeros(4, object)",
    "np.array(['a'])", "np.zeros(4, 'M8[s]')", "np.zeros(4, [('a', 'i4'), ('b', 'f8')])", "np.zeros(8)[::-1]",
    "np.zeros((4, 4)).T[1:, ::2]", "np.broadcast_to(np.float32(1), (1 << 40,))", "np.zeros(4, '>f4')",
    "np.frombuffer(b'12345678', np.float32)", "np.ma.zeros(4)", "np.zeros(4, np.longdouble)",
    "np.zeros(4, np.complex64)",
    "np.zeros(4, np.float16)", "np.zeros(1 << 33, np.uint8)", "np.zeros((1 << 20, 1 << 12), np.uint8)",
    "np.frombuffer(bytearray(41), np.uint8)[1:].view(np.float64)", "np.zeros(16, bool)", "np.matrix([[1, 2]])",
    "[0.0] * 4", "()", "(1, 2)", "(np.zeros(4), 1)", "'text'", "'\\x1b[2J<b>'", "b'x'", "None", "...", "1j", "10**30",
    "-(2**63)", "2**63", "2**64", "1e400", "float('nan')", "True", "np.float16(1)", "np.str_('a')", "object()", "print",
    "range(3)", "{}", "kernel", "cuda", "type", "iter([])", "cuda.device_array(8)", "cuda.to_device(np.zeros(4))",
    "np.random", "memoryview(b'12')", "np.datetime64('now')", "np.timedelta64(1, 's')", "cuda.stream()",
    "np.dtype('i4')",
]  # fmt: skip


class Writer:
    """Statements and expressions drawn from a grammar: mostly those of the dialect, with random types.

    A `tidy` writer uses only names that are assigned and functions of numbers, so that more of its kernels compile and
    run.
    """

    def __init__(self, chance: random.Random, tidy: bool = False) -> None:
        self.chance, self.tidy = chance, tidy

    def expression(self, depth: int = 3) -> str:
        """Return an expression of at most this `depth`."""
        if depth <= 0 or self.chance.random() < 0.2:
            return self.leaf()
        if self.tidy:
            return self._tidy(depth - 1)
        if self.chance.random() < 0.7:
            return self._usual(depth - 1)
        return self._odd(depth - 1)

    def leaf(self) -> str:
        if self.tidy:
            return self.chance.choice(_TIDY)
        kinds = (_NAMES, _NAMES, _INDICES, CONSTANTS, _NUMBERS, _NUMBERS)
        return self.chance.choice(self.chance.choice(kinds))

    def _usual(self, depth: int) -> str:
        one, other = self.expression(depth), self.expression(depth)
        return self.chance.choice(
            [
                f"({one} {self.chance.choice(_BINARY)} {other})",
                f"({one} {self.chance.choice(_BINARY)} {other})",
                f"({one} {self.chance.choice(_COMPARE)} {other})",
                f"{self.chance.choice(['x', 'y', 'tile', 'TABLE', one])}[{other}]",
                f"{self.chance.choice(_FUNCTIONS)}({self.arguments(depth)})",
                f"{self.chance.choice(_FUNCTIONS)}({self.arguments(depth)})",
                f"({self.chance.choice(['-', '~', 'not ', '+'])}{one})",
                f"({one} {self.chance.choice(['and', 'or'])} {other})",
                f"({one} if {other} else {self.expression(depth)})",
                f"({one}, {other})",
            ]
        )

    def _tidy(self, depth: int) -> str:
        one, other = self.expression(depth), self.expression(depth)
        return self.chance.choice(
            [
                f"({one} {self.chance.choice(_BINARY[:-1])} {other})",
                f"({one} {self.chance.choice('+ - *'.split())} {other})",
                f"({one} {self.chance.choice(_COMPARE[:6])} {other})",
                f"{self.chance.choice(['x', 'y', 'tile', 'TABLE'])}[int({one})]",
                f"{self.chance.choice('x tile'.split())}[{self.chance.choice('i j k lane 0 31'.split())}]",
                f"{self.chance.choice('min max pow cuda.select math.fmod'.split())}({one}, {other})",
                f"{self.chance.choice('int float abs bool math.sqrt np.float32 np.uint8'.split())}({one})",
                f"({one} if {other} else {self.expression(depth)})",
                f"cuda.{self.chance.choice(['shfl_sync', 'shfl_xor_sync'])}(-1, {one}, int({other}))",
                f"cuda.atomic.add({self.chance.choice(['y', 'tile'])}, int({one}), {other})",
            ]
        )

    def _odd(self, depth: int) -> str:
        one, other, name = self.expression(depth), self.expression(depth), self.chance.choice(_TARGETS)
        return self.chance.choice(
            [
                f"[{one} for {name} in {other}]", f"{{{one}: {other}}}", f"(lambda {name}: {one})({other})",
                f"({name} := {one})", f"f'{{{name}}}'", f"{name}[{one}:{other}]", f"{name}[..., {one}]", f"[*{one}]",
                f"{name}[{one}:{other}:{self.leaf()}]", f"{name}.shape[{one}]", f"{name}.{self.chance.choice(_NAMES)}",
                f"(yield {one})", f"(await {one})", f"({one} < {other} <= {self.leaf()})",
                f"sum({one} for i in {other})",
                f"{name}.astype({one})", f"{name}.T", f"{name}.reshape({one}, {other})", f"{one}({other})",
                f"{{*{one}}}",
                f"'{name}' '{name}'", f"{name}.__class__", f"({one})[{other}][{one}]", f"({one}, *{other})",
            ]
        )  # fmt: skip

    def arguments(self, depth: int) -> str:
        """Return arguments of a call: several or none, sometimes named or starred."""
        given = [self.expression(depth) for _ in range(self.chance.choice([0, 1, 1, 2, 2, 2, 3, 4]))]
        if given and self.chance.random() < 0.1:
            given[-1] = self.chance.choice(["*", "**", "dtype=", "shape=", "n=", "end="]) + given[-1]
        return ", ".join(given)

    def target(self, depth: int = 1) -> str:
        if self.tidy:
            index = self.chance.choice("i j k lane 0 31".split())
            return self.chance.choice(["acc", "acc", "lane", f"y[{index}]", f"tile[{index}]"])
        name = self.chance.choice(_TARGETS)
        return self.chance.choice([name, name, f"{name}[{self.expression(depth)}]", f"y[{self.expression(depth)}]"])

    def block(self, depth: int, most: int = 4) -> list[str]:
        """Return statements as lines, indented once."""
        lines = [line for _ in range(self.chance.randint(1, most)) for line in self.statement(depth)]
        return [f"    {line}" for line in lines]

    def statement(self, depth: int) -> list[str]:
        """Return a statement as lines."""
        if depth > 0 and self.chance.random() < 0.3:
            return self._compound(depth - 1)
        if self.chance.random() < (0.03 if self.tidy else 0.15):
            return [self._rare()]
        value = self.expression()
        simple = [
            f"{self.target()} = {value}",
            f"{self.target()} = {value}",
            f"{self.target()} {self.chance.choice(_BINARY)}= {value}",
            f"y[cuda.threadIdx.x] = {value}",
            "tile[lane] = x[lane]"
            if self.tidy
            else f"tile = cuda.shared.array({self.leaf()}, {self.chance.choice(['np.float32', self.leaf()])})",
            f"ptx.bar_{self.chance.choice(['sync', 'arrive'])}({self.leaf()}, {self.leaf()})",
            "cuda.syncthreads()",
            f"{self.target()}, {self.target()} = {value}, {self.leaf()}",
            value,
        ]
        return [self.chance.choice(simple)]

    def _compound(self, depth: int) -> list[str]:
        name, value, body = self.chance.choice(_TARGETS), self.expression(2), self.block(depth)
        if self.tidy:
            return [self.chance.choice([f"if {value}:", f"while {value}:", f"for j in range(int({value})):"]), *body]
        head = self.chance.choice(
            [
                f"if {value}:", f"if {value}:", f"while {value}:", f"for {name} in range({self.arguments(1)}):",
                f"for {name} in {value}:", f"with {value} as {name}:", f"def {name}(a):", f"class {name}:",
            ]
        )  # fmt: skip
        after = ["else:", *self.block(depth)] if self.chance.random() < 0.3 else []
        if self.chance.random() < 0.05:
            head, after = "try:", [self.chance.choice(["except:", "finally:", f"except {name}:"]), *self.block(depth)]
        if self.chance.random() < 0.03:
            head, body, after = f"match {value}:", ["    case 1:", *(f"    {line}" for line in body)], []
        return [head, *body, *after]

    def _rare(self) -> str:
        name, value = self.chance.choice(_TARGETS), self.expression(2)
        return self.chance.choice(
            [
                "return", f"return {value}", "break", "continue", "pass", f"assert {value}, {self.leaf()}",
                f"del {name}",
                f"raise {value}", f"global {name}", f"nonlocal {name}", f"import {name}", f"from {name} import *",
                f"{name}: {self.leaf()} = {value}", f"{name} = *{value}, 1", f"*{name}, i = {value}", f"print({value})",
                f"{name}.x = {value}", f"{name}[{value}] = {name}[:] = 1", "# wsemu: ignore[race]", "exec('1')",
                f"{name} = {value} = 1", "else:", "  indented", f"{value})", "'''", "\\", "type T = int",
                "async def f(): 1",
            ]
        )  # fmt: skip


def of_grammar(chance: random.Random) -> str:
    """Return a program whose kernel and device function are drawn from the grammar."""
    tidy = chance.random() < 0.5
    writer = Writer(chance, tidy)
    inner = ["    return a + b"] if tidy else [*writer.block(1, 2), f"    return {writer.expression(2)}"]
    start = ["    i = j = k = lane = cuda.threadIdx.x", "    acc = 0.0", "    tile = cuda.shared.array(64, np.float32)"]
    body = [*(start if tidy or chance.random() < 0.7 else []), *writer.block(3, chance.choice([1, 1, 2, 3, 6]))]
    helper = ["@cuda.jit(device=True)", "def helper(a, b=1):", *inner]
    kernel = ["@cuda.jit", "def kernel(x, y, n, f):", *body]
    call = f"kernel[{chance.choice(_LAUNCHES)}]({chance.choice(_ARRAYS)}, {chance.choice(_ARRAYS)}, 5, 1.5)"
    return _HEAD + "\n".join([*helper, "", *kernel, "", call, ""])


_KERNELS = [
    "    x[0] = y[1] = 1\n",
    "    cuda.atomic.add(x, 0, y[n])\n",
    "    i = cuda.grid(1)\n    if i < n:\n        y[i] = x[i] * f\n",
    (
        "    tile = cuda.shared.array(64, np.float32)\n    i = cuda.threadIdx.x % 64\n    tile[i] = x[i]\n"
        "    cuda.syncthreads()\n    y[i] = tile[63 - i]\n"
    ),
    "    for k in range(n):\n        cuda.atomic.add(y, k, 1)\n",
    "    tile = cuda.shared.array(0, np.float32)\n    tile[cuda.threadIdx.x] = f\n    y[0] = tile[0]\n",
    "    pass\n",
    "    for k in range(x.shape[0]):\n        for j in x:\n            y[k] = j\n",
    "    y[n, n] = x[..., 0]\n",
    "    while n:\n        y[0] += 1\n",
]


def of_launches(chance: random.Random) -> str:
    """Return a correct kernel, launched with wrong shapes and arguments."""
    signature = chance.choice(
        ["", "", "", "", "", "", "", "('void(float32[:], float32[:], int32, float32)')", "('nonsense')", "(bad=1)"]
    )
    lines = [f"@cuda.jit{signature}\ndef kernel(x, y, n, f):\n{chance.choice(_KERNELS)}"]
    for _ in range(chance.randint(1, 2)):
        given = [chance.choice(_ODD if chance.random() < 0.25 else _ARRAYS) for _ in "xy"]
        given += [chance.choice(_ODD if chance.random() < 0.2 else ["5", "0", "-1"]), "1.5"]
        given = given[: chance.choice([4, 4, 4, 4, 4, 3, 0])] + ["1"] * (chance.random() < 0.05)
        shape = chance.choice(_ODD_LAUNCHES if chance.random() < 0.25 else _LAUNCHES)
        lines.append(f"x = y = 1\nkernel[{shape}]({', '.join(given)})\n")
    return _HEAD + "\n".join(lines)


# -- programs of ours with changed kernels -----------------------------------------------------------------------------
class _Changer(ast.NodeTransformer):
    """Changes one node of a tree: the n-th one that it visits."""

    def __init__(self, chance: random.Random, number: int) -> None:
        self.chance, self.left = chance, number
        self.writer = Writer(chance)

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, (ast.expr, ast.stmt, ast.operator, ast.cmpop)):
            self.left -= 1
            if self.left == 0:
                return self.changed(node)
        return super().generic_visit(node)

    def changed(self, node: ast.AST) -> ast.AST:
        """Return another node of the same kind."""
        if isinstance(node, (ast.operator, ast.cmpop)):
            known = ast.operator if isinstance(node, ast.operator) else ast.cmpop
            return self.chance.choice(known.__subclasses__())()
        if isinstance(node, ast.stmt):
            return self._statement(node)
        if isinstance(node, ast.expr) and not isinstance(getattr(node, "ctx", None), ast.Store):
            return self._expression(node)
        return node

    def _expression(self, node: ast.expr) -> ast.expr:
        if isinstance(node, ast.Call) and self.chance.random() < 0.5:
            given = list(node.args)
            self.chance.choice(
                [lambda: given and given.pop(), given.reverse, lambda: given.append(_parsed(self.writer.leaf()))]
            )()
            return ast.Call(node.func, given, node.keywords)
        if isinstance(node, ast.Attribute) and self.chance.random() < 0.5:
            names = self.chance.choice(_FUNCTIONS).rpartition(".")[2], "x", "shape", "nothing"
            return ast.Attribute(node.value, self.chance.choice(names), node.ctx)
        text = self.writer.leaf() if self.chance.random() < 0.6 else self.writer.expression(2)
        try:
            return _parsed(text)
        except SyntaxError:
            return ast.Constant(None)

    def _statement(self, node: ast.stmt) -> ast.stmt:
        if isinstance(node, ast.FunctionDef):
            return node
        test = _parsed(self.chance.choice(["cuda.threadIdx.x < 7", "1", "None", "cuda.laneid"]))
        whole = ast.Name("i", ast.Store())
        return self.chance.choice(
            [
                ast.Pass(),
                ast.If(test, [node], []),
                ast.If(test, [node, node], [node]),
                ast.While(test, [node], []),
                ast.For(whole, _parsed("range(3)"), [node], []),
                ast.Return(None),
                ast.Break(),
                ast.With([ast.withitem(test)], [node]),
                ast.FunctionDef("nested", _parsed_arguments(), [node], []),
            ]
        )


def _parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _parsed_arguments() -> ast.arguments:
    made = _parsed("lambda a: a")
    assert isinstance(made, ast.Lambda)
    return made.args


def changed_kernels(source: str, chance: random.Random) -> str:
    """Return the program with one to three changes within its kernels and device functions."""
    tree = ast.parse(source)
    kernels = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.decorator_list]
    for _ in range(chance.randint(1, 3)):
        kernel = chance.choice(kernels) if kernels else tree
        if isinstance(kernel, ast.FunctionDef) and chance.random() < 0.3:
            _reordered(kernel, chance)
            continue
        nodes = sum(isinstance(node, (ast.expr, ast.stmt, ast.operator, ast.cmpop)) for node in ast.walk(kernel))
        changer = _Changer(chance, chance.randint(1, nodes))
        if isinstance(kernel, ast.FunctionDef):
            kernel.body = [changer.visit(node) for node in kernel.body]
    return ast.unparse(ast.fix_missing_locations(tree))


def _reordered(kernel: ast.FunctionDef, chance: random.Random) -> None:
    """Delete, double, swap or move statements of a block."""
    blocks = [kernel.body, *(node.body for node in ast.walk(kernel) if isinstance(node, (ast.If, ast.For, ast.While)))]
    block = chance.choice(blocks)
    one, other = chance.randrange(len(block)), chance.randrange(len(block))
    match chance.randrange(4):
        case 0:
            block[one] = ast.Pass()
        case 1:
            block.insert(other, block[one])
        case 2:
            block[one], block[other] = block[other], block[one]
        case _:
            chance.choice(blocks).append(block[one] if not blocks[1:] else ast.Pass())


# -- programs that are wrong outside of kernels ------------------------------------------------------------------------
_KERNEL = "@cuda.jit\ndef kernel(y):\n    y[cuda.threadIdx.x] = 1\n\n"
_LAUNCH = "kernel[1, 32](np.zeros(32))\n"
BODIES = [
    "raise ValueError('\\x1b[2J<b>\\r\\n::error::x')\n",
    "raise BaseException('base')\n",
    "class Mine(BaseException): pass\nraise Mine()\n",
    "class Bad(Exception):\n    def __str__(self): raise RuntimeError('no text')\nraise Bad()\n",
    "class Bad(Exception):\n    def __str__(self): return 3\nraise Bad()\n",
    "raise ExceptionGroup('\\x1b[2J', [ValueError(1), ExceptionGroup('b', [KeyError('\\x1b')])])\n",
    "def f(n): return f(n + 1)\nf(0)\n",
    "def f(n): return g(n)\ndef g(n): return f(n)\nf(0)\n",
    "raise KeyboardInterrupt\n",
    "raise GeneratorExit\n",
    "raise BrokenPipeError\n",
    "raise StopIteration\n",
    "raise MemoryError\n",
    "raise SystemExit\n",
    "import sys; sys.exit(3)\n",
    "import sys; sys.exit(2**70)\n",
    "import sys; sys.exit(-1)\n",
    "import sys; sys.exit('\\x1b[2Jstopped')\n",
    "import sys; sys.exit(object)\n",
    "class Bad:\n    def __str__(self): raise RuntimeError('no text')\nraise SystemExit(Bad())\n",
    "import sys; sys.stdout.close()\n",
    "import sys; sys.stdout = None\n",
    "import sys; sys.stdout = open('/dev/full', 'w')\n",
    "import sys; sys.modules.clear()\n",
    "import sys; del sys.modules['numpy']; import linecache; linecache.cache = None\n",
    "import os; os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone')\n",
    "import os; os.remove(__file__)\n",
    "import os; os.close(1)\n",
    "import sys; sys.setrecursionlimit(60)\n",
    "import sys; sys.argv = None; sys.path = None\n",
    "import warnings; warnings.simplefilter('error')\n",
    "import builtins; builtins.len = None\n",
    "import no_such_module\n",
    "from numba.cuda import no_such_name\n",
    "import numba.cuda.no_such_part\n",
    "from wsemu import no_such_name\n",
    "kernel.__name__ = '\\x1b[2J<b>\\n::error::x'\n",
    "kernel.py_func.__name__ = '\\x1b[2J<b>\\n::error::x'\n",
    "kernel.__name__ = 3\n",
    "kernel.py_func = None\n",
    "kernel.py_func.__code__ = (lambda y: y).__code__\n",
    "kernel.nothing\n",
    "kernel(1)\n",
    "kernel[1]\n",
    "kernel[1, 32]()\n",
    "kernel[1, 32](y=1)\n",
    "cuda.jit(3)\n",
    "cuda.jit('void(float32)')(lambda x: x)\n",
    "cuda.jit(lambda y: y[0])[1, 1](np.zeros(1))\n",
    "cuda.jit(print)[1, 1]()\n",
    "exec('@cuda.jit\\ndef made(y):\\n    y[0] = 1\\nmade[1, 1](np.zeros(1))')\n",
    "t = '@cuda.jit\\ndef k(y):\\n    y[x]=1\\nk[1,1](np.zeros(1))'\nexec(compile(t, '\\x1b\\n::error::', 'exec'))\n",
    "@cuda.jit\ndef k(*args): args[0][0] = 1\nk[1, 1](np.zeros(1))\n",
    "@cuda.jit\ndef k(y, *, z=1): y[0] = z\nk[1, 1](np.zeros(1))\n",
    "@cuda.jit\ndef k(y, z=1): y[0] = z\nk[1, 1](np.zeros(1))\n",
    "@cuda.jit\ndef k(y): yield 1\nk[1, 1](np.zeros(1))\n",
    "@cuda.jit\nasync def k(y): y[0] = 1\nk[1, 1](np.zeros(1))\n",
    "@cuda.jit\nclass K: pass\nK[1, 1]()\n",
    "def outer():\n    z = object()\n    @cuda.jit\n    def k(y): y[0] = z\n    return k\nouter()[1, 1](np.zeros(1))\n",
    "def outer():\n    @cuda.jit\n    def k(y): y[0] = z\n    k[1, 1](np.zeros(1))\n    z = 1\nouter()\n",
    "import threading\nthreading.Thread(target=lambda: kernel[1, 32](np.zeros(32))).start()\n",
    "import os\nif os.fork() == 0: kernel[1, 32](np.zeros(32)); os._exit(0)\nos.wait()\n",
    "try:\n    kernel[0, 0](1)\nexcept Exception: pass\n",
    "assert kernel is None, '\\x1b[2J'\n",
    "import wsemu\nwsemu.check(kernel, 1, 32, None)\n",
    "import wsemu\nwsemu.check(kernel, 1, 32, (np.zeros(32),), checkers='race')\n",
    "import wsemu\nwsemu.check(kernel, 1, 32, (np.zeros(32),), workers=-1)\n",
    "import wsemu\nwsemu.check(kernel, 1, 32, (np.zeros(32),), budget='x')\n",
    "import wsemu\nwsemu.check(kernel, 1, 32, (np.zeros(8),)).assert_clean()\n",
    "import wsemu\nwsemu.check(kernel, 1, 32, (np.zeros(8),), fail_on=[3], uninitialized=[4])\n",
    "import wsemu\nwsemu.check(kernel, 1, 32, (np.zeros(8),), arch=90, dynamic_shared=1.5)\n",
    "import wsemu\nwsemu.replay('no such file', kernel, (np.zeros(8),))\n",
]
"""statements of a host program; a kernel and a launch surround them"""

ALSO = {"KeyboardInterrupt": 130, "sys.modules.clear()": 4, "builtins.len": 4}
"""exit codes besides 0 to 3: for a program that is interrupted, and for one that breaks Python itself"""


def of_host(chance: random.Random) -> str:
    """Return a host program with an error outside of its kernels, before or after a launch."""
    body = chance.choice(BODIES)
    parts = [body, _LAUNCH] if chance.random() < 0.5 else [_LAUNCH, body]
    return _HEAD + _KERNEL + "".join(parts)


TEXTS = [
    b"", b"\0", b"\xff\xfe\0", "\ufeffx = 1\n".encode(), b"# coding: nonsense\n", b"# coding: latin-1\nx = '\xe9'\n",
    b"x = '\xe9'\n", b"def", b"(" * 5000, b"[" * 150 + b"]" * 150, b"x = " + b"-" * 20_000 + b"1\n",
    b"x = " + b"+".join([b"1"] * 20_000) + b"\n", b"if 1:\n" * 120, b"\tx\n        y\n", b"x = 1" + b"1" * 6000 + b"\n",
    b"print('\x1b[2J'", b"\x1b[2J<b>", b"::error::x\n", b"<?xml version='1.0'?>", b"\x7fELF\x02\x01\x01", b"\r\r\n\r",
    b"\x0c",
    b"'" * 3, b"f'{", b"return\n", b"break\n", b"await x\n", b"yield 1\n", b"from __future__ import nonsense\n",
    b"nonlocal x\n", b"a" * 100_000, b"import wsemu\n" * 3000, b"1 is 1\n", b"'\\d'\n", b"x = 0777\n",
    b"async with x: pass\n",
]  # fmt: skip
"""files that are hardly programs"""


def of_text(chance: random.Random) -> bytes:
    """Return a file that Python rejects, or a valid one that is truncated or changed byte by byte."""
    if chance.random() < 0.5:
        return chance.choice(TEXTS)
    data = bytearray(chance.choice(SOURCES).read_bytes())
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(data) or 1)
        if chance.random() < 0.3:
            del data[at:]
        elif chance.random() < 0.5:
            data[at : at + 1] = bytes([chance.randrange(256)])
        else:
            data[at : at + chance.randrange(1, 20)] = b""
    return bytes(data)
