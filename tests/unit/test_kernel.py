"""`cuda.jit` objects and the shape of a launch."""

from __future__ import annotations

import timeit

import numpy as np
import pytest

from wsemu import cuda
from wsemu.launch.kernel import OPTIONS, Kernel, jit
from wsemu.model import settings
from wsemu.model.arch import ARCHS
from wsemu.model.errors import UsageError
from wsemu.model.launch_shape import configure


def scale(x, a):
    """Multiply in place."""
    return x * a


@pytest.mark.parametrize(
    "decorate",
    [
        jit,
        jit(),
        jit("void(float32[:], float32)"),
        jit((cuda.types.float32[:], cuda.types.float32)),
        jit(["void(float32[:], float32)"]),
        jit(fastmath=True, cache=True, max_registers=64, launch_bounds=(256, 2), lineinfo=True),
        jit(func_or_sig=None),
    ],
    ids=["bare", "empty", "string", "tuple", "list", "options", "named"],
)
def test_every_form_of_jit_makes_a_kernel(decorate):
    kernel = decorate(scale)
    assert isinstance(kernel, Kernel)
    assert kernel.py_func is scale
    assert kernel.__name__ == "scale"
    assert kernel.__doc__ == "Multiply in place."
    assert not kernel.device


def test_an_unknown_option_is_named():
    with pytest.raises(UsageError, match=r"`jit` has no option `fast_math`: the options are .*fastmath"):
        jit(fast_math=True)


def test_options_are_kept():
    assert jit(device=True, inline="always")(scale).options == {"inline": "always"}
    assert {"device", "debug", "opt", "lineinfo", "link"} <= set(OPTIONS)


def test_jit_of_a_kernel_is_a_kernel_of_its_function():
    assert jit(jit(scale)).py_func is scale


def test_jit_of_something_else_says_so():
    with pytest.raises(UsageError, match="`jit` decorates a Python function, not 3 of type int"):
        jit(3)  # type: ignore[call-overload]


def test_a_device_function_runs_on_the_host():
    assert jit(device=True)(scale)(3, 4) == 12


def test_a_device_function_cannot_be_launched():
    with pytest.raises(UsageError, match="`scale` is a device function: call it from a kernel"):
        jit(device=True)(scale)[1, 32]


def test_a_kernel_needs_a_launch_configuration():
    with pytest.raises(UsageError, match=r"called without a launch configuration: write `scale\[grid, block\]\(...\)`"):
        jit(scale)(3, 4)


@pytest.mark.parametrize("parameters", [8, (8,), (1, 2, 3, 4, 5, 6)])
def test_the_number_of_launch_parameters_is_checked(parameters):
    with pytest.raises(UsageError, match=r"launch parameters?: write `scale\[grid, block\]`"):
        jit(scale)[parameters]


def test_arguments_go_by_position():
    with pytest.raises(UsageError, match="`scale` was launched with `a=`: give arguments by position"):
        jit(scale)[1, 32](np.zeros(3), a=3)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (8, (8, 1, 1)),
        (np.int64(8), (8, 1, 1)),
        ((8,), (8, 1, 1)),
        ((8, 4), (8, 4, 1)),
        ([8, np.uint8(4), 2], (8, 4, 2)),
    ],
)
def test_dimensions(given, expected):
    configuration = configure(given, given)
    assert configuration.grid == configuration.block == expected


def test_derived_sizes():
    configuration = configure((3, 2), (33, 2), 0, np.int32(1024))
    assert (configuration.threads, configuration.warps, configuration.ctas) == (66, 3, 6)
    assert (configuration.dynamic_shared, configuration.arch) == (1024, "sm_90")


@pytest.mark.parametrize(
    ("grid", "block", "dynamic_shared", "message"),
    [
        (1, 1025, 0, r"block of 1,025 threads: at most 1,024 on sm_90; use a smaller block and a larger grid"),
        (1, (64, 32), 0, r"block of 2,048 threads \(64 x 32 x 1\): at most 1,024 on sm_90"),
        (1, (1, 1, 65), 0, r"block.z is 65: at most 64 on sm_90; put the larger extent on block.x"),
        ((1, 65536), 32, 0, r"grid.y is 65,536: at most 65,535 on sm_90"),
        (2**31, 32, 0, r"grid.x is 2,147,483,648: at most 2,147,483,647 on sm_90; use grid.y too"),
        (0, 32, 0, r"grid 0 is empty: every dimension needs 1 or more"),
        (1, (32, -1), 0, r"block \(32, -1\) is empty"),
        ((1, 1, 1, 1), 32, 0, r"grid \(1, 1, 1, 1\) has 4 dimensions: give one to three"),
        ((), 32, 0, r"grid \(\) has 0 dimensions"),
        (8.0, 32, 0, r"grid has 8.0, of type float, where an int belongs: write 8"),
        (8.5, 32, 0, r"grid has 8.5, of type float, where an int belongs: use `//` for a whole quotient"),
        (float("inf"), 32, 0, r"grid has inf, of type float"),
        ("8", 32, 0, r"grid has '8', of type str, where an int belongs: give an int"),
        (True, 32, 0, r"grid has True, of type bool"),
        (1, None, 0, r"block has None, of type NoneType"),
        (1, 32, -1, r"dynamic shared memory of -1 bytes: give 0 or more"),
        (1, 32, 232449, r"232,449 bytes of dynamic shared memory: at most 232,448 on sm_90; lower `dynamic_shared`"),
        (1, 32, 1e3, r"dynamic shared memory has 1000.0, of type float, where an int belongs: write 1000"),
    ],
)
def test_a_wrong_launch_names_value_limit_and_remedy(grid, block, dynamic_shared, message):
    with pytest.raises(UsageError, match=message):
        configure(grid, block, 0, dynamic_shared)


def test_limits_follow_the_architecture():
    assert ARCHS["sm_90"].limits.warps == 32
    assert configure(1, 512, arch="sm_13").arch == "sm_13"
    with pytest.raises(UsageError, match="block of 513 threads: at most 512 on sm_13"):
        configure(1, 513, arch="sm_13")
    with settings.using(settings.Settings(arch="sm_80")), pytest.raises(UsageError, match="at most 166,912 on sm_80"):
        jit(scale)[1, 32, 0, 200_000]
    assert settings.current().arch == "sm_90"


def test_an_unknown_architecture_is_named():
    with pytest.raises(UsageError, match=r"unknown arch 'sm_99': use one of sm_13, .*sm_90"):
        configure(1, 32, arch="sm_99")


def test_a_launch_configuration_is_fast():
    kernel = jit(scale)
    best = min(timeit.repeat(lambda: kernel[(8, 2), 288, 0, 1024], number=200, repeat=5)) / 200
    assert best < 20e-6
