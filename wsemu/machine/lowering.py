"""The compiler of the VM: it translates Python functions over 64-bit integers and records to LLVM code.

A `compiled` function uses integers (a truth value is 0 or 1), records of `state.py` at a host address, and tuples that
are returned and unpacked immediately. Its statements are `if`, `while`, `for ... in range(...)` with a constant step,
`for ... in set_bits(...)`, assignments, and calls of other `compiled` functions, of `emitted` ones, and of `min` and
`max`. Arithmetic wraps; `//` and `%` round down and give 0 for a divisor of 0. Everything else is rejected.

This compiler exists because a general one infers types again and again: that took three quarters of the time in which
the VM was compiled.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import functools
import gc
import linecache
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn, TypeAlias

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir

from wsemu.machine.checked_code import builder_at_end
from wsemu.machine.memory.cell_bits import ByWidth
from wsemu.model.data import dataclass

I1, I8, I64 = (ir.IntType(n) for n in (1, 8, 64))
PLACE = I8.as_pointer()
Builder = Any
Value = Any
Kind: TypeAlias = "np.dtype[Any] | None"
"""type of a variable: the record at its address, or None for a number"""
Part = tuple[str, str, bytes]
"""compiled part: its symbol, the functions that it needs from elsewhere, its object code"""


@dataclass(frozen=True, slots=True, eq=False)
class Compiled:
    """A function that compiled code calls."""

    function: Callable[..., Any]
    inline: bool | None = None
    """True: every call is inlined; False: no call; None: calls are inlined if it is short or called once"""


@dataclass(frozen=True, slots=True, eq=False)
class Emitted:
    """A function whose code is emitted instead of a call: `body(builder, *numbers)` returns an i64, a Record, or None
    for 0."""

    body: Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Record:
    """A record at a location in memory."""

    place: Value
    dtype: np.dtype[Any]


@dataclass(frozen=True, slots=True)
class Field:
    """One number of a record, or several adjacent ones."""

    place: Value


compiled: Any = Compiled
inlined: Any = functools.partial(Compiled, inline=True)
outlined: Any = functools.partial(Compiled, inline=False)
emitted: Any = Emitted


def set_bits(mask: int) -> Iterator[int]:
    """Yield the numbers of the bits that are set, in ascending order: the lanes of a mask, for example.

    Compiled code may iterate over it in `for` loops only; the mask is evaluated once.
    """
    mask &= (1 << 64) - 1
    while mask:
        yield (mask & -mask).bit_length() - 1
        mask &= mask - 1


# -- what a function says ----------------------------------------------------------------------------------------------


@functools.cache
def _definitions(path: str) -> dict[str, ast.FunctionDef]:
    """Return the functions of a module by name."""
    tree = ast.parse("".join(linecache.getlines(path)), path)
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}


def _definition(function: Callable[..., Any]) -> ast.FunctionDef:
    return _definitions(function.__code__.co_filename)[function.__name__]


@functools.cache
def _results(function: Callable[..., Any]) -> int:
    """Return how many numbers a function returns."""
    for node in ast.walk(_definition(function)):
        value = node.value if isinstance(node, ast.Return) else None
        if isinstance(value, ast.Tuple):
            return len(value.elts)
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
            called = function.__globals__.get(value.func.id)
            if isinstance(called, Compiled) and called.function is not function and _results(called.function) > 1:
                return _results(called.function)
    return 1


# -- a module ----------------------------------------------------------------------------------------------------------


class Module:
    """One LLVM module: an exported function, with all functions that it calls."""

    def __init__(self, symbol: str, width: int = 0) -> None:
        """`width`: an index of `cell_bits.WIDTHS`."""
        self.ir = ir.Module(name=symbol)
        self.width = width
        self._made: dict[tuple[Compiled, tuple[Kind, ...]], Any] = {}

    def define(self, function: Callable[..., int] | Emitted, symbol: str) -> None:
        """Define the exported function."""
        if isinstance(function, Emitted):
            self._emit_function(function, symbol)
        else:
            outer = self._lower_function(function, (None,) * function.__code__.co_argcount, symbol)
            outer.linkage = ""

    def function(self, called: Compiled, kinds: tuple[Kind, ...]) -> Any:
        """Return the LLVM function of a Compiled for arguments of these kinds."""
        key = (called, kinds)
        if key not in self._made:
            name = f"{called.function.__name__}.{len(self._made)}"
            self._made[key] = None
            self._made[key] = made = self._lower_function(called.function, kinds, name)
            if called.inline is not None:
                made.attributes.add("alwaysinline" if called.inline else "noinline")
        if self._made[key] is None:
            raise TypeError(f"{called.function.__name__}: compiled code has no function that calls itself")
        return self._made[key]

    def _emit_function(self, function: Emitted, name: str) -> None:
        count = function.body.__code__.co_argcount - 1
        made = ir.Function(self.ir, ir.FunctionType(I64, [I64] * count), name)
        made.attributes.add("nounwind")
        b = builder_at_end(made.append_basic_block())
        result = function.body(b, *made.args)
        b.ret(I64(0) if result is None else result)

    def _lower_function(self, function: Callable[..., Any], kinds: tuple[Kind, ...], name: str) -> Any:
        n = _results(function)
        result = I64 if n == 1 else ir.LiteralStructType([I64] * n)
        signature = ir.FunctionType(result, [PLACE if kind else I64 for kind in kinds])
        made = ir.Function(self.ir, signature, name)
        made.linkage = "internal"
        made.attributes.add("nounwind")
        _Body(self, function, made, kinds).lower()
        return made


_BINARY: dict[type[ast.operator], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.BitAnd: "and_", ast.BitOr: "or_", ast.BitXor: "xor",
    ast.LShift: "shl", ast.RShift: "ashr",
}  # fmt: skip
_COMPARE: dict[type[ast.cmpop], str] = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
}  # fmt: skip


class _Body:
    """The LLVM code of one function."""

    def __init__(self, module: Module, function: Callable[..., Any], made: Any, kinds: tuple[Kind, ...]) -> None:
        self.module, self.function, self.made = module, function, made
        self.node = _definition(function)
        self.names = function.__globals__
        self.entry = builder_at_end(made.append_basic_block("entry"))
        self.b: Builder = builder_at_end(made.append_basic_block("body"))
        self.start = self.b.block
        self.variables: dict[str, tuple[Value, Kind]] = {}
        stored = {n.id for n in ast.walk(self.node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        self.local = stored | {argument.arg for argument in self.node.args.args}
        self.loops: list[tuple[Any, Any]] = []
        """targets of `continue` and `break` for each enclosing loop"""
        for argument, value, kind in zip(self.node.args.args, made.args, kinds, strict=True):
            self.assign(argument.arg, Record(value, kind) if kind else value)

    def lower(self) -> None:
        self.block(self.node.body)
        if not self.b.block.is_terminated:
            self.b.ret(ir.Constant(self.made.function_type.return_type, None))
        self.entry.branch(self.start)

    def refuse(self, node: ast.AST) -> NoReturn:
        where = f"{self.function.__module__}.{self.function.__name__}, line {getattr(node, 'lineno', 0)}"
        raise TypeError(f"{where}: compiled code has no {ast.unparse(node)}")

    # -- variables

    def assign(self, name: str, value: Value) -> None:
        kind = value.dtype if isinstance(value, Record) else None
        place, held = self.variables.get(name, (None, None))
        if place is None:
            place = self.entry.alloca(PLACE if kind else I64, name=name)
            self.entry.store(ir.Constant(PLACE if kind else I64, None), place)
            self.variables[name] = place, kind
        elif held != kind:
            raise TypeError(
                f"{self.function.__name__}: {name} has two types: a number and a record, or two kinds of records"
            )
        self.b.store(value.place if isinstance(value, Record) else value, place)

    def store(self, target: ast.expr, value: Value) -> None:
        if isinstance(target, ast.Name):
            self.assign(target.id, value)
            return
        place = self.value(target, load=False)
        if not isinstance(place, Field):
            self.refuse(target)
        self.b.store(value, place.place)

    # -- statements

    def block(self, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            if self.b.block.is_terminated:
                return
            lower = getattr(self, f"on_{type(statement).__name__}", self.refuse)
            lower(statement)

    def on_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):
            self.value(node.value)

    def on_Assign(self, node: ast.Assign) -> None:
        value = self.value(node.value)
        for target in node.targets:
            if isinstance(target, ast.Tuple):
                for part, one in zip(target.elts, value, strict=True):
                    self.store(part, one)
            else:
                self.store(target, value)

    def on_AugAssign(self, node: ast.AugAssign) -> None:
        value = self.binary(node.op, self.value(node.target), self.value(node.value))
        self.store(node.target, value)

    def on_Return(self, node: ast.Return) -> None:
        value = I64(0) if node.value is None else self.value(node.value)
        if isinstance(value, tuple):
            result = ir.Constant(self.made.function_type.return_type, ir.Undefined)
            for k, one in enumerate(value):
                result = self.b.insert_value(result, one, k)
            value = result
        self.b.ret(value)

    def on_If(self, node: ast.If) -> None:
        yes, end = self.new("then"), self.new("end")
        no = self.new("else") if node.orelse else end
        self.branch(node.test, yes, no)
        for place, statements in ((yes, node.body), (no, node.orelse)):
            if statements:
                self.b.position_at_end(place)
                self.block(statements)
                self.go(end)
        self.b.position_at_end(end)

    def on_While(self, node: ast.While) -> None:
        if node.orelse:
            self.refuse(node)
        head, body, end = self.new("while"), self.new("do"), self.new("done")
        self.b.branch(head)
        self.b.position_at_end(head)
        self.branch(node.test, body, end)
        self.loop(node.body, body, head, end)

    def on_For(self, node: ast.For) -> None:
        call = node.iter
        if node.orelse or not isinstance(call, ast.Call) or call.keywords:
            self.refuse(node)
        loop = {range: self.range_loop, set_bits: self.bits_loop}.get(self.value(call.func))
        if loop is None:
            self.refuse(node)
        loop(node, call.args)

    def bits_loop(self, node: ast.For, arguments: list[ast.expr]) -> None:
        """Lower `for n in set_bits(mask)`: clear the lowest bit of a copy of the mask until none is left."""
        (mask,) = arguments
        left = f"set_bits.{len(self.loops)}"
        self.assign(left, self.value(mask))
        place, _ = self.variables[left]
        head, body, end = self.new("for"), self.new("do"), self.new("done")
        self.b.branch(head)
        self.b.position_at_end(head)
        self.b.cbranch(self.b.icmp_signed("!=", self.b.load(place), I64(0)), body, end)
        self.b.position_at_end(body)
        self.store(node.target, self.b.cttz(self.b.load(place), I1(0)))
        before = self.b.load(place)
        self.b.store(self.b.and_(before, self.b.sub(self.b.load(place), I64(1))), place)
        self.loop(node.body, body, head, end)

    def range_loop(self, node: ast.For, arguments: list[ast.expr]) -> None:
        """Lower `for n in range(...)`, whose step is a constant."""
        numbers = [self.value(argument) for argument in arguments]
        first, last = (I64(0), numbers[0]) if len(numbers) == 1 else numbers[:2]
        step = numbers[2] if len(numbers) == 3 else I64(1)
        if not (isinstance(step, ir.Constant) and step.constant):
            self.refuse(node)
        counter = self.entry.alloca(I64)
        self.b.store(first, counter)
        head, body, on, end = self.new("for"), self.new("do"), self.new("next"), self.new("done")
        self.b.branch(head)
        self.b.position_at_end(head)
        self.b.cbranch(self.b.icmp_signed("<" if step.constant > 0 else ">", self.b.load(counter), last), body, end)
        self.b.position_at_end(on)
        self.b.store(self.b.add(self.b.load(counter), step), counter)
        self.b.branch(head)
        self.b.position_at_end(body)
        self.store(node.target, self.b.load(counter))
        self.loop(node.body, body, on, end)

    def loop(self, statements: Sequence[ast.stmt], body: Any, on: Any, end: Any) -> None:
        self.b.position_at_end(body)
        self.loops.append((on, end))
        self.block(statements)
        self.loops.pop()
        self.go(on)
        self.b.position_at_end(end)

    def on_Continue(self, _: ast.Continue) -> None:
        self.b.branch(self.loops[-1][0])

    def on_Break(self, _: ast.Break) -> None:
        self.b.branch(self.loops[-1][1])

    def new(self, name: str) -> Any:
        return self.made.append_basic_block(name)

    def go(self, block: Any) -> None:
        if not self.b.block.is_terminated:
            self.b.branch(block)

    # -- conditions

    def branch(self, test: ast.expr, yes: Any, no: Any) -> None:
        """Branch to `yes` or `no`."""
        if isinstance(test, ast.BoolOp):
            for part in test.values[:-1]:
                onward = self.new("and" if isinstance(test.op, ast.And) else "or")
                self.branch(part, *((onward, no) if isinstance(test.op, ast.And) else (yes, onward)))
                self.b.position_at_end(onward)
            self.branch(test.values[-1], yes, no)
        elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            self.branch(test.operand, no, yes)
        else:
            self.b.cbranch(self.truth(test), yes, no)

    def truth(self, node: ast.expr) -> Value:
        """Return an expression as an i1."""
        if isinstance(node, ast.Compare):
            return self.comparison(node)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return self.b.not_(self.truth(node.operand))
        return self.b.icmp_signed("!=", self.value(node), I64(0))

    def comparison(self, node: ast.Compare) -> Value:
        result, left = I1(1), self.value(node.left)
        for op, right in zip(node.ops, node.comparators, strict=True):
            if isinstance(op, ast.In) and isinstance(right, ast.Tuple):
                found = I1(0)
                for one in right.elts:
                    found = self.b.or_(found, self.b.icmp_signed("==", left, self.value(one)))
                result = self.b.and_(result, found)
                continue
            if type(op) not in _COMPARE:
                self.refuse(node)
            value = self.value(right)
            one = self.b.icmp_signed(_COMPARE[type(op)], left, value)
            result, left = one if len(node.ops) == 1 else self.b.and_(result, one), value
        return result

    # -- expressions

    def value(self, node: ast.expr, load: bool = True) -> Any:
        """Return an i64, a Record, a tuple of them, or the Python object that a name refers to; without `load`, return
        the location of a field."""
        found = getattr(self, f"of_{type(node).__name__}", self.refuse)(node)
        if isinstance(found, Field) and load:
            return self.b.load(found.place)
        return I64(int(found)) if isinstance(found, (int, np.integer, np.bool_)) else found

    def of_Constant(self, node: ast.Constant) -> Any:
        if not isinstance(node.value, int) or not -(1 << 63) <= node.value < 1 << 63:
            self.refuse(node)
        return node.value

    def of_Name(self, node: ast.Name) -> Any:
        if node.id in self.local:
            if node.id not in self.variables:
                self.refuse(node)
            place, kind = self.variables[node.id]
            value = self.b.load(place)
            return Record(value, kind) if kind else value
        if node.id not in self.names and not hasattr(builtins, node.id):
            self.refuse(node)
        found = self.names[node.id] if node.id in self.names else getattr(builtins, node.id)
        return found.values[self.module.width] if isinstance(found, ByWidth) else found

    def of_Attribute(self, node: ast.Attribute) -> Any:
        owner = self.value(node.value)
        if not isinstance(owner, Record):
            return getattr(owner, node.attr)
        assert owner.dtype.fields is not None
        offset = owner.dtype.fields[node.attr][1]
        place = self.b.gep(owner.place, [I64(offset)], inbounds=True)
        return Field(self.b.bitcast(place, I64.as_pointer()))

    def of_Subscript(self, node: ast.Subscript) -> Any:
        owner = self.value(node.value, load=False)
        if isinstance(owner, Field):
            return Field(self.b.gep(owner.place, [self.value(node.slice)]))
        if isinstance(owner, tuple):
            return owner[ast.literal_eval(node.slice)]
        return self.refuse(node)

    def of_Tuple(self, node: ast.Tuple) -> tuple[Any, ...]:
        return tuple(self.value(one) for one in node.elts)

    def of_BinOp(self, node: ast.BinOp) -> Value:
        return self.binary(node.op, self.value(node.left), self.value(node.right))

    def binary(self, op: ast.operator, x: Value, y: Value) -> Value:
        b = self.b
        if type(op) in _BINARY:
            return getattr(b, _BINARY[type(op)])(x, y)
        if not isinstance(op, (ast.FloorDiv, ast.Mod)):
            raise TypeError(f"{self.function.__name__}: compiled code has no {type(op).__name__}")
        nothing, turned = b.icmp_signed("==", y, I64(0)), b.icmp_signed("==", y, I64(-1))
        by = b.select(b.or_(nothing, turned), I64(1), y)  # the CPU traps if it divides the least number by -1
        quotient, rest = b.sdiv(x, by), b.srem(x, by)
        down = b.and_(b.icmp_signed("!=", rest, I64(0)), b.icmp_signed("<", b.xor(rest, by), I64(0)))
        if isinstance(op, ast.FloorDiv):
            result = b.select(turned, b.neg(x), b.sub(quotient, b.zext(down, I64)))
        else:
            result = b.add(rest, b.select(down, by, I64(0)))
        return b.select(nothing, I64(0), result)

    def of_UnaryOp(self, node: ast.UnaryOp) -> Value:
        if isinstance(node.op, ast.Not):
            return self.b.zext(self.truth(node), I64)
        x = self.value(node.operand)
        if isinstance(node.op, ast.USub):
            return I64(-x.constant) if isinstance(x, ir.Constant) else self.b.neg(x)
        return self.b.not_(x) if isinstance(node.op, ast.Invert) else self.refuse(node)

    def of_Compare(self, node: ast.Compare) -> Value:
        return self.b.zext(self.comparison(node), I64)

    def of_BoolOp(self, node: ast.BoolOp) -> Value:
        """Return the deciding operand, as Python does."""
        end = self.new("decided")
        result = self.entry.alloca(I64)
        for part in node.values:
            value = self.value(part)
            self.b.store(value, result)
            if part is node.values[-1]:
                self.b.branch(end)
                break
            onward = self.new("and" if isinstance(node.op, ast.And) else "or")
            true = self.b.icmp_signed("!=", value, I64(0))
            self.b.cbranch(true, *((onward, end) if isinstance(node.op, ast.And) else (end, onward)))
            self.b.position_at_end(onward)
        self.b.position_at_end(end)
        return self.b.load(result)

    def of_IfExp(self, node: ast.IfExp) -> Value:
        yes, no, end = self.new("if"), self.new("else"), self.new("either")
        result = self.entry.alloca(I64)
        self.branch(node.test, yes, no)
        for place, one in ((yes, node.body), (no, node.orelse)):
            self.b.position_at_end(place)
            self.b.store(self.value(one), result)
            self.b.branch(end)
        self.b.position_at_end(end)
        return self.b.load(result)

    def of_Call(self, node: ast.Call) -> Any:
        called = self.value(node.func)
        arguments = [self.value(argument) for argument in node.args]
        if node.keywords:
            self.refuse(node)
        if isinstance(called, Emitted):
            result = called.body(self.b, *arguments)
            return I64(0) if result is None else result
        if isinstance(called, Compiled):
            kinds = tuple(one.dtype if isinstance(one, Record) else None for one in arguments)
            plain = [one.place if isinstance(one, Record) else one for one in arguments]
            result = self.b.call(self.module.function(called, kinds), plain)
            n = _results(called.function)
            return result if n == 1 else tuple(self.b.extract_value(result, k) for k in range(n))
        if called is np.int64:
            return arguments[0]
        if called in (min, max) and len(arguments) == 2:
            x, y = arguments
            return self.b.select(self.b.icmp_signed("<" if called is min else ">", y, x), y, x)
        return self.refuse(node)


# -- machine code ------------------------------------------------------------------------------------------------------


SHORT = 80
"""maximum number of instructions of a function that is inlined"""
CALLED_ONCE = 2000
"""likewise for a function that is called once"""
NO_EFFORT, ALL_EFFORT = 0, 3


@functools.cache
def _target(effort: int = ALL_EFFORT, cpu: str = "") -> llvm.TargetMachine:
    """Return the target of a CPU that LLVM knows by name, or of this CPU with all its features."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(
        cpu=cpu or llvm.get_host_cpu_name(),
        features="" if cpu else llvm.get_host_cpu_features().flatten(),
        opt=effort,
        reloc="static" if target.name.startswith("x86") else "default",
        codemodel="jitdefault",
        jit=True,
    )


def _undefined_symbols(module: llvm.ModuleRef) -> Iterator[str]:
    return (f.name for f in module.functions if f.is_declaration and not f.name.startswith("llvm."))


@contextlib.contextmanager
def _pausing_garbage_collection() -> Iterator[None]:
    """Pause the garbage collector: a module has hundreds of thousands of objects, none of which can be freed."""
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()


def _take_the_place_of_calls(module: Any) -> None:
    """Inline functions that are short or called once."""
    instructions = {made: [one for block in made.blocks for one in block.instructions] for made in module.functions}
    calls = Counter(one.callee for body in instructions.values() for one in body if one.opname == "call")
    for made, body in instructions.items():
        apart = made.linkage != "internal" or "noinline" in made.attributes
        if not apart and len(body) < (CALLED_ONCE if calls[made] == 1 else SHORT):
            made.attributes.add("alwaysinline")


def _improve(module: llvm.ModuleRef, target: llvm.TargetMachine) -> None:
    """Run the passes that matter most for speed; a compiler's usual passes take twenty times as long for a few
    percent."""
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_sroa_pass()
    passes.add_simplify_cfg_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    passes.run(module, llvm.create_pass_builder(target, llvm.create_pipeline_tuning_options(speed_level=1)))


def _improve_loops(module: llvm.ModuleRef, target: llvm.TargetMachine) -> None:
    """Run all passes of a compiler."""
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.slp_vectorization = False
    options.loop_vectorization = options.loop_unrolling = True
    passes = llvm.create_pass_builder(target, options)
    passes.getModulePassManager().run(module, passes)


def compile_function(
    function: Callable[..., int] | Emitted,
    symbol: str,
    *,
    rare: bool = False,
    loops: bool = False,
    width: int = 0,
    cpu: str = "",
) -> Part:
    """Compile a function of int64 numbers and all that it calls.

    `rare` and `loops` are those of `parts.Made`, `width` is an index of `cell_bits.WIDTHS`, and `cpu` a name that LLVM
    knows, or empty for this CPU.
    """

    def define(module: Module) -> None:
        module.define(function, symbol)

    return compile_module(define, symbol, rare=rare, loops=loops, width=width, cpu=cpu)


def compile_module(
    define: Callable[[Module], object],
    symbol: str,
    *,
    rare: bool = False,
    loops: bool = False,
    width: int = 0,
    cpu: str = "",
) -> Part:
    """Compile what `define` puts into a module, as `compile_function` does."""
    module, target = optimized_module(define, symbol, rare=rare, loops=loops, width=width, cpu=cpu)
    return symbol, " ".join(sorted(_undefined_symbols(module))), target.emit_object(module)


def optimized_module(
    define: Callable[[Module], object],
    symbol: str,
    *,
    rare: bool = False,
    loops: bool = False,
    width: int = 0,
    cpu: str = "",
) -> tuple[llvm.ModuleRef, llvm.TargetMachine]:
    """Return the LLVM module that `compile_module` emits as object code, and the target that emits it."""
    target = _target(NO_EFFORT if rare else ALL_EFFORT, cpu)
    with _pausing_garbage_collection():
        made = Module(symbol, width)
        define(made)
        made.ir.triple, made.ir.data_layout = target.triple, str(target.target_data)
        if not (rare or loops):
            _take_the_place_of_calls(made.ir)
        module = llvm.parse_assembly(str(made.ir))
    by_name = hasattr(llvm.create_new_module_pass_manager(), "add_sroa_pass")  # llvmlite 0.45 has passes by name
    (_improve if by_name and not loops else _improve_loops)(module, target)
    return module, target
