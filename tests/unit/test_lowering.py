"""The compiler of the VM: what it compiles does what Python does with the same text; the rest is refused by name."""

from __future__ import annotations

import ctypes
import importlib
import inspect
import itertools
import pkgutil
import re
import types
from typing import TYPE_CHECKING, Any

import llvmlite.binding as llvm
import numpy as np
import pytest

import wsemu.machine
from wsemu.machine.lowering import (
    I64,
    PLACE,
    Emitted,
    Record,
    compile_function,
    compiled,
    emitted,
    inlined,
    optimized_module,
    outlined,
    set_bits,
)
from wsemu.machine.memory.cell_bits import ByWidth
from wsemu.machine.state import address_of, record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NUMBERS = (-(1 << 63), -100, -7, -1, 0, 1, 3, 7, 64, 1 << 40, (1 << 63) - 1)
SMALL = (-5, -1, 0, 1, 2, 3, 6, 13)
BOX = record(first=1, row=4, last=1)
OFFSET = 5
_engines: list[Any] = []


def built(function: Callable[..., Any]) -> Callable[..., int]:
    """The function as machine code."""
    symbol, _, code = compile_function(function, "made")
    target = llvm.Target.from_default_triple().create_target_machine(jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _engines.append(engine)  # the code lives as long as it does
    count = function.__code__.co_argcount
    made = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * count)
    return made(engine.get_function_address(symbol))


def wrapped(value: Any) -> int:
    """Into 64 bits, with a sign."""
    return (int(value) + (1 << 63)) % (1 << 64) - (1 << 63)


# -- what Python means too ---------------------------------------------------------------------------------------------


def loop_up(n, _):
    total = 0
    for i in range(n):
        total += i * i
    return total


def loop_from_to(first, last):
    total = 0
    for i in range(first, last):
        total = total * 3 + i
    return total


def loop_in_steps(first, last):
    total = 0
    for i in range(first, last, 3):
        total = total * 5 + i
    for i in range(last, first, -2):
        total = total * 7 + i
    return total


def loop_bounds_are_taken_once(n, _):
    total = 0
    for i in range(n):
        n = 0
        total += i + n
    return total


def loop_over_bits(mask, n):
    total = 0
    for i in set_bits(mask):
        mask = 0
        if i == n:
            continue
        for j in set_bits(n & 5):
            total = total * 3 + i + j
        total += 1
    return total


def loop_while(x, n):
    while x > 0 and n > 0:
        x -= 2
        n = n - 1
    return x * 100 + n


def break_and_continue(n, m):
    total = 0
    for i in range(n):
        if i % 2 == 1:
            continue
        for j in range(m):
            if j > i:
                break
            if j == 1:
                continue
            total += 10 * i + j
        if total > 500:
            break
        total += 1
    return total


def return_in_loops(n, m):
    for i in range(n):
        while m > i:
            if m % 3 == i:
                return 1000 + m
            m -= 1
    return m


def branches(x, y):
    result = 0
    if x < y:
        result = 1
    elif x == y:
        result = 2
    else:
        result = 3
        if x > 5:
            return 4
    return result


def conditions(x, y):
    result = 0
    if x and y:
        result |= 1
    if x or y:
        result |= 2
    if not (x > 1 or y < 0):
        result |= 4
    if not x or (y > 2 and not y > 6):
        result |= 8
    return result


def operands_that_decide(x, y):
    return (x and y) * 31 + (x or y) * 7 + ((x and y) or 5) + (not x)


def choices(x, y):
    return (x if x > y else y - 1) + (3 if x and y else 4)


def comparisons(x, y):
    chained = 0 < x <= y
    listed = x in (y, 3, -1)
    return (
        (x < y)
        + 2 * (x <= y)
        + 4 * (x == y)
        + 8 * (x != y)
        + 16 * (x > y)
        + 32 * (x >= y)
        + 64 * chained
        + 128 * listed
    )


def least_and_most(x, y):
    return min(x, y) ^ (max(x, y) << 1)


def arithmetic(x, y):
    return (x + y) * (x - y) ^ (x & y) + (x | -y) - ~x


def shift_right(x, y):
    return (x >> 3) + (y >> 63)


def shift_left(x, y):
    return (x << 5) - (y << 62)


def rounds_down(x, y):
    return 0 if y == 0 else x // y * 3 + x % y


def by_numbers(x, y):
    return x // 7 + x % 7 + y // -4 + y % -4


def constants(x, _):
    return x + OFFSET + np.int64(x)


def several_at_once(x, y):
    a = b = x + 1
    a, b = b + y, a - y
    return a * 1000 + b


LOOPS = (
    loop_up, loop_from_to, loop_in_steps, loop_bounds_are_taken_once, loop_over_bits, loop_while, break_and_continue,
    return_in_loops,
)  # fmt: skip
OTHERS = (
    branches, conditions, operands_that_decide, choices, comparisons, least_and_most, arithmetic, shift_right,
    shift_left, rounds_down, by_numbers, constants, several_at_once,
)  # fmt: skip


def in_python(function: Callable[..., Any], x: int, y: int) -> int:
    return wrapped(function(x, y))


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("function", [*LOOPS, *OTHERS], ids=lambda function: function.__name__)
def test_it_does_what_python_does(function: Callable[..., Any]) -> None:
    made = built(function)
    numbers = SMALL if function in LOOPS or function is constants else NUMBERS
    for x, y in itertools.product(numbers, repeat=2):
        assert made(x, y) == in_python(function, x, y), (x, y)


def quotient(x, y):
    return x // y


def remainder(x, y):
    return x % y


def test_nothing_is_left_of_a_division_by_zero() -> None:
    assert (built(quotient)(7, 0), built(remainder)(7, 0)) == (0, 0)


def test_code_that_runs_rarely_does_the_same() -> None:
    symbol, needed, code = compile_function(break_and_continue, "made", rare=True)
    assert (symbol, needed) == ("made", "")
    assert code != compile_function(break_and_continue, "made")[2]


# -- calls -------------------------------------------------------------------------------------------------------------


@compiled
def swapped(x, y):
    return y, x


@compiled
def twice_swapped(x, y):
    x, y = swapped(x, y)
    return swapped(x, y)


@compiled
def tenfold(n):
    return swapped(n, 10)[0] * n


@compiled
def nothing(x):
    if x > 1000:
        x = 5


@emitted
def plus_one(b, x):
    return b.add(x, I64(1))


def calls(x, y):
    a, b = swapped(x, y)
    c, d = twice_swapped(a, b)
    return plus_one(a * 100 + b * 10 + c - d) + nothing(x) + tenfold(a)


def test_functions_return_several_numbers_and_call_others() -> None:
    made = built(calls)
    assert made(3, 8) == 8 * 100 + 3 * 10 + 8 - 3 + 1 + 80


@inlined
def long_mix(x):
    x = ((x * 3 ^ x + 0) * 5 ^ x - 0) * 7 ^ x
    x = ((x * 3 ^ x + 1) * 5 ^ x - 1) * 7 ^ x
    x = ((x * 3 ^ x + 2) * 5 ^ x - 2) * 7 ^ x
    x = ((x * 3 ^ x + 3) * 5 ^ x - 3) * 7 ^ x
    x = ((x * 3 ^ x + 4) * 5 ^ x - 4) * 7 ^ x
    x = ((x * 3 ^ x + 5) * 5 ^ x - 5) * 7 ^ x
    x = ((x * 3 ^ x + 6) * 5 ^ x - 6) * 7 ^ x
    x = ((x * 3 ^ x + 7) * 5 ^ x - 7) * 7 ^ x
    x = ((x * 3 ^ x + 8) * 5 ^ x - 8) * 7 ^ x
    return ((x * 3 ^ x + 9) * 5 ^ x - 9) * 7 ^ x


@outlined
def next_of(x):
    return x + 1


def calls_both(x):
    return (long_mix(x) ^ long_mix(x + 1)) + next_of(x)


def test_a_function_may_demand_or_forbid_that_its_calls_are_inlined() -> None:
    module, _ = optimized_module(lambda made: made.define(calls_both, "made"), "made")
    assert [name.partition(".")[0] for name in re.findall(r"call [^@]*@([\w.]+)", str(module))] == ["next_of"]
    lowest = (1 << 32) - 1
    assert built(calls_both)(5) & lowest == (long_mix.function(5) ^ long_mix.function(6)) + 6 & lowest


# -- records -----------------------------------------------------------------------------------------------------------


@emitted
def box_at(b, address, i):
    return Record(b.inttoptr(b.add(address, b.mul(i, I64(BOX.itemsize))), PLACE), BOX)


@emitted
def set_last(b, address, value):
    b.store(value, b.inttoptr(b.add(address, I64(5 * 8)), I64.as_pointer()))


@compiled
def sum_of(box):
    total = box.first + box.last
    for i in range(4):
        total += box.row[i]
    return total


@compiled
def marked(address):
    """Truth, and a trace that it was asked for."""
    box_at(address, 0).first += 1
    return 1


def fields(address, x):
    box = box_at(address, 1)
    box.first = x
    box.last = box.first * 2
    box.first -= 1
    for i in range(4):
        box.row[i] = x + i
    box.row[x % 4] += 100
    box.row[box.row[0] - x] = -1
    return sum_of(box)


def another(address, i):
    box = box_at(address, 0)
    if i > 0:
        box = box_at(address, 1)
    set_last(address, i)
    return box.row[2]


def short_circuit(address, x):
    if x > 0 and marked(address):
        x = 10
    if x > 5 or marked(address):
        x += 1
    y = x > 100 and marked(address)
    return x * 2 + (y or x)


def test_fields_and_arrays_of_records_are_read_and_written() -> None:
    boxes = np.zeros(2, BOX)
    assert built(fields)(address_of(boxes), 6) == 5 + 12 + (-1 + 7 + 108 + 9)
    assert boxes[1].tolist()[0] == 5
    assert boxes["row"].tolist() == [[0, 0, 0, 0], [-1, 7, 108, 9]]
    assert boxes["last"].tolist() == [0, 12]


def test_a_variable_shows_one_record_and_then_another() -> None:
    boxes = np.zeros(2, BOX)
    boxes["row"] = [[0, 0, 5, 0], [0, 0, 6, 0]]
    made = built(another)
    assert [made(address_of(boxes), i) for i in (0, 1)] == [5, 6]
    assert boxes["last"].tolist() == [1, 0]


@pytest.mark.parametrize(("x", "result", "asked"), [(1, 33, 1), (0, 3, 1), (-1, 0, 1), (7, 33, 1)])
def test_what_need_not_be_known_is_not_computed(x: int, result: int, asked: int) -> None:
    boxes = np.zeros(2, BOX)
    assert built(short_circuit)(address_of(boxes), x) == result
    assert boxes["first"].tolist() == [asked, 0]


# -- what it does not take ---------------------------------------------------------------------------------------------


def a_fraction(x):
    return x + 1.5


def a_text(x):
    return x + "1"


def a_list(x):
    return [x][0]


def a_quotient(x):
    return x / 2


def a_power(x):
    return x**2


def a_plus(x):
    return +x


def over_a_tuple(x):
    for i in (1, 2):
        x += i
    return x


def an_unknown_step(x):
    for i in range(0, 10, x):
        x += i
    return x


def an_else_of_a_for(x):
    for i in range(x):
        x += i
    else:
        x = 0
    return x


def an_else_of_a_while(x):
    while x > 3:
        x -= 1
    else:
        x = 0
    return x


def a_keyword(x):
    return tenfold(n=x)


@compiled
def factorial(n):
    return n * factorial(n - 1) if n > 1 else 1


def a_circle(x):
    return factorial(x)


def a_call_of_python(x):
    return abs(x)


def the_least_of_three(x):
    return min(x, 1, 2)


def not_yet_assigned(x):
    x += later  # type: ignore[has-type, used-before-def]  # noqa: F821
    later = 1
    return x + later


def nowhere_assigned(x):
    return x + missing  # type: ignore[name-defined]  # noqa: F821


def identity(x):
    return x is OFFSET


def with_block(x):
    with x:
        return 1


def two_kinds(x):
    y = box_at(x, 0)
    y = x
    return y + 1


REFUSED = [
    (a_fraction, "compiled code has no 1.5"),
    (a_text, "compiled code has no '1'"),
    (a_list, "compiled code has no [x]"),
    (a_quotient, "compiled code has no Div"),
    (a_power, "compiled code has no Pow"),
    (a_plus, "compiled code has no +x"),
    (over_a_tuple, "compiled code has no for i in (1, 2)"),
    (an_unknown_step, "compiled code has no for i in range(0, 10, x)"),
    (an_else_of_a_for, "compiled code has no for i in range(x)"),
    (an_else_of_a_while, "compiled code has no while x > 3"),
    (a_keyword, "compiled code has no tenfold(n=x)"),
    (a_call_of_python, "compiled code has no abs(x)"),
    (the_least_of_three, "compiled code has no min(x, 1, 2)"),
    (not_yet_assigned, "compiled code has no later"),
    (nowhere_assigned, "compiled code has no missing"),
    (identity, "compiled code has no x is OFFSET"),
    (with_block, "compiled code has no with x"),
    (two_kinds, "y has two types: a number and a record"),
]


@pytest.mark.parametrize(("function", "why"), REFUSED, ids=[function.__name__ for function, _ in REFUSED])
def test_what_it_does_not_take_is_refused(function: Callable[..., Any], why: str) -> None:
    with pytest.raises(TypeError) as refused:
        compile_function(function, "made")
    assert why in str(refused.value)
    assert function.__name__ in str(refused.value)


def test_a_function_that_calls_itself_is_refused() -> None:
    with pytest.raises(TypeError, match="factorial: compiled code has no function that calls itself"):
        compile_function(a_circle, "made")


def test_a_refusal_tells_the_line() -> None:
    first = a_fraction.__code__.co_firstlineno
    with pytest.raises(TypeError, match=rf"test_lowering.a_fraction, line {first + 1}: compiled code has no 1.5"):
        compile_function(a_fraction, "made")


# -- what is emitted ---------------------------------------------------------------------------------------------------


def texts(code: types.CodeType) -> Iterator[types.CodeType]:
    """A function's code, and that of the functions in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from texts(constant)


def builders() -> Iterator[tuple[str, types.FunctionType]]:
    """The functions of the VM that are given a builder."""
    for found in pkgutil.walk_packages(wsemu.machine.__path__, f"{wsemu.machine.__name__}."):
        for name, made in vars(importlib.import_module(found.name)).items():
            body = made.body if isinstance(made, Emitted) else made
            if not isinstance(body, types.FunctionType) or body.__module__ != found.name:
                continue
            if "b" in inspect.signature(body).parameters:
                yield f"{found.name}.{name}", body


def test_what_is_emitted_has_no_number_that_depends_on_the_width():
    """It does not see the width: such a number is one of its parameters."""
    bodies = dict(builders())
    assert "wsemu.machine.memory.shadow_cells._unknown" in bodies
    for name, body in bodies.items():
        used = {one for code in texts(body.__code__) for one in code.co_names}
        assert not [one for one in sorted(used) if isinstance(body.__globals__.get(one), ByWidth)], name
