"""The list: what Numba-CUDA kernels may use, feature by feature by its name.

Each entry of `numba_features.txt` runs as a kernel of one thread and as plain Python on NumPy's arrays, and has to
leave the same in them.
"""

from __future__ import annotations

import cmath
import collections
import enum
import math
import operator
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from wsemu import cuda
from wsemu.launch.check import check


class Kind(enum.Enum):
    ROUND = 1
    FLAT = 2


class Level(enum.IntEnum):
    LOW = 3
    HIGH = 5


Pair = collections.namedtuple("Pair", "x y")
TABLE = (1, 2.5, 3)
CONSTANT = np.arange(6.0).reshape(2, 3)
RECORD = np.dtype([("a", "f8"), ("n", "i4", (3,)), ("inner", [("p", "f4"), ("q", "i4")])], align=True)

LIST = Path(__file__).resolve().parents[1] / "data" / "numba_features.txt"
_, *_PARTS = re.split(r"^# ", LIST.read_text(encoding="utf-8"), flags=re.MULTILINE)
FEATURES = {name: body.rstrip() for name, _, body in (part.partition("\n") for part in _PARTS)}


def arguments() -> dict[str, Any]:
    return {
        "a": np.arange(12.0).reshape(3, 4) / 7 + 0.1,
        "f": np.arange(8) - 2.5,
        "n": np.array([7, -3, 2, 100, 0, 5]),
        "z": np.array([1 + 2j, -0.5 + 0.25j, 3 - 1j]),
        "r": np.zeros(2, RECORD).view(np.recarray),
        "o": np.zeros(8),
    }


NAMES = {
    "cuda": cuda, "np": np, "math": math, "cmath": cmath, "operator": operator, "Kind": Kind, "Level": Level,
    "Pair": Pair, "TABLE": TABLE, "CONSTANT": CONSTANT,
}  # fmt: skip


@pytest.mark.parametrize("name", FEATURES)
def test_feature(name: str) -> None:
    given, wanted = arguments(), arguments()
    given["r"] = given["r"].view(np.ndarray)
    lines = "\n".join(f"    {line}" for line in FEATURES[name].splitlines())
    text = f"def made({', '.join(given)}):\n{lines}\n"
    space = dict(NAMES)
    exec(text, space)
    function: Any = space["made"]
    function.__source__ = text
    check(cuda.jit(function), 1, 1, tuple(given.values())).assert_clean()
    function(**wanted)
    for key, array in given.items():
        if array.dtype.names:
            assert array.tobytes() == wanted[key].tobytes()
        else:
            assert np.allclose(array, wanted[key], rtol=1e-13), key


ELSEWHERE = {
    "names of types, from every import path": "test_signatures_take_types_of_every_path",
    "cuda.config, HAS_NUMBA": "test_config_has_numba_cudas_settings",
    "kernels of exec": "test_a_kernel_of_exec_has_its_source_while_a_program_runs",
    "the second way through PTX": "test_numba_cudas_ptx_is_the_second_way",
    "@overload": "test_overloads_are_chosen_by_type",
    "bfloat16": "test_bfloat16_rounds_once",
    "fp8": "test_every_number_comes_back",
    "record arguments": "test_a_record_is_an_argument_and_launches_write_to_it",
    "libdevice in full": "test_the_list_is_numba_cudas",
    "dates and durations": "test_signs_sizes_and_missing_ones",
    "@vectorize": "test_a_ufunc_takes_the_signature_of_the_dtypes_and_no_other",
    "@guvectorize": "test_a_generalized_ufunc_is_chosen_as_numba_cuda_chooses",
    "cuda.reduce of every dtype": "test_reduce_takes_every_dtype",
    "cuda.random": "test_random_numbers_are_numbas",
    "declare_device and linked PTX": "test_a_function_has_numbas_conventions_and_is_called_in_loops",
    "linked CUDA C++": "test_a_kernel_is_linked_with_cuda_cpp",
    "cooperative groups": "test_a_stencil_of_a_whole_grid_is_verified",
    "the CUDA array interface, DLPack": "test_an_array_that_another_library_lends_is_written_to",
    "print": "test_print_writes_each_type_in_the_gpus_format",
    "order of print": "test_print_comes_cta_after_cta_and_thread_after_thread",
    "raise and assert with debug": "test_with_debug_exceptions_reach_the_host",
    "warnings of performance": "test_a_small_grid_is_warned_of",
    "warnings of options": "test_options_that_do_not_go_together_are_warned_of",
    "events": "test_events_are_over_and_in_order",
    "streams": "test_a_stream_of_each_kind_takes_copies_launches_and_callbacks",
    "dtypes of signatures": "test_an_array_of_another_dtype_fits_no_signature",
    "tuples in signatures": "test_a_signature_declares_tuples",
    "variables that a path does not assign": "test_a_variable_that_a_path_does_not_assign_is_zero_there",
    "IPC handles": "test_handles_for_other_processes_are_refused_by_name",
    "wsemu debug": "test_next_stays_in_the_function_and_step_goes_into_calls",
    "wsemu debug in editors": "test_a_launch_is_stepped_forward_and_back",
}
"""what needs more than one thread's values -> the test of its own that it has"""


def test_the_rest_of_the_list_has_tests_of_its_own() -> None:
    here = "".join(file.read_text(encoding="utf-8") for file in Path(__file__).parent.glob("test_*.py"))
    defined = set(re.findall(r"^def (test_\w+)\(", here, re.MULTILINE))
    assert set(ELSEWHERE.values()) <= defined
