"""A variable has one type over all its assignments that Numba-CUDA types, whether they run or not.

Each kernel computes `u + u` of a uint64 or, where 1.5 is assigned somewhere, a float64: the one wraps, the other does
not.  What Numba-CUDA drops before it types a function has no say.  `tests/properties/door_programs.py` compares with
Numba.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import wsemu
from wsemu import cuda
from wsemu.model.settings import Settings, using

LARGE = 2**63 + 5
NUMBER, NONE_OF_IT, PAIR = 5, 0, (1, 2)


@cuda.jit(device=True)
def unless_none(x, v):
    return 1.5 if x is None else v


@cuda.jit(device=True)
def unless_given(v, n=3):
    return 1.5 if n is None else v


@cuda.jit(device=True)
def unless_large(v, n):
    if n > 5:
        return 1.5
    return v


@cuda.jit(device=True)
def within(v, n):
    u = v
    if n > 5:
        u = 1.5
    return u + u


FLOATS: list[Any] = []
INTEGERS: list[Any] = []


def a_float(kernel: Any) -> Any:
    FLOATS.append(cuda.jit(kernel))
    return kernel


def an_integer(kernel: Any) -> Any:
    INTEGERS.append(cuda.jit(kernel))
    return kernel


# -- what Numba-CUDA does not look into --------------------------------------------------------------------------------
@a_float
def a_number_among_those_of_a_tuple_in_the_kernel(y, o):
    u = y[0]
    if NUMBER in (1, 2):
        u = 1.5
    o[0] = u + u


@an_integer
def a_number_among_those_of_a_tuple_outside(y, o):
    u = y[0]
    if NUMBER in PAIR:
        u = 1.5
    o[0] = u + u


@a_float
def a_number_of_a_module(y, o):
    u = y[0]
    if math.pi > 4:
        u = 1.5
    o[0] = u + u


@a_float
def the_negation_of_being_among(y, o):
    u = 1.5
    if not (NUMBER in PAIR):  # noqa: E713
        u = y[0]
    o[0] = u + u


@an_integer
def the_negation_of_not_being_among(y, o):
    u = y[0]
    if not (NUMBER not in PAIR):
        u = 1.5
    o[0] = u + u


@an_integer
def a_comparison_by_a_name(y, o):
    u = y[0]
    is_large = NUMBER > 9
    again = is_large
    if again:
        u = 1.5
    o[0] = u + u


@a_float
def a_comparison_by_a_name_compared(y, o):
    u = y[0]
    is_large = NUMBER > 9
    if is_large == True:  # noqa: E712
        u = 1.5
    o[0] = u + u


@a_float
def a_comparison_by_a_name_of_two_assignments(y, o):
    u = y[0]
    is_large = NUMBER > 9
    if o[0] > 0:
        is_large = NUMBER > 9
    if is_large:
        u = 1.5
    o[0] = u + u


@a_float
def a_variable_that_a_loop_of_no_round_assigns(y, o):
    u = y[0]
    n = NUMBER
    while n > 9:
        n -= 1
    if n > 9:
        u = 1.5
    o[0] = u + u


@an_integer
def a_variable_that_tests_a_loop_of_no_round(y, o):
    u = y[0]
    n = NUMBER
    while n > 9:
        u = 1.5
    o[0] = u + u


# -- loops -------------------------------------------------------------------------------------------------------------
@a_float
def a_loop_of_known_rounds(y, o):
    u = 1.5
    for _ in range(3):
        u = y[0]
    o[0] = u + u


@a_float
def a_loop_of_no_round(y, o):
    u = y[0]
    for _ in range(0):
        u = 1.5
    o[0] = u + u


@a_float
def a_loop_over_a_tuple(y, o):
    u = 1.5
    for _ in (1, 2, 3):
        u = y[0]
    o[0] = u + u


@a_float
def a_loop_over_an_array_of_known_size(y, o):
    tile = cuda.local.array(4, np.float32)
    u = 1.5
    for _ in range(tile.shape[0]):
        u = y[0]
    o[0] = u + u


@a_float
def a_round_of_a_tuple_before_the_assignment(y, o):
    u = y[0]
    w = 0.0
    for _ in (1, 2):
        w = u + u
        u = y[0] + 0.5
    o[0] = w - u + y[0]


@a_float
def the_variable_of_a_loop_of_no_round(y, o):
    i = y[0]
    for i in range(0):
        o[0] = i
    o[0] = i + i


@a_float
def a_loop_with_else(y, o):
    u = y[0]
    for _ in range(2):
        pass
    else:
        if PAIR[0] > 1:
            u = 1.5
    o[0] = u + u


@a_float
def behind_a_continue_that_is_always_taken(y, o):
    u = y[0]
    pair = (1, 2)
    for _ in range(3):
        if pair[0] == 1:
            continue
        u = 1.5
    o[0] = u + u


@an_integer
def a_while_loop_that_is_known_to_be_entered(y, o):
    n = 3
    u = 1.5
    while n > 0:
        u = y[0]
        n -= 1
    o[0] = u + u


@a_float
def a_while_loop_with_continue(y, o):
    n = 3
    u = 1.5
    while n > 0:
        n -= 1
        if n == 1:
            continue
        u = y[0]
    o[0] = u + u


@an_integer
def a_while_loop_that_is_never_entered(y, o):
    n = 0
    u = y[0]
    while n > 0:
        u = 1.5
        n -= 1
    o[0] = u + u


@an_integer
def an_endless_loop(y, o):
    u = 1.5
    while True:
        u = y[0]
        if u > 0:
            break
    o[0] = u + u


# -- branches that Numba drops -----------------------------------------------------------------------------------------
@an_integer
def a_constant(y, o):
    u = y[0]
    if 1 > 5:
        u = 1.5
    o[0] = u + u


@an_integer
def a_global(y, o):
    u = 1.5
    if NUMBER > 3 and not NONE_OF_IT:
        u = y[0]
    o[0] = u + u


@an_integer
def a_chain(y, o):
    u = y[0]
    if 9 > NUMBER > 7:
        u = 1.5
    o[0] = u + u


@an_integer
def a_variable_of_one_assignment(y, o):
    n = 0
    u = y[0]
    if n > 2:
        u = 1.5
    n = 7
    o[0] = u + u


@an_integer
def the_dimensions_of_an_argument(y, o):
    u = y[0]
    if y.ndim > 1:
        u = 1.5
    o[0] = u + u


@an_integer
def a_nested_function(y, o):
    def inner(v, n):
        if n > 5:
            return 1.5
        return v

    u = inner(y[0], 2)
    o[0] = u + u


@an_integer
def a_default_of_a_nested_function(y, o):
    def inner(v, n=2):
        r = v
        if n > 5:
            r = 1.5
        return r

    u = inner(y[0])
    o[0] = u + u


@an_integer
def a_variable_that_a_dropped_branch_assigns(y, o):
    n = 0
    if NUMBER > 9:
        n = 1
    u = y[0]
    if n:
        u = 1.5
    o[0] = u + u


@an_integer
def a_class_asked_for(y, o):
    u = y[0]
    if isinstance(o[0], int):
        u = 1.5
    o[0] = u + u


@an_integer
def a_case(y, o):
    u = y[0]
    match NUMBER:
        case 3:
            u = 1.5
        case 5:
            pass
    o[0] = u + u


@an_integer
def the_or_of_a_global(y, o):
    u = NONE_OF_IT or y[0]
    o[0] = u + u


@an_integer
def none_and_a_literal(y, o):
    u = unless_none(3, y[0])
    o[0] = u + u


# -- branches that stay ------------------------------------------------------------------------------------------------
@a_float
def a_sum(y, o):
    u = y[0]
    if NUMBER + 1 > 20:
        u = 1.5
    o[0] = u + u


@a_float
def a_variable_computed(y, o):
    n = 0
    n = n + 1
    u = y[0]
    if n > 2:
        u = 1.5
    o[0] = u + u


@a_float
def a_variable_with_one_value_from_two_places(y, o):
    if o[0] > 2:
        n = 3
    else:
        n = 3
    u = y[0]
    if n > 10:
        u = 1.5
    o[0] = u + u


@a_float
def a_variable_that_a_branch_dropped_late_assigns(y, o):
    n = 0
    n = 2
    if n > 9:
        n = 1
    u = y[0]
    if n > 9:
        u = 1.5
    o[0] = u + u


@a_float
def an_item_of_a_tuple(y, o):
    u = y[0]
    if PAIR[0] > 20:
        u = 1.5
    o[0] = u + u


@a_float
def constants_unpacked(y, o):
    a, _ = 1, 2
    u = y[0]
    if a > 5:
        u = 1.5
    o[0] = u + u


@a_float
def the_dimensions_of_a_local_array(y, o):
    tile = cuda.local.array(4, np.int32)
    u = y[0]
    if tile.ndim > 1:
        u = 1.5
    o[0] = u + u


@a_float
def a_parameter(y, o):
    o[0] = within(y[0], 2)


@a_float
def a_return_of_a_parameter(y, o):
    u = unless_large(y[0], 2)
    o[0] = u + u


@a_float
def none_and_a_number(y, o):
    u = unless_none(y.shape[0], y[0])
    o[0] = u + u


@a_float
def none_and_a_default(y, o):
    u = unless_given(y[0])
    o[0] = u + u


@a_float
def a_conditional_expression(y, o):
    u = y[0] if PAIR[0] == 1 else 1.5
    o[0] = u + u


@a_float
def an_assertion_that_fails_by_an_item(y, o):
    u = y[0]
    if o[0] == 0:
        u = y[0]
    else:
        assert PAIR[0] > 1
        u = 1.5
    o[0] = u + u


@an_integer
def a_global_tuple_behind_a_variable(y, o):
    u, pair = y[0], PAIR
    if NUMBER in pair:
        u = 1.5
    if not pair:
        u = 1.5
    o[0] = u + u


@an_integer
def an_empty_tuple(y, o):
    u = y[0]
    if ():
        u = 1.5
    o[0] = u + u


@an_integer
def a_difference_of_constants(y, o):
    u = y[0]
    if NUMBER - 5:
        u = 1.5
    o[0] = u + u


@an_integer
def a_variable_of_what_is_left_of_and(y, o):
    u = y[0]
    in_between = NUMBER > 9 and NUMBER < 20
    if in_between:
        u = 1.5
    is_outside = 9 < NUMBER < 20
    if is_outside:
        u = 1.5
    o[0] = u + u


@an_integer
def a_variable_of_what_is_left_of_a_conditional(y, o):
    u = y[0]
    none = NUMBER if NUMBER > 9 else 0
    if none:
        u = 1.5
    o[0] = u + u


@an_integer
def both_arms_of_a_conditional_are_false(y, o):
    u = y[0]
    if NUMBER > 9 if o[0] > 0 else NUMBER > 8:
        u = 1.5
    o[0] = u + u


@an_integer
def a_variable_that_a_loop_assigns_once(y, o):
    u = y[0]
    for _ in range(3):
        late = 0
    if late:
        u = 1.5
    o[0] = u + u


@an_integer
def a_variable_of_the_function_around(y, o):
    is_large = NUMBER > 9

    def chosen(x):
        if is_large or y.ndim > 1:
            return 1.5
        return x

    u = chosen(y[0])
    o[0] = u + u


@an_integer
def an_item_of_a_tuple_of_numbers(y, o):
    u = y[0]
    if (0, 1)[0]:
        u = 1.5
    o[0] = u + u


@a_float
def a_list_of_numbers(y, o):
    u = y[0]
    if NUMBER in [1, 2]:
        u = 1.5
    o[0] = u + u


@a_float
def an_item_of_a_global_tuple(y, o):
    u, first = y[0], PAIR[0]
    if first > 3:
        u = 1.5
    o[0] = u + u


@a_float
def a_tuple_that_is_passed(y, o):
    def chosen(x, pair):
        if NUMBER in pair:
            return 1.5
        return x

    u = chosen(y[0], (1, 2))
    o[0] = u + u


def result(kernel: Any, engine: Any = "vm") -> float:
    o = np.zeros(1)
    wsemu.check(kernel, 1, 1, (np.array([LARGE], np.uint64), o), engine=engine).assert_clean()
    return float(o[0])


@pytest.mark.parametrize("kernel", FLOATS, ids=lambda k: k.py_func.__name__)
def test_an_assignment_that_is_typed_joins(kernel: Any) -> None:
    assert result(kernel) == 2.0 * LARGE


@pytest.mark.parametrize("kernel", INTEGERS, ids=lambda k: k.py_func.__name__)
def test_an_assignment_that_numba_drops_does_not(kernel: Any) -> None:
    assert result(kernel) == 10


def test_both_engines_have_the_types() -> None:
    assert [result(kernel, "reference") for kernel in (FLOATS[0], INTEGERS[0])] == [2.0 * LARGE, 10]


def test_a_race_that_hangs_on_a_type_is_found() -> None:
    @cuda.jit
    def kernel(y, o):
        t = cuda.threadIdx.x
        u = 1.5
        for _ in range(3):
            u = y[t]
        o[0 if u + u > 1.5e19 else t] = t

    report = wsemu.check(kernel, 1, 64, (np.full(64, LARGE, np.uint64), np.zeros(64, np.int32)))
    assert "race" in {finding.code for finding in report.findings}


def test_a_type_that_numba_does_not_take_back_is_refused() -> None:
    @cuda.jit
    def kernel(y, o):
        z = np.uint8(3)
        w = 0
        for _ in range(3):
            w = z + y[0]  # uint64 of an uint8; of the int16 that z is in the end an int64; a float64 covers both
            z = np.int8(1)  # type: ignore[assignment]
        o[0] = w + w

    with using(Settings(numba_ptx=False)):
        report = wsemu.check(kernel, 1, 1, (np.array([LARGE], np.uint64), np.zeros(1)))
    assert report.verdict == "incomplete"
    assert any("`z + y[0]` is uint64 before" in note for note in report.notes)


# -- code that never runs ----------------------------------------------------------------------------------------------
def test_what_never_runs_takes_no_memory_and_no_instruction() -> None:
    @cuda.jit
    def kernel(o):
        n = PAIR[0]
        if n > 1:
            tile = cuda.shared.array(1 << 20, np.float64)
            tile[0] = 1
            cuda.syncthreads()
        o[0] = n

    o = np.zeros(1)
    wsemu.check(kernel, 1, 1, (o,)).assert_clean()
    assert o[0] == 1


def test_a_type_from_code_that_is_not_modelled_is_refused_when_it_is_used() -> None:
    @cuda.jit
    def kernel(o):
        u = 1
        if PAIR[0] > 1:
            u = [2.5][0]  # type: ignore[assignment]
        o[0] = u + u

    with using(Settings(numba_ptx=False)):
        report = wsemu.check(kernel, 1, 1, (np.zeros(1),))
    assert report.verdict == "incomplete"
    assert any("it never runs, but Numba takes the type of `u` from it" in note for note in report.notes)


def test_code_that_never_runs_and_is_not_modelled_does_no_harm() -> None:
    @cuda.jit
    def kernel(o):
        u = 1
        if PAIR[0] > 1:
            v = [2.5][0]
            o[0] = v
        o[0] = u + u

    o = np.zeros(1)
    wsemu.check(kernel, 1, 1, (o,)).assert_clean()
    assert o[0] == 2
