"""What kernels may not say: the message, the place it points at, and that there is always a remedy."""

# ruff: noqa: E501 - a case is one line

from __future__ import annotations

import linecache
from typing import Any

import numpy as np
import pytest

from wsemu.frontend.python.compile import argument_type, compile_kernel
from wsemu.model.errors import KernelError, UnsupportedError

PRELUDE = """\
import math
from dataclasses import dataclass
import numpy as np
from wsemu import cuda, ptx
TABLE = np.arange(4.0)
records = np.zeros(3, np.dtype([("a", "i4"), ("b", "f4", 3)]))
strings = np.array(["a", "b"])
@dataclass(frozen=True)
class Pattern:
    field: int
    def get(self):
        return self.field + self.missing
obj = Pattern(3)
def device(a, b):
    return a + b
def outer(n):
    return inner(n) + 1
def inner(n):
    return n.foo
def endless(n):
    return endless(n) + 1
def generator(n):
    yield n
async def coroutine(n):
    return n
"""

# body of a kernel of (x: float32[64], y: float32[8, 8], n: int64) ; what the error points at ; part of its message
CASES = r"""
K ;; x[1.5] = 0 ;; 1.5 ;; an index is a float64
K ;; x[n / 2] = 0 ;; n / 2 ;; an index is a float64
K ;; foo(x) ;; foo ;; unknown name `foo`
K ;; x[0] = bar ;; bar ;; unknown name `bar`
K ;; x[0] = math.foo(1) ;; math.foo ;; `math` has no attribute `foo`
K ;; x[0] = cuda.threadIdx.w ;; cuda.threadIdx.w ;; `cuda.threadIdx` has no attribute `w`
K ;; x[0] = cuda.syncthread() ;; cuda.syncthread ;; `wsemu.cuda` has no attribute `syncthread`
K ;; cuda.syncthreads(1) ;; cuda.syncthreads(1) ;; `cuda.syncthreads` got 1 arguments
K ;; x[0] = math.sin(1, 2) ;; math.sin(1, 2) ;; `math.sin` got 2 arguments
U ;; t = [1, 2] ;; [1, 2] ;; a list in a kernel
U ;; t = {1: 2} ;; {1: 2} ;; a dict in a kernel
U ;; t = {1, 2} ;; {1, 2} ;; a set in a kernel
U ;; try: x[0] = 1\nexcept ValueError: pass ;; try: x[0] = 1 ;; `try` in a kernel
U ;; with x: pass ;; with x: pass ;; `with` in a kernel
U ;; s = f"{n}" ;; f"{n}" ;; an f-string in a kernel
K ;; x[0] = "a" + "b" ;; "a" + "b" ;; `+` is not defined for 'a' and 'b'
K ;; x[0] = "a" * 2 ;; "a" * 2 ;; `*` is not defined for 'a' and int64
K ;; x[0] = n(3) ;; n(3) ;; int64 is not a function
K ;; x[0] = n[3] ;; n[3] ;; int64 cannot be indexed
K ;; x[0] = x[0, 0] ;; x[0, 0] ;; array `x` has 1 dimensions, the index 2
K ;; x[0] = y[0, 0, 0] ;; y[0, 0, 0] ;; array `y` has 2 dimensions, the index 3
K ;; t = cuda.shared.array(n, np.float32) ;; cuda.shared.array(n, np.float32) ;; the shape of a shared array must be constant integers
K ;; t = cuda.shared.array((4, n), np.float32) ;; cuda.shared.array((4, n), np.float32) ;; the shape of a shared array must be constant integers
K ;; t = cuda.shared.array(4, 7) ;; cuda.shared.array(4, 7) ;; int64 is no dtype
K ;; t = cuda.shared.array(4, "foo") ;; cuda.shared.array(4, "foo") ;; 'foo' is no dtype
K ;; t = cuda.shared.array(4) ;; cuda.shared.array(4) ;; `cuda.shared.array` lacks `dtype`
K ;; t = cuda.local.array(-4, np.float32) ;; cuda.local.array(-4, np.float32) ;; the shape of a local array must be constant integers
K ;; t = cuda.local.array(4.0, np.float32) ;; cuda.local.array(4.0, np.float32) ;; the shape of a local array must be constant integers
K ;; return 3 ;; 3 ;; a kernel returns a value
K ;; return x ;; x ;; a kernel returns a value
K ;; if n > 3: v = 1\nelse: v = (1, 2)\nx[0] = v ;; v ;; `v` is int64 on one path and a tuple of 2 on another
K ;; v = 1\nfor i in range(n): v = (v, i)\nx[0] = v[0] ;; v ;; `v` is int64 on one path and a tuple of 2 on another
U ;; class A: pass ;; class A: pass ;; a class in a kernel
K ;; x[0] = cuda.threadIdx ;; cuda.threadIdx ;; `cuda.threadIdx` cannot be stored into an array
K ;; x[0] = cuda.threadIdx + 1 ;; cuda.threadIdx + 1 ;; `+` is not defined for `cuda.threadIdx` and int64
K ;; x[0] = None ;; None ;; None cannot be stored into an array
K ;; x[0] = None.foo ;; None.foo ;; `None` has no attribute `foo`
K ;; x[0] = (1, 2)[2] ;; (1, 2)[2] ;; index 2 lies outside a tuple of 2
K ;; TABLE[0] = 1 ;; TABLE[0] ;; `TABLE` is constant
K ;; x[0] = TABLE[0.5] ;; 0.5 ;; an index is a float64
U ;; x = y @ y ;; y @ y ;; `@` in a kernel
K ;; x[0] = x ;; x[0] ;; conversion to float32 needs a number, not array `x`
U ;; x[0] = x + 1 ;; x + 1 ;; arithmetic on the whole array `x`
K ;; x += 1 ;; x += 1 ;; `+` works on elements, not on the whole array `x`
U ;; x[:] += 1 ;; x[:] ;; `+=` on a whole array or slice
K ;; a, b = 1, 2, 3 ;; a, b ;; 3 values for 2 names
U ;; a, *b = 1, 2, 3 ;; *b ;; `*` in an assignment
K ;; a, b = n ;; a, b ;; int64 cannot be taken apart
K ;; for i in n: pass ;; n ;; int64 cannot be taken apart
K ;; for i in range(1.5): pass ;; 1.5 ;; `range` of float64
K ;; for i in range(1, 2, 0): pass ;; 0 ;; `range` with a step of 0
K ;; for i in range(): pass ;; range() ;; `range` got 0 arguments
K ;; for i in x.foo: pass ;; x.foo ;; array `x` has no attribute `foo`
U ;; for i in [1, 2]: pass ;; [1, 2] ;; a list in a kernel
K ;; while x: pass ;; x ;; array `x` is neither true nor false
K ;; if x: pass ;; x ;; array `x` is neither true nor false
K ;; if y[0]: pass ;; y[0] ;; array `y` is neither true nor false
K ;; x[0] = v ;; v ;; unknown name `v`
K ;; v += 1 ;; v ;; `v` is used before it is assigned
U ;; del x ;; del x ;; `del` in a kernel
U ;; global TABLE; TABLE = 4 ;; global TABLE ;; `global` in a kernel
U ;; import math ;; import math ;; `import` in a kernel
U ;; (z := 3) ;; z := 3 ;; `:=` in a kernel
U ;; x[0] = sum([1 for i in range(3)]) ;; [1 for i in range(3)] ;; a comprehension in a kernel
U ;; x[0] = sum(i for i in range(3)) ;; (i for i in range(3)) ;; a generator in a kernel
K ;; x[0] = device(1) ;; device(1) ;; `device` lacks its argument `b`
K ;; x[0] = device(1, 2, 3) ;; device(1, 2, 3) ;; `device` takes 2 arguments, not 3
K ;; x[0] = device(1, c=2) ;; device(1, c=2) ;; `device` has no parameter `c`
U ;; x[0] = open("f") ;; open("f") ;; unknown function `io.open` in a kernel
U ;; x[0] = np.zeros(3) ;; np.zeros(3) ;; unknown function `numpy.zeros` in a kernel
K ;; x[0] = np.sqrt(2.0) ;; np.sqrt(2.0) ;; `np.sqrt` is not part of Numba-CUDA
U ;; x.sort() ;; x.sort ;; array `x` has no attribute `sort`
K ;; x.shape = 3 ;; x.shape ;; array `x` has no attribute that a kernel may assign
K ;; n.foo = 3 ;; n.foo ;; int64 has no attribute that a kernel may assign
K ;; x[0] = x.shape[3] ;; x.shape[3] ;; index 3 lies outside a tuple of 1
K ;; x[0] = x.T.foo ;; x.T.foo ;; array `x` has no attribute `foo`
K ;; x[0] = x.reshape(2, "a") ;; x.reshape(2, "a") ;; array `x` is indexed with 'a'
K ;; x[0] = x.view(3)[0] ;; x.view(3) ;; int64 is no dtype
K ;; x[0] = x[::n][0.5] ;; 0.5 ;; an index is a float64
K ;; x[0] = x["a"] ;; x["a"] ;; array `x` is indexed with 'a'
K ;; x[None] = 3 ;; x[None] ;; array `x` is indexed with None
K ;; x[...] = y ;; x[...] ;; `y` has more dimensions than what it is assigned to
K ;; x[0] = len(n) ;; len(n) ;; `len` of int64
K ;; x[0] = len(1, 2) ;; len(1, 2) ;; `len` got 2 arguments
K ;; x[0] = max(1) ;; max(1) ;; `max` needs two or more numbers, or a tuple of them
K ;; x[0] = abs() ;; abs() ;; `abs` got 0 arguments
U ;; x[0] = min(x) ;; min(x) ;; `min` needs two or more numbers, or a tuple of them
K ;; x[0] = int("3") ;; int("3") ;; `int` needs a number, not '3'
K ;; x[0] = 1 << 1.5 ;; 1 << 1.5 ;; `<<` is not defined for int64 and float64
K ;; x[0] = n & 1.0 ;; n & 1.0 ;; `&` is not defined for int64 and float64
K ;; x[0] = -x ;; -x ;; `-` needs a number, not array `x`
K ;; x[0] = not x ;; x ;; array `x` is neither true nor false
K ;; x[0] = x < 3 ;; x < 3 ;; `<` works on elements, not on the whole array `x`
K ;; x[0] = 3 in n ;; 3 in n ;; int64 cannot be taken apart
K ;; x[0] = 1 if x else 2 ;; x ;; array `x` is neither true nor false
K ;; x[0] = 1j ;; x[0] ;; a complex128 does not convert to float32
K ;; x[0] = np ;; np ;; `numpy` cannot be stored into an array
K ;; x[0] = math ;; math ;; `math` cannot be stored into an array
K ;; np() ;; np() ;; `numpy` is not a function but a module
K ;; math() ;; math() ;; `math` is not a function but a module
K ;; x[0] = obj.missing ;; obj.missing ;; `Pattern` has no attribute `missing`
K ;; x[0] = obj.nothing() ;; obj.nothing ;; `Pattern` has no attribute `nothing`
K ;; obj.field = 3 ;; obj.field ;; `Pattern(field=3)` has no attribute that a kernel may assign
K ;; x[0] = Pattern(1).foo ;; Pattern(1).foo ;; `Pattern` has no attribute `foo`
K ;; x[0] = Pattern(n).field + Pattern(n).nothing ;; Pattern(n).nothing ;; pattern has no attribute `nothing`
K ;; x[0] = Pattern(1, 2) ;; Pattern(1, 2) ;; `Pattern`: 2 arguments by position, for 1 field
K ;; x[0] = Pattern(n, 2) ;; Pattern(n, 2) ;; `Pattern`: 2 arguments by position, for 1 field
K ;; x[0] = cuda.atomic.add(n, 0, 1) ;; cuda.atomic.add(n, 0, 1) ;; `cuda.atomic.add` needs an array, not int64
K ;; cuda.atomic.add(x, 0.5, 1) ;; cuda.atomic.add(x, 0.5, 1) ;; the index of `cuda.atomic.add` needs an integer, not float64
K ;; cuda.atomic.add(x, (0, 1), 1) ;; cuda.atomic.add(x, (0, 1), 1) ;; array `x` has 1 dimensions, the index 2
K ;; cuda.atomic.foo(x, 0, 1) ;; cuda.atomic.foo ;; `cuda.atomic` has no attribute `foo`
K ;; x[0] = cuda.shfl_sync(-1, x, 0) ;; cuda.shfl_sync(-1, x, 0) ;; `cuda.shfl_sync` needs a number, not array `x`
K ;; print(*n) ;; *n ;; int64 cannot be taken apart
U ;; x[0] = device(**obj) ;; **obj ;; `**` in a call
U ;; match n:\n    case [1, 2]: pass ;; [1, 2] ;; this pattern of `match`
K ;; lambda: 3\nx[0] = (lambda v: v)(1, 2) ;; (lambda v: v)(1, 2) ;; `lambda` takes 1 argument, not 2
K ;; def f(a):\n    return a\nx[0] = f() ;; f() ;; `f` lacks its argument `a`
U ;; def f(a):\n    return f(a - 1)\nx[0] = f(n) ;; f(a - 1) ;; recursion of the nested function `f`
U ;; async def f(): pass ;; async def f(): pass ;; `async def` in a kernel
K ;; assert "a" + 1 ;; "a" + 1 ;; `+` is not defined for 'a' and int64
U ;; x[0] = generator(n) ;; generator(n) ;; `generator` is a generator
U ;; x[0] = coroutine(n) ;; coroutine(n) ;; `coroutine` is an `async` function
K ;; x[0] = threadIdx.x ;; threadIdx ;; unknown name `threadIdx`
U ;; x[0] = super().foo ;; super() ;; unknown function `super` in a kernel
U ;; x[0] = super() ;; super() ;; unknown function `super` in a kernel
K ;; for i in zip(n): pass ;; zip(n) ;; int64 cannot be taken apart
K ;; for i in enumerate(): pass ;; enumerate() ;; `enumerate` got 0 arguments
K ;; for i in enumerate((1, 2), "a"): pass ;; enumerate((1, 2), "a") ;; `+` is not defined for 'a' and int64
K ;; for i, j, k in enumerate((1, 2)): pass ;; i, j, k ;; 2 values for 3 names
K ;; x[0] = isinstance(n, 3) ;; 3 ;; `isinstance` of unknown types
U ;; x[0] = getattr(x, "shape") ;; getattr(x, "shape") ;; unknown function `getattr` in a kernel
K ;; x[0] = x[0].foo ;; x[0].foo ;; float32 has no attribute `foo`
K ;; x[0] = x[0]() ;; x[0]() ;; float32 is not a function
K ;; x[0], n[0] = 1, 2 ;; n[0] ;; int64 has no elements to assign
K ;; x[0] = y[0][0][0] ;; y[0][0][0] ;; float32 cannot be indexed
K ;; x[0] = 2 ** "a" ;; 2 ** "a" ;; `**` is not defined for int64 and 'a'
K ;; x[0] = 1 + None ;; 1 + None ;; `+` is not defined for int64 and None
K ;; x[0] = obj + 1 ;; obj + 1 ;; `+` is not defined for `Pattern(field=3)` and int64
K ;; x[0] = obj[0] ;; obj[0] ;; `Pattern(field=3)` cannot be indexed
K ;; x[0] = obj() ;; obj() ;; is not a function but a Pattern
K ;; x[0] = range(3)[1] ;; range(3)[1] ;; range cannot be indexed
K ;; x[0] = slice(1, 2) ;; slice(1, 2) ;; slice cannot be stored into an array
K ;; x[0] = x[slice(1, 2)] ;; x[0] ;; conversion to float32 needs a number, not array `x`
K ;; x[0] = bool(x) ;; bool(x) ;; array `x` is neither true nor false
K ;; x[0] = float("abc") ;; float("abc") ;; `float` cannot read 'abc'
K ;; x[0] = complex(x) ;; complex(x) ;; `complex` needs a number, not array `x`
K ;; cuda.syncwarp("a") ;; cuda.syncwarp("a") ;; the mask of `cuda.syncwarp` needs a number, not 'a'
K ;; cuda.nanosleep(x) ;; cuda.nanosleep(x) ;; `cuda.nanosleep` needs a number, not array `x`
K ;; x[0] = cuda.grid(4) ;; cuda.grid(4) ;; `cuda.grid(4)`
K ;; x[0] = cuda.grid(n) ;; cuda.grid(n) ;; the dimension of `cuda.grid` must be a constant integer
K ;; ptx.bar_sync() ;; ptx.bar_sync() ;; `ptx.bar_sync` lacks `barrier`
K ;; ptx.bar_sync("a", 32) ;; ptx.bar_sync("a", 32) ;; the barrier of `ptx.bar_sync` needs a number, not 'a'
K ;; a, b = ptx.ld_v4(x, 0) ;; a, b ;; 4 values for 2 names
K ;; ptx.st_v4(x, 0, 1) ;; ptx.st_v4(x, 0, 1) ;; `ptx.st_v4` stores int64
K ;; x[0] = ptx.foo ;; ptx.foo ;; `wsemu.ptx` has no attribute `foo`
K ;; x[0] = (1, 2) < 3 ;; (1, 2) < 3 ;; `<` is not defined for a tuple of 2 and int64
K ;; x[0] = (1, 2) * 2 ;; (1, 2) * 2 ;; `*` is not defined for a tuple of 2 and int64
K ;; x[0] = n.real.foo ;; n.real.foo ;; int64 has no attribute `foo`
K ;; x[0] = divmod(x, 1) ;; divmod(x, 1) ;; `divmod` needs a number, not array `x`
K ;; x[0] = round(x) ;; round(x) ;; `round` needs a number, not array `x`
K ;; x[0] = cuda ;; cuda ;; `wsemu.cuda` cannot be stored into an array
K ;; return 1, 2 ;; 1, 2 ;; a kernel returns a value
K ;; continue_ = continue_ + 1 ;; continue_ ;; `continue_` is used before it is assigned
K ;; x[(0, (1, 2))] = 3 ;; x[(0, (1, 2))] ;; array `x` has 1 dimensions, the index 2
K ;; x[x] = 3 ;; x ;; an index is array `x`
K ;; x["a":3] = 1 ;; "a" ;; a slice bound is 'a'
K ;; x[0:1.5] = 1 ;; 1.5 ;; a slice bound is float64
K ;; x[::0] = 1 ;; x[::0] ;; the step of a slice is 0
K ;; x[0:3] = y ;; x[0:3] ;; `y` has more dimensions than what it is assigned to
U ;; x[0:3] = (1, 2, 3) ;; (1, 2, 3) ;; a tuple of 3 cannot be stored into an array
K ;; records[0].foo = 3 ;; records[0].foo ;; has no field `foo`
K ;; x[0] = records[0] ;; x[0] ;; needs a number
U ;; yield 3 ;; def kernel(x, y, n): ;; is a generator
K ;; x[0] = 99999999999999999999999 ;; 99999999999999999999999 ;; does not fit into 64 bits
"""


def compiled(body: str) -> Any:
    """Compile a kernel with this body."""
    text = PRELUDE + "def kernel(x, y, n):\n" + "".join(f"    {line}\n" for line in body.split("\\n"))
    file = f"<kernel {body}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names: dict[str, Any] = {"__name__": __name__}
    exec(compile(text, file, "exec"), names)
    arguments = (np.zeros(64, np.float32), np.zeros((8, 8), np.float32), 3)
    return compile_kernel(names["kernel"], tuple(argument_type(a) for a in arguments))


def place(error: KernelError) -> str:
    """The source that an error points at, its first line."""
    assert error.span is not None
    line = linecache.getline(error.span.file, error.span.line)
    end = error.span.end_column if error.span.end_line == error.span.line else None
    return line[error.span.column : end].strip()


@pytest.mark.parametrize("case", CASES.strip().splitlines())
def test_message_and_place(case: str) -> None:
    kind, body, where, message = (part.strip() for part in case.split(" ;; "))
    with pytest.raises(KernelError) as caught:
        compiled(body)
    error = caught.value
    assert place(error) == where
    assert message in error.message
    assert isinstance(error, UnsupportedError) == (kind == "U")
    assert error.remedy
    assert error.message[0].islower() or error.message.startswith(("`", "'", "None", *"0123456789"))
    assert not error.message.endswith(".")


def test_error_inside_a_device_function_names_the_calls() -> None:
    with pytest.raises(KernelError, match="has no attribute `foo`") as caught:
        compiled("x[0] = outer(n)")
    error = caught.value
    assert place(error) == "n.foo"
    calls = [linecache.getline(c.file, c.line)[c.column : c.end_column] for c in error.calls]
    assert calls == ["outer(n)", "inner(n)"]


def test_error_inside_a_method_names_the_call() -> None:
    with pytest.raises(KernelError, match="missing") as caught:
        compiled("x[0] = obj.get()")
    assert place(caught.value) == "self.missing"
    assert len(caught.value.calls) == 1


def test_recursion_without_an_end_is_a_trap() -> None:
    program = compiled("x[0] = endless(n)").program
    assert program.traps == ["recursion deeper than 64 calls of `endless`: not modelled, write a loop"]


def test_instructions_know_their_place_and_calls() -> None:
    program = compiled("tile = cuda.shared.array(8, np.float32)\\ntile[n] = device(x[n], obj.field)").program
    spans = program.spans
    (tile,) = program.shared
    assert tile.name == "tile"
    assert linecache.getline(spans[tile.span].file, spans[tile.span].line).strip().startswith("tile = ")
    text = {}
    for pc, name in enumerate(program.array_of):
        if name:
            span = spans[program.span_of[pc]]
            text[name] = linecache.getline(span.file, span.line)[span.column : span.end_column]
    assert text == {"x": "x[n]", "tile": "tile[n]"}
    assert any(stack for stack in program.stack_of)
